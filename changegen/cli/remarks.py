"""Remarks on an input: what was read with a doubt, told on stderr and kept in the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from changegen.cli.terminal import note

if TYPE_CHECKING:
    from changegen.model.snapshot import Notice

__all__ = ["tell"]

LIMIT = 10
"""How many remarks are told; all are in the snapshot."""

_FIRST = (
    "mixed-readings",
    "duplicate-key",
    "wrong-type",
    "encoding",
    "control-characters",
    "empty",
    "slow",
    "masked",
)
_SILENT = frozenset({"left-out"})
"""What is left out on purpose is no news."""


def tell(notices: Sequence[Notice]) -> None:
    """Say on stderr what the reader must know of the input: the weightiest first, at most ``LIMIT``."""

    def weight(notice: Notice) -> tuple[int, str]:
        known = notice.reason in _FIRST
        return _FIRST.index(notice.reason) if known else len(_FIRST), notice.place

    told = sorted((n for n in notices if n.reason not in _SILENT), key=weight)
    shown = told if len(told) <= LIMIT else told[: LIMIT - 1]
    for notice in shown:
        note(f"Note: {notice.place}: {notice.detail}")
    if len(shown) < len(told):
        note(f"Note: {len(told) - len(shown)} more remarks on the input; the snapshot has all of them")
