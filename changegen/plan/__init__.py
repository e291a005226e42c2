"""The plan as a value: a snapshot, a profile and the Kubernetes data make a Ticket. Pure.

`make_ticket` assesses, makes steps, checks and ways back apart (each in its module), numbers and joins them, and puts
the first page before them. The same input gives the same value; no clock is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from changegen import __version__
from changegen.assess import Assessment, assess
from changegen.i18n import language, tr, trn
from changegen.kubedata import KubernetesData
from changegen.model.profile import Profile
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import InputDigest, InstanceRow, Ticket
from changegen.plan.changes import make_changes
from changegen.plan.checks import make_checks
from changegen.plan.draft import attach, complete, fit, number
from changegen.plan.fields import make_fields
from changegen.plan.forks import looks_say, make_forks
from changegen.plan.monitoring import make_monitoring
from changegen.plan.rollback import looks, make_rollback
from changegen.plan.scene import Scene
from changegen.plan.steps import make_steps
from changegen.plan.steps.common import other_parts
from changegen.plan.summary import decide_by, decision_of, first_page, headline_of, ranked, risk_of, title_of
from changegen.seal import sealed
from changegen.store import digest_of
from changegen.versions import kubernetes_release, minor_key, minor_of
from changegen.words import unobserved_reason

__all__ = ["make_ticket"]


def make_ticket(
    snapshot: Snapshot,
    profile: Profile,
    data: KubernetesData,
    *,
    lang: str = "en",
    now: str = "",
    fields: Mapping[str, str] | None = None,
    snapshot_name: str = "",
    profile_name: str = "",
) -> Ticket:
    """Make the change ticket.

    Args:
        snapshot: The reading that the plan is made from; it is embedded.
        profile: The resolved target profile; it is embedded.
        data: What each Kubernetes minor knows.
        lang: Language of all words; commands and names never change with it.
        now: Time of making (RFC 3339), given by the caller; the reading's own time when empty.
        fields: Values for the fields for people; they beat the profile's.
        snapshot_name: How the inputs list names the snapshot (a file's name); its source's description when empty.
        profile_name: The same for the profile.
    """
    with language(lang):
        return _make(
            snapshot,
            profile,
            data,
            lang=lang,
            now=now,
            given=dict(fields or {}),
            snapshot_name=snapshot_name or snapshot.source.description,
            profile_name=profile_name or profile.name,
        )


def _make(
    snapshot: Snapshot,
    profile: Profile,
    data: KubernetesData,
    *,
    lang: str,
    now: str,
    given: dict[str, str],
    snapshot_name: str,
    profile_name: str,
) -> Ticket:
    generated = now or snapshot.captured_at
    scene = Scene(snapshot, profile, data)
    assessment = assess(snapshot, profile, data, day=generated[:10], context=scene.context)
    steps = make_steps(scene, assessment.findings)
    checks = make_checks(scene, assessment.findings)
    backs = make_rollback(scene, steps)
    fit(steps, checks)
    attach(steps, checks)
    complete(steps, backs)
    plan = number(steps, checks, backs, assessment.findings)
    forks = make_forks(scene, steps, backs, plan.ids)
    looked = looks_say(scene, forks)
    risk = risk_of(assessment, plan.steps, plan.rollback)
    words = {"high": tr("high"), "medium": tr("medium"), "low": tr("low")}
    people = make_fields(profile, given, suggestion=words[risk])
    decision = decision_of(scene, assessment)
    digest = digest_of(snapshot)
    made = Ticket(
        tool_version=__version__,
        lang=lang,
        generated_at=generated,
        captured_at=snapshot.captured_at,
        captured_at_inferred=snapshot.source.captured_at_source == "newest object",
        title=title_of(scene),
        cluster_name=snapshot.cluster.name,
        cluster_uid=snapshot.cluster.uid,
        distribution=snapshot.cluster.distribution,
        from_version=scene.today,
        to_version=scene.target,
        hops=assessment.hops,
        decision=cast('Literal["do-not-start", "attention", "ready", "cannot-tell"]', decision),
        headline=headline_of(scene, assessment, plan.steps, decision),
        facts=first_page(scene, assessment, plan.steps, plan.rollback, people, risk, forks),
        risk=risk,
        counts=_counts(assessment, plan.steps, plan.checks, snapshot),
        data_age=_data_age(data, scene),
        warnings=_warnings(scene, assessment),
        findings=ranked(plan.findings),
        changes=make_changes(scene, checks),
        instances=_instances(assessment, scene),
        forecast=assessment.forecast,
        drivers=assessment.drivers,
        resources=assessment.resources,
        features=assessment.features,
        pools=assessment.pools,
        taints=assessment.taints,
        blast=assessment.blast,
        capacity=assessment.capacity,
        steps=plan.steps,
        checks=plan.checks,
        rollback=plan.rollback,
        rollback_forks=forks,
        rollback_looks=tuple(looks(scene)) if looked else (),
        rollback_looks_say=looked,
        rollback_decide_by=decide_by(plan.steps, people),
        monitoring=make_monitoring(scene),
        fields=people,
        unobserved=_unobserved(snapshot),
        notices=tuple(
            f"{item.place}: {item.reason}" + (f" ({item.detail})" if item.detail else "")
            for item in snapshot.notices
        ),
        other_parts={
            name: tr("{version}, support unknown", version=version)
            for name, version in other_parts(scene).items()
        },
        requests=snapshot.source.requests,
        inputs=(
            InputDigest(what="snapshot", name=snapshot_name, sha256=digest, note=snapshot.captured_at),
            InputDigest(what="profile", name=profile_name, sha256=digest_of(profile), note=profile.title),
            InputDigest(
                what="kubernetes-data",
                name=", ".join(data.minors),
                sha256=data.digest,
                note=data.release(data.newest).version,
            ),
            InputDigest(what="tool", name=f"changegen {__version__}"),
        ),
        snapshot_digest=digest,
        snapshot=snapshot,
        profile=profile,
    )
    return sealed(made)


def _instances(assessment: Assessment, scene: Scene) -> tuple[InstanceRow, ...]:
    """Rows with the version that the plan goes to, where the profile names its minor only; no build tag behind etcd's."""
    minor, exact = minor_of(scene.target) or "", scene.target.removeprefix("v")
    rows = []
    for row in assessment.instances:
        target = row.target
        if row.target.removeprefix("v") == minor and exact != minor and row.action in ("upgrade", "none"):
            target = exact
        elif row.component == "etcd" and row.target:
            target = (kubernetes_release(row.target, "etcd") or row.target).removeprefix("v")
        rows.append(msgspec.structs.replace(row, target=target))
    return tuple(rows)


def _unobserved(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what was not read, a line for each reason; what has a detail of its own has its own line."""
    lines: list[str] = []
    plain: dict[str, list[str]] = {}
    for item in snapshot.unobserved:
        why = unobserved_reason(item.reason)
        if item.detail:
            lines.append(tr("{what}: {why} ({detail})", what=item.what, why=why, detail=item.detail))
        else:
            plain.setdefault(why, []).append(item.what)
    grouped = [tr("{why}: {what}", why=why, what=", ".join(what)) for why, what in plain.items()]
    return (*lines, *grouped)


def _counts(
    assessment: Assessment, steps: tuple[object, ...], checks: tuple[object, ...], snapshot: Snapshot
) -> dict[str, int]:
    severities = Counter(item.severity for item in assessment.findings)
    return {
        "blocking": severities["blocking"],
        "warning": severities["warning"],
        "info": severities["info"],
        "accepted": sum(
            1 for item in assessment.findings if item.accepted is not None and not item.accepted.expired
        ),
        "nodes": len(snapshot.nodes),
        "instances": len(assessment.instances),
        "devices": sum(len(pool.devices) for pool in snapshot.pools),
        "claims": len(snapshot.claims),
        "steps": len(steps),
        "checks": len(checks),
    }


def _data_age(data: KubernetesData, scene: Scene) -> str:
    release = data.release(data.newest)
    text = tr("Kubernetes data up to {version}", version=release.version)
    if release.date:
        text += tr(", tagged {date}", date=release.date[:10])
    reading = scene.snapshot.captured_at[:10]
    if release.date and reading:
        text += tr("; the reading is of {date}", date=reading)
    return text


def _warnings(scene: Scene, assessment: Assessment) -> tuple[str, ...]:
    """What must be said at the head."""
    said = []
    if scene.target and not assessment.data_covers_target and _before_data(scene):
        said.append(
            tr(
                "The target {target} is older than the data of this tool (from {oldest}): what it knows and removes is not judged.",
                target=scene.target,
                oldest=scene.data.minors[0],
            )
        )
    elif scene.target and not assessment.data_covers_target:
        said.append(
            tr(
                "The target {target} is newer than the data of this tool ({release}): removed gates, flags and APIs of it are not known.",
                target=scene.target,
                release=assessment.data_release,
            )
        )
    if scene.hops and "nodes" not in scene.snapshot.kinds_read:
        said.append(tr("Nodes were not read: this plan has no steps for kubelets, and they must move too."))
    elif scene.hops and ("pods" not in scene.snapshot.kinds_read or "pods" in scene.snapshot.namespaces_read):
        said.append(tr("Pods were not read, or not all of them: what drains meet is known in part only."))
    failed = [item.what for item in scene.snapshot.unobserved if item.failed]
    if failed:
        said.append(
            trn(
                "The reading is incomplete: {n} read was tried and failed ({what}).",
                "The reading is incomplete: {n} reads were tried and failed ({what}).",
                n=len(failed),
                what=", ".join([*dict.fromkeys(failed)][:5]),
            )
        )
    if not scene.today:
        said.append(tr("The version of today is not known."))
    asked = [node for node in scene.control_nodes if scene.state_of(node) == "asked"]
    done = [node for node in scene.control_nodes if scene.state_of(node) == "done"]
    if scene.hops and (asked or done) and len(done) < len(scene.control_nodes):
        said.append(
            tr(
                "The change has begun: {done} of {all} control-plane nodes proven on {version}, {asked} asked for and not proven.",
                done=len(done),
                all=len(scene.control_nodes),
                version=scene.target,
                asked=len(asked),
            )
        )
    if not scene.snapshot.cluster.uid:
        said.append(
            tr(
                "The cluster's identity is not known: verify cannot tell whether a later reading is of the same cluster."
            )
        )
    if scene.snapshot.cluster.distribution_ties:
        said.append(
            tr(
                "The distribution is not certain: {names}.",
                names=", ".join(scene.snapshot.cluster.distribution_ties),
            )
        )
    return tuple(said)


def _before_data(scene: Scene) -> bool:
    return minor_key(minor_of(scene.target) or "0.0") < minor_key(min(scene.data.minors, key=minor_key))
