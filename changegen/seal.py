"""A ticket's own digest, so that an edit of its file shows.

It is no signature: who edits on purpose can make a new one, and the SHA-256 that was approved (``verify --approved``)
tells that apart.
"""

from __future__ import annotations

import msgspec

from changegen.model.ticket import Ticket
from changegen.store import digest_of

__all__ = ["content_digest", "sealed"]


def content_digest(ticket: Ticket) -> str:
    """Return what ``Ticket.content_digest`` must be: of the ticket with this field empty."""
    return digest_of(msgspec.structs.replace(ticket, content_digest=""))


def sealed(ticket: Ticket) -> Ticket:
    """Return the ticket with its own digest in it."""
    return msgspec.structs.replace(ticket, content_digest=content_digest(ticket))
