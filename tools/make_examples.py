"""Remake examples/: the tickets and reports that the inputs there make, and the picture in the README.

The Markdown is held against a fresh run by a test; PDFs differ with the fonts of a machine and are compared by text.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PROFILE = ["--profile", "kubernetes-1.37-dra"]

# output (in examples/) -> arguments of changegen; {big} is a synthetic cluster of 200 nodes, made on the fly.
TICKETS: dict[str, list[str]] = {
    "upgrade-1.37/ticket": ["ticket", "examples/upgrade-1.37/before", *PROFILE],
    "upgrade-1.37/ticket.zh-CN": ["ticket", "examples/upgrade-1.37/before", *PROFILE, "--lang", "zh-CN"],
    "eks/ticket": ["ticket", "examples/eks/input", "--to", "1.37"],
    "openshift/ticket": ["ticket", "examples/openshift/input", "--to", "1.36"],
    "talos/ticket": ["ticket", "examples/talos/input", "--to", "1.37.1"],
    "large/ticket": ["ticket", "{big}", "--to", "1.37.2"],
}
REPORTS: dict[str, list[str]] = {
    "upgrade-1.37/report": ["verify", "{ticket}", "examples/upgrade-1.37/after"],
    "upgrade-1.37/diff": ["diff", "examples/upgrade-1.37/before", "examples/upgrade-1.37/after"],
}
PICTURE = ROOT / "docs" / "first-page.png"


def run(arguments: list[str]) -> None:
    """Run changegen in the project's folder; 3 and 4 are answers, not failures."""
    done = subprocess.run(
        [sys.executable, "-m", "changegen", "-q", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 3, 4}:
        sys.exit(f"changegen {' '.join(arguments)}: {done.stderr}")


def make(folder: Path, formats: tuple[str, ...]) -> None:
    """Write every ticket in these formats (``md``, ``pdf``, …) and the reports below ``folder``."""
    with tempfile.TemporaryDirectory() as work:
        big, ticket = f"{work}/large", f"{work}/ticket.json"
        subprocess.run(
            [sys.executable, str(ROOT / "tools" / "make_cluster.py"), "--nodes", "200", big], check=True
        )
        run(["ticket", "examples/upgrade-1.37/before", *PROFILE, "-o", ticket])
        for name, arguments in TICKETS.items():
            filled = [a.replace("{big}", big) for a in arguments]
            for suffix in formats:
                out = folder / f"{name}.{suffix}"
                out.parent.mkdir(parents=True, exist_ok=True)
                run([*filled, "-o", str(out)])
        for name, arguments in REPORTS.items():
            filled = [a.replace("{ticket}", ticket) for a in arguments]
            run([*filled, "-f", "markdown", "-o", str(folder / f"{name}.md")])


def picture() -> None:
    """Write the first page of the recorded ticket as the README's picture."""
    import pypdfium2

    page = pypdfium2.PdfDocument(EXAMPLES / "upgrade-1.37" / "ticket.pdf")[0]
    page.render(scale=1.3).to_pil().convert("P", palette=1, colors=64).save(PICTURE, optimize=True)


def main() -> None:
    """Remake everything, or only the Markdown into another folder (for the test)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown-into", type=Path, help="write only the Markdown, below this folder")
    args = parser.parse_args()
    if args.markdown_into:
        make(args.markdown_into, ("md",))
        return
    make(EXAMPLES, ("md", "pdf"))
    run(["ticket", "examples/upgrade-1.37/before", *PROFILE, "-o", "examples/upgrade-1.37/ticket.html"])
    picture()


if __name__ == "__main__":
    main()
