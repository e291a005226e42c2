"""What the owners of workloads must decide before nodes are drained, and what they put back afterwards.

A budget is relaxed by a number that a drain can live with: the Pods that run while the node is out, by the count of free
devices (changegen.assess.capacity). Scaling up is offered only where one more Pod finds a device with the node out too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from changegen.i18n import tr
from changegen.model.snapshot import DisruptionBudget, PodUse, WorkloadRef
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.saved import pod_file, saved_once
from changegen.plan.scene import Drain, HopPlan, Scene
from changegen.plan.steps.common import command, names
from changegen.shell import quoted, word

__all__ = ["Relaxed", "budgets_back", "people", "relaxed", "restore_command"]

_PEOPLE = ("PDB", "CAP", "DRAIN", "WEBHOOK")
"""Areas of findings that need a decision of the workload's owner before a drain."""


class Relaxed(msgspec.Struct, frozen=True, kw_only=True):
    """How a budget can let a drain pass."""

    budget: DisruptionBudget
    field: str
    """minAvailable or maxUnavailable."""
    value: int
    allowed: int
    """Disruptions that it allows then."""
    running: int
    """Pods that run while the worst node is out."""
    owner: WorkloadRef | None
    scale: int | None
    """Replicas with which the budget as it is lets the drain pass; None: they would find no device, or it is not known."""
    short: tuple[str, ...] = ()
    """Resources of which there are not enough for its Pods with a node out."""
    elsewhere: str = ""
    """Free devices that its Pods do not reach, and why."""


def relaxed(scene: Scene, budget: DisruptionBudget, nodes: Sequence[str]) -> Relaxed | None:
    """What lets the drains of these nodes pass; None where the numbers of the budget were not read."""
    healthy, expected = budget.current_healthy, budget.expected_pods
    if healthy is None or expected is None or healthy < 1:
        return None
    own = {f"{budget.namespace}/{name}" for name in budget.pods}
    rows = [row for row in scene.capacity if row.node in nodes and own & set(row.pods)]
    short = max((min(row.pending, len(own & set(row.pods))) for row in rows), default=0)
    short = min(max(1, short), healthy)
    field, value = (
        ("maxUnavailable", expected - healthy + short)
        if budget.max_unavailable
        else ("minAvailable", healthy - short)
    )
    pods = [pod for pod in scene.snapshot.pods if f"{pod.namespace}/{pod.name}" in own]
    owners = {(pod.owner.kind, pod.owner.namespace, pod.owner.name): pod.owner for pod in pods if pod.owner}
    owner = next(iter(owners.values())) if len(owners) == 1 else None
    room = bool(rows) and all(
        not row.pending and row.free_elsewhere - row.displaced >= _of_one(pods, row.resource) for row in rows
    )
    plain = budget.min_available.isdigit() and int(budget.min_available) == healthy == expected
    scalable = owner is not None and owner.kind in ("Deployment", "StatefulSet") and plain
    return Relaxed(
        budget=budget,
        field=field,
        value=value,
        allowed=short,
        running=healthy - short,
        owner=owner,
        scale=expected + 1 if scalable and room else None,
        short=tuple(sorted({row.resource for row in rows if row.pending})),
        elsewhere=_behind_taints(scene, [row.why for row in rows if row.pending]),
    )


def _behind_taints(scene: Scene, reasons: Sequence[str]) -> str:
    """Of the reasons why devices are not reached, those that are a node's taint."""
    keys = {taint.key for node in scene.snapshot.nodes for taint in node.taints}
    pieces = dict.fromkeys(piece for reason in reasons for piece in reason.split("; "))
    return "; ".join(piece for piece in pieces if any(key in piece for key in keys))


def _of_one(pods: Sequence[PodUse], resource: str) -> int:
    """Devices that one more of these Pods needs; at least one."""
    asked = [
        int(ask.quantity)
        for pod in pods
        for ask in pod.asks
        if ask.resource == resource and ask.quantity.isdigit()
    ]
    return max(asked, default=1) or 1


def _patch(budget: DisruptionBudget, field: str, value: int | str) -> Command:
    patch = json.dumps({"spec": {field: value}}, separators=(",", ":"))
    return command(
        f"kubectl -n {quoted(budget.namespace)} patch poddisruptionbudget {quoted(budget.name)} --type=merge -p {quoted(patch)}",
        write=True,
    )


def restore_command(budget: DisruptionBudget) -> Command:
    """Puts a budget's own number back: an int stays an int, a percentage is text."""
    field, value = (
        ("minAvailable", budget.min_available)
        if budget.min_available
        else ("maxUnavailable", budget.max_unavailable)
    )
    return _patch(budget, field, int(value) if value.isdigit() else value)


def _blocking(scene: Scene, drains: Sequence[Drain]) -> list[tuple[DisruptionBudget, list[str]]]:
    """Budgets that block drains, with the nodes."""
    found = []
    for budget in scene.snapshot.disruption_budgets:
        nodes = [d.node for d in drains if f"{budget.namespace}/{budget.name}" in d.budgets]
        if nodes:
            found.append((budget, nodes))
    return sorted(found, key=lambda item: (item[0].namespace, item[0].name))


def budgets_back(scene: Scene) -> list[Command]:
    """Commands with which owners put their budgets back after the change, each with the reading that shows it."""
    drains = [scene.drain_of(name) for name in scene.pending_nodes]
    if scene.distribution.nodes == "by-control-plane" and not scene.bare_pods:
        return []
    return [
        made
        for budget, nodes in _blocking(scene, drains)
        if relaxed(scene, budget, nodes) is not None
        for made in (restore_command(budget), _shown(budget))
    ]


def _shown(budget: DisruptionBudget) -> Command:
    return command(f"kubectl -n {quoted(budget.namespace)} get poddisruptionbudget {quoted(budget.name)}")


def _budget(scene: Scene, budget: DisruptionBudget, nodes: Sequence[str]) -> tuple[list[Command], list[str]]:
    shown = f"{budget.namespace}/{budget.name}"
    notes = [
        tr(
            "PodDisruptionBudget {budget} allows no disruption: the drain of {nodes} hangs until it does. A drain with --disable-eviction would ignore it and is not planned.",
            budget=shown,
            nodes=names(nodes),
        )
    ]
    way = relaxed(scene, budget, nodes)
    if way is None:
        notes.append(tr("Its numbers were not read: its owner says what it may allow for the window."))
        return [_shown(budget)], notes
    workload = f"{way.owner.namespace}/{way.owner.name}" if way.owner is not None else tr("its Pods")
    notes.append(
        tr(
            "Its owner relaxes it for the window: {field} {value}. {workload} then runs with {running} of {all} Pods while one of these nodes is out. Keep it so until nobody will go back; {step} puts it back.",
            field=way.field,
            value=way.value,
            workload=workload,
            running=way.running,
            all=budget.expected_pods or 0,
            step="{{temporary}}",
        )
    )
    if way.scale is not None and way.owner is not None:
        notes.append(
            tr(
                "Or one Pod more, which finds a device with the node out too: {command}",
                command=f"`kubectl -n {word(way.owner.namespace)} scale {way.owner.kind.lower()} {word(way.owner.name)} --replicas={way.scale}`",
            )
        )
    elif way.short:
        notes.append(
            tr(
                "More replicas do not help: with the node out no device of {resources} is left for them.",
                resources=names(way.short),
            )
        )
    if way.elsewhere:
        notes.append(
            tr(
                "Or a toleration in the Pod template ({why}); it makes the workload's Pods anew.",
                why=way.elsewhere,
            )
        )
    return [_patch(budget, way.field, way.value), _shown(budget)], notes


def _wanted(scene: Scene, node: str) -> str:
    """What Pods of a node do not find elsewhere."""
    return names(sorted({row.resource for row in scene.capacity if row.node == node and row.pending}))


def people(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """The step in which owners decide; none where a drain meets nobody."""
    if hop is None or (scene.distribution.nodes == "by-control-plane" and not scene.bare_pods):
        concerned = []
    else:
        concerned = [
            item for item in findings if item.code.split("-")[1] in _PEOPLE and item.severity != "info"
        ]
    drains = [scene.drain_of(name) for name in scene.pending_nodes] if hop is not None else []
    blocking = _blocking(scene, drains)
    bare = [pod for pod in scene.bare_pods if pod.node in {drain.node for drain in drains}]
    if not concerned and not blocking and not bare:
        return []
    commands: list[Command] = []
    notes: list[str] = []
    for budget, nodes in blocking:
        made = _budget(scene, budget, nodes)
        commands += made[0]
        notes += made[1]
    minutes = scene.profile.minutes.node
    for drain in drains:
        for workload in drain.down:
            notes.append(
                tr(
                    "Draining {node} takes {workload} down ({resources}): 0 of {n} Pods for about {minutes} minutes. Its owner agrees, and is there for that step.",
                    node=drain.node,
                    resources=_wanted(scene, drain.node),
                    workload=workload,
                    n=scene.pods_of(workload),
                    minutes=minutes,
                )
            )
        waits = [workload for workload in drain.waits if workload not in drain.down]
        if waits and not drain.budgets:
            notes.append(
                tr(
                    "Draining {node} leaves a Pod of {workloads} without a device of {resources} for about {minutes} minutes. Its owner agrees.",
                    node=drain.node,
                    resources=_wanted(scene, drain.node),
                    workloads=names(waits),
                    minutes=minutes,
                )
            )
    # With its node's name in it the Pod would pass the scheduler by, and its claim would never be allocated.
    plain = r"sed -e '/^ \{2\}nodeName:/d' -e '/^ \{2\}resourceVersion:/d' -e '/^ \{2\}uid:/d'"
    commands += [
        command(
            saved_once(
                f"kubectl -n {quoted(pod.namespace)} get pod {quoted(pod.name)} -o yaml | {plain}",
                pod_file(pod),
            )
        )
        for pod in bare
    ]
    if bare:
        notes.append(
            tr(
                "Without a controller, and gone for good once deleted: {pods}. Their owner keeps the manifest; they are created again right after their node is back, better from the owner's own manifest: a saved Pod still holds what the cluster filled in.",
                pods=names(f"{pod.namespace}/{pod.name}" for pod in bare),
            )
        )
    said = "\n".join(notes)
    notes += [
        item.message
        for item in concerned
        if not any(part and part in said for part in (item.subject.name, *item.subject.instances))
    ][:6]
    go_on = []
    if blocking:
        allowed = max(
            (way.allowed for budget, nodes in blocking if (way := relaxed(scene, budget, nodes))), default=1
        )
        go_on.append(tr("ALLOWED DISRUPTIONS is {n} or more for each budget named.", n=min(allowed, 1) or 1))
    if bare:
        go_on.append(tr("Each Pod without a controller may go, and its file is not empty."))
    if any(drain.waits for drain in drains):
        go_on.append(tr("The owner of each workload named has agreed."))
    return [
        StepDraft(
            key="people",
            phase="before",
            title=tr("Settle with the owners what a drain will meet"),
            why=tr("A drain asks for evictions and waits; the owners decide, not the one who drains."),
            commands=commands,
            minutes=15,
            go_on=" ".join(go_on) or tr("The owners know what the drain does to their Pods, and agree."),
            stop=tr(
                "An owner does not agree: leave these nodes out, within the version skew that is allowed."
            ),
            findings=[item.id for item in concerned],
            rollback=["back:budgets"] if blocking else (["back:bare"] if bare else []),
            notes=notes,
        )
    ]
