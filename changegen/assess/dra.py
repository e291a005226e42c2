"""Devices and who holds them, indexed once for every question of the assessment. Pure.

A device is known by driver, pool and name. A claim holds the devices of its allocation; admin access takes no device
away from others, and a device that allows multiple allocations is never used up by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from changegen.assess.context import Context
from changegen.assess.selectors import class_takes, failure, takes
from changegen.i18n import tr
from changegen.model.snapshot import (
    AllocatedDevice,
    Claim,
    Device,
    DeviceClass,
    Driver,
    Node,
    NodeTaint,
    PodUse,
    Pool,
    Snapshot,
    TaintRule,
    Toleration,
    WorkloadRef,
)
from changegen.quantity import DEVICE_CLASS_PREFIX, count
from changegen.shell import word

__all__ = [
    "EXTENDED_CLAIM",
    "FINISHED",
    "DeviceId",
    "DeviceIndex",
    "Holding",
    "asked",
    "asks_budgets",
    "comes_back",
    "driver_log",
    "index",
    "owner_text",
    "rule_selects",
    "schedulable",
    "tolerates",
    "tolerates_device_taint",
]

EXTENDED_CLAIM: Final = "<extended-resources>"
FINISHED: Final = frozenset({"Succeeded", "Failed"})


class DeviceId(NamedTuple):
    """Identity of a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A claim's hold on one device."""

    claim: Claim
    result: AllocatedDevice
    pods: tuple[PodUse, ...]
    """Pods for which the claim is reserved, as far as they were read."""
    unread_pods: tuple[str, ...] = ()
    """Names of Pods for which it is reserved and that were not read."""


def owner_text(owner: WorkloadRef | None) -> str:
    """`Deployment/train`; empty for a bare Pod."""
    return f"{owner.kind}/{owner.name}" if owner is not None else ""


def comes_back(owner: WorkloadRef | None) -> bool:
    """Whether something makes a new Pod when one is deleted. Of custom controllers it is assumed, as they exist for it."""
    return owner is not None


def asks_budgets(pod: PodUse) -> bool:
    """Whether a drain waits for the PodDisruptionBudgets of a Pod.

    It does not take Pods of DaemonSets, mirrors and Pods that wait for a node; and the eviction of a Pod that is Pending,
    has finished or goes already asks no budget (`canIgnorePDB`, pkg/registry/core/pod/storage/eviction.go).
    """
    return (
        bool(pod.node)
        and pod.phase not in (*FINISHED, "Pending")
        and not pod.deleting_since
        and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
        and not any(step.startswith("Node/") for step in pod.owner_chain)
    )


def asked(pod: PodUse) -> dict[str, int]:
    """Extended resource -> how many the Pod needs: an init container's devices are used again by those that follow."""
    totals: Counter[str] = Counter()
    for ask in pod.asks:
        totals[ask.resource] += count(ask.quantity)
    counted = pod.requests or {}
    return {name: count(counted[name]) if name in counted else total for name, total in totals.items()}


def tolerates(tolerations: Iterable[Toleration], taint: NodeTaint) -> bool:
    """Whether a Pod's tolerations let it be scheduled in spite of a node taint (core/v1 rules)."""
    return any(
        t.effect in {"", taint.effect}
        and (
            t.key in {"", taint.key}
            if t.operator == "Exists"
            else t.key == taint.key and t.value == taint.value
        )
        for t in tolerations
    )


def tolerates_device_taint(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    """Whether a request's toleration matches a device taint (resourceclaim/devicetoleration.go)."""
    if toleration.effect not in {"", effect} or toleration.key not in {"", key}:
        return False
    return toleration.operator == "Exists" or (
        toleration.operator in {"", "Equal"} and toleration.value == value
    )


def rule_selects(rule: TaintRule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule's selector takes a device, by the API: an empty selector takes all, a missing one none."""
    if rule.selector == "none":
        return False
    return (
        (not rule.driver or rule.driver == driver)
        and (not rule.pool or rule.pool == pool)
        and (not rule.device or rule.device == device)
    )


def _invalid(pool: Pool) -> str:
    """Why the allocator refuses a pool (`buildPool`, pools_*.go of k8s.io/dynamic-resource-allocation); empty: it does not."""
    seen = Counter((device.name, device.node) for device in pool.devices)
    twice = sorted({name for (name, _), number in seen.items() if number > 1})
    if twice:
        return tr("two devices are named {name}", name=twice[0])
    known = {counter.rpartition("=")[0] for counter in pool.shared_counters}
    for device in pool.devices:
        for text in device.consumes_counters:
            counter = text.rpartition("=")[0]
            if counter not in known:
                return tr(
                    "device {name} draws on counter {counter}, which no slice has",
                    name=device.name,
                    counter=counter,
                )
    return ""


def schedulable(node: Node) -> bool:
    """Whether new Pods may come to a node at all."""
    return not node.unschedulable and node.ready is not False


class DeviceIndex:
    """Indexes over the devices of one snapshot; each is made when first asked."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def pools(self) -> dict[tuple[str, str], Pool]:
        """Pools by driver and name."""
        return {(pool.driver, pool.name): pool for pool in self.snapshot.pools}

    @cached_property
    def devices(self) -> dict[DeviceId, Device]:
        """Every published device."""
        return {
            DeviceId(pool.driver, pool.name, device.name): device
            for pool in self.snapshot.pools
            for device in pool.devices
        }

    @cached_property
    def invalid(self) -> dict[tuple[str, str], str]:
        """Pools from which the allocator gives nothing, however complete they are -> why, in one phrase."""
        return {key: why for key, pool in self.pools.items() if pool.complete and (why := _invalid(pool))}

    @cached_property
    def by_node(self) -> dict[str, tuple[DeviceId, ...]]:
        """Devices that belong to one node."""
        by: defaultdict[str, list[DeviceId]] = defaultdict(list)
        for key, device in self.devices.items():
            if device.node:
                by[device.node].append(key)
        return {node: tuple(found) for node, found in by.items()}

    @cached_property
    def roaming(self) -> tuple[DeviceId, ...]:
        """Devices that belong to no single node."""
        return tuple(key for key, device in self.devices.items() if not device.node)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        """DeviceClasses by name."""
        return {device_class.name: device_class for device_class in self.snapshot.device_classes}

    @cached_property
    def pods(self) -> dict[tuple[str, str], PodUse]:
        """Pods that the snapshot keeps, by namespace and name."""
        return {(pod.namespace, pod.name): pod for pod in self.snapshot.pods}

    @cached_property
    def claims(self) -> dict[tuple[str, str], Claim]:
        """Claims by namespace and name."""
        return {(claim.namespace, claim.name): claim for claim in self.snapshot.claims}

    def pods_of(self, claim: Claim) -> tuple[tuple[PodUse, ...], tuple[str, ...]]:
        """Pods for which a claim is reserved: those that were read, and the names of the others.

        A Pod of the same name with another uid is another Pod.
        """
        found: list[PodUse] = []
        unread: list[str] = []
        for consumer in claim.reserved_for:
            if consumer.resource != "pods":
                continue
            pod = self.pods.get((claim.namespace, consumer.name))
            if pod is not None and (not consumer.uid or not pod.uid or pod.uid == consumer.uid):
                found.append(pod)
            else:
                unread.append(consumer.name)
        return tuple(found), tuple(unread)

    @cached_property
    def holdings(self) -> dict[DeviceId, tuple[Holding, ...]]:
        """Holds on every allocated device, published or not, admin access included."""
        by: defaultdict[DeviceId, list[Holding]] = defaultdict(list)
        for claim in self.snapshot.claims:
            if not claim.devices:
                continue
            pods, unread = self.pods_of(claim)
            for result in claim.devices:
                by[DeviceId(result.driver, result.pool, result.device)].append(
                    Holding(claim=claim, result=result, pods=pods, unread_pods=unread)
                )
        return {key: tuple(found) for key, found in by.items()}

    def allocated(self, key: DeviceId) -> bool:
        """Whether a claim holds the device; admin access does not count."""
        return any(not holding.result.admin_access for holding in self.holdings.get(key, ()))

    def free(self, key: DeviceId) -> bool:
        """Whether a new claim could get the device, taints aside."""
        device = self.devices.get(key)
        if device is None:
            return False
        return device.allow_multiple_allocations or not self.allocated(key)

    def taints(self, key: DeviceId) -> Iterator[tuple[str, str, str, str]]:
        """(key, value, effect, where from) of every taint of a device: the driver's and those of rules."""
        device = self.devices.get(key)
        for taint in device.taints if device is not None else ():
            yield taint.key, taint.value, taint.effect, "driver"
        for rule in self.snapshot.taint_rules:
            if rule_selects(rule, *key):
                yield rule.key, rule.value, rule.effect, rule.name

    def closed(self, key: DeviceId, tolerations: Iterable[Toleration] = ()) -> bool:
        """Whether a taint keeps new claims with these tolerations away from a device."""
        known = tuple(tolerations)
        return any(
            effect in {"NoSchedule", "NoExecute"}
            and not any(tolerates_device_taint(t, taint, value, effect) for t in known)
            for taint, value, effect, _ in self.taints(key)
        )

    # -- classes and extended resources --------------------------------------------------------------------------

    @cached_property
    def _members(self) -> dict[str, dict[DeviceId, bool | None]]:
        return {}

    def members(self, class_name: str) -> dict[DeviceId, bool | None]:
        """Devices of a class that it takes (True) or of which that cannot be told (None); empty for an unknown class."""
        found = self._members.get(class_name)
        if found is None:
            device_class = self.classes.get(class_name)
            found = {}
            if device_class is not None:
                for key, device in self.devices.items():
                    answer = class_takes(device_class, key.driver, device)
                    if answer is not False:
                        found[key] = answer
            self._members[class_name] = found
        return found

    def certain_members(self, class_name: str, selectors: Iterable[str] = ()) -> tuple[DeviceId, ...]:
        """Devices of a class that also satisfy further selectors; what cannot be told counts as in."""
        wanted = tuple(selectors)
        found = self._certain.get((class_name, wanted))
        if found is None:
            found = tuple(
                key
                for key in self.members(class_name)
                if not wanted or takes(wanted, key.driver, self.devices[key]) is not False
            )
            self._certain[class_name, wanted] = found
        return found

    @cached_property
    def _certain(self) -> dict[tuple[str, tuple[str, ...]], tuple[DeviceId, ...]]:
        return {}

    def failing(self, class_name: str, selectors: Iterable[str] = ()) -> dict[DeviceId, str]:
        """Devices on which a selector of a class or of a request fails -> the error; the allocator gives up on meeting one."""
        wanted = tuple(selectors)
        found = self._failing.get((class_name, wanted))
        if found is None:
            device_class = self.classes.get(class_name)
            expressions = (*device_class.selectors, *wanted) if device_class is not None else ()
            found = {}
            for key, device in self.devices.items():
                error = failure(expressions, key.driver, device)
                if error:
                    found[key] = error
            self._failing[class_name, wanted] = found
        return found

    @cached_property
    def _failing(self) -> dict[tuple[str, tuple[str, ...]], dict[DeviceId, str]]:
        return {}

    @cached_property
    def class_of_resource(self) -> dict[str, DeviceClass]:
        """Extended resource -> the DeviceClass that serves it: of two the younger, of the same age the first by name.

        Implicit names (`deviceclass.resource.kubernetes.io/<class>`) are among them.
        """
        chosen: dict[str, DeviceClass] = {}
        for name, claimants in self.claimants.items():
            chosen[name] = claimants[0]
        for device_class in self.snapshot.device_classes:
            chosen[DEVICE_CLASS_PREFIX + device_class.name] = device_class
        return chosen

    @cached_property
    def claimants(self) -> dict[str, tuple[DeviceClass, ...]]:
        """Extended resource -> every DeviceClass that names it, the one that is used first."""
        by: defaultdict[str, list[DeviceClass]] = defaultdict(list)
        for device_class in self.snapshot.device_classes:
            if device_class.extended_resource_name:
                by[device_class.extended_resource_name].append(device_class)
        found = {}
        for name, classes in by.items():
            ordered = sorted(classes, key=lambda c: c.name)
            ordered.sort(key=lambda c: c.created, reverse=True)
            found[name] = tuple(ordered)
        return found

    @cached_property
    def claims_of_pod(self) -> dict[tuple[str, str], tuple[Claim, ...]]:
        """Claims that a Pod of the snapshot uses and that were read."""
        found = {}
        for pod in self.snapshot.pods:
            claims = [
                claim
                for use in pod.claims
                if use.claim and (claim := self.claims.get((pod.namespace, use.claim))) is not None
            ]
            if claims:
                found[pod.namespace, pod.name] = tuple(claims)
        return found

    def devices_of_pod(self, pod: PodUse) -> tuple[DeviceId, ...]:
        """Devices that a Pod's claims hold."""
        return tuple(
            DeviceId(d.driver, d.pool, d.device)
            for claim in self.claims_of_pod.get((pod.namespace, pod.name), ())
            for d in claim.devices
        )


_indexes: Final[WeakKeyDictionary[Context, DeviceIndex]] = WeakKeyDictionary()


def index(ctx: Context) -> DeviceIndex:
    """The index of an assessment's snapshot, made once."""
    found = _indexes.get(ctx)
    if found is None:
        found = _indexes[ctx] = DeviceIndex(ctx.snapshot)
    return found


def driver_log(driver: Driver, node: str) -> str:
    """The command for the log of a driver's plugin on one node; empty where its workload is not known."""
    workload = driver.workload
    if workload is None:
        return ""
    container = f" -c {word(driver.container)}" if driver.container else ""
    where = f"-n {word(workload.namespace)}"
    on_node, name = word(f"spec.nodeName={node}"), word(f"/{workload.name}-")
    pods = f"kubectl {where} get pods --field-selector {on_node} -o name | grep {name}"
    return f"kubectl {where} logs $({pods}){container} --tail=100"
