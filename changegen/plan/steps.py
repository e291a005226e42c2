"""The steps: before, control plane, nodes, drivers, after, made from this cluster and its distribution's commands.

Rules behind the order: API servers one by one and one minor at a time; controller-manager and scheduler never newer
than an API server they may reach (kubeadm's talk to their own node's); kubelets only after all API servers, drained as
seldom as the skew policy allows; DRA drivers after the cluster on the way up and before it on the way down, and the
last to leave a drained node. Every step names what must be true to go on and what means stop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from changegen.i18n import tr
from changegen.model.snapshot import ConfigMapFact, Driver
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.scene import Drain, HopPlan, Scene, quoted
from changegen.versions import minor_of, parse_image, try_version

__all__ = ["KUBECTL", "make_steps"]

KUBECTL = "any machine with kubectl"
MOST_SINGLE = 12
"""Up to so many nodes, each has a step of its own; above it, nodes that meet the same are one step."""

_REMOVABLE = ("CG-GATE-001", "CG-GATE-002", "CG-GATE-004")
"""Faults of a gate that are mended by not naming it any more."""
_PEOPLE = ("PDB", "CAP", "DRAIN")
"""Areas of findings that need a decision of the workload's owner before a drain."""

KUBELET_SLICES_WAIT = 120
"""Seconds that a driver gets to publish again after its node's kubelet started."""


def make_steps(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """All steps of the change, in order; keys of checks and ways back are those that their modules make."""
    steps: list[StepDraft] = []
    hops = scene.hops
    first = hops[0] if hops else None
    steps += _before(scene, findings, first)
    for hop in hops:
        steps += _control_plane(scene, hop)
        if hop.drain:
            steps += _nodes(scene, hop)
    steps += _drivers(scene, findings)
    steps += _after(scene, hops[-1] if hops else None)
    _resolve_blockers(scene, steps, findings)
    return steps


def _command(text: str, *, where: str = KUBECTL, write: bool = False) -> Command:
    return Command(text=text, where=where, runs="write" if write else "read")


def _names(items: Iterable[str], most: int = 6) -> str:
    listed = list(items)
    shown = ", ".join(listed[:most])
    return shown if len(listed) <= most else tr("{shown} and {n} more", shown=shown, n=len(listed) - most)


# ------------------------------------------------------------------------------------------------ before


def _before(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    steps = [_keep(scene, hop)]
    if hop is not None:
        steps += _etcd_steps(scene, hop)
        steps += _backups(scene, hop)
    steps += _gate_remedies(scene, findings, hop)
    steps += _stored_objects(scene, findings)
    steps += _people(scene, findings, hop)
    steps += _parts(scene, findings)
    if hop is not None:
        steps += _prepare(scene, hop)
    return steps


def _keep(scene: Scene, hop: HopPlan | None) -> StepDraft:
    release = scene.fields(hop)["release"] if hop is not None else "change"
    name = f"before-{release}.json.gz"
    return StepDraft(
        key="keep",
        phase="before",
        title=tr("Read the cluster again and keep the snapshot with the ticket"),
        why=tr(
            "The plan is as true as the reading: what changed since then must be seen before the change starts."
        ),
        commands=[
            _command(f"changegen snapshot -o {quoted(name)}", where=tr("any machine with changegen")),
            _command(f"changegen verify ticket.json {quoted(name)}", where=tr("any machine with changegen")),
        ],
        minutes=2,
        go_on=tr("Nothing in the second reading differs from the ticket's reading but what is planned."),
        stop=tr("Something differs that nobody can explain: make the ticket anew."),
    )


def _etcd_steps(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist, steps = scene.distribution, []
    node = scene.members[0].node if scene.members else (scene.control_nodes[0] if scene.control_nodes else "")
    health = dist.commands.get("etcd-health", ())
    if health and node and (scene.members or dist.etcd == "os"):
        steps.append(
            StepDraft(
                key="etcd-health",
                phase="before",
                title=tr("Check that every etcd member is healthy"),
                why=tr("An upgrade takes one member out at a time: with another one ill the quorum goes."),
                commands=list(scene.commands(health, hop, node)),
                nodes=tuple(member.node for member in scene.members) or (node,),
                minutes=2,
                go_on=tr(
                    "All members answer, one is leader, raft indexes are close, no alarm, the database is well below its quota."
                ),
                stop=tr("A member does not answer, or an alarm (NOSPACE, CORRUPT) is raised."),
                checks=["check:running:etcd"],
                notes=_etcd_notes(scene),
            )
        )
    save = dist.commands.get("etcd-snapshot", ())
    if save and node:
        steps.append(
            StepDraft(
                key="etcd-snapshot",
                phase="before",
                title=tr("Take an etcd snapshot on {node} and copy it off the node", node=node),
                why=tr("It is the last way back: everything written after it is lost when it is restored."),
                commands=list(scene.commands(save, hop, node)),
                nodes=(node,),
                minutes=scene.profile.minutes.etcd_snapshot,
                go_on=tr(
                    "The status shows a hash, a revision and a size that fits; a copy with its checksum is not on a node of the cluster."
                ),
                stop=tr("The snapshot fails, or its status cannot be read."),
                rollback=["back:restore"],
                notes=_snapshot_notes(scene, node),
            )
        )
    elif (
        not scene.snapshot.cluster.managed
        and dist.etcd != "hidden"
        and not scene.external_etcd
        and dist.commands.get("etcd-snapshot")
    ):
        steps.append(
            StepDraft(
                key="etcd-snapshot",
                phase="before",
                title=tr("Back up the cluster's data store"),
                why=tr(
                    "No etcd member was seen in this reading; without a backup there is no last way back."
                ),
                minutes=scene.profile.minutes.etcd_snapshot,
                go_on=tr("A backup exists, has been read back, and is not on a node of the cluster."),
                stop=tr("There is none."),
                rollback=["back:restore"],
            )
        )
    if scene.external_etcd:
        steps.append(
            StepDraft(
                key="etcd-external",
                phase="before",
                title=tr("Let the owner of the external etcd take a snapshot and confirm its version"),
                why=tr("etcd is not on the nodes of this cluster; kubeadm does not touch it."),
                minutes=scene.profile.minutes.etcd_snapshot,
                go_on=tr("Snapshot kept; the version is one that the target supports."),
                stop=tr("The owner does not confirm."),
            )
        )
    return steps


def _etcd_notes(scene: Scene) -> list[str]:
    notes = []
    sizes = [
        size for process in scene.snapshot.processes for key, size in process.etcd.items() if "size" in key
    ]
    if sizes:
        notes.append(tr("The database was {size} in this reading.", size=sizes[0]))
    fields = scene.etcd_fields(scene.members[0].node) if scene.members else {}
    if fields.get("etcd_pod"):
        notes.append(
            tr(
                "Where etcdctl is not on the node, the Pod has it: {command}",
                command=f"kubectl -n kube-system exec {fields['etcd_pod']} -- etcdctl {fields['etcd_tls']} endpoint health",
            )
        )
    if scene.defaulted:
        notes.append(
            tr(
                "Not read, so the distribution's usual value stands here: {flags}.",
                flags=", ".join(sorted(scene.defaulted)),
            )
        )
    return notes


def _snapshot_notes(scene: Scene, node: str) -> list[str]:
    notes = [tr("The snapshot holds every Secret of the cluster: keep it as one.")]
    if scene.distribution.etcd == "kubeadm":
        notes.append(
            tr(
                "Restore is by etcdutl: etcdctl has no restore since 3.6. The commands are in {back}.",
                back="{{back:restore}}",
            )
        )
    if scene.leaders:
        notes.append(
            tr(
                "Leaders in this reading: {leaders}.",
                leaders=", ".join(f"{k} {v}" for k, v in scene.leaders.items()),
            )
        )
    return notes


def _backups(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist, steps = scene.distribution, []
    local = dist.commands.get("backup", ())
    if local:
        nodes = scene.control_nodes if "{node}" in local[0].where or "{ip}" in local[0].text else ()
        commands: list[Command] = []
        for node in nodes or ("",):
            commands += scene.commands(local, hop, node)
        steps.append(
            StepDraft(
                key="backup",
                phase="before",
                title=tr("Back up the control plane's configuration"),
                why=tr("The way back puts these files back; it cannot be made from the cluster afterwards."),
                commands=_dedupe(commands),
                nodes=nodes,
                minutes=2 * max(1, len(nodes)),
                go_on=tr("The copies are there on every node named, and readable by root only."),
                stop=tr("A copy is missing."),
                notes=[tr("The copies hold private keys.")] if scene.pki else [],
                rollback=["back:control-plane", "back:etcd"],
            )
        )
    objects = dist.commands.get("objects", ())
    if objects:
        commands = list(scene.commands(objects, hop))
        if any(item.kind == "kubeadm" for item in scene.snapshot.config_maps):
            commands.insert(
                0,
                _command(
                    f"kubectl -n kube-system get configmap kubeadm-config -o yaml > kubeadm-config-before-{scene.fields(hop)['release']}.yaml",
                    write=True,
                ),
            )
        for rule in scene.snapshot.taint_rules:
            commands.append(
                _command(
                    f'kubectl --cache-dir="$(mktemp -d)" get devicetaintrules.resource.k8s.io {quoted(rule.name)} -o yaml > {quoted(f"devicetaintrule-{rule.name}.yaml")}',
                    write=True,
                )
            )
        steps.append(
            StepDraft(
                key="objects",
                phase="before",
                title=tr("Save the objects that the way back needs"),
                why=tr("ConfigMaps, add-ons, DeviceClasses, claims and rules as they are today."),
                commands=commands,
                minutes=2,
                go_on=tr("The files are not empty and are kept with the ticket."),
                stop=tr("A command fails."),
                rollback=["back:config"],
                notes=[tr("The commands write files on the machine where they run, nothing in the cluster.")],
            )
        )
    return steps


def _dedupe(commands: Iterable[Command]) -> list[Command]:
    return list(dict.fromkeys(commands))


def _gate_faults(findings: Sequence[Finding]) -> list[Finding]:
    return [
        item
        for item in findings
        if item.severity == "blocking"
        and (item.code in _REMOVABLE or item.code == "CG-KUBEADM-001")
        and item.subject.name
    ]


def _without(value: str, gates: Sequence[str]) -> str:
    """A --feature-gates value without some gates, the rest as written."""
    kept = [
        piece for piece in value.split(",") if piece.split("=", 1)[0].strip().rpartition(":")[2] not in gates
    ]
    return ",".join(kept)


def _sed(text: str) -> str:
    return re.sub(r"([/.\[\]*^$\\&])", r"\\\1", text)


def _gate_remedies(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    faults = _gate_faults(findings)
    if not faults:
        return []
    steps = []
    configs = [item for item in scene.snapshot.config_maps if item.component_gates]
    mended: set[str] = set()
    for config in configs:
        step, done = _config_step(scene, config, faults, hop)
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
        steps.append(_manifest_step(scene, rest, hop))
    return steps


_MAPS = {
    "kubeadm": ("kube-system", "kubeadm-config"),
    "kubelet": ("kube-system", "kubelet-config"),
    "kube-proxy": ("kube-system", "kube-proxy"),
}


def _config_step(
    scene: Scene, config: ConfigMapFact, faults: Sequence[Finding], hop: HopPlan | None
) -> tuple[StepDraft | None, set[str]]:
    """The step that takes refused gates out of a ConfigMap, and the findings that it mends."""
    concerned: list[Finding] = []
    edits: list[str] = []
    texts: list[str] = []
    by_component: dict[str, list[str]] = {}
    for fault in faults:
        source = config.component_gates.get(fault.subject.component)
        if source is None or fault.subject.name not in source.gates:
            continue
        concerned.append(fault)
        by_component.setdefault(fault.subject.component, []).append(fault.subject.name)
    if not concerned:
        return None, set()
    for component, gates in by_component.items():
        source = config.component_gates[component]
        texts.append(f"{component}: {', '.join(gates)}")
        if source.flag_values:
            for value in source.flag_values:
                after = _without(value, gates)
                if after == value:
                    continue
                if after:
                    edits.append(f"s/{_sed(value)}/{_sed(after)}/")
                else:
                    edits += [
                        '/- name: feature-gates$/{N;/value: "\\{0,1\\}' + _sed(value) + '"\\{0,1\\}$/d;}',
                        f'/feature-gates: "\\{{0,1\\}}{_sed(value)}"\\{{0,1\\}}$/d',
                    ]
        else:
            edits += [f"/^ *{_sed(gate)}: \\(true\\|false\\)$/d" for gate in gates]
    place = f"{config.namespace}/{config.name}"
    sed = "sed " + " ".join(f"-e {quoted(edit)}" for edit in dict.fromkeys(edits))
    read = f"kubectl -n {quoted(config.namespace)} get configmap {quoted(config.name)} -o yaml | {sed}"
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
        commands=[
            _command(f"{read} | kubectl diff -f -"),
            _command(f"{read} | kubectl replace -f -", write=True),
        ],
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
            else tr("kubeadm diff answers with exit code 1 when there is a difference; that is no error.")
        ],
    )
    return step, {fault.id for fault in concerned}


def _manifest_step(scene: Scene, faults: Sequence[Finding], hop: HopPlan | None) -> StepDraft:
    """Gates that no ConfigMap names: where the flags really are, per distribution."""
    dist = scene.distribution
    commands: list[Command] = []
    nodes: list[str] = []
    gates = sorted({fault.subject.name for fault in faults})
    for fault in faults:
        for item in scene.context.of(fault.subject.component):
            if item.instance not in fault.subject.instances and item.node not in fault.subject.instances:
                continue
            values = [value for source in item.gate_sources[:1] for value in source.flag_values]
            for value in values:
                after = _without(value, gates)
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
                if file and dist.name not in ("talos", "kops", "openshift"):
                    commands.append(
                        _command(
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
                        patch = (
                            '[{"op":"replace","path":"/cluster/%s/extraArgs/feature-gates","value":"%s"}]'
                            % (section, after)
                            if after
                            else '[{"op":"remove","path":"/cluster/%s/extraArgs/feature-gates"}]' % section
                        )
                        commands.append(
                            _command(
                                f"talosctl -n {quoted(ip)} patch machineconfig --patch {quoted(patch)}",
                                where=tr("any machine with talosctl"),
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
        commands=_dedupe(commands),
        nodes=tuple(dict.fromkeys(nodes)),
        minutes=10,
        go_on=tr(
            "The component has started again without the gate and is ready, before the next node is touched."
        ),
        stop=tr("It does not become ready within five minutes: put the file back."),
        checks=[f"check:names-gate:{fault.subject.component}:{fault.subject.name}" for fault in faults],
        rollback=["back:control-plane"],
        findings=[fault.id for fault in faults],
        notes=notes,
    )


def _stored_objects(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
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
            deletes.append(_command(f"kubectl {where}delete {quoted(full)} {quoted(short)}", write=True))
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
                    _command(
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


def _people(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """What the owners of workloads must decide before nodes are drained."""
    if hop is None or (scene.distribution.nodes == "by-control-plane" and not scene.bare_pods):
        concerned = []
    else:
        concerned = [
            item for item in findings if item.code.split("-")[1] in _PEOPLE and item.severity != "info"
        ]
    drains = [scene.drain_of(name) for name in scene.pending_nodes] if hop is not None else []
    budgets = sorted({budget for drain in drains for budget in drain.budgets})
    bare = [pod for pod in scene.bare_pods if pod.node in {drain.node for drain in drains} or not pod.node]
    if not concerned and not budgets and not bare:
        return []
    commands = []
    notes = []
    for budget in budgets:
        namespace, name = budget.split("/", 1)
        where = [drain.node for drain in drains if budget in drain.budgets]
        commands.append(
            _command(f"kubectl -n {quoted(namespace)} get poddisruptionbudget {quoted(name)} -o wide")
        )
        notes.append(
            tr(
                "PodDisruptionBudget {budget} allows no disruption: the drain of {nodes} hangs until it does. Its owner scales up or relaxes it for the window; a drain with --disable-eviction would ignore it and is not planned.",
                budget=budget,
                nodes=_names(where),
            )
        )
    for pod in bare:
        commands.append(
            _command(
                f"kubectl -n {quoted(pod.namespace)} get pod {quoted(pod.name)} -o yaml > {quoted(f'pod-{pod.namespace}-{pod.name}.yaml')}",
                write=True,
            )
        )
    if bare:
        notes.append(
            tr(
                "Without a controller, and gone for good once deleted: {pods}. Their owner keeps the manifest and creates them again in {step}.",
                pods=_names(f"{pod.namespace}/{pod.name}" for pod in bare),
                step="{{bare}}",
            )
        )
    return [
        StepDraft(
            key="people",
            phase="before",
            title=tr("Settle with the owners what a drain will meet"),
            why=tr("A drain asks for evictions and waits; the owners decide, not the one who drains."),
            commands=commands,
            minutes=15,
            go_on=tr(
                "Each budget named allows at least one disruption for the window, and each Pod without a controller may go."
            ),
            stop=tr(
                "An owner does not agree: leave these nodes out, within the version skew that is allowed."
            ),
            findings=[item.id for item in concerned],
            rollback=["back:budgets"] if budgets else (["back:bare"] if bare else []),
            checks=[f"check:budget:{budget}" for budget in budgets],
            notes=notes,
        )
    ]


def _parts(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """Other parts that must support the target: nobody's data says whether they do."""
    parts = other_parts(scene)
    if not parts or not scene.hops:
        return []
    return [
        StepDraft(
            key="parts",
            phase="before",
            title=tr("Look up whether the other parts support {version}", version=scene.target),
            why=tr(
                "Kubernetes' own data says nothing of them: {parts}.",
                parts="; ".join(f"{k} {v}" for k, v in parts.items()),
            ),
            minutes=15,
            go_on=tr("The release notes of each name the target minor."),
            stop=tr("One does not support it: upgrade that part first, for the version of today."),
            findings=[item.id for item in findings if item.code.split("-")[1] == "PARTS"],
        )
    ]


def other_parts(scene: Scene) -> dict[str, str]:
    """CNI, CSI, cloud controller, autoscaler, device plugins and runtimes with their versions as read."""
    found: dict[str, str] = {}
    for item in scene.snapshot.workloads:
        if not item.addon or item.addon in ("coredns", "kube-proxy") or item.addon.startswith("dra-driver"):
            continue
        tags = sorted(
            {parse_image(image).tag or parse_image(image).digest or "?" for image in item.images.values()}
        )
        found[f"{item.addon} ({item.namespace}/{item.name})"] = ", ".join(tags)
    runtimes = sorted({node.container_runtime for node in scene.snapshot.nodes if node.container_runtime})
    for runtime in runtimes:
        name, _, version = runtime.partition("://")
        count = sum(1 for node in scene.snapshot.nodes if node.container_runtime == runtime)
        found[f"{name} " + tr("on {n} nodes", n=count)] = version or "?"
    return found


def _prepare(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist = scene.distribution
    first = scene.control_nodes[0] if scene.control_nodes else ""
    steps = []
    images = dist.commands.get("images", ())
    if images and first:
        commands: list[Command] = []
        for node in scene.control_nodes if "{node}" in images[0].where else (first,):
            if scene.state_of(node) == "todo":
                commands += scene.commands(images, hop, node)
        if commands:
            steps.append(
                StepDraft(
                    key="images",
                    phase="before",
                    title=tr("Fetch the images before the window"),
                    why=tr("A registry that does not answer is found now, not with a member of etcd down."),
                    commands=_dedupe(commands),
                    nodes=tuple(node for node in scene.control_nodes if scene.state_of(node) == "todo"),
                    minutes=5,
                    go_on=tr("Every image of {version} is on the nodes.", version=hop.version),
                    stop=tr("An image cannot be fetched."),
                    notes=[
                        tr(
                            "kubeadm of the target fetches them: its package comes first, see {step}.",
                            step="{{cp:first}}",
                        )
                    ]
                    if dist.packages
                    else [],
                )
            )
    plan = dist.commands.get("plan", ())
    if plan and (first or dist.control_plane == "one-command"):
        commands = (
            [*_packages(scene, "kubeadm", hop, first), *scene.commands(plan, hop, first)]
            if first
            else list(scene.commands(plan, hop))
        )
        notes = []
        if dist.name in ("kubeadm", "kubespray"):
            notes.append(
                tr(
                    "kubeadm upgrade plan creates a Job (upgrade-health-check) and deletes it again: it is not read-only. It looks at no feature gate of a component."
                )
            )
        steps.append(
            StepDraft(
                key="plan",
                phase="before",
                title=tr("Ask the distribution's own check"),
                why=tr("What it refuses, it refuses at the change too."),
                commands=_dedupe(commands),
                nodes=(first,) if first else (),
                minutes=5,
                go_on=tr(
                    "It offers {version} and names no manual step that is not in this ticket.",
                    version=hop.version,
                ),
                stop=tr("It refuses the version, or its preflight fails."),
                rollback=["back:packages"] if dist.packages else [],
                notes=notes + _variables(scene),
            )
        )
    return steps


def _variables(scene: Scene) -> list[str]:
    words: dict[str, Callable[[], str]] = {
        "cluster": lambda: tr("the cluster's name as the provider knows it"),
        "location": lambda: tr("its region or zone"),
        "resource group": lambda: tr("its resource group"),
        "file": lambda: tr("the binary's file"),
    }
    return [
        tr("Set {name} first: {what}.", name=f"${name}", what=words[what]() if what in words else what)
        for name, what in scene.distribution.variables.items()
    ]


def _packages(scene: Scene, tool: str, hop: HopPlan, node: str) -> list[Command]:
    families = scene.distribution.packages.get(tool, {})
    return list(scene.commands(families.get(scene.family(node), families.get("other", ())), hop, node))


# ------------------------------------------------------------------------------------------------ control plane


def _proof(scene: Scene, node: str) -> list[Command]:
    """The instance's own word: a success message, or a Pod in phase Running, is no proof."""
    url = scene.apiserver_url(node)
    if not url:
        return [_command("kubectl get --raw /readyz"), _command("kubectl get --raw /version")]
    return [
        _command(f"kubectl --server={quoted(url)} get --raw '/readyz?verbose'"),
        _command(f"kubectl --server={quoted(url)} get --raw /version"),
    ]


def last_member_step(scene: Scene, hop: HopPlan) -> str:
    """Node whose step takes etcd past the point of no simple return in this hop; empty where no step does."""
    if not hop.etcd or not scene.members:
        return ""
    wanted = minor_of(hop.etcd)
    behind = [member for member in scene.members if minor_of(member.version) != wanted]
    if not behind:
        return ""
    order = [node for node in scene.control_nodes if node in {member.node for member in behind}]
    return order[-1] if order else ""


def _control_plane(scene: Scene, hop: HopPlan) -> list[StepDraft]:
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
        steps.append(_control_node(scene, hop, node, state, begin=begin, last_member=node == final_member))
    return steps


def _apply_needed(scene: Scene, hop: HopPlan) -> bool:
    """Whether the distribution's first-node command must still run: kubeadm-config names its last successful end."""
    for item in scene.snapshot.config_maps:
        if item.kind == "kubeadm" and item.kubernetes_version:
            recorded, wanted = try_version(item.kubernetes_version), try_version(hop.version)
            return recorded is None or wanted is None or recorded.release != wanted.release
    return True


def cp_key(hop: HopPlan, node: str) -> str:
    """Key of the control-plane step of a node."""
    return f"cp:{hop.version}:{node}"


def _control_node(
    scene: Scene, hop: HopPlan, node: str, state: str, *, begin: bool, last_member: bool
) -> StepDraft:
    dist = scene.distribution
    member = any(item.node == node for item in scene.members)
    kubeadm = dist.name in ("kubeadm",)
    commands = _packages(scene, "kubeadm", hop, node)
    name = "control-plane-first" if begin else "control-plane-next"
    commands += scene.commands(dist.commands.get(name, ()), hop, node)
    commands += _proof(scene, node)
    notes: list[str] = []
    if state == "asked":
        notes.append(
            tr(
                "Its Pods already ask for {version}, but nothing proves that they run: look first, then run the command again.",
                version=hop.version,
            )
        )
    if kubeadm and begin:
        notes.append(
            tr(
                "apply renews the certificates (--certificate-renewal=false leaves them) and writes the manifests from kubeadm-config."
            )
        )
    if kubeadm:
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
    if hop.chosen:
        notes.append(
            tr(
                "The exact version was chosen from the data of this tool: any patch of {minor} will do.",
                minor=hop.minor,
            )
        )
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
        else tr("Upgrade the control plane of {node} to {version}", node=node, version=hop.version)
    )
    return StepDraft(
        key=cp_key(hop, node),
        phase="control-plane",
        title=title,
        why=tr("The API servers go one by one; the others serve meanwhile.")
        if len(scene.control_nodes) > 1
        else tr("The only API server: the API does not answer while it restarts; what runs goes on running."),
        commands=commands,
        nodes=(node,),
        minutes=scene.profile.minutes.control_plane_node,
        go_on=_cp_go_on(scene, hop, node, member=member),
        stop=tr(
            "The API server of {node} is not ready after ten minutes, its log says that it exits, or an etcd member is unhealthy. Do not touch the next node.",
            node=node,
        ),
        checks=_cp_checks(scene),
        rollback=["back:control-plane", *(["back:etcd"] if member else [])],
        notes=notes,
        no_return=last_member,
        hop=hop.label,
    )


def _cp_go_on(scene: Scene, hop: HopPlan, node: str, *, member: bool) -> str:
    text = tr("The API server of {node} itself answers ready and {version}", node=node, version=hop.version)
    if member and hop.etcd:
        text += "; " + tr("etcd of {node} is healthy on {etcd}", node=node, etcd=hop.etcd)
    return text + "."


def _cp_checks(scene: Scene) -> list[str]:
    return [
        f"check:running:{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
    ] + ["check:server-version", "check:readyz"]


def _control_plane_at_once(scene: Scene, hop: HopPlan) -> StepDraft:
    dist = scene.distribution
    node = scene.control_nodes[0] if scene.control_nodes else ""
    commands = list(scene.commands(dist.commands.get("control-plane", ()), hop, node))
    commands += [_command("kubectl get --raw '/readyz?verbose'"), _command("kubectl get --raw /version")]
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
        if not scene.profile.target.distribution_version:
            notes.append(
                tr(
                    "Name the OpenShift release in the profile (target.distribution_version): it is not the Kubernetes version."
                )
            )
    if dist.name == "kind":
        notes.append(tr("A kind cluster is not upgraded: a new one is made and the workloads move."))
    if not dist.commands.get("control-plane"):
        notes.append(tr("How is not known for this distribution: as its owner does it."))
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
        checks=[*_cp_checks(scene), *(["check:kubelets", "check:not-ready"] if moves_nodes else [])],
        rollback=["back:control-plane"],
        notes=notes + ([] if dist.commands.get("plan") else _variables(scene)),
        no_return=one_way,
        hop=hop.label,
    )


# ------------------------------------------------------------------------------------------------ nodes


def _nodes(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist = scene.distribution
    if dist.nodes == "by-control-plane":
        return _workers_released(scene, hop)
    if dist.nodes == "pool-all":
        return [_pool_step(scene, hop, "", scene.pending_nodes)] if scene.pending_nodes else []
    names = [
        name
        for name in scene.pending_nodes
        if not (dist.kubelet_with_control_plane and name in scene.control_nodes)
    ]
    if dist.nodes == "pool":
        grouped: dict[str, list[str]] = {}
        for name in names:
            grouped.setdefault(scene.group_of(name), []).append(name)
        return [
            _pool_step(scene, hop, group, tuple(members))
            for group, members in sorted(grouped.items())
            if members
        ]
    drains = [scene.drain_of(name) for name in names]
    if len(drains) <= MOST_SINGLE:
        return [_node_step(scene, hop, (drain,)) for drain in drains]
    order = {name: at for at, name in enumerate(scene.control_nodes)}

    def kind(drain: Drain) -> tuple[object, ...]:
        # Nodes that differ in nothing that the one who drains must know are one step.
        control = order.get(drain.node, -1)
        return (
            control,
            drain.flags,
            drain.budgets,
            drain.bare,
            tuple(sorted(drain.drivers)),
            bool(drain.holders),
            scene.family(drain.node),
        )

    def rank(drain: Drain) -> tuple[object, ...]:
        return (
            drain.node not in order,
            order.get(drain.node, 0),
            len(drain.budgets),
            len(drain.bare),
            bool(drain.holders),
            repr(kind(drain)),
        )

    steps = []
    for _, members in groupby(sorted(drains, key=rank), key=kind):
        steps.append(_node_step(scene, hop, tuple(members)))
    return steps


def node_key(hop: HopPlan, node: str) -> str:
    """Key of the step of a node or of the first node of a group."""
    return f"node:{hop.version}:{node}"


def node_minutes(scene: Scene, drains: Sequence[Drain]) -> int:
    """Minutes for some nodes: the profile's number each, and the grace period of their slowest Pod beyond a minute."""
    each = [scene.profile.minutes.node + max(0, drain.grace - 60 + 59) // 60 for drain in drains]
    parallel = max(1, scene.profile.minutes.node_parallel)
    return -(-sum(each) // parallel)


def _node_step(scene: Scene, hop: HopPlan, drains: tuple[Drain, ...]) -> StepDraft:
    dist, head = scene.distribution, drains[0]
    single = len(drains) == 1
    nodes = tuple(drain.node for drain in drains)
    name = head.node if single else ""
    where_fields = {} if single else {"node": '"$NODE"', "ip": '"$NODE"'}
    fields = {"drain_flags": " ".join(head.flags), **where_fields}

    def fill(key: str) -> list[Command]:
        made = scene.commands(dist.commands.get(key, ()), hop, name, fields)
        return (
            list(made)
            if single
            else [Command(text=c.text, where=c.where or tr("the node"), runs=c.runs) for c in made]
        )

    control = head.node in scene.control_nodes
    tools = dist.packages
    commands: list[Command] = []
    if tools and not control:
        commands += [
            Command(text=c.text, where=c.where if single else tr("the node"), runs=c.runs)
            for c in _packages(scene, "kubeadm", hop, head.node)
        ]
    if not control:
        commands += fill("node-config")
    commands += fill("drain")
    if tools:
        commands += [
            Command(text=c.text, where=c.where if single else tr("the node"), runs=c.runs)
            for c in _packages(scene, "kubelet", hop, head.node)
        ]
    commands += fill("kubelet-restart")
    commands += fill("back-to-work")
    title = (
        tr("Move the kubelet of {node} to {version}", node=head.node, version=hop.version)
        if single
        else tr(
            "Move the kubelets of {n} nodes to {version}, one after the other",
            n=len(drains),
            version=hop.version,
        )
    )
    drivers = sorted({driver for drain in drains for driver in drain.drivers})
    return StepDraft(
        key=node_key(hop, head.node),
        phase="nodes",
        title=title,
        why=_node_why(drains),
        commands=commands,
        nodes=nodes,
        minutes=node_minutes(scene, drains),
        go_on=_node_go_on(hop, drains, drivers),
        stop=tr(
            "The drain hangs, the node is not Ready ten minutes after the kubelet's start, or devices do not come back. Leave the node cordoned and do not go to the next."
        ),
        checks=[
            "check:kubelets",
            "check:not-ready",
            "check:cordoned",
            *(f"check:devices:{driver}" for driver in drivers),
            *(["check:held"] if any(d.holders for d in drains) else []),
        ],
        rollback=["back:kubelet"],
        notes=_node_notes(scene, drains, drivers),
        hop=hop.label,
    )


def _node_why(drains: Sequence[Drain]) -> str:
    held = [pod for drain in drains for pod in drain.holders]
    if held:
        return tr("{n} Pods that hold devices leave: {pods}.", n=len(held), pods=_names(held))
    return ""


def _node_go_on(hop: HopPlan, drains: Sequence[Drain], drivers: Sequence[str]) -> str:
    who = drains[0].node if len(drains) == 1 else tr("The node")
    text = tr("{node} is Ready on {version} and schedulable", node=who, version=hop.version)
    if drivers:
        published = ", ".join(
            f"{driver} {drains[0].drivers[driver]}" if len(drains) == 1 else driver for driver in drivers
        )
        text += "; " + tr(
            "it publishes its devices again ({published}; give it two minutes)", published=published
        )
    return text + "."


def _node_notes(scene: Scene, drains: Sequence[Drain], drivers: Sequence[str]) -> list[str]:
    notes = []
    if len(drains) > 1:
        notes.append(
            tr("Set NODE to each in turn: {nodes}.", nodes=_names((d.node for d in drains), most=400))
        )
        parallel = scene.profile.minutes.node_parallel
        if parallel > 1:
            notes.append(tr("Up to {n} at a time, as the profile says.", n=parallel))
    budgets = sorted({budget for drain in drains for budget in drain.budgets})
    if budgets:
        notes.append(
            tr(
                "The drain hangs while PodDisruptionBudget {budgets} allows no disruption: {step} comes first.",
                budgets=_names(budgets),
                step="{{people}}",
            )
        )
    bare = sorted({pod for drain in drains for pod in drain.bare})
    if bare:
        notes.append(tr("--force deletes Pods without a controller, for good: {pods}.", pods=_names(bare)))
    empty = sorted({pod for drain in drains for pod in drain.emptydir})
    if empty:
        notes.append(tr("--delete-emptydir-data: the emptyDir data of {pods} goes.", pods=_names(empty)))
    if drivers:
        notes.append(
            tr(
                "A starting kubelet deletes its node's ResourceSlices until each driver has registered again: a low count right after the start is no fault. The drivers' DaemonSet Pods stay through the drain, so that claims are unprepared properly: never delete them first."
            )
        )
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
    drivers = sorted({driver for drain in drains for driver in drain.drivers})
    grouped = group or dist.nodes == "pool-all"
    commands = (
        list(scene.commands(dist.commands.get("pool", ()), hop, "", {"group": quoted(group)}))
        if grouped
        else []
    )
    if not grouped:
        flags = {"drain_flags": "--ignore-daemonsets --timeout=15m", "node": '"$NODE"'}
        commands += [
            Command(
                text=f"kubectl drain {flags['node']} {flags['drain_flags']}", where=KUBECTL, runs="write"
            ),
        ]
    label = dist.pool_label
    selector = f" -l {quoted(f'{label}={group}')}" if group and label else ""
    commands.append(_command(f"kubectl get nodes{selector} -o wide"))
    budgets = sorted({budget for drain in drains for budget in drain.budgets})
    bare = sorted({pod for drain in drains for pod in drain.bare})
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
                budgets=_names(budgets),
                step="{{people}}",
            )
        )
    if bare:
        notes.append(tr("Pods without a controller that go for good: {pods}.", pods=_names(bare)))
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
        else tr("Move {n} nodes to {version}", n=len(members), version=hop.version),
        why=_node_why(drains),
        commands=commands,
        nodes=members,
        minutes=node_minutes(scene, drains),
        go_on=tr("Every node of it is Ready on {version}", version=hop.version)
        + (
            "; " + tr("devices are published again by {drivers}", drivers=", ".join(drivers))
            if drivers
            else ""
        )
        + ".",
        stop=tr("The provider reports a failure, or new nodes do not become Ready."),
        checks=[
            "check:kubelets",
            "check:not-ready",
            "check:cordoned",
            *(f"check:devices:{driver}" for driver in drivers),
        ],
        rollback=["back:kubelet"],
        notes=notes,
        hop=hop.label,
    )


def _workers_released(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    templates = scene.distribution.commands.get("workers", ())
    if not templates or not scene.pending_nodes:
        return []
    drains = [scene.drain_of(name) for name in scene.pending_nodes if name not in scene.control_nodes]
    if not drains:
        return []
    drivers = sorted({driver for drain in drains for driver in drain.drivers})
    return [
        StepDraft(
            key=f"node:{hop.version}:workers",
            phase="nodes",
            title=tr("Let the {n} workers follow", n=len(drains)),
            why=_node_why(drains),
            commands=list(scene.commands(templates, hop)),
            nodes=tuple(drain.node for drain in drains),
            minutes=node_minutes(scene, drains),
            go_on=tr("Every node of it is Ready on {version}", version=hop.version) + ".",
            stop=tr("The pool is degraded, or a drain hangs."),
            checks=[
                "check:kubelets",
                "check:not-ready",
                "check:cordoned",
                *(f"check:devices:{driver}" for driver in drivers),
            ],
            rollback=["back:kubelet"],
            notes=_node_notes(scene, [d for d in drains if d.budgets or d.bare][:1], ())
            if any(d.budgets or d.bare for d in drains)
            else [],
            hop=hop.label,
        )
    ]


# ------------------------------------------------------------------------------------------------ drivers


def driver_target(scene: Scene, driver: Driver) -> tuple[str, str, str]:
    """(version wished, image to set, container) for a driver; empty texts where the profile does not move it."""
    for wish in scene.profile.drivers:
        if wish.name != driver.driver or not (wish.version or wish.image):
            continue
        from changegen.assess.context import VersionWish

        asked = VersionWish.parse(wish.version) if wish.version else None
        if asked is not None and asked.satisfied(driver.version) and not wish.image:
            return "", "", ""
        image = wish.image
        if image and image == driver.image:
            return "", "", ""
        if (
            not image
            and asked is not None
            and asked.operator == "="
            and asked.version is not None
            and driver.image
        ):
            reference = parse_image(driver.image)
            if reference.tag and not reference.digest:
                prefix = "v" if reference.tag.startswith("v") else ""
                image = driver.image[: -len(reference.tag)] + prefix + asked.version.release
        return wish.version or (parse_image(image).tag or image), image, wish.container or driver.container
    return "", "", ""


def _drivers(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    steps = []
    for driver in scene.snapshot.drivers:
        version, image, container = driver_target(scene, driver)
        if not version:
            continue
        commands: list[Command] = []
        notes = [tr("After the cluster on the way up; on the way down the drivers go first.")]
        workload = driver.workload
        if workload is not None:
            kind = workload.kind.lower()
            where = f"-n {quoted(workload.namespace)}"
            if image and container:
                commands.append(
                    _command(
                        f"kubectl {where} set image {kind}/{quoted(workload.name)} {quoted(f'{container}={image}')}",
                        write=True,
                    )
                )
            else:
                notes.append(
                    tr(
                        "The profile names no image (drivers: image): upgrade it as it was installed, with its chart or manifest."
                    )
                )
            commands.append(
                _command(f"kubectl {where} rollout status {kind}/{quoted(workload.name)} --timeout=10m")
            )
            commands.append(_command("kubectl get resourceslices.resource.k8s.io"))
            notes.append(
                tr(
                    "That {workload} serves this driver is inferred: {why}.",
                    workload=f"{workload.kind} {workload.namespace}/{workload.name}",
                    why="; ".join(driver.workload_evidence) or "-",
                )
            )
            if driver.chart:
                notes.append(
                    tr(
                        "It came with chart {chart}: upgrade the release of the chart, or the next one undoes this.",
                        chart=driver.chart,
                    )
                )
        else:
            notes.append(tr("Which workload serves it was not seen."))
        key = f"driver:{driver.driver}"
        steps.append(
            StepDraft(
                key=key,
                phase="drivers",
                title=tr(
                    "Upgrade DRA driver {driver} from {today} to {version}",
                    driver=driver.driver,
                    today=driver.version,
                    version=version,
                ),
                why=tr("The profile asks for it."),
                commands=commands,
                nodes=driver.nodes if len(driver.nodes) <= MOST_SINGLE else (),
                minutes=scene.profile.minutes.driver,
                go_on=tr(
                    "All Pods of the workload are ready, the pools are complete in a new generation, and the same devices are published."
                ),
                stop=tr("A Pod does not become ready, or a pool stays incomplete for five minutes."),
                checks=[
                    f"check:driver-image:{driver.driver}",
                    f"check:driver-ready:{driver.driver}",
                    f"check:devices:{driver.driver}",
                    f"check:pools:{driver.driver}",
                ],
                rollback=[f"back:driver:{driver.driver}"],
                findings=[
                    item.id
                    for item in findings
                    if item.subject.component == "driver"
                    and driver.driver in (item.subject.name, *item.subject.instances)
                ],
                notes=notes,
            )
        )
    return steps


# ------------------------------------------------------------------------------------------------ after


def _after(scene: Scene, hop: HopPlan | None) -> list[StepDraft]:
    steps: list[StepDraft] = []
    if hop is not None:
        steps += _addons(scene, hop)
        steps += _bare(scene)
        steps.append(_settle(scene, hop))
    steps.append(_close(scene))
    return steps


def _addons(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    templates = scene.distribution.commands.get("addons", ())
    workloads = {
        item.addon: item for item in scene.snapshot.workloads if item.addon in ("kube-proxy", "coredns")
    }
    if not templates and not workloads:
        return []
    node = scene.control_nodes[-1] if scene.control_nodes else ""
    commands = [
        _command(f"kubectl -n {quoted(item.namespace)} get {item.kind.lower()} {quoted(item.name)} -o wide")
        for item in workloads.values()
    ]
    commands += scene.commands(templates, hop, node)
    notes = []
    kubeadm = scene.distribution.name == "kubeadm"
    if kubeadm:
        notes.append(
            tr(
                "kubeadm moves both only once it sees every API server on one image: the last node's run does it, and skips it silently otherwise. The command does it again and changes nothing that is done."
            )
        )
        notes.append(
            tr(
                "kubeadm-config must say {version} without the removed gates: it is what the next run starts from.",
                version=hop.version,
            )
        )
    elif not templates:
        notes.append(tr("If they still run the old version, upgrade them as they were installed."))
    return [
        StepDraft(
            key="addons",
            phase="after",
            title=tr("Make sure that kube-proxy and CoreDNS followed"),
            why=tr("They are easily left behind: nodes' services and names depend on them."),
            commands=commands,
            nodes=(node,) if node and templates else (),
            minutes=5,
            go_on=_addon_go_on(hop, kubeadm=kubeadm),
            stop=tr("A rollout does not end: put the previous image back."),
            checks=[
                "check:kube-proxy-image",
                "check:kube-proxy-running",
                "check:kube-proxy-ready",
                "check:coredns-image",
                "check:coredns-ready",
                "check:kubeadm-version",
            ],
            rollback=["back:addons"],
            notes=notes,
            hop=hop.label,
        )
    ]


def _addon_go_on(hop: HopPlan, *, kubeadm: bool) -> str:
    if kubeadm and hop.coredns:
        return tr(
            "kube-proxy runs {version} on every node, CoreDNS {coredns}, and kubeadm-config says {version}.",
            version=hop.version,
            coredns=hop.coredns,
        )
    return tr(
        "kube-proxy and CoreDNS run the versions that belong to {version}, on every node.",
        version=hop.version,
    )


def _bare(scene: Scene) -> list[StepDraft]:
    pods = [pod for pod in scene.bare_pods if not pod.node or pod.node in scene.pending_nodes]
    if not pods or scene.distribution.nodes == "by-control-plane":
        return []
    commands = [
        _command(f"kubectl create -f {quoted(f'pod-{pod.namespace}-{pod.name}.yaml')}", write=True)
        for pod in pods
    ]
    return [
        StepDraft(
            key="bare",
            phase="after",
            title=tr("Create again the Pods that have no controller"),
            why=tr("Nothing else brings them back."),
            commands=commands,
            minutes=5,
            go_on=tr("They run where they ran, or their owner does not want them any more."),
            stop=tr("A claim of theirs is not allocated."),
            checks=["check:waiting", "check:pending"],
            rollback=["back:bare"],
            notes=[
                tr(
                    "Better from their owner's own manifest: a saved Pod still names its node, its UID and its status."
                ),
                *(
                    [
                        tr(
                            "{pods} were Pending before the change.",
                            pods=_names(f"{p.namespace}/{p.name}" for p in pods if p.phase == "Pending"),
                        )
                    ]
                    if any(p.phase == "Pending" for p in pods)
                    else []
                ),
            ],
        )
    ]


def _settle(scene: Scene, hop: HopPlan) -> StepDraft:
    commands = [
        _command(
            'rm -rf "${KUBECACHEDIR:-$HOME/.kube/cache}/discovery"',
            where=tr("every machine with kubectl"),
            write=True,
        ),
        _command("kubectl get nodes"),
    ]
    notes = [
        tr("kubectl keeps what the old server served for hours, and asks the wrong API version until then.")
    ]
    for rule in scene.snapshot.taint_rules:
        if rule.effect == "NoExecute":
            notes.append(
                tr(
                    "DeviceTaintRule {name} has effect NoExecute: with {version} it evicts unless its gate is off. PodDisruptionBudgets are not asked.",
                    name=rule.name,
                    version=hop.version,
                )
            )
    if scene.distribution.name == "kubeadm":
        notes.append(tr("Certificates were renewed: copy the new admin.conf where the old one is used."))
    return StepDraft(
        key="settle",
        phase="after",
        title=tr("Clear kubectl's discovery caches and look at the nodes"),
        commands=commands,
        minutes=5,
        go_on=tr("Every node is Ready and schedulable but those that were not before."),
        stop=tr("A node stays cordoned or not Ready."),
        checks=["check:cordoned", "check:taints", "check:services-down"],
        rollback=["back:kubelet"],
        notes=notes,
    )


def _close(scene: Scene) -> StepDraft:
    return StepDraft(
        key="close",
        phase="after",
        title=tr("Fill the checklist from a second reading and close the change"),
        why=tr(
            "Planned and done, planned and not done, done and not planned: the closing report says all three."
        ),
        commands=[
            _command("changegen verify ticket.json -o report.md", where=tr("any machine with changegen")),
        ],
        minutes=max(5, scene.profile.minutes.check * 10),
        go_on=tr("Every check passes, and nothing is planned and not done."),
        stop=tr("A check fails: decide whether to mend or to go back before the window ends."),
        checks=["check:mapped", "check:held", "check:unhealthy", "check:pending"],
        notes=[tr("What is unknown does not pass: runtime checks need someone who looks.")],
    )


# ------------------------------------------------------------------------------------------------ blockers


def _resolve_blockers(scene: Scene, steps: list[StepDraft], findings: Sequence[Finding]) -> None:
    """A step for each blocking finding that no other step mends, so that no blocker is without a remedy."""
    mended = {finding for step in steps for finding in step.findings if step.phase == "before"}
    position = next((at for at, step in enumerate(steps) if step.phase != "before"), len(steps))
    extra = []
    for item in findings:
        if (
            item.severity != "blocking"
            or item.id in mended
            or (item.accepted is not None and not item.accepted.expired)
        ):
            continue
        extra.append(
            StepDraft(
                key=f"resolve:{item.id}",
                phase="before",
                title=tr("Resolve: {title}", title=item.title),
                why=item.message,
                minutes=15,
                go_on=tr("A new reading no longer shows {code} for it.", code=item.code),
                stop=tr("It still shows."),
                findings=[item.id],
                checks=[],
                notes=[item.advice] if item.advice else [],
            )
        )
    steps[position:position] = extra
