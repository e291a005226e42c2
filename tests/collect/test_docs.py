"""The page on distributions says what the code knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changegen.collect import distributions
from changegen.collect.distributions import KNOWLEDGE
from changegen.collect.flags import KEPT
from changegen.collect.inventory import WANTED, WANTED_OPENSHIFT

PAGE = Path(__file__).parents[2] / "docs" / "distributions.md"


def cell(text: str) -> str:
    return (text or "–").replace("|", "\\|")


def knowledge() -> str:
    rows = [
        "| distribution | version of the control plane | its gates | kubelet gates | not seen | what the owner can do |",
        "|---|---|---|---|---|---|",
    ]
    for name, known in sorted(KNOWLEDGE.items(), key=lambda item: (item[0] == "unknown", item[0])):
        rows.append(
            f"| **{name}** ({known.title}) | "
            + " | ".join(
                cell(text)
                for text in (
                    known.control_plane,
                    known.gates,
                    known.kubelet_gates,
                    known.unseen,
                    known.remedy,
                )
            )
            + " |"
        )
    return "\n".join(rows)


def marks() -> str:
    rows = ["| distribution | mark on Nodes | strength |", "|---|---|---|"]
    for mark in sorted(distributions._NODE_MARKS, key=lambda found: (found.distribution, -found.strength)):
        if mark.label:
            text = f"label `{mark.label}{'*' if mark.label.endswith('/') else ''}`"
            text += f" = `{mark.value}`" if mark.value else ""
        elif mark.annotation:
            text = f"annotation `{mark.annotation}`"
        elif mark.kubelet:
            text = f"kubeletVersion like `{mark.kubelet}`"
        elif mark.os_image:
            text = f"osImage like `{mark.os_image}`"
        else:
            text = f"providerID like `{mark.provider}`"
        rows.append(f"| {mark.distribution} | {cell(text)} | {mark.strength} |")
    return "\n".join(rows)


def flags() -> str:
    return ", ".join(f"`{name}`" for name in sorted(KEPT))


def kinds() -> str:
    return ", ".join(f"`{name}`" for name in (*WANTED, *WANTED_OPENSHIFT))


PARTS = {"knowledge": knowledge, "marks": marks, "flags": flags, "kinds": kinds}


def block(name: str) -> str:
    return f"<!-- {name}: begin -->\n{PARTS[name]()}\n<!-- {name}: end -->"


def updated(page: str) -> str:
    """The page with its generated parts made anew."""
    for name in PARTS:
        pattern = re.compile(f"<!-- {name}: begin -->.*?<!-- {name}: end -->", re.DOTALL)
        assert pattern.search(page), name
        page = pattern.sub(lambda _, name=name: block(name), page)
    return page


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page


@pytest.mark.parametrize("name", [name for name in KNOWLEDGE if name != "unknown"])
def test_every_distribution_is_on_the_page(name: str) -> None:
    assert f"**{name}**" in PAGE.read_text(encoding="utf-8")
