"""Words of the tool in the reader's language.

``tr("{n} Pods hold devices", n=3)`` looks the literal English text up in the catalogue of the language in force and
fills the named fields; ``trn`` is the same for a text that depends on a count. The language is a context variable, so that the pure functions need no extra argument and two
tickets in one process do not disturb each other. Kubernetes' own names, commands and codes are never translated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "zh-CN")
_lang: ContextVar[str] = ContextVar("changegen_lang", default="en")


@cache
def catalogue(lang: str) -> dict[str, str]:
    """Return msgid -> text for a language; English has none, its msgids are the text."""
    if lang == "en":
        return {}
    text = (files("changegen") / "data" / "locale" / f"{lang}.json").read_text(encoding="utf-8")
    loaded: dict[str, str] = json.loads(text)
    return loaded


@contextmanager
def language(lang: str) -> Iterator[None]:
    """Put a language in force for the block."""
    token = _lang.set(lang)
    try:
        yield
    finally:
        _lang.reset(token)


def current_language() -> str:
    """Return the language in force."""
    return _lang.get()


def tr(msgid: str, /, **fields: object) -> str:
    """Return the text of ``msgid`` in the language in force with its named fields filled.

    A field's text comes in as it is: braces in it are not looked at again.
    """
    text = catalogue(_lang.get()).get(msgid, msgid)
    return text.format(**fields) if fields else text.replace("{{", "{").replace("}}", "}")


def trn(one: str, many: str, /, n: int, **fields: object) -> str:
    """Return the text for a count: ``trn("{n} Pod waits", "{n} Pods wait", n=1)``.

    English says ``one`` of exactly one and ``many`` of everything else, 0 too. Catalogues have ``many`` alone: the
    languages that the tool speaks beside English have one form for every count.

    Args:
        one: The English text for one; its fields are among those of ``many``.
        many: The English text for any other number, and the msgid.
        n: The count; it is the field ``n`` too.
        fields: What the other named fields are filled with.
    """
    lang = _lang.get()
    text = one if n == 1 and lang == "en" else catalogue(lang).get(many, many)
    return text.format(n=n, **fields)
