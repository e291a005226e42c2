"""The gates of one binary at one emulated version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from changegen.gates.emulation import Pair, binary_name, compat_of, minus
from changegen.gates.reading import STAGE_OF, GateSources
from changegen.kubedata import Gate, GateSpec, KubernetesData
from changegen.versions import Version, minor_key, minor_of

__all__ = ["GateProblem", "ProblemKind", "Table", "spec_at", "table_of", "versions_in_force"]


ProblemKind = Literal[
    "unknown",
    "removed",
    "locked",
    "prealpha",
    "dependency",
    "malformed",
    "mixed",
    "prefix",
    "version",
    "config",
    "flag",
]


class GateProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that stops a component, with the message it gives."""

    kind: ProblemKind
    message: str
    gate: str = ""
    value: bool | None = None
    missing: tuple[str, ...] = ()
    """Dependencies that are off."""
    removed_in: str | None = None
    """First minor of the data that no longer knows the gate."""


# Gates depend on each other since 1.35; the older binaries have no such check.
_DEPENDENCIES_SINCE = (1, 35)


def spec_at(
    gate: Gate, emulated: Pair, minimum: Pair | None = None, component: str | None = None
) -> GateSpec | None:
    """The stage of a gate in force at an emulated and a minimum compatibility version; None: not there yet (PreAlpha).

    featureSpecAtEmulationAndMinCompatVersion of feature_gate.go: the last one that is not newer than the emulated
    version and whose own minimum the minimum compatibility version reaches (default: emulated minus one).
    """
    floor = minus(emulated, 1) if minimum is None else minimum
    for spec in reversed(gate.specs):
        if minor_key(spec.version) > emulated:
            continue
        if spec.min_compat is not None and floor < minor_key(spec.min_compat):
            continue
        changed = gate.overrides.get(component, {}).get(spec.version) if component else None
        return (
            spec
            if changed is None or changed == spec.default
            else msgspec.structs.replace(spec, default=changed)
        )
    return None


def versions_in_force(
    component: str, version: str | Version, sources: GateSources
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Emulated and minimum compatibility version of an instance, as (major, minor) each."""
    minor = minor_of(version) or "0.0"
    compat = compat_of(component, minor_key(minor), binary_name(version, minor), sources)
    return compat.emulated, compat.minimum


class Table:
    """The gates of one binary at one emulated version, for one component."""

    def __init__(
        self, data: KubernetesData, component: str, minor: str, emulated: Pair, minimum: Pair
    ) -> None:
        self.gates: Mapping[str, Gate] = data.gates(minor)
        self.component = component
        self.emulated, self.minimum = emulated, minimum
        self.specs: dict[str, GateSpec | None] = {
            name: spec_at(gate, emulated, minimum, component) for name, gate in self.gates.items()
        }
        self.checks_dependencies = minor_key(minor) >= _DEPENDENCIES_SINCE

    def default(self, name: str) -> bool:
        """Whether a gate is on when nobody sets it; a gate that is not there yet is off."""
        spec = self.specs[name]
        return spec is not None and spec.default

    def enable(self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None) -> dict[str, bool]:
        """What is on or off by setting these, AllAlpha and AllBeta reaching what is not named.

        `before` is what an earlier setting left: a gate that it decided is out of reach of AllAlpha and AllBeta.
        """
        enabled = {**(before or {}), **values}
        for special, stage in STAGE_OF.items():
            if special not in values:
                continue
            for name, spec in self.specs.items():
                if name not in STAGE_OF and spec is not None and spec.stage == stage:
                    enabled.setdefault(name, values[special])
        return enabled

    def resolve(
        self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None
    ) -> dict[str, bool]:
        """Value of every gate when these are set."""
        enabled = self.enable(values, before)
        return {name: enabled.get(name, self.default(name)) for name in self.specs}

    def dependency_faults(
        self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None
    ) -> list[GateProblem]:
        """Gates that would be on while one that they need is off; none in binaries that do not check."""
        if not self.checks_dependencies:
            return []
        enabled = self.resolve(values, before)
        faults = []
        for name, gate in self.gates.items():
            if not gate.depends or not enabled[name]:
                continue
            missing = tuple(dep for dep in gate.depends if not enabled.get(dep, False))
            if missing:
                message = (
                    f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
                )
                faults.append(
                    GateProblem(kind="dependency", gate=name, message=message, value=True, missing=missing)
                )
        return faults


@lru_cache(maxsize=64)
def table_of(data: KubernetesData, component: str, minor: str, emulated: Pair, minimum: Pair) -> Table:
    """The table of a binary, made once: nothing changes it, and most instances of a cluster share it."""
    return Table(data, component, minor, emulated, minimum)
