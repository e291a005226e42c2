"""What is wrong with a profile file by itself: its types, and what has the right type and makes no sense."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from changegen.i18n import tr
from changegen.model.profile import SCHEMA, Profile, Window
from changegen.profiles.files import IDENTITIES, File, Issue, Path_, Severity, did_you_mean
from changegen.times import read_time
from changegen.versions import InvalidVersion, Version

_WISH = re.compile(r"^\s*(?P<op>>=|<=|==|=|>|<|~|\^)?\s*(?P<version>\S+)\s*$")


def file_issues(file: File) -> list[Issue]:
    """Return everything that is wrong with a file by itself: its types, and only where those fit its meaning."""
    issues = [file.issue(path, message) for path, message in _shape(file.value, Profile, ())]
    if not issues:
        issues = [file.issue(path, message, severity) for path, message, severity in _meaning(file.value)]
    return issues


def _shape(value: Any, type_: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    """Yield every place where a value does not have the type that the model gives it."""
    bare = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        yield from _struct_shape(value, bare, path)
    elif get_origin(bare) is tuple and isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _shape(entry, get_args(bare)[0], (*path, index))
    else:
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError:
            yield path, _expected(value, type_)


def _struct_shape(value: Any, type_: type[msgspec.Struct], path: Path_) -> Iterator[tuple[Path_, str]]:
    if not isinstance(value, dict):
        yield path, tr("expected a mapping, found {found}", found=_said(value))
        return
    hints = get_type_hints(type_, include_extras=True)
    for key, entry in value.items():
        if key not in hints:
            known = did_you_mean(str(key), hints, 1) or tr("known are {names}", names=", ".join(hints))
            yield (*path, key), tr("unknown field; {known}", known=known)
        else:
            yield from _shape(entry, hints[key], (*path, key))
    for field in msgspec.structs.fields(type_):
        if field.required and field.name not in value:
            yield path, tr("{field} is missing", field=field.name)
    if type_ is Profile and "schema" not in value:
        yield path, tr("'schema: {schema}' is missing", schema=SCHEMA)


def _said(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return tr("a mapping")
    if isinstance(value, list):
        return tr("a list")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, str) else str(value)


def _expected(value: Any, type_: Any) -> str:
    """Say in words what was expected."""
    wanted = _type_words(type_)
    message = tr("expected {wanted}, found {found}", wanted=wanted, found=_said(value))
    bare = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    takes_text = bare is str or str in get_args(bare)
    if takes_text and isinstance(value, int | float):
        message += "; " + tr("write it in quotes")
    choices = [str(c) for option in (bare, *get_args(bare)) for c in _literals(option)]
    near = did_you_mean(str(value), choices, 1)
    return f"{message}; {near}" if near else message


def _literals(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) is Literal else ()


def _type_words(type_: Any) -> str:
    if get_origin(type_) is Annotated:
        bare, *metas = get_args(type_)
        for meta in metas:
            if getattr(meta, "pattern", None):
                known = {
                    "^CG-[A-Z]+-[0-9]{3}$": tr("a code such as CG-GATE-001"),
                    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$": tr("a day such as 2027-01-31"),
                }
                return known.get(meta.pattern, tr("text that matches {pattern}", pattern=meta.pattern))
            if getattr(meta, "min_length", None):
                return tr("text that is not empty")
        return _type_words(bare)
    if get_origin(type_) is Literal:
        return tr("one of {names}", names=", ".join(str(c) or '""' for c in get_args(type_)))
    if get_origin(type_) in {Union, UnionType}:
        return tr(" or ").join(_type_words(option) for option in get_args(type_))
    if get_origin(type_) is tuple:
        return tr("a list")
    if get_origin(type_) is dict:
        return tr("a mapping of text to text")
    words = {
        str: tr("text"),
        bool: tr("true or false"),
        int: tr("a whole number"),
        float: tr("a number"),
        type(None): "null",
    }
    return words.get(type_, str(type_))


def _walk(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _walk(entry, (*path, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _walk(entry, (*path, index))


def version_wish_problem(text: str) -> str | None:
    """Return what is wrong with a wish such as ``1.37``, ``v1.37.2`` or ``>=1.36.3``; None when nothing is."""
    found = _WISH.match(text)
    if found is None:
        return tr("expected a version such as 1.37.2, 1.37 or >=1.36.3, found {found}", found=_said(text))
    try:
        Version.parse(found["version"])
    except InvalidVersion:
        return tr("{found} is no version; write 1.37.2, 1.37 or >=1.36.3", found=_said(found["version"]))
    return None


Odd = Iterator[tuple[Path_, str, Severity]]
"""Path, what is wrong there, and how bad it is."""


def _meaning(value: dict[str, Any]) -> Odd:
    """Yield what has the right type and makes no sense."""
    yield from _odd_versions(value.get("target") or {})
    yield from _odd_group_versions(value.get("apis", ()))
    yield from _odd_selectors(value)
    yield from _odd_days(value.get("accept", ()))
    yield from _odd_times((value.get("change") or {}).get("window") or {})
    yield from _twins(value)


def _odd_versions(target: dict[str, Any]) -> Odd:
    kubernetes = target.get("kubernetes")
    if kubernetes:
        try:
            Version.parse(kubernetes)
        except InvalidVersion:
            message = tr(
                "{found} is no version; write 1.37.2, or 1.37 for any patch", found=_said(kubernetes)
            )
            yield ("target", "kubernetes"), message, "error"
    for index, entry in enumerate(target.get("components", ())):
        problem = version_wish_problem(entry["version"])
        if problem:
            yield ("target", "components", index, "version"), problem, "error"


def _odd_group_versions(apis: Sequence[dict[str, Any]]) -> Odd:
    for index, entry in enumerate(apis):
        group_version = entry["group_version"]
        if not re.fullmatch(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?", group_version):
            message = tr("{found} is no group version; write resource.k8s.io/v1", found=_said(group_version))
            yield ("apis", index, "group_version"), message, "error"


def _odd_selectors(value: dict[str, Any]) -> Odd:
    for path, entry in _walk(value):
        if path and path[-1] == "nodes" and isinstance(entry, str) and entry:
            problem = selector_problem(entry)
            if problem:
                yield path, problem, "error"


def _odd_days(accepted: Sequence[dict[str, Any]]) -> Odd:
    for index, entry in enumerate(accepted):
        if not _is_day(entry["until"]):
            message = tr("there is no such day: {found}", found=entry["until"])
            yield ("accept", index, "until"), message, "error"


def _odd_times(window: dict[str, Any]) -> Odd:
    for key in ("start", "end"):
        moment = window.get(key)
        if moment and read_time(moment) is None:
            message = tr(
                "{found} is no time; write 2027-01-31T22:00:00+01:00, or 2027-01-31 22:00 for UTC",
                found=_said(moment),
            )
            yield ("change", "window", key), message, "error"
    if Window(start=window.get("start"), end=window.get("end")).ends_first:
        message = tr("the window ends at {end}, which is not after its start {start}", **window)
        yield ("change", "window", "end"), message, "error"


def _twins(value: dict[str, Any]) -> Odd:
    """Yield entries of a list that have the identity of an earlier one: which of them counts is not said."""
    for path, fields in IDENTITIES.items():
        entries: Any = value
        for step in path:
            entries = (entries or {}).get(step)
        seen: dict[tuple[Any, ...], int] = {}
        for index, entry in enumerate(entries or ()):
            identity = tuple(entry.get(field, "") for field in fields)
            if path == ("feature_gates", "gates"):
                identity = (*identity, tuple(sorted(entry.get("components") or ())))
            if identity in seen:
                message = tr("the same thing stands in entry {n} already", n=seen[identity] + 1)
                yield (*path, index), message, "warning" if path == ("checks",) else "error"
            seen.setdefault(identity, index)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


_TERM = re.compile(
    r"""^\s*(?:
      !\s*(?P<absent>[\w./-]+)
    | (?P<key>[\w./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)|\s(?P<set>in|notin)\s*\(\s*[\w.-]*(?:\s*,\s*[\w.-]*)*\s*\))?
    )\s*$""",
    re.VERBOSE,
)


def selector_problem(text: str) -> str | None:
    """Return what is wrong with a label selector in kubectl's words; None when nothing is."""
    for term in re.split(r",(?![^(]*\))", text):
        if not _TERM.match(term):
            return tr(
                "{found} is no label selector; write key=value, key, !key or key in (a, b)",
                found=_said(term.strip()),
            )
    return None
