from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import build
from tests.controlplane.client import Api, ApiError
from tests.controlplane.cluster import Cluster, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.faults import EXPIRED, TOO_MANY, Fault, FaultProxy, Request, continued
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen, with_exec_credential

NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[[Plan], Cluster]) -> Cluster:
    version = build.cluster_versions()[-1]
    need(version)
    return start_cluster(Plan(version=version, nodes=[control_plane("cp-1")], addons=False))


def test_proxy_is_the_apiserver_until_told_otherwise(cluster: Cluster) -> None:
    with FaultProxy(cluster) as proxy:
        api = Api(proxy.kubeconfig())
        assert [node["metadata"]["name"] for node in api.items(NODES)] == ["cp-1"]
        assert (
            cluster.run(
                cluster.binaries() / "kubectl",
                "--kubeconfig",
                proxy.kubeconfig(),
                "get",
                "nodes",
                "-o",
                "name",
            ).stdout
            == "node/cp-1\n"
        )
        proxy.on(NODES, TOO_MANY)
        with pytest.raises(ApiError) as refused:
            api.items(NODES)
        assert refused.value.code == 429
        assert len(api.items(NODES)) == 1
        assert [request.path for request in proxy.requests].count(NODES) == 4


def test_proxy_expires_a_continued_listing(cluster: Cluster) -> None:
    with FaultProxy(cluster) as proxy:
        api = Api(proxy.kubeconfig())
        proxy.on(continued("clusterroles"), EXPIRED)
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=5"
        token = api.get(path)["metadata"]["continue"]
        with pytest.raises(ApiError) as expired:
            api.get(f"{path}&continue={token}")
        assert expired.value.code == 410


def test_proxy_delays_and_cuts(cluster: Cluster) -> None:
    with FaultProxy(cluster) as proxy:
        slow = Api(proxy.kubeconfig(), timeout=1)
        proxy.on(NODES, Fault(delay=3))
        with pytest.raises(TimeoutError):
            slow.items(NODES)
        proxy.on(NODES, Fault(cut=100))
        with pytest.raises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
            Api(proxy.kubeconfig()).items(NODES)


def test_proxy_restarts_the_apiserver_in_the_middle(cluster: Cluster) -> None:
    with FaultProxy(cluster) as proxy:
        api = Api(proxy.kubeconfig(), timeout=120)
        proxy.on(NODES, Fault(before=lambda: cluster.restart_instance("kube-apiserver", "cp-1")))
        assert len(api.items(NODES)) == 1


def test_client_certificate_expires(cluster: Cluster) -> None:
    brief = cluster.user_kubeconfig("brief", ["kubeadm:cluster-admins"], valid="1s")
    time.sleep(1.5)

    def refused() -> bool:
        try:
            Api(brief).items(NODES)
        except ApiError as error:
            return error.code == 401
        except ssl.SSLError:
            return True
        return False

    wait_for("refusal of the expired certificate", refused, 10)


def test_printed_commands_run_as_on_a_node(cluster: Cluster) -> None:
    done = cluster.shell(
        "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt"
        " --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt"
        " --key=/etc/kubernetes/pki/etcd/healthcheck-client.key endpoint health",
        node="cp-1",
    )
    assert "is healthy" in done.stdout + done.stderr
    assert cluster.shell("kubectl get --raw /readyz").stdout == "ok"
    assert cluster.shell("kubeadm version -o short").stdout.strip() == f"v{cluster.version}"


# What a user of changegen sees of all this


def read(tmp_path: Path, *arguments: str | Path, kubeconfig: Path, expect: int) -> tuple[str, dict[str, Any]]:
    """Run ``changegen snapshot``; returns what it said and the snapshot (empty where none was written)."""
    output = tmp_path / "snapshot.json"
    output.unlink(missing_ok=True)
    done = changegen("snapshot", "-o", output, *arguments, kubeconfig=kubeconfig, expect=expect)
    assert "Traceback" not in done.stderr
    return done.stderr, json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}


def gaps(snapshot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {gap["what"]: gap for gap in snapshot["unobserved"] if gap["failed"]}


def listed(resource: str) -> Callable[[Request], bool]:
    return lambda request: request.path.rpartition("/")[2] == resource


@pytest.fixture(scope="module")
def whole(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The reading that nothing disturbs."""
    return read(tmp_path_factory.mktemp("whole"), kubeconfig=cluster.admin_kubeconfig, expect=0)[1]


def same(snapshot: dict[str, Any], whole: dict[str, Any]) -> None:
    for part in ("components", "nodes", "workloads", "driver_rights", "kinds_read"):
        assert snapshot[part] == whole[part], part
    assert snapshot["unobserved"] == whole["unobserved"]


def test_a_listing_outlives_a_restart_of_the_apiserver(
    cluster: Cluster, whole: dict[str, Any], tmp_path: Path
) -> None:
    with FaultProxy(cluster) as proxy:
        proxy.on(NODES, Fault(before=lambda: cluster.restart_instance("kube-apiserver", "cp-1")))
        done = changegen(
            *("snapshot", "-o", tmp_path / "snapshot.json", "--request-timeout=120s"),
            kubeconfig=proxy.kubeconfig(),
            expect=None,
        )
    snapshot = json.loads((tmp_path / "snapshot.json").read_text(encoding="utf-8"))
    assert [node["name"] for node in snapshot["nodes"]] == ["cp-1"]
    # What was asked for while nothing listened is named; nothing is taken for empty.
    missing = set(whole["kinds_read"]) - set(snapshot["kinds_read"])
    assert done.returncode == (4 if gaps(snapshot) else 0)
    assert bool(missing) <= bool(gaps(snapshot))


def test_an_expired_listing_starts_again(cluster: Cluster, whole: dict[str, Any], tmp_path: Path) -> None:
    count = len(cluster.api.items("/api/v1/events"))
    for number in range(max(0, 520 - count)):
        cluster.api.post(
            "/api/v1/namespaces/default/events",
            {
                "metadata": {"name": f"filler-{number}"},
                "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"},
                "reason": "Filler",
                "type": "Normal",
            },
        )
    with FaultProxy(cluster) as proxy:
        proxy.on(continued("events"), EXPIRED)
        _, snapshot = read(tmp_path, kubeconfig=proxy.kubeconfig(), expect=0)
        pages = [request for request in proxy.requests if request.path == "/api/v1/events"]
    assert ["continue" in request.query for request in pages] == [False, True, False, True]
    same(snapshot, whole)


def test_a_busy_server_is_waited_for(cluster: Cluster, whole: dict[str, Any], tmp_path: Path) -> None:
    with FaultProxy(cluster) as proxy:
        proxy.on(NODES, TOO_MANY, times=2)
        _, snapshot = read(tmp_path, kubeconfig=proxy.kubeconfig(), expect=0)
        assert [request.path for request in proxy.requests].count(NODES) == 3
    same(snapshot, whole)


def test_a_server_that_stays_busy_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with FaultProxy(cluster) as proxy:
        busy = Fault(status=429, reason="TooManyRequests", headers={"Retry-After": "0"})
        proxy.on(NODES, busy, times=99)
        said, snapshot = read(tmp_path, kubeconfig=proxy.kubeconfig(), expect=4)
        assert [request.path for request in proxy.requests].count(NODES) == 5
    assert "nodes" in gaps(snapshot)
    assert "nodes" in said
    assert "nodes" not in snapshot["kinds_read"]


def test_a_slow_server_meets_the_time_limit(cluster: Cluster, tmp_path: Path) -> None:
    with FaultProxy(cluster) as proxy:
        proxy.on(listed("daemonsets"), Fault(delay=5), times=9)
        kubeconfig = proxy.kubeconfig()
        started = time.monotonic()
        _, snapshot = read(tmp_path, "--request-timeout=1s", kubeconfig=kubeconfig, expect=4)
        assert time.monotonic() - started < 5
        assert "--request-timeout" in gaps(snapshot)["daemonsets.apps"]["detail"]
        read(tmp_path, "--request-timeout=1s", "--allow-partial", kubeconfig=kubeconfig, expect=0)


def test_an_answer_that_is_cut_off_is_no_answer(cluster: Cluster, tmp_path: Path) -> None:
    with FaultProxy(cluster) as proxy:
        proxy.on(listed("pods"), Fault(cut=200), times=9)
        _, snapshot = read(tmp_path, kubeconfig=proxy.kubeconfig(), expect=4)
    assert "pods" in gaps(snapshot)
    assert "pods" not in snapshot["kinds_read"]


def test_an_expired_certificate_is_said_plainly(cluster: Cluster, tmp_path: Path) -> None:
    brief = cluster.user_kubeconfig("brief-reader", ["kubeadm:cluster-admins"], valid="1s")
    time.sleep(2)
    said, snapshot = read(tmp_path, kubeconfig=brief, expect=1)
    assert snapshot == {}
    assert "certificate" in said
    assert "expired" in said


def test_a_credential_plugin_that_fails_is_named(cluster: Cluster, tmp_path: Path) -> None:
    failing = with_exec_credential(cluster.kubeconfig, "sh", "-c", "echo 'log in first' >&2; exit 3")
    said, snapshot = read(tmp_path, kubeconfig=failing, expect=1)
    assert snapshot == {}
    assert "credential plugin sh" in said
    missing = with_exec_credential(cluster.kubeconfig, "no-such-credential-plugin")
    said, _ = read(tmp_path, kubeconfig=missing, expect=1)
    assert "no-such-credential-plugin" in said
    assert "not installed" in said


def test_a_credential_plugin_that_works_is_used(
    cluster: Cluster, whole: dict[str, Any], tmp_path: Path
) -> None:
    cluster.kubectl("create", "serviceaccount", "plugin-user")
    cluster.kubectl(
        *("create", "clusterrolebinding", "plugin-user", "--clusterrole=cluster-admin"),
        "--serviceaccount=default:plugin-user",
    )
    token = cluster.kubectl("create", "token", "plugin-user").strip()
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    (tmp_path / "credential.json").write_text(json.dumps(credential), encoding="utf-8")
    working = with_exec_credential(cluster.kubeconfig, "cat", str(tmp_path / "credential.json"))
    said, snapshot = read(tmp_path, kubeconfig=working, expect=0)
    assert {node["name"] for node in snapshot["nodes"]} == {"cp-1"}
    assert token not in said + json.dumps(snapshot)


def test_an_aggregated_api_that_is_down_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    name = "v1.down.example.com"
    cluster.apply(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name},
            "spec": {
                "group": "down.example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"name": "nowhere", "namespace": "default"},
            },
        }
    )
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}"
    try:
        wait_for(
            "the condition of the API", lambda: cluster.api.get(path).get("status", {}).get("conditions")
        )
        # Everything else is read as ever.
        _, snapshot = read(tmp_path, kubeconfig=cluster.admin_kubeconfig, expect=0)
        down = {service["name"] for service in snapshot["api_services"] if service["available"] is False}
        assert down == {name}
        audit = changegen(
            *("ticket", tmp_path / "snapshot.json", "--to", cluster.version, "-f", "json"), expect=None
        )
        named = [finding for finding in json.loads(audit.stdout)["findings"] if name in json.dumps(finding)]
        assert named
    finally:
        cluster.api.delete(path)
