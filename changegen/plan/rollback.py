"""The way back: what each changed thing was, how it comes back, in which order, and whether it can.

Order: what came last goes first. DRA drivers before the cluster, then kubelets, then add-ons, controller-manager and
scheduler with their API server node by node, configuration, and etcd last. Each step back names the steps of the plan
that make it necessary (``needs``), what must be true before it (``guard``), and what must be seen after it (``go_on``).
Which of them are to be done where the change stopped is `changegen.plan.forks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from changegen.assess.context import names as listed_names
from changegen.facts import command as fact_command
from changegen.i18n import tr
from changegen.model.snapshot import PodUse
from changegen.model.ticket import Command, Verdict
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.saved import config_map_file, pod_file, saved_config_maps
from changegen.plan.scene import Drain, HopPlan, Member, Scene
from changegen.plan.steps.after import planned_migrations, planned_taints
from changegen.plan.steps.common import (
    KUBECTL,
    MOST_NAMED,
    driver_target,
    gathered,
    in_turn,
    met,
    placed,
)
from changegen.plan.steps.common import names as in_order
from changegen.plan.steps.control import proof
from changegen.plan.steps.drift import DRIFT, served_back
from changegen.plan.steps.owners import restore_command
from changegen.plan.verdicts import (
    driver_verdict,
    etcd_verdict,
    extended_verdict,
    min_compat_verdict,
    rules_api,
    rules_verdict,
)
from changegen.shell import quoted
from changegen.versions import minor_key, minor_of
from changegen.words import spans

__all__ = ["make_rollback"]


def make_rollback(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """All ways back, in the order in which they are gone; ``steps`` are those of the plan, whose keys they name."""
    backs: list[BackDraft] = []
    hops = scene.hops
    backs += _migrations(scene)
    backs += _taints(scene, steps)
    backs += _drivers(scene)
    if hops:
        hop = hops[-1]
        backs += _kubelets(scene, hop, steps)
        backs += _addons(scene, steps)
        backs += _new_stored(scene, hop, steps)
        backs += _control_plane(scene, hops, steps)
        backs += _config(scene, hop, steps)
        backs += _etcd(scene, hops, steps)
        backs += _rules(scene, hop, steps)
        backs += _extended(scene, hop, steps)
        backs += _packages(scene, hops[0], steps)
        backs += _stored(scene, steps)
        backs += _owners(scene, steps)
        backs += served_back(scene)
        backs += _restore(scene, hops, steps)
    for back in backs:
        _honest(back)
    return backs


def _honest(back: BackDraft) -> None:
    """What cannot go back has no minutes, and no commands that only look."""
    if not any(item.runs == "write" for item in back.commands) and back.verdict == "one-way":
        back.commands, back.minutes = [], None


def _keys(steps: Iterable[StepDraft], phase: str) -> list[str]:
    return [step.key for step in steps if step.phase == phase]


def _named(steps: Iterable[StepDraft], *beginnings: str) -> list[str]:
    return [key for step in steps for key in (step.key, *step.also) if key.startswith(beginnings)]


def _writes(steps: Iterable[StepDraft], key: str) -> bool:
    return any(
        key in (step.key, *step.also) and any(c.runs == "write" for c in step.commands) for step in steps
    )


# ------------------------------------------------------------------------------------------- devices and drivers


def _migrations(scene: Scene) -> list[BackDraft]:
    backs = []
    for moved in planned_migrations(scene):
        nodes = [node for part in moved.steps for node in part.nodes]
        if not nodes:
            continue
        commands = [
            msgspec.structs.replace(part_command, where=KUBECTL)
            for part in reversed(moved.steps)
            for part_command in part.back_commands
        ]
        backs.append(
            BackDraft(
                key=f"back:migrate:{moved.resource}",
                what=tr("{resource} served by DRA", resource=moved.resource),
                to=tr("its device plugin on {nodes}", nodes=listed_names(nodes)),
                commands=commands,
                verdict="reversible",
                why=tr(
                    "Node by node: drain, bring the device plugin back, wait until the allocatable is above 0, uncordon. The scheduler takes a device plugin wherever a node has one."
                ),
                lost=tr("Running Pods on these nodes are made again once more."),
                minutes=scene.profile.minutes.node * len(nodes),
                nodes=tuple(reversed(nodes)),
                go_on=tr("The allocatable of the node shows the resource above 0 before it is uncordoned."),
                stop=tr("It stays at 0: the device plugin does not run there. Leave the node cordoned."),
                needs=[f"migrate:{moved.resource}:{n}" for n, _ in enumerate(moved.steps, start=1)],
            )
        )
    return backs


def _taints(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    return [
        BackDraft(
            key=f"back:taint:{rule.name}",
            what=tr("Device taint {key}", key=rule.key),
            to=tr("no rule"),
            commands=[
                Command(
                    text=f"kubectl delete devicetaintrules.resource.k8s.io {quoted(rule.name)}",
                    where=KUBECTL,
                    runs="write",
                )
            ],
            verdict="reversible-until",
            until=tr("effect NoExecute is set"),
            why=tr(
                "The devices are free to take again at once; Pods that were evicted do not come back by themselves, but their controllers make new ones."
            ),
            lost=tr("Evicted Pods, and those without a controller for good."),
            minutes=2,
            go_on=tr("The rule is deleted, and Pods that waited for these devices are placed."),
            stop=tr("Pods still wait: read their events."),
            needs=_named(steps, f"taint:{rule.name}:"),
        )
        for rule in planned_taints(scene)
    ]


def _drivers(scene: Scene) -> list[BackDraft]:
    backs = []
    for driver in scene.snapshot.drivers:
        version, _, container = driver_target(scene, driver)
        if not version:
            continue
        judged = driver_verdict(driver.driver, driver.version, version)
        commands: list[Command] = []
        workload = driver.workload
        if workload is not None and driver.image and container:
            kind = workload.kind.lower()
            where = f"-n {quoted(workload.namespace)}"
            commands = [
                Command(
                    text=f"kubectl {where} set image {kind}/{quoted(workload.name)} {quoted(f'{container}={driver.image}')}",
                    where=KUBECTL,
                    runs="write",
                ),
                Command(
                    text=f"kubectl {where} rollout status {kind}/{quoted(workload.name)} --timeout=10m",
                    where=KUBECTL,
                ),
            ]
        one_way = judged.verdict == "one-way"
        backs.append(
            BackDraft(
                key=f"back:driver:{driver.driver}",
                what=tr("DRA driver {driver}", driver=driver.driver),
                to=driver.image or driver.version,
                commands=[] if one_way else commands,
                verdict=judged.verdict,
                until=judged.until,
                why=judged.why
                + (
                    ""
                    if one_way
                    else " "
                    + tr("Before the cluster: an older cluster may not serve what the newer driver asks for.")
                ),
                lost=tr("Pools are published again in a new generation; claims that are prepared stay."),
                minutes=None if one_way else scene.profile.minutes.driver,
                nodes=driver.nodes,
                go_on=tr(
                    "The rollout ends, and the pools are complete with the devices of before; give it two minutes."
                ),
                stop=tr("A Pod of the driver does not become ready, or devices are missing."),
                needs=[f"driver:{driver.driver}"],
            )
        )
    return backs


# ------------------------------------------------------------------------------------------------------- kubelets


def _kubelets(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    dist = scene.distribution
    pending = {
        name
        for name in scene.pending_nodes
        if not (dist.kubelet_with_control_plane and name in scene.control_nodes)
    }
    if not pending or dist.nodes == "by-control-plane":
        return []
    needs = _keys(steps, "nodes")
    planned = [name for step in steps if step.phase == "nodes" for name in step.nodes if name in pending]
    # Last first; a node that no step names (it is moved with its group) keeps its place at the end.
    nodes = tuple(dict.fromkeys([*reversed(planned), *(n for n in scene.pending_nodes if n in pending)]))
    versions: dict[str, list[str]] = {}
    for name in nodes:
        versions.setdefault(scene.nodes[name].kubelet_version, []).append(name)
    previous = "; ".join(f"{version}: {len(names)}" for version, names in sorted(versions.items()))
    drains = [scene.drain_of(name) for name in nodes]
    bare = met(drains, lambda drain: drain.bare)
    each = dist.nodes == "drain-each"
    commands = (
        _drained_back(scene, hop, nodes, drains, versions)
        if each
        else _groups_back(scene, hop, nodes, versions)
    )
    pools = dist.nodes in ("pool", "pool-all")
    one_way = dist.downgrade == "one-way" and not commands and dist.pool_back == ""
    parallel = max(1, scene.profile.minutes.node_parallel)
    return [
        BackDraft(
            key="back:kubelet",
            what=tr("kubelet of {node}", node=nodes[0])
            if len(nodes) == 1
            else tr("kubelets of {n} nodes", n=len(nodes)),
            to=previous,
            commands=commands,
            verdict="one-way" if one_way else "reversible",
            why=_kubelets_why(
                scene, nodes, drains, bare, pools=pools, tightened=bool(_named(steps, "temporary"))
            ),
            lost=tr(
                "What a drain deletes: Pods without a controller and emptyDir data. A starting kubelet deletes its ResourceSlices until the drivers are back."
            ),
            minutes=-(-scene.profile.minutes.node * len(nodes) // parallel),
            nodes=nodes,
            go_on=_kubelets_go_on(drains, versions),
            stop=tr(
                "A drain hangs, a node is not Ready ten minutes after its kubelet's start, or devices do not come back: leave it cordoned, and do not go to the next."
            ),
            needs=needs,
        )
    ]


def _kubelets_why(
    scene: Scene,
    nodes: Sequence[str],
    drains: Sequence[Drain],
    bare: Sequence[str],
    *,
    pools: bool,
    tightened: bool,
) -> str:
    dist = scene.distribution
    if pools:
        return (
            tr("The provider takes a node group back to an older version that it still offers.")
            if dist.pool_back == "same"
            else tr(
                "A node group does not go back by itself: a new one with the older version is made beside it, and the workloads move."
            )
        )
    parts = [
        tr(
            "Drained, one node at a time; before any API server goes back, since a kubelet is never newer than one."
        )
    ]
    if len(nodes) > 1:
        parts.append(
            tr(
                "Only nodes whose step has run, in this order; all blocks with one node, then all with the next, NODE set to each in turn: {nodes}.",
                nodes=spans(nodes),
            )
        )
    if bare:
        parts.append(
            tr(
                "--force deletes {pods} for good; {step} makes new ones. A drain that names another Pod without a controller stops: save that one first.",
                pods=listed_names(bare),
                step="{{back:bare}}",
            )
        )
    if any(drain.budgets for drain in drains):
        parts.append(
            tr(
                "PodDisruptionBudgets that were relaxed stay so until the last drain; {step} comes after it.",
                step="{{back:budgets}}",
            )
        )
        if tightened:
            parts.append(
                tr(
                    "Where {again} has put them back already, relax them as in {people} first: a drain hangs otherwise.",
                    again="{{temporary}}",
                    people="{{people}}",
                )
            )
    return " ".join(parts)


def _kubelets_go_on(drains: Sequence[Drain], versions: dict[str, list[str]]) -> str:
    drivers = met(drains, lambda drain: drain.drivers)
    version = ", ".join(sorted(versions))
    text = (
        tr("The node is Ready on {version} and schedulable", version=version)
        if len(versions) == 1
        else tr("The node is Ready on its version of before ({version}) and schedulable", version=version)
    )
    if drivers:
        text += "; " + tr(
            "it publishes its devices again ({published}; give it two minutes)", published=", ".join(drivers)
        )
    return text + "."


def _drain_flags(drains: Sequence[Drain]) -> tuple[str, str]:
    """(flags of the drain, shell text before it that sets MORE to those of one node only)."""
    shared = [flag for flag in drains[0].flags if all(flag in drain.flags for drain in drains)]
    more: dict[str, list[str]] = {}
    for drain in drains:
        own = " ".join(flag for flag in drain.flags if flag not in shared)
        if own:
            more.setdefault(own, []).append(quoted(drain.node))
    if not more:
        return " ".join(shared), ""
    cases = " ".join(f"{'|'.join(names)}) MORE='{own}' ;;" for own, names in sorted(more.items()))
    return " ".join([*shared, "$MORE"]), f'case "$NODE" in {cases} *) MORE= ;; esac; '


def _drained_back(
    scene: Scene,
    hop: HopPlan,
    nodes: tuple[str, ...],
    drains: Sequence[Drain],
    versions: dict[str, list[str]],
) -> list[Command]:
    dist = scene.distribution
    templates = dist.rollback.get("kubelet", ())
    if not templates:
        return []
    single = len(nodes) == 1
    place = in_turn(nodes)
    flags, before = _drain_flags(drains)
    most = max(versions, key=lambda version: (len(versions[version]), version))
    node = {} if single else {"node": '"$NODE"', "ip": '"$NODE"'}
    fields = node | {"drain_flags": flags} | scene.going_back(most)

    def on_nodes(made: Iterable[Command], where: str = "") -> list[Command]:
        own = ("", nodes[0], '"$NODE"')
        return [
            Command(text=c.text, where=(where or place) if c.where in own else c.where, runs=c.runs)
            for c in made
        ]

    commands = [
        Command(text=before + c.text, where=c.where, runs=c.runs) if "kubectl drain" in c.text else c
        for c in on_nodes(scene.commands(templates, hop, nodes[0] if single else "", fields))
    ]
    if dist.packages:
        families = dist.packages.get("kubelet-back", {})
        install: list[Command] = []
        for version, names in sorted(versions.items()):
            for family, members in _by_family(scene, names).items():
                everyone = len(members) == len(nodes)
                install += on_nodes(
                    scene.commands(
                        families.get(family, families.get("other", ())),
                        hop,
                        nodes[0] if single else "",
                        node | scene.going_back(version),
                    ),
                    "" if everyone else tr("{nodes}, one after another", nodes=", ".join(members)),
                )
        commands[1:1] = install
    after = [item for item in dist.commands.get("back-to-work", ()) if item.runs == "read"]
    if not any(drain.drivers for drain in drains):
        after = [item for item in after if "resourceslices" not in item.text]
    commands += scene.commands(after, hop, nodes[0] if single else "", node)
    at = next((at for at, c in enumerate(commands) if '"$NODE"' in c.text), None)
    if at is not None and not single:
        commands.insert(at, Command(text=f"NODE={quoted(nodes[0])}", where=commands[at].where))
    return commands


def _by_family(scene: Scene, nodes: Sequence[str]) -> dict[str, list[str]]:
    """Nodes by the family of their operating system, in their order."""
    found: dict[str, list[str]] = {}
    for name in nodes:
        found.setdefault(scene.family(name), []).append(name)
    return found


def _groups_back(
    scene: Scene, hop: HopPlan, nodes: Sequence[str], versions: dict[str, list[str]]
) -> list[Command]:
    """Commands of the provider that take a node group back; what only looks is no way back."""
    dist = scene.distribution
    templates = dist.rollback.get("pool", ())
    if not any(item.runs == "write" for item in templates):
        return []
    most = max(versions, key=lambda version: (len(versions[version]), version))
    groups = sorted({scene.group_of(name) for name in nodes} - {""}) if dist.nodes == "pool" else [""]
    commands: list[Command] = []
    for group in groups or [""]:
        made = scene.commands(templates, hop, "", {"group": quoted(group)} | scene.going_back(most))
        commands += placed(made, tr("the node"))
    return commands


# -------------------------------------------------------------------------------------------------------- add-ons


def _addons(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
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
    control = _keys(steps, "control-plane")
    managed = scene.snapshot.cluster.managed and _writes(steps, "addons")
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
                *(["addons"] if _writes(steps, "addons") else []),
            ],
        )
    ]


def _addons_unread(steps: Sequence[StepDraft]) -> list[BackDraft]:
    if not _writes(steps, "addons"):
        return []
    return [
        BackDraft(
            key="back:addons",
            what=tr("kube-proxy and CoreDNS"),
            to=tr("not known: they were not read"),
            verdict="reversible",
            why=tr("Their images of before stand in what {step} saved.", step="{{objects}}"),
            minutes=5,
            needs=[*_keys(steps, "control-plane")[-1:], "addons"],
        )
    ]


# -------------------------------------------------------------------------------------------------- control plane


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
    return "; ".join(texts) or scene.today


def _until_it_answers(scene: Scene, node: str, version: str) -> list[Command]:
    """Waits until a node's own API server answers in a version, then asks whether it is ready."""
    ready, told = proof(scene, node)
    if minor_of(version) is None:
        return [told, ready]
    wait = f"until {told.text} | grep -F {quoted(version)}; do sleep 5; done"
    return [Command(text=wait, where=told.where), ready]


def _control_plane(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
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
            commands += scene.commands(templates, hops[0], node)
            commands += _until_it_answers(scene, node, today)
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
        why += " " + tr(
            "Over several minors, one minor at a time, each as its own step back: kubeadm goes back one minor at most."
        )
        if verdict == "reversible":
            verdict = "reversible-until"
            until = tr("the second hop, {label}, starts", label=hops[1].label)
    one_way = verdict == "one-way"
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
            go_on=""
            if one_way
            else tr(
                "The API server of the node itself answers ready and {version}; only then the next node.",
                version=today,
            )
            if per_node and dist.downgrade == "computed"
            else tr("The API server answers ready and {version}.", version=today),
            stop=""
            if one_way
            else tr("It does not answer after ten minutes: read its log on the node; do not touch the next."),
            needs=[
                *_named(steps, "gates:files"),
                *_keys(steps, "control-plane"),
                *_named(steps, "temporary"),
                *(_keys(steps, "nodes") if dist.nodes == "by-control-plane" else []),
            ],
        )
    ]


def _restored_servers(scene: Scene, hop: HopPlan) -> list[Command]:
    """All servers stop, the first restores the data store with the older release, the others join it."""
    parts = scene.distribution.rollback
    nodes = scene.control_nodes
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


def _config(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
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
    strip = "sed -e '/^  resourceVersion:/d' -e '/^  uid:/d' -e '/^  creationTimestamp:/d'"
    where = tr("the machine with the saved files")
    control = _keys(steps, "control-plane")
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
                *_named(steps, "config:", "tidy:"),
                *written,
                *(["addons"] if _writes(steps, "addons") and written else []),
            ],
        )
    ]


# ----------------------------------------------------------------------------------------------------------- etcd


def _etcd(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    dist = scene.distribution
    if dist.downgrade == "one-way" and dist.etcd != "kubeadm":
        return []
    if not scene.members and dist.etcd != "os":
        return _unseen_etcd(scene)
    target = next((hop.etcd for hop in reversed(hops) if hop.etcd), "")
    if dist.etcd == "os":
        return [
            BackDraft(
                key="back:etcd",
                what="etcd",
                to=", ".join(sorted({member.version for member in scene.members})) or tr("unchanged"),
                verdict="reversible",
                why=tr("It comes with the operating system: this change does not touch it."),
                minutes=0,
            )
        ]
    if not target:
        return _unseen_etcd(scene)
    base = scene.data.base_versions(scene.today) if scene.data.knows(scene.today) else None
    judged = etcd_verdict(scene.members, target, base.etcd if base is not None else "")
    minor = minor_of(target) or ""
    behind = [member for member in scene.members if minor_of(member.version) != minor]
    if base is not None and judged.verdict == "one-way":
        version = base.etcd
    else:
        version = (behind or scene.members)[-1].version
    older = minor_of(version) or ""
    back = tuple(
        member
        for member in reversed(scene.members)
        if minor_of(member.version) != minor or judged.verdict == "reversible"
    )
    first = scene.members[0].node
    templates = dist.rollback.get("etcd", ())
    mixed = judged.verdict == "reversible-until"
    guard = scene.commands(
        dist.rollback.get("etcd-guard", ()), hops[0], first, _etcd_fields(scene, older, scene.members[0])
    )
    commands = [
        *(guard if mixed and templates else ()),
        *_members_back(scene, hops[0], back, older),
    ]
    touched = {member.node for member in scene.members}
    control = [step.key for step in steps if step.phase == "control-plane" and touched & set(step.nodes)]
    moves = any(member.version.removeprefix("v") != target.removeprefix("v") for member in scene.members)
    has_downgrade = judged.verdict != "reversible" and bool(dist.rollback.get("etcd-downgrade"))
    drafts = [
        BackDraft(
            key="back:etcd",
            what=tr("etcd, member by member"),
            to=", ".join(f"{member.node} {member.version}" for member in scene.members),
            commands=commands if judged.verdict != "one-way" else [],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=tr(
                "Nothing, before the point; the API server of the older minor also works with the newer etcd, so that etcd may stay where it is."
            )
            if mixed
            else "",
            minutes=5 * len(back) if judged.verdict != "one-way" else None,
            nodes=tuple(member.node for member in back),
            guard=_etcd_guard(older, minor, downgrade=has_downgrade) if mixed else "",
            go_on=tr("The member is healthy on {version}; only then the next.", version=version)
            if commands and judged.verdict != "one-way"
            else "",
            stop=tr("It exits, or is not healthy after five minutes: put the newer manifest back there.")
            if commands and judged.verdict != "one-way"
            else "",
            needs=control if moves else [],
        )
    ]
    if has_downgrade:
        down = list(
            scene.commands(
                dist.rollback["etcd-downgrade"],
                hops[0],
                first,
                _etcd_fields(scene, older, scene.members[0]),
            )
        )
        down += _members_back(scene, hops[0], tuple(reversed(scene.members)), older, version)
        drafts.append(
            BackDraft(
                key="back:etcd-downgrade",
                what=tr("etcd, after the last member runs the new minor"),
                to=older,
                commands=down,
                verdict="reversible",
                why=tr(
                    "The rolling downgrade that etcd supports, one minor at a time: enable it once, wait until every member reports storage version {older}, then member by member.",
                    older=older,
                ),
                lost=tr(
                    "Nothing, if every member is healthy; it needs time while the cluster is in trouble already."
                ),
                minutes=30,
                nodes=tuple(member.node for member in reversed(scene.members)),
                guard=tr(
                    "Only when `endpoint status` shows every member on {minor}, and every member is healthy. A member on {older}: stop, {other} is the way.",
                    minor=minor,
                    older=older,
                    other="{{back:etcd}}",
                )
                if mixed
                else tr("Only when every member is healthy."),
                go_on=tr(
                    "Every member reports storage version {older}.0 before the first manifest is copied; then each member is healthy on {version} before the next.",
                    older=older,
                    version=version,
                ),
                stop=tr(
                    "downgrade validate refuses, or the storage version does not go down within ten minutes: `etcdctl downgrade cancel`, and leave etcd on {minor}.",
                    minor=minor,
                ),
                needs=[step.key for step in steps if step.no_return and step.phase == "control-plane"]
                or control[-1:],
            )
        )
    return drafts


def _etcd_guard(older: str, minor: str, *, downgrade: bool) -> str:
    if downgrade:
        return tr(
            "Only while `endpoint status` shows at least one member on {older}: the first command prints each of them. If it prints nothing, stop: a member of {older} would exit on the data of {minor}, and the quorum with it. {other} is the way then.",
            older=older,
            minor=minor,
            other="{{back:etcd-downgrade}}",
        )
    return tr(
        "Only while `endpoint status` shows at least one member on {older}: a member of {older} would exit on the data of {minor}, and the quorum with it.",
        older=older,
        minor=minor,
    )


def _etcd_fields(scene: Scene, older: str, member: Member, version: str = "") -> dict[str, str]:
    return {
        "etcd_old_minor": older,
        "etcd_old_minor_pattern": older.replace(".", "[.]"),
        "etcd_old_version": (version or member.version).removeprefix("v").split("-", 1)[0],
        "etcd_members": str(len(scene.members)),
    }


def _members_back(
    scene: Scene, hop: HopPlan, members: Sequence[Member], older: str, version: str = ""
) -> list[Command]:
    templates = scene.distribution.rollback.get("etcd", ())
    return gathered(
        [
            (
                member.node,
                scene.commands(templates, hop, member.node, _etcd_fields(scene, older, member, version)),
            )
            for member in members
        ]
    )


def _unseen_etcd(scene: Scene) -> list[BackDraft]:
    dist = scene.distribution
    if dist.etcd == "hidden" or scene.snapshot.cluster.managed:
        return []
    why = tr(
        "No member was seen, or its version after the change is not known: what comes with the release must be looked up."
    )
    if scene.external_etcd:
        why = tr("etcd is external: this change does not touch it.")
    if scene.external_etcd:
        return [
            BackDraft(
                key="back:etcd", what="etcd", to=tr("unchanged"), verdict="reversible", why=why, minutes=0
            )
        ]
    if dist.downgrade == "restore":
        return []
    return [
        BackDraft(
            key="back:etcd",
            what="etcd",
            to=", ".join(sorted({m.version for m in scene.members})) or tr("not known"),
            verdict="reversible-until",
            until=tr("the first member runs a newer minor, as far as nobody shows otherwise"),
            why=why,
            minutes=30,
        )
    ]


# ------------------------------------------------------------------------------------------ objects that are stored


def _rules(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    judged = rules_verdict(scene, hop)
    if judged is None:
        return []
    rules = scene.snapshot.taint_rules
    older = minor_of(hop.today) or ""
    by_default = minor_key(older or "1.0") >= (1, 37)
    gate, api = ("", "resource.k8s.io/v1") if by_default else rules_api(older or "1.36")
    names = ", ".join(rule.name for rule in rules)
    return [
        BackDraft(
            key="back:rules",
            what=tr("DeviceTaintRules"),
            to="; ".join(f"{rule.name}: {rule.key}={rule.value}:{rule.effect}" for rule in rules),
            commands=[
                Command(
                    text=f"kubectl get --raw /apis/{api}/devicetaintrules",
                    where=KUBECTL,
                )
            ],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost + _served_before(judged.lost, steps),
            minutes=2,
            go_on=tr("It lists {names}, with the effects of before.", names=names),
            stop=tr("One is missing: create it from the saved file.")
            if by_default
            else tr(
                "NotFound: {older} does not serve them. They are kept, and taint nothing until kube-apiserver has --runtime-config={api}=true and the gate {gate} is on.",
                older=older,
                api=api,
                gate=gate,
            ),
            needs=_keys(steps, "control-plane"),
        )
    ]


def _served_before(lost: str, steps: Sequence[StepDraft]) -> str:
    """That a step turns the API on before the manifests are saved, where one does."""
    if (
        not lost
        or not _named(steps, DRIFT)
        or not any("runtime-config" in c.text for s in steps for c in s.commands)
    ):
        return ""
    return " " + tr(
        "{step} turns the API on before the manifests are saved, so that they have it.", step="{{drift}}"
    )


def _extended(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    judged = extended_verdict(scene, hop)
    if judged is None:
        return []
    mapped = sum(1 for pod in scene.snapshot.pods if pod.extended_mappings)
    return [
        BackDraft(
            key="back:extended",
            what=tr("Pods that get devices by an extended resource"),
            to=tr("{n} such Pods", n=mapped),
            commands=[Command(text=fact_command("pods.mapped", {}), where=KUBECTL)],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost,
            minutes=2,
            go_on=tr(
                "As many Pods as before the change name their resource in the last column: {n}.", n=mapped
            ),
            stop=tr(
                "A Pod that should have a device waits: read its events, and whether the gate DRAExtendedResource is on."
            ),
            needs=_keys(steps, "control-plane"),
        )
    ]


def _stored(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Objects that a step deleted because the target cannot decode them."""
    gone = [item for item in scene.snapshot.stored_objects if item.names]
    needs = _named(steps, "stored:")
    if not gone or not needs:
        return []
    return [
        BackDraft(
            key="back:stored",
            what=tr("Objects that were deleted because the target cannot decode them"),
            to="; ".join(f"{item.group_version} {item.resource}: {len(item.names)}" for item in gone),
            commands=[
                Command(
                    text=f"kubectl create -f {quoted(item.resource + '-before.yaml')}",
                    where=tr("the machine with the saved files"),
                    runs="write",
                )
                for item in gone
            ],
            verdict="reversible",
            why=tr("From the saved files, on the older version only."),
            minutes=5,
            go_on=tr('Each line answers "created".'),
            stop=tr("A line answers anything else: the API server does not serve that version."),
            needs=needs,
        )
    ]


def _new_stored(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """What the target stores and the older minor cannot decode: scheduling.k8s.io of 1.37 for 1.36."""
    older, newer = minor_of(hop.today), hop.minor
    if not older or not scene.data.knows(older) or not scene.data.knows(newer):
        return []
    gone = [item for item in scene.snapshot.stored_objects if item.names]
    today = {(a.group, a.resource): a.storage for a in scene.data.apis(older) if a.resource and a.storage}
    decodes = {(a.group, a.version, a.resource) for a in scene.data.apis(older)}
    at_risk = sorted(
        {
            f"{a.group}/{a.storage} {a.resource}"
            for a in scene.data.apis(newer)
            if a.resource
            and a.storage
            and a.served
            and (a.group, a.storage, a.resource) not in decodes
            and (a.group, a.resource) in today
        }
    )
    if not at_risk or not gone:
        return []
    return [
        BackDraft(
            key="back:new-stored",
            what=tr("Objects that only the target stores"),
            to=tr("none"),
            verdict="reversible-until",
            until=tr("the first such object is written"),
            why=tr(
                "{older} cannot decode {what}: they must be deleted before going back.",
                older=older,
                what=", ".join(at_risk),
            ),
            minutes=5,
            needs=_keys(steps, "control-plane"),
        )
    ]


# --------------------------------------------------------------------------------------------- owners and packages


def _lost_pods(scene: Scene) -> list[PodUse]:
    """Pods without a controller on nodes that the plan drains."""
    return [pod for pod in scene.bare_pods if pod.node in scene.pending_nodes]


def _owners(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    backs: list[BackDraft] = []
    people = _named(steps, "people")
    blocked = [b for b in scene.snapshot.disruption_budgets if b.disruptions_allowed == 0]
    if blocked:
        backs.append(
            BackDraft(
                key="back:budgets",
                what=tr("PodDisruptionBudgets that were relaxed"),
                to="; ".join(
                    f"{b.namespace}/{b.name}: "
                    + (
                        f"minAvailable {b.min_available}"
                        if b.min_available
                        else f"maxUnavailable {b.max_unavailable}"
                    )
                    for b in blocked
                ),
                commands=[restore_command(budget) for budget in blocked],
                verdict="reversible",
                why=tr("Their owner puts them back after the last drain."),
                minutes=2,
                go_on=tr("Each has its limit of before."),
                stop=tr("A drain is still to come: put them back after it."),
                needs=people,
            )
        )
    bare = _lost_pods(scene)
    if bare:
        saved = bool(people)
        backs.append(
            BackDraft(
                key="back:bare",
                what=tr("Pods without a controller"),
                to=", ".join(f"{p.namespace}/{p.name}" for p in bare),
                commands=[
                    Command(
                        text=f"kubectl create -f {quoted(pod_file(pod))}",
                        where=tr("the machine with the saved files"),
                        runs="write",
                    )
                    for pod in bare
                ]
                if saved
                else [],
                verdict="one-way",
                why=tr(
                    "A deleted Pod does not come back; a new one of the same name can be made from its owner's manifest."
                )
                + (
                    " "
                    + tr(
                        "After the last drain of {step}; where that was not necessary, the Pods of {again} stay.",
                        step="{{back:kubelet}}",
                        again="{{bare}}",
                    )
                    if saved and any("bare" in (step.key, *step.also) for step in steps)
                    else ""
                ),
                lost=tr("Their state, their UID and, with a claim, possibly the device they had."),
                minutes=5,
                go_on=tr("Each runs, and its claims are allocated."),
                stop=tr("One stays Pending: read its events, and ask its owner."),
                needs=[
                    *(
                        step.key
                        for step in steps
                        if step.phase in ("nodes", "control-plane")
                        and {pod.node for pod in bare} & set(step.nodes)
                        and (step.phase == "nodes" or scene.distribution.nodes == "by-control-plane")
                    ),
                    *_named(steps, "bare"),
                ],
            )
        )
    return backs


def _packages(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """The kubeadm on the nodes where the new one was installed."""
    families = scene.distribution.packages.get("kubeadm-back", {})
    if not families or not scene.control_nodes:
        return []
    installing = [
        step
        for step in steps
        if step.nodes
        and any(c.runs == "write" and "kubeadm" in c.text and "install" in c.text for c in step.commands)
    ]
    nodes = tuple(dict.fromkeys(node for step in reversed(installing) for node in reversed(step.nodes)))
    needs = [step.key for step in installing]
    if not nodes:
        return []
    commands: list[Command] = []
    for family, members in _by_family(scene, nodes).items():
        made = scene.commands(families.get(family, families.get("other", ())), hop, "", {"node": '"$NODE"'})
        everyone = len(members) == len(nodes)
        where = in_turn(members) if everyone else tr("{nodes}, one after another", nodes=", ".join(members))
        commands += [Command(text=c.text, where=where, runs=c.runs) for c in made]
    return [
        BackDraft(
            key="back:packages",
            what=tr("kubeadm on the nodes"),
            to=scene.today,
            commands=commands,
            verdict="reversible",
            why=tr("Installed, it changes nothing until it is run. Images that were fetched stay unused.")
            + " "
            + tr("Only nodes whose step has run: {nodes}.", nodes=in_order(nodes, 400)),
            minutes=5,
            nodes=nodes,
            go_on=tr("`kubeadm version -o short` says {version} on each of them.", version=scene.today)
            if commands
            else "",
            stop=tr("The repository does not offer it: leave it, and do not run kubeadm.")
            if commands
            else "",
            needs=needs,
        )
    ]


# ---------------------------------------------------------------------------------------------------- last resort


def _restore(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    dist = scene.distribution
    parts = dist.rollback
    templates = parts.get("etcd-restore", ())
    if not templates or not scene.control_nodes:
        return []
    nodes = [member.node for member in scene.members] or list(scene.control_nodes[:1])
    every = "etcd-restore-stop" in parts
    nodes = nodes if "{node}" in templates[0].where else nodes[:1]

    def on_each(part: str) -> list[Command]:
        return gathered([(node, scene.commands(parts.get(part, ()), hops[0], node)) for node in nodes])

    commands = on_each("etcd-restore-check") + on_each("etcd-restore-stop") + on_each("etcd-restore")
    commands += on_each("etcd-restore-start")
    commands += scene.commands(parts.get("etcd-restore-health", ()), hops[0], nodes[0])
    if parts.get("etcd-restore-servers"):
        commands += on_each("etcd-restore-servers")
        for node in nodes:
            commands += _until_it_answers(scene, node, hops[0].today)
    commands += on_each("etcd-restore-controllers")
    kubelets = parts.get("etcd-restore-kubelets", ())
    if kubelets:
        all_nodes = [node.name for node in scene.snapshot.nodes] or nodes
        made = gathered([(node, scene.commands(kubelets, hops[0], node)) for node in all_nodes])
        place = in_turn(all_nodes) if len(all_nodes) <= MOST_NAMED else tr("each node")
        commands += [Command(text=c.text, where=place, runs=c.runs) for c in made]
    taken = next((at for at, s in enumerate(steps) if "etcd-snapshot" in (s.key, *s.also)), len(steps))
    later = [step for step in steps[taken + 1 :] if step.phase == "before"]
    changed = _named(later, "config:", "tidy:", "stored:")
    lost = tr(
        "Everything written after the snapshot: Pods that run may no longer match, allocations of devices may be granted twice."
    )
    if changed:
        lost += " " + tr(
            "The snapshot is older than {steps}: what they changed is as before, and a gate that they took out of kubeadm-config is in it again.",
            steps=", ".join("{{" + key + "}}" for key in changed),
        )
    return [
        BackDraft(
            key="back:restore",
            what=tr("The whole data store, from the snapshot taken before (last resort)"),
            to=tr("its state at the time of the snapshot"),
            commands=commands,
            verdict="reversible",
            why=tr(
                "All members from the same file, with every API server stopped; the revision is raised so that watchers notice. The components of before come back with their data, and start anew, since what they remember is of another time."
            )
            + " "
            + tr("Rehearse it.")
            if every
            else tr(
                "On one node, with the data of the other members wiped: they join it again. Tried nowhere by this tool: rehearse it."
            ),
            lost=lost,
            minutes=30,
            nodes=tuple(nodes),
            guard=tr(
                "{step} put the snapshot of {node} and its .sha256 file on {nodes} too. The first command must answer OK on each.",
                step="{{etcd-snapshot}}",
                node=nodes[0],
                nodes=", ".join(nodes[1:]),
            )
            if every and len(nodes) > 1
            else "",
            go_on=tr(
                "No container of etcd or kube-apiserver runs before the data are moved; every member is healthy before an API server starts; each API server answers ready and {version} before controller-managers and schedulers start.",
                version=hops[0].today,
            )
            if every
            else tr(
                "Every member is healthy, and the API server answers ready and {version}.",
                version=hops[0].today,
            ),
            stop=tr(
                "The checksum does not fit, or a member exits: the data of before the restore are beside the new ones."
            ),
        )
    ]
