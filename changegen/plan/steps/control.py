"""Steps of the control plane: node by node, or by the one command of the distribution."""

from __future__ import annotations

from changegen.i18n import tr
from changegen.model.ticket import Command
from changegen.plan.draft import StepDraft
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import (
    command,
    installer_note,
    last_member_step,
    packages,
    placed,
)
from changegen.plan.steps.drift import WATCHED, watched_rules
from changegen.shell import quoted
from changegen.versions import minor_of, try_version


def proof(scene: Scene, node: str) -> list[Command]:
    """The instance's own word: a success message, or a Pod in phase Running, is no proof."""
    url = scene.apiserver_url(node)
    if not url:
        return [command("kubectl get --raw /readyz"), command("kubectl get --raw /version")]
    return [
        command(f"kubectl --server={quoted(url)} get --raw '/readyz?verbose'"),
        command(f"kubectl --server={quoted(url)} get --raw /version"),
    ]


def control_plane(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    """The control-plane steps of one hop, in order."""
    dist = scene.distribution
    if dist.control_plane == "one-command" or not scene.control_nodes:
        return [_control_plane_at_once(scene, hop)]
    steps: list[StepDraft] = []
    final_member = last_member_step(scene, hop)
    applied = False
    first_hop = hop is scene.hops[0]
    todo = [node for node in scene.control_nodes if not first_hop or scene.state_of(node) != "done"]
    apply_needed = _apply_needed(scene, hop)
    if not todo and apply_needed and scene.control_nodes:
        todo = [scene.control_nodes[0]]
    for node in todo:
        state = scene.state_of(node) if first_hop else "todo"
        begin = not applied and apply_needed
        applied = True
        steps.append(
            _control_node(
                scene,
                hop,
                node,
                state,
                begin=begin,
                last_member=node == final_member,
                before=tuple(step.nodes[0] for step in steps),
                last=node == todo[-1],
            )
        )
    return steps


def _apply_needed(scene: Scene, hop: HopPlan) -> bool:
    """Whether the distribution's first-node command must still run: kubeadm-config names its last successful end."""
    if scene.kubeadm is None:
        return True
    recorded, wanted = try_version(scene.kubeadm.kubernetes_version), try_version(hop.version)
    return recorded is None or wanted is None or recorded.release != wanted.release


def apply_key(scene: Scene, hop: HopPlan) -> str:
    """Key of the step of a hop that runs the distribution's first-node command; the first of all where none must still run it."""
    for step in control_plane(scene, hop):
        return step.key
    return "cp:first"


def cp_key(hop: HopPlan, node: str) -> str:
    """Key of the control-plane step of a node."""
    return f"cp:{hop.version}:{node}"


def _control_node(
    scene: Scene,
    hop: HopPlan,
    node: str,
    state: str,
    *,
    begin: bool,
    last_member: bool,
    before: tuple[str, ...],
    last: bool,
) -> StepDraft:
    """One node; ``before`` are those whose steps come before it: what holds for each is said with the first."""
    dist, first = scene.distribution, not before and hop is scene.hops[0]
    member = any(item.node == node for item in scene.members)
    kubeadm = dist.name == "kubeadm"
    commands = packages(scene, "kubeadm", hop, node) if hop is not scene.hops[0] or state != "todo" else []
    if kubeadm and not commands:
        commands = [Command(text="kubeadm version -o short", where=node)]
    name = "control-plane-first" if begin else "control-plane-next"
    if state == "asked":
        commands += proof(scene, node)
    commands += scene.commands(dist.commands.get(name, ()), hop, node)
    commands += proof(scene, node)
    if member:
        commands += [
            item
            for item in scene.commands(dist.commands.get("etcd-health", ()), hop, node)
            if " endpoint health" in item.text or " endpoint status" in item.text
        ]
    notes: list[str] = []
    if state == "asked":
        notes.append(
            tr(
                "Its Pods already ask for {version}, but nothing proves that they run: look first, then run the command again.",
                version=hop.version,
            )
        )
    if kubeadm and begin and first:
        notes.append(
            tr(
                "apply asks [y/N] before it begins, and waits. It renews the certificates (--certificate-renewal=false leaves them) and writes the manifests from kubeadm-config."
            )
        )
    if begin:
        notes += _rules_note(scene, hop)
        notes += _endpoint_note(scene) if first else []
    if kubeadm and first:
        notes.append(
            tr(
                "Order on the node: etcd, kube-apiserver, kube-controller-manager, kube-scheduler. If the API server does not start, kubeadm puts its old manifest back within five minutes, but etcd stays on {etcd}.",
                etcd=hop.etcd or tr("the new version"),
            )
            if member
            else tr(
                "If the API server does not start, kubeadm puts its old manifest back within five minutes."
            )
        )
        notes.append(
            tr(
                "kubeadm's success message proves only that Pods are in phase Running, and one that crash-loops is too: the two answers of this node's own API server are the proof."
            )
        )
    elif kubeadm:
        notes.append(
            tr(
                "What {step} says of kubeadm, of its order on the node and of the proof holds here too.",
                step="{{cp:first}}",
            )
        )
    notes += installer_note(scene)
    if not dist.commands.get(name):
        notes.append(
            tr("How is not known for this distribution: as your installer does it, one node at a time.")
        )
    if node in scene.leaders.values():
        notes.append(
            tr(
                "It holds the lease of {leases}: it goes last, and another takes over.",
                leases=", ".join(k for k, v in scene.leaders.items() if v == node),
            )
        )
    if hop.chosen and not before:
        notes.append(_chosen(hop))
    if last_member:
        notes.append(
            tr(
                "Point of no simple return: after this step every etcd member runs {etcd}. Decide before it starts.",
                etcd=hop.etcd,
            )
        )
    title = (
        tr("Finish the control plane of {node} on {version}", node=node, version=hop.version)
        if state == "asked"
        else tr("Run kubeadm again on {node}, so that its configuration and the add-ons follow", node=node)
        if state == "done" and kubeadm
        else tr("Upgrade the control plane of {node} to {version}", node=node, version=hop.version)
    )
    return StepDraft(
        key=cp_key(hop, node),
        phase="control-plane",
        title=title,
        why=(tr("The API servers go one by one; the others serve meanwhile.") if first else "")
        if len(scene.control_nodes) > 1
        else tr("The only API server: the API does not answer while it restarts; what runs goes on running."),
        commands=commands,
        nodes=(node,),
        minutes=scene.profile.minutes.control_plane_node,
        go_on=_cp_go_on(hop, node, member=member, members=len(scene.members), kubeadm=kubeadm),
        stop=tr(
            "The API server of {node} is not ready after ten minutes, its log says that it exits, or an etcd member is unhealthy. Do not touch the next node.",
            node=node,
        ),
        checks=[
            *(_cp_checks() if last and hop.last else _cp_checks()[:4] if hop.last else []),
            # Written by the first node's command, and by no other.
            *(["check:kubeadm-version"] if begin and hop.last else []),
        ],
        partial={} if last or not hop.last else _done_so_far(scene, (*before, node)),
        rollback=["back:control-plane", *(["back:etcd"] if member else [])],
        notes=notes,
        no_return=last_member,
        hop=hop.label,
    )


def _chosen(hop: HopPlan) -> str:
    if hop.version == f"v{hop.minor}":
        return tr("Which patch release of {minor} it becomes is the provider's choice.", minor=hop.minor)
    return tr(
        "The exact version was chosen from the data of this tool: any patch of {minor} will do.",
        minor=hop.minor,
    )


def _rules_note(scene: Scene, hop: HopPlan) -> list[str]:
    """Schedulers and controller-managers of 1.36 watch DeviceTaintRules in v1beta2, those of 1.37 in v1."""
    today, target = minor_of(hop.today), hop.minor
    version = WATCHED.get(today or "")
    if not scene.snapshot.taint_rules or version is None or target in WATCHED:
        return []
    served = any(
        f"resource.k8s.io/{version}=true" in entry
        for item in scene.context.of("kube-apiserver")
        for entry in item.runtime_config or ()
    )
    if watched_rules(scene) is None and not served:
        return []
    return [
        tr(
            "DeviceTaintRules: schedulers and controller-managers of {today} watch them in resource.k8s.io/{version}, those of {target} in v1. --runtime-config=resource.k8s.io/{version}=true, which kubeadm-config gives to the new API servers too, stays until nobody will go back; see {back}.",
            today=today,
            target=target,
            version=version,
            back="{{back:rules}}",
        )
    ]


def _endpoint_note(scene: Scene) -> list[str]:
    """An endpoint of the control plane that is the machine's own address is another one on each machine."""
    settings = scene.kubeadm.settings if scene.kubeadm is not None else {}
    found = str(settings.get("controlPlaneEndpoint") or "")
    host = found.rsplit(":", 1)[0].strip("[]") if found.count(":") != 1 else found.partition(":")[0]
    if not (host.startswith("127.") or host in ("localhost", "::1")):
        return []
    return [
        tr(
            "controlPlaneEndpoint in kubeadm-config is {endpoint}, the loopback address: what uses it reaches the API server, or the proxy, of its own machine, and nothing while that one is upgraded. Use the --server addresses of this plan; clients with such a kubeconfig fail meanwhile.",
            endpoint=found,
        )
    ]


def _done_so_far(scene: Scene, nodes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Check -> nodes that must be on the new version by now; nodes that were done before the change are among them."""
    done = tuple(name for name in scene.control_nodes if name in nodes or scene.state_of(name) == "done")
    members = {member.node for member in scene.members}
    return {
        f"check:running:{name}": tuple(node for node in done if name != "etcd" or node in members)
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
        if name != "etcd" or members & set(done)
    }


def _cp_go_on(hop: HopPlan, node: str, *, member: bool, members: int, kubeadm: bool) -> str:
    text = tr("The API server of {node} itself answers ready and {version}", node=node, version=hop.version)
    if kubeadm:
        text = tr("kubeadm version prints {version}.", version=hop.version) + " " + text
    if member and hop.etcd:
        text += "; " + (
            tr(
                "all {n} etcd members are healthy, that of {node} is on {etcd}, and their raft indexes are close",
                n=members,
                node=node,
                etcd=hop.etcd,
            )
            if members > 1
            else tr("etcd of {node} is healthy on {etcd}", node=node, etcd=hop.etcd)
        )
    return text + "."


def _cp_checks() -> list[str]:
    return [
        f"check:running:{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
    ] + ["check:server-version", "check:readyz"]


def _control_plane_at_once(scene: Scene, hop: HopPlan) -> StepDraft:
    dist = scene.distribution
    node = scene.control_nodes[0] if scene.control_nodes else ""
    templates = dist.commands.get("control-plane", ())
    if templates:
        commands = list(scene.commands(templates, hop, node))
    else:
        each = tr("each control-plane node, one after the other")
        filled = scene.commands(
            dist.commands.get("control-plane-first", ()), hop, "", {"node": '"${NODE:?}"'}
        )
        commands = placed(filled, each)
    commands += [command("kubectl get --raw '/readyz?verbose'"), command("kubectl get --raw /version")]
    notes = []
    one_way = dist.downgrade == "one-way"
    moves_nodes = dist.nodes == "by-control-plane"
    if dist.name == "talos":
        notes.append(
            tr(
                "upgrade-k8s restarts the kubelets node by node without a drain, and leaves etcd and Talos itself where they are."
            )
        )
    if dist.name == "openshift":
        notes.append(
            tr(
                "The worker pool is paused until the control plane is done; a pause holds back certificates too, so do not leave it so for long."
            )
        )
    if dist.name == "kind":
        notes.append(tr("A kind cluster is not upgraded: a new one is made and the workloads move."))
    if len(commands) == 2:
        notes.append(tr("How is not known for this distribution: as its owner does it."))
    if hop.chosen:
        notes.append(_chosen(hop))
    if one_way:
        notes.append(tr("No way back for the control plane once this has started."))
    return StepDraft(
        key=cp_key(hop, ""),
        phase="control-plane",
        title=tr("Upgrade the control plane to {version}", version=hop.version),
        why=tr(
            "{distribution} goes through its own control-plane nodes.",
            distribution=dist.title or tr("The distribution"),
        ),
        commands=commands,
        nodes=scene.control_nodes,
        minutes=scene.profile.minutes.control_plane_node * max(1, len(scene.control_nodes))
        + (scene.profile.minutes.node * len(scene.pending_nodes) if moves_nodes else 0),
        go_on=tr(
            "The API server answers ready and {version}; the command has ended without an error.",
            version=hop.version,
        ),
        stop=tr("The command reports an error, or the API server is not ready twenty minutes after it."),
        checks=[
            *([*_cp_checks(), "check:kubeadm-version"] if hop.last else []),
            *(["check:kubelets"] if moves_nodes and hop.last else []),
            *(["check:not-ready"] if moves_nodes else []),
        ],
        # Workers that are released later have not moved when this ends.
        partial={"check:kubelets": scene.control_nodes}
        if moves_nodes and hop.last and dist.commands.get("workers")
        else {},
        rollback=["back:control-plane"],
        notes=notes,
        no_return=one_way,
        hop=hop.label,
    )
