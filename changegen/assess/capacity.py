"""What a drain meets: who holds devices, what is left when one node is out, budgets that block, Pods that do not come back.

What is left is told by `changegen.assess.simulation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, names
from changegen.assess.dra import (
    FINISHED,
    asked,
    asks_budgets,
    comes_back,
    index,
    owner_text,
)
from changegen.assess.simulation import simulation
from changegen.i18n import tr, trn
from changegen.model.snapshot import (
    DisruptionBudget,
    PodUse,
)
from changegen.model.ticket import BlastRow, CapacityRow, Evidence, Finding

__all__ = ["CODES", "blast_rows", "capacity_rows", "findings"]

NODE_OUT = Code(
    code="CG-CAP-001",
    title="Too few free devices when one node is out",
    severity="warning",
    meaning="When a node is drained, Pods with devices cannot all get devices elsewhere: free ones are missing, are partitions "
    "or shares that do not fit beside those in use, or lie behind a node taint, a cordon, a device taint, a node "
    "selector or affinity, or on nodes with too little CPU or memory left. An estimate: Pods without devices that leave "
    "the same node are not placed.",
    remedy="Free devices before the drain, let the workload run with fewer Pods for that time, or accept the Pending Pods "
    "with their owner.",
)
NODE_OUT_UNKNOWN = Code(
    code="CG-CAP-002",
    title="Free devices cannot be counted",
    severity="info",
    meaning="A kind that the count needs was not read, so what a drain leaves Pending is not known.",
    remedy="Read ResourceSlices, ResourceClaims, Pods and Nodes.",
)
BUDGET_BLOCKS = Code(
    code="CG-PDB-001",
    title="PodDisruptionBudget that blocks drains",
    severity="warning",
    meaning="A budget allows no disruption now: `kubectl drain` of the nodes of its Pods retries until its timeout.",
    remedy="Scale the workload up, or relax the budget with its owner for the time of the change.",
)
BUDGETS_OVERLAP = Code(
    code="CG-PDB-002",
    title="Pod under more than one PodDisruptionBudget",
    severity="warning",
    meaning="The eviction API refuses to evict a Pod that more than one budget selects; a drain never ends.",
    remedy="Let one budget select the Pod.",
)
BUDGET_STALE = Code(
    code="CG-PDB-003",
    title="PodDisruptionBudget whose status lags",
    severity="info",
    meaning="The status of a budget is of an older generation of it: what it allows now is not known.",
    remedy="Read it again; look at the disruption controller of kube-controller-manager where it stays so.",
)
LOCAL_STORAGE = Code(
    code="CG-DRAIN-001",
    title="Pods with emptyDir volumes",
    severity="info",
    meaning="Pods that use devices have emptyDir volumes: `kubectl drain` refuses without --delete-emptydir-data, and their "
    "content is lost.",
    remedy="Ask the owners, then drain with --delete-emptydir-data.",
)
BARE_PODS = Code(
    code="CG-DRAIN-002",
    title="Pods that do not come back",
    severity="warning",
    others=("info",),
    meaning="Pods without a controller: `kubectl drain` refuses without --force, and nothing makes them again.",
    remedy="Ask the owners; save what is needed to make them again.",
)
NODE_OUT_UNDECIDED = Code(
    code="CG-CAP-003",
    title="Cannot tell whether Pods find devices when one node is out",
    severity="info",
    meaning="Devices are free elsewhere for Pods of a node that is drained, and something that decides on their nodes cannot be "
    "judged from a snapshot: affinity between Pods, spreading, volumes, host ports, another scheduler, or CPU and "
    "memory that were not read.",
    remedy="Look at what is named with the owners of the Pods, or try the drain of one node first.",
)
CODES = (
    NODE_OUT,
    NODE_OUT_UNKNOWN,
    NODE_OUT_UNDECIDED,
    BUDGET_BLOCKS,
    BUDGETS_OVERLAP,
    BUDGET_STALE,
    LOCAL_STORAGE,
    BARE_PODS,
)

_NEEDED: Final = (
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "pods",
    "nodes",
)


def capacity_rows(ctx: Context) -> tuple[CapacityRow, ...]:
    """One node out, for every node that has Pods with devices."""
    return simulation(ctx).rows


# ------------------------------------------------------------------------------------------------------------- blast


def _budgets_of(ctx: Context) -> dict[tuple[str, str], list[DisruptionBudget]]:
    by: defaultdict[tuple[str, str], list[DisruptionBudget]] = defaultdict(list)
    for budget in ctx.snapshot.disruption_budgets:
        for pod in budget.pods:
            by[budget.namespace, pod].append(budget)
    return by


def blast_rows(ctx: Context) -> tuple[BlastRow, ...]:
    """Who holds devices, by workload; a bare Pod is its own row."""
    at = index(ctx)
    made = simulation(ctx)
    budgets = _budgets_of(ctx)
    claims_read = "resourceclaims.resource.k8s.io" in ctx.snapshot.kinds_read
    groups: defaultdict[tuple[str, str], list[PodUse]] = defaultdict(list)
    for pod in ctx.snapshot.pods:
        if pod.uses_devices and pod.node and pod.phase not in FINISHED:
            groups[pod.namespace, owner_text(pod.owner) or f"Pod/{pod.name}"].append(pod)
    rows = []
    for (namespace, owner), pods in sorted(groups.items()):
        devices = 0
        unread = False
        resources: set[str] = set()
        for pod in pods:
            held = set(at.devices_of_pod(pod))
            unread = unread or (not claims_read and bool(pod.claims) and not held)
            plugin = (
                number
                for resource, number in asked(pod).items()
                if not pod.extended_claim and made.by_plugin(pod.node, resource)
            )
            devices += len(held) + sum(plugin)
            resources.update(ask.resource for ask in pod.asks)
            for claim in at.claims_of_pod.get((pod.namespace, pod.name), ()):
                if not claim.extended_resource:
                    resources.update(
                        request.device_class for request in claim.requests if request.device_class
                    )
        guards = {b.name: b for pod in pods for b in budgets.get((pod.namespace, pod.name), ())}
        rows.append(
            BlastRow(
                owner=owner,
                namespace=namespace,
                pods=tuple(sorted(pod.name for pod in pods)),
                nodes=tuple(sorted({pod.node for pod in pods})),
                devices=None if unread else devices,
                resources=tuple(sorted(resources)),
                comes_back=comes_back(pods[0].owner),
                disruption="; ".join(_allows(budget) for _, budget in sorted(guards.items())),
            )
        )
    return tuple(rows)


def _allows(budget: DisruptionBudget) -> str:
    if budget.disruptions_allowed is None:
        return tr("budget {name}: not known what it allows", name=budget.name)
    return trn(
        "budget {name} allows {n} disruption",
        "budget {name} allows {n} disruptions",
        n=budget.disruptions_allowed,
        name=budget.name,
    )


# ---------------------------------------------------------------------------------------------------------- findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on capacity and drains."""
    yield from _node_out(ctx)
    yield from _budgets(ctx)
    yield from _bare(ctx)
    yield from _local_storage(ctx)


def _node_out(ctx: Context) -> Iterator[Finding]:
    users = [pod for pod in ctx.snapshot.pods if pod.uses_devices]
    if not users:
        return
    missing = [kind for kind in _NEEDED if kind not in ctx.snapshot.kinds_read]
    if missing:
        yield finding(
            NODE_OUT_UNKNOWN,
            tr("Not read: {kinds}; what a drain leaves Pending is not known", kinds=", ".join(missing)),
            component="devices",
        )
        return
    by: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    open_: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    for row in capacity_rows(ctx):
        if row.pending:
            by[row.resource].append(row)
        elif row.undecided:
            open_[row.resource].append(row)
    yield from _undecided(open_)
    for resource, rows in sorted(by.items()):
        worst = sorted(rows, key=lambda row: (-row.pending, -row.displaced, row.node))
        shown = "; ".join(
            tr(
                "{node}: {displaced} needed elsewhere, {free} free, {pending} Pending",
                node=row.node,
                displaced=trn("{n} device", "{n} devices", n=row.displaced),
                free=row.free_elsewhere,
                pending=trn("{n} Pod", "{n} Pods", n=row.pending),
            )
            for row in worst[:4]
        )
        why = "; ".join(dict.fromkeys(part for row in worst[:4] for part in row.why.split("; ") if part))
        yield finding(
            NODE_OUT,
            trn(
                "Draining {nodes} leaves Pods Pending for {resource} ({shown})",
                "Draining one of {nodes} leaves Pods Pending for {resource} ({shown})",
                n=len(rows),
                nodes=names(row.node for row in rows),
                resource=resource,
                shown=shown,
            )
            + (f"; {why}" if why else ""),
            component="devices",
            instances=[row.node for row in rows],
            name=resource,
            evidence=[
                Evidence(
                    source="ResourceSlices, ResourceClaims, Nodes",
                    path=row.node,
                    value=tr(
                        "{displaced} needed, {free} free elsewhere, {pending} Pending",
                        displaced=trn("{n} device", "{n} devices", n=row.displaced),
                        free=row.free_elsewhere,
                        pending=trn("{n} Pod", "{n} Pods", n=row.pending),
                    ),
                    provenance="api object",
                )
                for row in rows[:20]
            ],
        )


def _undecided(rows: Mapping[str, list[CapacityRow]]) -> Iterator[Finding]:
    for resource, found in sorted(rows.items()):
        pods = sorted({pod for row in found for pod in row.pods})
        why = dict.fromkeys(part for row in found for part in row.why.split("; ") if part)
        yield finding(
            NODE_OUT_UNDECIDED,
            tr(
                "Draining one of {nodes}: devices of {resource} are free elsewhere for {pods}; {why}",
                nodes=names(row.node for row in found),
                resource=resource,
                pods=names(pods),
                why="; ".join(why),
            ),
            component="devices",
            instances=[row.node for row in found],
            name=resource,
        )


def _budgets(ctx: Context) -> Iterator[Finding]:
    pods = ctx.pods
    for budget in ctx.snapshot.disruption_budgets:
        subject = f"{budget.namespace}/{budget.name}"
        bound = sorted(
            {
                pod.node
                for name in budget.pods
                if (pod := pods.get(f"{budget.namespace}/{name}")) is not None and asks_budgets(pod)
            }
        )
        if not budget.observed:
            yield finding(
                BUDGET_STALE,
                tr("The status of {budget} is of an older generation", budget=subject),
                component="PodDisruptionBudget",
                name=subject,
            )
        elif budget.disruptions_allowed == 0 and (budget.expected_pods or bound):
            text = tr(
                "{budget} allows no disruption: {healthy} healthy, {desired} needed",
                budget=subject,
                healthy=tr("an unknown number")
                if budget.current_healthy is None
                else trn("{n} Pod", "{n} Pods", n=budget.current_healthy),
                desired=tr("an unknown number") if budget.desired_healthy is None else budget.desired_healthy,
            )
            if bound:
                text += "; " + trn(
                    "the drain of {nodes} hangs", "drains of {nodes} hang", n=len(bound), nodes=names(bound)
                )
            yield finding(
                BUDGET_BLOCKS,
                text,
                component="PodDisruptionBudget",
                instances=bound,
                name=subject,
                evidence=[
                    Evidence(
                        source=f"PodDisruptionBudget {subject}",
                        path="status.disruptionsAllowed",
                        value="0",
                        provenance="api object",
                    )
                ],
            )
    for (namespace, name), budgets in sorted(_budgets_of(ctx).items()):
        known = pods.get(f"{namespace}/{name}")
        if len(budgets) > 1 and (known is None or asks_budgets(known)):
            yield finding(
                BUDGETS_OVERLAP,
                tr(
                    "{pod} is selected by {budgets}: it cannot be evicted",
                    pod=f"{namespace}/{name}",
                    budgets=", ".join(sorted(b.name for b in budgets)),
                ),
                component="Pod",
                name=f"{namespace}/{name}",
            )


def _bare(ctx: Context) -> Iterator[Finding]:
    # A drain takes the Pods of its node: one that waits for a node stays as it is.
    bare = [
        pod
        for pod in ctx.snapshot.pods
        if pod.node and pod.owner is None and not pod.owner_chain and pod.phase not in FINISHED
    ]
    if not bare:
        return
    using = [pod for pod in bare if pod.uses_devices]
    listed = [f"{pod.namespace}/{pod.name}" for pod in bare]
    text = trn(
        "{n} Pod has no controller and does not come back: {pods}",
        "{n} Pods have no controller and do not come back: {pods}",
        n=len(bare),
        pods=names(listed),
    )
    if using and len(bare) > 1:
        text += "; " + trn("{n} of them uses devices", "{n} of them use devices", n=len(using))
    elif using:
        text += "; " + tr("it uses devices")
    yield finding(
        BARE_PODS,
        text,
        component="Pod",
        instances=listed,
        evidence=[
            Evidence(source=f"Pod {name}", path="metadata.ownerReferences", value="", provenance="api object")
            for name in sorted(listed)[:20]
        ],
    )


def _local_storage(ctx: Context) -> Iterator[Finding]:
    found = [
        f"{pod.namespace}/{pod.name}"
        for pod in ctx.snapshot.pods
        if pod.uses_devices
        and pod.local_storage
        and pod.node
        and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
    ]
    if found:
        yield finding(
            LOCAL_STORAGE,
            trn(
                "{n} Pod with devices has emptyDir volumes: {pods}",
                "{n} Pods with devices have emptyDir volumes: {pods}",
                n=len(found),
                pods=names(found),
            ),
            component="Pod",
            instances=found,
        )
