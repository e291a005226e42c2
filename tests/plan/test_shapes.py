"""Plans of other shapes: several minors, many nodes, distributions, leaders."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from changegen.facts import Reading
from changegen.model.profile import ComponentTarget, Minutes, Target
from changegen.model.snapshot import Lease, Node, Snapshot, Unobserved
from changegen.model.ticket import Command, Ticket
from changegen.plan import distribution as distribution_module
from changegen.plan.places import PLACES
from changegen.verify import judge
from changegen.versions import minor_of
from changegen.words import spans
from tests.plan.build import dra_profile, fixture, plan, recorded, to

replace = msgspec.structs.replace


def older(minor: int) -> Snapshot:
    """The recorded cluster on another minor."""
    old, new = "1.36.3", f"1.{minor}.4"
    encoded = (
        msgspec.json.encode(recorded("before"))
        .replace(old.encode(), new.encode())
        .replace(b"3.6.8", b"3.6.5")
    )
    return msgspec.json.decode(encoded, type=Snapshot)


def commands(made: Ticket, phase: str) -> list[str]:
    return [c.text for s in made.steps if s.phase == phase for c in s.commands]


def test_several_minors_are_hops_and_nodes_are_drained_once_where_skew_allows() -> None:
    made = plan(older(34), to("1.37.2"))
    hops = list(dict.fromkeys(s.hop for s in made.steps if s.phase == "control-plane"))
    assert hops == ["1.34 -> 1.35", "1.35 -> 1.36", "1.36 -> 1.37"]
    moved = [s for s in made.steps if s.phase == "nodes"]
    assert {s.hop for s in moved} == {"1.36 -> 1.37"}
    assert sorted(name for s in moved for name in s.nodes) == sorted(n.name for n in older(34).nodes)
    text = "\n".join(commands(made, "control-plane"))
    for version in ("v1.35.4", "v1.36.3", "v1.37.2"):
        assert f"sudo kubeadm upgrade apply {version}" in text
    assert [s.nodes for s in made.steps if s.no_return] == [("cp-3",)]
    assert next(s for s in made.steps if s.no_return).hop == "1.36 -> 1.37"
    # The checklist is of the target: on the way there it cannot hold.
    checks = {c.id: c for c in made.checks}
    on_the_way = [s for s in made.steps if s.hop and s.hop != "1.36 -> 1.37"]
    assert on_the_way
    assert not [s.id for s in on_the_way for c in s.checks if checks[c].compare == "version"]
    control = next(b for b in made.rollback if "kube-apiserver" in b.what)
    assert control.verdict == "reversible-until"


def test_packages_follow_the_version_of_the_node_over_several_minors() -> None:
    made = plan(older(34), to("1.37.2"))
    moved = "\n".join(commands(made, "nodes"))
    # The workers' repository is still that of 1.34.
    assert "stable:?)/v1[.][0-9]+/,\\1/v1.37/,g'" in moved
    back = "\n".join(c.text for b in made.rollback if b.what.startswith("kubelet") for c in b.commands)
    assert "kubelet='1.34.4-*'" in back
    assert "/v1.34/" in back
    assert "1.36" not in back


def test_kubelets_that_would_be_too_old_are_drained_on_the_way() -> None:
    lagging = older(34)
    lagging = replace(
        lagging,
        nodes=tuple(replace(n, kubelet_version="v1.33.5") if n.name == "gpu-1" else n for n in lagging.nodes),
    )
    made = plan(lagging, to("1.37.2"))
    assert list(dict.fromkeys(s.hop for s in made.steps if s.phase == "nodes")) == [
        "1.35 -> 1.36",
        "1.36 -> 1.37",
    ]


def with_workers(count: int) -> Snapshot:
    base = recorded("before")
    template = next(n for n in base.nodes if n.name == "cpu-1")
    more = tuple(replace(template, name=f"w-{n:03d}", uid=f"u{n}") for n in range(count))
    return replace(base, nodes=(*base.nodes, *more))


def test_many_nodes_that_meet_the_same_are_one_step() -> None:
    made = plan(with_workers(200), dra_profile())
    nodes = [s for s in made.steps if s.phase == "nodes"]
    assert len(nodes) < 15
    big = max(nodes, key=lambda s: len(s.nodes))
    assert len(big.nodes) >= 200
    assert any('kubectl drain "${NODE:?}"' in c.text for c in big.commands)
    assert any(spans(big.nodes) in note for note in big.notes)
    assert {name for s in nodes for name in s.nodes} == {n.name for n in with_workers(200).nodes}
    # Versions of so many nodes are a set: it is what is wanted with the last of them only.
    kubelets = next(c for c in made.checks if c.query and c.query.fact == "kubelet.versions")
    assert [s.id for s in nodes if kubelets.id in s.checks] == [nodes[-1].id]
    assert next(c for c in made.checks if c.query and c.query.fact == "kubelet.versions").expected == (
        "v1.37.2",
    )
    assert len(msgspec.json.encode(replace(made, snapshot=None))) < 400_000


def test_minutes_come_from_the_profile_and_parallel_drains_shorten_them() -> None:
    def minutes(**given: int) -> int:
        made = plan(recorded("before"), to("1.37.2", minutes=Minutes(**given)))
        return sum(s.minutes or 0 for s in made.steps if s.phase == "nodes")

    assert minutes(node=10) == 80
    assert minutes(node=20) == 160
    big = plan(with_workers(200), to("1.37.2", minutes=Minutes(node=10, node_parallel=10)))
    assert sum(s.minutes or 0 for s in big.steps if s.phase == "nodes") < 400


def test_a_long_grace_period_makes_its_node_slower() -> None:
    base = recorded("before")
    slow = replace(
        base,
        pods=tuple(
            replace(p, grace_seconds=600) if p.node == "gpu-2" and p.uses_devices else p for p in base.pods
        ),
    )

    def minutes(snapshot: Snapshot) -> dict[tuple[str, ...], int | None]:
        return {s.nodes: s.minutes for s in plan(snapshot).steps if s.phase == "nodes"}

    assert minutes(base)["gpu-2",] == 10
    assert minutes(slow) == minutes(base) | {("gpu-2",): 19}


def test_the_leader_goes_last() -> None:
    base = recorded("before")
    holder = "cp-1_8f0c6b1e-0a5d-4c06-9c3f-1d2b3c4d5e6f"
    leases = tuple(
        replace(item, holder=holder) if item.name in ("kube-scheduler", "kube-controller-manager") else item
        for item in base.leases
    )
    made = plan(replace(base, leases=leases))
    control = [s for s in made.steps if s.phase == "control-plane"]
    assert [s.nodes[0] for s in control] == ["cp-2", "cp-3", "cp-1"]
    assert any(
        "holds the lease of kube-controller-manager, kube-scheduler" in note for note in control[-1].notes
    )
    assert control[-1].no_return
    assert isinstance(leases[0], Lease)


def one_replica_fewer_needed(base: Snapshot) -> Snapshot:
    """gpu-3 without its taint: devices enough for every Pod with any node out, and one more."""
    nodes = tuple(replace(n, taints=()) if n.name == "gpu-3" else n for n in base.nodes)
    return replace(base, nodes=nodes)


def people(made: Ticket) -> str:
    step = next(s for s in made.steps if s.title.startswith("Settle with the owners"))
    return "\n".join((*step.notes, *(c.text for c in step.commands)))


def test_one_more_replica_is_offered_only_where_it_finds_a_device_with_the_node_out() -> None:
    assert "--replicas" not in people(plan(recorded("before")))
    open_ = people(plan(one_replica_fewer_needed(recorded("before"))))
    assert "`kubectl -n ml scale deployment train --replicas=4`" in open_
    assert "More replicas do not help" not in open_


@pytest.mark.parametrize(
    ("limits", "patch"),
    [
        ({"min_available": "3"}, '{"spec":{"minAvailable":2}}'),
        ({"min_available": "100%"}, '{"spec":{"minAvailable":2}}'),
        ({"min_available": "", "max_unavailable": "0"}, '{"spec":{"maxUnavailable":1}}'),
    ],
)
def test_a_budget_is_relaxed_by_its_own_field_and_put_back_as_it_was(
    limits: dict[str, str], patch: str
) -> None:
    base = recorded("before")
    budgets = tuple(replace(b, **limits) for b in base.disruption_budgets)
    made = plan(replace(base, disruption_budgets=budgets))
    assert patch in people(made)
    after = next(s for s in made.steps if s.title.startswith("Take back"))
    value = limits["min_available"] or limits["max_unavailable"]
    own = value if value.isdigit() else f'"{value}"'
    assert any(f":{own}}}}}" in c.text for c in after.commands)


def test_a_kernel_of_a_real_machine_is_not_called_simulated() -> None:
    base = recorded("before")
    nodes = tuple(replace(n, provider="", container_runtime="containerd://2.1.0") for n in base.nodes)
    made = plan(replace(base, nodes=nodes))
    step = next(s for s in made.steps if any("uname -r" in c.text for c in s.commands))
    text = "\n".join(step.notes)
    assert "simulated" not in text
    assert "containerd on 8 nodes 2.1.0" in text


def test_the_endpoint_of_a_load_balancer_is_no_loopback() -> None:
    base = recorded("before")
    maps = tuple(
        replace(m, settings={**m.settings, "controlPlaneEndpoint": "api.example.com:6443"})
        if m.kind == "kubeadm"
        else m
        for m in base.config_maps
    )
    made = plan(replace(base, config_maps=maps))
    assert not any("loopback" in note for s in made.steps for note in s.notes)


def test_a_kubelet_range_leaves_nodes_alone() -> None:
    profile = replace(
        to("1.37.2"),
        target=Target(kubernetes="1.37.2", components=(ComponentTarget(name="kubelet", version=">=1.36.0"),)),
    )
    made = plan(recorded("before"), profile)
    assert not [s for s in made.steps if s.phase == "nodes"]


def test_a_minor_alone_takes_the_release_of_the_data_and_says_so() -> None:
    made = plan(recorded("before"), to("1.37"))
    assert made.to_version == "v1.37.2"
    assert "was chosen" in made.facts["not_known"]


@pytest.mark.parametrize(
    ("name", "target", "control", "node"),
    [
        ("talos", "1.37.2", "talosctl -n talos-cp-1 upgrade-k8s --to 1.37.2", ""),
        ("rke2", "1.34", "INSTALL_RKE2_VERSION=v1.34.4+rke2r1", "INSTALL_RKE2_TYPE=agent"),
        ("k3s", "1.34", "INSTALL_K3S_VERSION=v1.34.4+k3s1", "sudo systemctl restart k3s-agent"),
        (
            "eks",
            "1.34",
            'aws eks update-cluster-version --name "$CLUSTER" --kubernetes-version 1.34',
            "--nodegroup-name ng-1",
        ),
        ("aks", "1.34", "az aks upgrade", "az aks nodepool upgrade"),
        ("openshift", "1.32", 'oc adm upgrade --to="$RELEASE"', '"paused":false'),
        ("microk8s", "1.34", "snap refresh microk8s --channel=1.34/stable", "snap refresh microk8s"),
    ],
)
def test_each_distribution_has_its_own_commands(name: str, target: str, control: str, node: str) -> None:
    made = plan(fixture(name), to(target))
    assert control in "\n".join(commands(made, "control-plane"))
    if node:
        assert node in "\n".join(commands(made, "nodes"))


def test_gke_moves_node_pools_by_their_label() -> None:
    base = recorded("before")
    nodes: tuple[Node, ...] = tuple(
        replace(n, labels={**n.labels, "cloud.google.com/gke-nodepool": "gpu" if "gpu" in n.name else "std"})
        for n in base.nodes
    )
    gke = replace(
        base, components=(), nodes=nodes, cluster=replace(base.cluster, distribution="gke", managed=True)
    )
    made = plan(gke, to("1.37.2"))
    text = "\n".join(commands(made, "nodes"))
    assert "--node-pool gpu" in text
    assert "--node-pool std" in text
    assert (
        'gcloud container clusters upgrade "$CLUSTER" --location "$LOCATION" --master --cluster-version 1.37'
        in "\n".join(commands(made, "control-plane"))
    )
    assert not any(c.query and c.query.fact == "dra.devices" for c in made.checks)


def test_an_openshift_release_is_named_where_the_profile_names_it() -> None:
    profile = replace(to("1.32"), target=Target(kubernetes="1.32", distribution_version="4.19.3"))
    made = plan(fixture("openshift"), profile)
    assert "oc adm upgrade --to=4.19.3" in "\n".join(commands(made, "control-plane"))


def test_a_target_newer_than_the_data_is_said_and_decides_nothing() -> None:
    made = plan(recorded("before"), to("1.38.0"))
    assert any("newer than the data" in text for text in made.warnings)
    assert made.decision in ("do-not-start", "cannot-tell")


def test_a_profile_layout_moves_the_files() -> None:
    profile = to("1.37.2")
    layout = msgspec.structs.replace(
        profile.layout, manifests="/srv/manifests", backup="/srv/backup", pki="/srv/pki"
    )
    made = plan(recorded("before"), replace(profile, layout=layout))
    text = "\n".join(c.text for s in made.steps for c in s.commands)
    assert "/srv/manifests" in text
    assert "/var/backups" not in text
    assert "cp -a /etc/kubernetes/manifests" not in text


def test_every_place_of_the_data_has_words() -> None:
    folder = Path(distribution_module.__file__).parent.parent / "data" / "distributions"
    names = [path.stem for path in folder.glob("*.json") if path.stem != "aliases"]
    assert len(names) > 12
    for name in names:
        data = distribution_module.distribution(name)
        assert data.name == name
        packages = [c for tool in data.packages.values() for listed in tool.values() for c in listed]
        groups = [c for listed in (*data.commands.values(), *data.rollback.values()) for c in listed]
        for command in (*packages, *groups):
            assert command.where in {"", "{node}", *PLACES}, command


def test_a_distribution_without_data_is_treated_as_unknown() -> None:
    assert distribution_module.distribution("no-such-thing").name == "generic"
    assert distribution_module.distribution("../kubernetes/1.37").name == "generic"
    assert distribution_module.distribution("okd").name == "openshift"


def test_a_driver_that_is_no_daemon_set_is_warned_of_before_a_drain() -> None:
    base = recorded("before")
    drivers = tuple(
        replace(d, workload=replace(d.workload, kind="Deployment"))
        if d.driver == "dra.net" and d.workload
        else d
        for d in base.drivers
    )
    made = plan(replace(base, drivers=drivers))
    notes = {name: "\n".join(s.notes) for s in made.steps if s.phase == "nodes" for name in s.nodes}
    assert "dra.net is served by a Deployment" in notes["gpu-1"]
    assert "gpu.example.com is served by" not in notes["gpu-1"]
    assert "is served by" not in notes["old-gpu-1"]


def test_a_reading_that_failed_is_named_once() -> None:
    base = recorded("before")
    gap = Unobserved(what="resourceslices.resource.k8s.io", reason="malformed", failed=True)
    one = plan(replace(base, unobserved=(*base.unobserved, gap)))
    assert any("1 read was tried and failed (resourceslices.resource.k8s.io)" in w for w in one.warnings)
    two = plan(replace(base, unobserved=(*base.unobserved, gap, gap)))
    assert any("2 reads were tried and failed (resourceslices.resource.k8s.io)" in w for w in two.warnings)


def test_what_was_not_read_is_said_at_the_head() -> None:
    base = recorded("before")
    without = replace(base, nodes=(), kinds_read=tuple(k for k in base.kinds_read if k != "nodes"))
    assert any("no steps for kubelets" in text for text in plan(without).warnings)
    partly = replace(base, namespaces_read={"pods": ("ml",)})
    assert any("known in part only" in text for text in plan(partly).warnings)
    assert not plan(base).warnings


@pytest.mark.parametrize("name", ["eks", "openshift"])
def test_where_the_provider_takes_a_patch_release_any_of_the_minor_is_right(name: str) -> None:
    base = fixture(name)
    minor = f"1.{int((minor_of(base.cluster.server_version) or '1.33').split('.')[1]) + 1}"
    made = plan(base, to(minor))
    assert made.to_version == f"v{minor}"
    check = next(c for c in made.checks if c.query and c.query.fact == "server.version")
    assert judge(check, Reading(value=f"v{minor}.9-eks-0000000"))[0] == "pass"
    assert judge(check, Reading(value="v1.99.0"))[0] == "fail"
    exact = plan(base, to(f"{minor}.4"))
    check = next(c for c in exact.checks if c.query and c.query.fact == "server.version")
    assert judge(check, Reading(value=f"v{minor}.9"))[0] == "fail"
    arrived = replace(
        base,
        cluster=replace(base.cluster, server_version=f"v{minor}.9"),
        nodes=tuple(replace(n, kubelet_version=f"v{minor}.9") for n in base.nodes),
    )
    assert not [s for s in plan(arrived, to(minor)).steps if s.phase == "nodes"]


def test_a_provider_that_cannot_go_back_gets_no_backup_that_promises_it() -> None:
    made = plan(fixture("eks"), to("1.34"))
    control = {b.id for b in made.rollback if "kube-apiserver" in b.what}
    assert control
    assert not [s for s in made.steps if s.phase == "before" and control & set(s.rollback)]


def test_an_agent_of_k3s_stays_an_agent() -> None:
    made = plan(fixture("k3s"), to("1.34"))
    installs = [c.text for c in (*nodes_of(made), *backs_of(made, "kubelet")) if "get.k3s.io" in c.text]
    assert len(installs) == 2
    for text in installs:
        assert "k3s-agent.service.env" in text
        assert "INSTALL_K3S_EXEC=agent" in text


def nodes_of(made: Ticket) -> list[Command]:
    return [c for s in made.steps if s.phase == "nodes" for c in s.commands]


def backs_of(made: Ticket, word: str) -> list[Command]:
    return [c for b in made.rollback if b.what.startswith(word) for c in b.commands]
