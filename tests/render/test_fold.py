"""Commands broken for a page are still the same commands. The judge is a shell: how it prints what it has parsed."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from changegen.render.fold import PAGE, fold
from tests.render.test_recorded import ticket

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")


def parsed(text: str) -> str:
    """The commands as bash prints them; closing and opening a quote at one place changes no word."""
    done = subprocess.run(
        ["bash", "-c", f"f() {{\n{text}\n}}\ndeclare -f f"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (text, done.stderr)
    return done.stdout.replace("''", "")


def test_the_commands_of_a_ticket_stay_what_they_are_and_fit() -> None:
    t = ticket()
    texts = {
        *(c.text for s in t.steps for c in s.commands),
        *(c.text for b in t.rollback for c in b.commands),
        *(c.command for c in t.checks if c.command),
    }
    assert any(len(line) > PAGE for text in texts for line in text.split("\n"))
    for text in texts:
        folded = fold(text)
        assert parsed(folded) == parsed(text)
        # What is left too long is a word that cannot be broken.
        for line in folded.split("\n"):
            assert len(line) <= PAGE or " " not in line.strip().removesuffix(" \\") or "$(" in line, line


WORDS = st.sampled_from(
    [
        "kubectl",
        "get",
        "--flag=a,b",
        "'a  b'",
        "'{range .items[*]}{.x}'",
        '"a  b"',
        '"$(echo "p  q" \'r  s\')"',
        "\\ x",
        "$(echo a 'b  c' | tr a b)",
        "it\\'s",
        "&&",
        "true;",
        "'\"'",
        "x'y z'w",
        '"it\'s"',
        '"a $HOME  and ${X:-b  c} ' + "long text " * 9 + '"',
        "ssh=\"sudo sh -c 'cd /x && tee y' " + "word  " * 30 + 'end"x',
        "echo #none",
        "'{" + "y z" * 60 + "}'",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=14), st.integers(20, 60))
@example(["'" + "a" * 90 + "'", "'" + "b c, " * 30 + "'"], 40)
def test_any_line_stays_the_same_commands(words: list[str], width: int) -> None:
    text = "echo " + " ".join(words) + " end"
    try:
        meant = parsed(text)
    except AssertionError:
        return  # no commands: two && after another
    assert parsed(fold(text, width)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "cat > file <<'EOF'\n" + "a word " * 40 + "\nEOF\necho done",
        "# it's a comment " + "with words " * 20 + "\necho 'a  b' # and 'another",
        "echo 'one\n" + "two  three " * 20 + "\nfour' five",
    ],
)
def test_documents_comments_and_texts_of_many_lines(text: str) -> None:
    assert parsed(fold(text)) == parsed(text)
    assert fold("short line") == "short line"


def test_what_it_looks_like() -> None:
    assert fold("etcdctl --cacert=/a --cert=/b endpoint status", 24) == (
        "etcdctl --cacert=/a \\\n  --cert=/b endpoint \\\n  status"
    )
    assert fold("get -o jsonpath='{range .items[*]}{.metadata.name}{end}'", 36) == (
        "get -o \\\n  jsonpath='{range .items[*]}'\\\n'{.metadata.name}{end}'"
    )
