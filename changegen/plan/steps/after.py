"""Steps of the DRA drivers and after the change: add-ons, caches, what was only for the change, the closing report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from changegen.assess.extended import Migration, migration
from changegen.i18n import tr
from changegen.model.snapshot import TaintRule
from changegen.model.ticket import Command, Finding
from changegen.plan.draft import StepDraft
from changegen.plan.scene import HopPlan, Scene
from changegen.plan.steps.common import (
    KUBECTL,
    MOST_SINGLE,
    command,
    configz_flag,
    driver_target,
    placed,
)
from changegen.plan.steps.control import apply_key
from changegen.plan.steps.drift import served_again, unedited
from changegen.plan.steps.owners import budgets_back
from changegen.plan.steps.remedies import tidy
from changegen.shell import quoted
from changegen.taint import blast_radius, rollout, rule_yaml


def drivers(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """The steps of the DRA drivers that the profile moves."""
    steps = []
    for driver in scene.snapshot.drivers:
        version, image, container = driver_target(scene, driver)
        if not version:
            continue
        commands: list[Command] = []
        notes = [tr("After the cluster on the way up; on the way down the drivers go first.")]
        workload = driver.workload
        if workload is not None:
            kind = workload.kind.lower()
            where = f"-n {quoted(workload.namespace)}"
            if image and container:
                commands.append(
                    command(
                        f"kubectl {where} set image {kind}/{quoted(workload.name)} {quoted(f'{container}={image}')}",
                        write=True,
                    )
                )
            else:
                notes.append(
                    tr(
                        "The profile names no image (drivers: image): upgrade it as it was installed, with its chart or manifest."
                    )
                )
            commands.append(
                command(f"kubectl {where} rollout status {kind}/{quoted(workload.name)} --timeout=10m")
            )
            commands.append(command("kubectl get resourceslices.resource.k8s.io"))
            notes.append(
                tr(
                    "That {workload} serves this driver is inferred: {why}.",
                    workload=f"{workload.kind} {workload.namespace}/{workload.name}",
                    why="; ".join(driver.workload_evidence) or "-",
                )
            )
            if driver.chart:
                notes.append(
                    tr(
                        "It came with chart {chart}: upgrade the release of the chart, or the next one undoes this.",
                        chart=driver.chart,
                    )
                )
        else:
            notes.append(tr("Which workload serves it was not seen."))
        key = f"driver:{driver.driver}"
        steps.append(
            StepDraft(
                key=key,
                phase="drivers",
                title=tr(
                    "Upgrade DRA driver {driver} from {today} to {version}",
                    driver=driver.driver,
                    today=driver.version,
                    version=version,
                ),
                why=tr("The profile asks for it."),
                commands=commands,
                nodes=driver.nodes if len(driver.nodes) <= MOST_SINGLE else (),
                minutes=scene.profile.minutes.driver,
                go_on=tr(
                    "All Pods of the workload are ready, the pools are complete in a new generation, and the same devices are published."
                ),
                stop=tr("A Pod does not become ready, or a pool stays incomplete for five minutes."),
                checks=[
                    f"check:driver-image:{driver.driver}",
                    f"check:driver-ready:{driver.driver}",
                    f"check:devices:{driver.driver}",
                    f"check:pools:{driver.driver}",
                ],
                rollback=[f"back:driver:{driver.driver}"],
                findings=[
                    item.id
                    for item in findings
                    if item.subject.component == "driver"
                    and driver.driver in (item.subject.name, *item.subject.instances)
                ],
                notes=notes,
            )
        )
    return steps


def after(scene: Scene, findings: Sequence[Finding], hop: HopPlan | None) -> list[StepDraft]:
    """The steps after the change, in order."""
    steps: list[StepDraft] = []
    if hop is not None:
        steps.append(_settled(scene, hop))
    steps += _migrations(scene)
    steps += _taints(scene)
    # The decision first: what is taken back after it is what a way back would need.
    last = _temporary(scene, findings) if hop is not None else []
    steps += [_close(scene, last), *last]
    if last:
        _report(scene, last[-1])
    return steps


def _settled(scene: Scene, hop: HopPlan) -> StepDraft:
    """Add-ons, caches and nodes in one look, where there are add-ons to look at."""
    settle = _settle(scene, hop)
    found = _addons(scene, hop)
    if not found:
        return settle
    step = found[0]
    step.also = (settle.key,)
    step.title = tr("Make sure that kube-proxy and CoreDNS followed, and look at the nodes")
    step.commands = [*step.commands, *settle.commands]
    step.go_on = f"{step.go_on} {settle.go_on}"
    step.stop = f"{step.stop} {settle.stop}"
    step.checks = [*step.checks, *settle.checks]
    step.notes = [*step.notes, *settle.notes]
    return step


def _temporary(scene: Scene, findings: Sequence[Finding]) -> list[StepDraft]:
    """What was only for the change goes, once nobody will go back; optional tidying beside it."""
    budgets = budgets_back(scene)
    served = served_again(scene)
    optional = tidy(scene, findings)
    if not budgets and not served:
        return optional
    notes = [tr("Not before it is decided that nobody will go back: the way back needs it as it is.")]
    go_on = []
    checks: list[str] = []
    if budgets:
        go_on.append(tr("Each budget has its limit of before."))
        checks += [
            f"check:budget:{budget.namespace}/{budget.name}"
            for budget in scene.snapshot.disruption_budgets
            if budget.disruptions_allowed == 0
        ]
        notes.append(tr("The owner puts the budget back."))
    if served:
        go_on.append(
            tr(
                "Each API server is ready at its own address, and kube-scheduler and kube-controller-manager run."
            )
        )
        notes.append(
            tr("The API that {step} turned on goes: schedulers of the target watch v1.", step="{{drift}}")
        )
    commands = [*budgets, *served]
    for step in optional:
        commands += step.commands
        notes.append(
            tr(
                "Optional, the commands just before the closing report: {title}.",
                title=step.title.partition(": ")[2] or step.title,
            )
        )
        notes += [step.why, *step.notes]
        checks += step.checks
    return [
        StepDraft(
            key="tidy:temporary",
            also=("temporary", *(step.key for step in optional)),
            phase="after",
            title=tr("Take back what was only for the change"),
            why="",
            commands=commands,
            minutes=5 + 5 * bool(served) + 5 * bool(optional),
            go_on=" ".join(go_on),
            stop=tr("Somebody may still go back.")
            + (
                " "
                + tr(
                    "An API server is not ready after five minutes: put its file back, {file}. Do not touch the next node.",
                    file=unedited(scene, add=False),
                )
                if any("kube-apiserver-edited" in item.text for item in served)
                else ""
            ),
            checks=checks,
            rollback=["back:budgets"] if budgets else ["back:served"],
            findings=[finding for step in optional for finding in step.findings],
            notes=notes,
        )
    ]


def _addons(scene: Scene, hop: HopPlan) -> list[StepDraft]:
    templates = scene.distribution.commands.get("addons", ())
    workloads = {
        item.addon: item for item in scene.snapshot.workloads if item.addon in ("kube-proxy", "coredns")
    }
    if not templates and not workloads:
        return []
    node = scene.control_nodes[-1] if scene.control_nodes else ""
    notes = []
    kubeadm = scene.distribution.name == "kubeadm"
    # The addon phase takes both versions from kubeadm-config (cmd/phases/upgrade/addons.go), which only apply writes.
    reads = scene.kubeadm is not None and any("phase addon" in item.text for item in templates)
    commands = [_says_version(hop)] if reads else []
    commands += scene.commands(templates, hop, node)
    for item in workloads.values():
        subject = f"kubectl -n {quoted(item.namespace)}", f"{item.kind.lower()}/{quoted(item.name)}"
        # Of a rollout that is awaited only: Pods of other kinds have none.
        if item.kind in ("DaemonSet", "Deployment", "StatefulSet"):
            commands.append(command(f"{subject[0]} rollout status {subject[1]} --timeout=10m"))
        commands.append(command(f"{subject[0]} get {subject[1]} -o wide"))
    stop = tr("A rollout does not end: put the previous image back.")
    if reads:
        again = apply_key(scene, hop)
        stop = (
            tr(
                "kubeadm-config does not say {version}: kubeadm upgrade apply did not come to its end. Do {step} again before anything else.",
                version=hop.version,
                step="{{" + again + "}}",
            )
            + " "
            + stop
        )
        notes.append(
            tr(
                "kubeadm moves both only once it sees every API server on one image: the last node's run does it, and skips it silently otherwise. The command does it again and changes nothing that is done."
            )
        )
        notes.append(
            tr(
                "kubeadm-config must say {version} without the removed gates: this command and the next run of kubeadm start from it, and only kubeadm upgrade apply writes it.",
                version=hop.version,
            )
        )
    elif not templates:
        notes.append(tr("If they still run the old version, upgrade them as they were installed."))
    return [
        StepDraft(
            key="addons",
            phase="after",
            title=tr("Make sure that kube-proxy and CoreDNS followed"),
            why=tr("They are easily left behind: nodes' services and names depend on them."),
            commands=commands,
            nodes=(node,) if node and templates else (),
            minutes=5,
            go_on=_addon_go_on(hop, kubeadm=kubeadm),
            stop=stop,
            checks=[
                "check:kube-proxy-image",
                "check:kube-proxy-running",
                "check:kube-proxy-ready",
                "check:coredns-image",
                "check:coredns-ready",
                "check:kubeadm-version",
            ],
            rollback=["back:addons"],
            notes=notes,
            hop=hop.label,
        )
    ]


def _says_version(hop: HopPlan) -> Command:
    """Fails while ConfigMap kubeadm-config says another version than that of the change."""
    return command(
        "kubectl -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' | "
        f"grep -x {quoted(f'kubernetesVersion: {hop.version}')}"
    )


def _addon_go_on(hop: HopPlan, *, kubeadm: bool) -> str:
    if kubeadm and hop.coredns:
        return tr(
            "kube-proxy runs {version} on every node, CoreDNS {coredns}, and kubeadm-config says {version}.",
            version=hop.version,
            coredns=hop.coredns,
        )
    return tr(
        "kube-proxy and CoreDNS run the versions that belong to {version}, on every node.",
        version=hop.version,
    )


def _settle(scene: Scene, hop: HopPlan) -> StepDraft:
    commands = [
        command(
            'rm -rf "${KUBECACHEDIR:-$HOME/.kube/cache}/discovery"',
            where=tr("every machine with kubectl"),
        ),
        command("kubectl get nodes"),
    ]
    notes = [
        tr("kubectl keeps what the old server served for hours, and asks the wrong API version until then.")
    ]
    notes += [
        tr(
            "DeviceTaintRule {name} has effect NoExecute: with {version} it evicts unless its gate is off. PodDisruptionBudgets are not asked.",
            name=rule.name,
            version=hop.version,
        )
        for rule in scene.snapshot.taint_rules
        if rule.effect == "NoExecute"
    ]
    if scene.distribution.name == "kubeadm":
        notes.append(tr("Certificates were renewed: copy the new admin.conf where the old one is used."))
    return StepDraft(
        key="settle",
        phase="after",
        title=tr("Clear kubectl's discovery caches and look at the nodes"),
        commands=commands,
        minutes=2,
        go_on=tr("Every node is Ready and schedulable but those that were not before."),
        stop=tr("A node stays cordoned or not Ready."),
        checks=["check:cordoned", "check:taints", "check:services-down"],
        notes=notes,
    )


def planned_taints(scene: Scene) -> list[TaintRule]:
    """Device taints that the profile wants rolled out, as the rules that do it."""
    rules = []
    for position, wish in enumerate(scene.profile.taints.devices, start=1):
        if wish.expect != "rollout":
            continue
        chosen = bool(wish.driver or wish.pool or wish.device)
        short = re.sub(r"[^a-z0-9-]+", "-", wish.key.rpartition("/")[2].lower()).strip("-") or "device"
        rules.append(
            TaintRule(
                name=f"{short}-{position}",
                selector="some" if chosen else "all",
                driver=wish.driver,
                pool=wish.pool,
                device=wish.device,
                key=wish.key,
                value=wish.value or "",
                effect="None",
                api_version="resource.k8s.io/v1",
            )
        )
    return rules


def planned_migrations(scene: Scene) -> list[Migration]:
    """Extended resources that the profile gives to DRA and that device plugins still serve somewhere."""
    found = (
        migration(scene.context, wish.name)
        for wish in scene.profile.extended_resources
        if wish.source == "dra"
    )
    return [moved for moved in found if moved.verdict != "done" and moved.steps]


def _migrations(scene: Scene) -> list[StepDraft]:
    """From device plugin to DRA, node by node; where it is no go today, the steps say until when to wait."""
    steps = []
    for moved in planned_migrations(scene):
        open_points = (*moved.why, *moved.unknown)
        for position, part in enumerate(moved.steps, start=1):
            last = position == len(moved.steps)
            notes = [part.note] if part.note else []
            if part.nodes:
                notes.append(tr("The way back: {back}.", back=part.back))
            commands = placed(part.commands, KUBECTL)
            if last:
                commands += [Command(text=text, where=KUBECTL) for text in moved.checks]
            steps.append(
                StepDraft(
                    key=f"migrate:{moved.resource}:{position}",
                    phase="after",
                    title=tr("{resource} to DRA: {title}", resource=moved.resource, title=part.title),
                    why=tr("Not before this is settled: {why}.", why="; ".join(open_points))
                    if open_points and position == 1
                    else "",
                    commands=commands,
                    nodes=part.nodes,
                    minutes=scene.profile.minutes.node if part.nodes else 5,
                    go_on=part.go_on,
                    stop=tr(
                        "A device is missing from the slices, or a Pod that asks for {resource} stays Pending: go back with this node.",
                        resource=moved.resource,
                    )
                    if part.nodes
                    else tr("Another DeviceClass names the resource too."),
                    checks=["check:held", "check:pending"],
                    rollback=[f"back:migrate:{moved.resource}"],
                    notes=notes,
                )
            )
    return steps


def _taints(scene: Scene) -> list[StepDraft]:
    """The rollout of a device taint: look on, stop new Pods, evict, take it away."""
    steps = []
    for rule in planned_taints(scene):
        blast = blast_radius(scene.snapshot, rule, version=scene.target or None)
        for position, part in enumerate(rollout(blast), start=1):
            commands = list(part.commands)
            if position == 1:
                text = rule_yaml(rule, None, "None").rstrip()
                commands.insert(0, command(f"cat > {quoted(rule.name + '.yaml')} <<'EOF'\n{text}\nEOF"))
            steps.append(
                StepDraft(
                    key=f"taint:{rule.name}:{position}",
                    phase="after",
                    title=tr("Device taint {key}: {title}", key=rule.key, title=part.title),
                    why=tr(
                        "Of {n} devices selected, {allocated} are allocated; {pods} Pods would be evicted, without asking their PodDisruptionBudgets.",
                        n=len(blast.devices),
                        allocated=blast.allocated,
                        pods=len(blast.evicted),
                    )
                    if position == 1
                    else "",
                    commands=placed(commands, KUBECTL),
                    minutes=5,
                    go_on=part.go_on,
                    stop=part.stop or tr("A Pod that is not named here is gone."),
                    checks=["check:held", "check:pending"],
                    rollback=[f"back:taint:{rule.name}"],
                    notes=list(blast.warnings) if position == 1 else [],
                )
            )
    return steps


EVIDENCE = "evidence.yaml"


def _verify(scene: Scene) -> Command:
    """The command of the closing report; with what people saw in containers where workloads use devices."""
    seen = configz_flag(scene) + (f" --runtime-evidence {EVIDENCE}" if _needs_evidence(scene) else "")
    return command(f"changegen verify ticket.json{seen} -o report.md", where=tr("any machine with changegen"))


def _needs_evidence(scene: Scene) -> bool:
    return any(pod.uses_devices and pod.phase == "Running" for pod in scene.snapshot.pods)


def _evidence(scene: Scene) -> list[Command]:
    """What prints the lines to run in containers, and makes the file to fill; nothing where no Pod uses devices."""
    if not _needs_evidence(scene):
        return []
    where = tr("any machine with changegen")
    probe = "changegen probe --ticket ticket.json"
    return [
        command(probe, where=where),
        command(f"test -s {EVIDENCE} || {probe} -f evidence -o {EVIDENCE}", where=where),
    ]


def _report(scene: Scene, step: StepDraft) -> None:
    """Have the last step close the change."""
    step.commands = [*step.commands, _verify(scene)]
    step.go_on += " " + tr("Then every check passes, and nothing is planned and not done.")
    step.notes = [*step.notes, tr("The last command makes the closing report anew.")]


def _close(scene: Scene, later: Sequence[StepDraft]) -> StepDraft:
    """The second reading and the decision; ``later`` are the steps that wait for it."""
    return StepDraft(
        key="close",
        phase="after",
        title=tr("Fill the checklist from a second reading, and decide whether the change stays")
        if later
        else tr("Fill the checklist from a second reading and close the change"),
        why=tr(
            "Planned and done, planned and not done, done and not planned: the closing report says all three."
        ),
        commands=[*_evidence(scene), _verify(scene)],
        minutes=max(5, scene.profile.minutes.check * 10),
        go_on=tr(
            "Every check passes but those of {steps}, and it is decided that nobody will go back.",
            steps=", ".join("{{" + step.key + "}}" for step in later),
        )
        if later
        else tr("Every check passes, and nothing is planned and not done."),
        stop=tr("A check fails: decide whether to mend or to go back before the window ends."),
        checks=["check:mapped", "check:held", "check:waiting", "check:unhealthy", "check:pending"],
        notes=[
            tr("What is unknown does not pass: runtime checks need someone who looks."),
            tr(
                "ticket.json is this ticket as JSON, made with it and kept since its approval (changegen ticket … -o ticket.json, the same input, profile and fields): one made later has another digest."
            ),
            *(
                [
                    tr(
                        "Runtime checks are attested: the first command prints what to run in which container, and what it must show; write it into {file}, with your name, before the last command. Or tick the PDF: changegen verify ticket.json --ticked FILE --attested-by NAME.",
                        file=EVIDENCE,
                    )
                ]
                if _needs_evidence(scene)
                else []
            ),
        ],
    )
