"""Ways back of nodes: kubelets, and the kubeadm that was installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from changegen.assess.context import names as listed_names
from changegen.i18n import tr
from changegen.model.ticket import Command
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.common import by_family, keys, named, unknown_version
from changegen.plan.scene import Drain, HopPlan, Scene
from changegen.plan.steps.common import (
    KUBECTL,
    in_turn,
    met,
    placed,
)
from changegen.plan.steps.common import names as in_order
from changegen.shell import quoted
from changegen.words import spans

__all__ = ["kubelets", "packages"]

_CHOSEN = '"${NODE:?}"'
"""The node of a block that is done with one node after another; unset, the command ends before it does anything."""


def kubelets(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Kubelets that moved, last first."""
    dist = scene.distribution
    pending = {
        name
        for name in scene.pending_nodes
        if not (dist.kubelet_with_control_plane and name in scene.control_nodes)
    }
    if not pending or dist.nodes == "by-control-plane":
        return []
    needs = keys(steps, "nodes")
    planned = [name for step in steps if step.phase == "nodes" for name in step.nodes if name in pending]
    # Last first; a node that no step names (it is moved with its group) keeps its place at the end.
    nodes = tuple(dict.fromkeys([*reversed(planned), *(n for n in scene.pending_nodes if n in pending)]))
    versions: dict[str, list[str]] = {}
    for name in nodes:
        versions.setdefault(scene.nodes[name].kubelet_version, []).append(name)
    previous = "; ".join(
        f"{version or tr('not known')}: {len(names)}" for version, names in sorted(versions.items())
    )
    drains = [scene.drain_of(name) for name in nodes]
    bare = met(drains, lambda drain: drain.bare)
    each = dist.nodes == "drain-each"
    # A drain and an uncordon with nothing between them are no way back.
    commands = (
        []
        if "" in versions
        else _drained_back(scene, hop, nodes, drains, versions)
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
                scene, nodes, drains, bare, pools=pools, tightened=bool(named(steps, "temporary"))
            )
            + ("" if commands or "" not in versions else " " + unknown_version()),
            lost=tr(
                "What a drain deletes: Pods without a controller and emptyDir data. A starting kubelet deletes its ResourceSlices until the drivers are back."
            ),
            minutes=-(-scene.profile.minutes.node * len(nodes) // parallel),
            nodes=nodes,
            go_on=_kubelets_go_on(drains, versions),
            stop=tr(
                "A drain hangs, a node is not Ready ten minutes after its kubelet's start, or devices that were there before do not come back: leave it cordoned, and do not go to the next."
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
    version = ", ".join(sorted(filter(None, versions))) or tr("its version of before")
    text = (
        tr("The node is Ready on {version} and schedulable", version=version)
        if len(versions) == 1
        else tr("The node is Ready on its version of before ({version}) and schedulable", version=version)
    )
    if drivers:
        text += "; " + tr(
            "where it published devices before, it does so again ({published}; give it two minutes); elsewhere No resources found is right",
            published=", ".join(drivers),
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
    return " ".join([*shared, "$MORE"]), f"case {_CHOSEN} in {cases} *) MORE= ;; esac; "


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
    place = nodes[0] if single else tr("the node in $NODE")
    flags, before = _drain_flags(drains)
    most = max(versions, key=lambda version: (len(versions[version]), version))
    node = {} if single else {"node": _CHOSEN, "ip": _CHOSEN}
    fields = node | {"drain_flags": flags} | scene.going_back(most)

    def on_nodes(made: Iterable[Command], where: str = "") -> list[Command]:
        own = ("", nodes[0], _CHOSEN)
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
            for family, members in by_family(scene, names).items():
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
    if not single and any(_CHOSEN in c.text for c in commands):
        commands.insert(0, Command(text=f"NODE={quoted(nodes[0])}", where=KUBECTL))
    return commands


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


def packages(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """The kubeadm on the nodes where the new one was installed."""
    families = scene.distribution.packages.get("kubeadm-back", {})
    if not families or not scene.control_nodes:
        return []
    installing = [
        step
        for step in steps
        if step.nodes
        and any(c.runs == "write" and re.search(r"\binstall -y .*\bkubeadm\b", c.text) for c in step.commands)
    ]
    nodes = tuple(dict.fromkeys(node for step in reversed(installing) for node in reversed(step.nodes)))
    needs = [step.key for step in installing]
    if not nodes:
        return []
    commands: list[Command] = []
    for family, members in by_family(scene, nodes).items():
        made = scene.commands(families.get(family, families.get("other", ())), hop, "", {"node": '"$NODE"'})
        everyone = len(members) == len(nodes)
        where = in_turn(members) if everyone else tr("{nodes}, one after another", nodes=", ".join(members))
        commands += [Command(text=c.text, where=where, runs=c.runs) for c in made]
    return [
        BackDraft(
            key="back:packages",
            what=tr("kubeadm on the nodes"),
            to=scene.today or tr("not known"),
            commands=commands,
            verdict="reversible",
            why=tr("Installed, it changes nothing until it is run. Images that were fetched stay unused.")
            + " "
            + tr("Only nodes whose step has run: {nodes}.", nodes=in_order(nodes, 400))
            + ("" if scene.today else " " + unknown_version()),
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
