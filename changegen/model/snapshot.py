"""The snapshot: the normalised, redacted, canonical record of a cluster at one time.

Frozen types only. Times are RFC 3339 strings in UTC as the API server writes them; sizes are
Kubernetes quantities as written; versions keep their raw text. A tuple is sorted by its identity
unless its field says that order carries meaning.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from changegen.model.base import Model, Scalar

SCHEMA: Literal["changegen.snapshot/v1"] = "changegen.snapshot/v1"

Certainty = Literal["observed", "intended", "effective"]
"""observed: command line of a Pod · intended: ConfigMap, template, custom resource, annotation ·
effective: the process itself said so (metric, configz)."""

Provenance = Literal[
    "pod spec",
    "pod status",
    "workload template",
    "configmap",
    "node annotation",
    "node status",
    "configz",
    "metric",
    "flagz",
    "statusz",
    "readyz",
    "version",
    "discovery",
    "custom resource",
    "label",
    "api object",
    "inferred",
]


class Unobserved(Model, frozen=True, kw_only=True):
    """Something that could not be read, with the reason. Unknown never passes a check."""

    what: str
    """The subject: an API path or kind (``resourceslices.resource.k8s.io``), or a fact (``kube-scheduler feature gates``)."""
    reason: Literal[
        "forbidden",
        "not-in-capture",
        "not-served",
        "error",
        "truncated",
        "malformed",
        "by-nature",
        "not-asked",
    ]
    """by-nature: e.g. a managed control plane; not-asked: an opt-in source (configz) that was not chosen."""
    detail: str = ""
    place: str = ""
    """File (and item, line or byte) or request path."""
    failed: bool = False
    """True: a read was tried and failed (exit code 4 without ``--allow-partial``)."""
    remedy: str = ""
    """What the owner could do to make it seen; empty when there is nothing."""


class Notice(Model, frozen=True, kw_only=True):
    """A remark on the input that loses nothing: a duplicate key, replaced characters, an ignored file."""

    place: str
    reason: str
    detail: str = ""


class Source(Model, frozen=True, kw_only=True):
    """Where the snapshot was read."""

    kind: Literal["live", "files"]
    description: str
    """Human text without host paths beyond what the user typed; never a credential."""
    requests: tuple[str, ...] = ()
    """Live only: verb and path of every request that was made, with a count, sorted."""
    files: tuple[str, ...] = ()
    layout: str = ""
    """Files only: kubectl, cluster-info dump, must-gather, support bundle, sonobuoy, …"""
    captured_at_source: Literal["clock", "given", "newest object", "unknown"] = "unknown"
    """``newest object``: inferred from the newest timestamp in the objects."""


class DistributionEvidence(Model, frozen=True, kw_only=True):
    """One mark of a distribution, with where it was seen."""

    distribution: str
    evidence: str
    place: str
    strength: int
    """Higher is more specific; kind (3) beats kubeadm (2) beats a bare label (1)."""


class Cluster(Model, frozen=True, kw_only=True):
    """Identity of the cluster that was read."""

    name: str = ""
    """From kubeadm-config's clusterName, the kubeconfig context or the user; empty if nothing says."""
    name_source: str = ""
    uid: str = ""
    """UID of namespace kube-system: the identity. Empty if it was not in the capture."""
    server_version: str | None = None
    """gitVersion of /version, raw."""
    emulation_version: str | None = None
    """``1.36`` form, from /version emulationMajor/Minor when it differs or is given."""
    min_compatibility_version: str | None = None
    distribution: str = "unknown"
    distribution_version: str = ""
    """OpenShift release, Talos or k0s version… never a Kubernetes version."""
    distribution_evidence: tuple[DistributionEvidence, ...] = ()
    distribution_ties: tuple[str, ...] = ()
    managed: bool = False
    """True: the control plane is not in the API by nature (EKS, GKE, AKS, …)."""
    hosted: tuple[str, ...] = ()
    """Other control planes that run here: ``kamaji:tenants/tenant-a``."""


class GateSource(Model, frozen=True, kw_only=True):
    """One place that says something of a component's feature gates."""

    provenance: Provenance
    place: str
    """``kube-system/kube-apiserver-cp-1 command`` or ``ConfigMap kube-system/kubelet-config kubelet``."""
    certainty: Certainty
    flag_values: tuple[str, ...] = ()
    """Raw values of every ``--feature-gates``, in order, as given."""
    gates: dict[str, bool] = {}
    """As parsed by the component's own rules (last value of a name wins)."""
    problems: tuple[str, ...] = ()
    """Why a value is not acceptable to the component; the raw text is in flag_values."""
    complete: bool = True
    """False: only the gates that it names are known (node annotations); silence proves no default."""


class ConfigFact(Model, frozen=True, kw_only=True):
    """One flag that matters beyond gates, with all its values in order (a repeated flag is legal)."""

    name: str
    """Without leading dashes, underscores normalised."""
    values: tuple[str, ...] | None = None
    """None: the value is not on the allow-list and was dropped; only the name is kept."""


class ContainerState(Model, frozen=True, kw_only=True):
    """What the kubelet reports of one container."""

    name: str
    image: str = ""
    image_id: str = ""
    ready: bool = False
    started: bool | None = None
    restarts: int = 0
    state: str = ""
    """running, waiting:CrashLoopBackOff, terminated:Error; empty: no status."""
    started_at: str = ""
    exit_code: int | None = None
    message: str = ""


class Component(Model, frozen=True, kw_only=True):
    """One running or asked-for copy of a component on one node; never merged with its twin."""

    component: str
    instance: str | None
    """``namespace/name`` of the Pod or DaemonSet, a Node's name for a kubelet, None if no object shows it."""
    node: str | None
    version: str
    """As the program would report it (``v1.37.2``), or ``unobservable``. What the image **asked for** says; see running_version."""
    version_source: str
    feature_gates: dict[str, bool] | Literal["unobservable"]
    """The gates set explicitly; ``{}``: the source was read and sets none; ``unobservable``: no source says."""
    feature_gates_source: str
    gates_certainty: Certainty | None
    belongs_to: str = "this cluster"

    kind: Literal["static pod", "pod", "daemonset pod", "workload", "node", "annotation", "inferred"] = (
        "inferred"
    )
    namespace: str = ""
    container: str = ""
    image: str = ""
    """spec image: what was asked for."""
    image_id: str = ""
    running_version: str | None = None
    """Version proven by containerStatuses of a running container, nodeInfo, or the process itself; None: not proven."""
    running_source: str = ""
    phase: str = ""
    ready: bool | None = None
    """Pod condition Ready or node Ready; None: not reported."""
    state: ContainerState | None = None
    manifest: str = ""
    """File the static Pod came from when it can be told (kubeadm's folder is inferred), else empty."""
    config_hash: str = ""
    """Annotation kubernetes.io/config.hash of a mirror Pod."""
    gate_sources: tuple[GateSource, ...] = ()
    """All of them, the one behind ``feature_gates`` first; order carries meaning."""
    gate_problems: tuple[str, ...] = ()
    effective_gates: dict[str, bool] | None = None
    """From kubernetes_feature_enabled of this very process; None: not read."""
    runtime_config: tuple[str, ...] | None = None
    """kube-apiserver only: raw values of --runtime-config in order; None: unobservable."""
    emulated_version: str | None = None
    min_compatibility_version: str | None = None
    flags: tuple[ConfigFact, ...] = ()
    """All flag names in order of the command line; values of the allow-list only."""
    flags_observable: bool = False
    config_file: str = ""
    """--config of kubelet, kube-proxy, kube-scheduler."""


class ConfigShape(Model, frozen=True, kw_only=True):
    """What the configuration file of a component sets: names and types, no values."""

    kind: str = ""
    """`KubeletConfiguration`, as the file says; empty where it does not."""
    fields: dict[str, str] = {}
    """Path -> type of what stands there: `object`, `list`, `bool`, `string`, `duration`, `int` (fits 32 bits), `negative`
    (the same, below 0), `int64`, `huge`, `float`, `null`, or `unclear` where YAML 1.1 may read a text as something else.
    Several of a list are joined by `|`. In a path `a.b` is a key of an object, `a[]` what a list holds, and `a{}` stands
    for all keys that are no plain names (`memory.available`)."""
    duplicates: tuple[str, ...] = ()
    """Keys that stand twice in one object."""


ConfigMapKind = Literal[
    "kubeadm",
    "kubelet",
    "kube-proxy",
    "kube-scheduler",
    "openshift",
    "hypershift",
    "k0s",
    "coredns",
    "other",
]
"""Which of the configuration ConfigMaps it is."""


class ConfigMapFact(Model, frozen=True, kw_only=True):
    """A configuration ConfigMap that changegen understands, reduced to what it needs."""

    namespace: str
    name: str
    kind: ConfigMapKind
    api_version: str = ""
    """Of the embedded document, e.g. kubeadm.k8s.io/v1beta4."""
    kubernetes_version: str = ""
    cluster_name: str = ""
    own_feature_gates: dict[str, bool] = {}
    """kubeadm's own gates (top-level featureGates of ClusterConfiguration)."""
    component_flags: dict[str, tuple[ConfigFact, ...]] = {}
    """kubeadm: component -> extraArgs (etcd under ``etcd``)."""
    component_gates: dict[str, GateSource] = {}
    """component -> gates that this ConfigMap intends."""
    settings: dict[str, Scalar] = {}
    """Flat allow-listed scalars: mode, failCgroupV1, cgroupDriver, imageRepository, controlPlaneEndpoint, …"""
    document: ConfigShape | None = None
    """kubelet, k0s, kube-proxy, kube-scheduler: what the file sets; None: not read."""
    etcd: Literal["", "local", "external"] = ""
    resource_version: str = ""


class NodeTaint(Model, frozen=True, kw_only=True):
    """A taint of a Node."""

    key: str
    value: str = ""
    effect: str
    time_added: str = ""


class Condition(Model, frozen=True, kw_only=True):
    """A condition of any object; ``changed`` is lastTransitionTime."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    changed: str = ""


class Node(Model, frozen=True, kw_only=True):
    """One Node."""

    name: str
    uid: str = ""
    roles: tuple[str, ...] = ()
    kubelet_version: str = ""
    container_runtime: str = ""
    kernel: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""
    boot_id: str = ""
    internal_ips: tuple[str, ...] = ()
    hostname: str = ""
    """Label kubernetes.io/hostname; never used to build a Pod's name."""
    provider: str = ""
    """Scheme of spec.providerID only (``aws``, ``gce``); the rest is dropped."""
    unschedulable: bool = False
    ready: bool | None = None
    taints: tuple[NodeTaint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    labels: dict[str, str] = {}
    """All labels: selectors of profiles, DaemonSets and claims need them."""
    annotations: tuple[str, ...] = ()
    """Names only."""
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    declared_features: tuple[str, ...] | None = None
    pod_count: int | None = None
    """Pods bound to it and not finished; None when Pods of all namespaces were not read."""
    requested: dict[str, str] | None = None
    """What these Pods request of the resources that are not extended, summed; None when they were not all read."""
    created: str = ""


class ServedResource(Model, frozen=True, kw_only=True):
    """One resource of one served group version."""

    name: str
    kind: str
    namespaced: bool = False


class ServedApi(Model, frozen=True, kw_only=True):
    """A served group version; ``resources`` is None when only the group list was read."""

    group_version: str
    preferred: bool = False
    resources: tuple[ServedResource, ...] | None = None


class ApiServiceState(Model, frozen=True, kw_only=True):
    """An APIService that is not local, or is not available."""

    name: str
    service: str = ""
    available: bool | None = None
    reason: str = ""
    message: str = ""


class RequestedDeprecatedApi(Model, frozen=True, kw_only=True):
    """A row of apiserver_requested_deprecated_apis: asked for since that apiserver started."""

    group: str
    version: str
    resource: str
    subresource: str = ""
    removed_release: str = ""
    place: str = ""


class ProcessFact(Model, frozen=True, kw_only=True):
    """What one process said of itself through /metrics, /flagz, /statusz, /version, /readyz."""

    component: str
    """``kube-apiserver`` … or ``unknown`` when the file does not say."""
    component_inferred: bool = True
    node: str | None = None
    """None: which instance answered is not known (a load balancer or a file's name says nothing)."""
    place: str
    provenance: Provenance
    version: str = ""
    emulation_version: str = ""
    min_compatibility_version: str = ""
    effective_gates: dict[str, bool] | None = None
    gate_stages: dict[str, str] = {}
    flag_gates: GateSource | None = None
    runtime_config: tuple[str, ...] | None = None
    flags: tuple[ConfigFact, ...] = ()
    requested_deprecated_apis: tuple[RequestedDeprecatedApi, ...] = ()
    readyz: dict[str, bool] = {}
    started_at: str = ""
    etcd: dict[str, str] = {}
    """From metrics: db size, object counts that matter, as text."""


class WorkloadRef(Model, frozen=True, kw_only=True):
    """A workload: the root controller of Pods where it can be followed."""

    kind: str
    namespace: str
    name: str


class Driver(Model, frozen=True, kw_only=True):
    """A DRA driver: a name that publishes ResourceSlices or is named by a workload."""

    driver: str
    version: str
    """Tag of the plugin's container as written, or ``unobservable``; never a chart's number or a label."""
    version_source: str
    workload: WorkloadRef | None = None
    container: str = ""
    image: str = ""
    workload_evidence: tuple[str, ...] = ()
    """Why this workload is thought to serve this driver; always an inference."""
    labels_version: str = ""
    """app.kubernetes.io/version of the workload (or Pods)."""
    chart: str = ""
    """helm.sh/chart as written."""
    running_versions: dict[str, int] = {}
    """Version by containerStatuses of its Pods: number of Pods; empty: no Pod proves one."""
    nodes: tuple[str, ...] = ()
    """Nodes of counted slices."""
    pod_nodes: tuple[str, ...] | None = None
    """Nodes with a Pod of the workload; None: Pods were not read."""
    ready_nodes: tuple[str, ...] | None = None
    desired: int | None = None
    ready: int | None = None
    devices: int = 0
    device_driver_versions: dict[str, int] = {}
    """Attribute driverVersion (the vendor's kernel driver, usually) : number of devices."""
    other_versions: dict[str, int] = {}
    """Other tags among its Pods or a second workload of the same driver: number of Pods."""
    args: tuple[ConfigFact, ...] = ()
    service_account: str = ""


class DriverRights(Model, frozen=True, kw_only=True):
    """RBAC of a driver's ServiceAccount, reduced to resource.k8s.io rules."""

    driver: str
    service_account: str
    """namespace/name"""
    roles: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """``verbs groups/resources [names]`` one a rule, sorted; see docs."""
    can_update_status: bool | None = None
    can_update_driver_status: bool | None = None
    """resourceclaims/driver with associated-node:update or arbitrary-node:update for this driver."""
    can_bind: bool | None = None


class DeviceTaint(Model, frozen=True, kw_only=True):
    """A taint on a device, set by the driver in its slice."""

    key: str
    value: str = ""
    effect: str
    time_added: str = ""


class Attribute(Model, frozen=True, kw_only=True):
    """A device attribute: exactly one type. List types hold their items."""

    type: Literal["string", "int", "bool", "version", "strings", "ints", "bools", "versions", "unknown"]
    value: Scalar = None
    """Of the scalar types."""
    values: tuple[Scalar, ...] = ()
    """Of the list types."""


class CapacityPolicy(Model, frozen=True, kw_only=True):
    """requestPolicy of a capacity: what a request takes of a device that several claims may hold. Quantities as written."""

    default: str = ""
    """What a request that names none takes; empty: all of it."""
    values: tuple[str, ...] = ()
    """Amounts that may be taken; a request is rounded up to the next one."""
    minimum: str = ""
    maximum: str = ""
    step: str = ""


class Device(Model, frozen=True, kw_only=True):
    """One device of a pool's newest generation."""

    name: str
    node: str | None = None
    """None: all nodes or a selector; see ``node_selector``."""
    node_selector: str = ""
    """As that of the pool, of which it differs; empty: the pool's is the device's too."""
    attributes: dict[str, Attribute] = {}
    """Keys qualified: a name without a domain is in the driver's (``gpu.example.com/model``)."""
    capacity: dict[str, str] = {}
    capacity_policies: dict[str, CapacityPolicy] = {}
    """By the capacity's key; only of those that have one."""
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool = False
    consumes_counters: tuple[str, ...] = ()
    """``counterset/counter=value``"""
    binding_conditions: tuple[str, ...] = ()
    compatibility_groups: tuple[str, ...] = ()


class Slice(Model, frozen=True, kw_only=True):
    """One ResourceSlice, newest generation or not, without its devices."""

    name: str
    generation: int
    device_count: int
    node: str | None = None
    created: str = ""
    counted: bool = True
    """False: an older generation than the pool's newest."""


class Pool(Model, frozen=True, kw_only=True):
    """A pool, keyed by driver and pool name; only the newest generation's devices count."""

    driver: str
    name: str
    generation: int
    node: str | None = None
    """The node when all slices name the same one."""
    node_selector: str = ""
    """Compact text when the pool is for a selector; ``all`` for allNodes."""
    slices: tuple[Slice, ...] = ()
    expected_slices: int | None = None
    complete: bool = True
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[str, ...] = ()
    api_version: str = ""
    """As listed; the shape is normalised."""


class DeviceClass(Model, frozen=True, kw_only=True):
    """A DeviceClass."""

    name: str
    uid: str = ""
    extended_resource_name: str = ""
    selectors: tuple[str, ...] = ()
    """CEL as written."""
    config_drivers: tuple[str, ...] = ()
    created: str = ""
    api_version: str = ""


class Toleration(Model, frozen=True, kw_only=True):
    """A toleration of a request or of an allocation result."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class DeviceRequest(Model, frozen=True, kw_only=True):
    """A request of a claim; firstAvailable alternatives become ``name/sub`` rows."""

    name: str
    device_class: str = ""
    mode: str = "ExactCount"
    count: int | None = 1
    admin_access: bool = False
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, str] = {}
    """What it asks of each capacity, by name as written: with a domain, or without one of the driver's."""
    alternative_of: str = ""


class AllocatedDevice(Model, frozen=True, kw_only=True):
    """One result of an allocation."""

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = ""
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    consumed: dict[str, str] = {}
    """consumedCapacity of a device that several claims may hold."""


class DeviceStatus(Model, frozen=True, kw_only=True):
    """status.devices of a claim: what the driver reported."""

    driver: str
    pool: str
    device: str
    share_id: str = ""
    conditions: tuple[Condition, ...] = ()
    interface_name: str = ""
    hardware_address: str = ""
    ips: tuple[str, ...] = ()
    data_keys: tuple[str, ...] = ()
    """Top-level keys of the raw data; values are not kept."""


class Consumer(Model, frozen=True, kw_only=True):
    """reservedFor of a claim."""

    resource: str
    name: str
    uid: str = ""


class Claim(Model, frozen=True, kw_only=True):
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str = ""
    created: str = ""
    deleting_since: str = ""
    finalizers: tuple[str, ...] = ()
    extended_resource: bool = False
    """Annotation resource.kubernetes.io/extended-resource-claim: the scheduler made it."""
    owner: str = ""
    """``Pod/name`` of the controller owner."""
    template: str = ""
    """Pod claim name when a template made it (annotation resource.kubernetes.io/pod-claim-name)."""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[str, ...] = ()
    allocated: bool = False
    allocated_at: str = ""
    node: str = ""
    """The node of the allocation's node selector when it names one."""
    devices: tuple[AllocatedDevice, ...] = ()
    device_status: tuple[DeviceStatus, ...] = ()
    reserved_for: tuple[Consumer, ...] = ()
    conditions: tuple[Condition, ...] = ()
    api_version: str = ""


class ClaimTemplate(Model, frozen=True, kw_only=True):
    """A ResourceClaimTemplate."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[str, ...] = ()
    api_version: str = ""


class TaintRule(Model, frozen=True, kw_only=True):
    """A DeviceTaintRule."""

    name: str
    uid: str = ""
    selector: Literal["none", "all", "some"]
    """none: no deviceSelector at all · all: an empty one (every device) · some: what driver, pool, device say."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    other_selectors: tuple[str, ...] = ()
    """Fields of old API versions (deviceClassName, selectors), reported as not understood by newer ones."""
    key: str
    value: str = ""
    effect: str
    time_added: str = ""
    generation: int = 0
    conditions: tuple[Condition, ...] = ()
    api_version: str = ""


class ResourceAsk(Model, frozen=True, kw_only=True):
    """What a container asks for of one extended resource."""

    container: str
    resource: str
    quantity: str


class ClaimUse(Model, frozen=True, kw_only=True):
    """A Pod's use of a claim."""

    pod_claim: str
    """Name in the Pod's spec.resourceClaims; ``<extended-resources>`` for the scheduler's."""
    claim: str = ""
    """Name of the ResourceClaim; empty: not made yet."""
    template: str = ""
    containers: tuple[str, ...] = ()


class ExtendedMapping(Model, frozen=True, kw_only=True):
    """status.extendedResourceClaimStatus.requestMappings."""

    container: str
    resource: str
    request: str


class DeviceHealth(Model, frozen=True, kw_only=True):
    """allocatedResourcesStatus of a container."""

    container: str
    resource: str
    device: str
    health: str
    message: str = ""


class NodeRequirement(Model, frozen=True, kw_only=True):
    """One expression of a node affinity."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    values: tuple[str, ...] = ()


class NodeTerm(Model, frozen=True, kw_only=True):
    """A term of a node affinity: all of its expressions must hold."""

    labels: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()
    """matchFields: only metadata.name."""


class PodUse(Model, frozen=True, kw_only=True):
    """A Pod that matters: it uses devices, or a drain must know of it."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = ""
    ready: bool | None = None
    deleting_since: str = ""
    owner: WorkloadRef | None = None
    """Root controller (Deployment, StatefulSet, DaemonSet, Job…); None: a bare Pod, it does not come back."""
    owner_chain: tuple[str, ...] = ()
    restarts: int = 0
    containers: tuple[ContainerState, ...] = ()
    asks: tuple[ResourceAsk, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    extended_claim: str = ""
    extended_mappings: tuple[ExtendedMapping, ...] = ()
    health: tuple[DeviceHealth, ...] = ()
    scheduled: Condition | None = None
    """Condition PodScheduled."""
    conditions: tuple[Condition, ...] = ()
    node_selector: dict[str, str] = {}
    has_affinity: bool = False
    required_nodes: tuple[NodeTerm, ...] = ()
    """Required node affinity: one of these terms must hold; empty: any node."""
    other_constraints: tuple[str, ...] = ()
    """What else decides on its node and is not kept here: ``pod affinity``, ``pod anti-affinity``, ``topology spread``,
    ``host ports``, ``volume claims``, ``scheduling gates``, ``scheduler NAME``; only what is required, no preference."""
    requests: dict[str, str] | None = None
    """What the scheduler counts for it, by resource, extended ones too: containers, init containers, sidecars, its own
    resources and overhead. None: not kept by the version that wrote the snapshot."""
    tolerations: tuple[Toleration, ...] = ()
    labels: dict[str, str] = {}
    grace_seconds: int | None = None
    local_storage: bool = False
    """An emptyDir: kubectl drain needs --delete-emptydir-data."""
    host_paths: tuple[str, ...] = ()
    """hostPath volumes below the kubelet's plugin folders only (drivers)."""
    uses_devices: bool = False
    selinux_labels: bool = False
    created: str = ""
    started: str = ""


class Workload(Model, frozen=True, kw_only=True):
    """A controller that matters: owns Pods with devices, a driver, or system add-ons."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    images: dict[str, str] = {}
    """container -> image of the template."""
    replicas: int | None = None
    ready: int | None = None
    desired: int | None = None
    updated: int | None = None
    update_strategy: str = ""
    labels: dict[str, str] = {}
    selector: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    asks: tuple[ResourceAsk, ...] = ()
    service_account: str = ""
    addon: str = ""
    """What it is in field terms when known: coredns, kube-proxy, cni:cilium, csi:…, cloud-controller-manager, autoscaler, device-plugin:…, dra-driver:…"""


class DisruptionBudget(Model, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    min_available: str = ""
    max_unavailable: str = ""
    selector: dict[str, str] = {}
    selector_expressions: bool = False
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    observed: bool = True
    """False: status.observedGeneration lags metadata.generation."""
    unhealthy_policy: str = ""
    pods: tuple[str, ...] = ()
    """Names of Pods in its namespace that it selects, as far as Pods were read."""


class Autoscaler(Model, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler, reduced to what gates of its controller concern."""

    namespace: str
    name: str
    target: WorkloadRef
    """What it scales; its namespace is the autoscaler's own."""
    min_replicas: int | None = None
    """None: not set, which means 1."""
    max_replicas: int | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    scale_up_tolerance: str = ""
    """A quantity; empty: the controller's own."""
    scale_down_tolerance: str = ""
    api_version: str = ""
    """As listed; v1 shows no tolerance."""


class Quota(Model, frozen=True, kw_only=True):
    """A ResourceQuota reduced to device-related keys."""

    namespace: str
    name: str
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class Webhook(Model, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    configuration: str
    name: str
    kind: Literal["validating", "mutating"]
    failure_policy: str = ""
    match_policy: str = ""
    service: str = ""
    """namespace/name; empty for a URL."""
    rules: tuple[str, ...] = ()
    """``group/version/resource``"""
    timeout_seconds: int | None = None
    server_nodes: tuple[str, ...] = ()
    """Nodes of the Pods behind its service, when Pods and the selector were read."""


class CustomResource(Model, frozen=True, kw_only=True):
    """A CRD's versions."""

    name: str
    group: str
    kind: str
    served: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    storage: str = ""


class StoredObjects(Model, frozen=True, kw_only=True):
    """Objects that exist of an API that some version cannot decode (scheduling.k8s.io …)."""

    group_version: str
    resource: str
    names: tuple[str, ...] = ()


class EventFact(Model, frozen=True, kw_only=True):
    """A warning event, or one about devices; grouped by reason, object and source."""

    type: str
    reason: str
    kind: str
    namespace: str = ""
    name: str
    message: str = ""
    source: str = ""
    node: str = ""
    count: int = 1
    last: str = ""


class Lease(Model, frozen=True, kw_only=True):
    """A kube-system lease that tells identity or leadership."""

    name: str
    holder: str = ""
    renewed: str = ""
    identity_of: str = ""
    """Label apiserver.kubernetes.io/identity."""
    hostname: str = ""
    duration_seconds: int | None = None


class Snapshot(Model, frozen=True, kw_only=True):
    """The whole record.

    A kind that was not read is empty here and stands in ``unobserved``; ``kinds_read`` names what was really listed.
    """

    schema: Literal["changegen.snapshot/v1"] = SCHEMA
    tool_version: str
    captured_at: Annotated[str, Meta(description="RFC 3339 UTC; empty when nothing tells")] = ""
    source: Source
    cluster: Cluster
    kinds_read: tuple[str, ...] = ()
    """``resource.group`` of every kind that was listed (even when empty), e.g. ``pods``, ``resourceslices.resource.k8s.io``."""
    namespaces_read: dict[str, tuple[str, ...]] = {}
    """kind -> namespaces, when only some namespaces of it were read (cluster-info dump, partial rights)."""
    components: tuple[Component, ...] = ()
    processes: tuple[ProcessFact, ...] = ()
    config_maps: tuple[ConfigMapFact, ...] = ()
    nodes: tuple[Node, ...] = ()
    apis: tuple[ServedApi, ...] = ()
    api_services: tuple[ApiServiceState, ...] = ()
    drivers: tuple[Driver, ...] = ()
    driver_rights: tuple[DriverRights, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    pools: tuple[Pool, ...] = ()
    claims: tuple[Claim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()
    pods: tuple[PodUse, ...] = ()
    """Pods that use devices, bare Pods, Pods under a budget, Pods of drivers and add-ons; not every Pod."""
    workloads: tuple[Workload, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    quotas: tuple[Quota, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    custom_resources: tuple[CustomResource, ...] = ()
    stored_objects: tuple[StoredObjects, ...] = ()
    events: tuple[EventFact, ...] = ()
    leases: tuple[Lease, ...] = ()
    openshift: dict[str, Scalar] = {}
    """ClusterVersion and FeatureGate facts: desired, current, feature_set, gates_version, …"""
    unobserved: tuple[Unobserved, ...] = ()
    notices: tuple[Notice, ...] = ()
