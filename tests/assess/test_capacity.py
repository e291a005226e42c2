"""What is left when one node is out, and what a drain meets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.assess.capacity import blast_rows, capacity_rows
from changegen.assess.drivers import pool_rows
from changegen.model.snapshot import (
    AllocatedDevice,
    Attribute,
    CapacityPolicy,
    ClaimTemplate,
    ClaimUse,
    Device,
    DeviceRequest,
    DisruptionBudget,
    NodeRequirement,
    NodeTaint,
    NodeTerm,
    Pool,
    ResourceAsk,
    Snapshot,
    Toleration,
)
from changegen.model.ticket import CapacityRow
from tests.assess.build import context, node, of, run, with_fields
from tests.assess.gpus import DRIVER, RESOURCE, claim, gpus, holding, pool, rule, tainted, user

NUMA = "resource.kubernetes.io/numaNode"
ONLY = NodeTaint(key="example.com/gpu-only", value="true", effect="NoSchedule")


replace = msgspec.structs.replace


def rows(snapshot: Snapshot) -> dict[str, CapacityRow]:
    return {row.node: row for row in capacity_rows(context(snapshot))}


def three(**third: Any) -> Snapshot:
    """n1 full, one device free on n2, two on n3."""
    return gpus(
        pool("n1"),
        pool("n2"),
        pool("n3"),
        holding("a", "n1", "gpu-0", "n1"),
        holding("b", "n1", "gpu-1", "n1"),
        holding("c", "n2", "gpu-0", "n2"),
        node("n1"),
        node("n2"),
        node("n3", **third),
    )


def test_everything_fits_where_devices_are_free() -> None:
    found = rows(three())["n1"]
    assert (found.displaced, found.free_elsewhere, found.pending) == (2, 3, 0)
    assert found.resource == RESOURCE
    assert found.pods == ("ml/a", "ml/b")


@pytest.mark.parametrize(
    ("third", "why"),
    [
        ({"taints": (ONLY,)}, "behind node taint example.com/gpu-only=true:NoSchedule"),
        ({"unschedulable": True}, "cordoned"),
        ({"ready": False}, "not ready"),
    ],
)
def test_devices_out_of_reach_leave_pods_pending_and_the_reason_is_told(
    third: dict[str, Any], why: str
) -> None:
    found = rows(three(**third))
    assert (found["n1"].free_elsewhere, found["n1"].pending) == (1, 1)
    assert (found["n2"].free_elsewhere, found["n2"].pending) == (0, 1)
    assert f"2 free on n3 {why}" in found["n1"].why


def test_a_taint_that_the_pods_tolerate_or_that_only_prefers_is_no_obstacle() -> None:
    soft = NodeTaint(key="example.com/gpu-only", effect="PreferNoSchedule")
    assert rows(three(taints=(soft,)))["n1"].pending == 0
    pods = [
        holding(name, "n1", f"gpu-{at}", "n1", tolerations=(Toleration(key=ONLY.key, operator="Exists"),))
        for at, name in enumerate("ab")
    ]
    found = rows(gpus(pool("n1"), pool("n3"), *pods, node("n1"), node("n3", taints=(ONLY,))))
    assert found["n1"].pending == 0


def test_a_node_selector_keeps_pods_away() -> None:
    pods = holding("a", "n1", "gpu-0", "n1", node_selector={"pool": "a"})
    away = gpus(
        pool("n1"), pool("n2"), pods, node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"})
    )
    near = gpus(
        pool("n1"), pool("n2"), pods, node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "a"})
    )
    assert rows(away)["n1"].pending == 1
    assert "pool=a" in rows(away)["n1"].why
    assert rows(near)["n1"].pending == 0


def test_tainted_devices_are_not_free() -> None:
    pods = holding("a", "n1", "gpu-0", "n1")
    assert rows(gpus(pool("n1"), pool("n2", each=tainted()), pods))["n1"].pending == 1
    assert rows(gpus(pool("n1"), pool("n2", each=tainted("None")), pods))["n1"].pending == 0
    ruled = gpus(pool("n1"), pool("n2"), pods, rule(DRIVER, "n2", effect="NoSchedule"))
    assert rows(ruled)["n1"].pending == 1


def test_a_pod_needs_all_its_devices_on_one_node() -> None:
    big = (
        user("a", wants=2, claim="a-extended-resources"),
        claim("a-extended-resources", ("n1", "gpu-0"), ("n1", "gpu-1"), pods=("a",), extended_resource=True),
    )
    spread = gpus(pool("n1"), pool("n2", 1), pool("n3", 1), big)
    together = gpus(pool("n1"), pool("n2", 2), big)
    assert rows(spread)["n1"].pending == 1
    assert rows(spread)["n1"].free_elsewhere == 2
    assert rows(together)["n1"].pending == 0


def test_bare_pods_do_not_come_back_and_are_not_counted() -> None:
    found = rows(
        gpus(pool("n1"), holding("a", "n1", "gpu-0", "n1"), holding("b", "n1", "gpu-1", "n1", owner=None))
    )
    assert found["n1"].displaced == 1
    assert "1 Pod without a controller does not come back" in found["n1"].why


def test_daemon_sets_stay_and_finished_pods_hold_no_place() -> None:
    daemon = holding("a", "n1", "gpu-0", "n1", owner="DaemonSet/agent")
    done = holding("b", "n1", "gpu-1", "n1", phase="Succeeded")
    assert rows(gpus(pool("n1"), daemon, done)) == {}


def test_a_device_plugin_is_counted_by_allocatable() -> None:
    def plugin(free: str) -> Snapshot:
        return gpus(
            user("a", "n1", wants=1),
            user("b", "n2", wants=1),
            node("n1", allocatable={RESOURCE: "2"}),
            node("n2", allocatable={RESOURCE: free}),
            device_classes=(),
        )

    assert rows(plugin("2"))["n1"].pending == 0
    assert rows(plugin("1"))["n1"].pending == 1


def test_where_a_plugin_serves_a_name_its_class_does_not() -> None:
    mixed = gpus(
        pool("n1"),
        pool("n2"),
        holding("a", "n1", "gpu-0", "n1"),
        user("b", "n2", wants=1),
        node("n1"),
        node("n2", allocatable={RESOURCE: "1"}),
    )
    assert rows(mixed)["n1"].pending == 1


def test_claims_of_templates_and_named_ones_are_needs_too() -> None:
    request = (DeviceRequest(name="r", device_class=DRIVER, count=1),)
    templated = user("a", "n1", claims=(ClaimUse(pod_claim="gpu", template="t"),))
    template = ClaimTemplate(namespace="ml", name="t", requests=request)
    assert rows(gpus(pool("n1"), templated, claim_templates=(template,)))["n1"].pending == 1
    assert rows(gpus(pool("n1"), pool("n2"), templated, claim_templates=(template,)))["n1"].pending == 0


def test_of_alternatives_the_first_names_the_row() -> None:
    requests = (
        DeviceRequest(name="r/a", device_class=DRIVER, count=1, alternative_of="r"),
        DeviceRequest(name="r/b", device_class=DRIVER, count=4, alternative_of="r"),
    )
    pods = user("a", claim="mine")
    found = rows(
        gpus(pool("n1"), pool("n2"), pods, claim("mine", ("n1", "gpu-0"), pods=("a",), requests=requests))
    )
    assert found["n1"].displaced == 1


def test_devices_of_no_single_node_serve_any_node() -> None:
    pods = holding("a", "n1", "gpu-0", "n1")
    fabric = pool("fabric", 1, on="")
    assert rows(gpus(pool("n1"), fabric, pods, node("n1"), node("n2")))["n1"].pending == 0


def test_shared_devices_are_never_used_up() -> None:
    shared = pool("n2", 1, each={"allow_multiple_allocations": True})
    snapshot = gpus(pool("n1"), shared, holding("a", "n1", "gpu-0", "n1"), holding("b", "n1", "gpu-1", "n1"))
    assert rows(snapshot)["n1"].pending == 0


# ------------------------------------------------------------------------------------- what decides beside the devices


def one_moves(second: dict[str, Any] | None = None, **pod: Any) -> CapacityRow:
    """One Pod with a device on n1, two free devices on n2."""
    fields = {"requests": {}, **pod}
    snapshot = gpus(
        pool("n1"),
        pool("n2"),
        holding("a", "n1", "gpu-0", "n1", **fields),
        node("n1"),
        node("n2", **(second or {})),
    )
    return rows(snapshot)["n1"]


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (NodeTerm(labels=(NodeRequirement(key="pool", operator="In", values=("a", "b")),)), True),
        (NodeTerm(labels=(NodeRequirement(key="pool", operator="NotIn", values=("b",)),)), False),
        (NodeTerm(labels=(NodeRequirement(key="pool", operator="Exists"),)), True),
        (NodeTerm(labels=(NodeRequirement(key="pool", operator="DoesNotExist"),)), False),
        (NodeTerm(labels=(NodeRequirement(key="gpus", operator="Gt", values=("1",)),)), True),
        (NodeTerm(labels=(NodeRequirement(key="gpus", operator="Lt", values=("2",)),)), False),
        (NodeTerm(fields=(NodeRequirement(key="metadata.name", operator="In", values=("n2",)),)), True),
        (NodeTerm(fields=(NodeRequirement(key="metadata.name", operator="In", values=("n1",)),)), False),
        (NodeTerm(), False),
    ],
)
def test_required_node_affinity(term: NodeTerm, fits: bool) -> None:
    found = one_moves({"labels": {"pool": "b", "gpus": "2"}}, required_nodes=(term,))
    assert found.pending == (0 if fits else 1)
    assert ("2 free on n2 not taken by the required node affinity" in found.why) is not fits
    # Terms are alternatives.
    assert one_moves({"labels": {"pool": "b"}}, required_nodes=(NodeTerm(), term_of("pool"))).pending == 0


def term_of(key: str) -> NodeTerm:
    return NodeTerm(labels=(NodeRequirement(key=key, operator="Exists"),))


ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("wanted", "requested", "pods", "why"),
    [
        ({"cpu": "4", "memory": "8Gi"}, {"cpu": "4", "memory": "24Gi"}, 1, ""),
        ({"cpu": "4500m"}, {"cpu": "4"}, 1, "with less than 4.5 of cpu left"),
        ({"memory": "9Gi"}, {"memory": "24Gi"}, 1, "with less than 9Gi of memory left"),
        ({"hugepages-1Gi": "1Gi"}, {}, 1, "with less than 1Gi of hugepages-1Gi left"),
        ({"cpu": "1"}, {}, 110, "with as many Pods as it may run"),
        ({"cpu": "1"}, {}, 109, ""),
    ],
)
def test_cpu_memory_and_places_of_the_other_nodes(
    wanted: dict[str, str], requested: dict[str, str], pods: int, why: str
) -> None:
    other = {"allocatable": ROOM, "requested": requested, "pod_count": pods}
    found = one_moves(other, requests=wanted)
    assert (found.pending, found.undecided) == (1 if why else 0, 0)
    assert why in found.why


def test_pods_that_move_take_room_from_each_other() -> None:
    def both(cpu: str) -> CapacityRow:
        pods = [holding(n, "n1", f"gpu-{at}", "n1", requests={"cpu": cpu}) for at, n in enumerate("ab")]
        other = node("n2", allocatable=ROOM, requested={}, pod_count=0)
        return rows(gpus(pool("n1"), pool("n2"), *pods, node("n1"), other))["n1"]

    assert both("4").pending == 0
    assert both("5").pending == 1


def test_what_was_not_read_makes_no_verdict() -> None:
    unread = one_moves({"allocatable": ROOM}, requests={"cpu": "1"})
    assert (unread.pending, unread.undecided) == (0, 1)
    assert (
        "cannot tell for 1 Pod: what other Pods request of CPU and memory, which was not read" in unread.why
    )
    old = one_moves(requests=None)
    assert (old.pending, old.undecided) == (0, 1)
    assert (one_moves({"allocatable": ROOM}).undecided, one_moves().undecided) == (0, 0)
    # What cannot be anyway needs no more reading.
    full = gpus(pool("n1"), holding("a", "n1", "gpu-0", "n1", requests=None), node("n1"), node("n2"))
    assert (rows(full)["n1"].pending, rows(full)["n1"].undecided) == (1, 0)


@pytest.mark.parametrize("kind", ["ResourceSlices", "ResourceClaims"])
def test_no_device_is_missed_where_not_all_were_read(kind: str) -> None:
    """A slice that is not there may be one that was not read; a device that seems free may be held."""
    full = gpus(pool("n1"), holding("a", "n1", "gpu-0", "n1"), node("n1"), node("n2"))
    assert (rows(full)["n1"].pending, rows(full)["n1"].undecided) == (1, 0)
    read = tuple(k for k in full.kinds_read if k != f"{kind.lower()}.resource.k8s.io")
    blind = rows(replace(full, kinds_read=read))["n1"]
    assert (blind.pending, blind.undecided) == (0, 1)
    assert f"cannot tell for 1 Pod: {kind}, which were not read whole" in blind.why


@pytest.mark.parametrize(
    "what", ["pod affinity", "pod anti-affinity", "topology spread", "volume claims", "host ports"]
)
def test_what_a_snapshot_cannot_judge_is_said(what: str) -> None:
    found = one_moves(other_constraints=(what,))
    assert (found.pending, found.undecided) == (0, 1)
    assert f"cannot tell for 1 Pod: {what}" in found.why


def test_what_cannot_be_told_is_a_finding_of_its_own() -> None:
    def move(free: int, **pod: Any) -> Snapshot:
        pods = holding("a", "n1", "gpu-0", "n1", requests={}, **pod)
        return gpus(pool("n1"), pool("n2", free), pods, node("n1"), node("n2"))

    doubtful = run(move(1, other_constraints=("volume claims",)))
    assert [item.severity for item in of(doubtful, "CG-CAP-003")] == ["info"]
    assert not of(doubtful, "CG-CAP-001")
    assert not of(run(move(1)), "CG-CAP-003")
    lost = run(move(0, other_constraints=("volume claims",)))
    assert of(lost, "CG-CAP-001")
    assert not of(lost, "CG-CAP-003")


def test_devices_of_an_init_container_are_used_again() -> None:
    asks = (
        ResourceAsk(container="init", resource=RESOURCE, quantity="2"),
        ResourceAsk(container="c", resource=RESOURCE, quantity="1"),
    )
    found = one_moves(asks=asks, requests={RESOURCE: "2"})
    assert (found.displaced, found.pending) == (2, 0)
    assert one_moves(asks=asks, requests={RESOURCE: "3"}).pending == 1


# ------------------------------------------------------------------------------------------ claims, and devices in parts


def claiming(
    name: str, *requests: DeviceRequest, constraints: tuple[str, ...] = (), **more: Any
) -> tuple[Any, ...]:
    """A Pod on n1 that holds gpu-0 there by a template's claim with these requests."""
    made = claim(
        f"{name}-x", ("n1", "gpu-0"), pods=(name,), requests=requests, constraints=constraints, template="gpu"
    )
    use = (ClaimUse(pod_claim="gpu", claim=f"{name}-x", template="t"),)
    return user(name, "n1", claims=use, **{"requests": {}, **more}), made


def request(count: int | None = 1, name: str = "r", **more: Any) -> DeviceRequest:
    mode = "All" if count is None else "ExactCount"
    return DeviceRequest(name=name, device_class=DRIVER, count=count, mode=mode, **more)


def parts_of(name: str, *uses: str, counters: str = "80Gi") -> Pool:
    """A pool whose devices draw memory from one counter."""
    devices = tuple(
        Device(name=f"gpu-{n}", node=name, consumes_counters=(f"card/memory={text}",))
        for n, text in enumerate(uses)
    )
    return with_fields(pool(name, 0), devices=devices, shared_counters=(f"card/memory={counters}",))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("held", "free", "pending"), [("40Gi", 1, 0), ("80Gi", 0, 1), ("60Gi", 0, 1)])
def test_partitions_of_one_device_share_its_counters(held: str, free: int, pending: int) -> None:
    # n2 has one partition in use; whether a second of 40Gi fits beside it is for the counter to say.
    other = holding("b", "n2", "gpu-0", "n2", requests={})
    snapshot = gpus(
        pool("n1"), parts_of("n2", held, "40Gi"), holding("a", "n1", "gpu-0", "n1", requests={}), other
    )
    found = rows(snapshot)["n1"]
    assert (found.free_elsewhere, found.pending) == (free, pending)


def test_of_partitions_only_as_many_are_free_as_their_counters_allow() -> None:
    pods = [holding(n, "n1", f"gpu-{at}", "n1", requests={}) for at, n in enumerate("ab")]
    few = rows(gpus(pool("n1"), parts_of("n2", "50Gi", "50Gi"), *pods))["n1"]
    assert (few.free_elsewhere, few.pending) == (1, 1)
    many = rows(gpus(pool("n1"), parts_of("n2", "40Gi", "40Gi"), *pods))["n1"]
    assert (many.free_elsewhere, many.pending) == (2, 0)


def shared_nic(consumed: str, policy: CapacityPolicy | None = None) -> tuple[Any, ...]:
    """A device on n2 that claims share by bandwidth, of which a claim has some."""
    key = f"{DRIVER}/bandwidth"
    nic = Device(
        name="gpu-0",
        node="n2",
        allow_multiple_allocations=True,
        capacity={key: "10G"},
        capacity_policies={key: policy} if policy is not None else {},
    )
    held = claim("held", pods=("b",), allocated=True)
    share = AllocatedDevice(
        request="r", driver=DRIVER, pool="n2", device="gpu-0", share_id="s", consumed={"bandwidth": consumed}
    )
    return with_fields(pool("n2", 0), devices=(nic,)), with_fields(held, devices=(share,))


@pytest.mark.parametrize(
    ("consumed", "asked", "policy", "pending"),
    [
        ("6G", "4G", None, 0),
        ("6G", "5G", None, 1),
        # Without a request the default of the policy is taken, and without a policy all of it.
        ("6G", "", CapacityPolicy(default="4G"), 0),
        ("6G", "", None, 1),
        # A request is rounded up: to a step, to the least, to a value that is allowed.
        ("6G", "3500M", CapacityPolicy(minimum="1G", step="1G"), 0),
        ("6500M", "3500M", CapacityPolicy(minimum="1G", step="1G"), 1),
        ("6500M", "3500M", CapacityPolicy(minimum="1G"), 0),
        ("6G", "3G", CapacityPolicy(values=("1G", "4G")), 0),
        ("6G", "3G", CapacityPolicy(values=("1G", "8G")), 1),
        ("0", "9G", CapacityPolicy(minimum="1G", maximum="8G"), 1),
    ],
)
def test_capacity_that_claims_share(
    consumed: str, asked: str, policy: CapacityPolicy | None, pending: int
) -> None:
    wanted = request(capacity={"bandwidth": asked} if asked else {})
    snapshot = gpus(
        pool("n1", 1), *shared_nic(consumed, policy), *claiming("a", wanted), node("n1"), node("n2")
    )
    assert rows(snapshot)["n1"].pending == pending


@pytest.mark.parametrize(("version", "pending"), [("v1.36.3", 0), ("v1.37.2", 1)])
def test_all_devices_and_one_without_room_for_a_share(version: str, pending: int) -> None:
    second = Device(
        name="gpu-1", node="n2", allow_multiple_allocations=True, capacity={f"{DRIVER}/bandwidth": "10G"}
    )
    nics, held = shared_nic("6G")
    both = with_fields(nics, devices=(*nics.devices, second))
    snapshot = gpus(pool("n1", 1), both, held, *claiming("a", request(None, capacity={"bandwidth": "5G"})))
    found = with_fields(snapshot, cluster=with_fields(snapshot.cluster, server_version=version))
    assert rows(found)["n1"].pending == pending


@pytest.mark.parametrize(("rack", "pending"), [("1", 0), ("2", 1)])
def test_a_claim_that_other_pods_keep_binds_a_pod_to_nodes_that_its_devices_reach(
    rack: str, pending: int
) -> None:
    fabric = with_fields(pool("fabric", 1, on=""), node_selector="rack=1")
    held = claim("both", ("fabric", "gpu-0"), pods=("a", "b"))
    users = [user(name, on, claim="both", requests={}) for name, on in (("a", "n1"), ("b", "n2"))]
    places = [
        node("n1", labels={"rack": "1"}),
        node("n2", labels={"rack": "1"}, unschedulable=True),
        node("n3", labels={"rack": rack}),
    ]
    assert rows(gpus(fabric, held, *users, *places))["n1"].pending == pending


@pytest.mark.parametrize(("admin", "pending"), [(True, 0), (False, 1)])
def test_who_only_watches_a_device_does_not_hold_it(admin: bool, pending: int) -> None:
    fabric = with_fields(pool("fabric", 1, on=""), node_selector="all")
    user_, made = claiming("a", request())
    device = AllocatedDevice(request="r", driver=DRIVER, pool="fabric", device="gpu-0", admin_access=admin)
    mine = with_fields(made, devices=(with_fields(device, admin_access=False),))
    other = with_fields(claim("watch", pods=("b",), allocated=True), devices=(device,))
    assert rows(gpus(fabric, user_, mine, other, node("n1"), node("n2")))["n1"].pending == pending


@pytest.mark.parametrize(("holder", "pending"), [("a", 0), ("b", 1)])
def test_a_share_of_a_device_of_all_nodes_comes_free_with_its_pod(holder: str, pending: int) -> None:
    nic = Device(name="nic", allow_multiple_allocations=True, capacity={f"{DRIVER}/bandwidth": "10G"})
    fabric = with_fields(pool("fabric", 0, on=""), devices=(nic,), node_selector="all")
    share = AllocatedDevice(
        request="r", driver=DRIVER, pool="fabric", device="nic", share_id="s", consumed={"bandwidth": "6G"}
    )
    user_, made = claiming("a", request(capacity={"bandwidth": "6G"}))
    mine = with_fields(made, devices=(share,)) if holder == "a" else made
    other = with_fields(claim("held", pods=("b",), allocated=True), devices=(share,) if holder == "b" else ())
    assert rows(gpus(fabric, user_, mine, other, node("n1"), node("n2")))["n1"].pending == pending


def test_a_capacity_that_a_device_lacks() -> None:
    wanted = request(capacity={"slots": "1"})
    snapshot = gpus(pool("n1", 1), *shared_nic("0"), *claiming("a", wanted), node("n1"), node("n2"))
    assert rows(snapshot)["n1"].pending == 1


def test_admin_access_takes_nothing_and_needs_a_device_to_look_at() -> None:
    pods = claiming("a", request(), request(name="watch", admin_access=True))
    busy = holding("b", "n2", "gpu-1", "n2", requests={})
    found = rows(gpus(pool("n1"), pool("n2"), *pods, busy))["n1"]
    assert (found.displaced, found.free_elsewhere, found.pending) == (1, 1, 0)
    watcher = claiming("a", request(name="watch", admin_access=True))
    assert "n1" not in rows(gpus(pool("n1"), pool("n2"), *watcher))


def test_all_devices_means_all_of_the_node() -> None:
    pods = claiming("a", request(None))
    free = rows(gpus(pool("n1", 1), pool("n2", 3), *pods))["n1"]
    assert (free.free_elsewhere, free.pending) == (3, 0)
    one_in_use = rows(
        gpus(pool("n1", 1), pool("n2", 3), *pods, holding("b", "n2", "gpu-2", "n2", requests={}))
    )["n1"]
    assert (one_in_use.free_elsewhere, one_in_use.pending) == (0, 1)


def test_all_devices_means_those_that_are_large_enough_and_none_where_one_is_tainted() -> None:
    big, small = (
        Device(name=f"gpu-{n}", node="n2", capacity={f"{DRIVER}/memory": text})
        for n, text in enumerate(("80Gi", "40Gi"))
    )
    other = with_fields(pool("n2", 0), devices=(big, small))
    pods = claiming("a", request(None, capacity={"memory": "60Gi"}))
    assert rows(gpus(pool("n1", 1), other, *pods))["n1"].pending == 0
    kept = rule(DRIVER, "n2", device="gpu-0", effect="NoSchedule")
    assert rows(gpus(pool("n1", 1), other, *pods, kept))["n1"].pending == 1
    beside = rule(DRIVER, "n2", device="gpu-1", effect="NoSchedule")
    assert rows(gpus(pool("n1", 1), other, *pods, beside))["n1"].pending == 0


def watching(*requests: DeviceRequest) -> int:
    """Pods left Pending that ask for a device by itself and for these, where n2 has one device, a partition in use."""
    part = parts_of("n2", "40Gi", counters="60Gi")
    busy = holding("b", "n2", "gpu-0", "n2", requests={})
    free = with_fields(pool("n2-free", 1, on="n2"), name="n2-free")
    return rows(
        gpus(pool("n1"), part, free, *claiming("a", request(), *requests), busy, node("n1"), node("n2"))
    )["n1"].pending


def test_admin_access_needs_counters_and_another_device_than_its_own_claim() -> None:
    in_use = request(name="watch", admin_access=True)
    # The free device goes to the first request, and the counter has 20Gi left of the 40Gi that the partition draws.
    assert watching() == 0
    assert watching(in_use) == 1
    busy = holding("b", "n2", "gpu-1", "n2", requests={})
    both = claiming("a", request(None, name="watch", admin_access=True))
    assert rows(gpus(pool("n1"), pool("n2"), *both, *claiming("c", request()), busy))["n1"].pending == 0


@pytest.mark.parametrize(("count", "pending"), [(32, 0), (33, 1), (None, 1)])
def test_a_claim_holds_32_devices(count: int | None, pending: int) -> None:
    pods = claiming("a", request(count))
    assert rows(gpus(pool("n1"), pool("n2", 33), *pods))["n1"].pending == pending


def test_requests_of_one_claim_hold_32_devices_together() -> None:
    large = pool("n2", 40)
    one = claiming("a", request(20), request(13, "s"))
    assert rows(gpus(pool("n1"), large, *one))["n1"].pending == 1
    fits = claiming("a", request(20), request(12, "s"))
    assert rows(gpus(pool("n1"), large, *fits))["n1"].pending == 0


@pytest.mark.parametrize(
    ("request_", "broken", "where", "pending"),
    [
        (request(None), {}, "n3", 0),
        (request(None), {"complete": False}, "n3", 1),
        # One device is no matter for it, and neither is a node that may not run the Pod.
        (request(), {"complete": False}, "n3", 0),
        (request(None), {"complete": False}, "n4", 0),
    ],
)
def test_a_request_for_all_waits_for_every_pool_that_it_could_meet(
    request_: DeviceRequest, broken: dict[str, Any], where: str, pending: int
) -> None:
    other = pool(where, driver="nic.example.com", **broken)
    nodes = [node(f"n{n}") for n in (1, 2, 3)]
    cordoned = node("n4", unschedulable=True)
    found = rows(gpus(pool("n1"), pool("n2"), other, *claiming("a", request_), *nodes, cordoned))["n1"]
    assert found.pending == pending
    assert ("nic.example.com/" in found.why) is bool(pending)


def test_with_more_nodes_than_the_scheduler_tries_it_cannot_be_told_whether_all_waits() -> None:
    other = pool("n3", driver="nic.example.com", complete=False)
    nodes = [node(f"n{n}") for n in range(1, 103)]
    found = rows(gpus(pool("n1"), pool("n2"), other, *claiming("a", request(None)), *nodes))["n1"]
    assert (found.pending, found.undecided) == (0, 1)


def numbered(name: str, *values: int) -> Pool:
    each = [
        Device(name=f"gpu-{at}", node=name, attributes={NUMA: Attribute(type="int", value=value)})
        for at, value in enumerate(values)
    ]
    found: Pool = with_fields(pool(name, 0), devices=tuple(each))
    return found


@pytest.mark.parametrize(("other", "pending"), [((1, 1), 0), ((0, 1), 1), ((), 0)])
def test_a_constraint_on_all_devices_is_an_error_for_every_node_where_one_misses_it(
    other: tuple[int, ...], pending: int
) -> None:
    pods = claiming("a", request(None), constraints=(f"match {NUMA} of r",))
    found = rows(gpus(numbered("n1", 1), numbered("n2", 1, 1), numbered("n3", *other), *pods))["n1"]
    assert (found.pending, found.undecided) == (pending, 0)
    assert ("all devices of n3 do not meet a constraint" in found.why) is bool(pending)


@pytest.mark.parametrize(("other", "pending"), [(32, 0), (33, 1)])
def test_all_devices_of_one_node_that_are_too_many_keep_the_pod_from_every_node(
    other: int, pending: int
) -> None:
    found = rows(gpus(pool("n1"), pool("n2"), pool("n3", other), *claiming("a", request(None))))["n1"]
    assert found.pending == pending


def modelled(name: str, *models: str) -> Pool:
    each = [
        Device(
            name=f"gpu-{at}",
            node=name,
            attributes={f"{DRIVER}/model": Attribute(type="string", value=model)} if model else {},
        )
        for at, model in enumerate(models)
    ]
    found: Pool = with_fields(pool(name, 0), devices=tuple(each))
    return found


@pytest.mark.parametrize(
    ("selector", "other", "expected"),
    [
        # n3's device has no model: looking at it is an error, of which the Pod is placed nowhere.
        ('device.attributes["{}"].model == "a"', ("",), (1, 0)),
        ('device.attributes["{}"].model == "a"', ("b",), (0, 0)),
        ('"model" in device.attributes["{0}"] && device.attributes["{0}"].model == "a"', ("",), (0, 0)),
        # Whether it is looked at depends on which device comes first.
        ('device.attributes["{}"].model == "a"', ("a", ""), (0, 1)),
    ],
)
def test_a_selector_that_fails_on_one_device_keeps_the_pod_from_every_node(
    selector: str, other: tuple[str, ...], expected: tuple[int, int]
) -> None:
    pods = claiming("a", request(selectors=(selector.format(DRIVER),)))
    found = rows(gpus(modelled("n1", "a"), modelled("n2", "a"), modelled("n3", *other), *pods))["n1"]
    assert (found.pending, found.undecided) == expected
    assert (f"a selector fails on {DRIVER}/n3/" in found.why) is (expected != (0, 0))


@pytest.mark.parametrize(
    "devices",
    [
        (Device(name="gpu-0", node="n2"), Device(name="gpu-0", node="n2")),
        (Device(name="gpu-0", node="n2", consumes_counters=("card/memory=1",)),),
    ],
    ids=["doubled", "no-counter"],
)
def test_a_pool_that_contradicts_itself_gives_nothing(devices: tuple[Device, ...]) -> None:
    pods = holding("a", "n1", "gpu-0", "n1", requests={})
    bad = with_fields(pool("n2", 0), devices=devices)
    assert rows(gpus(pool("n1"), bad, pods))["n1"].pending == 1
    good = with_fields(pool("n2", 0), devices=devices, shared_counters=("card/memory=1",))
    both = rows(gpus(pool("n1"), good, pods))["n1"].pending
    assert both == (1 if len(devices) > 1 else 0)


@pytest.mark.parametrize(("version", "pending"), [("v1.36.3", 1), ("v1.37.2", 0)])
def test_slices_with_counters_count_everywhere_until_1_36(version: str, pending: int) -> None:
    other = pool("n9", driver="nic.example.com", complete=False, shared_counters=("card/memory=1",))
    snapshot = gpus(pool("n1"), pool("n2"), other, *claiming("a", request(None)), node("n1"), node("n2"))
    found = with_fields(snapshot, cluster=with_fields(snapshot.cluster, server_version=version))
    assert rows(found)["n1"].pending == pending


def test_devices_of_one_pool_may_reach_other_nodes_each() -> None:
    fabric = with_fields(
        pool("fabric", 0, on=""),
        devices=(
            Device(name="a", node_selector="rack=1"),
            Device(name="b", node_selector="rack=2"),
            Device(name="c", node_selector="all"),
        ),
    )

    def left(count: int) -> int:
        places = (node("n1"), node("n2", labels={"rack": "2"}))
        return rows(gpus(pool("n1"), fabric, *claiming("a", request(count)), *places))["n1"].pending

    assert (left(2), left(3)) == (0, 1)


def test_alternatives_are_tried_in_order() -> None:
    pods = claiming(
        "a",
        request(4, "r/big", alternative_of="r"),
        request(2, "r/small", alternative_of="r"),
    )
    assert rows(gpus(pool("n1"), pool("n2", 2), *pods))["n1"].pending == 0
    assert rows(gpus(pool("n1"), pool("n2", 1), *pods))["n1"].pending == 1


@pytest.mark.parametrize(
    ("numa", "match", "distinct"), [((0, 1, 1), 0, 0), ((0, 1, 2), 1, 0), ((1, 1, 1), 0, 1)]
)
def test_constraints_hold_for_all_devices_together(numa: tuple[int, ...], match: int, distinct: int) -> None:
    name = "resource.kubernetes.io/numaNode"
    devices = tuple(
        Device(name=f"gpu-{n}", node="n2", attributes={name: Attribute(type="int", value=value)})
        for n, value in enumerate(numa)
    )
    other = with_fields(pool("n2", 0), devices=devices)
    for kind, pending in (("match", match), ("distinct", distinct)):
        pods = claiming("a", request(2), constraints=(f"{kind} {name} of *",))
        found = rows(gpus(pool("n1"), other, *pods))["n1"]
        assert found.pending == pending, kind
        assert ("constraints must hold" in found.why) is bool(pending)
    # A device without the attribute satisfies no constraint on it.
    pods = claiming("a", request(2), constraints=("match no.example/such of r",))
    assert rows(gpus(pool("n1"), other, *pods))["n1"].pending == 1
    elsewhere = claiming("a", request(2), constraints=("match no.example/such of another",))
    assert rows(gpus(pool("n1"), other, *elsewhere))["n1"].pending == 0


def test_requests_of_one_claim_get_different_devices() -> None:
    pods = claiming("a", request(1, "r"), request(1, "s"))
    assert rows(gpus(pool("n1"), pool("n2", 2), *pods))["n1"].pending == 0
    assert rows(gpus(pool("n1"), pool("n2", 1), *pods))["n1"].pending == 1


def test_a_claim_that_pods_share_needs_its_devices_once_and_on_one_node() -> None:
    def team(*free: int) -> CapacityRow:
        use = (ClaimUse(pod_claim="gpu", claim="team"),)
        pods = [user(name, "n1", claims=use, requests={}) for name in "ab"]
        made = claim("team", ("n1", "gpu-0"), pods=("a", "b"))
        others = [pool(f"n{at}", n) for at, n in enumerate(free, 2)]
        return rows(gpus(pool("n1", 1), *others, *pods, made))["n1"]

    once = team(1)
    assert (once.displaced, once.pending) == (1, 0)
    assert team(0).pending == 2


def test_devices_of_no_single_node_come_free_with_their_pods_and_go_where_they_reach() -> None:
    fabric = with_fields(pool("fabric", 1, on=""), node_selector="rack=1")
    pods = holding("a", "fabric", "gpu-0", "n1", requests={})

    def to(rack: str) -> CapacityRow:
        other = node("n2", labels={"rack": rack})
        return rows(gpus(fabric, pods, node("n1", labels={"rack": "1"}), other))["n1"]

    assert to("1").pending == 0
    assert to("2").pending == 1


def test_a_pool_that_is_not_whole_gives_nothing() -> None:
    pods = holding("a", "n1", "gpu-0", "n1", requests={})
    assert rows(gpus(pool("n1"), pool("n2"), pods))["n1"].pending == 0
    assert rows(gpus(pool("n1"), pool("n2", complete=False), pods))["n1"].pending == 1


def test_a_search_without_end_is_given_up_and_said() -> None:
    # The first and the last request must have one attribute value, and every device has its own.
    name = "x.example/n"
    devices = tuple(
        Device(name=f"gpu-{n}", node="n2", attributes={name: Attribute(type="int", value=n)})
        for n in range(20)
    )
    other = with_fields(pool("n2", 0), devices=devices)

    def asked(*requests: str) -> CapacityRow:
        pods = claiming("a", *(request(1, r) for r in requests), constraints=(f"match {name} of r,z",))
        return rows(gpus(pool("n1"), other, *pods))["n1"]

    short, long = asked("r", "z"), asked("r", "s", "t", "u", "z")
    assert (short.pending, short.undecided) == (1, 0)
    assert (long.pending, long.undecided) == (0, 1)
    assert "more combinations of devices than are tried" in long.why


def test_what_claims_hold_is_not_known_where_they_were_not_read() -> None:
    use = (ClaimUse(pod_claim="gpu", claim="mine"),)
    held = user("a", "n1", claims=use)
    mine = claim("mine", ("n1", "gpu-0"), pods=("a",))
    seen, blind = context(gpus(pool("n1"), held, mine)), context(gpus(pool("n1"), held, kinds_read=("pods",)))
    assert [row.devices for row in blast_rows(seen)] == [1]
    assert [row.devices for row in blast_rows(blind)] == [None]
    assert [row.allocated for row in pool_rows(seen)] == [1]
    assert [row.allocated for row in pool_rows(blind)] == [None]


def test_who_holds_devices_by_workload() -> None:
    budget = DisruptionBudget(namespace="ml", name="train", disruptions_allowed=0, pods=("a", "b"))
    snapshot = gpus(
        pool("n1"),
        pool("n2"),
        holding("a", "n1", "gpu-0", "n1"),
        holding("b", "n2", "gpu-0", "n2"),
        holding("bare", "n1", "gpu-1", "n1", owner=None),
        disruption_budgets=(budget,),
    )
    found = {row.owner: row for row in blast_rows(context(snapshot))}
    assert found["Deployment/train"].pods == ("a", "b")
    assert (found["Deployment/train"].devices, found["Deployment/train"].comes_back) == (2, True)
    assert "allows 0" in found["Deployment/train"].disruption
    assert not found["Pod/bare"].comes_back


# --------------------------------------------------------------------------------------------------------------- laws

loads = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=4)


def load(sizes: list[tuple[int, int]], extra: int = 0) -> Snapshot:
    """Nodes with (held, free) devices, each held by a Pod of its own; `extra` more free ones on the last node."""
    parts: list[Any] = []
    for at, (held, free) in enumerate(sizes):
        name = f"n{at}"
        more = extra if at == len(sizes) - 1 else 0
        parts.append(pool(name, held + free + more))
        parts.extend(holding(f"p{at}-{n}", name, f"gpu-{n}", name) for n in range(held))
    return gpus(*parts)


@settings(deadline=None)
@given(loads)
def test_pods_of_one_device_are_pending_by_exactly_what_is_missing(sizes: list[tuple[int, int]]) -> None:
    found = rows(load(sizes))
    for at, (held, _) in enumerate(sizes):
        free = sum(f for other, (_, f) in enumerate(sizes) if other != at)
        if held:
            row = found[f"n{at}"]
            assert (row.displaced, row.free_elsewhere, row.pending) == (held, free, max(held - free, 0))
        else:
            assert f"n{at}" not in found


@settings(deadline=None)
@given(loads, st.integers(1, 3))
def test_more_free_devices_never_leave_more_pending(sizes: list[tuple[int, int]], extra: int) -> None:
    few, many = rows(load(sizes)), rows(load(sizes, extra))
    assert all(many[name].pending <= row.pending for name, row in few.items())
