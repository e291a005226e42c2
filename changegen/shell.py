"""Texts of a cluster as words of a printed shell command."""

from __future__ import annotations

import shlex
import unicodedata

__all__ = ["quoted", "until", "word"]


def quoted(value: object) -> str:
    """Return a value as one word of a shell command; a name that Kubernetes allows comes out as it is."""
    return shlex.quote(str(value))


def word(text: str) -> str:
    """Return a text as one word of a shell command that can also stand between backticks in a sentence.

    A name that Kubernetes allows comes out as it is. Anything else is quoted; what would end the sentence's code (a
    backtick) or the line (control characters) becomes `?`, since no object that the API server took has it in its name.
    """
    clean = "".join("?" if c == "`" or (unicodedata.category(c)[0] in "CZ" and c != " ") else c for c in text)
    return quoted(clean)


def until(text: str, seconds: int) -> str:
    """Return a line that runs a command every five seconds until it succeeds, and fails when it did not within so many."""
    tries, minutes = -(-seconds // 5), seconds // 60
    return (
        f"for N in $(seq {tries} -1 0); do {text} && break; "
        f'if [ "$N" = 0 ]; then echo "not within {minutes} minutes" >&2; false; else sleep 5; fi; done'
    )
