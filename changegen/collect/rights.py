"""RBAC of the drivers' ServiceAccounts, reduced to what decides whether they may write device status.

Since 1.36 (DRAResourceClaimGranularStatusAuthorization) a driver that fills `status.devices` needs, beside
`resourceclaims/status`, the synthetic subresource `resourceclaims/driver` with a verb of its own, named by driver.
Source: pkg/registry/resource/utils.go of Kubernetes 1.36 and 1.37.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from changegen.collect.inventory import Inventory
from changegen.collect.wire import ObjectMeta, Wire
from changegen.model.snapshot import Driver, DriverRights

__all__ = ["driver_rights"]

GROUP: Final = "rbac.authorization.k8s.io"
KINDS: Final = tuple(
    f"{kind}.{GROUP}" for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)
RESOURCE_GROUP: Final = "resource.k8s.io"
_WRITE: Final = frozenset({"update", "patch"})


class PolicyRule(Wire, frozen=True, kw_only=True):
    """rules[] of a role."""

    verbs: tuple[str, ...] | None = None
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None


class Role(Wire, frozen=True, kw_only=True):
    """A Role or ClusterRole."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] | None = None


class RoleRef(Wire, frozen=True, kw_only=True):
    """roleRef of a binding."""

    kind: str = ""
    name: str = ""


class RbacSubject(Wire, frozen=True, kw_only=True):
    """subjects[] of a binding."""

    kind: str = ""
    name: str = ""
    namespace: str | None = None


class Binding(Wire, frozen=True, kw_only=True):
    """A RoleBinding or ClusterRoleBinding."""

    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[RbacSubject, ...] | None = None


def driver_rights(
    inv: Inventory, drivers: Iterable[Driver], claim_namespaces: Mapping[str, frozenset[str]]
) -> tuple[DriverRights, ...]:
    """Rights of each driver's ServiceAccount.

    Args:
        inv: What was read.
        drivers: Drivers with their workload.
        claim_namespaces: driver -> namespaces of claims that hold its devices: a RoleBinding counts where it covers
            all of them.

    Returns:
        One row a driver whose ServiceAccount is known; the verdicts are None unless all four kinds of RBAC objects
        were read. A ServiceAccount that nothing binds has False.
    """
    served = [driver for driver in drivers if driver.service_account]
    if not served:
        return ()
    cluster_roles = {item.obj.metadata.name: item.obj for item in inv.all(KINDS[0], Role)}
    roles = {
        (item.obj.metadata.namespace, item.obj.metadata.name): item.obj for item in inv.all(KINDS[2], Role)
    }
    complete = all(inv.listed(kind) for kind in KINDS)
    by_subject: defaultdict[tuple[str, str], list[tuple[str, str, Role | None]]] = defaultdict(list)
    for kind in (KINDS[1], KINDS[3]):
        for item in inv.all(kind, Binding):
            binding = item.obj
            scope = binding.metadata.namespace if kind == KINDS[3] else ""
            if binding.role_ref.kind == "ClusterRole":
                role = cluster_roles.get(binding.role_ref.name)
                label = f"ClusterRole {binding.role_ref.name}"
            else:
                role = roles.get((scope, binding.role_ref.name))
                label = f"Role {scope}/{binding.role_ref.name}"
            if scope:
                label += f" in {scope}"
            for subject in binding.subjects or ():
                key = (subject.kind, f"{subject.namespace or scope}/{subject.name}")
                if subject.kind == "Group":
                    key = ("Group", subject.name)
                by_subject[key].append((scope, label, role))
    return tuple(
        _rights(driver, by_subject, complete, claim_namespaces.get(driver.driver, frozenset()))
        for driver in served
    )


def _rights(
    driver: Driver,
    by_subject: Mapping[tuple[str, str], list[tuple[str, str, Role | None]]],
    complete: bool,
    namespaces: frozenset[str],
) -> DriverRights:
    namespace = driver.service_account.partition("/")[0]
    keys = (
        ("ServiceAccount", driver.service_account),
        ("Group", f"system:serviceaccounts:{namespace}"),
        ("Group", "system:serviceaccounts"),
        ("Group", "system:authenticated"),
    )
    grants = [grant for key in keys for grant in by_subject.get(key, ())]
    rules: list[str] = []
    status: set[str] = set()
    own: set[str] = set()
    bind: set[str] = set()
    dangling = False
    for scope, _, role in grants:
        if role is None:
            dangling = True
            continue
        for rule in role.rules or ():
            groups = rule.api_groups or ()
            if RESOURCE_GROUP not in groups and "*" not in groups:
                continue
            text = _rule_text(rule) + (f" in {scope}" if scope else "")
            rules.append(text)
            names = rule.resource_names or ()
            if _covers(rule, "status", _WRITE) and not names:
                status.add(scope)
            verbs = {f"{who}:{verb}" for who in ("associated-node", "arbitrary-node") for verb in _WRITE}
            if _covers(rule, "driver", verbs) and (not names or driver.driver in names):
                own.add(scope)
            if _covers(rule, "binding", _WRITE) and not names:
                bind.add(scope)

    def verdict(scopes: set[str]) -> bool | None:
        if "" in scopes or (namespaces and namespaces <= scopes):
            return True
        return False if complete and not dangling else None

    return DriverRights(
        driver=driver.driver,
        service_account=driver.service_account,
        roles=tuple(sorted({label for _, label, _ in grants})),
        rules=tuple(sorted(set(rules))),
        can_update_status=verdict(status),
        can_update_driver_status=verdict(own),
        can_bind=verdict(bind),
    )


def _covers(rule: PolicyRule, subresource: str, verbs: Iterable[str]) -> bool:
    given = rule.verbs or ()
    wanted = {f"resourceclaims/{subresource}", f"*/{subresource}", "*"}
    return bool(wanted & set(rule.resources or ())) and ("*" in given or bool(set(verbs) & set(given)))


def _rule_text(rule: PolicyRule) -> str:
    verbs = ",".join(sorted(rule.verbs or ()))
    resources = ",".join(sorted(rule.resources or ()))
    names = f" [{','.join(sorted(rule.resource_names))}]" if rule.resource_names else ""
    return f"{verbs} {resources}{names}"
