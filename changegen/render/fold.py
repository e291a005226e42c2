"""Long commands of a page, broken where a shell goes on reading.

A PDF has no line longer than its page, and a command copied from it must still be one command. A line that is too long is
broken at a space outside quotes, with a backslash before the end of the line (POSIX Shell Command Language, 2.2.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["PAGE", "fold"]

PAGE: Final = 104
"""Characters that a line of commands on a page has room for, beside the name of the machine."""
_INDENT: Final = "  "
_MARK: Final = " \\"
# A word whose only quotes are single ones: it may be closed and opened again anywhere in them.
_QUOTED: Final = re.compile(r"(?:[^'\"\\`$()\s]*'[^'\n]*')+[^'\"\\`$()\s]*")
# A word with one text in double quotes that runs no command: a backslash before the end of a line goes with it there.
_DOUBLE: Final = re.compile(r"[^'\"\\`$()\s]*\"(?:[^\"\\`$\n]|\$(?!\())*\"[^'\"\\`$()\s]*")
_AFTER: Final = re.compile(r"[},;|/ ]")


def fold(text: str, width: int = PAGE) -> str:
    r"""Return commands with no line longer than ``width`` characters, as far as a shell would read the same.

    A word in single quotes is closed and opened again where it must be: ``'ab'\`` and ``'cd'`` on the next line are one
    word. One in double quotes is broken after a space. Other words that are too long stay whole, and so do comments and
    here-documents.
    """
    lines: list[str] = []
    for pieces in _lines(text):
        line = ""
        for piece in pieces:
            longest = max(len(part) for part in piece.split("\n"))
            if line and len(line) + 1 + longest + len(_MARK) > width:
                lines.append(line + _MARK)
                line = _INDENT + piece
            else:
                line = f"{line} {piece}" if line else piece
            while _DOUBLE.fullmatch(piece) and len(line) > width and (cut := _space(line, width)):
                lines.append(f"{line[:cut]}\\")
                line = line[cut:]
            may = _QUOTED.fullmatch(piece)
            while may and len(line) + len(_MARK) > width and (cut := _cut(line, width)):
                lines.append(f"{line[:cut]}'\\")
                line = f"'{line[cut:]}"
        lines.append(line)
    return "\n".join(lines)


def _space(line: str, width: int) -> int:
    """Behind which space of a text in double quotes to cut a line; 0: none."""
    start = line.find('"') if line.count('"') > 1 else 0
    cut = line.rfind(" ", start, min(width - 1, line.rfind('"'))) + 1
    return cut if cut > start + 1 else 0


def _cut(line: str, width: int) -> int:
    """Where to cut a line inside single quotes, best after a mark that ends something; 0: nowhere."""
    start, room = line.find("'") + 1, width - len("'\\")
    within = [at for at in range(start + 1, min(room, len(line) - 1)) if line[:at].count("'") % 2]
    good = [at for at in within if _AFTER.match(line, at - 1) and at > room // 2]
    return (good or within or [0])[-1]


def _lines(text: str) -> Iterator[list[str]]:
    """Every line as the pieces between the spaces that a shell takes for space.

    A quoted text that goes on over the end of a line is one piece with what stands before and after it.
    """
    pieces: list[str] = []
    piece, at = "", 0
    # What is open, innermost last: quotes, backticks, and parentheses of commands.
    opened: list[str] = []
    while at < len(text):
        c, top = text[at], opened[-1] if opened else ""
        if top == "'":
            if c == "'":
                opened.pop()
        elif c == "\\" and at + 1 < len(text):
            piece += text[at : at + 2]
            at += 2
            continue
        elif top == '"':
            if c == '"':
                opened.pop()
            elif c == "`" or text.startswith("$(", at):
                opened.append("`" if c == "`" else "(")
        elif c == top == "`" or (c == ")" and top == "("):
            opened.pop()
        elif c in "'\"`(":
            opened.append(c)
        elif text.startswith("<<", at):
            yield [*pieces, piece + text[at:]]
            return
        elif not opened and c == "#" and not piece.strip():
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            piece += text[at:end]
            at = end
            continue
        elif not opened and c == "\n":
            yield [*pieces, piece]
            pieces, piece, at = [], "", at + 1
            continue
        elif top in {"", "("} and c == " " and piece.strip():
            pieces.append(piece)
            piece, at = "", at + 1
            continue
        piece += c
        at += 1
        if top == '"' and text[at - 1 : at + 1] == "$(":
            piece += "("
            at += 1
    yield [*pieces, piece]
