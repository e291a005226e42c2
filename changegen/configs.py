"""Configuration files of kubelet, kube-proxy and kube-scheduler: would a release take one, and what does it drop of it?

All three decode their file by the API version that it names, strictly (`k8s.io/apimachinery` codec factories with
`EnableStrict`). A version or a kind that is not registered stops each of them, as does a value of another type than the
field's. What strict decoding alone refuses, a field that is not known and a key that stands twice, stops kube-scheduler
(`cmd/kube-scheduler/app/options/configfile.go`); kubelet (`pkg/kubelet/kubeletconfig/util/codec`) and kube-proxy
(`cmd/kube-proxy/app/options.go`) decode such a file once more leniently, log
`Using lenient decoding as strict decoding failed`, and go on without the field, of the twofold key with its last value.

The file is known by its `ConfigShape`: names and types of what it sets, no values. So the checks that components make of
values after decoding (ranges, settings that need a gate) are not told here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from changegen.kubedata import ConfigKind
from changegen.model.snapshot import ConfigShape

__all__ = [
    "KINDS",
    "STRICT",
    "ConfigFault",
    "ConfigVerdict",
    "check",
    "likely",
    "shape_of",
]

KINDS: Final[Mapping[str, str]] = {
    "KubeletConfiguration": "kubelet",
    "KubeProxyConfiguration": "kube-proxy",
    "KubeSchedulerConfiguration": "kube-scheduler",
}
"""Kind of the file -> component that reads it."""
STRICT: Final = frozenset({"kube-scheduler"})
"""Components that end where strict decoding fails; the others log it and decode leniently."""

_MOST_FIELDS: Final = 2000
_PLUGIN_ARGS: Final = "profiles[].pluginConfig[].args"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_DURATION: Final = re.compile(r"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
# Text that YAML 1.1, which the components read, takes for something else where it stands without quotes.
_UNCLEAR: Final = re.compile(
    r"y|n|yes|no|on|off|true|false|null|~|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:e[-+]?[0-9]+)?"
    r"|[-+]?0[xob][0-9a-f_]+|[-+]?\.(?:inf|nan)",
    re.IGNORECASE,
)
# Text that the reader of YAML would have taken for a number, a boolean or null, had it stood without quotes.
_QUOTED: Final = re.compile(r"-?[1-9][0-9]*|0|true|false|null|True|False|Null|TRUE|FALSE|NULL|~")
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63

_NUMBERS: Final = frozenset({"int", "negative", "int64", "huge", "float"})
# What Go's decoder takes for each type of field.
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    "bool": frozenset({"bool"}),
    "int32": frozenset({"int", "negative"}),
    "int64": frozenset({"int", "negative", "int64"}),
    "uint32": frozenset({"int"}),
    "float32": _NUMBERS,
    "float64": _NUMBERS,
    "string": frozenset({"string", "duration"}),
    "duration": frozenset({"duration"}),
    "list": frozenset({"list"}),
    "object": frozenset({"object"}),
    "map": frozenset({"object"}),
}
_NESTED: Final = frozenset({"list", "object", "map"})
_JSON: Final[Mapping[str, str]] = {
    "bool": "bool",
    "list": "array",
    "object": "object",
    "string": "string",
    "duration": "string",
} | dict.fromkeys(_NUMBERS, "number")


class ConfigFault(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for which a component does not take a file."""

    kind: Literal["version", "type", "unknown", "duplicate"]
    path: str
    """The field or key; empty for the version."""
    message: str
    """What the component writes, or the part of it that is the same whatever else is wrong."""
    wanted: str = ""
    """Type of the field, for a value of another type."""
    found: str = ""


class ConfigVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one release does with a file."""

    faults: tuple[ConfigFault, ...] = ()
    """Why it ends; of several it tells the first that it meets. Empty: it takes the file."""
    dropped: tuple[str, ...] = ()
    """Fields that it does not know, and goes on without."""
    duplicates: tuple[str, ...] = ()
    """Keys that stand twice, of which it takes the last."""
    unsure: tuple[str, ...] = ()
    """What is not judged: fields whose text is a boolean or a number if it stands without quotes, which is not known, and
    arguments of kube-scheduler's plugins, which are decoded strictly too."""

    @property
    def starts(self) -> bool:
        """Whether it gets past its configuration file, as far as names and types decide it, and of ``unsure`` nothing is wrong."""
        return not self.faults


def shape_of(config: Mapping[str, Any], duplicates: Iterable[str] = ()) -> ConfigShape:
    """The shape of a file that was read as YAML or JSON; the first 2000 paths of it."""
    fields: dict[str, set[str]] = {}

    def walk(value: Any, path: str) -> None:
        if path:
            if path not in fields and len(fields) >= _MOST_FIELDS:
                return
            fields.setdefault(path, set()).add(_type_of(value))
        if isinstance(value, Mapping):
            for key, inner in value.items():
                name = str(key)
                if not _NAME.fullmatch(name):
                    walk(inner, path + "{}")
                else:
                    walk(inner, f"{path}.{name}" if path else name)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, f"{path}[]")

    walk({key: value for key, value in config.items() if key not in {"apiVersion", "kind"}}, "")
    kind = config.get("kind")
    return ConfigShape(
        kind=kind if isinstance(kind, str) else "",
        fields={path: "|".join(sorted(types)) for path, types in sorted(fields.items())},
        duplicates=tuple(sorted(set(duplicates))),
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list):
        return "list"
    if isinstance(value, float) and not value.is_integer():
        return "float"
    if isinstance(value, int | float):
        # YAML's 1.0 comes to the decoder as 1.
        if not -_INT64 <= value < _INT64:
            return "huge"
        if not -_INT32 <= value < _INT32:
            return "int64"
        return "negative" if value < 0 else "int"
    text = str(value)
    if _QUOTED.fullmatch(text):
        # Go reads 0 as a duration without a unit.
        return "duration" if text == "0" else "string"
    if _UNCLEAR.fullmatch(text):
        return "unclear"
    return "duration" if _DURATION.fullmatch(text) else "string"


def check(component: str, api_version: str, shape: ConfigShape, known: ConfigKind) -> ConfigVerdict:
    """What a release does with a file.

    Args:
        component: `kubelet`, `kube-proxy` or `kube-scheduler`.
        api_version: That the file names; empty where it names none.
        shape: What the file sets.
        known: What this release reads: `KubernetesData.config`.
    """
    fault = _version_fault(api_version, shape, known)
    if fault is not None:
        return ConfigVerdict(faults=(fault,))
    wrong: list[ConfigFault] = []
    unknown: list[str] = []
    unsure: list[str] = []
    for path, found, wanted in _against(shape.fields, known.versions[api_version]):
        if wanted is None:
            unknown.append(path)
        elif found == "unclear" and wanted not in _NESTED:
            unsure.append(path)
        else:
            wrong.append(_type_fault(path, found, wanted))
    if component in STRICT:
        unsure += [path for path in shape.fields if path == _PLUGIN_ARGS]
    if wrong:
        return ConfigVerdict(faults=tuple(wrong), unsure=tuple(unsure))
    if component not in STRICT:
        return ConfigVerdict(dropped=tuple(unknown), duplicates=shape.duplicates, unsure=tuple(unsure))
    # What it writes has the numbers of a list's places, and keys that are no plain names.
    faults = [
        ConfigFault(
            kind="unknown",
            path=path,
            message='unknown field "' + ("" if "[]" in path or "{}" in path else f'{path}"'),
        )
        for path in unknown
    ]
    faults += [
        ConfigFault(kind="duplicate", path=key, message=f'key "{key}" already set in map')
        for key in shape.duplicates
    ]
    return ConfigVerdict(faults=tuple(faults), unsure=tuple(unsure))


def _version_fault(api_version: str, shape: ConfigShape, known: ConfigKind) -> ConfigFault | None:
    if not shape.kind:
        return ConfigFault(kind="version", path="", message="Object 'Kind' is missing in")
    if not api_version:
        return ConfigFault(kind="version", path="", message="Object 'apiVersion' is missing in")
    if shape.kind == known.kind and api_version in known.versions:
        return None
    message = f'no kind "{shape.kind}" is registered for version "{api_version}"'
    return ConfigFault(kind="version", path="", message=message)


def _type_fault(path: str, found: str, wanted: str) -> ConfigFault:
    if wanted == "duration" and found == "string":
        # Invalid, without a unit, or with one that is not known: the value is not kept.
        message = "time:"
    else:
        message = f"json: cannot unmarshal {_JSON.get(found, '')}".rstrip()
    return ConfigFault(
        kind="type", path=path, message=message, wanted=wanted, found=_JSON.get(found, "scalar")
    )


def _against(fields: Mapping[str, str], known: Mapping[str, str]) -> Iterator[tuple[str, str, str | None]]:
    """(path, type found, type wanted) of what does not fit; wanted is None for a field that is not known.

    What lies below such a path, or below one that reads itself, is not looked at.
    """
    # Path as the file has it -> path as the release has it; None: not to be judged any further.
    at: dict[str, str | None] = {"": ""}
    for path, types in sorted(fields.items()):
        above, step = _parent(path)
        place = at.get(above)
        if place is None:
            at[path] = None
            continue
        kind = known.get(place, "object" if not place else "")
        if kind == "any" or (kind == "map" and step == "[]") or (kind == "list" and step != "[]"):
            at[path] = None
            continue
        name = f"{place}{{}}" if kind == "map" else f"{place}{step}".removeprefix(".")
        wanted = known.get(name)
        if wanted is None:
            at[path] = None
            yield path, types, None
            continue
        bad = [
            found
            for found in types.split("|")
            if found not in _TAKEN.get(wanted, {found}) and found != "null"
        ]
        at[path] = None if bad else name
        if bad:
            yield path, min(bad, key=lambda found: found == "unclear"), wanted


def _parent(path: str) -> tuple[str, str]:
    """The path above, and the last step with its mark: `.name`, `[]` or `{}`."""
    if path.endswith(("[]", "{}")):
        return path[:-2], path[-2:]
    above, dot, name = path.rpartition(".")
    return above, f".{name}" if dot or name else ""


def likely(path: str, known: ConfigKind) -> str:
    """The known field that a name which is not known seems to mean; empty where none is near."""
    every = sorted({field for fields in known.versions.values() for field in fields if field[-1] not in "]}"})
    same = [field for field in every if field.lower() == path.lower()]
    return next(iter(same or get_close_matches(path, every, n=1, cutoff=0.85)), "")
