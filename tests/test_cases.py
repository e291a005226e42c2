"""Inputs made from real bug reports, through the command line: every sentence of their ``expected.md``.

Each case is run as it was reported, and once more with its objects renamed or its condition turned round: then the
answer must follow. ``data/cases/NAME`` holds the input and what must be said of it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from changegen.cli import cli

CASES = Path(__file__).parent / "data" / "cases"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CHANGEGEN_") or name in {"SOURCE_DATE_EPOCH", "KUBECONFIG", "NO_COLOR"}:
            monkeypatch.delenv(name)


def run(*arguments: object, code: int | None = 0, **options: Any) -> Result:
    """Run the command line; a traceback is never an answer."""
    result = CliRunner().invoke(cli, [str(a) for a in arguments], **options)
    told = f"{result.stdout[-2000:]}\n--- stderr\n{result.stderr[-2000:]}"
    assert result.exception is None or isinstance(result.exception, SystemExit), told
    assert "Traceback" not in result.stderr
    assert code is None or result.exit_code == code, f"exit {result.exit_code}\n{told}"
    return result


def case(name: str, *parts: str) -> Path:
    return CASES.joinpath(name, "input", *parts)


def target(name: str) -> str:
    return case(name, "target.txt").read_text(encoding="utf-8").strip()


def variant(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Copy a case with texts replaced; each must stand in it."""
    out = folder / f"{name}-{len(list(folder.iterdir()))}"
    missing = {old for old, _ in changes}
    for source in sorted(case(name).rglob("*")):
        if not source.is_file():
            continue
        text = source.read_bytes().decode("utf-8", "surrogateescape")
        for old, new in changes:
            if old in text:
                missing.discard(old)
                text = text.replace(old, new)
        made = out / source.relative_to(case(name))
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert not missing, f"not in the case: {missing}"
    return out


class Reading:
    """A snapshot as ``changegen snapshot`` writes it."""

    def __init__(self, *paths: Path, code: int = 0) -> None:
        self.result = run("snapshot", *paths, code=code)
        self.data: dict[str, Any] = json.loads(self.result.stdout)

    def of(self, component: str) -> list[dict[str, Any]]:
        return [item for item in self.data["components"] if item["component"] == component]

    def one(self, component: str) -> dict[str, Any]:
        (item,) = self.of(component)
        return item

    def unread(self, what: str) -> list[dict[str, Any]]:
        return [item for item in self.data["unobserved"] if item["what"] == what]


class Judged(NamedTuple):
    findings: list[dict[str, Any]]
    code: int

    def of(self, code: str, component: str = "") -> dict[str, dict[str, Any]]:
        """Findings of a code by the name of their subject."""
        return {
            f["subject"]["name"]: f
            for f in self.findings
            if f["code"] == code and component in {"", f["subject"]["component"]}
        }

    def said(self, code: str) -> str:
        return "\n".join(f["message"] for f in self.findings if f["code"] == code)

    @property
    def blocking(self) -> set[str]:
        return {f["code"] for f in self.findings if f["severity"] == "blocking"}


def audit(path: Path, to: str, code: int | None = None) -> Judged:
    shown = run("audit", path, "--to", to, "-f", "json", code=code)
    return Judged(json.loads(shown.stdout)["findings"], shown.exit_code)


def ticket(path: Path, to: str, code: int | None = 0) -> str:
    return run("ticket", path, "--to", to, code=code).stdout


def flat(text: str) -> str:
    """Text of Markdown without its escapes."""
    return text.replace("\\", "").replace("&nbsp;", " ")


def test_every_case_is_here() -> None:
    names = {path.name for path in CASES.iterdir() if path.is_dir()}
    assert len(names) == 34
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    for name in names:
        assert (CASES / name / "expected.md").is_file()
        assert any(test.startswith(name) for test in tested), f"no test of {name}"


# ------------------------------------------------------------------------------------------------------------- gates


def test_removed_gate_apiserver(tmp_path: Path) -> None:
    name = "removed-gate-apiserver"
    gate = "UserNamespacesPodSecurityStandards"
    seen = Reading(case(name)).one("kube-apiserver")
    assert (seen["version"], seen["feature_gates"]) == ("v1.34.8", {gate: True})
    found = audit(case(name), target(name), code=3)
    item = found.of("CG-GATE-001", "kube-apiserver")[gate]
    assert item["severity"] == "blocking"
    assert f"unrecognized feature gate: {gate}" in item["message"]
    unseen = found.of("CG-GATE-030", "kubelet").values()
    assert [("configz" in f["advice"], f["severity"]) for f in unseen] == [(True, "warning")]
    text = flat(ticket(case(name), target(name)))
    before, _, rollback = text.partition("\n## Rollback")
    prepare = before.index(f"Take {gate} out of the components' own configuration")
    assert prepare < before.index("Upgrade the control plane of cp-1")
    assert "The manifests bring back images and gates as they were" in rollback
    assert f"v1.34.8 ({gate}=true)" in rollback

    renamed = variant(tmp_path, name, ("cp-1", "head-7"))
    assert "head-7" in audit(renamed, target(name)).said("CG-GATE-001")
    # The minor of today still knows it, and 1.35 knows another one.
    assert audit(case(name), "v1.34.9").blocking == set()
    known = variant(tmp_path, name, (gate, "DRADeviceTaints"))
    assert audit(known, target(name), code=0).blocking == set()


def test_locked_gate_false(tmp_path: Path) -> None:
    name = "locked-gate-false"
    found = audit(case(name), target(name), code=3)
    locked = found.of("CG-GATE-002", "kube-apiserver")
    assert set(locked) == {"DRAExtendedResource", "DRAPrioritizedList"}
    assert set(found.of("CG-GATE-002", "kube-scheduler")) == {"DRAExtendedResource"}
    assert {f["severity"] for f in locked.values()} == {"blocking"}
    depends = found.of("CG-GATE-003", "kube-apiserver")["DRADeviceTaintRules"]
    assert depends["severity"] == "blocking"
    assert "depends on features that are disabled: [DRADeviceTaints]" in depends["message"]
    assert "DRADeviceTaintRules=false" in depends["advice"]

    both = variant(
        tmp_path, name, ("DRADeviceTaints=false", "DRADeviceTaints=false,DRADeviceTaintRules=false")
    )
    assert not audit(both, target(name)).of("CG-GATE-003")
    # DRAPrioritizedList is settable in 1.36 still.
    assert not audit(case(name), "v1.36.5").of("CG-GATE-002")
    as_locked = variant(tmp_path, name, ("DRAExtendedResource=false", "DRAExtendedResource=true"))
    assert set(audit(as_locked, target(name)).of("CG-GATE-002")) == {"DRAPrioritizedList"}


def test_kubeadm_own_gates(tmp_path: Path) -> None:
    name = "kubeadm-own-gates"
    (fact,) = Reading(case(name)).data["config_maps"]
    assert set(fact["own_feature_gates"]) == {"PublicKeysECDSA"}
    assert fact["component_gates"]["kube-apiserver"]["gates"] == {"ControlPlaneKubeletLocalMode": True}
    found = audit(case(name), target(name), code=3)
    own = found.of("CG-KUBEADM-002")["PublicKeysECDSA"]
    assert own["severity"] == "blocking"
    assert "unrecognized feature-gate key: PublicKeysECDSA" in own["message"]
    wrong = found.of("CG-KUBEADM-001")["ControlPlaneKubeletLocalMode"]
    assert wrong["severity"] == "blocking"
    assert "a gate of kubeadm itself" in wrong["message"]
    old = found.of("CG-KUBEADM-003")["kubeadm.k8s.io/v1beta3"]
    assert old["severity"] == "blocking"
    assert "migrate" in old["advice"]

    # The same in v1beta4, where extraArgs is a list, and with gates that 1.37 knows.
    listed = variant(
        tmp_path,
        name,
        ("v1beta3", "v1beta4"),
        (
            "        feature-gates: ControlPlaneKubeletLocalMode=true",
            "      - {name: feature-gates, value: ControlPlaneKubeletLocalMode=true}",
        ),
    )
    (fact,) = Reading(listed).data["config_maps"]
    assert fact["component_gates"]["kube-apiserver"]["gates"] == {"ControlPlaneKubeletLocalMode": True}
    found = audit(listed, target(name))
    assert not found.of("CG-KUBEADM-003")
    assert set(found.of("CG-KUBEADM-001")) == {"ControlPlaneKubeletLocalMode"}
    fine = variant(
        tmp_path,
        name,
        ("v1beta3", "v1beta4"),
        ("      PublicKeysECDSA: true\n", "      RootlessControlPlane: true\n"),
        (
            "        feature-gates: ControlPlaneKubeletLocalMode=true",
            "      - {name: feature-gates, value: DRAAdminAccess=true}",
        ),
    )
    assert audit(fine, target(name)).blocking == set()


def test_kubelet_gate_from_env_file(tmp_path: Path) -> None:
    name = "kubelet-gate-from-env-file"
    kubelets = {item["node"]: item for item in Reading(case(name)).of("kubelet")}
    assert kubelets["node1"]["feature_gates"] == {"MemoryManager": True}
    assert kubelets["node2"]["feature_gates"] == "unobservable"
    found = audit(case(name), target(name), code=3)
    item = found.of("CG-GATE-001", "kubelet")["MemoryManager"]
    assert (item["severity"], item["subject"]["instances"]) == ("blocking", ["node1"])
    unknown = [
        f for f in found.findings if f["code"] == "CG-GATE-030" and f["subject"]["instances"] == ["node2"]
    ]
    assert [f["severity"] for f in unknown] == ["warning"]
    assert "cannot be seen" in unknown[0]["message"]

    # 1.35 still knows it, locked at the value that is set.
    assert not audit(case(name), "v1.35.5").blocking
    other = variant(tmp_path, name, ('"MemoryManager"', '"DRAAdminAccess"'))
    assert not audit(other, target(name)).of("CG-GATE-001")
    moved = variant(tmp_path, name)
    (moved / "configz-node1.json").rename(moved / "configz-node2.json")
    item = audit(moved, target(name)).of("CG-GATE-001")["MemoryManager"]
    assert item["subject"]["instances"] == ["node2"]


def test_duplicate_flags_merge(tmp_path: Path) -> None:
    name = "duplicate-flags-merge"
    reading = Reading(case(name))
    server = reading.one("kube-apiserver")
    assert server["feature_gates"] == {
        "DRAListTypeAttributes": True,
        "DRADeviceTaints": False,
        "DRADeviceTaintRules": False,
    }
    assert next(flag for flag in server["flags"] if flag["name"] == "v")["values"][-1] == "4"
    found = audit(case(name), "1.37.2", code=3)
    assert "given more than once" in found.of("CG-GATE-015")["DRADeviceTaints"]["message"]
    (mixed,) = [f for f in found.findings if f["code"] == "CG-GATE-005"]
    assert (mixed["subject"]["component"], mixed["severity"]) == ("kube-scheduler", "blocking")
    shown = " ".join(e["value"] for e in mixed["evidence"])
    assert "kube:DRAListTypeAttributes=true" in shown
    assert "DRADeviceTaints=true" in shown

    alike = variant(
        tmp_path,
        name,
        ("--feature-gates=DRADeviceTaints=true\n", "--feature-gates=kube:DRADeviceTaints=true\n"),
    )
    assert not audit(alike, "1.37.2").of("CG-GATE-005")
    scheduler = Reading(alike).one("kube-scheduler")
    assert scheduler["feature_gates"] == {"DRAListTypeAttributes": True, "DRADeviceTaints": True}
    turned = variant(tmp_path, name, ("DRADeviceTaints=false", "DRADeviceTaints=true"))
    assert Reading(turned).one("kube-apiserver")["feature_gates"]["DRADeviceTaints"] is True


def test_quotes_kept_in_value(tmp_path: Path) -> None:
    name = "quotes-kept-in-value"
    reading = Reading(case(name))
    kubelets = {item["node"]: item for item in reading.of("kubelet")}
    assert kubelets["server-0"]["feature_gates"] == "unobservable"
    assert '"EphemeralContainers=true"' in kubelets["server-0"]["feature_gates_source"]
    server = reading.one("kube-apiserver")
    assert (server["node"], server["gates_certainty"]) == ("server-0", "intended")
    assert server["feature_gates"] == {"DRAAdminAccess": True}
    (gap,) = reading.unread("annotation k3s.io/node-args of Node agent-0")
    assert gap["reason"] == "malformed"
    assert set(kubelets) == {"server-0", "agent-0"}
    found = audit(case(name), "1.34.8", code=3)
    (item,) = [f for f in found.findings if f["code"] == "CG-GATE-005"]
    assert item["subject"]["instances"] == ["server-0"]
    assert any('"EphemeralContainers=true"' in e["value"] for e in item["evidence"])

    bare = variant(
        tmp_path,
        name,
        ('feature-gates=\\"EphemeralContainers=true\\"', "feature-gates=AllBeta=false"),
        ("server-0", "srv"),
    )
    kubelet = next(item for item in Reading(bare).of("kubelet") if item["node"] == "srv")
    assert kubelet["feature_gates"] == {"AllBeta": False}
    assert not audit(bare, "1.34.8").of("CG-GATE-005")


def test_platform_injected_gate(tmp_path: Path) -> None:
    name = "platform-injected-gate"
    gates = {"CSIMigrationPortworx", "InTreePluginPortworxUnregister"}
    server = Reading(case(name)).one("kube-apiserver")
    assert server["feature_gates"] == dict.fromkeys(gates, True)
    assert server["belongs_to"].endswith(":cluster-x1y2z3")
    found = audit(case(name), target(name), code=3).of("CG-GATE-001", "kube-apiserver")
    assert set(found) == gates
    assert all("cluster-x1y2z3" in f["message"] and f["severity"] == "blocking" for f in found.values())

    # A wrapper that nobody knows: unobservable, never none.
    odd = variant(
        tmp_path, name, ('{"command":"/usr/local/bin/kube-apiserver","args":', '{"run":'), ("x1y2z3", "q9")
    )
    server = Reading(odd).one("kube-apiserver")
    assert (server["feature_gates"], server["belongs_to"]) == ("unobservable", "kubermatic:cluster-q9")
    (unseen,) = [
        f
        for f in audit(odd, target(name)).findings
        if f["code"] == "CG-GATE-030" and f["subject"]["instances"]
    ]
    assert "cannot be seen" in unseen["message"]
    # 1.35 still has both.
    assert not audit(case(name), "1.35.5").of("CG-GATE-001")


def test_hostname_differs(tmp_path: Path) -> None:
    name = "hostname-differs"
    reading = Reading(case(name))
    for component in ("kube-apiserver", "kube-scheduler"):
        item = reading.one(component)
        assert (item["node"], item["instance"]) == (
            "cp1.k8s.example.com",
            f"kube-system/{component}-cp1.k8s.example.com",
        )
    text = ticket(case(name), "1.37.3")
    assert "kube-apiserver-cp1.k8s.example.com" in text
    assert "kube-apiserver-cp1 " not in text
    renamed = variant(tmp_path, name, ("cp1.k8s.example.com", "10-0-0-5.lan"))
    assert "kube-apiserver-10-0-0-5.lan" in ticket(renamed, "1.37.3")


# ----------------------------------------------------------------------------------------------------------- devices


def test_plugin_and_dra_both(tmp_path: Path) -> None:
    name = "plugin-and-dra-both"
    found = audit(case(name), "1.36.3").of("CG-EXT-001")
    (item,) = found.values()
    assert item["subject"]["instances"] == ["gpu-1"]
    assert "Both mechanisms advertise nvidia.com/gpu" in item["message"]
    assert "cannot be proved" in item["message"]
    assert "departed" in ticket(case(name), "1.36.3")

    none = variant(tmp_path, name, ("nvidia.com/gpu: '2'", "nvidia.com/gpu: '0'"))
    assert not audit(none, "1.36.3").of("CG-EXT-001")
    two = variant(tmp_path, name, ("nvidia.com/gpu: '0'", "nvidia.com/gpu: '1'"))
    (item,) = audit(two, "1.36.3").of("CG-EXT-001").values()
    assert item["subject"]["instances"] == ["gpu-1", "gpu-2"]
    unmapped = variant(tmp_path, name, ("    extendedResourceName: nvidia.com/gpu\n", ""))
    assert not audit(unmapped, "1.36.3").of("CG-EXT-001")


def test_slice_outlives_driver(tmp_path: Path) -> None:
    name = "slice-outlives-driver"
    found = audit(case(name), "1.37.3")
    (no_pod,) = found.of("CG-SLICE-003").values()
    (no_node,) = found.of("CG-SLICE-004").values()
    assert no_pod["subject"]["instances"] == no_node["subject"]["instances"] == ["w-3"]
    assert "stale, or outside of the capture" in no_node["message"]
    assert "1 of 2" in found.said("CG-DRIVER-009")
    assert "Do not delete slices as a first step" in no_pod["advice"]
    assert "delete resourceslice" not in ticket(case(name), "1.37.3")

    level = variant(tmp_path, name, ("w-3", "w-1"), ("numberReady: 1", "numberReady: 2"))
    found = audit(level, "1.37.3")
    assert not {*found.of("CG-SLICE-003"), *found.of("CG-SLICE-004"), *found.of("CG-DRIVER-009")}
    renamed = variant(tmp_path, name, ("w-3", "blade9"))
    assert "blade9" in audit(renamed, "1.37.3").said("CG-SLICE-003")


def test_claims_stuck_deleting(tmp_path: Path) -> None:
    name = "claims-stuck-deleting"
    claims = {c["name"]: c for c in Reading(case(name)).data["claims"]}
    assert (claims["job-a-gpu-x1"]["allocated"], claims["job-b"]["allocated"]) == (True, False)
    assert [r["device_class"] for r in claims["job-b"]["requests"]] == ["gpu.nvidia.com"]
    found = audit(case(name), "1.37.2")
    (item,) = found.of("CG-CLAIM-001").values()
    assert item["subject"]["name"] == "batch/job-a-gpu-x1"
    assert "gpu.nvidia.com/n1/gpu-0" in item["message"]
    assert item["advice"].startswith("List its consumers first")
    text = flat(ticket(case(name), "1.37.2"))
    assert "finalizer" not in text.partition("\n## Rollback")[2].partition("\n## ")[0]
    assert "do not remove the finalizer" in text

    alive = variant(tmp_path, name, ("    deletionTimestamp: '2026-09-30T02:00:00Z'\n", ""))
    assert not audit(alive, "1.37.2").of("CG-CLAIM-001")
    renamed = variant(tmp_path, name, ("job-a", "sim-7"), ("gpu-0", "card3"), ("n1", "rack2"))
    (item,) = audit(renamed, "1.37.2").of("CG-CLAIM-001").values()
    assert "gpu.nvidia.com/rack2/card3" in item["message"]


def test_pod_terminating_driver_gone(tmp_path: Path) -> None:
    name = "pod-terminating-driver-gone"
    (item,) = audit(case(name), "1.37.2").of("CG-CLAIM-002").values()
    assert item["subject"]["name"] == "ml/train-0"
    assert "train-0-gpu-abc" in item["message"]
    assert "the node is cordoned" in item["message"]
    text = ticket(case(name), "1.37.2")
    order = text.index("consumers first, then the driver, then the kubelet")
    assert text.index("ml/train-0") < order

    staying = variant(tmp_path, name, ("    deletionTimestamp: '2026-10-01T00:00:00Z'\n", ""))
    assert not audit(staying, "1.37.2").of("CG-CLAIM-002")
    open_node = variant(tmp_path, name, ("    unschedulable: true\n", ""), ("train-0", "fit-3"))
    (item,) = audit(open_node, "1.37.2").of("CG-CLAIM-002").values()
    assert item["subject"]["name"] == "ml/fit-3"
    assert "cordoned" not in item["message"]


SLICE = """\
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: gpu.intel.com
    nodeName: n
    pool: {name: n, generation: 1, resourceSliceCount: 1}
    devices: [{name: d}]
kind: List
"""


def test_driver_needs_v1beta1(tmp_path: Path) -> None:
    name = "driver-needs-v1beta1"
    reading = Reading(case(name))
    assert [api["group_version"] for api in reading.data["apis"]] == ["resource.k8s.io/v1"]
    (driver,) = reading.data["drivers"]
    assert (driver["driver"], driver["version"], driver["devices"]) == ("gpu.intel.com", "v0.8.0", 0)
    (item,) = audit(case(name), "1.37.2").of("CG-SLICE-002").values()
    assert item["severity"] == "warning"
    assert "served: resource.k8s.io/v1" in item["message"]
    assert "river version v0.8.0" in item["advice"]
    unknown = variant(tmp_path, name, ("v0.8.0", "v77.0.0"))
    (item,) = audit(unknown, "1.37.2").of("CG-SLICE-002").values()
    assert "Check the API versions that driver version v77.0.0 supports" in item["advice"]

    down = variant(tmp_path, name, ("numberReady: 1", "numberReady: 0"), ("v0.8.0", "v0.9.1"))
    found = audit(down, "1.37.2")
    assert not found.of("CG-SLICE-002")
    assert found.of("CG-DRIVER-009")
    publishing = variant(
        tmp_path,
        name,
        (
            "kind: List\n",
            SLICE,
        ),
    )
    assert not audit(publishing, "1.37.2").of("CG-SLICE-002")


def kind_of(finding: dict[str, Any]) -> str:
    """The kind of a finding on an API: `ResourceClaim` of `resource.k8s.io/v1beta1/ResourceClaim`."""
    return str(finding["subject"]["name"]).rpartition("/")[2]


def test_v1beta1_manifests_before_138(tmp_path: Path) -> None:
    name = "v1beta1-manifests-before-138"
    reading = Reading(case(name))
    (template,) = reading.data["claim_templates"]
    assert template["api_version"] == "resource.k8s.io/v1beta1"
    assert [r["device_class"] for r in template["requests"]] == ["gpu.example.com"]
    assert reading.data["taint_rules"][0]["api_version"] == "resource.k8s.io/v1alpha3"
    assert not [n for n in reading.data["notices"] if n["place"].startswith("objects.yaml")]
    found = audit(case(name), target(name), code=3)
    assert "newer than the data" in found.said("CG-VERSION-001")
    written = {kind_of(f): f for f in found.findings if f["code"] == "CG-API-005"}
    assert written["ResourceClaimTemplate"]["severity"] == "blocking"
    assert "1.38 no longer serves it" in written["ResourceClaimTemplate"]["message"]
    rule = written["DeviceTaintRule"]
    assert rule["severity"] == "info"
    assert "deprecated since 1.36; it goes with 1.39" in rule["message"]
    entries = found.of("CG-FLAG-012")
    assert entries["resource.k8s.io/v1beta1"]["severity"] == "blocking"
    assert (
        "a version that is not registered stops kube-apiserver"
        in entries["resource.k8s.io/v1beta1"]["message"]
    )
    assert "DeviceTaintRule 1.39" in entries["resource.k8s.io/v1alpha3"]["message"]
    assert "1.36, 1.37, 1.38" in found.said("CG-VERSION-006")
    dropped = found.said("CG-TAINT-011")
    assert "deviceClassName=gpu.example.com, dropped in 1.35" in dropped

    # In v1 the class stands under exactly, and nothing of it goes.
    current = variant(
        tmp_path,
        name,
        ("resource.k8s.io/v1beta1\nkind", "resource.k8s.io/v1\nkind"),
        ("        deviceClassName: gpu.example.com", "        exactly: {deviceClassName: gpu.example.com}"),
        ("--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true", "--v=2"),
    )
    (template,) = Reading(current).data["claim_templates"]
    assert [r["device_class"] for r in template["requests"]] == ["gpu.example.com"]
    found = audit(current, "1.37.2")
    assert [kind_of(f) for f in found.findings if f["code"] == "CG-API-005"] == ["DeviceTaintRule"]
    assert not found.of("CG-FLAG-012")
    # 1.37 still serves v1beta1.
    later = {
        kind_of(f): f["severity"] for f in audit(case(name), "1.37.2").findings if f["code"] == "CG-API-005"
    }
    assert later == {"DeviceTaintRule": "info", "ResourceClaimTemplate": "info"}


def test_old_grpc_driver(tmp_path: Path) -> None:
    name = "old-grpc-driver"
    (item,) = audit(case(name), "1.34.8").of("CG-SLICE-001").values()
    assert "ready on 2 nodes, slices are on n1 only" in item["message"]
    assert "missing where the kubelet is 1.34 and there where it is 1.33" in item["message"]
    assert "cannot be read" in item["message"]

    level = variant(tmp_path, name, ("kubeletVersion: v1.33.5", "kubeletVersion: v1.34.1"), ("n1", "a9"))
    (item,) = audit(level, "1.34.8").of("CG-SLICE-001").values()
    assert "a9 only" in item["message"]
    assert "v1alpha4" not in item["message"]


def test_kernel_driver_breaks_slice(tmp_path: Path) -> None:
    name = "kernel-driver-breaks-slice"
    before, after = case(name, "before.yaml"), case(name, "after.yaml")
    shown = json.loads(run("diff", before, after, "-f", "json").stdout)["changes"]
    (devices,) = [c for c in shown if c["area"] == "drivers" and c["path"] == ["devices"]]
    assert (devices["subjects"], devices["before"], devices["after"]) == (["gpu.amd.com"], 1, 0)
    assert "1/1 ready" in devices["note"]
    assert "unchanged" in devices["note"]
    assert not [c for c in shown if c["area"] == "workloads"]
    (nodes,) = [c for c in shown if c["area"] == "drivers" and c["path"] == ["nodes"]]
    assert "amd-1" in nodes["note"]
    (claim,) = Reading(after).data["claims"]
    assert (claim["namespace"], claim["name"], claim["allocated"]) == ("ml", "c1", False)
    assert (
        "Ready Pods are no passing device check"
        in run("audit", after, "--to", "1.37.2", "-f", "sarif").stdout
    )
    found = audit(after, "1.37.2")
    assert "and not one ResourceSlice of gpu.amd.com" in found.said("CG-SLICE-002")
    assert not audit(before, "1.37.2").of("CG-SLICE-002")
    plan = tmp_path / "ticket.json"
    run("ticket", before, "--to", "1.37.2", "-o", plan)
    filled = json.loads(run("verify", plan, after, "-f", "json", code=None).stdout)
    device = {c["id"] for c in filled["checks"] if c["layer"] == "device"}
    results = {r["id"]: r["result"] for r in filled["results"]}
    assert device
    assert {results[check] for check in device} <= {"unknown", "fail"}

    # All devices are still there, or the driver's own Pods went too: then it is no such finding.
    assert not json.loads(run("diff", before, before, "-f", "json").stdout)["changes"]
    stopped = variant(tmp_path, name, ("numberReady: 1", "numberReady: 0"))
    shown = json.loads(run("diff", before, stopped / "after.yaml", "-f", "json").stdout)["changes"]
    (devices,) = [c for c in shown if c["area"] == "drivers" and c["path"] == ["devices"]]
    assert "ready" not in devices["note"]


def test_driver_version_zero(tmp_path: Path) -> None:
    name = "driver-version-zero"
    (driver,) = Reading(case(name)).data["drivers"]
    assert driver["version"] == "v1.0.1"
    found = audit(case(name), "1.37.2")
    assert "not reported" in found.said("CG-DRIVER-005")
    assert not found.of("CG-DRIVER-004")
    assert "not reported (1)" in ticket(case(name), "1.37.2")

    told = variant(tmp_path, name, ("version: 0.0.0", "version: 6.19.4"), ("v1.0.1", "v1.1.0"))
    found = audit(told, "1.37.2")
    assert not found.of("CG-DRIVER-005")
    text = ticket(told, "1.37.2")
    assert "6.19.4 (1)" in text
    assert "v1.1.0" in text


# ---------------------------------------------------------------------------------------------------------- versions


def test_minor_with_plus(tmp_path: Path) -> None:
    name = "minor-with-plus"
    assert Reading(case(name)).data["cluster"]["server_version"] == "v1.33.4-eks-e386d34"
    assert "v1.33.4-eks-e386d34 to 1.35.1 passes 2 minors: 1.33, 1.34, 1.35" in audit(
        case(name), "1.35.1"
    ).said("CG-VERSION-006")
    # The client's version is nobody's, and a patch that a build has is not below the plain one.
    client = variant(tmp_path, name)
    (client / "version.json").unlink()
    text = (client / "version-kubectl.yaml").read_text(encoding="utf-8")
    (client / "version-kubectl.yaml").write_text(text.partition("serverVersion")[0], encoding="utf-8")
    failed = run("snapshot", client, code=2)
    assert "the server's is missing" in failed.stderr
    assert not audit(case(name), "1.33.4").of("CG-VERSION-007")
    other = variant(
        tmp_path, name, ("v1.33.4-eks-e386d34", "v1.36.1-gke.1000"), ('"33+"', '"36"'), ("33+", "36")
    )
    assert Reading(other).data["cluster"]["server_version"] == "v1.36.1-gke.1000"
    assert not audit(other, "1.37.2").of("CG-VERSION-006")


def test_vendor_suffix_ordering(tmp_path: Path) -> None:
    name = "vendor-suffix-ordering"
    text = ticket(case(name), target(name))
    rows = [line for line in text.splitlines() if line.startswith("| kubelet |")]
    moving = [line for line in rows if any(f": {n}" in line or f", {n}" in line for n in "abcdghi")]
    assert not [line for line in moving if "**1.33.4**" in line]
    assert not audit(case(name), target(name)).of("CG-VERSION-007")
    kubelets = {c["node"]: c["version"] for c in Reading(case(name)).of("kubelet")}
    # A pre-release is below its release, a build of a patch is not.
    profile = tmp_path / "floor.yaml"
    for floor, below in (("1.33.4", set()), ("1.34.0", set("abcdefghi")), ("1.33.5", set("abcdghi"))):
        profile.write_text(
            f"schema: changegen.profile/v1\nname: floor\ntarget:\n  kubernetes: '1.34'\n"
            f"  components: [{{name: kubelet, version: '>={floor}'}}]\n",
            encoding="utf-8",
        )
        made = json.loads(run("ticket", case(name), "--profile", profile, "-f", "json").stdout)
        behind = {
            node
            for row in made["instances"]
            if row["component"] == "kubelet" and row["action"] == "upgrade"
            for node in [row["node"]]
        }
        assert behind == below, floor
    assert kubelets["f"].startswith("v1.34.0-alpha")


# ------------------------------------------------------------------------------------------------------ bad readings


def test_aggregated_api_down(tmp_path: Path) -> None:
    name = "aggregated-api-down"
    reading = Reading(case(name), code=4)
    (service,) = reading.data["api_services"]
    assert (service["name"], service["available"]) == ("v1beta1.metrics.k8s.io", False)
    (gap,) = reading.unread("status-503.json")
    assert "an error answer (503" in gap["detail"]
    assert "Grant" not in gap["remedy"]
    found = audit(case(name), "1.37.2", code=4)
    assert "not available: MissingEndpoints" in found.said("CG-API-020")

    up = variant(tmp_path, name, ("status: 'False'", "status: 'True'"), ("MissingEndpoints", "Passed"))
    (up / "status-503.json").unlink()
    assert Reading(up).data["api_services"][0]["available"] is True
    assert not audit(up, "1.37.2", code=0).of("CG-API-020")


def test_forbidden_partly(tmp_path: Path) -> None:
    name = "forbidden-partly"
    reading = Reading(case(name), code=4)
    (gap,) = reading.unread("nodes")
    assert (gap["reason"], gap["failed"]) == ("forbidden", True)
    assert reading.one("kube-apiserver")["feature_gates"] == {"DRAListTypeAttributes": True}
    assert reading.data["nodes"] == []
    assert "nodes" not in reading.data["kinds_read"]
    assert run("snapshot", case(name), "--allow-partial").exit_code == 0
    profile = tmp_path / "taint.yaml"
    profile.write_text(
        "schema: changegen.profile/v1\nname: t\ntarget: {kubernetes: '1.37.3'}\n"
        "taints: {nodes: [{key: example.com/gpu, expect: absent}]}\n",
        encoding="utf-8",
    )
    judged = run("audit", case(name), "--profile", profile, "-f", "json", code=4).stdout
    said = {f["code"]: f["message"] for f in json.loads(judged)["findings"]}
    assert "forbidden" in said["CG-READ-001"]
    assert "not read" in said["CG-POLICY-012"]

    # The same with nodes: nobody says that they vanished, and an empty list does say it.
    whole = variant(tmp_path, name)
    (whole / "nodes.json").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "NodeList",
                "items": [
                    {"metadata": {"name": node}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}}
                    for node in ("cp-1", "w-1")
                ],
            }
        ),
        encoding="utf-8",
    )
    shown = json.loads(run("diff", whole, case(name), "-f", "json", code=4).stdout)
    assert shown["changes"] == []
    assert {n["reason"] for n in shown["not_comparable"] if n["area"] == "nodes"} == {"forbidden"}
    empty = variant(tmp_path, name)
    (empty / "nodes.json").write_text('{"apiVersion":"v1","kind":"NodeList","items":[]}', encoding="utf-8")
    shown = json.loads(run("diff", whole, empty, "-f", "json", code=0).stdout)
    assert {s for c in shown["changes"] if c["area"] == "nodes" for s in c["subjects"]} == {"cp-1", "w-1"}
    assert {c["kind"] for c in shown["changes"] if c["area"] == "nodes"} == {"removed"}


def test_utf8_bom_crlf(tmp_path: Path) -> None:
    name = "utf8-bom-crlf"
    reading = Reading(case(name))
    assert {c["component"] for c in reading.data["components"]} >= {"kube-apiserver", "kube-scheduler"}
    assert "\ufeff" not in reading.result.stdout
    assert "\\r" not in reading.result.stdout
    assert reading.one("kube-apiserver")["feature_gates"] == {"DRAListTypeAttributes": True}
    # The same in UTF-16, as PowerShell's > writes it.
    wide = tmp_path / "wide"
    wide.mkdir()
    for source in case(name).iterdir():
        (wide / source.name).write_bytes(source.read_bytes().decode("utf-8-sig").encode("utf-16"))
    assert Reading(wide).data["components"] == reading.data["components"]


def test_duplicate_keys(tmp_path: Path) -> None:
    name = "duplicate-keys"
    reading = Reading(case(name))
    (workload,) = reading.data["workloads"]
    assert [image.rpartition(":")[2] for image in workload["images"].values()] == ["v0.4.1"]
    (listed,) = reading.unread("daemonsets.apps")
    assert "Single objects only" in listed["detail"]
    told = reading.result.stderr
    assert "ds.yaml:13" in told
    assert "app.kubernetes.io/name" in told
    assert "ds.yaml:18" in told
    conflict = audit(case(name), "1.37.2").said("CG-DRIVER-002")
    assert "v0.4.1" in conflict
    assert "0.4.0" in conflict

    once = variant(
        tmp_path,
        name,
        ("        app.kubernetes.io/name: dra-driver-nvidia-gpu\n", ""),
        ("        image: registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1\n", ""),
    )
    reading = Reading(once)
    assert "twice" not in reading.result.stderr
    assert not audit(once, "1.37.2").of("CG-DRIVER-002")


def test_control_characters(tmp_path: Path) -> None:
    name = "control-characters"
    reading = Reading(case(name))
    assert {c["node"]: c["version"] for c in reading.of("kubelet")} == {"w-1": "v1.36.4", "w-2": "v1.36.4"}
    assert {n["reason"] for n in reading.data["notices"]} == {"control-characters", "encoding"}
    assert "bundle.yaml byte" in reading.result.stderr
    assert "latin1.yaml byte" in reading.result.stderr
    for text in (reading.result.output, ticket(case(name), "1.37.2")):
        assert "\x1b" not in text
    # In a name that is shown, and written as an escape that JSON allows.
    named = tmp_path / "nodes.json"
    named.write_text(
        '{"apiVersion":"v1","kind":"Node","metadata":{"name":"w-\\u001b[31m1\\u202e"},'
        '"status":{"nodeInfo":{"kubeletVersion":"v1.36.4"}}}',
        encoding="utf-8",
    )
    for arguments in (
        ("ticket", named, "--to", "1.37.2"),
        ("audit", named, "--to", "1.37.2"),
        ("diff", named, case(name)),
        ("audit", named, "--to", "1.37.2", "-f", "markdown"),
    ):
        shown = run(*arguments, code=None)
        assert "\x1b" not in shown.output
        assert "\u202e" not in shown.output


def test_exec_plugin_kubeconfig(tmp_path: Path) -> None:
    config = case("exec-plugin-kubeconfig", "kubeconfig.yaml")
    failed = run("snapshot", "--kubeconfig", config, code=1)
    (line,) = failed.stderr.strip().splitlines()
    assert "aws-iam-authenticator-not-installed" in line
    assert "client.authentication.k8s.io/v1alpha1" in line
    text = config.read_text(encoding="utf-8")
    current = tmp_path / "kubeconfig"
    current.write_text(
        text.replace("v1alpha1", "v1")
        .replace("aws-iam-authenticator-not-installed", "no-such-login")
        # A token that the plugin's environment holds is not for the log.
        .replace("args:", "interactiveMode: Never\n      env: [{name: T, value: sekret-7}]\n      args:"),
        encoding="utf-8",
    )
    for verbose in ((), ("--verbose",)):
        failed = CliRunner().invoke(cli, [*verbose, "snapshot", "--kubeconfig", str(current)])
        assert failed.exit_code == 1
        assert "no-such-login" in failed.stderr
        assert "sekret-7" not in failed.output
    assert "no longer supported" not in failed.stderr
    # As a file of a capture it is never read.
    assert "it holds secrets, which are never read" in run("snapshot", config.parent, code=2).stderr


def test_truncated_file(tmp_path: Path) -> None:
    name = "truncated-file"
    reading = Reading(case(name), code=4)
    assert [c["node"] for c in reading.of("kubelet")] == ["w-3"]
    assert reading.one("kube-apiserver")["feature_gates"] == {"DRAListTypeAttributes": True}
    (nodes,) = reading.unread("nodes")
    assert (nodes["reason"], nodes["place"]) == ("truncated", "nodes-cut.json")
    assert "at byte 900" in nodes["detail"]
    (pods,) = reading.unread("pods")
    assert (pods["reason"], pods["place"].partition(":")[0]) == ("truncated", "pods-cut.yaml")
    assert "empty.yaml" in reading.result.stderr
    assert "the file is empty" in reading.result.stderr

    # The same files whole.
    whole = variant(tmp_path, name)
    (whole / "nodes-cut.json").unlink()
    text = (whole / "pods-cut.yaml").read_text(encoding="utf-8")
    at = text.rindex("\n- apiVersion: v1")
    (whole / "pods-cut.yaml").write_text(text[: at + 1] + "kind: List\nmetadata: {}\n", encoding="utf-8")
    assert Reading(whole, code=0).one("kube-apiserver")["node"] == "cp-1"


def test_anchors_tabs_lists(tmp_path: Path) -> None:
    name = "anchors-tabs-lists"
    reading = Reading(case(name), code=4)  # A bomb that was expanded would not end.
    assert {c["node"]: c["version"] for c in reading.of("kubelet")} == {"w-1": "v1.37.2", "w-2": "v1.36.4"}
    noted = {n["place"]: n["detail"] for n in reading.data["notices"]}
    assert set(noted) == {"mixed.yaml:1", "mixed.yaml:18 items[2]"}
    assert all(place in reading.result.stderr for place in noted)
    failed = {u["place"]: u["detail"] for u in reading.data["unobserved"] if u["failed"]}
    assert set(failed) == {"bomb.yaml:6", "tab.yaml:4", "tag.yaml:3"}
    assert "refused" in failed["tag.yaml:3"]
    assert len(reading.result.stdout) < 100_000

    spaced = variant(
        tmp_path, name, ("\tname: w-3", "  name: w-3"), ("!!python/object/apply:os.getcwd []", "{name: w-4}")
    )
    (spaced / "bomb.yaml").write_text("a: &a [x, x]\nb: [*a, *a]\n", encoding="utf-8")
    reading = Reading(spaced, code=0)
    assert [c["node"] for c in reading.of("kubelet")] == ["w-1", "w-2", "w-3", "w-4"]


# ----------------------------------------------------------------------------------------------------------- layouts


def test_cluster_info_dump(tmp_path: Path) -> None:
    name = "cluster-info-dump"
    reading = Reading(case(name))
    server = reading.one("kube-apiserver")
    assert (server["version"], server["feature_gates"]) == ("v1.37.2", {"DRAListTypeAttributes": True})
    assert "OldGate" not in reading.result.stdout
    assert [c["node"] for c in reading.of("kubelet")] == ["cp-1"]
    for what in ("resourceslices", "devicetaintrules"):
        assert [u["reason"] for u in reading.unread(f"{what}.resource.k8s.io")] == ["not-in-capture"]
    assert not reading.unread("daemonsets.apps")
    assert reading.data["workloads"] == []
    assert reading.data["source"]["layout"] == "cluster-info dump"
    assert reading.data["namespaces_read"]["pods"] == ["kube-system"]
    assert [node["pod_count"] for node in reading.data["nodes"]] == [None]

    # What the Pods' own command says counts, whatever a log says.
    turned = variant(tmp_path, name, ("DRAListTypeAttributes=true", "OldGate=false"), ("cp-1", "m-9"))
    (turned / "dump/kube-system/kube-apiserver-cp-1").rename(turned / "dump/kube-system/kube-apiserver-m-9")
    server = Reading(turned).one("kube-apiserver")
    assert (server["node"], server["feature_gates"]) == ("m-9", {"OldGate": False})


def test_metrics_text(tmp_path: Path) -> None:
    name = "metrics-text"
    (process,) = Reading(case(name)).data["processes"]
    assert (process["version"], process["component"]) == ("v1.37.2", "unknown")
    assert process["effective_gates"]["DRAExtendedResource"] is True
    assert process["gate_stages"]["DRAExtendedResource"] == ""
    assert process["effective_gates"]["DRADeviceTaintRules"] is False
    said = audit(case(name), "1.37.3").said("CG-GATE-034")
    assert (
        "its effective gates differ from the defaults in DRADeviceTaintRules=false, DRAListTypeAttributes=true"
        in said
    )
    assert "DRAExtendedResource" not in said
    assert not Reading(case(name)).data["components"]

    named = tmp_path / "kube-scheduler-metrics.txt"
    text = case(name, "metrics.txt").read_text(encoding="utf-8")
    named.write_text(
        text.replace('name="DRADeviceTaintRules",stage=""} 0', 'name="DRADeviceTaintRules",stage=""} 1'),
        encoding="utf-8",
    )
    (process,) = Reading(named).data["processes"]
    assert (process["component"], process["component_inferred"]) == ("kube-scheduler", True)
    assert "DRADeviceTaintRules" not in audit(named, "1.37.3").said("CG-GATE-034")


def test_openshift_featuregate_missing(tmp_path: Path) -> None:
    name = "openshift-featuregate-missing"
    facts = Reading(case(name)).data["openshift"]
    assert (facts["gates_version"], facts["gates_previous"]) == ("", "4.20.3")
    found = audit(case(name), "1.37.2", code=3)
    forbids = next(f for f in found.findings if f["code"] == "CG-OPENSHIFT-001")
    assert forbids["severity"] == "blocking"
    assert "CustomNoUpgrade" in forbids["message"]
    assert "cannot be undone" in forbids["message"]
    assert "4.20.3" in found.said("CG-OPENSHIFT-002")

    done = variant(
        tmp_path,
        name,
        ("      version: 4.20.3\n- apiVersion", "      version: 4.21.0-0.ci-2026-05-14-112559\n- apiVersion"),
        ("    featureSet: CustomNoUpgrade\n", ""),
    )
    facts = Reading(done).data["openshift"]
    assert facts["gates_version"] == facts["desired"]
    found = audit(done, "1.37.2")
    assert not {*found.of("CG-OPENSHIFT-001"), *found.of("CG-OPENSHIFT-002")}


def test_autoscaler_rbac(tmp_path: Path) -> None:
    name = "autoscaler-rbac"
    reading = Reading(case(name))
    assert not [c for c in reading.data["components"] if c["feature_gates"] not in ("unobservable", {})]
    assert "DynamicResourceAllocation" not in json.dumps(reading.data["components"])
    assert not audit(case(name), "1.37.2").of("CG-RBAC-002")

    devices = "- apiVersion: resource.k8s.io/v1\n  kind: DeviceClass\n  metadata: {name: c}\nkind: List\n"
    used = variant(tmp_path, name, ("kind: List\n", devices))
    found = audit(used, "1.37.2")
    assert "cluster-autoscaler" in found.said("CG-RBAC-002")
    assert "resource.k8s.io" in found.said("CG-RBAC-002")
    allowed = variant(
        tmp_path,
        name,
        ("kind: List\n", devices),
        (
            "    verbs:\n    - list\n    - watch\n",
            "    verbs:\n    - list\n    - watch\n  - {apiGroups: [resource.k8s.io], resources: ['*'], verbs: [list, watch]}\n",
        ),
    )
    assert "DynamicResourceAllocation" not in json.dumps(Reading(allowed).data["components"])


def test_must_gather_layout(tmp_path: Path) -> None:
    name = "must-gather-layout"
    reading = Reading(case(name))
    server = reading.one("kube-apiserver")
    assert server["feature_gates"] == {"AdminNetworkPolicy": True}
    assert "ConfigMap" in server["feature_gates_source"]
    assert server["gates_certainty"] == "intended"
    assert reading.data["source"]["layout"] == "must-gather"
    assert "OldGate" not in reading.result.stdout
    assert reading.data["cluster"]["server_version"] is None
    assert [u["reason"] for u in reading.unread("resourceslices.resource.k8s.io")] == ["not-in-capture"]
    # A second image's folder repeats everything, and a Pod of its own in it counts.
    root = case(name, "must-gather.local.123")
    twice = tmp_path / "must-gather.local.123"
    image = next(root.iterdir())
    for folder, node in (("image-a", "m0"), ("image-b", "m0"), ("image-c", "m1")):
        for source in image.rglob("*"):
            if source.is_file():
                made = twice / folder / source.relative_to(image).as_posix().replace("m0", node)
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(source.read_text(encoding="utf-8").replace("m0", node), encoding="utf-8")
    reading = Reading(tmp_path)
    assert [c["node"] for c in reading.of("kube-apiserver")] == ["m0", "m1"]


def test_support_bundle_layout(tmp_path: Path) -> None:
    name = "support-bundle-layout"
    reading = Reading(case(name), code=4)
    assert reading.data["cluster"]["server_version"] == "v1.36.4"
    assert "0.123.0" not in reading.result.stdout
    assert reading.one("kube-apiserver")["feature_gates"] == {"DRAListTypeAttributes": True}
    (gap,) = reading.unread("pods")
    assert gap["reason"] == "forbidden"
    assert "gpu-team" in gap["detail"]
    assert "masked" in {n["reason"] for n in reading.data["notices"]}
    assert reading.data["namespaces_read"]["pods"] == ["kube-system"]

    readable = variant(
        tmp_path,
        name,
        ('{"gpu-team":"pods is forbidden: User \\"x\\" cannot list resource \\"pods\\""}', "null"),
    )
    assert not Reading(readable, code=0).unread("pods")


# -------------------------------------------------------------------------------------------------------------- size


def _pods(count: int, size: int) -> Iterable[dict[str, Any]]:
    places = set(random.Random(7).sample(range(count), 3))
    components = iter(("kube-apiserver", "kube-scheduler", "kube-controller-manager"))
    for number in range(count):
        if number in places:
            name = next(components)
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-cp-1",
                    "namespace": "kube-system",
                    "uid": f"u-{number}",
                    "labels": {"component": name},
                    "annotations": {"kubernetes.io/config.mirror": "x"},
                },
                "spec": {
                    "nodeName": "cp-1",
                    "containers": [
                        {"name": name, "image": f"registry.k8s.io/{name}:v1.36.4", "command": [name, "--v=2"]}
                    ],
                },
                "status": {"phase": "Running"},
            }
            continue
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"app-{number}",
                "namespace": f"team-{number % 40}",
                "uid": f"u-{number}",
                "annotations": {"example.com/blob": "x" * size},
            },
            "spec": {"nodeName": f"w-{number % 99}", "containers": [{"name": "c", "image": "example/app:1"}]},
            "status": {"phase": "Running"},
        }


def _measured(path: Path) -> tuple[int, float, str]:
    """Exit code and MiB of a snapshot of a file in a process of its own; its stdout."""
    code = (
        "import re, sys\n"
        "from changegen.cli import cli\n"
        "try: cli(['snapshot', sys.argv[1]], standalone_mode=True)\n"
        # ru_maxrss would count the process that started this one, too.
        "finally: print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, int(done.stderr.strip().splitlines()[-1]) / 1024, done.stdout


def _found(stdout: str) -> set[str]:
    return {c["component"] for c in json.loads(stdout)["components"] if c["instance"]}


ALL_THREE = {"kube-apiserver", "kube-scheduler", "kube-controller-manager"}


@pytest.mark.parametrize(
    ("pods", "mebibytes"), [(4000, 160), pytest.param(20000, 420, marks=pytest.mark.slow)]
)
def test_huge_dump_in_json(tmp_path: Path, pods: int, mebibytes: float) -> None:
    path = tmp_path / "pods.json"
    listed = {"apiVersion": "v1", "kind": "PodList", "items": list(_pods(pods, 11_600))}
    path.write_text(json.dumps(listed), encoding="utf-8")
    assert path.stat().st_size > pods * 11_600
    code, peak, stdout = _measured(path)
    assert code == 0
    assert _found(stdout) == ALL_THREE
    assert peak < mebibytes
    # Cut: the rest counts, and it is no success.
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size * 9 // 10)
    code, _, stdout = _measured(path)
    assert code == 4
    assert any(u["reason"] == "truncated" for u in json.loads(stdout)["unobserved"])


def test_huge_dump_in_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from changegen.collect import records, yamlread

    lines = ["apiVersion: v1", "kind: PodList", "items:"]
    lines += [f"- {json.dumps(pod)}" for pod in _pods(300, 11_600)]
    path = tmp_path / "pods.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shown = run("snapshot", path)
    assert _found(shown.stdout) == ALL_THREE
    assert "-o json" not in shown.stderr
    assert yamlread.FAST
    monkeypatch.setattr(records, "SLOW_YAML_BYTES", 2**20)
    shown = run("snapshot", path)
    assert "take long to read" in shown.stderr
    assert _found(shown.stdout) == ALL_THREE
    monkeypatch.setattr(records, "MAX_YAML_BYTES", 2**20)
    failed = run("snapshot", path, code=2)
    assert "-o json" in failed.stderr
    assert failed.stdout == ""


def test_huge_dump_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    listed = {"apiVersion": "v1", "kind": "PodList", "items": list(_pods(8000, 11_600))}
    path.write_text(json.dumps(listed), encoding="utf-8")
    limit = 110 * 2**20

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "changegen", "snapshot", str(path), "-o", str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=little,
    )
    assert done.returncode != 0
    assert not (tmp_path / "out.json").exists()
    assert "Traceback" not in done.stderr
    assert "Error: not enough memory" in done.stderr
