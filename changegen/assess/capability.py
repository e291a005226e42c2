"""Whether the cluster as a whole can do a DRA feature: API server, scheduler, controller-manager, every kubelet, drivers.

A gate counts on every component that reads it: where it is off on the API server, fields are dropped and bootstrap rights
are not made; on the scheduler or controller-manager nobody acts; on a kubelet the container does not get what was allocated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from changegen.assess.apis import served_at_target
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, GateState, label_of, names
from changegen.assess.dra import index
from changegen.assess.driver_apis import release_of
from changegen.assess.health import FILLS_STATUS, granular
from changegen.i18n import tr, trn
from changegen.model.snapshot import DriverRights
from changegen.model.ticket import Evidence, FeatureRow, Finding
from changegen.versions import minor_key

__all__ = ["CODES", "FEATURES", "Feature", "feature_rows", "findings", "in_use", "rights_needed"]

NOT_READY = Code(
    code="CG-DRA-001",
    title="Wanted DRA feature not ready",
    severity="warning",
    meaning="The profile wants a DRA feature, and with what is set today something that it needs will be missing at the target: "
    "a gate on a component, an API version, a kubelet, the rights of a driver.",
    remedy="Set what is missing, on every instance that is named.",
)
CANNOT_TELL = Code(
    code="CG-DRA-002",
    title="Cannot tell whether a wanted DRA feature is ready",
    severity="warning",
    meaning="Components that read a feature's gate do not show it: managed control planes, processes outside of Pods, captures "
    "without them.",
    remedy="Read more sources (metrics, configz), or ask the provider for the state of the gate.",
)
UNKNOWN_FEATURE = Code(
    code="CG-DRA-003",
    title="Unknown DRA feature in the profile",
    severity="warning",
    meaning="The profile wants a feature by a name that is not known.",
    remedy="See `changegen profile show --features` for the names.",
)
USED_NOT_READY = Code(
    code="CG-DRA-004",
    title="DRA feature in use that is not ready at the target",
    severity="warning",
    meaning="Objects of the cluster use a feature of which something will be missing at the target.",
    remedy="Set what is missing before the change, or stop using the feature.",
)
CODES = (NOT_READY, CANNOT_TELL, UNKNOWN_FEATURE, USED_NOT_READY)

_READERS: Final = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet")


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A DRA feature by the name that profiles use."""

    name: str
    title: str
    gates: tuple[str, ...]
    """All must be on; which components read each is in the Kubernetes data. Empty: it has none."""
    kinds: tuple[tuple[str, str], ...] = ()
    """(group version, kind): one of these must be served that the data's minor knows; the newest first."""
    since: str = "1.34"
    """First minor that has it in this form."""


FEATURES: Final = (
    Feature(
        name="extended-resources",
        title="Extended resources served by DeviceClasses",
        gates=("DRAExtendedResource",),
    ),
    Feature(name="device-taints", title="Device taints and tolerations", gates=("DRADeviceTaints",)),
    Feature(
        name="device-taint-rules",
        title="DeviceTaintRule: device taints set by administrators",
        gates=("DRADeviceTaints", "DRADeviceTaintRules"),
        kinds=(
            ("resource.k8s.io/v1", "DeviceTaintRule"),
            ("resource.k8s.io/v1beta2", "DeviceTaintRule"),
            ("resource.k8s.io/v1alpha3", "DeviceTaintRule"),
        ),
    ),
    Feature(
        name="device-status",
        title="Status of allocated devices in claims",
        gates=("DRAResourceClaimDeviceStatus",),
    ),
    Feature(
        name="granular-status-authorization",
        title="Rights of their own for device status and binding",
        gates=("DRAResourceClaimGranularStatusAuthorization",),
        since="1.36",
    ),
    Feature(
        name="prioritized-lists",
        title="Alternatives in a request (firstAvailable)",
        gates=("DRAPrioritizedList",),
    ),
    Feature(name="admin-access", title="Administrative access to devices in use", gates=("DRAAdminAccess",)),
    Feature(
        name="partitionable-devices",
        title="Devices that consume shared counters",
        gates=("DRAPartitionableDevices",),
    ),
    Feature(
        name="partition-types",
        title="Partition types in the pool status",
        gates=("DRAPartitionableDevicesType", "DRAPartitionableDevices", "DRAResourcePoolStatus"),
        kinds=(("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"),),
        since="1.37",
    ),
    Feature(name="consumable-capacity", title="Devices shared by capacity", gates=("DRAConsumableCapacity",)),
    Feature(
        name="fractional-capacity",
        title="Fractional ranges of consumable capacity",
        gates=("DRAFractionalCapacityRange", "DRAConsumableCapacity"),
        since="1.37",
    ),
    Feature(
        name="binding-conditions",
        title="Devices that a Pod waits for before binding",
        gates=("DRADeviceBindingConditions",),
    ),
    Feature(
        name="workload-claims",
        title="Claims of a PodGroup",
        gates=("DRAWorkloadResourceClaims", "GenericWorkload"),
        kinds=(("scheduling.k8s.io/v1beta1", "PodGroup"), ("scheduling.k8s.io/v1alpha2", "PodGroup")),
        since="1.36",
    ),
    Feature(
        name="compatibility-groups",
        title="Compatibility groups of devices that share counters",
        gates=("DRADeviceCompatibilityGroups", "DRAPartitionableDevices"),
        since="1.37",
    ),
    Feature(
        name="pool-status-requests",
        title="ResourcePoolStatusRequest: free devices of a pool on request",
        gates=("DRAResourcePoolStatus",),
        kinds=(("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"),),
        since="1.36",
    ),
    Feature(
        name="list-attributes",
        title="Attributes that are lists",
        gates=("DRAListTypeAttributes",),
        since="1.36",
    ),
    Feature(
        name="derived-attributes",
        title="Attributes derived by CEL",
        gates=("DRADerivedAttributes",),
        since="1.37",
    ),
    Feature(
        name="node-allocatable-resources",
        title="Devices that account for CPU and memory of the node",
        gates=("DRANodeAllocatableResources",),
        since="1.36",
    ),
    Feature(
        name="optional-node-operations",
        title="Devices that need no preparing on the node",
        gates=("DRAOptionalNodeOperations", "NodeDeclaredFeatures"),
        since="1.37",
    ),
    Feature(
        name="filter-timeout",
        title="Time limit of the scheduler's device search",
        gates=("DRASchedulerFilterTimeout",),
    ),
    Feature(name="device-health", title="Device health in Pod status", gates=("ResourceHealthStatus",)),
    Feature(
        name="device-metadata",
        title="Device metadata for containers, an option of drivers",
        gates=(),
        since="1.36",
    ),
)
"""Every DRA feature that a profile can want."""

_ROUTES: Final = {
    "eks": "EKS: kubernetes_feature_enabled of kube-apiserver's /metrics; the versions page of EKS for the others",
    "gke": "GKE: kubernetes_feature_enabled of kube-apiserver's /metrics; alpha features need an alpha cluster",
    "aks": "AKS: kubernetes_feature_enabled of kube-apiserver's /metrics; preview features are registered with the provider",
}
_OTHER_ROUTE: Final = "kubernetes_feature_enabled of the component's own /metrics"


class _Verdict(msgspec.Struct):
    missing: list[str]
    unknown: list[str]


def _minor(ctx: Context) -> str | None:
    minor = ctx.data_minor if ctx.target is not None else ctx.today_minor
    return minor if minor is not None and ctx.data.knows(minor) else None


def _readers(ctx: Context, gate: str, minor: str) -> tuple[str, ...]:
    """Components that read a gate, by the data; all of them where it does not say."""
    known = ctx.data.gates(minor).get(gate)
    listed = known.components if known is not None else ()
    return tuple(name for name in _READERS if name in listed) or _READERS


def _stage(ctx: Context, feature: Feature, minor: str | None) -> str:
    if not feature.gates:
        return tr("no gate")
    if minor is None:
        return ""
    found = []
    for gate in feature.gates:
        known = ctx.data.gates(minor).get(gate)
        if known is None:
            found.append(tr("{gate}: unknown in {minor}", gate=gate, minor=minor))
            continue
        spec = next((s for s in reversed(known.specs) if s.min_compat is None), known.specs[-1])
        state = tr("on") if spec.default else tr("off")
        text = f"{gate}: {spec.stage} {state}" + (f" {tr('locked')}" if spec.lock else "")
        if known.depends:
            text += " " + tr("(needs {gates})", gates=", ".join(known.depends))
        found.append(text)
    return "; ".join(found)


def _versions(ctx: Context, states: Iterable[GateState]) -> str:
    wanted = {state.instance for state in states}
    found = {
        version.raw
        for kubelet in ctx.of("kubelet")
        if label_of(kubelet) in wanted and (version := ctx.version_of(kubelet)) is not None
    }
    return names(found, 3)


def _judge(
    ctx: Context, feature: Feature
) -> tuple[Literal["ready", "not-ready", "cannot-tell"], tuple[str, ...]]:
    minor = _minor(ctx)
    if minor is None:
        return "cannot-tell", (tr("no Kubernetes data of the target"),)
    if minor_key(minor) < minor_key(feature.since):
        return "not-ready", (tr("it exists from {minor} on", minor=feature.since),)
    if not feature.gates:
        return _option(ctx)
    verdict = _Verdict([], [])
    at: Literal["today", "target"] = "target" if ctx.target is not None else "today"
    for gate in feature.gates:
        _gate(ctx, gate, minor, at, verdict)
    _kinds(ctx, feature, minor, verdict)
    _drivers(ctx, feature, verdict)
    if verdict.missing:
        return "not-ready", tuple(verdict.missing + verdict.unknown)
    if verdict.unknown:
        return "cannot-tell", tuple(verdict.unknown)
    return "ready", ()


def _option(ctx: Context) -> tuple[Literal["ready", "not-ready", "cannot-tell"], tuple[str, ...]]:
    """Device metadata: an option of each driver. A release whose code lacks it cannot have it on."""
    able: list[str] = []
    unable: list[str] = []
    for driver in ctx.snapshot.drivers:
        known = release_of(driver.image, driver.version)
        if known is not None:
            (able if known[1].metadata else unable).append(f"{driver.driver} {driver.version}")
    text = tr("no gate: an option of each driver, which no API shows")
    if able:
        text += "; " + tr("the code of {drivers} has it", drivers=names(able))
    if unable:
        return "not-ready", (tr("the code of {drivers} has no such option", drivers=names(unable)), text)
    return "cannot-tell", (text,)


def _gate(ctx: Context, gate: str, minor: str, at: Literal["today", "target"], verdict: _Verdict) -> None:
    if gate not in ctx.data.gates(minor):
        verdict.missing.append(tr("gate {gate} does not exist in {minor}", gate=gate, minor=minor))
        return
    off: list[str] = []
    blind: list[str] = []
    unseen: list[str] = []
    spec = ctx.data.gates(minor)[gate].specs[-1]
    for component in _readers(ctx, gate, minor):
        states = ctx.gate_states(gate, (component,), at)
        if not states and not (spec.lock and spec.default):
            unseen.append(component)
        closed = [state for state in states if state.value is False]
        if closed:
            version = f" {_versions(ctx, closed)}" if component == "kubelet" else ""
            off.append(_placed(f"{component}{version}", closed))
        dark = [state for state in states if state.value is None]
        if dark:
            blind.append(_placed(component, dark))
    if off:
        verdict.missing.append(tr("gate {gate} off on {where}", gate=gate, where="; ".join(off)))
    if blind:
        text = tr("gate {gate} not observable on {where}", gate=gate, where="; ".join(blind))
        if ctx.snapshot.cluster.managed:
            text += f" ({_ROUTES.get(ctx.snapshot.cluster.distribution, _OTHER_ROUTE)})"
        verdict.unknown.append(text)
    if unseen:
        verdict.unknown.append(
            tr("gate {gate}: no instance of {components} is seen", gate=gate, components=", ".join(unseen))
        )


def _placed(what: str, states: list[GateState]) -> str:
    """`kubelet 1.35.4 n1, n2`; only the component where the reading names no node or Pod of it."""
    where = {state.node or state.instance for state in states} - {states[0].component}
    return f"{what} {names(where)}" if where else what


def _kinds(ctx: Context, feature: Feature, minor: str, verdict: _Verdict) -> None:
    if not feature.kinds:
        return
    known = [
        (version, kind)
        for version, kind in feature.kinds
        if any(
            api.group_version == version and api.kind == kind and api.served for api in ctx.data.apis(minor)
        )
    ]
    if not known:
        verdict.missing.append(tr("{kind} is not in {minor}", kind=feature.kinds[0][1], minor=minor))
        return
    answers = [
        (
            served_at_target(ctx, version, kind) if ctx.target is not None else ctx.served(version, kind),
            version,
            kind,
        )
        for version, kind in known
    ]
    if any(answer is True for answer, _, _ in answers):
        return
    _, version, kind = answers[0]
    text = tr("{version} {kind} not served: --runtime-config={version}=true", version=version, kind=kind)
    if all(answer is False for answer, _, _ in answers):
        verdict.missing.append(text)
    else:
        verdict.unknown.append(
            tr("whether {version} {kind} is served is not known", version=version, kind=kind)
        )


def _drivers(ctx: Context, feature: Feature, verdict: _Verdict) -> None:
    """Rights of the drivers that fill the device status, which the API server asks for since 1.36."""
    if feature.name != "device-status":
        return
    for driver, found in _status_writers(ctx):
        if found is not None and found.can_update_driver_status is False:
            verdict.missing.append(
                tr(
                    "driver {driver}: {account} may not update resourceclaims/driver",
                    driver=driver,
                    account=found.service_account,
                )
            )
        else:
            verdict.unknown.append(
                tr(
                    "driver {driver}: whether it may update resourceclaims/driver was not read (roles and bindings)",
                    driver=driver,
                )
            )


def _status_writers(ctx: Context) -> Iterator[tuple[str, DriverRights | None]]:
    """Drivers that fill the device status and are not known to have the right for it, and what was read of theirs."""
    if not granular(ctx):
        return
    writers = {status.driver for claim in ctx.snapshot.claims for status in claim.device_status}
    rights = {found.driver: found for found in ctx.snapshot.driver_rights}
    for driver in ctx.snapshot.drivers:
        if driver.driver not in writers and driver.driver not in FILLS_STATUS:
            continue
        found = rights.get(driver.driver)
        allowed = found.can_update_driver_status if found is not None else None
        # What a driver has written under the same rule it may write.
        proven = allowed is None and driver.driver in writers and granular(ctx, "today")
        if allowed is not True and not proven:
            yield driver.driver, found


def rights_needed(ctx: Context) -> bool:
    """Whether roles and bindings are needed to tell if a driver may go on filling the device status."""
    return any(found is None or found.can_update_driver_status is None for _, found in _status_writers(ctx))


def in_use(ctx: Context) -> dict[str, tuple[str, ...]]:
    """Feature -> objects that use it, as far as they were read."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    snapshot = ctx.snapshot
    for device_class in snapshot.device_classes:
        if device_class.extended_resource_name:
            used["extended-resources"].add(f"DeviceClass {device_class.name}")
    for rule in snapshot.taint_rules:
        used["device-taint-rules"].add(f"DeviceTaintRule {rule.name}")
    for key, device in index(ctx).devices.items():
        pool = f"pool {key.driver}/{key.pool}"
        if device.taints:
            used["device-taints"].add(pool)
        if device.consumes_counters:
            used["partitionable-devices"].add(pool)
        if device.allow_multiple_allocations:
            used["consumable-capacity"].add(pool)
        if device.binding_conditions:
            used["binding-conditions"].add(pool)
        if device.compatibility_groups:
            used["compatibility-groups"].add(pool)
        if any(a.type in {"strings", "ints", "bools", "versions"} for a in device.attributes.values()):
            used["list-attributes"].add(pool)
    for claim in snapshot.claims:
        name = f"ResourceClaim {claim.namespace}/{claim.name}"
        if claim.device_status:
            used["device-status"].add(name)
        if any(request.alternative_of for request in claim.requests):
            used["prioritized-lists"].add(name)
        if any(request.admin_access for request in claim.requests):
            used["admin-access"].add(name)
        if any(request.tolerations for request in claim.requests):
            used["device-taints"].add(name)
    for stored in snapshot.stored_objects:
        if stored.resource == "resourcepoolstatusrequests" and stored.names:
            used["pool-status-requests"].update(f"ResourcePoolStatusRequest {name}" for name in stored.names)
        if stored.resource == "podgroups" and stored.names:
            used["workload-claims"].update(f"PodGroup {name}" for name in stored.names)
    return {name: tuple(sorted(found)) for name, found in used.items()}


_rows: Final[WeakKeyDictionary[Context, tuple[FeatureRow, ...]]] = WeakKeyDictionary()


def feature_rows(ctx: Context) -> tuple[FeatureRow, ...]:
    """Every DRA feature with its stage at the target, whether the cluster is ready for it, and what is missing.

    Made once for a context, in the language that is then in force.
    """
    found = _rows.get(ctx)
    if found is None:
        found = _rows[ctx] = _feature_rows(ctx)
    return found


def _feature_rows(ctx: Context) -> tuple[FeatureRow, ...]:
    minor = _minor(ctx)
    wanted = set(ctx.profile.features)
    rows = []
    for feature in FEATURES:
        verdict, missing = _judge(ctx, feature)
        rows.append(
            FeatureRow(
                feature=feature.name,
                stage=_stage(ctx, feature, minor),
                verdict=verdict,
                missing=missing,
                wanted=feature.name in wanted,
            )
        )
    return tuple(rows)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on features that the profile wants or the cluster uses."""
    rows = {row.feature: row for row in feature_rows(ctx)}
    for name in ctx.profile.features:
        row = rows.get(name)
        if row is None:
            yield finding(
                UNKNOWN_FEATURE,
                tr("The profile wants feature {name}, which is not known", name=name),
                component="feature",
                name=name,
            )
        elif row.verdict != "ready":
            code = NOT_READY if row.verdict == "not-ready" else CANNOT_TELL
            text = (
                tr("{name} is not ready: {missing}", name=name, missing="; ".join(row.missing))
                if row.verdict == "not-ready"
                else tr(
                    "Whether {name} is ready cannot be told: {missing}",
                    name=name,
                    missing="; ".join(row.missing),
                )
            )
            yield finding(code, text, component="feature", name=name, evidence=_evidence(row))
    for name, users in sorted(in_use(ctx).items()):
        row = rows[name]
        if row.wanted or row.verdict != "not-ready":
            continue
        yield finding(
            USED_NOT_READY,
            trn(
                "{users} uses {name}, which is not ready: {missing}",
                "{users} use {name}, which is not ready: {missing}",
                n=len(users),
                users=names(users, 3),
                name=name,
                missing="; ".join(row.missing),
            ),
            component="feature",
            instances=users,
            name=name,
            evidence=_evidence(row),
        )


def _evidence(row: FeatureRow) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(source=row.feature, path="", value=text, provenance="inferred") for text in row.missing
    ) or (Evidence(source=row.feature, path="", value=row.stage, provenance="inferred"),)
