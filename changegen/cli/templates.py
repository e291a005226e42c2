"""Folders of the user's own templates: their option, and what in them replaces nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from changegen.cli.terminal import warn

__all__ = ["check_templates", "template_option", "unused"]

template_option: Callable[[Any], Any] = click.option(
    "--template",
    "templates",
    envvar="CHANGEGEN_TEMPLATE",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of templates that go before the shipped ones.",
)
_KINDS = {".j2", ".css", ".js", ".yaml"}


def check_templates(folders: Sequence[Path]) -> None:
    """Refuse a folder that is not there, and warn about files in one that replace nothing.

    Raises:
        click.UsageError: A folder is missing.
    """
    for folder in folders:
        if not folder.is_dir():
            raise click.UsageError(f"--template {folder}: there is no such folder")
        for name, near in unused(folder):
            warn(f"{folder / name} replaces no template" + (f": did you mean {near}?" if near else ""))


def unused(folder: Path) -> list[tuple[str, str]]:
    """Return the files of a template folder that no template has the name of or names, each with the closest name.

    A file that another one of the folder includes, imports or extends is used; what is neither template, style nor
    script is none of our business.
    """
    from difflib import get_close_matches

    from changegen import resources

    shipped = resources.folder("templates")
    known = sorted(path.relative_to(shipped).as_posix() for path in shipped.rglob("*") if path.is_file())
    own = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _KINDS and not path.name.startswith(".")
    }
    odd = [name for name in own if name not in known]
    texts = (
        {name: path.read_text(encoding="utf-8", errors="replace") for name, path in own.items()}
        if odd
        else {}
    )
    return [
        (name, next(iter(get_close_matches(name, known, n=1)), ""))
        for name in odd
        if not any(name in text for other, text in texts.items() if other != name)
    ]
