"""Versions: the target against the data, today against the target, and what a change left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    COMPONENTS,
    CONTROL_PLANE,
    KUBEADM_LIKE,
    Context,
    VersionWish,
    evidence_of,
    label_of,
    names,
)
from changegen.i18n import tr, trn
from changegen.model.snapshot import Component
from changegen.model.ticket import Evidence, Finding, InstanceRow
from changegen.versions import compare, kubernetes_release, minor_key, parse_image, same_release, try_version

DATA_NEWER = Code(
    code="CG-VERSION-001",
    title="Target newer than the Kubernetes data",
    severity="blocking",
    meaning="The target's minor is newer than the newest minor of the data. What that minor removes, locks or turns on is "
    "not known; the lifecycle marks of the newest known minor still name the APIs that go.",
    remedy="Use a release of changegen that knows the target's minor, or give its data with --data.",
)
PATCH_NEWER = Code(
    code="CG-VERSION-002",
    title="Target patch newer than the data",
    severity="info",
    meaning="The data knows the target's minor, from an older patch release of it.",
    remedy="Read the changelog of the patch releases in between for gates that were turned off or flags that changed.",
)
TODAY_OLDER = Code(
    code="CG-VERSION-003",
    title="Today's version is not in the Kubernetes data",
    severity="warning",
    meaning="Today's minor is not covered by the data, so today's defaults, and with them the changes that nobody typed, "
    "cannot be computed.",
    remedy="Compare the defaults of today's minor by hand, or give its data with --data.",
)
TODAY_UNKNOWN = Code(
    code="CG-VERSION-004",
    title="Today's version is not known",
    severity="warning",
    meaning="Neither /version nor a running instance proves a version of the control plane.",
    remedy="Add the answer of /version (kubectl version -o json) to the capture.",
)
PRERELEASE = Code(
    code="CG-VERSION-005",
    title="Target is a pre-release",
    severity="warning",
    meaning="The target is an alpha, beta or release candidate: its defaults may change before the release.",
    remedy="Use a release.",
)
SKIPS = Code(
    code="CG-VERSION-006",
    title="The change passes more than one minor",
    severity="warning",
    meaning="The target is more than one minor ahead. The control plane cannot skip a minor: each one is a hop of its own, "
    "with its own blockers.",
    remedy="Go through every minor in between, in the order of the hops; kubelets may stay behind as the skew policy allows.",
)
DOWNGRADE = Code(
    code="CG-VERSION-007",
    title="Target older than what runs",
    severity="blocking",
    others=("warning",),
    meaning="The target is older than a running kube-apiserver (blocking where it is an older minor). Going back is no upgrade: storage versions, etcd and gates "
    "decide whether it works at all.",
    remedy="Use the rollback steps of the ticket that brought the cluster here.",
)
PATCH_MIX = Code(
    code="CG-VERSION-008",
    title="Instances of one component run different releases",
    severity="warning",
    others=("info",),
    meaning="Instances of one component run different releases before the change.",
    remedy="Find out why, and level them first: an earlier change may not have been finished.",
)
LEFT_PROXY = Code(
    code="CG-LEFT-001",
    title="kube-proxy left behind",
    severity="warning",
    meaning="The kube-apiservers run the target, kube-proxy does not: planned and not done.",
    remedy="Move the kube-proxy DaemonSet to the target; kubeadm does it with its addon phase, by hand-made DaemonSets it must be done by hand.",
)
LEFT_COREDNS = Code(
    code="CG-LEFT-002",
    title="CoreDNS left behind",
    severity="warning",
    meaning="The kube-apiservers run the target, CoreDNS is older than what kubeadm of the target brings.",
    remedy="Run kubeadm's addon phase of the target, or move the CoreDNS Deployment yourself.",
)
LEFT_KUBEADM = Code(
    code="CG-LEFT-003",
    title="kubeadm-config left behind",
    severity="warning",
    meaning="The kube-apiservers run the target, ConfigMap kubeadm-config still names an older version: the change was not "
    "finished by kubeadm, and its next run starts from the old content.",
    remedy="Finish with kubeadm upgrade apply, or correct ClusterConfiguration in ConfigMap kubeadm-config.",
)
LEFT_OTHER = Code(
    code="CG-LEFT-004",
    title="Instances not on the target",
    severity="warning",
    meaning="The kube-apiservers run the target, these instances do not: planned and not done.",
    remedy="Finish the steps for these nodes.",
)
LEFT_PART = Code(
    code="CG-LEFT-005",
    title="etcd left behind",
    severity="warning",
    meaning="The kube-apiservers run the target, etcd is older than what kubeadm of the target brings.",
    remedy="Move the etcd members, one at a time.",
)
NOT_YET = Code(
    code="CG-LEFT-006",
    title="Not on the target yet",
    severity="info",
    meaning="A change is under way: some kube-apiservers run the target, these instances do not yet.",
    remedy="Go on with the steps for these nodes.",
)
CODES = (
    DATA_NEWER,
    PATCH_NEWER,
    TODAY_OLDER,
    TODAY_UNKNOWN,
    PRERELEASE,
    SKIPS,
    DOWNGRADE,
    PATCH_MIX,
    LEFT_PROXY,
    LEFT_COREDNS,
    LEFT_KUBEADM,
    LEFT_OTHER,
    LEFT_PART,
    NOT_YET,
)


def base_version(ctx: Context, component: str) -> str:
    """Version of etcd or CoreDNS that kubeadm of the target brings (`3.7.0-0`, `v1.14.6`); empty where unknown."""
    if ctx.target_minor is None or not ctx.data.knows(ctx.target_minor):
        return ""
    base = ctx.data.base_versions(ctx.target_minor)
    if base is None:
        return ""
    return {"etcd": base.etcd, "coredns": base.coredns, "pause": base.pause}.get(component, "")


def on_target(ctx: Context, component: Component) -> bool | None:
    """Whether an instance runs (proven) the target; None where it cannot be told or there is no target."""
    wish = ctx.target_of(component.component)
    if wish is None:
        return None
    proven = component.running_version
    return wish.satisfied(proven) if proven else None


def progress(ctx: Context) -> tuple[int, int]:
    """kube-apiservers proven on the target, and those not (or not proven); processes that answered count as one."""
    instances = ctx.of("kube-apiserver")
    on = sum(1 for c in instances if on_target(ctx, c))
    wish = ctx.target
    versions = [v for p in ctx.processes("kube-apiserver") if (v := p.version)]
    if instances:
        if not on and any(wish is not None and wish.satisfied(v) for v in versions):
            # One answered with the target's version, and nothing ties it to an instance.
            on = 1
        return on, len(instances) - on
    if not versions and ctx.snapshot.cluster.server_version:
        versions = [ctx.snapshot.cluster.server_version]
    done = sum(1 for v in versions if wish is not None and wish.satisfied(v))
    return done, len(versions) - done


def change_is_real(ctx: Context) -> bool:
    """Whether the target is another release than that of the kube-apiservers when the change began.

    After the change (all apiservers satisfy the target) what differs is left behind; before it nothing is.
    """
    return ctx.target is not None and ctx.target.version is not None


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on versions."""
    yield from _target(ctx)
    yield from _mixed(ctx)
    if change_is_real(ctx):
        yield from _left_behind(ctx)


def _target(ctx: Context) -> Iterator[Finding]:
    target, today = ctx.target, ctx.today
    if today is None:
        yield finding(
            TODAY_UNKNOWN,
            tr("No source that was read tells which version the control plane runs."),
            component="kube-apiserver",
        )
    elif not ctx.data.knows(today) and target is not None:
        yield finding(
            TODAY_OLDER,
            tr(
                "The cluster runs {version}; the data covers {first} to {last}: today's defaults are not known.",
                version=today.raw,
                first=ctx.data.oldest,
                last=ctx.data.newest,
            ),
            component="kubernetes",
            name=today.minor_version,
        )
    if target is None or target.version is None:
        return
    minor = target.version.minor_version
    if not ctx.data.knows(minor) and minor_key(minor) > minor_key(ctx.data.newest):
        yield finding(
            DATA_NEWER,
            tr(
                "The target {target} is newer than the data, which ends at {release}: what {minor} removes, locks or turns on is not known.",
                target=target.text,
                release=ctx.data.release(ctx.data.newest).version,
                minor=minor,
            ),
            component="kubernetes",
            name=minor,
            evidence=(_profile_evidence("target.kubernetes", target.text),),
        )
    elif ctx.data.knows(minor):
        known = try_version(ctx.data.release(minor).version)
        if known is not None and not target.any_patch and (compare(target.version, known) or 0) > 0:
            yield finding(
                PATCH_NEWER,
                tr(
                    "The target is {target}; the data of {minor} was made from {release}.",
                    target=target.text,
                    minor=minor,
                    release=known.raw,
                ),
                component="kubernetes",
                name=minor,
            )
    if target.version.is_prerelease:
        yield finding(
            PRERELEASE,
            tr("{target} is a pre-release.", target=target.text),
            component="kubernetes",
            name=target.text,
        )
    if len(ctx.path) > 1 and today is not None:
        yield finding(
            SKIPS,
            tr(
                "{today} to {target} passes {count} minors: {hops}. The control plane cannot skip one.",
                today=today.raw,
                target=target.text,
                count=len(ctx.path),
                hops=", ".join((today.minor_version, *ctx.path)),
            ),
            component="kubernetes",
            name=minor,
        )
    newest = ctx.apiserver_versions[-1] if ctx.apiserver_versions else today
    if newest is not None and _older(target, newest):
        yield finding(
            DOWNGRADE,
            tr(
                "The target {target} is older than {newest}, which runs.",
                target=target.text,
                newest=newest.raw,
            ),
            component="kube-apiserver",
            instances=[label_of(c) for c in ctx.of("kube-apiserver") if ctx.version_of(c) == newest],
            name=minor,
            severity="warning" if minor == newest.minor_version else None,
        )


def _older(target: VersionWish, newest: object) -> bool:
    have = try_version(str(newest))
    if target.version is None or have is None or target.operator != "=":
        return False
    if target.any_patch:
        return (target.version.major, target.version.minor) < (have.major, have.minor)
    return (compare(target.version, have) or 0) < 0


def _profile_evidence(path: str, value: str) -> Evidence:
    return Evidence(source="profile", path=path, value=value, provenance="profile")


def _mixed(ctx: Context) -> Iterator[Finding]:
    done, _ = progress(ctx)
    for name, instances in ctx.instances.items():
        by: defaultdict[str, list[Component]] = defaultdict(list)
        for component in instances:
            version = ctx.version_of(component)
            if version is not None:
                by[version.release].append(component)
        if len(by) < 2 or (done and ctx.target is not None):
            # Within a change, different releases are what the change does; CG-LEFT-004 names what is not done.
            continue
        text = "; ".join(
            tr("{version}: {names}", version=version, names=names(label_of(c) for c in group))
            for version, group in sorted(by.items())
        )
        yield finding(
            PATCH_MIX,
            tr("{component} runs several releases: {text}", component=name, text=text),
            component=name,
            instances=[label_of(c) for c in instances],
            evidence=[
                evidence_of(group[0], "version", version, group[0].version_source)
                for version, group in sorted(by.items())
            ],
            severity="warning" if name in CONTROL_PLANE or name == "etcd" else "info",
            preexisting=True,
        )


def _left_behind(ctx: Context) -> Iterator[Finding]:
    done, rest = progress(ctx)
    if not done or ctx.target is None:
        return
    whole = rest == 0
    for name in COMPONENTS:
        instances = ctx.of(name) or (_coredns(ctx) if name == "coredns" else ())
        if not instances:
            continue
        wish = ctx.target_of(name)
        if name in {"etcd", "coredns"} and wish is None:
            base = _release(base_version(ctx, name)) if _by_kubeadm(ctx) else ""
            wish = VersionWish.parse(">=" + base) if base else None
        if wish is None:
            continue
        behind = [c for c in instances if _behind(c, wish)]
        if not behind:
            continue
        code = {"kube-proxy": LEFT_PROXY, "coredns": LEFT_COREDNS, "etcd": LEFT_PART}.get(name, LEFT_OTHER)
        if not whole:
            code = NOT_YET
        versions = sorted({c.running_version or c.version for c in behind})
        yield finding(
            code,
            trn(
                "{n} of {total} {component} still runs {versions}; the target is {target}.",
                "{n} of {total} {component} still run {versions}; the target is {target}.",
                n=len(behind),
                total=len(instances),
                component=name,
                versions=", ".join(versions),
                target=wish.text.removeprefix(">="),
            )
            if whole
            else trn(
                "{n} of {total} {component} is not on {target} yet ({versions}), while {done} of {all} kube-apiservers are.",
                "{n} of {total} {component} are not on {target} yet ({versions}), while {done} of {all} kube-apiservers are.",
                n=len(behind),
                total=len(instances),
                component=name,
                target=wish.text.removeprefix(">="),
                versions=", ".join(versions),
                done=done,
                all=done + rest,
            ),
            component=name,
            instances=[label_of(c) for c in behind],
            evidence=[
                evidence_of(c, "image" if c.image else "version", c.image or c.version, c.version_source)
                for c in behind[:3]
            ],
        )
    if whole:
        yield from _kubeadm(ctx)


def _coredns(ctx: Context) -> tuple[Component, ...]:
    """CoreDNS as instances, where only its workload was kept."""
    found = []
    for workload in ctx.snapshot.workloads:
        if workload.addon != "coredns":
            continue
        for container, image in workload.images.items():
            version = parse_image(image).version
            if version is not None:
                found.append(
                    Component(
                        component="coredns",
                        instance=f"{workload.namespace}/{workload.name}",
                        node=None,
                        version=version.raw,
                        version_source=tr("image tag {tag}", tag=version.raw),
                        feature_gates={},
                        feature_gates_source="",
                        gates_certainty=None,
                        kind="workload",
                        namespace=workload.namespace,
                        container=container,
                        image=image,
                    )
                )
    return tuple(found)


def _release(text: str) -> str:
    version = try_version(kubernetes_release(text, "etcd") or text)
    return f"v{version.release}" if version is not None else ""


def _behind(component: Component, wish: VersionWish) -> bool:
    have = try_version(component.running_version or component.version)
    if have is None or wish.version is None or wish.satisfied(have) is not False:
        return False
    if wish.any_patch:
        return (have.major, have.minor) <= (wish.version.major, wish.version.minor)
    return (compare(have, wish.version) or 0) < 0


def _kubeadm(ctx: Context) -> Iterator[Finding]:
    for config in ctx.config_maps("kubeadm"):
        have, wish = try_version(config.kubernetes_version), ctx.target
        if have is None or wish is None or wish.satisfied(have) is not False:
            continue
        yield finding(
            LEFT_KUBEADM,
            tr(
                "ConfigMap {name} says kubernetesVersion {version}; the kube-apiservers run {target}.",
                name=f"{config.namespace}/{config.name}",
                version=config.kubernetes_version,
                target=wish.text,
            ),
            component="ConfigMap",
            instances=[f"{config.namespace}/{config.name}"],
            evidence=(
                Evidence(
                    source=f"{config.namespace}/{config.name}",
                    path="ClusterConfiguration.kubernetesVersion",
                    value=config.kubernetes_version,
                    provenance="configmap",
                ),
            ),
        )


def instance_rows(ctx: Context) -> tuple[InstanceRow, ...]:
    """Current against target, one row an instance, in the order of the components and then of nodes."""
    found = dict(ctx.instances)
    if "coredns" not in found and (dns := _coredns(ctx)):
        found["coredns"] = dns
    return tuple(
        _row(ctx, name, component)
        for name, instances in found.items()
        for component in sorted(instances, key=lambda c: (c.node or "", c.instance or ""))
    )


def _row(ctx: Context, name: str, component: Component) -> InstanceRow:
    wish = ctx.target_of(name)
    current = component.running_version or component.version
    target, note = "", ""
    if wish is not None:
        target = wish.text
    elif name in {"etcd", "coredns"} and (base := base_version(ctx, name)) and _by_kubeadm(ctx):
        target = base
        wish = VersionWish.parse(">=" + _release(base))
        note = tr("what kubeadm of the target brings")
    if component.kind == "workload":
        note = "; ".join(x for x in (note, tr("as its template asks")) if x)
    elif component.running_version is None and component.version != "unobservable":
        note = tr("asked for, not proven to run")
    elif (
        component.running_version is not None
        and component.version != "unobservable"
        and not _same(component.running_version, component.version)
    ):
        note = tr(
            "asked for {version}, runs {running}",
            version=component.version,
            running=component.running_version,
        )
    action = _action(wish, current)
    return InstanceRow(
        component=name,
        instance=label_of(component),
        node=component.node or "",
        current=current,
        proven=component.running_version is not None,
        target=target,
        action=action,
        allowed_skew=skew_text(ctx, name),
        note=note,
    )


def _by_kubeadm(ctx: Context) -> bool:
    return bool(ctx.config_maps("kubeadm")) or ctx.snapshot.cluster.distribution in KUBEADM_LIKE


def _same(a: str, b: str) -> bool:
    left, right = try_version(a), try_version(b)
    return a == b or (left is not None and right is not None and same_release(left, right))


def _action(
    wish: VersionWish | None, current: str
) -> Literal["upgrade", "none", "stays", "unknown", "ahead"]:
    have = try_version(current)
    if wish is None or wish.version is None:
        return "stays" if have is not None else "unknown"
    if have is None:
        return "unknown"
    if wish.satisfied(have):
        return "none" if wish.operator == "=" else "stays"
    order = compare(have, wish.version)
    if order is None:
        return "unknown"
    return "ahead" if order > 0 else "upgrade"


def skew_text(ctx: Context, component: str) -> str:
    """The skew rule in short: `up to 3 minors older than kube-apiserver`; empty where none applies."""
    parts = []
    for rule in (r for r in ctx.data.skew if r.component == component):
        against = tr("each other") if rule.peers else rule.against
        if rule.newer == 0 and rule.older == 1:
            parts.append(tr("one minor older than {against} at most, never newer", against=against))
        elif rule.newer == 0:
            parts.append(
                tr("{n} minors older than {against} at most, never newer", n=rule.older, against=against)
            )
        elif rule.older == 1:
            parts.append(tr("within one minor of {against}", against=against))
        else:
            parts.append(tr("within {n} minors of {against}", n=rule.older, against=against))
    return "; ".join(parts)
