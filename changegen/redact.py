"""Pseudonyms for a whole snapshot, so that it can be shared: the same name becomes the same pseudonym everywhere.

What is replaced, in fields of its own and wherever it stands inside other text (messages, places, flags):

* names of nodes and hosts, of the cluster, of namespaces, and of everything in a namespace
* IP and MAC addresses, UIDs and other UUIDs, serial numbers among device attributes, the account part of ARNs
* domains in names of drivers, labels, taints, extended resources, classes, API groups, webhooks, and hosts of images
* values of labels and selectors (matching stays right, since both sides change alike)
* URLs

What stays: versions, images' last part and tag, gates, flags, fields of configuration files, Kubernetes' own names, domains
in ``KEPT_DOMAINS``, names of drivers that their projects publish (they tell software, and what is known of a driver hangs on
its name), system namespaces and the names in them (node names in them are replaced), label values in ``KEPT_LABELS``, times,
counts.

Pure. A mapping can be handed on, so that a second snapshot of the same cluster gets the same pseudonyms. The mapping
undoes the redaction: it is for its owner only. Free text of people (annotations' values, events of controllers of their
own) is reduced to what the rules above see; look through the result before it leaves the house.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from changegen.model.snapshot import Attribute, ConfigShape, NodeRequirement, Snapshot

__all__ = ["KEPT_DOMAINS", "KEPT_LABELS", "Mapping", "redact"]

Mapping = dict[str, dict[str, str]]
"""Kind of thing -> name -> pseudonym."""

KEPT_DOMAINS: Final = (
    "amd.com",
    "aws.amazon.com",
    "azure.com",
    "cert-manager.io",
    "cilium.io",
    "cluster.local",
    "cncf.io",
    "containerd.io",
    "coreos.com",
    "eks.amazonaws.com",
    "flannel.com",
    "gke.io",
    "google.com",
    "googleapis.com",
    "habana.ai",
    "helm.sh",
    "intel.com",
    "istio.io",
    "k0sproject.io",
    "k3s.io",
    "k8s.io",
    "k8s.ovn.org",
    "k8snetworkplumbingwg.io",
    "kubernetes.io",
    "microsoft.com",
    "nvidia.com",
    "openshift.io",
    "projectcalico.org",
    "rancher.io",
    "rke2.io",
    "talos.dev",
    "tigera.io",
    "x-k8s.io",
)
"""Domains that tell software, not an owner; with everything below them."""

KEPT_LABELS: Final = frozenset(
    {
        "app.kubernetes.io/component",
        "app.kubernetes.io/version",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "component",
        "controller-revision-hash",
        "helm.sh/chart",
        "k8s-app",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "pod-template-generation",
        "pod-template-hash",
        "tier",
    }
)
"""Labels whose values tell software or hardware, not an owner."""

_SYSTEM_NAMESPACE: Final = re.compile(r"^(default|kube-.*|openshift|openshift-.*)$")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_MAC: Final = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9a-fA-F]{2}:){5,7}[0-9a-fA-F]{2}(?![0-9A-Fa-f:])")
_IPV4: Final = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F]*:[0-9a-fA-F:]*:)[0-9a-fA-F:]{3,45}(?![\w:])")
_URL: Final = re.compile(r"\bhttps?://[^\s\"'<>]+")
_ARN: Final = re.compile(r"\barn:[\w-]+:[^\s\"']+")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9]+")
_RUN: Final = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*")
_SERIAL: Final = re.compile(r"uuid|serial|guid|wwn", re.IGNORECASE)
_IMAGE: Final = re.compile(r"^(?:[a-z-]+://)?(?P<host>[A-Za-z0-9.-]+(?::\d+)?)/(?P<path>[^:@]+)(?P<rest>.*)$")

# Fields that hold words of Kubernetes or of this tool only; nothing in them is an owner's.
_KEPT_FIELDS: Final = frozenset(
    {
        "schema",
        "tool_version",
        "captured_at",
        "captured_at_source",
        "server_version",
        "emulation_version",
        "min_compatibility_version",
        "emulated_version",
        "distribution",
        "distribution_version",
        "component",
        "version",
        "running_version",
        "kind",
        "certainty",
        "gates_certainty",
        "provenance",
        "config_hash",
        "kubelet_version",
        "container_runtime",
        "kernel",
        "os_image",
        "architecture",
        "operating_system",
        "kubernetes_version",
        "api_version",
        "kinds_read",
        "feature_gates",
        "effective_gates",
        "gate_stages",
        "gates",
        "flag_values",
        "own_feature_gates",
        "declared_features",
        "removed_release",
        "readyz",
        "created",
        "started",
        "started_at",
        "changed",
        "time_added",
        "renewed",
        "last",
        "allocated_at",
        "deleting_since",
        "type",
        "status",
        "effect",
        "phase",
        "verbs",
        "disruptions_allowed",
        "failure_policy",
        "match_policy",
        "labels_version",
        "chart",
    }
)
_IMAGE_FIELDS: Final = frozenset({"image", "image_id", "images"})
_LABEL_FIELDS: Final = frozenset({"labels", "selector", "node_selector"})


def redact(snapshot: Snapshot, mapping: Mapping | None = None) -> tuple[Snapshot, Mapping]:
    """Return the snapshot with pseudonyms, and the mapping that was used.

    Args:
        snapshot: What is to be shared.
        mapping: Mapping of an earlier call; its pseudonyms are used again and new names get new ones.
    """
    names = _Names(mapping or {})
    _collect(snapshot, names)
    names.settle()
    redacted: Snapshot = _Rewriter(names).value(snapshot, "")
    source = msgspec.structs.replace(redacted.source, description="redacted")
    return msgspec.structs.replace(redacted, source=source), names.mapping


class _Names:
    """Names that were found, and their pseudonyms."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping: Mapping = {kind: dict(known) for kind, known in mapping.items()}
        self.found: dict[str, set[str]] = {}
        self.exact: dict[str, str] = {}
        self.pattern: re.Pattern[str] | None = None
        self.longest = 0

    def add(self, kind: str, name: str | None) -> None:
        """Remember a name of a kind that shall be replaced."""
        if name and len(name) > 1 and name not in _VOCABULARY:
            self.found.setdefault(kind, set()).add(name)

    def settle(self) -> None:
        """Give pseudonyms in the order of the names, so that sorted stays sorted."""
        for kind, names in sorted(self.found.items()):
            known = self.mapping.setdefault(kind, {})
            taken = len(known)
            fresh = sorted(name for name in names if name not in known)
            width = max(2, len(str(taken + len(fresh))))
            for number, name in enumerate(fresh, taken + 1):
                known[name] = f"{kind}-{number:0{width}d}"
        # A node's name wins over the same text as a Pod's or a value.
        for kind in reversed(_ORDER):
            self.exact.update(self.mapping.get(kind, {}))
        self.longest = max((len(_SEGMENT.findall(word)) for word in self.exact), default=0)
        odd = sorted((w for w in self.exact if not _RUN.fullmatch(w)), key=lambda w: (-len(w), w))
        if odd:
            self.pattern = re.compile(
                r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, odd)) + r")(?![A-Za-z0-9])"
            )

    def replace(self, text: str) -> str:
        """Return the text with every name replaced that stands in it, the longest first.

        One name may end where another begins (kube-apiserver-NODE), but none is found inside a longer word.
        """
        if self.pattern is not None:
            text = self.pattern.sub(lambda m: self.exact[m[0]], text)
        return _RUN.sub(self._run, text)

    def _run(self, found: re.Match[str]) -> str:
        run = found[0]
        if run in self.exact:
            return self.exact[run]
        segments = [m.span() for m in _SEGMENT.finditer(run)]
        out: list[str] = []
        at, first = 0, 0
        while first < len(segments):
            start = segments[first][0]
            for last in range(min(len(segments), first + self.longest) - 1, first - 1, -1):
                pseudonym = self.exact.get(run[start : segments[last][1]])
                if pseudonym is not None:
                    out += [run[at:start], pseudonym]
                    at, first = segments[last][1], last
                    break
            first += 1
        return "".join([*out, run[at:]])

    def number(self, kind: str, value: str, make: Callable[[int], str]) -> str:
        """Return the pseudonym of a value that is recognised by its form (addresses, UUIDs)."""
        known = self.mapping.setdefault(kind, {})
        if value not in known:
            known[value] = make(len(known) + 1)
        return known[value]


_ORDER: Final = (
    "cluster",
    "node",
    "namespace",
    "workload",
    "pod",
    "claim",
    "object",
    "account",
    "zone",
)
_VOCABULARY: Final = frozenset(
    {
        "apiserver",
        "cloud-controller-manager",
        "coredns",
        "default",
        "etcd",
        "false",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubelet",
        "kubernetes",
        "master",
        "none",
        "plugin",
        "scheduler",
        "true",
        "worker",
    }
)
"""Words that are Kubernetes' own too: left as they are, since replacing them would garble every text."""


def _system(namespace: str) -> bool:
    return bool(_SYSTEM_NAMESPACE.match(namespace))


def _collect(snapshot: Snapshot, names: _Names) -> None:
    """Find the names that belong to the owner."""
    names.add("cluster", snapshot.cluster.name)
    for node in snapshot.nodes:
        names.add("node", node.name)
        if node.hostname != node.name:
            names.add("node", node.hostname)
        for key in ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"):
            names.add("zone", node.labels.get(key))
    for component in snapshot.components:
        names.add("node", component.node)
    for kind, namespace, name in _objects(snapshot):
        if namespace and not _system(namespace):
            names.add("namespace", namespace)
        if not _system(namespace):
            names.add(kind, name)
    for lease in snapshot.leases:
        names.add("node", lease.hostname)


def _objects(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield (kind of pseudonym, namespace, name) of everything in a namespace, and of cluster-wide rules and classes."""
    for pod in snapshot.pods:
        yield "pod", pod.namespace, pod.name
        if pod.owner is not None:
            yield "workload", pod.owner.namespace or pod.namespace, pod.owner.name
        for step in pod.owner_chain:
            yield "workload", pod.namespace, step.partition(" (")[0].rpartition("/")[2]
    for workload in snapshot.workloads:
        yield "workload", workload.namespace, workload.name
    for driver in snapshot.drivers:
        if driver.workload is not None:
            yield "workload", driver.workload.namespace, driver.workload.name
    for rights in snapshot.driver_rights:
        namespace, _, name = rights.service_account.partition("/")
        yield "account", namespace, name
    for claim in snapshot.claims:
        yield "claim", claim.namespace, claim.name
        for consumer in claim.reserved_for:
            yield "pod", claim.namespace, consumer.name
    for autoscaler in snapshot.autoscalers:
        yield "object", autoscaler.namespace, autoscaler.name
        yield "workload", autoscaler.namespace, autoscaler.target.name
    for listed in (snapshot.claim_templates, snapshot.disruption_budgets, snapshot.quotas):
        for item in listed:
            yield "object", item.namespace, item.name
    for event in snapshot.events:
        kind = "pod" if event.kind == "Pod" else "node" if event.kind == "Node" else "object"
        if event.namespace and kind != "node":
            yield kind, event.namespace, event.name
    for rule in snapshot.taint_rules:
        yield "object", "-", rule.name
    for stored in snapshot.stored_objects:
        for name in stored.names:
            yield "object", name.rpartition("/")[0], name.rpartition("/")[2]
    for component in snapshot.components:
        if component.namespace and not _system(component.namespace):
            yield "pod", component.namespace, (component.instance or "").rpartition("/")[2]
    for webhook in snapshot.webhooks:
        namespace, _, name = webhook.service.partition("/")
        if namespace:
            yield "object", namespace, name


class _Rewriter:
    """Walks a snapshot and replaces."""

    def __init__(self, names: _Names) -> None:
        self.names = names

    def value(self, value: Any, field: str) -> Any:
        """Return a value with pseudonyms; ``field`` is the nearest field's name."""
        if isinstance(value, Attribute | ConfigShape):
            # Of a configuration file there are names of fields and types only: `logging` there is no namespace.
            return value
        if isinstance(value, NodeRequirement):
            told = tuple(self._label(value.key, item) for item in value.values)
            return msgspec.structs.replace(value, key=self.text(value.key), values=told)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, dict):
            return self._mapping(value, field)
        if isinstance(value, tuple):
            return tuple(self.value(item, field) for item in value)
        if isinstance(value, str):
            return self._field(value, field)
        return value

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changes = {}
        for field in value.__struct_fields__:
            old = getattr(value, field)
            new = self._attributes(old) if field == "attributes" else self.value(old, field)
            if new != old:
                changes[field] = new
        return msgspec.structs.replace(value, **changes) if changes else value

    def _mapping(self, value: dict[str, Any], field: str) -> dict[str, Any]:
        if field in _KEPT_FIELDS:
            return value
        if field in _LABEL_FIELDS:
            return {self.text(k): self._label(k, v) if isinstance(v, str) else v for k, v in value.items()}
        return {self.text(k): self.value(v, field) for k, v in value.items()}

    def _attributes(self, value: dict[str, Attribute]) -> dict[str, Attribute]:
        out = {}
        for key, attribute in value.items():
            new = attribute
            if attribute.type == "string" and isinstance(attribute.value, str):
                serial = _SERIAL.search(key) is not None
                told = self._serial(attribute.value) if serial else self.text(attribute.value)
                new = msgspec.structs.replace(attribute, value=told)
            elif attribute.type == "strings":
                new = msgspec.structs.replace(
                    attribute, values=tuple(self.text(str(v)) for v in attribute.values)
                )
            out[self.text(key)] = new
        return out

    def _serial(self, value: str) -> str:
        return self.names.number("serial", value, lambda n: f"serial-{n:04d}")

    def _label(self, key: str, value: str) -> str:
        if not value or value in {"true", "false"} or key in KEPT_LABELS:
            return value
        if value in self.names.exact:
            return self.names.exact[value]
        if re.fullmatch(r"v?\d+(\.\d+)*", value):
            return value
        return self.names.number("value", value, lambda n: f"value-{n:02d}")

    def _field(self, value: str, field: str) -> str:
        if field in _KEPT_FIELDS:
            return value
        if field in _IMAGE_FIELDS:
            return self._image(value)
        if value in self.names.exact and field not in {"container", "key", "resource", "reason"}:
            return self.names.exact[value]
        return self.text(value)

    def _image(self, value: str) -> str:
        found = _IMAGE.match(value)
        if found is None or not (
            "." in found["host"] or ":" in found["host"] or found["host"] == "localhost"
        ):
            return value
        host = found["host"].partition(":")[0]
        if _kept_domain(host):
            return value
        number = self.names.number("image host", found["host"], lambda n: f"images-{n:02d}.example")
        *middle, last = found["path"].split("/")
        parts = [self.names.number("image path", part, lambda n: f"path-{n:02d}") for part in middle]
        return "/".join([number, *parts, last]) + found["rest"]

    def text(self, text: str) -> str:
        """Return any text with everything replaced that the rules know."""
        if not text or text.isdigit():
            return text
        number = self.names.number
        if "://" in text:
            text = _URL.sub(lambda m: number("url", m[0], lambda n: f"https://url-{n:02d}.example"), text)
        if "arn:" in text:
            text = _ARN.sub(lambda m: number("arn", m[0], lambda n: f"arn:aws:redacted:{n:02d}"), text)
        if "-" in text:
            text = _UUID.sub(
                lambda m: number("uuid", m[0].lower(), lambda n: f"00000000-0000-4000-8000-{n:012d}"), text
            )
        text = self.names.replace(text)
        if ":" in text:
            text = _MAC.sub(lambda m: number("mac", m[0].lower(), _mac), text)
            text = _IPV6.sub(partial(self._address), text)
        if "." in text:
            text = _IPV4.sub(partial(self._address), text)
            text = _DOMAIN.sub(self._domain, text)
        return text

    def _address(self, found: re.Match[str]) -> str:
        text = found[0]
        try:
            address = ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        if address.version == 4:
            return self.names.number(
                "ipv4", text, lambda n: f"198.{18 + n // 65536}.{n // 256 % 256}.{n % 256}"
            )
        return self.names.number("ipv6", text, lambda n: f"2001:db8::{n:x}")

    def _domain(self, found: re.Match[str]) -> str:
        text = found[0]
        if (
            _kept_domain(text)
            or text.endswith(".example")
            or not _TOP_LEVEL.fullmatch(text.rpartition(".")[2].lower())
        ):
            return text
        first, _, rest = text.partition(".")
        if "." not in rest:
            return self.names.number("domain", text, lambda n: f"domain-{n:02d}.example")
        return f"{first}.{self.names.number('domain', rest, lambda n: f'domain-{n:02d}.example')}"


_DOMAIN: Final = re.compile(
    r"(?<![\w.-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}(?![\w-]|\.\w)"
)
# What ends in one of these is a domain and no file (pods.json) and no resource (jobs.batch).
_TOP_LEVEL: Final = re.compile(
    r"ai|app|au|biz|br|ca|cern|ch|cloud|cn|co|com|corp|cz|de|dev|edu|es|eu|example|fi|fr|gov|hk|home|host|id|ie|il|in|info|int|internal|intra|intranet|io|it|jp|kr|lab"
    r"|lan|local|mil|mx|net|ngo|nl|no|nz|org|pl|priv|private|pt|ru|se|sg|site|systems|tech|th|tr|tw|ua|uk|us|xyz|za|zone"
)


@cache
def _kept() -> tuple[str, ...]:
    from changegen.assess.driver_apis import public_drivers

    return (*KEPT_DOMAINS, *public_drivers())


@cache
def _kept_domain(host: str) -> bool:
    host = host.lower()
    return any(host == kept or host.endswith(f".{kept}") for kept in _kept())


def _mac(number: int) -> str:
    return ":".join(
        f"{part:02x}" for part in (2, 0, 0, number // 65536 % 256, number // 256 % 256, number % 256)
    )
