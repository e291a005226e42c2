"""What really runs, the state of nodes, the parts that are not Kubernetes' own, and what could not be read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from changegen import words
from changegen.assess.codes import Code, finding
from changegen.assess.context import CONTROL_PLANE, Context, label_of, minors_between, names, place_of
from changegen.i18n import tr, trn
from changegen.model.snapshot import Component, Lease, Node, Workload
from changegen.model.ticket import Evidence, Finding
from changegen.times import instant, later
from changegen.versions import minor_key, parse_image, same_release, try_version
from changegen.words import unobserved_reason

NOT_PROVEN = Code(
    code="CG-RUN-001",
    title="Asked for, not proven to run",
    severity="warning",
    others=("info",),
    meaning="A Pod asks for a version, but no status of its containers proves that it runs: the kubelet has not started it, or "
    "has not reported yet.",
    remedy="Read again, and look at the instance itself: its own /readyz and /version.",
)
CRASHING = Code(
    code="CG-RUN-002",
    title="Component does not come up",
    severity="blocking",
    others=("warning",),
    meaning="A container of a component waits or crash-loops. The Pod's phase is Running all the same, which proves nothing.",
    remedy="Read its log on the machine (crictl logs); a wrong gate or flag is named there.",
)
NOT_READY = Code(
    code="CG-RUN-003",
    title="Component not ready",
    severity="warning",
    meaning="A component runs and is not ready.",
    remedy="Find out why before the change; during it, wait.",
)
OTHER_VERSION = Code(
    code="CG-RUN-004",
    title="Runs another version than asked for",
    severity="warning",
    meaning="The running container is of another version than the Pod's spec asks for: a restart is under way, or stuck.",
    remedy="Wait for the kubelet, or look at the Pod's events.",
)
RESTARTS = Code(
    code="CG-RUN-005",
    title="Component restarted often",
    severity="info",
    others=("warning",),
    meaning="Containers of a component were restarted since they were made.",
    remedy="Compare with the count after the change, so that it is not blamed for old restarts.",
)
UNTIED = Code(
    code="CG-RUN-006",
    title="Answer that no instance can be tied to",
    severity="info",
    meaning="A process said its version or settings, and nothing tells which instance it is: one of several behind one address.",
    remedy="Ask each instance on its own address.",
)
LEASES = Code(
    code="CG-RUN-007",
    title="Leases of kube-apiservers that are not seen",
    severity="info",
    meaning="The leases by which kube-apiservers name themselves do not fit the instances: a lease outlives its instance by up "
    "to an hour, or an instance of another place serves too.",
    remedy="Compare hostnames and renew times; there may be a kube-apiserver that nobody has in mind.",
)
LEADER = Code(
    code="CG-RUN-008",
    title="Leader",
    severity="info",
    others=("warning",),
    meaning="Which instance leads, as far as the lease tells; only the leader's settings count.",
    remedy="Look whom the lease names before the change: with differing replicas, the behaviour changes with the leader.",
)
NODE_NOT_READY = Code(
    code="CG-NODE-001",
    title="Node not ready before the change",
    severity="warning",
    meaning="A Node was not ready when the cluster was read.",
    remedy="Mend it first, or leave it out of the change.",
)
CORDONED = Code(
    code="CG-NODE-002",
    title="Node cordoned before the change",
    severity="info",
    meaning="A Node was unschedulable when the cluster was read.",
    remedy="Find out who cordoned it; do not uncordon it in passing.",
)
PRESSURE = Code(
    code="CG-NODE-003",
    title="Node under pressure before the change",
    severity="warning",
    meaning="A Node reports disk, memory or PID pressure, or no network.",
    remedy="Mend it first: pulling new images needs space.",
)
CONTAINERD = Code(
    code="CG-NODE-004",
    title="containerd 1.x",
    severity="warning",
    others=("blocking",),
    meaning="containerd 1.x lacks what the kubelet asks for from 1.38 on; 1.37 still falls back.",
    remedy="Move the nodes to containerd 2 before 1.38.",
)
CGROUP = Code(
    code="CG-NODE-005",
    title="cgroup v1",
    severity="warning",
    others=("info",),
    meaning="From 1.35 on the kubelet does not start on cgroup v1 unless failCgroupV1 is false, and kubeadm upgrade stops there "
    "all the same (SystemVerification). Which version a node has is in no API object.",
    remedy="Look at the nodes: stat -fc %T /sys/fs/cgroup prints cgroup2fs for v2.",
    since_minor="1.35",
)
KERNEL = Code(
    code="CG-NODE-006",
    title="Kernel that kubeadm's check does not name",
    severity="warning",
    others=("info",),
    meaning="kubeadm's system verification names 5.4, 5.10, 5.15 and 6.x or newer. Of another kernel it prints a warning and "
    "goes on: it does not stop the upgrade.",
    remedy="Ask the distributor of the kernel whether it is supported for the target, or bring it up.",
)
PARTS = Code(
    code="CG-PART-001",
    title="Parts whose support is unknown",
    severity="info",
    meaning="Network, storage, cloud and other parts run in the cluster. Whether their versions support the target is in their "
    "own documentation, not in the Kubernetes data.",
    remedy="Read the support matrix of each part for the target.",
)
IPVS = Code(
    code="CG-PART-002",
    title="kube-proxy in mode ipvs",
    severity="warning",
    meaning="Mode ipvs is deprecated since 1.35.",
    remedy="Plan the move to nftables.",
    since_minor="1.35",
)
PROXY_MODE = Code(
    code="CG-PART-003",
    title="kube-proxy without an explicit mode",
    severity="info",
    meaning="kube-proxy 1.37 warns where no mode is set, since the default may change.",
    remedy="Set mode in ConfigMap kube-proxy to what is meant.",
    since_minor="1.37",
)
AUTOSCALER = Code(
    code="CG-PART-004",
    title="Cluster autoscaler beside the change",
    severity="warning",
    meaning="A cluster autoscaler runs: during drains it can remove emptied nodes, and make new ones of the old version.",
    remedy="Pause it for the window, or level its node groups' version first.",
)
FAILED_READS = Code(
    code="CG-READ-001",
    title="Could not be read",
    severity="warning",
    meaning="A read was tried and failed (forbidden, cut off, server error). It is not the same as nothing there.",
    remedy="Grant the right, and read again: changegen rbac prints what is needed.",
)
NOT_IN_INPUT = Code(
    code="CG-READ-002",
    title="Not in the input",
    severity="info",
    others=("warning",),
    meaning="Kinds or answers that the assessment uses were not in the capture.",
    remedy="Add them to the capture, or read the cluster itself.",
)
STALE_KINDS = Code(
    code="CG-READ-003",
    title="Only some namespaces were read",
    severity="warning",
    meaning="Objects of a kind were read in some namespaces only: counts are too low, and what is not listed may exist.",
    remedy="Read all namespaces.",
)
CODES = (
    NOT_PROVEN,
    CRASHING,
    NOT_READY,
    OTHER_VERSION,
    RESTARTS,
    UNTIED,
    LEASES,
    LEADER,
    NODE_NOT_READY,
    CORDONED,
    PRESSURE,
    CONTAINERD,
    CGROUP,
    KERNEL,
    PARTS,
    IPVS,
    PROXY_MODE,
    AUTOSCALER,
    FAILED_READS,
    NOT_IN_INPUT,
    STALE_KINDS,
)

_PRESSURE: Final = {
    "DiskPressure": "True",
    "MemoryPressure": "True",
    "PIDPressure": "True",
    "NetworkUnavailable": "True",
}
# Of these, only what stands in kube-system is ever looked at.
_OF_THE_SYSTEM: Final = frozenset({"configmaps", "leases.coordination.k8s.io"})
_MANY_RESTARTS: Final = 5
_WARN_RESTARTS: Final = 20


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on what runs, nodes, other parts, and what was not read."""
    yield from _running(ctx)
    yield from _untied(ctx)
    yield from _leases(ctx)
    yield from _nodes(ctx)
    yield from _requirements(ctx)
    yield from _parts(ctx)
    yield from _unread(ctx)


# ------------------------------------------------------------------------------------------------------- running


def _running(ctx: Context) -> Iterator[Finding]:
    for name, instances in ctx.instances.items():
        pods = [c for c in instances if c.kind in {"static pod", "pod", "daemonset pod"}]
        silent = [c for c in pods if c.running_version is None and (c.state is None or not c.state.state)]
        crashing = [c for c in pods if _waits(c)]
        other = [
            c
            for c in pods
            if c.running_version is not None
            and (a := try_version(c.running_version)) is not None
            and (b := try_version(c.version)) is not None
            and not same_release(a, b)
        ]
        unready = [c for c in pods if c.ready is False and c not in crashing and c not in silent]
        control = name in CONTROL_PLANE or name == "etcd"
        if silent:
            yield _grouped(
                NOT_PROVEN,
                tr(
                    "{component} of {where} asks for {versions}, and no container status proves that it runs ({phases}).",
                    component=name,
                    versions=names({c.version for c in silent}),
                    phases=names({tr("phase {phase}", phase=c.phase or "-") for c in silent}),
                    where=names(place_of(c) for c in silent),
                ),
                name,
                silent,
                "status.containerStatuses",
                severity=None if control else "info",
            )
        if crashing:
            yield _grouped(
                CRASHING,
                tr(
                    "{component} does not come up on {where}: {states}. The Pod's phase is {phases}, which proves nothing.",
                    component=name,
                    where=names(place_of(c) for c in crashing),
                    states=names({_state_text(c) for c in crashing}),
                    phases=names({c.phase or "-" for c in crashing}),
                ),
                name,
                crashing,
                "status.containerStatuses.state",
                severity=None if control else "warning",
            )
        if other:
            yield _grouped(
                OTHER_VERSION,
                tr(
                    "{component} on {where}: {pairs}.",
                    component=name,
                    where=names(place_of(c) for c in other),
                    pairs=names(
                        {tr("asked for {a}, runs {b}", a=c.version, b=c.running_version) for c in other}
                    ),
                ),
                name,
                other,
                "status.containerStatuses.image",
            )
        if unready:
            yield _grouped(
                NOT_READY,
                tr(
                    "{component} is not ready on {where}.",
                    component=name,
                    where=names(place_of(c) for c in unready),
                ),
                name,
                unready,
                "status.conditions[Ready]",
            )
        restarted = [c for c in pods if c.state is not None and c.state.restarts >= _MANY_RESTARTS]
        if restarted:
            counts = {label_of(c): c.state.restarts for c in restarted if c.state is not None}
            yield _grouped(
                RESTARTS,
                tr(
                    "{component} was restarted: {counts}.",
                    component=name,
                    counts=names(
                        trn("{where} {n} time", "{where} {n} times", n=n, where=label)
                        for label, n in counts.items()
                    ),
                ),
                name,
                restarted,
                "status.containerStatuses.restartCount",
                severity="warning" if control and max(counts.values()) >= _WARN_RESTARTS else None,
            )


def _waits(component: Component) -> bool:
    state = component.state
    if state is None:
        return False
    word = state.state
    return (
        word.startswith("waiting:") and word not in {"waiting:ContainerCreating", "waiting:PodInitializing"}
    ) or (word.startswith("terminated:") and state.exit_code not in {0, None})


def _state_text(component: Component) -> str:
    state = component.state
    if state is None:
        return ""
    text = state.state.replace(":", " ", 1)
    if state.exit_code is not None:
        text += " " + tr("(exit {code})", code=state.exit_code)
    return f"{text}: {state.message}" if state.message else text


def _grouped(
    code: Code, message: str, component: str, group: list[Component], path: str, severity: str | None = None
) -> Finding:
    return finding(
        code,
        message,
        component=component,
        instances=[label_of(c) for c in group],
        evidence=[
            Evidence(
                source=label_of(c),
                path=path,
                value=(_state_text(c) or (c.state.image if c.state is not None else "") or tr("absent")),
                provenance="pod status",
            )
            for c in group[:4]
        ],
        severity=severity,  # type: ignore[arg-type]
        preexisting=True,
    )


def _untied(ctx: Context) -> Iterator[Finding]:
    """Answers of processes behind which more than one instance may stand."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for process in ctx.snapshot.processes:
        if process.node is None and len(ctx.of(process.component)) > 1:
            groups[process.component].append(process.place)
            if process.version:
                versions[process.component].add(process.version)
    for component, places in sorted(groups.items()):
        instances = ctx.of(component)
        text = tr(
            "{places}: one {component} answered, one of {count}; which one is not known.",
            places=names(places),
            component=component,
            count=len(instances),
        )
        if versions[component]:
            text += " " + tr("It runs {version}.", version=names(versions[component]))
            proven = {c.running_version for c in instances if c.running_version is not None}
            asked = {
                c.version for c in instances if c.running_version is None and c.version in versions[component]
            }
            if asked and not versions[component] & proven:
                text += " " + tr(
                    "That is what {where} asks for, but nothing ties the answer to it.",
                    where=names(
                        label_of(c) for c in instances if c.version in asked and c.running_version is None
                    ),
                )
        yield finding(
            UNTIED,
            text,
            component=component,
            instances=[label_of(c) for c in instances],
            evidence=[
                Evidence(source=place, path="", value=names(versions[component]), provenance="inferred")
                for place in sorted(set(places))[:5]
            ],
        )


# -------------------------------------------------------------------------------------------------------- leases


def _stale(lease: Lease, now: str) -> bool | None:
    """Whether a lease had run out when the cluster was read; None where times are missing."""
    renewed, read = instant(lease.renewed), instant(now)
    if renewed is None or read is None or lease.duration_seconds is None:
        return None
    end = later(renewed, lease.duration_seconds)
    return end is not None and end < read


def _quiet(lease: Lease, now: str) -> bool:
    """Whether an apiserver's lease (renewed every 10 s, valid for an hour) was not renewed for a minute."""
    renewed, read = instant(lease.renewed), instant(now)
    end = later(renewed, 60) if renewed is not None else None
    return end is not None and read is not None and end < read


def _leases(ctx: Context) -> Iterator[Finding]:
    servers = [lease for lease in ctx.snapshot.leases if lease.identity_of == "kube-apiserver"]
    captured = ctx.snapshot.captured_at
    if servers:
        quiet = [lease for lease in servers if _quiet(lease, captured)]
        alive = [lease for lease in servers if lease not in quiet]
        hosts = {c.node for c in ctx.of("kube-apiserver")} | {
            node.hostname
            for node in ctx.snapshot.nodes
            if node.name in {c.node for c in ctx.of("kube-apiserver")}
        }
        strangers = [lease for lease in alive if lease.hostname and lease.hostname not in hosts]
        count = len(ctx.of("kube-apiserver"))
        if quiet or strangers or (count and len(alive) != count):
            parts = [
                tr(
                    "Leases of kube-apiservers that are renewed: {alive}; instances that are seen: {count}.",
                    alive=len(alive),
                    count=count,
                )
            ]
            if quiet:
                parts.append(
                    tr(
                        "{names} was not renewed for more than a minute: a lease outlives its instance by up to an hour.",
                        names=names(lease.name for lease in quiet),
                    )
                )
            if strangers:
                parts.append(
                    tr(
                        "{hosts} is the host of no kube-apiserver that was seen.",
                        hosts=names(lease.hostname for lease in strangers),
                    )
                )
            yield finding(
                LEASES,
                " ".join(parts),
                component="kube-apiserver",
                instances=[lease.name for lease in servers],
                evidence=[
                    Evidence(
                        source=f"leases/kube-system/{lease.name}",
                        path="spec.renewTime",
                        value=f"{lease.hostname} {lease.renewed}",
                        provenance="api object",
                    )
                    for lease in servers[:5]
                ],
                preexisting=True,
            )
    for component in ("kube-controller-manager", "kube-scheduler"):
        found = next((x for x in ctx.snapshot.leases if x.name == component and not x.identity_of), None)
        if found is None or not found.holder:
            continue
        host = found.holder.rsplit("_", 1)[0]
        holder = next((c for c in ctx.of(component) if host and host in _names_of(ctx, c)), None)
        late = _stale(found, captured) is True
        if holder is not None:
            text = tr("{where} leads {component}.", where=label_of(holder), component=component)
        else:
            text = tr(
                "The leader of {component} is {holder}, which fits no instance that was seen.",
                component=component,
                holder=found.holder,
            )
        if late:
            text += " " + tr("The lease had run out when the cluster was read: nobody leads.")
        yield finding(
            LEADER,
            text,
            component=component,
            instances=[label_of(holder)] if holder is not None else [],
            name="leader",
            evidence=(
                Evidence(
                    source=f"leases/kube-system/{component}",
                    path="spec.holderIdentity",
                    value=found.holder,
                    provenance="api object",
                ),
            ),
            severity="warning" if late else None,
            preexisting=late,
        )


def _names_of(ctx: Context, component: Component) -> set[str]:
    """Host names under which an instance may hold a lease: its node's, and the Pod's where it has no host network."""
    node = ctx.nodes.get(component.node or "")
    known = {component.node or "", (component.instance or "").rpartition("/")[2]}
    return (known | {node.hostname} if node is not None else known) - {""}


# --------------------------------------------------------------------------------------------------------- nodes


def _nodes(ctx: Context) -> Iterator[Finding]:
    nodes = ctx.snapshot.nodes
    down = [node for node in nodes if node.ready is False]
    if down:
        yield _node_finding(
            NODE_NOT_READY,
            trn(
                "Not ready: {names} ({count} of {n} Node).",
                "Not ready: {names} ({count} of {n} Nodes).",
                n=len(nodes),
                count=len(down),
                names=names(n.name for n in down),
            ),
            down,
            "status.conditions[Ready]",
        )
    cordoned = [node for node in nodes if node.unschedulable]
    if cordoned:
        yield _node_finding(
            CORDONED,
            tr(
                "Cordoned: {names}.",
                count=len(cordoned),
                names=names(n.name for n in cordoned),
            ),
            cordoned,
            "spec.unschedulable",
        )
    by: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for condition in node.conditions:
            if _PRESSURE.get(condition.type) == condition.status:
                by[condition.type].append(node)
    for kind, group in sorted(by.items()):
        yield _node_finding(
            PRESSURE,
            tr("{condition} on {names}.", condition=kind, names=names(n.name for n in group)),
            group,
            f"status.conditions[{kind}]",
            name=kind,
        )


def _node_finding(code: Code, message: str, group: list[Node], path: str, name: str = "") -> Finding:
    return finding(
        code,
        message,
        component="node condition" if name else "Node",
        instances=[node.name for node in group],
        name=name,
        evidence=[
            Evidence(source=f"nodes/{node.name}", path=path, provenance="api object") for node in group[:5]
        ],
        preexisting=True,
    )


_ACCEPTED_KERNELS: Final = ((5, 4), (5, 10), (5, 15))
"""Beside 6.x and newer: k8s.io/system-validators, types_unix.go; another one is a warning (kernel_validator.go, Validate)."""


def _requirements(ctx: Context) -> Iterator[Finding]:
    minor = ctx.target_minor
    if minor is None:
        return
    linux = [n for n in ctx.snapshot.nodes if n.operating_system in {"", "linux"}]
    old = [
        n
        for n in linux
        if n.container_runtime.startswith("containerd://")
        and (v := try_version(n.container_runtime.partition("://")[2])) is not None
        and v.major == 1
    ]
    if old:
        breaks = minor_key(minor) >= (1, 38)
        yield finding(
            CONTAINERD,
            tr(
                "containerd 1.x ({versions}) runs on {names}.",
                versions=names({n.container_runtime.partition("://")[2] for n in old}),
                names=names(n.name for n in old),
            ),
            component="container runtime",
            instances=[n.name for n in old],
            name="containerd",
            evidence=[
                Evidence(
                    source=f"nodes/{n.name}",
                    path="status.nodeInfo.containerRuntimeVersion",
                    value=n.container_runtime,
                    provenance="node status",
                )
                for n in old[:3]
            ],
            severity="blocking" if breaks else None,
        )
    if minor_key(minor) >= (1, 35):
        yield from _cgroups(ctx, linux)
    weak = [
        n for n in linux if (k := _kernel(n.kernel)) is not None and k < (6, 0) and k not in _ACCEPTED_KERNELS
    ]
    if weak:
        yield finding(
            KERNEL,
            tr(
                "Kernels that kubeadm's check does not name ({versions}) run on {names}: it warns and goes on.",
                versions=names({n.kernel for n in weak}),
                names=names(n.name for n in weak),
            ),
            component="kernel",
            instances=[n.name for n in weak],
            # What lies between two of those that it names is often a distributor's own with years of support.
            severity=None
            if any((_kernel(n.kernel) or (0, 0)) < min(_ACCEPTED_KERNELS) for n in weak)
            else "info",
        )


def _kernel(text: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _cgroups(ctx: Context, linux: list[Node]) -> Iterator[Finding]:
    """Whether a node has cgroup v1 is in no API object; the setting that lets it start is, and so is its absence."""
    settings = [
        (c, c.settings["failCgroupV1"]) for c in ctx.config_maps("kubelet") if "failCgroupV1" in c.settings
    ]
    for config, value in settings:
        if value is False:
            yield finding(
                CGROUP,
                tr(
                    "ConfigMap {place} sets failCgroupV1: false: kubelets start on cgroup v1, which goes in a later minor.",
                    place=f"{config.namespace}/{config.name}",
                ),
                component="kubelet",
                name="failCgroupV1",
                evidence=(
                    Evidence(
                        source=f"{config.namespace}/{config.name}",
                        path="failCgroupV1",
                        value="false",
                        provenance="configmap",
                    ),
                ),
            )
    crosses = ctx.today_minor is not None and minors_between(ctx.today_minor, "1.35") > 0
    if not settings and linux and crosses:
        yield finding(
            CGROUP,
            trn(
                "From 1.35 on a kubelet does not start on cgroup v1. Which version {n} node has is in no API object.",
                "From 1.35 on a kubelet does not start on cgroup v1. Which version {n} nodes have is in no API object.",
                n=len(linux),
            ),
            component="kubelet",
            name="failCgroupV1",
            severity="info",
        )


# --------------------------------------------------------------------------------------------------------- parts


def other_parts(ctx: Context) -> dict[str, str]:
    """Parts that are not Kubernetes' own: what they are → images with tags; support for the target is unknown."""
    found: dict[str, set[str]] = defaultdict(set)
    for workload in ctx.snapshot.workloads:
        if (
            not workload.addon
            or workload.addon in {"kube-proxy", "coredns"}
            or workload.addon.startswith("dra-driver")
        ):
            continue
        found[workload.addon].update(_tags(workload))
    runtimes = Counter(n.container_runtime for n in ctx.snapshot.nodes if n.container_runtime)
    if runtimes:
        found["container runtime"] = {
            tr("{runtime} on {nodes}", runtime=runtime.replace("://", " "), nodes=words.nodes(count))
            for runtime, count in runtimes.items()
        }
    for component in ctx.of("cloud-controller-manager"):
        found["cloud-controller-manager"].add(component.version)
    return {name: ", ".join(sorted(found[name])) for name in sorted(found)}


def _tags(workload: Workload) -> set[str]:
    tags = set()
    for image in workload.images.values():
        reference = parse_image(image)
        tags.add(f"{reference.name}:{reference.tag or (reference.digest or '?')[:19]}")
    return tags


def _parts(ctx: Context) -> Iterator[Finding]:
    if ctx.target is None:
        return
    parts = {k: v for k, v in other_parts(ctx).items() if k != "container runtime"}
    if parts:
        yield finding(
            PARTS,
            tr(
                "Support for {target} is unknown of {parts}.",
                target=ctx.target.text,
                parts="; ".join(f"{name} ({tags})" for name, tags in parts.items()),
            ),
            component="other parts",
            instances=list(parts),
        )
    for workload in ctx.snapshot.workloads:
        if workload.addon == "autoscaler":
            yield finding(
                AUTOSCALER,
                tr("{name} runs.", name=f"{workload.kind} {workload.namespace}/{workload.name}"),
                component="autoscaler",
                instances=[f"{workload.namespace}/{workload.name}"],
            )
    minor = ctx.target_minor
    for config in ctx.config_maps("kube-proxy"):
        mode = config.settings.get("mode")
        place = f"{config.namespace}/{config.name}"
        evidence = (Evidence(source=place, path="mode", value=str(mode or ""), provenance="configmap"),)
        if mode == "ipvs" and minor is not None and minor_key(minor) >= (1, 35):
            yield finding(
                IPVS,
                tr("ConfigMap {place} sets mode ipvs, deprecated since 1.35.", place=place),
                component="kube-proxy",
                name="mode",
                evidence=evidence,
            )
        elif not mode and minor is not None and minor_key(minor) >= (1, 37):
            yield finding(
                PROXY_MODE,
                tr(
                    "ConfigMap {place} sets no mode; kube-proxy {minor} warns about it.",
                    place=place,
                    minor=minor,
                ),
                component="kube-proxy",
                name="mode",
                evidence=evidence,
            )


# -------------------------------------------------------------------------------------------------------- unread


def _unread(ctx: Context) -> Iterator[Finding]:
    failed = [u for u in ctx.snapshot.unobserved if u.failed]
    for item in failed:
        yield finding(
            FAILED_READS,
            tr(
                "{what} could not be read ({reason}): {detail}",
                what=item.what,
                reason=unobserved_reason(item.reason),
                detail=item.detail or tr("no more is known"),
            ),
            component="reading",
            name=item.what,
            evidence=(
                Evidence(source=item.place or item.what, path="", value=item.detail, provenance="api object"),
            ),
            advice=item.remedy or None,
        )
    absent = [u for u in ctx.snapshot.unobserved if not u.failed]
    if absent:
        by: defaultdict[str, list[str]] = defaultdict(list)
        for item in absent:
            by[item.reason].append(item.what)
        text = "; ".join(
            f"{unobserved_reason(reason)}: {names(what, 12)}" for reason, what in sorted(by.items())
        )
        yield finding(
            NOT_IN_INPUT,
            tr("Not seen ({count}): {text}.", count=len(absent), text=text),
            component="reading",
            instances=[u.what for u in absent],
        )
    narrow = [
        kind
        for kind, namespaces in ctx.snapshot.namespaces_read.items()
        if kind not in _OF_THE_SYSTEM or "kube-system" not in namespaces
    ]
    if narrow:
        yield finding(
            STALE_KINDS,
            tr("Only some namespaces were read of {kinds}.", kinds=names(narrow, 12)),
            component="reading",
            instances=narrow,
        )
