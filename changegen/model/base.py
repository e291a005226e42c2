"""The base of every model: frozen, keyword-only, strict."""

from __future__ import annotations

from typing import Literal

import msgspec

Scalar = str | int | float | bool | None
UNOBSERVABLE: Literal["unobservable"] = "unobservable"
"""Said where no source that was read tells; never the same as ``{}`` or ``None``."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen record; unknown fields are an error when it is read from a file.

    Subclasses say ``frozen`` and ``kw_only`` again: msgspec does not hand the latter down, type checkers not the former.
    """
