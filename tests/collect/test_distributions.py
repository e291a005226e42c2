"""Marks of distributions, their strength, ties, and what is not guessed."""

from __future__ import annotations

from typing import Any

import pytest

from changegen.collect import build_snapshot
from changegen.collect.distributions import KNOWLEDGE
from changegen.model.snapshot import Cluster
from tests.collect.build import apiserver, config_map, container, node, pod, records

KUBEADM = config_map("kubeadm-config", {"ClusterConfiguration": "kind: ClusterConfiguration"})


def cluster(*objects: dict[str, Any], version: str = "") -> Cluster:
    return build_snapshot(records(*objects, version=version)).cluster


@pytest.mark.parametrize(
    ("found", "distribution"),
    [
        ([node("n", labels={"kops.k8s.io/instancegroup": "a"})], "kops"),
        ([node("n", "v1.36.3-gke.1000")], "gke"),
        ([node("n", labels={"cloud.google.com/gke-nodepool": "p"})], "gke"),
        ([node("n", labels={"eks.amazonaws.com/nodegroup": "p"})], "eks"),
        ([node("n", labels={"kubernetes.azure.com/cluster": "p"})], "aks"),
        ([node("n", "v1.36.3+k0s")], "k0s"),
        ([config_map("worker-config-default-1.36", {"kubeletConfiguration": "{}"})], "k0s"),
        ([node("n", annotations={"rke.cattle.io/internal-ip": "192.0.2.1"})], "rke1"),
        ([node("n", labels={"worker.gardener.cloud/pool": "p"})], "gardener"),
        (
            [node("n", labels={"hypershift.openshift.io/nodePool": "p", "node.openshift.io/os_id": "rhel"})],
            "hypershift",
        ),
        ([node("n", annotations={"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///x"})], "kubeadm"),
        ([KUBEADM], "kubeadm"),
        ([KUBEADM, node("n", spec={"providerID": "kind://docker/a/n"})], "kind"),
        ([KUBEADM, node("n", annotations={"cluster.x-k8s.io/cluster-name": "wl"})], "cluster-api"),
        ([KUBEADM, node("n", labels={"minikube.k8s.io/version": "v1.37.0"})], "minikube"),
        ([node("n", "v1.36.3+rke2r1", annotations={"k3s.io/internal-ip": "192.0.2.1"})], "rke2"),
        ([node("n")], "unknown"),
        ([node("kops-node"), pod("eks-thing", containers=[container("x")])], "unknown"),
    ],
)
def test_marks(found: list[dict[str, Any]], distribution: str) -> None:
    assert cluster(*found).distribution == distribution


def test_kubespray_is_not_guessed() -> None:
    assert cluster(KUBEADM, apiserver()).distribution == "kubeadm"
    assert "leaves no mark" in KNOWLEDGE["kubespray"].control_plane


def test_ties_are_shown_and_the_better_supported_comes_first() -> None:
    found = cluster(
        node("a", labels={"eks.amazonaws.com/nodegroup": "p"}),
        node("b", "v1.36.3+k3s1", labels={"node.kubernetes.io/instance-type": "k3s"}),
    )
    assert found.distribution == "k3s"
    assert found.distribution_ties == ("eks", "k3s")


def test_a_vendors_build_on_an_own_control_plane_is_not_its_service() -> None:
    found = cluster(
        KUBEADM, apiserver(image="x/kube-apiserver:v1.36.3-eks-1-36-4"), node("n", "v1.36.3-eks-1-36-4")
    )
    assert found.distribution == "kubeadm"
    assert not found.managed
    assert "eks" in {item.distribution for item in found.distribution_evidence}


def test_a_managed_control_plane_is_called_so() -> None:
    assert cluster(node("n", "v1.36.3-eks-abc1234"), version="v1.36.3-eks-def5678").managed


def test_a_host_of_control_planes_is_named_only_where_nothing_else_is_seen() -> None:
    tenant = pod(
        "a",
        namespace="tenants",
        labels={"kamaji.clastix.io/name": "a"},
        containers=[container("kube-apiserver", "x/kube-apiserver:v1.33.2", ["kube-apiserver"])],
    )
    assert cluster(tenant).distribution == "kamaji"
    assert cluster(tenant, node("n")).distribution == "unknown"
    assert cluster(tenant, node("n")).hosted == ("kamaji:tenants/a",)


def test_the_share_of_nodes_is_part_of_the_evidence() -> None:
    (evidence,) = cluster(node("a", "v1.36.3+k3s1"), node("b")).distribution_evidence
    assert evidence.evidence == "kubeletVersion v1.36.3+k3s1: Nodes 1 of 2"


def test_the_clusters_name_by_cluster_api() -> None:
    found = cluster(node("n", annotations={"cluster.x-k8s.io/cluster-name": "wl"}))
    assert (found.name, found.name_source) == ("wl", "node annotation cluster.x-k8s.io/cluster-name")


def test_knowledge_is_complete() -> None:
    wanted = (
        "kubeadm kind minikube k3s rke2 rke1 k0s microk8s openshift hypershift talos kops kubespray eks gke aks kamaji "
        "vcluster k0smotron gardener cluster-api kubermatic unknown"
    )
    assert set(KNOWLEDGE) == set(wanted.split())
