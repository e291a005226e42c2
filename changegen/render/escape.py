"""Untrusted text made harmless for each place that it is written to.

Everything that comes from a cluster (names, taint values, messages, annotations) goes through one of these.
"""

from __future__ import annotations

import re
import unicodedata

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE = frozenset("\u200b\u2060\ufeff\u00ad\u180e")
_MD_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$])")
_MD_ENTITY = re.compile(r"&(?=#?\w+;)")
_MD_LEAD = re.compile(r"^(\d{0,9})([#+\-=.)])(?=\s|$|[#\-=])")
_AUTOLINK = re.compile(r"(?i)\b(https?|ftp|mailto|javascript|data|file)(:)|(?<![\w.])(www)(\.)")
_BACKTICKS = re.compile(r"`+")


def visible(text: str) -> str:
    r"""Return ``text`` with control, bidi and invisible characters written out as ``\u....``; tabs become spaces.

    Line feeds stay; every other control character (ANSI's escape among them) is shown and never sent.
    """
    if text.isascii() and text.isprintable():
        return text
    out = []
    for char in text:
        if char == "\n":
            out.append(char)
        elif char in "\t\r":
            out.append(" ")
        elif (
            char in _BIDI
            or char in _INVISIBLE
            or unicodedata.category(char) in {"Cc", "Cs", "Co", "Zl", "Zp"}
        ):
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(char)
    return "".join(out)


def one_line(text: str) -> str:
    """Return visible text on one line."""
    return " ".join(visible(text).split())


def markdown(text: str, *, starts_line: bool = True) -> str:
    """Return text that Markdown shows as it is, on one line: no markup, link, HTML or table break comes out of it.

    Args:
        text: anything.
        starts_line: False where the text cannot be the first of a line, so that no list or heading can begin.
    """
    flat = one_line(text)
    flat = _MD_ENTITY.sub("&amp;", flat)
    flat = _MD_SPECIAL.sub(r"\\\1", flat)
    flat = _AUTOLINK.sub(lambda m: f"{m[1]}&#58;" if m[1] else f"{m[3]}&#46;", flat)
    return _MD_LEAD.sub(r"\1\\\2", flat) if starts_line else flat


def markdown_code(text: str, *, in_table: bool = True) -> str:
    """Return an inline code span that shows ``text``; a table needs its pipes escaped, even in code."""
    flat = one_line(text)
    if not flat:
        return ""
    longest = max((len(run) for run in _BACKTICKS.findall(flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    body = flat.replace("|", "\\|") if in_table else flat
    return f"{fence}{pad}{body}{pad}{fence}"


def markdown_block(text: str, language: str = "") -> str:
    """Return a fenced code block; the fence is longer than any run of backticks in the text."""
    shown = visible(text).strip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def rich_parts(text: str) -> list[tuple[str, bool]]:
    """Split our own messages at backticks into (text, is_code).

    A hostile value with a backtick in it can only move the border between words and code: each part is still
    escaped for where it goes.
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return [(text, False)]
    return [(part, bool(index % 2)) for index, part in enumerate(parts) if part]
