"""Each verdict is computed: two inputs give two answers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from changegen import kubedata
from changegen.model.snapshot import Component, ConfigFact, Snapshot, StoredObjects
from changegen.model.ticket import RollbackFork, RollbackStep, Step, Ticket
from changegen.plan.scene import Member, Scene
from changegen.plan.verdicts import (
    driver_verdict,
    etcd_verdict,
    extended_verdict,
    min_compat_verdict,
    rules_api,
    rules_verdict,
)
from changegen.shell import until
from tests.plan.build import dra_profile, fixture, plan, recorded, ticket, to
from tests.plan.test_laws import ALL, of_fixture
from tests.plan.test_shapes import older, with_workers

replace = msgspec.structs.replace


def members(*versions: str) -> list[Member]:
    return [
        Member(node=f"cp-{n}", pod=f"kube-system/etcd-cp-{n}", version=v, proven=True)
        for n, v in enumerate(versions, 1)
    ]


def scene(snapshot: Snapshot, target: str = "1.37.2") -> Scene:
    return Scene(snapshot, to(target), kubedata.load())


@pytest.mark.parametrize(
    ("versions", "verdict", "said"),
    [
        (("v3.6.8", "v3.6.8", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.7.0", "v3.7.0", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.7.0", "v3.6.8", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.6.8",), "reversible-until", "its only member"),
        (("v3.7.0", "v3.7.0", "v3.7.0"), "one-way", ""),
        (("v3.7.0",), "one-way", ""),
    ],
)
def test_etcd_goes_back_until_its_last_member_moved(
    versions: tuple[str, ...], verdict: str, said: str
) -> None:
    judged = etcd_verdict(members(*versions), "v3.7.0", "3.6.8-0")
    assert judged.verdict == verdict
    assert said in judged.until


def test_etcd_of_the_same_minor_goes_back() -> None:
    judged = etcd_verdict(members("v3.6.6", "v3.6.6", "v3.6.6"), "v3.6.8")
    assert judged.verdict == "reversible"
    assert etcd_verdict(members("v3.6.6"), "").verdict == "reversible"
    assert etcd_verdict(members("v3.7.0"), "v3.6.8").verdict == "one-way"
    assert etcd_verdict(members("v3.7.0"), "v3.7.0", "3.7.0-0").verdict == "reversible"


def with_rule_settings(*, everywhere: bool, configured: bool) -> Snapshot:
    """The recorded cluster with the rules' gate on everywhere or not, and their API in the manifests or not."""
    found = []
    for item in recorded("before").components:
        changed = item
        if everywhere and item.component == "kube-scheduler":
            peer = next(
                c for c in recorded("before").components if c.component == item.component and c.node == "cp-1"
            )
            changed = replace(item, feature_gates=peer.feature_gates, gate_sources=peer.gate_sources)
        if configured and item.component == "kube-apiserver":
            changed = replace(changed, runtime_config=("resource.k8s.io/v1beta2=true",))
        found.append(changed)
    return replace(recorded("before"), components=tuple(found))


def test_rules_work_in_the_older_minor_only_with_their_gate_and_api() -> None:
    def lost(*, everywhere: bool, configured: bool) -> str:
        made = scene(with_rule_settings(everywhere=everywhere, configured=configured))
        judged = rules_verdict(made, made.hops[-1])
        assert judged is not None
        assert judged.verdict == "reversible"
        return judged.lost

    assert lost(everywhere=True, configured=True) == ""
    assert "not on everywhere" in lost(everywhere=False, configured=True)
    assert "in /flagz only" in lost(everywhere=True, configured=False)
    none = scene(replace(recorded("before"), taint_rules=()))
    assert rules_verdict(none, none.hops[-1]) is None


@pytest.mark.parametrize(
    ("today", "gate", "api"),
    [
        ("v1.34.4", "DRADeviceTaints", "resource.k8s.io/v1alpha3"),
        ("v1.35.4", "DRADeviceTaintRules", "resource.k8s.io/v1alpha3"),
        ("v1.36.3", "DRADeviceTaintRules", "resource.k8s.io/v1beta2"),
    ],
)
def test_each_minor_has_its_own_gate_and_version_of_rules(today: str, gate: str, api: str) -> None:
    assert rules_api(today[1:5]) == (gate, api)
    known = {a.group_version for a in kubedata.load().apis(today) if a.kind == "DeviceTaintRule"}
    assert api in known
    assert gate in kubedata.load().gates(today)
    made = scene(with_rule_settings(everywhere=False, configured=False))
    judged = rules_verdict(made, replace(made.hops[-1], today=today))
    assert judged is not None
    assert f"gate {gate} and {api} are on" in judged.lost


@pytest.mark.parametrize(("today", "lost"), [("v1.36.3", True), ("v1.37.0", False), ("v1.38.0", False)])
def test_rules_need_nothing_set_from_1_37_on(today: str, lost: bool) -> None:
    made = scene(with_rule_settings(everywhere=False, configured=False))
    judged = rules_verdict(made, replace(made.hops[-1], today=today))
    assert judged is not None
    assert bool(judged.lost) is lost


def test_extended_resources_need_their_gate_in_the_older_minor() -> None:
    today = recorded("before")
    on = scene(today)
    judged = extended_verdict(on, on.hops[-1])
    assert judged is not None
    assert (judged.verdict, judged.lost) == ("reversible", "")
    off = [
        replace(item, feature_gates={"DRAExtendedResource": False})
        if item.component == "kube-scheduler"
        else item
        for item in today.components
    ]
    made = scene(replace(today, components=tuple(off)))
    judged = extended_verdict(made, made.hops[-1])
    assert judged is not None
    assert judged.verdict == "reversible"
    assert "example.com/gpu from device plugins only" in judged.lost
    none = scene(replace(today, device_classes=()))
    assert extended_verdict(none, none.hops[-1]) is None


def with_min_compat(value: str, flag: str = "min-compatibility-version") -> Snapshot:
    maps = []
    for item in recorded("before").config_maps:
        if item.kind == "kubeadm":
            flags = {**item.component_flags}
            flags["kube-apiserver"] = (
                *flags.get("kube-apiserver", ()),
                ConfigFact(name=flag, values=(value,)),
            )
            maps.append(replace(item, component_flags=flags))
        else:
            maps.append(item)
    return replace(recorded("before"), config_maps=tuple(maps))


def test_a_raised_minimum_compatibility_version_is_one_way() -> None:
    raised, kept = scene(with_min_compat("kube=1.37")), scene(with_min_compat("1.36"))
    judged = min_compat_verdict(raised, raised.hops[-1])
    assert judged is not None
    assert judged.verdict == "one-way"
    assert min_compat_verdict(kept, kept.hops[-1]) is None
    other = scene(with_min_compat("kube=1.37", "emulated-version"))
    assert min_compat_verdict(other, other.hops[-1]) is None
    made = plan(with_min_compat("kube=1.37"))
    control = next(b for b in made.rollback if "kube-apiserver" in b.what)
    assert control.verdict == "one-way"
    assert made.facts["way_back"].startswith("none for the control plane")


def test_a_drivers_step_is_one_way_only_where_the_data_says_so() -> None:
    assert driver_verdict("gpu.nvidia.com", "v25.12.0", "v0.4.0").verdict == "one-way"
    assert driver_verdict("gpu.nvidia.com", "v25.12.0", ">=0.4.1").verdict == "one-way"
    assert driver_verdict("gpu.nvidia.com", "v0.4.0", "v0.4.1").verdict == "reversible"
    assert driver_verdict("gpu.nvidia.com", "v25.8.0", "v25.12.0").verdict == "reversible"
    assert driver_verdict("gpu.example.com", "v25.12.0", "v0.4.0").verdict == "reversible"


def test_objects_that_the_target_cannot_decode_are_deleted_first_and_can_come_back() -> None:
    stored = StoredObjects(
        group_version="scheduling.k8s.io/v1alpha2", resource="workloads", names=("ml/train",)
    )
    made = plan(replace(recorded("before"), stored_objects=(stored,)))
    deleted = next(s for s in made.steps if s.title.startswith("Delete the 1 objects"))
    assert deleted.id.startswith("P-")
    assert "kubectl -n ml delete workloads.v1alpha2.scheduling.k8s.io train" in deleted.commands[1].text
    assert any("cannot decode" in b.what for b in made.rollback)
    kept = StoredObjects(group_version="resource.k8s.io/v1", resource="resourceclaims", names=("ml/x",))
    other = plan(replace(recorded("before"), stored_objects=(kept,)))
    assert not [s for s in other.steps if s.title.startswith("Delete")]


def one_control_plane(snapshot: Snapshot) -> Snapshot:
    def here(item: Component) -> bool:
        return item.node not in ("cp-2", "cp-3")

    return replace(
        snapshot,
        components=tuple(filter(here, snapshot.components)),
        nodes=tuple(n for n in snapshot.nodes if n.name not in ("cp-2", "cp-3")),
    )


def test_with_one_member_the_first_step_is_the_point_of_no_return() -> None:
    made = plan(one_control_plane(recorded("before")), dra_profile())
    control = [s for s in made.steps if s.phase == "control-plane"]
    assert [s.no_return for s in control] == [True]
    assert made.rollback_decide_by.startswith(f"before {control[0].id} starts")
    assert "minute" not in made.rollback_decide_by
    etcd = next(b for b in made.rollback if b.what.startswith("etcd, member"))
    assert "only member" in etcd.until


def test_without_a_change_of_minor_there_is_no_point_of_no_return() -> None:
    made = plan(recorded("before"), to("1.36.4"))
    assert not [s for s in made.steps if s.no_return]
    assert made.rollback_decide_by == ""
    etcd = next(b for b in made.rollback if b.what.startswith("etcd"))
    assert etcd.verdict == "reversible"


def test_a_provider_or_release_without_a_way_back_says_so() -> None:
    eks = replace(
        recorded("before"),
        components=(),
        cluster=replace(recorded("before").cluster, distribution="eks", managed=True),
    )
    control = next(b for b in plan(eks).rollback if "kube-apiserver" in b.what)
    assert control.verdict == "one-way"
    rke2 = replace(recorded("before"), cluster=replace(recorded("before").cluster, distribution="rke2"))
    control = next(b for b in plan(rke2).rollback if "kube-apiserver" in b.what)
    assert control.verdict == "reversible-until"
    assert any("cluster-reset-restore-path" in c.text for c in control.commands)


def test_servers_that_restore_stop_first_and_only_one_of_them_restores() -> None:
    rke2 = replace(recorded("before"), cluster=replace(recorded("before").cluster, distribution="rke2"))
    control = next(b for b in plan(rke2).rollback if "kube-apiserver" in b.what)
    texts = [(c.where, c.text) for c in control.commands]
    stops = [at for at, (_, text) in enumerate(texts) if "systemctl stop rke2-server" in text]
    assert stops == [0]
    assert texts[0][0] == "cp-1, cp-2, cp-3, one after another"
    assert [where for where, text in texts if "cluster-reset-restore-path" in text] == ["cp-1"]
    assert [where for where, text in texts if "rm -rf /var/lib/rancher/rke2/server/db" in text] == [
        "cp-2, cp-3, one after another"
    ]
    assert "SNAPSHOT is the file" in control.why


def test_a_node_group_goes_back_only_where_its_provider_does_that() -> None:
    def why(name: str) -> str:
        managed = replace(
            recorded("before"),
            components=(),
            cluster=replace(recorded("before").cluster, distribution=name, managed=True),
        )
        return next(b for b in plan(managed).rollback if b.what.startswith("kubelet")).why

    assert "does not go back by itself" in why("eks")
    assert "takes a node group back" in why("gke")


# ------------------------------------------------------------------------------------------------------- forks

SHAPES = {
    "several minors": lambda: plan(older(34), to("1.37.2")),
    "one member": lambda: plan(one_control_plane(recorded("before")), dra_profile()),
    "same minor": lambda: plan(recorded("before"), to("1.36.4")),
    "one-way": lambda: plan(with_min_compat("kube=1.37")),
    "stored objects": lambda: plan(
        replace(
            recorded("before"),
            stored_objects=(
                StoredObjects(
                    group_version="scheduling.k8s.io/v1alpha2", resource="workloads", names=("ml/train",)
                ),
            ),
        )
    ),
    "many nodes": lambda: plan(with_workers(30), dra_profile()),
    **{
        f"a cluster of {name}": lambda name=name: plan(
            replace(
                recorded("before"),
                components=() if name in ("eks", "gke", "aks") else recorded("before").components,
                cluster=replace(
                    recorded("before").cluster, distribution=name, managed=name in ("eks", "gke", "aks")
                ),
            )
        )
        for name in ("eks", "gke", "aks", "kops", "kubespray", "talos", "openshift", "rke2", "microk8s", "k0s")
    },
}  # fmt: skip


@pytest.fixture(params=[*ALL, *(("shape", name) for name in SHAPES)], ids=lambda p: f"{p[0]}-{p[1]}")
def made(request: pytest.FixtureRequest) -> Ticket:
    kind, name = request.param
    if kind == "shape":
        return SHAPES[name]()
    return ticket(name) if kind == "recorded" else of_fixture(name)


def by_id(made: Ticket) -> dict[str, RollbackStep]:
    return {back.id: back for back in made.rollback}


def downgrades(back: RollbackStep) -> bool:
    return any("downgrade enable" in command.text for command in back.commands)


def copies_etcd(back: RollbackStep) -> bool:
    """Puts an older member's manifest back on data that may be newer, with no downgrade before."""
    return (
        any(re.search(r"cp .*before.*etcd\.yaml", command.text) for command in back.commands)
        and not downgrades(back)
        and not any("snapshot restore" in command.text for command in back.commands)
    )


def leaves_something(step: Step) -> bool:
    """Whether a step changes the cluster or its nodes: copies, checks and fetched images do not."""
    passing = re.compile(
        r"snapshot|backup|install -d|sha256sum|cp -aT? |upgrade plan|images pull|recommend|image (pull|list)"
        r"|crictl pull|--dry-run|install -m 0755 .*/etcdctl"
    )
    return any(c.runs == "write" and not passing.search(c.text) for c in step.commands)


def test_a_fork_tells_nothing_whose_condition_is_false_there(made: Ticket) -> None:
    backs, steps = by_id(made), {step.id for step in made.steps}
    for fork in made.rollback_forks:
        assert set(fork.ran) <= steps
        assert set(fork.do) | set(fork.never) | set(fork.stays) <= set(backs)
        assert not set(fork.do) & (set(fork.never) | set(fork.stays)), fork.when
        assert len(set(fork.do)) == len(fork.do)
        for name in fork.do:
            needed = backs[name].needed_once
            assert not needed or set(needed) & set(fork.ran), (fork.when, name)
            assert backs[name].verdict != "one-way" or backs[name].commands, (fork.when, name)
            if copies_etcd(backs[name]):
                assert fork.etcd != "new", (fork.when, name)
            if downgrades(backs[name]):
                assert fork.etcd == "new", (fork.when, name)


def test_an_older_member_never_meets_newer_data_on_one_path(made: Ticket) -> None:
    for fork in made.rollback_forks:
        kinds = [back for name, back in by_id(made).items() if name in fork.do]
        assert not (any(map(copies_etcd, kinds)) and any(map(downgrades, kinds))), fork.when
        if any(command.text.find("snapshot restore") > 0 for back in kinds for command in back.commands):
            assert not any(map(copies_etcd, kinds) or map(downgrades, kinds)), fork.when


def test_what_a_step_of_the_plan_changed_is_taken_back_after_it(made: Ticket) -> None:
    backs = by_id(made)
    for step in made.steps:
        if not leaves_something(step):
            continue
        after = [fork for fork in made.rollback_forks if step.id in fork.ran]
        assert after, (step.id, step.title)
        for fork in after:
            undone = [name for name in (*fork.do, *fork.stays) if step.id in backs[name].needed_once]
            lost = any("snapshot" in backs[name].what for name in fork.do)
            assert undone or lost or fork.stays, (step.id, step.title, fork.when)
            if not fork.stays:
                assert undone or lost, (step.id, step.title, fork.when)


def test_each_step_back_says_what_must_be_seen(made: Ticket) -> None:
    for back in made.rollback:
        if back.commands:
            assert back.go_on, (back.id, back.what)
            assert back.stop, (back.id, back.what)
        if back.verdict == "one-way":
            assert back.minutes is None or any(c.runs == "write" for c in back.commands), back.id
            assert not back.commands or any(c.runs == "write" for c in back.commands), back.id
        assert set(back.nodes) <= {node.name for node in made.snapshot.nodes} | {
            c.node for c in made.snapshot.components
        }  # fmt: skip


def test_every_change_has_a_line_for_each_place_where_it_can_stop(made: Ticket) -> None:
    if not any(step.phase == "control-plane" for step in made.steps):
        return
    begin = next(s.id for s in made.steps if s.phase != "before")
    first = made.rollback_forks[0]
    assert first.when == f"before {begin} starts"
    assert not [name for name in first.ran if not name.startswith("P-")]
    covered = {name for fork in made.rollback_forks for name in fork.ran}
    assert covered == {step.id for step in made.steps}


def forks(made: Ticket) -> list[tuple[str, str, list[str], list[str]]]:
    keys = {
        "kubelet": "kubelets", "addons": "kube-proxy", "control": "kube-apiserver", "config": "ConfigMap",
        "etcd": "etcd, member", "down": "etcd, after", "again": "etcd, one", "served": "resource.k8s.io/v1beta2", "rules": "DeviceTaintRules", "packages": "kubeadm on",
        "budgets": "PodDisruption", "bare": "Pods without", "restore": "whole data", "extended": "Pods that get",
    }  # fmt: skip

    def word(name: str) -> str:
        return next(
            key for key, start in keys.items() if by_id(made)[name].what.startswith((start, f"The {start}"))
        )

    return [(f.etcd, f.when, [*map(word, f.do)], [*map(word, f.never)]) for f in made.rollback_forks]


def test_the_forks_of_three_members() -> None:
    rows = forks(ticket())
    early = ["addons", "control", "config", "rules", "extended", "packages", "budgets"]
    late = ["kubelet", "addons", "control", "config", "rules", "extended", "packages", "bare", "budgets"]
    apart = ["etcd", "down", "again", "restore"]
    assert [(etcd, do, never) for etcd, _, do, never in rows] == [
        ("old", ["config", "packages", "budgets"], apart),
        ("old", ["config", "packages", "served", "budgets"], apart),
        ("old", early, ["down"]),
        ("old", ["etcd", *early], ["down"]),
        ("old", ["again", *early], ["down"]),
        ("new", late, ["etcd"]),
        ("new", ["down", *late], ["etcd"]),
        ("new", ["again", *late], ["etcd"]),
        ("", ["restore", "kubelet", "config", "packages", "bare", "budgets"], ["control", "etcd", "down", "again"]),
    ]  # fmt: skip
    words = [when for _, when, *_ in rows]
    assert "called off for good" in words[1]
    assert "show storageVersion 3.6.0 (I-3 moves the last one)" in words[2]
    assert "a member that moved does not come up" in words[3]
    assert "I-3 has started, and a member of etcd shows storageVersion 3.7.0" in words[5]
    # Where the last member does not come up in I-3, the data are as before.
    made = ticket()
    assert "I-3" in made.rollback_forks[3].ran
    assert "I-4" not in made.rollback_forks[3].ran
    assert "every member of etcd is healthy" in words[6]
    for line in (words[4], words[7]):
        assert "stays ill" in line
    assert "fewer than 2 of the 3 members of etcd answer" in words[8]


def test_a_line_for_a_fault_of_etcd_is_not_the_ordinary_way_back() -> None:
    made = ticket()
    of_etcd = {name for name, back in by_id(made).items() if back.what.startswith(("etcd", "The whole data"))}
    for fork in made.rollback_forks:
        assert fork.fault == bool(of_etcd & set(fork.do)), fork.when


def test_etcd_is_looked_at_before_a_line_is_chosen() -> None:
    made = ticket()
    (look,) = made.rollback_looks
    assert look.runs == "read"
    for n in (1, 2, 3):
        assert f"https://10.0.0.1{n}:2379" in look.text
    assert "storageVersion 3.6.0" in made.rollback_looks_say
    assert "unknown: that member does not answer" in made.rollback_looks_say
    same = plan(recorded("before"), to("1.36.4"))
    assert (same.rollback_looks, same.rollback_looks_say) == ((), "")


def test_the_look_says_unknown_for_a_member_that_is_dead(tmp_path: Path) -> None:
    (look,) = ticket().rollback_looks
    # As etcdctl of 3.6.8 and 3.7.0 prints it; a dead member gets words on stderr, and an exit code.
    (tmp_path / "sudo").write_text('exec "$@"\n')
    (tmp_path / "etcdctl").write_text(
        'case "$*" in *10.0.0.12*) echo failed >&2; exit 1 ;; esac\n'
        """echo '[{"Endpoint":"e","Status":{"header":{},"version":"3.7.0","storageVersion":"3.6.0","leader":1}}]'\n"""
    )
    for tool in ("sudo", "etcdctl"):
        (tmp_path / tool).write_text("#!/bin/sh\n" + (tmp_path / tool).read_text())
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", look.text],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    known = '"version":"3.7.0" "storageVersion":"3.6.0"'
    assert [line.split(" ", 1)[1].strip() for line in done.stdout.splitlines()] == [known, "unknown", known]


def test_with_one_member_there_is_no_time_between() -> None:
    rows = forks(plan(one_control_plane(recorded("before")), dra_profile()))
    assert [etcd for etcd, *_ in rows] == ["old", "old", "old", "old", "new", "new", ""]
    assert "etcd" in rows[4][3]
    assert rows[3][2][0] == "etcd"
    assert not any("again" in [*do, *never] for _, _, do, never in rows)
    made = plan(one_control_plane(recorded("before")), dra_profile())
    guard = next(b for b in made.rollback if b.what.startswith("etcd, member")).guard
    assert "unknown: it does not answer; try the older manifest all the same" in guard
    assert "the only member of etcd" in rows[6][1]


def test_without_a_change_of_etcds_minor_its_members_go_back_alone() -> None:
    rows = forks(plan(recorded("before"), to("1.36.4")))
    assert not any("down" in [*do, *never] for _, _, do, never in rows)
    assert [do[0] for _, when, do, _ in rows if "etcd itself" in when] == ["etcd"]
    assert [do[0] for _, when, do, _ in rows if "one member of etcd" in when] == ["again"]


def test_minutes_are_those_of_one_line_and_not_of_all() -> None:
    made = ticket()
    backs = by_id(made)
    for fork in made.rollback_forks:
        assert fork.minutes == sum(backs[name].minutes or 0 for name in fork.do)
    assert max(f.minutes or 0 for f in made.rollback_forks) < sum(b.minutes or 0 for b in made.rollback)


def test_a_member_goes_back_only_behind_a_guard_that_prints_something() -> None:
    etcd = next(b for b in ticket().rollback if b.what.startswith("etcd, member"))
    down = next(b for b in ticket().rollback if b.what.startswith("etcd, after"))
    assert "storageVersion 3.6.0 on the members that answer" in etcd.guard
    assert down.id in etcd.guard
    assert "storageVersion 3.7.0 for every member, and none is unknown" in down.guard
    assert etcd.commands[0].runs == "read"
    assert "endpoint status" in etcd.commands[0].text
    wait = next(c.text for c in down.commands if "storageVersion" in c.text)
    assert down.commands.index(next(c for c in down.commands if c.text == wait)) < next(
        at for at, c in enumerate(down.commands) if "cp " in c.text
    )
    same = next(b for b in plan(recorded("before"), to("1.36.4")).rollback if b.what.startswith("etcd"))
    assert same.guard == ""


def test_a_restore_waits_where_it_must() -> None:
    restore = next(b for b in ticket().rollback if b.what.startswith("The whole data store"))
    order = ["sha256sum -c", "mv .* /etc/kubernetes/manifests", "crictl ps -q", "snapshot restore", "cp .*etcd.yaml",
             "endpoint health", "cp .*kube-apiserver.yaml", "get --raw /version", "cp .*kube-scheduler.yaml",
             "restart kubelet"]  # fmt: skip
    found = [next(at for at, c in enumerate(restore.commands) if re.search(word, c.text)) for word in order]
    assert found == sorted(found)
    before = [s for s in ticket().steps if s.phase == "before"]
    taken = next(at for at, s in enumerate(before) if any("snapshot save" in c.text for c in s.commands))
    for at, step in enumerate(before):
        if "out of ConfigMap kubeadm-config" in step.title:
            # Only what came after the snapshot is lost with it.
            assert (step.id in restore.lost) == (at > taken)
    assert "cp-2, cp-3" in restore.guard
    clean = plan(one_control_plane(recorded("after")))
    assert not [b for b in clean.rollback if b.what.startswith("The whole") and "sha256 file" in b.guard]


def test_every_saved_config_map_is_put_back_from_its_own_file() -> None:
    made = ticket()
    back = next(b for b in made.rollback if b.what.startswith("ConfigMap"))
    saved = "\n".join(c.text for s in made.steps if s.phase == "before" for c in s.commands)
    files = [re.search(r"(\S+-before-\S+\.yaml) \|", c.text) for c in back.commands]
    assert len(files) == len({f[1] for f in files if f}) == 4
    for name in (f[1] for f in files if f):
        assert f"> {name}" in saved
        assert name.removesuffix("-before-1.37.2.yaml") in back.to


def test_nodes_go_back_last_first_and_force_is_for_those_that_need_it() -> None:
    made = ticket()
    back = next(b for b in made.rollback if b.what.startswith("kubelets"))
    forward = [name for s in made.steps if s.phase == "nodes" for name in s.nodes]
    assert list(back.nodes) == forward[::-1]
    drain = next(c.text for c in back.commands if "kubectl drain" in c.text)
    assert "in gpu-1) MORE=" in drain
    assert drain.index("--force") < drain.index("kubectl drain")
    none = replace(recorded("before"), pods=tuple(p for p in recorded("before").pods if p.owner is not None))
    plain = next(b for b in plan(none).rollback if b.what.startswith("kubelets"))
    assert not any("--force" in c.text for c in plain.commands)


def fork_of(made: Ticket, word: str) -> RollbackFork:
    return next(fork for fork in made.rollback_forks if word in fork.when)


def test_a_provider_keeps_the_control_plane_and_takes_nodes_back_as_it_can() -> None:
    gke, eks = SHAPES["a cluster of gke"](), SHAPES["a cluster of eks"]()
    for made in (gke, eks):
        control = next(b for b in made.rollback if "kube-apiserver" in b.what)
        assert (control.verdict, control.commands, control.minutes) == ("one-way", (), None)
        started = next(s.id for s in made.steps if s.phase == "control-plane")
        assert fork_of(made, f"{started} has started").stays == (control.id,)


# ------------------------------------------------------------------------------------- done twice, or without a choice


def shell_texts(made: Ticket) -> list[str]:
    return [command.text for part in (*made.steps, *made.rollback) for command in part.commands]


def test_no_wait_is_without_an_end(made: Ticket) -> None:
    for text in shell_texts(made):
        assert not re.search(r"\b(until|while) ", text), text
        if "kubectl" in text and "for N in" in text:
            assert "--request-timeout=" in text, text


def test_a_wait_fails_when_it_ends(tmp_path: Path) -> None:
    counted = f"echo x >> {tmp_path}/tries; false"
    text = until(f"{{ {counted}; }}", 10).replace("sleep 5", "sleep 0")
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "not within" in done.stderr
    assert len((tmp_path / "tries").read_text().split()) == 3
    assert subprocess.run(["sh", "-c", until("true", 10)], check=False).returncode == 0


def test_a_node_that_nobody_chose_stops_a_step_back(made: Ticket) -> None:
    for back in made.rollback:
        texts = [command.text for command in back.commands]
        assert not any(re.search(r"\$NODE\b|\$\{NODE\}", text) for text in texts), back.id
        chosen = [at for at, text in enumerate(texts) if "${NODE:?}" in text]
        if chosen:
            first = re.fullmatch(r"NODE=(\S+)", texts[0])
            assert first, back.id
            assert first[1] == back.nodes[0]
            assert all(node in back.why or len(back.nodes) > 12 for node in back.nodes), back.id


def test_a_backup_that_is_done_again_keeps_its_first_copy(tmp_path: Path) -> None:
    backup = next(s for s in ticket().steps if s.title.startswith("Back up the control plane"))
    (tmp_path / "etc/kubernetes/manifests").mkdir(parents=True)
    (tmp_path / "etc/kubernetes/pki").mkdir()
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name, text in (("sudo", 'exec "$@"'), ("kubectl", f"cat {tmp_path}/answer")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def done(word: str) -> dict[str, str]:
        for file in ("etc/kubernetes/manifests/etcd.yaml", "etc/kubernetes/pki/ca.crt", "etc/kubernetes/admin.conf",
                     "var/lib/kubelet/config.yaml", "var/lib/kubelet/kubeadm-flags.env", "answer"):  # fmt: skip
            (tmp_path / file).write_text(word)
        for command in backup.commands:
            text = re.sub(r"(?<![\w/])/(etc|var)/", rf"{tmp_path}/\1/", command.text)
            subprocess.run(
                ["bash", "-c", text],
                cwd=tmp_path,
                check=True,
                env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
            )
        saved = [*(tmp_path / "var/backups").rglob("*"), *tmp_path.glob("*.yaml")]
        return {str(p.relative_to(tmp_path)): p.read_text() for p in saved if p.is_file()}

    first = done("before")
    assert {name.rpartition("/")[2] for name in first} >= {
        "etcd.yaml", "ca.crt", "admin.conf", "config.yaml", "kubeadm-flags.env", "kubeadm-config-before-1.37.2.yaml",
        "devicetaintrule-maint-gpu-3.yaml", "workloads-kube-system-before-1.37.2.yaml",
    }  # fmt: skip
    assert set(first.values()) == {"before"}
    assert done("after") == first


def test_the_files_that_a_way_back_copies_are_those_that_were_saved() -> None:
    made = ticket()
    saved = "\n".join(c.text for s in made.steps for c in s.commands)
    copied = {
        path
        for back in made.rollback
        for c in back.commands
        for path in re.findall(r"/var/backups/kubernetes/((?:kubelet|manifests)-before-[\w.-]+)/", c.text)
    }
    assert {name.partition("-")[0] for name in copied} == {"kubelet", "manifests"}
    for name in copied:
        assert f"/var/backups/kubernetes/{name}\n" in saved + "\n", name


def test_a_kubeadm_that_still_runs_is_ended_before_manifests_are_put_back(made: Ticket) -> None:
    for back in made.rollback:
        texts = [command.text for command in back.commands]
        puts = next(
            (at for at, text in enumerate(texts) if re.search(r"cp .*/manifests-before-", text)), None
        )
        if puts is None or any("downgrade enable" in text for text in texts):
            continue
        ends = [at for at, text in enumerate(texts) if "pkill -f 'kubeadm [u]pgrade'" in text]
        assert ends, back.what
        assert ends[0] < puts, back.what


def test_an_ill_member_is_made_again_with_the_names_of_this_cluster() -> None:
    made = ticket()
    back = next(b for b in made.rollback if b.what.startswith("etcd, one member"))
    text = "\n".join(c.text for c in back.commands)
    for n in (1, 2, 3):
        assert f"cp-{n}) PEER=https://10.0.0.1{n}:2380 ;;" in text
    order = ["endpoint health", "pkill", "etcd-ill.yaml", "crictl ps", "mv -T", "member remove", "member add",
             "--initial-cluster-state=existing", "cp .*etcd-again.yaml .*etcd.yaml", "member list"]  # fmt: skip
    at = -1
    for word in order:
        at = next(n for n, c in enumerate(back.commands) if n >= max(at, 0) and re.search(word, c.text))
    healthy = {c.where for c in back.commands if "member add" in c.text}
    assert healthy == {"a node whose member is healthy"}
    assert "3 members, 2 needed" in back.guard
    # Two members have no quorum with one of them ill.
    two = plan(without_node(recorded("before"), "cp-3"), dra_profile())
    assert not [b for b in two.rollback if b.what.startswith("etcd, one member")]
    assert "fewer than 2 of the 2 members" in two.rollback_forks[-1].when


def test_the_manifest_of_a_member_made_again_names_the_whole_cluster() -> None:
    back = next(b for b in ticket().rollback if b.what.startswith("etcd, one member"))
    script = next(c.text for c in back.commands if "--initial-cluster-state" in c.text and "sed" in c.text)
    expressions = re.findall(r"-e '([^']*)'", script)
    # As kubeadm upgrade writes it, and as kubeadm join did.
    for old in (
        "    - --initial-cluster=cp-2=https://10.0.0.12:2380\n",
        "    - --initial-cluster=cp-1=https://10.0.0.11:2380\n    - --initial-cluster-state=existing\n",
    ):
        given = f"    - --initial-advertise-peer-urls=https://10.0.0.12:2380\n{old}    - --key-file=x\n"
        done = subprocess.run(
            ["sed", *(part for text in expressions for part in ("-e", text))],
            input=given, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[1:3] == [
            "    - --initial-cluster=cp-1=https://10.0.0.11:2380,cp-2=https://10.0.0.12:2380,cp-3=https://10.0.0.13:2380",
            "    - --initial-cluster-state=existing",
        ]
        assert len(done.stdout.splitlines()) == 4


def without_node(snapshot: Snapshot, node: str) -> Snapshot:
    return replace(
        snapshot,
        components=tuple(c for c in snapshot.components if c.node != node),
        nodes=tuple(n for n in snapshot.nodes if n.name != node),
    )


def test_the_owner_of_an_external_etcd_restores_it() -> None:
    before = recorded("before")
    maps = tuple(replace(m, etcd="external") if m.kind == "kubeadm" else m for m in before.config_maps)
    outside = tuple(c for c in before.components if c.component != "etcd")
    made = plan(replace(before, config_maps=maps, components=outside), dra_profile())
    back = next(b for b in made.rollback if b.what.startswith("The whole data store"))
    texts = "\n".join(c.text for c in back.commands)
    assert "etcdutl" not in texts
    assert "etcdctl" not in texts
    assert "crictl ps" in texts
    assert "kube-apiserver.yaml" in texts
    asked = next(s for s in made.steps if "external etcd" in s.title)
    assert asked.id in back.guard
    assert back.id in asked.used_by
    assert not [f for f in made.rollback_forks if f.etcd]
    assert not made.rollback_looks


def test_preparations_are_used_and_not_undone() -> None:
    made = ticket()
    for words in ("Put etcdctl", "Back up the control plane", "Last of all, take an etcd snapshot"):
        step = next(s for s in made.steps if s.title.startswith(words))
        assert step.used_by, step.title
        assert not step.rollback, step.title


def test_what_a_preparation_turned_on_is_taken_back_in_one_line_only() -> None:
    made = ticket()
    served = next(b for b in made.rollback if b.what.startswith("resource.k8s.io/v1beta2"))
    (line,) = [fork for fork in made.rollback_forks if served.id in fork.do]
    assert not [name for name in line.ran if not name.startswith("P-")]
    texts = [c.text for c in served.commands]
    gate = max(at for at, text in enumerate(texts) if "feature-gates" in text)
    api = min(at for at, text in enumerate(texts) if "--runtime-config" in text)
    assert gate < api
    assert "called off" in served.guard


def test_etcd_is_looked_at_where_nobody_knows_how_its_members_go_back() -> None:
    before = recorded("before")
    made = plan(replace(before, cluster=replace(before.cluster, distribution="gardener")))
    assert [c.runs for c in made.rollback_looks] == ["read"]
    member = next(b for b in made.rollback if b.what.startswith("etcd, member"))
    # No command is there that could be called the first.
    assert not member.commands
    assert "first command" not in member.guard
    down = next(b for b in made.rollback if b.what.startswith("etcd, after"))
    assert "storageVersion" in down.commands[0].text
    assert "downgrade cancel`" in down.stop
    assert "manifest" not in down.stop


def test_a_downgrade_is_over_before_anything_else(made: Ticket) -> None:
    for back in made.rollback:
        texts = [c.text for c in back.commands]
        if any("downgrade enable" in text for text in texts) and any("etcd.yaml" in text for text in texts):
            assert "downgradeInfo" in texts[-1]
            assert f"-eq {len(back.nodes)} ]" in texts[-1]


def of_unknown_version(snapshot: Snapshot) -> Snapshot:
    """The same cluster, and no source that tells a version of Kubernetes."""
    return replace(
        snapshot,
        cluster=replace(snapshot.cluster, server_version=None),
        components=tuple(
            replace(c, version="unobservable", image="", running_version=None)
            for c in snapshot.components
            if c.component != "etcd"
        ),
        nodes=tuple(replace(n, kubelet_version="") for n in snapshot.nodes),
        config_maps=tuple(replace(c, kubernetes_version="") for c in snapshot.config_maps),
        processes=(),
        taint_rules=snapshot.taint_rules or recorded("before").taint_rules,
        device_classes=snapshot.device_classes or recorded("before").device_classes,
    )


@pytest.mark.parametrize("name", ["kubeadm", "k3s", "rke2", "talos", "microk8s", "kind", "gardener", "eks"])
def test_a_version_of_before_that_is_not_known_leaves_no_hole(name: str) -> None:
    """An installer without a version takes the newest, and a package of no version is none."""
    made = plan(of_unknown_version(fixture(name)))
    assert made.from_version == ""
    texts = [
        text
        for item in (*made.rollback, *made.steps)
        for text in msgspec.to_builtins(item).values()
        if isinstance(text, str)
    ]
    for text in [*texts, *made.facts.values()]:
        assert not re.search(r"(?<=\S)  \S|\band \.|(?:^|\bIn |\bon |\band ) ", text), text
    for back in made.rollback:
        assert back.to, back.what
    commands = [c.text for back in made.rollback for c in back.commands]
    for text in commands:
        assert not re.search(r"_VERSION=(?:\s|$)|'-\*'|-grep -F(?: -\w+)* *(?:&&|$)|/v/|:v[\"']", text), text
    for back in made.rollback:
        for variable in ("INITIAL_CLUSTER", "PEER_URL"):
            if any(f"${variable}" in c.text for c in back.commands):
                assert f"{variable} " in back.why
    back = next(b for b in made.rollback if b.what.startswith("kube-apiserver"))
    assert back.verdict == "one-way" or "The version to go back to is not known" in back.why


def test_talos_goes_back_by_name_where_nodes_were_not_read() -> None:
    made = plan(replace(fixture("talos"), nodes=()))
    loops = [c.text for back in made.rollback for c in back.commands if c.text.startswith("for IP in ")]
    assert loops
    for text in loops:
        assert re.match(r"for IP in \w\S*(?: \w\S*)*; do", text), text


@pytest.mark.parametrize("name", ["gardener", "hypershift", "aks", "eks"])
def test_a_control_plane_of_a_provider_does_not_go_back_by_its_manifests(name: str) -> None:
    """Nobody but the provider has files to put back; where it offers no way, none is promised."""
    made = of_fixture(name)
    back = next(b for b in made.rollback if b.what.startswith("kube-apiserver"))
    assert back.verdict == "one-way"
    assert "has no way back for the control plane" in back.why
    assert not back.commands
    assert "node by node" not in made.facts["way_back"]
    for fork in made.rollback_forks:
        assert back.id not in fork.do


def test_taking_the_only_older_member_out_is_told_as_a_point_of_no_return() -> None:
    (again,) = (b for b in ticket().rollback if "made again with no data" in b.what)
    assert "Where it is the only one that is not on 3.7 yet" in again.guard
    assert any("' image:'" in command.text for command in again.commands)
    same = [b for b in plan(recorded("before"), to("1.36.4")).rollback if "made again with no data" in b.what]
    assert all("only one that is not on" not in b.guard for b in same)


def test_the_next_api_server_waits_until_this_one_is_ready() -> None:
    (control,) = (b for b in ticket().rollback if b.what.startswith("kube-apiserver, "))
    waits = [c.text for c in control.commands if c.text.startswith("for N in ")]
    assert len(waits) == 3
    for text in waits:
        assert "grep -F v1.36.3 && kubectl" in text
        assert (
            "get --raw '/readyz' > /dev/null && break" in text
            or "get --raw /readyz > /dev/null && break" in text
        )


@pytest.mark.parametrize("name", ["capi", "vcluster", "rke1"])
def test_where_no_step_saves_the_manifests_it_is_said(name: str) -> None:
    made = plan(fixture(name))
    back = next(b for b in made.rollback if b.what.startswith("kube-apiserver"))
    assert not any(c.runs == "write" for c in back.commands)
    assert "kubeadm" not in back.why
    assert "How is not known for this distribution" in back.why
    assert "No step here saves its files" in back.why
    assert not any("/manifests" in c.text for s in made.steps for c in s.commands)
