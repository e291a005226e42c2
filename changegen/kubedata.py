"""What each Kubernetes minor knows: feature gates, APIs, flags, base versions. Generated data and its loader.

The files in `data/kubernetes/` are made by `tools/kubedata/generate.py` from the Go modules of each release, mostly by
asking the compiled code. A minor has one file; `KubernetesData` is their union, so that a gate or an API that a later
release deleted stays known with the minor it went in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from changegen.versions import Version, minor_key, minor_of

__all__ = [
    "DATA_SCHEMA",
    "Api",
    "BaseVersions",
    "ConfigKind",
    "Flag",
    "Gate",
    "GateHistory",
    "GateSpec",
    "KubeadmGate",
    "KubernetesData",
    "KubernetesDataError",
    "MinorData",
    "Module",
    "Release",
    "SkewRule",
    "Stage",
    "load",
]

DATA_SCHEMA = "changegen.kubernetes/v1"
Stage = Literal["Alpha", "Beta", "GA", "Deprecated"]
GateOrigin = Literal[
    "kubernetes", "apiserver", "client-go", "component-base", "controller-manager", "apiextensions"
]

_SHIPPED = Path(__file__).parent / "data" / "kubernetes"


class KubernetesDataError(ValueError):
    """The data folder lacks a file or holds one that does not fit the schema."""


class GateSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage of a gate: it holds from `version` on, until the next one does."""

    version: str
    default: bool
    stage: Stage
    lock: bool = False
    min_compat: str | None = None
    """Holds only at this minimum compatibility version or above."""


class Gate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A feature gate as the binaries of one minor know it."""

    specs: tuple[GateSpec, ...]
    """By version, oldest first, as registered."""
    depends: tuple[str, ...] = ()
    """Gates that must be on where this one is; empty before 1.35, which has no such check."""
    overrides: dict[str, dict[str, bool]] = {}
    """Component → version of the spec → its default there (kube-controller-manager and WatchListClient)."""
    components: tuple[str, ...] = ()
    """Programs whose own code, or a library that they link, reads it: the five components, cloud-controller-manager,
    kubeadm, kubectl. Inferred from the sources; every one of the five accepts the gate all the same."""
    origin: GateOrigin = "kubernetes"
    keps: tuple[int, ...] = ()
    """Numbers of the enhancement proposals that the source names for it."""


class Api(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind in one group version, as one minor's kube-apiserver knows it.

    Versions of the lifecycle are minors (`1.34`); None where the type does not state one.
    """

    group: str
    version: str
    kind: str
    resource: str = ""
    """Plural; empty for kinds that are no resource (lists of options, Binding of a subresource)."""
    namespaced: bool = False
    introduced: str | None = None
    deprecated: str | None = None
    removed: str | None = None
    replacement: str | None = None
    """`group/version/Kind` that takes over."""
    enabled: bool = False
    """Served with no --runtime-config and default gates."""
    served: bool = False
    """Can be served at all by this minor: it has storage, and its lifecycle does not end it here."""
    storage: str | None = None
    """Group version in which this minor writes the kind to etcd by default."""
    gates: tuple[str, ...] = ()
    """Gates without which the resource is not served, whatever --runtime-config says."""

    @property
    def group_version(self) -> str:
        """`group/version`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Flag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command-line flag of one component in one minor."""

    default: str = ""
    type: str = ""
    bare: bool = False
    """Stands alone without a value (booleans)."""
    hidden: bool = False
    deprecated: str = ""
    """The component's own deprecation message; empty where it is not deprecated."""
    short: str = ""


class ConfigKind(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file of one component, as one minor's own scheme decodes it."""

    kind: str
    """`KubeletConfiguration`."""
    versions: dict[str, dict[str, str]]
    """apiVersion → path of a field → its type.

    In a path `a.b` is a field of an object, `a[]` what a list holds, `a{}` what a map holds. A type is `object`, `list`,
    `map`, `string`, `bool`, `int32`, `int64`, `uint32`, `float32`, `float64`, `duration` (text such as `5m0s`), or `any`
    for what reads itself (quantities, times, arguments of plugins).
    """


class KubeadmGate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gate of kubeadm itself (ClusterConfiguration.featureGates), no gate of a component."""

    default: bool
    stage: Stage
    lock: bool = False
    deprecation: str = ""


class BaseVersions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What kubeadm of one minor brings beside the control plane."""

    etcd: str
    """Tag for a cluster of this minor (`3.7.0-0`)."""
    etcd_for: dict[str, str] = {}
    """Tag for clusters of older minors, by minor number."""
    etcd_minimum: str = ""
    """Lowest external etcd that kubeadm accepts."""
    coredns: str = ""
    pause: str = ""
    kubeadm_apis: tuple[str, ...] = ()
    """kubeadm.k8s.io versions it reads; the last one is what it writes."""
    kubeadm_gates: dict[str, KubeadmGate] = {}
    kubelet_minimum: str = ""
    control_plane_minimum: str = ""
    go: str = ""
    """Go release it is built with."""


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A Go module that the data was read from; `sum` is its go.sum hash."""

    path: str
    version: str
    sum: str


class Release(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The release that stands for a minor in this data."""

    version: str
    """`v1.37.2`."""
    date: str = ""
    """Day the release was tagged, as the Go module proxy dates it."""
    modules: tuple[Module, ...] = ()
    checked: Literal["started processes", "source only"] = "started processes"
    """How the verdicts on this minor are proved: against real processes, or not in the project's tests."""


class MinorData(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the data folder."""

    schema: str
    minor: str
    release: Release
    gates: dict[str, Gate]
    apis: tuple[Api, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}
    """API group → its registered versions, in priority order."""
    storage_overrides: dict[str, str] = {}
    """`group/resource` → group version that it is written in whatever version is emulated."""
    versions: dict[str, bool] = {}
    """Group version that --runtime-config can turn → whether it is on by default."""
    flags: dict[str, dict[str, Flag]] = {}
    """Component → flag name → flag."""
    configs: dict[str, ConfigKind] = {}
    """Component (kubelet, kube-proxy, kube-scheduler) → its configuration file."""
    base: BaseVersions | None = None


class SkewRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the minor of `component` may be from that of `against`."""

    component: str
    against: str
    older: int
    """Minors it may be behind."""
    newer: int = 0
    """Minors it may be ahead."""
    peers: bool = False
    """Between instances of the same component."""
    source: str = ""


class GateHistory(msgspec.Struct, frozen=True, kw_only=True):
    """One gate over the minors of the data."""

    name: str
    by_minor: dict[str, Gate]
    first: str
    """First minor of the data that knows it."""
    last: str
    removed_in: str | None
    """First minor of the data that no longer knows it; None while the newest does."""
    added_in: str | None
    """First minor that knows it while the minor before, also in the data, did not."""


class KubernetesData:
    """The union of all minors' data. Build it with `load`."""

    def __init__(self, files: Iterable[MinorData], skew: tuple[SkewRule, ...], digest: str) -> None:
        self._files = {file.minor: file for file in sorted(files, key=lambda file: minor_key(file.minor))}
        self.skew: tuple[SkewRule, ...] = skew
        self.digest: str = digest
        """SHA-256 over the files, for the ticket's inputs."""

    @property
    def minors(self) -> tuple[str, ...]:
        """Known minors, oldest first."""
        return tuple(self._files)

    @property
    def newest(self) -> str:
        """Newest minor of the data."""
        return self.minors[-1]

    @property
    def oldest(self) -> str:
        """Oldest minor of the data."""
        return self.minors[0]

    def knows(self, version: str | Version | None) -> bool:
        """Whether the data covers the minor of this version."""
        return minor_of(version) in self._files

    def minor(self, minor: str | Version) -> MinorData:
        """The data of one minor; raises `KubernetesDataError` for a minor that the data lacks."""
        key = minor_of(minor)
        if key is None or key not in self._files:
            raise KubernetesDataError(f"no data of Kubernetes {minor}: known are {', '.join(self.minors)}")
        return self._files[key]

    def release(self, minor: str | Version) -> Release:
        """The release that stands for a minor, with its modules and hashes."""
        return self.minor(minor).release

    def gates(self, minor: str | Version) -> Mapping[str, Gate]:
        """Every gate that binaries of this minor know, AllAlpha and AllBeta among them."""
        return self.minor(minor).gates

    def flags(self, component: str, minor: str | Version) -> Mapping[str, Flag]:
        """Flags of a component, by name; empty for a component that the data does not list."""
        return self.minor(minor).flags.get(component, {})

    def config(self, component: str, minor: str | Version) -> ConfigKind | None:
        """The configuration file of a component; None where it has none, or the data does not list it."""
        return self.minor(minor).configs.get(component)

    def base_versions(self, minor: str | Version) -> BaseVersions | None:
        """What kubeadm of this minor brings; None where the data folder has none."""
        return self.minor(minor).base

    def apis(self, minor: str | Version) -> tuple[Api, ...]:
        """Every kind in every group version that this minor registers."""
        return self.minor(minor).apis

    @cached_property
    def gate_names(self) -> tuple[str, ...]:
        """Every gate that any minor knows, sorted."""
        return tuple(sorted({name for file in self._files.values() for name in file.gates}))

    def gate(self, name: str) -> GateHistory | None:
        """A gate over the minors; None for a name that no minor knows."""
        by_minor = {minor: file.gates[name] for minor, file in self._files.items() if name in file.gates}
        if not by_minor:
            return None
        minors = self.minors
        first, last = next(iter(by_minor)), next(reversed(by_minor))
        after = minors.index(last) + 1
        return GateHistory(
            name=name,
            by_minor=by_minor,
            first=first,
            last=last,
            removed_in=minors[after] if after < len(minors) else None,
            added_in=first if minors.index(first) > 0 else None,
        )

    def kubeadm_gate(self, name: str) -> dict[str, KubeadmGate]:
        """A gate of kubeadm itself, by the minors that know it."""
        return {
            minor: file.base.kubeadm_gates[name]
            for minor, file in self._files.items()
            if file.base is not None and name in file.base.kubeadm_gates
        }


def load(folder: Path | None = None) -> KubernetesData:
    """Reads the data folder (`--data DIR`), or what the package ships; cached by folder.

    Raises `KubernetesDataError` naming the file that is missing or wrong.
    """
    return _load((folder or _SHIPPED).absolute())


@lru_cache(maxsize=4)
def _load(folder: Path) -> KubernetesData:
    paths = sorted(folder.glob("[0-9]*.json")) if folder.is_dir() else []
    if not paths:
        raise KubernetesDataError(f"{folder}: no Kubernetes data (files such as 1.37.json)")
    digest = hashlib.sha256()
    files = []
    decoder = msgspec.json.Decoder(MinorData)
    for path in paths:
        content = path.read_bytes()
        digest.update(content)
        try:
            file = decoder.decode(content)
        except msgspec.MsgspecError as error:
            raise KubernetesDataError(f"{path}: {error}") from error
        if file.schema != DATA_SCHEMA:
            raise KubernetesDataError(f"{path}: schema {file.schema}, wanted {DATA_SCHEMA}")
        files.append(file)
    skew_path = folder / "skew.json"
    rules: tuple[SkewRule, ...] = ()
    if skew_path.is_file():
        content = skew_path.read_bytes()
        digest.update(content)
        try:
            rules = msgspec.json.decode(content, type=tuple[SkewRule, ...])
        except msgspec.MsgspecError as error:
            raise KubernetesDataError(f"{skew_path}: {error}") from error
    return KubernetesData(files, rules, digest.hexdigest())
