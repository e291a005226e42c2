"""Words for the codes that the models keep, in the reader's language.

Codes stay codes in JSON, for programs; what people read goes through here.
"""

from __future__ import annotations

from changegen.i18n import tr, trn


def unobserved_reason(code: str) -> str:
    """Return why something was not read, in words; several codes may be joined by commas.

    A code that is not known is returned as it is.
    """
    words = {
        "forbidden": tr("forbidden"),
        "not-in-capture": tr("not in the capture"),
        "not-served": tr("not served"),
        "error": tr("error"),
        "truncated": tr("cut off"),
        "malformed": tr("malformed"),
        "by-nature": tr("cannot be seen from outside"),
        "not-asked": tr("not asked for"),
        "unobservable": tr("not observable"),
    }
    return ", ".join(words.get(part, part) for part in code.split(", "))


def devices(n: int) -> str:
    """Return a number of devices."""
    return trn("{n} device", "{n} devices", n=n)


def pods(n: int) -> str:
    """Return a number of Pods."""
    return trn("{n} Pod", "{n} Pods", n=n)


def nodes(n: int) -> str:
    """Return a number of nodes."""
    return trn("{n} node", "{n} nodes", n=n)


def spell(minutes: int) -> str:
    """Minutes as people say them: ``45 min``, ``2 h 20 min``, ``35 h``, ``4 days``; above an hour to five minutes."""
    if minutes < 60:
        return tr("{n} min", n=minutes)
    hours, rest = divmod(5 * round(minutes / 5), 60)
    if minutes < 600:
        return tr("{h} h {m} min", h=hours, m=rest) if rest else tr("{h} h", h=hours)
    hours = round(minutes / 60)
    return tr("{h} h", h=hours) if hours < 72 else tr("{d} days", d=round(hours / 24))
