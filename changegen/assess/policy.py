"""What the profile wants: gates, stages, node taints, component versions; and what it accepts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    GATED,
    Context,
    GateState,
    SelectorError,
    complete,
    label_of,
    names,
    sources_of,
)
from changegen.assess.seats import seats
from changegen.gates import GateSources, spec_at
from changegen.i18n import tr
from changegen.model.profile import Accept, GateWish, NodeTaintWish
from changegen.model.snapshot import Node, NodeTaint
from changegen.model.ticket import Acceptance, Evidence, Finding
from changegen.versions import minor_key, minor_of

GATE_UNMET = Code(
    code="CG-POLICY-001",
    title="Wished feature gate not met",
    severity="warning",
    meaning="The profile wants a gate on (or off), and with what is set today it will not be so at the target.",
    remedy="Set the gate on the components that the profile names, as a step of the change.",
)
GATE_SET = Code(
    code="CG-POLICY-002",
    title="Feature gate set that the profile wants unset",
    severity="warning",
    meaning="The profile wants a gate not to be set at all, and it is.",
    remedy="Remove it.",
)
GATE_IMPOSSIBLE = Code(
    code="CG-POLICY-003",
    title="Wished feature gate that the target refuses",
    severity="blocking",
    meaning="The profile wants a gate at a value with which a component of the target does not start.",
    remedy="Correct the profile.",
)
ALPHA = Code(
    code="CG-POLICY-004",
    title="Alpha feature gate on",
    severity="warning",
    meaning="An Alpha gate is set to on, and the profile's policy does not allow it.",
    remedy="Turn it off, or name it in the profile.",
)
BETA = Code(
    code="CG-POLICY-005",
    title="Beta feature gate on that is not named",
    severity="warning",
    meaning="A Beta gate is set to on, and the profile's policy does not allow it unless it is named.",
    remedy="Turn it off, or name it in the profile.",
)
GATE_UNKNOWN = Code(
    code="CG-POLICY-006",
    title="Cannot tell whether a wished feature gate is met",
    severity="warning",
    others=("info",),
    meaning="The gates of a component that the profile speaks of were not read, or only in part.",
    remedy="Read them; unknown is not met.",
)
TAINT_MISSING = Code(
    code="CG-POLICY-010",
    title="Expected node taint missing",
    severity="warning",
    meaning="The profile expects a node taint that is not there.",
    remedy="Set the taint, or correct the profile.",
)
TAINT_PRESENT = Code(
    code="CG-POLICY-011",
    title="Unwanted node taint",
    severity="warning",
    meaning="The profile wants a node taint absent, and it is there.",
    remedy="Remove the taint, or correct the profile.",
)
TAINT_UNKNOWN = Code(
    code="CG-POLICY-012",
    title="Cannot tell whether node taints are as wished",
    severity="warning",
    meaning="Nodes were not read, or no node fits the selector of the profile.",
    remedy="Read the Nodes, or correct the selector.",
)
VERSION_UNKNOWN = Code(
    code="CG-POLICY-021",
    title="Cannot tell the version of a component that the profile names",
    severity="warning",
    meaning="The profile names a version for a component of which no instance, or no version, was seen.",
    remedy="Read it; unknown is not met.",
)
EXPIRED = Code(
    code="CG-POLICY-030",
    title="Acceptance has expired",
    severity="warning",
    meaning="The profile accepts a finding, but the last day of that has passed: it no longer counts.",
    remedy="Mend the cause, or let the owner decide anew.",
)
IDLE_ACCEPT = Code(
    code="CG-POLICY-031",
    title="Acceptance that fits no finding",
    severity="info",
    meaning="The profile accepts a finding that is not made: it was mended, or the subject is misspelled.",
    remedy="Remove the entry, or correct its subject.",
)
NO_DAY = Code(
    code="CG-POLICY-032",
    title="Cannot tell whether acceptances have expired",
    severity="warning",
    meaning="The time of the reading is not known, so that no acceptance can be dated: none counts.",
    remedy="Give the time of the capture.",
)
CODES = (
    GATE_UNMET,
    GATE_SET,
    GATE_IMPOSSIBLE,
    ALPHA,
    BETA,
    GATE_UNKNOWN,
    TAINT_MISSING,
    TAINT_PRESENT,
    TAINT_UNKNOWN,
    VERSION_UNKNOWN,
    EXPIRED,
    IDLE_ACCEPT,
    NO_DAY,
)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on the profile's wishes; what it accepts is applied by `accept` when all findings are there."""
    yield from _gates(ctx)
    yield from _stages(ctx)
    yield from _node_taints(ctx)
    yield from _versions(ctx)


# --------------------------------------------------------------------------------------------------------- gates


def wished_components(ctx: Context, wish: GateWish) -> tuple[str, ...]:
    """Components of which a wish speaks: those that it names, else those that read the gate."""
    if wish.components:
        return tuple(name for name in wish.components if name in GATED)
    history = ctx.data.gate(wish.name)
    readers = history.by_minor[history.last].components if history is not None else ()
    return tuple(name for name in GATED if not readers or name in readers)


def _gates(ctx: Context) -> Iterator[Finding]:
    for wish in ctx.profile.feature_gates.gates:
        evidence = [
            Evidence(
                source="profile",
                path="feature_gates.gates",
                value=f"{wish.name}: {'-' if wish.value is None else str(wish.value).lower()}",
                provenance="profile",
            )
        ]
        if wish.value is None:
            yield from _unset(ctx, wish, evidence)
            continue
        components = wished_components(ctx, wish)
        refused = _refused(ctx, wish, components)
        if refused:
            component, words = refused
            yield finding(
                GATE_IMPOSSIBLE,
                tr(
                    "The profile wants {gate}={value}; {component} of the target exits with {words}.",
                    gate=wish.name,
                    value=str(wish.value).lower(),
                    component=component,
                    words=f"`{words}`",
                ),
                component=component,
                name=wish.name,
                evidence=evidence,
            )
            continue
        states = ctx.gate_states(wish.name, components, "target") if components else ()
        wrong = [s for s in states if s.value is not None and s.value != wish.value]
        blind = [s for s in states if s.value is None]
        missing = [c for c in components if not ctx.of(c)]
        if wrong:
            yield finding(
                GATE_UNMET,
                tr(
                    "The profile wants {gate}={value}; with what is set today it will be {other} on {where}.",
                    gate=wish.name,
                    value=str(wish.value).lower(),
                    other=str(not wish.value).lower(),
                    where=names(s.instance for s in wrong),
                ),
                component=", ".join(sorted({s.component for s in wrong})),
                instances=[s.instance for s in wrong],
                name=wish.name,
                evidence=[*evidence, *_state_evidence(wrong)],
            )
        if blind or missing:
            where = names([s.instance for s in blind] + missing)
            yield finding(
                GATE_UNKNOWN,
                tr(
                    "The profile wants {gate}={value}; on {where} it cannot be seen.",
                    gate=wish.name,
                    value=str(wish.value).lower(),
                    where=where,
                ),
                component=", ".join(sorted({s.component for s in blind} | set(missing))),
                instances=[s.instance for s in blind],
                name=wish.name,
                evidence=evidence,
            )


def _state_evidence(states: Iterable[GateState]) -> list[Evidence]:
    return [
        Evidence(
            source=s.instance, path=s.gate, value=f"{str(s.value).lower()} ({s.how})", provenance="inferred"
        )
        for s in list(states)[:4]
    ]


def _refused(ctx: Context, wish: GateWish, components: Iterable[str]) -> tuple[str, str] | None:
    """A component of the target that would not start with a wish by itself, and its words."""
    if wish.value is None:
        return None
    setting = {wish.name: wish.value}
    for component in components:
        target = ctx.goes_to(component)
        if target is None or not ctx.data.knows(target):
            continue
        registry = component not in {"kubelet", "kube-proxy"}
        text = f"{wish.name}={str(wish.value).lower()}"
        sources = GateSources(flags=(text,)) if registry else GateSources(file=setting)
        verdict = ctx.start_of(component, target, sources)
        for problem in verdict.problems:
            # A dependency may be met by another wish.
            if problem.gate == wish.name and problem.kind in {"unknown", "removed", "locked"}:
                return component, problem.message
    return None


def _unset(ctx: Context, wish: GateWish, evidence: list[Evidence]) -> Iterator[Finding]:
    names_of = wish.components or GATED
    found: list[tuple[str, str]] = [
        (seat.component, seat.label)
        for seat in seats(ctx)
        if seat.component in names_of and wish.name in ctx.named_gates(seat.component, seat.sources)
    ]
    blind = [c for name in names_of for c in ctx.of(name) if sources_of(c) is None or not complete(c)]
    blind = [c for c in blind if label_of(c) not in {label for _, label in found}]
    if found:
        yield finding(
            GATE_SET,
            tr(
                "The profile wants {gate} not to be set; it is set on {where}.",
                gate=wish.name,
                where=names(label for _, label in found),
            ),
            component=", ".join(sorted({component for component, _ in found})),
            instances=[label for _, label in found],
            name=wish.name,
            evidence=evidence,
        )
    if blind:
        yield finding(
            GATE_UNKNOWN,
            tr(
                "The profile wants {gate} not to be set; on {where} it cannot be seen.",
                gate=wish.name,
                where=names(label_of(c) for c in blind),
            ),
            component=", ".join(sorted({c.component for c in blind})),
            instances=[label_of(c) for c in blind],
            name=wish.name,
            evidence=evidence,
        )


def _stages(ctx: Context) -> Iterator[Finding]:
    policy = ctx.profile.feature_gates.stages
    if policy.alpha == "allowed" and policy.beta == "allowed":
        return
    allowed = {wish.name for wish in ctx.profile.feature_gates.gates if wish.value}
    found: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for seat in seats(ctx):
        minor = minor_of(seat.target) or minor_of(seat.today)
        if minor is None or not ctx.data.knows(minor):
            continue
        for gate, on in ctx.named_gates(seat.component, seat.sources).items():
            known = ctx.data.gates(minor).get(gate)
            if not on or known is None:
                continue
            spec = spec_at(known, minor_key(minor), None, seat.component)
            if spec is not None:
                found[spec.stage, gate].append((seat.component, seat.label))
    for (stage, gate), where in sorted(found.items()):
        rule = {"Alpha": policy.alpha, "Beta": policy.beta}.get(stage, "allowed")
        if rule == "allowed" or (rule == "named" and gate in allowed):
            continue
        yield finding(
            ALPHA if stage == "Alpha" else BETA,
            tr(
                "{gate} is {stage} at the target and set to on for {where}; {rule}.",
                gate=gate,
                stage=stage,
                where=names(label for _, label in where),
                rule=tr("the profile forbids {stage} gates", stage=stage)
                if rule == "forbidden"
                else tr("the profile allows {stage} gates only where it names them", stage=stage),
            ),
            component=", ".join(sorted({component for component, _ in where})),
            instances=[label for _, label in where],
            name=gate,
        )


# --------------------------------------------------------------------------------------------------------- taints


def _fits(wish: NodeTaintWish, taint: NodeTaint) -> bool:
    return (
        taint.key == wish.key
        and (wish.value is None or taint.value == wish.value)
        and (not wish.effect or taint.effect == wish.effect)
    )


def _node_taints(ctx: Context) -> Iterator[Finding]:
    read = bool(ctx.snapshot.nodes) or ctx.was_read("nodes")
    for wish in ctx.profile.taints.nodes:
        text = (
            wish.key + (f"={wish.value}" if wish.value else "") + (f":{wish.effect}" if wish.effect else "")
        )
        evidence = [
            Evidence(
                source="profile", path="taints.nodes", value=f"{text} {wish.expect}", provenance="profile"
            )
        ]
        try:
            nodes: tuple[Node, ...] = ctx.nodes_matching(wish.nodes) if read else ()
        except SelectorError as error:
            yield finding(TAINT_UNKNOWN, str(error), component="node taint", name=text, evidence=evidence)
            continue
        if not nodes:
            reason = (
                tr("Nodes were not read")
                if not read
                else tr("no Node has the labels {selector}", selector=wish.nodes)
            )
            yield finding(
                TAINT_UNKNOWN,
                tr(
                    "Whether taint {taint} is {expect} cannot be told: {reason}.",
                    taint=text,
                    expect=wish.expect,
                    reason=reason,
                ),
                component="node taint",
                name=text,
                evidence=evidence,
            )
            continue
        having = [node for node in nodes if any(_fits(wish, taint) for taint in node.taints)]
        lacking = [node for node in nodes if node not in having]
        if wish.expect == "absent" and having:
            yield finding(
                TAINT_PRESENT,
                tr("Taint {taint} is on {nodes}.", taint=text, nodes=names(n.name for n in having)),
                component="node taint",
                instances=[n.name for n in having],
                name=text,
                evidence=evidence,
            )
        elif wish.expect == "present" and ((wish.nodes and lacking) or not having):
            yield finding(
                TAINT_MISSING,
                tr("Taint {taint} is missing on {nodes}.", taint=text, nodes=names(n.name for n in lacking)),
                component="node taint",
                instances=[n.name for n in lacking],
                name=text,
                evidence=evidence,
            )


# ------------------------------------------------------------------------------------------------------- versions


def _versions(ctx: Context) -> Iterator[Finding]:
    """Component versions that the profile names and nothing tells; what is behind its target is CG-LEFT's."""
    for wish in ctx.profile.target.components:
        instances = ctx.of(wish.name)
        evidence = [
            Evidence(
                source="profile",
                path="target.components",
                value=f"{wish.name} {wish.version}",
                provenance="profile",
            )
        ]
        blind = [c for c in instances if ctx.version_of(c) is None]
        if not instances or blind:
            yield finding(
                VERSION_UNKNOWN,
                tr(
                    "The profile wants {component} {version}; {where}.",
                    component=wish.name,
                    version=wish.version,
                    where=tr("no instance was seen")
                    if not instances
                    else tr("no version is known of {where}", where=names(label_of(c) for c in blind)),
                ),
                component=wish.name,
                instances=[label_of(c) for c in blind],
                evidence=evidence,
            )


# --------------------------------------------------------------------------------------------------------- accept


def subjects(item: Finding) -> tuple[str, ...]:
    """Names by which a profile can point at a finding's subject.

    `component`, `component/name`, `component/instance`, the instances and the name by themselves; of a Pod named after
    its node (`kube-system/kube-scheduler-cp-3`) also `kube-scheduler/cp-3`.
    """
    subject = item.subject
    found = [subject.component, subject.name, f"{subject.component}/{subject.name}"]
    for instance in subject.instances:
        short = instance.rpartition("/")[2].removeprefix(f"{subject.component}-")
        found += [instance, f"{subject.component}/{instance}", f"{subject.component}/{short}"]
    return tuple(dict.fromkeys(x for x in found if x and not x.endswith("/")))


def covers(accept: Accept, item: Finding) -> bool:
    """Whether an acceptance speaks of a finding; of several instances it must cover each one.

    An empty subject covers every finding of the code, `*` at the end covers a prefix.
    """
    if accept.code != item.code:
        return False
    if not accept.subject:
        return True

    def hit(names_of: Iterable[str]) -> bool:
        if accept.subject.endswith("*"):
            return any(name.startswith(accept.subject[:-1]) for name in names_of)
        return accept.subject in names_of

    subject = item.subject
    whole = subjects(msgspec.structs.replace(item, subject=msgspec.structs.replace(subject, instances=())))
    if hit(whole) or not subject.instances:
        return hit(whole)
    return all(
        hit(
            subjects(
                msgspec.structs.replace(
                    item, subject=msgspec.structs.replace(subject, instances=(one,), name="")
                )
            )
        )
        for one in subject.instances
    )


def accept(ctx: Context, found: Iterable[Finding], day: str = "") -> list[Finding]:
    """Marks the findings that the profile accepts, and adds what is to be said of acceptances.

    Args:
        ctx: Of the assessment; the time of the reading decides what has expired.
        found: All findings of all modules.
        day: The day to judge by (`2027-01-31`), where the caller knows a better one.
    """
    today = (day or ctx.snapshot.captured_at)[:10]
    result = []
    used: set[int] = set()
    for item in found:
        marked = item
        for at, entry in enumerate(ctx.profile.accept):
            if not covers(entry, item):
                continue
            used.add(at)
            expired = not today or entry.until < today
            if marked.accepted is None or marked.accepted.expired:
                marked = msgspec.structs.replace(
                    item,
                    accepted=Acceptance(
                        reason=entry.reason, owner=entry.owner, until=entry.until, expired=expired
                    ),
                )
        result.append(marked)
    for at, entry in enumerate(ctx.profile.accept):
        text = f"{entry.code} {entry.subject}".strip()
        evidence = [Evidence(source="profile", path="accept", value=text, provenance="profile")]
        if at not in used:
            result.append(
                finding(
                    IDLE_ACCEPT,
                    tr("The profile accepts {text}, and no such finding is made.", text=text),
                    component="profile",
                    name=text,
                    evidence=evidence,
                )
            )
        elif today and entry.until < today:
            result.append(
                finding(
                    EXPIRED,
                    tr(
                        "{owner} accepted {text} until {until}: it no longer counts.",
                        owner=entry.owner,
                        text=text,
                        until=entry.until,
                    ),
                    component="profile",
                    name=text,
                    evidence=evidence,
                )
            )
    if ctx.profile.accept and not today:
        result.append(
            finding(
                NO_DAY,
                tr("The time of the reading is not known, so no acceptance counts."),
                component="profile",
            )
        )
    return result
