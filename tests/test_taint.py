"""Whom a device taint hits."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.model.snapshot import Consumer, Snapshot, TaintRule, Toleration
from changegen.taint import (
    blast_radius,
    driver_taints,
    evicts_extended,
    existing_rules,
    lines,
    missing_selector,
    retaint,
    rollout,
    rule_yaml,
    rules_of,
    together,
)
from tests.assess.build import api, node, pod, with_fields
from tests.assess.gpus import DRIVER, claim, gpus, holding, pool, rule, tainted, user

TRAIN = (
    holding("a", "n1", "gpu-0", "n1"),
    holding("b", "n1", "gpu-1", "n1"),
    holding("c", "n2", "gpu-0", "n2"),
)


def cluster(**more: Any) -> Snapshot:
    return gpus(pool("n1"), pool("n2"), *TRAIN, **more)


def test_one_device_one_pod() -> None:
    blast = blast_radius(cluster(), rule(DRIVER, "n1", "gpu-0"))
    assert (blast.published, blast.allocated) == (1, 1)
    assert [(p.name, p.owner, p.comes_back, p.outcome) for p in blast.pods] == [
        ("a", "Deployment/train", True, "evicted")
    ]
    assert blast.namespaces == ("ml",)
    assert not any(share.whole for share in blast.shares)


def test_a_free_device_hits_nobody() -> None:
    blast = blast_radius(cluster(), rule(DRIVER, "n2", "gpu-1"))
    assert (blast.published, blast.allocated, blast.evicted) == (1, 0, ())


def test_a_whole_node_is_warned_of() -> None:
    blast = blast_radius(cluster(), rule(DRIVER, "n1"))
    assert [(s.what, s.name, s.selected, s.total, s.whole) for s in blast.shares] == [
        ("node", "n1", 2, 2, True),
        ("pool", "n1", 2, 2, True),
    ]
    assert any("n1" in text for text in blast.warnings)
    assert blast_radius(cluster(), rule(DRIVER, "n1", "gpu-0")).warnings == ()


def test_a_pod_without_a_controller_does_not_come_back() -> None:
    bare = gpus(pool("n1"), holding("a", "n1", "gpu-0", "n1", owner=None))
    blast = blast_radius(bare, rule(DRIVER))
    assert not blast.pods[0].comes_back
    assert any("ml/a" in text for text in blast.warnings)


def held(*tolerations: Toleration, **more: Any) -> Snapshot:
    """A Pod with a claim of its own, whose allocation has tolerations."""
    return gpus(
        pool("n1"),
        user("a", claim="mine"),
        claim("mine", ("n1", "gpu-0"), pods=("a",), tolerations=tolerations, **more),
    )


@pytest.mark.parametrize(
    ("toleration", "outcome", "seconds"),
    [
        (Toleration(key="example.com/maint", operator="Exists", effect="NoExecute"), "stays", None),
        (Toleration(operator="Exists", effect="NoExecute"), "stays", None),
        (
            Toleration(key="example.com/maint", operator="Exists", effect="NoExecute", seconds=60),
            "evicted-later",
            60,
        ),
        (
            Toleration(key="example.com/maint", operator="Exists", effect="NoExecute", seconds=-5),
            "evicted",
            None,
        ),
        (
            Toleration(key="example.com/maint", operator="Equal", value="x", effect="NoExecute"),
            "evicted",
            None,
        ),
        (Toleration(key="other", operator="Exists", effect="NoExecute"), "evicted", None),
        (Toleration(key="example.com/maint", operator="Exists", effect="NoSchedule"), "evicted", None),
        # The controller counts a toleration only where its effect is spelled out.
        (Toleration(key="example.com/maint", operator="Exists"), "evicted", None),
    ],
)
def test_tolerations_in_the_allocation_decide(
    toleration: Toleration, outcome: str, seconds: int | None
) -> None:
    found = blast_radius(held(toleration), rule(DRIVER)).pods[0]
    assert (found.outcome, found.seconds) == (outcome, seconds)


def test_the_shortest_toleration_counts_and_one_for_ever_wins() -> None:
    long, short = (Toleration(operator="Exists", effect="NoExecute", seconds=n) for n in (300, 10))
    assert blast_radius(held(long, short), rule(DRIVER)).pods[0].seconds == 10
    forever = Toleration(operator="Exists", effect="NoExecute")
    assert blast_radius(held(short, forever), rule(DRIVER)).pods[0].outcome == "stays"


def test_a_toleration_for_scheduling_only_is_told() -> None:
    blast = blast_radius(held(Toleration(operator="Exists")), rule(DRIVER))
    assert any("NoExecute" in note and "toleration" in note for note in blast.notes)


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("v1.36.3", False),
        ("v1.35.4", False),
        ("v1.36.9", None),
        ("v1.37.0", None),
        ("v1.37.2", True),
        ("v1.38.1", True),
        ("", None),
    ],
)
def test_which_taint_controllers_evict_pods_of_extended_resources(version: str, answer: bool | None) -> None:
    assert evicts_extended(version) is answer


def test_pods_of_extended_resources_are_spared_by_the_controller_of_1_36() -> None:
    mixed = gpus(
        pool("n1"), *TRAIN[:1], user("own", claim="mine"), claim("mine", ("n1", "gpu-1"), pods=("own",))
    )
    old = blast_radius(mixed, rule(DRIVER), version="v1.36.3")
    assert {p.name: p.outcome for p in old.pods} == {"a": "spared", "own": "evicted"}
    assert any("1.37 does" in note for note in old.notes)
    new = retaint(mixed, old, version="v1.37.2")
    assert {p.name for p in new.evicted} == {"a", "own"}
    assert new == blast_radius(mixed, rule(DRIVER), version="v1.37.2")
    # Where the release is not known, the worse is supposed.
    assert len(blast_radius(mixed, rule(DRIVER)).evicted) == 2


def test_the_controller_manager_s_own_version_counts_and_a_mixed_one_evicts() -> None:
    old = pod("kube-controller-manager", "a", version="v1.36.3")
    new = pod("kube-controller-manager", "b", version="v1.37.2")
    assert blast_radius(cluster(components=(old,)), rule(DRIVER)).evicted == ()
    assert len(blast_radius(cluster(components=(old, new)), rule(DRIVER)).evicted) == 3


def test_pods_that_ask_for_an_extended_resource_cannot_stay() -> None:
    assert any("extended resource" in note for note in blast_radius(cluster(), rule(DRIVER)).notes)
    assert not any("extended resource" in note for note in blast_radius(held(), rule(DRIVER)).notes)


def test_a_pod_of_the_same_name_and_another_uid_is_not_the_one() -> None:
    snapshot = gpus(
        pool("n1"), user("a", uid="new", claim="mine"), claim("mine", ("n1", "gpu-0"), pods=("a",))
    )
    assert [p.outcome for p in blast_radius(snapshot, rule(DRIVER)).pods] == ["unknown"]


def test_a_pod_that_is_not_scheduled_is_left_alone() -> None:
    snapshot = gpus(pool("n1"), user("a", on="", claim="mine"), claim("mine", ("n1", "gpu-0"), pods=("a",)))
    blast = blast_radius(snapshot, rule(DRIVER))
    assert [p.outcome for p in blast.pods] == ["not-scheduled"]
    assert blast.evicted == ()


def test_devices_that_no_slice_publishes_are_matched_by_name() -> None:
    snapshot = gpus(user("a", claim="mine"), claim("mine", ("n9", "gpu-0"), pods=("a",)))
    blast = blast_radius(snapshot, rule(DRIVER, "n9"))
    assert (blast.published, blast.allocated, len(blast.evicted)) == (0, 1, 1)


# ------------------------------------------------------------------------------------------------- missing selectors


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("v1.35.4", True),
        ("v1.36.3", True),
        ("v1.37.0", True),
        ("v1.37.1", False),
        ("v1.37.2", False),
        ("v1.38.0", False),
        ("v1.36.9", None),
        ("1.37", None),
        (None, None),
    ],
)
def test_which_schedulers_take_a_missing_selector_for_all(version: str | None, answer: bool | None) -> None:
    assert missing_selector(version) is answer


def test_no_selector_evicts_nobody_and_closes_all_devices_to_old_schedulers() -> None:
    none = rule(selector="none")
    for version, everything in (("v1.36.3", True), ("v1.37.2", False)):
        blast = blast_radius(cluster(), none, version=version)
        assert blast.devices == ()
        assert blast.evicted == ()
        assert blast.scheduling_all is everything
        assert blast.warnings
    assert len(blast_radius(cluster(), rule(), version="v1.37.2").evicted) == 3


def test_the_scheduler_s_own_version_counts() -> None:
    old = cluster(
        components=(pod("kube-scheduler", version="v1.36.3"), pod("kube-apiserver", version="v1.37.2"))
    )
    new = cluster(components=(pod("kube-scheduler", version="v1.37.2"),))
    assert blast_radius(old, rule(selector="none")).scheduling_all is True
    assert blast_radius(new, rule(selector="none")).scheduling_all is False
    assert blast_radius(cluster(), rule(selector="none")).scheduling_all is None


def test_a_rule_that_selects_nothing_is_warned_of() -> None:
    assert blast_radius(cluster(), rule(DRIVER, "nowhere")).warnings
    assert not blast_radius(cluster(), rule(DRIVER, "n2", "gpu-1")).warnings


# -------------------------------------------------------------------------------------------- what is in the cluster


def test_rules_and_taints_of_drivers_get_the_same_table() -> None:
    snapshot = gpus(
        pool("n1", each=tainted("NoExecute")), pool("n2"), *TRAIN, rule(DRIVER, "n2", effect="None")
    )
    assert [(b.source, b.rule.name, b.published) for b in existing_rules(snapshot)] == [("rule", "maint", 2)]
    found = driver_taints(snapshot)
    assert [(b.source, b.rule.driver, b.rule.key, b.published, len(b.evicted)) for b in found] == [
        ("driver", DRIVER, "example.com/bad", 2, 2)
    ]
    assert driver_taints(cluster()) == ()


def test_what_was_not_read_is_named() -> None:
    assert blast_radius(cluster(), rule(DRIVER)).unobserved == ()
    blind = blast_radius(cluster(kinds_read=("pods",)), rule(DRIVER))
    assert "resourceclaims.resource.k8s.io" in blind.unobserved
    assert any("resourceclaims" in line for line in lines(blind))


# ------------------------------------------------------------------------------------------------------- the output


@pytest.mark.parametrize(
    "made",
    [
        rule(DRIVER, "n1", "gpu-0", value="true"),
        rule(),
        rule(selector="none"),
        rule(DRIVER, "0", "1e3", effect="None", name="on"),
        rule("a: b", "{x}", "- y\n", key="k", name="null"),
    ],
)
def test_the_yaml_is_the_rule(made: TaintRule) -> None:
    parsed = yaml.safe_load(rule_yaml(made))
    assert parsed["kind"] == "DeviceTaintRule"
    assert parsed["metadata"]["name"] == made.name
    taint = parsed["spec"]["taint"]
    assert (taint["key"], taint.get("value", ""), taint["effect"]) == (made.key, made.value, made.effect)
    selector = parsed["spec"].get("deviceSelector")
    if made.selector == "none":
        assert selector is None
    else:
        assert selector == {k: v for k in ("driver", "pool", "device") if (v := getattr(made, k))}


@pytest.mark.parametrize(
    ("apis", "version"),
    [
        ((), "resource.k8s.io/v1"),
        ((api("resource.k8s.io/v1", "DeviceTaintRule"),), "resource.k8s.io/v1"),
        (
            (api("resource.k8s.io/v1", "DeviceClass"), api("resource.k8s.io/v1beta2", "DeviceTaintRule")),
            "resource.k8s.io/v1beta2",
        ),
    ],
)
def test_the_yaml_is_of_a_version_that_is_served(apis: tuple[Any, ...], version: str) -> None:
    assert yaml.safe_load(rule_yaml(rule(DRIVER), cluster(apis=apis)))["apiVersion"] == version


def test_where_evicted_pods_go() -> None:
    def move(free: int, **pod: Any) -> Any:
        pods = holding("a", "n1", "gpu-0", "n1", requests={}, **pod)
        return blast_radius(gpus(pool("n1"), pool("n2", free), pods), rule(DRIVER, "n1"))

    assert move(0).homeless == ("ml/a",)
    assert any("No device is left for ml/a once it is evicted" in text for text in move(0).warnings)
    assert "finds no device" in "\n".join(lines(move(0)))
    assert move(1).homeless == ()
    assert not any("No device is left" in text for text in move(1).warnings)
    # A Pod that nothing makes again goes nowhere.
    assert move(0, owner=None).homeless == ()
    # What cannot be judged is said, and is no warning.
    doubt = move(1, other_constraints=("pod anti-affinity",))
    assert doubt.unsettled == {"ml/a": ("pod anti-affinity",)}
    assert any("cannot be told: pod anti-affinity" in text for text in doubt.notes)
    # The node itself counts, with the room that the Pod gives back, and without the devices that are tainted.
    full = node("n1", allocatable={"cpu": "4"}, requested={"cpu": "4"})
    stay = holding("a", "n1", "gpu-0", "n1", requests={"cpu": "4"})
    one = blast_radius(gpus(pool("n1"), stay, full), rule(DRIVER, "n1", "gpu-0"))
    assert (one.homeless, one.unsettled) == ((), {})
    assert blast_radius(gpus(pool("n1"), stay, full), rule(DRIVER, "n1")).homeless == ("ml/a",)


def test_a_claim_that_tolerates_the_taint_may_have_the_device_again() -> None:
    def asking(*tolerations: Toleration) -> Any:
        mine = claim("mine", ("n1", "gpu-0"), pods=("a",), tolerations=())
        wanted = with_fields(mine, requests=(with_fields(mine.requests[0], tolerations=tolerations),))
        who = user("a", claim="mine", requests={})
        return blast_radius(gpus(pool("n1", 1), who, wanted), rule(DRIVER, "n1"))

    assert asking().homeless == ("ml/a",)
    assert asking(Toleration(key="example.com/maint", operator="Exists")).homeless == ()


def test_half_of_a_pool_takes_a_rule_for_each_device() -> None:
    made = rules_of(rule(DRIVER, "n1", name="m"), ("gpu-0", "gpu-1"))
    assert [(r.name, r.device) for r in made] == [("m-1", "gpu-0"), ("m-2", "gpu-1")]
    assert [r.name for r in rules_of(rule(DRIVER, "n1", name="m"), ("gpu-0",))] == ["m"]
    assert rules_of(rule(DRIVER, "n1"), ()) == (rule(DRIVER, "n1"),)
    # Alone neither closes the node, together they do.
    alone = [blast_radius(cluster(), r) for r in made]
    assert not any("nothing of it is left" in text for blast in alone for text in blast.warnings)
    both = together(cluster(), made)
    assert (both.published, both.allocated, len(both.evicted)) == (2, 2, 2)
    assert any("Every device" in text for text in both.warnings)
    assert together(cluster(), made[:1]) == alone[0]
    stray = together(cluster(), (*made, *rules_of(rule(DRIVER, "n1"), ("gpu-9",))))
    assert any("gpu-9" in text for text in stray.warnings)


def test_several_rules_are_patched_and_deleted_by_their_file() -> None:
    made = rules_of(rule(DRIVER, "n1", name="m"), ("gpu-0", "gpu-1"))
    texts = [c.text for step in rollout(together(cluster(), made), "m") for c in step.commands]
    assert 'kubectl patch -f m.yaml --type merge -p \'{"spec":{"taint":{"effect":"NoExecute"}}}\'' in texts
    assert "kubectl delete -f m.yaml" in texts
    assert any(text.startswith("kubectl get devicetaintrules m-1 m-2 -o") for text in texts)
    alone = [c.text for step in rollout(together(cluster(), made[:1]), "m") for c in step.commands]
    assert "kubectl delete devicetaintrule m-1" in alone


def test_what_was_not_read_is_not_none() -> None:
    blind = cluster(kinds_read=("pods", "nodes", "resourceslices.resource.k8s.io"), claims=())
    blast = blast_radius(blind, rule(DRIVER, "n1"))
    text = "\n".join(lines(blast))
    assert "is not known" in text
    assert "0 allocated" not in text
    assert "free" not in text
    assert "was not read" in rollout(blast)[0].go_on
    assert "2 allocated" in "\n".join(lines(blast_radius(cluster(), rule(DRIVER, "n1"))))


def test_claims_of_a_pod_group_are_said() -> None:
    group = claim("team", ("n1", "gpu-0"))
    held = with_fields(group, reserved_for=(Consumer(resource="podgroups", name="team"),))
    blast = blast_radius(gpus(pool("n1"), held), rule(DRIVER, "n1", "gpu-0"))
    assert blast.groups == ("ml/team",)
    assert any("PodGroups (ml/team)" in text for text in blast.warnings)
    assert blast_radius(cluster(), rule(DRIVER, "n1")).groups == ()


def test_the_rollout_asks_the_owners_before_it_evicts() -> None:
    steps = rollout(blast_radius(cluster(), rule(DRIVER, "n1")))
    effects = [
        next((e for e in ("NoExecute", "NoSchedule") if e in step.commands[0].text), "") for step in steps
    ]
    assert effects == ["", "NoSchedule", "NoExecute", ""]
    assert "Deployment/train" in steps[2].go_on
    assert "delete" in steps[3].commands[0].text
    writes = [c for step in steps for c in step.commands if c.runs == "write"]
    assert len(writes) == 4


def test_the_rollout_waits_for_nobody_where_no_pod_is_hit() -> None:
    evicts = rollout(blast_radius(cluster(), rule(DRIVER, "no-such-pool")))[2]
    assert evicts.title == "Set effect NoExecute"
    assert evicts.go_on.startswith("Reason PodsPendingEviction")


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "NoExecute"])
def test_the_first_step_never_applies_more_than_none(effect: str) -> None:
    made = rule(DRIVER, "n1", effect=effect)
    first = rollout(blast_radius(cluster(), made))[0].commands[0].text
    applied = rule_yaml(made)
    if first.startswith("sed"):
        script = shlex.split(first)[1]
        _, pattern, replacement, _ = script.split("/")
        applied = re.sub(pattern, replacement, applied, flags=re.MULTILINE)
    assert yaml.safe_load(applied)["spec"]["taint"]["effect"] == "None"


def test_the_lines_show_devices_pods_and_counts_of_the_rest() -> None:
    text = "\n".join(lines(blast_radius(cluster(), rule(DRIVER))))
    assert "ml/a" in text
    assert "gpu-1" in text
    short = "\n".join(lines(blast_radius(cluster(), rule(DRIVER)), most=1))
    assert "3 more devices" in short
    assert "2 more Pods" in short


# -------------------------------------------------------------------------------------------------------------- laws

names = st.sampled_from(["", "n1", "n2", "n3"])
devices = st.sampled_from(["", "gpu-0", "gpu-1", "gpu-9"])
drivers = st.sampled_from(["", DRIVER, "other.example.com"])
rules = st.builds(rule, drivers, names, devices)


@settings(deadline=None)
@given(
    rules, st.sampled_from(["driver", "pool", "device"]), st.sampled_from([DRIVER, "n1", "n2", "gpu-0", "x"])
)
def test_a_further_selector_never_selects_more(made: TaintRule, field: str, value: str) -> None:
    if getattr(made, field):
        return
    wide = blast_radius(cluster(), made)
    narrow = blast_radius(cluster(), msgspec.structs.replace(made, selector="some", **{field: value}))
    assert set(narrow.devices) <= set(wide.devices)
    assert {p.name for p in narrow.evicted} <= {p.name for p in wide.evicted}
    assert narrow.allocated <= wide.allocated


@settings(deadline=None)
@given(rules)
def test_evicted_pods_hold_a_selected_device_and_shares_add_up(made: TaintRule) -> None:
    blast = blast_radius(cluster(), made)
    selected = {f"{d.driver}/{d.pool}/{d.device}" for d in blast.devices}
    assert all(set(p.devices) <= selected and p.devices for p in blast.pods)
    pools = [share for share in blast.shares if share.what == "pool"]
    assert sum(share.selected for share in pools) == blast.published
    assert all(share.selected <= share.total for share in blast.shares)
