"""The recorded upgrade: what the assessment must say before it, in the middle, and after it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from changegen import kubedata
from changegen.assess import Assessment, assess
from changegen.collect import build_snapshot, files
from changegen.model.profile import Profile, Target
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Finding

RECORDED = Path(__file__).parent.parent / "data" / "recorded"
PROFILE = Profile(name="to", target=Target(kubernetes="1.37.2"))


@cache
def snapshot(name: str) -> Snapshot:
    return build_snapshot(files.read_input([RECORDED / name]))


@cache
def assessment(name: str) -> Assessment:
    return assess(snapshot(name), PROFILE, kubedata.load())


def found(name: str, code: str, subject: str = "") -> list[Finding]:
    return [
        f
        for f in assessment(name).findings
        if f.code == code
        and (not subject or subject in (f.subject.name, f.subject.component, *f.subject.instances))
    ]


def one(name: str, code: str, subject: str = "") -> Finding:
    items = found(name, code, subject)
    assert len(items) == 1, [i.message for i in items]
    return items[0]


def apiservers(*nodes: str) -> tuple[str, ...]:
    return tuple(f"kube-system/kube-apiserver-{node}" for node in nodes)


# ------------------------------------------------------------------------------------------------------- before


def test_a_removed_gate_blocks_on_every_apiserver_with_manifest_and_kubeadm_config() -> None:
    item = one("before", "CG-GATE-001")
    assert item.severity == "blocking"
    assert item.subject.name == "SidecarContainers"
    assert item.subject.instances == apiservers("cp-1", "cp-2", "cp-3")
    assert "`unrecognized feature gate: SidecarContainers`" in item.message
    sources = " ".join(e.source for e in item.evidence)
    assert "/etc/kubernetes/manifests/kube-apiserver.yaml" in sources
    assert "kubeadm-config" in sources
    assert "before kubeadm upgrade apply" in item.advice


def test_it_is_the_only_blocker() -> None:
    ours = [f.code for f in assessment("before").blockers]
    assert ours == ["CG-GATE-001"]
    assert [(h.from_version, h.to_version, h.blockers) for h in assessment("before").hops] == [
        ("1.36", "1.37", 1)
    ]


def test_the_scheduler_of_one_node_lacks_what_kubeadm_config_has() -> None:
    item = one("before", "CG-DRIFT-001")
    assert item.subject.instances == ("kube-system/kube-scheduler-cp-3",)
    assert item.subject.name == "DRADeviceTaintRules"
    assert "The next run of kubeadm sets it" in item.message
    assert "on anyway" in item.message


def test_the_default_that_nobody_typed_touches_the_rule() -> None:
    item = one("before", "CG-GATE-020", "DRADeviceTaintRules")
    assert item.subject.instances == ("kube-system/kube-scheduler-cp-3",)
    assert "maint-gpu-3 (None)" in item.message


def test_flagz_alone_says_runtime_config() -> None:
    item = next(f for f in found("before", "CG-DRIFT-004") if "runtime-config" in f.subject.name)
    assert item.severity == "warning"
    assert "resource.k8s.io/v1beta2=true" in item.message
    assert "no manifest" in item.message


def test_a_gate_at_its_locked_value_is_a_warning_and_says_who_reads_it() -> None:
    item = one("before", "CG-GATE-010")
    assert item.severity == "warning"
    assert item.subject.component == "kubelet"
    assert item.subject.name == "DRAResourceClaimDeviceStatus"
    assert len(item.subject.instances) == 8
    assert "kube-apiserver, kube-scheduler" in item.message


def test_etcd_can_go_back_until_the_last_member() -> None:
    item = one("before", "CG-ETCD-003")
    for words in (
        "3.6.8",
        "3.7.0",
        "last of 3 members",
        'version "3.7.0" is not supported',
        "downgrade enable 3.6",
    ):
        assert words in item.message


def test_one_apiserver_stood_for_three() -> None:
    assert "one of 3" in one("before", "CG-RUN-006").message
    assert "renewed: 1; instances that are seen: 3" in one("before", "CG-RUN-007").message


def test_the_metric_agrees_with_the_computed_gates() -> None:
    """The effective gates of a real apiserver, 242 of 1.36 and 254 of 1.37, are those that are computed."""
    for name in ("before", "after"):
        assert not found(name, "CG-DRIFT-005")
        process = next(p for p in snapshot(name).processes if p.effective_gates)
        assert len(process.effective_gates or {}) > 240


def test_instances_go_from_current_to_target() -> None:
    rows = {(r.component, r.node): r for r in assessment("before").instances}
    assert rows["kube-apiserver", "cp-1"].action == "upgrade"
    assert rows["kube-apiserver", "cp-1"].current == "v1.36.3"
    assert rows["kube-apiserver", "cp-1"].proven
    assert rows["etcd", "cp-2"].target == "3.7.0-0"
    assert sum(1 for r in assessment("before").instances if r.component == "kubelet") == 8
    assert "never newer" in rows["kubelet", "gpu-1"].allowed_skew


def test_forecast_rows_say_what_each_gate_becomes() -> None:
    rows = [r for r in assessment("before").forecast if r.name == "SidecarContainers"]
    assert {r.effect for r in rows} == {"will-not-start"}
    flip = [
        r
        for r in assessment("before").forecast
        if r.name == "DRADeviceTaintRules" and r.component == "kube-scheduler"
    ]
    assert {(r.effect, r.instances) for r in flip} == {
        ("flips-on", ("kube-system/kube-scheduler-cp-3",)),
        ("redundant", ("kube-system/kube-scheduler-cp-1", "kube-system/kube-scheduler-cp-2")),
    }
    first = assessment("before").forecast[0]
    assert first.effect == "will-not-start"


def test_nothing_is_left_behind_before_the_change() -> None:
    assert not [f.code for f in assessment("before").findings if "-LEFT-" in f.code]


# ---------------------------------------------------------------------------------------------------------- after


def test_planned_and_not_done() -> None:
    proxy = one("after", "CG-LEFT-001")
    assert len(proxy.subject.instances) == 8
    assert "v1.36.3" in proxy.message
    dns = one("after", "CG-LEFT-002")
    assert "v1.14.2" in dns.message
    assert "v1.14.6" in dns.message
    assert "v1.36.3" in one("after", "CG-LEFT-003").message
    assert not found("after", "CG-LEFT-004")
    assert not found("after", "CG-LEFT-005")


def test_the_next_run_of_kubeadm_brings_the_outage_back() -> None:
    item = one("after", "CG-KUBEADM-001")
    assert item.severity == "blocking"
    assert item.subject.name == "SidecarContainers"
    assert "`unrecognized feature gate: SidecarContainers`" in item.message
    assert not found("after", "CG-GATE-001")


def test_the_scheduler_of_the_third_node_sets_the_gate_now() -> None:
    assert not found("after", "CG-DRIFT-003")
    assert not found("after", "CG-GATE-020")


def test_no_default_is_announced_where_the_target_runs() -> None:
    rows = [r for r in assessment("after").forecast if r.component != "kube-proxy"]
    assert not [r for r in rows if r.effect in {"flips-on", "flips-off", "new-on"}]
    assert assessment("after").hops == ()


# ------------------------------------------------------------------------------------------------------------ mid


def test_what_is_asked_for_is_not_proven() -> None:
    items = found("mid", "CG-RUN-001")
    assert {f.subject.component for f in items} == {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    }
    assert {i for f in items for i in f.subject.instances} == {
        f"kube-system/{c}-cp-1"
        for c in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    }
    assert all("Pending" in f.message for f in items)
    rows = {(r.component, r.node): r for r in assessment("mid").instances}
    assert not rows["kube-apiserver", "cp-1"].proven
    assert rows["kube-apiserver", "cp-1"].note
    assert rows["kube-apiserver", "cp-2"].proven


def test_the_answer_is_proven_and_tied_to_nothing() -> None:
    item = one("mid", "CG-RUN-006")
    assert "v1.37.2" in item.message
    assert "nothing ties the answer" in item.message


def test_the_rest_is_not_on_the_target_yet() -> None:
    by = {f.subject.component: f.subject.instances for f in found("mid", "CG-LEFT-006")}
    assert by["kube-apiserver"] == apiservers("cp-2", "cp-3")
    assert len(by["kubelet"]) == 8
    assert one("mid", "CG-GATE-001").subject.instances == apiservers("cp-2", "cp-3")
    assert one("mid", "CG-ETCD-007").preexisting
    assert one("mid", "CG-SKEW-007")


# ---------------------------------------------------------------------------------------------------------- laws

NAMES = ("cp-1", "cp-2", "cp-3", "cpu-1", "gpu-1", "gpu-2", "gpu-3", "prod-a", "maint-gpu-3")


def renamed(text: str) -> str:
    """Every node and the taint rule get other names, of another order."""
    for at, name in enumerate(sorted(NAMES, key=len, reverse=True)):
        text = re.sub(rf"(?<![A-Za-z0-9.]){re.escape(name)}(?![A-Za-z0-9])", f"host{97 - at}x", text)
    return text


@pytest.mark.parametrize("name", ["before", "mid", "after"])
def test_no_answer_is_tied_to_a_name(name: str) -> None:
    raw = renamed(msgspec.json.encode(snapshot(name)).decode())
    other = assess(msgspec.json.decode(raw, type=Snapshot), PROFILE, kubedata.load())

    def told(found: Assessment) -> list[tuple[str, str, str, int]]:
        return sorted(
            (f.code, f.severity, f.subject.component, len(f.subject.instances)) for f in found.findings
        )

    assert told(other) == told(assessment(name))
    said = msgspec.json.encode(other).decode()
    assert not [n for n in NAMES if re.search(rf"(?<![A-Za-z0-9.]){re.escape(n)}(?![A-Za-z0-9])", said)]


@pytest.mark.parametrize("name", ["before", "mid", "after"])
def test_the_same_input_gives_the_same_value_in_order(name: str) -> None:
    again = assess(snapshot(name), PROFILE, kubedata.load())
    assert msgspec.json.encode(again) == msgspec.json.encode(assessment(name))
    severities = [{"blocking": 0, "warning": 1, "info": 2}[f.severity] for f in again.findings]
    assert severities == sorted(severities)
    ids = [f.id for f in again.findings]
    assert len(ids) == len(set(ids))


REQUIRED = {"schema", "tool_version", "source", "cluster"}


@pytest.mark.parametrize("name", sorted(set(Snapshot.__struct_fields__) - REQUIRED))
def test_a_part_that_was_not_read_gives_an_answer_and_no_crash(name: str) -> None:
    fields = {f.name: f for f in msgspec.structs.fields(Snapshot)}
    field = fields[name]
    empty = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    thinner = msgspec.structs.replace(snapshot("mid"), **{name: empty})
    found = assess(thinner, PROFILE, kubedata.load())
    assert found.findings
    if name == "components":
        unseen = {f.subject.component for f in found.findings if f.code == "CG-GATE-030"}
        assert {"kube-apiserver", "kubelet"} <= unseen


def test_components_of_which_little_is_known_give_no_crash() -> None:
    bare = tuple(
        msgspec.structs.replace(
            c,
            version="unobservable",
            running_version=None,
            feature_gates="unobservable",
            gates_certainty=None,
            gate_sources=(),
            state=None,
            node=None,
            instance=None,
            flags=(),
            flags_observable=False,
            runtime_config=None,
            ready=None,
            phase="",
        )
        for c in snapshot("before").components
    )
    found = assess(
        msgspec.structs.replace(snapshot("before"), components=bare, processes=()), PROFILE, kubedata.load()
    )
    assert not [
        f for f in found.findings if f.code == "CG-GATE-001" and f.subject.component == "kube-apiserver"
    ]
    assert "CG-KUBEADM-001" in {f.code for f in found.findings}
    assert {r.action for r in found.instances if r.component != "coredns"} == {"unknown"}
