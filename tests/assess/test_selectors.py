"""CEL selectors of devices."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.assess.selectors import SelectorSyntaxError, judge, references, takes
from changegen.model.snapshot import Attribute, Device

DRIVER = "gpu.example.com"
DEVICE = Device(
    name="gpu-0",
    attributes={
        f"{DRIVER}/type": Attribute(type="string", value="gpu"),
        f"{DRIVER}/index": Attribute(type="int", value=3),
        f"{DRIVER}/healthy": Attribute(type="bool", value=True),
        f"{DRIVER}/driverVersion": Attribute(type="version", value="580.95.5"),
        f"{DRIVER}/zones": Attribute(type="strings", values=("a", "b")),
        "resource.kubernetes.io/numaNode": Attribute(type="int", value=0),
    },
    capacity={f"{DRIVER}/memory": "80Gi"},
)
A = f'device.attributes["{DRIVER}"]'
C = f'device.capacity["{DRIVER}"]'


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f'device.driver == "{DRIVER}"', True),
        ("device.driver == 'other'", False),
        (f"device.driver == '{DRIVER}' && {A}.type == 'gpu'", True),
        (f"{A}.type == 'mig' || {A}.index > 2", True),
        (f"!({A}.healthy)", False),
        (f"{A}['type'] != 'gpu'", False),
        (f"{A}.type in ['gpu', 'mig']", True),
        (f"'type' in {A}", True),
        (f"'model' in {A}", False),
        (f"has({A}.model)", False),
        (f"has({A}.model) && {A}.model == 'x'", False),
        (f"{A}.?model.orValue('none') == 'none'", True),
        (f"{A}[?'type'].hasValue()", True),
        (f"cel.bind(a, {A}, a.type == 'gpu' && a.index == 3)", True),
        (f"{A}.type.startsWith('g') && {A}.type.size() == 3", True),
        (f"{A}.type.matches('^g.u$')", True),
        (f"{A}.zones.exists(z, z == 'b')", True),
        (f"{A}.zones.all(z, z == 'b')", False),
        (f"includes({A}.zones, 'a') && includes({A}.type, 'gpu')", True),
        (f"{A}.index + 1 == 4 && {A}.index % 2 == 1 && -{A}.index < 0", True),
        (f"{A}.index > 5 ? false : true", True),
        (f"{A}.driverVersion.isGreaterThan(semver('570.0.0'))", True),
        (f"{A}.driverVersion.compareTo(semver('v581', true)) < 0", True),
        (f"{A}.driverVersion.major() == 580", True),
        (f"{C}.memory.compareTo(quantity('40Gi')) > 0", True),
        (f"{C}.memory.isLessThan(quantity('80Gi'))", False),
        ('device.attributes["resource.kubernetes.io"].numaNode == 0', True),
        ("device.allowMultipleAllocations", False),
        ("true // a remark", True),
    ],
)
def test_expressions(expression: str, answer: bool) -> None:
    verdict = judge(expression, DRIVER, DEVICE)
    assert verdict.takes is answer
    assert verdict.error == ""


@pytest.mark.parametrize(
    "expression",
    [
        f"{A}.model == 'x'",
        'device.attributes["other.test"].x == 1',
        f"{A}.type == 3",
        f"{A}.index.x",
        f"{C}.slots == 1",
    ],
)
def test_a_missing_attribute_is_an_error_and_not_only_no_match(expression: str) -> None:
    verdict = judge(expression, DRIVER, DEVICE)
    assert verdict.takes is False
    assert verdict.error


def test_an_error_behind_the_deciding_side_does_not_count() -> None:
    assert judge(f"device.driver == 'x' && {A}.model == 'y'", DRIVER, DEVICE).error == ""
    assert judge(f"{A}.model == 'y' || true", DRIVER, DEVICE).takes is True
    assert judge(f"{A}.model == 'y' && true", DRIVER, DEVICE).error


@pytest.mark.parametrize(
    "expression", ["", "device.driver ==", "unknown(1)", "a.b.c", "1 +", "(((", "device.driver == 'x", "@"]
)
def test_what_cannot_be_told_is_no_answer(expression: str) -> None:
    verdict = judge(expression, DRIVER, DEVICE)
    assert verdict.takes is None
    assert verdict.error == ""


def test_all_selectors_must_take_a_device() -> None:
    yes, no, unknown = "true", "false", "strange(1)"
    assert takes((), DRIVER, DEVICE) is True
    assert takes((yes, yes), DRIVER, DEVICE) is True
    assert takes((yes, no), DRIVER, DEVICE) is False
    assert takes((yes, unknown), DRIVER, DEVICE) is None
    assert takes((unknown, no), DRIVER, DEVICE) is False


def test_references_and_what_guards_them() -> None:
    found = references(
        f"has({A}.model) && {A}.model == 'x' && {A}.type == 'gpu' && 'index' in {A} && {C}.memory.compareTo(quantity('1')) > 0"
        " && cel.bind(r, device.attributes['resource.kubernetes.io'], r.pcieRoot == 'x')"
    )
    assert {(r.kind, r.qualified, r.guarded) for r in found} == {
        ("attributes", f"{DRIVER}/model", True),
        ("attributes", f"{DRIVER}/type", False),
        ("attributes", f"{DRIVER}/index", True),
        ("capacity", f"{DRIVER}/memory", False),
        ("attributes", "resource.kubernetes.io/pcieRoot", False),
    }
    with pytest.raises(SelectorSyntaxError):
        references("device.driver ==")


@settings(deadline=None)
@given(st.text(max_size=60) | st.text("01xud!()[].'\"&|devic ", max_size=60))
def test_no_text_makes_it_fail(text: str) -> None:
    judge(text, DRIVER, DEVICE)


def test_deep_nesting_is_refused() -> None:
    for text in ("(" * 5000 + "true" + ")" * 5000, "!" * 5000 + "true", "device" + ".x" * 5000, "[" * 5000):
        assert judge(text, DRIVER, DEVICE).takes is None


values = st.sampled_from(
    ["0", "1", "3", "-2", "'gpu'", "'x'", "true", "false", f"{A}.index", f"{A}.type", f"{A}.healthy"]
)
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
comparisons = st.builds(lambda a, op, b: f"({a} {op} {b})", values, operators, values)
logic = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["&&", "||"]), inner),
        st.builds(lambda a: f"!{a}", inner),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(logic)
def test_it_agrees_with_another_reader_of_cel(expression: str) -> None:
    cel: Any = pytest.importorskip("cel")
    attributes = {"type": "gpu", "index": 3, "healthy": True}
    verdict = judge(expression, DRIVER, DEVICE)
    try:
        other = cel.evaluate(expression, {"device": {"driver": DRIVER, "attributes": {DRIVER: attributes}}})
    except (TypeError, ValueError, RuntimeError):
        return  # the other reader is stricter or looser about comparing different types
    if verdict.takes is not None and not verdict.error:
        assert verdict.takes is other


def test_the_other_reader_is_there_for_the_comparison() -> None:
    assert importlib.util.find_spec("cel") is not None
