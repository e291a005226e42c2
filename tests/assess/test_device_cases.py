"""Devices in inputs made from real bug reports, and what the recorded cluster must say of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from changegen import kubedata, profiles
from changegen.assess import Assessment, assess
from changegen.assess.context import Context
from changegen.assess.extended import migration, served
from changegen.assess.troubleshoot import driver_log, leader_log, pending_causes, troubles
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.profile import ExtendedResourceWish, Profile, Target
from changegen.model.snapshot import Lease, PodUse, Snapshot
from changegen.model.ticket import Finding
from tests.assess.build import context, control_plane, kubelet, node, profile, with_fields
from tests.assess.gpus import DRIVER, RESOURCE, gpu_class, gpus, holding, pool, user

DATA = Path(__file__).parents[1] / "data"


def read(*paths: Path) -> Snapshot:
    return build_snapshot(read_input(list(paths)))


@cache
def case(name: str, *files: str) -> tuple[Snapshot, Assessment]:
    folder = DATA / "cases" / name / "input"
    snapshot = read(*(folder / file for file in files)) if files else read(folder)
    return snapshot, assess(
        snapshot, Profile(name="case", target=Target(kubernetes="1.37.2")), kubedata.load()
    )


def of(found: Assessment, code: str) -> list[Finding]:
    return [item for item in found.findings if item.code == code]


def test_both_mechanisms_on_one_node_and_a_departed_plugin_on_another() -> None:
    _, found = case("plugin-and-dra-both")
    item = of(found, "CG-EXT-001")[0]
    assert item.subject.instances == ("gpu-1",)
    assert "cannot be proved" in item.message
    row = next(row for row in found.resources if row.resource == "nvidia.com/gpu")
    assert row.by_node == {"gpu-1": "both", "gpu-2": "dra"}
    assert "departed" in row.why


def test_a_slice_outlives_its_driver_and_its_node() -> None:
    snapshot, found = case("slice-outlives-driver")
    assert of(found, "CG-SLICE-003")[0].subject.instances == ("w-3",)
    assert of(found, "CG-SLICE-004")[0].subject.instances == ("w-3",)
    assert "1 of 2" in of(found, "CG-DRIVER-009")[0].message
    assert "Do not delete slices" in of(found, "CG-SLICE-003")[0].advice
    assert snapshot.drivers[0].pod_nodes == ("w-1",)


def test_a_claim_that_is_deleted_and_in_use() -> None:
    snapshot, found = case("claims-stuck-deleting")
    items = of(found, "CG-CLAIM-001")
    assert [item.subject.name for item in items] == ["batch/job-a-gpu-x1"]
    assert "gpu.nvidia.com/n1/gpu-0" in items[0].message
    assert "List its consumers first" in items[0].advice
    assert [(c.name, c.allocated) for c in snapshot.claims] == [("job-a-gpu-x1", True), ("job-b", False)]


def test_a_pod_hangs_where_its_driver_is_gone() -> None:
    _, found = case("pod-terminating-driver-gone")
    item = of(found, "CG-CLAIM-002")[0]
    assert item.subject.name == "ml/train-0"
    assert "train-0-gpu-abc" in item.message
    assert "cordoned" in item.message
    assert item.advice.index("consumers first") < item.advice.index("then the driver")


def test_a_ready_driver_that_publishes_nothing() -> None:
    _, found = case("driver-needs-v1beta1")
    item = of(found, "CG-SLICE-002")[0]
    assert item.severity == "warning"
    assert "resource.k8s.io/v1" in item.message
    assert "v0.8.0" in item.advice
    _, after = case("kernel-driver-breaks-slice", "after.yaml")
    assert of(after, "CG-SLICE-002")
    _, before = case("kernel-driver-breaks-slice", "before.yaml")
    assert not of(before, "CG-SLICE-002")


def test_slices_are_missing_where_the_kubelet_dropped_a_plugin_api() -> None:
    snapshot, found = case("old-grpc-driver")
    item = of(found, "CG-SLICE-001")[0]
    assert "n1 only" in item.message
    assert "1.34" in item.message
    assert "cannot be read" in item.message
    level = tuple(with_fields(n, kubelet_version="v1.34.1") for n in snapshot.nodes)
    same = assess(with_fields(snapshot, nodes=level), Profile(name="case"), kubedata.load())
    assert "v1alpha4" not in of(same, "CG-SLICE-001")[0].message


def test_version_zero_is_not_reported_and_no_old_version() -> None:
    snapshot, found = case("driver-version-zero")
    assert snapshot.drivers[0].version == "v1.0.1"
    assert of(found, "CG-DRIVER-005")
    assert not of(found, "CG-DRIVER-004")
    assert found.drivers[0].device_versions == "not reported (1)"


def test_a_duplicate_key_gives_the_last_value_and_the_label_lags() -> None:
    snapshot, found = case("duplicate-keys")
    assert [w.images["gpus"].rpartition(":")[2] for w in snapshot.workloads] == ["v0.4.1"]
    notices = [n for n in snapshot.notices if "app.kubernetes.io/name" in n.detail or "image" in n.detail]
    assert notices
    item = of(found, "CG-DRIVER-002")[0]
    assert "v0.4.1" in item.message
    assert "0.4.0" in item.message


def test_the_autoscaler_s_gates_are_its_own() -> None:
    snapshot, found = case("autoscaler-rbac")
    assert [c.component for c in snapshot.components if c.component == "kube-scheduler" and c.instance] == []
    assert snapshot.workloads[0].addon == "autoscaler"
    assert not of(found, "CG-RBAC-002")  # no DRA object is seen here


def test_old_manifests() -> None:
    snapshot, found = case("v1beta1-manifests-before-138")
    assert snapshot.claim_templates[0].requests[0].device_class == "gpu.example.com"
    item = of(found, "CG-TAINT-011")[0]
    assert "deviceClassName" in item.message
    assert of(found, "CG-TAINT-003")


# --------------------------------------------------------------------------------------------------- the recorded cluster


@cache
def recorded(phase: str) -> tuple[Snapshot, Assessment]:
    snapshot = read(DATA / "recorded" / phase)
    return snapshot, assess(snapshot, profiles.load("kubernetes-1.37-dra"), kubedata.load())


def test_recorded_drivers() -> None:
    snapshot, found = recorded("before")
    rows = {row.driver: row for row in found.drivers}
    assert (rows["gpu.example.com"].version, rows["dra.net"].version) == ("v0.2.0", "v1.0.1")
    assert rows["gpu.example.com"].device_versions == "1.1.0 (2), 1.2.0 (4)"
    assert all("inferred" in row.note for row in found.drivers)
    bare = {item.subject.name: item.subject.instances for item in of(found, "CG-SLICE-001")}
    assert bare == {"gpu.example.com": ("old-gpu-1",), "dra.net": ("old-gpu-1",)}
    assert not of(found, "CG-DRIVER-002")
    _, after = recorded("after")
    assert "v0.3.0" in of(after, "CG-DRIVER-002")[0].message
    assert not of(after, "CG-DRIVER-004")
    assert snapshot.driver_rights[0].can_update_driver_status is None


def test_recorded_capacity_and_pending() -> None:
    _, found = recorded("before")
    rows = {row.node: row for row in found.capacity if row.resource == "example.com/gpu"}
    assert {node: row.pending for node, row in rows.items()} == {"gpu-1": 1, "gpu-2": 1}
    assert "2 free on gpu-3 behind node taint example.com/gpu-only=true:NoSchedule" in rows["gpu-1"].why
    assert of(found, "CG-PDB-001")[0].subject.instances == ("gpu-1", "gpu-2")
    assert of(found, "CG-DRAIN-002")[0].subject.instances == ("ml/net-app", "ml/too-big")
    item = of(found, "CG-PENDING-001")[0]
    assert "it wants 5 of example.com/gpu, no node has more than 2" in item.message
    assert item.preexisting
    assert "Unschedulable" in item.evidence[0].value


def test_recorded_resources_taints_and_status() -> None:
    _, found = recorded("before")
    rows = {row.resource: row for row in found.resources}
    assert (rows["example.com/gpu"].source, rows["example.com/gpu"].device_class) == (
        "dra",
        "gpu.example.com",
    )
    assert (rows["example.com/gpu"].pods, rows["example.com/gpu"].pending) == (4, 1)
    assert rows["example.com/legacy-gpu"].source == "device-plugin"
    assert rows["example.com/legacy-gpu"].by_node == {"old-gpu-1": "device-plugin"}
    item = of(found, "CG-TAINT-001")[0]
    assert "1 devices selected, 0 allocated, 0 Pods" in item.message
    assert "PodDisruptionBudgets would not be asked" in item.message
    assert of(found, "CG-TAINT-007")[0].severity == "info"
    _, after = recorded("after")
    assert of(after, "CG-CLAIM-003")[0].subject.instances == ("ml/nic-claim",)
    assert not of(found, "CG-CLAIM-003")


# ----------------------------------------------------------------------------------------------------- extended resources


def moving(**more: object) -> Context:
    parts = (*control_plane("v1.36.3"), kubelet("n1", gates={}), kubelet("n2", gates={}))
    wanted = profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class=DRIVER),))
    snapshot = gpus(
        pool("n1"),
        pool("n2"),
        node("n1", allocatable={RESOURCE: "2"}),
        node("n2", allocatable={RESOURCE: "0"}),
        user("a", "n1", wants=1),
        components=parts,
        **more,
    )
    return context(snapshot, wanted)


def test_a_resource_that_can_move_and_its_steps() -> None:
    found = migration(moving(), RESOURCE)
    assert (found.verdict, found.why, found.unknown) == ("go", (), ())
    assert [step.nodes for step in found.steps] == [("n1",)]
    texts = [command.text for command in found.steps[0].commands]
    assert texts[0].startswith("kubectl drain n1")
    assert texts[-1] == "kubectl uncordon n1"
    assert found.steps[0].back
    assert any("extendedResourceClaimStatus" in check for check in found.checks)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"device_classes": ()}, "no DeviceClass names"),
        ({"device_classes": (gpu_class(selectors=('device.driver == "nobody"',)),)}, "no device of class"),
    ],
)
def test_what_stops_a_move(change: dict[str, object], why: str) -> None:
    found = migration(moving(**change), RESOURCE)
    assert found.verdict == "no-go"
    assert any(why in text for text in found.why)


def test_a_class_made_later_takes_the_name() -> None:
    old, young = (
        gpu_class("old", created="2026-01-01T00:00:00Z"),
        gpu_class("young", created="2026-02-01T00:00:00Z"),
    )
    rows = {row.resource: row for row in served(context(gpus(pool("n1"), old, young)))}
    assert rows[RESOURCE].device_class == "young"
    same = gpu_class("b", created="2026-01-01T00:00:00Z"), gpu_class("a", created="2026-01-01T00:00:00Z")
    rows = {row.resource: row for row in served(context(gpus(pool("n1"), *same)))}
    assert rows[RESOURCE].device_class == "a"


# --------------------------------------------------------------------------------------------------------- troubleshooting


def causes(snapshot: Snapshot) -> list[str]:
    ctx = context(snapshot)
    pods = [pod for pod in snapshot.pods if pod.phase == "Pending"]
    return [cause.text for pod in pods for cause in pending_causes(ctx, pod)]


def waiting(wants: int = 1, **more: Any) -> PodUse:
    return user("w", on="", wants=wants, **more)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((pool("n1"), waiting(5)), "no node has more than 2"),
        ((waiting(1), node("n1")), "no published device is of class"),
        ((pool("n1"), waiting(1), gpu_class(selectors=("device.attributes['x'].y == 1",))), "fails on"),
        ((pool("n1"), waiting(1, node_selector={"a": "b"})), "not selected by a=b"),
        ((pool("n1", 1), waiting(1), holding("h", "n1", "gpu-0", "n1")), "too few are free on n1"),
        ((pool("n1"), waiting(1)), "something else keeps it away"),
    ],
)
def test_why_a_pod_waits(parts: tuple[object, ...], text: str) -> None:
    found = causes(gpus(*parts))
    assert len(found) == 1
    assert text in found[0]


def test_the_scheduler_that_leads_is_named_by_its_lease() -> None:
    parts = control_plane(nodes=("cp-1", "cp-2"))
    lease = Lease(name="kube-scheduler", holder="cp-2_5a6b")
    led = context(gpus(pool("n1"), components=parts, leases=(lease,)))
    assert leader_log(led, "kube-scheduler") == "kubectl -n kube-system logs kube-scheduler-cp-2 --tail=200"
    blind = context(gpus(pool("n1"), components=parts))
    assert "not known" in leader_log(blind, "kube-scheduler")
    assert leader_log(context(gpus(pool("n1"))), "kube-scheduler") == ""


def test_commands_carry_real_names() -> None:
    snapshot, _ = recorded("before")
    ctx = Context(snapshot, Profile(name="x"), kubedata.load())
    found = {trouble.subject: trouble for trouble in troubles(ctx)}
    commands = [c for cause in found["ml/too-big"].causes for c in cause.commands]
    assert "kubectl -n ml describe pod too-big" in commands
    driver = next(d for d in snapshot.drivers if d.driver == "gpu.example.com")
    line = driver_log(driver, "gpu-3")
    assert "-n dra-example-driver" in line
    assert "spec.nodeName=gpu-3" in line
    assert "-c plugin" in line
