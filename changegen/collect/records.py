"""From the text of one file (or one answer) to records: JSON, YAML, and the text of debugging endpoints.

What one value may be: an object, a List, a typed list whose items carry no kind, a list in a list, an array, a stored
Status, the server's version in three wrappings, discovery, a kubelet's configz, a changegen snapshot. JSON is not turned
into objects here: a list is split into its raw items, which are decoded when somebody wants their kind.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import msgspec

from changegen.collect import yamlread
from changegen.collect.documents import (
    KUBELET_CONFIGZ,
    RESOURCES,
    VERSION_INFO,
    Document,
    ListSeen,
    Problem,
    RawText,
    Reason,
    Record,
    Role,
    SnapshotFile,
    group_of,
    resource_name,
)
from changegen.collect.layouts import Hints, component_in
from changegen.i18n import tr

SNAPSHOT_SCHEMA = "changegen.snapshot/v1"
MAX_YAML_BYTES = 256 * 2**20
"""YAML above this is refused: it would need several GB of memory. JSON has no such limit."""
SLOW_YAML_BYTES = 32 * 2**20 if yamlread.FAST else 4 * 2**20
"""YAML above this is read with the advice to use JSON."""

_CONTROL = bytes([*range(9), 11, 12, *range(14, 32)])
_CONTROL_FIND = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CHUNK = 2**20

_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_AT_BYTE = re.compile(r"^(.*?) \(byte (\d+)\)")
_ITEMS = re.compile(rb'"items"\s*:\s*\[')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_NOT_SPACE = re.compile(rb"[^\s,;]")
_JSON_LINE = re.compile(rb"^[ \t]*[{\[]", re.MULTILINE)
_JSON_START = re.compile(rb"^[{\[]", re.MULTILINE)
_YAML_LINE = re.compile(rb"^(?:---|%YAML|- |apiVersion:|kind:|items:)", re.MULTILINE)
_YAML_NAME = re.compile(r"\.(?:ya?ml|json)$", re.IGNORECASE)
_YAML_KEY = re.compile(
    rb"^[ \t-]*\"?(?:apiVersion|kind|items|gitVersion|serverVersion|clientVersion|kubeletconfig)\"?[ \t]*:",
    re.MULTILINE,
)
_TABLE = re.compile(rb"NAME(?:SPACE +NAME)? +[A-Z]")
_LOG_START = re.compile(rb"^==== START logs for container (.*?) of pod (.*?) ====[ \t]*\r?$", re.MULTILINE)

_SERVER_SAID = re.compile(r"^Error from server(?: \((\w+)\))?: (.*)$", re.MULTILINE)
_NO_SUCH_TYPE = re.compile(r"^error: the server doesn't have a resource type \"([^\"]+)\"", re.MULTILINE)
_NOT_REACHED = re.compile(
    r"^(?:Unable to connect to the server|The connection to the server .* was refused|error: You must be logged in).*$",
    re.MULTILINE,
)
_CANNOT = re.compile(
    r'cannot (?:list|get|watch) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_FORBIDDEN = re.compile(r"^(?P<resource>[a-z]+)(?:\.(?P<group>[a-z0-9.-]+))?(?: \"[^\"]*\")? is forbidden")
_CODES = {
    "Forbidden": 403,
    "Unauthorized": 401,
    "NotFound": 404,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    "Timeout": 504,
    "ServerTimeout": 500,
    "TooManyRequests": 429,
    "Expired": 410,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "BadRequest": 400,
}
_DISCOVERY = frozenset(
    {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "APIGroupDiscoveryList"}
)
_LEFT_OUT = {
    "Secret": "Secrets are never read",
    "Config": "a kubeconfig holds credentials and is not read",
}
# API servers fill the status of these at once, so an object without it is half an object
_HAS_STATUS = frozenset(
    {
        "Pod",
        "Node",
        "Namespace",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "PodDisruptionBudget",
        "APIService",
    }
)


class Origin(NamedTuple):
    """Where a text came from: the place for people and what the path tells."""

    place: str
    hints: Hints = Hints()
    file: str = ""
    """The file itself, where ``place`` is inside it."""
    stream: bool = False
    """One of several values of a file, as ``kubectl cluster-info dump`` writes a list for each namespace."""


# ------------------------------------------------------------------------------------------------------------ encoding


def clean(data: bytes, place: str) -> tuple[bytes, list[Problem]]:
    """Return UTF-8 without a byte order mark or control characters, and remarks on what was replaced.

    UTF-16 and UTF-32 are read by their mark, UTF-16 without one by its zero bytes. Bytes that are no UTF-8 (Latin-1) and
    control characters become U+FFFD: a guess at the encoding could invent a name.
    """
    problems: list[Problem] = []
    for mark, codec in (
        (b"\xef\xbb\xbf", ""),
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            data = data[len(mark) :] if not codec else data.decode(codec, errors="replace").encode()
            break
    else:
        head = data[:512]
        if len(head) >= 4 and b"\x00" in head:
            for codec, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
                if zeros.count(0) > 0.8 * len(zeros):
                    data = data.decode(codec, errors="replace").encode()
                    break
    if not data.isascii():
        bad = _bad_utf8(data)
        if bad >= 0:
            text = data.decode("utf-8", errors="replace")
            count = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
            problems.append(
                Problem(
                    place=f"{place} byte {bad}",
                    reason=Reason.ENCODING,
                    detail=tr("bytes that are not UTF-8 were replaced: {n}", n=count),
                    failed=False,
                    hint=tr("write the file as UTF-8"),
                )
            )
            data = text.encode()
    found = _control_at(data)
    if found >= 0 and _mostly_control(data):
        problems.append(
            Problem(place=place, reason=Reason.NOT_KUBERNETES, detail=tr("a binary file"), failed=False)
        )
        return b"", problems
    if found >= 0:
        cleaned = _CONTROL_FIND.sub(b"\xef\xbf\xbd", data)
        problems.append(
            Problem(
                place=f"{place} byte {found}",
                reason=Reason.CONTROL_CHARACTERS,
                detail=tr("control characters were replaced: {n}", n=(len(cleaned) - len(data)) // 2),
                failed=False,
            )
        )
        data = cleaned
    return data, problems


def _bad_utf8(data: bytes) -> int:
    """Return the offset of the first byte that is not UTF-8, or -1, without a copy of the whole."""
    view = memoryview(data)
    at = 0
    while at < len(data):
        end = min(at + _CHUNK, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80 and end > at + _CHUNK - 4:
            end -= 1  # do not cut a character
        try:
            str(view[at:end], "utf-8")
        except UnicodeDecodeError as error:
            return at + error.start
        at = end
    return -1


def _mostly_control(data: bytes) -> bool:
    """Tell bytes that are no text: one in sixteen is a control character."""
    count = sum(
        len(chunk) - len(chunk.translate(None, _CONTROL))
        for chunk in (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
    )
    return count > max(16, len(data) // 16)


def _control_at(data: bytes) -> int:
    """Return the offset of the first control character, or -1."""
    for at in range(0, len(data), _CHUNK):
        chunk = data[at : at + _CHUNK]
        if len(chunk.translate(None, _CONTROL)) != len(chunk):
            found = _CONTROL_FIND.search(chunk)
            return at + found.start() if found else -1
    return -1


# ---------------------------------------------------------------------------------------------------------------- text


def read_text(data: bytes, origin: Origin) -> Iterator[Record]:
    """Yield the records of one file's bytes (already unpacked); nothing is raised for bad content."""
    place = origin.place
    data, problems = clean(data, place)
    yield from problems
    if any(problem.reason is Reason.NOT_KUBERNETES for problem in problems):
        return
    start = _NOT_SPACE.search(data)
    if start is None:
        # A kubectl that fails with its output sent to a file leaves an empty file behind.
        wanted = origin.hints.kind
        yield Problem(
            place=place,
            reason=Reason.EMPTY,
            detail=tr("the file is empty"),
            failed=bool(wanted),
            kind=wanted,
            group=origin.hints.group,
            namespace=origin.hints.namespace,
        )
        return
    if b"***HIDDEN***" in data:
        yield Problem(
            place=place,
            reason=Reason.MASKED,
            detail=tr("values masked by the tool that made the capture: {n}", n=data.count(b"***HIDDEN***")),
            failed=False,
        )
    known = list(_endpoint_text(data, origin))
    if known:
        yield from known
        return
    if start[0] in {b"{", b"["}:
        looks_yaml = re.search(r"\.ya?ml(?::|$)", place) is not None and not _is_json(data)
        if not looks_yaml:
            yield from read_json(data, origin)
            return
    json_at = _JSON_START.search(data)
    if json_at is not None and not _YAML_LINE.search(data, 0, json_at.start()):
        # Warnings of kubectl (2>&1) before the JSON.
        yield from _said(data[: json_at.start()].decode("utf-8", errors="replace"), origin)
        yield from read_json(data, origin, json_at.start())
        return
    table = _TABLE.match(data, start.start())
    if table is not None or not (_YAML_NAME.search(place) or _YAML_KEY.search(data)):
        # A note, a table, a log: not worth a parser's complaint.
        problem = _not_kubernetes(place)
        if table is not None:
            problem = msgspec.structs.replace(
                problem, detail=tr("it is kubectl's table for people"), hint=tr("capture it with -o json")
            )
        yield problem
        return
    yield from read_yaml(data, origin)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return "trailing" in str(error) or "truncated" in str(error)
    return True


def _endpoint_text(data: bytes, origin: Origin) -> Iterator[Record]:
    """Yield /metrics, /flagz, /statusz, /readyz, ``kubectl version`` and saved errors, by their content."""
    head = data[:65536].decode("utf-8", errors="replace").replace("\r\n", "\n").lstrip()
    first = head.split("\n", 1)[0].rstrip()
    role: Role | None = None
    component = ""
    named = re.fullmatch(r"(\S+) (flagz|statusz)", first)
    if named is not None:
        role = "flagz" if named[2] == "flagz" else "statusz"
        component = component_in(named[1])
    elif re.match(r"# (?:HELP|TYPE) [a-zA-Z_:]", head) or re.match(
        r'[a-z_:]+(?:\{[a-z_]+="[^\n]*"\})? -?[\d.eE+]+$', head, re.MULTILINE
    ):
        role = "metrics"
    elif re.match(r"\[[+-]\]\S+ (?:ok|failed)", head):
        low = origin.place.lower()
        low += head.rstrip().rpartition("\n")[2]
        role = "livez" if "livez" in low else "healthz" if "healthz" in low else "readyz"
    if role is not None:
        text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
        yield RawText(
            place=origin.place,
            role=role,
            text=text,
            component=component or origin.hints.component,
            from_name=not component and bool(origin.hints.component),
        )
        return
    if re.match(r"(?:Client|Server) Version: ", head):
        server = re.search(
            r"^Server Version: (?:version\.Info.*?GitVersion:\")?(v[^\s\",]+)", head, re.MULTILINE
        )
        if server is not None:
            yield Document(
                api_version="", kind=VERSION_INFO, place=origin.place, data={"gitVersion": server[1]}
            )
        else:
            yield _client_only(origin.place)
        return
    yield from _said(head, origin)


def _said(text: str, origin: Origin) -> Iterator[Problem]:
    """Yield what kubectl complained of in the text of a file."""
    for match in _SERVER_SAID.finditer(text):
        code = _CODES.get(match[1] or "", 500)
        yield _status(origin, code=code, reason=match[1] or "", message=match[2], resource="", group="")
    for match in _NO_SUCH_TYPE.finditer(text):
        resource, _, group = match[1].partition(".")
        yield _status(origin, code=404, reason="NotFound", message=match[0], resource=resource, group=group)
    for match in _NOT_REACHED.finditer(text):
        yield _status(origin, code=503, reason="", message=match[0], resource="", group="")


# ---------------------------------------------------------------------------------------------------------------- JSON


def read_json(data: bytes, origin: Origin, start: int = 0) -> Iterator[Record]:
    """Yield the records of JSON text: one value, or a stream of values with kubectl's log sections between them."""
    view = memoryview(data)
    size = len(data)
    at = start
    while True:
        space = _NOT_SPACE.search(data, at)
        if space is None:
            return
        at = space.start()
        if data[at : at + 1] not in {b"{", b"["}:
            at = yield from _between(data, at, origin)
            continue
        raw, end, message = _value_at(view, at)
        if raw is None:
            yield from _salvage(data, at, message, origin)
            return
        place = origin.place if at == 0 or (end == size and at == start) else f"{origin.place} byte {at}"
        try:
            yield from value_records(
                raw, origin._replace(place=place, file=origin.place, stream=end < size or at > start)
            )
        except (msgspec.DecodeError, RecursionError) as error:
            yield _syntax(place, tr("it is not valid JSON: {problem}", problem=str(error)), origin)
        at = end


def _value_at(view: memoryview, at: int) -> tuple[msgspec.Raw | None, int, str]:
    """Return the JSON value that begins at ``at``, where it ends, and what is wrong if there is none.

    msgspec's complaint about trailing characters says where the value before them ends; so no parser of our own is needed.
    """
    try:
        return msgspec.json.decode(view[at:], type=msgspec.Raw), len(view), ""
    except RecursionError:
        return None, at, "JSON is malformed: values nest too deep"
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            return None, at, str(error)
        after = at + int(trailing[1])
    for end in (after - 1, after):  # the byte is counted from 1, or from 0
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(view[at:end], type=msgspec.Raw), end, ""
    return None, at, "JSON is malformed"


def _between(data: bytes, at: int, origin: Origin) -> Generator[Record, None, int]:
    """Skip what stands between two JSON values; returns the offset of what follows."""
    log = _LOG_START.match(data, at)
    if log is not None:
        mark = b"==== END logs for container " + log[1] + b" of pod " + log[2] + b" ===="
        end = data.find(mark, log.end())
        if end < 0:
            yield _cut(origin, len(data), tr("the file ends inside a log"))
            return len(data)
        return end + len(mark)
    line_end = data.find(b"\n", at)
    line_end = len(data) if line_end < 0 else line_end
    follows = _JSON_LINE.search(data, line_end)
    logs = _LOG_START.search(data, at)
    stops = [match.start() for match in (follows, logs) if match is not None]
    end = min(stops) if stops else len(data)
    text = data[at : min(end, at + 65536)].decode("utf-8", errors="replace")
    said = list(_said(text, origin))
    yield from said
    if not said and text.strip("- \r\n"):
        yield Problem(
            place=f"{origin.place} byte {at}",
            reason=Reason.NOT_KUBERNETES,
            detail=tr("text between JSON values was skipped"),
            failed=False,
        )
    return end


def _salvage(data: bytes, at: int, message: str, origin: Origin) -> Iterator[Record]:
    """Yield the complete items of a list that cannot be read to its end, then what stopped it."""
    view = memoryview(data)
    items: list[msgspec.Raw] = []
    kind = api_version = ""
    listed = False
    start = -1
    if data[at : at + 1] == b"[":
        start, listed = at + 1, True
    else:
        found = _ITEMS.search(data, at)
        if found is not None and _depth(data[at : found.start()]) == 1:
            start, listed = found.end(), True
            prefix = data[at : found.start()]
            kind = _field(prefix, b"kind")
            api_version = _field(prefix, b"apiVersion")
    while start >= 0:
        space = _NOT_SPACE.search(data, start)
        if space is None or data[space.start() : space.start() + 1] == b"]":
            break
        begin = space.start()
        raw, start, _ = _value_at(view, begin)
        if raw is None:
            break
        items.append(raw)
    snapshot = re.match(rb'\s*\{\s*"api_services"\s*:', data[at : at + 100]) is not None
    if snapshot or (not listed and f'"{SNAPSHOT_SCHEMA}"'.encode() in data[at:]):
        yield _cut(origin, len(data), tr("a changegen snapshot that is cut off"), whole=True)
        return
    if listed:
        yield from list_records(items, kind or "List", api_version, origin, complete=False)
    kept = tr("complete items before it were read: {n}", n=len(items)) if listed else ""
    if "truncated" in message:
        yield _cut(origin, len(data), kept, kind=_item_kind(kind))
        return
    placed = _AT_BYTE.match(message)
    byte = at + int(placed[2]) if placed else at
    problem = (placed[1] if placed else message).removeprefix("JSON is malformed: ")
    detail = tr("it is not valid JSON: {problem}", problem=problem)
    yield _syntax(
        f"{origin.place} byte {byte}", f"{detail}; {kept}" if kept else detail, origin, _item_kind(kind)
    )


def _depth(prefix: bytes) -> int:
    depth = 0
    for token in _TOKEN.finditer(prefix):
        first = token[0][:1]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
    return depth


def _field(prefix: bytes, name: bytes) -> str:
    found = re.search(b'"' + name + rb'"\s*:\s*"([^"\\]*)"', prefix)
    return found[1].decode("utf-8", errors="replace") if found else ""


def _item_kind(kind: str) -> str:
    return kind.removesuffix("List") if kind != "List" else ""


# ---------------------------------------------------------------------------------------------------------------- YAML


def read_yaml(data: bytes, origin: Origin) -> Iterator[Record]:
    """Yield the records of YAML text: any number of documents."""
    place = origin.place
    if len(data) > MAX_YAML_BYTES:
        yield Problem(
            place=place,
            reason=Reason.TOO_LARGE,
            detail=tr("{n} MiB of YAML are more than can be read", n=len(data) // 2**20),
            failed=True,
            kind=origin.hints.kind,
            group=origin.hints.group,
            hint=tr("capture it with -o json"),
        )
        return
    if len(data) > SLOW_YAML_BYTES:
        yield Problem(
            place=place,
            reason=Reason.SLOW,
            detail=tr("{n} MiB of YAML take long to read; JSON does not: -o json", n=len(data) // 2**20),
            failed=False,
        )
    data = _without_logs(data)
    data, replaced, first = yamlread.printable(data)
    if replaced:
        yield Problem(
            place=f"{place} byte {first}",
            reason=Reason.CONTROL_CHARACTERS,
            detail=tr("control characters were replaced: {n}", n=replaced),
            failed=False,
        )
    documents = list(yamlread.read_yaml(data))
    ended = data.endswith(b"\n")
    loose: list[tuple[str, Any]] = []  # kind and value of the single objects so far
    for number, document in enumerate(documents):
        at = f"{place}:{document.line}" if document.line > 1 or len(documents) > 1 else place
        for duplicate in document.duplicates:
            yield Problem(
                place=f"{place}:{duplicate.line}",
                reason=Reason.DUPLICATE_KEY,
                detail=tr("the key {key} stands twice; the last value was taken", key=repr(duplicate.key)),
                failed=False,
            )
        value = document.value
        last = number == len(documents) - 1
        sub = origin._replace(place=at, file=place, stream=len(documents) > 1)
        if document.trouble is not None:
            if isinstance(value, dict) and isinstance(value.get("items"), list):
                kind, api_version = _text(value.get("kind")), _text(value.get("apiVersion"))
                lines = document.item_lines
                yield from list_records(
                    value["items"], kind or "List", api_version, origin, complete=False, lines=lines
                )
            trouble = document.trouble
            named = _text(value.get("kind")) if isinstance(value, dict) else ""
            yield Problem(
                place=f"{place}:{trouble.line}",
                reason=Reason(trouble.reason),
                detail=trouble.detail,
                failed=True,
                kind=_item_kind(named) or origin.hints.kind,
                group=group_of(_text(value.get("apiVersion")))
                if isinstance(value, dict)
                else origin.hints.group,
                namespace=origin.hints.namespace,
            )
            continue
        if last and isinstance(value, dict):
            cut = _half(value, loose, ended=ended)
            if cut is not None:
                yield from _cut_yaml(value, document, cut, origin)
                continue
            loose.append((_text(value.get("kind")), value))
        elif isinstance(value, dict):
            loose.append((_text(value.get("kind")), value))
        yield from value_records(value, sub, lines=document.item_lines)


def _half(value: dict[str, Any], loose: list[tuple[str, Any]], *, ended: bool) -> str | None:
    """Return why the last document of a file looks cut, or None.

    kubectl writes keys sorted, so that a List's kind follows its items: items without a kind were cut. And an object
    that lacks what all others of its kind have at its end is half an object.
    """
    items = value.get("items")
    if "items" in value and "apiVersion" in value and "spec" not in value:
        kind = _text(value.get("kind"))
        if not kind or (not ended and not kind.endswith("List")):
            return tr("the list ends without its kind")
    if isinstance(items, list):
        if items and isinstance(items[-1], dict):
            kind = _text(items[-1].get("kind"))
            others = [
                item for item in items[:-1] if isinstance(item, dict) and _text(item.get("kind")) == kind
            ]
            return _lacks(items[-1], others, kind or _item_kind(_text(value.get("kind"))), ended=ended)
        return None
    kind = _text(value.get("kind"))
    return _lacks(value, [other for name, other in loose if name == kind], kind, ended=ended)


def _lacks(item: dict[str, Any], others: list[dict[str, Any]], kind: str, *, ended: bool) -> str | None:
    if not others:
        return None
    for key in ("metadata", "spec", "status"):
        if key in item or not all(key in other for other in others):
            continue
        if not ended or kind in _HAS_STATUS or key != "status":
            return tr("the last {kind} has no {key}, all others have one", kind=kind or "object", key=key)
    return None


def _cut_yaml(
    value: dict[str, Any], document: yamlread.YamlDocument, why: str, origin: Origin
) -> Iterator[Record]:
    """Yield what is whole of a cut document; its last object is not handed over, half an object could mislead."""
    items = value.get("items")
    half: Any = value
    kind = _text(value.get("kind"))
    line = document.line
    if "items" in value and not isinstance(items, list):
        items = []
    if isinstance(items, list):
        kind = kind if kind.endswith("List") else ""
        whole, half = items[:-1], items[-1] if items else None
        yield from list_records(
            whole,
            kind or "List",
            _text(value.get("apiVersion")),
            origin,
            complete=False,
            lines=document.item_lines,
        )
        if len(document.item_lines) == len(items) and items:
            line = document.item_lines[-1]
    fields: dict[str, Any] = half if isinstance(half, dict) else {}
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    yield Problem(
        place=f"{origin.place}:{line}",
        reason=Reason.TRUNCATED,
        detail=tr("the file is cut off: {why}; its last object is not used", why=why),
        failed=True,
        kind=_text(fields.get("kind")) or _item_kind(kind) or origin.hints.kind,
        group=group_of(_text(fields.get("apiVersion"))),
        namespace=_text(metadata.get("namespace")) or origin.hints.namespace,
        name=_text(metadata.get("name")),
        hint=tr("capture it again"),
    )


def _without_logs(data: bytes) -> bytes:
    """Blank the log sections that ``kubectl cluster-info dump -o yaml`` writes between documents; lines stay."""
    if b"==== START logs" not in data:
        return data
    parts: list[bytes] = []
    at = 0
    while (log := _LOG_START.search(data, at)) is not None:
        mark = b"==== END logs for container " + log[1] + b" of pod " + log[2] + b" ===="
        end = data.find(mark, log.end())
        end = len(data) if end < 0 else end + len(mark)
        parts += [data[at : log.start()], b"\n" * data.count(b"\n", log.start(), end)]
        at = end
    parts.append(data[at:])
    return b"".join(parts)


# ---------------------------------------------------------------------------------------------------------- one value


class _Head(msgspec.Struct, gc=False):
    """The keys that tell what a JSON value is; raw, so that none of a wrong type is in the way."""

    apiVersion: msgspec.Raw = msgspec.Raw()  # noqa: N815
    kind: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()
    items: msgspec.Raw = msgspec.Raw()
    schema: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()
    code: msgspec.Raw = msgspec.Raw()
    reason: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    details: msgspec.Raw = msgspec.Raw()
    gitVersion: msgspec.Raw = msgspec.Raw()  # noqa: N815
    serverVersion: msgspec.Raw = msgspec.Raw()  # noqa: N815
    clientVersion: msgspec.Raw = msgspec.Raw()  # noqa: N815
    info: msgspec.Raw = msgspec.Raw()
    kubeletconfig: msgspec.Raw = msgspec.Raw()
    groupVersion: msgspec.Raw = msgspec.Raw()  # noqa: N815
    resources: msgspec.Raw = msgspec.Raw()
    versions: msgspec.Raw = msgspec.Raw()
    spec: msgspec.Raw = msgspec.Raw()


class _ItemHead(msgspec.Struct, gc=False):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""


class _Place(msgspec.Struct, gc=False):
    namespace: str = ""


class _Placed(msgspec.Struct, gc=False):
    metadata: _Place | None = None


class _Value:
    """The same look at a JSON value and at a YAML value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.raw = isinstance(value, msgspec.Raw)
        first = bytes(memoryview(value)[:1]) if self.raw else b""
        self.is_map = first == b"{" if self.raw else isinstance(value, dict)
        self.is_list = first == b"[" if self.raw else isinstance(value, list)
        self.is_null = first == b"n" if self.raw else value is None
        self.head: Any = None
        if self.is_map:
            self.head = msgspec.json.decode(value, type=_Head) if self.raw else value

    def has(self, key: str) -> bool:
        if self.raw:
            return bool(memoryview(getattr(self.head, key)).nbytes)
        return key in self.head

    def part(self, key: str) -> Any:
        """Return the undecoded value of a key, None if it is absent or null."""
        if not self.has(key):
            return None
        part = getattr(self.head, key) if self.raw else self.head[key]
        return None if self.raw and bytes(memoryview(part)[:1]) == b"n" else part

    def get(self, key: str) -> Any:
        part = self.part(key)
        return msgspec.json.decode(part) if isinstance(part, msgspec.Raw) else part

    def text(self, key: str) -> str:
        return _text(self.get(key)) if self.has(key) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _elements(value: Any) -> list[Any] | None:
    """Return the elements of a JSON or YAML sequence; an empty list for null; None for anything else."""
    if value is None:
        return []
    if isinstance(value, msgspec.Raw):
        try:
            return msgspec.json.decode(value, type=list[msgspec.Raw])
        except msgspec.ValidationError:
            return None
    return value if isinstance(value, list) else None


def value_records(data: Any, origin: Origin, *, lines: tuple[int, ...] = ()) -> Iterator[Record]:
    """Yield the records of one JSON (msgspec.Raw) or YAML (plain) value."""
    place, hints = origin.place, origin.hints
    value = _Value(data)
    if hints.errors:
        yield from _errors_file(value, origin)
        return
    if value.is_list:
        yield from _array(_elements(data) or [], origin, lines)
        return
    if value.is_null:
        yield Problem(place=place, reason=Reason.EMPTY, detail=tr("the document is null"), failed=False)
        return
    if not value.is_map:
        yield _not_kubernetes(place)
        return
    kind, api_version = value.text("kind"), value.text("apiVersion")
    schema = value.text("schema")
    if schema.startswith("changegen."):
        yield from _own_file(schema, value, origin)
    elif kind == "Status" and api_version in {"v1", ""}:
        yield from _status_object(value, origin)
    elif kind in _DISCOVERY:
        yield Document(api_version=api_version, kind=kind, place=place, data=data)
    elif value.has("items") and (not kind or kind.endswith("List") or not value.has("spec")):
        items = _elements(value.part("items"))
        if items is None:
            yield _syntax(place, tr("the items of the list are no list"), origin, _item_kind(kind))
        else:
            whose = kind if kind.endswith("List") else "List"
            yield from list_records(items, whose, api_version, origin, lines=lines)
    elif kind:
        yield from _object(data, kind, api_version, place, hints)
    else:
        yield from _kindless(value, origin)


def _kindless(value: _Value, origin: Origin) -> Iterator[Record]:
    """Yield what a mapping without a kind may be: versions, a configz, discovery."""
    place, hints = origin.place, origin.hints
    if value.has("gitVersion"):
        yield Document(api_version="", kind=VERSION_INFO, place=place, data=value.value)
    elif value.has("serverVersion") and value.part("serverVersion") is not None:
        yield from _version(value.part("serverVersion"), place)
    elif value.has("clientVersion"):
        yield _client_only(place)
    elif value.has("info") and value.part("info") is not None:
        yield from _version(value.part("info"), place)
    elif value.has("kubeletconfig") and value.part("kubeletconfig") is not None:
        inner = value.part("kubeletconfig")
        if _Value(inner).is_map:
            yield Document(api_version="", kind=KUBELET_CONFIGZ, place=place, data=inner, subject=hints.node)
        else:
            yield _syntax(place, tr("kubeletconfig is no mapping"), origin)
    elif value.has("groupVersion") and value.has("resources"):
        yield Document(api_version="v1", kind="APIResourceList", place=place, data=value.value)
    elif hints.kind and value.has("metadata"):
        yield from _object(value.value, hints.kind, hints.assumed_version, place, hints)
    else:
        yield _not_kubernetes(place)


def _version(part: Any, place: str) -> Iterator[Record]:
    inner = _Value(part)
    if inner.is_map and inner.has("gitVersion"):
        yield Document(api_version="", kind=VERSION_INFO, place=place, data=part)
    else:
        yield _not_kubernetes(place)


def _object(data: Any, kind: str, api_version: str, place: str, hints: Hints) -> Iterator[Record]:
    if kind in _LEFT_OUT and api_version in {"v1", ""}:
        yield Problem(
            place=place,
            reason=Reason.LEFT_OUT,
            detail=tr(_LEFT_OUT[kind]),
            failed=False,
            kind=kind if kind == "Secret" else "",
        )
        return
    yield Document(
        api_version=api_version,
        kind=kind,
        place=place,
        data=data,
        namespace=hints.namespace,
    )


def list_records(
    items: list[Any],
    kind: str,
    api_version: str,
    origin: Origin,
    *,
    complete: bool = True,
    lines: tuple[int, ...] = (),
) -> Iterator[Record]:
    """Yield the items of a list and what was listed.

    ``kind`` is the list's own: ``List`` (items carry theirs) or a typed list's (``PodList``), whose items may not.
    """
    place, hints = origin.place, origin.hints
    typed = _item_kind(kind)
    if typed in _LEFT_OUT:
        yield from _object(None, typed, "v1", place, hints)
        return
    counts: dict[tuple[str, str], int] = {}
    left_out: dict[str, int] = {}
    if typed:
        counts[api_version, typed] = 0
    for index, item in enumerate(items):
        at = (
            f"{origin.file or place}:{lines[index]} items[{index}]"
            if index < len(lines)
            else f"{place} items[{index}]"
        )
        raw = isinstance(item, msgspec.Raw)
        if raw and typed and bytes(memoryview(item)[:1]) == b"{":
            # Items of a typed list are of its kind, whether they repeat it or not.
            counts[api_version, typed] += 1
            yield Document(
                api_version=api_version, kind=typed, place=at, data=item, namespace=hints.namespace
            )
            continue
        own = _item_head(item)
        if own is None:
            yield Problem(
                place=at, reason=Reason.NOT_KUBERNETES, detail=tr("the item is no object"), failed=False
            )
            continue
        item_kind = own.kind or typed or hints.kind
        item_version = (
            own.apiVersion or (api_version if typed else "") or ("" if own.kind else hints.assumed_version)
        )
        nested = item_kind.endswith("List") or item_kind in {"Status", *_DISCOVERY}
        if not item_kind or nested:
            yield from value_records(item, origin._replace(place=at))
            continue
        if item_kind in _LEFT_OUT and item_version in {"v1", ""}:
            left_out[item_kind] = left_out.get(item_kind, 0) + 1
            continue
        counts[item_version, item_kind] = counts.get((item_version, item_kind), 0) + 1
        yield Document(
            api_version=item_version, kind=item_kind, place=at, data=item, namespace=hints.namespace
        )
    for kind_left in left_out:
        yield from _object(None, kind_left, "v1", place, hints)
    if not counts and not items and not left_out:
        if not hints.kind:
            yield Problem(
                place=place,
                reason=Reason.EMPTY,
                detail=tr("an empty list; neither it nor the file's name tells of what"),
                failed=False,
            )
            return
        if hints.kind in _LEFT_OUT:
            return
        counts[hints.api_version, hints.kind] = 0
    for (item_version, item_kind), count in counts.items():
        group = group_of(item_version) if item_version else hints.group
        yield ListSeen(
            group=group,
            kind=item_kind,
            api_version=item_version,
            place=place,
            count=count,
            namespace=_namespace(items, item_kind, group, origin, typed=bool(typed)),
            complete=complete,
        )


def _item_head(item: Any) -> _ItemHead | None:
    if isinstance(item, msgspec.Raw):
        try:
            return msgspec.json.decode(item, type=_ItemHead)
        except msgspec.ValidationError:
            return _ItemHead() if bytes(memoryview(item)[:1]) == b"{" else None
        except msgspec.DecodeError:
            return None
    if not isinstance(item, dict):
        return None
    return _ItemHead(apiVersion=_text(item.get("apiVersion")), kind=_text(item.get("kind")))


def _namespace(items: list[Any], kind: str, group: str, origin: Origin, *, typed: bool) -> str | None:
    """Return the one namespace of a list, where the capture's layout or the file's name and all items say it.

    In a stream of typed lists each may be of one namespace: then it is what its items say, and empty for an empty list.
    """
    hints = origin.hints
    known = RESOURCES.get(resource_name(group, kind).partition(".")[0])
    if known is not None and known[0] == group and not known[2]:
        return None
    if hints.namespace:
        return hints.namespace
    named = bool(hints.maybe_namespace) and kind == hints.kind
    if not named and not (origin.stream and typed):
        return None
    found: set[str] = set()
    for item in items:
        try:
            placed = (
                msgspec.json.decode(item, type=_Placed)
                if isinstance(item, msgspec.Raw)
                else msgspec.convert(item, _Placed)
            )
        except msgspec.MsgspecError:
            return None
        found.add(placed.metadata.namespace if placed.metadata else "")
    if named:
        return hints.maybe_namespace if found <= {hints.maybe_namespace} else None
    if not found:
        return ""
    return found.pop() or None if len(found) == 1 else None


def _array(items: list[Any], origin: Origin, lines: tuple[int, ...]) -> Iterator[Record]:
    """Yield a bare array: discovery as troubleshoot.sh writes it, or objects."""
    heads = [_Value(item) for item in items[:1]]
    first = heads[0] if heads else None
    if first is not None and first.is_map and not first.text("kind"):
        kind = ""
        if first.has("groupVersion") and first.has("resources"):
            kind = "APIResourceList"
        elif first.has("versions") and not first.has("metadata"):
            kind = "APIGroup"
        if kind:
            for index, item in enumerate(items):
                yield Document(api_version="v1", kind=kind, place=f"{origin.place} items[{index}]", data=item)
            return
    if items and origin.hints.kind == "" and all(not _Value(item).is_map for item in items[:10]):
        yield _not_kubernetes(origin.place)
        return
    yield from list_records(items, "List", "", origin, lines=lines)


def _own_file(schema: str, value: _Value, origin: Origin) -> Iterator[Record]:
    if schema == SNAPSHOT_SCHEMA:
        data = bytes(value.value) if value.raw else msgspec.json.encode(value.value)
        yield SnapshotFile(place=origin.place, data=data)
        return
    what = schema.removeprefix("changegen.").partition("/")[0]
    detail = (
        tr(
            "the snapshot has the schema {schema}, this changegen reads {known}",
            schema=schema,
            known=SNAPSHOT_SCHEMA,
        )
        if what == "snapshot"
        else tr("a changegen {what} is no input of cluster facts", what=what)
    )
    yield Problem(place=origin.place, reason=Reason.NOT_KUBERNETES, detail=detail, failed=what == "snapshot")


def _errors_file(value: _Value, origin: Origin) -> Iterator[Record]:
    """Yield the read errors that troubleshoot.sh keeps: null, {namespace: message}, or [message, …]."""
    if value.is_null:
        return
    content = msgspec.json.decode(value.value) if value.raw else value.value
    entries: list[tuple[str, Any]]
    if isinstance(content, dict):
        entries = [(str(key), content[key]) for key in sorted(content)]
    else:
        entries = [("", entry) for entry in content] if isinstance(content, list) else [("", content)]
    for namespace, message in entries:
        text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
        if not text:
            continue
        code = 403 if "forbidden" in text.lower() else 404 if "not find the requested" in text else 500
        yield _status(origin, code=code, reason="", message=text, resource="", group="", namespace=namespace)


def _status_object(value: _Value, origin: Origin) -> Iterator[Record]:
    code = value.get("code")
    reason = value.text("reason")
    details = value.get("details")
    details = details if isinstance(details, dict) else {}
    if value.get("status") == "Success":
        yield Problem(
            place=origin.place,
            reason=Reason.NOT_KUBERNETES,
            detail=tr("an answer without content"),
            failed=False,
        )
        return
    yield _status(
        origin,
        code=code if isinstance(code, int) and not isinstance(code, bool) else _CODES.get(reason, 500),
        reason=reason,
        message=value.text("message"),
        resource=_text(details.get("kind")),
        group=_text(details.get("group")),
    )


def _status(
    origin: Origin, *, code: int, reason: str, message: str, resource: str, group: str, namespace: str = ""
) -> Problem:
    """Return an error answer as a problem, with the kind it concerns from its details, its message or the file's name."""
    named = _CANNOT.search(message) or _FORBIDDEN.search(message)
    if named is not None and not resource:
        resource, group = named["resource"], named["group"] or ""
    if named is not None and not namespace:
        namespace = named.groupdict().get("namespace") or ""
    resource = resource.partition("/")[0]
    known = RESOURCES.get(resource.lower())
    kind = ""
    if known is not None and group in {"", known[0]}:
        group, kind = known[0], known[1]
    elif resource and resource[0].isupper():
        kind = resource
    elif not resource:
        kind, group = origin.hints.kind, origin.hints.group
    said = f"{code} {reason}".strip()
    return Problem(
        place=origin.place,
        reason=Reason.STATUS_ERROR,
        detail=tr("an error answer ({code}): {message}", code=said, message=message[:500]),
        failed=code != 404,
        kind=kind or (resource if not known else ""),
        group=group,
        namespace=namespace or origin.hints.namespace,
        code=code,
    )


# ------------------------------------------------------------------------------------------------------------ problems


def _not_kubernetes(place: str) -> Problem:
    return Problem(
        place=place,
        reason=Reason.NOT_KUBERNETES,
        detail=tr("it is no Kubernetes object and nothing else that is known"),
        failed=False,
    )


def _client_only(place: str) -> Problem:
    return Problem(
        place=place,
        reason=Reason.NOT_KUBERNETES,
        detail=tr("it holds kubectl's own version only, the server's is missing"),
        failed=False,
        hint=tr("capture it with kubectl get --raw /version"),
    )


def _syntax(place: str, detail: str, origin: Origin, kind: str = "") -> Problem:
    return Problem(
        place=place,
        reason=Reason.SYNTAX,
        detail=detail,
        failed=True,
        kind=kind or origin.hints.kind,
        group=origin.hints.group,
        namespace=origin.hints.namespace,
    )


def _cut(origin: Origin, size: int, more: str, *, kind: str = "", whole: bool = False) -> Problem:
    detail = tr("the file is cut off at byte {n}", n=size)
    return Problem(
        place=origin.place,
        reason=Reason.TRUNCATED,
        detail=more if whole else f"{detail}; {more}" if more else detail,
        failed=True,
        kind=kind or origin.hints.kind,
        group=origin.hints.group,
        namespace=origin.hints.namespace,
        hint=tr("capture it again"),
    )
