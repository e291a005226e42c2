"""Steps that mend blockers before the change: gates taken out of where they are set, objects that the target cannot decode."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from changegen.i18n import tr
from changegen.model.snapshot import ConfigMapFact
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.scene import Scene
from changegen.plan.steps.common import (
    command,
    dedupe,
    edited,
    started_anew,
    unedited,
)
from changegen.shell import quoted

_REMOVABLE = ("CG-GATE-001", "CG-GATE-002", "CG-GATE-004")
"""Faults of a gate that are mended by not naming it any more."""


def gate_faults(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of gates that the target refuses, with the gate's name."""
    return [
        item
        for item in findings
        if item.severity == "blocking"
        and (item.code in _REMOVABLE or item.code == "CG-KUBEADM-001")
        and item.subject.name
    ]


def without_gates(value: str, gates: Sequence[str]) -> str:
    """A --feature-gates value without some gates, the rest as written."""
    kept = [
        piece for piece in value.split(",") if piece.split("=", 1)[0].strip().rpartition(":")[2] not in gates
    ]
    return ",".join(kept)


def _sed(text: str) -> str:
    return re.sub(r"([/.\[\]*^$\\&])", r"\\\1", text)


def remedies(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Steps that mend what keeps a component or kubeadm from starting."""
    return [*gate_remedies(scene, findings), *_kubeadm_remedies(scene, findings)]


def edit(config: ConfigMapFact, edits: Sequence[str]) -> list[Command]:
    """Shows, then makes, an edit of a ConfigMap; a concurrent change makes the replacement fail."""
    sed = "sed " + " ".join(f"-e {quoted(edit)}" for edit in dict.fromkeys(edits))
    read = f"kubectl -n {quoted(config.namespace)} get configmap {quoted(config.name)} -o yaml | {sed}"
    return [command(f"{read} | kubectl diff -f -"), command(f"{read} | kubectl replace -f -", write=True)]


def _kubeadm_remedies(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Of kubeadm: its own gates, removed flags in extraArgs, and a configuration version that it no longer reads."""
    config = scene.kubeadm
    if config is None:
        return []
    steps = []
    edits: list[str] = []
    concerned: list[Finding] = []
    for item in findings:
        name = item.subject.name
        if item.severity != "blocking" or not name:
            continue
        if item.code == "CG-KUBEADM-002":
            edits.append(f"/^ *{_sed(name)}: \\(true\\|false\\)$/d")
            concerned.append(item)
        elif item.code in ("CG-FLAG-001", "CG-FLAG-003"):
            flag = name.lstrip("-").split(" ")[0].split("=")[0]
            if not any(fact.name == flag for facts in config.component_flags.values() for fact in facts):
                continue
            edits += [f"/- name: {_sed(flag)}$/{{N;d;}}", f"/^ *{_sed(flag)}: /d"]
            concerned.append(item)
    if edits:
        steps.append(
            StepDraft(
                key="config:kubeadm-own",
                phase="before",
                title=tr(
                    "Take out of ConfigMap kubeadm-config what the target does not know: {names}",
                    names=", ".join(dict.fromkeys(i.subject.name for i in concerned)),
                ),
                why=tr("kubeadm refuses it, or writes it into the manifests of components that do."),
                commands=edit(config, edits),
                minutes=10,
                go_on=tr("The diff showed only these names going, and reading it again shows none of them."),
                stop=tr("The diff shows anything else."),
                rollback=["back:config"],
                findings=[item.id for item in concerned],
            )
        )
    migrate = [item for item in findings if item.code == "CG-KUBEADM-003" and item.severity == "blocking"]
    if migrate:
        node = scene.control_nodes[0] if scene.control_nodes else tr("a control-plane node")
        steps.append(
            StepDraft(
                key="config:kubeadm-migrate",
                phase="before",
                title=tr("Migrate ConfigMap kubeadm-config from {version}", version=config.api_version),
                why=tr("kubeadm of the target does not read it any more; the kubeadm of today still does."),
                commands=[
                    command(
                        "kubectl -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' > kubeadm-old.yaml",
                        where=node,
                    ),
                    command(
                        "kubeadm config migrate --old-config kubeadm-old.yaml --new-config kubeadm-new.yaml",
                        where=node,
                    ),
                    command(
                        "kubectl -n kube-system create configmap kubeadm-config --from-file=ClusterConfiguration=kubeadm-new.yaml --dry-run=client -o yaml | kubectl replace -f -",
                        where=node,
                        write=True,
                    ),
                ],
                nodes=(node,) if scene.control_nodes else (),
                minutes=15,
                go_on=tr(
                    "kubeadm-new.yaml holds one ClusterConfiguration of the new version with the same settings, and the ConfigMap holds it."
                ),
                stop=tr("A setting is missing in it: extraArgs became lists of name and value."),
                rollback=["back:config"],
                findings=[item.id for item in migrate],
                notes=[tr("With the kubeadm of today: run it before the new one is installed.")],
            )
        )
    return steps


def tidy(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Optional, after the change: gates that the target locks to the value that they have; a later minor may not know them."""
    steps = []
    locked = [item for item in findings if item.code == "CG-GATE-010" and item.subject.name]
    for config in scene.snapshot.config_maps:
        if config.kind not in ("kubeadm", "kubelet", "kube-proxy"):
            continue
        concerned = [
            item
            for item in locked
            if (source := config.component_gates.get(item.subject.component)) is not None
            and item.subject.name in source.gates
            and _default_is(scene, item.subject.name, source.gates[item.subject.name])
        ]
        if not concerned:
            continue
        edits = _gate_edits(config, concerned)
        place = f"{config.namespace}/{config.name}"
        names_text = ", ".join(dict.fromkeys(item.subject.name for item in concerned))
        steps.append(
            StepDraft(
                key=f"tidy:{place}",
                phase="after",
                title=tr(
                    "Optional: take {gates} out of ConfigMap {name}", gates=names_text, name=config.name
                ),
                why=tr(
                    "{gates} is the default today and locked at the target: it does nothing, and a {component} of a later minor will not start with it.",
                    gates=names_text,
                    component=", ".join(dict.fromkeys(item.subject.component for item in concerned)),
                ),
                commands=edit(config, edits),
                minutes=5,
                go_on=tr("The diff showed only these names going."),
                stop=tr("The diff shows anything else."),
                rollback=["back:config"],
                findings=[item.id for item in concerned],
                notes=[
                    tr(
                        "Left as it is, nothing fails with this change. Nodes take it over with the next run of kubeadm."
                    )
                ],
            )
        )
    return steps


def _default_is(scene: Scene, gate: str, value: bool) -> bool:
    """Whether the gate has that value today without being set, so that taking it out changes nothing."""
    if not scene.data.knows(scene.today):
        return False
    known = scene.data.gates(scene.today).get(gate)
    return known is not None and known.specs[-1].default is value


def gate_remedies(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Steps that take refused gates out of where they are set, ConfigMaps first."""
    faults = gate_faults(findings)
    if not faults:
        return []
    steps = []
    configs = [item for item in scene.snapshot.config_maps if item.component_gates]
    mended: set[str] = set()
    for config in configs:
        step, done = _config_step(config, faults)
        if step is not None:
            steps.append(step)
            if config.kind == "kubeadm":
                mended |= done
    rest = [
        item
        for item in faults
        if item.id not in mended and item.id not in {i for s in steps for i in s.findings}
    ]
    if rest:
        steps.append(_manifest_step(scene, rest))
    return steps


def _gate_edits(config: ConfigMapFact, faults: Sequence[Finding]) -> list[str]:
    """Edits for sed that take gates out of a ConfigMap: of a flag's value, as a list item, or of a map."""
    by_component: dict[str, list[str]] = {}
    for fault in faults:
        by_component.setdefault(fault.subject.component, []).append(fault.subject.name)
    edits: list[str] = []
    for component, gates in by_component.items():
        source = config.component_gates[component]
        if not source.flag_values:
            edits += [f"/^ *{_sed(gate)}: \\(true\\|false\\)$/d" for gate in gates]
            if set(source.gates) <= set(gates):
                # Without an entry the key would be left with nothing behind it.
                edits.append("/^ *featureGates:$/d")
            continue
        for value in source.flag_values:
            after = without_gates(value, gates)
            if after == value:
                continue
            if after:
                edits.append(f"s/{_sed(value)}/{_sed(after)}/")
            else:
                edits += [
                    '/- name: feature-gates$/{N;/value: "\\{0,1\\}' + _sed(value) + '"\\{0,1\\}$/d;}',
                    f'/feature-gates: "\\{{0,1\\}}{_sed(value)}"\\{{0,1\\}}$/d',
                ]
    return edits


def _config_step(config: ConfigMapFact, faults: Sequence[Finding]) -> tuple[StepDraft | None, set[str]]:
    """The step that takes refused gates out of a ConfigMap, and the findings that it mends."""
    concerned: list[Finding] = []
    by_component: dict[str, list[str]] = {}
    for fault in faults:
        source = config.component_gates.get(fault.subject.component)
        if source is None or fault.subject.name not in source.gates:
            continue
        concerned.append(fault)
        by_component.setdefault(fault.subject.component, []).append(fault.subject.name)
    if not concerned:
        return None, set()
    edits = _gate_edits(config, concerned)
    texts = [f"{component}: {', '.join(gates)}" for component, gates in by_component.items()]
    place = f"{config.namespace}/{config.name}"
    gates_text = ", ".join(sorted({fault.subject.name for fault in concerned}))
    kubeadm = config.kind == "kubeadm"
    step = StepDraft(
        key=f"config:{place}",
        phase="before",
        title=tr("Take {gates} out of ConfigMap {name}", gates=gates_text, name=config.name),
        why=(
            tr(
                "kubeadm writes the manifests from it again at every run: edits of the manifests by hand go, a gate left here comes back ({texts}).",
                texts="; ".join(texts),
            )
            if kubeadm
            else tr("New configuration is made from it ({texts}).", texts="; ".join(texts))
        ),
        commands=edit(config, edits),
        minutes=10,
        go_on=tr("The diff showed only these names going, and reading it again shows none of them."),
        stop=tr("The diff shows anything else."),
        checks=[f"check:kubeadm-gate:{fault.subject.name}" for fault in concerned] if kubeadm else [],
        rollback=["back:config"],
        findings=[fault.id for fault in concerned],
        notes=[
            tr(
                "Nothing restarts: the running instances keep their flags until kubeadm writes their manifests in {step}.",
                step="{{cp:first}}",
            )
            if kubeadm
            else tr("kubectl diff answers with exit code 1 when there is a difference; that is no error.")
        ],
    )
    return step, {fault.id for fault in concerned}


def _manifest_step(scene: Scene, faults: Sequence[Finding]) -> StepDraft:
    """Gates that no ConfigMap names: where the flags really are, per distribution."""
    dist = scene.distribution
    commands: list[Command] = []
    nodes: list[str] = []
    kept: list[str] = []
    gates = sorted({fault.subject.name for fault in faults})
    for fault in faults:
        for item in scene.context.of(fault.subject.component):
            if item.instance not in fault.subject.instances and item.node not in fault.subject.instances:
                continue
            values = [value for source in item.gate_sources[:1] for value in source.flag_values]
            for value in values:
                after = without_gates(value, gates)
                file = item.manifest or (
                    f"{scene.manifests}/{fault.subject.component}.yaml"
                    if item.kind == "static pod" and scene.manifests
                    else ""
                )
                if after == value or not item.node:
                    continue
                nodes.append(item.node)
                if dist.name in ("rke2", "k3s"):
                    file = dist.paths["config"]
                static = item.kind == "static pod" and bool(scene.manifests and scene.backup)
                if file.startswith(f"{scene.manifests}/") and static:
                    script = f"-e {quoted(f's/{_sed(value)}/{_sed(after)}/')}"
                    commands += edited(scene, item.node, file, script)
                    kept.append(unedited(scene, file))
                    commands += started_anew(scene, item, fault.subject.name, there=False)
                elif file and dist.name not in ("talos", "kops", "openshift"):
                    commands.append(
                        command(
                            f"sudo sed -i -e {quoted(f's/{_sed(value)}/{_sed(after)}/')} {quoted(file)}",
                            where=item.node,
                            write=True,
                        )
                    )
                elif dist.name == "talos":
                    found = scene.nodes.get(item.node)
                    ip = found.internal_ips[0] if found is not None and found.internal_ips else item.node
                    section = {
                        "kube-apiserver": "apiServer",
                        "kube-controller-manager": "controllerManager",
                        "kube-scheduler": "scheduler",
                    }.get(fault.subject.component)
                    if section is not None:
                        path = f"/cluster/{section}/extraArgs/feature-gates"
                        edit = (
                            {"op": "replace", "path": path, "value": after}
                            if after
                            else {"op": "remove", "path": path}
                        )
                        patch = json.dumps([edit], separators=(",", ":"))
                        commands.append(
                            command(
                                f"talosctl -n {quoted(ip)} patch machineconfig --patch {quoted(patch)}",
                                where=tr("the machine with talosctl"),
                                write=True,
                            )
                        )
    words = {
        "kops": tr(
            "In kOps the gates stand in the cluster's spec (featureGates of kubeAPIServer, kubeControllerManager, kubeScheduler, kubelet): kops edit cluster."
        ),
        "openshift": tr(
            "In OpenShift the gates come from FeatureGate/cluster: its owner must change it there."
        ),
        "rke2": tr(
            "In RKE2 the flags stand as kube-apiserver-arg and the like in the configuration file of each server."
        ),
        "k3s": tr(
            "In K3s the flags stand as kube-apiserver-arg and the like in the configuration file of each server."
        ),
    }
    notes = [words[dist.name]] if dist.name in words else []
    if not commands:
        notes.append(tr("The file that sets them was not seen in this reading: find it on the machines."))
    return StepDraft(
        key="gates:files",
        phase="before",
        title=tr("Take {gates} out of the components' own configuration", gates=", ".join(gates)),
        why=tr("The target's components do not start with them."),
        commands=dedupe(commands),
        nodes=tuple(dict.fromkeys(nodes)),
        minutes=10,
        go_on=tr(
            "The component has started again without the gate and is ready, before the next node is touched."
        ),
        stop=tr(
            "It does not become ready within five minutes: put the file back, {file}.",
            file=", ".join(dict.fromkeys(kept)),
        )
        if kept
        else tr("It does not become ready within five minutes: put the file back."),
        checks=[f"check:names-gate:{fault.subject.component}:{fault.subject.name}" for fault in faults],
        rollback=["back:control-plane"],
        findings=[fault.id for fault in faults],
        notes=notes,
    )


def stored_objects(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Objects of an API version that the target cannot decode: they go before the change."""
    target = scene.target
    if not target:
        return []
    steps = []
    for item in scene.snapshot.stored_objects:
        if not item.names:
            continue
        known = [
            api
            for api in (scene.data.apis(target) if scene.data.knows(target) else ())
            if api.group_version == item.group_version and api.resource == item.resource
        ]
        if known and any(api.served for api in known):
            continue
        concerned = [
            f.id for f in findings if item.group_version in f.message or item.resource in f.subject.name
        ]
        full = (
            f"{item.resource}.{item.group_version.split('/')[1]}.{item.group_version.split('/')[0]}"
            if "/" in item.group_version
            else item.resource
        )
        deletes = []
        for name in item.names:
            namespace, _, short = name.rpartition("/")
            where = f"-n {quoted(namespace)} " if namespace else ""
            deletes.append(command(f"kubectl {where}delete {quoted(full)} {quoted(short)}", write=True))
        steps.append(
            StepDraft(
                key=f"stored:{item.group_version}:{item.resource}",
                phase="before",
                title=tr(
                    "Delete the {n} objects of {what}",
                    n=len(item.names),
                    what=f"{item.group_version} {item.resource}",
                ),
                why=tr("The target cannot decode them: every list of that resource would fail."),
                commands=[
                    command(
                        f"kubectl get {quoted(full)} -A -o yaml > {quoted(item.resource + '-before.yaml')}",
                        write=True,
                    ),
                    *deletes,
                ],
                minutes=5,
                go_on=tr("None is left."),
                stop=tr("Their owner does not agree."),
                findings=concerned,
                rollback=["back:stored"],
            )
        )
    return steps
