"""What the makers of docs pages share: the files are written, or with ``--check`` only compared."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cell(text: str) -> str:
    """Return text for one cell of a Markdown table: one line, bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def run(pages: Mapping[str, Callable[[], str]], maker: str, about: str | None) -> int:
    """Write or check every page; 1 where ``--check`` finds one that is out of date.

    Args:
        pages: Path below the project's folder -> what makes its text.
        maker: Name of the script, ``tools/make_docs.py``: said where a page is out of date.
        about: Docstring of the script; its first line is the help.
    """
    parser = argparse.ArgumentParser(description=(about or "").split("\n", 1)[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail where a page is out of date"
    )
    options = parser.parse_args()
    stale = 0
    for name, make in pages.items():
        path, text = ROOT / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if options.check:
            print(f"{name} is out of date: run python {maker}", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if stale and options.check else 0
