"""YAML as people have it, read from libyaml's events at C speed and without surprises.

The rules, which hold for captured objects and for profiles:

* Scalars follow YAML 1.2's core schema (``on``, ``yes``, dates, sexagesimals are text), and a plain number is a number
  only if writing it back gives the same text: ``1.30``, ``010``, ``0x1F``, ``1_000`` and ``1e3`` stay text. So a version
  or a taint value never changes by being read.
* Keys are always text, as in Kubernetes.
* Anchors and merge keys work; what aliases may add in one document is bounded (:data:`MAX_ALIAS_NODES`), so a nest of
  aliases cannot explode when it is walked. An alias of an enclosing node is refused.
* Tags other than those of the core schema are refused; nothing is ever constructed but plain values.

Captured objects are read leniently: of a duplicate key the last value holds, with a remark; before an error, what is
complete is kept. :func:`load_strict` is for files written for changegen: duplicates and aliases are errors, and each
node's line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from changegen.errors import ChangegenError, ProfileError
from changegen.i18n import tr

_Parser: Any
try:
    from yaml import cyaml

    _Parser = cyaml.CParser  # type: ignore[attr-defined]
    FAST = True
except ImportError:  # pragma: no cover  PyYAML was built without libyaml
    from yaml.parser import Parser as _PureParser
    from yaml.reader import Reader as _Reader
    from yaml.scanner import Scanner as _Scanner

    class _Pure(_Reader, _Scanner, _PureParser):
        def __init__(self, stream: bytes) -> None:
            _Reader.__init__(self, stream)
            _Scanner.__init__(self)
            _PureParser.__init__(self)

    _Parser = _Pure
    FAST = False
"""Whether PyYAML's C parser is there; without it a large file takes about ten times as long."""

MAX_ALIAS_NODES = 100_000
"""How many nodes all aliases of one document may add to it."""
MAX_DEPTH = 200
"""How deep nodes may nest; Kubernetes objects stay below 30."""

Path = tuple[str | int, ...]

_CORE_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+\Z")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_FIRST = frozenset("-0123456789tTfFnN~")
# libyaml refuses the whole stream for any character outside this set
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why the rest of a document or of a stream was not read; ``line`` counts from 1."""

    reason: str
    """``syntax``, ``unsafe-tag`` or ``alias-bomb``."""
    detail: str
    line: int


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A key that stands twice in one mapping; the last value was taken. ``line`` is the later one's, from 1."""

    key: str
    line: int


class YamlDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a stream.

    ``item_lines`` has the line of each item when the root holds a sequence ``items``. A document with ``trouble`` holds
    only what was complete before it: of the root's ``items`` those that ended.
    """

    value: Any
    line: int
    duplicates: tuple[Duplicate, ...] = ()
    item_lines: tuple[int, ...] = ()
    trouble: Trouble | None = None


class StrictYaml(msgspec.Struct, frozen=True, kw_only=True):
    """One strictly read document with the line of every node, keyed by its path."""

    value: Any
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """Return the line of the node at ``path``, or of its nearest ancestor, from 1."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(data: bytes | str) -> Iterator[YamlDocument]:
    """Yield the documents of a stream, leniently. Empty documents (only comments) are left out.

    A syntax error ends the stream; a refused document (tag, alias bomb) does not.
    """
    reader = _Builder(data)
    while (document := reader.next()) is not None:
        if document.value is not None or document.trouble is not None:
            yield document


def load_strict(text: bytes | str, place: str, *, error: type[ChangegenError] = ProfileError) -> StrictYaml:
    """Read one document strictly; ``error`` is raised with ``where`` = ``place:line`` for anything odd.

    Refused: syntax errors, duplicate keys, anchors with aliases, tags, bytes that are not UTF-8, control characters, a
    second document, and an empty file.
    """
    if isinstance(text, bytes):
        data = text
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as bad:
            line = data.count(b"\n", 0, bad.start) + 1
            raise error(tr("the file is not UTF-8"), where=f"{place}:{line}") from None
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        code = f"U+{ord(odd[0]):04X}"
        raise error(tr("the file holds the control character {code}", code=code), where=f"{place}:{line}")
    reader = _Builder(text, strict=True)
    document = reader.next()
    while document is not None and document.value is None and document.trouble is None:
        document = reader.next()
    if document is None:
        raise error(tr("the file is empty"), where=place)
    lines = reader.lines
    for found in (document, reader.next()):
        if found is not None and found.trouble is not None:
            raise error(found.trouble.detail, where=f"{place}:{found.trouble.line}")
        if found is not None and found is not document and found.value is not None:
            raise error(tr("the file holds a second document"), where=f"{place}:{found.line}")
    return StrictYaml(value=document.value, lines=lines)


def printable(data: bytes) -> tuple[bytes, int, int]:
    """Replace what YAML forbids in UTF-8 text by U+FFFD.

    Returns the text, how many characters were replaced, and the byte offset of the first (-1: none).
    """
    if data.isascii() and b"\x7f" not in data:
        return data, 0, -1  # ASCII controls were replaced before
    text = data.decode("utf-8", errors="replace")
    first = _UNPRINTABLE.search(text)
    if first is None:
        return data, 0, -1
    cleaned, count = _UNPRINTABLE.subn("\ufffd", text)
    return cleaned.encode(), count, len(text[: first.start()].encode())


def scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar by the rules of this module."""
    if text and text[0] not in _FIRST:
        return text
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) < 20 and text != "-0":
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text):
            value = float(text)
            if repr(value) == text:
                return value
    return text


class _Refused(Exception):  # noqa: N818  internal control flow
    def __init__(self, reason: str, detail: str, line: int) -> None:
        super().__init__(detail)
        self.trouble = Trouble(reason=reason, detail=detail, line=line)


class _Frame:
    """An open mapping or sequence."""

    __slots__ = ("anchor", "built", "key", "line", "merges", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, built: int, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.built = built
        self.line = line
        self.key: str | None = None
        self.merges: list[dict[str, Any]] | None = None


class _Anchor(NamedTuple):
    value: Any
    size: int


class _Builder:
    """Builds plain values from events, without recursion."""

    def __init__(self, data: bytes | str, *, strict: bool = False) -> None:
        self.strict = strict
        self.data = data
        self.parser: Any = None
        self.lines: dict[Path, int] = {}
        self.ended = False
        self.scalars: dict[str, Any] = {}
        self.failure: Trouble | None = None
        try:
            self.parser = _Parser(data)
            self.parser.get_event()
        except yaml.YAMLError as error:
            self.failure = _trouble(error, data)

    def next(self) -> YamlDocument | None:
        """Return the next document, or None at the end."""
        if self.ended:
            return None
        if self.failure is not None:
            self.ended = True
            return YamlDocument(value=None, line=self.failure.line, trouble=self.failure)
        get = self.parser.get_event
        try:
            event: Any = get()
            while type(event) is not DocumentStartEvent:
                if type(event) is StreamEndEvent or event is None:
                    self.ended = True
                    return None
                event = get()
        except yaml.YAMLError as error:
            self.ended = True
            trouble = _trouble(error, self.data)
            return YamlDocument(value=None, line=trouble.line, trouble=trouble)
        start: Any = event.start_mark
        return self._document(start.line + 1)

    def _document(self, line: int) -> YamlDocument:
        self.lines = {}
        stack: list[_Frame] = []
        duplicates: list[Duplicate] = []
        item_lines: list[int] = []
        root: list[Any] = []
        try:
            self._build(stack, duplicates, item_lines, root)
        except yaml.YAMLError as error:
            self.ended = True
            trouble = _trouble(error, self.data)
        except _Refused as refused:
            trouble = refused.trouble
            self._skip_document()
        else:
            return YamlDocument(
                value=root[0] if root else None,
                line=line,
                duplicates=tuple(duplicates),
                item_lines=tuple(item_lines),
            )
        # Of a broken document the complete values of its root are kept, and of its items those that ended.
        value: Any = None
        if stack and isinstance(stack[0].value, dict):
            value = dict(stack[0].value)
            if len(stack) > 1 and stack[0].key == "items" and isinstance(stack[1].value, list):
                value["items"] = list(stack[1].value)
        return YamlDocument(
            value=value,
            line=line,
            duplicates=tuple(duplicates),
            item_lines=tuple(item_lines),
            trouble=trouble,
        )

    def _skip_document(self) -> None:
        get = self.parser.get_event
        try:
            event = get()
            while (
                type(event) is not DocumentEndEvent
                and type(event) is not StreamEndEvent
                and event is not None
            ):
                event = get()
        except yaml.YAMLError:
            self.ended = True
        else:
            self.ended = type(event) is not DocumentEndEvent

    def _build(
        self, stack: list[_Frame], duplicates: list[Duplicate], item_lines: list[int], root: list[Any]
    ) -> None:
        get = self.parser.get_event
        scalars = self.scalars
        anchors: dict[str, _Anchor | None] = {}
        built = 0  # nodes so far, those behind aliases counted each time
        aliased = 0
        strict = self.strict
        frame: Any = None
        event: Any
        while True:
            event = get()
            kind = type(event)
            anchor = None
            size = 1
            if kind is ScalarEvent:
                if frame is not None and frame.key is None and type(frame.value) is dict:
                    key = event.value
                    if event.tag is not None and event.tag not in {"!", _CORE_TAG + "str"}:
                        raise _tag_refused(event)
                    if key == "<<" and event.implicit[0]:
                        frame.key = "<<"
                        frame.merges = frame.merges or []
                        built += 1
                        continue
                    if key in frame.value:
                        if strict:
                            raise _Refused(
                                "duplicate-key",
                                tr("the key {key} stands twice", key=repr(key)),
                                event.start_mark.line + 1,
                            )
                        duplicates.append(Duplicate(key=key, line=event.start_mark.line + 1))
                    frame.key = key
                    if strict:
                        self.lines[*_path(stack), key] = event.start_mark.line + 1
                    built += 1
                    if event.anchor is not None:
                        anchors[event.anchor] = _Anchor(key, 1)
                    continue
                if event.tag is None:
                    value = event.value
                    if event.implicit[0]:
                        known = scalars.get(value, scalars)
                        if known is scalars:
                            known = scalar(value)
                            if len(scalars) < 100_000 and len(value) < 64:
                                scalars[value] = known
                        value = known
                else:
                    value = _tagged(event)
                anchor = event.anchor
                built += 1
                if strict and (frame is None or type(frame.value) is list):
                    self._note_line(stack, event.start_mark.line + 1)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                if event.tag is not None and event.tag != "!":
                    wanted = _CORE_TAG + ("map" if kind is MappingStartEvent else "seq")
                    if event.tag != wanted:
                        raise _tag_refused(event)
                if frame is not None and frame.key is None and type(frame.value) is dict:
                    raise _Refused("syntax", tr("a key of a mapping is no text"), event.start_mark.line + 1)
                if len(stack) >= MAX_DEPTH:
                    raise _Refused(
                        "syntax", tr("nodes nest deeper than {n}", n=MAX_DEPTH), event.start_mark.line + 1
                    )
                at = event.start_mark.line + 1
                if strict and (frame is None or type(frame.value) is list):
                    self._note_line(stack, at)
                if len(stack) == 2 and stack[0].key == "items" and type(frame.value) is list:
                    item_lines.append(at)
                if event.anchor is not None:
                    anchors[event.anchor] = None
                frame = _Frame({} if kind is MappingStartEvent else [], event.anchor, built, at)
                stack.append(frame)
                built += 1
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                done = stack.pop()
                if done.merges:
                    _merge(done)
                value = done.value
                anchor = done.anchor
                size = built - done.built
                frame = stack[-1] if stack else None
            elif kind is AliasEvent:
                at = event.start_mark.line + 1
                if strict:
                    raise _Refused("alias-bomb", tr("anchors and aliases are not allowed here"), at)
                if event.anchor not in anchors:
                    raise _Refused("syntax", tr("the alias {name} has no anchor", name=event.anchor), at)
                found = anchors[event.anchor]
                if found is None:
                    raise _Refused(
                        "alias-bomb",
                        tr("the alias {name} stands inside its own anchor", name=event.anchor),
                        at,
                    )
                aliased += found.size
                built += found.size
                if aliased > MAX_ALIAS_NODES:
                    raise _Refused(
                        "alias-bomb",
                        tr("its aliases stand for more than {n} nodes", n=MAX_ALIAS_NODES),
                        at,
                    )
                value = found.value
                if frame is not None and frame.key is None and type(frame.value) is dict:
                    if not isinstance(value, str):
                        raise _Refused("syntax", tr("a key of a mapping is no text"), at)
                    frame.key = value
                    continue
                if len(stack) == 2 and stack[0].key == "items" and type(stack[1].value) is list:
                    item_lines.append(at)
            elif kind is DocumentEndEvent:
                return
            else:  # pragma: no cover  the parser gives nothing else inside a document
                raise _Refused("syntax", tr("the YAML stream ends inside a document"), 1)
            if anchor is not None:
                anchors[anchor] = _Anchor(value, size)
            if frame is None:
                root.append(value)
            elif type(frame.value) is list:
                if len(stack) == 2 and kind is ScalarEvent and stack[0].key == "items":
                    item_lines.append(event.start_mark.line + 1)
                frame.value.append(value)
            elif frame.key == "<<" and frame.merges is not None:
                sources = value if isinstance(value, list) else [value]
                if not all(isinstance(source, dict) for source in sources):
                    raise _Refused("syntax", tr("a merge key needs a mapping"), event.start_mark.line + 1)
                frame.merges.extend(sources)
                frame.key = None
            else:
                frame.value[frame.key] = value
                frame.key = None

    def _note_line(self, stack: list[_Frame], line: int) -> None:
        path = _path(stack)
        if stack and isinstance(stack[-1].value, list):
            path = (*path, len(stack[-1].value))
        self.lines.setdefault(path, line)


def _path(stack: list[_Frame]) -> Path:
    """Return the path of the innermost open container."""
    return tuple(
        frame.key if isinstance(frame.value, dict) and frame.key is not None else len(frame.value)
        for frame in stack[:-1]
    )


def _merge(frame: _Frame) -> None:
    """Add the merged keys that the mapping does not have itself; an earlier source wins over a later one."""
    target = frame.value
    if isinstance(target, dict):
        for source in frame.merges or ():
            for key, value in source.items():
                target.setdefault(key, value)


def _tagged(event: Any) -> Any:
    """Return the value of a scalar with an explicit core tag."""
    if event.tag in {"!", _CORE_TAG + "str"}:
        return event.value
    value = scalar(event.value)
    wanted: dict[str, tuple[type, ...]] = {
        _CORE_TAG + "int": (int,),
        _CORE_TAG + "float": (float, int),
        _CORE_TAG + "bool": (bool,),
        _CORE_TAG + "null": (type(None),),
    }
    if event.tag not in wanted:
        raise _tag_refused(event)
    if not isinstance(value, wanted[event.tag]):
        raise _Refused("syntax", tr("the value does not fit its tag"), event.start_mark.line + 1)
    return value


def _tag_refused(event: Any) -> _Refused:
    return _Refused(
        "unsafe-tag",
        tr("the tag {tag} is refused", tag=str(event.tag).replace(_CORE_TAG, "!!")),
        event.start_mark.line + 1,
    )


def _trouble(error: yaml.YAMLError, data: bytes | str) -> Trouble:
    """Return libyaml's complaint in plain words, without the file's content."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 1
    text = data if isinstance(data, bytes) else data.encode()
    start = 0
    for _ in range(line - 1):
        start = text.find(b"\n", start) + 1
    shown = text[start : start + 200].split(b"\n", 1)[0]
    if b"\t" in shown[: len(shown) - len(shown.lstrip())]:
        return Trouble(
            reason="syntax", detail=tr("a tab indents this line, YAML allows only spaces"), line=line
        )
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "malformed")
    return Trouble(reason="syntax", detail=tr("it is not valid YAML: {problem}", problem=problem), line=line)
