"""How findings speak: numbers with the right word, and subjects that name a thing as its kind names it.

Held over every capture of tests/data, with each profile that is shipped for a target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from changegen import kubedata, profiles
from changegen.assess import Assessment, assess
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.errors import ChangegenError
from changegen.model.ticket import Finding

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted(
    folder
    for group in ("recorded", "drivers", "fixtures", "cases")
    for folder in (DATA / group).iterdir()
    if folder.is_dir()
)
NAMESPACED = frozenset(
    {
        "ConfigMap",
        "DaemonSet",
        "Deployment",
        "Job",
        "Pod",
        "PodDisruptionBudget",
        "ReplicaSet",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceQuota",
        "StatefulSet",
    }
)
CLUSTER = frozenset(
    {
        "APIService",
        "CustomResourceDefinition",
        "DeviceClass",
        "DeviceTaintRule",
        "FeatureGate",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "ValidatingWebhookConfiguration",
    }
)
LABEL = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
OWN = re.compile(rf"^{LABEL}/{LABEL}$")
ALONE = re.compile(rf"^{LABEL}$")
ONE = re.compile(r"(?<![\w.:/=-])1 (?:[a-z]+ )?(?P<word>[A-Za-z]+s)\b")
VERBS = frozenset(
    {
        "is",
        "has",
        "was",
        "as",
        "exists",
        "does",
        "needs",
        "uses",
        "holds",
        "this",
        "changes",
        "coredns",
        "others",
        "runs",
    }
)


@cache
def assessed(folder: Path) -> tuple[Assessment, ...]:
    try:
        snapshot = build_snapshot(read_input([folder]))
    except ChangegenError:
        return ()
    names = ("kubernetes-1.37-dra", "kubernetes-1.36")
    return tuple(assess(snapshot, profiles.load(name), kubedata.load()) for name in names)


def findings(folder: Path) -> Iterator[Finding]:
    for found in assessed(folder):
        yield from found.findings


def test_there_is_something_to_look_at() -> None:
    assert sum(bool(assessed(folder)) for folder in CAPTURES) > 40


def well_formed(kind: str, name: str) -> bool:
    """Whether a name is one of its kind: `namespace/name`, or `name` of what is in none."""
    return bool((OWN if kind in NAMESPACED else ALONE).match(name))


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_subjects_name_things_as_their_kind_does(folder: Path) -> None:
    for item in findings(folder):
        subject = item.subject
        assert not re.search(r"/[A-Z][A-Za-z]+/", f"{subject.name} {' '.join(subject.instances)}"), item.id
        if subject.component[:1].isupper() and subject.component != "API":
            assert subject.component in NAMESPACED | CLUSTER, item.id
            if subject.name:
                assert well_formed(subject.component, subject.name), item.id
        for instance in subject.instances:
            kind, space, name = instance.partition(" ")
            if space and kind in NAMESPACED | CLUSTER:
                assert well_formed(kind, name), (item.id, instance)
            elif subject.component in NAMESPACED and not subject.name:
                assert well_formed(subject.component, instance), (item.id, instance)


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_one_thing_is_no_plural(folder: Path) -> None:
    for item in findings(folder):
        for text in (
            item.message,
            item.advice,
            *(e.value for e in item.evidence if e.provenance == "inferred"),
        ):
            for found in ONE.finditer(text):
                assert found["word"].lower() in VERBS, (item.code, found[0], text)


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_rows_speak_so_too(folder: Path) -> None:
    for found in assessed(folder):
        texts = [
            *(text for row in found.capacity for text in (row.why,)),
            *(text for row in found.taints for text in (row.today, row.at_target)),
            *(text for row in found.blast for text in (row.disruption,)),
            *(text for row in found.resources for text in (row.why,)),
            *(text for row in found.drivers for text in (row.note,)),
        ]
        for text in texts:
            assert {match["word"].lower() for match in ONE.finditer(text)} <= VERBS, text
