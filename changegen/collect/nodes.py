"""Nodes as a snapshot holds them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from changegen.collect import requests
from changegen.collect.inventory import Inventory
from changegen.collect.wire import Condition as WireCondition
from changegen.collect.wire import Node as WireNode
from changegen.collect.wire import Pod, Quantity
from changegen.model.snapshot import Condition, Node, NodeTaint

__all__ = ["condition_facts", "node_facts", "quantity", "ready_of"]

_ROLE: Final = "node-role.kubernetes.io/"
_OLD_ROLE: Final = "kubernetes.io/role"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


def node_facts(inventory: Inventory) -> tuple[Node, ...]:
    """Every Node of the input, sorted by name.

    ``pod_count`` and ``requested`` are of Pods that are bound and not finished, and None unless Pods of all namespaces
    were listed.
    """
    counts: Counter[str] | None = None
    sums: dict[str, requests.Amounts] = {}
    if inventory.complete("pods"):
        counts = Counter()
        for found in inventory.all("pods", Pod):
            node = found.obj.spec.node_name
            if node and (found.obj.status is None or found.obj.status.phase not in _FINISHED):
                counts[node] += 1
                requests.add_native(sums.setdefault(node, {}), found.obj.spec)
    return tuple(
        _node(
            found.obj,
            None if counts is None else counts[found.obj.metadata.name],
            None if counts is None else requests.texts(sums.get(found.obj.metadata.name, {})),
        )
        for found in inventory.all("nodes", WireNode)
    )


def _node(node: WireNode, pod_count: int | None, requested: dict[str, str] | None) -> Node:
    meta, spec, status = node.metadata, node.spec, node.status
    labels = meta.labels or {}
    info = status.node_info if status else None
    conditions = condition_facts(status.conditions if status else None)
    addresses = (status.addresses if status else None) or ()
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if labels.get(_OLD_ROLE):
        roles.add(labels[_OLD_ROLE])
    provider = (spec.provider_id if spec else None) or ""
    taints = (
        NodeTaint(
            key=taint.key, value=taint.value or "", effect=taint.effect, time_added=taint.time_added or ""
        )
        for taint in (spec.taints if spec else None) or ()
    )
    return Node(
        name=meta.name,
        uid=meta.uid,
        roles=tuple(sorted(roles - {""})),
        kubelet_version=info.kubelet_version if info else "",
        container_runtime=info.container_runtime_version if info else "",
        kernel=info.kernel_version if info else "",
        os_image=info.os_image if info else "",
        operating_system=info.operating_system if info else "",
        architecture=info.architecture if info else "",
        boot_id=info.boot_id if info else "",
        internal_ips=tuple(sorted(found.address for found in addresses if found.type == "InternalIP")),
        hostname=labels.get("kubernetes.io/hostname", ""),
        provider=provider.partition("://")[0] if "://" in provider else "",
        unschedulable=bool(spec and spec.unschedulable),
        ready=ready_of(conditions),
        taints=tuple(sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))),
        conditions=conditions,
        labels=labels,
        annotations=tuple(sorted(meta.annotations or ())),
        capacity=quantities(status.capacity if status else None),
        allocatable=quantities(status.allocatable if status else None),
        declared_features=None
        if status is None or status.declared_features is None
        else tuple(sorted(status.declared_features)),
        pod_count=pod_count,
        requested=requested,
        created=meta.creation_timestamp or "",
    )


def condition_facts(conditions: tuple[WireCondition, ...] | None) -> tuple[Condition, ...]:
    """Conditions of any object, sorted by type."""
    return tuple(
        sorted(
            (
                Condition(
                    type=found.type,
                    status=found.status,
                    reason=found.reason or "",
                    message=found.message or "",
                    changed=found.last_transition_time or "",
                )
                for found in conditions or ()
            ),
            key=lambda found: found.type,
        )
    )


def ready_of(conditions: tuple[Condition, ...]) -> bool | None:
    """Whether condition Ready is True; None where it is Unknown or not reported."""
    for found in conditions:
        if found.type == "Ready":
            return {"True": True, "False": False}.get(found.status)
    return None


def quantity(value: Quantity) -> str:
    """A quantity as text, as Kubernetes writes it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def quantities(found: dict[str, Quantity] | None) -> dict[str, str]:
    """Quantities as text, sorted by resource."""
    return {name: quantity(value) for name, value in sorted((found or {}).items())}
