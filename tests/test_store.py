from __future__ import annotations

import gzip
import io
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changegen import __version__, store
from changegen.errors import InputError, OutputError
from changegen.model.snapshot import Cluster, Snapshot, Source
from changegen.model.ticket import SCHEMA, Ticket

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def a_snapshot() -> Snapshot:
    return Snapshot(tool_version="1", source=Source(kind="files", description="a capture"), cluster=Cluster())


@given(st.dictionaries(st.text(), JSON, max_size=6))
@settings(deadline=None)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    shuffled = dict(reversed(value.items()))
    assert store.canonical(shuffled) == store.canonical(value)
    assert store.digest_of(shuffled) == store.digest_of(value)
    assert msgspec.json.decode(store.canonical(value)) == value
    assert msgspec.json.decode(store.pretty(value)) == value


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_snapshot_comes_back_with_the_digest_it_was_written_with(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    written = store.write_record(path, a_snapshot())
    first = path.read_bytes()
    assert store.read_snapshot(path) == (a_snapshot(), written)
    store.write_record(path, a_snapshot())
    assert path.read_bytes() == first, "the same value gives the same bytes, packed or not"


def test_a_packed_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(gzip.compress(store.canonical(a_snapshot())))
    assert store.read_snapshot(path)[0] == a_snapshot()


def _snapshot_bytes(**changes: object) -> bytes:
    value = msgspec.to_builtins(a_snapshot())
    value.update(changes)
    return store.canonical(value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (_snapshot_bytes()[:100], "the snapshot is cut off at byte 100"),
        (_snapshot_bytes()[:-3] + b"?}\n", "not valid JSON"),
        (b"[1]", "no changegen snapshot"),
        (b'{"kind": "Pod"}', "no changegen snapshot"),
        (_snapshot_bytes(schema="changegen.ticket/v1"), "a changegen ticket, not a snapshot"),
        (_snapshot_bytes(schema="changegen.snapshot/v9"), "changegen.snapshot/v9"),
        (_snapshot_bytes(nodes=[{"name": 5}]), "$.nodes[0].name"),
        (_snapshot_bytes(strange=1), "strange"),
        (gzip.compress(_snapshot_bytes())[:-20], "cut off"),
        (b"\x1f\x8b" + b"x" * 50, "damaged"),
    ],
)
def test_a_broken_snapshot_says_what_is_wrong_and_where(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        store.read_snapshot(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (
            "0.0.9",
            f"changegen 0.0.9 wrote it and this is {__version__}: write the ticket again with this one, or use 0.0.9",
        ),
        (
            __version__,
            f"changegen {__version__} wrote it, which is this version: the file was edited, or another build",
        ),
        ("", "write the ticket again"),
        (7, "write the ticket again"),
    ],
)
def test_a_record_that_does_not_fit_says_which_version_wrote_it_and_what_to_do(
    version: object, says: str
) -> None:
    value = {"schema": SCHEMA, "tool_version": version, "strange": 1}
    with pytest.raises(InputError) as caught:
        store.decode_record(store.canonical(value), Ticket, schema=SCHEMA, place="t.json")
    assert str(caught.value.hint).startswith("it says that " * (version == __version__) + says)


def test_what_is_no_file_is_an_input_error(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none.json", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(InputError, match=says):
            store.read_bytes(path)


def test_unpacking_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_RECORD_BYTES", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10_000)))
    with pytest.raises(InputError, match="larger"):
        store.read_bytes(path)


def test_stdin_and_stdout_are_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    store.write_record("-", a_snapshot())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(out.getvalue())))
    assert store.read_snapshot("-")[0] == a_snapshot()


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.md"
    store.write_bytes(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"t\.md: .*No space left") as caught:
        store.write_bytes(path, b"new")
    assert caught.value.exit_code == 1
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["t.md"]


def test_writing_keeps_modes_and_follows_links(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    store.write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    fresh = tmp_path / "fresh.json"
    store.write_bytes(fresh, b"x")
    plain = tmp_path / "plain"
    plain.touch()
    assert fresh.stat().st_mode == plain.stat().st_mode, "the umask holds as for any new file"


def test_a_device_is_written_to_and_not_replaced() -> None:
    store.write_bytes("/dev/null", b"x")
    assert not Path("/dev/null").is_file()


def test_what_can_be_written_is_found_out_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for good in ("-", "/dev/null", str(tmp_path / "new.json")):
        store.check_writable(good)
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="no such folder"):
        store.check_writable(tmp_path / "none" / "x.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere" / "x.json")
    with pytest.raises(OutputError, match="no such folder"):
        store.check_writable(tmp_path / "link.json")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="it cannot be written: Permission denied"):
        store.check_writable(tmp_path / "new.json")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no such folder"):
        store.write_bytes(tmp_path / "none" / "t.md", b"x")
