"""Two snapshots -> what changed between them, keyed by meaning and grouped when equal.

Things are matched by what they are, not by where they stand in a list or by a random name: a component by its name
and node, a device by driver, pool and name, a taint by key and effect, a Pod of a DaemonSet by its owner and node. Pods and
generated claims of one owner that were replaced under new names are one change, not a removal and an addition.

What only one side could read is told apart (``not_comparable``) and never as vanished or new. What changes by itself
between two readings of an untouched cluster is left out, and stands with its reason in ``VOLATILE``; nothing else is.

Equal things are dropped by ``==`` first. What differs is walked field by field; lists of plain values that differ
are given to deepdiff for what was added, removed or moved. Pure: the same two snapshots give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Literal

import msgspec

from changegen.i18n import tr
from changegen.model import snapshot as s
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Change, Comparison, NotComparable

__all__ = ["AREAS", "VOLATILE", "Volatile", "compare", "is_volatile"]

Side = Literal["before", "after", "both"]
Kind = Literal["added", "removed", "changed"]
Value = Any
Names = tuple[str, ...]


class Volatile(msgspec.Struct, frozen=True, kw_only=True):
    """A field that diff leaves out, with the reason."""

    path: str
    """Path in the snapshot: ``[]`` is any item of a list, ``{}`` any value of a mapping; everything below it counts too."""
    why: str
    part: str = ""
    """Only the part that this expression matches is left out; the rest is compared."""


VOLATILE: Final[tuple[Volatile, ...]] = (
    Volatile(path="tool_version", why="of the tool that read, not of the cluster"),
    Volatile(path="captured_at", why="each reading has its own time"),
    Volatile(path="source", why="how the cluster was read"),
    Volatile(path="notices", why="remarks on the files that were read"),
    Volatile(path="unobserved[].detail", why="words about a reading; what and why are compared"),
    Volatile(path="unobserved[].place", why="where a reading failed; what and why are compared"),
    Volatile(path="unobserved[].remedy", why="advice on a reading"),
    Volatile(path="unobserved[].failed", why="how a reading failed; what and why are compared"),
    Volatile(
        path="cluster.name", why="the reader's name for it (kubeconfig context, file); the uid is compared"
    ),
    Volatile(path="cluster.name_source", why="where the reader has the name from"),
    Volatile(path="cluster.distribution_evidence[].place", why="where in a reading a mark was seen"),
    Volatile(
        path="components[].instance",
        why="Pods of DaemonSets have random names; component and node are compared",
    ),
    Volatile(path="components[].version_source", why="where it was read; the version is compared"),
    Volatile(path="components[].running_source", why="where it was read; the version is compared"),
    Volatile(path="components[].feature_gates_source", why="where they were read; the gates are compared"),
    Volatile(path="components[].gate_sources[].place", why="holds the Pod's or the file's name"),
    Volatile(
        path="components[].state.started_at", why="a new start shows as restarts, config_hash, image or state"
    ),
    Volatile(path="processes[].place", why="the file or the request that gave it"),
    Volatile(path="processes[].flag_gates.place", why="the file or the request that gave it"),
    Volatile(
        path="processes[].requested_deprecated_apis[].place", why="the file or the request that gave it"
    ),
    Volatile(
        path="processes[].component_inferred", why="whether the file's name or its content told the component"
    ),
    Volatile(
        path="processes[].gate_stages",
        why="stages are the release's, not the cluster's; versions and effective gates are compared",
    ),
    Volatile(path="processes[].etcd", why="sizes and counts move all the time"),
    Volatile(path="config_maps[].resource_version", why="changes with every write; the content is compared"),
    Volatile(path="config_maps[].component_gates{}.place", why="the file or the request that gave it"),
    Volatile(path="nodes[].pod_count", why="Pods come and go"),
    Volatile(path="nodes[].requested", why="Pods come and go"),
    Volatile(path="nodes[].conditions[].changed", why="the status tells what changed"),
    Volatile(path="drivers[].version_source", why="where it was read; the version is compared"),
    Volatile(
        path="drivers[].workload_evidence",
        why="why a workload is thought to serve it; the workload is compared",
    ),
    Volatile(
        path="pools[].slices[].name", why="has a random end; devices are compared by driver, pool and name"
    ),
    Volatile(
        path="pools[].slices[].created",
        why="a kubelet or driver that starts makes new slices of the same devices",
    ),
    Volatile(path="claims[].conditions[].changed", why="the status tells what changed"),
    Volatile(path="claims[].device_status[].conditions[].changed", why="the status tells what changed"),
    Volatile(path="taint_rules[].conditions[].changed", why="the status tells what changed"),
    Volatile(path="pods[].conditions[].changed", why="the status tells what changed"),
    Volatile(path="pods[].scheduled.changed", why="the status tells what changed"),
    Volatile(path="pods[].containers[].started_at", why="a new start shows as restarts or as a new Pod"),
    Volatile(path="disruption_budgets[].pods", why="names of Pods; the counts are compared"),
    Volatile(path="events[].count", why="events repeat and expire; that one is there is compared"),
    Volatile(path="events[].last", why="events repeat and expire; that one is there is compared"),
    Volatile(
        path="events[].message", why="holds names and numbers of the moment; reason and object are compared"
    ),
    Volatile(path="events[].node", why="of the Pod's moment; reason and object are compared"),
    Volatile(path="leases[].renewed", why="renewed every few seconds"),
    Volatile(
        path="leases[].holder",
        part=r"_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        why="ends in a number that is new at every start; who holds it is compared",
    ),
)
"""Everything that diff leaves out. A test changes every leaf of a snapshot and holds diff to this list."""

# What a thing of this type is told apart by within its list; () is its position.
_IDENTITY: Final[dict[type, Names]] = {
    s.AllocatedDevice: ("request", "driver", "pool", "device", "share_id"),
    s.ClaimUse: ("pod_claim",),
    s.Condition: ("type",),
    s.ConfigFact: ("name",),
    s.Consumer: ("resource", "name"),
    s.ContainerState: ("name",),
    s.DeviceHealth: ("container", "resource", "device"),
    s.DeviceRequest: ("name",),
    s.DeviceStatus: ("driver", "pool", "device", "share_id"),
    s.DeviceTaint: ("key", "effect"),
    s.DistributionEvidence: ("distribution", "evidence"),
    s.ExtendedMapping: ("container", "resource"),
    s.GateSource: ("provenance",),
    s.NodeRequirement: ("key", "operator"),
    s.NodeTaint: ("key", "effect"),
    s.NodeTerm: (),
    s.RequestedDeprecatedApi: ("group", "version", "resource", "subresource"),
    s.ResourceAsk: ("container", "resource"),
    s.ServedResource: ("name",),
    s.Slice: (),
    s.Toleration: ("key", "operator", "value", "effect", "seconds"),
}

# Field -> the value that says "could not be read": on one side only, it is not comparable.
_UNREAD: Final[dict[str, Any]] = {
    "components[].version": UNOBSERVABLE,
    "components[].feature_gates": UNOBSERVABLE,
    "components[].gates_certainty": None,
    "components[].effective_gates": None,
    "components[].runtime_config": None,
    "components[].ready": None,
    "nodes[].ready": None,
    "apis[].resources": None,
    "drivers[].version": UNOBSERVABLE,
    "drivers[].pod_nodes": None,
    "drivers[].ready_nodes": None,
    "cluster.server_version": None,
}

# A field that repeats what another one of the same thing says: left out when the other one tells the same change.
_ECHOES: Final[dict[str, tuple[tuple[Names, Names], ...]]] = {
    "components": (
        (("running_version",), ("version",)),
        (("state", "image"), ("image",)),
        (("state", "image_id"), ("image_id",)),
        (("state", "image_id"), ("image",)),
        (("state", "ready"), ("ready",)),
        (("runtime_config",), ("flags", "runtime-config", "values")),
    ),
    "pods": tuple(
        (("conditions", "PodScheduled", field), ("scheduled", field))
        for field in ("status", "reason", "message")
    ),
}
# Fields below the first path stand for the same fact as those of the second: left out when the second changed.
_FOLDED: Final[dict[str, tuple[tuple[Names, Names], ...]]] = {
    "components": (
        (("gate_sources",), ("feature_gates",)),
        (("gates_certainty",), ("feature_gates",)),
        (("flags", "feature-gates"), ("feature_gates",)),
        (("config_hash",), ("image",)),
        (("config_hash",), ("flags",)),
        (("config_hash",), ("feature_gates",)),
    ),
    "pools": ((("slices", "*", "generation"), ("generation",)),),
    "config_maps": (
        (("component_flags", "*", "feature-gates"), ("component_gates",)),
        (("component_gates", "*", "flag_values"), ("component_gates", "*", "gates")),
    ),
    "processes": (
        (("flags", "feature-gates"), ("flag_gates",)),
        (("flag_gates", "flag_values"), ("flag_gates", "gates")),
    ),
    "pods": ((("restarts",), ("containers", "*", "restarts")),),
}

# Mappings that a new release changes in dozens of places: told as a whole, what came, went and changed.
_WHOLE_MAPPINGS: Final = frozenset({"components[].effective_gates{}", "processes[].effective_gates{}"})

# What is new by necessity when an object was replaced under the same or another name.
_NEW_OBJECT: Final[dict[str, frozenset[str]]] = {
    "pods": frozenset(
        {"name", "uid", "created", "started", "restarts", "owner_chain", "extended_claim", "node"}
    ),
    "claims": frozenset(
        {"name", "uid", "created", "owner", "allocated_at", "reserved_for", "devices", "node"}
    ),
    "components": frozenset({"instance", "node"}),
}
_HASH_LABELS: Final = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "batch.kubernetes.io/controller-uid",
    }
)


# ------------------------------------------------------------------------------------------------- volatile, compiled


def _below(prefix: str, field: str) -> str:
    return f"{prefix}.{field}" if prefix else field


_WHOLE: Final = frozenset(v.path for v in VOLATILE if not v.part)
_PARTS: Final = {v.path: re.compile(v.part) for v in VOLATILE if v.part}


def is_volatile(path: str) -> bool:
    """Whether a snapshot path (``nodes[].pod_count``) or anything above it stands in ``VOLATILE``."""
    return any(
        path == v.path or path.startswith((f"{v.path}.", f"{v.path}[", f"{v.path}{{")) for v in VOLATILE
    )


def _compared(value: msgspec.Struct, prefix: str) -> tuple[tuple[str, str], ...]:
    return _fields(type(value).__struct_fields__, prefix)


@lru_cache(maxsize=2048)
def _fields(names: Names, prefix: str) -> tuple[tuple[str, str], ...]:
    """Return the compared fields among a struct's with their paths."""
    return tuple((field, _below(prefix, field)) for field in names if _below(prefix, field) not in _WHOLE)


# ------------------------------------------------------------------------------------------------------------ walking


class _Walk:
    """Collects differences of one area."""

    def __init__(self, area: str) -> None:
        self.area = area
        self.listed = True
        """Drivers: whether the second reading holds a list of ResourceSlices."""
        self.found: dict[tuple[Any, ...], list[str]] = {}
        self.unread: dict[tuple[str, Names, Side], list[str]] = {}
        self._subject = ""
        self._own: list[tuple[Kind, Names, Value, Value, str]] = []

    def pair(
        self, subject: str, before: Any, after: Any, prefix: str, skip: frozenset[str] = frozenset()
    ) -> None:
        """Compare one thing with its counterpart."""
        self._subject, self._own = subject, []
        if isinstance(before, s.Component) and before.flags_observable != after.flags_observable:
            skip |= {"flags", "flags_observable", "config_file"}
            self._not_read(("flags",), "after" if before.flags_observable else "before")
        self._struct(before, after, prefix, (), skip)
        ready = _still_ready(before, after, listed=self.listed) if isinstance(before, s.Driver) else ""
        for kind, path, old, new, note in self._kept():
            told = "; ".join(filter(None, (note, ready if path in _OF_SLICES else "")))
            self.add(kind, path, subject, old, new, told)

    def add(self, kind: Kind, path: Names, subject: str, old: Value, new: Value, note: str = "") -> None:
        """Keep one difference; equal ones of several subjects become one change."""
        key = (kind, path, _hashable(old), _hashable(new), note)
        self.found.setdefault(key, []).append(subject)

    def _kept(self) -> Iterable[tuple[Kind, Names, Value, Value, str]]:
        told = {path: (old, new) for _, path, old, new, _ in self._own}
        heads = {path[:n] for path in told for n in range(1, len(path) + 1)}
        heads |= set(self._unread_of_subject())
        for row in self._own:
            path, pair = row[1], (row[2], row[3])
            if any(path == echo and told.get(of) == pair for echo, of in _ECHOES.get(self.area, ())):
                continue
            beside = path[:-1]
            if path[-1] == "image_id" and told.get((*beside, "image")) == pair:
                continue
            if path[-1] in {"exit_code", "message"} and (*beside, "restarts") in told:
                continue
            if any(
                _starts(path, head) and any(len(h) == len(of) and _starts(h, of) for h in heads)
                for head, of in _FOLDED.get(self.area, ())
            ):
                continue
            yield row

    def _unread_of_subject(self) -> list[Names]:
        return [path for (_, path, _), subjects in self.unread.items() if subjects[-1] == self._subject]

    def _not_read(self, path: Names, side: Side) -> None:
        self.unread.setdefault((self.area, path, side), []).append(self._subject)

    def _put(self, kind: Kind, path: Names, old: Value, new: Value, note: str = "") -> None:
        self._own.append((kind, path, old, new, note))

    def _struct(self, a: Any, b: Any, prefix: str, path: Names, skip: frozenset[str] = frozenset()) -> None:
        for field, where in _compared(a, prefix):
            if field in skip:
                continue
            old, new = getattr(a, field), getattr(b, field)
            if old != new:
                self._value(old, new, where, (*path, field))

    def _value(self, a: Any, b: Any, where: str, path: Names) -> None:
        if where in _UNREAD:
            sentinel = _UNREAD[where]
            if (a == sentinel) != (b == sentinel):
                self._not_read(path, "before" if a == sentinel else "after")
                return
        if isinstance(a, s.Attribute) and isinstance(b, s.Attribute) and a.type == b.type:
            for field in ("value", "values"):
                if getattr(a, field) != getattr(b, field):
                    self._leaf(getattr(a, field), getattr(b, field), where, path)
        elif isinstance(a, msgspec.Struct) and type(a) is type(b):
            self._struct(a, b, where, path)
        elif isinstance(a, dict) and isinstance(b, dict):
            self._mapping(a, b, f"{where}{{}}", path)
        elif _of_structs(a) or _of_structs(b):
            self._mapping(_by_identity(a or ()), _by_identity(b or ()), f"{where}[]", path)
        else:
            self._leaf(a, b, where, path)

    def _mapping(self, a: Mapping[str, Any], b: Mapping[str, Any], where: str, path: Names) -> None:
        if where in _WHOLE_MAPPINGS:
            gone = {k: v for k, v in a.items() if k not in b}
            come = {k: v for k, v in b.items() if k not in a}
            moved = [k for k, v in a.items() if k in b and b[k] != v]
            if gone:
                self._put("removed", path, gone, None)
            if come:
                self._put("added", path, None, come)
            if moved:
                self._put("changed", path, {k: a[k] for k in moved}, {k: b[k] for k in moved})
            return
        for key in chain(a, (k for k in b if k not in a)):
            here = (*path, key)
            if key not in b:
                self._put("removed", here, _shown(a[key], where), None)
            elif key not in a:
                self._put("added", here, None, _shown(b[key], where))
            elif a[key] != b[key]:
                self._value(a[key], b[key], where, here)

    def _leaf(self, a: Any, b: Any, where: str, path: Names) -> None:
        part = _PARTS.get(where)
        if part is not None and part.sub("", str(a)) == part.sub("", str(b)):
            return
        old, new = _shown(a, where), _shown(b, where)
        note = _list_note(old, new) if isinstance(old, tuple) and isinstance(new, tuple) else ""
        self._put("changed", path, old, new, note)


_OF_SLICES: Final = (("devices",), ("nodes",))


def _still_ready(before: s.Driver, after: s.Driver, *, listed: bool) -> str:
    """Say it where devices are gone while the Pods that should publish them are as before; empty otherwise."""
    if after.devices >= before.devices and set(before.nodes) <= set(after.nodes):
        return ""
    notes = []
    same = before.workload == after.workload and before.image == after.image
    if same and after.workload and after.ready and after.ready == after.desired:
        workload = f"{after.workload.kind} {after.workload.namespace}/{after.workload.name}"
        notes.append(
            tr(
                "{workload} is unchanged and {ready}/{wanted} ready: ready Pods are no devices",
                workload=workload,
                ready=after.ready,
                wanted=after.desired,
            )
        )
    if not listed:
        notes.append(tr("the second reading holds no list of ResourceSlices, which could prove it"))
    return "; ".join(notes)


def _starts(path: Names, head: Names) -> bool:
    return len(path) >= len(head) and all(h in {"*", p} for h, p in zip(head, path, strict=False))


def _of_structs(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], msgspec.Struct)


def _by_identity(items: tuple[Any, ...]) -> dict[str, Any]:
    if not items:
        return {}
    fields = _IDENTITY[type(items[0])]
    keyed: dict[str, Any] = {}
    for item in items:
        values = [str(v) for f in fields if (v := getattr(item, f)) not in {"", None}]
        _put_unique(keyed, "/".join(values) if fields else "", item)
    return keyed


def _put_unique(keyed: dict[str, Any], key: str, item: Any) -> None:
    if key and key not in keyed:
        keyed[key] = item
        return
    number = 2 if key else 1
    while (numbered := f"{key} #{number}".strip()) in keyed:
        number += 1
    keyed[numbered] = item


class _Items(tuple[tuple[str, Any], ...]):
    """A mapping as a key."""

    __slots__ = ()


def _hashable(value: Value) -> Any:
    return _Items(value.items()) if isinstance(value, dict) else value


def _shown(value: Any, where: str) -> Value:
    """Return a value as a change can hold it: a scalar, a list of them, or a flat mapping."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, s.Attribute):
        return value.values or value.value
    if isinstance(value, msgspec.Struct):
        return _flat(value, where)
    if isinstance(value, tuple):
        if _of_structs(value):
            return tuple(_by_identity(value))
        return tuple(v if isinstance(v, str | int | float | bool) or v is None else str(v) for v in value)
    if isinstance(value, dict):
        flat: dict[str, Any] = {}
        for key, entry in value.items():
            shown = _shown(entry, where)
            flat[key] = _joined(shown)
        return flat
    return str(value)


def _joined(value: Value) -> Any:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    return value


def _flat(value: msgspec.Struct, where: str) -> dict[str, Any]:
    """Return what a thing says beyond its identity and its defaults, one level deep."""
    identity = _IDENTITY.get(type(value), ())
    defaults = {f.name: f for f in msgspec.structs.fields(type(value))}
    flat = {}
    for field, below in _compared(value, where):
        entry = getattr(value, field)
        default = defaults[field].default
        if (
            field in identity
            or entry in ((), {}, "", None)
            or (default is not msgspec.NODEFAULT and entry == default)
        ):
            continue
        flat[field] = _joined(_shown(entry, below))
    return flat


@lru_cache(maxsize=512)
def _list_note(before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    """Say what came and went in a list of plain values."""
    if len(before) + len(after) > 400:
        return ""
    from deepdiff import DeepDiff

    found = DeepDiff(
        list(before),
        list(after),
        ignore_order=True,
        report_repetition=True,
        ignore_private_variables=False,
        view="tree",
    )
    if not found:
        return tr("only the order changed")
    gone = [str(row.t1) for row in found.get("iterable_item_removed", ())]
    come = [str(row.t2) for row in found.get("iterable_item_added", ())]
    for row in found.get("values_changed", ()):
        gone.append(str(row.t1))
        come.append(str(row.t2))
    notes = []
    if gone:
        notes.append(tr("gone: {names}", names=", ".join(sorted(gone))))
    if come:
        notes.append(tr("new: {names}", names=", ".join(sorted(come))))
    return "; ".join(notes)


# -------------------------------------------------------------------------------------------------------------- areas


class _Area(msgspec.Struct, frozen=True, kw_only=True):
    """A list of the snapshot: how its things are named, and what must have been read to say that one is not there."""

    name: str
    key: Callable[[Any], str]
    needs: Callable[[Any], Names]
    """Any of these kinds, when listed, would have shown the thing; empty: an optional source, never 'vanished'."""
    summary: Names = ()
    """Fields told of a thing that is new or gone."""


def _named(*fields: str) -> Callable[[Any], str]:
    def key(item: Any) -> str:
        return "/".join(str(v) for f in fields if (v := getattr(item, f)) not in {"", None})

    return key


def _always(*kinds: str) -> Callable[[Any], Names]:
    return lambda _: kinds


def _workload_needs(item: s.Workload) -> Names:
    groups = {"Job": "batch", "CronJob": "batch", "ReplicationController": ""}
    group = groups.get(item.kind, "apps")
    plural = f"{item.kind.lower()}s"
    return (f"{plural}.{group}" if group else plural,)


def _component_needs(item: s.Component) -> Names:
    if item.component == "kubelet" or item.kind in {"node", "annotation"}:
        return ("nodes",)
    if item.kind in {"static pod", "pod", "daemonset pod"}:
        return ("pods",)
    if item.kind == "workload":
        return ("deployments.apps", "daemonsets.apps", "statefulsets.apps")
    return ()


def _stored_needs(item: s.StoredObjects) -> Names:
    group = item.group_version.rpartition("/")[0]
    return (f"{item.resource}.{group}" if group else item.resource,)


def _webhook_needs(item: s.Webhook) -> Names:
    return (f"{item.kind}webhookconfigurations.admissionregistration.k8s.io",)


def _process_key(item: s.ProcessFact) -> str:
    return " ".join(part for part in (item.component, item.node or "", item.provenance) if part)


def _event_key(item: s.EventFact) -> str:
    return f"{item.kind} {_named('namespace', 'name')(item)} {item.reason} {item.type} {item.source}".strip()


_RESOURCE: Final = "resource.k8s.io"
_LISTS: Final[tuple[_Area, ...]] = (
    _Area(
        name="processes",
        key=_process_key,
        needs=_always(),
    ),
    _Area(name="config_maps", key=_named("namespace", "name"), needs=_always("configmaps")),
    _Area(name="nodes", key=_named("name"), needs=_always("nodes"), summary=("kubelet_version",)),
    _Area(name="apis", key=_named("group_version"), needs=_always("apis")),
    _Area(name="api_services", key=_named("name"), needs=_always("apiservices.apiregistration.k8s.io")),
    _Area(
        name="drivers",
        key=lambda d: f"{d.driver}",
        needs=_always(f"resourceslices.{_RESOURCE}"),
        summary=("version", "devices"),
    ),
    _Area(
        name="driver_rights",
        key=_named("driver", "service_account"),
        needs=_always("clusterroles.rbac.authorization.k8s.io"),
    ),
    _Area(
        name="device_classes",
        key=_named("name"),
        needs=_always(f"deviceclasses.{_RESOURCE}"),
        summary=("extended_resource_name",),
    ),
    _Area(
        name="pools",
        key=_named("driver", "name"),
        needs=_always(f"resourceslices.{_RESOURCE}"),
        summary=("generation", "node"),
    ),
    _Area(
        name="claim_templates",
        key=_named("namespace", "name"),
        needs=_always(f"resourceclaimtemplates.{_RESOURCE}"),
    ),
    _Area(
        name="taint_rules",
        key=_named("name"),
        needs=_always(f"devicetaintrules.{_RESOURCE}"),
        summary=("selector", "driver", "pool", "device", "key", "value", "effect"),
    ),
    _Area(
        name="workloads",
        key=lambda w: f"{w.kind} {w.namespace}/{w.name}",
        needs=_workload_needs,
        summary=("replicas",),
    ),
    _Area(
        name="disruption_budgets",
        key=_named("namespace", "name"),
        needs=_always("poddisruptionbudgets.policy"),
        summary=("min_available", "max_unavailable"),
    ),
    _Area(name="quotas", key=_named("namespace", "name"), needs=_always("resourcequotas")),
    _Area(name="webhooks", key=_named("kind", "configuration", "name"), needs=_webhook_needs),
    _Area(
        name="custom_resources",
        key=_named("name"),
        needs=_always("customresourcedefinitions.apiextensions.k8s.io"),
        summary=("served", "stored"),
    ),
    _Area(name="stored_objects", key=_named("group_version", "resource"), needs=_stored_needs),
    _Area(
        name="events", key=_event_key, needs=_always("events"), summary=("type", "reason", "kind", "source")
    ),
    _Area(name="leases", key=_named("name"), needs=_always("leases.coordination.k8s.io")),
)
_COMPONENTS: Final = _Area(
    name="components", key=_named("component", "node"), needs=_component_needs, summary=("version",)
)
_PODS: Final = _Area(
    name="pods", key=_named("namespace", "name"), needs=_always("pods"), summary=("node", "phase")
)
_CLAIMS: Final = _Area(
    name="claims",
    key=_named("namespace", "name"),
    needs=_always(f"resourceclaims.{_RESOURCE}"),
    summary=("allocated",),
)

AREAS: Final[Names] = (
    "cluster",
    "components",
    "processes",
    "config_maps",
    "nodes",
    "apis",
    "api_services",
    "drivers",
    "driver_rights",
    "device_classes",
    "pools",
    "devices",
    "claims",
    "claim_templates",
    "taint_rules",
    "pods",
    "workloads",
    "disruption_budgets",
    "quotas",
    "webhooks",
    "custom_resources",
    "stored_objects",
    "openshift",
    "leases",
    "events",
)
"""Areas of changes, in the order in which they are told."""


def _component_key(item: s.Component) -> str:
    owner = "" if item.belongs_to == "this cluster" else f"{item.belongs_to}: "
    if item.kind == "pod" or not item.node:
        return f"{owner}{item.component} {item.instance or item.node or ''}".strip()
    return f"{owner}{item.component} {item.node}"


def _base_name(item: s.Component) -> str:
    """Return a static Pod's name without its node: tells two etcds of one node apart."""
    name = (item.instance or "").rpartition("/")[2]
    return name.removesuffix(f"-{item.node}") if item.node else name


# ---------------------------------------------------------------------------------------------------------- comparing


class _Reading:
    """What one side could have seen."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.namespaces = snapshot.namespaces_read
        # A list that was cut or refused in part shows what is there, and says nothing of what is not.
        cut = {
            u.what
            for u in snapshot.unobserved
            if u.failed and not (u.reason == "forbidden" and u.what in self.namespaces)
        }
        self.kinds = (frozenset(snapshot.kinds_read) | ({"apis"} if snapshot.apis else frozenset())) - cut
        self.reasons: dict[str, str] = {}
        for entry in snapshot.unobserved:
            self.reasons.setdefault(entry.what, entry.reason)

    def missing(self, needs: Names, namespace: str) -> str | None:
        """Return the kind whose absence forbids to say that something is not there; None when it can be said."""
        if not needs:
            return ""
        for kind in needs:
            if kind in self.kinds and (
                not namespace or kind not in self.namespaces or namespace in self.namespaces[kind]
            ):
                return None
        return needs[0]

    def why(self, kind: str) -> str:
        return self.reasons.get(kind, "not-in-capture")


class _Comparer:
    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self.readings = {"before": _Reading(before), "after": _Reading(after)}
        self.changes: list[Change] = []
        self.unseen: dict[tuple[str, str, Side], list[str]] = {}
        """(area, kind that was not read, side that lacks it) -> things that the other side has."""
        self.unread: dict[tuple[str, Names, Side], list[str]] = {}

    # -- one thing against nothing

    def alone(
        self, walk: _Walk, area: _Area, subject: str, item: Any, side: Literal["before", "after"]
    ) -> None:
        """Tell a thing that only one side has: as new or gone if the other side could have seen it."""
        other: Literal["before", "after"] = "after" if side == "before" else "before"
        namespace = getattr(item, "namespace", "") or ""
        missing = self.readings[other].missing(area.needs(item), namespace)
        if missing is not None:
            self.unseen.setdefault((area.name, missing, other), []).append(subject)
            return
        told = {f: _joined(_shown(getattr(item, f), f"{area.name}[].{f}")) for f in area.summary}
        told = {f: v for f, v in told.items() if v not in ("", None, 0)}
        if side == "before":
            walk.add("removed", (), subject, told or None, None)
        else:
            walk.add("added", (), subject, None, told or None)

    def keyed(self, area: _Area, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        walk = _Walk(area.name)
        walk.listed = f"resourceslices.{_RESOURCE}" in self.readings["after"].kinds
        for key in sorted({*before, *after}):
            if key not in after:
                self.alone(walk, area, key, before[key], "before")
            elif key not in before:
                self.alone(walk, area, key, after[key], "after")
            elif before[key] != after[key]:
                self.one(walk, area.name, key, before[key], after[key])
        self.close(walk)

    def one(
        self, walk: _Walk, area: str, subject: str, before: Any, after: Any, *, replaced: bool = False
    ) -> None:
        """Compare two of a kind; a new object of the same name is told as one."""
        skip: frozenset[str] = frozenset({"devices"}) if area == "pools" else frozenset()
        if area in _NEW_OBJECT:
            new = replaced or (bool(getattr(before, "uid", "")) and before.uid != after.uid)
            if new:
                skip = _NEW_OBJECT[area]
                if not replaced:
                    walk.add(
                        "changed",
                        ("uid",),
                        subject,
                        before.uid,
                        after.uid,
                        tr("a new object of the same name"),
                    )
                    skip -= {"node"} if area == "pods" else set()
                    skip -= {"devices", "node"} if area == "claims" else set()
        if area == "pods" and skip:
            before, after = _fresh(before), _fresh(after)
        walk.pair(subject, before, after, f"{area}[]", skip)

    def close(self, walk: _Walk) -> None:
        for (kind, path, old, new, note), subjects in walk.found.items():
            self.changes.append(
                Change(
                    kind=kind,
                    area=walk.area,
                    path=path,
                    subjects=tuple(sorted(subjects)),
                    before=_unhashed(old),
                    after=_unhashed(new),
                    count=len(subjects),
                    note=note,
                )
            )
        for key, subjects in walk.unread.items():
            self.unread.setdefault(key, []).extend(subjects)

    # -- areas

    def run(self) -> Comparison:
        """Compare everything."""
        a, b = self.before, self.after
        self.single("cluster", a.cluster, b.cluster)
        self.components()
        for area in _LISTS:
            old, new = getattr(a, area.name), getattr(b, area.name)
            if old != new:
                self.keyed(area, _keyed(old, area.key), _keyed(new, area.key))
        if a.pools != b.pools:
            self.devices()
        self.pods()
        self.claims()
        self.openshift()
        return self.result()

    def single(self, area: str, before: Any, after: Any) -> None:
        if before == after:
            return
        walk = _Walk(area)
        walk.pair(area, before, after, area)
        self.close(walk)

    def openshift(self) -> None:
        a, b = self.before.openshift, self.after.openshift
        if a == b:
            return
        if not a or not b:
            kind = "clusterversions.config.openshift.io"
            side: Literal["before", "after"] = "after" if a else "before"
            if self.readings[side].missing((kind,), "") is not None:
                self.unseen.setdefault(("openshift", kind, side), []).append("openshift")
                return
        walk = _Walk("openshift")
        for key in sorted({*a, *b}):
            if key not in b:
                walk.add("removed", (key,), "openshift", a[key], None)
            elif key not in a:
                walk.add("added", (key,), "openshift", None, b[key])
            elif a[key] != b[key]:
                walk.add("changed", (key,), "openshift", a[key], b[key])
        self.close(walk)

    def devices(self) -> None:
        def keyed(pools: Iterable[s.Pool]) -> dict[str, s.Device]:
            return {f"{p.driver}/{p.name}/{d.name}": d for p in pools for d in p.devices}

        area = _Area(name="devices", key=_named("name"), needs=_always(f"resourceslices.{_RESOURCE}"))
        walk = _Walk("devices")
        before, after = keyed(self.before.pools), keyed(self.after.pools)
        for key, device in before.items():
            other = after.get(key)
            if other is None:
                self.alone(walk, area, key, device, "before")
            elif other != device:
                walk.pair(key, device, other, "pools[].devices[]")
        for key, device in after.items():
            if key not in before:
                self.alone(walk, area, key, device, "after")
        self.close(walk)

    def components(self) -> None:
        a, b = self.before.components, self.after.components
        if a == b:
            return
        before, after = _component_map(a), _component_map(b)
        walk = _Walk("components")
        replaced = self._replaced(
            before, after, lambda c: (c.component, c.namespace, c.belongs_to) if c.kind == "pod" else None
        )
        self._tell_replaced(walk, _COMPONENTS, replaced, lambda c: f"{c.component} Pods")
        gone = {k for k, *_ in chain.from_iterable(replaced.values())}
        come = {k for _, k, *_ in chain.from_iterable(replaced.values())}
        self.close(walk)
        self.keyed(
            _COMPONENTS,
            {k: v for k, v in before.items() if k not in gone},
            {k: v for k, v in after.items() if k not in come},
        )

    def pods(self) -> None:
        a, b = self.before.pods, self.after.pods
        if a == b:
            return
        self._with_replaced(_PODS, _keyed(a, _PODS.key), _keyed(b, _PODS.key), _pod_group, _pod_owner)

    def claims(self) -> None:
        a, b = self.before.claims, self.after.claims
        if a == b:
            return
        owners = {
            (p.namespace, p.name): p.owner
            for p in chain(self.before.pods, self.after.pods)
            if p.owner is not None
        }

        def group(claim: s.Claim) -> tuple[str, ...] | None:
            if not (claim.template or claim.extended_resource):
                return None
            owner = owners.get((claim.namespace, claim.owner.removeprefix("Pod/")))
            if owner is None:
                return None
            return (claim.namespace, owner.kind, owner.name, claim.template or "<extended-resources>")

        def told(claim: s.Claim) -> str:
            _, kind, name, template = group(claim) or ("", "", "", "")
            return tr(
                "claims {template} of {owner}", template=template, owner=f"{kind} {claim.namespace}/{name}"
            )

        self._with_replaced(_CLAIMS, _keyed(a, _CLAIMS.key), _keyed(b, _CLAIMS.key), group, told)

    def _with_replaced(
        self,
        area: _Area,
        before: dict[str, Any],
        after: dict[str, Any],
        group: Callable[[Any], tuple[str, ...] | None],
        told: Callable[[Any], str],
    ) -> None:
        walk = _Walk(area.name)
        replaced = self._replaced(before, after, group)
        self._tell_replaced(walk, area, replaced, told)
        self.close(walk)
        gone = {k for k, *_ in chain.from_iterable(replaced.values())}
        come = {k for _, k, *_ in chain.from_iterable(replaced.values())}
        self.keyed(
            area,
            {k: v for k, v in before.items() if k not in gone},
            {k: v for k, v in after.items() if k not in come},
        )

    def _replaced(
        self, before: Mapping[str, Any], after: Mapping[str, Any], group: Callable[[Any], Any]
    ) -> dict[Any, list[tuple[str, str, Any, Any]]]:
        """Pair things of one owner that have new names: those on the same node first, then in order of name."""
        left: dict[Any, list[tuple[str, Any]]] = {}
        right: dict[Any, list[tuple[str, Any]]] = {}
        for key in sorted(k for k in before if k not in after):
            if (owner := group(before[key])) is not None:
                left.setdefault(owner, []).append((key, before[key]))
        for key in sorted(k for k in after if k not in before):
            if (owner := group(after[key])) is not None:
                right.setdefault(owner, []).append((key, after[key]))
        pairs: dict[Any, list[tuple[str, str, Any, Any]]] = {}
        for owner in sorted(left.keys() & right.keys()):
            olds, news = left[owner], right[owner]
            taken: set[str] = set()
            rest: list[tuple[str, Any]] = []
            for key, item in olds:
                same = next((n for n in news if n[0] not in taken and n[1].node == item.node), None)
                if same is None:
                    rest.append((key, item))
                else:
                    taken.add(same[0])
                    pairs.setdefault(owner, []).append((key, same[0], item, same[1]))
            free = [n for n in news if n[0] not in taken]
            pairs.setdefault(owner, []).extend(
                (key, new[0], item, new[1]) for (key, item), new in zip(rest, free, strict=False)
            )
        return pairs

    def _tell_replaced(
        self,
        walk: _Walk,
        area: _Area,
        replaced: Mapping[Any, list[tuple[str, str, Any, Any]]],
        told: Callable[[Any], str],
    ) -> None:
        by_owner: dict[str, list[tuple[str, str, Any, Any]]] = {}
        for pairs in replaced.values():
            for pair in pairs:
                by_owner.setdefault(told(pair[2]), []).append(pair)
        for owner, pairs in by_owner.items():
            self.changes.append(
                Change(
                    kind="changed",
                    area=area.name,
                    path=("replaced",),
                    subjects=(owner,),
                    before=tuple(_with_node(key, item) for key, _, item, _ in pairs),
                    after=tuple(_with_node(key, item) for _, key, _, item in pairs),
                    count=len(pairs),
                    note=tr("replaced under new names"),
                )
            )
            for old, new, before, after in pairs:
                if _fresh(before) != _fresh(after) or old != new:
                    self.one(walk, area.name, new, before, after, replaced=True)

    # -- what could not be compared

    def result(self) -> Comparison:
        order = {name: i for i, name in enumerate(AREAS)}
        changes = sorted(
            self.changes,
            key=lambda c: (order[c.area], c.path, c.kind, c.subjects, repr(c.before), repr(c.after)),
        )
        return Comparison(
            before=_label(self.before),
            after=_label(self.after),
            before_digest=_digest(self.before),
            after_digest=_digest(self.after),
            changes=tuple(changes),
            not_comparable=self.not_comparable(),
        )

    def not_comparable(self) -> tuple[NotComparable, ...]:
        rows: set[tuple[str, str, Side, str]] = set()
        told: set[tuple[str, Side]] = set()
        for (area, kind, side), subjects in self.unseen.items():
            if kind:
                told.add((kind, side))
                why = self.readings[side].why(kind)
                what = tr("{kind}: {n} that the other side has", kind=kind, n=len(subjects))
                rows.add((area, what, side, why))
            else:
                rows.update((area, subject, side, "not-in-capture") for subject in subjects)
        for (area, path, side), subjects in self.unread.items():
            rows.add(
                (
                    area,
                    tr("{path} of {names}", path=".".join(path), names=_capped(subjects)),
                    side,
                    "unobservable",
                )
            )
        rows.update(self._unobserved(told))
        rows.update(self._kinds(told))
        ordered = sorted(rows)
        return tuple(NotComparable(area=a, what=w, side=side, reason=r) for a, w, side, r in ordered)

    def _unobserved(self, told: set[tuple[str, Side]]) -> Iterable[tuple[str, str, Side, str]]:
        before = {u.what: u.reason for u in self.before.unobserved}
        after = {u.what: u.reason for u in self.after.unobserved}
        for what in sorted({*before, *after}):
            side: Side = (
                "both" if what in before and what in after else "before" if what in before else "after"
            )
            if side != "both" and (what, side) in told:
                continue
            reasons = dict.fromkeys(r for r in (before.get(what), after.get(what)) if r)
            yield ("reading", what, side, ", ".join(reasons))

    def _kinds(self, told: set[tuple[str, Side]]) -> Iterable[tuple[str, str, Side, str]]:
        a, b = self.before, self.after
        named = {u.what for u in chain(a.unobserved, b.unobserved)}
        for kind in sorted(set(a.kinds_read) ^ set(b.kinds_read)):
            side: Side = "after" if kind in a.kinds_read else "before"
            if kind not in named and (kind, side) not in told:
                yield ("reading", kind, side, "not-in-capture")
        for kind in sorted({*a.namespaces_read, *b.namespaces_read}):
            old, new = a.namespaces_read.get(kind), b.namespaces_read.get(kind)
            if old != new:
                sides: Side = "before" if new is None else "after" if old is None else "both"
                what = tr(
                    "{kind}: namespaces read before: {before}; after: {after}",
                    kind=kind,
                    before=tr("all") if old is None else ", ".join(old),
                    after=tr("all") if new is None else ", ".join(new),
                )
                yield ("reading", what, sides, "not-asked")


def _unhashed(value: Any) -> Value:
    return dict(value) if isinstance(value, _Items) else value


def _capped(subjects: list[str], limit: int = 4) -> str:
    names = sorted(set(subjects))
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else tr("{names} and {n} more", names=shown, n=len(names) - limit)


def _keyed(items: Iterable[Any], key: Callable[[Any], str]) -> dict[str, Any]:
    keyed: dict[str, Any] = {}
    for item in items:
        _put_unique(keyed, key(item), item)
    return keyed


def _component_map(items: Iterable[s.Component]) -> dict[str, s.Component]:
    by_key: dict[str, list[s.Component]] = {}
    for item in items:
        by_key.setdefault(_component_key(item), []).append(item)
    keyed: dict[str, s.Component] = {}
    for key, twins in by_key.items():
        for item in twins:
            base = _base_name(item)
            told = key if len(twins) == 1 or not base or base == item.component else f"{key} ({base})"
            _put_unique(keyed, told, item)
    return keyed


def _pod_group(pod: s.PodUse) -> tuple[str, ...] | None:
    if pod.owner is None:
        return None
    node = pod.node if pod.owner.kind == "DaemonSet" else ""
    return (pod.owner.kind, pod.owner.namespace, pod.owner.name, node)


def _pod_owner(pod: s.PodUse) -> str:
    owner = pod.owner
    if owner is None:
        return f"{pod.namespace}/{pod.name}"
    return f"{owner.kind} {owner.namespace}/{owner.name}"


def _with_node(key: str, item: Any) -> str:
    node = getattr(item, "node", "") or ""
    return f"{key} ({node})" if node and not key.endswith(f" {node}") else key


def _fresh(item: Any) -> Any:
    """Return a Pod without what every new Pod has anew: restarts, hashes in labels, names of generated claims."""
    if not isinstance(item, s.PodUse):
        return item
    replace = msgspec.structs.replace
    return replace(
        item,
        restarts=0,
        containers=tuple(
            replace(c, restarts=0, started_at="", exit_code=None, message="") for c in item.containers
        ),
        labels={k: v for k, v in item.labels.items() if k not in _HASH_LABELS},
        claims=tuple(
            replace(c, claim="") if c.template or c.pod_claim.startswith("<") else c for c in item.claims
        ),
    )


def _label(snapshot: Snapshot) -> str:
    parts = (snapshot.cluster.name, snapshot.cluster.server_version or "", snapshot.captured_at)
    return " ".join(part for part in parts if part) or snapshot.source.description


def _digest(snapshot: Snapshot) -> str:
    from changegen.store import digest_of

    return digest_of(snapshot)


def compare(before: Snapshot, after: Snapshot) -> Comparison:
    """Return what changed from ``before`` to ``after``.

    ``not_comparable`` holds what only one side could read (``side`` is the one that lacks it) and what neither did; a
    thing of such a kind is never told as new or gone.
    """
    return _Comparer(before, after).run()
