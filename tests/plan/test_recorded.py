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
    assert f"UID {recorded('before').cluster.uid} of namespace kube-system" in made.facts["cluster"]
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
    saved = texts(step("take an etcd snapshot on cp-1"))
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
        assert re.search(r"etcdctl .*10\.0\.0\.13:2379 endpoint health", texts(made))
        assert f"that of cp-{n} is on v3.7.0" in made.go_on
        # What holds for each node is said once.
        said = "\n".join((made.why, *made.notes))
        for words in ("go one by one", "proves only that Pods are in phase Running", "etcd stays on v3.7.0"):
            assert (words in said) == (n == 1), (made.id, words)
        assert (f"What {steps[0].id} says" in said) == (n > 1)
    assert any("[y/N]" in note and "renews the certificates" in note for note in steps[0].notes)
    assert ticket().rollback_decide_by.startswith(
        f"before {steps[2].id} starts, when {steps[1].id} is proven; about minute 30"
    )


def test_upgrade_plan_is_no_reading() -> None:
    made = step("ask its own check")
    command = next(c for c in made.commands if "upgrade plan" in c.text)
    assert command.runs == "write"
    assert any("creates a Job" in note for note in made.notes)
    assert any(
        "kube-apiserver: DRADeviceTaintRules=true,SidecarContainers=true → DRADeviceTaintRules=true." in note
        for note in made.notes
    )
    assert "kubeadm version prints v1.37.2." in made.go_on
    assert made.rollback


def test_drains_say_what_they_meet() -> None:
    first, one, both = step("kubelets of cpu-1, gpu-3 "), step("kubelet of gpu-2 "), step("kubelet of gpu-1 ")
    assert "--force" in texts(both)
    assert "--force" not in texts(first) + texts(one)
    for made in (one, both):
        assert any("ml/train" in note and "hangs" in note for note in made.notes)
    for made in (first, one, both):
        assert any("deletes its node's ResourceSlices" in note for note in made.notes)
        assert "gpu.example.com" in made.go_on
    assert "gpu.example.com 2" in both.go_on
    assert any("for good: ml/net-app" in note for note in both.notes)
    assert "hangs" not in "\n".join(first.notes)
    assert "gpu-3: devices to come back: dra.net 1, gpu.example.com 2." in first.notes
    assert "No resources found is right for cpu-1: nothing publishes there today." in first.notes


def test_nodes_go_from_what_can_go_wrong_least_to_what_takes_a_workload_down() -> None:
    moved = [s for s in ticket().steps if s.phase == "nodes"]
    assert [s.nodes for s in moved] == [
        ("cp-1", "cp-2", "cp-3"),
        ("cpu-1", "gpu-3"),
        ("gpu-2",),
        ("gpu-1",),
        ("old-gpu-1",),
    ]
    assert [s.minutes for s in moved] == [30, 20, 10, 10, 10]
    looks = [s.nodes for s in moved if any("Stop after it and look" in note for note in s.notes)]
    assert looks == [("cpu-1", "gpu-3")]
    last = moved[-1]
    assert any("ml/legacy-infer is down" in note and "owner" in note for note in last.notes)
    assert "example.com/legacy-gpu again" in last.go_on
    assert ".status.allocatable.example\\.com/legacy-gpu" in texts(last)
    assert "resourceslices" not in texts(last)


def test_a_pod_without_a_controller_is_made_again_when_its_node_is_back() -> None:
    made = step("kubelet of gpu-1 ")
    lines = texts(made).splitlines()
    back = lines.index("kubectl uncordon gpu-1")
    again = lines.index("kubectl create -f pod-ml-net-app.yaml")
    assert back < again
    assert "nic-claim" in "\n".join(lines[again:])
    assert "claim allocated: ml/net-app" in made.go_on
    # Only then can the claims be what they were.
    held = check("claims.held")
    assert held.id in made.checks
    assert all("create -f pod" not in texts(s) for s in ticket().steps if s.id.startswith("A-"))


def test_the_etcd_snapshot_is_the_last_step_before_the_window_and_leaves_the_node() -> None:
    before = [s for s in ticket().steps if s.phase == "before"]
    made = before[-1]
    assert made.title.startswith("Last of all, take an etcd snapshot on cp-1")
    assert "not older than 15 minutes when I-1 starts" in made.go_on
    text = texts(made)
    assert "ssh cp-1 sudo cat /var/backups/kubernetes/etcd-before-1.37.2.db > etcd-before-1.37.2.db" in text
    assert "sha256sum -c etcd-before-1.37.2.db.sha256" in text
    for other in ("cp-2", "cp-3"):
        assert f"ssh {other}" in text
    tools = step("Put etcdctl and etcdutl on the nodes")
    assert tools.nodes == ("cp-1", "cp-2", "cp-3")
    assert "etcdctl and etcdutl print 3.6.8 on every node" in tools.go_on


def test_a_small_cluster_has_at_most_twenty_steps() -> None:
    assert len(ticket().steps) <= 20


def test_what_was_only_for_the_change_is_taken_back_afterwards() -> None:
    people = step("Settle with the owners")
    patch = "kubectl -n ml patch poddisruptionbudget train --type=merge -p "
    assert patch + """'{"spec":{"minAvailable":2}}'""" in texts(people)
    assert "ALLOWED DISRUPTIONS is 1" in people.go_on
    notes = "\n".join(people.notes)
    assert "ml/train then runs with 2 of 3 Pods" in notes
    assert "More replicas do not help" in notes
    assert "2 free on gpu-3 behind node taint example.com/gpu-only=true:NoSchedule" in notes
    assert "takes ml/legacy-infer down (example.com/legacy-gpu): 0 of 2 Pods for about 10 minutes" in notes
    after = step("Take back what was only for the change")
    assert after.id.startswith("A-")
    assert f"{after.id} puts it back" in notes
    assert '{"spec":{"minAvailable":3}}' in texts(after)
    limit = check("budget.limit")
    assert limit.steps == (after.id,)
    assert any("nobody will go back" in note for note in after.notes)


def test_drift_is_settled_once_the_control_plane_is_healthy_and_kept() -> None:
    made = step("Settle the drift")
    drift = [f for f in ticket().findings if f.code.startswith("CG-DRIFT-")]
    assert len(drift) >= 4
    assert {f.remedy for f in drift} == {(made.id,)}
    health, backup = step("every etcd member is healthy"), step("Back up the control plane")
    at = [int(item.id.split("-")[1]) for item in (health, backup, made)]
    assert at == sorted(at)
    text = texts(made)
    for n in (1, 2, 3):
        assert f"kubectl --server=https://10.0.0.1{n}:6443 get --raw /apis/resource.k8s.io/v1beta2" in text
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in text
    assert any("takes no lease and binds no Pod" in note for note in made.notes)
    after = step("Take back what was only for the change")
    assert "--runtime-config=resource" in texts(after)
    assert f"The API that {made.id} turned on" in "\n".join(after.notes)


def test_an_endpoint_that_is_the_loopback_address_is_said() -> None:
    first = next(s for s in ticket().steps if s.phase == "control-plane")
    assert any("controlPlaneEndpoint in kubeadm-config is 127.0.0.1:6443" in note for note in first.notes)


def test_owners_are_asked_with_the_logs_of_their_drivers() -> None:
    made = step("Ask the owners of the DRA drivers")
    assert "kubectl -n dranet logs $(" in texts(made)
    assert "uname -r" in texts(made)
    assert "fault which this change can make worse" in made.stop
    notes = "\n".join(made.notes)
    # Run with kubeadm 1.37.2: a kernel that it does not name is a warning.
    assert "[WARNING SystemVerification]" in notes
    assert "--ignore-preflight-errors" not in notes
    assert "look simulated" in notes
    assert "sets no mode" in notes


def test_each_api_server_is_asked_itself() -> None:
    made = ticket().steps[0]
    for n in (1, 2, 3):
        assert f"kubectl --server=https://10.0.0.1{n}:6443 get --raw /version" in texts(made)
    assert "TICKET_INPUT=before" in texts(made)
    assert "leases" in texts(made)


def test_no_old_device_or_address_is_asked_back() -> None:
    status = check("claim.device-status", name="nic-claim")
    assert status.expected == "filled (values may differ)"
    runtime = {c.title.split()[3]: c for c in ticket().checks if c.layer == "runtime"}
    train = runtime["ml/train"]
    assert train.command.startswith("for pod in $(kubectl -n ml get pods -l app=train -o name); do")
    assert train.expected == "each Pod: 1 of gpu.example.com; which ones may differ"
    assert "device files" in runtime["ml/legacy-infer"].reads_as
    assert "1 of example.com/legacy-gpu" in str(runtime["ml/legacy-infer"].expected)


def test_what_is_the_same_on_several_nodes_is_written_once() -> None:
    for made in (*ticket().steps, *ticket().rollback):
        written = [(c.text, c.where) for c in made.commands]
        # Restoring a member and putting its data in place belong together, and so do a node's manifests and its proof.
        apart = (
            "snapshot restore",
            "get --raw /version | grep -F",
            "member add",
            "get --raw /readyz && break",
        )
        once = not any(word in text for text, _ in written for word in apart)
        assert not once or len({text for text, _ in written}) == len(written), made.id
    backup = step("Back up the control plane")
    assert {c.where for c in backup.commands if c.where != "any machine with kubectl"} == {
        "cp-1, cp-2, cp-3, one after another"
    }
    for made in (s for s in ticket().steps if s.phase == "nodes" and len(s.nodes) > 1):
        shell = [c.text for c in made.commands if c.where == "any machine with kubectl"]
        assert shell[0] == f"NODE={made.nodes[0]}"
        assert all('"${NODE:?}"' in text for text in shell[1:])
        assert {c.where for c in made.commands} == {"any machine with kubectl", "the node in $NODE"}


def test_drains_are_settled_with_people_first() -> None:
    people = step("Settle with the owners")
    saved = [text for text in texts(people).splitlines() if text.endswith("> pod-ml-net-app.yaml")]
    # Made again with its node's name it would pass the scheduler by.
    assert len(saved) == 1
    assert r"/^ \{2\}nodeName:/d" in saved[0]
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
    assert {"owner", "window.start", "window.end", "approvers", "service", "reason", "risk"} <= open_
    filled = plan(
        recorded("before"),
        dra_profile(),
        fields={"owner": "team-a", "cost_centre": "42", "window.start": "2026-12-05T22:00:00Z"},
    )
    by = {f.name: f for f in filled.fields}
    assert (by["owner"].value, by["owner"].source) == ("team-a", "set")
    assert by["window.start"].value == "2026-12-05T22:00:00Z"
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
