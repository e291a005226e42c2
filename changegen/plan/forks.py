"""Where the change stopped decides which steps back are taken: one line for each such place, computed from the plan.

A line names the steps of the plan that ran (``ran``), the steps back to do in their order (``do``), those that would do
harm there (``never``), and those that cannot be done (``stays``). A step back is in ``do`` only where one of the steps
that make it necessary ran. etcd goes back only where etcd itself is the fault: the older API server works with the newer
etcd, and an older member exits on data of the newer minor (measured; etcd server, storage/schema). Where it is the fault,
it comes first: an API server of either minor works with it before and after (kubeadm, MinExternalEtcdVersion; measured).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from changegen.i18n import tr
from changegen.model.ticket import RollbackFork
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.scene import Scene
from changegen.versions import minor_of

__all__ = ["looks_say", "make_forks"]

_ETCD, _DOWN, _MEMBER, _RESTORE = "back:etcd", "back:etcd-downgrade", "back:etcd-member", "back:restore"
_CONTROL = "back:control-plane"
_APART = (_ETCD, _DOWN, _MEMBER, _RESTORE)
"""Done only where a line says so: the fault decides, not what ran."""

_LAST = ("back:bare", "back:budgets")
_LEFT = "back:served"
"""An API that older schedulers watch: it stays on as long as one of them may run, and so on every way back that goes on."""


def _keys(steps: Iterable[StepDraft]) -> set[str]:
    return {key for step in steps for key in (step.key, *step.also)}


class _Ways:
    """The steps of the plan and the ways back, by key."""

    def __init__(
        self,
        scene: Scene,
        steps: Sequence[StepDraft],
        backs: Sequence[BackDraft],
        ids: Mapping[str, str],
    ) -> None:
        self.scene, self.backs, self.ids = scene, {back.key: back for back in backs}, ids
        self.before = [s for s in steps if s.phase == "before"]
        self.middle = [s for s in steps if s.phase not in ("before", "after")]
        self.after = [s for s in steps if s.phase == "after"]
        self.every = [*self.before, *self.middle, *self.after]

    def cannot(self, back: BackDraft) -> bool:
        """Whether nothing takes this back."""
        return back.verdict == "one-way" and not back.commands

    def needed(self, ran: Iterable[StepDraft]) -> list[str]:
        """Keys of what is to be taken back after these steps, in order."""
        keys = _keys(ran)
        return [
            key
            for key, back in self.backs.items()
            if key not in (*_APART, _LEFT) and keys & set(back.needs) and not self.cannot(back)
        ]

    def line(
        self,
        when: str,
        ran: Sequence[StepDraft],
        *,
        etcd: Literal["", "old", "new"] = "",
        do: Sequence[str] | None = None,
        first: str = "",
        never: Sequence[str] = (),
        note: str = "",
        stays: Sequence[str] = (),
        fault: bool = False,
    ) -> RollbackFork:
        """One line; ``first`` is a step of etcd that comes before all others."""
        chosen = list(self.needed(ran) if do is None else do)
        chosen = [key for key in chosen if key not in stays]
        if first in self.backs:
            chosen.insert(0, first)
        # Budgets stay relaxed until the last drain, and the Pods that a drain deleted come after it too.
        chosen = [k for k in chosen if k not in _LAST] + [k for k in _LAST if k in chosen]
        keys = _keys(ran)
        kept = [
            key
            for key, back in self.backs.items()
            if key not in chosen
            and (key in stays or ((self.cannot(back) or key == _LEFT) and keys & set(back.needs)))
        ]
        return RollbackFork(
            when=when,
            ran=tuple(self.ids[step.key] for step in ran),
            etcd=etcd,
            do=tuple(self.ids[key] for key in chosen),
            never=tuple(self.ids[key] for key in self.backs if key in never and key not in chosen),
            stays=tuple(self.ids[key] for key in kept),
            fault=fault or bool(first),
            minutes=sum(self.backs[key].minutes or 0 for key in chosen) if chosen else None,
            note=note,
        )

    def id(self, key: str) -> str:
        return self.ids[key]


def make_forks(
    scene: Scene,
    steps: Sequence[StepDraft],
    backs: Sequence[BackDraft],
    ids: Mapping[str, str],
) -> tuple[RollbackFork, ...]:
    """The lines, earliest first; empty where nothing has to go back.

    Args:
        scene: The cluster as the plan sees it.
        steps: The steps of the plan, as drafts.
        backs: The ways back, as drafts.
        ids: Key -> printed id of both.
    """
    if not backs:
        return ()
    ways = _Ways(scene, steps, backs, ids)
    lines: list[RollbackFork] = []
    begin = next(iter(ways.middle or ways.after), None)
    if begin is None:
        return ()
    lines.append(
        ways.line(
            tr("before {step} starts", step=ways.id(begin.key)),
            ways.before,
            etcd="old" if _crosses(ways) else "",
            never=_APART,
            note=tr("Only the preparations: every component still has its version."),
        )
    )
    if _LEFT in ways.backs and _keys(ways.before) & set(ways.backs[_LEFT].needs):
        lines.append(
            ways.line(
                tr("the same, and the change is called off for good"),
                ways.before,
                etcd="old" if _crosses(ways) else "",
                do=[*ways.needed(ways.before), _LEFT],
                never=_APART,
                note=tr("{step} only here: everywhere else the API stays on.", step=ways.id(_LEFT)),
            )
        )
    if not ways.middle or _CONTROL not in ways.backs:
        later = [step for step in ways.every if step not in ways.before]
        lines.append(
            ways.line(tr("{step} has started", step=ways.id(begin.key)), [*ways.before, *later], never=_APART)
        )
        return tuple(lines)
    lines += _started(ways)
    if _RESTORE in ways.backs:
        lines.append(_data_lost(ways))
    return tuple(lines)


def _crosses(ways: _Ways) -> bool:
    """Whether the change takes etcd past the point after which an older member refuses the data."""
    back = ways.backs.get(_ETCD)
    return back is not None and back.verdict == "reversible-until" and bool(back.guard)


def _started(ways: _Ways) -> list[RollbackFork]:
    control = ways.backs[_CONTROL]
    middle = [s for s in ways.middle if s.phase == "control-plane"]
    first = ways.id(middle[0].key) if middle else ways.id(ways.middle[0].key)
    if ways.cannot(control):
        return _stays(ways, first)
    hops = list(dict.fromkeys(s.hop for s in ways.middle))
    if len(hops) > 1:
        return _several(ways, hops)
    return _one_hop(ways, [*ways.middle, *ways.after], first)


def _stays(ways: _Ways, first: str) -> list[RollbackFork]:
    """The control plane cannot go back: what can, the nodes and what people settled."""
    control = [s for s in ways.middle if s.phase == "control-plane"]
    rest = [s for s in [*ways.middle, *ways.after] if s.phase != "control-plane"]
    note = tr("The control plane stays on {version}.", version=ways.scene.target)
    if "back:kubelet" in ways.backs:
        note += " " + tr("Nodes may stay behind it, or go back behind it, as far as the version skew allows.")
    early = ways.line(tr("{step} has started", step=first), [*ways.before, *control], never=_APART, note=note)
    if not rest:
        return [early]
    whole = ways.line(
        tr("{step} has started", step=ways.id(rest[0].key)),
        [*ways.before, *control, *rest],
        never=_APART,
        note=note,
    )
    if (early.do, early.stays) == (whole.do, whole.stays):
        return [msgspec.structs.replace(whole, when=early.when)]
    return [early, whole]


def _one_hop(ways: _Ways, steps: Sequence[StepDraft], first: str) -> list[RollbackFork]:
    """Within one minor step: before and after the point of etcd, each with and without a fault of etcd itself."""
    lines: list[RollbackFork] = []
    control = [s for s in steps if s.phase == "control-plane"]
    point = next((s for s in control if s.no_return), None)
    etcd, down = ways.backs.get(_ETCD), ways.backs.get(_DOWN)
    older = _older(ways)
    crosses = _crosses(ways)
    # With its own step too: where the last member does not come up, the data are as before.
    early = control[: control.index(point) + 1] if point is not None else []
    if crosses and point is not None and early:
        when = tr(
            "{first} has started, and the members of etcd that answer show storageVersion {older}.0 ({point} moves the last one)",
            first=first,
            point=ways.id(point.key),
            older=older,
        )
        ran = [*ways.before, *early]
        beyond = next((step for step in steps if step.phase not in {"before", "control-plane"}), None)
        later = (
            " " + tr("Once {step} has started, only the lines below.", step=ways.id(beyond.key))
            if beyond is not None
            else ""
        )
        lines.append(
            ways.line(
                when,
                ran,
                etcd="old",
                never=[_DOWN],
                note=tr(
                    "On the nodes whose step ran, last first. Members of etcd may stay as they are: until the last one moves, all work as {older}.",
                    older=older,
                )
                + " "
                + _skip()
                + later,
            )
        )
        lines.append(
            ways.line(
                tr("the same, and etcd is the fault: it misbehaves, or a member that moved does not come up"),
                ran,
                etcd="old",
                first=_ETCD,
                never=[_DOWN],
                note=_etcd_first() + " " + tr("The member that is ill goes first."),
            )
        )
        lines += _one_ill(ways, ran, "old", never=[_DOWN])
    ran = [*ways.before, *steps]
    if crosses or (etcd is not None and etcd.verdict == "one-way"):
        when = (
            tr(
                "{point} has started, and a member of etcd shows storageVersion {newer}.0",
                point=ways.id(point.key),
                newer=_newer(ways),
            )
            if point is not None
            else tr("{step} has started", step=first)
        )
        lines.append(
            ways.line(
                when,
                ran,
                etcd="new",
                never=[_ETCD],
                note=tr("etcd stays on {newer}: the older API server works with it.", newer=_newer(ways))
                + " "
                + _skip(),
            )
        )
        if down is not None:
            lines.append(
                ways.line(
                    tr("the same, every member of etcd is healthy, and etcd misbehaves all the same"),
                    ran,
                    etcd="new",
                    first=_DOWN,
                    never=[_ETCD],
                    note=_etcd_first()
                    + " "
                    + tr("Look after it: where the fault is gone, the rest may stay as it is."),
                )
            )
        lines += _one_ill(ways, ran, "new", never=[_ETCD])
        return lines
    control_back = ways.backs[_CONTROL]
    note = _skip()
    if control_back.verdict == "reversible-until" and ways.scene.distribution.downgrade == "restore":
        note += " " + tr(
            "{step} restores the snapshot: what was written after it is lost. Where the change can be finished instead, finish it.",
            step=ways.id(_CONTROL),
        )
    lines.append(ways.line(tr("{step} has started", step=first), ran, note=note, never=[_RESTORE]))
    if etcd is not None and any(c.runs == "write" for c in etcd.commands):
        lines.append(
            ways.line(
                tr("the same, and etcd itself is the fault"),
                ran,
                first=_ETCD,
                never=[_RESTORE],
                note=_etcd_first(),
            )
        )
    return [*lines, *_one_ill(ways, ran, "", never=[_RESTORE])]


def _one_ill(
    ways: _Ways, ran: Sequence[StepDraft], etcd: Literal["", "old", "new"], *, never: Sequence[str]
) -> list[RollbackFork]:
    """One member is ill and the others have the quorum: it is made again with no data, whatever else goes back."""
    if _MEMBER not in ways.backs:
        return []
    return [
        ways.line(
            tr(
                "the same, and one member stays ill after {step} too, while the others answer",
                step=ways.id(_ETCD),
            )
            if etcd == "old" and _ETCD in ways.backs
            else tr("the same, and one member of etcd stays ill, while the others answer"),
            ran,
            etcd=etcd,
            first=_MEMBER,
            never=never,
            note=tr("The member first; the rest only if the cluster shall go back too."),
        )
    ]


def _several(ways: _Ways, hops: Sequence[str]) -> list[RollbackFork]:
    """Several minors: the way back leads over the first one only; later only the snapshot leads to the beginning."""
    inside = [s for s in ways.middle if s.hop == hops[0]]
    first = next(s for s in ways.middle if s.hop == hops[1])
    lines = _one_hop_of_several(ways, inside)
    note = tr(
        "One minor at a time only: finish this hop, and stop on its version; a ticket of its own leads on or back."
    )
    if _RESTORE in ways.backs:
        note += " " + tr(
            "Only {step} leads all the way back, with the loss of what was written since.",
            step=ways.id(_RESTORE),
        )
    lines.append(
        ways.line(
            tr("{step} has started", step=ways.id(first.key)),
            ways.every,
            do=[],
            stays=[_CONTROL],
            never=[_CONTROL, _ETCD, _DOWN],
            note=note,
        )
    )
    return lines


def _one_hop_of_several(ways: _Ways, inside: Sequence[StepDraft]) -> list[RollbackFork]:
    point = next((s for s in inside if s.no_return), None)
    if point is not None:
        return _one_hop(ways, inside, ways.id(inside[0].key))
    ran = [*ways.before, *inside]
    old: Literal["", "old", "new"] = "old" if _crosses(ways) else ""
    lines = [
        ways.line(tr("in {steps}", steps=_range(ways, inside)), ran, etcd=old, never=[_DOWN], note=_skip())
    ]
    etcd = ways.backs.get(_ETCD)
    if etcd is not None and any(c.runs == "write" for c in etcd.commands):
        lines.append(
            ways.line(
                tr("the same, and etcd itself is the fault"),
                ran,
                etcd=old,
                first=_ETCD,
                never=[_DOWN],
                note=_etcd_first(),
            )
        )
    return [*lines, *_one_ill(ways, ran, old, never=[_DOWN])]


def _data_lost(ways: _Ways) -> RollbackFork:
    """Nothing but the snapshot helps; it brings back the control plane, its configuration and add-ons with it.

    What the preparations changed before the snapshot is in it, and goes back after it; so does what a drain of the way
    back deletes.
    """
    every = "etcd-restore-stop" in ways.scene.distribution.rollback
    prepared = set(ways.needed(_until_the_snapshot(ways.before)))
    nodes = [key for key in ("back:kubelet", "back:packages") if key in ways.backs]
    wanted = {*nodes, *_LAST, *(key for key in prepared if key != "back:served")}
    after = [key for key in ways.backs if key in wanted and not ways.cannot(ways.backs[key])] if every else []
    note = (
        tr("It takes the control plane back too.")
        + (
            " "
            + tr(
                "Then {steps}, for the nodes that had moved: a kubelet is never newer than its API server.",
                steps=", ".join(ways.id(key) for key in nodes),
            )
            if nodes
            else ""
        )
        if every
        else tr("Read its text first.")
    )
    return ways.line(
        _lost_when(ways),
        ways.every,
        do=[_RESTORE, *after],
        never=[key for key in ways.backs if key in (_ETCD, _DOWN, _MEMBER, _CONTROL)],
        note=note,
        fault=True,
    )


def _until_the_snapshot(before: Sequence[StepDraft]) -> list[StepDraft]:
    """The preparations that the snapshot of etcd holds: those that come before it."""
    at = next(
        (at for at, step in enumerate(before) if {"etcd-snapshot", "etcd-external"} & {step.key, *step.also}),
        0,
    )
    return list(before[:at])


def _lost_when(ways: _Ways) -> str:
    members = len(ways.scene.members)
    if members > 1:
        return tr(
            "fewer than {quorum} of the {n} members of etcd answer and cannot be started again, or the data of etcd are wrong",
            quorum=members // 2 + 1,
            n=members,
        )
    if members == 1:
        return tr("the only member of etcd does not come up again, or the data of etcd are wrong")
    return tr("the data of etcd are lost or wrong")


def _skip() -> str:
    return tr("Leave out what is needed only once a step ran that did not run, and nodes that did not move.")


def _etcd_first() -> str:
    return tr("etcd first: an API server answers only where its own member does.")


def looks_say(scene: Scene, forks: Sequence[RollbackFork]) -> str:
    """What the look at etcd means for the choice of a line; empty where no line depends on it.

    Args:
        scene: The cluster as the plan sees it.
        forks: The lines.
    """
    target = next((minor_of(hop.etcd) or "" for hop in reversed(scene.hops) if hop.etcd), "")
    behind = [m.version for m in scene.members if minor_of(m.version) != target]
    older = minor_of(behind[-1]) if behind else ""
    if not older or not target or not any(fork.etcd == "new" for fork in forks):
        return ""
    ended = (
        tr("First end a kubeadm upgrade that still runs on any node, and wait half a minute.") + " "
        if "no-upgrade" in scene.distribution.rollback
        else ""
    )
    return ended + tr(
        "The command runs on any node with etcdctl, and prints a line for each member. storageVersion {older}.0: the older etcd still takes the data. storageVersion {newer}.0: it does not any more. unknown: that member does not answer; the others decide.",
        older=older,
        newer=target,
    )


def _range(ways: _Ways, steps: Sequence[StepDraft]) -> str:
    first, last = ways.id(steps[0].key), ways.id(steps[-1].key)
    return first if first == last else tr("{first} to {last}", first=first, last=last)


def _older(ways: _Ways) -> str:
    target = _newer(ways)
    behind = [m.version for m in ways.scene.members if minor_of(m.version) != target]
    return (minor_of(behind[-1]) if behind else "") or tr("the older minor")


def _newer(ways: _Ways) -> str:
    return next((minor_of(hop.etcd) or "" for hop in reversed(ways.scene.hops) if hop.etcd), "")
