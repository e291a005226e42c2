"""Compiled templates between runs: quicker, and never another text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from changegen.render.compiled import kept
from changegen.render.jinja import render_template

NAME = "part.j2"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "changegen"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    monkeypatch.setattr("changegen.resources.folder", lambda _: folder)
    return folder


def test_kinds_and_texts_are_kept_apart(cache: Path, shipped: Path) -> None:
    (shipped / NAME).write_text('{{ "x" | code }}{{ value }}', encoding="utf-8")
    first = {kind: render_template(NAME, {"value": "|"}, kind=kind) for kind in ("markdown", "html", "text")}
    assert len(set(first.values())) == 3
    assert len(list(cache.glob("*.jinja"))) == 3
    again = {kind: render_template(NAME, {"value": "|"}, kind=kind) for kind in first}
    assert again == first
    (shipped / NAME).write_text("new {{ value }}", encoding="utf-8")
    assert render_template(NAME, {"value": "1"}, kind="text") == "new 1"


@pytest.mark.parametrize(
    "spoil", [lambda _: b"", lambda data: data[: len(data) // 2], lambda data: data[:12] + b"\xff" * 40]
)
def test_a_spoilt_file_is_made_anew(cache: Path, shipped: Path, spoil: Callable[[bytes], bytes]) -> None:
    (shipped / NAME).write_text("{{ value }}", encoding="utf-8")
    render_template(NAME, {"value": "1"}, kind="text")
    (file,) = cache.glob("*.jinja")
    good = file.read_bytes()
    file.write_bytes(spoil(good))
    assert render_template(NAME, {"value": "2"}, kind="text") == "2"
    assert file.read_bytes() == good


def test_a_folder_that_others_may_write_is_not_used(cache: Path, shipped: Path) -> None:
    (shipped / NAME).write_text("{{ value }}", encoding="utf-8")
    cache.mkdir()
    cache.chmod(0o777)
    assert kept("text") is None
    assert render_template(NAME, {"value": "1"}, kind="text") == "1"
    assert not list(cache.iterdir())
    cache.chmod(0o700)
    assert kept("text") is not None


def test_a_link_or_a_file_in_the_place_of_the_folder(cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    cache.symlink_to(elsewhere)
    assert kept("text") is None
    cache.unlink()
    cache.write_text("", encoding="utf-8")
    assert kept("text") is None


def test_the_users_own_templates_are_not_kept(cache: Path, shipped: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / NAME).write_text("own {{ value }}", encoding="utf-8")
    assert render_template(NAME, {"value": "1"}, kind="text", template_dirs=[own]) == "own 1"
    assert not cache.exists()


def test_a_full_disk_is_no_failure(cache: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shipped / NAME).write_text("{{ value }}", encoding="utf-8")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    assert render_template(NAME, {"value": "1"}, kind="text") == "1"
