"""The steps: before, control plane, nodes, drivers, after, made from this cluster and its distribution's commands.

Rules behind the order: API servers one by one and one minor at a time; controller-manager and scheduler never newer
than an API server they may reach (kubeadm's talk to their own node's); kubelets only after all API servers, drained as
seldom as the skew policy allows; DRA drivers after the cluster on the way up and before it on the way down, and the
last to leave a drained node. Every step names what must be true to go on and what means stop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from changegen.i18n import tr
from changegen.model.ticket import Finding
from changegen.plan.draft import StepDraft
from changegen.plan.scene import Scene
from changegen.plan.steps.after import after, drivers
from changegen.plan.steps.before import before
from changegen.plan.steps.common import explain_variables
from changegen.plan.steps.control import control_plane
from changegen.plan.steps.nodes import nodes

__all__ = ["make_steps"]


def make_steps(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """All steps of the change, in order; keys of checks and ways back are those that their modules make."""
    steps: list[StepDraft] = []
    hops = scene.hops
    first = hops[0] if hops else None
    steps += before(scene, findings, first)
    for hop in hops:
        steps += control_plane(scene, hop)
        if hop.drain:
            steps += nodes(scene, hop, findings)
    steps += drivers(scene, findings)
    steps += after(scene, findings, hops[-1] if hops else None)
    _resolve_blockers(steps, findings)
    _link(steps, findings)
    _speak(steps, findings)
    explain_variables(scene, steps)
    return steps


_AREAS = {
    "READ": ("keep",),
    "RUN": ("keep",),
    "DRIFT": ("drift",),
    "ETCD": ("etcd-snapshot", "etcd-health"),
    "LEFT": ("addons",),
    "PART": ("parts",),
    "NODE": ("parts",),
}
"""Area of findings -> the first step of these that there is: where someone looks at it again."""


def _link(steps: list[StepDraft], findings: Sequence[Finding]) -> None:
    """Name in a step the findings that it answers, where no step does yet and the step speaks of them."""
    named = {finding for step in steps for finding in step.findings}
    by_key = {key: step for step in steps for key in (step.key, *step.also)}
    for item in findings:
        if item.id in named:
            continue
        area = item.code.split("-")[1]
        found = next((by_key[key] for key in _AREAS.get(area, ()) if key in by_key), None)
        if found is not None:
            found.findings.append(item.id)


def _speak(steps: Sequence[StepDraft], findings: Sequence[Finding]) -> None:
    """Have each step name what its findings are about: who is sent to a step must find the thing in it."""
    by_id = {item.id: item for item in findings}
    for step in steps:
        for name in step.findings:
            item = by_id[name]
            if speaks_of(step, item):
                continue
            about = item.subject.name
            said = item.message if about in item.message else f"{about}: {item.message}"
            step.notes = [note for note in step.notes if note != item.message] + [said]


_KEY = re.compile(r"\{\{[^{}]*\}\}")
"""A step that is named by its key, in which names of nodes stand."""


def speaks_of(step: StepDraft, item: Finding) -> bool:
    """Whether the step's words or commands name what a finding is about."""
    text = _KEY.sub(
        "",
        "\n".join(
            (step.title, step.why, step.go_on, step.stop, *step.notes, *(c.text for c in step.commands))
        ),
    )
    subject = item.subject
    if subject.name:
        return subject.name in text
    return subject.component in text or any(name and name in text for name in subject.instances)


_LAST = ("etcd-snapshot", "etcd-external")


def _resolve_blockers(steps: list[StepDraft], findings: Sequence[Finding]) -> None:
    """A step for each blocking finding that no other step mends, so that no blocker is without a remedy."""
    mended = {finding for step in steps for finding in step.findings if step.phase == "before"}
    # The snapshot of etcd stays the last one before the window.
    position = next(
        (at for at, step in enumerate(steps) if step.phase != "before" or step.key in _LAST), len(steps)
    )
    extra = []
    for item in findings:
        if (
            item.severity != "blocking"
            or item.id in mended
            or (item.accepted is not None and not item.accepted.expired)
        ):
            continue
        extra.append(
            StepDraft(
                key=f"resolve:{item.id}",
                phase="before",
                title=tr("Resolve: {title}", title=item.title),
                why=item.message,
                minutes=15,
                go_on=tr("A new reading no longer shows {code} for it.", code=item.code),
                stop=tr("It still shows."),
                findings=[item.id],
                checks=[],
                notes=[item.advice] if item.advice else [],
            )
        )
    steps[position:position] = extra
