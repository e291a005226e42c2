"""What processes say of themselves: /metrics, /flagz, /statusz, /readyz and /version.

Each answer is one instance's, and which instance answered is in none of them: ``node`` stays None. The component is what
the text's own header says; a file's name or the families of metrics in it are an inference, and called so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from changegen.collect.configmaps import gate_source_of_flags
from changegen.collect.documents import DecodeProblem, Document, RawText
from changegen.collect.flags import config_facts, values_of
from changegen.collect.inventory import Inventory, VersionInfo
from changegen.collect.layouts import component_in
from changegen.model.snapshot import ConfigFact, ProcessFact, RequestedDeprecatedApi

__all__ = ["emulation_of", "metric_rows", "minimum_of", "process_facts"]

_SAMPLE: Final = re.compile(
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?[ \t]+(?P<value>[^ \t]+)(?:[ \t]+-?\d+)?[ \t]*$"
)
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")

# Families that only one component has; the first that is seen decides.
_FAMILIES: Final = (
    ("apiserver_requested_deprecated_apis", "kube-apiserver"),
    ("apiserver_storage_", "kube-apiserver"),
    ("apiserver_resource_objects", "kube-apiserver"),
    ("kube_apiserver_", "kube-apiserver"),
    ("scheduler_", "kube-scheduler"),
    ("kubelet_", "kubelet"),
    ("kubeproxy_", "kube-proxy"),
    ("node_collector_", "kube-controller-manager"),
    ("endpoint_slice_controller_", "kube-controller-manager"),
    ("resourceclaim_controller_", "kube-controller-manager"),
    ("etcd_server_", "etcd"),
)
_COUNTED_GROUPS: Final = ("resource.k8s.io", "scheduling.k8s.io")
_COUNTED: Final = frozenset({"pods", "nodes"})
_UNCOUNTED: Final = frozenset({"priorityclasses.scheduling.k8s.io"})
_SIZES: Final = (
    "apiserver_storage_size_bytes",
    "apiserver_storage_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_server_quota_backend_bytes",
)


class MetricRow(msgspec.Struct, frozen=True):
    """One sample of the text exposition format."""

    name: str
    labels: dict[str, str]
    value: str


def metric_rows(text: str) -> Iterator[MetricRow]:
    """Samples of a /metrics text; comments and lines that are none are passed over."""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None or not _is_number(match["value"]):
            continue
        labels = {
            name: _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
            for name, value in _LABEL.findall(match["labels"] or "")
        }
        yield MetricRow(match["name"], labels, match["value"])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def process_facts(inventory: Inventory) -> tuple[ProcessFact, ...]:
    """Facts of every text and /version answer of the input, in the order of their places."""
    readers = {
        "metrics": _metrics,
        "flagz": _flagz,
        "statusz": _statusz,
        "readyz": _readyz,
    }
    out = [readers[text.role](text) for text in inventory.texts if text.role in readers]
    out.extend(fact for document in inventory.zpages if (fact := _structured(document)) is not None)
    out.extend(
        ProcessFact(
            component="kube-apiserver",
            component_inferred=False,
            place=found.place,
            provenance="version",
            version=found.obj.git_version,
            emulation_version=emulation_of(found.obj) or "",
            min_compatibility_version=minimum_of(found.obj) or "",
        )
        for found in inventory.versions
    )
    return tuple(sorted(out, key=lambda fact: (fact.component, fact.provenance, fact.place)))


def emulation_of(info: VersionInfo) -> str | None:
    """``1.36`` of an answer of /version, None where it does not say."""
    return _pair(info.emulation_major, info.emulation_minor)


def minimum_of(info: VersionInfo) -> str | None:
    """Minimum compatibility version of an answer of /version."""
    return _pair(info.min_compatibility_major, info.min_compatibility_minor)


def _pair(major: str, minor: str) -> str | None:
    return f"{major}.{minor.rstrip('+')}" if major and minor else None


def _who(text: RawText, guess: str = "") -> tuple[str, bool]:
    """Component and whether it is inferred."""
    if text.component:
        return text.component, text.from_name
    return (guess, True) if guess else ("unknown", True)


def _metrics(text: RawText) -> ProcessFact:
    gates: dict[str, bool] = {}
    stages: dict[str, str] = {}
    deprecated: dict[tuple[str, ...], RequestedDeprecatedApi] = {}
    etcd: dict[str, str] = {}
    families: Counter[str] = Counter()
    version = emulation = minimum = started = ""
    for row in metric_rows(text.text):
        labels = row.labels
        match row.name:
            case "kubernetes_feature_enabled":
                name = labels.get("name", "")
                if name:
                    gates[name] = float(row.value) != 0
                    stages[name] = labels.get("stage", "")
            case "kubernetes_build_info":
                version = labels.get("git_version", version)
            case "version_info":
                if labels.get("component", "kube") == "kube":
                    emulation = labels.get("emulation", "")
                    minimum = labels.get("min_compat", "")
            case "apiserver_requested_deprecated_apis":
                if row.value not in {"0", "0.0"}:
                    api = RequestedDeprecatedApi(
                        group=labels.get("group", ""),
                        version=labels.get("version", ""),
                        resource=labels.get("resource", ""),
                        subresource=labels.get("subresource", ""),
                        removed_release=labels.get("removed_release", ""),
                        place=text.place,
                    )
                    deprecated[api.group, api.version, api.resource, api.subresource] = api
            case "apiserver_storage_objects" | "apiserver_resource_objects":
                resource = labels.get("resource", "")
                group = labels.get("group")
                full = f"{resource}.{group}" if group else resource
                if full in _UNCOUNTED:
                    continue
                if full in _COUNTED or full.endswith(tuple(f".{found}" for found in _COUNTED_GROUPS)):
                    etcd[f"objects {full}"] = row.value
            case "process_start_time_seconds":
                started = row.value
            case name if name in _SIZES:
                etcd[name] = row.value
        for prefix, component in _FAMILIES:
            if row.name.startswith(prefix):
                families[component] += 1
    # apiserver_storage_* also stands in the metrics of no other Kubernetes component; aggregated servers are called so by name.
    component, inferred = _who(text, families.most_common(1)[0][0] if families else "")
    return ProcessFact(
        component=component,
        component_inferred=inferred,
        place=text.place,
        provenance="metric",
        version=version,
        emulation_version=emulation,
        min_compatibility_version=minimum,
        effective_gates=gates or None,
        gate_stages=stages,
        requested_deprecated_apis=tuple(deprecated[key] for key in sorted(deprecated)),
        started_at=started,
        etcd=dict(sorted(etcd.items())),
    )


_FLAG: Final = r"([A-Za-z][A-Za-z0-9_.-]*)"
# The delimiters that component-base's zpages choose from; a blank behind one belongs to it only if all lines have it.
_FLAG_LINES: Final = tuple(
    re.compile(pattern)
    for pattern in (_FLAG + r":(?: (.*))?", _FLAG + r":(.*)", _FLAG + r"=(.*)", _FLAG + r" (.*)")
)


def flagz_lines(text: str) -> tuple[tuple[str, str | None], ...]:
    """(flag, value) of a /flagz text, whose delimiter is chosen anew by every process."""
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith("Warning:") and not line.rstrip().endswith(" flagz")
    ]
    found = [[match for line in lines if (match := pattern.fullmatch(line))] for pattern in _FLAG_LINES]
    best = max(found, key=len)
    return tuple((match[1].replace("_", "-"), match[2] or "") for match in best)


def _flagz(text: RawText) -> ProcessFact:
    return flagz_fact(flagz_lines(text.text), text.place, *_who(text))


class _ZPage(msgspec.Struct, frozen=True, rename="camel"):
    """config.k8s.io Flagz or Statusz, v1alpha1 and v1beta1."""

    class Meta(msgspec.Struct, frozen=True):
        """Its name is the component's."""

        name: str = ""

    metadata: Meta = Meta()
    flags: dict[str, str] | None = None
    start_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""


def _structured(document: Document) -> ProcessFact | None:
    try:
        page = document.decode(_ZPage)
    except DecodeProblem:
        return None
    component = component_in(page.metadata.name) or "unknown"
    inferred = component == "unknown"
    if document.kind == "Flagz":
        flags = tuple((name.replace("_", "-"), value) for name, value in sorted((page.flags or {}).items()))
        return flagz_fact(flags, document.place, component, inferred)
    return ProcessFact(
        component=component,
        component_inferred=inferred,
        place=document.place,
        provenance="statusz",
        version=_with_v(page.binary_version),
        emulation_version=page.emulation_version,
        started_at=page.start_time or "",
    )


def _with_v(version: str) -> str:
    return f"v{version}" if version[:1].isdigit() else version


_LISTS: Final = frozenset({"emulated-version", "min-compatibility-version"})


def flagz_fact(
    flags: tuple[tuple[str, str | None], ...], place: str, component: str, inferred: bool
) -> ProcessFact:
    """The fact of the flags that a process shows with their values, defaults included."""
    given = tuple(
        # A list is shown in brackets.
        (name, value.removeprefix("[").removesuffix("]") if value and name in _LISTS else value)
        for name, value in flags
        if value not in {None, "", "[]"}
    )
    # kubelet and kube-proxy show their command line here, not the gates of their file.
    complete = component not in {"kubelet", "kube-proxy", "unknown"}
    gates = gate_source_of_flags(
        component, given, provenance="flagz", place=place, certainty="effective", complete=complete
    )
    facts: tuple[ConfigFact, ...] = tuple(fact for fact in config_facts(given) if fact.values is not None)
    return ProcessFact(
        component=component,
        component_inferred=inferred,
        place=place,
        provenance="flagz",
        flag_gates=gates,
        runtime_config=values_of(given, "runtime-config") if component == "kube-apiserver" else None,
        flags=facts,
    )


def _statusz(text: RawText) -> ProcessFact:
    """Two words and more of each line: ``Binary version  1.36.3``; the delimiter varies as that of /flagz."""
    values: dict[str, str] = {}
    for line in text.text.splitlines():
        match = re.match(
            r"(Started|Up|Go version|Binary version|Emulation version|Min compatibility version|Paths)[\s:=]+(.*)",
            line,
            re.IGNORECASE,
        )
        if match is not None:
            values[match[1].lower()] = match[2].strip()
    component, inferred = _who(text)
    version = values.get("binary version", "")
    return ProcessFact(
        component=component,
        component_inferred=inferred,
        place=text.place,
        provenance="statusz",
        version=_with_v(version),
        emulation_version=values.get("emulation version", ""),
        min_compatibility_version=values.get("min compatibility version", ""),
        started_at=values.get("started", ""),
    )


def _readyz(text: RawText) -> ProcessFact:
    checks = {
        match[2]: match[1] == "+" for match in re.finditer(r"^\[([+-])\]([^\s]+)", text.text, re.MULTILINE)
    }
    if not checks and text.text.strip() == "ok":
        checks = {"readyz": True}
    component, inferred = _who(text, "kube-apiserver" if "poststarthook/" in text.text else "")
    return ProcessFact(
        component=component,
        component_inferred=inferred,
        place=text.place,
        provenance="readyz",
        readyz=checks,
    )
