"""Command-line flags and --runtime-config that the target does not accept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import COMPONENTS, Context, label_of, names
from changegen.gates import go_parse_bool, go_quote
from changegen.i18n import tr
from changegen.model.snapshot import Component, ConfigFact
from changegen.model.ticket import Evidence, Finding, ForecastRow
from changegen.versions import minor_key, minor_of, next_minors

REMOVED = Code(
    code="CG-FLAG-001",
    title="Flag that the target does not know",
    severity="blocking",
    meaning="A command-line flag is given that the component of the target has dropped: it exits with 'unknown flag'.",
    remedy="Remove the flag before the change.",
)
DEPRECATED = Code(
    code="CG-FLAG-002",
    title="Deprecated flag",
    severity="info",
    meaning="A command-line flag is given that is deprecated at the target; a later minor may drop it.",
    remedy="Follow the component's own message.",
)
KUBEADM_REMOVED = Code(
    code="CG-FLAG-003",
    title="kubeadm would write a flag that the target does not know",
    severity="blocking",
    meaning="extraArgs in ConfigMap kubeadm-config name a flag that the component of the target has dropped, and no running "
    "instance has it. kubeadm writes the manifests from it again.",
    remedy="Remove it from extraArgs of ClusterConfiguration in ConfigMap kubeadm-config.",
)
UNKNOWN = Code(
    code="CG-FLAG-004",
    title="Flag that no known release has",
    severity="info",
    meaning="A command-line flag is given that neither today's nor the target's release of the component has in the data: "
    "the distribution's own, or a wrong reading.",
    remedy="Ask the distribution whether its next release still takes it.",
)
UNSEEN = Code(
    code="CG-FLAG-005",
    title="Flags cannot be seen",
    severity="info",
    meaning="The command line of these instances was not read, so a flag that the target has dropped would not be noticed.",
    remedy="Look at the command line on the machine: ps, the unit file, the environment files of the service.",
)
RTC_UNKNOWN_VERSION = Code(
    code="CG-FLAG-010",
    title="--runtime-config names an API that the target does not have",
    severity="blocking",
    meaning="--runtime-config names a group, or a version of a known group, that the target has not registered, or is "
    "malformed: kube-apiserver exits.",
    remedy="Remove the entry from --runtime-config before the change.",
)
RTC_IDLE = Code(
    code="CG-FLAG-011",
    title="--runtime-config keeps an API that serves nothing",
    severity="info",
    others=("warning",),
    meaning="--runtime-config names a version that is still registered at the target, but none of its kinds is served.",
    remedy="Remove the entry: the version after may not register it any more, and would not start.",
)
RTC_SOON = Code(
    code="CG-FLAG-012",
    title="--runtime-config keeps a deprecated API alive",
    severity="info",
    others=("blocking", "warning"),
    meaning="--runtime-config enables a version that is off by default, and whose removal is announced by the lifecycle marks.",
    remedy="Move its users to the replacement and remove the entry before the minor that drops it.",
)
CODES = (
    REMOVED,
    DEPRECATED,
    KUBEADM_REMOVED,
    UNKNOWN,
    UNSEEN,
    RTC_UNKNOWN_VERSION,
    RTC_IDLE,
    RTC_SOON,
)
_WITH_DATA = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "etcd")
_SPECIAL = ("api/all", "api/ga", "api/beta", "api/alpha")


class FlagUse(msgspec.Struct, kw_only=True):
    """A flag given to instances of one component, and by kubeadm's configuration."""

    component: str
    name: str
    labels: list[str] = msgspec.field(default_factory=list)
    manifests: set[str] = msgspec.field(default_factory=set)
    configs: list[str] = msgspec.field(default_factory=list)
    today: str = ""
    target: str = ""


def uses(ctx: Context) -> tuple[FlagUse, ...]:
    """Every flag of every component of which the data knows flags, with who gives it."""
    found: dict[tuple[str, str, str, str], FlagUse] = {}

    def use(component: str, name: str, today: str, target: str) -> FlagUse:
        key = (component, name, today, target)
        return found.setdefault(key, FlagUse(component=component, name=name, today=today, target=target))

    for component in _WITH_DATA:
        target = minor_of(ctx.goes_to(component)) or ""
        for instance in ctx.of(component):
            if not instance.flags_observable:
                continue
            version = ctx.version_of(instance)
            today = version.minor_version if version is not None else ""
            goes = "" if ctx.stays(instance) else target
            for flag in instance.flags:
                item = use(component, flag.name, today, goes)
                item.labels.append(label_of(instance))
                if instance.manifest:
                    item.manifests.add(instance.manifest)
        for config in ctx.config_maps("kubeadm"):
            today = minor_of(config.kubernetes_version) or ctx.today_minor or ""
            for flag in config.component_flags.get(component, ()):
                use(component, flag.name, today, target).configs.append(f"{config.namespace}/{config.name}")
    return tuple(found[key] for key in sorted(found))


def _minors(ctx: Context, today: str, target: str) -> tuple[str, ...]:
    if not target:
        return ()
    way = next_minors(today, target) if today else ()
    return tuple(m for m in dict.fromkeys((*way, target)) if ctx.data.knows(m))


def gone_in(ctx: Context, use: FlagUse) -> str | None:
    """First minor of the way whose release does not know a flag that today's, or any older known one, has."""
    known_once = any(use.name in ctx.data.flags(use.component, m) for m in ctx.data.minors)
    if not known_once:
        return None
    for minor in _minors(ctx, use.today, use.target):
        flags = ctx.data.flags(use.component, minor)
        if flags and use.name not in flags:
            return minor
    return None


def message(component: str, flag: str) -> str:
    """What the component writes when it does not know a flag."""
    text = f"unknown flag: --{flag}"
    return f"failed to parse kubelet flag: {text}" if component == "kubelet" else text


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on flags and --runtime-config."""
    unknown: defaultdict[str, list[FlagUse]] = defaultdict(list)
    merged: defaultdict[tuple[str, str, str], list[FlagUse]] = defaultdict(list)
    old: defaultdict[tuple[str, str, str], list[FlagUse]] = defaultdict(list)
    for item in uses(ctx):
        minor = gone_in(ctx, item)
        if minor is not None:
            merged[item.component, item.name, minor].append(item)
            continue
        judged = _minors(ctx, item.today, item.target)
        if not judged:
            continue
        flags = ctx.data.flags(item.component, judged[-1])
        if not flags:
            continue
        if item.name not in flags:
            unknown[item.component].append(item)
        elif flags[item.name].deprecated:
            old[item.component, item.name, flags[item.name].deprecated].append(item)
    for (component, flag, minor), items in merged.items():
        yield _removed(ctx, component, flag, minor, items)
    for (component, flag, words), items in old.items():
        labels = [label for item in items for label in item.labels] or [
            f"ConfigMap {place}" for item in items for place in item.configs
        ]
        yield finding(
            DEPRECATED,
            tr(
                "--{flag} of {component} ({where}) is deprecated: {words}",
                flag=flag,
                component=component,
                where=names(labels),
                words=words,
            ),
            component=component,
            instances=labels,
            name=flag,
        )
    for component, items in unknown.items():
        labels = [label for item in items for label in (item.labels or item.configs)]
        yield finding(
            UNKNOWN,
            tr(
                "{component} ({where}) is given flags that no known release has: {flags}.",
                component=component,
                where=names(labels),
                flags=", ".join(sorted({f"--{item.name}" for item in items})),
            ),
            component=component,
            instances=labels,
        )
    yield from _unseen(ctx)
    yield from _runtime_config(ctx)


def _removed(ctx: Context, component: str, flag: str, minor: str, items: list[FlagUse]) -> Finding:
    labels = [label for item in items for label in item.labels]
    configs = sorted({place for item in items for place in item.configs})
    manifests = sorted({path for item in items for path in item.manifests})
    words = f"`{message(component, flag)}`"
    evidence = [
        Evidence(source=label, path=f"--{flag}", provenance="pod spec") for label in sorted(labels)[:6]
    ]
    evidence += [Evidence(source=path, path=f"--{flag}", provenance="inferred") for path in manifests]
    evidence += [
        Evidence(source=place, path=f"{component} extraArgs {flag}", provenance="configmap")
        for place in configs
    ]
    if not labels:
        return finding(
            KUBEADM_REMOVED,
            tr(
                "ConfigMap {place} gives --{flag} to {component}, which {minor} no longer knows: the next run of kubeadm writes it and {component} exits with {words}.",
                place=", ".join(configs),
                flag=flag,
                component=component,
                minor=minor,
                words=words,
            ),
            component=component,
            instances=[f"ConfigMap {place}" for place in configs],
            name=flag,
            evidence=evidence,
            hop=ctx.hop_of(minor),
        )
    advice = tr(REMOVED.remedy)
    if configs:
        advice += " " + tr(
            "ConfigMap {place} has it too and must be edited before kubeadm upgrade apply.",
            place=", ".join(configs),
        )
    return finding(
        REMOVED,
        tr(
            "--{flag} is given to {component} ({where}); {minor} no longer knows it: it exits with {words}.",
            flag=flag,
            component=component,
            where=names(labels),
            minor=minor,
            words=words,
        ),
        component=component,
        instances=labels,
        name=flag,
        evidence=evidence,
        advice=advice,
        hop=ctx.hop_of(minor),
    )


def dropped(ctx: Context, component: str) -> tuple[str, ...]:
    """Flags that today's release of a component has and one of the way has no longer, sorted."""
    today = ctx.today_minor
    way = [m for m in ctx.path if ctx.data.knows(m)]
    if today is None or not ctx.data.knows(today) or not way:
        return ()
    lost: set[str] = set()
    have = set(ctx.data.flags(component, today))
    for minor in way:
        now = set(ctx.data.flags(component, minor))
        lost |= have - now if now else set()
        have = now or have
    return tuple(sorted(lost))


def _unseen(ctx: Context) -> Iterator[Finding]:
    if ctx.target is None:
        return
    for component in ("kubelet", "kube-proxy"):
        blind = [c for c in ctx.of(component) if not c.flags_observable]
        lost = dropped(ctx, component)
        if not blind or (component == "kube-proxy" and not lost):
            continue
        text = tr(
            "The command lines of {component} ({count}) were not read.", count=len(blind), component=component
        )
        if lost:
            text += " " + tr(
                "{target} drops {flags}: with one of them it does not start.",
                target=ctx.target.text,
                flags=", ".join(f"--{flag}" for flag in lost),
            )
        yield finding(UNSEEN, text, component=component, instances=[label_of(c) for c in blind])


# ------------------------------------------------------------------------------------------------- runtime-config


def entries(values: Iterable[str]) -> dict[str, str]:
    """Entries of --runtime-config as kube-apiserver reads them: later ones win, a missing value is true."""
    found: dict[str, str] = {}
    for value in values:
        for item in value.split(","):
            if not item.strip():
                continue
            key, equals, setting = item.partition("=")
            found[key.strip()] = setting.strip() if equals else "true"
    return found


class RuntimeUse(msgspec.Struct, kw_only=True):
    """One entry of --runtime-config with who has it."""

    key: str
    value: str
    labels: list[str] = msgspec.field(default_factory=list)
    evidence: list[Evidence] = msgspec.field(default_factory=list)


def runtime_uses(ctx: Context) -> tuple[RuntimeUse, ...]:
    """Entries of --runtime-config of kube-apiservers, of what they said of themselves, and of kubeadm-config."""
    found: dict[tuple[str, str], RuntimeUse] = {}

    def note(values: Iterable[str], label: str, provenance: str) -> None:
        for key, value in entries(values).items():
            item = found.setdefault((key, value), RuntimeUse(key=key, value=value))
            item.labels.append(label)
            item.evidence.append(
                Evidence(source=label, path="--runtime-config", value=f"{key}={value}", provenance=provenance)
            )

    for instance in ctx.of("kube-apiserver"):
        note(instance.runtime_config or (), label_of(instance), "pod spec")
    for process in ctx.processes("kube-apiserver"):
        note(process.runtime_config or (), process.place, process.provenance)
    for config in ctx.config_maps("kubeadm"):
        for flag in config.component_flags.get("kube-apiserver", ()):
            if flag.name == "runtime-config":
                note(flag.values or (), f"ConfigMap {config.namespace}/{config.name}", "configmap")
    return tuple(found[key] for key in sorted(found))


class RuntimeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one minor makes of an entry."""

    stops: str = ""
    """The component's words where it would not start; empty where it does."""
    idle: bool = False
    """Accepted, and no kind is served."""
    group: bool = False
    """It stops for a group that it does not know: it names all such groups at once."""


def judge(ctx: Context, key: str, minor: str, value: str = "true") -> RuntimeVerdict:
    """What kube-apiserver of a known minor makes of an entry (apiserver pkg/server/resourceconfig, options/api_enablement)."""
    if key in _SPECIAL:
        return RuntimeVerdict()
    parts = key.split("/")
    groups = ctx.data.minor(minor).groups
    if len(parts) == 1 and key != "v1":
        return RuntimeVerdict(stops=f"runtime-config invalid key {key}")
    if len(parts) == 1 or parts[0] == "api":
        group, version, resource = "", parts[-1], ""
    else:
        group, version, resource = parts[0], parts[1], "/".join(parts[2:])
    gv = f"{group}/{version}" if group else version
    if groups and group not in groups:
        return RuntimeVerdict(stops=f"unknown api groups {gv}", group=True)
    if groups and version not in groups[group]:
        return RuntimeVerdict(stops=f"group version {gv} that has not been registered")
    if resource != resource.lower():
        words = f"invalid key {key}: group/version/resource and resource is always lowercase plural, not {go_quote(resource)}"
        return RuntimeVerdict(stops=words)
    if value and go_parse_bool(value) is None:
        words = f"strconv.ParseBool: parsing {go_quote(value)}: invalid syntax"
        return RuntimeVerdict(stops=f"invalid value of {key}: {value}, err: {words}")
    kinds = [
        a for a in ctx.data.apis(minor) if a.group_version == gv and (not resource or a.resource == resource)
    ]
    return RuntimeVerdict(idle=bool(kinds) and not any(a.served for a in kinds))


def _runtime_config(ctx: Context) -> Iterator[Finding]:
    target = minor_of(ctx.goes_to("kube-apiserver"))
    wished = ctx.target_minor
    if target is None or wished is None:
        return
    way = [m for m in (*ctx.path, target) if ctx.data.knows(m)]
    yield from _only_all_false(ctx, way[-1])
    for item in runtime_uses(ctx):
        stop = next(((m, v.stops) for m in way if (v := judge(ctx, item.key, m, item.value)).stops), None)
        if stop is not None:
            minor, words = stop
            yield finding(
                RTC_UNKNOWN_VERSION,
                tr(
                    "--runtime-config {entry} on {where}: kube-apiserver {minor} exits with {words}.",
                    entry=f"{item.key}={item.value}",
                    where=names(item.labels),
                    minor=minor,
                    words=f"`{words}`",
                ),
                component="kube-apiserver",
                instances=item.labels,
                name=item.key,
                evidence=item.evidence[:8],
                hop=ctx.hop_of(minor),
            )
            continue
        if item.value == "false":
            continue
        removal = _removal(ctx, item.key)
        if removal is not None and minor_key(removal) <= minor_key(wished):
            yield finding(
                RTC_SOON,
                tr(
                    "--runtime-config {entry} on {where}: all kinds of it are gone with {minor}. The entry must go first: there is nothing left to serve, and a version that is not registered stops kube-apiserver.",
                    entry=f"{item.key}={item.value}",
                    where=names(item.labels),
                    minor=removal,
                ),
                component="kube-apiserver",
                instances=item.labels,
                name=item.key,
                evidence=item.evidence[:8],
                severity="blocking",
                hop=ctx.hop_of(removal),
            )
        elif any(judge(ctx, item.key, m).idle for m in way[-1:]):
            yield finding(
                RTC_IDLE,
                tr(
                    "--runtime-config {entry} on {where}: {minor} accepts it and serves no kind of it.",
                    entry=f"{item.key}={item.value}",
                    where=names(item.labels),
                    minor=way[-1],
                ),
                component="kube-apiserver",
                instances=item.labels,
                name=item.key,
                evidence=item.evidence[:8],
            )
        elif removal is not None:
            by_kind = _removals(ctx, item.key)
            text = tr(
                "--runtime-config {entry} on {where} keeps an API that is announced to go with {minor}.",
                entry=f"{item.key}={item.value}",
                where=names(item.labels),
                minor=removal,
            )
            if len(set(by_kind.values())) > 1:
                text = tr(
                    "--runtime-config {entry} on {where} keeps kinds that are announced to go: {kinds}.",
                    entry=f"{item.key}={item.value}",
                    where=names(item.labels),
                    kinds=", ".join(f"{kind} {minor}" for kind, minor in sorted(by_kind.items())),
                )
            yield finding(
                RTC_SOON,
                text,
                component="kube-apiserver",
                instances=item.labels,
                name=item.key,
                evidence=item.evidence[:8],
            )


def _only_all_false(ctx: Context, minor: str) -> Iterator[Finding]:
    alone = [c for c in ctx.of("kube-apiserver") if entries(c.runtime_config or ()) == {"api/all": "false"}]
    if alone:
        yield finding(
            RTC_UNKNOWN_VERSION,
            tr(
                "--runtime-config api/all=false alone on {where}: kube-apiserver {minor} exits with {words}.",
                where=names(label_of(c) for c in alone),
                minor=minor,
                words="`invalid runtime-config with only api/all=false`",
            ),
            component="kube-apiserver",
            instances=[label_of(c) for c in alone],
            name="api/all",
        )


def _removal(ctx: Context, key: str) -> str | None:
    """Minor with which the last kind of a group version goes, by the newest lifecycle marks; None: not announced."""
    if "/" not in key or key in _SPECIAL:
        return None
    removed = _removals(ctx, key)
    known = [m for m in removed.values() if m]
    if not removed or len(known) != len(removed):
        return None
    return max(known, key=minor_key)


def _removals(ctx: Context, key: str) -> dict[str, str]:
    """Kind of a group version -> the minor with which it goes; empty text: not announced."""
    group_version = "/".join(key.split("/")[:2])
    return {
        api.kind: api.removed or ""
        for api in ctx.data.apis(ctx.data.newest)
        if api.group_version == group_version and api.served
    }


# ---------------------------------------------------------------------------------------------------------- rows


def forecast_rows(ctx: Context) -> tuple[ForecastRow, ...]:
    """Flags and --runtime-config entries on which the target has something to say."""
    rows = []
    for item in uses(ctx):
        minor = gone_in(ctx, item)
        if minor is None:
            continue
        labels = item.labels or [f"ConfigMap {place}" for place in item.configs]
        rows.append(
            ForecastRow(
                kind="flag",
                name=f"--{item.name}",
                component=item.component,
                instances=tuple(sorted(set(labels))),
                today=tr("set"),
                at_target=tr("does not start"),
                effect="will-not-start",
                message=message(item.component, item.name),
                provenance="pod spec" if item.labels else "configmap",
                hop=ctx.hop_of(minor),
            )
        )
    target = minor_of(ctx.goes_to("kube-apiserver"))
    if target is not None and ctx.data.knows(target):
        for use in runtime_uses(ctx):
            verdict = judge(ctx, use.key, target, use.value)
            rows.append(
                ForecastRow(
                    kind="runtime-config",
                    name=use.key,
                    component="kube-apiserver",
                    instances=tuple(sorted(set(use.labels))),
                    today=use.value,
                    at_target=tr("does not start")
                    if verdict.stops
                    else tr("serves nothing")
                    if verdict.idle
                    else use.value,
                    effect="will-not-start"
                    if verdict.stops
                    else "redundant"
                    if verdict.idle
                    else "unchanged",
                    message=verdict.stops,
                    provenance=", ".join(sorted({e.provenance for e in use.evidence})),
                )
            )
    return tuple(rows)


def value_of(component: Component, flag: str) -> ConfigFact | None:
    """A flag of an instance; None where it is not given."""
    return next((fact for fact in component.flags if fact.name == flag), None)


def order_of(component: str) -> int:
    """Place of a component in tables."""
    return COMPONENTS.index(component) if component in COMPONENTS else len(COMPONENTS)
