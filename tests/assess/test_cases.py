"""Inputs made from real bug reports: what must be said of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from changegen import kubedata
from changegen.assess import Assessment, assess
from changegen.collect import build_snapshot, files
from changegen.model.profile import NodeTaintWish, Profile, Taints, Target
from changegen.model.snapshot import ClaimTemplate, TaintRule
from changegen.model.ticket import Finding
from tests.assess.build import cluster, pod, profile, run

CASES = Path(__file__).parent.parent / "data" / "cases"


@cache
def case(name: str, to: str = "") -> Assessment:
    snapshot = build_snapshot(files.read_input([CASES / name / "input"]))
    return assess(snapshot, Profile(name="case", target=Target(kubernetes=to)), kubedata.load())


def of(found: Assessment, code: str, component: str = "") -> dict[str, Finding]:
    return {
        f.subject.name: f
        for f in found.findings
        if f.code == code and (not component or f.subject.component == component)
    }


def test_a_gate_that_was_set_by_hand_long_ago() -> None:
    found = case("removed-gate-apiserver", "v1.35.5")
    item = of(found, "CG-GATE-001", "kube-apiserver")["UserNamespacesPodSecurityStandards"]
    assert item.severity == "blocking"
    assert "1.35" in item.message
    assert [h.to_version for h in found.hops] == ["1.35"]
    unseen = [f for f in found.findings if f.code == "CG-GATE-030" and f.subject.component == "kubelet"]
    assert "configz" in unseen[0].advice


def test_locked_gates_and_the_dependency_behind_them() -> None:
    found = case("locked-gate-false", "v1.37.2")
    locked = of(found, "CG-GATE-002", "kube-apiserver")
    assert set(locked) == {"DRAExtendedResource", "DRAPrioritizedList"}
    assert set(of(found, "CG-GATE-002", "kube-scheduler")) == {"DRAExtendedResource"}
    item = of(found, "CG-GATE-003")["DRADeviceTaintRules"]
    assert "depends on features that are disabled: [DRADeviceTaints]" in item.message
    assert "DRADeviceTaintRules=false" in item.advice


def test_gates_of_kubeadm_itself() -> None:
    found = case("kubeadm-own-gates", "v1.37.2")
    assert (
        "`unrecognized feature-gate key: PublicKeysECDSA`"
        in of(found, "CG-KUBEADM-002")["PublicKeysECDSA"].message
    )
    item = of(found, "CG-KUBEADM-001")["ControlPlaneKubeletLocalMode"]
    assert "a gate of kubeadm itself" in item.message
    assert "1.36" in of(found, "CG-KUBEADM-003")["kubeadm.k8s.io/v1beta3"].message


def test_a_kubelet_gate_that_only_configz_shows() -> None:
    found = case("kubelet-gate-from-env-file", "v1.36.3")
    item = of(found, "CG-GATE-001", "kubelet")["MemoryManager"]
    assert item.subject.instances == ("node1",)
    unseen = [f for f in found.findings if f.code == "CG-GATE-030" and f.subject.component == "kubelet"]
    assert [f.subject.instances for f in unseen] == [("node2",)]
    assert not [f for f in found.findings if f.code == "CG-GATE-001" and "node2" in f.subject.instances]


def test_repeated_flags_add_up_and_mixed_prefixes_stop() -> None:
    found = case("duplicate-flags-merge")
    repeated = of(found, "CG-GATE-015")["DRADeviceTaints"]
    assert "the last value wins: false" in repeated.message
    mixed = next(f for f in found.findings if f.code == "CG-GATE-005")
    assert mixed.subject.component == "kube-scheduler"
    shown = " ".join(e.value for e in mixed.evidence)
    assert "kube:DRAListTypeAttributes=true" in shown
    assert "DRADeviceTaints=true" in shown


def test_quotes_that_are_part_of_the_value_are_reported_as_they_are() -> None:
    item = next(f for f in case("quotes-kept-in-value").findings if f.code == "CG-GATE-005")
    assert item.subject.instances == ("server-0",)
    assert any('"EphemeralContainers=true"' in e.value for e in item.evidence)


def test_a_gate_that_the_platform_put_into_a_hosted_control_plane() -> None:
    found = of(case("platform-injected-gate", "v1.36.3"), "CG-GATE-001")
    assert set(found) == {"CSIMigrationPortworx", "InTreePluginPortworxUnregister"}
    assert all("cluster-x1y2z3" in f.message for f in found.values())


def test_vendor_suffixes_are_no_prereleases() -> None:
    found = case("vendor-suffix-ordering", "v1.33.4")
    assert not [f for f in found.findings if f.code == "CG-VERSION-007"]
    actions = {r.node: r.action for r in found.instances if r.component == "kubelet"}
    assert {actions[n] for n in "abcdghi"} == {"none"}
    assert {actions[n] for n in "ef"} == {"ahead"}


def test_a_saved_metric_gives_effective_gates_of_nobody() -> None:
    item = next(f for f in case("metrics-text").findings if f.code == "CG-GATE-034")
    assert "DRADeviceTaintRules=false" in item.message
    assert "DRAListTypeAttributes=true" in item.message
    assert "DRAExtendedResource" not in item.message


def test_a_feature_set_that_forbids_upgrades() -> None:
    found = case("openshift-featuregate-missing")
    assert "CustomNoUpgrade" in next(f for f in found.findings if f.code == "CG-OPENSHIFT-001").message
    missing = next(f for f in found.findings if f.code == "CG-OPENSHIFT-002")
    assert "4.20.3" in missing.message


def test_beta_versions_that_go_with_a_target_newer_than_the_data() -> None:
    runtime = ("resource.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true",)
    snapshot = cluster(
        pod(version="v1.36.1", runtime_config=runtime),
        claim_templates=(
            ClaimTemplate(namespace="default", name="one", api_version="resource.k8s.io/v1beta1"),
        ),
        taint_rules=(
            TaintRule(
                name="old",
                selector="none",
                key="a.example.com/b",
                effect="NoSchedule",
                api_version="resource.k8s.io/v1alpha3",
            ),
        ),
    )
    found = run(snapshot, profile("1.38.0"))
    entries = of(found, "CG-FLAG-012")
    assert entries["resource.k8s.io/v1beta1"].severity == "blocking"
    assert "1.38" in entries["resource.k8s.io/v1beta1"].message
    assert entries["resource.k8s.io/v1alpha3"].severity == "info"
    written = sorted((f for f in found.findings if f.code == "CG-API-005"), key=lambda f: f.subject.component)
    assert [(f.subject.component, f.severity) for f in written] == [
        ("DeviceTaintRule", "info"),
        ("ResourceClaimTemplate", "blocking"),
    ]
    assert "1.39" in written[0].message
    assert of(found, "CG-VERSION-001")
    skipped = next(f for f in found.findings if f.code == "CG-VERSION-006")
    assert "1.36, 1.37, 1.38" in skipped.message
    assert not found.data_covers_target


def test_what_may_not_be_read_is_not_nothing() -> None:
    folder = CASES.parent.parent / "collect" / "data" / "nodes-forbidden"
    snapshot = build_snapshot(files.read_input([folder]))
    wanted = profile("1.37.2", taints=Taints(nodes=(NodeTaintWish(key="gpu", expect="absent"),)))
    found = run(snapshot, wanted)
    failed = of(found, "CG-READ-001")
    assert set(failed) == {"nodes"}
    assert "forbidden" in failed["nodes"].message
    unknown = next(f for f in found.findings if f.code == "CG-POLICY-012")
    assert "not read" in unknown.message
    assert any(r.component == "kube-apiserver" and r.current == "v1.37.2" for r in found.instances)
    kubelets = [f for f in found.findings if f.code == "CG-GATE-030" and f.subject.component == "kubelet"]
    assert kubelets
