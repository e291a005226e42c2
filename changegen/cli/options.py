"""Options and steps that commands share: where the cluster is read, what it is held against, where the output goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from changegen.cli import Failure
from changegen.cli.terminal import capped, is_terminal, note, plain, warn
from changegen.words import unobserved_reason

if TYPE_CHECKING:
    from changegen.collect.api import LiveOptions
    from changegen.kubedata import KubernetesData
    from changegen.model.profile import Profile
    from changegen.model.snapshot import Snapshot

__all__ = [
    "ClusterOptions",
    "check_readable",
    "checked_output",
    "choose_format",
    "cluster_options",
    "command",
    "emit",
    "forget_partial",
    "input_argument",
    "lang_option",
    "live_options",
    "load_data",
    "load_profile",
    "output_option",
    "output_options",
    "partial_exit",
    "profile_options",
    "read_snapshot",
    "set_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value and param.name is not None:
        ctx.find_root().meta[f"changegen.{param.name}"] = True
    return value


def command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command that takes ``-v`` and ``-q`` behind its name too."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        for flags, help_text in (
            (("--quiet", "-q"), "No hints and no progress."),
            (("--verbose", "-v"), "Show causes of errors."),
        ):
            option: Any = click.option(
                *flags, is_flag=True, expose_value=False, callback=_remember, help=help_text
            )
            function = option(function)
        factory: Any = click.command(name, **attributes)
        return cast("click.Command", factory(function))

    return decorate


input_argument = click.argument("paths", metavar="[INPUT]...", nargs=-1, type=click.Path(path_type=str))


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How a live cluster is reached and what a reading may lack."""

    context: str | None = None
    kubeconfig: str | None = None
    request_timeout: float = 30.0
    """Seconds for one request."""
    impersonate: str | None = None
    impersonate_group: str | None = None
    configz: bool = False
    allow_partial: bool = False
    captured_at: str | None = None

    @property
    def names_a_cluster(self) -> bool:
        """Whether any option was given that only a live cluster has use for."""
        return any((self.context, self.kubeconfig, self.impersonate, self.configz))


class Duration(click.ParamType[float]):
    """``30``, ``30s``, ``2m``, ``1m30s``: as kubectl writes it, in seconds; ``0`` is no limit."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        import re

        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is no duration; write 30s or 2m", param, ctx)
        scale = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
        return sum(float(number) * scale[unit] for number, unit in parts)


class Instant(click.ParamType[str]):
    """An RFC 3339 time; kept in UTC, to the second, as the API server writes it."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return ``2026-12-01T05:00:00Z``."""
        from datetime import UTC, datetime

        text = str(value).strip()
        try:
            if text.isdecimal():
                moment = datetime.fromtimestamp(int(text), UTC)
            else:
                moment = datetime.fromisoformat(text)
                if moment.tzinfo is None:
                    moment = moment.replace(tzinfo=UTC)
            moment = moment.astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{str(value)[:60]!r} is no time; write 2026-12-01T05:00:00Z", param, ctx)
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


_CLUSTER: tuple[Callable[[Any], Any], ...] = (
    click.option("--context", envvar="CHANGEGEN_CONTEXT", help="Context of the kubeconfig."),
    click.option("--kubeconfig", envvar="CHANGEGEN_KUBECONFIG", help="Kubeconfig file.", metavar="FILE"),
    click.option(
        "--request-timeout",
        envvar="CHANGEGEN_REQUEST_TIMEOUT",
        type=Duration(),
        default=30.0,
        help="Limit for one request: 30s, 2m; 0 is none.  [default: 30s]",
    ),
    click.option("--as", "impersonate", envvar="CHANGEGEN_AS", help="User to impersonate.", metavar="USER"),
    click.option(
        "--as-group",
        "impersonate_group",
        envvar="CHANGEGEN_AS_GROUP",
        help="Group to impersonate.",
        metavar="GROUP",
    ),
    click.option(
        "--configz",
        is_flag=True,
        help="Read the kubelets' configz too; it needs the powerful right get nodes/proxy.",
    ),
    click.option(
        "--captured-at",
        type=Instant(),
        help="When the capture was taken, if its files do not tell.",
        metavar="TIME",
    ),
    click.option(
        "--allow-partial",
        is_flag=True,
        envvar="CHANGEGEN_ALLOW_PARTIAL",
        help="Exit 0 even if a read failed; what is missing is still listed.",
    ),
)


def cluster_options(function: F) -> F:
    """Add the options of reading a cluster; the command gets them as ``cluster: ClusterOptions``."""
    from functools import wraps

    @wraps(function)
    def call(
        *args: Any,
        context: str | None,
        kubeconfig: str | None,
        request_timeout: float,
        impersonate: str | None,
        impersonate_group: str | None,
        configz: bool,
        captured_at: str | None,
        allow_partial: bool,
        **kwargs: Any,
    ) -> Any:
        cluster = ClusterOptions(
            context=context,
            kubeconfig=kubeconfig,
            request_timeout=request_timeout,
            impersonate=impersonate,
            impersonate_group=impersonate_group,
            configz=configz,
            captured_at=captured_at,
            allow_partial=allow_partial,
        )
        return function(*args, cluster=cluster, **kwargs)

    decorated: Any = call
    for option in reversed(_CLUSTER):
        decorated = option(decorated)
    return cast("F", decorated)


def profile_options(function: F) -> F:
    """Add ``--profile``, ``--to`` and ``--data``."""
    options = (
        click.option(
            "--profile",
            envvar="CHANGEGEN_PROFILE",
            metavar="NAME|FILE",
            help="Target profile: a YAML file, or a name of 'changegen profile list'.",
        ),
        click.option(
            "--to",
            metavar="VERSION",
            help="Target version: 1.37.2, or 1.37 for any patch. It goes before the profile's.",
        ),
        click.option(
            "--data",
            envvar="CHANGEGEN_DATA",
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            help="Kubernetes data to use instead of the shipped one.",
        ),
    )
    decorated: Any = function
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


lang_option = click.option(
    "--lang",
    type=click.Choice(["en", "zh-CN"]),
    envvar="CHANGEGEN_LANG",
    default="en",
    show_default=True,
    help="Language of all words; commands and names never change.",
)


def set_options(function: F) -> F:
    """Add ``--set``."""
    return click.option(
        "--set",
        "fields",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Fill a field of the change: owner, reviewer, approvers, service, reason, risk, window.start, window.end, "
        "or one of your own; may be given again.",
    )(function)


def checked_output(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Refuse ``-o`` where nothing can be written, before the work is done (the callback of every ``-o``)."""
    if value not in {None, "-"}:
        from changegen.store import check_writable

        check_writable(str(value))
    return value


def output_option(told: str = "") -> Callable[[F], F]:
    """Give a command -o FILE, refused before the work where it cannot be written; ``told`` is said beside its help."""
    return click.option(
        "--output",
        "-o",
        metavar="FILE",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=str),
        callback=checked_output,
        help=f"Write to this file, whole or not at all.{told}",
    )


def output_options(
    formats: Sequence[str], *, default: str, extensions: dict[str, str] | None = None
) -> Callable[[F], F]:
    """Add ``-f`` and ``-o``; which extension means which format is ``extensions``."""

    def decorate(function: F) -> F:
        known = extensions or {}
        told = (
            f" The extension tells the format ({', '.join(sorted({'.' + e for e in known}))})."
            if known
            else ""
        )
        function = output_option(told)(function)
        return click.option(
            "--format",
            "-f",
            "form",
            type=click.Choice(list(formats)),
            help=f"Output format.  [default: {default}]",
        )(function)

    return decorate


EXTENSIONS = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "pdf": "pdf",
    "json": "json",
    "txt": "text",
    "sarif": "sarif",
    "xml": "junit",
}


def choose_format(form: str | None, output: str | None, formats: Sequence[str], default: str) -> str:
    """Return the format: ``-f``, else by the extension of ``-o``, else the default.

    Raises:
        click.UsageError: The extension belongs to a format that this command does not write.
    """
    if form:
        return form
    if output in {None, "-"}:
        return default
    name = str(output).lower()
    name = name.removesuffix(".gz")
    suffix = name.rpartition(".")[2] if "." in Path(name).name else ""
    told = EXTENSIONS.get(suffix)
    if told is None:
        return default
    if told not in formats:
        raise click.UsageError(f"{output}: this command writes no {told}; choose -f {'|'.join(formats)}")
    return told


def emit(data: bytes | str, output: str | None, *, binary: bool = False) -> None:
    """Write to ``-o`` (whole or not at all) or to stdout; binary data never goes to a terminal."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    if output not in {None, "-"}:
        from changegen.store import write_bytes

        size = write_bytes(str(output), content)
        if not _quiet():
            note(f"wrote {output} ({size:,} bytes)")
        return
    if binary and is_terminal():
        raise click.UsageError("this format is not for a terminal: give -o FILE")
    if content and not content.endswith(b"\n") and not binary:
        content += b"\n"
    from changegen.store import write_stdout

    write_stdout(content)


def read_snapshot(paths: Sequence[str], cluster: ClusterOptions) -> Snapshot:
    """Return the snapshot of an INPUT: paths, ``-``, a snapshot file, or nothing for the live cluster."""
    if not paths:
        return _read_live(cluster)
    if cluster.names_a_cluster:
        warn("files are read: --context, --kubeconfig, --as and --configz have no use here")
    from changegen.collect import Options, build_snapshot
    from changegen.collect.documents import Document, Record, SnapshotFile
    from changegen.collect.files import read_input
    from changegen.errors import InputError
    from changegen.store import decode_snapshot

    stored: list[SnapshotFile] = []
    documents = 0

    def records() -> Iterator[Record]:
        # One pass: a large capture is decoded as it comes and not held twice.
        nonlocal documents
        for record in read_input(list(paths)):
            if isinstance(record, SnapshotFile):
                stored.append(record)
            else:
                documents += isinstance(record, Document)
                yield record

    description = ", ".join("stdin" if path == "-" else Path(os.path.realpath(path)).name for path in paths)
    snapshot = build_snapshot(
        records(), Options(description=description, captured_at=cluster.captured_at or "")
    )
    if not stored:
        if not _quiet():
            from changegen.cli.remarks import tell

            tell(snapshot.notices)
        return snapshot
    if len(stored) > 1 or documents:
        raise InputError(
            "a snapshot stands for a whole cluster: give it alone",
            where=", ".join(file.place for file in stored),
        )
    return decode_snapshot(stored[0].data, stored[0].place)


def live_options(cluster: ClusterOptions) -> LiveOptions:
    """Return what ``collect.api`` needs to know."""
    from changegen.collect.api import LiveOptions

    return LiveOptions(
        context=cluster.context,
        kubeconfig=cluster.kubeconfig,
        request_timeout=cluster.request_timeout,
        impersonate=cluster.impersonate,
        impersonate_group=cluster.impersonate_group,
        configz=cluster.configz,
    )


def _read_live(cluster: ClusterOptions) -> Snapshot:
    from itertools import chain

    import msgspec

    from changegen.collect import Options, api, build_snapshot
    from changegen.model.snapshot import Unobserved

    shown = is_terminal(err=True) and not _quiet()

    def progress(text: str) -> None:
        if shown:
            click.echo(f"\r\x1b[2Kreading {plain(text)[:80]}", err=True, nl=False)

    opened = api.open_cluster(live_options(cluster), progress=progress)
    not_asked = Unobserved(
        what="kubelet configz",
        reason="not-asked",
        detail="The kubelets' effective configuration was not asked for",
        remedy="--configz (needs get nodes/proxy)",
    )
    try:
        records = opened.records()
        first = next(records)  # from now on the server's time is known
        snapshot = build_snapshot(
            chain((first,), records),
            Options(
                kind="live",
                description=opened.description,
                captured_at=cluster.captured_at or opened.captured_at,
                captured_at_source="given" if cluster.captured_at else "clock",
                cluster_name=opened.context,
                cluster_name_source="kubeconfig context",
                not_asked=() if cluster.configz else (not_asked,),
            ),
        )
    finally:
        if shown:
            click.echo("\r\x1b[2K", err=True, nl=False)
    source = msgspec.structs.replace(snapshot.source, requests=opened.requests)
    return msgspec.structs.replace(snapshot, source=source)


def _quiet() -> bool:
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.find_root().meta.get("changegen.quiet"))


def load_profile(profile: str | None, to: str | None, fields: Iterable[str] = ()) -> Profile:
    """Return the profile of ``--profile`` or ``--to`` with the fields of ``--set``."""
    from changegen import profiles

    if profile and to:
        loaded = profiles.with_target(profiles.load(profile), to)
    elif profile:
        loaded = profiles.load(profile)
    elif to:
        loaded = profiles.profile_for_target(to)
    else:
        raise click.UsageError(
            "say where the change goes: --profile NAME|FILE ('changegen profile list') or --to VERSION"
        )
    return profiles.with_fields(loaded, profiles.parse_fields(fields))


def load_data(folder: Path | None) -> KubernetesData:
    """Return the Kubernetes data of ``--data`` or the shipped one."""
    from changegen import kubedata

    try:
        return kubedata.load(folder)
    except kubedata.KubernetesDataError as error:
        raise Failure(str(error), 2) from error


def check_readable(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what was tried and could not be read, as ``what (reason)``."""
    return tuple(f"{u.what} ({unobserved_reason(u.reason)})" for u in snapshot.unobserved if u.failed)


def partial_exit(cluster: ClusterOptions, *snapshots: Snapshot) -> int:
    """Return 4 when a read failed and ``--allow-partial`` was not given, else 0; say on stderr what is missing."""
    failed = tuple(dict.fromkeys(text for snapshot in snapshots for text in check_readable(snapshot)))
    if not failed:
        return 0
    warn(f"incomplete: {len(failed)} could not be read: {capped(failed)}")
    return 0 if cluster.allow_partial else 4


def forget_partial(code: int, partial: int) -> int:
    """Return the exit code of a verdict and of an incomplete reading together: 3 beats 4."""
    return code or partial
