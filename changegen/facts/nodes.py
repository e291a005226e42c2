"""Facts of nodes: kubelets, readiness, taints, allocatable resources."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from changegen.facts.base import (
    Args,
    Fact,
    Reading,
    arg,
    args_of,
    counted,
    field_key,
    for_items,
    kubectl_get,
    lacking,
    printed_nothing,
    read_rows,
    seen_in,
    taint_text,
    unknown,
)
from changegen.i18n import tr
from changegen.model.snapshot import Node, Snapshot
from changegen.model.ticket import Evidence
from changegen.shell import quoted


def _node_list(columns: Sequence[str]) -> Callable[[Args], str]:
    def make(_args: Args) -> str:
        return kubectl_get("nodes", for_items([".metadata.name", *columns]))

    return make


def _nodes_seen(snapshot: Snapshot, path: str) -> tuple[Evidence, ...]:
    return (seen_in("Nodes", path, len(snapshot.nodes), "node status"),)


# A fact of nodes is a map from node to a text, or the names of some nodes: read from rows (node, cell), or evaluated.


def _map_of_rows(output: str, text: Callable[[str], str]) -> Reading:
    """A map from node to what is made of its cell; an empty text leaves the node out."""
    rows = read_rows(output, 2)
    if not rows:
        return printed_nothing()
    found = {row[0]: text(row[1]) for row in sorted(rows)}
    return Reading(value={name: said for name, said in found.items() if said})


def _map_of_nodes(snapshot: Snapshot, path: str, text: Callable[[Node], str]) -> Reading:
    """The same from the snapshot; ``path`` is the field of the node that tells it."""
    if lack := lacking(snapshot, "nodes"):
        return lack
    found = {node.name: text(node) for node in sorted(snapshot.nodes, key=lambda node: node.name)}
    return Reading(
        value={name: said for name, said in found.items() if said}, evidence=_nodes_seen(snapshot, path)
    )


def _names_of_rows(output: str, kept: Callable[[str], bool]) -> Reading:
    """The names of the nodes whose cell is kept."""
    rows = read_rows(output, 2)
    return Reading(value=tuple(sorted(row[0] for row in rows if kept(row[1])))) if rows else printed_nothing()


def _names_of_nodes(snapshot: Snapshot, path: str, kept: Callable[[Node], bool]) -> Reading:
    """The same from the snapshot; ``path`` is the field of the node that tells it."""
    if lack := lacking(snapshot, "nodes"):
        return lack
    value = tuple(sorted(node.name for node in snapshot.nodes if kept(node)))
    return Reading(value=value, evidence=_nodes_seen(snapshot, path))


_READY = '.status.conditions[?(@.type=="Ready")].status'
_kubelet_command = _node_list([".status.nodeInfo.kubeletVersion"])


def _kubelets_parse(output: str, _args: Args) -> Reading:
    return _map_of_rows(output, str)


def _kubelets(snapshot: Snapshot, _args: Args) -> Reading:
    return _map_of_nodes(snapshot, "status.nodeInfo.kubeletVersion", lambda node: node.kubelet_version)


def _to_distinct(reading: Reading) -> Reading:
    if not reading.known or not isinstance(reading.value, dict):
        return reading
    return msgspec.structs.replace(
        reading, value=tuple(sorted({str(item) for item in reading.value.values()}))
    )


def _not_ready_parse(output: str, _args: Args) -> Reading:
    return _names_of_rows(output, lambda cell: cell != "True")


def _not_ready(snapshot: Snapshot, _args: Args) -> Reading:
    return _names_of_nodes(snapshot, "status.conditions Ready", lambda node: node.ready is not True)


def _cordoned_parse(output: str, _args: Args) -> Reading:
    return _names_of_rows(output, lambda cell: cell == "true")


def _cordoned(snapshot: Snapshot, _args: Args) -> Reading:
    return _names_of_nodes(snapshot, "spec.unschedulable", lambda node: node.unschedulable)


def _taints_parse(output: str, _args: Args) -> Reading:
    def text(cell: str) -> str:
        listed = json.loads(cell) if cell else []
        return taint_text((t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in listed)

    return _map_of_rows(output, text)


def _taints(snapshot: Snapshot, _args: Args) -> Reading:
    def text(node: Node) -> str:
        return taint_text((taint.key, taint.value, taint.effect) for taint in node.taints)

    return _map_of_nodes(snapshot, "spec.taints", text)


def _allocatable_command(args: Args) -> str:
    return kubectl_get(
        "nodes", for_items([".metadata.name", f".status.allocatable.{field_key(arg(args, 'resource'))}"])
    )


def _allocatable_parse(output: str, _args: Args) -> Reading:
    return _map_of_rows(output, lambda cell: "" if cell == "0" else cell)


def _allocatable(snapshot: Snapshot, args: Args) -> Reading:
    resource = arg(args, "resource")

    def text(node: Node) -> str:
        amount = node.allocatable.get(resource, "")
        return "" if amount == "0" else amount

    return _map_of_nodes(snapshot, f"status.allocatable {resource}", text)


_CONFIGZ_GATES = re.compile(r'"featureGates":({[^{}]*})')
_NO_GATES = "-"
"""The value of a kubelet that is given no gate."""


def _gates_command(args: Args) -> str:
    nodes = " ".join(map(quoted, args_of(args, "nodes")))
    asked = 'kubectl get --raw "/api/v1/nodes/$NODE/proxy/configz"'
    return (
        f"for NODE in {nodes}; do printf '%s\\t' \"$NODE\"; if SEEN=$({asked}); then "
        """printf '%s\\n' "$SEEN" | grep -o '"featureGates":{[^{}]*}' || echo none; else echo not read; fi; done"""
    )


def gates_text(gates: Mapping[str, bool]) -> str:
    """The gates of a kubelet as one value: ``A=true,B=false`` by name, ``-`` where none is set."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in sorted(gates.items())) or _NO_GATES


def _by_kubelet(found: Mapping[str, str | None], nodes: Sequence[str]) -> Reading:
    """A map from node to gates; a node whose configz was not read is a gap."""
    gaps = {name: tr("its configz was not read") for name in sorted(nodes) if found.get(name) is None}
    if nodes and len(gaps) == len(nodes):
        return unknown(tr("no kubelet's configz was read (--configz)"))
    return Reading(value={name: found.get(name) for name in sorted(nodes)}, gaps=gaps)


def _gates_parse(output: str, args: Args) -> Reading:
    found: dict[str, str | None] = {}
    for name, cell in read_rows(output, 2):
        match = _CONFIGZ_GATES.search(cell)
        if match is not None:
            found[name] = gates_text(json.loads(match[1]))
        elif cell == "none":
            found[name] = _NO_GATES
    return _by_kubelet(found, args_of(args, "nodes"))


def _kubelet_gates(snapshot: Snapshot, args: Args) -> Reading:
    found: dict[str, str | None] = {}
    evidence = []
    for item in snapshot.components:
        if item.component != "kubelet" or not item.node:
            continue
        for source in item.gate_sources:
            if source.provenance == "configz":
                found[item.node] = gates_text(source.gates)
                evidence.append(seen_in(source.place, "featureGates", found[item.node], "configz"))
    reading = _by_kubelet(found, args_of(args, "nodes"))
    return msgspec.structs.replace(reading, evidence=tuple(evidence))


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
        evaluate=lambda s, a: _to_distinct(_kubelets(s, a)),
        parse=lambda o, a: _to_distinct(_kubelets_parse(o, a)),
        reads=("nodes",),
    ),
    Fact(
        name="kubelet.gates",
        layer="scheduling",
        title=lambda _a: tr("Feature gates that kubelets are given, by node"),
        command=_gates_command,
        evaluate=_kubelet_gates,
        parse=_gates_parse,
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
