"""The facts that checks compare: one table, a fact a row.

A row makes the command that people paste, evaluates the same fact on a snapshot, and reads the command's output. For
one cluster and one time, ``evaluate(snapshot, args)`` and ``parse(output, args)`` give the same value. What was not
read is not known, and a value that is not known never passes a check.

Values: text, numbers, true or false, a sorted tuple of texts, or a map of names to scalars. ``None`` as a value means
"read, and not there". Commands only read. They print rows with tabs between the columns, or a line of JSON where a
field is a list or a map (kubectl prints those as JSON). ``kubectl get --raw`` and a fresh ``--cache-dir`` are used
where kubectl's own discovery cache would ask for an API version of yesterday.
"""

from __future__ import annotations

from changegen.facts import apis, components, config, dra, nodes, workloads
from changegen.facts.base import Args, Fact, Reading, Value, unknown
from changegen.i18n import tr
from changegen.model.snapshot import Snapshot

__all__ = ["FACTS", "Args", "Fact", "Reading", "Value", "command", "evaluate", "unknown"]

FACTS: dict[str, Fact] = {
    row.name: row for module in (apis, components, nodes, config, workloads, dra) for row in module.ROWS
}
"""name -> row. ``Query.fact`` of a check names one."""


def command(name: str, args: Args) -> str:
    """The command that prints the fact, ready to paste; raises KeyError for a name that the table lacks."""
    return FACTS[name].command(args)


def evaluate(name: str, snapshot: Snapshot, args: Args) -> Reading:
    """The fact as the snapshot shows it; a name that this release lacks is not known."""
    row = FACTS.get(name)
    if row is None:
        return unknown(tr("this release knows no fact {name}", name=name))
    return row.evaluate(snapshot, args)
