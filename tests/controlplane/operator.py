"""Does what a ticket says: runs its commands as printed, and stands in for those that need a real machine.

A node is a machine of its own (``machine.py``): its files are where the commands name them, kubeadm is the real one, and
kubelets obey the static Pods that a command changes. Where that cannot be (no namespaces), paths are replaced by those of
the node's folder, and ``kubeadm upgrade`` is done by the cluster's own means.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.controlplane import machine
from tests.controlplane.cluster import Cluster

_THE_NODE = ("the node", "the node in $NODE")

How = Literal["run", "stand-in", "not run"]

_HOMES = ("/etc/kubernetes", "/var/lib/etcd", "/var/lib/kubelet", "/var/backups")

_CONTAINER = (
    (r"\bkubectl\b.* (exec|logs) ", "nothing runs in the containers of a hollow node"),
    (r"/proc/\$\(pgrep", "takes programs out of a container, and none is there; the node has its own"),
)

_NOT_RUN = _CONTAINER
_STAND_IN = (
    (
        r"\bapt-(get|cache|mark)\b",
        "run as printed, but apt is a stand-in that installs what the repository's list offers",
    ),
    (
        r"\bsystemctl\b",
        "run as printed, but systemctl is a stand-in that restarts the hollow kubelet in the installed version",
    ),
    (r"\bcrictl\b", "run as printed, but crictl is a stand-in that lists the real processes"),
    (r"\bpgrep\b", "run as printed, but pgrep is a stand-in that finds nothing"),
    (r"\bssh\b", "run as printed, but ssh is a stand-in that enters the node's files"),
    (
        r"\bkubeadm config images pull\b",
        "run as printed, but what is asked is the fake container runtime, which fetches nothing",
    ),
)

# Where a node cannot be a machine.
_NOT_RUN_WITHOUT = (
    *_CONTAINER,
    (r"\bapt-\w+\b|/etc/apt/", "changes the packages of an operating system"),
    (r"\bcrictl\b|\bssh\b|\bpgrep\b", "needs a machine"),
    (r"\bkubeadm config images pull\b", "needs a container runtime and a registry"),
    (r"\bkubeadm upgrade (plan|diff)\b", "reads the machine's own /etc/kubernetes"),
)
_STAND_IN_WITHOUT = (
    (r"\bkubeadm upgrade (apply|node)\b", "its order and its manifests, with the real processes restarted"),
    (r"\bsystemctl restart kubelet\b", "the hollow kubelet is restarted in the version of the step"),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One command of a ticket, and what became of it."""

    part: str
    where: str
    text: str
    how: How
    why: str = ""


@dataclass
class Operator:
    """A pair of hands with the ticket; ``folder`` is the directory of the machine with kubectl."""

    cluster: Cluster
    folder: Path
    old: str
    new: str
    lines: list[Line] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Commands that were run as printed and failed, with their words."""
    said: list[tuple[str, str, str]] = field(default_factory=list)
    """What commands of nodes printed: (node, command, words)."""
    kubelet: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        tools = self.folder / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        # Nothing that changes a machine may reach the one that tests.
        for name in ("sudo", "apt-get", "apt-mark", "systemctl", "crictl"):
            self._tool(name, f'echo "{name}: this is no node" >&2; exit 97')
        if not self.real:
            self._tool("sudo", 'exec "$@"')
        self._tool("changegen", f'exec {shlex.quote(sys.executable)} -m changegen "$@"')
        if self.real:
            # As ssh does it: the words are one line for the shell there.
            entries = (
                f'{node}) exec {shlex.join(self.cluster.machine(node).entry())} "$*" ;;'
                for node in self.cluster.nodes
            )
            self._tool("ssh", "\n".join(["node=$1; shift", "case $node in", *entries, "esac", "exit 255"]))
        for node in self.cluster.nodes:
            if self.real:
                self.cluster.machine(node)
                continue
            home = self.cluster.node_dir(node) / "var" / "lib" / "kubelet"
            home.mkdir(parents=True, exist_ok=True)
            (home / "config.yaml").write_text("kind: KubeletConfiguration\n", encoding="utf-8")
            (home / "kubeadm-flags.env").write_text("", encoding="utf-8")
            (home.parent.parent / "backups").mkdir(exist_ok=True)

    def _tool(self, name: str, line: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)

    @property
    def real(self) -> bool:
        """Whether nodes are machines here."""
        return machine.impossible() is None

    def fate(self, text: str) -> tuple[How, str]:
        """Whether a command runs here as printed, and why not."""
        for pattern, why in _NOT_RUN if self.real else _NOT_RUN_WITHOUT:
            if re.search(pattern, text):
                return "not run", why
        for pattern, why in _STAND_IN if self.real else _STAND_IN_WITHOUT:
            if re.search(pattern, text):
                return "stand-in", why
        for address in re.findall(r"--server=https://(10\.0\.0\.\d+):6443", text):
            node = self._node_of(address)
            if node not in self.cluster.running["kube-apiserver"]:
                return "not run", "no apiserver of its own runs for this node"
        if not text.strip():
            return "not run", "it is empty"
        return "run", ""

    def _node_of(self, address: str) -> str:
        return next(node for node in self.cluster.nodes if self.cluster.address(node) == address)

    def located(self, text: str, where: str) -> str:
        """The command with the ports of this machine's etcd members and, where no machine is, the node's files.

        What names another address of the manifests reaches it through the cluster's tunnel.
        """
        for node in self.cluster.running["etcd"]:
            peer = f"127.0.0.1:{self.cluster.port('etcd', node, 'peer')}"
            text = text.replace(f"{self.cluster.address(node)}:2380", peer)
            if node == where:
                text = text.replace(
                    "127.0.0.1:2379", f"127.0.0.1:{self.cluster.port('etcd', node, 'client')}"
                )
        if where in self.cluster.nodes and not self.real:
            home = self.cluster.node_dir(where)
            for path in _HOMES:
                text = re.sub(rf"(?<![\w/]){re.escape(path)}(?=[-/ ]|$)", f"{home}{path}", text)
        return text

    def run(
        self, part: str, command: Mapping[str, Any], *, env: Mapping[str, str] | None = None, node: str = ""
    ) -> str:
        """Run one command and return what it printed; a failure is kept in ``failed``."""
        text, where = str(command["text"]), str(command["where"])
        if where in _THE_NODE:
            if not node:
                raise ValueError(f"on which node? {text}")
            where = node
        how, why = self.fate(text)
        self.lines.append(Line(part=part, where=str(command["where"]), text=text, how=how, why=why))
        if how == "stand-in" and not self.real:
            self._stand_in(text, where)
            return ""
        if how == "not run":
            if package := re.search(r"kubelet='([\d.]+)-", text):
                self.kubelet[where] = package[1]
            return ""
        return self.shell(text, where, env=env, differs=command.get("runs") == "read")

    def shell(
        self, text: str, where: str = "", *, env: Mapping[str, str] | None = None, differs: bool = False
    ) -> str:
        """Run a line by a shell, as on ``where``; ``kubectl diff`` may exit with 1, since it then shows a difference."""
        if where in self.cluster.nodes and self.real:
            return self._on_machine(text, where, env)
        bin_ = self.folder / "bin"
        version = self.cluster.component_version("kube-apiserver", self.cluster.running["kube-apiserver"][0])
        path = f"{bin_}:{self.cluster.env(version)['PATH']}"
        root = str(Path(__file__).resolve().parents[2])
        done = self.cluster.run(
            *("/bin/sh", "-c", f"cd {shlex.quote(str(self.folder))}; {self.located(text, where)}"),
            check=False,
            timeout=300,
            tended=True,
            env={
                **self.cluster.tunnel().env(),
                "PATH": path,
                "PYTHONPATH": root,
                "NO_COLOR": "1",
                **(env or {}),
            },
        )
        fine = done.returncode == 0 or (differs and "kubectl diff" in text and done.returncode == 1)
        if not fine:
            self.failed.append(f"{text}: exit {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
        self._obey(text, where)
        return done.stdout

    def _obey(self, text: str, where: str) -> None:
        if where in self.cluster.nodes and (
            "/etc/kubernetes/manifests/" in text or "kubeadm upgrade" in text
        ):
            self.cluster.obey_manifests(where)

    def _on_machine(self, text: str, where: str, env: Mapping[str, str] | None = None) -> str:
        done = self.cluster.on_machine(where, self.located(text, where), answer="y\n", env=env, timeout=900)
        self.said.append((where, text, done.stdout))
        if done.returncode != 0:
            self.failed.append(f"{text}: exit {done.returncode}: {done.stdout[-1500:]}")
        self._obey(text, where)
        node = self.cluster.machine(where)
        if node.restarts():
            self.cluster.restart_kubelet(where, version=node.installed("kubelet"), wait=False)
        return done.stdout

    def _stand_in(self, text: str, where: str) -> None:
        if "kubelet" in text:
            version = self.kubelet.get(where, self.new)
            self.cluster.restart_kubelet(where, version=version, wait=False)
        elif "addon" in text:
            self.cluster.finish_upgrade(self.new)
        elif self.cluster.nodes[where].control_plane and where not in self.done:
            self.done.add(where)
            stored = self.cluster.api.get("/api/v1/namespaces/kube-system/configmaps/kubeadm-config")
            configuration = yaml.safe_load(stored["data"]["ClusterConfiguration"])
            kept = ("clusterName", "apiServer", "controllerManager", "scheduler")
            chosen = {key: configuration[key] for key in kept if key in configuration}
            self.cluster.upgrade_node(where, self.new, chosen)
            if len(self.done) == len(self.cluster.plan.control_planes):
                # kubeadm does this in `apply` of the first node, before the others; nothing here depends on it.
                self.cluster.finish_upgrade(self.new)

    def step(self, step: Mapping[str, Any], *, env: Mapping[str, str] | None = None, node: str = "") -> str:
        """All commands of a step, or of a step back; returns what the last one printed."""
        printed, part = "", str(step.get("phase", "way back"))
        commands = [dict(command) for command in step["commands"]]
        nodes = [str(name) for name in step.get("nodes", ())]
        turns = any(c["where"] in _THE_NODE or "$NODE" in c["text"] for c in commands)
        if turns and not node and nodes:
            # All blocks with one node, then with the next.
            for name in nodes:
                printed = self.step({**step, "nodes": []}, env={**(env or {}), "NODE": name}, node=name)
            return printed
        for place, block in groupby(commands, key=lambda command: str(command["where"])):
            lines = list(block)
            places = [*self.cluster.nodes] if place == "each node" else in_turn(place) or [place]
            for where in [node] if node and len(places) > 1 else places:
                for command in lines:
                    printed = self.run(part, {**command, "where": where}, env=env, node=node)
        return printed


def in_turn(where: str) -> list[str]:
    """The nodes of a place that is several of them, else nothing."""
    names, found, _ = where.partition(", one after another")
    return names.split(", ") if found else []


def table(lines: Iterable[Line]) -> str:
    """The lines as Markdown, equal commands of several nodes together, without those that run twice."""
    groups: dict[tuple[str, How, str], list[str]] = {}
    parts: dict[tuple[str, How, str], list[str]] = {}
    for line in lines:
        key = (line.text, line.how, line.why)
        if line.where not in groups.setdefault(key, []):
            groups[key].append(line.where)
        if line.part not in parts.setdefault(key, []):
            parts[key].append(line.part)
    counts = {how: sum(1 for key in groups if key[1] == how) for how in ("run", "stand-in", "not run")}
    out = [
        "# The commands of a ticket, and which of them the tests run",
        "",
        "<!-- Made by tests/controlplane/test_change.py (CHANGEGEN_UPDATE_DOCS=1 rewrites it). Do not edit. -->",
        "",
        (
            "The ticket of the recorded scene (kubeadm, 1.36.3 to 1.37.2) is carried out on a real cluster. "
            f"Of its {len(groups)} different commands {counts['run']} are run as printed, for "
            f"{counts['stand-in']} the test does the same by its own means, and {counts['not run']} are not run."
        ),
        "",
    ]
    titles = {
        "run": "Run as printed",
        "stand-in": "Done by other means",
        "not run": "Not run",
    }
    for how, title in titles.items():
        out += [f"## {title}", ""]
        by_why: dict[str, list[tuple[str, How, str]]] = {}
        for key in groups:
            if key[1] == how:
                by_why.setdefault(key[2], []).append(key)
        for why, keys in by_why.items():
            if why:
                out += [f"{why[0].upper()}{why[1:]}:", ""]
            out += ["```sh"]
            for key in keys:
                place = ", ".join(where for where in groups[key] if where != "any machine with kubectl")
                shown = ", ".join(parts[key]) + (f"; on {place}" if place else "")
                out += [f"# {shown}", key[0]]
            out += ["```", ""]
    return "\n".join(out)
