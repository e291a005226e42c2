"""``changegen verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from changegen.cli.options import (
    ClusterOptions,
    choose_format,
    cluster_options,
    emit,
    forget_partial,
    input_argument,
    load_data,
    output_options,
    partial_exit,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.templates import check_templates, template_option
from changegen.cli.terminal import hint, note

if TYPE_CHECKING:
    from changegen.verify import Attestation

__all__ = ["command"]

FORMATS = ("text", "markdown", "html", "pdf", "json", "junit")


@make("verify")
@click.argument("ticket", metavar="TICKET", type=click.Path(path_type=str))
@input_argument
@cluster_options
@click.option(
    "--data",
    envvar="CHANGEGEN_DATA",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kubernetes data to use instead of the shipped one.",
)
@click.option("--other-cluster", is_flag=True, help="Take a reading of another cluster than the ticket's.")
@click.option(
    "--approved",
    metavar="SHA256",
    default="",
    help="SHA-256 of the ticket that was approved; another ticket is refused.",
)
@click.option(
    "--runtime-evidence",
    "evidence_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What people saw, for checks that no reading fills: the file of 'changegen probe -f evidence', filled in; "
    "it is told as attested.",
)
@click.option(
    "--ticked",
    "ticked_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The ticket's PDF with boxes of its checklist ticked; a tick is told as attested and never passes.",
)
@click.option("--attested-by", default="", metavar="NAME", help="Who ticked the PDF; needed with --ticked.")
@click.option(
    "--fail-on",
    type=click.Choice(["fail", "unknown", "never"]),
    envvar="CHANGEGEN_FAIL_ON_VERIFY",
    default="fail",
    show_default=True,
    help="Exit 3 on a failed check or a planned change that is not done; with 'unknown' also on what nobody could tell.",
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh-CN"]),
    envvar="CHANGEGEN_LANG",
    help="Language; the ticket's if not given.",
)
@template_option
@click.option(
    "--schema",
    is_flag=True,
    help="Print the JSON Schema of the results and stop.",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, value: _schema(ctx, value),
)
@output_options(
    FORMATS, default="text", extensions={"md": "", "html": "", "pdf": "", "json": "", "xml": "", "txt": ""}
)
def verify(
    ticket: str,
    paths: tuple[str, ...],
    cluster: ClusterOptions,
    data: Path | None,
    other_cluster: bool,
    approved: str,
    evidence_files: tuple[Path, ...],
    ticked_files: tuple[Path, ...],
    attested_by: str,
    fail_on: str,
    lang: str | None,
    templates: tuple[Path, ...],
    form: str | None,
    output: str | None,
) -> None:
    """Fill a ticket's checklist from a second reading, and tell what was planned and not done, or done and not planned.

    TICKET is the ticket's JSON, or its PDF, which carries the JSON. INPUT is the reading after the change; without it the live cluster is read. Exit 3 when a check failed. What cannot
    be read is unknown and never passes.
    """
    form = choose_format(form, output, FORMATS, "text")
    check_templates(templates)
    from changegen.cli.evidence import read_evidence
    from changegen.cli.tickets import read_ticket
    from changegen.i18n import language, tr
    from changegen.render import render
    from changegen.verify import verify as fill

    made = read_ticket(ticket)
    said: tuple[Attestation, ...] = tuple(
        item for path in evidence_files for item in read_evidence(path, made)
    )
    if ticked_files:
        from changegen.render.attest import read_attestations

        said += tuple(item for path in ticked_files for item in read_attestations(path, made, attested_by))
    after = read_snapshot(paths, cluster)
    results = fill(
        made,
        after,
        data=load_data(data),
        other_cluster=other_cluster,
        approved_sha256=approved,
        evidence=said,
        lang=lang or "",
    )
    emit(render(results, form, template_dirs=templates), output, binary=form == "pdf")
    if form != "text" or output not in {None, "-"}:
        note(results.headline)
    else:
        with language(results.lang):
            hint(tr("the same with -o closing-report.md (or .pdf) for the change record"))
    bad = {"fail": {"failed"}, "unknown": {"failed", "incomplete"}, "never": set()}[fail_on]
    code = 3 if results.outcome in bad else 0
    sys.exit(forget_partial(code, partial_exit(cluster, after)))


def _schema(ctx: click.Context, value: bool) -> None:
    if not value:
        return
    import msgspec

    from changegen import store
    from changegen.model.ticket import Results

    schema: Any = msgspec.json.schema(Results)
    emit(store.pretty(schema), None)
    ctx.exit(0)


command = verify
