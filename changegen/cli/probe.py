"""``changegen probe``: how to prove devices inside their Pods. Nothing is run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from changegen.cli import Failure
from changegen.cli.options import (
    ClusterOptions,
    choose_format,
    cluster_options,
    emit,
    input_argument,
    lang_option,
    output_options,
    partial_exit,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.terminal import hint, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from changegen.probe import Probe

__all__ = ["command"]

FORMATS = ("text", "evidence", "json")


@make("probe")
@input_argument
@cluster_options
@click.option(
    "--pod", "pods", multiple=True, metavar="NAMESPACE/NAME", help="Only this Pod; may be given again."
)
@click.option(
    "--ticket",
    metavar="TICKET",
    type=click.Path(dir_okay=False),
    help="Name the checks of this ticket that the probes fill.",
)
@lang_option
@output_options(FORMATS, default="text", extensions={"yaml": "", "json": "", "txt": ""})
def probe(
    paths: tuple[str, ...],
    cluster: ClusterOptions,
    pods: tuple[str, ...],
    ticket: str | None,
    lang: str,
    form: str | None,
    output: str | None,
) -> None:
    """Print how to prove devices inside their Pods: kubectl exec lines and what each must show.

    With --ticket TICKET -f evidence a file to fill, which 'changegen verify --runtime-evidence FILE' takes. What
    nobody proved stays not proven.
    """
    form = choose_format(form, output, FORMATS, "text")
    from changegen import store
    from changegen.cli.tickets import read_ticket
    from changegen.i18n import language, tr
    from changegen.probe import evidence_file, probes

    made = read_ticket(ticket) if ticket else None
    snapshot = read_snapshot(paths, cluster)
    with language(lang):
        found = probes(snapshot, made, pods)
        seen = {f"{p.namespace}/{p.pod}" for p in found}
        missing = [name for name in pods if name not in seen]
        if missing:
            raise Failure(f"no Pod that uses devices in this reading: {', '.join(missing)}", 2)
        if form == "json":
            emit(store.pretty({"schema": "changegen.probes/v1", "probes": found}), output)
        elif form == "evidence":
            emit(evidence_file(found), output)
        else:
            emit(_text(found), output)
    if form == "text" and found:
        with language(lang):
            hint(
                tr(
                    "{first}, then fill it for {second}",
                    first="changegen probe … --ticket ticket.json -f evidence -o seen.yaml",
                    second="changegen verify ticket.json --runtime-evidence seen.yaml",
                )
            )
    sys.exit(partial_exit(cluster, snapshot))


def _text(found: Sequence[Probe]) -> str:
    from changegen.i18n import tr

    if not found:
        return tr("No Pod of this reading uses devices.") + "\n"
    lines: list[str] = []
    last = ""
    for one in found:
        name = f"{one.namespace}/{one.pod}"
        if name != last:
            owner = f"  {one.workload}" if one.workload else ""
            check = f"  [{one.check}]" if one.check else ""
            lines += ["", f"{plain(name)}{plain(owner)}  {plain(one.node or '-')}{check}"]
            last = name
        if one.command:
            lines.append(f"  {plain(one.command)}")
            lines.append(f"    {plain(tr('must show {text}', text=one.expect))}")
        else:
            lines.append(f"  {plain(one.subject)}: {plain(one.why)}")
    return "\n".join(lines[1:]) + "\n"


command = probe
