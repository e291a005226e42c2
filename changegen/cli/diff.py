"""``changegen diff``: two readings, or a reading and a target."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from changegen.cli import Failure
from changegen.cli.options import (
    ClusterOptions,
    choose_format,
    cluster_options,
    emit,
    forget_partial,
    load_data,
    load_profile,
    output_options,
    partial_exit,
    profile_options,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.terminal import capped, colour, plain, table
from changegen.words import unobserved_reason

if TYPE_CHECKING:
    from changegen.model.ticket import Change, Comparison

__all__ = ["as_markdown", "as_text", "command"]

FORMATS = ("text", "json", "markdown")
_SHOWN = 8
"""Members of a list that are shown."""
_NOTHING: tuple[Any, ...] = (None, {}, ())
"""What a thing has that is there without a value, such as a flag of which only the name is kept."""
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_TITLES = {
    "cluster": "Cluster",
    "components": "Components",
    "gates": "Feature gates",
    "processes": "What processes say of themselves",
    "config_maps": "ConfigMaps",
    "nodes": "Nodes",
    "apis": "Served APIs",
    "api_services": "APIServices",
    "drivers": "DRA drivers",
    "driver_rights": "Rights of DRA drivers",
    "device_classes": "DeviceClasses",
    "pools": "Pools",
    "devices": "Devices",
    "claims": "ResourceClaims",
    "claim_templates": "ResourceClaimTemplates",
    "taint_rules": "DeviceTaintRules",
    "pods": "Pods",
    "workloads": "Workloads",
    "disruption_budgets": "PodDisruptionBudgets",
    "autoscalers": "HorizontalPodAutoscalers",
    "quotas": "ResourceQuotas",
    "webhooks": "Webhooks",
    "custom_resources": "CustomResourceDefinitions",
    "stored_objects": "Stored objects",
    "openshift": "OpenShift",
    "leases": "Leases",
    "events": "Events",
}


@make("diff")
@click.argument("before", metavar="BEFORE", type=click.Path(path_type=str))
@click.argument("after", metavar="[AFTER]", required=False, type=click.Path(path_type=str))
@cluster_options
@profile_options
@click.option("--exit-code", is_flag=True, help="Exit 3 when something differs.")
@click.option("--other-cluster", is_flag=True, help="Compare readings of two clusters.")
@output_options(FORMATS, default="text")
def diff(
    before: str,
    after: str | None,
    cluster: ClusterOptions,
    profile: str | None,
    to: str | None,
    data: Path | None,
    exit_code: bool,
    other_cluster: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Compare two readings, or a reading with a target (--profile, --to).

    BEFORE and AFTER are inputs as everywhere; without AFTER the live cluster is read. Things are matched by what they
    are (component and node; driver, pool and device; taint key and effect), equal changes are one with a count, and
    what only one side could read is told apart. What changes by itself is left out: docs/diff.md lists it.
    """
    form = choose_format(form, output, FORMATS, "text")
    if profile or to:
        if after is not None:
            raise click.UsageError("compare with AFTER or with a target (--profile, --to), not with both")
        found, snapshots = _with_target(before, cluster, profile, to, data)
    else:
        from changegen.compare import compare

        first = read_snapshot((before,), cluster)
        second = read_snapshot((after,) if after else (), cluster)
        snapshots = (first, second)
        if (
            first.cluster.uid
            and second.cluster.uid
            and first.cluster.uid != second.cluster.uid
            and not other_cluster
        ):
            raise Failure(
                f"these are two clusters (kube-system {first.cluster.uid} and {second.cluster.uid}); "
                "say --other-cluster to compare them",
                2,
            )
        found = compare(first, second)
    if form == "json":
        from changegen import store

        emit(store.pretty(found), output)
    elif form == "markdown":
        emit(as_markdown(found), output)
    else:
        emit(as_text(found, colours=output in {None, "-"}), output)
    partial = partial_exit(cluster, *snapshots)
    sys.exit(forget_partial(3 if exit_code and found.changes else 0, partial))


def _with_target(
    before: str, cluster: ClusterOptions, profile: str | None, to: str | None, data: Path | None
) -> tuple[Comparison, tuple[Any, ...]]:
    """Return what a target would change, in the same form as a comparison of two readings."""
    from changegen.compare.target import with_gates
    from changegen.model.ticket import Comparison
    from changegen.plan import make_ticket
    from changegen.store import digest_of

    wanted = load_profile(profile, to)
    snapshot = read_snapshot((before,), cluster)
    changes, blind = with_gates(make_ticket(snapshot, wanted, load_data(data)))
    return Comparison(
        before=snapshot.source.description,
        after=f"target {wanted.title or wanted.name}" if wanted else "",
        before_digest=digest_of(snapshot),
        after_digest=digest_of(wanted),
        changes=changes,
        not_comparable=blind,
    ), (snapshot,)


# ------------------------------------------------------------------------------------------------------------- showing


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, dict):
        if len(value) > 4 and all(isinstance(v, bool) for v in value.values()):
            return _by_value(value)
        return capped([f"{k}={_value(v)}" for k, v in value.items()], 12)
    if isinstance(value, tuple | list):
        return capped([_value(v) for v in value], _SHOWN) if value else "(empty)"
    return str(value) if value != "" else '""'


def _by_value(values: dict[str, Any]) -> str:
    """Return ``A, B=true; C=false``: names with the same value stand together."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(_value(value), []).append(name)
    return "; ".join(f"{value}: {capped(found, 20)}" for value, found in names.items())


def _moved(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return ``false -> true: A, B``."""
    keys = [*before, *(k for k in after if k not in before)]
    return _by_value({k: f"{_value(before.get(k))} -> {_value(after.get(k))}" for k in keys})


def _told_apart(before: Any, after: Any) -> tuple[str, str]:
    """Return both values; of long lists that share members only what the other side has not, so that they differ to the eye."""
    if (
        isinstance(before, tuple | list)
        and isinstance(after, tuple | list)
        and max(len(before), len(after)) > _SHOWN
        and (same := [item for item in before if item in after])
        and (len(same) < len(before) or len(same) < len(after))
    ):
        sides = ([item for item in side if item not in same] for side in (before, after))
        first, second = (", ".join(map(_value, side)) or "(nothing more)" for side in sides)
        return f"{first} beside {len(same)} in both", second
    return _value(before), _value(after)


def _names(subjects: Sequence[str], limit: int = 8) -> str:
    """Return subjects with a common first word told once: ``kube-apiserver cp-1, cp-2; kube-scheduler cp-1``."""
    groups: dict[str, list[str]] = {}
    for subject in subjects:
        head, space, rest = subject.partition(" ")
        groups.setdefault(head if space else "", []).append(rest if space else subject)
    parts = [f"{head} {capped(rest, limit)}".strip() for head, rest in groups.items()]
    return "; ".join(parts[:limit]) + (f"; and {len(parts) - limit} more" if len(parts) > limit else "")


def _groups(changes: Sequence[Change]) -> Iterator[tuple[str, list[tuple[str, list[Change]]]]]:
    """Yield (area, [(subjects, changes)]): changes of the same things stand together."""
    areas: dict[str, dict[str, list[Change]]] = {}
    first = {"version", "server_version", "kubelet_version"}
    for change in sorted(changes, key=lambda c: not (c.path and c.path[-1] in first)):
        areas.setdefault(change.area, {}).setdefault(_names(change.subjects), []).append(change)
    order = {area: number for number, area in enumerate(_TITLES)}
    for area in sorted(areas, key=lambda area: (order.get(area, len(order)), area)):
        yield area, list(areas[area].items())


def _told(change: Change) -> tuple[str, str]:
    """Return (field, what happened)."""
    field = " ".join(change.path)
    note = f" ({change.note})" if change.note else ""
    if change.kind == "added":
        what = f"new{'' if change.after in _NOTHING else ': ' + _value(change.after)}"
    elif change.kind == "removed":
        what = f"gone{'' if change.before in _NOTHING else ', was: ' + _value(change.before)}"
    elif isinstance(change.before, dict) and isinstance(change.after, dict):
        what = _moved(change.before, change.after)
    else:
        what = " -> ".join(_told_apart(change.before, change.after))
    return field, what + note


def _missing(found: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield what could not be compared, by the side that lacks it."""
    heads = {
        "before": "not readable before",
        "after": "not readable after",
        "both": "read on neither side",
    }
    for side, head in heads.items():
        rows = [n for n in found.not_comparable if n.side == side]
        lines = [
            f"{row.area}: {row.what} ({unobserved_reason(row.reason)})"
            for row in rows
            if row.area != "reading"
        ]
        by_reason: dict[str, list[str]] = {}
        for row in rows:
            if row.area == "reading":
                by_reason.setdefault(row.reason, []).append(row.what)
        lines += [f"{', '.join(what)} ({unobserved_reason(reason)})" for reason, what in by_reason.items()]
        if lines:
            yield head, lines


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def as_text(found: Comparison, *, colours: bool = False) -> str:
    """Return a comparison for people."""
    paint: Callable[..., str] = colour if colours else lambda text, **_: text
    tint = {"+": "green", "-": "red", "~": "yellow"}
    lines = [f"from  {plain(found.before)}", f"to    {plain(found.after)}", ""]
    if not found.changes:
        lines += ["no change", ""]
    for area, groups in _groups(found.changes):
        lines.append(paint(_TITLES.get(area, area), bold=True))
        for subjects, changes in groups:
            count = max(change.count for change in changes)
            lines.append(f"  {plain(subjects)}" + (f"  ({count})" if count > 3 else ""))
            told = [_told(change) for change in changes]
            rows = table([row if row[0] else row[1:] for row in told])
            for change, row in zip(changes, rows, strict=True):
                sign = _SIGNS[change.kind]
                lines.append(f"    {paint(sign, fg=tint[sign])} {row}".rstrip())
        lines.append("")
    missing = list(_missing(found))
    if missing:
        lines.append(paint("Not comparable", bold=True))
        for head, rows in missing:
            lines.append(f"  {head}")
            lines += [f"    ? {plain(row)}" for row in rows]
        lines.append("")
    total = sum(change.count for change in found.changes)
    lines.append(
        f"{_counted(len(found.changes), 'change')} of {_counted(total, 'field')}" if total else "0 changes"
    )
    return "\n".join(lines) + "\n"


def as_markdown(found: Comparison) -> str:
    """Return a comparison for a ticket; everything from the cluster is escaped."""
    from changegen.render.escape import markdown, markdown_code

    lines = [f"**From:** {markdown(found.before)}  ", f"**To:** {markdown(found.after)}", ""]
    if not found.changes:
        lines += ["No change.", ""]
    for area, groups in _groups(found.changes):
        lines += [
            f"### {markdown(_TITLES.get(area, area))}",
            "",
            "| what | field | before | after | |",
            "|---|---|---|---|---|",
        ]
        for subjects, changes in groups:
            for change in changes:
                (value, after), whole = _told_apart(change.before, change.after), False
                if isinstance(change.before, dict) and isinstance(change.after, dict):
                    after, whole = _moved(change.before, change.after), True
                cells = [
                    markdown(subjects) + (f" ({change.count})" if change.count > 3 else ""),
                    markdown_code(" ".join(change.path)) if change.path else "",
                    "" if whole or change.kind == "added" else markdown_code(value),
                    "gone" if change.kind == "removed" else markdown_code(after),
                    markdown(change.note),
                ]
                if change.kind == "added" and change.after in _NOTHING:
                    cells[3] = "new"
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    missing = list(_missing(found))
    if missing:
        lines += ["### Not comparable", ""]
        lines += [f"- {head}: {markdown(row)}" for head, rows in missing for row in rows]
        lines.append("")
    return "\n".join(lines)


command = diff
