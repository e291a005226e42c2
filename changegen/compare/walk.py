"""Two things of one kind -> their differences, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec

from changegen.compare.tables import (
    ECHOES,
    FOLDED,
    IDENTITY,
    PARTS,
    UNREAD,
    WHOLE_MAPPINGS,
    Kind,
    Names,
    Side,
    compared,
)
from changegen.i18n import tr
from changegen.model import snapshot as s

Value = Any


class Walk:
    """Collects differences of one area."""

    def __init__(self, area: str) -> None:
        self.area = area
        self.listed = True
        """Drivers: whether the second reading holds a list of ResourceSlices."""
        self.found: dict[tuple[Any, ...], list[str]] = {}
        self.unread: dict[tuple[str, Names, Side], list[str]] = {}
        self._subject = ""
        self._own: list[tuple[Kind, Names, Value, Value, str]] = []

    def pair(
        self, subject: str, before: Any, after: Any, prefix: str, skip: frozenset[str] = frozenset()
    ) -> None:
        """Compare one thing with its counterpart.

        Args:
            subject: What it is called in changes.
            before: The thing of the first reading.
            after: Its counterpart.
            prefix: Its path in the snapshot: ``nodes[]``.
            skip: Fields that are told elsewhere, or are new by necessity.
        """
        self._subject, self._own = subject, []
        if isinstance(before, s.Component) and before.flags_observable != after.flags_observable:
            skip |= {"flags", "flags_observable", "config_file"}
            self._not_read(("flags",), "after" if before.flags_observable else "before")
        self._struct(before, after, prefix, (), skip)
        ready = _still_ready(before, after, listed=self.listed) if isinstance(before, s.Driver) else ""
        for kind, path, old, new, note in self._kept():
            told = "; ".join(filter(None, (note, ready if path in _OF_SLICES else "")))
            self.add(kind, path, subject, old, new, told)

    def add(self, kind: Kind, path: Names, subject: str, old: Value, new: Value, note: str = "") -> None:
        """Keep one difference; equal ones of several subjects become one change."""
        key = (kind, path, _hashable(old), _hashable(new), note)
        self.found.setdefault(key, []).append(subject)

    def _kept(self) -> Iterable[tuple[Kind, Names, Value, Value, str]]:
        told = {path: (old, new) for _, path, old, new, _ in self._own}
        heads = {path[:n] for path in told for n in range(1, len(path) + 1)}
        heads |= set(self._unread_of_subject())
        for row in self._own:
            path, pair = row[1], (row[2], row[3])
            if any(path == echo and told.get(of) == pair for echo, of in ECHOES.get(self.area, ())):
                continue
            beside = path[:-1]
            if path[-1] == "image_id" and told.get((*beside, "image")) == pair:
                continue
            if path[-1] in {"exit_code", "message"} and (*beside, "restarts") in told:
                continue
            if any(
                _starts(path, head) and any(len(h) == len(of) and _starts(h, of) for h in heads)
                for head, of in FOLDED.get(self.area, ())
            ):
                continue
            yield row

    def _unread_of_subject(self) -> list[Names]:
        return [path for (_, path, _), subjects in self.unread.items() if subjects[-1] == self._subject]

    def _not_read(self, path: Names, side: Side) -> None:
        self.unread.setdefault((self.area, path, side), []).append(self._subject)

    def _put(self, kind: Kind, path: Names, old: Value, new: Value, note: str = "") -> None:
        self._own.append((kind, path, old, new, note))

    def _struct(self, a: Any, b: Any, prefix: str, path: Names, skip: frozenset[str] = frozenset()) -> None:
        for field, where in compared(a, prefix):
            if field in skip:
                continue
            old, new = getattr(a, field), getattr(b, field)
            if old != new:
                self._value(old, new, where, (*path, field))

    def _value(self, a: Any, b: Any, where: str, path: Names) -> None:
        if where in UNREAD:
            sentinel = UNREAD[where]
            if (a == sentinel) != (b == sentinel):
                self._not_read(path, "before" if a == sentinel else "after")
                return
        if isinstance(a, s.Attribute) and isinstance(b, s.Attribute) and a.type == b.type:
            for field in ("value", "values"):
                if getattr(a, field) != getattr(b, field):
                    self._leaf(getattr(a, field), getattr(b, field), where, path)
        elif isinstance(a, msgspec.Struct) and type(a) is type(b):
            self._struct(a, b, where, path)
        elif isinstance(a, dict) and isinstance(b, dict):
            self._mapping(a, b, f"{where}{{}}", path)
        elif _of_structs(a) or _of_structs(b):
            self._mapping(_by_identity(a or ()), _by_identity(b or ()), f"{where}[]", path)
        else:
            self._leaf(a, b, where, path)

    def _mapping(self, a: Mapping[str, Any], b: Mapping[str, Any], where: str, path: Names) -> None:
        if where in WHOLE_MAPPINGS:
            gone = {k: v for k, v in a.items() if k not in b}
            come = {k: v for k, v in b.items() if k not in a}
            moved = [k for k, v in a.items() if k in b and b[k] != v]
            if gone:
                self._put("removed", path, gone, None)
            if come:
                self._put("added", path, None, come)
            if moved:
                self._put("changed", path, {k: a[k] for k in moved}, {k: b[k] for k in moved})
            return
        for key in chain(a, (k for k in b if k not in a)):
            here = (*path, key)
            if key not in b:
                self._put("removed", here, shown_value(a[key], where), None)
            elif key not in a:
                self._put("added", here, None, shown_value(b[key], where))
            elif a[key] != b[key]:
                self._value(a[key], b[key], where, here)

    def _leaf(self, a: Any, b: Any, where: str, path: Names) -> None:
        part = PARTS.get(where)
        if part is not None and part.sub("", str(a)) == part.sub("", str(b)):
            return
        old, new = shown_value(a, where), shown_value(b, where)
        note = _list_note(old, new) if isinstance(old, tuple) and isinstance(new, tuple) else ""
        self._put("changed", path, old, new, note)


_OF_SLICES: Final = (("devices",), ("nodes",))


def _still_ready(before: s.Driver, after: s.Driver, *, listed: bool) -> str:
    """Say it where devices are gone while the Pods that should publish them are as before; empty otherwise."""
    if after.devices >= before.devices and set(before.nodes) <= set(after.nodes):
        return ""
    notes = []
    same = before.workload == after.workload and before.image == after.image
    if same and after.workload and after.ready and after.ready == after.desired:
        workload = f"{after.workload.kind} {after.workload.namespace}/{after.workload.name}"
        notes.append(
            tr(
                "{workload} is unchanged and {ready}/{wanted} ready: ready Pods are no devices",
                workload=workload,
                ready=after.ready,
                wanted=after.desired,
            )
        )
    if not listed:
        notes.append(tr("the second reading holds no list of ResourceSlices, which could prove it"))
    return "; ".join(notes)


def _starts(path: Names, head: Names) -> bool:
    return len(path) >= len(head) and all(h in {"*", p} for h, p in zip(head, path, strict=False))


def _of_structs(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], msgspec.Struct)


def _by_identity(items: tuple[Any, ...]) -> dict[str, Any]:
    if not items:
        return {}
    fields = IDENTITY[type(items[0])]
    keyed: dict[str, Any] = {}
    for item in items:
        values = [str(v) for f in fields if (v := getattr(item, f)) not in {"", None}]
        put_unique(keyed, "/".join(values) if fields else "", item)
    return keyed


def put_unique(keyed: dict[str, Any], key: str, item: Any) -> None:
    """Put an item under its key, or under the first free ``KEY #2``, ``KEY #3``, …; without a key under ``#1``, …."""
    if key and key not in keyed:
        keyed[key] = item
        return
    number = 2 if key else 1
    while (numbered := f"{key} #{number}".strip()) in keyed:
        number += 1
    keyed[numbered] = item


class _Items(tuple[tuple[str, Any], ...]):
    """A mapping as a key."""

    __slots__ = ()


def _hashable(value: Value) -> Any:
    return _Items(value.items()) if isinstance(value, dict) else value


def shown_value(value: Any, where: str) -> Value:
    """Return a value as a change can hold it: a scalar, a list of them, or a flat mapping."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, s.Attribute):
        return value.values or value.value
    if isinstance(value, msgspec.Struct):
        return _flat(value, where)
    if isinstance(value, tuple):
        if _of_structs(value):
            return tuple(_by_identity(value))
        return tuple(v if isinstance(v, str | int | float | bool) or v is None else str(v) for v in value)
    if isinstance(value, dict):
        flat: dict[str, Any] = {}
        for key, entry in value.items():
            shown = shown_value(entry, where)
            flat[key] = joined_value(shown)
        return flat
    return str(value)


def joined_value(value: Value) -> Any:
    """Return a shown value as a scalar: lists and mappings become text."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    return value


def _flat(value: msgspec.Struct, where: str) -> dict[str, Any]:
    """Return what a thing says beyond its identity and its defaults, one level deep."""
    identity = IDENTITY.get(type(value), ())
    defaults = {f.name: f for f in msgspec.structs.fields(type(value))}
    flat = {}
    for field, below in compared(value, where):
        entry = getattr(value, field)
        default = defaults[field].default
        if (
            field in identity
            or entry in ((), {}, "", None)
            or (default is not msgspec.NODEFAULT and entry == default)
        ):
            continue
        flat[field] = joined_value(shown_value(entry, below))
    return flat


@lru_cache(maxsize=512)
def _list_note(before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    """Say what came and went in a list of plain values."""
    if len(before) + len(after) > 400:
        return ""
    from deepdiff import DeepDiff

    found = DeepDiff(
        list(before),
        list(after),
        ignore_order=True,
        report_repetition=True,
        ignore_private_variables=False,
        view="tree",
    )
    if not found:
        return tr("only the order changed")
    gone = [str(row.t1) for row in found.get("iterable_item_removed", ())]
    come = [str(row.t2) for row in found.get("iterable_item_added", ())]
    for row in found.get("values_changed", ()):
        gone.append(str(row.t1))
        come.append(str(row.t2))
    notes = []
    if gone:
        notes.append(tr("gone: {names}", names=", ".join(sorted(gone))))
    if come:
        notes.append(tr("new: {names}", names=", ".join(sorted(come))))
    return "; ".join(notes)


def unhashed(value: Any) -> Value:
    """Return the value that a key of ``Walk.found`` stands for."""
    return dict(value) if isinstance(value, _Items) else value
