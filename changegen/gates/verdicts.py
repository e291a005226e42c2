"""Whether a component starts with its gates, with the very message where it does not, and what is on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from changegen.gates.emulation import Compat, binary_name, compat_of, pair_text
from changegen.gates.reading import (
    COMPONENTS,
    MIXED,
    REGISTRY_COMPONENTS,
    STAGE_OF,
    GateSources,
    ParsedGates,
    malformed_item,
    parse_gates,
)
from changegen.gates.table import GateProblem, Table, table_of
from changegen.kubedata import KubernetesData, Stage, load
from changegen.versions import Version, minor_key, minor_of

__all__ = ["Alternative", "StartStage", "StartVerdict", "apply_gates", "effective", "not_covered", "start"]


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


def not_covered(component: str, minor: str | None, version: str | Version, data: KubernetesData) -> str:
    """Why nothing can be said of the gates of a component in a version; empty where it can."""
    if component not in COMPONENTS:
        return f"{component} has gates of its own, which are not those of Kubernetes"
    if minor is None:
        return f"{version} is no Kubernetes version"
    if minor_key(minor) > minor_key(data.newest):
        return f"Kubernetes {minor} is newer than the data, which ends at {data.newest}"
    if minor_key(minor) < minor_key(data.oldest):
        return f"Kubernetes {minor} is older than the data, which begins at {data.oldest}"
    return f"the data has no Kubernetes {minor}"


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


def apply_gates(
    table: Table, values: Mapping[str, bool], data: KubernetesData, before: Mapping[str, bool] | None = None
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


def _prealpha(name: str, value: str, table: Table) -> str:
    message = f"cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {pair_text(table.emulated)}"
    # 1.34 does not know minimum compatibility versions in its gates.
    return (
        f"{message}, min compatibility version {pair_text(table.minimum)}"
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
        return StartVerdict(starts=None, reason=not_covered(component, minor, version, data))
    compat = compat_of(component, minor_key(minor), binary_name(version, minor), sources)
    parsed = parse_gates(component, sources)
    table = table_of(data, component, minor, compat.emulated, compat.minimum)
    found = _Faults()
    found.stop("command line", _unknown_flags(component, minor, sources, data))
    if component in REGISTRY_COMPONENTS:
        _start_registry(parsed, compat, table, data, found)
    else:
        _start_map(parsed, sources, table, data, found)
    emulated, minimum = pair_text(compat.emulated), pair_text(compat.minimum)
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
        if spec is not None and name not in STAGE_OF and (warning := _warning(name, value, spec.stage)):
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
    parsed: ParsedGates, compat: Compat, table: Table, data: KubernetesData, found: _Faults
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
            faults = [GateProblem(kind="mixed", message=MIXED)]
            alternative = Alternative(every=frozenset({MIXED}))
        elif bad is not None:
            faults = [GateProblem(kind="malformed", gate=bad.name, message=malformed_item(bad))]
            alternative = Alternative(every=frozenset({faults[0].message}))
        else:
            values = {entry.name: entry.value for entry in entries if entry.value is not None}
            faults, alternative = apply_gates(table, values, data)
        found.stop("gates", faults, alternative, last=before != "starts")
    found.stop(
        "validation", [GateProblem(kind="version", message=message) for message in compat.range_errors]
    )


def _start_map(
    parsed: ParsedGates, sources: GateSources, table: Table, data: KubernetesData, found: _Faults
) -> None:
    """The flag as it is read, then SetFromMap: kubelet and kube-proxy (cmd/kubelet/app/server.go, cmd/kube-proxy)."""
    for message in parsed.errors[:1]:
        bad = next(entry for entry in parsed.entries if entry.value is None)
        found.stop("command line", [GateProblem(kind="malformed", gate=bad.name, message=message)])
    if parsed.component == "kubelet":
        _start_kubelet(parsed, sources, table, data, found)
        return
    faults, alternative = apply_gates(table, parsed.values, data)
    found.stop("gates", faults, alternative, prefix=_PROXY_PREFIX)


def _start_kubelet(
    parsed: ParsedGates, sources: GateSources, table: Table, data: KubernetesData, found: _Faults
) -> None:
    """The kubelet's steps, each with the gates that it knows by then.

    Its flags alone; its file, defaulted with flags and file together, where a fault is a panic; each time the same with
    the drop-ins; then all with the flags on top; then validation, where two fields that are only defaulted with their
    gate on must fit the gates at the end (pkg/kubelet/apis/config/{v1beta1/defaults,validation/validation}.go).
    """
    faults, alternative = apply_gates(table, parsed.flag_values, data)
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
        faults, alternative = apply_gates(table, merged, data, enabled)
        found.stop("gates", faults, alternative, prefix=_KUBELET_PANIC, exit_code=2)
        defaulted.append(table.resolve(merged, enabled))
    if sources.file is not None or sources.dropins:
        faults, alternative = apply_gates(table, parsed.values, data, enabled)
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
    compat = compat_of(component, minor_key(minor), binary_name(version, minor), sources)
    table = table_of(data, component, minor, compat.emulated, compat.minimum)
    values = {}
    for name, value in parse_gates(component, sources).values.items():
        spec = table.specs.get(name)
        if spec is not None and (not spec.lock or spec.default == value):
            values[name] = value
    return {name: value for name, value in table.resolve(values).items() if table.specs[name] is not None}
