"""The way back: what each changed thing was, how it comes back, in which order, and whether it can.

Order: what came last goes first. DRA drivers before the cluster, then kubelets, then add-ons, controller-manager and
scheduler with their API server node by node, configuration, and etcd last. Each step back names the steps of the plan
that make it necessary (``needs``), what must be true before it (``guard``), and what must be seen after it (``go_on``).
Which of them are to be done where the change stopped is `changegen.plan.forks`.
"""

from __future__ import annotations

from collections.abc import Sequence

from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.control import addons, config, control_plane
from changegen.plan.rollback.devices import drivers, migrations, taints
from changegen.plan.rollback.etcd import etcd, looks, member_again, restore
from changegen.plan.rollback.nodes import kubelets, packages
from changegen.plan.rollback.objects import extended, new_stored, owners, rules, stored
from changegen.plan.scene import Scene
from changegen.plan.steps.drift import served_back

__all__ = ["looks", "make_rollback"]


def make_rollback(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """All ways back, in the order in which they are gone; ``steps`` are those of the plan, whose keys they name."""
    backs: list[BackDraft] = []
    hops = scene.hops
    backs += migrations(scene)
    backs += taints(scene, steps)
    backs += drivers(scene)
    if hops:
        hop = hops[-1]
        backs += kubelets(scene, hop, steps)
        backs += addons(scene, steps)
        backs += new_stored(scene, hop, steps)
        backs += control_plane(scene, hops, steps)
        backs += config(scene, hop, steps)
        backs += etcd(scene, hops, steps)
        backs += member_again(scene, hops[0])
        backs += rules(scene, hop, steps)
        backs += extended(scene, hop, steps)
        backs += packages(scene, hops[0], steps)
        backs += stored(scene, steps)
        backs += owners(scene, steps)
        backs += served_back(scene)
        backs += restore(scene, hops, steps)
    for back in backs:
        _honest(back)
    return backs


def _honest(back: BackDraft) -> None:
    """What cannot go back has no minutes, and no commands that only look."""
    if not any(item.runs == "write" for item in back.commands) and back.verdict == "one-way":
        back.commands, back.minutes = [], None
