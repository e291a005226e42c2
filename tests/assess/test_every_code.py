"""Every code of the table has an input that makes it and a twin, one thing changed, that does not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from changegen.assess.codes import CODES, MODULES
from changegen.configs import shape_of
from changegen.model.profile import (
    Accept,
    ApiWish,
    ComponentTarget,
    FeatureGates,
    GateWish,
    NodeTaintWish,
    Profile,
    StagePolicy,
    Taints,
    Target,
)
from changegen.model.snapshot import (
    ApiServiceState,
    Claim,
    Cluster,
    Condition,
    ConfigFact,
    ConfigMapFact,
    ContainerState,
    CustomResource,
    GateSource,
    Lease,
    NodeTaint,
    ProcessFact,
    RequestedDeprecatedApi,
    Snapshot,
    StoredObjects,
    TaintRule,
    Unobserved,
    Webhook,
    Workload,
)
from tests.assess.build import (
    DATA,
    api,
    cluster,
    control_plane,
    etcd,
    kubeadm,
    kubelet,
    node,
    of,
    pod,
    profile,
    proxy,
    run,
    with_fields,
)

Input = tuple[Snapshot, Profile]


def one(*components: Any, to: str = "1.37.2", wanted: Profile | None = None, **more: Any) -> Input:
    return cluster(*components, **more), wanted or profile(to)


def flagged(
    value: str | tuple[str, ...], component: str = "kube-apiserver", to: str = "1.37.2", **more: Any
) -> Input:
    return one(pod(component, flags=value, **more), to=to)


def wished(*gates: GateWish, stages: StagePolicy | None = None, **more: Any) -> Profile:
    return profile(
        feature_gates=FeatureGates(gates=gates, stages=stages or StagePolicy(alpha="allowed")), **more
    )


def process(component: str = "kube-apiserver", **more: Any) -> ProcessFact:
    return ProcessFact(
        **{"component": component, "place": "kube-apiserver-x", "provenance": "metric", **more}
    )


def flags(*names: str) -> tuple[ConfigFact, ...]:
    return tuple(ConfigFact(name=name) for name in names)


def webhook(**more: Any) -> Webhook:
    fields: dict[str, Any] = {
        "configuration": "guard",
        "name": "guard.example.com",
        "kind": "validating",
        "failure_policy": "Fail",
        "service": "sys/guard",
        "rules": ("/v1/pods",),
        "server_nodes": ("n1", "n2"),
        "match_policy": "Equivalent",
    }
    return Webhook(**{**fields, **more})


def config(kind: str, **more: Any) -> ConfigMapFact:
    return ConfigMapFact(**{"namespace": "kube-system", "name": f"{kind}-config", "kind": kind, **more})


def written(kind: str, content: dict[str, Any], *twice: str) -> ConfigMapFact:
    """A ConfigMap with the configuration file of a component, of which some keys stand twice."""
    name, version = {
        "kubelet": ("KubeletConfiguration", "kubelet.config.k8s.io/v1beta1"),
        "kube-proxy": ("KubeProxyConfiguration", "kubeproxy.config.k8s.io/v1alpha1"),
        "kube-scheduler": ("KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1"),
    }[kind]
    return config(kind, api_version=version, document=shape_of({"kind": name, **content}, twice))


def lease(name: str = "apiserver-a", **more: Any) -> Lease:
    fields: dict[str, Any] = {
        "name": name,
        "holder": f"{name}_uuid",
        "renewed": "2026-12-01T02:59:55Z",
        "identity_of": "kube-apiserver",
        "hostname": "n1",
        "duration_seconds": 3600,
    }
    return Lease(**{**fields, **more})


def requested(removed: str, version: str = "v1beta1") -> Input:
    row = RequestedDeprecatedApi(
        group="networking.k8s.io", version=version, resource="ipaddresses", removed_release=removed
    )
    return one(pod(), processes=(process(requested_deprecated_apis=(row,)),))


def stored(gv: str, names: tuple[str, ...] = ("train",), resource: str = "workloads") -> Input:
    return one(pod(), stored_objects=(StoredObjects(group_version=gv, resource=resource, names=names),))


def claim(version: str, to: str) -> Input:
    return one(pod(), to=to, claims=(Claim(namespace="ml", name="c", api_version=version),))


def flagz(runtime: tuple[str, ...]) -> Input:
    said = process(provenance="flagz", runtime_config=runtime)
    return one(pod(), processes=(said,))


def metric(value: bool) -> Input:
    said = process(version="v1.36.3", effective_gates={"DRADeviceTaintRules": value, "DRADeviceTaints": True})
    return one(pod(), processes=(said,))


def taint_profile(expect: str, nodes: str = "") -> Profile:
    return profile(taints=Taints(nodes=(NodeTaintWish(key="gpu", expect=expect, nodes=nodes),)))  # type: ignore[arg-type]


def accepting(code: str, until: str = "2027-01-31", subject: str = "") -> Profile:
    return profile(
        accept=(Accept(code=code, subject=subject, reason="known", owner="platform", until=until),)
    )


OPENSHIFT = Cluster(distribution="openshift")
TAINTED = node(taints=(NodeTaint(key="gpu", effect="NoSchedule"),))
AFTER = (*control_plane("v1.37.2"), kubelet(version="v1.37.2", gates={}))

CASES: dict[str, tuple[Callable[[], Input], Callable[[], Input]]] = {
    # gates
    "CG-GATE-001": (lambda: flagged("SidecarContainers=true"), lambda: flagged("SELinuxMount=true")),
    "CG-GATE-002": (
        lambda: flagged("DRAExtendedResource=false"),
        lambda: flagged("DRAExtendedResource=true"),
    ),
    "CG-GATE-003": (
        lambda: flagged("DRADeviceTaints=false"),
        lambda: flagged("DRADeviceTaints=false,DRADeviceTaintRules=false"),
    ),
    "CG-GATE-004": (
        lambda: flagged("PodLevelResourcesFixDefaulting=true", version="v1.37.2", emulated_version="1.36"),
        lambda: flagged("PodLevelResourcesFixDefaulting=true", version="v1.37.2"),
    ),
    "CG-GATE-005": (lambda: flagged("SELinuxMount=maybe"), lambda: flagged("SELinuxMount=t")),
    "CG-GATE-006": (
        lambda: one(pod(version="v1.37.2", emulated_version="1.33")),
        lambda: one(pod(version="v1.37.2", emulated_version="1.36")),
    ),
    "CG-GATE-010": (
        lambda: flagged("DRAResourceClaimDeviceStatus=true"),
        lambda: flagged("DRAConsumableCapacity=true"),
    ),
    "CG-GATE-011": (
        lambda: flagged("DRADeviceTaintRules=true"),
        lambda: flagged("DRADeviceTaintRules=false"),
    ),
    "CG-GATE-012": (
        lambda: flagged("KubeProxyIPVS=true", "kube-proxy"),
        lambda: flagged("NFTablesNetlink=true", "kube-proxy"),
    ),
    "CG-GATE-013": (
        lambda: flagged("DRASchedulerFilterTimeout=false", "kube-controller-manager"),
        lambda: flagged("DRASchedulerFilterTimeout=false", "kube-scheduler"),
    ),
    "CG-GATE-014": (lambda: flagged("AllBeta=true"), lambda: flagged("SELinuxMount=true")),
    "CG-GATE-015": (
        lambda: flagged(("SELinuxMount=true", "SELinuxMount=false")),
        lambda: flagged(("SELinuxMount=true", "MemoryQoS=false")),
    ),
    "CG-GATE-020": (
        lambda: one(
            pod("kube-scheduler"), taint_rules=(TaintRule(name="r", selector="all", key="k", effect="None"),)
        ),
        lambda: one(
            pod("kube-scheduler", flags="DRADeviceTaintRules=true"),
            taint_rules=(TaintRule(name="r", selector="all", key="k", effect="None"),),
        ),
    ),
    "CG-GATE-021": (lambda: one(pod()), lambda: one(pod(version="v1.37.2"))),
    "CG-GATE-022": (
        lambda: one(pod(flags="DRAPartitionableDevices=false"), pod("kube-scheduler")),
        lambda: one(
            pod(flags="DRAPartitionableDevices=false"),
            pod("kube-scheduler", flags="DRAPartitionableDevices=false"),
        ),
    ),
    "CG-GATE-030": (
        lambda: one(*control_plane(), kubelet()),
        lambda: one(*control_plane(), kubelet(gates={})),
    ),
    "CG-GATE-031": (
        lambda: one(kubelet(gates={}, provenance="configmap")),
        lambda: one(kubelet(gates={})),
    ),
    "CG-GATE-032": (
        lambda: one(
            pod(flags="RouteAdvertisements=true"),
            cluster=OPENSHIFT,
            openshift={"desired": "4.21.0", "gates_version": "4.21.0"},
        ),
        lambda: one(
            pod(flags="SELinuxMount=true"),
            cluster=OPENSHIFT,
            openshift={"desired": "4.21.0", "gates_version": "4.21.0"},
        ),
    ),
    "CG-GATE-033": (lambda: one(pod(version="v1.33.1")), lambda: one(pod(version="v1.34.1"))),
    "CG-GATE-034": (
        lambda: one(
            processes=(
                process("unknown", version="v1.37.2", effective_gates={"DRAListTypeAttributes": True}),
            )
        ),
        lambda: one(
            processes=(
                process("unknown", version="v1.37.2", effective_gates={"DRAListTypeAttributes": False}),
            )
        ),
    ),
    "CG-KUBEADM-001": (
        lambda: one(pod(), config_maps=(kubeadm({"kube-apiserver": "SidecarContainers=true"}),)),
        lambda: one(pod(), config_maps=(kubeadm({"kube-apiserver": "SELinuxMount=true"}),)),
    ),
    "CG-KUBEADM-002": (
        lambda: one(pod(), config_maps=(kubeadm(own_feature_gates={"PublicKeysECDSA": True}),)),
        lambda: one(pod(), config_maps=(kubeadm(own_feature_gates={"RootlessControlPlane": True}),)),
    ),
    "CG-KUBEADM-003": (
        lambda: one(pod(), config_maps=(kubeadm(api_version="kubeadm.k8s.io/v1beta3"),)),
        lambda: one(pod(), config_maps=(kubeadm(api_version="kubeadm.k8s.io/v1beta4"),)),
    ),
    "CG-KUBEADM-004": (
        lambda: one(
            pod(version="v1.35.4"),
            to="1.36.3",
            config_maps=(kubeadm(own_feature_gates={"PublicKeysECDSA": True}),),
        ),
        lambda: one(
            pod(version="v1.35.4"),
            to="1.36.3",
            config_maps=(kubeadm(own_feature_gates={"RootlessControlPlane": True}),),
        ),
    ),
    "CG-EMUL-001": (
        lambda: one(pod(version="v1.37.2", emulated_version="1.36")),
        lambda: one(pod(version="v1.37.2")),
    ),
    "CG-EMUL-002": (
        lambda: one(pod(version="v1.37.2", min_compatibility_version="1.37")),
        lambda: one(pod(version="v1.37.2", min_compatibility_version="1.36")),
    ),
    "CG-EMUL-003": (lambda: one(pod()), lambda: one(pod(version="v1.37.1"))),
    "CG-OPENSHIFT-001": (
        lambda: one(pod(), cluster=OPENSHIFT, openshift={"feature_set": "TechPreviewNoUpgrade"}),
        lambda: one(pod(), cluster=OPENSHIFT, openshift={"feature_set": "Default"}),
    ),
    "CG-OPENSHIFT-002": (
        lambda: one(pod(), cluster=OPENSHIFT, openshift={"desired": "4.21.0", "gates_version": "4.20.3"}),
        lambda: one(pod(), cluster=OPENSHIFT, openshift={"desired": "4.21.0", "gates_version": "4.21.0"}),
    ),
    "CG-DISTRO-001": (
        lambda: one(pod(), cluster=Cluster(name="t", distribution="talos", distribution_version="v1.13.2")),
        lambda: one(pod(), cluster=Cluster(name="t", distribution="talos", distribution_version="v1.14.0")),
    ),
    "CG-DISTRO-002": (
        lambda: one(pod(), cluster=Cluster(name="t", distribution="talos", distribution_version="v1.99.0")),
        lambda: one(pod(), cluster=Cluster(name="t", distribution="talos", distribution_version="v1.14.0")),
    ),
    # flags
    "CG-FLAG-001": (
        lambda: one(kubelet(gates={}, flags=flags("containerd"), flags_observable=True)),
        lambda: one(kubelet(gates={}, flags=flags("node-ip"), flags_observable=True)),
    ),
    "CG-FLAG-002": (
        lambda: one(kubelet(gates={}, flags=flags("cgroup-driver"), flags_observable=True)),
        lambda: one(kubelet(gates={}, flags=flags("node-ip"), flags_observable=True)),
    ),
    "CG-FLAG-003": (
        lambda: one(
            pod("kube-controller-manager"),
            config_maps=(kubeadm(flags={"kube-controller-manager": flags("concurrent-service-syncs")}),),
        ),
        lambda: one(
            pod("kube-controller-manager"),
            config_maps=(kubeadm(flags={"kube-controller-manager": flags("profiling")}),),
        ),
    ),
    "CG-FLAG-004": (
        lambda: one(with_fields(pod(), flags=flags("vendor-switch"))),
        lambda: one(with_fields(pod(), flags=flags("secure-port"))),
    ),
    "CG-FLAG-005": (
        lambda: one(kubelet(gates={})),
        lambda: one(kubelet(gates={}, flags_observable=True)),
    ),
    "CG-CONFIG-001": (
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxPods": "many"}),)),
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxPods": 50}),)),
    ),
    "CG-CONFIG-002": (
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxpods": 50}),)),
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxPods": 50}),)),
    ),
    "CG-CONFIG-003": (
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"defaultPodSysctls": {}}),)),
        lambda: one(
            kubelet(version="v1.37.0", gates={}),
            config_maps=(written("kubelet", {"defaultPodSysctls": {}}),),
        ),
    ),
    "CG-CONFIG-004": (
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxPods": 5}, "maxPods"),)),
        lambda: one(kubelet(gates={}), config_maps=(written("kubelet", {"maxPods": 5}),)),
    ),
    "CG-CONFIG-005": (
        lambda: one(pod("kube-scheduler", config_file="/etc/kubernetes/scheduler.yaml")),
        lambda: one(pod("kube-scheduler")),
    ),
    "CG-FLAG-010": (
        lambda: one(pod(runtime_config=("scheduling.k8s.io/v1alpha2=true",))),
        lambda: one(pod(runtime_config=("scheduling.k8s.io/v1beta1=true",))),
    ),
    "CG-FLAG-011": (
        lambda: one(pod(runtime_config=(f"{IDLE}=true",))),
        lambda: one(pod(runtime_config=("apps/v1=true",))),
    ),
    "CG-FLAG-012": (
        lambda: one(pod(runtime_config=("resource.k8s.io/v1beta1=true",))),
        lambda: one(pod(runtime_config=("resource.k8s.io/v1=true",))),
    ),
    # APIs
    "CG-API-001": (lambda: requested("1.37"), lambda: requested("1.40")),
    "CG-API-002": (lambda: requested("1.40"), lambda: requested("1.37")),
    "CG-API-003": (
        lambda: stored("scheduling.k8s.io/v1alpha2"),
        lambda: stored("scheduling.k8s.io/v1alpha2", names=()),
    ),
    "CG-API-004": (
        lambda: stored("scheduling.k8s.io/v1alpha2"),
        lambda: stored("scheduling.k8s.io/v1", resource="priorityclasses"),
    ),
    "CG-API-005": (
        lambda: claim("resource.k8s.io/v1beta1", "1.38.0"),
        lambda: claim("resource.k8s.io/v1", "1.38.0"),
    ),
    "CG-API-006": (
        lambda: one(
            pod(),
            custom_resources=(
                CustomResource(name="a.b.c", group="b.c", kind="A", served=("v1",), stored=("v1", "v1beta1")),
            ),
        ),
        lambda: one(
            pod(),
            custom_resources=(
                CustomResource(
                    name="a.b.c", group="b.c", kind="A", served=("v1", "v1beta1"), stored=("v1", "v1beta1")
                ),
            ),
        ),
    ),
    "CG-API-010": (
        lambda: one(pod(), wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1beta2"),))),
        lambda: one(
            pod(),
            wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1", kinds=("DeviceTaintRule",)),)),
        ),
    ),
    "CG-API-011": (
        lambda: one(
            pod(), wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1", expect="absent"),))
        ),
        lambda: one(
            pod(), wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1beta2", expect="absent"),))
        ),
    ),
    "CG-API-012": (
        lambda: one(
            pod(runtime_config=None), wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1beta2"),))
        ),
        lambda: one(
            pod(runtime_config=("resource.k8s.io/v1beta2=true",)),
            wanted=profile(apis=(ApiWish(group_version="resource.k8s.io/v1beta2"),)),
        ),
    ),
    "CG-API-020": (
        lambda: one(
            pod(), api_services=(ApiServiceState(name="v1.metrics", service="x/y", available=False),)
        ),
        lambda: one(pod(), api_services=(ApiServiceState(name="v1.metrics", service="x/y", available=True),)),
    ),
    # versions
    "CG-VERSION-001": (lambda: one(pod(), to="1.38.0"), lambda: one(pod(), to="1.37.2")),
    "CG-VERSION-002": (lambda: one(pod(), to="1.37.99"), lambda: one(pod(), to="1.37")),
    "CG-VERSION-003": (
        lambda: one(pod(version="v1.33.1"), to="1.34.4"),
        lambda: one(pod(version="v1.34.1"), to="1.35.4"),
    ),
    "CG-VERSION-004": (lambda: one(node_only()), lambda: one(pod())),
    "CG-VERSION-005": (lambda: one(pod(), to="1.37.0-rc.1"), lambda: one(pod(), to="1.37.0")),
    "CG-VERSION-006": (lambda: one(pod(version="v1.35.4")), lambda: one(pod(version="v1.36.3"))),
    "CG-VERSION-007": (lambda: one(pod(), to="1.35.4"), lambda: one(pod(), to="1.36.3")),
    "CG-VERSION-008": (
        lambda: one(pod(), pod(node="n2", version="v1.36.1")),
        lambda: one(pod(), pod(node="n2")),
    ),
    "CG-LEFT-001": (
        lambda: one(*AFTER, proxy("v1.36.3")),
        lambda: one(*AFTER, proxy("v1.37.2")),
    ),
    "CG-LEFT-002": (
        lambda: one(*AFTER, pod("coredns", version="v1.14.2", kind="pod")),
        lambda: one(*AFTER, pod("coredns", version="v1.14.6", kind="pod")),
    ),
    "CG-LEFT-003": (
        lambda: one(*AFTER, config_maps=(kubeadm(version="v1.36.3"),)),
        lambda: one(*AFTER, config_maps=(kubeadm(version="v1.37.2"),)),
    ),
    "CG-LEFT-004": (
        lambda: one(*AFTER, kubelet("n2", "v1.36.3", gates={})),
        lambda: one(*AFTER, kubelet("n2", "v1.37.2", gates={})),
    ),
    "CG-LEFT-005": (
        lambda: one(*AFTER, etcd("v3.6.8"), config_maps=(kubeadm(version="v1.37.2"),)),
        lambda: one(*AFTER, etcd("v3.7.0"), config_maps=(kubeadm(version="v1.37.2"),)),
    ),
    "CG-LEFT-006": (
        lambda: one(pod(version="v1.37.2"), pod(node="n2")),
        lambda: one(pod(version="v1.37.2"), pod(node="n2", version="v1.37.2")),
    ),
    # skew
    "CG-SKEW-001": (
        lambda: one(pod(), kubelet(version="v1.37.2", gates={})),
        lambda: one(pod(), kubelet(gates={})),
    ),
    "CG-SKEW-002": (
        lambda: one(pod(), pod("kube-scheduler", version="v1.34.4")),
        lambda: one(pod(), pod("kube-scheduler", version="v1.35.4")),
    ),
    "CG-SKEW-003": (
        lambda: one(pod(), pod(node="n2", version="v1.34.4")),
        lambda: one(pod(), pod(node="n2", version="v1.35.4")),
    ),
    "CG-SKEW-004": (
        lambda: one(pod(), kubelet(version="v1.33.1", gates={})),
        lambda: one(pod(), kubelet(version="v1.34.4", gates={})),
    ),
    "CG-SKEW-005": (
        lambda: one(pod(), kubelet(gates={}), proxy("v1.32.1")),
        lambda: one(pod(), kubelet(gates={}), proxy("v1.33.1")),
    ),
    "CG-SKEW-006": (
        lambda: one(pod(), kubelet(version="unobservable", running_version=None, gates={})),
        lambda: one(pod(), kubelet(gates={})),
    ),
    "CG-SKEW-007": (
        lambda: one(pod(), pod(node="n2", version="v1.35.4")),
        lambda: one(pod(), pod(node="n2", version="v1.36.1")),
    ),
    # etcd
    "CG-ETCD-001": (
        lambda: one(pod(), etcd("v3.5.24"), config_maps=(kubeadm(),)),
        lambda: one(pod(), etcd("v3.6.8"), config_maps=(kubeadm(),)),
    ),
    "CG-ETCD-002": (
        lambda: one(pod(), etcd("v3.5.21", kind="pod"), config_maps=(kubeadm(etcd="external"),)),
        lambda: one(pod(), etcd("v3.5.24", kind="pod"), config_maps=(kubeadm(etcd="external"),)),
    ),
    "CG-ETCD-003": (
        lambda: one(pod(), etcd("v3.6.8"), config_maps=(kubeadm(),)),
        lambda: one(pod(), etcd("v3.7.0"), config_maps=(kubeadm(),)),
    ),
    "CG-ETCD-004": (
        lambda: one(pod(version="v1.33.5"), etcd("v3.5.15"), to="1.34.4", config_maps=(kubeadm(),)),
        lambda: one(pod(version="v1.33.5"), etcd("v3.5.24"), to="1.34.4", config_maps=(kubeadm(),)),
    ),
    "CG-ETCD-005": (
        lambda: one(pod(), config_maps=(kubeadm(etcd="external"),)),
        lambda: one(pod(), etcd(), config_maps=(kubeadm(etcd="local"),)),
    ),
    "CG-ETCD-006": (lambda: one(pod()), lambda: one(pod(), etcd())),
    "CG-ETCD-007": (
        lambda: one(pod(), etcd("v3.6.8"), etcd("v3.7.0", "n2")),
        lambda: one(pod(), etcd("v3.6.8"), etcd("v3.6.8", "n2")),
    ),
    "CG-ETCD-008": (
        lambda: one(pod(), etcd(), config_maps=(kubeadm(),)),
        lambda: one(pod(), etcd(), etcd(node="n2"), etcd(node="n3"), config_maps=(kubeadm(),)),
    ),
    "CG-ETCD-009": (
        lambda: one(
            pod(),
            etcd(flags=()),
            config_maps=(kubeadm(flags={"etcd": flags("experimental-initial-corrupt-check")}),),
        ),
        lambda: one(
            pod(), etcd(flags=()), config_maps=(kubeadm(flags={"etcd": flags("quota-backend-bytes")}),)
        ),
    ),
    # drift
    "CG-DRIFT-001": (
        lambda: one(
            pod("kube-scheduler"), config_maps=(kubeadm({"kube-scheduler": "DRADeviceTaintRules=true"}),)
        ),
        lambda: one(
            pod("kube-scheduler", flags="DRADeviceTaintRules=true"),
            config_maps=(kubeadm({"kube-scheduler": "DRADeviceTaintRules=true"}),),
        ),
    ),
    "CG-DRIFT-002": (
        lambda: one(pod(), kubelet(gates={"MemoryQoS": True}), config_maps=(kubelet_config(),)),
        lambda: one(pod(), kubelet(gates={}), config_maps=(kubelet_config(),)),
    ),
    "CG-DRIFT-003": (
        lambda: one(
            pod("kube-scheduler", flags="DRADeviceTaintRules=true"), pod("kube-scheduler", node="n2")
        ),
        lambda: one(pod("kube-scheduler"), pod("kube-scheduler", node="n2")),
    ),
    "CG-DRIFT-004": (lambda: flagz(("resource.k8s.io/v1beta2=true",)), lambda: flagz(())),
    "CG-DRIFT-005": (lambda: metric(value=True), lambda: metric(value=False)),
    "CG-DRIFT-006": (
        lambda: one(pod(), apis=(*served(), api("resource.k8s.io/v1beta2", "DeviceTaintRule"))),
        lambda: one(
            pod(runtime_config=("resource.k8s.io/v1beta2=true",)),
            apis=(*served(), api("resource.k8s.io/v1beta2", "DeviceTaintRule")),
        ),
    ),
    # what runs
    "CG-RUN-001": (
        lambda: one(pod(), pod(node="n2", version="v1.37.2", running=None, phase="Pending", ready=None)),
        lambda: one(pod(), pod(node="n2")),
    ),
    "CG-RUN-002": (
        lambda: one(
            pod(
                running=None,
                ready=False,
                state=ContainerState(
                    name="a",
                    state="waiting:CrashLoopBackOff",
                    exit_code=1,
                    message="unrecognized feature gate: X",
                ),
            )
        ),
        lambda: one(pod()),
    ),
    "CG-RUN-003": (lambda: one(pod(ready=False)), lambda: one(pod(ready=True))),
    "CG-RUN-004": (lambda: one(pod(version="v1.37.2", running="v1.36.3")), lambda: one(pod())),
    "CG-RUN-005": (
        lambda: one(pod(state=ContainerState(name="a", state="running", restarts=7))),
        lambda: one(pod(state=ContainerState(name="a", state="running", restarts=1))),
    ),
    "CG-RUN-006": (
        lambda: one(pod(), pod(node="n2"), processes=(process(version="v1.36.3"),)),
        lambda: one(pod(), processes=(process(version="v1.36.3"),)),
    ),
    "CG-RUN-007": (
        lambda: one(
            pod(), leases=(lease(), lease("apiserver-b", renewed="2026-12-01T02:20:00Z", hostname="old"))
        ),
        lambda: one(pod(), leases=(lease(),)),
    ),
    "CG-RUN-008": (
        lambda: one(pod("kube-scheduler"), leases=(lease("kube-scheduler", identity_of="", holder="n1_x"),)),
        lambda: one(pod("kube-scheduler"), leases=(lease("kube-scheduler", identity_of="", holder=""),)),
    ),
    # nodes, parts, reading
    "CG-NODE-001": (lambda: one(pod(), nodes=(node(ready=False),)), lambda: one(pod(), nodes=(node(),))),
    "CG-NODE-002": (
        lambda: one(pod(), nodes=(node(unschedulable=True),)),
        lambda: one(pod(), nodes=(node(),)),
    ),
    "CG-NODE-003": (
        lambda: one(pod(), nodes=(node(conditions=(Condition(type="DiskPressure", status="True"),)),)),
        lambda: one(pod(), nodes=(node(conditions=(Condition(type="DiskPressure", status="False"),)),)),
    ),
    "CG-NODE-004": (
        lambda: one(pod(), nodes=(node(container_runtime="containerd://1.7.20"),)),
        lambda: one(pod(), nodes=(node(container_runtime="containerd://2.0.1"),)),
    ),
    "CG-NODE-005": (
        lambda: one(pod(), config_maps=(config("kubelet", settings={"failCgroupV1": False}),)),
        lambda: one(pod(), config_maps=(config("kubelet", settings={"failCgroupV1": True}),)),
    ),
    "CG-NODE-006": (
        lambda: one(pod(), nodes=(node(kernel="4.18.0-553.el8"),)),
        lambda: one(pod(), nodes=(node(kernel="5.15.0-1"),)),
    ),
    "CG-PART-001": (
        lambda: one(pod(), workloads=(workload("cni:cilium"),)),
        lambda: one(pod(), workloads=(workload("kube-proxy"),)),
    ),
    "CG-PART-002": (
        lambda: one(pod(), config_maps=(config("kube-proxy", settings={"mode": "ipvs"}),)),
        lambda: one(pod(), config_maps=(config("kube-proxy", settings={"mode": "nftables"}),)),
    ),
    "CG-PART-003": (
        lambda: one(pod(), config_maps=(config("kube-proxy", settings={"mode": ""}),)),
        lambda: one(pod(), config_maps=(config("kube-proxy", settings={"mode": "iptables"}),)),
    ),
    "CG-PART-004": (
        lambda: one(pod(), workloads=(workload("autoscaler"),)),
        lambda: one(pod(), workloads=(workload("csi:ebs"),)),
    ),
    "CG-READ-001": (
        lambda: one(pod(), unobserved=(unread(failed=True),)),
        lambda: one(pod(), unobserved=(unread(failed=False),)),
    ),
    "CG-READ-002": (
        lambda: one(pod(), unobserved=(unread(failed=False),)),
        lambda: one(pod(), unobserved=(unread(failed=True),)),
    ),
    "CG-READ-003": (lambda: one(pod(), namespaces_read={"pods": ("kube-system",)}), lambda: one(pod())),
    # webhooks
    "CG-WEBHOOK-001": (
        lambda: one(pod(), webhooks=(webhook(server_nodes=("n1",)),)),
        lambda: one(pod(), webhooks=(webhook(),)),
    ),
    "CG-WEBHOOK-002": (
        lambda: one(pod(), webhooks=(webhook(server_nodes=()),)),
        lambda: one(pod(), webhooks=(webhook(server_nodes=(), failure_policy="Ignore"),)),
    ),
    "CG-WEBHOOK-003": (
        lambda: one(pod(), webhooks=(webhook(server_nodes=(), service=""),)),
        lambda: one(pod(), webhooks=(webhook(),)),
    ),
    "CG-WEBHOOK-004": (
        lambda: one(pod(), webhooks=(webhook(rules=("networking.k8s.io/v1beta1/ipaddresses",)),)),
        lambda: one(
            pod(),
            webhooks=(
                webhook(rules=("networking.k8s.io/v1beta1/ipaddresses", "networking.k8s.io/v1/ipaddresses")),
            ),
        ),
    ),
    "CG-WEBHOOK-005": (
        lambda: one(pod(), webhooks=(webhook(match_policy="Exact"),)),
        lambda: one(pod(), webhooks=(webhook(match_policy="Equivalent"),)),
    ),
    # policy
    "CG-POLICY-001": (
        lambda: one(
            pod(),
            wanted=wished(
                GateWish(name="DRAConsumableCapacity", value=False, components=("kube-apiserver",))
            ),
        ),
        lambda: one(
            pod(flags="DRAConsumableCapacity=false"),
            wanted=wished(
                GateWish(name="DRAConsumableCapacity", value=False, components=("kube-apiserver",))
            ),
        ),
    ),
    "CG-POLICY-002": (
        lambda: one(pod(flags="SELinuxMount=true"), wanted=wished(GateWish(name="SELinuxMount"))),
        lambda: one(pod(), wanted=wished(GateWish(name="SELinuxMount"))),
    ),
    "CG-POLICY-003": (
        lambda: one(pod(), wanted=wished(GateWish(name="DRAExtendedResource", value=False))),
        lambda: one(pod(), wanted=wished(GateWish(name="DRAExtendedResource", value=True))),
    ),
    "CG-POLICY-004": (
        lambda: one(
            pod(flags="DRAListTypeAttributes=true"), wanted=wished(stages=StagePolicy(alpha="forbidden"))
        ),
        lambda: one(
            pod(flags="DRAListTypeAttributes=false"), wanted=wished(stages=StagePolicy(alpha="forbidden"))
        ),
    ),
    "CG-POLICY-005": (
        lambda: one(pod(flags="DRAConsumableCapacity=true"), wanted=wished(stages=StagePolicy(beta="named"))),
        lambda: one(
            pod(flags="DRAConsumableCapacity=true"),
            wanted=wished(
                GateWish(name="DRAConsumableCapacity", value=True, components=("kube-apiserver",)),
                stages=StagePolicy(beta="named"),
            ),
        ),
    ),
    "CG-POLICY-006": (
        lambda: one(
            kubelet(), wanted=wished(GateWish(name="MemoryQoS", value=False, components=("kubelet",)))
        ),
        lambda: one(
            kubelet(gates={"MemoryQoS": False}),
            wanted=wished(GateWish(name="MemoryQoS", value=False, components=("kubelet",))),
        ),
    ),
    "CG-POLICY-010": (
        lambda: one(pod(), nodes=(node(),), wanted=taint_profile("present")),
        lambda: one(pod(), nodes=(TAINTED,), wanted=taint_profile("present")),
    ),
    "CG-POLICY-011": (
        lambda: one(pod(), nodes=(TAINTED,), wanted=taint_profile("absent")),
        lambda: one(pod(), nodes=(node(),), wanted=taint_profile("absent")),
    ),
    "CG-POLICY-012": (
        lambda: one(pod(), kinds_read=(), wanted=taint_profile("absent")),
        lambda: one(pod(), nodes=(node(),), wanted=taint_profile("absent")),
    ),
    "CG-POLICY-021": (
        lambda: one(
            pod(),
            wanted=profile(
                target=Target(
                    kubernetes="1.37.2", components=(ComponentTarget(name="etcd", version="3.7.0"),)
                )
            ),
        ),
        lambda: one(
            pod(),
            etcd(),
            wanted=profile(
                target=Target(
                    kubernetes="1.37.2", components=(ComponentTarget(name="etcd", version="3.7.0"),)
                )
            ),
        ),
    ),
    "CG-POLICY-030": (
        lambda: one(pod(flags="SidecarContainers=true"), wanted=accepting("CG-GATE-001", "2026-11-30")),
        lambda: one(pod(flags="SidecarContainers=true"), wanted=accepting("CG-GATE-001", "2026-12-01")),
    ),
    "CG-POLICY-031": (
        lambda: one(pod(), wanted=accepting("CG-GATE-001")),
        lambda: one(pod(flags="SidecarContainers=true"), wanted=accepting("CG-GATE-001")),
    ),
    "CG-POLICY-032": (
        lambda: one(pod(), captured_at="", wanted=accepting("CG-GATE-001")),
        lambda: one(pod(), wanted=accepting("CG-GATE-001")),
    ),
}
IDLE = "networking.k8s.io/v1beta1"


def node_only() -> Any:
    return proxy("unobservable", running_version=None, running=None)


def kubelet_config() -> ConfigMapFact:
    source = GateSource(
        provenance="configmap", place="ConfigMap kube-system/kubelet-config kubelet", certainty="intended"
    )
    return config("kubelet", component_gates={"kubelet": source})


def served() -> tuple[Any, ...]:
    """Discovery of 1.36 with nothing but its defaults."""
    return tuple(api(gv) for gv in sorted({a.group_version for a in DATA.apis("1.36") if a.enabled}))


def workload(addon: str) -> Workload:
    return Workload(
        kind="DaemonSet", namespace="sys", name="part", images={"c": "registry.example/part:v1"}, addon=addon
    )


def unread(*, failed: bool) -> Unobserved:
    return Unobserved(what="nodes", reason="forbidden" if failed else "not-in-capture", failed=failed)


OURS = tuple(
    code
    for name in MODULES[: MODULES.index("drivers")]
    for code in (row.code for row in import_module(f"changegen.assess.{name}").CODES)
)


@pytest.mark.parametrize("code", OURS)
def test_a_code_is_made_and_its_twin_is_not(code: str) -> None:
    made, twin = CASES[code]
    assert of(run(*made()), code), f"{code} is not made"
    assert not of(run(*twin()), code), f"{code} is made of its twin too"


def test_every_case_is_of_a_known_code() -> None:
    assert set(CASES) <= set(CODES)


@pytest.mark.parametrize("code", OURS)
def test_a_finding_has_what_its_row_says(code: str) -> None:
    row = CODES[code]
    for item in of(run(*CASES[code][0]()), code):
        assert item.title == row.title
        assert item.severity in (row.severity, *row.others)
        assert item.message
        assert item.advice
        assert "{" not in item.message.replace("{name=", "")
