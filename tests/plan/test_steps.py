"""What each step does before it acts, how it waits, and when people may go on: run where a shell can show it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from changegen.facts import FACTS, Args
from changegen.facts.reads import reads_as
from changegen.model.snapshot import GateSource, Snapshot
from changegen.model.ticket import Step
from changegen.verify import judge
from tests.plan.build import plan, recorded, ticket
from tests.plan.test_recorded import check, step, texts

replace = msgspec.structs.replace


def place(made: Step, text: str) -> int:
    """Where the first command with a text stands."""
    return next(at for at, command in enumerate(made.commands) if text in command.text)


def number(made: Step) -> int:
    return int(made.id.partition("-")[2])


def without_rules() -> Snapshot:
    return replace(recorded("before"), taint_rules=())


# ------------------------------------------------------------------------------------------------ order


def test_nothing_of_the_control_plane_is_changed_before_its_health_is_known_and_its_files_are_kept() -> None:
    for made in (ticket(), plan(without_rules())):
        steps = [s for s in made.steps if s.phase == "before"]
        touching = [
            s
            for s in steps
            if any("tee /var/backups" in c.text or "kubectl replace" in c.text for c in s.commands)
        ]
        assert touching
        kept = next(s for s in steps if "manifests-before-1.37.2" in texts(s))
        healthy = next(s for s in steps if "endpoint health" in texts(s))
        assert number(healthy) < number(kept) < min(number(s) for s in touching)
        # What is written after the snapshot is lost when it is restored: it stays the last one.
        assert "snapshot save" in texts(steps[-1])


@pytest.mark.parametrize("rules", [True, False])
def test_each_node_is_waited_for_before_the_next_one_is_touched(rules: bool) -> None:
    made = step("drift|Take DRADeviceTaintRules", ticket() if rules else plan(without_rules()))
    written = [c for c in made.commands if c.runs == "write" and " /etc/kubernetes/manifests/" in c.text]
    assert {c.where for c in written} == {"cp-1", "cp-2", "cp-3"}
    open_node = ""
    for command in made.commands:
        if command in written:
            assert open_node in ("", command.where), (open_node, command)
            open_node = command.where
        elif open_node and "for N in $(seq" in command.text:
            name = re.search(rf"pod (kube-[a-z-]+-{open_node}) ", command.text)
            assert name is not None, command.text
            if name[1].startswith("kube-apiserver"):
                address = {"cp-1": 11, "cp-2": 12, "cp-3": 13}[open_node]
                assert f"--server=https://10.0.0.{address}:6443 get --raw /readyz" in command.text
            open_node = ""
    assert open_node == ""


def test_an_api_is_taken_away_node_by_node_too() -> None:
    made = step("Take back what was only for the change")
    servers = [
        c for c in made.commands if "/manifests/kube-apiserver.yaml" in c.text or "/readyz && " in c.text
    ]
    waits = [at for at, c in enumerate(servers) if "/readyz && " in c.text]
    assert len(waits) == 3
    assert [servers[at - 1].where for at in waits] == ["cp-1", "cp-2", "cp-3"]


def shell(text: str, folder: Path, answers: str) -> subprocess.CompletedProcess[str]:
    """Run a line with a kubectl that answers by a script, and no time to sleep."""
    for name, line in (("kubectl", answers), ("sleep", "exit 0")):
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        tool.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", "-c", text],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


OLD = '["kube-apiserver","--allow-privileged=true"]'
NEW = '["kube-apiserver","--runtime-config=resource.k8s.io/v1beta2=true"]'


@pytest.mark.parametrize(
    ("title", "shown", "ready", "code"),
    [
        ("Settle the drift", NEW, True, 0),
        ("Settle the drift", NEW, False, 1),
        # The old instance answers ready until the kubelet has ended it.
        ("Settle the drift", OLD, True, 1),
        ("Take back what was only", OLD, True, 0),
        ("Take back what was only", NEW, True, 1),
        ("Take back what was only", OLD, False, 1),
        # No answer at all is no sign that the flag is gone.
        ("Take back what was only", "", True, 1),
    ],
)
def test_the_wait_takes_the_new_instance_only(
    tmp_path: Path, title: str, shown: str, ready: bool, code: int
) -> None:
    line = next(c.text for c in step(title).commands if "kube-apiserver-cp-2" in c.text and "seq" in c.text)
    answers = (
        f"""case "$*" in *readyz*) {"echo ok" if ready else "exit 1"} ;; *) printf '%s' '{shown}' ;; esac"""
    )
    assert shell(line, tmp_path, answers).returncode == code


# ------------------------------------------------------------------------------------------------ the backup


MANIFEST = """\
spec:
  containers:
  - command:
    - kube-apiserver
    - --allow-privileged=true
"""
CONFIG = """\
apiVersion: v1
data:
  ClusterConfiguration: |
    apiServer:
      extraArgs:
      - name: feature-gates
        value: DRADeviceTaintRules=true,SidecarContainers=true
    apiVersion: kubeadm.k8s.io/v1beta4
"""


def test_a_way_back_starts_with_what_the_drift_step_turned_on(tmp_path: Path) -> None:
    made = step("Settle the drift")
    manifest, config = tmp_path / "kube-apiserver.yaml", tmp_path / "kubeadm-config-before-1.37.2.yaml"
    manifest.write_text(MANIFEST, encoding="utf-8")
    config.write_text(CONFIG, encoding="utf-8")
    edits = [
        c.text.replace("sudo ", "").replace("/var/backups/kubernetes/manifests-before-1.37.2", str(tmp_path))
        for c in made.commands
        if "manifests-before-1.37.2/" in c.text or "kubeadm-config-before-1.37.2" in c.text
    ]
    assert len(edits) == 2
    # Done again, as people do who were interrupted, it is there once.
    for _ in range(2):
        for text in edits:
            subprocess.run(["/bin/sh", "-c", text], cwd=tmp_path, check=True)
    assert manifest.read_text(encoding="utf-8").count("--runtime-config=resource.k8s.io/v1beta2=true") == 1
    assert config.read_text(encoding="utf-8").count("value: resource.k8s.io/v1beta2=true") == 1
    assert "SidecarContainers" in config.read_text(encoding="utf-8")
    # The files that it edits are there by then.
    assert number(step("Back up the control plane")) < number(made)


# ------------------------------------------------------------------------------------------------ nodes


def test_a_node_is_done_when_the_workloads_that_left_it_are_ready_again() -> None:
    made = ticket()
    titles = {c.id: c.title for c in made.checks}
    by_node = {s.nodes: {titles[c] for c in s.checks} for s in made.steps if s.phase == "nodes"}
    train, infer = (f"Deployment ml/{name}: Pods that are not ready" for name in ("train", "legacy-infer"))
    assert train in by_node["gpu-1",] & by_node["gpu-2",]
    assert infer in by_node["old-gpu-1",]
    assert infer not in by_node["gpu-1",]
    said = {s.nodes: s.go_on for s in made.steps if s.phase == "nodes"}
    assert "no more Pods than before are not ready: ml/train;" in said["gpu-1",]
    assert "no more Pods than before are not ready: ml/legacy-infer." in said["old-gpu-1",]
    assert "are not ready" not in said["cpu-1", "gpu-3"]
    drivers = {
        "DaemonSet dranet/dranet: Pods that are not ready",
        "DaemonSet dra-example-driver/dra-example-driver-kubeletplugin: Pods that are not ready",
    }
    assert drivers <= by_node["gpu-1",]
    assert drivers.isdisjoint(by_node["cp-1", "cp-2", "cp-3"])
    ready = "no Pod of kube-system/kube-proxy, kube-system/coredns"
    for nodes, text in said.items():
        assert ready in text
        assert (
            f"{ready}, dra-example-driver/dra-example-driver-kubeletplugin, dranet/dranet is" in text
        ) is (drivers <= by_node[nodes])
        assert {
            "DaemonSet kube-system/kube-proxy: Pods that are not ready",
            "Deployment kube-system/coredns: Pods that are not ready",
        } <= by_node[nodes]


# ------------------------------------------------------------------------------------------------ after


def test_the_add_ons_are_moved_only_from_a_configuration_of_the_target(tmp_path: Path) -> None:
    made = step("kube-proxy and CoreDNS followed")
    guard = made.commands[0].text
    for version, code in (("v1.37.2", 0), ("v1.36.3", 1), ("v1.37.20", 1)):
        answers = f"printf 'apiServer: {{}}\\nkubernetesVersion: {version}\\nnetworking: {{}}\\n'"
        assert shell(guard, tmp_path, answers).returncode == code
    (apply,) = [s for s in ticket().steps if "kubeadm upgrade apply" in texts(s)]
    assert f"Do {apply.id} again" in made.stop
    assert check("kubeadm.version").steps[0] == apply.id


def test_rollouts_have_ended_before_their_result_is_looked_at() -> None:
    made = step("kube-proxy and CoreDNS followed")
    act = place(made, "kubeadm upgrade node phase addon all")
    for subject in ("daemonset/kube-proxy", "deployment/coredns"):
        awaited = place(made, f"rollout status {subject} --timeout=")
        assert act < awaited < place(made, f"get {subject}")


def test_the_last_steps_print_the_commands_of_the_closing_report() -> None:
    close = step("Fill the checklist")
    probe, file, verify = (c.text for c in close.commands)
    assert probe == "changegen probe --ticket ticket.json"
    # What was written down already is not written over.
    assert (
        file == "test -s evidence.yaml || changegen probe --ticket ticket.json -f evidence -o evidence.yaml"
    )
    assert verify == "changegen verify ticket.json --runtime-evidence evidence.yaml -o report.md"
    last = step("Take back what was only for the change").commands[-1].text
    assert last == verify


def test_without_devices_nobody_is_sent_into_containers() -> None:
    base = recorded("before")
    made = plan(replace(base, pods=tuple(p for p in base.pods if not p.uses_devices), claims=()))
    text = "\n".join(texts(s) for s in made.steps)
    assert "changegen verify ticket.json -o report.md" in text
    assert "changegen probe" not in text
    assert "--runtime-evidence" not in text


# ------------------------------------------------------------------------------------------------ what is said


def test_what_is_read_live_can_be_answered_where_the_reading_could_not() -> None:
    made = step("Read the cluster again")
    assert "whatever this ticket's reading could tell" in made.go_on
    assert "belongs to an instance that is known" not in made.go_on
    assert "kubernetes\\.io/hostname" in texts(made)


def test_a_kernel_that_kubeadm_does_not_name_stops_nothing() -> None:
    found = [f for f in ticket().findings if f.code == "CG-NODE-006"]
    assert found
    assert "it warns and goes on" in found[0].message
    assert "--ignore-preflight-errors" not in "\n".join(texts(s) for s in ticket().steps)


def test_cgroup_v1_stops_kubeadm_and_is_looked_for() -> None:
    base = recorded("before")
    maps = tuple(
        replace(m, settings={**m.settings, "failCgroupV1": False}) if m.kind == "kubelet" else m
        for m in base.config_maps
    )
    made = plan(replace(base, config_maps=maps))
    asked = next(s for s in made.steps if "stat -fc %T /sys/fs/cgroup" in texts(s))
    said = "\n".join(asked.notes)
    assert "[ERROR SystemVerification]" in said
    assert "--ignore-preflight-errors=SystemVerification" in said
    assert any(f.code == "CG-NODE-005" and f.remedy == (asked.id,) for f in made.findings)


def test_pods_on_no_node_are_not_among_those_that_a_drain_deletes() -> None:
    (found,) = [f for f in ticket().findings if f.code == "CG-DRAIN-002"]
    assert found.subject.instances == ("ml/net-app",)
    assert "too-big" not in ticket().facts["blast_radius"]


def test_each_line_of_the_checklist_that_is_no_plain_value_says_how_it_is_read() -> None:
    silent = {c.query.fact for c in ticket().checks if c.query is not None and not c.reads_as}
    assert silent <= {
        "kubeadm.version",
        "workload.image",
        "rule.effect",
        "class.extended-resource",
        "budget.allowed",
    }
    assert "3.7.0-0 is v3.7.0" in reads_as("component.running", {"component": "etcd"})


# ------------------------------------------------------------------------------------------------ kubelets


GATES = {
    "cp-1": {"DRAResourceClaimDeviceStatus": True},
    "gpu-1": {"KubeletInUserNamespace": False, "Odd": True},
}


def with_configz(gates: dict[str, dict[str, bool]], base: Snapshot | None = None) -> Snapshot:
    """The recorded cluster, where the configz of some kubelets was read too."""
    snapshot = base or recorded("before")
    return replace(
        snapshot,
        components=tuple(
            replace(
                item,
                gate_sources=(
                    GateSource(
                        provenance="configz",
                        place=f"nodes/{item.node}/proxy/configz",
                        certainty="effective",
                        gates=gates[item.node],
                    ),
                    *item.gate_sources,
                ),
            )
            if item.component == "kubelet" and item.node in gates
            else item
            for item in snapshot.components
        ),
    )


def test_the_gates_of_kubelets_are_read_as_their_command_prints_them(tmp_path: Path) -> None:
    args: Args = {"nodes": ("cp-1", "gpu-1", "gpu-2")}
    fact = FACTS["kubelet.gates"]
    seen = fact.evaluate(with_configz({**GATES, "gpu-2": {}}), args)
    answers = """case "$*" in
    */cp-1/*) echo '{"kubeletconfig":{"featureGates":{"DRAResourceClaimDeviceStatus":true},"port":10250}}' ;;
    */gpu-1/*) echo '{"kubeletconfig":{"a":{"b":1},"featureGates":{"Odd":true,"KubeletInUserNamespace":false}}}' ;;
    *) echo '{"kubeletconfig":{"port":10250}}' ;;
    esac"""
    printed = fact.parse(shell(fact.command(args), tmp_path, answers).stdout, args)
    assert (
        printed.value
        == seen.value
        == {
            "cp-1": "DRAResourceClaimDeviceStatus=true",
            "gpu-1": "KubeletInUserNamespace=false,Odd=true",
            "gpu-2": "-",
        }
    )
    # No right to read it is no proof that nothing is set.
    refused = fact.parse(shell(fact.command(args), tmp_path, "exit 1").stdout, args)
    assert not refused.known
    assert not fact.evaluate(recorded("before"), args).known
    partly = fact.evaluate(with_configz(GATES), args)
    assert list(partly.gaps) == ["gpu-2"]


def test_each_kubelet_is_held_against_what_kubeadm_gives_it() -> None:
    before = with_configz(GATES)
    made = plan(before)
    found = check("kubelet.gates", made)
    # kubeadm upgrade node writes the file from ConfigMap kubelet-config: what one node had beside it goes.
    assert found.expected == dict.fromkeys(("cp-1", "gpu-1"), "DRAResourceClaimDeviceStatus=true")
    by_nodes = {s.nodes: s for s in made.steps if s.phase == "nodes"}
    assert found.id in by_nodes["gpu-1",].checks
    assert by_nodes["gpu-1",].partial[found.id] == ("gpu-1",)
    text = "\n".join(texts(s) for s in made.steps)
    assert "changegen snapshot --configz -o before-1.37.2.json.gz" in text
    assert "changegen verify ticket.json --configz --runtime-evidence" in text
    good = with_configz({node: {"DRAResourceClaimDeviceStatus": True} for node in ("cp-1", "gpu-1")})
    fact = FACTS["kubelet.gates"]
    assert judge(found, fact.evaluate(good, found.query.args if found.query else {}))[0] == "pass"
    assert judge(found, fact.evaluate(before, found.query.args if found.query else {}))[0] == "fail"
    assert (
        judge(found, fact.evaluate(recorded("before"), found.query.args if found.query else {}))[0]
        == "unknown"
    )


def test_a_node_is_drained_only_after_somebody_looked_at_what_kubeadm_wrote() -> None:
    for made in (s for s in ticket().steps if s.phase == "nodes"):
        start = place(made, "kubectl drain")
        for file in ("config.yaml", "kubeadm-flags.env"):
            kept = f"/var/backups/kubernetes/kubelet-before-1.37.2/{file}"
            assert place(made, f"sudo diff {kept} /var/lib/kubelet/{file}") < start
        assert any("DRAResourceClaimDeviceStatus: true" in note for note in made.notes), made.id


@pytest.mark.parametrize(("tag", "result"), [("3.7.0-0", "pass"), ("3.7.0-1", "pass"), ("3.6.8-0", "fail")])
def test_the_etcd_image_that_kubeadm_brings_is_the_version_that_is_expected(tag: str, result: str) -> None:
    """Its tag has a build behind the version (cmd/kubeadm/app/constants: DefaultEtcdVersion 3.7.0-0)."""
    found = check("component.running", component="etcd")
    assert found.query is not None
    rows = "".join(
        f"etcd-cp-{n}\tcp-{n}\tregistry.k8s.io/etcd:{tag}\t2026-12-01T03:00:00Z\n" for n in (1, 2, 3)
    )
    assert judge(found, FACTS[found.query.fact].parse(rows, found.query.args))[0] == result
