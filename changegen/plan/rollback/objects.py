"""Ways back of objects: rules, Pods with devices, what was deleted, what owners settled."""

from __future__ import annotations

from collections.abc import Sequence

from changegen.facts import command as fact_command
from changegen.i18n import tr
from changegen.model.snapshot import PodUse
from changegen.model.ticket import Command
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.common import keys, named
from changegen.plan.saved import pod_file
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import (
    KUBECTL,
)
from changegen.plan.steps.drift import DRIFT
from changegen.plan.steps.owners import restore_command
from changegen.plan.verdicts import (
    extended_verdict,
    rules_api,
    rules_verdict,
)
from changegen.shell import quoted
from changegen.versions import minor_key, minor_of

__all__ = ["extended", "new_stored", "owners", "rules", "stored"]


def rules(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """DeviceTaintRules in the older minor."""
    judged = rules_verdict(scene, hop)
    if judged is None:
        return []
    rules = scene.snapshot.taint_rules
    older = minor_of(hop.today) or ""
    by_default = minor_key(older or "1.0") >= (1, 37)
    gate, api = ("", "resource.k8s.io/v1") if by_default else rules_api(older or "1.36")
    names = ", ".join(rule.name for rule in rules)
    return [
        BackDraft(
            key="back:rules",
            what=tr("DeviceTaintRules"),
            to="; ".join(f"{rule.name}: {rule.key}={rule.value}:{rule.effect}" for rule in rules),
            commands=[
                Command(
                    text=f"kubectl get --raw /apis/{api}/devicetaintrules",
                    where=KUBECTL,
                )
            ],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost + _served_before(judged.lost, steps),
            minutes=2,
            go_on=tr("It lists {names}, with the effects of before.", names=names),
            stop=tr("One is missing: create it from the saved file.")
            if by_default
            else tr(
                "NotFound: {older} does not serve them. They are kept, and taint nothing until kube-apiserver has --runtime-config={api}=true and the gate {gate} is on.",
                older=older or tr("the version of before"),
                api=api,
                gate=gate,
            ),
            needs=keys(steps, "control-plane"),
        )
    ]


def _served_before(lost: str, steps: Sequence[StepDraft]) -> str:
    """That a step turns the API on in the saved manifests too, where one does."""
    if (
        not lost
        or not named(steps, DRIFT)
        or not any("runtime-config" in c.text for s in steps for c in s.commands)
    ):
        return ""
    return " " + tr(
        "{step} turns the API on in the saved manifests too, so that it is there after a way back.",
        step="{{drift}}",
    )


def extended(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Pods with devices by an extended resource in the older minor."""
    judged = extended_verdict(scene, hop)
    if judged is None:
        return []
    mapped = sum(1 for pod in scene.snapshot.pods if pod.extended_mappings)
    return [
        BackDraft(
            key="back:extended",
            what=tr("Pods that get devices by an extended resource"),
            to=tr("{n} such Pods", n=mapped),
            commands=[Command(text=fact_command("pods.mapped", {}), where=KUBECTL)],
            verdict=judged.verdict,
            until=judged.until,
            why=judged.why,
            lost=judged.lost,
            minutes=2,
            go_on=tr(
                "As many Pods as before the change name their resource in the last column: {n}.", n=mapped
            ),
            stop=tr(
                "A Pod that should have a device waits: read its events, and whether the gate DRAExtendedResource is on."
            ),
            needs=keys(steps, "control-plane"),
        )
    ]


def _created(file: str) -> Command:
    """What a saved file holds, made again."""
    return Command(
        text=f"kubectl create -f {quoted(file)}", where=tr("the machine with the saved files"), runs="write"
    )


def stored(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Objects that a step deleted because the target cannot decode them."""
    gone = [item for item in scene.snapshot.stored_objects if item.names]
    needs = named(steps, "stored:")
    if not gone or not needs:
        return []
    return [
        BackDraft(
            key="back:stored",
            what=tr("Objects that were deleted because the target cannot decode them"),
            to="; ".join(f"{item.group_version} {item.resource}: {len(item.names)}" for item in gone),
            commands=[_created(f"{item.resource}-before.yaml") for item in gone],
            verdict="reversible",
            why=tr("From the saved files, on the older version only."),
            minutes=5,
            go_on=tr('Each line answers "created".'),
            stop=tr("A line answers anything else: the API server does not serve that version."),
            needs=needs,
        )
    ]


def new_stored(scene: Scene, hop: HopPlan, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """What the target stores and the older minor cannot decode: scheduling.k8s.io of 1.37 for 1.36."""
    older, newer = minor_of(hop.today), hop.minor
    if not older or not scene.data.knows(older) or not scene.data.knows(newer):
        return []
    gone = [item for item in scene.snapshot.stored_objects if item.names]
    today = {(a.group, a.resource): a.storage for a in scene.data.apis(older) if a.resource and a.storage}
    decodes = {(a.group, a.version, a.resource) for a in scene.data.apis(older)}
    at_risk = sorted(
        {
            f"{a.group}/{a.storage} {a.resource}"
            for a in scene.data.apis(newer)
            if a.resource
            and a.storage
            and a.served
            and (a.group, a.storage, a.resource) not in decodes
            and (a.group, a.resource) in today
        }
    )
    if not at_risk or not gone:
        return []
    return [
        BackDraft(
            key="back:new-stored",
            what=tr("Objects that only the target stores"),
            to=tr("none"),
            verdict="reversible-until",
            until=tr("the first such object is written"),
            why=tr(
                "{older} cannot decode {what}: they must be deleted before going back.",
                older=older,
                what=", ".join(at_risk),
            ),
            minutes=5,
            needs=keys(steps, "control-plane"),
        )
    ]


def _lost_pods(scene: Scene) -> list[PodUse]:
    """Pods without a controller on nodes that the plan drains."""
    return [pod for pod in scene.bare_pods if pod.node in scene.pending_nodes]


def owners(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Budgets that were relaxed, and Pods without a controller."""
    backs: list[BackDraft] = []
    people = named(steps, "people")
    blocked = [b for b in scene.snapshot.disruption_budgets if b.disruptions_allowed == 0]
    if blocked:
        backs.append(
            BackDraft(
                key="back:budgets",
                what=tr("PodDisruptionBudgets that were relaxed"),
                to="; ".join(
                    f"{b.namespace}/{b.name}: "
                    + (
                        f"minAvailable {b.min_available}"
                        if b.min_available
                        else f"maxUnavailable {b.max_unavailable}"
                    )
                    for b in blocked
                ),
                commands=[restore_command(budget) for budget in blocked],
                verdict="reversible",
                why=tr("Their owner puts them back after the last drain."),
                minutes=2,
                go_on=tr("Each has its limit of before."),
                stop=tr("A drain is still to come: put them back after it."),
                needs=people,
            )
        )
    bare = _lost_pods(scene)
    if bare:
        saved = bool(people)
        backs.append(
            BackDraft(
                key="back:bare",
                what=tr("Pods without a controller"),
                to=", ".join(f"{p.namespace}/{p.name}" for p in bare),
                commands=[_created(pod_file(pod)) for pod in bare] if saved else [],
                verdict="one-way",
                why=tr(
                    "A deleted Pod does not come back; a new one of the same name can be made from its owner's manifest."
                )
                + (
                    " "
                    + tr(
                        "After the last drain of {step}; where that was not necessary, the Pods of {again} stay.",
                        step="{{back:kubelet}}",
                        again="{{bare}}",
                    )
                    if saved and any("bare" in (step.key, *step.also) for step in steps)
                    else ""
                ),
                lost=tr("Their state, their UID and, with a claim, possibly the device they had."),
                minutes=5,
                go_on=tr("Each runs, and its claims are allocated."),
                stop=tr("One stays Pending: read its events, and ask its owner."),
                needs=[
                    *(
                        step.key
                        for step in steps
                        if step.phase in ("nodes", "control-plane")
                        and {pod.node for pod in bare} & set(step.nodes)
                        and (step.phase == "nodes" or scene.distribution.nodes == "by-control-plane")
                    ),
                    *named(steps, "bare"),
                ],
            )
        )
    return backs
