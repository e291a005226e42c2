"""Times that people write (RFC 3339, or a day and a time of day, which is then UTC) and times that clusters hold.

What a cluster holds is compared in UTC. What is no such time is None, never a guess: a time without an offset is not
taken for UTC, and one that no calendar of Python's holds counts as none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

__all__ = ["instant", "later", "read_time", "rfc3339", "seconds_between", "shown"]

_TIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})[Tt ](?P<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?) ?(?P<zone>[Zz]|UTC|[+-]\d{2}:\d{2})?"
)


def read_time(text: str) -> datetime | None:
    """Return the time of ``2027-01-31T22:00:00+01:00``, ``2027-01-31T22:00Z`` or ``2027-01-31 22:00`` (UTC).

    None where it is no time, has no time of day, or is a day that no calendar has.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    zone = found["zone"] or "Z"
    try:
        return datetime.fromisoformat(
            f"{found['day']}T{found['time']}{zone if zone[0] in '+-' else '+00:00'}"
        )
    except ValueError:
        return None


def rfc3339(moment: datetime) -> str:
    """Return ``2027-01-31T22:00:00+01:00``, with ``Z`` for UTC, as RFC 3339 section 5.6 has it: in the offset that was given."""
    text = moment.isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if moment.utcoffset() == UTC.utcoffset(None) else text


def instant(text: str) -> datetime | None:
    """Return a time in UTC; None for what is no time with an offset."""
    try:
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def later(moment: datetime, seconds: float) -> datetime | None:
    """Return the time some seconds later; None beyond the end of the calendar."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return None


def seconds_between(start: str, end: str) -> int | None:
    """Return whole seconds from one time to another; None where one of them is none."""
    first, last = instant(start), instant(end)
    return None if first is None or last is None else int((last - first).total_seconds())


def shown(text: str) -> str:
    """Return a time to the minute, in UTC, as people write it; what is no time stays as it is."""
    found = instant(text)
    return text if found is None else f"{found:%Y-%m-%d %H:%M} UTC"
