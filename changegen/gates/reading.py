"""What the sources of an instance set: the feature gates that are named, each with its origin, and what cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from changegen.gates.flags import flag_values, go_parse_bool, go_quote, trim

__all__ = [
    "ALL_ALPHA",
    "ALL_BETA",
    "COMPONENTS",
    "MIXED",
    "REGISTRY_COMPONENTS",
    "STAGE_OF",
    "GateEntry",
    "GateSources",
    "ParsedGates",
    "malformed_item",
    "parse_gates",
]


REGISTRY_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMPONENTS = (*REGISTRY_COMPONENTS, "kubelet", "kube-proxy")
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
STAGE_OF = {ALL_ALPHA: "Alpha", ALL_BETA: "Beta"}


class GateSources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that decides the gates of one component instance, as it is given.

    `flags`, `emulated` and `min_compat` hold one item for each time the flag is given, unsplit.
    """

    flags: tuple[str, ...] = ()
    file: dict[str, bool] | None = None
    """featureGates of the configuration file; an empty map where the file sets none; None: no file."""
    dropins: tuple[dict[str, bool], ...] = ()
    """featureGates of the kubelet's drop-in files, in the order of their names."""
    emulated: tuple[str, ...] = ()
    min_compat: tuple[str, ...] = ()
    emulation_forward_compatible: bool = False
    runtime_config_emulation_forward_compatible: bool = False

    @classmethod
    def from_argv(
        cls,
        argv: Sequence[str],
        *,
        file: dict[str, bool] | None = None,
        dropins: tuple[dict[str, bool], ...] = (),
        bare: Collection[str] = (),
    ) -> GateSources:
        """Takes the flags that matter from a component's own arguments (without its name)."""

        def switch(name: str) -> bool:
            # A boolean flag stands alone or has its value behind `=`, never in the next argument.
            value = False
            for argument in argv:
                if argument == "--":
                    break
                flag, equals, text = argument.removeprefix("--").partition("=")
                if argument.startswith("--") and flag.replace("_", "-") == name:
                    value = go_parse_bool(text) is True if equals else True
            return value

        return cls(
            flags=flag_values(argv, "feature-gates", bare),
            file=file,
            dropins=dropins,
            emulated=flag_values(argv, "emulated-version", bare),
            min_compat=flag_values(argv, "min-compatibility-version", bare),
            emulation_forward_compatible=switch("emulation-forward-compatible"),
            runtime_config_emulation_forward_compatible=switch("runtime-config-emulation-forward-compatible"),
        )


Origin = Literal["flag", "file", "drop-in"]


class GateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One `Name=value` as it was given; `value` is None where it is no Go boolean."""

    name: str
    value: bool | None
    text: str
    """The item as written, with its prefix, spaces and quotes."""
    raw: str | None = None
    """Trimmed text behind the `=`; None where there is no `=`."""
    origin: Origin = "flag"
    prefix: str = ""
    """Component prefix before the colon, empty for none."""


class ParsedGates(msgspec.Struct, frozen=True, kw_only=True):
    """What a component makes of its sources, before it looks at its table of gates."""

    component: str
    entries: tuple[GateEntry, ...]
    values: dict[str, bool]
    """Kubernetes gates explicitly set, in the order first named; the last value of a name wins. Faulty items and
    items of other components are left out."""
    origins: dict[str, Origin]
    """Where the winning value of each gate stands."""
    flag_values: dict[str, bool]
    """The part of it that the flags alone set (what the kubelet applies first)."""
    flags_ignored: bool = False
    """kube-proxy has a file, so its flag has no effect."""
    repeated: tuple[str, ...] = ()
    """Gates named more than once in one source."""
    prefixes: tuple[str, ...] = ()
    """Component prefixes named, empty for none; of kubelet and kube-proxy always empty."""
    errors: tuple[str, ...] = ()
    """Faults of the text itself, in the component's words; see `start` for all faults."""


def parse_gates(component: str, sources: GateSources) -> ParsedGates:
    """Reads the gates of an instance the way its component does.

    Args:
        component: one of `COMPONENTS`; any other name is read as kubelet and kube-proxy read the flag.
        sources: flags and files of the instance.
    """
    registry = component in REGISTRY_COMPONENTS
    entries: list[GateEntry] = []
    errors: list[str] = []
    from_flags: dict[str, bool] = {}
    prefixes: list[str] = []
    repeated: list[str] = []
    flags_ignored = component == "kube-proxy" and sources.file is not None
    for value in sources.flags:
        bad: GateEntry | None = None
        for item in value.split(","):
            if not item:
                continue
            prefix, text = "", item
            if registry:
                if ":" in item:
                    prefix, text = (trim(part) for part in item.split(":", 1))
                prefixes.append(prefix)
                text = trim(text)
                if not text:
                    continue
            name, equals, rest = text.partition("=")
            name, raw = trim(name), trim(rest) if equals else None
            setting = go_parse_bool(raw) if raw is not None else None
            entry = GateEntry(name=name, value=setting, text=item, raw=raw, prefix=prefix)
            entries.append(entry)
            if setting is None:
                bad = bad or entry
            elif not registry or prefix in {"", "kube"}:
                if name in from_flags:
                    repeated.append(name)
                from_flags[name] = setting
        if bad is not None:
            errors.append(malformed_item(bad) if registry else _malformed_flag(component, value, bad))
    if {"", "kube"} <= set(prefixes):
        errors.append(MIXED)
    errors.extend(f"component not registered: {prefix}" for prefix in sorted({*prefixes} - {"", "kube"}))
    values: dict[str, bool] = {}
    origins: dict[str, Origin] = {}
    files: list[tuple[Origin, dict[str, bool]]] = []
    if not registry:
        if sources.file is not None:
            files.append(("file", sources.file))
        if component == "kubelet":
            files.extend(("drop-in", dropin) for dropin in sources.dropins)
    for origin, content in files:
        for name, setting in content.items():
            entries.append(
                GateEntry(name=name, value=setting, text=f"{name}: {str(setting).lower()}", origin=origin)
            )
            values[name], origins[name] = setting, origin
    if not flags_ignored:
        for name, setting in from_flags.items():
            values[name], origins[name] = setting, "flag"
    return ParsedGates(
        component=component,
        entries=tuple(entries),
        values=values,
        origins=origins,
        flag_values=from_flags,
        flags_ignored=flags_ignored and bool(sources.flags),
        repeated=tuple(dict.fromkeys(repeated)),
        prefixes=tuple(dict.fromkeys(prefixes)),
        errors=tuple(dict.fromkeys(errors)),
    )


MIXED = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"


def _bool_error(raw: str) -> str:
    return f"strconv.ParseBool: parsing {go_quote(raw)}: invalid syntax"


def malformed_item(entry: GateEntry) -> str:
    """featureGate.Set on an item that is no `Name=bool`."""
    if entry.raw is None:
        return f"missing bool value for {entry.name}"
    return f"invalid value of {entry.name}={entry.raw}, err: {_bool_error(entry.raw)}"


def _malformed_flag(component: str, value: str, entry: GateEntry) -> str:
    """What kubelet and kube-proxy say of a flag value with such an item."""
    if entry.raw is None:
        cause = "malformed pair, expect string=bool"
    else:
        cause = f"invalid value of {entry.name}: {entry.raw}, err: {_bool_error(entry.raw)}"
    prefix = "failed to parse kubelet flag: " if component == "kubelet" else ""
    return f'{prefix}invalid argument {go_quote(value)} for "--feature-gates" flag: {cause}'
