"""Defaults that change with nobody touching them, what of the cluster they concern, and the table of the forecast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from changegen import words
from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    CONTROL_PLANE,
    GATED,
    Context,
    label_of,
    names,
)
from changegen.assess.seats import Seat, groups
from changegen.gates import GateForecast
from changegen.i18n import tr, trn
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Autoscaler
from changegen.model.ticket import Finding, ForecastRow
from changegen.versions import minor_of

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


CODES = (
    FLIP_TOUCHES,
    FLIP_REST,
    UNEVEN,
)


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


_EFFECTS: Final[dict[str, Effect]] = {
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


class Flip(msgspec.Struct, kw_only=True):
    """A gate whose value changes with nobody touching it."""

    gate: str
    on: bool
    kind: str
    readers: tuple[str, ...]
    labels: list[str] = msgspec.field(default_factory=list)
    places: list[str] = msgspec.field(default_factory=list)
    components: set[str] = msgspec.field(default_factory=set)
    minor: str = ""


def concerns(ctx: Context, row: GateForecast, component: str) -> bool:
    """Whether a change of a gate is felt in a component.

    The gates of the API server's library are linked into every component and asked by its code there too, but only
    kube-apiserver serves an API.
    """
    history = ctx.data.gate(row.gate)
    if history is not None and history.by_minor[history.last].origin in {"apiserver", "apiextensions"}:
        return component == "kube-apiserver"
    return not row.components or component in row.components


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
            if not row.changes_value or not concerns(ctx, row, seat.component):
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
            flip.places.extend(other.where for other in alike)
            flip.components.add(seat.component)
    return dict(sorted(found.items()))


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """What of this cluster a gate concerns."""

    text: str = ""
    used: bool = False
    """True: the cluster has such objects."""
    risky: bool = False
    unread: bool = False
    """True: what it concerns was not read."""


def _dra(ctx: Context) -> Touch:
    snapshot = ctx.snapshot
    claims, devices = len(snapshot.claims), sum(len(pool.devices) for pool in snapshot.pools)
    if not ctx.was_read("resourceclaims.resource.k8s.io") and not ctx.was_read(
        "resourceslices.resource.k8s.io"
    ):
        return Touch(text=tr("unknown: ResourceClaims and ResourceSlices were not read"), unread=True)
    if not claims and not devices:
        return Touch()
    return Touch(
        text=tr(
            "{claims}, {devices}.",
            claims=trn("{n} ResourceClaim", "{n} ResourceClaims", n=claims),
            devices=words.devices(devices),
        ),
        used=True,
    )


def _rules(ctx: Context) -> Touch:
    rules = ctx.snapshot.taint_rules
    if not rules:
        if ctx.was_read("devicetaintrules.resource.k8s.io"):
            return Touch()
        return Touch(text=tr("unknown: DeviceTaintRules were not read"), unread=True)
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
            text=trn(
                "{n} of the Pods kept in this reading sets SELinux labels: {names}. Two Pods with different labels can no longer share a volume.",
                "{n} of the Pods kept in this reading set SELinux labels: {names}. Two Pods with different labels can no longer share a volume.",
                n=len(labelled),
                names=names(labelled),
            ),
            used=True,
            risky=True,
        )
    if not ctx.was_read("pods"):
        return Touch(text=tr("unknown: Pods were not read"), unread=True)
    return Touch(text=tr("no SELinux labels seen in the Pods of this reading"))


def _webhooks(ctx: Context) -> Touch:
    count = len(ctx.snapshot.webhooks)
    text = trn("{n} admission webhook.", "{n} admission webhooks.", n=count)
    return Touch(text=text, used=True) if count else Touch()


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


def _hpa(ctx: Context, of: Callable[[Autoscaler], bool] = lambda _: True) -> Touch:
    """Autoscalers that a gate concerns: all, or those for which `of` is true."""
    concerned = [f"{item.namespace}/{item.name}" for item in ctx.snapshot.autoscalers if of(item)]
    if concerned:
        text = tr(
            "HorizontalPodAutoscalers ({count}): {names}.", count=len(concerned), names=names(concerned)
        )
        return Touch(text=text, used=True)
    if ctx.was_read("horizontalpodautoscalers.autoscaling") or ctx.served("autoscaling/v2") is False:
        return Touch()
    return Touch(text=tr("unknown: HorizontalPodAutoscalers were not read"), unread=True)


def _hpa_tolerance(ctx: Context) -> Touch:
    found = _hpa(ctx, lambda item: bool(item.scale_up_tolerance or item.scale_down_tolerance))
    if not found.text and any(item.api_version == "autoscaling/v1" for item in ctx.snapshot.autoscalers):
        text = tr("unknown: HorizontalPodAutoscalers were read in autoscaling/v1, which shows no tolerance")
        return Touch(text=text, unread=True)
    return found


def _hpa_zero(ctx: Context) -> Touch:
    return _hpa(ctx, lambda item: item.min_replicas == 0)


def _health(ctx: Context) -> Touch:
    count = sum(1 for pod in ctx.snapshot.pods if pod.uses_devices)
    text = trn("{n} Pod holds devices.", "{n} Pods hold devices.", n=count)
    return Touch(text=text, used=True) if count else Touch()


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
    "HPAConfigurableTolerance": _hpa_tolerance,
    "HPAScaleToZero": _hpa_zero,
    "StaleControllerConsistencyHPA": _hpa,
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


def _rewritten(ctx: Context, seat: Seat, gate: GateForecast, minor: str) -> ForecastRow:
    """A gate that the distribution's operators set: they write those of each release anew, so nothing follows from it."""
    return ForecastRow(
        kind="gate",
        name=gate.gate,
        component=seat.component,
        instances=(),
        today=f"{str(gate.set_value).lower()} ({tr('set')})",
        at_target=tr("written anew"),
        effect="unknown",
        message=tr("the distribution's operators write the gates of each release: not forecast"),
        provenance=seat.provenance,
        hop=ctx.hop_of(minor) if minor else "",
    )


def _forecast_row(ctx: Context, seat: Seat, gate: GateForecast, minor: str) -> ForecastRow | None:
    effect = _EFFECTS.get(gate.kind)
    is_set = gate.set_value is not None
    if effect is None or (effect == "unchanged" and not is_set):
        return None
    if ctx.foreign_gates and (is_set or gate.blocking):
        return _rewritten(ctx, seat, gate, minor) if is_set else None
    reads = concerns(ctx, gate, seat.component)
    if not is_set and not gate.blocking and not (seat.complete and reads):
        return None
    how = tr("set") if is_set else tr("default")
    today = (
        tr("no such gate")
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


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on defaults."""
    yield from _flips(ctx)
    yield from _uneven(ctx)


def _flips(ctx: Context) -> Iterator[Finding]:
    rest: list[Flip] = []
    unread: list[str] = []
    for flip in flips(ctx).values():
        touch = touches(ctx, flip.gate)
        if touch.unread:
            unread.append(flip.gate)
            continue
        if not touch.text or not touch.used:
            rest.append(flip)
            continue
        today = tr("off") if flip.on else tr("on")
        target = tr("on") if flip.on else tr("off")
        yield finding(
            FLIP_TOUCHES,
            tr(
                "{gate}: {today} now, {target} with {minor} where nobody sets it: {components} ({where}). Touches here: {touches}",
                gate=flip.gate,
                today=today,
                target=target,
                minor=flip.minor,
                components=", ".join(sorted(flip.components)),
                where=names(flip.places),
                touches=touch.text,
            ),
            component=", ".join(sorted(flip.components)),
            instances=flip.labels,
            name=flip.gate,
            severity="warning" if touch.risky else "info",
            hop=ctx.hop_of(flip.minor),
        )
    if rest or unread:
        said = []
        if rest:
            said.append(
                tr(
                    "{count} more gates change their default with nobody touching them; nothing that was read is seen to use them.",
                    count=len(rest),
                )
            )
        if unread:
            said.append(
                tr(
                    "Of {count} more it is not known, since what they concern was not read: {names}.",
                    count=len(unread),
                    names=names(unread),
                )
            )
        yield finding(
            FLIP_REST,
            " ".join([*said, tr("The table of default changes and the annex name them.")]),
            component="feature gates",
            name=ctx.target.text if ctx.target is not None else "",
        )


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
