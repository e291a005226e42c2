"""The file of ``--runtime-evidence``: what people saw, for checks that no reading of the API can fill.

YAML or JSON::

    schema: changegen.evidence/v1
    by: A. Operator
    checks:
    - {check: V-14, value: "2", note: nvidia-smi lists both GPUs}

Nothing in it ever makes a check pass: the check is told as attested, with the name. A row without a value and a note
attests nothing: it stands as it came from ``changegen probe -f evidence``, and nobody filled it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from changegen.errors import InputError
from changegen.i18n import tr

if TYPE_CHECKING:
    from changegen.model.ticket import Ticket
    from changegen.verify import Attestation

__all__ = ["SCHEMA", "read_evidence"]

SCHEMA = "changegen.evidence/v1"
_TOP = {"schema", "by", "checks"}
_ROW = {"check", "by", "value", "note"}


def read_evidence(path: Path, ticket: Ticket) -> tuple[Attestation, ...]:
    """Return what a file attests of a ticket's checks; of rows that nobody filled nothing, and that is said on stderr.

    Raises:
        InputError: It is missing or broken, names nobody, or names a check that the ticket does not have.
    """
    from changegen.cli.terminal import capped, note
    from changegen.collect.yamlread import StrictYaml, load_strict
    from changegen.store import read_bytes
    from changegen.verify import Attestation

    tree: StrictYaml = load_strict(read_bytes(path), str(path), error=InputError)

    def wrong(message: str, *where: str | int) -> InputError:
        return InputError(message, where=f"{path}:{tree.line(where)}")

    value: Any = tree.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise wrong(tr("evidence is a mapping that starts with 'schema: {schema}'", schema=SCHEMA))
    unknown = set(value) - _TOP
    if unknown:
        raise wrong(tr("unknown field {name}", name=min(unknown)), min(unknown))
    rows = value.get("checks")
    if not isinstance(rows, list):
        raise wrong(tr("'checks' is a list of what was seen"), "checks")
    known = {check.id for check in ticket.checks}
    found: list[Attestation] = []
    blank: list[str] = []
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) - _ROW or not isinstance(row.get("check"), str):
            raise wrong(tr("write {{check: V-14, value: …, note: …}}"), "checks", index)
        if row["check"] not in known:
            raise wrong(tr("the ticket has no check {id}", id=row["check"]), "checks", index)
        by = row.get("by") or value.get("by")
        if not isinstance(by, str) or not by.strip():
            raise wrong(tr("say who saw it: 'by: NAME'"), "checks", index)
        said = Attestation(
            check=row["check"], by=by.strip(), value=_text(row.get("value")), note=_text(row.get("note"))
        )
        if said.says:
            found.append(said)
        else:
            blank.append(said.check)
    empty = [check for check in dict.fromkeys(blank) if check not in {said.check for said in found}]
    if empty:
        note(
            tr(
                "Note: {file} attests nothing of {checks}: no value and no note",
                file=path,
                checks=capped(empty),
            )
        )
    return tuple(found)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
