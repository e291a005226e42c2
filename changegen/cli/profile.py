"""``changegen profile``: list, show, lint, schema, init."""

from __future__ import annotations

from pathlib import Path

import click

from changegen.cli import Failure
from changegen.cli.options import choose_format, emit, load_data, output_option, output_options
from changegen.cli.terminal import hint, plain, table, warn
from changegen.versions import minor_of

__all__ = ["command"]


@click.group("profile")
def group() -> None:
    """List, show, check and start target profiles.

    A profile says what the cluster shall be after the change. It is named by its file, or by its name in a folder of
    $CHANGEGEN_PROFILES or among the shipped ones.
    """


@group.command("list")
@output_options(("text", "json"), default="text")
def list_(form: str | None, output: str | None) -> None:
    """List the profiles that can be named, and where each lies."""
    from changegen import profiles

    rows = profiles.list_profiles()
    if choose_format(form, output, ("text", "json"), "text") == "json":
        import msgspec

        emit(msgspec.json.format(msgspec.json.encode(rows), indent=2), output)
        return
    lines = table(
        [
            ("NAME", "TITLE", "WHERE"),
            *(
                (
                    r.name,
                    (r.problem and f"broken: {r.problem}") or r.title,
                    "shipped" if r.shipped else r.place,
                )
                for r in rows
            ),
        ]
    )
    emit("\n".join(lines) + "\n", output)
    hint("changegen profile show NAME")


@group.command("show")
@click.argument("name", metavar="NAME|FILE", required=False)
@click.option("--features", is_flag=True, help="List the DRA features that a profile can ask for.")
@output_options(("yaml", "json"), default="yaml")
def show(name: str | None, features: bool, form: str | None, output: str | None) -> None:
    """Show a profile with everything that it extends laid under it."""
    if features:
        _show_features(output)
        return
    if name is None:
        raise click.UsageError("say which profile: a name of 'changegen profile list' or a file")
    from changegen import profiles, store

    profile = profiles.load(name)
    if choose_format(form, output, ("yaml", "json"), "yaml") == "json":
        emit(store.pretty(profile), output)
        return
    import msgspec
    import yaml

    value = msgspec.to_builtins(profile)
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
    emit(plain(text, keep_newlines=True), output)


def _show_features(output: str | None) -> None:
    from changegen.assess.capability import FEATURES

    rows = [("FEATURE", "WHAT", "GATES")]
    rows.extend((f.name, f.title, ", ".join(f.gates)) for f in FEATURES)
    emit("\n".join(table(rows)) + "\n", output)


@group.command("lint", short_help="Tell every problem of profiles, with file and line.")
@click.argument("names", metavar="NAME|FILE...", nargs=-1, required=True)
@click.option(
    "--data",
    envvar="CHANGEGEN_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Kubernetes data to check names against.",
)
@click.option("--today", metavar="DAY", help="Tell acceptances that are over on this day (2026-12-01).")
@output_options(("text", "json"), default="text")
def lint(
    names: tuple[str, ...], data: Path | None, today: str | None, form: str | None, output: str | None
) -> None:
    """Tell every problem of profiles, with file and line; exit 2 if there is an error.

    Gates, API versions and kinds are checked against the Kubernetes data; close names are told.
    """
    from changegen import profiles

    known = load_data(data)
    issues = tuple(dict.fromkeys(i for name in names for i in profiles.lint(name, known, today=today or "")))
    if choose_format(form, output, ("text", "json"), "text") == "json":
        import msgspec

        emit(msgspec.json.format(msgspec.json.encode(issues), indent=2), output)
    elif issues:
        emit("".join(f"{i.severity}: {plain(str(i))}\n" for i in issues), output)
    errors = sum(i.severity == "error" for i in issues)
    if errors:
        raise Failure(f"{errors} error{'s' if errors > 1 else ''} in {', '.join(names)}", 2)
    click.echo(f"{len(names)} profile{'s' if len(names) > 1 else ''} in order", err=True)


@group.command("schema")
@output_option()
def schema(output: str | None) -> None:
    """Print the JSON Schema of a profile file."""
    import msgspec

    from changegen import profiles

    emit(msgspec.json.format(msgspec.json.encode(profiles.json_schema(), order="sorted"), indent=2), output)


@group.command("init")
@click.argument("name", metavar="[NAME]", default="my-change")
@click.option(
    "--to", metavar="VERSION", default="", help="Target version; without it the newest minor that is known."
)
@output_option()
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def init(name: str, to: str, output: str | None, force: bool) -> None:
    """Write a commented profile to start from, to stdout or to -o FILE.

    NAME is the profile's name, my-change if not given.
    """
    from changegen import profiles

    if to:
        profiles.profile_for_target(to)
    text = profiles.starting_file(name, to)
    known, minor = load_data(None), minor_of(to)
    if minor is not None and not known.knows(minor):
        warn(
            f"the Kubernetes data knows {known.oldest} to {known.newest}: gates and APIs of {minor} cannot be judged"
        )
    if output not in {None, "-"} and Path(str(output)).exists() and not force:
        raise click.UsageError(f"{output} is there already: give --force to replace it")
    emit(text, output)
    if output not in {None, "-"}:
        hint(f"edit {output}, then changegen profile lint {output}")


command = group
