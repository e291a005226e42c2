"""A ticked PDF is read back as somebody's word, and never passes."""

from __future__ import annotations

import json
from pathlib import Path

import pypdf
import pytest
from click.testing import CliRunner

from changegen.cli import cli

RECORDED = Path(__file__).resolve().parent.parent / "data" / "recorded"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ticked")
    for name in ("ticket.json", "ticket.pdf"):
        result = CliRunner().invoke(
            cli,
            [
                "-q",
                "ticket",
                str(RECORDED / "before"),
                "--profile",
                "kubernetes-1.37-dra",
                "-o",
                str(folder / name),
            ],
        )
        assert result.exit_code == 0, result.output
    return folder


def _runtime_check(work: Path) -> str:
    checks = json.loads((work / "ticket.json").read_text())["checks"]
    return next(c["id"] for c in checks if c["layer"] == "runtime")


def _tick(work: Path, item: str, kind: str = "check") -> Path:
    writer = pypdf.PdfWriter(clone_from=work / "ticket.pdf")
    name = f"{kind}-{item}"
    for page in writer.pages:
        for annotation in page.get("/Annots", []):
            field = annotation.get_object()
            if field.get("/T") == name:
                on = next(k for k in field["/AP"]["/N"] if k != "/Off")
                field[pypdf.generic.NameObject("/V")] = pypdf.generic.NameObject(on)
                field[pypdf.generic.NameObject("/AS")] = pypdf.generic.NameObject(on)
    out = work / "ticked.pdf"
    writer.write(out)
    return out


def _verify(work: Path, *arguments: str):
    return CliRunner().invoke(
        cli, ["-q", "verify", str(work / "ticket.json"), str(RECORDED / "after"), "-f", "json", *arguments]
    )


def test_a_tick_is_attested_by_name_and_is_no_pass(work):
    check = _runtime_check(work)
    plain = json.loads(_verify(work).stdout)
    told = json.loads(
        _verify(work, "--ticked", str(_tick(work, check)), "--attested-by", "the night shift").stdout
    )
    before, after = ({r["id"]: r for r in report["results"]}[check] for report in (plain, told))
    assert before["result"] == "unknown"
    assert after["result"] == "attested"
    assert after["attested_by"] == "the night shift"


def test_a_tick_on_a_failed_check_does_not_mend_it(work):
    plain = json.loads(_verify(work).stdout)
    failed = next(r["id"] for r in plain["results"] if r["result"] == "fail")
    told = json.loads(_verify(work, "--ticked", str(_tick(work, failed)), "--attested-by", "somebody").stdout)
    (row,) = [r for r in told["results"] if r["id"] == failed]
    assert row["result"] == "fail"
    assert row["reason"].endswith("attested by somebody (ticked in ticked.pdf); the reading says otherwise")


def test_ticked_steps_are_listed_as_somebody_s_word(work):
    plain = json.loads(_verify(work).stdout)
    undone = next(row["steps"][0] for row in plain["not_done"] if row["steps"])
    told = json.loads(
        _verify(work, "--ticked", str(_tick(work, undone, "step")), "--attested-by", "the night shift").stdout
    )
    (step,) = told["ticked"]
    assert (step["id"], step["by"]) == (undone, "the night shift")
    assert step["against"].startswith("the reading says otherwise: ")
    assert told["counts"] == plain["counts"]
    back = json.loads((work / "ticket.json").read_text())["rollback"][0]["id"]
    told = json.loads(_verify(work, "--ticked", str(_tick(work, back, "back")), "--attested-by", "me").stdout)
    assert [row["id"] for row in told["ticked"]] == [back]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_ticked_steps_stand_in_each_form_of_the_report(work, form):
    step = json.loads((work / "ticket.json").read_text())["steps"][0]
    arguments = ["--ticked", str(_tick(work, step["id"], "step")), "--attested-by", "the night shift"]
    shown = _verify(work, *arguments, "-f", form).stdout
    after = shown.partition("Steps that people ticked as done")[2]
    assert step["id"] in after
    assert "the night shift; ticked in ticked.pdf" in after.replace("\\", "")


def test_the_pdf_is_a_ticket_too(work):
    from_json = json.loads(_verify(work).stdout)
    for arguments, given in (
        ((str(work / "ticket.pdf"),), None),
        (("-",), (work / "ticket.pdf").read_bytes()),
    ):
        result = CliRunner().invoke(
            cli, ["-q", "verify", *arguments, str(RECORDED / "after"), "-f", "json"], input=given
        )
        assert json.loads(result.stdout) == from_json


def test_a_pdf_without_a_ticket_and_a_rendering_are_told_apart(work, tmp_path):
    writer = pypdf.PdfWriter()
    writer.add_blank_page(width=100, height=100)
    writer.write(tmp_path / "empty.pdf")
    (tmp_path / "t.md").write_text("# Upgrade\n", encoding="utf-8")
    (tmp_path / "t.html").write_text("<!DOCTYPE html>\n", encoding="utf-8")
    for name, said in (
        ("empty.pdf", "this PDF has no ticket in it"),
        ("t.md", "use its JSON (changegen ticket -f json) or its PDF"),
        ("t.html", "use its JSON (changegen ticket -f json) or its PDF"),
    ):
        result = CliRunner().invoke(cli, ["verify", str(tmp_path / name), str(RECORDED / "after")])
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_a_tick_needs_a_name(work):
    result = _verify(work, "--ticked", str(_tick(work, _runtime_check(work))))
    assert result.exit_code == 2
    assert "--attested-by" in result.output


def test_a_file_that_is_no_ticket_is_refused(work, tmp_path):
    other = tmp_path / "x.pdf"
    other.write_bytes(b"%PDF-1.7 nothing")
    result = _verify(work, "--ticked", str(other), "--attested-by", "me")
    assert result.exit_code == 2
