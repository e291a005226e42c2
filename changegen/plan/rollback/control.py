"""Ways back of the control plane: add-ons, static Pods, configuration."""

from __future__ import annotations

from collections.abc import Sequence

from changegen.i18n import tr
from changegen.model.ticket import Command, Verdict
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.common import keys, named, unknown_version, writes
from changegen.plan.saved import config_map_file, saved_config_maps
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import (
    KUBECTL,
    gathered,
    placed,
)
from changegen.plan.steps.control import proof
from changegen.plan.verdicts import (
    min_compat_verdict,
)
from changegen.shell import quoted, until
from changegen.versions import minor_of

__all__ = ["addons", "config", "control_plane", "until_it_answers"]

API_WAIT = 600
"""Seconds that an API server gets to answer in the version of before."""


def addons(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """kube-proxy and CoreDNS with their images of before."""
    commands = []
    previous = []
    for item in scene.snapshot.workloads:
        if item.addon not in ("kube-proxy", "coredns"):
            continue
        place = f"-n {quoted(item.namespace)}"
        name = f"{item.kind.lower()}/{quoted(item.name)}"
        for container, image in sorted(item.images.items()):
            previous.append(f"{item.addon} {image}")
            commands.append(
                Command(
                    text=f"kubectl {place} set image {name} {quoted(f'{container}={image}')}",
                    where=KUBECTL,
                    runs="write",
                )
            )
        if item.images:
            commands.append(
                Command(text=f"kubectl {place} rollout status {name} --timeout=10m", where=KUBECTL)
            )
    if not commands:
        return _addons_unread(steps)
    control = keys(steps, "control-plane")
    managed = scene.snapshot.cluster.managed and writes(steps, "addons")
    return [
        BackDraft(
            key="back:addons",
            what=tr("kube-proxy and CoreDNS"),
            to="; ".join(previous),
            commands=commands,
            verdict="reversible",
            why=tr(
                "kube-proxy is never newer than an API server: before the API servers go back. Their ConfigMaps as saved, if they changed."
            ),
            minutes=5,
            go_on=tr("Both rollouts end, and every Pod of theirs is ready."),
            stop=tr("A rollout does not end within ten minutes: read the events of its Pods."),
            # kubeadm moves both in its last control-plane step, a provider only when it is asked to.
            needs=[
                *([] if managed else control[-1:]),
                *(["addons"] if writes(steps, "addons") else []),
            ],
        )
    ]


def _addons_unread(steps: Sequence[StepDraft]) -> list[BackDraft]:
    if not writes(steps, "addons"):
        return []
    return [
        BackDraft(
            key="back:addons",
            what=tr("kube-proxy and CoreDNS"),
            to=tr("not known: they were not read"),
            verdict="reversible",
            why=tr("Their images of before stand in what {step} saved.", step="{{objects}}"),
            minutes=5,
            needs=[*keys(steps, "control-plane")[-1:], "addons"],
        )
    ]


def _previous(scene: Scene) -> str:
    """Image and gates of each control-plane component as recorded, equal ones together."""
    texts = []
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        seen: dict[str, list[str]] = {}
        for item in scene.instances(name):
            gates = item.feature_gates
            shown = (
                ", ".join(f"{gate}={str(value).lower()}" for gate, value in sorted(gates.items()))
                or tr("no gate set")
                if isinstance(gates, dict)
                else tr("gates unobservable")
            )
            seen.setdefault(f"{item.image or item.version} ({shown})", []).append(item.node or "")
        for value, nodes in sorted(seen.items()):
            where = "" if len(seen) == 1 else f" {', '.join(nodes)}"
            texts.append(f"{name}{where}: {value}")
    return "; ".join(texts) or scene.today or tr("not known")


def until_it_answers(scene: Scene, node: str, version: str) -> list[Command]:
    """Waits until a node's own API server answers in a version and is ready, then shows that it is."""
    ready, told = proof(scene, node)
    if minor_of(version) is None:
        return [told, ready]
    asked = told.text.replace("kubectl ", "kubectl --request-timeout=5s ", 1)
    steady = ready.text.replace("kubectl ", "kubectl --request-timeout=5s ", 1).replace("?verbose", "")
    wait = until(f"{asked} | grep -F {quoted(version)} && {steady} > /dev/null", API_WAIT)
    return [Command(text=wait, where=told.where), ready]


def control_plane(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    """API server, controller-manager and scheduler, node by node or from the snapshot."""
    dist, hop, today = scene.distribution, hops[-1], hops[0].today
    commands: list[Command] = []
    templates = dist.rollback.get("control-plane", ())
    per_node = dist.control_plane == "one-by-one" and bool(scene.control_nodes)
    back = tuple(reversed(scene.control_nodes)) if per_node else scene.control_nodes[:1] or ("",)
    if dist.downgrade == "restore":
        commands += _restored_servers(scene, hops[0])
    elif dist.downgrade == "computed" and any(item.runs == "write" for item in templates):
        # A node at a time: the next one only when this one's own API server answers in the old version.
        for node in back:
            commands += scene.commands(dist.rollback.get("no-upgrade", ()), hops[0], node)
            commands += scene.commands(templates, hops[0], node)
            commands += until_it_answers(scene, node, today)
    lost = [
        tr(
            "Fields and objects that only the newer version knows: an older API server drops unknown fields when it writes the object."
        )
    ]
    verdict: Verdict = "reversible"
    why = tr(
        "Node by node, controller-manager and scheduler with or before their API server. The manifests bring back images and gates as they were."
    )
    until = ""
    if dist.downgrade == "computed" and not any(item.runs == "write" for item in templates):
        unknown = tr("How is not known for this distribution: as its owner does it.")
        unsaved = tr("No step here saves its files: keep them before the change.")
        why = f"{unknown} {unsaved} {why}"
    moved = [node for node in scene.control_nodes if scene.state_of(node) != "todo"]
    if per_node and moved and dist.name == "kubeadm":
        why += " " + tr(
            "{nodes}: what {step} saves there are the new manifests already; put back those that kubeadm kept in /etc/kubernetes/tmp/kubeadm-backup-manifests-*.",
            nodes=", ".join(moved),
            step="{{backup}}",
        )
    compat = min_compat_verdict(scene, hop)
    if dist.downgrade == "one-way":
        verdict = "one-way"
        why = tr(
            "{distribution} has no way back for the control plane that this tool knows of.",
            distribution=dist.title or scene.snapshot.cluster.distribution,
        )
        if dist.name == "eks":
            why += " " + tr("Ask the provider whether a rollback window is offered for this version.")
        lost = []
    elif dist.downgrade == "restore":
        verdict = "reversible-until"
        until = tr("the first server runs the new release")
        why = tr(
            "The data store and the Kubernetes version go back together: the older release starts from the snapshot taken before."
        )
        if any("$SNAPSHOT" in item.text for item in commands):
            why += " " + tr(
                "SNAPSHOT is the file that the snapshot step listed. All servers stop first; one restores, the others join it with an empty data store."
            )
        lost = [tr("Everything written after the snapshot.")]
    if compat is not None:
        verdict, why, until = compat.verdict, compat.why, ""
        commands = []
    if len(hops) > 1 and verdict != "one-way":
        why += " " + (
            tr("Over several minors, one minor at a time, each as its own step back.")
            if dist.name == "generic"
            else tr(
                "Over several minors, one minor at a time, each as its own step back: kubeadm goes back one minor at most."
            )
        )
        if verdict == "reversible":
            verdict = "reversible-until"
            until = tr("the second hop, {label}, starts", label=hops[1].label)
    one_way = verdict == "one-way"
    if not today and not one_way:
        why += " " + unknown_version()
    return [
        BackDraft(
            key="back:control-plane",
            what=tr("kube-apiserver, kube-controller-manager and kube-scheduler"),
            to=_previous(scene),
            commands=commands,
            verdict=verdict,
            until=until,
            why=why,
            lost=" ".join(lost),
            minutes=None
            if one_way
            else scene.profile.minutes.control_plane_node * max(1, len(scene.control_nodes)),
            nodes=tuple(node for node in back if node) if per_node else scene.control_nodes,
            guard=tr(
                "No kubeadm upgrade may still run on the node, since it would put its own manifests in place again: the first command of a node shows one, the second ends it."
            )
            if any("pgrep" in item.text for item in commands)
            else "",
            go_on=""
            if one_way
            else tr(
                "The API server of the node itself answers ready and {version}; only then the next node.",
                version=today or tr("in the old version"),
            )
            if per_node and dist.downgrade == "computed"
            else tr("The API server answers ready and {version}.", version=today or tr("in the old version")),
            stop=""
            if one_way
            else tr("It does not answer after ten minutes: read its log on the node; do not touch the next."),
            needs=[
                *named(steps, "gates:files"),
                *keys(steps, "control-plane"),
                *named(steps, "temporary"),
                *(keys(steps, "nodes") if dist.nodes == "by-control-plane" else []),
            ],
        )
    ]


def _restored_servers(scene: Scene, hop: HopPlan) -> list[Command]:
    """All servers stop, the first restores the data store with the older release, the others join it."""
    parts = scene.distribution.rollback
    nodes = scene.control_nodes
    if not hop.today:
        return []
    if not nodes:
        each = scene.commands(parts.get("control-plane", ()), hop, "", {"node": '"$NODE"'})
        return placed(each, tr("the first server"))
    commands: list[Command] = []
    commands += gathered(
        [(node, scene.commands(parts.get("control-plane-stop", ()), hop, node)) for node in nodes]
    )
    commands += scene.commands(parts.get("control-plane", ()), hop, nodes[0])
    join = parts.get("control-plane-join", parts.get("control-plane", ()))
    return commands + gathered([(node, scene.commands(join, hop, node)) for node in nodes[1:]])


def config(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """The ConfigMaps that kubeadm starts from, from their saved files."""
    found = saved_config_maps(scene)
    if not found:
        return []
    release = scene.fields(hop)["release"]
    texts = []
    for item in found:
        gates = {
            component: ", ".join(source.flag_values)
            or ", ".join(f"{k}={str(v).lower()}" for k, v in sorted(source.gates.items()))
            for component, source in sorted(item.component_gates.items())
            if source.gates
        }
        inside = "; ".join(f"{component} {value}" for component, value in gates.items())
        version = f"kubernetesVersion {item.kubernetes_version}" if item.kubernetes_version else ""
        texts.append(f"{item.name}: " + (", ".join(filter(None, (version, inside))) or tr("as saved")))
    strip = r"sed -e '/^ \{2\}resourceVersion:/d' -e '/^ \{2\}uid:/d' -e '/^ \{2\}creationTimestamp:/d'"
    where = tr("the machine with the saved files")
    control = keys(steps, "control-plane")
    written = control[:1] + control[-1:] if scene.distribution.name == "kubeadm" else []
    kubeadm = next((item for item in found if item.kind == "kubeadm"), found[0])
    return [
        BackDraft(
            key="back:config",
            what=tr("ConfigMap {name}", name=kubeadm.name)
            if len(found) == 1
            else tr(
                "ConfigMap {name}, and the others that were saved: {others}",
                name=kubeadm.name,
                others=", ".join(item.name for item in found if item is not kubeadm),
            ),
            to=" | ".join(texts),
            commands=[
                Command(
                    text=f"{strip} {quoted(config_map_file(item.name, release))} | kubectl replace -f -",
                    where=where,
                    runs="write",
                )
                for item in found
            ],
            verdict="reversible",
            why=tr(
                "After the manifests are back: kubeadm's next run starts from it. A gate that the target refuses comes back with it."
            ),
            minutes=5,
            go_on=tr('Each line answers "replaced".'),
            stop=tr("A line answers anything else: look at the file before it is sent again."),
            needs=[
                *named(steps, "config:", "tidy:"),
                *written,
                *(["addons"] if writes(steps, "addons") and written else []),
            ],
        )
    ]
