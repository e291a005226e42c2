"""Measure the speed that users feel, as ratios within one run: absolute times of a shared machine mean little.

Each command runs as a process of its own; the median of several runs is taken, and the yardstick runs between them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "upgrade-1.37"
TOOL = [sys.executable, "-m", "changegen"]


def run(command: list[str]) -> float:
    """Return the seconds of one run; a failing command ends the bench."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    took = time.perf_counter() - start
    if done.returncode not in {0, 3, 4}:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")
    return took


def pair(command: list[str], yardstick: list[str], runs: int) -> tuple[float, float, float]:
    """Return medians of command and yardstick, run in turn, and the median of their ratios."""
    run(command)
    run(yardstick)
    rows = [(run(command), run(yardstick)) for _ in range(runs)]
    return (
        statistics.median(r[0] for r in rows),
        statistics.median(r[1] for r in rows),
        statistics.median(r[0] / r[1] for r in rows),
    )


def prepared(folder: Path, nodes: int) -> tuple[Path, Path, Path]:
    """Return the capture of a synthetic cluster of that size, its snapshot, and one of it a little later."""
    capture, before, after = folder / "big", folder / "big.json", folder / "later.json"
    make = [sys.executable, str(ROOT / "tools" / "make_cluster.py"), "--nodes", str(nodes)]
    for more, snapshot in (([], before), (["--later"], after)):
        subprocess.run([*make, *more, str(capture)], check=True)
        run([*TOOL, "snapshot", str(capture), "-o", str(snapshot)])
    return capture, before, after


def commands(folder: Path, nodes: int) -> list[tuple[str, list[str], str]]:
    """Return what is measured: name, command, what is wanted of its ratio."""
    before, after = str(EXAMPLE / "before"), str(EXAMPLE / "after")
    capture, big, later = map(str, prepared(folder, nodes))
    ticket = [*TOOL, "ticket", before, "--profile", "kubernetes-1.37-dra"]
    out = str(folder / "out")
    return [
        ("--help", [*TOOL, "--help"], "below 1.8"),
        ("ticket, Markdown", [*ticket, "-o", f"{out}.md"], ""),
        ("ticket, PDF", [*ticket, "-o", f"{out}.pdf"], ""),
        ("diff of the upgrade", [*TOOL, "diff", before, after], ""),
        (f"snapshot, {nodes} nodes", [*TOOL, "snapshot", capture, "-o", f"{out}.json"], ""),
        (f"diff, {nodes} nodes", [*TOOL, "diff", big, later], ""),
        (f"ticket, {nodes} nodes", [*TOOL, "ticket", big, "--to", "1.37.2", "-o", f"{out}.md"], ""),
    ]


def main() -> None:
    """Print a table: command, seconds, yardstick, ratio, and what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=5000, help="size of the synthetic cluster")
    args = parser.parse_args()
    click = [sys.executable, "-c", "import click"]
    with tempfile.TemporaryDirectory() as folder:
        rows = commands(Path(folder), args.nodes)
        print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, median of {args.runs} runs")
        print(f"{'command':28} {'seconds':>8} {'import click':>13} {'ratio':>7}  wanted")
        for name, command, wanted in rows:
            took, base, ratio = pair(command, click, args.runs)
            print(f"{name:28} {took:8.3f} {base:13.3f} {ratio:7.1f}  {wanted}")


if __name__ == "__main__":
    main()
