"""The checklist: what must be true after the change, each line with its value before and its expected value.

A line is a query of `changegen.facts`: its command is made from the same row that evaluates it, so that what is printed
and what is compared are one thing. Expected values come from the target, from the profile, or from the reading before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from changegen.facts import FACTS, Reading, Value
from changegen.facts.nodes import gates_text
from changegen.facts.reads import reads_as
from changegen.i18n import tr
from changegen.model.base import Scalar
from changegen.model.snapshot import Component, Driver, PodUse, Workload
from changegen.model.ticket import Finding, Query
from changegen.plan.draft import CheckDraft
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import KUBELET_SLICES_WAIT, driver_target, kubelet_gates
from changegen.plan.steps.remedies import gate_faults
from changegen.probe import Probe, probes
from changegen.quantity import count
from changegen.shell import quoted
from changegen.versions import kubernetes_release, parse_image

__all__ = ["make_checks"]

MOST_RUNTIME = 6
MOST_NODES = 24
"""Above so many nodes kubelets are compared as a set of versions, not node by node."""


class _List:
    """Collects checks, one a key."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.found: dict[str, CheckDraft] = {}

    def fact(
        self,
        key: str,
        fact: str,
        args: Mapping[str, Scalar | tuple[str, ...]],
        *,
        expected: Value = None,
        compare: str = "equals",
        wait: int = 0,
        findings: Sequence[str] = (),
        title: str = "",
    ) -> Reading:
        """Add a check of a fact, and return what the reading says of it; a key that is there already adds none.

        Args:
            key: Name of the check within the plan, ``check:kubelets``; steps refer to it.
            fact: Row of ``changegen.facts``; gives layer, title and command.
            args: Of the row.
            expected: Value wanted; without one, comparisons with the reading before expect what that says.
            compare: How the later value is held against it, as in ``model.ticket.Check``.
            wait: Seconds that the value may take to come.
            findings: Ids of findings whose remedy it proves.
            title: Another title than the row's.
        """
        row = FACTS[fact]
        reading = row.evaluate(self.scene.snapshot, args)
        if compare in ("same-as-before", "at-most", "at-least") and expected is None:
            expected = reading.value if reading.known else None
        if compare == "filled" and reading.known:
            expected = tr("filled (values may differ)")
        if key in self.found:
            return reading
        self.found[key] = CheckDraft(
            key=key,
            layer=row.layer,
            title=title or row.title(args),
            command=row.command(args),
            query=Query(fact=fact, args=dict(args)),
            before=reading.value if reading.known else None,
            before_known=reading.known,
            expected=expected,
            compare=compare,
            reads_as=reads_as(fact, args),
            wait_seconds=wait,
            findings=list(findings),
        )
        return reading


def make_checks(scene: Scene, findings: Sequence[Finding]) -> list[CheckDraft]:
    """All lines of the checklist."""
    checks = _List(scene)
    hop = scene.hops[-1] if scene.hops else None
    _api(checks, hop, findings)
    _gates(checks, findings)
    _nodes(checks, hop)
    _kubelet_gates(checks, hop, findings)
    _addons(checks, hop)
    _workloads(checks)
    _devices(checks)
    drafts = list(checks.found.values())
    return drafts + _runtime(scene) + _own(scene)


# ------------------------------------------------------------------------------------------------ API


def _pods_of(scene: Scene, component: str) -> tuple[tuple[Component, ...], str]:
    """Instances that are Pods of one namespace with the same container, and that container."""
    found = [item for item in scene.instances(component) if item.kind in ("static pod", "pod")]
    namespaces = {(item.instance or "").rpartition("/")[0] for item in found}
    if len(namespaces) != 1:
        return (), ""
    containers = {item.container for item in found}
    container = containers.pop() if len(containers) == 1 else component
    return tuple(found), container or component


def _api(checks: _List, hop: HopPlan | None, findings: Sequence[Finding]) -> None:
    scene = checks.scene
    if hop is not None:
        checks.fact("check:server-version", "server.version", {}, expected=hop.version, compare="version")
    checks.fact("check:readyz", "apiserver.readyz", {}, expected="ok")
    if hop is not None:
        for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
            pods, container = _pods_of(scene, component)
            wanted = hop.etcd if component == "etcd" else _component_target(scene, component, hop)
            if not pods or not wanted:
                continue
            args = {
                "component": component,
                "pods": tuple(item.instance or "" for item in pods),
                "container": container,
            }
            expected: dict[str, Scalar] = {item.node or "": wanted for item in pods}
            checks.fact(
                f"check:running:{component}",
                "component.running",
                args,
                expected=dict(sorted(expected.items())),
                compare="version",
            )
        _kubeadm(checks, hop)
    _served(checks, hop, findings)
    if "apiservices.apiregistration.k8s.io" in scene.snapshot.kinds_read:
        checks.fact("check:services-down", "api.services-down", {}, compare="at-most")


def _component_target(scene: Scene, component: str, hop: HopPlan) -> str:
    wish = scene.context.target_of(component)
    if wish is None or wish.version is None or wish.operator != "=" or wish.version.patch is None:
        return hop.version
    return f"v{wish.version.release}{wish.version.build}"


def _kubeadm(checks: _List, hop: HopPlan) -> None:
    if checks.scene.kubeadm is not None and checks.scene.distribution.name in ("kubeadm", "kubespray"):
        checks.fact("check:kubeadm-version", "kubeadm.version", {}, expected=hop.version)


def _served(checks: _List, hop: HopPlan | None, findings: Sequence[Finding]) -> None:
    """APIs that the profile asks for, and those that come or go with the target and matter here."""
    scene = checks.scene
    data, target = scene.data, hop.version if hop is not None else ""
    known = data.apis(target) if target and data.knows(target) else ()
    plural = {(api.group_version, api.kind): api.resource for api in known if api.resource}
    for wish in scene.profile.apis:
        expected = "yes" if wish.expect == "served" else "no"
        if not wish.kinds:
            checks.fact(
                f"check:api:{wish.group_version}",
                "api.group-version",
                {"group_version": wish.group_version},
                expected=expected,
                wait=30,
            )
        for kind in wish.kinds:
            resource = (
                plural.get((wish.group_version, kind))
                or f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
            )
            args = {"group_version": wish.group_version, "resource": resource}
            checks.fact(
                f"check:api:{wish.group_version}:{resource}", "api.resource", args, expected=expected, wait=30
            )
    today = {api.group_version for api in scene.snapshot.apis}
    served_at_target = {api.group_version for api in known if api.enabled and api.served}
    registered = {api.group_version for api in known if api.served}
    for group_version in sorted(today):
        if hop is None or not known or "/" not in group_version:
            continue
        before = data.apis(scene.today) if data.knows(scene.today) else ()
        if not any(api.group_version == group_version for api in before):
            continue
        if group_version not in registered:
            checks.fact(
                f"check:api:{group_version}",
                "api.group-version",
                {"group_version": group_version},
                expected="no",
                findings=[item.id for item in findings if item.subject.name.startswith(group_version)],
            )
        elif group_version in served_at_target and group_version.startswith("resource.k8s.io/"):
            checks.fact(
                f"check:api:{group_version}",
                "api.group-version",
                {"group_version": group_version},
                expected="yes",
            )


def _gates(checks: _List, findings: Sequence[Finding]) -> None:
    scene = checks.scene
    refused = [
        item
        for item in findings
        if item.code in ("CG-GATE-001", "CG-GATE-002", "CG-GATE-004", "CG-KUBEADM-001")
        and item.severity == "blocking"
        and item.subject.name
    ]
    kubeadm = scene.kubeadm
    for item in refused:
        gate, component = item.subject.name, item.subject.component
        same = [other.id for other in refused if other.subject.name == gate]
        if kubeadm is not None:
            named = any(gate in source.gates for source in kubeadm.component_gates.values())
            if named:
                checks.fact(
                    f"check:kubeadm-gate:{gate}",
                    "kubeadm.names-gate",
                    {"gate": gate},
                    expected=(),
                    findings=same,
                )
        pods, container = _pods_of(scene, component)
        if pods:
            args: dict[str, Scalar | tuple[str, ...]] = {
                "component": component,
                "gate": gate,
                "pods": tuple(p.instance or "" for p in pods),
                "container": container,
            }
            checks.fact(
                f"check:names-gate:{component}:{gate}",
                "component.names-gate",
                args,
                expected=(),
                findings=[item.id],
            )
    for wish in scene.profile.feature_gates.gates:
        if wish.value is None or (wish.components and "kube-apiserver" not in wish.components):
            continue
        expected = "on" if wish.value else "off"
        checks.fact(f"check:gate:{wish.name}", "apiserver.gate", {"gate": wish.name}, expected=expected)


# ------------------------------------------------------------------------------------------------ nodes and add-ons


def _nodes(checks: _List, hop: HopPlan | None) -> None:
    scene = checks.scene
    if not scene.snapshot.nodes:
        return
    renamed = scene.distribution.nodes in ("pool", "pool-all")
    if hop is not None and any(item.drain for item in scene.hops):
        pending = set(scene.pending_nodes)
        wish = scene.context.target_of("kubelet")
        ranged = wish is not None and wish.operator != "="
        wanted = hop.version
        by_node: dict[str, Scalar] = {
            node.name: wanted if node.name in pending or not ranged else node.kubelet_version
            for node in sorted(scene.snapshot.nodes, key=lambda n: n.name)
        }
        if renamed or len(by_node) > MOST_NODES:
            checks.fact(
                "check:kubelets",
                "kubelet.versions",
                {},
                expected=tuple(sorted({str(v) for v in by_node.values()})),
                compare="version",
            )
        else:
            checks.fact("check:kubelets", "kubelet.by-node", {}, expected=by_node, compare="version")
    checks.fact("check:not-ready", "nodes.not-ready", {}, compare="at-most", wait=60)
    checks.fact("check:cordoned", "nodes.cordoned", {}, compare="at-most")
    taints = "nodes.taint-counts" if _counts(scene, len(scene.snapshot.nodes)) else "nodes.taints"
    checks.fact("check:taints", taints, {}, compare="same-as-before")


def _kubelet_gates(checks: _List, hop: HopPlan | None, findings: Sequence[Finding]) -> None:
    """Gates of each kubelet's own configuration, where that was read: what an upgrade takes from ConfigMap kubelet-config.

    ``kubeadm upgrade node`` writes /var/lib/kubelet/config.yaml anew from that ConfigMap, so its gates are expected there,
    without those that a step takes out; elsewhere the gates of before.
    """
    scene = checks.scene
    own = {
        item.node: source.gates
        for item in scene.instances("kubelet")
        for source in item.gate_sources
        if source.provenance == "configz" and item.node
    }
    renamed = scene.distribution.nodes in ("pool", "pool-all")
    if hop is None or not own or renamed or len(own) > MOST_NODES:
        return
    gone = {item.subject.name for item in gate_faults(findings)}
    given = kubelet_gates(scene)
    moved = set(scene.pending_nodes)
    expected: dict[str, Scalar] = {
        node: gates_text(
            {
                name: value
                for name, value in (given if given is not None and node in moved else gates).items()
                if name not in gone
            }
        )
        for node, gates in sorted(own.items())
    }
    checks.fact("check:kubelet-gates", "kubelet.gates", {"nodes": tuple(sorted(own))}, expected=expected)


def _counts(scene: Scene, rows: int) -> bool:
    """Whether a map by node or pool would not hold: nodes get new names, or there are too many to print."""
    return scene.distribution.nodes in ("pool", "pool-all") or rows > MOST_NODES


def _addon(scene: Scene, addon: str) -> Workload | None:
    return next((item for item in scene.snapshot.workloads if item.addon == addon), None)


def _main_image(item: Workload, name: str) -> tuple[str, str]:
    """(container, image) of the add-on itself among its containers."""
    for container, image in sorted(item.images.items()):
        if container == name or parse_image(image).name == name:
            return container, image
    return next(iter(sorted(item.images.items())), ("", ""))


def _at_version(image: str, version: str) -> str:
    """The same image with another release in its tag; empty where its tag is no plain release."""
    reference = parse_image(image)
    if not reference.tag or reference.digest or reference.version is None or reference.version.build:
        return ""
    prefix = "v" if reference.tag.startswith("v") else ""
    return image[: -len(reference.tag)] + prefix + version.removeprefix("v")


def _addons(checks: _List, hop: HopPlan | None) -> None:
    scene = checks.scene
    proxy, dns = _addon(scene, "kube-proxy"), _addon(scene, "coredns")
    for name, item in (("kube-proxy", proxy), ("coredns", dns)):
        if item is None:
            continue
        args = {"kind": item.kind, "namespace": item.namespace, "name": item.name}
        container, image = _main_image(item, name)
        wanted = (
            hop.version
            if hop is not None and name == "kube-proxy"
            else hop.coredns
            if hop is not None
            else ""
        )
        managed = scene.distribution.etcd == "kubeadm"
        expected = _at_version(image, wanted) if wanted and (managed or name == "kube-proxy") else ""
        if expected and hop is not None and (managed or name == "coredns"):
            checks.fact(
                f"check:{name}-image", "workload.image", {**args, "container": container}, expected=expected
            )
        checks.fact(f"check:{name}-ready", "workload.not-ready", args, expected=0, wait=60)
    if proxy is not None and hop is not None and proxy.selector:
        selector = ",".join(f"{key}={value}" for key, value in sorted(proxy.selector.items()))
        container, image = _main_image(proxy, "kube-proxy")
        if kubernetes_release(parse_image(image).tag, "kube-proxy"):
            args = {
                "component": "kube-proxy",
                "namespace": proxy.namespace,
                "selector": selector,
                "container": container,
            }
            checks.fact(
                "check:kube-proxy-running",
                "component.daemon-versions",
                args,
                expected=(hop.version,),
                compare="version",
                wait=60,
            )


# ------------------------------------------------------------------------------------------------ workloads


def _workloads(checks: _List) -> None:
    scene = checks.scene
    snapshot = scene.snapshot
    if "resourceclaims.resource.k8s.io" in snapshot.kinds_read and snapshot.claims:
        checks.fact("check:held", "claims.held", {}, compare="at-least", wait=120)
        checks.fact("check:waiting", "claims.waiting", {}, compare="at-most", wait=120)
    if any(pod.extended_mappings for pod in snapshot.pods):
        checks.fact("check:mapped", "pods.mapped", {}, compare="at-least", wait=120)
    if "pods" in snapshot.kinds_read and (snapshot.drivers or any(pod.uses_devices for pod in snapshot.pods)):
        checks.fact("check:pending", "pods.pending-for-devices", {}, compare="at-most", wait=120)
    owners = sorted(
        {
            (p.owner.kind, p.owner.namespace, p.owner.name)
            for p in snapshot.pods
            if p.uses_devices and p.owner is not None
        },
    )
    for kind, namespace, name in owners[:20]:
        if kind in ("Deployment", "StatefulSet", "DaemonSet"):
            args = {"kind": kind, "namespace": namespace, "name": name}
            checks.fact(
                f"check:workload:{kind}:{namespace}/{name}",
                "workload.not-ready",
                args,
                compare="at-most",
                wait=120,
            )
    for budget in snapshot.disruption_budgets:
        if budget.disruptions_allowed == 0:
            key = f"{budget.namespace}/{budget.name}"
            checks.fact(
                f"check:budget:{key}",
                "budget.limit",
                {"namespace": budget.namespace, "name": budget.name},
                compare="same-as-before",
            )
    offered = {name for node in snapshot.nodes for name in node.allocatable}
    resources = sorted({ask.resource for pod in snapshot.pods for ask in pod.asks} & offered)
    for resource in resources:
        if "/" in resource:
            fact = "nodes.allocatable-counts" if _counts(scene, len(snapshot.nodes)) else "nodes.allocatable"
            checks.fact(
                f"check:allocatable:{resource}",
                fact,
                {"resource": resource},
                compare="same-as-before",
                wait=60,
            )
    for item in snapshot.device_classes:
        if item.extended_resource_name:
            checks.fact(
                f"check:class:{item.name}",
                "class.extended-resource",
                {"name": item.name},
                compare="same-as-before",
            )


def _devices(checks: _List) -> None:
    snapshot = checks.scene.snapshot
    for driver in snapshot.drivers:
        _published(checks, driver)
        _driver_workload(checks, driver)
    for claim in snapshot.claims:
        if claim.device_status and not claim.extended_resource and not claim.template and not claim.owner:
            checks.fact(
                f"check:status:{claim.namespace}/{claim.name}",
                "claim.device-status",
                {"namespace": claim.namespace, "name": claim.name},
                compare="filled",
                wait=120,
            )
    for rule in snapshot.taint_rules:
        args = {"name": rule.name}
        checks.fact(f"check:rule:{rule.name}", "rule.effect", args, compare="same-as-before")
        if rule.effect != "NoExecute":
            checks.fact(f"check:rule-evicts:{rule.name}", "rule.evicts", args, expected="False", wait=30)
    if any(pod.uses_devices for pod in snapshot.pods):
        checks.fact("check:unhealthy", "pods.unhealthy-devices", {}, compare="at-most")


def _published(checks: _List, driver: Driver) -> None:
    """What the driver publishes: a starting kubelet takes its node's slices away, so each is waited for."""
    scene, name = checks.scene, driver.driver
    pools = [pool for pool in scene.snapshot.pools if pool.driver == name]

    def same(key: str, fact: str, **more: str) -> None:
        checks.fact(
            f"check:{key}:{name}",
            fact,
            {"driver": name, **more},
            compare="same-as-before",
            wait=KUBELET_SLICES_WAIT,
        )

    if driver.devices or driver.nodes:
        same("devices", "dra.device-counts" if _counts(scene, len(pools)) else "dra.devices")
        checks.fact(
            f"check:pools:{name}",
            "dra.pools-incomplete",
            {"driver": name},
            expected=(),
            wait=KUBELET_SLICES_WAIT,
        )
    if driver.device_driver_versions and not driver_target(scene, driver)[0]:
        same("attribute", "dra.attribute", attribute="driverVersion")
    if any(device.taints for pool in pools for device in pool.devices):
        same("device-taints", "dra.device-taints")


def _driver_workload(checks: _List, driver: Driver) -> None:
    workload, name = driver.workload, driver.driver
    if workload is None or workload.kind not in ("DaemonSet", "Deployment", "StatefulSet"):
        return
    moving, image, container = driver_target(checks.scene, driver)
    container = container or driver.container
    base = {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
    key, args = f"check:driver-image:{name}", {**base, "container": container}
    if moving and image and container:
        checks.fact(key, "workload.image", args, expected=image)
    elif driver.container and not moving:
        args["container"] = driver.container
        checks.fact(key, "workload.image", args, compare="same-as-before")
    checks.fact(f"check:driver-ready:{name}", "workload.not-ready", base, expected=0, wait=60)


# ------------------------------------------------------------------------------------------------ runtime and the user's own


def _each_pod(scene: Scene, kind: str, namespace: str, name: str, pod: str, command: str) -> str:
    """The command for one Pod turned to every Pod of its workload: after a drain they have new names."""
    workload = next(
        (
            item
            for item in scene.snapshot.workloads
            if (item.kind, item.namespace, item.name) == (kind, namespace, name) and item.selector
        ),
        None,
    )
    if workload is None:
        return command
    selector = ",".join(f"{key}={value}" for key, value in sorted(workload.selector.items()))
    inner = command.replace(f" {quoted(pod)} ", ' "$pod" ', 1)
    listed = f"kubectl -n {quoted(namespace)} get pods -l {quoted(selector)} -o name"
    return f'for pod in $({listed}); do echo "$pod"; {inner}; done'


def _devices_of(pod: PodUse, probe: Probe) -> int:
    """Number of devices that a probe must find in a container."""
    if probe.devices:
        return len(probe.devices)
    return sum(
        count(ask.quantity)
        for ask in pod.asks
        if ask.container == probe.container and ask.resource == probe.subject
    )


def _seen_inside(pod: PodUse, probe: Probe, *, each: bool) -> str:
    """What a probe must show: a number, and never the very devices, since claims are allocated anew after a drain."""
    if "/sys/class/net/" in probe.command or "ip -o addr" in probe.command:
        text = tr("the interface answers with an address; in this reading: {expect}", expect=probe.expect)
    else:
        text = tr(
            "{n} of {subject}; which ones may differ", n=_devices_of(pod, probe) or "?", subject=probe.subject
        )
    return tr("each Pod: {text}", text=text) if each else text


def _runtime_reads(probe: Probe) -> str:
    """How what a container prints is read: what stands for one device."""
    if "ls -l /dev; env" in probe.command:
        return tr(
            "look for the device files in /dev, and for variables that name {subject}", subject=probe.subject
        )
    if "/sys/class/net/" in probe.command:
        return tr(
            "good when a hardware address is printed; no such file: the interface is not in the container"
        )
    if "ip -o addr" in probe.command:
        return tr("good when the interface has the address; does not exist: it is not in the container")
    if "env | grep" in probe.command:
        return tr(
            "a device a line, behind the name of its Pod: count the lines; no line: the container has none"
        )
    if "nvidia-smi" in probe.command:
        return tr("a device a line, with its UUID: count the lines")
    return tr("a device file a line: count those of devices; No such file: the container has none")


def _runtime(scene: Scene) -> list[CheckDraft]:
    """What no API shows: a line a workload that uses devices, to be filled by someone who looks.

    The command is that of `changegen.probe` for one of its Pods, turned to every Pod of the workload.
    """
    first: dict[tuple[str, str, str], PodUse] = {}
    for pod in scene.snapshot.pods:
        if pod.uses_devices and pod.phase == "Running":
            kind, name = (pod.owner.kind, pod.owner.name) if pod.owner is not None else ("", pod.name)
            first.setdefault((pod.namespace, name, kind), pod)
    chosen = dict(sorted(first.items(), key=lambda item: item[0])[:MOST_RUNTIME])
    found = probes(scene.snapshot, pods=[f"{key[0]}/{one.name}" for key, one in chosen.items()])
    drafts = []
    for (namespace, name, kind), one in chosen.items():
        own = [item for item in found if (item.namespace, item.pod) == (namespace, one.name) and item.command]
        if not own:
            continue
        head = own[0]
        command = _each_pod(scene, kind, namespace, name, one.name, head.command)
        shown = f"{namespace}/{name}"
        drafts.append(
            CheckDraft(
                key=f"check:runtime:{shown}",
                layer="runtime",
                title=tr(
                    "A container of {workload} sees its devices ({subjects})",
                    workload=shown,
                    subjects=", ".join(dict.fromkeys(item.subject for item in own)),
                ),
                command=command,
                query=Query(fact="runtime.evidence", args={"title": shown, "command": command}),
                before_known=False,
                expected=_seen_inside(one, head, each=command != head.command),
                compare="manual",
                manual=tr("Needs someone who looks: no API shows what a container sees."),
                reads_as=_runtime_reads(head),
            )
        )
    return drafts


def _own(scene: Scene) -> list[CheckDraft]:
    return [
        CheckDraft(
            key=f"check:own:{position}",
            layer=item.layer,
            title=item.title,
            command=item.command,
            query=None,
            before=None,
            before_known=False,
            expected=item.expected,
            compare="manual",
            manual="" if item.command else tr("As the title says."),
            source="profile",
        )
        for position, item in enumerate(scene.profile.checks, start=1)
    ]
