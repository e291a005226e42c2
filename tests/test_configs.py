"""Configuration files of components: what a release refuses, drops or takes. Held against processes in tests/controlplane."""

from __future__ import annotations

from typing import Any

import pytest

from changegen.configs import KINDS, STRICT, ConfigVerdict, check, likely, shape_of
from changegen.kubedata import load

DATA = load()
VERSIONS = {
    "kubelet": "kubelet.config.k8s.io/v1beta1",
    "kube-proxy": "kubeproxy.config.k8s.io/v1alpha1",
    "kube-scheduler": "kubescheduler.config.k8s.io/v1",
}


def judged(
    component: str, content: dict[str, Any], minor: str = "1.37", *twice: str, version: str | None = None
) -> ConfigVerdict:
    known = DATA.config(component, minor)
    assert known is not None
    shape = shape_of({"kind": known.kind, **content}, twice)
    return check(component, VERSIONS[component] if version is None else version, shape, known)


def messages(verdict: ConfigVerdict) -> list[str]:
    return [fault.message for fault in verdict.faults]


@pytest.mark.parametrize("minor", DATA.minors)
def test_the_data_has_one_version_of_each_file(minor: str) -> None:
    configs = DATA.minor(minor).configs
    assert {config.kind: component for component, config in configs.items()} == KINDS
    for component, config in configs.items():
        assert list(config.versions) == [VERSIONS[component]]
        for path in config.versions[VERSIONS[component]]:
            above = path[:-2] if path.endswith(("[]", "{}")) else path.rpartition(".")[0]
            assert not above or above in config.versions[VERSIONS[component]]
    assert DATA.config("kube-apiserver", minor) is None


def test_no_field_of_a_known_minor_is_gone_in_a_later_one() -> None:
    # By this nothing that is read today is refused or dropped on the way up to 1.37; only the way back can.
    for component, version in VERSIONS.items():
        before: dict[str, str] = {}
        for minor in DATA.minors:
            config = DATA.config(component, minor)
            assert config is not None
            fields = config.versions[version]
            assert before.items() <= fields.items(), (component, minor)
            before = fields


def test_a_field_that_is_not_known_stops_the_strict_one_only() -> None:
    assert {"kube-scheduler"} == STRICT
    for component in VERSIONS:
        verdict = judged(component, {"noSuch": 1})
        assert verdict.starts == (component not in STRICT)
        assert verdict.dropped == (() if component in STRICT else ("noSuch",))
    assert messages(judged("kube-scheduler", {"noSuch": 1})) == ['unknown field "noSuch"']
    assert messages(judged("kube-scheduler", {"profiles": [{"noSuch": 1}]})) == ['unknown field "']


def test_a_field_of_the_newer_minor_alone() -> None:
    assert judged("kubelet", {"defaultPodSysctls": {"a": "b"}}, "1.37").dropped == ()
    assert judged("kubelet", {"defaultPodSysctls": {"a": "b"}}, "1.36").dropped == ("defaultPodSysctls",)
    extension: dict[str, Any] = {"profiles": [{"plugins": {"podGroupPostFilter": {}}}]}
    assert judged("kube-scheduler", extension, "1.37").starts
    assert not judged("kube-scheduler", extension, "1.36").starts


def test_names_are_compared_with_their_case_and_a_near_one_is_told() -> None:
    known = DATA.config("kubelet", "1.37")
    assert known is not None
    assert judged("kubelet", {"maxpods": 5}).dropped == ("maxpods",)
    assert likely("maxpods", known) == "maxPods"
    assert likely("evictonHard", known) == "evictionHard"
    assert likely("somethingElse", known) == ""


@pytest.mark.parametrize(
    ("field", "good", "bad", "message"),
    [
        ("maxPods", 5, "many", "json: cannot unmarshal string"),
        ("maxPods", 5.0, 5.5, "json: cannot unmarshal number"),
        ("maxPods", -1, 1 << 31, "json: cannot unmarshal number"),
        ("maxPods", None, [5], "json: cannot unmarshal array"),
        ("podPidsLimit", 1 << 31, 1 << 63, "json: cannot unmarshal number"),
        ("memoryThrottlingFactor", 1, True, "json: cannot unmarshal bool"),
        ("syncFrequency", "1m30s", "soon", "time:"),
        ("syncFrequency", "-1.5h", 5, "json: cannot unmarshal number"),
        ("clusterDNS", ["10.96.0.10"], "10.96.0.10", "json: cannot unmarshal string"),
        ("clusterDNS", [], [1], "json: cannot unmarshal number"),
        ("clusterDNS", None, "5", "json: cannot unmarshal string"),
        ("clusterDNS", None, "yes", "json: cannot unmarshal"),
        (
            "evictionHard",
            {"memory.available": "1Gi"},
            {"memory.available": 1},
            "json: cannot unmarshal number",
        ),
        ("evictionHard", {"plain": "1Gi"}, {"plain": []}, "json: cannot unmarshal array"),
        ("authentication", {"x509": {}}, {"x509": []}, "json: cannot unmarshal array"),
        ("logging", {"verbosity": 1}, {"verbosity": -1}, "json: cannot unmarshal number"),
    ],
)
def test_types(field: str, good: Any, bad: Any, message: str) -> None:
    assert judged("kubelet", {field: good}) == ConfigVerdict()
    verdict = judged("kubelet", {field: bad})
    assert messages(verdict) == [message]
    assert verdict.faults[0].path.startswith(field)


def test_what_reads_itself_is_not_judged() -> None:
    for value in (5, "5s", {"any": ["thing"]}):
        assert judged("kubelet", {"logging": {"flushFrequency": value}}).starts


def test_a_text_that_may_be_a_boolean_or_a_number_is_not_judged() -> None:
    for text in ("yes", "off", "0x1F", "1_000", "010", "1e3", ".5"):
        verdict = judged("kubelet", {"enableServer": text})
        assert verdict.starts
        assert verdict.unsure == ("enableServer",)
    assert not judged("kubelet", {"enableServer": "yesterday"}).starts
    # Without quotes these are no text, so they stand in quotes.
    for text in ("true", "5", "-5", "0"):
        assert not judged("kubelet", {"enableServer": text}).starts
        assert judged("kubelet", {"systemReserved": {"pid": text}}) == ConfigVerdict()
    assert judged("kubelet", {"syncFrequency": "0"}).starts
    assert not judged("kubelet", {"syncFrequency": "5"}).starts
    assert judged("kubelet", {"clusterDNS": ["10.96.0.10"]}).unsure == ()


def test_arguments_of_plugins_are_not_judged() -> None:
    one = {"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"noSuch": 1}}]}]}
    assert judged("kube-scheduler", one).unsure == ("profiles[].pluginConfig[].args",)
    assert judged("kube-scheduler", {"profiles": [{"pluginConfig": []}]}).unsure == ()


def test_versions_and_kinds() -> None:
    kubelet = "kubelet.config.k8s.io/v1beta1"
    assert messages(judged("kubelet", {}, version="kubelet.config.k8s.io/v9")) == [
        'no kind "KubeletConfiguration" is registered for version "kubelet.config.k8s.io/v9"'
    ]
    assert messages(judged("kubelet", {"kind": "Other"})) == [
        f'no kind "Other" is registered for version "{kubelet}"'
    ]
    assert messages(judged("kubelet", {"kind": None})) == ["Object 'Kind' is missing in"]
    assert messages(judged("kubelet", {}, version="")) == ["Object 'apiVersion' is missing in"]
    # It says nothing of fields then.
    assert len(judged("kubelet", {"maxPods": "x"}, version="kubelet.config.k8s.io/v9").faults) == 1


def test_a_wrong_type_is_told_before_what_strict_decoding_finds() -> None:
    both = judged("kube-scheduler", {"noSuch": 1, "parallelism": "x"}, "1.37", "parallelism")
    assert messages(both) == ["json: cannot unmarshal string"]


def test_a_key_that_stands_twice() -> None:
    kubelet = judged("kubelet", {"maxPods": 5}, "1.37", "maxPods")
    assert (kubelet.starts, kubelet.duplicates) == (True, ("maxPods",))
    scheduler = judged("kube-scheduler", {"parallelism": 5}, "1.37", "parallelism")
    assert messages(scheduler) == ['key "parallelism" already set in map']


def test_a_shape_ends_somewhere() -> None:
    assert len(shape_of({f"a{number}": number for number in range(5000)}).fields) == 2000
