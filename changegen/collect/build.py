"""From records to the snapshot: the one place where the parts come together. Pure but for the records it consumes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from changegen import __version__
from changegen.collect import components as parts
from changegen.collect import dra, workloads
from changegen.collect.configmaps import read_config_maps
from changegen.collect.distributions import KNOWLEDGE, METRICS, Detected, detect
from changegen.collect.events import Event
from changegen.collect.inventory import WANTED, WANTED_OPENSHIFT, Inventory
from changegen.collect.nodes import condition_facts, node_facts
from changegen.collect.processes import emulation_of, minimum_of, process_facts
from changegen.collect.wire import ApiService, Node, Pod
from changegen.i18n import language, tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import (
    ApiServiceState,
    Cluster,
    Component,
    Notice,
    Snapshot,
    Source,
    Unobserved,
)

__all__ = ["Options", "build_snapshot"]

EAGER: Final = {"pods": Pod, "nodes": Node, "events": Event, "events.events.k8s.io": Event}
"""Resources of which there are many: they are decoded as they come, so that a large file need not stay in memory."""
_DEFAULT_CLUSTER_NAME: Final = "kubernetes"
"""kubeadm's clusterName where nobody chose one: it names no cluster."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller knows beside the records."""

    kind: Literal["live", "files"] = "files"
    description: str = ""
    captured_at: str = ""
    """RFC 3339 UTC; empty: the newest time that an object carries, called so."""
    captured_at_source: Literal["clock", "given"] = "given"
    """What ``captured_at`` is, where it is set."""
    cluster_name: str = ""
    cluster_name_source: str = "given"
    """``given`` by the user, which wins over all, or ``kubeconfig context``, which yields to what the cluster says."""
    requests: tuple[str, ...] = ()
    not_asked: tuple[Unobserved, ...] = ()
    """Live: opt-in sources that were not chosen, with the flag that chooses them."""
    wanted: tuple[str, ...] = WANTED
    """Resources whose absence is reported."""


def build_snapshot(records: Iterable[object], options: Options | None = None) -> Snapshot:
    """Make the snapshot of the records of one input.

    Texts in it are English whatever language is in force: a snapshot is a record, and equal inputs give equal bytes.
    """
    with language("en"):
        return _build(Inventory.from_records(records, EAGER), options or Options())


def _build(inventory: Inventory, options: Options) -> Snapshot:
    servers = inventory.versions
    server = servers[0].obj if servers else None
    server_version = server.git_version or None if server else None
    config = read_config_maps(inventory)
    seen = parts.find_pods(inventory)
    hosted = tuple(sorted({item.belongs_to for item in seen if item.belongs_to != parts.HERE} - {""}))
    detected = detect(inventory, server_version=server_version, own_pods=parts.own_pods(seen), hosted=hosted)
    openshift, gates_in_force, openshift_missing = parts.openshift_facts(inventory)
    processes = process_facts(inventory)
    instances, odd = parts.assemble(
        inventory,
        seen,
        detected=detected,
        config=config,
        server=server,
        openshift=gates_in_force,
        processes=processes,
    )
    known = workloads.Controllers(inventory)
    devices = dra.device_facts(inventory, known)
    work = workloads.workload_facts(inventory, devices.drivers, known)
    nodes = node_facts(inventory)
    api_services = _api_services(inventory)
    uids = _uids(inventory)
    # Last, since decoding objects can find problems.
    wanted = options.wanted
    if detected.distribution in {"openshift", "hypershift"}:
        wanted = (*wanted, *WANTED_OPENSHIFT)
    unobserved = [
        *inventory.unobserved_of(wanted),
        *config.unobserved,
        *odd,
        *openshift_missing,
        *options.not_asked,
        *_component_gaps(instances, detected),
        *_endpoint_gaps(inventory),
    ]
    if len(uids) > 1:
        unobserved.append(
            Unobserved(
                what=tr("identity of the cluster"),
                reason="malformed",
                detail=tr(
                    "namespace kube-system has the UIDs {uids}: the input mixes clusters",
                    uids=", ".join(uids),
                ),
                failed=True,
                remedy=tr("give the capture of one cluster"),
            )
        )
    notices = list(inventory.notices)
    notices.extend(
        Notice(
            place=other.place,
            reason="other-version",
            detail=tr(
                "/version says {version} here; {first} of {place} is taken",
                version=other.obj.git_version,
                first=server_version or "",
                place=servers[0].place,
            ),
        )
        for other in servers[1:]
        if other.obj.git_version != server_version
    )
    captured_at, captured_source = options.captured_at, options.captured_at_source
    if not captured_at:
        captured_at = inventory.newest_timestamp()
    name, name_source = _name(options, config.cluster_name, detected)
    return Snapshot(
        tool_version=__version__,
        captured_at=captured_at,
        source=Source(
            kind=options.kind,
            description=options.description,
            requests=tuple(sorted(options.requests)),
            files=tuple(sorted({file for seen_input in inventory.inputs for file in seen_input.files}))
            if options.kind == "files"
            else (),
            layout=", ".join(sorted({seen_input.layout for seen_input in inventory.inputs}))
            if options.kind == "files"
            else "",
            captured_at_source=captured_source
            if options.captured_at
            else ("newest object" if captured_at else "unknown"),
        ),
        cluster=Cluster(
            name=name,
            name_source=name_source,
            uid=uids[0] if uids else "",
            server_version=server_version,
            emulation_version=emulation_of(server) if server else None,
            min_compatibility_version=minimum_of(server) if server else None,
            distribution=detected.distribution,
            distribution_version=detected.version,
            distribution_evidence=detected.evidence,
            distribution_ties=detected.ties,
            managed=detected.managed,
            hosted=hosted,
        ),
        kinds_read=inventory.kinds_read,
        namespaces_read=inventory.namespaces_read,
        components=instances,
        processes=processes,
        config_maps=config.facts,
        nodes=nodes,
        apis=inventory.apis,
        api_services=api_services,
        drivers=devices.drivers,
        driver_rights=devices.driver_rights,
        device_classes=devices.device_classes,
        pools=devices.pools,
        claims=devices.claims,
        claim_templates=devices.claim_templates,
        taint_rules=devices.taint_rules,
        pods=work.pods,
        workloads=work.workloads,
        disruption_budgets=work.disruption_budgets,
        autoscalers=work.autoscalers,
        quotas=work.quotas,
        webhooks=work.webhooks,
        custom_resources=work.custom_resources,
        stored_objects=work.stored_objects,
        events=work.events,
        leases=work.leases,
        openshift=openshift,
        unobserved=_distinct(unobserved),
        notices=tuple(sorted(set(notices), key=lambda item: (item.place, item.reason, item.detail))),
    )


def _name(options: Options, kubeadm: str, detected: Detected) -> tuple[str, str]:
    """The cluster's name and what says so; the user's word first, then what the cluster says of itself."""
    if options.cluster_name and options.cluster_name_source == "given":
        return options.cluster_name, "given"
    if kubeadm and kubeadm != _DEFAULT_CLUSTER_NAME:
        return kubeadm, "ConfigMap kube-system/kubeadm-config clusterName"
    if detected.cluster_name:
        return detected.cluster_name, "node annotation cluster.x-k8s.io/cluster-name"
    if options.cluster_name:
        return options.cluster_name, options.cluster_name_source
    return (kubeadm, "ConfigMap kube-system/kubeadm-config clusterName") if kubeadm else ("", "")


def _uids(inventory: Inventory) -> tuple[str, ...]:
    """UIDs of namespace kube-system: the identity of a cluster, so more than one is more than one cluster."""
    return inventory.uids("namespaces", "kube-system")


def _api_services(inventory: Inventory) -> tuple[ApiServiceState, ...]:
    """APIServices of other servers, and those that are not available."""
    out = []
    for found in inventory.all("apiservices.apiregistration.k8s.io", ApiService):
        spec, status = found.obj.spec, found.obj.status
        conditions = condition_facts(status.conditions if status else None)
        available = next((item for item in conditions if item.type == "Available"), None)
        if spec.service is None and (available is None or available.status == "True"):
            continue
        out.append(
            ApiServiceState(
                name=found.obj.metadata.name,
                service=f"{spec.service.namespace}/{spec.service.name}" if spec.service else "",
                available=None if available is None else available.status == "True",
                reason=available.reason if available else "",
                message=available.message if available else "",
            )
        )
    return tuple(out)


def _component_gaps(instances: Iterable[Component], detected: Detected) -> Iterable[Unobserved]:
    """One line for each component of this cluster whose gates or version no source says."""
    known = KNOWLEDGE[detected.distribution]
    by_nature = known.hides_control_plane
    gaps: dict[tuple[str, str, str], int] = {}
    for item in instances:
        if item.belongs_to != parts.HERE or item.component in {"etcd", "cloud-controller-manager"}:
            continue
        if item.feature_gates == UNOBSERVABLE:
            key = (item.component, "feature gates", item.feature_gates_source)
            gaps[key] = gaps.get(key, 0) + 1
        if item.version == UNOBSERVABLE:
            key = (item.component, "version", item.version_source)
            gaps[key] = gaps.get(key, 0) + 1
    for (component, fact, why), count in gaps.items():
        hidden = by_nature and component in parts.CONTROL_PLANE
        remedy = known.remedy
        if component == "kubelet":
            remedy = "kubectl get --raw /api/v1/nodes/NODE/proxy/configz"
        elif component == "kube-apiserver" and fact == "feature gates":
            remedy = f"{METRICS}; {remedy}" if remedy else METRICS
        elif component == "kube-proxy":
            remedy = "kubectl get configmaps,daemonsets -n kube-system -o json"
        yield Unobserved(
            what=f"{component} {fact}",
            reason="by-nature" if hidden else "not-in-capture",
            detail=why if count == 1 else tr("{n} instances: {why}", n=count, why=why),
            remedy=remedy,
        )


_ENDPOINTS: Final = ("/version", "/apis", "/metrics", "/flagz")


def _endpoint_gaps(inventory: Inventory) -> Iterable[Unobserved]:
    """What kube-apiserver says of itself and was not read; a reading that was tried and failed is reported as such."""
    roles = {text.role for text in inventory.texts} | {page.kind.lower() for page in inventory.zpages}
    read = {
        "/version": bool(inventory.versions),
        "/apis": bool(inventory.apis),
        "/metrics": "metrics" in roles,
        "/flagz": "flagz" in roles,
    }
    tried = {problem.place.split()[-1].partition("?")[0] for problem in inventory.problems if problem.place}
    for path in _ENDPOINTS:
        if not read[path] and path not in tried:
            yield Unobserved(
                what=path,
                reason="not-in-capture",
                remedy=f"kubectl get --raw {path}",
            )


def _distinct(items: Iterable[Unobserved]) -> tuple[Unobserved, ...]:
    found = {(item.what, item.reason, item.place, item.detail): item for item in items}
    return tuple(found[key] for key in sorted(found))
