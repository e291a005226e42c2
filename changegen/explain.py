"""What the plan explains of the differences between two readings: planned, following from the plan, or unplanned. Pure.

`verify` reports the planned changes themselves from the ticket; here each difference is told apart that remains. A
difference follows from the plan where it is what an upgraded component, a restarted kubelet or a drained node does by
its nature; everything else was done by someone, or happened, without being planned.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from changegen.i18n import tr
from changegen.kubedata import KubernetesData
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Change, Comparison, Ticket
from changegen.plan.distribution import distribution
from changegen.versions import is_release, parse_image, try_version

__all__ = ["Explained", "explain"]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A difference with what the plan says of it."""

    change: Change
    how: Literal["planned", "follows", "unplanned", "with"]
    """with: the consequence of another unplanned change."""
    what: str
    why: str = ""


class _Plan:
    """What the ticket plans, indexed."""

    def __init__(
        self, ticket: Ticket, before: Snapshot, after: Snapshot, data: KubernetesData | None
    ) -> None:
        self.ticket, self.before, self.after, self.data = ticket, before, after, data
        self.renews = distribution(ticket.distribution).nodes in ("pool", "pool-all")
        self.targets: dict[str, str] = {}
        self.images: dict[str, str] = {}
        self.config: dict[str, str] = {}
        for change in ticket.changes:
            for subject in change.subjects:
                if change.area == "components":
                    self.targets[subject] = str(change.after)
                elif change.area == "workloads":
                    self.images[subject] = str(change.after)
                elif change.area == "config_maps":
                    self.config[subject.split(" ")[0]] = str(change.after)
        self.moved = {subject.split(" ")[0] for subject in self.targets}
        self.drained = {
            node for step in ticket.steps if step.phase in ("nodes", "control-plane") for node in step.nodes
        }
        self.restarted = {
            subject.split(" ", 1)[1] for subject in self.targets if subject.startswith("kubelet ")
        }
        self.gates = {
            str(check.query.args.get("gate", ""))
            for check in ticket.checks
            if check.query is not None and check.query.fact in ("kubeadm.names-gate", "component.names-gate")
        }
        # Optional steps take locked gates out of ConfigMaps.
        self.gates |= {
            item.subject.name
            for item in ticket.findings
            if item.code.startswith("CG-GATE-") and item.remedy and item.subject.name
        }
        self.drivers = {
            driver.driver
            for driver in before.drivers
            if driver.workload is not None
            and f"{driver.workload.kind} {driver.workload.namespace}/{driver.workload.name}" in self.images
        }
        self.driver_of = {
            f"{d.workload.kind} {d.workload.namespace}/{d.workload.name}": d.driver
            for d in before.drivers
            if d.workload is not None
        }
        self.changed_drivers = self._changed_drivers()
        images = {f"{w.kind} {w.namespace}/{w.name}": w.images for w in after.workloads}
        self.changed_workloads = {
            self.driver_of[name]
            for w in before.workloads
            if (name := f"{w.kind} {w.namespace}/{w.name}") in self.driver_of
            and images.get(name, w.images) != w.images
        }
        """Drivers whose workload's template has another image."""
        self.bare = {
            f"{pod.namespace}/{pod.name}": pod.node
            for pod in before.pods
            if pod.owner is None and pod.phase not in ("Succeeded", "Failed")
        }
        self.users = {
            f"{claim.namespace}/{claim.name}": frozenset(
                f"{claim.namespace}/{user.name}" for user in claim.reserved_for
            )
            for claim in before.claims
        }
        """Claim -> Pods that it was reserved for."""
        self.moved_server = bool(ticket.to_version) and _same(after.cluster.server_version, ticket.to_version)

    def _changed_drivers(self) -> set[str]:
        """Drivers whose plugin's image is another one now."""
        now = {driver.driver: driver.image for driver in self.after.drivers}
        return {d.driver for d in self.before.drivers if now.get(d.driver, d.image) != d.image}

    def wanted_gate(self, component: str, gate: str, value: object) -> bool:
        """Whether a ConfigMap from which manifests are written gives the gate that value."""
        for config in (*self.before.config_maps, *self.after.config_maps):
            source = config.component_gates.get(component)
            if source is not None and source.gates.get(gate) == value:
                return True
        return False


def _same(left: object, right: object) -> bool:
    a = try_version(left if isinstance(left, str) else None)
    b = try_version(right if isinstance(right, str) else None)
    return a is not None and b is not None and is_release(a, b)


def explain(
    ticket: Ticket,
    before: Snapshot,
    after: Snapshot,
    comparison: Comparison,
    data: KubernetesData | None = None,
) -> tuple[Explained, ...]:
    """Tell every difference apart; a grouped one is split where the plan explains only some of its subjects."""
    plan = _Plan(ticket, before, after, data)
    found = []
    for change in comparison.changes:
        groups: dict[tuple[str, str], list[str]] = {}
        for subject in change.subjects:
            how, why = _one(plan, change, subject)
            groups.setdefault((how, why), []).append(subject)
        if not change.subjects:
            groups[_one(plan, change, "")] = []
        for (how, why), subjects in groups.items():
            part = (
                change
                if len(groups) == 1
                else msgspec.structs.replace(change, subjects=tuple(subjects), count=len(subjects))
            )
            found.append(Explained(change=part, how=how, what=_what(part), why=why))  # type: ignore[arg-type]
    return tuple(found)


def _what(change: Change) -> str:
    """A difference in words: what, and of whom."""
    field = " ".join(change.path).replace("_", " ")
    label = _LABELS.get(change.area, change.area.replace("_", " "))
    if change.path[:1] == ("replaced",):
        label = tr("Pods of") if change.area == "pods" else ""
    shown = ", ".join(change.subjects[:4]) + (
        f" +{len(change.subjects) - 4}" if len(change.subjects) > 4 else ""
    )
    named = f"{label} {shown}".strip()
    if change.kind == "added" and not change.path:
        return tr("{subject}: new", subject=named)
    if change.kind == "removed" and not change.path:
        return tr("{subject}: gone", subject=named)
    return f"{named}: {field}"


_LABELS = {
    "cluster": "",
    "components": "",
    "processes": "",
    "workloads": "",
    "nodes": "Node",
    "apis": "API",
    "api_services": "APIService",
    "drivers": "driver",
    "pools": "pool",
    "devices": "device",
    "device_classes": "DeviceClass",
    "claims": "ResourceClaim",
    "claim_templates": "ResourceClaimTemplate",
    "taint_rules": "DeviceTaintRule",
    "pods": "Pod",
    "config_maps": "ConfigMap",
    "disruption_budgets": "PodDisruptionBudget",
    "autoscalers": "HorizontalPodAutoscaler",
    "quotas": "ResourceQuota",
    "webhooks": "webhook",
    "custom_resources": "CRD",
    "events": "event",
    "leases": "Lease",
}
"""What a subject of an area is; empty where the subject says it itself."""

_Verdict = tuple[str, str]
_UNPLANNED: _Verdict = ("unplanned", "")


def _one(plan: _Plan, change: Change, subject: str) -> _Verdict:
    if plan.renews and _of_nodes(change):
        return "follows", tr("the provider makes nodes anew: names change")
    rule = _RULES.get(change.area)
    return rule(plan, change, subject) if rule is not None else _UNPLANNED


def _of_nodes(change: Change) -> bool:
    """Whether a difference is what nodes of other names bring with them."""
    if not change.path:
        return change.area in ("nodes", "pools", "devices", "components") and change.kind in (
            "added",
            "removed",
        )
    return change.area == "drivers" and change.path[0] in ("nodes", "pod_nodes", "ready_nodes")


def _cluster(plan: _Plan, change: Change, _subject: str) -> _Verdict:
    if (
        change.path
        and change.path[0] in ("server_version", "emulation_version", "min_compatibility_version")
        and plan.moved_server
    ):
        return "follows", tr("the version that was planned")
    return _UNPLANNED


def _components(plan: _Plan, change: Change, subject: str) -> _Verdict:
    component = subject.split(" ", maxsplit=1)[0]
    target = plan.targets.get(subject)
    field = change.path[0] if change.path else ""
    node = subject.split(" ", 1)[1] if " " in subject else ""
    if field == "running_version" and target is not None and change.after is None:
        return "follows", tr("asked for and not proven yet")
    if field in ("version", "running_version") and target is not None:
        return (
            ("planned", "")
            if _same(change.after, target)
            else ("unplanned", tr("another version than planned ({target})", target=target))
        )
    if field == "image" and target is not None and isinstance(change.after, str):
        reference = parse_image(change.after)
        before = parse_image(change.before) if isinstance(change.before, str) else None
        if reference.version is None or not _same(reference.version.release, target):
            return "unplanned", tr("another version than planned ({target})", target=target)
        if before is not None and (before.registry, before.repository) != (
            reference.registry,
            reference.repository,
        ):
            return "unplanned", tr("the version is as planned, the registry or repository is another")
        return "planned", ""
    if field in ("feature_gates", "gate_sources"):
        return _gates(plan, change, component)
    if field in ("state", "ready", "phase", "config_hash", "image_id", "started_at") and (
        target is not None or node in plan.restarted
    ):
        return "follows", tr("it was started again")
    if field in ("effective_gates", "emulated_version") and target is not None:
        return "follows", tr("the defaults of the version that was planned")
    return _UNPLANNED


def _gates(plan: _Plan, change: Change, component: str) -> _Verdict:
    gate = change.path[-1] if len(change.path) > 1 else ""
    if change.kind == "removed" and gate in plan.gates:
        return "planned", ""
    if gate and plan.wanted_gate(component, gate, change.after):
        return "follows", tr("kubeadm-config sets it: the manifest was written from it again")
    return _UNPLANNED


def _processes(plan: _Plan, change: Change, subject: str) -> _Verdict:
    component = subject.split(" ", maxsplit=1)[0]
    field = change.path[0] if change.path else ""
    if field == "flag_gates":
        return _gates(plan, change, component)
    if field in (
        "version",
        "emulation_version",
        "min_compatibility_version",
        "effective_gates",
        "gate_stages",
        "started_at",
        "readyz",
    ) and (component in plan.moved or component == "unknown"):
        if field == "version" and not _same(change.after, plan.ticket.to_version):
            return "unplanned", tr("another version than planned ({target})", target=plan.ticket.to_version)
        return "follows", tr("the version that was planned")
    if field in ("requested_deprecated_apis", "etcd", "started_at"):
        return "follows", tr("counted anew since the start")
    return _UNPLANNED


def _nodes(plan: _Plan, change: Change, subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    target = plan.targets.get(f"kubelet {subject}")
    if field == "kubelet_version" and target is not None:
        return (
            ("planned", "")
            if _same(change.after, target)
            else ("unplanned", tr("another version than planned ({target})", target=target))
        )
    if field in ("declared_features", "pod_count", "annotations") and subject in plan.drained:
        return "follows", tr("the kubelet is a newer one, and the node was drained")
    return _UNPLANNED


def _apis(plan: _Plan, _change: Change, subject: str) -> _Verdict:
    if plan.data is None or not plan.moved_server or not plan.data.knows(plan.ticket.to_version):
        return _UNPLANNED
    known = {api.group_version for api in plan.data.apis(plan.ticket.to_version) if api.served}
    if plan.data.knows(plan.ticket.from_version):
        known |= {api.group_version for api in plan.data.apis(plan.ticket.from_version)}
    if subject in known:
        return "follows", tr("served so by the version that was planned")
    return _UNPLANNED


def _drivers(plan: _Plan, change: Change, subject: str) -> _Verdict:
    driver = subject.split("/", maxsplit=1)[0]
    if driver in plan.drivers:
        return "follows", tr("the driver's upgrade was planned")
    field = change.path[0] if change.path else ""
    if change.area == "pools" and field in ("generation", "slices") and driver not in plan.changed_drivers:
        return "follows", tr("a starting kubelet deletes its slices, and the driver publishes them anew")
    if driver in plan.changed_drivers and field not in ("image", "version"):
        return "with", tr("with the driver's image, whose change was not planned")
    if driver in plan.changed_drivers:
        return ("with" if driver in plan.changed_workloads else "unplanned"), _label_lag(plan, driver)
    return _UNPLANNED


def _label_lag(plan: _Plan, driver: str) -> str:
    for item in plan.after.drivers:
        if item.driver == driver and item.labels_version and item.version != "unobservable":
            label = item.labels_version
            if not _same(label, item.version) and label != item.version:
                return tr("its labels still say {label}", label=label)
    return ""


def _claims(plan: _Plan, change: Change, subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    if field == "replaced":
        return "follows", tr("its Pods were replaced when their node was drained")
    users = plan.users.get(subject, frozenset())
    again = any(user in plan.bare and plan.bare[user] in plan.drained for user in users)
    if again and field in (
        "allocated_at",
        "reserved_for",
        "devices",
        "node",
        "device_status",
        "finalizers",
        "conditions",
    ):
        if field == "device_status" and change.kind == "removed":
            return "follows", tr(
                "the claim was allocated again: its device status starts empty until the driver fills it"
            )
        return "follows", tr("its Pod was made again, and the claim was allocated again")
    return _UNPLANNED


def _pods(plan: _Plan, change: Change, subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    if field == "replaced":
        owner = subject
        if (
            owner in plan.driver_of
            and plan.driver_of[owner] in plan.changed_drivers
            and plan.driver_of[owner] not in plan.drivers
        ):
            return "with", tr("with the driver's image, whose change was not planned")
        return "follows", tr("replaced when their node was drained")
    node = plan.bare.get(subject)
    if not change.path and change.kind == "removed":
        if node is None:
            return _UNPLANNED
        if node in plan.drained:
            return "follows", tr(
                "it had no controller, and the drain of {node} deleted it for good", node=node
            )
        return "unplanned", tr("it had no controller and was on no node that is drained: someone deleted it")
    if field == "uid" and node is not None and node in plan.drained:
        return "follows", tr("it had no controller and was created again under its name")
    if field in ("containers", "restarts") and change.path[-1] == "restarts":
        return "follows", tr("its kubelet was started again")
    if field == "containers" and change.path[-1] == "image":
        return _image_of_pod(plan, change)
    if field in (
        "started",
        "created",
        "ready",
        "conditions",
        "scheduled",
        "containers",
        "phase",
        "node",
        "claims",
        "health",
    ):
        return "follows", tr("its node was drained or its kubelet started again")
    return _UNPLANNED


def _image_of_pod(plan: _Plan, change: Change) -> _Verdict:
    if change.after in plan.images.values():
        return "planned", ""
    return "with", tr("with the image of its workload, whose change was not planned")


def _workloads(plan: _Plan, change: Change, subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    if field == "images":
        if plan.images.get(subject) == change.after:
            return "planned", ""
        driver = plan.driver_of.get(subject, "")
        return "unplanned", _label_lag(plan, driver) if driver else ""
    if field in ("ready", "updated"):
        return "follows", tr("Pods come and go while nodes are drained")
    return _UNPLANNED


def _config_maps(plan: _Plan, change: Change, subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    name = subject.removeprefix("ConfigMap ")
    if field == "kubernetes_version":
        target = plan.config.get(name)
        return ("planned", "") if target is not None and _same(change.after, target) else _UNPLANNED
    if field in ("component_gates", "component_flags") and any(gate in change.path for gate in plan.gates):
        return "planned", ""
    if field in ("component_gates", "component_flags") and _only_planned_gates(plan, change):
        return "planned", ""
    if field == "resource_version":
        return "follows", tr("written again")
    if (
        change.path == ("settings", "mode")
        and not change.before
        and change.after == "iptables"
        and plan.moved_server
    ):
        # kubeadm's add-on of 1.37 writes out the default that was meant by an empty mode.
        return "follows", tr("the add-on that was planned writes out the default mode")
    return _UNPLANNED


# Roles that the bootstrap policy binds to groups that hold every ServiceAccount; rights that someone gave are no such.
_DEFAULT_ROLE = re.compile(r"ClusterRole system:([a-z-]+-)?(discovery|basic-user|public-info-viewer)")


def _driver_rights(plan: _Plan, change: Change, _subject: str) -> _Verdict:
    """New default roles of the API server (`system:…`, its bootstrap policy) come with the version that was planned."""
    if not plan.moved_server or not change.path or change.path[0] != "roles":
        return _UNPLANNED
    before, after = set(_texts(change.before)), set(_texts(change.after))
    new = (after - before) or set(change.path[1:])
    if new and not before - after and all(_DEFAULT_ROLE.fullmatch(label) for label in new):
        return "follows", tr("a default role of the API server of the version that was planned")
    return _UNPLANNED


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(v for v in values if isinstance(v, str))


def _only_planned_gates(plan: _Plan, change: Change) -> bool:
    """Whether a --feature-gates value lost exactly gates that the plan takes out."""

    def parts(value: object) -> set[str]:
        texts = value if isinstance(value, (tuple, list)) else (value,)
        return {
            piece.strip()
            for text in texts
            if isinstance(text, str)
            for piece in text.split(",")
            if piece.strip()
        }

    gone, new = parts(change.before) - parts(change.after), parts(change.after) - parts(change.before)
    return (
        bool(gone) and not new and all(piece.split("=")[0].rpartition(":")[2] in plan.gates for piece in gone)
    )


def _budgets(_plan: _Plan, change: Change, _subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    if field in ("min_available", "max_unavailable", "selector", "unhealthy_policy", ""):
        return _UNPLANNED
    return "follows", tr("the controller counts anew")


def _autoscalers(_plan: _Plan, change: Change, _subject: str) -> _Verdict:
    if change.path[:1] == ("api_version",):
        return "follows", tr("read in another API version")
    return _UNPLANNED


def _rules(_plan: _Plan, change: Change, _subject: str) -> _Verdict:
    field = change.path[0] if change.path else ""
    if field in ("conditions", "api_version"):
        return "follows", tr("written by the controller, or read in another API version")
    return _UNPLANNED


def _seen(_plan: _Plan, _change: Change, _subject: str) -> _Verdict:
    return "follows", tr("an observation, no change that someone made")


_RULES = {
    "cluster": _cluster,
    "components": _components,
    "processes": _processes,
    "nodes": _nodes,
    "apis": _apis,
    "drivers": _drivers,
    "driver_rights": _driver_rights,
    "pools": _drivers,
    "devices": _drivers,
    "claims": _claims,
    "pods": _pods,
    "workloads": _workloads,
    "config_maps": _config_maps,
    "disruption_budgets": _budgets,
    "autoscalers": _autoscalers,
    "taint_rules": _rules,
    "events": _seen,
    "leases": _seen,
    "unobserved": _seen,
}
