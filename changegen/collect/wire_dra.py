"""Wire types of resource.k8s.io, in the shapes of every version that was ever on by default or by flag.

Only the fields that a snapshot needs; unknown ones are passed over. A Go ``null`` stands where a list or map is empty.
Shapes differ between versions in three places: v1beta1 (and v1alpha3 of 1.31 to 1.33) put a device's facts under
``basic`` and a request's on the request itself, v1beta2 and v1 put them on the device and under ``exactly``; DeviceTaintRule of
v1alpha3 had two more selector fields until 1.34. Source: k8s.io/api, resource/*/types.go of 0.34.4 and 0.37.2.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from changegen.collect.wire import Condition, ObjectMeta, Quantity, Wire


class Requirement(Wire, frozen=True, kw_only=True):
    """An expression of a node selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class SelectorTerm(Wire, frozen=True, kw_only=True):
    """nodeSelectorTerms[]."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Wire, frozen=True, kw_only=True):
    """nodeSelector of a slice, a device or an allocation."""

    node_selector_terms: tuple[SelectorTerm, ...] | None = None


class AttributeValue(
    Wire,
    frozen=True,
    kw_only=True,
    rename={
        "int_value": "int",
        "bool_value": "bool",
        "int_values": "ints",
        "bool_values": "bools",
    },
):
    """A device attribute: one of its fields is set."""

    string: str | None = None
    int_value: int | None = None
    bool_value: bool | None = None
    version: str | None = None
    strings: tuple[str, ...] | None = None
    int_values: tuple[int, ...] | None = None
    bool_values: tuple[bool, ...] | None = None
    versions: tuple[str, ...] | None = None


class PolicyRange(Wire, frozen=True, kw_only=True):
    """requestPolicy.validRange of a capacity."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(Wire, frozen=True, kw_only=True):
    """requestPolicy of a capacity."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] | None = None
    valid_range: PolicyRange | None = None


class CapacityValue(Wire, frozen=True, kw_only=True):
    """A capacity or counter."""

    value: Quantity | None = None
    request_policy: RequestPolicy | None = None


class WireTaint(Wire, frozen=True, kw_only=True):
    """A taint of a device or a rule."""

    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: str | None = None


class CounterUse(Wire, frozen=True, kw_only=True):
    """consumesCounters[] of a device."""

    counter_set: str = ""
    counters: dict[str, CapacityValue] | None = None
    compatibility_groups: tuple[str, ...] | None = None


class DeviceBody(Wire, frozen=True, kw_only=True):
    """What v1beta1 keeps under ``basic``."""

    attributes: dict[str, AttributeValue] | None = None
    capacity: dict[str, CapacityValue | str | int | float] | None = None
    taints: tuple[WireTaint, ...] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    consumes_counters: tuple[CounterUse, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class SliceDevice(DeviceBody, frozen=True, kw_only=True):
    """devices[] of a slice."""

    name: str = ""
    basic: DeviceBody | None = None

    @property
    def body(self) -> DeviceBody:
        """The device's facts, wherever its version keeps them."""
        return self if self.basic is None else self.basic


class PoolRef(Wire, frozen=True, kw_only=True):
    """pool of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int | None = None


class CounterSet(Wire, frozen=True, kw_only=True):
    """sharedCounters[] of a slice."""

    name: str = ""
    counters: dict[str, CapacityValue] | None = None


class SliceSpec(Wire, frozen=True, kw_only=True):
    """spec of a ResourceSlice."""

    driver: str = ""
    pool: PoolRef = PoolRef()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[SliceDevice, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Wire, frozen=True, kw_only=True):
    """A ResourceSlice."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SliceSpec = SliceSpec()


class Cel(Wire, frozen=True, kw_only=True):
    """cel of a selector."""

    expression: str = ""


class WireSelector(Wire, frozen=True, kw_only=True):
    """selectors[] of a class or request."""

    cel: Cel | None = None


class Opaque(Wire, frozen=True, kw_only=True):
    """opaque configuration: for whom, never what."""

    driver: str = ""


class WireConfig(Wire, frozen=True, kw_only=True):
    """config[] of a class or claim."""

    opaque: Opaque | None = None


class ClassSpec(Wire, frozen=True, kw_only=True):
    """spec of a DeviceClass."""

    selectors: tuple[WireSelector, ...] | None = None
    config: tuple[WireConfig, ...] | None = None
    extended_resource_name: str | None = None


class WireDeviceClass(Wire, frozen=True, kw_only=True):
    """A DeviceClass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClassSpec = ClassSpec()


class WireToleration(Wire, frozen=True, kw_only=True):
    """tolerations[] of a request or a result."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class CapacityWish(Wire, frozen=True, kw_only=True):
    """capacity of a request."""

    requests: dict[str, Quantity] | None = None


class RequestBody(Wire, frozen=True, kw_only=True):
    """What v1 keeps under ``exactly``."""

    device_class_name: str = ""
    selectors: tuple[WireSelector, ...] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    capacity: CapacityWish | None = None


class SubRequest(RequestBody, frozen=True, kw_only=True):
    """firstAvailable[] of a request."""

    name: str = ""


class WireRequest(RequestBody, frozen=True, kw_only=True):
    """requests[] of a claim."""

    name: str = ""
    exactly: RequestBody | None = None
    first_available: tuple[SubRequest, ...] | None = None


class Constraint(Wire, frozen=True, kw_only=True):
    """constraints[] of a claim."""

    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimDevices(Wire, frozen=True, kw_only=True):
    """spec.devices of a claim."""

    requests: tuple[WireRequest, ...] | None = None
    constraints: tuple[Constraint, ...] | None = None
    config: tuple[WireConfig, ...] | None = None


class ClaimSpec(Wire, frozen=True, kw_only=True):
    """spec of a claim."""

    devices: ClaimDevices | None = None


class WireResult(
    Wire,
    frozen=True,
    kw_only=True,
    rename={
        "admin_access": "adminAccess",
        "share_id": "shareID",
        "consumed_capacity": "consumedCapacity",
    },
):
    """results[] of an allocation."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] | None = None


class AllocationDevices(Wire, frozen=True, kw_only=True):
    """devices of an allocation."""

    results: tuple[WireResult, ...] | None = None


class Allocation(Wire, frozen=True, kw_only=True):
    """status.allocation of a claim."""

    devices: AllocationDevices | None = None
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class NetworkData(Wire, frozen=True, kw_only=True):
    """networkData of a device status."""

    interface_name: str | None = None
    ips: tuple[str, ...] | None = None
    hardware_address: str | None = None


class WireDeviceStatus(
    Wire, frozen=True, kw_only=True, rename={"share_id": "shareID", "network_data": "networkData"}
):
    """status.devices[] of a claim; of its data only the keys are looked at."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = None
    conditions: tuple[Condition, ...] | None = None
    data: Any = None
    network_data: NetworkData | None = None


class WireConsumer(Wire, frozen=True, kw_only=True):
    """status.reservedFor[] of a claim."""

    api_group: str | None = None
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Wire, frozen=True, kw_only=True):
    """status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[WireConsumer, ...] | None = None
    devices: tuple[WireDeviceStatus, ...] | None = None


class ResourceClaim(Wire, frozen=True, kw_only=True):
    """A ResourceClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus | None = None


class TemplateSpec(Wire, frozen=True, kw_only=True):
    """spec of a template."""

    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(Wire, frozen=True, kw_only=True):
    """A ResourceClaimTemplate."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()


class RuleSelector(Wire, frozen=True, kw_only=True):
    """deviceSelector of a rule."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[WireSelector, ...] | None = None


class RuleSpec(Wire, frozen=True, kw_only=True):
    """spec of a rule; the selector may be absent, null or empty."""

    device_selector: RuleSelector | UnsetType | None = UNSET
    taint: WireTaint = WireTaint()


class RuleStatus(Wire, frozen=True, kw_only=True):
    """status of a rule."""

    conditions: tuple[Condition, ...] | None = None


class DeviceTaintRule(Wire, frozen=True, kw_only=True):
    """A DeviceTaintRule."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RuleSpec = RuleSpec()
    status: RuleStatus | None = None
