"""What the scheduler counts for a Pod, and what else of its spec decides where it may run."""

from __future__ import annotations

from typing import Any

import pytest

from changegen.model.snapshot import NodeRequirement, NodeTerm, PodUse, Snapshot
from changegen.redact import redact
from tests.devices import claims, listed, plain_node, reading, slices


def pod(spec: str, name: str = "p", on: str = "n1", phase: str = "Running") -> str:
    return f"metadata: {{name: {name}, namespace: ml}}\nspec:\n  nodeName: {on}\n{spec}\nstatus: {{phase: {phase}}}"


def read(*pods: str) -> Snapshot:
    return reading(listed("Pod", *pods), listed("Node", plain_node("n1"), plain_node("n2")))


def one(spec: str) -> PodUse:
    return read(pod(spec)).pods[0]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        (
            "  containers:\n  - {name: a, resources: {requests: {cpu: 500m, memory: 1Gi}}}\n  - {name: b, resources: {limits: {cpu: 1}}}",
            {"cpu": "1500m", "memory": "1073741824"},
        ),
        # An init container starts alone: the greatest counts, not the sum.
        (
            (
                "  initContainers:\n  - {name: i, resources: {requests: {cpu: 2}}}\n"
                "  containers:\n  - {name: a, resources: {requests: {cpu: 1}}}"
            ),
            {"cpu": "2"},
        ),
        # A sidecar stays: it is added to the containers, and to the init containers that start after it.
        (
            (
                "  initContainers:\n  - {name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}\n"
                "  - {name: i, resources: {requests: {cpu: 4}}}\n"
                "  containers:\n  - {name: a, resources: {requests: {cpu: 2}}}"
            ),
            {"cpu": "5"},
        ),
        # What the Pod as a whole asks for replaces the sum of its containers, overhead comes on top.
        (
            (
                "  resources: {requests: {cpu: 3}}\n  overhead: {cpu: 250m}\n"
                "  containers:\n  - {name: a, resources: {requests: {cpu: 1, memory: 1Ki}}}"
            ),
            {"cpu": "3250m", "memory": "1024"},
        ),
        # Devices of an init container are used again by the containers.
        (
            (
                "  initContainers:\n  - {name: i, resources: {limits: {example.com/gpu: 2}}}\n"
                "  containers:\n  - {name: a, resources: {limits: {example.com/gpu: 1}}}"
            ),
            {"example.com/gpu": "2"},
        ),
        ("  containers:\n  - {name: a}", {}),
    ],
)
def test_what_a_pod_requests(spec: str, counted: dict[str, str]) -> None:
    assert one(spec).requests == counted


def test_a_node_s_pods_are_summed_without_extended_resources_and_without_finished_ones() -> None:
    gpu = "  containers:\n  - {name: a, resources: {requests: {cpu: 1, example.com/gpu: 1}, limits: {example.com/gpu: 1}}}"
    plain = "  containers:\n  - {name: a, resources: {requests: {cpu: 250m}}}"
    snapshot = read(pod(gpu, "a"), pod(plain, "b"), pod(plain, "c", phase="Succeeded"), pod(plain, "d", "n2"))
    assert {node.name: node.requested for node in snapshot.nodes} == {
        "n1": {"cpu": "1250m"},
        "n2": {"cpu": "250m"},
    }
    assert [node.requested for node in reading(listed("Node", plain_node("n1"))).nodes] == [None]


AFFINITY = """  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: soft, operator: Exists}]}}
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: pool, operator: In, values: [secret-pool]}]
        - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}
  containers:
  - {name: a}"""


def test_only_what_is_required_counts() -> None:
    found = one(AFFINITY)
    assert found.required_nodes == (
        NodeTerm(labels=(NodeRequirement(key="pool", operator="In", values=("secret-pool",)),)),
        NodeTerm(fields=(NodeRequirement(key="metadata.name", operator="In", values=("n1",)),)),
    )
    assert found.other_constraints == ()


def test_what_is_not_kept_in_detail_is_named() -> None:
    found = one(
        "  schedulerName: batch\n  schedulingGates: [{name: x}]\n"
        "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]\n"
        "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}\n"
        "  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n"
        "  containers:\n  - {name: a, ports: [{containerPort: 80, hostPort: 80}]}"
    )
    assert found.other_constraints == (
        "pod anti-affinity",
        "topology spread",
        "host ports",
        "volume claims",
        "scheduling gates",
        "scheduler batch",
    )
    soft = one(
        "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]\n"
        "  schedulerName: default-scheduler\n  containers:\n  - {name: a, ports: [{containerPort: 80}]}"
    )
    assert soft.other_constraints == ()


def test_pseudonyms_of_node_affinity_are_those_of_the_labels() -> None:
    snapshot = reading(
        listed("Pod", pod(AFFINITY)),
        listed("Node", "metadata: {name: n1, labels: {pool: secret-pool}}\nspec: {}\nstatus: {}"),
    )
    shared, _ = redact(snapshot)
    values = {
        value for term in shared.pods[0].required_nodes for need in term.labels for value in need.values
    }
    assert values == {shared.nodes[0].labels["pool"]}
    assert "secret-pool" not in str(shared)


def test_capacity_that_is_shared_by_amounts() -> None:
    policies: Any = reading(
        slices(
            "metadata: {name: s}\nspec:\n  driver: nic.example.com\n  nodeName: n1\n"
            "  pool: {name: n1, generation: 1, resourceSliceCount: 1}\n  devices:\n"
            "  - name: nic-0\n    allowMultipleAllocations: true\n    capacity:\n"
            "      bandwidth: {value: 10G, requestPolicy: {default: 1G, validRange: {min: 1G, max: 8G, step: 1G}}}\n"
            "      slots: {value: 4, requestPolicy: {default: 1, validValues: [1, 2, 4]}}\n"
        ),
        claims(
            "metadata: {name: c, namespace: ml}\nspec:\n  devices:\n    requests:\n    - name: r\n"
            "      exactly: {deviceClassName: nic, capacity: {requests: {bandwidth: 2G}}}\n"
            "status:\n  allocation:\n    devices:\n      results:\n"
            "      - {request: r, driver: nic.example.com, pool: n1, device: nic-0, consumedCapacity: {bandwidth: 2G}}\n"
        ),
    )
    device = policies.pools[0].devices[0]
    band = device.capacity_policies["nic.example.com/bandwidth"]
    assert (band.default, band.minimum, band.maximum, band.step, band.values) == ("1G", "1G", "8G", "1G", ())
    assert device.capacity_policies["nic.example.com/slots"].values == ("1", "2", "4")
    assert policies.claims[0].requests[0].capacity == {"bandwidth": "2G"}
    assert policies.claims[0].devices[0].consumed == {"bandwidth": "2G"}
