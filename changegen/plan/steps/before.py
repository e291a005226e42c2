"""Steps before the window: the reading kept, backups, remedies, decisions of owners, the distribution's own check."""

from __future__ import annotations

import re
from collections.abc import Sequence

from changegen.i18n import tr
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.saved import config_map_file, rule_file, saved_config_maps, saved_once
from changegen.plan.scene import CONTROL, HopPlan, Scene
from changegen.plan.steps.common import (
    MOST_NAMED,
    command,
    configz_flag,
    dedupe,
    gathered,
    in_turn,
    other_parts,
    package_notes,
    packages,
)
from changegen.plan.steps.drift import drift
from changegen.plan.steps.owners import people
from changegen.plan.steps.remedies import gate_faults, remedies, stored_objects, without_gates
from changegen.shell import quoted


def before(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """The steps before the window, in order; ``hop`` is the first one, None where no version changes."""
    steps = [_keep(scene, hop, findings)]
    # Nothing of the control plane is touched before its health is known and its files are kept.
    if hop is not None:
        steps += _etcd_health(scene, hop)
        steps += _backups(scene, hop)
    steps += drift(scene, findings, hop)
    steps += remedies(scene, findings)
    steps += stored_objects(scene, findings)
    steps += _parts(scene, findings)
    steps += people(scene, findings, hop)
    if hop is not None:
        steps += _prepare(scene, hop, findings)
        # Last of all: what is written after it is lost when it is restored.
        steps += _etcd_snapshot(scene, hop)
    return steps


def _keep(scene: Scene, hop: HopPlan | None, findings: Sequence[Finding]) -> StepDraft:
    release = scene.fields(hop)["release"] if hop is not None else "change"
    name = f"before-{release}.json.gz"
    where = tr("any machine with changegen")
    commands = [
        command(f"TICKET_INPUT={quoted(scene.snapshot.source.description or 'INPUT')}", where=where),
        command(f"changegen snapshot{configz_flag(scene)} -o {quoted(name)}", where=where),
        command(f'changegen diff "$TICKET_INPUT" {quoted(name)} --exit-code', where=where),
    ]
    notes = [
        tr(
            "TICKET_INPUT is the input that this ticket was made from, by its own name: put its path before it where it lies elsewhere. A ticket made from the live cluster holds its reading: keep one with changegen snapshot when the ticket is made."
        )
    ]
    go_on = tr(
        "Nothing differs between the ticket's reading and this one, or each difference is explained and no step depends on it."
    )
    stop = tr("Something differs that nobody can explain: make the ticket anew.")
    running = [item for item in findings if item.code.split("-")[1] == "RUN"]
    if running:
        commands += [
            command(f"kubectl --server={quoted(url)} get --raw /version")
            for url in scene.apiserver_urls.values()
        ]
        commands.append(
            command(
                "date -u +%FT%TZ; kubectl -n kube-system get leases.coordination.k8s.io -o 'custom-columns=NAME:.metadata.name,HOST:.metadata.labels.kubernetes\\.io/hostname,HOLDER:.spec.holderIdentity,RENEWED:.spec.renewTime'"
            )
        )
        notes += [item.message for item in running if item.severity == "warning" or item.preexisting][:4]
        if scene.apiserver_urls:
            asked = ", ".join(f"{node} {url}" for node, url in scene.apiserver_urls.items())
            notes.append(tr("Each kube-apiserver at its own address: {addresses}.", addresses=asked))
        leaders = [item.subject.component for item in running if item.subject.name == "leader"]
        if leaders:
            notes.append(
                tr(
                    "Which instance leads {components} this reading does not tell: the holder in its lease is the host's name and an id. The node of a leader goes last; with a holder that fits no node, keep the order of this plan.",
                    components=", ".join(dict.fromkeys(leaders)),
                )
            )
        go_on += " " + tr(
            "Each API server answers {version}. Read the leases now, whatever this ticket's reading could tell: of each that was renewed within the last minute, the host (the label, or what stands before _ in the holder) is a control-plane node, or somebody can say what runs there.",
            version=scene.today,
        )
        stop += " " + tr("A lease that is renewed names a host that nobody knows.")
    return StepDraft(
        key="keep",
        phase="before",
        title=tr("Read the cluster again, ask each API server itself, and keep the snapshot with the ticket")
        if running
        else tr("Read the cluster again and keep the snapshot with the ticket"),
        why=tr(
            "The plan is as true as the reading: what changed since then must be seen before the change starts."
        ),
        commands=commands,
        minutes=2,
        go_on=go_on,
        stop=stop,
        notes=notes,
    )


def _etcd_node(scene: Scene) -> str:
    if scene.members:
        return scene.members[0].node
    return scene.control_nodes[0] if scene.control_nodes else ""


def _etcd_health(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist = scene.distribution
    node = _etcd_node(scene)
    health = dist.commands.get("etcd-health", ())
    if not health or not node or not (scene.members or dist.etcd == "os"):
        return []
    tools = dist.commands.get("etcd-tools", ())
    members = tuple(member.node for member in scene.members) or (node,)
    commands = gathered([(name, scene.commands(tools, hop, name)) for name in members]) if tools else []
    version = scene.members[0].version if scene.members else ""
    notes = _etcd_notes(scene)
    go_on = tr(
        "All members answer, one is leader, raft indexes are close, no alarm, the database is well below its quota."
    )
    if tools:
        notes.insert(
            0,
            tr(
                "etcdctl and etcdutl are not on the machines of {distribution}: the commands copy them out of the etcd that runs there, to work while its Pod is stopped too. An image without etcdutl: take both from the release archive of etcd {version}, and check its SHA-256.",
                distribution=dist.title or tr("the distribution"),
                version=version,
            ),
        )
        go_on = (
            tr("etcdctl and etcdutl print {version} on every node.", version=version.lstrip("v"))
            + " "
            + go_on
        )
    return [
        StepDraft(
            key="etcd-health",
            phase="before",
            title=tr("Put etcdctl and etcdutl on the nodes, and check that every etcd member is healthy")
            if tools
            else tr("Check that every etcd member is healthy"),
            why=tr("An upgrade takes one member out at a time: with another one ill the quorum goes."),
            commands=[*commands, *scene.commands(health, hop, node)],
            nodes=members,
            minutes=2 + (len(members) if tools else 0),
            go_on=go_on,
            stop=tr("A member does not answer, or an alarm (NOSPACE, CORRUPT) is raised."),
            notes=notes,
            used_by=["back:etcd", "back:etcd-downgrade", "back:etcd-member", "back:restore"],
        )
    ]


def _etcd_snapshot(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist = scene.distribution
    node = _etcd_node(scene)
    save = dist.commands.get("etcd-snapshot", ())
    known = (
        bool(scene.members)
        or dist.etcd in ("bundled", "os")
        or (dist.name == "kubeadm" and not scene.external_etcd)
    )
    steps: list[StepDraft] = []
    if save and node and known:
        commands = list(scene.commands(save, hop, node))
        copy = dist.commands.get("etcd-copy", ())
        others = [member.node for member in scene.members if member.node != node]
        if copy:
            commands += scene.commands(copy, hop, node)
            each = [
                (name, scene.commands(dist.commands.get("etcd-copy-member", ()), hop, name))
                for name in others
            ]
            commands += [item for _, made in each for item in made]
        status = any("snapshot status" in item.text for item in save)
        go_on = (
            tr("The status shows a hash, a revision and a size that fits.")
            if status
            else tr("It has ended without an error.")
        )
        go_on += " " + (
            tr(
                "sha256sum says OK where the copy is kept, which is no node of the cluster, and on {nodes}.",
                nodes=", ".join(others),
            )
            if copy and others
            else tr("sha256sum says OK where the copy is kept, which is no node of the cluster.")
            if copy
            else tr("A copy with its checksum is not on a node of the cluster.")
        )
        go_on += " " + tr("It is not older than 15 minutes when {step} starts.", step="{{cp:first}}")
        steps.append(
            StepDraft(
                key="etcd-snapshot",
                phase="before",
                title=tr("Last of all, take an etcd snapshot on {node} and copy it off the node", node=node),
                why=tr("It is the last way back: everything written after it is lost when it is restored."),
                commands=commands,
                nodes=(node,),
                minutes=scene.profile.minutes.etcd_snapshot,
                go_on=go_on,
                stop=tr("The snapshot fails, its status cannot be read, or a copy differs."),
                used_by=["back:restore", *(["back:control-plane"] if dist.downgrade == "restore" else [])],
                notes=_snapshot_notes(scene),
            )
        )
    elif not scene.snapshot.cluster.managed and dist.etcd != "hidden" and not scene.external_etcd:
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
                used_by=["back:restore", *(["back:control-plane"] if dist.downgrade == "restore" else [])],
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
                used_by=["back:restore"],
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
    if fields.get("etcd_pod") and not scene.distribution.commands.get("etcd-tools"):
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


def _snapshot_notes(scene: Scene) -> list[str]:
    notes = [tr("The snapshot holds every Secret of the cluster: keep it as one.")]
    if any(
        "! " in item.text and " ls -l" in item.text for item in scene.distribution.commands["etcd-snapshot"]
    ):
        notes.append(
            tr(
                "A file that is there already is shown and not written over. Move it away only while {step} has not started: taken later it is no snapshot of before.",
                step="{{cp:first}}",
            )
        )
    if scene.distribution.name == "k3s":
        notes.append(
            tr(
                "Only with embedded etcd: with SQLite copy /var/lib/rancher/k3s/server/db while k3s is stopped, with an external database back that up."
            )
        )
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
        commands = gathered([(node, scene.commands(local, hop, node)) for node in nodes or ("",)])
        moved = [node for node in nodes if scene.state_of(node) != "todo"]
        notes = [tr("The copies hold private keys.")] if scene.pki else []
        notes.append(
            tr(
                "A copy that is there already is kept, so that done again it saves nothing of the change; one of an earlier attempt goes out of the way first."
            )
        )
        kept = dist.downgrade == "one-way" and not nodes
        if moved and dist.name == "kubeadm":
            notes.append(
                tr(
                    "{nodes}: the manifests there are the new ones already; kubeadm keeps the old ones in /etc/kubernetes/tmp/kubeadm-backup-manifests-*.",
                    nodes=", ".join(moved),
                )
            )
        steps.append(
            StepDraft(
                key="backup",
                phase="before",
                title=tr("Save what the provider says of the cluster")
                if kept
                else tr("Back up the control plane's configuration and the objects that the way back needs"),
                why=tr("Nothing can be put back from it: it shows afterwards how the cluster was set up.")
                if kept
                else tr("The way back puts these files back; it cannot be made from the cluster afterwards."),
                commands=dedupe(commands),
                nodes=nodes,
                minutes=2 * max(1, len(nodes)),
                go_on=tr("The copies are there on every node named, and readable by root only.")
                if nodes and dist.control_plane == "one-by-one"
                else tr("The files are not empty and are kept with the ticket."),
                stop=tr("A copy is missing."),
                notes=notes,
                used_by=[]
                if kept
                else [
                    "back:kubelet",
                    "back:control-plane",
                    "back:etcd",
                    "back:etcd-downgrade",
                    "back:restore",
                ],
            )
        )
    served = _serves_dra(scene)
    objects = [
        item for item in dist.commands.get("objects", ()) if served or "resource.k8s.io" not in item.text
    ]
    if objects:
        commands = list(scene.commands(objects, hop))
        commands[:0] = [
            command(
                saved_once(
                    f"kubectl -n {quoted(item.namespace)} get configmap {quoted(item.name)} -o yaml",
                    config_map_file(item.name, scene.fields(hop)["release"]),
                )
            )
            for item in saved_config_maps(scene)
        ]
        for rule in scene.snapshot.taint_rules:
            commands.append(
                command(
                    saved_once(
                        f'kubectl --cache-dir="$(mktemp -d)" get devicetaintrules.resource.k8s.io {quoted(rule.name)} -o yaml',
                        rule_file(rule),
                    )
                )
            )
        saved = StepDraft(
            key="objects",
            phase="before",
            title=tr("Save the objects that the way back needs"),
            why=tr("ConfigMaps, add-ons, DeviceClasses, claims and rules as they are today."),
            commands=commands,
            minutes=2,
            go_on=tr("The files are not empty and are kept with the ticket."),
            stop=tr("A command fails."),
            used_by=["back:config"],
            notes=[
                tr(
                    "kubectl writes files on the machine where it runs, nothing in the cluster, and none that is there already."
                )
            ],
        )
        if steps:
            _merge(steps[0], saved)
        else:
            steps.append(saved)
    return steps


def _merge(step: StepDraft, other: StepDraft) -> None:
    """One step of two that belong together: its own title and reason, the commands and proofs of both."""
    step.also = (*step.also, other.key)
    step.commands = [*step.commands, *other.commands]
    step.minutes = (step.minutes or 0) + (other.minutes or 0)
    if other.go_on not in step.go_on:
        step.go_on = f"{step.go_on} {other.go_on}"
    step.rollback = [*step.rollback, *other.rollback]
    step.used_by = [*step.used_by, *other.used_by]
    step.notes = [*step.notes, *other.notes]


_PARTS = ("PART", "NODE")
_DRIVERS = ("SLICE", "DRIVER", "RBAC", "CLAIM")
_OF_MACHINES = ("CG-NODE-005", "CG-NODE-006")


def _parts(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """What only the owners of drivers and of other parts know, and what nobody's data says: support for the target."""
    parts = {name: version for name, version in other_parts(scene).items() if scene.hops}
    drivers = [i for i in findings if i.code.split("-")[1] in _DRIVERS and i.severity == "warning"]
    others = [i for i in findings if i.code.split("-")[1] in _PARTS] if scene.hops else []
    asked = [i for i in others if i.code != "CG-PART-001"]
    if not parts and not drivers and not asked:
        return []
    commands: list[Command] = []
    notes: list[str] = []
    if drivers:
        commands += [
            command("kubectl get resourceslices.resource.k8s.io -o wide"),
            command("kubectl get deviceclasses.resource.k8s.io,resourceclaims.resource.k8s.io -A"),
        ]
        notes += [item.message for item in drivers[:6]]
        # The finding's own next command: the log of the driver's Pod on that node.
        commands += [command(text) for item in drivers[:6] for text in _COMMAND.findall(item.advice)]
    notes += [item.message for item in asked if item.code not in _OF_MACHINES]
    made = _machines(scene, [item for item in asked if item.code in _OF_MACHINES])
    commands += made[0]
    notes += made[1]
    if any(item.subject.component == "kube-proxy" for item in asked):
        commands.append(
            command("kubectl -n kube-system get configmap kube-proxy -o yaml | grep -nE '^ *mode:'")
        )
        notes.append(
            tr("An empty mode of kube-proxy means the default of the platform; write there what is meant.")
        )
    if scene.simulated and len(scene.simulated) == len(scene.snapshot.nodes):
        notes.append(
            tr(
                "Nodes look simulated (kubemark, fakeRuntime): their runtime, kernel and operating system say nothing of a machine."
            )
        )
    if parts:
        notes.append(
            tr(
                "Kubernetes' own data says nothing of them: {parts}.",
                parts="; ".join(f"{k} {v}" for k, v in parts.items()),
            )
        )
    go_on = []
    if drivers:
        go_on.append(tr("What is odd is explained or mended."))
    if asked:
        go_on.append(tr("Each point named here is settled."))
    if parts:
        go_on.append(tr("The release notes of each part name the target minor."))
    stop = []
    if drivers:
        stop.append(tr("An owner says that it is a fault which this change can make worse."))
    if parts or asked:
        stop.append(
            tr("A part does not support the target: upgrade that part first, for the version of today.")
        )
    title = (
        tr("Ask the owners of the DRA drivers and of the other parts")
        if drivers and (parts or asked)
        else tr("Let the owners of the DRA drivers explain what is odd today")
        if drivers
        else tr("Look up whether the other parts support {version}", version=scene.target)
    )
    return [
        StepDraft(
            key="parts",
            also=("driver-owners",),
            phase="before",
            title=title,
            why=tr("After the change it would be taken for its effect.") if drivers else "",
            commands=dedupe(commands),
            minutes=15 * (bool(drivers) + bool(parts or asked)),
            go_on=" ".join(go_on),
            stop=" ".join(stop),
            findings=[item.id for item in (*drivers, *others)],
            notes=notes,
        )
    ]


_COMMAND = re.compile(r"`(kubectl [^`]+)`")
"""A command within the advice of a finding."""


def _machines(scene: Scene, items: Sequence[Finding]) -> tuple[list[Command], list[str]]:
    """What kubeadm's preflight says of kernels and cgroups, and how to look at the machines.

    ``kubeadm upgrade apply`` and ``node`` run the check SystemVerification (cmd/kubeadm/app/preflight/checks.go,
    RunUpgradeChecks). A kernel that its list does not name is a warning (k8s.io/system-validators, kernel_validator.go);
    cgroup v1 is an error from kubeadm 1.35 on, whatever the kubelet's failCgroupV1 says. Both run with the real kubeadm
    1.35.4, 1.36.3 and 1.37.2.
    """
    commands: list[Command] = []
    notes: list[str] = []
    kubeadm = scene.distribution.name == "kubeadm"
    for item in items:
        said = [item.message]
        if kubeadm and item.code == "CG-NODE-006":
            nodes = [name for name in scene.nodes if name in item.subject.instances] or list(scene.nodes)
            commands.append(command("uname -r", where=_each_of(nodes)))
            said.append(
                tr(
                    "kubeadm upgrade prints it as [WARNING SystemVerification] and goes on: no flag is needed."
                )
            )
        elif kubeadm and item.code == "CG-NODE-005":
            commands.append(command("stat -fc %T /sys/fs/cgroup", where=_each_of(list(scene.nodes))))
            said.append(
                tr(
                    "A node that prints tmpfs has cgroup v1, cgroup2fs is v2. With v1, kubeadm upgrade apply and node stop there with [ERROR SystemVerification], whatever failCgroupV1 says. Decide: the node to cgroup v2 first, or failCgroupV1: false in ConfigMap kubelet-config and --ignore-preflight-errors=SystemVerification on its kubeadm upgrade; then nothing checks kernel and cgroups."
                )
            )
        notes.append(" ".join(said))
    return commands, notes


def _each_of(nodes: Sequence[str]) -> str:
    return in_turn(nodes) if len(nodes) <= MOST_NAMED else tr("each node")


def _serves_dra(scene: Scene) -> bool:
    """Whether the cluster has device objects to save, or at least their API."""
    snapshot = scene.snapshot
    if snapshot.device_classes or snapshot.claims or snapshot.claim_templates or snapshot.pools:
        return True
    return any(api.group_version.startswith("resource.k8s.io/") for api in snapshot.apis)


def _prepare(scene: Scene, hop: HopPlan, findings: Sequence[Finding]) -> list[StepDraft]:
    """The new tool and images on the control plane, and the distribution's own check with it."""
    dist = scene.distribution
    first = scene.control_nodes[0] if scene.control_nodes else ""
    waiting = [node for node in scene.control_nodes if scene.state_of(node) == "todo"]
    steps: list[StepDraft] = []
    images = dist.commands.get("images", ())
    if images and waiting:
        commands = gathered(
            [
                (node, [*packages(scene, "kubeadm", hop, node), *scene.commands(images, hop, node)])
                for node in (waiting if "{node}" in images[0].where else waiting[:1])
            ]
        )
        notes = package_notes(scene, waiting)
        go_on = tr("Every image of {version} is on the nodes.", version=hop.version)
        if dist.packages:
            go_on = tr("kubeadm version prints {version}.", version=hop.version) + " " + go_on
        steps.append(
            StepDraft(
                key="images",
                phase="before",
                title=tr(
                    "Bring {tool} and the images of {version} to the control plane",
                    tool="kubeadm",
                    version=hop.version,
                )
                if dist.packages
                else tr("Fetch the images before the window"),
                why=tr(
                    "A registry or repository that does not answer is found now, not with a member of etcd down."
                ),
                commands=dedupe(commands),
                nodes=tuple(waiting),
                minutes=5,
                go_on=go_on,
                stop=tr("An image cannot be fetched."),
                rollback=["back:packages"],
                notes=notes,
            )
        )
    plan = dist.commands.get("plan", ())
    if plan and (first or dist.control_plane == "one-command"):
        asked = _own_check(scene, hop, findings, list(scene.commands(plan, hop, first)), first)
        if steps:
            _merge(steps[0], asked)
            steps[0].title = tr(
                "Bring kubeadm and the images of {version} to the control plane, and ask its own check",
                version=hop.version,
            )
            steps[0].stop = tr("An image cannot be fetched, it refuses the version, or its preflight fails.")
        else:
            steps.append(asked)
    return steps


def _own_check(
    scene: Scene, hop: HopPlan, findings: Sequence[Finding], commands: list[Command], node: str
) -> StepDraft:
    notes = []
    go_on = tr(
        "It offers {version} and names no manual step that is not in this ticket.", version=hop.version
    )
    if scene.distribution.name == "kubeadm":
        go_on = tr(
            "kubeadm upgrade plan offers {version} and names no manual step that is not in this ticket.",
            version=hop.version,
        )
        notes.append(
            tr(
                "kubeadm upgrade plan creates a Job (upgrade-health-check) and deletes it again: it is not read-only. It looks at no feature gate of a component."
            )
        )
        if any("upgrade diff" in item.text for item in commands):
            go_on += " " + tr(
                "The diff moves the images of kube-apiserver, kube-controller-manager and kube-scheduler to {version}; every other line of it is a flag that this ticket names.",
                version=hop.version,
            )
            notes += _diff_notes(scene, findings)
    return StepDraft(
        key="plan",
        phase="before",
        title=tr("Ask the distribution's own check"),
        why=tr("What it refuses, it refuses at the change too."),
        commands=commands,
        nodes=(node,) if node else (),
        minutes=5,
        go_on=go_on,
        stop=tr("It refuses the version, or its preflight fails."),
        rollback=["back:packages"],
        notes=notes,
    )


def _diff_notes(scene: Scene, findings: Sequence[Finding]) -> list[str]:
    """What ``kubeadm upgrade diff`` must show on this cluster: gates that differ between kubeadm-config and the manifests."""
    config = next((item for item in scene.snapshot.config_maps if item.kind == "kubeadm"), None)
    if config is None:
        return []
    refused = sorted({item.subject.name for item in gate_faults(findings)})
    first = scene.control_nodes[0] if scene.control_nodes else ""
    lines = []
    for name, source in sorted(config.component_gates.items()):
        if name not in CONTROL:
            continue
        wanted = ",".join(without_gates(value, refused) for value in source.flag_values)
        for item in scene.instances(name):
            have = ",".join(v for s in item.gate_sources[:1] for v in s.flag_values)
            if item.node == first and have != wanted:
                lines.append(f"{name}: {have or '-'} → {wanted or '-'}")
    if not lines:
        return [tr("On {node} the diff shows no change of --feature-gates.", node=first)]
    return [tr("On {node} the diff shows --feature-gates of {lines}.", node=first, lines="; ".join(lines))]
