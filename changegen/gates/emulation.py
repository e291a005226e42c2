"""Which version a component emulates, and the minimum compatibility version."""

from __future__ import annotations

import re

import msgspec

from changegen.gates.flags import go_quote, trim
from changegen.gates.reading import REGISTRY_COMPONENTS, GateSources
from changegen.versions import Version

__all__ = ["Compat", "Pair", "binary_name", "compat_of", "minus", "pair_text"]


# The first release with emulation; nothing older can be emulated (apiserver pkg/util/compatibility/version.go).
_OLDEST_EMULATION = (1, 31)


Pair = tuple[int, int]


class Compat(msgspec.Struct, frozen=True):
    """Emulated and minimum compatibility version that are in force, with the faults found on the way."""

    emulated: Pair
    minimum: Pair
    flag_error: str = ""
    """Stops the component while it reads its command line."""
    set_errors: tuple[str, ...] = ()
    """One of these stops it before any gate is looked at."""
    range_errors: tuple[str, ...] = ()
    """All of these stop it after the gates were set."""


def minus(pair: Pair, count: int) -> Pair:
    """Return the minor that is so many before; not below zero."""
    major, minor = pair
    return major, minor - count if count < minor else 0


def pair_text(pair: Pair) -> str:
    """Return ``1.37`` for (1, 37)."""
    return f"{pair[0]}.{pair[1]}"


_GO_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


def _go_version(text: str) -> tuple[int, ...] | str:
    """Parses like `version.Parse` of apimachinery: numeric components, or its error."""
    match = _GO_VERSION.fullmatch(text)
    if match is None or "\n" in text:
        return f"could not parse {go_quote(text)} as version"
    parts = match[1].split(".")
    if len(parts) < 2:
        return f"illegal version string {go_quote(text)}"
    if len(parts[0]) > 1 and parts[0].startswith("0"):
        return f"illegal zero-prefixed version component {go_quote(parts[0])} in {go_quote(text)}"
    return tuple(int(part) for part in parts)


def _read_versions(values: tuple[str, ...]) -> tuple[dict[str, Pair], list[str]]:
    """`toVersionMap` of the registry: component → version, and the error that ends it, if any."""
    found: dict[str, Pair] = {}
    shown: dict[str, str] = {}
    for value in values:
        if not value:
            continue
        for item in value.split(","):
            component, text = "kube", item
            if "=" in item:
                component, text = (trim(part) for part in item.split("=", 1))
            version = _go_version(text)
            if isinstance(version, str):
                return found, [version]
            numbers = ".".join(map(str, version))
            if len(version) > 2 and version[2] != 0:
                return found, [f"patch version not allowed, got: {component}={numbers}"]
            if component in found:
                return found, [
                    f"duplicate version flag, {component}={shown[component]} and {component}={numbers}"
                ]
            found[component], shown[component] = (version[0], version[1]), numbers
    unregistered = sorted(set(found) - {"kube"})
    return found, [f"component not registered: {name}" for name in unregistered]


def compat_of(component: str, binary: Pair, full: str, sources: GateSources) -> Compat:
    """Which versions the gates are read at (component-base compatibility/{registry,version}.go).

    Args:
        component: kubelet and kube-proxy have no such flags.
        binary: minor of the binary.
        full: how the binary names its own minor in errors (`1.37.0`).
        sources: the flags.
    """
    floor = max(minus(binary, 3), _OLDEST_EMULATION)
    emulated, minimum = binary, minus(binary, 1)
    if component not in REGISTRY_COMPONENTS:
        return Compat(emulated, minimum)
    wanted, errors = _read_versions(sources.emulated)
    if errors:
        return Compat(emulated, minimum, set_errors=tuple(errors))
    if "kube" in wanted:
        emulated = wanted["kube"]
        minimum = max(minus(emulated, 1), floor)
    wanted, errors = _read_versions(sources.min_compat)
    if errors:
        return Compat(emulated, minimum, set_errors=tuple(errors))
    minimum = wanted.get("kube", minimum)
    ranges = []
    if emulated > binary or emulated < floor:
        ranges.append(f"emulation version {pair_text(emulated)} is not between [{pair_text(floor)}, {full}]")
    if minimum > emulated or minimum < floor:
        ranges.append(
            f"minCompatibilityVersion version {pair_text(minimum)} is not between [{pair_text(floor)}, {pair_text(emulated)}]"
        )
    if component == "kube-apiserver" and emulated == binary:
        for given, name in (
            (sources.emulation_forward_compatible, "EmulationForwardCompatible"),
            (sources.runtime_config_emulation_forward_compatible, "RuntimeConfigEmulationForwardCompatible"),
        ):
            if given:
                ranges.append(
                    f"ServerRunOptions.{name} cannot be set to true if the emulation version is the same as the binary version"
                )
    return Compat(emulated, minimum, range_errors=tuple(ranges))


def binary_name(version: str | Version, minor: str) -> str:
    """How the binary names its minor in the range error: with patch 0 and with its own suffix."""
    parsed = version if isinstance(version, Version) else None
    if parsed is None:
        text = str(version)
        match = re.match(r"\s*v?\d+\.\d+\.\d+(.*)", text)
        suffix = match[1].strip() if match else ""
    else:
        suffix = (f"-{parsed.pre}" if parsed.pre else "") + parsed.build
    return f"{minor}.0{suffix}"
