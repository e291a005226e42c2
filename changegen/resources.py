"""The folders that are shipped beside the code: templates and profiles.

A wheel carries them in ``changegen/_data``; in a checkout (and an editable install) they lie at the top level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

__all__ = ["Kind", "folder"]

Kind = Literal["templates", "profiles"]

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: Kind) -> Path:
    """Return the shipped folder of that kind; raises ``FileNotFoundError`` when the installation lacks it."""
    for candidate in (_PACKAGE / "_data" / kind, _PACKAGE.parent / kind):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"this installation of changegen has no {kind} folder: install it again")
