"""Devices on a real scheduler and a real taint controller."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import dra, kubeadm
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

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


# What changegen says beforehand, and what then happens


@pytest.fixture(scope="module")
def tpus(cluster: Cluster) -> dra.Driver:
    """Six devices of a driver of their own, held by claims of every kind, in two namespaces."""
    api = cluster.api
    driver = dra.Driver(api, "tpu.example.com")
    for node in ("gpu-1", "gpu-2"):
        driver.publish(node, [dra.Device(name=f"tpu-{number}") for number in range(3)], node=node)
    cluster.kubectl("create", "namespace", "team-b")
    cluster.wait_service_account("team-b")
    any_effect = {"key": "example.com/service", "operator": "Exists"}
    cluster.apply(
        dra.device_class("tpu", driver.name, extended_resource="example.com/tpu"),
        dra.claim("default", "t-plain", "tpu"),
        dra.claim("default", "t-any", "tpu", tolerations=[any_effect]),
        dra.claim("team-b", "t-tolerant", "tpu", tolerations=[{**any_effect, "effect": "NoExecute"}]),
        dra.claim("team-b", "t-other", "tpu", tolerations=[{**any_effect, "key": "example.com/else"}]),
        dra.pod("default", "t-plain", claims={"tpu": "t-plain"}),
        dra.pod("default", "t-any", claims={"tpu": "t-any"}),
        dra.pod("team-b", "t-tolerant", claims={"tpu": "t-tolerant"}),
        dra.pod("team-b", "t-other", claims={"tpu": "t-other"}),
        dra.pod("team-b", "t-mapped", limits={"example.com/tpu": "1"}),
    )
    for namespace, name in HOLDERS:
        dra.running(api, namespace, name)
    return driver


HOLDERS = (
    ("default", "t-plain"),
    ("default", "t-any"),
    ("team-b", "t-tolerant"),
    ("team-b", "t-other"),
    ("team-b", "t-mapped"),
)


def forecast(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """``changegen taint`` as JSON: the one taint that is asked for."""
    done = changegen("taint", *arguments, "-f", "json", kubeconfig=cluster.admin_kubeconfig)
    taints = json.loads(done.stdout)["taints"]
    assert len(taints) == 1
    return dict(taints[0])


def counted(taint: dict[str, Any]) -> tuple[int, int, int, int]:
    """(devices published, devices allocated, Pods evicted, namespaces of those)."""
    gone = evicted_of(taint)
    return (
        sum(1 for device in taint["devices"] if device["published"]),
        sum(1 for device in taint["devices"] if device["allocated"]),
        len(gone),
        len({namespace for namespace, _ in gone}),
    )


def evicted_of(taint: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (pod["namespace"], pod["name"])
        for pod in taint["pods"]
        if pod["outcome"] in {"evicted", "evicted-later", "unknown"}
    }


MESSAGE = re.compile(
    r"(\d+) published devices? selected\. (\d+) allocated devices? selected\. "
    r"(?:(\d+) pods? would be evicted in (\d+) (?:different )?namespaces?)?"
)


def said_by_controller(message: str) -> tuple[int, int, int, int]:
    found = MESSAGE.search(message)
    assert found, message
    published, allocated, pods, namespaces = (int(group or 0) for group in found.groups())
    return published, allocated, pods, namespaces


def rule_name(version: str, name: str) -> str:
    return f"devicetaintrules.{version}.resource.k8s.io/{name}"


def test_the_blast_radius_is_what_the_taint_controller_does(cluster: Cluster, tpus: dra.Driver) -> None:
    api = cluster.api
    version = dra.taint_rule_version(api)
    assert version is not None
    asked = ("--driver", tpus.name, "--key", "example.com/service", "--name", "service")
    planned = {
        effect: forecast(cluster, *asked, "--effect", effect)
        for effect in ("None", "NoSchedule", "NoExecute")
    }
    # The YAML that is printed is what is applied.
    for effect in planned:
        text = changegen(
            *("taint", *asked, "--effect", effect, "-f", "yaml"), kubeconfig=cluster.admin_kubeconfig
        ).stdout
        before = forecast(cluster, *asked, "--effect", effect)
        cluster.kubectl("apply", "-f", "-", stdin=text)
        if effect == "None":
            message = dra.taint_rule_condition(api, "service", api_version=version, reason="NoEffect")[
                "message"
            ]
            assert said_by_controller(message) == counted(before)
        elif effect == "NoSchedule":
            cluster.apply(
                dra.claim("default", "t-late", "tpu"), dra.pod("default", "t-late", claims={"tpu": "t-late"})
            )
            dra.unschedulable(api, "default", "t-late")
            assert holders(cluster) == set(HOLDERS)
            cluster.kubectl("delete", "pod/t-late", "resourceclaim/t-late", "--grace-period=1")
        else:
            expected = evicted_of(before)
            wait_for("eviction", partial(_are_gone, cluster, expected))
            assert dra.taint_rule_condition(api, "service", api_version=version, reason="Completed")
            # What the controller may do too late would be seen in this time.
            time.sleep(3)
            assert set(HOLDERS) - holders(cluster) == expected
    mapped = next(pod for pod in planned["NoExecute"]["pods"] if pod["name"] == "t-mapped")
    assert mapped["extended_resource"]
    assert mapped["outcome"] == ("evicted" if cluster.version.startswith("1.37.") else "spared")
    cluster.kubectl("delete", rule_name(version, "service"))


def _are_gone(cluster: Cluster, expected: set[tuple[str, str]]) -> bool:
    return set(HOLDERS) - holders(cluster) == expected


def holders(cluster: Cluster) -> set[tuple[str, str]]:
    """The Pods of ``HOLDERS`` that are there and not on their way out."""
    pods = cluster.api.items("/api/v1/pods")
    alive = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }
    return alive & set(HOLDERS)


@pytest.mark.parametrize("selector", ["empty", "missing"])
def test_an_empty_and_a_missing_selector_differ(cluster: Cluster, tpus: dra.Driver, selector: str) -> None:
    api = cluster.api
    version = dra.taint_rule_version(api)
    assert version is not None
    rule = dra.taint_rule("wide", api_version=version, key="example.com/wide", effect="NoSchedule")
    if selector == "missing":
        del rule["spec"]["deviceSelector"]
    cluster.apply(rule)
    try:
        seen = forecast(cluster, "--rule", "wide")
        if selector == "empty":
            slices = api.items("/apis/resource.k8s.io/v1/resourceslices")
            assert counted(seen)[0] == sum(len(item["spec"]["devices"]) for item in slices)
        else:
            assert counted(seen)[:2] == (0, 0)
        keeps_away = selector == "empty" or seen["scheduling_all"]
        assert keeps_away is not (selector == "missing" and cluster.version.startswith("1.37."))
        cluster.apply(
            dra.claim("default", "t-wide", "tpu"), dra.pod("default", "t-wide", claims={"tpu": "t-wide"})
        )
        if keeps_away:
            dra.unschedulable(api, "default", "t-wide")
        else:
            dra.running(api, "default", "t-wide")
    finally:
        cluster.kubectl("delete", rule_name(version, "wide"))
        cluster.kubectl(
            "delete", "pod/t-wide", "resourceclaim/t-wide", "--grace-period=1", "--ignore-not-found"
        )


def test_the_ticket_shows_who_serves_an_extended_resource(
    cluster: Cluster, tpus: dra.Driver, tmp_path: Path
) -> None:
    cluster.apply(
        dra.pod("default", "g-plugin", limits={"example.com/gpu": "1"}, nodeName="plugin-1"),
        dra.pod("default", "g-too-many", limits={"example.com/gpu": "9"}),
    )
    words = dra.unschedulable(cluster.api, "default", "g-too-many")
    output = tmp_path / "ticket.json"
    target = "1.37.2" if cluster.version.startswith("1.36.") else cluster.version
    changegen("ticket", "--to", target, "-o", output, kubeconfig=cluster.admin_kubeconfig)
    text = output.read_text(encoding="utf-8")
    ticket = json.loads(text)
    row = next(row for row in ticket["resources"] if row["resource"] == "example.com/gpu")
    assert row["device_class"] == "gpu"
    kinds = {node: row["by_node"].get(node) for node in ("gpu-1", "gpu-2", "plugin-1")}
    assert kinds["gpu-1"] == kinds["gpu-2"]
    assert kinds["gpu-1"] != kinds["plugin-1"]
    assert row["pending"] >= 1
    # The scheduler's own words, in the part that people read.
    ticket.pop("snapshot")
    reason = words.partition(": ")[2].partition(",")[0].rstrip(".")
    assert reason in json.dumps(ticket, ensure_ascii=False), words
    cluster.kubectl("delete", "pod", "g-plugin", "g-too-many", "--grace-period=1")
