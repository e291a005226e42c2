"""Settle before the change what differs today: settings against what kubeadm writes, and an API that components watch.

A kube-scheduler with DRADeviceTaintRules watches DeviceTaintRules in one API version of its minor, and waits at its start
until that list is there, without end (cmd/kube-scheduler/app/server.go: `InformerFactory.WaitForCacheSync`; the informer
is made in pkg/scheduler/scheduler.go). Run on 1.36.3: with the gate on and resource.k8s.io/v1beta2 off it takes no lease
and binds no Pod; with the API on it does. So its API server must serve that version today, and again after a way back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from changegen.apis import served_apis
from changegen.i18n import tr
from changegen.model.snapshot import Component, ConfigMapFact
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.saved import config_map_file, saved_config_maps
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import command, edited, gathered, in_turn, names, started_anew
from changegen.plan.steps.remedies import edit, without_gates
from changegen.shell import quoted
from changegen.versions import minor_of

__all__ = [
    "DRIFT",
    "WATCHED",
    "WatchedRules",
    "drift",
    "served_again",
    "served_back",
    "unedited",
    "watched_rules",
]

DRIFT = "drift"
GATE = "DRADeviceTaintRules"
WATCHED = {"1.35": "v1alpha3", "1.36": "v1beta2"}
"""Minor -> version of resource.k8s.io in which its scheduler and controller-manager watch DeviceTaintRules; from 1.37 on
it is v1, which is served by default. (pkg/scheduler/scheduler.go, cmd/kube-controller-manager/app/core.go.)"""


class WatchedRules(msgspec.Struct, frozen=True, kw_only=True):
    """Components of today that watch DeviceTaintRules in a version that an API server's own settings do not serve."""

    version: str
    """``resource.k8s.io/v1beta2``"""
    watchers: tuple[Component, ...]
    lacking: tuple[Component, ...]
    """API servers whose command line does not turn it on."""
    serve: bool
    """Turn the API on (there are rules); else take the gate out of the watchers."""


def watched_rules(scene: Scene) -> WatchedRules | None:
    """What to settle, or None where nothing watches, all serve it, or nothing was read of it."""
    minor = minor_of(scene.today) or ""
    short = WATCHED.get(minor)
    if short is None or not scene.control_nodes or not scene.data.knows(minor):
        return None
    watchers = tuple(
        item
        for name in ("kube-scheduler", "kube-controller-manager")
        for item in scene.instances(name)
        if isinstance(item.feature_gates, dict) and item.feature_gates.get(GATE) is True
    )
    if not watchers:
        return None
    version = f"resource.k8s.io/{short}"
    lacking = tuple(
        item
        for item in scene.instances("kube-apiserver")
        if item.runtime_config is not None and not _serves(scene, item, short)
    )
    if not lacking:
        return None
    return WatchedRules(
        version=version, watchers=watchers, lacking=lacking, serve=bool(scene.snapshot.taint_rules)
    )


def _serves(scene: Scene, item: Component, version: str) -> bool:
    found = served_apis(scene.today, item.runtime_config or (), None, scene.data)
    return any(
        (api.group, api.version, api.resource) == ("resource.k8s.io", version, "devicetaintrules")
        for api in found
    )


def _editable(scene: Scene, items: Sequence[Component]) -> bool:
    """Whether the flags are lines of static Pod manifests that people edit."""
    return (
        scene.distribution.name in ("kubeadm", "generic")
        and bool(scene.manifests)
        and all(item.kind == "static pod" and item.node for item in items)
    )


def _sed(text: str) -> str:
    return re.sub(r"([/.\[\]*^$\\&])", r"\\\1", text)


# ------------------------------------------------------------------------------------------------ the API turned on


def _old_value(config: ConfigMapFact) -> str | None:
    """Value of runtime-config that kubeadm-config gives to the API servers; None: it gives none."""
    for fact in config.component_flags.get("kube-apiserver", ()):
        if fact.name == "runtime-config":
            return fact.values[-1] if fact.values else ""
    return None


def _within(section: str) -> str:
    """Address for sed: the lines of one section of the ClusterConfiguration, as far as the next key of its level."""
    return f"/^    {section}:/,/^    [a-zA-Z]*:/"


def _config_edits(config: ConfigMapFact, entry: str, *, add: bool) -> list[str]:
    """Edits for sed that give the API servers one more entry of runtime-config in kubeadm-config, or take it away.

    kubeadm writes the configuration as a block of four spaces; extraArgs is a list since v1beta4 and a map before.
    """
    listed = not config.api_version.endswith(("v1beta1", "v1beta2", "v1beta3"))
    found = _sed(entry)
    if not add:
        # Alone, or behind what was there before.
        if listed:
            return [f"/^      - name: runtime-config$/{{N;/value: {found}$/d;s/,{found}$//;}}"]
        return [f"/^        runtime-config: {found}$/d", f"/^        runtime-config: /s/,{found}$//"]
    old = _old_value(config)
    if old:
        return [f"s/{_sed(old)}/{_sed(f'{old},{entry}')}/"]
    line = (
        f"      - name: runtime-config\\n        value: {entry}"
        if listed
        else f"        runtime-config: {entry}"
    )
    line = line.replace("/", "\\/")
    # Done again, it is there once.
    gone = (
        f"/^      - name: runtime-config$/{{N;/value: {found}$/d;}}"
        if listed
        else f"/^        runtime-config: {found}$/d"
    )
    if config.component_flags.get("kube-apiserver"):
        return [gone, f"{_within('apiServer')}s/^      extraArgs:$/&\\n{line}/"]
    return [f"s/^    apiServer:.*$/    apiServer:\\n      extraArgs:\\n{line}/"]


def _manifest_script(item: Component, entry: str, *, add: bool) -> str:
    """Options for sed that give one API server's manifest the entry, or take it away; done again they change nothing."""
    old = (item.runtime_config or ("",))[-1]
    flag, found = "--runtime-config=", _sed(entry)
    if not add:
        # kubeadm wrote the manifest anew meanwhile: alone, or behind what was there before.
        scripts = [f"/^    - {flag}{found}$/d", f"/^    - {flag}/s/,{found}$//"]
    elif old:
        scripts = [f"s/{_sed(f'{flag}{old}')}$/{_sed(f'{flag}{old},{entry}')}/"]
    else:
        # Done again, it is there once.
        scripts = [f"/^    - {flag}{found}$/d", f"s,^    - kube-apiserver$,&\\n    - {flag}{entry},"]
    return " ".join(f"-e {quoted(text)}" for text in scripts)


def _manifest_edit(scene: Scene, item: Component, entry: str, *, add: bool) -> list[Command]:
    """One API server's manifest: written beside, compared, put in place; the kubelet starts it anew, and that is waited for."""
    node = item.node or ""
    file = f"{scene.manifests}/kube-apiserver.yaml"
    script = _manifest_script(item, entry, add=add)
    return [
        *edited(scene, node, file, script, unedited(scene, add=add)),
        *started_anew(scene, item, entry, there=add),
    ]


def _kept_manifests(scene: Scene, hop: HopPlan | None) -> str:
    """The folder in which an earlier step keeps the manifests for the way back; empty where no step does."""
    if hop is None:
        return ""
    kept = f"{scene.backup}/manifests-before-{scene.fields(hop)['release']}"
    saved = scene.commands(scene.distribution.commands.get("backup", ()), hop)
    return kept if any(kept in item.text for item in saved) else ""


def _in_the_backup(
    scene: Scene, hop: HopPlan | None, edits: Sequence[str], scripts: Sequence[tuple[str, str, str]]
) -> list[Command]:
    """The same edits in what the backup keeps, so that a way back starts what runs today with what it needs.

    Args:
        scene: What the plan is made of.
        hop: The first one; None: nothing is kept.
        edits: For sed, of ConfigMap kubeadm-config.
        scripts: (node, file in the folder of manifests, options for sed).
    """
    commands: list[Command] = []
    config = scene.kubeadm
    saved = bool(scene.distribution.commands.get("objects")) and config in saved_config_maps(scene)
    if hop is not None and config is not None and edits and saved:
        file = config_map_file(config.name, scene.fields(hop)["release"])
        script = " ".join(f"-e {quoted(text)}" for text in dict.fromkeys(edits))
        beside = quoted(f"{file}.edited")
        commands.append(
            command(f"sed {script} {quoted(file)} > {beside} && mv {beside} {quoted(file)}", write=True)
        )
    folder = _kept_manifests(scene, hop)
    if folder:
        commands += gathered(
            [
                (
                    node,
                    [command(f"sudo sed -i {script} {quoted(f'{folder}/{file}')}", where=node, write=True)],
                )
                for node, file, script in scripts
            ]
        )
    return commands


def unedited(scene: Scene, *, add: bool) -> str:
    """Where each node keeps the manifest of kube-apiserver as it was before the API was turned on (``add``), or off."""
    return f"{scene.backup}/kube-apiserver-{'before' if add else 'with'}-runtime-config.yaml"


def _proof(scene: Scene, path: str) -> list[Command]:
    """Each API server's own answer."""
    urls = scene.apiserver_urls
    if not urls:
        return [command(f"kubectl get --raw {path}")]
    return [command(f"kubectl --server={quoted(url)} get --raw {path}") for url in urls.values()]


def _serve(scene: Scene, found: WatchedRules, hop: HopPlan | None, *, add: bool) -> list[Command]:
    """Edits of kubeadm-config and of each API server's manifest; with ``hop`` of what is kept for the way back too."""
    entry = f"{found.version}=true"
    commands: list[Command] = []
    config = scene.kubeadm
    edits: list[str] = []
    if config is not None and entry not in (_old_value(config) or "").split(","):
        edits = _config_edits(config, entry, add=add)
        commands += edit(config, edits)
    order = {node: at for at, node in enumerate(scene.control_nodes)}
    items = (
        sorted(found.lacking, key=lambda item: order.get(item.node or "", len(order)))
        if _editable(scene, found.lacking)
        else []
    )
    commands += _in_the_backup(
        scene,
        hop,
        edits,
        [(item.node or "", "kube-apiserver.yaml", _manifest_script(item, entry, add=add)) for item in items],
    )
    # Node by node: the next one waits for the instance of this one.
    for item in items:
        commands += _manifest_edit(scene, item, entry, add=add)
    return commands


def _gate_out(section: str, value: str) -> list[str]:
    """Edits for sed that take the gate out of one section's feature-gates; with nothing left the argument goes."""
    left = without_gates(value, [GATE])
    if left == value:
        return []
    if left:
        return [f"{_within(section)}s/{_sed(value)}/{_sed(left)}/"]
    return [
        f"{_within(section)}{{/- name: feature-gates$/{{N;/value: {_sed(value)}$/d;}}}}",
        f"{_within(section)}{{/^        feature-gates: {_sed(value)}$/d;}}",
    ]


def _without_gate(scene: Scene, found: WatchedRules, hop: HopPlan | None = None) -> list[Command]:
    """The gate taken out of kubeadm-config and of the manifests of the watchers; with ``hop`` of the backup too."""
    commands: list[Command] = []
    config = scene.kubeadm
    edits: list[str] = []
    if config is not None:
        edits = [
            made
            for section, name in (
                ("controllerManager", "kube-controller-manager"),
                ("scheduler", "kube-scheduler"),
            )
            if (source := config.component_gates.get(name)) is not None
            for value in source.flag_values
            for made in _gate_out(section, value)
        ]
        if edits:
            commands += edit(config, edits)
    scripts = (
        [
            (item, script)
            for name in dict.fromkeys(item.component for item in found.watchers)
            for item in found.watchers
            if item.component == name and (script := _gate_out_of_manifest(item))
        ]
        if _editable(scene, found.watchers)
        else []
    )
    commands += _in_the_backup(
        scene, hop, edits, [(item.node or "", f"{item.component}.yaml", script) for item, script in scripts]
    )
    for item, script in scripts:
        file = f"{scene.manifests}/{item.component}.yaml"
        commands += edited(scene, item.node or "", file, script)
        commands += started_anew(scene, item, GATE, there=False)
    return commands


def _gate_out_of_manifest(item: Component) -> str:
    """Options for sed; empty where the command line does not have the gate."""
    scripts = []
    for value in (value for source in item.gate_sources[:1] for value in source.flag_values):
        left = without_gates(value, [GATE])
        scripts.append(
            f"s/--feature-gates={_sed(value)}$/--feature-gates={_sed(left)}/"
            if left
            else f"/--feature-gates={_sed(value)}$/d"
        )
    return " ".join(f"-e {quoted(script)}" for script in scripts)


# ------------------------------------------------------------------------------------------------ the steps


def drift(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """The step that settles what differs between settings, configuration and processes; none where nothing does."""
    concerned = [item for item in findings if item.code.split("-")[1] == "DRIFT"]
    found = watched_rules(scene) if hop is not None else None
    if not concerned and found is None:
        return []
    commands = _compare(scene, concerned)
    notes = [item.message for item in concerned[:8]]
    if len(concerned) > 8:
        notes.append(tr("{n} more findings of this kind stand in the list.", n=len(concerned) - 8))
    kubeadm = scene.distribution.name == "kubeadm" and scene.kubeadm is not None
    if kubeadm and concerned:
        notes.append(
            tr(
                "kubeadm writes every manifest anew from kubeadm-config in {step}: what stands there wins, and what only a manifest or a process has goes. If that is not meant, edit kubeadm-config now, and what {backup} keeps of it: a way back puts that in place.",
                step="{{cp:first}}",
                backup="{{backup}}",
            )
        )
    go_on = (
        tr("Each difference is explained, and kubeadm-config says what is meant.")
        if kubeadm
        else tr("Each difference is explained, and the configuration says what is meant.")
    )
    stop = tr("Nobody can say which setting is right.")
    if found is not None:
        notes += _watch_notes(scene, found)
        if _editable(scene, found.lacking if found.serve else found.watchers):
            notes.append(
                tr(
                    "It restarts components of the control plane, one node after another, before the window: have it approved as a change of its own, or do it at the window's beginning, before {step}.",
                    step="{{etcd-snapshot}}",
                )
            )
        commands += _serve(scene, found, hop, add=True) if found.serve else _without_gate(scene, found, hop)
        if found.serve:
            commands += _proof(scene, f"/apis/{found.version}")
            go_on += " " + tr(
                "Every API server answers for {version} at its own address.", version=found.version
            )
            stop = (
                tr(
                    "An API server is not ready after five minutes: put its file back, {file}. Do not touch the next node.",
                    file=unedited(scene, add=True),
                )
                if _editable(scene, found.lacking)
                else tr(
                    "An API server is not ready after five minutes: put its file back. Do not touch the next node."
                )
            )
        else:
            go_on += " " + tr("Schedulers and controller-managers run again and hold their leases.")
    nodes = tuple(dict.fromkeys(item.node or "" for item in found.lacking)) if found is not None else ()
    return [
        StepDraft(
            key=DRIFT,
            phase="before",
            title=tr("Settle the drift, and serve {version} on every API server", version=found.version)
            if found is not None and found.serve and concerned
            else tr("Serve {version} on every API server", version=found.version)
            if found is not None and found.serve
            else tr("Take {gates} out of the components' own configuration", gates=GATE)
            if found is not None and not concerned
            else tr("Settle the drift between configuration, manifests and processes"),
            why=tr("After the change it would be taken for its effect, and the way back brings it again."),
            commands=commands,
            nodes=nodes,
            minutes=5 + (5 * len(nodes) if found is not None else 5),
            go_on=go_on,
            stop=stop,
            findings=[item.id for item in concerned],
            notes=notes,
        )
    ]


def _compare(scene: Scene, concerned: Sequence[Finding]) -> list[Command]:
    """What to look at: kubeadm's configuration, the manifests of each node, what each process says of itself."""
    if not concerned:
        return []
    commands: list[Command] = []
    if scene.kubeadm is not None:
        commands.append(
            command(
                "kubectl -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}'"
            )
        )
    if scene.manifests and scene.control_nodes:
        commands.append(
            command(
                f"sudo grep -nE -e '--(feature-gates|runtime-config|advertise-address)=' {quoted(scene.manifests)}/kube-*.yaml",
                where=in_turn(scene.control_nodes),
            )
        )
    if any(process.runtime_config is not None for process in scene.snapshot.processes):
        commands += _proof(scene, "/flagz")
    return commands


def _watch_notes(scene: Scene, found: WatchedRules) -> list[str]:
    today = minor_of(scene.today) or ""
    who = names(f"{item.component} {item.node}" for item in found.watchers)
    notes = [
        tr(
            "{who} have {gate} on and watch DeviceTaintRules in {version}, which the command line of kube-apiserver on {nodes} does not serve. A kube-scheduler of {today} that starts so takes no lease and binds no Pod: it waits for that list without end (cmd/kube-scheduler/app/server.go, WaitForCacheSync; run on 1.36.3). Today it happens at the next restart, and after a way back at once.",
            who=who,
            gate=GATE,
            version=found.version,
            nodes=names(item.node or "" for item in found.lacking),
            today=today,
        )
    ]
    if found.serve:
        notes.append(
            tr(
                "Decide: the commands turn the API on, in the backup too, so that a way back starts with it and the rules go on working; taken back in {step}. One node after another: the line after each waits until its own API server is ready, and the next node is not touched before. Or, if nobody needs the rules until then, take {gate} out instead: of scheduler and controllerManager in kubeadm-config, and of {files} on each node.",
                step="{{temporary}}",
                gate=GATE,
                files=f"{scene.manifests}/kube-scheduler.yaml, kube-controller-manager.yaml"
                if scene.manifests
                else tr("their configuration"),
            )
        )
        if not _editable(scene, found.lacking):
            notes.append(
                tr(
                    "Where the flags of kube-apiserver are set on this distribution: add --runtime-config there."
                )
            )
    else:
        notes.append(
            tr(
                "There is no DeviceTaintRule, so the gate does nothing today: the commands take it out of both. The other way is --runtime-config={version}=true on every API server and in kubeadm-config.",
                version=found.version,
            )
        )
    return notes


def served_again(scene: Scene) -> list[Command]:
    """Commands that take back what the step turned on, for when nobody goes back any more."""
    found = watched_rules(scene)
    if found is None or not found.serve:
        return []
    return [*_serve(scene, found, None, add=False), *_proof(scene, "/readyz")]


def served_back(scene: Scene) -> list[BackDraft]:
    """The way back of the step itself: it may stay on, and is taken back last."""
    found = watched_rules(scene)
    if found is None or not found.serve:
        return []
    return [
        BackDraft(
            key="back:served",
            what=tr("{version} on the API servers", version=found.version),
            to=tr("off, and {gate} off with it", gate=GATE),
            commands=[*_without_gate(scene, found), *served_again(scene)],
            verdict="reversible",
            why=tr(
                "Otherwise it stays on, with every other way back too: schedulers of {today} with {gate} schedule nothing without it. {again} takes it away when nobody goes back any more.",
                today=minor_of(scene.today) or "",
                gate=GATE,
                again="{{temporary}}",
            ),
            guard=tr(
                "Only when the change is called off for good before {step} starts, and nobody needs the rules: the first commands take {gate} out of what watches the API, the last ones the API itself.",
                step="{{cp:first}}",
                gate=GATE,
            ),
            minutes=5 + 5 * len(found.lacking),
            go_on=tr(
                "Schedulers and controller-managers run without the gate and hold their leases before the API goes; each API server answers ready before the next."
            ),
            stop=tr("A scheduler that watches it still runs: leave it on."),
            needs=[DRIFT],
        )
    ]
