"""What the plan is made of, read once from the snapshot: nodes in order, hops with their versions, etcd's members.

Everything is of this cluster; nothing is guessed that the snapshot could tell. Where a file location or a flag was not
read, the distribution's default stands in and `defaulted` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from string import Formatter
from typing import Final, Literal

import msgspec

from changegen.assess.capacity import capacity_rows
from changegen.assess.context import Context
from changegen.assess.dra import asks_budgets
from changegen.kubedata import KubernetesData
from changegen.model.profile import Profile
from changegen.model.snapshot import Component, ConfigMapFact, DisruptionBudget, Node, PodUse, Snapshot
from changegen.model.ticket import CapacityRow, Command
from changegen.plan.distribution import Distribution, Template, distribution
from changegen.shell import quoted, until
from changegen.versions import compare, is_release, kubernetes_release, minor_key, minor_of, try_version

__all__ = ["ETCD", "Drain", "HopPlan", "Member", "Scene"]

CONTROL = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ETCD = "etcd"
SKEW = 3
"""Minors that a kubelet may be behind the API server; the skew policy's number, taken from the data where it is there."""

State = Literal["todo", "asked", "done"]


class HopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One minor step of the control plane (or one step within a minor)."""

    label: str
    """``1.36 -> 1.37``; empty where there is only one."""
    today: str
    """``v1.36.3``"""
    version: str
    """``v1.37.2``"""
    etcd: str
    """Version that kubeadm brings with it, ``v3.7.0``; empty: not known or not moved."""
    coredns: str
    pause: str
    last: bool
    drain: bool
    """Kubelets are moved in this hop."""
    chosen: bool = False
    """The patch was chosen from the data: nobody named it."""

    @property
    def minor(self) -> str:
        """Minor of the version, ``1.37``."""
        return minor_of(self.version) or ""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An etcd member that is seen."""

    node: str
    pod: str
    version: str
    proven: bool


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """What a drain of one node meets."""

    node: str
    flags: tuple[str, ...]
    bare: tuple[str, ...] = ()
    """Pods without a controller: a drain with --force deletes them for good."""
    emptydir: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    """Budgets that allow no disruption now and select a Pod on the node."""
    holders: tuple[str, ...] = ()
    """Pods on it that hold devices."""
    drivers: dict[str, int] = {}
    """driver -> devices that it publishes for the node."""
    grace: int = 30
    """Longest grace period of its Pods, in seconds."""
    down: tuple[str, ...] = ()
    """Workloads whose Pods with devices are all here and get none elsewhere: the drain takes them down."""
    waits: tuple[str, ...] = ()
    """Workloads of which a Pod gets no device elsewhere while the node is out."""
    unknown: bool = False
    """Pods were not read (everywhere): other Pods may be there."""

    @property
    def free(self) -> bool:
        """Whether nothing on the node minds: no Pod with devices, none without a controller, no budget that blocks."""
        return not (self.holders or self.budgets or self.bare)


class Scene:
    """The snapshot as the plan sees it."""

    def __init__(self, snapshot: Snapshot, profile: Profile, data: KubernetesData) -> None:
        self.snapshot = snapshot
        self.profile = profile
        self.data = data
        self.context = Context(snapshot, profile, data)
        self.distribution: Distribution = distribution(
            snapshot.cluster.distribution, managed=snapshot.cluster.managed
        )
        self.defaulted: set[str] = set()

    # -- versions ----------------------------------------------------------------------------------

    @cached_property
    def today(self) -> str:
        """Version that the change starts from, ``v1.36.3``; empty where nothing tells."""
        version = self.context.today
        return version.raw if version is not None else ""

    @cached_property
    def target(self) -> str:
        """Version that the change goes to, ``v1.37.2``; a minor alone gets the data's patch release."""
        wish = self.context.target
        if wish is None or wish.version is None:
            return ""
        if wish.version.patch is None or wish.operator != "=":
            if self.distribution.patch == "provider" and wish.version.patch is None:
                return f"v{wish.version.minor_version}"
            if self.data.knows(wish.version):
                release = self.data.release(wish.version).version
                current = try_version(self.today)
                newest = try_version(release)
                if (
                    current is not None
                    and newest is not None
                    and current.minor_version == newest.minor_version
                    and compare(current, newest) == 1
                ):
                    return self.today
                return self._with_build(release)
            return f"v{wish.version.release}"
        return self._with_build(f"v{wish.version.release}{wish.version.build}")

    def _with_build(self, version: str) -> str:
        """RKE2 and k3s name their own build behind the release: the wish's, else the first of that release."""
        found = try_version(version)
        today = try_version(self.today)
        if found is None or found.build or today is None:
            return version
        match = re.match(r"\+(rke2r|k3s|k0s)\d*", today.build)
        if match is None:
            return version
        return f"{version}+{match[1]}{'' if match[1] == 'k0s' else '1'}"

    @cached_property
    def target_chosen(self) -> bool:
        """Whether nobody named the exact version."""
        wish = self.context.target
        if wish is None or wish.version is None:
            return False
        return (
            wish.version.patch is None
            or wish.operator != "="
            or self.target != f"v{wish.version.release}{wish.version.build}"
        )

    @cached_property
    def moves(self) -> bool:
        """Whether the Kubernetes version changes at all."""
        a, b = try_version(self.today), try_version(self.target)
        if not self.target:
            return False
        return a is None or b is None or not is_release(a, b) or not self.all_proven or self.left_behind

    @cached_property
    def left_behind(self) -> bool:
        """Whether kubeadm's record, or kube-proxy, is not at the target: the upgrade was not finished."""
        wanted = try_version(self.target)
        if wanted is None or self.distribution.name != "kubeadm":
            return False
        recorded = [item.kubernetes_version for item in self.snapshot.config_maps if item.kind == "kubeadm"]
        proxies = [item.running_version or item.version for item in self.context.of("kube-proxy")]
        found = [version for text in (*recorded, *proxies) if (version := try_version(text)) is not None]
        return not all(is_release(version, wanted) for version in found)

    @cached_property
    def all_proven(self) -> bool:
        """Whether every instance that the target concerns is proven to be there."""
        wanted = try_version(self.target)
        if wanted is None:
            return True
        for name in (*CONTROL, "kubelet"):
            for item in self.context.of(name):
                version = try_version(item.running_version)
                if version is None and item.version == "unobservable":
                    continue
                if version is None or not is_release(version, wanted):
                    return False
        return True

    @cached_property
    def skew(self) -> int:
        """Minors that a kubelet may be behind the API server: the version skew policy, as the Kubernetes data has it."""
        for rule in self.data.skew:
            if rule.component == "kubelet" and rule.against == "kube-apiserver":
                return rule.older
        return SKEW

    @cached_property
    def oldest_kubelet(self) -> str:
        """Minor of the oldest kubelet; empty where none is known."""
        minors = {minor_of(node.kubelet_version) for node in self.snapshot.nodes} - {None}
        return min((m for m in minors if m), key=minor_key, default="")

    @cached_property
    def hops(self) -> tuple[HopPlan, ...]:
        """Steps of the control plane, oldest first; kubelets are drained as few times as the skew policy allows."""
        if not self.target:
            return ()
        path = list(self.context.path)
        if not path:
            path = [minor_of(self.target) or ""] if self.moves else []
        if not path:
            return ()
        minors = [minor_of(self.today) or path[0], *path] if self.context.path else [path[0], path[0]]
        kubelet = self.oldest_kubelet
        drains = []
        for position in range(1, len(minors)):
            last = position == len(minors) - 1
            following = minors[position + 1] if not last else ""
            behind = _distance(kubelet, following) if kubelet and following else 0
            drain = last or behind > self.skew
            if drain:
                kubelet = minors[position]
            drains.append(drain)
        hops = []
        previous = self.today
        for position, minor in enumerate(minors[1:], start=1):
            last = position == len(minors) - 1
            if last:
                version, chosen = self.target, self.target_chosen
            elif self.distribution.patch == "provider":
                version, chosen = f"v{minor}", True
            elif self.data.knows(minor):
                version, chosen = self._with_build(self.data.release(minor).version), True
            else:
                version, chosen = f"v{minor}", True
            base = self.data.base_versions(minor) if self.data.knows(minor) else None
            own = self.distribution.etcd == "kubeadm" and base is not None
            label = f"{minors[position - 1]} -> {minor}" if len(minors) > 2 else ""
            hops.append(
                HopPlan(
                    label=label,
                    today=previous,
                    version=version,
                    etcd=(kubernetes_release(base.etcd, "etcd") or "") if own and base is not None else "",
                    coredns=base.coredns if base is not None else "",
                    pause=base.pause if base is not None else "",
                    last=last,
                    drain=drains[position - 1],
                    chosen=chosen,
                )
            )
            previous = version
        return tuple(hops)

    # -- control plane -----------------------------------------------------------------------------

    @cached_property
    def apiservers(self) -> tuple[Component, ...]:
        """API servers that a Pod on a node shows."""
        return tuple(item for item in self.context.of("kube-apiserver") if item.node and item.instance)

    @cached_property
    def leaders(self) -> dict[str, str]:
        """Lease -> node, where the holder names a node of this cluster."""
        names = {node.name for node in self.snapshot.nodes}
        found = {}
        for lease in self.snapshot.leases:
            if lease.name in ("kube-scheduler", "kube-controller-manager"):
                host = re.sub(r"_[0-9a-fA-F-]{8,}$", "", lease.holder)
                node = host if host in names else self._by_hostname.get(host, "")
                if node:
                    found[lease.name] = node
        return dict(sorted(found.items()))

    @cached_property
    def _by_hostname(self) -> dict[str, str]:
        return {node.hostname: node.name for node in self.snapshot.nodes if node.hostname}

    @cached_property
    def control_nodes(self) -> tuple[str, ...]:
        """Control-plane nodes in the order of the change: done ones first, leaders last, else by name.

        Where no Pod shows them, the nodes with a control-plane role; none for a managed control plane.
        """
        if self.snapshot.cluster.managed:
            return ()
        names = {item.node for item in self.apiservers if item.node}
        if not names:
            roles = {"control-plane", "master", "controlplane"}
            names = {node.name for node in self.snapshot.nodes if roles & set(node.roles)}
        leading = set(self.leaders.values())
        rank = {"done": 0, "asked": 1, "todo": 2}
        return tuple(
            sorted(names, key=lambda name: (rank[self.state_of(name)], name in leading, _natural(name)))
        )

    def state_of(self, node: str) -> State:
        """Whether a control-plane node is where it shall go: proven, only asked for, or not."""
        wanted = try_version(self.target)
        if wanted is None:
            return "todo"
        found = [item for name in CONTROL for item in self.context.of(name) if item.node == node]
        if not found:
            return "todo"
        proven = [try_version(item.running_version) for item in found]
        asked = [try_version(item.version) for item in found]
        if all(version is not None and is_release(version, wanted) for version in proven):
            return "done"
        if all(version is not None and is_release(version, wanted) for version in asked):
            return "asked"
        return "todo"

    def instances(self, component: str) -> tuple[Component, ...]:
        """Instances with a Pod, by node."""
        found = [item for item in self.context.of(component) if item.instance and item.node]
        return tuple(sorted(found, key=lambda item: _natural(item.node or "")))

    def flag(self, component: Component, name: str) -> str:
        """Last value of a flag of a Pod; empty where it was not read."""
        for fact in component.flags:
            if fact.name == name and fact.values:
                return fact.values[-1]
        return ""

    def apiserver_url(self, node: str) -> str:
        """Address of one node's own API server; empty where it cannot be told."""
        for item in self.apiservers:
            if item.node != node:
                continue
            host = self.flag(item, "advertise-address")
            if not host or "$" in host:  # OpenShift has the variable of a shell there.
                addresses = [n.internal_ips for n in self.snapshot.nodes if n.name == node]
                host = addresses[0][0] if addresses and addresses[0] else ""
            port = self.flag(item, "secure-port") or "6443"
            host = f"[{host}]" if ":" in host else host
            return f"https://{host}:{port}" if host else ""
        return ""

    # -- etcd --------------------------------------------------------------------------------------

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Etcd members that are seen in this cluster, in the order of the change."""
        order = {name: at for at, name in enumerate(self.control_nodes)}
        found = [
            Member(
                node=item.node or "",
                pod=item.instance or "",
                version=item.running_version or item.version,
                proven=item.running_version is not None,
            )
            for item in self.instances(ETCD)
        ]
        return tuple(sorted(found, key=lambda member: (order.get(member.node, 99), _natural(member.node))))

    @cached_property
    def external_etcd(self) -> bool:
        """Whether kubeadm-config says that etcd is not on these nodes."""
        return any(item.etcd == "external" for item in self.snapshot.config_maps)

    def _etcd_component(self, node: str) -> Component | None:
        found = self.instances(ETCD)
        return next((item for item in found if item.node == node), found[0] if found else None)

    def _etcd_flag(self, node: str, flag: str, path: str) -> str:
        item = self._etcd_component(node)
        value = self.flag(item, flag) if item is not None else ""
        if value:
            return value
        default = self.distribution.paths.get(path, "")
        if default:
            self.defaulted.add(flag)
        return default

    def etcd_fields(self, node: str) -> dict[str, str]:
        """What etcdctl and etcdutl need for one member, from its Pod's own flags."""
        ca = self._etcd_flag(node, "trusted-ca-file", "etcd_ca")
        cert = self._etcd_flag(node, "cert-file", "etcd_cert")
        key = self._etcd_flag(node, "key-file", "etcd_key")
        tls = " ".join(
            f"--{name}={quoted(value)}"
            for name, value in (("cacert", ca), ("cert", cert), ("key", key))
            if value
        )
        endpoint = self.profile.layout.etcd_endpoints or _local(
            self._etcd_flag(node, "listen-client-urls", "etcd_endpoint")
        )
        all_endpoints = [
            self.flag(item, "advertise-client-urls").split(",")[0]
            for item in self.instances(ETCD)
            if self.flag(item, "advertise-client-urls")
        ]
        endpoints = (
            ",".join(all_endpoints) if len(all_endpoints) == len(self.members) and all_endpoints else endpoint
        )
        item = self._etcd_component(node)
        name = (self.flag(item, "name") if item is not None else "") or node
        peer = self._peer(item) if item is not None else ""
        pieces = []
        for other in self.instances(ETCD):
            url = self._peer(other)
            if url:
                pieces.append(f"{self.flag(other, 'name') or other.node}={url}")
        return {
            "etcd_tls": tls,
            "etcd_endpoint": quoted(endpoint),
            "etcd_endpoints": quoted(endpoints),
            "etcd_each": " ".join(map(quoted, endpoints.split(","))),
            "etcd_data": quoted(self._etcd_flag(node, "data-dir", "etcd_data")),
            "etcd_name": quoted(name),
            "etcd_peer": quoted(peer) if peer else '"$PEER_URL"',
            "etcd_cluster": quoted(",".join(pieces))
            if len(pieces) == len(self.members) and pieces
            else '"$INITIAL_CLUSTER"',
            "etcd_pod": quoted(item.instance.split("/")[-1]) if item is not None and item.instance else "",
        }

    def _peer(self, item: Component) -> str:
        """Peer address of a member: as advertised, else where it listens if that is one address."""
        url = self.flag(item, "initial-advertise-peer-urls") or self.flag(item, "listen-peer-urls")
        return "" if "," in url or "0.0.0.0" in url or "[::]" in url else url  # noqa: S104

    # -- files -------------------------------------------------------------------------------------

    @cached_property
    def manifests(self) -> str:
        """Folder of the static Pod manifests: the profile's, where instances were read from, else the usual one."""
        if self.profile.layout.manifests:
            return self.profile.layout.manifests.rstrip("/")
        settings = [
            str(item.settings["staticPodPath"])
            for item in self.snapshot.config_maps
            if item.kind == "kubelet" and item.settings.get("staticPodPath")
        ]
        if settings:
            return settings[0].rstrip("/")
        for item in self.apiservers:
            if item.manifest:
                return item.manifest.rsplit("/", 1)[0]
        return self.distribution.paths.get("manifests", "")

    @cached_property
    def kubeadm(self) -> ConfigMapFact | None:
        """ConfigMap kubeadm-config, from which the next run of kubeadm starts; None where it was not read."""
        return next((item for item in self.snapshot.config_maps if item.kind == "kubeadm"), None)

    @cached_property
    def pki(self) -> str:
        """Folder of the certificates; empty where the distribution has none to back up."""
        if self.profile.layout.pki:
            return self.profile.layout.pki.rstrip("/")
        named = self.kubeadm.settings.get("certificatesDir") if self.kubeadm is not None else None
        return str(named) if named else self.distribution.paths.get("pki", "")

    @cached_property
    def backup(self) -> str:
        """Folder on the nodes for copies."""
        return (self.profile.layout.backup or self.distribution.paths.get("backup", ".")).rstrip("/") or "/"

    # -- nodes -------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def pending_nodes(self) -> tuple[str, ...]:
        """Nodes whose kubelet is not at the target yet: control plane first, leaders last, workers by name."""
        wanted = self.context.target_of("kubelet")
        target = try_version(self.target)
        names = []
        for node in self.snapshot.nodes:
            version = try_version(node.kubelet_version)
            if (
                wanted is not None
                and wanted.operator != "="
                and version is not None
                and wanted.satisfied(version)
            ):
                continue
            if version is not None and target is not None and is_release(version, target):
                continue
            names.append(node.name)
        order = {name: at for at, name in enumerate(self.control_nodes)}
        return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), _natural(name))))

    @cached_property
    def _static_pods(self) -> frozenset[str]:
        return frozenset(
            item.instance for item in self.snapshot.components if item.instance and item.kind == "static pod"
        )

    @cached_property
    def _pods_by_node(self) -> dict[str, list[PodUse]]:
        found: dict[str, list[PodUse]] = {}
        for pod in self.snapshot.pods:
            if pod.node and pod.phase not in ("Succeeded", "Failed"):
                found.setdefault(pod.node, []).append(pod)
        return found

    def is_static(self, pod: PodUse) -> bool:
        """Whether a Pod is the mirror of a static one: a drain leaves it."""
        return f"{pod.namespace}/{pod.name}" in self._static_pods or any(
            step.startswith("Node/") for step in pod.owner_chain
        )

    @cached_property
    def bare_pods(self) -> tuple[PodUse, ...]:
        """Pods on a node without a controller, which nothing makes again; a drain leaves those that wait for a node."""
        return tuple(
            pod
            for pod in self.snapshot.pods
            if pod.node
            and pod.owner is None
            and not self.is_static(pod)
            and pod.phase not in ("Succeeded", "Failed")
        )

    @cached_property
    def _budget_of(self) -> dict[str, list[DisruptionBudget]]:
        found: dict[str, list[DisruptionBudget]] = {}
        for budget in self.snapshot.disruption_budgets:
            for name in budget.pods:
                found.setdefault(f"{budget.namespace}/{name}", []).append(budget)
        return found

    @cached_property
    def _devices_by_node(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for pool in self.snapshot.pools:
            for device in pool.devices:
                node = device.node or pool.node
                if node:
                    drivers = found.setdefault(node, {})
                    drivers[pool.driver] = drivers.get(pool.driver, 0) + 1
        return found

    def drain_of(self, node: str) -> Drain:
        """What a drain of the node meets, from its Pods and their budgets."""
        evictable = [
            pod
            for pod in self._pods_by_node.get(node, [])
            if not self.is_static(pod) and not (pod.owner is not None and pod.owner.kind == "DaemonSet")
        ]
        names = {f"{pod.namespace}/{pod.name}": pod for pod in evictable}
        bare = tuple(sorted(name for name, pod in names.items() if pod.owner is None))
        empty = tuple(sorted(name for name, pod in names.items() if pod.local_storage))
        blocked = sorted(
            {
                f"{budget.namespace}/{budget.name}"
                for name, pod in names.items()
                if asks_budgets(pod)
                for budget in self._budget_of.get(name, [])
                if budget.disruptions_allowed == 0
            }
        )
        holders = sorted(name for name, pod in names.items() if pod.uses_devices)
        flags = ["--ignore-daemonsets", "--timeout=15m"]
        if empty:
            flags.append("--delete-emptydir-data")
        if bare:
            flags.append("--force")
        return Drain(
            node=node,
            flags=tuple(flags),
            bare=bare,
            emptydir=empty,
            budgets=tuple(blocked),
            holders=tuple(holders),
            drivers=dict(sorted(self._devices_by_node.get(node, {}).items())),
            grace=max(
                (pod.grace_seconds if pod.grace_seconds is not None else 30 for pod in evictable), default=30
            ),
            down=self._stranded(node)[0],
            waits=self._stranded(node)[1],
            unknown="pods" not in self.snapshot.kinds_read or "pods" in self.snapshot.namespaces_read,
        )

    @cached_property
    def capacity(self) -> tuple[CapacityRow, ...]:
        """What is left with one node out, a row for each node and resource."""
        return capacity_rows(self.context)

    @cached_property
    def _capacity(self) -> dict[str, list[CapacityRow]]:
        found: dict[str, list[CapacityRow]] = {}
        for row in self.capacity:
            found.setdefault(row.node, []).append(row)
        return found

    def _stranded(self, node: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(Workloads that a drain of the node takes down, workloads of which it leaves a Pod without a device)."""
        down: set[str] = set()
        waits: set[str] = set()
        for row in self._capacity.get(node, ()):
            if not row.pending:
                continue
            owners = {owner for pod in row.pods if (owner := self._owner_of.get(pod))}
            waits |= owners
            if row.pending >= len(row.pods):
                down |= {owner for owner in owners if self._nodes_of.get(owner) == {node}}
        return tuple(sorted(down)), tuple(sorted(waits))

    @cached_property
    def _owner_of(self) -> dict[str, str]:
        return {
            f"{pod.namespace}/{pod.name}": f"{pod.namespace}/{pod.owner.name}"
            for pod in self.snapshot.pods
            if pod.owner is not None
        }

    @cached_property
    def _nodes_of(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for pod in self.snapshot.pods:
            if pod.owner is not None and pod.node and pod.phase not in ("Succeeded", "Failed"):
                found.setdefault(f"{pod.namespace}/{pod.owner.name}", set()).add(pod.node)
        return found

    def pods_of(self, workload: str) -> int:
        """Number of Pods of a workload (``namespace/name``) that have a node."""
        return sum(
            1
            for pod in self.snapshot.pods
            if pod.owner is not None
            and pod.node
            and pod.phase not in ("Succeeded", "Failed")
            and f"{pod.namespace}/{pod.owner.name}" == workload
        )

    @cached_property
    def simulated(self) -> frozenset[str]:
        """Nodes that say of themselves that they are simulated: no machine is behind what they report."""
        return frozenset(
            node.name
            for node in self.snapshot.nodes
            if node.provider == "kubemark" or node.container_runtime.startswith("fakeRuntime")
        )

    @cached_property
    def apiserver_urls(self) -> dict[str, str]:
        """Control-plane node -> address of its own API server, where that can be told."""
        return {node: url for node in self.control_nodes if (url := self.apiserver_url(node))}

    def family(self, node: str) -> str:
        """Family of the node's operating system, for package commands: debian, redhat or other."""
        found = self.nodes.get(node)
        text = (found.os_image if found is not None else "").lower()
        if any(word in text for word in ("ubuntu", "debian")):
            return "debian"
        if any(
            word in text for word in ("red hat", "rhel", "centos", "rocky", "alma", "fedora", "oracle linux")
        ):
            return "redhat"
        return "other"

    def group_of(self, node: str) -> str:
        """Name of its node group; empty without one."""
        found = self.nodes.get(node)
        label = self.distribution.pool_label
        return found.labels.get(label, "") if found is not None and label else ""

    # -- commands ----------------------------------------------------------------------------------

    def fields(self, hop: HopPlan | None, node: str = "", **more: str) -> dict[str, str]:
        """Fields of the command templates for one node in one hop, each quoted for a shell."""
        version = hop.version if hop is not None else self.target
        today = hop.today if hop is not None else self.today
        release, today_release = _release(version), _release(today)
        found = self.nodes.get(node)
        ip = found.internal_ips[0] if found is not None and found.internal_ips else node
        fields = {
            "node": quoted(node),
            "ip": quoted(ip),
            "version": _plain(version),
            "release": release,
            "change": _release(self.hops[-1].version) if self.hops else release,
            "release_dashed": release.replace(".", "-").replace("+", "-"),
            "minor": minor_of(version) or "",
            "today": _plain(today),
            "today_release": today_release,
            "today_minor": minor_of(today) or "",
            "today_provider": _plain(self.today.removeprefix("v")),
            "control_ips": self._addresses(self.control_nodes),
            "node_ips": self._addresses(
                [*self.control_nodes, *(n for n in self.nodes if n not in self.control_nodes)]
            ),
            "manifests": quoted(self.manifests),
            "pki": quoted(self.pki),
            "backup": quoted(self.backup),
            "cluster": quoted(self.snapshot.cluster.name or "CLUSTER"),
            "distribution_version": quoted(self.profile.target.distribution_version)
            if self.profile.target.distribution_version
            else '"$RELEASE"',
        }
        if self.members or self.distribution.paths.get("etcd_endpoint"):
            fields.update(self.etcd_fields(node))
        fields.update(more)
        return fields

    def _addresses(self, names: Iterable[str]) -> str:
        """Addresses of nodes with a space between them, each quoted for a shell; the name where none is known."""
        found = ((name, self.nodes.get(name)) for name in names)
        return " ".join(quoted(n.internal_ips[0] if n and n.internal_ips else name) for name, n in found)

    def going_back(self, version: str) -> dict[str, str]:
        """Fields of a way back to a version that is not the one before the last hop: a kubelet's own."""
        return {
            "today": _plain(version),
            "today_release": _release(version),
            "today_minor": minor_of(version) or "",
            "today_provider": _plain(version.removeprefix("v")),
        }

    def commands(
        self,
        templates: Iterable[Template],
        hop: HopPlan | None,
        node: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> tuple[Command, ...]:
        """Templates with their fields filled; none where one of them names a version of before, or nodes, that are not known.

        Args:
            templates: Of the distribution's data.
            hop: Gives the versions; None: those of the change as a whole.
            node: Gives name, address and etcd member; empty: for a node that ``fields`` name by a variable.
            fields: Fields of the caller's own, quoted already; they beat the others.
        """
        templates = tuple(templates)
        values = self.fields(hop, node) | dict(fields or {})
        if not all(values[name] for item in templates for name in _needed(item.text)):
            return ()
        where = {"node": node}
        return tuple(
            Command(
                text=_line(item, values),
                where=item.where.format_map(where),
                runs=item.runs,
            )
            for item in templates
        )


_NEVER_EMPTY: Final = frozenset(
    {"today", "today_release", "today_minor", "today_provider", "control_ips", "node_ips"}
)
"""Fields without which a command does something else: an installer without a version takes the newest."""


def _needed(text: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(text) if name in _NEVER_EMPTY]


def _line(item: Template, values: Mapping[str, str]) -> str:
    text = _TWO_SPACES.sub(r"\1 ", item.text.format_map(values))
    return until(text, item.wait) if item.wait else text


_TWO_SPACES = re.compile(r"(etcdctl) {2,}")
"""What is left where no file of etcd's TLS is known."""
_NOT_IN_A_VERSION = re.compile(r"[^0-9A-Za-z.+_-]")


def _plain(version: str) -> str:
    """A version to stand in a word or in quotes of a shell: what no version holds is left out."""
    return _NOT_IN_A_VERSION.sub("", version)


def _release(version: str) -> str:
    """Release and build of a version, without `v`."""
    found = try_version(version)
    return _plain(version.removeprefix("v") if found is None else f"{found.release}{found.build}")


def _distance(low: str, high: str) -> int:
    a, b = minor_key(low), minor_key(high)
    return b[1] - a[1] if a[0] == b[0] else 0


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", name))


def _local(urls: str) -> str:
    """The loopback address of a list of client URLs, else the first."""
    found = [url.strip() for url in urls.split(",") if url.strip()]
    return next(
        (url for url in found if "127.0.0.1" in url or "[::1]" in url or "localhost" in url),
        found[0] if found else "",
    )
