"""Feature gates: what stops a component at the target, what is set for nothing, what cannot be seen.

The rules themselves are in `changegen.gates`; here they are asked for every seat, and the answers are grouped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    CONTROL_PLANE,
    GATED,
    HERE,
    Context,
    complete,
    label_of,
    names,
    place_of,
)
from changegen.assess.seats import Seat, Stop, forecasts, gate_evidence, groups, stops, unique
from changegen.gates import GateForecast, GateProblem, GateSources
from changegen.i18n import tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Component
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_key, minor_of

UNKNOWN = Code(
    code="CG-GATE-001",
    title="Feature gate that the target does not know",
    severity="blocking",
    meaning="A gate is set that the component's version no longer knows, or never knew. The component exits with "
    "'unrecognized feature gate', whatever the value; a static Pod then crash-loops.",
    remedy="Remove the gate from where it is set, before the change.",
)


LOCKED_OTHER = Code(
    code="CG-GATE-002",
    title="Feature gate locked to the other value",
    severity="blocking",
    meaning="A gate is set to a value that the component's version does not allow any more: it is locked to the other one.",
    remedy="Remove the gate from where it is set, and make sure that the feature may be on (or off) for good.",
)


DEPENDENCY = Code(
    code="CG-GATE-003",
    title="Feature gate on, its dependency off",
    severity="blocking",
    meaning="A gate that is on, by setting or by default, needs another gate that is off. The component exits.",
    remedy="Turn the dependent gate off too, or the dependency on.",
)


PREALPHA = Code(
    code="CG-GATE-004",
    title="Feature gate newer than the emulated version",
    severity="blocking",
    meaning="A gate is set that does not exist yet at the version that the component emulates.",
    remedy="Remove the gate, or end the emulation first.",
)


MALFORMED = Code(
    code="CG-GATE-005",
    title="Feature gates that the component cannot read",
    severity="blocking",
    others=("warning",),
    meaning="The value of --feature-gates is malformed: no boolean, quotes that are part of the value, prefixed and "
    "unprefixed entries mixed, or a prefix that the component does not know.",
    remedy="Correct the value. It is shown as it was read; nothing in it was repaired.",
)


EMULATION_REFUSED = Code(
    code="CG-GATE-006",
    title="Emulated or minimum compatibility version that the component refuses",
    severity="blocking",
    meaning="--emulated-version or --min-compatibility-version is outside of what the component's version allows.",
    remedy="Correct or remove the flag.",
)


LOCKED_SAME = Code(
    code="CG-GATE-010",
    title="Feature gate set to its locked value",
    severity="warning",
    meaning="A gate is set to the value to which the target locks it. The component starts and logs a warning; the first "
    "minor that no longer knows the gate will not start with it.",
    remedy="Remove it now: it has no effect, and one of the next minors will not know it.",
)


REDUNDANT = Code(
    code="CG-GATE-011",
    title="Feature gates set to their default",
    severity="info",
    meaning="Gates are set to what they are without being set at the target. Each is one more name that a later minor may remove.",
    remedy="Remove them once every component runs the target.",
)


DEPRECATED = Code(
    code="CG-GATE-012",
    title="Deprecated feature gate set",
    severity="warning",
    meaning="A gate is set that is deprecated at the target: the old behaviour that it keeps will go.",
    remedy="Plan to live without it; it will be removed in a later minor.",
)


NOT_READ_BY = Code(
    code="CG-GATE-013",
    title="Feature gate set on a component that does not read it",
    severity="info",
    meaning="Every component accepts every gate, but the code of this one never asks for it: the setting has no effect here.",
    remedy="Set it on the components that read it, and remove it here.",
)


ALL_STAGE = Code(
    code="CG-GATE-014",
    title="AllAlpha or AllBeta set",
    severity="warning",
    meaning="All gates of a stage are set at once: with each minor other gates are meant by it.",
    remedy="Name the gates that are wanted.",
)


REPEATED = Code(
    code="CG-GATE-015",
    title="Feature gate given more than once",
    severity="info",
    meaning="The flag is repeated and names a gate more than once: values add up, and the last one of a name wins.",
    remedy="Keep one entry.",
)


UNOBSERVABLE_GATES = Code(
    code="CG-GATE-030",
    title="Feature gates cannot be seen",
    severity="warning",
    others=("info",),
    meaning="No source tells which gates an instance has, so nothing can be forecast for it: a gate that the target "
    "removes would stop it. What is locked in both versions is known all the same.",
    remedy="Read the gates on the machine, or let the owner of the control plane confirm that none is set.",
)


PARTLY_SEEN = Code(
    code="CG-GATE-031",
    title="Feature gates only partly seen",
    severity="info",
    meaning="The source names some gates, or says what is intended; other sources of the same component were not read.",
    remedy="Compare with the running process (metric kubernetes_feature_enabled, configz) before the change.",
)


NOT_FORECAST = Code(
    code="CG-GATE-033",
    title="Feature gates not forecast",
    severity="warning",
    meaning="The version of an instance, or its target, is not in the data, so its gates are not forecast.",
    remedy="Find the version out, or give the data with --data.",
)


EFFECTIVE = Code(
    code="CG-GATE-034",
    title="Effective gates of a process that is not known",
    severity="info",
    meaning="A metric gives the effective gates of a process, and which component or instance it is, is not known. What differs "
    "from the defaults of its version must have been set somewhere.",
    remedy="Find out which process it was, and where it sets the gates.",
)


KUBEADM_RENDERS = Code(
    code="CG-KUBEADM-001",
    title="kubeadm would write a gate that the target refuses",
    severity="blocking",
    meaning="ConfigMap kubeadm-config holds a setting that the target's component does not start with. kubeadm writes the "
    "manifests from it again at every upgrade, and edits made by hand are lost.",
    remedy="Edit ClusterConfiguration in ConfigMap kubeadm-config (extraArgs) before the next run of kubeadm.",
)


CODES = (
    UNKNOWN,
    LOCKED_OTHER,
    DEPENDENCY,
    PREALPHA,
    MALFORMED,
    EMULATION_REFUSED,
    LOCKED_SAME,
    REDUNDANT,
    DEPRECATED,
    NOT_READ_BY,
    ALL_STAGE,
    REPEATED,
    UNOBSERVABLE_GATES,
    PARTLY_SEEN,
    NOT_FORECAST,
    EFFECTIVE,
    KUBEADM_RENDERS,
)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on feature gates that are set, or cannot be seen."""
    yield from _stopping(ctx)
    yield from _settings(ctx)
    yield from _unseen(ctx)
    yield from _effective(ctx)


_BY_KIND: Final = {
    "unknown": UNKNOWN,
    "removed": UNKNOWN,
    "locked": LOCKED_OTHER,
    "dependency": DEPENDENCY,
    "prealpha": PREALPHA,
    "malformed": MALFORMED,
    "mixed": MALFORMED,
    "prefix": MALFORMED,
    "version": EMULATION_REFUSED,
    "flag": MALFORMED,
}


def _stopping(ctx: Context) -> Iterator[Finding]:
    found: defaultdict[tuple[str, str, str], list[tuple[Seat, Stop]]] = defaultdict(list)
    for alike in groups(ctx):
        for stop in stops(ctx, alike[0]):
            key = (alike[0].component, stop.problem.gate or "", _text_key(stop))
            found[key].extend((seat, stop) for seat in alike)
    for (component, gate, _), members in found.items():
        instances = [(seat, stop) for seat, stop in members if not seat.by_kubeadm]
        configs = [seat for seat, _ in members if seat.by_kubeadm]
        first = min((stop for _, stop in instances or members), key=lambda s: (not s.today, _order(s.minor)))
        evidence = [e for seat, _ in members for e in gate_evidence(seat, gate)]
        if instances:
            where = names(seat.where for seat, _ in instances)
            yield finding(
                _BY_KIND[first.problem.kind],
                _stop_text(ctx, component, first, where, _owners(seat for seat, _ in instances)),
                component=component,
                instances=[seat.label for seat, _ in instances],
                name=gate,
                evidence=unique(evidence),
                advice=_stop_advice(ctx, first, configs),
                preexisting=first.today,
                hop="" if first.today else ctx.hop_of(first.minor),
            )
        else:
            config = configs[0].config
            place = f"{config.namespace}/{config.name}" if config is not None else ""
            yield finding(
                KUBEADM_RENDERS,
                tr(
                    "ConfigMap {place} sets {what} for {component}: the next run of kubeadm writes it into the manifest, and {version} exits with {message}",
                    place=place,
                    what=_setting(first.problem),
                    component=component,
                    version=f"{component} {first.minor}",
                    message=f"`{first.problem.message}`",
                )
                + f". {_running(ctx, component)}"
                + "".join(f" {hint}" for hint in (_hint(ctx, first.problem),) if hint),
                component=component,
                instances=[seat.label for seat in configs],
                name=gate,
                evidence=unique(evidence),
                hop=ctx.hop_of(first.minor),
            )


def _running(ctx: Context, component: str) -> str:
    """What is known of the running instances where only kubeadm's ConfigMap is seen to name a gate."""
    instances = ctx.of(component)
    seen = [c for c in instances if ctx.sources(c) is not None]
    if not seen:
        return tr("What its instances set today was not read.")
    if len(seen) < len(instances) or not all(complete(c) for c in seen):
        return tr("As far as they were read, no instance of it sets that today.")
    return tr("No running instance of it sets that today.")


def _owners(places: Iterable[Seat]) -> str:
    owners = {s.instance.belongs_to for s in places if s.instance is not None}
    return ", ".join(sorted(owners - {HERE}))


def _text_key(stop: Stop) -> str:
    return "" if stop.problem.gate else stop.problem.message


def _order(minor: str) -> tuple[int, int]:
    return minor_key(minor) if minor else (0, 0)


def _setting(problem: GateProblem) -> str:
    if not problem.gate:
        return "--feature-gates"
    return problem.gate if problem.value is None else f"{problem.gate}={str(problem.value).lower()}"


def _stop_text(ctx: Context, component: str, stop: Stop, where: str, owner: str = "") -> str:
    problem, kind = stop.problem, stop.problem.kind
    message = f"`{problem.message}`"
    setting = _setting(problem)
    if kind == "removed":
        removed = problem.removed_in or stop.minor
        text = tr(
            "{setting} is set for {component} of {where}; {removed} removed the gate: it exits with {message}.",
            setting=setting,
            where=where,
            removed=removed,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "unknown" and ctx.data.gate(problem.gate) is not None:
        text = tr(
            "{setting} is set for {component} of {where}; {minor} does not have this gate: it exits with {message}.",
            setting=setting,
            where=where,
            minor=stop.minor,
            component=component,
            message=message,
        )
    elif kind == "unknown":
        text = tr(
            "{setting} is set for {component} of {where}; no known version has this gate: it exits with {message}.",
            setting=setting,
            where=where,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "locked":
        text = tr(
            "{setting} is set for {component} of {where}; {minor} locks the gate to the other value: it exits with {message}.",
            setting=setting,
            where=where,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "dependency":
        text = tr(
            "For {component} of {where}, {gate} is on in {minor} but {missing} is off: it exits with {message}.",
            where=where,
            gate=problem.gate,
            minor=stop.minor,
            missing=", ".join(problem.missing),
            component=component,
            message=message,
        )
    else:
        text = tr(
            "{component} {minor} of {where} does not start with its gates: it exits with {message}.",
            component=component,
            minor=stop.minor,
            where=where,
            message=message,
        )
    if owner:
        text += " " + tr("It belongs to the hosted control plane {owner}.", owner=owner)
    if stop.today:
        text += " " + tr("This is already so at the version of today.")
    hint = _hint(ctx, problem)
    return f"{text} {hint}" if hint else text


def _hint(ctx: Context, problem: GateProblem) -> str:
    """What a name that no component knows may have been meant for."""
    if problem.kind not in {"unknown", "removed"} or not problem.gate:
        return ""
    if ctx.data.kubeadm_gate(problem.gate) and ctx.data.gate(problem.gate) is None:
        return tr(
            "{gate} is a gate of kubeadm itself and belongs into featureGates of ClusterConfiguration.",
            gate=problem.gate,
        )
    if problem.kind == "unknown" and ctx.data.gate(problem.gate) is None:
        wanted = problem.gate.lower()
        close = next((name for name in ctx.data.gate_names if name.lower() == wanted), None)
        if close is not None:
            return tr("There is a gate {gate}: names are case-sensitive.", gate=close)
    return ""


def _stop_advice(ctx: Context, stop: Stop, configs: list[Seat]) -> str:
    code = _BY_KIND[stop.problem.kind]
    advice = tr(code.remedy)
    if stop.problem.kind == "dependency" and stop.problem.missing:
        advice = tr(
            "Set {gate}=false as well, or let {missing} be on.",
            gate=stop.problem.gate,
            missing=", ".join(stop.problem.missing),
        )
    places = sorted({f"{s.config.namespace}/{s.config.name}" for s in configs if s.config is not None})
    if places:
        advice += " " + tr(
            "ConfigMap {place} has it too and must be edited before kubeadm upgrade apply: kubeadm writes the manifests from it again, and edits made by hand are lost.",
            place=", ".join(places),
        )
    elif ctx.config_maps("kubeadm"):
        advice += " " + tr(
            "ConfigMap kubeadm-config does not have it: kubeadm's next run writes the manifests without it."
        )
    return advice


def _settings(ctx: Context) -> Iterator[Finding]:
    """Gates that are set and accepted: locked, deprecated, redundant, without effect, given twice, by stage."""
    locked: defaultdict[tuple[str, str, str], list[tuple[Seat, GateForecast]]] = defaultdict(list)
    redundant: defaultdict[str, list[Seat]] = defaultdict(list)
    deprecated: defaultdict[tuple[str, str], list[Seat]] = defaultdict(list)
    idle: defaultdict[tuple[str, str], list[Seat]] = defaultdict(list)
    stages: defaultdict[tuple[str, str, bool], list[Seat]] = defaultdict(list)
    repeated: defaultdict[tuple[str, str], list[Seat]] = defaultdict(list)
    for alike in groups(ctx):
        seat = alike[0]
        parsed = ctx.parsed(seat.instance) if seat.instance is not None else None
        if parsed is not None:
            for gate in parsed.repeated:
                repeated[seat.component, gate].extend(alike)
            for special in ("AllAlpha", "AllBeta"):
                if special in parsed.values:
                    stages[seat.component, special, parsed.values[special]].extend(alike)
        for row in forecasts(ctx, seat):
            if row.set_value is None or row.blocking:
                continue
            if row.kind == "locked-same":
                key = (seat.component, row.gate, str(row.set_value).lower())
                locked[key].extend((other, row) for other in alike)
                continue
            if row.stage_target == "Deprecated":
                deprecated[seat.component, row.gate].extend(alike)
            elif row.kind == "set-to-default":
                redundant[row.gate].extend(alike)
            if row.components and seat.component not in row.components and not seat.by_kubeadm:
                idle[seat.component, row.gate].extend(alike)
    for (component, gate, value), members in locked.items():
        row = members[0][1]
        target = minor_of(members[0][0].target) or ""
        text = tr(
            "{gate}={value} is set for {component} of {where}; {minor} locks it to that value: the component starts and logs a warning.",
            gate=gate,
            value=value,
            where=names(seat.where for seat, _ in members),
            minor=target,
            component=component,
        )
        if row.components and component not in row.components:
            text += " " + _readers_text(component, row.components)
        yield finding(
            LOCKED_SAME,
            text,
            component=component,
            instances=[seat.label for seat, _ in members],
            name=gate,
            evidence=unique(e for seat, _ in members for e in gate_evidence(seat, gate)),
        )
    for (component, gate), group in deprecated.items():
        yield finding(
            DEPRECATED,
            tr(
                "{gate} is set for {component} of {where}; it is deprecated in {minor}.",
                gate=gate,
                component=component,
                where=names(seat.where for seat in group),
                minor=minor_of(group[0].target) or "",
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=unique(e for seat in group for e in gate_evidence(seat, gate)),
        )
    if redundant:
        everyone = [seat for group in redundant.values() for seat in group]
        yield finding(
            REDUNDANT,
            tr(
                "Set to what {minor} does anyway: {gates}.",
                minor=minor_of(everyone[0].target) or "",
                gates="; ".join(
                    tr(
                        "{gate} on {components}",
                        gate=gate,
                        components=", ".join(sorted({seat.component for seat in group})),
                    )
                    for gate, group in sorted(redundant.items())
                ),
            ),
            component="feature gates",
            instances=[seat.label for seat in everyone],
            name=", ".join(sorted(redundant)),
            evidence=unique(
                e for gate, group in sorted(redundant.items()) for e in gate_evidence(group[0], gate)
            ),
        )
    for (component, gate), group in idle.items():
        history = ctx.data.gate(gate)
        readers = history.by_minor[history.last].components if history is not None else ()
        yield finding(
            NOT_READ_BY,
            tr(
                "{gate} is set for {component} of {where}.",
                gate=gate,
                component=component,
                where=names(seat.where for seat in group),
            )
            + " "
            + _readers_text(component, readers),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=unique(e for seat in group for e in gate_evidence(seat, gate)),
        )
    for (component, special, on), group in stages.items():
        yield finding(
            ALL_STAGE,
            tr(
                "{special}={value} is set for {component} of {where}: with each minor it means other gates.",
                special=special,
                component=component,
                value=str(on).lower(),
                where=names(seat.where for seat in group),
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=special,
            evidence=unique(e for seat in group for e in gate_evidence(seat, special)),
        )
    for (component, gate), group in repeated.items():
        parsed = ctx.parsed(group[0].instance) if group[0].instance is not None else None
        last = parsed.values.get(gate) if parsed is not None else None
        yield finding(
            REPEATED,
            tr(
                "{gate} is given more than once to {component} of {where}; the last value wins: {value}.",
                gate=gate,
                component=component,
                where=names(seat.where for seat in group),
                value=str(last).lower(),
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=unique(e for seat in group for e in gate_evidence(seat, gate)),
        )


def _readers_text(component: str, readers: Iterable[str]) -> str:
    return tr(
        "Only {readers} read it; on {component} it has no effect.",
        readers=", ".join(sorted(readers)),
        component=component,
    )


def _unseen(ctx: Context) -> Iterator[Finding]:
    """Gates that cannot be seen; those to look for are named once, by the gravest finding that has the same ones."""
    found = [*_blind(ctx), *(item for name in GATED for item in _unseen_of(ctx, name))]
    carriers: dict[tuple[str, ...], Finding] = {}
    for item, gone in sorted(found, key=lambda pair: pair[0].severity != "warning"):
        carriers.setdefault(gone, item)
    for item, gone in found:
        carrier = carriers[gone]
        if not gone:
            yield item
            continue
        if item is carrier:
            hint = tr("Gates that would stop it, if one is set: {gates}.", gates=", ".join(gone))
        else:
            hint = tr(
                "Gates that would stop it, if one is set: those that {code} names for {component}.",
                code=carrier.code,
                component=carrier.subject.component,
            )
        yield msgspec.structs.replace(item, advice=f"{item.advice} {hint}")


def _blind(ctx: Context) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """Components of which no source says anything, each with the gates to look for.

    Those of a provider's control plane stand together: there is one place to ask.
    """
    together: dict[tuple[object, ...], list[str]] = {}
    for name in GATED:
        unseen = any(ctx.sources(c) is None for c in ctx.of(name))
        expected = name != "kube-proxy" and not _hosts(ctx, name) and ctx.target is not None
        if unseen or (expected and not ctx.of(name)):
            key = (unseen, would_stop(ctx, name)) if _of_provider(ctx, name) else (name,)
            together.setdefault(key, []).append(name)
    for members in together.values():
        component = ", ".join(members)
        blind = [c for name in members for c in ctx.of(name) if ctx.sources(c) is None]
        if blind and {place_of(c) for c in blind} <= set(members):
            text = tr(
                "The feature gates of {component} cannot be seen: whether the target starts with them is not known.",
                component=component,
            )
        elif blind:
            text = tr(
                "The feature gates of {component} ({count}: {where}) cannot be seen: whether the target starts with them is not known.",
                count=len(blind),
                component=component,
                where=names(place_of(c) for c in blind),
            )
        else:
            text = tr(
                "No instance of {component} was seen, so its feature gates are not known.",
                component=component,
            )
        grave = not _of_provider(ctx, members[0]) and members != ["kube-proxy"]
        item = finding(
            UNOBSERVABLE_GATES,
            text,
            component=component,
            instances=[label_of(c) for c in blind],
            evidence=_no_source(blind),
            advice=_where_to_look(ctx, members[0]),
            severity="warning" if grave else "info",
        )
        yield item, would_stop(ctx, members[0])


def _of_provider(ctx: Context, component: str) -> bool:
    return ctx.snapshot.cluster.managed and component in CONTROL_PLANE


def _no_source(blind: Iterable[Component]) -> tuple[Evidence, ...]:
    return unique(
        Evidence(source=label_of(c), path="feature gates", provenance=c.feature_gates_source)
        for c in list(blind)[:3]
    )


def _unseen_of(ctx: Context, name: str) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """What else is not seen of one component, each with the gates to look for."""
    look, gone = _where_to_look(ctx, name), would_stop(ctx, name)
    betrayed = [c for c in ctx.of(name) if ctx.sources(c) is not None and c.feature_gates == UNOBSERVABLE]
    betrayed = [c for c in betrayed if c.effective_gates is not None]
    if betrayed:
        text = tr(
            "Of {component} {where} only the metric was read: gates at another value than the default must be set, those that are set to their default stay unseen.",
            component=name,
            where=names(place_of(c) for c in betrayed),
        )
        labels = [label_of(c) for c in betrayed]
        yield finding(PARTLY_SEEN, text, component=name, instances=labels, advice=look), gone
    for owner, of_owner in _blind_elsewhere(ctx, name).items():
        text = tr(
            "The feature gates of {component} ({count}: {where}) cannot be seen: whether the target starts with them is not known.",
            count=len(of_owner),
            component=name,
            where=names(place_of(c) for c in of_owner),
        )
        item = finding(
            UNOBSERVABLE_GATES,
            text + " " + tr("It belongs to the hosted control plane {owner}.", owner=owner),
            component=name,
            instances=[label_of(c) for c in of_owner],
            evidence=_no_source(of_owner),
            advice=look,
        )
        yield item, gone
    group = [
        c
        for c in ctx.of(name)
        if c.feature_gates != UNOBSERVABLE
        # kube-proxy takes nothing but its file, where it has one.
        and (not complete(c) or (c.gates_certainty == "intended" and name != "kube-proxy"))
    ]
    if group:
        text = tr(
            "The gates of {component} ({count}) were read from {source} only: other flags and files can set more.",
            count=len(group),
            component=name,
            source=names({c.feature_gates_source or c.gate_sources[0].place for c in group}, 3),
        )
        labels = [label_of(c) for c in group]
        yield finding(PARTLY_SEEN, text, component=name, instances=labels, advice=look), gone
    unknown = [c for c in ctx.of(name) if c.feature_gates != UNOBSERVABLE and not _can_forecast(ctx, c)]
    if unknown and ctx.goes_to(name) is not None:
        item = finding(
            NOT_FORECAST,
            tr(
                "{component} {where}: {version}, so what changes by default is not known.",
                component=name,
                where=names(place_of(c) for c in unknown),
                version=names(
                    {
                        tr("the version is not known")
                        if ctx.version_of(c) is None
                        else tr(
                            "version {version} is not in the data", version=c.running_version or c.version
                        )
                        for c in unknown
                    }
                ),
            ),
            component=name,
            instances=[label_of(c) for c in unknown],
        )
        yield item, ()


def _effective(ctx: Context) -> Iterator[Finding]:
    """Metrics of processes that fit no instance: what they show against the defaults of their version."""
    for process in ctx.snapshot.processes:
        known = process.component in GATED and ctx.of(process.component)
        if process.effective_gates is None or known or not ctx.data.knows(process.version):
            continue
        component = process.component if process.component in GATED else "kube-apiserver"
        defaults = ctx.effective_of(component, process.version, GateSources())
        found = {
            gate: value
            for gate, value in sorted(process.effective_gates.items())
            if gate in defaults and defaults[gate] != value
        }
        if not found:
            continue
        yield finding(
            EFFECTIVE,
            tr(
                "{place} is of a {component} {version}; its effective gates differ from the defaults in {gates}.",
                place=process.place,
                component=process.component,
                version=process.version,
                gates=names((f"{gate}={str(value).lower()}" for gate, value in found.items()), 20),
            ),
            component=process.component,
            instances=[process.place],
            evidence=[
                Evidence(
                    source=process.place,
                    path=f"kubernetes_feature_enabled name={gate}",
                    value=str(int(value)),
                    provenance="metric",
                )
                for gate, value in list(found.items())[:10]
            ],
        )


def _hosts(ctx: Context, component: str) -> bool:
    return any(c.component == component for c in ctx.hosted_elsewhere)


def _blind_elsewhere(ctx: Context, component: str) -> dict[str, list[Component]]:
    """Instances of hosted control planes whose gates cannot be seen, by owner; where this cluster shows none of its own."""
    found: dict[str, list[Component]] = {}
    own = any(c.kind != "inferred" for name in CONTROL_PLANE for c in ctx.of(name))
    if component in CONTROL_PLANE and not own:
        for item in ctx.hosted_elsewhere:
            if item.component == component and ctx.sources(item) is None:
                found.setdefault(item.belongs_to, []).append(item)
    return found


def _can_forecast(ctx: Context, component: Component) -> bool:
    version = ctx.version_of(component)
    return version is not None and ctx.data.knows(version)


def would_stop(ctx: Context, component: str) -> tuple[str, ...]:
    """Gates that stop a component of the target if they are set at all, though today's version takes them, sorted.

    Where today's version is not in the data, those that any older minor of the data knew.
    """
    target = minor_of(ctx.goes_to(component))
    if target is None or not ctx.data.knows(target):
        return ()
    today = ctx.today_minor
    older = [m for m in ctx.data.minors if minor_key(m) < minor_key(target)]
    if today is not None and ctx.data.knows(today):
        older = [m for m in older if minor_key(m) >= minor_key(today)]
    before = {gate for minor in older for gate in ctx.data.gates(minor)}
    return tuple(sorted(before - set(ctx.data.gates(target))))


def _where_to_look(ctx: Context, component: str) -> str:
    if component == "kubelet":
        return tr(
            "Read /configz of each kubelet (an opt-in of the live reading, it needs nodes/proxy or nodes/configz), or look for --feature-gates and featureGates in the kubelet's flags and files on the machine."
        )
    if component == "kube-proxy":
        return tr("Read ConfigMap kube-proxy and the arguments of its DaemonSet.")
    if ctx.snapshot.cluster.managed:
        return tr(
            "The provider runs it: ask whether a gate is set for this cluster, and read its release notes."
        )
    return tr(
        "Read the component's command line on the machine, its /flagz, or the metric kubernetes_feature_enabled."
    )
