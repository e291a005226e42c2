"""Hostile text stays text: in Markdown, HTML, on the terminal."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from changegen.render import escape


@given(st.text())
def test_no_control_or_bidi_character_survives(text):
    shown = escape.visible(text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\ufeff]", shown)


@given(st.text(alphabet=st.sampled_from("a|`*_<>[]()#-+1.:/&;\\\n\r\t~$ http"), max_size=60))
def test_markdown_text_renders_as_the_same_text(text):
    flat = escape.markdown(text)
    assert "\n" not in flat
    unescaped = html.unescape(re.sub(r"\\([\\`*_\[\]<>|~$#+\-=.)])", r"\1", flat))
    assert unescaped == escape.one_line(text)


def test_markdown_breaks_links_images_html_and_table_cells():
    text = escape.markdown("![x](http://e.example/a.png) <b> | javascript:alert(1) www.example.com")
    assert "http:" not in text
    assert "javascript:" not in text
    assert "www." not in text
    assert re.search(r"(?<!\\)[|<\[]", text) is None


@given(st.text())
def test_code_span_cannot_be_left(text):
    span = escape.markdown_code(text)
    if not span:
        assert not escape.one_line(text)
        return
    fence = re.match(r"`+", span)
    assert fence is not None
    body = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert max((len(r) for r in re.findall(r"`+", body)), default=0) < len(fence[0])
    assert re.search(r"(?<!\\)\|", body) is None


@given(st.text())
def test_code_block_cannot_be_left(text):
    block = escape.markdown_block(text)
    lines = block.split("\n")
    fence = lines[0]
    assert lines[-1] == fence
    assert all(not line.strip().startswith(fence) for line in lines[1:-1])


@given(st.text())
def test_rich_parts_lose_nothing_but_balanced_backticks(text):
    parts = escape.rich_parts(text)
    joined = "".join(part for part, _code in parts)
    assert joined.replace("`", "") == text.replace("`", "")
