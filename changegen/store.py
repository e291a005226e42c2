"""The file store: canonical JSON, digests, and files that are replaced whole or not at all.

Canonical JSON has sorted keys, no spaces and one newline at its end, so that the same value gives the same bytes and the
same SHA-256. A name that ends in ``.gz`` is packed, without a time in its header. ``-`` is stdout.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import re
import stat
import sys
import tempfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec

from changegen import __version__
from changegen.errors import InputError, OutputError
from changegen.i18n import tr

if TYPE_CHECKING:
    from changegen.model.snapshot import Snapshot

T = TypeVar("T")

MAX_RECORD_BYTES = 2**30
"""A record file above this, unpacked, is refused."""


# ---------------------------------------------------------------------------------------------------------------- JSON


def canonical(value: Any) -> bytes:
    """Return a value as canonical JSON."""
    return msgspec.json.encode(value, order="sorted") + b"\n"


def pretty(value: Any) -> bytes:
    """Return a value as canonical JSON, indented for people: the same content, other bytes."""
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return digest(canonical(value))


def decode_record(data: bytes, typ: type[T], *, schema: str, place: str) -> T:
    """Decode a record of changegen's own (snapshot, ticket, …) that must have the given ``schema``.

    Raises:
        InputError: it is cut off, no JSON, of another schema, or has a field that the schema does not allow. A record
            of the right schema that does not fit comes from another version of changegen: both are named.
    """
    what = _what(schema)
    again = tr("write the {what} again", what=what)
    if not data.strip():
        raise InputError(tr("the file is empty"), where=place, hint=again)
    try:
        marked = msgspec.json.decode(data, type=_Marked)
    except msgspec.ValidationError:
        raise InputError(tr("it is no changegen {what}", what=what), where=place) from None
    except RecursionError:
        raise InputError(tr("its values nest too deep"), where=place) from None
    except msgspec.DecodeError as error:
        message = str(error)
        if "truncated" in message:
            raise InputError(
                tr("the {what} is cut off at byte {n}", what=what, n=len(data)), where=place, hint=again
            ) from None
        problem = message.removeprefix("JSON is malformed: ")
        raise InputError(
            tr("it is not valid JSON: {problem}", problem=problem), where=place, hint=again
        ) from None
    if marked.schema != schema:
        raise InputError(_other_schema(marked.schema, schema), where=place)
    try:
        return msgspec.json.decode(data, type=typ)
    except msgspec.ValidationError as error:
        raise InputError(
            tr("it does not fit the schema {schema}: {problem}", schema=schema, problem=str(error)),
            where=place,
            hint=_by_another(what, marked.tool_version),
        ) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            tr("it is not valid JSON: {problem}", problem=str(error)), where=place, hint=again
        ) from None


def read_record(path: str | os.PathLike[str], typ: type[T], *, schema: str) -> tuple[T, str]:
    """Read a record's file (``-``: stdin, gzip is noticed); returns it and the SHA-256 of its JSON bytes."""
    data = read_bytes(path)
    return decode_record(data, typ, schema=schema, place=_shown(path)), digest(data)


def decode_snapshot(data: bytes, place: str) -> Snapshot:
    """Decode a snapshot's JSON bytes; see :func:`decode_record`."""
    from changegen.model.snapshot import SCHEMA, Snapshot

    return decode_record(data, Snapshot, schema=SCHEMA, place=place)


def read_snapshot(path: str | os.PathLike[str]) -> tuple[Snapshot, str]:
    """Read a snapshot file; returns it and the SHA-256 of its JSON bytes."""
    from changegen.model.snapshot import SCHEMA, Snapshot

    return read_record(path, Snapshot, schema=SCHEMA)


class _Marked(msgspec.Struct):
    schema: str = ""
    tool_version: Any = ""


def _what(schema: str) -> str:
    """Return the word for a schema: ``snapshot`` of ``changegen.snapshot/v1``."""
    word = schema.removeprefix("changegen.").partition("/")[0]
    return "map of pseudonyms" if word == "pseudonyms" else word


def _by_another(what: str, version: object) -> str:
    """What to do with a record that does not fit: it was edited, or written by another version or build of changegen."""
    if not isinstance(version, str) or not version:
        return tr("write the {what} again", what=what)
    if version == __version__:
        return tr(
            "it says that changegen {version} wrote it, which is this version: the file was edited, or another build wrote it; write the {what} again, or use the build that wrote it",
            version=version,
            what=what,
        )
    return tr(
        "changegen {version} wrote it and this is {mine}: write the {what} again with this one, or use {version}",
        version=version,
        mine=__version__,
        what=what,
    )


def _other_schema(found: str, wanted: str) -> str:
    what = _what(wanted)
    if not found.startswith("changegen."):
        return tr("it is no changegen {what}: its schema is not {schema}", what=what, schema=wanted)
    if _what(found) != what:
        return tr("it is a changegen {found}, not a {what}", found=_what(found), what=what)
    return tr(
        "the {what} has the schema {found}, this changegen reads {schema}",
        what=what,
        found=found,
        schema=wanted,
    )


# --------------------------------------------------------------------------------------------------------------- files


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes, unpacked if it is gzip whatever its name; ``-`` is stdin.

    Raises:
        InputError: it is missing, cannot be opened, is a folder, is damaged or too large.
    """
    where = _shown(path)
    try:
        if os.fspath(path) == "-":
            data = stdin().read(MAX_RECORD_BYTES + 1)
        else:
            with Path(path).open("rb") as stream:
                data = stream.read(MAX_RECORD_BYTES + 1)
    except FileNotFoundError:
        raise InputError(tr("there is no such file"), where=where) from None
    except IsADirectoryError:
        raise InputError(tr("it is a folder, a file is wanted"), where=where) from None
    except OSError as error:
        raise InputError(tr("it cannot be read: {problem}", problem=error.strerror), where=where) from None
    if len(data) > MAX_RECORD_BYTES:
        raise InputError(tr("larger than {n} MiB", n=MAX_RECORD_BYTES // 2**20), where=where)
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            unpacked = packed.read(MAX_RECORD_BYTES + 1)
    except EOFError:
        raise InputError(tr("the gzip file is cut off"), where=where, hint=tr("copy it again")) from None
    except (zlib.error, OSError) as error:
        raise InputError(tr("the gzip file is damaged: {problem}", problem=str(error)), where=where) from None
    if len(unpacked) > MAX_RECORD_BYTES:
        raise InputError(tr("larger than {n} MiB when unpacked", n=MAX_RECORD_BYTES // 2**20), where=where)
    return unpacked


def stdin() -> IO[bytes]:
    """Return standard input.

    Raises:
        InputError: it is closed.
    """
    if sys.stdin is None:
        raise InputError(tr("standard input is closed"), where="stdin")
    return sys.stdin.buffer


def write_stdout(data: bytes) -> None:
    """Write to standard output.

    Raises:
        OutputError: it is closed or full. A reader that went away raises BrokenPipeError as usual.
    """
    if sys.stdout is None:
        raise OutputError(
            tr("standard output is closed"), where="stdout", hint=tr("write to a file: -o FILE")
        )
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            tr("it cannot be written: {problem}", problem=error.strerror or str(error)), where="stdout"
        ) from None


def write_bytes(path: str | os.PathLike[str], data: bytes) -> int:
    """Write a file whole or not at all; ``-`` is stdout, a name that ends in ``.gz`` is packed reproducibly.

    A link is followed and its target replaced; what is no regular file (``/dev/stdout``, a pipe) is written to.

    Returns:
        The number of bytes written, after any packing.

    Raises:
        OutputError: the folder is missing, or the file cannot be written; what was there before is untouched.
    """
    name = os.fspath(path)
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return len(data)
    if name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=9, mtime=0)
    try:
        _replace(Path(os.path.realpath(name)), data)
    except FileNotFoundError:
        raise _no_folder(name) from None
    except OSError as error:
        raise _not_written(name, error.strerror or str(error)) from None
    return len(data)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether `write_bytes` can write a file there; nothing is written.

    Raises:
        OutputError: as `write_bytes`; a disk that is full is noticed only then.
    """
    name = os.fspath(path)
    if name == "-":
        return
    target = Path(os.path.realpath(name))
    if not target.parent.is_dir():
        raise _no_folder(name)
    try:
        regular = stat.S_ISREG(target.stat().st_mode)
    except FileNotFoundError:
        regular = True
    except OSError as error:
        raise _not_written(name, error.strerror) from None
    # A regular file is replaced by one that is written beside it.
    if not os.access(target.parent if regular else target, os.W_OK):
        raise _not_written(name, os.strerror(errno.EACCES))


def _no_folder(name: str) -> OutputError:
    folder = Path(os.path.realpath(name)).parent
    if folder.is_dir():
        return OutputError(tr("no file can be made here"), where=str(folder))
    return OutputError(tr("there is no such folder"), where=str(folder), hint=tr("make it first"))


def _not_written(name: str, problem: str | None) -> OutputError:
    return OutputError(tr("it cannot be written: {problem}", problem=problem or "?"), where=name)


def write_record(path: str | os.PathLike[str], value: Any, *, indent: bool = False) -> str:
    """Write a value as (indented) canonical JSON; returns the SHA-256 of the JSON bytes, before any packing."""
    data = pretty(value) if indent else canonical(value)
    write_bytes(path, data)
    return digest(data)


def _replace(target: Path, data: bytes) -> None:
    """Write beside the target and rename, so that nobody sees half a file."""
    mode: int | None = None
    with contextlib.suppress(FileNotFoundError):
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            with target.open("wb") as stream:
                stream.write(data)
            return
        mode = stat.S_IMODE(found.st_mode)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode if mode is not None else 0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    """Return the umask. It can only be read by setting it; on Linux /proc tells without."""
    try:
        found = re.search(
            r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
        )
    except OSError:
        found = None
    if found is not None:
        return int(found[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _shown(path: str | os.PathLike[str]) -> str:
    return "stdin" if os.fspath(path) == "-" else os.fspath(path)
