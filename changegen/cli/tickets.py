"""The ticket that a command takes: its JSON, or its PDF, which carries the JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from changegen.errors import InputError
from changegen.i18n import tr

if TYPE_CHECKING:
    from changegen.model.ticket import Ticket

__all__ = ["read_ticket"]


def read_ticket(path: str | os.PathLike[str]) -> Ticket:
    """Return the ticket of a JSON file (gzip is noticed; ``-`` is stdin) or of a ticket's PDF.

    Both are held to the same schema and the same digests; the PDF's ticket is the same bytes.

    Raises:
        InputError: the file is missing, broken, of another kind, or a rendering that programs cannot read.
        ChangegenError: a PDF is given and pypdf is not installed.
    """
    from changegen import store
    from changegen.model.ticket import SCHEMA, Ticket

    data = store.read_bytes(path)
    place = "stdin" if os.fspath(path) == "-" else os.fspath(path)
    if data.startswith(b"%PDF-"):
        from changegen.render.attest import ticket_in

        data = ticket_in(data, place)
    elif data.lstrip()[:1] in {b"#", b"<"}:
        raise InputError(
            tr("programs cannot read this form of a ticket"),
            where=place,
            hint=tr("use its JSON (changegen ticket -f json) or its PDF, which carries the JSON"),
        )
    made: Ticket = store.decode_record(data, Ticket, schema=SCHEMA, place=place)
    return made
