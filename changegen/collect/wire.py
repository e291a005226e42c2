"""Wire types of the core, apps and aggregation APIs, with the fields that a snapshot needs and no others.

Unknown fields are passed over, so that newer API versions are read as well. A Go ``null`` stands where a list or map is
empty, and a capture may lack any field: everything has a default, lists and maps may be None. What is not declared here
(environment variables, Secrets, probes, managed fields) never reaches the snapshot.
Source: k8s.io/api core/v1, apps/v1, batch/v1 and k8s.io/kube-aggregator apiregistration/v1 types of 0.31 to 0.37.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Affinity",
    "ApiService",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerStatus",
    "LabelSelector",
    "Namespace",
    "Node",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodSpec",
    "PodStatus",
    "Quantity",
    "Service",
    "Taint",
    "Toleration",
    "Wire",
    "Workload",
    "controller_of",
    "is_mirror",
]

Quantity = str | int | float
"""A Kubernetes quantity; YAML turns ``cpu: 8`` into a number."""

_NAMES = {
    "image_id": "imageID",
    "boot_id": "bootID",
    "provider_id": "providerID",
    "os_image": "osImage",
    "resource_id": "resourceID",
    "cluster_ip": "clusterIP",
}


def _rename(name: str) -> str:
    first, *rest = name.split("_")
    return _NAMES.get(name) or first + "".join(part.capitalize() for part in rest)


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename=_rename, gc=False):
    """Base of wire types: frozen, camelCase on the wire, unknown fields passed over."""


class Present(Wire, frozen=True, kw_only=True):
    """Something of which only the presence matters."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Condition(Wire, frozen=True, kw_only=True):
    """A condition of any kind."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Requirement(Wire, frozen=True, kw_only=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


# -------------------------------------------------------------------------------------------------------------- Pods


class ClaimRef(Wire, frozen=True, kw_only=True):
    """resources.claims[] of a container."""

    name: str = ""
    request: str | None = None


class Resources(Wire, frozen=True, kw_only=True):
    """resources of a container or a Pod."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None
    claims: tuple[ClaimRef, ...] | None = None


class VolumeMount(Wire, frozen=True, kw_only=True):
    """volumeMounts[] of a container."""

    name: str = ""
    mount_path: str = ""


class SELinuxOptions(Wire, frozen=True, kw_only=True):
    """seLinuxOptions; only their presence and level matter."""

    level: str | None = None
    type: str | None = None


class SecurityContext(Wire, frozen=True, kw_only=True, rename={"se_linux_options": "seLinuxOptions"}):
    """securityContext of a container."""

    se_linux_options: SELinuxOptions | None = None
    privileged: bool | None = None


class PodSecurityContext(
    Wire,
    frozen=True,
    kw_only=True,
    rename={"se_linux_options": "seLinuxOptions", "se_linux_change_policy": "seLinuxChangePolicy"},
):
    """securityContext of a Pod."""

    se_linux_options: SELinuxOptions | None = None
    se_linux_change_policy: str | None = None


class EnvName(Wire, frozen=True, kw_only=True):
    """env[] of a container: its name, never its value."""

    name: str = ""


class Container(Wire, frozen=True, kw_only=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvName, ...] | None = None
    resources: Resources | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    ports: tuple[ContainerPort, ...] | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class HostPath(Wire, frozen=True, kw_only=True):
    """volumes[].hostPath."""

    path: str = ""


class EmptyDir(Wire, frozen=True, kw_only=True):
    """volumes[].emptyDir."""

    medium: str | None = None


class ConfigMapVolume(Wire, frozen=True, kw_only=True):
    """volumes[].configMap."""

    name: str = ""


class SecretVolume(Wire, frozen=True, kw_only=True):
    """volumes[].secret: its name, never its content."""

    secret_name: str = ""


class ClaimVolume(Wire, frozen=True, kw_only=True):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""


class Volume(Wire, frozen=True, kw_only=True):
    """A volume; None for what it is not."""

    name: str = ""
    host_path: HostPath | None = None
    empty_dir: EmptyDir | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Present | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """tolerations[] of a Pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class NodeTerm(Wire, frozen=True, kw_only=True):
    """nodeSelectorTerms[]."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Wire, frozen=True, kw_only=True):
    """requiredDuringSchedulingIgnoredDuringExecution of a node affinity."""

    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(
    Wire, frozen=True, kw_only=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}
):
    """affinity.nodeAffinity; preferences are not kept."""

    required: NodeSelector | None = None


class PodAffinity(
    Wire, frozen=True, kw_only=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}
):
    """affinity.podAffinity and podAntiAffinity: whether anything is required."""

    required: tuple[Present, ...] | None = None


class Affinity(Wire, frozen=True, kw_only=True):
    """affinity of a Pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Wire, frozen=True, kw_only=True):
    """topologySpreadConstraints[]."""

    when_unsatisfiable: str | None = None


class ContainerPort(Wire, frozen=True, kw_only=True):
    """ports[] of a container."""

    host_port: int | None = None


class PodClaim(Wire, frozen=True, kw_only=True):
    """spec.resourceClaims[]."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Wire, frozen=True, kw_only=True):
    """spec of a Pod or of a Pod template."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None
    resources: Resources | None = None
    overhead: dict[str, Quantity] | None = None
    volumes: tuple[Volume, ...] | None = None
    host_network: bool | None = None
    priority_class_name: str | None = None
    scheduler_name: str | None = None
    service_account_name: str | None = None
    termination_grace_period_seconds: int | None = None
    security_context: PodSecurityContext | None = None
    restart_policy: str | None = None
    scheduling_gates: tuple[Present, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    runtime_class_name: str | None = None


class Running(Wire, frozen=True, kw_only=True):
    """state.running."""

    started_at: str | None = None


class Waiting(Wire, frozen=True, kw_only=True):
    """state.waiting."""

    reason: str | None = None
    message: str | None = None


class Terminated(Wire, frozen=True, kw_only=True):
    """state.terminated."""

    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class State(Wire, frozen=True, kw_only=True):
    """state or lastState of a container: at most one is set."""

    running: Running | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ResourceHealth(Wire, frozen=True, kw_only=True):
    """allocatedResourcesStatus[].resources[]."""

    resource_id: str = ""
    health: str | None = None
    message: str | None = None


class ResourceStatus(Wire, frozen=True, kw_only=True):
    """allocatedResourcesStatus[] of a container."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """status.containerStatuses[]."""

    name: str = ""
    image: str = ""
    image_id: str = ""
    ready: bool | None = None
    started: bool | None = None
    restart_count: int | None = None
    state: State | None = None
    last_state: State | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] | None = None


class ClaimStatus(Wire, frozen=True, kw_only=True):
    """status.resourceClaimStatuses[]."""

    name: str = ""
    resource_claim_name: str | None = None


class RequestMapping(Wire, frozen=True, kw_only=True):
    """status.extendedResourceClaimStatus.requestMappings[]."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaimStatus(Wire, frozen=True, kw_only=True):
    """status.extendedResourceClaimStatus."""

    resource_claim_name: str = ""
    request_mappings: tuple[RequestMapping, ...] | None = None


class PodStatus(Wire, frozen=True, kw_only=True):
    """status of a Pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    qos_class: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[ClaimStatus, ...] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(Wire, frozen=True, kw_only=True):
    """A Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


# ------------------------------------------------------------------------------------------------------------- Nodes


class Taint(Wire, frozen=True, kw_only=True):
    """A taint of a Node."""

    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Wire, frozen=True, kw_only=True):
    """spec of a Node."""

    provider_id: str | None = None
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeAddress(Wire, frozen=True, kw_only=True):
    """status.addresses[]."""

    type: str = ""
    address: str = ""


class NodeInfo(Wire, frozen=True, kw_only=True):
    """status.nodeInfo; kubeProxyVersion is left out on purpose: the kubelet made it up."""

    kubelet_version: str = ""
    container_runtime_version: str = ""
    kernel_version: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""
    boot_id: str = ""


class NodeStatus(Wire, frozen=True, kw_only=True):
    """status of a Node."""

    addresses: tuple[NodeAddress, ...] | None = None
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: tuple[Condition, ...] | None = None
    node_info: NodeInfo | None = None
    declared_features: tuple[str, ...] | None = None


class Node(Wire, frozen=True, kw_only=True):
    """A Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# --------------------------------------------------------------------------------------------------------- workloads


class PodTemplate(Wire, frozen=True, kw_only=True):
    """spec.template of a workload."""

    metadata: ObjectMeta | None = None
    spec: PodSpec = PodSpec()


class Strategy(Wire, frozen=True, kw_only=True):
    """updateStrategy or strategy."""

    type: str | None = None


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    """spec of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    update_strategy: Strategy | None = None
    strategy: Strategy | None = None


class WorkloadStatus(Wire, frozen=True, kw_only=True):
    """status of the same; DaemonSets count with the second group."""

    replicas: int | None = None
    ready_replicas: int | None = None
    updated_replicas: int | None = None
    available_replicas: int | None = None

    desired_number_scheduled: int | None = None
    current_number_scheduled: int | None = None
    number_ready: int | None = None
    updated_number_scheduled: int | None = None
    number_available: int | None = None

    observed_generation: int | None = None


class Workload(Wire, frozen=True, kw_only=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job: their shapes agree where it matters."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus | None = None


class Service(Wire, frozen=True, kw_only=True):
    """A Service: whom it selects."""

    class Spec(Wire, frozen=True, kw_only=True):
        """spec."""

        selector: dict[str, str] | None = None
        type: str | None = None

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec | None = None


# --------------------------------------------------------------------------------------------------- other core kinds


class Namespace(Wire, frozen=True, kw_only=True):
    """A Namespace; the UID of kube-system names the cluster."""

    metadata: ObjectMeta = ObjectMeta()


class ConfigMap(Wire, frozen=True, kw_only=True):
    """A ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class ApiService(Wire, frozen=True, kw_only=True):
    """An APIService of apiregistration.k8s.io."""

    class Spec(Wire, frozen=True, kw_only=True):
        """spec."""

        class Ref(Wire, frozen=True, kw_only=True):
            """spec.service; None for what the apiserver itself serves."""

            namespace: str = ""
            name: str = ""

        group: str = ""
        version: str = ""
        service: Ref | None = None

    class Status(Wire, frozen=True, kw_only=True):
        """status."""

        conditions: tuple[Condition, ...] | None = None

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()
    status: Status | None = None


class Custom(Wire, frozen=True, kw_only=True):
    """A custom resource of a distribution, of which a few paths are looked at."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


# ----------------------------------------------------------------------------------------------------------- helpers

MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Pod) -> bool:
    """Whether the Pod mirrors a static one: by its annotation, or a Node that owns it."""
    meta = pod.metadata
    return MIRROR in (meta.annotations or {}) or any(
        ref.kind == "Node" for ref in meta.owner_references or ()
    )


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner reference marked as controller, else the only one, else None."""
    owners = meta.owner_references or ()
    for owner in owners:
        if owner.controller:
            return owner
    return owners[0] if len(owners) == 1 else None
