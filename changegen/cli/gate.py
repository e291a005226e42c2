"""``changegen gate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changegen.cli import Failure
from changegen.cli.options import (
    ClusterOptions,
    choose_format,
    cluster_options,
    emit,
    input_argument,
    load_data,
    output_options,
    partial_exit,
    read_snapshot,
)
from changegen.cli.options import command as make
from changegen.cli.terminal import capped, plain, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from changegen.assess.gate_places import GatePlace
    from changegen.kubedata import GateHistory, KubeadmGate, KubernetesData

__all__ = ["command"]


@make("gate")
@click.argument("name", metavar="NAME")
@input_argument
@click.option(
    "--live",
    is_flag=True,
    help="Read the cluster of the current kubeconfig context; --context and --kubeconfig do so too.",
)
@cluster_options
@click.option(
    "--data",
    envvar="CHANGEGEN_DATA",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kubernetes data to use instead of the shipped one.",
)
@output_options(("text", "json"), default="text")
def gate(
    name: str,
    paths: tuple[str, ...],
    live: bool,
    cluster: ClusterOptions,
    data: Path | None,
    form: str | None,
    output: str | None,
) -> None:
    """Tell what is known of a feature gate, over the minors: default, stage, lock, who reads it, what it needs.

    With an INPUT, or --live for the cluster of the kubeconfig, it also tells where that cluster sets it.
    """
    known = load_data(data)
    history = known.gate(name)
    kubeadm = known.kubeadm_gate(name) if history is None else None
    form = choose_format(form, output, ("text", "json"), "text")
    if history is None and not kubeadm:
        from difflib import get_close_matches

        names = {n.lower(): n for n in known.gate_names}
        near = [names[n] for n in get_close_matches(name.lower(), names, n=3)]
        told = f"; did you mean {', '.join(near)}?" if near else ""
        raise Failure(f"no Kubernetes from {known.oldest} to {known.newest} knows the gate {name}{told}", 2)
    places: tuple[GatePlace, ...] | None = None
    code = 0
    if paths or live or cluster.names_a_cluster:
        from changegen.assess.gate_places import gate_places

        snapshot = read_snapshot(paths, cluster)
        places = gate_places(snapshot, known, name)
        code = partial_exit(cluster, snapshot)
    if form == "json":
        import msgspec

        from changegen import store

        told_history = msgspec.to_builtins(
            history if history is not None else {"name": name, "kubeadm": kubeadm}
        )
        emit(store.pretty(told_history if places is None else {**told_history, "places": places}), output)
    else:
        text = _text(history, known) if history is not None else _kubeadm_text(name, kubeadm or {})
        emit(text if places is None else f"{text}\n{_places_text(places)}", output)
    sys.exit(code)


def _kubeadm_text(name: str, by_minor: Mapping[str, KubeadmGate]) -> str:
    rows = [("MINOR", "DEFAULT", "STAGE"), *((m, _bool(g.default), g.stage) for m, g in by_minor.items())]
    return "\n".join([f"{name}: a gate of kubeadm itself, of no component", *table(rows)]) + "\n"


def _places_text(places: Sequence[GatePlace]) -> str:
    if not places:
        return "This cluster: no instance that reads it was seen, and nothing sets it.\n"
    rows = [("COMPONENT", "WHERE", "STATE", "VALUE", "SET BY")]
    rows += [
        (
            place.component,
            plain(capped(place.where, 4)),
            place.state,
            "?" if place.value is None else _bool(place.value),
            plain("; ".join(place.sources)),
        )
        for place in places
    ]
    return "\n".join(["In this cluster", "", *table(rows)]) + "\n"


def _bool(value: bool) -> str:
    return "on" if value else "off"


def _text(history: GateHistory, known: KubernetesData) -> str:
    newest = history.by_minor[history.last]
    rows = [("MINOR", "STAGE", "DEFAULT", "", "READ BY")]
    for minor in known.minors:
        gate_ = history.by_minor.get(minor)
        if gate_ is None:
            state = (
                "removed: naming it stops the component" if _after(minor, history, known) else "not known yet"
            )
            rows.append((minor, "-", "-", state, ""))
            continue
        spec = next(
            (s for s in reversed(gate_.specs) if _not_newer(s.version, minor) and not s.min_compat), None
        )
        if spec is None:
            rows.append((minor, "-", "-", "", ""))
            continue
        locked = "locked" if spec.lock else ""
        rows.append((minor, spec.stage, _bool(spec.default), locked, ", ".join(gate_.components)))
    lines = [history.name, ""]
    lines += table(rows)
    if newest.depends:
        lines += ["", f"needs {', '.join(newest.depends)}"]
    for component, by_version in newest.overrides.items():
        told = ", ".join(f"{_bool(value)} from {version}" for version, value in by_version.items())
        lines.append(f"{component}: {told}")
    compat = [s for s in newest.specs if s.min_compat]
    lines += [
        f"{_bool(s.default)} ({s.stage}) with a minimum compatibility version of {s.min_compat} or above"
        for s in compat
    ]
    if newest.keps:
        lines.append(f"KEP {', '.join(str(kep) for kep in newest.keps)}")
    return "\n".join(lines) + "\n"


def _after(minor: str, history: GateHistory, known: KubernetesData) -> bool:
    return known.minors.index(minor) > known.minors.index(history.last)


def _not_newer(version: str, minor: str) -> bool:
    from changegen.versions import minor_key

    return minor_key(version) <= minor_key(minor)


command = gate
