"""Verdicts, effective gates, served APIs and storage versions against the real components.

``python -m tests.controlplane oracle`` (``make oracle``) tries every gate in every component; this is a part of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from changegen.apis import ApiResource, served_apis, start_apiserver, stored_versions
from changegen.gates import GateSources, effective
from changegen.kubedata import load
from tests.controlplane import build, kubeadm, oracle
from tests.controlplane.cluster import Cluster, Plan, control_plane
from tests.controlplane.conftest import need
from tests.controlplane.process import ComponentError

VERSIONS = build.cluster_versions()
DATA = load()
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("version", VERSIONS)
def test_single_gates(version: str, tmp_path: Path) -> None:
    need(version)
    # Another part of the gates for each version; the whole is `make oracle`.
    cases = list(oracle.single_gates(version))[VERSIONS.index(version) :: 23]
    report = oracle.Oracle(version, tmp_path).run(cases)
    assert report.tried.total() > 100
    assert 0 < report.refused.total() < report.tried.total()
    assert report.wrong == []


@pytest.mark.parametrize("version", VERSIONS)
def test_combinations(version: str, tmp_path: Path) -> None:
    need(version)
    with oracle.Oracle(version, tmp_path) as asked:
        report = asked.run(oracle.combinations(version, 120, seed=20))
    assert report.tried.total() == 120
    assert 30 < report.refused.total() < 110
    assert report.wrong == []


@pytest.mark.parametrize("version", VERSIONS)
def test_late_faults(version: str, tmp_path: Path) -> None:
    need(version)
    cases = list(oracle.late_faults(version))
    # All that need no emulation, and another part of the rest for each version.
    plain = [case for case in cases if not case.sources.emulated]
    rest = [case for case in cases if case.sources.emulated][VERSIONS.index(version) :: 11]
    with oracle.Oracle(version, tmp_path) as asked:
        report = asked.run([*plain, *rest])
    assert 0 < report.refused.total() < report.tried.total()
    assert report.wrong == []


def test_a_wrong_verdict_is_noticed(tmp_path: Path) -> None:
    # 1.36's verdicts are not 1.37's: an oracle that never finds a fault would prove nothing.
    need("1.37.2")
    asked = oracle.Oracle("1.37.2", tmp_path)
    right = oracle.Case("kube-scheduler", "1.37.2", GateSources(flags=("SidecarContainers=true",)))
    assert asked.check(right) is None
    wrong = oracle.Case("kube-scheduler", "1.36.3", GateSources(flags=("SidecarContainers=true",)))
    found = asked.check(wrong)
    assert found is not None
    assert "unrecognized feature gate: SidecarContainers" in found.observed
    other = oracle.Case(
        "kube-scheduler", "1.36.3", GateSources(flags=("DRAExtendedResource=false,DRADeviceTaints=x",))
    )
    assert asked.check(other) is None


# ------------------------------------------------------------------------------------------------ running apiservers


@dataclass(frozen=True)
class Setting:
    """Flags of a kube-apiserver that starts."""

    name: str
    gates: str = ""
    runtime_config: str = ""
    emulated: str = ""
    min_compat: str = ""
    switches: tuple[str, ...] = ()

    @property
    def sources(self) -> GateSources:
        return GateSources(
            flags=(self.gates,) if self.gates else (),
            emulated=(self.emulated,) if self.emulated else (),
            min_compat=(self.min_compat,) if self.min_compat else (),
            emulation_forward_compatible="emulation-forward-compatible" in self.switches,
            runtime_config_emulation_forward_compatible="runtime-config-emulation-forward-compatible"
            in self.switches,
        )

    @property
    def arguments(self) -> dict[str, str]:
        named = {
            "feature-gates": self.gates,
            "runtime-config": self.runtime_config,
            "emulated-version": self.emulated,
            "min-compatibility-version": self.min_compat,
        }
        return {key: value for key, value in named.items() if value} | dict.fromkeys(self.switches, "true")


def settings(version: str) -> list[Setting]:
    number = int(version.split(".")[1])
    before = f"1.{number - 1}"
    return [
        Setting("default"),
        Setting("all APIs", runtime_config="api/all=true"),
        Setting(
            "all gates and APIs",
            gates="AllAlpha=true,AllBeta=true",
            runtime_config="api/all=true,resource.k8s.io/v1beta1=false,resource.k8s.io/v1beta2/devicetaintrules=false",
        ),
        Setting(
            "no beta",
            gates="AllBeta=false",
            runtime_config="api/beta=true,api/beta=false,batch/v1/cronjobs=false",
        ),
        Setting(
            "older minor",
            emulated=before,
            gates="kube:ContextualLogging=false",
            runtime_config="api/beta=true",
        ),
        Setting(
            "older minor, forward compatible",
            emulated=f"1.{number - 2}",
            runtime_config="resource.k8s.io/v1beta2=true,api/alpha=true",
            switches=("emulation-forward-compatible", "runtime-config-emulation-forward-compatible"),
        ),
        Setting("no way back", min_compat=f"1.{number}", runtime_config="api/all=true"),
    ]


@dataclass
class Running:
    """One node's etcd and apiserver, restarted for each setting."""

    cluster: Cluster

    def restart(self, setting: Setting) -> None:
        configuration = kubeadm.extra_args({"kube-apiserver": setting.arguments})
        self.cluster.write_manifests("cp-1", configuration=configuration)
        self.cluster.restart_instance("kube-apiserver", "cp-1")

    def discovered(self) -> dict[ApiResource, str]:
        """Resources that it serves itself, with their kinds."""
        found = {}
        for path in ("/api", "/apis"):
            status, answer = self.cluster.api.raw("GET", path, accept=_AGGREGATED)
            assert status == 200
            for group in json.loads(answer)["items"]:
                for version in group["versions"]:
                    for resource in version.get("resources", []):
                        name = group["metadata"].get("name", "")
                        # Some of them are only there for their subresources, and have no kind.
                        if kind := resource.get("responseKind", {}).get("kind"):
                            found[ApiResource(name, version["version"], resource["resource"])] = kind
        return found


@pytest.fixture(scope="module", params=VERSIONS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    need(request.param)
    plan = Plan(version=request.param, nodes=[control_plane("cp-1")], addons=False)
    with ExitStack() as stack:
        cluster = Cluster(plan, tmp_path_factory.mktemp(f"oracle-{request.param}-"))
        stack.callback(cluster.stop)
        cluster.prepare()
        cluster.start_component("etcd")
        yield Running(cluster)


def test_gates_and_apis_of_a_running_apiserver(running: Running) -> None:
    version = running.cluster.version
    for setting in settings(version):
        assert start_apiserver(version, setting.sources, (setting.runtime_config,)).starts, setting.name
        running.restart(setting)
        text = running.cluster.api.text("/metrics")
        reported = {
            name: value == "1"
            for name, value in re.findall(
                r'kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} (\d)', text
            )
        }
        assert effective("kube-apiserver", version, setting.sources) == reported, setting.name
        found = running.discovered()
        served = served_apis(version, (setting.runtime_config,), setting.sources)
        assert served == set(found), setting.name
        assert_storage(running, setting, found)


def assert_storage(running: Running, setting: Setting, found: dict[ApiResource, str]) -> None:
    """The hash that discovery shows of each resource's storage version is that of the computed one."""
    stored = stored_versions(running.cluster.version, gates=setting.sources)
    checked = 0
    for group_version in {item.group_version for item in found}:
        path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        for entry in running.cluster.api.get(path)["resources"]:
            shown = entry.get("storageVersionHash")
            # The two delegated servers store their kinds by a storage factory of their own.
            if not shown or group_version.startswith(("apiextensions.", "apiregistration.")):
                continue
            group, _, _ = group_version.rpartition("/")
            target = stored[group, entry["kind"]]
            name, _, version = target.rpartition("/")
            digest = hashlib.sha256(f"{name}/{version}/{entry['kind']}".encode()).digest()
            assert shown == base64.b64encode(digest[:8]).decode(), (
                setting.name,
                group_version,
                entry["name"],
                target,
            )
            checked += 1
    hashes = effective("kube-apiserver", running.cluster.version, setting.sources)["StorageVersionHash"]
    assert checked > 40 if hashes else checked == 0


def test_an_api_that_the_emulated_version_does_not_have_stops_the_apiserver(running: Running) -> None:
    version = running.cluster.version
    number = int(version.split(".")[1])
    sources = GateSources(emulated=(f"1.{number - 1}",))
    new = [
        api for api in DATA.apis(version) if api.served and not api.gates and api.introduced == f"1.{number}"
    ]
    if not new:
        pytest.skip(f"no API of 1.{number} is new and free of gates")
    value = f"{new[0].group_version}/{new[0].resource}=true"
    verdict = start_apiserver(version, sources, (value,))
    assert verdict.starts is False
    with pytest.raises(ComponentError) as stopped:
        running.restart(Setting("refused", emulated=f"1.{number - 1}", runtime_config=value))
    assert verdict.messages[0] in stopped.value.log.replace('\\"', '"')


def test_the_data_would_be_remade_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate: Any = pytest.importorskip("tools.kubedata.generate")
    folder = generate.OUTPUT
    for version in VERSIONS:
        need(version)
        name = f"{'.'.join(version.split('.')[:2])}.json"
        assert generate.minor_file(version) == (folder / name).read_text(encoding="utf-8"), name
