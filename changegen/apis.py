"""Served APIs and `--runtime-config`, as kube-apiserver decides them.

Pure, from `KubernetesData`. The rules are those of apiserver `server/resourceconfig/helpers.go`,
`server/options/api_enablement.go`, `server/deleted_kinds.go` and kube-apiserver's `pkg/controlplane`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from changegen.gates import (
    Alternative,
    GateProblem,
    GateSources,
    StartStage,
    StartVerdict,
    effective,
    go_parse_bool,
    go_quote,
    start,
    versions_in_force,
)
from changegen.kubedata import Api, KubernetesData, load
from changegen.versions import Version, minor_key, minor_of

__all__ = [
    "ApiForecast",
    "ApiForecastKind",
    "ApiResource",
    "RuntimeConfigProblem",
    "RuntimeConfigVerdict",
    "forecast_apis",
    "parse_runtime_config",
    "runtime_config",
    "served_apis",
    "start_apiserver",
    "stored_versions",
]

_MATCHERS = {
    "api/all": re.compile(r""),
    "api/ga": re.compile(r"^v\d+$"),
    "api/beta": re.compile(r"^v\d+beta\d+$"),
    "api/alpha": re.compile(r"^v\d+alpha\d+$"),
}
_ALPHA = _MATCHERS["api/alpha"]
_KUBE_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


class ApiResource(msgspec.Struct, frozen=True, order=True):
    """One resource of one group version; `group` is empty for the core group."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> str:
        """`group/version`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.group_version}/{self.resource}"


ProblemKind = Literal[
    "unknown-group",
    "unknown-version",
    "invalid-key",
    "invalid-value",
    "only-all-false",
    "flow-control-off",
    "not-introduced",
    "needed",
]


class RuntimeConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of --runtime-config that stops kube-apiserver, with the message it gives."""

    kind: ProblemKind
    keys: tuple[str, ...]
    """The entries at fault, as written, sorted."""
    message: str
    removed_in: str | None = None
    """First minor of the data that no longer registers this group version."""


class RuntimeConfigVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether kube-apiserver starts with this --runtime-config, and what it then serves."""

    starts: bool | None
    reason: str = ""
    problems: tuple[RuntimeConfigProblem, ...] = ()
    """Every fault, also those that are only seen once others are mended."""
    alternatives: tuple[Alternative, ...] = ()
    """The ways in which it can report the first faults; see `changegen.gates.Alternative`."""
    stage: StartStage = "starts"
    """Where it stops; faults at `validation` are told together with those of `changegen.gates.start` at that stage."""
    exit_code: int = 0
    """Exit status where it stops: 1, or 2 for a panic."""
    served: frozenset[ApiResource] = frozenset()
    without_effect: tuple[str, ...] = ()
    """Keys, as written, that turn on what has no kind left: accepted, and nothing is served for them."""

    def explains(self, messages: Collection[str]) -> bool:
        """Whether kube-apiserver can have given just these messages."""
        return any(alternative.explains(messages) for alternative in self.alternatives)


def parse_runtime_config(values: Collection[str]) -> dict[str, str]:
    """The map that repeated --runtime-config flags add up to; the last value of a key wins.

    cli/flag/configuration_map.go: items split at commas, key and value trimmed, no `=` means an empty value.
    """
    found: dict[str, str] = {}
    for value in values:
        for item in value.split(","):
            if item:
                key, _, text = item.partition("=")
                found[key.strip()] = text.strip()
    return found


def _completed(overrides: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Options.Complete (pkg/controlplane/apiserver/options/options.go): the old spellings of the core group.

    `v1`, `api/v1` and each of their resources all mean the whole core group; `api/legacy` means nothing. Where several
    of them stand together, kube-apiserver takes any; here it is the last.

    Returns: the completed key → the key as written, and its value.
    """
    found = {}
    for key, value in overrides.items():
        if key in {"v1", "api/v1"} or key.startswith(("v1/", "api/v1/")):
            found["/v1"] = (key, value)
        elif key != "api/legacy":
            found[key] = (key, value)
    return found


def _priority(version: str) -> tuple[int, int, int]:
    """Kube-aware order of versions: v2, v1, v2beta1, v1beta2, v1alpha1; higher is preferred."""
    match = _KUBE_VERSION.match(version)
    if match is None:
        return (-1, 0, 0)
    stage = {None: 2, "beta": 1, "alpha": 0}[match[2]]
    return (stage, int(match[1]), int(match[3] or 0))


class _Config:
    """ResourceConfig of apiserver server/storage: what is turned on, by version and by resource."""

    def __init__(self, versions: Mapping[str, bool]) -> None:
        self.versions = dict(versions)
        self.resources: dict[tuple[str, str], bool] = {}
        self.explicit_versions: dict[str, bool] = {}
        self.explicit_resources: dict[tuple[str, str], bool] = {}

    def match(self, pattern: re.Pattern[str], enabled: bool) -> None:
        for group_version in self.versions:
            if pattern.search(group_version.rpartition("/")[2]):
                self.set_version(group_version, enabled)

    def set_version(self, group_version: str, enabled: bool) -> None:
        self.versions[group_version] = enabled
        # Turning a version forgets what was said of its resources.
        for key in [key for key in self.resources if key[0] == group_version]:
            del self.resources[key]

    def enabled(self, group_version: str, resource: str) -> bool:
        return self.resources.get((group_version, resource), self.versions.get(group_version, False))


def runtime_config(
    version: str | Version,
    values: Collection[str] = (),
    gates: GateSources | None = None,
    data: KubernetesData | None = None,
    *,
    priority_and_fairness: bool = True,
) -> RuntimeConfigVerdict:
    """What kube-apiserver of this version makes of --runtime-config.

    Args:
        version: of the binary.
        values: one item for each time the flag is given.
        gates: gates and emulated version of the same instance; defaults where None.
        data: the Kubernetes data; the shipped one by default.
        priority_and_fairness: --enable-priority-and-fairness, which needs its API.
    """
    data = data or load()
    minor = minor_of(version)
    if minor is None or not data.knows(minor):
        return RuntimeConfigVerdict(starts=None, reason=f"the data has no Kubernetes {minor or version}")
    sources = gates or GateSources()
    written = parse_runtime_config(values)
    verdict = found = _judge(written, version, minor, sources, data, priority_and_fairness)
    problems = list(verdict.problems)
    while found.problems:
        # Mended one step after the other, it tells the faults that stand behind these.
        bad = {key for problem in found.problems for key in problem.keys}
        written = {key: value for key, value in written.items() if key not in bad}
        found = _judge(written, version, minor, sources, data, priority_and_fairness, alone=False)
        problems += [problem for problem in found.problems if problem not in problems]
    return msgspec.structs.replace(verdict, problems=tuple(problems))


def _judge(
    written: Mapping[str, str],
    version: str | Version,
    minor: str,
    sources: GateSources,
    data: KubernetesData,
    priority_and_fairness: bool,
    *,
    alone: bool = True,
) -> RuntimeConfigVerdict:
    """The verdict on entries as written, with the faults of the first step that has any.

    `alone`: whether `api/all=false` with nothing beside it is a fault.
    """
    facts = data.minor(minor)
    completed = _completed(written)
    names = {key: name for key, (name, _) in completed.items()}
    overrides = {key: value for key, (_, value) in completed.items()}
    problems = _validate(minor, overrides, facts.groups, data, alone=alone)
    if priority_and_fairness:
        problems += _flow_control(overrides)
    if problems:
        return _invalid(_as_written(problems, names))
    config = _Config(facts.versions)
    for key, pattern in _MATCHERS.items():
        if key in overrides:
            if overrides[key] not in {"true", "false"}:
                problem = RuntimeConfigProblem(
                    kind="invalid-value", keys=(key,), message=f"invalid value {key}={overrides[key]}"
                )
                return _stopped([problem], "configuration")
            config.match(pattern, overrides[key] == "true")
    problems = _apply(config, minor, overrides, facts.groups, data)
    if problems:
        return _stopped(_as_written(problems, names), "configuration")
    emulated, _ = versions_in_force("kube-apiserver", version, sources)
    if sources.emulation_forward_compatible:
        _forward_compatible(config, facts.groups)
        # What was said of single versions and resources is applied once more on top.
        _apply(config, minor, overrides, facts.groups, data)
    served, problems = _served(
        config, facts.apis, effective("kube-apiserver", version, sources, data), emulated, sources
    )
    # The storage of the core group comes first, the aggregated server last.
    for (group_version, resource), message, code in _NEEDED:
        if group_version != "v1" and problems:
            return _stopped(_as_written(problems, names), "serving")
        if not config.enabled(group_version, resource):
            keys = [
                key for key, value in overrides.items() if not _truth(value) and _means(key, group_version)
            ]
            fault = RuntimeConfigProblem(kind="needed", keys=tuple(keys), message=message)
            return _stopped(_as_written([fault], names), "serving", code)
    without = tuple(
        names[key]
        for key, text in overrides.items()
        if key not in _MATCHERS and _truth(text) and not any(_covers(key, resource) for resource in served)
    )
    return RuntimeConfigVerdict(starts=True, served=frozenset(served), without_effect=without)


_NEEDED = (
    # pkg/registry/core/rest/storage_core.go takes the storage of Secrets for granted.
    (("v1", "secrets"), "panic: interface conversion: interface is nil, not rest.Getter", 2),
    # kube-aggregator pkg/apiserver/apiserver.go
    (
        ("apiregistration.k8s.io/v1", "apiservices"),
        "API group/version apiregistration.k8s.io/v1 must be enabled",
        1,
    ),
)
"""Resources without which kube-apiserver stops: what it says, and its exit status."""


def _means(key: str, group_version: str) -> bool:
    """Whether an entry can turn off something of a version."""
    if key in _MATCHERS:
        return _MATCHERS[key].search(group_version.rpartition("/")[2]) is not None
    return f"{key.removeprefix('/')}/".startswith(f"{group_version}/")


def _as_written(problems: list[RuntimeConfigProblem], names: Mapping[str, str]) -> list[RuntimeConfigProblem]:
    return [
        msgspec.structs.replace(problem, keys=tuple(sorted(names[key] for key in problem.keys)))
        for problem in problems
    ]


def _truth(text: str) -> bool:
    return not text or go_parse_bool(text) is True


def _covers(key: str, resource: ApiResource) -> bool:
    parts = key.split("/")
    return [resource.group, resource.version, resource.resource][: len(parts)] == parts


def _stopped(
    problems: list[RuntimeConfigProblem], stage: StartStage, exit_code: int = 1
) -> RuntimeConfigVerdict:
    # Keys are a map: where the first fault ends the walk, any of them can be the first.
    alternative = Alternative(one_of=frozenset(problem.message for problem in problems))
    return RuntimeConfigVerdict(
        starts=False,
        stage=stage,
        exit_code=exit_code,
        problems=tuple(problems),
        alternatives=(alternative,),
    )


def _invalid(problems: list[RuntimeConfigProblem]) -> RuntimeConfigVerdict:
    """Options.Validate tells all its faults, but of keys with a wrong shape only the first that it meets."""
    shapes = frozenset(problem.message for problem in problems if problem.kind == "invalid-key")
    others = frozenset(problem.message for problem in problems) - shapes
    return RuntimeConfigVerdict(
        starts=False,
        problems=tuple(problems),
        alternatives=(Alternative(every=others, one_of=shapes),),
        stage="validation",
        exit_code=1,
    )


def _flow_control(overrides: Mapping[str, str]) -> list[RuntimeConfigProblem]:
    """ValidateAPIPriorityAndFairness (pkg/controlplane/apiserver/options/validation.go): the first that decides."""
    written = {key: f"{key}={value}" for key, value in sorted(overrides.items())}
    for key in ("flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"):
        # It looks for the text anywhere in the flag.
        off = tuple(name for name, text in written.items() if f"{key}=false" in text)
        if off:
            message = f"--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
            return [RuntimeConfigProblem(kind="flow-control-off", keys=off, message=message)]
        if any(f"{key}=true" in text for text in written.values()):
            break
    return []


def start_apiserver(
    version: str | Version,
    sources: GateSources,
    values: Collection[str] = (),
    data: KubernetesData | None = None,
    *,
    priority_and_fairness: bool = True,
    foreign_gates: bool = False,
) -> StartVerdict:
    """Would kube-apiserver start with these gates and this --runtime-config; `start` and `runtime_config` in one.

    Faults of --runtime-config become problems of kind `config`, with their keys as the gate.
    """
    data = data or load()
    gates = start("kube-apiserver", version, sources, data, foreign_gates=foreign_gates)
    if gates.starts is None:
        return gates
    apis = runtime_config(version, values, sources, data, priority_and_fairness=priority_and_fairness)
    if not apis.problems:
        return gates
    found = tuple(
        GateProblem(
            kind="config",
            gate=",".join(problem.keys),
            message=problem.message,
            removed_in=problem.removed_in,
        )
        for problem in apis.problems
    )
    problems = (*gates.problems, *found)
    if gates.starts is False:
        alternatives = gates.alternatives
        if gates.stage == apis.stage == "validation":
            # Validation tells the faults of both.
            alternatives = tuple(
                Alternative(every=mine.every | other.every, one_of=mine.one_of | other.one_of)
                for mine in gates.alternatives
                for other in apis.alternatives
            )
        return msgspec.structs.replace(gates, problems=problems, alternatives=alternatives)
    return StartVerdict(
        starts=False,
        stage=apis.stage,
        exit_code=apis.exit_code,
        problems=problems,
        alternatives=apis.alternatives,
        warnings=gates.warnings,
        emulated=gates.emulated,
        min_compat=gates.min_compat,
    )


def _validate(
    minor: str,
    overrides: Mapping[str, str],
    groups: Mapping[str, tuple[str, ...]],
    data: KubernetesData,
    *,
    alone: bool,
) -> list[RuntimeConfigProblem]:
    """APIEnablementOptions.Validate: the shape of the keys, and their groups."""
    old = minor_key(minor) < (1, 36)
    if alone and overrides.get("api/all") == "false" and len(overrides) == 1:
        what = "key" if old else "runtime-config"
        # 1.34 and 1.35 word it differently.
        message = f"invalid {what} with only api/all=false"
        return [RuntimeConfigProblem(kind="only-all-false", keys=("api/all",), message=message)]
    unknown: list[str] = []
    keys: list[str] = []
    for key in overrides:
        if key in _MATCHERS:
            continue
        tokens = key.split("/")
        if len(tokens) not in {2, 3}:
            return [
                RuntimeConfigProblem(
                    kind="invalid-key", keys=(other,), message=f"runtime-config invalid key {other}"
                )
                for other in overrides
                if other not in _MATCHERS and len(other.split("/")) not in {2, 3}
            ]
        if tokens[0] not in groups:
            unknown.append(tokens[0] if old else f"{tokens[0]}/{tokens[1]}")
            keys.append(key)
    if not unknown:
        return []
    names = unknown if old else sorted(set(unknown))
    removed = None
    for other in data.minors:
        if minor_key(other) < minor_key(minor) and names[0].split("/")[0] in data.minor(other).groups:
            removed = minor
    return [
        RuntimeConfigProblem(
            kind="unknown-group",
            keys=tuple(keys),
            message=f"unknown api groups {','.join(names)}",
            removed_in=removed,
        )
    ]


def _apply(
    config: _Config,
    minor: str,
    overrides: Mapping[str, str],
    groups: Mapping[str, tuple[str, ...]],
    data: KubernetesData,
) -> list[RuntimeConfigProblem]:
    """applyVersionAndResourcePreferences: single versions, then single resources."""
    problems: list[RuntimeConfigProblem] = []
    versions: list[tuple[str, bool]] = []
    resources: list[tuple[str, str, bool]] = []
    for key, text in overrides.items():
        tokens = key.split("/")
        if key in _MATCHERS or len(tokens) not in {2, 3} or tokens[0] not in groups:
            continue
        group, version = tokens[0], tokens[1]
        shown = f"{group}/{version}" if group else version
        if version not in groups[group]:
            problems.append(
                RuntimeConfigProblem(
                    kind="unknown-version",
                    keys=(key,),
                    message=f"group version {shown} that has not been registered",
                    removed_in=_removed_in(group, version, minor, data),
                )
            )
            continue
        enabled = True if not text else go_parse_bool(text)
        if enabled is None:
            problems.append(
                RuntimeConfigProblem(
                    kind="invalid-value",
                    keys=(key,),
                    message=f"invalid value of {key}: {text}, err: strconv.ParseBool: parsing {go_quote(text)}: invalid syntax",
                )
            )
        elif len(tokens) == 2:
            versions.append((shown, enabled))
        elif tokens[2].lower() != tokens[2]:
            problems.append(
                RuntimeConfigProblem(
                    kind="invalid-key",
                    keys=(key,),
                    message=f"invalid key {key}: group/version/resource and resource is always lowercase plural, not {go_quote(tokens[2])}",
                )
            )
        else:
            resources.append((shown, tokens[2], enabled))
    if problems:
        return problems
    for group_version, enabled in versions:
        config.set_version(group_version, enabled)
        config.explicit_versions[group_version] = enabled
    for group_version, resource, enabled in resources:
        config.resources[group_version, resource] = enabled
        config.explicit_resources[group_version, resource] = enabled
    return []


def _removed_in(group: str, version: str, minor: str, data: KubernetesData) -> str | None:
    known = [other for other in data.minors if version in data.minor(other).groups.get(group, ())]
    later = [other for other in data.minors if known and minor_key(other) > minor_key(known[-1])]
    return later[0] if later and minor_key(known[-1]) < minor_key(minor) else None


def _forward_compatible(config: _Config, groups: Mapping[str, tuple[str, ...]]) -> None:
    """EmulationForwardCompatibleResourceConfig: later versions of what is on are on too, alpha left out."""
    for group_version, enabled in list(config.versions.items()):
        group, _, version = group_version.rpartition("/")
        if not enabled or _ALPHA.match(version):
            continue
        for other in sorted(groups.get(group, ()), key=_priority, reverse=True):
            if other == version:
                break
            config.versions[f"{group}/{other}" if group else other] = True
    for (group_version, resource), enabled in list(config.resources.items()):
        group, _, version = group_version.rpartition("/")
        if not enabled or _ALPHA.match(version):
            continue
        for other in sorted(groups.get(group, ()), key=_priority, reverse=True):
            if other == version:
                break
            config.resources[f"{group}/{other}" if group else other, resource] = True


def _served(
    config: _Config,
    apis: tuple[Api, ...],
    gates: Mapping[str, bool],
    emulated: tuple[int, int],
    sources: GateSources,
) -> tuple[set[ApiResource], list[RuntimeConfigProblem]]:
    """Providers offer what is on; RemoveUnavailableKinds takes out what is gone or not there yet."""
    served: set[ApiResource] = set()
    problems: list[RuntimeConfigProblem] = []
    offered: dict[tuple[str, str], list[Api]] = {}
    for api in apis:
        if (
            api.resource
            and config.enabled(api.group_version, api.resource)
            and all(gates.get(gate, False) for gate in api.gates)
            and (api.removed is None or minor_key(api.removed) > emulated)
        ):
            offered.setdefault((api.group, api.version), []).append(api)
    lower: dict[str, set[str]] = {}
    text = f"{emulated[0]}.{emulated[1]}"
    for (group, version), kinds in sorted(
        offered.items(), key=lambda item: (item[0][0], _priority(item[0][1]))
    ):
        group_version = f"{group}/{version}" if group else version
        kept = set()
        for api in kinds:
            explicit = config.explicit_resources.get((group_version, api.resource), False)
            forced = explicit or config.explicit_versions.get(group_version, False)
            if (
                api.introduced is None
                or minor_key(api.introduced) <= emulated
                or (sources.emulation_forward_compatible and api.resource in lower.get(group, ()))
                or (sources.runtime_config_emulation_forward_compatible and forced)
            ):
                kept.add(api.resource)
            elif explicit:
                problems.append(
                    RuntimeConfigProblem(
                        kind="not-introduced",
                        keys=(f"{group}/{version}/{api.resource}",),
                        message=f"cannot enable resource {group_version}, Resource={api.resource} in runtime-config because it is introduced at "
                        f"{api.introduced} after the current version {text}. Consider setting --runtime-config-emulation-forward-compatible=true",
                    )
                )
        if not kept and config.explicit_versions.get(group_version, False) and kinds:
            problems.append(
                RuntimeConfigProblem(
                    kind="not-introduced",
                    keys=(f"{group}/{version}",),
                    message=f"cannot enable version {group_version} in runtime-config because all the resources have been introduced after "
                    f"the current version {text}. Consider setting --runtime-config-emulation-forward-compatible=true",
                )
            )
        if not _ALPHA.match(version):
            lower.setdefault(group, set()).update(kept)
        served |= {ApiResource(group, version, resource) for resource in kept}
    return served, problems


def served_apis(
    version: str | Version,
    values: Collection[str] = (),
    gates: GateSources | None = None,
    data: KubernetesData | None = None,
) -> frozenset[ApiResource]:
    """Resources that kube-apiserver of this version serves itself; empty where it would not start.

    Custom resources and aggregated APIs are not among them.
    """
    return runtime_config(version, values, gates, data).served


def stored_versions(
    version: str | Version, data: KubernetesData | None = None, *, gates: GateSources | None = None
) -> dict[tuple[str, str], str]:
    """Group and kind → group version in which kube-apiserver writes it to etcd.

    Without emulated and minimum compatibility version this is what the release's own storage factory says; with them
    it follows `resource_encoding_config.go` of that release: a fixed version stays, else the preferred one that the
    minimum compatibility version knows. Raises `KubernetesDataError` for a minor that the data lacks.

    Args:
        version: of the binary.
        data: the Kubernetes data; the shipped one by default.
        gates: emulated and minimum compatibility version of the instance.
    """
    data = data or load()
    found: dict[tuple[str, str], str] = {}
    if gates is None or not (gates.emulated or gates.min_compat):
        return {(api.group, api.kind): api.storage for api in data.apis(version) if api.storage is not None}
    facts = data.minor(version)
    emulated, minimum = versions_in_force("kube-apiserver", version, gates)
    kinds: dict[tuple[str, str], dict[str, Api]] = {}
    for api in facts.apis:
        kinds.setdefault((api.group, api.kind), {})[api.version] = api
    for (group, kind), versions in kinds.items():
        stored = next((api.storage for api in versions.values() if api.storage is not None), None)
        resource = next((api.resource for api in versions.values() if api.resource), "")
        if stored is None:
            continue
        fixed = facts.storage_overrides.get(f"{group}/{resource}")
        if fixed is not None or stored.rpartition("/")[0] != group:
            # Events of both groups are written as those of the core group.
            found[group, kind] = fixed or stored
            continue
        order = [versions[name] for name in facts.groups[group] if name in versions]
        chosen = _storage_version(order, minor_key(facts.minor), emulated, minimum)
        name = chosen.version if chosen is not None else facts.groups[group][0]
        found[group, kind] = f"{group}/{name}" if group else name
    return found


def _storage_version(
    order: list[Api], binary: tuple[int, int], emulated: tuple[int, int], minimum: tuple[int, int]
) -> Api | None:
    """The version of a kind to write, of those in order of preference; None: the group's preferred version."""

    def there(api: Api, at: tuple[int, int]) -> bool:
        return api.introduced is None or minor_key(api.introduced) <= at

    if binary < (1, 37):
        # Up to 1.34 a version with a replacement is passed over, if it states when it was introduced.
        passed = {api.version for api in order if binary < (1, 35) and api.introduced and api.replacement}
        return next((api for api in order if api.version not in passed and there(api, minimum)), None)
    stable = (api for api in order if "alpha" not in api.version and there(api, minimum))
    return next(stable, None) or next((api for api in order if there(api, emulated)), None)


ApiForecastKind = Literal[
    "unregistered", "removed", "off", "new", "deprecated", "storage-unreadable", "storage-changed"
]
"""What a target does to an API:

- `unregistered`: the target does not know the group version of the kind any more; naming it in --runtime-config stops
  kube-apiserver.
- `removed`: known, and no longer served whatever --runtime-config says.
- `off`: served today, at the target only with --runtime-config or a gate.
- `new`: not served today.
- `deprecated`: served by both, deprecated at the target and not today.
- `storage-unreadable`: objects as today's version writes them cannot be decoded by the target.
- `storage-changed`: the target writes another version than today's.
"""


class ApiForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to one kind in one group version, or to one kind in storage."""

    kind: ApiForecastKind
    group: str
    version: str
    api_kind: str
    resource: str = ""
    removed: str | None = None
    replacement: str | None = None
    storage_today: str | None = None
    storage_target: str | None = None


def forecast_apis(
    today: str | Version,
    target: str | Version,
    values: Collection[str] = (),
    gates: GateSources | None = None,
    data: KubernetesData | None = None,
) -> tuple[ApiForecast, ...]:
    """What a target version does to the APIs that kube-apiserver serves and to the objects it stores.

    Settings are carried over; a --runtime-config item that would stop the target is left out here (`runtime_config`
    tells it). Raises `KubernetesDataError` for a minor that the data lacks.
    """
    data = data or load()
    old = {(api.group, api.version, api.kind): api for api in data.apis(today)}
    new = {(api.group, api.version, api.kind): api for api in data.apis(target)}
    groups = data.minor(target).groups
    kept = tuple(
        item
        for value in values
        for item in value.split(",")
        if item.split("=")[0].strip() in _MATCHERS or _known(item.split("=")[0].strip(), groups)
    )
    served_today = served_apis(today, values, gates, data)
    served_target = served_apis(target, kept, gates, data)
    found: list[ApiForecast] = []

    def add(kind: ApiForecastKind, api: Api, **more: str | None) -> None:
        found.append(
            ApiForecast(
                kind=kind,
                group=api.group,
                version=api.version,
                api_kind=api.kind,
                resource=api.resource,
                removed=api.removed,
                replacement=api.replacement,
                **more,
            )
        )

    for key, api in old.items():
        if not api.resource:
            continue
        later = new.get(key)
        was = ApiResource(api.group, api.version, api.resource) in served_today
        stays = ApiResource(api.group, api.version, api.resource) in served_target
        if later is None or (not later.resource and api.served):
            add("unregistered" if api.version not in groups.get(api.group, ()) else "removed", api)
        elif api.served and not later.served:
            add("removed", later)
        elif was and not stays:
            add("off", later)
        elif was and stays and _deprecated(later, target) and not _deprecated(api, today):
            add("deprecated", later)
    for key, api in new.items():
        resource = ApiResource(api.group, api.version, api.resource)
        if api.resource and resource in served_target and resource not in served_today:
            add("new", api)
        del key
    stored_then, stored_now = stored_versions(today, data), stored_versions(target, data)
    for (group, kind), storage in sorted(stored_then.items()):
        version = storage.rpartition("/")[2]
        owner = storage.rpartition("/")[0]
        if group != owner:
            continue
        readable = (group, version, kind) in new
        if readable and stored_now.get((group, kind)) == storage:
            continue
        found.append(
            ApiForecast(
                kind="storage-changed" if readable else "storage-unreadable",
                group=group,
                version=version,
                api_kind=kind,
                storage_today=storage,
                storage_target=stored_now.get((group, kind)),
            )
        )
    return tuple(sorted(found, key=lambda item: (item.group, item.version, item.api_kind, item.kind)))


def _known(key: str, groups: Mapping[str, tuple[str, ...]]) -> bool:
    tokens = key.split("/")
    return len(tokens) in {2, 3} and tokens[1] in groups.get(tokens[0], ())


def _deprecated(api: Api, version: str | Version) -> bool:
    minor = minor_of(version)
    return api.deprecated is not None and minor is not None and minor_key(api.deprecated) <= minor_key(minor)
