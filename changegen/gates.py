"""Feature gates as the components read them: parsing, effective values, start-up verdicts, forecasts.

Everything here is pure and answers from `KubernetesData`. The rules are those of the components' own code:

- kube-apiserver, kube-controller-manager, kube-scheduler collect `--feature-gates` in a registry of components
  (component-base `compatibility/registry.go`, `cli/flag/colon_separated_multimap_string_string.go`) and apply them
  after `--emulated-version` and `--min-compatibility-version`.
- kubelet and kube-proxy read a map (component-base `cli/flag/map_string_bool.go`). The kubelet applies its flags alone
  first, then file, drop-ins and flags merged (cmd/kubelet/app/server.go); kube-proxy takes the file alone when it has
  `--config`, though a flag that it cannot read still stops it (cmd/kube-proxy/app/options.go).
- All apply them by component-base `featuregate/feature_gate.go`, from the table of the binary, at the emulated version.

A component walks Go maps in random order. Where that decides which of several faults it names, `StartVerdict` keeps
the alternatives, and `StartVerdict.explains` tells whether an observed set of messages is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from changegen.kubedata import Gate, GateSpec, KubernetesData, Stage, load
from changegen.versions import Version, minor_key, minor_of, next_minors

__all__ = [
    "COMPONENTS",
    "REGISTRY_COMPONENTS",
    "Alternative",
    "Forecast",
    "ForecastKind",
    "GateEntry",
    "GateForecast",
    "GateProblem",
    "GateSources",
    "HopForecast",
    "ParsedGates",
    "ProblemKind",
    "StartVerdict",
    "effective",
    "flag_values",
    "forecast",
    "go_parse_bool",
    "go_quote",
    "parse_gates",
    "spec_at",
    "start",
    "versions_in_force",
]

REGISTRY_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMPONENTS = (*REGISTRY_COMPONENTS, "kubelet", "kube-proxy")
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_STAGE_OF = {ALL_ALPHA: "Alpha", ALL_BETA: "Beta"}
# The first release with emulation; nothing older can be emulated (apiserver pkg/util/compatibility/version.go).
_OLDEST_EMULATION = (1, 31)
# Gates depend on each other since 1.35; the older binaries have no such check.
_DEPENDENCIES_SINCE = (1, 35)
_KUBELET_PREFIX = "failed to set feature gates from initial flags-based config: "
_KUBELET_PANIC = (
    "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
)
_KUBELET_INVALID = "failed to validate kubelet configuration, error: "
_PROXY_PREFIX = "failed complete: "
# Fields that the kubelet defaults only with their gate on: what it says when the field was set and the gate is off in
# the end, and when the gate is on in the end and the field was not set.
_KUBELET_DEFAULTED = {
    "KubeletCrashLoopBackOffMax": (
        "invalid configuration: FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set",
        "invalid configuration: FeatureGate KubeletCrashLoopBackOffMax is enabled, CrashLoopBackOff.MaxContainerRestartPeriod must be set",
    ),
    "KubeletEnsureSecretPulledImages": (
        "invalid configuration: `imagePullCredentialsVerificationPolicy` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled",
        'invalid configuration: option "" specified for imagePullCredentialsVerificationPolicy. Valid options are "NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages" or "AlwaysVerify"',
    ),
}

# What Go's unicode.IsSpace holds for white space; Python's str.strip also takes U+001C to U+001F.
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


# ---------------------------------------------------------------------------------------------------- command lines


def flag_values(argv: Sequence[str], name: str, bare: Collection[str] = ()) -> tuple[str, ...]:
    """Every value that `--name` is given in the arguments of a program, in order.

    As spf13/pflag reads them: `--name=V`, `--name V`, `_` for `-` in names, nothing behind a lone `--`. A flag takes
    the next argument for its value unless it is in `bare` (flags that stand alone); with an empty `bare` a flag whose
    next argument begins with `-` is taken to stand alone, which is right for all sensible command lines.

    Args:
        argv: arguments of the component itself, without its name; unwrap shells and log runners before.
        name: with hyphens and without the leading ones.
        bare: names of the flags of this component that need no value, see `Flag.bare`.
    """
    values: list[str] = []
    index = 0
    while index < len(argv):
        argument = argv[index]
        index += 1
        if argument == "--":
            break
        if not argument.startswith("-") or argument == "-":
            continue
        if not argument.startswith("--"):
            continue
        flag, equals, value = argument[2:].partition("=")
        flag = flag.replace("_", "-")
        if not equals:
            if flag in bare:
                continue
            if index >= len(argv):
                break
            if flag != name and not bare and argv[index].startswith("-"):
                continue
            value = argv[index]
            index += 1
        if flag == name:
            values.append(value)
    return tuple(values)


def go_parse_bool(text: str) -> bool | None:
    """strconv.ParseBool: twelve spellings, None for any other."""
    return True if text in _TRUE else False if text in _FALSE else None


_GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_quote(text: str) -> str:
    """strconv.Quote, as `%q` and the errors of strconv print a string."""
    out: list[str] = []
    for char in text:
        code = ord(char)
        if char in _GO_ESCAPES:
            out.append(_GO_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def _trim(text: str) -> str:
    return text.strip(_GO_SPACE)


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


# ---------------------------------------------------------------------------------------------------------- parsing

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
                    prefix, text = (_trim(part) for part in item.split(":", 1))
                prefixes.append(prefix)
                text = _trim(text)
                if not text:
                    continue
            name, equals, rest = text.partition("=")
            name, raw = _trim(name), _trim(rest) if equals else None
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
            errors.append(_malformed_item(bad) if registry else _malformed_flag(component, value, bad))
    if {"", "kube"} <= set(prefixes):
        errors.append(_MIXED)
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


_MIXED = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"


def _bool_error(raw: str) -> str:
    return f"strconv.ParseBool: parsing {go_quote(raw)}: invalid syntax"


def _malformed_item(entry: GateEntry) -> str:
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


# --------------------------------------------------------------------------------------------------------- versions

Pair = tuple[int, int]


class _Compat(msgspec.Struct, frozen=True):
    """Emulated and minimum compatibility version that are in force, with the faults found on the way."""

    emulated: Pair
    minimum: Pair
    flag_error: str = ""
    """Stops the component while it reads its command line."""
    set_errors: tuple[str, ...] = ()
    """One of these stops it before any gate is looked at."""
    range_errors: tuple[str, ...] = ()
    """All of these stop it after the gates were set."""


def _minus(pair: Pair, count: int) -> Pair:
    major, minor = pair
    return major, minor - count if count < minor else 0


def _text(pair: Pair) -> str:
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
                component, text = (_trim(part) for part in item.split("=", 1))
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


def _compat(component: str, binary: Pair, full: str, sources: GateSources) -> _Compat:
    """Which versions the gates are read at (component-base compatibility/{registry,version}.go).

    Args:
        component: kubelet and kube-proxy have no such flags.
        binary: minor of the binary.
        full: how the binary names its own minor in errors (`1.37.0`).
        sources: the flags.
    """
    floor = max(_minus(binary, 3), _OLDEST_EMULATION)
    emulated, minimum = binary, _minus(binary, 1)
    if component not in REGISTRY_COMPONENTS:
        return _Compat(emulated, minimum)
    wanted, errors = _read_versions(sources.emulated)
    if errors:
        return _Compat(emulated, minimum, set_errors=tuple(errors))
    if "kube" in wanted:
        emulated = wanted["kube"]
        minimum = max(_minus(emulated, 1), floor)
    wanted, errors = _read_versions(sources.min_compat)
    if errors:
        return _Compat(emulated, minimum, set_errors=tuple(errors))
    minimum = wanted.get("kube", minimum)
    ranges = []
    if emulated > binary or emulated < floor:
        ranges.append(f"emulation version {_text(emulated)} is not between [{_text(floor)}, {full}]")
    if minimum > emulated or minimum < floor:
        ranges.append(
            f"minCompatibilityVersion version {_text(minimum)} is not between [{_text(floor)}, {_text(emulated)}]"
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
    return _Compat(emulated, minimum, range_errors=tuple(ranges))


# ------------------------------------------------------------------------------------------------------------ table


def spec_at(
    gate: Gate, emulated: Pair, minimum: Pair | None = None, component: str | None = None
) -> GateSpec | None:
    """The stage of a gate in force at an emulated and a minimum compatibility version; None: not there yet (PreAlpha).

    featureSpecAtEmulationAndMinCompatVersion of feature_gate.go: the last one that is not newer than the emulated
    version and whose own minimum the minimum compatibility version reaches (default: emulated minus one).
    """
    floor = _minus(emulated, 1) if minimum is None else minimum
    for spec in reversed(gate.specs):
        if minor_key(spec.version) > emulated:
            continue
        if spec.min_compat is not None and floor < minor_key(spec.min_compat):
            continue
        changed = gate.overrides.get(component, {}).get(spec.version) if component else None
        return (
            spec
            if changed is None or changed == spec.default
            else msgspec.structs.replace(spec, default=changed)
        )
    return None


def versions_in_force(
    component: str, version: str | Version, sources: GateSources
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Emulated and minimum compatibility version of an instance, as (major, minor) each."""
    minor = minor_of(version) or "0.0"
    compat = _compat(component, minor_key(minor), _binary_name(version, minor), sources)
    return compat.emulated, compat.minimum


class _Table:
    """The gates of one binary at one emulated version, for one component."""

    def __init__(
        self, data: KubernetesData, component: str, minor: str, emulated: Pair, minimum: Pair
    ) -> None:
        self.gates: Mapping[str, Gate] = data.gates(minor)
        self.component = component
        self.emulated, self.minimum = emulated, minimum
        self.specs: dict[str, GateSpec | None] = {
            name: spec_at(gate, emulated, minimum, component) for name, gate in self.gates.items()
        }
        self.checks_dependencies = minor_key(minor) >= _DEPENDENCIES_SINCE

    def default(self, name: str) -> bool:
        spec = self.specs[name]
        return spec is not None and spec.default

    def enable(self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None) -> dict[str, bool]:
        """What is on or off by setting these, AllAlpha and AllBeta reaching what is not named.

        `before` is what an earlier setting left: a gate that it decided is out of reach of AllAlpha and AllBeta.
        """
        enabled = {**(before or {}), **values}
        for special, stage in _STAGE_OF.items():
            if special not in values:
                continue
            for name, spec in self.specs.items():
                if name not in _STAGE_OF and spec is not None and spec.stage == stage:
                    enabled.setdefault(name, values[special])
        return enabled

    def resolve(
        self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None
    ) -> dict[str, bool]:
        """Value of every gate when these are set."""
        enabled = self.enable(values, before)
        return {name: enabled.get(name, self.default(name)) for name in self.specs}

    def dependency_faults(
        self, values: Mapping[str, bool], before: Mapping[str, bool] | None = None
    ) -> list[GateProblem]:
        if not self.checks_dependencies:
            return []
        enabled = self.resolve(values, before)
        faults = []
        for name, gate in self.gates.items():
            if not gate.depends or not enabled[name]:
                continue
            missing = tuple(dep for dep in gate.depends if not enabled.get(dep, False))
            if missing:
                message = (
                    f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
                )
                faults.append(
                    GateProblem(kind="dependency", gate=name, message=message, value=True, missing=missing)
                )
        return faults


@lru_cache(maxsize=64)
def _table(data: KubernetesData, component: str, minor: str, emulated: Pair, minimum: Pair) -> _Table:
    """The table of a binary, made once: nothing changes it, and most instances of a cluster share it."""
    return _Table(data, component, minor, emulated, minimum)


# --------------------------------------------------------------------------------------------------------- verdicts

ProblemKind = Literal[
    "unknown",
    "removed",
    "locked",
    "prealpha",
    "dependency",
    "malformed",
    "mixed",
    "prefix",
    "version",
    "config",
    "flag",
]


class GateProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that stops a component, with the message it gives."""

    kind: ProblemKind
    message: str
    gate: str = ""
    value: bool | None = None
    missing: tuple[str, ...] = ()
    """Dependencies that are off."""
    removed_in: str | None = None
    """First minor of the data that no longer knows the gate."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a component can report its faults.

    It tells all of `every`, just one of `one_of` if there are any, and any of `some`.
    """

    every: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()
    some: frozenset[str] = frozenset()

    def explains(self, messages: Collection[str]) -> bool:
        """Whether the messages are told together in this way."""
        given = frozenset(messages)
        rest = given - self.every
        if not self.every <= given:
            return False
        if self.one_of and len(rest & self.one_of) != 1:
            return False
        return rest - self.one_of <= self.some


StartStage = Literal["starts", "command line", "gates", "validation", "configuration", "serving"]


class StartVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a component of a version starts with these gates."""

    starts: bool | None
    """None: this data cannot tell, and `reason` says why."""
    reason: str = ""
    stage: StartStage = "starts"
    """Where it stops: reading its command line, setting gates, validating what is set, or (kube-apiserver) merging
    --runtime-config with its defaults, or building what it serves, when it has its storage."""
    exit_code: int = 0
    """Exit status where it stops: 1, or 2 for the kubelet's panic on the gates of its file."""
    prefix: str = ""
    """What the component writes before its messages."""
    problems: tuple[GateProblem, ...] = ()
    """Every fault, also those that are only seen once others are mended."""
    alternatives: tuple[Alternative, ...] = ()
    warnings: tuple[GateProblem, ...] = ()
    """Gates that are accepted with a warning: deprecated, or GA and on the way out."""
    effective: dict[str, bool] = {}
    """Value of every gate where it starts; empty where it does not."""
    emulated: str = ""
    min_compat: str = ""

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages that the component can give at its first start, sorted."""
        found: set[str] = set()
        for alternative in self.alternatives:
            found |= alternative.every | alternative.one_of | alternative.some
        return tuple(sorted(found))

    def explains(self, messages: Collection[str]) -> bool:
        """Whether a component can have given just these messages (each without `prefix`)."""
        return any(alternative.explains(messages) for alternative in self.alternatives)


def _not_covered(component: str, minor: str | None, version: str | Version, data: KubernetesData) -> str:
    if component not in COMPONENTS:
        return f"{component} has gates of its own, which are not those of Kubernetes"
    if minor is None:
        return f"{version} is no Kubernetes version"
    if minor_key(minor) > minor_key(data.newest):
        return f"Kubernetes {minor} is newer than the data, which ends at {data.newest}"
    if minor_key(minor) < minor_key(data.oldest):
        return f"Kubernetes {minor} is older than the data, which begins at {data.oldest}"
    return f"the data has no Kubernetes {minor}"


def _binary_name(version: str | Version, minor: str) -> str:
    """How the binary names its minor in the range error: with patch 0 and with its own suffix."""
    parsed = version if isinstance(version, Version) else None
    if parsed is None:
        text = str(version)
        match = re.match(r"\s*v?\d+\.\d+\.\d+(.*)", text)
        suffix = match[1].strip() if match else ""
    else:
        suffix = (f"-{parsed.pre}" if parsed.pre else "") + parsed.build
    return f"{minor}.0{suffix}"


def _unknown_flags(
    component: str, minor: str, sources: GateSources, data: KubernetesData
) -> list[GateProblem]:
    """The flags of these sources that the component does not have in this minor; the first one stops it."""
    given = (
        ("feature-gates", sources.flags),
        ("emulated-version", sources.emulated),
        ("min-compatibility-version", sources.min_compat),
        ("emulation-forward-compatible", sources.emulation_forward_compatible),
        ("runtime-config-emulation-forward-compatible", sources.runtime_config_emulation_forward_compatible),
    )
    known = data.flags(component, minor)
    missing = [name for name, value in given if value and known and name not in known]
    return [GateProblem(kind="flag", message=f"unknown flag: --{name}") for name in missing[:1]]


def _warning(name: str, value: bool, stage: Stage) -> GateProblem | None:
    if stage == "GA":
        message = "Warning: setting GA feature gate. It will be removed in a future release."
    elif stage == "Deprecated":
        message = "Warning: setting deprecated feature gate. It will be removed in a future release."
    else:
        return None
    return GateProblem(kind="flag", gate=name, value=value, message=message)


def _apply(
    table: _Table, values: Mapping[str, bool], data: KubernetesData, before: Mapping[str, bool] | None = None
) -> tuple[list[GateProblem], Alternative]:
    """SetFromMap of feature_gate.go: the faults of these values, and how they are reported.

    A name that the table lacks ends the walk at once, so that of the other faults only those met before it are told;
    dependencies are looked at only when every value is accepted.
    """
    stopping: list[GateProblem] = []
    others: list[GateProblem] = []
    for name, value in values.items():
        if name not in table.gates:
            history = data.gate(name)
            stopping.append(
                GateProblem(
                    kind="removed" if history is not None and history.removed_in is not None else "unknown",
                    gate=name,
                    value=value,
                    message=f"unrecognized feature gate: {name}",
                    removed_in=history.removed_in if history is not None else None,
                )
            )
            continue
        spec = table.specs[name]
        text = str(value).lower()
        if spec is None:
            others.append(
                GateProblem(
                    kind="prealpha",
                    gate=name,
                    value=value,
                    message=_prealpha(name, text, table),
                )
            )
        elif spec.lock and spec.default != value:
            others.append(
                GateProblem(
                    kind="locked",
                    gate=name,
                    value=value,
                    message=f"cannot set feature gate {name} to {text}, feature is locked to {str(spec.default).lower()}",
                )
            )
    if stopping:
        return [*stopping, *others], Alternative(
            one_of=frozenset(problem.message for problem in stopping),
            some=frozenset(problem.message for problem in others),
        )
    if others:
        return others, Alternative(every=frozenset(problem.message for problem in others))
    faults = table.dependency_faults(values, before)
    return faults, Alternative(every=frozenset(problem.message for problem in faults))


def _prealpha(name: str, value: str, table: _Table) -> str:
    message = f"cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {_text(table.emulated)}"
    # 1.34 does not know minimum compatibility versions in its gates.
    return (
        f"{message}, min compatibility version {_text(table.minimum)}"
        if table.checks_dependencies
        else message
    )


def start(
    component: str,
    version: str | Version,
    sources: GateSources,
    data: KubernetesData | None = None,
    *,
    foreign_gates: bool = False,
) -> StartVerdict:
    """Would a component of this version start with these gates, and what would it say if not.

    Args:
        component: one of `COMPONENTS`.
        version: of the binary; only its minor counts, and patches of one minor share one table of gates.
        sources: its flags and files.
        data: the Kubernetes data; the shipped one by default.
        foreign_gates: the distribution adds gates of its own (OpenShift), so that an unknown name proves nothing.
    """
    data = data or load()
    minor = minor_of(version)
    if component not in COMPONENTS or minor is None or not data.knows(minor):
        return StartVerdict(starts=None, reason=_not_covered(component, minor, version, data))
    compat = _compat(component, minor_key(minor), _binary_name(version, minor), sources)
    parsed = parse_gates(component, sources)
    table = _table(data, component, minor, compat.emulated, compat.minimum)
    found = _Faults()
    found.stop("command line", _unknown_flags(component, minor, sources, data))
    if component in REGISTRY_COMPONENTS:
        _start_registry(parsed, compat, table, data, found)
    else:
        _start_map(parsed, sources, table, data, found)
    emulated, minimum = _text(compat.emulated), _text(compat.minimum)
    if foreign_gates and any(problem.kind in {"unknown", "removed"} for problem in found.problems):
        return StartVerdict(
            starts=None,
            reason="this distribution has gates of its own, which the data does not list",
            problems=tuple(found.problems),
            emulated=emulated,
            min_compat=minimum,
        )
    if found.alternatives:
        return StartVerdict(
            starts=False,
            stage=found.stage,
            exit_code=found.exit_code,
            prefix=found.prefix,
            problems=tuple(found.problems),
            alternatives=tuple(found.alternatives),
            emulated=emulated,
            min_compat=minimum,
        )
    warnings = []
    for name, value in parsed.values.items():
        spec = table.specs[name]
        if spec is not None and name not in _STAGE_OF and (warning := _warning(name, value, spec.stage)):
            warnings.append(warning)
    return StartVerdict(
        starts=True,
        warnings=tuple(warnings),
        effective={name: value for name, value in table.resolve(parsed.values).items() if table.specs[name]},
        emulated=emulated,
        min_compat=minimum,
    )


class _Faults:
    """What stops a component: every fault, and the ways in which it can report those of the first stage."""

    def __init__(self) -> None:
        self.problems: list[GateProblem] = []
        self.alternatives: list[Alternative] = []
        self.stage: StartStage = "starts"
        self.prefix = ""
        self.exit_code = 0

    def stop(
        self,
        stage: StartStage,
        problems: Sequence[GateProblem],
        alternative: Alternative | None = None,
        *,
        prefix: str = "",
        exit_code: int = 1,
        last: bool = True,
    ) -> None:
        """Takes the faults of one step; they are reported unless an earlier step stopped the component.

        Steps that come in random order are told one after the other with `last=False`.
        """
        if not problems:
            return
        known = set(self.problems)
        self.problems += [problem for problem in problems if problem not in known]
        if self.stage != "starts" and (last or self.stage != stage):
            return
        self.stage, self.prefix, self.exit_code = stage, prefix, exit_code
        every = Alternative(every=frozenset(problem.message for problem in problems))
        self.alternatives.append(alternative or every)


def _start_registry(
    parsed: ParsedGates, compat: _Compat, table: _Table, data: KubernetesData, found: _Faults
) -> None:
    """ComponentGlobalsRegistry.Set, then Validate (component-base compatibility/registry.go).

    Versions first, then the gates of each prefix in the random order of a map: the first fault ends it.
    """
    versions = [GateProblem(kind="version", message=message) for message in compat.set_errors]
    found.stop("gates", versions, Alternative(one_of=frozenset(compat.set_errors)))
    found.stop("gates", table.dependency_faults({}))
    before = found.stage
    for prefix in parsed.prefixes:
        entries = [entry for entry in parsed.entries if entry.prefix == prefix]
        bad = next((entry for entry in entries if entry.value is None), None)
        if prefix not in {"", "kube"}:
            faults = [GateProblem(kind="prefix", message=f"component not registered: {prefix}")]
            alternative = Alternative(every=frozenset({faults[0].message}))
        elif not prefix and "kube" in parsed.prefixes:
            faults = [GateProblem(kind="mixed", message=_MIXED)]
            alternative = Alternative(every=frozenset({_MIXED}))
        elif bad is not None:
            faults = [GateProblem(kind="malformed", gate=bad.name, message=_malformed_item(bad))]
            alternative = Alternative(every=frozenset({faults[0].message}))
        else:
            values = {entry.name: entry.value for entry in entries if entry.value is not None}
            faults, alternative = _apply(table, values, data)
        found.stop("gates", faults, alternative, last=before != "starts")
    found.stop(
        "validation", [GateProblem(kind="version", message=message) for message in compat.range_errors]
    )


def _start_map(
    parsed: ParsedGates, sources: GateSources, table: _Table, data: KubernetesData, found: _Faults
) -> None:
    """The flag as it is read, then SetFromMap: kubelet and kube-proxy (cmd/kubelet/app/server.go, cmd/kube-proxy)."""
    for message in parsed.errors[:1]:
        bad = next(entry for entry in parsed.entries if entry.value is None)
        found.stop("command line", [GateProblem(kind="malformed", gate=bad.name, message=message)])
    if parsed.component == "kubelet":
        _start_kubelet(parsed, sources, table, data, found)
        return
    faults, alternative = _apply(table, parsed.values, data)
    found.stop("gates", faults, alternative, prefix=_PROXY_PREFIX)


def _start_kubelet(
    parsed: ParsedGates, sources: GateSources, table: _Table, data: KubernetesData, found: _Faults
) -> None:
    """The kubelet's steps, each with the gates that it knows by then.

    Its flags alone; its file, defaulted with flags and file together, where a fault is a panic; each time the same with
    the drop-ins; then all with the flags on top; then validation, where two fields that are only defaulted with their
    gate on must fit the gates at the end (pkg/kubelet/apis/config/{v1beta1/defaults,validation/validation}.go).
    """
    faults, alternative = _apply(table, parsed.flag_values, data)
    found.stop("gates", faults, alternative, prefix=_KUBELET_PREFIX)
    enabled = table.enable(parsed.flag_values)
    # Without a file the defaults are made before the flags are read.
    defaulted = [table.resolve({})] if sources.file is None else []
    loaded: dict[str, bool] = {} if sources.file is not None else dict(parsed.flag_values)
    for content in ((sources.file,) if sources.file is not None else ()) + (
        ({key: value for dropin in sources.dropins for key, value in dropin.items()},)
        if sources.dropins
        else ()
    ):
        loaded |= content
        merged = {**parsed.flag_values, **loaded}
        faults, alternative = _apply(table, merged, data, enabled)
        found.stop("gates", faults, alternative, prefix=_KUBELET_PANIC, exit_code=2)
        defaulted.append(table.resolve(merged, enabled))
    if sources.file is not None or sources.dropins:
        faults, alternative = _apply(table, parsed.values, data, enabled)
        found.stop("gates", faults, alternative, prefix=_KUBELET_PREFIX)
        enabled = table.enable(parsed.values, enabled)
    final = table.resolve(parsed.values, enabled)
    problems = []
    for name, (set_without, missing_with) in _KUBELET_DEFAULTED.items():
        was_set = any(step.get(name, False) for step in defaulted)
        if was_set != final.get(name, False):
            message = set_without if was_set else missing_with
            problems.append(GateProblem(kind="config", gate=name, value=final.get(name), message=message))
    found.stop("validation", problems, prefix=_KUBELET_INVALID)


def effective(
    component: str,
    version: str | Version,
    sources: GateSources,
    data: KubernetesData | None = None,
) -> dict[str, bool]:
    """Value of every gate of a component with these settings, AllAlpha and AllBeta among them.

    It is what `kubernetes_feature_enabled` reports of a running instance. Settings that would stop the component
    (`start` tells) are left out, so that an instance which runs against all expectation can still be described.
    Raises `KubernetesDataError` for a minor that the data lacks.
    """
    data = data or load()
    minor = data.minor(version).minor
    compat = _compat(component, minor_key(minor), _binary_name(version, minor), sources)
    table = _table(data, component, minor, compat.emulated, compat.minimum)
    values = {}
    for name, value in parse_gates(component, sources).values.items():
        spec = table.specs.get(name)
        if spec is not None and (not spec.lock or spec.default == value):
            values[name] = value
    return {name: value for name, value in table.resolve(values).items() if table.specs[name] is not None}


# --------------------------------------------------------------------------------------------------------- forecast

ForecastKind = Literal[
    "unknown",
    "removed",
    "locked-other",
    "prealpha",
    "dependency",
    "locked-same",
    "set-to-default",
    "flip-on",
    "flip-off",
    "new-on",
    "new-off",
    "gone",
    "stage-change",
    "unchanged",
]
"""What happens to one gate between two versions:

- `unknown`, `removed`, `locked-other`, `prealpha`, `dependency`: set (or, for a dependency, resulting) in a way that
  the target refuses; it would not start.
- `locked-same`, `set-to-default`: set to what it would be without being set, and locked there or not: clean-up.
- `flip-on`, `flip-off`: nobody set it, and its value changes.
- `new-on`, `new-off`: unknown today, known at the target, with its value there.
- `gone`: not set, and the target no longer knows it: what was on stays on for good, what was off has no such thing.
- `stage-change`: same value, another stage or lock.
"""

BLOCKING: frozenset[str] = frozenset({"unknown", "removed", "locked-other", "prealpha", "dependency"})


class GateForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to one gate of one component instance."""

    gate: str
    kind: ForecastKind
    today: bool | None = None
    """Effective value now; None where the version of today does not know the gate."""
    target: bool | None = None
    """Effective value at the target; None where the target does not know it, or would not start with it."""
    set_value: bool | None = None
    """Explicit setting; None where there is none."""
    set_by: str = ""
    """`flag`, `file`, `drop-in`, or the AllAlpha / AllBeta that decides it."""
    stage_today: Stage | None = None
    stage_target: Stage | None = None
    locked_target: bool = False
    message: str = ""
    """The component's own words where it would not start."""
    missing: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    """Programs that read the gate, at the target or when it was last known."""

    @property
    def blocking(self) -> bool:
        """Whether the target would not start with it."""
        return self.kind in BLOCKING

    @property
    def changes_value(self) -> bool:
        """Whether behaviour changes with nobody touching a setting."""
        return self.kind in {"flip-on", "flip-off", "new-on"}


class HopForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One minor of the way."""

    today: str
    target: str
    verdict: StartVerdict
    """With the settings of today carried over unchanged."""
    gates: tuple[GateForecast, ...]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a target version does to the gates of one component instance."""

    component: str
    today: str
    target: str
    verdict: StartVerdict
    """At the final target, with the settings of today carried over unchanged."""
    gates: tuple[GateForecast, ...] = ()
    """Between today and the final target, unchanged gates left out unless they are set."""
    hops: tuple[HopForecast, ...] = ()
    """Each minor of the way; one item for a single minor."""
    hop_of: dict[str, str] = {}
    """Gate of `gates` → first minor of the way in which that happens to it."""

    @property
    def starts(self) -> bool | None:
        """Whether every minor of the way starts; None where one cannot be told and none is known to fail."""
        verdicts = [hop.verdict.starts for hop in self.hops] or [self.verdict.starts]
        return False if False in verdicts else None if None in verdicts else True


def forecast(
    component: str,
    today: str | Version,
    target: str | Version,
    sources: GateSources,
    data: KubernetesData | None = None,
    *,
    target_sources: GateSources | None = None,
    foreign_gates: bool = False,
) -> Forecast:
    """What happens to every gate of an instance when its binary goes from `today` to `target`.

    Args:
        component: one of `COMPONENTS`.
        today: version of the running binary.
        target: version that it is to have; several minors away gives one hop a minor.
        sources: its settings.
        data: the Kubernetes data; the shipped one by default.
        target_sources: its settings at the target, where a profile changes them; else the same.
        foreign_gates: see `start`.

    With a version that the data lacks the verdict has no answer and its reason, and no gate is forecast.
    """
    data = data or load()
    after = target_sources or sources
    first, last = minor_of(today), minor_of(target)
    verdict = start(component, target, after, data, foreign_gates=foreign_gates)
    covered = component in COMPONENTS and data.knows(first) and data.knows(last)
    if not covered or first is None or last is None:
        return Forecast(
            component=component,
            today=first or str(today),
            target=last or str(target),
            verdict=StartVerdict(
                starts=None, reason=verdict.reason or _not_covered(component, first, today, data)
            ),
        )
    hops: list[HopForecast] = []
    previous = str(today)
    for minor in next_minors(first, last):
        version = str(target) if minor == last else minor
        settings = after if minor == last else sources
        hops.append(
            HopForecast(
                today=minor_of(previous) or previous,
                target=minor,
                verdict=start(component, version, settings, data, foreign_gates=foreign_gates),
                gates=_changes(component, previous, version, sources, settings, data),
            )
        )
        previous = version
    gates = _changes(component, str(today), str(target), sources, after, data)
    return Forecast(
        component=component,
        today=first,
        target=last,
        verdict=verdict,
        gates=gates,
        hops=tuple(hops),
        hop_of={gate.gate: hop for gate in gates if (hop := _hop_of(gate, hops))},
    )


def _hop_of(gate: GateForecast, hops: Sequence[HopForecast]) -> str | None:
    """First minor in which a gate meets what is said of it for the whole way, or else changes at all."""
    changes = [(hop.target, item.kind) for hop in hops for item in hop.gates if item.gate == gate.gate]
    same = [target for target, kind in changes if kind == gate.kind]
    other = [target for target, kind in changes if kind != "unchanged"]
    return next(iter([*same, *other]), None)


def _changes(
    component: str, today: str, target: str, before: GateSources, after: GateSources, data: KubernetesData
) -> tuple[GateForecast, ...]:
    old_minor, new_minor = data.minor(today).minor, data.minor(target).minor
    old_compat = _compat(component, minor_key(old_minor), _binary_name(today, old_minor), before)
    new_compat = _compat(component, minor_key(new_minor), _binary_name(target, new_minor), after)
    old = _table(data, component, old_minor, old_compat.emulated, old_compat.minimum)
    new = _table(data, component, new_minor, new_compat.emulated, new_compat.minimum)
    parsed = parse_gates(component, after)
    values_today = effective(component, today, before, data)
    values_target = effective(component, target, after, data)
    unset_target = new.resolve({key: value for key, value in parsed.values.items() if key in _STAGE_OF})
    faults: dict[str, GateProblem] = {}
    for fault in (*_apply(new, parsed.values, data)[0], *new.dependency_faults(parsed.values)):
        faults.setdefault(fault.gate, fault)
    found = []
    for name in sorted({*old.gates, *new.gates, *parsed.values} - set(_STAGE_OF)):
        found_kind = _kind(
            name, old, new, parsed, faults.get(name), values_today, values_target, unset_target
        )
        is_set = name in parsed.values
        if found_kind == "unchanged" and not is_set:
            continue
        old_spec, new_spec = old.specs.get(name), new.specs.get(name)
        problem = faults.get(name)
        gate = new.gates.get(name) or old.gates.get(name)
        found.append(
            GateForecast(
                gate=name,
                kind=found_kind,
                today=values_today.get(name),
                target=None if found_kind in BLOCKING else values_target.get(name),
                set_value=parsed.values.get(name),
                set_by=parsed.origins.get(name, "") or _decided_by(new_spec, parsed.values),
                stage_today=old_spec.stage if old_spec is not None else None,
                stage_target=new_spec.stage if new_spec is not None else None,
                locked_target=new_spec is not None and new_spec.lock,
                message=problem.message if problem is not None else "",
                missing=problem.missing if problem is not None else (),
                components=gate.components if gate is not None else (),
            )
        )
    return tuple(found)


def _decided_by(spec: GateSpec | None, values: Mapping[str, bool]) -> str:
    for special, stage in _STAGE_OF.items():
        if spec is not None and spec.stage == stage and special in values:
            return special
    return ""


def _kind(
    name: str,
    old: _Table,
    new: _Table,
    parsed: ParsedGates,
    problem: GateProblem | None,
    values_today: Mapping[str, bool],
    values_target: Mapping[str, bool],
    unset_target: Mapping[str, bool],
) -> ForecastKind:
    if problem is not None:
        if problem.kind in {"removed", "unknown"}:
            return "removed" if name in old.gates else problem.kind
        return {"locked": "locked-other", "prealpha": "prealpha"}.get(problem.kind, "dependency")  # type: ignore[return-value]
    old_spec, new_spec = old.specs.get(name), new.specs.get(name)
    if new_spec is None:
        return "gone" if old_spec is not None else "unchanged"
    value = values_target[name]
    if name in parsed.values:
        if new_spec.lock:
            return "locked-same"
        if value == unset_target[name]:
            return "set-to-default"
        if old_spec is None:
            return "new-on" if value else "new-off"
    elif old_spec is None:
        return "new-on" if value else "new-off"
    elif values_today[name] != value:
        return "flip-on" if value else "flip-off"
    if old_spec is not None and (old_spec.stage, old_spec.lock) != (new_spec.stage, new_spec.lock):
        return "stage-change"
    return "unchanged"
