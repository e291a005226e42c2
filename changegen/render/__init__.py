"""Renderings of a ticket, a closing report, an assessment or a comparison, made from the value alone.

One table maps a format's name to its writer; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from changegen.errors import UsageError
from changegen.model.ticket import Results, Ticket

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
    """Return ``value`` in the format: markdown, html, pdf or json.

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
        return store.encode(value)
    if fmt == "markdown":
        from changegen.render import documents

        return documents.markdown(value, template_dirs=template_dirs).encode()
    if fmt == "html":
        from changegen.render import documents

        return documents.html(value, template_dirs=template_dirs).encode()
    if fmt == "pdf":
        from changegen.render import documents, pdf

        attached = pdf.Attachment(
            name="ticket.json" if isinstance(value, Ticket) else "results.json",
            description="The same content for programs, with the whole snapshot"
            if isinstance(value, Ticket)
            else "The same content for programs",
            content=store.encode(value),
        )
        created = value.generated_at if isinstance(value, Ticket) else value.captured_at
        return pdf.write(
            documents.html(value, paged=True, template_dirs=template_dirs),
            profile=pdf_profile,  # type: ignore[arg-type]
            lang=value.lang,
            created=created,
            attachments=[attached],
        )
    raise UsageError(f"format {fmt} is not known", hint="known formats: markdown, html, pdf, json")
