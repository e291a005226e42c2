from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changegen.compare import AREAS, VOLATILE, compare, is_volatile
from changegen.model import snapshot as s
from changegen.model.ticket import Change, Comparison
from tests.growth import grows_linearly

ALL_KINDS = (
    "apiservices.apiregistration.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterversions.config.openshift.io",
    "configmaps",
    "customresourcedefinitions.apiextensions.k8s.io",
    "daemonsets.apps",
    "deployments.apps",
    "deviceclasses.resource.k8s.io",
    "devicetaintrules.resource.k8s.io",
    "events",
    "leases.coordination.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "nodes",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
    "pods",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
WORKLOAD = s.WorkloadRef(kind="Deployment", namespace="ml", name="train")


def snap(**fields: Any) -> s.Snapshot:
    base: dict[str, Any] = {
        "tool_version": "0",
        "source": s.Source(kind="files", description="test"),
        "cluster": s.Cluster(uid="u1", server_version="v1.36.3"),
        "kinds_read": ALL_KINDS,
        "apis": (s.ServedApi(group_version="v1", resources=()),),
    }
    return s.Snapshot(**{**base, **fields})


def component(name: str, node: str, version: str = "v1.36.3", **fields: Any) -> s.Component:
    base: dict[str, Any] = {
        "component": name,
        "instance": f"kube-system/{name}-{node}",
        "node": node,
        "version": version,
        "version_source": "image",
        "feature_gates": {},
        "feature_gates_source": "pod spec",
        "gates_certainty": "observed",
        "kind": "static pod",
        "namespace": "kube-system",
        "flags_observable": True,
    }
    return s.Component(**{**base, **fields})


def pod(name: str, owner: s.WorkloadRef | None = WORKLOAD, node: str = "gpu-1", **fields: Any) -> s.PodUse:
    return s.PodUse(namespace="ml", name=name, uid=f"uid-{name}", owner=owner, node=node, **fields)


def rows(comparison: Comparison) -> list[tuple[Any, ...]]:
    return [(c.kind, c.area, c.path, c.subjects, c.before, c.after) for c in comparison.changes]


# ------------------------------------------------------------------------------------- a snapshot with every field set


def filled(type_: Any, seed: str, depth: int = 0) -> Any:
    """A value of the type in which every field differs from its default."""
    if get_origin(type_) is Annotated:
        return filled(get_args(type_)[0], seed, depth)
    if get_origin(type_) is Literal:
        return get_args(type_)[-1]
    if get_origin(type_) in {Union, UnionType}:
        options = [o for o in get_args(type_) if o is not type(None)]
        preferred = [o for o in options if get_origin(o) is not Literal]
        return filled((preferred or options)[0], seed, depth)
    if get_origin(type_) is tuple:
        return (filled(get_args(type_)[0], seed, depth + 1),)
    if get_origin(type_) is dict:
        return {f"key-{seed}": filled(get_args(type_)[1], seed, depth + 1)}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        hints = get_type_hints(type_, include_extras=True)
        return type_(**{f: filled(hints[f], f"{seed}.{f}", depth + 1) for f in type_.__struct_fields__})
    return {str: f"text {seed}", int: 7, bool: True, float: 0.5}[type_]


def full_snapshot() -> s.Snapshot:
    whole: s.Snapshot = filled(s.Snapshot, "x")
    replace = msgspec.structs.replace
    component_ = replace(whole.components[0], kind="static pod", belongs_to="this cluster")
    # kinds as they are spelled, so that things can be said to be there or not
    return replace(
        whole,
        kinds_read=ALL_KINDS,
        namespaces_read={"roles.rbac.authorization.k8s.io": ("kube-system",)},
        components=(component_, replace(component_, component="kubelet", kind="node", node="n2")),
        workloads=(replace(whole.workloads[0], kind="DaemonSet"),),
        webhooks=(replace(whole.webhooks[0], kind="validating"),),
        stored_objects=(replace(whole.stored_objects[0], group_version="v1", resource="pods"),),
    )


def variants(value: Any, type_: Any, path: str):
    """Yield (path, value with exactly one leaf changed)."""
    if get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) in {Union, UnionType}:
        options = get_args(type_)
        if value is None:
            yield path, filled(type_, "new")
            return
        fitting = [o for o in options if _fits(value, o)]
        type_ = fitting[0]
    if isinstance(value, msgspec.Struct):
        hints = get_type_hints(type(value), include_extras=True)
        for field in value.__struct_fields__:
            below = f"{path}.{field}" if path else field
            for where, new in variants(getattr(value, field), hints[field], below):
                yield where, msgspec.structs.replace(value, **{field: new})
    elif get_origin(type_) is tuple:
        for index, item in enumerate(value):
            for where, new in variants(item, get_args(type_)[0], f"{path}[]"):
                yield where, (*value[:index], new, *value[index + 1 :])
    elif get_origin(type_) is dict:
        for key, item in value.items():
            for where, new in variants(item, get_args(type_)[1], f"{path}{{}}"):
                yield where, {**value, key: new}
    elif get_origin(type_) is Literal:
        if len(get_args(type_)) > 1:
            yield path, next(o for o in get_args(type_) if o != value)
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int | float):
        yield path, value + 1
    elif isinstance(value, str):
        yield path, f"{value}, changed"
    else:
        raise AssertionError(f"no leaf: {path} {value!r} {type_}")


def _fits(value: Any, option: Any) -> bool:
    if get_origin(option) is Literal:
        return value in get_args(option)
    if get_origin(option) in {tuple, dict}:
        return isinstance(value, get_origin(option))
    return isinstance(value, option)


FULL = full_snapshot()
LEAVES = list(variants(FULL, s.Snapshot, ""))


def told(comparison: Comparison) -> tuple[Any, ...]:
    return (comparison.changes, comparison.not_comparable)


def test_every_leaf_is_told_unless_it_is_on_the_list_of_volatile_fields():
    nothing = told(compare(FULL, FULL))
    assert len(LEAVES) > 400
    wrong = []
    for path, changed in LEAVES:
        for first, second in ((FULL, changed), (changed, FULL)):
            seen = told(compare(first, second)) != nothing
            volatile = is_volatile(path) and not any(v.part and v.path == path for v in VOLATILE)
            if seen == volatile:
                wrong.append((path, "told though volatile" if seen else "not told"))
    assert wrong == []


def test_leaves_of_a_real_reading():
    from changegen.collect import Options, build_snapshot
    from changegen.collect.files import read_input

    folder = Path(__file__).parent / "data" / "recorded" / "before"
    real = build_snapshot(read_input([folder]), Options(description="before"))
    nothing = told(compare(real, real))
    wrong = []
    for number, (path, changed) in enumerate(variants(real, s.Snapshot, "")):
        if number % 5:
            continue
        seen = told(compare(real, changed)) != nothing
        if seen == (is_volatile(path) and not any(v.part and v.path == path for v in VOLATILE)):
            wrong.append(path)
    assert wrong == []


def test_a_second_thing_beside_the_first_is_new():
    fields = ("nodes", "claims", "pods", "pools", "drivers", "taint_rules", "config_maps")
    double = msgspec.structs.replace(FULL, **{f: (*getattr(FULL, f), *getattr(OTHER, f)) for f in fields})
    changes = compare(FULL, double).changes
    assert {c.kind for c in changes} == {"added"}
    assert {c.area for c in changes} == {*fields, "devices"}


OTHER: s.Snapshot = filled(s.Snapshot, "y")


def test_every_path_on_the_list_exists():
    known = {path for path, _ in LEAVES}
    for entry in VOLATILE:
        assert any(
            path == entry.path or path.startswith((entry.path + ".", entry.path + "[", entry.path + "{"))
            for path in known
        ), entry
        assert entry.why


def test_every_field_of_the_snapshot_is_an_area_or_known_to_be_none():
    not_areas = {
        "schema",
        "tool_version",
        "captured_at",
        "source",
        "kinds_read",
        "namespaces_read",
        "unobserved",
        "notices",
    }
    assert set(s.Snapshot.__struct_fields__) - not_areas == set(AREAS) - {"devices"}


# ------------------------------------------------------------------------------------------------------------ grouping


def test_equal_changes_are_one_with_a_count_and_subjects():
    before = snap(components=tuple(component("kube-apiserver", f"cp-{i}") for i in (1, 2, 3)))
    after = snap(components=tuple(component("kube-apiserver", f"cp-{i}", "v1.37.2") for i in (1, 2, 3)))
    (change,) = compare(before, after).changes
    assert (change.kind, change.area, change.path) == ("changed", "components", ("version",))
    assert (change.before, change.after, change.count) == ("v1.36.3", "v1.37.2", 3)
    assert change.subjects == ("kube-apiserver cp-1", "kube-apiserver cp-2", "kube-apiserver cp-3")


def test_what_repeats_another_change_of_the_same_thing_is_left_out():
    old = component(
        "kube-scheduler",
        "cp-3",
        image="i:v1.36.3",
        running_version="v1.36.3",
        state=s.ContainerState(name="kube-scheduler", image="i:v1.36.3"),
        flags=(s.ConfigFact(name="feature-gates", values=("A=true",)),),
        feature_gates={"A": True},
        gate_sources=(
            s.GateSource(provenance="pod spec", place="x", certainty="observed", gates={"A": True}),
        ),
    )
    new = msgspec.structs.replace(
        old,
        version="v1.37.2",
        running_version="v1.37.2",
        image="i:v1.37.2",
        state=s.ContainerState(name="kube-scheduler", image="i:v1.37.2"),
        flags=(s.ConfigFact(name="feature-gates", values=("A=false",)),),
        feature_gates={"A": False},
        gate_sources=(
            s.GateSource(provenance="pod spec", place="x", certainty="observed", gates={"A": False}),
        ),
    )
    found = compare(snap(components=(old,)), snap(components=(new,)))
    assert [c.path for c in found.changes] == [("feature_gates", "A"), ("image",), ("version",)]
    hashed = msgspec.structs.replace(old, config_hash="other")
    assert [c.path for c in compare(snap(components=(old,)), snap(components=(hashed,))).changes] == [
        ("config_hash",)
    ]
    unproven = msgspec.structs.replace(new, running_version=None)
    paths = [c.path for c in compare(snap(components=(old,)), snap(components=(unproven,))).changes]
    assert ("running_version",) in paths


def test_gates_of_a_new_release_are_told_as_a_whole():
    def process(**gates: bool) -> s.ProcessFact:
        return s.ProcessFact(
            component="kube-apiserver", place="m", provenance="metric", effective_gates=gates
        )

    found = compare(
        snap(processes=(process(A=True, B=False, C=True),)),
        snap(processes=(process(B=True, C=True, D=False),)),
    )
    assert [(c.kind, c.path, c.before, c.after) for c in found.changes] == [
        ("added", ("effective_gates",), None, {"D": False}),
        ("changed", ("effective_gates",), {"B": False}, {"B": True}),
        ("removed", ("effective_gates",), {"A": True}, None),
    ]


def test_device_taints_are_matched_by_key_and_effect():
    def pool(*taints: s.DeviceTaint) -> s.Pool:
        return s.Pool(driver="gpu", name="p", generation=1, devices=(s.Device(name="d", taints=taints),))

    before = snap(
        pools=(
            pool(
                s.DeviceTaint(key="a", effect="NoSchedule", value="1"), s.DeviceTaint(key="b", effect="None")
            ),
        )
    )
    after = snap(
        pools=(
            pool(
                s.DeviceTaint(key="b", effect="None"), s.DeviceTaint(key="a", effect="NoSchedule", value="2")
            ),
        )
    )
    assert rows(compare(before, after)) == [
        ("changed", "devices", ("taints", "a/NoSchedule", "value"), ("gpu/p/d",), "1", "2")
    ]


def test_a_list_says_what_came_and_went():
    def node(*features: str) -> s.Node:
        return s.Node(name="n", declared_features=features)

    (change,) = compare(snap(nodes=(node("A", "B", "C"),)), snap(nodes=(node("B", "C", "D"),))).changes
    assert (change.before, change.after) == (("A", "B", "C"), ("B", "C", "D"))
    assert change.note == "gone: A; new: D"


def test_keys_that_start_with_underscores_are_compared():
    def node(value: str) -> s.Node:
        return s.Node(name="n", labels={"__meta": value})

    (change,) = compare(snap(nodes=(node("1"),)), snap(nodes=(node("2"),))).changes
    assert change.path == ("labels", "__meta")


# ---------------------------------------------------------------------------------------------------- replaced objects


def test_pods_of_one_owner_under_new_names_are_one_change():
    before = snap(pods=(pod("train-a-1"), pod("train-a-2", node="gpu-2"), pod("train-a-3", node="gpu-3")))
    after = snap(pods=(pod("train-b-7", node="gpu-2"), pod("train-b-8"), pod("train-a-3", node="gpu-3")))
    (change,) = compare(before, after).changes
    assert (change.path, change.subjects, change.count) == (("replaced",), ("Deployment ml/train",), 2)
    assert change.before == ("ml/train-a-1 (gpu-1)", "ml/train-a-2 (gpu-2)")
    assert change.after == ("ml/train-b-8 (gpu-1)", "ml/train-b-7 (gpu-2)")


def test_a_replaced_pod_with_another_image_says_so_and_its_restarts_are_no_change():
    def one(name: str, image: str, restarts: int) -> s.PodUse:
        return pod(
            name, containers=(s.ContainerState(name="c", image=image, restarts=restarts),), restarts=restarts
        )

    found = compare(snap(pods=(one("train-a", "i:1", 4),)), snap(pods=(one("train-b", "i:2", 0),)))
    assert [(c.path, c.before, c.after) for c in found.changes] == [
        (("containers", "c", "image"), "i:1", "i:2"),
        (("replaced",), ("ml/train-a (gpu-1)",), ("ml/train-b (gpu-1)",)),
    ]


def test_pods_of_two_namespaces_never_replace_each_other():
    node = s.WorkloadRef(kind="Node", namespace="", name="gpu-1")
    before, after = pod("a", owner=node), msgspec.structs.replace(pod("b", owner=node), namespace="other")
    found = compare(snap(pods=(before,)), snap(pods=(after,)))
    assert [(c.kind, c.subjects) for c in found.changes] == [
        ("added", ("other/b",)),
        ("removed", ("ml/a",)),
    ]


def test_one_pod_fewer_is_a_removal_beside_the_replaced_ones():
    before = snap(pods=(pod("train-a"), pod("train-b")))
    after = snap(pods=(pod("train-c"),))
    assert [(c.kind, c.path, c.subjects) for c in compare(before, after).changes] == [
        ("removed", (), ("ml/train-b",)),
        ("changed", ("replaced",), ("Deployment ml/train",)),
    ]


def test_bare_pods_go_by_name_and_a_new_uid_is_a_new_pod():
    before = snap(pods=(pod("net-app", None), pod("too-big", None)))
    after = snap(
        pods=(msgspec.structs.replace(pod("net-app", None), uid="other", restarts=0, created="later"),)
    )
    found = compare(before, after)
    assert [(c.kind, c.path, c.subjects, c.note) for c in found.changes] == [
        ("removed", (), ("ml/too-big",), ""),
        ("changed", ("uid",), ("ml/net-app",), "a new object of the same name"),
    ]


def test_daemonset_pods_are_matched_by_node():
    owner = s.WorkloadRef(kind="DaemonSet", namespace="drv", name="plugin")
    before = snap(pods=(pod("plugin-aa", owner, "n1"), pod("plugin-bb", owner, "n2")))
    after = snap(pods=(pod("plugin-cc", owner, "n2"), pod("plugin-dd", owner, "n3")))
    assert [(c.kind, c.path, c.subjects) for c in compare(before, after).changes] == [
        ("added", (), ("ml/plugin-dd",)),
        ("removed", (), ("ml/plugin-aa",)),
        ("changed", ("replaced",), ("DaemonSet drv/plugin",)),
    ]


def test_kube_proxy_is_matched_by_node_whatever_its_pod_is_called():
    def proxy(name: str, version: str) -> s.Component:
        return component(
            "kube-proxy", "n1", version, instance=f"kube-system/kube-proxy-{name}", kind="daemonset pod"
        )

    assert compare(snap(components=(proxy("aa", "v1"),)), snap(components=(proxy("bb", "v1"),))).changes == ()
    (change,) = compare(snap(components=(proxy("aa", "v1"),)), snap(components=(proxy("bb", "v2"),))).changes
    assert change.subjects == ("kube-proxy n1",)


def test_two_etcds_of_one_node_are_not_mixed():
    def etcd(base: str, version: str) -> s.Component:
        return component("etcd", "n1", version, instance=f"kube-system/{base}-n1")

    before = snap(components=(etcd("etcd-manager-events", "3.5"), etcd("etcd", "3.6")))
    after = snap(components=(etcd("etcd-manager-events", "3.6"), etcd("etcd", "3.6")))
    (change,) = compare(before, after).changes
    assert change.subjects == ("etcd n1 (etcd-manager-events)",)


def test_generated_claims_follow_their_pods_owner():
    def claim(name: str, owner: str) -> s.Claim:
        return s.Claim(
            namespace="ml", name=name, uid=name, owner=f"Pod/{owner}", extended_resource=True, allocated=True
        )

    before = snap(pods=(pod("train-a"),), claims=(claim("train-a-xyz", "train-a"),))
    after = snap(pods=(pod("train-b"),), claims=(claim("train-b-uvw", "train-b"),))
    found = [(c.area, c.path, c.subjects) for c in compare(before, after).changes]
    assert found == [
        ("claims", ("replaced",), ("claims <extended-resources> of Deployment ml/train",)),
        ("pods", ("replaced",), ("Deployment ml/train",)),
    ]


def test_restarts_are_counted():
    def one(restarts: int) -> s.PodUse:
        return pod("a", containers=(s.ContainerState(name="c", restarts=restarts),), restarts=restarts)

    (change,) = compare(snap(pods=(one(0),)), snap(pods=(one(2),))).changes
    assert (change.path, change.before, change.after) == (("containers", "c", "restarts"), 0, 2)


# ----------------------------------------------------------------------------------------------------- partial reading


def test_what_one_side_could_not_read_never_vanishes():
    nodes = tuple(s.Node(name=f"n{i}") for i in range(3))
    before = snap(nodes=nodes, components=tuple(component("kubelet", n.name, kind="node") for n in nodes))
    kinds = tuple(k for k in ALL_KINDS if k != "nodes")
    after = snap(
        kinds_read=kinds,
        unobserved=(s.Unobserved(what="nodes", reason="forbidden", failed=True),),
    )
    for first, second, side in ((before, after, "after"), (after, before, "before")):
        found = compare(first, second)
        assert found.changes == ()
        assert {(n.area, n.side, n.reason) for n in found.not_comparable} == {
            ("nodes", side, "forbidden"),
            ("components", side, "forbidden"),
        }
        assert "3" in found.not_comparable[0].what


def test_a_component_is_gone_where_its_own_kind_was_read():
    before = snap(components=(component("kube-scheduler", "cp-1"), component("kubelet", "cp-1", kind="node")))
    after = snap(kinds_read=tuple(k for k in ALL_KINDS if k != "nodes"))
    found = compare(before, after)
    assert rows(found) == [
        ("removed", "components", (), ("kube-scheduler cp-1",), {"version": "v1.36.3"}, None)
    ]
    assert ("components", "after") in {(n.area, n.side) for n in found.not_comparable}


def test_components_that_only_a_node_tells_of_are_gone_where_nodes_were_read():
    told = snap(components=(component("kube-apiserver", "s-1", kind="annotation"),))
    unread = snap(kinds_read=tuple(k for k in ALL_KINDS if k != "nodes"))
    assert compare(told, unread).changes == ()
    assert [c.kind for c in compare(told, snap()).changes] == ["removed"]


@pytest.mark.parametrize(("ready", "image", "said"), [(3, "i:1", True), (2, "i:1", False), (3, "i:2", False)])
def test_ready_pods_of_an_unchanged_driver_that_lost_devices_are_no_devices(ready, image, said):
    def driver(devices: int, **fields: Any) -> s.Driver:
        base: dict[str, Any] = {
            "driver": "gpu",
            "version": "v1",
            "version_source": "image",
            "image": "i:1",
            "workload": s.WorkloadRef(kind="DaemonSet", namespace="gpu", name="plugin"),
            "desired": 3,
            "ready": 3,
        }
        return s.Driver(**{**base, **fields}, devices=devices)

    found = compare(snap(drivers=(driver(8),)), snap(drivers=(driver(4, ready=ready, image=image),)))
    (change,) = (c for c in found.changes if c.path == ("devices",))
    assert ("gpu/plugin is unchanged and 3/3 ready" in change.note) is said


def test_what_is_new_says_what_it_has_beyond_its_name_and_its_defaults():
    def node(*taints: s.NodeTaint) -> s.Snapshot:
        return snap(nodes=(s.Node(name="n", taints=taints),))

    plain = s.NodeTaint(key="a", effect="NoSchedule")
    found = compare(node(), node(plain, s.NodeTaint(key="b", effect="NoExecute", value="x")))
    assert rows(found) == [
        ("added", "nodes", ("taints", "a/NoSchedule"), ("n",), None, {}),
        ("added", "nodes", ("taints", "b/NoExecute"), ("n",), None, {"value": "x"}),
    ]


def test_two_of_a_kind_on_one_node_are_told_apart():
    main = component("etcd", "cp-1")
    events = component("etcd", "cp-1", instance="kube-system/etcd-events-cp-1")
    moved = msgspec.structs.replace(events, version="v9")
    found = compare(snap(components=(main, events)), snap(components=(moved, main)))
    assert rows(found) == [
        ("changed", "components", ("version",), ("etcd cp-1 (etcd-events)",), "v1.36.3", "v9")
    ]


def test_a_reading_is_named_by_cluster_version_and_time_or_by_its_source():
    named = snap(cluster=s.Cluster(uid="u1", name="prod-a", server_version="v1.36.3"), captured_at="T1")
    nameless = snap(cluster=s.Cluster(uid="u1"))
    found = compare(named, nameless)
    assert (found.before, found.after) == ("prod-a v1.36.3 T1", "test")


def test_facts_of_openshift_are_compared_where_both_read_them():
    kinds = tuple(k for k in ALL_KINDS if k != "clusterversions.config.openshift.io")
    read, moved, unread = snap(openshift={"v": "4.20"}), snap(openshift={"v": "4.21"}), snap(kinds_read=kinds)
    assert rows(compare(read, moved)) == [("changed", "openshift", ("v",), ("openshift",), "4.20", "4.21")]
    assert rows(compare(snap(), moved)) == [("added", "openshift", ("v",), ("openshift",), None, "4.21")]
    for first, second, side in ((read, unread, "after"), (unread, read, "before")):
        found = compare(first, second)
        assert found.changes == ()
        assert ("openshift", side) in {(n.area, n.side) for n in found.not_comparable}


def test_a_list_that_was_cut_says_nothing_of_what_is_not_in_it():
    before = snap(nodes=(s.Node(name="n1"), s.Node(name="n2", kubelet_version="v1")))
    cut = (s.Unobserved(what="nodes", reason="truncated", failed=True),)
    after = snap(nodes=(s.Node(name="n1", kubelet_version="v2"),), unobserved=cut)
    found = compare(before, after)
    assert rows(found) == [("changed", "nodes", ("kubelet_version",), ("n1",), "", "v2")]
    assert ("nodes", "after", "truncated") in {(n.area, n.side, n.reason) for n in found.not_comparable}


def test_namespaces_that_one_side_did_not_read():
    before = snap(pods=(pod("a", None), s.PodUse(namespace="web", name="b")))
    after = snap(namespaces_read={"pods": ("web",)})
    found = compare(before, after)
    assert rows(found) == [("removed", "pods", (), ("web/b",), None, None)]
    assert [(n.area, n.side) for n in found.not_comparable if n.area == "pods"] == [("pods", "after")]


def test_unobservable_gates_are_not_lost_gates():
    seen = component("kube-apiserver", "n", feature_gates={"A": True})
    unseen = component(
        "kube-apiserver", "n", feature_gates="unobservable", gates_certainty=None, feature_gates_source="none"
    )
    found = compare(snap(components=(seen,)), snap(components=(unseen,)))
    assert found.changes == ()
    assert {n.side for n in found.not_comparable} == {"after"}
    assert "feature_gates of kube-apiserver n" in {n.what for n in found.not_comparable}


def test_flags_that_cannot_be_seen_are_not_lost_flags():
    seen = component("kube-apiserver", "n", flags=(s.ConfigFact(name="a", values=("1",)),))
    unseen = component("kube-apiserver", "n", flags_observable=False)
    found = compare(snap(components=(seen,)), snap(components=(unseen,)))
    assert found.changes == ()
    assert ("flags of kube-apiserver n", "after") in {(n.what, n.side) for n in found.not_comparable}


def test_a_process_that_one_side_did_not_ask_is_not_comparable():
    process = s.ProcessFact(component="kube-apiserver", place="m.txt", provenance="metric")
    found = compare(snap(processes=(process,)), snap())
    assert found.changes == ()
    assert [(n.area, n.side) for n in found.not_comparable] == [("processes", "after")]


def test_what_neither_side_read_is_said_too():
    lack = (s.Unobserved(what="events", reason="not-in-capture"),)
    found = compare(snap(unobserved=lack), snap(unobserved=lack))
    assert [(n.what, n.side) for n in found.not_comparable] == [("events", "both")]


def test_only_the_leader_of_a_lease_counts():
    def lease(holder: str) -> s.Lease:
        return s.Lease(name="kube-scheduler", holder=holder)

    a = "cp-1_8f1b1a52-4c3e-4c56-9d0b-2f6d4bd6c1aa"
    b = "cp-1_00000000-4c3e-4c56-9d0b-2f6d4bd6c1aa"
    assert compare(snap(leases=(lease(a),)), snap(leases=(lease(b),))).changes == ()
    assert len(compare(snap(leases=(lease(a),)), snap(leases=(lease("cp-2" + b[4:]),))).changes) == 1


# ---------------------------------------------------------------------------------------------------------------- laws

some_paths = st.lists(st.integers(min_value=0, max_value=len(LEAVES) - 1), min_size=0, max_size=4)


def merge(indices: list[int]) -> s.Snapshot:
    """A snapshot with several areas changed."""
    base = FULL
    for index in indices:
        changed = LEAVES[index][1]
        fields = {
            f: getattr(changed, f)
            for f in s.Snapshot.__struct_fields__
            if getattr(changed, f) != getattr(FULL, f)
        }
        base = msgspec.structs.replace(base, **fields)
    return base


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_paths, some_paths)
def test_laws(left, right):
    a, b = merge(left), merge(right)
    assert compare(a, a).changes == ()
    forth, back = compare(a, b), compare(b, a)
    swap = {"added": "removed", "removed": "added", "changed": "changed"}
    # What was replaced under a new name is told under the name that it has afterwards.
    renamed = {c.area for c in forth.changes if c.path == ("replaced",)}

    def what(c: Change) -> tuple[Any, ...]:
        return (c.area, c.path, c.count if c.area in renamed else c.subjects)

    assert sorted((*what(c), c.kind) for c in forth.changes) == sorted(
        (*what(c), swap[c.kind]) for c in back.changes
    )
    for c in forth.changes:
        assert any((d.before, d.after) == (c.after, c.before) for d in back.changes if what(d) == what(c))
    assert compare(a, b) == forth


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_the_work_grows_with_nodes_and_devices(share: float) -> None:
    def pools(count: int, version: str) -> tuple[s.Pool, ...]:
        string = s.Attribute
        return tuple(
            s.Pool(
                driver="gpu.example.com",
                name=f"node-{n}",
                generation=1,
                devices=tuple(
                    s.Device(
                        name=f"gpu-{d}",
                        attributes={
                            "uuid": string(type="string", value=f"GPU-{n}-{d}"),
                            "driverVersion": string(
                                type="version", value=version if n < count * share else "580.0.0"
                            ),
                        },
                    )
                    for d in range(8)
                ),
            )
            for n in range(count)
        )

    def nodes(count: int, version: str) -> tuple[s.Node, ...]:
        return tuple(
            s.Node(name=f"node-{n}", kubelet_version=version, labels={"a": str(n)}) for n in range(count)
        )

    def prepare(count: int) -> Callable[[], Comparison]:
        before = snap(nodes=nodes(count, "v1.36.3"), pools=pools(count, "580.0.0"))
        after = snap(nodes=nodes(count, "v1.37.2"), pools=pools(count, "590.0.0"))
        return lambda: compare(before, after)

    assert grows_linearly(prepare, 200, 1600)
    found = prepare(1600)()
    by_area = {c.area: c for c in found.changes}
    assert by_area["nodes"].count == 1600
    assert by_area["devices"].count == 8 * 1600 * share
    assert len(found.changes) == 2
