"""Fields for people: what the tool cannot know, who must fill it, and what the profile or ``--set`` gave.

The tool never writes an approval: an approver's name is who shall approve, not that they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from changegen.i18n import tr
from changegen.model.profile import ChangeFields, Profile
from changegen.model.ticket import Field

__all__ = ["make_fields"]


def _given(change: ChangeFields) -> dict[str, str]:
    values = {
        "type": change.type or "",
        "service": change.service or "",
        "window.start": change.window.start or "",
        "window.end": change.window.end or "",
        "owner": change.owner or "",
        "approvers": ", ".join(change.approvers),
        "risk": change.risk or "",
        "reason": change.reason or "",
        "links": "; ".join(f"{link.title} {link.url}" for link in change.links),
    }
    return {name: value for name, value in values.items() if value}


def make_fields(profile: Profile, given: Mapping[str, str], *, suggestion: str = "") -> tuple[Field, ...]:
    """All fields in printing order; open ones have no value.

    Args:
        profile: The resolved profile; its ``change`` fills fields.
        given: ``--set field=value``; beats the profile. Names beyond the known ones become further fields.
        suggestion: The risk as the tool computes it: shown in the label, never filled in.
    """
    owner, board = tr("the change's owner"), tr("the change board or approver")
    risk = tr("Risk, accepted (computed: {risk})", risk=suggestion) if suggestion else tr("Risk, accepted")
    known: tuple[tuple[str, str, str, bool], ...] = (
        ("owner", tr("Owner"), tr("the team that files it"), True),
        ("reviewer", tr("Second engineer"), owner, True),
        ("window.start", tr("Window start"), owner, True),
        ("window.end", tr("Window end"), owner, True),
        ("approvers", tr("Approvers"), board, True),
        ("service", tr("Service in the CMDB"), tr("the service's owner"), True),
        ("reason", tr("Business reason"), tr("the requester"), True),
        ("risk", risk, board, True),
        ("type", tr("Type: standard, normal, emergency"), owner, False),
        ("contact", tr("Whom to call during the window"), owner, False),
        ("links", tr("Links"), owner, False),
    )
    values = _given(profile.change)
    set_values = {name: value for name, value in given.items() if value}
    fields = []
    for name, label, who, required in known:
        value = set_values.get(name) or values.get(name, "")
        source: Literal["", "profile", "set"] = "set" if name in set_values else "profile" if value else ""
        fields.append(Field(name=name, label=label, value=value, who=who, required=required, source=source))
    names = {name for name, *_ in known}
    further = {
        **profile.change.fields,
        **{name: value for name, value in set_values.items() if name not in names},
    }
    for name, value in sorted(further.items()):
        if name in names:
            continue
        told: Literal["", "profile", "set"] = "set" if name in set_values else "profile" if value else ""
        fields.append(
            Field(
                name=name,
                label=name,
                value=value,
                who=owner,
                required=not value,
                source=told,
            )
        )
    return tuple(fields)
