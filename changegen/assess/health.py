"""Claims, device status, attributes and health: what is wrong with devices before anyone changes anything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, names
from changegen.assess.dra import FINISHED, DeviceIndex, index
from changegen.assess.selectors import Reference, SelectorSyntaxError, judge, references
from changegen.i18n import tr, trn
from changegen.model.snapshot import Claim, DeviceStatus, Driver, DriverRights, PodUse
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_key

__all__ = ["CODES", "FILLS_STATUS", "STANDARD", "findings", "granular"]

STUCK = Code(
    code="CG-CLAIM-001",
    title="ResourceClaim that is deleted and still in use",
    severity="warning",
    meaning="A claim has a deletionTimestamp and is still allocated or reserved: its finalizer holds it until the last consumer "
    "is gone and the driver has unprepared it.",
    remedy="List its consumers first and let them end; do not remove the finalizer, or the device is given to somebody else "
    "while it is in use.",
)
TERMINATING = Code(
    code="CG-CLAIM-002",
    title="Pod terminating where its driver is gone",
    severity="warning",
    others=("info",),
    meaning="A Pod with claims is being deleted on a node where no ready Pod of its driver is seen: the kubelet cannot unprepare "
    "its devices, and the Pod hangs.",
    remedy="Bring the driver's Pod back on that node. When draining: consumers first, then the driver, then the kubelet.",
)
STATUS_EMPTY = Code(
    code="CG-CLAIM-003",
    title="Device status empty",
    severity="warning",
    others=("info",),
    meaning="A driver that fills status.devices of other claims, or is known to, has not filled it for an allocated claim. It is "
    "dropped with every deallocation and starts empty.",
    remedy="Wait two minutes; then look at the driver's version, its RBAC for resourceclaims/status and resourceclaims/driver, "
    "and its log.",
)
UNPUBLISHED = Code(
    code="CG-CLAIM-004",
    title="Claim that holds a device no slice publishes",
    severity="warning",
    meaning="A device is allocated and not, or no longer, among those that its driver publishes.",
    remedy="Look at the driver on that node; a starting kubelet deletes its node's slices until the plugin registers again.",
)
RESERVED_GONE = Code(
    code="CG-CLAIM-005",
    title="Claim reserved for a Pod that is not there",
    severity="info",
    meaning="A claim is reserved for a Pod that no longer exists, or for an earlier one of the same name.",
    remedy="Look at the resource claim controller of kube-controller-manager where it stays so.",
)
CLASS_MISSING = Code(
    code="CG-CLAIM-006",
    title="Request for a DeviceClass that is not there",
    severity="warning",
    meaning="A claim or template asks for a DeviceClass that does not exist: its Pod stays Pending.",
    remedy="Create the class, or correct the name.",
)
UNHEALTHY = Code(
    code="CG-HEALTH-001",
    title="Unhealthy devices in use",
    severity="warning",
    meaning="A kubelet reports allocated devices of a container as unhealthy, or of unknown health.",
    remedy="Look at the device with its driver's owner before the change.",
)
SELECTOR_NOTHING = Code(
    code="CG-ATTR-001",
    title="Selector that names an attribute no device has",
    severity="warning",
    meaning="A DeviceClass or request names an attribute or capacity that no published device has, or has any more: it matches "
    "nothing, or fails the scheduling with an error.",
    remedy="Compare the names with `kubectl get resourceslices -o yaml`; names without a domain are in the driver's.",
)
STANDARD_TYPE = Code(
    code="CG-ATTR-002",
    title="Standard attribute of another type",
    severity="warning",
    others=("info",),
    meaning="resource.kubernetes.io/pcieRoot and pciBusID are strings, numaNode is an int (a list of ints with "
    "DRAListTypeAttributes). A constraint over devices of several drivers needs one type.",
    remedy="Report it to the driver's project.",
)
OTHER_NAMES = Code(
    code="CG-ATTR-003",
    title="Drivers that name one thing differently",
    severity="info",
    meaning="Drivers publish NUMA node, PCIe root or bus id under names of their own, so that a constraint cannot match devices "
    "of several drivers.",
    remedy="Where devices must lie together, use drivers that publish the standard attributes.",
)
SELECTOR_ERROR = Code(
    code="CG-ATTR-004",
    title="Selector that fails on some devices",
    severity="warning",
    meaning="A selector reads an attribute that some of the devices it meets do not have, without asking for its existence. The "
    "scheduler aborts the allocation where it meets such a device.",
    remedy='Ask first: `has(device.attributes["domain"].name) && …`.',
)
STATUS_RIGHTS = Code(
    code="CG-RBAC-001",
    title="Driver that may not write device status",
    severity="warning",
    others=("info",),
    meaning="Since 1.36 (DRAResourceClaimGranularStatusAuthorization) a driver that fills status.devices needs "
    "associated-node:update (or arbitrary-node:update) on resourceclaims/driver, beside update on resourceclaims/status.",
    remedy="Extend the driver's ClusterRole before the upgrade; newer charts do.",
)
AUTOSCALER = Code(
    code="CG-RBAC-002",
    title="Autoscaler beside DRA objects",
    severity="info",
    meaning="From 1.35 cluster-autoscaler always watches resource.k8s.io; an older ClusterRole lacks the right, and it logs errors.",
    remedy="See that its ClusterRole may list and watch deviceclasses, resourceclaims and resourceslices.",
)
CODES = (
    STUCK,
    TERMINATING,
    STATUS_EMPTY,
    UNPUBLISHED,
    RESERVED_GONE,
    CLASS_MISSING,
    UNHEALTHY,
    SELECTOR_NOTHING,
    STANDARD_TYPE,
    OTHER_NAMES,
    SELECTOR_ERROR,
    STATUS_RIGHTS,
    AUTOSCALER,
)

STANDARD: Final = {
    "resource.kubernetes.io/pcieRoot": frozenset({"string"}),
    "resource.kubernetes.io/pciBusID": frozenset({"string"}),
    "resource.kubernetes.io/numaNode": frozenset({"int", "ints"}),
}
"""Standard attributes and their types (dynamic-resource-allocation/deviceattribute 0.37.2)."""
_ALIASES: Final = {
    "pcieRoot": frozenset({"pcieroot", "pciroot", "pcierootid"}),
    "pciBusID": frozenset({"pcibusid", "pciaddress", "pcibus", "busid"}),
    "numaNode": frozenset({"numanode", "numanodeid", "numa"}),
}
FILLS_STATUS: Final = ("dra.net", "sriovnetwork.k8snetworkplumbingwg.io")
"""Drivers whose projects say that they fill status.devices."""
GRANULAR: Final = "DRAResourceClaimGranularStatusAuthorization"


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on claims, device status, attributes and health."""
    at = index(ctx)
    yield from _claims(ctx, at)
    yield from _terminating(ctx, at)
    yield from _status(ctx)
    yield from _unhealthy(ctx)
    yield from _selectors(ctx, at)
    yield from _standard(at)
    yield from _rights(ctx)
    yield from _autoscaler(ctx)


def _name(claim: Claim) -> str:
    return f"{claim.namespace}/{claim.name}"


# -------------------------------------------------------------------------------------------------------------- claims


def _claims(ctx: Context, at: DeviceIndex) -> Iterator[Finding]:
    slices_read = "resourceslices.resource.k8s.io" in ctx.snapshot.kinds_read
    pods_read = ctx.was_read("pods")
    for claim in ctx.snapshot.claims:
        if claim.deleting_since and (claim.allocated or claim.reserved_for):
            devices = [f"{d.driver}/{d.pool}/{d.device}" for d in claim.devices]
            consumers = [consumer.name for consumer in claim.reserved_for]
            yield finding(
                STUCK,
                tr(
                    "Claim {claim} is being deleted since {since}, and still holds {devices} for {pods}",
                    claim=_name(claim),
                    since=claim.deleting_since,
                    devices=names(devices) or tr("nothing"),
                    pods=names(consumers) or tr("nobody"),
                ),
                component="ResourceClaim",
                instances=[_name(claim)],
                name=_name(claim),
                evidence=[
                    Evidence(
                        source=f"ResourceClaim {_name(claim)}",
                        path="metadata.deletionTimestamp",
                        value=claim.deleting_since,
                        provenance="api object",
                    ),
                    Evidence(
                        source=f"ResourceClaim {_name(claim)}",
                        path="metadata.finalizers",
                        value=", ".join(claim.finalizers),
                        provenance="api object",
                    ),
                ],
                preexisting=True,
            )
        if slices_read and not claim.deleting_since:
            lost = [
                f"{d.driver}/{d.pool}/{d.device}"
                for d in claim.devices
                if (d.driver, d.pool, d.device) not in at.devices
            ]
            if lost:
                yield finding(
                    UNPUBLISHED,
                    tr(
                        "Claim {claim} holds {devices}, which no slice publishes",
                        claim=_name(claim),
                        devices=names(lost),
                    ),
                    component="ResourceClaim",
                    instances=[_name(claim)],
                    name=_name(claim),
                    preexisting=True,
                )
    if pods_read:
        gone = [
            _name(claim)
            for claim in ctx.snapshot.claims
            if not claim.deleting_since and claim.reserved_for and at.pods_of(claim)[1]
        ]
        if gone:
            yield finding(
                RESERVED_GONE,
                trn(
                    "{n} claim is reserved for a Pod that is not there: {claims}",
                    "{n} claims are reserved for Pods that are not there: {claims}",
                    n=len(gone),
                    claims=names(gone),
                ),
                component="ResourceClaim",
                instances=gone,
                preexisting=True,
            )
    yield from _missing_classes(ctx, at)


def _missing_classes(ctx: Context, at: DeviceIndex) -> Iterator[Finding]:
    if "deviceclasses.resource.k8s.io" not in ctx.snapshot.kinds_read:
        return
    users: defaultdict[str, set[str]] = defaultdict(set)
    for claim in ctx.snapshot.claims:
        for request in claim.requests:
            if request.device_class and request.device_class not in at.classes:
                users[request.device_class].add(f"ResourceClaim {_name(claim)}")
    for template in ctx.snapshot.claim_templates:
        for request in template.requests:
            if request.device_class and request.device_class not in at.classes:
                users[request.device_class].add(f"ResourceClaimTemplate {template.namespace}/{template.name}")
    for class_name, found in sorted(users.items()):
        yield finding(
            CLASS_MISSING,
            tr(
                "DeviceClass {name} does not exist; asked for by {users}", name=class_name, users=names(found)
            ),
            component="DeviceClass",
            instances=found,
            name=class_name,
            preexisting=True,
        )


def _driver_nodes(ctx: Context, drivers: Iterable[str]) -> tuple[set[str] | None, list[Driver]]:
    """(nodes with a ready Pod of one of these drivers, the drivers); None where their Pods are not known."""
    wanted = set(drivers)
    found = [d for d in ctx.snapshot.drivers if not wanted or d.driver in wanted]
    known = [d for d in found if d.ready_nodes is not None]
    if not known:
        return (set() if ctx.was_read("pods") or "pods" in ctx.snapshot.kinds_read else None), found
    return {node for driver in known for node in driver.ready_nodes or ()}, found


def _terminating(ctx: Context, at: DeviceIndex) -> Iterator[Finding]:
    for pod in ctx.snapshot.pods:
        if not (pod.deleting_since and pod.claims and pod.node) or pod.phase in FINISHED:
            continue
        claims = at.claims_of_pod.get((pod.namespace, pod.name), ())
        drivers = {device.driver for claim in claims for device in claim.devices}
        nodes, known = _driver_nodes(ctx, drivers)
        if nodes is None or pod.node in nodes:
            continue
        node = ctx.nodes.get(pod.node)
        cordoned = node is not None and node.unschedulable
        claim_names = [use.claim for use in pod.claims if use.claim]
        text = tr(
            "{pod} is terminating since {since} with claim {claims} on {node}, where no ready Pod of {driver} is seen",
            pod=f"{pod.namespace}/{pod.name}",
            since=pod.deleting_since,
            claims=names(claim_names) or tr("not made"),
            node=pod.node,
            driver=names(drivers) if drivers else tr("any DRA driver"),
        )
        if cordoned:
            text += "; " + tr("the node is cordoned")
        yield finding(
            TERMINATING,
            text,
            component="Pod",
            instances=[f"{pod.namespace}/{pod.name}"],
            name=f"{pod.namespace}/{pod.name}",
            evidence=[
                Evidence(
                    source=f"Pod {pod.namespace}/{pod.name}",
                    path="metadata.deletionTimestamp",
                    value=pod.deleting_since,
                    provenance="api object",
                ),
                *(
                    Evidence(
                        source=f"{d.workload.kind} {d.workload.namespace}/{d.workload.name}",
                        path="Pods",
                        value=names(d.ready_nodes or ()) or "0",
                        provenance="inferred",
                    )
                    for d in known
                    if d.workload is not None
                ),
            ],
            preexisting=True,
        )


def _status(ctx: Context) -> Iterator[Finding]:
    filled: set[str] = {
        status.driver for claim in ctx.snapshot.claims for status in claim.device_status if _tells(status)
    }
    empty: defaultdict[str, list[str]] = defaultdict(list)
    for claim in ctx.snapshot.claims:
        reported = {(s.driver, s.pool, s.device) for s in claim.device_status}
        for device in claim.devices:
            fills = device.driver in filled or device.driver in FILLS_STATUS
            if fills and claim.reserved_for and (device.driver, device.pool, device.device) not in reported:
                empty[device.driver].append(_name(claim))
    for driver, claims in sorted(empty.items()):
        yield finding(
            STATUS_EMPTY,
            tr(
                "{driver} has not filled status.devices of {claims}{why}",
                driver=driver,
                claims=names(claims),
                why="" if driver in filled else "; " + tr("the project says that it does"),
            ),
            component="driver",
            instances=claims,
            name=driver,
            severity="warning" if driver in filled else "info",
            preexisting=True,
        )


def _tells(status: DeviceStatus) -> bool:
    return bool(status.conditions or status.interface_name or status.ips or status.data_keys)


def _unhealthy(ctx: Context) -> Iterator[Finding]:
    groups: defaultdict[tuple[str, str], list[tuple[PodUse, str]]] = defaultdict(list)
    for pod in ctx.snapshot.pods:
        if pod.phase in FINISHED:
            continue
        for health in pod.health:
            if health.health != "Healthy":
                groups[health.resource, health.health].append((pod, health.device))
    for (resource, state), found in sorted(groups.items(), key=lambda item: item[0]):
        pods = [f"{pod.namespace}/{pod.name}" for pod, _ in found]
        yield finding(
            UNHEALTHY,
            tr(
                "{resource}: devices {devices} of {pods} are reported {state}",
                resource=resource,
                devices=names(device for _, device in found),
                pods=names(pods),
                state=state or tr("without a state"),
            ),
            component="devices",
            instances=pods,
            name=f"{resource} {state}",
            evidence=[
                Evidence(
                    source=f"Pod {pod.namespace}/{pod.name}",
                    path="status.containerStatuses[].allocatedResourcesStatus",
                    value=f"{device} {state}",
                    provenance="pod status",
                )
                for pod, device in found[:20]
            ],
            preexisting=True,
        )


# ---------------------------------------------------------------------------------------------------------- attributes


def _expressions(ctx: Context) -> Iterator[tuple[str, str, tuple[str, ...], int]]:
    """(whose, DeviceClass, selectors in the order in which the scheduler applies them, how many are the class's)."""
    at = index(ctx)
    for device_class in ctx.snapshot.device_classes:
        if device_class.selectors:
            own = device_class.selectors
            yield f"DeviceClass {device_class.name}", device_class.name, own, 0
    seen: set[tuple[str, tuple[str, ...]]] = set()
    owners = [
        *((f"ResourceClaim {_name(c)}", c.requests) for c in ctx.snapshot.claims),
        *(
            (f"ResourceClaimTemplate {t.namespace}/{t.name}", t.requests)
            for t in ctx.snapshot.claim_templates
        ),
    ]
    for owner, requests in owners:
        for request in requests:
            key = (request.device_class, request.selectors)
            if not request.selectors or key in seen:
                continue
            seen.add(key)
            asked = at.classes.get(request.device_class)
            before = asked.selectors if asked is not None else ()
            yield owner, request.device_class, (*before, *request.selectors), len(before)


def _selectors(ctx: Context, at: DeviceIndex) -> Iterator[Finding]:
    if not at.devices:
        return
    known: dict[str, set[str]] = {
        "attributes": {key for device in at.devices.values() for key in device.attributes},
        "capacity": {key for device in at.devices.values() for key in device.capacity},
    }
    for owner, _, expressions, skip in _expressions(ctx):
        named: list[Reference] = []
        for expression in expressions[skip:]:
            try:
                named.extend(references(expression))
            except SelectorSyntaxError:
                continue
        lacking = [ref for ref in named if ref.qualified not in known[ref.kind] and not ref.guarded]
        if lacking:
            near = sorted(
                {
                    key
                    for ref in lacking
                    for key in known[ref.kind]
                    if key.rpartition("/")[2].lower() == ref.name.lower()
                }
            )
            text = tr(
                "{owner} names {names}, which no device has",
                owner=owner,
                names=names(r.qualified for r in lacking),
            )
            if near:
                text += "; " + tr("devices have {near}", near=names(near))
            yield finding(
                SELECTOR_NOTHING,
                text,
                component=owner.partition(" ")[0],
                instances=[owner],
                name=owner.partition(" ")[2],
                evidence=[
                    Evidence(
                        source=owner, path="selectors[].cel.expression", value=e, provenance="api object"
                    )
                    for e in expressions[skip:]
                ],
                preexisting=True,
            )
            continue
        yield from _failing(at, owner, expressions, skip)


def _failing(at: DeviceIndex, owner: str, expressions: tuple[str, ...], skip: int) -> Iterator[Finding]:
    failed: list[str] = []
    error = ""
    for key, device in at.devices.items():
        for number, expression in enumerate(expressions):
            verdict = judge(expression, key.driver, device)
            if verdict.error and number >= skip:
                failed.append(str(key))
                error = error or verdict.error
            if verdict.takes is not True:
                break
    if failed:
        yield finding(
            SELECTOR_ERROR,
            trn(
                "{owner}: its selector fails on {n} device ({devices}): {error}",
                "{owner}: its selector fails on {n} devices ({devices}): {error}",
                n=len(failed),
                owner=owner,
                devices=names(failed, 3),
                error=error,
            ),
            component=owner.partition(" ")[0],
            instances=[owner],
            name=owner.partition(" ")[2],
            preexisting=True,
        )


def _standard(at: DeviceIndex) -> Iterator[Finding]:
    wrong: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    alias: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, device in at.devices.items():
        for name, attribute in device.attributes.items():
            allowed = STANDARD.get(name)
            if allowed is not None and attribute.type not in allowed:
                wrong[key.driver, name, attribute.type] += 1
            last = name.rpartition("/")[2].lower()
            for standard, spellings in _ALIASES.items():
                if last in spellings:
                    alias[standard][f"{key.driver}: {name}"] += 1
    for (driver, name, kind), n in sorted(wrong.items()):
        yield finding(
            STANDARD_TYPE,
            trn(
                "{driver}: {name} is of type {kind} on {n} device, not {allowed}",
                "{driver}: {name} is of type {kind} on {n} devices, not {allowed}",
                n=n,
                driver=driver,
                name=name,
                kind=kind,
                allowed=" / ".join(sorted(STANDARD[name])),
            ),
            component="driver",
            name=f"{driver} {name}",
        )
    for standard, spelled in sorted(alias.items()):
        full = f"resource.kubernetes.io/{standard}"
        drivers = {text.partition(": ")[0] for text in spelled}
        other = {text for text in spelled if not text.endswith(full)}
        standards = {text.partition(": ")[0] for text in spelled if text.endswith(full)}
        if other and len(drivers) > 1 and drivers - standards:
            yield finding(
                OTHER_NAMES,
                tr("{name} has several names: {names}", name=standard, names=names(spelled)),
                component="attribute",
                name=full,
            )


# -------------------------------------------------------------------------------------------------------------- rights


def granular(ctx: Context, at: Literal["target", "today"] = "target") -> bool:
    """Whether API servers ask for rights of their own for the device status, as far as is known; from 1.36 they do."""
    target = at == "target" and ctx.target is not None
    minor = (ctx.data_minor or ctx.today_minor) if target else ctx.today_minor
    if minor is None or minor_key(minor) < minor_key("1.36"):
        return False
    states = ctx.gate_states(GRANULAR, ("kube-apiserver",), "target" if target else "today")
    return not states or any(state.value is not False for state in states)


def _rights(ctx: Context) -> Iterator[Finding]:
    if not granular(ctx):
        return
    writers = {status.driver for claim in ctx.snapshot.claims for status in claim.device_status}
    for rights in ctx.snapshot.driver_rights:
        fills = rights.driver in writers or rights.driver in FILLS_STATUS
        writes = rights.can_update_status is True
        if not (fills or writes) or rights.can_update_driver_status is not False:
            continue
        yield _lacks(rights, fills)


def _lacks(rights: DriverRights, fills: bool) -> Finding:
    return finding(
        STATUS_RIGHTS,
        tr(
            "{driver}: ServiceAccount {account} has no associated-node:update on resourceclaims/driver; with 1.36 and later its "
            "writes to status.devices are refused",
            driver=rights.driver,
            account=rights.service_account,
        ),
        component="driver",
        instances=rights.roles,
        name=rights.driver,
        severity="warning" if fills else "info",
        evidence=[
            Evidence(source=role, path="rules", value="; ".join(rights.rules), provenance="api object")
            for role in rights.roles or (rights.service_account,)
        ],
    )


def _autoscaler(ctx: Context) -> Iterator[Finding]:
    snapshot = ctx.snapshot
    if not (snapshot.device_classes or snapshot.pools or snapshot.claims):
        return
    for workload in snapshot.workloads:
        if workload.addon != "autoscaler":
            continue
        image = next(iter(workload.images.values()), "")
        yield finding(
            AUTOSCALER,
            tr(
                "{workload} ({image}) runs beside DRA objects: see that its ClusterRole may list and watch resource.k8s.io",
                workload=f"{workload.kind} {workload.namespace}/{workload.name}",
                image=image,
            ),
            component="autoscaler",
            instances=[f"{workload.namespace}/{workload.name}"],
            name=workload.name,
        )
