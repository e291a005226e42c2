"""Facts of the configuration that kubeadm keeps in the cluster."""

from __future__ import annotations

import re

from changegen.facts.base import (
    Args,
    Fact,
    Reading,
    arg,
    kubectl_get,
    printed_nothing,
    seen_in,
    unknown,
)
from changegen.i18n import tr
from changegen.model.snapshot import ConfigMapFact, Snapshot
from changegen.shell import quoted


def _kubeadm_map(snapshot: Snapshot) -> ConfigMapFact | None:
    return next((item for item in snapshot.config_maps if item.kind == "kubeadm"), None)


def _kubeadm_command(_args: Args) -> str:
    path = "{.data.ClusterConfiguration}"
    return kubectl_get("-n kube-system configmap kubeadm-config", path) + " | grep -E '^kubernetesVersion:'"


def _kubeadm_parse(output: str, _args: Args) -> Reading:
    match = re.search(r"^kubernetesVersion:\s*(\S+)", output, re.MULTILINE)
    return Reading(value=match[1].strip("\"'")) if match else printed_nothing()


def _kubeadm(snapshot: Snapshot, _args: Args) -> Reading:
    found = _kubeadm_map(snapshot)
    if found is None or not found.kubernetes_version:
        return unknown(tr("ConfigMap kube-system/kubeadm-config was not read"))
    seen = seen_in(
        "ConfigMap kube-system/kubeadm-config", "kubernetesVersion", found.kubernetes_version, "configmap"
    )
    return Reading(value=found.kubernetes_version, evidence=(seen,))


_KUBEADM_SECTIONS = {
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}


def _kubeadm_gate_command(args: Args) -> str:
    pattern = r"^[a-zA-Z]+:|(^|[^A-Za-z0-9])" + re.escape(arg(args, "gate")) + " *="
    path = "{.data.ClusterConfiguration}"
    return kubectl_get("-n kube-system configmap kubeadm-config", path) + f" | grep -E {quoted(pattern)}"


def _kubeadm_gate_parse(output: str, args: Args) -> Reading:
    """The last section above a line is the one that it belongs to."""
    pattern = re.compile(rf"(?:^|[^A-Za-z0-9]){re.escape(arg(args, 'gate'))}\s*=")
    named, section = set(), ""
    for line in output.splitlines():
        if match := re.match(r"([a-zA-Z]+):", line):
            section = match[1]
        if section in _KUBEADM_SECTIONS and pattern.search(line):
            named.add(_KUBEADM_SECTIONS[section])
    return Reading(value=tuple(sorted(named))) if section else printed_nothing()


def _kubeadm_gate(snapshot: Snapshot, args: Args) -> Reading:
    found = _kubeadm_map(snapshot)
    if found is None:
        return unknown(tr("ConfigMap kube-system/kubeadm-config was not read"))
    gate = arg(args, "gate")
    named = tuple(
        sorted(
            component
            for component, source in found.component_gates.items()
            if component in _KUBEADM_SECTIONS.values() and gate in source.gates
        )
    )
    place = "ConfigMap kube-system/kubeadm-config"
    return Reading(
        value=named, evidence=(seen_in(place, "extraArgs feature-gates", ", ".join(named), "configmap"),)
    )


ROWS: tuple[Fact, ...] = (
    Fact(
        name="kubeadm.version",
        layer="api",
        title=lambda _a: tr("kubernetesVersion in ConfigMap kubeadm-config"),
        command=_kubeadm_command,
        evaluate=_kubeadm,
        parse=_kubeadm_parse,
    ),
    Fact(
        name="kubeadm.names-gate",
        layer="api",
        title=lambda a: tr("Components for which ConfigMap kubeadm-config names {gate}", gate=a["gate"]),
        command=_kubeadm_gate_command,
        evaluate=_kubeadm_gate,
        parse=_kubeadm_gate_parse,
    ),
)
"""The rows of this module, in the order of the table."""
