from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("cli_docs", ROOT / "tools" / "cli_docs.py")
assert spec is not None
assert spec.loader is not None
cli_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cli_docs)


@pytest.mark.parametrize("name", cli_docs.PAGES)
def test_generated_pages_are_up_to_date(name):
    assert (ROOT / name).read_text(encoding="utf-8") == cli_docs.PAGES[name](), "run python tools/cli_docs.py"


def test_every_command_and_option_is_in_the_reference():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli_docs.commands():
        assert f"\n## changegen {name}\n" in text
        section = text.partition(f"\n## changegen {name}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert option in section
