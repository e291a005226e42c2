"""The closing report of the recorded upgrade, and how a check is judged."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen import kubedata
from changegen.errors import InputError
from changegen.facts import Reading, Value, unknown
from changegen.model.profile import OwnCheck
from changegen.model.snapshot import (
    ConfigFact,
    DeviceTaint,
    DriverRights,
    NodeTaint,
    ServedApi,
    Snapshot,
    Unobserved,
)
from changegen.model.ticket import Change, Check, CheckResult, Deviation, Results
from changegen.seal import sealed
from changegen.store import digest_of
from changegen.verify import Attestation, _sides, judge, verify
from tests.plan.build import plan, recorded, ticket, to

replace = msgspec.structs.replace


def report(name: str = "after") -> Results:
    return verify(ticket(), recorded(name), data=kubedata.load())


def line(items: tuple[Deviation, ...], what: str) -> Deviation:
    found = [item for item in items if re.search(what, item.what)]
    assert len(found) == 1, (what, [item.what for item in items])
    return found[0]


def result_of(results: Results, fact: str, **args: object) -> tuple[str, object, str]:
    for check, result in zip(results.checks, results.results, strict=True):
        if (
            check.query is not None
            and check.query.fact == fact
            and all(check.query.args.get(k) == v for k, v in args.items())
        ):
            return result.result, result.actual, result.reason
    raise AssertionError(fact)


# ------------------------------------------------------------------------------------------------ after the upgrade


def test_what_was_planned_and_done() -> None:
    done = {item.what: item for item in report().done if item.code != "follows"}
    for name, count in (
        ("kube-apiserver", 3),
        ("kube-scheduler", 3),
        ("kube-controller-manager", 3),
        ("kubelet", 8),
    ):
        assert (done[name].before, done[name].actual, done[name].count) == ("v1.36.3", "v1.37.2", count)
    assert (done["etcd"].before, done["etcd"].actual, done["etcd"].count) == ("v3.6.8", "v3.7.0", 3)


def test_what_was_planned_and_not_done() -> None:
    missing = report().not_done
    proxy = line(missing, "^kube-proxy$")
    assert (proxy.actual, proxy.planned, proxy.count) == ("v1.36.3", "v1.37.2", 8)
    dns = line(missing, "coredns")
    assert (dns.actual, dns.planned) == (
        "registry.k8s.io/coredns/coredns:v1.14.2",
        "registry.k8s.io/coredns/coredns:v1.14.6",
    )
    config = line(missing, "kubeadm-config kubernetesVersion")
    assert (config.actual, config.planned) == ("v1.36.3", "v1.37.2")
    gate = line(missing, "kubeadm-config names SidecarContainers")
    assert "the next run of kubeadm writes SidecarContainers into the manifests again" in gate.why
    assert report().outcome == "failed"
    assert "kube-proxy v1.36.3" in report().headline
    assert "coredns v1.14.2" in report().headline
    (addons,) = proxy.steps
    assert proxy.steps == dns.steps
    # Only kubeadm upgrade apply writes the version into kubeadm-config; the add-ons' phase reads it.
    (applied,) = config.steps
    (apply,) = [s.id for s in ticket().steps if any("kubeadm upgrade apply" in c.text for c in s.commands)]
    assert applied == apply
    assert f"to be done by {apply}" in config.why
    assert "CoreDNS" in next(s.title for s in ticket().steps if s.id == addons)
    assert proxy.why == f"to be done by {addons}"
    assert [s.phase for s in ticket().steps if s.id in gate.steps] == ["before"]


def test_the_headline_says_first_what_to_do_next() -> None:
    headline = report().headline
    (remedy,) = line(report().not_done, "kubeadm-config names SidecarContainers").steps
    (applied,) = line(report().not_done, "kubeadm-config kubernetesVersion").steps
    (addons,) = line(report().not_done, "^kube-proxy$").steps
    titles = {step.id: step.title for step in ticket().steps}
    listed = ", ".join(f"{step} ({titles[step]})" for step in (remedy, applied, addons))
    assert headline.startswith(f"Next: do {listed}; ask who changed what was not planned: ")
    asked = headline.partition("not planned: ")[2].partition(";")[0]
    assert "Pod ml/too-big: gone" in asked
    assert "images plugin v0.2.0 → v0.3.0" in asked
    (early,) = [r.id for r in report().results if r.reason.startswith("not yet")]
    assert f"read the cluster again, it was too early for {early};" in headline
    # What waits for people is said as what is next, and with what they do it.
    unseen = ", ".join(r.id for r in report().results if r.reason.startswith("needs evidence"))
    assert f"attest what no reading shows, {unseen} (changegen probe" in headline
    end = verify(ticket(), finished(), data=kubedata.load()).headline
    assert end.startswith("Next: look at and attest")
    assert "No check fails" in end
    said = [Attestation(check=item, by="somebody", value="seen") for item in unseen.split(", ")]
    done = verify(ticket(), finished(), data=kubedata.load(), evidence=said).headline
    assert done.startswith("All ")


def test_each_planned_change_is_done_by_a_step_on_its_own_node() -> None:
    nodes = {step.id: step.nodes for step in ticket().steps}
    waiting = line(report("mid").not_done, "^kube-apiserver$")
    assert [nodes[step] for step in waiting.steps] == [("cp-2",), ("cp-3",)]
    assert not [item.what for item in report("before").not_done if not item.steps]


def test_what_was_done_and_not_planned() -> None:
    unplanned = report().unplanned
    image = line(unplanned, r"^DaemonSet dra-example-driver/.*: images plugin")
    assert image.before.endswith(":v0.2.0")
    assert image.actual.endswith(":v0.3.0")
    assert image.why == "its labels still say v0.2.0"
    versions = [item for item in unplanned if "driverVersion" in item.what]
    assert {(item.before, item.actual, item.count) for item in versions} == {
        ("1.2.0", "1.3.0", 4),
        ("1.1.0", "1.3.0", 2),
    }
    assert "generation" in line(unplanned, "^pool gpu.example.com").what
    assert report().counts["unplanned"] == 2
    assert [item.code for item in unplanned] == ["", "", *["with"] * (len(unplanned) - 2)]
    gone = line(unplanned, "^Pod ml/too-big: gone")
    assert "someone deleted it" in gone.why
    assert not [item for item in unplanned if "kube-apiserver" in item.what or "Node " in item.what]


def test_what_follows_from_the_plan_is_told_apart() -> None:
    follows = tuple(item for item in report().done if item.code == "follows")
    gate = line(follows, "kube-scheduler cp-3: feature gates DRADeviceTaintRules")
    assert "kubeadm-config sets it" in gate.why
    restarts = [item for item in follows if item.what.endswith("restarts")]
    assert sum(item.count for item in restarts) >= 14
    assert "created again" in line(follows, "ml/net-app: uid").why
    status = line(follows, "nic-claim: device status")
    assert "starts empty until the driver fills it" in status.why
    assert "drained" in line(follows, "^Pods of Deployment ml/train: replaced").why


def test_the_checklist_is_filled_with_evidence() -> None:
    results = report()
    verdict, actual, reason = result_of(results, "claim.device-status")
    assert (verdict, actual) == ("unknown", {})
    assert re.match(r"not yet: read \d+ s after it began, and 120 s are given", reason)
    assert result_of(results, "workload.image", name="kube-proxy")[0] == "fail"
    assert result_of(results, "component.running", component="etcd")[0] == "pass"
    assert result_of(results, "api.resource", resource="devicetaintrules")[0] == "pass"
    assert result_of(results, "dra.devices", driver="gpu.example.com")[0] == "pass"
    assert result_of(results, "dra.attribute")[0] == "fail"
    filled = [r for r in results.results if r.result in ("pass", "fail") and r.evidence]
    assert len(filled) > 30
    runtime = [r for c, r in zip(results.checks, results.results, strict=True) if c.layer == "runtime"]
    assert {r.result for r in runtime} == {"unknown"}
    assert results.counts["pass"] + results.counts["fail"] + results.counts["unknown"] == len(results.checks)


def test_times_come_from_the_readings() -> None:
    times = report().times
    assert times["before"] < times["first_start"] <= times["last_start"] < times["after"]


def test_the_state_after_is_assessed() -> None:
    codes = {item.code for item in report().findings}
    assert {"CG-LEFT-001", "CG-LEFT-002", "CG-LEFT-003", "CG-KUBEADM-001"} <= codes


# ------------------------------------------------------------------------------------------------ half way


def test_half_way_what_is_asked_for_is_not_proven() -> None:
    results = report("mid")
    for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd"):
        item = line(results.unknown, f"^{name}$")
        assert item.subjects == (f"{name} cp-1",)
        assert "asked for, not proven" in item.why
    answers = line(results.unknown, "one kube-apiserver that answers")
    assert answers.actual == "v1.37.2"
    assert "nothing ties it to a node" in answers.why
    waiting = line(results.not_done, "^kube-apiserver$")
    assert waiting.subjects == ("kube-apiserver cp-2", "kube-apiserver cp-3")
    assert not results.unplanned
    assert results.outcome == "failed"
    assert result_of(results, "component.running", component="kube-scheduler")[1] == {
        "cp-1": None,
        "cp-2": "v1.36.3",
        "cp-3": "v1.36.3",
    }


def test_the_same_reading_again_has_done_nothing() -> None:
    results = report("before")
    assert not results.done
    assert not results.unplanned
    assert results.not_done


# ------------------------------------------------------------------------------------------------ refusals


def test_another_cluster_is_refused_unless_told() -> None:
    other = replace(
        recorded("after"),
        cluster=replace(recorded("after").cluster, uid="11111111-2222-3333-4444-555555555555"),
    )
    with pytest.raises(InputError) as refused:
        verify(ticket(), other)
    assert refused.value.exit_code == 2
    assert "another cluster" in str(refused.value)
    assert verify(ticket(), other, other_cluster=True).outcome == "failed"


def test_an_identity_that_is_not_known_is_said() -> None:
    def nameless(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, cluster=replace(snapshot.cluster, uid=""))

    results = verify(ticket(), nameless(recorded("after")))
    assert line(results.unknown, "identity of the cluster")
    assert results.headline.startswith("The reading does not tell which cluster it is of")
    assert "8 of the ticket's 8 nodes are in it." in results.headline
    assert results.outcome == "failed"
    elsewhere = nameless(replace(recorded("after"), nodes=(replace(recorded("after").nodes[0], name="x"),)))
    assert "0 of the ticket's 8 nodes are in it." in verify(ticket(), elsewhere).headline

    words = [Attestation(check=c.id, by="Ada", value="1") for c in ticket().checks if c.layer == "runtime"]
    good = verify(ticket(), nameless(finished()), evidence=words)
    assert (good.counts["fail"], good.counts["unknown"], good.counts["not_done"]) == (0, 0, 0)
    assert good.outcome == "incomplete"
    assert verify(ticket(), nameless(finished()), evidence=words, other_cluster=True).outcome == "passed"
    anonymous = sealed(replace(ticket(), cluster_uid=""))
    told = verify(anonymous, finished(), evidence=words)
    assert (told.outcome, told.headline.startswith("The ticket does not tell")) == ("incomplete", True)


def test_an_edited_ticket_is_refused() -> None:
    good = digest_of(ticket())
    assert verify(ticket(), recorded("after"), approved_sha256=good.upper()).ticket_digest == good
    edited = replace(ticket(), title="Something else")
    with pytest.raises(InputError) as refused:
        verify(edited, recorded("after"), approved_sha256=good)
    assert good in str(refused.value)
    swapped = replace(ticket(), snapshot=recorded("mid"))
    with pytest.raises(InputError, match="edited"):
        verify(swapped, recorded("after"))
    with pytest.raises(InputError, match="no snapshot"):
        verify(replace(ticket(), snapshot=None), recorded("after"))
    for edit in ({"title": "Something else"}, {"checks": ticket().checks[1:]}, {"content_digest": ""}):
        with pytest.raises(InputError, match="edited"):
            verify(replace(ticket(), **edit), recorded("after"))


def test_the_digest_survives_a_round_trip() -> None:
    again = msgspec.json.decode(msgspec.json.encode(ticket()), type=type(ticket()))
    assert digest_of(again) == digest_of(ticket())
    assert verify(again, recorded("after")) == verify(ticket(), recorded("after"))


# ------------------------------------------------------------------------------------------------ green, and a change by hand


def finished() -> Snapshot:
    """The recorded end, with what was left behind done and what nobody planned undone."""
    text = msgspec.json.encode(recorded("before")).decode()
    for old, new in (
        ("1.36.3", "1.37.2"),
        ("3.6.8", "3.7.0"),
        ("v1.14.2", "v1.14.6"),
        ("DRADeviceTaintRules=true,SidecarContainers=true", "DRADeviceTaintRules=true"),
    ):
        text = text.replace(old, new)
    text = re.sub(r'"SidecarContainers":true,?', "", text).replace(",}", "}")
    moved = msgspec.json.decode(text, type=Snapshot)
    after = recorded("after")
    return replace(
        moved,
        apis=after.apis,
        processes=after.processes,
        captured_at=after.captured_at,
        cluster=after.cluster,
    )


def test_a_finished_change_has_nothing_open_but_what_people_must_see() -> None:
    results = verify(ticket(), finished(), data=kubedata.load())
    failed = [(r.id, r.reason) for r in results.results if r.result == "fail"]
    assert not failed
    assert not results.not_done
    assert not results.unplanned, [item.what for item in results.unplanned]
    assert results.outcome == "incomplete"
    attested = [Attestation(check=c.id, by="Ada", value="1") for c in results.checks if c.layer == "runtime"]
    signed = verify(ticket(), finished(), data=kubedata.load(), evidence=attested)
    assert signed.outcome == "passed"
    assert signed.counts["attested"] == len(attested)
    assert "attested by people" in signed.headline


def test_a_change_made_by_hand_is_named() -> None:
    done = finished()
    tainted = replace(done.nodes[3], unschedulable=True)
    results = verify(
        ticket(), replace(done, nodes=(*done.nodes[:3], tainted, *done.nodes[4:])), data=kubedata.load()
    )
    assert line(results.unplanned, f"^Node {tainted.name}: unschedulable")
    assert result_of(results, "nodes.cordoned") == ("fail", (tainted.name,), f"new: {tainted.name}")


def test_what_was_planned_and_is_not_known_is_no_pass() -> None:
    attested = [Attestation(check=c.id, by="Ada", note="ok") for c in ticket().checks if c.layer == "runtime"]
    done = finished()
    hidden = replace(
        done,
        components=tuple(
            replace(c, running_version=None, version="unobservable") if c.component == "kubelet" else c
            for c in done.components
        ),
    )
    results = verify(ticket(), hidden, data=kubedata.load(), evidence=attested)
    assert results.counts["unknown"] == results.counts["fail"] == 0
    assert line(results.unknown, "^kubelet$").why == "its version cannot be observed"
    assert results.outcome == "incomplete"
    assert "not known to be done: kubelet" in results.headline


def test_checks_of_the_profile_wait_for_somebody_s_word() -> None:
    own = OwnCheck(layer="runtime", title="The job sees two GPUs", expected="2")
    made = plan(recorded("before"), replace(to("1.37.2"), checks=(own,)))
    (asked,) = [c for c in made.checks if c.title == own.title]

    def judged(*said: Attestation) -> CheckResult:
        results = verify(made, recorded("after"), evidence=said)
        return next(r for r in results.results if r.id == asked.id)

    assert (judged().result, judged().actual) == ("unknown", None)
    given = judged(Attestation(check=asked.id, by="Ada", value="2", note="seen in its log"))
    assert (given.result, given.actual, given.attested_by, given.reason) == (
        "attested",
        "2",
        "Ada",
        "seen in its log",
    )
    other = judged(Attestation(check=asked.id, by="Ada", value="0", note="its log"))
    assert (other.result, other.actual, other.reason) == ("fail", "0", "is 0, expected 2; its log")


def test_an_image_is_compared_with_the_container_s_own() -> None:
    def with_sidecar(snapshot: Snapshot) -> Snapshot:
        images = {"a-proxy": "r.example:5000/proxy:v9", "z-log": "log:v1"}
        return replace(
            snapshot,
            workloads=tuple(
                replace(w, images={**w.images, **images}) if w.name == "coredns" else w
                for w in snapshot.workloads
            ),
        )

    made = plan(with_sidecar(recorded("before")), to("1.37.2"))
    dns = line(verify(made, with_sidecar(recorded("after"))).not_done, "coredns")
    assert dns.actual == "registry.k8s.io/coredns/coredns:v1.14.2"
    gone = replace(
        recorded("after"), workloads=tuple(w for w in recorded("after").workloads if w.name != "coredns")
    )
    assert line(verify(made, gone).unknown, "coredns").why == "not seen in the second reading"


def test_what_the_second_reading_lacks_is_said_once_with_its_reasons() -> None:
    assert not [item for item in report().unknown if item.what == "not read the second time"]
    less = replace(
        recorded("after"),
        kinds_read=tuple(k for k in recorded("after").kinds_read if k != "pods"),
        pods=(),
        unobserved=(*recorded("after").unobserved, Unobserved(what="pods", reason="forbidden", failed=True)),
    )
    lack = line(verify(ticket(), less).unknown, "^not read the second time$")
    assert any("pods" in subject for subject in lack.subjects)
    assert lack.why == "forbidden"


def test_an_answer_is_tied_to_instances_of_this_cluster_only() -> None:
    mid = recorded("mid")
    hosted = tuple(
        replace(c, belongs_to="hosted:tenant", instance=f"tenant/{c.component}-x", running_version="v1.37.2")
        for c in mid.components
        if c.component == "kube-apiserver"
    )
    answers = line(
        verify(ticket(), replace(mid, components=(*mid.components, *hosted))).unknown,
        "one kube-apiserver that answers",
    )
    assert answers.actual == "v1.37.2"


def test_an_attestation_fills_only_what_no_reading_shows() -> None:
    failing = next(c.id for c, r in zip(report().checks, report().results, strict=True) if r.result == "fail")
    word = Attestation(check=failing, by="Ada", note="ticked in ticket.pdf")
    result = next(r for r in verify(ticket(), recorded("after"), evidence=[word]).results if r.id == failing)
    assert result.result == "fail"
    assert result.reason.endswith("attested by Ada (ticked in ticket.pdf); the reading says otherwise")


@pytest.mark.parametrize(
    ("by", "value", "note"), [("Ada", "", ""), ("Ada", " ", ""), ("", "1", "x"), (" ", "1", "")]
)
def test_a_word_without_a_name_or_without_words_is_none(by: str, value: str, note: str) -> None:
    blank = [
        Attestation(check=c.id, by=by, value=value, note=note)
        for c in ticket().checks
        if c.layer == "runtime"
    ]
    assert verify(ticket(), recorded("after"), evidence=blank) == verify(ticket(), recorded("after"))


def test_words_of_two_people_on_a_check_stand_together() -> None:
    check = next(c.id for c in ticket().checks if c.layer == "runtime")
    words = [Attestation(check=check, by=by, value=value) for by, value in (("Ada", "2"), ("Bob", "0"))]
    result = next(r for r in verify(ticket(), recorded("after"), evidence=words).results if r.id == check)
    assert (result.attested_by, result.actual) == ("Ada, Bob", "2; 0")


def test_what_was_read_too_early_is_not_known_and_nobody_s_word_fills_it() -> None:
    first = report()
    (early,) = [r for r in first.results if r.reason.startswith("not yet")]
    assert early.id not in {r.id for r in first.results if r.result == "fail"}
    told = verify(ticket(), recorded("after"), evidence=[Attestation(check=early.id, by="Ada", note="seen")])
    result = next(r for r in told.results if r.id == early.id)
    assert result.result == "unknown"
    assert result.reason.endswith("attested by Ada (seen), which the reading does not bear out yet")
    later = replace(recorded("after"), captured_at="2099-01-01T00:00:00Z")
    assert next(r for r in verify(ticket(), later).results if r.id == early.id).result == "fail"


def test_time_does_not_bring_back_a_value_that_is_another_now() -> None:
    """Minutes after its start a driver may still have devices to publish; a version that it publishes is no lack."""
    assert result_of(report(), "dra.attribute", driver="gpu.example.com")[0] == "fail"
    fewer = replace(
        recorded("after"),
        pools=tuple(
            replace(p, devices=p.devices[:-1]) if p.driver == "gpu.example.com" else p
            for p in recorded("after").pools
        ),
    )
    check = next(
        c
        for c in ticket().checks
        if c.query and c.query.fact == "dra.devices" and c.query.args.get("driver") == "gpu.example.com"
    )
    waiting = replace(
        ticket(), checks=tuple(replace(c, wait_seconds=120) if c is check else c for c in ticket().checks)
    )
    result = next(r for r in verify(waiting, fewer).results if r.id == check.id)
    assert result.result == "unknown"
    assert result.reason.startswith("not yet")


def test_ticked_steps_are_told_with_what_the_reading_says_against_them() -> None:
    (addons,) = line(report().not_done, "^kube-proxy$").steps
    kubelets = line(report().done, "^kubelet$").steps
    words = [Attestation(check=s, by="Ada", note="ticked in t.pdf") for s in (addons, kubelets[0], "R-0")]
    results = verify(ticket(), recorded("after"), evidence=words)
    assert [(s.id, s.by, bool(s.against)) for s in results.ticked] == [
        (kubelets[0], "Ada", False),
        (addons, "Ada", True),
    ]
    assert "kube-proxy v1.36.3" in results.ticked[1].against
    assert (results.outcome, results.counts) == (report().outcome, verify(ticket(), recorded("after")).counts)


def test_what_came_or_changed_is_told_by_what_differs() -> None:
    after = finished()
    verbs = tuple(f"verb-{n}" for n in range(12))
    manager = next(c for c in after.components if c.component == "kube-controller-manager")
    flags = (*manager.flags, ConfigFact(name="made-by-hand"))
    changed = replace(
        after, components=tuple(replace(c, flags=flags) if c is manager else c for c in after.components)
    )
    unplanned = verify(ticket(), changed, data=kubedata.load()).unplanned
    flag = line(unplanned, "made-by-hand")
    assert (flag.before, flag.actual) == ("none", "there")
    change = Change(
        kind="changed",
        area="apis",
        path=("verbs",),
        subjects=("v1",),
        before=verbs,
        after=(*verbs[1:], "new"),
    )
    assert _sides(change) == ("verb-0 beside 11 that stay", "new")
    assert _sides(replace(change, before=verbs[:3], after=verbs[:2])) == (
        "verb-0, verb-1, verb-2",
        "verb-0, verb-1",
    )
    assert _sides(replace(change, before=verbs, after=verbs[1:])) == ("verb-0 beside 11 that stay", "none")


@pytest.mark.parametrize("name", ["after", "mid"])
def test_no_difference_is_told_with_one_value_on_both_sides(name: str) -> None:
    results = report(name)
    assert results.not_done
    told = (*results.unplanned, *(item for item in results.done if item.code == "follows"))
    assert not [(item.what, item.before) for item in told if item.before == item.actual]


def test_booleans_are_written_as_kubernetes_writes_them() -> None:
    follows = tuple(item for item in report().done if item.code == "follows")
    assert line(follows, "kube-scheduler cp-3: feature gates DRADeviceTaintRules").actual == "true"
    verdict, reason = judge(check("equals", {"a": True}), Reading(value={"a": False, "b": True}))
    assert (verdict, reason) == ("fail", "a: is false, expected true; not expected: b true")


# ------------------------------------------------------------------------------------------------ judging


def check(compare: str, expected: Value, before: Value = None, *, known: bool = True) -> Check:
    return Check(
        id="V-1",
        layer="api",
        title="t",
        command="c",
        expected=expected,
        before=before,
        before_known=known,
        compare=compare,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("compare", "expected", "good", "bad"),
    [
        ("equals", "v1", "v1", "v2"),
        ("equals", 0, 0, 1),
        ("equals", (), (), ("x",)),
        ("equals", {"a": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ("version", "v1.37.2", "v1.37.2-eks-1234567", "v1.37.1"),
        ("version", {"a": "v1.37.2"}, {"a": "1.37.2"}, {}),
        ("version", ("v1.37.2",), ("v1.37.2",), ("v1.36.3", "v1.37.2")),
        ("at-least", {"a": 2}, {"a": 3, "b": 1}, {"a": 1}),
        ("at-least", 1, 2, 0),
        ("at-most", ("x",), (), ("x", "y")),
        ("at-most", 1, 0, 2),
        ("contains", ("a",), ("a", "b"), ("b",)),
        ("filled", {"a": "x"}, {"b": "y"}, {}),
        ("absent", None, (), ("x",)),
        ("absent", None, "no", "yes"),
    ],
)
def test_comparisons(compare: str, expected: Value, good: Value, bad: Value) -> None:
    assert judge(check(compare, expected), Reading(value=good)) == ("pass", "")
    verdict, reason = judge(check(compare, expected), Reading(value=bad))
    assert verdict == "fail"
    assert reason


def test_same_as_before_needs_a_before() -> None:
    assert judge(check("same-as-before", "x", "x"), Reading(value="x"))[0] == "pass"
    assert judge(check("same-as-before", "x", "x"), Reading(value="y"))[0] == "fail"
    assert judge(check("same-as-before", None, None, known=False), Reading(value="y"))[0] == "unknown"


def test_a_gap_does_not_pass_and_does_not_hide_a_failure() -> None:
    wanted = check("version", {"a": "v1.37.2", "b": "v1.37.2"})
    gap = Reading(value={"a": None, "b": "v1.37.2"}, gaps={"a": "no status"})
    assert judge(wanted, gap) == ("unknown", "a: no status")
    assert judge(wanted, replace(gap, value={"a": None, "b": "v1.36.3"}))[0] == "fail"


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.lists(st.text()).map(tuple),
    st.dictionaries(st.text(), st.integers()),
)


@given(
    st.sampled_from(
        ["equals", "version", "at-least", "at-most", "contains", "same-as-before", "filled", "absent"]
    ),
    values,
    st.text(min_size=1),
)
def test_what_is_not_known_never_passes(compare: str, expected: Value, reason: str) -> None:
    assert judge(check(compare, expected, expected), unknown(reason)) == ("unknown", reason)


@given(st.sampled_from(["equals", "at-least", "at-most", "same-as-before"]), values)
def test_a_value_is_what_it_is(compare: str, value: Value) -> None:
    assert judge(check(compare, value, value), Reading(value=value))[0] == "pass"


def test_nodes_that_a_provider_makes_anew_are_no_surprise() -> None:
    def on_eks(snapshot: Snapshot, prefix: str, version: str) -> Snapshot:
        nodes = tuple(
            replace(
                n,
                name=f"{prefix}-{i}",
                kubelet_version=version,
                labels={"eks.amazonaws.com/nodegroup": "gpu"},
            )
            for i, n in enumerate(snapshot.nodes[3:6])
        )
        cluster = replace(snapshot.cluster, distribution="eks", managed=True, server_version=version)
        return replace(
            snapshot, components=(), processes=(), nodes=nodes, cluster=cluster, pods=(), claims=(), pools=(), drivers=(),
            config_maps=(), workloads=(), disruption_budgets=(), events=(), leases=(), taint_rules=(),
        )  # fmt: skip

    old, new = on_eks(recorded("before"), "ip-10", "v1.36.3"), on_eks(recorded("after"), "ip-99", "v1.37.2")
    made = plan(old)
    results = verify(made, new, data=kubedata.load())
    assert line(results.done, "^kubelet$").count == 3
    assert not results.not_done
    assert not results.unplanned, [item.what for item in results.unplanned]
    lagging = replace(new, nodes=(replace(new.nodes[0], kubelet_version="v1.36.3"), *new.nodes[1:]))
    assert line(verify(made, lagging, data=kubedata.load()).not_done, "^kubelet$")


def _node(snapshot: Snapshot, **more: object) -> Snapshot:
    return replace(snapshot, nodes=(*snapshot.nodes[:-1], replace(snapshot.nodes[-1], **more)))


def _component(snapshot: Snapshot, name: str, **more: object) -> Snapshot:
    first = next(c for c in snapshot.components if c.component == name)
    return replace(
        snapshot, components=tuple(replace(c, **more) if c is first else c for c in snapshot.components)
    )


BY_HAND: dict[str, Callable[[Snapshot], Snapshot]] = {
    "a taint on a node": lambda s: _node(
        s, taints=(NodeTaint(key="dedicated", value="x", effect="NoSchedule"),)
    ),
    "a label of a node": lambda s: _node(s, labels={**s.nodes[-1].labels, "team": "a"}),
    "another runtime": lambda s: _node(s, container_runtime="containerd://9.9.9"),
    "a gate of a component": lambda s: _component(
        s, "kube-scheduler", feature_gates={"DRADeviceTaintRules": True, "PodsAPI": False}
    ),
    "another registry": lambda s: _component(
        s, "kube-apiserver", image="mirror.example.org/kube-apiserver:v1.37.2"
    ),
    "a version beyond": lambda s: _component(
        s, "kube-controller-manager", version="v1.37.3", running_version="v1.37.3"
    ),
    "another image of a workload": lambda s: replace(
        s,
        workloads=tuple(
            replace(w, images=dict.fromkeys(w.images, "x:1")) if w.name == "train" else w for w in s.workloads
        ),
    ),
    "another replica count": lambda s: replace(
        s, workloads=tuple(replace(w, replicas=9) if w.name == "train" else w for w in s.workloads)
    ),
    "a budget's limit": lambda s: replace(
        s, disruption_budgets=tuple(replace(b, min_available="1") for b in s.disruption_budgets)
    ),
    "an effect of a rule": lambda s: replace(
        s, taint_rules=tuple(replace(r, effect="NoExecute") for r in s.taint_rules)
    ),
    "a new rule": lambda s: replace(
        s, taint_rules=(*s.taint_rules, replace(s.taint_rules[0], name="another", uid="2"))
    ),
    "a class's resource": lambda s: replace(
        s,
        device_classes=tuple(
            replace(c, extended_resource_name="x.org/y") if c.extended_resource_name else c
            for c in s.device_classes
        ),
    ),
    "a device gone": lambda s: replace(
        s, pools=(replace(s.pools[0], devices=s.pools[0].devices[:-1]), *s.pools[1:])
    ),
    "a taint of a device": lambda s: replace(
        s,
        pools=(
            replace(
                s.pools[0],
                devices=(
                    replace(s.pools[0].devices[0], taints=(DeviceTaint(key="k", effect="NoSchedule"),)),
                    *s.pools[0].devices[1:],
                ),
            ),
            *s.pools[1:],
        ),
    ),
    "an API that came": lambda s: replace(s, apis=(*s.apis, ServedApi(group_version="new.example.org/v1"))),
    "a setting of kubeadm": lambda s: replace(
        s,
        config_maps=tuple(
            replace(c, settings={**c.settings, "controlPlaneEndpoint": "x:1"}) if c.kind == "kubeadm" else c
            for c in s.config_maps
        ),
    ),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_whatever_is_changed_by_hand_is_named_as_unplanned(what: str) -> None:
    results = verify(ticket(), BY_HAND[what](finished()), data=kubedata.load())
    assert results.counts["unplanned"] >= 1, [item.what for item in results.done]


# --------------------------------------------------------------------------------- what a new minor brings by itself


def _with_mode(snapshot: Snapshot, mode: str) -> Snapshot:
    maps = tuple(
        replace(c, settings={**c.settings, "mode": mode}) if c.kind == "kube-proxy" else c
        for c in snapshot.config_maps
    )
    return replace(snapshot, config_maps=maps)


@pytest.mark.parametrize(("mode", "planned"), [("iptables", True), ("nftables", False)])
def test_the_mode_that_the_addon_writes_out_is_a_consequence(mode: str, planned: bool) -> None:
    results = verify(ticket(), _with_mode(recorded("after"), mode), data=kubedata.load())
    said = [item for item in results.unplanned if "mode" in item.what and "kube-proxy" in item.what]
    assert bool(said) is not planned


@pytest.mark.parametrize(
    ("role", "planned"),
    [
        ("ClusterRole system:cluster-trust-bundle-discovery", True),
        ("ClusterRole system:kube-controller-manager", False),
    ],
)
def test_default_roles_of_the_new_minor_are_a_consequence(role: str, planned: bool) -> None:
    def rights(*roles: str) -> tuple[DriverRights, ...]:
        return (DriverRights(driver="gpu.example.com", service_account="dra/plugin", roles=roles),)

    read = "clusterroles.rbac.authorization.k8s.io"
    before, after = recorded("before"), recorded("after")
    before = replace(
        before, driver_rights=rights("ClusterRole driver"), kinds_read=(*before.kinds_read, read)
    )
    after = replace(
        after, driver_rights=rights("ClusterRole driver", role), kinds_read=(*after.kinds_read, read)
    )
    results = verify(plan(before), after, data=kubedata.load())
    said = [item for item in results.unplanned if role in f"{item.what} {item.before} {item.actual}"]
    assert bool(said) is not planned
