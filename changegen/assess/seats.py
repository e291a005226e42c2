"""Where gates are set: every instance, and every ConfigMap that instances are made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from changegen.assess.context import (
    CONTROL_PLANE,
    GATED,
    Context,
    complete,
    label_of,
    of_flags,
    place_of,
)
from changegen.gates import GateForecast, GateProblem, GateSources
from changegen.model.snapshot import Component, ConfigMapFact, GateSource
from changegen.model.ticket import Evidence
from changegen.versions import minor_of, next_minors

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
    def where(self) -> str:
        """The label in short, for sentences that name the component: the node of an instance."""
        return place_of(self.instance) if self.instance is not None else self.label

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
    # What OpenShift's operators render is written anew by each release.
    for config in () if ctx.foreign_gates else ctx.snapshot.config_maps:
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
                    sources=_of_config(name, source, config),
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


def _of_config(component: str, source: GateSource, config: ConfigMapFact) -> GateSources:
    if component not in CONTROL_PLANE:
        return GateSources(flags=source.flag_values) if source.flag_values else GateSources(file=source.gates)
    joined = ",".join(f"{name}={str(value).lower()}" for name, value in source.gates.items())
    flags = source.flag_values or ((joined,) if joined else ())
    return of_flags(config.component_flags.get(component, ()), GateSources(flags=flags))


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that stops a component, with the first minor at which it does."""

    minor: str
    today: bool
    """True: it already does at today's version."""
    problem: GateProblem


def stops(ctx: Context, seat: Seat) -> tuple[Stop, ...]:
    """What would keep a component from starting, at today's minor and at each one of the way; first minor each."""
    if ctx.foreign_gates:
        # OpenShift's operators write the gates of each release anew: what this one sets says nothing of the next.
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


def unique(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Evidence without repetition, in order, and not more than a finding can use."""
    found: dict[tuple[str, str, str], Evidence] = {}
    for item in evidence:
        found.setdefault((item.source, item.path, item.value), item)
    return tuple(list(found.values())[:_MOST_EVIDENCE])


def forecasts(ctx: Context, seat: Seat) -> tuple[GateForecast, ...]:
    """What the target does to each gate of a seat; nothing where a version is not known."""
    if seat.today is None or seat.target is None:
        return ()
    return ctx.forecast(seat.component, seat.today, seat.target, seat.sources).gates
