"""The distribution's own release against the target: a release runs some minors of Kubernetes and refuses others.

The table is changegen/data/distribution-releases.json; it names its sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context
from changegen.i18n import tr
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_key, minor_of

REFUSES = Code(
    code="CG-DISTRO-001",
    title="Release of the distribution that does not run the target",
    severity="blocking",
    meaning="The distribution has releases of its own, and the one that the nodes run supports other minors of Kubernetes than the "
    "target: its own tool refuses the upgrade, or nobody has tried the combination.",
    remedy="Upgrade the distribution itself first, as a change of its own, to a release that runs the target and today's version.",
)

UNKNOWN = Code(
    code="CG-DISTRO-002",
    title="Not known whether the distribution's release runs the target",
    severity="info",
    meaning="The distribution has releases of its own, and the one that the nodes run was not seen, or is none that this tool knows.",
    remedy="Look into the distribution's support matrix.",
)

CODES = (REFUSES, UNKNOWN)


class Releases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the releases of one distribution run."""

    source: str
    releases: dict[str, tuple[str, str]]
    """Own minor -> lowest and highest minor of Kubernetes."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    about: str
    distributions: dict[str, Releases]


@cache
def table() -> dict[str, Releases]:
    """Return the shipped table, by distribution."""
    text = (files("changegen") / "data" / "distribution-releases.json").read_bytes()
    return msgspec.json.decode(text, type=_File).distributions


_SEPARATOR: Final = ", "


def findings(ctx: Context) -> Iterator[Finding]:
    """Say when the release of the distribution does not run the target, or when that cannot be told."""
    cluster = ctx.snapshot.cluster
    known = table().get(cluster.distribution)
    target = minor_of(ctx.goes_to("kube-apiserver"))
    if known is None or target is None:
        return
    own = minor_of(cluster.distribution_version)
    evidence = (
        Evidence(
            source=tr("nodes"), path="osImage", value=cluster.distribution_version, provenance="api object"
        ),
    )
    if own not in known.releases:
        yield finding(
            UNKNOWN,
            tr(
                "Which minors of Kubernetes {name} {release} runs is not known.",
                name=cluster.distribution,
                release=cluster.distribution_version or "?",
            ),
            component=cluster.distribution,
            name=cluster.distribution_version,
            evidence=evidence,
        )
        return
    lowest, highest = known.releases[own]
    if minor_key(lowest) <= minor_key(target) <= minor_key(highest):
        return
    fit = [
        release
        for release, (low, high) in known.releases.items()
        if minor_key(low) <= minor_key(target) <= minor_key(high)
        and (ctx.today_minor is None or minor_key(low) <= minor_key(ctx.today_minor))
    ]
    yield finding(
        REFUSES,
        tr(
            "{name} {release} runs Kubernetes {lowest} to {highest}, not {target}.",
            name=cluster.distribution,
            release=cluster.distribution_version,
            lowest=lowest,
            highest=highest,
            target=target,
        ),
        component=cluster.distribution,
        name=cluster.distribution_version,
        evidence=evidence,
        advice=tr(
            "Upgrade {name} first, as a change of its own: {releases} run {target} and what runs today.",
            name=cluster.distribution,
            releases=_SEPARATOR.join(fit),
            target=target,
        )
        if fit
        else None,
    )
