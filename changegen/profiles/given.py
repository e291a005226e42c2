"""Profiles from the command line: ``--to`` and ``--set``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from changegen.errors import UsageError
from changegen.i18n import tr
from changegen.model.profile import ChangeFields, Link, Profile, Target, Window
from changegen.times import read_time, rfc3339
from changegen.versions import InvalidVersion, Version

_OWN_FIELD = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]*$")


def profile_for_target(version: str) -> Profile:
    """Return the profile of ``--to 1.37.2`` (or ``1.37``, any patch): that version and the default policy of stages."""
    return Profile(
        name=f"kubernetes-{_target(version)}",
        title=f"Kubernetes {_target(version)}",
        target=Target(kubernetes=_target(version)),
    )


def with_target(profile: Profile, version: str) -> Profile:
    """Return the profile with ``--to`` laid over its target version."""
    return msgspec.structs.replace(
        profile, target=msgspec.structs.replace(profile.target, kubernetes=_target(version))
    )


def _target(version: str) -> str:
    try:
        Version.parse(version)
    except InvalidVersion as error:
        raise UsageError(
            tr("--to {version} is no version; write 1.37.2, or 1.37 for any patch", version=version)
        ) from error
    text = version.strip()
    return text[1:] if text[:1] in {"v", "V"} else text


KNOWN_FIELDS = (
    "type",
    "service",
    "owner",
    "approvers",
    "risk",
    "reason",
    "window.start",
    "window.end",
    "links",
)
_FIRST_PAGE = ("reviewer", "contact")
"""Fields that every ticket has too, and that no profile has a place of its own for."""


def parse_fields(pairs: Iterable[str]) -> dict[str, str]:
    """Return ``--set`` pairs by field; a field given twice is the last one, but approvers and links add up.

    A time of the window is RFC 3339, or ``2027-01-31 22:00``, which is UTC; it is returned as RFC 3339.

    Raises:
        UsageError: A pair has no ``=``, its name is close to a known field without being one, or a time is none.
    """
    fields: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        name = {"window_start": "window.start", "window_end": "window.end", "approver": "approvers"}.get(
            name, name
        )
        own = name.removeprefix("fields.")
        if not equals or not _OWN_FIELD.match(name):
            raise UsageError(tr("--set {pair}: write field=value", pair=pair))
        if name not in KNOWN_FIELDS and own == name:
            near = _near(name)
            if near:
                raise UsageError(
                    tr(
                        "--set {name}: did you mean {near}? A field of your own of that name is fields.{name}",
                        name=name,
                        near=near,
                    )
                )
        if name in _WINDOW and value.strip():
            value = _time(name, value)
        if name in {"approvers", "links"} and name in fields:
            value = f"{fields[name]},{value}"
        fields[name if name in KNOWN_FIELDS else own] = value
    return fields


_WINDOW = ("window.start", "window.end")
_OF_WINDOW = re.compile(r"(window|start|end)([._-].*)?$", re.IGNORECASE)


def _near(name: str) -> str:
    """Return the known field that a name is close to, or both ends of the window for a part of it."""
    if name in _FIRST_PAGE:
        return ""
    near = get_close_matches(name, (*KNOWN_FIELDS, *_FIRST_PAGE), n=1, cutoff=0.8)
    if near:
        return near[0]
    return tr("{first} or {second}", first=_WINDOW[0], second=_WINDOW[1]) if _OF_WINDOW.match(name) else ""


def _time(name: str, value: str) -> str:
    moment = read_time(value)
    if moment is None:
        raise UsageError(
            tr(
                "--set {name}={value} is no time; write 2027-01-31T22:00:00+01:00, or 2027-01-31 22:00 for UTC",
                name=name,
                value=value,
            )
        )
    return rfc3339(moment)


def with_fields(profile: Profile, fields: Mapping[str, str]) -> Profile:
    """Return the profile with fields of the change filled from ``--set``; an empty value opens a field again.

    Raises:
        UsageError: ``type`` is none of the three, or the window ends before it starts.
    """
    if not fields:
        return profile
    change = profile.change
    own = dict(change.fields)
    updates: dict[str, Any] = {}
    window: dict[str, str | None] = {}
    for name, value in fields.items():
        if name == "type":
            kinds = ("standard", "normal", "emergency")
            if value not in kinds:
                raise UsageError(
                    tr("--set type={value}: write one of {names}", value=value, names=", ".join(kinds))
                )
            updates["type"] = value
        elif name == "approvers":
            updates["approvers"] = tuple(part.strip() for part in value.split(",") if part.strip())
        elif name == "links":
            updates["links"] = tuple(_link(part.strip()) for part in value.split(",") if part.strip())
        elif name.startswith("window."):
            window[name.removeprefix("window.")] = value or None
        elif name in KNOWN_FIELDS:
            updates[name] = value or None
        else:
            own[name] = value
    if window:
        merged = Window(**{**msgspec.structs.asdict(change.window), **window})
        if merged.ends_first:
            raise UsageError(
                tr(
                    "--set window: it ends at {end}, which is not after its start {start}",
                    start=merged.start,
                    end=merged.end,
                )
            )
        updates["window"] = merged
    filled: ChangeFields = msgspec.structs.replace(change, fields=own, **updates)
    return msgspec.structs.replace(profile, change=filled)


def _link(text: str) -> Link:
    title, equals, url = text.partition("=")
    return Link(title=title, url=url) if equals and "://" in url else Link(title=text, url=text)
