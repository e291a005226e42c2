"""Taints: of nodes, of devices by their drivers, and by DeviceTaintRules, today and at the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from changegen import words
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, GateState, names
from changegen.assess.dra import index
from changegen.i18n import tr, trn
from changegen.model.profile import DeviceTaintWish
from changegen.model.snapshot import TaintRule
from changegen.model.ticket import Evidence, Finding, TaintRow
from changegen.taint import TaintBlast, blast_radius, driver_taints, existing_rules, retaint, together

__all__ = ["CODES", "blasts", "findings", "taint_rows"]

RULE_INFORMS = Code(
    code="CG-TAINT-001",
    title="DeviceTaintRule that only informs",
    severity="info",
    meaning="A rule has effect None: nothing happens. What it would do with NoExecute is told.",
    remedy="Raise the effect step by step, or remove the rule.",
)
RULE_ACTS = Code(
    code="CG-TAINT-002",
    title="DeviceTaintRule in force",
    severity="warning",
    others=("info",),
    meaning="A rule keeps new claims from devices (NoSchedule) or also deletes the Pods that hold them (NoExecute). "
    "PodDisruptionBudgets are not asked.",
    remedy="Remove it where the maintenance is over, or agree on it with the owners of the Pods.",
)
RULE_ALL = Code(
    code="CG-TAINT-003",
    title="DeviceTaintRule for every device",
    severity="warning",
    others=("blocking", "info"),
    meaning="An empty deviceSelector takes every device of every driver.",
    remedy="Name driver, pool or device.",
)
RULE_NO_SELECTOR = Code(
    code="CG-TAINT-004",
    title="DeviceTaintRule without a selector",
    severity="warning",
    others=("blocking", "info"),
    meaning="A rule without a deviceSelector is for no device by the API. The scheduler before 1.37.1 takes it for every "
    "device, so that no new claim gets one; the eviction controller never did.",
    remedy="Give the rule a selector, or remove it.",
)
RULE_NOTHING = Code(
    code="CG-TAINT-005",
    title="DeviceTaintRule that selects nothing",
    severity="warning",
    meaning="No device that is published or allocated has the driver, pool and device that the rule names.",
    remedy="Correct the names; pool names are often node names.",
)
DRIVER_TAINTS = Code(
    code="CG-TAINT-006",
    title="Devices tainted by their driver",
    severity="warning",
    others=("info",),
    meaning="A driver reports devices as unfit by a taint in its slice.",
    remedy="Look at the devices with the driver's owner; with NoExecute their Pods are deleted.",
)
RULE_WAKES = Code(
    code="CG-TAINT-007",
    title="DeviceTaintRule that starts to act at the target",
    severity="warning",
    others=("blocking", "info"),
    meaning="A rule exists that no component acts on today, or not all, since DRADeviceTaintRules or DRADeviceTaints is off; at "
    "the target the gates are on, and the rule acts.",
    remedy="Look at the rule's effect and what it selects before the change; remove it or set None.",
)
WHOLE_NODE = Code(
    code="CG-TAINT-008",
    title="Device taint that closes whole nodes",
    severity="warning",
    meaning="Every device of a driver on a node has a taint that keeps claims away.",
    remedy="Make sure that this is meant; other nodes take the load.",
)
DEVICE_WISH = Code(
    code="CG-TAINT-010",
    title="Device taint not as the profile wants",
    severity="warning",
    meaning="The profile expects a device taint that is not there, or forbids one that is.",
    remedy="Apply or remove the rule, or correct the profile.",
)
OLD_FIELDS = Code(
    code="CG-TAINT-011",
    title="DeviceTaintRule with selector fields that are gone",
    severity="warning",
    others=("blocking",),
    meaning="deviceClassName and CEL selectors of DeviceTaintRule were dropped in 1.35. Where the field is not refused it is "
    "ignored, and the rule selects more devices than meant, up to all.",
    remedy="Rewrite the rule with driver, pool and device.",
)
PLANNED = Code(
    code="CG-TAINT-012",
    title="Device taint rollout of the profile",
    severity="info",
    others=("warning",),
    meaning="The profile plans a device taint: whom it would hit.",
    remedy="Bring it out in steps: None, NoSchedule, NoExecute after the owners agree, removal.",
)
NEWLY_EVICTED = Code(
    code="CG-TAINT-013",
    title="NoExecute taint that evicts more Pods at the target",
    severity="blocking",
    meaning="A taint with NoExecute is in force, and Pods that hold tainted devices by an extended resource are left alone by "
    "today's taint controller. That of 1.37 evicts them, as soon as it leads.",
    remedy="Remove the taint or set a milder effect before the change, or agree on the eviction with the owners.",
)
CODES = (
    NEWLY_EVICTED,
    RULE_INFORMS,
    RULE_ACTS,
    RULE_ALL,
    RULE_NO_SELECTOR,
    RULE_NOTHING,
    DRIVER_TAINTS,
    RULE_WAKES,
    WHOLE_NODE,
    DEVICE_WISH,
    OLD_FIELDS,
    PLANNED,
)

GATES: Final = ("DRADeviceTaints", "DRADeviceTaintRules")
_ACTORS: Final = ("kube-scheduler", "kube-controller-manager")
RULES: Final = "devicetaintrules.resource.k8s.io"


def blasts(ctx: Context) -> tuple[TaintBlast, ...]:
    """Blast radius of every rule of the cluster, then of drivers' taints, then of rollouts that the profile plans."""
    at = index(ctx)
    planned = tuple(
        blast_radius(ctx.snapshot, _rule_of(wish), index=at, version=_target(ctx))
        for wish in ctx.profile.taints.devices
        if wish.expect == "rollout"
    )
    return (*existing_rules(ctx.snapshot, at), *driver_taints(ctx.snapshot, at), *planned)


def _target(ctx: Context) -> str | None:
    """Release by which the target's taint controller is judged: the data's release of the minor where only that is wished."""
    wish = ctx.target_of("kube-controller-manager")
    if wish is None or wish.version is None:
        return None
    if wish.version.patch is not None:
        return wish.version.raw
    return ctx.data.release(wish.version).version if ctx.data.knows(wish.version) else None


def _at_target(ctx: Context, blast: TaintBlast) -> TaintBlast:
    """The same taint as the target's components take it."""
    version = _target(ctx)
    if version is None:
        return blast
    return retaint(ctx.snapshot, blast, version=version, index=index(ctx))


def _rule_of(wish: DeviceTaintWish) -> TaintRule:
    some = bool(wish.driver or wish.pool or wish.device)
    return TaintRule(
        name="",
        selector="some" if some else "all",
        driver=wish.driver,
        pool=wish.pool,
        device=wish.device,
        key=wish.key,
        value=wish.value or "",
        effect=wish.effect or "NoExecute",
    )


def _actors(ctx: Context, at: Literal["today", "target"]) -> tuple[bool | None, list[str]]:
    """(whether every scheduler and controller-manager acts on rules, those that do not): None where one is not known."""
    asleep: list[str] = []
    unknown = False
    for component in _ACTORS:
        states: list[GateState] = [
            state for gate in GATES for state in ctx.gate_states(gate, (component,), at)
        ]
        if not states:
            unknown = True
        for state in states:
            if state.value is False:
                asleep.append(f"{state.component} {state.node or state.instance} ({state.gate})")
            unknown = unknown or state.value is None
    if asleep:
        return False, sorted(set(asleep))
    return (None if unknown else True), []


# ---------------------------------------------------------------------------------------------------------------- rows


def taint_rows(ctx: Context) -> tuple[TaintRow, ...]:
    """Node taints grouped by node list, device taints of drivers, and rules with what they do today and at the target."""
    rows: list[TaintRow] = []
    nodes: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for node in ctx.snapshot.nodes:
        for taint in node.taints:
            nodes[taint.key, taint.value, taint.effect].append(node.name)
    rows.extend(
        TaintRow(kind="node", subject=names(found), key=key, value=value, effect=effect)
        for (key, value, effect), found in sorted(nodes.items())
    )
    today, _ = _actors(ctx, "today")
    target, _ = _actors(ctx, "target") if ctx.target is not None else (None, [])
    for blast in blasts(ctx):
        rule = blast.rule
        if blast.source == "driver":
            subject = names(f"{d.driver}/{d.pool}/{d.device}" for d in blast.devices)
            rows.append(
                TaintRow(
                    kind="device",
                    subject=subject,
                    key=rule.key,
                    value=rule.value,
                    effect=rule.effect,
                    today=_reach(blast),
                )
            )
        elif blast.source == "rule":
            rows.append(
                TaintRow(
                    kind="rule",
                    subject=rule.name,
                    key=rule.key,
                    value=rule.value,
                    effect=rule.effect,
                    today=f"{_acts(today)}; {_reach(blast)}",
                    at_target=_acts(target) if ctx.target is not None else "",
                )
            )
    return tuple(rows)


def _acts(acts: bool | None) -> str:
    if acts is None:
        return tr("whether all components act on it is not known")
    return tr("all components act on it") if acts else tr("not all components act on it")


def _more(blast: TaintBlast) -> str:
    return "; " + tr("ResourceSlices were not read whole: it may be more") if blast.slices_unread else ""


def _reach(blast: TaintBlast) -> str:
    return _reach_seen(blast) + _more(blast)


def _reach_seen(blast: TaintBlast) -> str:
    if blast.claims_unread:
        return tr("{devices}; what is allocated is not known", devices=words.devices(len(blast.devices)))
    return tr(
        "{devices}, {allocated} allocated, NoExecute would evict {pods}",
        devices=words.devices(len(blast.devices)),
        allocated=blast.allocated,
        pods=words.pods(len(blast.evicted)),
    )


# ------------------------------------------------------------------------------------------------------------ findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on taints."""
    for blast in blasts(ctx):
        if blast.source != "planned" and blast.rule.effect == "NoExecute":
            yield from _newly(ctx, blast)
        if blast.source == "rule":
            yield from _rule(ctx, blast)
        elif blast.source == "driver":
            yield from _driver(blast)
        else:
            yield _planned_alone(blast)
    yield from _planned_together(ctx)
    yield from _closed_nodes(ctx)
    yield from _device_wishes(ctx)


def _seen(blast: TaintBlast) -> Evidence:
    rule = blast.rule
    where = {"none": "(no selector)", "all": "{}"}.get(rule.selector, "")
    where = where or "/".join(text or "*" for text in (rule.driver, rule.pool, rule.device))
    return Evidence(
        source=f"DeviceTaintRule {rule.name}" if blast.source == "rule" else "ResourceSlices",
        path="spec" if blast.source == "rule" else "spec.devices[].taints",
        value=f"{where} {rule.key}{'=' + rule.value if rule.value else ''}:{rule.effect}",
        provenance="api object",
    )


def _counts(blast: TaintBlast) -> str:
    return _counts_seen(blast) + _more(blast)


def _counts_seen(blast: TaintBlast) -> str:
    if blast.claims_unread:
        return tr(
            "{devices} selected; ResourceClaims were not read, so whom it would hit is not known",
            devices=words.devices(blast.published),
        )
    pods = [f"{pod.namespace}/{pod.name}" for pod in blast.evicted]
    text = tr(
        "{devices} selected, {allocated} allocated, {pods} would be evicted",
        devices=words.devices(blast.published),
        allocated=blast.allocated,
        pods=words.pods(len(pods)),
    )
    text += f" ({names(pods)})" if pods else ""
    spared = sum(pod.outcome == "spared" for pod in blast.pods)
    if spared:
        text += ", " + trn(
            "{n} that holds devices by an extended resource is spared before 1.37",
            "{n} that hold devices by an extended resource are spared before 1.37",
            n=spared,
        )
    if blast.homeless:
        text += ", " + trn(
            "{n} of which finds no device then", "{n} of which find no device then", n=len(blast.homeless)
        )
    if blast.groups:
        text += ", " + tr("and the Pods of PodGroups {groups}", groups=names(blast.groups))
    return text


def _whom(blast: TaintBlast) -> str:
    text = _counts(blast)
    return text + "; " + tr("PodDisruptionBudgets are not asked") if blast.evicted else text


def _rule(ctx: Context, blast: TaintBlast) -> Iterator[Finding]:
    rule = blast.rule
    acting = rule.effect in {"NoSchedule", "NoExecute"}
    if rule.other_selectors:
        yield finding(
            OLD_FIELDS,
            tr(
                "Rule {rule} has {fields}, dropped in 1.35; what is left selects {devices}",
                rule=rule.name,
                fields=", ".join(rule.other_selectors),
                devices=words.devices(len(blast.devices)),
            ),
            component="DeviceTaintRule",
            name=rule.name,
            evidence=[_seen(blast)],
        )
    if rule.selector == "none":
        text = (blast.warnings or (tr("There is no selector"),))[0]
        harmful = blast.scheduling_all is not False and acting
        yield finding(
            RULE_NO_SELECTOR,
            tr("Rule {rule}: {text}", rule=rule.name, text=text),
            component="DeviceTaintRule",
            name=rule.name,
            severity="warning" if harmful else "info",
            evidence=[_seen(blast)],
        )
        return
    if rule.selector == "all":
        yield finding(
            RULE_ALL,
            tr("Rule {rule} takes every device: {whom}", rule=rule.name, whom=_whom(blast)),
            component="DeviceTaintRule",
            name=rule.name,
            severity="warning" if acting else "info",
            evidence=[_seen(blast)],
        )
    elif not blast.devices and "resourceslices.resource.k8s.io" in ctx.snapshot.kinds_read:
        yield finding(
            RULE_NOTHING,
            tr(
                "Rule {rule} selects nothing: no device {driver}/{pool}/{device}",
                rule=rule.name,
                driver=rule.driver or "*",
                pool=rule.pool or "*",
                device=rule.device or "*",
            ),
            component="DeviceTaintRule",
            name=rule.name,
            evidence=[_seen(blast)],
        )
        return
    if rule.effect == "None" and rule.selector == "some":
        yield finding(
            RULE_INFORMS,
            tr(
                "Rule {rule} (effect None) informs only. With NoExecute: {whom}; PodDisruptionBudgets would not be asked",
                rule=rule.name,
                whom=_counts(blast),
            ),
            component="DeviceTaintRule",
            name=rule.name,
            evidence=[_seen(blast)],
        )
    elif acting and rule.selector == "some":
        yield finding(
            RULE_ACTS,
            tr("Rule {rule} ({effect}): {whom}", rule=rule.name, effect=rule.effect, whom=_whom(blast)),
            component="DeviceTaintRule",
            name=rule.name,
            severity="warning" if rule.effect == "NoExecute" and blast.evicted else "info",
            evidence=[_seen(blast), *_condition(rule)],
            preexisting=True,
        )
    yield from _wakes(ctx, blast)


def _condition(rule: TaintRule) -> Iterator[Evidence]:
    for condition in rule.conditions:
        yield Evidence(
            source=f"DeviceTaintRule {rule.name}",
            path=f"status.conditions[{condition.type}]",
            value=f"{condition.status} {condition.reason}",
            provenance="api object",
        )


def _wakes(ctx: Context, blast: TaintBlast) -> Iterator[Finding]:
    """A rule that not every component acts on today and that all will act on."""
    if ctx.target is None:
        return
    today, asleep = _actors(ctx, "today")
    target, _ = _actors(ctx, "target")
    if today is not False or target is not True:
        return
    blast = _at_target(ctx, blast)
    rule = blast.rule
    executes = rule.effect == "NoExecute" and bool(blast.evicted)
    yield finding(
        RULE_WAKES,
        tr(
            "Rule {rule} ({effect}) is not acted on by {asleep} today and by all at the target: {whom}",
            rule=rule.name,
            effect=rule.effect,
            asleep=names(asleep),
            whom=_whom(blast) if rule.effect != "None" else tr("effect None informs only"),
        ),
        component="DeviceTaintRule",
        name=rule.name,
        severity="blocking" if executes else "info" if rule.effect == "None" else None,
        evidence=[_seen(blast)],
    )


def _newly(ctx: Context, blast: TaintBlast) -> Iterator[Finding]:
    """Pods that today's taint controller spares and the target's evicts."""
    if not any(pod.outcome == "spared" for pod in blast.pods):
        return
    today = {(pod.namespace, pod.name) for pod in blast.evicted}
    more = [pod for pod in _at_target(ctx, blast).evicted if (pod.namespace, pod.name) not in today]
    if not more:
        return
    rule = blast.rule
    shown = f"DeviceTaintRule {rule.name}" if blast.source == "rule" else f"{rule.driver} {rule.key}"
    yield finding(
        NEWLY_EVICTED,
        trn(
            "{taint} (NoExecute): {pods} holds tainted devices by an extended resource and is left alone today; the taint "
            "controller of the target evicts it, without asking PodDisruptionBudgets",
            "{taint} (NoExecute): {pods} hold tainted devices by an extended resource and are left alone today; the taint "
            "controller of the target evicts them, without asking PodDisruptionBudgets",
            n=len(more),
            taint=shown,
            pods=names(f"{pod.namespace}/{pod.name}" for pod in more),
        ),
        component="DeviceTaintRule" if blast.source == "rule" else "driver",
        instances=[f"{pod.namespace}/{pod.name}" for pod in more],
        name=rule.name if blast.source == "rule" else shown,
        evidence=[_seen(blast)],
    )


def _driver(blast: TaintBlast) -> Iterator[Finding]:
    rule = blast.rule
    acting = rule.effect in {"NoSchedule", "NoExecute"}
    yield finding(
        DRIVER_TAINTS,
        tr(
            "{driver} taints {devices} with {taint}: {whom}",
            driver=rule.driver,
            devices=names(f"{d.pool}/{d.device}" for d in blast.devices),
            taint=f"{rule.key}{'=' + rule.value if rule.value else ''}:{rule.effect}",
            whom=_whom(blast)
            if rule.effect == "NoExecute" or blast.claims_unread
            else trn("{n} of them is allocated", "{n} of them are allocated", n=blast.allocated),
        ),
        component="driver",
        instances=[f"{d.pool}/{d.device}" for d in blast.devices],
        name=f"{rule.driver} {rule.key}",
        severity="warning" if acting else "info",
        evidence=[_seen(blast)],
        preexisting=True,
    )


def _planned(text: str, name: str, blast: TaintBlast) -> Finding:
    return finding(
        PLANNED,
        "; ".join((text, *blast.warnings)),
        component="device taint",
        name=name,
        severity="warning" if blast.warnings or blast.evicted else None,
        evidence=[_seen(blast)],
    )


def _planned_alone(blast: TaintBlast) -> Finding:
    rule = blast.rule
    return _planned(
        tr("Planned {taint}: {whom}", taint=f"{rule.key}:{rule.effect}", whom=_whom(blast)),
        f"{rule.key} {'/'.join(t or '*' for t in (rule.driver, rule.pool, rule.device))}",
        blast,
    )


def _planned_together(ctx: Context) -> Iterator[Finding]:
    """What rollouts of one taint do together: each may leave a node something, and all of them nothing."""
    rules: defaultdict[tuple[str, str], list[TaintRule]] = defaultdict(list)
    for wish in ctx.profile.taints.devices:
        if wish.expect == "rollout":
            rules[wish.key, wish.value or ""].append(_rule_of(wish))
    for (key, value), group in sorted(rules.items()):
        if len(group) < 2:
            continue
        taint = f"{key}={value}" if value else key
        blast = together(ctx.snapshot, group, version=_target(ctx), index=index(ctx))
        text = trn(
            "{n} planned rule of {taint}: {whom}",
            "{n} planned rules of {taint} together: {whom}",
            n=len(group),
            taint=taint,
            whom=_whom(blast),
        )
        yield _planned(text, taint, blast)


def _closed_nodes(ctx: Context) -> Iterator[Finding]:
    at = index(ctx)
    totals: Counter[tuple[str, str]] = Counter()
    shut: Counter[tuple[str, str]] = Counter()
    for key, device in at.devices.items():
        if device.node:
            totals[key.driver, device.node] += 1
            shut[key.driver, device.node] += at.closed(key)
    by_driver: defaultdict[str, list[str]] = defaultdict(list)
    for (driver, node), n in totals.items():
        if shut[driver, node] == n:
            by_driver[driver].append(node)
    for driver, nodes in sorted(by_driver.items()):
        yield finding(
            WHOLE_NODE,
            tr("Every device of {driver} on {nodes} is tainted", driver=driver, nodes=names(nodes)),
            component="driver",
            instances=nodes,
            name=driver,
            preexisting=True,
        )


def _not_as_wished(text: str, shown: str, where: Iterable[str]) -> Finding:
    return finding(DEVICE_WISH, text, component="device taint", instances=where, name=shown)


def _device_wishes(ctx: Context) -> Iterator[Finding]:
    at = index(ctx)
    read = ctx.snapshot.kinds_read
    for wish in ctx.profile.taints.devices:
        if wish.expect == "rollout":
            continue
        found = sorted(
            {
                source if source != "driver" else str(key)
                for key in at.devices
                if (not wish.driver or wish.driver == key.driver)
                and (not wish.pool or wish.pool == key.pool)
                and (not wish.device or wish.device == key.device)
                for name, value, effect, source in at.taints(key)
                if name == wish.key
                and (wish.value is None or wish.value == value)
                and (not wish.effect or wish.effect == effect)
            }
        )
        shown = (
            f"{wish.key}{'=' + wish.value if wish.value else ''}{':' + wish.effect if wish.effect else ''}"
        )
        if wish.expect == "absent" and found:
            text = tr("Device taint {taint} is there: {where}", taint=shown, where=names(found))
            yield _not_as_wished(text, shown, found)
        elif wish.expect == "present" and not found and RULES in read:
            yield _not_as_wished(tr("No device has taint {taint}", taint=shown), shown, ())
