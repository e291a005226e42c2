"""Names of the files that a step before the window writes and a way back reads: one place for both sides.

The files lie where kubectl is, in the folder of the one who carries the change out.
"""

from __future__ import annotations

from changegen.model.snapshot import ConfigMapFact, PodUse, TaintRule
from changegen.plan.scene import Scene
from changegen.shell import quoted

__all__ = ["config_map_file", "pod_file", "rule_file", "saved_config_maps", "saved_once"]

_KINDS = ("kubeadm", "kubelet", "kube-proxy", "coredns")


def saved_config_maps(scene: Scene) -> tuple[ConfigMapFact, ...]:
    """The ConfigMaps that kubeadm may write anew at an upgrade, each saved to a file of its own; none without kubeadm's."""
    found = tuple(item for item in scene.snapshot.config_maps if item.kind in _KINDS)
    return found if any(item.kind == "kubeadm" for item in found) else ()


def config_map_file(name: str, release: str) -> str:
    """File of a saved ConfigMap: ``kubeadm-config-before-1.37.2.yaml``."""
    return f"{name}-before-{release}.yaml"


def pod_file(pod: PodUse) -> str:
    """File of a Pod without a controller: ``pod-ml-net-app.yaml``."""
    return f"pod-{pod.namespace}-{pod.name}.yaml"


def rule_file(rule: TaintRule) -> str:
    """File of a saved DeviceTaintRule."""
    return f"devicetaintrule-{rule.name}.yaml"


def saved_once(command: str, file: str) -> str:
    """A line that writes what a command prints to a file, once: done again later it would save what the change made."""
    return f"test -s {quoted(file)} || {command} > {quoted(file)}"
