"""Admission webhooks that a drain can take away, and those that speak of API versions that go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from changegen.assess.apis import removed_in
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, names
from changegen.i18n import tr
from changegen.model.snapshot import Webhook
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_key

ONE_NODE = Code(
    code="CG-WEBHOOK-001",
    title="Webhook that must answer has its servers on one node",
    severity="warning",
    meaning="A webhook with failurePolicy Fail is served from one node only. While that node is drained, what it intercepts is "
    "refused; if it intercepts Pods, its own server cannot be made anew either.",
    remedy="Run its servers on more than one node, or exempt their namespace, before the drain.",
)
NO_SERVER = Code(
    code="CG-WEBHOOK-002",
    title="Webhook that must answer has no server",
    severity="warning",
    meaning="A webhook with failurePolicy Fail names a service behind which no Pod was seen.",
    remedy="Bring the server back, or remove the webhook configuration.",
)
UNKNOWN_SERVER = Code(
    code="CG-WEBHOOK-003",
    title="Webhook that must answer: servers unknown",
    severity="info",
    meaning="A webhook with failurePolicy Fail is outside of the cluster, or the Pods behind its service were not read.",
    remedy="Find out where it is served, and whether it stays up during the change.",
)
VERSION_GONE = Code(
    code="CG-WEBHOOK-004",
    title="Webhook asks for an API version that goes",
    severity="warning",
    meaning="A rule of a webhook names only an API version that the target no longer serves. With matchPolicy Exact it is no "
    "longer called for those objects at all: what it guards passes unseen.",
    remedy="Add the newer version to its rules.",
)
EXACT = Code(
    code="CG-WEBHOOK-005",
    title="Webhook with matchPolicy Exact",
    severity="info",
    meaning="With matchPolicy Exact a webhook is called only for the API versions that its rules name: objects written in a new "
    "version pass it by.",
    remedy="Use matchPolicy Equivalent, or name the new versions.",
)
CODES = (ONE_NODE, NO_SERVER, UNKNOWN_SERVER, VERSION_GONE, EXACT)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on admission webhooks."""
    served = ctx.was_read("pods") and ctx.was_read("services")
    groups: defaultdict[tuple[str, str], list[Webhook]] = defaultdict(list)
    for webhook in ctx.snapshot.webhooks:
        if webhook.failure_policy in {"Fail", ""}:
            groups[webhook.configuration, webhook.service].append(webhook)
    drains = ctx.target is not None
    for (configuration, service), hooks in sorted(groups.items()):
        nodes = sorted({node for hook in hooks for node in hook.server_nodes})
        intercepts = names({rule for hook in hooks for rule in hook.rules}, 5)
        if len(nodes) == 1 and drains:
            text = tr(
                "{configuration} ({service}) must answer and is served from {node} only; it intercepts {rules}.",
                configuration=configuration,
                service=service,
                node=nodes[0],
                rules=intercepts,
            )
            if any(_pods(hook) for hook in hooks):
                text += " " + tr("It intercepts Pods: its own servers cannot be made anew while it is away.")
            yield _made(ONE_NODE, text, configuration, hooks)
        elif not nodes and service and served:
            yield _made(
                NO_SERVER,
                tr(
                    "{configuration} must answer and no Pod stands behind {service}; it intercepts {rules}.",
                    configuration=configuration,
                    service=service,
                    rules=intercepts,
                ),
                configuration,
                hooks,
                preexisting=True,
            )
        elif not nodes and drains:
            yield _made(
                UNKNOWN_SERVER,
                tr(
                    "{configuration} must answer; where {server} is served is not known. It intercepts {rules}.",
                    configuration=configuration,
                    server=service or tr("its URL"),
                    rules=intercepts,
                ),
                configuration,
                hooks,
            )
    yield from _versions(ctx)


def _pods(hook: Webhook) -> bool:
    return any(_split(rule)[2] in {"pods", "*", "*/*"} for rule in hook.rules)


def _split(rule: str) -> tuple[str, str, str]:
    """Group, version and resource of a rule; the core group is empty."""
    parts = rule.split("/", 2)
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    return ("", parts[0], parts[1]) if len(parts) == 2 else ("", "", rule)


def _made(
    code: Code, text: str, configuration: str, hooks: list[Webhook], *, preexisting: bool = False
) -> Finding:
    return finding(
        code,
        text,
        component=f"{hooks[0].kind} webhook",
        instances=[hook.name for hook in hooks],
        name=configuration,
        evidence=[
            Evidence(
                source=f"{hook.kind}webhookconfigurations/{configuration}",
                path=f"webhooks[{hook.name}].failurePolicy",
                value=hook.failure_policy or "Fail",
                provenance="api object",
            )
            for hook in hooks[:3]
        ],
        preexisting=preexisting,
    )


def _versions(ctx: Context) -> Iterator[Finding]:
    if ctx.target_minor is None:
        return
    for hook in ctx.snapshot.webhooks:
        gone: dict[str, str] = {}
        kept: set[tuple[str, str]] = set()
        for rule in hook.rules:
            group, version, resource = _split(rule)
            gv = f"{group}/{version}" if group else version
            minor = removed_in(ctx.data, gv, resource)
            if minor is not None and minor_key(minor) <= minor_key(ctx.target_minor):
                gone[rule] = minor
            else:
                kept.add((group, resource))
        lost = {rule: minor for rule, minor in gone.items() if (_split(rule)[0], _split(rule)[2]) not in kept}
        if lost and "*" not in {_split(rule)[1] for rule in hook.rules}:
            yield finding(
                VERSION_GONE,
                tr(
                    "{configuration} ({name}) asks for {rules}, which {minor} no longer serves.",
                    configuration=hook.configuration,
                    name=hook.name,
                    rules=", ".join(sorted(lost)),
                    minor=min(lost.values(), key=minor_key),
                ),
                component=f"{hook.kind} webhook",
                instances=[hook.name],
                name=hook.configuration,
                hop=ctx.hop_of(min(lost.values(), key=minor_key)),
            )
        elif hook.match_policy == "Exact" and hook.failure_policy in {"Fail", ""}:
            yield finding(
                EXACT,
                tr(
                    "{configuration} ({name}) has matchPolicy Exact for {rules}.",
                    configuration=hook.configuration,
                    name=hook.name,
                    rules=names(hook.rules, 5),
                ),
                component=f"{hook.kind} webhook",
                instances=[hook.name],
                name=hook.configuration,
            )
