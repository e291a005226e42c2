"""Small clusters for the tests of the assessment."""

from __future__ import annotations

from typing import Any

import msgspec

from changegen import kubedata
from changegen.assess import Assessment, assess
from changegen.assess.context import Context
from changegen.model.profile import Profile, Target
from changegen.model.snapshot import (
    Cluster,
    Component,
    ConfigFact,
    ConfigMapFact,
    ContainerState,
    GateSource,
    Node,
    ServedApi,
    ServedResource,
    Snapshot,
    Source,
)
from changegen.model.ticket import Finding

DATA = kubedata.load()
READ = (
    "pods",
    "nodes",
    "services",
    "leases.coordination.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "devicetaintrules.resource.k8s.io",
)


def pod(
    component: str = "kube-apiserver",
    node: str = "n1",
    version: str = "v1.36.3",
    flags: str | tuple[str, ...] = "",
    **more: Any,
) -> Component:
    """A static Pod whose command line was read; `flags` are the values of --feature-gates."""
    values = (flags,) if isinstance(flags, str) and flags else tuple(flags)
    from changegen.gates import GateSources, parse_gates

    parsed = parse_gates(component, GateSources(flags=values))
    running = more.pop("running", version)
    fields: dict[str, Any] = {
        "component": component,
        "instance": f"kube-system/{component}-{node}",
        "node": node,
        "version": version,
        "version_source": "image tag",
        "running_version": running,
        "feature_gates": parsed.values,
        "feature_gates_source": "its command",
        "gates_certainty": "observed",
        "kind": "static pod",
        "image": f"registry.example/{component}:{version}",
        "phase": "Running",
        "ready": True,
        "state": ContainerState(name=component, state="running", ready=True) if running else None,
        "manifest": f"/etc/kubernetes/manifests/{component}.yaml",
        "gate_sources": (
            GateSource(
                provenance="pod spec",
                place=f"kube-system/{component}-{node} {component} command",
                certainty="observed",
                flag_values=values,
                gates=parsed.values,
                problems=parsed.errors,
            ),
        ),
        "runtime_config": () if component == "kube-apiserver" else None,
        "flags": (ConfigFact(name="feature-gates", values=values),) if values else (),
        "flags_observable": True,
    }
    return Component(**{**fields, **more})


def kubelet(
    node: str = "n1",
    version: str = "v1.36.3",
    gates: dict[str, bool] | None = None,
    provenance: str = "configz",
    **more: Any,
) -> Component:
    """A kubelet whose gates were read from configz, or are not seen where `gates` is None."""
    source = GateSource(
        provenance=provenance,  # type: ignore[arg-type]
        place=f"nodes/{node}/configz"
        if provenance == "configz"
        else "ConfigMap kube-system/kubelet-config kubelet",
        certainty="effective" if provenance == "configz" else "intended",
        gates=gates or {},
    )
    fields: dict[str, Any] = {
        "component": "kubelet",
        "instance": node,
        "node": node,
        "version": version,
        "version_source": "nodeInfo",
        "running_version": version,
        "feature_gates": gates if gates is not None else "unobservable",
        "feature_gates_source": source.place,
        "gates_certainty": source.certainty if gates is not None else None,
        "kind": "node",
        "gate_sources": (source,) if gates is not None else (),
    }
    return Component(**{**fields, **more})


def control_plane(
    version: str = "v1.36.3", nodes: tuple[str, ...] = ("n1",), **more: Any
) -> tuple[Component, ...]:
    """The three control-plane components on each node."""
    return tuple(
        pod(name, node, version, **more)
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        for node in nodes
    )


def etcd(version: str = "v3.6.8", node: str = "n1", **more: Any) -> Component:
    return pod("etcd", node, version, **more)


def proxy(version: str = "v1.36.3", node: str = "n1", **more: Any) -> Component:
    return pod("kube-proxy", node, version, **{"kind": "daemonset pod", "manifest": "", **more})


def kubeadm(
    gates: dict[str, str] | None = None,
    version: str = "v1.36.3",
    flags: dict[str, tuple[ConfigFact, ...]] | None = None,
    **more: Any,
) -> ConfigMapFact:
    """ConfigMap kubeadm-config; `gates` is component → value of --feature-gates in extraArgs."""
    sources = {}
    for component, value in (gates or {}).items():
        pairs = (item.split("=") for item in value.split(",") if "=" in item)
        sources[component] = GateSource(
            provenance="configmap",
            place="ConfigMap kube-system/kubeadm-config ClusterConfiguration",
            certainty="intended",
            flag_values=(value,),
            gates={name: text == "true" for name, text in pairs},
        )
    fields: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "kubeadm-config",
        "kind": "kubeadm",
        "api_version": "kubeadm.k8s.io/v1beta4",
        "kubernetes_version": version,
        "component_gates": sources,
        "component_flags": flags or {},
        "etcd": "local",
    }
    return ConfigMapFact(**{**fields, **more})


def node(name: str = "n1", **more: Any) -> Node:
    fields: dict[str, Any] = {
        "name": name,
        "kubelet_version": "v1.36.3",
        "container_runtime": "containerd://2.1.4",
        "kernel": "6.8.0-60-generic",
        "operating_system": "linux",
        "hostname": name,
        "ready": True,
    }
    return Node(**{**fields, **more})


def api(group_version: str, *kinds: str) -> ServedApi:
    return ServedApi(
        group_version=group_version,
        resources=tuple(ServedResource(name=kind.lower() + "s", kind=kind) for kind in kinds),
    )


def cluster(*components: Component, **more: Any) -> Snapshot:
    """A snapshot of these instances."""
    fields: dict[str, Any] = {
        "tool_version": "0",
        "captured_at": "2026-12-01T03:00:00Z",
        "source": Source(kind="files", description="test"),
        "cluster": Cluster(name="test", distribution="kubeadm"),
        "kinds_read": READ,
        "components": components,
    }
    return Snapshot(**{**fields, **more})


def profile(to: str = "1.37.2", **more: Any) -> Profile:
    target = more.pop("target", Target(kubernetes=to))
    return Profile(name="test", target=target, **more)


def context(snapshot: Snapshot, wanted: Profile | None = None) -> Context:
    return Context(snapshot, wanted or profile(), DATA)


def run(snapshot: Snapshot, wanted: Profile | None = None, **more: Any) -> Assessment:
    return assess(snapshot, wanted or profile(), DATA, **more)


def of(assessment: Assessment, code: str) -> list[Finding]:
    return [item for item in assessment.findings if item.code == code]


def with_fields(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)
