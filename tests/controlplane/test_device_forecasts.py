"""What changegen says of devices against what the real scheduler and taint controller then do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from changegen import kubedata, store
from changegen.assess.capacity import capacity_rows
from changegen.assess.context import Context
from changegen.assess.extended import migration, served
from changegen.assess.troubleshoot import pending_causes
from changegen.model.profile import Profile
from changegen.model.snapshot import SCHEMA, Snapshot, TaintRule
from changegen.taint import blast_radius, rule_yaml
from tests.controlplane import dra, kubeadm
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
GATES = dict.fromkeys(
    ("kube-apiserver", "kube-controller-manager", "kube-scheduler"), "DRADeviceTaintRules=true"
)
RESERVED = Node(name="gpu-3", taints=["example.com/only=true:NoSchedule"])


@pytest.fixture(scope="module", params=["1.36.3", "1.37.2"])
def cluster(request: pytest.FixtureRequest, start_cluster: Callable[[Plan], Cluster]) -> Cluster:
    """Two nodes of two devices, one of one device behind a taint, and one with a device plugin."""
    need(request.param)
    started = start_cluster(
        Plan(
            version=request.param,
            nodes=[
                control_plane("cp-1"),
                Node(name="gpu-1"),
                Node(name="gpu-2"),
                RESERVED,
                Node(name="plugin-1", devices={"example.com/old": "2"}),
            ],
            configuration=kubeadm.extra_args(
                {"kube-apiserver": {"runtime-config": "resource.k8s.io/v1beta2=true"}}, gates=GATES
            ),
            addons=False,
        )
    )
    driver = dra.Driver(started.api, DRIVER)
    for node, count in (("gpu-1", 2), ("gpu-2", 2), ("gpu-3", 1)):
        driver.publish(node, [dra.Device(name=f"gpu-{n}") for n in range(count)], node=node)
    started.apply(dra.device_class("gpu", driver.name, extended_resource=RESOURCE))
    return started


@pytest.fixture
def clean(cluster: Cluster) -> Cluster:
    """The same cluster without Pods and claims."""
    cluster.kubectl("delete", "deployments,pods", "--all", "--grace-period=1")
    cluster.kubectl("delete", "resourceclaims", "--all")
    wait_for("claims gone", lambda: not cluster.api.items("/apis/resource.k8s.io/v1/resourceclaims"))
    for node in ("gpu-1", "gpu-2"):
        cluster.kubectl("uncordon", node)
    return cluster


def read(cluster: Cluster, folder: Path) -> Snapshot:
    output = folder / "snapshot.json"
    changegen("snapshot", "-o", output, kubeconfig=cluster.admin_kubeconfig)
    return store.read_record(str(output), Snapshot, schema=SCHEMA)[0]


def about(snapshot: Snapshot) -> Context:
    return Context(snapshot, Profile(name="test"), kubedata.load())


def rule(effect: str) -> TaintRule:
    return TaintRule(
        name="maintenance",
        selector="some",
        driver=DRIVER,
        key="example.com/maintenance",
        effect=effect,
    )


def deployment(replicas: int) -> dict[str, object]:
    template = dra.pod("default", "train", limits={RESOURCE: "1"})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "train"}},
            "template": {"metadata": {"labels": {"app": "train"}}, "spec": template["spec"]},
        },
    }


def pods(cluster: Cluster, *, pending: bool = False) -> list[str]:
    found = cluster.api.items("/api/v1/namespaces/default/pods")
    return [
        pod["metadata"]["name"]
        for pod in found
        if "deletionTimestamp" not in pod["metadata"] and (not pending or "nodeName" not in pod["spec"])
    ]


def test_the_blast_radius_is_what_the_taint_controller_counts_and_then_evicts(
    clean: Cluster, tmp_path: Path
) -> None:
    exists = {"key": "example.com/maintenance", "operator": "Exists"}
    clean.apply(
        dra.claim("default", "plain", "gpu"),
        dra.claim("default", "spared", "gpu", tolerations=[{**exists, "effect": "NoExecute"}]),
        dra.claim("default", "wordless", "gpu", tolerations=[exists]),
        *(dra.pod("default", name, claims={"gpu": name}) for name in ("plain", "spared", "wordless")),
        dra.pod("default", "extended", limits={RESOURCE: "1"}),
    )
    for name in ("plain", "spared", "wordless", "extended"):
        dra.running(clean.api, "default", name)
    snapshot = read(clean, tmp_path)
    blast = blast_radius(snapshot, rule("None"))
    version = dra.taint_rule_version(clean.api)
    assert version is not None
    path = tmp_path / "rule.yaml"
    path.write_text(rule_yaml(blast.rule, snapshot), encoding="utf-8")
    assert f"resource.k8s.io/{version}\n" in path.read_text(encoding="utf-8")
    clean.kubectl("apply", "-f", str(path))
    said = dra.taint_rule_condition(clean.api, "maintenance", api_version=version, reason="NoEffect")[
        "message"
    ]
    # The only place where the controller's numbers are is its message; changegen itself reads none of it.
    numbers = [int(number) for number in re.findall(r"\d+", said)[:3]]
    assert numbers == [blast.published, blast.allocated, len(blast.evicted)]
    evicted = {pod.name for pod in blast.evicted}
    assert evicted == {"plain", "wordless"} | ({"extended"} if clean.version == "1.37.2" else set())
    path.write_text(rule_yaml(blast.rule, snapshot, "NoExecute"), encoding="utf-8")
    clean.kubectl("apply", "-f", str(path))
    wait_for("eviction", lambda: set(pods(clean)) == {"plain", "spared", "wordless", "extended"} - evicted)
    dra.taint_rule_condition(clean.api, "maintenance", api_version=version, reason="Completed")
    after = read(clean, tmp_path)
    assert blast_radius(after, after.taint_rules[0]).evicted == ()
    reasons = {(event.reason, event.name) for event in after.events}
    assert {name for reason, name in reasons if reason == "DeviceTaintManagerEviction"} == evicted
    clean.kubectl("delete", f"devicetaintrules.{version}.resource.k8s.io/maintenance")


def test_a_rule_without_a_selector(clean: Cluster, tmp_path: Path) -> None:
    clean.apply(dra.pod("default", "before", limits={RESOURCE: "1"}))
    dra.running(clean.api, "default", "before")
    snapshot = read(clean, tmp_path)
    planned = TaintRule(name="everywhere", selector="none", key="example.com/all", effect="NoExecute")
    blast = blast_radius(snapshot, planned)
    path = tmp_path / "rule.yaml"
    path.write_text(rule_yaml(planned, snapshot), encoding="utf-8")
    clean.kubectl("apply", "-f", str(path))
    version = dra.taint_rule_version(clean.api)
    assert version is not None
    said = dra.taint_rule_condition(clean.api, "everywhere", api_version=version)
    assert said["status"] == "False"
    clean.apply(dra.pod("default", "late", limits={RESOURCE: "1"}))
    if blast.scheduling_all:
        dra.unschedulable(clean.api, "default", "late")
    else:
        dra.running(clean.api, "default", "late")
    assert blast.scheduling_all is {"1.36.3": True, "1.37.2": False}[clean.version]
    assert blast.evicted == ()
    assert "before" in pods(clean)
    clean.kubectl("delete", f"devicetaintrules.{version}.resource.k8s.io/everywhere")


def test_a_node_out_leaves_pending_what_was_forecast(clean: Cluster, tmp_path: Path) -> None:
    clean.apply(deployment(3))
    wait_for("three running", lambda: len(pods(clean)) == 3 and not pods(clean, pending=True))
    snapshot = read(clean, tmp_path)
    rows = {row.node: row for row in capacity_rows(about(snapshot)) if row.resource == RESOURCE}
    full = max(rows.values(), key=lambda row: row.displaced)
    assert (full.displaced, full.free_elsewhere, full.pending) == (2, 1, 1)
    assert "gpu-3 behind node taint example.com/only=true:NoSchedule" in full.why
    clean.kubectl("cordon", full.node)
    gone = [pod.name for pod in snapshot.pods if pod.node == full.node and pod.uses_devices]
    clean.kubectl("delete", "pods", "--grace-period=1", *gone)

    def settled() -> bool:
        names = pods(clean)
        return (
            len(names) == 3 and not set(names) & set(gone) and len(pods(clean, pending=True)) == full.pending
        )

    wait_for("as many Pods Pending as forecast", settled)
    waiting = pods(clean, pending=True)[0]
    dra.unschedulable(clean.api, "default", waiting)
    after = read(clean, tmp_path)
    pod = next(pod for pod in after.pods if pod.name == waiting)
    causes = [cause.text for cause in pending_causes(about(after), pod)]
    assert len(causes) == 1
    assert full.node in causes[0]
    assert "cordoned" in causes[0]


def test_why_a_pod_that_wants_too_much_waits_and_who_serves_what(clean: Cluster, tmp_path: Path) -> None:
    clean.apply(
        dra.pod("default", "large", limits={RESOURCE: "3"}),
        dra.pod("default", "old", limits={"example.com/old": "1"}),
    )
    dra.unschedulable(clean.api, "default", "large")
    dra.running(clean.api, "default", "old")
    snapshot = read(clean, tmp_path)
    ctx = about(snapshot)
    large = next(pod for pod in snapshot.pods if pod.name == "large")
    assert [cause.text for cause in pending_causes(ctx, large)] == [
        f"it wants 3 of {RESOURCE}, no node has more than 2"
    ]
    rows = {row.resource: row for row in served(ctx)}
    assert rows[RESOURCE].by_node == dict.fromkeys(("gpu-1", "gpu-2", "gpu-3"), "dra")
    assert rows["example.com/old"].by_node == {"plugin-1": "device-plugin"}
    assert migration(ctx, RESOURCE).verdict in {"done", "cannot-tell"}
    assert migration(ctx, "example.com/old").verdict == "no-go"


def test_a_device_plugin_s_node_moves_to_dra_when_its_allocatable_goes(
    clean: Cluster, tmp_path: Path
) -> None:
    dra.Driver(clean.api, "old.example.com").publish("plugin-1", [dra.Device(name="old-0")], node="plugin-1")
    clean.apply(dra.device_class("old", "old.example.com", extended_resource="example.com/old"))
    clean.apply(dra.pod("default", "first", limits={"example.com/old": "1"}))
    first = dra.running(clean.api, "default", "first")
    assert "extendedResourceClaimStatus" not in first["status"]
    both = {row.resource: row for row in served(about(read(clean, tmp_path)))}["example.com/old"]
    assert both.by_node == {"plugin-1": "both"}
    clean.kubectl("delete", "deviceclass", "old")
    dra.Driver(clean.api, "old.example.com").withdraw()
