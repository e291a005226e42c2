"""``changegen audit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changegen.cli.options import (
    ClusterOptions,
    Instant,
    choose_format,
    cluster_options,
    emit,
    forget_partial,
    input_argument,
    lang_option,
    load_data,
    load_profile,
    output_options,
    partial_exit,
    profile_options,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.terminal import aside, hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from changegen.assess import Assessment
    from changegen.model.snapshot import Snapshot
    from changegen.model.ticket import Finding

__all__ = ["command"]

FORMATS = ("text", "json", "markdown", "sarif", "junit")
_FAIL_ON = {"blocking": ("blocking",), "warning": ("blocking", "warning"), "never": ()}


@make("audit")
@input_argument
@cluster_options
@profile_options
@click.option(
    "--fail-on",
    type=click.Choice(list(_FAIL_ON)),
    envvar="CHANGEGEN_FAIL_ON",
    default="blocking",
    show_default=True,
    help="Least severity of a finding that nobody accepted for exit code 3.",
)
@click.option(
    "--now",
    type=Instant(),
    envvar=["CHANGEGEN_NOW", "SOURCE_DATE_EPOCH"],
    metavar="TIME",
    help="Day by which acceptances end; without it the day of the reading.",
)
@lang_option
@output_options(FORMATS, default="text", extensions={"md": "", "json": "", "sarif": "", "xml": "", "txt": ""})
def audit(
    paths: tuple[str, ...],
    cluster: ClusterOptions,
    profile: str | None,
    to: str | None,
    data: Path | None,
    fail_on: str,
    now: str | None,
    lang: str,
    form: str | None,
    output: str | None,
) -> None:
    """Judge a cluster against a profile; exit 3 on a blocking finding that nobody accepted."""
    form = choose_format(form, output, FORMATS, "text")
    wanted = load_profile(profile, to)
    known = load_data(data)
    snapshot = read_snapshot(paths, cluster)
    from changegen.assess import assess
    from changegen.i18n import language

    with language(lang):
        found = assess(snapshot, wanted, known, day=(now or "")[:10])
        emit(_rendered(found, snapshot, form, fail_on), output)
    serious = [
        f
        for f in found.findings
        if f.severity in _FAIL_ON[fail_on] and (f.accepted is None or f.accepted.expired)
    ]
    if form == "text":
        from changegen.render.view import severity_word

        counts = {s: sum(f.severity == s for f in found.findings) for s in ("blocking", "warning", "info")}
        target = f"--profile {profile}" if profile else f"--to {to}"
        with language(lang):
            aside(", ".join(f"{n} {severity_word(s)}" for s, n in counts.items()))
            hint(f"changegen ticket {' '.join(paths) or ''} {target} -o ticket.md".replace("  ", " "))
    sys.exit(forget_partial(3 if serious else 0, partial_exit(cluster, snapshot)))


def _rendered(found: Assessment, snapshot: Snapshot, form: str, fail_on: str) -> str | bytes:
    from changegen import __version__, store
    from changegen.render import reports

    if form == "json":
        return store.pretty(
            {
                "schema": "changegen.audit/v1",
                "snapshot_digest": store.digest_of(snapshot),
                "captured_at": snapshot.captured_at,
                "cluster_uid": snapshot.cluster.uid,
                "from_version": found.from_version,
                "to_version": found.to_version,
                "findings": found.findings,
                "unobserved": snapshot.unobserved,
            }
        )
    if form == "text":
        return reports.findings_text(found.findings)
    if form == "markdown":
        return _markdown(found.findings)
    from changegen.assess.codes import CODES
    from changegen.i18n import tr

    table = [(code.code, tr(code.title), tr(code.meaning)) for code in CODES.values()]
    if form == "sarif":
        return reports.sarif(found.findings, table, __version__)
    return reports.findings_junit(found.findings, table, _FAIL_ON[fail_on])


def _markdown(findings: Sequence[Finding]) -> str:
    from changegen.i18n import tr
    from changegen.render import view
    from changegen.render.escape import markdown

    if not findings:
        return tr("No findings.") + "\n"
    heads = (tr("severity"), tr("code"), tr("finding"), tr("where"), tr("what to do"))
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for finding in findings:
        severity = view.severity_word(finding.severity)
        if finding.accepted:
            severity += f" ({tr('acceptance expired') if finding.accepted.expired else tr('accepted')})"
        cells = (severity, finding.code, finding.message, view.where(finding), finding.advice)
        lines.append(f"| {' | '.join(markdown(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


command = audit
