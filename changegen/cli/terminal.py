"""What reaches a terminal: cluster text without control characters, hints and progress on stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence

import click

from changegen.i18n import tr

__all__ = [
    "aside",
    "capped",
    "colour",
    "hint",
    "is_quiet",
    "is_terminal",
    "note",
    "plain",
    "table",
    "warn",
    "wide",
]

# C0 and C1 controls, line and paragraph separators, bidi embeddings and isolates, zero-width and byte-order marks,
# tag characters: each can move the cursor, recolour, hide or reorder what a person reads.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def plain(text: str, *, keep_newlines: bool = False) -> str:
    """Return text that can do nothing to a terminal: unsafe characters are shown as escapes."""

    def escape(found: re.Match[str]) -> str:
        code = ord(found.group())
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    text = text.replace("\r\n", "\n") if keep_newlines else text.replace("\n", " ").replace("\t", " ")
    text = _UNSAFE.sub(escape, text)
    # Lone surrogates come from undecodable file names and would break the encoder.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_terminal(*, err: bool = False) -> bool:
    """Whether people look at that stream."""
    stream = sys.stderr if err else sys.stdout
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def colour(text: str, **style: bool | str) -> str:
    """Return the text in colour when stdout is a terminal and ``NO_COLOR`` is not set."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, **style)  # type: ignore[arg-type]


def note(text: str) -> None:
    """Say something to the person on stderr."""
    click.echo(plain(text), err=True)


def aside(text: str) -> None:
    """Say on stderr what is good to know, and not with ``-q``."""
    if not is_quiet():
        note(text)


def is_quiet() -> bool:
    """Whether ``-q`` was given."""
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.find_root().meta.get("changegen.quiet"))


def warn(text: str) -> None:
    """Say something on stderr that the person must not overlook."""
    click.echo(f"Warning: {plain(text)}", err=True)


def hint(text: str) -> None:
    """Say on stderr which command comes next, and not with ``-q``."""
    aside(tr("Next: {text}", text=text))


def capped(items: Sequence[str], limit: int = 6) -> str:
    """Return ``a, b, c and 4 more``."""
    if len(items) <= limit:
        return ", ".join(items)
    return tr("{names} and {n} more", names=", ".join(items[: limit - 1]), n=len(items) - limit + 1)


def wide(text: str) -> int:
    """Return the columns that a text takes in a terminal: East Asian characters take two."""
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def table(rows: Iterable[Sequence[str]], *, indent: int = 0, gap: int = 2) -> list[str]:
    """Return the rows as lines with columns that line up; the last column is not padded."""
    cleaned = [[plain(cell) for cell in row] for row in rows]
    if not cleaned:
        return []
    columns = max(len(row) for row in cleaned)
    widths = [max((wide(row[i]) for row in cleaned if i < len(row)), default=0) for i in range(columns)]
    lines = []
    for row in cleaned:
        cells = [cell + " " * (widths[i] - wide(cell)) for i, cell in enumerate(row)]
        lines.append((" " * indent + (" " * gap).join(cells)).rstrip())
    return lines
