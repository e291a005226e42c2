"""What the templates read: the ticket's rows grouped for reading, the same for every format.

Pure: nothing is decided here, only gathered, so that Markdown, HTML and PDF say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from changegen.i18n import tr
from changegen.model.base import Model
from changegen.model.ticket import (
    CapacityRow,
    Check,
    CheckResult,
    Command,
    Deviation,
    Finding,
    ForecastRow,
    InstanceRow,
    PoolRow,
    Results,
    RollbackStep,
    Step,
    StepWord,
    Ticket,
)
from changegen.render import escape as esc
from changegen.words import spell, unobserved_reason

LAYERS = ("api", "scheduling", "device", "runtime")
PHASES = ("before", "control-plane", "nodes", "drivers", "after")
BEHAVIOUR = frozenset({"flips-on", "flips-off", "new-on"})
LIST_CAP = 200
"""Rows of one table; the rest is counted and found in the attached JSON."""


class Versions(Model, frozen=True, kw_only=True):
    """One component's move: how many instances go from where to where."""

    component: str
    current: str
    target: str
    nodes: tuple[str, ...]
    proven: int
    action: str
    allowed_skew: str
    note: str


class Flip(Model, frozen=True, kw_only=True):
    """A behaviour change that nobody typed, over all components that share it."""

    name: str
    effect: str
    today: tuple[str, ...]
    at_target: str
    components: tuple[str, ...]
    touches: str
    stage: str
    hop: str


class SetGate(Model, frozen=True, kw_only=True):
    """A gate that somebody set, with what the target does to it."""

    name: str
    component: str
    instances: tuple[str, ...]
    today: str
    at_target: str
    effect: str
    message: str
    provenance: str
    hop: str


class StageMove(Model, frozen=True, kw_only=True):
    """A stage or lock that changes for a gate that nobody set."""

    name: str
    today: str
    at_target: str
    components: tuple[str, ...]
    hop: str


class Outage(Model, frozen=True, kw_only=True):
    """What is left when one of these nodes is out: nodes with equal numbers share a row."""

    nodes: tuple[str, ...]
    resource: str
    displaced: int
    free_elsewhere: int
    pending: int
    undecided: int
    why: str


class Pools(Model, frozen=True, kw_only=True):
    """Pools of one driver that hold the same: a large cluster has many of a kind."""

    driver: str
    pools: tuple[str, ...]
    nodes: tuple[str, ...]
    devices: int
    allocated: int | None
    tainted: int
    driver_versions: str
    behind_node_taint: str


class CommandBlock(Model, frozen=True, kw_only=True):
    """Commands that follow one another on one machine."""

    where: str
    text: str


class PhaseSteps(Model, frozen=True, kw_only=True):
    """Steps of one phase with its minutes."""

    phase: str
    title: str
    steps: tuple[Step, ...]
    minutes: int


class LayerChecks(Model, frozen=True, kw_only=True):
    """Checks of one layer, each with its result when there is one."""

    layer: str
    title: str
    proves: str
    rows: tuple[tuple[Check, CheckResult | None], ...]
    commands: str
    """The layer's commands, each after a comment with the check's number: to be copied as they are."""


def severity_word(severity: str) -> str:
    """Return the word of a severity."""
    return {"blocking": tr("blocking"), "warning": tr("warning"), "info": tr("info")}[severity]


def severity_mark(severity: str) -> str:
    """Return a mark that is told apart without colour."""
    return {"blocking": "✖", "warning": "⚠", "info": "ℹ"}[severity]


def layer_title(layer: str) -> str:
    """Return the title of a layer."""
    return {
        "api": tr("API"),
        "scheduling": tr("Scheduling"),
        "device": tr("Device"),
        "runtime": tr("Runtime"),
    }[layer]


def layer_proves(layer: str) -> str:
    """Return what a layer's checks prove, and what they do not."""
    return {
        "api": tr("the right versions answer and serve the right objects"),
        "scheduling": tr("claims are allocated and no Pod waits for a reason that was not there before"),
        "device": tr("drivers publish the devices that they published, and their status is filled"),
        "runtime": tr("a container sees and uses its device; phase Running proves nothing here"),
    }[layer]


def phase_title(phase: str) -> str:
    """Return the title of a phase."""
    return {
        "before": tr("Before the window"),
        "control-plane": tr("Control plane"),
        "nodes": tr("Nodes"),
        "drivers": tr("Drivers and add-ons"),
        "after": tr("After the change"),
    }[phase]


def verdict_word(step: RollbackStep) -> str:
    """Return a rollback verdict in words."""
    if step.verdict == "reversible":
        return tr("reversible")
    if step.verdict == "one-way":
        return tr("one-way")
    return tr("reversible until {point}", point=step.until or tr("the point of no return"))


def decision_word(decision: str) -> str:
    """Return the decision in words."""
    return {
        "do-not-start": tr("Do not start"),
        "attention": tr("Start only with the open points settled"),
        "ready": tr("Nothing found that stops the change"),
        "cannot-tell": tr("Cannot tell: too much could not be read"),
    }[decision]


def effect_word(effect: str) -> str:
    """Return the effect of a forecast row in words."""
    return {
        "will-not-start": tr("component does not start"),
        "locked-same": tr("locked to this value"),
        "flips-on": tr("turns on by default"),
        "flips-off": tr("turns off by default"),
        "new-on": tr("new and on at once"),
        "stage": tr("stage changes"),
        "redundant": tr("is the default anyway"),
        "unchanged": tr("unchanged"),
        "unknown": tr("cannot tell"),
    }[effect]


def result_word(result: str) -> str:
    """Return the word of a check's result."""
    return {
        "pass": tr("pass"),
        "fail": tr("FAIL"),
        "unknown": tr("unknown"),
        "attested": tr("attested"),
    }[result]


def result_mark(result: str | None) -> str:
    """Return a mark that is told apart without colour; an empty box when not filled."""
    return {None: "☐", "pass": "☑", "fail": "✗", "unknown": "?", "attested": "✎"}[result]


def input_word(what: str) -> str:
    """Return the words of a kind of input."""
    return {
        "snapshot": tr("snapshot"),
        "profile": tr("profile"),
        "kubernetes-data": tr("Kubernetes data"),
        "template": tr("template"),
        "tool": tr("tool"),
        "ticket": tr("ticket"),
        "runtime-evidence": tr("runtime evidence"),
    }[what]


def versions(rows: Iterable[InstanceRow]) -> list[Versions]:
    """Group instance rows by component and move, in the ticket's order of components."""
    groups: dict[tuple[str, ...], list[InstanceRow]] = defaultdict(list)
    for row in rows:
        groups[row.component, row.current, row.target, row.action, row.allowed_skew, row.note].append(row)
    return [
        Versions(
            component=key[0],
            current=key[1],
            target=key[2],
            action=key[3],
            allowed_skew=key[4],
            note=key[5],
            nodes=tuple(r.node or r.instance for r in group),
            proven=sum(r.proven for r in group),
        )
        for key, group in groups.items()
    ]


def flips(rows: Iterable[ForecastRow]) -> list[Flip]:
    """Gather behaviour changes over components; what touches this cluster comes first."""
    groups: dict[tuple[str, str, str, str], list[ForecastRow]] = defaultdict(list)
    for row in rows:
        if row.effect in BEHAVIOUR:
            groups[row.hop, row.name, row.effect, row.at_target].append(row)
    made = [
        Flip(
            name=key[1],
            effect=key[2],
            at_target=key[3],
            hop=key[0],
            today=tuple(dict.fromkeys(r.today for r in group)),
            components=tuple(dict.fromkeys(r.component for r in group)),
            touches="; ".join(dict.fromkeys(r.touches for r in group if r.touches)),
            stage=next((r.stage_target for r in group if r.stage_target), ""),
        )
        for key, group in groups.items()
    ]
    return sorted(made, key=lambda f: (f.hop, not f.touches, f.name))


def set_gates(rows: Iterable[ForecastRow]) -> list[SetGate]:
    """Rows of gates that somebody set, worst first."""
    order = {"will-not-start": 0, "unknown": 1, "locked-same": 2, "stage": 3, "redundant": 4, "unchanged": 5}
    made = [
        SetGate(
            name=tr("all gates") if r.name == "*" else r.name,
            component=r.component,
            instances=tuple(short(r.instances, r.component)),
            today=r.today,
            at_target=r.at_target,
            effect=r.effect,
            message=r.message,
            provenance=r.provenance,
            hop=r.hop,
        )
        for r in rows
        if r.kind == "gate" and r.effect not in BEHAVIOUR and not _stage_only(r)
    ]
    return sorted(made, key=lambda g: (g.hop, order.get(g.effect, 9), g.name, g.component))


def _stage_only(row: ForecastRow) -> bool:
    return row.effect == "stage" and not row.provenance


def stage_moves(rows: Iterable[ForecastRow]) -> list[StageMove]:
    """Gates that nobody set and that become locked or change their stage, over all components."""
    groups: dict[tuple[str, str, str, str], list[ForecastRow]] = defaultdict(list)
    for row in rows:
        if row.kind == "gate" and _stage_only(row):
            stages = (
                f" · {row.stage_today} → {row.stage_target}" if row.stage_today != row.stage_target else ""
            )
            groups[row.hop, row.name, row.today, f"{row.at_target}{stages}"].append(row)
    return [
        StageMove(
            name=k[1],
            today=k[2],
            at_target=k[3],
            hop=k[0],
            components=tuple(dict.fromkeys(r.component for r in g)),
        )
        for k, g in sorted(groups.items())
    ]


def outages(rows: Iterable[CapacityRow]) -> list[Outage]:
    """Gather nodes whose loss leaves the same behind; those that leave Pods without a device come first."""
    groups: dict[tuple[str, int, int, int, int, str], list[str]] = defaultdict(list)
    for row in rows:
        key = (row.resource, row.displaced, row.free_elsewhere, row.pending, row.undecided, row.why)
        groups[key].append(row.node)
    made = [
        Outage(
            nodes=tuple(nodes),
            resource=key[0],
            displaced=key[1],
            free_elsewhere=key[2],
            pending=key[3],
            undecided=key[4],
            why=key[5],
        )
        for key, nodes in groups.items()
    ]
    return sorted(made, key=lambda row: not row.pending)


def pools(rows: Iterable[PoolRow]) -> list[Pools]:
    """Gather pools of a driver that hold the same, in the ticket's order."""
    groups: dict[tuple[str, int, int | None, int, str, str], list[PoolRow]] = defaultdict(list)
    for row in rows:
        groups[
            row.driver,
            row.devices,
            row.allocated,
            row.tainted,
            row.driver_versions,
            row.behind_node_taint,
        ].append(row)
    return [
        Pools(
            driver=key[0],
            pools=tuple(r.pool for r in group),
            nodes=tuple(dict.fromkeys(r.node for r in group if r.node)),
            devices=key[1],
            allocated=key[2],
            tainted=key[3],
            driver_versions=key[4],
            behind_node_taint=key[5],
        )
        for key, group in groups.items()
    ]


def command_blocks(commands: Iterable[Command]) -> list[CommandBlock]:
    """Gather commands that follow one another on the same machine into one block, a line each."""
    made: list[CommandBlock] = []
    for command in commands:
        if made and made[-1].where == command.where:
            made[-1] = CommandBlock(where=command.where, text=f"{made[-1].text}\n{command.text}")
        else:
            made.append(CommandBlock(where=command.where, text=command.text))
    return made


def fact_label(key: str) -> str:
    """Return the words of a first-page fact."""
    return {
        "what": tr("What"),
        "why": tr("Why"),
        "cluster": tr("Cluster"),
        "when": tr("When"),
        "duration": tr("Duration"),
        "risk": tr("Risk"),
        "blast_radius": tr("Blast radius"),
        "way_back": tr("Way back"),
        "not_known": tr("Not known"),
        "to_fill": tr("To fill"),
    }.get(key, key)


FACTS = (
    "what",
    "why",
    "when",
    "duration",
    "cluster",
    "risk",
    "blast_radius",
    "way_back",
    "not_known",
)
"""First-page facts in the order that an approver asks; others follow, what is to be filled has its own row."""
_IN_FACTS = frozenset({"reason", "window.start", "window.end"})
"""Fields whose value is among the first-page facts: why and when."""


def facts(ticket: Ticket) -> list[tuple[str, str]]:
    """Return label and text of the first-page facts in reading order, whatever order the ticket was stored in."""
    order = {key: index for index, key in enumerate(FACTS)}
    keys = sorted(ticket.facts, key=lambda key: order.get(key, len(order)))
    return [(fact_label(key), ticket.facts[key]) for key in keys if key != "to_fill"]


def banner(ticket: Ticket) -> tuple[str, str]:
    """Return the decision's words and the headline without repeating them."""
    word = decision_word(ticket.decision)
    headline = ticket.headline
    for said in (word, word.rstrip(".")):
        if headline.lower().startswith(said.lower()):
            headline = headline[len(said) :].lstrip(" :.：。,，")
            break
    return word, headline[:1].upper() + headline[1:]


def phases(steps: Sequence[Step]) -> list[PhaseSteps]:
    """Steps by phase and hop, in the plan's own order."""
    made: list[PhaseSteps] = []
    run: list[Step] = []
    for step in [*steps, None]:
        if run and (step is None or (step.phase, step.hop) != (run[-1].phase, run[-1].hop)):
            title = phase_title(run[0].phase)
            if run[0].hop:
                title = f"{title} · {run[0].hop.replace('->', '→')}"
            made.append(
                PhaseSteps(
                    phase=run[0].phase,
                    title=title,
                    steps=tuple(run),
                    minutes=sum(s.minutes or 0 for s in run),
                )
            )
            run = []
        if step is not None:
            run.append(step)
    return made


def layers(checks: Sequence[Check], results: Sequence[CheckResult] = ()) -> list[LayerChecks]:
    """Checks by layer, in the order API, scheduling, device, runtime."""
    by_id = {r.id: r for r in results}
    return [
        LayerChecks(
            layer=layer,
            title=layer_title(layer),
            proves=layer_proves(layer),
            rows=tuple((c, by_id.get(c.id)) for c in checks if c.layer == layer),
            commands="\n".join(_with_comment(c) for c in checks if c.layer == layer and c.command),
        )
        for layer in LAYERS
        if any(c.layer == layer for c in checks)
    ]


def _with_comment(check: Check) -> str:
    """Return a check's command after comments that say what it is and how its output is read."""
    lines = [f"# {check.id} {esc.one_line(check.title)}"]
    if check.reads_as:
        lines.append(f"#   {esc.one_line(check.reads_as)}")
    return "\n".join([*lines, check.command])


def open_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that are not accepted (or whose acceptance has run out)."""
    return [f for f in findings if f.accepted is None or f.accepted.expired]


def accepted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that the profile accepts; they stay visible."""
    return [f for f in findings if f.accepted is not None and not f.accepted.expired]


def short(instances: Sequence[str], component: str = "") -> list[str]:
    """Return instances without what every reader knows and what all of them share.

    That is the namespace kube-system, and of a component's static Pods the namespace and the component's name, which
    leaves the node.
    """
    names = list(instances)
    if not names:
        return []
    space = names[0].partition("/")[0] + "/" if "/" in names[0] else ""
    # What is no instance says its kind: of "ConfigMap kube-system/kubelet-config" no part may go.
    pods = component and " " not in space
    for prefix in (f"{space}{component}-", f"{space}openshift-{component}-", f"{component}-") if pods else ():
        if all(n.startswith(prefix) and n != prefix for n in names):
            return [n.removeprefix(prefix) for n in names]
    if all(n.startswith("kube-system/") for n in names):
        names = [n.removeprefix("kube-system/") for n in names]
    return names


def where(finding: Finding) -> str:
    """Return what a finding is about in one line."""
    subject = finding.subject
    parts = [p for p in (subject.component, subject.name) if p]
    head = " ".join(parts)
    names = short(subject.instances, subject.component)
    if not names or names == [subject.name]:
        return head
    shown = ", ".join(names[:4])
    if len(names) > 4:
        shown = tr("{names} and {n} more", names=shown, n=len(names) - 4)
    return f"{head}: {shown}" if head else shown


def review(ticket: Ticket) -> list[tuple[str, bool | None]]:
    """Return what a reviewer ticks: facts of the ticket are ticked or not by the tool, judgement (None) is people's."""
    writing = [s for s in ticket.steps if any(c.runs == "write" for c in s.commands)]
    return [
        (
            tr("each step that changes something says what proves it"),
            all(s.checks or s.go_on for s in writing),
        ),
        (tr("each step that changes something has its rollback"), all(s.rollback for s in writing)),
        (tr("each step has a time"), all(s.minutes is not None for s in ticket.steps)),
        (
            tr("each check says what is expected"),
            all(
                c.expected is not None or c.compare in {"same-as-before", "filled", "absent"}
                for c in ticket.checks
            ),
        ),
        (tr("nothing blocks"), not any(f.severity == "blocking" for f in open_findings(ticket.findings))),
        (tr("the day and the time fit"), None),
        (tr("the plan was tried on a test cluster"), None),
        (tr("a second engineer is present"), None),
    ]


def context(ticket: Ticket) -> dict[str, object]:
    """Return the names that a ticket template may use."""
    return {
        "t": ticket,
        "versions": versions(ticket.instances),
        "flips": flips(ticket.forecast),
        "set_gates": set_gates(ticket.forecast),
        "stage_moves": stage_moves(ticket.forecast),
        "banner": banner(ticket),
        "facts": facts(ticket),
        "other_forecast": [
            msgspec.structs.replace(r, instances=tuple(short(r.instances, r.component)))
            for r in ticket.forecast
            if r.kind != "gate"
        ],
        "outages": outages(ticket.capacity),
        "pools": pools(ticket.pools),
        "phases": phases(ticket.steps),
        "layers": layers(ticket.checks),
        "open_findings": open_findings(ticket.findings),
        "accepted_findings": accepted_findings(ticket.findings),
        "open_fields": [f for f in ticket.fields if f.required and not f.value],
        "filled_fields": [f for f in ticket.fields if f.value and f.name not in _IN_FACTS],
        "minutes": sum(s.minutes or 0 for s in ticket.steps),
        "review": review(ticket),
        "no_return": next((s for s in ticket.steps if s.no_return), None),
        **WORDS,
    }


def planned_done(results: Results) -> list[Deviation]:
    """What was planned itself and is done."""
    return [row for row in results.done if row.code != "follows"]


def consequences(results: Results) -> list[Deviation]:
    """What follows from the plan by itself; the heading says so, the rows need not."""
    return [msgspec.structs.replace(row, code="") for row in results.done if row.code == "follows"]


def count_word(key: str) -> str:
    """Return the words of a number of the closing report."""
    return {
        "pass": tr("checks that pass"),
        "fail": tr("checks that fail"),
        "unknown": tr("checks that are not known"),
        "attested": tr("checks that a person attests"),
        "done": tr("planned and done"),
        "follows": tr("consequences of the planned change"),
        "not_done": tr("planned and not done"),
        "unplanned": tr("done and not planned"),
        "open": tr("open points"),
    }.get(key, key)


def time_word(key: str) -> str:
    """Return the words of a time of the closing report."""
    return {
        "before": tr("reading before the change"),
        "after": tr("reading after the change"),
        "first_start": tr("first container of the change started"),
        "last_start": tr("last container of the change started"),
    }.get(key, key)


def tick_word(row: StepWord) -> str:
    """Return who says that a step is done, and what the reading says against it."""
    said = "; ".join(text for text in (row.note, row.against) if text)
    return f"{row.by}; {said}" if said else row.by


def counts(results: Results) -> list[tuple[str, int]]:
    """Return the report's numbers with their words; those of checks always, the others when there is one."""
    always = {"pass", "fail", "unknown"}
    return [(count_word(key), n) for key, n in results.counts.items() if n or key in always]


def not_comparable(results: Results) -> list[tuple[str, str]]:
    """Return what could be read on one side only or on neither, gathered by side and reason."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in results.not_comparable:
        subject = row.what if row.area == "reading" else f"{row.area} {row.what}"
        groups[row.side, unobserved_reason(row.reason)].append(subject)
    sides = {
        "before": tr("not readable before"),
        "after": tr("not readable after"),
        "both": tr("read on neither side"),
    }
    return [(f"{sides[side]} ({why})", ", ".join(what)) for (side, why), what in groups.items()]


def _plain_subjects(row: Deviation) -> Deviation:
    """Return a row whose subjects do not repeat what it says already."""
    head = row.what.split(": ")[0]
    if all(s == head for s in row.subjects):
        return msgspec.structs.replace(row, subjects=())
    if all(s.startswith(f"{head} ") for s in row.subjects):
        return msgspec.structs.replace(row, subjects=tuple(s.removeprefix(f"{head} ") for s in row.subjects))
    return row


def _rows(rows: Iterable[Deviation]) -> list[Deviation]:
    return [_plain_subjects(row) for row in rows]


def results_context(results: Results) -> dict[str, object]:
    """Return the names that a closing-report template may use."""
    return {
        "r": results,
        "counts": counts(results),
        "times": [(time_word(key), time) for key, time in results.times.items()],
        "not_comparable": not_comparable(results),
        "layers": layers(results.checks, results.results),
        "done": _rows(planned_done(results)),
        "not_done": _rows(results.not_done),
        "unknown": _rows(results.unknown),
        "consequences": _rows(consequences(results)),
        "unplanned": _rows(row for row in results.unplanned if row.code != "with"),
        "went_with": _rows(
            msgspec.structs.replace(row, code="") for row in results.unplanned if row.code == "with"
        ),
        "open_findings": open_findings(results.findings),
        "accepted_findings": accepted_findings(results.findings),
        **WORDS,
    }


WORDS: dict[str, object] = {
    "spell": spell,
    "severity_word": severity_word,
    "severity_mark": severity_mark,
    "verdict_word": verdict_word,
    "decision_word": decision_word,
    "effect_word": effect_word,
    "result_word": result_word,
    "result_mark": result_mark,
    "where": where,
    "tick_word": tick_word,
    "command_blocks": command_blocks,
    "fact_label": fact_label,
    "input_word": input_word,
    "list_cap": LIST_CAP,
}
