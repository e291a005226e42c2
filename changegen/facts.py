"""The facts that checks compare: one table, a fact a row.

A row makes the command that people paste, evaluates the same fact on a snapshot, and reads the command's output. For
one cluster and one time, ``evaluate(snapshot, args)`` and ``parse(output, args)`` give the same value. What was not
read is not known, and a value that is not known never passes a check.

Values: text, numbers, true or false, a sorted tuple of texts, or a map of names to scalars. ``None`` as a value means
"read, and not there". Commands only read. They print rows with tabs between the columns, or a line of JSON where a
field is a list or a map (kubectl prints those as JSON). ``kubectl get --raw`` and a fresh ``--cache-dir`` are used
where kubectl's own discovery cache would ask for an API version of yesterday.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import yaml

from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import (
    AllocatedDevice,
    Claim,
    Component,
    ConfigMapFact,
    ContainerState,
    DeviceStatus,
    NodeTaint,
    PodUse,
    Pool,
    ProcessFact,
    Snapshot,
    TaintRule,
    Workload,
)
from changegen.model.ticket import Evidence, Layer
from changegen.versions import kubernetes_release, parse_image

__all__ = ["FACTS", "Args", "Fact", "Reading", "Value", "command", "evaluate", "unknown"]

Value = Scalar | tuple[Scalar, ...] | dict[str, Scalar]
Args = Mapping[str, Scalar | tuple[str, ...]]

RAW = "kubectl get --raw "
FRESH = 'kubectl --cache-dir="$(mktemp -d)" '


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of one cluster at one time."""

    value: Value = None
    known: bool = True
    reason: str = ""
    """Why it is not known."""
    gaps: dict[str, str] = {}
    """Keys of a map whose value is not known (None there), with the reason."""
    evidence: tuple[Evidence, ...] = ()


def unknown(reason: str) -> Reading:
    """A fact that could not be read, with the reason."""
    return Reading(known=False, reason=reason)


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    layer: Layer
    title: Callable[[Args], str]
    command: Callable[[Args], str]
    evaluate: Callable[[Snapshot, Args], Reading]
    parse: Callable[[str, Args], Reading]
    """Reads the command's standard output; an empty one is not known where the command always prints."""
    reads: tuple[str, ...] = ()
    """``kinds_read`` that it needs; empty: other sources."""


# ------------------------------------------------------------------------------------------------ arguments and text


def _text(args: Args, key: str) -> str:
    value = args.get(key, "")
    return "" if value is None else str(value)


def _texts(args: Args, key: str) -> tuple[str, ...]:
    value = args.get(key, ())
    if isinstance(value, tuple):
        return value
    return tuple(str(item) for item in value) if isinstance(value, list) else (str(value),)


def _quote(text: str) -> str:
    return shlex.quote(text)


def _in_filter(text: str) -> str:
    """A text as a JSONPath string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _key(text: str) -> str:
    """A map key as a JSONPath field: dots escaped."""
    return re.sub(r"([.\[\]'\"{}\\ ])", r"\\\1", text)


def _get(what: str, path: str, *, kubectl: str = "kubectl ", flags: str = "") -> str:
    return f"{kubectl}get {what}{' ' + flags if flags else ''} -o jsonpath={_quote(path)}"


def _items(columns: Sequence[str], condition: str = "") -> str:
    """A JSONPath that prints a row for each item of a list."""
    start = f"{{range .items[?({condition})]}}" if condition else "{range .items[*]}"
    return start + '{"\\t"}'.join(f"{{{column}}}" for column in columns) + '{"\\n"}{end}'


def _rows(output: str, columns: int) -> list[list[str]]:
    rows = []
    for line in output.split("\n"):
        if not line.strip():
            continue
        cells = line.rstrip("\r").split("\t")
        rows.append(cells + [""] * (columns - len(cells)))
    return rows


def _documents(text: str) -> list[object]:
    """JSON values that kubectl printed behind each other with a space between."""
    decoder = json.JSONDecoder()
    found: list[object] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        found.append(value)
    return found


def _int(text: str) -> int:
    return int(text) if text.strip().lstrip("-").isdigit() else 0


def _seen(source: str, path: str, value: object, provenance: str) -> Evidence:
    return Evidence(
        source=source, path=path, value="" if value is None else str(value), provenance=provenance
    )


def _nothing() -> Reading:
    return unknown(tr("the command printed nothing: forbidden, or the server did not answer"))


def _lacks(snapshot: Snapshot, *kinds: str, namespace: str = "") -> Reading | None:
    """The reading to give when a kind was not read (or not everywhere); None when it was."""
    for kind in kinds:
        if kind not in snapshot.kinds_read:
            reasons = [item for item in snapshot.unobserved if item.what == kind]
            detail = f": {reasons[0].reason}" if reasons else ""
            return unknown(tr("{kind} were not read{detail}", kind=kind, detail=detail))
        partial = snapshot.namespaces_read.get(kind)
        if partial is not None and (not namespace or namespace not in partial):
            return unknown(tr("{kind} were read in some namespaces only", kind=kind))
    return None


# ------------------------------------------------------------------------------------------------ server


def _server_version_parse(output: str, _args: Args) -> Reading:
    try:
        answer = json.loads(output)
    except ValueError:
        return _nothing()
    version = answer.get("gitVersion") if isinstance(answer, dict) else None
    return Reading(value=version) if version else _nothing()


def _server_version(snapshot: Snapshot, _args: Args) -> Reading:
    version = snapshot.cluster.server_version
    if not version:
        return unknown(tr("/version was not read"))
    return Reading(value=version, evidence=(_seen("/version", "gitVersion", version, "version"),))


def _readyz_value(checks: Mapping[str, bool]) -> str:
    failed = sorted(name for name, good in checks.items() if not good)
    return "failed: " + ", ".join(failed) if failed else "ok"


def _readyz_parse(output: str, _args: Args) -> Reading:
    checks = {match[2]: match[1] == "+" for match in re.finditer(r"^\[([+-])\](\S+)", output, re.MULTILINE)}
    return Reading(value=_readyz_value(checks)) if checks else _nothing()


def _readyz(snapshot: Snapshot, _args: Args) -> Reading:
    readings = [process for process in snapshot.processes if process.readyz]
    if not readings:
        return unknown(tr("/readyz was not read"))
    checks: dict[str, bool] = {}
    for process in readings:
        for name, good in process.readyz.items():
            checks[name] = good and checks.get(name, True)
    value = _readyz_value(checks)
    return Reading(value=value, evidence=(_seen(readings[0].place, "readyz", value, "api object"),))


def _apiservers(snapshot: Snapshot) -> list[ProcessFact]:
    return [process for process in snapshot.processes if process.component == "kube-apiserver"]


_STATES = {True: "on", False: "off", None: "not known to it"}


def _gate_command(args: Args) -> str:
    name = re.escape(_text(args, "gate"))
    pattern = rf'^kubernetes_build_info\{{|^kubernetes_feature_enabled\{{name="{name}",'
    return f"{RAW}/metrics | grep -E {_quote(pattern)}"


def _gate_parse(output: str, args: Args) -> Reading:
    if "kubernetes_build_info{" not in output:
        return _nothing()
    match = re.search(
        rf'^kubernetes_feature_enabled\{{name="{re.escape(_text(args, "gate"))}",[^}}]*\}} (\S+)',
        output,
        re.MULTILINE,
    )
    return Reading(value=_STATES[float(match[1]) != 0 if match else None])


def _gate(snapshot: Snapshot, args: Args) -> Reading:
    gate = _text(args, "gate")
    found = {
        process.place: process.effective_gates.get(gate)
        for process in _apiservers(snapshot)
        if process.effective_gates is not None
    }
    if not found:
        return unknown(tr("metrics of kube-apiserver were not read"))
    states = {_STATES[state] for state in found.values()}
    value = states.pop() if len(states) == 1 else "differs between instances"
    evidence = tuple(_seen(place, gate, _STATES[state], "metric") for place, state in sorted(found.items()))
    return Reading(value=value, evidence=evidence)


# ------------------------------------------------------------------------------------------------ served APIs


def _group_command(args: Args) -> str:
    pattern = '"kind":"APIGroupList"|"groupVersion":"' + re.escape(_text(args, "group_version")) + '"'
    return f"{RAW}/apis | grep -oE {_quote(pattern)} | sort -u"


def _group_parse(output: str, args: Args) -> Reading:
    if '"kind":"APIGroupList"' not in output:
        return _nothing()
    return Reading(value="yes" if f'"groupVersion":"{_text(args, "group_version")}"' in output else "no")


def _group(snapshot: Snapshot, args: Args) -> Reading:
    wanted = _text(args, "group_version")
    if not snapshot.apis:
        return unknown(tr("the list of served APIs was not read"))
    value = "yes" if any(api.group_version == wanted for api in snapshot.apis) else "no"
    return Reading(value=value, evidence=(_seen("/apis", wanted, value, "discovery"),))


def _resource_command(args: Args) -> str:
    group_version = _text(args, "group_version")
    path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    pattern = 'APIResourceList|NotFound|"name":"' + re.escape(_text(args, "resource")) + '"'
    return f"{RAW}{_quote(path)} 2>&1 | grep -oE {_quote(pattern)} | sort -u"


def _resource_parse(output: str, args: Args) -> Reading:
    if f'"name":"{_text(args, "resource")}"' in output:
        return Reading(value="yes")
    if "APIResourceList" in output or "NotFound" in output:
        return Reading(value="no")
    return _nothing()


def _resource(snapshot: Snapshot, args: Args) -> Reading:
    wanted, resource = _text(args, "group_version"), _text(args, "resource")
    if not snapshot.apis:
        return unknown(tr("the list of served APIs was not read"))
    for api in snapshot.apis:
        if api.group_version != wanted:
            continue
        if api.resources is None:
            return unknown(tr("the resources of {group_version} were not read", group_version=wanted))
        value = "yes" if any(item.name == resource for item in api.resources) else "no"
        return Reading(value=value, evidence=(_seen(f"/apis/{wanted}", resource, value, "discovery"),))
    return Reading(value="no", evidence=(_seen("/apis", wanted, "no", "discovery"),))


def _services_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    if not rows:
        return _nothing()
    return Reading(value=tuple(sorted(name for name, status, *_ in rows if status not in ("True", ""))))


def _services(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "apiservices.apiregistration.k8s.io"):
        return lack
    down = tuple(sorted(service.name for service in snapshot.api_services if service.available is False))
    return Reading(value=down)


# ------------------------------------------------------------------------------------------------ components


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
    pods = [_split(pod) for pod in _texts(args, "pods")]
    namespace = pods[0][0] if pods else ""
    names = " ".join(_quote(name) for _, name in pods)
    path = (
        _items(columns)
        if len(pods) > 1
        else '{"\\t"}'.join(f"{{{column}}}" for column in columns) + '{"\\n"}'
    )
    return _get(f"-n {_quote(namespace)} pods {names}" if names else f"-n {_quote(namespace)} pods", path)


def _component_columns(container: str) -> list[str]:
    status = f".status.containerStatuses[?(@.name=={_in_filter(container)})]"
    return [".metadata.name", ".spec.nodeName", f"{status}.image", f"{status}.state.running.startedAt"]


def _running_command(args: Args) -> str:
    container = _text(args, "container") or _text(args, "component")
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
    rows = _rows(output, 4)
    if not rows:
        return _nothing()
    component = _text(args, "component")
    found = {row[0]: (row[1], running_version(row[2], component, running=bool(row[3]))) for row in rows}
    return _by_node(found, _texts(args, "pods"))


def _state_image(component: Component) -> tuple[str, bool]:
    state: ContainerState | None = component.state
    return (state.image, state.state == "running") if state is not None else ("", False)


def _running(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "pods", namespace=_split(_texts(args, "pods")[0])[0]):
        return lack
    component, pods = _text(args, "component"), _texts(args, "pods")
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
            _seen(f"Pod {item.instance}", "status.containerStatuses", image or item.phase, "pod status")
        )
    reading = _by_node(found, pods)
    return msgspec.structs.replace(reading, evidence=tuple(evidence))


def _daemon_command(args: Args) -> str:
    container = _text(args, "container") or _text(args, "component")
    selector = _quote(_text(args, "selector"))
    path = _items(_component_columns(container))
    return _get(f"-n {_quote(_text(args, 'namespace'))} pods -l {selector}", path)


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
    rows = _rows(output, 4)
    if not rows:
        return _nothing()
    component = _text(args, "component")
    return _distinct(running_version(row[2], component, running=bool(row[3])) for row in rows)


def _daemon(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "pods", namespace=_text(args, "namespace")):
        return lack
    component = _text(args, "component")
    found = [
        item
        for item in snapshot.components
        if item.component == component
        and item.kind != "workload"
        and item.namespace == _text(args, "namespace")
    ]
    if not found:
        return unknown(tr("no Pod of {component} was seen", component=component))
    reading = _distinct(
        running_version(image, component, running=running) for image, running in map(_state_image, found)
    )
    evidence = (_seen(f"Pods of {component}", "status.containerStatuses", len(found), "pod status"),)
    return msgspec.structs.replace(reading, evidence=evidence)


def _names_gate_command(args: Args) -> str:
    return _pods_command(
        args, [".metadata.name", ".spec.nodeName", ".spec.containers[*].command", ".spec.containers[*].args"]
    )


def _names_gate_parse(output: str, args: Args) -> Reading:
    rows = _rows(output, 4)
    if not rows:
        return _nothing()
    pattern = re.compile(rf"(?:^|[=,:\s\"]){re.escape(_text(args, 'gate'))}\s*=")
    return Reading(
        value=tuple(sorted(row[1] or row[0] for row in rows if pattern.search(row[2] + " " + row[3])))
    )


def _names_gate(snapshot: Snapshot, args: Args) -> Reading:
    pods, gate = _texts(args, "pods"), _text(args, "gate")
    if lack := _lacks(snapshot, "pods", namespace=_split(pods[0])[0]):
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
            evidence.append(_seen(f"Pod {item.instance}", gate, item.feature_gates[gate], "pod spec"))
    return Reading(value=tuple(sorted(named)), evidence=tuple(evidence))


def _leader_parse(output: str, _args: Args) -> Reading:
    holder = output.strip()
    return Reading(value=_holder(holder)) if holder else _nothing()


def _holder(identity: str) -> str:
    """The host in a holder's identity, ``cp-1_3f2c…``: the random part changes at every election."""
    return re.sub(r"_[0-9a-fA-F-]{8,}$", "", identity)


def _leader(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "leases.coordination.k8s.io", namespace="kube-system"):
        return lack
    name = _text(args, "name")
    for lease in snapshot.leases:
        if lease.name == name and lease.holder:
            seen = _seen(f"Lease kube-system/{name}", "spec.holderIdentity", lease.holder, "api object")
            return Reading(value=_holder(lease.holder), evidence=(seen,))
    return unknown(tr("the lease {name} has no holder", name=name))


# ------------------------------------------------------------------------------------------------ nodes


def _node_list(columns: Sequence[str]) -> Callable[[Args], str]:
    def make(_args: Args) -> str:
        return _get("nodes", _items([".metadata.name", *columns]))

    return make


_READY = '.status.conditions[?(@.type=="Ready")].status'
_kubelet_command = _node_list([".status.nodeInfo.kubeletVersion"])


def _kubelets_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    return Reading(value={row[0]: row[1] for row in sorted(rows)}) if rows else _nothing()


def _kubelets(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "nodes"):
        return lack
    value: dict[str, Scalar] = {
        node.name: node.kubelet_version for node in sorted(snapshot.nodes, key=lambda n: n.name)
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, "status.nodeInfo.kubeletVersion"))


def _nodes_seen(snapshot: Snapshot, path: str) -> tuple[Evidence, ...]:
    return (_seen("Nodes", path, len(snapshot.nodes), "node status"),)


def _kubelet_versions_parse(output: str, args: Args) -> Reading:
    reading = _kubelets_parse(output, args)
    return _to_distinct(reading)


def _to_distinct(reading: Reading) -> Reading:
    if not reading.known or not isinstance(reading.value, dict):
        return reading
    return msgspec.structs.replace(
        reading, value=tuple(sorted({str(item) for item in reading.value.values()}))
    )


def _kubelet_versions(snapshot: Snapshot, args: Args) -> Reading:
    return _to_distinct(_kubelets(snapshot, args))


def _not_ready_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    return Reading(value=tuple(sorted(row[0] for row in rows if row[1] != "True"))) if rows else _nothing()


def _not_ready(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "nodes"):
        return lack
    value = tuple(sorted(node.name for node in snapshot.nodes if node.ready is not True))
    return Reading(value=value, evidence=_nodes_seen(snapshot, "status.conditions Ready"))


def _cordoned_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    return Reading(value=tuple(sorted(row[0] for row in rows if row[1] == "true"))) if rows else _nothing()


def _cordoned(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "nodes"):
        return lack
    value = tuple(sorted(node.name for node in snapshot.nodes if node.unschedulable))
    return Reading(value=value, evidence=_nodes_seen(snapshot, "spec.unschedulable"))


# Taints that the cluster itself sets and takes away again: what is compared is what people set.
_OWN_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)


def _taint_text(taints: Iterable[tuple[str, str, str]]) -> str:
    kept = [taint for taint in taints if not taint[0].startswith(_OWN_TAINTS)]
    return ", ".join(
        sorted(f"{key}={value}:{effect}" if value else f"{key}:{effect}" for key, value, effect in kept)
    )


def _taints_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    if not rows:
        return _nothing()
    value: dict[str, Scalar] = {}
    for row in sorted(rows):
        listed = json.loads(row[1]) if row[1] else []
        text = _taint_text((t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in listed)
        if text:
            value[row[0]] = text
    return Reading(value=value)


def _taints(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "nodes"):
        return lack

    def texts(taints: tuple[NodeTaint, ...]) -> str:
        return _taint_text((taint.key, taint.value, taint.effect) for taint in taints)

    value: dict[str, Scalar] = {
        node.name: texts(node.taints)
        for node in sorted(snapshot.nodes, key=lambda n: n.name)
        if texts(node.taints)
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, "spec.taints"))


def _allocatable_command(args: Args) -> str:
    return _get("nodes", _items([".metadata.name", f".status.allocatable.{_key(_text(args, 'resource'))}"]))


def _allocatable_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    if not rows:
        return _nothing()
    return Reading(value={row[0]: row[1] for row in sorted(rows) if row[1] not in ("", "0")})


def _allocatable(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "nodes"):
        return lack
    resource = _text(args, "resource")
    value: dict[str, Scalar] = {
        node.name: node.allocatable[resource]
        for node in sorted(snapshot.nodes, key=lambda n: n.name)
        if node.allocatable.get(resource, "0") != "0"
    }
    return Reading(value=value, evidence=_nodes_seen(snapshot, f"status.allocatable {resource}"))


def _counted(reading: Reading) -> Reading:
    """How many keys of a map have each value: for clusters whose maps are too long to print."""
    if not reading.known or not isinstance(reading.value, dict):
        return reading
    counts = Counter(str(value) for value in reading.value.values())
    return msgspec.structs.replace(reading, value=dict(sorted(counts.items())))


# ------------------------------------------------------------------------------------------------ configuration


def _kubeadm_map(snapshot: Snapshot) -> ConfigMapFact | None:
    return next((item for item in snapshot.config_maps if item.kind == "kubeadm"), None)


def _kubeadm_command(_args: Args) -> str:
    path = "{.data.ClusterConfiguration}"
    return _get("-n kube-system configmap kubeadm-config", path) + " | grep -E '^kubernetesVersion:'"


def _kubeadm_parse(output: str, _args: Args) -> Reading:
    match = re.search(r"^kubernetesVersion:\s*(\S+)", output, re.MULTILINE)
    return Reading(value=match[1].strip("\"'")) if match else _nothing()


def _kubeadm(snapshot: Snapshot, _args: Args) -> Reading:
    found = _kubeadm_map(snapshot)
    if found is None or not found.kubernetes_version:
        return unknown(tr("ConfigMap kube-system/kubeadm-config was not read"))
    seen = _seen(
        "ConfigMap kube-system/kubeadm-config", "kubernetesVersion", found.kubernetes_version, "configmap"
    )
    return Reading(value=found.kubernetes_version, evidence=(seen,))


_KUBEADM_SECTIONS = {
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}


def _kubeadm_gate_command(_args: Args) -> str:
    return _get("-n kube-system configmap kubeadm-config", "{.data.ClusterConfiguration}")


def _kubeadm_gate_parse(output: str, args: Args) -> Reading:
    try:
        document = yaml.safe_load(output)
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict):
        return _nothing()
    named = []
    pattern = re.compile(rf"(?:^|[,:\s]){re.escape(_text(args, 'gate'))}\s*=")
    for section, component in _KUBEADM_SECTIONS.items():
        extra = (document.get(section) or {}).get("extraArgs") or []
        pairs = extra.items() if isinstance(extra, dict) else [(e.get("name"), e.get("value")) for e in extra]
        if any(
            str(name).replace("_", "-") == "feature-gates" and pattern.search(str(value))
            for name, value in pairs
        ):
            named.append(component)
    return Reading(value=tuple(sorted(named)))


def _kubeadm_gate(snapshot: Snapshot, args: Args) -> Reading:
    found = _kubeadm_map(snapshot)
    if found is None:
        return unknown(tr("ConfigMap kube-system/kubeadm-config was not read"))
    gate = _text(args, "gate")
    named = tuple(
        sorted(
            component
            for component, source in found.component_gates.items()
            if component in _KUBEADM_SECTIONS.values() and gate in source.gates
        )
    )
    place = "ConfigMap kube-system/kubeadm-config"
    return Reading(
        value=named, evidence=(_seen(place, "extraArgs feature-gates", ", ".join(named), "configmap"),)
    )


# ------------------------------------------------------------------------------------------------ workloads


def _workload_kind(args: Args) -> str:
    return _text(args, "kind").lower()


def _plural(args: Args) -> str:
    return f"{_workload_kind(args)}s.apps"


def _find_workload(snapshot: Snapshot, args: Args) -> Workload | Reading:
    if lack := _lacks(snapshot, _plural(args), namespace=_text(args, "namespace")):
        return lack
    for item in snapshot.workloads:
        if (item.kind, item.namespace, item.name) == (
            _text(args, "kind"),
            _text(args, "namespace"),
            _text(args, "name"),
        ):
            return item
    return unknown(
        tr(
            "{kind} {namespace}/{name} was not seen",
            kind=_text(args, "kind"),
            namespace=_text(args, "namespace"),
            name=_text(args, "name"),
        )
    )


def _one_workload(args: Args) -> str:
    return f"-n {_quote(_text(args, 'namespace'))} {_workload_kind(args)} {_quote(_text(args, 'name'))}"


def _image_command(args: Args) -> str:
    container = _in_filter(_text(args, "container"))
    return _get(_one_workload(args), f"{{.spec.template.spec.containers[?(@.name=={container})].image}}")


def _image_parse(output: str, _args: Args) -> Reading:
    image = output.strip()
    return Reading(value=image) if image else _nothing()


def _image(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_workload(snapshot, args)
    if isinstance(found, Reading):
        return found
    image = found.images.get(_text(args, "container"))
    if not image:
        return unknown(tr("it has no container {name}", name=_text(args, "container")))
    seen = _seen(f"{found.kind} {found.namespace}/{found.name}", "spec.template", image, "workload template")
    return Reading(value=image, evidence=(seen,))


_COUNTS = {
    "DaemonSet": (".status.desiredNumberScheduled", ".status.numberReady"),
    "Deployment": (".spec.replicas", ".status.readyReplicas"),
    "StatefulSet": (".spec.replicas", ".status.readyReplicas"),
}


def _missing_command(args: Args) -> str:
    wanted, ready = _COUNTS[_text(args, "kind")]
    return _get(_one_workload(args), f'{{{wanted}}}{{"\\t"}}{{{ready}}}{{"\\n"}}')


def _missing_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    if not rows or not rows[0][0].strip():
        return _nothing()
    return Reading(value=max(0, _int(rows[0][0]) - _int(rows[0][1])))


def _missing(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_workload(snapshot, args)
    if isinstance(found, Reading):
        return found
    wanted = found.desired if found.kind == "DaemonSet" else found.replicas
    if wanted is None:
        wanted = found.replicas if found.replicas is not None else found.desired
    if wanted is None:
        return unknown(tr("its status was not read"))
    ready = found.ready or 0
    seen = _seen(f"{found.kind} {found.namespace}/{found.name}", "status", f"{ready}/{wanted}", "api object")
    return Reading(value=max(0, wanted - ready), evidence=(seen,))


def _budget_command(args: Args) -> str:
    name = f"-n {_quote(_text(args, 'namespace'))} poddisruptionbudget {_quote(_text(args, 'name'))}"
    return _get(name, "{.status.disruptionsAllowed}")


def _budget_parse(output: str, _args: Args) -> Reading:
    text = output.strip()
    return Reading(value=int(text)) if text.isdigit() else _nothing()


def _budget(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "poddisruptionbudgets.policy", namespace=_text(args, "namespace")):
        return lack
    for item in snapshot.disruption_budgets:
        if (item.namespace, item.name) == (_text(args, "namespace"), _text(args, "name")):
            if item.disruptions_allowed is None:
                break
            seen = _seen(
                f"PodDisruptionBudget {item.namespace}/{item.name}",
                "status.disruptionsAllowed",
                item.disruptions_allowed,
                "api object",
            )
            return Reading(value=item.disruptions_allowed, evidence=(seen,))
    return unknown(tr("the PodDisruptionBudget or its status was not seen"))


def _limit_command(args: Args) -> str:
    name = f"-n {_quote(_text(args, 'namespace'))} poddisruptionbudget {_quote(_text(args, 'name'))}"
    return _get(name, '{.metadata.name}{"\\t"}{.spec.minAvailable}{"\\t"}{.spec.maxUnavailable}{"\\n"}')


def _limit_text(minimum: str, maximum: str) -> str:
    return f"minAvailable {minimum}" if minimum else f"maxUnavailable {maximum}" if maximum else "none"


def _limit_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 3)
    return Reading(value=_limit_text(rows[0][1], rows[0][2])) if rows else _nothing()


def _limit(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, "poddisruptionbudgets.policy", namespace=_text(args, "namespace")):
        return lack
    for item in snapshot.disruption_budgets:
        if (item.namespace, item.name) == (_text(args, "namespace"), _text(args, "name")):
            value = _limit_text(item.min_available, item.max_unavailable)
            seen = _seen(f"PodDisruptionBudget {item.namespace}/{item.name}", "spec", value, "api object")
            return Reading(value=value, evidence=(seen,))
    return unknown(tr("the PodDisruptionBudget is not there"))


# ------------------------------------------------------------------------------------------------ DRA


SLICES = "resourceslices.resource.k8s.io"
CLAIMS = "resourceclaims.resource.k8s.io"
RULES = "devicetaintrules.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"


def _slices_command(columns: Sequence[str]) -> Callable[[Args], str]:
    def make(args: Args) -> str:
        condition = f"@.spec.driver=={_in_filter(_text(args, 'driver'))}"
        fixed = [".spec.pool.name", ".spec.pool.generation", ".spec.pool.resourceSliceCount"]
        return _get(SLICES, _items([*fixed, *columns], condition))

    return make


def _newest(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """Rows of each pool's newest generation; rows begin with pool, generation, expected slices."""
    pools: dict[str, list[list[str]]] = {}
    for row in rows:
        kept = pools.setdefault(row[0], [])
        if kept and _int(kept[0][1]) > _int(row[1]):
            continue
        if kept and _int(kept[0][1]) < _int(row[1]):
            kept.clear()
        kept.append(row)
    return dict(sorted(pools.items()))


def _pools(snapshot: Snapshot, args: Args) -> list[Pool] | Reading:
    if lack := _lacks(snapshot, SLICES):
        return lack
    driver = _text(args, "driver")
    return sorted((pool for pool in snapshot.pools if pool.driver == driver), key=lambda pool: pool.name)


def _slices_seen(args: Args, pools: Sequence[Pool]) -> tuple[Evidence, ...]:
    names = sorted(piece.name for pool in pools for piece in pool.slices if piece.counted)
    shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
    return (_seen("ResourceSlices", _text(args, "driver"), shown, "api object"),)


def _devices_parse(output: str, _args: Args) -> Reading:
    value: dict[str, Scalar] = {
        pool: sum(len(row[3].split()) for row in rows) for pool, rows in _newest(_rows(output, 4)).items()
    }
    return Reading(value=value)


def _devices(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value: dict[str, Scalar] = {pool.name: len(pool.devices) for pool in pools}
    return Reading(value=value, evidence=_slices_seen(args, pools))


def _incomplete_parse(output: str, _args: Args) -> Reading:
    pools = _newest(_rows(output, 3))
    return Reading(value=tuple(name for name, rows in pools.items() if len(rows) != _int(rows[0][2])))


def _incomplete(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value = tuple(pool.name for pool in pools if not pool.complete)
    return Reading(value=value, evidence=_slices_seen(args, pools))


def _attribute_command(args: Args) -> str:
    driver, name = _text(args, "driver"), _text(args, "attribute")
    short, full = _key(name), _key(f"{driver}/{name}")
    columns = [f".spec.devices[*].attributes.{short}", f".spec.devices[*].attributes.{full}"]
    return _slices_command(columns)(args)


def _attribute_parse(output: str, _args: Args) -> Reading:
    counts: Counter[str] = Counter()
    for rows in _newest(_rows(output, 5)).values():
        for row in rows:
            for document in _documents(row[3]) + _documents(row[4]):
                if isinstance(document, dict):
                    counts.update(str(value) for value in document.values())
    return Reading(value=dict(sorted(counts.items())))


def _attribute(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    key = f"{_text(args, 'driver')}/{_text(args, 'attribute')}"
    found = [device.attributes[key] for pool in pools for device in pool.devices if key in device.attributes]
    counts = Counter(str(item.value if item.values == () else list(item.values)) for item in found)
    return Reading(value=dict(sorted(counts.items())), evidence=_slices_seen(args, pools))


def _device_taints_parse(output: str, _args: Args) -> Reading:
    value: dict[str, Scalar] = {}
    for pool, rows in _newest(_rows(output, 4)).items():
        for row in rows:
            for document in _documents(row[3]):
                for device in document if isinstance(document, list) else []:
                    taints = device.get("taints") or (device.get("basic") or {}).get("taints") or []
                    text = _taint_text((t["key"], t.get("value") or "", t["effect"]) for t in taints)
                    if text:
                        value[f"{pool}/{device['name']}"] = text
    return Reading(value=dict(sorted(value.items())))


def _device_taints(snapshot: Snapshot, args: Args) -> Reading:
    pools = _pools(snapshot, args)
    if isinstance(pools, Reading):
        return pools
    value: dict[str, Scalar] = {}
    for pool in pools:
        for device in pool.devices:
            text = _taint_text((taint.key, taint.value, taint.effect) for taint in device.taints)
            if text:
                value[f"{pool.name}/{device.name}"] = text
    return Reading(value=dict(sorted(value.items())), evidence=_slices_seen(args, pools))


def _held_key(namespace: str, driver: str) -> str:
    return f"{namespace} {driver}"


def _held_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.allocation.devices.results[*].driver",
        ".status.reservedFor[*].name",
    ]
    return _get(f"{CLAIMS} -A", _items(columns))


def _held_value(rows: Iterable[tuple[str, Iterable[str], bool]]) -> dict[str, Scalar]:
    counts: Counter[str] = Counter()
    for namespace, drivers, reserved in rows:
        if reserved:
            counts.update(_held_key(namespace, driver) for driver in set(drivers))
    return dict(sorted(counts.items()))


def _held_parse(output: str, _args: Args) -> Reading:
    return Reading(value=_held_value((row[0], row[2].split(), bool(row[3])) for row in _rows(output, 4)))


def _held(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, CLAIMS):
        return lack
    rows = (
        (claim.namespace, (d.driver for d in claim.devices), bool(claim.reserved_for))
        for claim in snapshot.claims
    )
    seen = _seen(
        "ResourceClaims", "status.allocation, status.reservedFor", len(snapshot.claims), "api object"
    )
    return Reading(value=_held_value(rows), evidence=(seen,))


def _waiting_parse(output: str, _args: Args) -> Reading:
    return Reading(value=tuple(sorted(f"{row[0]}/{row[1]}" for row in _rows(output, 4) if not row[2])))


def _waiting(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, CLAIMS):
        return lack
    waiting = (f"{claim.namespace}/{claim.name}" for claim in snapshot.claims if not claim.devices)
    return Reading(value=tuple(sorted(waiting)))


def _status_command(args: Args) -> str:
    name = f"-n {_quote(_text(args, 'namespace'))} {CLAIMS} {_quote(_text(args, 'name'))}"
    return _get(name, '{.metadata.name}{"\\t"}{.status.devices}{"\\n"}')


def _status_text(interface: str, mac: str, ips: Sequence[str], ready: str) -> str:
    words = [interface, mac, *ips, f"Ready={ready}" if ready else ""]
    return ", ".join(word for word in words if word) or "reported"


def _status_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    if not rows:
        return _nothing()
    value: dict[str, Scalar] = {}
    for document in _documents(rows[0][1]):
        for device in document if isinstance(document, list) else []:
            network = device.get("networkData") or {}
            ready = next((c["status"] for c in device.get("conditions") or [] if c["type"] == "Ready"), "")
            value[f"{device['driver']}/{device['pool']}/{device['device']}"] = _status_text(
                network.get("interfaceName") or "",
                network.get("hardwareAddress") or "",
                network.get("ips") or [],
                ready,
            )
    return Reading(value=dict(sorted(value.items())))


def _find_claim(snapshot: Snapshot, args: Args) -> Claim | Reading:
    if lack := _lacks(snapshot, CLAIMS, namespace=_text(args, "namespace")):
        return lack
    for claim in snapshot.claims:
        if (claim.namespace, claim.name) == (_text(args, "namespace"), _text(args, "name")):
            return claim
    return unknown(tr("the ResourceClaim is not there"))


def _status(snapshot: Snapshot, args: Args) -> Reading:
    found = _find_claim(snapshot, args)
    if isinstance(found, Reading):
        return found
    value: dict[str, Scalar] = {}
    for device in found.device_status:
        ready = next((condition.status for condition in device.conditions if condition.type == "Ready"), "")
        value[_status_key(device)] = _status_text(
            device.interface_name, device.hardware_address, device.ips, ready
        )
    seen = _seen(f"ResourceClaim {found.namespace}/{found.name}", "status.devices", len(value), "api object")
    return Reading(value=dict(sorted(value.items())), evidence=(seen,))


def _status_key(device: DeviceStatus | AllocatedDevice) -> str:
    return f"{device.driver}/{device.pool}/{device.device}"


def _mapped_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.extendedResourceClaimStatus.requestMappings[*].resourceName",
    ]
    return _get("pods -A", _items(columns))


def _mapped_value(pods: Iterable[tuple[str, Iterable[str]]]) -> dict[str, Scalar]:
    counts: Counter[str] = Counter()
    for namespace, resources in pods:
        counts.update(f"{namespace} {resource}" for resource in set(resources))
    return dict(sorted(counts.items()))


def _mapped_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 3)
    return Reading(value=_mapped_value((row[0], row[2].split()) for row in rows)) if rows else _nothing()


def _mapped(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "pods"):
        return lack
    value = _mapped_value(
        (pod.namespace, (m.resource for m in pod.extended_mappings)) for pod in snapshot.pods
    )
    return Reading(
        value=value, evidence=(_seen("Pods", "status.extendedResourceClaimStatus", len(value), "api object"),)
    )


_NATIVE = re.compile(r"^(?:[^/]*|[^/]*\.?kubernetes\.io/.*)$")
_IMPLICIT = "deviceclass.resource.kubernetes.io/"


def _is_extended(resource: str) -> bool:
    """Whether a resource name is an extended one: with a domain that is not Kubernetes' own, or a class's implicit name."""
    return resource.startswith(_IMPLICIT) or _NATIVE.match(resource) is None


def _pending_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".spec.resourceClaims[*].name",
        ".spec.containers[*].resources.limits",
        ".spec.initContainers[*].resources.limits",
    ]
    return _get("pods -A --field-selector=status.phase=Pending", _items(columns))


def _asks_devices(row: list[str]) -> bool:
    if row[2]:
        return True
    documents = _documents(row[3]) + _documents(row[4])
    return any(_is_extended(str(name)) for item in documents if isinstance(item, dict) for name in item)


def _pending_parse(output: str, _args: Args) -> Reading:
    return Reading(
        value=tuple(sorted(f"{row[0]}/{row[1]}" for row in _rows(output, 5) if _asks_devices(row)))
    )


def _waits(pod: PodUse) -> bool:
    return pod.phase == "Pending" and bool(pod.claims or any(_is_extended(ask.resource) for ask in pod.asks))


def _pending(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "pods"):
        return lack
    waiting = [pod for pod in snapshot.pods if _waits(pod)]
    evidence = tuple(
        _seen(
            f"Pod {pod.namespace}/{pod.name}",
            "PodScheduled",
            pod.scheduled.message if pod.scheduled else "",
            "pod status",
        )
        for pod in waiting[:5]
    )
    return Reading(value=tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in waiting)), evidence=evidence)


def _unhealthy_command(_args: Args) -> str:
    columns = [
        ".metadata.namespace",
        ".metadata.name",
        ".status.containerStatuses[*].allocatedResourcesStatus",
    ]
    return _get("pods -A", _items(columns))


def _unhealthy_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 3)
    if not rows:
        return _nothing()
    found = set()
    for row in rows:
        for document in _documents(row[2]):
            for resource in document if isinstance(document, list) else []:
                for item in resource.get("resources") or []:
                    if item.get("health", "Healthy") != "Healthy":
                        found.add(f"{row[0]}/{row[1]} {item.get('resourceID', '')}: {item['health']}")
    return Reading(value=tuple(sorted(found)))


def _unhealthy(snapshot: Snapshot, _args: Args) -> Reading:
    if lack := _lacks(snapshot, "pods"):
        return lack
    found = {
        f"{pod.namespace}/{pod.name} {item.device}: {item.health}"
        for pod in snapshot.pods
        for item in pod.health
        if item.health != "Healthy"
    }
    return Reading(value=tuple(sorted(found)))


def _rule_command(path: str) -> Callable[[Args], str]:
    def make(args: Args) -> str:
        return _get(f"{RULES} {_quote(_text(args, 'name'))}", f'{path}{{"\\n"}}', kubectl=FRESH)

    return make


def _find_rule(snapshot: Snapshot, args: Args) -> TaintRule | Reading:
    if lack := _lacks(snapshot, RULES):
        return lack
    for rule in snapshot.taint_rules:
        if rule.name == _text(args, "name"):
            return rule
    return unknown(tr("the DeviceTaintRule is not there"))


def _line_parse(output: str, _args: Args) -> Reading:
    text = output.strip()
    return Reading(value=text) if text else _nothing()


def _rule_effect(snapshot: Snapshot, args: Args) -> Reading:
    rule = _find_rule(snapshot, args)
    if isinstance(rule, Reading):
        return rule
    seen = _seen(f"DeviceTaintRule {rule.name}", "spec.taint.effect", rule.effect, "api object")
    return Reading(value=rule.effect, evidence=(seen,))


def _rule_evicts(snapshot: Snapshot, args: Args) -> Reading:
    rule = _find_rule(snapshot, args)
    if isinstance(rule, Reading):
        return rule
    for condition in rule.conditions:
        if condition.type == "EvictionInProgress":
            seen = _seen(f"DeviceTaintRule {rule.name}", condition.type, condition.message, "api object")
            return Reading(value=condition.status, evidence=(seen,))
    return unknown(tr("the controller has not reported on the rule"))


def _class_command(args: Args) -> str:
    path = '{.metadata.name}{"\\t"}{.spec.extendedResourceName}{"\\n"}'
    return _get(f"{CLASSES} {_quote(_text(args, 'name'))}", path)


def _class_parse(output: str, _args: Args) -> Reading:
    rows = _rows(output, 2)
    return Reading(value=rows[0][1] or None) if rows else _nothing()


def _class(snapshot: Snapshot, args: Args) -> Reading:
    if lack := _lacks(snapshot, CLASSES):
        return lack
    for item in snapshot.device_classes:
        if item.name == _text(args, "name"):
            seen = _seen(
                f"DeviceClass {item.name}",
                "spec.extendedResourceName",
                item.extended_resource_name,
                "api object",
            )
            return Reading(value=item.extended_resource_name or None, evidence=(seen,))
    return unknown(tr("the DeviceClass is not there"))


def _runtime(_snapshot: Snapshot, _args: Args) -> Reading:
    return unknown(tr("needs evidence: no API object shows what a container sees"))


# ------------------------------------------------------------------------------------------------ the table

_ROWS = (
    Fact(
        name="server.version",
        layer="api",
        title=lambda _a: tr("The API server's version"),
        command=lambda _a: RAW + "/version",
        evaluate=_server_version,
        parse=_server_version_parse,
    ),
    Fact(
        name="apiserver.readyz",
        layer="api",
        title=lambda _a: tr("The API server is ready"),
        command=lambda _a: RAW + "'/readyz?verbose'",
        evaluate=_readyz,
        parse=_readyz_parse,
    ),
    Fact(
        name="apiserver.gate",
        layer="api",
        title=lambda a: tr("Feature gate {gate} as the API server says", gate=a["gate"]),
        command=_gate_command,
        evaluate=_gate,
        parse=_gate_parse,
    ),
    Fact(
        name="api.group-version",
        layer="api",
        title=lambda a: tr("{group_version} is served", group_version=a["group_version"]),
        command=_group_command,
        evaluate=_group,
        parse=_group_parse,
    ),
    Fact(
        name="api.resource",
        layer="api",
        title=lambda a: tr(
            "{group_version} serves {resource}", group_version=a["group_version"], resource=a["resource"]
        ),
        command=_resource_command,
        evaluate=_resource,
        parse=_resource_parse,
    ),
    Fact(
        name="api.services-down",
        layer="api",
        title=lambda _a: tr("APIServices that are not available"),
        command=lambda _a: _get(
            "apiservices.apiregistration.k8s.io",
            _items([".metadata.name", '.status.conditions[?(@.type=="Available")].status']),
        ),
        evaluate=_services,
        parse=_services_parse,
        reads=("apiservices.apiregistration.k8s.io",),
    ),
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
        command=lambda a: _get(f"-n kube-system lease {_quote(_text(a, 'name'))}", "{.spec.holderIdentity}"),
        evaluate=_leader,
        parse=_leader_parse,
        reads=("leases.coordination.k8s.io",),
    ),
    Fact(
        name="kubelet.by-node",
        layer="scheduling",
        title=lambda _a: tr("kubelet version, by node"),
        command=_kubelet_command,
        evaluate=_kubelets,
        parse=_kubelets_parse,
        reads=("nodes",),
    ),
    Fact(
        name="kubelet.versions",
        layer="scheduling",
        title=lambda _a: tr("kubelet versions in use"),
        command=_kubelet_command,
        evaluate=_kubelet_versions,
        parse=_kubelet_versions_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.not-ready",
        layer="scheduling",
        title=lambda _a: tr("Nodes that are not Ready"),
        command=_node_list([_READY]),
        evaluate=_not_ready,
        parse=_not_ready_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.cordoned",
        layer="scheduling",
        title=lambda _a: tr("Nodes that are cordoned"),
        command=_node_list([".spec.unschedulable"]),
        evaluate=_cordoned,
        parse=_cordoned_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.taints",
        layer="scheduling",
        title=lambda _a: tr("Node taints that people set"),
        command=_node_list([".spec.taints"]),
        evaluate=_taints,
        parse=_taints_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.allocatable",
        layer="scheduling",
        title=lambda a: tr("{resource} in the allocatable of nodes", resource=a["resource"]),
        command=_allocatable_command,
        evaluate=_allocatable,
        parse=_allocatable_parse,
        reads=("nodes",),
    ),
    Fact(
        name="nodes.taint-counts",
        layer="scheduling",
        title=lambda _a: tr("Node taints that people set, with the number of nodes"),
        command=_node_list([".spec.taints"]),
        evaluate=lambda s, a: _counted(_taints(s, a)),
        parse=lambda o, a: _counted(_taints_parse(o, a)),
        reads=("nodes",),
    ),
    Fact(
        name="nodes.allocatable-counts",
        layer="scheduling",
        title=lambda a: tr("{resource} in the allocatable, with the number of nodes", resource=a["resource"]),
        command=_allocatable_command,
        evaluate=lambda s, a: _counted(_allocatable(s, a)),
        parse=lambda o, a: _counted(_allocatable_parse(o, a)),
        reads=("nodes",),
    ),
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
    Fact(
        name="workload.image",
        layer="scheduling",
        title=lambda a: tr(
            "Image of {kind} {namespace}/{name}", kind=a["kind"], namespace=a["namespace"], name=a["name"]
        ),
        command=_image_command,
        evaluate=_image,
        parse=_image_parse,
    ),
    Fact(
        name="workload.not-ready",
        layer="scheduling",
        title=lambda a: tr(
            "{kind} {namespace}/{name}: Pods that are not ready",
            kind=a["kind"],
            namespace=a["namespace"],
            name=a["name"],
        ),
        command=_missing_command,
        evaluate=_missing,
        parse=_missing_parse,
    ),
    Fact(
        name="budget.allowed",
        layer="scheduling",
        title=lambda a: tr(
            "Disruptions that PodDisruptionBudget {namespace}/{name} allows",
            namespace=a["namespace"],
            name=a["name"],
        ),
        command=_budget_command,
        evaluate=_budget,
        parse=_budget_parse,
        reads=("poddisruptionbudgets.policy",),
    ),
    Fact(
        name="budget.limit",
        layer="scheduling",
        title=lambda a: tr(
            "Limit of PodDisruptionBudget {namespace}/{name}", namespace=a["namespace"], name=a["name"]
        ),
        command=_limit_command,
        evaluate=_limit,
        parse=_limit_parse,
        reads=("poddisruptionbudgets.policy",),
    ),
    Fact(
        name="dra.devices",
        layer="device",
        title=lambda a: tr("Devices that {driver} publishes, by pool", driver=a["driver"]),
        command=_slices_command([".spec.devices[*].name"]),
        evaluate=_devices,
        parse=_devices_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.device-counts",
        layer="device",
        title=lambda a: tr(
            "Devices a pool that {driver} publishes, with the number of pools", driver=a["driver"]
        ),
        command=_slices_command([".spec.devices[*].name"]),
        evaluate=lambda s, a: _counted(_devices(s, a)),
        parse=lambda o, a: _counted(_devices_parse(o, a)),
        reads=(SLICES,),
    ),
    Fact(
        name="dra.pools-incomplete",
        layer="device",
        title=lambda a: tr("Pools of {driver} whose newest generation lacks slices", driver=a["driver"]),
        command=_slices_command([]),
        evaluate=_incomplete,
        parse=_incomplete_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.attribute",
        layer="device",
        title=lambda a: tr(
            "Attribute {attribute} of the devices of {driver}", attribute=a["attribute"], driver=a["driver"]
        ),
        command=_attribute_command,
        evaluate=_attribute,
        parse=_attribute_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="dra.device-taints",
        layer="device",
        title=lambda a: tr("Taints that {driver} sets on its devices", driver=a["driver"]),
        command=_slices_command([".spec.devices"]),
        evaluate=_device_taints,
        parse=_device_taints_parse,
        reads=(SLICES,),
    ),
    Fact(
        name="claims.held",
        layer="scheduling",
        title=lambda _a: tr("Claims allocated and reserved, by namespace and driver"),
        command=_held_command,
        evaluate=_held,
        parse=_held_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="claims.waiting",
        layer="scheduling",
        title=lambda _a: tr("Claims that are not allocated"),
        command=_held_command,
        evaluate=_waiting,
        parse=_waiting_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="claim.device-status",
        layer="device",
        title=lambda a: tr(
            "Device status of ResourceClaim {namespace}/{name}", namespace=a["namespace"], name=a["name"]
        ),
        command=_status_command,
        evaluate=_status,
        parse=_status_parse,
        reads=(CLAIMS,),
    ),
    Fact(
        name="pods.mapped",
        layer="scheduling",
        title=lambda _a: tr("Pods whose extended resource comes from a claim of the scheduler"),
        command=_mapped_command,
        evaluate=_mapped,
        parse=_mapped_parse,
        reads=("pods",),
    ),
    Fact(
        name="pods.pending-for-devices",
        layer="scheduling",
        title=lambda _a: tr("Pending Pods that ask for devices"),
        command=_pending_command,
        evaluate=_pending,
        parse=_pending_parse,
        reads=("pods",),
    ),
    Fact(
        name="pods.unhealthy-devices",
        layer="device",
        title=lambda _a: tr("Devices that kubelets report as not healthy"),
        command=_unhealthy_command,
        evaluate=_unhealthy,
        parse=_unhealthy_parse,
        reads=("pods",),
    ),
    Fact(
        name="rule.effect",
        layer="device",
        title=lambda a: tr("Effect of DeviceTaintRule {name}", name=a["name"]),
        command=_rule_command("{.spec.taint.effect}"),
        evaluate=_rule_effect,
        parse=_line_parse,
        reads=(RULES,),
    ),
    Fact(
        name="rule.evicts",
        layer="device",
        title=lambda a: tr("DeviceTaintRule {name}: eviction in progress", name=a["name"]),
        command=_rule_command('{.status.conditions[?(@.type=="EvictionInProgress")].status}'),
        evaluate=_rule_evicts,
        parse=_line_parse,
        reads=(RULES,),
    ),
    Fact(
        name="class.extended-resource",
        layer="scheduling",
        title=lambda a: tr("Extended resource of DeviceClass {name}", name=a["name"]),
        command=_class_command,
        evaluate=_class,
        parse=_class_parse,
        reads=(CLASSES,),
    ),
    Fact(
        name="runtime.evidence",
        layer="runtime",
        title=lambda a: _text(a, "title"),
        command=lambda a: _text(a, "command"),
        evaluate=_runtime,
        parse=_line_parse,
    ),
)

FACTS: dict[str, Fact] = {row.name: row for row in _ROWS}
"""name -> row. ``Query.fact`` of a check names one."""


def command(name: str, args: Args) -> str:
    """The command that prints the fact, ready to paste; raises KeyError for a name that the table lacks."""
    return FACTS[name].command(args)


def evaluate(name: str, snapshot: Snapshot, args: Args) -> Reading:
    """The fact as the snapshot shows it; a name that this release lacks is not known."""
    row = FACTS.get(name)
    if row is None:
        return unknown(tr("this release knows no fact {name}", name=name))
    return row.evaluate(snapshot, args)
