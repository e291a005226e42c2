"""Runs changegen's own command line as a user does, against a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml


def changegen(
    *arguments: str | Path,
    kubeconfig: Path | None = None,
    expect: int | None = 0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run changegen with ``kubeconfig`` as the current one, and return what it printed.

    ``expect`` is the exit code that it must give; None takes any. The caller's CHANGEGEN_ settings do not reach it.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("CHANGEGEN_")}
    inherited["KUBECONFIG"] = str(kubeconfig) if kubeconfig is not None else "/nonexistent/kubeconfig"
    done = subprocess.run(
        [sys.executable, "-m", "changegen", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**inherited, "NO_COLOR": "1", **(env or {})},
        timeout=timeout,
        check=False,
    )
    words = " ".join(map(str, arguments))
    assert expect is None or done.returncode == expect, (
        f"changegen {words}: exit {done.returncode}, not {expect}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done


def with_exec_credential(kubeconfig: Path, command: str, *arguments: str) -> Path:
    """A copy of a kubeconfig whose user is an exec credential plugin."""
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": command,
            "args": list(arguments),
            "interactiveMode": "Never",
        }
    }
    path = kubeconfig.with_name(f"{kubeconfig.stem}-exec.kubeconfig")
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    path.chmod(0o600)
    return path
