"""Configuration files of kubelet, kube-proxy and kube-scheduler at the target: refused, dropped, or in effect at last.

ConfigMaps show what their files are made from; a file on a machine is not read. `changegen.configs` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from changegen.assess.codes import Code, finding
from changegen.assess.context import Context, label_of, names
from changegen.configs import STRICT, ConfigFault, ConfigVerdict, check, likely
from changegen.i18n import tr
from changegen.kubedata import ConfigKind
from changegen.model.snapshot import Component, ConfigMapFact, ConfigShape
from changegen.model.ticket import Evidence, Finding, Severity
from changegen.shell import word
from changegen.versions import minor_key, minor_of, next_minors

REFUSED = Code(
    code="CG-CONFIG-001",
    title="Configuration file that stops the component",
    severity="blocking",
    others=("warning",),
    meaning="A configuration file of kubelet, kube-proxy or kube-scheduler names an apiVersion or kind that the target does not "
    "read, or has a value of another type than the field's: the component exits. A field that the target does not know, or a key "
    "that stands twice, stops kube-scheduler alone. A warning where no component is seen to use the file.",
    remedy="Correct the file before the change.",
)
DROPPED = Code(
    code="CG-CONFIG-002",
    title="Settings that the target drops",
    severity="warning",
    others=("info",),
    meaning="A configuration file of kubelet or kube-proxy sets fields that the target does not know. It starts, logs 'Using lenient "
    "decoding as strict decoding failed', and goes on without them. Info where today's version does not know them either: "
    "they have no effect today.",
    remedy="Remove the field, or correct its spelling.",
)
AWAKENED = Code(
    code="CG-CONFIG-003",
    title="Settings that take effect with the target",
    severity="warning",
    meaning="A configuration file sets fields that today's version does not know and drops, and the target knows: they have had no "
    "effect so far, and have one from the change on.",
    remedy="Make sure that they are still wanted, and what the target does with them.",
)
TWICE = Code(
    code="CG-CONFIG-004",
    title="Key that stands twice in a configuration file",
    severity="info",
    meaning="A key stands twice in one object of a configuration file of kubelet or kube-proxy: it is logged, and the last value "
    "holds. kube-scheduler would not start.",
    remedy="Remove the one that is not meant.",
)
UNSEEN = Code(
    code="CG-CONFIG-005",
    title="Configuration that was not read or not judged",
    severity="info",
    meaning="kube-scheduler is given a configuration file that is on its machine only. It reads the file strictly: a field that the "
    "target does not know, also of a plugin's arguments, stops it. Of kubelet and kube-proxy it is told where a minor of the way "
    "reads a field or an API version no longer, or with another type. Of a file that was read it names what could not be judged.",
    remedy="Look into the file on the machine before the change.",
)
CODES = (REFUSED, DROPPED, AWAKENED, TWICE, UNSEEN)

_COMPONENT = {
    "kubelet": "kubelet",
    "k0s": "kubelet",
    "kube-proxy": "kube-proxy",
    "kube-scheduler": "kube-scheduler",
}
_KEYS = {"kubelet": "kubelet", "k0s": "kubeletConfiguration"}
_MOST = 8


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a release makes of a file."""

    minor: str
    known: ConfigKind
    verdict: ConfigVerdict


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file in a ConfigMap, judged at today's version and along the way."""

    component: str
    config: ConfigMapFact
    shape: ConfigShape
    used: bool
    """Whether an instance is seen to take its settings from it."""
    today: Step | None
    """None: today's version is not known, or not in the data."""
    way: tuple[Step, ...]

    @property
    def place(self) -> str:
        """`namespace/name` of the ConfigMap."""
        return f"{self.config.namespace}/{self.config.name}"

    @property
    def key(self) -> str:
        """Key of the ConfigMap, where it is known."""
        gates = self.config.component_gates.get(self.component)
        last = gates.place.rpartition(" ")[2] if gates is not None else ""
        return _KEYS.get(self.config.kind, "" if "/" in last else last)

    def evidence(self, paths: Iterable[str]) -> list[Evidence]:
        """Where fields stand."""
        source = f"ConfigMap {self.place}"
        key = f"{self.key}: " if self.key else ""
        return [
            Evidence(source=source, path=f"{key}{path}", provenance="configmap")
            for path in list(paths)[:_MOST]
        ]


def findings(ctx: Context) -> Iterator[Finding]:
    """Findings on configuration files."""
    # OpenShift's operators render the files of each release anew.
    if ctx.target is None or ctx.foreign_gates:
        return
    for reading in readings(ctx):
        stop = next((step for step in reading.way if not step.verdict.starts), None)
        if stop is not None:
            yield _refused(ctx, reading, stop)
            continue
        yield from _dropped(ctx, reading)
        yield from _awakened(reading)
        if reading.way and reading.way[-1].verdict.duplicates:
            yield _twice(reading, reading.way[-1].verdict.duplicates)
        if reading.way and reading.way[-1].verdict.unsure:
            yield _unsure(reading, reading.way[-1].verdict.unsure)
    yield from _unseen(ctx)


def readings(ctx: Context) -> tuple[Reading, ...]:
    """Every configuration file that was read and that a target can be judged for."""
    found = []
    plain = {config.namespace for config in ctx.config_maps("kubelet") if config.name == "kubelet-config"}
    for config in ctx.snapshot.config_maps:
        component = _COMPONENT.get(config.kind)
        if component is None or config.document is None:
            continue
        # Kubernetes before 1.24 named it after the minor, and k0s does still.
        if config.kind == "kubelet" and config.namespace in plain and config.name != "kubelet-config":
            continue
        if config.kind == "k0s" and not config.name.endswith(f"-{ctx.today_minor}"):
            continue
        today, way = _minors(ctx, component)
        found.append(
            Reading(
                component=component,
                config=config,
                shape=config.document,
                used=_used(ctx, component, config),
                today=_step(ctx, component, config, config.document, today),
                way=tuple(
                    step
                    for minor in way
                    if (step := _step(ctx, component, config, config.document, minor)) is not None
                ),
            )
        )
    return tuple(found)


def _minors(ctx: Context, component: str) -> tuple[str, tuple[str, ...]]:
    """Oldest minor of a component that goes on, and the minors of its way."""
    instances = [c for c in ctx.of(component) if not ctx.stays(c)]
    known = [v.minor_version for c in instances if (v := ctx.version_of(c)) is not None]
    today = min(known, key=minor_key, default=ctx.today_minor or "")
    target = ctx.goes_to(component)
    if target is None or (ctx.of(component) and not instances):
        return today, ()
    end = minor_of(target) or ""
    way = (*(next_minors(today, end) if today else ()), end)
    return today, tuple(minor for minor in dict.fromkeys(way) if ctx.data.knows(minor))


def _step(ctx: Context, component: str, config: ConfigMapFact, shape: ConfigShape, minor: str) -> Step | None:
    known = ctx.data.config(component, minor) if ctx.data.knows(minor) else None
    if known is None:
        return None
    return Step(minor=minor, known=known, verdict=check(component, config.api_version, shape, known))


def _used(ctx: Context, component: str, config: ConfigMapFact) -> bool:
    start = f"ConfigMap {config.namespace}/{config.name} "
    return any(
        source.place.startswith(start) for instance in ctx.of(component) for source in instance.gate_sources
    )


def _refused(ctx: Context, reading: Reading, stop: Step) -> Finding:
    faults = stop.verdict.faults
    already = reading.today is not None and not reading.today.verdict.starts
    text = tr(
        "{component} {minor} does not take the file in ConfigMap {place}: {faults}. It exits with {message}.",
        component=reading.component,
        minor=stop.minor,
        place=reading.place,
        faults="; ".join(_fault_text(reading, fault) for fault in faults[:_MOST]),
        message=_words(faults[0]),
    )
    if already:
        text += " " + tr("Today's version refuses it too: what runs was started with another file.")
    if not reading.used:
        text += " " + tr("No instance was seen to use it.")
    paths = [fault.path for fault in faults if fault.path] or ["apiVersion"]
    return _found(
        REFUSED,
        reading,
        paths,
        text,
        advice=_where(reading),
        severity=None if reading.used else "warning",
        preexisting=already,
        hop="" if already else ctx.hop_of(stop.minor),
    )


def _found(
    code: Code,
    reading: Reading,
    paths: Sequence[str],
    text: str,
    *,
    advice: str | None = None,
    severity: Severity | None = None,
    preexisting: bool = False,
    hop: str = "",
) -> Finding:
    """A finding on some fields of a file."""
    return finding(
        code,
        text,
        component=reading.component,
        instances=[f"ConfigMap {reading.place}"],
        name=names(paths),
        evidence=reading.evidence(paths),
        advice=advice,
        severity=severity,
        preexisting=preexisting,
        hop=hop,
    )


def _words(fault: ConfigFault) -> str:
    """What the component writes; marked where it goes on."""
    whole = fault.kind in {"duplicate", "unknown", "version"} and not fault.message.endswith((' "', " in"))
    return f"`{fault.message}`" if whole else f"`{fault.message} …`"


def _fault_text(reading: Reading, fault: ConfigFault) -> str:
    if fault.kind == "version":
        if not reading.shape.kind or not reading.config.api_version:
            return tr("it names no apiVersion or no kind")
        return tr(
            "apiVersion {version} with kind {kind} is not read",
            version=reading.config.api_version,
            kind=reading.shape.kind,
        )
    if fault.kind == "type":
        return tr(
            "{field} is {found}, where {wanted} is read",
            field=fault.path,
            found=fault.found,
            wanted=fault.wanted,
        )
    if fault.kind == "duplicate":
        return tr("key {key} stands twice", key=fault.path)
    return tr("{field} is not known", field=fault.path)


def _where(reading: Reading) -> str:
    """What to edit, for the ConfigMap and the files that were made from it."""
    key = f" ({reading.key})" if reading.key else ""
    text = tr("Correct it in ConfigMap {place}{key}.", place=reading.place, key=key)
    if reading.config.kind == "kubelet":
        text += " " + tr(
            "On each node it is the file that --config names, /var/lib/kubelet/config.yaml with kubeadm, which kubeadm upgrade node writes from the ConfigMap again."
        )
    elif reading.component == "kube-proxy":
        text += " " + tr("Its Pods read it when they start.")
    return text


def _dropped(ctx: Context, reading: Reading) -> Iterator[Finding]:
    before = set(reading.today.verdict.dropped) if reading.today is not None else None
    lost: dict[str, str] = {}
    never: list[str] = []
    for step in reading.way:
        for path in step.verdict.dropped:
            if before is not None and path not in before:
                lost.setdefault(path, step.minor)
    if reading.way:
        end = reading.way[-1].verdict.dropped
        never = [path for path in end if path not in lost]
    if lost:
        minor = min(lost.values(), key=minor_key)
        yield _drop(
            reading,
            lost,
            tr(
                "ConfigMap {place} sets {fields} for {component}, which {minor} no longer knows: it starts, logs that it decodes leniently, and goes on without.",
                place=reading.place,
                fields=names(lost),
                component=reading.component,
                minor=minor,
            ),
            hop=ctx.hop_of(minor),
        )
    if never:
        hints = [
            tr("{field} may mean {known}.", field=path, known=near)
            for path in never[:_MOST]
            if (near := likely(path, reading.way[-1].known))
        ]
        today = before is not None
        said = (
            tr(
                "ConfigMap {place} sets {fields} for {component}, which neither today's version nor {minor} knows: they have no effect.",
                place=reading.place,
                fields=names(never),
                component=reading.component,
                minor=reading.way[-1].minor,
            )
            if today
            else tr(
                "ConfigMap {place} sets {fields} for {component}, which {minor} does not know: they have no effect there.",
                place=reading.place,
                fields=names(never),
                component=reading.component,
                minor=reading.way[-1].minor,
            )
        )
        yield _drop(reading, never, " ".join((said, *hints)), known=False, today=today)


def _drop(
    reading: Reading,
    paths: Iterable[str],
    text: str,
    *,
    known: bool = True,
    today: bool = False,
    hop: str = "",
) -> Finding:
    return finding(
        DROPPED,
        text,
        component=reading.component,
        instances=[f"ConfigMap {reading.place}"],
        name=names(paths),
        evidence=reading.evidence(sorted(paths)),
        advice=f"{tr(DROPPED.remedy)} {_where(reading)}",
        severity=None if known or not today else "info",
        preexisting=today,
        hop=hop,
    )


def _awakened(reading: Reading) -> Iterator[Finding]:
    if reading.today is None or not reading.way:
        return
    before, end = reading.today.verdict.dropped, reading.way[-1]
    new = [path for path in before if path not in end.verdict.dropped]
    if not new:
        return
    yield _found(
        AWAKENED,
        reading,
        new,
        tr(
            "ConfigMap {place} sets {fields} for {component}: {today} drops them, {minor} knows them.",
            place=reading.place,
            fields=names(new),
            component=reading.component,
            today=reading.today.minor,
            minor=end.minor,
        ),
    )


def _twice(reading: Reading, keys: tuple[str, ...]) -> Finding:
    return _found(
        TWICE,
        reading,
        keys,
        tr(
            "In the file of {component} in ConfigMap {place} stand twice in one object: {keys}. The last value holds.",
            component=reading.component,
            place=reading.place,
            keys=names(keys),
        ),
        preexisting=True,
    )


def _unsure(reading: Reading, paths: tuple[str, ...]) -> Finding:
    return _found(
        UNSEEN,
        reading,
        paths,
        tr(
            "Of the file of {component} in ConfigMap {place} this was not judged: {fields}. Arguments of plugins are not in the data, and a text may be a number or a boolean where it stands without quotes.",
            component=reading.component,
            place=reading.place,
            fields=names(paths),
        ),
        advice=tr("Compare it with the target's documentation of these fields."),
    )


def _unseen(ctx: Context) -> Iterator[Finding]:
    for component in sorted(set(_COMPONENT.values())):
        today, way = _minors(ctx, component)
        lost = _lost(ctx, component, today, way)
        blind = [c for c in ctx.of(component) if not ctx.stays(c) and _reads_unseen_file(ctx, component, c)]
        if not blind or not way or not (lost or component in STRICT):
            continue
        files = sorted({c.config_file for c in blind if c.config_file})
        said = [
            tr(
                "The configuration files of {component} ({where}) were not read.",
                component=component,
                where=names(label_of(c) for c in blind),
            )
        ]
        if lost:
            said.append(
                tr(
                    "On the way to {minor} these are no longer read as they are today: {fields}.",
                    minor=way[-1],
                    fields=names(lost),
                )
            )
        advice = tr(UNSEEN.remedy)
        if component in STRICT:
            said.append(tr("It reads them strictly: with a field that it does not know it does not start."))
            if not lost and ctx.data.knows(today):
                said.append(
                    tr(
                        "{minor} knows every field that {today} knows; the arguments of plugins were not compared.",
                        minor=way[-1],
                        today=today,
                    )
                )
            advice = tr(
                "Try the file on the machine with the target's kube-scheduler: {command} checks it and ends, with status 0 where it takes it.",
                command=f"`kube-scheduler --config {word(files[0])} --write-config-to /tmp/checked.yaml --secure-port=0`",
            )
        yield finding(
            UNSEEN,
            " ".join(said),
            component=component,
            instances=[label_of(c) for c in blind],
            advice=advice,
        )


def _reads_unseen_file(ctx: Context, component: str, instance: Component) -> bool:
    """Whether an instance has a configuration file that no ConfigMap of the reading shows."""
    sources = instance.gate_sources
    shown = any(
        source.place.startswith(f"ConfigMap {config.namespace}/{config.name} ")
        for source in sources
        for config in ctx.snapshot.config_maps
        if config.document is not None
    )
    return not shown and (component == "kubelet" or bool(instance.config_file))


def _lost(ctx: Context, component: str, today: str, way: tuple[str, ...]) -> tuple[str, ...]:
    """Fields and API versions that today's version reads and one of the way does not, or with another type."""
    lost: set[str] = set()
    before = ctx.data.config(component, today) if ctx.data.knows(today) else None
    for minor in way:
        after = ctx.data.config(component, minor)
        if before is not None and after is not None:
            for version, fields in before.versions.items():
                kept = after.versions.get(version)
                if kept is None:
                    lost.add(version)
                else:
                    lost |= {path for path, typ in fields.items() if kept.get(path) != typ}
        before = after or before
    return tuple(sorted(lost))
