"""Troubles with devices that a snapshot shows: the likely causes in order, with the next commands by their real names.

Events are told by reason and object: their wording changes between minors. A Pod's cause is computed from slices, claims,
taints and labels; what the scheduler said is shown beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from changegen.assess.allocate import MAX_DEVICES, Need
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, names
from changegen.assess.dra import DeviceId, DeviceIndex, driver_log, index, owner_text
from changegen.assess.selectors import judge
from changegen.assess.simulation import Simulation, simulation
from changegen.i18n import tr, trn
from changegen.model.base import Model
from changegen.model.snapshot import EventFact, Lease, PodUse
from changegen.model.ticket import Evidence, Finding
from changegen.quantity import count
from changegen.shell import word
from changegen.taint import TaintBlast, existing_rules

__all__ = ["CODES", "Cause", "findings", "leader_log", "pending_causes"]

PENDING = Code(
    code="CG-PENDING-001",
    title="Pod with devices Pending before the change",
    severity="info",
    others=("warning",),
    meaning="A Pod that uses devices is not scheduled, and was not before the change. The cause is computed from what was read.",
    remedy="Mend it or leave it; the change is not to be blamed for it.",
)
PREPARE = Code(
    code="CG-EVENT-001",
    title="Preparing of devices failed",
    severity="warning",
    meaning="Kubelets reported FailedPrepareDynamicResources: the driver on the node did not prepare a claim's devices.",
    remedy="Read the log of the driver's Pod on that node.",
)
EVICTED = Code(
    code="CG-EVENT-002",
    title="Pods evicted for a device taint",
    severity="info",
    meaning="Events DeviceTaintManagerEviction: the taint controller marked Pods for deletion, or took that back.",
    remedy="See which rule or driver taint it was, and whether something made the Pods again.",
)
CLAIM_CREATION = Code(
    code="CG-EVENT-003",
    title="ResourceClaims could not be made",
    severity="warning",
    meaning="Events FailedResourceClaimCreation of kube-controller-manager: claims of a template were not made, and the Pods wait.",
    remedy="Look at the template, its quota, and the log of the leading kube-controller-manager.",
)
STILL_HELD = Code(
    code="CG-TROUBLE-001",
    title="Devices still held in spite of NoExecute",
    severity="warning",
    meaning="A rule with NoExecute selects devices that claims still hold: the Pods tolerate the taint, are being deleted, or "
    "the taint controller does not act.",
    remedy="Look at the rule's condition, the tolerations in the claims, and the gates of kube-controller-manager.",
)
CODES = (PENDING, PREPARE, EVICTED, CLAIM_CREATION, STILL_HELD)

GATE: Final = "DRAExtendedResource"


class Cause(Model, frozen=True, kw_only=True):
    """A likely cause with the commands that tell more."""

    text: str
    commands: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------------ commands


def leader_log(ctx: Context, component: str) -> str:
    """The command for the log of a component's leader, by its lease; empty where no Pod of it is seen.

    A gate that is missing on one replica matters only while that one leads.
    """
    lease: Lease | None = next((found for found in ctx.snapshot.leases if found.name == component), None)
    instances = [c for c in ctx.of(component) if c.instance and "/" in c.instance]
    if not instances:
        return ""
    host = lease.holder.rpartition("_")[0] if lease is not None else ""
    hostnames = {node.hostname: node.name for node in ctx.snapshot.nodes if node.hostname}
    wanted = {host, hostnames.get(host, "")} - {""}
    leading = [c for c in instances if c.node in wanted]
    chosen = leading[0] if leading else instances[0]
    namespace, _, name = (chosen.instance or "").partition("/")
    note = (
        ""
        if leading
        else f"  # {component} that leads: not known"
        if not host
        else f"  # leader by its lease: {word(host)}"
    )
    return f"kubectl -n {word(namespace)} logs {word(name)} --tail=200{note}"


# ------------------------------------------------------------------------------------------------------------- pending


def pending_causes(ctx: Context, pod: PodUse) -> tuple[Cause, ...]:
    """Why a Pod that uses devices is probably not scheduled; empty where nothing of what was read explains it."""
    at, made = index(ctx), simulation(ctx)
    describe = f"kubectl -n {word(pod.namespace)} describe pod {word(pod.name)}"
    found = [
        Cause(
            text=tr(
                "the claim of {name} was not made from template {template} yet",
                name=use.pod_claim,
                template=f"{pod.namespace}/{use.template}",
            ),
            commands=(describe, leader_log(ctx, "kube-controller-manager")),
        )
        for use in pod.claims
        if not use.claim and use.template
    ]
    waiting = [*_not_ready(at, pod)]
    stopped = [stop.text for stop in made.stops(pod) if stop.certain] if _allocates(at, pod) else []
    if waiting:
        found.extend(waiting)
    elif stopped:
        found.append(
            Cause(
                text=tr(
                    "the scheduler gives up on it with an error, whichever node has devices: {why}",
                    why="; ".join(stopped[:3]),
                ),
                commands=("kubectl get resourceslices -o wide",),
            )
        )
    else:
        for need in made.needs(pod):
            found.extend(_need(ctx, at, made, pod, need))
    return tuple(
        Cause(text=cause.text, commands=tuple(c for c in (*cause.commands, describe) if c)) for cause in found
    )


def _allocates(at: DeviceIndex, pod: PodUse) -> bool:
    """Whether the scheduler has something to allocate for a Pod: its claims are not all allocated yet."""
    claims = [at.claims.get((pod.namespace, use.claim)) for use in pod.claims if use.claim]
    return (
        bool(pod.asks)
        or len(claims) < len(pod.claims)
        or not all(c is not None and c.devices for c in claims)
    )


def _not_ready(at: DeviceIndex, pod: PodUse) -> Iterator[Cause]:
    """Binding conditions that the driver has not reported yet: the claim is allocated, and the Pod is bound after them."""
    for claim in at.claims_of_pod.get((pod.namespace, pod.name), ()):
        for result in claim.devices:
            device = at.devices.get(DeviceId(result.driver, result.pool, result.device))
            reported = {
                condition.type
                for status in claim.device_status
                if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device)
                for condition in status.conditions
                if condition.status == "True"
            }
            missing = sorted(set(device.binding_conditions) - reported) if device is not None else []
            if missing:
                yield Cause(
                    text=tr(
                        "claim {claim} is allocated; the scheduler binds the Pod when {driver} reports {conditions} of device "
                        "{device}",
                        claim=f"{claim.namespace}/{claim.name}",
                        driver=result.driver,
                        conditions=", ".join(missing),
                        device=f"{result.pool}/{result.device}",
                    ),
                    commands=(
                        f"kubectl -n {word(claim.namespace)} get resourceclaim {word(claim.name)} -o jsonpath='{{.status.devices}}'",
                    ),
                )


def _need(ctx: Context, at: DeviceIndex, made: Simulation, pod: PodUse, need: Need) -> Iterator[Cause]:
    classes = (
        "kubectl get deviceclasses -o custom-columns=NAME:.metadata.name,RESOURCE:.spec.extendedResourceName"
    )
    slices = "kubectl get resourceslices -o 'custom-columns=NODE:.spec.nodeName,DRIVER:.spec.driver,DEVICES:.spec.devices[*].name'"
    plugin = {name: count(node.allocatable.get(need.resource, "0")) for name, node in at.nodes.items()}
    by_plugin = {name: n for name, n in plugin.items() if need.extended and n}
    if not need.class_name and not by_plugin:
        if "deviceclasses.resource.k8s.io" in ctx.snapshot.kinds_read and "nodes" in ctx.snapshot.kinds_read:
            yield Cause(
                text=tr("no node has {resource} and no DeviceClass names it", resource=need.resource),
                commands=(classes,),
            )
        return
    if need.class_name and need.class_name not in at.classes and not need.extended:
        yield Cause(text=tr("DeviceClass {name} does not exist", name=need.class_name), commands=(classes,))
        return
    if need.amount > MAX_DEVICES and not by_plugin:
        yield Cause(
            text=tr(
                "it wants {n} of {resource}, a claim holds at most {most}",
                n=need.amount,
                resource=need.resource,
                most=MAX_DEVICES,
            )
        )
        return
    if need.extended and not by_plugin:
        off = [s for s in ctx.gate_states(GATE, ("kube-scheduler", "kube-apiserver")) if s.value is False]
        if off:
            yield Cause(
                text=tr(
                    "{gate} is off on {where}", gate=GATE, where=names(f"{s.component} {s.node}" for s in off)
                ),
                commands=(leader_log(ctx, "kube-scheduler"),),
            )
    members = at.certain_members(need.class_name, need.selectors) if need.class_name else ()
    if not members and not by_plugin:
        yield from _no_device(ctx, at, need, slices)
        return
    per_node: defaultdict[str, int] = defaultdict(int)
    for key in members:
        per_node[at.devices[key].node or ""] += 1
    for name, n in by_plugin.items():
        per_node[name] = n
    shared = per_node.pop("", 0)
    most = max(per_node.values(), default=0) + shared
    allowed = made.obstacles(pod)
    if need.amount > most:
        yield Cause(
            text=tr(
                "it wants {n} of {resource}, no node has more than {most}",
                n=need.amount,
                resource=need.resource,
                most=most,
            ),
            commands=(slices,),
        )
        return
    large = {name for name, n in per_node.items() if n + shared >= need.amount}
    barred = {name: allowed.get(name, "") for name in large if allowed.get(name, "")}
    fitting = {name for name in large if name not in barred and made.available(name, need) >= need.amount}
    if fitting:
        unseen = made.unseen(pod)
        if not set(made.nodes_for(pod)) & fitting:
            text = tr(
                "devices of {resource} are free on {nodes}, but none of them meets all requests and constraints of its "
                "claims together",
                resource=need.resource,
                nodes=names(fitting),
            )
        elif unseen:
            text = tr(
                "devices are free on {nodes}: something else keeps it away, perhaps {what}",
                nodes=names(fitting),
                what=", ".join(unseen),
            )
        else:
            text = tr(
                "devices are free on {nodes}, and CPU, memory and node affinity fit: something else keeps it away (a quota, "
                "the scheduler's queue), or it was only just made",
                nodes=names(fitting),
            )
        yield Cause(text=text, commands=(leader_log(ctx, "kube-scheduler"),))
        return
    reasons: list[str] = []
    if barred:
        by_why: defaultdict[str, list[str]] = defaultdict(list)
        for name, why in barred.items():
            by_why[why].append(name)
        reasons.extend(f"{names(nodes)} {why}" for why, nodes in sorted(by_why.items()))
    tainted = sorted(
        {at.devices[k].node or k.pool for k in members if at.free(k) and at.closed(k, need.tolerations)}
    )
    if tainted:
        reasons.append(tr("free devices on {nodes} are tainted", nodes=names(tainted)))
    unfinished = {f"{k.driver}/{k.pool}" for k in members if (k.driver, k.pool) in made.unfinished}
    if unfinished:
        reasons.append(
            trn(
                "pool {pools} is not complete or not valid, and gives nothing",
                "pools {pools} are not complete or not valid, and give nothing",
                n=len(unfinished),
                pools=names(unfinished),
            )
        )
    whole = {at.devices[k].node or "" for k in members if (k.driver, k.pool) not in made.unfinished}
    open_nodes = {
        name for name in large if name not in barred and (name in whole or "" in whole or name in by_plugin)
    }
    if open_nodes:
        reasons.append(tr("too few are free on {nodes}", nodes=names(open_nodes)))
    yield Cause(
        text=tr(
            "it wants {n} of {resource}: {reasons}",
            n=need.amount,
            resource=need.resource,
            reasons="; ".join(reasons),
        ),
        commands=("kubectl get resourceclaims -A",),
    )


def _no_device(ctx: Context, at: DeviceIndex, need: Need, slices: str) -> Iterator[Cause]:
    if "resourceslices.resource.k8s.io" not in ctx.snapshot.kinds_read:
        return
    device_class = at.classes.get(need.class_name)
    whole = at.members(need.class_name)
    if whole and need.selectors:
        yield Cause(
            text=tr("no device of class {name} satisfies the request's selectors", name=need.class_name),
            commands=(slices,),
        )
        return
    for key, device in at.devices.items():
        for expression in device_class.selectors if device_class is not None else ():
            verdict = judge(expression, key.driver, device)
            if verdict.error:
                yield Cause(
                    text=tr(
                        "a selector of class {name} fails on {device}: {error}",
                        name=need.class_name,
                        device=str(key),
                        error=verdict.error,
                    ),
                    commands=(f"kubectl get deviceclass {word(need.class_name)} -o yaml",),
                )
                return
            if verdict.takes is False:
                break
    drivers = [
        d
        for d in ctx.snapshot.drivers
        if device_class is not None and any(d.driver in expression for expression in device_class.selectors)
    ]
    if drivers and not any(d.devices for d in drivers):
        logs = [driver_log(d, (d.pod_nodes or ("NODE",))[0]) for d in drivers if d.pod_nodes]
        yield Cause(
            text=tr("driver {drivers} reports no device", drivers=names(d.driver for d in drivers)),
            commands=(slices, *logs),
        )
        return
    yield Cause(text=tr("no published device is of class {name}", name=need.class_name), commands=(slices,))


def _scheduler_said(pod: PodUse) -> str:
    condition = pod.scheduled
    if condition is None or condition.status == "True":
        return ""
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


# ----------------------------------------------------------------------------------------------------------- troubles


def _pending(ctx: Context) -> list[PodUse]:
    return [
        pod
        for pod in ctx.snapshot.pods
        if pod.uses_devices and pod.phase == "Pending" and not pod.node and not pod.deleting_since
    ]


def _event(event: EventFact) -> str:
    return f"{event.reason} x{event.count} ({event.source}{', ' + event.node if event.node else ''}) {event.last}"


def _node_of(ctx: Context, event: EventFact) -> str:
    pod = ctx.pods.get(f"{event.namespace}/{event.name}")
    return event.node or (pod.node if pod is not None else "")


def _prepare_commands(ctx: Context, event: EventFact) -> Iterator[str]:
    selector = word(f"involvedObject.name={event.name},reason={event.reason}")
    yield f"kubectl -n {word(event.namespace)} get events --field-selector {selector}"
    node = _node_of(ctx, event)
    pod = ctx.pods.get(f"{event.namespace}/{event.name}")
    held = {d.driver for d in index(ctx).devices_of_pod(pod)} if pod is not None else set()
    for driver in ctx.snapshot.drivers:
        if node and (not held or driver.driver in held) and driver.workload is not None:
            yield driver_log(driver, node)


def _held(ctx: Context) -> list[TaintBlast]:
    return [
        blast
        for blast in existing_rules(ctx.snapshot, index(ctx))
        if blast.rule.effect == "NoExecute" and blast.rule.selector != "none" and blast.allocated
    ]


def _held_causes(ctx: Context, blast: TaintBlast) -> Iterator[Cause]:
    stays = [f"{pod.namespace}/{pod.name}" for pod in blast.pods if pod.outcome == "stays"]
    later = [f"{pod.namespace}/{pod.name}" for pod in blast.pods if pod.outcome == "evicted-later"]
    off = [
        s
        for gate in ("DRADeviceTaints", "DRADeviceTaintRules")
        for s in ctx.gate_states(gate, ("kube-controller-manager",))
        if s.value is False
    ]
    if off:
        yield Cause(
            text=tr(
                "{gate} is off on {where}",
                gate=off[0].gate,
                where=names(f"{s.component} {s.node}" for s in off),
            ),
            commands=tuple(c for c in (leader_log(ctx, "kube-controller-manager"),) if c),
        )
    if stays:
        text = trn("{pods} tolerates the taint", "{pods} tolerate the taint", n=len(stays), pods=names(stays))
        yield Cause(text=text)
    if later:
        text = trn(
            "{pods} tolerates it for a time", "{pods} tolerate it for a time", n=len(later), pods=names(later)
        )
        yield Cause(text=text)
    going = [
        name
        for pod in blast.pods
        if (found := ctx.pods.get(name := f"{pod.namespace}/{pod.name}")) is not None and found.deleting_since
    ]
    if going:
        text = trn("{pods} is being deleted", "{pods} are being deleted", n=len(going), pods=names(going))
        yield Cause(text=text)
    yield Cause(
        text=tr("the taint controller has not acted yet"),
        commands=(f"kubectl get devicetaintrule {word(blast.rule.name)} -o yaml",),
    )


# ------------------------------------------------------------------------------------------------------------ findings


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on troubles that were there before the change."""
    groups: defaultdict[tuple[str, str, tuple[str, ...]], list[PodUse]] = defaultdict(list)
    causes: dict[tuple[str, str, tuple[str, ...]], tuple[Cause, ...]] = {}
    for pod in _pending(ctx):
        found = pending_causes(ctx, pod)
        owner = owner_text(pod.owner) or f"Pod/{pod.name}"
        key = (pod.namespace, owner, tuple(cause.text for cause in found))
        groups[key].append(pod)
        causes[key] = found
    for key, pods in sorted(groups.items(), key=lambda item: item[0]):
        yield _pending_finding(key[0], key[1], pods, causes[key])
    yield from _events(ctx)
    for blast in _held(ctx):
        held = list(_held_causes(ctx, blast))
        commands = list(dict.fromkeys(command for cause in held for command in cause.commands))
        yield finding(
            STILL_HELD,
            trn(
                "Rule {rule} (NoExecute): {n} device is still allocated; {causes}",
                "Rule {rule} (NoExecute): {n} devices are still allocated; {causes}",
                n=blast.allocated,
                rule=blast.rule.name,
                causes="; ".join(cause.text for cause in held),
            ),
            component="DeviceTaintRule",
            name=blast.rule.name,
            advice=" ".join((tr(STILL_HELD.remedy), "; ".join(f"`{c}`" for c in commands[:3]))).strip(),
            preexisting=True,
        )


def _pending_finding(namespace: str, owner: str, pods: list[PodUse], causes: tuple[Cause, ...]) -> Finding:
    listed = [f"{namespace}/{pod.name}" for pod in pods]
    why = "; ".join(cause.text for cause in causes) or tr("nothing that was read explains it")
    text = tr("{pods} Pending before the change: {why}", pods=names(listed), why=why)
    commands = list(dict.fromkeys(c for cause in causes for c in cause.commands))
    advice = tr(PENDING.remedy)
    if commands:
        advice += " " + "; ".join(f"`{command}`" for command in commands[:3])
    return finding(
        PENDING,
        text,
        component=owner.partition("/")[0],
        instances=listed,
        name=f"{namespace}/{owner.partition('/')[2]}",
        advice=advice,
        evidence=[
            Evidence(
                source=f"Pod {namespace}/{pod.name}",
                path="status.conditions[PodScheduled]",
                value=_scheduler_said(pod),
                provenance="pod status",
            )
            for pod in pods[:20]
        ],
        preexisting=True,
    )


def _events(ctx: Context) -> Iterator[Finding]:
    by: defaultdict[str, list[EventFact]] = defaultdict(list)
    for event in ctx.snapshot.events:
        by[event.reason].append(event)
    rows = (
        ("FailedPrepareDynamicResources", PREPARE),
        ("DeviceTaintManagerEviction", EVICTED),
        ("FailedResourceClaimCreation", CLAIM_CREATION),
    )
    for reason, code in rows:
        found = by.get(reason, [])
        if not found:
            continue
        listed = [f"{e.namespace}/{e.name}" for e in found]
        nodes = {node for e in found if (node := _node_of(ctx, e))}
        text = trn(
            "{reason}: {n} event of {objects}",
            "{reason}: {n} events of {objects}",
            n=sum(e.count for e in found),
            reason=reason,
            objects=names(listed),
        )
        if nodes:
            text += " " + tr("on {nodes}", nodes=names(nodes))
        advice = tr(code.remedy)
        if code is PREPARE:
            commands = list(dict.fromkeys(c for e in found[:3] for c in _prepare_commands(ctx, e)))
            advice += " " + "; ".join(f"`{command}`" for command in commands[:3])
        elif code is CLAIM_CREATION:
            advice += f" `{leader_log(ctx, 'kube-controller-manager')}`"
        yield finding(
            code,
            text,
            component="event",
            instances=listed,
            name=reason,
            advice=advice.replace(" ``", ""),
            evidence=[
                Evidence(
                    source=f"{e.kind} {e.namespace}/{e.name}",
                    path="events",
                    value=_event(e),
                    provenance="api object",
                )
                for e in found[:20]
            ],
            preexisting=True,
        )
