"""Ways back of etcd: its members, one that is ill, and the whole data store from the snapshot."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

from changegen.i18n import tr
from changegen.model.ticket import Command
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.common import named
from changegen.plan.rollback.control import until_it_answers
from changegen.plan.scene import HopPlan, Member, Scene
from changegen.plan.steps.common import (
    MOST_NAMED,
    gathered,
    in_turn,
)
from changegen.plan.verdicts import (
    etcd_verdict,
)
from changegen.shell import quoted
from changegen.versions import minor_of

__all__ = ["etcd", "looks", "member_again", "restore"]


def etcd(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Etcd's members, before and after the point at which the older ones refuse the data."""
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
    guard = looks(scene)
    commands = [
        *(guard if mixed and templates else ()),
        *_members_back(scene, hops[0], back, older, ends_kubeadm=True),
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
            guard=_etcd_guard(
                older,
                minor,
                looked=bool(guard and templates),
                alone=len(scene.members) == 1,
                downgrade=has_downgrade,
            )
            if mixed
            else "",
            go_on=tr("The member is healthy on {version}; only then the next.", version=version)
            if commands and judged.verdict != "one-way"
            else "",
            stop=tr(
                "It exits, or is not healthy after five minutes: put the newer manifest back there, {file}.",
                file=_newer_manifest(scene, hops[0]),
            )
            if commands and judged.verdict != "one-way"
            else "",
            needs=control if moves else [],
        )
    ]
    if has_downgrade:
        down = [
            *guard,
            *scene.commands(
                dist.rollback["etcd-downgrade"],
                hops[0],
                first,
                _etcd_fields(scene, older, scene.members[0]),
            ),
        ]
        down += _members_back(scene, hops[0], tuple(reversed(scene.members)), older, version)
        # Until it has ended, a member that moves up again leaves the cluster on the older version. (Run on 3.6.8 and 3.7.0.)
        ended = scene.commands(
            dist.rollback.get("etcd-downgrade-end", ()),
            hops[0],
            first,
            _etcd_fields(scene, older, scene.members[0]),
        )
        down += ended
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
                guard=_downgrade_guard(older, minor, looked=bool(guard), mixed=mixed),
                go_on=tr(
                    "Every member reports storage version {older}.0 before the first manifest is copied; then each member is healthy on {version} before the next.",
                    older=older,
                    version=version,
                )
                + (
                    " "
                    + tr(
                        "The last command waits until the downgrade has ended: nothing moves etcd up before."
                    )
                    if ended
                    else ""
                ),
                stop=tr(
                    "downgrade validate refuses, or the storage version does not go down within ten minutes: `{cancel}`, and leave etcd on {minor}.",
                    cancel=_cancel(scene),
                    minor=minor,
                )
                + (
                    " "
                    + tr(
                        "A member is not healthy after five minutes: put the newer manifest back there, {file}.",
                        file=_newer_manifest(scene, hops[0]),
                    )
                    if templates
                    else ""
                ),
                needs=[step.key for step in steps if step.no_return and step.phase == "control-plane"]
                or control[-1:],
            )
        )
    return drafts


def _newer_manifest(scene: Scene, hop: HopPlan) -> str:
    """Where a member's way back keeps the manifest that it found."""
    return f"{scene.backup}/etcd-{scene.fields(hop)['release']}.yaml"


def _cancel(scene: Scene) -> str:
    fields = scene.etcd_fields(scene.members[0].node)
    return f"sudo etcdctl {fields['etcd_tls']} --endpoints={fields['etcd_endpoint']} downgrade cancel"


def _etcd_guard(older: str, minor: str, *, looked: bool, alone: bool, downgrade: bool) -> str:
    text = (
        tr(
            "Only while the first command shows storageVersion {older}.0. {minor}.0: stop, etcd {older} would exit on these data. unknown: it does not answer; try the older manifest all the same, since etcd {older} exits on newer data and changes nothing, and then {restore} is the way.",
            older=older,
            minor=minor,
            restore="{{back:restore}}",
        )
        if looked and alone
        else tr(
            "Only while the first command shows storageVersion {older}.0 on the members that answer. {minor}.0 on one of them: stop, a member of {older} would exit on these data, and the quorum with it. unknown: that member does not answer, and the others decide. Where none does, the data are not lost yet: see on each node whether the kubelet runs, the manifest is in place and the container starts. Only what cannot be started again is for {restore}.",
            older=older,
            minor=minor,
            restore="{{back:restore}}",
        )
        if looked
        else tr(
            "Only while the storageVersion in `endpoint status` is {older}.0 on the members that answer: later a member of {older} would exit on the data of {minor}, and the quorum with it.",
            older=older,
            minor=minor,
        )
    )
    if downgrade:
        text += " " + tr(
            "With storageVersion {minor}.0, {other} is the way.", minor=minor, other="{{back:etcd-downgrade}}"
        )
    return text


def _downgrade_guard(older: str, minor: str, *, looked: bool, mixed: bool) -> str:
    if not looked:
        return tr("Only when every member is healthy.")
    text = tr(
        "Only when the first command shows storageVersion {minor}.0 for every member, and none is unknown: a downgrade with a member away does not end.",
        minor=minor,
    )
    if mixed:
        text += " " + tr(
            "With storageVersion {older}.0, {other} is the way.", older=older, other="{{back:etcd}}"
        )
    return text


def looks(scene: Scene) -> list[Command]:
    """What each member says of its version and of its data's, a line a member; one that does not answer is unknown.

    The storage version follows the version of the cluster, which rises when the last member runs the new minor, and
    decides whether an older member takes the data. (etcd server, version/monitor.go; run on 3.6.8 and 3.7.0, with a member
    dead too.)
    """
    if not scene.members:
        return []
    member = scene.members[0]
    return list(scene.commands(scene.distribution.rollback.get("etcd-guard", ()), scene.hops[0], member.node))


def _etcd_fields(scene: Scene, older: str, member: Member, version: str = "") -> dict[str, str]:
    return {
        "etcd_old_minor": older,
        "etcd_old_minor_pattern": older.replace(".", "[.]"),
        "etcd_old_version": (version or member.version).removeprefix("v").split("-", 1)[0],
        "etcd_members": str(len(scene.members)),
    }


def _members_back(
    scene: Scene,
    hop: HopPlan,
    members: Sequence[Member],
    older: str,
    version: str = "",
    *,
    ends_kubeadm: bool = False,
) -> list[Command]:
    parts = scene.distribution.rollback
    templates = (*(parts.get("no-upgrade", ()) if ends_kubeadm else ()), *parts.get("etcd", ()))
    return gathered(
        [
            (
                member.node,
                scene.commands(templates, hop, member.node, _etcd_fields(scene, older, member, version)),
            )
            for member in members
        ]
    )


def member_again(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    """One member that is ill, made again with no data: from three members on the others still have the quorum.

    kubeadm's upgrade writes a manifest that names this member alone and no --initial-cluster-state
    (cmd/kubeadm/app/phases/etcd/local.go, CreateLocalEtcdStaticPodManifestFile): with its data gone, such a member begins
    a cluster of its own. (Run on 3.7.0.)
    """
    parts = scene.distribution.rollback
    peers = {member.node: scene.fields(hop, member.node) for member in scene.members}
    known = all(
        not fields[name].startswith('"$')
        for fields in peers.values()
        for name in ("etcd_peer", "etcd_cluster")
    )
    if len(scene.members) < 3 or not known or not parts.get("etcd-member-again"):
        return []
    first = scene.members[0].node
    cluster = re.sub(r"([\\&|])", r"\\\1", ",".join(shlex.split(peers[first]["etcd_cluster"])))
    flags = f"--initial-cluster={cluster}\\n    - --initial-cluster-state=existing"
    fields = {
        "etcd_cases": " ".join(f"{own['etcd_name']}) PEER={own['etcd_peer']} ;;" for own in peers.values()),
        "etcd_existing": quoted(f"s|^    - --initial-cluster=.*$|    - {flags}|"),
    }
    healthy, ill = tr("a node whose member is healthy"), tr("the node of the ill member")
    commands = [
        msgspec.structs.replace(item, where=where)
        for where, part in (
            (healthy, "etcd-member-health"),
            (ill, "no-upgrade"),
            (ill, "etcd-member-stop"),
            (healthy, "etcd-member-again"),
            (ill, "etcd-member-start"),
        )
        for item in scene.commands(parts.get(part, ()), hop, first, fields)
    ]
    names = ", ".join(shlex.split(own["etcd_name"])[0] for own in peers.values())
    return [
        BackDraft(
            key="back:etcd-member",
            what=tr("etcd, one member that is ill, made again with no data"),
            to=tr("a member with the data of the others"),
            commands=commands,
            verdict="reversible",
            why=tr(
                "It is taken out of the cluster and added again, and gets its data from the others; its own stay beside, as member-DATE in {folder}. Set ILL to its name before the third block, on the healthy node: {names}.",
                folder=shlex.split(peers[first]["etcd_data"])[0],
                names=names,
            )
            + " "
            + tr(
                "Its manifest is written anew: the one of kubeadm upgrade names this member alone, and with no data it would begin a cluster of its own, empty, which the API server of the node would show."
            ),
            lost=tr("Nothing, while the others are healthy."),
            minutes=15,
            nodes=tuple(member.node for member in scene.members),
            guard=tr(
                "Only when one member is ill, and the first command shows all others healthy ({n} members, {quorum} needed): never a second one meanwhile. A member that was only stopped comes back by itself.",
                n=len(scene.members),
                quorum=len(scene.members) // 2 + 1,
            )
            + _last_older(scene, hop),
            go_on=tr(
                "Before the manifest is put in place, --initial-cluster names all {n} members, its state is existing, and its image is of the newer minor where storageVersion shows that. Then every member is healthy, and each of the {n} is started in the list.",
                n=len(scene.members),
            ),
            stop=tr(
                "Another member is ill too, or it is not healthy after five minutes: read its log on the node (/var/log/pods). Where member add refuses, give it again at once. Only without a quorum {restore}.",
                restore="{{back:restore}}",
            ),
        )
    ]


def _last_older(scene: Scene, hop: HopPlan) -> str:
    """What taking the only member of the older minor out does; empty where no minor is crossed.

    The cluster's version follows the lowest version among the members that are there (etcd server, version/monitor.go):
    between `member remove` and `member add` it may rise. (Run on 3.6.8 and 3.7.0.)
    """
    older = {minor_of(member.version) for member in scene.members} - {minor_of(hop.etcd)}
    if not hop.etcd or not older:
        return ""
    return " " + tr(
        "Where it is the only one that is not on {minor} yet, taking it out can be the point of no return: look at storageVersion again, and with {minor}.0 its manifest needs the image of {minor}.",
        minor=minor_of(hop.etcd) or "",
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


def restore(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    """The whole data store, from the snapshot."""
    parts = scene.distribution.rollback
    templates = parts.get("etcd-restore", ())
    if not templates or not scene.control_nodes:
        return []
    every = "etcd-restore-stop" in parts
    external = scene.external_etcd and every
    nodes = [member.node for member in scene.members] or list(scene.control_nodes[:1])
    nodes = nodes if "{node}" in templates[0].where else nodes[:1]
    if external:
        nodes = list(scene.control_nodes)

    def on_each(*names: str) -> list[Command]:
        return gathered(
            [
                (
                    node,
                    [item for name in names for item in scene.commands(parts.get(name, ()), hops[0], node)],
                )
                for node in nodes
            ]
        )

    if external:
        commands = on_each("no-upgrade", "etcd-restore-stop")
    else:
        commands = on_each("etcd-restore-check")
        commands += on_each("no-upgrade", "etcd-restore-stop") + on_each("etcd-restore")
        commands += on_each("etcd-restore-start")
        commands += scene.commands(parts.get("etcd-restore-health", ()), hops[0], nodes[0])
    if parts.get("etcd-restore-servers"):
        commands += on_each("etcd-restore-servers")
        for node in nodes:
            commands += until_it_answers(scene, node, hops[0].today)
    commands += on_each("etcd-restore-files", "etcd-restore-controllers")
    kubelets = parts.get("etcd-restore-kubelets", ())
    if kubelets:
        all_nodes = [node.name for node in scene.snapshot.nodes] or nodes
        made = gathered([(node, scene.commands(kubelets, hops[0], node)) for node in all_nodes])
        place = in_turn(all_nodes) if len(all_nodes) <= MOST_NAMED else tr("each node")
        commands += [Command(text=c.text, where=place, runs=c.runs) for c in made]
    taken = next((at for at, s in enumerate(steps) if "etcd-snapshot" in (s.key, *s.also)), len(steps))
    later = [step for step in steps[taken + 1 :] if step.phase == "before"]
    changed = named(later, "config:", "tidy:", "stored:")
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
            why=_restore_why(every=every, external=external, members=len(nodes)) + _own_addresses(commands),
            lost=lost,
            minutes=30,
            nodes=tuple(nodes),
            guard=tr(
                "etcd is external: its owner is there, with the snapshot of {step}. They restore it when the last wait of the first block has ended on every node, and before the next block.",
                step="{{etcd-external}}",
            )
            if external
            else tr(
                "{step} put the snapshot of {node} and its .sha256 file on {nodes} too. The first command must answer OK on each.",
                step="{{etcd-snapshot}}",
                node=nodes[0],
                nodes=", ".join(nodes[1:]),
            )
            if every and len(nodes) > 1
            else "",
            go_on=_restore_go_on(hops[0].today or tr("in the old version"), every=every, external=external),
            stop=tr(
                "A container still runs after two minutes, or the owner cannot restore: put the manifests of {folder} back.",
                folder=f"{scene.backup}/stopped",
            )
            if external
            else tr(
                "The checksum does not fit, a container still runs after two minutes, or a member exits or is not healthy after five: the data of before the restore are beside the new ones (member-DATE)."
            )
            if every
            else tr(
                "The checksum does not fit, or a member exits: the data of before the restore are beside the new ones."
            ),
        )
    ]


def _restore_why(*, every: bool, external: bool, members: int) -> str:
    if not every:
        return tr(
            "On one node, with the data of the other members wiped: they join it again. Tried nowhere by this tool: rehearse it."
        )
    again = tr(
        "The components of before come back with their data, and start anew, since what they remember is of another time."
    )
    how = (
        tr(
            "Its owner restores the snapshot while every API server is stopped, with the revision raised, so that watchers notice."
        )
        if external
        else tr(
            "All members from the same file, with every API server stopped; the revision is raised so that watchers notice."
        )
        if members > 1
        else tr("With the API server stopped; the revision is raised so that watchers notice.")
    )
    return f"{how} {again} " + tr("Rehearse it.")


def _own_addresses(commands: Sequence[Command]) -> str:
    """What the variables stand for where no member's command line was read."""
    names = [name for name in ("INITIAL_CLUSTER", "PEER_URL") if any(f"${name}" in c.text for c in commands)]
    if not names:
        return ""
    return " " + tr(
        "Addresses of members were not read: INITIAL_CLUSTER is NAME=ADDRESS of every member, with commas between, PEER_URL the address of the node's own; --name and --initial-advertise-peer-urls stand in the saved etcd.yaml."
    )


def _restore_go_on(today: str, *, every: bool, external: bool) -> str:
    if not every:
        return tr("Every member is healthy, and the API server answers ready and {version}.", version=today)
    if external:
        return tr(
            "No API server runs while the owner restores; the owner says that every member is healthy; each API server answers ready and {version} before controller-managers and schedulers start.",
            version=today,
        )
    return tr(
        "No container of etcd or kube-apiserver runs before the data are moved; every member is healthy before an API server starts; each API server answers ready and {version} before controller-managers and schedulers start.",
        version=today,
    )
