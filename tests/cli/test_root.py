"""Start-up, help, errors and exit codes: what holds for every command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from changegen import __version__
from changegen.cli import COMMANDS, cli

from .conftest import forbidden

ALLOWED = {"changegen", "changegen.cli"}
HEAVY = {
    "kubernetes",
    "weasyprint",
    "deepdiff",
    "jinja2",
    "yaml",
    "msgspec",
    "urllib3",
    "requests",
    "logging.config",
}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_click_and_nothing_else_of_ours(argument):
    code = (
        "import sys\n"
        "from changegen.cli import cli\n"
        f"try:\n    cli(['{argument}'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr.replace("'", '"')))
    assert {m for m in loaded if m.split(".")[0] == "changegen"} == ALLOWED
    outside = {m.split(".")[0] for m in loaded} - set(sys.stdlib_module_names) - {"changegen", "click"}
    # what a virtual environment's .pth files import is not ours
    assert {m for m in outside if not m.startswith(("_", "sitecustomize"))} <= {"typing_extensions"}
    assert not HEAVY & {m.split(".")[0] for m in loaded}


def test_version(run):
    assert run("--version").stdout == f"changegen {__version__}\n"


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "changegen", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"changegen {__version__}\n"


def every_command() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        found.append((name,))
        if isinstance(command, click.Group):
            found.extend((name, sub) for sub in command.commands)
    return found


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_help_says_what_the_command_and_every_option_is_for(run, path):
    command: click.Command = cli
    context = click.Context(cli)
    for part in path:
        assert isinstance(command, click.Group)
        found = command.get_command(context, part)
        assert found is not None
        command = found
    assert command.help
    assert len(command.help) > 20
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "help":
            assert parameter.help, f"{path} {parameter.name}"
    shown = run(*path, "--help").stdout
    assert "Usage: " in shown
    assert "\\" not in shown  # a mark of click's that was printed instead of obeyed


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_tells_what_their_help_tells(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert " ".join((command.help or "").split()).startswith(COMMANDS[name][1].removesuffix("."))


def test_an_unknown_command_gets_the_close_name(run):
    assert "Did you mean 'snapshot'?" in run("snapshott", code=2).stderr


# ------------------------------------------------------------------------------------------------------------- bad input


def broken_profile(folder: Path) -> Path:
    path = folder / "p.yaml"
    path.write_text("schema: changegen.profile/v1\nname: x\ntarget: {kubernets: 1}\n", encoding="utf-8")
    return path


BAD = {
    "missing file": (lambda t: ["snapshot", t / "nowhere.json"], 2, "nowhere.json: there is no such file"),
    "folder of nothing": (lambda t: ["snapshot", t], 2, "nothing of use"),
    "no Kubernetes object": (lambda t: ["snapshot", written(t, "a.json", '{"a": 1}')], 2, "a.json"),
    "text": (lambda t: ["snapshot", written(t, "a.txt", "hello\n")], 2, "a.txt"),
    "cut snapshot": (
        lambda t: ["diff", written(t, "s.json", '{"schema":"changegen.snapshot/v1","api'), t],
        2,
        "cut off",
    ),
    "broken profile": (
        lambda t: ["audit", t, "--profile", broken_profile(t)],
        2,
        "p.yaml:3: target.kubernets: unknown field; did you mean kubernetes?",
    ),
    "unknown profile": (lambda t: ["ticket", t, "--profile", "kubernetes-1.73"], 2, "did you mean"),
    "no target": (lambda t: ["ticket", t], 2, "--profile NAME|FILE"),
    "bad target": (lambda t: ["ticket", t, "--to", "newest"], 2, "newest is no version"),
    "bad field": (lambda t: ["ticket", t, "--to", "1.37", "--set", "onwer=x"], 2, "did you mean owner"),
    "no ticket": (lambda t: ["verify", t / "t.json"], 2, "t.json: there is no such file"),
    "ticket that is none": (
        lambda t: ["verify", written(t, "t.json", "{}"), t],
        2,
        "it is no changegen ticket",
    ),
    "data folder": (lambda t: ["gate", "X", "--data", t], 2, "no Kubernetes data"),
    "unreachable": (
        lambda t: ["snapshot", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1")],
        1,
        "http://127.0.0.1:1: the server refuses the connection",
    ),
    "no kubeconfig": (lambda t: ["snapshot", "--kubeconfig", t / "none"], 1, "there is no kubeconfig"),
    "bad duration": (lambda t: ["snapshot", t, "--request-timeout", "soon"], 2, "no duration"),
    "bad time": (lambda t: ["ticket", t, "--to", "1.37", "--now", "today"], 2, "is no time"),
    "bad extension": (lambda t: ["diff", t, t, "-o", t / "x.pdf"], 2, "writes no pdf"),
    "template folder": (
        lambda t: ["ticket", t, "--to", "1.37", "--template", t / "none"],
        2,
        "no such folder",
    ),
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def kubeconfig(folder: Path, url: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return written(folder, "kubeconfig", json.dumps(config))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_an_exit_code(run, tmp_path, case):
    make, code, said = BAD[case]
    result = run(*make(tmp_path), code=code)
    assert said in result.stderr
    assert result.stdout == ""
    sentence = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(sentence) == 1


def test_nothing_is_half_written(run, before, tmp_path):
    target = written(tmp_path, "out.json", "old")
    run("snapshot", tmp_path / "nowhere", "-o", target, code=2)
    assert target.read_text(encoding="utf-8") == "old"
    result = run("snapshot", before, "-o", tmp_path / "no" / "such" / "folder.json", code=1)
    assert "there is no such folder" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json"]


def test_an_unexpected_error_is_one_sentence_and_its_cause_on_request(monkeypatch):
    from click.testing import CliRunner

    import changegen.profiles

    def fail() -> None:
        raise RuntimeError("\x1b[31mboom\x1b[0m\nsecond line")

    monkeypatch.setattr(changegen.profiles, "list_profiles", fail)
    plain = CliRunner().invoke(cli, ["profile", "list"])
    assert plain.exit_code == 1
    assert plain.stderr.count("\n") == 1
    assert "RuntimeError: \\x1b[31mboom" in plain.stderr
    assert "\x1b" not in plain.stderr
    for arguments in (["-v", "profile", "list"],):
        verbose = CliRunner().invoke(cli, arguments)
        assert verbose.exit_code == 1
        assert "Traceback" in verbose.stderr


# --------------------------------------------------------------------------------------------------- partial, quiet, env


def test_a_failed_read_is_exit_4_and_the_file_is_written(run, tmp_path):
    capture = tmp_path / "capture"
    capture.mkdir()
    forbidden(capture)
    result = run("snapshot", capture, "-o", tmp_path / "s.json", code=4)
    assert "nodes (forbidden)" in result.stderr
    stored = json.loads((tmp_path / "s.json").read_bytes())
    assert [u["reason"] for u in stored["unobserved"] if u["what"] == "nodes"] == ["forbidden"]
    run("snapshot", capture, "--allow-partial", code=0)
    run("snapshot", capture, code=0, env={"CHANGEGEN_ALLOW_PARTIAL": "1"})
    assert run("ticket", capture, "--to", "1.37.2", code=4).stdout.startswith("#")
    # a snapshot that is read again still lacks what it lacked
    run("diff", tmp_path / "s.json", tmp_path / "s.json", code=4)


def test_3_beats_4(run, before, tmp_path):
    for path in before.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Forbidden",
        "code": 403,
        "message": "no",
    }
    (tmp_path / "resourcequotas.json").write_text(json.dumps(status), encoding="utf-8")
    run("audit", tmp_path, "--profile", "kubernetes-1.37-dra", code=3)
    run("audit", tmp_path, "--profile", "kubernetes-1.37-dra", "--fail-on", "never", code=4)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ticket", "INPUT", "--to", "1.37.2"),
        ("audit", "INPUT", "--to", "1.37.2"),
        ("diff", "INPUT", "INPUT"),
        ("verify", "INPUT", "INPUT"),
        ("snapshot", "INPUT"),
        ("redact", "INPUT"),
        ("probe", "INPUT"),
        ("taint", "INPUT"),
        ("rbac",),
        ("gate", "DynamicResourceAllocation"),
        ("profile", "init"),
        ("profile", "schema"),
        ("profile", "list"),
    ],
)
def test_where_nothing_can_be_written_is_noticed_before_anything_is_read(run, tmp_path, arguments):
    """The input is missing too, and would be told first if it were read first."""
    given = [str(tmp_path / "missing") if part == "INPUT" else part for part in arguments]
    told = run(*given, "-o", tmp_path / "none" / "out.json", code=1).stderr
    assert f"{tmp_path / 'none'}: there is no such folder" in told


def test_hints_go_to_stderr_and_quiet_holds(run, before, tmp_path):
    loud = run("snapshot", before, "-o", tmp_path / "s.json")
    assert loud.stdout == ""
    assert "Next: changegen ticket" in loud.stderr
    for arguments in (("-q", "snapshot"), ("snapshot", "-q")):
        assert "Next:" not in run(*arguments, before, "-o", tmp_path / "s.json").stderr


def test_stdin_is_an_input(run, before, snapshots):
    pods = (before / "pods.json").read_text(encoding="utf-8")
    assert json.loads(run("snapshot", "-", input=pods).stdout)["source"]["description"] == "stdin"
    stored = snapshots[0].read_text(encoding="utf-8")
    assert run("snapshot", "-", input=stored).stdout == stored


def test_the_same_input_gives_the_same_bytes(run, before, snapshots):
    assert run("snapshot", before).stdout_bytes == snapshots[0].read_bytes()
    assert run("snapshot", snapshots[0]).stdout_bytes == snapshots[0].read_bytes()


def test_a_snapshot_stands_alone(run, snapshots, before):
    result = run("snapshot", snapshots[0], before, code=2)
    assert "a snapshot stands for a whole cluster" in result.stderr


def test_gzip_by_name(run, before, snapshots, tmp_path):
    import gzip

    told = run("snapshot", before, "-o", tmp_path / "s.json.gz").stderr
    assert f"({(tmp_path / 's.json.gz').stat().st_size:,} bytes)" in told
    assert gzip.decompress((tmp_path / "s.json.gz").read_bytes()) == snapshots[0].read_bytes()
    assert run("snapshot", tmp_path / "s.json.gz").stdout_bytes == snapshots[0].read_bytes()


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        ("snapshot", "changegen.snapshot/v1"),
        ("ticket", "changegen.ticket/v1"),
        ("verify", "changegen.results/v1"),
    ],
)
def test_schemas(run, command, schema):
    shown = json.loads(run(command, "--schema").stdout)
    assert schema in json.dumps(shown)
    assert "$defs" in shown


def test_text_of_a_cluster_cannot_drive_the_terminal(run, tmp_path):
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "evil\x1b[2Jnode", "labels": {"a": "\u202egnp.exe"}},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.3\x1b]0;title\x07"}},
    }
    listed = {"kind": "NodeList", "apiVersion": "v1", "items": [node]}
    empty = {"kind": "NodeList", "apiVersion": "v1", "items": []}
    written(tmp_path, "a.json", json.dumps(empty))
    written(tmp_path, "b.json", json.dumps(listed))
    for arguments in (
        ("diff", tmp_path / "a.json", tmp_path / "b.json"),
        ("diff", tmp_path / "b.json", tmp_path / "a.json", "-f", "markdown"),
        ("audit", tmp_path / "b.json", "--to", "1.37.2"),
        ("ticket", tmp_path / "b.json", "--to", "1.37.2"),
    ):
        result = run(*arguments, code=None)
        for text in (result.stdout, result.stderr):
            assert not set(text) & {"\x1b", "\x07", "\u202e"}
