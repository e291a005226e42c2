"""Command-line flags and --runtime-config that the target does not accept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from changegen.apis import parse_runtime_config, runtime_config
from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, complete, label_of, names, of_flags, with_versions
from changegen.gates import GateSources, go_parse_bool
from changegen.i18n import tr
from changegen.model.snapshot import ConfigFact
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
    meaning="extraArgs in ConfigMap kubeadm-config name a flag that the component of the target has dropped, and no "
    "instance that was read has it. kubeadm writes the manifests from it again.",
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
RTC_REFUSED = Code(
    code="CG-FLAG-010",
    title="--runtime-config that the target refuses",
    severity="blocking",
    meaning="--runtime-config names a group, or a version of a known group, that the target has not registered, or an API that is "
    "newer than the emulated version, turns off what kube-apiserver itself needs, or is malformed: kube-apiserver exits.",
    remedy="Remove the entry from --runtime-config before the change.",
)
RTC_IDLE = Code(
    code="CG-FLAG-011",
    title="--runtime-config keeps an API that serves nothing",
    severity="info",
    others=("warning",),
    meaning="--runtime-config names an API that is still registered at the target, but no kind of it is served: all are gone, there "
    "never was such a resource, or the gate that it needs is off.",
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
    RTC_REFUSED,
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
    """Entries of --runtime-config as kube-apiserver reads them: later ones win, a missing value is true.

    The four that stand for a whole stage have no default: `api/beta` alone is refused.
    """
    return {
        key: text if text or key in _SPECIAL else "true"
        for key, text in parse_runtime_config(tuple(values)).items()
    }


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A kube-apiserver with its --runtime-config: an instance, what a process said of itself, or kubeadm's configuration."""

    label: str
    provenance: str
    values: tuple[str, ...]
    sources: GateSources
    complete: bool
    """Whether all its gates are known: kinds may need one."""
    priority_and_fairness: bool
    target: str | None
    """Version by which it is judged; None: it stays."""


def servers(ctx: Context) -> tuple[Server, ...]:
    """Every kube-apiserver of which --runtime-config was read."""
    found = []
    target = ctx.goes_to("kube-apiserver")
    for instance in ctx.of("kube-apiserver"):
        if instance.runtime_config is None:
            continue
        sources = ctx.sources(instance)
        found.append(
            Server(
                label=label_of(instance),
                provenance="pod spec",
                values=instance.runtime_config,
                sources=with_versions(GateSources(), instance) if sources is None else sources,
                complete=sources is not None and (complete(instance) or instance.effective_gates is not None),
                priority_and_fairness=_fair(instance.flags),
                target=None if ctx.stays(instance) else target,
            )
        )
    for process in ctx.processes("kube-apiserver"):
        if process.runtime_config is None:
            continue
        gates = process.flag_gates
        found.append(
            Server(
                label=process.place,
                provenance=process.provenance,
                values=process.runtime_config,
                sources=of_flags(process.flags, GateSources(flags=gates.flag_values if gates else ())),
                complete=gates is not None and gates.complete,
                priority_and_fairness=_fair(process.flags),
                target=target,
            )
        )
    for config in ctx.config_maps("kubeadm"):
        flags = config.component_flags.get("kube-apiserver", ())
        given = next((flag.values or () for flag in flags if flag.name == "runtime-config"), ())
        source = config.component_gates.get("kube-apiserver")
        found.append(
            Server(
                label=f"ConfigMap {config.namespace}/{config.name}",
                provenance="configmap",
                values=given,
                sources=of_flags(flags, GateSources(flags=source.flag_values if source else ())),
                complete=True,
                priority_and_fairness=_fair(flags),
                target=target,
            )
        )
    return tuple(found)


def _fair(flags: Iterable[ConfigFact]) -> bool:
    """--enable-priority-and-fairness, on by default."""
    fact = next((flag for flag in flags if flag.name == "enable-priority-and-fairness"), None)
    return fact is None or not fact.values or go_parse_bool(fact.values[-1]) is not False


class RuntimeUse(msgspec.Struct, kw_only=True):
    """Entries of --runtime-config with what the target makes of them, and who has them.

    Several entries stand together where one fault is told of them all.
    """

    keys: tuple[str, ...]
    given: str
    """As written: `key=value`, several with commas."""
    minor: str = ""
    """First minor of the way that does not start with them; empty: all do."""
    words: tuple[str, ...] = ()
    """What that one says."""
    idle: str = ""
    """The target, where it accepts them and serves nothing for them."""
    needs: tuple[str, ...] = ()
    """Gates that are off and without which nothing is served for them."""
    on: bool = True
    """Whether they turn something on."""
    labels: list[str] = msgspec.field(default_factory=list)
    evidence: list[Evidence] = msgspec.field(default_factory=list)

    @property
    def name(self) -> str:
        """The keys as one text."""
        return ", ".join(self.keys)


def runtime_uses(ctx: Context) -> tuple[RuntimeUse, ...]:
    """Entries of --runtime-config of every kube-apiserver, judged at each minor of the way."""
    return ctx.remember(("runtime uses",), lambda: _runtime_uses(ctx))


def _runtime_uses(ctx: Context) -> tuple[RuntimeUse, ...]:
    found: dict[tuple[object, ...], RuntimeUse] = {}
    for server in servers(ctx):
        written = parse_runtime_config(server.values)
        told: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}
        verdict = None
        for minor in _way(ctx, server):
            verdict = runtime_config(
                minor,
                server.values,
                server.sources,
                ctx.data,
                priority_and_fairness=server.priority_and_fairness,
            )
            here: dict[tuple[str, ...], list[str]] = {}
            for problem in verdict.problems:
                here.setdefault(problem.keys, []).append(problem.message)
            known = {key for keys in told for key in keys}
            told |= {keys: (minor, tuple(words)) for keys, words in here.items() if not known & set(keys)}
        stopping = {key for keys in told for key in keys}
        idle = _idle(ctx, server, {k: v for k, v in written.items() if k not in stopping})
        for keys in (*told, *((key,) for key in written if key not in stopping)):
            minor, words = told.get(keys, ("", ()))
            key = keys[0]
            use = RuntimeUse(
                keys=keys,
                given=",".join(_entry(key, written[key]) for key in keys),
                minor=minor,
                words=words,
                idle=(minor_of(server.target) or "") if key in idle else "",
                needs=idle.get(key, ()),
                on=any(not written[k] or go_parse_bool(written[k]) is not False for k in keys),
            )
            same = (use.keys, use.given, use.minor, use.words, use.idle, use.needs)
            use = found.setdefault(same, use)
            use.labels.append(server.label)
            use.evidence.append(
                Evidence(
                    source=server.label,
                    path="--runtime-config",
                    value=use.given,
                    provenance=server.provenance,
                )
            )
    return tuple(found[key] for key in sorted(found, key=str))


def _entry(key: str, text: str) -> str:
    return f"{key}={text or ('' if key in _SPECIAL else 'true')}"


def _way(ctx: Context, server: Server) -> tuple[str, ...]:
    target = minor_of(server.target)
    if target is None:
        return ()
    return tuple(m for m in dict.fromkeys((*ctx.path, target)) if ctx.data.knows(m))


def _idle(ctx: Context, server: Server, written: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Entries for which the target serves nothing → gates that would change it, of a gate that is known to be off."""
    if server.target is None or not ctx.data.knows(server.target):
        return {}
    values = tuple(_entry(key, text) for key, text in written.items())
    verdict = runtime_config(
        server.target,
        values,
        server.sources,
        ctx.data,
        priority_and_fairness=server.priority_and_fairness,
    )
    found = {}
    for key in verdict.without_effect:
        parts = ["", "v1"] if key in {"v1", "api/v1"} else key.split("/")
        kinds = [
            api
            for api in ctx.data.apis(server.target)
            if [api.group, api.version, api.resource][: len(parts)] == parts and api.served
        ]
        needs = tuple(sorted({gate for api in kinds for gate in api.gates}))
        if not kinds or (needs and server.complete):
            found[key] = needs
    return found


def _runtime_config(ctx: Context) -> Iterator[Finding]:
    wished = ctx.target_minor
    if wished is None or minor_of(ctx.goes_to("kube-apiserver")) is None:
        return
    for item in runtime_uses(ctx):
        if item.minor:
            yield finding(
                RTC_REFUSED,
                tr(
                    "--runtime-config {entry} on {where}: kube-apiserver {minor} exits with {words}.",
                    entry=item.given,
                    where=names(item.labels),
                    minor=item.minor,
                    words=", ".join(f"`{words}`" for words in item.words),
                ),
                component="kube-apiserver",
                instances=item.labels,
                name=item.name,
                evidence=item.evidence[:8],
                hop=ctx.hop_of(item.minor),
            )
            continue
        if not item.on:
            continue
        removal = _removal(ctx, item.keys[0])
        if removal is not None and minor_key(removal) <= minor_key(wished):
            yield finding(
                RTC_SOON,
                tr(
                    "--runtime-config {entry} on {where}: all kinds of it are gone with {minor}. The entry must go first: there is nothing left to serve, and a version that is not registered stops kube-apiserver.",
                    entry=item.given,
                    where=names(item.labels),
                    minor=removal,
                ),
                component="kube-apiserver",
                instances=item.labels,
                name=item.name,
                evidence=item.evidence[:8],
                severity="blocking",
                hop=ctx.hop_of(removal),
            )
        elif item.idle:
            text = tr(
                "--runtime-config {entry} on {where}: {minor} accepts it and serves no kind of it.",
                entry=item.given,
                where=names(item.labels),
                minor=item.idle,
            )
            if item.needs:
                text += " " + tr("It needs {gates}, which is off.", gates=", ".join(item.needs))
            yield finding(
                RTC_IDLE,
                text,
                component="kube-apiserver",
                instances=item.labels,
                name=item.name,
                evidence=item.evidence[:8],
                advice=tr("Turn the gate on, or remove the entry.") if item.needs else None,
            )
        elif removal is not None:
            by_kind = _removals(ctx, item.keys[0])
            text = tr(
                "--runtime-config {entry} on {where} keeps an API that is announced to go with {minor}.",
                entry=item.given,
                where=names(item.labels),
                minor=removal,
            )
            if len(set(by_kind.values())) > 1:
                text = tr(
                    "--runtime-config {entry} on {where} keeps kinds that are announced to go: {kinds}.",
                    entry=item.given,
                    where=names(item.labels),
                    kinds=", ".join(f"{kind} {minor}" for kind, minor in sorted(by_kind.items())),
                )
            yield finding(
                RTC_SOON,
                text,
                component="kube-apiserver",
                instances=item.labels,
                name=item.name,
                evidence=item.evidence[:8],
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
    target = ctx.goes_to("kube-apiserver")
    if target is None or not ctx.data.knows(target):
        return tuple(rows)
    for use in runtime_uses(ctx):
        value = use.given.partition("=")[2] if len(use.keys) == 1 else use.given
        after = tr("does not start") if use.minor else tr("serves nothing") if use.idle else value
        rows.append(
            ForecastRow(
                kind="runtime-config",
                name=use.name,
                component="kube-apiserver",
                instances=tuple(sorted(set(use.labels))),
                today=value,
                at_target=after,
                effect="will-not-start" if use.minor else "redundant" if use.idle else "unchanged",
                message=", ".join(use.words),
                provenance=", ".join(sorted({e.provenance for e in use.evidence})),
                hop=ctx.hop_of(use.minor) if use.minor else "",
            )
        )
    return tuple(rows)
