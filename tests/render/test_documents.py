"""Whole documents: every part is there in every format, and hostile names stay harmless."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import pypdf
import pypdfium2
import pytest

from changegen import render
from changegen.errors import TemplateError, UsageError
from changegen.model.ticket import Field
from changegen.render import documents, escape, forms, jinja, pdf, view
from tests.render import sample
from tests.render.test_recorded import ticket as recorded_ticket


class _Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.skip = 0

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.skip += tag in {"style", "script"}

    def handle_endtag(self, tag):
        self.skip -= tag in {"style", "script"}

    def handle_data(self, data):
        if not self.skip:
            self.text.append(data)


def _html_text(html: str) -> _Text:
    parser = _Text()
    parser.feed(html)
    return parser


def _pdf_text(data: bytes) -> str:
    document = pypdfium2.PdfDocument(data)
    return "\n".join(page.get_textpage().get_text_bounded() for page in document)


def _facts() -> list[str]:
    """What every format must say: codes, steps, commands, checks, verdict points."""
    t = sample.ticket()
    return [
        *(f.code for f in t.findings),
        *(s.id for s in t.steps),
        *(c.id for c in t.checks),
        *(b.id for b in t.rollback),
        "kubeadm upgrade apply v1.37.2",
        "kubectl get --raw /version",
        "SELinuxMount",
        "HPAScaleToZero",
        "the last member runs 3.7",
        "example.com/gpu-only",
        "kube-scheduler metrics were not in the capture",
    ]


def test_markdown_and_html_say_the_same():
    t = sample.ticket()
    markdown = render.render(t, "markdown").decode().replace("\\", "")
    html = "".join(_html_text(render.render(t, "html").decode()).text)
    for fact in _facts():
        assert fact in markdown
        assert fact in html


def test_pdf_says_the_same_and_is_tagged():
    data = render.render(sample.ticket(), "pdf")
    text = re.sub(r"\s+", "", _pdf_text(data))
    for fact in _facts():
        assert re.sub(r"\s+", "", fact) in text, fact
    reader = pypdf.PdfReader(io.BytesIO(data))
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert b"pdfuaid" in root["/Metadata"].get_data()
    assert root["/Lang"] == "en"
    assert list(reader.attachments) == ["ticket.json"]
    assert any(name.startswith("check-V-1") for name in reader.get_fields() or {})
    assert [str(item["/Title"]) for item in reader.outline if isinstance(item, dict)][:1] == [
        sample.ticket().title
    ]


def test_pdf_is_the_same_twice():
    one, two = (render.render(sample.ticket(), "pdf") for _ in range(2))
    assert one == two


def test_hostile_text_makes_no_tag_script_or_link():
    html = render.render(sample.ticket(), "html").decode()
    parsed = _html_text(html)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1
    assert not any(tag == "img" for tag, _ in parsed.tags)
    assert all((attrs.get("href") or "#").startswith("#") for tag, attrs in parsed.tags if tag == "a")
    assert "\x1b" not in html
    assert "\u202e" not in html
    markdown = render.render(sample.ticket(), "markdown").decode()
    assert "\x1b" not in markdown
    assert "<script" not in re.sub(r"\\<", "", markdown)
    assert not re.search(r"(?<!\\)\]\(http", markdown)


def test_markdown_tables_keep_their_columns():
    for text in (render.render(sample.ticket(), "markdown"), render.render(sample.results(), "markdown")):
        width = 0
        for line in text.decode().splitlines():
            if line.startswith("|"):
                cells = len(re.findall(r"(?<!\\)\|", line))
                width = width or cells
                assert cells == width, line
            else:
                width = 0


def test_pdf_fetches_nothing_from_outside(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("top secret")
    with pytest.raises(Exception, match="could not be written"):
        pdf.write(f'<html><body><img src="file://{secret}"></body></html>', profile="plain")


def test_user_template_replaces_one_part(tmp_path):
    (tmp_path / "partials").mkdir()
    (tmp_path / "partials" / "monitoring.md.j2").write_text("## Ours\n{{ t.title }}\n")
    text = documents.markdown(sample.ticket(), template_dirs=[tmp_path])
    assert "## Ours" in text
    assert "## Rollback" in text


@pytest.mark.parametrize(
    "body",
    [
        "{{ nothing }}",
        "{{ t.__class__ }}",
        "{{ t.findings.append(1) }}",
        "{% if %}",
        "{{ ''.__class__.__mro__ }}",
        "{% for i in range(10**9) %}{% endfor %}",
    ],
)
def test_broken_or_forbidden_user_template_is_one_clear_error(tmp_path, body):
    (tmp_path / "partials").mkdir()
    (tmp_path / "partials" / "monitoring.md.j2").write_text(body)
    with pytest.raises(TemplateError):
        documents.markdown(sample.ticket(), template_dirs=[tmp_path])


@pytest.mark.parametrize("name", forms.FORMS)
def test_forms_keep_their_limits_and_point_to_the_attachment(name):
    long = sample.ticket(headline="word " * 20_000)
    form = forms.load(name)
    filled = forms.values(long, form)
    for field in form.fields:
        if field.limit and field.name in filled:
            assert len(filled[field.name]) <= field.limit
    assert any("ticket.pdf" in value for value in filled.values())
    body = json.loads(forms.as_json(sample.ticket(), name))
    assert "approv" not in json.dumps(body).lower()


def test_a_field_that_is_cut_still_names_every_step_check_and_way_back():
    t = recorded_ticket()
    filled = forms.values(t, forms.load("servicenow"))
    for name, ids in (
        ("implementation_plan", [s.id for s in t.steps]),
        ("test_plan", [c.id for c in t.checks]),
        ("backout_plan", [b.id for b in t.rollback]),
    ):
        lines = {line.split("  ")[0] for line in filled[name].splitlines()}
        assert set(ids) <= lines, name


def test_a_form_gives_the_window_that_people_set():
    t = sample.ticket(
        fields=(
            Field(name="window.start", label="Window start", value="2027-01-31T23:00:00+01:00"),
            Field(name="window.end", label="Window end", value="2027-02-01T02:00:00Z"),
            Field(name="approvers", label="Approvers", value="somebody"),
        )
    )
    filled = forms.values(t, forms.load("servicenow"))
    assert (filled["start_date"], filled["end_date"]) == ("2027-01-31 22:00:00", "2027-02-01 02:00:00")
    assert "== Planned start date (UTC) ==\n2027-01-31 22:00:00" in forms.as_text(t, "servicenow").decode()
    for none in ("next Sunday", "0001-01-01T00:00:00+10:00"):
        assert jinja.utc(none) == none
    assert "somebody" not in " ".join(filled.values())


def test_forms_mapping_can_be_replaced(tmp_path):
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms" / "jira.yaml").write_text(
        "schema: changegen.form/v1\nname: jira\nfields:\n- {name: customfield_1, template: '{{ t.cluster_name }}'}\n"
    )
    assert json.loads(forms.as_json(sample.ticket(), "jira", [tmp_path])) == {"customfield_1": "prod-a"}


@pytest.mark.parametrize("limit", [1, 10, 40, 100])
def test_cut_never_exceeds_the_limit(limit):
    assert len(forms.cut("line one\nline two\n" * 20, limit, "ticket.pdf")) <= limit


def test_gitlab_issue_has_task_lists_and_no_quick_action():
    text = render.render(sample.ticket(cluster_name="/close\n/close"), "gitlab").decode()
    assert "- [ ] **I-1**" in text
    assert not re.search(r"(?m)^/", text)


def test_closing_report_in_every_format():
    results = sample.results()
    for fmt in ("text", "markdown", "html", "junit"):
        text = render.render(results, fmt).decode()
        assert "kube-proxy" in text
        assert "\x1b" not in text
        assert "V-2" in text


def test_unknown_format_names_the_known_ones():
    with pytest.raises(UsageError) as caught:
        render.render(sample.ticket(), "docx")
    assert "gitlab" in str(caught.value.hint)


def test_marks_are_told_apart_without_colour():
    assert len({escape.one_line(m) for m in ("☐", "☑", "✗", "?", "✎")}) == 5


def _parents(tree: Any) -> dict[int, Any]:
    """Key -> structure element of a PDF's parent tree (ISO 32000-1, 14.7.4.4)."""
    found = {}
    for kid in tree.get("/Kids", ()):
        found |= _parents(kid.get_object())
    numbers = tree.get("/Nums", ())
    return found | {int(numbers[at]): numbers[at + 1].get_object() for at in range(0, len(numbers), 2)}


def test_every_link_of_a_pdf_is_tagged_as_one():
    # PDF/UA-1, 7.18.5: a link that holds an element and no text of its own gets no Link element from WeasyPrint.
    reader = pypdf.PdfReader(io.BytesIO(render.render(sample.ticket(), "pdf")))
    parents = _parents(reader.trailer["/Root"]["/StructTreeRoot"]["/ParentTree"])
    links = [
        annotation.get_object()
        for page in reader.pages
        for annotation in page.get("/Annots", ())
        if annotation.get_object()["/Subtype"] == "/Link"
    ]
    assert links
    for link in links:
        assert parents[link["/StructParent"]]["/S"] == "/Link", link.get("/A") or link.get("/Dest")


def test_a_static_pod_is_its_node_and_a_config_map_keeps_its_name():
    assert view.short(["kube-system/kubelet-n1", "kube-system/kubelet-n2"], "kubelet") == ["n1", "n2"]
    assert view.short(["ConfigMap kube-system/kubelet-config"], "kubelet") == [
        "ConfigMap kube-system/kubelet-config"
    ]
