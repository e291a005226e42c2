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


def main() -> None:
    """Print a table: command, seconds, yardstick, ratio, and what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=5000, help="size of the synthetic cluster")
    args = parser.parse_args()
    python = sys.executable
    tool = [python, "-m", "changegen"]
    click = [python, "-c", "import click"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        before, after = EXAMPLE / "before", EXAMPLE / "after"
        big = out / "big"
        subprocess.run(
            [python, str(ROOT / "tools" / "make_cluster.py"), "--nodes", str(args.nodes), str(big)],
            check=True,
        )
        snapshot, later = out / "big.json", out / "later.json"
        run([*tool, "snapshot", str(big), "-o", str(snapshot)])
        subprocess.run(
            [
                python,
                str(ROOT / "tools" / "make_cluster.py"),
                "--nodes",
                str(args.nodes),
                "--later",
                str(big),
            ],
            check=True,
        )
        run([*tool, "snapshot", str(big), "-o", str(later)])
        rows = [
            ("--help", [*tool, "--help"], "below 1.8"),
            (
                "ticket, Markdown",
                [*tool, "ticket", str(before), "--profile", "kubernetes-1.37-dra", "-o", str(out / "t.md")],
                "",
            ),
            (
                "ticket, PDF",
                [*tool, "ticket", str(before), "--profile", "kubernetes-1.37-dra", "-o", str(out / "t.pdf")],
                "",
            ),
            ("diff of the upgrade", [*tool, "diff", str(before), str(after)], ""),
            (
                f"snapshot, {args.nodes} nodes",
                [*tool, "snapshot", str(big), "-o", str(out / "again.json")],
                "",
            ),
            (f"diff, {args.nodes} nodes", [*tool, "diff", str(snapshot), str(later)], ""),
            (
                f"ticket, {args.nodes} nodes",
                [*tool, "ticket", str(snapshot), "--to", "1.37.2", "-o", str(out / "b.md")],
                "",
            ),
        ]
        print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, median of {args.runs} runs")
        print(f"{'command':28} {'seconds':>8} {'import click':>13} {'ratio':>7}  wanted")
        for name, command, wanted in rows:
            took, base, ratio = pair(command, click, args.runs)
            print(f"{name:28} {took:8.3f} {base:13.3f} {ratio:7.1f}  {wanted}")


if __name__ == "__main__":
    main()
