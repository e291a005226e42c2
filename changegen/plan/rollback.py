"""The way back: what each changed thing was, how it comes back, in which order, and whether it can.

Order: what came last goes first. DRA drivers before the cluster, then kubelets, then add-ons, controller-manager and
scheduler with their API server node by node, configuration, and etcd last. Each verdict is computed from the snapshot
by a function of its own, so that two clusters can have two answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Literal

import msgspec

from changegen.assess.context import VersionWish
from changegen.assess.context import names as listed_names
from changegen.facts import command as fact_command
from changegen.i18n import tr
from changegen.model.snapshot import DisruptionBudget
from changegen.model.ticket import Command, Verdict
from changegen.plan.draft import BackDraft
from changegen.plan.scene import HopPlan, Member, Scene, quoted
from changegen.plan.steps.after import planned_migrations, planned_taints
from changegen.plan.steps.common import KUBECTL, driver_target, gathered, in_turn
from changegen.versions import minor_key, minor_of

__all__ = [
    "Judgement",
    "driver_verdict",
    "etcd_verdict",
    "extended_verdict",
    "make_rollback",
    "min_compat_verdict",
    "rules_verdict",
]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its reason."""

    verdict: Verdict
    until: str = ""
    why: str = ""
    lost: str = ""


# ------------------------------------------------------------------------------------------------ verdicts


def etcd_verdict(members: Sequence[Member], target: str, today: str = "") -> Judgement:
    """Whether etcd can go back, by its members' versions and the version that the change brings.

    ``today`` is the etcd that belongs to the Kubernetes of today, where that is known: members that run the target's
    minor already were moved before, or the minor does not change at all.

    The cluster's version and storage rise only when the lowest member runs the new minor; from then on the older etcd
    refuses the data unless a downgrade is enabled first. (etcd server, version/monitor.go; measured.)
    """
    wanted = minor_of(target)
    known = [minor_of(member.version) for member in members]
    if wanted is None or not members:
        return Judgement(verdict="reversible", why=tr("etcd's minor does not change."))
    if all(minor == wanted for minor in known):
        before = minor_of(today)
        if before is None or minor_key(before) >= minor_key(wanted):
            return Judgement(verdict="reversible", why=tr("etcd's minor does not change."))
        return Judgement(
            verdict="one-way",
            why=tr(
                "Every member already runs {minor}: the older etcd refuses the data, and only an etcd downgrade leads back.",
                minor=wanted,
            ),
        )
    behind = [member for member, minor in zip(members, known, strict=True) if minor != wanted]
    older = minor_of(behind[0].version) or ""
    if older and minor_key(older) > minor_key(wanted):
        return Judgement(
            verdict="one-way",
            why=tr(
                "etcd would go from {older} to {wanted}: that is a downgrade itself.",
                older=older,
                wanted=wanted,
            ),
        )
    refused = tr(
        'etcd {older} then refuses the data (version "{target}" is not supported) unless etcdctl downgrade enable {older} and a rolling downgrade come first',
        older=older,
        target=target.removeprefix("v"),
    )
    if len(members) == 1:
        return Judgement(
            verdict="reversible-until",
            until=tr("its only member runs {minor}, at once when the change starts", minor=wanted),
            why=tr("There is one member: it is the last one too.") + " " + refused + ".",
        )
    if len(behind) == 1:
        return Judgement(
            verdict="reversible-until",
            until=tr("the last member, on {node}, runs {minor}", node=behind[0].node, minor=wanted),
            why=tr("All others run {minor} already.", minor=wanted) + " " + refused + ".",
        )
    return Judgement(
        verdict="reversible-until",
        until=tr("the last member, on {node}, runs {minor}", node=behind[-1].node, minor=wanted),
        why=tr("A member can go back alone until then; {refused}.", refused=refused),
    )


def rules_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """What becomes of DeviceTaintRules in the older minor: they stay stored; whether they work is its gate and API."""
    rules = scene.snapshot.taint_rules
    if not rules:
        return None
    older = minor_of(hop.today) or ""
    names = ", ".join(rule.name for rule in rules)
    if older and minor_key(older) >= (1, 37):
        return Judgement(
            verdict="reversible", why=tr("{older} serves and obeys them as the target does.", older=older)
        )
    gates = scene.context.gate_states(
        "DRADeviceTaintRules", ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    )
    gate_on = bool(gates) and all(state.value is True for state in gates)
    runtime = [entry for process in scene.snapshot.processes for entry in process.runtime_config or ()]
    configured = [entry for item in scene.context.of("kube-apiserver") for entry in item.runtime_config or ()]
    wanted = ("resource.k8s.io/v1beta2=true", "api/beta=true", "api/all=true")
    served_configured = any(word in entry for entry in configured for word in wanted)
    served_flagz = any(word in entry for entry in runtime for word in wanted)
    if gate_on and served_configured:
        return Judgement(
            verdict="reversible",
            why=tr(
                "{older} knows them as v1beta2; its gate and its API are on in the saved manifests.",
                older=older,
            ),
        )
    missing = []
    if not gate_on:
        missing.append(tr("gate DRADeviceTaintRules is not on everywhere"))
    if not served_configured:
        missing.append(
            tr("runtime-config resource.k8s.io/v1beta2=true is in /flagz only, in no manifest")
            if served_flagz
            else tr("runtime-config resource.k8s.io/v1beta2=true is not set")
        )
    return Judgement(
        verdict="reversible",
        why=tr("The objects stay in etcd ({names}).", names=names),
        lost=tr(
            "In {older} they are without effect unless its gate DRADeviceTaintRules and resource.k8s.io/v1beta2 are on: {missing}.",
            older=older,
            missing="; ".join(missing),
        ),
    )


def extended_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """Whether Pods that ask for an extended resource of a DeviceClass find devices again in the older minor.

    The scheduler makes their claims with the gate DRAExtendedResource alone; Pods that run keep what they have. (Run on
    1.36.3: with the gate off a new Pod stays Pending.)
    """
    resources = sorted({item.extended_resource_name for item in scene.snapshot.device_classes} - {""})
    if not resources:
        return None
    older, shown = minor_of(hop.today) or "", ", ".join(resources)
    states = scene.context.gate_states(
        "DRAExtendedResource", ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    )
    if states and all(state.value is True for state in states):
        return Judgement(
            verdict="reversible",
            why=tr("{older} makes claims for {resources} as it does today.", older=older, resources=shown),
        )
    return Judgement(
        verdict="reversible",
        why=tr("Pods that run keep their devices ({resources}).", resources=shown),
        lost=tr(
            "In {older} the gate DRAExtendedResource is not known to be on everywhere: Pods that are made after the way back "
            "get {resources} from device plugins only, and wait where there is none.",
            older=older,
            resources=shown,
        ),
    )


def min_compat_verdict(scene: Scene, hop: HopPlan) -> Judgement | None:
    """Raised to the binary's own minor, kube-apiserver may write what the minor before cannot read."""
    configured = set()
    for item in scene.snapshot.config_maps:
        for fact in item.component_flags.get("kube-apiserver", ()):
            if fact.name == "min-compatibility-version" and fact.values:
                configured.add(minor_of(fact.values[-1].rpartition("=")[2]))
    if not any(item.kind == "kubeadm" for item in scene.snapshot.config_maps):
        for component in scene.context.of("kube-apiserver"):
            if component.min_compatibility_version:
                configured.add(minor_of(component.min_compatibility_version.rpartition("=")[2]))
    if hop.minor in configured:
        return Judgement(
            verdict="one-way",
            why=tr(
                "--min-compatibility-version is {minor}, the target's own minor: it may write what the minor before cannot read.",
                minor=hop.minor,
            ),
        )
    return None


class _DriverRule(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the data: a driver's step that cannot be undone. Ranges are wishes joined by spaces."""

    driver: str
    from_: str = msgspec.field(name="from")
    to: str
    verdict: Literal["one-way"]
    why: str
    source: str


@lru_cache(maxsize=1)
def _driver_rules() -> tuple[_DriverRule, ...]:
    text = (files("changegen") / "data" / "driver-rollback.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[_DriverRule, ...])


def _in_range(version: str, wishes: str) -> bool:
    return all(VersionWish.parse(wish).satisfied(version) is True for wish in wishes.split())


def driver_verdict(driver: str, today: str, target: str) -> Judgement:
    """Whether a DRA driver's step can be undone, by the rows of the data; what is not in it is thought reversible."""
    version = target.lstrip(">=<~^ ")
    for rule in _driver_rules():
        if rule.driver == driver and _in_range(today, rule.from_) and _in_range(version, rule.to):
            return Judgement(
                verdict="one-way", why=tr("{why} (source: {source})", why=tr(rule.why), source=rule.source)
            )
    return Judgement(
        verdict="reversible",
        why=tr(
            "Nothing in the data of this tool speaks against it; the driver's own release notes were not read."
        ),
    )


# ------------------------------------------------------------------------------------------------ the list


def make_rollback(scene: Scene) -> list[BackDraft]:
    """All ways back, in the order in which they are gone."""
    backs: list[BackDraft] = []
    hops = scene.hops
    backs += _migrations(scene)
    backs += _taints(scene)
    backs += _drivers(scene)
    if hops:
        hop = hops[-1]
        backs += _kubelets(scene, hop)
        backs += _addons(scene)
        backs += _control_plane(scene, hops)
        backs += _config(scene, hop)
        backs += _etcd(scene, hops)
        backs += _rules(scene, hop)
        backs += _extended(scene, hop)
        backs += _packages(scene, hops[0])
        backs += _stored(scene, hop)
        backs += _owners(scene)
        backs += _restore(scene, hops)
    return backs


def _migrations(scene: Scene) -> list[BackDraft]:
    backs = []
    for moved in planned_migrations(scene):
        nodes = [node for part in moved.steps for node in part.nodes]
        if not nodes:
            continue
        escaped = moved.resource.replace(".", "\\.")
        commands = []
        for node in reversed(nodes):
            commands += [
                Command(
                    text=f"kubectl drain {quoted(node)} --ignore-daemonsets", where=KUBECTL, runs="write"
                ),
                Command(
                    text=f"kubectl get node {quoted(node)} -o jsonpath='{{.status.allocatable.{escaped}}}'",
                    where=KUBECTL,
                ),
                Command(text=f"kubectl uncordon {quoted(node)}", where=KUBECTL, runs="write"),
            ]
        backs.append(
            BackDraft(
                key=f"back:migrate:{moved.resource}",
                what=tr("{resource} served by DRA", resource=moved.resource),
                to=tr("its device plugin on {nodes}", nodes=listed_names(nodes)),
                commands=commands,
                verdict="reversible",
                why=tr(
                    "Node by node: drain, bring the device plugin back, wait until the allocatable is above 0, uncordon. The scheduler takes a device plugin wherever a node has one."
                ),
                lost=tr("Running Pods on these nodes are made again once more."),
                minutes=scene.profile.minutes.node * len(nodes),
                needs=[f"migrate:{moved.resource}:{n}" for n, _ in enumerate(moved.steps, start=1)],
            )
        )
    return backs


def _taints(scene: Scene) -> list[BackDraft]:
    return [
        BackDraft(
            key=f"back:taint:{rule.name}",
            what=tr("Device taint {key}", key=rule.key),
            to=tr("no rule"),
            commands=[
                Command(
                    text=f"kubectl delete devicetaintrules.resource.k8s.io {quoted(rule.name)}",
                    where=KUBECTL,
                    runs="write",
                )
            ],
            verdict="reversible-until",
            until=tr("effect NoExecute is set"),
            why=tr(
                "The devices are free to take again at once; Pods that were evicted do not come back by themselves, but their controllers make new ones."
            ),
            lost=tr("Evicted Pods, and those without a controller for good."),
            minutes=2,
        )
        for rule in planned_taints(scene)
    ]


def _drivers(scene: Scene) -> list[BackDraft]:
    backs = []
    for driver in scene.snapshot.drivers:
        version, _, container = driver_target(scene, driver)
        if not version:
            continue
        judged = driver_verdict(driver.driver, driver.version, version)
        commands: list[Command] = []
        workload = driver.workload
        if workload is not None and driver.image and container:
            kind = workload.kind.lower()
            where = f"-n {quoted(workload.namespace)}"
            commands = [
                Command(
                    text=f"kubectl {where} set image {kind}/{quoted(workload.name)} {quoted(f'{container}={driver.image}')}",
                    where=KUBECTL,
                    runs="write",
                ),
                Command(
                    text=f"kubectl {where} rollout status {kind}/{quoted(workload.name)} --timeout=10m",
                    where=KUBECTL,
                ),
            ]
        backs.append(
            BackDraft(
                key=f"back:driver:{driver.driver}",
                what=tr("DRA driver {driver}", driver=driver.driver),
                to=driver.image or driver.version,
                commands=commands,
                verdict=judged.verdict,
                until=judged.until,
                why=judged.why
                + " "
                + tr("Before the cluster: an older cluster may not serve what the newer driver asks for."),
                lost=tr("Pools are published again in a new generation; claims that are prepared stay."),
                minutes=scene.profile.minutes.driver,
            )
        )
    return backs


def _kubelets(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    dist = scene.distribution
    nodes = tuple(
        name
        for name in scene.pending_nodes
        if not (dist.kubelet_with_control_plane and name in scene.control_nodes)
    )
    if not nodes or dist.nodes == "by-control-plane":
        return []
    versions: dict[str, list[str]] = {}
    for name in nodes:
        versions.setdefault(scene.nodes[name].kubelet_version, []).append(name)
    previous = "; ".join(f"{version}: {len(names)}" for version, names in sorted(versions.items()))
    head = nodes[-1]
    drains = [scene.drain_of(name) for name in nodes]
    most = max(versions, key=lambda version: (len(versions[version]), version))
    templates = (
        dist.rollback.get("kubelet", ()) if dist.nodes == "drain-each" else dist.rollback.get("pool", ())
    )
    commands: list[Command] = []
    if templates:
        groups = sorted({scene.group_of(name) for name in nodes} - {""}) if dist.nodes == "pool" else [""]
        for group in groups or [""]:
            fields = {
                "node": '"$NODE"',
                "drain_flags": " ".join(dict.fromkeys(flag for drain in drains for flag in drain.flags)),
                "group": quoted(group),
            }
            made = scene.commands(templates, hop, "", fields | scene.going_back(most))
            commands += [Command(text=c.text, where=c.where or tr("the node"), runs=c.runs) for c in made]
        if dist.packages and commands:
            families = dist.packages.get("kubelet-back", {})
            commands[1:1] = [
                Command(
                    text=c.text, where=in_turn(names) if len(versions) > 1 else tr("the node"), runs=c.runs
                )
                for version, names in sorted(versions.items())
                for c in scene.commands(
                    families.get(scene.family(names[0]), families.get("other", ())),
                    hop,
                    "",
                    {"node": '"$NODE"'} | scene.going_back(version),
                )
            ]
        at = next((at for at, c in enumerate(commands) if '"$NODE"' in c.text), None)
        if at is not None:
            commands.insert(at, Command(text=f"NODE={quoted(head)}", where=commands[at].where))
    provider = dist.nodes in ("pool", "pool-all")
    one_way = dist.downgrade == "one-way" and not templates
    return [
        BackDraft(
            key="back:kubelet",
            what=tr("kubelet of {node}", node=nodes[0])
            if len(nodes) == 1
            else tr("kubelets of {n} nodes", n=len(nodes)),
            to=previous,
            commands=commands,
            verdict="one-way" if one_way else "reversible",
            why=tr(
                "Drained, one node at a time; before any API server goes back, since a kubelet is never newer than one."
            )
            if not provider
            else tr("The provider takes a node group back to an older version that it still offers.")
            if dist.pool_back == "same"
            else tr(
                "A node group does not go back by itself: a new one with the older version is made beside it, and the workloads move."
            ),
            lost=tr(
                "What a drain deletes: Pods without a controller and emptyDir data. A starting kubelet deletes its ResourceSlices until the drivers are back."
            ),
            minutes=scene.profile.minutes.node * len(nodes) // max(1, scene.profile.minutes.node_parallel),
        )
    ]


def _addons(scene: Scene) -> list[BackDraft]:
    commands = []
    previous = []
    for item in scene.snapshot.workloads:
        if item.addon not in ("kube-proxy", "coredns"):
            continue
        for container, image in sorted(item.images.items()):
            previous.append(f"{item.addon} {image}")
            commands.append(
                Command(
                    text=f"kubectl -n {quoted(item.namespace)} set image {item.kind.lower()}/{quoted(item.name)} {quoted(f'{container}={image}')}",
                    where=KUBECTL,
                    runs="write",
                )
            )
    if not commands:
        return []
    return [
        BackDraft(
            key="back:addons",
            what=tr("kube-proxy and CoreDNS"),
            to="; ".join(previous),
            commands=commands,
            verdict="reversible",
            why=tr(
                "kube-proxy is never newer than an API server: before the API servers go back. Their ConfigMaps as saved, if they changed."
            ),
            minutes=5,
        )
    ]


def _previous(scene: Scene) -> str:
    """Image and gates of each control-plane component as recorded, equal ones together."""
    texts = []
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        seen: dict[str, list[str]] = {}
        for item in scene.instances(name):
            gates = item.feature_gates
            shown = (
                ", ".join(f"{gate}={str(value).lower()}" for gate, value in sorted(gates.items()))
                or tr("no gate set")
                if isinstance(gates, dict)
                else tr("gates unobservable")
            )
            seen.setdefault(f"{item.image or item.version} ({shown})", []).append(item.node or "")
        for value, nodes in sorted(seen.items()):
            where = "" if len(seen) == 1 else f" {', '.join(nodes)}"
            texts.append(f"{name}{where}: {value}")
    return "; ".join(texts) or scene.today


def _control_plane(scene: Scene, hops: Sequence[HopPlan]) -> list[BackDraft]:
    dist, hop = scene.distribution, hops[-1]
    commands: list[Command] = []
    templates = dist.rollback.get("control-plane", ())
    per_node = dist.control_plane == "one-by-one" and scene.control_nodes
    if dist.downgrade == "restore":
        commands += _restored_servers(scene, hops[0])
    else:
        back = tuple(reversed(scene.control_nodes)) if per_node else scene.control_nodes[:1] or ("",)
        commands += gathered([(node, scene.commands(templates, hops[0], node)) for node in back])
    lost = [
        tr(
            "Fields and objects that only the newer version knows: an older API server drops unknown fields when it writes the object."
        )
    ]
    verdict: Verdict = "reversible"
    why = tr(
        "Node by node, controller-manager and scheduler with or before their API server. The manifests bring back images and gates as they were."
    )
    until = ""
    compat = min_compat_verdict(scene, hop)
    if dist.downgrade == "one-way":
        verdict = "one-way"
        why = tr(
            "{distribution} has no way back for the control plane that this tool knows of.",
            distribution=dist.title or scene.snapshot.cluster.distribution,
        )
        if dist.name == "eks":
            why += " " + tr("Ask the provider whether a rollback window is offered for this version.")
    elif dist.downgrade == "restore":
        verdict = "reversible-until"
        until = tr("the first server runs the new release")
        why = tr(
            "The data store and the Kubernetes version go back together: the older release starts from the snapshot taken before."
        )
        if any("$SNAPSHOT" in item.text for item in commands):
            why += " " + tr(
                "SNAPSHOT is the file that the snapshot step listed. All servers stop first; one restores, the others join it with an empty data store."
            )
        lost = [tr("Everything written after the snapshot.")]
    if compat is not None:
        verdict, why, until = compat.verdict, compat.why, ""
    if len(hops) > 1:
        why += " " + tr(
            "Over several minors, one minor at a time, each as its own step back: kubeadm goes back one minor at most."
        )
        if verdict == "reversible":
            verdict = "reversible-until"
            until = tr("the second hop, {label}, starts", label=hops[1].label)
    return [
        BackDraft(
            key="back:control-plane",
            what=tr("kube-apiserver, kube-controller-manager and kube-scheduler"),
            to=_previous(scene),
            commands=commands,
            verdict=verdict,
            until=until,
            why=why,
            lost=" ".join(lost),
            minutes=scene.profile.minutes.control_plane_node * max(1, len(scene.control_nodes)),
        )
    ]


def _restored_servers(scene: Scene, hop: HopPlan) -> list[Command]:
    """All servers stop, the first restores the data store with the older release, the others join it."""
    parts = scene.distribution.rollback
    nodes = scene.control_nodes
    if not nodes:
        each = scene.commands(parts.get("control-plane", ()), hop, "", {"node": '"$NODE"'})
        return [Command(text=c.text, where=c.where or tr("the first server"), runs=c.runs) for c in each]
    commands: list[Command] = []
    commands += gathered(
        [(node, scene.commands(parts.get("control-plane-stop", ()), hop, node)) for node in nodes]
    )
    commands += scene.commands(parts.get("control-plane", ()), hop, nodes[0])
    join = parts.get("control-plane-join", parts.get("control-plane", ()))
    return commands + gathered([(node, scene.commands(join, hop, node)) for node in nodes[1:]])


def _config(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    found = [item for item in scene.snapshot.config_maps if item.kind in ("kubeadm", "kubelet", "kube-proxy")]
    if not any(item.kind == "kubeadm" for item in found):
        return []
    release = scene.fields(hop)["release"]
    texts = []
    for item in found:
        gates = {
            component: ", ".join(source.flag_values)
            or ", ".join(f"{k}={str(v).lower()}" for k, v in sorted(source.gates.items()))
            for component, source in sorted(item.component_gates.items())
            if source.gates
        }
        inside = "; ".join(f"{component} {value}" for component, value in gates.items())
        version = f"kubernetesVersion {item.kubernetes_version}" if item.kubernetes_version else ""
        texts.append(f"{item.name}: " + (", ".join(filter(None, (version, inside))) or tr("as saved")))
    return [
        BackDraft(
            key="back:config",
            what=tr("ConfigMap kubeadm-config, and the others that were saved"),
            to=" | ".join(texts),
            commands=[
                Command(
                    text=f"sed -e '/^  resourceVersion:/d' -e '/^  uid:/d' -e '/^  creationTimestamp:/d' kubeadm-config-before-{release}.yaml | kubectl replace -f -",
                    where=tr("the machine with the saved files"),
                    runs="write",
                )
            ],
            verdict="reversible",
            why=tr(
                "After the manifests are back: kubeadm's next run starts from it. A gate that the target refuses comes back with it."
            ),
            minutes=5,
        )
    ]


def _etcd(scene: Scene, hops: Sequence[HopPlan]) -> list[BackDraft]:
    dist = scene.distribution
    if dist.downgrade == "one-way" and dist.etcd != "kubeadm":
        return []
    if not scene.members and dist.etcd != "os":
        return _unseen_etcd(scene)
    target = next((hop.etcd for hop in reversed(hops) if hop.etcd), "")
    if dist.etcd == "os":
        return [
            BackDraft(
                key="back:etcd",
                what="etcd",
                to=", ".join(sorted({member.version for member in scene.members})) or tr("unchanged"),
                verdict="reversible",
                why=tr("It comes with the operating system: this change does not touch it."),
                minutes=0,
            )
        ]
    if not target:
        return _unseen_etcd(scene)
    base = scene.data.base_versions(scene.today) if scene.data.knows(scene.today) else None
    judged = etcd_verdict(scene.members, target, base.etcd if base is not None else "")
    if base is not None and judged.verdict == "one-way":
        older = minor_of(base.etcd) or ""
    else:
        older = minor_of(scene.members[-1].version) or ""
    fields = {"etcd_old_minor": older}
    commands = gathered(
        [
            (member.node, scene.commands(dist.rollback.get("etcd", ()), hops[0], member.node))
            for member in reversed(scene.members)
            if minor_of(member.version) != minor_of(target) or judged.verdict == "reversible"
        ]
    )
    drafts = [
        BackDraft(
            key="back:etcd",
            what=tr("etcd, member by member"),
            to=", ".join(f"{member.node} {member.version}" for member in scene.members),
            commands=commands,
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=tr(
                "Nothing, before the point; the API server of the older minor also works with the newer etcd, so that etcd may stay where it is."
            )
            if judged.verdict == "reversible-until"
            else "",
            minutes=5 * len(scene.members),
        )
    ]
    if judged.verdict != "reversible" and dist.rollback.get("etcd-downgrade"):
        first = scene.members[0].node
        down = list(scene.commands(dist.rollback["etcd-downgrade"], hops[0], first, fields))
        down += gathered(
            [
                (member.node, scene.commands(dist.rollback.get("etcd", ()), hops[0], member.node))
                for member in reversed(scene.members)
            ]
        )
        drafts.append(
            BackDraft(
                key="back:etcd-downgrade",
                what=tr("etcd, after the last member runs the new minor"),
                to=older,
                commands=down,
                verdict="reversible",
                why=tr(
                    "The rolling downgrade that etcd supports, one minor at a time: enable it once, wait until every member reports storage version {older}, then member by member.",
                    older=older,
                ),
                lost=tr(
                    "Nothing, if every member is healthy; it needs time while the cluster is in trouble already."
                ),
                minutes=30,
                needs=[],
            )
        )
    return drafts


def _unseen_etcd(scene: Scene) -> list[BackDraft]:
    dist = scene.distribution
    if dist.etcd == "hidden" or scene.snapshot.cluster.managed:
        return []
    why = tr(
        "No member was seen, or its version after the change is not known: what comes with the release must be looked up."
    )
    if scene.external_etcd:
        why = tr("etcd is external: this change does not touch it.")
    if scene.external_etcd:
        return [
            BackDraft(
                key="back:etcd", what="etcd", to=tr("unchanged"), verdict="reversible", why=why, minutes=0
            )
        ]
    if dist.downgrade == "restore":
        return []
    return [
        BackDraft(
            key="back:etcd",
            what="etcd",
            to=", ".join(sorted({m.version for m in scene.members})) or tr("not known"),
            verdict="reversible-until",
            until=tr("the first member runs a newer minor, as far as nobody shows otherwise"),
            why=why,
            minutes=30,
        )
    ]


def _rules(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    judged = rules_verdict(scene, hop)
    if judged is None:
        return []
    rules = scene.snapshot.taint_rules
    return [
        BackDraft(
            key="back:rules",
            what=tr("DeviceTaintRules"),
            to="; ".join(f"{rule.name}: {rule.key}={rule.value}:{rule.effect}" for rule in rules),
            commands=[
                Command(
                    text=f"kubectl get --raw /apis/resource.k8s.io/{'v1beta2' if minor_key(minor_of(hop.today) or '1.0') < (1, 37) else 'v1'}/devicetaintrules",
                    where=KUBECTL,
                )
            ],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost,
            minutes=2,
            needs=[],
        )
    ]


def _extended(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    judged = extended_verdict(scene, hop)
    if judged is None:
        return []
    return [
        BackDraft(
            key="back:extended",
            what=tr("Pods that get devices by an extended resource"),
            to=tr("{n} such Pods", n=sum(1 for pod in scene.snapshot.pods if pod.extended_mappings)),
            commands=[Command(text=fact_command("pods.mapped", {}), where=KUBECTL)],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost,
            minutes=2,
            needs=[],
        )
    ]


def _stored(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    """scheduling.k8s.io: what 1.37 stores, 1.36 cannot decode, and the other way round."""
    backs: list[BackDraft] = []
    older, newer = minor_of(hop.today), hop.minor
    if not older or not scene.data.knows(older) or not scene.data.knows(newer):
        return backs
    today = {(a.group, a.resource): a.storage for a in scene.data.apis(older) if a.resource and a.storage}
    decodes = {(a.group, a.version, a.resource) for a in scene.data.apis(older)}
    at_risk = sorted(
        {
            f"{a.group}/{a.storage} {a.resource}"
            for a in scene.data.apis(newer)
            if a.resource
            and a.storage
            and a.served
            and (a.group, a.storage, a.resource) not in decodes
            and (a.group, a.resource) in today
        }
    )
    gone = [item for item in scene.snapshot.stored_objects if item.names]
    if gone:
        backs.append(
            BackDraft(
                key="back:stored",
                what=tr("Objects that were deleted because the target cannot decode them"),
                to="; ".join(f"{item.group_version} {item.resource}: {len(item.names)}" for item in gone),
                commands=[
                    Command(
                        text=f"kubectl create -f {quoted(item.resource + '-before.yaml')}",
                        where=tr("the machine with the saved files"),
                        runs="write",
                    )
                    for item in gone
                ],
                verdict="reversible",
                why=tr("From the saved files, on the older version only."),
                minutes=5,
            )
        )
    if at_risk and gone:
        backs.append(
            BackDraft(
                key="back:new-stored",
                what=tr("Objects that only the target stores"),
                to=tr("none"),
                verdict="reversible-until",
                until=tr("the first such object is written"),
                why=tr(
                    "{older} cannot decode {what}: they must be deleted before going back.",
                    older=older,
                    what=", ".join(at_risk),
                ),
                minutes=5,
                needs=[],
            )
        )
    return backs


def _owners(scene: Scene) -> list[BackDraft]:
    backs: list[BackDraft] = []
    blocked = [b for b in scene.snapshot.disruption_budgets if b.disruptions_allowed == 0]
    if blocked:
        backs.append(
            BackDraft(
                key="back:budgets",
                what=tr("PodDisruptionBudgets that were relaxed"),
                to="; ".join(
                    f"{b.namespace}/{b.name}: "
                    + (
                        f"minAvailable {b.min_available}"
                        if b.min_available
                        else f"maxUnavailable {b.max_unavailable}"
                    )
                    for b in blocked
                ),
                commands=[_budget_command(budget) for budget in blocked],
                verdict="reversible",
                why=tr("Their owner puts them back after the last drain."),
                minutes=2,
            )
        )
    if scene.bare_pods:
        backs.append(
            BackDraft(
                key="back:bare",
                what=tr("Pods without a controller"),
                to=", ".join(f"{p.namespace}/{p.name}" for p in scene.bare_pods),
                verdict="one-way",
                why=tr(
                    "A deleted Pod does not come back; a new one of the same name can be made from its owner's manifest."
                ),
                lost=tr("Their state, their UID and, with a claim, possibly the device they had."),
                minutes=5,
            )
        )
    return backs


def _budget_command(budget: DisruptionBudget) -> Command:
    """Puts the previous number back: an int stays an int, a percentage is text."""
    field, value = (
        ("minAvailable", budget.min_available)
        if budget.min_available
        else ("maxUnavailable", budget.max_unavailable)
    )
    number: int | str = int(value) if value.isdigit() else value
    patch = json.dumps({"spec": {field: number}}, separators=(",", ":"))
    text = f"kubectl -n {quoted(budget.namespace)} patch poddisruptionbudget {quoted(budget.name)} --type=merge -p {quoted(patch)}"
    return Command(text=text, where=KUBECTL, runs="write")


def _packages(scene: Scene, hop: HopPlan) -> list[BackDraft]:
    """The kubeadm on the nodes where the new one was installed."""
    families = scene.distribution.packages.get("kubeadm-back", {})
    if not families or not scene.control_nodes:
        return []
    head = scene.control_nodes[0]
    made = scene.commands(
        families.get(scene.family(head), families.get("other", ())), hop, "", {"node": '"$NODE"'}
    )
    return [
        BackDraft(
            key="back:packages",
            what=tr("kubeadm on the nodes"),
            to=scene.today,
            commands=[Command(text=c.text, where=tr("the node"), runs=c.runs) for c in made],
            verdict="reversible",
            why=tr("Installed, it changes nothing until it is run. Images that were fetched stay unused."),
            minutes=5,
        )
    ]


def _restore(scene: Scene, hops: Sequence[HopPlan]) -> list[BackDraft]:
    dist = scene.distribution
    templates = dist.rollback.get("etcd-restore", ())
    if not templates or not scene.control_nodes:
        return []
    commands: list[Command] = []
    nodes = [member.node for member in scene.members] or list(scene.control_nodes[:1])
    nodes = nodes if "{node}" in templates[0].where else nodes[:1]
    for part in ("etcd-restore-stop", "etcd-restore", "etcd-restore-start"):
        commands += gathered(
            [(node, scene.commands(dist.rollback.get(part, ()), hops[0], node)) for node in nodes]
        )
    return [
        BackDraft(
            key="back:restore",
            what=tr("The whole data store, from the snapshot taken before (last resort)"),
            to=tr("its state at the time of the snapshot"),
            commands=commands,
            verdict="reversible",
            why=tr(
                "All members from the same file, which must first be copied to each of their nodes, with every API server stopped; the revision is raised so that watchers notice. Tried nowhere by this tool: rehearse it."
            )
            if "etcd-restore-stop" in dist.rollback
            else tr(
                "On one node, with the data of the other members wiped: they join it again. Tried nowhere by this tool: rehearse it."
            ),
            lost=tr(
                "Everything written after the snapshot: Pods that run may no longer match, allocations of devices may be granted twice."
            ),
            minutes=30,
            needs=[],
        )
    ]
