"""The lists of a snapshot: how their things are named, and what must have been read to say that one is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from changegen.compare.tables import Names
from changegen.compare.walk import put_unique
from changegen.model import snapshot as s


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """A list of the snapshot: how its things are named, and what must have been read to say that one is not there."""

    name: str
    key: Callable[[Any], str]
    needs: Callable[[Any], Names]
    """Any of these kinds, when listed, would have shown the thing; empty: an optional source, never 'vanished'."""
    summary: Names = ()
    """Fields told of a thing that is new or gone."""


def named(*fields: str) -> Callable[[Any], str]:
    """Return a key made of a thing's fields, ``namespace/name``; fields without a value are left out."""

    def key(item: Any) -> str:
        return "/".join(str(v) for f in fields if (v := getattr(item, f)) not in {"", None})

    return key


def always(*kinds: str) -> Callable[[Any], Names]:
    """Return the needs of an area that are the same for all of its things."""
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
    return f"{item.kind} {named('namespace', 'name')(item)} {item.reason} {item.type} {item.source}".strip()


RESOURCE: Final = "resource.k8s.io"
LISTS: Final[tuple[Area, ...]] = (
    Area(
        name="processes",
        key=_process_key,
        needs=always(),
    ),
    Area(name="config_maps", key=named("namespace", "name"), needs=always("configmaps")),
    Area(name="nodes", key=named("name"), needs=always("nodes"), summary=("kubelet_version",)),
    Area(name="apis", key=named("group_version"), needs=always("apis")),
    Area(name="api_services", key=named("name"), needs=always("apiservices.apiregistration.k8s.io")),
    Area(
        name="drivers",
        key=lambda d: f"{d.driver}",
        needs=always(f"resourceslices.{RESOURCE}"),
        summary=("version", "devices"),
    ),
    Area(
        name="driver_rights",
        key=named("driver", "service_account"),
        needs=always("clusterroles.rbac.authorization.k8s.io"),
    ),
    Area(
        name="device_classes",
        key=named("name"),
        needs=always(f"deviceclasses.{RESOURCE}"),
        summary=("extended_resource_name",),
    ),
    Area(
        name="pools",
        key=named("driver", "name"),
        needs=always(f"resourceslices.{RESOURCE}"),
        summary=("generation", "node"),
    ),
    Area(
        name="claim_templates",
        key=named("namespace", "name"),
        needs=always(f"resourceclaimtemplates.{RESOURCE}"),
    ),
    Area(
        name="taint_rules",
        key=named("name"),
        needs=always(f"devicetaintrules.{RESOURCE}"),
        summary=("selector", "driver", "pool", "device", "key", "value", "effect"),
    ),
    Area(
        name="workloads",
        key=lambda w: f"{w.kind} {w.namespace}/{w.name}",
        needs=_workload_needs,
        summary=("replicas",),
    ),
    Area(
        name="disruption_budgets",
        key=named("namespace", "name"),
        needs=always("poddisruptionbudgets.policy"),
        summary=("min_available", "max_unavailable"),
    ),
    Area(
        name="autoscalers",
        key=named("namespace", "name"),
        needs=always("horizontalpodautoscalers.autoscaling"),
        summary=("min_replicas", "max_replicas"),
    ),
    Area(name="quotas", key=named("namespace", "name"), needs=always("resourcequotas")),
    Area(name="webhooks", key=named("kind", "configuration", "name"), needs=_webhook_needs),
    Area(
        name="custom_resources",
        key=named("name"),
        needs=always("customresourcedefinitions.apiextensions.k8s.io"),
        summary=("served", "stored"),
    ),
    Area(name="stored_objects", key=named("group_version", "resource"), needs=_stored_needs),
    Area(name="events", key=_event_key, needs=always("events"), summary=("type", "reason", "kind", "source")),
    Area(name="leases", key=named("name"), needs=always("leases.coordination.k8s.io")),
)
COMPONENTS: Final = Area(
    name="components", key=named("component", "node"), needs=_component_needs, summary=("version",)
)
PODS: Final = Area(
    name="pods", key=named("namespace", "name"), needs=always("pods"), summary=("node", "phase")
)
CLAIMS: Final = Area(
    name="claims",
    key=named("namespace", "name"),
    needs=always(f"resourceclaims.{RESOURCE}"),
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
    "autoscalers",
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


def by_key(items: Iterable[Any], key: Callable[[Any], str]) -> dict[str, Any]:
    """Return things by their key; a second one of the same key is ``KEY #2``."""
    keyed: dict[str, Any] = {}
    for item in items:
        put_unique(keyed, key(item), item)
    return keyed


def component_map(items: Iterable[s.Component]) -> dict[str, s.Component]:
    """Return instances by component and node; twins on one node are told apart by their Pod's name without the node."""
    groups: dict[str, list[s.Component]] = {}
    for item in items:
        groups.setdefault(_component_key(item), []).append(item)
    keyed: dict[str, s.Component] = {}
    for key, twins in groups.items():
        for item in twins:
            base = _base_name(item)
            told = key if len(twins) == 1 or not base or base == item.component else f"{key} ({base})"
            put_unique(keyed, told, item)
    return keyed


def pod_group(pod: s.PodUse) -> tuple[str, ...] | None:
    """Return what Pods that replace each other have in common: the owner, for a DaemonSet's also the node."""
    if pod.owner is None:
        return None
    node = pod.node if pod.owner.kind == "DaemonSet" else ""
    return (pod.owner.kind, pod.namespace, pod.owner.name, node)


def pod_owner(pod: s.PodUse) -> str:
    """Return the owner as a subject, ``Deployment ml/train``; a bare Pod is its own."""
    owner = pod.owner
    if owner is None:
        return f"{pod.namespace}/{pod.name}"
    return f"{owner.kind} {owner.namespace}/{owner.name}"
