"""No answer is tied to the recorded cluster: everything in it is renamed, and the ticket follows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from changegen import kubedata
from changegen.collect import Options, build_snapshot, files
from changegen.plan import make_ticket
from changegen.verify import verify
from tests.plan.build import NOW, RECORDED, dra_profile, ticket

# Longest first: no name is part of one that is replaced before it. Each new name has the length and order of the old.
NAMES = {
    "dra-example-driver-kubeletplugin": "zz-accel-plug-kubeletplugin-xyzw",
    "dra-example-driver": "zz-accel-drivers-1",
    "example.com/legacy-gpu": "vendor.org/oldie-card",
    "example.com/maintenance": "vendor.org/repairs-now",
    "example.com/accelerator": "vendor.org/kind-of-card",
    "example.com/gpu-only": "vendor.org/card-only",
    "gpu.example.com": "card.vendor.org",
    "example.com": "vendor.org",
    "legacy-infer": "yesterdays-x",
    "maint-gpu-3": "repair-card",
    "old-gpu-1": "rust-bx-1",
    "nic-claim": "lan-asked",
    "dra.net": "lan.io",
    "dranet": "lanset",
    "net-app": "lan-use",
    "too-big": "x-large",
    "prod-a": "site-q",
    "train": "learn",
    "cpu-1": "box-1",
    "gpu-1": "acc-1",
    "gpu-2": "acc-2",
    "gpu-3": "acc-3",
    "gpu-0": "acc-0",
    "cp-1": "ma-1",
    "cp-2": "ma-2",
    "cp-3": "ma-3",
    "/etc/kubernetes/manifests": "/srv/kube/static-pods",
    "10.0.0.1": "10.9.8.1",
}


def rename(text: str) -> str:
    pattern = re.compile("|".join(re.escape(name) for name in NAMES))
    text = pattern.sub(lambda m: NAMES[m[0]], text)
    text = text.replace('"namespace":"ml"', '"namespace":"qq"').replace(
        '"namespace": "ml"', '"namespace": "qq"'
    )
    return re.sub(r'"name": ?"ml"', '"name": "qq"', text)


def renamed(capture: str, folder: Path) -> Path:
    folder.mkdir()
    for path in sorted((RECORDED / capture).iterdir()):
        (folder / path.name).write_text(rename(path.read_text()))
    return folder


def move_budget(folder: Path) -> None:
    """The budget is another one now: it guards the two Pods on the old node, under another name."""
    path = folder / "poddisruptionbudgets.json"
    listed = json.loads(path.read_text())
    budget = listed["items"][0]
    budget["metadata"]["name"] = "guard"
    budget["metadata"].pop("annotations", None)
    budget["spec"] = {"minAvailable": 2, "selector": {"matchLabels": {"app": NAMES["legacy-infer"]}}}
    path.write_text(json.dumps(listed))


def test_everything_renamed_is_named_by_its_new_name(tmp_path: Path) -> None:
    folder = renamed("before", tmp_path / "before")
    move_budget(folder)
    snapshot = build_snapshot(files.read_input([folder]), Options(description="renamed"))
    made = make_ticket(snapshot, dra_profile(), kubedata.load(), now=NOW)
    text = msgspec.json.encode(msgspec.structs.replace(made, snapshot=None)).decode()
    for old in (*NAMES, "ml/", "-n ml "):
        if old in ("10.0.0.1", "train"):
            continue
        assert old not in text, text[max(0, text.index(old) - 80) : text.index(old) + 80]
    assert not re.search(r"\btrain\b", text)
    assert [s.nodes for s in made.steps if s.phase == "control-plane"] == [("ma-1",), ("ma-2",), ("ma-3",)]
    commands = "\n".join(c.text for s in made.steps for c in s.commands)
    assert "/srv/kube/static-pods" in commands
    assert "kubectl drain acc-1" in commands
    hanging = [
        (s.nodes, note)
        for s in made.steps
        for note in s.notes
        if s.phase == "nodes" and "hangs while" in note
    ]
    assert [nodes for nodes, _ in hanging] == [("rust-bx-1",)]
    assert "qq/guard" in hanging[0][1]
    assert len(made.steps) == len(ticket().steps)
    assert {c.query.fact for c in made.checks if c.query} == {
        c.query.fact for c in ticket().checks if c.query
    }


def test_verify_follows_the_new_names(tmp_path: Path) -> None:
    def read(capture: str) -> object:
        return build_snapshot(
            files.read_input([renamed(capture, tmp_path / capture)]), Options(description=capture)
        )

    made = make_ticket(read("before"), dra_profile(), kubedata.load(), now=NOW)  # type: ignore[arg-type]
    results = verify(made, read("after"), data=kubedata.load())  # type: ignore[arg-type]
    text = msgspec.json.encode(results).decode()
    assert "card.vendor.org" in text
    assert not re.search(r"\b(?:gpu|cp|cpu)-[0-9]\b", text)
    assert results.outcome == "failed"
    assert any("qq/x-large" in item.what for item in results.unplanned)
