"""Renderings of a ticket, a closing report, an assessment or a comparison, made from the value alone.

One table maps a format's name to its writer; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from changegen.errors import UsageError
from changegen.model.ticket import Results, Ticket

TICKET_FORMATS = (
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
RESULTS_FORMATS = ("text", "markdown", "html", "pdf", "json", "junit")
SUFFIXES = {
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
    ".json": "json",
    ".txt": "text",
}


def render(
    value: Ticket | Results,
    fmt: str,
    *,
    template_dirs: Sequence[Path] = (),
    pdf_profile: str = "ua",
) -> bytes:
    """Return ``value`` in one of the formats of TICKET_FORMATS or RESULTS_FORMATS.

    Args:
        value: a ticket or the results of verify.
        fmt: the format's name.
        template_dirs: the user's template folders, looked at before the shipped ones.
        pdf_profile: ``ua``, ``archive`` or ``plain``.

    Raises:
        UsageError: the format is not known.
        TemplateError: a template is broken.
        ChangegenError: the PDF could not be written.
    """
    from changegen import store

    if fmt == "json":
        return store.canonical(value)
    if fmt in {"markdown", "html"} or (isinstance(value, Ticket) and fmt in TICKET_FORMATS and fmt != "pdf"):
        return _text(value, fmt, template_dirs)
    if fmt == "pdf":
        from changegen.render import pdf

        attached = pdf.Attachment(
            name="ticket.json" if isinstance(value, Ticket) else "results.json",
            description="The same content for programs, with the whole snapshot"
            if isinstance(value, Ticket)
            else "The same content for programs",
            content=store.canonical(value),
        )
        created = value.generated_at if isinstance(value, Ticket) else value.captured_at
        return pdf.write(
            _text(value, "paged", template_dirs).decode(),
            profile=pdf_profile,  # type: ignore[arg-type]
            lang=value.lang,
            created=created,
            attachments=[attached],
        )
    if isinstance(value, Results) and fmt in RESULTS_FORMATS:
        from changegen.i18n import language
        from changegen.render import reports

        with language(value.lang):
            return (reports.results_text if fmt == "text" else reports.results_junit)(value).encode()
    known = TICKET_FORMATS if isinstance(value, Ticket) else RESULTS_FORMATS
    raise UsageError(f"format {fmt} is not known here", hint=f"known formats: {', '.join(known)}")


def _text(value: Ticket | Results, kind: str, template_dirs: Sequence[Path]) -> bytes:
    from changegen.render import guard

    if template_dirs:
        return guard.guarded(value, kind, template_dirs)
    return guard.text(value, kind)


def init_templates(folder: Path) -> int:
    """Copy the shipped templates into ``folder``, to edit, and return how many files that were.

    Raises:
        UsageError: the folder holds something already, or is a file.
        OutputError: it cannot be written.
    """
    import shutil

    from changegen import resources
    from changegen.errors import OutputError

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} is not an empty folder", hint="name a new folder; nothing is overwritten"
            )
        shutil.copytree(resources.folder("templates"), folder, dirs_exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"the templates could not be written: {error.strerror or error}", where=str(folder)
        ) from error
    return sum(path.is_file() for path in folder.rglob("*"))
