"""Which Pods and workloads a snapshot keeps, whose they are, and what a drain meets."""

from __future__ import annotations

import pytest

from changegen.model.snapshot import Autoscaler, PodUse, Snapshot, WorkloadRef
from tests.devices import MOUNTS, daemon_set, gpu_slice, listed, reading, slices


def pod(
    name: str,
    owner: str = "",
    spec: str = "containers: [{name: c, image: x}]",
    status: str = "phase: Running",
    labels: str = "{}",
    more: str = "",
) -> str:
    owners = f"\n  ownerReferences: [{{{owner}, controller: true}}]" if owner else ""
    return (
        f"metadata:\n  name: {name}\n  namespace: ml\n  labels: {labels}{owners}{more}\n"
        f"spec: {{nodeName: n1, {spec}}}\nstatus: {{{status}}}"
    )


GPU = "containers: [{name: c, image: x, resources: {limits: {example.com/gpu: 1}}}]"
REPLICA = "kind: ReplicaSet, name: app-5d4f"


def kept(snapshot: Snapshot) -> dict[str, PodUse]:
    return {p.name: p for p in snapshot.pods}


def test_a_pod_with_a_controller_and_no_devices_is_not_kept() -> None:
    found = kept(reading(listed("Pod", pod("a", REPLICA), pod("b", REPLICA, GPU), pod("bare"))))
    assert set(found) == {"b", "bare"}
    assert found["b"].uses_devices
    assert not found["bare"].uses_devices
    assert found["bare"].owner is None


@pytest.mark.parametrize(
    ("spec", "uses"),
    [
        ("containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi, hugepages-2Mi: 4Mi}}}]", False),
        ("containers: [{name: c, resources: {limits: {kubernetes.io/batch: 1}}}]", False),
        ("containers: [{name: c, resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 1}}}]", True),
        (
            "containers: [{name: c}], initContainers: [{name: i, resources: {limits: {example.com/nic: 1}}}]",
            True,
        ),
        ("containers: [{name: c}], resourceClaims: [{name: x, resourceClaimName: y}]", True),
    ],
)
def test_what_counts_as_using_devices(spec: str, uses: bool) -> None:
    assert kept(reading(listed("Pod", pod("p", spec=spec))))["p"].uses_devices is uses


def test_mirror_and_finished_pods_are_no_bare_ones() -> None:
    mirror = pod("etcd-n1", "kind: Node, name: n1")
    done = pod("job", status="phase: Succeeded")
    assert kept(reading(listed("Pod", mirror, done))) == {}


def test_the_owner_is_followed_through_the_replica_set() -> None:
    replica = "metadata: {name: app-5d4f, namespace: ml, ownerReferences: [{kind: Deployment, name: app, controller: true}]}"
    found = kept(
        reading(listed("Pod", pod("p", REPLICA, GPU)), listed("ReplicaSet", replica, version="apps/v1"))
    )["p"]
    assert found.owner is not None
    assert (found.owner.kind, found.owner.name) == ("Deployment", "app")
    assert found.owner_chain == ("ReplicaSet/app-5d4f", "Deployment/app")


def test_the_deployment_is_inferred_where_replica_sets_were_not_read() -> None:
    labels = "{pod-template-hash: 5d4f}"
    found = kept(reading(listed("Pod", pod("p", REPLICA, GPU, labels=labels))))["p"]
    assert found.owner is not None
    assert (found.owner.kind, found.owner.name) == ("Deployment", "app")
    assert "inferred" in found.owner_chain[-1]
    read = listed("ReplicaSet", "metadata: {name: app-5d4f, namespace: ml}", version="apps/v1")
    stands = kept(reading(listed("Pod", pod("p", REPLICA, GPU, labels=labels)), read))["p"]
    assert stands.owner is not None
    assert stands.owner.kind == "ReplicaSet"


def budget(name: str, selector: str, allowed: int = 0, observed: int = 1) -> str:
    return (
        f"metadata: {{name: {name}, namespace: ml, generation: 1}}\nspec: {{minAvailable: 1, selector: {selector}}}\n"
        f"status: {{disruptionsAllowed: {allowed}, observedGeneration: {observed}, currentHealthy: 1, desiredHealthy: 1}}"
    )


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("{matchLabels: {app: a}}", ("a",)),
        ("{}", ("a", "b")),
        ("null", ()),
        ("{matchExpressions: [{key: app, operator: In, values: [a, b]}]}", ("a", "b")),
        ("{matchExpressions: [{key: app, operator: NotIn, values: [a]}]}", ("b",)),
        ("{matchExpressions: [{key: team, operator: Exists}]}", ()),
        ("{matchExpressions: [{key: team, operator: DoesNotExist}]}", ("a", "b")),
    ],
)
def test_pods_of_a_budget(selector: str, names: tuple[str, ...]) -> None:
    pods = listed("Pod", pod("a", REPLICA, labels="{app: a}"), pod("b", REPLICA, labels="{app: b}"))
    found = reading(pods, listed("PodDisruptionBudget", budget("x", selector), version="policy/v1"))
    assert found.disruption_budgets[0].pods == names
    assert set(kept(found)) == set(names)


def test_a_budget_whose_status_lags() -> None:
    fresh = reading(listed("PodDisruptionBudget", budget("x", "{}"), version="policy/v1"))
    stale = reading(listed("PodDisruptionBudget", budget("x", "{}", observed=0), version="policy/v1"))
    assert fresh.disruption_budgets[0].observed
    assert not stale.disruption_budgets[0].observed


def test_autoscalers_with_what_their_controller_is_told() -> None:
    tuned = """
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 0
  maxReplicas: 5
  behavior: {scaleUp: {tolerance: "0"}, scaleDown: {tolerance: 50m}}
status: {currentReplicas: 2, desiredReplicas: 3}
"""
    plain = "metadata: {name: api, namespace: shop}\nspec: {scaleTargetRef: {kind: Tank, name: api}, maxReplicas: 2}"
    found = reading(listed("HorizontalPodAutoscaler", tuned, plain, version="autoscaling/v2")).autoscalers
    assert found == (
        Autoscaler(
            namespace="shop",
            name="api",
            target=WorkloadRef(kind="Tank", namespace="shop", name="api"),
            max_replicas=2,
            api_version="autoscaling/v2",
        ),
        Autoscaler(
            namespace="shop",
            name="web",
            target=WorkloadRef(kind="Deployment", namespace="shop", name="web"),
            min_replicas=0,
            max_replicas=5,
            current_replicas=2,
            desired_replicas=3,
            scale_up_tolerance="0",
            scale_down_tolerance="50m",
            api_version="autoscaling/v2",
        ),
    )


def test_claims_of_a_pod_made_named_and_by_the_scheduler() -> None:
    spec = (
        "containers: [{name: c, resources: {claims: [{name: t}], limits: {example.com/gpu: 1}}}], "
        "resourceClaims: [{name: t, resourceClaimTemplateName: tpl}, {name: d, resourceClaimName: direct}]"
    )
    status = (
        "phase: Running, resourceClaimStatuses: [{name: t, resourceClaimName: p-t-abc}], extendedResourceClaimStatus: "
        "{resourceClaimName: p-extended-resources-x, requestMappings: "
        "[{containerName: c, resourceName: example.com/gpu, requestName: container-0-request-0}]}"
    )
    found = kept(reading(listed("Pod", pod("p", spec=spec, status=status))))["p"]
    assert [(u.pod_claim, u.claim, u.template, u.containers) for u in found.claims] == [
        ("t", "p-t-abc", "tpl", ("c",)),
        ("d", "direct", "", ()),
        ("<extended-resources>", "p-extended-resources-x", "", ("c",)),
    ]
    assert found.extended_claim == "p-extended-resources-x"
    assert found.extended_mappings[0].resource == "example.com/gpu"


def test_device_health_of_containers() -> None:
    status = (
        "phase: Running, containerStatuses: [{name: c, restartCount: 2, allocatedResourcesStatus: "
        "[{name: example.com/gpu, resources: [{resourceID: g0, health: Unhealthy}]}]}]"
    )
    found = kept(reading(listed("Pod", pod("p", REPLICA, GPU, status))))["p"]
    assert [(h.device, h.health) for h in found.health] == [("g0", "Unhealthy")]
    assert found.restarts == 2


@pytest.mark.parametrize(
    ("name", "image", "more", "addon"),
    [
        ("coredns", "registry.example/coredns/coredns:v1.14.2", "", "coredns"),
        ("kube-proxy", "registry.example/kube-proxy:v1.36.3", "", "kube-proxy"),
        ("cilium", "quay.example/cilium/cilium:v1.18.0", "", "cni:cilium"),
        ("kube-flannel-ds", "docker.example/flannel/flannel:v0.27.0", "", "cni:flannel"),
        ("vendor-device-plugin", "registry.example/v:1.0.0", "", "device-plugin:vendor-device-plugin"),
        ("gpu-dra", "registry.example/gpu-dra-driver:v1.0.0", MOUNTS, "dra-driver:gpu.example.com"),
        ("web", "registry.example/web:1.0.0", "", ""),
    ],
)
def test_what_a_workload_is(name: str, image: str, more: str, addon: str) -> None:
    text = listed("DaemonSet", daemon_set(name, image=image, more=more), version="apps/v1")
    found = reading(text, slices(gpu_slice("n1")) if "dra" in name else slices())
    assert [w.addon for w in found.workloads] == ([addon] if addon else [])


def test_quotas_keep_what_counts_devices() -> None:
    text = (
        "metadata: {name: q, namespace: ml}\nstatus:\n  hard: {cpu: '10', requests.example.com/gpu: '4', "
        "gpu.deviceclass.resource.k8s.io/devices: '8', count/resourceclaims.resource.k8s.io: '5', requests.cpu: '3'}\n"
        "  used: {requests.example.com/gpu: '2', cpu: '1'}"
    )
    plain = "metadata: {name: plain, namespace: ml}\nstatus: {hard: {cpu: '10'}}"
    quota = reading(listed("ResourceQuota", text, plain)).quotas
    assert [q.name for q in quota] == ["q"]
    assert set(quota[0].hard) == {
        "requests.example.com/gpu",
        "gpu.deviceclass.resource.k8s.io/devices",
        "count/resourceclaims.resource.k8s.io",
    }
    assert quota[0].used == {"requests.example.com/gpu": "2"}


def test_nodes_behind_a_webhook() -> None:
    hook = (
        "metadata: {name: cfg}\nwebhooks:\n- name: w.example.com\n  failurePolicy: Fail\n"
        "  clientConfig: {service: {namespace: ml, name: hook}}\n"
        "  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods]}]"
    )
    service = "metadata: {name: hook, namespace: ml}\nspec: {selector: {app: hook}}"
    found = reading(
        listed("ValidatingWebhookConfiguration", hook, version="admissionregistration.k8s.io/v1"),
        listed("Service", service),
        listed("Pod", pod("h", REPLICA, labels="{app: hook}"), pod("o", REPLICA, labels="{app: other}")),
    ).webhooks[0]
    assert found.server_nodes == ("n1",)
    assert found.rules == ("core/v1/pods",)


def test_stored_objects_of_the_scheduling_group_by_version() -> None:
    item = "metadata: {name: g, namespace: ml}"
    found = reading(
        listed("PodGroup", item, version="scheduling.k8s.io/v1alpha2"), listed("Pod")
    ).stored_objects
    assert [(s.group_version, s.resource, s.names) for s in found] == [
        ("scheduling.k8s.io/v1alpha2", "podgroups", ("ml/g",))
    ]
