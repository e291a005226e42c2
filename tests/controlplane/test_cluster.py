from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import build, dra, kubeadm
from tests.controlplane.client import Api, ApiError
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane, gate_answer
from tests.controlplane.conftest import need
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.process import ComponentError, wait_for


def test_nodes_report_what_they_were_started_with(small_cluster: Cluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in small_cluster.api.items("/api/v1/nodes")}
    assert set(nodes) == {"cp-1", "gpu-1", "old-gpu-1"}
    for node in nodes.values():
        assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{small_cluster.version}"
    assert nodes["gpu-1"]["metadata"]["labels"]["example.com/accelerator"] == "gpu"
    assert nodes["old-gpu-1"]["status"]["allocatable"]["example.com/legacy-gpu"] == "4"
    assert {"key": "example.com/gpu-only", "value": "true", "effect": "NoSchedule"} in nodes["old-gpu-1"][
        "spec"
    ]["taints"]
    assert "node-role.kubernetes.io/control-plane" in nodes["cp-1"]["metadata"]["labels"]


def test_mirror_pods_are_the_manifests_of_kubeadm(small_cluster: Cluster) -> None:
    for component in CONTROL_PLANE:
        pod = small_cluster.api.get(f"/api/v1/namespaces/kube-system/pods/{component}-cp-1")
        assert "kubernetes.io/config.mirror" in pod["metadata"]["annotations"]
        assert pod["spec"]["containers"][0]["command"][0] == component
    apiserver = small_cluster.manifest("cp-1", "kube-apiserver")["spec"]["containers"][0]
    assert apiserver["image"].endswith(f":v{small_cluster.version}")


def test_kubelets_answer_over_tls_and_authorise(small_cluster: Cluster, tmp_path: Path) -> None:
    path = "/api/v1/nodes/old-gpu-1/proxy/configz"
    assert small_cluster.api.get(path)["kubeletconfig"]["featureGates"] == {"ResourceHealthStatus": True}
    assert "kubernetes_feature_enabled" in small_cluster.api.text("/api/v1/nodes/old-gpu-1/proxy/metrics")
    nobody = Api(small_cluster.user_kubeconfig("nobody"))
    with pytest.raises(ApiError) as refused:
        nobody.get(path)
    assert refused.value.code == 403


def test_kubeadm_left_its_configuration(small_cluster: Cluster) -> None:
    maps = {
        item["metadata"]["name"]
        for item in small_cluster.api.items("/api/v1/namespaces/kube-system/configmaps")
    }
    assert {"kubeadm-config", "kubelet-config", "kube-proxy", "coredns"} <= maps


def test_audit_log_names_users_and_verbs(small_cluster: Cluster) -> None:
    reader = Api(small_cluster.user_kubeconfig("auditor-of-tests", ["kubeadm:cluster-admins"]))
    reader.get("/api/v1/namespaces")

    def written() -> list[tuple[str, str]]:
        events = small_cluster.audit_events("auditor-of-tests")
        return [(event["verb"], event["requestURI"]) for event in events]

    wait_for("audit events", written)
    assert written() == [("list", "/api/v1/namespaces")]


def test_service_account_token_has_its_rights_only(small_cluster: Cluster) -> None:
    small_cluster.kubectl("create", "serviceaccount", "reader")
    small_cluster.kubectl("create", "clusterrole", "reader", "--verb=list", "--resource=nodes")
    small_cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader"
    )
    api = Api(small_cluster.service_account_kubeconfig("default", "reader"))
    assert len(api.items("/api/v1/nodes")) == 3
    with pytest.raises(ApiError) as refused:
        api.items("/api/v1/secrets")
    assert refused.value.code == 403


def test_pods_use_the_plugins_devices(small_cluster: Cluster) -> None:
    tolerations = [{"key": "example.com/gpu-only", "operator": "Exists"}]
    limits = {"example.com/legacy-gpu": "2"}
    small_cluster.apply(dra.pod("default", "legacy", limits=limits, tolerations=tolerations))
    pod = dra.running(small_cluster.api, "default", "legacy")
    assert pod["spec"]["nodeName"] == "old-gpu-1"


def test_claims_are_allocated_from_published_slices(small_cluster: Cluster) -> None:
    api = small_cluster.api
    driver = dra.Driver(api, "net.example.com")
    nics = [dra.Device(name=f"nic-{number}", attributes={"rdma": number > 1}) for number in range(4)]
    assert driver.publish("gpu-1", nics, node="gpu-1", slices=2) == 1
    assert driver.publish("gpu-1", nics, node="gpu-1", slices=2) == 2
    assert [slice_["spec"]["pool"]["generation"] for slice_ in driver.slices("gpu-1")] == [2, 2]
    rdma = [{"cel": {"expression": 'device.attributes["net.example.com"].rdma'}}]
    small_cluster.apply(
        dra.device_class("net.example.com", driver.name),
        dra.claim("default", "nic", "net.example.com", selectors=rdma),
        dra.pod("default", "net-app", claims={"nic": "nic"}),
    )
    result = dra.allocated(api, "default", "nic")["status"]["allocation"]["devices"]["results"][0]
    assert result["device"] in {"nic-2", "nic-3"}
    dra.running(api, "default", "net-app")
    reported = driver.report_status("default", "nic", network={"interfaceName": "eth1"})
    assert reported["status"]["devices"][0]["networkData"] == {"interfaceName": "eth1"}


def test_scheduler_makes_the_claim_of_an_extended_resource(small_cluster: Cluster) -> None:
    if small_cluster.version.startswith(("1.34.", "1.35.")):
        pytest.skip("DRAExtendedResource is off by default before 1.36")
    api = small_cluster.api
    driver = dra.Driver(api, "gpu.example.com")
    driver.publish("gpu-1", [dra.Device(name="gpu-0"), dra.Device(name="gpu-1")], node="gpu-1")
    small_cluster.apply(
        dra.device_class("gpu.example.com", driver.name, extended_resource="example.com/gpu"),
        dra.pod("default", "train", limits={"example.com/gpu": "1"}),
        dra.pod("default", "too-big", limits={"example.com/gpu": "5"}),
    )
    claim = dra.extended_resource_claim(api, "default", "train")
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
    assert dra.running(api, "default", "train")["spec"]["nodeName"] == "gpu-1"
    assert "cannot allocate all claims" in dra.unschedulable(api, "default", "too-big")


@pytest.mark.parametrize("version", build.cluster_versions())
def test_components_say_whether_they_take_a_gate(version: str) -> None:
    need(version)
    removed = version.startswith("1.37.")
    for component in ("kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy"):
        binaries = build.binary_dir(version)
        assert gate_answer(binaries, component, "NodeSwap=true")[0]
        accepted, words = gate_answer(binaries, component, "SidecarContainers=true")
        assert accepted is not removed, words
        assert not gate_answer(binaries, component, "NoSuchGate=true")[0]


def test_a_refused_gate_stops_the_real_apiserver(start_cluster: Callable[[Plan], Cluster]) -> None:
    need("1.37.2")
    plan = Plan(
        version="1.37.2",
        nodes=[control_plane("cp-1")],
        configuration=kubeadm.extra_args(gates={"kube-apiserver": "SidecarContainers=true"}),
    )
    with pytest.raises(ComponentError, match="unrecognized feature gate: SidecarContainers") as stopped:
        start_cluster(plan)
    assert stopped.value.exit_code == 1


def test_processes_end_with_the_run_that_started_them(tmp_path: Path) -> None:
    version = next((v for v in reversed(build.cluster_versions()) if build.is_built(v)), None)
    if version is None:
        need(build.cluster_versions()[-1])
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.controlplane.cluster import *\n"
        f"plan = Plan(version={version!r}, nodes=[control_plane('cp-1')], addons=False)\n"
        "with Cluster(plan, Path(sys.argv[1])) as cluster:\n"
        "    print(*[process.pid for process in cluster.processes.values()], flush=True)\n"
        "    time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    with (
        # A killed run cannot remove its kubelets' folders.
        tempfile.TemporaryDirectory(prefix="cp-", ignore_cleanup_errors=True) as short,
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "cluster")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root), "TMPDIR": short},
        ) as run,
    ):
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert len(pids) == 5
        run.kill()
        wait_for("the end of all servers", lambda: not any(_alive(pid) for pid in pids), 15)


def test_a_developer_gets_a_cluster_and_its_end(tmp_path: Path) -> None:
    version = build.cluster_versions()[-1]
    need(version)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.controlplane", "up", "--version", version),
            *("--control-planes", "1", "--workers", "1", "--root", str(tmp_path / "cluster")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
    ) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline(), run.stdout.readline(), "kubectl get nodes -o name\n"]
        asked = subprocess.run(["/bin/sh", "-c", "".join(lines)], capture_output=True, text=True, check=True)
        assert asked.stdout.split() == ["node/cp-1", "node/worker-1"]
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 0
    after = subprocess.run(["/bin/sh", "-c", "".join(lines)], capture_output=True, text=True, check=False)
    assert after.returncode != 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "(controlplane)" in Path(f"/proc/{pid}/stat").read_text() if Path("/proc").exists() else True


def test_etcd_members_and_apiservers_run_on_several_nodes(start_cluster: Callable[[Plan], Cluster]) -> None:
    version = build.cluster_versions()[-1]
    need(version)
    names = ["cp-1", "cp-2", "cp-3"]
    cluster = start_cluster(
        Plan(
            version=version,
            nodes=[
                control_plane("cp-1"),
                control_plane(
                    "cp-2", configuration=kubeadm.extra_args(gates={"kube-scheduler": "NodeSwap=true"})
                ),
                control_plane("cp-3"),
                Node(name="worker-1"),
            ],
            running={"etcd": names, "kube-apiserver": ["cp-1", "cp-2"]},
        )
    )
    assert len(cluster.etcdctl("member", "list").splitlines()) == 3
    second = Api(cluster.node_dir("cp-2") / "etc" / "kubernetes" / "admin.conf")
    commands = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["command"]
        for pod in second.items("/api/v1/namespaces/kube-system/pods?labelSelector=component=kube-scheduler")
    }
    assert "--feature-gates=NodeSwap=true" in commands["kube-scheduler-cp-2"]
    assert "--feature-gates=NodeSwap=true" not in commands["kube-scheduler-cp-3"]
    started = time.monotonic()
    cluster.stop_instance("etcd", "cp-3")
    cluster.kubectl("create", "namespace", "with-two-members")
    cluster.start_instance("etcd", "cp-3")
    assert time.monotonic() - started < 60
