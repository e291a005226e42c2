"""Rights of drivers, events and leases."""

from __future__ import annotations

import pytest

from changegen.model.snapshot import DriverRights, EventFact
from tests.devices import claims, daemon_set, gpu_slice, listed, reading, slices

RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNT = "      serviceAccountName: plugin\n"


def rule(resource: str, verbs: str, names: str = "") -> str:
    named = f", resourceNames: [{names}]" if names else ""
    return f"{{apiGroups: [resource.k8s.io], resources: [{resource}], verbs: [{verbs}]{named}}}"


STATUS = rule("resourceclaims/status", "'update', patch")
OWN = rule("resourceclaims/driver", "'associated-node:update'", "gpu.example.com")


def rights(
    *rules: str, bound: str = "ClusterRoleBinding", namespace: str = "", claim: str = "ml"
) -> DriverRights:
    role = f"metadata: {{name: plugin}}\nrules: [{', '.join(rules)}]"
    place = f", namespace: {namespace}" if namespace else ""
    binding = (
        f"metadata: {{name: plugin{place}}}\nroleRef: {{kind: ClusterRole, name: plugin}}\n"
        "subjects: [{kind: ServiceAccount, name: plugin, namespace: drivers}]"
    )
    kinds = {name: listed(name, version=RBAC) for name in ("Role", "RoleBinding", "ClusterRoleBinding")}
    kinds[bound] = listed(bound, binding, version=RBAC)
    held = (
        f"metadata: {{name: c, namespace: {claim}}}\nstatus: {{allocation: {{devices: {{results: "
        "[{request: r, driver: gpu.example.com, pool: n1, device: gpu-0}]}}}"
    )
    found = reading(
        listed(
            "DaemonSet",
            daemon_set("gpu-dra", image="registry.example/gpu-dra:v1.0.0", more=ACCOUNT),
            version="apps/v1",
        ),
        slices(gpu_slice("n1")),
        claims(held),
        listed("ClusterRole", role, version=RBAC),
        *kinds.values(),
    )
    return found.driver_rights[0]


def test_a_driver_with_all_rights() -> None:
    found = rights(STATUS, OWN)
    assert found.service_account == "drivers/plugin"
    assert (found.can_update_status, found.can_update_driver_status, found.can_bind) == (True, True, False)
    assert found.rules == (
        "associated-node:update resourceclaims/driver [gpu.example.com]",
        "patch,update resourceclaims/status",
    )


@pytest.mark.parametrize(
    ("rules", "own"),
    [
        ((STATUS,), False),
        ((STATUS, rule("resourceclaims/driver", "'associated-node:update'", "nic.example.com")), False),
        ((rule("resourceclaims/driver", "'arbitrary-node:patch'"),), True),
        ((rule("'*'", "'*'"),), True),
        ((rule("resourceclaims/driver", "update"),), False),
    ],
)
def test_the_right_of_a_driver_s_own_status(rules: tuple[str, ...], own: bool) -> None:
    assert rights(*rules).can_update_driver_status is own


def test_a_right_in_one_namespace_counts_where_all_claims_are_in_it() -> None:
    assert rights(STATUS, OWN, bound="RoleBinding", namespace="ml").can_update_driver_status is True
    assert (
        rights(STATUS, OWN, bound="RoleBinding", namespace="ml", claim="web").can_update_driver_status
        is False
    )


def test_rights_are_unknown_where_rbac_was_not_read() -> None:
    text = listed(
        "DaemonSet",
        daemon_set("gpu-dra", image="registry.example/gpu-dra:v1.0.0", more=ACCOUNT),
        version="apps/v1",
    )
    found = reading(text, slices(gpu_slice("n1"))).driver_rights[0]
    assert (found.can_update_status, found.can_update_driver_status) == (None, None)


CORE = (
    "metadata: {name: e1, namespace: ml}\ntype: TYPE\nreason: REASON\nmessage: first\ncount: 2\n"
    "lastTimestamp: '2026-01-01T00:00:00Z'\ninvolvedObject: {kind: KIND, name: p, namespace: ml}\nsource: {component: kubelet, host: n1}"
)
NEW = (
    "metadata: {name: e2, namespace: ml}\ntype: TYPE\nreason: REASON\nnote: other words\n"
    "series: {count: 5, lastObservedTime: '2026-01-02T00:00:00.000000Z'}\nregarding: {kind: KIND, name: p, namespace: ml}\n"
    "deprecatedSource: {component: kubelet, host: n1}"
)


def event_rows(kind: str = "Pod", reason: str = "Failed", type_: str = "Warning") -> tuple[EventFact, ...]:
    def fill(text: str) -> str:
        return text.replace("TYPE", type_).replace("REASON", reason).replace("KIND", kind)

    return reading(listed("Event", fill(CORE)), listed("Event", fill(NEW), version="events.k8s.io/v1")).events


def test_events_of_both_versions_are_one_by_reason_object_and_source() -> None:
    found = event_rows()
    assert len(found) == 1
    assert (found[0].count, found[0].last, found[0].message) == (
        7,
        "2026-01-02T00:00:00.000000Z",
        "other words",
    )
    assert found[0].node == "n1"


@pytest.mark.parametrize(
    ("kind", "reason", "type_", "kept"),
    [
        ("Pod", "Anything", "Warning", True),
        ("Pod", "Scheduled", "Normal", False),
        ("Pod", "DeviceTaintManagerEviction", "Normal", True),
        ("ResourceClaim", "Whatever", "Normal", True),
    ],
)
def test_which_events_are_kept(kind: str, reason: str, type_: str, kept: bool) -> None:
    assert bool(event_rows(kind, reason, type_)) is kept


def test_leases_of_kube_system_only() -> None:
    lease = "metadata: {name: kube-scheduler, namespace: NS}\nspec: {holderIdentity: cp-1_x, leaseDurationSeconds: 15}"
    both = listed(
        "Lease",
        lease.replace("NS", "kube-system"),
        lease.replace("NS", "kube-node-lease"),
        version="coordination.k8s.io/v1",
    )
    found = reading(both).leases
    assert [(found_one.name, found_one.holder) for found_one in found] == [("kube-scheduler", "cp-1_x")]
