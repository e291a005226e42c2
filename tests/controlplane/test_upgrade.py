"""What a change of version really does, on the components themselves: the ground that verdicts stand on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import dra, kubeadm, machine, scene
from tests.controlplane.cluster import Cluster, ComponentError, Node, Plan, UpgradeLine, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

OLD, NEW = "1.36.3", "1.37.2"


@contextmanager
def etcd_cluster(root: Path, members: list[str]) -> Iterator[Cluster]:
    """Real etcd members of OLD, and no other component."""
    need(OLD, NEW)
    plan = Plan(version=OLD, nodes=[control_plane(name) for name in members], running={"etcd": members})
    cluster = Cluster(plan, root)
    try:
        cluster.prepare()
        cluster.start_component("etcd")
        cluster.etcdctl("put", "greeting", "hello")
        yield cluster
    finally:
        cluster.stop()


def replace_member(cluster: Cluster, node: str, version: str) -> None:
    """Stop one member and start it in the etcd of ``version``, on its data."""
    cluster.write_manifests(node, version)
    cluster.restart_instance("etcd", node)


def storage_versions(cluster: Cluster) -> set[str]:
    answer = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
    return {str(member["Status"].get("storageVersion")) for member in answer}


def etcd_promise(ticket: Mapping[str, Any]) -> tuple[str, str]:
    step = next(step for step in ticket["rollback"] if step["what"].startswith("etcd"))
    return step["verdict"], step["until"]


def test_a_single_etcd_member_does_not_go_back(planned: Planned, tmp_path: Path) -> None:
    promised = etcd_promise(planned.ticket)
    assert promised == ("reversible-until", "its only member runs 3.7, at once when the change starts")
    with etcd_cluster(tmp_path, ["cp-1"]) as cluster:
        replace_member(cluster, "cp-1", NEW)
        wait_for("storage version 3.7", lambda: storage_versions(cluster) == {"3.7.0"})
        with pytest.raises(ComponentError):
            replace_member(cluster, "cp-1", OLD)


@pytest.fixture(scope="module")
def stopped_by_a_gate(start_cluster: Callable[[Plan], Cluster]) -> Iterator[Cluster]:
    """An upgrade from OLD in which the removed gate was forgotten: the new apiserver did not start."""
    need(OLD, NEW)
    cluster = start_cluster(
        Plan(
            version=OLD,
            nodes=[control_plane("cp-1"), Node(name="gpu-1", labels=scene.GPU)],
            configuration=scene.configuration(removed_gate=True),
        )
    )
    scene.publish_gpus(cluster, {"gpu-1": "1.2.0"})
    cluster.apply(
        dra.device_class("gpu.example.com", "gpu.example.com", extended_resource="example.com/gpu"),
        dra.pod("default", "train", limits={"example.com/gpu": "1"}),
        dra.taint_rule(
            "maintenance",
            api_version="v1beta2",
            key="example.com/maintenance",
            effect="None",
            driver="gpu.example.com",
        ),
    )
    dra.running(cluster.api, "default", "train")
    with pytest.raises(ComponentError, match="unrecognized feature gate: SidecarContainers"):
        cluster.upgrade_node("cp-1", NEW)
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        yield cluster


PAGE = Path(__file__).parents[2] / "docs" / "kubeadm-plan.md"

# Part of the ticket → what it holds.
BEYOND = {
    "findings": "findings: what stops the change or must be known, with evidence and remedy",
    "forecast": "feature gates, flags and APIs: what the target does to what is set, and to what is not",
    "features": "features of Dynamic Resource Allocation: whether all components together are ready for them",
    "resources": "extended resources: who serves them on which node",
    "pools": "pools of devices: how many are allocated and tainted",
    "taints": "taints of nodes and devices, and rules",
    "blast": "workloads that hold devices",
    "capacity": "nodes: what their Pods find elsewhere when they are drained",
    "steps": "steps with commands, and what must be true to go on",
    "checks": "checks with the value today and the value expected",
    "rollback": "steps back, each with its verdict",
    "monitoring": "signals to watch, and when to stop",
    "fields": "fields of the change record",
}


@dataclass(frozen=True)
class Planned:
    """A small cluster, and changegen's ticket of it."""

    cluster: Cluster
    ticket: dict[str, Any]


@pytest.fixture(scope="module")
def planned(start_cluster: Callable[[Plan], Cluster], tmp_path_factory: pytest.TempPathFactory) -> Planned:
    need(OLD, NEW)
    cluster = start_cluster(
        Plan(
            version=OLD,
            nodes=[control_plane("cp-1"), Node(name="gpu-1", labels=scene.GPU)],
            configuration=scene.configuration(removed_gate=True),
        )
    )
    scene.publish_gpus(cluster, {"gpu-1": "1.2.0"})
    cluster.apply(
        dra.device_class("gpu.example.com", "gpu.example.com", extended_resource="example.com/gpu"),
        dra.pod("default", "train", limits={"example.com/gpu": "1"}),
    )
    dra.running(cluster.api, "default", "train")
    output = tmp_path_factory.mktemp("plan") / "ticket.json"
    changegen("ticket", "--to", NEW, "-o", output, kubeconfig=cluster.admin_kubeconfig)
    return Planned(cluster, json.loads(output.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def listed(planned: Planned) -> list[UpgradeLine]:
    """What kubeadm lists of the same cluster."""
    if reason := machine.impossible():
        pytest.skip(reason)
    return planned.cluster.upgrade_plan(NEW)


def test_kubeadm_lists_what_it_would_upgrade(listed: list[UpgradeLine]) -> None:
    lines = {(line.component, line.node): (line.current, line.target) for line in listed}
    assert lines["kube-apiserver", "cp-1"] == (f"v{OLD}", f"v{NEW}")
    assert lines["kubelet", "gpu-1"] == (f"v{OLD}", f"v{NEW}")
    assert lines["etcd", "cp-1"] == ("3.6.8-0", "3.7.0-0")
    assert {component for component, _ in lines} == {*CONTROL_PLANE, "kubelet", "kube-proxy", "CoreDNS"}


def bare(version: str) -> str:
    return version.removeprefix("v").removesuffix("-0")


def test_all_that_kubeadm_lists_is_in_the_ticket(listed: list[UpgradeLine], planned: Planned) -> None:
    for line in listed:
        rows = [
            row
            for row in planned.ticket["instances"]
            if row["component"] == line.component.lower() and line.node in {"", row["node"]}
        ]
        assert rows, line
        for row in rows:
            assert (bare(row["current"]), bare(row["target"])) == (bare(line.current), bare(line.target)), (
                line
            )
            assert row["action"] == "upgrade"


def test_the_page_of_the_comparison_is_true(listed: list[UpgradeLine], planned: Planned) -> None:
    ticket = planned.ticket
    out = [
        "# Side by side with kubeadm upgrade plan",
        "",
        "<!-- Made by tests/controlplane/test_upgrade.py (CHANGEGEN_UPDATE_DOCS=1 rewrites it). Do not edit. -->",
        "",
        (
            f"Both were asked about the same real cluster: one control-plane node and one worker of {OLD} that "
            f"publishes devices, made by kubeadm, with SidecarContainers=true for kube-apiserver. The target is {NEW}."
        ),
        "",
        "## What kubeadm lists, and the ticket too",
        "",
        "| component | node | current | target |",
        "|---|---|---|---|",
    ]
    out += [f"| {' | '.join(row)} |" for row in sorted(listed)]
    out += ["", "## What the ticket has beyond it", "", "| what | in this ticket |", "|---|---|"]
    for part, title in BEYOND.items():
        # One bare Pod is no load that could lack room elsewhere.
        assert ticket[part] or part == "capacity", part
        out.append(f"| {title} | {len(ticket[part])} |")
    blocking = [finding for finding in ticket["findings"] if finding["severity"] == "blocking"]
    assert len(blocking) == 1
    out += ["", "What stops this change, and kubeadm does not say:", "", f"> {blocking[0]['message']}", ""]
    text = "\n".join(out)
    if os.environ.get("CHANGEGEN_UPDATE_DOCS"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "CHANGEGEN_UPDATE_DOCS=1 makes the page anew"


def promises(cluster: Cluster, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What changegen's ticket says of the way back of DeviceTaintRules, and of Pods of extended resources."""
    output = folder / "ticket.json"
    changegen("ticket", "--to", NEW, "-o", output, kubeconfig=cluster.admin_kubeconfig)
    steps = {step["what"]: step for step in json.loads(output.read_text(encoding="utf-8"))["rollback"]}
    return steps["DeviceTaintRules"], steps["Pods that get devices by an extended resource"]


def gets_a_device(cluster: Cluster, name: str) -> bool:
    """Whether a new Pod that asks for example.com/gpu is placed; it is deleted again."""
    cluster.apply(dra.pod("default", name, limits={"example.com/gpu": "1"}))
    path = f"/api/v1/namespaces/default/pods/{name}"

    def answer() -> str | None:
        status = cluster.api.get(path)["status"]
        if status.get("phase") == "Running":
            return "placed"
        waits = any(entry.get("reason") == "Unschedulable" for entry in status.get("conditions", []))
        return "waits" if waits else None

    try:
        return wait_for(f"the scheduler's answer to {name}", answer) == "placed"
    finally:
        cluster.kubectl("delete", "pod", name, "--grace-period=1")


def obey(cluster: Cluster, version: str, configuration: Mapping[str, Any]) -> None:
    """Put manifests of ``configuration`` in place and restart all but etcd."""
    cluster.write_manifests("cp-1", version, configuration)
    servers = [component for component in CONTROL_PLANE if component != "etcd"]
    cluster.place_manifests("cp-1", servers)
    for component in servers:
        cluster.restart_instance(component, "cp-1")
    cluster.wait_mirror_pods("cp-1", servers)


WITHOUT_EXTENDED = kubeadm.extra_args(
    gates=dict.fromkeys(CONTROL_PLANE[1:], "DRAExtendedResource=false"),
)


def test_rules_and_extended_resources_after_a_way_back(stopped_by_a_gate: Cluster, tmp_path: Path) -> None:
    cluster = stopped_by_a_gate
    cluster.stop_instance("kube-apiserver", "cp-1")

    # kubeadm puts the old manifests back; etcd stays on the new version. They set the gate and serve the API.
    obey(cluster, OLD, scene.configuration(removed_gate=True))
    assert cluster.component_version("etcd", "cp-1") == NEW
    assert cluster.api.get("/version")["gitVersion"] == f"v{OLD}"
    etcd = "/api/v1/namespaces/kube-system/pods/etcd-cp-1"

    def shown() -> bool:
        pod = cluster.api.find(etcd)
        return (
            bool(pod)
            and ":3.7." in pod["spec"]["containers"][0]["image"]
            and pod["status"]["phase"] == "Running"
        )

    # Its kubelet could not tell of the new etcd while the apiserver was away.
    wait_for("the mirror Pod of the new etcd", shown)
    steps = promises(cluster, tmp_path)
    assert etcd_promise(json.loads((tmp_path / "ticket.json").read_text(encoding="utf-8"))) == ("one-way", "")
    for promised in steps:
        assert (promised["verdict"], promised["lost"]) == ("reversible", "")
    assert dra.taint_rule_version(cluster.api) == "v1beta2"
    assert gets_a_device(cluster, "with-the-gate")

    # The same objects, served by flags that no manifest has: the way back will not have them.
    # Nor is the gate of extended resources on in them.
    gates = f"{scene.TAINT_RULES},DRAExtendedResource=false"
    flags = {"runtime-config": "resource.k8s.io/v1beta2=true", "feature-gates": gates}
    cluster.plan = replace(cluster.plan, apiserver=flags)
    obey(cluster, OLD, WITHOUT_EXTENDED)
    assert dra.taint_rule_version(cluster.api) == "v1beta2"
    rules, extended = promises(cluster, tmp_path)
    assert "without effect" in rules["lost"]
    assert "example.com/gpu from device plugins only" in extended["lost"]
    cluster.plan = replace(cluster.plan, apiserver={})

    cluster.upgrade_node("cp-1", NEW, {})
    cluster.finish_upgrade(NEW)
    cluster.upgrade_kubelets(NEW)
    assert cluster.api.get("/version")["gitVersion"] == f"v{NEW}"
    rule = cluster.api.get("/apis/resource.k8s.io/v1/devicetaintrules/maintenance")
    assert rule["spec"]["taint"]["effect"] == "None"
    assert dra.running(cluster.api, "default", "train")["status"]["extendedResourceClaimStatus"]

    assert gets_a_device(cluster, "in-the-new-minor")

    # Back: the old servers as their manifests were, on the etcd that cannot go back.
    cluster.upgrade_kubelets(OLD)
    obey(cluster, OLD, WITHOUT_EXTENDED)
    assert cluster.api.get("/version")["gitVersion"] == f"v{OLD}"
    assert dra.taint_rule_version(cluster.api) is None
    assert "maintenance" in cluster.etcdctl("get", "/registry/devicetaintrules/", "--prefix", "--keys-only")
    assert cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")
    # The Pod that runs keeps its claim; a new one waits.
    assert dra.running(cluster.api, "default", "train")["status"]["extendedResourceClaimStatus"]
    assert not gets_a_device(cluster, "without-the-gate")
