"""Devices on a real scheduler and a real taint controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controlplane import dra, kubeadm
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.process import wait_for

RULES = {
    "kube-apiserver": "DRADeviceTaintRules=true",
    "kube-controller-manager": "DRADeviceTaintRules=true",
    "kube-scheduler": "DRADeviceTaintRules=true",
}


@pytest.fixture(scope="module", params=["1.36.3", "1.37.2"])
def cluster(request: pytest.FixtureRequest, start_cluster: Callable[[Plan], Cluster]) -> Cluster:
    """Two nodes of DRA devices, and one on which a device plugin offers the same resource."""
    need(request.param)
    started = start_cluster(
        Plan(
            version=request.param,
            nodes=[
                control_plane("cp-1"),
                Node(name="gpu-1"),
                Node(name="gpu-2"),
                Node(name="plugin-1", devices={"example.com/gpu": "1"}),
            ],
            configuration=kubeadm.extra_args(
                {"kube-apiserver": {"runtime-config": "resource.k8s.io/v1beta2=true"}}, gates=RULES
            ),
            addons=False,
        )
    )
    driver = dra.Driver(started.api, "gpu.example.com")
    for node in ("gpu-1", "gpu-2"):
        driver.publish(node, [dra.Device(name="gpu-0"), dra.Device(name="gpu-1")], node=node)
    started.apply(dra.device_class("gpu", driver.name, extended_resource="example.com/gpu"))
    return started


def test_one_name_from_a_plugin_and_from_dra(cluster: Cluster) -> None:
    api = cluster.api
    cluster.apply(
        *(dra.pod("default", f"any-{number}", limits={"example.com/gpu": "1"}) for number in range(5))
    )
    pods = [dra.running(api, "default", f"any-{number}") for number in range(5)]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2", "plugin-1"]
    claims = {pod["spec"]["nodeName"]: pod["status"].get("extendedResourceClaimStatus") for pod in pods}
    assert claims["plugin-1"] is None
    assert claims["gpu-1"] is not None
    cluster.apply(dra.pod("default", "one-more", limits={"example.com/gpu": "1"}))
    assert "0/4 nodes are available" in dra.unschedulable(api, "default", "one-more")
    cluster.kubectl("delete", "pods", "--all", "--grace-period=1")
    wait_for("claims gone", lambda: not api.items("/apis/resource.k8s.io/v1/resourceclaims"))


def test_a_taint_rule_reports_then_holds_off_then_evicts(cluster: Cluster) -> None:
    api = cluster.api
    version = dra.taint_rule_version(api)
    assert version == {"1.36.3": "v1beta2", "1.37.2": "v1"}[cluster.version]
    any_effect = {"key": "example.com/maintenance", "operator": "Exists"}
    names = ("plain", "tolerant", "any-effect")
    cluster.apply(
        dra.claim("default", "plain", "gpu"),
        dra.claim("default", "tolerant", "gpu", tolerations=[{**any_effect, "effect": "NoExecute"}]),
        dra.claim("default", "any-effect", "gpu", tolerations=[any_effect]),
        *(dra.pod("default", name, claims={"gpu": name}) for name in names),
    )
    for name in names:
        dra.running(api, "default", name)

    def rule(effect: str) -> None:
        cluster.apply(
            dra.taint_rule(
                "maintenance",
                api_version=version,
                key="example.com/maintenance",
                effect=effect,
                driver="gpu.example.com",
            )
        )

    rule("None")
    message = dra.taint_rule_condition(api, "maintenance", api_version=version, reason="NoEffect")["message"]
    # A toleration without an effect does not count here, unlike in the scheduler.
    assert "4 published devices selected. 3 allocated devices selected. 2 pods would be evicted" in message

    rule("NoSchedule")
    cluster.apply(dra.claim("default", "late", "gpu"), dra.pod("default", "late", claims={"gpu": "late"}))
    assert "cannot allocate all claims" in dra.unschedulable(api, "default", "late")
    assert api.find("/api/v1/namespaces/default/pods/plain") is not None

    rule("NoExecute")

    def left() -> set[str]:
        pods = api.items("/api/v1/namespaces/default/pods")
        return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}

    wait_for("eviction", lambda: left() == {"tolerant", "late"})
    assert dra.taint_rule_condition(api, "maintenance", api_version=version, reason="Completed")

    def evicted() -> set[str]:
        events = api.items("/api/v1/namespaces/default/events")
        return {event["involvedObject"]["name"] for event in events if "DeviceTaint" in event["reason"]}

    wait_for("events of the eviction", lambda: evicted() == {"plain", "any-effect"})
    cluster.kubectl("delete", f"devicetaintrules.{version}.resource.k8s.io/maintenance")


def test_an_incomplete_pool_gives_no_devices(cluster: Cluster) -> None:
    api = cluster.api
    driver = dra.Driver(api, "nic.example.com")
    nics = [dra.Device(name="nic-0"), dra.Device(name="nic-1")]
    driver.publish("gpu-1", nics, node="gpu-1", slices=2, only=[0])
    cluster.apply(
        dra.device_class("nic", driver.name),
        dra.claim("default", "nic", "nic"),
        dra.pod("default", "nic", claims={"nic": "nic"}),
    )
    assert "cannot allocate all claims" in dra.unschedulable(api, "default", "nic")
    driver.publish("gpu-1", nics, node="gpu-1", slices=2)
    assert dra.running(api, "default", "nic")["spec"]["nodeName"] == "gpu-1"


def test_a_taint_of_the_driver_keeps_new_claims_away(cluster: Cluster) -> None:
    api = cluster.api
    driver = dra.Driver(api, "fpga.example.com")
    board = dra.Device(name="fpga-0", attributes={"firmware": dra.version("2.0.1")}, capacity={"cells": "10"})
    driver.publish("gpu-2", [board.tainted("fpga.example.com/unhealthy", "NoSchedule")], node="gpu-2")
    cluster.apply(
        dra.device_class("fpga", driver.name),
        dra.claim("default", "fpga", "fpga"),
        dra.pod("default", "fpga", claims={"fpga": "fpga"}),
    )
    assert "cannot allocate all claims" in dra.unschedulable(api, "default", "fpga")
    driver.publish("gpu-2", [board], node="gpu-2")
    assert dra.running(api, "default", "fpga")["spec"]["nodeName"] == "gpu-2"
