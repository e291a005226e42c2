"""The ticket of the recorded upgrade: the same facts in every format, and harmless whatever the cluster is called."""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import jsonschema_rs
import msgspec
import pypdfium2
import pytest
from click.testing import CliRunner

from changegen import kubedata, profiles, render
from changegen.cli import cli
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.model.ticket import Ticket
from changegen.plan import make_ticket

BEFORE = Path(__file__).resolve().parent.parent / "data" / "recorded" / "before"
HOSTILE = "x|y`z`\n# h <script>alert(1)</script> [a](javascript:b) \x1b[31m \u202e ![i](http://e.example/i.png) &amp;"
# Fields whose values are the tool's own words of a closed list, or ids that the parts refer to each other by.
CLOSED = frozenset(
    [
        "schema",
        "lang",
        "decision",
        "severity",
        "code",
        "kind",
        "action",
        "effect",
        "verdict",
        "phase",
        "layer",
        "compare",
        "runs",
        "what",
        "provenance",
        "id",
        "source",
        "result",
        "before_known",
        "expected",
        "before",
        "remedy",
        "checks",
        "rollback",
        "findings",
        "steps",
        "needed_once",
        "tool_version",
        "sha256",
        "profile",
        "snapshot",
        "query",
        "area",
        "hop",
    ]
)


@cache
def ticket() -> Ticket:
    snapshot = build_snapshot(read_input([str(BEFORE)]))
    return make_ticket(snapshot, profiles.load("kubernetes-1.37-dra"), kubedata.load())


class _Html(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.skip = 0

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in {"href", "src"}]
        self.skip += tag in {"style", "script"}

    def handle_endtag(self, tag):
        self.skip -= tag in {"style", "script"}

    def handle_data(self, data):
        if not self.skip:
            self.text.append(data)


def _parsed(html: str) -> _Html:
    parser = _Html()
    parser.feed(html)
    return parser


def _squeeze(text: str) -> str:
    # A hyphen at the end of a printed line is read back as none.
    return re.sub(
        r"[\s\\`*\-\u00ad\ufffe\x02]+",
        "",
        text.replace("&#58;", ":").replace("&#46;", ".").replace("&amp;", "&"),
    )


def _facts() -> list[str]:
    t = ticket()
    return [
        *(f.code for f in t.findings),
        *(f.message for f in t.findings),
        *(f"{s.id} {s.title}" for s in t.steps),
        *(line for s in t.steps for c in s.commands for line in c.text.splitlines()),
        *(c.id for c in t.checks),
        *(c.title for c in t.checks),
        *(c.command for c in t.checks if c.command),
        *(b.id for b in t.rollback),
        *(b.what for b in t.rollback),
        *(b.why for b in t.rollback if b.why),
        *(b.lost for b in t.rollback if b.lost),
        *(line for b in t.rollback for c in b.commands for line in c.text.splitlines()),
        *(i.sha256 for i in t.inputs if i.sha256),
        *(m.query for m in t.monitoring),
    ]


@pytest.mark.parametrize("fmt", ["markdown", "html", "pdf"])
def test_every_fact_of_the_json_is_in(fmt):
    data = render.render(ticket(), fmt)
    if fmt == "pdf":
        pages = pypdfium2.PdfDocument(data)
        # A page's head and foot stand between the lines that a page break parts.
        text = "".join(page.get_textpage().get_text_bounded() for page in pages)
        text = re.sub(r"(?m)^.*(snapshot sha256|Upgrade Kubernetes .* on |^\d+ / \d+).*$", "", text)
        # A long word of a command is closed and opened again: render/fold.py.
        text = re.sub(r"'\\\s*'", "", text)
    elif fmt == "html":
        text = "".join(_parsed(data.decode()).text)
    else:
        text = data.decode()
    squeezed = _squeeze(text)
    missing = [fact for fact in _facts() if _squeeze(fact) not in squeezed]
    # In a PDF a sentence that a page break parts has the page's foot within it: a handful at the most.
    assert len(missing) <= (len(pypdfium2.PdfDocument(data)) if fmt == "pdf" else 0), missing


def _hostile(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {k: v if k in CLOSED else _hostile(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_hostile(v, key) for v in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) else value


@cache
def hostile() -> Ticket:
    plain = msgspec.to_builtins(ticket())
    return msgspec.convert({**_hostile(plain), "snapshot": None}, Ticket)


def test_hostile_names_make_no_tag_no_link_and_no_control_character():
    clean, bad = (_parsed(render.render(t, "html").decode()) for t in (ticket(), hostile()))
    assert sorted(set(bad.tags)) == sorted(set(clean.tags))
    assert bad.tags.count("script") == clean.tags.count("script")
    assert all(link.startswith("#") for link in bad.links)
    for fmt in ("html", "markdown", "gitlab", "servicenow-text", "jira-text"):
        text = render.render(hostile(), fmt).decode()
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text), fmt


def test_hostile_names_leave_markdown_tables_and_headings_alone():
    clean, bad = (render.render(t, "markdown").decode() for t in (ticket(), hostile()))
    count = re.compile(r"(?<!\\)\|")
    shape = [len(count.findall(line)) for line in clean.splitlines() if line.startswith("|")]
    assert [len(count.findall(line)) for line in bad.splitlines() if line.startswith("|")] == shape
    # Headings outside code fences are the template's.
    fenced = re.compile(r"(?ms)^ *(`{3,})\w*$.*?^ *\1$")
    heads = [len(re.findall(r"(?m)^#{1,6} ", fenced.sub("", text))) for text in (clean, bad)]
    assert heads[0] == heads[1]
    assert not re.search(r"(?<!\\)\]\(", fenced.sub("", bad))


def _audit(*arguments: str) -> str:
    result = CliRunner().invoke(
        cli, ["-q", "audit", str(BEFORE), "--profile", "kubernetes-1.37-dra", *arguments]
    )
    assert result.exit_code == 3, result.output
    return result.stdout


def test_audit_text(snapshot):
    assert _audit("-f", "text") == snapshot


def test_audit_sarif_is_what_scanners_read():
    run = json.loads(_audit("-f", "sarif"))["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    assert any(r["level"] == "error" and r["ruleId"] == "CG-GATE-001" for r in run["results"])
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]


def test_audit_junit_fails_where_something_blocks():
    root = ET.fromstring(_audit("-f", "junit"))
    failed = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert [case.get("classname") for case in failed] == ["CG-GATE-001"]
    assert len(list(root.iter("testcase"))) > 50


def test_ticket_json_keeps_its_schema():
    schema = json.loads(CliRunner().invoke(cli, ["ticket", "--schema"]).stdout)
    jsonschema_rs.validator_for(schema).validate(json.loads(render.render(ticket(), "json")))


@pytest.mark.parametrize("fmt", ["markdown", "html", "gitlab", "servicenow-text", "jira-text"])
def test_every_format_says_which_way_back_before_its_commands(fmt: str):
    made = ticket()
    text = render.render(made, fmt).decode()
    plain = html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\\", "")
    ways = plain.index("follow that line alone")
    for fork in made.rollback_forks:
        assert fork.when.replace("`", "") in plain.replace("`", ""), fork.when
    restore = next(b for b in made.rollback if b.what.startswith("The whole data store"))
    at = plain.find(restore.commands[0].text[:40])
    # A field of a form is cut before it; where the commands are, what must be true for them is too.
    assert at == -1 or ways < at
    assert at != -1 or fmt in ("servicenow-text", "jira-text")
    for back in made.rollback:
        if at != -1 and back.guard:
            assert back.guard[:60].replace("`", "") in plain.replace("`", ""), back.id
