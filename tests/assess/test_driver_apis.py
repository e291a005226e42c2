"""Which API versions a driver's release speaks, against what API servers and kubelets of the target speak."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest

from changegen.assess.driver_apis import kubelet_speaks, release_of
from changegen.model.profile import DriverWish
from changegen.model.snapshot import Driver, Snapshot, WorkloadRef
from changegen.model.ticket import Finding
from tests.assess.build import api, control_plane, kubelet, node, of, pod, profile, run, with_fields
from tests.assess.gpus import ALL_READ, cluster

TABLE = json.loads((files("changegen") / "data" / "driver-apis.json").read_text(encoding="utf-8"))
DRANET = "registry.k8s.io/networking/dranet"
GAUDI = "ghcr.io/intel/intel-resource-drivers-for-kubernetes/intel-gaudi-resource-driver"
QAT = "ghcr.io/intel/intel-resource-drivers-for-kubernetes/intel-qat-resource-driver"


def driver(name: str, image: str, tag: str) -> Driver:
    return Driver(
        driver=name,
        version=tag,
        version_source="image tag",
        image=f"{image}:{tag}",
        workload=WorkloadRef(kind="DaemonSet", namespace="drivers", name="plugin"),
        nodes=("w1",),
        pod_nodes=("w1",),
        ready_nodes=("w1",),
        ready=1,
        desired=1,
        devices=2,
    )


def here(
    found: Driver, today: str = "v1.36.3", runtime: tuple[str, ...] = (), kubelets: str = "", **more: Any
) -> Snapshot:
    """A cluster with one driver; `runtime` is --runtime-config of its API server, and what it serves follows it."""
    apiserver = pod("kube-apiserver", "n1", today, runtime_config=runtime)
    parts = (apiserver, *control_plane(today)[1:], kubelet("w1", kubelets or today, gates={}))
    served = [api("resource.k8s.io/v1", "ResourceSlice", "ResourceClaim", "DeviceClass")]
    for text in runtime:
        version = text.partition("=")[0]
        served.append(api(version, "ResourceSlice", "ResourceClaim", "DeviceClass", "DeviceTaintRule"))
    return cluster(
        *parts,
        drivers=(found,),
        apis=tuple(served),
        nodes=(node("w1", kubelet_version=kubelets or today),),
        kinds_read=ALL_READ,
        **more,
    )


def one(snapshot: Snapshot, code: str, wanted: Any = None) -> Finding | None:
    found = of(run(snapshot, wanted), code)
    assert len(found) <= 1
    return found[0] if found else None


def test_a_release_with_the_falling_back_client_is_no_finding() -> None:
    snapshot = here(driver("dra.net", DRANET, "v1.0.1"))
    for code in ("CG-DRIVER-011", "CG-DRIVER-012", "CG-DRIVER-013", "CG-DRIVER-014"):
        assert one(snapshot, code) is None
    row = run(snapshot).drivers[0]
    assert "resource.k8s.io v1, v1beta2, v1beta1" in row.note
    assert "plugin API v1, v1beta1" in row.note


def test_a_release_of_v1beta1_only_lives_by_runtime_config_and_dies_with_it() -> None:
    old = driver("dra.net", DRANET, "v0.6.2")
    served = here(old, runtime=("resource.k8s.io/v1beta1=true",))
    assert one(served, "CG-DRIVER-011") is None
    gone = one(here(old), "CG-DRIVER-011")
    assert gone is not None
    assert (gone.severity, gone.preexisting) == ("warning", True)
    assert "not served today either" in gone.message
    assert "k8s.io/dynamic-resource-allocation v0.33.2" in {e.value for e in gone.evidence}


def test_what_works_today_and_will_not_is_blocking() -> None:
    # 1.33 served v1beta1 by default, 1.34 does not: discovery of today says so, --runtime-config holds nothing.
    snapshot = here(driver("dra.net", DRANET, "v0.6.2"))
    beta = api("resource.k8s.io/v1beta1", "ResourceSlice", "ResourceClaim", "DeviceClass")
    item = one(cluster_with(snapshot, beta), "CG-DRIVER-011")
    assert item is not None
    assert (item.severity, item.preexisting) == ("blocking", False)
    assert "resource.k8s.io/v1beta1 only, which the target does not serve" in item.message


def cluster_with(snapshot: Snapshot, *more: Any) -> Snapshot:

    return with_fields(snapshot, apis=(*snapshot.apis, *more))  # type: ignore[no-any-return]


def test_a_release_that_the_profile_brings_mends_it_when_it_comes_first() -> None:
    snapshot = cluster_with(
        here(driver("dra.net", DRANET, "v0.6.2")),
        api("resource.k8s.io/v1beta1", "ResourceSlice", "ResourceClaim", "DeviceClass"),
    )
    wanted = profile(drivers=(DriverWish(name="dra.net", version="v1.4.0"),))
    item = one(snapshot, "CG-DRIVER-011", wanted)
    assert item is not None
    assert item.severity == "warning"
    assert "v1.4.0, which the profile wants, speaks resource.k8s.io/v1" in item.message
    assert "it must come first" in item.message
    same = profile(drivers=(DriverWish(name="dra.net", version="v0.5.0"),))
    still = one(snapshot, "CG-DRIVER-011", same)
    assert still is not None
    assert still.severity == "blocking"


def test_what_is_not_observable_is_said_and_does_not_pass() -> None:
    blind = here(driver("dra.net", DRANET, "v0.6.2"))
    parts = (pod("kube-apiserver", "n1", "v1.36.3", runtime_config=None), *blind.components[1:])

    item = one(with_fields(blind, components=parts, apis=()), "CG-DRIVER-011")
    assert item is not None
    assert item.severity == "warning"
    assert "is not known" in item.message


def test_a_plugin_api_that_kubelets_dropped() -> None:
    snapshot = here(driver("dra.net", DRANET, "v0.1.0"), kubelets="v1.33.5")
    item = one(snapshot, "CG-DRIVER-012")
    assert item is not None
    assert (item.severity, item.subject.instances) == ("blocking", ("w1",))
    assert "v1alpha4" in item.message
    already = one(here(driver("dra.net", DRANET, "v0.1.0")), "CG-DRIVER-012")
    assert already is not None
    assert (already.severity, already.preexisting) == ("warning", True)
    assert one(here(driver("dra.net", DRANET, "v0.3.1")), "CG-DRIVER-012") is None


def test_calls_of_the_driver_s_own_code() -> None:
    taints = driver("gaudi.intel.com", GAUDI, "v0.7.2")
    item = one(here(taints), "CG-DRIVER-013")
    assert item is not None
    assert item.severity == "warning"
    assert "DeviceTaintRule as resource.k8s.io/v1alpha3" in item.message
    assert one(here(taints, runtime=("resource.k8s.io/v1alpha3=true",)), "CG-DRIVER-013") is None
    assert one(here(driver("gaudi.intel.com", GAUDI, "v0.6.1")), "CG-DRIVER-013") is None
    # This one prepares claims with v1beta1, though its helper speaks v1.
    claims = cluster_with(
        here(driver("qat.intel.com", QAT, "v0.4.0")),
        api("resource.k8s.io/v1beta1", "ResourceSlice", "ResourceClaim", "DeviceClass"),
    )
    stops = one(claims, "CG-DRIVER-013")
    assert stops is not None
    assert stops.severity == "blocking"
    assert one(here(driver("qat.intel.com", QAT, "v0.4.1")), "CG-DRIVER-013") is None


@pytest.mark.parametrize(
    ("name", "image", "tag"),
    [
        ("dra.net", "registry.example/own/build", "v1.0.1"),
        ("dra.net", DRANET, "v9.9.9"),
        ("dra.net", DRANET, "stable"),
        ("gpu.amd.com", "docker.io/rocm/k8s-gpu-dra-driver", "v1.0.1"),
    ],
)
def test_what_is_not_in_the_table_is_not_known(name: str, image: str, tag: str) -> None:
    snapshot = here(driver(name, image, tag))
    item = one(snapshot, "CG-DRIVER-014")
    assert item is not None
    assert item.severity == "info"
    assert name in item.message
    assert "not known" in run(snapshot).drivers[0].note
    assert one(snapshot, "CG-DRIVER-014", profile("1.36.4")) is None


def test_a_mirrored_image_is_the_same_release_and_another_image_is_not() -> None:
    assert release_of("harbor.example/mirror/dranet:1.0.1", "1.0.1") is not None
    assert release_of("harbor.example/mirror/dranet-fork:1.0.1", "1.0.1") is None
    # Both names of NVIDIA's image, over its change of numbers.
    old = release_of("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0", "v25.12.0")
    new = release_of("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1", "v0.4.1")
    assert old is not None
    assert new is not None
    assert (old[1].helper, new[1].helper) == ("v0.34.0", "v0.36.0-rc.0")


def test_the_table_says_what_the_sources_of_kubernetes_say() -> None:
    assert all(kubelet_speaks(minor) == ("v1", "v1beta1") for minor in ("1.34", "1.35", "1.36", "1.37"))
    assert kubelet_speaks("1.38") is None
    helpers = {row["minor"]: row for row in TABLE["helpers"]}
    assert helpers["0.33"]["resource"] == ["v1beta1"]
    assert helpers["0.34"]["resource"] == ["v1", "v1beta2", "v1beta1"]
    # Every release speaks what its helper speaks, or less where the driver brings the gRPC server itself.
    for project in TABLE["projects"]:
        assert project["releases"], project["repository"]
        for row in project["releases"]:
            known = helpers.get(re.sub(r"^v(\d+\.\d+)\..*", r"\1", row["helper"]))
            if known is not None:
                assert row["resource"] == known["resource"]
                assert set(row["plugin"]) <= set(known["plugin"])
