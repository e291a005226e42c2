"""PDF by WeasyPrint, in a child process: memory is given back, and nothing outside can be fetched.

The child reads one request (JSON) from standard input and writes the PDF to standard output. WeasyPrint may fetch
``data:`` URLs only; everything else is an error.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from changegen.errors import ChangegenError

PdfProfile = Literal["ua", "archive", "plain"]
VARIANTS: dict[str, str | None] = {"ua": "pdf/ua-1", "archive": "pdf/a-3u", "plain": None}
"""``ua``: tagged, PDF/UA-1 · ``archive``: PDF/A-3u, tagged too · ``plain``: tagged only; each with the ticket attached.

docs/templates.md says which files a validator has confirmed; a changed template or another font makes it a claim again.
"""
TIME_LIMIT = 600
"""Seconds for the child; a ticket of 300 pages takes about 70."""
MEMORY_LIMIT = 4 * 1024**3
"""Bytes of address space for the child where the system can limit it."""
PACKAGES = "libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core"


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file inside the PDF."""

    name: str
    description: str
    content: bytes
    relationship: str = "Source"


def fonts_missing(lang: str) -> str:
    """Return the package to install when no font has glyphs for the language, else an empty string.

    Asks fontconfig; where it is not installed nothing can be said and nothing is.
    """
    if not lang.startswith("zh"):
        return ""
    try:
        found = subprocess.run(
            ["fc-list", ":lang=zh-cn", "family"], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if found.stdout.strip() else "fonts-noto-cjk"


def write(
    html: str,
    *,
    profile: PdfProfile = "ua",
    lang: str = "en",
    created: str = "",
    attachments: Sequence[Attachment] = (),
) -> bytes:
    """Return the PDF of ``html``.

    Args:
        html: a whole document, styles inside.
        profile: see ``VARIANTS``.
        lang: for the check of fonts.
        created: RFC 3339 time that is written into the file and its attachments; never the clock.
        attachments: files to put inside.

    Raises:
        ChangegenError: no font for the language, WeasyPrint's libraries missing, or the child failed.
    """
    missing = fonts_missing(lang)
    if missing:
        raise ChangegenError(
            f"no installed font has the glyphs of {lang}",
            hint=f"install a CJK font, on Debian: apt-get install {missing}",
        )
    request = {
        "html": html,
        "variant": VARIANTS[profile],
        "created": created,
        "attachments": [
            {
                "name": a.name,
                "description": a.description,
                "relationship": a.relationship,
                "content": base64.b64encode(a.content).decode(),
            }
            for a in attachments
        ],
    }
    # The font library writes the font's modification time unless it is told another one.
    env = {
        **os.environ,
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0"),
        "PYTHONWARNINGS": "ignore",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "changegen.render.pdf_child"],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=TIME_LIMIT,
            check=False,
            env=env,
        )
    except subprocess.TimeoutExpired as error:
        raise ChangegenError(
            f"the PDF was not written within {TIME_LIMIT} s",
            hint="write Markdown or HTML (-f markdown, -f html)",
        ) from error
    if done.returncode == 0 and done.stdout.startswith(b"%PDF"):
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    last = said[-1] if said else f"exit status {done.returncode}"
    if "cannot load library" in last or "OSError" in last:
        raise ChangegenError(
            f"the PDF library cannot load what it needs: {last}",
            hint=f"on Debian: apt-get install {PACKAGES}; Markdown and HTML work without (-f markdown, -f html)",
        )
    raise ChangegenError(
        f"the PDF could not be written: {last}", hint="write Markdown or HTML (-f markdown, -f html)"
    )
