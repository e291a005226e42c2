"""Ways back of etcd: its members, one that is ill, and the whole data store from the snapshot."""

from __future__ import annotations

from collections.abc import Sequence

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
from changegen.versions import minor_of

__all__ = ["etcd", "restore"]


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


def restore(scene: Scene, hops: Sequence[HopPlan], steps: Sequence[StepDraft]) -> list[BackDraft]:
    """The whole data store, from the snapshot."""
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
            commands += until_it_answers(scene, node, hops[0].today)
    commands += on_each("etcd-restore-controllers")
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
