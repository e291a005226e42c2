"""Inputs from files: a folder, files, archives and stdin, as people really have them.

gzip, xz, bzip2 and (where Python can) zstd are read, tar and zip; told by their first bytes, not by names.

Nothing is unpacked to disk, no link is followed, and no member of an archive is trusted: what it may cost is bounded by
the limits below, each with a clear :class:`Problem`. A bad file never stops the run; only an input that is missing or
holds nothing at all of use is an error.

========================  ==============================================================================
:data:`MAX_FILE_BYTES`    one file or member, unpacked; it is read whole
:data:`MAX_TOTAL_BYTES`   all members of one archive together, skipped ones included
:data:`MAX_MEMBERS`       members of one archive, files of one folder
:data:`MAX_NESTING`       an archive in an archive
:data:`SORT_BYTES`        what of a tarball is held to put its members in the order of their names
========================  ==============================================================================

Measured on two cores with every Pod decoded: a PodList of 50 MB of JSON in 0.2 s and 80 MiB, of 300 MB in 1.0 to 1.7 s and
360 MiB (the file once), the same in a .gz or .tar.gz in 2 s and 600 MiB (the file twice while it is put together), 25 MB
of YAML in 1 s and 110 MiB.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from changegen import store
from changegen.collect.documents import (
    Document,
    InputSeen,
    ListSeen,
    Problem,
    RawText,
    Reason,
    Record,
    SnapshotFile,
)
from changegen.collect.layouts import (
    dump_folders,
    hints_of,
    holds_credentials,
    is_source,
    layout_of,
    unpacked_name,
    wrapper_of,
)
from changegen.collect.records import Origin, read_text
from changegen.errors import InputError
from changegen.i18n import tr

MAX_FILE_BYTES = 2**30
MAX_TOTAL_BYTES = 8 * 2**30
MAX_MEMBERS = 200_000
MAX_NESTING = 2
SORT_BYTES = 256 * 2**20
MAX_XZ_MEMORY = 256 * 2**20
"""What xz may take to unpack; ``xz -9`` needs 65 MiB."""
MAX_REMARKS = 20
"""How many remarks of one reason a file may cause; more are counted."""

_SYSTEM_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Made by every API server (k8s.io/kubernetes pkg/controlplane/controller/systemnamespaces, and default)."""
_CHUNK = 2**20
_HEAD = 1024
_PACKED = 2**16
_HEADERS = 4 * 2**20
"""What tar headers between two members may take; a larger one is no honest archive."""


try:
    from lzma import LZMAError as _LzmaError
except ImportError:  # pragma: no cover  a Python without liblzma
    _LzmaError = zlib.error  # type: ignore[misc,assignment]

# What the standard library raises for archives that are damaged, or made to hurt.
_DAMAGE = (
    _LzmaError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)


class Stream(Protocol):
    """What bytes are read from: a file, stdin, a member of an archive."""

    def read(self, size: int = ..., /) -> bytes:
        """Return up to ``size`` bytes."""
        ...


class _TooLargeError(Exception):
    """A limit was passed while unpacking."""


class _File(NamedTuple):
    """One file of an input: its path in the input, and its bytes."""

    path: str
    data: bytes


def read_input(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, stdin: Stream | None = None
) -> Iterator[Record]:
    """Yield the records of one input: a path or several (folder, file, archive), or ``-`` for stdin.

    Places are relative to the input; with several inputs they begin with its name. Documents refer to the bytes of
    their file: a consumer that decodes what it wants as it comes keeps one file in memory at a time.

    Raises:
        InputError: a path is missing, or all of them together hold nothing of use.
    """
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    useful = False
    problems: list[Problem] = []
    for path in paths:
        name = os.fspath(path)
        if name != "-" and not os.path.lexists(name):
            raise InputError(
                tr("there is no such file or folder"),
                where=name,
                hint=tr("give a capture's folder, file or archive, or - for stdin"),
            )
    for path in paths:
        name = os.fspath(path)
        prefix = f"{Path(name).name or name}/" if len(paths) > 1 else ""
        for record in _read_one(name, prefix, stdin):
            if isinstance(record, Document | ListSeen | RawText | SnapshotFile):
                useful = True
            elif isinstance(record, Problem):
                problems.append(record)
            yield record
    if not useful:
        raise _nothing_of_use(", ".join(os.fspath(path) for path in paths), problems)


def _nothing_of_use(where: str, problems: list[Problem]) -> InputError:
    serious = [problem for problem in problems if problem.failed] or problems
    hint = tr("capture it with kubectl get … -o json")
    if not serious:
        return InputError(tr("nothing of use is in it"), where=where, hint=hint)
    first = serious[0]
    more = tr(" (and {n} more)", n=len(serious) - 1) if len(serious) > 1 else ""
    return InputError(
        tr("nothing of use is in it: {place}: {detail}", place=first.place, detail=first.detail) + more,
        where=where,
        hint=first.hint or hint,
    )


def _read_one(name: str, prefix: str, stdin: Stream | None) -> Iterator[Record]:
    if name == "-":
        source = stdin if stdin is not None else store.stdin()
        yield from _Reader("stdin", prefix).stream(source, "stdin")
        return
    path = Path(name)
    reader = _Reader(path.name or name, prefix)
    try:
        if path.is_dir():
            yield from reader.folder(path)
        else:
            with path.open("rb", buffering=0) as stream:
                yield from reader.stream(stream, path.name)
    except OSError as error:
        yield _unreadable(prefix + path.name, error)


class _Reader:
    """Reads one input; remembers which paths it had for the layout."""

    def __init__(self, name: str, prefix: str) -> None:
        self.name = name
        self.prefix = prefix
        self.top = ""
        self.paths: list[str] = []
        self.read: list[str] = []
        self.snapshots: list[tuple[str, SnapshotFile]] = []
        self.listings: dict[tuple[str, str, str, str, str], int] = {}
        self.by_folder: dict[str, list[ListSeen]] = {}

    # ---------------------------------------------------------------------------------------------------- folder

    def folder(self, root: Path) -> Iterator[Record]:
        """Yield a folder's records, files in the order of their paths."""
        found: list[tuple[str, Path]] = []
        problems: list[Problem] = []
        for path, real, problem in _walk(root):
            if problem is not None:
                problems.append(problem)
            elif real is not None:
                found.append((path, real))
        if len(found) > MAX_MEMBERS:
            yield self._problem("", Reason.TOO_LARGE, tr("more than {n} files", n=MAX_MEMBERS))
            found = found[:MAX_MEMBERS]
        self.paths = [path for path, _ in found]
        self.top = wrapper_of(self.paths)
        yield from self._settled(problems)
        dump = dump_folders(self.paths)
        for path, real in found:
            if not is_source(path):
                continue
            if holds_credentials(path):
                yield self._left_out(path)
                continue
            try:
                with real.open("rb", buffering=0) as stream:
                    yield from self._open(stream, path, dump, nesting=0)
            except OSError as error:
                yield _unreadable(self._place(path), error)
        yield from self._end()

    # ---------------------------------------------------------------------------------------------------- stream

    def stream(self, stream: Stream, name: str) -> Iterator[Record]:
        """Yield the records of one file, which may be an archive."""
        yield from self._open(stream, name, frozenset(), nesting=0, top=True)
        yield from self._end()

    def _open(
        self, stream: Stream, path: str, dump: frozenset[str], *, nesting: int, top: bool = False
    ) -> Iterator[Record]:
        """Yield the records of a stream by its first bytes: gzip, tar, zip, or text."""
        buffered = _Ahead(stream)
        head = buffered.peek(_HEAD)
        packed = _packed(head)
        if packed is not None:
            yield from self._unpacked(buffered, packed, path, dump, nesting, top=top)
        elif _is_tar(head, path):
            yield from self._tar(buffered, path, nesting, top=top)
        elif head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            yield from self._zip(buffered, path, nesting, top=top)
        elif _is_binary(head):
            yield self._problem(path, Reason.NOT_KUBERNETES, tr("a binary file"), failed=False)
        else:
            data, problem = self._whole(buffered, path)
            if top:
                self.paths.append(path)
            if data or problem is None:
                yield from self._text(data, path, dump)
            if problem is not None:
                yield problem

    def _whole(self, stream: _Ahead, path: str) -> tuple[bytes, Problem | None]:
        """Return all bytes of a stream; what is read before an error is kept."""
        too_large = tr("larger than {n} MiB when unpacked", n=MAX_FILE_BYTES // 2**20)
        below = stream.below
        if isinstance(below, io.FileIO) and stat.S_ISREG(os.fstat(below.fileno()).st_mode):
            # One allocation of the right size: a large file is in memory once.
            if os.fstat(below.fileno()).st_size > MAX_FILE_BYTES:
                return b"", self._problem(path, Reason.TOO_LARGE, too_large)
            below.seek(0)
            return below.readall(), None
        parts: list[bytes] = []
        total = 0
        try:
            while chunk := stream.read(_CHUNK):
                total += len(chunk)
                if total > MAX_FILE_BYTES:
                    return b"", self._problem(path, Reason.TOO_LARGE, too_large)
                parts.append(chunk)
        except _TooLargeError:
            return b"", self._problem(path, Reason.TOO_LARGE, tr("the archive is larger than it may be"))
        return parts[0] if len(parts) == 1 else b"".join(parts), None

    # -------------------------------------------------------------------------------------------------- archives

    def _unpacked(
        self, stream: Stream, packed: str, path: str, dump: frozenset[str], nesting: int, *, top: bool
    ) -> Iterator[Record]:
        """Yield the records of a stream that is packed by gzip, xz, bzip2 or zstd."""
        inner = unpacked_name(path)
        try:
            unpacked = _Unpacked(stream, packed)
        except ImportError:
            yield self._problem(
                path,
                Reason.UNREADABLE,
                tr("this Python cannot unpack {format}", format=packed),
                hint=tr("unpack it first, or pack it with gzip"),
            )
            return
        try:
            head = unpacked.peek(_HEAD)
        except _TooLargeError:
            yield self._problem(path, Reason.TOO_LARGE, tr("the archive is larger than it may be"))
            return
        if _is_tar(head, inner):
            yield from self._tar(unpacked, path, nesting, top=top)
            return
        if not _is_plain(head, inner):
            if nesting >= MAX_NESTING:
                yield self._nested(path)
            else:
                yield from self._open(unpacked, inner, dump, nesting=nesting + 1, top=top)
            return
        data, problem = self._whole(unpacked, path)
        if top:
            self.paths.append(inner)
        if problem is None and unpacked.error is not None:
            problem = self._damaged(path, unpacked.error)
        if data or problem is None:
            yield from self._text(data, inner, dump)
        if problem is not None:
            yield problem

    def _tar(self, stream: Stream, path: str, nesting: int, *, top: bool) -> Iterator[Record]:
        """Yield a tarball's records in one pass; members in the order of their names as far as memory allows."""
        if nesting >= MAX_NESTING:
            yield self._nested(path)
            return
        metered = _Metered(stream)
        held: list[_File] = []
        names: list[str] = []
        size = 0
        base = "" if top else f"{path}/"
        late: list[Problem] = []
        problem: Problem | None = None
        try:
            metered.allow(_HEADERS)
            with tarfile.open(fileobj=metered, mode="r|") as archive:
                while (member := archive.next()) is not None:
                    metered.allow(member.size + _HEADERS)
                    if len(names) >= MAX_MEMBERS:
                        problem = self._problem(
                            path, Reason.TOO_LARGE, tr("more than {n} members", n=MAX_MEMBERS)
                        )
                        break
                    name, odd = self._member(member.name, base, link=member.issym() or member.islnk())
                    if odd is not None:
                        late.append(odd)
                    if name is None or not member.isfile():
                        continue
                    names.append(name)
                    if not is_source(name):
                        continue
                    if holds_credentials(name):
                        late.append(self._left_out(name))
                        continue
                    if member.size > MAX_FILE_BYTES:
                        late.append(
                            self._problem(
                                name,
                                Reason.TOO_LARGE,
                                tr("larger than {n} MiB when unpacked", n=MAX_FILE_BYTES // 2**20),
                            )
                        )
                        continue
                    source = archive.extractfile(member)
                    data = b"".join(iter(partial(source.read, _CHUNK), b"")) if source is not None else b""
                    held.append(_File(name, data))
                    size += len(data)
                    if size > SORT_BYTES:
                        yield from self._members(held, names, nesting)
                        held, size = [], 0
        except _TooLargeError:
            problem = self._problem(path, Reason.TOO_LARGE, tr("the archive is larger than it may be"))
        except _DAMAGE as error:
            problem = self._damaged(path, error)
        cut = getattr(stream, "error", None)
        if problem is None and cut is not None:
            problem = self._damaged(path, cut)
        yield from self._members(held, names, nesting)
        yield from self._settled(late)
        if problem is not None:
            yield problem

    def _zip(self, stream: _Ahead, path: str, nesting: int, *, top: bool) -> Iterator[Record]:
        if nesting >= MAX_NESTING:
            yield self._nested(path)
            return
        data, problem = self._whole(stream, path)
        if problem is not None:
            yield problem
            return
        base = "" if top else f"{path}/"
        total = 0
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGE as error:
            yield self._damaged(path, error)
            return
        with archive:
            infos = archive.infolist()
            if len(infos) > MAX_MEMBERS:
                yield self._problem(path, Reason.TOO_LARGE, tr("more than {n} members", n=MAX_MEMBERS))
                return
            members: list[tuple[str, zipfile.ZipInfo]] = []
            late: list[Problem] = []
            for info in infos:
                link = stat.S_ISLNK(info.external_attr >> 16)
                name, odd = self._member(info.filename, base, link=link)
                if odd is not None:
                    late.append(odd)
                if name is not None and not info.is_dir() and not link:
                    members.append((name, info))
            names = [name for name, _ in members]
            if nesting == 0 and not self.paths:
                self.top = wrapper_of(names)
            yield from self._settled(late)
            for name, info in sorted(members, key=lambda member: member[0]):
                if not is_source(name):
                    continue
                if holds_credentials(name):
                    yield self._left_out(name)
                    continue
                if info.flag_bits & 1:
                    yield self._problem(name, Reason.UNREADABLE, tr("the member is encrypted"))
                    continue
                total += info.file_size
                if info.file_size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
                    yield self._problem(name, Reason.TOO_LARGE, tr("the archive is larger than it may be"))
                    continue
                try:
                    with archive.open(info) as source:
                        content = source.read(info.file_size + 1)
                except _DAMAGE as error:
                    yield self._damaged(name, error)
                    continue
                yield from self._members([_File(name, content)], names, nesting)
            self.paths += [name for name in names if name not in set(self.paths)]

    def _members(self, files: list[_File], names: list[str], nesting: int) -> Iterator[Record]:
        """Yield the records of unpacked members."""
        dump = dump_folders(names)
        if nesting == 0 and not self.paths:
            self.top = wrapper_of(names)
        known = set(self.paths)
        self.paths += [name for name in names if name not in known]
        for file in sorted(files):
            if _is_plain(file.data[:_HEAD], file.path):
                yield from self._text(file.data, file.path, dump)
            else:
                yield from self._open(io.BytesIO(file.data), file.path, dump, nesting=nesting + 1)

    def _member(self, name: str, base: str, *, link: bool) -> tuple[str | None, Problem | None]:
        """Return a member's path in the input, or why it is not read."""
        plain = name.replace("\\", "/")
        while plain.startswith("./"):
            plain = plain[2:]
        parts = plain.split("/")
        if plain.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", plain):
            return None, self._problem(
                base + plain,
                Reason.ARCHIVE_UNSAFE,
                tr("the member's path leads out of the archive; not read"),
            )
        path = base + "/".join(part for part in parts if part not in {"", "."})
        if link:
            if not is_source(path):
                return None, None
            return None, self._problem(
                path, Reason.LEFT_OUT, tr("a link; links are not followed"), failed=False
            )
        return path, None

    # ------------------------------------------------------------------------------------------------------ text

    def _text(self, data: bytes, path: str, dump: frozenset[str]) -> Iterator[Record]:
        hints = hints_of(path, dump)
        if path.rpartition("/")[2] == "version" and _is_must_gather_version(data):
            return
        used = False
        remarks: dict[Reason, int] = {}
        for record in read_text(data, Origin(self._place(path), hints)):
            if isinstance(record, SnapshotFile):
                self.snapshots.append((path, record))
                continue
            if isinstance(record, Problem) and not record.failed:
                remarks[record.reason] = remarks.get(record.reason, 0) + 1
                if remarks[record.reason] > MAX_REMARKS:
                    continue
            if isinstance(record, Document) and hints.folder:
                key = (hints.folder, record.api_version, record.kind, record.group, hints.namespace)
                self.listings[key] = self.listings.get(key, 0) + 1
            if isinstance(record, Document | ListSeen | RawText):
                used = True
            if isinstance(record, ListSeen) and hints.namespace and path.rpartition("/")[0] in dump:
                self.by_folder.setdefault(path.rpartition("/")[0], []).append(record)
            yield record
        for reason, count in remarks.items():
            if count > MAX_REMARKS:
                more = tr("and {n} more of these in this file", n=count - MAX_REMARKS)
                yield self._problem(path, reason, more, failed=False)
        if used:
            self.read.append(path)

    def _end(self) -> Iterator[Record]:
        """Yield what only the whole input tells: snapshots, folders that are one listing, the layout and the files."""
        layout = layout_of(self.paths)
        for path, snapshot in self.snapshots:
            if self.read:
                yield self._problem(
                    path,
                    Reason.LEFT_OUT,
                    tr("a snapshot beside captured objects is not read"),
                    failed=False,
                    hint=tr("give it alone"),
                )
            else:
                yield snapshot
        if self.snapshots and not self.read:
            layout = "snapshot"
            self.read = [path for path, _ in self.snapshots]
        for (folder, api_version, kind, group, namespace), count in sorted(self.listings.items()):
            yield ListSeen(
                group=group,
                kind=kind,
                api_version=api_version,
                place=f"{self._place(folder)}/",
                count=count,
                namespace=namespace or None,
            )
        yield from self._whole_dumps()
        read = tuple(sorted(path.removeprefix(self.top) for path in self.read))
        yield InputSeen(name=self.name, layout=layout, files=read, root=self.top)

    def _whole_dumps(self) -> Iterator[ListSeen]:
        """Yield what a ``kubectl cluster-info dump`` of all namespaces listed in each of them.

        It says nowhere that it is of all. Without --all-namespaces it holds kube-system and the current namespace, or those that
        were named; the four that every API server makes are together in none of these unless all are.
        """
        roots: dict[str, dict[str, list[ListSeen]]] = {}
        marked = {path.rpartition("/")[0] for path in self.paths if "/replication-controllers." in path}
        for folder in {*self.by_folder, *marked}:
            root, _, namespace = folder.rpartition("/")
            roots.setdefault(root, {})[namespace] = self.by_folder.get(folder, [])
        for root, spaces in sorted(roots.items()):
            if not spaces.keys() >= _SYSTEM_NAMESPACES:
                continue
            counts: dict[tuple[str, str, str], list[int]] = {}
            for lists in spaces.values():
                for seen in lists:
                    if seen.complete:
                        counts.setdefault((seen.group, seen.kind, seen.api_version), []).append(seen.count)
            for (group, kind, api_version), found in sorted(counts.items()):
                if len(found) == len(spaces):
                    yield ListSeen(
                        group=group,
                        kind=kind,
                        api_version=api_version,
                        place=f"{self._place(root)}/" if root else self._place("") or self.name,
                        count=sum(found),
                    )

    def _place(self, path: str) -> str:
        """Return how a path is called: without the folders around the whole capture, as its archive or folder may be."""
        return self.prefix + path.removeprefix(self.top)

    def _settled(self, problems: list[Problem]) -> Iterator[Problem]:
        """Yield problems that were found before the folders around the capture were known."""
        for problem in problems:
            path = problem.place.removeprefix(self.prefix)
            yield msgspec.structs.replace(problem, place=self._place(path))

    # -------------------------------------------------------------------------------------------------- problems

    def _problem(
        self, path: str, reason: Reason, detail: str, *, failed: bool = True, hint: str = ""
    ) -> Problem:
        hints = hints_of(path)
        return Problem(
            place=self._place(path) or self.name,
            reason=reason,
            detail=detail,
            failed=failed,
            kind=hints.kind,
            group=hints.group,
            namespace=hints.namespace,
            hint=hint,
        )

    def _left_out(self, path: str) -> Problem:
        return self._problem(
            path, Reason.LEFT_OUT, tr("by its name it holds secrets, which are never read"), failed=False
        )

    def _damaged(self, path: str, error: BaseException) -> Problem:
        cut = isinstance(error, EOFError) or "unexpected end of data" in str(error)
        if cut:
            detail = tr("the archive is cut off; what stands before the cut was read")
        else:
            detail = tr("the archive is damaged: {problem}", problem=str(error))
        reason = Reason.TRUNCATED if cut else Reason.UNREADABLE
        return self._problem(path, reason, detail, hint=tr("copy it again"))

    def _nested(self, path: str) -> Problem:
        return self._problem(
            path, Reason.ARCHIVE_UNSAFE, tr("archives nest deeper than {n}; not read", n=MAX_NESTING)
        )


def _walk(root: Path, base: str = "") -> Iterator[tuple[str, Path | None, Problem | None]]:
    """Yield the regular files below a folder in the order of their paths; links are named and not followed."""
    todo = [(base, root)]
    files: list[tuple[str, Path | None, Problem | None]] = []
    while todo:
        prefix, folder = todo.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            files.append((prefix, None, _unreadable(prefix or folder.name, error)))
            continue
        for entry in entries:
            path = prefix + entry.name
            if entry.is_symlink():
                if is_source(path):
                    problem = Problem(
                        place=path,
                        reason=Reason.LEFT_OUT,
                        detail=tr("a link; links are not followed"),
                        failed=False,
                    )
                    files.append((path, None, problem))
            elif entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    todo.append((f"{path}/", Path(entry.path)))
            elif entry.is_file(follow_symlinks=False):
                files.append((path, Path(entry.path), None))
    yield from sorted(files, key=lambda found: found[0])


def _unreadable(place: str, error: OSError) -> Problem:
    hints = hints_of(place)
    return Problem(
        place=place,
        reason=Reason.UNREADABLE,
        detail=tr("it cannot be read: {problem}", problem=error.strerror or str(error)),
        failed=True,
        kind=hints.kind,
        group=hints.group,
        namespace=hints.namespace,
    )


def _is_tar(head: bytes, path: str) -> bool:
    """Tell a tarball by its magic, or (old ones have none) by its name and a checksum that fits."""
    if head[257:262] == b"ustar":
        return True
    if not path.lower().endswith(".tar") or len(head) < 512:
        return False
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _is_plain(head: bytes, path: str) -> bool:
    """Tell what is neither packed nor binary."""
    packed = (
        head.startswith((b"PK\x03\x04", b"PK\x05\x06")) or _packed(head) is not None or _is_tar(head, path)
    )
    return not packed and not _is_binary(head)


def _packed(head: bytes) -> str | None:
    for magic, name in (
        (b"\x1f\x8b", "gzip"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"BZh", "bzip2"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ):
        if head.startswith(magic):
            return name
    return None


def _is_binary(head: bytes) -> bool:
    """Tell bytes that are no text: zero bytes that are not UTF-16's."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return False
    zeros = head.count(0)
    if zeros == 0:
        return False
    if zeros < 8 and zeros < len(head) / 8:
        return False
    # UTF-16 of Latin text has zeros in one half only.
    return sum(part.count(0) > 0.8 * len(part) for part in (head[1::2], head[::2])) != 1


def _is_must_gather_version(data: bytes) -> bool:
    """must-gather's file ``version`` names an image and its tag, not Kubernetes."""
    return len(data) < 4096 and b"gitVersion" not in data and b"{" not in data


class _Ahead:
    """A stream whose first bytes can be looked at without taking them."""

    def __init__(self, stream: Stream) -> None:
        self.below = stream
        self.ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the first ``size`` bytes, fewer at the end."""
        while len(self.ahead) < size:
            more = self._more(size - len(self.ahead))
            if not more:
                break
            self.ahead += more
        return self.ahead[:size]

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; all that is left when it is negative."""
        if size < 0:
            parts = [self.ahead]
            self.ahead = b""
            while more := self._more(_CHUNK):
                parts.append(more)
            return b"".join(parts)
        if self.ahead:
            taken, self.ahead = self.ahead[:size], self.ahead[size:]
            return taken
        return self._more(size)

    def _more(self, size: int) -> bytes:
        return self.below.read(size)


class _Unpacked(_Ahead):
    """An unpacked stream whose damage ends it instead of raising; ``error`` keeps what it was.

    Raises:
        ImportError: this Python cannot unpack the format.
    """

    def __init__(self, stream: Stream, packed: str) -> None:
        super().__init__(stream)
        self.error: BaseException | None = None
        self.total = 0
        self.make, self.damage = _unpacker(packed)
        self.unpacker = self.make()
        self.gzip = packed == "gzip"
        self.packed = b""

    def _more(self, size: int) -> bytes:
        while self.error is None:
            if self.unpacker.eof:
                # Another member may follow; padding does not count.
                self.packed = (self.unpacker.unused_data or self.below.read(_PACKED)).lstrip(b"\0")
                if not self.packed:
                    break
                self.unpacker = self.make()
            # xz, bzip2 and zstd keep what they did not unpack yet; gzip gives it back.
            held = not self.gzip and not self.unpacker.needs_input
            source = b"" if held else self.packed or self.below.read(_PACKED)
            if not source and not held:
                self.error = EOFError()
                break
            try:
                data = self.unpacker.decompress(source, size)
            except (*_DAMAGE, self.damage) as error:
                self.error = error
                break
            self.packed = self.unpacker.unconsumed_tail if self.gzip else b""
            if data:
                self.total += len(data)
                if self.total > MAX_TOTAL_BYTES:
                    raise _TooLargeError
                return bytes(data)
        return b""


def _unpacker(packed: str) -> tuple[Callable[[], Any], type[Exception]]:
    """Return what makes an unpacker of a format, and its own error.

    An unpacker has ``decompress(data, max_length)``, ``eof`` and ``unused_data``.
    """
    if packed == "gzip":
        return partial(zlib.decompressobj, wbits=31), zlib.error
    if packed == "xz":
        lzma = import_module("lzma")
        make = partial(lzma.LZMADecompressor, format=lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)
        return make, lzma.LZMAError
    if packed == "bzip2":
        return import_module("bz2").BZ2Decompressor, OSError
    zstd = import_module("compression.zstd")
    return zstd.ZstdDecompressor, zstd.ZstdError


class _Metered(io.RawIOBase):
    """A stream that refuses to give more than was allowed: a tar header that claims gigabytes costs nothing."""

    def __init__(self, stream: Stream) -> None:
        self.below = stream
        self.left = 0
        self.total = 0

    def readable(self) -> bool:
        return True

    def allow(self, size: int) -> None:
        """Allow ``size`` bytes from here on."""
        self.left = size

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes."""
        if size < 0 or size > self.left:
            size = self.left
            if size <= 0:
                raise _TooLargeError
        parts: list[bytes] = []
        wanted = size
        while wanted > 0:
            data = self.below.read(wanted)
            if not data:
                break
            parts.append(data)
            wanted -= len(data)
        got = b"".join(parts)
        self.left -= len(got)
        self.total += len(got)
        if self.total > MAX_TOTAL_BYTES:
            raise _TooLargeError
        return got


def names_of(inputs: Iterable[str | os.PathLike[str]]) -> str:
    """Return how to call inputs for people: what the user typed, without leading folders."""
    return ", ".join(
        "stdin" if os.fspath(path) == "-" else Path(path).name or os.fspath(path) for path in inputs
    )
