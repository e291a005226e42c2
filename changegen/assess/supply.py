"""What a Pod may have where: the nodes that may run it, what its claims need, and the devices that satisfy that. Pure.

A node may run a Pod that is schedulable, whose taints it tolerates, that its node selector and required node affinity take,
and that has enough CPU, memory and places for Pods left of what the Pods there request. Devices are counted as the
scheduler's allocator does (`changegen.assess.allocate`), with what makes it give up on a Pod altogether.

Not looked at: of a pool of several nodes the slices of an older generation on a node that no newer slice names. The allocator
gives their devices still, where they are all that their generation says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from changegen.assess.allocate import (
    MAX_DEVICES,
    Constraint,
    Need,
    Taken,
    allocate,
    constraint_of,
    counters_of,
    holds,
    take,
    used_counters,
)
from changegen.assess.context import SelectorError, matches
from changegen.assess.dra import (
    EXTENDED_CLAIM,
    FINISHED,
    DeviceId,
    DeviceIndex,
    asked,
    schedulable,
    tolerates,
    tolerates_device_taint,
)
from changegen.i18n import tr
from changegen.model.snapshot import (
    ClaimTemplate,
    ClaimUse,
    DeviceRequest,
    Node,
    NodeRequirement,
    NodeTerm,
    PodUse,
    Pool,
    TaintRule,
    Toleration,
)
from changegen.quantity import QuantityError, count, is_extended_resource, parse_quantity
from changegen.versions import minor_key, minor_of

__all__ = [
    "ALL_TRIED",
    "Need",
    "Shape",
    "State",
    "Stop",
    "Supply",
    "as_decimal",
    "kind_of",
    "left_of",
    "native_requests",
    "shape_of",
]

MOST_SHARES: Final = 64
"""Shares of one device that are counted."""
ALL_TRIED: Final = 100
"""Up to so many nodes the scheduler tries every one (minFeasibleNodesToFind of its schedule_one.go)."""


class Shape(msgspec.Struct, frozen=True):
    """What decides on which nodes a Pod may run."""

    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    required: tuple[NodeTerm, ...]
    requests: tuple[tuple[str, Decimal], ...]
    """Without extended resources."""


def shape_of(pod: PodUse) -> Shape:
    """What decides on a Pod's nodes, as a key."""
    return Shape(
        tuple(sorted(pod.node_selector.items())),
        pod.tolerations,
        pod.required_nodes,
        native_requests(pod.requests or {}),
    )


def native_requests(requests: Mapping[str, str]) -> tuple[tuple[str, Decimal], ...]:
    """Resource -> amount, without extended resources; sorted."""
    found = []
    for name, text in sorted(requests.items()):
        if not is_extended_resource(name) and (amount := as_decimal(text)) is not None:
            found.append((name, amount))
    return tuple(found)


def as_decimal(text: str) -> Decimal | None:
    """A quantity as a number; None for what is none."""
    try:
        return parse_quantity(text).key
    except QuantityError:
        return None


class Stop(NamedTuple):
    """Something for which the scheduler gives up on a Pod, on all nodes."""

    text: str
    certain: bool
    """False: it depends on the order in which devices or nodes are looked at."""


class State(msgspec.Struct):
    """What the Pods that were placed in a simulation have taken."""

    taken: Taken
    plugin: defaultdict[tuple[str, str], int] = msgspec.field(default_factory=lambda: defaultdict(int))
    """Node and extended resource of a device plugin -> amount."""
    native: defaultdict[tuple[str, str], Decimal] = msgspec.field(
        default_factory=lambda: defaultdict(Decimal)
    )
    """Node and resource (cpu, memory, pods …) -> amount."""
    claims: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """Claim that several Pods share -> the node where it was placed."""
    released: frozenset[DeviceId] = frozenset()
    """Devices that Pods of the node that is out held and that other nodes can use."""
    kept: frozenset[tuple[str, str]] = frozenset()
    """Claims that stay allocated, since Pods elsewhere hold them too."""
    taint: TaintRule | None = None
    """A taint with NoExecute that is put on ``tainted``: only requests that tolerate it get these devices."""
    tainted: frozenset[DeviceId] = frozenset()
    freed: frozenset[str] = frozenset()
    """Nodes that Pods leave which may come back to them: what these requested is in ``native``, below 0."""


class Supply:
    """Nodes, needs and free devices of a snapshot."""

    def __init__(self, at: DeviceIndex) -> None:
        self.at = at
        self._eligible: dict[Shape, dict[str, str]] = {}
        self._suited: dict[Need, dict[str, tuple[DeviceId, ...]]] = {}
        self._reach: dict[tuple[str, str], bool | None] = {}
        self._counts: dict[tuple[str, Need], int] = {}
        self._stops: dict[
            tuple[Shape, tuple[Need, ...], tuple[Constraint, ...]], dict[str, tuple[Stop, ...]]
        ] = {}

    # -- nodes ---------------------------------------------------------------------------------------------------

    def obstacles(self, pod: PodUse) -> dict[str, str]:
        """Node -> why a Pod may not run there; empty text: it may."""
        shape = shape_of(pod)
        found = self._eligible.get(shape)
        if found is None:
            found = {name: self._obstacle(node, shape) for name, node in self.at.nodes.items()}
            self._eligible[shape] = found
        return found

    @staticmethod
    def _obstacle(node: Node, shape: Shape, full: bool = True) -> str:
        """Why Pods of a kind may not run on a node; without `full` what its Pods request is not looked at."""
        if node.unschedulable:
            return tr("cordoned")
        if not schedulable(node):
            return tr("not ready")
        for taint in node.taints:
            if taint.effect in {"NoSchedule", "NoExecute"} and not tolerates(shape.tolerations, taint):
                value = f"={taint.value}" if taint.value else ""
                return tr("behind node taint {taint}", taint=f"{taint.key}{value}:{taint.effect}")
        for key, wanted in shape.selector:
            if node.labels.get(key) != wanted:
                return tr("not selected by {selector}", selector=f"{key}={wanted}")
        if shape.required and not any(_term_holds(term, node) for term in shape.required):
            return tr("not taken by the required node affinity")
        if not full:
            return ""
        places = left_of(node, "pods")
        if places is not None and places < 1:
            return tr("with as many Pods as it may run")
        for resource, amount in shape.requests:
            left = left_of(node, resource)
            if left is not None and amount > left:
                return tr(
                    "with less than {amount} of {resource} left",
                    amount=_shown(resource, amount),
                    resource=resource,
                )
        return ""

    @staticmethod
    def unseen(pod: PodUse) -> tuple[str, ...]:
        """What decides on a Pod's node and cannot be judged from a snapshot."""
        words = {
            "pod affinity": tr("pod affinity"),
            "pod anti-affinity": tr("pod anti-affinity"),
            "topology spread": tr("topology spread"),
            "host ports": tr("host ports"),
            "volume claims": tr("volume claims"),
            "scheduling gates": tr("scheduling gates"),
        }
        found = [words.get(text) or tr("another scheduler") for text in pod.other_constraints]
        if pod.requests is None:
            found.append(tr("requests of CPU and memory, which were not read"))
        return tuple(found)

    # -- needs ---------------------------------------------------------------------------------------------------

    def needs(self, pod: PodUse) -> tuple[Need, ...]:
        """What a new Pod like this one would need, alternatives (`firstAvailable`) within their request."""
        found: list[Need] = []
        for resource, total in sorted(asked(pod).items()):
            device_class = self.at.class_of_resource.get(resource)
            name = device_class.name if device_class is not None else ""
            found.append(Need(resource=resource, amount=total, class_name=name, extended=True))
        for use in pod.claims:
            if use.pod_claim == EXTENDED_CLAIM:
                continue
            groups: dict[str, list[Need]] = {}
            claim = self.at.claims.get((pod.namespace, use.claim)) if use.claim else None
            results = Counter(d.request for d in claim.devices) if claim is not None else Counter[str]()
            for request in self._requests(pod, use.claim, use.template):
                made = _need(use, request, results[request.name])
                groups.setdefault(request.alternative_of or request.name, []).append(made)
            for first, *others in groups.values():
                found.append(replace(first, others=tuple(others)) if others else first)
        return tuple(found)

    @cached_property
    def _templates(self) -> dict[tuple[str, str], ClaimTemplate]:
        return {(t.namespace, t.name): t for t in self.at.snapshot.claim_templates}

    def _requests(self, pod: PodUse, claim: str, template: str) -> tuple[DeviceRequest, ...]:
        found = self.at.claims.get((pod.namespace, claim)) if claim else None
        if found is not None:
            return found.requests
        made = self._templates.get((pod.namespace, template))
        return made.requests if made is not None else ()

    def constraints(self, pod: PodUse) -> tuple[Constraint, ...]:
        """What the claims of a Pod ask of their devices together."""
        found: list[Constraint] = []
        for use in pod.claims:
            claim = self.at.claims.get((pod.namespace, use.claim)) if use.claim else None
            made = self._templates.get((pod.namespace, use.template))
            texts = claim.constraints if claim is not None else made.constraints if made is not None else ()
            for text in texts:
                constraint = constraint_of(_claim_name(use), text)
                if constraint is not None:
                    found.append(constraint)
        return tuple(found)

    # -- devices -------------------------------------------------------------------------------------------------

    def suited(self, need: Need) -> dict[str, tuple[DeviceId, ...]]:
        """Node -> devices that would satisfy a need, in use or not; `""` has those that belong to no single node."""
        key = kind_of(need)
        found = self._suited.get(key)
        if found is None:
            by: defaultdict[str, list[DeviceId]] = defaultdict(list)
            for device in self.at.certain_members(need.class_name, need.selectors) if need.class_name else ():
                if (device.driver, device.pool) in self.unfinished:
                    continue
                if need.everything or not self.at.closed(device, need.tolerations):
                    by[self.at.devices[device].node or ""].append(device)
            found = self._suited[key] = {node: tuple(devices) for node, devices in by.items()}
        return found

    def _of_node(self, node: str, need: Need, state: State | None = None) -> list[DeviceId]:
        """Devices that a need could get on a node: not in use, or to be shared; with admin access all."""
        suited = self.suited(need)
        found = [
            *suited.get(node, ()),
            *(d for d in suited.get("", ()) if self._reaches(d, node) is not False),
        ]
        if need.everything:
            return self._all_of(found, need, state)
        found = [d for d in found if not _kept_away(d, need, state)]
        if need.admin:
            return found
        return [d for d in found if self._to_be_had(d, state)]

    def _to_be_had(self, device: DeviceId, state: State | None) -> bool:
        return self.at.free(device) or (state is not None and device in state.released)

    def _all_of(self, found: list[DeviceId], need: Need, state: State | None) -> list[DeviceId]:
        """The devices of a request for all of a node: none where one of them cannot be had."""
        wanted = [d for d in found if take(d, self.at.devices[d], need) is not None]
        if self._until_1_36 and not need.admin:
            # A device without room for one more share was passed over then; from 1.37 on it is one too few.
            consumed = state.taken.consumed if state is not None else self._held.consumed
            wanted = [d for d in wanted if self._has_room(d, need, consumed)]
        if len(wanted) > MAX_DEVICES:
            return []
        for device in wanted:
            if self.at.closed(device, need.tolerations) or _kept_away(device, need, state):
                return []
            if not need.admin and not self._to_be_had(device, state):
                return []
        return wanted

    @cached_property
    def unfinished(self) -> dict[tuple[str, str], Pool]:
        """Pools from which nothing is allocated, since they are not complete or not valid."""
        return {
            key: pool for key, pool in self.at.pools.items() if not pool.complete or key in self.at.invalid
        }

    @cached_property
    def _until_1_36(self) -> bool:
        """Whether the allocator is that of 1.36 or older, or not known."""
        minor = minor_of(self.at.snapshot.cluster.server_version)
        return minor is None or minor_key(minor) <= minor_key("1.36")

    def _has_room(
        self, device: DeviceId, need: Need, consumed: Mapping[tuple[DeviceId, str], Decimal]
    ) -> bool:
        """Whether a share of a device that several claims may hold is left."""
        found = self.at.devices[device]
        return not found.allow_multiple_allocations or all(
            consumed.get((device, name), Decimal(0)) + amount
            <= (as_decimal(found.capacity[name]) or Decimal(0))
            for name, amount in (take(device, found, need) or {}).items()
        )

    def _has_slices(self, pool: Pool, node: str) -> bool:
        """Whether slices of a pool count for a node."""
        # Slices with counters were gathered for every node until 1.36.
        if (self._until_1_36 and pool.shared_counters) or (
            pool.node_selector and self._selects(pool.node_selector, node) is not False
        ):
            return True
        if any(piece.counted and piece.node == node for piece in pool.slices):
            return True
        return any(
            device.node == node
            or (not device.node and device.node_selector and self._selects(device.node_selector, node))
            for device in pool.devices
        )

    def stops(
        self, pod: PodUse, kept: frozenset[tuple[str, str]] = frozenset(), out: str = ""
    ) -> tuple[Stop, ...]:
        """What makes the scheduler give up on a Pod, whichever node it would fit on.

        The allocator returns an error, not a refusal of one node, where a node that may run the Pod has slices of a pool
        that is not complete or not valid while a request asks for all devices (of whatever driver), where all devices are
        more than a claim can hold or miss a constraint, and where a selector fails on a device that is looked at. `kept`
        are claims that need nothing, `out` is a node that is drained.
        """
        needs = tuple(n for n in self.needs(pod) if not (n.named and (pod.namespace, n.claim) in kept))
        key = (shape_of(pod), needs, self.constraints(pod))
        by_node = self._stops.get(key)
        if by_node is None:
            by_node = self._stops[key] = dict(self._stops_by_node(pod, needs))
        return tuple(dict.fromkeys(stop for name, stops in by_node.items() if name != out for stop in stops))

    def _stops_by_node(self, pod: PodUse, needs: tuple[Need, ...]) -> Iterator[tuple[str, tuple[Stop, ...]]]:
        options = [option for need in needs for option in (need, *need.others)]
        failing = {o: self.at.failing(o.class_name, o.selectors) for o in options if o.class_name}
        everything = any(option.everything for option in options)
        if not everything and not any(failing.values()):
            return
        certain = len(self.at.nodes) <= ALL_TRIED
        for name, why in self.obstacles(pod).items():
            if why:
                continue
            found: list[Stop] = []
            if everything:
                found.extend(Stop(text, certain) for text in self._unfinished_of(name))
                found.extend(Stop(text, certain) for text in self._too_many_of(name, needs))
                found.extend(
                    Stop(stop.text, stop.certain and certain and len(needs) == 1)
                    for stop in self._constraint_of_all(name, pod, needs)
                )
            for option, errors in failing.items():
                if errors and not (option.extended and self.by_plugin(name, option.resource)):
                    sure = certain and (option.everything or (len(needs) == 1 and option is needs[0]))
                    found.extend(Stop(s.text, s.certain and sure) for s in self._fails(name, option, errors))
            if found:
                yield name, tuple(found)

    def _unfinished_of(self, node: str) -> Iterator[str]:
        for pool in self.unfinished.values():
            if self._has_slices(pool, node):
                yield tr(
                    "a request for all devices meets pool {pool}, which is not complete or not valid",
                    pool=f"{pool.driver}/{pool.name}",
                )

    def _within_reach(self, node: str, devices: Iterable[DeviceId]) -> list[DeviceId]:
        """Devices of pools that give something, which are a node's or which it reaches."""
        return [
            d
            for d in devices
            if (d.driver, d.pool) not in self.unfinished
            and (self.at.devices[d].node == node or (not self.at.devices[d].node and self._reaches(d, node)))
        ]

    def _fails(self, node: str, need: Need, errors: Mapping[DeviceId, str]) -> Iterator[Stop]:
        """A selector that fails on a device of a node; certain where that device is looked at before enough are found."""
        here = [d for d in (*self.at.by_node.get(node, ()), *self.at.roaming) if d in errors]
        for device in self._within_reach(node, here):
            if need.everything or need.admin or self.at.free(device):
                text = tr("a selector fails on {device}: {error}", device=str(device), error=errors[device])
                yield Stop(text, need.everything or self.available(node, need) < need.amount)
                return

    def _too_many_of(self, node: str, needs: Iterable[Need]) -> Iterator[str]:
        """Whether all devices of a node are more than a claim can hold, with what the claim asks for beside."""
        least: Counter[str] = Counter()
        all_of: set[str] = set()
        for need in needs:
            options = (need, *need.others)
            least[need.claim] += min(len(self._all(node, o)) if o.everything else o.amount for o in options)
            if any(option.everything for option in options):
                all_of.add(need.claim)
        if any(least[claim] > MAX_DEVICES for claim in all_of):
            yield tr(
                "a request for all devices finds too many on {node}: a claim holds at most {most}",
                node=node,
                most=MAX_DEVICES,
            )

    def _constraint_of_all(self, node: str, pod: PodUse, needs: Sequence[Need]) -> Iterator[Stop]:
        """Whether all devices of a node could be had, but miss a constraint of the claim."""
        constraints = self.constraints(pod)
        for need in needs:
            devices = self._of_node(node, need) if need.everything else []
            mine = [constraint for constraint in constraints if constraint.concerns(need)]
            if devices and not all(holds(c, [(need, d) for d in devices], self.at) for c in mine):
                text = tr("all devices of {node} do not meet a constraint of the claim together", node=node)
                yield Stop(text, not need.others)

    def _all(self, node: str, need: Need) -> list[DeviceId]:
        """What a request for all devices would get on a node, in use or tainted or not."""
        suited = self.suited(need)
        return [
            device
            for device in self._within_reach(node, (*suited.get(node, ()), *suited.get("", ())))
            if take(device, self.at.devices[device], need) is not None
        ]

    def _reaches(self, device: DeviceId, node: str) -> bool | None:
        """Whether a device that belongs to no single node can be used on one; None where its selector is not understood."""
        own = self.at.devices[device].node_selector
        return self._selects(own or self.at.pools[device.driver, device.pool].node_selector, node)

    def _selects(self, selector: str, node: str) -> bool | None:
        if selector in {"", "all"}:
            return True
        key = (selector, node)
        if key not in self._reach:
            found = self.at.nodes.get(node)
            labels = found.labels if found is not None else {}
            try:
                self._reach[key] = any(matches(term, labels) for term in selector.split(" or "))
            except SelectorError:
                self._reach[key] = None
        return self._reach[key]

    @cached_property
    def _limits(self) -> dict[tuple[str, str, str], Decimal]:
        """What the counters of every pool have."""
        limits = {}
        for (driver, name), pool in self.at.pools.items():
            for text in pool.shared_counters:
                counter, _, value = text.rpartition("=")
                limits[driver, name, counter] = as_decimal(value) or Decimal(0)
        return limits

    @cached_property
    def _in_use(self) -> frozenset[DeviceId]:
        """Devices to be shared of which a claim holds a share."""
        return frozenset(
            key
            for key, device in self.at.devices.items()
            if device.allow_multiple_allocations and self.at.allocated(key)
        )

    @cached_property
    def _held(self) -> Taken:
        """What claims hold of counters and of capacity that is shared."""
        held = Taken(counters=defaultdict(Decimal, used_counters(self.at)))
        for key in self._in_use:
            for holding in self.at.holdings.get(key, ()):
                for name, text in holding.result.consumed.items():
                    full = name if "/" in name else f"{key.driver}/{name}"
                    held.consumed[key, full] += as_decimal(text) or Decimal(0)
        return held

    def _shares_of(self, key: DeviceId, gone: set[tuple[str, str]]) -> Iterator[tuple[str, Decimal]]:
        """What claims take of a device that is shared, of which no Pod but these holds the claim."""
        for holding in self.at.holdings[key]:
            holders = {(holding.claim.namespace, c.name) for c in holding.claim.reserved_for}
            if holders and holders <= gone:
                for name, text in holding.result.consumed.items():
                    yield (
                        name if "/" in name else f"{key.driver}/{name}",
                        as_decimal(text) or Decimal(0),
                    )

    @cached_property
    def _holders(self) -> dict[DeviceId, frozenset[tuple[str, str]]]:
        """Devices that one claim at a time may hold -> the Pods for which they are held."""
        found = {}
        for key, holdings in self.at.holdings.items():
            device = self.at.devices.get(key)
            if device is None or device.allow_multiple_allocations:
                continue
            holders = frozenset(
                (holding.claim.namespace, c.name)
                for holding in holdings
                for c in holding.claim.reserved_for
                if not holding.result.admin_access
            )
            if holders:
                found[key] = holders
        return found

    @cached_property
    def _roaming(self) -> dict[DeviceId, frozenset[tuple[str, str]]]:
        """Those of them that belong to no single node."""
        return {key: pods for key, pods in self._holders.items() if self.at.devices[key].node is None}

    def _start(self, leaving: Sequence[PodUse], *, everywhere: bool = False) -> State:
        """The state before anything is placed.

        Devices of no single node come free with the Pods that leave, and with `everywhere` those of their nodes too.
        """
        gone = {(pod.namespace, pod.name) for pod in leaving}
        state = State(
            taken=Taken(
                counters=defaultdict(Decimal, self._held.counters),
                consumed=defaultdict(Decimal, self._held.consumed),
            )
        )
        released = set()
        for key, holders in (self._holders if everywhere else self._roaming).items():
            if holders <= gone:
                released.add(key)
                for name, amount in counters_of(self.at.devices[key]):
                    state.taken.counters[key.driver, key.pool, name] -= amount
        for key in self._in_use:
            if everywhere or self.at.devices[key].node is None:
                for name, amount in self._shares_of(key, gone):
                    state.taken.consumed[key, name] -= amount
        state.released = frozenset(released)
        state.kept = frozenset(
            (claim.namespace, claim.name)
            for pod in leaving
            for claim in self.at.claims_of_pod.get((pod.namespace, pod.name), ())
            if claim.devices and not {(claim.namespace, c.name) for c in claim.reserved_for} <= gone
        )
        return state

    @cached_property
    def _plugin_used(self) -> dict[tuple[str, str], int]:
        used: defaultdict[tuple[str, str], int] = defaultdict(int)
        for pod in self.at.snapshot.pods:
            if pod.node and pod.phase not in FINISHED:
                for resource, amount in asked(pod).items():
                    used[pod.node, resource] += amount
        return used

    def by_plugin(self, node: str, resource: str) -> bool:
        """Whether a node's device plugin serves a resource: then the scheduler looks at no DeviceClass for it there."""
        found = self.at.nodes.get(node)
        return found is not None and count(found.allocatable.get(resource, "0")) > 0

    def plugin_free(self, node: str, resource: str) -> int:
        """What a device plugin has left of a resource on a node."""
        found = self.at.nodes.get(node)
        total = count(found.allocatable.get(resource, "0")) if found is not None else 0
        return max(total - self._plugin_used.get((node, resource), 0), 0)

    def available(self, node: str, need: Need) -> int:
        """Devices that could be had for a need on one node one after the other, before anything is placed.

        Of partitions that share counters as many as these allow; of a device that is shared by capacity as many shares
        as fit, of one without capacity one.
        """
        if need.extended and self.by_plugin(node, need.resource):
            return self.plugin_free(node, need.resource)
        key = (node, kind_of(need))
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._count(node, need)
        return found

    def _count(self, node: str, need: Need) -> int:
        devices = self._of_node(node, need)
        if need.everything or need.admin or not any(self._special(d) for d in devices):
            return len(devices)
        one = replace(kind_of(need), amount=1)
        taken, total = self._held, 0
        for device in devices:
            for _ in range(MOST_SHARES if self.at.devices[device].capacity else 1):
                done = self._take(taken, [one], {one: [device]}, ())
                if done is None:
                    break
                taken, total = done[0], total + 1
                if not self.at.devices[device].allow_multiple_allocations:
                    break
        return total

    def _special(self, device: DeviceId) -> bool:
        found = self.at.devices[device]
        return bool(found.consumes_counters) or found.allow_multiple_allocations

    def _take(
        self,
        taken: Taken,
        needs: list[Need],
        candidates: Mapping[Need, list[DeviceId]],
        constraints: tuple[Constraint, ...],
    ) -> tuple[Taken, list[tuple[Need, DeviceId]]] | None:
        return allocate(
            self.at,
            needs,
            candidates,
            constraints=constraints,
            taken=taken,
            limits=self._limits,
            in_use=self._in_use,
        )


def _kept_away(device: DeviceId, need: Need, state: State | None) -> bool:
    """Whether a taint that is yet to come keeps a request from a device."""
    if state is None or state.taint is None or device not in state.tainted:
        return False
    rule = state.taint
    return not any(tolerates_device_taint(t, rule.key, rule.value, "NoExecute") for t in need.tolerations)


def _claim_name(use: ClaimUse) -> str:
    return use.pod_claim if use.template else use.claim or use.pod_claim


def _need(use: ClaimUse, request: DeviceRequest, held: int) -> Need:
    """A request as a need; `held` is what the claim has for it now, which is its number where it asks for all."""
    return Need(
        resource=request.device_class,
        amount=request.count or max(held, 1),
        class_name=request.device_class,
        selectors=request.selectors,
        tolerations=request.tolerations,
        everything=request.count is None,
        admin=request.admin_access,
        capacity=tuple(sorted(request.capacity.items())),
        claim=_claim_name(use),
        named=not use.template,
        request=request.name,
    )


def kind_of(need: Need) -> Need:
    """The need without what tells nothing of its devices: its number, its claim and its request."""
    others = tuple(kind_of(other) for other in need.others)
    return replace(need, amount=1, claim="", request="", named=False, others=others)


def left_of(node: Node, resource: str) -> Decimal | None:
    """What is left of a resource on a node; None where that was not read."""
    allocatable = as_decimal(node.allocatable.get(resource, ""))
    if allocatable is None:
        # A node that names no such resource has none, but for one of which nothing was read.
        return Decimal(0) if node.allocatable and resource != "pods" else None
    if resource == "pods":
        return None if node.pod_count is None else allocatable - node.pod_count
    if node.requested is None:
        return None
    return allocatable - (as_decimal(node.requested.get(resource, "0")) or Decimal(0))


def _shown(resource: str, amount: Decimal) -> str:
    """An amount for people: CPU with its decimals, memory in Gi."""
    if resource == "cpu" or amount < 1024:
        return f"{amount.normalize():f}"
    for unit, size in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if amount >= size:
            return f"{(amount / size).quantize(Decimal('0.1')).normalize():f}{unit}"
    return f"{amount.normalize():f}"


def _term_holds(term: NodeTerm, node: Node) -> bool:
    """Whether a node satisfies a term of a node affinity; one without expressions is satisfied by none."""
    if not term.labels and not term.fields:
        return False
    return all(_holds(need, node.labels.get(need.key)) for need in term.labels) and all(
        _holds(need, node.name if need.key == "metadata.name" else None) for need in term.fields
    )


def _holds(need: NodeRequirement, value: str | None) -> bool:
    """One expression (component-helpers/scheduling/corev1/nodeaffinity, apimachinery/pkg/labels)."""
    if need.operator == "In":
        return value is not None and value in need.values
    if need.operator == "NotIn":
        return value is None or value not in need.values
    if need.operator == "Exists":
        return value is not None
    if need.operator == "DoesNotExist":
        return value is None
    if need.operator in {"Gt", "Lt"} and value is not None and len(need.values) == 1:
        try:
            have, limit = int(value), int(need.values[0])
        except ValueError:
            return False
        return have > limit if need.operator == "Gt" else have < limit
    return False
