"""etcd: minors that cannot be skipped, the floor, and where going back stops being simple."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from changegen.assess.codes import Code, finding
from changegen.assess.context import KUBEADM_LIKE, Context, label_of, names, oldest
from changegen.assess.versions_check import base_version
from changegen.i18n import tr
from changegen.model.snapshot import Component
from changegen.model.ticket import Evidence, Finding
from changegen.versions import Version, compare, kubernetes_release, try_version

SKIPS = Code(
    code="CG-ETCD-001",
    title="etcd would skip a minor",
    severity="blocking",
    meaning="etcd goes one minor at a time; the way from what runs to what the target brings passes more than one.",
    remedy="Move etcd through every minor in between, all members each time.",
)
FLOOR = Code(
    code="CG-ETCD-002",
    title="etcd older than the target's minimum",
    severity="blocking",
    meaning="An etcd that kubeadm does not run is older than the lowest version that kubeadm of the target accepts.",
    remedy="Bring etcd up first.",
)
WAY_BACK = Code(
    code="CG-ETCD-003",
    title="etcd goes to a new minor",
    severity="info",
    meaning="etcd goes to a new minor. A member can go back alone until the last one runs the new minor; from then on the "
    "cluster version is raised, and the older etcd refuses the data until a downgrade was enabled.",
    remedy="Take a snapshot of etcd first, and decide about going back before the last member moves.",
)
LATE_PATCH = Code(
    code="CG-ETCD-004",
    title="etcd 3.5 below the patch that 3.6 needs",
    severity="blocking",
    meaning="Before etcd 3.6 every member must run a late patch of 3.5 (etcd's upgrade guide asks for at least 3.5.20), or "
    "members with stale membership data come up wrong.",
    remedy="Bring every member to the newest 3.5 patch first.",
)
EXTERNAL = Code(
    code="CG-ETCD-005",
    title="External etcd",
    severity="info",
    meaning="kubeadm does not run this etcd and does not upgrade it; its version was not read from the cluster.",
    remedy="Read its version with etcdctl endpoint status, and plan its change apart.",
)
UNSEEN = Code(
    code="CG-ETCD-006",
    title="etcd not seen",
    severity="info",
    meaning="No etcd instance was seen, so nothing is said about its version or its way back.",
    remedy="Find out who runs it, and which version.",
)
MIXED = Code(
    code="CG-ETCD-007",
    title="etcd members of two minors",
    severity="warning",
    meaning="etcd members run different minors: an upgrade of etcd is under way or was left unfinished.",
    remedy="Finish it. Until the last member is moved, each one can still go back alone.",
)
FEW = Code(
    code="CG-ETCD-008",
    title="etcd without a spare member",
    severity="info",
    meaning="With one or two members, etcd (and with it the API) is down while a member restarts.",
    remedy="Tell the users of the API, and take the snapshot right before.",
)
FLAGS_GONE = Code(
    code="CG-ETCD-009",
    title="etcd flag that the target's etcd does not know",
    severity="blocking",
    meaning="etcd 3.7 dropped all flags that begin with experimental-, and those of the old discovery. etcd exits with 'flag "
    "provided but not defined'; with extraArgs in kubeadm-config kubeadm writes them again.",
    remedy="Use the flag without experimental-, or the feature gate that replaced it, before the change: etcd 3.6 knows both. "
    "In kubeadm-config, correct etcd.local.extraArgs.",
    since_minor="1.37",
)
CODES = (SKIPS, FLOOR, WAY_BACK, LATE_PATCH, EXTERNAL, UNSEEN, MIXED, FEW, FLAGS_GONE)

# etcd 3.7: "Removed all deprecated experimental flags", "Removed v2discovery" (its CHANGELOG; embed/config.go of 3.6.8
# against 3.7.0 differ in just these names).
_GONE_IN_3_7 = frozenset({"discovery", "discovery-proxy"})
_LATE_35 = Version(major=3, minor=5, patch=20, raw="3.5.20")


def target_version(ctx: Context) -> Version | None:
    """Version to which etcd goes: the profile's, else what kubeadm of the target brings; None where neither says."""
    wish = ctx.target_of("etcd")
    if wish is not None:
        return wish.version
    if not local(ctx):
        return None
    return try_version(kubernetes_release(base_version(ctx, "etcd"), "etcd"))


def local(ctx: Context) -> bool:
    """Whether kubeadm runs etcd as static Pods, so that its upgrade moves it."""
    configs = ctx.config_maps("kubeadm")
    if configs:
        return any(c.etcd != "external" for c in configs)
    return ctx.snapshot.cluster.distribution in KUBEADM_LIKE and any(
        c.kind == "static pod" for c in ctx.of("etcd")
    )


def members(ctx: Context) -> tuple[tuple[Component, Version], ...]:
    """Members (etcd instances of this cluster) with a version."""
    return tuple((c, v) for c in ctx.of("etcd") if (v := ctx.version_of(c)) is not None)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on etcd."""
    seen = members(ctx)
    lowest, target = oldest(v for _, v in seen), target_version(ctx)
    external = [c for c in ctx.config_maps("kubeadm") if c.etcd == "external"]
    if external:
        yield finding(
            EXTERNAL,
            tr("ConfigMap kubeadm-config names an external etcd; kubeadm does not upgrade it."),
            component="etcd",
            evidence=[
                Evidence(source=f"{c.namespace}/{c.name}", path="etcd.external", provenance="configmap")
                for c in external
            ],
        )
    elif not ctx.of("etcd") and ctx.target is not None and not ctx.snapshot.cluster.managed:
        yield finding(UNSEEN, tr("No etcd instance was seen."), component="etcd")
    minors = sorted({(v.major, v.minor) for _, v in seen})
    if len(minors) > 1:
        by: defaultdict[str, list[str]] = defaultdict(list)
        for component, version in seen:
            by[version.release].append(label_of(component))
        yield finding(
            MIXED,
            tr(
                "etcd members run {text}. Until all run the newest minor each can go back alone.",
                text="; ".join(f"{v}: {names(g)}" for v, g in sorted(by.items())),
            ),
            component="etcd",
            instances=[label_of(c) for c, _ in seen],
            preexisting=True,
        )
    yield from _flags(ctx, target)
    if lowest is None:
        return
    labels = [label_of(c) for c, v in seen]
    if target is not None and (target.major, target.minor) > (lowest.major, lowest.minor):
        yield from _moves(ctx, seen, lowest, target)
    base = ctx.data.base_versions(ctx.target_minor) if ctx.target_minor and ctx.target_minor_known else None
    minimum = try_version(kubernetes_release(base.etcd_minimum, "etcd")) if base is not None else None
    # A distribution that runs etcd itself moves it with its own release.
    unmoved = bool(external) or (target is None and ctx.snapshot.cluster.distribution == "unknown")
    if minimum is not None and unmoved and (compare(lowest, minimum) or 0) < 0:
        yield finding(
            FLOOR,
            tr(
                "etcd {version} runs; kubeadm of {minor} asks for at least {minimum}.",
                version=lowest.release,
                minor=ctx.target_minor,
                minimum=minimum.release,
            ),
            component="etcd",
            instances=labels,
        )
    if len(seen) < 3 and ctx.target is not None and target is not None and compare(lowest, target) != 0:
        yield finding(
            FEW,
            tr("etcd members: {count}. The API is down while one restarts.", count=len(seen)),
            component="etcd",
            instances=labels,
        )


def dropped(flag: str) -> bool:
    """Whether etcd 3.7 no longer knows a flag that 3.6 has."""
    return flag.startswith("experimental-") or flag in _GONE_IN_3_7


def _flags(ctx: Context, target: Version | None) -> Iterator[Finding]:
    if target is None or (target.major, target.minor) < (3, 7):
        return
    found: defaultdict[str, list[str]] = defaultdict(list)
    evidence: defaultdict[str, list[Evidence]] = defaultdict(list)
    for component in ctx.of("etcd"):
        for fact in component.flags:
            if dropped(fact.name):
                found[fact.name].append(label_of(component))
                evidence[fact.name].append(
                    Evidence(source=label_of(component), path=f"--{fact.name}", provenance="pod spec")
                )
    for config in ctx.config_maps("kubeadm"):
        for fact in config.component_flags.get("etcd", ()):
            if dropped(fact.name):
                place = f"{config.namespace}/{config.name}"
                found[fact.name].append(f"ConfigMap {place}")
                evidence[fact.name].append(
                    Evidence(source=place, path=f"etcd extraArgs {fact.name}", provenance="configmap")
                )
    for flag, labels in sorted(found.items()):
        yield finding(
            FLAGS_GONE,
            tr(
                "--{flag} is given to etcd ({where}); etcd {version} exits with {words}.",
                flag=flag,
                where=names(labels),
                version=target.release,
                words=f"`flag provided but not defined: -{flag}`",
            ),
            component="etcd",
            instances=labels,
            name=flag,
            evidence=evidence[flag][:6],
        )


def _moves(
    ctx: Context, seen: tuple[tuple[Component, Version], ...], lowest: Version, target: Version
) -> Iterator[Finding]:
    labels = [label_of(c) for c, _ in seen]
    steps = target.minor - lowest.minor if target.major == lowest.major else 99
    evidence = [
        Evidence(source=label_of(c), path="image", value=c.image or v.raw, provenance=c.version_source)
        for c, v in seen[:5]
    ]
    if steps > 1 and len(ctx.path) <= 1:
        yield finding(
            SKIPS,
            tr(
                "etcd goes from {today} to {target}, over {steps} minors; it can pass only one at a time.",
                today=lowest.release,
                target=target.release,
                steps=steps,
            ),
            component="etcd",
            instances=labels,
            name=target.release,
            evidence=evidence,
        )
    elif steps > 1 and not _way_is_clear(ctx, lowest):
        yield finding(
            SKIPS,
            tr(
                "etcd goes from {today} to {target}; what kubeadm brings on the way skips a minor.",
                today=lowest.release,
                target=target.release,
            ),
            component="etcd",
            instances=labels,
            name=target.release,
            evidence=evidence,
        )
    if (lowest.major, lowest.minor) == (3, 5) and (compare(lowest, _LATE_35) or 0) < 0:
        yield finding(
            LATE_PATCH,
            tr("etcd {version} is older than {late}.", version=lowest.release, late=_LATE_35.raw),
            component="etcd",
            instances=labels,
            name=target.release,
            evidence=evidence,
        )
    yield finding(
        WAY_BACK,
        tr(
            "etcd goes from {today} to {target}. Until the last of {count} members runs {minor}, a member goes back by its old manifest. After it etcd {old} refuses the data ({words}) unless `etcdctl downgrade enable {old}` and a rolling downgrade come first.",
            today=lowest.release,
            target=target.release,
            count=len(seen),
            minor=target.minor_version,
            old=lowest.minor_version,
            words=f'`version "{target.major}.{target.minor}.0" is not supported`',
        ),
        component="etcd",
        instances=labels,
        name=target.release,
        evidence=evidence,
    )


def _way_is_clear(ctx: Context, lowest: Version) -> bool:
    """Whether kubeadm's etcd of each minor of the way is at most one minor ahead of the one before."""
    at = (lowest.major, lowest.minor)
    for minor in ctx.path:
        if not ctx.data.knows(minor):
            return False
        base = ctx.data.base_versions(minor)
        version = try_version(kubernetes_release(base.etcd, "etcd")) if base is not None else None
        if version is None or version.major != at[0] or version.minor - at[1] > 1:
            return False
        at = (version.major, version.minor)
    return True
