"""Make changegen/data/driver-apis.json: which API versions known DRA drivers speak, release by release.

A driver speaks what the Kubernetes helper that it is built with speaks (k8s.io/dynamic-resource-allocation), and what
its own code calls beside it. Both are read here, nothing is typed: the helper's versions in the Go modules, a driver's
in the tags of its git repository (go.mod, then every call of a resource.k8s.io client outside of tests).

``python tools/make_driver_apis.py owner/name=GIT_DIR …`` takes clones with their tags; Go modules are downloaded by
``go mod download``. A project whose clone is not given keeps what the file has of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "changegen" / "data" / "driver-apis.json"
HELPER = "k8s.io/dynamic-resource-allocation"
HELPERS = ("0.31.14", "0.32.13", "0.33.13", "0.34.4", "0.35.4", "0.36.3", "0.37.2")
"""The releases of the helper that are read, one a minor."""
KUBELETS = ("1.34.4", "1.35.4", "1.36.3", "1.37.2")

PROJECTS: tuple[dict[str, Any], ...] = (
    {
        "repository": "kubernetes-sigs/dra-driver-nvidia-gpu",
        "drivers": ["gpu.nvidia.com", "compute-domain.nvidia.com"],
        "images": ["k8s-dra-driver-gpu", "dra-driver-nvidia-gpu"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
    {
        "repository": "kubernetes-sigs/dra-example-driver",
        "drivers": ["*.example.com"],
        "images": ["dra-example-driver"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "internal", "pkg"],
    },
    {
        "repository": "kubernetes-sigs/dranet",
        "drivers": ["dra.net"],
        "images": ["dranet"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
    *(
        {
            "repository": "intel/intel-resource-drivers-for-kubernetes",
            "drivers": [f"{kind}.intel.com"],
            "images": [f"intel-{kind}-resource-driver"],
            "tags": rf"{kind}-v[0-9.]+",
            "paths": [f"cmd/kubelet-{kind}-plugin", f"pkg/{kind}", "pkg/helpers"],
        }
        for kind in ("gpu", "gaudi", "qat")
    ),
    {
        "repository": "kubernetes-sigs/dra-driver-cpu",
        "drivers": ["dra.cpu"],
        "images": ["dra-driver-cpu"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
    {
        "repository": "ffromani/dra-driver-memory",
        "drivers": ["dra.memory"],
        "images": ["dramem", "dra-driver-memory"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
    {
        "repository": "kubernetes-sigs/dra-driver-google-tpu",
        "drivers": ["tpu.google.com"],
        "images": ["dra-driver-google-tpu"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
    {
        "repository": "RBLN-SW/rbln-k8s-dra-driver",
        "drivers": ["npu.rebellions.ai"],
        "images": ["k8s-dra-driver-npu"],
        "tags": r"v[0-9.]+",
        "paths": ["cmd", "pkg", "internal"],
    },
)

_CALL = re.compile(
    r"\.ResourceV(\w+)\(\)\.(DeviceClasses|DeviceTaintRules|ResourceClaims|ResourceClaimTemplates|ResourceSlices)\("
)
_KINDS = {
    "DeviceClasses": "DeviceClass",
    "DeviceTaintRules": "DeviceTaintRule",
    "ResourceClaims": "ResourceClaim",
    "ResourceClaimTemplates": "ResourceClaimTemplate",
    "ResourceSlices": "ResourceSlice",
}


def run(*words: str, cwd: Path | None = None) -> str:
    """Standard output of a command; a failure ends the program."""
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout


def module(path: str, version: str) -> Path:
    """The folder of a Go module, downloaded where it is missing."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "go.mod").write_text("module x\n\ngo 1.24\n", encoding="utf-8")
        found = json.loads(run("go", "mod", "download", "-json", f"{path}@v{version}", cwd=Path(folder)))
    return Path(found["Dir"])


def minor(version: str) -> str:
    """``0.36`` of ``0.36.1`` and of ``v0.36.0-rc.0``."""
    parts = version.lstrip("v").split(".")
    return f"{parts[0]}.{parts[1]}"


def order(version: str) -> tuple[int, str]:
    """API versions, the newest first."""
    match = re.match(r"v(\d+)(?:(alpha|beta)(\d+))?$", version)
    assert match is not None, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, f"{99 - int(match[3] or 0):02d}")


def spoken(plugin: str, client: str, controller: str) -> tuple[list[str], list[str]]:
    """(versions of resource.k8s.io, kubelet plugin APIs) of the helper's sources; `client` is empty before 0.34."""
    found = {f"v{v.lower()}" for v in re.findall(r"clientSet\.ResourceV(\w+)\(\)\.ResourceSlices", client)}
    if not client:
        found = set(re.findall(r'"k8s\.io/api/resource/(v\w+)"', controller))
    services = set(re.findall(r'"k8s\.io/kubelet/pkg/apis/dra/(v\w+)"', plugin))
    return sorted(found, key=order), sorted(services, key=order)


SOURCES = ("kubeletplugin/draplugin.go", "client/client.go", "resourceslice/resourceslicecontroller.go")


def helper(version: str) -> dict[str, Any]:
    """What one release of the helper publishes slices with, and which plugin APIs it can register."""
    folder = module(HELPER, version)
    texts = [
        path.read_text(encoding="utf-8") if (path := folder / name).is_file() else "" for name in SOURCES
    ]
    resource, plugin = spoken(*texts)
    read = [name for name, text in zip(SOURCES, texts, strict=True) if text]
    return {
        "minor": minor(version),
        "resource": resource,
        "plugin": plugin,
        "source": f"{HELPER} v{version}: {', '.join(read[:2])}",
    }


def kubelet(version: str) -> dict[str, Any]:
    """The plugin APIs that one release of the kubelet speaks."""
    folder = module("k8s.io/kubernetes", version)
    path = "pkg/kubelet/cm/dra/plugin/dra_plugin.go"
    source = (folder / path).read_text(encoding="utf-8")
    block = source.split("servicesSupportedByKubelet = []string{", 1)[1].split("}", 1)[0]
    aliases = dict(re.findall(r'(\w+) +"k8s\.io/kubelet/pkg/apis/dra/(v\w+)"', source))
    spoken = [aliases[name] for name in re.findall(r"(\w+)\.DRAPluginService", block)]
    return {
        "minor": minor(version),
        "plugin": spoken,
        "source": f"k8s.io/kubernetes v{version}: {path}, servicesSupportedByKubelet",
    }


def release(git: Path, project: dict[str, Any], tag: str, helpers: dict[str, Any]) -> dict[str, Any] | None:
    """What one release of a driver is built with and calls; None where that cannot be read."""

    def show(name: str) -> str:
        return run("git", "-C", str(git), "show", f"{tag}:{name}") if name in listing else ""

    listing = set(run("git", "-C", str(git), "ls-tree", "-r", "--name-only", tag).splitlines())
    mod = show("go.mod")
    required = re.search(rf"^\s*(?:require )?{re.escape(HELPER)} (v\S+)", mod, re.MULTILINE)
    replaced = re.search(rf"{re.escape(HELPER)} => \S+ (v\S+)", mod)
    if required is None:
        return None
    built = (replaced or required)[1]
    known = helpers.get(minor(built))
    if known is not None:
        resource, plugin = known["resource"], known["plugin"]
    else:
        # A commit between two releases: its sources are read where the project keeps a copy of them.
        resource, plugin = spoken(*(show(f"vendor/{HELPER}/{name}") for name in SOURCES))
    calls: dict[tuple[str, str], str] = {}
    served: set[str] = set()
    metadata = False
    paths = tuple(f"{path}/" for path in project["paths"])
    for name in sorted(listing):
        if not name.endswith(".go") or name.endswith("_test.go") or not name.startswith(paths):
            continue
        source = show(name)
        for version, kind in _CALL.findall(source):
            calls.setdefault((f"v{version.lower()}", _KINDS[kind]), name)
        metadata = metadata or "kubeletplugin.EnableDeviceMetadata(" in source
        served.update(re.findall(r'"k8s\.io/kubelet/pkg/apis/dra/(v\w+)"', source))
    if minor(built) in {"0.31", "0.32"}:
        # Until 0.32 a driver brings the gRPC server itself; what it can register is what it implements.
        plugin = [version for version in plugin if version in served]
    if not resource or not plugin:
        return None
    row: dict[str, Any] = {
        "tag": tag,
        "version": tag.rpartition("-")[2],
        "helper": built,
        "resource": resource,
        "plugin": plugin,
    }
    if metadata:
        row["metadata"] = True
    if calls:
        row["calls"] = [
            {"version": version, "kind": kind, "file": name}
            for (version, kind), name in sorted(calls.items(), key=lambda item: item[0])
        ]
    return row


def text_of(table: dict[str, Any]) -> str:
    """The table as JSON, a release a line."""
    marks: list[str] = []

    def mark(row: dict[str, Any]) -> str:
        marks.append(json.dumps(row))
        return f"@{len(marks) - 1}@"

    short = {**table, "helpers": [mark(row) for row in table["helpers"]]}
    short["kubelets"] = [mark(row) for row in table["kubelets"]]
    short["projects"] = [{**p, "releases": [mark(row) for row in p["releases"]]} for p in table["projects"]]
    text = json.dumps(short, indent=1)
    return re.sub(r'"@(\d+)@"', lambda found: marks[int(found[1])], text) + "\n"


def main() -> int:
    """Write the table."""
    clones = dict(argument.split("=", 1) for argument in sys.argv[1:])
    helpers = {row["minor"]: row for row in map(helper, HELPERS)}
    old = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.is_file() else {"projects": []}
    kept = {tuple(row["drivers"]): row for row in old["projects"]}
    projects = []
    for project in PROJECTS:
        git = clones.get(project["repository"])
        if git is None:
            if tuple(project["drivers"]) in kept:
                projects.append(kept[tuple(project["drivers"])])
            continue
        tags = run("git", "-C", git, "tag", "--sort=creatordate").splitlines()
        rows = [
            row
            for tag in tags
            if re.fullmatch(project["tags"], tag)
            and (row := release(Path(git), project, tag, helpers)) is not None
        ]
        projects.append(
            {
                "repository": project["repository"],
                "drivers": project["drivers"],
                "images": project["images"],
                "releases": rows,
            }
        )
    table = {
        "about": "Made by tools/make_driver_apis.py. resource: versions of resource.k8s.io with which the helper of that "
        "release publishes slices and reads claims, any one of which is enough. plugin: kubelet plugin APIs that it "
        "registers, any one of which is enough. calls: versions that the driver's own code asks for beside that. metadata: its code can turn device "
        "metadata on.",
        "helpers": list(helpers.values()),
        "kubelets": [kubelet(version) for version in KUBELETS],
        "projects": projects,
    }
    TABLE.write_text(text_of(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
