"""What a change of version really does, on the components themselves: the ground that verdicts stand on."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.controlplane import dra, scene
from tests.controlplane.cluster import Cluster, ComponentError, Node, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.process import wait_for

OLD, NEW = "1.36.3", "1.37.2"
MEMBERS = ["cp-1", "cp-2", "cp-3"]


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


def test_etcd_goes_back_while_a_member_is_old(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, MEMBERS) as cluster:
        for node in MEMBERS[:2]:
            replace_member(cluster, node, NEW)
        assert storage_versions(cluster) == {"3.6.0"}
        for node in MEMBERS[:2]:
            replace_member(cluster, node, OLD)
        assert "hello" in cluster.etcdctl("get", "greeting")


def test_etcd_refuses_to_go_back_when_all_members_are_new(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, MEMBERS) as cluster:
        for node in MEMBERS:
            replace_member(cluster, node, NEW)
        wait_for("storage version 3.7", lambda: storage_versions(cluster) == {"3.7.0"})
        with pytest.raises(ComponentError) as refused:
            replace_member(cluster, "cp-1", OLD)
        assert refused.value.exit_code not in {0, None}
        cluster.stop_instance("etcd", "cp-1")
        replace_member(cluster, "cp-1", NEW)

        cluster.etcdctl("downgrade", "validate", "3.6")
        cluster.etcdctl("downgrade", "enable", "3.6")
        wait_for("storage version 3.6", lambda: storage_versions(cluster) == {"3.6.0"})
        for node in MEMBERS:
            replace_member(cluster, node, OLD)
        assert "hello" in cluster.etcdctl("get", "greeting")


def test_a_single_etcd_member_does_not_go_back(tmp_path: Path) -> None:
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


def test_kubeadm_lists_what_it_would_upgrade(start_cluster: Callable[[Plan], Cluster]) -> None:
    need(OLD, NEW)
    machine = socket.gethostname()
    cluster = start_cluster(Plan(version=OLD, nodes=[control_plane(machine), Node(name="worker-1")]))
    lines = {(line.component, line.node): (line.current, line.target) for line in cluster.upgrade_plan(NEW)}
    assert lines["kube-apiserver", machine] == (f"v{OLD}", f"v{NEW}")
    assert lines["kubelet", "worker-1"] == (f"v{OLD}", f"v{NEW}")
    assert lines["etcd", machine] == ("3.6.8-0", "3.7.0-0")
    assert {component for component, _ in lines} == {*CONTROL_PLANE, "kubelet", "kube-proxy", "CoreDNS"}


def test_the_whole_change(stopped_by_a_gate: Cluster) -> None:
    cluster = stopped_by_a_gate
    cluster.stop_instance("kube-apiserver", "cp-1")

    # kubeadm puts the old manifest back; etcd stays on the new version.
    cluster.write_manifests("cp-1", OLD)
    cluster.start_instance("kube-apiserver", "cp-1")
    assert cluster.component_version("etcd", "cp-1") == NEW
    assert cluster.api.get("/version")["gitVersion"] == f"v{OLD}"
    assert dra.taint_rule_version(cluster.api) == "v1beta2"

    cluster.upgrade_node("cp-1", NEW, scene.configuration(removed_gate=False))
    cluster.finish_upgrade(NEW)
    cluster.upgrade_kubelets(NEW)
    assert cluster.api.get("/version")["gitVersion"] == f"v{NEW}"
    rule = cluster.api.get("/apis/resource.k8s.io/v1/devicetaintrules/maintenance")
    assert rule["spec"]["taint"]["effect"] == "None"
    assert dra.running(cluster.api, "default", "train")["status"]["extendedResourceClaimStatus"]

    # Back: the old apiserver, with its own defaults, on the etcd that cannot go back.
    cluster.stop_instance("kube-apiserver", "cp-1")
    cluster.write_manifests("cp-1", OLD, {})
    cluster.start_instance("kube-apiserver", "cp-1")
    assert cluster.api.get("/version")["gitVersion"] == f"v{OLD}"
    assert dra.taint_rule_version(cluster.api) is None
    assert "maintenance" in cluster.etcdctl("get", "/registry/devicetaintrules/", "--prefix", "--keys-only")
    assert cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")
