"""What the change will alter: each thing that moves, from its version of today to that of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from changegen.model.ticket import Change
from changegen.plan.draft import CheckDraft
from changegen.plan.scene import CONTROL, HopPlan, Scene

__all__ = ["make_changes"]

Moved = tuple[str, str, str]
"""Subject, today, at the target."""

_PATHS = {"components": "version", "workloads": "images", "config_maps": "kubernetes_version"}
"""Area of changes -> the field of the snapshot that changes."""


def make_changes(scene: Scene, checks: Sequence[CheckDraft]) -> tuple[Change, ...]:
    """Planned changes, equal ones of one component together; none where no version moves.

    Args:
        scene: The cluster and its hops.
        checks: The checklist: an image that it expects is one that the plan moves.
    """
    if not scene.hops:
        return ()
    hop = scene.hops[-1]
    moved = chain(
        (("components", *row) for row in _instances(scene, hop)),
        (("workloads", *row) for row in _images(checks)),
        (("components", *row) for row in _proxies(scene, hop, checks)),
        (("config_maps", *row) for row in _kubeadm(scene, hop)),
    )
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for area, subject, before, after in moved:
        if before.removeprefix("v") != after.removeprefix("v"):
            component = subject.split(" ", 1)[0] if area == "components" else ""
            groups.setdefault((area, component, before, after), []).append(subject)
    return tuple(
        Change(
            kind="changed",
            area=area,
            path=(_PATHS[area],),
            subjects=tuple(subjects),
            before=before,
            after=after,
            count=len(subjects),
        )
        for (area, _, before, after), subjects in groups.items()
    )


def _instances(scene: Scene, hop: HopPlan) -> Iterator[Moved]:
    for name in CONTROL:
        for item in scene.context.of(name):
            if not scene.context.stays(item):
                subject = f"{name} {item.node or item.instance or ''}".strip()
                yield subject, item.running_version or item.version, hop.version
    if hop.etcd:
        for member in scene.members:
            yield f"etcd {member.node}", member.version, hop.etcd
    if any(item.drain for item in scene.hops):
        for node in scene.pending_nodes:
            yield f"kubelet {node}", scene.nodes[node].kubelet_version, hop.version


def _proxies(scene: Scene, hop: HopPlan, checks: Sequence[CheckDraft]) -> Iterator[Moved]:
    if any(check.key == "check:kube-proxy-running" for check in checks):
        for item in scene.context.of("kube-proxy"):
            if item.kind != "workload" and item.node:
                yield f"kube-proxy {item.node}", item.running_version or item.version, hop.version


def _images(checks: Sequence[CheckDraft]) -> Iterator[Moved]:
    """Images of add-ons and drivers."""
    for draft in checks:
        if draft.query is None or draft.query.fact != "workload.image" or draft.compare != "equals":
            continue
        if isinstance(draft.before, str) and isinstance(draft.expected, str):
            args = draft.query.args
            yield f"{args['kind']} {args['namespace']}/{args['name']}", draft.before, draft.expected


def _kubeadm(scene: Scene, hop: HopPlan) -> Iterator[Moved]:
    config = scene.kubeadm
    if config is not None and config.kubernetes_version:
        subject = f"{config.namespace}/{config.name} kubernetesVersion"
        yield subject, config.kubernetes_version, hop.version
