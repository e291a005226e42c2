from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable

import pytest

from tests.controlplane import build
from tests.controlplane.client import Api, ApiError
from tests.controlplane.cluster import Cluster, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.faults import EXPIRED, TOO_MANY, Fault, FaultProxy, continued
from tests.controlplane.process import wait_for

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
