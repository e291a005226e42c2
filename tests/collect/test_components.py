"""Instances: what is asked for and what is proven, whose they are, and where their gates come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changegen.collect import build_snapshot
from changegen.collect.documents import Document
from changegen.model.snapshot import Component, Snapshot
from tests.collect.build import apiserver, config_map, container, node, pod, records, workload


def one(snapshot: Snapshot, component: str = "kube-apiserver") -> Component:
    found = [item for item in snapshot.components if item.component == component]
    assert len(found) == 1
    return found[0]


def read(*objects: dict[str, Any], version: str = "") -> Snapshot:
    return build_snapshot(records(*objects, version=version))


def status(**fields: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "kube-apiserver", "ready": False, "restartCount": 7, **fields}]}


def test_a_running_container_proves_its_version() -> None:
    item = one(read(apiserver()))
    assert (item.version, item.running_version) == ("v1.36.3", "v1.36.3")
    assert item.state is not None
    assert item.state.state == "running"


def test_a_pod_without_container_statuses_asks_and_proves_nothing() -> None:
    item = one(read(apiserver(running=False)))
    assert (item.version, item.running_version, item.state) == ("v1.36.3", None, None)
    assert item.phase == "Pending"


def test_a_crash_loop_has_phase_running_and_proves_nothing() -> None:
    state = {
        "image": "registry.example/kube-apiserver:v1.36.3",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {
            "terminated": {"exitCode": 1, "reason": "Error", "message": "unrecognized feature gate: X"}
        },
    }
    item = one(read(apiserver(status=status(**state))))
    assert item.phase == "Running"
    assert item.running_version is None
    assert item.ready is False
    assert item.state is not None
    assert (item.state.state, item.state.restarts, item.state.exit_code) == ("waiting:CrashLoopBackOff", 7, 1)


def test_the_old_version_may_still_run_while_the_new_one_is_asked_for() -> None:
    state = {
        "image": "registry.example/kube-apiserver:v1.35.4",
        "state": {"running": {"startedAt": "2026-11-30T00:00:00Z"}},
    }
    item = one(read(apiserver(status=status(**state))))
    assert (item.version, item.running_version) == ("v1.36.3", "v1.35.4")


DIGEST = "sha256:" + "a" * 64


def test_a_tag_with_the_digest_that_runs_proves_the_tag() -> None:
    image = f"registry.example/kube-apiserver:v1.36.3@{DIGEST}"
    state = {
        "image": DIGEST,
        "imageID": f"registry.example/kube-apiserver@{DIGEST}",
        "state": {"running": {}},
    }
    item = one(read(apiserver(image=image, status=status(**state))))
    assert (item.version, item.running_version) == ("v1.36.3", "v1.36.3")


def test_a_digest_alone_takes_the_tag_of_the_status() -> None:
    state = {"image": "registry.example/kube-apiserver:v1.36.3", "state": {"running": {}}}
    item = one(read(apiserver(image=f"registry.example/kube-apiserver@{DIGEST}", status=status(**state))))
    assert item.version == "v1.36.3"
    assert "status" in item.version_source


@pytest.mark.parametrize("tag", ["latest", "0123456789abcdef0123456789abcdef", "stable", "v1.36"])
def test_a_tag_that_is_no_version_is_unobservable(tag: str) -> None:
    item = one(read(apiserver(image=f"registry.example:5000/kube-apiserver:{tag}")))
    assert item.version == "unobservable"
    assert item.running_version is None


def test_version_speaks_for_apiservers_of_one_image_that_says_nothing() -> None:
    image = f"registry.example/x@{DIGEST}"
    pods = [apiserver(f"kube-apiserver-n{n}", image=image, node=f"n{n}") for n in (1, 2)]
    found = [item for item in read(*pods, version="v1.36.3").components if item.component == "kube-apiserver"]
    assert {item.version for item in found} == {"v1.36.3"}
    mixed = [pods[0], apiserver("kube-apiserver-n2", image=f"registry.example/x@{DIGEST[:-1]}b", node="n2")]
    found = [
        item for item in read(*mixed, version="v1.36.3").components if item.component == "kube-apiserver"
    ]
    assert {item.version for item in found} == {"unobservable"}


def test_version_never_overrides_what_an_image_says() -> None:
    item = one(read(apiserver(), version="v1.37.2"))
    assert item.version == "v1.36.3"


def test_the_node_is_the_specs_and_never_taken_from_a_name() -> None:
    item = one(read(apiserver("anything-at-all", node="cp1.k8s.example.com")))
    assert item.node == "cp1.k8s.example.com"
    assert item.manifest == ""
    no_node = apiserver("kube-apiserver-x", node="cp-9", spec={"nodeName": None})
    no_node["spec"].pop("nodeName")
    assert one(read(no_node)).node == "cp-9"


KUBELET = config_map(
    "kubelet-config",
    {
        "kubelet": "kind: KubeletConfiguration\nstaticPodPath: /srv/manifests\nfeatureGates: {A: true, B: false}\n"
    },
)
KUBEADM = config_map(
    "kubeadm-config",
    {
        "ClusterConfiguration": (
            "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nclusterName: prod\n"
            "apiServer: {extraArgs: {feature-gates: 'A=true,B=false'}}\n"
        )
    },
)


def test_a_manifests_folder_is_the_kubelets() -> None:
    item = one(read(apiserver("odd-name-n1"), KUBELET, KUBEADM))
    assert item.manifest == "/srv/manifests/odd-name.yaml"


def test_several_sources_are_kept_and_the_command_line_comes_first() -> None:
    item = one(read(apiserver("a-n1", "--feature-gates=A=true"), KUBEADM))
    assert item.feature_gates == {"A": True}
    assert [(source.provenance, source.gates) for source in item.gate_sources] == [
        ("pod spec", {"A": True}),
        ("configmap", {"A": True, "B": False}),
    ]


def test_kubelet_gates_by_configz_before_kubelet_config() -> None:
    configz = Document(
        api_version="",
        kind="KubeletConfigz",
        place="configz.json",
        subject="n1",
        data={"kubeletconfig": {"featureGates": {"C": True}}},
    )
    snapshot = build_snapshot([*records(node("n1"), node("n2"), KUBELET), configz])
    first, second = (item for item in snapshot.components if item.component == "kubelet")
    assert (first.feature_gates, first.gates_certainty) == ({"C": True}, "effective")
    assert [source.provenance for source in first.gate_sources] == ["configz", "configmap"]
    assert (second.feature_gates, second.gates_certainty) == ({"A": True, "B": False}, "intended")


def test_the_kubelets_guess_of_kube_proxys_version_is_never_used() -> None:
    assert "v9" not in str(read(node("n1")))


PROXY = pod(
    "kube-proxy-abcde",
    labels={"k8s-app": "kube-proxy"},
    metadata={
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "kube-proxy", "controller": True}
        ]
    },
    containers=[
        container(
            "kube-proxy",
            "registry.example/kube-proxy:v1.36.3",
            ["kube-proxy", "--config=/cfg/settings.yaml", "--feature-gates=X=true"],
            volumeMounts=[{"name": "c", "mountPath": "/cfg"}],
        )
    ],
    spec={"volumes": [{"name": "c", "configMap": {"name": "kube-proxy-settings"}}]},
)
PROXY_CONFIG = config_map(
    "kube-proxy-settings",
    {"settings.yaml": "kind: KubeProxyConfiguration\nfeatureGates: {Y: true}\nmode: nftables\n"},
)


def test_kube_proxys_file_holds_its_gates_and_its_flag_is_ignored() -> None:
    snapshot = read(PROXY, PROXY_CONFIG)
    item = one(snapshot, "kube-proxy")
    assert (item.feature_gates, item.gates_certainty) == ({"Y": True}, "intended")
    assert item.gate_sources[1].gates == {"X": True}
    assert item.kind == "daemonset pod"
    assert snapshot.config_maps[0].settings == {"mode": "nftables"}


def test_kube_proxys_file_that_is_not_there_leaves_its_gates_unobservable() -> None:
    item = one(read(PROXY), "kube-proxy")
    assert item.feature_gates == "unobservable"
    assert "/cfg/settings.yaml" in item.feature_gates_source


def test_a_workload_counts_only_without_its_pods() -> None:
    daemon_set = workload("DaemonSet", "kube-proxy", PROXY)
    assert one(read(daemon_set, PROXY), "kube-proxy").instance == "kube-system/kube-proxy-abcde"
    item = one(read(daemon_set), "kube-proxy")
    assert (item.instance, item.node, item.kind) == ("kube-system/kube-proxy", None, "workload")


def test_other_programs_with_feature_gates_are_no_components() -> None:
    others = [
        pod(
            "csi-provisioner-0",
            labels={"component": "csi"},
            containers=[
                container("csi-provisioner", "x:v1.0.0", ["csi-provisioner", "--feature-gates=Topology=true"])
            ],
        ),
        pod(
            "etcd-backup",
            labels={"component": "etcd"},
            containers=[
                container("backup", "registry.example/etcd:3.6.8-0", ["etcdctl", "snapshot", "save", "/x"])
            ],
        ),
        pod("etcd-0", namespace="shop", containers=[container("etcd", "etcd:v3.5.0", ["etcd", "--name=x"])]),
        pod("watcher", containers=[container("kube-rbac-proxy", "x/kube-rbac-proxy:v0.18.0")]),
    ]
    assert read(*others).components == ()


def test_a_foreign_apiserver_is_hosted_by_its_namespace() -> None:
    foreign = pod(
        "api-0",
        namespace="team",
        containers=[container("main", "x/kube-apiserver:v1.30.0", ["kube-apiserver"])],
    )
    snapshot = read(foreign)
    assert one(snapshot).belongs_to == "hosted:team"
    assert snapshot.cluster.hosted == ("hosted:team",)


def test_a_component_by_label_alone() -> None:
    item = one(
        read(
            pod(
                "x",
                labels={"k8s-app": "kube-scheduler"},
                containers=[
                    container("main", "registry.example/custom:v1.36.3", args=["--feature-gates=A=true"])
                ],
            )
        ),
        "kube-scheduler",
    )
    assert item.feature_gates == {"A": True}


def test_an_unknown_wrapper_leaves_silence_unobservable() -> None:
    silent = pod(
        "x",
        labels={"component": "kube-scheduler"},
        containers=[container("kube-scheduler", "x:v1.36.3", ["/start.sh"])],
    )
    assert one(read(silent), "kube-scheduler").feature_gates == "unobservable"


def test_values_that_cannot_be_read_are_problems_with_the_raw_text() -> None:
    item = one(read(apiserver("a-n1", '--feature-gates="A=true"')))
    assert item.feature_gates == "unobservable"
    assert item.gate_sources[0].flag_values == ('"A=true"',)
    assert item.gate_problems
    assert '"A=true"' in item.feature_gates_source


def test_emulation_and_runtime_config_are_kept_beside_the_gates() -> None:
    item = one(
        read(
            apiserver(
                "a-n1",
                "--emulated-version=1.35",
                "--min-compatibility-version=1.34",
                "--runtime-config=resource.k8s.io/v1beta2=true",
                "--runtime-config=api/alpha=false",
            )
        )
    )
    assert (item.emulated_version, item.min_compatibility_version) == ("1.35", "1.34")
    assert item.runtime_config == ("resource.k8s.io/v1beta2=true", "api/alpha=false")


def test_effective_gates_go_to_the_only_instance_and_to_none_of_several() -> None:
    from changegen.collect.documents import RawText

    text = RawText(
        place="metrics.txt",
        role="metrics",
        component="kube-apiserver",
        text='kubernetes_feature_enabled{name="A",stage="BETA"} 1\n',
    )
    alone = build_snapshot([*records(apiserver()), text])
    assert one(alone).effective_gates == {"A": True}
    pair = build_snapshot([*records(apiserver(), apiserver("kube-apiserver-n2", node="n2")), text])
    assert {str(item.effective_gates) for item in pair.components} == {"None"}


def test_versions_that_a_process_emulates_are_its_own_where_its_flags_were_not_read() -> None:
    from changegen.collect.documents import RawText

    rows = 'kubernetes_feature_enabled{name="A",stage="BETA"} 1\n'

    def emulating(emulated: str, minimum: str, *objects: Any) -> Component:
        told = f'version_info{{binary="1.37.2",component="kube",emulation="{emulated}",min_compat="{minimum}"}} 1\n'
        text = RawText(place="metrics.txt", role="metrics", component="kube-apiserver", text=rows + told)
        return one(build_snapshot([*records(*objects), text]))

    wrapped = container("kube-apiserver", "x:v1.37.2", ["/start.sh"])
    hidden = pod("x", labels={"component": "kube-apiserver"}, containers=[wrapped])
    found = emulating("1.36", "1.35", hidden)
    assert not found.flags_observable
    assert (found.emulated_version, found.min_compatibility_version) == ("1.36", None)
    found = emulating("1.37", "1.37", hidden)
    assert (found.emulated_version, found.min_compatibility_version) == (None, "1.37")
    found = emulating("1.37", "1.36", hidden)
    assert (found.emulated_version, found.min_compatibility_version) == (None, None)
    assert emulating("1.36", "1.35", apiserver()).emulated_version is None


def test_k3s_disables_components_and_repeats_flags() -> None:
    args = json.dumps(
        [
            "server",
            "--disable-scheduler",
            "--kube-apiserver-arg=feature-gates=A=true",
            "--kube-apiserver-arg",
            "feature-gates=B=false",
            "--token",
            "S3CRET",
            "--datastore-endpoint",
            "postgres://user:pass@host/db",
        ]
    )
    snapshot = read(node("s1", "v1.36.3+k3s1", annotations={"k3s.io/node-args": args}))
    assert {item.component for item in snapshot.components} == {
        "kube-apiserver",
        "kube-controller-manager",
        "kubelet",
    }
    assert one(snapshot).feature_gates == {"A": True, "B": False}
    assert "S3CRET" not in str(snapshot)
    assert "postgres" not in str(snapshot)


def test_one_odd_pod_hides_no_other() -> None:
    odd = apiserver("kube-apiserver-n2", node="n2")
    odd["spec"]["containers"] = "none"
    snapshot = read(apiserver(), odd)
    assert one(snapshot).node == "n1"
    failed = [item for item in snapshot.unobserved if item.failed]
    assert [(item.what, item.reason) for item in failed] == [("pods", "malformed")]
    assert "pods" in snapshot.kinds_read


@pytest.mark.parametrize(
    "field", ["containers", "initContainers", "volumes", "tolerations", "resourceClaims"]
)
def test_nulls_stand_for_empty_lists(field: str) -> None:
    item = apiserver()
    item["spec"][field] = None
    item["status"]["conditions"] = None
    item["metadata"]["labels"] = None
    assert not [gap for gap in read(item).unobserved if gap.failed]


def test_k0s_gates_come_from_its_cluster_configuration() -> None:
    settings = {
        "apiVersion": "k0s.k0sproject.io/v1beta1",
        "kind": "ClusterConfig",
        "metadata": {"name": "k0s", "namespace": "kube-system"},
        "spec": {
            "featureGates": [
                {"name": "A", "enabled": True},
                {"name": "B", "enabled": False, "components": ["kube-scheduler"]},
            ]
        },
    }
    snapshot = read(settings, node("n1", "v1.36.3+k0s"), version="v1.36.3+k0s")
    assert one(snapshot).feature_gates == {"A": True}
    assert one(snapshot, "kube-scheduler").feature_gates == {"A": True, "B": False}
    assert one(snapshot, "kube-scheduler").version == "unobservable"
    assert one(snapshot, "kubelet").feature_gates == {"A": True}
    assert {item.gates_certainty for item in snapshot.components} == {"intended"}


def test_a_shoot_is_a_second_source_of_its_control_plane() -> None:
    shoot = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"name": "demo", "namespace": "garden-proj"},
        "spec": {"kubernetes": {"version": "1.36.3", "kubeAPIServer": {"featureGates": {"A": False}}}},
    }
    server = pod(
        "kube-apiserver-x",
        namespace="shoot--proj--demo",
        labels={"app": "kubernetes", "role": "apiserver"},
        containers=[container("kube-apiserver", "x:v1.36.3", ["kube-apiserver", "--feature-gates=A=true"])],
    )
    item = one(read(shoot, server))
    assert item.belongs_to == "gardener:shoot--proj--demo"
    assert [(source.provenance, source.gates) for source in item.gate_sources] == [
        ("pod spec", {"A": True}),
        ("custom resource", {"A": False}),
    ]


def test_of_several_containers_the_one_of_its_name_is_the_component() -> None:
    etcd = pod(
        "etcd-m0",
        namespace="openshift-etcd",
        mirror=True,
        labels={"app": "etcd"},
        containers=[
            container("etcdctl", f"x@{DIGEST}", ["/bin/bash", "-c", "trap TERM INT; sleep infinity & wait"]),
            container("etcd-metrics", f"x@{DIGEST}", ["/bin/sh", "-c", "exec etcd grpc-proxy start --x=y"]),
            container("etcd", f"x@{DIGEST}", ["/bin/sh", "-c", "exec nice -n -19 etcd --data-dir=/d"]),
        ],
    )
    item = one(read(etcd), "etcd")
    assert item.container == "etcd"
    assert [fact.name for fact in item.flags] == ["data-dir"]


def test_etcds_environment_is_not_read_and_not_forgotten() -> None:
    env = [{"name": "ETCD_FEATURE_GATES", "value": "SECRET=true"}]
    etcd = pod(
        "etcd-n1",
        mirror=True,
        labels={"component": "etcd"},
        containers=[container("etcd", "x/etcd:3.6.8-0", ["etcd"], env=env)],
    )
    snapshot = read(etcd)
    assert one(snapshot, "etcd").feature_gates == "unobservable"
    assert "SECRET" not in str(snapshot)


def test_an_evicted_pod_is_no_instance() -> None:
    evicted = json.loads(json.dumps(PROXY))
    evicted["metadata"].update(name="kube-proxy-old", uid="other")
    evicted["status"] = {"phase": "Failed", "reason": "Evicted"}
    assert one(read(PROXY, evicted, PROXY_CONFIG), "kube-proxy").instance == "kube-system/kube-proxy-abcde"
