"""What a reading lacks, in words of people, and whether a step or a verdict of the plan depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from changegen.assess.capability import rights_needed
from changegen.i18n import tr
from changegen.plan.scene import Scene
from changegen.plan.steps.after import planned_migrations

__all__ = ["unread"]

_ROLES: Callable[[], str] = lambda: tr("roles")  # noqa: E731
_WEBHOOKS: Callable[[], str] = lambda: tr("admission webhooks")  # noqa: E731

_WORDS: dict[str, tuple[str, Callable[[], str]]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": ("rights", _ROLES),
    "clusterroles.rbac.authorization.k8s.io": ("rights", _ROLES),
    "rolebindings.rbac.authorization.k8s.io": ("rights", _ROLES),
    "roles.rbac.authorization.k8s.io": ("rights", _ROLES),
    "jobs.batch": ("", lambda: tr("Jobs")),
    "replicasets.apps": ("", lambda: tr("ReplicaSets")),
    "statefulsets.apps": ("", lambda: tr("StatefulSets")),
    "horizontalpodautoscalers.autoscaling": ("", lambda: tr("HorizontalPodAutoscalers")),
    "services": ("services", lambda: tr("Services")),
    "resourcequotas": ("quotas", lambda: tr("quotas")),
    "namespaces": ("", lambda: tr("Namespaces")),
    "events": ("", lambda: tr("events")),
    "leases.coordination.k8s.io": ("order", lambda: tr("leases")),
    "nodes": ("drains", lambda: tr("Nodes")),
    "pods": ("drains", lambda: tr("Pods")),
    "poddisruptionbudgets.policy": ("drains", lambda: tr("PodDisruptionBudgets")),
    "deployments.apps": ("addons", lambda: tr("Deployments")),
    "daemonsets.apps": ("addons", lambda: tr("DaemonSets")),
    "configmaps": ("gates", lambda: tr("ConfigMaps")),
    "/flagz": ("", lambda: "/flagz"),
    "/metrics": ("", lambda: tr("metrics")),
    "/apis": ("apis", lambda: tr("served APIs")),
    "apiservices.apiregistration.k8s.io": ("", lambda: tr("APIServices")),
    "customresourcedefinitions.apiextensions.k8s.io": ("", lambda: tr("CustomResourceDefinitions")),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks", _WEBHOOKS),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks", _WEBHOOKS),
    "deviceclasses.resource.k8s.io": ("devices", lambda: tr("DeviceClasses")),
    "devicetaintrules.resource.k8s.io": ("devices", lambda: tr("DeviceTaintRules")),
    "resourceclaims.resource.k8s.io": ("devices", lambda: tr("ResourceClaims")),
    "resourceclaimtemplates.resource.k8s.io": ("", lambda: tr("ResourceClaimTemplates")),
    "resourceslices.resource.k8s.io": ("devices", lambda: tr("ResourceSlices")),
}
"""What was not read -> (what depends on it, its words). Jobs, ReplicaSets and StatefulSets are named by the Pods' own
owner references: nothing of the plan waits for them."""

_DEPENDS: dict[str, Callable[[], str]] = {
    "gates": lambda: tr("which components start at the target"),
    "drains": lambda: tr("what drains meet"),
    "devices": lambda: tr("who holds devices, and their way back"),
    "addons": lambda: tr("the way back of add-ons and drivers"),
    "apis": lambda: tr("the checks of served APIs"),
    "webhooks": lambda: tr("whether a drain takes a webhook's server away"),
    "order": lambda: tr("which control-plane node goes last"),
    "rights": lambda: tr("whether drivers may go on filling the device status"),
    "quotas": lambda: tr("the move of resources to DRA"),
    "services": lambda: tr("which Pods serve webhooks"),
}


def unread(scene: Scene, names: Iterable[str], *, most: int = 8) -> str:
    """``roles, Jobs, quotas: no step and no verdict depends on them``; what matters comes first, with what for."""
    planned = bool(planned_migrations(scene))
    matters: dict[str, list[str]] = {}
    rest: list[str] = []
    for name in names:
        area, words = _area(name)
        idle = (
            (area == "quotas" and not planned)
            or (area == "rights" and not rights_needed(scene.context))
            or (area == "services" and not scene.snapshot.webhooks)
            or (area == "drains" and not scene.pending_nodes and name != "nodes")
        )
        if area and not idle:
            matters.setdefault(area, []).append(words)
        else:
            rest.append(words)
    parts = [
        tr("{what} (needed for: {why})", what=_shown(words, most), why=_DEPENDS[area]())
        for area, words in sorted(matters.items(), key=lambda item: list(_DEPENDS).index(item[0]))
    ]
    if rest:
        parts.append(tr("{what} (no step and no verdict depends on them)", what=_shown(rest, most)))
    return "; ".join(parts)


def _area(name: str) -> tuple[str, str]:
    if name in _WORDS:
        area, words = _WORDS[name]
        return area, words()
    if name.endswith(" feature gates"):
        return "gates", tr("feature gates of components")
    if name.endswith(" version"):
        return "gates", tr("versions of components")
    return "", name if "/" in name else name.partition(".")[0]


def _shown(words: list[str], most: int) -> str:
    unique = list(dict.fromkeys(words))
    shown = ", ".join(unique[:most])
    return shown if len(unique) <= most else tr("{shown} and {n} more", shown=shown, n=len(unique) - most)
