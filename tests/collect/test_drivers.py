"""Which workload serves which driver, and which version it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from changegen.collect import build_snapshot, drivers
from changegen.collect.files import read_input
from changegen.model.snapshot import Driver, Snapshot
from tests.devices import (
    DATA,
    MOUNTS,
    classes,
    daemon_set,
    gpu_class,
    gpu_slice,
    listed,
    plain_node,
    reading,
    slices,
)

ROOT = DATA / "drivers"
FOLDERS = sorted(folder.name for folder in ROOT.iterdir() if folder.is_dir())


def read(folder: str) -> tuple[Snapshot, dict[str, Any]]:
    answer: dict[str, Any] = json.loads((ROOT / folder / "expected.json").read_text(encoding="utf-8"))
    files: list[Path] = [path for path in sorted((ROOT / folder).iterdir()) if path.name != "expected.json"]
    return build_snapshot(read_input(files)), answer


def test_all_folders_are_there() -> None:
    assert len(FOLDERS) == 10


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("known", [True, False], ids=["known projects", "names alone"])
def test_drivers_of_the_field(folder: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not known:
        monkeypatch.setattr(drivers, "KNOWN", ())
    snapshot, answer = read(folder)
    found = {driver.driver: driver for driver in snapshot.drivers}
    assert set(found) == {row["driver"] for row in answer["drivers"]}
    for row in answer["drivers"]:
        driver = found[row["driver"]]
        assert driver.workload is not None
        assert driver.version == row["version"]
        assert sorted(driver.nodes) == sorted(row["nodes"])
        assert driver.devices == row["devices"]
        assert driver.device_driver_versions == row["device_driver_versions"]
        assert driver.workload_evidence


@pytest.mark.parametrize("folder", FOLDERS)
def test_taints_and_classes_of_the_field(folder: str) -> None:
    snapshot, answer = read(folder)
    taints = {
        (pool.driver, pool.name, device.name, taint.key, taint.value, taint.effect)
        for pool in snapshot.pools
        for device in pool.devices
        for taint in device.taints
    }
    assert taints == {
        (t["driver"], t["pool"], t["device"], t["key"], t["value"], t["effect"])
        for t in answer["device_taints"]
    }
    named = {c.name: c.extended_resource_name for c in snapshot.device_classes}
    assert named == {c["name"]: c.get("extendedResourceName", "") for c in answer["device_classes"]}


def test_one_daemon_set_can_serve_two_drivers() -> None:
    snapshot, _ = read("nvidia-gpu")
    by_name = {driver.driver: driver for driver in snapshot.drivers}
    assert by_name["gpu.nvidia.com"].workload == by_name["compute-domain.nvidia.com"].workload
    assert by_name["gpu.nvidia.com"].container == "gpus"
    assert by_name["compute-domain.nvidia.com"].container == "compute-domains"


def test_a_sidecar_is_not_the_plugin() -> None:
    snapshot, _ = read("google-tpu")
    assert snapshot.drivers[0].container == "plugin"
    assert "distroless" not in snapshot.drivers[0].image


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.example/a/plugin:v1.2.3", "v1.2.3"),
        ("registry.example:5000/plugin:2026.1.1", "2026.1.1"),
        ("registry.example/plugin:v1.2.3@sha256:" + "a" * 64, "v1.2.3"),
        ("registry.example/plugin@sha256:" + "a" * 64, "unobservable"),
        ("registry.example/plugin:latest", "unobservable"),
        ("registry.example/plugin:stable", "unobservable"),
        ("registry.example/plugin:main-amd64", "unobservable"),
        ("registry.example/plugin:devel", "unobservable"),
        ("registry.example/plugin", "unobservable"),
        ("", "unobservable"),
    ],
)
def test_version_of_an_image(image: str, version: str) -> None:
    assert drivers.plugin_version(image) == version


def only(snapshot: Snapshot, name: str = "gpu.example.com") -> Driver:
    return next(driver for driver in snapshot.drivers if driver.driver == name)


def test_the_driver_is_named_on_a_command_line_or_in_a_mount() -> None:
    said = daemon_set("node-agent").replace(
        "image: 'registry.example/plugin:v1.0.0'",
        "image: 'registry.example/agent:v7.0.0', args: ['--driver-name=gpu.vendor.test']",
    )
    other = daemon_set("gpu-vendor-test-helper", image="registry.example/helper:v9.0.0")
    sliced = slices(gpu_slice("n1", driver="gpu.vendor.test"))
    found = only(reading(listed("DaemonSet", said, other, version="apps/v1"), sliced), "gpu.vendor.test")
    assert found.version == "v7.0.0"
    folder = "      volumes:\n      - {name: p, hostPath: {path: /data/kubelet/plugins/gpu.vendor.test}}\n"
    mounted = daemon_set("thing", image="registry.example/thing:v3.0.0", more=folder)
    found = only(reading(listed("DaemonSet", mounted, version="apps/v1"), sliced), "gpu.vendor.test")
    assert found.version == "v3.0.0"
    assert "mounts the plugin folder of this name" in found.workload_evidence


def test_device_plugins_csi_drivers_and_kernel_driver_installers_are_none() -> None:
    others = listed(
        "DaemonSet",
        daemon_set("vendor-device-plugin", image="registry.example/vendor-device-plugin:v1.0.0"),
        daemon_set("vendor-driver-daemonset", image="registry.example/vendor-driver:580.1.0"),
        daemon_set("vendor-csi-driver", image="registry.example/vendor-csi:v2.0.0", more=MOUNTS),
        version="apps/v1",
    )
    sliced = slices(gpu_slice("n1", driver="gpu.vendor.com"))
    found = only(reading(others, sliced), "gpu.vendor.com")
    assert found.workload is None
    assert found.version == "unobservable"
    real = daemon_set("vendor-dra-driver", image="registry.example/vendor-dra-driver:v0.9.0", more=MOUNTS)
    found = only(reading(others, sliced, listed("DaemonSet", real, version="apps/v1")), "gpu.vendor.com")
    assert found.workload is not None
    assert found.workload.name == "vendor-dra-driver"


def driver_pod(
    name: str, node: str, owner: str, image: str, running: str | None = None, ready: str = "True"
) -> str:
    shown = running or image
    return (
        f"metadata:\n  name: {name}\n  namespace: drivers\n  ownerReferences:\n"
        f"  - {{kind: DaemonSet, name: {owner}, controller: true, apiVersion: apps/v1}}\n"
        f"spec: {{nodeName: {node}, containers: [{{name: plugin, image: '{image}'}}]}}\n"
        f"status: {{phase: Running, conditions: [{{type: Ready, status: '{ready}'}}], containerStatuses: "
        f"[{{name: plugin, image: '{shown}', ready: true, state: {{running: {{}}}}}}]}}"
    )


def test_two_versions_at_once_and_where_pods_are_ready() -> None:
    new, old = "registry.example/dra-gpu-driver:v2.0.0", "registry.example/dra-gpu-driver:v1.0.0"
    pods = listed(
        "Pod",
        driver_pod("d-aaaaa", "n1", "gpu-dra", new),
        driver_pod("d-bbbbb", "n2", "gpu-dra", old),
        driver_pod("d-ccccc", "n3", "gpu-dra", new, ready="False"),
    )
    workload = listed("DaemonSet", daemon_set("gpu-dra", image=new, more=MOUNTS, ready=3), version="apps/v1")
    found = only(reading(pods, workload, slices(gpu_slice("n1"), gpu_slice("n2"))))
    assert found.version == "v2.0.0"
    assert found.running_versions == {"v1.0.0": 1, "v2.0.0": 2}
    assert found.other_versions == {"v1.0.0": 1}
    assert found.pod_nodes == ("n1", "n2", "n3")
    assert found.ready_nodes == ("n1", "n2")


def test_a_second_workload_of_one_driver_is_another_version() -> None:
    name = "registry.example/gpu-dra-driver"
    pods = listed(
        "Pod",
        driver_pod("a-aaaaa", "n1", "gpu-dra-a", f"{name}:v1.0.0"),
        driver_pod("b-aaaaa", "n2", "gpu-dra-b", f"{name}:v2.0.0"),
    )
    both = listed(
        "DaemonSet",
        daemon_set("gpu-dra-a", image=f"{name}:v1.0.0", more=MOUNTS),
        daemon_set("gpu-dra-b", image=f"{name}:v2.0.0", more=MOUNTS),
        version="apps/v1",
    )
    found = only(reading(pods, both, slices(gpu_slice("n1"), gpu_slice("n2"))))
    assert {found.version, *found.other_versions} == {"v1.0.0", "v2.0.0"}
    one = listed("DaemonSet", daemon_set("gpu-dra-a", image=f"{name}:v1.0.0", more=MOUNTS), version="apps/v1")
    assert only(reading(one, slices(gpu_slice("n1")))).other_versions == {}


def test_the_workload_left_over_is_given_where_it_covers_the_nodes_and_is_alone() -> None:
    pods = listed("Pod", driver_pod("x-aaaaa", "n1", "acme-dra", "registry.example/acme-dra:v4.0.0"))
    acme = listed(
        "DaemonSet", daemon_set("acme-dra", image="registry.example/acme-dra:v4.0.0"), version="apps/v1"
    )
    one = slices(gpu_slice("n1", driver="fpga.other.test"))
    assert only(reading(pods, acme, one), "fpga.other.test").version == "v4.0.0"
    elsewhere = slices(gpu_slice("n2", driver="fpga.other.test"))
    assert only(reading(pods, acme, elsewhere), "fpga.other.test").workload is None
    two = slices(gpu_slice("n1", driver="fpga.other.test"), gpu_slice("n1", driver="nic.third.test"))
    ambiguous = reading(pods, acme, two)
    assert [driver.workload for driver in ambiguous.drivers] == [None, None]


def test_pods_alone_tell_the_workload_where_daemon_sets_were_not_read() -> None:
    pods = listed(
        "Pod", driver_pod("x-aaaaa", "n1", "gpu-example-dra", "registry.example/gpu-example-dra:v4.0.0")
    )
    found = only(reading(pods, slices(gpu_slice("n1"))))
    assert found.workload is not None
    assert found.workload.name == "gpu-example-dra"
    assert found.version == "v4.0.0"
    assert found.desired is None


def test_a_class_names_its_driver_and_a_claim_class_only_where_a_workload_agrees() -> None:
    named = reading(classes(gpu_class("nobody.example.com", resource="")))
    assert [d.driver for d in named.drivers] == ["nobody.example.com"]
    claim = "metadata: {name: c, namespace: ml}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.acme.com}}]}}"
    claims = listed("ResourceClaim", claim, version="resource.k8s.io/v1")
    assert reading(claims).drivers == ()
    workload = daemon_set("acme-gpu-dra-driver", image="registry.example/acme-gpu-dra-driver:v1.0.0")
    both = reading(claims, listed("DaemonSet", workload, version="apps/v1"))
    assert [d.driver for d in both.drivers] == ["gpu.acme.com"]


def test_renaming_a_driver_renames_the_answer() -> None:
    text = (ROOT / "dra-example" / "objects.yaml").read_text(encoding="utf-8")
    found = reading(text.replace("gpu.example.com", "npu.sample.io").replace("dra-example", "dra-sample"))
    driver = only(found, "npu.sample.io")
    assert driver.workload is not None
    assert driver.workload.name == "dra-sample-driver-kubeletplugin"
    assert driver.version == "v0.4.0"


def test_devices_of_an_older_generation_do_not_count() -> None:
    old = gpu_slice("n1", 2, generation=1)
    new = gpu_slice("n1", 1, generation=2)
    found = reading(slices(old, new), listed("Node", plain_node("n1")))
    pool = found.pools[0]
    assert pool.generation == 2
    assert [device.name for device in pool.devices] == ["gpu-0"]
    assert [(s.generation, s.counted) for s in pool.slices] == [(1, False), (2, True)]
    assert only(found).devices == 1
