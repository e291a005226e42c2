"""changegen's own readings of a real cluster: live, from captures of it, and with the least rights."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane import dra, kubeadm, record, scene
from tests.controlplane.cluster import Cluster
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

# What depends on the moment or names the place of a reading, in any part of a snapshot.
OF_THE_READING = {"place", "evidence", "renewed", "captured_at", "gate_sources", "manifest"}
# What a capture may lack: these parts come from calls that `kubectl get` does not save.
FROM_CALLS = {
    "apis",
    "processes",
    "source",
    "kinds_read",
    "namespaces_read",
    "unobserved",
    "driver_rights",
    "leases",
}


def snapshot_of(*arguments: str | Path, folder: Path, **rest: Any) -> dict[str, Any]:
    output = folder / "snapshot.json"
    changegen("snapshot", *arguments, "-o", output, **rest)
    return dict(json.loads(output.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def live(scene_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return snapshot_of(
        "--configz", folder=tmp_path_factory.mktemp("live"), kubeconfig=scene_cluster.admin_kubeconfig
    )


def gates(text: str) -> dict[str, bool]:
    return {name: value == "true" for name, _, value in (item.partition("=") for item in text.split(","))}


def test_instances_are_those_of_the_manifests(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    found = {
        (item["component"], item["node"]): item
        for item in live["components"]
        if item["component"] in CONTROL_PLANE
    }
    masters = [node.name for node in scene_cluster.plan.control_planes]
    assert set(found) == {(component, node) for component in CONTROL_PLANE for node in masters}
    for (component, node), item in found.items():
        manifest = scene_cluster.manifest(node, component)
        flags = dict(
            flag.removeprefix("--").split("=", 1) for flag in kubeadm.flags_of(yaml.safe_dump(manifest))
        )
        given = flags.get("feature-gates")
        assert item["feature_gates"] == (gates(given) if given else {}), (component, node)
        assert item["instance"] == f"kube-system/{component}-{node}"
        assert item["image"] == manifest["spec"]["containers"][0]["image"]
        assert item["version"] == ("v3.6.8" if component == "etcd" else "v1.36.3")
        assert [flag["name"] for flag in item["flags"]] == list(flags)


def test_kubelets_are_what_they_were_started_with(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    kubelets = {item["node"]: item for item in live["components"] if item["component"] == "kubelet"}
    assert set(kubelets) == set(scene_cluster.nodes)
    assert scene_cluster.plan.kubelet is not None
    for item in kubelets.values():
        assert item["version"] == "v1.36.3"
        assert item["feature_gates"] == scene_cluster.plan.kubelet["featureGates"]
        assert item["gates_certainty"] == "effective"


def test_devices_are_those_that_were_published(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    assert {item["name"] for item in live["device_classes"]} == {"dra.net", "gpu.example.com"}
    assert {(pool["driver"], pool["name"]) for pool in live["pools"]} == {
        (driver, node) for driver in ("dra.net", "gpu.example.com") for node in ("gpu-1", "gpu-2", "gpu-3")
    }
    assert [rule["name"] for rule in live["taint_rules"]] == ["maint-gpu-3"]
    claims = {
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in scene_cluster.api.items("/apis/resource.k8s.io/v1/resourceclaims")
    }
    assert {(claim["namespace"], claim["name"]) for claim in live["claims"]} == claims
    nodes = {node["name"]: node for node in live["nodes"]}
    assert nodes["old-gpu-1"]["allocatable"]["example.com/legacy-gpu"] == "4"
    assert not live["unobserved"]


def test_configuration_is_what_kubeadm_was_given(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    maps = {item["kind"]: item for item in live["config_maps"]}
    cluster = maps["kubeadm"]
    assert (cluster["kubernetes_version"], cluster["cluster_name"]) == ("v1.36.3", "prod-a")
    given = scene.configuration(removed_gate=True)
    sections = {
        "apiServer": "kube-apiserver",
        "controllerManager": "kube-controller-manager",
        "scheduler": "kube-scheduler",
    }
    for section, component in sections.items():
        arguments = {entry["name"]: [entry["value"]] for entry in given[section]["extraArgs"]}
        seen = {flag["name"]: flag["values"] for flag in cluster["component_flags"][component]}
        assert seen == arguments
        assert cluster["component_gates"][component]["gates"] == gates(arguments["feature-gates"][0])
    assert scene_cluster.plan.kubelet is not None
    assert (
        maps["kubelet"]["component_gates"]["kubelet"]["gates"] == scene_cluster.plan.kubelet["featureGates"]
    )
    assert maps["kube-proxy"]["component_gates"]["kube-proxy"]["gates"] == {}


def test_the_answering_apiserver_is_read_as_it_runs(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    assert live["cluster"]["server_version"] == "v1.36.3"
    assert live["cluster"]["distribution"] == "kubeadm"
    sources = {item["provenance"]: item for item in live["processes"]}
    assert sources["flagz"]["flag_gates"]["gates"] == {"DRADeviceTaintRules": True, "SidecarContainers": True}
    assert sources["flagz"]["runtime_config"] == ["resource.k8s.io/v1beta2=true"]
    text = scene_cluster.api.text("/metrics")
    effective = {
        name: value == "1"
        for name, value in re.findall(
            r'^kubernetes_feature_enabled\{name="(\w+)",[^}]*\} (\d)', text, re.MULTILINE
        )
    }
    assert len(effective) > 100
    assert sources["metric"]["effective_gates"] == effective
    served = {entry["group_version"] for entry in live["apis"]}
    groups = scene_cluster.api.get("/apis")["groups"]
    assert served == {"v1", *(entry["groupVersion"] for group in groups for entry in group["versions"])}


def test_taints_are_those_of_the_nodes(scene_cluster: Cluster, live: Mapping[str, Any]) -> None:
    seen = {
        node["name"]: {f"{t['key']}={t['value']}:{t['effect']}" for t in node["taints"]}
        for node in live["nodes"]
    }
    for name, node in scene_cluster.nodes.items():
        master = {"node-role.kubernetes.io/control-plane=:NoSchedule"} if node.control_plane else set()
        assert seen[name] == {*node.taints, *master}


def weaker(full: Any, part: Any, path: str = "") -> Iterator[str]:
    """Where ``part`` says something else than ``full``; to say nothing (null, "unobservable") is no difference."""
    if part is None or part == "unobservable":
        return
    if isinstance(full, dict) and isinstance(part, dict):
        for key, value in part.items():
            if key not in OF_THE_READING:
                yield from weaker(full.get(key), value, f"{path}.{key}")
    elif isinstance(full, list) and isinstance(part, list) and len(full) == len(part):
        for number, (one, other) in enumerate(zip(full, part, strict=True)):
            yield from weaker(one, other, f"{path}[{number}]")
    elif isinstance(full, str) and isinstance(part, str) and part.endswith("(inferred from the name)"):
        if not part.startswith(full):
            yield f"{path}: {full!r} and {part!r}"
    elif full != part:
        yield f"{path}: {full!r} and {part!r}"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_listings_say_the_same_as_the_cluster(
    form: str, scene_cluster: Cluster, live: Mapping[str, Any], tmp_path: Path
) -> None:
    capture = tmp_path / "capture"
    if form == "json":
        record.capture(scene_cluster, capture)
    else:
        capture.mkdir()
        for resource in record.RESOURCES:
            text = scene_cluster.kubectl("get", resource, "--all-namespaces", "-o", "yaml")
            (capture / f"{resource}.yaml").write_text(text, encoding="utf-8")
        maps = scene_cluster.kubectl("get", "configmaps", "-n", "kube-system", "-o", "yaml")
        (capture / "configmaps.yaml").write_text(maps, encoding="utf-8")
    read = snapshot_of(capture, folder=tmp_path)
    differences = [
        line
        for part in live
        if part not in FROM_CALLS | OF_THE_READING
        for line in weaker(live[part], read[part], part)
        # With --configz the live reading knows more certainly what the ConfigMap only intends.
        if not any(word in line for word in (".gates_certainty:", ".feature_gates_source:"))
    ]
    assert differences == []
    assert all(gap["reason"] == "not-in-capture" and not gap["failed"] for gap in read["unobserved"])


def test_a_cluster_info_dump_says_what_it_has(
    scene_cluster: Cluster, live: Mapping[str, Any], tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    scene_cluster.kubectl("cluster-info", "dump", "--all-namespaces", f"--output-directory={dump}")
    read = snapshot_of(dump, folder=tmp_path)
    assert [item["instance"] for item in read["components"]] == [
        item["instance"] for item in live["components"]
    ]
    for seen, full in zip(read["components"], live["components"], strict=True):
        assert seen["version"] == full["version"]
        assert seen["feature_gates"] in (full["feature_gates"], "unobservable")
        if full["component"] in CONTROL_PLANE:
            assert seen["feature_gates"] == full["feature_gates"]
    gaps = {gap["what"] for gap in read["unobserved"]}
    lacking = {"resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules"}
    assert {f"{name}.resource.k8s.io" for name in lacking} | {"kubelet feature gates", "/version"} <= gaps


@pytest.fixture(scope="module")
def rights() -> list[dict[str, Any]]:
    printed = changegen("rbac", "--configz", "--service-account", "audit/changegen").stdout
    return list(yaml.safe_load_all(printed))


@pytest.fixture(scope="module")
def reader(scene_cluster: Cluster, rights: list[dict[str, Any]]) -> Path:
    """A kubeconfig of a ServiceAccount with exactly the rights that changegen prints."""
    scene_cluster.kubectl("create", "namespace", "audit")
    scene_cluster.kubectl("-n", "audit", "create", "serviceaccount", "changegen")
    scene_cluster.apply(*rights)
    return scene_cluster.service_account_kubeconfig("audit", "changegen")


USER = "system:serviceaccount:audit:changegen"


def test_the_printed_rights_suffice_and_nothing_else_is_asked(
    scene_cluster: Cluster, reader: Path, live: Mapping[str, Any], tmp_path: Path
) -> None:
    read = snapshot_of("--configz", folder=tmp_path, kubeconfig=reader)
    assert read["unobserved"] == []
    assert list(weaker(live["components"], read["components"])) == []
    changegen("rbac", "--configz", "--check", kubeconfig=reader)
    changegen("ticket", "--to", "1.37.2", "-o", tmp_path / "ticket.json", kubeconfig=reader)

    def asked() -> list[dict[str, Any]]:
        return scene_cluster.audit_events(USER)

    wait_for("audit events", asked)
    for event in asked():
        target = event.get("objectRef", {})
        if target.get("resource") == "selfsubjectaccessreviews":
            assert event["verb"] == "create"
            continue
        assert event["verb"] in {"get", "list"}, event
        assert target.get("resource") != "secrets", event
        assert event["responseStatus"]["code"] < 400 or event["responseStatus"]["code"] == 404, event


def test_the_requests_that_are_told_are_those_of_the_audit_log(
    scene_cluster: Cluster, reader: Path, tmp_path: Path
) -> None:
    earlier = len(scene_cluster.audit_events(USER))
    read = snapshot_of("--configz", folder=tmp_path, kubeconfig=reader)
    told = {
        (method, path): int(count)
        for method, path, count in (line.split(" ") for line in read["source"]["requests"])
    }

    def asked() -> Counter[tuple[str, str]]:
        methods = {"get": "GET", "list": "GET", "create": "POST"}
        return Counter(
            (methods[event["verb"]], event["requestURI"].partition("?")[0])
            for event in scene_cluster.audit_events(USER)[earlier:]
        )

    wait_for("the audit log", lambda: asked().total() >= sum(told.values()))
    assert asked() == told
    # What is no object of the API: these paths, which the printed rights name.
    printed = changegen("rbac", "--configz").stdout
    for _, path in told:
        if not path.startswith("/api"):
            assert path in printed, path


def rules(documents: list[dict[str, Any]]) -> Iterator[tuple[str, int, int, str]]:
    """Every resource or path of every rule: (its name, document, rule, entry)."""
    for number, document in enumerate(documents):
        for position, rule in enumerate(document.get("rules", [])):
            for key in ("resources", "nonResourceURLs"):
                for entry in rule.get(key, []):
                    group = rule.get("apiGroups", [""])[0]
                    yield (f"{entry}.{group}" if group else entry), number, position, entry


def without(document: dict[str, Any], position: int, entry: str) -> dict[str, Any]:
    changed = json.loads(json.dumps(document))
    rule = changed["rules"][position]
    key = "resources" if "resources" in rule else "nonResourceURLs"
    rule[key].remove(entry)
    if not rule[key]:
        changed["rules"].remove(rule)
    return dict(changed)


def test_each_missing_right_is_reported(
    scene_cluster: Cluster, rights: list[dict[str, Any]], reader: Path, tmp_path: Path
) -> None:
    served = {resource for resource, *_ in rules(rights)}
    assert len(served) > 25
    silent = []
    for name, number, position, entry in rules(rights):
        if name.startswith(("compositepodgroups", "podgroups", "workloads")):
            # These are asked for only where they are served, and no release of this cluster's minor serves them.
            assert scene_cluster.api.find("/apis/scheduling.k8s.io/v1beta1") is None
            continue
        scene_cluster.apply(without(rights[number], position, entry))
        try:
            reported = _forbidden(reader, tmp_path, entry)
        finally:
            scene_cluster.apply(rights[number])
        if not reported:
            silent.append(name)
    assert silent == []


def test_a_missing_right_is_no_failure_where_that_is_allowed(
    scene_cluster: Cluster, rights: list[dict[str, Any]], reader: Path, tmp_path: Path
) -> None:
    name, number, position, entry = next(rule for rule in rules(rights) if rule[0].startswith("leases"))
    scene_cluster.apply(without(rights[number], position, entry))
    try:
        assert _forbidden(reader, tmp_path, entry), name
        ticket = tmp_path / "ticket.json"
        for code, more in ((4, ()), (0, ("--allow-partial",))):
            changegen(
                "snapshot", "--configz", "-o", tmp_path / "s.json", *more, kubeconfig=reader, expect=code
            )
            changegen("ticket", "--to", "1.37.2", "-o", ticket, *more, kubeconfig=reader, expect=code)
        assert any("leases" in line for line in json.loads(ticket.read_text(encoding="utf-8"))["unobserved"])
    finally:
        scene_cluster.apply(rights[number])


def _forbidden(reader: Path, folder: Path, entry: str) -> bool:
    """Whether a snapshot exits with 4 and names ``entry`` as forbidden; rights take a moment to reach the authoriser."""
    output = folder / "snapshot.json"
    for _ in range(4):
        done = changegen("snapshot", "--configz", "-o", output, kubeconfig=reader, expect=None)
        gaps = json.loads(output.read_text(encoding="utf-8"))["unobserved"]
        if done.returncode == 4 and any(
            gap["reason"] == "forbidden" and gap["failed"] and _about(gap, entry) for gap in gaps
        ):
            return True
    return False


def _about(gap: Mapping[str, Any], entry: str) -> bool:
    word = entry.partition("/")[2] if entry == "nodes/proxy" else entry
    return any(name in f"{gap['what']} {gap['place']} {gap['detail']}" for name in (entry, word))


def test_a_token_that_may_do_nothing(scene_cluster: Cluster, tmp_path: Path) -> None:
    scene_cluster.kubectl("create", "serviceaccount", "nobody")
    kubeconfig = scene_cluster.service_account_kubeconfig("default", "nobody")
    output = tmp_path / "snapshot.json"
    done = changegen("snapshot", "-o", output, kubeconfig=kubeconfig, expect=1)
    assert "refuses everything" in done.stderr
    assert "changegen rbac" in done.stderr
    assert not output.exists()


def test_the_scheduler_s_own_words_are_in_the_snapshot(
    scene_cluster: Cluster, live: Mapping[str, Any]
) -> None:
    words = dra.unschedulable(scene_cluster.api, "ml", "too-big")
    assert words in json.dumps(live["pods"])
