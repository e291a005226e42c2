"""Words for codes and lists."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from changegen.words import spans


def expand(text: str) -> list[str]:
    """What a reader takes a list of spans for."""
    found = []
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        if not last:
            found.append(first)
            continue
        stem, low, high = *re.fullmatch(r"(.*?)(\d+)", first).groups(), re.fullmatch(r".*?(\d+)", last)[1]
        step = 1 if int(high) > int(low) else -1
        found += [f"{stem}{str(n).zfill(len(low))}" for n in range(int(low), int(high) + step, step)]
    return found


def test_runs_are_told_by_their_ends() -> None:
    assert spans(["a-08", "a-09", "a-10", "a-11"]) == "a-08 to a-11"
    assert spans(["n3", "n2", "n1", "n0", "x"]) == "n3 to n0, x"
    assert spans(["a-1", "a-2", "a-3"]) == "a-1, a-2, a-3"
    assert spans(["a-8", "a-9", "a-10", "a-11"]) == "a-8 to a-11"
    assert spans(["a-08", "a-9", "a-10", "b-11"]) == "a-08, a-9, a-10, b-11"
    assert spans([]) == ""


@given(st.lists(st.tuples(st.sampled_from(["cp-", "gpu-"]), st.integers(0, 30)), min_size=1, max_size=40))
def test_nothing_is_lost_or_added(pairs: list[tuple[str, int]]) -> None:
    names = [f"{stem}{number:03}" for stem, number in pairs]
    assert expand(spans(names)) == names
