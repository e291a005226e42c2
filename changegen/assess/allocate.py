"""Which devices of a node a Pod's requests would get: the search of the scheduler's allocator, in short. Pure.

Of every request the devices are tried in order, with going back where a later one finds none. What is looked at: devices
in use, taints, `count` and `All`, alternatives in order, admin access (holds nothing afterwards), counters that
partitions of one device share, capacity that several claims share, the attributes that a claim's constraints match, and
how many devices a claim may hold.
Source: structured/internal/*/allocator_*.go, constraint.go and consumable_capacity.go of
k8s.io/dynamic-resource-allocation 0.36 and 0.37. Not looked at: compatibility groups (Alpha) and attributes that are
lists (Alpha); where they matter the answer is that it cannot be told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final

import msgspec

from changegen.assess.dra import DeviceId, DeviceIndex
from changegen.model.snapshot import Attribute, CapacityPolicy, Device, Toleration
from changegen.quantity import QuantityError, parse_quantity

__all__ = [
    "MAX_DEVICES",
    "Constraint",
    "Need",
    "Taken",
    "TooManyError",
    "allocate",
    "constraint_of",
    "counters_of",
    "holds",
    "take",
    "used_counters",
]

MOST_STEPS: Final = 4000
"""Devices that are tried before the search is given up."""
MAX_DEVICES: Final = 32
"""What one claim can hold (AllocationResultsMaxSize of k8s.io/api)."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a Pod needs of one kind."""

    resource: str
    """Extended resource or DeviceClass: what the row is called."""
    amount: int
    class_name: str = ""
    """Empty: only a device plugin can serve it."""
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    extended: bool = False
    everything: bool = False
    """Mode All: every device of the kind that the node has, at least one."""
    admin: bool = False
    """Admin access: devices in use do as well, and nothing is held afterwards. Counters must have room all the same."""
    capacity: tuple[tuple[str, str], ...] = ()
    """What it asks of each capacity: name as written, quantity."""
    claim: str = ""
    """Name of the claim, or of the Pod's entry for it; empty: the scheduler's for extended resources."""
    named: bool = False
    """The claim is there by itself and several Pods may share it."""
    request: str = ""
    """Name in the claim; `request/alternative` of an alternative."""
    others: tuple[Need, ...] = ()
    """Alternatives that are tried after this one, in order."""


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of these requests have the same value of an attribute, or each another one."""

    claim: str
    attribute: str
    requests: frozenset[str] = frozenset()
    """Empty: all of the claim."""
    distinct: bool = False

    def concerns(self, need: Need) -> bool:
        """Whether the devices of a request fall under it."""
        if need.claim != self.claim:
            return False
        return not self.requests or bool({need.request, need.request.partition("/")[0]} & self.requests)


class TooManyError(Exception):
    """The search was given up: whether there is a set of devices cannot be told."""


class Taken(msgspec.Struct):
    """What is taken beside what claims hold already."""

    devices: set[DeviceId] = msgspec.field(default_factory=set)
    counters: defaultdict[tuple[str, str, str], Decimal] = msgspec.field(
        default_factory=lambda: defaultdict(Decimal)
    )
    """(driver, pool, `set/counter`) -> amount."""
    consumed: defaultdict[tuple[DeviceId, str], Decimal] = msgspec.field(
        default_factory=lambda: defaultdict(Decimal)
    )
    """Device and capacity -> amount."""
    shared: set[DeviceId] = msgspec.field(default_factory=set)
    """Devices that several claims may hold and of which this took a share: their counters count once."""


Choice = tuple[Need, DeviceId]


def constraint_of(claim: str, text: str) -> Constraint | None:
    """A constraint as the snapshot keeps it (`match ATTRIBUTE of r1,r2`); None where it has another form."""
    kind, _, rest = text.partition(" ")
    attribute, _, of = rest.partition(" of ")
    if kind not in {"match", "distinct"} or not attribute:
        return None
    requests = frozenset() if of in {"", "*"} else frozenset(of.split(","))
    return Constraint(claim=claim, attribute=attribute, requests=requests, distinct=kind == "distinct")


def _amount(text: str) -> Decimal | None:
    try:
        return parse_quantity(text).key
    except QuantityError:
        return None


def counters_of(device: Device) -> Iterable[tuple[str, Decimal]]:
    """What a device draws from the counters of its pool: `set/counter`, amount."""
    for text in device.consumes_counters:
        name, _, value = text.rpartition("=")
        amount = _amount(value)
        if amount is not None:
            yield name, amount


def used_counters(at: DeviceIndex) -> dict[tuple[str, str, str], Decimal]:
    """What allocated devices draw from the counters of their pools."""
    used: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for key, device in at.devices.items():
        if device.consumes_counters and at.allocated(key):
            for name, amount in counters_of(device):
                used[key.driver, key.pool, name] += amount
    return dict(used)


def _consumption(value: Decimal, asked: Decimal | None, policy: CapacityPolicy | None) -> Decimal | None:
    """What a request takes of one capacity; None where the policy refuses it."""
    if policy is None:
        return value if asked is None else asked
    if asked is None:
        default = _amount(policy.default) if policy.default else None
        return value if default is None else default
    allowed = [amount for text in policy.values if (amount := _amount(text)) is not None]
    if allowed:
        return next((amount for amount in sorted(allowed) if asked <= amount), None)
    low, high, step = (
        _amount(text) if text else None for text in (policy.minimum, policy.maximum, policy.step)
    )
    taken = asked
    if low is not None:
        if asked < low:
            taken = low
        elif step:
            taken = low + ((asked - low) / step).to_integral_value(rounding=ROUND_CEILING) * step
    return None if high is not None and taken > high else taken


def take(key: DeviceId, device: Device, need: Need) -> dict[str, Decimal] | None:
    """What a request takes of each capacity of a device; None where the device lacks one, or its policy refuses."""
    asked: dict[str, Decimal] = {}
    for name, text in need.capacity:
        full = name if "/" in name else f"{key.driver}/{name}"
        amount = _amount(text)
        if full not in device.capacity or amount is None:
            return None
        asked[full] = amount
    taken: dict[str, Decimal] = {}
    for name, text in device.capacity.items():
        value = _amount(text)
        if value is None:
            continue
        policy = device.capacity_policies.get(name)
        amount = _consumption(value, asked.get(name), policy)
        if amount is None or amount > value:
            return None
        taken[name] = amount
    return taken


def _same(one: Attribute, other: Attribute) -> bool:
    return one.type == other.type and one.value == other.value and one.values == other.values


def holds(constraint: Constraint, chosen: Iterable[Choice], at: DeviceIndex) -> bool:
    """Whether devices satisfy a constraint; one without the attribute never does."""
    values = []
    for need, key in chosen:
        if constraint.concerns(need):
            device = at.devices[key]
            attribute = device.attributes.get(constraint.attribute)
            if attribute is None:
                return False
            values.append(attribute)
    if constraint.distinct:
        return not any(_same(a, b) for n, a in enumerate(values) for b in values[n + 1 :])
    return all(_same(values[0], value) for value in values[1:])


class _Search:
    def __init__(
        self,
        at: DeviceIndex,
        candidates: Mapping[Need, Sequence[DeviceId]],
        constraints: Sequence[Constraint],
        taken: Taken,
        limits: Mapping[tuple[str, str, str], Decimal],
        in_use: frozenset[DeviceId],
    ) -> None:
        self.at = at
        self.candidates = candidates
        self.constraints = constraints
        self.limits = limits
        self.in_use = in_use
        self.taken = Taken(
            devices=set(taken.devices),
            counters=defaultdict(Decimal, taken.counters),
            consumed=defaultdict(Decimal, taken.consumed),
            shared=set(taken.shared),
        )
        self.chosen: list[Choice] = []
        self.borrowed: list[_Undo] = []
        self.steps = 0

    def run(self, needs: Sequence[Need]) -> bool:
        if not needs:
            return True
        first, rest = needs[0], needs[1:]
        held = sum(other.claim == first.claim for other, _ in self.chosen)
        for need in (first, *first.others):
            found = self.candidates[need]
            amount = _number(need, found)
            if held + amount > MAX_DEVICES:
                continue
            if amount and amount <= len(found) and self._some(need, amount, 0, rest):
                return True
        return False

    def _some(self, need: Need, missing: int, start: int, rest: Sequence[Need]) -> bool:
        if not missing:
            return self.run(rest)
        found = self.candidates[need]
        for place in range(start, len(found) - missing + 1):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooManyError
            undo = self._take(need, found[place])
            if undo is None:
                if need.everything:
                    return False
                continue
            if self._some(need, missing - 1, place + 1, rest):
                return True
            self._give_back(undo)
            if need.everything:
                return False
        return False

    def _barred(self, need: Need, key: DeviceId) -> bool:
        """Whether a device that one claim at a time may hold is taken already, as far as the request minds."""
        if need.admin:
            return any(other.claim == need.claim and taken == key for other, taken in self.chosen)
        return key in self.taken.devices or any(taken == key for _, taken in self.chosen)

    def _take(self, need: Need, key: DeviceId) -> _Undo | None:
        device = self.at.devices[key]
        shared = device.allow_multiple_allocations
        if not shared and self._barred(need, key):
            return None
        amounts = take(key, device, need)
        if amounts is None:
            return None
        if shared and any(
            self.taken.consumed[key, name] + amount > self._whole(device, name)
            for name, amount in amounts.items()
        ):
            return None
        counters = []
        if not (shared and (key in self.taken.shared or key in self.in_use)):
            counters = [((key.driver, key.pool, name), amount) for name, amount in counters_of(device)]
            if any(
                self.taken.counters[name] + amount > self.limits.get(name, Decimal(0))
                for name, amount in counters
            ):
                return None
        self.chosen.append((need, key))
        if not all(holds(c, self.chosen, self.at) for c in self.constraints if c.concerns(need)):
            self.chosen.pop()
            return None
        undo = _Undo(key=key, counters=counters, new_share=shared and key not in self.taken.shared)
        if shared:
            undo.consumed = list(amounts.items())
            self.taken.shared.add(key)
        elif not need.admin:
            self.taken.devices.add(key)
            undo.exclusive = True
        for name, amount in undo.consumed:
            self.taken.consumed[key, name] += amount
        for counter, amount in counters:
            self.taken.counters[counter] += amount
        if need.admin:
            self.borrowed.append(undo)
        return undo

    def settle(self) -> None:
        """Give back what requests with admin access took: they hold nothing of it once their claim is allocated."""
        for undo in self.borrowed:
            self._return(undo)

    @staticmethod
    def _whole(device: Device, name: str) -> Decimal:
        return _amount(device.capacity[name]) or Decimal(0)

    def _give_back(self, undo: _Undo) -> None:
        self.chosen.pop()
        if self.borrowed and self.borrowed[-1] is undo:
            self.borrowed.pop()
        self._return(undo)

    def _return(self, undo: _Undo) -> None:
        if undo.exclusive:
            self.taken.devices.discard(undo.key)
        if undo.new_share:
            self.taken.shared.discard(undo.key)
        for name, amount in undo.consumed:
            self.taken.consumed[undo.key, name] -= amount
        for counter, amount in undo.counters:
            self.taken.counters[counter] -= amount


def _number(need: Need, found: Sequence[DeviceId]) -> int:
    return len(found) if need.everything else need.amount


def _too_many(needs: Sequence[Need], candidates: Mapping[Need, Sequence[DeviceId]]) -> bool:
    """Whether a claim would hold too many devices even with the smallest of its alternatives."""
    least: Counter[str] = Counter()
    for need in needs:
        least[need.claim] += min(_number(option, candidates[option]) for option in (need, *need.others))
    return any(number > MAX_DEVICES for number in least.values())


class _Undo(msgspec.Struct):
    key: DeviceId
    exclusive: bool = False
    new_share: bool = False
    consumed: list[tuple[str, Decimal]] = msgspec.field(default_factory=list)
    counters: list[tuple[tuple[str, str, str], Decimal]] = msgspec.field(default_factory=list)


def allocate(
    at: DeviceIndex,
    needs: Sequence[Need],
    candidates: Mapping[Need, Sequence[DeviceId]],
    *,
    constraints: Sequence[Constraint] = (),
    taken: Taken,
    limits: Mapping[tuple[str, str, str], Decimal],
    in_use: frozenset[DeviceId] = frozenset(),
) -> tuple[Taken, list[Choice]] | None:
    """Devices that satisfy all needs together, with what is taken then; None where there are none.

    Args:
        at: The index.
        needs: What is needed, alternatives within each.
        candidates: Devices that would do for each need and alternative, in the order in which they are tried.
        constraints: Of the claims.
        taken: What is taken already; not changed.
        limits: What the counters of the pools have; what claims hold of them is in `taken`.
        in_use: Shared devices of which a claim holds a share: their counters are drawn already.

    Raises:
        TooManyError: Too many combinations were tried.
    """
    if _too_many(needs, candidates):
        return None
    search = _Search(at, candidates, constraints, taken, limits, in_use)
    if not search.run(list(needs)):
        return None
    search.settle()
    return search.taken, search.chosen
