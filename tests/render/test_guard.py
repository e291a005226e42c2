"""Users' templates cannot take the machine's memory or time; a ticked PDF is somebody's word and nothing more."""

from __future__ import annotations

import io
import itertools
import re

import pypdf
import pytest

from changegen import render
from changegen.errors import InputError, TemplateError, UsageError
from changegen.render import attest, guard
from tests.render import sample


def _folder(tmp_path, body):
    (tmp_path / "partials").mkdir()
    (tmp_path / "partials" / "monitoring.md.j2").write_text(body)
    return [tmp_path]


def test_the_child_writes_what_this_process_writes(tmp_path):
    folders = _folder(tmp_path, "## Ours {{ t.title }}\n")
    for value in (sample.ticket(), sample.results()):
        assert guard.guarded(value, "markdown", folders) == guard.text(value, "markdown", folders)
    assert b"## Ours" in render.render(sample.ticket(), "markdown", template_dirs=folders)


@pytest.mark.parametrize(
    ("body", "said", "seconds"),
    [
        ("{{ 'a' * 10**9 }}", "too much memory", 30),
        ("{{ nothing }}", "does not exist", 30),
        (
            "{% for a in range(9**5) %}{% for b in range(9**5) %}{% endfor %}{% endfor %}",
            "does not finish within 1 s",
            1,
        ),
    ],
)
def test_a_template_without_measure_is_one_clear_error(tmp_path, body, said, seconds):
    with pytest.raises(TemplateError, match=said):
        guard.guarded(sample.ticket(), "markdown", _folder(tmp_path, body), seconds=seconds)


def test_init_templates_copies_all_and_overwrites_nothing(tmp_path):
    folder = tmp_path / "mine"
    assert render.init_templates(folder) > 20
    made = render.render(sample.ticket(), "markdown", template_dirs=[folder])
    assert made == render.render(sample.ticket(), "markdown")
    with pytest.raises(UsageError):
        render.init_templates(folder)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The sample's PDF with V-1 and V-3 ticked, and a step, which is somebody's word and no check."""
    path = tmp_path_factory.mktemp("pdf") / "filled.pdf"
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(render.render(sample.ticket(), "pdf")))
    values = {"check-V-1": "/on", "check-V-3": "/on", "step-P-1": "/on"}
    for page in writer.pages:
        if "/Annots" in page:
            writer.update_page_form_field_values(page, values, auto_regenerate=False)
    writer.write(path)
    return path


def test_ticks_are_read_back(filled):
    assert attest.read_ticked(filled) == {"V-1", "V-3"}


def test_ticks_are_attested_by_name_in_any_language(filled):
    said = attest.read_attestations(filled, sample.ticket(lang="zh-CN"), " A. Operator ")
    assert [(a.check, a.by) for a in said] == [(n, "A. Operator") for n in ("P-1", "V-1", "V-3")]
    assert "filled.pdf" in said[0].note


@pytest.mark.parametrize("other", [{"snapshot_digest": "9" * 64}, {"checks": sample.ticket().checks[:1]}])
def test_a_pdf_of_another_ticket_is_refused(filled, other):
    with pytest.raises(InputError, match="another ticket"):
        attest.read_attestations(filled, sample.ticket(**other), "A. Operator")


def test_nobody_attests_nothing(filled):
    with pytest.raises(InputError, match="attested-by"):
        attest.read_attestations(filled, sample.ticket(), "  ")


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7 and no more", b"# ticket\n", None])
def test_what_is_no_filled_ticket_is_refused(tmp_path, content):
    path = tmp_path / "x.pdf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError):
        attest.read_ticked(path)


@pytest.mark.parametrize(("profile", "mark"), [("ua", b"pdfuaid"), ("archive", b"pdfaid"), ("plain", b"")])
def test_every_kind_of_pdf_has_its_mark_its_form_and_the_ticket_inside(profile, mark):
    reader = pypdf.PdfReader(
        io.BytesIO(render.render(sample.ticket(), "pdf", pdf_profile=profile)), strict=False
    )
    if mark:
        assert mark in reader.trailer["/Root"]["/Metadata"].get_data()
    assert list(reader.attachments) == ["ticket.json"]
    assert "check-V-1" in (reader.get_fields() or {})
    # PDF/A: every field brings its own appearance (ISO 19005-3, 6.4.1).
    assert reader.trailer["/Root"]["/AcroForm"]["/NeedAppearances"].value is False


@pytest.mark.parametrize("value", [sample.ticket(), sample.results()])
def test_no_level_of_headings_is_left_out(value):
    levels = [int(n) for n in re.findall(r"<h(\d)", render.render(value, "html").decode())]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
