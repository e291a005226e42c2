"""``changegen taint``: whom a device taint would hit. It prints the rule and never applies it."""

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

    from changegen.model.snapshot import Snapshot
    from changegen.taint import TaintBlast

__all__ = ["command"]

FORMATS = ("text", "yaml", "json")


@make("taint")
@input_argument
@cluster_options
@click.option("--driver", help="Devices of this driver.")
@click.option("--pool", help="Devices of this pool (often a node's name).")
@click.option(
    "--device", "devices", multiple=True, help="Devices of this name; repeat it for several: one rule each."
)
@click.option("--all-devices", is_flag=True, help="Every device of the cluster.")
@click.option("--key", help="Key of the taint that is planned.")
@click.option("--value", default="", help="Value of the taint.")
@click.option(
    "--effect",
    type=click.Choice(["None", "NoSchedule", "NoExecute"]),
    default="None",
    show_default=True,
    help="Effect of the rule; None only looks on.",
)
@click.option("--name", default="device-maintenance", show_default=True, help="Name of the rule.")
@click.option("--rule", metavar="NAME", help="Show a rule that is in the cluster.")
@lang_option
@output_options(FORMATS, default="text", extensions={"yaml": "", "json": "", "txt": ""})
def taint(
    paths: tuple[str, ...],
    cluster: ClusterOptions,
    driver: str | None,
    pool: str | None,
    devices: tuple[str, ...],
    all_devices: bool,
    key: str | None,
    value: str,
    effect: str,
    name: str,
    rule: str | None,
    lang: str,
    form: str | None,
    output: str | None,
) -> None:
    """Show whom a device taint would hit, and the rule as YAML with its steps; nothing is applied.

    With --key and a selection a rule that is planned; with --rule one of the cluster; without either every rule of the
    cluster and every taint that drivers set.
    """
    form = choose_format(form, output, FORMATS, "text")
    chosen = bool(driver or pool or devices or all_devices)
    if key and not chosen:
        raise click.UsageError("say which devices: --driver, --pool, --device, or --all-devices")
    if chosen and not key:
        raise click.UsageError("say which taint: --key KEY [--value VALUE] [--effect EFFECT]")
    if key and rule:
        raise click.UsageError("--rule shows a rule that is there, --key plans another: give one of them")
    snapshot = read_snapshot(paths, cluster)
    from changegen.i18n import language
    from changegen.model.snapshot import TaintRule
    from changegen.taint import driver_taints, existing_rules, rules_of, together

    with language(lang):
        blasts: Sequence[TaintBlast]
        if key:
            planned = TaintRule(
                name=name,
                selector="some" if driver or pool or devices else "all",
                driver=driver or "",
                pool=pool or "",
                key=key,
                value=value,
                effect=effect,
            )
            blasts = (together(snapshot, rules_of(planned, tuple(dict.fromkeys(devices)))),)
        else:
            blasts = (*existing_rules(snapshot), *(() if rule else driver_taints(snapshot)))
            if rule:
                blasts = [b for b in blasts if b.rule.name == rule]
                if not blasts:
                    known = ", ".join(r.name for r in snapshot.taint_rules) or "none"
                    raise Failure(f"there is no DeviceTaintRule {rule}; there are: {known}", 2)
        emit(_rendered(blasts, snapshot, form, file=name if key else ""), output)
    if key and form == "text":
        hint(f"changegen taint … -f yaml -o {name}.yaml, then follow the steps above")
    sys.exit(partial_exit(cluster, snapshot))


def _rendered(blasts: Sequence[TaintBlast], snapshot: Snapshot, form: str, *, file: str) -> str | bytes:
    """The table; with `file`, the name of the file for the planned rules, their YAML and steps too."""
    from changegen import store
    from changegen.i18n import tr, trn
    from changegen.taint import lines, rollout, rule_yaml

    if form == "json":
        return store.pretty({"schema": "changegen.taint/v1", "taints": blasts})
    if form == "yaml":
        rules = [
            rule for blast in blasts if blast.source != "driver" for rule in blast.rules or (blast.rule,)
        ]
        return "---\n".join(rule_yaml(rule, snapshot) for rule in rules)
    if not blasts:
        return tr("No device taint is in this reading.") + "\n"
    out: list[str] = []
    for blast in blasts:
        head = {
            "rule": f"DeviceTaintRule {blast.rule.name}",
            "driver": tr("set by the driver {driver}", driver=blast.rule.driver),
            "planned": trn(
                "planned rule {name}",
                "planned rules {name}",
                n=max(len(blast.rules), 1),
                name=", ".join(rule.name for rule in blast.rules or (blast.rule,)),
            ),
        }[blast.source]
        out.append(plain(head))
        out += [f"  {plain(line)}" for line in lines(blast)]
        if file:
            made = "---\n".join(rule_yaml(rule, snapshot) for rule in blast.rules or (blast.rule,))
            out += ["", made.rstrip(), ""]
            for number, step in enumerate(rollout(blast, file), 1):
                out.append(f"{number}. {plain(step.title)}")
                out += [f"     {plain(c.text)}" for c in step.commands]
                if step.go_on:
                    out.append("   " + tr("go on when: {text}", text=plain(step.go_on)))
                if step.stop:
                    out.append("   " + tr("stop when: {text}", text=plain(step.stop)))
        out.append("")
    return "\n".join(out)


command = taint
