"""Every distribution's capture against its right answer: one entry an instance, the nine keys, nothing more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.snapshot import Snapshot
from changegen.store import canonical

ROOT = Path(__file__).parents[1] / "data" / "fixtures"
FOLDERS = sorted(folder.name for folder in ROOT.iterdir() if folder.is_dir())
COMPARED = ("component", "instance", "node", "version", "feature_gates", "gates_certainty", "belongs_to")
"""The nine keys without the two that say why in words."""


def read(folder: str) -> tuple[Snapshot, dict[str, Any]]:
    files = sorted(file for file in (ROOT / folder).iterdir() if file.name != "expected.json")
    expected: dict[str, Any] = json.loads((ROOT / folder / "expected.json").read_text(encoding="utf-8"))
    return build_snapshot(read_input(files)), expected


def rows(components: list[dict[str, Any]]) -> dict[tuple[str, str | None, str], dict[str, Any]]:
    return {
        (item["component"], item["instance"], item["belongs_to"]): {key: item[key] for key in COMPARED}
        for item in components
    }


def test_all_folders_are_there() -> None:
    assert len(FOLDERS) == 16


@pytest.mark.parametrize("folder", FOLDERS)
def test_components_are_exactly_those_that_the_capture_shows(folder: str) -> None:
    snapshot, expected = read(folder)
    found = json.loads(canonical(snapshot.components))
    assert rows(found) == rows(expected["components"])
    assert len(found) == len(expected["components"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_distribution_and_server_version(folder: str) -> None:
    snapshot, expected = read(folder)
    assert snapshot.cluster.distribution == expected["distribution"]
    assert snapshot.cluster.server_version == expected["server_version"]
    assert not snapshot.cluster.distribution_ties


@pytest.mark.parametrize("folder", FOLDERS)
def test_certainty_is_missing_exactly_where_gates_are_unobservable_and_reasons_are_given(folder: str) -> None:
    snapshot, _ = read(folder)
    for item in snapshot.components:
        assert (item.gates_certainty is None) == (item.feature_gates == "unobservable")
        assert item.version_source
        assert item.feature_gates_source
        if item.feature_gates != "unobservable":
            assert item.gate_sources
            assert item.gate_sources[0].gates == item.feature_gates


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_distribution_but_the_unknown_one_has_evidence_with_a_place(folder: str) -> None:
    cluster = read(folder)[0].cluster
    own = [item for item in cluster.distribution_evidence if item.distribution == cluster.distribution]
    assert bool(own) == (cluster.distribution != "unknown")
    assert all(item.place and item.evidence for item in cluster.distribution_evidence)
    strengths = [item.strength for item in cluster.distribution_evidence]
    assert strengths == sorted(strengths, reverse=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_failed_and_kinds_that_are_absent_are_unobserved(folder: str) -> None:
    snapshot, _ = read(folder)
    assert not [item for item in snapshot.unobserved if item.failed]
    unread = {item.what for item in snapshot.unobserved if item.reason == "not-in-capture"}
    assert "resourceslices.resource.k8s.io" in unread
    assert not unread & set(snapshot.kinds_read)


def test_gaps_of_a_managed_control_plane_are_by_nature_and_name_what_could_help() -> None:
    snapshot, _ = read("eks")
    assert snapshot.cluster.managed
    gaps = {item.what: item for item in snapshot.unobserved}
    assert gaps["kube-scheduler version"].reason == "by-nature"
    assert gaps["kube-apiserver feature gates"].remedy == "kubectl get --raw /metrics"
    assert gaps["kubelet feature gates"].reason == "not-in-capture"


def test_secrets_of_a_node_annotation_stay_out() -> None:
    snapshot, _ = read("k3s")
    text = canonical(snapshot).decode()
    assert "--token" not in text
    assert "192.0.2.10:6443" not in text
    server = next(item for item in snapshot.components if item.component == "kube-apiserver")
    assert [fact.name for fact in server.flags] == ["feature-gates", "runtime-config"]
    assert not server.flags_observable


def test_hosted_control_planes_are_named_and_kept_apart() -> None:
    snapshot, _ = read("kamaji")
    assert snapshot.cluster.hosted == ("kamaji:tenants/tenant-a", "kamaji:tenants/tenant-b")
    here = {item.version for item in snapshot.components if item.belongs_to == "this cluster"}
    assert here == {"v1.34.1"}


def test_openshift_reads_its_own_release_and_gates_of_the_release_in_force() -> None:
    snapshot, _ = read("openshift")
    assert snapshot.cluster.distribution_version == "4.18.5"
    assert snapshot.openshift["desired"] == "4.18.5"
    assert snapshot.openshift["current"] == "4.17.20"
    assert snapshot.openshift["gates_version"] == "4.18.5"
    server = next(item for item in snapshot.components if item.component == "kube-apiserver")
    assert server.runtime_config == ("admissionregistration.k8s.io/v1beta1=true",)
    custom = next(source for source in server.gate_sources if source.provenance == "custom resource")
    assert custom.gates["BuildCSIVolumes"] is True


def test_kubeadms_own_gates_and_etcds_are_no_cluster_gates() -> None:
    snapshot, _ = read("kubeadm")
    fact = next(item for item in snapshot.config_maps if item.kind == "kubeadm")
    assert fact.own_feature_gates == {"RootlessControlPlane": False}
    for item in snapshot.components:
        if item.component != "etcd":
            assert "InitialCorruptCheck" not in item.feature_gates
        assert "RootlessControlPlane" not in item.feature_gates


def test_talos_and_minikube_name_their_own_versions_apart() -> None:
    assert read("talos")[0].cluster.distribution_version == "v1.13.2"
    minikube = read("minikube")[0].cluster
    assert minikube.distribution_version == "v1.37.0"
    assert minikube.server_version is None
