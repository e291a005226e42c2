"""A reviewed ticket for each step between minors, and one over three of them.

The clusters are the recorded one with its versions rewritten and with settings that each step refuses, locks or turns over.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from changegen import kubedata, profiles, render
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.ticket import Ticket
from changegen.plan import make_ticket

BEFORE = Path(__file__).resolve().parent.parent / "data" / "recorded" / "before"
# today: Kubernetes, etcd and CoreDNS as kubeadm brings them, and the gates of API servers and kubelets
TODAY = {
    "1.34": (
        "1.34.4",
        "3.6.5",
        "1.12.1",
        "ComponentSLIs=true,UserNamespacesPodSecurityStandards=true,ExecProbeTimeout=false",
    ),
    "1.35": (
        "1.35.4",
        "3.6.6",
        "1.13.1",
        "MemoryManager=true,DRAAdminAccess=false,DRADeviceTaintRules=true,DRADeviceTaints=true",
    ),
    "1.36": (
        "1.36.3",
        "3.6.8",
        "1.14.2",
        "SidecarContainers=true,DRAExtendedResource=false,DRADeviceTaints=false",
    ),
}


class Markdown(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "md"


@pytest.fixture
def snapshot(snapshot):
    return snapshot.use_extension(Markdown)


def _cluster(folder: Path, minor: str) -> Path:
    """Write the recorded cluster as one of ``minor`` with that minor's gates on its API servers."""
    release, etcd, coredns, gates = TODAY[minor]
    for source in BEFORE.iterdir():
        if source.suffix == ".txt":
            continue  # what a process of another version said of itself
        text = source.read_text(encoding="utf-8")
        text = (
            text.replace("1.36.3", release).replace("3.6.8-0", f"{etcd}-0").replace("v1.14.2", f"v{coredns}")
        )
        text = text.replace("DRADeviceTaintRules=true,SidecarContainers=true", gates)
        if minor == "1.34":
            text = text.replace("DRADeviceTaintRules=true", "DRAPrioritizedList=true")
        (folder / source.name).write_text(text, encoding="utf-8")
    version = json.loads((folder / "version.json").read_text())
    text = re.sub(r'"(minor|emulationMinor)": ?"36"', rf'"\1": "{minor[2:]}"', json.dumps(version))
    text = re.sub(r'"minCompatibilityMinor": ?"35"', f'"minCompatibilityMinor": "{int(minor[2:]) - 1}"', text)
    (folder / "version.json").write_text(text)
    if minor == "1.36":
        pods = json.loads((folder / "pods.json").read_text())
        for pod in pods["items"]:
            if pod["metadata"].get("labels", {}).get("component") == "kube-apiserver":
                pod["spec"]["containers"][0]["command"].append(
                    "--runtime-config=scheduling.k8s.io/v1alpha2=true"
                )
            if pod["metadata"].get("labels", {}).get("component") == "kube-controller-manager":
                pod["spec"]["containers"][0]["command"].append("--concurrent-service-syncs=2")
        (folder / "pods.json").write_text(json.dumps(pods))
    return folder


def _ticket(folder: Path, minor: str, target: str) -> Ticket:
    made = build_snapshot(read_input([str(_cluster(folder, minor))]))
    return make_ticket(made, profiles.profile_for_target(target), kubedata.load(), snapshot_name=minor)


def _gates(ticket: Ticket, *codes: str) -> set[str]:
    return {
        f.subject.name for f in ticket.findings if f.severity == "blocking" and (not codes or f.code in codes)
    }


@pytest.mark.parametrize(
    ("minor", "target"), [("1.34", "1.35.4"), ("1.35", "1.36.3"), ("1.36", "1.37.2"), ("1.34", "1.37.2")]
)
def test_ticket_as_reviewed(tmp_path, snapshot, minor, target):
    assert render.render(_ticket(tmp_path, minor, target), "markdown").decode() == snapshot


def test_each_step_names_what_it_refuses(tmp_path):
    for minor, target, wanted in (
        ("1.34", "1.35.4", {"ComponentSLIs", "UserNamespacesPodSecurityStandards", "ExecProbeTimeout"}),
        ("1.35", "1.36.3", {"MemoryManager", "DRAAdminAccess"}),
        ("1.36", "1.37.2", {"SidecarContainers", "DRAExtendedResource"}),
    ):
        folder = tmp_path / target
        folder.mkdir()
        assert wanted <= _gates(_ticket(folder, minor, target)), target


def test_several_minors_are_hops_of_their_own_and_every_id_stands_once(tmp_path):
    ticket = _ticket(tmp_path, "1.34", "1.37.2")
    assert [(h.from_version[:5].lstrip("v"), h.to_version[:5].lstrip("v")) for h in ticket.hops] == [
        ("1.34", "1.35"),
        ("1.35", "1.36"),
        ("1.36", "1.37"),
    ]
    assert len({s.id for s in ticket.steps}) == len(ticket.steps)
    # Kubelets may stay three minors behind: each node is drained once.
    drained = [
        node
        for s in ticket.steps
        for c in s.commands
        for named in re.findall(r"kubectl drain (\S+) .*--timeout=\S+(?: --force)?$", c.text)
        for node in (s.nodes if named == '"${NODE:?}"' else [named])
    ]
    assert set(drained) == {node.name for node in ticket.snapshot.nodes}
    assert len(drained) == len(set(drained))
