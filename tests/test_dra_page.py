"""Every command of docs/dra.md prints what the page shows. `python -m tests.test_dra_page` writes the outputs anew."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dra.md"
BLOCK = re.compile(r"```console\n(?P<folder>[^\n$]*)\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)


def printed(folder: str, line: str) -> str:
    """Standard output of a command of the page, passed through its `grep` where it has one."""
    command, _, pattern = line.partition(" | grep ")
    words = shlex.split(command)
    assert words[0] == "changegen"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHANGEGEN_")}
    done = subprocess.run(
        [sys.executable, "-m", "changegen", *words[1:]],
        cwd=ROOT / folder,
        env={**environment, "NO_COLOR": "1", "KUBECONFIG": "/nonexistent", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 3), done.stderr
    if not pattern:
        return done.stdout
    flags, expression = shlex.split(pattern)
    keep = "v" not in flags
    found = [text for text in done.stdout.splitlines() if (re.search(expression, text) is not None) is keep]
    return "".join(f"{text}\n" for text in found)


BLOCKS = [match.groupdict() for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def test_the_page_has_commands() -> None:
    assert len(BLOCKS) == 10


@pytest.mark.parametrize("block", BLOCKS, ids=[block["command"][:50] for block in BLOCKS])
def test_a_command_prints_what_the_page_shows(block: dict[str, str]) -> None:
    output = printed(block["folder"], block["command"])
    assert output
    assert output == block["output"]


def _write() -> None:
    def anew(match: re.Match[str]) -> str:
        folder, command = match["folder"], match["command"]
        return f"```console\n{folder}$ {command}\n{printed(folder, command)}```"

    PAGE.write_text(BLOCK.sub(anew, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _write()
