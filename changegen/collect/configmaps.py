"""Configuration that ConfigMaps hold, reduced to gates, flags and a short list of settings.

What is understood: kubeadm-config (v1beta3's maps and v1beta4's lists), kubelet-config, kube-proxy's configuration,
OpenShift's and HyperShift's configuration of kube-apiserver and kube-controller-manager, k0s' worker profiles, files of
schedulers that run as Pods, and whether CoreDNS has a Corefile. Everything in them is an intention: what a component
runs with may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from changegen.collect.flags import config_facts, facts_of_list, values_of
from changegen.collect.inventory import Inventory, Located
from changegen.collect.wire import ConfigMap
from changegen.collect.yamlread import YamlDocument, read_yaml
from changegen.configs import shape_of
from changegen.gates import GateSources, parse_gates
from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import (
    Certainty,
    ConfigFact,
    ConfigMapFact,
    ConfigMapKind,
    ConfigShape,
    GateSource,
    Provenance,
    Unobserved,
)

__all__ = ["Configuration", "gate_source_of_flags", "gate_source_of_map", "read_config_maps"]

KUBEADM_SETTINGS: Final = (
    "imageRepository",
    "controlPlaneEndpoint",
    "certificatesDir",
    "encryptionAlgorithm",
    "etcd.local.dataDir",
    "etcd.local.imageRepository",
    "etcd.local.imageTag",
    "dns.imageRepository",
    "dns.imageTag",
    "dns.disabled",
    "proxy.disabled",
)
KUBELET_SETTINGS: Final = (
    "cgroupDriver",
    "cgroupVersion",
    "failCgroupV1",
    "failSwapOn",
    "staticPodPath",
    "cpuManagerPolicy",
    "memoryManagerPolicy",
    "topologyManagerPolicy",
    "containerRuntimeEndpoint",
    "maxPods",
    "rotateCertificates",
    "serverTLSBootstrap",
    "serializeImagePulls",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "healthzPort",
)
PROXY_SETTINGS: Final = ("mode", "bindAddress", "metricsBindAddress", "healthzBindAddress")

_KUBEADM_COMPONENTS: Final = (
    ("apiServer", "kube-apiserver"),
    ("controllerManager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
)
_OPENSHIFT_ARGUMENTS: Final = (
    ("apiServerArguments", "kube-apiserver"),
    ("extendedArguments", "kube-controller-manager"),
)
_OPENSHIFT_NAMES: Final = re.compile(r"config(?:-\d+)?")
_KUBELET_NAMES: Final = re.compile(r"kubelet-config(?:-\d+\.\d+)?")
_K0S_NAMES: Final = re.compile(r"worker-config-(?P<profile>.+)-(?P<minor>\d+\.\d+)")


class KubeletProfile(msgspec.Struct, frozen=True, kw_only=True):
    """k0s' worker profile for one minor."""

    profile: str
    minor: str
    gates: GateSource


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What the ConfigMaps of an input say, for the components to look up."""

    facts: tuple[ConfigMapFact, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    kubelet: GateSource | None = None
    """kubelet-config: the default of nodes that join."""
    static_pod_path: str = ""
    kubeadm: dict[str, GateSource] = {}
    kubeadm_flags: dict[str, tuple[ConfigFact, ...]] = {}
    cluster_name: str = ""
    k0s: tuple[KubeletProfile, ...] = ()
    proxy: dict[tuple[str, str, str], GateSource] = {}
    """(namespace, ConfigMap, key) -> gates of a KubeProxyConfiguration."""
    openshift: dict[tuple[str, str], ConfigMapFact] = {}
    """(namespace, ConfigMap) -> configuration of an OpenShift or HyperShift component."""

    def openshift_for(self, namespace: str, component: str, revision: str) -> ConfigMapFact | None:
        """The configuration of a Pod: of its revision, else the current one, else HyperShift's."""
        names = [f"config-{revision}"] if revision else []
        short = {
            "kube-apiserver": "kas-config",
            "kube-controller-manager": "kcm-config",
        }.get(component, "")
        for name in (*names, "config", *([short] if short else [])):
            found = self.openshift.get((namespace, name))
            if found is not None and component in found.component_flags:
                return found
        return None

    def proxy_for(self, namespace: str, config_map: str, key: str) -> GateSource | None:
        """The gates of kube-proxy's configuration file ``key``; where no volume names the ConfigMap, by its usual names."""
        for name in (config_map,) if config_map else ("kube-proxy", "kube-proxy-config"):
            found = self.proxy.get((namespace, name, key))
            if found is not None:
                return found
        return None

    def kubelet_of_k0s(self, minor: str) -> GateSource | None:
        """The worker configuration for a kubelet's minor, where all profiles agree on the gates."""
        found = [profile for profile in self.k0s if profile.minor == minor]
        if not found or any(profile.gates.gates != found[0].gates.gates for profile in found):
            return None
        return next((profile.gates for profile in found if profile.profile == "default"), found[0].gates)


def gate_source_of_flags(
    component: str,
    flags: Iterable[tuple[str, str | None]],
    *,
    provenance: Provenance,
    place: str,
    certainty: Certainty,
    complete: bool = True,
) -> GateSource:
    """Gates of a command line, read as the component reads it; see ``changegen.gates``."""
    values = values_of(flags, "feature-gates")
    parsed = parse_gates(component, GateSources(flags=values))
    return GateSource(
        provenance=provenance,
        place=place,
        certainty=certainty,
        flag_values=values,
        gates=parsed.values,
        problems=parsed.errors,
        complete=complete,
    )


def gate_source_of_map(
    gates: Any, *, provenance: Provenance, place: str, certainty: Certainty, complete: bool = True
) -> GateSource:
    """Gates of a configuration file's ``featureGates``; an absent or null map sets none."""
    found: dict[str, bool] = {}
    problems: list[str] = []
    if isinstance(gates, dict):
        for name, value in gates.items():
            if isinstance(value, bool):
                found[str(name)] = value
            else:
                problems.append(
                    tr("featureGates.{name} is no boolean: {value}", name=name, value=repr(value)[:80])
                )
    elif gates is not None:
        problems.append(tr("featureGates is no mapping"))
    return GateSource(
        provenance=provenance,
        place=place,
        certainty=certainty,
        gates=found,
        problems=tuple(problems),
        complete=complete,
    )


def read_config_maps(inventory: Inventory) -> Configuration:
    """Read every ConfigMap of the input that is understood; one that is broken is reported and hides no other."""
    reader = _Reader()
    for located in inventory.all("configmaps", ConfigMap):
        reader.read(located)
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self.facts: list[ConfigMapFact] = []
        self.unobserved: list[Unobserved] = []
        self.kubelets: list[tuple[str, ConfigMapFact]] = []
        self.kubeadm: ConfigMapFact | None = None
        self.k0s: list[KubeletProfile] = []
        self.proxy: dict[tuple[str, str, str], GateSource] = {}
        self.openshift: dict[tuple[str, str], ConfigMapFact] = {}

    def read(self, located: Located[ConfigMap]) -> None:
        name, namespace = located.obj.metadata.name, located.namespace
        data = located.obj.data or {}
        if namespace == "kube-system":
            # Without its key it is told as an empty one.
            if name == "kubeadm-config":
                self._kubeadm(located, data.get("ClusterConfiguration", ""))
                return
            if _KUBELET_NAMES.fullmatch(name):
                self._kubelet(located, data.get("kubelet", ""))
                return
            if name == "coredns" and "Corefile" in data:
                self.facts.append(_fact(located, "coredns"))
                return
            match = _K0S_NAMES.fullmatch(name)
            if match and "kubeletConfiguration" in data:
                self._k0s(located, match["profile"], match["minor"], data["kubeletConfiguration"])
                return
        for key in ("config.yaml", "config.json"):
            if key in data and (_OPENSHIFT_NAMES.fullmatch(name) or name in {"kas-config", "kcm-config"}):
                self._openshift(located, key, data[key])
                return
        if name.startswith("kube-proxy"):
            self._proxy(located, data)
            return
        self._scheduler(located, data)

    def _read(self, located: Located[ConfigMap], key: str, text: str) -> YamlDocument | None:
        """The first document of ``text``, a mapping; what is broken or none is reported."""
        for document in read_yaml(text):
            if isinstance(document.value, dict) and document.trouble is None:
                return document
            detail = document.trouble.detail if document.trouble else tr("it is no mapping")
            break
        else:
            detail = tr("it is empty, or not there")
        self.unobserved.append(
            Unobserved(
                what=f"ConfigMap {located.namespace}/{located.obj.metadata.name} {key}",
                reason="malformed",
                detail=detail,
                place=located.place,
            )
        )
        return None

    def _document(self, located: Located[ConfigMap], key: str, text: str) -> dict[str, Any] | None:
        document = self._read(located, key, text)
        return None if document is None else document.value

    def _kubeadm(self, located: Located[ConfigMap], text: str) -> None:
        config = self._document(located, "ClusterConfiguration", text)
        if config is None:
            return
        name = f"{located.namespace}/{located.obj.metadata.name}"
        flags: dict[str, tuple[ConfigFact, ...]] = {}
        gates: dict[str, GateSource] = {}
        for field, component in _KUBEADM_COMPONENTS:
            section = _mapping(config.get(field))
            given = facts_of_list(section.get("extraArgs"))
            flags[component] = config_facts(given)
            gates[component] = gate_source_of_flags(
                component,
                given,
                provenance="configmap",
                place=f"ConfigMap {name} ClusterConfiguration {field}.extraArgs",
                certainty="intended",
            )
        etcd = _mapping(config.get("etcd"))
        local = _mapping(etcd.get("local"))
        if local:
            given = facts_of_list(local.get("extraArgs"))
            flags["etcd"] = config_facts(given)
            gates["etcd"] = gate_source_of_flags(
                "etcd",
                given,
                provenance="configmap",
                place=f"ConfigMap {name} ClusterConfiguration etcd.local.extraArgs",
                certainty="intended",
            )
        self.kubeadm = _fact(
            located,
            "kubeadm",
            api_version=_text(config.get("apiVersion")),
            kubernetes_version=_text(config.get("kubernetesVersion")),
            cluster_name=_text(config.get("clusterName")),
            own_feature_gates={
                str(gate): value
                for gate, value in _mapping(config.get("featureGates")).items()
                if isinstance(value, bool)
            },
            component_flags=flags,
            component_gates=gates,
            settings=_settings(config, KUBEADM_SETTINGS),
            etcd="external" if _mapping(etcd.get("external")) else "local",
        )
        self.facts.append(self.kubeadm)

    def _kubelet(self, located: Located[ConfigMap], text: str) -> None:
        document = self._read(located, "kubelet", text)
        if document is None:
            return
        config = document.value
        name = f"{located.namespace}/{located.obj.metadata.name}"
        source = gate_source_of_map(
            config.get("featureGates"),
            provenance="configmap",
            place=f"ConfigMap {name} kubelet",
            certainty="intended",
        )
        fact = _fact(
            located,
            "kubelet",
            api_version=_text(config.get("apiVersion")),
            component_gates={"kubelet": source},
            settings=_settings(config, KUBELET_SETTINGS),
            document=_shape(document),
        )
        self.facts.append(fact)
        self.kubelets.append((located.obj.metadata.name, fact))

    def _k0s(self, located: Located[ConfigMap], profile: str, minor: str, text: str) -> None:
        document = self._read(located, "kubeletConfiguration", text)
        if document is None:
            return
        config = document.value
        name = f"{located.namespace}/{located.obj.metadata.name}"
        source = gate_source_of_map(
            config.get("featureGates"),
            provenance="configmap",
            place=f"ConfigMap {name} kubeletConfiguration",
            certainty="intended",
        )
        self.k0s.append(KubeletProfile(profile=profile, minor=minor, gates=source))
        self.facts.append(
            _fact(
                located,
                "k0s",
                api_version=_text(config.get("apiVersion")),
                component_gates={"kubelet": source},
                settings=_settings(config, KUBELET_SETTINGS),
                document=_shape(document),
            )
        )

    def _proxy(self, located: Located[ConfigMap], data: Mapping[str, str]) -> None:
        name = f"{located.namespace}/{located.obj.metadata.name}"
        for key in sorted(data):
            if "KubeProxyConfiguration" not in data[key]:
                continue
            document = self._read(located, key, data[key])
            if document is None or document.value.get("kind") != "KubeProxyConfiguration":
                continue
            config = document.value
            source = gate_source_of_map(
                config.get("featureGates"),
                provenance="configmap",
                place=f"ConfigMap {name} {key}",
                certainty="intended",
            )
            self.proxy[located.namespace, located.obj.metadata.name, key] = source
            self.facts.append(
                _fact(
                    located,
                    "kube-proxy",
                    api_version=_text(config.get("apiVersion")),
                    component_gates={"kube-proxy": source},
                    settings=_settings(config, PROXY_SETTINGS),
                    document=_shape(document),
                )
            )

    def _scheduler(self, located: Located[ConfigMap], data: Mapping[str, str]) -> None:
        for key in sorted(data):
            if "KubeSchedulerConfiguration" not in data[key]:
                continue
            # It may be a script that writes one, too: what is no such file is nobody's fault.
            document = next(read_yaml(data[key]), None)
            if document is None or document.trouble is not None or not isinstance(document.value, dict):
                continue
            if document.value.get("kind") != "KubeSchedulerConfiguration":
                continue
            self.facts.append(
                _fact(
                    located,
                    "kube-scheduler",
                    api_version=_text(document.value.get("apiVersion")),
                    document=_shape(document),
                )
            )

    def _openshift(self, located: Located[ConfigMap], key: str, text: str) -> None:
        if "Arguments" not in text:
            return
        config = self._document(located, key, text)
        if config is None:
            return
        name = f"{located.namespace}/{located.obj.metadata.name}"
        flags: dict[str, tuple[ConfigFact, ...]] = {}
        gates: dict[str, GateSource] = {}
        for field, component in _OPENSHIFT_ARGUMENTS:
            if not isinstance(config.get(field), dict):
                continue
            given = facts_of_list(config[field])
            flags[component] = config_facts(given)
            gates[component] = gate_source_of_flags(
                component,
                given,
                provenance="configmap",
                place=f"ConfigMap {name} {key} {field}.feature-gates",
                certainty="intended",
            )
        if not flags:
            return
        hosted = not located.namespace.startswith("openshift-")
        fact = _fact(
            located,
            "hypershift" if hosted else "openshift",
            api_version=_text(config.get("apiVersion")),
            component_flags=flags,
            component_gates=gates,
        )
        self.facts.append(fact)
        self.openshift[located.namespace, located.obj.metadata.name] = fact

    def result(self) -> Configuration:
        # Kubernetes before 1.24 named it after the minor; the plain name is the one in use.
        kubelet = min(self.kubelets, key=lambda found: (found[0] != "kubelet-config", found[0]), default=None)
        fact = kubelet[1] if kubelet else None
        path = fact.settings.get("staticPodPath") if fact else None
        return Configuration(
            facts=tuple(sorted(self.facts, key=lambda found: (found.namespace, found.name, found.kind))),
            unobserved=tuple(self.unobserved),
            kubelet=fact.component_gates["kubelet"] if fact else None,
            static_pod_path=path if isinstance(path, str) else "",
            kubeadm=self.kubeadm.component_gates if self.kubeadm else {},
            kubeadm_flags=self.kubeadm.component_flags if self.kubeadm else {},
            cluster_name=self.kubeadm.cluster_name if self.kubeadm else "",
            k0s=tuple(sorted(self.k0s, key=lambda found: (found.minor, found.profile))),
            proxy=self.proxy,
            openshift=self.openshift,
        )


def _fact(
    located: Located[ConfigMap],
    kind: ConfigMapKind,
    *,
    api_version: str = "",
    kubernetes_version: str = "",
    cluster_name: str = "",
    own_feature_gates: dict[str, bool] | None = None,
    component_flags: dict[str, tuple[ConfigFact, ...]] | None = None,
    component_gates: dict[str, GateSource] | None = None,
    settings: dict[str, Scalar] | None = None,
    document: ConfigShape | None = None,
    etcd: Literal["", "local", "external"] = "",
) -> ConfigMapFact:
    return ConfigMapFact(
        namespace=located.namespace,
        name=located.obj.metadata.name,
        kind=kind,
        api_version=api_version,
        kubernetes_version=kubernetes_version,
        cluster_name=cluster_name,
        own_feature_gates=own_feature_gates or {},
        component_flags=component_flags or {},
        component_gates=component_gates or {},
        settings=settings or {},
        document=document,
        etcd=etcd,
        resource_version=located.obj.metadata.resource_version,
    )


def _shape(document: YamlDocument) -> ConfigShape:
    return shape_of(document.value, (item.key for item in document.duplicates))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _settings(config: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Scalar]:
    """Scalars at the given paths, those that are there and not empty."""
    out: dict[str, Scalar] = {}
    for path in paths:
        value: Any = config
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str | int | float | bool) and value != "":
            out[path] = value
    return out
