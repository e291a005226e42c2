"""What is left out, what tells things apart, and what repeats another fact: the knowledge of compare, as tables."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from changegen.model import snapshot as s
from changegen.model.base import UNOBSERVABLE

Side = Literal["before", "after", "both"]
Kind = Literal["added", "removed", "changed"]
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
    Volatile(path="autoscalers[].current_replicas", why="autoscaling at work; what it is told is compared"),
    Volatile(path="autoscalers[].desired_replicas", why="autoscaling at work; what it is told is compared"),
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
IDENTITY: Final[dict[type, Names]] = {
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
UNREAD: Final[dict[str, Any]] = {
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
ECHOES: Final[dict[str, tuple[tuple[Names, Names], ...]]] = {
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
FOLDED: Final[dict[str, tuple[tuple[Names, Names], ...]]] = {
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
WHOLE_MAPPINGS: Final = frozenset({"components[].effective_gates{}", "processes[].effective_gates{}"})

# What is new by necessity when an object was replaced under the same or another name.
NEW_OBJECT: Final[dict[str, frozenset[str]]] = {
    "pods": frozenset(
        {"name", "uid", "created", "started", "restarts", "owner_chain", "extended_claim", "node"}
    ),
    "claims": frozenset(
        {"name", "uid", "created", "owner", "allocated_at", "reserved_for", "devices", "node"}
    ),
    "components": frozenset({"instance", "node"}),
}
HASH_LABELS: Final = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "batch.kubernetes.io/controller-uid",
    }
)


def _below(prefix: str, field: str) -> str:
    return f"{prefix}.{field}" if prefix else field


_WHOLE: Final = frozenset(v.path for v in VOLATILE if not v.part)
PARTS: Final = {v.path: re.compile(v.part) for v in VOLATILE if v.part}


def is_volatile(path: str) -> bool:
    """Whether a snapshot path (``nodes[].pod_count``) or anything above it stands in ``VOLATILE``."""
    return any(
        path == v.path or path.startswith((f"{v.path}.", f"{v.path}[", f"{v.path}{{")) for v in VOLATILE
    )


def compared(value: msgspec.Struct, prefix: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a struct that are compared, each with its path in the snapshot below ``prefix``."""
    return _fields(type(value).__struct_fields__, prefix)


@lru_cache(maxsize=2048)
def _fields(names: Names, prefix: str) -> tuple[tuple[str, str], ...]:
    """Return the compared fields among a struct's with their paths."""
    return tuple((field, _below(prefix, field)) for field in names if _below(prefix, field) not in _WHOLE)
