"""Findings on configuration files: how grave, what they say, and where to mend it."""

from __future__ import annotations

from typing import Any

import msgspec

from changegen.assess import assess
from changegen.configs import shape_of
from changegen.kubedata import KubernetesData
from changegen.model.snapshot import ConfigMapFact, GateSource, Snapshot
from changegen.model.ticket import Finding
from tests.assess.build import DATA, cluster, kubelet, of, pod, profile, proxy, run

KUBELET = "ConfigMap kube-system/kubelet-config kubelet"
PROXY = "ConfigMap kube-system/kube-proxy config.conf"


def source(place: str) -> GateSource:
    return GateSource(provenance="configmap", place=place, certainty="intended")


def file(component: str, content: dict[str, Any], *twice: str, version: str = "") -> ConfigMapFact:
    name, kind, usual = {
        "kubelet": ("kubelet-config", "KubeletConfiguration", "kubelet.config.k8s.io/v1beta1"),
        "kube-proxy": ("kube-proxy", "KubeProxyConfiguration", "kubeproxy.config.k8s.io/v1alpha1"),
        "kube-scheduler": ("mine", "KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1"),
    }[component]
    places = {"kubelet": KUBELET, "kube-proxy": PROXY}
    return ConfigMapFact(
        namespace="kube-system",
        name=name,
        kind=component,  # type: ignore[arg-type]
        api_version=version or usual,
        component_gates={component: source(places[component])} if component in places else {},
        document=shape_of({"kind": kind, **content}, twice),
    )


def kubelets(*files: ConfigMapFact, version: str = "v1.36.3", used: bool = True) -> Snapshot:
    one = kubelet("n1", version, {}, "configmap" if used else "configz")
    return cluster(pod("kube-apiserver", version=version), one, config_maps=files)


def found(snapshot: Snapshot, code: str, to: str = "1.37.2") -> list[Finding]:
    return of(run(snapshot, profile(to)), code)


def test_a_file_that_stops_the_kubelet_blocks_with_its_words_and_where_to_mend_it() -> None:
    (refused,) = found(kubelets(file("kubelet", {"maxPods": "many"})), "CG-CONFIG-001")
    assert refused.severity == "blocking"
    assert refused.preexisting
    assert "maxPods is string, where int32 is read" in refused.message
    assert "`json: cannot unmarshal string …`" in refused.message
    assert "kube-system/kubelet-config (kubelet)" in refused.advice
    assert "/var/lib/kubelet/config.yaml" in refused.advice
    assert refused.evidence[0].path == "kubelet: maxPods"
    (loose,) = found(kubelets(file("kubelet", {"maxPods": "many"}), used=False), "CG-CONFIG-001")
    assert loose.severity == "warning"
    assert "No instance was seen to use it." in loose.message


def test_an_api_version_that_is_not_read_blocks_kube_proxy() -> None:
    def snapshot(version: str) -> Snapshot:
        one = proxy(config_file="/var/lib/kube-proxy/config.conf", gate_sources=(source(PROXY),))
        maps = (file("kube-proxy", {"mode": "nftables"}, version=version),)
        return cluster(pod("kube-apiserver"), one, config_maps=maps)

    (refused,) = found(snapshot("kubeproxy.config.k8s.io/v9"), "CG-CONFIG-001")
    assert refused.severity == "blocking"
    assert 'no kind "KubeProxyConfiguration" is registered for version' in refused.message
    assert "kube-system/kube-proxy (config.conf)" in refused.advice
    assert not found(snapshot("kubeproxy.config.k8s.io/v1alpha1"), "CG-CONFIG-001")


def test_a_field_that_nobody_knows_is_info_and_its_likely_name_is_told() -> None:
    (dropped,) = found(kubelets(file("kubelet", {"maxpods": 5})), "CG-CONFIG-002")
    assert (dropped.severity, dropped.preexisting) == ("info", True)
    assert "maxpods may mean maxPods." in dropped.message


def without(data: KubernetesData, minor: str, component: str, field: str) -> KubernetesData:
    """The data as if a minor did not know a field."""
    files = []
    for known in data.minors:
        one = data.minor(known)
        if known == minor:
            config = one.configs[component]
            versions = {
                version: {path: typ for path, typ in fields.items() if path != field}
                for version, fields in config.versions.items()
            }
            changed = msgspec.structs.replace(config, versions=versions)
            one = msgspec.structs.replace(one, configs={**one.configs, component: changed})
        files.append(one)
    return KubernetesData(files, data.skew, "changed")


def test_a_field_that_goes_on_the_way_is_a_warning_and_an_unread_file_is_told_of_it() -> None:
    # No field has gone from 1.34 to 1.37, so this is what a later release may do.
    data = without(DATA, "1.37", "kubelet", "maxPods")

    def judged(snapshot: Snapshot, code: str) -> list[Finding]:
        return of(assess(snapshot, profile("1.37.2"), data), code)

    (dropped,) = judged(kubelets(file("kubelet", {"maxPods": 5})), "CG-CONFIG-002")
    assert (dropped.severity, dropped.preexisting) == ("warning", False)
    assert "1.37 no longer knows" in dropped.message
    assert not judged(kubelets(file("kubelet", {"maxPods": 5})), "CG-CONFIG-005")
    (unseen,) = judged(kubelets(), "CG-CONFIG-005")
    assert "maxPods" in unseen.message
    assert not found(kubelets(), "CG-CONFIG-005")


def test_a_field_that_is_known_from_the_target_on_is_told_once_per_way() -> None:
    one = file("kubelet", {"memoryReservationPolicy": "None"})
    (new,) = found(kubelets(one, version="v1.35.4"), "CG-CONFIG-003")
    assert "1.35 drops them, 1.37 knows them" in new.message
    assert not found(kubelets(one, version="v1.36.3"), "CG-CONFIG-003")


def test_a_key_that_stands_twice_does_not_stop_a_kubelet_and_stops_a_scheduler() -> None:
    snapshot = kubelets(file("kubelet", {"maxPods": 5}, "maxPods"))
    assert found(snapshot, "CG-CONFIG-004")
    assert not found(snapshot, "CG-CONFIG-001")
    second = kubelets(file("kube-scheduler", {"parallelism": 5}, "parallelism"))
    (refused,) = found(second, "CG-CONFIG-001")
    assert refused.severity == "warning"
    assert "key parallelism stands twice" in refused.message


def test_a_file_of_the_scheduler_on_its_machine_is_said_to_be_unread_with_the_line_that_tries_it() -> None:
    snapshot = cluster(pod("kube-scheduler", config_file="/etc/kubernetes/my scheduler.yaml"))
    (unseen,) = found(snapshot, "CG-CONFIG-005")
    assert "1.37 knows every field that 1.36 knows" in unseen.message
    assert "--config '/etc/kubernetes/my scheduler.yaml' --write-config-to" in unseen.advice


def test_arguments_of_plugins_are_said_not_to_be_judged() -> None:
    args = {"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"noSuch": 1}}]}]}
    (unsure,) = found(kubelets(file("kube-scheduler", args)), "CG-CONFIG-005")
    assert "profiles[].pluginConfig[].args" in unsure.message


def test_without_a_target_nothing_is_forecast() -> None:
    snapshot = kubelets(file("kubelet", {"maxPods": "many"}))
    wanted = msgspec.structs.replace(
        profile(), target=msgspec.structs.replace(profile().target, kubernetes="")
    )
    assert not of(run(snapshot, wanted), "CG-CONFIG-001")
