"""The simulation: which Pods find devices elsewhere when a node, or devices, are out. Pure.

It takes one node out, deletes its Pods that use devices, and gives each Pod that something makes again the first node where
it fits, with devices that satisfy its claims together. What a snapshot cannot judge (affinity between Pods, spreading,
volumes, host ports, requests that were not read) makes the answer "cannot tell". It is an estimate: Pods without devices
that leave the same node take room too, nobody is preempted, and the scheduler may choose other nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from changegen.assess.allocate import (
    MAX_DEVICES,
    Need,
    Taken,
    TooManyError,
)
from changegen.assess.context import Context, names
from changegen.assess.dra import (
    FINISHED,
    DeviceId,
    DeviceIndex,
    comes_back,
    index,
)
from changegen.assess.supply import (
    Shape,
    State,
    Supply,
    kind_of,
    left_of,
    native_requests,
    shape_of,
)
from changegen.i18n import tr, trn
from changegen.model.snapshot import (
    Claim,
    PodUse,
    TaintRule,
)
from changegen.model.ticket import CapacityRow
from changegen.quantity import count

__all__ = ["Simulation", "simulation", "simulation_of"]


class _Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Free devices for Pods of one kind."""

    open: dict[str, int]
    """Node -> devices that the Pods could get there."""
    total: int
    closed: dict[str, dict[str, int]]
    """Why not -> node -> devices."""


class Simulation(Supply):
    """Free devices of a snapshot, and what fits where."""

    def __init__(self, at: DeviceIndex) -> None:
        super().__init__(at)
        self._outlooks: dict[frozenset[tuple[Shape, Need]], _Outlook] = {}
        self._by_needs: dict[tuple[Need, ...], list[str]] = {}

    # -- one Pod on one node -----------------------------------------------------------------------------------------

    def _fits(self, node: str, pod: PodUse, needs: tuple[Need, ...], state: State) -> bool:
        """Place a Pod on a node where it fits, and note what it takes. Raises `TooManyError`."""
        found = self.at.nodes[node]
        native = (*native_requests(pod.requests or {}), ("pods", Decimal(1)))
        for resource, amount in native:
            left = left_of(found, resource)
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

    def _devices(self, node: str, pod: PodUse, wanted: list[Need], state: State) -> Taken | None:
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
            if unread := self._unread(needs):
                doubts[pod.namespace, pod.name] = (*unread, *doubt)
            elif placed is False:
                left.append((pod, needs))
            elif doubt:
                doubts[pod.namespace, pod.name] = doubt
        bare = [pod for pod in here if not comes_back(pod.owner)]
        return tuple(self._row(node, resource, movers, left, doubts, bare) for resource in _resources(movers))

    def _unread(self, needs: tuple[Need, ...]) -> tuple[str, ...]:
        """What was not read whole of that which decides on needs that ResourceSlices meet."""
        if all(need.extended and not need.class_name for need in needs):
            return ()
        read = self.at.snapshot.kinds_read
        missing = [
            name
            for name in ("ResourceSlices", "ResourceClaims")
            if f"{name.lower()}.resource.k8s.io" not in read
        ]
        return (tr("{kinds}, which were not read whole", kinds=", ".join(missing)),) if missing else ()

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
            for resource, amount in (*native_requests(pod.requests or {}), ("pods", Decimal(1))):
                state.native[pod.node, resource] -= amount
        movers = [(pod, needs) for pod in pods if comes_back(pod.owner) and (needs := self.needs(pod))]
        movers.sort(key=lambda pair: (-sum(n.amount for n in pair[1]), pair[0].namespace, pair[0].name))
        left: list[PodUse] = []
        doubts: dict[tuple[str, str], tuple[str, ...]] = {}
        for pod, needs in movers:
            placed, doubt = self._place(pod, needs, state, "")
            if unread := self._unread(needs):
                doubts[pod.namespace, pod.name] = (*unread, *doubt)
            elif not placed:
                left.append(pod)
            elif doubt:
                doubts[pod.namespace, pod.name] = doubt
        return tuple(left), doubts

    def _place(
        self, pod: PodUse, needs: tuple[Need, ...], state: State, out: str
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
                why = self._obstacle(self.at.nodes[candidate], shape_of(pod), full=False)
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
        if place.requested is None and native_requests(pod.requests or {}):
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
        key = tuple(kind_of(need) for need in needs)
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
        kinds = {(shape_of(pod), kind_of(need)): (pod, need) for pod, need in concerned}
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
