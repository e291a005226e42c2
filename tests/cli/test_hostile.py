"""Hostile and odd inputs, outputs and surroundings: one sentence, the right exit code, nothing half-written."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.cli.conftest import RECORDED

Run = Callable[..., Result]
UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def changegen(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "changegen", *map(str, arguments)],
        capture_output=options.pop("capture_output", True),
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def sentence(text: str) -> str:
    """The one line that an error is."""
    lines = [line for line in text.strip().splitlines() if not line.startswith(("Usage:", "Try ", "Note:"))]
    (line,) = [line for line in lines if line]
    assert line.startswith("Error: ")
    assert "itself failed" not in line
    return line


# ------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    "command", [("snapshot",), ("audit", "--to", "1.37.2"), ("ticket", "--to", "1.37.2")]
)
def test_a_dash_with_nothing_behind_it(run: Run, command: tuple[str, ...]) -> None:
    assert "empty" in sentence(run(*command, "-", code=2, input=b"").stderr)


def test_standard_streams_may_be_closed(tmp_path: Path) -> None:
    shell = f'"{sys.executable}" -m changegen'
    script = (
        f"{shell} snapshot - <&-; echo $?; {shell} verify - x <&-; echo $?;"
        f"{shell} snapshot {RECORDED / 'before'} >&-; echo $? >&2"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["2", "2"]
    assert done.stderr.count("standard input is closed") == 2
    assert "standard output is closed" in done.stderr
    assert done.stderr.strip().endswith("1")


def test_a_device_without_an_end_is_not_read_for_ever(
    run: Run, snapshots: tuple[Path, Path], monkeypatch: Any
) -> None:
    from changegen import store
    from changegen.collect import files

    monkeypatch.setattr(store, "MAX_RECORD_BYTES", 2**20)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2**20)
    assert "larger than" in sentence(run("verify", "/dev/zero", snapshots[0], code=2).stderr)
    assert "larger than" in sentence(run("audit", snapshots[0], "--profile", "/dev/zero", code=2).stderr)
    assert "binary" in sentence(run("snapshot", "/dev/zero", code=2).stderr)


def test_links_in_a_circle(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "up").symlink_to("..")
    (folder / "self").symlink_to("self")
    shutil.copy(RECORDED / "before" / "nodes.json", folder)
    assert json.loads(run("snapshot", folder).stdout)["nodes"]
    assert "symbolic links" in sentence(run("snapshot", folder / "self", code=2).stderr)


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip"])
def test_members_that_lead_out_are_named_and_nothing_is_written(run: Run, tmp_path: Path, form: str) -> None:
    nodes = (RECORDED / "before" / "nodes.json").read_bytes()
    names = [
        "../../evil.json",
        "/tmp/evil-absolute.json",
        "a/../../evil2.json",
        "C:\\evil.json",
        "nodes.json",
    ]
    path = tmp_path / "in" / f"x.{form}"
    path.parent.mkdir()
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, nodes)
    else:
        with tarfile.open(path, f"w:{form[4:]}") as archive:  # type: ignore[call-overload]
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = len(nodes)
                archive.addfile(info, io.BytesIO(nodes))
    shown = run("snapshot", path, code=4)
    found = json.loads(shown.stdout)
    assert found["nodes"]
    assert len([u for u in found["unobserved"] if "leads out" in u["detail"]]) == 4
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [f"x.{form}"]
    assert not Path("/tmp/evil-absolute.json").exists()


def test_bombs_cost_little(tmp_path: Path) -> None:
    zeros = bytes(2**20)
    bombs = {
        "a.json.gz": gzip.compress(zeros * 24),
        "b.json.xz": lzma.compress(zeros * 24),
        "c.json.bz2": bz2.compress(zeros * 24),
    }
    for name, data in bombs.items():
        (tmp_path / name).write_bytes(data)
    nested = gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"{}"))))
    (tmp_path / "d.json.gz").write_bytes(nested)
    with zipfile.ZipFile(tmp_path / "e.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"{number}.json", zeros * 6)
    shutil.copy(RECORDED / "before" / "nodes.json", tmp_path)
    limit = 512 * 2**20
    started = time.monotonic()
    done = changegen(
        "snapshot", tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    assert time.monotonic() - started < 30
    assert done.returncode in {0, 4}, done.stderr
    assert json.loads(done.stdout)["nodes"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kind":"Node","apiVersion":"v1","metadata":{"name":NaN}}', "not valid JSON"),
        ('{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"},"spec":' + "[" * 100_000, "nest too deep"),
        ("[" * 100_000, "nest too deep"),
        ("kind: Node\napiVersion: v1\na: " + "[" * 5_000, "nesting depth"),
        ("\x00" * 64, "binary"),
        ("{" + "\x01\x02ab" * 64, "binary"),
        ('{"kind":"Node"', "cut off"),
    ],
)
def test_text_that_no_parser_takes(run: Run, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / ("x.yaml" if text.startswith("kind") else "x.json")
    path.write_text(text, encoding="utf-8")
    assert says in sentence(run("snapshot", path, code=2).stderr)


def test_numbers_and_keys_beyond_reason_are_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(
        '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","generation":1e999,"uid":'
        + "9" * 400
        + ',"name":"b"},"spec":{"unschedulable":null},"status":{"allocatable":{"cpu":'
        + "9" * 4000
        + "}}}",
        encoding="utf-8",
    )
    shown = run("snapshot", path, code=None)
    assert shown.exit_code in {0, 2, 4}
    assert "itself failed" not in shown.stderr


def test_snapshots_of_another_schema_and_edited_ones(
    run: Run, tmp_path: Path, snapshots: tuple[Path, Path]
) -> None:
    text = snapshots[0].read_text(encoding="utf-8")
    for schema, says in (
        ("changegen.snapshot/v2", "this changegen reads changegen.snapshot/v1"),
        ("changegen.snapshot/v0", "this changegen reads changegen.snapshot/v1"),
        ("changegen.ticket/v1", "ticket"),
        ("somebody/v1", "nothing else that is known"),
    ):
        path = tmp_path / "s.json"
        path.write_text(text.replace("changegen.snapshot/v1", schema), encoding="utf-8")
        assert says in sentence(run("diff", snapshots[0], path, code=2).stderr)
    value = json.loads(text)
    value["nodes"] = {"a": 1}
    path.write_text(json.dumps(value), encoding="utf-8")
    assert "does not fit the schema" in sentence(run("audit", path, "--to", "1.37.2", code=2).stderr)


def test_an_edited_ticket_is_refused(
    run: Run, tmp_path: Path, ticket: Path, snapshots: tuple[Path, Path]
) -> None:
    value = json.loads(ticket.read_text(encoding="utf-8"))
    path = tmp_path / "t.json"
    changes: list[Callable[[Any], Any]] = [
        lambda t: t["checks"][0].update(expected="anything"),
        lambda t: t["checks"].pop(),
        lambda t: t.update(decision="ready"),
        lambda t: t["steps"][0].update(title="rm -rf /"),
    ]
    for change in changes:
        edited = json.loads(json.dumps(value))
        change(edited)
        path.write_text(json.dumps(edited), encoding="utf-8")
        assert "edited" in sentence(run("verify", path, snapshots[1], code=2).stderr).lower()
    shapes: list[Callable[[Any], Any]] = [
        lambda t: t.update(checks="none"),
        lambda t: t.pop("checks"),
        lambda t: t.update(extra=1),
    ]
    for change in shapes:
        edited = json.loads(json.dumps(value))
        change(edited)
        path.write_text(json.dumps(edited), encoding="utf-8")
        sentence(run("verify", path, snapshots[1], code=2).stderr)


def test_captures_of_two_clusters_in_one(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        shutil.copytree(RECORDED / "before", folder)
    space = tmp_path / "two" / "namespaces.json"
    space.write_text(
        re.sub(r'"uid": ?"[0-9a-f]{4}', '"uid": "ffff', space.read_text(encoding="utf-8")), encoding="utf-8"
    )
    shown = run("snapshot", tmp_path, code=None)
    assert shown.exit_code in {2, 4}
    assert "cluster" in shown.stderr


# ------------------------------------------------------------------------------------------------------------ outputs


def test_an_output_that_cannot_be_written(run: Run, tmp_path: Path, snapshots: tuple[Path, Path]) -> None:
    for target, says in (
        (tmp_path, "directory"),
        (tmp_path / "no" / "such" / "x.json", "no such folder"),
        (Path("/proc/x.json"), "no file can be made here"),
        (Path("/dev/full"), "No space left"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        shown = run("snapshot", snapshots[0], "-o", target, code=None)
        assert shown.exit_code in {1, 2}, target
        assert says in sentence(shown.stderr), target
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_and_a_full_device_behind_standard_output(
    snapshots: tuple[Path, Path], tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    done = changegen("snapshot", snapshots[0], "-o", fifo)
    data, _ = reader.communicate(timeout=30)
    assert done.returncode == 0
    assert json.loads(data)["schema"] == "changegen.snapshot/v1"
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "changegen", "snapshot", str(snapshots[0])],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert "No space left" in sentence(done.stderr)
    # A reader that goes away is no failure worth a word.
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m changegen snapshot "{snapshots[0]}" | head -c 10'],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "itself failed" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(run: Run, tmp_path: Path, snapshots: tuple[Path, Path]) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    assert "Permission denied" in sentence(run("snapshot", snapshots[0], "-o", folder / "x", code=1).stderr)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, snapshots: tuple[Path, Path]) -> None:
    target = tmp_path / "ticket.json"
    target.write_text("old", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "changegen", "ticket", str(snapshots[0]), "--to", "1.37.2", "-o", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert "Traceback" not in told or process.returncode == 0
    assert target.read_text(encoding="utf-8").startswith(("old", "{"))
    assert [path.name for path in tmp_path.iterdir()] == ["ticket.json"]
    # A limit of the system in the middle of the write.
    target.write_text("old", encoding="utf-8")
    done = changegen(
        "snapshot",
        snapshots[0],
        "-o",
        target,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 1
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["ticket.json"]


# ----------------------------------------------------------------------------------------------------- names and texts

EVIL = (
    "\x1b[31m\u202e{{7*7}}{% raw %}<script>alert(1)</script>|`x`\n# h\n- [ ] y\r\t\x00\x07 =cmd|' /C calc'!A0"
    " [l](javascript:x) ${jndi} \u2066\u200b"
)
_NAMES = frozenset(
    {
        *("name", "namespace", "nodeName", "holderIdentity", "title"),
        *("message", "reason", "image", "osImage", "kernelVersion"),
        *("driver", "pool", "device", "key", "value", "expression"),
    }
)


def _poisoned(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _poisoned(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_poisoned(v, key) for v in value]
    return value + EVIL if isinstance(value, str) and key in _NAMES else value


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded cluster with a text in every name that tries everything."""
    folder = tmp_path_factory.mktemp("evil")
    for source in (RECORDED / "before").iterdir():
        text = source.read_text(encoding="utf-8")
        made = json.dumps(_poisoned(json.loads(text))) if source.suffix == ".json" else text + EVIL
        (folder / source.name).write_text(made, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "--to", "1.37.2"),
        ("audit", "--to", "1.37.2", "-f", "markdown"),
        ("audit", "--to", "1.37.2", "-f", "junit"),
        ("ticket", "--to", "1.37.2"),
        ("ticket", "--to", "1.37.2", "--lang", "zh-CN"),
        ("ticket", "--to", "1.37.2", "-f", "html"),
        ("ticket", "--to", "1.37.2", "-f", "gitlab"),
        ("ticket", "--to", "1.37.2", "-f", "servicenow-text"),
        ("ticket", "--to", "1.37.2", "-f", "jira-text"),
        ("taint",),
        ("probe",),
    ],
    ids=" ".join,
)
def test_names_of_a_cluster_do_nothing(run: Run, evil: Path, arguments: tuple[str, ...]) -> None:
    shown = run(*arguments, evil, code=None)
    assert "itself failed" not in shown.stderr
    for text in (shown.stdout, shown.stderr):
        assert UNSAFE.search(text.replace("\t", " ")) is None
    assert "49" not in re.findall(r"\b49\b", shown.stdout) or "{{7*7}}" in shown.stdout
    if arguments[-1] == "html":
        assert "<script>alert" not in shown.stdout
        assert 'href="javascript' not in shown.stdout
    elif arguments[0] == "ticket" or arguments[-1] == "markdown":
        from markdown_it import MarkdownIt

        if arguments[-1] in {"servicenow-text", "jira-text"}:
            return
        made = MarkdownIt("commonmark", {"html": True}).enable(["table"]).render(shown.stdout)
        assert "<script>" not in made
        assert 'href="javascript' not in made


def test_a_headline_quotes_the_component_and_no_name(run: Run, evil: Path) -> None:
    shown = run("ticket", "--to", "1.37.2", evil)
    assert "would exit with `unrecognized feature gate: SidecarContainers" in shown.stderr


ODD: tuple[Any, ...] = (None, [], {}, 7, "x" * 5000, [[]], {"a": {"b": None}}, True, "{{7*7}}")


def test_a_profile_of_any_shape_is_an_error_with_its_place(
    run: Run, tmp_path: Path, snapshots: tuple[Path, Path]
) -> None:
    whole: dict[str, Any] = {
        "schema": "changegen.profile/v1",
        "name": "p",
        "target": {"kubernetes": "1.37.2", "components": [{"name": "kubelet", "version": ">=1.36.3"}]},
        "feature_gates": {
            "stages": {"alpha": "forbidden"},
            "gates": [{"name": "A", "components": ["kubelet"], "value": True}],
        },
        "drivers": [{"name": "gpu.example.com", "version": ">=0.3.0"}],
        "accept": [
            {"code": "CG-DRIFT-003", "subject": "x", "reason": "r", "owner": "o", "until": "2027-01-31"}
        ],
        "change": {"window": {"start": "2027-01-09T22:00Z"}},
    }
    path = tmp_path / "p.yaml"

    def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        pairs = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return [spot for key, inner in pairs for spot in ((*at, key), *places(inner, (*at, key)))]

    for spot in places(whole):
        for odd in ODD:
            made = json.loads(json.dumps(whole))
            inner = made
            for key in spot[:-1]:
                inner = inner[key]
            inner[spot[-1]] = odd
            path.write_text(yaml.safe_dump(made), encoding="utf-8")
            shown = run("audit", snapshots[0], "--profile", path, "-f", "json", code=None)
            assert shown.exit_code in {0, 2, 3}, (spot, odd)
            if shown.exit_code == 2:
                assert str(path) in sentence(shown.stderr) or "profile" in shown.stderr


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ t.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ t.headline.format.__globals__ }}",
        "{{ '{0.__class__}'.format(t) }}",
        "{% include '/etc/passwd' %}",
        "{% include '../../../../../../etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ t.steps.append(1) }}",
        "{{ undefined_name }}",
        "{% for x in range(10**9) %}{% endfor %}",
    ],
)
def test_a_template_gets_nowhere(run: Run, tmp_path: Path, snapshots: tuple[Path, Path], text: str) -> None:
    (tmp_path / "ticket.md.j2").write_text(text, encoding="utf-8")
    shown = run("ticket", snapshots[0], "--to", "1.37.2", "--template", tmp_path, code=None)
    if shown.exit_code:
        assert shown.exit_code == 2
        sentence(shown.stderr)
    assert "root:" not in shown.stdout
    assert "subclasses" not in shown.stdout
    assert "<class" not in shown.stdout


def test_times_beyond_the_calendar(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(RECORDED / "before", folder)
    leases = folder / "leases.json"
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00", "never"):
        value = json.loads(leases.read_text(encoding="utf-8"))
        for item in value["items"]:
            item["spec"]["renewTime"] = moment
            item["spec"]["leaseDurationSeconds"] = 10**15
        leases.write_text(json.dumps(value), encoding="utf-8")
        shown = run("audit", folder, "--to", "1.37.2", code=3)
        assert "itself failed" not in shown.stderr
    for moment in ("9" * 40, "99999999999999", "0001-01-01T00:00:00+14:00", "-1"):
        for option in ("--now", "--captured-at"):
            arguments = ("ticket", folder, "--to", "1.37.2", option, moment)
            assert "is no time" in run(*arguments, code=2).stderr


def test_a_configz_and_metrics_of_no_sense(run: Run, tmp_path: Path) -> None:
    (tmp_path / "configz-n1.json").write_text('{"kubeletconfig": "text"}', encoding="utf-8")
    (tmp_path / "nodes.json").write_text(
        '{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n1"}}]}', encoding="utf-8"
    )
    (tmp_path / "kube-apiserver-metrics.txt").write_text(
        "# HELP a b\n# TYPE kubernetes_feature_enabled gauge\n"
        'kubernetes_feature_enabled{name="A",stage=""} 1"{"{\nkubernetes_feature_enabled{name="B",stage=""} 1\n'
        'kubernetes_feature_enabled{name="C",stage=""} NaN\n',
        encoding="utf-8",
    )
    shown = run("snapshot", tmp_path, code=4)
    found = json.loads(shown.stdout)
    assert [u["reason"] for u in found["unobserved"] if u["failed"]] == ["malformed"]
    (kubelet,) = [c for c in found["components"] if c["component"] == "kubelet"]
    assert kubelet["feature_gates"] == "unobservable"
    (process,) = found["processes"]
    assert process["effective_gates"]["B"] is True
    assert "A" not in process["effective_gates"]


def test_a_map_of_pseudonyms_that_is_none(run: Run, tmp_path: Path, snapshots: tuple[Path, Path]) -> None:
    path = tmp_path / "map.json"
    for text in (
        "{",
        "[]",
        "{}",
        '{"schema":"changegen.pseudonyms/v1"}',
        snapshots[0].read_text(encoding="utf-8"),
    ):
        path.write_text(text, encoding="utf-8")
        sentence(run("redact", snapshots[0], "--map", path, "-o", tmp_path / "r.json", code=2).stderr)
        assert path.read_text(encoding="utf-8") == text
    assert not (tmp_path / "r.json").exists()
