"""What a drain meets: who holds devices, what is left when one node is out, budgets that block, Pods that do not come back.

The simulation takes one node out, deletes its Pods that use devices, and gives each Pod that something makes again the
first node where it fits: schedulable, its taints tolerated, its labels selected, enough free devices. Affinity, other
resources, partitions and consumable capacity are not looked at, and said where they matter: it is an estimate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, names
from changegen.assess.dra import (
    EXTENDED_CLAIM,
    FINISHED,
    DeviceId,
    DeviceIndex,
    comes_back,
    index,
    owner_text,
    schedulable,
    tolerates,
)
from changegen.i18n import tr
from changegen.model.snapshot import DeviceRequest, DisruptionBudget, Node, PodUse, Toleration
from changegen.model.ticket import BlastRow, CapacityRow, Evidence, Finding
from changegen.quantity import count

__all__ = ["CODES", "Need", "Simulation", "blast_rows", "capacity_rows", "findings", "simulation"]

NODE_OUT = Code(
    code="CG-CAP-001",
    title="Too few free devices when one node is out",
    severity="warning",
    meaning="When a node is drained, Pods with devices cannot all get devices elsewhere: free ones are missing, or lie "
    "behind a node taint, a cordon or a device taint that the Pods do not tolerate.",
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
CODES = (
    NODE_OUT,
    NODE_OUT_UNKNOWN,
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


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a Pod needs of one kind."""

    resource: str
    """Extended resource or DeviceClass: what the row is called."""
    amount: int
    class_name: str = ""
    """Empty: only a device plugin can serve it."""
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    extended: bool = False


class _Shape(msgspec.Struct, frozen=True):
    """What decides on which nodes a Pod may run."""

    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]


def _shape(pod: PodUse) -> _Shape:
    return _Shape(tuple(sorted(pod.node_selector.items())), pod.tolerations)


_Signature = tuple[str, str, tuple[str, ...], tuple[Toleration, ...]]


def _signature(need: Need) -> _Signature:
    """What decides which devices satisfy a need, their number aside."""
    return (need.resource, need.class_name, need.selectors, need.tolerations)


class _Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Free devices for Pods of one kind."""

    open: dict[str, int]
    """Node -> devices that the Pods could get there."""
    total: int
    closed: dict[str, dict[str, int]]
    """Why not -> node -> devices."""
    partitioned: bool
    """Some of them are partitions of one device."""


class Simulation:
    """Free devices of a snapshot, and what fits where."""

    def __init__(self, at: DeviceIndex) -> None:
        self.at = at
        self._outlooks: dict[frozenset[tuple[_Shape, _Signature]], _Outlook] = {}
        self._by_needs: dict[tuple[object, ...], list[str]] = {}
        self._eligible: dict[_Shape, dict[str, str]] = {}
        self._free: dict[
            tuple[str, tuple[str, ...], tuple[Toleration, ...]], dict[str, tuple[DeviceId, ...]]
        ] = {}

    # -- nodes ---------------------------------------------------------------------------------------------------

    def obstacles(self, pod: PodUse) -> dict[str, str]:
        """Node -> why a Pod may not run there; empty text: it may."""
        shape = _shape(pod)
        found = self._eligible.get(shape)
        if found is None:
            found = {name: self._obstacle(node, shape) for name, node in self.at.nodes.items()}
            self._eligible[shape] = found
        return found

    @staticmethod
    def _obstacle(node: Node, shape: _Shape) -> str:
        if node.unschedulable:
            return tr("cordoned")
        if not schedulable(node):
            return tr("not ready")
        for taint in node.taints:
            if taint.effect in {"NoSchedule", "NoExecute"} and not tolerates(shape.tolerations, taint):
                value = f"={taint.value}" if taint.value else ""
                return tr("behind node taint {taint}", taint=f"{taint.key}{value}:{taint.effect}")
        for key, wanted in shape.selector:
            if node.labels.get(key) != wanted:
                return tr("not selected by {selector}", selector=f"{key}={wanted}")
        return ""

    # -- needs ---------------------------------------------------------------------------------------------------

    def needs(self, pod: PodUse) -> tuple[Need, ...]:
        """What a new Pod like this one would need. Of alternatives (`firstAvailable`) the first is taken."""
        found: list[Need] = []
        totals: defaultdict[str, int] = defaultdict(int)
        for ask in pod.asks:
            totals[ask.resource] += count(ask.quantity)
        for resource, total in sorted(totals.items()):
            device_class = self.at.class_of_resource.get(resource)
            name = device_class.name if device_class is not None else ""
            found.append(Need(resource=resource, amount=total, class_name=name, extended=True))
        for use in pod.claims:
            if use.pod_claim == EXTENDED_CLAIM:
                continue
            for request in _first(self._requests(pod, use.claim, use.template)):
                if request.admin_access:
                    continue
                amount = request.count
                if amount is None:
                    amount = len(self.at.certain_members(request.device_class, request.selectors))
                found.append(
                    Need(
                        resource=request.device_class,
                        amount=amount,
                        class_name=request.device_class,
                        selectors=request.selectors,
                        tolerations=request.tolerations,
                    )
                )
        return tuple(found)

    @cached_property
    def _templates(self) -> dict[tuple[str, str], tuple[DeviceRequest, ...]]:
        return {(t.namespace, t.name): t.requests for t in self.at.snapshot.claim_templates}

    def _requests(self, pod: PodUse, claim: str, template: str) -> tuple[DeviceRequest, ...]:
        found = self.at.claims.get((pod.namespace, claim)) if claim else None
        if found is not None:
            return found.requests
        return self._templates.get((pod.namespace, template), ())

    # -- devices -------------------------------------------------------------------------------------------------

    def free(self, need: Need) -> dict[str, tuple[DeviceId, ...]]:
        """Node -> free devices that would satisfy a need; `""` has those that belong to no single node."""
        key = (need.class_name, need.selectors, need.tolerations)
        found = self._free.get(key)
        if found is None:
            by: defaultdict[str, list[DeviceId]] = defaultdict(list)
            for device in self.at.certain_members(need.class_name, need.selectors) if need.class_name else ():
                if self.at.free(device) and not self.at.closed(device, need.tolerations):
                    by[self.at.devices[device].node or ""].append(device)
            found = self._free[key] = {node: tuple(devices) for node, devices in by.items()}
        return found

    @cached_property
    def _plugin_used(self) -> dict[tuple[str, str], int]:
        used: defaultdict[tuple[str, str], int] = defaultdict(int)
        for pod in self.at.snapshot.pods:
            if pod.node and pod.phase not in FINISHED:
                for ask in pod.asks:
                    used[pod.node, ask.resource] += count(ask.quantity)
        return used

    def by_plugin(self, node: str, resource: str) -> bool:
        """Whether a node's device plugin serves a resource: then the scheduler looks at no DeviceClass for it there."""
        found = self.at.nodes.get(node)
        return found is not None and count(found.allocatable.get(resource, "0")) > 0

    def plugin_free(self, node: str, resource: str) -> int:
        """What a device plugin has left of a resource on a node."""
        found = self.at.nodes.get(node)
        total = count(found.allocatable.get(resource, "0")) if found is not None else 0
        return max(total - self._plugin_used.get((node, resource), 0), 0)

    def available(self, node: str, need: Need) -> int:
        """Devices free for a need on one node, before anything of a simulation is placed."""
        if need.extended and self.by_plugin(node, need.resource):
            return self.plugin_free(node, need.resource)
        free = self.free(need)
        return len(free.get(node, ())) + len(free.get("", ()))

    def fits(
        self,
        node: str,
        needs: Iterable[Need],
        taken: set[DeviceId],
        plugin_taken: Mapping[tuple[str, str], int],
    ) -> tuple[list[DeviceId], dict[tuple[str, str], int]] | None:
        """Devices that satisfy all needs on a node and are not taken; None where it does not fit."""
        chosen: list[DeviceId] = []
        plugin: dict[tuple[str, str], int] = {}
        for need in needs:
            if need.extended and self.by_plugin(node, need.resource):
                key = (node, need.resource)
                used = plugin_taken.get(key, 0) + plugin.get(key, 0)
                if self.plugin_free(node, need.resource) - used < need.amount:
                    return None
                plugin[key] = plugin.get(key, 0) + need.amount
                continue
            free = self.free(need)
            got = 0
            for device in (*free.get(node, ()), *free.get("", ())):
                if got == need.amount:
                    break
                shared = self.at.devices[device].allow_multiple_allocations
                if not shared and (device in taken or device in chosen):
                    continue
                chosen.append(device)
                got += 1
            if got < need.amount:
                return None
        return [d for d in chosen if not self.at.devices[d].allow_multiple_allocations], plugin

    # -- one node out --------------------------------------------------------------------------------------------

    @cached_property
    def users_by_node(self) -> dict[str, tuple[PodUse, ...]]:
        """Pods with devices that hold a place on a node and that a drain would move; DaemonSet Pods stay."""
        by: defaultdict[str, list[PodUse]] = defaultdict(list)
        for pod in self.at.snapshot.pods:
            daemon = pod.owner is not None and pod.owner.kind == "DaemonSet"
            if pod.uses_devices and pod.node and pod.phase not in FINISHED and not daemon:
                by[pod.node].append(pod)
        return {node: tuple(pods) for node, pods in sorted(by.items())}

    def node_out(self, node: str) -> tuple[CapacityRow, ...]:
        """What is left when a node is drained, a row for each resource of its Pods."""
        here = self.users_by_node.get(node, ())
        movers = [(pod, needs) for pod in here if comes_back(pod.owner) and (needs := self.needs(pod))]
        movers.sort(key=lambda pair: (-sum(n.amount for n in pair[1]), pair[0].namespace, pair[0].name))
        taken: set[DeviceId] = set()
        plugin: dict[tuple[str, str], int] = {}
        left: list[tuple[PodUse, tuple[Need, ...]]] = []
        for pod, needs in movers:
            obstacles = self.obstacles(pod)
            for candidate in self._candidates(needs):
                if candidate == node or obstacles.get(candidate, "") or candidate not in obstacles:
                    continue
                placed = self.fits(candidate, needs, taken, plugin)
                if placed is not None:
                    taken.update(placed[0])
                    for key, amount in placed[1].items():
                        plugin[key] = plugin.get(key, 0) + amount
                    break
            else:
                left.append((pod, needs))
        bare = [pod for pod in here if not comes_back(pod.owner)]
        return tuple(self._row(node, resource, movers, left, bare) for resource in _resources(movers))

    @cached_property
    def rows(self) -> tuple[CapacityRow, ...]:
        """One node out, for every node that has Pods with devices; in the language in force when first asked."""
        return tuple(row for node in self.users_by_node for row in self.node_out(node))

    def _candidates(self, needs: tuple[Need, ...]) -> list[str]:
        """Nodes with something of the scarcest need: the fewest there are."""
        key = tuple(_signature(need) for need in needs)
        found = self._by_needs.get(key)
        if found is None:
            found = self._by_needs[key] = self._with_devices(needs)
        return found

    def _with_devices(self, needs: tuple[Need, ...]) -> list[str]:
        best: list[str] | None = None
        for need in needs:
            free = self.free(need)
            if "" in free:
                continue
            nodes = set(free)
            if need.extended:
                nodes.update(n for n in self._plugin_nodes.get(need.resource, ()))
            if best is None or len(nodes) < len(best):
                best = sorted(nodes)
        return sorted(self.at.nodes) if best is None else best

    @cached_property
    def _plugin_nodes(self) -> dict[str, tuple[str, ...]]:
        by: defaultdict[str, list[str]] = defaultdict(list)
        for name, node in self.at.nodes.items():
            for resource, text in node.allocatable.items():
                if "/" in resource and count(text) > 0:
                    by[resource].append(name)
        return {resource: tuple(found) for resource, found in by.items()}

    def _row(
        self,
        node: str,
        resource: str,
        movers: list[tuple[PodUse, tuple[Need, ...]]],
        left: list[tuple[PodUse, tuple[Need, ...]]],
        bare: list[PodUse],
    ) -> CapacityRow:
        concerned = [(pod, need) for pod, needs in movers for need in needs if need.resource == resource]
        outlook = self._outlook(concerned)
        reasons = []
        for why, found in sorted(outlook.closed.items()):
            nodes = {name: n for name, n in found.items() if name != node}
            if nodes:
                reasons.append(
                    tr("{n} free on {nodes} {why}", n=sum(nodes.values()), nodes=names(nodes), why=why)
                )
        if bare:
            reasons.append(tr("{n} Pods without a controller do not come back", n=len(bare)))
        if any(pod.has_affinity for pod, _ in concerned):
            reasons.append(tr("affinity of Pods was not looked at"))
        if outlook.partitioned:
            reasons.append(tr("free partitions of one device may exclude each other"))
        waiting = {
            (pod.namespace, pod.name) for pod, needs in left if any(n.resource == resource for n in needs)
        }
        return CapacityRow(
            node=node,
            resource=resource,
            displaced=sum(need.amount for _, need in concerned),
            free_elsewhere=outlook.total - outlook.open.get(node, 0),
            pending=len(waiting),
            why="; ".join(reasons),
            pods=tuple(sorted({f"{pod.namespace}/{pod.name}" for pod, _ in concerned})),
        )

    def _outlook(self, concerned: list[tuple[PodUse, Need]]) -> _Outlook:
        """Free devices by node for these Pods together, in reach or not; made once for Pods and needs of one kind."""
        kinds = {(_shape(pod), _signature(need)): (pod, need) for pod, need in concerned}
        key = frozenset(kinds)
        found = self._outlooks.get(key)
        if found is not None:
            return found
        reach: dict[str, int] = {}
        closed: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for pod, need in kinds.values():
            obstacles = self.obstacles(pod)
            for name in self._candidates((need,)):
                amount = self.available(name, need)
                if not amount:
                    continue
                why = obstacles.get(name, tr("not among the nodes read"))
                if why:
                    closed[why][name] = max(amount, closed[why].get(name, 0))
                else:
                    reach[name] = max(amount, reach.get(name, 0))
        found = self._outlooks[key] = _Outlook(
            open=reach,
            total=sum(reach.values()),
            partitioned=any(self._partitioned(need) for _, need in kinds.values()),
            closed={
                why: left
                for why, nodes in closed.items()
                if (left := {name: n for name, n in nodes.items() if name not in reach})
            },
        )
        return found

    def _partitioned(self, need: Need) -> bool:
        return any(
            self.at.devices[device].consumes_counters
            for devices in self.free(need).values()
            for device in devices
        )


def _first(requests: Iterable[DeviceRequest]) -> list[DeviceRequest]:
    kept: list[DeviceRequest] = []
    seen: set[str] = set()
    for request in requests:
        if request.alternative_of:
            if request.alternative_of in seen:
                continue
            seen.add(request.alternative_of)
        kept.append(request)
    return kept


def _resources(movers: Iterable[tuple[PodUse, tuple[Need, ...]]]) -> list[str]:
    return sorted({need.resource for _, needs in movers for need in needs})


_simulations: Final[WeakKeyDictionary[Context, Simulation]] = WeakKeyDictionary()


def simulation(ctx: Context) -> Simulation:
    """The simulation of an assessment's snapshot, made once."""
    found = _simulations.get(ctx)
    if found is None:
        found = _simulations[ctx] = Simulation(index(ctx))
    return found


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
    groups: defaultdict[tuple[str, str], list[PodUse]] = defaultdict(list)
    for pod in ctx.snapshot.pods:
        if pod.uses_devices and pod.node and pod.phase not in FINISHED:
            groups[pod.namespace, owner_text(pod.owner) or f"Pod/{pod.name}"].append(pod)
    rows = []
    for (namespace, owner), pods in sorted(groups.items()):
        devices = 0
        resources: set[str] = set()
        for pod in pods:
            held = set(at.devices_of_pod(pod))
            plugin = [
                ask for ask in pod.asks if not pod.extended_claim and made.by_plugin(pod.node, ask.resource)
            ]
            devices += len(held) + sum(count(ask.quantity) for ask in plugin)
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
                devices=devices,
                resources=tuple(sorted(resources)),
                comes_back=comes_back(pods[0].owner),
                disruption="; ".join(_allows(budget) for _, budget in sorted(guards.items())),
            )
        )
    return tuple(rows)


def _allows(budget: DisruptionBudget) -> str:
    if budget.disruptions_allowed is None:
        return tr("budget {name}: not known what it allows", name=budget.name)
    return tr("budget {name} allows {n} disruptions", name=budget.name, n=budget.disruptions_allowed)


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
            component="Node",
            name="devices",
        )
        return
    by: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    for row in capacity_rows(ctx):
        if row.pending:
            by[row.resource].append(row)
    for resource, rows in sorted(by.items()):
        worst = sorted(rows, key=lambda row: (-row.pending, -row.displaced, row.node))
        shown = "; ".join(
            tr(
                "{node}: {displaced} devices needed elsewhere, {free} free, {pending} Pods Pending",
                node=row.node,
                displaced=row.displaced,
                free=row.free_elsewhere,
                pending=row.pending,
            )
            for row in worst[:4]
        )
        why = "; ".join(dict.fromkeys(part for row in worst[:4] for part in row.why.split("; ") if part))
        yield finding(
            NODE_OUT,
            tr(
                "Draining {nodes} leaves Pods Pending for {resource} ({shown})",
                nodes=names(row.node for row in rows),
                resource=resource,
                shown=shown,
            )
            + (f"; {why}" if why else ""),
            component="Node",
            instances=[row.node for row in rows],
            name=resource,
            evidence=[
                Evidence(
                    source="ResourceSlices, ResourceClaims, Nodes",
                    path=row.node,
                    value=tr(
                        "{displaced} needed, {free} free elsewhere, {pending} Pods Pending",
                        displaced=row.displaced,
                        free=row.free_elsewhere,
                        pending=row.pending,
                    ),
                    provenance="api object",
                )
                for row in rows[:20]
            ],
        )


def _budgets(ctx: Context) -> Iterator[Finding]:
    pods = ctx.pods
    for budget in ctx.snapshot.disruption_budgets:
        subject = f"{budget.namespace}/{budget.name}"
        bound = sorted(
            {
                pod.node
                for name in budget.pods
                if (pod := pods.get(f"{budget.namespace}/{name}")) is not None and pod.node
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
                "{budget} allows no disruption: {healthy} of {desired} needed Pods are healthy",
                budget=subject,
                healthy="?" if budget.current_healthy is None else budget.current_healthy,
                desired="?" if budget.desired_healthy is None else budget.desired_healthy,
            )
            if bound:
                text += "; " + tr("drains of {nodes} hang", nodes=names(bound))
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
        if len(budgets) > 1:
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
    bare = [
        pod
        for pod in ctx.snapshot.pods
        if pod.owner is None and not pod.owner_chain and pod.phase not in FINISHED
    ]
    if not bare:
        return
    using = [pod for pod in bare if pod.uses_devices]
    listed = [f"{pod.namespace}/{pod.name}" for pod in bare]
    text = tr("{n} Pods have no controller and do not come back: {pods}", n=len(bare), pods=names(listed))
    if using:
        text += "; " + tr("{n} of them use devices", n=len(using))
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
            tr("{n} Pods with devices have emptyDir volumes: {pods}", n=len(found), pods=names(found)),
            component="Pod",
            instances=found,
        )
