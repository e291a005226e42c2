"""Flags and --runtime-config against what the real kube-apiserver 1.37.2 and its peers say of them."""

from __future__ import annotations

import pytest

from changegen.assess.flags import dropped, entries, runtime_uses
from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import Component, ConfigFact
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
    "api/beta=": "invalid value api/beta=",
    "api/all=false": "invalid runtime-config with only api/all=false, "
    "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true",
    "api/ga=false": "--runtime-config=api/ga=false conflicts with --enable-priority-and-fairness=true",
    "v1=true": "",
    "api/v1=true": "",
    "networking.k8s.io/v1beta1=true": "",
    "resource.k8s.io/v1/nothing=true": "",
    "batch/v1beta1=true": "",
    "extensions/v1beta1=true": "",
}


@pytest.mark.parametrize(("entry", "words"), TRIED.items())
def test_entries_stop_the_apiserver_as_the_real_one(entry: str, words: str) -> None:
    (use,) = runtime_uses(context(cluster(pod(runtime_config=(entry,)))))
    assert ", ".join(use.words) == words
    found = of(run(cluster(pod(runtime_config=(entry,)))), "CG-FLAG-010")
    assert [item.subject.name for item in found] == ([entry.partition("=")[0]] if words else [])


def test_entries_are_read_as_the_component_reads_them() -> None:
    assert entries(("a/v1=true,b/v1", "a/v1=false,,c/v1=1,api/beta")) == {
        "a/v1": "false",
        "b/v1": "true",
        "c/v1": "1",
        "api/beta": "",
    }


def test_entries_are_judged_together_and_all_faults_are_told() -> None:
    values = ("foo/v1,bar/v2=false,apps/v1=true", "scheduling.k8s.io/v1alpha2=true,apps/v9=true")
    found = of(run(cluster(pod(runtime_config=values))), "CG-FLAG-010")
    assert {item.subject.name for item in found} == {
        "bar/v2, foo/v1",
        "scheduling.k8s.io/v1alpha2",
        "apps/v9",
    }
    first = next(item for item in found if "foo" in item.subject.name)
    assert "bar/v2=false,foo/v1=true" in first.message
    assert "`unknown api groups bar/v2,foo/v1`" in first.message


def test_an_api_newer_than_the_emulated_version_is_refused_after_the_upgrade() -> None:
    entry, gates = "scheduling.k8s.io/v1beta1=true", "GenericWorkload=true"
    versions = (ConfigFact(name="emulated-version", values=("1.36",)),)
    server = pod(
        version="v1.36.3",
        flags=gates,
        runtime_config=(entry,),
        emulated_version="1.36",
        min_compatibility_version=None,
    )
    server = with_fields(server, flags=(*server.flags, *versions))
    (found,) = of(run(cluster(server)), "CG-FLAG-010")
    assert "1.36 exits" not in found.message
    assert "cannot enable version scheduling.k8s.io/v1beta1 in runtime-config" in found.message
    assert "after the current version 1.36." in found.message
    forward = ConfigFact(name="runtime-config-emulation-forward-compatible", values=("true",))
    willing = with_fields(server, flags=(*server.flags, forward))
    assert not of(run(cluster(willing)), "CG-FLAG-010")
    config = kubeadm(
        gates={"kube-apiserver": gates},
        flags={"kube-apiserver": (*versions, ConfigFact(name="runtime-config", values=(entry,)))},
    )
    (found,) = of(run(cluster(pod(), config_maps=(config,))), "CG-FLAG-010")
    assert found.subject.instances == ("ConfigMap kube-system/kubeadm-config",)


def test_priority_and_fairness_that_is_off_needs_no_api() -> None:
    entry = "api/all=false,v1=true,apiregistration.k8s.io/v1=true"
    assert of(run(cluster(pod(runtime_config=(entry,)))), "CG-FLAG-010")
    off = ConfigFact(name="enable-priority-and-fairness", values=("false",))
    server = with_fields(pod(runtime_config=(entry,)), flags=(off,))
    assert not of(run(cluster(server)), "CG-FLAG-010")


def test_an_entry_whose_gate_is_off_serves_nothing() -> None:
    entry = "scheduling.k8s.io/v1beta1=t"
    server = pod(version="v1.37.0", runtime_config=(entry,))
    (found,) = of(run(cluster(server)), "CG-FLAG-011")
    assert "It needs GenericWorkload, which is off." in found.message
    on = pod(version="v1.37.0", flags="GenericWorkload=true", runtime_config=(entry,))
    assert not of(run(cluster(on)), "CG-FLAG-011")
    unseen = with_fields(server, feature_gates="unobservable", gate_sources=())
    assert not of(run(cluster(unseen)), "CG-FLAG-011")
    off = pod(version="v1.37.0", runtime_config=("scheduling.k8s.io/v1beta1=F",))
    assert not of(run(cluster(off)), "CG-FLAG-011")


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


def test_instances_that_were_not_read_are_not_said_to_set_nothing() -> None:
    config = kubeadm(gates={"kube-apiserver": "SidecarContainers=true"})

    def told(*instances: Component) -> str:
        (found,) = of(run(cluster(*instances, config_maps=(config,))), "CG-KUBEADM-001")
        return found.message

    blind = with_fields(pod(node="n2"), feature_gates=UNOBSERVABLE, gate_sources=())
    assert told(pod()).endswith("No running instance of it sets that today.")
    assert told(pod(), blind).endswith("As far as they were read, no instance of it sets that today.")
    for instances in ((), (blind,)):
        assert told(*instances).endswith("What its instances set today was not read.")


def test_kubeadm_config_is_judged_at_the_version_that_it_emulates() -> None:
    emulated = ConfigFact(name="emulated-version", values=("1.36",))
    gate = "HPAGeneration=true"  # New in 1.37.
    config = kubeadm(gates={"kube-apiserver": gate}, flags={"kube-apiserver": (emulated,)})
    (found,) = of(run(cluster(pod(), config_maps=(config,))), "CG-KUBEADM-001")
    assert "feature is PreAlpha at emulated version 1.36" in found.message
    plain = kubeadm(gates={"kube-apiserver": gate})
    assert not of(run(cluster(pod(), config_maps=(plain,))), "CG-KUBEADM-001")


def test_an_emulated_version_given_twice_is_refused() -> None:
    twice = ConfigFact(name="emulated-version", values=("1.36", "1.35"))
    server = with_fields(pod(), flags=(twice,), emulated_version="1.35")
    (found,) = of(run(cluster(server)), "CG-GATE-006")
    assert "duplicate version flag, kube=1.36 and kube=1.35" in found.message


def test_a_switch_that_needs_emulation_is_refused_without_it() -> None:
    switch = ConfigFact(name="emulation-forward-compatible", values=("true",))
    (found,) = of(run(cluster(with_fields(pod(), flags=(switch,)))), "CG-GATE-006")
    assert "EmulationForwardCompatible cannot be set to true" in found.message
