"""Two snapshots -> what changed between them, keyed by meaning and grouped when equal.

Things are matched by what they are, not by where they stand in a list or by a random name: a component by its name
and node, a device by driver, pool and name, a taint by key and effect, a Pod of a DaemonSet by its owner and node. Pods and
generated claims of one owner that were replaced under new names are one change, not a removal and an addition.

What only one side could read is told apart (``not_comparable``) and never as vanished or new. What changes by itself
between two readings of an untouched cluster is left out, and stands with its reason in ``VOLATILE``; nothing else is.

Equal things are dropped by ``==`` first. What differs is walked field by field; lists of plain values that differ
are given to deepdiff for what was added, removed or moved. Pure: the same two snapshots give the same bytes.
"""

from __future__ import annotations

from changegen.compare.areas import AREAS
from changegen.compare.comparer import compare
from changegen.compare.tables import VOLATILE, Volatile, is_volatile

__all__ = ["AREAS", "VOLATILE", "Volatile", "compare", "is_volatile"]
