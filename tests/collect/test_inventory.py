"""What an input held: counting once, listed or not, served or not, and what could not be read."""

from __future__ import annotations

import msgspec
import pytest

from changegen.collect import build_snapshot
from changegen.collect.documents import Document, ListSeen, Problem, Reason, resource_name
from changegen.collect.inventory import WANTED, Inventory
from changegen.collect.wire import ConfigMap, Node, Pod
from tests.collect.build import apiserver, config_map, node, records


def listed(
    kind: str, group: str = "", namespace: str | None = None, count: int = 0, **more: bool
) -> ListSeen:
    return ListSeen(
        group=group, kind=kind, api_version="v1", place="x", count=count, namespace=namespace, **more
    )


def raw(obj: dict[str, object], place: str = "a.json") -> Document:
    return Document(api_version="v1", kind="Pod", place=place, data=msgspec.Raw(msgspec.json.encode(obj)))


@pytest.mark.parametrize("eager", [{}, {"pods": Pod}])
def test_an_object_counts_once_and_its_newer_reading_stays(eager: dict[str, type]) -> None:
    old = {"metadata": {"name": "p", "namespace": "a", "uid": "1", "resourceVersion": "9"}, "spec": {}}
    new = {
        "metadata": {"name": "p", "namespace": "a", "uid": "1", "resourceVersion": "10"},
        "spec": {"nodeName": "n"},
    }
    for order in ([old, new], [new, old]):
        inventory = Inventory.from_records([raw(item) for item in order], eager)
        (found,) = inventory.all("pods", Pod)
        assert found.obj.spec.node_name == "n"


def test_without_a_uid_namespace_and_name_decide() -> None:
    one = {"metadata": {"name": "p"}, "spec": {}}
    first = Document(api_version="v1", kind="Pod", place="a", data=one, namespace="x")
    second = Document(api_version="v1", kind="Pod", place="b", data=one, namespace="y")
    inventory = Inventory.from_records([first, second, first])
    assert [found.namespace for found in inventory.all("pods", Pod)] == ["x", "y"]


@pytest.mark.parametrize("eager", [{}, {"pods": Pod}])
def test_two_uids_of_one_name_are_a_mixed_input_and_the_newer_counts(eager: dict[str, type]) -> None:
    objects = [
        {"metadata": {"name": "p", "namespace": "a", "uid": uid, "resourceVersion": version}}
        for uid, version in (("1", "7"), ("2", "30"), ("2", "30"))
    ]
    inventory = Inventory.from_records([raw(item) for item in objects], eager)
    (found,) = inventory.all("pods", Pod)
    assert found.obj.metadata.uid == "2"
    assert [notice.reason for notice in inventory.notices] == ["mixed-readings"]


def test_two_clusters_in_one_input_are_a_failed_reading() -> None:
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}
        for uid in "ab"
    ]
    snapshot = build_snapshot(records(*spaces))
    gap = next(item for item in snapshot.unobserved if item.what == "identity of the cluster")
    assert gap.failed
    assert "a, b" in gap.detail
    assert build_snapshot(records(spaces[0], spaces[0])).cluster.uid == "a"


def test_devices_are_read_only_where_all_of_them_are() -> None:
    """One slice that could not be read makes what the others do not have no absence; of Pods each stands for itself."""
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {"driver": "d", "pool": {"name": "p", "generation": 1}, "devices": devices},
        }
        for name, devices in (("a", [{"name": "x"}]), ("b", ["x"]))
    ]
    seen = [listed("ResourceSlice", "resource.k8s.io"), listed("Pod")]
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": 5}]
    sound = build_snapshot([*records(slices[0]), *seen])
    assert "resourceslices.resource.k8s.io" in sound.kinds_read
    broken = build_snapshot([*records(*slices, *pods), *seen])
    assert "resourceslices.resource.k8s.io" not in broken.kinds_read
    assert "pods" in broken.kinds_read
    assert [pool.name for pool in broken.pools] == ["p"]


def test_empty_lists_are_an_answer_and_absent_kinds_are_none() -> None:
    inventory = Inventory.from_records([listed("Pod")])
    assert inventory.listed("pods")
    assert inventory.complete("pods")
    assert not inventory.listed("nodes")
    assert inventory.kinds_read == ("pods",)
    gaps = {item.what: item.reason for item in inventory.unobserved}
    assert set(gaps) == set(WANTED) - {"pods"}
    assert set(gaps.values()) == {"not-in-capture"}
    assert not any(item.failed for item in inventory.unobserved)


def test_lists_of_some_namespaces_are_partial() -> None:
    inventory = Inventory.from_records([listed("Pod", namespace="b"), listed("Pod", namespace="a")])
    assert inventory.listed("pods")
    assert not inventory.complete("pods")
    assert inventory.namespaces_read == {"pods": ("a", "b")}
    whole = Inventory.from_records([listed("Pod", namespace="b"), listed("Pod")])
    assert whole.complete("pods")
    assert whole.namespaces_read == {}


def test_a_cut_list_is_not_complete() -> None:
    assert not Inventory.from_records([listed("Pod", complete=False)]).complete("pods")


def test_a_single_object_is_no_list() -> None:
    inventory = Inventory.from_records(records(node("n1"), lists=False))
    assert not inventory.listed("nodes")
    assert len(inventory.all("nodes", Node)) == 1
    gap = next(item for item in inventory.unobserved if item.what == "nodes")
    assert "Single objects" in gap.detail


def problem(reason: Reason, *, failed: bool, code: int | None = None, kind: str = "Node") -> Problem:
    return Problem(place="x.json", reason=reason, detail="why", failed=failed, kind=kind, code=code)


@pytest.mark.parametrize(
    ("found", "reason", "failed"),
    [
        (problem(Reason.STATUS_ERROR, failed=True, code=403), "forbidden", True),
        (problem(Reason.STATUS_ERROR, failed=True, code=503), "error", True),
        (problem(Reason.STATUS_ERROR, failed=False, code=404), "not-served", False),
        (problem(Reason.TRUNCATED, failed=True), "truncated", True),
        (problem(Reason.SYNTAX, failed=True), "malformed", True),
    ],
)
def test_problems_become_what_was_not_observed(found: Problem, reason: str, failed: bool) -> None:
    inventory = Inventory.from_records([found])
    gaps = [item for item in inventory.unobserved if item.what == "nodes"]
    assert [(item.reason, item.failed, item.place) for item in gaps] == [(reason, failed, "x.json")]
    assert not inventory.notices


def test_a_failed_reading_beside_a_good_list_stays_reported() -> None:
    inventory = Inventory.from_records([listed("Node"), problem(Reason.STATUS_ERROR, failed=True, code=403)])
    assert inventory.listed("nodes")
    assert not inventory.complete("nodes")
    assert [item.reason for item in inventory.unobserved if item.what == "nodes"] == ["forbidden"]


def test_remarks_are_notices_and_fail_nothing() -> None:
    inventory = Inventory.from_records([listed("Node"), problem(Reason.DUPLICATE_KEY, failed=False)])
    assert [notice.reason for notice in inventory.notices] == ["duplicate-key"]
    assert not [item for item in inventory.unobserved if item.what == "nodes"]


def discovery(kind: str, **data: object) -> Document:
    return Document(api_version="v1", kind=kind, place="apis.json", data=data)


GROUPS = discovery(
    "APIGroupList",
    groups=[
        {
            "name": "resource.k8s.io",
            "versions": [{"groupVersion": "resource.k8s.io/v1"}, {"groupVersion": "resource.k8s.io/v1beta2"}],
            "preferredVersion": {"groupVersion": "resource.k8s.io/v1"},
        }
    ],
)
RESOURCES = discovery(
    "APIResourceList",
    groupVersion="resource.k8s.io/v1",
    resources=[
        {"name": "resourceslices", "kind": "ResourceSlice", "namespaced": False},
        {"name": "resourceclaims", "kind": "ResourceClaim", "namespaced": True},
        {"name": "resourceclaims/status", "kind": "ResourceClaim", "namespaced": True},
    ],
)


def test_discovery_gives_served_apis_without_subresources() -> None:
    first, second = Inventory.from_records([GROUPS, RESOURCES]).apis
    assert (first.group_version, first.preferred) == ("resource.k8s.io/v1", True)
    assert [item.name for item in first.resources or ()] == ["resourceclaims", "resourceslices"]
    assert (second.group_version, second.preferred, second.resources) == (
        "resource.k8s.io/v1beta2",
        False,
        None,
    )


def test_not_served_is_said_only_where_discovery_proves_it() -> None:
    inventory = Inventory.from_records([GROUPS, RESOURCES])
    assert inventory.served("resourceslices.resource.k8s.io") is True
    assert inventory.served("devicetaintrules.resource.k8s.io") is None
    assert inventory.served("apiservices.apiregistration.k8s.io") is False
    assert inventory.served("pods") is None
    other = discovery("APIResourceList", groupVersion="resource.k8s.io/v1beta2", resources=[])
    both = Inventory.from_records([GROUPS, RESOURCES, other])
    assert both.served("devicetaintrules.resource.k8s.io") is False
    assert (
        next(item.reason for item in both.unobserved if item.what == "devicetaintrules.resource.k8s.io")
        == "not-served"
    )


def test_aggregated_discovery_says_the_same() -> None:
    one = discovery(
        "APIGroupDiscoveryList",
        items=[
            {
                "metadata": {"name": "resource.k8s.io"},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "resourceslices",
                                "responseKind": {"kind": "ResourceSlice"},
                                "scope": "Cluster",
                            },
                            {
                                "resource": "resourceclaims",
                                "responseKind": {"kind": "ResourceClaim"},
                                "scope": "Namespaced",
                            },
                        ],
                    }
                ],
            }
        ],
    )
    (api,) = Inventory.from_records([one]).apis
    (old, _) = Inventory.from_records([GROUPS, RESOURCES]).apis
    assert api == old


def test_the_newest_time_is_a_leases_before_a_pods() -> None:
    pod = apiserver(metadata={"creationTimestamp": "2026-11-30T00:00:09Z"})
    assert Inventory.from_records(records(pod)).newest_timestamp() == "2026-11-30T00:00:09Z"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "annotations": {"until": "2099-01-01T00:00:00Z"}},
        "spec": {"renewTime": "2026-11-30T00:00:08.5Z"},
    }
    assert Inventory.from_records(records(pod, lease)).newest_timestamp() == "2026-11-30T00:00:08.5Z"
    assert Inventory.from_records([]).newest_timestamp() == ""


def test_times_are_found_in_json_as_in_yaml() -> None:
    pod = {"metadata": {"name": "p", "creationTimestamp": "2026-11-30T00:00:09Z"}}
    for eager in ({}, {"pods": Pod}):
        assert Inventory.from_records([raw(pod)], eager).newest_timestamp() == "2026-11-30T00:00:09Z"


def test_eager_resources_come_in_their_type_only() -> None:
    inventory = Inventory.from_records(records(config_map("a", {})), {"configmaps": ConfigMap})
    assert len(inventory.all("configmaps", ConfigMap)) == 1
    with pytest.raises(TypeError, match="configmaps"):
        inventory.all("configmaps", Pod)


def test_unknown_kinds_are_kept_by_name() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Policy", "metadata": {"name": "w"}}
    inventory = Inventory.from_records(records(widget))
    assert resource_name("example.com", "Policy") == "policies.example.com"
    assert inventory.listed("policies.example.com")
    assert inventory.kinds_read == ("policies.example.com",)


def test_endpoints_that_were_not_read_are_named_with_their_command() -> None:
    snapshot = build_snapshot(records(node("n1"), version="v1.36.3"))
    gaps = {item.what: item.remedy for item in snapshot.unobserved}
    assert gaps["/metrics"] == "kubectl get --raw /metrics"
    assert "/version" not in gaps
    refused = Problem(place="/metrics", reason=Reason.STATUS_ERROR, detail="no", failed=True, code=403)
    snapshot = build_snapshot([*records(node("n1")), refused])
    assert [item.reason for item in snapshot.unobserved if item.what == "/metrics"] == ["forbidden"]
