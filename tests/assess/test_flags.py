"""Flags and --runtime-config against what the real kube-apiserver 1.37.2 and its peers say of them."""

from __future__ import annotations

import pytest

from changegen.assess.flags import dropped, entries, judge
from changegen.model.snapshot import ConfigFact
from tests.assess.build import (
    cluster,
    context,
    control_plane,
    kubeadm,
    kubelet,
    of,
    pod,
    profile,
    run,
    with_fields,
)

# Each was given to kube-apiserver 1.37.2; the words are those of its exit, empty where it went on to look for etcd.
TRIED = {
    "scheduling.k8s.io/v1alpha2=true": "group version scheduling.k8s.io/v1alpha2 that has not been registered",
    "scheduling.k8s.io/v1alpha2=false": "group version scheduling.k8s.io/v1alpha2 that has not been registered",
    "scheduling.k8s.io/v1alpha2/workloads=true": "group version scheduling.k8s.io/v1alpha2 that has not been registered",
    "autoscaling/v2beta2=true": "group version autoscaling/v2beta2 that has not been registered",
    "nope.example.com/v1=true": "unknown api groups nope.example.com/v1",
    "resource.k8s.io/v1beta2/DeviceTaintRules=true": "invalid key resource.k8s.io/v1beta2/DeviceTaintRules: "
    'group/version/resource and resource is always lowercase plural, not "DeviceTaintRules"',
    "resource.k8s.io/v1beta1=maybe": "invalid value of resource.k8s.io/v1beta1: maybe, err: "
    'strconv.ParseBool: parsing "maybe": invalid syntax',
    "v2=true": "runtime-config invalid key v2",
    "v9=false": "runtime-config invalid key v9",
    "apps=true": "runtime-config invalid key apps",
    "scheduling.k8s.io=true": "runtime-config invalid key scheduling.k8s.io",
    "v1=true": "",
    "api/v1=true": "",
    "networking.k8s.io/v1beta1=true": "",
    "resource.k8s.io/v1/nothing=true": "",
    "batch/v1beta1=true": "",
    "extensions/v1beta1=true": "",
}


@pytest.mark.parametrize(("entry", "words"), TRIED.items())
def test_entries_stop_the_apiserver_as_the_real_one(entry: str, words: str) -> None:
    key, _, value = entry.partition("=")
    assert judge(context(cluster()), key, "1.37", value).stops == words


def test_entries_are_read_as_the_component_reads_them() -> None:
    assert entries(("a/v1=true,b/v1", "a/v1=false, ,c/v1=1")) == {
        "a/v1": "false",
        "b/v1": "true",
        "c/v1": "1",
    }


def test_only_api_all_false_is_refused() -> None:
    found = of(run(cluster(pod(runtime_config=("api/all=false",)))), "CG-FLAG-010")
    assert "invalid runtime-config with only api/all=false" in found[0].message
    assert not of(run(cluster(pod(runtime_config=("api/all=false,apps/v1=true",)))), "CG-FLAG-010")


def test_the_kubelet_drops_eighteen_flags_in_1_37() -> None:
    ctx = context(cluster(*control_plane()))
    lost = dropped(ctx, "kubelet")
    assert len(lost) == 18
    assert "container-hints" in lost
    assert "housekeeping-interval" not in lost


def test_a_dropped_flag_says_the_words_of_the_kubelet() -> None:
    snapshot = cluster(
        pod(), kubelet(gates={}, flags=(ConfigFact(name="containerd"),), flags_observable=True)
    )
    item = of(run(snapshot), "CG-FLAG-001")[0]
    assert "`failed to parse kubelet flag: unknown flag: --containerd`" in item.message
    row = next(r for r in run(snapshot).forecast if r.kind == "flag")
    assert (row.name, row.effect) == ("--containerd", "will-not-start")


def test_kubeadm_config_is_named_where_the_manifest_has_the_flag_too() -> None:
    gone = ConfigFact(name="concurrent-service-syncs", values=("2",))
    manager = with_fields(pod("kube-controller-manager"), flags=(gone,))
    snapshot = cluster(manager, config_maps=(kubeadm(flags={"kube-controller-manager": (gone,)}),))
    item = of(run(snapshot), "CG-FLAG-001")[0]
    assert "before kubeadm upgrade apply" in item.advice
    assert not of(run(snapshot), "CG-FLAG-003")


def test_a_flag_that_goes_on_a_later_hop_names_the_hop() -> None:
    gone = ConfigFact(name="concurrent-service-syncs")
    manager = with_fields(pod("kube-controller-manager", version="v1.35.4"), flags=(gone,))
    item = of(run(cluster(manager), profile("1.37.2")), "CG-FLAG-001")[0]
    assert item.hop == "1.36 -> 1.37"
