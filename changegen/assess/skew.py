"""Version skew: now, and at each step, against the kube-apiservers that an instance can reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    CONTROL_PLANE,
    KUBEADM_LIKE,
    Context,
    label_of,
    minors_between,
    names,
    place_of,
)
from changegen.i18n import tr, trn
from changegen.kubedata import SkewRule
from changegen.model.snapshot import Component
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_key

NEWER = Code(
    code="CG-SKEW-001",
    title="Newer than a kube-apiserver that it can reach",
    severity="warning",
    meaning="A component is of a newer minor than a kube-apiserver that it can talk to; the skew policy never allows it.",
    remedy="Finish the kube-apiservers first, or put this component back.",
)
TOO_OLD = Code(
    code="CG-SKEW-002",
    title="Older than the skew policy allows",
    severity="warning",
    meaning="A component is more minors behind a kube-apiserver that it can reach than the skew policy allows.",
    remedy="Bring it up before anything else.",
)
APISERVERS = Code(
    code="CG-SKEW-003",
    title="kube-apiservers more than one minor apart",
    severity="blocking",
    meaning="The newest and the oldest kube-apiserver are more than one minor apart.",
    remedy="Bring the older ones up before the change.",
)
AT_STEP = Code(
    code="CG-SKEW-004",
    title="Left behind too far by a step",
    severity="blocking",
    others=("warning",),
    meaning="If the control plane goes to this minor, instances that stay where they are would be older than the skew policy "
    "allows.",
    remedy="Move these instances before that step.",
)
PROXY = Code(
    code="CG-SKEW-005",
    title="kube-proxy and kubelet of a node too far apart",
    severity="warning",
    meaning="On a node, kube-proxy and kubelet are more minors apart than the skew policy allows.",
    remedy="Level them.",
)
NO_RULES = Code(
    code="CG-SKEW-006",
    title="Skew cannot be judged",
    severity="info",
    meaning="The version of instances is not known, so that skew cannot be judged for them.",
    remedy="Read their versions.",
)
MID_CHANGE = Code(
    code="CG-SKEW-007",
    title="kube-apiservers of two minors at once",
    severity="info",
    meaning="A change is under way: kube-apiservers of two minors serve at the same time, and what each client sees depends on "
    "which one answers.",
    remedy="Finish the kube-apiservers; move no kubelet before that.",
)
CODES = (NEWER, TOO_OLD, APISERVERS, AT_STEP, PROXY, NO_RULES, MID_CHANGE)

_FOLLOWERS = (
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "kubelet",
    "kube-proxy",
)
_LOCAL = frozenset({"kube-controller-manager", "kube-scheduler"})


def rule_of(ctx: Context, component: str, against: str = "kube-apiserver") -> SkewRule | None:
    """The rule between two components; None where the data has none."""
    for rule in ctx.data.skew:
        if rule.component == component and rule.against == against and not rule.peers:
            return rule
    return None


def reach(ctx: Context, component: Component) -> tuple[str, ...]:
    """Minors of the kube-apiservers that an instance can talk to, oldest first.

    kubeadm lets kube-controller-manager and kube-scheduler talk to the kube-apiserver of their own node; all others go
    through the load balancer and may reach each one.
    """
    local = bool(ctx.config_maps("kubeadm")) or ctx.snapshot.cluster.distribution in KUBEADM_LIKE
    if local and component.component in _LOCAL and component.node:
        own = {
            version.minor_version
            for server in ctx.of("kube-apiserver")
            if server.node == component.node and (version := ctx.version_of(server)) is not None
        }
        if own:
            return tuple(sorted(own, key=minor_key))
    return ctx.apiserver_minors


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on skew."""
    minors = ctx.apiserver_minors
    if len(minors) > 1:
        spread = minors_between(minors[0], minors[-1])
        servers = [label_of(c) for c in ctx.of("kube-apiserver")]
        code = APISERVERS if spread > 1 else MID_CHANGE
        yield finding(
            code,
            tr(
                "kube-apiservers of {minors} are seen at the same time: {text}.",
                minors=", ".join(minors),
                text=_by_version(ctx, ctx.of("kube-apiserver")),
            ),
            component="kube-apiserver",
            instances=servers,
            preexisting=True,
        )
    yield from _now(ctx)
    yield from _steps(ctx)
    yield from _proxies(ctx)


def _by_version(ctx: Context, instances: tuple[Component, ...]) -> str:
    by: defaultdict[str, list[str]] = defaultdict(list)
    for component in instances:
        version = ctx.version_of(component)
        proven = "" if component.running_version else tr(" (asked for, not proven)")
        by[(version.raw if version is not None else "?") + proven].append(place_of(component))
    return "; ".join(f"{version}: {names(group)}" for version, group in sorted(by.items()))


def _now(ctx: Context) -> Iterator[Finding]:
    for name in _FOLLOWERS:
        rule = rule_of(ctx, name)
        if rule is None:
            continue
        newer: defaultdict[tuple[str, str], list[Component]] = defaultdict(list)
        older: defaultdict[tuple[str, str], list[Component]] = defaultdict(list)
        blind = []
        for component in ctx.of(name):
            version, servers = ctx.version_of(component), reach(ctx, component)
            if version is None:
                blind.append(component)
            if version is None or not servers:
                continue
            own = version.minor_version
            if minors_between(servers[0], own) > rule.newer:
                newer[own, servers[0]].append(component)
            if minors_between(own, servers[-1]) > rule.older:
                older[own, servers[-1]].append(component)
        for code, found in ((NEWER, newer), (TOO_OLD, older)):
            for (own, server), group in sorted(found.items()):
                yield finding(
                    code,
                    tr(
                        "{component} {where} is {own}, a kube-apiserver that it can reach is {server}; allowed is {older} older and {newer} newer.",
                        component=name,
                        where=names(place_of(c) for c in group),
                        own=own,
                        server=server,
                        older=_minors(rule.older),
                        newer=_minors(rule.newer),
                    ),
                    component=name,
                    instances=[label_of(c) for c in group],
                    name=own,
                    evidence=[
                        Evidence(
                            source=label_of(c),
                            path="version",
                            value=c.running_version or c.version,
                            provenance=c.running_source or c.version_source,
                        )
                        for c in group[:3]
                    ],
                    preexisting=True,
                )
        if blind and ctx.target is not None and not (ctx.snapshot.cluster.managed and name in CONTROL_PLANE):
            yield finding(
                NO_RULES,
                tr(
                    "The version of {component} {where} is not known, so its skew is not judged.",
                    component=name,
                    where=names(place_of(c) for c in blind),
                ),
                component=name,
                instances=[label_of(c) for c in blind],
            )


def _steps(ctx: Context) -> Iterator[Finding]:
    """Kubelets and kube-proxies that would be too far behind when the control plane has gone to a minor."""
    for name in ("kubelet", "kube-proxy"):
        rule = rule_of(ctx, name)
        if rule is None or not ctx.path:
            continue
        by: defaultdict[tuple[str, int], list[Component]] = defaultdict(list)
        for component in ctx.of(name):
            version = ctx.version_of(component)
            if version is None:
                continue
            own = version.minor_version
            for at, minor in enumerate(ctx.path):
                if minors_between(own, minor) > rule.older:
                    by[own, at].append(component)
                    break
        for (own, at), group in sorted(by.items()):
            minor = ctx.path[at]
            # Before a later hop they can still be moved on the way; before the first, and where the profile leaves
            # them, nothing in the plan does it.
            stays = any(ctx.stays(c) for c in group)
            yield finding(
                AT_STEP,
                trn(
                    "{component} {own} ({count}: {where}) would be {n} minor behind kube-apiserver {minor}; allowed: {older}.",
                    "{component} {own} ({count}: {where}) would be {n} minors behind kube-apiserver {minor}; allowed: {older}.",
                    n=minors_between(own, minor),
                    count=len(group),
                    component=name,
                    own=own,
                    where=names(place_of(c) for c in group),
                    minor=minor,
                    older=rule.older,
                ),
                component=name,
                instances=[label_of(c) for c in group],
                name=minor,
                severity="blocking" if at == 0 or stays else "warning",
                hop=ctx.hop_of(minor),
            )


def _minors(n: int) -> str:
    return trn("up to {n} minor", "up to {n} minors", n=n) if n else tr("none")


def _proxies(ctx: Context) -> Iterator[Finding]:
    rule = rule_of(ctx, "kube-proxy", "kubelet")
    if rule is None:
        return
    kubelets = {c.node: v for c in ctx.of("kubelet") if c.node and (v := ctx.version_of(c)) is not None}
    apart = []
    for proxy in ctx.of("kube-proxy"):
        kubelet, version = kubelets.get(proxy.node or ""), ctx.version_of(proxy)
        if kubelet is None or version is None:
            continue
        gap = minors_between(version.minor_version, kubelet.minor_version)
        if gap > rule.older or -gap > rule.newer:
            apart.append(proxy)
    if apart:
        yield finding(
            PROXY,
            trn(
                "kube-proxy and kubelet are more than {n} minor apart on {where}.",
                "kube-proxy and kubelet are more than {n} minors apart on {where}.",
                n=rule.older,
                where=names(c.node or "" for c in apart),
            ),
            component="kube-proxy",
            instances=[label_of(c) for c in apart],
            preexisting=True,
        )
