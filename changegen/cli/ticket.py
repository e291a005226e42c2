"""``changegen ticket``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changegen.cli import Failure
from changegen.cli.options import (
    ClusterOptions,
    Instant,
    choose_format,
    cluster_options,
    emit,
    input_argument,
    lang_option,
    load_data,
    load_profile,
    output_options,
    partial_exit,
    profile_options,
    read_snapshot,
    set_options,
)
from changegen.cli.options import command as make
from changegen.cli.templates import check_templates, template_option
from changegen.cli.terminal import aside, capped, hint, note

if TYPE_CHECKING:
    from changegen.model.ticket import Ticket

__all__ = ["command"]

FORMATS = (
    "markdown",
    "html",
    "pdf",
    "json",
    "gitlab",
    "servicenow",
    "servicenow-text",
    "jira",
    "jira-text",
)


@make("ticket")
@input_argument
@cluster_options
@profile_options
@set_options
@click.option("--complete", is_flag=True, help="Refuse (exit 3) while a field for people is open.")
@lang_option
@click.option(
    "--now",
    type=Instant(),
    envvar=["CHANGEGEN_NOW", "SOURCE_DATE_EPOCH"],
    metavar="TIME",
    help="When the ticket is made; without it the time of the reading.",
)
@template_option
@click.option(
    "--template-init",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy the shipped templates there, to edit, and stop.",
)
@click.option(
    "--pdf",
    "pdf_profile",
    type=click.Choice(["ua", "archive", "plain"]),
    default="ua",
    show_default=True,
    help="Kind of PDF: tagged (PDF/UA-1), PDF/A-3u, or plain.",
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a ticket and stop.")
@output_options(FORMATS, default="markdown", extensions={"md": "", "html": "", "pdf": "", "json": ""})
def ticket(
    paths: tuple[str, ...],
    cluster: ClusterOptions,
    profile: str | None,
    to: str | None,
    data: Path | None,
    fields: tuple[str, ...],
    complete: bool,
    lang: str,
    now: str | None,
    templates: tuple[Path, ...],
    template_init: Path | None,
    pdf_profile: str,
    schema: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Write the change ticket of an upgrade.

    Give the target with --profile, or with --to when there is no profile. Keep the JSON (-f json): 'changegen verify'
    fills its checklist after the change.
    """
    from changegen import store

    if schema:
        import msgspec

        from changegen.model.ticket import Ticket

        emit(store.pretty(msgspec.json.schema(Ticket)), output)
        return
    if template_init is not None:
        _copy_templates(template_init)
        return
    form = choose_format(form, output, FORMATS, "markdown")
    check_templates(templates)
    from changegen import profiles
    from changegen.i18n import language, tr

    wanted = load_profile(profile, to, fields)
    snapshot = read_snapshot(paths, cluster)
    from changegen.plan import make_ticket
    from changegen.render import render

    made = make_ticket(
        snapshot,
        wanted,
        load_data(data),
        lang=lang,
        now=now or "",
        fields=profiles.parse_fields(fields),
        profile_name=Path(profile).name if profile else "",
    )
    open_fields = _open_fields(made)
    if complete and open_fields:
        raise Failure(
            f"fields are open: {', '.join(open_fields)}; fill them with --set FIELD=VALUE or in the profile",
            3,
        )
    content = render(made, form, template_dirs=templates, pdf_profile=pdf_profile)
    emit(content, output, binary=form == "pdf")
    code = partial_exit(cluster, snapshot)
    with language(lang):
        if made.decision == "do-not-start":
            note(made.headline)
        if open_fields:
            aside(tr("to fill: {fields} (--set FIELD=VALUE)", fields=capped(open_fields, 12)))
        if output not in {None, "-"}:
            hint(
                tr("{command}  (after the change)", command=f"changegen verify {output} AFTER")
                if form in {"json", "pdf"}
                else tr(
                    "{command}, which 'changegen verify' needs after the change",
                    command="changegen ticket … -o ticket.json",
                )
            )
    sys.exit(code)


def _open_fields(made: Ticket) -> list[str]:
    return [field.name for field in made.fields if field.required and not field.value]


def _copy_templates(folder: Path) -> None:
    from changegen.render import init_templates

    count = init_templates(folder)
    note(f"{count} templates in {folder}; delete what you do not change")
    hint(f"changegen ticket INPUT --profile NAME --template {folder}")


command = ticket
