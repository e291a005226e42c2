"""A large cluster: the work grows with the objects. What 5,000 Nodes take is measured by tools/bench.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from changegen.collect import build_snapshot
from changegen.collect.documents import Document, ListSeen, Record
from changegen.model.snapshot import Snapshot
from tests.collect.build import container, node, pod
from tests.growth import grows_linearly


def cluster(nodes: int, pods: int) -> list[Record]:
    """Records as a JSON file of kubectl gives them: one kube-proxy a Node, the rest Pods of users."""
    proxy = pod(
        "kube-proxy-x",
        labels={"k8s-app": "kube-proxy"},
        containers=[container("kube-proxy", "registry.example/kube-proxy:v1.36.3", ["kube-proxy", "--v=2"])],
        metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "kube-proxy", "controller": True}]},
    )
    user = pod(
        "web-x",
        namespace="shop",
        labels={"app": "web"},
        containers=[
            container(
                "web", "registry.example/web:1", ["web", "--port=80"], resources={"limits": {"cpu": "1"}}
            )
        ],
        metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]},
    )

    def raws() -> Iterator[tuple[str, Any]]:
        for index in range(nodes):
            yield "Node", node(f"n{index}")
        for index in range(pods):
            item = json.loads(json.dumps(proxy if index < nodes else user))
            item["metadata"].update(name=f"p{index}", uid=f"u{index}")
            item["spec"]["nodeName"] = f"n{index % nodes}"
            yield "Pod", item

    out: list[Record] = [
        Document(api_version="v1", kind=kind, place="x", data=msgspec.Raw(json.dumps(item).encode()))
        for kind, item in raws()
    ]
    out.extend(
        ListSeen(group="", kind=kind, api_version="v1", place="x", count=count)
        for kind, count in (("Node", nodes), ("Pod", pods))
    )
    return out


def test_the_work_grows_with_the_objects() -> None:
    made: dict[int, Snapshot] = {}

    def prepare(nodes: int) -> Callable[[], object]:
        records = cluster(nodes, 8 * nodes)
        return lambda: made.update({nodes: build_snapshot(records)})

    assert grows_linearly(prepare, 100, 800)
    assert {item.pod_count for item in made[800].nodes} == {8}
    assert len(made[800].components) == 1600


@pytest.mark.slow
def test_five_thousand_nodes() -> None:
    assert len(build_snapshot(cluster(5_000, 40_000)).components) == 10_000
