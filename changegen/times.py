"""Times that people write: RFC 3339, or a day and a time of day, which is then UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["read_time", "rfc3339"]

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
