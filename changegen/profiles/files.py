"""Where profiles are, and how a file of one is read and laid over those that it extends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from changegen.errors import ProfileError
from changegen.i18n import tr
from changegen.model.profile import SCHEMA, Profile

if TYPE_CHECKING:
    from changegen.collect.yamlread import StrictYaml

Path_ = tuple[str | int, ...]
SUFFIXES = (".yaml", ".yml", ".json")
Severity = Literal["error", "warning"]

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


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a profile file."""

    place: str
    """``file:line``."""
    path: str
    """``feature_gates.gates[2].name``; empty for the file as a whole."""
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = f"{self.place}: {self.path}" if self.path else self.place
        return f"{where}: {self.message}"


def _path_text(path: Path_) -> str:
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return a question that names what is close to a name; empty where nothing is."""
    near = get_close_matches(name, list(known), n=most)
    return tr("did you mean {names}?", names=", ".join(near)) if near else ""


def folders() -> list[tuple[Path, bool]]:
    """Return the search path: each folder, and whether it is the shipped one."""
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
    for folder, _ in folders():
        for path in profile_files(folder):
            known.setdefault(path.stem, path)
    if name in known:
        return known[name]
    hint = did_you_mean(name, known) or tr("see 'changegen profile list'")
    raise ProfileError(tr("there is no profile named {name}", name=name), hint=hint)


def profile_files(folder: Path) -> list[Path]:
    """Return the profile files of a folder by name; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One profile file as it was read, before anything is laid over it."""

    place: str
    value: dict[str, Any]
    yaml: Any

    def at(self, path: Path_) -> str:
        """Return the ``file:line`` of a value."""
        tree: StrictYaml = self.yaml
        return f"{self.place}:{tree.line(path)}"

    def issue(self, path: Path_, message: str, severity: Severity = "error") -> Issue:
        """Return what is wrong with the value at a path."""
        return Issue(place=self.at(path), path=_path_text(path), message=message, severity=severity)


MAX_PROFILE_BYTES = 16 * 2**20
"""A profile above this is refused; hundreds of acceptances take a tenth of a MiB."""


def _read(path: Path) -> File:
    from changegen.collect.yamlread import load_strict

    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_PROFILE_BYTES + 1)
    except OSError as error:
        raise ProfileError(error.strerror or str(error), where=str(path)) from error
    if len(data) > MAX_PROFILE_BYTES:
        raise ProfileError(tr("larger than {n} MiB", n=MAX_PROFILE_BYTES // 2**20), where=str(path))
    tree = load_strict(data, str(path))
    if not isinstance(tree.value, dict):
        raise ProfileError(
            tr("a profile is a mapping that starts with 'schema: {schema}'", schema=SCHEMA), where=f"{path}:1"
        )
    return File(place=str(path), value=_numbers_as_text(tree.value, Profile), yaml=tree)


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


def chain(name: str, beside: Path | None = None) -> list[File]:
    """Return the profile's file and those it extends, nearest first.

    Raises:
        ProfileError: One is not there or is no YAML mapping, or they extend each other in a circle; the place is that of
            the ``extends`` that names it.
    """
    files: list[File] = []
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


def lay(parent: Mapping[str, Any], child: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the child laid over its parent; ``path`` is where both stand in the profile."""
    result = dict(parent)
    for key, value in child.items():
        here = (*path, key)
        under = parent.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            result[key] = lay(under, value, here)
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
            result.append(lay(below[0], above[0], path))
        else:
            result.extend(above or below)
    return result
