"""The blast radius in sentences: which workload is down, or short of Pods, while which node is out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from changegen.assess import Assessment
from changegen.assess.dra import asks_budgets
from changegen.i18n import tr
from changegen.model.ticket import BlastRow, CapacityRow
from changegen.plan.scene import Scene
from changegen.plan.steps.common import out_minutes
from changegen.words import spell

__all__ = ["MOST", "workloads_hit"]

MOST = 5
"""Workloads that a first page names."""


class _Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A workload and what becomes of it; a higher rank is worse."""

    rank: int
    share: float
    name: str
    text: str


def workloads_hit(scene: Scene, assessment: Assessment, most: int = MOST) -> str:
    """``ml/infer: down (0 of 2) while old-gpu-1 is out, 10 min. ml/train: 2 of 3 while gpu-1 or gpu-2 is out, 10 min.``, worst first.

    By the Pods that hold devices, by budgets that allow no disruption, and by Pods without a controller; the numbers are
    those of the simulation of one node out (`changegen.assess.simulation`). Empty where nothing is hit.
    """
    drained = set(scene.pending_nodes)
    out: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    for made in assessment.capacity:
        out[made.node].append(made)
    hits = [hit for row in assessment.blast if (hit := _of_row(scene, out, row, drained)) is not None]
    said = {hit.name for hit in hits}
    hits += _bare(scene, drained, said)
    hits += _budgets(scene, drained, assessment.blast)
    hits.sort(key=lambda hit: (-hit.rank, -hit.share, hit.name))
    shown = [hit.text for hit in hits[:most]]
    more = len(hits) - most
    if more == 1:
        shown.append(tr("And 1 more workload."))
    elif more > 1:
        shown.append(tr("And {n} more workloads.", n=more))
    return " ".join(shown)


def _of_row(
    scene: Scene, out: Mapping[str, Sequence[CapacityRow]], row: BlastRow, drained: set[str]
) -> _Hit | None:
    name = f"{row.namespace}/{row.owner.split('/', 1)[-1]}"
    nodes = [node for node in row.nodes if node in drained]
    if not nodes:
        return None
    if not row.comes_back:
        text = tr(
            "{workload}: down from the drain of {node} until it is made again; it may get another device.",
            workload=name,
            node=_any(nodes),
        )
        return _Hit(rank=2, share=1.0, name=name, text=text)
    full = {f"{row.namespace}/{pod}" for pod in row.pods}
    total = len(full)
    lost: dict[int, list[str]] = {}
    for node in nodes:
        most = max(
            (min(made.pending, len(full & set(made.pods))) for made in out.get(node, ())),
            default=0,
        )
        if most:
            lost.setdefault(most, []).append(node)
    forbidden = _forbidden(scene, full)
    if not lost:
        if not forbidden:
            return None
        text = tr(
            "{workload}: its budget forbids the drain of {node} today.", workload=name, node=_any(nodes)
        )
        return _Hit(rank=1, share=0.0, name=name, text=text)
    parts = [
        tr(
            "down (0 of {total}) while {node} is out, {time}",
            total=total,
            node=_any(where),
            time=_out(scene, where),
        )
        if count >= total
        else tr(
            "{left} of {total} while {node} is out, {time}",
            left=total - count,
            total=total,
            node=_any(where),
            time=_out(scene, where),
        )
        for count, where in sorted(lost.items(), reverse=True)
    ]
    text = f"{name}: " + ", ".join(parts)
    if forbidden:
        text += " " + tr("(its budget forbids that today)")
    worst = max(lost)
    return _Hit(
        rank=3 if worst >= total else 1, share=worst / total, name=name, text=tr("{text}.", text=text)
    )


def _out(scene: Scene, nodes: Sequence[str]) -> str:
    """How long one of some nodes is out at the longest, by the plan's estimate."""
    return spell(max(out_minutes(scene, scene.drain_of(node)) for node in nodes))


def _bare(scene: Scene, drained: set[str], said: set[str]) -> Iterable[_Hit]:
    """Pods without a controller and without devices: a drain deletes them too."""
    for pod in scene.bare_pods:
        name = f"{pod.namespace}/{pod.name}"
        if pod.node in drained and name not in said:
            text = tr(
                "{workload}: down from the drain of {node} until it is made again.",
                workload=name,
                node=pod.node,
            )
            yield _Hit(rank=2, share=0.5, name=name, text=text)


def _budgets(scene: Scene, drained: set[str], rows: Sequence[BlastRow]) -> Iterable[_Hit]:
    """Budgets that forbid a drain and select none of the Pods that hold devices."""
    holders = {f"{row.namespace}/{pod}" for row in rows for pod in row.pods}
    places = {f"{pod.namespace}/{pod.name}": pod.node for pod in scene.snapshot.pods if asks_budgets(pod)}
    for budget in scene.snapshot.disruption_budgets:
        pods = {f"{budget.namespace}/{pod}" for pod in budget.pods}
        if budget.disruptions_allowed != 0 or pods & holders:
            continue
        nodes = sorted({places[pod] for pod in pods if places.get(pod) in drained})
        if nodes or pods:
            name = f"{budget.namespace}/{budget.name}"
            text = (
                tr(
                    "PodDisruptionBudget {budget} forbids the drain of {node} today.",
                    budget=name,
                    node=_any(nodes),
                )
                if nodes
                else tr("PodDisruptionBudget {budget} allows no disruption today.", budget=name)
            )
            yield _Hit(rank=1, share=0.0, name=name, text=text)


def _forbidden(scene: Scene, pods: set[str]) -> bool:
    return any(
        budget.disruptions_allowed == 0 and pods & {f"{budget.namespace}/{pod}" for pod in budget.pods}
        for budget in scene.snapshot.disruption_budgets
    )


def _any(nodes: Sequence[str], most: int = 4) -> str:
    """``gpu-1 or gpu-2``; many nodes are counted."""
    if len(nodes) > most:
        return tr("one of {n} nodes", n=len(nodes))
    return tr(" or ").join(nodes)
