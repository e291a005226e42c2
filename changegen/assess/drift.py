"""Where sources disagree: manifests, kubeadm-config, /flagz, metrics, configz, replicas of one component."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from changegen.assess.apis import computed
from changegen.assess.codes import Code, finding
from changegen.assess.context import CONTROL_PLANE, GATED, Context, label_of, names, place_of, sources_of
from changegen.assess.flags import entries
from changegen.i18n import tr
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Component, ConfigFact, ProcessFact
from changegen.model.ticket import Evidence, Finding
from changegen.versions import same_release, try_version

KUBEADM = Code(
    code="CG-DRIFT-001",
    title="Manifest differs from kubeadm-config",
    severity="warning",
    meaning="A control-plane Pod has other settings than ConfigMap kubeadm-config says. kubeadm writes the manifests from it "
    "again at the next upgrade: edits made by hand go, and what is only in the ConfigMap comes.",
    remedy="Decide which one is right, and correct the other, before the change.",
)
KUBELET = Code(
    code="CG-DRIFT-002",
    title="Kubelet differs from kubelet-config",
    severity="warning",
    meaning="A kubelet's own configuration sets other gates than ConfigMap kubelet-config.",
    remedy="Find out where the node gets its settings from.",
)
REPLICAS = Code(
    code="CG-DRIFT-003",
    title="Replicas of a component differ",
    severity="warning",
    others=("info",),
    meaning="Instances of one component are given different settings. What the cluster does then depends on which one "
    "answers, or leads.",
    remedy="Level them.",
)
FLAGZ = Code(
    code="CG-DRIFT-004",
    title="Running process differs from its manifest",
    severity="warning",
    others=("info",),
    meaning="/flagz of a process names settings that no manifest of the component has, or others than they have.",
    remedy="Find out which process answered and how it was started; a restart from the manifest would change it.",
)
METRIC = Code(
    code="CG-DRIFT-005",
    title="Effective gates differ from what the settings give",
    severity="warning",
    meaning="kubernetes_feature_enabled of a process says otherwise than its version and settings, as read, would give.",
    remedy="Trust the metric for what is, and find out which setting was not read.",
)
SERVED = Code(
    code="CG-DRIFT-006",
    title="Served APIs differ from what the settings give",
    severity="info",
    others=("warning",),
    meaning="Discovery serves an API that neither the defaults nor the --runtime-config of the manifests enables, or does not "
    "serve one that they enable.",
    remedy="Find out which kube-apiserver answered and how it was started.",
)
CODES = (KUBEADM, KUBELET, REPLICAS, FLAGZ, METRIC, SERVED)

# Flags whose value is of one node, or of one start, by nature.
_OF_A_NODE: Final = frozenset(
    {
        "advertise-address",
        "advertise-client-urls",
        "bind-address",
        "hostname-override",
        "initial-advertise-peer-urls",
        "initial-cluster",
        "initial-cluster-state",
        "listen-client-urls",
        "listen-metrics-urls",
        "listen-peer-urls",
        "name",
        "node-ip",
        "node-labels",
        "provider-id",
        "etcd-servers",
        "v",
        "feature-gates",
        "runtime-config",
    }
)
_MULTI: Final = frozenset({"feature-gates", "runtime-config"})


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on disagreement."""
    yield from _kubeadm(ctx)
    yield from _kubelets(ctx)
    yield from _replicas(ctx)
    yield from _flagz(ctx)
    yield from _metrics(ctx)
    yield from _served(ctx)


def _facts(facts: Iterable[ConfigFact]) -> dict[str, tuple[str, ...] | None]:
    return {fact.name: fact.values for fact in facts}


def _pairs(gates: Mapping[str, bool]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in gates.items()}


# ------------------------------------------------------------------------------------------- manifest, kubeadm-config


def _kubeadm(ctx: Context) -> Iterator[Finding]:
    for config in ctx.config_maps("kubeadm"):
        place = f"{config.namespace}/{config.name}"
        for name in (*CONTROL_PLANE, "etcd"):
            instances = [c for c in ctx.of(name) if c.kind == "static pod"]
            if not instances:
                continue
            wanted = config.component_gates.get(name)
            gates = _pairs(wanted.gates) if wanted is not None else {}
            differences: defaultdict[tuple[str, str, str], list[Component]] = defaultdict(list)
            for component in instances:
                if name != "etcd" and isinstance(component.feature_gates, dict):
                    have = _pairs(component.feature_gates)
                    for gate in sorted({*gates, *have}):
                        if gates.get(gate) != have.get(gate):
                            differences[gate, have.get(gate, ""), gates.get(gate, "")].append(component)
                if component.flags_observable:
                    for flag, have_value, want_value in _extra(
                        component, config.component_flags.get(name, ())
                    ):
                        differences[f"--{flag}", have_value, want_value].append(component)
            for (what, has, want), group in sorted(differences.items()):
                yield _kubeadm_finding(ctx, name, place, what, has, want, group)


def _extra(component: Component, wanted: Iterable[ConfigFact]) -> Iterator[tuple[str, str, str]]:
    """Flags of extraArgs that an instance has not, or has otherwise: (flag, value in the manifest, value wanted).

    What a manifest has beyond extraArgs is kubeadm's own; only extraArgs can be compared.
    """
    have = _facts(component.flags)
    for fact in wanted:
        if fact.name == "feature-gates":
            continue
        if fact.name == "runtime-config":
            ours = entries(component.runtime_config or ())
            theirs = entries(fact.values or ())
            for key in sorted({*ours, *theirs}):
                if ours.get(key) != theirs.get(key):
                    yield f"runtime-config {key}", ours.get(key, ""), theirs.get(key, "")
            continue
        if fact.name not in have:
            yield fact.name, "", ", ".join(fact.values or ()) or tr("given")
        elif fact.values is not None and have[fact.name] is not None and have[fact.name] != fact.values:
            yield fact.name, ", ".join(have[fact.name] or ()), ", ".join(fact.values)
    if not any(fact.name == "runtime-config" for fact in wanted):
        for key, value in sorted(entries(component.runtime_config or ()).items()):
            yield f"runtime-config {key}", value, ""


def _kubeadm_finding(
    ctx: Context, component: str, place: str, what: str, has: str, want: str, group: list[Component]
) -> Finding:
    where = names(place_of(c) for c in group)
    if not has:
        text = tr(
            "{place} gives {what}={want} to {component}; it is not set on {where}. The next run of kubeadm sets it.",
            place=place,
            what=what,
            want=want,
            component=component,
            where=where,
        )
    elif not want:
        text = tr(
            "{what}={has} is set on {where}, and {place} does not give it to {component}: edited by hand, or by a patch that kubeadm must be given again. The next run of kubeadm takes it away.",
            where=where,
            what=what,
            has=has,
            place=place,
            component=component,
        )
    else:
        text = tr(
            "{what}={has} is set on {where}, and {place} says {want}. The next run of kubeadm sets {want}.",
            where=where,
            what=what,
            has=has,
            place=place,
            want=want,
        )
    if not what.startswith("--") and ctx.target is not None:
        text += _target_note(ctx, group[0], what)
    evidence = [
        Evidence(
            source=label_of(c),
            path="--feature-gates" if not what.startswith("--") else what,
            value=f"{what}={has}" if has else tr("absent"),
            provenance="pod spec",
        )
        for c in group[:4]
    ]
    evidence.append(
        Evidence(
            source=place,
            path=f"ClusterConfiguration {component} extraArgs",
            value=f"{what}={want}" if want else tr("absent"),
            provenance="configmap",
        )
    )
    return finding(
        KUBEADM,
        text,
        component=component,
        instances=[label_of(c) for c in group],
        name=what,
        evidence=evidence,
        preexisting=True,
    )


def _target_note(ctx: Context, component: Component, gate: str) -> str:
    target = ctx.goes_to(component.component)
    sources = sources_of(component)
    if target is None or sources is None or not ctx.data.knows(target):
        return ""
    history = ctx.data.gate(gate)
    if history is None:
        return ""
    on = ctx.effective_of(component.component, target, sources).get(gate)
    today = ctx.gate_state(component, gate).value
    if on is None or today is None or on == today:
        return ""
    if on:
        return " " + tr("With the target it is on anyway, by default.")
    return " " + tr("With the target it is off anyway, by default.")


# ------------------------------------------------------------------------------------------------------- kubelet


def _kubelets(ctx: Context) -> Iterator[Finding]:
    configs = [c for c in ctx.config_maps("kubelet") if "kubelet" in c.component_gates]
    if not configs:
        return
    config = configs[-1]
    wanted = config.component_gates["kubelet"].gates
    groups: defaultdict[str, list[Component]] = defaultdict(list)
    for component in ctx.of("kubelet"):
        own = next((s for s in component.gate_sources if s.provenance == "configz"), None)
        if own is None or own.gates == wanted:
            continue
        text = "; ".join(
            f"{gate}: {str(own.gates[gate]).lower() if gate in own.gates else '-'} / "
            f"{str(wanted[gate]).lower() if gate in wanted else '-'}"
            for gate in sorted({*own.gates, *wanted})
            if own.gates.get(gate) != wanted.get(gate)
        )
        groups[text].append(component)
    for text, group in sorted(groups.items()):
        yield finding(
            KUBELET,
            tr(
                "Gates of kubelet on {where} against ConfigMap {place} (node / ConfigMap): {text}.",
                where=names(place_of(c) for c in group),
                place=f"{config.namespace}/{config.name}",
                text=text,
            ),
            component="kubelet",
            instances=[label_of(c) for c in group],
            preexisting=True,
        )


# ------------------------------------------------------------------------------------------------------ replicas


def _replicas(ctx: Context) -> Iterator[Finding]:
    for name in (*CONTROL_PLANE, "etcd", "kubelet", "kube-proxy", "cloud-controller-manager"):
        instances = ctx.of(name)
        if len(instances) < 2:
            continue
        if name == "kubelet":
            # Of a kubelet, only its own word counts: the ConfigMap is one for all, and flags are seldom seen.
            instances = tuple(c for c in instances if c.gates_certainty == "effective")
        settings = {id(c): _settings(c, gates=name in GATED) for c in instances}
        for key in sorted({key for found in settings.values() for key in found}):
            groups: defaultdict[str, list[Component]] = defaultdict(list)
            for component in instances:
                if _readable(component, key):
                    groups[settings[id(component)].get(key, "")].append(component)
            if len(groups) > 1:
                yield _replica_finding(ctx, name, key, groups)


def _readable(component: Component, key: str) -> bool:
    if key.startswith("--"):
        return component.flags_observable and component.component != "kubelet"
    return component.feature_gates != UNOBSERVABLE


def _settings(component: Component, *, gates: bool) -> dict[str, str]:
    """Settings that replicas should share, one row each; a flag whose value was dropped counts as given."""
    found: dict[str, str] = {}
    if gates and isinstance(component.feature_gates, dict):
        found.update(_pairs(component.feature_gates))
    for key, value in entries(component.runtime_config or ()).items():
        found[f"--runtime-config {key}"] = value
    for fact in component.flags:
        if fact.name not in _OF_A_NODE:
            found[f"--{fact.name}"] = ", ".join(fact.values) if fact.values is not None else tr("given")
    return found


def _replica_finding(ctx: Context, name: str, key: str, groups: Mapping[str, list[Component]]) -> Finding:
    text = "; ".join(
        tr("{where}: {value}", where=names(place_of(c) for c in group), value=value or tr("not set"))
        for value, group in sorted(groups.items())
    )
    most = Counter({value: len(group) for value, group in groups.items()}).most_common(1)[0][0]
    odd = [c for value, group in groups.items() if value != most for c in group]
    message = tr(
        "{key} differs between the {component} instances: {text}.", key=key, component=name, text=text
    )
    known = ctx.data.gate(key) is not None
    if known:
        states = [ctx.gate_state(c, key) for group in groups.values() for c in group]
        on = [s.node or s.instance for s in states if s.value]
        off = [s.node or s.instance for s in states if s.value is False]
        if on and off:
            message += " " + tr("It is on in {on} and off in {off}.", on=names(on), off=names(off))
        else:
            message += " " + tr("By default it has the same value everywhere.")
        if name in {"kube-controller-manager", "kube-scheduler"}:
            message += " " + tr("Which one counts depends on the leader.")
    return finding(
        REPLICAS,
        message,
        component=name,
        instances=[label_of(c) for c in odd],
        name=key,
        evidence=[
            Evidence(
                source=label_of(c),
                path=key if key.startswith("--") else "--feature-gates",
                value=value or tr("not set"),
                provenance="pod spec",
            )
            for value, group in sorted(groups.items())
            for c in group[:3]
        ],
        severity=None if known or "runtime-config" in key else "info",
        preexisting=True,
    )


# ------------------------------------------------------------------------------------------------------- /flagz


def _flagz(ctx: Context) -> Iterator[Finding]:
    for process in ctx.snapshot.processes:
        if process.provenance != "flagz" or process.component not in (*GATED,):
            continue
        peers = [
            c
            for c in ctx.of(process.component)
            if (process.node is None or c.node == process.node) and c.feature_gates != UNOBSERVABLE
        ]
        if not peers:
            continue
        yield from _flagz_gates(process, peers)
        yield from _flagz_runtime(process, peers)
        yield from _flagz_rest(process, peers)


def _who(process: ProcessFact) -> str:
    if process.node is not None:
        return tr("{component} on {node}", component=process.component, node=process.node)
    return tr("the {component} that answered {place}", component=process.component, place=process.place)


def _flagz_gates(process: ProcessFact, peers: list[Component]) -> Iterator[Finding]:
    if process.flag_gates is None:
        return
    said = _pairs(process.flag_gates.gates)
    sets = [_pairs(c.feature_gates) if isinstance(c.feature_gates, dict) else {} for c in peers]
    if said in sets:
        return
    for gate in sorted({*said, *(g for s in sets for g in s)}):
        if any(said.get(gate) == s.get(gate) for s in sets):
            continue
        yield _flagz_finding(
            process, peers, f"--feature-gates {gate}", said.get(gate, ""), {s.get(gate, "") for s in sets}
        )


def _flagz_runtime(process: ProcessFact, peers: list[Component]) -> Iterator[Finding]:
    if process.runtime_config is None:
        return
    said = entries(process.runtime_config)
    sets = [entries(c.runtime_config or ()) for c in peers]
    for key in sorted({*said, *(k for s in sets for k in s)}):
        if any(said.get(key) == s.get(key) for s in sets):
            continue
        yield _flagz_finding(
            process, peers, f"--runtime-config {key}", said.get(key, ""), {s.get(key, "") for s in sets}
        )


def _flagz_finding(
    process: ProcessFact, peers: list[Component], what: str, said: str, manifest: set[str]
) -> Finding:
    if said and manifest == {""}:
        text = tr(
            "{who} says {what}={said}; no manifest of {component} has it ({where}).",
            who=_who(process),
            what=what,
            said=said,
            component=process.component,
            where=names(place_of(c) for c in peers),
        )
    elif not said:
        text = tr(
            "{where} have {what}={manifest}; {who} does not have it.",
            where=names(place_of(c) for c in peers),
            what=what,
            manifest=", ".join(sorted(manifest)),
            who=_who(process),
        )
    else:
        text = tr(
            "{who} says {what}={said}; the manifests ({where}) say {manifest}.",
            who=_who(process),
            what=what,
            said=said,
            where=names(place_of(c) for c in peers),
            manifest=", ".join(sorted(x or tr("nothing") for x in manifest)),
        )
    return finding(
        FLAGZ,
        text,
        component=process.component,
        instances=[label_of(c) for c in peers],
        name=what,
        evidence=(
            Evidence(source=process.place, path=what, value=said or tr("absent"), provenance="flagz"),
            *(
                Evidence(
                    source=label_of(c),
                    path=what,
                    value=tr("as in the manifest"),
                    provenance="pod spec",
                )
                for c in peers[:3]
            ),
        ),
        preexisting=True,
    )


def _flagz_rest(process: ProcessFact, peers: list[Component]) -> Iterator[Finding]:
    """Other flags whose values are known on both sides, in one finding: they rarely decide an upgrade."""
    said = {name: values for name, values in _facts(process.flags).items() if values is not None}
    differing = []
    for name in sorted(said):
        if name in _MULTI:
            continue
        have = [facts[name] for c in peers if (facts := _facts(c.flags)).get(name) is not None]
        if have and said[name] not in have and not any(_alike(said[name], h) for h in have):
            differing.append((name, ", ".join(said[name] or ())))
    if differing:
        yield finding(
            FLAGZ,
            tr(
                "{who} has other values than any manifest for {flags}: it was not started from one of these manifests as they are now.",
                who=_who(process),
                flags=", ".join(f"--{name}={value}" for name, value in differing),
            ),
            component=process.component,
            instances=[label_of(c) for c in peers],
            name="",
            evidence=[
                Evidence(source=process.place, path=f"--{name}", value=value, provenance="flagz")
                for name, value in differing[:8]
            ],
            severity="info",
            preexisting=True,
        )


def _alike(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> bool:
    """Equal but for how a list is printed: `[Node,RBAC]` and `Node,RBAC`."""

    def plain(values: tuple[str, ...] | None) -> str:
        return ",".join(values or ()).strip("[]").replace(" ", ",")

    return plain(a) == plain(b)


# ------------------------------------------------------------------------------------------------------- metrics


def _metrics(ctx: Context) -> Iterator[Finding]:
    for process in ctx.snapshot.processes:
        if process.effective_gates is None or process.component not in GATED:
            continue
        version = try_version(process.version)
        peers = [
            c
            for c in ctx.of(process.component)
            if c.feature_gates != UNOBSERVABLE
            and (process.node is None or c.node == process.node)
            and (version is None or (v := ctx.version_of(c)) is None or same_release(v, version))
        ]
        candidates = []
        for component in peers:
            sources, own = sources_of(component), version or ctx.version_of(component)
            if sources is None or own is None:
                continue
            expected = ctx.effective_of(process.component, own.raw, sources)
            if expected:
                candidates.append((component, _different(expected, process.effective_gates)))
        if not candidates or any(not different for _, different in candidates):
            continue
        component, different = min(candidates, key=lambda item: len(item[1]))
        yield finding(
            METRIC,
            tr(
                "kubernetes_feature_enabled of {who} differs from what the settings of {instance} give: {text}.",
                who=_who(process),
                instance=label_of(component),
                text=names((f"{gate}={str(value).lower()}" for gate, value in different.items()), 12),
            ),
            component=process.component,
            instances=[label_of(c) for c, _ in candidates],
            evidence=[
                Evidence(
                    source=process.place,
                    path=f"kubernetes_feature_enabled{{name={gate}}}",
                    value=str(int(value)),
                    provenance="metric",
                )
                for gate, value in list(different.items())[:8]
            ],
            preexisting=True,
        )


def _different(expected: Mapping[str, bool], said: Mapping[str, bool]) -> dict[str, bool]:
    return {gate: said[gate] for gate in sorted(said) if gate in expected and expected[gate] != said[gate]}


# -------------------------------------------------------------------------------------------------------- served


def _served(ctx: Context) -> Iterator[Finding]:
    """Discovery against what the manifests (not /flagz) enable."""
    minors = ctx.apiserver_minors
    servers = [c for c in ctx.of("kube-apiserver") if c.runtime_config is not None]
    if len(minors) != 1 or not ctx.data.knows(minors[0]) or not servers or not ctx.snapshot.apis:
        return
    minor = minors[0]
    known = {api.group_version for api in ctx.data.apis(minor) if api.served}
    configs = [entries(c.runtime_config or ()) for c in servers]
    for api in ctx.snapshot.apis:
        gv = api.group_version
        if gv not in known:
            continue
        rows = [a for a in ctx.data.apis(minor) if a.group_version == gv and a.resource and a.served]
        if any(a.enabled for a in rows) or any(_named(gv, config) for config in configs):
            continue
        yield finding(
            SERVED,
            tr(
                "{gv} is served; it is off by default and no manifest of kube-apiserver ({where}) enables it.",
                gv=gv,
                where=names(place_of(c) for c in servers),
            ),
            component="kube-apiserver",
            instances=[label_of(c) for c in servers],
            name=gv,
            evidence=(Evidence(source="discovery", path=gv, value="served", provenance="discovery"),),
            preexisting=True,
        )
    present = {api.group_version for api in ctx.snapshot.apis}
    if "apps/v1" not in present:
        # Only the answers of some groups are in the input.
        return
    for gv in sorted(known - present - {"v1"}):
        if computed(ctx, minor, gv) is True:
            yield finding(
                SERVED,
                tr("{gv} is not served, though the settings of kube-apiserver enable it.", gv=gv),
                component="kube-apiserver",
                instances=[label_of(c) for c in servers],
                name=gv,
                severity="warning",
                preexisting=True,
            )


def _named(group_version: str, config: Mapping[str, str]) -> bool:
    stage = "alpha" if "alpha" in group_version else "beta" if "beta" in group_version else "ga"
    wanted = {group_version, f"api/{stage}", "api/all"}
    return any(
        (key in wanted or key.startswith(group_version + "/")) and value != "false"
        for key, value in config.items()
    )
