"""What the recorded cluster must say of its devices, moves to DRA and causes of waiting."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from changegen import kubedata, profiles
from changegen.assess import Assessment, assess
from changegen.assess.capability import feature_rows
from changegen.assess.context import Context
from changegen.assess.dra import driver_log
from changegen.assess.extended import migration, served
from changegen.assess.troubleshoot import leader_log, pending_causes
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.profile import DeviceTaintWish, ExtendedResourceWish, Profile, Taints
from changegen.model.snapshot import (
    Attribute,
    Condition,
    DeviceRequest,
    DeviceStatus,
    Driver,
    DriverRights,
    Lease,
    PodUse,
    Snapshot,
    Workload,
    WorkloadRef,
)
from changegen.model.ticket import Finding
from tests.assess.build import context, control_plane, kubelet, node, profile, with_fields
from tests.assess.gpus import DRIVER, RESOURCE, claim, gpu_class, gpus, holding, pool, user

DATA = Path(__file__).parents[1] / "data"


def read(*paths: Path) -> Snapshot:
    return build_snapshot(read_input(list(paths)))


def of(found: Assessment, code: str) -> list[Finding]:
    return [item for item in found.findings if item.code == code]


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
    assert of(found, "CG-DRAIN-002")[0].subject.instances == ("ml/net-app",)
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
    assert "1 device selected, 0 allocated, 0 Pods would" in item.message
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


def plugin(selector: dict[str, str]) -> Workload:
    return Workload(
        kind="DaemonSet",
        namespace="gpu",
        name="gpu-device-plugin",
        addon="device-plugin:gpu",
        node_selector=selector,
    )


def commands(**more: object) -> tuple[list[str], list[str]]:
    """Commands of the step of the node, and of its way back."""
    step = migration(moving(**more), RESOURCE).steps[-1]
    return [c.text for c in step.commands], [c.text for c in step.back_commands]


def test_a_plugin_leaves_by_a_label_that_nothing_else_needs_and_comes_back_by_it() -> None:
    # Set to false: what manages such a label puts a missing one back.
    there, back = commands(workloads=(plugin({"x.example/deploy": "true"}),))
    assert "kubectl label node n1 x.example/deploy=false --overwrite" in there
    assert back[1] == "kubectl label node n1 x.example/deploy=true --overwrite"
    assert [text.split()[1] for text in back] == ["drain", "label", "get", "uncordon"]
    other, _ = commands(workloads=(plugin({"x.example/pool": "a"}),))
    assert "kubectl label node n1 x.example/pool-" in other


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"kubernetes.io/os": "linux"},
        {"node.kubernetes.io/instance-type": "big"},
        {"x.example/gpu": "present"},
    ],
)
def test_a_label_that_something_else_needs_is_left_alone(selector: dict[str, str]) -> None:
    ref = WorkloadRef(kind="DaemonSet", namespace="gpu", name="gpu-dra")
    driver = Driver(driver=DRIVER, version="v1", version_source="tag", workload=ref)
    dra = Workload(
        kind="DaemonSet", namespace="gpu", name="gpu-dra", node_selector={"x.example/gpu": "present"}
    )
    there, back = commands(workloads=(plugin(selector), dra), drivers=(driver,))
    assert not any("label" in text for text in (*there, *back))
    note = migration(moving(workloads=(plugin(selector), dra), drivers=(driver,)), RESOURCE).steps[-1].note
    assert "must leave the node before it is uncordoned" in note


def test_a_drain_says_what_the_pods_of_its_node_need() -> None:
    def drain(**pod: Any) -> str:
        parts = (*control_plane("v1.36.3"), kubelet("n1", gates={}))
        wanted = profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class=DRIVER),))
        snapshot = gpus(
            pool("n1"),
            node("n1", allocatable={RESOURCE: "2"}),
            user("a", "n1", wants=1, **pod),
            components=parts,
        )
        return migration(context(snapshot, wanted), RESOURCE).steps[-1].commands[0].text

    assert drain() == "kubectl drain n1 --ignore-daemonsets --timeout=15m"
    assert drain(local_storage=True).endswith("--delete-emptydir-data")
    assert drain(owner=None).endswith("--force")


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


def device_status(today: str, *, filled: bool, allowed: bool | None, read: bool = True) -> tuple[str, str]:
    """(verdict, what is missing) of the device status at 1.37.2, of a driver with or without rights that were read."""
    ref = WorkloadRef(kind="DaemonSet", namespace="gpu", name="gpu-dra")
    status = (
        (DeviceStatus(driver=DRIVER, pool="n1", device="gpu-0", interface_name="eth1"),) if filled else ()
    )
    rights = DriverRights(driver=DRIVER, service_account="gpu/dra", can_update_driver_status=allowed)
    snapshot = gpus(
        pool("n1"),
        Driver(driver=DRIVER, version="v1", version_source="tag", workload=ref),
        claim("c", ("n1", "gpu-0"), device_status=status),
        components=(*control_plane(today), kubelet("n1", today, gates={})),
        driver_rights=(rights,) if read else (),
    )
    row = next(r for r in feature_rows(context(snapshot)) if r.feature == "device-status")
    return row.verdict, "; ".join(row.missing)


def test_device_status_needs_rights_that_somebody_read() -> None:
    assert device_status("v1.35.4", filled=True, allowed=True) == ("ready", "")
    verdict, missing = device_status("v1.35.4", filled=True, allowed=False)
    assert (verdict, "gpu/dra may not update resourceclaims/driver" in missing) == ("not-ready", True)
    for read in (True, False):
        verdict, missing = device_status("v1.35.4", filled=True, allowed=None, read=read)
        assert (verdict, "was not read" in missing) == ("cannot-tell", True)
    # What it wrote under the same rule it may write; a driver that fills no status needs no such right.
    assert device_status("v1.36.3", filled=True, allowed=None) == ("ready", "")
    assert device_status("v1.35.4", filled=False, allowed=None) == ("ready", "")


def metadata(*images: str) -> tuple[str, str]:
    ref = WorkloadRef(kind="DaemonSet", namespace="gpu", name="gpu-dra")
    drivers = [
        Driver(
            driver=f"d{n}.example", version=i.rpartition(":")[2], version_source="tag", image=i, workload=ref
        )
        for n, i in enumerate(images)
    ]
    row = next(r for r in feature_rows(context(gpus(*drivers))) if r.feature == "device-metadata")
    return row.verdict, "; ".join(row.missing)


def test_device_metadata_is_an_option_that_a_release_has_or_lacks() -> None:
    has, lacks = "x.example/dra-driver-nvidia-gpu:v0.4.1", "x.example/dranet:v1.4.0"
    assert metadata(has)[0] == "cannot-tell"
    assert "the code of d0.example v0.4.1 has it" in metadata(has)[1]
    assert metadata(has, lacks)[0] == "not-ready"
    assert "d1.example v1.4.0 has no such option" in metadata(has, lacks)[1]
    assert metadata("x.example/own:v1")[0] == "cannot-tell"


def test_what_is_not_observable_is_named_once() -> None:
    row = next(
        r
        for r in feature_rows(context(read(DATA / "fixtures" / "eks"), profiles.load("kubernetes-1.37-dra")))
        if r.feature == "device-taints"
    )
    assert row.verdict == "cannot-tell"
    assert "kube-apiserver kube-apiserver" not in row.missing[0]
    assert "not observable on kube-apiserver; kube-scheduler; kube-controller-manager" in row.missing[0]


def test_planned_taints_are_also_looked_at_together() -> None:
    def planned(*devices: str) -> list[Finding]:
        wishes = tuple(
            DeviceTaintWish(key="x.example/m", expect="rollout", driver=DRIVER, pool="n1", device=d)
            for d in devices
        )
        snapshot = gpus(pool("n1"), pool("n2"), components=control_plane("v1.37.2"))
        return of(assess(snapshot, profile(taints=Taints(devices=wishes)), kubedata.load()), "CG-TAINT-012")

    assert not any("together" in item.message for item in planned("gpu-0"))
    both = [item for item in planned("gpu-0", "gpu-1") if "together" in item.message]
    assert [item.severity for item in both] == ["warning"]
    assert f"Every device of {DRIVER} on n1 is selected" in both[0].message


def wished(source: Any, *parts: Any, nodes: str = "", **more: Any) -> list[Finding]:
    wish = ExtendedResourceWish(name=RESOURCE, source=source, nodes=nodes)
    snapshot = gpus(
        *parts, components=(*control_plane("v1.37.2"), *(kubelet(n, gates={}) for n in ("n1", "n2"))), **more
    )
    return of(assess(snapshot, profile(extended_resources=(wish,)), kubedata.load()), "CG-EXT-009")


PLUGGED = {"allocatable": {RESOURCE: "2"}}


def test_a_resource_that_shall_stay_with_its_device_plugin() -> None:
    # The plugin serves every node and no class names it: as wanted.
    assert not wished("device-plugin", node("n1", **PLUGGED), node("n2", **PLUGGED), device_classes=())
    # A class that names it waits for the plugin to go: worth a word, no fault yet.
    named = wished("device-plugin", node("n1", **PLUGGED), node("n2", **PLUGGED), pool("n1"))
    assert [item.severity for item in named] == ["info"]
    assert "DRA takes over on a node as soon as the device plugin is gone" in named[0].message
    # The plugin went from one node, and DRA serves it there.
    moved = wished(
        "device-plugin", node("n1", allocatable={RESOURCE: "0"}), node("n2", **PLUGGED), pool("n1")
    )
    assert [(item.severity, item.subject.instances) for item in moved] == [("warning", ("n1",))]
    assert f"DRA serves it on n1 (DeviceClass {DRIVER})" in moved[0].message
    # Or nothing does.
    gone = wished(
        "device-plugin", node("n1", allocatable={RESOURCE: "0"}), node("n2", **PLUGGED), device_classes=()
    )
    assert [(item.severity, item.subject.instances) for item in gone] == [("warning", ("n1",))]
    assert "nothing serves it on n1" in gone[0].message
    # Only the nodes that the profile names are judged.
    labelled = node("n1", allocatable={RESOURCE: "2"}, labels={"pool": "a"})
    assert not wished("device-plugin", labelled, node("n2"), nodes="pool=a", device_classes=())
    assert wished(
        "device-plugin", labelled, node("n2", labels={"pool": "a"}), nodes="pool=a", device_classes=()
    )


def test_a_resource_that_shall_be_served_by_dra_and_is_not_yet() -> None:
    still = wished("dra", node("n1", **PLUGGED), pool("n1"))
    assert [(item.severity, item.subject.instances) for item in still] == [("info", ("n1",))]
    assert "it can move" in still[0].message
    assert not wished("dra", node("n1"), pool("n1"))
    nowhere = wished("dra", node("n1"))
    assert [item.severity for item in nowhere] == ["warning"]
    assert not wished("any", node("n1", **PLUGGED), pool("n1"))


def test_a_plugin_that_offers_more_than_there_are_devices() -> None:
    wish = profile(extended_resources=(ExtendedResourceWish(name=RESOURCE, device_class=DRIVER),))

    def move(offered: str) -> Any:
        snapshot = gpus(
            pool("n1"),
            node("n1", allocatable={RESOURCE: offered}),
            components=(*control_plane("v1.37.2"), kubelet("n1", gates={})),
        )
        return migration(context(snapshot, wish), RESOURCE)

    assert move("2").verdict == "go"
    shared = move("8")
    assert shared.verdict == "cannot-tell"
    assert f"offers 8 and class {DRIVER} has 2 devices" in shared.unknown[0]


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


@pytest.mark.parametrize(
    ("first", "second", "complete", "verdict"),
    [
        ("a", "a", True, "done"),
        ("a", "b", True, "done"),
        # No device of n2 has the attribute: whichever node comes first, a Pod is placed nowhere.
        ("a", "", True, "no-go"),
        ("", "", True, "no-go"),
        ("a", "a", False, "cannot-tell"),
    ],
)
def test_a_class_whose_selector_fails_or_whose_pool_is_not_whole_is_no_go(
    first: str, second: str, complete: bool, verdict: str
) -> None:
    def with_model(value: str) -> dict[str, Any]:
        return {"attributes": {f"{DRIVER}/model": Attribute(type="string", value=value)}} if value else {}

    selector = (f'device.attributes["{DRIVER}"].model == "a"',)
    snapshot = gpus(
        pool("n1", each=with_model(first)),
        pool("n2", each=with_model(second), complete=complete),
        gpu_class(selectors=selector),
        node("n1"),
        node("n2"),
    )
    assert migration(context(snapshot), RESOURCE).verdict == verdict


# --------------------------------------------------------------------------------------------------------- troubleshooting


def causes(snapshot: Snapshot) -> list[str]:
    ctx = context(snapshot)
    pods = [pod for pod in snapshot.pods if pod.phase == "Pending"]
    return [cause.text for pod in pods for cause in pending_causes(ctx, pod)]


def waiting(wants: int = 1, **more: Any) -> PodUse:
    return user("w", on="", wants=wants, **more)


@pytest.mark.parametrize(("held", "named"), [((), True), ((("n1", "gpu-0"),), False)])
def test_a_claim_that_is_allocated_waits_for_no_pool(held: tuple[tuple[str, str], ...], named: bool) -> None:
    everything = DeviceRequest(name="r", device_class=DRIVER, count=None, mode="All")
    made = with_fields(claim("c", *held), requests=(everything,))
    other = pool("n1", driver="nic.example.com", complete=False)
    found = causes(gpus(pool("n1"), other, made, node("n1"), user("w", on="", claim="c", requests={})))
    assert any("gives up" in cause for cause in found) is named


@pytest.mark.parametrize(("reported", "named"), [("False", True), ("True", False)])
def test_a_device_that_is_not_ready_for_binding(reported: str, named: bool) -> None:
    slow = pool("n1", each={"binding_conditions": ("Ready",)})
    status = DeviceStatus(
        driver=DRIVER, pool="n1", device="gpu-0", conditions=(Condition(type="Ready", status=reported),)
    )
    held = with_fields(claim("c", ("n1", "gpu-0")), device_status=(status,))
    found = causes(gpus(slow, held, node("n1"), user("w", on="", claim="c", requests={})))
    assert len(found) == 1
    assert (f"binds the Pod when {DRIVER} reports Ready of device n1/gpu-0" in found[0]) is named


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((pool("n1"), waiting(5)), "no node has more than 2"),
        ((waiting(1), node("n1")), "no published device is of class"),
        ((pool("n1"), waiting(1), gpu_class(selectors=("device.attributes['x'].y == 1",))), "fails on"),
        ((pool("n1"), waiting(1, node_selector={"a": "b"})), "not selected by a=b"),
        ((pool("n1", 1), waiting(1), holding("h", "n1", "gpu-0", "n1")), "too few are free on n1"),
        (
            (pool("n1", complete=False), waiting(1)),
            f"pool {DRIVER}/n1 is not complete or not valid, and gives",
        ),
        (
            (
                pool("n1"),
                pool("n1", driver="nic.example.com", complete=False),
                node("n1"),
                user("w", on="", claim="c", requests={}),
                with_fields(
                    claim("c"),
                    requests=(DeviceRequest(name="r", device_class=DRIVER, count=None, mode="All"),),
                ),
            ),
            "error, whichever node has devices: a request for all devices meets pool nic.example.com/n1",
        ),
        ((pool("n1"), waiting(1, requests={})), "CPU, memory and node affinity fit"),
        ((pool("n1"), waiting(1, other_constraints=("volume claims",))), "perhaps volume claims"),
        (
            (
                pool("n1"),
                waiting(1, requests={"cpu": "9"}),
                node("n1", allocatable={"cpu": "8"}, requested={}),
            ),
            "n1 with less than 9 of cpu left",
        ),
        (
            (
                pool("n1"),
                user("w", on="", claim="c", requests={}),
                with_fields(claim("c"), constraints=("match x.example/numa of *",)),
            ),
            "meets all requests and constraints",
        ),
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
    snapshot, found = recorded("before")
    ctx = Context(snapshot, Profile(name="x"), kubedata.load())
    pod = next(pod for pod in snapshot.pods if pod.name == "too-big")
    commands = [c for cause in pending_causes(ctx, pod) for c in cause.commands]
    assert "kubectl -n ml describe pod too-big" in commands
    # Each is a command of its own where the advice shows them.
    assert "`; `kubectl -n ml describe pod too-big`" in of(found, "CG-PENDING-001")[0].advice
    driver = next(d for d in snapshot.drivers if d.driver == "gpu.example.com")
    line = driver_log(driver, "gpu-3")
    assert "-n dra-example-driver" in line
    assert "spec.nodeName=gpu-3" in line
    assert "-c plugin" in line
