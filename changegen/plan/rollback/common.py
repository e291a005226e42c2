"""What several ways back need: keys of steps, nodes by their operating system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from changegen.i18n import tr
from changegen.plan.draft import StepDraft
from changegen.plan.scene import Scene

__all__ = ["by_family", "keys", "named", "unknown_version", "writes"]


def keys(steps: Iterable[StepDraft], phase: str) -> list[str]:
    """Keys of the steps of a phase."""
    return [step.key for step in steps if step.phase == phase]


def named(steps: Iterable[StepDraft], *beginnings: str) -> list[str]:
    """Keys, a step's own or of what it does beside, that begin so."""
    return [key for step in steps for key in (step.key, *step.also) if key.startswith(beginnings)]


def writes(steps: Iterable[StepDraft], key: str) -> bool:
    """Whether the step of this key changes anything."""
    return any(
        key in (step.key, *step.also) and any(c.runs == "write" for c in step.commands) for step in steps
    )


def by_family(scene: Scene, nodes: Sequence[str]) -> dict[str, list[str]]:
    """Nodes by the family of their operating system, in their order."""
    found: dict[str, list[str]] = {}
    for name in nodes:
        found.setdefault(scene.family(name), []).append(name)
    return found


def unknown_version() -> str:
    """Why a way back has no commands, or fewer: no source told the version of before."""
    return tr(
        "The version to go back to is not known: look it up before the change. Commands that name it are left out."
    )
