"""What a target changes, in the form of a comparison: versions as the plan moves them, and gates as they are forecast.

A gate is a change where its value moves with nobody touching it (a default), where the component would not start with
it, or where the profile wants another value than the target gives. What cannot be seen is told apart, never as equal.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from changegen.assess.policy import ALPHA, BETA, GATE_IMPOSSIBLE, GATE_SET, GATE_UNKNOWN, GATE_UNMET
from changegen.i18n import tr
from changegen.model.ticket import Change, Finding, ForecastRow, NotComparable, Ticket

__all__ = ["GATES", "with_gates"]

GATES = "gates"
"""The area of gates; only a comparison with a target has it, as two readings show them below ``components``."""

_MOVES = frozenset({"will-not-start", "flips-on", "flips-off", "new-on"})


def with_gates(ticket: Ticket) -> tuple[tuple[Change, ...], tuple[NotComparable, ...]]:
    """Return the planned changes of a ticket with those of gates, and what of gates cannot be told."""
    nodes = {row.instance: f"{row.component} {row.node}" for row in ticket.instances if row.node}
    blind: list[NotComparable] = []
    changes: list[Change] = []
    for row in ticket.forecast:
        subjects = _subjects(row.component, row.instances, nodes)
        if row.kind == "gate" and row.effect in _MOVES:
            changes.append(_moved(row, subjects))
        elif row.kind == "gate" and row.effect == "unknown":
            blind.append(
                NotComparable(area=GATES, what=", ".join(subjects), side="before", reason=row.message)
            )
    for item in ticket.findings:
        subjects = _subjects(item.subject.component, item.subject.instances, nodes)
        if item.code == GATE_UNKNOWN.code:
            blind.append(
                NotComparable(area=GATES, what=", ".join(subjects), side="before", reason=item.message)
            )
        elif item.code in _WISHES:
            changes.append(_wished(item, subjects, ticket))
    return (*ticket.changes, *changes), tuple(blind)


_WISHES = frozenset(code.code for code in (GATE_UNMET, GATE_IMPOSSIBLE, GATE_SET, ALPHA, BETA))


def _moved(row: ForecastRow, subjects: tuple[str, ...]) -> Change:
    told = (row.message or row.touches, row.hop.replace("->", "→"))
    return Change(
        kind="changed",
        area=GATES,
        path=(row.name,),
        subjects=subjects,
        before=row.today,
        after=row.at_target,
        count=len(subjects),
        note="; ".join(text for text in told if text),
    )


def _wished(item: Finding, subjects: tuple[str, ...], ticket: Ticket) -> Change:
    """What the profile wants otherwise than the target gives it."""
    gate = item.subject.name
    wishes = ticket.profile.feature_gates.gates if ticket.profile is not None else ()
    wanted = next((wish.value for wish in wishes if wish.name == gate and wish.value is not None), None)
    if item.code == GATE_UNMET.code:
        before = tr("{value} at the target", value=_text(not wanted))
        after = tr("{value} (wanted)", value=_text(wanted))
    elif item.code == GATE_IMPOSSIBLE.code:
        before, after = tr("refused"), tr("{value} (wanted)", value=_text(wanted))
    elif item.code == GATE_SET.code:
        before, after = tr("set"), tr("not set (wanted)")
    else:
        before, after = tr("true (set)"), tr("not allowed by the profile")
    return Change(
        kind="changed",
        area=GATES,
        path=(gate,),
        subjects=subjects,
        before=before,
        after=after,
        count=len(subjects),
        note=item.message if item.code == GATE_IMPOSSIBLE.code else "",
    )


def _text(value: bool | None) -> str:
    return str(bool(value)).lower()


def _subjects(component: str, instances: Sequence[str], nodes: Mapping[str, str]) -> tuple[str, ...]:
    """Instances by meaning, ``kube-apiserver cp-1``; the components where no instance is named."""
    components = component.split(", ")
    if not instances:
        return tuple(components)
    return tuple(sorted(nodes.get(name) or _subject(components, name) for name in instances))


def _subject(components: Sequence[str], name: str) -> str:
    """An instance whose node is not known, or a node of the one component that is named."""
    if len(components) > 1 or name == components[0]:
        return name
    return f"{components[0]} {name}"
