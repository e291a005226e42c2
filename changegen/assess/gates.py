"""Feature gates: what stops a component at the target, what changes with nobody touching it, what cannot be seen.

The rules themselves are in `changegen.gates`; here they are asked for every instance and for every ConfigMap from which
instances are made anew, and the answers are grouped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

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
)
from changegen.gates import GateForecast, GateProblem, GateSources
from changegen.i18n import tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Component, ConfigMapFact, GateSource
from changegen.model.ticket import Evidence, Finding, ForecastRow
from changegen.versions import minor_key, minor_of, next_minors

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
FLIP_TOUCHES = Code(
    code="CG-GATE-020",
    title="Default changes that touch this cluster",
    severity="info",
    others=("warning",),
    meaning="A gate that nobody set changes its value with the target, and the cluster has objects that it concerns.",
    remedy="Read what the gate does. Set it explicitly on every component that reads it if the change must wait, where the target still allows it.",
)
FLIP_REST = Code(
    code="CG-GATE-021",
    title="Other default changes",
    severity="info",
    meaning="Gates that nobody set change their value with the target; nothing that was read uses them, or what would use them was not read.",
    remedy="Read the list in the annex.",
)
UNEVEN = Code(
    code="CG-GATE-022",
    title="Feature gate differs between components at the target",
    severity="warning",
    meaning="A gate will be on in one component and off in another that also reads it. Half a feature gives forbidden "
    "errors or fields that are dropped silently.",
    remedy="Set it alike on every component that reads it.",
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
FOREIGN = Code(
    code="CG-GATE-032",
    title="Feature gates of the distribution",
    severity="info",
    meaning="The distribution has gates of its own, which are not judged by the Kubernetes data; its operators write the gates of "
    "each release anew, so what this release sets says nothing of the next.",
    remedy="Read the distribution's release notes.",
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
KUBEADM_GATE = Code(
    code="CG-KUBEADM-002",
    title="kubeadm's own gate that its target does not know",
    severity="blocking",
    meaning="ClusterConfiguration.featureGates names a gate that kubeadm of the target does not know: it exits with "
    "'unrecognized feature-gate key'. These are kubeadm's own gates, not those of a component.",
    remedy="Remove it from featureGates of ClusterConfiguration in ConfigMap kubeadm-config.",
)
KUBEADM_API = Code(
    code="CG-KUBEADM-003",
    title="kubeadm of the target does not read this configuration version",
    severity="blocking",
    meaning="ConfigMap kubeadm-config is written in an API version that kubeadm of the target has dropped.",
    remedy="Migrate it with a kubeadm that still reads the old version (kubeadm config migrate), and store the result.",
)
KUBEADM_GATE_OLD = Code(
    code="CG-KUBEADM-004",
    title="kubeadm's own gate is deprecated or locked",
    severity="warning",
    meaning="A gate of kubeadm itself is set that is deprecated or locked at the target.",
    remedy="Remove it from featureGates of ClusterConfiguration.",
)
EMULATES = Code(
    code="CG-EMUL-001",
    title="Emulated version in use",
    severity="info",
    others=("warning",),
    meaning="A component emulates an older minor: gates, defaults and APIs are those of that minor. It keeps the way back, "
    "and the new behaviour comes only when the emulation ends.",
    remedy="End it as a change of its own, once going back is no longer wanted.",
)
MIN_COMPAT = Code(
    code="CG-EMUL-002",
    title="Minimum compatibility version raised",
    severity="warning",
    meaning="--min-compatibility-version is raised to the binary's own minor: it may write what the minor before cannot "
    "read, and going back is no longer supported.",
    remedy="Leave the flag out until going back is no longer wanted.",
)
EMULATION_OFFERED = Code(
    code="CG-EMUL-003",
    title="Emulated version can keep the way back",
    severity="info",
    meaning="The target's control plane can be told to emulate today's minor: new defaults, gates and APIs stay away until "
    "the flag is taken out. A gate that the target's binary has removed is not brought back by it.",
    remedy="Add --emulated-version with today's minor to kube-apiserver, kube-controller-manager and kube-scheduler for the "
    "change, and end it later as a change of its own.",
)
OPENSHIFT_NO_UPGRADE = Code(
    code="CG-OPENSHIFT-001",
    title="Feature set forbids upgrades",
    severity="blocking",
    meaning="The FeatureGate's featureSet is CustomNoUpgrade, TechPreviewNoUpgrade or DevPreviewNoUpgrade: the cluster cannot "
    "move to another minor, and the setting cannot be undone.",
    remedy="Move the workloads to a new cluster.",
)
OPENSHIFT_NO_ENTRY = Code(
    code="CG-OPENSHIFT-002",
    title="No feature gates for this release yet",
    severity="warning",
    meaning="status.featureGates has no entry for the release that is rolled out: its gates cannot be seen yet.",
    remedy="Read again when the rollout has gone on.",
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
    FLIP_TOUCHES,
    FLIP_REST,
    UNEVEN,
    UNOBSERVABLE_GATES,
    PARTLY_SEEN,
    FOREIGN,
    NOT_FORECAST,
    EFFECTIVE,
    KUBEADM_RENDERS,
    KUBEADM_GATE,
    KUBEADM_API,
    KUBEADM_GATE_OLD,
    EMULATES,
    MIN_COMPAT,
    EMULATION_OFFERED,
    OPENSHIFT_NO_UPGRADE,
    OPENSHIFT_NO_ENTRY,
)

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
_EFFECTS: Final[dict[str, Effect]] = {}
Effect = Literal[
    "will-not-start",
    "locked-same",
    "flips-on",
    "flips-off",
    "new-on",
    "stage",
    "redundant",
    "unchanged",
    "unknown",
]
_EFFECTS.update(
    {
        "unknown": "will-not-start",
        "removed": "will-not-start",
        "locked-other": "will-not-start",
        "prealpha": "will-not-start",
        "dependency": "will-not-start",
        "locked-same": "locked-same",
        "set-to-default": "redundant",
        "flip-on": "flips-on",
        "flip-off": "flips-off",
        "new-on": "new-on",
        "stage-change": "stage",
        "unchanged": "unchanged",
    }
)
_EFFECT_ORDER: Final = (
    "will-not-start",
    "flips-off",
    "flips-on",
    "new-on",
    "locked-same",
    "unknown",
    "redundant",
    "stage",
    "unchanged",
)
_MOST_EVIDENCE: Final = 12


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A place where gates are set for one component: a running instance, or a ConfigMap that instances are made from."""

    component: str
    label: str
    """`namespace/name` of the Pod, the Node, or `ConfigMap namespace/name`."""
    today: str | None
    """Version now; None where it is not known."""
    target: str | None
    sources: GateSources
    complete: bool
    instance: Component | None = None
    config: ConfigMapFact | None = None

    @property
    def like(self) -> tuple[object, ...]:
        """What decides every answer on its gates: seats that are alike are judged once."""
        provenance = self.provenance
        return (
            self.component,
            minor_of(self.today),
            minor_of(self.target),
            msgspec.json.encode(self.sources),
            self.complete,
            self.by_kubeadm,
            provenance,
            self.instance is None,
        )

    @property
    def provenance(self) -> str:
        """Where the gates were read."""
        if self.config is not None:
            return "configmap"
        sources = self.instance.gate_sources if self.instance is not None else ()
        return sources[0].provenance if sources else "inferred"

    @property
    def by_kubeadm(self) -> bool:
        """Whether it is kubeadm's configuration, from which manifests are written."""
        return self.config is not None and self.config.kind == "kubeadm"


def seats(ctx: Context) -> tuple[Seat, ...]:
    """All places that set gates of this cluster's components, instances first."""
    return ctx.remember(("seats",), lambda: _seats(ctx))


def groups(ctx: Context) -> tuple[tuple[Seat, ...], ...]:
    """Seats of which everything that decides is the same, in the order of their first ones."""

    def make() -> tuple[tuple[Seat, ...], ...]:
        found: dict[tuple[object, ...], list[Seat]] = {}
        for seat in seats(ctx):
            found.setdefault(seat.like, []).append(seat)
        return tuple(tuple(group) for group in found.values())

    return ctx.remember(("groups",), make)


def _seats(ctx: Context) -> tuple[Seat, ...]:
    found: list[Seat] = []
    seen: set[str] = set()
    own = any(c.kind != "inferred" for name in CONTROL_PLANE for c in ctx.of(name))
    for name in GATED:
        # A host of control planes that shows none of its own is read for the sake of those.
        hosted = () if own else tuple(c for c in ctx.hosted_elsewhere if c.component == name)
        for component in (*ctx.of(name), *hosted):
            sources = ctx.sources(component)
            if sources is None:
                continue
            version = ctx.version_of(component)
            seen |= {s.place.split(" ")[0] for s in component.gate_sources if s.provenance == "configmap"}
            seen |= {
                s.place.split(" ")[1]
                for s in component.gate_sources
                if s.provenance == "configmap" and s.place.startswith("ConfigMap ")
            }
            found.append(
                Seat(
                    component=name,
                    label=label_of(component),
                    today=version.raw if version is not None else None,
                    target=None if ctx.stays(component) else ctx.goes_to(name),
                    sources=sources,
                    complete=complete(component) or component.effective_gates is not None,
                    instance=component,
                )
            )
    for config in ctx.snapshot.config_maps:
        place = f"{config.namespace}/{config.name}"
        for name, source in sorted(config.component_gates.items()):
            if name not in GATED or (config.kind != "kubeadm" and place in seen):
                continue
            found.append(
                Seat(
                    component=name,
                    label=f"ConfigMap {place}",
                    today=_config_version(ctx, config, name),
                    target=ctx.goes_to(name),
                    sources=_of_source(name, source),
                    complete=source.complete,
                    config=config,
                )
            )
    return tuple(found)


def _config_version(ctx: Context, config: ConfigMapFact, component: str) -> str | None:
    if config.kubernetes_version:
        return config.kubernetes_version
    versions = [v.raw for c in ctx.of(component) if (v := ctx.version_of(c)) is not None]
    return versions[0] if versions else ctx.today.raw if ctx.today is not None else None


def _of_source(component: str, source: GateSource) -> GateSources:
    if source.flag_values:
        return GateSources(flags=source.flag_values)
    if component in CONTROL_PLANE:
        joined = ",".join(f"{name}={str(value).lower()}" for name, value in source.gates.items())
        return GateSources(flags=(joined,) if joined else ())
    return GateSources(file=dict(source.gates))


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that stops a component, with the first minor at which it does."""

    minor: str
    today: bool
    """True: it already does at today's version."""
    problem: GateProblem


def stops(ctx: Context, seat: Seat) -> tuple[Stop, ...]:
    """What would keep a component from starting, at today's minor and at each one of the way; first minor each."""
    if ctx.foreign_gates and _by_operator(seat):
        # Each release's operators write the gates anew: what this one sets says nothing of the next.
        return ()
    today = minor_of(seat.today)
    target = minor_of(seat.target)
    minors: list[str] = []
    if today is not None and not seat.by_kubeadm:
        minors.append(today)
    if target is not None:
        minors.extend(next_minors(today, target) if today is not None else ())
        if target not in minors:
            minors.append(target)
    if seat.by_kubeadm and not minors and today is not None:
        minors.append(today)
    found: dict[tuple[str, str], Stop] = {}
    for minor in minors:
        version = seat.today if minor == today else seat.target if minor == target else minor
        if version is None or not ctx.data.knows(minor):
            continue
        problems = list(ctx.start_of(seat.component, version, seat.sources).problems)
        problems += _behind(ctx, seat, version, problems)
        for problem in problems:
            if ctx.foreign_gates and problem.kind in {"unknown", "removed"}:
                continue
            # A gate that is locked in one minor and gone in the next is one fault with one remedy.
            key = ("gate", problem.gate) if problem.gate else (problem.kind, problem.message)
            found.setdefault(key, Stop(minor=minor, today=minor == today, problem=problem))
    if not found:
        parsed = ctx.parsed(seat.instance) if seat.instance is not None else None
        for message in parsed.errors if parsed is not None else ():
            found["malformed", message] = Stop(
                minor=today or "", today=True, problem=GateProblem(kind="malformed", message=message)
            )
    return tuple(found.values())


def _by_operator(seat: Seat) -> bool:
    """Whether the gates do not stand on a command line, but in what an operator renders from a FeatureGate."""
    sources = seat.instance.gate_sources[:1] if seat.instance is not None else ()
    return seat.config is not None or any(s.provenance not in {"pod spec", "configz"} for s in sources)


def _behind(ctx: Context, seat: Seat, version: str, problems: list[GateProblem]) -> list[GateProblem]:
    """Faults that the component tells only once these are mended: it looks at dependencies last."""
    bad = {
        problem.gate for problem in problems if problem.kind in {"unknown", "removed", "locked", "prealpha"}
    }
    if not bad:
        return []
    rest = {
        gate: value
        for gate, value in ctx.named_gates(seat.component, seat.sources).items()
        if gate not in bad
    }
    if seat.component in CONTROL_PLANE:
        text = ",".join(f"{gate}={str(value).lower()}" for gate, value in rest.items())
        mended = msgspec.structs.replace(seat.sources, flags=(text,) if text else ())
    else:
        mended = GateSources(file=rest)
    return [p for p in ctx.start_of(seat.component, version, mended).problems if p.kind == "dependency"]


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on feature gates."""
    yield from _stopping(ctx)
    yield from _settings(ctx)
    yield from _flips(ctx)
    yield from _uneven(ctx)
    yield from _unseen(ctx)
    yield from _effective(ctx)
    yield from _kubeadm(ctx)
    yield from _emulation(ctx)
    yield from _openshift(ctx)


# ------------------------------------------------------------------------------------------------ would not start


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
            where = names(seat.label for seat, _ in instances)
            yield finding(
                _BY_KIND[first.problem.kind],
                _stop_text(ctx, component, first, where, _owners(seat for seat, _ in instances)),
                component=component,
                instances=[seat.label for seat, _ in instances],
                name=gate,
                evidence=_unique(evidence),
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
                    "ConfigMap {place} sets {what} for {component}, which no running instance of it sets: the next run of kubeadm writes it into the manifest, and {version} exits with {message}",
                    place=place,
                    what=_setting(first.problem),
                    component=component,
                    version=f"{component} {first.minor}",
                    message=f"`{first.problem.message}`",
                )
                + "."
                + "".join(f" {hint}" for hint in (_hint(ctx, first.problem),) if hint),
                component=component,
                instances=[seat.label for seat in configs],
                name=gate,
                evidence=_unique(evidence),
                hop=ctx.hop_of(first.minor),
            )


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
            "{setting} is set on {where}; {removed} removed the gate: {component} {minor} exits with {message}.",
            setting=setting,
            where=where,
            removed=removed,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "unknown":
        text = tr(
            "{setting} is set on {where}; no known version of {component} has this gate: {minor} exits with {message}.",
            setting=setting,
            where=where,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "locked":
        text = tr(
            "{setting} is set on {where}; {minor} locks the gate to the other value: {component} exits with {message}.",
            setting=setting,
            where=where,
            component=component,
            minor=stop.minor,
            message=message,
        )
    elif kind == "dependency":
        text = tr(
            "On {where}, {gate} is on in {minor} but {missing} is off: {component} exits with {message}.",
            where=where,
            gate=problem.gate,
            minor=stop.minor,
            missing=", ".join(problem.missing),
            component=component,
            message=message,
        )
    else:
        text = tr(
            "{component} {minor} does not start with the gates of {where}: it exits with {message}.",
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
    if problem.kind == "unknown":
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


def gate_evidence(seat: Seat, gate: str) -> list[Evidence]:
    """Where a gate is set for a seat: flag, file or ConfigMap, and the manifest that a static Pod comes from."""
    found = []
    if seat.config is not None:
        source = seat.config.component_gates[seat.component]
        found.append(_source_evidence(source, gate, f"{seat.config.namespace}/{seat.config.name}"))
    if seat.instance is not None:
        found.extend(
            _source_evidence(source, gate, seat.label)
            for source in seat.instance.gate_sources
            if not gate or gate in source.gates or any(gate in value for value in source.flag_values)
        )
        if not found and seat.instance.effective_gates is not None and gate in seat.instance.effective_gates:
            found.append(
                Evidence(
                    source=seat.label,
                    path=f"kubernetes_feature_enabled name={gate}",
                    value=str(int(seat.instance.effective_gates[gate])),
                    provenance="metric",
                )
            )
        if seat.instance.manifest:
            found.append(
                Evidence(
                    source=seat.instance.manifest,
                    path=f"{seat.instance.node or ''} spec.containers.command".strip(),
                    value="--feature-gates",
                    provenance="inferred",
                )
            )
    return found


def _source_evidence(source: GateSource, gate: str, place: str) -> Evidence:
    values = [value for value in source.flag_values if not gate or gate in value]
    if values:
        return Evidence(
            source=source.place or place,
            path="--feature-gates",
            value=", ".join(values),
            provenance=source.provenance,
        )
    value = (
        f"{gate}: {str(source.gates[gate]).lower()}" if gate in source.gates else "; ".join(source.problems)
    )
    return Evidence(
        source=source.place or place, path="featureGates", value=value, provenance=source.provenance
    )


def _unique(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    found: dict[tuple[str, str, str], Evidence] = {}
    for item in evidence:
        found.setdefault((item.source, item.path, item.value), item)
    return tuple(list(found.values())[:_MOST_EVIDENCE])


# ------------------------------------------------------------------------------------------- settings worth a word


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
        for row in _forecast(ctx, seat):
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
            "{gate}={value} is set on {where}; {minor} locks it to that value: {component} starts and logs a warning.",
            gate=gate,
            value=value,
            where=names(seat.label for seat, _ in members),
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
            evidence=_unique(e for seat, _ in members for e in gate_evidence(seat, gate)),
        )
    for (component, gate), group in deprecated.items():
        yield finding(
            DEPRECATED,
            tr(
                "{gate} is set on {where}; it is deprecated in {minor}.",
                gate=gate,
                where=names(seat.label for seat in group),
                minor=minor_of(group[0].target) or "",
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=_unique(e for seat in group for e in gate_evidence(seat, gate)),
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
            evidence=_unique(
                e for gate, group in sorted(redundant.items()) for e in gate_evidence(group[0], gate)
            ),
        )
    for (component, gate), group in idle.items():
        history = ctx.data.gate(gate)
        readers = history.by_minor[history.last].components if history is not None else ()
        yield finding(
            NOT_READ_BY,
            tr("{gate} is set on {where}.", gate=gate, where=names(seat.label for seat in group))
            + " "
            + _readers_text(component, readers),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=_unique(e for seat in group for e in gate_evidence(seat, gate)),
        )
    for (component, special, on), group in stages.items():
        yield finding(
            ALL_STAGE,
            tr(
                "{special}={value} is set on {where}: with each minor it means other gates.",
                special=special,
                value=str(on).lower(),
                where=names(seat.label for seat in group),
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=special,
            evidence=_unique(e for seat in group for e in gate_evidence(seat, special)),
        )
    for (component, gate), group in repeated.items():
        parsed = ctx.parsed(group[0].instance) if group[0].instance is not None else None
        last = parsed.values.get(gate) if parsed is not None else None
        yield finding(
            REPEATED,
            tr(
                "{gate} is given more than once on {where}; the last value wins: {value}.",
                gate=gate,
                where=names(seat.label for seat in group),
                value=str(last).lower(),
            ),
            component=component,
            instances=[seat.label for seat in group],
            name=gate,
            evidence=_unique(e for seat in group for e in gate_evidence(seat, gate)),
        )


def _readers_text(component: str, readers: Iterable[str]) -> str:
    return tr(
        "Only {readers} read it; on {component} it has no effect.",
        readers=", ".join(sorted(readers)),
        component=component,
    )


def _forecast(ctx: Context, seat: Seat) -> tuple[GateForecast, ...]:
    if seat.today is None or seat.target is None:
        return ()
    return ctx.forecast(seat.component, seat.today, seat.target, seat.sources).gates


# --------------------------------------------------------------------------------------------------- default changes


class Flip(msgspec.Struct, kw_only=True):
    """A gate whose value changes with nobody touching it."""

    gate: str
    on: bool
    kind: str
    readers: tuple[str, ...]
    labels: list[str] = msgspec.field(default_factory=list)
    components: set[str] = msgspec.field(default_factory=set)
    minor: str = ""


def flips(ctx: Context) -> dict[str, Flip]:
    """Default changes by gate, on instances of components that read the gate and do not set it."""
    found: dict[str, Flip] = {}
    for alike in groups(ctx):
        seat = alike[0]
        if seat.instance is None or not seat.complete or seat.target is None or seat.today is None:
            continue
        forecast = ctx.forecast(seat.component, seat.today, seat.target, seat.sources)
        labels = [other.label for other in alike]
        for row in forecast.gates:
            if not row.changes_value or (row.components and seat.component not in row.components):
                continue
            flip = found.setdefault(
                row.gate,
                Flip(
                    gate=row.gate,
                    on=row.kind != "flip-off",
                    kind=row.kind,
                    readers=row.components,
                    minor=forecast.hop_of.get(row.gate, forecast.target),
                ),
            )
            flip.labels.extend(labels)
            flip.components.add(seat.component)
    return dict(sorted(found.items()))


def _flips(ctx: Context) -> Iterator[Finding]:
    rest: list[Flip] = []
    for flip in flips(ctx).values():
        touch = touches(ctx, flip.gate)
        if not touch.text or not touch.used:
            rest.append(flip)
            continue
        today = tr("off") if flip.on else tr("on")
        target = tr("on") if flip.on else tr("off")
        yield finding(
            FLIP_TOUCHES,
            tr(
                "{gate}: {today} now, {target} with {minor}, on {components} that do not set it ({where}). Touches here: {touches}",
                gate=flip.gate,
                today=today,
                target=target,
                minor=flip.minor,
                components=", ".join(sorted(flip.components)),
                where=names(flip.labels),
                touches=touch.text,
            ),
            component=", ".join(sorted(flip.components)),
            instances=flip.labels,
            name=flip.gate,
            severity="warning" if touch.risky else "info",
            hop=ctx.hop_of(flip.minor),
        )
    if rest:
        yield finding(
            FLIP_REST,
            tr(
                "{count} more gates change their default with nobody touching them; in what was read nothing is seen that they concern: {gates}.",
                count=len(rest),
                gates=", ".join(flip.gate for flip in rest),
            ),
            component="feature gates",
            name=ctx.target.text if ctx.target is not None else "",
        )


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """What of this cluster a gate concerns."""

    text: str = ""
    used: bool = False
    """True: the cluster has such objects."""
    risky: bool = False


def _dra(ctx: Context) -> Touch:
    snapshot = ctx.snapshot
    claims, devices = len(snapshot.claims), sum(len(pool.devices) for pool in snapshot.pools)
    if not ctx.was_read("resourceclaims.resource.k8s.io") and not ctx.was_read(
        "resourceslices.resource.k8s.io"
    ):
        return Touch(text=tr("unknown: ResourceClaims and ResourceSlices were not read"))
    if not claims and not devices:
        return Touch()
    return Touch(
        text=tr("{claims} ResourceClaims, {devices} devices.", claims=claims, devices=devices), used=True
    )


def _rules(ctx: Context) -> Touch:
    rules = ctx.snapshot.taint_rules
    if not rules:
        if ctx.was_read("devicetaintrules.resource.k8s.io"):
            return Touch()
        return Touch(text=tr("unknown: DeviceTaintRules were not read"))
    evicting = [rule.name for rule in rules if rule.effect == "NoExecute"]
    listed = ", ".join(f"{rule.name} ({rule.effect})" for rule in rules)
    text = tr("DeviceTaintRules {rules}.", rules=listed)
    if evicting:
        text += " " + tr("Those with NoExecute will evict Pods.")
    return Touch(text=text, used=True, risky=bool(evicting))


def _selinux(ctx: Context) -> Touch:
    labelled = [f"{pod.namespace}/{pod.name}" for pod in ctx.snapshot.pods if pod.selinux_labels]
    if labelled:
        return Touch(
            text=tr(
                "{count} of the Pods kept in this reading set SELinux labels: {names}. Two Pods with different labels can no longer share a volume.",
                count=len(labelled),
                names=names(labelled),
            ),
            used=True,
            risky=True,
        )
    if not ctx.was_read("pods"):
        return Touch(text=tr("unknown: Pods were not read"))
    return Touch(text=tr("no SELinux labels seen in the Pods of this reading"))


def _webhooks(ctx: Context) -> Touch:
    count = len(ctx.snapshot.webhooks)
    return Touch(text=tr("{count} admission webhooks.", count=count), used=True) if count else Touch()


def _stateful(ctx: Context) -> Touch:
    found = {f"{w.namespace}/{w.name}" for w in ctx.snapshot.workloads if w.kind == "StatefulSet"}
    found |= {
        f"{pod.owner.namespace}/{pod.owner.name}"
        for pod in ctx.snapshot.pods
        if pod.owner is not None and pod.owner.kind == "StatefulSet"
    }
    return Touch(text=tr("StatefulSets: {names}.", names=names(found)), used=True) if found else Touch()


def _jobs(ctx: Context) -> Touch:
    found = {
        f"{pod.owner.namespace}/{pod.owner.name}"
        for pod in ctx.snapshot.pods
        if pod.owner is not None and pod.owner.kind in {"Job", "CronJob"}
    }
    return Touch(text=tr("Jobs: {names}.", names=names(found)), used=True) if found else Touch()


def _ipvs(ctx: Context) -> Touch:
    modes = {str(c.settings.get("mode") or "") for c in ctx.config_maps("kube-proxy")}
    return Touch(text=tr("kube-proxy runs in mode ipvs."), used=True) if "ipvs" in modes else Touch()


def _nftables(ctx: Context) -> Touch:
    modes = {str(c.settings.get("mode") or "") for c in ctx.config_maps("kube-proxy")}
    return Touch(text=tr("kube-proxy runs in mode nftables."), used=True) if "nftables" in modes else Touch()


def _hpa(ctx: Context) -> Touch:
    if ctx.served("autoscaling/v2") is False:
        return Touch()
    return Touch(text=tr("unknown: HorizontalPodAutoscalers are not read"))


def _health(ctx: Context) -> Touch:
    count = sum(1 for pod in ctx.snapshot.pods if pod.uses_devices)
    return Touch(text=tr("{count} Pods hold devices.", count=count), used=True) if count else Touch()


def _static(_: Context) -> Touch:
    return Touch()


_PROBES: Final[dict[str, Callable[[Context], Touch]]] = {
    "DRADeviceTaintRules": _rules,
    "SELinuxMount": _selinux,
    "ExcludeAdmissionWebhookVirtualResources": _webhooks,
    "WebhookRoundTripLoadBalancing": _webhooks,
    "ManifestBasedAdmissionControlConfig": _static,
    "MaxUnavailableStatefulSet": _stateful,
    "StaleControllerConsistencyStatefulSet": _stateful,
    "StaleControllerConsistencyJob": _jobs,
    "MutablePodResourcesForSuspendedJobs": _jobs,
    "MutableSchedulingDirectivesForSuspendedJobs": _jobs,
    "KubeProxyIPVS": _ipvs,
    "NFTablesNetlink": _nftables,
    "ResourceHealthStatus": _health,
    "ResourceHealthStatusMessage": _health,
}


def touches(ctx: Context, gate: str) -> Touch:
    """What of this cluster a gate concerns, as far as it was read."""
    probe = _PROBES.get(gate)
    if probe is None and gate.startswith("DRA"):
        probe = _dra
    if probe is None and gate.startswith("HPA"):
        probe = _hpa
    return probe(ctx) if probe is not None else Touch()


# ------------------------------------------------------------------------------------------- uneven at the target


def _uneven(ctx: Context) -> Iterator[Finding]:
    """Gates set somewhere that will differ, at the target, between control-plane components that read them."""
    named = {
        gate
        for name in CONTROL_PLANE
        for component in ctx.of(name)
        if isinstance(component.feature_gates, dict)
        for gate in component.feature_gates
    }
    at: Literal["today", "target"] = "target" if ctx.target is not None else "today"
    for gate in sorted(named):
        history = ctx.data.gate(gate)
        minor = ctx.goes_to("kube-apiserver") if at == "target" else ctx.today_minor
        if history is None or minor is None or (minor_of(minor) or "") not in history.by_minor:
            continue
        readers = [c for c in CONTROL_PLANE if c in history.by_minor[minor_of(minor) or ""].components]
        states = [s for s in ctx.gate_states(gate, readers, at) if s.known] if len(readers) > 1 else []
        on, off = [s for s in states if s.value], [s for s in states if not s.value]
        # Replicas of one component that differ are drift, which another finding names.
        if not on or not off or {s.component for s in on} & {s.component for s in off}:
            continue
        yield finding(
            UNEVEN,
            tr(
                "{gate} is on in {on} and off in {off}; {readers} read it.",
                gate=gate,
                on=", ".join(sorted({s.component for s in on})),
                off=", ".join(sorted({s.component for s in off})),
                readers=", ".join(readers),
            ),
            component="feature gates",
            instances=[s.instance for s in off],
            name=gate,
        )


# ------------------------------------------------------------------------------------------------- cannot be seen


def _unseen(ctx: Context) -> Iterator[Finding]:
    for name in GATED:
        blind = [c for c in ctx.of(name) if ctx.sources(c) is None]
        betrayed = [c for c in ctx.of(name) if ctx.sources(c) is not None and c.feature_gates == UNOBSERVABLE]
        betrayed = [c for c in betrayed if c.effective_gates is not None]
        if betrayed:
            yield finding(
                PARTLY_SEEN,
                tr(
                    "Of {component} {where} only the metric was read: gates at another value than the default must be set, those that are set to their default stay unseen.",
                    component=name,
                    where=names(label_of(c) for c in betrayed),
                ),
                component=name,
                instances=[label_of(c) for c in betrayed],
                advice=_unseen_advice(ctx, name),
            )
        if blind:
            nature = ctx.snapshot.cluster.managed and name in CONTROL_PLANE
            yield finding(
                UNOBSERVABLE_GATES,
                tr(
                    "The feature gates of {count} {component} ({where}) cannot be seen: whether the target starts with them is not known.",
                    count=len(blind),
                    component=name,
                    where=names(label_of(c) for c in blind),
                ),
                component=name,
                instances=[label_of(c) for c in blind],
                evidence=_unique(
                    Evidence(source=label_of(c), path="feature gates", provenance=c.feature_gates_source)
                    for c in blind[:3]
                ),
                advice=_unseen_advice(ctx, name),
                severity="info" if nature or name == "kube-proxy" else "warning",
            )
        elif (
            not ctx.of(name)
            and not _hosts(ctx, name)
            and name in {*CONTROL_PLANE, "kubelet"}
            and ctx.target is not None
        ):
            yield finding(
                UNOBSERVABLE_GATES,
                tr(
                    "No instance of {component} was seen, so its feature gates are not known.", component=name
                ),
                component=name,
                advice=_unseen_advice(ctx, name),
                severity="info" if ctx.snapshot.cluster.managed and name in CONTROL_PLANE else "warning",
            )
        partly = [c for c in ctx.of(name) if c.feature_gates != UNOBSERVABLE and not complete(c)]
        intended = [
            c
            for c in ctx.of(name)
            if c.feature_gates != UNOBSERVABLE
            and complete(c)
            # kube-proxy takes nothing but its file, where it has one.
            and name != "kube-proxy"
            and c.gates_certainty == "intended"
        ]
        if partly or intended:
            group = partly or intended
            yield finding(
                PARTLY_SEEN,
                tr(
                    "The gates of {count} {component} were read from {source} only: other flags and files of theirs can set more.",
                    count=len(group),
                    component=name,
                    source=names({c.feature_gates_source or c.gate_sources[0].place for c in group}, 3),
                ),
                component=name,
                instances=[label_of(c) for c in group],
                advice=_unseen_advice(ctx, name),
            )
        unknown = [c for c in ctx.of(name) if c.feature_gates != UNOBSERVABLE and not _can_forecast(ctx, c)]
        if unknown and ctx.goes_to(name) is not None:
            yield finding(
                NOT_FORECAST,
                tr(
                    "{component} {where}: {version}, so what changes by default is not known.",
                    component=name,
                    where=names(label_of(c) for c in unknown),
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


def _can_forecast(ctx: Context, component: Component) -> bool:
    version = ctx.version_of(component)
    return version is not None and ctx.data.knows(version)


def _unseen_advice(ctx: Context, component: str) -> str:
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


# ------------------------------------------------------------------------------------------------------- kubeadm


def _kubeadm(ctx: Context) -> Iterator[Finding]:
    minor = minor_of(ctx.goes_to("kube-apiserver"))
    base = ctx.data.base_versions(minor) if minor is not None else None
    if minor is None or base is None:
        return
    for config in ctx.config_maps("kubeadm"):
        place = f"{config.namespace}/{config.name}"

        def evidence(path: str, value: str, place: str = place) -> tuple[Evidence, ...]:
            return (Evidence(source=place, path=path, value=value, provenance="configmap"),)

        version = config.api_version.rpartition("/")[2]
        if version and base.kubeadm_apis and version not in base.kubeadm_apis:
            readers = [
                m
                for m in ctx.data.minors
                if (b := ctx.data.base_versions(m)) is not None and version in b.kubeadm_apis
            ]
            text = tr(
                "ConfigMap {place} is written in {version}, which kubeadm {minor} no longer reads; it writes {known}.",
                place=place,
                version=config.api_version,
                minor=minor,
                known=base.kubeadm_apis[-1],
            )
            if readers:
                text += " " + tr("The last kubeadm that can migrate it is {minor}.", minor=readers[-1])
            yield finding(
                KUBEADM_API,
                text,
                component="kubeadm",
                instances=[f"ConfigMap {place}"],
                name=config.api_version,
                evidence=evidence("ClusterConfiguration.apiVersion", config.api_version),
                hop=ctx.hop_of(minor),
            )
        for gate, value in sorted(config.own_feature_gates.items()):
            text_value = f"{gate}: {str(value).lower()}"
            known = base.kubeadm_gates.get(gate)
            if known is None:
                history = ctx.data.kubeadm_gate(gate)
                text = tr(
                    "featureGates of ClusterConfiguration names {gate}, which kubeadm {minor} does not know: it exits with {message}.",
                    gate=gate,
                    minor=minor,
                    message=f"`unrecognized feature-gate key: {gate}`",
                )
                if not history and ctx.data.gate(gate) is not None:
                    text += " " + tr(
                        "{gate} is a gate of the components and belongs into their extraArgs.", gate=gate
                    )
                yield finding(
                    KUBEADM_GATE,
                    text,
                    component="kubeadm",
                    instances=[f"ConfigMap {place}"],
                    name=gate,
                    evidence=evidence("ClusterConfiguration.featureGates", text_value),
                    hop=ctx.hop_of(minor),
                )
            elif known.stage == "Deprecated" or known.deprecation or known.lock:
                yield finding(
                    KUBEADM_GATE_OLD,
                    tr(
                        "featureGates of ClusterConfiguration names {gate}, which is deprecated or locked in kubeadm {minor}.",
                        gate=gate,
                        minor=minor,
                    ),
                    component="kubeadm",
                    instances=[f"ConfigMap {place}"],
                    name=gate,
                    evidence=evidence("ClusterConfiguration.featureGates", text_value),
                )


# ----------------------------------------------------------------------------------------------------- emulation


def _emulation(ctx: Context) -> Iterator[Finding]:
    used = False
    for name in CONTROL_PLANE:
        emulating: defaultdict[str, list[Component]] = defaultdict(list)
        raised: defaultdict[str, list[Component]] = defaultdict(list)
        for component in ctx.of(name):
            version = ctx.version_of(component)
            own = version.minor_version if version is not None else None
            emulated = minor_of(_last(component.emulated_version))
            minimum = minor_of(_last(component.min_compatibility_version))
            if emulated is not None and emulated != own:
                emulating[emulated].append(component)
            if minimum is not None and minimum in (own, ctx.target_minor):
                raised[minimum].append(component)
        for emulated, group in emulating.items():
            used = True
            yield finding(
                EMULATES,
                tr(
                    "{component} ({where}) emulates {emulated}: gates, defaults and APIs are those of {emulated}.",
                    component=name,
                    where=names(label_of(c) for c in group),
                    emulated=emulated,
                ),
                component=name,
                instances=[label_of(c) for c in group],
                name=emulated,
                evidence=[
                    Evidence(
                        source=label_of(c),
                        path="--emulated-version",
                        value=c.emulated_version or "",
                        provenance="pod spec",
                    )
                    for c in group[:3]
                ],
            )
        for minimum, group in raised.items():
            yield finding(
                MIN_COMPAT,
                tr(
                    "{component} ({where}) has the minimum compatibility version {minimum}: what it writes need not be readable for the minor before, and going back is no longer supported.",
                    component=name,
                    where=names(label_of(c) for c in group),
                    minimum=minimum,
                ),
                component=name,
                instances=[label_of(c) for c in group],
                name=minimum,
            )
    emulated = minor_of(ctx.snapshot.cluster.emulation_version)
    if not used and emulated is not None and ctx.today is not None and emulated not in ctx.apiserver_minors:
        used = True
        yield finding(
            EMULATES,
            tr("/version of kube-apiserver says that it emulates {emulated}.", emulated=emulated),
            component="kube-apiserver",
            name=emulated,
            evidence=(
                Evidence(source="/version", path="emulationMinor", value=emulated, provenance="version"),
            ),
        )
    if (
        not used
        and ctx.path
        and ctx.of("kube-apiserver")
        and not ctx.snapshot.cluster.managed
        and ctx.today_minor is not None
    ):
        yield finding(
            EMULATION_OFFERED,
            tr(
                "kube-apiserver, kube-controller-manager and kube-scheduler {target} can run with --emulated-version={today}: today's defaults stay, and the way back stays wider.",
                target=ctx.path[0],
                today=ctx.today_minor,
            ),
            component="control plane",
            name=ctx.today_minor,
        )


def _last(text: str | None) -> str | None:
    return text.rpartition("=")[2] if text else None


# ----------------------------------------------------------------------------------------------------- OpenShift

_FORBIDDING: Final = ("CustomNoUpgrade", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade")


def _openshift(ctx: Context) -> Iterator[Finding]:
    facts = ctx.snapshot.openshift
    if not facts:
        return
    chosen = str(facts.get("feature_set") or "")
    if chosen in _FORBIDDING:
        yield finding(
            OPENSHIFT_NO_UPGRADE,
            tr(
                "FeatureGate cluster has featureSet {feature_set}: it forbids moving to another minor and cannot be undone.",
                feature_set=chosen,
            ),
            component="FeatureGate",
            name="cluster",
            evidence=(
                Evidence(
                    source="featuregates.config.openshift.io/cluster",
                    path="spec.featureSet",
                    value=chosen,
                    provenance="custom resource",
                ),
            ),
        )
    desired, entry = str(facts.get("desired") or ""), str(facts.get("gates_version") or "")
    missing = desired and desired != entry
    entry = str(facts.get("gates_previous") or entry or facts.get("gates_versions") or "")
    if missing:
        text = (
            tr(
                "status.featureGates has no entry for {desired}; the newest is that of {entry}, the release before.",
                desired=desired,
                entry=entry,
            )
            if entry
            else tr("status.featureGates has no entry for {desired}.", desired=desired)
        )
        yield finding(
            OPENSHIFT_NO_ENTRY,
            text,
            component="FeatureGate",
            name="cluster",
            evidence=(
                Evidence(
                    source="clusterversions.config.openshift.io/version",
                    path="status.desired.version",
                    value=desired,
                    provenance="custom resource",
                ),
            ),
        )
    foreign = sorted(
        {
            gate
            for component in ctx.snapshot.components
            if isinstance(component.feature_gates, dict)
            for gate in component.feature_gates
            if ctx.data.gate(gate) is None
        }
    )
    if foreign and ctx.foreign_gates:
        yield finding(
            FOREIGN,
            tr(
                "{count} gates are the distribution's own: {gates}.",
                count=len(foreign),
                gates=names(foreign, 12),
            ),
            component="feature gates",
        )


# ----------------------------------------------------------------------------------------------------------- rows


def forecast_rows(ctx: Context) -> tuple[ForecastRow, ...]:
    """What the target does to each gate, grouped over instances for which it is the same."""
    found: dict[tuple[str, ...], tuple[ForecastRow, list[str]]] = {}
    for alike in groups(ctx):
        seat = alike[0]
        if seat.instance is None or seat.today is None or seat.target is None:
            continue
        forecast = ctx.forecast(seat.component, seat.today, seat.target, seat.sources)
        labels = [other.label for other in alike]
        for gate in forecast.gates:
            row = _forecast_row(ctx, seat, gate, forecast.hop_of.get(gate.gate, ""))
            if row is None:
                continue
            key = (row.name, row.component, row.today, row.at_target, row.effect, row.message, row.hop)
            found.setdefault(key, (row, []))[1].extend(labels)
    for name in GATED:
        blind = [label_of(c) for c in ctx.of(name) if ctx.sources(c) is None]
        if blind and ctx.target is not None:
            row = ForecastRow(
                kind="gate",
                name="*",
                component=name,
                instances=(),
                today=UNOBSERVABLE,
                at_target=UNOBSERVABLE,
                effect="unknown",
                message=tr("gates cannot be seen"),
            )
            found[name,] = (row, blind)
    rows = [
        msgspec.structs.replace(row, instances=tuple(sorted(set(labels)))) for row, labels in found.values()
    ]
    return tuple(
        sorted(
            rows,
            key=lambda r: (_EFFECT_ORDER.index(r.effect), not r.touches, r.name, r.component, r.instances),
        )
    )


def _forecast_row(ctx: Context, seat: Seat, gate: GateForecast, minor: str) -> ForecastRow | None:
    effect = _EFFECTS.get(gate.kind)
    is_set = gate.set_value is not None
    if effect is None or (effect == "unchanged" and not is_set):
        return None
    reads = not gate.components or seat.component in gate.components
    if not is_set and not gate.blocking and not (seat.complete and reads):
        return None
    how = tr("set") if is_set else tr("default")
    today = (
        tr("not known")
        if gate.today is None and not is_set
        else f"{str(gate.set_value if is_set else gate.today).lower()} ({how})"
    )
    if gate.blocking:
        at_target = tr("does not start")
    elif gate.target is None:
        at_target = tr("gone")
    else:
        at_target = f"{str(gate.target).lower()} ({tr('locked') if gate.locked_target else how})"
    touch = touches(ctx, gate.gate).text if gate.changes_value else ""
    return ForecastRow(
        kind="gate",
        name=gate.gate,
        component=seat.component,
        instances=(),
        today=today,
        at_target=at_target,
        effect=effect,
        message=gate.message,
        provenance=seat.provenance if is_set else "",
        touches=touch,
        stage_today=gate.stage_today or "",
        stage_target=gate.stage_target or "",
        hop=ctx.hop_of(minor),
    )
