"""Make the docs pages of the command line and of diff: `python tools/cli_docs.py` writes, `--check` only compares."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from changegen.cli import COMMANDS, cli  # noqa: E402
from changegen.compare import AREAS, VOLATILE  # noqa: E402
from changegen.compare.target import GATES  # noqa: E402
from tools import pages  # noqa: E402

CLI_HEAD = """# Command line

<!-- Made by tools/cli_docs.py from the commands. Do not edit. -->

INPUT is the same in every command that takes one: a folder, file or tarball of captured API objects, a snapshot file, or
`-` for stdin; without it the cluster of the current kubeconfig context is read. Data goes to stdout or `-o`, everything else to stderr.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the tool or its surroundings failed |
| 2 | usage, or an invalid input file |
| 3 | blocking finding (`audit`), drift (`diff --exit-code`), failed verification (`verify`), open fields (`ticket --complete`) |
| 4 | a read was tried and failed, and `--allow-partial` was not given; 3 beats 4, and files are still written |

A setting is taken from the flag, else from the environment (named with each option), else from the profile.
`CHANGEGEN_PROFILES` holds folders of own profiles, `NO_COLOR` turns colours off.

Completion of commands and options: `eval "$(_CHANGEGEN_COMPLETE=bash_source changegen)"`, or `zsh_source`; for fish
`_CHANGEGEN_COMPLETE=fish_source changegen | source`.
"""

DIFF_HEAD = """# What diff compares

<!-- Made by tools/cli_docs.py from changegen/compare/tables.py. Do not edit. -->

`changegen diff BEFORE AFTER` matches things by what they are, not by where they stand in a list:

| thing | matched by |
|---|---|
| component | its name and node (two of one name on a node: by the Pod's name without the node) |
| node, API group version, DeviceClass, DeviceTaintRule, CRD | name |
| claim, ConfigMap, budget, quota, workload | namespace and name (and kind) |
| device | driver, pool, device; its attributes by qualified name |
| taint | key and effect |
| bare Pod | namespace and name; another uid is a new Pod |
| Pod with an owner | namespace and name; those that are left are paired by owner (DaemonSets: by owner and node) and told as *replaced* |
| claim that a Pod's template or the scheduler made | as its Pod: by the Pod's owner |
| what a process said of itself | component and kind of source |

Equal changes are one with a count and its subjects. What another change of the same thing already tells is left out: the
image of a container beside the image of its component, `config.hash` beside the flags that it is made of.

What only one side could read (a 403, a kind that is not in the capture, a flag that cannot be seen) is told under *not
comparable* with the side that lacks it. A thing of such a kind is never told as new or gone.

## Left out

These fields change between two readings of an untouched cluster. Nothing else is left out: a test changes every field of a
snapshot one by one and holds `diff` to this list.

| field | why |
|---|---|
"""


def diff_page() -> str:
    """The page of what diff compares."""
    rows = [
        f"| `{entry.path}`{' (part of it)' if entry.part else ''} | {pages.cell(entry.why)} |"
        for entry in VOLATILE
    ]
    areas = ", ".join(f"`{area}`" for area in AREAS)
    return (
        DIFF_HEAD
        + "\n".join(rows)
        + f"\n\n## Areas\n\nThe JSON's `area` is one of {areas}. A comparison with a target (`--to`, `--profile`) has `{GATES}` "
        "too: gates that stop a component, defaults that change, and what the profile wants otherwise.\n"
    )


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            continue
        yield name, command
        if isinstance(command, click.Group):
            for sub, inner in command.commands.items():
                yield f"{name} {sub}", inner


def cli_page() -> str:
    """The reference of the command line, from the commands' own help."""
    parts = [CLI_HEAD]
    for name, command in commands():
        context = click.Context(command, info_name=f"changegen {name}")
        parts.append(f"## changegen {name}\n")
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"```\nchangegen {name} {usage}\n```\n")
        parts.append(inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n")
        rows = []
        for parameter in command.params:
            if not isinstance(parameter, click.Option) or parameter.name == "help":
                continue
            record = parameter.get_help_record(context)
            if record is None:
                continue
            env = parameter.envvar
            names = [env] if isinstance(env, str) else list(env or ())
            environment = f" Environment: {', '.join(f'`{n}`' for n in names)}." if names else ""
            rows.append(f"| `{pages.cell(record[0])}` | {pages.cell(record[1])}{environment} |")
        if rows:
            parts.append("| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {"docs/cli.md": cli_page, "docs/diff.md": diff_page}


if __name__ == "__main__":
    sys.exit(pages.run(PAGES, "tools/cli_docs.py", __doc__))
