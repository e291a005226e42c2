"""A Kubernetes cluster of real components on loopback ports, in one folder.

Real: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, everything that kubeadm writes, and kubelets
whose container runtime and container manager are fakes. Each server runs with the flags of the manifest that kubeadm
wrote for its node; only addresses, ports and file paths are replaced.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import yaml

from tests.controlplane import build, kubeadm
from tests.controlplane.client import Api
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.machine import Machine
from tests.controlplane.process import ComponentError, Process, free_port, wait_for
from tests.controlplane.tunnel import Balancer, Tunnel, listens

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One event for each request: a kubelet's /configz through the node's proxy counts as long-running, whose start is an
    # event of its own.
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}

_GATE_REFUSAL = re.compile(
    r"unrecognized feature gate|cannot set feature gate|depends on features that are disabled|"
    r"invalid value .* for .*feature-gates|set kube feature gates with default empty prefix"
)

# A leader that was stopped is replaced in seconds instead of a quarter of a minute.
_QUICK_ELECTION = {
    "leader-elect-lease-duration": "4s",
    "leader-elect-renew-deadline": "3s",
    "leader-elect-retry-period": "1s",
}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with a hollow kubelet.

    ``taints`` are written ``key=value:Effect``; ``devices`` is what a device plugin would report as allocatable;
    ``gates`` are the kubelet's own, over those of ``Plan.kubelet``; ``configuration`` (control-plane nodes) is laid over the cluster's
    ClusterConfiguration for this node's manifests only.
    """

    name: str
    control_plane: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[str] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)


def control_plane(name: str, **rest: Any) -> Node:
    """A control-plane node."""
    return Node(name=name, control_plane=True, **rest)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a cluster is made of.

    ``configuration`` is laid over kubeadm's ClusterConfiguration (see ``kubeadm.extra_args``). ``kubelet`` and
    ``proxy`` become KubeletConfiguration and KubeProxyConfiguration in kubeadm's file. ``running`` names, for each
    control-plane component, the nodes on which it really runs; by default the first control-plane node. All other
    control-plane nodes have mirror Pods only. ``apiserver`` has further flags of the real apiservers. Leaders are
    elected quicker than by default where ``quick_election`` is set.
    """

    version: str
    nodes: Sequence[Node] = (control_plane("cp-1"), Node(name="worker-1"))
    configuration: Mapping[str, Any] = field(default_factory=dict)
    kubelet: Mapping[str, Any] | None = None
    proxy: Mapping[str, Any] | None = None
    running: Mapping[str, Sequence[str]] = field(default_factory=dict)
    apiserver: Mapping[str, str] = field(default_factory=dict)
    audit: bool = False
    addons: bool = True
    quick_election: bool = True

    @property
    def control_planes(self) -> list[Node]:
        """The control-plane nodes, in order."""
        return [node for node in self.nodes if node.control_plane]


class UpgradeLine(NamedTuple):
    """One component of ``kubeadm upgrade plan``, in kubeadm's words; ``node`` is empty for an add-on."""

    component: str
    node: str
    current: str
    target: str


class CommandError(subprocess.CalledProcessError):
    """A tool failed; unlike its base it says what the tool printed."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.stdout}{self.stderr}"


class Cluster:
    """A cluster in ``root``. Use it as a context manager: leaving it stops every process, whatever happened."""

    def __init__(self, plan: Plan, root: Path) -> None:
        if not plan.control_planes:
            raise ValueError("a cluster needs a control-plane node")
        self.plan = plan
        self.root = root.resolve()
        self.version = plan.version
        self.nodes = {node.name: node for node in plan.nodes}
        first = plan.control_planes[0].name
        self.running = {component: [*plan.running.get(component, [first])] for component in CONTROL_PLANE}
        self.configuration: Mapping[str, Any] = plan.configuration
        self.processes: dict[tuple[str, str], Process] = {}
        self._manifests: dict[tuple[str, str], dict[str, str]] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self.formed = False
        """Whether a member of etcd with no data is one that is made again, as its manifest says, and not a first one."""
        self._deferred: set[tuple[str, str]] = set()
        self._ended: dict[tuple[str, str], float] = {}
        self._machines: dict[str, Machine] = {}
        self._ways = contextlib.ExitStack()
        self._tunnel: Tunnel | None = None
        self._ports: dict[tuple[str, str, str], int] = {}
        self._short: Path | None = None
        self._kubelet_gates = {node.name: dict(node.gates) for node in plan.nodes}

    # Life

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def prepare(self) -> None:
        """Make certificates, kubeconfigs and manifests, and start nothing."""
        self._write_certificates()
        for node in self.plan.control_planes:
            self.write_manifests(node.name)

    def start(self) -> None:
        """Start everything, until all nodes are Ready and have their mirror Pods."""
        self.prepare()
        servers = [self.port("kube-apiserver", node) for node in self.running["kube-apiserver"]]
        if len(servers) > 1:
            self._ways.enter_context(Balancer(servers, self.port("balancer", "all")))
        for component in CONTROL_PLANE:
            self.start_component(component)
        self._grant_admin()
        for node in self.plan.nodes:
            if node.control_plane:
                self.place_manifests(node.name)
            self.start_kubelet(node.name, wait=False)
        self.wait_nodes_ready()
        self._mark_control_planes()
        self.allow_joining()
        self.upload_configuration()
        if self.plan.addons:
            self.install_addons()
        for node in self.plan.control_planes:
            self.wait_mirror_pods(node.name)
        self.wait_service_account("default")

    def stop(self) -> None:
        """End every process; kubelets first, etcd last."""
        order = ["kubelet", *reversed(CONTROL_PLANE)]
        for component in order:
            group = [process for (name, _), process in self.processes.items() if name == component]
            for process in group:
                process.terminate()
            for process in group:
                # The apiserver waits for its watchers for up to a minute.
                process.stop(5 if component == "etcd" else 1.5)
        self.processes.clear()
        self._ways.close()
        self._tunnel = None
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)
            self._short = None

    # Folders and addresses

    def binaries(self, version: str | None = None) -> Path:
        """The folder of the programs of ``version`` (the cluster's own when absent)."""
        folder = build.binary_dir(version or self.version)
        if not folder.exists():
            raise build.BuildError(build.missing_reason(version or self.version) or str(folder))
        return folder

    def node_dir(self, node: str) -> Path:
        """What would be the node's file system: ``etc/kubernetes`` and ``var/lib/etcd``."""
        return self.root / "nodes" / node

    @property
    def pki(self) -> Path:
        """The certificates that kubeadm made."""
        return self.root / "pki"

    def port(self, component: str, node: str, use: str = "serving") -> int:
        """The loopback port of one server; the same through restarts."""
        key = (component, node, use)
        if key not in self._ports:
            self._ports[key] = free_port()
        return self._ports[key]

    def server(self, node: str | None = None) -> str:
        """The URL of an apiserver: of ``node`` when one runs there, else of the balancer or of the only one."""
        running = self.running["kube-apiserver"]
        if node not in running and len(running) > 1:
            return f"https://127.0.0.1:{self.port('balancer', 'all')}"
        return f"https://127.0.0.1:{self.port('kube-apiserver', node if node in running else running[0])}"

    def etcd_endpoints(self) -> list[str]:
        """The client URLs of all etcd members that are meant to run."""
        return [f"https://127.0.0.1:{self.port('etcd', node, 'client')}" for node in self.running["etcd"]]

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of a cluster administrator (super-admin.conf)."""
        return self.root / "super-admin.conf"

    @property
    def admin_kubeconfig(self) -> Path:
        """kubeadm's admin.conf."""
        return self.root / "admin.conf"

    @property
    def api(self) -> Api:
        """A client with the administrator's rights."""
        return Api(self.kubeconfig)

    # Certificates and kubeconfigs

    def _config_file(self, node: str, version: str, *, local_pki: bool = False, shared: bool = False) -> Path:
        """kubeadm's configuration of a node; ``shared`` is what all nodes have in common, as kubeadm uploads it."""
        configuration = dict(self.configuration)
        if not shared:
            configuration = kubeadm.merged(configuration, self.nodes[node].configuration)
        if not shared and len(self.running["etcd"]) > 1 and node in self.running["etcd"]:
            configuration = kubeadm.merged(configuration, self._etcd_peers(configuration))
        if local_pki:
            # Quick keys: RSA takes seconds a certificate on a busy machine.
            # All nodes share these certificates.
            addresses = [self.address(name) for name in self.nodes if self.nodes[name].control_plane]
            etcd = configuration.get("etcd", {}).get("local", {"dataDir": "/var/lib/etcd"})
            names = configuration.get("apiServer", {}).get("certSANs", ["127.0.0.1", "localhost"])
            configuration = {
                **configuration,
                "certificatesDir": str(self.pki),
                "encryptionAlgorithm": "ECDSA-P256",
                "apiServer": {**configuration.get("apiServer", {}), "certSANs": [*names, *addresses]},
                "etcd": {"local": {**etcd, "serverCertSANs": addresses, "peerCertSANs": addresses}},
            }
        text = kubeadm.documents(
            version, node, self.address(node), configuration, self.plan.kubelet, self.plan.proxy
        )
        path = (
            self.root
            / "kubeadm"
            / f"{node}-{version}{'-pki' if local_pki else '-shared' if shared else ''}.yaml"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def _etcd_peers(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        members = ",".join(f"{node}=https://{self.address(node)}:2380" for node in self.running["etcd"])
        own = [
            argument
            for argument in configuration.get("etcd", {}).get("local", {}).get("extraArgs", [])
            if argument["name"] not in {"initial-cluster", "initial-cluster-state"}
        ]
        peers = [
            {"name": "initial-cluster", "value": members},
            {"name": "initial-cluster-state", "value": "existing"},
        ]
        return {"etcd": {"local": {"dataDir": "/var/lib/etcd", "extraArgs": [*own, *peers]}}}

    def address(self, node: str) -> str:
        """The address that a node's manifests name; nothing ever listens there."""
        return f"10.0.0.{11 + list(self.nodes).index(node)}"

    def _write_certificates(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        first = self.plan.control_planes[0].name
        config = self._config_file(first, self.version, local_pki=True)
        binaries = self.binaries()
        kubeadm.run(binaries, "init", "phase", "certs", "all", "--config", config)
        for name in ("admin", "super-admin", "controller-manager", "scheduler"):
            kubeadm.run(
                binaries,
                *("init", "phase", "kubeconfig", name),
                *("--config", config, "--kubeconfig-dir", self.root),
            )
            self._point_at(self.root / f"{name}.conf", self.server())
        for node in self.plan.nodes:
            etc = self.node_dir(node.name) / "etc" / "kubernetes"
            (etc / "manifests").mkdir(parents=True, exist_ok=True)
            # A copy, as on a real node: kubeadm upgrade renews certificates.
            shutil.copytree(self.pki, etc / "pki")
            kubelet_conf = self.user_kubeconfig(f"system:node:{node.name}", ["system:nodes"])
            shutil.move(kubelet_conf, etc / "kubelet.conf")
            if node.control_plane:
                for name in ("admin", "super-admin", "controller-manager", "scheduler"):
                    target = etc / f"{name}.conf"
                    shutil.copy(self.root / f"{name}.conf", target)
                    self._point_at(target, self.server(node.name))

    @staticmethod
    def _point_at(kubeconfig: Path, server: str) -> None:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        document["clusters"][0]["cluster"]["server"] = server
        kubeconfig.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        kubeconfig.chmod(0o600)

    def user_kubeconfig(
        self, user: str, groups: Sequence[str] = (), *, valid: str | None = None, name: str | None = None
    ) -> Path:
        """A kubeconfig with a client certificate of its own for ``user``; ``valid`` is a Go duration such as 1s."""
        first = self.plan.control_planes[0].name
        config = self.root / "kubeadm" / f"{first}-{self.plan.version}-pki.yaml"
        arguments: list[str | Path] = ["kubeconfig", "user", "--config", config, "--client-name", user]
        for group in groups:
            arguments += ["--org", group]
        if valid is not None:
            arguments += ["--validity-period", valid]
        text = kubeadm.run(self.binaries(self.plan.version), *arguments)
        path = self.root / f"{name or user.replace(':', '-')}.kubeconfig"
        path.write_text(text, encoding="utf-8")
        self._point_at(path, self.server())
        return path

    def service_account_kubeconfig(self, namespace: str, account: str, *, duration: str = "1h") -> Path:
        """A kubeconfig with a fresh token of an existing ServiceAccount."""
        token = self.kubectl("-n", namespace, "create", "token", account, f"--duration={duration}").strip()
        return self.token_kubeconfig(token, f"{namespace}-{account}")

    def token_kubeconfig(self, token: str, name: str) -> Path:
        """A kubeconfig that says ``token``."""
        document = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        document["users"][0]["user"] = {"token": token}
        path = self.root / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        path.chmod(0o600)
        return path

    # Manifests

    def write_manifests(
        self, node: str, version: str | None = None, configuration: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """Have kubeadm of ``version`` write the manifests of ``node``; they are what a (re)started component obeys.

        ``configuration`` replaces the cluster's ClusterConfiguration from now on.
        """
        if configuration is not None:
            self.configuration = configuration
        chosen = version or self.version
        config = self._config_file(node, chosen, local_pki=False)
        written = kubeadm.manifests(self.binaries(chosen), config, self.root / "kubeadm" / f"dry-run-{node}")
        for component, text in written.items():
            self._manifests[node, component] = {"version": chosen, "text": text}
        return written

    def manifest(self, node: str, component: str) -> dict[str, Any]:
        """The manifest that was last written for ``component`` on ``node``."""
        return dict(yaml.safe_load(self._manifests[node, component]["text"]))

    def edit_manifest(self, node: str, component: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Edit a manifest by hand, as an administrator would; it is not put in place."""
        document = self.manifest(node, component)
        change(document)
        self._manifests[node, component]["text"] = yaml.safe_dump(document, sort_keys=False)

    def place_manifests(self, node: str, components: Iterable[str] = CONTROL_PLANE) -> None:
        """Put the written manifests into the node's static Pod folder, where its kubelet finds them."""
        folder = self.node_dir(node) / "etc" / "kubernetes" / "manifests"
        folder.mkdir(parents=True, exist_ok=True)
        for component in components:
            fresh = folder.parent / f".{component}.yaml"
            fresh.write_text(self._manifests[node, component]["text"], encoding="utf-8")
            fresh.rename(folder / f"{component}.yaml")

    def obey_manifests(self, node: str, *, wait: bool = True) -> list[str]:
        """Do what the kubelet of ``node`` would: stop the real process whose manifest is gone, restart where it changed.

        The image of the manifest decides the version. The names of the changed components are returned. With ``wait``,
        all that can run is awaited: what needs etcd is started only when enough members are there (a kubelet would
        let it crash until then). Raises ComponentError when one does not start.
        """
        folder = self.node_dir(node) / "etc" / "kubernetes" / "manifests"
        changed = []
        for component in CONTROL_PLANE if self.nodes[node].control_plane else ():
            key, place = (component, node), folder / f"{component}.yaml"
            real = node in self.running[component]
            runs = key in self.processes or key in self._deferred
            text = place.read_text(encoding="utf-8") if place.exists() else ""
            known = self._manifests[node, component]["text"]
            if (runs or not real) if text == known else (not text and not runs):
                continue
            changed.append(component)
            self._deferred.discard(key)
            self.stop_instance(component, node)
            if text:
                image = yaml.safe_load(text)["spec"]["containers"][0]["image"]
                self._manifests[node, component] = {"version": build.version_of_image(image), "text": text}
                if real:
                    self._deferred.add(key)
        self._launch_deferred()
        if wait and self._quorum():
            self._wait_obeyed()
        return changed

    def _quorum(self) -> bool:
        members = self.running["etcd"]
        return sum(("etcd", node) in self.processes for node in members) > len(members) // 2

    def _launch_deferred(self) -> None:
        for component, node in sorted(self._deferred, key=lambda key: CONTROL_PLANE.index(key[0])):
            if component == "etcd" or self._quorum():
                self._deferred.discard((component, node))
                self.launch(component, node)

    def _wait_obeyed(self) -> None:
        for component in CONTROL_PLANE:
            for node in self.running[component]:
                process = self.processes.get((component, node))
                if process is not None and process.exit_code is None:
                    self._wait_ready(component, node)
                elif process is not None:
                    # It lost its apiserver or its lease, perhaps, and a kubelet would start it again.
                    self.restart_instance(component, node)

    def tend(self) -> None:
        """One look of all control-plane kubelets at manifests and processes; what ended starts again after a moment."""
        for master in self.plan.control_planes:
            self.obey_manifests(master.name, wait=False)
        for key, process in list(self.processes.items()):
            component, node = key
            if component == "kubelet" or process.exit_code is None:
                continue
            if key not in self._ended:
                self._ended[key] = time.monotonic()
                ends = self._kubelet_root(node) / "ends" / component
                ends.write_text(str(process.exit_code), encoding="utf-8")
            elif time.monotonic() - self._ended[key] > 2:
                del self._ended[key], self.processes[key]
                self.launch(component, node)
        for node, machine in self._machines.items():
            machine.show(
                [name for (name, place), p in self.processes.items() if place == node and p.exit_code is None]
            )

    def wait_mirror_pods(
        self, node: str, components: Iterable[str] = CONTROL_PLANE, timeout: float = 120
    ) -> None:
        """Wait until the mirror Pods of ``node`` show the images and arguments of its manifests and run."""
        for component in components:
            container = self.manifest(node, component)["spec"]["containers"][0]
            path = f"/api/v1/namespaces/kube-system/pods/{component}-{node}"

            def shown(path: str = path, container: Mapping[str, Any] = container) -> bool:
                pod = self.api.find(path)
                if pod is None:
                    return False
                seen = pod["spec"]["containers"][0]
                same = all(seen[key] == container[key] for key in ("image", "command"))
                return same and bool(pod["status"].get("phase") == "Running")

            wait_for(f"mirror Pod {component}-{node}", shown, timeout)

    def wait_service_account(self, namespace: str) -> None:
        """Wait until a namespace takes Pods: its default ServiceAccount is there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_for(f"the default ServiceAccount of {namespace}", lambda: self.api.find(path))

    # Components

    def component_version(self, component: str, node: str) -> str:
        """The version that runs (or ran last) of ``component`` on ``node``."""
        return self._versions[component, node]

    def start_component(self, component: str, *, version: str | None = None) -> None:
        """Start ``component`` on every node of ``running`` as its manifest says; raises ComponentError."""
        for node in self.running[component]:
            self.launch(component, node, version=version)
        for node in self.running[component]:
            self._wait_ready(component, node)

    def stop_instance(self, component: str, node: str) -> None:
        """Stop one process; no error when it does not run."""
        if process := self.processes.pop((component, node), None):
            process.stop(1.5 if component != "etcd" else 10)

    def start_instance(self, component: str, node: str, *, version: str | None = None) -> None:
        """Start one control-plane process as its node's manifest says; raises ComponentError when it exits."""
        self.launch(component, node, version=version)
        self._wait_ready(component, node)

    def restart_instance(self, component: str, node: str, *, version: str | None = None) -> None:
        """Stop and start one control-plane process."""
        self.stop_instance(component, node)
        self.start_instance(component, node, version=version)

    def launch(self, component: str, node: str, *, version: str | None = None) -> Process:
        """Start one control-plane process and do not wait.

        Its version is ``version``, or that of the kubeadm that wrote its manifest.
        """
        if (component, node) in self.processes:
            raise RuntimeError(f"{component} runs already on {node}")
        chosen = version or self._manifests[node, component]["version"]
        command: list[str | Path] = [self.binaries(chosen) / component, *self.real_flags(component, node)]
        process = Process(
            f"{component} {chosen} on {node}", command, self.root / "logs" / f"{component}-{node}.log"
        )
        self.processes[component, node] = process
        self._versions[component, node] = chosen
        return process

    def real_flags(self, component: str, node: str) -> list[str]:
        """The flags of the manifest with this machine's addresses, ports and files."""
        flags = kubeadm.flags_of(self._manifests[node, component]["text"])
        home = self.node_dir(node)
        located = [
            flag.replace("=/etc/kubernetes/", f"={home}/etc/kubernetes/").replace(
                "=/var/lib/", f"={home}/var/lib/"
            )
            for flag in flags
        ]
        return kubeadm.with_flags(located, self._local(component, node))

    def _local(self, component: str, node: str) -> dict[str, str]:
        if component == "etcd":
            client = f"https://127.0.0.1:{self.port('etcd', node, 'client')}"
            peer = f"https://127.0.0.1:{self.port('etcd', node, 'peer')}"
            members = [
                f"{member}=https://127.0.0.1:{self.port('etcd', member, 'peer')}"
                for member in self.running["etcd"]
            ]
            first = {"initial-cluster": ",".join(members), "initial-cluster-state": "new"}
            again = self.formed and not (self.node_dir(node) / "var" / "lib" / "etcd" / "member").exists()
            return {
                "advertise-client-urls": client,
                "listen-client-urls": client,
                "initial-advertise-peer-urls": peer,
                "listen-peer-urls": peer,
                **({} if again else first),
                "listen-metrics-urls": f"http://127.0.0.1:{self.port('etcd', node, 'metrics')}",
                "unsafe-no-fsync": "true",
            }
        local = {"bind-address": "127.0.0.1", "secure-port": str(self.port(component, node))}
        if component != "kube-apiserver":
            return {**local, **(_QUICK_ELECTION if self.plan.quick_election else {})}
        local |= {"etcd-servers": ",".join(self.etcd_endpoints()), "endpoint-reconciler-type": "none"}
        if self.plan.audit:
            policy = self.root / "audit-policy.json"
            policy.write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")
            local |= {"audit-policy-file": str(policy), "audit-log-path": str(self.audit_log(node))}
        return {**local, **self.plan.apiserver}

    def _wait_ready(self, component: str, node: str) -> None:
        process = self.processes[component, node]
        if component == "etcd":
            process.wait_until(lambda: self._etcd_healthy(node))
        elif component == "kube-apiserver":
            api = Api(self.node_dir(node) / "etc" / "kubernetes" / "super-admin.conf")
            process.wait_until(api.answers, 180)
        else:
            process.wait_until(lambda: listens(self.port(component, node)))

    def _etcd_healthy(self, node: str) -> bool:
        try:
            answer = json.loads(self.etcdctl("endpoint", "health", "-w", "json", member=node))
            return all(member["health"] for member in answer)
        except subprocess.CalledProcessError:
            return False

    def start_kubelet(self, node: str, *, version: str | None = None, wait: bool = True) -> None:
        """Start the hollow kubelet of ``node``; it finds its earlier files when it had run before."""
        spec = self.nodes[node]
        chosen = version or self.version
        home = self.node_dir(node)
        files = self._kubelet_root(node)
        command: list[str | Path] = [
            self.binaries(chosen) / "hollow-kubelet",
            f"--name={node}",
            f"--kubeconfig={home}/etc/kubernetes/kubelet.conf",
            f"--pod-manifest-path={home}/etc/kubernetes/manifests",
            f"--root-dir={files}",
            f"--client-ca-file={self.pki}/ca.crt",
            f"--cri-socket={files}/containerd.sock",
            f"--ends={files}/ends",
            f"--port={self.port('kubelet', node)}",
            f"--node-labels={_pairs(spec.labels)}",
            f"--extended-resources={_pairs(spec.devices)}",
        ]
        if spec.taints:
            command.append(f"--register-with-taints={','.join(spec.taints)}")
        if gates := {**self._shared_gates(node), **self._kubelet_gates[node]}:
            command.append(f"--feature-gates={_pairs({k: str(v).lower() for k, v in gates.items()})}")
        self.processes["kubelet", node] = Process(
            f"kubelet {chosen} on {node}", command, self.root / "logs" / f"kubelet-{node}.log", grace=2
        )
        self._versions["kubelet", node] = chosen
        if wait:
            self.wait_nodes_ready([node])

    def _shared_gates(self, node: str) -> dict[str, bool]:
        """The gates of the node's own config.yaml where it is a machine, else those of the plan."""
        own = self.node_dir(node) / "var" / "lib" / "kubelet" / "config.yaml"
        if own.exists():
            return dict(yaml.safe_load(own.read_text(encoding="utf-8")).get("featureGates", {}))
        return dict((self.plan.kubelet or {}).get("featureGates", {}))

    def _kubelet_root(self, node: str) -> Path:
        # The kubelet makes sockets below its root, and their paths may have only some hundred bytes.
        if self._short is None:
            self._short = Path(tempfile.mkdtemp(prefix="cp-"))
        files = self._short / str(list(self.nodes).index(node))
        (files / "ends").mkdir(parents=True, exist_ok=True)
        return files

    def restart_kubelet(
        self,
        node: str,
        *,
        version: str | None = None,
        gates: Mapping[str, bool] | None = None,
        wait: bool = True,
    ) -> None:
        """Stop and start a kubelet, perhaps newer, perhaps with other gates."""
        if gates is not None:
            self._kubelet_gates[node] = dict(gates)
        self.stop_kubelet(node)
        self.start_kubelet(node, version=version or self._versions["kubelet", node], wait=wait)

    def stop_kubelet(self, node: str) -> None:
        """Stop the kubelet of ``node``; its Pods and mirror Pods stay as it reported them last."""
        if process := self.processes.pop(("kubelet", node), None):
            process.stop()

    def wait_nodes_ready(self, names: Iterable[str] | None = None, timeout: float = 180) -> None:
        """Wait until nodes are Ready under the kubelet version that was started."""
        for name in names or self.nodes:
            process = self.processes["kubelet", name]
            wanted = f"v{self._versions['kubelet', name]}"

            def ready(name: str = name, wanted: str = wanted) -> bool:
                node = self.api.find(f"/api/v1/nodes/{name}")
                if node is None or node["status"]["nodeInfo"]["kubeletVersion"] != wanted:
                    return False
                return any(
                    c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"]
                )

            process.wait_until(ready, timeout)

    # What kubeadm does to the running cluster

    def _grant_admin(self) -> None:
        self.api.post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": "kubeadm:cluster-admins"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [
                    {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "Group",
                        "name": "kubeadm:cluster-admins",
                    }
                ],
            },
        )

    def _mark_control_planes(self) -> None:
        role = "node-role.kubernetes.io/control-plane"
        for node in self.plan.control_planes:
            path = f"/api/v1/nodes/{node.name}"
            taints = [
                taint
                for taint in self.api.get(path)["spec"].get("taints", [])
                if not taint["key"].startswith("node.kubernetes.io/")
            ]
            labels = {role: "", "node.kubernetes.io/exclude-from-external-load-balancers": ""}
            taints.append({"key": role, "effect": "NoSchedule"})
            self.api.patch(path, {"metadata": {"labels": labels}, "spec": {"taints": taints}})

    def allow_joining(self, version: str | None = None) -> None:
        """kubeadm init phase bootstrap-token: a token, and the roles of joining nodes and of the apiserver at kubelets."""
        chosen = version or self.version
        config = self._config_file(self.plan.control_planes[0].name, chosen, shared=True)
        kubeadm.run(
            self.binaries(chosen),
            *("init", "phase", "bootstrap-token", "--skip-token-print"),
            *("--config", config, "--kubeconfig", self.kubeconfig),
        )

    def upload_configuration(self, version: str | None = None) -> None:
        """kubeadm init phase upload-config all: kubeadm-config and kubelet-config."""
        chosen = version or self.version
        config = self._config_file(self.plan.control_planes[0].name, chosen, shared=True)
        for phase in ("kubeadm", "kubelet"):
            kubeadm.run(
                self.binaries(chosen),
                *("init", "phase", "upload-config", phase),
                *("--config", config, "--kubeconfig", self.kubeconfig),
            )

    def install_addons(self, version: str | None = None) -> None:
        """kubeadm init phase addon all: kube-proxy and CoreDNS."""
        chosen = version or self.version
        config = self._config_file(self.plan.control_planes[0].name, chosen, shared=True)
        kubeadm.run(
            self.binaries(chosen),
            *("init", "phase", "addon", "all"),
            *("--config", config, "--kubeconfig", self.kubeconfig),
        )

    # A change of version

    def upgrade_node(
        self, node: str, version: str, configuration: Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> None:
        """Upgrade one control-plane node in kubeadm's order: etcd, apiserver, controller manager, scheduler.

        Its real processes restart on the same data, its manifests are replaced, and (with ``wait``) its mirror Pods awaited. Raises
        ComponentError when a component of the new version does not start; the caller decides what then.
        """
        self.write_manifests(node, version, configuration)
        for component in CONTROL_PLANE:
            self.place_manifests(node, [component])
            if node in self.running[component]:
                self.restart_instance(component, node)
        if wait:
            self.wait_mirror_pods(node)

    def finish_upgrade(self, version: str, *, addons: bool = True) -> None:
        """After the last control-plane node: uploads kubeadm's configuration, and upgrades the add-ons."""
        self.version = version
        self.upload_configuration(version)
        if addons and self.plan.addons:
            self.install_addons(version)

    def upgrade_plan(self, target: str) -> list[UpgradeLine]:
        """What ``kubeadm upgrade plan`` of ``target`` lists on the first control-plane node; raises CommandError."""
        first = self.plan.control_planes[0].name
        self.machine(first).install(target, "kubeadm")
        done = self.on_machine(first, f"sudo kubeadm upgrade plan v{target}")
        if done.returncode != 0:
            raise CommandError(done.returncode, done.args, done.stdout, done.stderr)
        return list(_upgrade_lines(done.stdout))

    def upgrade_kubelets(self, version: str, names: Iterable[str] | None = None) -> None:
        """Restart kubelets in ``version`` and wait for them."""
        chosen = list(names or self.nodes)
        for name in chosen:
            self.restart_kubelet(name, version=version, wait=False)
        self.wait_nodes_ready(chosen)

    # Nodes as machines

    def machine(self, node: str) -> Machine:
        """The node as a machine, with what kubeadm of the cluster's version left on it."""
        if node not in self._machines:
            home = self.node_dir(node)
            machine = Machine(home, self._kubelet_root(node) / "containerd.sock")
            machine.install(self.version, "kubeadm", "kubectl", "kubelet", "etcdctl", "etcdutl")
            work = self.root / "kubeadm" / f"kubelet-{node}"
            work.mkdir(parents=True, exist_ok=True)
            kubeadm.run(
                self.binaries(),
                *("init", "phase", "kubelet-start", "--dry-run"),
                *("--config", self._config_file(node, self.version)),
                env={"KUBEADM_INIT_DRYRUN_DIR": str(work)},
            )
            for name in ("config.yaml", "instance-config.yaml", "kubeadm-flags.env"):
                for written in work.rglob(name):
                    shutil.copy(written, home / "var" / "lib" / "kubelet" / name)
            self._machines[node] = machine
        return self._machines[node]

    def tunnel(self) -> Tunnel:
        """Where the addresses of the manifests lead to the real apiservers and etcd members."""
        if self._tunnel is None:
            places = {
                f"{self.address(node)}:6443": self.port("kube-apiserver", node)
                for node in self.running["kube-apiserver"]
            }
            for node in self.running["etcd"]:
                places[f"{self.address(node)}:2379"] = self.port("etcd", node, "client")
            self._tunnel = self._ways.enter_context(Tunnel(places))
        return self._tunnel

    def on_machine(
        self,
        node: str,
        text: str,
        *,
        answer: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a line of shell as root of ``node``, its kubelet and those of the control plane at work meanwhile.

        ``answer`` is typed at a prompt. Output and errors are in ``stdout``. Raises TimeoutExpired.
        """
        command = self.machine(node).start(text, {**self.tunnel().env(), **(env or {})})
        return self._attend(command, text, answer, timeout)

    def _attend(
        self, command: subprocess.Popen[str], text: str, answer: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        said: list[tuple[str, str]] = []
        reader = threading.Thread(target=lambda: said.append(command.communicate(answer)), daemon=True)
        reader.start()
        end = time.monotonic() + timeout
        try:
            while reader.is_alive() and time.monotonic() < end:
                self.tend()
                reader.join(0.2)
        finally:
            late = reader.is_alive()
            if late:
                command.kill()
            reader.join(10)
        if late:
            raise subprocess.TimeoutExpired(text, timeout, said[0][0] if said else "")
        return subprocess.CompletedProcess(text, command.returncode, said[0][0], said[0][1] or "")

    # Tools

    def env(self, version: str | None = None) -> dict[str, str]:
        """An environment in which kubectl, etcdctl and kubeadm are this cluster's, with a discovery cache of its own."""
        path = f"{self.binaries(version)}{os.pathsep}{os.environ.get('PATH', '')}"
        cache = self.root / "kubectl-cache"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(cache)}

    def run(
        self,
        *command: str | Path,
        version: str | None = None,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 120,
        tended: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with this cluster's environment; raises CommandError when ``check``.

        ``tended`` has the kubelets of the control plane at work meanwhile.
        """
        if tended:
            words = [str(part) for part in command]
            started = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**self.env(version), **(env or {})},
            )
            return self._attend(started, words[-1], stdin or "", timeout)
        done = subprocess.run(
            [str(part) for part in command],
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            env={**self.env(version), **(env or {})},
            check=False,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise CommandError(done.returncode, done.args, done.stdout, done.stderr)
        return done

    def shell(
        self, command: str, *, node: str | None = None, check: bool = False, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line as printed, by a shell, with kubectl, etcdctl, etcdutl and kubeadm of this cluster.

        With ``node`` it is run as on that node: its paths below /etc/kubernetes and /var/lib/etcd are its files here,
        and the local etcd address is that of its member.
        """
        if node is not None:
            home = self.node_dir(node)
            for path in ("/etc/kubernetes", "/var/lib/etcd"):
                command = command.replace(path, f"{home}{path}")
            if node in self.running["etcd"]:
                member = f"127.0.0.1:{self.port('etcd', node, 'client')}"
                command = command.replace("127.0.0.1:2379", member)
        return self.run("/bin/sh", "-c", command, check=check, timeout=timeout)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, version: str | None = None) -> str:
        """Run kubectl as administrator and return its output; raises CommandError."""
        return self.run(self.binaries(version) / "kubectl", *arguments, stdin=stdin, version=version).stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """kubectl apply."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(list(objects), sort_keys=False))

    def etcdctl(self, *arguments: str, member: str | None = None, version: str | None = None) -> str:
        """Run etcdctl with the health check's certificate, against one member or all."""
        endpoints = (
            self.etcd_endpoints()
            if member is None
            else [f"https://127.0.0.1:{self.port('etcd', member, 'client')}"]
        )
        first = member or self.running["etcd"][0]
        chosen = version or self._versions.get(("etcd", first), self.version)
        certificates = self.pki / "etcd"
        return self.run(
            self.binaries(chosen) / "etcdctl",
            f"--endpoints={','.join(endpoints)}",
            f"--cacert={certificates}/ca.crt",
            f"--cert={certificates}/healthcheck-client.crt",
            f"--key={certificates}/healthcheck-client.key",
            *arguments,
        ).stdout

    def audit_log(self, node: str | None = None) -> Path:
        """The audit log of the apiserver of ``node``, or of the first."""
        return self.root / "logs" / f"audit-{node or self.running['kube-apiserver'][0]}.log"

    def audit_events(self, user: str | None = None) -> list[dict[str, Any]]:
        """The events of the audit logs (``Plan.audit``), of ``user`` alone when given, oldest first."""
        events: list[dict[str, Any]] = []
        for node in self.running["kube-apiserver"]:
            log = self.audit_log(node)
            if log.exists():
                events += [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        return [event for event in events if user is None or event["user"].get("username") == user]

    def client_certificate(self, kubeconfig: Path, folder: Path) -> tuple[Path, Path]:
        """Write the client certificate and key of a kubeconfig as files (for clients that want files)."""
        user = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]
        paths = (folder / "client.crt", folder / "client.key")
        for path, key in zip(paths, ("client-certificate-data", "client-key-data"), strict=True):
            path.write_bytes(base64.b64decode(user[key]))
            path.chmod(0o600)
        return paths


def gate_answer(binaries: Path, component: str, gates: str, *, timeout: float = 20) -> tuple[bool, str]:
    """Ask a real component whether it takes ``--feature-gates=gates``: (accepted, its words).

    For the components that read gates before they need anything: kube-scheduler, kube-controller-manager, kubelet,
    kube-proxy. They exit in any case, since their kubeconfig does not exist.
    """
    done = subprocess.run(
        [str(binaries / component), f"--feature-gates={gates}", "--kubeconfig=/nonexistent/kubeconfig"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    text = done.stdout + done.stderr
    return _GATE_REFUSAL.search(text) is None, text


def _upgrade_lines(text: str) -> Iterator[UpgradeLine]:
    columns: list[int] = []
    for line in text.splitlines():
        if line.startswith("COMPONENT "):
            columns = [line.index(title) for title in ("COMPONENT", "NODE", "CURRENT", "TARGET")]
        elif not line.strip():
            columns = []
        elif columns:
            cells = [line[start:end].strip() for start, end in pairwise([*columns, len(line)])]
            yield UpgradeLine(*cells)


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in values.items())


__all__ = [
    "Cluster",
    "CommandError",
    "ComponentError",
    "Node",
    "Plan",
    "control_plane",
    "gate_answer",
]
