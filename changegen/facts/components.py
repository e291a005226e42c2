"""Facts of component instances: what runs, what their command lines name, who leads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from changegen.facts.base import (
    Args,
    Fact,
    Reading,
    arg,
    args_of,
    for_items,
    in_filter,
    kubectl_get,
    lacking,
    printed_nothing,
    read_rows,
    seen_in,
    unknown,
)
from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import (
    Component,
    ContainerState,
    Snapshot,
)
from changegen.shell import quoted
from changegen.versions import kubernetes_release, parse_image


def running_version(status_image: str, component: str, *, running: bool) -> Reading:
    """The version that a container status proves: only a running container whose image has a tag proves one."""
    if not running:
        return unknown(tr("its container does not run"))
    tag = parse_image(status_image).tag
    version = kubernetes_release(tag, component)
    if version is None:
        return unknown(tr("the running image names no version: {image}", image=status_image or "-"))
    return Reading(value=version)


def _split(pod: str) -> tuple[str, str]:
    namespace, _, name = pod.rpartition("/")
    return namespace, name


def _pods_command(args: Args, columns: Sequence[str]) -> str:
    pods = [_split(pod) for pod in args_of(args, "pods")]
    namespace = pods[0][0] if pods else ""
    names = " ".join(quoted(name) for _, name in pods)
    path = (
        for_items(columns)
        if len(pods) > 1
        else '{"\\t"}'.join(f"{{{column}}}" for column in columns) + '{"\\n"}'
    )
    return kubectl_get(
        f"-n {quoted(namespace)} pods {names}" if names else f"-n {quoted(namespace)} pods", path
    )


def _component_columns(container: str) -> list[str]:
    status = f".status.containerStatuses[?(@.name=={in_filter(container)})]"
    return [".metadata.name", ".spec.nodeName", f"{status}.image", f"{status}.state.running.startedAt"]


def _running_command(args: Args) -> str:
    container = arg(args, "container") or arg(args, "component")
    return _pods_command(args, _component_columns(container))


def _by_node(found: Mapping[str, tuple[str, Reading]], pods: Iterable[str]) -> Reading:
    """A map from node to version; what no container status proves is None there, with its reason."""
    value: dict[str, Scalar] = {}
    gaps: dict[str, str] = {}
    for pod in pods:
        node, reading = found.get(_split(pod)[1], ("", unknown(tr("the Pod is not there"))))
        key = node or _split(pod)[1]
        value[key] = reading.value if reading.known else None  # type: ignore[assignment]
        if not reading.known:
            gaps[key] = reading.reason
    return Reading(value=dict(sorted(value.items())), gaps=dict(sorted(gaps.items())))


def _running_parse(output: str, args: Args) -> Reading:
    rows = read_rows(output, 4)
    if not rows:
        return printed_nothing()
    component = arg(args, "component")
    found = {row[0]: (row[1], running_version(row[2], component, running=bool(row[3]))) for row in rows}
    return _by_node(found, args_of(args, "pods"))


def _state_image(component: Component) -> tuple[str, bool]:
    state: ContainerState | None = component.state
    return (state.image, state.state == "running") if state is not None else ("", False)


def _running(snapshot: Snapshot, args: Args) -> Reading:
    if lack := lacking(snapshot, "pods", namespace=_split(args_of(args, "pods")[0])[0]):
        return lack
    component, pods = arg(args, "component"), args_of(args, "pods")
    found = {}
    evidence = []
    for item in snapshot.components:
        if item.component != component or item.instance not in pods:
            continue
        image, running = _state_image(item)
        found[_split(item.instance)[1]] = (
            item.node or "",
            running_version(image, component, running=running),
        )
        evidence.append(
            seen_in(f"Pod {item.instance}", "status.containerStatuses", image or item.phase, "pod status")
        )
    reading = _by_node(found, pods)
    return msgspec.structs.replace(reading, evidence=tuple(evidence))


def _daemon_command(args: Args) -> str:
    container = arg(args, "container") or arg(args, "component")
    selector = quoted(arg(args, "selector"))
    path = for_items(_component_columns(container))
    return kubectl_get(f"-n {quoted(arg(args, 'namespace'))} pods -l {selector}", path)


def _distinct(readings: Iterable[Reading]) -> Reading:
    """The distinct versions that run; Pods that prove none are counted under their reason."""
    versions: set[str] = set()
    gaps: Counter[str] = Counter()
    for reading in readings:
        if reading.known:
            versions.add(str(reading.value))
        else:
            gaps[reading.reason] += 1
    reasons = {reason: tr("{n} Pods", n=count) for reason, count in sorted(gaps.items())}
    return Reading(value=tuple(sorted(versions)), gaps=reasons)


def _daemon_parse(output: str, args: Args) -> Reading:
    rows = read_rows(output, 4)
    if not rows:
        return printed_nothing()
    component = arg(args, "component")
    return _distinct(running_version(row[2], component, running=bool(row[3])) for row in rows)


def _daemon(snapshot: Snapshot, args: Args) -> Reading:
    if lack := lacking(snapshot, "pods", namespace=arg(args, "namespace")):
        return lack
    component = arg(args, "component")
    found = [
        item
        for item in snapshot.components
        if item.component == component
        and item.kind != "workload"
        and item.namespace == arg(args, "namespace")
    ]
    if not found:
        return unknown(tr("no Pod of {component} was seen", component=component))
    reading = _distinct(
        running_version(image, component, running=running) for image, running in map(_state_image, found)
    )
    evidence = (seen_in(f"Pods of {component}", "status.containerStatuses", len(found), "pod status"),)
    return msgspec.structs.replace(reading, evidence=evidence)


def _names_gate_command(args: Args) -> str:
    return _pods_command(
        args, [".metadata.name", ".spec.nodeName", ".spec.containers[*].command", ".spec.containers[*].args"]
    )


def _names_gate_parse(output: str, args: Args) -> Reading:
    rows = read_rows(output, 4)
    if not rows:
        return printed_nothing()
    pattern = re.compile(rf"(?:^|[=,:\s\"]){re.escape(arg(args, 'gate'))}\s*=")
    return Reading(
        value=tuple(sorted(row[1] or row[0] for row in rows if pattern.search(row[2] + " " + row[3])))
    )


def _names_gate(snapshot: Snapshot, args: Args) -> Reading:
    pods, gate = args_of(args, "pods"), arg(args, "gate")
    if lack := lacking(snapshot, "pods", namespace=_split(pods[0])[0]):
        return lack
    named = []
    evidence = []
    for item in snapshot.components:
        if item.instance not in pods:
            continue
        if item.feature_gates == "unobservable":
            return unknown(tr("the gates of {instance} cannot be observed", instance=item.instance))
        if gate in item.feature_gates:
            named.append(item.node or _split(item.instance)[1])
            evidence.append(seen_in(f"Pod {item.instance}", gate, item.feature_gates[gate], "pod spec"))
    return Reading(value=tuple(sorted(named)), evidence=tuple(evidence))


def _leader_parse(output: str, _args: Args) -> Reading:
    holder = output.strip()
    return Reading(value=_holder(holder)) if holder else printed_nothing()


def _holder(identity: str) -> str:
    """The host in a holder's identity, ``cp-1_3f2c…``: the random part changes at every election."""
    return re.sub(r"_[0-9a-fA-F-]{8,}$", "", identity)


def _leader(snapshot: Snapshot, args: Args) -> Reading:
    if lack := lacking(snapshot, "leases.coordination.k8s.io", namespace="kube-system"):
        return lack
    name = arg(args, "name")
    for lease in snapshot.leases:
        if lease.name == name and lease.holder:
            seen = seen_in(f"Lease kube-system/{name}", "spec.holderIdentity", lease.holder, "api object")
            return Reading(value=_holder(lease.holder), evidence=(seen,))
    return unknown(tr("the lease {name} has no holder", name=name))


ROWS: tuple[Fact, ...] = (
    Fact(
        name="component.running",
        layer="api",
        title=lambda a: tr("{component} that runs, by node", component=a["component"]),
        command=_running_command,
        evaluate=_running,
        parse=_running_parse,
        reads=("pods",),
    ),
    Fact(
        name="component.names-gate",
        layer="api",
        title=lambda a: tr("Nodes whose {component} names {gate}", component=a["component"], gate=a["gate"]),
        command=_names_gate_command,
        evaluate=_names_gate,
        parse=_names_gate_parse,
        reads=("pods",),
    ),
    Fact(
        name="component.daemon-versions",
        layer="scheduling",
        title=lambda a: tr("Versions of {component} that run", component=a["component"]),
        command=_daemon_command,
        evaluate=_daemon,
        parse=_daemon_parse,
        reads=("pods",),
    ),
    Fact(
        name="leader",
        layer="scheduling",
        title=lambda a: tr("Leader of {name}", name=a["name"]),
        command=lambda a: kubectl_get(
            f"-n kube-system lease {quoted(arg(a, 'name'))}", "{.spec.holderIdentity}"
        ),
        evaluate=_leader,
        parse=_leader_parse,
        reads=("leases.coordination.k8s.io",),
    ),
)
"""The rows of this module, in the order of the table."""
