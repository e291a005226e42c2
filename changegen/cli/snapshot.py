"""``changegen snapshot``."""

from __future__ import annotations

import sys

import click

from changegen.cli.options import (
    ClusterOptions,
    cluster_options,
    command,
    emit,
    input_argument,
    output_option,
    partial_exit,
    read_snapshot,
)
from changegen.cli.terminal import hint

__all__ = ["command"]


@command("snapshot")
@input_argument
@cluster_options
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a snapshot and stop.")
@click.option("--indent", is_flag=True, help="Indent the JSON for people; other bytes, the same content.")
@output_option(" A name that ends in .gz is packed.")
def snapshot(
    paths: tuple[str, ...], cluster: ClusterOptions, schema: bool, indent: bool, output: str | None
) -> None:
    """Record a cluster in one canonical file.

    The same input gives the same bytes. What could not be read stands in the file with its reason; if a read was
    tried and failed the file is still written and the exit code is 4.
    """
    from changegen import store

    if schema:
        import msgspec

        from changegen.model.snapshot import Snapshot

        emit(store.pretty(msgspec.json.schema(Snapshot)), output)
        return
    record = read_snapshot(paths, cluster)
    emit(store.pretty(record) if indent else store.canonical(record), output)
    code = partial_exit(cluster, record)
    if output not in {None, "-"}:
        hint(
            f"changegen ticket {output} --to VERSION -o ticket.md  (or --profile NAME: changegen profile list)"
        )
    sys.exit(code)


command = snapshot
