"""What changegen reads from a live cluster, as one table, and the least rights that it takes.

``collect.api`` makes its requests from this table and ``changegen rbac`` its ClusterRole, so they cannot differ. Only
``get`` and ``list`` are ever asked for, and Secrets never.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from changegen.i18n import tr

__all__ = [
    "CONFIG_MAPS",
    "DISTRIBUTIONS",
    "OPENSHIFT_CONFIG_MAPS",
    "RESOURCES",
    "TEXTS",
    "Resource",
    "Right",
    "Rule",
    "Text",
    "manifest",
    "rights",
    "rules",
]


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that is listed over all namespaces."""

    name: str
    group: str = ""
    kind: str
    versions: tuple[str, ...] = ("v1",)
    """Versions that are understood, best first: the first one that is served is read, so that an apiserver's count of
    requests for deprecated versions is not disturbed where a newer one is there."""
    namespaced: bool = False
    why: str
    where: Literal["any", "openshift", "k0s", "if served"] = "any"
    """Other than any: no word is lost on it where its group is not served. A distribution: its rights are printed when it
    is named."""

    @property
    def full_name(self) -> str:
        """``resourceslices.resource.k8s.io``."""
        return f"{self.name}.{self.group}" if self.group else self.name


_RESOURCE: Final = "resource.k8s.io"
_DRA: Final = ("v1", "v1beta2", "v1beta1")

RESOURCES: Final[tuple[Resource, ...]] = (
    Resource(
        name="namespaces",
        kind="Namespace",
        why="identity of the cluster (UID of kube-system), namespaces' owners",
    ),
    Resource(name="nodes", kind="Node", why="kubelets, runtimes, taints, conditions, labels"),
    Resource(
        name="pods",
        kind="Pod",
        namespaced=True,
        why="control-plane Pods with their flags, Pods that use devices, what a drain meets",
    ),
    Resource(name="services", kind="Service", namespaced=True, why="what serves webhooks"),
    Resource(name="serviceaccounts", kind="ServiceAccount", namespaced=True, why="of DRA drivers"),
    Resource(name="resourcequotas", kind="ResourceQuota", namespaced=True, why="quotas that count devices"),
    Resource(name="events", kind="Event", namespaced=True, why="warnings, and events about devices"),
    Resource(
        name="daemonsets",
        group="apps",
        kind="DaemonSet",
        namespaced=True,
        why="DRA drivers, kube-proxy, add-ons",
    ),
    Resource(
        name="deployments", group="apps", kind="Deployment", namespaced=True, why="owners of Pods, add-ons"
    ),
    Resource(name="replicasets", group="apps", kind="ReplicaSet", namespaced=True, why="owners of Pods"),
    Resource(name="statefulsets", group="apps", kind="StatefulSet", namespaced=True, why="owners of Pods"),
    Resource(name="jobs", group="batch", kind="Job", namespaced=True, why="owners of Pods"),
    Resource(
        name="poddisruptionbudgets",
        group="policy",
        kind="PodDisruptionBudget",
        namespaced=True,
        why="what will make a drain hang",
    ),
    Resource(
        name="horizontalpodautoscalers",
        group="autoscaling",
        kind="HorizontalPodAutoscaler",
        versions=("v2",),
        namespaced=True,
        why="what changed defaults of autoscaling concern",
    ),
    Resource(
        name="leases",
        group="coordination.k8s.io",
        kind="Lease",
        namespaced=True,
        why="leaders of scheduler and controller-manager, apiserver identities",
    ),
    Resource(
        name="apiservices",
        group="apiregistration.k8s.io",
        kind="APIService",
        why="aggregated APIs that are down",
    ),
    Resource(
        name="customresourcedefinitions",
        group="apiextensions.k8s.io",
        kind="CustomResourceDefinition",
        why="stored versions",
    ),
    Resource(
        name="mutatingwebhookconfigurations",
        group="admissionregistration.k8s.io",
        kind="MutatingWebhookConfiguration",
        why="webhooks that fail closed while their servers are drained",
    ),
    Resource(
        name="validatingwebhookconfigurations",
        group="admissionregistration.k8s.io",
        kind="ValidatingWebhookConfiguration",
        why="webhooks that fail closed while their servers are drained",
    ),
    *(
        Resource(
            name=f"{kind.lower()}s",
            group="rbac.authorization.k8s.io",
            kind=kind,
            namespaced=not kind.startswith("Cluster"),
            why="whether DRA drivers may write device status",
        )
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ),
    Resource(name="deviceclasses", group=_RESOURCE, kind="DeviceClass", versions=_DRA, why="devices"),
    Resource(name="resourceslices", group=_RESOURCE, kind="ResourceSlice", versions=_DRA, why="devices"),
    Resource(
        name="resourceclaims",
        group=_RESOURCE,
        kind="ResourceClaim",
        versions=_DRA,
        namespaced=True,
        why="devices",
    ),
    Resource(
        name="resourceclaimtemplates",
        group=_RESOURCE,
        kind="ResourceClaimTemplate",
        versions=_DRA,
        namespaced=True,
        why="devices",
    ),
    Resource(
        name="devicetaintrules",
        group=_RESOURCE,
        kind="DeviceTaintRule",
        versions=("v1", "v1beta2", "v1alpha3"),
        why="device taints set by administrators",
    ),
    *(
        Resource(
            name=f"{kind.lower()}s",
            group="scheduling.k8s.io",
            kind=kind,
            versions=("v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
            namespaced=True,
            why="objects that the other minor cannot decode",
            where="if served",
        )
        for kind in ("Workload", "PodGroup", "CompositePodGroup")
    ),
    Resource(
        name="clusterversions",
        group="config.openshift.io",
        kind="ClusterVersion",
        why="OpenShift release",
        where="openshift",
    ),
    Resource(
        name="featuregates",
        group="config.openshift.io",
        kind="FeatureGate",
        why="OpenShift feature set",
        where="openshift",
    ),
    Resource(
        name="clusterconfigs",
        group="k0s.k0sproject.io",
        kind="ClusterConfig",
        versions=("v1beta1",),
        namespaced=True,
        why="feature gates on k0s",
        where="k0s",
    ),
)
"""Everything that is listed, in the order of the requests."""

CONFIG_MAPS: Final[dict[str, tuple[str, ...]]] = {
    "kube-system": ("coredns", "kube-proxy", "kubeadm-config", "kubelet-config"),
}
"""Namespace -> ConfigMaps that are read, by name: others are never asked for."""

OPENSHIFT_CONFIG_MAPS: Final[dict[str, tuple[str, ...]]] = {
    "openshift-kube-apiserver": ("config",),
    "openshift-kube-controller-manager": ("config",),
    "openshift-kube-scheduler": ("config",),
}


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A non-resource path of the API server that is read."""

    path: str
    query: str = ""
    role: Literal["version", "metrics", "flagz", "statusz", "readyz"]
    public: bool = False
    """Granted to everybody by the default roles (system:public-info-viewer)."""
    why: str


TEXTS: Final[tuple[Text, ...]] = (
    Text(path="/version", role="version", public=True, why="version of the apiserver that answers"),
    Text(
        path="/readyz",
        query="verbose",
        role="readyz",
        public=True,
        why="health of the apiserver that answers",
    ),
    Text(path="/metrics", role="metrics", why="effective feature gates, requests for deprecated APIs"),
    Text(path="/flagz", role="flagz", why="flags of the apiserver that answers"),
    Text(
        path="/statusz", role="statusz", why="start time and emulated version of the apiserver that answers"
    ),
)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a Role; ``namespace`` is empty for the ClusterRole."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    namespace: str = ""
    why: str = ""


DISTRIBUTIONS: Final = ("openshift", "k0s")
"""Distributions that need rights of their own."""


def rules(*, configz: bool = False, distribution: str = "") -> tuple[Rule, ...]:
    """Return the least rights for a whole snapshot.

    Args:
        configz: Add get nodes/proxy, a powerful right.
        distribution: One of ``DISTRIBUTIONS``, or empty.
    """
    by_group: dict[str, list[str]] = {}
    for resource in RESOURCES:
        if resource.where in DISTRIBUTIONS and resource.where != distribution:
            continue
        by_group.setdefault(resource.group, []).append(resource.name)
    found = [
        Rule(verbs=("list",), groups=(group,), resources=tuple(sorted(names)))
        for group, names in sorted(by_group.items())
    ]
    found.append(
        Rule(
            verbs=("get",),
            paths=tuple(text.path for text in TEXTS if not text.public),
            why=tr("effective gates and flags of the apiserver"),
        )
    )
    if configz:
        found.append(
            Rule(
                verbs=("get",),
                groups=("",),
                resources=("nodes/proxy",),
                why=tr(
                    "kubelets' configz; this right reaches the whole kubelet API: give it for the reading only"
                ),
            )
        )
    maps = {**CONFIG_MAPS, **(OPENSHIFT_CONFIG_MAPS if distribution == "openshift" else {})}
    found.extend(
        Rule(verbs=("get",), groups=("",), resources=("configmaps",), names=names, namespace=namespace)
        for namespace, names in maps.items()
    )
    return tuple(found)


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One question to the cluster: may I?"""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        what = f"{resource}.{self.group}" if self.group else resource
        named = f" {self.name}" if self.name else ""
        spaced = f" -n {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{named}{spaced}"


def rights(found: Iterable[Rule]) -> tuple[Right, ...]:
    """Return every single right of the rules."""
    out: list[Right] = []
    for rule in found:
        for verb in rule.verbs:
            out.extend(Right(verb=verb, path=path) for path in rule.paths)
            for group in rule.groups:
                for resource in rule.resources:
                    bare, _, sub = resource.partition("/")
                    out.extend(
                        Right(
                            verb=verb,
                            group=group,
                            resource=bare,
                            subresource=sub,
                            name=name,
                            namespace=rule.namespace,
                        )
                        for name in rule.names or ("",)
                    )
    return tuple(out)


def manifest(
    found: Iterable[Rule], *, name: str = "changegen-reader", subject: tuple[str, str, str] | None = None
) -> str:
    """Return the YAML of ClusterRole, Roles and their bindings.

    Args:
        found: Rules to grant.
        name: Name of all objects.
        subject: (kind, namespace, name) of a User, Group or ServiceAccount; None leaves the bindings out.
    """
    found = tuple(found)
    api = "apiVersion: rbac.authorization.k8s.io/v1"
    head = [
        "# Read-only rights of changegen: it lists, gets, and never asks for a Secret.",
        "# /version, /readyz and discovery come with Kubernetes' default roles (system:public-info-viewer, system:discovery).",
    ]
    parts = ["\n".join([*head, api, "kind: ClusterRole", "metadata:", f"  name: {_quoted(name)}", "rules:"])]
    parts[0] += "\n" + "\n".join(_rule_lines(rule) for rule in found if not rule.namespace)
    namespaces = sorted({rule.namespace for rule in found if rule.namespace})
    if subject:
        parts.append(_binding(api, "ClusterRole", name, "", subject))
    for namespace in namespaces:
        lines = [
            api,
            "kind: Role",
            "metadata:",
            f"  name: {_quoted(name)}",
            f"  namespace: {namespace}",
            "rules:",
        ]
        lines += [_rule_lines(rule) for rule in found if rule.namespace == namespace]
        parts.append("\n".join(lines))
        if subject:
            parts.append(_binding(api, "Role", name, namespace, subject))
    return "\n---\n".join(parts) + "\n"


def _rule_lines(rule: Rule) -> str:
    lines = [f"# {rule.why}"] if rule.why else []
    if rule.paths:
        lines.append(f"- nonResourceURLs: [{', '.join(rule.paths)}]")
    else:
        groups = ", ".join(group or '""' for group in rule.groups)
        lines.append(f"- apiGroups: [{groups}]")
        lines.append(f"  resources: [{', '.join(rule.resources)}]")
    if rule.names:
        lines.append(f"  resourceNames: [{', '.join(rule.names)}]")
    lines.append(f"  verbs: [{', '.join(rule.verbs)}]")
    return "\n".join(lines)


def _binding(api: str, kind: str, name: str, namespace: str, subject: tuple[str, str, str]) -> str:
    subject_kind, subject_namespace, subject_name = subject
    lines = [api, f"kind: {kind}Binding", "metadata:", f"  name: {_quoted(name)}"]
    if namespace:
        lines.append(f"  namespace: {namespace}")
    lines += [
        "roleRef:",
        "  apiGroup: rbac.authorization.k8s.io",
        f"  kind: {kind}",
        f"  name: {_quoted(name)}",
        "subjects:",
        f"- kind: {subject_kind}",
        f"  name: {_quoted(subject_name)}",
    ]
    if subject_kind == "ServiceAccount":
        lines.append(f"  namespace: {_quoted(subject_namespace)}")
    else:
        lines.append("  apiGroup: rbac.authorization.k8s.io")
    return "\n".join(lines)


_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""What YAML 1.1, which kubectl reads, does not take for text."""


def _quoted(text: str) -> str:
    """Return a name as YAML: in quotes where it would be read as something else than text."""
    plain = re.fullmatch(r"[A-Za-z][\w.-]*", text) and text.lower() not in _NOT_TEXT
    return text if plain else msgspec.json.encode(text).decode()
