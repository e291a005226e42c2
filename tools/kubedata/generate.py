"""Makes changegen/data/kubernetes from the Kubernetes Go modules: `python tools/kubedata/generate.py`.

Most facts come from the compiled release itself: the control plane binary of tests/controlplane has an applet that
prints its registries, and the program in configs/ prints what the schemes of configuration files know. Only what no
code can be asked for is read from the modules' files: which code reads a gate, the enhancement that a comment names,
the recorded discovery of the core group, the hashes and the date.

`--check` remakes everything in memory and fails where the committed files differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.controlplane import build  # noqa: E402
from tools.kubedata import gomodules, readers, skew  # noqa: E402

OUTPUT = ROOT / "changegen" / "data" / "kubernetes"
CONFIGS = Path(__file__).resolve().parent / "configs"
SCHEMA = "changegen.kubernetes/v1"
STAGES = {"ALPHA": "Alpha", "BETA": "Beta", "GA": "GA", "DEPRECATED": "Deprecated"}
# The origin of a gate, by the package that defines it.
ORIGINS = (
    ("k8s.io/kubernetes/", "kubernetes"),
    ("k8s.io/apiserver/", "apiserver"),
    ("k8s.io/client-go/", "client-go"),
    ("k8s.io/component-base/", "component-base"),
    ("k8s.io/controller-manager/", "controller-manager"),
    ("k8s.io/apiextensions-apiserver/", "apiextensions"),
)
# Modules whose facts are in the data.
MODULES = (
    "k8s.io/kubernetes",
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apimachinery",
    "k8s.io/apiserver",
    "k8s.io/client-go",
    "k8s.io/component-base",
    "k8s.io/controller-manager",
    "k8s.io/kube-aggregator",
)


def main() -> int:
    """Write or check the files of the asked versions (default: one of each minor)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--version", action="append", help="a Kubernetes version with a module in tests/controlplane/go"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    files = {"skew.json": skew_file()}
    for version in options.version or build.versions():
        content = minor_file(version)
        files[f"{'.'.join(version.split('.')[:2])}.json"] = content
    different = []
    for name, content in files.items():
        path = options.output / name
        if options.check:
            if not path.is_file() or path.read_text(encoding="utf-8") != content:
                different.append(name)
            continue
        options.output.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(f"{path.name}: {len(content)} bytes")
    if different:
        print("not what the modules say:", ", ".join(different), file=sys.stderr)
        return 1
    return 0


def skew_file() -> str:
    """The skew rules, one a line."""
    return "[\n" + ",\n".join(compact(rule) for rule in skew.RULES) + "\n]\n"


def minor_file(version: str) -> str:
    """The data file of the minor that this release stands for."""
    folder = build.build(version)
    told = json.loads(
        subprocess.run([folder / "kubedata"], check=True, capture_output=True, text=True).stdout
    )
    if told["version"] != f"v{version}":
        raise SystemExit(f"the binary of {version} calls itself {told['version']}")
    minor = ".".join(version.split(".")[:2])
    modules = gomodules.Modules(version)
    sources = readers.scan(modules)
    gates = {name: gate_record(name, gate, sources) for name, gate in told["gates"].items()}
    parts: dict[str, Any] = {
        "schema": SCHEMA,
        "minor": minor,
        "release": {
            "version": f"v{version}",
            "date": modules.date(),
            "modules": [modules.pinned(path) for path in MODULES],
            "checked": "source only" if version in build.DATA_ONLY else "started processes",
        },
        "base": base_record(told["kubeadm"], modules),
        "groups": dict(sorted(told["apis"]["groups"].items())),
        "versions": dict(sorted(told["apis"]["enabledVersions"].items())),
        "storage_overrides": dict(sorted(told["apis"]["storageOverrides"].items())),
        "gates": dict(sorted(gates.items())),
        "apis": api_records(minor, told["apis"], gates, modules),
        "flags": {
            component: {name: flag_record(flag) for name, flag in sorted(flags.items())}
            for component, flags in sorted(told["flags"].items())
        },
        "configs": config_records(modules.run(CONFIGS)),
    }
    return pretty(parts)


def gate_record(name: str, gate: dict[str, Any], sources: readers.Sources) -> dict[str, Any]:
    """One gate: specs, dependencies, overrides, who reads it, where it is defined."""
    record: dict[str, Any] = {"specs": [spec_record(stage) for stage in gate["stages"]]}
    if gate.get("dependencies"):
        record["depends"] = gate["dependencies"]
    if gate.get("overrides"):
        record["overrides"] = gate["overrides"]
    if components := sources.components(name):
        record["components"] = components
    package = sources.defined_in(name)
    origin = next((word for prefix, word in ORIGINS if package.startswith(prefix)), "kubernetes")
    if origin != "kubernetes":
        record["origin"] = origin
    if keps := sources.keps(name):
        record["keps"] = keps
    return record


def spec_record(stage: dict[str, Any]) -> dict[str, Any]:
    """One stage of a gate."""
    record = {"version": stage["version"], "default": stage["default"], "stage": STAGES[stage["preRelease"]]}
    if stage["lockToDefault"]:
        record["lock"] = True
    if stage.get("minCompatibilityVersion"):
        record["min_compat"] = stage["minCompatibilityVersion"]
    return record


def base_record(kubeadm: dict[str, Any], modules: gomodules.Modules) -> dict[str, Any]:
    """What kubeadm brings."""
    gates = {}
    for name, gate in sorted(kubeadm["gates"].items()):
        gates[name] = {"default": gate["default"], "stage": STAGES[gate["preRelease"]]}
        if gate.get("lockToDefault"):
            gates[name]["lock"] = True
    return {
        "etcd": kubeadm["etcd"],
        "etcd_for": dict(sorted(kubeadm["etcdFor"].items())),
        "etcd_minimum": kubeadm["etcdMinimum"],
        "coredns": kubeadm["coredns"],
        "pause": kubeadm["pause"],
        "kubeadm_apis": kubeadm["apiVersions"],
        "kubeadm_gates": gates,
        "kubelet_minimum": kubeadm["minimumKubelet"],
        "control_plane_minimum": kubeadm["minimumControlPlane"],
        "go": modules.go_version(),
    }


def flag_record(flag: dict[str, Any]) -> dict[str, Any]:
    """One flag; what is false or empty is left out."""
    return {
        key: flag[key]
        for key in ("type", "default", "bare", "hidden", "deprecated", "short")
        if flag.get(key)
    }


def config_records(configs: dict[str, Any]) -> dict[str, Any]:
    """Configuration files by component: the kind, and the fields of each API version that is decoded."""
    return {
        component: {
            "kind": config["kind"],
            "versions": {
                version: dict(sorted(fields.items()))
                for version, fields in sorted(config["versions"].items())
            },
        }
        for component, config in sorted(configs.items())
    }


def api_records(
    minor: str, apis: dict[str, Any], gates: dict[str, Any], modules: gomodules.Modules
) -> list[dict[str, Any]]:
    """Kinds with their lifecycle, joined with the resources that the apiserver has storage for."""
    resources = {(item["group"], item["version"], item["kind"]): item for item in apis["resources"]}
    recorded = modules.discovery()
    for key, item in recorded.items():
        # The storage of the core group and of the two delegated servers is not asked in process.
        if key[0] in {"", "apiextensions.k8s.io", "apiregistration.k8s.io"}:
            resources.setdefault(key, item)
    lost = set(recorded) - set(resources)
    if lost:
        raise SystemExit(f"{minor}: recorded discovery has kinds that the providers do not: {sorted(lost)}")
    records = []
    for kind in apis["kinds"]:
        key = (kind["group"], kind["version"], kind["kind"])
        resource = resources.pop(key, None)
        lifecycle = {
            name: kind[name]
            for name in ("introduced", "deprecated", "removed", "replacement")
            if kind.get(name)
        }
        if resource is None and not lifecycle:
            continue
        record: dict[str, Any] = {"group": key[0], "version": key[1], "kind": key[2]}
        if resource is not None:
            record["resource"] = resource["resource"]
            if resource["namespaced"]:
                record["namespaced"] = True
        record |= lifecycle
        if resource is not None:
            group_version = f"{key[0]}/{key[1]}" if key[0] else key[1]
            served = "removed" not in lifecycle or minor_key(lifecycle["removed"]) > minor_key(minor)
            wanted = apis["enabledVersions"].get(group_version, False)
            wanted = apis["enabledResources"].get(f"{group_version}/{record['resource']}", wanted)
            if served:
                record["served"] = True
                if wanted and all(default_of(gates[gate], minor) for gate in resource.get("gates") or ()):
                    record["enabled"] = True
            if resource.get("gates"):
                record["gates"] = resource["gates"]
            if stored := apis["storage"].get(f"{key[0]}/{key[2]}"):
                record["storage"] = stored
        records.append(record)
    if resources:
        raise SystemExit(f"{minor}: resources of unregistered kinds: {sorted(resources)}")
    return sorted(records, key=lambda record: (record["group"], record["version"], record["kind"]))


def default_of(gate: dict[str, Any], minor: str) -> bool:
    """Default of a gate in a binary of its own minor, with the default minimum compatibility version."""
    for spec in reversed(gate["specs"]):
        if minor_key(spec["version"]) > minor_key(minor) or minor_key(
            spec.get("min_compat", "0.0")
        ) >= minor_key(minor):
            continue
        return bool(spec["default"])
    return False


def minor_key(minor: str) -> tuple[int, int]:
    """`1.37` as numbers."""
    major, number = minor.split(".")[:2]
    return int(major), int(number)


def compact(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def pretty(parts: dict[str, Any]) -> str:
    """Compact JSON with one gate, API and flag a line, so that a change of the data can be read as a diff."""
    lines = []
    for key, value in parts.items():
        if key == "gates":
            text = (
                "{\n" + ",\n".join(f"{compact(name)}:{compact(gate)}" for name, gate in value.items()) + "\n}"
            )
        elif key == "apis":
            text = "[\n" + ",\n".join(compact(api) for api in value) + "\n]"
        elif key == "flags":
            blocks = []
            for component, flags in value.items():
                rows = ",\n".join(f"{compact(name)}:{compact(flag)}" for name, flag in flags.items())
                blocks.append(f"{compact(component)}:{{\n{rows}\n}}")
            text = "{" + ",\n".join(blocks) + "}"
        elif key == "configs":
            blocks = []
            for component, config in value.items():
                versions = []
                for version, fields in config["versions"].items():
                    rows = ",\n".join(f"{compact(path)}:{compact(typ)}" for path, typ in fields.items())
                    versions.append(f"{compact(version)}:{{\n{rows}\n}}")
                head = f'"kind":{compact(config["kind"])}'
                blocks.append(f'{compact(component)}:{{{head},"versions":{{{",".join(versions)}}}}}')
            text = "{" + ",\n".join(blocks) + "}"
        else:
            text = compact(value)
        lines.append(f"{compact(key)}:{text}")
    return "{" + ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    raise SystemExit(main())
