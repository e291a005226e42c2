"""Configuration that ConfigMaps hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.collect.configmaps import Configuration, gate_source_of_map, read_config_maps
from changegen.collect.inventory import Inventory
from tests.collect.build import config_map, records


def read(*maps: dict[str, object]) -> Configuration:
    return read_config_maps(Inventory.from_records(records(*maps)))


def cluster_configuration(extra: str) -> dict[str, object]:
    head = "kind: ClusterConfiguration\nkubernetesVersion: v1.36.3\nclusterName: prod\n"
    return config_map("kubeadm-config", {"ClusterConfiguration": head + extra})


V1BETA3 = """
apiVersion: kubeadm.k8s.io/v1beta3
apiServer: {extraArgs: {feature-gates: "A=true,B=false", audit-log-path: /secret/path}}
etcd: {local: {dataDir: /d, extraArgs: {experimental-x: "true"}}}
"""
V1BETA4 = """
apiVersion: kubeadm.k8s.io/v1beta4
apiServer:
  extraArgs:
  - {name: feature-gates, value: "A=true,B=true"}
  - {name: audit-log-path, value: /secret/path}
  - {name: feature-gates, value: "B=false"}
etcd: {external: {endpoints: ["https://10.0.0.1:2379"], keyFile: /k}}
featureGates: {Own: true}
"""


@pytest.mark.parametrize("text", [V1BETA3, V1BETA4])
def test_extra_args_as_a_map_and_as_a_list(text: str) -> None:
    config = read(cluster_configuration(text))
    source = config.kubeadm["kube-apiserver"]
    assert source.gates == {"A": True, "B": False}
    assert (source.provenance, source.certainty) == ("configmap", "intended")
    assert config.kubeadm["kube-scheduler"].gates == {}
    flags = {fact.name: fact.values for fact in config.kubeadm_flags["kube-apiserver"]}
    assert flags["audit-log-path"] is None
    assert config.cluster_name == "prod"


def test_external_etcd_is_said_without_its_hosts() -> None:
    config = read(cluster_configuration(V1BETA4))
    (fact,) = config.facts
    assert fact.etcd == "external"
    assert "10.0.0.1" not in str(fact)
    assert fact.own_feature_gates == {"Own": True}
    assert read(cluster_configuration(V1BETA3)).facts[0].etcd == "local"


def test_a_broken_document_is_reported_and_hides_no_other() -> None:
    config = read(
        config_map("kubelet-config", {"kubelet": "a: [1"}),
        cluster_configuration(V1BETA3),
    )
    assert [item.reason for item in config.unobserved] == ["malformed"]
    assert "kubelet-config" in config.unobserved[0].what
    assert config.kubelet is None
    assert [fact.kind for fact in config.facts] == ["kubeadm"]


def test_gates_that_are_no_booleans_are_problems() -> None:
    source = gate_source_of_map(
        {"A": True, "B": "true"}, provenance="configmap", place="x", certainty="intended"
    )
    assert source.gates == {"A": True}
    assert len(source.problems) == 1
    assert gate_source_of_map(None, provenance="configmap", place="x", certainty="intended").gates == {}


def test_the_plain_kubelet_config_wins_over_one_named_after_a_minor() -> None:
    config = read(
        config_map("kubelet-config-1.23", {"kubelet": "featureGates: {Old: true}"}),
        config_map("kubelet-config", {"kubelet": "featureGates: {New: true}\nstaticPodPath: /m"}),
    )
    assert config.kubelet is not None
    assert config.kubelet.gates == {"New": True}
    assert config.static_pod_path == "/m"


def test_of_a_configuration_file_names_and_types_are_kept_and_no_values() -> None:
    text = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodURLHeader: {Authorization: [secret-token]}
evictionHard: {memory.available: 100Mi}
registerWithTaints: [{key: a, value: 5}, {key: b, value: c}]
clusterDNS: [10.96.0.10]
syncFrequency: 1m0s
enableServer: yes
maxPods: 110
podsPerCore: -1
registryBurst: 99999999999
memoryThrottlingFactor: 0.8
nodeStatusMaxImages: null
maxPods: 50
"""
    (fact,) = read(config_map("kubelet-config", {"kubelet": text})).facts
    assert fact.document is not None
    assert fact.document.kind == "KubeletConfiguration"
    assert fact.document.duplicates == ("maxPods",)
    assert fact.document.fields == {
        "clusterDNS": "list",
        "clusterDNS[]": "string",
        "enableServer": "unclear",
        "evictionHard": "object",
        "evictionHard{}": "string",
        "maxPods": "int",
        "memoryThrottlingFactor": "float",
        "nodeStatusMaxImages": "null",
        "podsPerCore": "negative",
        "registerWithTaints": "list",
        "registerWithTaints[]": "object",
        "registerWithTaints[].key": "string",
        "registerWithTaints[].value": "int|string",
        "registryBurst": "int64",
        "staticPodURLHeader": "object",
        "staticPodURLHeader.Authorization": "list",
        "staticPodURLHeader.Authorization[]": "string",
        "syncFrequency": "duration",
    }
    assert "secret-token" not in str(fact)


def test_a_file_of_a_scheduler_is_known_by_its_kind_wherever_it_is() -> None:
    file = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 5\n"
    script = "#!/bin/sh\ncat > x <<EOF\nkind: KubeSchedulerConfiguration\n\tEOF\n"
    found = read(config_map("mine", {"a.yaml": file}), config_map("script", {"run.sh": script}))
    (fact,) = found.facts
    assert (fact.kind, fact.name, fact.api_version) == (
        "kube-scheduler",
        "mine",
        "kubescheduler.config.k8s.io/v1",
    )
    assert fact.document is not None
    assert fact.document.fields == {"parallelism": "int"}
    assert found.unobserved == ()


def test_k0s_profiles_count_for_their_minor_where_they_agree() -> None:
    def profile(name: str, gates: dict[str, bool]) -> dict[str, object]:
        return config_map(name, {"kubeletConfiguration": json.dumps({"featureGates": gates})})

    config = read(
        profile("worker-config-default-1.36", {"A": True}),
        profile("worker-config-gpu-1.36", {"A": True}),
        profile("worker-config-default-1.35", {"A": False}),
        profile("worker-config-gpu-1.35", {"A": True}),
    )
    found = config.kubelet_of_k0s("1.36")
    assert found is not None
    assert found.gates == {"A": True}
    assert config.kubelet_of_k0s("1.35") is None
    assert config.kubelet_of_k0s("1.34") is None


def test_openshift_configuration_by_revision_and_its_stand_in() -> None:
    def revision(name: str, gate: str) -> dict[str, object]:
        text = json.dumps({"apiServerArguments": {"feature-gates": [gate], "oauth-token": ["s3cret"]}})
        return config_map(name, {"config.yaml": text}, namespace="openshift-kube-apiserver")

    config = read(revision("config", "Now=true"), revision("config-8", "Then=true"))

    def gates(rev: str) -> dict[str, bool]:
        fact = config.openshift_for("openshift-kube-apiserver", "kube-apiserver", rev)
        assert fact is not None
        return fact.component_gates["kube-apiserver"].gates

    assert gates("8") == {"Then": True}
    assert gates("9") == {"Now": True}
    assert config.openshift_for("elsewhere", "kube-apiserver", "8") is None
    assert config.openshift_for("openshift-kube-apiserver", "kube-scheduler", "8") is None
    assert "s3cret" not in str(config)


def test_other_config_maps_are_not_looked_into() -> None:
    config = read(
        config_map("app", {"config.yaml": "apiServerArguments: secret", "password": "x"}),
        config_map("kube-proxy-notes", {"readme": "text"}),
        config_map("kubelet-config", {"kubelet": "featureGates: {A: true}"}, namespace="elsewhere"),
    )
    assert config.facts == ()
    assert config.unobserved == ()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "featureGates",
        "apiServer",
        "extraArgs",
        "etcd",
        "local",
        "external",
        "dns",
        "clusterName",
        "kubernetesVersion",
        "apiServerArguments",
        "extendedArguments",
        "staticPodPath",
        "mode",
        "kind",
        "name",
        "value",
    ]
)


@given(st.dictionaries(FIELDS, ANYTHING | st.dictionaries(FIELDS, ANYTHING, max_size=3), max_size=6))
def test_no_content_makes_it_fail(content: dict[str, object]) -> None:
    text = json.dumps(content)
    read(
        config_map("kubeadm-config", {"ClusterConfiguration": text}),
        config_map("kubelet-config", {"kubelet": text}),
        config_map("worker-config-default-1.36", {"kubeletConfiguration": text}),
        config_map("kube-proxy", {"config.conf": text + "\n# KubeProxyConfiguration"}),
        config_map("config", {"config.yaml": text}, namespace="openshift-kube-apiserver"),
    )


@pytest.mark.parametrize(
    "data", [{}, {"other": "x"}, {"kubelet": ""}, {"kubelet": "null"}, {"kubelet": "# no\n---\n"}]
)
def test_a_configuration_that_is_empty_is_told(data: dict[str, str]) -> None:
    found = read(config_map("kubelet-config", data))
    assert not found.facts
    (gap,) = found.unobserved
    assert (gap.what, gap.reason) == ("ConfigMap kube-system/kubelet-config kubelet", "malformed")
    assert gap.detail == "it is empty, or not there"
    (gap,) = read(config_map("kubeadm-config", data)).unobserved
    assert gap.what == "ConfigMap kube-system/kubeadm-config ClusterConfiguration"
