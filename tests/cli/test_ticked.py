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


def _tick(work: Path, check: str) -> Path:
    writer = pypdf.PdfWriter(clone_from=work / "ticket.pdf")
    name = f"check-{check}"
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
    assert {r["id"]: r["result"] for r in told["results"]}[failed] == "fail"


def test_a_tick_needs_a_name(work):
    result = _verify(work, "--ticked", str(_tick(work, _runtime_check(work))))
    assert result.exit_code == 2
    assert "--attested-by" in result.output


def test_a_file_that_is_no_ticket_is_refused(work, tmp_path):
    other = tmp_path / "x.pdf"
    other.write_bytes(b"%PDF-1.7 nothing")
    result = _verify(work, "--ticked", str(other), "--attested-by", "me")
    assert result.exit_code == 2
