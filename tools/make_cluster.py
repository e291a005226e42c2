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
        node = f"cp-{number}"
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
                        f"{component}-{node}",
                        "kube-system",
                        labels={"component": component, "tier": "control-plane"},
                        annotations={
                            "kubernetes.io/config.source": "file",
                            "kubernetes.io/config.mirror": "x",
                        },
                        ownerReferences=[
                            {
                                "apiVersion": "v1",
                                "kind": "Node",
                                "name": node,
                                "uid": f"uid--{node}",
                                "controller": True,
                            }
                        ],
                    ),
                    "spec": {
                        "nodeName": node,
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


def main() -> None:
    """Write the capture."""
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
    folder: Path = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"gpu-{n:05}" for n in range(args.nodes)]

    def node(name: str, *, control: bool, moved: bool) -> Json:
        labels = {"kubernetes.io/hostname": name}
        labels["node-role.kubernetes.io/control-plane" if control else "example.com/accelerator"] = (
            "" if control else "gpu"
        )
        version = "v1.37.2" if moved else args.version
        return {
            "metadata": meta(name, labels=labels),
            "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
            if control
            else {},
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

    moved = {name for number, name in enumerate(names) if args.later and number % 100 == 0}
    write(
        folder,
        "nodes",
        "v1",
        "Node",
        [node(f"cp-{n}", control=True, moved=False) for n in (1, 2, 3)]
        + [node(n, control=False, moved=n in moved) for n in names],
    )
    slices = []
    for name in names:
        driver_version = "580.105.8" if name in moved else "580.95.5"
        devices = [
            {
                "name": f"gpu-{d}",
                "attributes": {
                    "driverVersion": {"version": driver_version},
                    "model": {"string": "X1"},
                    "uuid": {"string": f"GPU-{name}-{d}"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for d in range(args.devices)
        ]
        slices.append(
            {
                "metadata": meta(f"{name}-gpu.example.com-x"),
                "spec": {
                    "driver": "gpu.example.com",
                    "nodeName": name,
                    "pool": {"name": name, "generation": 2 if name in moved else 1, "resourceSliceCount": 1},
                    "devices": devices,
                },
            }
        )
    write(folder, "resourceslices", "resource.k8s.io/v1", "ResourceSlice", slices)
    write(
        folder,
        "deviceclasses",
        "resource.k8s.io/v1",
        "DeviceClass",
        [
            {
                "metadata": meta("gpu.example.com"),
                "spec": {
                    "extendedResourceName": "example.com/gpu",
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                },
            }
        ],
    )
    pods, claims = control_plane(args.version), []
    for name in names:
        for number in range(args.pods):
            pod = f"train-{name}-{number}"
            claim = f"{pod}-gpu"
            image = "registry.example/train:1"
            uses = number < args.devices // 2
            pods.append(
                {
                    "metadata": meta(
                        pod,
                        f"team-{number}",
                        labels={"app": "train"},
                        ownerReferences=[
                            {
                                "apiVersion": "apps/v1",
                                "kind": "ReplicaSet",
                                "name": f"train-{number}",
                                "uid": f"uid-rs-{number}",
                                "controller": True,
                            }
                        ],
                    ),
                    "spec": {
                        "nodeName": name,
                        "containers": [
                            {
                                "name": "main",
                                "image": image,
                                "resources": {"claims": [{"name": "gpu"}]} if uses else {},
                            }
                        ],
                        **({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]} if uses else {}),
                    },
                    "status": status(image),
                }
            )
            if uses:
                claims.append(
                    {
                        "metadata": meta(claim, f"team-{number}"),
                        "spec": {
                            "devices": {
                                "requests": [
                                    {
                                        "name": "gpu",
                                        "exactly": {"deviceClassName": "gpu.example.com", "count": 1},
                                    }
                                ]
                            }
                        },
                        "status": {
                            "allocation": {
                                "devices": {
                                    "results": [
                                        {
                                            "request": "gpu",
                                            "driver": "gpu.example.com",
                                            "pool": name,
                                            "device": f"gpu-{number}",
                                        }
                                    ]
                                }
                            },
                            "reservedFor": [
                                {"resource": "pods", "name": pod, "uid": f"uid-team-{number}-{pod}"}
                            ],
                        },
                    }
                )
    write(folder, "pods", "v1", "Pod", pods)
    write(folder, "resourceclaims", "resource.k8s.io/v1", "ResourceClaim", claims)
    write(
        folder,
        "replicasets",
        "apps/v1",
        "ReplicaSet",
        [
            {
                "metadata": meta(
                    f"train-{n}",
                    f"team-{n}",
                    ownerReferences=[
                        {
                            "apiVersion": "apps/v1",
                            "kind": "Deployment",
                            "name": "train",
                            "uid": f"uid-d-{n}",
                            "controller": True,
                        }
                    ],
                ),
                "spec": {"replicas": args.nodes},
                "status": {"replicas": args.nodes},
            }
            for n in range(args.pods)
        ],
    )
    write(folder, "poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", [])
    write(folder, "devicetaintrules", "resource.k8s.io/v1beta2", "DeviceTaintRule", [])
    write(folder, "namespaces", "v1", "Namespace", [{"metadata": meta("kube-system")}])
    (folder / "version.json").write_text(
        json.dumps(
            {
                "major": "1",
                "minor": args.version.split(".")[1],
                "gitVersion": args.version,
                "platform": "linux/amd64",
            }
        )
    )


if __name__ == "__main__":
    main()
