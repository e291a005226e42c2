"""Component instances: every copy of every component, with its version, gates and flags, and where each was read.

A container is known by its real binary, its name, its image, or a label of its Pod (``component``, ``k8s-app``,
``app.kubernetes.io/name``, Gardener's ``role``); never by the Pod's name or a host name. The version of an instance is what its
image asks for; that it runs is proven only by the status of a running container, by nodeInfo, or by the process itself.

Belonging: Pods of kube-system and openshift-* namespaces are this cluster's; those of another cluster's control plane are kept
apart by owner; what runs elsewhere and belongs to no known owner (an application's own etcd) is no component.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from changegen.collect import wire
from changegen.collect.configmaps import Configuration, gate_source_of_flags, gate_source_of_map
from changegen.collect.distributions import KNOWLEDGE, Detected, hosted_by
from changegen.collect.flags import (
    Program,
    config_facts,
    is_component,
    parse_flags,
    unwrap,
    values_of,
    words_after,
)
from changegen.collect.inventory import Inventory, Located, VersionInfo
from changegen.collect.machineconfigs import CURRENT_CONFIG, machine_config_gates
from changegen.collect.nodes import condition_facts, ready_of
from changegen.i18n import tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import (
    Component,
    ConfigFact,
    ContainerState,
    GateSource,
    ProcessFact,
    Unobserved,
)
from changegen.versions import kubernetes_release, minor_key, minor_of, parse_image

__all__ = ["HERE", "OpenShiftGates", "Seen", "assemble", "find_pods", "sort_key"]

HERE: Final = "this cluster"
ORDER: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "etcd",
    "kubelet",
    "kube-proxy",
)
CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

_WORKLOADS: Final = (
    ("daemonsets.apps", "DaemonSet"),
    ("deployments.apps", "Deployment"),
    ("statefulsets.apps", "StatefulSet"),
)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_ETCD_ENVIRONMENT: Final = frozenset({"ETCD_FEATURE_GATES", "ETCD_CONFIG_FILE"})
_GARDENER_ROLES: Final = {
    "apiserver": "kube-apiserver",
    "scheduler": "kube-scheduler",
    "controller-manager": "kube-controller-manager",
}
_LABELS: Final = ("component", "k8s-app", "app.kubernetes.io/name")
_KUBEADM_LIKE: Final = frozenset({"kubeadm", "kind", "minikube", "cluster-api"})
_KUBEADM_MANIFESTS: Final = "/etc/kubernetes/manifests"
_RKE2_MANIFESTS: Final = "/var/lib/rancher/rke2/agent/pod-manifests"
_NODE_ARGS: Final = ("k3s.io/node-args", "rke2.io/node-args")

Kind = Literal["static pod", "pod", "daemonset pod", "workload", "node", "annotation", "inferred"]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was recognised as a component."""

    component: str
    container: wire.Container
    program: Program
    namespace: str
    name: str
    """Of the Pod or workload."""
    place: str
    belongs_to: str
    kind: Kind
    pod: wire.Pod | None = None
    spec: wire.PodSpec
    labels: dict[str, str]
    init: bool = False


class OpenShiftGates(msgspec.Struct, frozen=True, kw_only=True):
    """FeatureGate/cluster for the release in force."""

    version: str
    gates: dict[str, bool]
    place: str


# ------------------------------------------------------------------------------------------------------- recognition


def find_pods(inventory: Inventory) -> tuple[Seen, ...]:
    """Every container of every Pod that is a component, and of workloads whose Pods are not in the input."""
    out: list[Seen] = []
    by_namespace: dict[str, list[wire.Pod]] = defaultdict(list)
    for located in inventory.all("pods", wire.Pod):
        by_namespace[located.namespace].append(located.obj)
        out.extend(_seen_in_pod(located))
    for resource, kind in _WORKLOADS:
        for found in inventory.all(resource, wire.Workload):
            shown = _seen_in_workload(found, kind)
            selector = found.obj.spec.selector
            wanted = (selector.match_labels if selector else None) or {}
            if shown and not any(
                wanted and _matches(wanted, pod.metadata.labels)
                for pod in by_namespace.get(found.namespace, ())
            ):
                out.extend(shown)
    return tuple(out)


def _matches(wanted: Mapping[str, str], labels: Mapping[str, str] | None) -> bool:
    return labels is not None and all(labels.get(key) == value for key, value in wanted.items())


def _seen_in_pod(located: Located[wire.Pod]) -> list[Seen]:
    pod, namespace = located.obj, located.namespace
    owner = hosted_by(pod, namespace)
    mirror = wire.is_mirror(pod)
    if not mirror and pod.status is not None and pod.status.phase in _FINISHED:
        return []  # evicted or done: its successor is another Pod
    controller = wire.controller_of(pod.metadata)
    kind: Kind = "static pod" if mirror else "pod"
    if controller is not None and controller.kind == "DaemonSet":
        kind = "daemonset pod"
    labels = pod.metadata.labels or {}
    found = _recognise(pod.spec, labels, owner)
    out = []
    for component, container, program, init in found:
        belongs = _belongs(component, namespace, owner, mirror=mirror, labels=labels)
        if belongs:
            out.append(
                Seen(
                    component=component,
                    container=container,
                    program=program,
                    namespace=namespace,
                    name=pod.metadata.name,
                    place=located.place,
                    belongs_to=belongs,
                    kind=kind,
                    pod=pod,
                    spec=pod.spec,
                    labels=labels,
                    init=init,
                )
            )
    return out


def _seen_in_workload(located: Located[wire.Workload], kind: str) -> list[Seen]:
    workload, namespace = located.obj, located.namespace
    template = workload.spec.template
    labels = (template.metadata.labels if template.metadata else None) or {}
    owner = hosted_by(wire.Pod(metadata=wire.ObjectMeta(labels=labels)), namespace)
    out = []
    for component, container, program, init in _recognise(template.spec, labels, owner):
        belongs = _belongs(component, namespace, owner, mirror=False, labels=labels)
        if belongs:
            out.append(
                Seen(
                    component=component,
                    container=container,
                    program=program,
                    namespace=namespace,
                    name=workload.metadata.name,
                    place=f"{kind} {namespace}/{workload.metadata.name}",
                    belongs_to=belongs,
                    kind="workload",
                    spec=template.spec,
                    labels=labels,
                    init=init,
                )
            )
    return out


Recognised = tuple[str, wire.Container, Program, bool]


def _recognise(spec: wire.PodSpec, labels: Mapping[str, str], owner: str) -> list[Recognised]:
    containers = spec.containers or ()
    out: list[Recognised] = []
    if owner.startswith("vcluster:"):
        # The binaries come in the image of an init container; what of them runs is not in the Pod.
        for container in spec.init_containers or ():
            if parse_image(container.image).name in {"kubernetes", "k3s"}:
                return [("kube-apiserver", container, Program(name="", form="none"), True)]
        # vcluster before 0.20 could run k3s in a container of its own, with all flags on its command line.
        for container in containers:
            if parse_image(container.image).name == "k3s":
                return _of_one_program(container, "k3s")
    if owner.startswith("k0smotron:"):
        for container in containers:
            if parse_image(container.image).name == "k0s":
                return _of_one_program(container, "k0s")
    labelled = next((name for key in _LABELS if (name := _canonical(labels.get(key, "")))), "")
    if not labelled and labels.get("app") == "kubernetes":
        labelled = _GARDENER_ROLES.get(labels.get("role", ""), "")
    unknown: list[tuple[wire.Container, Program]] = []
    for container in containers:
        program = unwrap(container.command, container.args)
        component = (
            (_canonical(program.name) if program.form != "unknown wrapper" else "")
            or _canonical(container.name)
            or _canonical(parse_image(container.image).name)
        )
        if component and _is_other(container, program, component):
            component = ""
        if component and component != "kubelet":
            out.append((component, container, program, False))
        else:
            unknown.append((container, program))
    if not out and labelled and labelled != "kubelet" and len(unknown) == 1:
        container, program = unknown[0]
        if not _is_other(container, program, labelled):
            out.append((labelled, container, program, False))
    return out


def _of_one_program(container: wire.Container, name: str) -> list[Recognised]:
    """The control-plane components inside one program, with what its command line gives each; it adds flags of its own."""
    args = _node_args_of(words_after(name, container.command, container.args), name)
    return [
        (
            component,
            container,
            Program(
                name=component,
                argv=tuple(
                    f"--{flag}" if value is None else f"--{flag}={value}"
                    for flag, value in args.flags.get(component, ())
                ),
                form="unknown wrapper",
                wrapper=name,
            ),
            False,
        )
        for component in CONTROL_PLANE
        if component not in args.disabled
    ]


def _canonical(name: str) -> str:
    if name.endswith("cloud-controller-manager"):
        return "cloud-controller-manager"
    return name if is_component(name) else ""


_OTHER_TOOLS: Final = frozenset({"etcdctl", "etcdutl", "kubectl", "sleep", "tail", "curl", "pause"})


def _is_other(container: wire.Container, program: Program, component: str) -> bool:
    """A container that bears the component's name or image but starts another program (a backup, a check, a proxy)."""
    if component == "etcd" and program.argv[:1] in {("grpc-proxy",), ("gateway",)}:
        return True
    if program.form != "unknown wrapper":
        return False
    return program.name in _OTHER_TOOLS or (
        _canonical(container.name) == "" and _canonical(program.name) not in {"", component}
    )


def _belongs(component: str, namespace: str, owner: str, *, mirror: bool, labels: Mapping[str, str]) -> str:
    """``this cluster``, the owner of a hosted control plane, or empty for what is no component of any cluster."""
    if owner:
        return owner
    system = namespace == "kube-system" or namespace.startswith("openshift-")
    if system:
        if component != "etcd" or mirror or any(labels.get(key) == "etcd" for key in (*_LABELS, "app")):
            return HERE
        return ""
    if component == "kube-proxy" or (mirror and component != "etcd"):
        return HERE
    if component == "cloud-controller-manager":
        return HERE if namespace.endswith("-system") or "cloud" in namespace else ""
    if component in CONTROL_PLANE:
        return f"hosted:{namespace}"
    return ""


# ---------------------------------------------------------------------------------------------------------- versions


def _image_version(image: str, component: str) -> str | None:
    return kubernetes_release(parse_image(image).tag, component) if image else None


def _asked(seen: Seen, status: wire.ContainerStatus | None) -> tuple[str, str]:
    """Version by the image, and where it was read."""
    image = seen.container.image
    reference = parse_image(image)
    version = _image_version(image, seen.component)
    if version:
        return version, tr("image tag {tag}", tag=reference.tag)
    if status is not None and reference.tag is None and status.image != image:
        version = _image_version(status.image, seen.component)
        if version:
            return version, tr(
                "status image tag {tag}; the spec has a digest only", tag=parse_image(status.image).tag
            )
    if reference.digest and not reference.tag:
        return UNOBSERVABLE, tr("the image is a digest only")
    if not image:
        return UNOBSERVABLE, tr("no image is named")
    return UNOBSERVABLE, tr("the image tag {tag} names no version", tag=reference.tag or "")


def _running(seen: Seen, status: wire.ContainerStatus | None) -> tuple[str | None, str]:
    """Version that the status of a running container proves, and by what."""
    if status is None or status.state is None or status.state.running is None:
        return None, ""
    version = _image_version(status.image, seen.component)
    if version:
        return version, tr("containerStatuses image tag {tag}", tag=parse_image(status.image).tag)
    asked, ran = parse_image(seen.container.image), parse_image(status.image_id)
    if asked.digest and asked.digest == ran.digest:
        version = _image_version(seen.container.image, seen.component)
        if version:
            return version, tr("containerStatuses imageID is the digest of the image that is asked for")
    return None, ""


def _status_of(pod: wire.Pod | None, name: str, *, init: bool = False) -> wire.ContainerStatus | None:
    if pod is None or pod.status is None:
        return None
    statuses = pod.status.init_container_statuses if init else pod.status.container_statuses
    return next((status for status in statuses or () if status.name == name), None)


def _state(status: wire.ContainerStatus | None) -> ContainerState | None:
    if status is None:
        return None
    text = started = message = ""
    code: int | None = None
    state = status.state
    if state is not None:
        if state.running is not None:
            text, started = "running", state.running.started_at or ""
        elif state.waiting is not None:
            text, message = f"waiting:{state.waiting.reason or ''}", state.waiting.message or ""
        elif state.terminated is not None:
            text = f"terminated:{state.terminated.reason or ''}"
            started, message = state.terminated.started_at or "", state.terminated.message or ""
            code = state.terminated.exit_code
    last = status.last_state.terminated if status.last_state else None
    if last is not None and code is None:
        code = last.exit_code
        message = message or last.message or ""
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


# -------------------------------------------------------------------------------------------------- gates of a Pod


class _Gates(msgspec.Struct, frozen=True, kw_only=True):
    gates: dict[str, bool] | Literal["unobservable"]
    source: str
    sources: tuple[GateSource, ...] = ()

    @property
    def first(self) -> GateSource | None:
        return self.sources[0] if self.sources and self.gates != UNOBSERVABLE else None


def _gates_of(seen: Seen, config: Configuration, more: Sequence[GateSource]) -> _Gates:
    """Gates of a Pod's container, with every source; the first source is the one behind the answer."""
    flags = parse_flags(seen.program.argv)
    where = f"{seen.namespace}/{seen.name}"
    workload = seen.kind == "workload"
    what = _word_of(seen)
    source = gate_source_of_flags(
        seen.component,
        flags,
        provenance="workload template" if workload else "pod spec",
        place=f"{where} {seen.container.name} {what}",
        certainty="intended" if workload else "observed",
        complete=seen.program.observable,
    )
    names = {name for name, _ in flags}
    if seen.program.form == "none":
        return _unobservable(_no_command(seen), more)
    if seen.component == "kube-proxy" and "config" in names:
        return _proxy_gates(seen, config, source, flags, more)
    if seen.component == "etcd" and "config-file" in names:
        return _unobservable(tr("all settings of etcd are in a file of the host"), more)
    environment = {found.name for found in seen.container.env or ()}
    if seen.component == "etcd" and not source.flag_values and environment & _ETCD_ENVIRONMENT:
        return _unobservable(tr("its gates are in an environment variable, which is not read"), more)
    if not source.flag_values and "openshift-config" in names:
        return _openshift_gates(seen, config, more)
    if not source.flag_values and not seen.program.observable:
        return _unobservable(
            tr("the program {wrapper} starts it in a way that is not known", wrapper=seen.program.wrapper),
            more,
        )
    if source.problems and not source.gates:
        return _unobservable(
            tr("{place}: the value cannot be read: {value}", place=what, value=" ".join(source.flag_values)),
            (source, *more),
        )
    said = tr("--feature-gates in its {what}", what=what)
    if not source.flag_values:
        said = tr("its {what} was read and has no --feature-gates", what=what)
    return _Gates(gates=source.gates, source=said, sources=(source, *more))


def _word_of(seen: Seen) -> str:
    if seen.kind == "workload":
        return "template"
    if seen.program.form == "shell":
        return "shell command"
    if seen.program.form == "json":
        return "JSON command"
    return "args" if seen.container.args else "command"


def _unobservable(why: str, sources: Sequence[GateSource]) -> _Gates:
    return _Gates(gates="unobservable", source=why, sources=tuple(sources))


def _no_command(seen: Seen) -> str:
    if seen.belongs_to.startswith("vcluster:"):
        return tr("its flags are in a Secret, which is not read")
    return tr("the container names no command: the entry point of its image decides")


def _proxy_gates(
    seen: Seen,
    config: Configuration,
    source: GateSource,
    flags: Sequence[tuple[str, str | None]],
    more: Sequence[GateSource],
) -> _Gates:
    path = values_of(flags, "config")[-1]
    key = path.rsplit("/", 1)[-1]
    found = config.proxy_for(seen.namespace, _mounted(seen, path), key)
    ignored = (source,) if source.flag_values else ()
    if found is None:
        return _unobservable(
            tr("its configuration file {path} is in a ConfigMap that is not in this capture", path=path),
            (*ignored, *more),
        )
    return _Gates(gates=found.gates, source=found.place, sources=(found, *ignored, *more))


def _mounted(seen: Seen, path: str) -> str:
    """Name of the ConfigMap that is mounted at a file's folder; empty if none is."""
    best, name = -1, ""
    for mount in seen.container.volume_mounts or ():
        folder = mount.mount_path.rstrip("/")
        if (path == folder or path.startswith(folder + "/")) and len(folder) > best:
            volume = next((found for found in seen.spec.volumes or () if found.name == mount.name), None)
            if volume is not None and volume.config_map is not None:
                best, name = len(folder), volume.config_map.name
    return name


def _openshift_gates(seen: Seen, config: Configuration, more: Sequence[GateSource]) -> _Gates:
    fact = config.openshift_for(seen.namespace, seen.component, seen.labels.get("revision", ""))
    source = fact.component_gates.get(seen.component) if fact else None
    if source is None:
        return _unobservable(tr("its configuration file is in a ConfigMap that is not in this capture"), more)
    return _Gates(gates=source.gates, source=source.place, sources=(source, *more))


# ---------------------------------------------------------------------------------------------------------- assembly


class _Assembler:
    def __init__(
        self,
        inventory: Inventory,
        seen: Sequence[Seen],
        *,
        detected: Detected,
        config: Configuration,
        server: VersionInfo | None,
        openshift: OpenShiftGates | None,
        processes: Sequence[ProcessFact],
    ) -> None:
        self.inventory = inventory
        self.seen = seen
        self.detected = detected
        self.config = config
        self.server = server
        self.openshift = openshift
        self.processes = processes
        self.unobserved: list[Unobserved] = []
        self.configz = {node: (body, place) for node, body, place in inventory.configz if node}
        self.nodes = [located.obj for located in inventory.all("nodes", wire.Node)]
        self.node_args = {node.metadata.name: self._node_args(node) for node in self.nodes}
        self.k0s = k0s_gates(inventory)
        self.shoots = shoot_gates(inventory)
        self.machines, missing = machine_config_gates(inventory, self.nodes)
        self.unobserved.extend(missing)

    def components(self) -> tuple[Component, ...]:
        out = [self._pod(seen) for seen in self.seen]
        out.extend(self._kubelet(node) for node in self.nodes)
        shown = {(item.component, item.node) for item in out if item.belongs_to == HERE}
        for node in self.nodes:
            out.extend(self._annotated(node, shown))
        out = self._with_server_version(out)
        out.extend(self._missing(out))
        out = self._with_metrics(out)
        return tuple(sorted(_unique(out), key=sort_key))

    # -- Pods

    def _pod(self, seen: Seen) -> Component:
        pod = seen.pod
        status = _status_of(pod, seen.container.name, init=seen.init)
        version, source = _asked(seen, status)
        if seen.init and version != UNOBSERVABLE:
            source = tr("{source} of init container {name}", source=source, name=seen.container.name)
        running, running_source = (None, "") if seen.init else _running(seen, status)
        flags = parse_flags(seen.program.argv)
        node = (pod.spec.node_name or _node_owner(pod)) if pod else None
        gates = _gates_of(seen, self.config, self._second_sources(seen, node))
        first = gates.first
        observable = seen.program.observable and not seen.init
        conditions = condition_facts(pod.status.conditions if pod and pod.status else None)
        ready = ready_of(conditions)
        if ready is None and status is not None:
            ready = bool(status.ready)
        annotations = (pod.metadata.annotations if pod else None) or {}
        runtime: tuple[str, ...] | None = None
        openshift: tuple[ConfigFact, ...] = ()
        if seen.component == "kube-apiserver" and observable:
            runtime = values_of(flags, "runtime-config")
            if "openshift-config" in {name for name, _ in flags}:
                fact = self.config.openshift_for(
                    seen.namespace, seen.component, seen.labels.get("revision", "")
                )
                openshift = fact.component_flags[seen.component] if fact else ()
                runtime = _values(openshift, "runtime-config") if fact else None
        return Component(
            component=seen.component,
            instance=f"{seen.namespace}/{seen.name}",
            node=node or None,
            version=version,
            version_source=source,
            feature_gates=gates.gates,
            feature_gates_source=gates.source,
            gates_certainty=first.certainty if first else None,
            belongs_to=seen.belongs_to,
            kind=seen.kind,
            namespace=seen.namespace,
            container=seen.container.name,
            image=seen.container.image,
            image_id=status.image_id if status else "",
            running_version=running,
            running_source=running_source,
            phase=(pod.status.phase or "") if pod and pod.status else "",
            ready=ready,
            state=_state(status),
            manifest=self._manifest(seen, node or ""),
            config_hash=annotations.get("kubernetes.io/config.hash", ""),
            gate_sources=gates.sources,
            gate_problems=tuple(
                dict.fromkeys(
                    problem
                    for source_ in gates.sources
                    if source_ is first or source_.provenance in {"pod spec", "workload template"}
                    for problem in source_.problems
                )
            ),
            runtime_config=runtime,
            emulated_version=_last(flags, "emulated-version"),
            min_compatibility_version=_last(flags, "min-compatibility-version"),
            flags=config_facts(flags),
            flags_observable=observable,
            config_file=_last(flags, "config")
            or _last(flags, "openshift-config")
            or _last(flags, "config-file")
            or "",
        )

    def _second_sources(self, seen: Seen, node: str | None) -> tuple[GateSource, ...]:
        """What else says something of a Pod's gates: kubeadm-config, a node annotation, a custom resource."""
        if seen.belongs_to != HERE:
            source = self.shoots.get((seen.belongs_to, seen.component))
            return (source,) if source is not None else ()
        out: list[GateSource] = []
        if seen.component in self.config.kubeadm:
            out.append(self.config.kubeadm[seen.component])
        args = self.node_args.get(node or "")
        if args is not None:
            source = self._annotation_gates(args, seen.component)
            if source.flag_values:
                out.append(source)
        if self.openshift is not None and seen.component in CONTROL_PLANE:
            out.append(
                GateSource(
                    provenance="custom resource",
                    place=f"FeatureGate cluster status.featureGates {self.openshift.version}",
                    certainty="intended",
                    gates=self.openshift.gates,
                )
            )
        return tuple(out)

    def _manifest(self, seen: Seen, node: str) -> str:
        """Path of a static Pod's manifest: the kubelet's folder and the mirror's name without its node."""
        if seen.kind != "static pod" or seen.belongs_to != HERE or seen.pod is None:
            return ""
        annotations = seen.pod.metadata.annotations or {}
        if annotations.get("kubernetes.io/config.source", "file") != "file":
            return ""
        suffix = f"-{node.lower()}"
        if not node or not seen.name.endswith(suffix):
            return ""
        folder = ""
        body, _ = self.configz.get(node, ({}, ""))
        if isinstance(body.get("staticPodPath"), str):
            folder = body["staticPodPath"]
        elif self.detected.distribution == "rke2":
            folder = _RKE2_MANIFESTS
        elif self.detected.distribution in _KUBEADM_LIKE:
            folder = self.config.static_pod_path or _KUBEADM_MANIFESTS
        return f"{folder.rstrip('/')}/{seen.name.removesuffix(suffix)}.yaml" if folder else ""

    # -- kubelets

    def _kubelet(self, node: wire.Node) -> Component:
        name = node.metadata.name
        info = node.status.node_info if node.status else None
        version = info.kubelet_version if info else ""
        sources: list[GateSource] = []
        flags: tuple[ConfigFact, ...] = ()
        if name in self.configz:
            body, place = self.configz[name]
            sources.append(
                gate_source_of_map(
                    body.get("featureGates"), provenance="configz", place=place, certainty="effective"
                )
            )
        args = self.node_args.get(name)
        if args is not None:
            source = self._annotation_gates(args, "kubelet")
            flags = config_facts(args.flags.get("kubelet", ()))
            if source.flag_values:
                sources.append(source)
        machine = self.machines.get((node.metadata.annotations or {}).get(CURRENT_CONFIG, ""))
        if machine is not None:
            sources.append(machine)
        if self.config.kubelet is not None:
            sources.append(self.config.kubelet)
        k0s = self.config.kubelet_of_k0s(minor_of(version) or "")
        if k0s is not None:
            sources.append(k0s)
        if "kubelet" in self.k0s:
            sources.append(self.k0s["kubelet"])
        gates: dict[str, bool] | Literal["unobservable"] = "unobservable"
        said = self._why_no_kubelet_gates(args, (node.metadata.annotations or {}).get(CURRENT_CONFIG, ""))
        odd = next((found for found in sources if found.problems), None)
        if odd is not None:
            said = tr(
                "{place}: the value cannot be read: {value}", place=odd.place, value=" ".join(odd.flag_values)
            )
        certainty = None
        best = next((found for found in sources if found.complete or found.gates), None)
        if best is not None and not (best.problems and not best.gates):
            sources.sort(key=lambda found: found is not best)
            gates, certainty = best.gates, best.certainty
            said = best.place
            if best.provenance == "configmap":
                said = tr("{place} (the default of nodes that join; a node may differ)", place=best.place)
            elif best.provenance == "node annotation":
                said = tr("{place} (what the distribution adds itself is not in it)", place=best.place)
        conditions = condition_facts(node.status.conditions if node.status else None)
        return Component(
            component="kubelet",
            instance=name,
            node=name,
            version=version or UNOBSERVABLE,
            version_source="node.status.nodeInfo.kubeletVersion" if version else tr("nodeInfo is empty"),
            feature_gates=gates,
            feature_gates_source=said,
            gates_certainty=certainty,
            kind="node",
            running_version=version or None,
            running_source="node.status.nodeInfo.kubeletVersion" if version else "",
            ready=ready_of(conditions),
            gate_sources=tuple(sources),
            gate_problems=tuple(dict.fromkeys(problem for found in sources for problem in found.problems)),
            flags=flags,
        )

    def _why_no_kubelet_gates(self, args: _NodeArgs | None, machine_config: str) -> str:
        if machine_config:
            return tr("needs configz (right nodes/proxy) or MachineConfig {name}", name=machine_config)
        if args is not None and args.key:
            return tr(
                "annotation {key} names no gates of the kubelet, and what the distribution adds itself is not in it; needs configz",
                key=args.key,
            )
        return tr("needs configz (right nodes/proxy) or ConfigMap kubelet-config")

    # -- node annotations

    def _node_args(self, node: wire.Node) -> _NodeArgs | None:
        annotations = node.metadata.annotations or {}
        for key in _NODE_ARGS:
            if key in annotations:
                parsed = _parse_node_args(annotations[key], key)
                if parsed is None:
                    self.unobserved.append(
                        Unobserved(
                            what=f"annotation {key} of Node {node.metadata.name}",
                            reason="malformed",
                            detail=tr(
                                "it is no JSON list of texts, so what the node was started with is not known"
                            ),
                            place=f"Node {node.metadata.name}",
                        )
                    )
                return parsed
        return None

    def _annotation_gates(self, args: _NodeArgs, component: str) -> GateSource:
        return gate_source_of_flags(
            component,
            args.flags.get(component, ()),
            provenance="node annotation",
            place=f"node annotation {args.key}",
            certainty="intended",
            complete=False,
        )

    def _annotated(self, node: wire.Node, shown: set[tuple[str, str | None]]) -> Iterable[Component]:
        """The control-plane components that a server's annotation describes, where no Pod shows them."""
        args = self.node_args.get(node.metadata.name)
        if args is None or not args.server:
            return
        name = node.metadata.name
        info = node.status.node_info if node.status else None
        version = info.kubelet_version if info else ""
        for component in CONTROL_PLANE:
            if component in args.disabled or (component, name) in shown:
                continue
            source = self._annotation_gates(args, component)
            said = tr("{place} (what the distribution adds itself is not in it)", place=source.place)
            known = bool(source.gates)
            if not known:
                said = tr(
                    "annotation {key} names no gates of it, and what the distribution adds itself is not in it",
                    key=args.key,
                )
            flags = args.flags.get(component, ())
            yield Component(
                component=component,
                instance=name,
                node=name,
                version=version or UNOBSERVABLE,
                version_source=tr("the same program as the kubelet of this server"),
                feature_gates=source.gates if known else "unobservable",
                feature_gates_source=said,
                gates_certainty="intended" if known else None,
                kind="annotation",
                running_version=version or None,
                running_source=tr("nodeInfo of the same program") if version else "",
                gate_sources=(source,) if source.flag_values else (),
                gate_problems=source.problems,
                runtime_config=None,
                emulated_version=_last(flags, "emulated-version"),
                min_compatibility_version=_last(flags, "min-compatibility-version"),
                flags=config_facts(flags),
            )

    # -- the rest

    def _with_server_version(self, found: list[Component]) -> list[Component]:
        """/version speaks for kube-apiserver where its images say nothing and all its Pods have one image."""
        if self.server is None or not self.server.git_version:
            return found
        mine = [item for item in found if item.component == "kube-apiserver" and item.belongs_to == HERE]
        if not mine or any(item.version != UNOBSERVABLE for item in mine):
            return found
        if len({item.image for item in mine}) != 1 or not mine[0].image:
            return found
        version = self.server.git_version
        return [
            msgspec.structs.replace(
                item,
                version=version,
                version_source=tr("/version (the image says nothing, and all its Pods have the same one)"),
                running_version=version if item.state and item.state.state == "running" else None,
                running_source="/version" if item.state and item.state.state == "running" else "",
            )
            if item.component == "kube-apiserver" and item.belongs_to == HERE
            else item
            for item in found
        ]

    def _missing(self, found: list[Component]) -> Iterable[Component]:
        """An entry for each control-plane component that no object shows, once /version says that there is a cluster."""
        if self.server is None:
            return
        shown = {item.component for item in found if item.belongs_to == HERE}
        known = KNOWLEDGE[self.detected.distribution]
        why = tr("no object in this capture shows it")
        if known.hides_control_plane:
            why = tr(
                "{distribution} shows no control-plane Pods; {unseen}",
                distribution=known.title,
                unseen=known.unseen,
            )
        for component in CONTROL_PLANE:
            if component in shown:
                continue
            version = self.server.git_version if component == "kube-apiserver" else ""
            source = self.k0s.get(component)
            yield Component(
                component=component,
                instance=None,
                node=None,
                version=version or UNOBSERVABLE,
                version_source="/version" if version else why,
                feature_gates=source.gates if source is not None and source.gates else "unobservable",
                feature_gates_source=source.place if source is not None and source.gates else why,
                gates_certainty=source.certainty if source is not None and source.gates else None,
                gate_sources=(source,) if source is not None else (),
                running_version=version or None,
                running_source="/version" if version else "",
            )

    def _with_metrics(self, found: list[Component]) -> list[Component]:
        """Effective gates of a component of which there is one instance only; of several, which answered is not known."""
        answers: dict[str, list[ProcessFact]] = defaultdict(list)
        for fact in self.processes:
            if fact.effective_gates and fact.component in CONTROL_PLANE:
                answers[fact.component].append(fact)
        if not answers or not self.inventory.complete("pods"):
            return found
        here = Counter(item.component for item in found if item.belongs_to == HERE)
        return [
            _of_process(item, answers[item.component][0])
            if item.belongs_to == HERE
            and here[item.component] == 1
            and len(answers.get(item.component, ())) == 1
            else item
            for item in found
        ]


def _of_process(component: Component, fact: ProcessFact) -> Component:
    """The instance with what its process says of itself: effective gates, and the versions that it emulates.

    The versions count where its command line was not read and they are not those of the binary by default.
    """
    emulated, minimum = component.emulated_version, component.min_compatibility_version
    binary = minor_of(fact.version or component.running_version or component.version)
    if not component.flags_observable and binary is not None:
        told = minor_of(fact.emulation_version)
        emulated = emulated or (told if told != binary else None)
        major, minor = minor_key(told or binary)
        least = minor_of(fact.min_compatibility_version)
        minimum = minimum or (least if least != f"{major}.{minor - 1}" else None)
    return msgspec.structs.replace(
        component,
        effective_gates=fact.effective_gates,
        emulated_version=emulated,
        min_compatibility_version=minimum,
    )


def assemble(
    inventory: Inventory,
    seen: Sequence[Seen],
    *,
    detected: Detected,
    config: Configuration,
    server: VersionInfo | None,
    openshift: OpenShiftGates | None = None,
    processes: Sequence[ProcessFact] = (),
) -> tuple[tuple[Component, ...], tuple[Unobserved, ...]]:
    """All instances, sorted, and what of their sources could not be read.

    Args:
        inventory: Nodes, configz.
        seen: the answer of :func:`find_pods`.
        detected: the distribution.
        config: what ConfigMaps say.
        server: the answer of /version, None if it was not read.
        openshift: FeatureGate/cluster for the release in force.
        processes: what processes say; effective gates are taken where only one instance can have answered.
    """
    assembler = _Assembler(
        inventory,
        seen,
        detected=detected,
        config=config,
        server=server,
        openshift=openshift,
        processes=processes,
    )
    components = assembler.components()
    return components, tuple(assembler.unobserved)


def sort_key(item: Component) -> tuple[object, ...]:
    """This cluster first, then by owner, component, node and instance."""
    order = ORDER.index(item.component) if item.component in ORDER else len(ORDER)
    return (
        item.belongs_to != HERE,
        item.belongs_to,
        order,
        item.component,
        item.node or "",
        item.instance or "",
        item.container,
    )


def _unique(found: Iterable[Component]) -> list[Component]:
    """One entry for each component and instance; of two containers in one Pod that of its name, else the first."""
    out: dict[tuple[str, str | None, str], Component] = {}
    for item in sorted(found, key=lambda item: item.container != item.component):
        out.setdefault((item.component, item.instance, item.belongs_to), item)
    return list(out.values())


def _values(facts: Iterable[ConfigFact], name: str) -> tuple[str, ...]:
    return next((fact.values or () for fact in facts if fact.name == name), ())


def _last(flags: Iterable[tuple[str, str | None]], name: str) -> str | None:
    values = values_of(flags, name)
    return values[-1] if values else None


def _node_owner(pod: wire.Pod) -> str | None:
    return next((ref.name for ref in pod.metadata.owner_references or () if ref.kind == "Node"), None)


# --------------------------------------------------------------------------------------------------- k3s and RKE2


class _NodeArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What k3s or RKE2 was started with, reduced to the flags of components."""

    key: str
    server: bool
    flags: dict[str, tuple[tuple[str, str | None], ...]]
    disabled: frozenset[str]


_COMPONENT_ARG: Final = re.compile(
    r"--(kube-apiserver|kube-scheduler|kube-controller-manager|kubelet|kube-proxy)-arg"
)
_DISABLE: Final = {
    "--disable-apiserver": "kube-apiserver",
    "--disable-scheduler": "kube-scheduler",
    "--disable-controller-manager": "kube-controller-manager",
}


def _parse_node_args(text: str, key: str) -> _NodeArgs | None:
    """Flags of components in a node-args annotation; nothing else of it is looked at. None: it is no list of texts."""
    try:
        words = msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return None
    return _node_args_of(words, key)


def _node_args_of(words: Sequence[str], key: str) -> _NodeArgs:
    """Flags of components in the words that k3s or RKE2 was started with."""
    flags: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    disabled: set[str] = set()
    index = 0
    while index < len(words):
        word, _, value = words[index].partition("=")
        has_value = "=" in words[index]
        index += 1
        if word in _DISABLE and value != "false":
            following = words[index] if index < len(words) else ""
            if has_value or following != "false":
                disabled.add(_DISABLE[word])
            continue
        match = _COMPONENT_ARG.fullmatch(word)
        if match is None:
            continue
        if not has_value and index < len(words):
            value = words[index]
            index += 1
        name, equals, inner = value.lstrip("-").partition("=")
        flags[match[1]].append((name.replace("_", "-"), inner if equals else None))
    return _NodeArgs(
        key=key,
        server=bool(words) and words[0] == "server",
        flags={component: tuple(found) for component, found in flags.items()},
        disabled=frozenset(disabled),
    )


# ------------------------------------------------------------------------------------------------- custom resources

_K0S_COMPONENTS: Final = (*CONTROL_PLANE, "kubelet", "kube-proxy")
_SHOOT_FIELDS: Final = (
    ("kubeAPIServer", "kube-apiserver"),
    ("kubeControllerManager", "kube-controller-manager"),
    ("kubeScheduler", "kube-scheduler"),
)


def k0s_gates(inventory: Inventory) -> dict[str, GateSource]:
    """Gates of k0s' ClusterConfig by component: a list of name, enabled and components (all five where left out).

    Only the gates that it names are known; what k0s sets itself is not in it.
    """
    out: dict[str, dict[str, bool]] = {}
    place = ""
    for located in inventory.all("clusterconfigs.k0s.k0sproject.io", wire.Custom):
        place = f"ClusterConfig {located.obj.metadata.name} spec.featureGates"
        for gate in _mappings((located.obj.spec or {}).get("featureGates")):
            named = gate.get("components")
            components = named if isinstance(named, list) and named else _K0S_COMPONENTS
            if isinstance(gate.get("name"), str):
                for component in components:
                    out.setdefault(str(component), {})[gate["name"]] = bool(gate.get("enabled"))
    return {
        component: GateSource(
            provenance="custom resource", place=place, certainty="intended", gates=gates, complete=False
        )
        for component, gates in out.items()
    }


def shoot_gates(inventory: Inventory) -> dict[tuple[str, str], GateSource]:
    """Gates of Gardener's Shoots: (owner as ``gardener:shoot--PROJECT--NAME``, component) -> what is intended."""
    out: dict[tuple[str, str], GateSource] = {}
    for located in inventory.all("shoots.core.gardener.cloud", wire.Custom):
        name = located.obj.metadata.name
        owner = f"gardener:shoot--{located.namespace.removeprefix('garden-')}--{name}"
        kubernetes = (located.obj.spec or {}).get("kubernetes")
        for field, component in _SHOOT_FIELDS:
            section = kubernetes.get(field) if isinstance(kubernetes, dict) else None
            if isinstance(section, dict):
                out[owner, component] = gate_source_of_map(
                    section.get("featureGates"),
                    provenance="custom resource",
                    place=f"Shoot {located.namespace}/{name} spec.kubernetes.{field}.featureGates",
                    certainty="intended",
                )
    return out


# ---------------------------------------------------------------------------------------------------------- OpenShift


def openshift_facts(
    inventory: Inventory,
) -> tuple[dict[str, str | int | float | bool | None], OpenShiftGates | None, tuple[Unobserved, ...]]:
    """ClusterVersion and FeatureGate: flat facts, the gates of the release in force, and what is missing.

    FeatureGate lists gates by release. In force is ClusterVersion's desired one; its entry can be missing while an upgrade
    starts, and then the gates of that release are unobservable, whatever an older entry says.
    """
    facts: dict[str, str | int | float | bool | None] = {}
    for located in inventory.all("clusterversions.config.openshift.io", wire.Custom):
        status, spec = located.obj.status or {}, located.obj.spec or {}
        desired = status.get("desired")
        if isinstance(desired, dict):
            facts["desired"] = str(desired.get("version", ""))
        if isinstance(spec.get("channel"), str):
            facts["channel"] = spec["channel"]
        history = _mappings(status.get("history"))
        if history:
            facts["state"] = str(history[0].get("state", ""))
        done = [str(entry.get("version", "")) for entry in history if entry.get("state") == "Completed"]
        if done:
            facts["current"] = done[0]
    gates: OpenShiftGates | None = None
    missing: list[Unobserved] = []
    for located in inventory.all("featuregates.config.openshift.io", wire.Custom):
        if located.obj.metadata.name != "cluster":
            continue
        facts["feature_set"] = str((located.obj.spec or {}).get("featureSet", "") or "")
        entries = _feature_gate_entries((located.obj.status or {}).get("featureGates"))
        facts["gates_versions"] = ", ".join(sorted(entries))
        wanted = str(facts.get("desired", "") or "")
        if not wanted and len(entries) == 1:
            wanted = next(iter(entries))
        if wanted in entries:
            facts["gates_version"] = wanted
            gates = OpenShiftGates(version=wanted, gates=entries[wanted], place=located.place)
        else:
            facts["gates_version"] = ""
            facts["gates_previous"] = ", ".join(sorted(entries))
            missing.append(
                Unobserved(
                    what=tr("OpenShift feature gates of release {version}", version=wanted or "?"),
                    reason="not-in-capture",
                    detail=tr(
                        "FeatureGate cluster has no entry for it yet; entries: {versions}",
                        versions=", ".join(sorted(entries)) or "-",
                    ),
                    place=located.place,
                    remedy="kubectl get featuregate cluster -o yaml",
                )
            )
    return facts, gates, tuple(missing)


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _feature_gate_entries(entries: Any) -> dict[str, dict[str, bool]]:
    out: dict[str, dict[str, bool]] = {}
    for entry in _mappings(entries):
        gates: dict[str, bool] = {}
        for field, value in (("disabled", False), ("enabled", True)):
            gates.update(
                (str(gate["name"]), value) for gate in _mappings(entry.get(field)) if gate.get("name")
            )
        out[str(entry.get("version", ""))] = dict(sorted(gates.items()))
    return out


def own_pods(seen: Iterable[Seen]) -> tuple[wire.Pod, ...]:
    """Pods of this cluster's own control plane."""
    return tuple(
        item.pod
        for item in seen
        if item.pod is not None and item.belongs_to == HERE and item.component in (*CONTROL_PLANE, "etcd")
    )
