"""One server process of a test cluster: started, watched and ended by its own id."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")

_random = SystemRandom()
_handed_out: set[int] = set()


class ComponentError(RuntimeError):
    """A component exited, or did not become ready; ``log`` has the end of what it printed."""

    def __init__(self, name: str, problem: str, exit_code: int | None, log: str) -> None:
        super().__init__(f"{name}: {problem}\n{log}")
        self.name = name
        self.exit_code = exit_code
        self.log = log


class WaitTimeoutError(AssertionError):
    """Something that a test waited for did not come."""


def wait_for(what: str, probe: Callable[[], T | None], timeout: float = 60, interval: float = 0.3) -> T:
    """Call ``probe`` until it gives something true, and return that; raises WaitTimeoutError after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while True:
        if found := probe():
            return found
        if time.monotonic() > end:
            raise WaitTimeoutError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(interval)


def _range() -> tuple[int, int]:
    """Ports of this process: those that run tests side by side must not take each other's before they listen."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    share = int(worker.removeprefix("gw")) % 4 + 1 if worker.startswith("gw") else 0
    return 20000 + 2400 * share, 22400 + 2400 * share


def free_port() -> int:
    """A loopback port that nobody listens on, below the range that the system itself hands out."""
    low, high = _range()
    for _ in range(200):
        port = _random.randrange(low, high)
        if port in _handed_out:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            _handed_out.add(port)
            return port
    raise RuntimeError("no free port found")


class Process:
    """A running program, its log file beside it."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, *, grace: float = 5) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log_path = log
        self.grace = grace
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            # A session of its own, so that Ctrl-C reaches only the test run, which then stops all in order.
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "CONTROLPLANE_END_WITH_PARENT": "1"},
                start_new_session=True,
            )
        self._offset = log.stat().st_size

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._popen.poll()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that it printed."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def failed(self, problem: str) -> ComponentError:
        """The error that says ``problem`` with the end of the log."""
        return ComponentError(self.name, problem, self.exit_code, self.log_tail())

    def wait_until(self, probe: Callable[[], bool], timeout: float = 90) -> None:
        """Wait until ``probe`` is true; raises ComponentError when the process exits first, or after ``timeout``."""
        end = time.monotonic() + timeout
        while True:
            code = self.exit_code
            if code is not None:
                raise self.failed(f"exited with status {code}")
            if probe():
                return
            if time.monotonic() > end:
                raise self.failed(f"not ready after {timeout:g} s")
            time.sleep(0.2)

    def terminate(self) -> None:
        """Ask it to end."""
        if self._popen.poll() is None:
            self._popen.terminate()

    def stop(self, grace: float | None = None) -> None:
        """End it: terminate, and kill after ``grace`` seconds."""
        self.terminate()
        try:
            self._popen.wait(self.grace if grace is None else grace)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(10)
