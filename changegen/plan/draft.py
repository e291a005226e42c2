"""Drafts: steps, checks and ways back with keys in place of numbers, and the numbering that joins them.

The parts of the plan are made apart and refer to each other by key (``cp:cp-1``, ``check:kubelets``); `number` gives
each its printed id, in order, and turns keys into ids. A reference to a key that nothing made is dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from changegen.model.base import Scalar
from changegen.model.ticket import Check, Command, Finding, Layer, Phase, Query, RollbackStep, Step, Verdict
from changegen.plan.places import place

__all__ = ["BackDraft", "CheckDraft", "StepDraft", "attach", "complete", "fit", "number"]

Value = Scalar | tuple[Scalar, ...] | dict[str, Scalar]


class StepDraft(msgspec.Struct, kw_only=True):
    """A step; ``checks`` and ``rollback`` hold keys, ``findings`` ids."""

    key: str
    phase: Phase
    title: str
    why: str = ""
    commands: list[Command] = []
    nodes: tuple[str, ...] = ()
    minutes: int | None = None
    go_on: str = ""
    stop: str = ""
    notes: list[str] = []
    checks: list[str] = []
    rollback: list[str] = []
    used_by: list[str] = []
    """Keys of the ways back that need what this step makes."""
    findings: list[str] = []
    no_return: bool = False
    hop: str = ""
    also: tuple[str, ...] = ()
    """Keys of what this step does beside its own: texts and ways back may name it by each of them."""
    partial: dict[str, tuple[str, ...]] = {}
    """Key of a check -> the keys of its value that must hold when this step ends; without it the whole check must."""


class CheckDraft(msgspec.Struct, kw_only=True):
    """A check; ``findings`` holds ids."""

    key: str
    layer: Layer
    title: str
    command: str = ""
    query: Query | None = None
    before: Value = None
    before_known: bool = True
    expected: Value = None
    compare: str = "equals"
    manual: str = ""
    reads_as: str = ""
    wait_seconds: int = 0
    findings: list[str] = []
    source: str = "plan"


class BackDraft(msgspec.Struct, kw_only=True):
    """A way back; ``needs`` holds the keys of the steps that make it necessary."""

    key: str
    what: str
    to: str
    commands: list[Command] = []
    verdict: Verdict
    until: str = ""
    why: str = ""
    lost: str = ""
    minutes: int | None = None
    nodes: tuple[str, ...] = ()
    guard: str = ""
    go_on: str = ""
    stop: str = ""
    needs: list[str] = []


_LETTER = {"before": "P", "control-plane": "I", "nodes": "I", "drivers": "I", "after": "A"}
_LEFT = re.compile(r"\{\{[a-z][^{}]*\}\}")
_SENTENCE = re.compile(r"(?<=[.;。；] )|(?<=[。；])")
_LAYERS = ("api", "scheduling", "device", "runtime")


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """The plan with its printed ids."""

    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    rollback: tuple[RollbackStep, ...]
    findings: tuple[Finding, ...]
    ids: dict[str, str]
    """key -> printed id."""


def number(
    steps: Sequence[StepDraft],
    checks: Sequence[CheckDraft],
    backs: Sequence[BackDraft],
    findings: Sequence[Finding],
) -> Numbered:
    """Give every part its id and turn keys into ids.

    Steps keep their order within a phase; hops of several minors keep theirs too: phases repeat inside a hop, so the
    order is that of the list. Texts may name a step by ``{{key}}``: that becomes its id.
    """
    ordered_steps = [
        *(s for s in steps if s.phase == "before"),
        *(s for s in steps if s.phase not in ("before", "after")),
        *(s for s in steps if s.phase == "after"),
    ]
    ordered_checks = [check for layer in _LAYERS for check in checks if check.layer == layer]
    ids = _ids(ordered_steps, ordered_checks, backs)
    return Numbered(
        steps=tuple(_step(step, backs, ids) for step in ordered_steps),
        checks=tuple(_check(check, ordered_steps, ids) for check in ordered_checks),
        rollback=tuple(
            _back(back, position, ordered_steps, ids) for position, back in enumerate(backs, start=1)
        ),
        findings=_linked(findings, ordered_steps, ordered_checks, ids),
        ids=ids,
    )


def _ids(
    steps: Sequence[StepDraft], checks: Sequence[CheckDraft], backs: Sequence[BackDraft]
) -> dict[str, str]:
    """Return the id of each key; steps are numbered within the letter of their phase."""
    ids: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for step in steps:
        letter = _LETTER[step.phase]
        counts[letter] += 1
        ids |= dict.fromkeys((step.key, *step.also), f"{letter}-{counts[letter]}")
    beginning = next((step.key for step in steps if step.phase == "control-plane"), None)
    if beginning is not None:
        ids["cp:first"] = ids[beginning]
    ids |= {check.key: f"V-{position}" for position, check in enumerate(checks, start=1)}
    ids |= {back.key: f"B-{position}" for position, back in enumerate(backs, start=1)}
    return ids


def _undoes(back: BackDraft, step: StepDraft) -> bool:
    return not {step.key, *step.also}.isdisjoint(back.needs)


def _step(draft: StepDraft, backs: Sequence[BackDraft], ids: Mapping[str, str]) -> Step:
    ways = [*(back.key for back in backs if _undoes(back, draft)), *draft.rollback]
    return Step(
        id=ids[draft.key],
        phase=draft.phase,
        title=_named(draft.title, ids),
        why=_named(draft.why, ids),
        commands=_placed(draft.commands),
        nodes=draft.nodes,
        minutes=draft.minutes,
        go_on=_named(draft.go_on, ids),
        stop=_named(draft.stop, ids),
        checks=_unique(ids[key] for key in draft.checks if key in ids),
        rollback=_unique(ids[key] for key in ways if key in ids),
        used_by=_unique(ids[key] for key in draft.used_by if key in ids),
        findings=_unique(draft.findings),
        notes=tuple(text for note in draft.notes if (text := _named(note, ids))),
        no_return=draft.no_return,
        hop=draft.hop,
        partial={ids[key]: part for key, part in draft.partial.items() if key in ids and key in draft.checks},
    )


def _check(draft: CheckDraft, steps: Sequence[StepDraft], ids: Mapping[str, str]) -> Check:
    return Check(
        id=ids[draft.key],
        layer=draft.layer,
        title=draft.title,
        command=draft.command,
        query=draft.query,
        before=draft.before,
        before_known=draft.before_known,
        expected=draft.expected,
        compare=draft.compare,  # type: ignore[arg-type]
        manual=draft.manual,
        reads_as=draft.reads_as,
        wait_seconds=draft.wait_seconds,
        steps=_unique(ids[step.key] for step in steps if draft.key in step.checks),
        findings=_unique(draft.findings),
        source=draft.source,  # type: ignore[arg-type]
    )


def _back(
    draft: BackDraft, position: int, steps: Sequence[StepDraft], ids: Mapping[str, str]
) -> RollbackStep:
    return RollbackStep(
        id=ids[draft.key],
        order=position,
        what=_named(draft.what, ids),
        to=draft.to,
        commands=_placed(draft.commands),
        verdict=draft.verdict,
        until=_named(draft.until, ids),
        why=_named(draft.why, ids),
        lost=_named(draft.lost, ids),
        minutes=draft.minutes,
        nodes=draft.nodes,
        guard=_named(draft.guard, ids),
        go_on=_named(draft.go_on, ids),
        stop=_named(draft.stop, ids),
        needed_once=_unique(ids[step.key] for step in steps if _undoes(draft, step)),
    )


def complete(steps: Sequence[StepDraft], backs: Sequence[BackDraft]) -> None:
    """Give every step that writes a way back: that of its phase. Its proof is what it says under "go on when"."""
    ways = {back.key for back in backs}
    undone = {key for back in backs for key in back.needs}
    of_phase = {"nodes": "back:kubelet", "drivers": "back:addons", "after": "back:addons"}
    for step in steps:
        if not any(item.runs == "write" for item in step.commands):
            continue
        if not {step.key, *step.also} & undone and not ways & {*step.rollback, *step.used_by}:
            found = next(
                (key for key in (of_phase.get(step.phase, ""), "back:control-plane") if key in ways), None
            )
            if found is not None:
                step.rollback.append(found)


def attach(steps: Sequence[StepDraft], checks: Sequence[CheckDraft]) -> None:
    """Hang every check that no step names on one: of APIs and gates on the last control-plane step, else on the last."""
    named = {key for step in steps for key in step.checks}
    control = [step for step in steps if step.phase == "control-plane"]
    last = next((step for step in reversed(steps) if step.key == "close"), steps[-1] if steps else None)
    for check in checks:
        if check.key in named or last is None:
            continue
        api = check.key.startswith(("check:api:", "check:gate:", "check:names-gate:"))
        (control[-1] if api and control else last).checks.append(check.key)


def fit(steps: Sequence[StepDraft], checks: Sequence[CheckDraft]) -> None:
    """Leave with each step only what can hold when it ends.

    Where a step's part of a check cannot be told (too many nodes for a line each, nodes that get new names), the check
    waits for the last step that names it, and must hold there as a whole.
    """
    by_key = {check.key: check for check in checks}
    last = {key: step for step in steps for key in step.checks}
    for step in steps:
        for key, part in list(step.partial.items()):
            check = by_key.get(key)
            keys = set(check.expected) if check is not None and isinstance(check.expected, dict) else set()
            if part and set(part) < keys:
                continue
            del step.partial[key]
            if set(part) != keys and last.get(key) is not step:
                step.checks = [name for name in step.checks if name != key]


def _placed(commands: Iterable[Command]) -> tuple[Command, ...]:
    return tuple(msgspec.structs.replace(item, where=place(item.where)) for item in commands)


def _named(text: str, ids: Mapping[str, str]) -> str:
    """The text with ids for keys; a sentence that names what nothing made is left out, and so is its space."""
    if "{{" not in text:
        return text
    for key, printed in ids.items():
        text = text.replace("{{" + key + "}}", printed)
    if _LEFT.search(text) is None:
        return text
    kept = [part for part in _SENTENCE.split(text) if _LEFT.search(part) is None]
    return "".join(kept).strip()


def _linked(
    findings: Sequence[Finding],
    steps: Sequence[StepDraft],
    checks: Sequence[CheckDraft],
    ids: Mapping[str, str],
) -> tuple[Finding, ...]:
    """Findings with the steps that remedy them, the checks that prove it, and the ways back of those steps."""
    remedies: dict[str, list[str]] = {}
    proofs: dict[str, list[str]] = {}
    backs: dict[str, list[str]] = {}
    for step in steps:
        for finding in step.findings:
            remedies.setdefault(finding, []).append(ids[step.key])
            proofs.setdefault(finding, []).extend(
                ids[key] for key in step.checks if key in ids and step.phase == "before"
            )
            backs.setdefault(finding, []).extend(
                ids[key] for key in step.rollback if key in ids and step.phase == "before"
            )
    for check in checks:
        for finding in check.findings:
            proofs.setdefault(finding, []).append(ids[check.key])
    return tuple(
        msgspec.structs.replace(
            item,
            remedy=_unique([*item.remedy, *remedies.get(item.id, ())]),
            checks=_unique([*item.checks, *proofs.get(item.id, ())]),
            rollback=_unique([*item.rollback, *backs.get(item.id, ())]),
        )
        for item in findings
    )
