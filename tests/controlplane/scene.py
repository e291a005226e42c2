"""The cluster that the recorded captures show: three control-plane nodes, five workers, two DRA drivers, a device plugin.

What it has on purpose: a gate that the next release has removed, gates that drift from kubeadm-config on one node,
a taint rule that only reports, a PodDisruptionBudget that allows nothing, a bare Pod, and a Pod that is too big.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.controlplane import dra, kubeadm
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.process import wait_for

GPU = {"example.com/accelerator": "gpu"}
TAINT_RULES = "DRADeviceTaintRules=true"


def configuration(*, removed_gate: bool) -> dict[str, Any]:
    """The ClusterConfiguration; ``removed_gate`` has the apiserver set SidecarContainers, which 1.37 does not know."""
    apiserver = TAINT_RULES + (",SidecarContainers=true" if removed_gate else "")
    return kubeadm.merged(
        {"clusterName": "prod-a", "apiServer": {"certSANs": ["127.0.0.1", "localhost"]}},
        kubeadm.extra_args(
            {"kube-apiserver": {"runtime-config": "resource.k8s.io/v1beta2=true"}},
            gates={
                "kube-apiserver": apiserver,
                "kube-controller-manager": TAINT_RULES,
                "kube-scheduler": TAINT_RULES,
            },
        ),
    )


def plan(version: str, *, audit: bool = False) -> Plan:
    """The scene's nodes. Three etcd members run; one apiserver, controller manager and scheduler for three of each."""
    return Plan(
        version=version,
        running={"etcd": ["cp-1", "cp-2", "cp-3"]},
        nodes=[
            control_plane("cp-1"),
            control_plane("cp-2"),
            control_plane("cp-3"),
            Node(name="gpu-1", labels=GPU),
            Node(name="gpu-2", labels=GPU),
            Node(name="gpu-3", labels=GPU, taints=["example.com/gpu-only=true:NoSchedule"]),
            Node(name="cpu-1"),
            Node(name="old-gpu-1", labels=GPU, devices={"example.com/legacy-gpu": "4"}),
        ],
        configuration=configuration(removed_gate=version.startswith(("1.34.", "1.35.", "1.36."))),
        kubelet={"featureGates": {"DRAResourceClaimDeviceStatus": True}},
        audit=audit,
    )


def recorded(version: str) -> Plan:
    """The scene as the captures show it: one etcd too runs for three, and no manifest has what /flagz says."""
    full = plan(version)
    served = full.configuration["apiServer"]["extraArgs"][0]["value"]
    return replace(
        full,
        running={},
        # Nothing ties what this process says of itself to a node.
        apiserver={"runtime-config": served, "advertise-address": "127.0.0.1"},
        configuration={
            **without_runtime_config(full.configuration),
            "controlPlaneEndpoint": "127.0.0.1:6443",
        },
        quick_election=False,
    )


def without_runtime_config(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A ClusterConfiguration whose apiserver sets gates only."""
    server = configuration["apiServer"]
    kept = [argument for argument in server["extraArgs"] if argument["name"] != "runtime-config"]
    return {**configuration, "apiServer": {**server, "extraArgs": kept}}


def gpus(driver_version: str) -> list[dra.Device]:
    """The two devices of a GPU node."""
    return [
        dra.Device(
            name=f"gpu-{number}",
            attributes={
                "driverVersion": dra.version(driver_version),
                "model": "LATEST-GPU-MODEL",
                "uuid": f"GPU-0000-000{number}",
                "resource.kubernetes.io/numaNode": number,
                "resource.kubernetes.io/pcieRoot": f"pci0000:0{number}",
            },
            capacity={"memory": "80Gi"},
        )
        for number in range(2)
    ]


def gpu_plugin(release: str) -> list[dict[str, Any]]:
    """The GPU driver's Namespace and DaemonSet at one release. Its chart label stays behind on purpose."""
    labels = {
        "app.kubernetes.io/name": "dra-example-driver",
        "app.kubernetes.io/version": "v0.2.0",
        "helm.sh/chart": "dra-example-driver-0.2.0",
    }
    image = f"registry.k8s.io/dra-example-driver/dra-example-driver:{release}"
    name = "dra-example-driver"
    return dra.plugin(name, f"{name}-kubeletplugin", image, labels=labels, node_selector=GPU)


def deployment(namespace: str, name: str, replicas: int, limits: dict[str, str]) -> dict[str, Any]:
    """A Deployment of Pods that ask for devices."""
    template = dra.pod(namespace, name, limits=limits)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def net_app() -> dict[str, Any]:
    """A Pod without a controller, which holds a network device by a claim."""
    return dra.pod("ml", "net-app", claims={"nic": "nic-claim"})


def publish_gpus(cluster: Cluster, versions: dict[str, str]) -> None:
    """Publish the GPU driver's pools; ``versions`` is node → kernel driver version."""
    driver = dra.Driver(cluster.api, "gpu.example.com")
    for node, version in versions.items():
        driver.publish(node, gpus(version), node=node)


def drop_gates(cluster: Cluster, component: str, node: str) -> None:
    """Take the gates out of one node's manifest by hand: kubeadm-config still sets them."""

    def without_gates(manifest: dict[str, Any]) -> None:
        container = manifest["spec"]["containers"][0]
        container["command"] = [word for word in container["command"] if "feature-gates" not in word]

    cluster.edit_manifest(node, component, without_gates)
    cluster.place_manifests(node, [component])
    cluster.wait_mirror_pods(node, [component])


@contextmanager
def closed(cluster: Cluster, *nodes: str) -> Iterator[None]:
    """Nodes that take no Pods meanwhile, so that the scheduler has no choice."""
    cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


def populate(cluster: Cluster) -> None:
    """Install the drivers and the workloads, and wait until all run that can.

    Every Pod has its place: net-app and two of train on gpu-1, one of train on gpu-2, CoreDNS on cpu-1 and old-gpu-1.
    """
    api = cluster.api
    with closed(cluster, "gpu-1", "gpu-2", "gpu-3"):
        cluster.kubectl("-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-dns", "--grace-period=1")
        wait_running(cluster, "kube-system", {"coredns": 2})
    drop_gates(cluster, "kube-scheduler", "cp-3")
    net = dra.plugin(
        "dranet",
        "dranet",
        "registry.k8s.io/networking/dranet:v1.0.1",
        labels={"app.kubernetes.io/name": "dranet"},
        node_selector=GPU,
    )
    cluster.apply(
        *gpu_plugin("v0.2.0"), *net, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    )
    publish_gpus(cluster, {"gpu-1": "1.2.0", "gpu-2": "1.2.0", "gpu-3": "1.1.0"})
    nics = dra.Driver(api, "dra.net")
    nic = dra.Device(
        name="eth0",
        attributes={
            "dra.net/ifName": "eth0",
            "dra.net/rdma": False,
            "resource.kubernetes.io/pcieRoot": "pci0000:00",
        },
    )
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        nics.publish(node, [nic], node=node)
    cluster.wait_service_account("ml")
    cluster.apply(
        dra.device_class("dra.net", "dra.net"),
        dra.device_class("gpu.example.com", "gpu.example.com", extended_resource="example.com/gpu"),
        dra.claim("ml", "nic-claim", "dra.net", asks="nic"),
    )
    with closed(cluster, "gpu-2"):
        cluster.apply(
            net_app(),
            deployment("ml", "train", 2, {"example.com/gpu": "1"}),
            deployment("ml", "legacy-infer", 2, {"example.com/legacy-gpu": "1"}),
        )
        dra.running(api, "ml", "net-app")
        wait_running(cluster, "ml", {"train": 2, "legacy-infer": 2})
    cluster.apply(
        deployment("ml", "train", 3, {"example.com/gpu": "1"}),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "train"}}},
        },
    )
    wait_running(cluster, "ml", {"train": 3})
    cluster.apply(dra.pod("ml", "too-big", limits={"example.com/gpu": "5"}))
    dra.unschedulable(api, "ml", "too-big")
    nics.report_status(
        "ml",
        "nic-claim",
        network={"interfaceName": "eth1", "ips": ["10.9.8.7/24"], "hardwareAddress": "02:42:ac:11:00:02"},
    )
    if rule_version := dra.taint_rule_version(api):
        cluster.apply(
            dra.taint_rule(
                "maint-gpu-3",
                api_version=rule_version,
                key="example.com/maintenance",
                value="planned",
                effect="None",
                driver="gpu.example.com",
                pool="gpu-3",
                device="gpu-1",
            )
        )
        dra.taint_rule_condition(api, "maint-gpu-3", api_version=rule_version)
    wait_settled(cluster)


def wait_running(cluster: Cluster, namespace: str, deployments: dict[str, int], timeout: float = 120) -> None:
    """Wait until Deployments have their replicas ready."""
    for name, replicas in deployments.items():
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"

        def ready(path: str = path, replicas: int = replicas) -> bool:
            return bool(cluster.api.get(path)["status"].get("readyReplicas", 0) == replicas)

        wait_for(f"{replicas} ready Pods of {namespace}/{name}", ready, timeout)


def wait_settled(cluster: Cluster, but: Sequence[str] = ("too-big",), timeout: float = 120) -> None:
    """Wait until every container of every Pod runs, except those named: a kubelet that started anew reports them late."""

    def runs(pod: Mapping[str, Any]) -> bool:
        containers = pod["status"].get("containerStatuses", [])
        return (
            pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and len(containers) == len(pod["spec"]["containers"])
            and all("running" in container.get("state", {}) for container in containers)
        )

    def settled() -> bool:
        return all(
            runs(pod) for pod in cluster.api.items("/api/v1/pods") if pod["metadata"]["name"] not in but
        )

    wait_for("all Pods running", settled, timeout)
