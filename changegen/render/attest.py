"""Ticks in a printed ticket, read back: what a person says was seen or done. Never a pass.

The PDF is a form with one field a check (``check-V-1``), a step (``step-P-1``) and a step back (``back-B-1``). A tick says
that somebody looked, or did it; whose word it is must be given beside the file, since a PDF does not prove who filled it.
The PDF carries the ticket's JSON too, from which `ticket_in` reads the ticket itself.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from changegen.errors import ChangegenError, InputError
from changegen.i18n import tr

if TYPE_CHECKING:
    from pypdf import PdfReader

    from changegen.model.ticket import Ticket
    from changegen.verify import Attestation

FIELD = "check-"
STEPS = ("step-", "back-")
ATTACHED = "ticket.json"


class _Identity(msgspec.Struct, frozen=True):
    """What tells two tickets apart, whatever language each is written in."""

    snapshot_digest: str = ""
    to_version: str = ""
    checks: tuple[_Id, ...] = ()


class _Id(msgspec.Struct, frozen=True):
    id: str


def _open(path: Path, data: bytes | None = None) -> PdfReader:
    """Open a PDF: the file, or its bytes where they were read already."""
    try:
        import pypdf
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise ChangegenError(
            tr("reading a filled PDF needs the package pypdf"),
            hint=tr("install it with: pip install 'changegen[pdf]'"),
        ) from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        reader = pypdf.PdfReader(path if data is None else io.BytesIO(data))
        reader.get_fields()
    except OSError as error:
        raise InputError(
            tr("the file cannot be read: {reason}", reason=str(error.strerror or error)), where=str(path)
        ) from error
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(tr("this is no PDF, or a damaged one"), where=str(path)) from error
    return reader


def _ticked(reader: PdfReader, path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Ids of what is ticked: checks, and steps there and back."""
    fields = reader.get_fields() or {}
    if not any(name.startswith(FIELD) for name in fields):
        raise InputError(
            tr("this PDF has no checklist of a ticket in it"),
            where=str(path),
            hint=tr(
                "fill in the PDF that 'changegen ticket -f pdf' wrote, and save it as a PDF with its form"
            ),
        )
    on = [name for name, field in fields.items() if str(field.get("/V", "/Off")) not in {"/Off", "", "None"}]
    return (
        frozenset(name.removeprefix(FIELD) for name in on if name.startswith(FIELD)),
        frozenset(name.partition("-")[2] for name in on if name.startswith(STEPS)),
    )


def read_ticked(path: Path) -> frozenset[str]:
    """Return the ids of the checks that are ticked in a ticket's PDF.

    Raises:
        InputError: the file is missing, no PDF, or has no checklist in it.
        ChangegenError: pypdf is not installed.
    """
    return _ticked(_open(path), path)[0]


def ticket_in(data: bytes, place: str) -> bytes:
    """Return the ticket's JSON that its PDF carries.

    Args:
        data: the PDF.
        place: its name, for errors.

    Raises:
        InputError: it is damaged, or has no ticket in it.
        ChangegenError: pypdf is not installed.
    """
    for content in _open(Path(place), data).attachments.get(ATTACHED, []):
        return bytes(content)
    raise InputError(
        tr("this PDF has no ticket in it"),
        where=place,
        hint=tr("use the PDF that 'changegen ticket -f pdf' wrote, or the ticket's JSON (-f json)"),
    )


def read_attestations(path: Path, ticket: Ticket, by: str) -> tuple[Attestation, ...]:
    """Return what ``by`` attests of a ticket's checks, and says of its steps, in its filled PDF.

    Args:
        path: the PDF.
        ticket: the ticket that is verified.
        by: who ticked, as the user says.

    Raises:
        InputError: as `read_ticked`; or nobody is named, or the PDF is of another ticket.
        ChangegenError: pypdf is not installed.
    """
    from changegen.verify import Attestation

    if not by.strip():
        raise InputError(tr("say who ticked the PDF: --attested-by NAME"), where=str(path))
    reader = _open(path)
    ticked, done = _ticked(reader, path)
    known = {check.id for check in ticket.checks}
    for content in reader.attachments.get(ATTACHED, []):
        try:
            inside = msgspec.json.decode(bytes(content), type=_Identity)
        except msgspec.MsgspecError:
            continue
        same = (
            inside.snapshot_digest == ticket.snapshot_digest
            and inside.to_version == ticket.to_version
            and {check.id for check in inside.checks} == known
        )
        if not same:
            raise InputError(tr("this PDF is of another ticket"), where=str(path))
    if ticked - known:
        raise InputError(tr("the ticket has no check {id}", id=min(ticked - known)), where=str(path))
    note = tr("ticked in {file}", file=path.name)
    return tuple(Attestation(check=item, by=by.strip(), note=note) for item in sorted(ticked | done))
