"""Ways back of devices: drivers, migrations to DRA, taints."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from changegen.assess.context import names as listed_names
from changegen.i18n import tr
from changegen.model.ticket import Command
from changegen.plan.draft import BackDraft, StepDraft
from changegen.plan.rollback.common import named
from changegen.plan.scene import Scene
from changegen.plan.steps.after import planned_migrations, planned_taints
from changegen.plan.steps.common import (
    KUBECTL,
    driver_target,
)
from changegen.plan.verdicts import (
    driver_verdict,
)
from changegen.shell import quoted

__all__ = ["drivers", "migrations", "taints"]


def migrations(scene: Scene) -> list[BackDraft]:
    """Resources that went from a device plugin to DRA, node by node."""
    backs = []
    for moved in planned_migrations(scene):
        nodes = [node for part in moved.steps for node in part.nodes]
        if not nodes:
            continue
        commands = [
            msgspec.structs.replace(part_command, where=KUBECTL)
            for part in reversed(moved.steps)
            for part_command in part.back_commands
        ]
        backs.append(
            BackDraft(
                key=f"back:migrate:{moved.resource}",
                what=tr("{resource} served by DRA", resource=moved.resource),
                to=tr("its device plugin on {nodes}", nodes=listed_names(nodes)),
                commands=commands,
                verdict="reversible",
                why=tr(
                    "Node by node: drain, bring the device plugin back, wait until the allocatable is above 0, uncordon. The scheduler takes a device plugin wherever a node has one."
                ),
                lost=tr("Running Pods on these nodes are made again once more."),
                minutes=scene.profile.minutes.node * len(nodes),
                nodes=tuple(reversed(nodes)),
                go_on=tr("The allocatable of the node shows the resource above 0 before it is uncordoned."),
                stop=tr("It stays at 0: the device plugin does not run there. Leave the node cordoned."),
                needs=[f"migrate:{moved.resource}:{n}" for n, _ in enumerate(moved.steps, start=1)],
            )
        )
    return backs


def taints(scene: Scene, steps: Sequence[StepDraft]) -> list[BackDraft]:
    """Rules of device taints that the plan made."""
    return [
        BackDraft(
            key=f"back:taint:{rule.name}",
            what=tr("Device taint {key}", key=rule.key),
            to=tr("no rule"),
            commands=[
                Command(
                    text=f"kubectl delete devicetaintrules.resource.k8s.io {quoted(rule.name)}",
                    where=KUBECTL,
                    runs="write",
                )
            ],
            verdict="reversible-until",
            until=tr("effect NoExecute is set"),
            why=tr(
                "The devices are free to take again at once; Pods that were evicted do not come back by themselves, but their controllers make new ones."
            ),
            lost=tr("Evicted Pods, and those without a controller for good."),
            minutes=2,
            go_on=tr("The rule is deleted, and Pods that waited for these devices are placed."),
            stop=tr("Pods still wait: read their events."),
            needs=named(steps, f"taint:{rule.name}:"),
        )
        for rule in planned_taints(scene)
    ]


def drivers(scene: Scene) -> list[BackDraft]:
    """DRA drivers that the profile moved."""
    backs = []
    for driver in scene.snapshot.drivers:
        version, _, container = driver_target(scene, driver)
        if not version:
            continue
        judged = driver_verdict(driver.driver, driver.version, version)
        commands: list[Command] = []
        workload = driver.workload
        if workload is not None and driver.image and container:
            kind = workload.kind.lower()
            where = f"-n {quoted(workload.namespace)}"
            commands = [
                Command(
                    text=f"kubectl {where} set image {kind}/{quoted(workload.name)} {quoted(f'{container}={driver.image}')}",
                    where=KUBECTL,
                    runs="write",
                ),
                Command(
                    text=f"kubectl {where} rollout status {kind}/{quoted(workload.name)} --timeout=10m",
                    where=KUBECTL,
                ),
            ]
        one_way = judged.verdict == "one-way"
        backs.append(
            BackDraft(
                key=f"back:driver:{driver.driver}",
                what=tr("DRA driver {driver}", driver=driver.driver),
                to=driver.image or driver.version,
                commands=[] if one_way else commands,
                verdict=judged.verdict,
                until=judged.until,
                why=judged.why
                + (
                    ""
                    if one_way
                    else " "
                    + tr("Before the cluster: an older cluster may not serve what the newer driver asks for.")
                ),
                lost=tr("Pools are published again in a new generation; claims that are prepared stay."),
                minutes=None if one_way else scene.profile.minutes.driver,
                nodes=driver.nodes,
                go_on=tr(
                    "The rollout ends, and the pools are complete with the devices of before; give it two minutes."
                ),
                stop=tr("A Pod of the driver does not become ready, or devices are missing."),
                needs=[f"driver:{driver.driver}"],
            )
        )
    return backs
