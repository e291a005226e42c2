"""``changegen gate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from changegen.cli import Failure
from changegen.cli.options import choose_format, emit, load_data, output_options
from changegen.cli.options import command as make
from changegen.cli.terminal import table

if TYPE_CHECKING:
    from changegen.kubedata import GateHistory, KubernetesData

__all__ = ["command"]


@make("gate")
@click.argument("name", metavar="NAME")
@click.option(
    "--data",
    envvar="CHANGEGEN_DATA",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kubernetes data to use instead of the shipped one.",
)
@output_options(("text", "json"), default="text")
def gate(name: str, data: Path | None, form: str | None, output: str | None) -> None:
    """Tell what is known of a feature gate, over the minors: default, stage, lock, who reads it, what it needs."""
    known = load_data(data)
    history = known.gate(name)
    form = choose_format(form, output, ("text", "json"), "text")
    if history is None:
        kubeadm = known.kubeadm_gate(name)
        if kubeadm:
            lines = table(
                [("MINOR", "DEFAULT", "STAGE"), *((m, _bool(g.default), g.stage) for m, g in kubeadm.items())]
            )
            emit(f"{name}: a gate of kubeadm itself, of no component\n" + "\n".join(lines) + "\n", output)
            return
        from difflib import get_close_matches

        names = {n.lower(): n for n in known.gate_names}
        near = [names[n] for n in get_close_matches(name.lower(), names, n=3)]
        told = f"; did you mean {', '.join(near)}?" if near else ""
        raise Failure(f"no Kubernetes from {known.oldest} to {known.newest} knows the gate {name}{told}", 2)
    if form == "json":
        from changegen import store

        emit(store.pretty(history), output)
        return
    emit(_text(history, known), output)


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
