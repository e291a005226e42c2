"""``changegen redact``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from changegen.cli.options import (
    ClusterOptions,
    checked_output,
    cluster_options,
    emit,
    input_argument,
    output_option,
    partial_exit,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.terminal import aside, hint

__all__ = ["command"]

MAP_SCHEMA = "changegen.pseudonyms/v1"


@make("redact")
@input_argument
@cluster_options
@click.option(
    "--map",
    "map_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=checked_output,
    help="Keep the pseudonyms here and take those that are there already. It undoes the redaction: keep it to yourself.",
)
@output_option(" A name that ends in .gz is packed.")
def redact(
    paths: tuple[str, ...], cluster: ClusterOptions, map_file: Path | None, output: str | None
) -> None:
    """Give a snapshot pseudonyms, so that it can be shared: the same name is the same pseudonym everywhere.

    Names of nodes, namespaces and what is in them, addresses, UIDs, serial numbers, the owner's domains, image hosts
    and label values are replaced, also inside messages. Versions, gates, flags, Kubernetes' own names and those of public
    drivers stay. Use one --map for readings that shall be compared.
    """
    from changegen import store
    from changegen.redact import redact as give_pseudonyms

    mapping = _read_map(map_file)
    snapshot = read_snapshot(paths, cluster)
    shared, used = give_pseudonyms(snapshot, mapping)
    if map_file is not None:
        store.write_bytes(map_file, store.pretty({"schema": MAP_SCHEMA, "pseudonyms": used}))
    emit(store.canonical(shared), output)
    counts = {kind: len(names) for kind, names in sorted(used.items()) if names}
    aside("replaced: " + ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts.items()))
    hint("look through the file before it leaves the house: free text can hold what no rule knows")
    sys.exit(partial_exit(cluster, snapshot))


def _read_map(path: Path | None) -> dict[str, dict[str, str]]:
    if path is None or not path.exists():
        return {}
    import msgspec

    from changegen import store

    class Stored(msgspec.Struct):
        schema: str
        pseudonyms: dict[str, dict[str, str]]

    return store.read_record(path, Stored, schema=MAP_SCHEMA)[0].pseudonyms


command = redact
