"""The first page: what an approver decides from, in words that are true of any cluster."""

from __future__ import annotations

import re

import msgspec
import pytest

from changegen.model.snapshot import DisruptionBudget, Snapshot
from changegen.model.ticket import Ticket
from changegen.plan.draft import StepDraft, number
from changegen.plan.summary import ranked
from changegen.words import spell
from tests.plan.build import dra_profile, plan, recorded, ticket, to
from tests.plan.test_laws import of_fixture
from tests.plan.test_shapes import older, with_workers

replace = msgspec.structs.replace


def named(snapshot: Snapshot, name: str, uid: str) -> Snapshot:
    return replace(snapshot, cluster=replace(snapshot.cluster, name=name, uid=uid))


@pytest.mark.parametrize(
    ("name", "uid", "said"),
    [
        ("prod-a", "c3cb290c", "on prod-a"),
        ("", "uid--kube-system", "on a cluster without a name (UID uid--kube-system)"),
        ("", "", "on a cluster that was not identified"),
    ],
)
def test_the_title_names_the_cluster_or_says_that_it_cannot(name: str, uid: str, said: str) -> None:
    assert plan(named(recorded("before"), name, uid)).title.endswith(said)


def test_the_blast_radius_names_workloads_worst_first() -> None:
    said = ticket().facts["blast_radius"]
    assert said.startswith(
        "ml/legacy-infer: down (0 of 2) while old-gpu-1 is out, 10 min. ml/net-app: down from the drain of gpu-1 until it is "
        "made again; it may get another device. ml/train: 2 of 3 while gpu-1 or gpu-2 is out, 10 min (its budget forbids that "
        "today)."
    )
    allowed = tuple(replace(b, disruptions_allowed=1) for b in recorded("before").disruption_budgets)
    relaxed = plan(replace(recorded("before"), disruption_budgets=allowed)).facts["blast_radius"]
    assert "ml/train: 2 of 3 while gpu-1 or gpu-2 is out, 10 min." in relaxed


def test_a_long_blast_radius_is_cut_and_counted() -> None:
    budgets = tuple(
        DisruptionBudget(
            namespace="shop", name=f"web-{n}", disruptions_allowed=0, expected_pods=1, pods=(f"web-{n}-0",)
        )
        for n in range(40)
    )
    before = recorded("before")
    made = plan(replace(before, disruption_budgets=(*before.disruption_budgets, *budgets)))
    said = made.facts["blast_radius"]
    assert "ml/legacy-infer: down" in said
    assert "And 38 more workloads." in said
    assert len(said) < 700


def test_a_budget_that_stops_a_drain_comes_before_a_pod_that_it_deletes() -> None:
    codes = [f.code for f in ticket().findings if f.severity == "warning"]
    assert codes.index("CG-PDB-001") < codes.index("CG-DRAIN-002")
    fresh = [f.preexisting for f in ticket().findings if f.severity == "warning"]
    assert fresh == sorted(fresh)
    assert {f.id for f in ranked(ticket().findings)} == {f.id for f in ticket().findings}
    assert "ml/train allows no disruption" in plan(recorded("before"), to("1.36.4")).headline


def test_what_is_not_known_is_said_in_words_and_whether_it_matters() -> None:
    said = ticket().facts["not_known"]
    assert re.search(
        r"roles.*, Jobs, ReplicaSets, quotas, Services, StatefulSets \(no step and no verdict depends", said
    )
    assert ".k8s.io" not in said
    other = of_fixture("eks").facts["not_known"]
    assert "PodDisruptionBudgets (needed for: what drains meet)" in other
    assert "not-in-capture" not in other


def test_roles_matter_while_no_driver_has_shown_that_it_may_fill_the_device_status() -> None:
    before = recorded("before")
    needed = "roles (needed for: whether drivers may go on filling the device status)"
    assert needed not in ticket().facts["not_known"]
    empty = tuple(replace(claim, device_status=()) for claim in before.claims)
    assert needed in plan(replace(before, claims=empty)).facts["not_known"]


def test_nodes_are_counted_in_words_and_simulated_ones_are_told() -> None:
    before = recorded("before")
    said = ticket().facts["cluster"]
    assert "3 control-plane nodes and 5 workers" in said
    assert "8 of 8 nodes are simulated" in said
    real = tuple(replace(node, container_runtime="containerd://2.2.1", provider="") for node in before.nodes)
    assert "simulated" not in plan(replace(before, nodes=real)).facts["cluster"]


def test_default_changes_are_counted_apart_and_as_the_finding_counts_them() -> None:
    made = ticket()
    found = re.search(
        r"(\d+) default changes? touch\w* what was read, of (\d+) it is not known, (\d+) are not seen used",
        made.facts["risk"],
    )
    assert found
    touched, unknown, unused = map(int, found.groups())
    assert touched == sum(1 for f in made.findings if f.code == "CG-GATE-020")
    rest = next(f for f in made.findings if f.code == "CG-GATE-021").message
    assert rest.startswith(f"{unused} more gates")
    assert f"Of {unknown} more it is not known" in rest
    rows = {
        row.name: row.touches for row in made.forecast if row.effect in ("flips-on", "flips-off", "new-on")
    }
    assert len(rows) == touched + unknown + unused
    assert sum(1 for text in rows.values() if text.startswith("unknown")) == unknown


def test_the_way_back_has_its_times() -> None:
    made = ticket()
    said = made.facts["way_back"]
    point = next(s.id for s in made.steps if s.no_return)
    early, late = (
        next(f for f in made.rollback_forks if f.etcd == etcd and len(f.do) > 4) for etcd in ("old", "new")
    )
    assert f"until {point} starts (minute 30): easy, {spell(early.minutes or 0)}" in said
    assert f"from the end about {spell(late.minutes or 0)}, with etcd left on 3.7" in said
    window = sum(s.minutes or 0 for s in made.steps if s.phase != "before")
    assert f"book {spell(window + (late.minutes or 0))}" in made.facts["duration"]


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (0, "0 min"),
        (59, "59 min"),
        (60, "1 h"),
        (61, "1 h"),
        (141, "2 h 20 min"),
        (2122, "35 h"),
        (7200, "5 days"),
    ],
)
def test_minutes_are_said_as_people_say_them(minutes: int, said: str) -> None:
    assert spell(minutes) == said


def test_hours_say_how_many_nodes_at_once_and_no_name_of_a_setting() -> None:
    said = plan(with_workers(200), dra_profile()).facts["duration"]
    assert "one node at a time" in said
    assert "node_parallel" not in said


@pytest.mark.parametrize("name", ["eks", "openshift"])
def test_without_a_way_back_the_decision_is_before_the_start(name: str) -> None:
    made = of_fixture(name)
    first = next(s.id for s in made.steps if s.phase == "control-plane")
    assert made.rollback_decide_by == f"before {first} starts"
    assert made.facts["way_back"].startswith("none for the control plane once it has started")


def versions(made: Ticket) -> set[str]:
    return {row.target.removeprefix("v") for row in made.instances if row.action == "upgrade"}


def test_a_target_is_one_version_everywhere() -> None:
    made = plan(recorded("before"), to("1.37"))
    assert versions(made) <= {"1.37.2", "3.7.0", "1.14.6"}
    assert "1.37.2" in made.title
    assert "the profile names only 1.37, and 1.37.2 was chosen as the newest known" in made.facts["not_known"]
    assert not [row for row in made.instances if row.target.endswith("-0")]
    assert "was chosen" not in plan(older(36), to("1.37.2")).facts["not_known"]


def test_a_sentence_that_names_a_step_that_nobody_made_is_left_out() -> None:
    step = StepDraft(
        key="one",
        phase="before",
        title="One",
        notes=["It is kept. The commands are in {{back:none}}.", "See {{back:none}}.", "Then {{one}}."],
    )
    made = number([step], [], [], [])
    assert made.steps[0].notes == ("It is kept.", "Then P-1.")


@pytest.mark.parametrize("name", ["recorded", "eks", "openshift", "rke2", "talos"])
def test_no_text_points_to_nothing(name: str) -> None:
    made = ticket() if name == "recorded" else of_fixture(name)
    texts = [text for s in made.steps for text in (s.why, s.go_on, s.stop, *s.notes)]
    texts += [text for b in made.rollback for text in (b.why, b.guard, b.go_on, b.stop, b.lost)]
    texts += [text for f in made.rollback_forks for text in (f.when, f.note)]
    assert not [text for text in texts if re.search(r"(in|step|see|by) -[ .,;]", text) or "{{" in text]


def test_devices_that_were_not_read_are_not_counted_as_none() -> None:
    base = recorded("before")
    read = tuple(k for k in base.kinds_read if k != "resourceslices.resource.k8s.io")
    made = plan(msgspec.structs.replace(base, pools=(), kinds_read=read))
    text = made.facts["blast_radius"]
    assert "of 0 devices" not in text
    assert "3 Pods hold devices of gpu.example.com: 3, of how many is not known" in text
    assert "ml/train: 1 of 3" not in text
    rule = next(row for row in made.taints if row.kind == "rule")
    assert "ResourceSlices were not read whole: it may be more" in rule.today
    said = next(f.message for f in made.findings if f.code == "CG-TAINT-001")
    assert "0 devices selected" not in said or "ResourceSlices were not read whole" in said
