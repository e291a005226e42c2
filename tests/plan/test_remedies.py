"""Remedies do what they say: the edits are run on real text, and nothing else changes."""

from __future__ import annotations

import re
import shlex
import subprocess

import msgspec
import pytest
import yaml

from changegen.model.profile import DeviceTaintWish, Taints
from changegen.model.snapshot import ConfigFact, ConfigMapFact, GateSource, Snapshot
from changegen.model.ticket import Finding, Step, Subject
from changegen.plan.steps.remedies import _gate_edits
from tests.plan.build import dra_profile, plan, recorded, to

replace = msgspec.structs.replace


def finding(component: str, gate: str) -> Finding:
    return Finding(
        id=gate,
        code="CG-GATE-001",
        severity="blocking",
        subject=Subject(component=component, name=gate),
        title="t",
        message="m",
    )


def sed(edits: list[str], text: str) -> str:
    words = [word for edit in edits or ["p;d"] for word in ("-e", edit)]
    return subprocess.run(["sed", *words], input=text, capture_output=True, text=True, check=True).stdout


def document(lines: str) -> str:
    """A ConfigMap as kubectl prints it, with the configuration as a block."""
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"apiVersion: v1\ndata:\n  ClusterConfiguration: |\n{body}\nkind: ConfigMap\n"


def inside(text: str) -> object:
    return yaml.safe_load(yaml.safe_load(text)["data"]["ClusterConfiguration"])


def extra(value: str) -> str:
    return f"apiServer:\n  extraArgs:\n  - name: audit-log-path\n    value: /x\n  - name: feature-gates\n    value: {value}\nscheduler: {{}}"


@pytest.mark.parametrize(
    ("value", "gates", "left"),
    [
        ("A=true,SidecarContainers=true", ["SidecarContainers"], "A=true"),
        ("SidecarContainers=true,A=true", ["SidecarContainers"], "A=true"),
        ("A=true,SidecarContainers=true,B=false", ["SidecarContainers"], "A=true,B=false"),
        ("A=true,kube:SidecarContainers=true", ["SidecarContainers"], "A=true"),
        ("A=true,NotSidecarContainers=true", ["SidecarContainers"], "A=true,NotSidecarContainers=true"),
        ("A=true,B=true,C=true", ["A", "C"], "B=true"),
        ("SidecarContainers=true", ["SidecarContainers"], None),
    ],
)
def test_a_gate_goes_and_all_else_stays(value: str, gates: list[str], left: str | None) -> None:
    config = ConfigMapFact(
        namespace="kube-system",
        name="kubeadm-config",
        kind="kubeadm",
        component_gates={
            "kube-apiserver": GateSource(
                provenance="configmap",
                place="p",
                certainty="intended",
                flag_values=(value,),
                gates=dict.fromkeys(gates, True),
            )
        },
    )
    edits = _gate_edits(config, [finding("kube-apiserver", gate) for gate in gates])
    before = document(extra(value))
    after = inside(sed(edits, before))
    expected = inside(before)
    assert isinstance(expected, dict)
    args = expected["apiServer"]["extraArgs"]
    if left is None:
        expected["apiServer"]["extraArgs"] = args[:1]
    else:
        args[1]["value"] = left
    assert after == expected
    as_map = document(
        f"apiServer:\n  extraArgs:\n    audit-log-path: /x\n    feature-gates: {value}\nscheduler: {{}}"
    )
    changed = inside(sed(edits, as_map))
    assert isinstance(changed, dict)
    assert changed["apiServer"]["extraArgs"].get("feature-gates") == left
    assert changed["apiServer"]["extraArgs"]["audit-log-path"] == "/x"


def test_a_gate_of_a_map_goes() -> None:
    config = ConfigMapFact(
        namespace="kube-system",
        name="kubelet-config",
        kind="kubelet",
        component_gates={
            "kubelet": GateSource(
                provenance="configmap",
                place="p",
                certainty="intended",
                gates={"A": True, "AB": True, "B": False},
            )
        },
    )
    text = document("featureGates:\n  A: true\n  AB: true\n  B: false\nkind: KubeletConfiguration")
    after = inside(sed(_gate_edits(config, [finding("kubelet", "A"), finding("kubelet", "B")]), text))
    assert after == {"featureGates": {"AB": True}, "kind": "KubeletConfiguration"}
    every = [finding("kubelet", gate) for gate in ("A", "AB", "B")]
    assert inside(sed(_gate_edits(config, every), text)) == {"kind": "KubeletConfiguration"}


def test_the_printed_remedy_of_the_recorded_cluster_works_on_its_own_text() -> None:
    made = plan(recorded("before"), dra_profile())
    step = next(s for s in made.steps if s.title.startswith("Take SidecarContainers"))
    words = shlex.split(step.commands[1].text.split("|")[1])
    assert words[0] == "sed"
    text = document(extra("DRADeviceTaintRules=true,SidecarContainers=true"))
    after = inside(subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout)
    assert isinstance(after, dict)
    assert after["apiServer"]["extraArgs"][1]["value"] == "DRADeviceTaintRules=true"


def test_what_only_tidies_is_called_optional() -> None:
    made = plan(recorded("before"), dra_profile())
    step = next(s for s in made.steps if any("DRAResourceClaimDeviceStatus" in c.text for c in s.commands))
    assert step.phase == "after"
    assert any(
        note.startswith("Optional, ") and "DRAResourceClaimDeviceStatus" in note for note in step.notes
    )
    assert any("a kubelet of a later minor will not start with it" in note for note in step.notes)
    alone = plan(replace(recorded("before"), disruption_budgets=(), taint_rules=()), dra_profile())
    assert any(s.title.startswith("Optional: take DRAResourceClaimDeviceStatus") for s in alone.steps)
    found = next(f for f in made.findings if f.code == "CG-GATE-010")
    assert found.remedy == (step.id,)


def test_a_gate_that_only_a_manifest_sets_is_taken_out_there() -> None:
    base = recorded("before")
    maps = tuple(replace(item, component_gates={}) for item in base.config_maps)
    made = plan(replace(base, config_maps=maps))
    step = next(s for s in made.steps if "own configuration" in s.title)
    assert step.nodes == ("cp-1", "cp-2", "cp-3")
    # A node at a time: its file put in place, then its own API server awaited, then the next node.
    acts = [c for c in step.commands if c.text.startswith("sudo cp ") or "for N in" in c.text]
    assert [c.where for c in acts if c.text.startswith("sudo cp ")] == ["cp-1", "cp-2", "cp-3"]
    for n, (put, wait) in enumerate(zip(acts[::2], acts[1::2], strict=True), start=1):
        assert put.text.endswith(" /etc/kubernetes/manifests/kube-apiserver.yaml")
        assert f"pod kube-apiserver-cp-{n} " in wait.text
        assert f"--server=https://10.0.0.1{n}:6443 get --raw /readyz" in wait.text
        assert "grep -qvF SidecarContainers" in wait.text
    edits = [c.text for c in step.commands if " sed " in c.text]
    assert all(
        "s/DRADeviceTaintRules=true,SidecarContainers=true/DRADeviceTaintRules=true/" in t for t in edits
    )
    # The kubelet reads each file of that folder, also the one that sed -i makes for a moment.
    for each in (*made.steps, *made.rollback):
        assert not [
            c.text for c in each.commands if "sed -i" in c.text and "/etc/kubernetes/manifests/" in c.text
        ]
    assert "kube-apiserver-before-edit.yaml" in step.stop


def drift_step(snapshot: Snapshot) -> Step | None:
    steps = plan(snapshot, dra_profile()).steps
    return next((s for s in steps if "serve resource.k8s.io/v1beta2" in s.title.lower()), None)


MANIFEST = """spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=10.0.0.11
    - --tls-private-key-file=/etc/kubernetes/pki/apiserver.key
    image: x
"""


@pytest.mark.parametrize("old", [None, "api/ga=true"])
@pytest.mark.parametrize("version", ["v1beta3", "v1beta4"])
def test_the_api_is_turned_on_for_the_rules_and_off_again(old: str | None, version: str) -> None:
    """Both edits are run on real text: one entry more, and afterwards the text of before."""
    base = recorded("before")
    flags = {} if old is None else {"kube-apiserver": (ConfigFact(name="runtime-config", values=(old,)),)}
    maps = tuple(
        replace(
            m,
            api_version=f"kubeadm.k8s.io/{version}",
            component_flags={
                "kube-apiserver": (
                    ConfigFact(name="feature-gates", values=("A=true",)),
                    *flags.get("kube-apiserver", ()),
                )
            },
        )
        if m.kind == "kubeadm"
        else m
        for m in base.config_maps
    )
    components = tuple(
        replace(c, runtime_config=(old,) if old else ()) if c.component == "kube-apiserver" else c
        for c in base.components
    )
    made = plan(replace(base, config_maps=maps, components=components), dra_profile())
    on = next(s for s in made.steps if s.title.startswith("Settle the drift, and serve"))
    off = next(s for s in made.steps if s.title.startswith("Take back what was only"))
    listed = version == "v1beta4"
    entries = {"feature-gates": "A=true"} | ({"runtime-config": old} if old else {})
    args = (
        "\n".join(f"  - name: {k}\n    value: {v}" for k, v in entries.items())
        if listed
        else "\n".join(f"    {k}: {v}" for k, v in entries.items())
    )
    other = "  extraArgs:\n" + ("  - name: v\n    value: '2'" if listed else "    v: '2'")
    config = document(
        f"apiServer:\n  extraArgs:\n{args}\ncertificatesDir: /x\ncontrollerManager:\n{other}\nscheduler:\n{other}"
    )
    manifest = MANIFEST.replace("    image", f"    - --runtime-config={old}\n    image") if old else MANIFEST

    def edited(step: Step, word: str, text: str) -> str:
        line = next(c.text for c in step.commands if word in c.text and "sed" in c.text)
        script = next(part for part in re.split(r"\||&&", line) if " sed " in f" {part}")
        words = [w for w in shlex.split(script) if w != "sudo" and not w.startswith("/etc/")]
        return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout

    served = edited(on, "configmap kubeadm-config -o yaml", config)
    extra_args = inside(served)["apiServer"]["extraArgs"]  # type: ignore[index]
    found = {e["name"]: e["value"] for e in extra_args} if listed else extra_args
    wanted = "resource.k8s.io/v1beta2=true" if old is None else f"{old},resource.k8s.io/v1beta2=true"
    assert found == {"feature-gates": "A=true", "runtime-config": wanted}
    if old is None:
        # Done again, it is there once.
        assert edited(on, "configmap kubeadm-config -o yaml", served) == served
        for text in (manifest, edited(on, "kube-apiserver-edited", manifest)):
            assert edited(on, "kube-apiserver-edited", text).count("--runtime-config=") == 1
    for section in ("controllerManager", "scheduler"):
        assert inside(served)[section] == inside(config)[section]  # type: ignore[index]
    assert edited(off, "configmap kubeadm-config -o yaml", served) == config
    with_flag = edited(on, "manifests/kube-apiserver.yaml", manifest)
    command = yaml.safe_load(with_flag)["spec"]["containers"][0]["command"]
    assert command[0] == "kube-apiserver"
    assert [c for c in command if c.startswith("--runtime-config")] == [f"--runtime-config={wanted}"]
    assert edited(off, "manifests/kube-apiserver.yaml", with_flag) == manifest
    # kubeadm wrote it anew from its own configuration, in which nothing else was.
    alone = MANIFEST.replace("    image", "    - --runtime-config=resource.k8s.io/v1beta2=true\n    image")
    assert edited(off, "manifests/kube-apiserver.yaml", alone) == MANIFEST


def test_the_api_is_served_only_where_somebody_watches_the_rules_in_it() -> None:
    base = recorded("before")
    assert drift_step(base) is not None

    def gates(value: dict[str, bool]) -> Snapshot:
        return replace(
            base,
            components=tuple(
                replace(c, feature_gates=value, gate_sources=())
                if c.component in ("kube-scheduler", "kube-controller-manager")
                else c
                for c in base.components
            ),
        )

    assert drift_step(gates({})) is None
    assert drift_step(gates({"DRADeviceTaintRules": False})) is None
    on = tuple(
        replace(c, runtime_config=("resource.k8s.io/v1beta2=true",)) if c.component == "kube-apiserver" else c
        for c in base.components
    )
    assert drift_step(replace(base, components=on)) is None
    half = tuple(
        replace(c, runtime_config=("resource.k8s.io/v1beta2=true",))
        if c.component == "kube-apiserver" and c.node == "cp-1"
        else c
        for c in base.components
    )
    made = drift_step(replace(base, components=half))
    assert made is not None
    assert made.nodes == ("cp-2", "cp-3")


def test_without_rules_the_gate_goes_where_nothing_serves_its_api() -> None:
    base = replace(recorded("before"), taint_rules=())
    made = plan(base, dra_profile())
    step = next(s for s in made.steps if s.title.startswith("Settle the drift"))
    text = "\n".join(c.text for c in step.commands)
    assert "runtime-config=resource" not in text
    assert "'/--feature-gates=DRADeviceTaintRules=true$/d'" in text
    assert "kube-scheduler.yaml" in text
    value = "  - name: feature-gates\n    value: DRADeviceTaintRules=true"
    config = document(
        f"apiServer:\n  extraArgs:\n{value}\ncertificatesDir: /x\ncontrollerManager:\n  extraArgs:\n{value}\n"
        f"dns: {{}}\nscheduler:\n  extraArgs:\n  - name: v\n    value: '2'\n{value}"
    )
    line = next(c.text for c in step.commands if "kubectl replace" in c.text)
    words = shlex.split(line.split("|")[1])
    after = inside(subprocess.run(words, input=config, capture_output=True, text=True, check=True).stdout)
    expected = inside(config)
    assert isinstance(expected, dict)
    expected["controllerManager"]["extraArgs"] = None
    expected["scheduler"]["extraArgs"].pop()
    assert after == expected
    assert not any(s.title.startswith("Take back") and "v1beta2" in str(s.commands) for s in made.steps)


def test_a_device_taint_is_rolled_out_in_steps_and_taken_back() -> None:
    wish = DeviceTaintWish(
        key="example.com/repair", effect="NoExecute", expect="rollout", driver="gpu.example.com", pool="gpu-1"
    )
    made = plan(recorded("before"), replace(to("1.37.2"), taints=Taints(devices=(wish,))))
    steps = [s for s in made.steps if s.title.startswith("Device taint example.com/repair")]
    assert len(steps) == 4
    first = "\n".join(c.text for c in steps[0].commands)
    assert 'effect: "None"' in first
    assert re.search(r"pool: [\"']?gpu-1", first)
    assert "2 are allocated" in steps[0].why
    back = next(b for b in made.rollback if "example.com/repair" in b.what)
    assert back.order == 1
    assert back.verdict == "reversible-until"
    assert set(back.needed_once) == {s.id for s in steps}
