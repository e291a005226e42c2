from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.collect.documents import (
    RESOURCES,
    DecodeProblem,
    Document,
    ListSeen,
    Problem,
    Reason,
    group_of,
    resource_name,
)


class Taint(msgspec.Struct):
    key: str
    value: str = ""


class Spec(msgspec.Struct):
    taints: list[Taint] = []
    labels: dict[str, str] = {}
    unschedulable: bool = False
    replicas: int | None = None


class Node(msgspec.Struct):
    spec: Spec = msgspec.field(default_factory=Spec)


def from_json(value: Any) -> Document:
    raw = msgspec.Raw(msgspec.json.encode(value))
    return Document(api_version="v1", kind="Node", place="x", data=raw)


def from_yaml(value: Any) -> Document:
    return Document(api_version="v1", kind="Node", place="x", data=value)


@pytest.fixture(params=[from_json, from_yaml], ids=["json", "yaml"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@given(st.dictionaries(st.text(), st.none() | st.integers(0, 9) | st.text()))
@settings(deadline=None)
def test_json_and_yaml_documents_give_the_same(value: dict[str, Any]) -> None:
    data = {"spec": {"taints": [{"key": "a", "value": "b"}], "more": value}, "metadata": value}
    assert from_json(data).plain() == from_yaml(data).plain() == data
    assert from_json(data).decode(Node) == from_yaml(data).decode(Node)
    assert from_json(data).decode(Node).spec.taints == [Taint("a", "b")]


def test_a_number_or_boolean_where_text_is_wanted_is_its_text(make: Any) -> None:
    data = {
        "spec": {
            "taints": [{"key": "a", "value": True}, {"key": 5, "value": 1.5}],
            "labels": {"a": 1, "b": "c"},
        }
    }
    spec = make(data).decode(Node).spec
    assert spec.taints == [Taint("a", "true"), Taint("5", "1.5")]
    assert spec.labels == {"a": "1", "b": "c"}
    assert data["spec"]["labels"] == {"a": 1, "b": "c"}, "what was read is not changed"


def test_null_counts_as_absent(make: Any) -> None:
    data = {"spec": {"taints": None, "labels": None, "unschedulable": None}}
    assert make(data).decode(Node) == Node()
    assert make({"spec": None}).decode(Node) == Node()
    assert make({"spec": {"taints": [None, {"key": "a"}]}}).decode(Node).spec.taints == [Taint("a")]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"taints": "NoSchedule"}, "$.spec.taints"),
        ({"taints": [{"value": "x"}]}, "$.spec.taints[0]"),
        ({"labels": {"a": []}}, "$.spec.labels[...]"),
        ({"replicas": "3"}, "$.spec.replicas"),
    ],
)
def test_any_other_mismatch_is_a_problem_with_its_path(make: Any, spec: Any, path: str) -> None:
    document = make({"spec": spec, "metadata": {"name": "gpu-1"}})
    with pytest.raises(DecodeProblem) as caught:
        document.decode(Node)
    assert caught.value.path == path
    problem = document.problem(caught.value)
    assert (problem.reason, problem.name, problem.failed) == (Reason.WRONG_TYPE, "gpu-1", True)
    assert path in problem.detail


def test_a_long_list_is_mended_at_once() -> None:
    data = {"spec": {"taints": [{"key": n} for n in range(2000)]}}
    with pytest.raises(DecodeProblem):
        from_json({"spec": {"taints": [{"key": n} for n in range(2000)] + ["x"]}}).decode(Node)
    assert len(from_json(data).decode(Node).spec.taints) == 2000


def test_broken_bytes_are_a_problem() -> None:
    document = Document(
        api_version="v1", kind="Node", place="x", data=msgspec.Raw(b'{"spec": {"taints": [{"key": "\xe9"}]}}')
    )
    for read in (lambda: document.decode(Node), document.plain):
        with pytest.raises(DecodeProblem):
            read()


def test_names_of_resources_are_kubectls() -> None:
    assert resource_name("", "Pod") == "pods"
    assert resource_name("resource.k8s.io", "ResourceSlice") == "resourceslices.resource.k8s.io"
    assert (
        resource_name("gateway.networking.k8s.io", "GatewayClass")
        == "gatewayclasses.gateway.networking.k8s.io"
    )
    assert resource_name("k0s.k0sproject.io", "ClusterConfig") == "clusterconfigs.k0s.k0sproject.io"
    assert resource_name("x.io", "Policy") == "policies.x.io"
    for resource, (group, kind, _) in RESOURCES.items():
        assert resource_name(group, kind).partition(".")[0] == resource
        assert ListSeen(group=group, kind=kind, api_version="", place="", count=0).resource.startswith(
            resource
        )
    assert (group_of("v1"), group_of("apps/v1")) == ("", "apps")


@pytest.mark.parametrize(
    ("reason", "code", "word"),
    [
        (Reason.STATUS_ERROR, 403, "forbidden"),
        (Reason.STATUS_ERROR, 404, "not-served"),
        (Reason.STATUS_ERROR, 503, "error"),
        (Reason.TRUNCATED, None, "truncated"),
        (Reason.TOO_LARGE, None, "error"),
        (Reason.LEFT_OUT, None, "not-in-capture"),
        (Reason.SYNTAX, None, "malformed"),
    ],
)
def test_problems_speak_the_snapshots_words(reason: Reason, code: int | None, word: str) -> None:
    problem = Problem(place="x", reason=reason, detail="", failed=True, code=code)
    assert problem.unobserved_reason == word
