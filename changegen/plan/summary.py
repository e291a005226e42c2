"""The first page: title, decision, headline, and the facts that an approver decides from, in their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from changegen import times
from changegen.assess import Assessment
from changegen.assess.defaults import flips, touches
from changegen.i18n import tr, trn
from changegen.model.ticket import Field, Finding, RollbackFork, RollbackStep, Step
from changegen.plan.blast import workloads_hit
from changegen.plan.scene import Scene
from changegen.plan.steps.common import driver_target
from changegen.plan.unread import unread
from changegen.versions import compare, minor_of, try_version
from changegen.words import spell

__all__ = ["decide_by", "decision_of", "first_page", "headline_of", "ranked", "risk_of", "title_of"]


_FIRST = ("CG-PDB-", "CG-CAP-001", "CG-WEBHOOK-", "CG-SKEW-", "CG-GATE-", "CG-DRAIN-")
"""Beginnings of codes of warnings in the order in which they stop a change: a drain that hangs before one that deletes."""


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings as a reader needs them: blockers, then what stops the change on its way, then what was there before it."""
    severities = ("blocking", "warning", "info")

    def rank(finding: Finding) -> tuple[int, bool, bool, int]:
        first = next((at for at, start in enumerate(_FIRST) if finding.code.startswith(start)), len(_FIRST))
        accepted = finding.accepted is not None and not finding.accepted.expired
        warning = finding.severity == "warning"
        return (
            severities.index(finding.severity),
            accepted,
            warning and finding.preexisting,
            first if warning else 0,
        )

    return tuple(sorted(findings, key=rank))


def _open(findings: Iterable[Finding], severity: str) -> list[Finding]:
    return [f for f in findings if f.severity == severity and (f.accepted is None or f.accepted.expired)]


def title_of(scene: Scene) -> str:
    """``Upgrade Kubernetes 1.36.3 -> 1.37.2 on prod-a``."""
    name = _cluster_name(scene)
    today, target = scene.today.removeprefix("v"), scene.target.removeprefix("v")
    if not target:
        return tr("Change of {cluster} to profile {profile}", cluster=name, profile=scene.profile.name)
    if not scene.hops:
        return tr("Check of {cluster} against Kubernetes {target}", cluster=name, target=target)
    a, b = try_version(today), try_version(target)
    if a is not None and b is not None and compare(a, b) == 1:
        return tr(
            "Take Kubernetes back {today} → {target} on {cluster}", today=today, target=target, cluster=name
        )
    if today == target:
        return tr("Finish the upgrade to Kubernetes {target} on {cluster}", target=target, cluster=name)
    return tr(
        "Upgrade Kubernetes {today} → {target} on {cluster}", today=today or "?", target=target, cluster=name
    )


def _cluster_name(scene: Scene) -> str:
    cluster = scene.snapshot.cluster
    if cluster.name:
        return cluster.name
    if cluster.uid:
        return tr("a cluster without a name (UID {uid})", uid=cluster.uid)
    return tr("a cluster that was not identified")


def decision_of(scene: Scene, assessment: Assessment) -> str:
    """do-not-start with an open blocker; cannot-tell where what decides was not read; attention with warnings."""
    if assessment.blockers:
        return "do-not-start"
    if _blind(scene, assessment):
        return "cannot-tell"
    if _open(assessment.findings, "warning"):
        return "attention"
    return "ready"


def _blind(scene: Scene, assessment: Assessment) -> bool:
    """Nothing that was read tells what starts at the target: no version, or no data for it."""
    if scene.target and not assessment.data_covers_target:
        return True
    if not scene.today:
        return True
    observed = [
        c
        for c in scene.context.of("kube-apiserver")
        if isinstance(c.feature_gates, dict) or c.effective_gates is not None
    ]
    metrics = [
        p
        for p in scene.snapshot.processes
        if p.component == "kube-apiserver" and p.effective_gates is not None
    ]
    return bool(scene.hops) and not observed and not metrics and not scene.snapshot.cluster.managed


def headline_of(scene: Scene, assessment: Assessment, steps: Sequence[Step], decision: str) -> str:
    """One or two sentences: the decision with its first reason, its remedy and the time that takes."""
    blockers = assessment.blockers
    if blockers:
        first = blockers[0]
        remedy = next((s for s in steps if first.id in s.findings and s.phase == "before"), None)
        text = (
            tr("Do not start: {n} blockers.", n=len(blockers))
            if len(blockers) > 1
            else tr("Do not start: 1 blocker.")
        )
        text += " " + _reason(scene, first)
        if remedy is not None:
            text += " " + (
                tr(
                    "Remedy: step {step}, {minutes} minutes, before the window.",
                    step=remedy.id,
                    minutes=remedy.minutes,
                )
                if remedy.minutes
                else tr("Remedy: step {step}, before the window.", step=remedy.id)
            )
        return text
    if decision == "cannot-tell":
        return tr("Cannot tell: what decides whether the target starts was not read. See what is not known.")
    warnings = _open(ranked(assessment.findings), "warning")
    if warnings:
        n = len(warnings)
        head = (
            tr("No blocker, {n} warnings to settle first.", n=n)
            if n > 1
            else tr("No blocker, 1 warning to settle first.")
        )
        return head + " " + _reason(scene, warnings[0])
    if not scene.hops:
        return tr("Nothing to upgrade: every instance that was seen runs the target.")
    return tr("Ready: no blocker and no warning in what was read.")


LONGEST_REASON = 160
"""Characters of a finding's message that a headline has room for."""


def _reason(scene: Scene, finding: Finding) -> str:
    """A finding for the headline: what, on how many, with what consequence; a long message as its title and subject."""
    message = finding.message.rstrip()
    subject = finding.subject
    said = re.search(r"`unrecognized [^`]+`", message)
    if finding.code == "CG-GATE-001" and said is not None and subject.name and subject.instances:
        every = len(scene.context.of(subject.component))
        count = len(subject.instances)
        return tr(
            "{gate} is set on {n} of {all} instances of {component}, and {minor} no longer knows it: each would exit with {message}.",
            gate=subject.name,
            n=count,
            all=max(every, count),
            component=subject.component,
            minor=finding.hop.rpartition("-> ")[2] or minor_of(scene.target),
            message=said[0],
        )
    if len(message) <= LONGEST_REASON:
        return message
    what = " ".join(part for part in (subject.component, subject.name) if part)
    if len(subject.instances) > 1:
        return tr(
            "{title}: {subject} ({n} places).", title=finding.title, subject=what, n=len(subject.instances)
        )
    return tr("{title}: {subject}.", title=finding.title, subject=what or ", ".join(subject.instances))


def risk_of(assessment: Assessment, steps: Sequence[Step], rollback: Sequence[RollbackStep]) -> str:
    """``high``, ``medium`` or ``low``: a computed suggestion; a person accepts it."""
    if assessment.blockers:
        return "high"
    hard = any(b.verdict == "one-way" for b in rollback if b.needed_once) or any(s.no_return for s in steps)
    warnings = len(_open(assessment.findings, "warning"))
    if hard or warnings >= 3:
        return "medium"
    return "medium" if warnings and len(steps) > 10 else "low"


def _duration(scene: Scene, minutes: int, before: int, back: int) -> str:
    """How long, and the window to book: the change and the way back; what takes hours says how many nodes at a time."""
    text = tr("about {during} in the window, {before} before it", during=spell(minutes), before=spell(before))
    if minutes >= 600:
        at_once = scene.profile.minutes.node_parallel
        text += "; " + (
            tr("one node at a time, in several windows; disruption budgets and free capacity bound it")
            if at_once == 1
            else tr(
                "{n} nodes at a time, in several windows; disruption budgets and free capacity bound it",
                n=at_once,
            )
        )
    elif back:
        text += "; " + tr("book {all}: the change and its way back", all=spell(minutes + back))
    return text


def shown_time(value: str) -> str:
    """Return an RFC 3339 time to the minute, in UTC; what is no such time stays as it is."""
    return times.shown(value)


def _risk_text(scene: Scene, assessment: Assessment, steps: Sequence[Step], risk: str) -> str:
    words = {"high": tr("high"), "medium": tr("medium"), "low": tr("low")}
    blockers, warnings = len(assessment.blockers), len(_open(assessment.findings, "warning"))
    counts = ", ".join(
        (
            trn("{n} blocker", "{n} blockers", n=blockers),
            trn("{n} warning", "{n} warnings", n=warnings),
            _defaults(scene),
        )
    )
    if risk != "high":
        return f"{words[risk]}: {counts}"
    remedies = [
        s.id for s in steps if s.phase == "before" and any(b.id in s.findings for b in assessment.blockers)
    ]
    later = (
        "medium"
        if any(s.no_return for s in steps) or len(_open(assessment.findings, "warning")) >= 3
        else "low"
    )
    if not remedies:
        return f"{words['high']}: {counts}"
    if len(remedies) > 1:
        return tr(
            "{high} until {steps} are done, then {later}: {counts}",
            high=words["high"],
            steps=", ".join(remedies),
            later=words[later],
            counts=counts,
        )
    return tr(
        "{high} until {steps} is done, then {later}: {counts}",
        high=words["high"],
        steps=", ".join(remedies),
        later=words[later],
        counts=counts,
    )


def _defaults(scene: Scene) -> str:
    """Default changes: those that touch what was read, those of which that is not known, those seen unused."""
    touch = [touches(scene.context, gate) for gate in flips(scene.context)]
    used = sum(1 for item in touch if item.used)
    unknown = sum(1 for item in touch if item.unread)
    text = trn("{n} default change touches what was read", "{n} default changes touch what was read", n=used)
    if unknown:
        text += ", " + tr("of {n} it is not known", n=unknown)
    if len(touch) - used - unknown:
        text += ", " + tr("{n} are not seen used", n=len(touch) - used - unknown)
    return text


def _what(scene: Scene) -> str:
    if not scene.hops:
        return tr("no change of the Kubernetes version")
    parts = []
    last = scene.hops[-1]
    plain = [v.removeprefix("v") for v in (scene.today, last.version)]
    way = " → ".join(
        [plain[0] or tr("(version not known)"), *[h.version.removeprefix("v") for h in scene.hops]]
    )
    control = len(scene.control_nodes)
    kubelets = len(scene.pending_nodes) if any(h.drain for h in scene.hops) else 0
    if scene.snapshot.cluster.managed:
        parts.append(
            trn(
                "managed control plane and {n} kubelet {way}",
                "managed control plane and {n} kubelets {way}",
                n=kubelets,
                way=way,
            )
            if kubelets
            else tr("managed control plane {way}", way=way)
        )
    else:
        if not control:
            parts.append(tr("control plane, whose nodes were not seen, {way}", way=way))
        else:
            parts.append(
                trn("control plane on {n} node {way}", "control plane on {n} nodes {way}", n=control, way=way)
            )
        versions = Counter(
            node.kubelet_version.removeprefix("v")
            for node in scene.snapshot.nodes
            if node.name in scene.pending_nodes
        )
        if kubelets:
            from_text = ", ".join(version or "?" for version in sorted(versions))
            target = plain[1]
            parts.append(
                trn(
                    "{n} kubelet {today} → {target}",
                    "{n} kubelets {today} → {target}",
                    n=kubelets,
                    today=from_text,
                    target=target,
                )
            )
    etcd = [h.etcd for h in scene.hops if h.etcd]
    members = sorted({m.version.removeprefix("v") for m in scene.members})
    if etcd and members and members != [etcd[-1].removeprefix("v")]:
        parts.append(
            tr("etcd {today} → {target}", today=", ".join(members), target=etcd[-1].removeprefix("v"))
        )
    for driver in scene.snapshot.drivers:
        version, _, _ = driver_target(scene, driver)
        if version:
            parts.append(
                tr(
                    "DRA driver {driver} {today} → {target}",
                    driver=driver.driver,
                    today=driver.version,
                    target=version,
                )
            )
    return "; ".join(parts)


def _cluster(scene: Scene) -> str:
    cluster = scene.snapshot.cluster
    parts = []
    if cluster.name:
        parts.append(cluster.name)
    parts.append(f"{cluster.distribution} {cluster.distribution_version}".strip())
    control = len(scene.control_nodes)
    workers = len(scene.snapshot.nodes) - sum(1 for name in scene.control_nodes if name in scene.nodes)
    if scene.snapshot.nodes:
        parts.append(
            tr(
                "{control} and {workers}",
                control=trn("{n} control-plane node", "{n} control-plane nodes", n=control),
                workers=trn("{n} worker", "{n} workers", n=workers),
            )
            if control
            else trn("{n} node", "{n} nodes", n=len(scene.snapshot.nodes))
        )
    if scene.simulated:
        parts.append(
            trn(
                "{n} of {total} nodes is simulated",
                "{n} of {total} nodes are simulated",
                n=len(scene.simulated),
                total=len(scene.snapshot.nodes),
            )
        )
    parts.append(
        tr("identity: UID {uid} of namespace kube-system", uid=cluster.uid)
        if cluster.uid
        else tr("identity not known: namespace kube-system was not read")
    )
    if scene.snapshot.captured_at:
        inferred = scene.snapshot.source.captured_at_source == "newest object"
        time = shown_time(scene.snapshot.captured_at)
        parts.append(
            tr("read {time} (inferred from the newest object)", time=time)
            if inferred
            else tr("read {time}", time=time)
        )
    return ", ".join(parts)


def _blast(scene: Scene, assessment: Assessment) -> str:
    """Workloads first, worst first; then how many devices are held at all."""
    total, held = Counter[str](), Counter[str]()
    holders: dict[str, set[str]] = {}
    for pool in scene.snapshot.pools:
        total[pool.driver] += len(pool.devices)
    for claim in scene.snapshot.claims:
        for device in claim.devices:
            held[device.driver] += 1
            holders.setdefault(device.driver, set()).update(
                f"{claim.namespace}/{c.name}" for c in claim.reserved_for
            )
    hit = workloads_hit(scene, assessment)
    known = "resourceslices.resource.k8s.io" in scene.snapshot.kinds_read
    counted = "; ".join(
        _held(driver, held[driver], total[driver] if known else None, len(holders.get(driver, ())))
        for driver in sorted(total | held)
    )
    if counted:
        return f"{hit} {counted}" if hit else counted
    if hit:
        return hit
    readable = "resourceclaims.resource.k8s.io" in scene.snapshot.kinds_read
    return (
        tr("no device is published or held") if readable else tr("not known: claims and slices were not read")
    )


def _held(driver: str, held: int, total: int | None, pods: int) -> str:
    if total is None:
        return trn(
            "{n} Pod holds devices of {driver}: {held}, of how many is not known",
            "{n} Pods hold devices of {driver}: {held}, of how many is not known",
            n=pods,
            held=held,
            driver=driver,
        )
    return trn(
        "{n} Pod holds {held} of {total} devices of {driver}",
        "{n} Pods hold {held} of {total} devices of {driver}",
        n=pods,
        held=held,
        total=total,
        driver=driver,
    )


def back_minutes(forks: Sequence[RollbackFork]) -> int:
    """Minutes of the way back from the end of the change, with no fault of etcd: the longest plain line but the last resort."""
    plain = [fork for fork in forks if any(not name.startswith("P-") for name in fork.ran)]
    return max((fork.minutes or 0 for fork in plain if not fork.fault), default=0)


def _way_back(
    scene: Scene, steps: Sequence[Step], rollback: Sequence[RollbackStep], forks: Sequence[RollbackFork]
) -> str:
    if not scene.hops:
        return tr("nothing to go back from")
    control = next((b for b in rollback if "kube-apiserver" in b.what), None)
    if control is not None and control.verdict == "one-way":
        return tr("none for the control plane once it has started: {why}", why=control.why)
    point = next((s for s in steps if s.no_return), None)
    passed = {"", point.id if point is not None else ""}
    early = next((f for f in forks if f.etcd == "old" and any(n[0] != "P" for n in {*f.ran} - passed)), None)
    late = next((f for f in forks if f.etcd == "new"), None)
    if point is not None and late is not None and late.minutes:
        newer = minor_of(scene.hops[-1].etcd) or ""
        parts = []
        if early is not None and early.minutes:
            parts.append(
                tr(
                    "until {step} starts (minute {minute}): easy, {time}",
                    step=point.id,
                    minute=_minute_of(steps, point),
                    time=spell(early.minutes),
                )
            )
        else:
            parts.append(tr("before {step} starts there is nothing to take back", step=point.id))
        parts.append(
            tr("from the end about {time}, with etcd left on {newer}", time=spell(late.minutes), newer=newer)
        )
        down = next((b for b in rollback if any("downgrade enable" in c.text for c in b.commands)), None)
        if down is not None:
            parts.append(
                tr(
                    "etcd itself then only by a downgrade ({step}), {time} more",
                    step=down.id,
                    time=spell(down.minutes or 0),
                )
            )
        return "; ".join(parts)
    limited = [b for b in rollback if b.verdict == "reversible-until"]
    time = back_minutes(forks)
    if scene.distribution.downgrade == "restore" and time:
        return tr(
            "until {step} starts: nothing to take back; after it only by the snapshot, with the loss of what was written since: about {time}",
            step=next((s.id for s in steps if s.phase == "control-plane"), "?"),
            time=spell(time),
        )
    if limited:
        return tr("yes, until {until}", until=limited[0].until)
    hard = [b for b in rollback if b.verdict == "one-way"]
    if hard and any("etcd" in b.what for b in hard):
        return tr("for the API servers yes; etcd only with a downgrade")
    if time:
        return tr("yes, node by node; from the end about {time}", time=spell(time))
    return tr("yes, node by node")


def _minute_of(steps: Sequence[Step], at: Step) -> int:
    """Minute of the window at which a step starts, by the estimates."""
    passed = 0
    for step in steps:
        if step is at:
            break
        passed += 0 if step.phase == "before" else step.minutes or 0
    return passed


def _not_known(scene: Scene, assessment: Assessment) -> str:
    failed = [u.what for u in scene.snapshot.unobserved if u.failed]
    others = [u.what for u in scene.snapshot.unobserved if not u.failed]
    parts = []
    if failed:
        parts.append(tr("tried and failed: {what}", what=unread(scene, failed)))
    if others:
        parts.append(tr("not in this reading: {what}", what=unread(scene, others)))
    if not assessment.data_covers_target:
        parts.append(
            tr("the target is not in the data of this tool ({minors})", minors=", ".join(scene.data.minors))
        )
    if scene.hops and scene.target == f"v{minor_of(scene.target)}":
        parts.append(tr("the patch release of {minor}: the provider takes one", minor=minor_of(scene.target)))
    elif scene.target_chosen and scene.hops:
        parts.append(
            tr(
                "the exact target: the profile names only {minor}, and {version} was chosen as the newest known",
                minor=minor_of(scene.target),
                version=scene.target.removeprefix("v"),
            )
        )
    return "; ".join(parts) or tr("nothing that was asked for")


def first_page(
    scene: Scene,
    assessment: Assessment,
    steps: Sequence[Step],
    rollback: Sequence[RollbackStep],
    fields: Sequence[Field],
    risk: str,
    forks: Sequence[RollbackFork] = (),
) -> dict[str, str]:
    """The facts in their order; keys are stable, renderers have the labels."""
    minutes = sum(step.minutes or 0 for step in steps if step.phase != "before")
    before = sum(step.minutes or 0 for step in steps if step.phase == "before")
    needed = [field for field in fields if field.required and not field.value]
    why = scene.profile.change.reason or ""
    start = next((f.value for f in fields if f.name == "window.start"), "")
    end = next((f.value for f in fields if f.name == "window.end"), "")
    return {
        "what": _what(scene),
        "why": why or tr("to be filled: business reason"),
        "cluster": _cluster(scene),
        "when": tr("{start} to {end}", start=start or "?", end=end or "?")
        if start or end
        else tr("no window yet"),
        "duration": _duration(scene, minutes, before, back_minutes(forks)),
        "risk": _risk_text(scene, assessment, steps, risk),
        "blast_radius": _blast(scene, assessment),
        "way_back": _way_back(scene, steps, rollback, forks),
        "not_known": _not_known(scene, assessment),
        "to_fill": ", ".join(field.label for field in needed) or tr("nothing"),
    }


def decide_by(steps: Sequence[Step], fields: Sequence[Field]) -> str:
    """When the decision to go back must have fallen: the step before the point, its minute, and the hour if known."""
    passed = 0
    previous: Step | None = None
    for step in steps:
        if step.phase == "before":
            continue
        if step.no_return:
            where = (
                tr("before {step} starts, when {previous} is proven", step=step.id, previous=previous.id)
                if previous is not None
                else tr("before {step} starts", step=step.id)
            )
            text = (
                tr("{where}; about minute {minute} of the window", where=where, minute=passed)
                if passed
                else where
            )
            start = next((f.value for f in fields if f.name == "window.start"), "")
            clock = _clock(start, passed)
            return f"{text} ({clock})" if clock else text
        passed += step.minutes or 0
        previous = step
    return ""


def _clock(start: str, minutes: int) -> str:
    """The time some minutes after the window's start; empty where the start is no time."""
    try:
        return (datetime.fromisoformat(start) + timedelta(minutes=minutes)).isoformat(timespec="minutes")
    except (ValueError, OverflowError):
        return ""
