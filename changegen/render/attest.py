"""Ticks in a printed ticket, read back: what a person says was seen. Never a pass.

The PDF's checklist is a form with one field a check, ``check-V-1``. A tick in it says that somebody looked; whose word it
is must be given beside the file, since a PDF does not prove who filled it.
"""

from __future__ import annotations

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
ATTACHED = "ticket.json"


class _Identity(msgspec.Struct, frozen=True):
    """What tells two tickets apart, whatever language each is written in."""

    snapshot_digest: str = ""
    to_version: str = ""
    checks: tuple[_Id, ...] = ()


class _Id(msgspec.Struct, frozen=True):
    id: str


def _open(path: Path) -> PdfReader:
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
        reader = pypdf.PdfReader(path)
        reader.get_fields()
    except OSError as error:
        raise InputError(
            tr("the file cannot be read: {reason}", reason=str(error.strerror or error)), where=str(path)
        ) from error
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(tr("this is no PDF, or a damaged one"), where=str(path)) from error
    return reader


def _ticked(reader: PdfReader, path: Path) -> frozenset[str]:
    fields = {name: field for name, field in (reader.get_fields() or {}).items() if name.startswith(FIELD)}
    if not fields:
        raise InputError(
            tr("this PDF has no checklist of a ticket in it"),
            where=str(path),
            hint=tr(
                "fill in the PDF that 'changegen ticket -f pdf' wrote, and save it as a PDF with its form"
            ),
        )
    return frozenset(
        name.removeprefix(FIELD)
        for name, field in fields.items()
        if str(field.get("/V", "/Off")) not in {"/Off", "", "None"}
    )


def read_ticked(path: Path) -> frozenset[str]:
    """Return the ids of the checks that are ticked in a ticket's PDF.

    Raises:
        InputError: the file is missing, no PDF, or has no checklist in it.
        ChangegenError: pypdf is not installed.
    """
    return _ticked(_open(path), path)


def read_attestations(path: Path, ticket: Ticket, by: str) -> tuple[Attestation, ...]:
    """Return what ``by`` attests of a ticket's checks in its filled PDF.

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
    ticked = _ticked(reader, path)
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
    return tuple(Attestation(check=check, by=by.strip(), note=note) for check in sorted(ticked))
