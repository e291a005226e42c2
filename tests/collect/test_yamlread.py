from __future__ import annotations

import json
import math
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen.collect import yamlread
from changegen.collect.yamlread import YamlDocument, load_strict, printable, read_yaml
from changegen.errors import InputError, ProfileError

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"))
# What a Kubernetes object in JSON may hold; floats as API servers write them.
OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | st.sampled_from([0.5, -1.25, 99.9]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=25,
)


def one(text: str | bytes) -> YamlDocument:
    (document,) = read_yaml(text)
    return document


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


@given(st.dictionaries(TEXT, OBJECTS, max_size=5), st.booleans(), st.booleans())
@settings(deadline=None)
def test_yaml_reads_back_what_json_means(value: dict[str, object], flow: bool, aliases: bool) -> None:
    dumper = yaml.SafeDumper if aliases else NoAliases
    text = yaml.dump(value, Dumper=dumper, allow_unicode=True, default_flow_style=flow)
    assert one(text).value == value
    assert one(json.dumps(value, ensure_ascii=False)).value == value, "JSON is YAML"


@given(st.from_regex(r"\A[0-9a-fA-Fx._:+-]{1,12}\Z"))
@settings(deadline=None)
def test_a_plain_scalar_never_loses_its_text(text: str) -> None:
    value = yamlread.scalar(text)
    assert value == text or (not isinstance(value, str) and value is not None and repr(value) == text)


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "no",
        "y",
        "010",
        "0o17",
        "0x1F",
        "1_000",
        "1:30",
        "2026-01-01",
        "1.30",
        "1e3",
        ".5",
        "+1",
        "-0",
        "nan",
        ".inf",
        "18446744073709551616",
        "1.37.2",
        "1.0000000000000001",
    ],
)
def test_what_other_dialects_convert_stays_text(text: str) -> None:
    assert one(f"value: {text}").value == {"value": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("1.5", 1.5),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
    ],
)
def test_core_schema(text: str, value: object) -> None:
    found = one(f"value: {text}").value["value"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text() -> None:
    assert one("1: a\non: b\ntrue: c\n1.30: d\n").value == {"1": "a", "on": "b", "true": "c", "1.30": "d"}


def test_of_duplicate_keys_the_last_holds_and_its_line_is_named() -> None:
    document = one("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert document.value == {"a": 3, "b": {"c": 2}}
    assert [(found.key, found.line) for found in document.duplicates] == [("c", 4), ("a", 5)]


def test_anchors_and_merge_keys() -> None:
    text = """
base: &base {name: w-1, zone: a}
both: {<<: [{zone: b}, *base], name: w-2}
same: *base
quoted: {"<<": x}
"""
    assert one(text).value == {
        "base": {"name": "w-1", "zone": "a"},
        "both": {"name": "w-2", "zone": "b"},
        "same": {"name": "w-1", "zone": "a"},
        "quoted": {"<<": "x"},
    }


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: 1\nb: !!python/object/apply:os.getcwd []\n", "unsafe-tag", 2),
        ("a: !custom x\n", "unsafe-tag", 1),
        ("a: !!binary aGk=\n", "unsafe-tag", 1),
        ("!!timestamp 2026-01-01: x\n", "unsafe-tag", 1),
        ("a: &a\n  b: *a\n", "alias-bomb", 2),
        ("a: *b\n", "syntax", 1),
        ("? [a]\n: b\n", "syntax", 1),
        ("a:\n  <<: 5\n", "syntax", 2),
        ("a: !!int five\n", "syntax", 1),
        ("a: 1\n\tb: 2\n", "syntax", 2),
        ("a: [1, 2\nb: 3\n", "syntax", 2),
    ],
)
def test_trouble_names_its_line(text: str, reason: str, line: int) -> None:
    trouble = next(iter(read_yaml(text))).trouble
    assert trouble is not None
    assert (trouble.reason, trouble.line) == (reason, line)


def test_a_tab_is_called_a_tab() -> None:
    trouble = one("a:\n\tb: 1\n").trouble
    assert trouble is not None
    assert "tab" in trouble.detail


def test_a_refused_document_does_not_end_the_stream() -> None:
    first, second = read_yaml("a: !x 1\n---\nb: 2\n")
    assert first.trouble is not None
    assert second.value == {"b": 2}
    assert second.line == 2


def test_of_a_broken_list_the_whole_items_are_kept() -> None:
    document = one("kind: List\nitems:\n- a: 1\n- b:\n    c: 2\n- d: [1,\n")
    assert document.value == {"kind": "List", "items": [{"a": 1}, {"b": {"c": 2}}]}
    assert document.trouble is not None
    assert document.item_lines[:2] == (3, 4)


@pytest.mark.parametrize("width", [2, 9])
def test_nested_aliases_cannot_explode(width: int) -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, 40)]
    document = one("\n".join(lines))
    assert document.trouble is not None
    assert document.trouble.reason == "alias-bomb"
    assert len(json.dumps(document.value)) < 10 * yamlread.MAX_ALIAS_NODES


def test_deep_nesting_is_refused_without_a_traceback() -> None:
    trouble = one("[" * 5000 + "]" * 5000).trouble
    assert trouble is not None
    assert trouble.reason == "syntax"


def test_comments_and_empty_documents_are_no_documents() -> None:
    assert list(read_yaml("# nothing\n---\n---\n...\n")) == []


@given(st.text())
@settings(deadline=None)
def test_printable_text_is_never_refused_for_its_characters(text: str) -> None:
    data = "".join(c for c in text if c != "\r").encode("utf-8", errors="replace")
    cleaned, replaced, first = printable(data.translate(None, bytes([*range(9), 11, 12, *range(14, 32)])))
    assert (replaced > 0) == (first >= 0)
    for document in read_yaml(json.dumps({"k": cleaned.decode()}, ensure_ascii=False)):
        assert document.trouble is None


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    for document in read_yaml(data):
        assert document.value is not None or document.trouble is not None


@given(st.text("ab:-[]{}&*!<>|#'\"\n\t ,?%@0", max_size=60))
@settings(deadline=None)
def test_no_text_makes_the_reader_raise(text: str) -> None:
    for document in read_yaml(text):
        assert document.value is not None or document.trouble is not None


@given(st.text("ab:-[]{}|#'\"\n ,?01", max_size=40))
@settings(deadline=None)
def test_what_both_read_means_the_same_as_to_pyyaml(text: str) -> None:
    """Structure, not scalars: those differ on purpose."""
    documents = list(read_yaml(text))
    if any(document.trouble or document.duplicates for document in documents):
        return

    def texts(value: object) -> object:
        if isinstance(value, dict):
            return {key: texts(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [texts(inner) for inner in value]
        if value is None:
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    expected = [
        value
        for value in yaml.load_all(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        if value not in (None, "")
    ]
    found = [texts(document.value) for document in documents]
    assert [value for value in found if value != ""] == expected


# ------------------------------------------------------------------------------------------------------------- strict


PROFILE = """\
schema: changegen.profile/v1
feature_gates:
  gates:
  - {name: A, value: true}
  - name: B
    value: no
taints: {nodes: [{key: a/b,
  effect: NoSchedule}]}
"""


def test_strict_keeps_the_line_of_every_node() -> None:
    loaded = load_strict(PROFILE, "p.yaml")
    assert loaded.value["feature_gates"]["gates"][1] == {"name": "B", "value": "no"}
    assert loaded.line(("feature_gates", "gates", 1, "value")) == 6
    assert loaded.line(("feature_gates", "gates", 0, "value")) == 4
    assert loaded.line(("feature_gates", "gates", 1)) == 5
    assert loaded.line(("taints", "nodes", 0, "effect")) == 8
    assert loaded.line(("taints", "nodes", 0, "missing")) == 7
    assert loaded.line(("missing",)) == 1


@given(st.dictionaries(TEXT, OBJECTS, min_size=1, max_size=4))
@settings(deadline=None)
def test_strict_lines_are_where_the_keys_stand(value: dict[str, object]) -> None:
    text = yaml.dump(value, Dumper=NoAliases, allow_unicode=True, width=math.inf)
    loaded = load_strict(text, "p.yaml")
    assert loaded.value == value

    def paths(node: object, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        found = [path]
        if isinstance(node, dict):
            found += [inner for key in node for inner in paths(node[key], (*path, key))]
        if isinstance(node, list):
            found += [inner for at, item in enumerate(node) for inner in paths(item, (*path, at))]
        return found

    every = paths(value, ())
    assert set(every) == set(loaded.lines)
    total = text.count("\n")
    assert all(1 <= loaded.line(path) <= total for path in every)
    assert all(loaded.line(path[:-1]) <= loaded.line(path) for path in every if path)


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", "p.yaml", "empty"),
        ("# only a comment\n", "p.yaml", "empty"),
        ("a: 1\nb: 2\na: 3\n", "p.yaml:3", "'a' stands twice"),
        ("a: &x 1\nb: *x\n", "p.yaml:2", "aliases"),
        ("a: !t 1\n", "p.yaml:1", "tag"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2", "second document"),
        ("a: 1\nb:\n\tc: 1\n", "p.yaml:3", "tab"),
        ("a: [\n", "p.yaml:2", "not valid YAML"),
        (b"a: 1\nb: caf\xe9\n", "p.yaml:2", "not UTF-8"),
        ("a: 1\nb: \x1b[31m\n", "p.yaml:2", "U+001B"),
        ("a: 1\n--- {\n", "p.yaml:3", "not valid YAML"),
    ],
)
def test_strict_refuses_what_is_odd(text: str | bytes, where: str, says: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(says)) as caught:
        load_strict(text, "p.yaml")
    assert caught.value.where == where
    assert caught.value.exit_code == 2


def test_strict_raises_the_error_that_was_asked_for() -> None:
    with pytest.raises(InputError):
        load_strict("", "answers.yaml", error=InputError)
