"""The command line: a lazy group of commands and the one place where an error becomes a sentence and an exit code.

Importing this module imports click and nothing else of weight; a command's module is imported when it is run.

Exit codes of every command: 0 done · 1 the tool or its surroundings failed · 2 usage or an invalid input file ·
3 blocking finding, drift or failed verification · 4 a read was tried and failed, without ``--allow-partial``.
"""

from __future__ import annotations

from typing import IO, Any, NoReturn

import click

from changegen import __version__

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS: dict[str, tuple[str, str]] = {
    "snapshot": ("changegen.cli.snapshot", "Record a cluster in one canonical file."),
    "diff": ("changegen.cli.diff", "Compare two readings, or a reading with a target."),
    "ticket": ("changegen.cli.ticket", "Write the change ticket of an upgrade."),
    "verify": ("changegen.cli.verify", "Fill a ticket's checklist from a second reading."),
    "audit": ("changegen.cli.audit", "Judge a cluster against a profile."),
    "profile": ("changegen.cli.profile", "List, show, check and start target profiles."),
    "gate": ("changegen.cli.gate", "Tell what is known of a feature gate, over the minors."),
    "taint": ("changegen.cli.taint", "Show whom a device taint would hit."),
    "probe": ("changegen.cli.probe", "Print how to prove devices inside their Pods."),
    "redact": ("changegen.cli.redact", "Give a snapshot pseudonyms, so that it can be shared."),
    "rbac": ("changegen.cli.rbac", "Print the least read-only rights for a snapshot."),
}
"""Command -> module and one-line help. The help stands here so that ``--help`` imports no command; a test holds it to the command's own."""

_ISSUE_HINT = "run again with --verbose for the details"


class Failure(click.ClickException):
    """An error as the person sees it: one sentence on stderr, then the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it of the class, and sets it so too

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence; nothing in it can drive the terminal."""
        from changegen.cli.terminal import plain

        click.echo(f"Error: {plain(self.message)}", file=file, err=file is None)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        command = import_module(COMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]}.command is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one gets the close names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1) if args else []
            if near and "Did you mean" not in error.message:
                raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn every error into a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as error:
            raise click.Abort from error
        except Exception as error:  # noqa: BLE001  the one place where every error ends
            self._fail(ctx, error)

    @staticmethod
    def _fail(ctx: click.Context, error: Exception) -> NoReturn:
        from changegen.errors import ChangegenError

        verbose = bool(ctx.find_root().meta.get("changegen.verbose"))
        if verbose:
            import traceback

            click.echo("".join(traceback.format_exception(error)), err=True)
        if isinstance(error, ChangegenError):
            raise Failure(str(error), error.exit_code) from error
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{where}{error.strerror}", 1) from error
        if isinstance(error, MemoryError):
            raise Failure("not enough memory: give it more, or read less at a time", 1) from error
        detail = str(error).strip().splitlines()
        what = f"{type(error).__name__}: {detail[0]}" if detail else type(error).__name__
        tail = "" if verbose else f"; {_ISSUE_HINT}"
        raise Failure(f"changegen itself failed ({what}){tail}", 1) from error


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value and param.name is not None:
        ctx.find_root().meta[f"changegen.{param.name}"] = True
    return value


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--verbose", "-v", is_flag=True, expose_value=False, callback=_remember, help="Show causes of errors."
)
@click.option(
    "--quiet", "-q", is_flag=True, expose_value=False, callback=_remember, help="No hints and no progress."
)
@click.version_option(__version__, "--version", message="changegen %(version)s")
def cli() -> None:
    """Forecast a Kubernetes upgrade, write its change ticket, and verify it afterwards.

    changegen only reads: it never writes to a cluster and never reads a Secret.

    INPUT is the same in every command that takes one: a folder, file or tarball of captured API objects, a snapshot
    file, or '-' for stdin. Without it the cluster of the current kubeconfig context is read.

    Exit codes: 0 done; 1 the tool or its surroundings failed; 2 usage or an invalid input file;
    3 blocking finding, drift or failed verification; 4 a read was tried and failed.
    """


def main() -> None:
    """Run the command line (the console script)."""
    cli(prog_name="changegen")
