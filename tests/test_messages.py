"""Every word of the tool is in every catalogue, with the same named fields."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from changegen import i18n, kubedata, profiles, render
from changegen.collect import build_snapshot
from changegen.collect.files import read_input
from changegen.plan import make_ticket

ROOT = Path(__file__).resolve().parent.parent
BEFORE = Path(__file__).resolve().parent / "data" / "recorded" / "before"


def test_catalogues_are_complete_and_keep_the_fields():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "messages.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def chinese() -> str:
    snapshot = build_snapshot(read_input([str(BEFORE)]))
    ticket = make_ticket(snapshot, profiles.load("kubernetes-1.37-dra"), kubedata.load(), lang="zh-CN")
    return render.render(ticket, "markdown").decode()


def _snapshot_words() -> set[str]:
    snapshot = build_snapshot(read_input([str(BEFORE)]))
    words = {source.place for c in snapshot.components for source in c.gate_sources}
    words |= {c.feature_gates_source for c in snapshot.components} | {u.detail for u in snapshot.unobserved}
    return {w for w in words if " " in w}


def test_a_chinese_ticket_has_no_english_sentence(chinese):
    # Commands, names, codes, what a component itself says and where a fact was read (the snapshot's own words, which
    # are the same in every language) stay as they are; other words in a row do not.
    body = re.sub(r"(?s)```.*?```|`[^`]*`", "", chinese)
    for said in sorted(_snapshot_words(), key=len, reverse=True):
        body = body.replace(said, "")
    body = re.sub(r"[A-Za-z0-9_.:/=-]*[./_=:][A-Za-z0-9_./:=-]*", "", body)
    annex = body.index("## 证据") if "## 证据" in body else len(body)
    sentences = re.findall(r"(?:\b[a-z]{2,}\b[ ,]+){4,}[a-z]{2,}\b", body[:annex])
    assert sentences == []


def test_an_unknown_message_stays_english_and_fields_are_not_looked_at_again():
    with i18n.language("zh-CN"):
        assert i18n.tr("no such message {x}", x="{y}") == "no such message {y}"


def test_a_count_chooses_the_text_in_english_and_one_text_serves_in_chinese(monkeypatch):
    one, many = "{n} Pod waits in {where}", "{n} Pods wait in {where}"
    assert [i18n.trn(one, many, n=n, where="ml") for n in (0, 1, 2)] == [
        "0 Pods wait in ml",
        "1 Pod waits in ml",
        "2 Pods wait in ml",
    ]
    monkeypatch.setattr(i18n, "catalogue", lambda _lang: {many: "{where}: {n}"})
    with i18n.language("zh-CN"):
        assert [i18n.trn(one, many, n=n, where="ml") for n in (1, 2)] == ["ml: 1", "ml: 2"]
