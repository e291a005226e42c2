"""Served APIs and --runtime-config. tests/controlplane holds the same against discovery of real apiservers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.apis import (
    ApiResource,
    forecast_apis,
    parse_runtime_config,
    runtime_config,
    served_apis,
    start_apiserver,
    stored_versions,
)
from changegen.gates import GateSources
from changegen.kubedata import load

DATA = load()
NEWEST = "1.37.2"
ALL_OFF = "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true"
RECORDED = Path(__file__).parent / "data" / "recorded"
RULE = ApiResource("resource.k8s.io", "v1", "devicetaintrules")


def test_the_flag_adds_up_and_the_last_value_of_a_key_wins() -> None:
    assert parse_runtime_config(["a/v1=true, b/v1 = false ,,c/v1", "a/v1=false"]) == {
        "a/v1": "false",
        "b/v1": "false",
        "c/v1": "",
    }


def test_default_apis_of_each_minor() -> None:
    assert RULE in served_apis(NEWEST)
    assert RULE not in served_apis("1.36.3")
    for minor in DATA.minors:
        served = served_apis(minor)
        assert ApiResource("", "v1", "pods") in served
        assert ApiResource("apiextensions.k8s.io", "v1", "customresourcedefinitions") in served
        assert all("alpha" not in item.version for item in served)
        assert {str(item) for item in served} == {
            f"{api.group_version}/{api.resource}" for api in DATA.apis(minor) if api.enabled
        }


@pytest.mark.parametrize(("folder", "version"), [("before", "1.36.3"), ("after", "1.37.2")])
def test_served_versions_are_those_of_a_real_apiserver(folder: str, version: str) -> None:
    listing = json.loads((RECORDED / folder / "apis.json").read_text(encoding="utf-8"))
    real = {entry["groupVersion"] for group in listing["groups"] for entry in group["versions"]}
    flagz = (RECORDED / folder / "kube-apiserver-flagz.txt").read_text(encoding="utf-8")
    given = re.search(r"^runtime-config\W+(.*)$", flagz, re.MULTILINE)
    assert given is not None
    computed = {item.group_version for item in served_apis(version, [given[1]]) if item.group}
    builtin = {group for group in DATA.minor(version).groups if group}
    assert computed == {name for name in real if name.partition("/")[0] in builtin}


def test_one_version_one_resource_and_all_of_a_stage() -> None:
    beta = served_apis(NEWEST, ["resource.k8s.io/v1beta2=true"])
    assert beta - served_apis(NEWEST) == {
        ApiResource("resource.k8s.io", "v1beta2", name)
        for name in (
            "deviceclasses",
            "devicetaintrules",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourceslices",
        )
    }
    single = served_apis(NEWEST, ["resource.k8s.io/v1beta2/devicetaintrules=true"])
    assert single - served_apis(NEWEST) == {ApiResource("resource.k8s.io", "v1beta2", "devicetaintrules")}
    less = served_apis(NEWEST, ["resource.k8s.io/v1beta2,resource.k8s.io/v1beta2/devicetaintrules=false"])
    assert ApiResource("resource.k8s.io", "v1beta2", "devicetaintrules") not in less
    assert ApiResource("resource.k8s.io", "v1beta2", "resourceslices") in less
    everything = served_apis(NEWEST, ["api/all=true"])
    assert everything > beta
    assert served_apis(NEWEST, ["api/all=true", "api/alpha=false,api/beta=false"]) == served_apis(NEWEST)


def test_a_gate_decides_too() -> None:
    workloads = ApiResource("scheduling.k8s.io", "v1beta1", "workloads")
    on = ["scheduling.k8s.io/v1beta1=true"]
    assert workloads not in served_apis(NEWEST, on)
    assert workloads in served_apis(NEWEST, on, GateSources(flags=("GenericWorkload=true",)))
    verdict = runtime_config(NEWEST, on)
    assert verdict.starts
    assert verdict.without_effect == ("scheduling.k8s.io/v1beta1",)
    certificates = ApiResource("certificates.k8s.io", "v1", "clustertrustbundles")
    assert certificates in served_apis(NEWEST)
    assert certificates not in served_apis(NEWEST, (), GateSources(flags=("ClusterTrustBundle=false",)))


def test_a_version_whose_kinds_are_all_removed_is_accepted_and_not_served() -> None:
    verdict = runtime_config(NEWEST, ["networking.k8s.io/v1beta1=true"])
    assert verdict.starts
    assert verdict.without_effect == ("networking.k8s.io/v1beta1",)
    assert ApiResource("networking.k8s.io", "v1beta1", "servicecidrs") in served_apis(
        "1.36.3", ["networking.k8s.io/v1beta1=true"]
    )


@pytest.mark.parametrize(
    ("version", "value", "messages"),
    [
        (NEWEST, "scheduling.k8s.io/v1alpha2=true", {"group version scheduling.k8s.io/v1alpha2 that has not been registered"}),
        (NEWEST, "scheduling.k8s.io/v1alpha2=false", {"group version scheduling.k8s.io/v1alpha2 that has not been registered"}),
        (NEWEST, "foo/v1=true,bar/v2", {"unknown api groups bar/v2,foo/v1"}),
        ("1.35.4", "foo/v1=true", {"unknown api groups foo"}),
        (NEWEST, "api/all=false", {"invalid runtime-config with only api/all=false", ALL_OFF}),
        ("1.35.4", "api/all=false", {"invalid key with only api/all=false", ALL_OFF}),
        (NEWEST, "a/b/c/d=true", {"runtime-config invalid key a/b/c/d"}),
        (NEWEST, "resources=true", {"runtime-config invalid key resources"}),
        (NEWEST, "api/beta=yes", {"invalid value api/beta=yes"}),
        (NEWEST, "api/beta=", {"invalid value api/beta="}),
        (NEWEST, "apps/v1=maybe", {'invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax'}),
        (
            NEWEST,
            "resource.k8s.io/v1/DeviceClasses=true",
            {
                'invalid key resource.k8s.io/v1/DeviceClasses: group/version/resource and resource is always lowercase plural, not "DeviceClasses"'
            },
        ),
        (NEWEST, "api/ga=false,apps/v1=true", {"--runtime-config=api/ga=false conflicts with --enable-priority-and-fairness=true"}),
        (
            NEWEST,
            "flowcontrol.apiserver.k8s.io/v1=false,foo/v1=true",
            {
                "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with --enable-priority-and-fairness=true",
                "unknown api groups foo/v1",
            },
        ),
    ],
)  # fmt: skip
def test_values_that_stop_the_apiserver(version: str, value: str, messages: set[str]) -> None:
    verdict = runtime_config(version, [value])
    assert verdict.starts is False
    assert verdict.explains(messages)
    assert verdict.served == frozenset()
    assert start_apiserver(version, GateSources(), [value]).explains(messages)


def test_a_group_version_that_went_names_the_minor() -> None:
    (problem,) = runtime_config(NEWEST, ["scheduling.k8s.io/v1alpha2=true"]).problems
    assert (problem.kind, problem.removed_in) == ("unknown-version", "1.37")
    (older,) = runtime_config(NEWEST, ["scheduling.k8s.io/v1alpha1=true"]).problems
    assert older.removed_in == "1.36"
    (never,) = runtime_config(NEWEST, ["apps/v9=true"]).problems
    assert never.removed_in is None


def test_the_first_of_several_faults_is_any() -> None:
    verdict = runtime_config(NEWEST, ["apps/v9=true,batch/v9=true"])
    told = [f"group version {name}/v9 that has not been registered" for name in ("apps", "batch")]
    assert verdict.explains([told[0]])
    assert verdict.explains([told[1]])
    assert not verdict.explains(told)


def test_without_priority_and_fairness_its_api_may_be_off() -> None:
    value = ["flowcontrol.apiserver.k8s.io/v1=false"]
    assert runtime_config(NEWEST, value).starts is False
    assert runtime_config(NEWEST, value, priority_and_fairness=False).starts


@pytest.mark.parametrize("key", ["v1", "api/v1", "v1/pods", "/v1"])
def test_old_spellings_of_the_core_group(key: str) -> None:
    assert runtime_config(NEWEST, [f"{key}=true,api/legacy=x"]).served == served_apis(NEWEST)
    off = runtime_config(NEWEST, [f"{key}=false"])
    assert off.explains({"panic: interface conversion: interface is nil, not rest.Getter"})
    assert (off.stage, off.exit_code) == ("serving", 2)
    assert off.problems[0].keys == (key,)


def test_kube_apiserver_needs_its_aggregated_server_too() -> None:
    words = "API group/version apiregistration.k8s.io/v1 must be enabled"
    for entry in ("apiregistration.k8s.io/v1=false", "apiregistration.k8s.io/v1/apiservices=0"):
        verdict = start_apiserver(NEWEST, GateSources(), [entry])
        assert verdict.explains({words})
        assert (verdict.stage, verdict.exit_code) == ("serving", 1)
    some = ["api/all=false,v1=true"]
    assert runtime_config(NEWEST, some, priority_and_fairness=False).explains({words})
    assert runtime_config(
        NEWEST, [*some, "apiregistration.k8s.io/v1=true"], priority_and_fairness=False
    ).starts


def test_faults_behind_the_first_ones_are_known() -> None:
    verdict = runtime_config(NEWEST, ["foo/v1,apps/v9,batch/v1=maybe", "apiregistration.k8s.io/v1=false"])
    assert verdict.explains({"unknown api groups foo/v1"})
    assert [problem.kind for problem in verdict.problems] == [
        "unknown-group",
        "unknown-version",
        "invalid-value",
        "needed",
    ]


def test_emulation_decides_what_is_there_yet() -> None:
    emulated = GateSources(emulated=("1.36",))
    assert served_apis(NEWEST, (), emulated) == served_apis("1.36.3")
    refused = runtime_config(NEWEST, ["resource.k8s.io/v1/devicetaintrules=true"], emulated)
    assert refused.starts is False
    assert refused.problems[0].kind == "not-introduced"
    wanted = runtime_config(NEWEST, ["lifecycle.k8s.io/v1alpha1=true"], emulated)
    assert wanted.starts
    forward = GateSources(emulated=("1.36",), runtime_config_emulation_forward_compatible=True)
    assert RULE in served_apis(NEWEST, ["resource.k8s.io/v1/devicetaintrules=true"], forward)
    on_with_lower = GateSources(emulated=("1.36",), emulation_forward_compatible=True)
    assert RULE in served_apis(NEWEST, ["resource.k8s.io/v1beta2/devicetaintrules=true"], on_with_lower)
    assert RULE not in served_apis(NEWEST, (), on_with_lower)


def test_gates_and_runtime_config_are_judged_together() -> None:
    gates = GateSources(emulated=("1.33",))
    verdict = start_apiserver(NEWEST, gates, ["foo/v1=true"])
    assert verdict.explains(
        {
            "emulation version 1.33 is not between [1.34, 1.37.0]",
            "minCompatibilityVersion version 1.34 is not between [1.34, 1.33]",
            "unknown api groups foo/v1",
        }
    )
    # Gates are set before anything of this is looked at.
    earlier = start_apiserver(NEWEST, GateSources(flags=("NoSuchGate=true",)), ["foo/v1=true"])
    assert earlier.messages == ("unrecognized feature gate: NoSuchGate",)
    assert {problem.kind for problem in earlier.problems} == {"unknown", "config"}
    assert start_apiserver(NEWEST, GateSources(), ["resource.k8s.io/v1beta1=true"]).starts


def test_a_version_outside_of_the_data() -> None:
    assert runtime_config("1.38.0", ["api/all=true"]).starts is None
    assert start_apiserver("1.38.0", GateSources(), ["api/all=true"]).starts is None


keys = st.sampled_from(sorted(DATA.minor("1.37").versions))


@given(st.dictionaries(keys, st.sampled_from(["true", "false"]), max_size=4))
def test_what_is_served_is_known_and_not_removed(chosen: dict[str, str]) -> None:
    verdict = runtime_config(NEWEST, [",".join(f"{key}={value}" for key, value in chosen.items())])
    servable = {ApiResource(api.group, api.version, api.resource) for api in DATA.apis(NEWEST) if api.served}
    assert verdict.served <= servable
    if verdict.starts:
        for key, value in chosen.items():
            there = any(item.group_version == key for item in verdict.served)
            assert not (value == "false" and there)


# --------------------------------------------------------------------------------------------------------- forecast


def kinds_of(today: str, target: str, kind: str, *values: str) -> set[tuple[str, str, str]]:
    found = forecast_apis(today, target, values)
    return {(item.group, item.version, item.api_kind) for item in found if item.kind == kind}


def test_what_a_hop_does_to_apis() -> None:
    assert ("resource.k8s.io", "v1", "DeviceTaintRule") in kinds_of("1.36", "1.37", "new")
    assert kinds_of("1.36", "1.37", "removed") == {
        ("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle"),
        ("networking.k8s.io", "v1beta1", "IPAddress"),
        ("networking.k8s.io", "v1beta1", "ServiceCIDR"),
        ("storage.k8s.io", "v1beta1", "VolumeAttributesClass"),
    }
    assert kinds_of("1.36", "1.37", "unregistered") == {
        ("scheduling.k8s.io", "v1alpha2", "PodGroup"),
        ("scheduling.k8s.io", "v1alpha2", "Workload"),
    }
    assert kinds_of("1.36", "1.37", "storage-unreadable") == {
        ("scheduling.k8s.io", "v1alpha2", "PodGroup"),
        ("scheduling.k8s.io", "v1alpha2", "Workload"),
    }
    assert kinds_of("1.37", "1.37", "new") == set()


def test_the_way_back_has_storage_that_the_older_minor_cannot_read() -> None:
    back = kinds_of("1.37", "1.36", "storage-unreadable")
    assert ("scheduling.k8s.io", "v1beta1", "Workload") in back
    assert ("scheduling.k8s.io", "v1alpha3", "CompositePodGroup") in back
    # The older minor knows this one, though it does not serve it.
    assert not any(kind == "DeviceTaintRule" for _, _, kind in back)


def test_what_is_on_by_setting_may_go() -> None:
    on = "storage.k8s.io/v1beta1=true"
    assert ("storage.k8s.io", "v1beta1", "VolumeAttributesClass") in kinds_of("1.36", "1.37", "removed", on)
    # A key that would stop the target does not hide the rest.
    both = ("scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true",)
    assert kinds_of("1.36", "1.37", "off", *both) == set()


def test_stored_versions_are_of_kinds_that_are_kept() -> None:
    stored = stored_versions(NEWEST)
    assert stored["resource.k8s.io", "DeviceTaintRule"] == "resource.k8s.io/v1beta2"
    assert stored["", "Pod"] == "v1"
