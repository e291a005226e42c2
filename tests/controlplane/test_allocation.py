"""Which claims the real scheduler can allocate, and whether changegen's search says the same of each.

Every case publishes slices, makes Pods with claims, waits for the scheduler's word on each Pod, and then asks the simulation
where the Pod could run, its own devices aside. The two must agree on every Pod: none is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from changegen import kubedata, store
from changegen.assess.context import Context
from changegen.assess.dra import DeviceIndex
from changegen.assess.simulation import simulation_of
from changegen.assess.troubleshoot import pending_causes
from changegen.model.profile import Profile
from changegen.model.snapshot import SCHEMA, Snapshot
from tests.controlplane import dra
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

GPU, NIC = "gpu.example.com", "nic.example.com"
SPACE = "work"
MEMORY = "memory"


@pytest.fixture(scope="module", params=["1.36.3", "1.37.2"])
def cluster(request: pytest.FixtureRequest, start_cluster: Callable[[Plan], Cluster]) -> Cluster:
    """Two workers, a class for each driver, and a namespace where admin access is allowed."""
    need(request.param)
    started = start_cluster(
        Plan(
            version=request.param,
            nodes=[
                control_plane("cp-1"),
                Node(name="a-1", labels={"rack": "one"}),
                Node(name="a-2", labels={"rack": "two"}),
            ],
            addons=False,
        )
    )
    started.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": SPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
        },
        dra.device_class("gpu", GPU),
        dra.device_class("nic", NIC),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "loose"},
            "spec": {"selectors": cel(MODEL)},
        },
    )
    return started


Spec = Mapping[str, Any]


def devices(count: int, **fields: Any) -> list[Spec]:
    return [{"name": f"d-{number}", **fields} for number in range(count)]


def slice_(
    pool: str = "a-1",
    held: Sequence[Spec] = (),
    *,
    driver: str = GPU,
    generation: int = 1,
    of: int = 1,
    where: Spec | None = None,
    **spec: Any,
) -> Spec:
    """A ResourceSlice; of the node of the pool's name, unless `where` says another place."""
    return {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": of},
        **({"nodeName": pool} if where is None else where),
        **({"devices": list(held)} if held else {}),
        **spec,
    }


def asks(name: str = "r", class_: str = "gpu", count: int | None = 1, **fields: Any) -> Spec:
    """A request; without `count` for all devices."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": class_, **mode, **fields}}


def either(*alternatives: Spec) -> Spec:
    found = [{"name": f"s-{n}", **one["exactly"]} for n, one in enumerate(alternatives)]
    return {"name": "r", "firstAvailable": found}


@dataclass(frozen=True)
class Wants:
    """A Pod with a claim of these requests, and whether the scheduler places it; by version where they differ."""

    runs: bool | Mapping[str, bool]
    requests: Sequence[Spec] = ()
    constraints: Sequence[Spec] = ()
    node: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)


def cel(text: str) -> list[Spec]:
    return [{"cel": {"expression": text}}]


def one(count: int | None = 1, **fields: Any) -> list[Spec]:
    return [asks(count=count, **fields)]


ONE_OF_THREE = slice_("a-2", devices(1), of=3)
TAINT = {"key": "example.com/ill", "effect": "NoSchedule"}
TOLERATED: list[Spec] = [{"key": "example.com/ill", "operator": "Exists"}]
ILL: list[Spec] = [{"name": "d-0"}, {"name": "d-1", "taints": [TAINT]}]


def part(number: int, amount: str, set_: str = "card") -> Spec:
    uses = [{"counterSet": set_, "counters": {MEMORY: {"value": amount}}}]
    return {"name": f"d-{number}", "consumesCounters": uses}


CARD: Spec = {"sharedCounters": [{"name": "card", "counters": {MEMORY: {"value": "60Gi"}}}]}
SHARED: Spec = {"allowMultipleAllocations": True, "capacity": {MEMORY: {"value": "10Gi"}}}
SIX: Spec = {"capacity": {"requests": {MEMORY: "6Gi"}}}
MODEL = f'device.attributes["{GPU}"].model == "a"'


def of_model(name: str, **more: Any) -> Spec:
    return {"name": name, "attributes": {"model": {"string": "a"}}, **more}


def numa(name: str, place: int) -> Spec:
    return {"name": name, "attributes": {"numa": {"int": place}}}


PER_DEVICE = slice_(
    "fabric",
    [
        {"name": "d-0", "nodeName": "a-1"},
        {
            "name": "d-1",
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["one"]}]}
                ]
            },
        },
        {"name": "d-2", "allNodes": True},
    ],
    where={"perDeviceNodeSelection": True},
)
RACK_TWO: Spec = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["two"]}]}]
    }
}
SAME_NUMA: list[Spec] = [{"matchAttribute": f"{GPU}/numa"}]
OTHER_NUMA: list[Spec] = [{"distinctAttribute": f"{GPU}/numa"}]

NODE_OF = "resource.kubernetes.io/numaNode"
CAPACITY = f'device.capacity["{GPU}"].{MEMORY}'
NOT_RACK_TWO: Spec = {
    "nodeSelector": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "rack", "operator": "NotIn", "values": ["two", "three"]},
                    {"key": "rack", "operator": "Exists"},
                ]
            }
        ]
    }
}


def tolerating(**fields: Any) -> list[Spec]:
    return one(1, tolerations=[{"key": "example.com/ill", **fields}])


CASES: dict[str, tuple[Sequence[Spec], Sequence[Wants]]] = {
    "count": ([slice_(held=devices(2))], [Wants(True, one(2)), Wants(False, one(1))]),
    "too-many": ([slice_(held=devices(2))], [Wants(False, one(3))]),
    "all": ([slice_(held=devices(2)), slice_("a-2", devices(3))], [Wants(True, one(None), node="a-1")]),
    "all-and-one-in-use": (
        [slice_(held=devices(2))],
        [Wants(True, one(1)), Wants(False, one(None))],
    ),
    "one-beside-an-incomplete-pool": (
        [slice_(held=devices(2)), ONE_OF_THREE],
        [Wants(True, one(1)), Wants(False, one(1), node="a-2")],
    ),
    "all-beside-an-incomplete-pool": (
        [slice_(held=devices(2)), ONE_OF_THREE],
        [Wants(False, one(None)), Wants(True, one(None), node="a-1")],
    ),
    "all-beside-an-incomplete-pool-of-another-driver": (
        [slice_(held=devices(2)), slice_("a-1", devices(1), driver=NIC, of=2)],
        [Wants(False, one(None)), Wants(True, one(1))],
    ),
    "old-generation": (
        [slice_(held=devices(2)), slice_(held=[{"name": "new"}], generation=2)],
        [Wants(False, one(2)), Wants(True, one(None))],
    ),
    "newer-generation-incomplete": (
        [slice_(held=devices(2)), slice_(held=[{"name": "new"}], generation=2, of=2)],
        [Wants(False, one(1)), Wants(False, one(None))],
    ),
    "tainted": (
        [slice_(held=ILL)],
        [Wants(False, one(2)), Wants(False, one(None)), Wants(True, one(None, tolerations=TOLERATED))],
    ),
    "one-untainted": ([slice_(held=ILL)], [Wants(True, one(1)), Wants(False, one(1))]),
    "most-of-a-claim": (
        [slice_(held=devices(40))],
        [Wants(False, one(33)), Wants(False, one(None)), Wants(True, one(32))],
    ),
    "all-where-another-node-has-too-many": (
        [slice_(held=devices(2)), slice_("a-2", devices(33))],
        [Wants(False, one(None)), Wants(True, one(None), node="a-1")],
    ),
    "partitions": (
        [slice_(of=2, **CARD), slice_(held=[part(0, "40Gi"), part(1, "40Gi")], of=2)],
        [Wants(True, one(1)), Wants(False, one(1))],
    ),
    "a-counter-that-is-not-there": (
        [slice_(of=2, **CARD), slice_(held=[part(0, "40Gi", "other")], of=2), slice_("a-2", devices(1))],
        [
            Wants(False, one(1), node="a-1"),
            Wants(False, one(None)),  # Slices with counters were gathered for every node until 1.36.
            Wants({"1.36.3": False, "1.37.2": True}, one(None), node="a-2"),
        ],
    ),
    "two-devices-of-one-name": (
        [slice_(held=devices(1), of=2), slice_(held=devices(1), of=2)],
        [Wants(False, one(1)), Wants(False, one(None))],
    ),
    "shares": (
        [slice_(held=devices(1, **SHARED))],
        [Wants(True, one(1, **SIX)), Wants(False, one(1, **SIX))],
    ),
    "all-shares-and-one-without-room": (
        [slice_(held=devices(2, **SHARED))],
        [Wants(True, one(1, **SIX)), Wants({"1.36.3": True, "1.37.2": False}, one(None, **SIX))],
    ),
    "capacity-that-no-device-has": (
        [slice_(held=devices(2))],
        [Wants(False, one(1, capacity={"requests": {"other": "1"}})), Wants(True, one(1))],
    ),
    "a-selector-that-fails-on-another-node": (
        [slice_(held=[of_model("d-0"), of_model("d-1")]), slice_("a-2", devices(1))],
        [
            Wants(False, one(1, selectors=cel(MODEL))),
            Wants(False, one(None, selectors=cel(MODEL))),
            Wants(True, one(2, selectors=cel(MODEL)), node="a-1"),
        ],
    ),
    "a-selector-that-asks-first": (
        [slice_(held=[of_model("d-0")]), slice_("a-2", devices(1))],
        [Wants(True, one(1, selectors=cel(f'"model" in device.attributes["{GPU}"] && {MODEL}')))],
    ),
    "a-selector-of-a-version": (
        [slice_(held=[{"name": "d-0", "attributes": {"driver": {"version": "1.10.0"}}}])],
        [
            Wants(
                False,
                one(selectors=cel(f'device.attributes["{GPU}"].driver.compareTo(semver("1.9.0")) < 0')),
            ),
            Wants(
                True,
                one(selectors=cel(f'device.attributes["{GPU}"].driver.compareTo(semver("1.9.0")) > 0')),
            ),
        ],
    ),
    "admin-access": (
        [slice_(held=devices(1))],
        [
            Wants(True, one(1)),
            Wants(True, one(1, adminAccess=True)),
            Wants(True, one(None, adminAccess=True)),
            Wants(False, one(2, adminAccess=True)),
        ],
    ),
    "alternatives": (
        [slice_(held=devices(2))],
        [
            Wants(True, [either(asks(count=3), asks(count=2))]),
            Wants(False, [either(asks(count=2), asks(count=1))]),
        ],
    ),
    "alternatives-with-all-beside-an-incomplete-pool": (
        [slice_(held=devices(2)), ONE_OF_THREE],
        [Wants(False, [either(asks(count=1), asks(count=None))])],
    ),
    "the-same-value": (
        [slice_(held=[numa("d-0", 0), numa("d-1", 1), numa("d-2", 1)])],
        [
            Wants(False, one(3), SAME_NUMA),
            Wants(True, one(2), SAME_NUMA),
            Wants(False, one(2), OTHER_NUMA),
        ],
    ),
    "another-value": (
        [slice_(held=[numa("d-0", 0), numa("d-1", 1), numa("d-2", 1)])],
        [Wants(False, one(3), OTHER_NUMA), Wants(True, one(2), OTHER_NUMA)],
    ),
    "all-of-one-value": (
        [slice_(held=[numa("d-0", 1), numa("d-1", 1)]), slice_("a-2", [numa("d-0", 0), numa("d-1", 1)])],
        [Wants(False, one(None), SAME_NUMA), Wants(True, one(None), SAME_NUMA, node="a-1")],
    ),
    "a-pool-for-some-nodes": (
        [slice_("fabric", devices(1), where=RACK_TWO)],
        [Wants(False, one(1), node="a-1"), Wants(True, one(1), node="a-2")],
    ),
    "a-pool-for-all-nodes": (
        [slice_("fabric", devices(2), where={"allNodes": True})],
        [Wants(True, one(1), node="a-1"), Wants(True, one(1), node="a-2"), Wants(False, one(1))],
    ),
    "each-device-its-nodes": (
        [PER_DEVICE],
        [Wants(False, one(2), node="a-2"), Wants(True, one(3), node="a-1")],
    ),
    "the-implicit-name-of-a-class": (
        [slice_(held=devices(2))],
        [
            Wants(False, limits={"deviceclass.resource.kubernetes.io/gpu": "3"}),
            Wants(True, limits={"deviceclass.resource.kubernetes.io/gpu": "2"}),
        ],
    ),
    "all-partitions-and-too-small-a-counter": (
        [slice_(of=2, **CARD), slice_(held=[part(0, "40Gi"), part(1, "30Gi")], of=2)],
        [Wants(False, one(None)), Wants(True, one(1))],
    ),
    "all-partitions": (
        [slice_(of=2, **CARD), slice_(held=[part(0, "40Gi"), part(1, "20Gi")], of=2)],
        [Wants(True, one(None))],
    ),
    "admin-access-to-partitions-needs-their-counters": (
        [slice_(of=2, **CARD), slice_(held=[part(0, "40Gi"), part(1, "10Gi")], of=2)],
        [
            Wants(True, one(1)),
            Wants(False, one(None, adminAccess=True)),
            Wants(True, one(1, adminAccess=True)),
        ],
    ),
    "taints-and-what-tolerates-them": (
        [
            slice_(held=[{"name": "d-0", "taints": [{**TAINT, "effect": "NoExecute", "value": "x"}]}]),
            slice_("a-2", [{"name": "d-0", "taints": [{**TAINT, "effect": "None"}]}]),
        ],
        [
            Wants(True, one(1), node="a-2"),
            Wants(False, tolerating(operator="Equal", value="other"), node="a-1"),
            Wants(False, tolerating(operator="Exists", effect="NoSchedule"), node="a-1"),
            # Without the effect it is placed, and evicted at once.
            Wants(True, tolerating(operator="Equal", value="x", effect="NoExecute"), node="a-1"),
        ],
    ),
    "a-class-whose-selector-fails-on-another-driver-s-device": (
        [slice_(held=[of_model("d-0")]), slice_("a-2", devices(1), driver=NIC)],
        [Wants(False, one(class_="loose")), Wants(True, one(class_="loose"), node="a-1")],
    ),
    "an-alternative-whose-selector-fails": (
        [slice_(held=devices(2)), slice_("a-2", devices(2))],
        [Wants(False, [either(asks(selectors=cel(MODEL)), asks(count=1))]), Wants(True, one(1))],
    ),
    "a-selector-of-a-capacity": (
        [slice_(held=[{"name": "d-0", "capacity": {MEMORY: {"value": "40Gi"}}}])],
        [
            Wants(False, one(selectors=cel(f"{CAPACITY}.isGreaterThan(quantity('40Gi'))"))),
            Wants(True, one(selectors=cel(f"{CAPACITY}.compareTo(quantity('40Gi')) >= 0"))),
        ],
    ),
    "one-value-across-drivers": (
        [
            slice_(held=[{"name": "d-0", "attributes": {NODE_OF: {"int": 0}}}]),
            slice_("a-1", [{"name": "d-0", "attributes": {NODE_OF: {"int": 1}}}], driver=NIC),
            slice_("a-2", [{"name": "d-0", "attributes": {NODE_OF: {"int": 1}}}]),
            slice_("a-2", [{"name": "d-0", "attributes": {NODE_OF: {"int": 1}}}], driver=NIC),
        ],
        [
            Wants(False, [asks("g"), asks("net", "nic")], [{"matchAttribute": NODE_OF}], node="a-1"),
            Wants(True, [asks("g"), asks("net", "nic")], [{"matchAttribute": NODE_OF}]),
        ],
    ),
    "a-value-of-another-type": (
        [
            slice_(held=[{"name": "d-0", "attributes": {NODE_OF: {"int": 1}}}]),
            slice_("a-1", [{"name": "d-0", "attributes": {NODE_OF: {"string": "1"}}}], driver=NIC),
        ],
        [Wants(False, [asks("g"), asks("net", "nic")], [{"matchAttribute": NODE_OF}])],
    ),
    "a-pool-for-nodes-that-are-not-of-a-rack": (
        [slice_("fabric", devices(2), where=NOT_RACK_TWO)],
        [Wants(True, one(1), node="a-1"), Wants(False, one(1), node="a-2")],
    ),
    "counters-of-two-drivers-in-pools-of-one-name": (
        [
            slice_(of=2, **CARD),
            slice_(held=[part(0, "40Gi")], of=2),
            slice_(of=2, driver=NIC, **CARD),
            slice_(held=[part(0, "40Gi")], of=2, driver=NIC),
        ],
        [Wants(True, one(1)), Wants({"1.36.3": True, "1.37.2": True}, [asks(class_="nic")])],
    ),
    "no-such-class": ([slice_(held=devices(1))], [Wants(False, one(class_="none")), Wants(True, one())]),
}


@pytest.fixture
def clean(cluster: Cluster) -> Cluster:
    """The same cluster without Pods, claims and slices."""
    cluster.kubectl("delete", "pods,resourceclaims", "--all", "-n", SPACE, "--grace-period=1", "--wait=false")
    cluster.kubectl("delete", "resourceslices", "--all")
    wait_for(
        "Pods and claims gone",
        lambda: (
            not cluster.api.items("/apis/resource.k8s.io/v1/resourceclaims")
            and not cluster.api.items(f"/api/v1/namespaces/{SPACE}/pods")
        ),
    )
    return cluster


def documents(number: int, wants: Wants) -> list[dict[str, Any]]:
    name = f"p-{number}"
    place = {"nodeSelector": {"kubernetes.io/hostname": wants.node}} if wants.node else {}
    if wants.limits:
        return [dra.pod(SPACE, name, limits=wants.limits, **place)]
    claim = dra.claim(SPACE, name, "gpu")
    claim["spec"] = {"devices": {"requests": list(wants.requests), "constraints": list(wants.constraints)}}
    return [claim, dra.pod(SPACE, name, claims={"c": name}, **place)]


def decided(cluster: Cluster, name: str) -> bool:
    """Whether the scheduler placed the Pod, once it has spoken."""
    path = f"/api/v1/namespaces/{SPACE}/pods/{name}"

    def probe() -> str | None:
        found = cluster.api.get(path)
        if found["spec"].get("nodeName"):
            return "placed"
        conditions = found["status"].get("conditions", [])
        return (
            "refused"
            if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
            else None
        )

    return wait_for(f"the scheduler's word on {name}", probe) == "placed"


def publish(cluster: Cluster, slices: Sequence[Spec]) -> None:
    for number, spec in enumerate(slices):
        cluster.api.post(
            "/apis/resource.k8s.io/v1/resourceslices",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"s-{number}"},
                "spec": dict(spec),
            },
        )


def read(cluster: Cluster, folder: Path) -> Snapshot:
    output = folder / "snapshot.json"
    changegen("snapshot", "-o", output, kubeconfig=cluster.admin_kubeconfig)
    return store.read_record(str(output), Snapshot, schema=SCHEMA)[0]


@pytest.mark.parametrize("case", CASES)
def test_the_search_agrees_with_the_scheduler(clean: Cluster, case: str, tmp_path: Path) -> None:
    slices, wanted = CASES[case]
    publish(clean, slices)
    real = {}
    for number, wants in enumerate(wanted):
        clean.apply(*documents(number, wants))
        real[f"p-{number}"] = decided(clean, f"p-{number}")
    expected = {
        f"p-{number}": wants.runs if isinstance(wants.runs, bool) else wants.runs[clean.version]
        for number, wants in enumerate(wanted)
    }
    snapshot = read(clean, tmp_path)
    made = simulation_of(DeviceIndex(snapshot))
    said = {}
    for pod in snapshot.pods:
        if pod.namespace == SPACE:
            places = made.nodes_for(pod)
            said[pod.name] = pod.node in places if pod.node else bool(places)
    assert (real, said) == (expected, expected)


def test_a_claim_that_waits_for_binding_conditions(clean: Cluster, tmp_path: Path) -> None:
    slow = {
        "name": "d-0",
        "bindingConditions": ["example.com/Ready"],
        "bindingFailureConditions": ["example.com/Failed"],
    }
    publish(clean, [slice_(held=[slow])])
    clean.apply(*documents(0, Wants(True, one())))
    claim = dra.allocated(clean.api, SPACE, "p-0")
    snapshot = read(clean, tmp_path)
    pod = next(pod for pod in snapshot.pods if pod.name == "p-0")
    assert not pod.node
    ctx = Context(snapshot, Profile(name="test"), kubedata.load())
    causes = [cause.text for cause in pending_causes(ctx, pod)]
    assert causes == [
        f"claim {SPACE}/p-0 is allocated; the scheduler binds the Pod when {GPU} reports example.com/Ready of device a-1/d-0"
    ]
    result = claim["status"]["allocation"]["devices"]["results"][0]
    condition = {
        "type": "example.com/Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": claim["metadata"]["creationTimestamp"],
    }
    device = {key: result[key] for key in ("driver", "pool", "device")}
    claim["status"]["devices"] = [{**device, "conditions": [condition]}]
    clean.api.put(f"/apis/resource.k8s.io/v1/namespaces/{SPACE}/resourceclaims/p-0/status", claim)
    dra.running(clean.api, SPACE, "p-0")
