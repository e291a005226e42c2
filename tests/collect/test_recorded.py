"""The recorded upgrade of a real control plane: before, in the middle, after; and the same cluster in other forms."""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from changegen.collect import Options, build_snapshot
from changegen.collect.files import read_input
from changegen.model.snapshot import Component, Snapshot
from changegen.store import canonical

ROOT = Path(__file__).parents[1] / "data" / "recorded"


@cache
def read(name: str) -> Snapshot:
    return build_snapshot(read_input(ROOT / name))


def of(snapshot: Snapshot, component: str) -> list[Component]:
    return [item for item in snapshot.components if item.component == component]


# ------------------------------------------------------------------------------------------------------------- facts


def test_instances_before() -> None:
    snapshot = read("before")
    counts = Counter(item.component for item in snapshot.components)
    assert counts == {
        "kube-apiserver": 3,
        "kube-controller-manager": 3,
        "kube-scheduler": 3,
        "etcd": 3,
        "kubelet": 8,
        "kube-proxy": 8,
    }
    assert {item.version for item in snapshot.components if item.component != "etcd"} == {"v1.36.3"}
    assert all(item.running_version == item.version for item in snapshot.components)
    assert {item.manifest for item in of(snapshot, "kube-apiserver")} == {
        "/etc/kubernetes/manifests/kube-apiserver.yaml"
    }


def test_gates_before_and_the_drift_of_one_scheduler() -> None:
    snapshot = read("before")
    assert {str(item.feature_gates) for item in of(snapshot, "kube-apiserver")} == {
        str({"DRADeviceTaintRules": True, "SidecarContainers": True})
    }
    assert [item.feature_gates for item in of(snapshot, "kube-scheduler")] == [
        {"DRADeviceTaintRules": True},
        {"DRADeviceTaintRules": True},
        {},
    ]
    third = of(snapshot, "kube-scheduler")[2]
    assert [source.gates for source in third.gate_sources] == [{}, {"DRADeviceTaintRules": True}]
    assert {str(item.feature_gates) for item in of(snapshot, "kubelet")} == {
        str({"DRAResourceClaimDeviceStatus": True})
    }
    assert {item.gates_certainty for item in of(snapshot, "kubelet")} == {"intended"}


def test_flagz_and_metrics_are_one_processs_and_nobodys_in_particular() -> None:
    snapshot = read("before")
    by_kind = {fact.provenance: fact for fact in snapshot.processes}
    flagz = by_kind["flagz"]
    assert flagz.flag_gates is not None
    assert flagz.flag_gates.gates == {"DRADeviceTaintRules": True, "SidecarContainers": True}
    assert flagz.runtime_config == ("resource.k8s.io/v1beta2=true",)
    assert (flagz.component, flagz.component_inferred, flagz.node) == ("kube-apiserver", False, None)
    metric = by_kind["metric"]
    assert metric.effective_gates is not None
    assert metric.effective_gates["SidecarContainers"] is True
    assert (metric.version, metric.emulation_version, metric.min_compatibility_version) == (
        "v1.36.3",
        "1.36",
        "1.35",
    )
    assert metric.etcd["objects resourceslices.resource.k8s.io"] == "6"
    assert [(api.version, api.resource) for api in metric.requested_deprecated_apis] == [("v1", "endpoints")]
    assert all(by_kind["readyz"].readyz.values())
    assert by_kind["statusz"].version == "v1.36.3"
    assert {item.effective_gates for item in of(snapshot, "kube-apiserver")} == {None}
    assert {item.runtime_config for item in of(snapshot, "kube-apiserver")} == {()}


def test_identity_and_configuration() -> None:
    snapshot = read("before")
    assert snapshot.cluster.name == "prod-a"
    assert snapshot.cluster.uid
    assert snapshot.cluster.distribution == "kubeadm"
    assert (snapshot.cluster.emulation_version, snapshot.cluster.min_compatibility_version) == (
        "1.36",
        "1.35",
    )
    facts = {fact.kind: fact for fact in snapshot.config_maps}
    assert facts["kubeadm"].kubernetes_version == "v1.36.3"
    assert facts["kubeadm"].etcd == "local"
    assert facts["kubeadm"].settings["etcd.local.dataDir"] == "/var/lib/etcd"
    assert facts["kubelet"].settings["staticPodPath"] == "/etc/kubernetes/manifests"
    assert set(facts) == {"kubeadm", "kubelet", "kube-proxy", "coredns"}
    # The newest object is a lease, here.
    leases = json.loads((ROOT / "before" / "leases.json").read_text(encoding="utf-8"))["items"]
    assert snapshot.captured_at == max(lease["spec"]["renewTime"] for lease in leases)
    assert snapshot.source.captured_at_source == "newest object"


def test_etcd_keeps_what_a_backup_command_needs_and_no_peer_addresses() -> None:
    flags = {fact.name: fact.values for fact in of(read("before"), "etcd")[0].flags}
    for name in ("listen-client-urls", "cert-file", "key-file", "trusted-ca-file", "data-dir"):
        assert flags[name]
    assert flags["initial-cluster"] is None


def test_nodes() -> None:
    snapshot = read("before")
    nodes = {item.name: item for item in snapshot.nodes}
    assert [(taint.key, taint.effect) for taint in nodes["cp-1"].taints] == [
        ("node-role.kubernetes.io/control-plane", "NoSchedule")
    ]
    assert nodes["cp-1"].roles == ("control-plane",)
    assert nodes["cp-1"].provider == "kubemark"
    assert nodes["old-gpu-1"].allocatable["example.com/legacy-gpu"] == "4"
    assert sum(item.pod_count or 0 for item in snapshot.nodes) == 36
    assert nodes["cp-1"].declared_features


def test_asked_for_is_not_proven_in_the_middle() -> None:
    snapshot = read("mid")
    first = [item for item in snapshot.components if item.node == "cp-1" and item.kind == "static pod"]
    assert {item.component: item.version for item in first} == {
        "kube-apiserver": "v1.37.2",
        "kube-controller-manager": "v1.37.2",
        "kube-scheduler": "v1.37.2",
        "etcd": "v3.7.0",
    }
    assert {(item.running_version, item.phase, item.state) for item in first} == {(None, "Pending", None)}
    others = [item for item in of(snapshot, "kube-apiserver") if item.node != "cp-1"]
    assert {item.running_version for item in others} == {"v1.36.3"}
    assert snapshot.cluster.server_version == "v1.37.2"


def test_after_what_moved_and_what_did_not() -> None:
    snapshot = read("after")
    assert {item.running_version for item in of(snapshot, "kube-apiserver")} == {"v1.37.2"}
    assert {item.running_version for item in of(snapshot, "kubelet")} == {"v1.37.2"}
    assert {item.running_version for item in of(snapshot, "etcd")} == {"v3.7.0"}
    assert {item.running_version for item in of(snapshot, "kube-proxy")} == {"v1.36.3"}
    kubeadm = next(fact for fact in snapshot.config_maps if fact.kind == "kubeadm")
    assert kubeadm.kubernetes_version == "v1.36.3"
    assert kubeadm.component_gates["kube-apiserver"].gates["SidecarContainers"] is True
    assert of(snapshot, "kube-scheduler")[2].feature_gates == {"DRADeviceTaintRules": True}


def test_the_same_input_gives_the_same_bytes_in_any_language() -> None:
    from changegen.i18n import language

    first = canonical(read("before"))
    with language("zh-CN"):
        second = canonical(build_snapshot(read_input(ROOT / "before")))
    assert first == second


def test_what_the_caller_knows_is_taken() -> None:
    options = Options(
        kind="live",
        captured_at="2026-12-01T03:00:00Z",
        captured_at_source="clock",
        cluster_name="ctx",
        cluster_name_source="kubeconfig context",
        requests=("GET /b 1", "GET /a 2"),
    )
    snapshot = build_snapshot(read_input(ROOT / "before"), options)
    assert (snapshot.captured_at, snapshot.source.captured_at_source) == ("2026-12-01T03:00:00Z", "clock")
    assert snapshot.source.requests == ("GET /a 2", "GET /b 1")
    assert snapshot.source.files == ()
    assert snapshot.cluster.name == "prod-a"
    given = build_snapshot(read_input(ROOT / "before"), Options(cluster_name="mine"))
    assert (given.cluster.name, given.cluster.name_source) == ("mine", "given")


def test_nothing_of_a_certificate_or_a_kubeconfig_comes_in() -> None:
    text = canonical(read("before")).decode()
    assert "BEGIN CERTIFICATE" not in text
    assert "tokenFile" not in text
    assert "etcd-servers" in text
    assert "https://127.0.0.1:2379" not in str(of(read("before"), "kube-apiserver"))


# ------------------------------------------------------------------------------------------------------------- forms

Writer = Callable[[Path], Path]


def objects() -> dict[str, Any]:
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "before").glob("*.json"))
    }


def as_yaml(folder: Path) -> Path:
    for name, value in objects().items():
        text = yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
        (folder / name.replace(".json", ".yaml")).write_text(text, encoding="utf-8")
    copy_texts(folder)
    return folder


def copy_texts(folder: Path) -> None:
    for path in (ROOT / "before").glob("*.txt"):
        (folder / path.name).write_bytes(path.read_bytes())


def as_tarball(folder: Path) -> Path:
    target = folder / "capture.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted((ROOT / "before").iterdir()):
            archive.add(path, arcname=f"capture/{path.name}")
    return target


def as_one_stream(folder: Path) -> Path:
    """One file of many values; what only a file's name tells (the kind of an empty list, a namespace) keeps its file."""
    stream = []
    for name, value in objects().items():
        if value.get("items") == [] or name == "configmaps-kube-system.json":
            (folder / name).write_text(json.dumps(value), encoding="utf-8")
        else:
            stream.append(json.dumps(value))
    (folder / "all.json").write_text("\n".join(stream), encoding="utf-8")
    copy_texts(folder)
    return folder


def as_typed_lists_without_kinds(folder: Path) -> Path:
    kinds = {"events": "EventList", "pods": "PodList", "nodes": "NodeList", "daemonsets": "DaemonSetList"}
    for name, value in objects().items():
        written = value
        if name.removesuffix(".json") in kinds:
            version = value["items"][0]["apiVersion"]
            for item in value["items"]:
                del item["kind"], item["apiVersion"]
            kind = kinds[name.removesuffix(".json")]
            written = {"kind": kind, "apiVersion": version, "items": value["items"]}
        (folder / name).write_text(json.dumps(written), encoding="utf-8")
    copy_texts(folder)
    return folder


def comparable(snapshot: Snapshot) -> dict[str, Any]:
    """Everything but where it was read."""
    value = json.loads(canonical(snapshot))
    del value["source"]
    return without_places(value)  # type: ignore[no-any-return]


def without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items() if key != "place"}
    return [without_places(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("write", [as_yaml, as_tarball, as_one_stream, as_typed_lists_without_kinds])
def test_the_same_cluster_in_another_form_gives_the_same_snapshot(write: Writer, tmp_path: Path) -> None:
    other = build_snapshot(read_input(write(tmp_path)))
    assert comparable(other) == comparable(read("before"))


DUMPED = ("pods", "daemonsets", "deployments", "events")


def as_dump(folder: Path) -> Path:
    """A cluster-info dump: Nodes, and per namespace the kinds that it holds; no discovery, texts or device objects."""
    everything = objects()
    spaces = [item["metadata"]["name"] for item in everything["namespaces.json"]["items"]]
    kinds = {"pods": "Pod", "daemonsets": "DaemonSet", "deployments": "Deployment", "events": "Event"}
    versions = {"pods": "v1", "events": "v1", "daemonsets": "apps/v1", "deployments": "apps/v1"}

    def write(path: Path, kind: str, version: str, items: list[Any]) -> None:
        for item in items:
            del item["kind"], item["apiVersion"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"kind": f"{kind}List", "apiVersion": version, "items": items or None}))

    for name, kind in kinds.items():
        grouped: dict[str, list[Any]] = {space: [] for space in spaces}
        for item in everything[f"{name}.json"]["items"]:
            grouped[item["metadata"]["namespace"]].append(item)
        for space, items in grouped.items():
            write(folder / space / f"{name}.json", kind, versions[name], items)
    for space in spaces:
        (folder / space / "replication-controllers.json").write_text(
            '{"kind":"ReplicationControllerList","apiVersion":"v1","items":null}'
        )
    write(folder / "nodes.json", "Node", "v1", everything["nodes.json"]["items"])
    return folder


def test_a_cluster_info_dump_gives_the_same_apart_from_what_it_lacks(tmp_path: Path) -> None:
    dump, whole = build_snapshot(read_input(as_dump(tmp_path))), read("before")
    assert dump.source.layout == "cluster-info dump"
    lacking = {item.what for item in dump.unobserved}
    read_kinds = {"pods", "nodes", "events", "daemonsets.apps", "deployments.apps"}
    assert not lacking & read_kinds
    assert {kind for kind in whole.kinds_read if kind not in read_kinds} <= lacking
    keep = {
        "image",
        "image_id",
        "running_version",
        "state",
        "flags",
        "phase",
        "ready",
        "kind",
        "node",
        "version",
    }
    for mine, theirs in zip(dump.components, whole.components, strict=True):
        assert {name: getattr(mine, name) for name in keep} == {name: getattr(theirs, name) for name in keep}
        if mine.kind == "static pod":
            assert mine.feature_gates == theirs.feature_gates
        else:  # their gates are in ConfigMaps
            assert mine.feature_gates == "unobservable"
    assert dump.nodes == whole.nodes
    assert dump.events == whole.events
    assert dump.cluster.server_version is None
    assert dump.cluster.distribution == "kubeadm"


# ------------------------------------------------------------------------------------------------------------ renaming

NAMES = {
    **{f"cp-{n}": f"tower-{n}.dc.example.net" for n in (1, 2, 3)},
    **{f"gpu-{n}": f"rig-{n}" for n in (1, 2, 3)},
    "old-gpu-1": "attic-9",
    "cpu-1": "plain-4",
    "ml": "research",
    "dra-example-driver": "fabric-agent",
    "gpu.example.com": "accel.weft.test",
    "dra.net": "wire.weft.test",
    "example.com/gpu": "weft.test/accel",
    "example.com/legacy-gpu": "weft.test/antique",
    "prod-a": "blue-7",
}
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9.])(?:"
    + "|".join(re.escape(name) for name in sorted(NAMES, key=len, reverse=True))
    + r")(?![A-Za-z0-9])"
)
_BACK = {new: old for old, new in NAMES.items()}
_BACK_TOKEN = re.compile("|".join(re.escape(name) for name in sorted(_BACK, key=len, reverse=True)))


def test_no_answer_is_tied_to_a_name(tmp_path: Path) -> None:
    for path in (ROOT / "before").iterdir():
        text = _TOKEN.sub(lambda found: NAMES[found[0]], path.read_text(encoding="utf-8"))
        text = text.replace("/etc/kubernetes/manifests", "/srv/static")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    renamed = canonical(build_snapshot(read_input(tmp_path))).decode()
    assert not {found[0] for found in _TOKEN.finditer(renamed)}
    assert "/etc/kubernetes/manifests" not in renamed
    assert "/srv/static/kube-apiserver.yaml" in renamed
    assert not {new for new in NAMES.values() if new not in renamed}
    back = _BACK_TOKEN.sub(lambda found: _BACK[found[0]], renamed).replace(
        "/srv/static", "/etc/kubernetes/manifests"
    )
    old, new = json.loads(canonical(read("before"))), json.loads(back)
    for part in ("drivers", "workloads", "driver_rights"):  # a known project is known by its image
        del old[part], new[part]
    assert list(_differences(settled(old), settled(new))) == []


def settled(value: Any) -> Any:
    """Lists in an order that does not hang on names."""
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((settled(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _differences(old: Any, new: Any, path: str = "") -> Iterable[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _differences(left, right, f"{path}[{index}]")
    elif old != new:
        yield f"{path}: {old!r} {new!r}"
