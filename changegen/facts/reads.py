"""How a person reads what the command of a fact prints, where that is not the value itself."""

from __future__ import annotations

from collections.abc import Callable

from changegen.facts.base import Args, arg
from changegen.i18n import tr

__all__ = ["READS", "reads_as"]


def _pod_lines() -> str:
    return tr("a Pod a line: name, node, the image that runs, since when; its tag is the value")


def _etcd_lines() -> str:
    return tr(
        "a Pod a line: name, node, the image that runs, since when; the value is its tag without what follows a dash (3.7.0-0 is v3.7.0)"
    )


def _slices(what: str) -> str:
    return tr(
        "a slice a line: pool, generation, number of slices, then {what}; only the newest generation counts",
        what=what,
    )


READS: dict[str, Callable[[Args], str]] = {
    "server.version": lambda _a: tr("gitVersion is the value"),
    "apiserver.readyz": lambda _a: tr("ok when no line begins with [-]"),
    "apiserver.gate": lambda _a: tr(
        "the number behind the gate: 1 is on, 0 is off; no such line: not known to it"
    ),
    "api.group-version": lambda _a: tr('yes when a line has "groupVersion"'),
    "api.resource": lambda _a: tr(
        'yes when a line has "name"; no when there is only APIResourceList or NotFound'
    ),
    "api.services-down": lambda _a: tr("none when every line ends in True"),
    "component.running": lambda a: _etcd_lines() if arg(a, "component") == "etcd" else _pod_lines(),
    "component.daemon-versions": lambda _a: _pod_lines(),
    "component.names-gate": lambda a: tr(
        "a Pod a line with its whole command: none when no line has {gate}", gate=arg(a, "gate")
    ),
    "leader": lambda _a: "",
    "kubelet.by-node": lambda _a: tr("a node a line: its name, and the version of its kubelet"),
    "kubelet.versions": lambda _a: tr("a node a line: no other version among them"),
    "kubelet.gates": lambda _a: tr(
        "a node a line with the gates of its kubelet's configuration; none: no gate is set"
    ),
    "nodes.not-ready": lambda _a: tr("none when every line ends in True"),
    "nodes.cordoned": lambda _a: tr("none when no line ends in true"),
    "nodes.taints": lambda _a: tr("a node a line with its taints; those of node.kubernetes.io do not count"),
    "nodes.taint-counts": lambda _a: tr(
        "a node a line with its taints; those of node.kubernetes.io do not count"
    ),
    "nodes.allocatable": lambda _a: tr("a node a line: nothing or 0 behind it means none"),
    "nodes.allocatable-counts": lambda _a: tr("a node a line: nothing or 0 behind it means none"),
    "kubeadm.version": lambda _a: "",
    "kubeadm.names-gate": lambda a: tr(
        "the sections of the configuration: none when no line below one has {gate}", gate=arg(a, "gate")
    ),
    "workload.image": lambda _a: "",
    "workload.not-ready": lambda _a: tr("Pods wanted and Pods ready: 0 when they are equal"),
    "budget.allowed": lambda _a: "",
    "budget.limit": lambda _a: tr("name, minAvailable, maxUnavailable"),
    "dra.devices": lambda _a: _slices(tr("its devices: count them")),
    "dra.device-counts": lambda _a: _slices(tr("its devices: count them")),
    "dra.pools-incomplete": lambda _a: tr(
        "a slice a line: pool, generation, number of slices; none when each pool has so many lines of its newest generation"
    ),
    "dra.attribute": lambda _a: _slices(tr("the attribute of each device")),
    "dra.device-taints": lambda _a: _slices(tr("its devices: look for taints")),
    "claims.held": lambda _a: tr(
        "a claim a line: namespace, name, drivers, Pods; count those with a Pod, by namespace and driver"
    ),
    "claims.waiting": lambda _a: tr("a claim a line: none when each has a driver behind its name"),
    "claim.device-status": lambda _a: tr("good when interface, addresses and conditions are there"),
    "pods.mapped": lambda _a: tr("a Pod a line: count those with a resource behind the name, by namespace"),
    "pods.pending-for-devices": lambda _a: tr("a Pod a line: those with a claim or a device resource count"),
    "pods.unhealthy-devices": lambda _a: tr("none when no line has another health than Healthy"),
    "rule.effect": lambda _a: "",
    "rule.evicts": lambda _a: tr(
        "False when it evicts no Pod, True while it does; no line: the controller has not told yet"
    ),
    "class.extended-resource": lambda _a: "",
    "runtime.evidence": lambda _a: "",
}
"""Name of a fact -> how its output is read; empty where the output is the value as it is."""


def reads_as(fact: str, args: Args) -> str:
    """How the output of a fact's command is read by eye; empty where it is the expected value itself."""
    return READS[fact](args)
