"""Readings made of a few lines of YAML, through the real readers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.snapshot import Snapshot

DATA = Path(__file__).parent / "data"


def reading(*texts: str, **files: str) -> Snapshot:
    """The snapshot of YAML texts; each becomes a file of its own. `files` are further files by name without suffix."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number}.yaml").write_text(text, encoding="utf-8")
        for name, text in files.items():
            (Path(folder) / f"{name}.yaml").write_text(text, encoding="utf-8")
        return build_snapshot(read_input([folder]))


def listed(kind: str, *items: str, version: str = "v1") -> str:
    """A List of objects of one kind; each item is YAML below its kind."""
    head = f"apiVersion: {version}\nkind: {kind}List\nitems:"
    if not items:
        return head + " []\n"
    lines = []
    for item in items:
        body = f"apiVersion: {version}\nkind: {kind}\n{item.strip()}"
        first, *rest = body.split("\n")
        lines.append(f"- {first}\n" + "\n".join(f"  {line}" for line in rest))
    return head + "\n" + "\n".join(lines) + "\n"


def slices(*items: str, version: str = "resource.k8s.io/v1") -> str:
    return listed("ResourceSlice", *items, version=version)


def claims(*items: str, version: str = "resource.k8s.io/v1") -> str:
    return listed("ResourceClaim", *items, version=version)


def classes(*items: str, version: str = "resource.k8s.io/v1") -> str:
    return listed("DeviceClass", *items, version=version)


def gpu_class(
    name: str = "gpu.example.com", resource: str = "example.com/gpu", created: str = "", cel: str = ""
) -> str:
    """A DeviceClass that takes the devices of a driver of its name."""
    expression = cel or f'device.driver == "{name}"'
    named = f"\n  extendedResourceName: {resource}" if resource else ""
    age = f"\n  creationTimestamp: '{created}'" if created else ""
    return f"metadata:\n  name: {name}{age}\nspec:\n  selectors:\n  - cel:\n      expression: '{expression}'{named}"


def gpu_slice(
    node: str,
    count: int = 2,
    driver: str = "gpu.example.com",
    attributes: str = "{type: {string: gpu}}",
    **pool: Any,
) -> str:
    """A node's only slice with devices gpu-0, gpu-1 …"""
    fields = {"name": node, "generation": 1, "resourceSliceCount": 1, **pool}
    shown = ", ".join(f"{key}: {value}" for key, value in fields.items())
    devices = "\n".join(f"  - {{name: gpu-{n}, attributes: {attributes}}}" for n in range(count))
    return (
        f"metadata: {{name: {node}-{driver}-{fields['generation']}}}\nspec:\n  driver: {driver}\n  nodeName: {node}\n"
        f"  pool: {{{shown}}}\n  devices:{' []' if not count else chr(10) + devices}"
    )


def daemon_set(
    name: str,
    namespace: str = "drivers",
    image: str = "registry.example/plugin:v1.0.0",
    more: str = "",
    ready: int = 1,
    labels: str = "{}",
) -> str:
    return (
        f"metadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}\n"
        f"spec:\n  template:\n    spec:\n      containers:\n      - {{name: plugin, image: '{image}'}}\n{more}"
        f"status: {{desiredNumberScheduled: {ready}, numberReady: {ready}}}"
    )


MOUNTS = (
    "      volumes:\n      - {name: r, hostPath: {path: /var/lib/kubelet/plugins_registry}}\n"
    "      - {name: p, hostPath: {path: /var/lib/kubelet/plugins}}\n"
)


def plain_node(
    name: str, version: str = "v1.36.3", allocatable: str = "{cpu: '8'}", more: str = "spec: {}"
) -> str:
    return (
        f"metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, pool: {name[:3]}}}}}\n{more}\n"
        f"status:\n  allocatable: {allocatable}\n  conditions: [{{type: Ready, status: 'True'}}]\n"
        f"  nodeInfo: {{kubeletVersion: {version}}}"
    )
