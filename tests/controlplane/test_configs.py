"""What changegen says of configuration files against started kubelets, kube-proxies and kube-schedulers.

Each is started with a file and with one more flag or setting that stops it later for sure. So it ends by itself, and its
last error tells whether it got past the file: then it is the same as with a file that sets nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from changegen.collect.configmaps import read_config_maps
from changegen.collect.inventory import Inventory
from changegen.configs import STRICT, ConfigVerdict, check, shape_of
from changegen.kubedata import load
from tests.collect.build import config_map, records
from tests.controlplane import build
from tests.controlplane.conftest import need
from tests.controlplane.oracle import Oracle

VERSIONS = build.cluster_versions()
DATA = load()
HEADS = {
    "kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
    "kube-proxy": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\noomScoreAdj: 5000\n",
    "kube-scheduler": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "clientConnection: {kubeconfig: /nonexistent}\n",
}
_REFUSED = ("strict decoding error", "cannot unmarshal", "no kind ", " is missing in ", ' duration "')

BODIES = {
    "kubelet": (
        "",
        "maxPods: 50",
        "noSuch: 1",
        "noSuch: null",
        "maxpods: 50",
        "authentication: {x509: {noSuch: {deep: [1]}}}",
        "registerWithTaints: [{key: a, effect: NoSchedule}, {key: b, effect: NoSchedule, noSuch: 1}]",
        "memoryReservationPolicy: None",
        "tlsCurvePreferences: []",
        "defaultPodSysctls: {}",
        "maxPods: many",
        "maxPods: 1.0",
        "maxPods: 1.5",
        "maxPods: 99999999999",
        "maxPods: ~",
        "noSuch: 1\nmaxPods: many",
        "clusterDNS: 10.96.0.10",
        "clusterDNS: [10.96.0.10]",
        "clusterDNS: [1]",
        "clusterDomain: 5",
        "enableServer: yes",
        'enableServer: "yes"',
        'enableServer: "true"',
        'maxPods: "5"',
        'systemReserved: {pid: "1000", cpu: "0"}',
        'clusterDomain: "true"',
        'syncFrequency: "0"',
        'syncFrequency: "5"',
        "syncFrequency: 5d",
        "evictionHard: {memory.available: 100Mi}",
        "evictionHard: {memory.available: 100}",
        "evictionHard: []",
        "authentication: []",
        "authentication: ~",
        "syncFrequency: 1m30s",
        "syncFrequency: soon",
        "syncFrequency: 5",
        "logging: {verbosity: -1}",
        "logging: {flushFrequency: 5}",
        "memoryThrottlingFactor: 1",
        "maxPods: 1\nmaxPods: 2",
        "maxPods: x\nmaxPods: 2",
        "maxPods: 2\nmaxPods: x",
    ),
    "kube-proxy": (
        "",
        "mode: iptables",
        "noSuch: 1",
        "conntrack: {noSuch: 1, maxPerCore: 5}",
        "portRange: 1-2",
        "enableProfiling: x",
        "iptables: {masqueradeBit: x}",
        "iptables: 5",
        "configSyncPeriod: soon",
        "configSyncPeriod: 5",
        "nodePortAddresses: primary",
        'mode: ""\nmode: ""',
        "enableProfiling: x\nenableProfiling: true",
    ),
    "kube-scheduler": (
        "",
        "parallelism: 5",
        "noSuch: 1",
        "noSuch: ~",
        "healthzBindAddress: 0.0.0.0:10251",
        "leaderElection: {noSuch: 1}",
        "leaderElection: {leaseDuration: soon}",
        "leaderElection: {leaseDuration: 5}",
        "parallelism: x",
        "parallelism: x\nnoSuch: 1",
        "parallelism: 5\nparallelism: 6",
        "profiles: [{schedulerName: a, noSuch: 1}]",
        "profiles: [{schedulerName: a, plugins: {podGroupPostFilter: {}}}]",
        "profiles: [{schedulerName: a, plugins: {placementScore: {}}}]",
        "profiles: {}",
        "percentageOfNodesToScore: 50",
        "podMaxBackoffSeconds: 9\npodInitialBackoffSeconds: 2",
        "profiles: [{schedulerName: a, pluginConfig: [{name: NodeAffinity, args: {noSuch: 1}}]}]",
    ),
}


def files(component: str) -> Iterator[str]:
    """Files to try: with a good head and these bodies, and with heads that are wrong."""
    head = HEADS[component]
    for body in BODIES[component]:
        yield f"{head}{body}\n"
    yield re.sub(r"io/v1\w*", "io/v9", head)
    yield re.sub(r"kind: \w+", "kind: OtherConfiguration", head)
    yield re.sub(r"kind: \w+\n", "", head)
    yield re.sub(r"apiVersion: .*\n", "", head)
    yield json.dumps(yaml.safe_load(head) | {"noSuch": 1})


def verdict(component: str, version: str, text: str) -> ConfigVerdict:
    """What changegen says of a file that it reads from a ConfigMap, or else as such a file."""
    name, key = {
        "kubelet": ("kubelet-config", "kubelet"),
        "kube-proxy": ("kube-proxy", "config.conf"),
        "kube-scheduler": ("second-scheduler", "config.yaml"),
    }[component]
    read = read_config_maps(Inventory.from_records(records(config_map(name, {key: text}))))
    known = DATA.config(component, version)
    assert known is not None
    if read.facts and read.facts[0].document is not None:
        return check(component, read.facts[0].api_version, read.facts[0].document, known)
    # Without its kind it is not taken for such a file; the program that is given it says why.
    assert "KubeletConfiguration" not in text
    content = yaml.safe_load(text)
    return check(component, content.get("apiVersion", ""), shape_of(content), known)


def wrong(component: str, said: ConfigVerdict, usual: str, told: tuple[int, str, str]) -> str:
    """How a verdict and a process differ; empty where they agree."""
    code, error, everything = told
    accepted = error == usual
    if said.starts and said.unsure:
        return ""
    if code != 1 or accepted != said.starts:
        return f"changegen: {said}\n  process: exit {code}, {error}"
    if not said.starts:
        # It tells the first fault that it meets of those of one kind, or all of them.
        return "" if any(fault.message in error for fault in said.faults) else f"{said.faults}\n  {error}"
    lenient = "Using lenient decoding as strict decoding failed" in everything
    if lenient != bool(said.dropped or said.duplicates) or (component in STRICT and lenient):
        return f"lenient: {lenient}, {said}"
    named = set(re.findall(r'unknown field \\?"([^"\\]*)', everything))
    # Strict decoding tells no fields where a key stands twice in YAML; the fields of a list have its numbers.
    if named and {re.sub(r"\[\d+\]", "[]", path) for path in named} != set(said.dropped):
        return f"dropped: {named}, {said.dropped}"
    return ""


def run(asked: Oracle, component: str, texts: Iterable[str]) -> tuple[list[ConfigVerdict], list[str]]:
    """Verdicts, and those that were wrong."""
    usual = asked.configured(component, HEADS[component])[1]
    said, found = [], []
    for text in texts:
        said.append(verdict(component, asked.version, text))
        if difference := wrong(component, said[-1], usual, asked.configured(component, text)):
            found.append(f"{component} {asked.version}\n{text}\n  {difference}")
    return said, found


@pytest.mark.parametrize("component", sorted(HEADS))
@pytest.mark.parametrize("version", VERSIONS)
def test_files(version: str, component: str, tmp_path: Path) -> None:
    need(version)
    said, found = run(Oracle(version, tmp_path), component, files(component))
    assert found == []
    assert 5 < sum(not item.starts for item in said) < len(said) - 1
    # Of the first the reader of YAML does not say whether it stands in quotes, of the second the data has no fields.
    assert {path for item in said for path in item.unsure} <= {
        "enableServer",
        "profiles[].pluginConfig[].args",
    }


SAMPLES: dict[str, Any] = {
    "bool": True,
    "int32": 1,
    "int64": 1,
    "uint32": 1,
    "float32": 1,
    "float64": 0.5,
    "string": "x",
    "duration": "1s",
    "list": [],
    "map": {},
    "object": {},
}
OTHERS: dict[str, Any] = {"bool": 1, "string": True, "duration": 1, "list": {}, "map": [], "object": []}


def single(path: str, value: Any) -> dict[str, Any]:
    """A file's content that sets one field."""
    content: Any = value
    for step in reversed(re.findall(r"\w+|\[\]|\{\}", path)):
        content = [content] if step == "[]" else {"key" if step == "{}" else step: content}
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("component", sorted(HEADS))
@pytest.mark.parametrize("version", VERSIONS)
def test_fields_with_good_and_wrong_types(version: str, component: str, tmp_path: Path) -> None:
    need(version)
    asked = Oracle(version, tmp_path)
    (newest,) = DATA.minor(DATA.newest).configs[component].versions.values()
    # Another part of the fields for each version.
    tried = [(path, typ) for path, typ in newest.items() if typ in SAMPLES][VERSIONS.index(version) :: 9]
    assert len(tried) > 5
    head = yaml.safe_load(HEADS[component])
    differ = []
    for path, typ in tried:
        for value in (SAMPLES[typ], OTHERS.get(typ, "x")):
            text = yaml.safe_dump(head | single(path, value))
            said = verdict(component, version, text)
            error = asked.configured(component, text)[1]
            # Values of the right type may be refused later, for what they are.
            if said.starts == any(words in error for words in _REFUSED) or not (
                said.starts or said.faults[0].message in error
            ):
                differ.append(f"{text}\n  {said}\n  {error}")
    assert differ == []


def test_a_wrong_verdict_is_noticed(tmp_path: Path) -> None:
    # A field that came with 1.37: what is right there is wrong before.
    need("1.36.3")
    asked = Oracle("1.36.3", tmp_path)
    for component, field in (
        ("kube-scheduler", "profiles: [{schedulerName: a, plugins: {podGroupPostFilter: {}}}]"),
        ("kubelet", "defaultPodSysctls: {}"),
    ):
        text = f"{HEADS[component]}{field}\n"
        usual = asked.configured(component, HEADS[component])[1]
        told = asked.configured(component, text)
        assert wrong(component, verdict(component, "1.36.3", text), usual, told) == ""
        assert wrong(component, verdict(component, "1.37.2", text), usual, told)
