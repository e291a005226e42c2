"""Write a synthetic cluster capture of any size: kubeadm control plane, GPU nodes with a DRA driver, workloads.

It is for benchmarks and for the large example; its objects have the shape that kubectl writes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def meta(name: str, namespace: str | None = None, **more: Any) -> Json:
    """Return object metadata with a stable uid."""
    made: Json = {
        "name": name,
        "uid": f"uid-{namespace or ''}-{name}",
        "creationTimestamp": "2026-11-01T08:00:00Z",
        **more,
    }
    if namespace:
        made["namespace"] = namespace
    return made


def write(folder: Path, name: str, api_version: str, kind: str, items: list[Json]) -> None:
    """Write a typed list as ``kubectl get -o json`` does."""
    body = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": api_version, "kind": kind, **i} for i in items],
    }
    (folder / f"{name}.json").write_text(json.dumps(body))


def status(image: str) -> Json:
    """Return the status of a running Pod with one container."""
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": image,
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-11-01T08:01:00Z"}},
            }
        ],
    }


def control_plane(version: str) -> list[Json]:
    """Return static Pods of three control-plane nodes."""
    pods = []
    for number in (1, 2, 3):
        host = f"cp-{number}"
        for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
            image = (
                "registry.example/etcd:3.6.8-0"
                if component == "etcd"
                else f"registry.example/{component}:{version}"
            )
            command = [component]
            if component == "kube-apiserver":
                command.append("--feature-gates=DRADeviceTaintRules=true")
            pods.append(
                {
                    "metadata": meta(
                        f"{component}-{host}",
                        "kube-system",
                        labels={"component": component, "tier": "control-plane"},
                        annotations={
                            "kubernetes.io/config.source": "file",
                            "kubernetes.io/config.mirror": "x",
                        },
                        ownerReferences=owner("v1", "Node", host, f"uid--{host}"),
                    ),
                    "spec": {
                        "nodeName": host,
                        "hostNetwork": True,
                        "containers": [{"name": component, "image": image, "command": command}],
                    },
                    "status": {
                        **status(image),
                        "containerStatuses": [{**status(image)["containerStatuses"][0], "name": component}],
                    },
                }
            )
    return pods


def owner(api_version: str, kind: str, name: str, uid: str) -> list[Json]:
    """Return the owner references of an object that one controller owns."""
    return [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def node(name: str, version: str, *, control: bool = False) -> Json:
    """Return a Node with its kubelet's version; control-plane nodes are tainted, the others have GPUs."""
    labels = {"kubernetes.io/hostname": name}
    labels["node-role.kubernetes.io/control-plane" if control else "example.com/accelerator"] = (
        "" if control else "gpu"
    )
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    return {
        "metadata": meta(name, labels=labels),
        "spec": {"taints": [taint]} if control else {},
        "status": {
            "nodeInfo": {
                "kubeletVersion": version,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0",
                "osImage": "Linux",
            },
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": {"cpu": "64", "pods": "110"},
            "allocatable": {"cpu": "64", "pods": "110"},
        },
    }


def resource_slice(node_name: str, devices: int, *, moved: bool) -> Json:
    """Return the ResourceSlice of a node; ``moved``: of a newer device driver, in a new generation of its pool."""
    return {
        "metadata": meta(f"{node_name}-gpu.example.com-x"),
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 2 if moved else 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{number}",
                    "attributes": {
                        "driverVersion": {"version": "580.105.8" if moved else "580.95.5"},
                        "model": {"string": "X1"},
                        "uuid": {"string": f"GPU-{node_name}-{number}"},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for number in range(devices)
            ],
        },
    }


def device_class() -> Json:
    """Return the DeviceClass of the GPUs, with its extended resource."""
    return {
        "metadata": meta("gpu.example.com"),
        "spec": {
            "extendedResourceName": "example.com/gpu",
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
        },
    }


def worker_pod(node_name: str, number: int, *, claims: bool) -> Json:
    """Return one of the Pods of a node; every number is a team with a workload of its own."""
    name, image = f"train-{node_name}-{number}", "registry.example/train:1"
    owners = owner("apps/v1", "ReplicaSet", f"train-{number}", f"uid-rs-{number}")
    resources = {"claims": [{"name": "gpu"}]} if claims else {}
    spec: Json = {
        "nodeName": node_name,
        "containers": [{"name": "main", "image": image, "resources": resources}],
    }
    if claims:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    return {
        "metadata": meta(name, f"team-{number}", labels={"app": "train"}, ownerReferences=owners),
        "spec": spec,
        "status": status(image),
    }


def resource_claim(node_name: str, number: int) -> Json:
    """Return the claim of such a Pod: allocated, and reserved for it."""
    pod = f"train-{node_name}-{number}"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    result = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": node_name,
        "device": f"gpu-{number}",
    }
    return {
        "metadata": meta(f"{pod}-gpu", f"team-{number}"),
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-team-{number}-{pod}"}],
        },
    }


def replica_set(number: int, replicas: int) -> Json:
    """Return the ReplicaSet of a team's workload."""
    owners = owner("apps/v1", "Deployment", "train", f"uid-d-{number}")
    return {
        "metadata": meta(f"train-{number}", f"team-{number}", ownerReferences=owners),
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas},
    }


def write_cluster(
    folder: Path, *, nodes: int, devices: int, pods: int, version: str, later: bool = False
) -> None:
    """Write the capture.

    Args:
        folder: Made if it is not there.
        nodes: GPU nodes, beside three control-plane nodes.
        devices: Devices a node.
        pods: Pods a node; the first ones, up to half the devices, hold one each.
        version: Kubernetes version, ``v1.36.3``.
        later: One node in a hundred has moved, with a new device driver.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"gpu-{number:05}" for number in range(nodes)]
    moved = set(names[::100]) if later else set()
    dra = "resource.k8s.io/v1"
    listed = [node(f"cp-{number}", version, control=True) for number in (1, 2, 3)]
    listed += [node(name, "v1.37.2" if name in moved else version) for name in names]
    write(folder, "nodes", "v1", "Node", listed)
    slices = [resource_slice(name, devices, moved=name in moved) for name in names]
    write(folder, "resourceslices", dra, "ResourceSlice", slices)
    write(folder, "deviceclasses", dra, "DeviceClass", [device_class()])
    holders = range(min(pods, devices // 2))
    running = [worker_pod(name, n, claims=n in holders) for name in names for n in range(pods)]
    write(folder, "pods", "v1", "Pod", control_plane(version) + running)
    claims = [resource_claim(name, n) for name in names for n in holders]
    write(folder, "resourceclaims", dra, "ResourceClaim", claims)
    write(folder, "replicasets", "apps/v1", "ReplicaSet", [replica_set(n, nodes) for n in range(pods)])
    write(folder, "poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", [])
    write(folder, "devicetaintrules", "resource.k8s.io/v1beta2", "DeviceTaintRule", [])
    system = meta("kube-system", uid="6f1d2c1e-3b0a-4f57-9d0e-2b6a7c9e4d10")
    write(folder, "namespaces", "v1", "Namespace", [{"metadata": system}])
    told = {
        "major": "1",
        "minor": version.split(".")[1],
        "gitVersion": version,
        "platform": "linux/amd64",
    }
    (folder / "version.json").write_text(json.dumps(told))


def main() -> None:
    """Write the capture that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8, help="devices a node")
    parser.add_argument("--pods", type=int, default=8, help="Pods a node")
    parser.add_argument("--version", default="v1.36.3")
    parser.add_argument(
        "--later", action="store_true", help="one node in a hundred has moved and a new device driver"
    )
    args = parser.parse_args()
    write_cluster(
        args.folder,
        nodes=args.nodes,
        devices=args.devices,
        pods=args.pods,
        version=args.version,
        later=args.later,
    )


if __name__ == "__main__":
    main()
