"""Laws of the assessment: agreement with the gate rules, order, acceptance, hops, speed."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.assess import (
    apis,
    defaults,
    drift,
    flags,
    gates,
    parts,
    platform,
    policy,
    skew,
    versions_check,
    webhooks,
)
from changegen.assess import etcd as assess_etcd
from changegen.assess.codes import CODES, Code, finding
from changegen.assess.context import SelectorError, VersionWish, matches
from changegen.assess.policy import covers
from changegen.assess.seats import seats, stops
from changegen.gates import GateSources, start
from changegen.model.profile import Accept, ComponentTarget, FeatureGates, GateWish, Target
from changegen.model.snapshot import Cluster
from changegen.model.ticket import Finding, Subject
from tests.assess.build import (
    DATA,
    cluster,
    context,
    control_plane,
    etcd,
    kubeadm,
    kubelet,
    node,
    of,
    pod,
    profile,
    proxy,
    run,
)
from tests.growth import grows_linearly

OURS = (
    gates,
    defaults,
    platform,
    flags,
    apis,
    versions_check,
    skew,
    assess_etcd,
    drift,
    parts,
    webhooks,
    policy,
)
BLOCKING_GATES = {"CG-GATE-001", "CG-GATE-002", "CG-GATE-003", "CG-GATE-004", "CG-GATE-005", "CG-GATE-006"}
GATES = st.dictionaries(st.sampled_from(DATA.gate_names), st.booleans(), max_size=4)


# ----------------------------------------------------------------------------------- agreement with the gate rules


@settings(max_examples=150, deadline=None)
@given(
    setting=GATES,
    component=st.sampled_from(["kube-apiserver", "kube-controller-manager", "kube-scheduler"]),
    step=st.sampled_from(
        [("v1.34.4", "1.35.4"), ("v1.35.4", "1.36.3"), ("v1.36.3", "1.37.2"), ("v1.34.4", "1.37.2")]
    ),
)
def test_a_gate_blocks_if_and_only_if_a_minor_of_the_way_does_not_start(
    setting: dict[str, bool], component: str, step: tuple[str, str]
) -> None:
    today, target = step
    text = ",".join(f"{name}={str(value).lower()}" for name, value in setting.items())
    snapshot = cluster(pod(component, version=today, flags=text))
    found = [f for f in run(snapshot, profile(target)).findings if f.code in BLOCKING_GATES]
    first, last = int(today.split(".")[1]), int(target.split(".")[1])
    minors = [f"1.{m}" for m in range(first, last + 1)]
    verdicts = [start(component, minor, GateSources(flags=(text,) if text else ()), DATA) for minor in minors]
    assert bool(found) == any(v.starts is False for v in verdicts)
    said = " ".join(f.message for f in found)
    for verdict in verdicts:
        if verdict.starts is False:
            assert any(message in said for message in verdict.messages)
            break


@settings(max_examples=60, deadline=None)
@given(setting=GATES)
def test_kubeadm_config_alone_blocks_as_an_instance_would(setting: dict[str, bool]) -> None:
    text = ",".join(f"{name}={str(value).lower()}" for name, value in setting.items())
    from_config = run(cluster(pod(), config_maps=(kubeadm({"kube-apiserver": text}),)))
    verdict = start("kube-apiserver", "1.37.2", GateSources(flags=(text,) if text else ()), DATA)
    assert bool(of(from_config, "CG-KUBEADM-001")) == (verdict.starts is False)


def test_several_minors_give_hops_with_their_own_blockers() -> None:
    flags = "UserNamespacesPodSecurityStandards=true,MemoryManager=true,SidecarContainers=true"
    found = run(cluster(pod(version="v1.34.4", flags=flags)), profile("1.37.2"))
    assert {f.subject.name: f.hop for f in of(found, "CG-GATE-001")} == {
        "UserNamespacesPodSecurityStandards": "1.34 -> 1.35",
        "MemoryManager": "1.35 -> 1.36",
        "SidecarContainers": "1.36 -> 1.37",
    }
    assert [(h.from_version, h.to_version, h.blockers) for h in found.hops] == [
        ("1.34", "1.35", 1),
        ("1.35", "1.36", 1),
        ("1.36", "1.37", 1),
    ]


def test_a_gate_that_is_locked_first_and_removed_later_is_one_fault() -> None:
    found = run(cluster(pod(version="v1.35.4", flags="DRAAdminAccess=false")), profile("1.37.2"))
    blocking = [f for f in found.findings if f.code in BLOCKING_GATES]
    assert [(f.code, f.hop) for f in blocking] == [("CG-GATE-002", "1.35 -> 1.36")]


def test_a_target_newer_than_the_data_is_still_judged_up_to_its_end() -> None:
    found = run(cluster(pod(flags="SidecarContainers=true")), profile("1.38.0"))
    assert of(found, "CG-VERSION-001")
    assert of(found, "CG-GATE-001")[0].hop == "1.36 -> 1.37"
    assert not found.data_covers_target


def test_an_apiserver_seen_by_its_metric_alone_betrays_what_is_set() -> None:
    effective = start(
        "kube-apiserver", "1.36.3", GateSources(flags=("GangScheduling=true,GenericWorkload=true",)), DATA
    )
    blind = pod(
        feature_gates="unobservable",
        gate_sources=(),
        effective_gates=dict(effective.effective),
        flags_observable=False,
    )
    found = run(cluster(blind))
    assert of(found, "CG-GATE-001")[0].subject.name == "GangScheduling"
    assert of(found, "CG-GATE-031")
    assert not [f for f in of(found, "CG-GATE-030") if f.subject.component == "kube-apiserver"]


def test_a_kubelet_that_the_profile_leaves_is_not_forecast() -> None:
    stays = Target(kubernetes="1.37.2", components=(ComponentTarget(name="kubelet", version=">=1.36.0"),))
    snapshot = cluster(*control_plane(), kubelet(gates={"SidecarContainers": True}))
    assert not [
        f for f in of(run(snapshot, profile(target=stays)), "CG-GATE-001") if f.subject.component == "kubelet"
    ]
    assert [f for f in of(run(snapshot), "CG-GATE-001") if f.subject.component == "kubelet"]


def test_gate_states_are_three_and_a_lock_decides_where_nothing_is_seen() -> None:
    ctx = context(cluster(*control_plane(flags="DRADeviceTaintRules=true"), kubelet()))
    assert {s.how for s in ctx.gate_states("DRADeviceTaintRules", ("kube-scheduler",))} == {"set"}
    assert {s.how for s in ctx.gate_states("SELinuxMount", ("kube-apiserver",))} == {"default"}
    blind = ctx.gate_states("SELinuxMount", ("kubelet",))[0]
    assert (blind.how, blind.value) == ("unobservable", None)
    locked = ctx.gate_states("DynamicResourceAllocation", ("kubelet",))[0]
    assert (locked.how, locked.value) == ("locked", True)
    gone = ctx.gate_states("SidecarContainers", ("kube-apiserver",), "target")[0]
    assert (gone.how, gone.value) == ("absent", False)


def test_kube_proxy_takes_the_file_alone() -> None:
    from changegen.model.snapshot import GateSource

    file = GateSource(
        provenance="configmap", place="ConfigMap kube-system/kube-proxy", certainty="intended", gates={}
    )
    flag = GateSource(
        provenance="pod spec",
        place="kube-system/kube-proxy-n1",
        certainty="observed",
        flag_values=("SidecarContainers=true",),
        gates={"SidecarContainers": True},
    )
    with_file = proxy(feature_gates={}, gate_sources=(file, flag))
    assert not of(run(cluster(with_file)), "CG-GATE-001")
    assert of(run(cluster(proxy(flags="SidecarContainers=true"))), "CG-GATE-001")


# ------------------------------------------------------------------------------------------------------ acceptance


def accepting(code: str, subject: str = "", until: str = "2027-01-31") -> Accept:
    return Accept(code=code, subject=subject, reason="known", owner="platform", until=until)


def test_an_accepted_blocker_stays_visible_and_blocks_no_more() -> None:
    snapshot = cluster(*control_plane(nodes=("cp-1", "cp-2"), flags="SidecarContainers=true"))
    found = run(snapshot, profile(accept=(accepting("CG-GATE-001"),)))
    items = of(found, "CG-GATE-001")
    assert items
    assert all(f.accepted and not f.accepted.expired and f.severity == "blocking" for f in items)
    assert found.blockers == ()
    assert [h.blockers for h in found.hops] == [0]


def test_an_expired_acceptance_accepts_no_longer() -> None:
    snapshot = cluster(pod(flags="SidecarContainers=true"))
    wanted = profile(accept=(accepting("CG-GATE-001", until="2026-11-30"),))
    found = run(snapshot, wanted)
    assert of(found, "CG-GATE-001")[0].accepted.expired  # type: ignore[union-attr]
    assert found.blockers
    assert not run(snapshot, wanted, day="2026-11-30").blockers


@pytest.mark.parametrize(
    ("subject", "covered"),
    [
        ("", True),
        ("kube-scheduler", True),
        ("kube-scheduler/cp-3", True),
        ("kube-scheduler/DRADeviceTaintRules", True),
        ("kube-system/kube-scheduler-cp-3", True),
        ("kube-system/*", True),
        ("kube-scheduler/cp-4", False),
        ("kube-apiserver", False),
        ("cp-3", False),
    ],
)
def test_a_subject_points_at_component_instance_or_name(subject: str, covered: bool) -> None:
    item = Finding(
        id="x",
        code="CG-DRIFT-003",
        severity="warning",
        subject=Subject(
            component="kube-scheduler",
            instances=("kube-system/kube-scheduler-cp-3",),
            name="DRADeviceTaintRules",
        ),
        title="t",
        message="m",
    )
    assert covers(accepting("CG-DRIFT-003", subject), item) is covered


def test_one_instance_of_several_does_not_accept_the_others() -> None:
    snapshot = cluster(*control_plane(nodes=("cp-1", "cp-2"), flags="SidecarContainers=true"))
    found = run(snapshot, profile(accept=(accepting("CG-GATE-001", "kube-apiserver/cp-1"),)))
    assert not [f for f in of(found, "CG-GATE-001") if f.accepted]


# ----------------------------------------------------------------------------------------------------- wishes, words


@pytest.mark.parametrize(
    ("wish", "have", "verdict"),
    [
        ("1.37.2", "v1.37.2", True),
        ("1.37.2", "v1.37.2-eks-99d6cc0", True),
        ("1.37.2", "v1.37.1", False),
        ("1.37", "v1.37.9", True),
        ("1.37", "v1.37.0-rc.1", False),
        (">=1.36.3", "v1.36.3", True),
        (">=1.36.3", "v1.36.2", False),
        (">=1.36.3", "unobservable", None),
        ("1.37.2", None, None),
        ("latest", "latest", True),
        (">=25.8.0", "v0.4.0", None),
    ],
)
def test_a_version_wish(wish: str, have: str | None, verdict: bool | None) -> None:
    assert VersionWish.parse(wish).satisfied(have) is verdict


LABELS = {"a": "1", "gpu": "yes", "node-role.kubernetes.io/control-plane": ""}


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,gpu", True),
        ("a!=1", False),
        ("b!=1", True),
        ("a in (1, 2)", True),
        ("a notin (1,2)", False),
        ("!b", True),
        ("!gpu", False),
        ("node-role.kubernetes.io/control-plane=", True),
    ],
)
def test_a_label_selector(selector: str, fits: bool) -> None:
    assert matches(selector, LABELS) is fits


def test_a_selector_that_is_none_is_an_error() -> None:
    with pytest.raises(SelectorError):
        matches("a b", LABELS)


def test_a_severity_that_the_table_does_not_allow_is_refused() -> None:
    row: Code = CODES["CG-GATE-001"]
    with pytest.raises(ValueError, match="never info"):
        finding(row, "x", severity="info")


# ---------------------------------------------------------------------------------------------------- order, speed


@settings(max_examples=20, deadline=None)
@given(seed=st.integers())
def test_the_order_of_the_input_does_not_count(seed: int) -> None:
    parts = [
        *control_plane(nodes=("a", "b", "c"), flags="SidecarContainers=true"),
        pod("kube-scheduler", "d", flags="SELinuxMount=false"),
        *(etcd(node=n) for n in "abc"),
        *(kubelet(n, gates={"DRAResourceClaimDeviceStatus": True}) for n in "abcd"),
        *(proxy(node=n) for n in "abcd"),
    ]
    whole = run(cluster(*parts))
    random.Random(seed).shuffle(parts)
    mixed = run(cluster(*parts))
    assert [(f.id, f.message, f.subject) for f in mixed.findings] == [
        (f.id, f.message, f.subject) for f in whole.findings
    ]
    assert mixed.forecast == whole.forecast
    assert mixed.instances == whole.instances


def test_the_work_grows_with_the_nodes_and_what_is_said_does_not() -> None:
    wanted = profile(feature_gates=FeatureGates(gates=(GateWish(name="SELinuxMount", value=False),)))
    made: dict[int, tuple[list[Finding], list[object]]] = {}

    def prepare(count: int) -> Callable[[], None]:
        many = [f"node-{at}" for at in range(count)]
        gates = {"DRAResourceClaimDeviceStatus": True}
        snapshot = cluster(
            *control_plane(nodes=("a", "b", "c"), flags="SidecarContainers=true"),
            *(kubelet(n, gates=gates, provenance="configmap") for n in many),
            *(proxy(node=n) for n in many),
            nodes=tuple(node(n) for n in many),
        )

        def judge() -> None:
            ctx = context(snapshot, wanted)
            found = [item for module in OURS for item in module.findings(ctx)]
            made[count] = found, [*defaults.forecast_rows(ctx), *versions_check.instance_rows(ctx)]

        return judge

    assert grows_linearly(prepare, 250, 2000)
    few, _ = made[250]
    found, rows = made[2000]
    assert len(next(f for f in found if f.code == "CG-GATE-010").subject.instances) == 2000
    assert len(found) == len(few) < 60
    assert len(rows) > 4000
    assert len(msgspec.json.encode(found)) < 800_000


def test_what_openshift_writes_for_one_release_blocks_not_the_next() -> None:
    parts = [pod(flags="DynamicResourceAllocation=false,AdminNetworkPolicy=true", version="v1.34.4")]
    there = run(cluster(*parts, cluster=Cluster(distribution="openshift")))
    assert not [f for f in there.findings if f.code in BLOCKING_GATES]
    assert {r.name: r.effect for r in there.forecast if r.provenance} == {
        "AdminNetworkPolicy": "unknown",
        "DynamicResourceAllocation": "unknown",
    }
    assert not [r for r in there.forecast if r.effect == "will-not-start"]
    elsewhere = run(cluster(*parts))
    assert {f.code for f in elsewhere.findings} & BLOCKING_GATES
    assert [r for r in elsewhere.forecast if r.effect == "will-not-start"]


def test_a_gate_that_an_older_target_has_not_yet_is_called_so() -> None:
    found = run(cluster(pod(version="v1.37.2", flags="DRAListTypeAttributes=true")), profile("1.35.4"))
    item = of(found, "CG-GATE-001")[0]
    assert "1.35 does not have this gate" in item.message
    assert "case-sensitive" not in item.message
    typo = run(cluster(pod(flags="sidecarcontainers=true")))
    assert "There is a gate SidecarContainers" in of(typo, "CG-GATE-001")[0].message


def test_seats_are_of_this_cluster_unless_it_only_hosts() -> None:
    own = cluster(pod(), pod(node="x", belongs_to="kamaji:t/a", flags="SidecarContainers=true"))
    assert not of(run(own), "CG-GATE-001")
    host = cluster(pod(node="x", belongs_to="kamaji:t/a", flags="SidecarContainers=true"))
    assert "kamaji:t/a" in of(run(host), "CG-GATE-001")[0].message
    ctx = context(host)
    assert [stop.minor for seat in seats(ctx) for stop in stops(ctx, seat)] == ["1.37"]


def test_gates_to_look_for_are_named_once() -> None:
    unseen = {"feature_gates": "unobservable", "gate_sources": ()}
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    provider = [pod(name, **unseen, kind="inferred", instance=None) for name in names]
    blind = cluster(*provider, kubelet(), proxy(**unseen))
    managed = Cluster(name="test", distribution="eks", managed=True)
    blind = msgspec.structs.replace(blind, cluster=managed)
    found = of(run(blind), "CG-GATE-030")
    assert [(f.severity, f.subject.component) for f in found] == [
        ("warning", "kubelet"),
        ("info", ", ".join(names)),
        ("info", "kube-proxy"),
    ]
    assert ["SidecarContainers" in f.advice for f in found] == [True, False, False]
    assert all("those that CG-GATE-030 names for kubelet" in f.advice for f in found[1:])
    assert all(name in found[1].message for name in names)
    # Where the kubelet's were read, the next one names them.
    seen = cluster(*provider, kubelet(gates={}), proxy(**unseen), cluster=managed)
    found = of(run(seen), "CG-GATE-030")
    assert ["SidecarContainers" in f.advice for f in found] == [True, False]
