"""Facts of devices: slices, claims, Pods that use them, taint rules, classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from changegen.facts.base import (
    FRESH,
    Args,
    Fact,
    Reading,
    arg,
    as_int,
    counted,
    field_key,
    for_items,
    in_filter,
    kubectl_get,
    lacking,
    printed_nothing,
    read_json,
    read_rows,
    seen_in,
    taint_text,
    unknown,
)
from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import (
    AllocatedDevice,
    Claim,
    DeviceStatus,
    PodUse,
    Pool,
    Snapshot,
    TaintRule,
)
from changegen.model.ticket import Evidence
from changegen.shell import quoted

SLICES = "resourceslices.resource.k8s.io"
CLAIMS = "resourceclaims.resource.k8s.io"
RULES = "devicetaintrules.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"


def _slices_command(columns: Sequence[str]) -> Callable[[Args], str]:
    def make(args: Args) -> str:
        condition = f"@.spec.driver=={in_filter(arg(args, 'driver'))}"
        fixed = [".spec.pool.name", ".spec.pool.generation", ".spec.pool.resourceSliceCount"]
        return kubectl_get(SLICES, for_items([*fixed, *columns], condition))

    return make


def _newest(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """Rows of each pool's newest generation; rows begin with pool, generation, expected slices."""
    pools: dict[str, list[list[str]]] = {}
    for row in rows:
        kept = pools.setdefault(row[0], [])
        if kept and as_int(kept[0][1]) > as_int(row[1]):
            continue
        if kept and as_int(kept[0][1]) < as_int(row[1]):
            kept.clear()
        kept.append(row)
    return dict(sorted(pools.items()))


def _pools(snapshot: Snapshot, args: Args) -> list[Pool] | Reading:
    if lack := lacking(snapshot, SLICES):
        return lack
    driver = arg(args, "driver")
    return sorted((pool for pool in snapshot.pools if pool.driver == driver), key=lambda pool: pool.name)


def _slices_seen(args: Args, pools: Sequence[Pool]) -> tuple[Evidence, ...]:
    names = sorted(piece.name for pool in pools for piece in pool.slices if piece.counted)
    shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
    return (seen_in("ResourceSlices", arg(args, "driver"), shown, "api object"),)


def _devices_parse(output: str, _args: Args) -> Reading:
    value: dict[str, Scalar] = {
        pool: sum(len(row[3].split()) for row in rows) for pool, rows in _newest(read_rows(output, 4)).items()
    }
    return Reading(value=value)


def _devices(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value: dict[str, Scalar] = {pool.name: len(pool.devices) for pool in pools}
    return Reading(value=value, evidence=_slices_seen(args, pools))


def _incomplete_parse(output: str, _args: Args) -> Reading:
    pools = _newest(read_rows(output, 3))
    return Reading(value=tuple(name for name, rows in pools.items() if len(rows) != as_int(rows[0][2])))


def _incomplete(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value = tuple(pool.name for pool in pools if not pool.complete)
    return Reading(value=value, evidence=_slices_seen(args, pools))


def _attribute_command(args: Args) -> str:
    driver, name = arg(args, "driver"), arg(args, "attribute")
    short, full = field_key(name), field_key(f"{driver}/{name}")
    columns = [f".spec.devices[*].attributes.{short}", f".spec.devices[*].attributes.{full}"]
    return _slices_command(columns)(args)


def _attribute_parse(output: str, _args: Args) -> Reading:
    counts: Counter[str] = Counter()
    for rows in _newest(read_rows(output, 5)).values():
        for row in rows:
            for document in read_json(row[3]) + read_json(row[4]):
                if isinstance(document, dict):
                    counts.update(str(value) for value in document.values())
    return Reading(value=dict(sorted(counts.items())))


def _attribute(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    key = f"{arg(args, 'driver')}/{arg(args, 'attribute')}"
    found = [device.attributes[key] for pool in pools for device in pool.devices if key in device.attributes]
    counts = Counter(str(item.value if item.values == () else list(item.values)) for item in found)
    return Reading(value=dict(sorted(counts.items())), evidence=_slices_seen(args, pools))


def _device_taints_parse(output: str, _args: Args) -> Reading:
    value: dict[str, Scalar] = {}
    for pool, rows in _newest(read_rows(output, 4)).items():
        for row in rows:
            for document in read_json(row[3]):
                for device in document if isinstance(document, list) else []:
                    taints = device.get("taints") or (device.get("basic") or {}).get("taints") or []
                    text = taint_text((t["key"], t.get("value") or "", t["effect"]) for t in taints)
                    if text:
                        value[f"{pool}/{device['name']}"] = text
    return Reading(value=dict(sorted(value.items())))


def _device_taints(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value: dict[str, Scalar] = {}
    for pool in pools:
        for device in pool.devices:
            text = taint_text((taint.key, taint.value, taint.effect) for taint in device.taints)
            if text:
                value[f"{pool.name}/{device.name}"] = text
    return Reading(value=dict(sorted(value.items())), evidence=_slices_seen(args, pools))


def _held_key(namespace: str, driver: str) -> str:
    return f"{namespace} {driver}"


def _held_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.allocation.devices.results[*].driver",
        ".status.reservedFor[*].name",
    ]
    return kubectl_get(f"{CLAIMS} -A", for_items(columns))


def _held_value(rows: Iterable[tuple[str, Iterable[str], bool]]) -> dict[str, Scalar]:
    counts: Counter[str] = Counter()
    for namespace, drivers, reserved in rows:
        if reserved:
            counts.update(_held_key(namespace, driver) for driver in set(drivers))
    return dict(sorted(counts.items()))


def _held_parse(output: str, _args: Args) -> Reading:
    return Reading(value=_held_value((row[0], row[2].split(), bool(row[3])) for row in read_rows(output, 4)))


def _held(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, CLAIMS):
        return lack
    rows = (
        (claim.namespace, (d.driver for d in claim.devices), bool(claim.reserved_for))
        for claim in snapshot.claims
    )
    seen = seen_in(
        "ResourceClaims", "status.allocation, status.reservedFor", len(snapshot.claims), "api object"
    )
    return Reading(value=_held_value(rows), evidence=(seen,))


def _waiting_parse(output: str, _args: Args) -> Reading:
    return Reading(value=tuple(sorted(f"{row[0]}/{row[1]}" for row in read_rows(output, 4) if not row[2])))


def _waiting(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, CLAIMS):
        return lack
    waiting = (f"{claim.namespace}/{claim.name}" for claim in snapshot.claims if not claim.devices)
    value = tuple(sorted(waiting))
    seen = seen_in(
        "ResourceClaims", "status.allocation", f"{len(value)} of {len(snapshot.claims)} without", "api object"
    )
    return Reading(value=value, evidence=(seen,))


def _status_command(args: Args) -> str:
    name = f"-n {quoted(arg(args, 'namespace'))} {CLAIMS} {quoted(arg(args, 'name'))}"
    return kubectl_get(name, '{.metadata.name}{"\\t"}{.status.devices}{"\\n"}')


def _status_text(interface: str, mac: str, ips: Sequence[str], ready: str) -> str:
    words = [interface, mac, *ips, f"Ready={ready}" if ready else ""]
    return ", ".join(word for word in words if word) or "reported"


def _status_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    if not rows:
        return printed_nothing()
    value: dict[str, Scalar] = {}
    for document in read_json(rows[0][1]):
        for device in document if isinstance(document, list) else []:
            network = device.get("networkData") or {}
            ready = next((c["status"] for c in device.get("conditions") or [] if c["type"] == "Ready"), "")
            value[f"{device['driver']}/{device['pool']}/{device['device']}"] = _status_text(
                network.get("interfaceName") or "",
                network.get("hardwareAddress") or "",
                network.get("ips") or [],
                ready,
            )
    return Reading(value=dict(sorted(value.items())))


def _find_claim(snapshot: Snapshot, args: Args) -> Claim | Reading:
    if lack := lacking(snapshot, CLAIMS, namespace=arg(args, "namespace")):
        return lack
    for claim in snapshot.claims:
        if (claim.namespace, claim.name) == (arg(args, "namespace"), arg(args, "name")):
            return claim
    return unknown(tr("the ResourceClaim is not there"))


def _status(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_claim(snapshot, args)
    if isinstance(found, Reading):
        return found
    value: dict[str, Scalar] = {}
    for device in found.device_status:
        ready = next((condition.status for condition in device.conditions if condition.type == "Ready"), "")
        value[_status_key(device)] = _status_text(
            device.interface_name, device.hardware_address, device.ips, ready
        )
    seen = seen_in(
        f"ResourceClaim {found.namespace}/{found.name}", "status.devices", len(value), "api object"
    )
    return Reading(value=dict(sorted(value.items())), evidence=(seen,))


def _status_key(device: DeviceStatus | AllocatedDevice) -> str:
    return f"{device.driver}/{device.pool}/{device.device}"


def _mapped_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.extendedResourceClaimStatus.requestMappings[*].resourceName",
    ]
    return kubectl_get("pods -A", for_items(columns))


def _mapped_value(pods: Iterable[tuple[str, Iterable[str]]]) -> dict[str, Scalar]:
    counts: Counter[str] = Counter()
    for namespace, resources in pods:
        counts.update(f"{namespace} {resource}" for resource in set(resources))
    return dict(sorted(counts.items()))


def _mapped_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 3)
    return (
        Reading(value=_mapped_value((row[0], row[2].split()) for row in rows)) if rows else printed_nothing()
    )


def _mapped(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "pods"):
        return lack
    value = _mapped_value(
        (pod.namespace, (m.resource for m in pod.extended_mappings)) for pod in snapshot.pods
    )
    return Reading(
        value=value,
        evidence=(seen_in("Pods", "status.extendedResourceClaimStatus", len(value), "api object"),),
    )


_NATIVE = re.compile(r"^(?:[^/]*|[^/]*\.?kubernetes\.io/.*)$")
_IMPLICIT = "deviceclass.resource.kubernetes.io/"


def _is_extended(resource: str) -> bool:
    """Whether a resource name is an extended one: with a domain that is not Kubernetes' own, or a class's implicit name."""
    return resource.startswith(_IMPLICIT) or _NATIVE.match(resource) is None


def _pending_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".spec.resourceClaims[*].name",
        ".spec.containers[*].resources.limits",
        ".spec.initContainers[*].resources.limits",
    ]
    return kubectl_get("pods -A --field-selector=status.phase=Pending", for_items(columns))


def _asks_devices(row: list[str]) -> bool:
    if row[2]:
        return True
    documents = read_json(row[3]) + read_json(row[4])
    return any(_is_extended(str(name)) for item in documents if isinstance(item, dict) for name in item)


def _pending_parse(output: str, _args: Args) -> Reading:
    return Reading(
        value=tuple(sorted(f"{row[0]}/{row[1]}" for row in read_rows(output, 5) if _asks_devices(row)))
    )


def _waits(pod: PodUse) -> bool:
    return pod.phase == "Pending" and bool(pod.claims or any(_is_extended(ask.resource) for ask in pod.asks))


def _pending(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "pods"):
        return lack
    waiting = [pod for pod in snapshot.pods if _waits(pod)]
    evidence = tuple(
        seen_in(
            f"Pod {pod.namespace}/{pod.name}",
            "PodScheduled",
            pod.scheduled.message if pod.scheduled else "",
            "pod status",
        )
        for pod in waiting[:5]
    )
    return Reading(value=tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in waiting)), evidence=evidence)


def _unhealthy_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.containerStatuses[*].allocatedResourcesStatus",
    ]
    return kubectl_get("pods -A", for_items(columns))


def _unhealthy_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 3)
    if not rows:
        return printed_nothing()
    found = set()
    for row in rows:
        for document in read_json(row[2]):
            for resource in document if isinstance(document, list) else []:
                for item in resource.get("resources") or []:
                    if item.get("health", "Healthy") != "Healthy":
                        found.add(f"{row[0]}/{row[1]} {item.get('resourceID', '')}: {item['health']}")
    return Reading(value=tuple(sorted(found)))


def _unhealthy(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := lacking(snapshot, "pods"):
        return lack
    found = {
        f"{pod.namespace}/{pod.name} {item.device}: {item.health}"
        for pod in snapshot.pods
        for item in pod.health
        if item.health != "Healthy"
    }
    reported = sum(len(pod.health) for pod in snapshot.pods)
    seen = seen_in("Pods", "allocatedResourcesStatus", f"{reported} reported", "pod status")
    return Reading(value=tuple(sorted(found)), evidence=(seen,))


def _rule_command(path: str) -> Callable[[Args], str]:
    def make(args: Args) -> str:
        return kubectl_get(f"{RULES} {quoted(arg(args, 'name'))}", f'{path}{{"\\n"}}', kubectl=FRESH)

    return make


def _find_rule(snapshot: Snapshot, args: Args) -> TaintRule | Reading:
    if lack := lacking(snapshot, RULES):
        return lack
    for rule in snapshot.taint_rules:
        if rule.name == arg(args, "name"):
            return rule
    return unknown(tr("the DeviceTaintRule is not there"))


def _line_parse(output: str, _args: Args) -> Reading:
    text = output.strip()
    return Reading(value=text) if text else printed_nothing()


def _rule_effect(snapshot: Snapshot, args: Args) -> Reading:
    rule = _find_rule(snapshot, args)
    if isinstance(rule, Reading):
        return rule
    seen = seen_in(f"DeviceTaintRule {rule.name}", "spec.taint.effect", rule.effect, "api object")
    return Reading(value=rule.effect, evidence=(seen,))


def _rule_evicts(snapshot: Snapshot, args: Args) -> Reading:
    rule = _find_rule(snapshot, args)
    if isinstance(rule, Reading):
        return rule
    for condition in rule.conditions:
        if condition.type == "EvictionInProgress":
            seen = seen_in(f"DeviceTaintRule {rule.name}", condition.type, condition.message, "api object")
            return Reading(value=condition.status, evidence=(seen,))
    return unknown(tr("the controller has not reported on the rule"))


def _class_command(args: Args) -> str:
    path = '{.metadata.name}{"\\t"}{.spec.extendedResourceName}{"\\n"}'
    return kubectl_get(f"{CLASSES} {quoted(arg(args, 'name'))}", path)


def _class_parse(output: str, _args: Args) -> Reading:
    rows = read_rows(output, 2)
    return Reading(value=rows[0][1] or None) if rows else printed_nothing()


def _class(snapshot: Snapshot, args: Args) -> Reading:
    if lack := lacking(snapshot, CLASSES):
        return lack
    for item in snapshot.device_classes:
        if item.name == arg(args, "name"):
            seen = seen_in(
                f"DeviceClass {item.name}",
                "spec.extendedResourceName",
                item.extended_resource_name,
                "api object",
            )
            return Reading(value=item.extended_resource_name or None, evidence=(seen,))
    return unknown(tr("the DeviceClass is not there"))


def _runtime(_snapshot: Snapshot, _args: Args) -> Reading:
    return unknown(tr("needs evidence: no API object shows what a container sees"))


ROWS: tuple[Fact, ...] = (
    Fact(
        name="dra.devices",
        layer="device",
        title=lambda a: tr("Devices that {driver} publishes, by pool", driver=a["driver"]),
        command=_slices_command([".spec.devices[*].name"]),
        evaluate=_devices,
        parse=_devices_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.device-counts",
        layer="device",
        title=lambda a: tr(
            "Devices a pool that {driver} publishes, with the number of pools", driver=a["driver"]
        ),
        command=_slices_command([".spec.devices[*].name"]),
        evaluate=lambda s, a: counted(_devices(s, a)),
        parse=lambda o, a: counted(_devices_parse(o, a)),
        reads=(SLICES,),
    ),
    Fact(
        name="dra.pools-incomplete",
        layer="device",
        title=lambda a: tr("Pools of {driver} whose newest generation lacks slices", driver=a["driver"]),
        command=_slices_command([]),
        evaluate=_incomplete,
        parse=_incomplete_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.attribute",
        layer="device",
        title=lambda a: tr(
            "Attribute {attribute} of the devices of {driver}", attribute=a["attribute"], driver=a["driver"]
        ),
        command=_attribute_command,
        evaluate=_attribute,
        parse=_attribute_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.device-taints",
        layer="device",
        title=lambda a: tr("Taints that {driver} sets on its devices", driver=a["driver"]),
        command=_slices_command([".spec.devices"]),
        evaluate=_device_taints,
        parse=_device_taints_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="claims.held",
        layer="scheduling",
        title=lambda _a: tr("Claims allocated and reserved, by namespace and driver"),
        command=_held_command,
        evaluate=_held,
        parse=_held_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="claims.waiting",
        layer="scheduling",
        title=lambda _a: tr("Claims that are not allocated"),
        command=_held_command,
        evaluate=_waiting,
        parse=_waiting_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="claim.device-status",
        layer="device",
        title=lambda a: tr(
            "Device status of ResourceClaim {namespace}/{name}", namespace=a["namespace"], name=a["name"]
        ),
        command=_status_command,
        evaluate=_status,
        parse=_status_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="pods.mapped",
        layer="scheduling",
        title=lambda _a: tr("Pods whose extended resource comes from a claim of the scheduler"),
        command=_mapped_command,
        evaluate=_mapped,
        parse=_mapped_parse,
        reads=("pods",),
    ),
    Fact(
        name="pods.pending-for-devices",
        layer="scheduling",
        title=lambda _a: tr("Pending Pods that ask for devices"),
        command=_pending_command,
        evaluate=_pending,
        parse=_pending_parse,
        reads=("pods",),
    ),
    Fact(
        name="pods.unhealthy-devices",
        layer="device",
        title=lambda _a: tr("Devices that kubelets report as not healthy"),
        command=_unhealthy_command,
        evaluate=_unhealthy,
        parse=_unhealthy_parse,
        reads=("pods",),
    ),
    Fact(
        name="rule.effect",
        layer="device",
        title=lambda a: tr("Effect of DeviceTaintRule {name}", name=a["name"]),
        command=_rule_command("{.spec.taint.effect}"),
        evaluate=_rule_effect,
        parse=_line_parse,
        reads=(RULES,),
    ),
    Fact(
        name="rule.evicts",
        layer="device",
        title=lambda a: tr("DeviceTaintRule {name}: eviction in progress", name=a["name"]),
        command=_rule_command('{.status.conditions[?(@.type=="EvictionInProgress")].status}'),
        evaluate=_rule_evicts,
        parse=_line_parse,
        reads=(RULES,),
    ),
    Fact(
        name="class.extended-resource",
        layer="scheduling",
        title=lambda a: tr("Extended resource of DeviceClass {name}", name=a["name"]),
        command=_class_command,
        evaluate=_class,
        parse=_class_parse,
        reads=(CLASSES,),
    ),
    Fact(
        name="runtime.evidence",
        layer="runtime",
        title=lambda a: arg(a, "title"),
        command=lambda a: arg(a, "command"),
        evaluate=_runtime,
        parse=_line_parse,
    ),
)
"""The rows of this module, in the order of the table."""
