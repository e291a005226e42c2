"""Steps before the window: the reading kept, backups, remedies, decisions of owners, the distribution's own check."""

from __future__ import annotations

from collections.abc import Sequence

from changegen.i18n import tr
from changegen.model.ticket import Finding
from changegen.plan.draft import StepDraft
from changegen.plan.saved import config_map_file, pod_file, rule_file, saved_config_maps
from changegen.plan.scene import HopPlan, Scene, quoted
from changegen.plan.steps.common import (
    command,
    dedupe,
    gathered,
    names,
    other_parts,
    packages,
)
from changegen.plan.steps.remedies import remedies, stored_objects

_PEOPLE = ("PDB", "CAP", "DRAIN", "WEBHOOK")
"""Areas of findings that need a decision of the workload's owner before a drain."""


def before(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """The steps before the window, in order; ``hop`` is the first one, None where no version changes."""
    steps = [_keep(scene, hop)]
    if hop is not None:
        steps += _etcd_steps(scene, hop)
        steps += _backups(scene, hop)
    steps += remedies(scene, findings)
    steps += stored_objects(scene, findings)
    steps += _driver_owners(findings)
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
            command(f"changegen snapshot -o {quoted(name)}", where=tr("any machine with changegen")),
            command(
                f'changegen diff "$TICKET_INPUT" {quoted(name)} --exit-code',
                where=tr("any machine with changegen"),
            ),
        ],
        minutes=2,
        go_on=tr("Nothing differs between the ticket's reading and this one."),
        stop=tr("Something differs that nobody can explain: make the ticket anew."),
        notes=[tr("TICKET_INPUT is the input that this ticket was made from; the list of inputs names it.")],
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
    known = (
        bool(scene.members)
        or dist.etcd in ("bundled", "os")
        or (dist.name == "kubeadm" and not scene.external_etcd)
    )
    if save and node and known:
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
                )
                if any("snapshot status" in item.text for item in save)
                else tr(
                    "It has ended without an error; a copy with its checksum is not on a node of the cluster."
                ),
                stop=tr("The snapshot fails, or its status cannot be read."),
                checks=["check:readyz"],
                rollback=["back:restore", "back:control-plane"],
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
                rollback=["back:restore", "back:control-plane"],
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


def _snapshot_notes(scene: Scene) -> list[str]:
    notes = [tr("The snapshot holds every Secret of the cluster: keep it as one.")]
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
                else tr("Back up the control plane's configuration"),
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
                checks=["check:readyz"],
                rollback=[] if kept else ["back:control-plane", "back:etcd"],
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
                f"kubectl -n {quoted(item.namespace)} get configmap {quoted(item.name)} -o yaml > {quoted(config_map_file(item.name, scene.fields(hop)['release']))}",
            )
            for item in saved_config_maps(scene)
        ]
        for rule in scene.snapshot.taint_rules:
            commands.append(
                command(
                    f'kubectl --cache-dir="$(mktemp -d)" get devicetaintrules.resource.k8s.io {quoted(rule.name)} -o yaml > {quoted(rule_file(rule))}',
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
    bare = [pod for pod in scene.bare_pods if pod.node in {drain.node for drain in drains}]
    if not concerned and not budgets and not bare:
        return []
    commands = []
    notes = []
    for budget in budgets:
        namespace, name = budget.split("/", 1)
        where = [drain.node for drain in drains if budget in drain.budgets]
        commands.append(
            command(f"kubectl -n {quoted(namespace)} get poddisruptionbudget {quoted(name)} -o wide")
        )
        notes.append(
            tr(
                "PodDisruptionBudget {budget} allows no disruption: the drain of {nodes} hangs until it does. Its owner scales up or relaxes it for the window; a drain with --disable-eviction would ignore it and is not planned.",
                budget=budget,
                nodes=names(where),
            )
        )
    # With its node's name in it the Pod would pass the scheduler by, and its claim would never be allocated.
    kept = "sed -e '/^  nodeName:/d' -e '/^  resourceVersion:/d' -e '/^  uid:/d'"
    commands += [
        command(
            f"kubectl -n {quoted(pod.namespace)} get pod {quoted(pod.name)} -o yaml | {kept} > {quoted(pod_file(pod))}"
        )
        for pod in bare
    ]
    if bare:
        notes.append(
            tr(
                "Without a controller, and gone for good once deleted: {pods}. Their owner keeps the manifest and creates them again in {step}.",
                pods=names(f"{pod.namespace}/{pod.name}" for pod in bare),
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
            findings=[item.id for item in findings if item.code.split("-")[1] in ("PART", "NODE")],
        )
    ]


def _serves_dra(scene: Scene) -> bool:
    """Whether the cluster has device objects to save, or at least their API."""
    snapshot = scene.snapshot
    if snapshot.device_classes or snapshot.claims or snapshot.claim_templates or snapshot.pools:
        return True
    return any(api.group_version.startswith("resource.k8s.io/") for api in snapshot.apis)


def _driver_owners(findings: Sequence[Finding]) -> list[StepDraft]:
    """Questions on DRA drivers that only their owners can answer."""
    areas = ("SLICE", "DRIVER", "RBAC", "CLAIM")
    concerned = [item for item in findings if item.code.split("-")[1] in areas and item.severity == "warning"]
    if not concerned:
        return []
    return [
        StepDraft(
            key="driver-owners",
            phase="before",
            title=tr("Let the owners of the DRA drivers explain what is odd today"),
            why=tr("After the change it would be taken for its effect."),
            commands=[
                command("kubectl get resourceslices.resource.k8s.io -o wide"),
                command("kubectl get deviceclasses.resource.k8s.io,resourceclaims.resource.k8s.io -A"),
            ],
            minutes=15,
            go_on=tr("Each is explained or mended."),
            stop=tr("A driver does not publish what it should."),
            findings=[item.id for item in concerned],
            notes=[item.message for item in concerned[:6]],
        )
    ]


def _prepare(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    dist = scene.distribution
    first = scene.control_nodes[0] if scene.control_nodes else ""
    waiting = [node for node in scene.control_nodes if scene.state_of(node) == "todo"]
    steps = []
    images = dist.commands.get("images", ())
    if images and waiting:
        commands = gathered(
            [
                (node, [*packages(scene, "kubeadm", hop, node), *scene.commands(images, hop, node)])
                for node in (waiting if "{node}" in images[0].where else waiting[:1])
            ]
        )
        unknown = dist.packages and any(scene.family(node) == "other" for node in waiting)
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
                go_on=tr("Every image of {version} is on the nodes.", version=hop.version),
                stop=tr("An image cannot be fetched."),
                checks=["check:readyz"],
                rollback=["back:packages"],
                notes=[
                    tr("How kubeadm is installed on this operating system was not seen: as it is done there.")
                ]
                if unknown
                else [],
            )
        )
    plan = dist.commands.get("plan", ())
    if plan and (first or dist.control_plane == "one-command"):
        commands = list(scene.commands(plan, hop, first))
        notes = []
        if dist.name == "kubeadm":
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
                commands=commands,
                nodes=(first,) if first else (),
                minutes=5,
                go_on=tr(
                    "It offers {version} and names no manual step that is not in this ticket.",
                    version=hop.version,
                ),
                stop=tr("It refuses the version, or its preflight fails."),
                checks=["check:readyz"],
                rollback=["back:packages"],
                notes=notes,
            )
        )
    return steps
