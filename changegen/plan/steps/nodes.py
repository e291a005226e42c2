"""Steps of the nodes: drained one by one, by node group, or released to follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from changegen.i18n import tr
from changegen.model.snapshot import PodUse
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.saved import pod_file
from changegen.plan.scene import Drain, HopPlan, Scene
from changegen.plan.steps.common import (
    MOST_NAMED,
    MOST_SINGLE,
    command,
    installer_note,
    kubelet_gates,
    met,
    names,
    node_minutes,
    packages,
)
from changegen.plan.steps.remedies import gate_faults
from changegen.shell import quoted
from changegen.words import spans


def nodes(scene: Scene, hop: HopPlan, findings: Sequence[Finding]) -> list[StepDraft]:
    """The steps that move kubelets in one hop."""
    dist = scene.distribution
    if dist.nodes == "by-control-plane":
        return _workers_released(scene, hop)
    if dist.nodes == "pool-all":
        return [_pool_step(scene, hop, "", scene.pending_nodes)] if scene.pending_nodes else []
    waiting = [
        name
        for name in scene.pending_nodes
        if not (dist.kubelet_with_control_plane and name in scene.control_nodes)
    ]
    if dist.nodes == "pool":
        grouped: dict[str, list[str]] = {}
        for name in waiting:
            grouped.setdefault(scene.group_of(name), []).append(name)
        return [
            _pool_step(scene, hop, group, tuple(members))
            for group, members in sorted(grouped.items())
            if members
        ]
    drains = [scene.drain_of(name) for name in waiting]
    few = len(drains) <= MOST_SINGLE

    def kind(drain: Drain) -> tuple[object, ...]:
        # Few nodes: the commands are the same, and the notes say what differs. Many: nothing may differ that the one
        # who drains must know.
        same = (_tier(scene, drain), drain.flags, drain.bare, scene.family(drain.node))
        return (
            same
            if few
            else (*same, tuple(sorted(drain.drivers)), drain.budgets, bool(drain.holders), drain.down)
        )

    groups: dict[tuple[object, ...], list[Drain]] = {}
    for drain in drains:
        groups.setdefault(kind(drain), []).append(drain)

    def rank(group: list[Drain]) -> tuple[object, ...]:
        # What can go wrong least comes first.
        return (
            _tier(scene, group[0]),
            bool(group[0].drivers),
            max(len(d.bare) for d in group),
            max(len(d.budgets) for d in group),
            any(d.holders for d in group),
            repr(kind(group[0])),
        )

    ordered = sorted(groups.values(), key=rank)
    tiers = [_tier(scene, group[0]) for group in ordered]
    # The last of those on which nothing holds a device is where people stop and look, if others come after it.
    look = max((at for at, tier in enumerate(tiers) if tier == _FREE), default=-1)
    canary = look if look >= 0 and look + 1 < len(ordered) else -1
    return [
        _node_step(scene, hop, tuple(group), findings, canary=at == canary)
        for at, group in enumerate(ordered)
    ]


_CONTROL, _FREE, _HELD, _DOWN = range(4)


def _tier(scene: Scene, drain: Drain) -> int:
    """Control plane, nodes on which nothing minds, nodes whose Pods mind, nodes whose drain takes a workload down."""
    if drain.node in scene.control_nodes:
        return _CONTROL
    if drain.down:
        return _DOWN
    return _FREE if drain.free else _HELD


def node_key(hop: HopPlan, node: str) -> str:
    """Key of the step of a node or of the first node of a group."""
    return f"node:{hop.version}:{node}"


def _node_step(
    scene: Scene,
    hop: HopPlan,
    drains: tuple[Drain, ...],
    findings: Sequence[Finding],
    *,
    canary: bool = False,
) -> StepDraft:
    dist, head = scene.distribution, drains[0]
    single = len(drains) == 1
    nodes = tuple(drain.node for drain in drains)
    place = head.node if single else tr("the node in $NODE")
    variable = '"${NODE:?}"'
    fields = {"drain_flags": " ".join(head.flags)} | ({} if single else {"node": variable, "ip": variable})

    def on_node(made: Iterable[Command]) -> list[Command]:
        return [
            Command(text=c.text, where=place if c.where in ("", head.node) else c.where, runs=c.runs)
            for c in made
        ]

    def fill(key: str) -> list[Command]:
        return on_node(scene.commands(dist.commands.get(key, ()), hop, head.node if single else "", fields))

    control = head.node in scene.control_nodes
    commands: list[Command] = []
    if dist.packages and not control:
        commands += on_node(packages(scene, "kubeadm", hop, head.node))
    if not control:
        commands += fill("node-config")
    # Before the drain, and before a package's own script starts the kubelet anew.
    configured = [] if kubelet_gates(scene) is None else _configured(scene, hop, place)
    commands += configured
    commands += fill("drain")
    if dist.packages:
        commands += on_node(packages(scene, "kubelet", hop, head.node))
    commands += fill("kubelet-restart")
    commands += fill("back-to-work")
    drivers = met(drains, lambda drain: drain.drivers)
    if not drivers:
        commands = [item for item in commands if "resourceslices" not in item.text]
    plugins = _plugin_resources(scene, nodes)
    shown = quoted(head.node) if single else variable
    commands += [
        command(f"kubectl get node {shown} -o jsonpath='{{.status.allocatable.{_escaped(resource)}}}'")
        for resource in plugins
    ]
    bare = [pod for pod in scene.bare_pods if pod.node in nodes]
    commands += _created_again(bare)
    if not single and any(variable in c.text for c in commands):
        # Before the first block, since each of them is for the node in it.
        commands.insert(0, command(f"NODE={quoted(head.node)}"))
    pools = {
        driver: tuple(
            pool.name for pool in scene.snapshot.pools if pool.driver == driver and pool.node in nodes
        )
        for driver in drivers
    }
    partial = {"check:kubelets": nodes, "check:kubelet-gates": nodes} | {
        f"check:devices:{driver}": pools[driver] for driver in drivers
    }
    # The checklist is of the last hop: what it asks of kubelets cannot hold before.
    kubelets = ["check:kubelets"] if hop.last else []
    return StepDraft(
        key=node_key(hop, head.node),
        phase="nodes",
        title=_node_title(hop, nodes),
        why=_node_why(drains) if single or len(drains) > MOST_SINGLE else "",
        commands=commands,
        nodes=nodes,
        minutes=node_minutes(scene, drains),
        go_on=_node_go_on(
            hop, drains, drivers, plugins, bare, _owners(scene, nodes), _all_ready(scene, drivers)
        ),
        stop=tr(
            "The drain hangs, the node is not Ready ten minutes after the kubelet's start, or devices do not come back. Leave the node cordoned and do not go to the next."
        )
        if drivers or plugins
        else tr(
            "The drain hangs, or the node is not Ready ten minutes after the kubelet's start. Leave the node cordoned and do not go to the next."
        ),
        checks=[
            *kubelets,
            *(["check:kubelet-gates"] if hop.last else []),
            "check:not-ready",
            "check:cordoned",
            *(f"check:devices:{driver}" for driver in drivers),
            *(f"check:allocatable:{resource}" for resource in plugins),
            *(["check:held"] if any(d.holders for d in drains) else []),
            *_ready_again(scene, nodes, drivers),
        ],
        partial={
            key: part
            for key, part in partial.items()
            if part and (hop.last or key not in ("check:kubelets", "check:kubelet-gates"))
        },
        rollback=["back:kubelet"],
        notes=[
            *_by_hand(scene, hop),
            *(_configured_note(scene, findings) if configured else []),
            *_node_notes(scene, drains, drivers, canary=canary),
        ],
        hop=hop.label,
        also=("bare",) if bare else (),
    )


def _configured(scene: Scene, hop: HopPlan, where: str) -> list[Command]:
    """What ``kubeadm upgrade node`` changed of a kubelet's configuration and of its arguments, before it starts with them."""
    kept = f"{scene.backup}/kubelet-before-{scene.fields(hop)['change']}"
    return [
        Command(
            text=f"sudo diff {quoted(f'{kept}/{file}')} {quoted(f'/var/lib/kubelet/{file}')} || true",
            where=where,
        )
        for file in ("config.yaml", "kubeadm-flags.env")
    ] + [Command(text="sudo grep -A 20 '^featureGates:' /var/lib/kubelet/config.yaml || true", where=where)]


def _configured_note(scene: Scene, findings: Sequence[Finding]) -> list[str]:
    gone = {item.subject.name for item in gate_faults(findings)}
    given = {name: value for name, value in (kubelet_gates(scene) or {}).items() if name not in gone}
    shown = ", ".join(f"{name}: {str(value).lower()}" for name, value in sorted(given.items()))
    return [
        tr(
            "The two diffs show what kubeadm has made of the kubelet's files, from ConfigMap kubelet-config; the line after them shows the gates: {gates}. With a gate that {version} does not know, or an argument in kubeadm-flags.env that it dropped, the kubelet does not start: do not drain the node then.",
            gates=shown or tr("none"),
            version=scene.target,
        )
    ]


def _ready_again(scene: Scene, nodes: Sequence[str], drivers: Sequence[str]) -> list[str]:
    """Checks of kube-proxy and CoreDNS, of the drivers that serve there, and of the workloads whose Pods with devices leave."""
    return [
        "check:kube-proxy-ready",
        "check:coredns-ready",
        *(f"check:driver-ready:{driver}" for driver in drivers),
        *(f"check:workload:{kind}:{namespace}/{name}" for kind, namespace, name in _owners(scene, nodes)),
    ]


def _all_ready(scene: Scene, drivers: Sequence[str]) -> str:
    """That no Pod of kube-proxy, CoreDNS and the drivers is missing, to be added to when to go on; empty without any of them."""
    found = [item for item in scene.snapshot.workloads if item.addon in ("kube-proxy", "coredns")]
    of_drivers = [
        item.workload
        for item in scene.snapshot.drivers
        if item.driver in drivers and item.workload is not None and item.workload.kind in _ROLLED_OUT
    ]
    shown = [
        *sorted((f"{item.namespace}/{item.name}" for item in found), reverse=True),
        *sorted(f"{item.namespace}/{item.name}" for item in of_drivers),
    ]
    if not shown:
        return ""
    return "; " + tr(
        "no Pod of {workloads} is missing or not ready (give them a minute)",
        workloads=names(dict.fromkeys(shown)),
    )


_ROLLED_OUT = ("DaemonSet", "Deployment", "StatefulSet")


def _owners(scene: Scene, nodes: Sequence[str]) -> list[tuple[str, str, str]]:
    """(kind, namespace, name) of the workloads of which Pods with devices are on these nodes."""
    here = set(nodes)
    return sorted(
        {
            (pod.owner.kind, pod.owner.namespace, pod.owner.name)
            for pod in scene.snapshot.pods
            if pod.node in here and pod.uses_devices and pod.owner is not None
        }
    )


def _escaped(resource: str) -> str:
    return resource.replace(".", "\\.")


def _plugin_resources(scene: Scene, nodes: Sequence[str]) -> list[str]:
    """Extended resources that Pods on these nodes hold from a device plugin: they come back in the allocatable."""
    here = set(nodes)
    asked = {
        ask.resource
        for pod in scene.snapshot.pods
        if pod.node in here and not pod.extended_claim
        for ask in pod.asks
    }
    return sorted(
        resource
        for resource in asked
        if "/" in resource
        and any(
            scene.nodes[node].allocatable.get(resource, "0") not in ("", "0")
            for node in nodes
            if node in scene.nodes
        )
    )


def _created_again(bare: Sequence[PodUse]) -> list[Command]:
    """Pods without a controller, made again as soon as their node takes Pods."""
    made = []
    for pod in bare:
        where = f"-n {quoted(pod.namespace)}"
        made.append(command(f"kubectl create -f {quoted(pod_file(pod))}", write=True))
        made.append(command(f"kubectl {where} get pod {quoted(pod.name)} -o wide"))
        made += [
            command(f"kubectl {where} get resourceclaims.resource.k8s.io {quoted(use.claim)}")
            for use in pod.claims
            if use.claim and not use.template
        ]
    return made


def _node_title(hop: HopPlan, nodes: Sequence[str]) -> str:
    if len(nodes) == 1:
        return tr("Move the kubelet of {node} to {version}", node=nodes[0], version=hop.version)
    if len(nodes) <= MOST_NAMED:
        return tr(
            "Move the kubelets of {nodes} to {version}, one after the other",
            nodes=", ".join(nodes),
            version=hop.version,
        )
    return tr(
        "Move the kubelets of {n} nodes to {version}, one after the other", n=len(nodes), version=hop.version
    )


def _node_why(drains: Sequence[Drain]) -> str:
    held = [pod for drain in drains for pod in drain.holders]
    if not held:
        return ""
    if len(held) == 1:
        return tr("1 Pod that holds devices leaves: {pod}.", pod=held[0])
    return tr("{n} Pods that hold devices leave: {pods}.", n=len(held), pods=names(held))


def _published(drain: Drain) -> str:
    return ", ".join(f"{driver} {count}" for driver, count in drain.drivers.items())


def _node_go_on(
    hop: HopPlan,
    drains: Sequence[Drain],
    drivers: Sequence[str],
    plugins: Sequence[str],
    bare: Sequence[PodUse],
    owners: Sequence[tuple[str, str, str]],
    ready: str,
) -> str:
    if len(drains) == 1:
        text = tr("{node} is Ready on {version} and schedulable", node=drains[0].node, version=hop.version)
    else:
        text = tr("The node is Ready on {version} and schedulable", version=hop.version)
    if drivers:
        published = _published(drains[0]) if len(drains) == 1 else ", ".join(drivers)
        text += "; " + (
            tr("it publishes its devices again ({published}; give it two minutes)", published=published)
            if all(drain.drivers for drain in drains)
            else tr(
                "where it has a driver it publishes its devices again ({published}; give it two minutes)",
                published=published,
            )
        )
    if plugins:
        text += "; " + tr(
            "its allocatable has {resources} again (give it two minutes)", resources=", ".join(plugins)
        )
    text += ready
    if owners:
        text += "; " + tr(
            "no more Pods than before are not ready: {workloads}",
            workloads=names(f"{namespace}/{name}" for _, namespace, name in owners),
        )
    return text + _again(bare) + "."


def _again(bare: Sequence[PodUse]) -> str:
    """That the Pods without a controller are there again; empty where there are none."""
    if not bare:
        return ""
    shown = names(f"{pod.namespace}/{pod.name}" for pod in bare)
    if any(pod.uses_devices for pod in bare):
        return "; " + tr("Running, and its claim allocated: {pods}", pods=shown)
    return "; " + tr("Running: {pods}", pods=shown)


def _of_each(drains: Sequence[Drain]) -> list[str]:
    """What the drain of each node meets, a note each; nodes that meet nothing have none."""
    notes = []
    for drain in drains:
        said = []
        if drain.holders:
            said.append(_node_why((drain,)).rstrip(".。"))
        if drain.budgets:
            said.append(
                tr(
                    "the drain hangs while PodDisruptionBudget {budgets} allows no disruption: {step} comes first",
                    budgets=names(drain.budgets),
                    step="{{people}}",
                )
            )
        if drain.bare:
            said.append(
                tr("--force deletes Pods without a controller, for good: {pods}", pods=names(drain.bare))
            )
        if drain.emptydir:
            said.append(
                tr("--delete-emptydir-data: the emptyDir data of {pods} goes", pods=names(drain.emptydir))
            )
        if drain.down:
            said.append(tr("{workloads} is down meanwhile: its owner is there", workloads=names(drain.down)))
        if drain.drivers:
            said.append(tr("devices to come back: {published}", published=_published(drain)))
        if said:
            notes.append(f"{drain.node}: " + "; ".join(said) + ".")
    return notes


def _of_all(drains: Sequence[Drain]) -> list[str]:
    """What the drains of one node, or of many nodes that are alike, meet."""
    notes = []
    budgets = met(drains, lambda drain: drain.budgets)
    if budgets:
        notes.append(
            tr(
                "The drain hangs while PodDisruptionBudget {budgets} allows no disruption: {step} comes first.",
                budgets=names(budgets),
                step="{{people}}",
            )
        )
    bare = met(drains, lambda drain: drain.bare)
    if bare:
        notes.append(tr("--force deletes Pods without a controller, for good: {pods}.", pods=names(bare)))
    empty = met(drains, lambda drain: drain.emptydir)
    if empty:
        notes.append(tr("--delete-emptydir-data: the emptyDir data of {pods} goes.", pods=names(empty)))
    down = met(drains, lambda drain: drain.down)
    if down:
        notes.append(
            tr("{workloads} is down while the node is out: its owner is there.", workloads=names(down))
        )
    return notes


def _by_hand(scene: Scene, hop: HopPlan) -> list[str]:
    """Says who upgrades the kubelet where no command of the distribution does."""
    dist = scene.distribution
    if dist.packages or any(c.runs == "write" for c in dist.commands.get("kubelet-restart", ())):
        return []
    return [
        tr(
            "How the kubelet is upgraded is not known for this distribution: do it as your installer does, after the drain. The last block gives back only a node whose kubelet says {version}.",
            version=hop.version,
        )
    ]


def _node_notes(
    scene: Scene, drains: Sequence[Drain], drivers: Sequence[str], *, canary: bool = False
) -> list[str]:
    notes = []
    if len(drains) > 1:
        notes.append(
            tr(
                "All blocks in their order for one node, in the same shell; then NODE is the next, and all blocks again: {nodes}.",
                nodes=spans(d.node for d in drains),
            )
        )
    if canary:
        notes.append(
            tr(
                "Nothing that holds a device runs here: this step shows first what {version} does to kubelets and drivers. Stop after it and look at devices, Pods and logs before the next step.",
                version=scene.target,
            )
        )
    without = [drain.node for drain in drains if not drain.drivers]
    if drivers and without:
        notes.append(
            tr(
                "No resources found is right for {nodes}: nothing publishes there today.",
                nodes=names(without),
            )
        )
        parallel = scene.profile.minutes.node_parallel
        if parallel > 1:
            notes.append(tr("Up to {n} at a time, as the profile says.", n=parallel))
    notes += _of_each(drains) if 1 < len(drains) <= MOST_SINGLE else _of_all(drains)
    if drivers:
        notes.append(
            tr(
                "A starting kubelet deletes its node's ResourceSlices until each driver has registered again: a low count right after the start is no fault. The drivers' DaemonSet Pods stay through the drain, so that claims are unprepared properly: never delete them first."
            )
        )
    kinds = {d.driver: d.workload.kind for d in scene.snapshot.drivers if d.workload is not None}
    notes += [
        tr(
            "{driver} is served by a {kind}, not a DaemonSet: a drain may evict it before the Pods that hold its devices, and their claims are then not unprepared. Evict those Pods first.",
            driver=driver,
            kind=kinds[driver],
        )
        for driver in drivers
        if kinds.get(driver, "DaemonSet") != "DaemonSet"
    ]
    notes += installer_note(scene)
    if any(drain.unknown for drain in drains):
        notes.append(tr("Not all Pods were read: the drain may meet more than is said here."))
    if scene.distribution.packages and scene.family(drains[0].node) == "other":
        notes.append(
            tr(
                "How kubelet and kubeadm are installed on this operating system was not seen: as it is done there, before the restart."
            )
        )
    return notes


def _pool_step(scene: Scene, hop: HopPlan, group: str, members: tuple[str, ...]) -> StepDraft:
    dist = scene.distribution
    drains = [scene.drain_of(name) for name in members]
    drivers = met(drains, lambda drain: drain.drivers)
    grouped = group or dist.nodes == "pool-all"
    commands = (
        list(scene.commands(dist.commands.get("pool", ()), hop, "", {"group": quoted(group)}))
        if grouped
        else []
    )
    if not grouped:
        if len(members) > 1:
            commands.append(command(f"NODE={quoted(members[0])}"))
        shown = '"${NODE:?}"' if len(members) > 1 else quoted(members[0])
        commands.append(command(f"kubectl drain {shown} --ignore-daemonsets --timeout=15m", write=True))
    label = dist.pool_label
    selector = f" -l {quoted(f'{label}={group}')}" if group and label else ""
    commands.append(command(f"kubectl get nodes{selector} -o wide"))
    gone = [pod for pod in scene.bare_pods if pod.node in members]
    commands += _created_again(gone)
    budgets = met(drains, lambda drain: drain.budgets)
    bare = met(drains, lambda drain: drain.bare)
    notes = []
    if dist.nodes == "pool":
        notes.append(
            tr(
                "The provider makes new nodes and drains the old ones: node names change, and taints and labels come from the group's settings, not from the old nodes."
            )
        )
    if budgets:
        notes.append(
            tr(
                "PodDisruptionBudget {budgets} allows no disruption: {step} comes first. A provider forces its way or gives up after its own time limit.",
                budgets=names(budgets),
                step="{{people}}",
            )
        )
    if bare:
        notes.append(tr("Pods without a controller that go for good: {pods}.", pods=names(bare)))
    if not grouped and len(members) > 1:
        notes.append(
            tr(
                "All blocks in their order for one node, in the same shell; then NODE is the next, and all blocks again: {nodes}.",
                nodes=spans(members),
            )
        )
    if not grouped:
        notes.append(
            tr("These nodes belong to no group that a label names: replace or upgrade each as it was made.")
        )
    key = f"node:{hop.version}:group:{group}"
    return StepDraft(
        key=key,
        phase="nodes",
        title=tr("Move node group {group} to {version}", group=group, version=hop.version)
        if group
        else tr("Move {node} to {version}", node=members[0], version=hop.version)
        if len(members) == 1
        else tr("Move {n} nodes to {version}", n=len(members), version=hop.version),
        why=_node_why(drains),
        commands=commands,
        nodes=members,
        minutes=node_minutes(scene, drains),
        go_on=tr("Every node of it is Ready on {version}", version=hop.version)
        + (
            "; "
            + tr("devices are published again by {drivers} (give it two minutes)", drivers=", ".join(drivers))
            if drivers
            else ""
        )
        + _all_ready(scene, drivers)
        + _again(gone)
        + ".",
        stop=tr("The provider reports a failure, or new nodes do not become Ready."),
        checks=[
            *(["check:kubelets"] if hop.last else []),
            "check:not-ready",
            "check:cordoned",
            *(f"check:devices:{driver}" for driver in drivers),
            *_ready_again(scene, members, drivers),
        ],
        partial={"check:kubelets": members} if hop.last else {},
        rollback=["back:kubelet"],
        notes=notes,
        hop=hop.label,
        also=("bare",) if gone else (),
    )


def _workers_released(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    templates = scene.distribution.commands.get("workers", ())
    if not templates or not scene.pending_nodes:
        return []
    drains = [scene.drain_of(name) for name in scene.pending_nodes if name not in scene.control_nodes]
    if not drains:
        return []
    drivers = met(drains, lambda drain: drain.drivers)
    return [
        StepDraft(
            key=f"node:{hop.version}:workers",
            phase="nodes",
            title=tr("Let worker {node} follow", node=drains[0].node)
            if len(drains) == 1
            else tr("Let the {n} workers follow", n=len(drains)),
            why=_node_why(drains),
            commands=list(scene.commands(templates, hop)),
            nodes=tuple(drain.node for drain in drains),
            minutes=node_minutes(scene, drains),
            go_on=tr("Every node of it is Ready on {version}", version=hop.version)
            + _all_ready(scene, drivers)
            + ".",
            stop=tr("The pool is degraded, or a drain hangs."),
            checks=[
                *(["check:kubelets"] if hop.last else []),
                "check:not-ready",
                "check:cordoned",
                *(f"check:devices:{driver}" for driver in drivers),
                *_ready_again(scene, [drain.node for drain in drains], drivers),
            ],
            rollback=["back:kubelet"],
            notes=_node_notes(scene, [d for d in drains if d.budgets or d.bare][:1], ())
            if any(d.budgets or d.bare for d in drains)
            else [],
            hop=hop.label,
        )
    ]
