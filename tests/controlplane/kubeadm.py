"""What kubeadm writes for a node: configuration in, manifests, certificates and kubeconfigs out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

# The names that ClusterConfiguration gives to the components.
_SECTIONS = {
    "kube-apiserver": "apiServer",
    "kube-controller-manager": "controllerManager",
    "kube-scheduler": "scheduler",
}


class KubeadmError(RuntimeError):
    """kubeadm failed; the message has its words."""


def extra_args(
    arguments: Mapping[str, Mapping[str, str]] | None = None, *, gates: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The part of a ClusterConfiguration that sets flags of control-plane components.

    ``arguments`` is component → flag → value; ``gates`` is component → the value of --feature-gates. Components are
    etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
    """
    flags = {name: dict(values) for name, values in (arguments or {}).items()}
    for name, value in (gates or {}).items():
        flags.setdefault(name, {})["feature-gates"] = value
    configuration: dict[str, Any] = {}
    for name, values in flags.items():
        listed = {"extraArgs": [{"name": flag, "value": value} for flag, value in values.items()]}
        if name == "etcd":
            configuration["etcd"] = {"local": {"dataDir": "/var/lib/etcd", **listed}}
        else:
            configuration[_SECTIONS[name]] = listed
    return configuration


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid over ``base``: mappings merge, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def documents(
    version: str,
    node: str,
    address: str,
    cluster: Mapping[str, Any],
    kubelet: Mapping[str, Any] | None = None,
    proxy: Mapping[str, Any] | None = None,
) -> str:
    """The kubeadm configuration file of one node, as YAML documents."""
    init = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": address, "bindPort": 6443},
        "nodeRegistration": {"name": node, "criSocket": "unix:///run/containerd/containerd.sock"},
    }
    base = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": f"v{version}",
        "controlPlaneEndpoint": "api.cluster.example:6443",
        # The fixtures talk to 127.0.0.1 whatever a scenario sets.
        "apiServer": {"certSANs": ["127.0.0.1", "localhost"]},
    }
    parts: list[Mapping[str, Any]] = [init, merged(base, cluster)]
    if kubelet is not None:
        parts.append(
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **kubelet}
        )
    if proxy is not None:
        parts.append(
            {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", **proxy}
        )
    return yaml.safe_dump_all(parts, sort_keys=False)


def run(binaries: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Run kubeadm and return its standard output; raises KubeadmError."""
    done = subprocess.run(
        [str(binaries / "kubeadm"), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        check=False,
        timeout=180,
    )
    if done.returncode != 0:
        words = " ".join(map(str, arguments))
        raise KubeadmError(f"kubeadm {words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def manifests(binaries: Path, configuration: Path, work: Path) -> dict[str, str]:
    """The static Pod manifests that kubeadm writes for ``configuration``: component → YAML."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    env = {"KUBEADM_INIT_DRYRUN_DIR": str(work)}
    for phase in (("control-plane", "all"), ("etcd", "local")):
        run(binaries, "init", "phase", *phase, "--config", configuration, "--dry-run", env=env)
    written = {path.stem: path.read_text(encoding="utf-8") for path in work.rglob("*.yaml")}
    shutil.rmtree(work, ignore_errors=True)
    absent = [name for name in CONTROL_PLANE if name not in written]
    if absent:
        raise KubeadmError(f"kubeadm wrote no manifest of {', '.join(absent)}")
    return {name: written[name] for name in CONTROL_PLANE}


def flags_of(manifest: str) -> list[str]:
    """The arguments of the first container of a manifest, without the program's name."""
    container = yaml.safe_load(manifest)["spec"]["containers"][0]
    return [str(argument) for argument in container["command"][1:]]


def with_flags(flags: Sequence[str], over: Mapping[str, str]) -> list[str]:
    """``flags`` with those of ``over`` replaced or added."""

    def kept() -> Iterator[str]:
        for flag in flags:
            if flag.partition("=")[0].removeprefix("--") not in over:
                yield flag

    return [*kept(), *(f"--{name}={value}" for name, value in over.items())]
