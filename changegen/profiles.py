"""Profiles: found, read strictly, merged along ``extends``, and filled from the command line.

A profile is looked for as a file when its name holds a slash or ends in ``.yaml``, ``.yml`` or ``.json``; else by
its name in every folder of ``$CHANGEGEN_PROFILES`` and then among the shipped ones. ``extends`` is looked for in the
same way, a file relative to the file that names it.

How a child is laid over its parent: a mapping key by key; a value overrides, ``null`` included; a list of named
things by name (an entry of the child is laid over the parent's entry of the same identity, a new one is appended;
where either side has the identity twice, the child's entries stand alone); ``features`` are joined; every other list
overrides. What is the identity of which list stands in ``IDENTITIES``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from changegen.errors import ProfileError, UsageError
from changegen.i18n import tr
from changegen.model.profile import SCHEMA, ChangeFields, Profile, Target, Window
from changegen.versions import InvalidVersion, Version, minor_key, minor_of

if TYPE_CHECKING:
    from changegen.collect.yamlread import StrictYaml
    from changegen.kubedata import KubernetesData

__all__ = [
    "IDENTITIES",
    "Issue",
    "Listed",
    "find",
    "json_schema",
    "lint",
    "list_profiles",
    "load",
    "parse_fields",
    "profile_for_target",
    "starting_file",
    "version_wish_problem",
    "with_fields",
    "with_target",
]

Path_ = tuple[str | int, ...]
SUFFIXES = (".yaml", ".yml", ".json")

IDENTITIES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("target", "components"): ("name",),
    ("feature_gates", "gates"): ("name",),
    ("apis",): ("group_version",),
    ("drivers",): ("name",),
    ("extended_resources",): ("name",),
    ("taints", "nodes"): ("key", "effect", "nodes"),
    ("taints", "devices"): ("key", "effect", "driver", "pool", "device"),
    ("accept",): ("code", "subject"),
    ("checks",): ("layer", "title"),
    ("change", "links"): ("title",),
}
"""List of a profile -> the fields that tell its entries apart when a child is laid over its parent."""

_JOINED: tuple[tuple[str, ...], ...] = (("features",),)
_RFC3339 = re.compile(r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2})?)?$")
_WISH = re.compile(r"^\s*(?P<op>>=|<=|==|=|>|<|~|\^)?\s*(?P<version>\S+)\s*$")
_OWN_FIELD = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]*$")


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a profile file."""

    place: str
    """``file:line``."""
    path: str
    """``feature_gates.gates[2].name``; empty for the file as a whole."""
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        where = f"{self.place}: {self.path}" if self.path else self.place
        return f"{where}: {self.message}"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that can be named."""

    name: str
    title: str
    place: str
    shipped: bool
    problem: str = ""
    """Why it cannot be used; empty when it can."""


# ------------------------------------------------------------------------------------------------------------ finding


def _folders() -> list[tuple[Path, bool]]:
    from changegen import resources

    own = [Path(part) for part in os.environ.get("CHANGEGEN_PROFILES", "").split(os.pathsep) if part]
    return [(folder, False) for folder in own] + [(resources.folder("profiles"), True)]


def _is_file_name(name: str) -> bool:
    return "/" in name or os.sep in name or name.lower().endswith(SUFFIXES)


def find(name: str, *, beside: Path | None = None) -> Path:
    """Return the file of a profile; ``beside`` is the folder that a relative file name starts from.

    Raises:
        ProfileError: There is no such file, or no profile of that name; close names are told.
    """
    if _is_file_name(name):
        path = Path(name) if beside is None else beside / name
        if path.is_dir():
            raise ProfileError(tr("is a folder, not a profile"), where=str(path))
        if not path.exists():
            raise ProfileError(tr("there is no such profile file"), where=str(path))
        return path
    known: dict[str, Path] = {}
    for folder, _ in _folders():
        for path in _profile_files(folder):
            known.setdefault(path.stem, path)
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=3)
    hint = tr("did you mean {names}?", names=", ".join(near)) if near else tr("see 'changegen profile list'")
    raise ProfileError(tr("there is no profile named {name}", name=name), hint=hint)


def _profile_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())


def list_profiles() -> tuple[Listed, ...]:
    """Return every profile of the search path by name; the first of a name wins, as in ``find``."""
    rows: dict[str, Listed] = {}
    for folder, shipped in _folders():
        for path in _profile_files(folder):
            if path.stem in rows:
                continue
            try:
                profile = load(str(path))
            except ProfileError as error:
                rows[path.stem] = Listed(
                    name=path.stem, title="", place=str(path), shipped=shipped, problem=str(error)
                )
            else:
                rows[path.stem] = Listed(
                    name=path.stem, title=profile.title, place=str(path), shipped=shipped
                )
    return tuple(rows[name] for name in sorted(rows))


# ------------------------------------------------------------------------------------------------------------ reading


class _File(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    value: dict[str, Any]
    yaml: Any

    def at(self, path: Path_) -> str:
        tree: StrictYaml = self.yaml
        return f"{self.place}:{tree.line(path)}"


def _read(path: Path) -> _File:
    from changegen.collect.yamlread import load_strict

    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProfileError(error.strerror or str(error), where=str(path)) from error
    tree = load_strict(data, str(path))
    if not isinstance(tree.value, dict):
        raise ProfileError(
            tr("a profile is a mapping that starts with 'schema: {schema}'", schema=SCHEMA), where=f"{path}:1"
        )
    return _File(place=str(path), value=_numbers_as_text(tree.value, Profile), yaml=tree)


def _numbers_as_text(value: Any, type_: Any) -> Any:
    """Return the value with numbers as text where text is wanted: ``kubernetes: 1.37`` means ``"1.37"``.

    Nothing is lost: the reader makes a number only of what would be written back in the same way (1.30 stays text).
    """
    bare = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    if isinstance(value, dict) and isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        hints = get_type_hints(bare, include_extras=True)
        return {k: _numbers_as_text(v, hints[k]) if k in hints else v for k, v in value.items()}
    if isinstance(value, dict) and get_origin(bare) is dict:
        return {k: _numbers_as_text(v, get_args(bare)[1]) for k, v in value.items()}
    if isinstance(value, list) and get_origin(bare) is tuple:
        return [_numbers_as_text(entry, get_args(bare)[0]) for entry in value]
    options = get_args(bare) if get_origin(bare) in {Union, UnionType} else (bare,)
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and str in options
        and int not in options
    ):
        return str(value)
    return value


def _chain(name: str, beside: Path | None = None) -> list[_File]:
    """Return the profile's file and those it extends, nearest first."""
    files: list[_File] = []
    seen: list[Path] = []
    wanted, folder, origin = name, beside, ""
    while True:
        try:
            path = find(wanted, beside=folder)
        except ProfileError as error:
            if origin:
                raise ProfileError(f"extends {wanted}: {error}", where=origin) from error
            raise
        real = path.resolve()
        if real in seen:
            names = " -> ".join([*(p.name for p in seen[seen.index(real) :]), real.name])
            raise ProfileError(
                tr("profiles extend each other in a circle: {names}", names=names), where=origin
            )
        seen.append(real)
        file = _read(path)
        files.append(file)
        parent = file.value.get("extends")
        if not isinstance(parent, str) or not parent:
            return files
        wanted, folder, origin = parent, path.parent, file.at(("extends",))


def load(name: str) -> Profile:
    """Return a profile by name or file, with everything it extends laid under it.

    Raises:
        ProfileError: It is not there, is no YAML, or holds what a profile cannot hold; says file, line and what was
            expected, and how many more problems there are.
    """
    files = _chain(name)
    issues = [issue for file in files for issue in _file_issues(file) if issue.severity == "error"]
    if issues:
        raise _as_error(issues, name)
    return _merged(files)


def _as_error(issues: Sequence[Issue], name: str) -> ProfileError:
    first = issues[0]
    message = f"{first.path}: {first.message}" if first.path else first.message
    more = len(issues) - 1
    hint = tr("{n} more: 'changegen profile lint {name}' lists them all", n=more, name=name) if more else None
    return ProfileError(message, where=first.place, hint=hint)


def _merged(files: Sequence[_File]) -> Profile:
    value: dict[str, Any] = {}
    for file in reversed(files):
        value = _lay(value, file.value, ())
    value["name"] = files[0].value["name"]
    try:
        return msgspec.convert(value, Profile)
    except msgspec.ValidationError as error:  # each file was checked, so only what merging made can be wrong
        raise ProfileError(str(error), where=files[0].place) from error


def _lay(parent: Mapping[str, Any], child: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    result = dict(parent)
    for key, value in child.items():
        here = (*path, key)
        under = parent.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            result[key] = _lay(under, value, here)
        elif isinstance(value, list) and isinstance(under, list) and here in IDENTITIES:
            result[key] = _lay_named(under, value, IDENTITIES[here], here)
        elif isinstance(value, list) and isinstance(under, list) and here in _JOINED:
            result[key] = list(dict.fromkeys([*under, *value]))
        else:
            result[key] = value
    return result


def _lay_named(
    parent: Sequence[Any], child: Sequence[Any], fields: tuple[str, ...], path: tuple[str, ...]
) -> list[Any]:
    def identity(entry: Any) -> tuple[Any, ...]:
        return tuple(entry.get(field, "") for field in fields)

    under: dict[tuple[Any, ...], list[Any]] = {}
    for entry in parent:
        under.setdefault(identity(entry), []).append(entry)
    over: dict[tuple[Any, ...], list[Any]] = {}
    for entry in child:
        over.setdefault(identity(entry), []).append(entry)
    result: list[Any] = []
    for key in {**under, **over}:
        below, above = under.get(key, []), over.get(key, [])
        if len(below) == 1 and len(above) == 1:
            result.append(_lay(below[0], above[0], path))
        else:
            result.extend(above or below)
    return result


# ----------------------------------------------------------------------------------------------------------- checking


def lint(name: str, data: KubernetesData | None = None, *, today: str = "") -> tuple[Issue, ...]:
    """Return every problem of a profile and of what it extends, by file and line.

    With ``data``, gates, DRA features, API group versions and kinds that nobody knows are told with close names. With
    ``today`` (``2026-12-01``), acceptances that are over are told.

    Raises:
        ProfileError: A file is not there or is no YAML at all.
    """
    files = _chain(name)
    issues: list[Issue] = []
    for file in files:
        issues.extend(_file_issues(file))
    if any(issue.severity == "error" for issue in issues):
        return _ordered(issues)
    profile = _merged(files)
    if not profile.target.kubernetes and not profile.target.components:
        issues.append(
            Issue(
                place=files[0].at(()),
                path="target",
                message=tr("no version: say target.kubernetes, here or with --to"),
                severity="warning",
            )
        )
    for file in files:
        if data is not None:
            issues.extend(_against_data(file, profile, data))
        if today:
            issues.extend(_expired(file, today))
    return _ordered(issues)


def _ordered(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    def key(issue: Issue) -> tuple[str, int, str, str]:
        place, _, line = issue.place.rpartition(":")
        return (place, int(line) if line.isdigit() else 0, issue.path, issue.message)

    return tuple(sorted(issues, key=key))


def _text(path: Path_) -> str:
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _file_issues(file: _File) -> list[Issue]:
    issues = [
        Issue(place=file.at(path), path=_text(path), message=message)
        for path, message in _shape(file.value, Profile, ())
    ]
    if not issues:
        issues = [
            Issue(place=file.at(path), path=_text(path), message=message, severity=severity)
            for path, message, severity in _meaning(file.value)
        ]
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
            near = get_close_matches(str(key), hints, n=1)
            known = (
                tr("did you mean {names}?", names=near[0])
                if near
                else tr("known are {names}", names=", ".join(hints))
            )
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
    near = get_close_matches(str(value), choices, n=1) if choices else []
    if near:
        message += "; " + tr("did you mean {names}?", names=near[0])
    return message


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


def _meaning(value: dict[str, Any]) -> Iterator[tuple[Path_, str, Literal["error", "warning"]]]:
    """Yield what has the right type and makes no sense."""
    target = value.get("target") or {}
    kubernetes = target.get("kubernetes")
    if kubernetes:
        try:
            Version.parse(kubernetes)
        except InvalidVersion:
            yield (
                ("target", "kubernetes"),
                tr("{found} is no version; write 1.37.2, or 1.37 for any patch", found=_said(kubernetes)),
                "error",
            )
    for index, entry in enumerate(target.get("components", ())):
        problem = version_wish_problem(entry["version"])
        if problem:
            yield ("target", "components", index, "version"), problem, "error"
    for index, entry in enumerate(value.get("apis", ())):
        group_version = entry["group_version"]
        if not re.fullmatch(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?", group_version):
            yield (
                ("apis", index, "group_version"),
                tr("{found} is no group version; write resource.k8s.io/v1", found=_said(group_version)),
                "error",
            )
    for path, entry in _walk(value):
        if path and path[-1] == "nodes" and isinstance(entry, str) and entry:
            problem = selector_problem(entry)
            if problem:
                yield path, problem, "error"
    for index, entry in enumerate(value.get("accept", ())):
        if not _is_day(entry["until"]):
            yield (
                ("accept", index, "until"),
                tr("there is no such day: {found}", found=entry["until"]),
                "error",
            )
    window = (value.get("change") or {}).get("window") or {}
    for key in ("start", "end"):
        moment = window.get(key)
        if moment and not _RFC3339.match(moment):
            yield (
                ("change", "window", key),
                tr(
                    "{found} is no time such as 2027-01-31T22:00:00+01:00; it is printed as it is",
                    found=_said(moment),
                ),
                "warning",
            )
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
                yield (
                    (*path, index),
                    tr("the same thing stands in entry {n} already", n=seen[identity] + 1),
                    "warning" if path == ("checks",) else "error",
                )
            seen.setdefault(identity, index)


def _is_day(text: str) -> bool:
    from datetime import date

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


def _against_data(file: _File, profile: Profile, data: KubernetesData) -> Iterator[Issue]:
    from changegen.assess.capability import FEATURES

    features = {feature.name for feature in FEATURES}
    for index, name in enumerate(file.value.get("features", ())):
        if name not in features:
            near = get_close_matches(name, features, n=3)
            told = tr("did you mean {names}?", names=", ".join(near)) if near else ", ".join(sorted(features))
            where: Path_ = ("features", index)
            yield Issue(
                place=file.at(where),
                path=_text(where),
                message=tr("there is no DRA feature {name}; {known}", name=name, known=told),
            )
    gates = file.value.get("feature_gates") or {}
    minor = minor_of(profile.target.kubernetes) if profile.target.kubernetes else None
    if minor is not None and not data.knows(minor) and (file.value.get("target") or {}).get("kubernetes"):
        yield Issue(
            place=file.at(("target", "kubernetes")),
            path="target.kubernetes",
            message=tr(
                "the Kubernetes data knows {oldest} to {newest}: gates and APIs of {minor} cannot be judged",
                oldest=data.oldest,
                newest=data.newest,
                minor=minor,
            ),
            severity="warning",
        )
    for index, entry in enumerate(gates.get("gates", ())):
        path: Path_ = ("feature_gates", "gates", index, "name")
        history = data.gate(entry["name"])
        if history is None:
            near = get_close_matches(entry["name"], data.gate_names, n=3)
            known = "; " + tr("did you mean {names}?", names=", ".join(near)) if near else ""
            yield Issue(
                place=file.at(path),
                path=_text(path),
                message=tr(
                    "no Kubernetes from {oldest} to {newest} knows the gate {name}",
                    oldest=data.oldest,
                    newest=data.newest,
                    name=entry["name"],
                )
                + known,
            )
        elif minor is not None and data.knows(minor) and minor not in history.by_minor:
            when = (
                tr("it is gone since {minor}", minor=history.removed_in)
                if history.removed_in and _not_after(history.removed_in, minor)
                else tr("it comes with {minor}", minor=history.first)
            )
            yield Issue(
                place=file.at(path),
                path=_text(path),
                message=tr(
                    "{minor} does not know the gate {name}: {when}",
                    minor=minor,
                    name=entry["name"],
                    when=when,
                ),
                severity="error" if entry.get("value") is not None else "warning",
            )
    if minor is None or not data.knows(minor):
        return
    known_apis = data.apis(minor)
    kinds: dict[str, set[str]] = {}
    for api in known_apis:
        kinds.setdefault(api.group_version, set()).add(api.kind)
    groups = {gv.rpartition("/")[0] for gv in kinds}
    for index, entry in enumerate(file.value.get("apis", ())):
        group_version = entry["group_version"]
        if group_version.rpartition("/")[0] not in groups:
            continue  # an aggregated API or a CRD's: nobody but the cluster knows
        path = ("apis", index, "group_version")
        if group_version not in kinds:
            near = get_close_matches(group_version, kinds, n=3)
            yield Issue(
                place=file.at(path),
                path=_text(path),
                message=tr("{minor} has no {group_version}", minor=minor, group_version=group_version)
                + ("; " + tr("did you mean {names}?", names=", ".join(near)) if near else ""),
                severity="error" if entry.get("expect", "served") == "served" else "warning",
            )
            continue
        for position, kind in enumerate(entry.get("kinds", ())):
            if kind not in kinds[group_version]:
                near = get_close_matches(kind, sorted(kinds[group_version]), n=3)
                here: Path_ = ("apis", index, "kinds", position)
                yield Issue(
                    place=file.at(here),
                    path=_text(here),
                    message=tr(
                        "{group_version} of {minor} has no kind {kind}",
                        group_version=group_version,
                        minor=minor,
                        kind=kind,
                    )
                    + ("; " + tr("did you mean {names}?", names=", ".join(near)) if near else ""),
                )


def _not_after(minor: str, other: str) -> bool:
    return minor_key(minor) <= minor_key(other)


def _expired(file: _File, today: str) -> Iterator[Issue]:
    for index, entry in enumerate(file.value.get("accept", ())):
        if entry["until"] < today[:10]:
            path: Path_ = ("accept", index, "until")
            yield Issue(
                place=file.at(path),
                path=_text(path),
                message=tr(
                    "{code} was accepted until {day} and counts again", code=entry["code"], day=entry["until"]
                ),
                severity="warning",
            )


# ------------------------------------------------------------------------------------------------- from the command line


def profile_for_target(version: str) -> Profile:
    """Return the profile of ``--to 1.37.2`` (or ``1.37``, any patch): that version and the default policy of stages."""
    return Profile(
        name=f"kubernetes-{_target(version)}",
        title=f"Kubernetes {_target(version)}",
        target=Target(kubernetes=_target(version)),
    )


def with_target(profile: Profile, version: str) -> Profile:
    """Return the profile with ``--to`` laid over its target version."""
    return msgspec.structs.replace(
        profile, target=msgspec.structs.replace(profile.target, kubernetes=_target(version))
    )


def _target(version: str) -> str:
    try:
        Version.parse(version)
    except InvalidVersion as error:
        raise UsageError(
            tr("--to {version} is no version; write 1.37.2, or 1.37 for any patch", version=version)
        ) from error
    text = version.strip()
    return text[1:] if text[:1] in {"v", "V"} else text


KNOWN_FIELDS = (
    "type",
    "service",
    "owner",
    "approvers",
    "risk",
    "reason",
    "window.start",
    "window.end",
    "links",
)


def parse_fields(pairs: Iterable[str]) -> dict[str, str]:
    """Return ``--set`` pairs by field; a field given twice is the last one, but approvers and links add up.

    Raises:
        UsageError: A pair has no ``=``, or its name is close to a known field without being one.
    """
    fields: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        name = {"window_start": "window.start", "window_end": "window.end", "approver": "approvers"}.get(
            name, name
        )
        own = name.removeprefix("fields.")
        if not equals or not _OWN_FIELD.match(name):
            raise UsageError(tr("--set {pair}: write field=value", pair=pair))
        if name not in KNOWN_FIELDS and own == name:
            near = get_close_matches(name, KNOWN_FIELDS, n=1, cutoff=0.8)
            if near:
                raise UsageError(
                    tr(
                        "--set {name}: did you mean {near}? A field of your own of that name is fields.{name}",
                        name=name,
                        near=near[0],
                    )
                )
        if name in {"approvers", "links"} and name in fields:
            value = f"{fields[name]},{value}"
        fields[name if name in KNOWN_FIELDS else own] = value
    return fields


def with_fields(profile: Profile, fields: Mapping[str, str]) -> Profile:
    """Return the profile with fields of the change filled from ``--set``; an empty value opens a field again.

    Raises:
        UsageError: ``type`` is none of the three.
    """
    if not fields:
        return profile
    change = profile.change
    own = dict(change.fields)
    updates: dict[str, Any] = {}
    window: dict[str, str | None] = {}
    for name, value in fields.items():
        if name == "type":
            kinds = ("standard", "normal", "emergency")
            if value not in kinds:
                raise UsageError(
                    tr("--set type={value}: write one of {names}", value=value, names=", ".join(kinds))
                )
            updates["type"] = value
        elif name == "approvers":
            updates["approvers"] = tuple(part.strip() for part in value.split(",") if part.strip())
        elif name == "links":
            updates["links"] = tuple(_link(part.strip()) for part in value.split(",") if part.strip())
        elif name.startswith("window."):
            window[name.removeprefix("window.")] = value or None
        elif name in KNOWN_FIELDS:
            updates[name] = value or None
        else:
            own[name] = value
    if window:
        merged = {**msgspec.structs.asdict(change.window), **window}
        updates["window"] = Window(**merged)
    filled: ChangeFields = msgspec.structs.replace(change, fields=own, **updates)
    return msgspec.structs.replace(profile, change=filled)


def _link(text: str) -> Any:
    from changegen.model.profile import Link

    title, equals, url = text.partition("=")
    return Link(title=title, url=url) if equals and "://" in url else Link(title=text, url=text)


# ------------------------------------------------------------------------------------------------- schema and first file


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile file."""
    return msgspec.json.schema(Profile)


def starting_file(name: str, version: str) -> str:
    """Return a commented profile to start from, which is valid as it stands."""
    shipped = {row.name.removeprefix("kubernetes-") for row in list_profiles() if row.shipped}
    minors = sorted((m for m in shipped if minor_of(m) == m), key=minor_key)
    minor = minor_of(version) if version else minors[-1]
    extends = f"extends: kubernetes-{minor}" if minor in minors else f"# extends: kubernetes-{minors[-1]}"
    target = version.removeprefix("v") or minor
    return _STARTING_FILE.format(name=name, extends=extends, target=target, schema=SCHEMA)


_STARTING_FILE = """\
# A target profile of changegen. Lines with a leading '#' are examples: take what you need.
# Check it with 'changegen profile lint FILE'; every field is told by 'changegen profile schema'.
schema: {schema}
name: {name}
title: ""

# A shipped profile ('changegen profile list') or a file beside this one. Its lists are merged by name.
{extends}

target:
  kubernetes: "{target}"          # "1.37.2", or "1.37" for any patch
  # components:                   # only where one component goes elsewhere
  # - {{name: kubelet, version: ">=1.36.3"}}

feature_gates:
  # allowed, named (only gates listed below) or forbidden; GA gates are always free
  stages: {{alpha: named, beta: allowed}}
  # gates:
  # - name: DRADeviceTaintRules
  #   components: [kube-apiserver, kube-controller-manager, kube-scheduler]   # none: all that read it
  #   value: true                 # null: must not be set at all
  #   why: maintenance of single devices

# apis:                           # must be served after the change; 'expect: absent' for must not
# - group_version: resource.k8s.io/v1
#   kinds: [DeviceClass, ResourceClaim, ResourceSlice]

# drivers:                        # DRA drivers
# - name: gpu.example.com
#   version: ">=0.3.0"
#   workload: gpu-driver/kubelet-plugin        # namespace/name of its DaemonSet; none: inferred
#   nodes: example.com/accelerator=gpu         # nodes that must publish ResourceSlices

# extended_resources:
# - {{name: example.com/gpu, device_class: gpu.example.com, source: dra}}

# taints:
#   nodes:
#   - {{key: example.com/gpu-only, effect: NoSchedule, expect: present, nodes: example.com/accelerator=gpu}}
#   devices:
#   - {{key: example.com/maintenance, expect: absent}}

# accept:                         # findings that are known; they stay visible
# - {{code: CG-DRIFT-003, subject: kube-scheduler/cp-3, reason: replaced next week, owner: platform, until: "2027-01-31"}}

# checks:                         # of your own, printed in the checklist
# - {{layer: runtime, title: Training job sees two GPUs, command: kubectl exec …, expected: "2"}}

change:                           # fields for people; what is null stays open in the ticket
  type: normal                    # standard, normal or emergency
  service: null
  window: {{start: null, end: null}}
  owner: null
  approvers: []
  risk: null
  reason: null
  links: []
"""
