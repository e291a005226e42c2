"""Each verdict is computed: two inputs give two answers."""

from __future__ import annotations

import msgspec
import pytest

from changegen import kubedata
from changegen.model.snapshot import Component, ConfigFact, Snapshot, StoredObjects
from changegen.plan.scene import Member, Scene
from changegen.plan.verdicts import (
    driver_verdict,
    etcd_verdict,
    extended_verdict,
    min_compat_verdict,
    rules_verdict,
)
from tests.plan.build import dra_profile, plan, recorded, to

replace = msgspec.structs.replace


def members(*versions: str) -> list[Member]:
    return [
        Member(node=f"cp-{n}", pod=f"kube-system/etcd-cp-{n}", version=v, proven=True)
        for n, v in enumerate(versions, 1)
    ]


def scene(snapshot: Snapshot, target: str = "1.37.2") -> Scene:
    return Scene(snapshot, to(target), kubedata.load())


@pytest.mark.parametrize(
    ("versions", "verdict", "said"),
    [
        (("v3.6.8", "v3.6.8", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.7.0", "v3.7.0", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.7.0", "v3.6.8", "v3.6.8"), "reversible-until", "the last member, on cp-3"),
        (("v3.6.8",), "reversible-until", "its only member"),
        (("v3.7.0", "v3.7.0", "v3.7.0"), "one-way", ""),
        (("v3.7.0",), "one-way", ""),
    ],
)
def test_etcd_goes_back_until_its_last_member_moved(
    versions: tuple[str, ...], verdict: str, said: str
) -> None:
    judged = etcd_verdict(members(*versions), "v3.7.0", "3.6.8-0")
    assert judged.verdict == verdict
    assert said in judged.until


def test_etcd_of_the_same_minor_goes_back() -> None:
    judged = etcd_verdict(members("v3.6.6", "v3.6.6", "v3.6.6"), "v3.6.8")
    assert judged.verdict == "reversible"
    assert etcd_verdict(members("v3.6.6"), "").verdict == "reversible"
    assert etcd_verdict(members("v3.7.0"), "v3.6.8").verdict == "one-way"
    assert etcd_verdict(members("v3.7.0"), "v3.7.0", "3.7.0-0").verdict == "reversible"


def with_rule_settings(*, everywhere: bool, configured: bool) -> Snapshot:
    """The recorded cluster with the rules' gate on everywhere or not, and their API in the manifests or not."""
    found = []
    for item in recorded("before").components:
        changed = item
        if everywhere and item.component == "kube-scheduler":
            peer = next(
                c for c in recorded("before").components if c.component == item.component and c.node == "cp-1"
            )
            changed = replace(item, feature_gates=peer.feature_gates, gate_sources=peer.gate_sources)
        if configured and item.component == "kube-apiserver":
            changed = replace(changed, runtime_config=("resource.k8s.io/v1beta2=true",))
        found.append(changed)
    return replace(recorded("before"), components=tuple(found))


def test_rules_work_in_the_older_minor_only_with_their_gate_and_api() -> None:
    def lost(*, everywhere: bool, configured: bool) -> str:
        made = scene(with_rule_settings(everywhere=everywhere, configured=configured))
        judged = rules_verdict(made, made.hops[-1])
        assert judged is not None
        assert judged.verdict == "reversible"
        return judged.lost

    assert lost(everywhere=True, configured=True) == ""
    assert "not on everywhere" in lost(everywhere=False, configured=True)
    assert "in /flagz only" in lost(everywhere=True, configured=False)
    none = scene(replace(recorded("before"), taint_rules=()))
    assert rules_verdict(none, none.hops[-1]) is None


def test_extended_resources_need_their_gate_in_the_older_minor() -> None:
    today = recorded("before")
    on = scene(today)
    judged = extended_verdict(on, on.hops[-1])
    assert judged is not None
    assert (judged.verdict, judged.lost) == ("reversible", "")
    off = [
        replace(item, feature_gates={"DRAExtendedResource": False})
        if item.component == "kube-scheduler"
        else item
        for item in today.components
    ]
    made = scene(replace(today, components=tuple(off)))
    judged = extended_verdict(made, made.hops[-1])
    assert judged is not None
    assert judged.verdict == "reversible"
    assert "example.com/gpu from device plugins only" in judged.lost
    none = scene(replace(today, device_classes=()))
    assert extended_verdict(none, none.hops[-1]) is None


def with_min_compat(value: str) -> Snapshot:
    maps = []
    for item in recorded("before").config_maps:
        if item.kind == "kubeadm":
            flags = {**item.component_flags}
            flags["kube-apiserver"] = (
                *flags.get("kube-apiserver", ()),
                ConfigFact(name="min-compatibility-version", values=(value,)),
            )
            maps.append(replace(item, component_flags=flags))
        else:
            maps.append(item)
    return replace(recorded("before"), config_maps=tuple(maps))


def test_a_raised_minimum_compatibility_version_is_one_way() -> None:
    raised, kept = scene(with_min_compat("kube=1.37")), scene(with_min_compat("1.36"))
    judged = min_compat_verdict(raised, raised.hops[-1])
    assert judged is not None
    assert judged.verdict == "one-way"
    assert min_compat_verdict(kept, kept.hops[-1]) is None
    made = plan(with_min_compat("kube=1.37"))
    control = next(b for b in made.rollback if "kube-apiserver" in b.what)
    assert control.verdict == "one-way"
    assert made.facts["way_back"].startswith("none for the control plane")


def test_a_drivers_step_is_one_way_only_where_the_data_says_so() -> None:
    assert driver_verdict("gpu.nvidia.com", "v25.12.0", "v0.4.0").verdict == "one-way"
    assert driver_verdict("gpu.nvidia.com", "v25.12.0", ">=0.4.1").verdict == "one-way"
    assert driver_verdict("gpu.nvidia.com", "v0.4.0", "v0.4.1").verdict == "reversible"
    assert driver_verdict("gpu.nvidia.com", "v25.8.0", "v25.12.0").verdict == "reversible"
    assert driver_verdict("gpu.example.com", "v25.12.0", "v0.4.0").verdict == "reversible"


def test_objects_that_the_target_cannot_decode_are_deleted_first_and_can_come_back() -> None:
    stored = StoredObjects(
        group_version="scheduling.k8s.io/v1alpha2", resource="workloads", names=("ml/train",)
    )
    made = plan(replace(recorded("before"), stored_objects=(stored,)))
    deleted = next(s for s in made.steps if s.title.startswith("Delete the 1 objects"))
    assert deleted.id.startswith("P-")
    assert "kubectl -n ml delete workloads.v1alpha2.scheduling.k8s.io train" in deleted.commands[1].text
    assert any("cannot decode" in b.what for b in made.rollback)
    kept = StoredObjects(group_version="resource.k8s.io/v1", resource="resourceclaims", names=("ml/x",))
    other = plan(replace(recorded("before"), stored_objects=(kept,)))
    assert not [s for s in other.steps if s.title.startswith("Delete")]


def one_control_plane(snapshot: Snapshot) -> Snapshot:
    def here(item: Component) -> bool:
        return item.node not in ("cp-2", "cp-3")

    return replace(
        snapshot,
        components=tuple(filter(here, snapshot.components)),
        nodes=tuple(n for n in snapshot.nodes if n.name not in ("cp-2", "cp-3")),
    )


def test_with_one_member_the_first_step_is_the_point_of_no_return() -> None:
    made = plan(one_control_plane(recorded("before")), dra_profile())
    control = [s for s in made.steps if s.phase == "control-plane"]
    assert [s.no_return for s in control] == [True]
    assert made.rollback_decide_by.startswith(f"before {control[0].id} starts")
    assert "about minute 0" in made.rollback_decide_by
    etcd = next(b for b in made.rollback if b.what.startswith("etcd, member"))
    assert "only member" in etcd.until


def test_without_a_change_of_minor_there_is_no_point_of_no_return() -> None:
    made = plan(recorded("before"), to("1.36.4"))
    assert not [s for s in made.steps if s.no_return]
    assert made.rollback_decide_by == ""
    etcd = next(b for b in made.rollback if b.what.startswith("etcd"))
    assert etcd.verdict == "reversible"


def test_a_provider_or_release_without_a_way_back_says_so() -> None:
    eks = replace(
        recorded("before"),
        components=(),
        cluster=replace(recorded("before").cluster, distribution="eks", managed=True),
    )
    control = next(b for b in plan(eks).rollback if "kube-apiserver" in b.what)
    assert control.verdict == "one-way"
    rke2 = replace(recorded("before"), cluster=replace(recorded("before").cluster, distribution="rke2"))
    control = next(b for b in plan(rke2).rollback if "kube-apiserver" in b.what)
    assert control.verdict == "reversible-until"
    assert any("cluster-reset-restore-path" in c.text for c in control.commands)


def test_servers_that_restore_stop_first_and_only_one_of_them_restores() -> None:
    rke2 = replace(recorded("before"), cluster=replace(recorded("before").cluster, distribution="rke2"))
    control = next(b for b in plan(rke2).rollback if "kube-apiserver" in b.what)
    texts = [(c.where, c.text) for c in control.commands]
    stops = [at for at, (_, text) in enumerate(texts) if "systemctl stop rke2-server" in text]
    assert stops == [0]
    assert texts[0][0] == "cp-1, cp-2, cp-3, one after another"
    assert [where for where, text in texts if "cluster-reset-restore-path" in text] == ["cp-1"]
    assert [where for where, text in texts if "rm -rf /var/lib/rancher/rke2/server/db" in text] == [
        "cp-2, cp-3, one after another"
    ]
    assert "SNAPSHOT is the file" in control.why


def test_a_node_group_goes_back_only_where_its_provider_does_that() -> None:
    def why(name: str) -> str:
        managed = replace(
            recorded("before"),
            components=(),
            cluster=replace(recorded("before").cluster, distribution=name, managed=True),
        )
        return next(b for b in plan(managed).rollback if b.what.startswith("kubelet")).why

    assert "does not go back by itself" in why("eks")
    assert "takes a node group back" in why("gke")
