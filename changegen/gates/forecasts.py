"""What becomes of every gate on the way to a target, hop by hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from changegen.gates.emulation import binary_name, compat_of
from changegen.gates.reading import COMPONENTS, STAGE_OF, GateSources, ParsedGates, parse_gates
from changegen.gates.table import GateProblem, Table, table_of
from changegen.gates.verdicts import StartVerdict, apply_gates, effective, not_covered, start
from changegen.kubedata import GateSpec, KubernetesData, Stage, load
from changegen.versions import Version, minor_key, minor_of, next_minors

__all__ = ["Forecast", "ForecastKind", "GateForecast", "HopForecast", "forecast"]


ForecastKind = Literal[
    "unknown",
    "removed",
    "locked-other",
    "prealpha",
    "dependency",
    "locked-same",
    "set-to-default",
    "flip-on",
    "flip-off",
    "new-on",
    "new-off",
    "gone",
    "stage-change",
    "unchanged",
]
"""What happens to one gate between two versions:

- `unknown`, `removed`, `locked-other`, `prealpha`, `dependency`: set (or, for a dependency, resulting) in a way that
  the target refuses; it would not start.
- `locked-same`, `set-to-default`: set to what it would be without being set, and locked there or not: clean-up.
- `flip-on`, `flip-off`: nobody set it, and its value changes.
- `new-on`, `new-off`: unknown today, known at the target, with its value there.
- `gone`: not set, and the target no longer knows it: what was on stays on for good, what was off has no such thing.
- `stage-change`: same value, another stage or lock.
"""

BLOCKING: frozenset[str] = frozenset({"unknown", "removed", "locked-other", "prealpha", "dependency"})


class GateForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to one gate of one component instance."""

    gate: str
    kind: ForecastKind
    today: bool | None = None
    """Effective value now; None where the version of today does not know the gate."""
    target: bool | None = None
    """Effective value at the target; None where the target does not know it, or would not start with it."""
    set_value: bool | None = None
    """Explicit setting; None where there is none."""
    set_by: str = ""
    """`flag`, `file`, `drop-in`, or the AllAlpha / AllBeta that decides it."""
    stage_today: Stage | None = None
    stage_target: Stage | None = None
    locked_target: bool = False
    message: str = ""
    """The component's own words where it would not start."""
    missing: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    """Programs that read the gate, at the target or when it was last known."""

    @property
    def blocking(self) -> bool:
        """Whether the target would not start with it."""
        return self.kind in BLOCKING

    @property
    def changes_value(self) -> bool:
        """Whether behaviour changes with nobody touching a setting."""
        return self.kind in {"flip-on", "flip-off", "new-on"}


class HopForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One minor of the way."""

    today: str
    target: str
    verdict: StartVerdict
    """With the settings of today carried over unchanged."""
    gates: tuple[GateForecast, ...]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a target version does to the gates of one component instance."""

    component: str
    today: str
    target: str
    verdict: StartVerdict
    """At the final target, with the settings of today carried over unchanged."""
    gates: tuple[GateForecast, ...] = ()
    """Between today and the final target, unchanged gates left out unless they are set."""
    hops: tuple[HopForecast, ...] = ()
    """Each minor of the way; one item for a single minor."""
    hop_of: dict[str, str] = {}
    """Gate of `gates` → first minor of the way in which that happens to it."""

    @property
    def starts(self) -> bool | None:
        """Whether every minor of the way starts; None where one cannot be told and none is known to fail."""
        verdicts = [hop.verdict.starts for hop in self.hops] or [self.verdict.starts]
        return False if False in verdicts else None if None in verdicts else True


def forecast(
    component: str,
    today: str | Version,
    target: str | Version,
    sources: GateSources,
    data: KubernetesData | None = None,
    *,
    target_sources: GateSources | None = None,
    foreign_gates: bool = False,
) -> Forecast:
    """What happens to every gate of an instance when its binary goes from `today` to `target`.

    Args:
        component: one of `COMPONENTS`.
        today: version of the running binary.
        target: version that it is to have; several minors away gives one hop a minor.
        sources: its settings.
        data: the Kubernetes data; the shipped one by default.
        target_sources: its settings at the target, where a profile changes them; else the same.
        foreign_gates: see `start`.

    With a version that the data lacks the verdict has no answer and its reason, and no gate is forecast.
    """
    data = data or load()
    after = target_sources or sources
    first, last = minor_of(today), minor_of(target)
    verdict = start(component, target, after, data, foreign_gates=foreign_gates)
    covered = component in COMPONENTS and data.knows(first) and data.knows(last)
    if not covered or first is None or last is None:
        return Forecast(
            component=component,
            today=first or str(today),
            target=last or str(target),
            verdict=StartVerdict(
                starts=None, reason=verdict.reason or not_covered(component, first, today, data)
            ),
        )
    hops: list[HopForecast] = []
    previous = str(today)
    for minor in next_minors(first, last):
        version = str(target) if minor == last else minor
        settings = after if minor == last else sources
        hops.append(
            HopForecast(
                today=minor_of(previous) or previous,
                target=minor,
                verdict=start(component, version, settings, data, foreign_gates=foreign_gates),
                gates=_changes(component, previous, version, sources, settings, data),
            )
        )
        previous = version
    gates = _changes(component, str(today), str(target), sources, after, data)
    return Forecast(
        component=component,
        today=first,
        target=last,
        verdict=verdict,
        gates=gates,
        hops=tuple(hops),
        hop_of={gate.gate: hop for gate in gates if (hop := _hop_of(gate, hops))},
    )


def _hop_of(gate: GateForecast, hops: Sequence[HopForecast]) -> str | None:
    """First minor in which a gate meets what is said of it for the whole way, or else changes at all."""
    changes = [(hop.target, item.kind) for hop in hops for item in hop.gates if item.gate == gate.gate]
    same = [target for target, kind in changes if kind == gate.kind]
    other = [target for target, kind in changes if kind != "unchanged"]
    return next(iter([*same, *other]), None)


def _changes(
    component: str, today: str, target: str, before: GateSources, after: GateSources, data: KubernetesData
) -> tuple[GateForecast, ...]:
    old_minor, new_minor = data.minor(today).minor, data.minor(target).minor
    old_compat = compat_of(component, minor_key(old_minor), binary_name(today, old_minor), before)
    new_compat = compat_of(component, minor_key(new_minor), binary_name(target, new_minor), after)
    old = table_of(data, component, old_minor, old_compat.emulated, old_compat.minimum)
    new = table_of(data, component, new_minor, new_compat.emulated, new_compat.minimum)
    parsed = parse_gates(component, after)
    values_today = effective(component, today, before, data)
    values_target = effective(component, target, after, data)
    unset_target = new.resolve({key: value for key, value in parsed.values.items() if key in STAGE_OF})
    faults: dict[str, GateProblem] = {}
    for fault in (*apply_gates(new, parsed.values, data)[0], *new.dependency_faults(parsed.values)):
        faults.setdefault(fault.gate, fault)
    found = []
    for name in sorted({*old.gates, *new.gates, *parsed.values} - set(STAGE_OF)):
        found_kind = _kind(
            name, old, new, parsed, faults.get(name), values_today, values_target, unset_target
        )
        is_set = name in parsed.values
        if found_kind == "unchanged" and not is_set:
            continue
        old_spec, new_spec = old.specs.get(name), new.specs.get(name)
        problem = faults.get(name)
        gate = new.gates.get(name) or old.gates.get(name)
        found.append(
            GateForecast(
                gate=name,
                kind=found_kind,
                today=values_today.get(name),
                target=None if found_kind in BLOCKING else values_target.get(name),
                set_value=parsed.values.get(name),
                set_by=parsed.origins.get(name, "") or _decided_by(new_spec, parsed.values),
                stage_today=old_spec.stage if old_spec is not None else None,
                stage_target=new_spec.stage if new_spec is not None else None,
                locked_target=new_spec is not None and new_spec.lock,
                message=problem.message if problem is not None else "",
                missing=problem.missing if problem is not None else (),
                components=gate.components if gate is not None else (),
            )
        )
    return tuple(found)


def _decided_by(spec: GateSpec | None, values: Mapping[str, bool]) -> str:
    for special, stage in STAGE_OF.items():
        if spec is not None and spec.stage == stage and special in values:
            return special
    return ""


def _kind(
    name: str,
    old: Table,
    new: Table,
    parsed: ParsedGates,
    problem: GateProblem | None,
    values_today: Mapping[str, bool],
    values_target: Mapping[str, bool],
    unset_target: Mapping[str, bool],
) -> ForecastKind:
    if problem is not None:
        if problem.kind in {"removed", "unknown"}:
            return "removed" if name in old.gates else problem.kind
        return {"locked": "locked-other", "prealpha": "prealpha"}.get(problem.kind, "dependency")  # type: ignore[return-value]
    old_spec, new_spec = old.specs.get(name), new.specs.get(name)
    if new_spec is None:
        return "gone" if old_spec is not None else "unchanged"
    value = values_target[name]
    if name in parsed.values:
        if new_spec.lock:
            return "locked-same"
        if value == unset_target[name]:
            return "set-to-default"
        if old_spec is None:
            return "new-on" if value else "new-off"
    elif old_spec is None:
        return "new-on" if value else "new-off"
    elif values_today[name] != value:
        return "flip-on" if value else "flip-off"
    if old_spec is not None and (old_spec.stage, old_spec.lock) != (new_spec.stage, new_spec.lock):
        return "stage-change"
    return "unchanged"
