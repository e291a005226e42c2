"""How work grows with its size, without a clock on the wall: what guards against a square of the number of objects."""

from __future__ import annotations

import time
from collections.abc import Callable

ROOM = 3
"""How much more than in proportion is still called linear; a square of eight times the objects is eight times more."""


def grows_linearly(prepare: Callable[[int], Callable[[], object]], small: int, large: int) -> bool:
    """Whether the work on ``large`` things is at most ``ROOM`` times its share of that on ``small`` ones.

    Compared is CPU time within one run, the least of three in turn, which another load of the machine does not change.

    Args:
        prepare: Makes the work for a number of things; what it does itself does not count.
        small: A number of things that takes some tens of milliseconds.
        large: Many times as many.
    """
    works = (prepare(small), prepare(large))
    works[0]()
    best = [float("inf"), float("inf")]
    for _ in range(3):
        for at, work in enumerate(works):
            start = time.process_time()
            work()
            best[at] = min(best[at], time.process_time() - start)
    return best[1] <= best[0] * (large / small) * ROOM
