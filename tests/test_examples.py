"""What stands in examples/ is what changegen makes of the inputs there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pypdfium2
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def remade(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    tool = ROOT / "tools" / "make_examples.py"
    subprocess.run([sys.executable, str(tool), "--markdown-into", str(folder)], check=True, cwd=ROOT)
    return folder


def test_every_markdown_file_is_what_its_input_makes(remade):
    made = {p.relative_to(remade): p.read_text() for p in remade.rglob("*.md")}
    kept = {
        p.relative_to(EXAMPLES): p.read_text()
        for p in EXAMPLES.rglob("*/*.md")
        if p.relative_to(EXAMPLES) in made
    }
    assert kept == made


@pytest.mark.parametrize(
    "ticket", sorted(p.relative_to(EXAMPLES).as_posix() for p in EXAMPLES.rglob("*.pdf"))
)
def test_every_pdf_says_what_its_markdown_says(ticket):
    document = pypdfium2.PdfDocument(EXAMPLES / ticket)
    text = re.sub(r"\s+", "", "".join(page.get_textpage().get_text_bounded() for page in document))
    markdown = (EXAMPLES / ticket).with_suffix(".md").read_text()
    ids = set(re.findall(r"\bCG-[A-Z]+-\d{3}\b|\*\*([PIABV]-\d+)\b", markdown)) - {""}
    codes = set(re.findall(r"\bCG-[A-Z]+-\d{3}\b", markdown))
    assert codes
    for word in ids | codes:
        assert word in text, word
    for command in re.findall(r"(?m)^  (kubectl [^\n]{5,60})$", markdown)[:40]:
        assert re.sub(r"\s+", "", command) in text, command
