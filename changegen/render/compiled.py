"""Compiled templates, kept between runs: compiling them takes longer than filling them.

They lie in the user's own cache folder (``$XDG_CACHE_HOME/changegen``, else ``~/.cache/changegen``), which nobody else may
write. Jinja checks each against the template's text and its own version; where the folder cannot be had, or is not the
user's alone, templates are compiled anew and nothing is said. Only shipped templates are kept.
"""

from __future__ import annotations

import os
import pickle
import stat
from importlib.metadata import version
from pathlib import Path
from typing import Final

import jinja2
from jinja2.bccache import Bucket

__all__ = ["KeptTemplates", "kept"]

_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
# What a file that was cut or overwritten makes of pickle and marshal.
_UNREADABLE: Final = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    pickle.UnpicklingError,
)


class KeptTemplates(jinja2.FileSystemBytecodeCache):
    """Jinja's cache in files, apart for each kind of document: constants are escaped when a template is compiled."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(str(folder), "%s.jinja")
        self._kind = f"{kind}|{version('jinja2')}"

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return the name of the file for one template of this kind."""
        return super().get_cache_key(f"{self._kind}|{name}", filename)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read what was kept; what cannot be read is as if nothing was."""
        try:
            super().load_bytecode(bucket)
        except _UNREADABLE:
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template; a full or read-only disk is no failure."""
        try:
            super().dump_bytecode(bucket)
        except OSError:
            return


def kept(kind: str) -> KeptTemplates | None:
    """Return the cache for one kind of document; None where no folder is the user's alone."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "changegen"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except (OSError, RuntimeError):
        return None
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not stat.S_ISDIR(found.st_mode) or not mine or found.st_mode & _OTHERS:
        return None
    return KeptTemplates(folder, kind)
