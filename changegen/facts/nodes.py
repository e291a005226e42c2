"""Facts of nodes: kubelets, readiness, taints, allocatable resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec

from changegen.facts.base import (
    Args,
    Fact,
    Reading,
    arg,
    counted,
    field_key,
    for_items,
    kubectl_get,
    lacking,
    printed_nothing,
    read_rows,
    seen_in,
    taint_text,
)
from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import (
    NodeTaint,
    Snapshot,
)
from changegen.model.ticket import Evidence


def _node_list(columns: Sequence[str]) -> Callable[[Args], str]:
    def make(_args: Args) -> str:
        return kubectl_get("nodes", for_items([".metadata.name", *columns]))

    return make


_READY = '.status.conditions[?(@.type=="Ready")].status'
_kubelet_command = _node_list([".status.nodeInfo.kubeletVersion"])


def _kubelets_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    return Reading(value={row[0]: row[1] for row in sorted(rows)}) if rows else printed_nothing()


def _kubelets(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "nodes"):
        return lack
    value: dict[str, Scalar] = {
        node.name: node.kubelet_version for node in sorted(snapshot.nodes, key=lambda n: n.name)
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, "status.nodeInfo.kubeletVersion"))


def _nodes_seen(snapshot: Snapshot, path: str) -> tuple[Evidence, ...]:
    return (seen_in("Nodes", path, len(snapshot.nodes), "node status"),)


def _kubelet_versions_parse(output: str, args: Args) -> Reading:
    reading = _kubelets_parse(output, args)
    return _to_distinct(reading)


def _to_distinct(reading: Reading) -> Reading:
    if not reading.known or not isinstance(reading.value, dict):
        return reading
    return msgspec.structs.replace(
        reading, value=tuple(sorted({str(item) for item in reading.value.values()}))
    )


def _kubelet_versions(snapshot: Snapshot, args: Args) -> Reading:
    return _to_distinct(_kubelets(snapshot, args))


def _not_ready_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    return (
        Reading(value=tuple(sorted(row[0] for row in rows if row[1] != "True")))
        if rows
        else printed_nothing()
    )


def _not_ready(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "nodes"):
        return lack
    value = tuple(sorted(node.name for node in snapshot.nodes if node.ready is not True))
    return Reading(value=value, evidence=_nodes_seen(snapshot, "status.conditions Ready"))


def _cordoned_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    return (
        Reading(value=tuple(sorted(row[0] for row in rows if row[1] == "true")))
        if rows
        else printed_nothing()
    )


def _cordoned(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "nodes"):
        return lack
    value = tuple(sorted(node.name for node in snapshot.nodes if node.unschedulable))
    return Reading(value=value, evidence=_nodes_seen(snapshot, "spec.unschedulable"))


def _taints_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    if not rows:
        return printed_nothing()
    value: dict[str, Scalar] = {}
    for row in sorted(rows):
        listed = json.loads(row[1]) if row[1] else []
        text = taint_text((t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in listed)
        if text:
            value[row[0]] = text
    return Reading(value=value)


def _taints(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "nodes"):
        return lack

    def texts(taints: tuple[NodeTaint, ...]) -> str:
        return taint_text((taint.key, taint.value, taint.effect) for taint in taints)

    value: dict[str, Scalar] = {
        node.name: texts(node.taints)
        for node in sorted(snapshot.nodes, key=lambda n: n.name)
        if texts(node.taints)
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, "spec.taints"))


def _allocatable_command(args: Args) -> str:
    return kubectl_get(
        "nodes", for_items([".metadata.name", f".status.allocatable.{field_key(arg(args, 'resource'))}"])
    )


def _allocatable_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    if not rows:
        return printed_nothing()
    return Reading(value={row[0]: row[1] for row in sorted(rows) if row[1] not in ("", "0")})


def _allocatable(snapshot: Snapshot, args: Args) -> Reading:
    if lack := lacking(snapshot, "nodes"):
        return lack
    resource = arg(args, "resource")
    value: dict[str, Scalar] = {
        node.name: node.allocatable[resource]
        for node in sorted(snapshot.nodes, key=lambda n: n.name)
        if node.allocatable.get(resource, "0") != "0"
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, f"status.allocatable {resource}"))


ROWS: tuple[Fact, ...] = (
    Fact(
        name="kubelet.by-node",
        layer="scheduling",
        title=lambda _a: tr("kubelet version, by node"),
        command=_kubelet_command,
        evaluate=_kubelets,
        parse=_kubelets_parse,
        reads=("nodes",),
    ),
    Fact(
        name="kubelet.versions",
        layer="scheduling",
        title=lambda _a: tr("kubelet versions in use"),
        command=_kubelet_command,
        evaluate=_kubelet_versions,
        parse=_kubelet_versions_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.not-ready",
        layer="scheduling",
        title=lambda _a: tr("Nodes that are not Ready"),
        command=_node_list([_READY]),
        evaluate=_not_ready,
        parse=_not_ready_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.cordoned",
        layer="scheduling",
        title=lambda _a: tr("Nodes that are cordoned"),
        command=_node_list([".spec.unschedulable"]),
        evaluate=_cordoned,
        parse=_cordoned_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.taints",
        layer="scheduling",
        title=lambda _a: tr("Node taints that people set"),
        command=_node_list([".spec.taints"]),
        evaluate=_taints,
        parse=_taints_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.allocatable",
        layer="scheduling",
        title=lambda a: tr("{resource} in the allocatable of nodes", resource=a["resource"]),
        command=_allocatable_command,
        evaluate=_allocatable,
        parse=_allocatable_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.taint-counts",
        layer="scheduling",
        title=lambda _a: tr("Node taints that people set, with the number of nodes"),
        command=_node_list([".spec.taints"]),
        evaluate=lambda s, a: counted(_taints(s, a)),
        parse=lambda o, a: counted(_taints_parse(o, a)),
        reads=("nodes",),
    ),
    Fact(
        name="nodes.allocatable-counts",
        layer="scheduling",
        title=lambda a: tr("{resource} in the allocatable, with the number of nodes", resource=a["resource"]),
        command=_allocatable_command,
        evaluate=lambda s, a: counted(_allocatable(s, a)),
        parse=lambda o, a: counted(_allocatable_parse(o, a)),
        reads=("nodes",),
    ),
)
"""The rows of this module, in the order of the table."""
