"""Pods and workloads that matter to a change: they use devices, a drain must know of them, or they serve the cluster.

Not every Pod is kept: of 50,000 only those that use devices, have no controller, stand under a PodDisruptionBudget, or
belong to a driver or an add-on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from changegen.collect import drivers as linking
from changegen.collect import events, requests
from changegen.collect import wire as core
from changegen.collect.inventory import Inventory
from changegen.collect.wire import ObjectMeta, Wire
from changegen.model.snapshot import (
    Autoscaler,
    ClaimUse,
    Condition,
    ContainerState,
    CustomResource,
    DeviceHealth,
    DisruptionBudget,
    Driver,
    EventFact,
    ExtendedMapping,
    Lease,
    NodeRequirement,
    NodeTerm,
    PodUse,
    Quota,
    ResourceAsk,
    StoredObjects,
    Toleration,
    Webhook,
    Workload,
    WorkloadRef,
)
from changegen.quantity import is_extended_resource
from changegen.versions import parse_image

__all__ = [
    "Controllers",
    "WorkloadFacts",
    "candidates",
    "container_states",
    "is_extended_resource",
    "workload_facts",
]

CLAIM_QUOTA: Final = "count/resourceclaims.resource.k8s.io"
SCHEDULING: Final = ("workloads", "podgroups", "compositepodgroups")

_DEPLOYED: Final = {
    "DaemonSet": "daemonsets.apps",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
}
_OWNERS: Final = {"ReplicaSet": "replicasets.apps", "Job": "jobs.batch"}
_GENERATED: Final = re.compile(r"-[a-z0-9]{5}$")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_DEFAULT_SCHEDULER: Final = "default-scheduler"


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot's fields about Pods, workloads and what a drain meets."""

    pods: tuple[PodUse, ...] = ()
    workloads: tuple[Workload, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    quotas: tuple[Quota, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    custom_resources: tuple[CustomResource, ...] = ()
    stored_objects: tuple[StoredObjects, ...] = ()
    events: tuple[EventFact, ...] = ()
    leases: tuple[Lease, ...] = ()


# ------------------------------------------------------------------------------------------------------- wire types


class _OwnedBy(Wire, frozen=True, kw_only=True):
    """A ReplicaSet or Job, of which only the owner matters."""

    metadata: ObjectMeta = ObjectMeta()


class _BudgetSpec(Wire, frozen=True, kw_only=True):
    min_available: str | int | None = None
    max_unavailable: str | int | None = None
    selector: core.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class _BudgetStatus(Wire, frozen=True, kw_only=True):
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    observed_generation: int | None = None


class _Budget(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus | None = None


class _ScaleTarget(Wire, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class _ScalingRules(Wire, frozen=True, kw_only=True):
    tolerance: core.Quantity | None = None


class _ScalingBehavior(Wire, frozen=True, kw_only=True):
    scale_up: _ScalingRules | None = None
    scale_down: _ScalingRules | None = None


class _AutoscalerSpec(Wire, frozen=True, kw_only=True):
    scale_target_ref: _ScaleTarget = _ScaleTarget()
    min_replicas: int | None = None
    max_replicas: int | None = None
    behavior: _ScalingBehavior | None = None


class _AutoscalerStatus(Wire, frozen=True, kw_only=True):
    current_replicas: int | None = None
    desired_replicas: int | None = None


class _Autoscaler(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _AutoscalerSpec = _AutoscalerSpec()
    status: _AutoscalerStatus | None = None


class _QuotaSide(Wire, frozen=True, kw_only=True):
    hard: dict[str, core.Quantity] | None = None
    used: dict[str, core.Quantity] | None = None


class _Quota(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _QuotaSide | None = None
    status: _QuotaSide | None = None


class _HookService(Wire, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""


class _HookClient(Wire, frozen=True, kw_only=True):
    service: _HookService | None = None


class _HookRule(Wire, frozen=True, kw_only=True):
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None


class _Hook(Wire, frozen=True, kw_only=True):
    name: str = ""
    client_config: _HookClient | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    rules: tuple[_HookRule, ...] | None = None
    timeout_seconds: int | None = None


class _HookConfiguration(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[_Hook, ...] | None = None


class _CrdVersion(Wire, frozen=True, kw_only=True):
    name: str = ""
    served: bool | None = None
    storage: bool | None = None


class _CrdNames(Wire, frozen=True, kw_only=True):
    kind: str = ""


class _CrdSpec(Wire, frozen=True, kw_only=True):
    group: str = ""
    names: _CrdNames = _CrdNames()
    versions: tuple[_CrdVersion, ...] | None = None


class _CrdStatus(Wire, frozen=True, kw_only=True):
    stored_versions: tuple[str, ...] | None = None


class _Crd(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _CrdSpec = _CrdSpec()
    status: _CrdStatus | None = None


# ---------------------------------------------------------------------------------------------------------- add-ons


class _Addon(NamedTuple):
    text: str
    name: str
    """Regular expression of the workload's name."""
    image: str
    """Regular expression of the last part of an image's repository."""


_ADDONS: Final = (
    _Addon("coredns", r"coredns|kube-dns|.*-coredns", r"(hardened-)?coredns"),
    _Addon("kube-proxy", r"kube-proxy(-.*)?", r"kube-proxy(-[a-z0-9]+)?"),
    _Addon("cni:cilium", r"cilium(-operator|-envoy)?", r"cilium(-ee)?|operator-(generic|aws|azure)"),
    _Addon(
        "cni:calico",
        r"calico-(node|typha|kube-controllers|apiserver)|tigera-operator",
        r"calico-?node|node-calico",
    ),
    _Addon("cni:flannel", r"kube-flannel(-ds.*)?|.*-flannel", r"(hardened-)?flannel"),
    _Addon("cni:canal", r"(.*-)?canal", r"canal"),
    _Addon("cni:antrea", r"antrea-(agent|controller)", r"antrea-.*"),
    _Addon("cni:kube-router", r"kube-router", r"kube-router"),
    _Addon("cni:kindnet", r"kindnet", r"kindnetd"),
    _Addon("cni:weave", r"weave-net", r"weave-kube"),
    _Addon("cni:aws-vpc", r"aws-node", r"amazon-k8s-cni"),
    _Addon("cni:azure", r"azure-cn[is](-.*)?", r"azure-cn[is]"),
    _Addon("cni:ovn-kubernetes", r"ovnkube-.*", r"ovn-?kube.*"),
    _Addon("cni:multus", r"(kube-)?multus(-.*)?", r"multus-cni"),
    _Addon(
        "cloud-controller-manager",
        r".*cloud-controller-manager.*",
        r".*cloud-controller-manager.*|aws-cloud-controller.*",
    ),
    _Addon(
        "autoscaler",
        r"(.*-)?cluster-autoscaler(-.*)?|karpenter",
        r"cluster-autoscaler(-[a-z0-9]+)?|karpenter",
    ),
    _Addon("metrics-server", r"metrics-server", r"(hardened-k8s-)?metrics-server"),
)
_CSI_SIDECAR: Final = re.compile(
    r"(csi-)?(node-driver-registrar|provisioner|external-provisioner|external-attacher)"
)
_DEVICE_PLUGIN_FOLDER: Final = re.compile(r"kubelet.*/device-plugins/?$")


def _addon(item: _Deployed, served: Mapping[WorkloadRef, list[str]]) -> str:
    """What a workload is in field terms, empty where nothing tells."""
    drivers = served.get(item.ref)
    if drivers:
        return f"dra-driver:{','.join(sorted(drivers))}"
    spec = item.obj.spec.template.spec
    containers = spec.containers or ()
    parts = [parse_image(c.image).repository.rsplit("/", 1)[-1] for c in containers if c.image]
    name = item.obj.metadata.name
    for addon in _ADDONS:
        if re.fullmatch(addon.name, name) or any(re.fullmatch(addon.image, part) for part in parts):
            return addon.text
    paths = _host_paths(spec)
    if any(_DEVICE_PLUGIN_FOLDER.search(path) for path in paths) or re.search(r"device-?plugin", name):
        return f"device-plugin:{name}"
    if any(_CSI_SIDECAR.fullmatch(c.name) for c in containers) or any(
        _CSI_SIDECAR.fullmatch(part) for part in parts
    ):
        return f"csi:{name}"
    if linking.looks_like_driver(_candidate(item, None)):
        return "dra-driver"
    return ""


# -------------------------------------------------------------------------------------------------------- resources


def _asks(spec: core.PodSpec) -> tuple[ResourceAsk, ...]:
    rows: list[ResourceAsk] = []
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        resources = container.resources
        if resources is None:
            continue
        wanted = {**(resources.limits or {}), **(resources.requests or {})}
        rows.extend(
            ResourceAsk(container=container.name, resource=name, quantity=str(quantity))
            for name, quantity in sorted(wanted.items())
            if is_extended_resource(name)
        )
    return tuple(rows)


def _uses_devices(pod: core.Pod) -> bool:
    if pod.spec.resource_claims:
        return True
    if pod.status is not None and pod.status.extended_resource_claim_status is not None:
        return True
    for containers in (pod.spec.containers, pod.spec.init_containers):
        for container in containers or ():
            resources = container.resources
            if resources is None:
                continue
            for side in (resources.limits, resources.requests):
                if side and any("/" in name and is_extended_resource(name) for name in side):
                    return True
    return False


def _se_linux(pod: core.Pod) -> bool:
    context = pod.spec.security_context
    if context is not None and context.se_linux_options is not None:
        return True
    return any(
        container.security_context is not None and container.security_context.se_linux_options is not None
        for containers in (pod.spec.containers, pod.spec.init_containers)
        for container in containers or ()
    )


# ------------------------------------------------------------------------------------------------------- selection


def _selected(selector: core.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes an object; None takes nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    for need in selector.match_expressions or ():
        have = labels.get(need.key)
        values = need.values or ()
        good = {
            "In": have is not None and have in values,
            "NotIn": have is None or have not in values,
            "Exists": have is not None,
            "DoesNotExist": have is None,
        }.get(need.operator, False)
        if not good:
            return False
    return True


def _tolerations(tolerations: Iterable[core.Toleration] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=t.key or "",
            operator=t.operator or "Equal",
            value=t.value or "",
            effect=t.effect or "",
            seconds=t.toleration_seconds,
        )
        for t in tolerations or ()
    )


def _host_paths(spec: core.PodSpec) -> tuple[str, ...]:
    return tuple(
        sorted({v.host_path.path for v in spec.volumes or () if v.host_path is not None and v.host_path.path})
    )


class _Deployed(NamedTuple):
    kind: str
    obj: core.Workload

    @property
    def ref(self) -> WorkloadRef:
        meta = self.obj.metadata
        return WorkloadRef(kind=self.kind, namespace=meta.namespace, name=meta.name)


class _HasMeta(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


_O = TypeVar("_O", bound=_HasMeta)


def _objects(inv: Inventory, resource: str, typ: type[_O]) -> tuple[_O, ...]:
    """Objects of a resource, with the namespace that the layout tells where the object itself does not."""
    return tuple(
        item.obj
        if item.obj.metadata.namespace or not item.namespace
        else replace(item.obj, metadata=replace(item.obj.metadata, namespace=item.namespace))  # type: ignore[type-var]
        for item in inv.all(resource, typ)
    )


class Controllers:
    """Controllers of one inventory: who owns whom, and which Pods are whose."""

    def __init__(self, inv: Inventory) -> None:
        self.inv = inv
        self.pods = _objects(inv, "pods", core.Pod)
        self.deployed = {
            (kind, obj.metadata.namespace, obj.metadata.name): _Deployed(kind, obj)
            for kind, resource in _DEPLOYED.items()
            for obj in _objects(inv, resource, core.Workload)
        }
        self._roots: dict[tuple[str, str, str], tuple[WorkloadRef, tuple[str, ...]]] = {}

    @cached_property
    def _middle(self) -> dict[tuple[str, str, str], core.ObjectMeta]:
        return {
            (kind, obj.metadata.namespace, obj.metadata.name): obj.metadata
            for kind, resource in _OWNERS.items()
            for obj in _objects(self.inv, resource, _OwnedBy)
        }

    def root(self, pod: core.Pod) -> tuple[WorkloadRef | None, tuple[str, ...]]:
        """The root controller of a Pod and the chain to it, nearest first; None for a bare Pod or a mirror."""
        meta = pod.metadata
        owner = core.controller_of(meta)
        if owner is None:
            adopted = self._by_name(meta)
            return (
                (adopted, (f"{adopted.kind}/{adopted.name} (inferred from the name)",))
                if adopted
                else (None, ())
            )
        if owner.kind == "Node":
            return None, (f"Node/{owner.name}",)
        return self._follow(
            owner.kind, meta.namespace, owner.name, (meta.labels or {}).get("pod-template-hash", "")
        )

    def _by_name(self, meta: core.ObjectMeta) -> WorkloadRef | None:
        """The DaemonSet of which a Pod without any owner has the name: captures are trimmed by hand at times."""
        if meta.owner_references or not _GENERATED.search(meta.name):
            return None
        found = self.deployed.get(("DaemonSet", meta.namespace, meta.name[:-6]))
        return found.ref if found is not None else None

    def _follow(
        self, kind: str, namespace: str, name: str, hashed: str
    ) -> tuple[WorkloadRef, tuple[str, ...]]:
        known = self._roots.get((kind, namespace, name))
        if known is not None:
            return known
        chain = [f"{kind}/{name}"]
        at, at_name = kind, name
        while (at, namespace, at_name) in self._middle:
            above = core.controller_of(self._middle[at, namespace, at_name])
            if above is None:
                break
            at, at_name = above.kind, above.name
            chain.append(f"{at}/{at_name}")
        if (
            at == "ReplicaSet"
            and hashed
            and at_name.endswith(f"-{hashed}")
            and not self.inv.listed(_OWNERS[at])
        ):
            deployment = at_name[: -len(hashed) - 1]
            if ("Deployment", namespace, deployment) in self.deployed or not self.inv.listed(
                _DEPLOYED["Deployment"]
            ):
                at, at_name = "Deployment", deployment
                chain.append(f"{at}/{at_name} (inferred from the name)")
        result = (WorkloadRef(kind=at, namespace=namespace, name=at_name), tuple(chain))
        self._roots[kind, namespace, name] = result
        return result

    @cached_property
    def by_root(self) -> dict[WorkloadRef, list[core.Pod]]:
        """Pods by root controller."""
        found: defaultdict[WorkloadRef, list[core.Pod]] = defaultdict(list)
        for pod in self.pods:
            owner, _ = self.root(pod)
            if owner is not None:
                found[owner].append(pod)
        return found


# --------------------------------------------------------------------------------------------- candidates of drivers


def candidates(known: Controllers) -> tuple[linking.Candidate, ...]:
    """Workloads that could serve a DRA driver: DaemonSets, and others that look like one."""
    inv = known.inv
    pods_read = bool(known.pods) or inv.listed("pods")
    found = []
    for item in known.deployed.values():
        if item.kind != "DaemonSet" and not linking.looks_like_driver(_candidate(item, None)):
            continue
        pods = known.by_root.get(item.ref, ()) if pods_read else None
        found.append(_candidate(item, pods))
    if not inv.listed(_DEPLOYED["DaemonSet"]):
        for ref, pods in known.by_root.items():
            if ref.kind == "DaemonSet" and ("DaemonSet", ref.namespace, ref.name) not in known.deployed:
                found.append(_candidate_of_pods(ref, pods))
    return tuple(sorted(found, key=lambda c: (c.kind, c.namespace, c.name)))


def _containers(spec: core.PodSpec) -> tuple[linking.Container, ...]:
    return tuple(
        linking.Container(name=c.name, image=c.image, argv=(*(c.command or ()), *(c.args or ())))
        for c in spec.containers or ()
    )


def _service_account(namespace: str, spec: core.PodSpec) -> str:
    return f"{namespace}/{spec.service_account_name or 'default'}"


def _candidate(item: _Deployed, pods: Iterable[core.Pod] | None) -> linking.Candidate:
    meta, spec, status = item.obj.metadata, item.obj.spec, item.obj.status or core.WorkloadStatus()
    template = spec.template
    daemon = item.kind == "DaemonSet"
    return linking.Candidate(
        kind=item.kind,
        namespace=meta.namespace,
        name=meta.name,
        labels=meta.labels or {},
        template_labels=(template.metadata.labels or {}) if template.metadata is not None else {},
        containers=_containers(template.spec),
        host_paths=_host_paths(template.spec),
        service_account=_service_account(meta.namespace, template.spec),
        desired=status.desired_number_scheduled if daemon else spec.replicas,
        ready=status.number_ready if daemon else status.ready_replicas,
        pods=None if pods is None else tuple(sorted((_seen(pod) for pod in pods), key=lambda p: p.name)),
    )


def _candidate_of_pods(ref: WorkloadRef, pods: list[core.Pod]) -> linking.Candidate:
    newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    return linking.Candidate(
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        template_labels=newest.metadata.labels or {},
        containers=_containers(newest.spec),
        host_paths=_host_paths(newest.spec),
        service_account=_service_account(ref.namespace, newest.spec),
        pods=tuple(sorted((_seen(pod) for pod in pods), key=lambda p: p.name)),
    )


def _seen(pod: core.Pod) -> linking.PodSeen:
    statuses = (pod.status.container_statuses or ()) if pod.status is not None else ()
    return linking.PodSeen(
        name=pod.metadata.name,
        node=pod.spec.node_name or "",
        ready=_ready(pod) is True
        or (_ready(pod) is None and pod.status is not None and pod.status.phase == "Running"),
        images={c.name: c.image for c in pod.spec.containers or ()},
        running={s.name: s.image for s in statuses if s.state is not None and s.state.running is not None},
    )


def _ready(pod: core.Pod) -> bool | None:
    for condition in (pod.status.conditions or ()) if pod.status is not None else ():
        if condition.type == "Ready":
            return condition.status == "True"
    return None


# ------------------------------------------------------------------------------------------------------------- Pods


def container_states(pod: core.Pod) -> tuple[ContainerState, ...]:
    """What the kubelet reports of a Pod's containers, init containers first."""
    if pod.status is None:
        return ()
    return tuple(
        _state(status)
        for statuses in (pod.status.init_container_statuses, pod.status.container_statuses)
        for status in statuses or ()
    )


def _state(status: core.ContainerStatus) -> ContainerState:
    state = status.state or core.State()
    last = status.last_state or core.State()
    text = ""
    started = ""
    message = ""
    code: int | None = None
    if state.running is not None:
        text = "running"
        started = state.running.started_at or ""
    elif state.waiting is not None:
        text = f"waiting:{state.waiting.reason or ''}"
        message = state.waiting.message or ""
    elif state.terminated is not None:
        text = f"terminated:{state.terminated.reason or ''}"
        started = state.terminated.started_at or ""
        message = state.terminated.message or ""
        code = state.terminated.exit_code
    if last.terminated is not None and code is None:
        code = last.terminated.exit_code
        message = message or last.terminated.message or ""
    return ContainerState(
        name=status.name,
        image=status.image,
        image_id=status.image_id,
        ready=bool(status.ready),
        started=status.started,
        restarts=status.restart_count or 0,
        state=text,
        started_at=started,
        exit_code=code,
        message=message,
    )


def _claims_of(pod: core.Pod) -> tuple[ClaimUse, ...]:
    status = pod.status or core.PodStatus()
    made = {s.name: s.resource_claim_name or "" for s in status.resource_claim_statuses or ()}
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    rows = [
        ClaimUse(
            pod_claim=claim.name,
            claim=claim.resource_claim_name or made.get(claim.name, ""),
            template=claim.resource_claim_template_name or "",
            containers=tuple(
                c.name
                for c in containers
                if c.resources is not None and any(ref.name == claim.name for ref in c.resources.claims or ())
            ),
        )
        for claim in pod.spec.resource_claims or ()
    ]
    extended = status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        rows.append(
            ClaimUse(
                pod_claim="<extended-resources>",
                claim=extended.resource_claim_name,
                containers=tuple(dict.fromkeys(m.container_name for m in extended.request_mappings or ())),
            )
        )
    return tuple(rows)


def _conditions(conditions: Iterable[core.Condition] | None) -> tuple[Condition, ...]:
    return tuple(
        sorted(
            (
                Condition(
                    type=c.type,
                    status=c.status,
                    reason=c.reason or "",
                    message=c.message or "",
                    changed=c.last_transition_time or "",
                )
                for c in conditions or ()
            ),
            key=lambda c: c.type,
        )
    )


def _required_nodes(affinity: core.Affinity | None) -> tuple[NodeTerm, ...]:
    node = affinity.node_affinity if affinity is not None else None
    required = node.required if node is not None else None
    return tuple(
        NodeTerm(labels=_requirements(term.match_expressions), fields=_requirements(term.match_fields))
        for term in ((required.node_selector_terms or ()) if required is not None else ())
    )


def _requirements(found: Iterable[core.Requirement] | None) -> tuple[NodeRequirement, ...]:
    return tuple(
        NodeRequirement(key=need.key, operator=need.operator, values=tuple(need.values or ()))
        for need in found or ()
    )


def _other_constraints(spec: core.PodSpec) -> tuple[str, ...]:
    affinity = spec.affinity or core.Affinity()
    scheduler = spec.scheduler_name or _DEFAULT_SCHEDULER
    found = {
        "pod affinity": affinity.pod_affinity is not None and bool(affinity.pod_affinity.required),
        "pod anti-affinity": affinity.pod_anti_affinity is not None
        and bool(affinity.pod_anti_affinity.required),
        "topology spread": any(
            c.when_unsatisfiable != "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
        ),
        "host ports": any(
            port.host_port
            for containers in (spec.init_containers, spec.containers)
            for c in containers or ()
            for port in c.ports or ()
        ),
        "volume claims": any(
            v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes or ()
        ),
        "scheduling gates": bool(spec.scheduling_gates),
        f"scheduler {scheduler}": scheduler != _DEFAULT_SCHEDULER,
    }
    return tuple(text for text, there in found.items() if there)


def _pod_use(pod: core.Pod, owner: WorkloadRef | None, chain: tuple[str, ...], uses_devices: bool) -> PodUse:
    meta, spec = pod.metadata, pod.spec
    status = pod.status or core.PodStatus()
    states = container_states(pod)
    conditions = _conditions(status.conditions)
    extended = status.extended_resource_claim_status
    health = [
        DeviceHealth(
            container=container.name,
            resource=allocated.name,
            device=resource.resource_id,
            health=resource.health or "",
            message=resource.message or "",
        )
        for statuses in (status.init_container_statuses, status.container_statuses)
        for container in statuses or ()
        for allocated in container.allocated_resources_status or ()
        for resource in allocated.resources or ()
    ]
    return PodUse(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=spec.node_name or "",
        phase=status.phase or "",
        ready=_ready(pod),
        deleting_since=meta.deletion_timestamp or "",
        owner=owner,
        owner_chain=chain,
        restarts=sum(state.restarts for state in states),
        containers=states,
        asks=_asks(spec),
        claims=_claims_of(pod),
        extended_claim=extended.resource_claim_name if extended is not None else "",
        extended_mappings=tuple(
            ExtendedMapping(container=m.container_name, resource=m.resource_name, request=m.request_name)
            for m in (extended.request_mappings or () if extended is not None else ())
        ),
        health=tuple(sorted(health, key=lambda h: (h.container, h.resource, h.device))),
        scheduled=next((c for c in conditions if c.type == "PodScheduled"), None),
        conditions=conditions,
        node_selector=dict(sorted((spec.node_selector or {}).items())),
        has_affinity=spec.affinity is not None
        and any((spec.affinity.node_affinity, spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity)),
        required_nodes=_required_nodes(spec.affinity),
        other_constraints=_other_constraints(spec),
        requests=requests.texts(requests.pod_requests(spec)),
        tolerations=_tolerations(spec.tolerations),
        labels=dict(sorted((meta.labels or {}).items())),
        grace_seconds=spec.termination_grace_period_seconds,
        local_storage=any(v.empty_dir is not None for v in spec.volumes or ()),
        host_paths=linking.plugin_folders(_host_paths(spec)),
        uses_devices=uses_devices,
        selinux_labels=_se_linux(pod),
        created=meta.creation_timestamp or "",
        started=status.start_time or "",
    )


# -------------------------------------------------------------------------------------------------------- the facts


def workload_facts(
    inv: Inventory, drivers: Iterable[Driver] = (), known: Controllers | None = None
) -> WorkloadFacts:
    """Read Pods and workloads that matter, and everything that a drain or an upgrade meets.

    Args:
        inv: What was read.
        drivers: The driver table of `dra.device_facts`, to name the workloads behind it.
        known: The controllers of this inventory where the caller has them already.
    """
    known = known or Controllers(inv)
    served: defaultdict[WorkloadRef, list[str]] = defaultdict(list)
    for driver in drivers:
        if driver.workload is not None:
            served[driver.workload].append(driver.driver)
    addons = {item.ref: text for item in known.deployed.values() if (text := _addon(item, served))}
    budgets = _objects(inv, "poddisruptionbudgets.policy", _Budget)
    guarded = _guarded(budgets, known.pods)
    protected = {name for names in guarded.values() for name in names}
    pods = []
    for pod in known.pods:
        meta = pod.metadata
        uses = _uses_devices(pod)
        phase = pod.status.phase if pod.status is not None else None
        owner, chain = known.root(pod)
        bare = owner is None and not core.is_mirror(pod) and phase not in _FINISHED
        if (
            uses
            or bare
            or (meta.namespace, meta.name) in protected
            or _addon_pod(addons.get(owner, "") if owner is not None else "", owner, pod)
            or (owner is not None and owner in served)
            or (not core.is_mirror(pod) and _se_linux(pod))
        ):
            pods.append(_pod_use(pod, owner, chain, uses))
    pods.sort(key=lambda p: (p.namespace, p.name))
    owners = {pod.owner for pod in pods if pod.uses_devices and pod.owner is not None}
    return WorkloadFacts(
        pods=tuple(pods),
        workloads=_workloads(known, owners, addons),
        disruption_budgets=_budgets(budgets, guarded),
        autoscalers=_autoscalers(inv),
        quotas=_quotas(inv),
        webhooks=_webhooks(inv, known.pods),
        custom_resources=_custom_resources(inv),
        stored_objects=_stored(inv),
        events=events.event_facts(inv),
        leases=events.lease_facts(inv),
    )


def _addon_pod(addon: str, owner: WorkloadRef | None, pod: core.Pod) -> bool:
    """Whether an add-on's Pod is kept: all of drivers, device plugins and Deployments, of other DaemonSets the unready."""
    if not addon or owner is None:
        return False
    if addon.startswith(("dra-driver", "device-plugin")) or owner.kind != "DaemonSet":
        return True
    return _ready(pod) is False


def _guarded(
    budgets: Iterable[_Budget], pods: Iterable[core.Pod]
) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Budget -> the Pods that it selects, both as (namespace, name)."""
    by_namespace: defaultdict[str, list[_Budget]] = defaultdict(list)
    for budget in budgets:
        by_namespace[budget.metadata.namespace].append(budget)
    found: dict[tuple[str, str], list[tuple[str, str]]] = {
        (b.metadata.namespace, b.metadata.name): [] for bs in by_namespace.values() for b in bs
    }
    if not by_namespace:
        return found
    for pod in pods:
        meta = pod.metadata
        here = by_namespace.get(meta.namespace)
        if not here or (pod.status is not None and pod.status.phase in _FINISHED):
            continue
        labels = meta.labels or {}
        for budget in here:
            if _selected(budget.spec.selector, labels):
                found[budget.metadata.namespace, budget.metadata.name].append((meta.namespace, meta.name))
    return found


def _budgets(
    budgets: Iterable[_Budget], guarded: Mapping[tuple[str, str], list[tuple[str, str]]]
) -> tuple[DisruptionBudget, ...]:
    rows = []
    for budget in budgets:
        meta, spec, status = budget.metadata, budget.spec, budget.status or _BudgetStatus()
        selector = spec.selector or core.LabelSelector()
        seen = status.observed_generation
        rows.append(
            DisruptionBudget(
                namespace=meta.namespace,
                name=meta.name,
                min_available="" if spec.min_available is None else str(spec.min_available),
                max_unavailable="" if spec.max_unavailable is None else str(spec.max_unavailable),
                selector=dict(sorted((selector.match_labels or {}).items())),
                selector_expressions=bool(selector.match_expressions),
                disruptions_allowed=status.disruptions_allowed,
                current_healthy=status.current_healthy,
                desired_healthy=status.desired_healthy,
                expected_pods=status.expected_pods,
                observed=seen is None or not meta.generation or seen >= meta.generation,
                unhealthy_policy=spec.unhealthy_pod_eviction_policy or "",
                pods=tuple(sorted(name for _, name in guarded[meta.namespace, meta.name])),
            )
        )
    return tuple(sorted(rows, key=lambda b: (b.namespace, b.name)))


def _autoscalers(inv: Inventory) -> tuple[Autoscaler, ...]:
    rows = []
    for located in inv.all("horizontalpodautoscalers.autoscaling", _Autoscaler):
        spec, status = located.obj.spec, located.obj.status or _AutoscalerStatus()
        behavior = spec.behavior or _ScalingBehavior()
        up, down = behavior.scale_up or _ScalingRules(), behavior.scale_down or _ScalingRules()
        namespace = located.obj.metadata.namespace
        rows.append(
            Autoscaler(
                namespace=namespace,
                name=located.obj.metadata.name,
                target=WorkloadRef(
                    kind=spec.scale_target_ref.kind, namespace=namespace, name=spec.scale_target_ref.name
                ),
                min_replicas=spec.min_replicas,
                max_replicas=spec.max_replicas,
                current_replicas=status.current_replicas,
                desired_replicas=status.desired_replicas,
                scale_up_tolerance="" if up.tolerance is None else str(up.tolerance),
                scale_down_tolerance="" if down.tolerance is None else str(down.tolerance),
                api_version=located.api_version,
            )
        )
    return tuple(sorted(rows, key=lambda a: (a.namespace, a.name)))


def _workloads(
    known: Controllers, owners: set[WorkloadRef], addons: Mapping[WorkloadRef, str]
) -> tuple[Workload, ...]:
    rows = []
    for item in known.deployed.values():
        spec = item.obj.spec.template.spec
        asks = _asks(spec)
        addon = addons.get(item.ref, "")
        if not (addon or asks or spec.resource_claims or item.ref in owners):
            continue
        meta, status = item.obj.metadata, item.obj.status or core.WorkloadStatus()
        daemon = item.kind == "DaemonSet"
        strategy = item.obj.spec.update_strategy or item.obj.spec.strategy
        selector = item.obj.spec.selector
        rows.append(
            Workload(
                kind=item.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                images={c.name: c.image for c in spec.containers or ()},
                replicas=item.obj.spec.replicas,
                ready=status.number_ready if daemon else status.ready_replicas,
                desired=status.desired_number_scheduled if daemon else item.obj.spec.replicas,
                updated=status.updated_number_scheduled if daemon else status.updated_replicas,
                update_strategy=(strategy.type or "") if strategy is not None else "",
                labels=dict(sorted((meta.labels or {}).items())),
                selector=dict(sorted((selector.match_labels or {}).items())) if selector is not None else {},
                node_selector=dict(sorted((spec.node_selector or {}).items())),
                tolerations=_tolerations(spec.tolerations),
                asks=asks,
                service_account=_service_account(meta.namespace, spec),
                addon=addon,
            )
        )
    seen = {(row.kind, row.namespace, row.name) for row in rows}
    # A Job, a custom controller, or a kind that was not read: the Pods still say that it is there.
    rows.extend(
        Workload(kind=owner.kind, namespace=owner.namespace, name=owner.name)
        for owner in owners
        if (owner.kind, owner.namespace, owner.name) not in seen
    )
    return tuple(sorted(rows, key=lambda w: (w.namespace, w.kind, w.name)))


def _device_keys(side: Mapping[str, core.Quantity] | None) -> dict[str, str]:
    kept = {}
    for key, value in sorted((side or {}).items()):
        base = key.removeprefix("requests.")
        if (
            key.endswith(".deviceclass.resource.k8s.io/devices")
            or key == CLAIM_QUOTA
            or (key != base and is_extended_resource(base))
        ):
            kept[key] = str(value)
    return kept


def _quotas(inv: Inventory) -> tuple[Quota, ...]:
    rows = []
    for quota in _objects(inv, "resourcequotas", _Quota):
        meta = quota.metadata
        status, spec = quota.status or _QuotaSide(), quota.spec or _QuotaSide()
        hard = _device_keys(status.hard or spec.hard)
        if hard:
            rows.append(
                Quota(namespace=meta.namespace, name=meta.name, hard=hard, used=_device_keys(status.used))
            )
    return tuple(sorted(rows, key=lambda q: (q.namespace, q.name)))


def _webhooks(inv: Inventory, pods: tuple[core.Pod, ...]) -> tuple[Webhook, ...]:
    selectors = {
        (service.metadata.namespace, service.metadata.name): service.spec.selector
        for service in _objects(inv, "services", core.Service)
        if service.spec is not None and service.spec.selector
    }
    nodes_of: dict[tuple[str, str], tuple[str, ...]] = {}

    def server_nodes(service: _HookService) -> tuple[str, ...]:
        key = (service.namespace, service.name)
        selector = selectors.get(key)
        if selector is None:
            return ()
        if key not in nodes_of:
            nodes_of[key] = tuple(
                sorted(
                    {
                        pod.spec.node_name
                        for pod in pods
                        if pod.metadata.namespace == service.namespace
                        and pod.spec.node_name
                        and all((pod.metadata.labels or {}).get(k) == v for k, v in selector.items())
                    }
                )
            )
        return nodes_of[key]

    rows = []
    group = "admissionregistration.k8s.io"
    for kind in ("validating", "mutating"):
        for item in inv.all(f"{kind}webhookconfigurations.{group}", _HookConfiguration):
            for hook in item.obj.webhooks or ():
                service = hook.client_config.service if hook.client_config is not None else None
                rules = {
                    f"{g or 'core'}/{v}/{r}"
                    for rule in hook.rules or ()
                    for g in rule.api_groups or ()
                    for v in rule.api_versions or ()
                    for r in rule.resources or ()
                }
                rows.append(
                    Webhook(
                        configuration=item.obj.metadata.name,
                        name=hook.name,
                        kind="validating" if kind == "validating" else "mutating",
                        failure_policy=hook.failure_policy or "",
                        match_policy=hook.match_policy or "",
                        service=f"{service.namespace}/{service.name}" if service is not None else "",
                        rules=tuple(sorted(rules)),
                        timeout_seconds=hook.timeout_seconds,
                        server_nodes=server_nodes(service) if service is not None else (),
                    )
                )
    return tuple(sorted(rows, key=lambda w: (w.kind, w.configuration, w.name)))


def _custom_resources(inv: Inventory) -> tuple[CustomResource, ...]:
    rows = []
    for item in inv.all("customresourcedefinitions.apiextensions.k8s.io", _Crd):
        spec = item.obj.spec
        versions = spec.versions or ()
        rows.append(
            CustomResource(
                name=item.obj.metadata.name,
                group=spec.group,
                kind=spec.names.kind,
                served=tuple(v.name for v in versions if v.served),
                stored=tuple((item.obj.status.stored_versions or ()) if item.obj.status is not None else ()),
                storage=next((v.name for v in versions if v.storage), ""),
            )
        )
    return tuple(sorted(rows, key=lambda c: c.name))


def _stored(inv: Inventory) -> tuple[StoredObjects, ...]:
    """Objects of kinds that a neighbouring minor may not be able to decode, by the version that they were listed in."""
    grouped: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    kinds = [f"{resource}.scheduling.k8s.io" for resource in SCHEDULING]
    kinds.append("resourcepoolstatusrequests.resource.k8s.io")
    for kind in kinds:
        for item in inv.all(kind, _OwnedBy):
            meta = item.obj.metadata
            name = f"{item.namespace}/{meta.name}" if item.namespace else meta.name
            grouped[item.api_version, kind.partition(".")[0]].append(name)
    return tuple(
        StoredObjects(group_version=version, resource=resource, names=tuple(sorted(names)))
        for (version, resource), names in sorted(grouped.items())
    )
