"""Fill the checklist from a second reading, and say what was planned and done, not done, and done but not planned.

Pure. A check is evaluated by the row of `changegen.facts` that made its command. What is not known does not pass, and
neither does what was read before the time that a check gives. The differences between the two readings come from
`changegen.compare`; each is explained by the plan, follows from it, or is unplanned. A ticket that was edited after it
was made, or another cluster's reading, is refused; a reading of a cluster that nothing identifies never passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from changegen import __version__
from changegen.assess import assess
from changegen.compare import compare
from changegen.errors import InputError
from changegen.explain import Explained, explain
from changegen.facts import Reading, Value, evaluate
from changegen.i18n import language, tr
from changegen.kubedata import KubernetesData
from changegen.model.base import Scalar
from changegen.model.snapshot import Component, Snapshot
from changegen.model.ticket import (
    Change,
    Check,
    CheckResult,
    Comparison,
    Deviation,
    Evidence,
    Finding,
    Results,
    StepWord,
    Ticket,
)
from changegen.plan.distribution import distribution
from changegen.seal import content_digest
from changegen.store import digest_of
from changegen.times import seconds_between
from changegen.versions import is_release, parse_image, try_version
from changegen.words import unobserved_reason

__all__ = ["Attestation", "judge", "verify"]


State = Literal["done", "not-done", "unknown"]
Told = tuple[State, str, str]
"""Of a planned change: its state, what the second reading shows, and why; the last two may be empty."""


class Attestation(msgspec.Struct, frozen=True, kw_only=True):
    """Someone's word, from a ticked form or an evidence file: on a check that no reading can fill, or on a step.

    Never a pass. Without a name, or without a value and a note, it says nothing and counts for nothing.
    """

    check: str
    """Id of the check, ``V-14``; in a ticked form of a step too, ``P-2``, ``B-1``."""
    by: str
    value: str = ""
    note: str = ""

    @property
    def says(self) -> bool:
        """Whether anything was said at all."""
        return bool(self.by.strip() and (self.value.strip() or self.note.strip()))


def verify(
    ticket: Ticket,
    after: Snapshot,
    *,
    data: KubernetesData | None = None,
    other_cluster: bool = False,
    approved_sha256: str = "",
    evidence: Sequence[Attestation] = (),
    lang: str = "",
) -> Results:
    """Hold a second reading against the ticket.

    Args:
        ticket: The ticket, with the snapshot that it was made from.
        after: The second reading.
        data: Kubernetes data: assesses the state after, and tells which APIs came with the version.
        other_cluster: Do not refuse a reading of another cluster.
        approved_sha256: SHA-256 of the ticket that was approved (of its canonical JSON): another one is refused.
        evidence: Attestations of people.
        lang: Language of the words; the ticket's when empty.

    Raises:
        InputError: the ticket was edited or holds no snapshot, or the reading is of another cluster.
    """
    with language(lang or ticket.lang):
        return _verify(
            ticket, after, data, other_cluster, approved_sha256.strip().lower(), evidence, lang or ticket.lang
        )


def _verify(
    ticket: Ticket,
    after: Snapshot,
    data: KubernetesData | None,
    other_cluster: bool,
    approved: str,
    evidence: Sequence[Attestation],
    lang: str,
) -> Results:
    before = _checked(ticket, approved)
    _same_cluster(ticket, after, other_cluster=other_cluster)
    identity = _identity(ticket, before, after)
    said = _said(evidence)
    judged = [_result(check, after, said.get(check.id)) for check in ticket.checks]
    results = tuple(result for result, _ in judged)
    early = tuple(result.id for result, too_early in judged if too_early)
    comparison = compare(before, after)
    planned = _planned(ticket, before, after)
    mended, unmended = _remedies(ticket, results)
    explained = explain(ticket, before, after, comparison, data)
    follows = [item for item in explained if item.how == "follows"]
    roots = [item for item in explained if item.how == "unplanned"]
    beside = [item for item in explained if item.how == "with"]
    done = [*planned["done"], *mended, *(_told(item, "follows") for item in follows)]
    not_done = [*planned["not-done"], *unmended]
    unplanned = (*(_told(item) for item in roots), *(_told(item, "with") for item in beside))
    open_items = [*planned["unknown"], *_unproven(ticket, after, comparison)]
    if identity:
        open_items.append(
            Deviation(
                what=tr("identity of the cluster"),
                before=ticket.cluster_uid,
                actual=after.cluster.uid,
                why=identity,
            )
        )
    findings: tuple[Finding, ...] = ()
    if data is not None and ticket.profile is not None:
        findings = assess(after, ticket.profile, data, day=after.captured_at[:10]).findings
    counts = Counter(item.result for item in results)
    numbers: dict[str, int] = {str(key): value for key, value in counts.items()}
    outcome = _outcome(numbers, not_done, planned["unknown"], proven=other_cluster or not identity)
    sentences = (
        identity,
        _next(ticket, results, not_done, [_told(item) for item in roots], early),
        _headline(outcome, numbers, planned["unknown"], not_done, len(roots), len(results)),
    )
    return Results(
        tool_version=__version__,
        lang=lang,
        ticket_digest=digest_of(ticket),
        before_digest=ticket.snapshot_digest,
        after_digest=digest_of(after),
        cluster_uid=after.cluster.uid,
        captured_at=after.captured_at,
        outcome=outcome,
        headline=" ".join(text for text in sentences if text),
        counts={
            "pass": counts["pass"],
            "fail": counts["fail"],
            "unknown": counts["unknown"],
            "attested": counts["attested"],
            "done": len(done) - len(follows),
            "follows": len(follows),
            "not_done": len(not_done),
            "unplanned": len(roots),
            "open": len(open_items),
        },
        checks=ticket.checks,
        results=results,
        done=tuple(done),
        not_done=tuple(not_done),
        unplanned=unplanned,
        unknown=tuple(open_items),
        findings=findings,
        times=_times(ticket, before, after),
        ticked=_ticked(ticket, said, not_done),
        not_comparable=comparison.not_comparable,
    )


# ------------------------------------------------------------------------------------------------ refusals


def _checked(ticket: Ticket, approved: str) -> Snapshot:
    """The ticket's own snapshot, if ticket and snapshot are what they were when it was made and approved."""
    before = ticket.snapshot
    if before is None:
        raise InputError(
            tr("the ticket holds no snapshot, so nothing can be compared"),
            hint=tr("use the ticket's JSON as changegen wrote it"),
        )
    if digest_of(before) != ticket.snapshot_digest:
        raise InputError(
            tr("the snapshot in the ticket is not the one that it was made from: the file was edited"),
            hint=tr("use the ticket as it was approved"),
        )
    actual = digest_of(ticket)
    if approved and approved != actual:
        raise InputError(
            tr("the ticket's SHA-256 is {actual}, approved was {approved}", actual=actual, approved=approved),
            hint=tr("use the ticket as it was approved, or have this one approved"),
        )
    if content_digest(ticket) != ticket.content_digest:
        raise InputError(
            tr("the ticket is not as it was made: the file was edited"),
            hint=tr("use the ticket as it was approved, or make a new one"),
        )
    return before


def _same_cluster(ticket: Ticket, after: Snapshot, *, other_cluster: bool) -> None:
    if other_cluster or not ticket.cluster_uid or not after.cluster.uid:
        return
    if ticket.cluster_uid != after.cluster.uid:
        raise InputError(
            tr(
                "the reading is of another cluster: UID of kube-system is {after}, the ticket's is {before}",
                after=after.cluster.uid,
                before=ticket.cluster_uid,
            ),
            hint=tr("read the right cluster, or say --other-cluster"),
        )


def _identity(ticket: Ticket, before: Snapshot, after: Snapshot) -> str:
    """Why it is not sure that both readings are of one cluster; empty where their identities are the same."""
    mine, theirs = ticket.cluster_uid, after.cluster.uid
    if mine and theirs:
        if mine == theirs:
            return ""
        return tr("The reading is of another cluster, as was asked for (--other-cluster).")
    if theirs:
        text = tr(
            "The ticket does not tell which cluster it is of: namespace kube-system was not read for it."
        )
    elif mine:
        text = tr("The reading does not tell which cluster it is of: namespace kube-system is not in it.")
    else:
        text = tr("Neither the ticket nor the reading tells which cluster it is of.")
    old, new = {node.name for node in before.nodes}, {node.name for node in after.nodes}
    if not old or not new:
        return text
    return f"{text} " + tr("{n} of the ticket's {all} nodes are in it.", n=len(old & new), all=len(old))


# ------------------------------------------------------------------------------------------------ checks


def _said(evidence: Sequence[Attestation]) -> dict[str, Attestation]:
    """What was said of each check and step; several words on one stand together, and one without words is none."""
    found: dict[str, list[Attestation]] = {}
    for item in evidence:
        if item.says:
            found.setdefault(item.check, []).append(item)
    return {
        check: Attestation(
            check=check,
            by=_joined(", ", (item.by for item in items)),
            value=_joined("; ", (item.value for item in items)),
            note=_joined("; ", (item.note for item in items)),
        )
        for check, items in found.items()
    }


def _joined(between: str, texts: Iterable[str]) -> str:
    """The texts that say something, each once."""
    return between.join(dict.fromkeys(text.strip() for text in texts if text.strip()))


def _result(check: Check, after: Snapshot, said: Attestation | None) -> tuple[CheckResult, bool]:
    """A filled line of the checklist, and whether the reading came too early to tell."""
    if check.query is None or check.compare == "manual":
        return _by_word(check, said), False
    reading = evaluate(check.query.fact, after, check.query.args)
    result, reason = judge(check, reading)
    if result == "unknown" and said is not None:
        return _attested(check, said, reading.evidence, reason), False
    early = _early(check, after, reason) if result == "fail" and _may_settle(check, reading.value) else ""
    if early:
        result, reason = "unknown", early
    if said is not None and result != "pass":
        reason = _joined("; ", (reason, _against(said, early=bool(early))))
    made = CheckResult(
        id=check.id,
        result=result,
        actual=reading.value if reading.known else None,
        evidence=reading.evidence,
        reason=reason,
    )
    return made, bool(early)


def _by_word(check: Check, said: Attestation | None) -> CheckResult:
    """A check that only people can fill: attested, unless they saw another value than the profile wants."""
    if said is None:
        return CheckResult(id=check.id, result="unknown", reason=tr("needs evidence: no reading shows it"))
    wanted = check.expected if check.source == "profile" else None
    if wanted is None or not said.value or said.value == _shown(wanted):
        return _attested(check, said)
    return CheckResult(
        id=check.id,
        result="fail",
        actual=said.value,
        attested_by=said.by,
        reason=_joined("; ", (_differs(said.value, wanted), said.note)),
    )


def _attested(
    check: Check, said: Attestation, evidence: tuple[Evidence, ...] = (), reason: str = ""
) -> CheckResult:
    """Somebody's word; ``reason`` says why no reading tells, where they gave no note."""
    return CheckResult(
        id=check.id,
        result="attested",
        actual=said.value or None,
        evidence=evidence,
        attested_by=said.by,
        reason=said.note or reason,
    )


def _against(said: Attestation, *, early: bool) -> str:
    """That somebody's word is not what the reading shows: it is told, and changes nothing."""
    word = _joined("; ", (said.value, said.note))
    if early:
        return tr(
            "attested by {name} ({word}), which the reading does not bear out yet", name=said.by, word=word
        )
    return tr("attested by {name} ({word}); the reading says otherwise", name=said.by, word=word)


def _may_settle(check: Check, actual: Value) -> bool:
    """Whether time alone can bring what is expected: of what shall be as before only what is missing can still come."""
    if check.compare != "same-as-before":
        return True
    before = check.before
    if isinstance(before, dict):
        return isinstance(actual, dict) and all(
            key in before and (value == before[key] or _less(value, before[key]))
            for key, value in actual.items()
        )
    if isinstance(before, (tuple, list)):
        return isinstance(actual, (tuple, list)) and set(actual) <= set(before)
    return actual in (None, "") or _less(actual, before)


def _less(actual: Value, before: Scalar) -> bool:
    return isinstance(actual, (int, float)) and isinstance(before, (int, float)) and actual < before


def _early(check: Check, after: Snapshot, reason: str) -> str:
    """Why it cannot be told yet: the reading came sooner than the check gives time; empty where it came in time."""
    if not check.wait_seconds or check.query is None:
        return ""
    args = check.query.args
    if check.query.fact == "claim.device-status":
        since = [
            c.allocated_at for c in after.claims if (c.namespace, c.name) == (args["namespace"], args["name"])
        ]
    else:
        since = [c.state.started_at for c in after.components if c.state is not None]
    newest = max((text for text in since if text), default="")
    passed = seconds_between(newest, after.captured_at)
    if passed is None or passed >= check.wait_seconds:
        return ""
    return tr(
        "not yet: read {passed} s after it began, and {wait} s are given; then it was: {reason}",
        reason=reason,
        passed=passed,
        wait=check.wait_seconds,
    )


def judge(check: Check, reading: Reading) -> tuple[Literal["pass", "fail", "unknown"], str]:
    """Hold a reading against what a check expects; what is not known is ``unknown``, never a pass."""
    if not reading.known:
        return "unknown", reading.reason
    expected: Value = check.expected
    if check.compare == "same-as-before":
        if not check.before_known:
            return "unknown", tr("the value before is not known")
        expected = check.before
    if check.compare in ("at-least", "at-most", "filled") and not check.before_known and expected is None:
        return "unknown", tr("the value before is not known")
    wrong = _wrong(check.compare, reading.value, expected, set(reading.gaps))
    if wrong:
        return "fail", wrong
    if reading.gaps:
        gaps = "; ".join(f"{key}: {reason}" for key, reason in reading.gaps.items())
        return "unknown", gaps
    return "pass", ""


def _wrong(how: str, actual: Value, expected: Value, gaps: set[str]) -> str:
    """Why a known value is not what is expected; empty where it is. Keys in ``gaps`` are left out."""
    if how == "filled":
        return "" if actual not in (None, "", (), {}) else tr("it is empty")
    if how == "absent":
        return (
            ""
            if actual in (None, "", (), {}, "no", 0, False)
            else tr("it is there: {value}", value=_shown(actual))
        )
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return _differs(actual, expected)
        wrong = [
            text
            for key, value in expected.items()
            if key not in gaps and (text := _wrong_key(how, actual, key, value))
        ]
        if how in ("equals", "same-as-before", "at-most"):
            extra = sorted(set(actual) - set(expected) - gaps)
            if extra:
                wrong.append(
                    tr(
                        "not expected: {keys}",
                        keys=", ".join(f"{key} {_shown(actual[key])}" for key in extra[:5]),
                    )
                )
        return "; ".join(wrong[:8]) + (" …" if len(wrong) > 8 else "")
    if isinstance(expected, (tuple, list)):
        have = set(actual) if isinstance(actual, (tuple, list)) else {actual}
        return _wrong_set(how, have, set(expected))
    if how == "version":
        return "" if _same_version(actual, expected) else _differs(actual, expected)
    if how in ("at-least", "at-most"):
        return _wrong_number(how, actual, expected)
    if how == "contains":
        return "" if str(expected) in str(actual) else _differs(actual, expected)
    return "" if actual == expected else _differs(actual, expected)


def _wrong_key(how: str, actual: dict[str, Scalar], key: str, value: Scalar) -> str:
    if key not in actual:
        if how == "at-most":
            return ""
        return tr("{key}: not there, expected {expected}", key=key, expected=_shown(value))
    text = _wrong(how, actual[key], value, set())
    return f"{key}: {text}" if text else ""


def _wrong_set(how: str, have: set[Any], wanted: set[Any]) -> str:
    if how == "version":
        odd = sorted(str(item) for item in have if not any(_same_version(item, want) for want in wanted))
        if not have:
            return tr("none was seen")
        if odd and len(odd) == len(have):
            return tr(
                "is {actual}, expected {expected}",
                actual=", ".join(odd),
                expected=", ".join(sorted(map(str, wanted))),
            )
        return tr("also {values}", values=", ".join(odd)) if odd else ""
    missing = sorted(map(str, wanted - have))
    extra = sorted(map(str, have - wanted))
    if how == "at-most":
        return tr("new: {values}", values=", ".join(extra)) if extra else ""
    if how in ("at-least", "contains"):
        return tr("missing: {values}", values=", ".join(missing)) if missing else ""
    parts = []
    if extra:
        parts.append(tr("not expected: {keys}", keys=", ".join(extra)))
    if missing:
        parts.append(tr("missing: {values}", values=", ".join(missing)))
    return "; ".join(parts)


def _wrong_number(how: str, actual: Value, expected: Scalar) -> str:
    if not isinstance(actual, (int, float)) or not isinstance(expected, (int, float)):
        return "" if actual == expected else _differs(actual, expected)
    good = actual >= expected if how == "at-least" else actual <= expected
    return "" if good else _differs(actual, expected)


def _same_version(actual: Value, expected: Scalar) -> bool:
    a = try_version(actual if isinstance(actual, str) else None)
    b = try_version(expected if isinstance(expected, str) else None)
    return a is not None and b is not None and is_release(a, b)


def _shown(value: Value) -> str:
    """A value in words, booleans as Kubernetes writes them."""
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_shown, value)) or tr("none")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) or tr("none")
    if isinstance(value, bool):
        return "true" if value else "false"
    return tr("none") if value is None else str(value)


def _differs(actual: Value, expected: Value) -> str:
    return tr("is {actual}, expected {expected}", actual=_shown(actual), expected=_shown(expected))


# ------------------------------------------------------------------------------------------------ planned


def _components(after: Snapshot) -> dict[str, Component]:
    found = {}
    for item in after.components:
        if item.belongs_to == "this cluster":
            found[f"{item.component} {item.node or item.instance or ''}".strip()] = item
    return found


def _planned(ticket: Ticket, before: Snapshot, after: Snapshot) -> dict[State, list[Deviation]]:
    """Each planned change, by what the second reading says of its subjects."""
    found: dict[State, list[Deviation]] = {"done": [], "not-done": [], "unknown": []}
    components = _components(after)
    fresh = _fresh(before, after)
    for change in ticket.changes:
        groups: dict[Told, list[str]] = {}
        for subject in change.subjects:
            told = _state_of(change, subject, after, components, fresh)
            groups.setdefault(told, []).append(subject)
        doers = {subject: _doers(ticket, change, subject) for subject in change.subjects}
        for (state, actual, why), subjects in sorted(groups.items()):
            steps = _in_order(ticket, (step for subject in subjects for step in doers[subject]))
            by = tr("to be done by {steps}", steps=", ".join(steps)) if state == "not-done" and steps else ""
            found[state].append(
                Deviation(
                    what=_what(change, subjects),
                    before=_shown(change.before),
                    planned=_shown(change.after),
                    actual=actual,
                    count=len(subjects),
                    subjects=tuple(subjects),
                    why=_joined("; ", (why, by)),
                    steps=steps,
                )
            )
    return found


def _doers(ticket: Ticket, change: Change, subject: str) -> tuple[str, ...]:
    """Ids of the steps that make a planned change: those whose checks prove it, on its node where it has one."""
    name, _, node = subject.partition(" ")
    found: list[str] = []
    for check in ticket.checks:
        if check.query is None:
            continue
        fact, args = check.query.fact, check.query.args
        if change.area == "components":
            proves = (fact, name) == ("kubelet.by-node", "kubelet") or (
                fact in ("component.running", "component.daemon-versions") and args.get("component") == name
            )
        elif change.area == "workloads":
            proves = fact == "workload.image" and node == f"{args.get('namespace')}/{args.get('name')}"
        else:
            proves = fact == "kubeadm.version" and name.endswith("/kubeadm-config")
        if proves:
            found += check.steps
    if change.area == "config_maps":
        # Only `kubeadm upgrade apply` writes the version there, which is a step of the control plane; what comes
        # after it (kubeadm upgrade node phase addon) reads it.
        writing = {step.id for step in ticket.steps if step.phase == "control-plane"}
        found = [step for step in found if step in writing] or found
    there = [step.id for step in ticket.steps if step.id in found and node in step.nodes]
    return tuple(there) if change.area == "components" and there else tuple(found)


def _in_order(ticket: Ticket, steps: Iterable[str]) -> tuple[str, ...]:
    """Ids of steps, each once, in the order of the plan."""
    wanted = set(steps)
    return tuple(step.id for step in ticket.steps if step.id in wanted)


def _what(change: Change, subjects: Sequence[str]) -> str:
    if change.area == "components":
        names = list(dict.fromkeys(subject.split(" ")[0] for subject in subjects))
        return ", ".join(names)
    return ", ".join(subjects[:3]) + (" …" if len(subjects) > 3 else "")


def _state_of(
    change: Change, subject: str, after: Snapshot, components: Mapping[str, Component], fresh: tuple[str, ...]
) -> Told:
    wanted = str(change.after)
    if change.area == "components":
        if subject in components:
            return _instance_state(components[subject], wanted)
        return _unseen_state(subject, wanted, after, fresh)
    if change.area == "workloads":
        return _workload_state(subject, wanted, after)
    if change.area == "config_maps":
        return _config_state(subject, wanted, after)
    return "unknown", "", tr("nothing compares it")


def _instance_state(item: Component, wanted: str) -> Told:
    if item.running_version is not None:
        good = _same_version(item.running_version, wanted)
        return ("done" if good else "not-done"), item.running_version, ""
    if _same_version(item.version, wanted):
        why = tr("asked for, not proven: {phase}, no running container says so", phase=item.phase or "-")
        return "unknown", item.version, why
    if item.version == "unobservable":
        return "unknown", "", tr("its version cannot be observed")
    return "not-done", item.version, tr("asked for; nothing newer is")


def _unseen_state(subject: str, wanted: str, after: Snapshot, fresh: tuple[str, ...]) -> Told:
    """Of an instance that the second reading does not show: new nodes may have taken its place."""
    component = subject.partition(" ")[0]
    if fresh and component in ("kubelet", "kube-proxy"):
        good = all(_same_version(version, wanted) for version in fresh)
        return ("done" if good else "not-done"), tr("replaced by new nodes"), ""
    if component == "kubelet" or "pods" in after.kinds_read:
        return "unknown", "", tr("not seen in the second reading")
    return "unknown", "", tr("Pods were not read")


def _workload_state(subject: str, wanted: str, after: Snapshot) -> Told:
    kind, _, name = subject.partition(" ")
    for workload in after.workloads:
        if (workload.kind, f"{workload.namespace}/{workload.name}") != (kind, name):
            continue
        images = sorted(workload.images.values())
        if wanted in images:
            return "done", wanted, ""
        repository = parse_image(wanted).repository
        same = [image for image in images if parse_image(image).repository == repository]
        return "not-done", ", ".join(same or images), ""
    return "unknown", "", tr("not seen in the second reading")


def _config_state(subject: str, wanted: str, after: Snapshot) -> Told:
    for config in after.config_maps:
        if subject.startswith(f"{config.namespace}/{config.name} ") and config.kubernetes_version:
            if _same_version(config.kubernetes_version, wanted):
                return "done", config.kubernetes_version, ""
            why = tr("kubeadm upgrade apply writes it at its end, and the next run of kubeadm starts from it")
            return "not-done", config.kubernetes_version, why
    return "unknown", "", tr("the ConfigMap was not read")


def _fresh(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Kubelet versions of new nodes, where a provider makes nodes anew; empty elsewhere and without new nodes."""
    if distribution(before.cluster.distribution).nodes not in ("pool", "pool-all"):
        return ()
    old = {node.name for node in before.nodes}
    return tuple(sorted({node.kubelet_version for node in after.nodes if node.name not in old}))


def _remedies(ticket: Ticket, results: Sequence[CheckResult]) -> tuple[list[Deviation], list[Deviation]]:
    """Remedies of blockers that a check proves or disproves: a gate still named brings the outage back."""
    done: list[Deviation] = []
    not_done: list[Deviation] = []
    by_id = {item.id: item for item in results}
    for check in ticket.checks:
        if check.query is None or check.query.fact not in ("kubeadm.names-gate", "component.names-gate"):
            continue
        result = by_id[check.id]
        if result.result not in ("pass", "fail"):
            continue
        kubeadm = check.query.fact == "kubeadm.names-gate"
        steps = [step for step in ticket.steps if check.id in step.checks]
        item = Deviation(
            what=check.title,
            before=_shown(check.before),
            planned=_shown(check.expected),
            actual=_shown(result.actual),
            subjects=tuple(str(x) for x in result.actual) if isinstance(result.actual, (tuple, list)) else (),
            why=""
            if result.result == "pass"
            else tr(
                "{steps} was not done: the next run of kubeadm writes {gate} into the manifests again, and the component will not start",
                steps=", ".join(step.id for step in steps if step.phase == "before") or "-",
                gate=check.query.args.get("gate", ""),
            )
            if kubeadm
            else tr("the gate is still set"),
            steps=tuple(step.id for step in steps),
        )
        (done if result.result == "pass" else not_done).append(item)
    return done, not_done


def _unproven(ticket: Ticket, after: Snapshot, comparison: Comparison) -> list[Deviation]:
    """What is neither done nor not done: answers that no instance can be tied to, and what one side could not read."""
    found = []
    answered = sorted(
        {
            (p.component, p.version)
            for p in after.processes
            if p.version and p.node is None and p.component == "kube-apiserver"
        }
    )
    instances = [
        c
        for c in after.components
        if c.component == "kube-apiserver" and c.node and c.belongs_to == "this cluster"
    ]
    for component, version in answered:
        proven = [c for c in instances if _same_version(c.running_version, version)]
        if proven or len(instances) < 2:
            continue
        places = sorted(
            {p.place for p in after.processes if p.version == version and p.component == component}
        )
        found.append(
            Deviation(
                what=tr("one {component} that answers", component=component),
                planned=ticket.to_version,
                actual=version,
                subjects=tuple(places),
                why=tr("it is proven to be {version}, and nothing ties it to a node", version=version),
            )
        )
    one_sided = [item for item in comparison.not_comparable if item.side == "after"]
    if one_sided:
        found.append(
            Deviation(
                what=tr("not read the second time"),
                count=len(one_sided),
                subjects=tuple(item.what for item in one_sided),
                why="; ".join(sorted({unobserved_reason(item.reason) for item in one_sided})),
            )
        )
    return found


LONG = 8
"""Members of a list above which only those are told that the other reading has not."""


_NOTHING: tuple[Value, ...] = (None, {}, ())


def _sides(change: Change) -> tuple[str, str]:
    """What stood before and what stands now, so that the two differ to the eye.

    What came or went without a value that is kept is "there"; of long lists the members are told that differ.
    """
    before, after = change.before, change.after
    if change.kind == "added" and after in _NOTHING:
        return tr("none"), tr("there")
    if change.kind == "removed" and before in _NOTHING:
        return tr("there"), tr("none")
    if isinstance(before, (tuple, list)) and isinstance(after, (tuple, list)):
        same = [item for item in before if item in after]
        gone, came = (tuple(item for item in side if item not in same) for side in (before, after))
        if same and (gone or came) and max(len(before), len(after)) > LONG:
            return tr("{values} beside {n} that stay", values=_shown(gone), n=len(same)), _shown(came)
    return _shown(before), _shown(after)


def _told(item: Explained, code: Literal["", "follows", "with"] = "") -> Deviation:
    """A difference that no planned change names; ``code`` says what it goes with."""
    before, actual = _sides(item.change)
    return Deviation(
        what=item.what,
        before=before,
        actual=actual,
        count=item.change.count,
        subjects=item.change.subjects,
        why=item.why,
        code=code,
    )


# ------------------------------------------------------------------------------------------------ the head


def _outcome(
    counts: Mapping[str, int], not_done: Sequence[Deviation], not_known: Sequence[Deviation], *, proven: bool
) -> Literal["passed", "failed", "incomplete"]:
    """``passed`` only where every check holds, every planned change is known to be done, and the cluster is the ticket's.

    Args:
        counts: Checks by result.
        not_done: Planned changes that are not done.
        not_known: Planned changes of which nothing tells.
        proven: The reading is of the ticket's cluster, or the user says that it shall count.
    """
    if counts.get("fail", 0) or not_done:
        return "failed"
    return "incomplete" if counts.get("unknown", 0) or not_known or not proven else "passed"


NAMED = 4
"""How many things of a kind the headline names."""


def _next(
    ticket: Ticket,
    results: Sequence[CheckResult],
    not_done: Sequence[Deviation],
    roots: Sequence[Deviation],
    early: Sequence[str],
) -> str:
    """What to do first: steps to be done, unplanned changes to be asked about, checks to be looked at or read again."""
    parts = []
    steps = _in_order(ticket, (step for item in not_done for step in item.steps))
    titles = {step.id: step.title for step in ticket.steps}
    if steps:
        parts.append(tr("do {steps}", steps=_list([f"{step} ({titles[step]})" for step in steps])))
    homeless = [item for item in not_done if not item.steps]
    if homeless:
        shown = [f"{item.what} {_short(item.actual)}".strip() for item in homeless]
        parts.append(tr("bring to the target: {items}", items=_list(shown)))
    if roots:
        shown = [_moved(item) for item in roots]
        parts.append(tr("ask who changed what was not planned: {items}", items=_list(shown)))
    if early:
        parts.append(tr("read the cluster again, it was too early for {checks}", checks=_list(early)))
    failed = [item.id for item in results if item.result == "fail"]
    if failed and not parts:
        by_id = {check.id: check.title for check in ticket.checks}
        parts.append(tr("look at {items}", items=_list([f"{check} {by_id[check]}" for check in failed])))
    by_hand = {check.id for check in ticket.checks if check.compare == "manual" or check.query is None}
    unseen = [item.id for item in results if item.result == "unknown" and item.id in by_hand]
    if unseen:
        parts.append(
            tr(
                "look at and attest what no reading shows, {checks} (changegen probe --ticket TICKET -f evidence, then verify with --runtime-evidence)",
                checks=_list(unseen),
            )
        )
    return tr("Next: {what}.", what="; ".join(parts)) if parts else ""


def _list(items: Sequence[str]) -> str:
    if len(items) <= NAMED:
        return ", ".join(items)
    return tr("{names} and {n} more", names=", ".join(items[:NAMED]), n=len(items) - NAMED)


def _moved(item: Deviation) -> str:
    """An unplanned change, with its values where both are known and short."""
    before, after = _short(item.before), _short(item.actual)
    if tr("none") in (before, after) or len(before) + len(after) > 60:
        return item.what
    return f"{item.what} {before} → {after}"


def _headline(
    outcome: str,
    counts: Mapping[str, int],
    not_known: Sequence[Deviation],
    not_done: Sequence[Deviation],
    roots: int,
    total: int,
) -> str:
    """How it ended, in numbers."""
    if outcome == "failed":
        text = tr(
            "{fail} of {n} checks fail, {unknown} are not known; planned and not done: {missing}.",
            fail=counts.get("fail", 0),
            n=total,
            unknown=counts.get("unknown", 0),
            missing=len(not_done),
        )
        if not_done:
            shown = [f"{item.what} {_short(item.actual)}".strip() for item in not_done[:NAMED]]
            text += " " + tr("Not done: {items}.", items="; ".join(shown))
    elif counts.get("unknown", 0):
        text = tr(
            "No check fails, {unknown} of {n} are not known.",
            unknown=counts.get("unknown", 0),
            n=total,
        )
    else:
        text = tr("All {n} checks hold.", n=total)
        if counts.get("attested", 0):
            text += " " + tr("{n} of them are attested by people.", n=counts["attested"])
    if outcome == "incomplete" and not_known:
        named = "; ".join(item.what for item in not_known[:NAMED])
        text += " " + tr("Planned, and not known to be done: {items}.", items=named)
    if roots:
        text += " " + tr("Done and not planned: {n}.", n=roots)
    return text


def _short(actual: str) -> str:
    """An image as its tag: the headline has no room for registries."""
    return actual.rsplit(":", 1)[-1] if "/" in actual and "," not in actual else actual


def _ticked(
    ticket: Ticket, said: Mapping[str, Attestation], not_done: Sequence[Deviation]
) -> tuple[StepWord, ...]:
    """Steps, and steps back, that somebody ticked as done: told with the name, and with what the reading says against it."""
    titles = [(step.id, step.title) for step in ticket.steps]
    titles += [(back.id, back.what) for back in ticket.rollback]
    found = []
    for step, title in titles:
        word = said.get(step)
        if word is None:
            continue
        against = [f"{item.what} {_short(item.actual)}".strip() for item in not_done if step in item.steps]
        found.append(
            StepWord(
                id=step,
                title=title,
                by=word.by,
                note=word.note,
                against=tr("the reading says otherwise: {items}", items="; ".join(against[:NAMED]))
                if against
                else "",
            )
        )
    return tuple(found)


def _times(ticket: Ticket, before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Times of the readings, and of the first and last start that the second one shows and the first does not."""
    old = {c.state.started_at for c in before.components if c.state is not None}
    new = sorted(
        c.state.started_at
        for c in after.components
        if c.state is not None
        and c.state.started_at
        and c.state.started_at not in old
        and c.state.started_at > before.captured_at
    )
    times = {"before": ticket.captured_at, "after": after.captured_at}
    if new:
        times["first_start"] = new[0]
        times["last_start"] = new[-1]
    return {key: value for key, value in times.items() if value}
