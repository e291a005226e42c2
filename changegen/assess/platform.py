"""kubeadm's own gates, emulated versions, and OpenShift's feature sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from changegen.assess.codes import Code, finding
from changegen.assess.context import (
    CONTROL_PLANE,
    Context,
    label_of,
    names,
    place_of,
)
from changegen.i18n import tr, trn
from changegen.model.snapshot import Component
from changegen.model.ticket import Evidence, Finding
from changegen.versions import minor_of

FOREIGN = Code(
    code="CG-GATE-032",
    title="Feature gates of the distribution",
    severity="info",
    meaning="The distribution has gates of its own, which are not judged by the Kubernetes data; its operators write the gates of "
    "each release anew, so what this release sets says nothing of the next.",
    remedy="Read the distribution's release notes.",
)


KUBEADM_GATE = Code(
    code="CG-KUBEADM-002",
    title="kubeadm's own gate that its target does not know",
    severity="blocking",
    meaning="ClusterConfiguration.featureGates names a gate that kubeadm of the target does not know: it exits with "
    "'unrecognized feature-gate key'. These are kubeadm's own gates, not those of a component.",
    remedy="Remove it from featureGates of ClusterConfiguration in ConfigMap kubeadm-config.",
)


KUBEADM_API = Code(
    code="CG-KUBEADM-003",
    title="kubeadm of the target does not read this configuration version",
    severity="blocking",
    meaning="ConfigMap kubeadm-config is written in an API version that kubeadm of the target has dropped.",
    remedy="Migrate it with a kubeadm that still reads the old version (kubeadm config migrate), and store the result.",
)


KUBEADM_GATE_OLD = Code(
    code="CG-KUBEADM-004",
    title="kubeadm's own gate is deprecated or locked",
    severity="warning",
    meaning="A gate of kubeadm itself is set that is deprecated or locked at the target.",
    remedy="Remove it from featureGates of ClusterConfiguration.",
)


EMULATES = Code(
    code="CG-EMUL-001",
    title="Emulated version in use",
    severity="info",
    others=("warning",),
    meaning="A component emulates an older minor: gates, defaults and APIs are those of that minor. It keeps the way back, "
    "and the new behaviour comes only when the emulation ends.",
    remedy="End it as a change of its own, once going back is no longer wanted.",
)


MIN_COMPAT = Code(
    code="CG-EMUL-002",
    title="Minimum compatibility version raised",
    severity="warning",
    meaning="--min-compatibility-version is raised to the binary's own minor: it may write what the minor before cannot "
    "read, and going back is no longer supported.",
    remedy="Leave the flag out until going back is no longer wanted.",
)


EMULATION_OFFERED = Code(
    code="CG-EMUL-003",
    title="Emulated version can keep the way back",
    severity="info",
    meaning="The target's control plane can be told to emulate today's minor: new defaults, gates and APIs stay away until "
    "the flag is taken out. A gate that the target's binary has removed is not brought back by it.",
    remedy="Add --emulated-version with today's minor to kube-apiserver, kube-controller-manager and kube-scheduler for the "
    "change, and end it later as a change of its own.",
)


OPENSHIFT_NO_UPGRADE = Code(
    code="CG-OPENSHIFT-001",
    title="Feature set forbids upgrades",
    severity="blocking",
    meaning="The FeatureGate's featureSet is CustomNoUpgrade, TechPreviewNoUpgrade or DevPreviewNoUpgrade: the cluster cannot "
    "move to another minor, and the setting cannot be undone.",
    remedy="Move the workloads to a new cluster.",
)


OPENSHIFT_NO_ENTRY = Code(
    code="CG-OPENSHIFT-002",
    title="No feature gates for this release yet",
    severity="warning",
    meaning="status.featureGates has no entry for the release that is rolled out: its gates cannot be seen yet.",
    remedy="Read again when the rollout has gone on.",
)


CODES = (
    FOREIGN,
    KUBEADM_GATE,
    KUBEADM_API,
    KUBEADM_GATE_OLD,
    EMULATES,
    MIN_COMPAT,
    EMULATION_OFFERED,
    OPENSHIFT_NO_UPGRADE,
    OPENSHIFT_NO_ENTRY,
)


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on what stands around the gates of the components."""
    yield from _kubeadm(ctx)
    yield from _emulation(ctx)
    yield from _openshift(ctx)


def _kubeadm(ctx: Context) -> Iterator[Finding]:
    minor = minor_of(ctx.goes_to("kube-apiserver"))
    base = ctx.data.base_versions(minor) if minor is not None else None
    if minor is None or base is None:
        return
    for config in ctx.config_maps("kubeadm"):
        place = f"{config.namespace}/{config.name}"

        def evidence(path: str, value: str, place: str = place) -> tuple[Evidence, ...]:
            return (Evidence(source=place, path=path, value=value, provenance="configmap"),)

        version = config.api_version.rpartition("/")[2]
        if version and base.kubeadm_apis and version not in base.kubeadm_apis:
            readers = [
                m
                for m in ctx.data.minors
                if (b := ctx.data.base_versions(m)) is not None and version in b.kubeadm_apis
            ]
            text = tr(
                "ConfigMap {place} is written in {version}, which kubeadm {minor} no longer reads; it writes {known}.",
                place=place,
                version=config.api_version,
                minor=minor,
                known=base.kubeadm_apis[-1],
            )
            if readers:
                text += " " + tr("The last kubeadm that can migrate it is {minor}.", minor=readers[-1])
            yield finding(
                KUBEADM_API,
                text,
                component="kubeadm",
                instances=[f"ConfigMap {place}"],
                name=config.api_version,
                evidence=evidence("ClusterConfiguration.apiVersion", config.api_version),
                hop=ctx.hop_of(minor),
            )
        for gate, value in sorted(config.own_feature_gates.items()):
            text_value = f"{gate}: {str(value).lower()}"
            known = base.kubeadm_gates.get(gate)
            if known is None:
                history = ctx.data.kubeadm_gate(gate)
                text = tr(
                    "featureGates of ClusterConfiguration names {gate}, which kubeadm {minor} does not know: it exits with {message}.",
                    gate=gate,
                    minor=minor,
                    message=f"`unrecognized feature-gate key: {gate}`",
                )
                if not history and ctx.data.gate(gate) is not None:
                    text += " " + tr(
                        "{gate} is a gate of the components and belongs into their extraArgs.", gate=gate
                    )
                yield finding(
                    KUBEADM_GATE,
                    text,
                    component="kubeadm",
                    instances=[f"ConfigMap {place}"],
                    name=gate,
                    evidence=evidence("ClusterConfiguration.featureGates", text_value),
                    hop=ctx.hop_of(minor),
                )
            elif known.stage == "Deprecated" or known.deprecation or known.lock:
                yield finding(
                    KUBEADM_GATE_OLD,
                    tr(
                        "featureGates of ClusterConfiguration names {gate}, which is deprecated or locked in kubeadm {minor}.",
                        gate=gate,
                        minor=minor,
                    ),
                    component="kubeadm",
                    instances=[f"ConfigMap {place}"],
                    name=gate,
                    evidence=evidence("ClusterConfiguration.featureGates", text_value),
                )


def _emulation(ctx: Context) -> Iterator[Finding]:
    used = False
    for name in CONTROL_PLANE:
        emulating: defaultdict[str, list[Component]] = defaultdict(list)
        raised: defaultdict[str, list[Component]] = defaultdict(list)
        for component in ctx.of(name):
            version = ctx.version_of(component)
            own = version.minor_version if version is not None else None
            emulated = minor_of(_last(component.emulated_version))
            minimum = minor_of(_last(component.min_compatibility_version))
            if emulated is not None and emulated != own:
                emulating[emulated].append(component)
            if minimum is not None and minimum in (own, ctx.target_minor):
                raised[minimum].append(component)
        for emulated, group in emulating.items():
            used = True
            yield finding(
                EMULATES,
                tr(
                    "{component} ({where}) emulates {emulated}: gates, defaults and APIs are those of {emulated}.",
                    component=name,
                    where=names(place_of(c) for c in group),
                    emulated=emulated,
                ),
                component=name,
                instances=[label_of(c) for c in group],
                name=emulated,
                evidence=[
                    Evidence(
                        source=label_of(c),
                        path="--emulated-version",
                        value=c.emulated_version or "",
                        provenance="pod spec",
                    )
                    for c in group[:3]
                ],
            )
        for minimum, group in raised.items():
            yield finding(
                MIN_COMPAT,
                tr(
                    "{component} ({where}) has the minimum compatibility version {minimum}: what it writes need not be readable for the minor before, and going back is no longer supported.",
                    component=name,
                    where=names(place_of(c) for c in group),
                    minimum=minimum,
                ),
                component=name,
                instances=[label_of(c) for c in group],
                name=minimum,
            )
    emulated = minor_of(ctx.snapshot.cluster.emulation_version)
    if not used and emulated is not None and ctx.today is not None and emulated not in ctx.apiserver_minors:
        used = True
        yield finding(
            EMULATES,
            tr("/version of kube-apiserver says that it emulates {emulated}.", emulated=emulated),
            component="kube-apiserver",
            name=emulated,
            evidence=(
                Evidence(source="/version", path="emulationMinor", value=emulated, provenance="version"),
            ),
        )
    if (
        not used
        and ctx.path
        and ctx.of("kube-apiserver")
        and not ctx.snapshot.cluster.managed
        and ctx.today_minor is not None
    ):
        yield finding(
            EMULATION_OFFERED,
            tr(
                "kube-apiserver, kube-controller-manager and kube-scheduler {target} can run with --emulated-version={today}: today's defaults stay, and the way back stays wider.",
                target=ctx.path[0],
                today=ctx.today_minor,
            ),
            component="control plane",
            name=ctx.today_minor,
        )


def _last(text: str | None) -> str | None:
    return text.rpartition("=")[2] if text else None


_FORBIDDING: Final = ("CustomNoUpgrade", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade")


def _openshift(ctx: Context) -> Iterator[Finding]:
    facts = ctx.snapshot.openshift
    if not facts:
        return
    chosen = str(facts.get("feature_set") or "")
    if chosen in _FORBIDDING:
        yield finding(
            OPENSHIFT_NO_UPGRADE,
            tr(
                "FeatureGate cluster has featureSet {feature_set}: it forbids moving to another minor and cannot be undone.",
                feature_set=chosen,
            ),
            component="FeatureGate",
            name="cluster",
            evidence=(
                Evidence(
                    source="featuregates.config.openshift.io/cluster",
                    path="spec.featureSet",
                    value=chosen,
                    provenance="custom resource",
                ),
            ),
        )
    desired, entry = str(facts.get("desired") or ""), str(facts.get("gates_version") or "")
    missing = desired and desired != entry
    entry = str(facts.get("gates_previous") or entry or facts.get("gates_versions") or "")
    if missing:
        text = (
            tr(
                "status.featureGates has no entry for {desired}; the newest is that of {entry}, the release before.",
                desired=desired,
                entry=entry,
            )
            if entry
            else tr("status.featureGates has no entry for {desired}.", desired=desired)
        )
        yield finding(
            OPENSHIFT_NO_ENTRY,
            text,
            component="FeatureGate",
            name="cluster",
            evidence=(
                Evidence(
                    source="clusterversions.config.openshift.io/version",
                    path="status.desired.version",
                    value=desired,
                    provenance="custom resource",
                ),
            ),
        )
    foreign = sorted(
        {
            gate
            for component in ctx.snapshot.components
            if isinstance(component.feature_gates, dict)
            for gate in component.feature_gates
            if ctx.data.gate(gate) is None
        }
    )
    if foreign and ctx.foreign_gates:
        yield finding(
            FOREIGN,
            trn(
                "{n} gate is the distribution's own: {gates}.",
                "{n} gates are the distribution's own: {gates}.",
                n=len(foreign),
                gates=names(foreign, 12),
            ),
            component="feature gates",
        )
