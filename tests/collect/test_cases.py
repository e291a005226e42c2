"""Odd inputs from the field: what the snapshot must say of them, and must not."""

from __future__ import annotations

from pathlib import Path

from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.snapshot import Component, Snapshot
from changegen.store import canonical

CASES = Path(__file__).parents[1] / "data" / "cases"
LAYOUTS = Path(__file__).parent / "data"


def read(name: str) -> Snapshot:
    folder = CASES / name / "input"
    return build_snapshot(read_input(folder if folder.is_dir() else LAYOUTS / name))


def of(snapshot: Snapshot, component: str) -> list[Component]:
    return [item for item in snapshot.components if item.component == component]


def unobserved(snapshot: Snapshot, what: str) -> list[str]:
    return [item.reason for item in snapshot.unobserved if item.what == what]


def test_removed_gate_is_read_and_kubelets_are_not_in_the_capture() -> None:
    snapshot = read("removed-gate-apiserver")
    (item,) = of(snapshot, "kube-apiserver")
    assert item.version == "v1.34.8"
    assert item.feature_gates == {"UserNamespacesPodSecurityStandards": True}
    assert not of(snapshot, "kubelet")
    assert unobserved(snapshot, "nodes") == ["not-in-capture"]


def test_locked_gates_set_to_false_are_kept_as_they_are() -> None:
    snapshot = read("locked-gate-false")
    assert of(snapshot, "kube-apiserver")[0].feature_gates == {
        "DRAExtendedResource": False,
        "DRAPrioritizedList": False,
        "DRADeviceTaints": False,
    }
    assert of(snapshot, "kube-scheduler")[0].feature_gates == {"DRAExtendedResource": False}


def test_kubeadms_gates_and_intended_gates_are_two_things_in_v1beta3() -> None:
    snapshot = read("kubeadm-own-gates")
    (fact,) = snapshot.config_maps
    assert fact.api_version == "kubeadm.k8s.io/v1beta3"
    assert set(fact.own_feature_gates) == {"PublicKeysECDSA"}
    assert set(fact.component_gates["kube-apiserver"].gates) == {"ControlPlaneKubeletLocalMode"}
    assert not snapshot.components


def test_a_kubelet_gate_that_only_configz_shows() -> None:
    snapshot = read("kubelet-gate-from-env-file")
    first, second = of(snapshot, "kubelet")
    assert (first.node, first.feature_gates, first.gates_certainty) == (
        "node1",
        {"MemoryManager": True},
        "effective",
    )
    assert (second.node, second.feature_gates) == ("node2", "unobservable")


def test_repeated_flags_accumulate_and_mixed_prefixes_are_a_problem() -> None:
    snapshot = read("duplicate-flags-merge")
    (server,) = of(snapshot, "kube-apiserver")
    assert server.feature_gates == {
        "DRAListTypeAttributes": True,
        "DRADeviceTaints": False,
        "DRADeviceTaintRules": False,
    }
    assert len(server.gate_sources[0].flag_values) == 2
    assert next(fact for fact in server.flags if fact.name == "v").values == ("2", "4")
    (scheduler,) = of(snapshot, "kube-scheduler")
    assert scheduler.gate_sources[0].flag_values == (
        "kube:DRAListTypeAttributes=true",
        "DRADeviceTaints=true",
    )
    assert scheduler.gate_problems


def test_quotes_in_a_value_are_reported_raw_and_a_broken_annotation_hides_no_node() -> None:
    snapshot = read("quotes-kept-in-value")
    kubelets = {item.node: item for item in of(snapshot, "kubelet")}
    assert kubelets["server-0"].feature_gates == "unobservable"
    assert kubelets["server-0"].gate_problems
    assert kubelets["server-0"].gate_sources[0].flag_values == ('"EphemeralContainers=true"',)
    assert '"EphemeralContainers=true"' in kubelets["server-0"].feature_gates_source
    (server,) = of(snapshot, "kube-apiserver")
    assert (server.node, server.feature_gates, server.gates_certainty) == (
        "server-0",
        {"DRAAdminAccess": True},
        "intended",
    )
    assert unobserved(snapshot, "annotation k3s.io/node-args of Node agent-0") == ["malformed"]


def test_a_command_in_json_of_a_hosted_control_plane() -> None:
    snapshot = read("platform-injected-gate")
    (server,) = of(snapshot, "kube-apiserver")
    assert server.feature_gates == {"CSIMigrationPortworx": True, "InTreePluginPortworxUnregister": True}
    assert server.belongs_to == "kubermatic:cluster-x1y2z3"
    assert server.instance == "cluster-x1y2z3/apiserver-5d8c7b6f9d-abcde"
    assert snapshot.cluster.distribution == "kubermatic"


def test_a_node_whose_host_has_another_name() -> None:
    snapshot = read("hostname-differs")
    servers = of(snapshot, "kube-apiserver")
    assert {item.node for item in servers} == {"cp1.k8s.example.com"}
    assert {item.instance for item in servers} == {"kube-system/kube-apiserver-cp1.k8s.example.com"}


def test_a_minor_with_a_plus_and_the_client_version_is_not_the_clusters() -> None:
    snapshot = read("minor-with-plus")
    assert snapshot.cluster.server_version == "v1.33.4-eks-e386d34"
    (server,) = of(snapshot, "kube-apiserver")
    assert server.version == "v1.33.4-eks-e386d34"
    assert {fact.version for fact in snapshot.processes} == {"v1.33.4-eks-e386d34"}


def test_vendor_suffixes_stay_as_they_are() -> None:
    versions = {item.node: item.version for item in of(read("vendor-suffix-ordering"), "kubelet")}
    assert versions["a"] == "v1.33.4-eks-99d6cc0"
    assert versions["f"] == "v1.34.0-alpha.1.123+0123456789abcd-dirty"
    assert len(versions) == 9


def test_metrics_of_an_unknown_process_are_effective_and_nobodys() -> None:
    snapshot = read("metrics-text")
    (fact,) = snapshot.processes
    assert (fact.component, fact.component_inferred, fact.node) == ("unknown", True, None)
    assert fact.version == "v1.37.2"
    assert fact.effective_gates is not None
    assert fact.effective_gates["DRADeviceTaintRules"] is False
    assert fact.effective_gates["DRAListTypeAttributes"] is True
    assert fact.gate_stages["DRAExtendedResource"] == ""
    assert not snapshot.components


def test_openshift_gates_of_a_release_that_has_no_entry_yet() -> None:
    snapshot = read("openshift-featuregate-missing")
    facts = snapshot.openshift
    assert facts["feature_set"] == "CustomNoUpgrade"
    assert facts["current"] == "4.20.3"
    assert facts["gates_version"] == ""
    assert facts["gates_previous"] == "4.20.3"
    gap = f"OpenShift feature gates of release {facts['desired']}"
    assert unobserved(snapshot, gap) == ["not-in-capture"]


def test_forbidden_nodes_are_not_readable_and_not_none() -> None:
    snapshot = read("nodes-forbidden")
    assert unobserved(snapshot, "nodes") == ["forbidden"]
    assert "nodes" not in snapshot.kinds_read
    assert of(snapshot, "kube-apiserver")[0].feature_gates == {"DRAListTypeAttributes": True}
    assert next(item for item in snapshot.unobserved if item.what == "nodes").failed


def test_files_of_windows_tools() -> None:
    snapshot = read("windows")
    assert [item.component for item in snapshot.components] == ["kube-apiserver", "kube-scheduler"]
    assert "\r" not in canonical(snapshot).decode()
    assert "\ufeff" not in canonical(snapshot).decode()


def test_control_characters_and_latin1() -> None:
    snapshot = read("control-characters")
    assert [item.node for item in of(snapshot, "kubelet")] == ["w-1", "w-2"]
    assert {notice.reason for notice in snapshot.notices} == {"control-characters", "encoding"}
    assert "\x1b" not in canonical(snapshot).decode()


def test_duplicate_keys_are_noticed_with_their_line() -> None:
    snapshot = read("duplicate-keys")
    assert [notice.reason for notice in snapshot.notices] == ["duplicate-key"] * 2
    assert unobserved(snapshot, "daemonsets.apps") == ["not-in-capture"]
    assert "Single objects only" in next(
        item.detail for item in snapshot.unobserved if item.what == "daemonsets.apps"
    )


def test_cluster_info_dump_reads_no_logs_and_no_devices() -> None:
    snapshot = read("cluster-info-dump")
    (server,) = of(snapshot, "kube-apiserver")
    assert (server.version, server.feature_gates) == ("v1.37.2", {"DRAListTypeAttributes": True})
    assert "OldGate" not in canonical(snapshot).decode()
    assert unobserved(snapshot, "resourceslices.resource.k8s.io") == ["not-in-capture"]
    assert snapshot.namespaces_read["pods"] == ("kube-system",)
    assert snapshot.source.layout == "cluster-info dump"
    assert {item.pod_count for item in snapshot.nodes} == {None}


def test_cut_files_leave_what_was_whole_and_say_so() -> None:
    snapshot = read("cut-off")
    assert [item.node for item in of(snapshot, "kubelet")] == ["w-3"]
    assert unobserved(snapshot, "nodes") == ["truncated"]
    assert unobserved(snapshot, "pods") == ["truncated"]


def test_yaml_dialects() -> None:
    snapshot = read("dialects")
    assert [item.node for item in of(snapshot, "kubelet")] == ["w-1", "w-2"]
    places = {item.place for item in snapshot.unobserved if item.failed}
    assert places == {"bomb.yaml:6", "tab.yaml:4", "tag.yaml:3"}


def test_must_gather_holds_a_pod_twice_and_it_counts_once() -> None:
    snapshot = read("must-gather")
    (server,) = of(snapshot, "kube-apiserver")
    assert server.feature_gates == {"AdminNetworkPolicy": True}
    assert server.gates_certainty == "intended"
    assert snapshot.cluster.server_version is None
    assert unobserved(snapshot, "resourceslices.resource.k8s.io") == ["not-in-capture"]
    assert snapshot.source.layout == "must-gather"


def test_support_bundle_with_masked_values_and_a_forbidden_namespace() -> None:
    snapshot = read("support-bundle")
    assert snapshot.cluster.server_version == "v1.36.4"
    assert of(snapshot, "kube-apiserver")[0].feature_gates == {"DRAListTypeAttributes": True}
    gap = next(item for item in snapshot.unobserved if item.what == "pods")
    assert (gap.reason, gap.failed) == ("forbidden", True)
    assert "gpu-team" in gap.detail
    assert snapshot.namespaces_read["pods"] == ("kube-system",)
    assert "masked" in {notice.reason for notice in snapshot.notices}


def test_an_aggregated_api_that_is_down_is_a_state_and_not_a_resource() -> None:
    snapshot = read("aggregated-api-down")
    down = [item for item in snapshot.api_services if item.available is False]
    assert len(down) == 1
    assert down[0].service
    assert any(item.reason == "error" and item.failed for item in snapshot.unobserved)
