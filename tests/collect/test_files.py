"""Inputs as people have them: layouts, wrappings, archives, encodings, and what is broken."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import io
import json
import lzma
import os
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changegen.collect import files
from changegen.collect.documents import (
    KUBELET_CONFIGZ,
    VERSION_INFO,
    Document,
    InputSeen,
    ListSeen,
    Problem,
    RawText,
    Reason,
    Record,
    SnapshotFile,
)
from changegen.collect.files import read_input
from changegen.errors import InputError

CASES = Path(__file__).parents[1] / "data" / "cases"
CAPTURES = (
    "aggregated-api-down",
    "anchors-tabs-lists",
    "cluster-info-dump",
    "control-characters",
    "duplicate-keys",
    "forbidden-partly",
    "minor-with-plus",
    "must-gather-layout",
    "support-bundle-layout",
    "truncated-file",
    "utf8-bom-crlf",
)
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def case(name: str, *parts: str) -> Path:
    return CASES.joinpath(name, "input", *parts)


def records(*inputs: str | Path) -> list[Record]:
    return list(read_input(list(inputs)))


def documents(found: Iterable[Record], kind: str = "") -> list[Document]:
    return [record for record in found if isinstance(record, Document) and kind in {"", record.kind}]


def names(found: Iterable[Record], kind: str) -> list[str]:
    return [document.plain().get("metadata", {}).get("name", "") for document in documents(found, kind)]


def lists(found: Iterable[Record]) -> dict[str, ListSeen]:
    return {record.resource: record for record in found if isinstance(record, ListSeen)}


def problems(found: Iterable[Record], reason: Reason | None = None) -> list[Problem]:
    return [record for record in found if isinstance(record, Problem) and reason in {None, record.reason}]


def failures(found: Iterable[Record]) -> list[Problem]:
    return [problem for problem in problems(found) if problem.failed]


def texts(found: Iterable[Record]) -> list[RawText]:
    return [record for record in found if isinstance(record, RawText)]


def layout(found: list[Record]) -> str:
    last = found[-1]
    assert isinstance(last, InputSeen)
    return last.layout


def from_text(tmp_path: Path, name: str, text: str | bytes) -> list[Record]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return records(path)


def node(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **more}


def pod(name: str, namespace: str = "ml") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
        "status": {},
    }


def a_list(*items: Any, kind: str = "List", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "items": list(items), "kind": kind, "metadata": {}}


# ------------------------------------------------------------------------------------------------------ shapes of lists


def test_items_of_a_typed_list_take_its_kind(tmp_path: Path) -> None:
    item = {"metadata": {"name": "a", "namespace": "ml"}}
    found = from_text(tmp_path, "x.json", json.dumps(a_list(item, kind="DaemonSetList", version="apps/v1")))
    (document,) = documents(found)
    assert (document.kind, document.api_version, document.place) == (
        "DaemonSet",
        "apps/v1",
        "x.json items[0]",
    )
    assert lists(found)["daemonsets.apps"].count == 1


@pytest.mark.parametrize("items", ["null", "[]"])
def test_an_empty_typed_list_is_an_answer(tmp_path: Path, items: str) -> None:
    found = from_text(
        tmp_path,
        "x.json",
        '{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1","items":' + items + "}",
    )
    assert documents(found) == []
    seen = lists(found)["resourceslices.resource.k8s.io"]
    assert (seen.count, seen.api_version, seen.complete) == (0, "resource.k8s.io/v1", True)


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("resourceclaimtemplates.json", "resourceclaimtemplates.resource.k8s.io"),
        ("replication-controllers.yaml", "replicationcontrollers"),
        ("resourceslices.resource.k8s.io.json", "resourceslices.resource.k8s.io"),
        ("Pod.json", "pods"),
        ("configmaps-kube-system.json", "configmaps"),
    ],
)
def test_of_an_empty_untyped_list_the_name_tells_the_kind(tmp_path: Path, name: str, resource: str) -> None:
    found = from_text(tmp_path, name, json.dumps(a_list()))
    seen = lists(found)[resource]
    assert seen.count == 0
    assert seen.api_version == "", "the version it was listed with is not known"


def test_an_empty_list_of_what_nothing_tells_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "stuff.json").write_text(json.dumps(a_list()))
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a"))))
    found = records(tmp_path)
    assert set(lists(found)) == {"nodes"}
    assert [problem.place for problem in problems(found, Reason.EMPTY)] == ["stuff.json"]


def test_a_mixed_list_is_a_list_of_each_kind(tmp_path: Path) -> None:
    found = from_text(tmp_path, "all.json", json.dumps(a_list(node("a"), pod("p"), node("b"))))
    assert {name: seen.count for name, seen in lists(found).items()} == {"nodes": 2, "pods": 1}


def test_a_name_that_tells_a_namespace_must_agree_with_the_items(tmp_path: Path) -> None:
    agrees = from_text(tmp_path, "pods-ml.json", json.dumps(a_list(pod("a"), pod("b"))))
    assert lists(agrees)["pods"].namespace == "ml"
    differs = from_text(tmp_path, "pods-before.json", json.dumps(a_list(pod("a"), pod("b", "other"))))
    assert lists(differs)["pods"].namespace is None


def test_lists_in_lists_and_what_is_no_object() -> None:
    found = records(case("anchors-tabs-lists", "mixed.yaml"))
    assert names(found, "Node") == ["w-1", "w-2"]
    assert failures(found) == []
    assert len(problems(found, Reason.NOT_KUBERNETES)) == 2


def test_bare_arrays(tmp_path: Path) -> None:
    path = tmp_path / "cluster-resources/pods/ml.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([{"metadata": {"name": "a"}}]))
    for name in ("deployments/ml.json", "resourceslices.json"):
        (tmp_path / "cluster-resources" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "cluster-resources" / name).write_text(path.read_text())
    found = records(tmp_path)
    assert [(document.kind, document.api_version, document.namespace) for document in documents(found)] == [
        ("Deployment", "apps/v1", "ml"),
        ("Pod", "v1", "ml"),
        ("ResourceSlice", "resource.k8s.io/", ""),
    ]
    assert set(lists(found)) == {"deployments.apps", "pods", "resourceslices.resource.k8s.io"}
    discovery = [{"groupVersion": "v1", "resources": []}, {"groupVersion": "apps/v1", "resources": []}]
    found = from_text(tmp_path / "d", "resources.json", json.dumps(discovery))
    assert [document.kind for document in documents(found)] == ["APIResourceList"] * 2


def test_a_stream_of_values_with_text_around(tmp_path: Path) -> None:
    text = f"Warning: v1 ComponentStatus is deprecated in v1.19+\n{json.dumps(node('a'))}{json.dumps(node('b'), indent=1)}\n"
    found = from_text(tmp_path, "x.json", text + json.dumps(a_list(node("c"))) + "\n$ exit\n")
    assert names(found, "Node") == ["a", "b", "c"]
    assert failures(found) == []


def test_several_yaml_documents(tmp_path: Path) -> None:
    found = from_text(tmp_path, "x.yaml", f"{yaml.dump(node('a'))}---\n# none\n---\n{yaml.dump(node('b'))}")
    assert names(found, "Node") == ["a", "b"]
    assert [document.place for document in documents(found)] == ["x.yaml:1", "x.yaml:7"]


# ------------------------------------------------------------------------------------------- versions, discovery, configz


def test_the_servers_version_is_found_in_every_wrapping_and_the_clients_never(tmp_path: Path) -> None:
    found = records(case("minor-with-plus"))
    found += from_text(
        tmp_path, "version.txt", "Client Version: v1.37.2\nServer Version: v1.33.4-eks-e386d34\n"
    )
    versions = [document.plain()["gitVersion"] for document in documents(found, VERSION_INFO)]
    assert versions == ["v1.33.4-eks-e386d34"] * 3


def test_a_client_alone_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kubectl's own version only"):
        from_text(tmp_path, "version.json", '{"clientVersion":{"gitVersion":"v1.37.2"}}')


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("configz-gpu-1.json", "gpu-1"),
        ("gpu-1-configz.json", "gpu-1"),
        ("configz/ip-10-0-0-1.eu.internal.json", "ip-10-0-0-1.eu.internal"),
        ("hosts/gpu-1/configz.json", "gpu-1"),
        ("nodes/gpu-1/proxy/configz.json", "gpu-1"),
        ("kubelet-configz.json", ""),
    ],
)
def test_a_configz_knows_its_node_by_its_path(tmp_path: Path, path: str, subject: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text('{"kubeletconfig":{"featureGates":{"A":true}}}')
    (document,) = documents(records(tmp_path), KUBELET_CONFIGZ)
    assert document.subject == subject
    assert document.plain() == {"featureGates": {"A": True}}


def test_discovery_documents_are_handed_over_whole(tmp_path: Path) -> None:
    for name, kind in (("apis", "APIGroupList"), ("v1", "APIResourceList"), ("agg", "APIGroupDiscoveryList")):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"kind": kind, "items": [], "groups": [{"name": "x"}]})
        )
    found = records(tmp_path)
    assert sorted(document.kind for document in documents(found)) == [
        "APIGroupDiscoveryList",
        "APIGroupList",
        "APIResourceList",
    ]
    assert lists(found) == {}


@pytest.mark.parametrize(
    ("name", "text", "role", "component", "from_name"),
    [
        ("m.txt", "# HELP x y\n# TYPE x gauge\nx 1\n", "metrics", "", False),
        ("kube-scheduler-cp-1-metrics.txt", "# TYPE x gauge\nx 1\n", "metrics", "kube-scheduler", True),
        ("apiserver.prom", 'x{a="b c"} 1\n', "metrics", "kube-apiserver", True),
        ("f", "\napiserver flagz\nWarning: x\nv:2\n", "flagz", "kube-apiserver", False),
        ("s", "\r\nkube-scheduler statusz\r\nBinary version  1.36.3\r\n", "statusz", "kube-scheduler", False),
        ("r.txt", "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n", "readyz", "", False),
        ("r.txt", "[+]ping ok\nlivez check passed\n", "livez", "", False),
    ],
)
def test_text_of_endpoints_is_told_by_its_content(
    tmp_path: Path, name: str, text: str, role: str, component: str, from_name: bool
) -> None:
    (found,) = texts(from_text(tmp_path, name, text))
    assert (found.role, found.component, found.from_name) == (role, component, from_name)
    assert "\r" not in found.text


# ------------------------------------------------------------------------------------------------------------- layouts


def test_cluster_info_dump() -> None:
    found = records(case("cluster-info-dump", "dump"))
    assert layout(found) == "cluster-info dump"
    assert names(found, "Pod") == ["kube-apiserver-cp-1"]
    assert lists(found)["daemonsets.apps"].count == 0
    assert lists(found)["daemonsets.apps"].namespace == "kube-system"
    assert lists(found)["nodes"].namespace is None
    assert problems(found) == [], "logs are no source"
    assert "OldGate" not in str([document.plain() for document in documents(found)])


@pytest.mark.parametrize("form", ["folder", "tar.gz", "zip"])
@pytest.mark.parametrize(
    ("missing", "whole"),
    [("", True), ("kube-public", False), ("kube-node-lease", False), ("ml/pods.json", False)],
)
def test_a_cluster_info_dump_of_all_namespaces_is_told_by_the_systems(
    tmp_path: Path, form: str, missing: str, whole: bool
) -> None:
    empty = {"kind": "PodList", "apiVersion": "v1", "items": []}
    members = {"nodes.json": nodes_json("n1")}
    for space in ("default", "kube-node-lease", "kube-public", "kube-system", "ml"):
        for name, kind in (("pods", "Pod"), ("replication-controllers", "ReplicationController")):
            path = f"{space}/{name}.json"
            if not path.startswith(missing or "-"):
                members[path] = json.dumps(empty | {"kind": f"{kind}List"}).encode()
    path = tmp_path / f"x.{form}"
    if form == "folder":
        for name, data in members.items():
            from_text(path, name, data)
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        tarball(path, members)
    found = {
        record.namespace for record in records(path) if isinstance(record, ListSeen) and record.kind == "Pod"
    }
    assert (None in found) is whole
    assert "kube-system" in found


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_cluster_info_dump_to_stdout_is_the_same(tmp_path: Path, form: str) -> None:
    folder = case("cluster-info-dump", "dump")
    parts: list[str] = []
    for name in ("nodes.json", "kube-system/pods.json", "kube-system/daemonsets.json"):
        text = (folder / name).read_text()
        parts.append(text if form == "json" else yaml.dump(json.loads(text)) + "---\n")
    log = (
        '==== START logs for container kube-apiserver of pod kube-system/a ====\n{"level":"info","kind":"Pod"}\n'
        "{not json\n---\n\tkind: Node\n==== END logs for container kube-apiserver of pod kube-system/a ====\n"
    )
    found = from_text(tmp_path, "dump", log.join(parts))
    expected = records(folder)
    for kind in ("Node", "Pod"):
        assert [d.plain() for d in documents(found, kind)] == [d.plain() for d in documents(expected, kind)]
    assert failures(found) == []
    assert lists(found)["pods"].namespace == "kube-system"
    assert lists(found)["daemonsets.apps"].namespace == "", "of one namespace, nothing tells which"


def test_must_gather() -> None:
    found = records(case("must-gather-layout"))
    assert layout(found) == "must-gather"
    uids = [document.plain()["metadata"]["uid"] for document in documents(found, "Pod")]
    assert len(uids) == 2
    assert len(set(uids)) == 1, "the same Pod twice, for the consumer to see by its uid"
    assert documents(found, VERSION_INFO) == [], "its file named version is no Kubernetes version"
    assert "OldGate" not in str([document.plain() for document in documents(found)])
    assert lists(found)["nodes"].count == 1, "a folder of cluster-scoped objects is a listing"
    assert lists(found)["configmaps"].namespace == "openshift-kube-apiserver"
    assert failures(found) == []


def test_must_gather_lists_only_what_it_asks_for(tmp_path: Path) -> None:
    for folder, kind, version in (
        ("core/nodes", "Node", "v1"),
        (
            "apiextensions.k8s.io/customresourcedefinitions",
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
        ),
    ):
        path = tmp_path / "cluster-scoped-resources" / folder
        path.mkdir(parents=True)
        for name in ("a", "b"):
            content = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
            (path / f"{name}.yaml").write_text(yaml.dump(content))
    found = records(tmp_path)
    assert names(found, "CustomResourceDefinition") == ["a", "b"]
    assert {resource: seen.count for resource, seen in lists(found).items()} == {"nodes": 2}


def test_support_bundle() -> None:
    found = records(case("support-bundle-layout"))
    assert layout(found) == "support bundle"
    (version,) = documents(found, VERSION_INFO)
    assert version.plain()["gitVersion"] == "v1.36.4"
    (gap,) = failures(found)
    assert (gap.kind, gap.namespace, gap.code, gap.unobserved_reason) == ("Pod", "gpu-team", 403, "forbidden")
    assert lists(found)["pods"].namespace == "kube-system"
    assert len(problems(found, Reason.MASKED)) == 1


def test_sonobuoy(tmp_path: Path) -> None:
    slices = tmp_path / "resources/cluster/resource.k8s.io_v1_resourceslices.json"
    pods = tmp_path / "resources/ns/ml/core_v1_pods.json"
    for path, content in (
        (slices, {"items": [{"metadata": {"name": "s"}}]}),
        (pods, a_list(pod("a"))),
        (
            tmp_path / "resources/ns/ml/core_v1_secrets.json",
            a_list({"kind": "Secret", "data": {"x": "c2VjcmV0"}}),
        ),
        (tmp_path / "serverversion.json", {"gitVersion": "v1.36.4"}),
        (tmp_path / "hosts/gpu-1/configz.json", {"kubeletconfig": {}}),
        (tmp_path / "plugins/e2e/results/global/pods.json", a_list(pod("not-of-this-cluster"))),
        (tmp_path / "podlogs/ml/a/logs/c.txt", "kind: Pod"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    found = records(tmp_path)
    assert layout(found) == "sonobuoy"
    (document,) = documents(found, "ResourceSlice")
    assert document.api_version == "resource.k8s.io/v1"
    assert names(found, "Pod") == ["a"]
    assert lists(found)["pods"].namespace == "ml"
    assert len(problems(found, Reason.LEFT_OUT)) == 1
    assert "c2VjcmV0" not in str(found)


# ------------------------------------------------------------------------------------------------------ error answers


def test_a_stored_403_is_a_gap_and_no_empty_list() -> None:
    found = records(case("forbidden-partly"))
    (gap,) = failures(found)
    assert (gap.kind, gap.code, gap.unobserved_reason, gap.place) == ("Node", 403, "forbidden", "nodes.json")
    assert "nodes" not in lists(found)
    assert lists(found)["pods"].count == 1


def test_a_stored_503_is_an_error_answer_and_no_object() -> None:
    found = records(case("aggregated-api-down"))
    (gap,) = failures(found)
    assert (gap.code, gap.unobserved_reason) == (503, "error")
    assert [document.kind for document in documents(found)] == ["APIService"]


@pytest.mark.parametrize(
    ("text", "kind", "group", "namespace", "code", "failed"),
    [
        (
            'Error from server (Forbidden): cannot list resource "pods" in API group "" in the namespace "ml"\n',
            *("Pod", "", "ml", 403, True),
        ),
        (
            'error: the server doesn\'t have a resource type "devicetaintrules"\n',
            *("DeviceTaintRule", "resource.k8s.io", "", 404, False),
        ),
        ("Unable to connect to the server: EOF\n", *("ResourceSlice", "resource.k8s.io", "", 503, True)),
        (
            json.dumps(
                {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            ),
            *("ResourceSlice", "resource.k8s.io", "", 404, False),
        ),
    ],
)
def test_what_kubectl_complained_of_is_understood(
    tmp_path: Path, text: str, kind: str, group: str, namespace: str, code: int, failed: bool
) -> None:
    (tmp_path / "resourceslices.json").write_text(text)
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a"))))
    (gap,) = problems(records(tmp_path), Reason.STATUS_ERROR)
    assert (gap.kind, gap.group, gap.namespace, gap.code, gap.failed) == (
        kind,
        group,
        namespace,
        code,
        failed,
    )


# ------------------------------------------------------------------------------------------------------------ secrets


def test_secrets_and_kubeconfigs_are_never_handed_over(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "aHVudGVyMg=="}}
    (tmp_path / "all.json").write_text(json.dumps(a_list(node("a"), secret)))
    (tmp_path / "one.yaml").write_text(yaml.dump(secret))
    (tmp_path / "typed.json").write_text(
        json.dumps(a_list({"data": {"k": "aHVudGVyMg=="}}, kind="SecretList"))
    )
    (tmp_path / "conf").write_text("apiVersion: v1\nkind: Config\nusers: [{user: {token: aHVudGVyMg==}}]\n")
    (tmp_path / "admin.kubeconfig").write_text("token: aHVudGVyMg==")
    found = records(tmp_path)
    assert [document.kind for document in documents(found)] == ["Node"]
    assert len(problems(found, Reason.LEFT_OUT)) == 5
    assert failures(found) == []
    assert "aHVudGVyMg" not in str(found)


def test_a_namespace_may_be_called_secrets_or_logs(tmp_path: Path) -> None:
    for name in ("secrets", "logs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pods.json").write_text(json.dumps(a_list(pod("p", name), kind="PodList")))
    assert names(records(tmp_path), "Pod") == ["p", "p"]


# ----------------------------------------------------------------------------------------------------------- encodings


def test_windows_files() -> None:
    found = records(case("utf8-bom-crlf"))
    assert problems(found) == []
    assert names(found, "Pod") == ["kube-scheduler-cp-1", "kube-apiserver-cp-1"]
    for document in documents(found, "Pod"):
        assert document.plain()["apiVersion"] == "v1"
        assert "\\r" not in json.dumps(document.plain())
        assert "ufeff" not in json.dumps(document.plain())


@pytest.mark.parametrize(
    "mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8, codecs.BOM_UTF32_LE, b""]
)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_byte_order_marks(tmp_path: Path, mark: bytes, form: str) -> None:
    codec = {
        codecs.BOM_UTF16_LE: "utf-16-le",
        codecs.BOM_UTF16_BE: "utf-16-be",
        codecs.BOM_UTF8: "utf-8",
        codecs.BOM_UTF32_LE: "utf-32-le",
        b"": "utf-16-le",
    }[mark]
    value = a_list(node("w-1", note="é→"))
    text = json.dumps(value, ensure_ascii=False) if form == "json" else yaml.dump(value, allow_unicode=True)
    found = from_text(tmp_path, f"nodes.{form}", mark + text.replace("\n", "\r\n").encode(codec))
    assert [document.plain()["note"] for document in documents(found)] == ["é→"]
    assert problems(found) == []


def test_control_characters_and_latin1_are_replaced_with_a_remark() -> None:
    found = records(case("control-characters"))
    assert names(found, "Node") == ["w-1", "w-2"]
    assert failures(found) == []
    remarks = {problem.reason: problem.place for problem in problems(found)}
    assert remarks == {
        Reason.CONTROL_CHARACTERS: "bundle.yaml byte 110",
        Reason.ENCODING: "latin1.yaml byte 74",
    }
    assert "\x1b" not in str([document.plain() for document in documents(found)])


def test_a_far_bad_byte_is_found_across_chunks(tmp_path: Path) -> None:
    filler = "é" * 700_000
    data = json.dumps(node("a", note=filler), ensure_ascii=False).encode()
    at = len(data) - 20
    bad = data[:at] + b"\xe9" + data[at:]
    (problem,) = problems(from_text(tmp_path, "nodes.json", bad))
    assert problem.place in {f"nodes.json byte {at}", f"nodes.json byte {at - 1}"}
    assert problems(from_text(tmp_path, "fine.json", data)) == []


# ------------------------------------------------------------------------------------------------------------ bad files


def test_duplicate_keys_are_read_with_a_remark() -> None:
    found = records(case("duplicate-keys"))
    (document,) = documents(found, "DaemonSet")
    (container,) = document.plain()["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":v0.4.1")
    assert [problem.place for problem in problems(found, Reason.DUPLICATE_KEY)] == [
        "ds.yaml:13",
        "ds.yaml:18",
    ]
    assert failures(found) == []


def test_cut_files_are_noticed_and_the_rest_is_read() -> None:
    found = records(case("truncated-file"))
    assert names(found, "Node") == ["w-3"], "an annotation with broken JSON in it is no trouble"
    assert names(found, "Pod") == ["kube-apiserver-cp-1"], "half a Pod is not handed over"
    cut = {problem.place: problem for problem in problems(found, Reason.TRUNCATED)}
    assert set(cut) == {"nodes-cut.json", "pods-cut.yaml:48"}
    assert "byte 900" in cut["nodes-cut.json"].detail
    assert cut["pods-cut.yaml:48"].name == "kube-scheduler-cp-1"
    assert all(problem.failed for problem in cut.values())
    assert [problem.place for problem in problems(found, Reason.EMPTY)] == ["empty.yaml"]
    assert not any(
        record.complete for record in found if isinstance(record, ListSeen) and "cut" in record.place
    )


def test_an_empty_file_with_the_name_of_a_kind_is_a_failed_read(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text("\n")
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a"))))
    (gap,) = failures(records(tmp_path))
    assert (gap.reason, gap.kind) == (Reason.EMPTY, "Pod")


LIST = a_list(*(node(f"w-{n}", spec={"items": [1, {"x": "]}"}]}, status={"ok": n}) for n in range(4)))


@given(st.integers(1, 10_000), st.sampled_from(["List", "NodeList"]), st.booleans())
@LAW
def test_json_cut_anywhere_keeps_what_is_whole(tmp_path: Path, cut: int, kind: str, indent: bool) -> None:
    value = {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": LIST["items"]}
    text = json.dumps(value, indent=4 if indent else None)
    text = text[: cut % len(text)]
    try:
        found = from_text(tmp_path, "nodes.json", text)
    except InputError:
        return  # the cut left nothing at all
    whole = [document.plain() for document in documents(found)]
    assert whole == LIST["items"][: len(whole)]
    assert len(failures(found)) == 1
    assert len(whole) >= text.count('"ok"') - 1


def test_yaml_cut_anywhere_is_noticed(tmp_path: Path) -> None:
    text = yaml.dump(LIST)
    for cut in range(1, text.index("kind: List") + len("kind: List")):
        try:
            found = from_text(tmp_path, "nodes.yaml", text[:cut])
        except InputError:
            continue
        whole = [document.plain() for document in documents(found)]
        assert whole == LIST["items"][: len(whole)]
        assert len(failures(found)) == 1, f"cut at {cut}"
        assert not any(record.complete for record in found if isinstance(record, ListSeen))


def test_the_last_of_several_documents_may_be_half(tmp_path: Path) -> None:
    whole = [yaml.dump(node(name, spec={}, status={"x": 1})) for name in ("a", "b")]
    half = yaml.dump(node("c", spec={"podCIDR": "x"}))
    found = from_text(tmp_path, "nodes.yaml", "---\n".join([*whole, half]))
    assert names(found, "Node") == ["a", "b"]
    assert [problem.name for problem in problems(found, Reason.TRUNCATED)] == ["c"]


def test_syntax_in_the_middle_keeps_what_stands_before(tmp_path: Path) -> None:
    text = json.dumps(a_list(node("a"), node("b"), node("c"))).replace('"name": "b"', '"name": b')
    found = from_text(tmp_path, "nodes.json", text)
    assert names(found, "Node") == ["a"]
    (gap,) = failures(found)
    assert gap.reason is Reason.SYNTAX
    assert text[int(gap.place.rpartition(" ")[2])] == "b"


def test_odd_yaml_files_each_say_what_and_where() -> None:
    found = records(case("anchors-tabs-lists"))
    assert names(found, "Node") == ["w-1", "w-2"]
    assert {problem.place: problem.reason for problem in failures(found)} == {
        "bomb.yaml:6": Reason.ALIAS_BOMB,
        "tab.yaml:4": Reason.SYNTAX,
        "tag.yaml:3": Reason.UNSAFE_TAG,
    }


def test_deep_json_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a", x=json.loads("[" * 500 + "]" * 500)))))
    found = records(tmp_path)
    assert names(found, "Node") == ["a"]
    assert len(failures(found)) == 1


@given(st.binary(max_size=300))
@LAW
def test_no_bytes_stop_a_run(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "noise.json").write_bytes(data)
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a"))))
    assert names(records(tmp_path), "Node")[:1] == ["a"]


@given(st.text('{}[]",:antiems\\ 0', max_size=60))
@LAW
def test_no_json_like_text_stops_a_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "noise.json").write_text('{"kind": "NodeList", "items": [' + text)
    (tmp_path / "nodes.json").write_text(json.dumps(a_list(node("a"))))
    assert names(records(tmp_path), "Node")[:1] == ["a"]


# -------------------------------------------------------------------------------------------------- what is no input


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder") as caught:
        records(tmp_path / "none")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("notes.txt", "hello", "no Kubernetes object"),
        ("x.json", '{"a": 1}', "no Kubernetes object"),
        ("x.json", '{"schema": "changegen.ticket/v1"}', "a changegen ticket"),
        ("x.json", '{"schema": "changegen.snapshot/v7"}', "changegen.snapshot/v7"),
        ("x.json", '{"api_services":[],"apis":[', "snapshot that is cut off"),
        ("empty.json", "", "empty"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x00\x00\x00\x00\x00", "binary"),
    ],
)
def test_a_file_of_nothing_of_use_is_an_error(
    tmp_path: Path, name: str, text: str | bytes, says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        from_text(tmp_path, name, text)
    assert "\n" not in str(caught.value)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing of use"):
        records(tmp_path)


def test_a_snapshot_is_handed_over_as_it_is(tmp_path: Path) -> None:
    data = b'{"cluster":{},"schema":"changegen.snapshot/v1"}'
    for name, content in (("s.json", data), ("s.json.gz", gzip.compress(data))):
        path = tmp_path / name
        path.write_bytes(content)
        found = records(path)
        assert [record.data for record in found if isinstance(record, SnapshotFile)] == [data]
        assert layout(found) == "snapshot"


def test_a_snapshot_beside_a_capture_is_left_out_with_a_remark(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text('{"cluster":{},"schema":"changegen.snapshot/v1"}')
    (tmp_path / "nodes.json").write_bytes(nodes_json("a"))
    found = records(tmp_path)
    assert not any(isinstance(record, SnapshotFile) for record in found)
    assert [problem.place for problem in problems(found, Reason.LEFT_OUT)] == ["before.json"]
    assert layout(found) == "kubectl"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("readme.txt", "it's: [what I saw: 'today\n\t- x", "no Kubernetes object"),
        ("pods.txt", "NAME    READY   STATUS\ncp-1    1/1     Running\n", "table"),
        ("pods", "NAMESPACE   NAME   READY\nml   a   1/1\n", "table"),
    ],
)
def test_notes_and_tables_are_remarks_and_no_failed_reads(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / "nodes.json").write_bytes(nodes_json("a"))
    (tmp_path / name).write_text(text)
    (problem,) = problems(records(tmp_path))
    assert not problem.failed
    assert says in problem.detail


def test_many_remarks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(nodes_json("a"))
    (tmp_path / "lines.json").write_text('{"level": "info"}\n' * 500)
    found = problems(records(tmp_path))
    assert len(found) == files.MAX_REMARKS + 1
    assert str(500 - files.MAX_REMARKS) in found[-1].detail


def test_places_of_several_inputs_name_the_input(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b.json"
    first.mkdir()
    (first / "nodes.json").write_text(json.dumps(node("x")))
    second.write_text(json.dumps(node("y")))
    assert [document.place for document in documents(records(first, second))] == [
        "a/nodes.json",
        "b.json/b.json",
    ]


# ------------------------------------------------------------------------------------------------------------ archives


def tarball(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}


def meaning(found: Iterable[Record]) -> list[Any]:
    """Records without their places, in order."""
    result: list[Any] = []
    for record in found:
        if isinstance(record, Document):
            result.append((record.kind, record.api_version, record.namespace, record.subject, record.plain()))
        elif isinstance(record, InputSeen):
            result.append((record.layout, record.files))
        else:
            result.append(msgspec.structs.replace(record, place=""))
    return result


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.xz", "tar.bz2", "zip", "stdin"])
def test_an_archive_says_what_its_folder_says(tmp_path: Path, capture: str, form: str) -> None:
    folder = case(capture)
    members = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"), reverse=True)
        if path.is_file()
    }
    path = tmp_path / f"capture.{'tar.gz' if form == 'stdin' else form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        packing = "gz" if form == "stdin" else form[4:]
        tarball(path, {f"./{name}": data for name, data in members.items()}, f"w:{packing}")
    stdin = io.BytesIO(path.read_bytes())
    found = list(read_input("-" if form == "stdin" else path, stdin=stdin))
    assert meaning(found) == meaning(records(folder))


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_an_archive_of_the_folder_itself_gives_the_same_places(
    tmp_path: Path, capture: str, form: str
) -> None:
    folder = case(capture)
    members = {
        f"{capture}-2026/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    path = tmp_path / f"x.{form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        tarball(path, members)
    found, expected = records(path), records(folder)
    assert meaning(found) == meaning(expected)
    assert [getattr(record, "place", "") for record in found] == [
        getattr(record, "place", "") for record in expected
    ]
    end = found[-1]
    assert isinstance(end, InputSeen)
    assert end.root.startswith(f"{capture}-2026/")


NAMES = st.from_regex(r"\A[a-z]{1,6}\Z")


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3), min_size=1, max_size=4), st.randoms())
@settings(LAW, max_examples=25)
def test_a_tarball_in_any_order_is_its_folder(
    tmp_path: Path, content: dict[str, list[str]], random: Any
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    members: dict[str, bytes] = {}
    for name, nodes in content.items():
        form = random.choice(["json", "yaml"])
        value = a_list(*(node(each) for each in nodes), kind="NodeList")
        text = json.dumps(value) if form == "json" else yaml.dump(value)
        members[f"{name}/nodes.{form}"] = text.encode()
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    order = list(members)
    random.shuffle(order)
    path = tarball(tmp_path / "x.tgz", {name: members[name] for name in order})
    assert meaning(records(path)) == meaning(records(folder))


def nodes_json(*names_: str) -> bytes:
    return json.dumps(a_list(*(node(name) for name in names_))).encode()


@pytest.mark.parametrize(
    "bad", ["../../etc/nodes.json", "/etc/nodes.json", "a/../../nodes.json", "C:\\nodes.json"]
)
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_paths_that_lead_out_are_not_read(tmp_path: Path, bad: str, form: str) -> None:
    path = tmp_path / f"x.{form}"
    members = {bad: nodes_json("evil"), "nodes.json": nodes_json("good")}
    if form == "tar":
        tarball(path, members, "w")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    found = records(path)
    assert names(found, "Node") == ["good"]
    assert [problem.failed for problem in problems(found, Reason.ARCHIVE_UNSAFE)] == [True]


def test_links_are_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(nodes_json("evil"))
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "nodes.json").write_bytes(nodes_json("good"))
    (folder / "more.json").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in (
            ("a.json", tarfile.SYMTYPE),
            ("b.json", tarfile.LNKTYPE),
            ("dev.json", tarfile.CHRTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(outside)
            archive.addfile(info)
        archive.add(folder / "nodes.json", "nodes.json")
    packed = tmp_path / "x.zip"
    with zipfile.ZipFile(packed, "w") as archive_zip:
        link = zipfile.ZipInfo("a.json")
        link.external_attr = 0o120777 << 16
        archive_zip.writestr(link, str(outside))
        archive_zip.writestr("nodes.json", nodes_json("good"))
    for source, count in ((folder, 2), (path, 2), (packed, 1)):
        found = records(source)
        assert names(found, "Node") == ["good"]
        assert len(problems(found, Reason.LEFT_OUT)) == count
        assert failures(found) == []


def test_a_path_that_is_a_link_itself_is_what_the_user_asked_for(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(nodes_json("a"))
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert names(records(tmp_path / "link.json"), "Node") == ["a"]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2**20)
    monkeypatch.setattr(files, "MAX_TOTAL_BYTES", 4 * 2**20)
    monkeypatch.setattr(files, "MAX_MEMBERS", 20)
    monkeypatch.setattr(files, "_HEADERS", 2**18)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    "form", ["json.gz", "json.xz", "json.bz2", "tar.gz", "tar.xz", "tar.bz2", "zip", "json"]
)
def test_a_file_that_is_too_large_is_named_and_the_rest_is_read(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "nodes.json").write_bytes(nodes_json("good"))
    large = b" " * (2**20 + 1)
    if form == "json":
        (folder / "pods.json").write_bytes(large)
    elif form.startswith("json."):
        (folder / f"pods.{form}").write_bytes(PACKERS[form[5:]](large))
    elif form.startswith("tar."):
        tarball(folder / f"b.{form}", {"pods.json": large}, f"w:{form[4:]}")
    else:
        with zipfile.ZipFile(folder / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("pods.json", large)
    found = records(folder)
    assert names(found, "Node") == ["good"]
    (gap,) = failures(found)
    assert (gap.reason, gap.kind) == (Reason.TOO_LARGE, "Pod")


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("form", ["tar.gz", "tar.xz", "tar.bz2", "zip"])
def test_an_archive_bomb_is_bounded(tmp_path: Path, form: str) -> None:
    members = {"a.json": nodes_json("good")} | {f"core.{n}": bytes(2**20) for n in range(10)}
    path = tmp_path / f"x.{form}"
    if form == "zip":
        members = {name.replace("core.", "m") + ".json": data for name, data in members.items()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        tarball(path, members, f"w:{form[4:]}")
    found = records(path)
    assert names(found, "Node") == ["good"]
    assert {problem.reason for problem in failures(found)} == {Reason.TOO_LARGE}


@pytest.mark.usefixtures("small_limits")
def test_a_header_that_claims_gigabytes_costs_nothing(tmp_path: Path) -> None:
    info = tarfile.TarInfo("PaxHeaders/x")
    info.type, info.size = tarfile.XHDTYPE, 3 * 2**30
    good = tarfile.TarInfo("nodes.json")
    data = nodes_json("good")
    good.size = len(data)
    body = good.tobuf() + data.ljust(-(-len(data) // 512) * 512, b"\0")
    path = tmp_path / "x.tar"
    path.write_bytes(body + info.tobuf() + bytes(2**20))
    found = records(path)
    assert names(found, "Node") == ["good"]
    assert [problem.reason for problem in failures(found)] == [Reason.TOO_LARGE]


@pytest.mark.usefixtures("small_limits")
def test_too_many_members(tmp_path: Path) -> None:
    path = tarball(tmp_path / "x.tgz", {f"n{n:02}.json": nodes_json(f"n{n}") for n in range(30)})
    found = records(path)
    assert len(documents(found)) == 20
    assert [problem.reason for problem in failures(found)] == [Reason.TOO_LARGE]


def test_archives_in_archives_are_bounded(tmp_path: Path) -> None:
    inner = tarball(tmp_path / "0.tgz", {"nodes.json": nodes_json("deep")}).read_bytes()
    for depth in range(1, 5):
        outer = tarball(
            tmp_path / f"{depth}.tgz", {"in.tgz": inner, f"nodes-{depth}.json": nodes_json(f"d{depth}")}
        )
        inner = outer.read_bytes()
    found = records(tmp_path / "1.tgz")
    assert sorted(names(found, "Node")) == ["d1", "deep"]
    found = records(tmp_path / "4.tgz")
    assert sorted(names(found, "Node")) == ["d3", "d4"]
    assert [problem.reason for problem in failures(found)] == [Reason.ARCHIVE_UNSAFE]


@pytest.mark.parametrize("cut", [30, 300, 1500, -30])
def test_a_cut_tarball_gives_what_stands_before_the_cut(tmp_path: Path, cut: int) -> None:
    members = {
        f"n{n:02}.json": json.dumps(node(f"n{n}", pad=os.urandom(200).hex())).encode() for n in range(20)
    }
    path = tarball(tmp_path / "x.tgz", members)
    path.write_bytes(path.read_bytes()[:cut])
    try:
        found = records(path)
    except InputError as error:
        assert "cut off" in str(error)  # noqa: PT017
        return
    assert names(found, "Node") == [f"n{n}" for n in range(len(documents(found)))]
    assert [problem.reason for problem in failures(found)] == [Reason.TRUNCATED]


def test_a_cut_gzip_file_keeps_its_whole_items(tmp_path: Path) -> None:
    items = [node(f"n{n}", pad=os.urandom(500).hex()) for n in range(20)]
    data = gzip.compress(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode())
    found = from_text(tmp_path, "nodes.json.gz", data[: len(data) // 2])
    assert 5 < len(documents(found)) < 15
    assert {problem.reason for problem in failures(found)} == {Reason.TRUNCATED}


@given(
    st.sampled_from(["tar", "tgz", "txz", "tbz2", "zip"]),
    st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=4)), max_size=5),
)
@settings(LAW, max_examples=200)
def test_no_damage_to_an_archive_stops_a_run(
    tmp_path: Path, form: str, damage: list[tuple[int, bytes]]
) -> None:
    members = {"nodes.json": nodes_json("a"), "dir/nodes.json": nodes_json("b")}
    path = tmp_path / f"x.{form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        mode = {"tar": "w", "tgz": "w:gz", "txz": "w:xz", "tbz2": "w:bz2"}[form]
        tarball(path, members, mode)
    data = path.read_bytes()
    for at, noise in damage:
        data = data[: at % len(data)] + noise + data[at % len(data) + len(noise) // 2 :]
    path.write_bytes(data)
    good = tmp_path / "good.json"
    good.write_bytes(nodes_json("good"))
    found = records(path, good)
    assert names(found, "Node")[-1] == "good"


@pytest.mark.parametrize("packing", ["gz", "xz", "bz2"])
def test_packed_files_are_told_by_their_bytes(tmp_path: Path, packing: str) -> None:
    for folder, inner, suffix in (
        ("named", nodes_json("a"), f".{packing}"),
        ("misnamed", nodes_json("b"), ""),
    ):
        path = tmp_path / folder / f"nodes.json{suffix}"
        path.parent.mkdir()
        path.write_bytes(PACKERS[packing](inner))
    # Two streams one after another are one file; padding behind them does not count.
    twice = PACKERS[packing](nodes_json("c")) + PACKERS[packing](b"\n") + bytes(512)
    (tmp_path / f"nodes.json.{packing}").write_bytes(twice)
    found = records(tmp_path)
    assert names(found, "Node") == ["b", "a", "c"]
    assert not failures(found)
    # Packed in what is packed.
    path = tmp_path / f"again.json.gz.{packing}"
    path.write_bytes(PACKERS[packing](gzip.compress(nodes_json("d"))))
    assert names(records(path), "Node") == ["d"]


@pytest.mark.parametrize("packing", ["gz", "xz", "bz2"])
def test_cut_or_damaged_packing_keeps_what_is_whole(tmp_path: Path, packing: str) -> None:
    # Of many blocks, so that something can be unpacked before the cut.
    rows = [json.loads(nodes_json(f"n{n}"))["items"][0] for n in range(40)]
    for row in rows:
        row["metadata"]["annotations"] = {
            "noise": random.Random(row["metadata"]["name"]).randbytes(20_000).hex()
        }
    data = PACKERS[packing](json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": rows}).encode())
    path = tmp_path / f"nodes.json.{packing}"
    path.write_bytes(data[: len(data) * 2 // 3])
    found = records(path)
    assert [problem.reason for problem in failures(found)] == [Reason.TRUNCATED] * 2
    assert 0 < len(names(found, "Node")) < 40
    broken = bytearray(data)
    broken[len(data) * 2 // 3] ^= 0xFF
    path.write_bytes(bytes(broken))
    assert failures(records(path))


def test_secrets_are_not_read_whatever_packs_them(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(nodes_json("good"))
    for name, packing in (("secrets.json", "gz"), ("kubeconfig", "xz"), ("tls.key", "bz2")):
        (tmp_path / f"{name}.{packing}").write_bytes(PACKERS[packing](b"data"))
    found = records(tmp_path)
    assert [problem.reason for problem in problems(found)] == [Reason.LEFT_OUT] * 3


def test_xz_that_wants_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nodes.json.xz").write_bytes(lzma.compress(nodes_json("a"), preset=9))
    assert names(records(tmp_path), "Node") == ["a"]
    monkeypatch.setattr(files, "MAX_XZ_MEMORY", 2**20)
    with pytest.raises(InputError, match="memory"):
        records(tmp_path)


def test_zstd_is_read_where_python_can(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json.zst"
    try:
        zstd: Any = importlib.import_module("compression.zstd")
    except ImportError:
        path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(1, 60)))
        with pytest.raises(InputError, match="this Python cannot unpack zstd"):
            records(path)
    else:
        path.write_bytes(zstd.compress(nodes_json("a")))
        assert names(records(path), "Node") == ["a"]


def test_an_encrypted_or_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(nodes_json("good"))
    (tmp_path / "pods.tar.xz").write_bytes(b"\xfd7zXZ\x00" + bytes(range(1, 60)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("pods.json", b"x")
    data = bytearray(packed.getvalue())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "e.zip").write_bytes(bytes(data))
    found = records(tmp_path)
    assert names(found, "Node") == ["good"]
    assert [(problem.reason, problem.kind) for problem in failures(found)] == [
        (Reason.UNREADABLE, "Pod"),
        (Reason.UNREADABLE, "Pod"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_opened_is_a_failed_read(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_bytes(nodes_json("good"))
    (tmp_path / "pods.json").write_bytes(nodes_json("x"))
    (tmp_path / "pods.json").chmod(0)
    (gap,) = failures(records(tmp_path))
    assert (gap.reason, gap.kind) == (Reason.UNREADABLE, "Pod")


def test_a_pipe_may_be_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, nodes_json("a"))
    os.close(writing)
    try:
        assert names(records(f"/dev/fd/{reading}"), "Node") == ["a"]
    finally:
        os.close(reading)


# ---------------------------------------------------------------------------------------------------------- great sizes


def test_a_large_list_is_split_and_not_parsed(tmp_path: Path) -> None:
    """The cost of a list is its bytes: nothing is decoded before somebody wants it."""
    item = json.dumps({**pod("p"), "spec": {"pad": ["x" * 50] * 200}})
    text = '{"kind":"PodList","apiVersion":"v1","items":[' + ",".join([item] * 500) + "]}"
    found = from_text(tmp_path, "pods.json", text)
    assert len(documents(found)) == 500
    assert all(isinstance(document.data, msgspec.Raw) for document in documents(found))


def test_much_yaml_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changegen.collect.records.MAX_YAML_BYTES", 1000)
    monkeypatch.setattr("changegen.collect.records.SLOW_YAML_BYTES", 100)
    (tmp_path / "pods.yaml").write_text(yaml.dump(a_list(*(pod(f"p{n}") for n in range(50)))))
    (tmp_path / "nodes.yaml").write_text(yaml.dump(a_list(node("a"), node("b"), node("c"))))
    found = records(tmp_path)
    assert names(found, "Node") == ["a", "b", "c"]
    assert [problem.place for problem in problems(found, Reason.SLOW)] == ["nodes.yaml"]
    (gap,) = failures(found)
    assert (gap.reason, gap.kind) == (Reason.TOO_LARGE, "Pod")
    assert "json" in gap.hint
