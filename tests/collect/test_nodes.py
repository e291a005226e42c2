"""Nodes: taints as text, roles, readiness, counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from changegen.collect import build_snapshot
from changegen.collect.documents import ListSeen
from changegen.collect.files import read_input
from changegen.collect.inventory import Inventory
from changegen.collect.nodes import node_facts
from changegen.model.snapshot import Node
from tests.collect.build import container, node, pod, records


def one(*objects: dict[str, object]) -> Node:
    (found,) = node_facts(Inventory.from_records(records(*objects)))
    return found


@pytest.mark.parametrize(
    "value", ["yes", "on", "010", "0x1F", "2026-01-01", "1.30", "1_000", "12:30", "null-ish", "true", "7"]
)
def test_taint_values_of_yaml_stay_the_text_that_was_written(value: str, tmp_path: Path) -> None:
    text = (
        "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: n1}\n"
        f"  spec:\n    taints:\n    - {{key: k, value: {value}, effect: NoSchedule}}\n"
    )
    (tmp_path / "nodes.yaml").write_text(text, encoding="utf-8")
    (found,) = build_snapshot(read_input(tmp_path)).nodes
    assert [taint.value for taint in found.taints] == [value]


def test_taints_are_sorted_and_an_absent_value_is_empty() -> None:
    taints = [
        {"key": "b", "effect": "NoSchedule"},
        {"key": "a", "value": "x", "effect": "NoExecute", "timeAdded": "2026-11-30T00:00:00Z"},
    ]
    found = one(node("n1", spec={"taints": taints, "unschedulable": True}))
    assert [(taint.key, taint.value, taint.time_added) for taint in found.taints] == [
        ("a", "x", "2026-11-30T00:00:00Z"),
        ("b", "", ""),
    ]
    assert found.unschedulable


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None)])
def test_ready_has_three_answers(status: str, ready: bool | None) -> None:
    item = node("n1")
    item["status"]["conditions"] = [{"type": "Ready", "status": status}]
    assert one(item).ready is ready
    item["status"]["conditions"] = None
    assert one(item).ready is None


def test_roles_provider_and_annotations_by_name_only() -> None:
    found = one(
        node(
            "n1",
            labels={
                "node-role.kubernetes.io/worker": "",
                "kubernetes.io/role": "edge",
                "kubernetes.io/hostname": "h",
            },
            annotations={"b": "secret", "a": "x"},
            spec={"providerID": "aws:///eu-1a/i-0123456789"},
        )
    )
    assert found.roles == ("edge", "worker")
    assert found.provider == "aws"
    assert found.annotations == ("a", "b")
    assert found.hostname == "h"
    assert "i-0123456789" not in str(found)
    assert "secret" not in str(found)


def test_declared_features_are_none_where_the_kubelet_does_not_tell() -> None:
    item = node("n1")
    assert one(item).declared_features is None
    item["status"]["declaredFeatures"] = ["B", "A"]
    assert one(item).declared_features == ("A", "B")


def test_pods_are_counted_only_where_all_namespaces_were_read() -> None:
    pods = [
        pod(f"p{phase}", containers=[container("c")], status={"phase": phase})
        for phase in ("Running", "Pending", "Succeeded", "Failed")
    ]
    whole = records(node("n1"), node("n2"), *pods)
    assert [found.pod_count for found in node_facts(Inventory.from_records(whole))] == [2, 0]
    some = [
        record
        if not (isinstance(record, ListSeen) and record.kind == "Pod")
        else ListSeen(group="", kind="Pod", api_version="v1", place="x", count=4, namespace="kube-system")
        for record in whole
    ]
    assert [found.pod_count for found in node_facts(Inventory.from_records(some))] == [None, None]
    assert [found.pod_count for found in node_facts(Inventory.from_records(records(node("n1"))))] == [None]


def test_quantities_are_text_as_kubernetes_writes_them() -> None:
    item = node("n1")
    item["status"]["capacity"] = {"cpu": 8, "memory": "32Gi", "x/y": 4.0}
    assert one(item).capacity == {"cpu": "8", "memory": "32Gi", "x/y": "4"}
