"""Devices: classes, pools, claims, taint rules, and the drivers behind them, in the shapes of the snapshot.

Of a pool only the slices of its highest generation count; it is complete when their number is the one that they name.
A pool is keyed by driver and pool name. Attribute names without a domain belong to the driver's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from changegen.collect import drivers as linking
from changegen.collect import rights, workloads
from changegen.collect import wire as core
from changegen.collect import wire_dra as wire
from changegen.collect.inventory import Inventory, Located
from changegen.model.snapshot import (
    AllocatedDevice,
    Attribute,
    CapacityPolicy,
    Claim,
    ClaimTemplate,
    Condition,
    Consumer,
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceStatus,
    DeviceTaint,
    Driver,
    DriverRights,
    Pool,
    Slice,
    TaintRule,
    Toleration,
)

__all__ = [
    "CLAIMS",
    "CLASSES",
    "RULES",
    "SLICES",
    "TEMPLATES",
    "DeviceFacts",
    "device_facts",
    "drivers_named_in",
]

SLICES: Final = "resourceslices.resource.k8s.io"
CLASSES: Final = "deviceclasses.resource.k8s.io"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
RULES: Final = "devicetaintrules.resource.k8s.io"

EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"

_DRIVER_IS: Final = re.compile(r"""device\s*\.\s*driver\s*==\s*(?P<q>['"])(?P<name>[^'"]+)(?P=q)""")
_IS_DRIVER: Final = re.compile(r"""(?P<q>['"])(?P<name>[^'"]+)(?P=q)\s*==\s*device\s*\.\s*driver""")
_DRIVER_IN: Final = re.compile(r"device\s*\.\s*driver\s+in\s+\[(?P<names>[^\]]*)\]")
_QUOTED: Final = re.compile(r"""['"]([^'"]+)['"]""")


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot's fields about devices."""

    drivers: tuple[Driver, ...] = ()
    driver_rights: tuple[DriverRights, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    pools: tuple[Pool, ...] = ()
    claims: tuple[Claim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()


def device_facts(inv: Inventory, known: workloads.Controllers | None = None) -> DeviceFacts:
    """Read everything of resource.k8s.io and link drivers to workloads. Kinds that were not listed give nothing.

    Args:
        inv: What was read.
        known: The controllers of this inventory where the caller has them already.
    """
    classes = _classes(inv.all(CLASSES, wire.WireDeviceClass))
    pools = _pools(inv.all(SLICES, wire.ResourceSlice))
    claims = _claims(inv.all(CLAIMS, wire.ResourceClaim))
    templates = _templates(inv.all(TEMPLATES, wire.ResourceClaimTemplate))
    rules = _rules(inv.all(RULES, wire.DeviceTaintRule))
    candidates = workloads.candidates(known or workloads.Controllers(inv))
    names = {pool.driver for pool in pools if pool.driver}
    for device_class in classes:
        names.update(device_class.config_drivers)
        for expression in device_class.selectors:
            names.update(drivers_named_in(expression))
    for claim in claims:
        names.update(device.driver for device in claim.devices if device.driver)
    listed = {device_class.name for device_class in classes}
    unlisted = {
        request.device_class
        for requests in (*(c.requests for c in claims), *(t.requests for t in templates))
        for request in requests
        if request.device_class and request.device_class not in listed and request.device_class not in names
    }
    drivers = linking.link(sorted(names), pools, candidates)
    if unlisted:
        # A class that was not read is often named as its driver; it counts only where a workload says so too.
        guessed = linking.link(sorted(unlisted), pools, candidates)
        taken = {driver.workload for driver in drivers if driver.workload is not None}
        kept = [d for d in guessed if d.workload is not None and d.workload not in taken and "." in d.driver]
        drivers = tuple(sorted((*drivers, *kept), key=lambda d: d.driver))
    namespaces: defaultdict[str, set[str]] = defaultdict(set)
    for claim in claims:
        for device in claim.devices:
            namespaces[device.driver].add(claim.namespace)
    return DeviceFacts(
        drivers=drivers,
        driver_rights=rights.driver_rights(inv, drivers, {k: frozenset(v) for k, v in namespaces.items()}),
        device_classes=classes,
        pools=pools,
        claims=claims,
        claim_templates=templates,
        taint_rules=rules,
    )


def drivers_named_in(expression: str) -> tuple[str, ...]:
    """Names that a CEL selector compares `device.driver` with; `!=` names none."""
    found = [match["name"] for pattern in (_DRIVER_IS, _IS_DRIVER) for match in pattern.finditer(expression)]
    for match in _DRIVER_IN.finditer(expression):
        found.extend(_QUOTED.findall(match["names"]))
    return tuple(dict.fromkeys(found))


def _text(value: core.Quantity | None) -> str:
    return "" if value is None else str(value)


def _conditions(conditions: Iterable[core.Condition] | None) -> tuple[Condition, ...]:
    return tuple(
        sorted(
            (
                Condition(
                    type=c.type,
                    status=c.status,
                    reason=c.reason or "",
                    message=c.message or "",
                    changed=c.last_transition_time or "",
                )
                for c in conditions or ()
            ),
            key=lambda c: c.type,
        )
    )


def _classes(found: Iterable[Located[wire.WireDeviceClass]]) -> tuple[DeviceClass, ...]:
    return tuple(
        sorted(
            (
                DeviceClass(
                    name=item.obj.metadata.name,
                    uid=item.obj.metadata.uid,
                    extended_resource_name=item.obj.spec.extended_resource_name or "",
                    selectors=_expressions(item.obj.spec.selectors),
                    config_drivers=_config_drivers(item.obj.spec.config),
                    created=item.obj.metadata.creation_timestamp or "",
                    api_version=item.api_version,
                )
                for item in found
            ),
            key=lambda c: c.name,
        )
    )


def _expressions(selectors: Iterable[wire.WireSelector] | None) -> tuple[str, ...]:
    return tuple(s.cel.expression for s in selectors or () if s.cel is not None)


def _config_drivers(config: Iterable[wire.WireConfig] | None) -> tuple[str, ...]:
    return tuple(sorted({c.opaque.driver for c in config or () if c.opaque is not None and c.opaque.driver}))


def _attribute(value: wire.AttributeValue) -> Attribute:
    if value.string is not None:
        return Attribute(type="string", value=value.string)
    if value.int_value is not None:
        return Attribute(type="int", value=value.int_value)
    if value.bool_value is not None:
        return Attribute(type="bool", value=value.bool_value)
    if value.version is not None:
        return Attribute(type="version", value=value.version)
    if value.strings is not None:
        return Attribute(type="strings", values=value.strings)
    if value.int_values is not None:
        return Attribute(type="ints", values=value.int_values)
    if value.bool_values is not None:
        return Attribute(type="bools", values=value.bool_values)
    if value.versions is not None:
        return Attribute(type="versions", values=value.versions)
    return Attribute(type="unknown")


def _qualified(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def selector_text(selector: wire.NodeSelector | None) -> str:
    """A node selector in one line, as kubectl writes label selectors; terms joined by ` or `."""
    terms = []
    for term in (selector.node_selector_terms or ()) if selector is not None else ():
        parts = []
        for field, requirements in (("", term.match_expressions), ("field ", term.match_fields)):
            for need in requirements or ():
                values = need.values or ()
                name = f"{field}{need.key}"
                parts.append(
                    {
                        "In": f"{name}={values[0]}"
                        if len(values) == 1
                        else f"{name} in ({','.join(values)})",
                        "NotIn": f"{name} notin ({','.join(values)})",
                        "Exists": name,
                        "DoesNotExist": f"!{name}",
                    }.get(need.operator, f"{name} {need.operator} {','.join(values)}")
                )
        terms.append(",".join(parts))
    return " or ".join(terms)


def _named_node(selector: wire.NodeSelector | None) -> str:
    """The one node that a selector names by metadata.name or hostname; empty where it does not."""
    terms = (selector.node_selector_terms or ()) if selector is not None else ()
    if len(terms) != 1:
        return ""
    for need in terms[0].match_fields or ():
        if need.key == "metadata.name" and need.operator == "In" and need.values and len(need.values) == 1:
            return need.values[0]
    for need in terms[0].match_expressions or ():
        if (
            need.key == "kubernetes.io/hostname"
            and need.operator == "In"
            and need.values
            and len(need.values) == 1
        ):
            return need.values[0]
    return ""


def _policy(policy: wire.RequestPolicy) -> CapacityPolicy:
    allowed = policy.valid_range or wire.PolicyRange()
    return CapacityPolicy(
        default=_text(policy.default),
        values=tuple(_text(value) for value in policy.valid_values or ()),
        minimum=_text(allowed.min),
        maximum=_text(allowed.max),
        step=_text(allowed.step),
    )


def _device(driver: str, spec: wire.SliceSpec, device: wire.SliceDevice, of_pool: str) -> Device:
    body = device.body
    selector = body.node_selector or spec.node_selector
    node = spec.node_name or body.node_name or _named_node(selector) or None
    where = "" if node else "all" if body.all_nodes or spec.all_nodes else selector_text(selector)
    groups: list[str] = []
    counters: list[str] = []
    for use in body.consumes_counters or ():
        groups.extend(use.compatibility_groups or ())
        counters.extend(
            f"{use.counter_set}/{name}={_text(value.value)}" for name, value in (use.counters or {}).items()
        )
    capacity = {
        _qualified(driver, name): _text(value.value if isinstance(value, wire.CapacityValue) else value)
        for name, value in (body.capacity or {}).items()
    }
    policies = {
        _qualified(driver, name): _policy(value.request_policy)
        for name, value in (body.capacity or {}).items()
        if isinstance(value, wire.CapacityValue) and value.request_policy is not None
    }
    return Device(
        name=device.name,
        node=node,
        node_selector=where if where != of_pool else "",
        attributes={
            _qualified(driver, name): _attribute(value)
            for name, value in sorted((body.attributes or {}).items())
        },
        capacity=dict(sorted(capacity.items())),
        capacity_policies=dict(sorted(policies.items())),
        taints=tuple(
            sorted(
                (
                    DeviceTaint(
                        key=t.key, value=t.value or "", effect=t.effect, time_added=t.time_added or ""
                    )
                    for t in body.taints or ()
                ),
                key=lambda t: (t.key, t.effect, t.value),
            )
        ),
        allow_multiple_allocations=bool(body.allow_multiple_allocations),
        consumes_counters=tuple(sorted(counters)),
        binding_conditions=tuple(body.binding_conditions or ()),
        compatibility_groups=tuple(sorted(set(groups))),
    )


def _pools(found: Iterable[Located[wire.ResourceSlice]]) -> tuple[Pool, ...]:
    grouped: defaultdict[tuple[str, str], list[Located[wire.ResourceSlice]]] = defaultdict(list)
    for item in found:
        grouped[item.obj.spec.driver, item.obj.spec.pool.name].append(item)
    return tuple(_pool(driver, name, grouped[driver, name]) for driver, name in sorted(grouped))


def _pool(driver: str, name: str, items: list[Located[wire.ResourceSlice]]) -> Pool:
    items = sorted(items, key=lambda item: item.obj.metadata.name)
    newest = max(item.obj.spec.pool.generation for item in items)
    counted = [item for item in items if item.obj.spec.pool.generation == newest]
    expected = max(
        (n for item in counted if (n := item.obj.spec.pool.resource_slice_count) is not None), default=None
    )
    nodes = {item.obj.spec.node_name or _named_node(item.obj.spec.node_selector) or None for item in counted}
    node = nodes.pop() if len(nodes) == 1 else None
    if any(item.obj.spec.all_nodes for item in counted):
        where = "all"
    elif node is None:
        texts = {text for item in counted if (text := selector_text(item.obj.spec.node_selector))}
        where = " or ".join(sorted(texts))
    else:
        where = ""
    devices = [
        _device(driver, item.obj.spec, device, where)
        for item in counted
        for device in item.obj.spec.devices or ()
    ]
    shared = {
        f"{counters.name}/{counter}={_text(value.value)}"
        for item in counted
        for counters in item.obj.spec.shared_counters or ()
        for counter, value in (counters.counters or {}).items()
    }
    return Pool(
        driver=driver,
        name=name,
        generation=newest,
        node=node,
        node_selector=where,
        slices=tuple(
            Slice(
                name=item.obj.metadata.name,
                generation=item.obj.spec.pool.generation,
                device_count=len(item.obj.spec.devices or ()),
                node=item.obj.spec.node_name or None,
                created=item.obj.metadata.creation_timestamp or "",
                counted=item.obj.spec.pool.generation == newest,
            )
            for item in items
        ),
        expected_slices=expected,
        complete=expected is None or len(counted) == expected,
        devices=tuple(sorted(devices, key=lambda d: (d.name, d.node or ""))),
        shared_counters=tuple(sorted(shared)),
        api_version=counted[0].api_version,
    )


def _tolerations(tolerations: Iterable[wire.WireToleration] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=t.key or "",
            operator=t.operator or "Equal",
            value=t.value or "",
            effect=t.effect or "",
            seconds=t.toleration_seconds,
        )
        for t in tolerations or ()
    )


def _request(name: str, body: wire.RequestBody, alternative_of: str = "") -> DeviceRequest:
    mode = body.allocation_mode or "ExactCount"
    return DeviceRequest(
        name=name,
        device_class=body.device_class_name,
        mode=mode,
        count=None if mode == "All" else (body.count or 1),
        admin_access=bool(body.admin_access),
        selectors=_expressions(body.selectors),
        tolerations=_tolerations(body.tolerations),
        capacity={
            name: _text(value)
            for name, value in sorted(((body.capacity and body.capacity.requests) or {}).items())
        },
        alternative_of=alternative_of,
    )


def _requests(spec: wire.ClaimSpec) -> tuple[DeviceRequest, ...]:
    rows: list[DeviceRequest] = []
    for request in (spec.devices.requests or ()) if spec.devices is not None else ():
        if request.first_available:
            rows.extend(
                _request(f"{request.name}/{sub.name}", sub, alternative_of=request.name)
                for sub in request.first_available
            )
        else:
            rows.append(_request(request.name, request.exactly if request.exactly is not None else request))
    return tuple(rows)


def _constraints(spec: wire.ClaimSpec) -> tuple[str, ...]:
    rows = []
    for constraint in (spec.devices.constraints or ()) if spec.devices is not None else ():
        which = ",".join(constraint.requests or ()) or "*"
        if constraint.match_attribute:
            rows.append(f"match {constraint.match_attribute} of {which}")
        if constraint.distinct_attribute:
            rows.append(f"distinct {constraint.distinct_attribute} of {which}")
    return tuple(rows)


def _claims(found: Iterable[Located[wire.ResourceClaim]]) -> tuple[Claim, ...]:
    return tuple(sorted((_claim(item) for item in found), key=lambda c: (c.namespace, c.name)))


def _claim(item: Located[wire.ResourceClaim]) -> Claim:
    meta = item.obj.metadata
    status = item.obj.status or wire.ClaimStatus()
    allocation = status.allocation
    annotations = meta.annotations or {}
    owner = next((o for o in meta.owner_references or () if o.controller), None) or next(
        iter(meta.owner_references or ()), None
    )
    results = (
        (allocation.devices.results or ())
        if allocation is not None and allocation.devices is not None
        else ()
    )
    devices = tuple(
        AllocatedDevice(
            request=r.request,
            driver=r.driver,
            pool=r.pool,
            device=r.device,
            share_id=r.share_id or "",
            admin_access=bool(r.admin_access),
            tolerations=_tolerations(r.tolerations),
            consumed={name: _text(value) for name, value in sorted((r.consumed_capacity or {}).items())},
        )
        for r in results
    )
    reported = tuple(
        DeviceStatus(
            driver=s.driver,
            pool=s.pool,
            device=s.device,
            share_id=s.share_id or "",
            conditions=_conditions(s.conditions),
            interface_name=(s.network_data.interface_name or "") if s.network_data is not None else "",
            hardware_address=(s.network_data.hardware_address or "") if s.network_data is not None else "",
            ips=tuple(s.network_data.ips or ()) if s.network_data is not None else (),
            data_keys=tuple(sorted(s.data)) if isinstance(s.data, dict) else (),
        )
        for s in status.devices or ()
    )
    return Claim(
        namespace=item.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp or "",
        deleting_since=meta.deletion_timestamp or "",
        finalizers=tuple(sorted(meta.finalizers or ())),
        extended_resource=annotations.get(EXTENDED_CLAIM) == "true",
        owner=f"{owner.kind}/{owner.name}" if owner is not None else "",
        template=annotations.get(POD_CLAIM_NAME, ""),
        requests=_requests(item.obj.spec),
        constraints=_constraints(item.obj.spec),
        allocated=allocation is not None,
        allocated_at=(allocation.allocation_timestamp or "") if allocation is not None else "",
        node=_named_node(allocation.node_selector) if allocation is not None else "",
        devices=tuple(sorted(devices, key=lambda d: (d.request, d.driver, d.pool, d.device, d.share_id))),
        device_status=tuple(sorted(reported, key=lambda s: (s.driver, s.pool, s.device, s.share_id))),
        reserved_for=tuple(
            sorted(
                (Consumer(resource=c.resource, name=c.name, uid=c.uid) for c in status.reserved_for or ()),
                key=lambda c: (c.resource, c.name, c.uid),
            )
        ),
        api_version=item.api_version,
    )


def _templates(found: Iterable[Located[wire.ResourceClaimTemplate]]) -> tuple[ClaimTemplate, ...]:
    return tuple(
        sorted(
            (
                ClaimTemplate(
                    namespace=item.namespace,
                    name=item.obj.metadata.name,
                    requests=_requests(item.obj.spec.spec),
                    constraints=_constraints(item.obj.spec.spec),
                    api_version=item.api_version,
                )
                for item in found
            ),
            key=lambda t: (t.namespace, t.name),
        )
    )


def _rules(found: Iterable[Located[wire.DeviceTaintRule]]) -> tuple[TaintRule, ...]:
    return tuple(sorted((_rule(item) for item in found), key=lambda r: r.name))


def _rule(item: Located[wire.DeviceTaintRule]) -> TaintRule:
    meta = item.obj.metadata
    spec = item.obj.spec
    chosen = spec.device_selector
    other: list[str] = []
    kind: Literal["none", "all", "some"]
    if isinstance(chosen, wire.RuleSelector):
        if chosen.device_class_name:
            other.append(f"deviceClassName={chosen.device_class_name}")
        other.extend(f"selectors: {text}" for text in _expressions(chosen.selectors))
        kind = "some" if chosen.driver or chosen.pool or chosen.device else "all"
    else:
        chosen = wire.RuleSelector()
        kind = "none"
    return TaintRule(
        name=meta.name,
        uid=meta.uid,
        selector=kind,
        driver=chosen.driver or "",
        pool=chosen.pool or "",
        device=chosen.device or "",
        other_selectors=tuple(other),
        key=spec.taint.key,
        value=spec.taint.value or "",
        effect=spec.taint.effect,
        time_added=spec.taint.time_added or "",
        generation=meta.generation,
        conditions=_conditions(item.obj.status.conditions if item.obj.status is not None else None),
        api_version=item.api_version,
    )
