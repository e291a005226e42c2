"""Objects and records for tests, made in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from changegen.collect.documents import Document, InputSeen, ListSeen, Record

Object = dict[str, Any]


def pod(
    name: str,
    *,
    namespace: str = "kube-system",
    node: str | None = "n1",
    labels: Mapping[str, str] | None = None,
    mirror: bool = False,
    running: bool = True,
    containers: Iterable[Object] = (),
    **more: Any,
) -> Object:
    meta: Object = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    if labels:
        meta["labels"] = dict(labels)
    if mirror:
        meta["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": node, "controller": True}]
    meta.update(more.pop("metadata", {}))
    containers = [dict(container) for container in containers]
    spec: Object = {"containers": containers, **more.pop("spec", {})}
    if node:
        spec["nodeName"] = node
    status: Object = {"phase": "Running" if running else "Pending"}
    if running:
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "sha256:abc",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-11-30T00:00:00Z"}},
            }
            for container in containers
        ]
    status.update(more.pop("status", {}))
    assert not more
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def container(name: str, image: str = "", command: Iterable[str] = (), **more: Any) -> Object:
    out: Object = {"name": name, "image": image, **more}
    if command:
        out["command"] = list(command)
    return out


def apiserver(name: str = "kube-apiserver-n1", *flags: str, **more: Any) -> Object:
    return pod(
        name,
        mirror=True,
        labels={"component": "kube-apiserver", "tier": "control-plane"},
        containers=[
            container(
                "kube-apiserver",
                more.pop("image", "registry.example/kube-apiserver:v1.36.3"),
                ["kube-apiserver", *flags],
            )
        ],
        **more,
    )


def node(name: str, version: str = "v1.36.3", **meta: Any) -> Object:
    info = {
        "kubeletVersion": version,
        "osImage": meta.pop("os_image", "Ubuntu 24.04"),
        "kubeProxyVersion": "v9",
    }
    spec = meta.pop("spec", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", **meta},
        "spec": spec,
        "status": {"nodeInfo": info, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def config_map(name: str, data: Mapping[str, str], namespace: str = "kube-system") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


def workload(kind: str, name: str, template: Object, namespace: str = "kube-system") -> Object:
    labels = template["metadata"].get("labels", {})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{kind}-{name}"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def records(*objects: Object, lists: bool = True, version: str = "", layout: str = "kubectl") -> list[Record]:
    """Documents of the objects, and (unless told otherwise) a list of each kind over all namespaces."""
    out: list[Record] = [
        Document(
            api_version=found["apiVersion"], kind=found["kind"], place=f"test.json items[{index}]", data=found
        )
        for index, found in enumerate(objects)
    ]
    if lists:
        seen: dict[tuple[str, str], int] = {}
        for found in objects:
            key = (found["apiVersion"], found["kind"])
            seen[key] = seen.get(key, 0) + 1
        out.extend(
            ListSeen(
                group=api_version.rpartition("/")[0],
                kind=kind,
                api_version=api_version,
                place="test.json",
                count=count,
            )
            for (api_version, kind), count in seen.items()
        )
    if version:
        data = {"major": "1", "minor": version.split(".")[1], "gitVersion": version}
        out.append(Document(api_version="", kind="VersionInfo", place="version.json", data=data))
    out.append(InputSeen(name="test", layout=layout, files=("test.json",)))
    return out
