"""Control planes inside one program, and kubelets of OpenShift by their MachineConfig."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any
from urllib.parse import quote

import pytest

from changegen.collect import build_snapshot
from changegen.collect.machineconfigs import CURRENT_CONFIG
from changegen.model.snapshot import Component, Snapshot
from tests.collect.build import container, node, pod, records

# ---------------------------------------------------------------------------------------------------------- OpenShift

CONFIG = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nfeatureGates:\n  MemoryManager: true\n  Other: false\n"


def machine_config(
    name: str, *contents: dict[str, Any], path: str = "/etc/kubernetes/kubelet.conf"
) -> dict[str, Any]:
    pull_secret = {"path": "/var/lib/kubelet/config.json", "contents": {"source": "data:,sekret-77"}}
    files = [pull_secret, *({"path": path, "contents": found} for found in contents)]
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files}}},
    }


def plain(text: str) -> dict[str, Any]:
    return {"source": f"data:,{quote(text)}"}


def packed(text: str) -> dict[str, Any]:
    data = base64.b64encode(gzip.compress(text.encode())).decode()
    return {"source": f"data:;base64,{data}", "compression": "gzip"}


def coded(text: str) -> dict[str, Any]:
    return {"source": f"data:text/plain;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"}


def worker(config: str = "rendered-worker-a", desired: str = "rendered-worker-b") -> dict[str, Any]:
    desired_key = CURRENT_CONFIG.replace("current", "desired")
    return node("w-1", "v1.33.4", annotations={CURRENT_CONFIG: config, desired_key: desired})


def kubelet(snapshot: Snapshot) -> Component:
    (found,) = [c for c in snapshot.components if c.component == "kubelet"]
    return found


@pytest.mark.parametrize("form", [plain, packed, coded])
def test_a_kubelet_has_the_gates_of_the_machine_config_that_its_node_is_on(form: Any) -> None:
    other = CONFIG.replace("MemoryManager", "NewGate")
    snapshot = build_snapshot(
        records(
            worker(),
            machine_config("rendered-worker-a", form(CONFIG)),
            machine_config("rendered-worker-b", form(other)),
        )
    )
    found = kubelet(snapshot)
    assert found.feature_gates == {"MemoryManager": True, "Other": False}
    assert found.gates_certainty == "intended"
    assert found.feature_gates_source == "MachineConfig rendered-worker-a /etc/kubernetes/kubelet.conf"
    assert "sekret" not in repr(snapshot)
    moved = build_snapshot(
        records(worker("rendered-worker-b"), machine_config("rendered-worker-b", form(other)))
    )
    assert kubelet(moved).feature_gates == {"NewGate": True, "Other": False}


def test_a_machine_config_that_is_not_there_is_named() -> None:
    found = kubelet(build_snapshot(records(worker(), machine_config("rendered-worker-b", plain(CONFIG)))))
    assert found.feature_gates == "unobservable"
    assert found.feature_gates_source.endswith("or MachineConfig rendered-worker-a")
    none = kubelet(build_snapshot(records(worker(), machine_config("rendered-worker-a"))))
    assert none.feature_gates == "unobservable"
    unset = kubelet(
        build_snapshot(records(worker(), machine_config("rendered-worker-a", plain("kind: X\n"))))
    )
    assert unset.feature_gates == {}


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"source": 7},
        {"source": "https://example.com/kubelet.conf"},
        {"source": "data:;base64,%%%"},
        {"source": "data:;base64,AAAA", "compression": "gzip"},
        {"source": "data:,%5B1%5D"},
        {"source": "data:,a%3A%20%5B"},
        {"source": "data:," + "a" * (5 * 2**20)},
        {
            "source": "data:;base64," + base64.b64encode(gzip.compress(bytes(2**22))).decode(),
            "compression": "gzip",
        },
    ],
)
def test_a_broken_kubelet_file_is_a_gap_and_no_default(contents: dict[str, Any]) -> None:
    snapshot = build_snapshot(records(worker(), machine_config("rendered-worker-a", contents)))
    assert kubelet(snapshot).feature_gates == "unobservable"
    (gap,) = [u for u in snapshot.unobserved if u.what.startswith("MachineConfig ")]
    assert gap.reason == "malformed"


def test_configz_goes_before_the_machine_config() -> None:
    from changegen.collect.documents import KUBELET_CONFIGZ, Document

    configz = Document(
        api_version="",
        kind=KUBELET_CONFIGZ,
        place="configz",
        data={"featureGates": {"MemoryManager": False}},
        subject="w-1",
    )
    found = [*records(worker(), machine_config("rendered-worker-a", plain(CONFIG))), configz]
    assert kubelet(build_snapshot(found)).feature_gates == {"MemoryManager": False}


# ----------------------------------------------------------------------------------------------- vcluster, k0smotron


def hosted(snapshot: Snapshot, owner: str) -> dict[str, Component]:
    return {c.component: c for c in snapshot.components if c.belongs_to == owner}


def k3s_pod(*more: str, tag: str = "v1.29.4-k3s1") -> dict[str, Any]:
    """As the chart of vcluster before 0.20 makes it."""
    script = " ".join(
        ["/bin/k3s", "server", "--write-kubeconfig=/data/k3s-config/kube-config.yaml", *more, "&& true"]
    )
    return pod(
        "dev-0",
        namespace="team-x",
        labels={"app": "vcluster", "release": "dev"},
        containers=[
            container("vcluster", f"registry.example/rancher/k3s:{tag}", ["/bin/sh"], args=["-c", script]),
            container("syncer", "registry.example/loftsh/vcluster:0.19.0"),
        ],
    )


def test_vcluster_with_k3s_in_a_container_of_its_own() -> None:
    made = k3s_pod(
        "--disable-scheduler",
        "--kube-apiserver-arg=feature-gates=DRAAdminAccess=true",
        "--kube-apiserver-arg=endpoint-reconciler-type=none",
        "--kube-controller-manager-arg=controllers=*,-nodeipam",
    )
    found = hosted(build_snapshot(records(made)), "vcluster:team-x/dev")
    assert set(found) == {"kube-apiserver", "kube-controller-manager"}
    server = found["kube-apiserver"]
    assert (server.version, server.running_version) == ("v1.29.4+k3s1", "v1.29.4+k3s1")
    assert server.feature_gates == {"DRAAdminAccess": True}
    # k3s sets more by itself: silence is no default.
    assert found["kube-controller-manager"].feature_gates == "unobservable"
    assert not server.gate_sources[0].complete

    other = build_snapshot(records(k3s_pod("--kube-scheduler-arg=feature-gates=A=false", tag="v1.31.2-k3s1")))
    found = hosted(other, "vcluster:team-x/dev")
    assert found["kube-scheduler"].feature_gates == {"A": False}
    assert {c.version for c in found.values()} == {"v1.31.2+k3s1"}


def test_vcluster_with_the_binary_of_k3s_from_an_init_container() -> None:
    made = pod(
        "dev-0",
        namespace="team-x",
        labels={"app": "vcluster", "release": "dev"},
        containers=[container("syncer", "registry.example/loft-sh/vcluster-pro:0.20.0")],
        spec={"initContainers": [container("vcluster", "registry.example/rancher/k3s:v1.30.2-k3s1")]},
    )
    found = hosted(build_snapshot(records(made)), "vcluster:team-x/dev")
    assert found["kube-apiserver"].version == "v1.30.2+k3s1"
    assert found["kube-apiserver"].running_version is None
    assert found["kube-apiserver"].feature_gates == "unobservable"
    assert "Secret" in found["kube-apiserver"].feature_gates_source


def test_k0smotron() -> None:
    made = pod(
        "kmc-edge-0",
        namespace="k0s-edge",
        labels={"app": "k0smotron", "cluster": "edge", "component": "control-plane"},
        containers=[
            container(
                "controller",
                "registry.example/k0sproject/k0s:v1.33.1-k0s.0",
                args=["/k0smotron-entrypoint.sh"],
            )
        ],
    )
    etcd = pod(
        "kmc-edge-etcd-0",
        namespace="k0s-edge",
        labels={"app": "k0smotron", "cluster": "edge", "component": "etcd"},
        containers=[container("etcd", "registry.example/k0sproject/etcd:v3.5.13", ["etcd", "--name=x"])],
    )
    snapshot = build_snapshot(records(made, etcd))
    found = hosted(snapshot, "k0smotron:k0s-edge/edge")
    assert set(found) == {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
    assert found["kube-apiserver"].version == "v1.33.1+k0s"
    assert found["kube-apiserver"].feature_gates == "unobservable"
    assert found["etcd"].version == "v3.5.13"
    assert [e.distribution for e in snapshot.cluster.distribution_evidence] == ["k0smotron"]
    made["metadata"]["labels"]["app"] = "mine"
    assert not hosted(build_snapshot(records(made)), "k0smotron:k0s-edge/edge")
    assert json.dumps(snapshot.cluster.name) == '""'
