"""What a drain meets: who holds devices, what is left when one node is out, budgets that block, Pods that do not come back.

The simulation takes one node out, deletes its Pods that use devices, and gives each Pod that something makes again the
first node where it fits: schedulable, its taints tolerated, taken by the Pod's node selector and required node affinity,
with enough CPU, memory and places for Pods left of what the Pods there request, and with devices that satisfy its claims
together (`changegen.assess.allocate`). What a snapshot cannot judge (affinity between Pods, spreading, volumes, host
ports, requests that were not read) makes the answer "cannot tell". It is an estimate: Pods without devices that leave
the same node take room too, nobody is preempted, and the scheduler may choose other nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from changegen.assess.allocate import (
    MAX_DEVICES,
    Constraint,
    Need,
    Taken,
    TooManyError,
    allocate,
    constraint_of,
    counters_of,
    holds,
    take,
    used_counters,
)
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, SelectorError, matches, names
from changegen.assess.dra import (
    EXTENDED_CLAIM,
    FINISHED,
    DeviceId,
    DeviceIndex,
    asked,
    comes_back,
    index,
    owner_text,
    schedulable,
    tolerates,
    tolerates_device_taint,
)
from changegen.i18n import tr, trn
from changegen.model.snapshot import (
    Claim,
    ClaimTemplate,
    ClaimUse,
    DeviceRequest,
    DisruptionBudget,
    Node,
    NodeRequirement,
    NodeTerm,
    PodUse,
    Pool,
    TaintRule,
    Toleration,
)
from changegen.model.ticket import BlastRow, CapacityRow, Evidence, Finding
from changegen.quantity import QuantityError, count, is_extended_resource, parse_quantity
from changegen.versions import minor_key, minor_of

__all__ = [
    "CODES",
    "Need",
    "Simulation",
    "Stop",
    "blast_rows",
    "capacity_rows",
    "findings",
    "simulation",
    "simulation_of",
]

NODE_OUT = Code(
    code="CG-CAP-001",
    title="Too few free devices when one node is out",
    severity="warning",
    meaning="When a node is drained, Pods with devices cannot all get devices elsewhere: free ones are missing, are partitions "
    "or shares that do not fit beside those in use, or lie behind a node taint, a cordon, a device taint, a node "
    "selector or affinity, or on nodes with too little CPU or memory left. An estimate: Pods without devices that leave "
    "the same node are not placed.",
    remedy="Free devices before the drain, let the workload run with fewer Pods for that time, or accept the Pending Pods "
    "with their owner.",
)
NODE_OUT_UNKNOWN = Code(
    code="CG-CAP-002",
    title="Free devices cannot be counted",
    severity="info",
    meaning="A kind that the count needs was not read, so what a drain leaves Pending is not known.",
    remedy="Read ResourceSlices, ResourceClaims, Pods and Nodes.",
)
BUDGET_BLOCKS = Code(
    code="CG-PDB-001",
    title="PodDisruptionBudget that blocks drains",
    severity="warning",
    meaning="A budget allows no disruption now: `kubectl drain` of the nodes of its Pods retries until its timeout.",
    remedy="Scale the workload up, or relax the budget with its owner for the time of the change.",
)
BUDGETS_OVERLAP = Code(
    code="CG-PDB-002",
    title="Pod under more than one PodDisruptionBudget",
    severity="warning",
    meaning="The eviction API refuses to evict a Pod that more than one budget selects; a drain never ends.",
    remedy="Let one budget select the Pod.",
)
BUDGET_STALE = Code(
    code="CG-PDB-003",
    title="PodDisruptionBudget whose status lags",
    severity="info",
    meaning="The status of a budget is of an older generation of it: what it allows now is not known.",
    remedy="Read it again; look at the disruption controller of kube-controller-manager where it stays so.",
)
LOCAL_STORAGE = Code(
    code="CG-DRAIN-001",
    title="Pods with emptyDir volumes",
    severity="info",
    meaning="Pods that use devices have emptyDir volumes: `kubectl drain` refuses without --delete-emptydir-data, and their "
    "content is lost.",
    remedy="Ask the owners, then drain with --delete-emptydir-data.",
)
BARE_PODS = Code(
    code="CG-DRAIN-002",
    title="Pods that do not come back",
    severity="warning",
    others=("info",),
    meaning="Pods without a controller: `kubectl drain` refuses without --force, and nothing makes them again.",
    remedy="Ask the owners; save what is needed to make them again.",
)
NODE_OUT_UNDECIDED = Code(
    code="CG-CAP-003",
    title="Cannot tell whether Pods find devices when one node is out",
    severity="info",
    meaning="Devices are free elsewhere for Pods of a node that is drained, and something that decides on their nodes cannot be "
    "judged from a snapshot: affinity between Pods, spreading, volumes, host ports, another scheduler, or CPU and "
    "memory that were not read.",
    remedy="Look at what is named with the owners of the Pods, or try the drain of one node first.",
)
CODES = (
    NODE_OUT,
    NODE_OUT_UNKNOWN,
    NODE_OUT_UNDECIDED,
    BUDGET_BLOCKS,
    BUDGETS_OVERLAP,
    BUDGET_STALE,
    LOCAL_STORAGE,
    BARE_PODS,
)

_NEEDED: Final = (
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "pods",
    "nodes",
)
MOST_SHARES: Final = 64
"""Shares of one device that are counted."""
_ALL_TRIED: Final = 100
"""Up to so many nodes the scheduler tries every one (minFeasibleNodesToFind of its schedule_one.go)."""


class _Shape(msgspec.Struct, frozen=True):
    """What decides on which nodes a Pod may run."""

    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    required: tuple[NodeTerm, ...]
    requests: tuple[tuple[str, Decimal], ...]
    """Without extended resources."""


def _shape(pod: PodUse) -> _Shape:
    return _Shape(
        tuple(sorted(pod.node_selector.items())),
        pod.tolerations,
        pod.required_nodes,
        _native(pod.requests or {}),
    )


def _native(requests: Mapping[str, str]) -> tuple[tuple[str, Decimal], ...]:
    found = []
    for name, text in sorted(requests.items()):
        if not is_extended_resource(name) and (amount := _decimal(text)) is not None:
            found.append((name, amount))
    return tuple(found)


def _decimal(text: str) -> Decimal | None:
    try:
        return parse_quantity(text).key
    except QuantityError:
        return None


class Stop(NamedTuple):
    """Something for which the scheduler gives up on a Pod, on all nodes."""

    text: str
    certain: bool
    """False: it depends on the order in which devices or nodes are looked at."""


class _Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Free devices for Pods of one kind."""

    open: dict[str, int]
    """Node -> devices that the Pods could get there."""
    total: int
    closed: dict[str, dict[str, int]]
    """Why not -> node -> devices."""


class _State(msgspec.Struct):
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


class Simulation:
    """Free devices of a snapshot, and what fits where."""

    def __init__(self, at: DeviceIndex) -> None:
        self.at = at
        self._outlooks: dict[frozenset[tuple[_Shape, Need]], _Outlook] = {}
        self._by_needs: dict[tuple[Need, ...], list[str]] = {}
        self._eligible: dict[_Shape, dict[str, str]] = {}
        self._suited: dict[Need, dict[str, tuple[DeviceId, ...]]] = {}
        self._reach: dict[tuple[str, str], bool | None] = {}
        self._counts: dict[tuple[str, Need], int] = {}
        self._stops: dict[
            tuple[_Shape, tuple[Need, ...], tuple[Constraint, ...]], dict[str, tuple[Stop, ...]]
        ] = {}

    # -- nodes ---------------------------------------------------------------------------------------------------

    def obstacles(self, pod: PodUse) -> dict[str, str]:
        """Node -> why a Pod may not run there; empty text: it may."""
        shape = _shape(pod)
        found = self._eligible.get(shape)
        if found is None:
            found = {name: self._obstacle(node, shape) for name, node in self.at.nodes.items()}
            self._eligible[shape] = found
        return found

    @staticmethod
    def _obstacle(node: Node, shape: _Shape, full: bool = True) -> str:
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
        places = _left(node, "pods")
        if places is not None and places < 1:
            return tr("with as many Pods as it may run")
        for resource, amount in shape.requests:
            left = _left(node, resource)
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
        key = _kind(need)
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

    def _of_node(self, node: str, need: Need, state: _State | None = None) -> list[DeviceId]:
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

    def _to_be_had(self, device: DeviceId, state: _State | None) -> bool:
        return self.at.free(device) or (state is not None and device in state.released)

    def _all_of(self, found: list[DeviceId], need: Need, state: _State | None) -> list[DeviceId]:
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
            <= (_decimal(found.capacity[name]) or Decimal(0))
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
        key = (_shape(pod), needs, self.constraints(pod))
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
        certain = len(self.at.nodes) <= _ALL_TRIED
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
                limits[driver, name, counter] = _decimal(value) or Decimal(0)
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
                    held.consumed[key, full] += _decimal(text) or Decimal(0)
        return held

    def _shares_of(self, key: DeviceId, gone: set[tuple[str, str]]) -> Iterator[tuple[str, Decimal]]:
        """What claims take of a device that is shared, of which no Pod but these holds the claim."""
        for holding in self.at.holdings[key]:
            holders = {(holding.claim.namespace, c.name) for c in holding.claim.reserved_for}
            if holders and holders <= gone:
                for name, text in holding.result.consumed.items():
                    yield (
                        name if "/" in name else f"{key.driver}/{name}",
                        _decimal(text) or Decimal(0),
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

    def _start(self, leaving: Sequence[PodUse], *, everywhere: bool = False) -> _State:
        """The state before anything is placed.

        Devices of no single node come free with the Pods that leave, and with `everywhere` those of their nodes too.
        """
        gone = {(pod.namespace, pod.name) for pod in leaving}
        state = _State(
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
        key = (node, _kind(need))
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = self._count(node, need)
        return found

    def _count(self, node: str, need: Need) -> int:
        devices = self._of_node(node, need)
        if need.everything or need.admin or not any(self._special(d) for d in devices):
            return len(devices)
        one = replace(_kind(need), amount=1)
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

    # -- one Pod on one node -----------------------------------------------------------------------------------------

    def _fits(self, node: str, pod: PodUse, needs: tuple[Need, ...], state: _State) -> bool:
        """Place a Pod on a node where it fits, and note what it takes. Raises `TooManyError`."""
        found = self.at.nodes[node]
        native = (*_native(pod.requests or {}), ("pods", Decimal(1)))
        for resource, amount in native:
            left = _left(found, resource)
            if left is not None and state.native[node, resource] + amount > left:
                return False
        plugin: defaultdict[str, int] = defaultdict(int)
        wanted: list[Need] = []
        shared: set[tuple[str, str]] = set()
        for need in needs:
            if need.extended and self.by_plugin(node, need.resource):
                plugin[need.resource] += need.amount
                used = state.plugin[node, need.resource] + plugin[need.resource]
                if self.plugin_free(node, need.resource) < used:
                    return False
                continue
            if need.named:
                name = (pod.namespace, need.claim)
                if name in state.kept:
                    if not self._stays_usable(self.at.claims[name], node):
                        return False
                    continue
                placed = state.claims.get(name)
                if placed is not None:
                    if placed != node:
                        return False
                    continue
                shared.add(name)
            wanted.append(need)
        if wanted:
            taken = self._devices(node, pod, wanted, state)
            if taken is None:
                return False
            state.taken = taken
        for resource, amount in native:
            state.native[node, resource] += amount
        for resource, number in plugin.items():
            state.plugin[node, resource] += number
        for name in shared:
            state.claims[name] = node
        return True

    def _devices(self, node: str, pod: PodUse, wanted: list[Need], state: _State) -> Taken | None:
        """What is taken when the needs get their devices on a node; None where there are none."""
        candidates: dict[Need, list[DeviceId]] = {}
        special = False
        for need in wanted:
            for option in (need, *need.others):
                devices = self._of_node(node, option, state)
                candidates[option] = devices
                special = special or option.everything or option.admin or bool(option.capacity)
                special = special or any(self._special(device) for device in devices)
            special = special or bool(need.others)
            if not any(len(candidates[o]) >= (1 if o.everything else o.amount) for o in (need, *need.others)):
                return None
        constraints = self.constraints(pod)
        if special or constraints or len(wanted) > 1:
            done = self._take(state.taken, wanted, candidates, constraints)
            return done[0] if done is not None else None
        # The plain case, of one kind and nothing shared: the first free ones.
        need = wanted[0]
        if need.amount > MAX_DEVICES:
            return None
        free = [device for device in candidates[need] if device not in state.taken.devices][: need.amount]
        if len(free) < need.amount:
            return None
        state.taken.devices.update(free)
        return state.taken

    def _stays_usable(self, claim: Claim, node: str) -> bool:
        """Whether the devices that a claim holds can be used on a node."""
        if claim.node:
            return claim.node == node
        for result in claim.devices:
            key = DeviceId(result.driver, result.pool, result.device)
            device = self.at.devices.get(key)
            if device is None:
                continue
            if device.node != node if device.node else self._reaches(key, node) is False:
                return False
        return True

    # -- one node out --------------------------------------------------------------------------------------------

    @cached_property
    def users_by_node(self) -> dict[str, tuple[PodUse, ...]]:
        """Pods with devices that hold a place on a node and that a drain would move; DaemonSet Pods stay."""
        by: defaultdict[str, list[PodUse]] = defaultdict(list)
        for pod in self.at.snapshot.pods:
            daemon = pod.owner is not None and pod.owner.kind == "DaemonSet"
            if pod.uses_devices and pod.node and pod.phase not in FINISHED and not daemon:
                by[pod.node].append(pod)
        return {node: tuple(pods) for node, pods in sorted(by.items())}

    def node_out(self, node: str) -> tuple[CapacityRow, ...]:
        """What is left when a node is drained, a row for each resource of its Pods."""
        here = self.users_by_node.get(node, ())
        movers = [(pod, needs) for pod in here if comes_back(pod.owner) and (needs := self.needs(pod))]
        movers.sort(key=lambda pair: (-sum(n.amount for n in pair[1]), pair[0].namespace, pair[0].name))
        state = self._start(here)
        left: list[tuple[PodUse, tuple[Need, ...]]] = []
        doubts: dict[tuple[str, str], tuple[str, ...]] = {}
        for pod, needs in movers:
            placed, doubt = self._place(pod, needs, state, node)
            if placed is False:
                left.append((pod, needs))
            elif doubt:
                doubts[pod.namespace, pod.name] = doubt
        bare = [pod for pod in here if not comes_back(pod.owner)]
        return tuple(self._row(node, resource, movers, left, doubts, bare) for resource in _resources(movers))

    def nodes_for(self, pod: PodUse) -> tuple[str, ...]:
        """Nodes where all needs of a Pod are met together now, its own devices aside."""
        if any(stop.certain for stop in self.stops(pod)):
            return ()
        needs = self.needs(pod)
        found = []
        for name, why in self.obstacles(pod).items():
            if why:
                continue
            try:
                if self._fits(name, pod, needs, self._start([pod], everywhere=True)):
                    found.append(name)
            except TooManyError:
                continue
        return tuple(found)

    def devices_out(
        self, taint: TaintRule, tainted: Iterable[DeviceId], pods: Sequence[PodUse]
    ) -> tuple[tuple[PodUse, ...], dict[tuple[str, str], tuple[str, ...]]]:
        """Where Pods go that a taint with NoExecute evicts, and that something makes again.

        They leave all their devices, and may come back to their own node where it has others.

        Returns:
            (Pods that find no devices then, the others of which that cannot be told with the reasons).
        """
        state = self._start(pods, everywhere=True)
        state.taint, state.tainted = taint, frozenset(tainted)
        state.freed = frozenset(pod.node for pod in pods if pod.node)
        for pod in pods:
            for resource, amount in (*_native(pod.requests or {}), ("pods", Decimal(1))):
                state.native[pod.node, resource] -= amount
        movers = [(pod, needs) for pod in pods if comes_back(pod.owner) and (needs := self.needs(pod))]
        movers.sort(key=lambda pair: (-sum(n.amount for n in pair[1]), pair[0].namespace, pair[0].name))
        left: list[PodUse] = []
        doubts: dict[tuple[str, str], tuple[str, ...]] = {}
        for pod, needs in movers:
            placed, doubt = self._place(pod, needs, state, "")
            if not placed:
                left.append(pod)
            elif doubt:
                doubts[pod.namespace, pod.name] = doubt
        return tuple(left), doubts

    def _place(
        self, pod: PodUse, needs: tuple[Need, ...], state: _State, out: str
    ) -> tuple[bool, tuple[str, ...]]:
        """(whether the Pod may fit somewhere else, why that cannot be told for certain)."""
        stops = self.stops(pod, state.kept, out)
        if any(stop.certain for stop in stops):
            return False, ()
        obstacles = self.obstacles(pod)
        given_up = False
        named = any(need.named for need in needs)
        for candidate in sorted(self.at.nodes) if state.released or named else self._candidates(needs):
            if candidate == out or candidate not in obstacles:
                continue
            why = obstacles[candidate]
            if why and candidate in state.freed:
                # Room is counted anew there, with what the Pods that left gave back.
                why = self._obstacle(self.at.nodes[candidate], _shape(pod), full=False)
            if why:
                continue
            try:
                if not self._fits(candidate, pod, needs, state):
                    continue
            except TooManyError:
                given_up = True
                continue
            return True, (*self._doubts(candidate, pod, needs), *(stop.text for stop in stops))
        if given_up:
            return True, (tr("more combinations of devices than are tried"),)
        return False, ()

    def _doubts(self, node: str, pod: PodUse, needs: tuple[Need, ...]) -> tuple[str, ...]:
        found = list(self.unseen(pod))
        place = self.at.nodes[node]
        if place.requested is None and _native(pod.requests or {}):
            found.append(tr("what other Pods request of CPU and memory, which was not read"))
        for need in needs:
            for option in (need, *need.others):
                if option.extended and self.by_plugin(node, option.resource):
                    continue
                devices = self._of_node(node, option)
                if any(self.at.devices[d].compatibility_groups for d in devices):
                    found.append(tr("compatibility groups of devices"))
                members = self.at.members(option.class_name)
                if any(members.get(d) is None for d in devices):
                    found.append(tr("selectors that could not be evaluated"))
                if any(self.at.devices[d].node is None and self._reaches(d, node) is None for d in devices):
                    found.append(tr("node selectors of devices that were not understood"))
        if any(constraint.attribute in self._lists for constraint in self.constraints(pod)):
            found.append(tr("constraints on attributes that are lists"))
        return tuple(dict.fromkeys(found))

    @cached_property
    def _lists(self) -> frozenset[str]:
        """Attributes that are lists on some device."""
        return frozenset(
            name
            for device in self.at.devices.values()
            for name, attribute in device.attributes.items()
            if attribute.values
        )

    @cached_property
    def rows(self) -> tuple[CapacityRow, ...]:
        """One node out, for every node that has Pods with devices; in the language in force when first asked."""
        return tuple(row for node in self.users_by_node for row in self.node_out(node))

    def _candidates(self, needs: tuple[Need, ...]) -> list[str]:
        """Nodes with something of the scarcest need: the fewest there are."""
        key = tuple(_kind(need) for need in needs)
        found = self._by_needs.get(key)
        if found is None:
            found = self._by_needs[key] = self._with_devices(needs)
        return found

    def _with_devices(self, needs: tuple[Need, ...]) -> list[str]:
        best: list[str] | None = None
        for need in needs:
            nodes: set[str] = set()
            for option in (need, *need.others):
                nodes.update(self.suited(option))
                if option.extended:
                    nodes.update(self._plugin_nodes.get(option.resource, ()))
            if "" in nodes:
                continue
            nodes = {n for n in nodes if any(self.available(n, option) for option in (need, *need.others))}
            if best is None or len(nodes) < len(best):
                best = sorted(nodes)
        return sorted(self.at.nodes) if best is None else best

    @cached_property
    def _plugin_nodes(self) -> dict[str, tuple[str, ...]]:
        by: defaultdict[str, list[str]] = defaultdict(list)
        for name, node in self.at.nodes.items():
            for resource, text in node.allocatable.items():
                if "/" in resource and count(text) > 0:
                    by[resource].append(name)
        return {resource: tuple(found) for resource, found in by.items()}

    def _row(
        self,
        node: str,
        resource: str,
        movers: list[tuple[PodUse, tuple[Need, ...]]],
        left: list[tuple[PodUse, tuple[Need, ...]]],
        doubts: Mapping[tuple[str, str], tuple[str, ...]],
        bare: list[PodUse],
    ) -> CapacityRow:
        concerned = [(pod, need) for pod, needs in movers for need in needs if _called(need, resource)]
        outlook = self._outlook(concerned)
        reasons = []
        for why, found in sorted(outlook.closed.items()):
            nodes = {name: n for name, n in found.items() if name != node}
            if nodes:
                reasons.append(
                    tr("{n} free on {nodes} {why}", n=sum(nodes.values()), nodes=names(nodes), why=why)
                )
        waiting = {
            (pod.namespace, pod.name) for pod, needs in left if any(_called(n, resource) for n in needs)
        }
        doubted = {(pod.namespace, pod.name) for pod, _ in concerned} & set(doubts)
        if any(self.constraints(pod) for pod, _ in concerned if (pod.namespace, pod.name) in waiting):
            reasons.append(tr("the claims' constraints must hold for all their devices together"))
        stopped = dict.fromkeys(
            stop.text
            for pod, _ in concerned
            if (pod.namespace, pod.name) in waiting
            for stop in self.stops(pod, out=node)
            if stop.certain
        )
        if stopped:
            reasons.append(
                tr("the scheduler gives up on the Pod with an error ({why})", why=", ".join([*stopped][:3]))
            )
        if bare:
            reasons.append(
                trn(
                    "{n} Pod without a controller does not come back",
                    "{n} Pods without a controller do not come back",
                    n=len(bare),
                )
            )
        if doubted:
            words = dict.fromkeys(word for name in sorted(doubted) for word in doubts[name])
            reasons.append(
                trn(
                    "cannot tell for {n} Pod: {what}",
                    "cannot tell for {n} Pods: {what}",
                    n=len(doubted),
                    what=", ".join(words),
                )
            )
        return CapacityRow(
            node=node,
            resource=resource,
            displaced=_displaced(concerned),
            free_elsewhere=outlook.total - outlook.open.get(node, 0),
            pending=len(waiting),
            undecided=len(doubted),
            why="; ".join(reasons),
            pods=tuple(sorted({f"{pod.namespace}/{pod.name}" for pod, _ in concerned})),
        )

    def _outlook(self, concerned: list[tuple[PodUse, Need]]) -> _Outlook:
        """Free devices by node for these Pods together, in reach or not; made once for Pods and needs of one kind."""
        kinds = {(_shape(pod), _kind(need)): (pod, need) for pod, need in concerned}
        key = frozenset(kinds)
        found = self._outlooks.get(key)
        if found is not None:
            return found
        reach: dict[str, int] = {}
        closed: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for pod, need in kinds.values():
            obstacles = self.obstacles(pod)
            for name in self._candidates((need,)):
                amount = max(self.available(name, option) for option in (need, *need.others))
                if not amount:
                    continue
                why = obstacles.get(name, tr("not among the nodes read"))
                if why:
                    closed[why][name] = max(amount, closed[why].get(name, 0))
                else:
                    reach[name] = max(amount, reach.get(name, 0))
        found = self._outlooks[key] = _Outlook(
            open=reach,
            total=sum(reach.values()),
            closed={
                why: left
                for why, nodes in closed.items()
                if (left := {name: n for name, n in nodes.items() if name not in reach})
            },
        )
        return found


def _kept_away(device: DeviceId, need: Need, state: _State | None) -> bool:
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


def _kind(need: Need) -> Need:
    """The need without what tells nothing of its devices: its number, its claim and its request."""
    others = tuple(_kind(other) for other in need.others)
    return replace(need, amount=1, claim="", request="", named=False, others=others)


def _called(need: Need, resource: str) -> bool:
    return need.resource == resource and not need.admin


def _displaced(concerned: Iterable[tuple[PodUse, Need]]) -> int:
    """Devices that must be found elsewhere; those of a claim that Pods share once."""
    seen: set[tuple[str, str, str]] = set()
    total = 0
    for pod, need in concerned:
        if need.named:
            key = (pod.namespace, need.claim, need.request)
            if key in seen:
                continue
            seen.add(key)
        total += need.amount
    return total


def _left(node: Node, resource: str) -> Decimal | None:
    """What is left of a resource on a node; None where that was not read."""
    allocatable = _decimal(node.allocatable.get(resource, ""))
    if allocatable is None:
        # A node that names no such resource has none, but for one of which nothing was read.
        return Decimal(0) if node.allocatable and resource != "pods" else None
    if resource == "pods":
        return None if node.pod_count is None else allocatable - node.pod_count
    if node.requested is None:
        return None
    return allocatable - (_decimal(node.requested.get(resource, "0")) or Decimal(0))


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


def _resources(movers: Iterable[tuple[PodUse, tuple[Need, ...]]]) -> list[str]:
    return sorted({need.resource for _, needs in movers for need in needs if not need.admin})


_simulations: Final[WeakKeyDictionary[DeviceIndex, Simulation]] = WeakKeyDictionary()


def simulation_of(at: DeviceIndex) -> Simulation:
    """The simulation over an index, made once."""
    found = _simulations.get(at)
    if found is None:
        found = _simulations[at] = Simulation(at)
    return found


def simulation(ctx: Context) -> Simulation:
    """The simulation of an assessment's snapshot, made once."""
    return simulation_of(index(ctx))


def capacity_rows(ctx: Context) -> tuple[CapacityRow, ...]:
    """One node out, for every node that has Pods with devices."""
    return simulation(ctx).rows


# ------------------------------------------------------------------------------------------------------------- blast


def _budgets_of(ctx: Context) -> dict[tuple[str, str], list[DisruptionBudget]]:
    by: defaultdict[tuple[str, str], list[DisruptionBudget]] = defaultdict(list)
    for budget in ctx.snapshot.disruption_budgets:
        for pod in budget.pods:
            by[budget.namespace, pod].append(budget)
    return by


def blast_rows(ctx: Context) -> tuple[BlastRow, ...]:
    """Who holds devices, by workload; a bare Pod is its own row."""
    at = index(ctx)
    made = simulation(ctx)
    budgets = _budgets_of(ctx)
    claims_read = "resourceclaims.resource.k8s.io" in ctx.snapshot.kinds_read
    groups: defaultdict[tuple[str, str], list[PodUse]] = defaultdict(list)
    for pod in ctx.snapshot.pods:
        if pod.uses_devices and pod.node and pod.phase not in FINISHED:
            groups[pod.namespace, owner_text(pod.owner) or f"Pod/{pod.name}"].append(pod)
    rows = []
    for (namespace, owner), pods in sorted(groups.items()):
        devices = 0
        unread = False
        resources: set[str] = set()
        for pod in pods:
            held = set(at.devices_of_pod(pod))
            unread = unread or (not claims_read and bool(pod.claims) and not held)
            plugin = (
                number
                for resource, number in asked(pod).items()
                if not pod.extended_claim and made.by_plugin(pod.node, resource)
            )
            devices += len(held) + sum(plugin)
            resources.update(ask.resource for ask in pod.asks)
            for claim in at.claims_of_pod.get((pod.namespace, pod.name), ()):
                if not claim.extended_resource:
                    resources.update(
                        request.device_class for request in claim.requests if request.device_class
                    )
        guards = {b.name: b for pod in pods for b in budgets.get((pod.namespace, pod.name), ())}
        rows.append(
            BlastRow(
                owner=owner,
                namespace=namespace,
                pods=tuple(sorted(pod.name for pod in pods)),
                nodes=tuple(sorted({pod.node for pod in pods})),
                devices=None if unread else devices,
                resources=tuple(sorted(resources)),
                comes_back=comes_back(pods[0].owner),
                disruption="; ".join(_allows(budget) for _, budget in sorted(guards.items())),
            )
        )
    return tuple(rows)


def _allows(budget: DisruptionBudget) -> str:
    if budget.disruptions_allowed is None:
        return tr("budget {name}: not known what it allows", name=budget.name)
    return trn(
        "budget {name} allows {n} disruption",
        "budget {name} allows {n} disruptions",
        n=budget.disruptions_allowed,
        name=budget.name,
    )


# ---------------------------------------------------------------------------------------------------------- findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on capacity and drains."""
    yield from _node_out(ctx)
    yield from _budgets(ctx)
    yield from _bare(ctx)
    yield from _local_storage(ctx)


def _node_out(ctx: Context) -> Iterator[Finding]:
    users = [pod for pod in ctx.snapshot.pods if pod.uses_devices]
    if not users:
        return
    missing = [kind for kind in _NEEDED if kind not in ctx.snapshot.kinds_read]
    if missing:
        yield finding(
            NODE_OUT_UNKNOWN,
            tr("Not read: {kinds}; what a drain leaves Pending is not known", kinds=", ".join(missing)),
            component="devices",
        )
        return
    by: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    open_: defaultdict[str, list[CapacityRow]] = defaultdict(list)
    for row in capacity_rows(ctx):
        if row.pending:
            by[row.resource].append(row)
        elif row.undecided:
            open_[row.resource].append(row)
    yield from _undecided(open_)
    for resource, rows in sorted(by.items()):
        worst = sorted(rows, key=lambda row: (-row.pending, -row.displaced, row.node))
        shown = "; ".join(
            tr(
                "{node}: {displaced} needed elsewhere, {free} free, {pending} Pending",
                node=row.node,
                displaced=trn("{n} device", "{n} devices", n=row.displaced),
                free=row.free_elsewhere,
                pending=trn("{n} Pod", "{n} Pods", n=row.pending),
            )
            for row in worst[:4]
        )
        why = "; ".join(dict.fromkeys(part for row in worst[:4] for part in row.why.split("; ") if part))
        yield finding(
            NODE_OUT,
            trn(
                "Draining {nodes} leaves Pods Pending for {resource} ({shown})",
                "Draining one of {nodes} leaves Pods Pending for {resource} ({shown})",
                n=len(rows),
                nodes=names(row.node for row in rows),
                resource=resource,
                shown=shown,
            )
            + (f"; {why}" if why else ""),
            component="devices",
            instances=[row.node for row in rows],
            name=resource,
            evidence=[
                Evidence(
                    source="ResourceSlices, ResourceClaims, Nodes",
                    path=row.node,
                    value=tr(
                        "{displaced} needed, {free} free elsewhere, {pending} Pending",
                        displaced=trn("{n} device", "{n} devices", n=row.displaced),
                        free=row.free_elsewhere,
                        pending=trn("{n} Pod", "{n} Pods", n=row.pending),
                    ),
                    provenance="api object",
                )
                for row in rows[:20]
            ],
        )


def _undecided(rows: Mapping[str, list[CapacityRow]]) -> Iterator[Finding]:
    for resource, found in sorted(rows.items()):
        pods = sorted({pod for row in found for pod in row.pods})
        why = dict.fromkeys(part for row in found for part in row.why.split("; ") if part)
        yield finding(
            NODE_OUT_UNDECIDED,
            tr(
                "Draining one of {nodes}: devices of {resource} are free elsewhere for {pods}; {why}",
                nodes=names(row.node for row in found),
                resource=resource,
                pods=names(pods),
                why="; ".join(why),
            ),
            component="devices",
            instances=[row.node for row in found],
            name=resource,
        )


def _budgets(ctx: Context) -> Iterator[Finding]:
    pods = ctx.pods
    for budget in ctx.snapshot.disruption_budgets:
        subject = f"{budget.namespace}/{budget.name}"
        bound = sorted(
            {
                pod.node
                for name in budget.pods
                if (pod := pods.get(f"{budget.namespace}/{name}")) is not None and pod.node
            }
        )
        if not budget.observed:
            yield finding(
                BUDGET_STALE,
                tr("The status of {budget} is of an older generation", budget=subject),
                component="PodDisruptionBudget",
                name=subject,
            )
        elif budget.disruptions_allowed == 0 and (budget.expected_pods or bound):
            text = tr(
                "{budget} allows no disruption: {healthy} healthy, {desired} needed",
                budget=subject,
                healthy=tr("an unknown number")
                if budget.current_healthy is None
                else trn("{n} Pod", "{n} Pods", n=budget.current_healthy),
                desired=tr("an unknown number") if budget.desired_healthy is None else budget.desired_healthy,
            )
            if bound:
                text += "; " + trn(
                    "the drain of {nodes} hangs", "drains of {nodes} hang", n=len(bound), nodes=names(bound)
                )
            yield finding(
                BUDGET_BLOCKS,
                text,
                component="PodDisruptionBudget",
                instances=bound,
                name=subject,
                evidence=[
                    Evidence(
                        source=f"PodDisruptionBudget {subject}",
                        path="status.disruptionsAllowed",
                        value="0",
                        provenance="api object",
                    )
                ],
            )
    for (namespace, name), budgets in sorted(_budgets_of(ctx).items()):
        if len(budgets) > 1:
            yield finding(
                BUDGETS_OVERLAP,
                tr(
                    "{pod} is selected by {budgets}: it cannot be evicted",
                    pod=f"{namespace}/{name}",
                    budgets=", ".join(sorted(b.name for b in budgets)),
                ),
                component="Pod",
                name=f"{namespace}/{name}",
            )


def _bare(ctx: Context) -> Iterator[Finding]:
    # A drain takes the Pods of its node: one that waits for a node stays as it is.
    bare = [
        pod
        for pod in ctx.snapshot.pods
        if pod.node and pod.owner is None and not pod.owner_chain and pod.phase not in FINISHED
    ]
    if not bare:
        return
    using = [pod for pod in bare if pod.uses_devices]
    listed = [f"{pod.namespace}/{pod.name}" for pod in bare]
    text = trn(
        "{n} Pod has no controller and does not come back: {pods}",
        "{n} Pods have no controller and do not come back: {pods}",
        n=len(bare),
        pods=names(listed),
    )
    if using and len(bare) > 1:
        text += "; " + trn("{n} of them uses devices", "{n} of them use devices", n=len(using))
    elif using:
        text += "; " + tr("it uses devices")
    yield finding(
        BARE_PODS,
        text,
        component="Pod",
        instances=listed,
        evidence=[
            Evidence(source=f"Pod {name}", path="metadata.ownerReferences", value="", provenance="api object")
            for name in sorted(listed)[:20]
        ],
    )


def _local_storage(ctx: Context) -> Iterator[Finding]:
    found = [
        f"{pod.namespace}/{pod.name}"
        for pod in ctx.snapshot.pods
        if pod.uses_devices
        and pod.local_storage
        and pod.node
        and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
    ]
    if found:
        yield finding(
            LOCAL_STORAGE,
            trn(
                "{n} Pod with devices has emptyDir volumes: {pods}",
                "{n} Pods with devices have emptyDir volumes: {pods}",
                n=len(found),
                pods=names(found),
            ),
            component="Pod",
            instances=found,
        )
