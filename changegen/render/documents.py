"""Markdown and HTML of a ticket or a closing report, from the templates. Pure but for reading the templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from changegen import resources
from changegen.i18n import language
from changegen.model.ticket import Results, Ticket
from changegen.render import figures, view
from changegen.render.jinja import render_template

_BLANKS = re.compile(r"\n{3,}")


def _asset(name: str, template_dirs: Sequence[Path]) -> Markup:
    """Return a style sheet or script; the user's own folder is looked at first."""
    for folder in [*template_dirs, resources.folder("templates")]:
        path = Path(str(folder)) / name
        if path.is_file():
            return Markup(path.read_text(encoding="utf-8"))  # noqa: S704  our own or the user's file, not cluster text
    return Markup("")


def _tidy(text: str) -> str:
    """Return Markdown with single blank lines outside code fences and one line feed at the end."""
    out: list[str] = []
    fence = ""
    for line in text.split("\n"):
        stripped = line.strip()
        if fence:
            out.append(line.rstrip() if stripped == fence else line)
            if stripped == fence:
                fence = ""
            continue
        match = re.match(r"`{3,}", stripped)
        if match:
            fence = match[0]
            out.append(line.rstrip())
            continue
        clean = line.rstrip()
        if clean or (out and out[-1]):
            out.append(clean)
    return "\n".join(out).strip("\n") + "\n"


def markdown(value: Ticket | Results, *, template_dirs: Sequence[Path] = ()) -> str:
    """Return the Markdown of a ticket or a closing report in the value's language."""
    with language(value.lang):
        if isinstance(value, Ticket):
            text = render_template(
                "ticket.md.j2", view.context(value), kind="markdown", template_dirs=template_dirs
            )
        else:
            text = render_template(
                "results.md.j2", view.results_context(value), kind="markdown", template_dirs=template_dirs
            )
    return _tidy(text)


def gitlab(ticket: Ticket, *, template_dirs: Sequence[Path] = ()) -> str:
    """Return a GitLab change issue in Markdown."""
    with language(ticket.lang):
        text = render_template(
            "gitlab.md.j2", view.context(ticket), kind="markdown", template_dirs=template_dirs
        )
    return _tidy(text)


def html(value: Ticket | Results, *, paged: bool = False, template_dirs: Sequence[Path] = ()) -> str:
    """Return one self-contained HTML file; ``paged`` makes the one that the PDF is made from."""
    with language(value.lang):
        assets: dict[str, object] = {
            "paged": paged,
            "css": _asset("ticket.css", template_dirs),
            "print_css": _asset("print.css", template_dirs),
            "script": _asset("ticket.js", template_dirs),
        }
        if isinstance(value, Ticket):
            drawn = {
                "versions": figures.versions(value),
                "timeline": figures.timeline(value.steps, {p: view.phase_title(p) for p in view.PHASES}),
                "gates": figures.gate_matrix(value),
                "pools": figures.pools(value.pools),
            }
            context = {**view.context(value), **assets, "figures": drawn}
            text = render_template("ticket.html.j2", context, kind="html", template_dirs=template_dirs)
        else:
            context = {**view.results_context(value), **assets}
            text = render_template("results.html.j2", context, kind="html", template_dirs=template_dirs)
    return _BLANKS.sub("\n\n", text)
