"""What every assessment asks again and again, computed once: targets, hops, indexes, what was read.

A `Context` is made of a snapshot, a profile and the Kubernetes data, reads nothing else, and answers in constant time
after the first question: a cluster may have 5,000 nodes and 50,000 Pods.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, Literal, TypeVar

import msgspec

from changegen.gates import (
    Forecast,
    GateSources,
    ParsedGates,
    StartVerdict,
    effective,
    forecast,
    go_parse_bool,
    parse_gates,
    spec_at,
    start,
)
from changegen.i18n import tr
from changegen.kubedata import KubernetesData
from changegen.model.base import UNOBSERVABLE
from changegen.model.profile import Profile
from changegen.model.snapshot import (
    Component,
    ConfigFact,
    ConfigMapFact,
    Node,
    PodUse,
    ProcessFact,
    Snapshot,
    Unobserved,
)
from changegen.model.ticket import Evidence, Hop
from changegen.versions import Version, compare, minor_key, minor_of, next_minors, same_release, try_version

__all__ = [
    "COMPONENTS",
    "CONTROL_PLANE",
    "GATED",
    "HERE",
    "KUBEADM_LIKE",
    "Context",
    "GateState",
    "How",
    "SelectorError",
    "VersionWish",
    "complete",
    "evidence_of",
    "label_of",
    "matches",
    "minor_text",
    "minors_between",
    "names",
    "of_flags",
    "oldest",
    "place_of",
    "sources_of",
    "with_versions",
]

T = TypeVar("T")

CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
GATED: Final = (*CONTROL_PLANE, "kubelet", "kube-proxy")
"""Components that take Kubernetes' feature gates; etcd and kubeadm have their own."""
COMPONENTS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "etcd",
    "kubelet",
    "kube-proxy",
    "coredns",
)
"""Components in the order in which tables list them."""
KUBEADM_LIKE: Final = frozenset({"kubeadm", "kind", "minikube", "cluster-api"})
"""Distributions whose control plane kubeadm writes."""
HERE: Final = "this cluster"

_WISH = re.compile(r"^\s*(>=|<=|>|<|==|=|\^|~)?\s*(\S+)\s*$")


class VersionWish(msgspec.Struct, frozen=True, kw_only=True):
    """A wanted version: `1.37.2`, `1.37` (any patch), `>=1.36.3`."""

    text: str
    operator: Literal["=", ">=", "<=", ">", "<"] = "="
    version: Version | None = None
    """None where the text holds no version (a tag like `latest`): then only equal text satisfies it."""

    @property
    def minor(self) -> str | None:
        """Minor that is wished; with an operator, the one that it names."""
        return self.version.minor_version if self.version is not None else None

    @property
    def any_patch(self) -> bool:
        """Whether only a minor is wished."""
        return self.version is not None and self.version.patch is None

    def satisfied(self, have: str | Version | None) -> bool | None:
        """Whether a version is as wished; None where that cannot be told (no version, another scheme)."""
        actual = have if isinstance(have, Version) else try_version(have)
        if self.version is None:
            return None if not isinstance(have, str) else have == self.text
        if actual is None:
            return None
        if self.operator == "=" and self.any_patch:
            return (actual.major, actual.minor) == (self.version.major, self.version.minor) and not actual.pre
        if self.operator == "=":
            return None if actual.scheme != self.version.scheme else same_release(actual, self.version)
        order = compare(actual, self.version)
        if order is None:
            return None
        return {">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0}[self.operator]

    @classmethod
    def parse(cls, text: str) -> VersionWish:
        """Never fails: what is no version is matched as text."""
        match = _WISH.match(text)
        if match is None:
            return cls(text=text)
        operator = match[1] or "="
        wished = match[2]
        operators: dict[str, Literal["=", ">=", "<=", ">", "<"]] = {
            ">=": ">=",
            "<=": "<=",
            ">": ">",
            "<": "<",
            "^": ">=",
            "~": ">=",
        }
        return cls(text=text, operator=operators.get(operator, "="), version=try_version(wished))


class SelectorError(ValueError):
    """A label selector that cannot be read."""


_REQUIREMENT = re.compile(
    r"""^\s*(?:
      (?P<absent>!)\s*(?P<nokey>[^\s=!,()]+)
    | (?P<key>[^\s=!,()]+)\s*(?:
        (?P<op>==|=|!=)\s*(?P<value>[^\s,()]*)
      | \s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
      )?
    )\s*$""",
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def _selector(text: str) -> tuple[tuple[str, str, frozenset[str]], ...]:
    requirements = []
    for part in re.split(r",(?![^(]*\))", text):
        if not part.strip():
            continue
        match = _REQUIREMENT.match(part)
        if match is None:
            raise SelectorError(f"label selector {text!r}: {part.strip()!r} is no requirement")
        if match["absent"]:
            requirements.append((match["nokey"], "absent", frozenset[str]()))
        elif match["set"]:
            values = frozenset(value.strip() for value in match["values"].split(","))
            requirements.append((match["key"], match["set"], values))
        elif match["op"]:
            kind = "notin" if match["op"] == "!=" else "in"
            requirements.append((match["key"], kind, frozenset((match["value"],))))
        else:
            requirements.append((match["key"], "present", frozenset()))
    return tuple(requirements)


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector as kubectl writes it; an empty one matches all. Raises `SelectorError`."""
    for key, kind, values in _selector(selector):
        have = labels.get(key)
        good = {
            "absent": have is None,
            "present": have is not None,
            "in": have is not None and have in values,
            "notin": have is None or have not in values,
        }[kind]
        if not good:
            return False
    return True


def label_of(component: Component) -> str:
    """How a finding names an instance: `namespace/name` of its Pod, the Node of a kubelet, else the component."""
    return component.instance or component.node or component.component


def place_of(component: Component) -> str:
    """Where an instance runs, in short: its node; of another cluster's, or with no node, its label."""
    return component.node if component.node and component.belongs_to == HERE else label_of(component)


def evidence_of(component: Component, path: str, value: str, provenance: str = "pod spec") -> Evidence:
    """Evidence read from the object that shows a component instance."""
    return Evidence(source=label_of(component), path=path, value=value, provenance=provenance)


How = Literal["set", "default", "locked", "effective", "unobservable", "absent"]


class GateState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one gate on one component instance, today or at the target."""

    gate: str
    component: str
    instance: str
    """As `label_of` names it."""
    node: str
    version: str = ""
    """Version of the instance now; empty where it is not known."""
    value: bool | None
    """None: not known."""
    how: How
    """set: explicitly · default: the source was read and does not set it · locked: it can have no other value ·
    effective: the process said so itself · unobservable: no source tells · absent: that version has no such gate."""

    @property
    def known(self) -> bool:
        """Whether the value is known; a version without the gate has it off."""
        return self.value is not None


def sources_of(component: Component) -> GateSources | None:
    """What decides the gates of an instance, in the shape that the gate rules take; None where it is unobservable.

    Of kubelet and kube-proxy, what stands in a file or ConfigMap is the file and what stands in flags comes on top;
    a kubelet's merged configuration (configz) is taken alone.
    """
    if component.feature_gates == UNOBSERVABLE:
        # A value that could not be read at all is still what the component is given.
        broken = component.gate_sources[:1]
        if broken and broken[0].problems and broken[0].flag_values:
            return GateSources(flags=broken[0].flag_values)
        return None
    sources = component.gate_sources
    if component.component in CONTROL_PLANE:
        flags = next((s.flag_values for s in sources[:1] if s.flag_values), ())
        if not flags and component.feature_gates:
            flags = (_joined(component.feature_gates),)
        return with_versions(GateSources(flags=flags), component)
    main = sources[:1]
    if main and main[0].provenance == "configz":
        return GateSources(file=dict(component.feature_gates))
    flags = tuple(
        value for s in sources for value in s.flag_values if s.provenance not in {"flagz", "metric"}
    )
    files = [s.gates for s in sources if not s.flag_values and s.provenance in _FILES]
    if flags:
        return GateSources(flags=flags, file=dict(files[0]) if files else None)
    return GateSources(file=dict(component.feature_gates))


_FILES: Final = frozenset({"configmap", "configz", "custom resource"})


def with_versions(sources: GateSources, component: Component) -> GateSources:
    """The sources with the flags of a control-plane instance that say at which version its gates are read."""
    given = of_flags(component.flags, sources)
    return msgspec.structs.replace(
        given,
        emulated=given.emulated or ((component.emulated_version,) if component.emulated_version else ()),
        min_compat=given.min_compat
        or ((component.min_compatibility_version,) if component.min_compatibility_version else ()),
    )


def of_flags(flags: Iterable[ConfigFact], sources: GateSources) -> GateSources:
    """The sources with emulated version, minimum compatibility version and their switches as these flags give them."""
    given = {flag.name: flag.values or () for flag in flags}

    def on(name: str) -> bool:
        values = given.get(name, ())
        return bool(values) and go_parse_bool(values[-1]) is True

    return msgspec.structs.replace(
        sources,
        emulated=given.get("emulated-version", ()),
        min_compat=given.get("min-compatibility-version", ()),
        emulation_forward_compatible=on("emulation-forward-compatible"),
        runtime_config_emulation_forward_compatible=on("runtime-config-emulation-forward-compatible"),
    )


def complete(component: Component) -> bool:
    """Whether silence of the gate sources proves a default."""
    return component.feature_gates != UNOBSERVABLE and all(s.complete for s in component.gate_sources[:1])


def _joined(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())


class Context:
    """A snapshot, a profile and the data, with what is computed from them once."""

    def __init__(self, snapshot: Snapshot, profile: Profile, data: KubernetesData) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.data = data

    # -- component instances -------------------------------------------------------------------------------------

    @cached_property
    def instances(self) -> dict[str, tuple[Component, ...]]:
        """Instances of this cluster only, by component; hosted control planes of other clusters are left out."""
        by: defaultdict[str, list[Component]] = defaultdict(list)
        for component in self.snapshot.components:
            if component.belongs_to == HERE:
                by[component.component].append(component)
        order = {name: at for at, name in enumerate(COMPONENTS)}
        return {name: tuple(by[name]) for name in sorted(by, key=lambda name: (order.get(name, 99), name))}

    def of(self, component: str) -> tuple[Component, ...]:
        """Instances of one component in this cluster; empty where none is seen."""
        return self.instances.get(component, ())

    @cached_property
    def hosted_elsewhere(self) -> tuple[Component, ...]:
        """Instances that belong to another cluster whose control plane runs here."""
        return tuple(c for c in self.snapshot.components if c.belongs_to != HERE)

    @staticmethod
    def version_of(component: Component) -> Version | None:
        """Version proven of a running instance, else the one asked for; None where neither is known."""
        return try_version(component.running_version) or try_version(component.version)

    @cached_property
    def apiserver_versions(self) -> tuple[Version, ...]:
        """Versions of the apiservers, oldest first, from instances, processes that answered and /version."""
        found = {v for c in self.of("kube-apiserver") if (v := self.version_of(c)) is not None}
        for process in self.snapshot.processes:
            if process.component == "kube-apiserver" and (v := try_version(process.version)) is not None:
                found.add(v)
        if (v := try_version(self.snapshot.cluster.server_version)) is not None:
            found.add(v)
        return tuple(sorted(found, key=lambda v: (v.major, v.minor, v.patch or 0, v.raw)))

    @cached_property
    def apiserver_minors(self) -> tuple[str, ...]:
        """Minors of the apiservers, oldest first; empty where none is known."""
        return tuple(sorted({v.minor_version for v in self.apiserver_versions}, key=minor_key))

    @cached_property
    def today(self) -> Version | None:
        """Version from which the change starts: the oldest apiserver, else the oldest control-plane instance or kubelet."""
        if self.apiserver_versions:
            return self.apiserver_versions[0]
        for group in (("kube-controller-manager", "kube-scheduler"), ("kubelet",)):
            found = [v for name in group for c in self.of(name) if (v := self.version_of(c)) is not None]
            if found:
                return min(found, key=lambda v: (v.major, v.minor, v.patch or 0, v.raw))
        return None

    @property
    def today_minor(self) -> str | None:
        """Minor from which the change starts."""
        return self.today.minor_version if self.today is not None else None

    # -- target --------------------------------------------------------------------------------------------------

    @cached_property
    def target(self) -> VersionWish | None:
        """The profile's Kubernetes version; None where it names none."""
        text = self.profile.target.kubernetes
        return VersionWish.parse(text) if text else None

    @property
    def target_minor(self) -> str | None:
        """Minor to which the change goes."""
        return self.target.minor if self.target is not None else None

    @cached_property
    def _component_targets(self) -> dict[str, VersionWish]:
        return {wish.name: VersionWish.parse(wish.version) for wish in self.profile.target.components}

    def target_of(self, component: str) -> VersionWish | None:
        """Wish for one component: its own, else the Kubernetes one.

        etcd and CoreDNS have versions of their own: without a wish they go to what kubeadm of the target brings
        (`base_version`), which is no wish of the profile.
        """
        wish = self._component_targets.get(component)
        if wish is not None or component not in GATED:
            return wish
        return self.target

    @cached_property
    def target_minor_known(self) -> bool:
        """Whether the data covers the target's minor."""
        return self.target_minor is not None and self.data.knows(self.target_minor)

    @cached_property
    def data_minor(self) -> str | None:
        """The minor by which the target is judged: its own, or the data's newest where the target is newer."""
        if self.target_minor is None:
            return None
        if self.data.knows(self.target_minor):
            return self.target_minor
        newer = minor_key(self.target_minor) > minor_key(self.data.newest)
        return self.data.newest if newer else None

    @cached_property
    def path(self) -> tuple[str, ...]:
        """Minors that the control plane passes, without today's; empty where the target is not newer or unknown."""
        if self.today_minor is None or self.target_minor is None:
            return ()
        return next_minors(self.today_minor, self.target_minor)

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """Minor steps, without counts of blockers."""
        minors = (self.today_minor or "", *self.path)
        return tuple(Hop(from_version=a, to_version=b) for a, b in pairwise(minors))

    def hop_of(self, minor: str) -> str:
        """Text of the hop that ends at a minor: `1.36 -> 1.37`; empty where there is only one hop."""
        if len(self.hops) < 2:
            return ""
        return next((f"{h.from_version} -> {h.to_version}" for h in self.hops if h.to_version == minor), "")

    # -- feature gates -------------------------------------------------------------------------------------------

    @property
    def foreign_gates(self) -> bool:
        """Whether the distribution adds gates that Kubernetes does not have (OpenShift)."""
        return self.snapshot.cluster.distribution in {"openshift", "hypershift", "okd", "microshift"}

    def goes_to(self, component: str) -> str | None:
        """Version by which an instance's target is judged; the newest known minor stands for one newer than the data.

        None where the profile names no target, or one that the data cannot judge.
        """
        wish = self.target_of(component)
        if wish is None or wish.version is None:
            return None
        if self.data.knows(wish.version):
            return wish.version.raw
        if minor_key(wish.version.minor_version) > minor_key(self.data.newest):
            return self.data.newest
        return None

    def stays(self, component: Component) -> bool:
        """Whether the profile leaves an instance where it is: its own wish is a range that today satisfies."""
        wish = self.target_of(component.component)
        return (
            wish is not None and wish.operator != "=" and wish.satisfied(self.version_of(component)) is True
        )

    @cached_property
    def _gate_cache(self) -> dict[tuple[object, ...], object]:
        return {}

    def remember(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` gives, made once for a key; for what a module computes for itself and others."""
        if key not in self._gate_cache:
            self._gate_cache[key] = make()
        return self._gate_cache[key]  # type: ignore[return-value]

    def sources(self, component: Component) -> GateSources | None:
        """What decides the gates of an instance: what was read, else what its metric betrays; None: unobservable.

        A gate that the process reports at another value than its version has by default must have been set. One that is
        set to its default stays unseen.
        """
        read = sources_of(component)
        if read is not None or component.effective_gates is None or component.component not in GATED:
            return read
        version = self.version_of(component)
        if version is None or not self.data.knows(version):
            return None
        control = component.component in CONTROL_PLANE
        own = with_versions(GateSources(), component) if control else GateSources()
        defaults = self.effective_of(component.component, version.raw, own)
        found = {
            gate: value
            for gate, value in sorted(component.effective_gates.items())
            if gate in defaults and defaults[gate] != value
        }
        if control:
            return msgspec.structs.replace(own, flags=(_joined(found),) if found else ())
        return GateSources(file=found)

    def parsed(self, component: Component) -> ParsedGates | None:
        """What an instance makes of its gate sources; None where they are unobservable."""
        sources = self.sources(component)
        if sources is None:
            return None
        key = ("parse", component.component, msgspec.json.encode(sources))
        return self.remember(key, lambda: parse_gates(component.component, sources))

    def named_gates(self, component: str, sources: GateSources) -> dict[str, bool]:
        """Gates that these sources set, as the component reads them; AllAlpha and AllBeta stand for themselves."""
        key = ("parse", component, msgspec.json.encode(sources))
        return self.remember(key, lambda: parse_gates(component, sources)).values

    def forecast(self, component: str, today: str, target: str, sources: GateSources) -> Forecast:
        """`gates.forecast`, remembered: thousands of kubelets have the same settings."""
        key = ("forecast", component, minor_of(today), target, msgspec.json.encode(sources))
        return self.remember(
            key,
            lambda: forecast(component, today, target, sources, self.data, foreign_gates=self.foreign_gates),
        )

    def start_of(self, component: str, version: str, sources: GateSources) -> StartVerdict:
        """`gates.start`, remembered."""
        key = ("start", component, minor_of(version), msgspec.json.encode(sources))
        return self.remember(
            key, lambda: start(component, version, sources, self.data, foreign_gates=self.foreign_gates)
        )

    def effective_of(self, component: str, version: str, sources: GateSources) -> dict[str, bool]:
        """`gates.effective`, remembered; empty for a minor that the data lacks."""
        if component not in GATED or not self.data.knows(version):
            return {}
        key = ("effective", component, minor_of(version), msgspec.json.encode(sources))
        return self.remember(key, lambda: effective(component, version, sources, self.data))

    @cached_property
    def _classes(self) -> dict[int, int]:
        """Instances whose gates must have the same answers get the same number: there are few kinds among thousands."""
        numbers: dict[tuple[object, ...], int] = {}
        found = {}
        for component in self.snapshot.components:
            version = self.version_of(component)
            sources = self.sources(component)
            key = (
                component.component,
                version.minor_version if version is not None else None,
                self.stays(component),
                None if sources is None else msgspec.json.encode(sources),
                complete(component),
                component.feature_gates == UNOBSERVABLE,
                # What a process says of itself is its own.
                id(component) if component.effective_gates is not None else 0,
            )
            found[id(component)] = numbers.setdefault(key, len(numbers))
        return found

    def gate_state(
        self, component: Component, gate: str, at: Literal["today", "target"] = "today"
    ) -> GateState:
        """The state of one gate on one instance."""
        kind = self._classes.get(id(component), -id(component))
        value, how = self.remember(("state", kind, gate, at), lambda: self._gate_value(component, gate, at))
        version = self.version_of(component)
        return GateState(
            gate=gate,
            component=component.component,
            instance=label_of(component),
            node=component.node or "",
            version=version.raw if version is not None else "",
            value=value,
            how=how,
        )

    def _gate_value(self, component: Component, gate: str, at: str) -> tuple[bool | None, How]:
        version = self.version_of(component)
        text = version.raw if version is not None else None
        if at == "target" and not self.stays(component):
            text = self.goes_to(component.component) or text
        if at == "today" and component.effective_gates is not None and gate in component.effective_gates:
            return component.effective_gates[gate], "effective"
        minor = minor_of(text)
        if text is None or minor is None or component.component not in GATED or not self.data.knows(minor):
            named = component.feature_gates
            if isinstance(named, dict) and gate in named:
                return named[gate], "set"
            return None, "unobservable"
        known = self.data.gates(minor).get(gate)
        if known is None:
            return False, "absent"
        spec = spec_at(known, minor_key(minor), None, component.component)
        unseen: tuple[bool | None, How] = (None, "unobservable")
        if spec is not None and spec.lock:
            unseen = (spec.default, "locked")
        sources, parsed = self.sources(component), self.parsed(component)
        if sources is None or parsed is None:
            return unseen
        is_set = gate in parsed.values
        if not complete(component) and not is_set and component.effective_gates is None:
            return unseen
        value = self.effective_of(component.component, text, sources).get(gate, False)
        return value, "set" if is_set else "default"

    def gate_states(
        self, gate: str, components: Iterable[str] = (), at: Literal["today", "target"] = "today"
    ) -> tuple[GateState, ...]:
        """The state of one gate on every instance of these components; all that take gates where none is named."""
        names = tuple(components) or GATED
        return tuple(self.gate_state(c, gate, at) for name in names for c in self.of(name))

    # -- what was read -------------------------------------------------------------------------------------------

    @cached_property
    def _kinds_read(self) -> frozenset[str]:
        return frozenset(self.snapshot.kinds_read)

    def was_read(self, kind: str) -> bool:
        """Whether a kind was listed in all namespaces: `pods`, `resourceslices.resource.k8s.io`."""
        return kind in self._kinds_read and kind not in self.snapshot.namespaces_read

    @cached_property
    def _unobserved(self) -> dict[str, Unobserved]:
        return {item.what: item for item in reversed(self.snapshot.unobserved)}

    def unread(self, what: str) -> Unobserved | None:
        """The record of something that could not be read; None where it was read or nothing says."""
        return self._unobserved.get(what)

    # -- indexes -------------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def pods(self) -> dict[str, PodUse]:
        """Pods that the snapshot keeps, by `namespace/name`."""
        return {f"{pod.namespace}/{pod.name}": pod for pod in self.snapshot.pods}

    @cached_property
    def pods_by_node(self) -> dict[str, tuple[PodUse, ...]]:
        """Pods that the snapshot keeps, by the Node that they are bound to."""
        by: defaultdict[str, list[PodUse]] = defaultdict(list)
        for pod in self.snapshot.pods:
            if pod.node:
                by[pod.node].append(pod)
        return {node: tuple(pods) for node, pods in by.items()}

    def nodes_matching(self, selector: str) -> tuple[Node, ...]:
        """Nodes whose labels satisfy a selector; all for an empty one. Raises `SelectorError`."""
        return tuple(node for node in self.snapshot.nodes if matches(selector, node.labels))

    def config_maps(self, kind: str) -> tuple[ConfigMapFact, ...]:
        """Configuration ConfigMaps of a kind (`kubeadm`, `kubelet`, `kube-proxy` …)."""
        return tuple(c for c in self.snapshot.config_maps if c.kind == kind)

    def processes(self, component: str) -> tuple[ProcessFact, ...]:
        """What processes of a component said of themselves."""
        return tuple(p for p in self.snapshot.processes if p.component == component)

    # -- served APIs ---------------------------------------------------------------------------------------------

    @cached_property
    def _served(self) -> dict[str, frozenset[str] | None]:
        return {
            api.group_version: None
            if api.resources is None
            else frozenset(r.kind for r in api.resources if "/" not in r.name)
            for api in self.snapshot.apis
        }

    def served(self, group_version: str, kind: str = "") -> bool | None:
        """Whether a group version, or a kind in it, is served today; None where discovery does not tell."""
        if not self._served:
            return None
        if group_version not in self._served:
            return False
        kinds = self._served[group_version]
        if not kind:
            return True
        return None if kinds is None else kind in kinds


def names(listed: Iterable[str], most: int = 6) -> str:
    """Names for a sentence, sorted: all of them, or the first and a count."""
    known = sorted(set(listed))
    if len(known) <= most:
        return ", ".join(known)
    return tr("{names} and {count} more", names=", ".join(known[:most]), count=len(known) - most)


def minors_between(low: str, high: str) -> int:
    """Minors from low to high within one major; negative where high is older."""
    a, b = minor_key(low), minor_key(high)
    return (b[0] - a[0]) * 1000 + b[1] - a[1]


def oldest(versions: Iterable[Version]) -> Version | None:
    """The oldest by numbers; None of none."""
    return min(versions, key=lambda v: (v.major, v.minor, v.patch or 0, v.raw), default=None)


def minor_text(version: str | Version | None) -> str:
    """`1.37` for messages, `unknown` where there is none."""
    return minor_of(version) or "unknown"
