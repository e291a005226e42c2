"""No odd value anywhere in any object makes the reading fail, and none hides another object of its kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changegen.collect import build_snapshot
from changegen.collect.documents import Document
from tests.collect.build import Object, records

DATA = Path(__file__).parents[1] / "data"
ODD = [
    None,
    "",
    "text",
    7,
    -1,
    1.5,
    True,
    [],
    {},
    [None],
    [7],
    {"a": None},
    {"a": [{"b": 1}]},
    "\x00",
    "9" * 400,
]


def sample() -> list[Object]:
    """A few objects of every kind that is read, from the recorded cluster and the distributions."""
    out: list[Object] = []
    for path in sorted((DATA / "recorded" / "before").glob("*.json")):
        items = json.loads(path.read_text(encoding="utf-8")).get("items") or []
        out.extend(items[:: max(1, len(items) // 4)][:5])
    for folder in ("openshift", "k3s", "hypershift", "gardener", "kubeadm"):
        for path in sorted((DATA / "fixtures" / folder).glob("*.yaml")):
            loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
            out.extend((loaded.get("items") or [loaded])[:2])
    return [item for item in out if "kind" in item]


OBJECTS = sample()


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            yield (*prefix, key)
            yield from paths(item, (*prefix, key))


PATHS = [
    (index, path)
    for index, item in enumerate(OBJECTS)
    for path in paths(item)
    if path[0] not in {"kind", "apiVersion"} and "managedFields" not in path
]


def changed(index: int, path: tuple[Any, ...], value: Any) -> list[Object]:
    objects = list(OBJECTS)
    objects[index] = copy.deepcopy(objects[index])
    target = objects[index]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return objects


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.sampled_from(ODD), st.booleans())
def test_no_odd_value_makes_it_fail(where: tuple[int, tuple[Any, ...]], value: Any, as_json: bool) -> None:
    objects = changed(*where, value)
    found = records(*objects, version="v1.36.3")
    if as_json:
        found = [
            msgspec.structs.replace(record, data=msgspec.Raw(json.dumps(record.data).encode()))
            if isinstance(record, Document)
            else record
            for record in found
        ]
    snapshot = build_snapshot(found)
    kind = OBJECTS[where[0]]["kind"]
    if kind == "Node":
        names = {item["metadata"]["name"] for item in OBJECTS if item["kind"] == "Node"}
        assert len(snapshot.nodes) >= len(names) - 1


@pytest.mark.slow
def test_no_null_anywhere_makes_it_fail() -> None:
    for index, path in PATHS:
        build_snapshot(records(*changed(index, path, None)))
