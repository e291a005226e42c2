"""Words for the codes that the models keep, in the reader's language.

Codes stay codes in JSON, for programs; what people read goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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


_NUMBERED = re.compile(r"(.*?)([0-9]+)")


def spans(names: Iterable[str], least: int = 4) -> str:
    """Names in their order, joined by commas; a run that only counts up or down is told by its ends: ``gpu-07 to gpu-19``.

    Args:
        names: As they are to be read.
        least: How many names a run must have to be shortened.
    """
    runs: list[list[str]] = []
    way = 0
    for name in names:
        step = _step(runs[-1][-1], name) if runs else 0
        if step and (len(runs[-1]) == 1 or step == way):
            way = step
            runs[-1].append(name)
        else:
            runs.append([name])
    told: list[str] = []
    for run in runs:
        told += [tr("{first} to {last}", first=run[0], last=run[-1])] if len(run) >= least else run
    return ", ".join(told)


def _step(name: str, following: str) -> int:
    """1 or -1 where the second name is the first one counted up or down by one, written as wide; else 0."""
    here, there = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(following)
    if here is None or there is None or here[1] != there[1]:
        return 0
    step = int(there[2]) - int(here[2])
    return step if abs(step) == 1 and there[2] == str(int(there[2])).zfill(len(here[2])) else 0
