"""The ticket of the recorded cluster says what is true of it."""

from __future__ import annotations

import re

import msgspec
import pytest

from changegen.model.profile import DriverWish
from changegen.model.ticket import Check, RollbackStep, Step, Ticket
from tests.plan.build import dra_profile, plan, recorded, ticket


def step(title: str, of: Ticket | None = None) -> Step:
    found = [s for s in (of or ticket()).steps if re.search(title, s.title)]
    assert len(found) == 1, [s.title for s in (of or ticket()).steps]
    return found[0]


def check(fact: str, of: Ticket | None = None, **args: object) -> Check:
    found = [
        c
        for c in (of or ticket()).checks
        if c.query is not None
        and c.query.fact == fact
        and all(c.query.args.get(k) == v for k, v in args.items())
    ]
    assert len(found) == 1, (fact, args, len(found))
    return found[0]


def back(what: str, of: Ticket | None = None) -> RollbackStep:
    found = [b for b in (of or ticket()).rollback if re.search(what, b.what)]
    assert len(found) == 1, [b.what for b in (of or ticket()).rollback]
    return found[0]


def texts(item: Step | RollbackStep) -> str:
    return "\n".join(command.text for command in item.commands)


def test_the_first_page_says_the_decision_and_its_remedy() -> None:
    made = ticket()
    assert made.title == "Upgrade Kubernetes 1.36.3 → 1.37.2 on prod-a"
    assert made.decision == "do-not-start"
    assert made.headline.startswith(
        "Do not start: 1 blocker. SidecarContainers is set on 3 of 3 instances of kube-apiserver, and 1.37 no longer"
    )
    assert len(made.headline) <= 260
    assert "unrecognized feature gate: SidecarContainers" in made.headline
    remedy = step("Take SidecarContainers out of ConfigMap kubeadm-config")
    assert f"Remedy: step {remedy.id}, {remedy.minutes} minutes, before the window." in made.headline
    assert list(made.facts) == [
        "what", "why", "cluster", "when", "duration", "risk", "blast_radius", "way_back", "not_known", "to_fill",
    ]  # fmt: skip
    assert (
        made.facts["what"]
        == "control plane on 3 nodes 1.36.3 → 1.37.2; 8 kubelets 1.36.3 → 1.37.2; etcd 3.6.8 → 3.7.0"
    )
    assert "UID c3cb290c-5587-4034-9ace-b5ccfd423c9f" in made.facts["cluster"]
    assert "inferred" in made.facts["cluster"]
    assert made.facts["risk"].startswith(f"high until {remedy.id} is done, then medium")
    assert "3 Pods hold 3 of 6 devices of gpu.example.com" in made.facts["blast_radius"]
    assert "1 Pod holds 1 of 3 devices of dra.net" in made.facts["blast_radius"]


def test_the_gate_is_taken_out_where_kubeadm_reads_it() -> None:
    remedy = step("Take SidecarContainers out of ConfigMap kubeadm-config")
    read, write = remedy.commands
    assert read.text.endswith("| kubectl diff -f -")
    assert read.runs == "read"
    assert write.text.endswith("| kubectl replace -f -")
    assert write.runs == "write"
    assert "s/DRADeviceTaintRules=true,SidecarContainers=true/DRADeviceTaintRules=true/" in write.text
    blocker = next(f for f in ticket().findings if f.severity == "blocking")
    assert blocker.remedy == (remedy.id,)
    assert check("kubeadm.names-gate").id in blocker.checks
    assert blocker.rollback
    made = check("kubeadm.names-gate", gate="SidecarContainers")
    assert (made.before, made.expected) == (("kube-apiserver",), ())
    assert check("component.names-gate").before == ("cp-1", "cp-2", "cp-3")


def test_etcd_is_saved_with_its_own_certificates_and_endpoint() -> None:
    saved = texts(step("Take an etcd snapshot on cp-1"))
    assert "--cacert=/etc/kubernetes/pki/etcd/ca.crt" in saved
    assert "--cert=/etc/kubernetes/pki/etcd/server.crt" in saved
    assert "--key=/etc/kubernetes/pki/etcd/server.key" in saved
    assert "--endpoints=https://127.0.0.1:2379 snapshot save" in saved
    assert "etcdutl snapshot status" in saved
    assert "snapshot restore" not in saved
    health = texts(step("every etcd member is healthy"))
    assert "--endpoints=https://10.0.0.11:2379,https://10.0.0.12:2379,https://10.0.0.13:2379" in health
    restore = texts(back("whole data store"))
    assert "etcdutl snapshot restore" in restore
    assert "--bump-revision 1000000000 --mark-compacted" in restore
    assert "etcdctl snapshot restore" not in restore
    assert (
        "--initial-cluster cp-1=https://10.0.0.11:2380,cp-2=https://10.0.0.12:2380,cp-3=https://10.0.0.13:2380"
        in restore
    )


def test_control_plane_goes_one_by_one_and_the_last_member_is_the_point_of_no_return() -> None:
    steps = [s for s in ticket().steps if s.phase == "control-plane"]
    assert [s.nodes for s in steps] == [("cp-1",), ("cp-2",), ("cp-3",)]
    assert "sudo kubeadm upgrade apply v1.37.2" in texts(steps[0])
    for later in steps[1:]:
        assert "sudo kubeadm upgrade node" in texts(later)
        assert "upgrade apply" not in texts(later)
    assert [s.no_return for s in steps] == [False, False, True]
    for n, made in enumerate(steps, start=1):
        assert f"kubectl --server=https://10.0.0.1{n}:6443 get --raw /version" in texts(made)
        assert any("proves only that Pods are in phase Running" in note for note in made.notes)
        assert any("etcd stays on v3.7.0" in note for note in made.notes)
    assert any("renews the certificates" in note for note in steps[0].notes)
    assert ticket().rollback_decide_by.startswith(
        f"before {steps[2].id} starts, when {steps[1].id} is proven; about minute 30"
    )


def test_upgrade_plan_is_no_reading() -> None:
    made = step("distribution's own check")
    command = next(c for c in made.commands if "upgrade plan" in c.text)
    assert command.runs == "write"
    assert any("creates a Job" in note for note in made.notes)


def test_drains_say_what_they_meet() -> None:
    alone, both = step("kubelet of gpu-1 "), step("kubelets of gpu-2, gpu-3 ")
    assert "--force" in texts(alone)
    assert "--force" not in texts(both)
    for made in (alone, both):
        assert any("ml/train" in note and "hangs" in note for note in made.notes)
        assert any("deletes its node's ResourceSlices" in note for note in made.notes)
        assert "gpu.example.com" in made.go_on
    assert "gpu.example.com 2" in alone.go_on
    assert any("for good: ml/net-app" in note for note in alone.notes)
    second, third = (next(note for note in both.notes if note.startswith(f"gpu-{n}: ")) for n in (2, 3))
    assert "hangs" in second
    assert "hangs" not in third
    assert third.endswith("devices to come back: dra.net 1, gpu.example.com 2.")
    moved = [s for s in ticket().steps if s.phase == "nodes"]
    assert [s.nodes for s in moved] == [
        ("cp-1", "cp-2", "cp-3"),
        ("cpu-1", "old-gpu-1"),
        ("gpu-2", "gpu-3"),
        ("gpu-1",),
    ]
    assert [s.minutes for s in moved] == [30, 20, 20, 10]


def test_what_is_the_same_on_several_nodes_is_written_once() -> None:
    for made in (*ticket().steps, *ticket().rollback):
        written = [(c.text, c.where) for c in made.commands]
        # Restoring a member and putting its data in place belong together.
        once = not any("snapshot restore" in text for text, _ in written)
        assert not once or len({text for text, _ in written}) == len(written), made.id
    backup = step("Back up the control plane")
    assert {c.where for c in backup.commands} == {"cp-1, cp-2, cp-3, one after another"}
    for made in (s for s in ticket().steps if s.phase == "nodes" and len(s.nodes) > 1):
        shell = [c.text for c in made.commands if c.where == "any machine with kubectl"]
        assert shell[0] == f"NODE={made.nodes[0]}"
        assert all('"$NODE"' in text for text in shell[1:])


def test_drains_are_settled_with_people_first() -> None:
    people = step("Settle with the owners")
    saved = [text for text in texts(people).splitlines() if text.endswith("> pod-ml-net-app.yaml")]
    # Made again with its node's name it would pass the scheduler by.
    assert len(saved) == 1
    assert "/^  nodeName:/d" in saved[0]
    assert "too-big" not in texts(people)
    codes = {f.code for f in ticket().findings if f.id in people.findings}
    assert {"CG-PDB-001", "CG-CAP-001", "CG-DRAIN-002"} <= codes


@pytest.mark.parametrize(
    ("fact", "args", "before", "expected"),
    [
        ("api.resource", {"resource": "devicetaintrules"}, "no", "yes"),
        ("kubeadm.version", {}, "v1.36.3", "v1.37.2"),
        ("workload.image", {"name": "kube-proxy"}, "registry.k8s.io/kube-proxy:v1.36.3", "registry.k8s.io/kube-proxy:v1.37.2"),
        ("workload.image", {"name": "coredns"}, "registry.k8s.io/coredns/coredns:v1.14.2", "registry.k8s.io/coredns/coredns:v1.14.6"),
        ("component.running", {"component": "etcd"}, dict.fromkeys(("cp-1", "cp-2", "cp-3"), "v3.6.8"), dict.fromkeys(("cp-1", "cp-2", "cp-3"), "v3.7.0")),
        ("dra.devices", {"driver": "gpu.example.com"}, {"gpu-1": 2, "gpu-2": 2, "gpu-3": 2}, {"gpu-1": 2, "gpu-2": 2, "gpu-3": 2}),
        ("claims.held", {}, {"ml dra.net": 1, "ml gpu.example.com": 3}, {"ml dra.net": 1, "ml gpu.example.com": 3}),
        ("pods.mapped", {}, {"ml example.com/gpu": 3}, {"ml example.com/gpu": 3}),
        ("pods.pending-for-devices", {}, ("ml/too-big",), ("ml/too-big",)),
        ("rule.effect", {"name": "maint-gpu-3"}, "None", "None"),
    ],
)  # fmt: skip
def test_checks_have_values_before_and_expected(
    fact: str, args: dict[str, object], before: object, expected: object
) -> None:
    made = check(fact, **args)
    assert (made.before, made.expected) == (before, expected)


def test_the_device_status_must_be_filled_again() -> None:
    made = check("claim.device-status", name="nic-claim")
    assert made.compare == "filled"
    assert made.before == {"dra.net/gpu-1/eth0": "eth1, 02:42:ac:11:00:02, 10.9.8.7/24, Ready=True"}


def test_every_layer_is_checked_and_runtime_needs_evidence() -> None:
    layers = [c.layer for c in ticket().checks]
    assert layers == sorted(layers, key=["api", "scheduling", "device", "runtime"].index)
    assert set(layers) == {"api", "scheduling", "device", "runtime"}
    assert all(c.compare == "manual" for c in ticket().checks if c.layer == "runtime")


def test_ways_back_have_their_verdicts_and_order() -> None:
    kinds = [b.what for b in ticket().rollback]
    order = [
        next(i for i, what in enumerate(kinds) if word in what)
        for word in ("kubelet", "kube-proxy", "kube-apiserver", "etcd, member")
    ]
    assert order == sorted(order)
    etcd = back("^etcd, member by member")
    assert etcd.verdict == "reversible-until"
    assert etcd.until == "the last member, on cp-3, runs 3.7"
    assert 'version "3.7.0" is not supported' in etcd.why
    down = back("^etcd, after the last member")
    assert "downgrade enable 3.6" in texts(down)
    control = back("kube-apiserver")
    assert control.verdict == "reversible"
    assert "SidecarContainers=true" in control.to
    assert "kube-scheduler cp-3" in control.to
    rules = back("DeviceTaintRules")
    assert "in /flagz only" in rules.lost
    assert "not on everywhere" in rules.lost
    config = back("ConfigMap kubeadm-config")
    assert "DRADeviceTaintRules=true,SidecarContainers=true" in config.to
    assert back("without a controller").verdict == "one-way"


def test_a_driver_that_the_profile_moves_gets_a_step_after_the_cluster_and_goes_back_first() -> None:
    profile = dra_profile()
    wish = DriverWish(name="gpu.example.com", version="0.3.0")
    made = plan(recorded("before"), msgspec.structs.replace(profile, drivers=(wish,)))
    moved = next(s for s in made.steps if s.phase == "drivers")
    assert (
        "set image daemonset/dra-example-driver-kubeletplugin plugin=registry.k8s.io/dra-example-driver/dra-example-driver:v0.3.0"
        in texts(moved)
    )
    positions = [s.phase for s in made.steps]
    assert positions.index("drivers") > max(i for i, phase in enumerate(positions) if phase == "nodes")
    first = made.rollback[0]
    assert "gpu.example.com" in first.what
    assert "dra-example-driver:v0.2.0" in texts(first)
    assert "DRA driver gpu.example.com v0.2.0 → 0.3.0" in made.facts["what"]
    assert moved.rollback == (first.id,)


def test_fields_for_people_are_open_until_someone_fills_them() -> None:
    open_ = {f.name for f in ticket().fields if f.required and not f.value}
    assert {"owner", "window_start", "window_end", "approvers", "service", "reason", "risk"} <= open_
    filled = plan(
        recorded("before"),
        dra_profile(),
        fields={"owner": "team-a", "cost_centre": "42", "window.start": "2026-12-05T22:00:00Z"},
    )
    by = {f.name: f for f in filled.fields}
    assert (by["owner"].value, by["owner"].source) == ("team-a", "set")
    assert by["window_start"].value == "2026-12-05T22:00:00Z"
    assert by["cost_centre"].value == "42"
    assert by["risk"].value == ""
    assert "(2026-12-05T22:30+00:00)" in filled.rollback_decide_by


def test_half_way_what_is_asked_for_is_finished_and_not_taken_for_done() -> None:
    made = ticket("mid")
    steps = [s for s in made.steps if s.phase == "control-plane"]
    assert steps[0].title == "Finish the control plane of cp-1 on v1.37.2"
    assert any("nothing proves that they run" in note for note in steps[0].notes)
    assert any("1 asked for and not proven" in text for text in made.warnings)
    assert check("component.running", made, component="kube-apiserver").before == {
        "cp-1": None,
        "cp-2": "v1.36.3",
        "cp-3": "v1.36.3",
    }


def test_after_the_change_only_what_was_left_behind_is_planned() -> None:
    made = ticket("after")
    assert not [s for s in made.steps if s.phase == "nodes"]
    assert made.decision == "do-not-start"
    control = [s for s in made.steps if s.phase == "control-plane"]
    assert len(control) <= 1
    assert {c.subjects[0] for c in made.changes} >= {
        "DaemonSet kube-system/kube-proxy",
        "Deployment kube-system/coredns",
    }
    assert back("^etcd, member", made).verdict == "reversible"


def test_inputs_are_named_by_their_digests() -> None:
    made = ticket()
    by = {item.what: item for item in made.inputs}
    assert set(by) == {"snapshot", "profile", "kubernetes-data", "tool"}
    assert by["snapshot"].sha256 == made.snapshot_digest
    assert all(len(by[what].sha256) == 64 for what in ("snapshot", "profile", "kubernetes-data"))
    assert made.snapshot == recorded("before")


def test_the_same_input_gives_the_same_bytes() -> None:
    again = plan(recorded("before"), dra_profile(), now="2026-12-01T03:00:00Z")
    assert msgspec.json.encode(again) == msgspec.json.encode(ticket())
    assert msgspec.json.decode(msgspec.json.encode(again), type=Ticket) == again
