"""The law of the table: what a printed command prints, read, is what the snapshot gives for the same cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from changegen.facts import FACTS, Args, Reading, command, evaluate
from changegen.facts.base import taint_text
from changegen.facts.components import running_version
from changegen.facts.reads import READS, reads_as
from changegen.model.snapshot import DeviceHealth, Unobserved
from tests.kubectl_stub import in_shell, run
from tests.plan.build import RECORDED, recorded, ticket

GPU, NIC = "gpu.example.com", "dra.net"
KUBE_PROXY = {
    "component": "kube-proxy",
    "namespace": "kube-system",
    "selector": "k8s-app=kube-proxy",
    "container": "kube-proxy",
}
STATIC = {
    component: {
        "component": component,
        "pods": tuple(f"kube-system/{component}-cp-{n}" for n in (1, 2, 3)),
        "container": component,
    }
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
}
DRIVER = {"kind": "DaemonSet", "namespace": "dra-example-driver", "name": "dra-example-driver-kubeletplugin"}
CASES: list[tuple[str, Args]] = [
    ("server.version", {}),
    ("apiserver.readyz", {}),
    ("apiserver.gate", {"gate": "DRADeviceTaintRules"}),
    ("apiserver.gate", {"gate": "SidecarContainers"}),
    ("apiserver.gate", {"gate": "NoSuchGate"}),
    ("api.group-version", {"group_version": "resource.k8s.io/v1"}),
    ("api.group-version", {"group_version": "storagemigration.k8s.io/v1"}),
    ("api.group-version", {"group_version": "resource.k8s.io/v1alpha3"}),
    ("api.resource", {"group_version": "resource.k8s.io/v1", "resource": "devicetaintrules"}),
    ("api.resource", {"group_version": "resource.k8s.io/v1", "resource": "resourceslices"}),
    ("api.resource", {"group_version": "resource.k8s.io/v1alpha3", "resource": "devicetaintrules"}),
    ("api.services-down", {}),
    *(("component.running", args) for args in STATIC.values()),
    ("component.running", {**STATIC["etcd"], "pods": ("kube-system/etcd-cp-2",)}),
    *(
        ("component.names-gate", {**args, "gate": "SidecarContainers"})
        for args in STATIC.values()
        if args["component"] != "etcd"
    ),
    ("component.names-gate", {**STATIC["kube-scheduler"], "gate": "DRADeviceTaintRules"}),
    ("component.names-gate", {**STATIC["kube-apiserver"], "gate": "Containers"}),
    ("component.daemon-versions", KUBE_PROXY),
    ("leader", {"name": "kube-scheduler"}),
    ("kubelet.by-node", {}),
    ("kubelet.versions", {}),
    ("nodes.not-ready", {}),
    ("nodes.cordoned", {}),
    ("nodes.taints", {}),
    ("nodes.allocatable", {"resource": "example.com/legacy-gpu"}),
    ("nodes.allocatable", {"resource": "example.com/gpu"}),
    ("nodes.taint-counts", {}),
    ("nodes.allocatable-counts", {"resource": "example.com/legacy-gpu"}),
    ("dra.device-counts", {"driver": GPU}),
    ("kubeadm.version", {}),
    ("kubeadm.names-gate", {"gate": "SidecarContainers"}),
    ("kubeadm.names-gate", {"gate": "DRADeviceTaintRules"}),
    ("workload.image", {**DRIVER, "container": "plugin"}),
    (
        "workload.image",
        {"kind": "Deployment", "namespace": "kube-system", "name": "coredns", "container": "coredns"},
    ),
    ("workload.not-ready", DRIVER),
    ("workload.not-ready", {"kind": "Deployment", "namespace": "ml", "name": "train"}),
    ("budget.allowed", {"namespace": "ml", "name": "train"}),
    ("budget.limit", {"namespace": "ml", "name": "train"}),
    ("dra.devices", {"driver": GPU}),
    ("dra.devices", {"driver": NIC}),
    ("dra.devices", {"driver": "nobody.example.com"}),
    ("dra.pools-incomplete", {"driver": GPU}),
    ("dra.attribute", {"driver": GPU, "attribute": "driverVersion"}),
    ("dra.attribute", {"driver": NIC, "attribute": "ifName"}),
    ("dra.attribute", {"driver": NIC, "attribute": "rdma"}),
    ("dra.device-taints", {"driver": GPU}),
    ("claims.held", {}),
    ("claims.waiting", {}),
    ("claim.device-status", {"namespace": "ml", "name": "nic-claim"}),
    ("pods.mapped", {}),
    ("pods.pending-for-devices", {}),
    ("pods.unhealthy-devices", {}),
    ("rule.effect", {"name": "maint-gpu-3"}),
    ("rule.evicts", {"name": "maint-gpu-3"}),
    ("class.extended-resource", {"name": GPU}),
    ("class.extended-resource", {"name": NIC}),
]


def comparable(reading: Reading) -> tuple[object, ...]:
    return reading.known, reading.value if reading.known else None, tuple(sorted(reading.gaps))


def test_every_fact_is_held_against_its_command() -> None:
    # The captures hold no configz: kubelet.gates is held against a kubectl of its own, with the steps that it proves.
    assert {name for name, _ in CASES} == set(FACTS) - {"runtime.evidence", "kubelet.gates"}


def test_every_fact_says_how_its_output_is_read_by_eye() -> None:
    assert set(READS) == set(FACTS)
    for check in ticket().checks:
        if check.query is not None and check.compare != "manual":
            assert check.reads_as == reads_as(check.query.fact, check.query.args)


@pytest.mark.parametrize("capture", ["before", "mid", "after"])
def test_a_command_prints_what_the_snapshot_holds(capture: str) -> None:
    for name, args in CASES:
        fact = FACTS[name]
        answer = run(fact.command(args), RECORDED / capture)
        parsed, evaluated = fact.parse(answer.out, args), fact.evaluate(recorded(capture), args)
        assert comparable(parsed) == comparable(evaluated), (name, args, answer)
        assert evaluated.known, (name, args, evaluated.reason)


def test_every_check_of_a_ticket_prints_its_value_before() -> None:
    checked = 0
    for check in ticket().checks:
        if check.query is None or check.compare == "manual":
            continue
        assert check.command == command(check.query.fact, check.query.args)
        reading = FACTS[check.query.fact].parse(run(check.command, RECORDED / "before").out, check.query.args)
        assert (reading.known, reading.value) == (check.before_known, check.before), check
        checked += 1
    assert checked > 40


def test_a_kind_that_was_not_read_is_not_known() -> None:
    for name, args in CASES:
        for kind in FACTS[name].reads:
            less = msgspec.structs.replace(
                recorded("before"), kinds_read=tuple(k for k in recorded("before").kinds_read if k != kind)
            )
            reading = evaluate(name, less, args)
            assert not reading.known, (name, kind)
            assert kind in reading.reason


def test_a_kind_read_in_some_namespaces_only_is_not_known_for_the_cluster() -> None:
    partly = msgspec.structs.replace(recorded("before"), namespaces_read={"pods": ("ml",)})
    assert not evaluate("pods.mapped", partly, {}).known
    assert not evaluate("component.running", partly, STATIC["etcd"]).known


def test_a_kind_read_in_the_namespace_of_the_pods_is_known_for_them() -> None:
    partly = msgspec.structs.replace(recorded("before"), namespaces_read={"pods": ("kube-system",)})
    for name in ("component.running", "component.names-gate"):
        assert evaluate(name, partly, {**STATIC["etcd"], "gate": "SidecarContainers"}).known, name


def test_a_budget_without_a_status_has_its_limit_and_no_number() -> None:
    args = {"namespace": "ml", "name": "train"}
    before = recorded("before")
    fresh = msgspec.structs.replace(
        before,
        disruption_budgets=tuple(
            msgspec.structs.replace(b, disruptions_allowed=None) for b in before.disruption_budgets
        ),
    )
    assert evaluate("budget.limit", fresh, args).value == "minAvailable 3"
    assert evaluate("budget.allowed", fresh, args).reason == "its status was not read"
    gone = msgspec.structs.replace(before, disruption_budgets=())
    for name in ("budget.limit", "budget.allowed"):
        assert evaluate(name, gone, args).reason == "the PodDisruptionBudget is not there"


def test_what_was_not_read_says_the_reason_of_the_reading() -> None:
    lack = Unobserved(what="nodes", reason="not-in-capture")
    less = msgspec.structs.replace(recorded("before"), kinds_read=(), unobserved=(lack,))
    assert evaluate("nodes.cordoned", less, {}).reason == "nodes were not read: not in the capture"


def test_long_maps_are_counted_by_value() -> None:
    assert evaluate("nodes.taint-counts", recorded("before"), {}).value == {
        "example.com/gpu-only=true:NoSchedule": 1,
        "node-role.kubernetes.io/control-plane:NoSchedule": 3,
    }
    assert evaluate("dra.device-counts", recorded("before"), {"driver": GPU}).value == {"2": 3}


def test_taints_that_the_cluster_sets_and_takes_away_are_no_difference() -> None:
    ill = ("node.kubernetes.io/unreachable", "", "NoExecute")
    assert (
        taint_text([("b", "", "NoSchedule"), ill, ("a", "x", "NoExecute")]) == "a=x:NoExecute, b:NoSchedule"
    )


def test_a_fact_tells_where_it_was_seen() -> None:
    (seen,) = evaluate("server.version", recorded("before"), {}).evidence
    assert (seen.source, seen.path, seen.value, seen.provenance) == (
        "/version",
        "gitVersion",
        "v1.36.3",
        "version",
    )


@pytest.mark.parametrize("image", ["", "registry.k8s.io/kube-proxy:latest", f"sha256:{'a' * 64}"])
def test_a_running_image_without_a_version_proves_none_and_is_named(image: str) -> None:
    reading = running_version(image, "kube-proxy", running=True)
    assert not reading.known
    assert (image or "-") in reading.reason


def test_silence_of_a_command_is_not_known() -> None:
    silent = {
        "dra.devices",
        "dra.device-counts",
        "dra.pools-incomplete",
        "dra.attribute",
        "dra.device-taints",
    }
    silent |= {"claims.held", "claims.waiting", "pods.pending-for-devices"}
    for name, args in CASES:
        reading = FACTS[name].parse("", args)
        # A list that may be empty prints nothing when it is; every other command always prints something.
        assert reading.known == (name in silent), name


def test_what_only_asks_is_not_proven_to_run() -> None:
    reading = evaluate("component.running", recorded("mid"), STATIC["kube-apiserver"])
    assert reading.value == {"cp-1": None, "cp-2": "v1.36.3", "cp-3": "v1.36.3"}
    assert list(reading.gaps) == ["cp-1"]


def test_an_unknown_fact_is_not_known() -> None:
    assert not evaluate("nothing.such", recorded("before"), {}).known
    assert not evaluate("runtime.evidence", recorded("before"), {"title": "x", "command": "y"}).known


def test_unhealthy_devices_are_named() -> None:
    before = recorded("before")
    pod = next(pod for pod in before.pods if pod.uses_devices)
    ill = msgspec.structs.replace(
        pod, health=(DeviceHealth(container="c", resource="r", device="gpu-0", health="Unhealthy"),)
    )
    snapshot = msgspec.structs.replace(before, pods=tuple(ill if p == pod else p for p in before.pods))
    reading = evaluate("pods.unhealthy-devices", snapshot, {})
    assert reading.value == (f"{pod.namespace}/{pod.name} gpu-0: Unhealthy",)
    printed = f'{pod.namespace}\t{pod.name}\t[{{"name":"r","resources":[{{"health":"Unhealthy","resourceID":"gpu-0"}}]}}]\n'
    assert FACTS["pods.unhealthy-devices"].parse(printed, {}).value == reading.value
    empty = f'{pod.namespace}\t{pod.name}\t[{{"name":"r","resources":null}}]\n'
    assert FACTS["pods.unhealthy-devices"].parse(empty, {}).value == ()


@pytest.mark.parametrize(
    "name",
    [
        "x; touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "'; touch pwned; '",
        '"|touch pwned|"',
        "a b",
        "-oyaml",
    ],
)
def test_a_hostile_name_runs_nothing(name: str, tmp_path: Path) -> None:
    hostile: Args = {
        "name": name, "namespace": name, "driver": name, "gate": name, "group_version": f"{name}/v1", "resource": name,
        "component": name, "container": name, "selector": name, "kind": "DaemonSet", "attribute": name,
        "pods": (f"{name}/{name}", f"ns/{name}"),
    }  # fmt: skip
    in_shell([fact.command(hostile) for fact in FACTS.values() if fact.name != "runtime.evidence"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_slices_of_older_generations_do_not_count() -> None:
    rows = "pool\t1\t1\tdev-0 dev-1 dev-2\npool\t2\t2\tdev-0\n"
    assert FACTS["dra.devices"].parse(rows, {}).value == {"pool": 1}
    assert FACTS["dra.pools-incomplete"].parse("pool\t2\t2\n", {}).value == ("pool",)
    assert FACTS["dra.pools-incomplete"].parse("pool\t2\t2\npool\t2\t2\n", {}).value == ()
