"""Extended resources: who serves each on which node, whether it can move to DRA, and how. Pure.

The scheduler decides for each node: where the node's allocatable of a name is above 0, a device plugin serves it there,
else the DeviceClass that names it; never both for one resource on one node.
Source: plugins noderesources and dynamicresources of kube-scheduler 1.37.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, Literal
from weakref import WeakKeyDictionary

from changegen import words
from changegen.assess.allocate import MAX_DEVICES
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, GateState, SelectorError, names
from changegen.assess.dra import FINISHED, DeviceIndex, asked, index, owner_text
from changegen.i18n import tr, trn
from changegen.model.base import Model
from changegen.model.profile import ExtendedResourceWish
from changegen.model.snapshot import DeviceClass, PodUse, Workload, WorkloadRef
from changegen.model.ticket import Command, Evidence, Finding, ResourceRow
from changegen.quantity import DEVICE_CLASS_PREFIX, count, is_extended_resource
from changegen.shell import word
from changegen.versions import minor_key, minor_of

__all__ = [
    "CODES",
    "Migration",
    "MigrationStep",
    "Served",
    "findings",
    "migration",
    "resource_rows",
    "served",
]

BOTH = Code(
    code="CG-EXT-001",
    title="Both mechanisms advertise a resource on one node",
    severity="warning",
    meaning="A node has a device plugin's allocatable of a resource and DRA devices of the class that names it. If they are the "
    "same devices, they are handed out twice; the API cannot prove that they are.",
    remedy="Take the device plugin off the node, or keep the DRA driver away from it.",
)
COLLISION = Code(
    code="CG-EXT-002",
    title="Several DeviceClasses name one extended resource",
    severity="warning",
    meaning="Of DeviceClasses with the same extendedResourceName the younger is used, of the same age the first by name. Making "
    "a class anew thus changes who serves the resource.",
    remedy="Let one class name it.",
)
OLD_KUBELET = Code(
    code="CG-EXT-003",
    title="Kubelet that does not honour extended resources of DRA",
    severity="warning",
    others=("blocking",),
    meaning="A node has devices of a class that names an extended resource, and its kubelet has DRAExtendedResource off (1.34 and "
    "1.35 by default). The scheduler does not look at the kubelet: a container may start without its device (read in code).",
    remedy="Upgrade the kubelet to 1.36 or newer first, or turn its gate on.",
)
QUOTA = Code(
    code="CG-EXT-004",
    title="Quotas that will count claims of a resource",
    severity="info",
    meaning="Quotas on an extended resource also count claims of the DeviceClass that names it, whether written by people or "
    "made by the scheduler.",
    remedy="Look at hard and used with the owners of the namespaces.",
)
UNSERVED = Code(
    code="CG-EXT-005",
    title="Resource asked for that nobody serves",
    severity="warning",
    meaning="Pods ask for an extended resource that no node has and no DeviceClass names: they stay Pending.",
    remedy="Create the DeviceClass, install the device plugin, or correct the Pods.",
)
NO_GO = Code(
    code="CG-EXT-006",
    title="Extended resource cannot move to DRA yet",
    severity="warning",
    meaning="The profile wants a resource served by DRA, and something that it needs is missing.",
    remedy="See the reasons; then drain node by node, take the device plugin off, look at the slices, uncordon.",
)
WRONG_CLASS = Code(
    code="CG-EXT-007",
    title="Another DeviceClass serves the resource than wanted",
    severity="warning",
    meaning="The profile names the DeviceClass of an extended resource; another one serves it, or none.",
    remedy="Set extendedResourceName on the wanted class, and take it off the other.",
)
TOO_MANY = Code(
    code="CG-EXT-008",
    title="Pod that asks for more devices than a claim can hold",
    severity="warning",
    meaning="A claim holds at most 32 devices: a Pod that asks for more of an extended resource cannot be served by DRA.",
    remedy="Keep a device plugin for it, or split the workload.",
)
OTHER_SOURCE = Code(
    code="CG-EXT-009",
    title="Extended resource not served as the profile wants",
    severity="warning",
    others=("info",),
    meaning="The profile wants a resource served by a device plugin, and DRA serves it on a node, or would as soon as the plugin "
    "is gone, since a DeviceClass names it; or nothing serves it on a node that is named. Or the profile wants DRA, and "
    "a device plugin still serves it: that is what the plan changes.",
    remedy="Where the device plugin shall stay: take extendedResourceName off the DeviceClass, or bring the plugin back on the "
    "node, and let Pods that hold a claim end first. Where DRA is wanted: follow the steps, node by node.",
)
UNDECIDED = Code(
    code="CG-EXT-010",
    title="Cannot tell whether an extended resource can move to DRA",
    severity="warning",
    meaning="The profile wants a resource served by DRA, and something that decides on it was not read.",
    remedy="Read what is named, then look again; a move is not ready before.",
)
CODES = (
    BOTH,
    COLLISION,
    OLD_KUBELET,
    QUOTA,
    UNSERVED,
    NO_GO,
    WRONG_CLASS,
    TOO_MANY,
    OTHER_SOURCE,
    UNDECIDED,
)

GATE: Final = "DRAExtendedResource"
_NEEDS_GATE: Final = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")

Source = Literal["device-plugin", "dra", "both", "none"]


class Served(Model, frozen=True, kw_only=True):
    """One extended resource and who serves it where."""

    resource: str
    device_class: str = ""
    implicit: str = ""
    """The implicit name of that class."""
    by_node: dict[str, Source] = {}
    """Nodes that have anything of it; `device-plugin` is inferred from an allocatable above 0."""
    elsewhere: bool = False
    """Devices of the class that belong to no single node."""
    departed: tuple[str, ...] = ()
    """Nodes with an allocatable of 0: what a departed device plugin leaves behind."""
    pods: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    uncertain: bool = False
    """A selector of the class could not be evaluated: what it takes is supposed."""


class MigrationStep(Model, frozen=True, kw_only=True):
    """A step of moving a resource to DRA."""

    title: str
    nodes: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    note: str = ""
    go_on: str = ""
    back: str = ""
    back_commands: tuple[Command, ...] = ()
    """The way back of this node, in order."""


class Migration(Model, frozen=True, kw_only=True):
    """Whether an extended resource can move from a device plugin to DRA, and how."""

    resource: str
    verdict: Literal["go", "no-go", "cannot-tell", "done"]
    why: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    device_class: str = ""
    steps: tuple[MigrationStep, ...] = ()
    checks: tuple[str, ...] = ()
    """Commands to look at the outcome with, for the first Pod that asks."""


class _Resources:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.at: DeviceIndex = index(ctx)

    @cached_property
    def asking(self) -> dict[str, tuple[PodUse, ...]]:
        by: defaultdict[str, list[PodUse]] = defaultdict(list)
        for pod in self.ctx.snapshot.pods:
            if pod.phase in FINISHED:
                continue
            for resource in {ask.resource for ask in pod.asks}:
                by[resource].append(pod)
        return {resource: tuple(pods) for resource, pods in by.items()}

    @cached_property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Resource -> workloads whose template asks for it."""
        by: defaultdict[str, set[str]] = defaultdict(set)
        for workload in self.ctx.snapshot.workloads:
            for ask in workload.asks:
                by[ask.resource].add(f"{workload.namespace}/{workload.kind}/{workload.name}")
        return {resource: tuple(sorted(found)) for resource, found in by.items()}

    @cached_property
    def names(self) -> tuple[str, ...]:
        found = {*self.asking, *self.wanted, *self.at.claimants}
        found.update(wish.name for wish in self.ctx.profile.extended_resources)
        for node in self.ctx.snapshot.nodes:
            found.update(r for r in node.allocatable if is_extended_resource(r))
        return tuple(sorted(found))

    def served(self, resource: str) -> Served:
        device_class = self.at.class_of_resource.get(resource)
        members = self.at.members(device_class.name) if device_class is not None else {}
        with_dra = {self.at.devices[key].node or "" for key in members} - {""}
        by_node: dict[str, Source] = {}
        departed = []
        for node in self.ctx.snapshot.nodes:
            text = node.allocatable.get(resource)
            plugin = text is not None and count(text) > 0
            if plugin:
                by_node[node.name] = "both" if node.name in with_dra else "device-plugin"
            elif text is not None:
                departed.append(node.name)
        for found in with_dra:
            by_node.setdefault(found, "dra")
        pods = self.asking.get(resource, ())
        owners = {f"{pod.namespace}/{owner_text(pod.owner) or 'Pod/' + pod.name}" for pod in pods}
        owners.update(self.wanted.get(resource, ()))
        return Served(
            resource=resource,
            device_class=device_class.name if device_class is not None else "",
            implicit=DEVICE_CLASS_PREFIX + device_class.name if device_class is not None else "",
            by_node=dict(sorted(by_node.items())),
            elsewhere=any(self.at.devices[key].node is None for key in members),
            departed=tuple(departed),
            pods=tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods)),
            pending=tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod.phase == "Pending")),
            owners=tuple(sorted(owners)),
            uncertain=any(answer is None for answer in members.values()),
        )


_resources: Final[WeakKeyDictionary[Context, _Resources]] = WeakKeyDictionary()


def _of(ctx: Context) -> _Resources:
    found = _resources.get(ctx)
    if found is None:
        found = _resources[ctx] = _Resources(ctx)
    return found


def served(ctx: Context) -> tuple[Served, ...]:
    """Every extended resource that a node has, a DeviceClass names, a Pod or workload asks for, or the profile wants."""
    made = _of(ctx)
    return tuple(made.served(resource) for resource in made.names)


# ----------------------------------------------------------------------------------------------------------- migration


def _off(states: Iterable[GateState]) -> tuple[list[str], list[str]]:
    """(instances where the gate is off, instances of which it is not known)."""
    off, unknown = [], []
    for state in states:
        where = f"{state.component} {state.node or state.instance}"
        if state.value is False:
            off.append(where)
        elif state.value is None:
            unknown.append(where)
    return off, unknown


def _unseen(ctx: Context, at: Literal["today", "target"]) -> list[str]:
    """Components that read the gate and of which no instance is seen, where their version could have it off."""
    minor = ctx.data_minor if at == "target" else ctx.today_minor
    known = ctx.data.gates(minor).get(GATE) if minor is not None and ctx.data.knows(minor) else None
    if known is not None and known.specs[-1].lock and known.specs[-1].default:
        return []
    return [component for component in _NEEDS_GATE if not ctx.of(component)]


def _kubelets_off(
    ctx: Context, nodes: Iterable[str], at: Literal["today", "target"]
) -> tuple[list[str], list[str]]:
    wanted = set(nodes)
    states = [ctx.gate_state(c, GATE, at) for c in ctx.of("kubelet") if (c.node or c.instance) in wanted]
    off = [state.node or state.instance for state in states if state.value is False]
    unknown = [state.node or state.instance for state in states if state.value is None]
    seen = {state.node or state.instance for state in states}
    for name in sorted(wanted - seen):
        # Without a kubelet instance the node's own version still tells the default.
        node = ctx.nodes.get(name)
        minor = minor_of(node.kubelet_version) if node is not None else None
        if minor is None or not ctx.data.knows(minor):
            unknown.append(name)
        elif GATE not in ctx.data.gates(minor) or not ctx.data.gates(minor)[GATE].specs[-1].default:
            (off if minor_key(minor) < minor_key("1.34") else unknown).append(name)
    return off, unknown


def _wish(ctx: Context, resource: str) -> ExtendedResourceWish | None:
    return next((w for w in ctx.profile.extended_resources if w.name == resource), None)


def _wished_nodes(ctx: Context, wish: ExtendedResourceWish | None, row: Served) -> tuple[str, ...]:
    """Nodes that are to be moved: the profile's, else all that have the resource."""
    if wish is not None and wish.nodes:
        try:
            return tuple(sorted(node.name for node in ctx.nodes_matching(wish.nodes)))
        except SelectorError:
            return ()
    return tuple(row.by_node)


def migration(ctx: Context, resource: str) -> Migration:
    """Go or no-go of one resource with its reasons, and the steps node by node."""
    row = _of(ctx).served(resource)
    wish = _wish(ctx, resource)
    nodes = _wished_nodes(ctx, wish, row)
    target: Literal["today", "target"] = "target" if ctx.target is not None else "today"
    why: list[str] = []
    unknown: list[str] = []
    class_name = row.device_class or (wish.device_class if wish is not None else "")
    if not row.device_class:
        if "deviceclasses.resource.k8s.io" in ctx.snapshot.kinds_read or ctx.snapshot.device_classes:
            why.append(tr("no DeviceClass names {resource}", resource=resource))
        else:
            unknown.append(tr("DeviceClasses were not read"))
    elif wish is not None and wish.device_class and wish.device_class != row.device_class:
        why.append(
            tr("DeviceClass {have} serves it, not {want}", have=row.device_class, want=wish.device_class)
        )
    off, blind = _off(ctx.gate_states(GATE, _NEEDS_GATE, target))
    if off:
        why.append(tr("{gate} is off on {where}", gate=GATE, where=names(off)))
    blind += _unseen(ctx, target)
    if blind:
        unknown.append(tr("{gate} is not known on {where}", gate=GATE, where=names(blind)))
    old, blind = _kubelets_off(ctx, nodes, target)
    if old:
        why.append(tr("{gate} is off on the kubelet of {where}", gate=GATE, where=names(old)))
    if blind:
        unknown.append(tr("{gate} is not known on the kubelet of {where}", gate=GATE, where=names(blind)))
    if "resourceslices.resource.k8s.io" not in ctx.snapshot.kinds_read and not ctx.snapshot.pools:
        unknown.append(tr("ResourceSlices were not read"))
    elif row.device_class:
        without = [node for node in nodes if row.by_node.get(node) in {None, "device-plugin"}]
        if without and not row.elsewhere:
            why.append(
                tr(
                    "no device of class {name} is published on {nodes}",
                    name=row.device_class,
                    nodes=names(without),
                )
            )
        unknown.extend(_fewer(ctx, row, nodes))
    if row.uncertain:
        unknown.append(tr("a selector of class {name} could not be evaluated", name=row.device_class))
    if row.device_class:
        stuck, doubtful = _failing(ctx, row.device_class)
        why.extend(stuck)
        unknown.extend(doubtful)
        unknown.extend(_unfinished(ctx, row.device_class))
    big = _too_big(_of(ctx).asking.get(resource, ()), resource)
    if big:
        why.append(
            trn(
                "{pods} asks for more than {most} devices",
                "{pods} ask for more than {most} devices",
                n=len(big),
                pods=names(big),
                most=MAX_DEVICES,
            )
        )
    left = [node for node in nodes if row.by_node.get(node) in {"device-plugin", "both"}]
    done = bool(row.by_node) and not left and not why and not unknown
    verdict: Literal["go", "no-go", "cannot-tell", "done"] = (
        "no-go" if why else "cannot-tell" if unknown else "done" if done else "go"
    )
    return Migration(
        resource=resource,
        verdict=verdict,
        why=tuple(why),
        unknown=tuple(unknown),
        device_class=class_name,
        steps=tuple(_steps(ctx, row, class_name, left or [n for n in nodes if row.by_node.get(n) != "dra"])),
        checks=tuple(_checks(ctx, row)),
    )


def _failing(ctx: Context, class_name: str) -> tuple[list[str], list[str]]:
    """(what keeps Pods of a class from every node, what may): a selector that fails on a device that the scheduler looks at.

    It looks at it for certain where the node has no device that the class takes.
    """
    at = index(ctx)
    taken = {at.devices[key].node or "" for key in at.members(class_name)}
    sides: tuple[list[str], list[str]] = ([], [])
    for alone in (True, False):
        devices = [
            key for key in at.failing(class_name) if ((at.devices[key].node or "") not in taken) is alone
        ]
        if devices:
            sides[0 if alone else 1].append(
                tr(
                    "the selector of class {name} fails on {devices} ({error}), and the scheduler gives up on a Pod there",
                    name=class_name,
                    devices=names(map(str, devices), 3),
                    error=at.failing(class_name)[devices[0]],
                )
            )
    return sides


def _unfinished(ctx: Context, class_name: str) -> Iterator[str]:
    at = index(ctx)
    pools = {(key.driver, key.pool) for key in at.members(class_name)}
    found = sorted(f"{d}/{p}" for d, p in pools if not at.pools[d, p].complete or (d, p) in at.invalid)
    if found:
        yield trn(
            "pool {pools} is not complete or not valid, and gives nothing",
            "pools {pools} are not complete or not valid, and give nothing",
            n=len(found),
            pools=names(found),
        )


def _fewer(ctx: Context, row: Served, nodes: Iterable[str]) -> Iterator[str]:
    """Nodes where the device plugin offers more than the class has devices: replicas and shares have no counterpart."""
    at = index(ctx)
    devices = Counter(at.devices[key].node for key in at.members(row.device_class))
    groups: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for node in nodes:
        if row.by_node.get(node) == "both":
            offered = count(ctx.nodes[node].allocatable[row.resource])
            if devices[node] < offered:
                groups[offered, devices[node]].append(node)
    for (offered, have), found in sorted(groups.items()):
        yield tr(
            "on {nodes} the device plugin offers {offered} and class {name} has {have}: replicas or partitions of the plugin "
            "have no counterpart, unless devices are still to be published",
            nodes=names(found),
            offered=offered,
            name=row.device_class,
            have=words.devices(have),
        )


def _too_big(pods: Iterable[PodUse], resource: str) -> list[str]:
    return sorted(f"{pod.namespace}/{pod.name}" for pod in pods if asked(pod).get(resource, 0) > MAX_DEVICES)


def _plugin_of(ctx: Context, resource: str) -> Workload | None:
    """The device plugin's DaemonSet where only one is seen, or one has the resource's vendor in its name."""
    found = [
        w for w in ctx.snapshot.workloads if w.addon.startswith("device-plugin:") and w.kind == "DaemonSet"
    ]
    if len(found) == 1:
        return found[0]
    vendor = resource.partition("/")[0].partition(".")[0]
    named = [w for w in found if vendor and vendor in w.name]
    return named[0] if len(named) == 1 else None


def _switch(ctx: Context, plugin: Workload | None, row: Served) -> tuple[str, str]:
    """(label, value) of the node selector that keeps the device plugin on a node and nothing else that must stay there.

    Both empty where there is none: labels of Kubernetes, of the DRA driver's own selector, of Pods that ask for the
    resource, and those by which the profile selects nodes are left alone.
    """
    if plugin is None:
        return "", ""
    drivers = {d.workload for d in ctx.snapshot.drivers if d.workload is not None}
    used: set[str] = set()
    for workload in ctx.snapshot.workloads:
        ref = WorkloadRef(kind=workload.kind, namespace=workload.namespace, name=workload.name)
        if ref in drivers or any(ask.resource == row.resource for ask in workload.asks):
            used |= set(workload.node_selector)
    for pod in _of(ctx).asking.get(row.resource, ()):
        used |= set(pod.node_selector)
        used |= {need.key for term in pod.required_nodes for need in term.labels}
    wishes = [
        *(wish.nodes for wish in ctx.profile.drivers),
        *(wish.nodes for wish in ctx.profile.extended_resources),
        *(wish.nodes for wish in ctx.profile.taints.nodes),
    ]
    for key, value in plugin.node_selector.items():
        domain = key.partition("/")[0]
        kept = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        if not kept and key not in used and not any(key in selector for selector in wishes):
            return key, value
    return "", ""


def _leave(switch: tuple[str, str], node: str) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """Commands that take a device plugin off a node and bring it back; none where no label of its own selects its nodes.

    A label that is `true` is set to `false`, not removed: operators that manage it put a missing one back (gpu-operator,
    controllers/state_manager.go, addGPUStateLabels).
    """
    key, value = switch
    if not key:
        return (), ()
    away = f"{word(f'{key}=false')} --overwrite" if value == "true" else word(f"{key}-")
    return (
        (Command(text=f"kubectl label node {word(node)} {away}", runs="write"),),
        (
            Command(
                text=f"kubectl label node {word(node)} {word(f'{key}={value}')} --overwrite", runs="write"
            ),
        ),
    )


def _drain(ctx: Context, node: str) -> str:
    """The drain of a node with what its Pods need for it, as far as they were read."""
    pods = [
        pod
        for pod in ctx.pods_by_node.get(node, ())
        if pod.phase not in FINISHED and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
    ]
    flags = ["--ignore-daemonsets", "--timeout=15m"]
    if any(pod.local_storage for pod in pods):
        flags.append("--delete-emptydir-data")
    if any(pod.owner is None and not pod.owner_chain for pod in pods):
        flags.append("--force")
    return f"kubectl drain {word(node)} {' '.join(flags)}"


def _steps(ctx: Context, row: Served, class_name: str, nodes: list[str]) -> Iterator[MigrationStep]:
    if not nodes:
        return
    resource = row.resource
    plugin = _plugin_of(ctx, resource)
    name = f"DaemonSet {plugin.namespace}/{plugin.name}" if plugin is not None else tr("The device plugin")
    if not row.device_class:
        patch = '{"spec":{"extendedResourceName":"' + resource + '"}}'
        target = word(class_name or "CLASS")
        yield MigrationStep(
            title=tr("Name {resource} in a DeviceClass", resource=resource),
            commands=(
                Command(
                    text=f"kubectl patch deviceclass {target} --type merge -p {word(patch)}", runs="write"
                ),
                Command(
                    text="kubectl get deviceclasses -o "
                    "'custom-columns=NAME:.metadata.name,RESOURCE:.spec.extendedResourceName'",
                    runs="read",
                ),
            ),
            go_on=tr(
                "One class names it; no node changes while its device plugin has an allocatable above 0"
            ),
            back=tr("Take extendedResourceName off the class again"),
            back_commands=(
                Command(
                    text=f"kubectl patch deviceclass {target} --type json "
                    '-p \'[{"op":"remove","path":"/spec/extendedResourceName"}]\'',
                    runs="write",
                ),
            ),
        )
    switch = _switch(ctx, plugin, row)
    for node in nodes:
        leave, back = _leave(switch, node)
        drain = Command(text=_drain(ctx, node), runs="write")
        allocatable = Command(
            text=f"kubectl get node {word(node)} -o jsonpath={word(f'{{.status.allocatable.{_escaped(resource)}}}')}",
            runs="read",
        )
        uncordon = Command(text=f"kubectl uncordon {word(node)}", runs="write")
        yield MigrationStep(
            title=tr("Move node {node}", node=node),
            nodes=(node,),
            commands=(
                drain,
                *leave,
                allocatable,
                Command(
                    text="kubectl get resourceslices -o "
                    "'custom-columns=NODE:.spec.nodeName,DRIVER:.spec.driver,POOL:.spec.pool.name,DEVICES:.spec.devices[*].name' "
                    f"--field-selector {word(f'spec.nodeName={node}')}",
                    runs="read",
                ),
                uncordon,
            ),
            note=tr("{plugin} leaves the node by its label {label}", plugin=name, label=switch[0])
            if leave
            else tr(
                "{plugin} must leave the node before it is uncordoned: change its node selector or affinity so that this "
                "node no longer fits; no label was read that selects for it alone",
                plugin=name,
            ),
            go_on=tr(
                "Allocatable of {resource} is 0 or gone, and the driver's slice lists every device",
                resource=resource,
            ),
            back=tr(
                "Drain the node again, bring the device plugin back, wait until allocatable is above 0, uncordon: the scheduler "
                "then takes the plugin again"
            ),
            back_commands=(drain, *back, allocatable, uncordon),
        )


def _escaped(resource: str) -> str:
    return resource.replace(".", "\\.")


def _checks(ctx: Context, row: Served) -> Iterator[str]:
    pods = [pod for pod in _of(ctx).asking.get(row.resource, ()) if pod.node] or list(
        _of(ctx).asking.get(row.resource, ())
    )
    if not pods:
        return
    pod = pods[0]
    space, name = word(pod.namespace), word(pod.name)
    yield f"kubectl -n {space} get events --field-selector {word(f'involvedObject.name={pod.name}')}"
    yield f"kubectl -n {space} get pod {name} -o jsonpath='{{.status.extendedResourceClaimStatus}}'"
    if pod.extended_claim:
        claim = word(pod.extended_claim)
        yield f"kubectl -n {space} get resourceclaim {claim} -o jsonpath='{{.status.allocation.devices.results}}'"
    else:
        yield (
            f"kubectl -n {space} get resourceclaims -o "
            'jsonpath=\'{range .items[?(@.metadata.annotations.resource\\.kubernetes\\.io/extended-resource-claim=="true")]}'
            '{.metadata.name}{"\\n"}{end}\''
        )


# ---------------------------------------------------------------------------------------------------------------- rows


def _source(row: Served) -> str:
    kinds = set(row.by_node.values())
    if not kinds:
        return "dra" if row.elsewhere else "none"
    if kinds == {"dra"}:
        return "dra"
    if kinds == {"device-plugin"}:
        return "device-plugin"
    return "both"


def resource_rows(ctx: Context) -> tuple[ResourceRow, ...]:
    """Every extended resource with its source on each node, and whether it can move."""
    rows = []
    for row in served(ctx):
        wish = _wish(ctx, row.resource)
        moved = migration(ctx, row.resource)
        verdict: Literal["", "go", "no-go", "cannot-tell"] = ""
        why = "; ".join((*moved.why, *moved.unknown))
        if wish is not None and wish.source == "dra" and moved.verdict != "done":
            verdict = moved.verdict
        elif moved.verdict == "done":
            why = ""
        elif wish is None and row.device_class and set(row.by_node.values()) - {"dra"}:
            verdict = moved.verdict
        elif wish is None:
            why = tr("no DeviceClass names it") if not row.device_class and row.by_node else why
        if row.departed:
            text = tr("0 left by a departed device plugin on {nodes}", nodes=names(row.departed))
            why = f"{why}; {text}" if why else text
        rows.append(
            ResourceRow(
                resource=row.resource,
                source=_source(row),
                device_class=row.device_class,
                by_node=dict(row.by_node),
                pods=len(row.pods),
                pending=len(row.pending),
                verdict=verdict,
                why=why,
            )
        )
    return tuple(rows)


# ------------------------------------------------------------------------------------------------------------ findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on extended resources."""
    at = index(ctx)
    for row in served(ctx):
        yield from _both(ctx, at, row)
        yield from _kubelets(ctx, row)
        yield from _unserved(ctx, row)
        yield from _quotas(ctx, row)
        yield from _wishes(ctx, row)
        big = _too_big(_of(ctx).asking.get(row.resource, ()), row.resource)
        if big and row.device_class:
            yield finding(
                TOO_MANY,
                trn(
                    "{pods} asks for more than {most} of {resource}",
                    "{pods} ask for more than {most} of {resource}",
                    n=len(big),
                    pods=names(big),
                    most=MAX_DEVICES,
                    resource=row.resource,
                ),
                component="extended resource",
                instances=big,
                name=row.resource,
            )
    for resource, classes in sorted(at.claimants.items()):
        if len(classes) > 1:
            yield _collision(resource, classes)


def _both(ctx: Context, at: DeviceIndex, row: Served) -> Iterator[Finding]:
    nodes = [node for node, source in row.by_node.items() if source == "both"]
    if not nodes:
        return
    members = at.members(row.device_class)
    evidence = []
    for node in nodes[:20]:
        devices = sum(1 for key in members if at.devices[key].node == node)
        evidence.append(
            Evidence(
                source=f"Node {node}",
                path="status.allocatable",
                value=f"{row.resource}={ctx.nodes[node].allocatable[row.resource]}; {devices} DRA devices of {row.device_class}",
                provenance="node status",
            )
        )
    yield finding(
        BOTH,
        tr(
            "Both mechanisms advertise {resource} on {nodes}: a device plugin in allocatable, and DRA devices of class {name}; "
            "whether they are the same devices cannot be proved here",
            resource=row.resource,
            nodes=names(nodes),
            name=row.device_class,
        ),
        component="extended resource",
        instances=nodes,
        name=row.resource,
        evidence=evidence,
        preexisting=True,
    )


def _collision(resource: str, classes: tuple[DeviceClass, ...]) -> Finding:
    ages = {c.created for c in classes}
    rule = (
        tr("the younger")
        if len(ages) > 1 and classes[0].created
        else tr("the first by name, as they are of one age")
    )
    return finding(
        COLLISION,
        tr(
            "{resource} is named by {classes}; {winner} is used ({rule})",
            resource=resource,
            classes=names(c.name for c in classes),
            winner=classes[0].name,
            rule=rule,
        ),
        component="extended resource",
        instances=[f"DeviceClass {c.name}" for c in classes],
        name=resource,
        evidence=[
            Evidence(
                source=f"DeviceClass {c.name}",
                path="spec.extendedResourceName",
                value=f"{resource} (created {c.created or '?'})",
                provenance="api object",
            )
            for c in classes
        ],
    )


def _kubelets(ctx: Context, row: Served) -> Iterator[Finding]:
    nodes = [node for node, source in row.by_node.items() if source in {"dra", "both"}]
    if not nodes or row.resource.startswith(DEVICE_CLASS_PREFIX):
        return
    off, _ = _kubelets_off(ctx, nodes, "target" if ctx.target is not None else "today")
    if not off:
        return
    versions = {ctx.nodes[node].kubelet_version for node in off if node in ctx.nodes}
    yield finding(
        OLD_KUBELET,
        tr(
            "{resource} is served by DRA on {nodes}, where the kubelet ({versions}) has {gate} off: containers may start "
            "without their device",
            resource=row.resource,
            nodes=names(off),
            versions=names(versions),
            gate=GATE,
        ),
        component="kubelet",
        instances=off,
        name=row.resource,
        evidence=[
            Evidence(
                source=f"Node {node}",
                path="status.nodeInfo.kubeletVersion",
                value=ctx.nodes[node].kubelet_version,
                provenance="node status",
            )
            for node in off[:20]
            if node in ctx.nodes
        ],
    )


def _unserved(ctx: Context, row: Served) -> Iterator[Finding]:
    if row.by_node or row.device_class or not row.pods:
        return
    read = ctx.snapshot.kinds_read
    if "nodes" not in read or "deviceclasses.resource.k8s.io" not in read:
        return
    yield finding(
        UNSERVED,
        trn(
            "{pods} asks for {resource}: no node has it and no DeviceClass names it",
            "{pods} ask for {resource}: no node has it and no DeviceClass names it",
            n=len(row.pods),
            pods=names(row.pods),
            resource=row.resource,
        ),
        component="extended resource",
        instances=row.pods,
        name=row.resource,
        preexisting=True,
    )


def _quotas(ctx: Context, row: Served) -> Iterator[Finding]:
    if not row.device_class:
        return
    keys = {
        f"requests.{row.resource}",
        f"requests.{row.implicit}",
        f"{row.device_class}.deviceclass.resource.k8s.io/devices",
    }
    counted = {}
    for quota in ctx.snapshot.quotas:
        hit = sorted(keys & set(quota.hard))
        if hit:
            counted[f"{quota.namespace}/{quota.name}"] = ", ".join(
                f"{key} {quota.used.get(key, '?')} of {quota.hard[key]}" for key in hit
            )
    if counted:
        yield finding(
            QUOTA,
            tr(
                "Quotas count Pods that ask for {resource} and claims of class {name}: {quotas}",
                resource=row.resource,
                name=row.device_class,
                quotas=names((f"{quota}: {shown}" for quota, shown in counted.items()), 3),
            ),
            component="extended resource",
            instances=[f"ResourceQuota {quota}" for quota in counted],
            name=row.resource,
            evidence=[
                Evidence(
                    source=f"ResourceQuota {quota}", path="spec.hard", value=shown, provenance="api object"
                )
                for quota, shown in counted.items()
            ],
        )


def _wishes(ctx: Context, row: Served) -> Iterator[Finding]:
    wish = _wish(ctx, row.resource)
    if wish is None:
        return
    if wish.device_class and row.device_class and wish.device_class != row.device_class:
        yield finding(
            WRONG_CLASS,
            tr(
                "{resource} is served by DeviceClass {have}; the profile wants {want}",
                resource=row.resource,
                have=row.device_class,
                want=wish.device_class,
            ),
            component="extended resource",
            name=row.resource,
        )
    if wish.source == "device-plugin":
        yield from _kept(ctx, wish, row)
    if wish.source != "dra":
        return
    moved = migration(ctx, row.resource)
    if moved.verdict == "cannot-tell":
        yield finding(
            UNDECIDED,
            tr(
                "Whether {resource} can move to DRA cannot be told: {why}",
                resource=row.resource,
                why="; ".join(moved.unknown),
            ),
            component="extended resource",
            name=row.resource,
        )
    if moved.verdict == "go":
        yield from _to_move(ctx, wish, row)
    if moved.verdict == "no-go":
        yield finding(
            NO_GO,
            tr("{resource} cannot move to DRA: {why}", resource=row.resource, why="; ".join(moved.why)),
            component="extended resource",
            name=row.resource,
        )


def _seen(ctx: Context, row: Served, nodes: Iterable[str]) -> list[Evidence]:
    return [
        Evidence(
            source=f"Node {node}",
            path="status.allocatable",
            value=f"{row.resource}={ctx.nodes[node].allocatable.get(row.resource, '0')}",
            provenance="node status",
        )
        for node in list(nodes)[:20]
        if node in ctx.nodes
    ]


def _kept(ctx: Context, wish: ExtendedResourceWish, row: Served) -> Iterator[Finding]:
    """A resource that shall stay with its device plugin."""
    nodes = _wished_nodes(ctx, wish, row)
    by_dra = [node for node in nodes if row.by_node.get(node) == "dra"]
    lost = sorted({node for node in nodes if node not in row.by_node} | set(row.departed) - set(row.by_node))
    parts = []
    if by_dra:
        parts.append(
            tr("DRA serves it on {nodes} (DeviceClass {name})", nodes=names(by_dra), name=row.device_class)
        )
    if row.elsewhere:
        parts.append(
            tr("DeviceClass {name} has devices for it that belong to no single node", name=row.device_class)
        )
    if lost and "nodes" in ctx.snapshot.kinds_read:
        parts.append(tr("nothing serves it on {nodes}", nodes=names(lost)))
    wrong = bool(parts)
    if row.device_class and not by_dra:
        parts.append(
            tr(
                "DeviceClass {name} names it: DRA takes over on a node as soon as the device plugin is gone there",
                name=row.device_class,
            )
        )
    if not parts:
        return
    shown = [*by_dra, *lost]
    yield finding(
        OTHER_SOURCE,
        tr(
            "{resource} shall be served by its device plugin: {parts}",
            resource=row.resource,
            parts="; ".join(parts),
        ),
        component="extended resource",
        instances=shown,
        name=row.resource,
        severity="warning" if wrong else "info",
        evidence=_seen(ctx, row, shown or row.by_node),
    )


def _to_move(ctx: Context, wish: ExtendedResourceWish, row: Served) -> Iterator[Finding]:
    """A resource that DRA shall serve and can, and that a device plugin still serves, or nothing."""
    nodes = _wished_nodes(ctx, wish, row)
    plugin = [node for node in nodes if row.by_node.get(node) in {"device-plugin", "both"}]
    if plugin:
        yield finding(
            OTHER_SOURCE,
            tr(
                "{resource} shall be served by DRA: a device plugin still serves it on {nodes}; it can move",
                resource=row.resource,
                nodes=names(plugin),
            ),
            component="extended resource",
            instances=plugin,
            name=row.resource,
            severity="info",
            evidence=_seen(ctx, row, plugin),
        )
    elif not row.by_node and not row.elsewhere:
        yield finding(
            OTHER_SOURCE,
            tr("{resource} shall be served by DRA: no node has a device of it", resource=row.resource),
            component="extended resource",
            name=row.resource,
        )
