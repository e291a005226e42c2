"""Assessment: what a snapshot and a profile mean together, as findings and tables. Pure.

`assess` calls the modules named in `codes.MODULES`. Each has

- `CODES`: a tuple of `codes.Code`, its part of the one table;
- `findings(ctx: Context) -> Iterable[Finding]`.

Modules that also know tables give them through functions with these names, wherever they live:
`driver_rows`, `resource_rows`, `feature_rows`, `pool_rows`, `taint_rows`, `blast_rows`, `capacity_rows`,
`forecast_rows`, `instance_rows`, each `(ctx) -> tuple[…Row, ...]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from changegen.assess.codes import MODULES
from changegen.assess.context import Context
from changegen.assess.parts import other_parts
from changegen.assess.policy import accept
from changegen.kubedata import KubernetesData
from changegen.model.profile import Profile
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import (
    BlastRow,
    CapacityRow,
    DriverRow,
    FeatureRow,
    Finding,
    ForecastRow,
    Hop,
    InstanceRow,
    PoolRow,
    ResourceRow,
    TaintRow,
)

__all__ = ["Assessment", "Context", "assess"]

_ORDER = {"blocking": 0, "warning": 1, "info": 2}


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the assessment says; each tuple is sorted."""

    findings: tuple[Finding, ...] = ()
    """Blockers first, accepted ones behind those of their severity, then by code."""
    forecast: tuple[ForecastRow, ...] = ()
    """Grouped over equal instances, will-not-start first."""
    instances: tuple[InstanceRow, ...] = ()
    hops: tuple[Hop, ...] = ()
    """Minor steps, with the blockers of each."""
    drivers: tuple[DriverRow, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    features: tuple[FeatureRow, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    taints: tuple[TaintRow, ...] = ()
    blast: tuple[BlastRow, ...] = ()
    capacity: tuple[CapacityRow, ...] = ()
    other_parts: dict[str, str] = {}
    """Parts that are not Kubernetes' own → images with tags; whether they support the target is unknown."""
    from_version: str = ""
    """Version from which the change starts, as written; empty where unknown."""
    to_version: str = ""
    data_release: str = ""
    """Newest release of the data, and what it was made of."""
    data_covers_target: bool = True
    """False: the target is newer than the data; said at the head of the ticket."""

    @property
    def blockers(self) -> tuple[Finding, ...]:
        """Blocking findings that nobody accepted."""
        return tuple(
            f
            for f in self.findings
            if f.severity == "blocking" and (f.accepted is None or f.accepted.expired)
        )


def modules() -> tuple[ModuleType, ...]:
    """The modules of the assessment, in the order of the table of codes."""
    found = []
    for name in MODULES:
        full = f"{__name__}.{name}"
        try:
            found.append(import_module(full))
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    return tuple(found)


def sort_key(finding: Finding) -> tuple[Any, ...]:
    """Blockers first; an accepted finding comes behind the others of its severity."""
    accepted = finding.accepted is not None and not finding.accepted.expired
    subject = finding.subject
    return (
        _ORDER[finding.severity],
        accepted,
        finding.code,
        subject.component,
        subject.name,
        subject.instances,
    )


def assess(
    snapshot: Snapshot,
    profile: Profile,
    data: KubernetesData,
    *,
    day: str = "",
    context: Context | None = None,
) -> Assessment:
    """Assesses a snapshot against a profile with the Kubernetes data; the same input gives the same value.

    Args:
        snapshot: The reading.
        profile: The target, resolved.
        data: What each Kubernetes minor knows.
        day: The day (`2027-01-31`) by which acceptances expire; the day of the reading by default.
        context: One made of the same three, whose answers are shared with the caller.
    """
    ctx = context or Context(snapshot, profile, data)
    parts = modules()
    found = accept(ctx, (item for module in parts for item in module.findings(ctx)), day)
    findings = tuple(_numbered(sorted(found, key=sort_key)))
    blocking = [
        f for f in findings if f.severity == "blocking" and (f.accepted is None or f.accepted.expired)
    ]
    # What belongs to no step of its own stands before the first one.
    first = f"{ctx.hops[0].from_version} -> {ctx.hops[0].to_version}" if ctx.hops else ""
    blockers = Counter(item.hop or first for item in blocking)
    hops = tuple(
        msgspec.structs.replace(hop, blockers=blockers[f"{hop.from_version} -> {hop.to_version}"])
        for hop in ctx.hops
    )
    return Assessment(
        findings=findings,
        forecast=_rows(parts, "forecast_rows", ctx),
        instances=_rows(parts, "instance_rows", ctx),
        hops=hops,
        drivers=_rows(parts, "driver_rows", ctx),
        resources=_rows(parts, "resource_rows", ctx),
        features=_rows(parts, "feature_rows", ctx),
        pools=_rows(parts, "pool_rows", ctx),
        taints=_rows(parts, "taint_rows", ctx),
        blast=_rows(parts, "blast_rows", ctx),
        capacity=_rows(parts, "capacity_rows", ctx),
        other_parts=other_parts(ctx),
        from_version=ctx.today.raw if ctx.today is not None else "",
        to_version=ctx.target.text if ctx.target is not None else "",
        data_release=data.release(data.newest).version,
        data_covers_target=ctx.target is None or ctx.target_minor_known,
    )


def _rows(parts: Iterable[ModuleType], name: str, ctx: Context) -> tuple[Any, ...]:
    functions: list[Callable[[Context], tuple[Any, ...]]] = [
        getattr(module, name) for module in parts if hasattr(module, name)
    ]
    return tuple(row for function in functions for row in function(ctx))


def _numbered(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Two findings of one code and subject get ids of their own."""
    seen: Counter[str] = Counter()
    for item in findings:
        seen[item.id] += 1
        if seen[item.id] > 1:
            yield msgspec.structs.replace(item, id=f"{item.id} #{seen[item.id]}")
        else:
            yield item
