"""What is left when one node is out, and what a drain meets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.assess.capacity import blast_rows, capacity_rows
from changegen.model.snapshot import (
    ClaimTemplate,
    ClaimUse,
    DeviceRequest,
    DisruptionBudget,
    NodeTaint,
    Snapshot,
    Toleration,
)
from changegen.model.ticket import CapacityRow
from tests.assess.build import context, node
from tests.assess.gpus import DRIVER, RESOURCE, claim, gpus, holding, pool, rule, tainted, user

ONLY = NodeTaint(key="example.com/gpu-only", value="true", effect="NoSchedule")


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
    assert "do not come back" in found["n1"].why


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


def test_of_alternatives_the_first_is_looked_for() -> None:
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
