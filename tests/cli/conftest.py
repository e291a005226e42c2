from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from changegen.cli import cli

RECORDED = Path(__file__).parents[1] / "data" / "recorded"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CHANGEGEN_") or name in {"SOURCE_DATE_EPOCH", "KUBECONFIG", "NO_COLOR"}:
            monkeypatch.delenv(name)


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the command line; a traceback is never an answer."""

    def call(*arguments: object, code: int | None = 0, **options: object) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], **options)  # type: ignore[arg-type]
        told = f"{result.stdout[-2000:]}\n--- stderr\n{result.stderr[-2000:]}"
        assert result.exception is None or isinstance(result.exception, SystemExit), told
        assert code is None or result.exit_code == code, f"exit {result.exit_code}\n{told}"
        assert "Traceback" not in result.stderr
        return result

    return call


@pytest.fixture(scope="session")
def before() -> Path:
    return RECORDED / "before"


@pytest.fixture(scope="session")
def after() -> Path:
    return RECORDED / "after"


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Snapshot files of before and after, made once."""
    folder = tmp_path_factory.mktemp("snapshots")
    made = []
    for name in ("before", "after"):
        path = folder / f"{name}.json"
        result = CliRunner().invoke(cli, ["snapshot", str(RECORDED / name), "-o", str(path)])
        assert result.exit_code == 0, result.stderr
        made.append(path)
    return made[0], made[1]


@pytest.fixture(scope="session")
def ticket(snapshots: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ticket of the recorded cluster as JSON, made once."""
    path = tmp_path_factory.mktemp("ticket") / "ticket.json"
    result = CliRunner().invoke(
        cli,
        ["ticket", str(snapshots[0]), "--profile", "kubernetes-1.37-dra", "--to", "1.37.2", "-o", str(path)],
    )
    assert result.exit_code == 0, result.stderr
    return path


def forbidden(folder: Path) -> Path:
    """A capture in which nodes were refused: a failed read."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Forbidden",
        "code": 403,
        "message": 'nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope',
    }
    (folder / "nodes.json").write_text(json.dumps(status), encoding="utf-8")
    pods = {"kind": "PodList", "apiVersion": "v1", "items": []}
    (folder / "pods.json").write_text(json.dumps(pods), encoding="utf-8")
    return folder
