"""Feature gates as the components read them. tests/controlplane holds the same against started processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.gates import (
    ALL_ALPHA,
    ALL_BETA,
    COMPONENTS,
    REGISTRY_COMPONENTS,
    Alternative,
    GateForecast,
    GateSources,
    effective,
    flag_values,
    forecast,
    go_parse_bool,
    go_quote,
    parse_gates,
    spec_at,
    start,
)
from changegen.kubedata import load
from changegen.versions import minor_key

DATA = load()
RECORDED = Path(__file__).parent / "data" / "recorded"
NEWEST = "1.37.2"
FAILS = "failed to set feature gates from initial flags-based config: "


def flags(*values: str, **rest: object) -> GateSources:
    return GateSources(flags=values, **rest)  # type: ignore[arg-type]


def named(forecasts: tuple[GateForecast, ...], gate: str) -> GateForecast:
    return next(item for item in forecasts if item.gate == gate)


# ---------------------------------------------------------------------------------------------------- command lines


@pytest.mark.parametrize(
    ("argv", "values"),
    [
        (["--feature-gates=A=true"], ("A=true",)),
        (["--feature-gates", "A=true"], ("A=true",)),
        (["--feature_gates=A=true", "--feature-gates=B=true"], ("A=true", "B=true")),
        (["--v=4", "--profiling", "--feature-gates=A=true"], ("A=true",)),
        (["--v", "4", "--feature-gates", "A=true,B=false", "--other"], ("A=true,B=false",)),
        (["--kubeconfig", "--feature-gates=A=true"], ("A=true",)),
        (["--feature-gates="], ("",)),
        (["--feature-gates"], ()),
        (["--feature-gates", "--odd=1"], ("--odd=1",)),
        (["--oom-score-adj", "-999", "--feature-gates=A=true"], ("A=true",)),
        (["--", "--feature-gates=A=true"], ()),
        (["--feature-gates-file=x", "--my-feature-gates=A=true"], ()),
        (["positional", "-v", "--feature-gates=A=true"], ("A=true",)),
    ],
)
def test_values_of_a_flag(argv: list[str], values: tuple[str, ...]) -> None:
    assert flag_values(argv, "feature-gates") == values


def test_with_the_flags_of_the_component_a_value_that_looks_like_a_flag_is_a_value() -> None:
    bare = {name for name, flag in DATA.flags("kube-apiserver", "1.37").items() if flag.bare}
    argv = ["--tls-cert-file", "--feature-gates=A=true", "--profiling", "--feature-gates=B=true"]
    assert flag_values(argv, "feature-gates", bare) == ("B=true",)


def test_sources_from_a_command_line() -> None:
    sources = GateSources.from_argv(
        [
            "--feature-gates=A=true",
            "--emulated_version",
            "1.36",
            "--min-compatibility-version=1.35",
            "--emulation-forward-compatible",
            "--runtime-config-emulation-forward-compatible=false",
        ]
    )
    assert sources.flags == ("A=true",)
    assert (sources.emulated, sources.min_compat) == (("1.36",), ("1.35",))
    assert sources.emulation_forward_compatible
    assert not sources.runtime_config_emulation_forward_compatible


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_spellings_of_true(text: str) -> None:
    assert go_parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_spellings_of_false(text: str) -> None:
    assert go_parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "tRue", "on", " true", '"true"', "2"])
def test_what_is_no_boolean_to_go(text: str) -> None:
    assert go_parse_bool(text) is None


def test_quoting_as_go_does() -> None:
    assert go_quote('a"b\\c\n\x00é\u200b\U0001f600\x7f') == '"a\\"b\\\\c\\n\\x00é\\u200b\U0001f600\\x7f"'


# ---------------------------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize("component", COMPONENTS)
def test_repeated_flags_add_up_and_the_last_value_of_a_name_wins(component: str) -> None:
    parsed = parse_gates(component, flags("A=true,B=true", "C=t,A=false"))
    assert parsed.values == {"A": False, "B": True, "C": True}
    assert parsed.repeated == ("A",)
    assert parsed.errors == ()


@pytest.mark.parametrize("component", COMPONENTS)
def test_spaces_are_trimmed_and_empty_items_skipped(component: str) -> None:
    assert parse_gates(component, flags(", A = true ,,B\t=\xa0false,")).values == {"A": True, "B": False}


def test_quotes_are_part_of_the_value() -> None:
    parsed = parse_gates("kube-apiserver", flags('"A=true"'))
    assert parsed.values == {}
    assert parsed.entries[0].text == '"A=true"'
    verdict = start("kube-apiserver", NEWEST, flags('"A=true"'))
    assert verdict.starts is False
    assert verdict.messages == (
        'invalid value of "A=true", err: strconv.ParseBool: parsing "true\\"": invalid syntax',
    )


def test_a_prefix_is_read_by_the_control_plane_only() -> None:
    assert parse_gates("kube-scheduler", flags("kube:A=true, kube : B=false")).values == {
        "A": True,
        "B": False,
    }
    assert parse_gates("kubelet", flags("kube:A=true")).values == {"kube:A": True}
    assert start("kubelet", NEWEST, flags("kube:SELinuxMount=true")).messages == (
        "unrecognized feature gate: kube:SELinuxMount",
    )


def test_mixed_prefixes_and_unknown_components() -> None:
    mixed = start("kube-apiserver", NEWEST, flags("SELinuxMount=true", "kube:KubeletInUserNamespace=true"))
    assert mixed.starts is False
    assert mixed.messages == (
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
    )
    other = start("kube-apiserver", NEWEST, flags("wardle:Foo=true"))
    assert other.messages == ("component not registered: wardle",)
    # The walk begins with either, and the first fault ends it.
    both = start("kube-apiserver", NEWEST, flags("kube:NoSuchGate=true,SELinuxMount=true"))
    assert both.explains({"unrecognized feature gate: NoSuchGate"})
    assert both.explains({mixed.messages[0]})
    assert not both.explains({mixed.messages[0], "unrecognized feature gate: NoSuchGate"})


def test_a_kubelet_reads_file_then_drop_ins_then_flags() -> None:
    sources = GateSources(
        flags=("C=false",), file={"A": True, "B": True, "C": True}, dropins=({"B": False}, {"D": True})
    )
    parsed = parse_gates("kubelet", sources)
    assert parsed.values == {"A": True, "B": False, "C": False, "D": True}
    assert parsed.origins == {"A": "file", "B": "drop-in", "C": "flag", "D": "drop-in"}
    assert parsed.flag_values == {"C": False}


def test_kube_proxy_ignores_its_flag_when_it_has_a_file() -> None:
    sources = GateSources(flags=("SELinuxMount=false,NoSuchGate=true",), file={"KubeProxyIPVS": False})
    parsed = parse_gates("kube-proxy", sources)
    assert parsed.values == {"KubeProxyIPVS": False}
    assert parsed.flags_ignored
    assert start("kube-proxy", NEWEST, sources).starts
    # A flag that cannot be read stops it all the same.
    broken = start("kube-proxy", NEWEST, GateSources(flags=("SELinuxMount",), file={}))
    assert broken.stage == "command line"
    assert broken.messages == (
        'invalid argument "SELinuxMount" for "--feature-gates" flag: malformed pair, expect string=bool',
    )


items = st.lists(
    st.tuples(st.sampled_from(["A", "B", "C", "D"]), st.sampled_from(["true", "false", "1", "F"])), max_size=8
)


@given(items, st.data(), st.sampled_from(COMPONENTS))
def test_how_gates_are_spread_over_flags_does_not_matter(
    pairs: list[tuple[str, str]], data: st.DataObject, component: str
) -> None:
    texts = [f"{name}={value}" for name, value in pairs]
    one = parse_gates(component, flags(",".join(texts)))
    cut = data.draw(st.integers(0, len(texts)))
    two = parse_gates(component, flags(",".join(texts[:cut]), ",".join(texts[cut:])))
    spaced = parse_gates(component, flags(" , ".join(texts)))
    assert one.values == two.values == spaced.values
    assert one.values == {name: go_parse_bool(value) for name, value in pairs}


@given(st.text(max_size=40), st.sampled_from(COMPONENTS))
def test_any_flag_value_gets_a_verdict_that_explains_itself(value: str, component: str) -> None:
    verdict = start(component, NEWEST, flags(value))
    if verdict.starts:
        assert not verdict.problems
        assert verdict.effective
    else:
        assert verdict.starts is False
        for alternative in verdict.alternatives:
            told = alternative.every | frozenset(sorted(alternative.one_of)[:1])
            assert told
            assert verdict.explains(told)
        assert not verdict.explains(set())


# --------------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("value", ["true", "false"])
def test_a_removed_gate_stops_every_component_whatever_its_value(component: str, value: str) -> None:
    verdict = start(component, NEWEST, flags(f"SidecarContainers={value}"))
    assert verdict.starts is False
    assert verdict.exit_code == 1
    assert verdict.messages == ("unrecognized feature gate: SidecarContainers",)
    (problem,) = verdict.problems
    assert (problem.kind, problem.removed_in) == ("removed", "1.37")
    # 1.36 has it locked to true.
    assert start(component, "v1.36.3", flags(f"SidecarContainers={value}")).starts is (value == "true")


def test_a_name_that_never_was_is_unknown() -> None:
    (problem,) = start("kubelet", NEWEST, flags("ControlPlaneKubeletLocalMode=true")).problems
    assert (problem.kind, problem.removed_in) == ("unknown", None)


def test_a_locked_gate() -> None:
    verdict = start("kube-scheduler", NEWEST, flags("DRAExtendedResource=false"))
    assert verdict.messages == (
        "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
    )
    same = start("kube-scheduler", NEWEST, flags("DRAExtendedResource=true"))
    assert same.starts
    assert [warning.gate for warning in same.warnings] == ["DRAExtendedResource"]
    off = start("kube-scheduler", NEWEST, flags("DeclarativeValidationTakeover=true"))
    assert off.messages == (
        "cannot set feature gate DeclarativeValidationTakeover to true, feature is locked to false",
    )


def test_ga_is_not_locked_but_may_be_depended_on() -> None:
    alone = start("kube-apiserver", NEWEST, flags("DRADeviceTaints=false"))
    assert alone.messages == (
        "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
    )
    assert alone.problems[0].missing == ("DRADeviceTaints",)
    both = start("kube-apiserver", NEWEST, flags("DRADeviceTaints=false,DRADeviceTaintRules=false"))
    assert both.starts
    assert both.effective["DRADeviceTaints"] is False
    # 1.34 does not check dependencies.
    assert start("kube-apiserver", "1.34.4", flags("DynamicResourceAllocation=false")).starts
    # 1.35 has DynamicResourceAllocation locked.
    assert start("kube-apiserver", "1.35.4", flags("DynamicResourceAllocation=false")).starts is False


def test_dependencies_are_told_only_when_every_value_is_accepted() -> None:
    verdict = start("kube-apiserver", NEWEST, flags("DRADeviceTaints=false,DRAExtendedResource=false"))
    assert verdict.messages == (
        "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
    )


def test_an_unknown_name_hides_what_comes_after_it() -> None:
    verdict = start("kube-apiserver", NEWEST, flags("NoSuch=true,NeverWas=true,DRAExtendedResource=false"))
    unknown = ["unrecognized feature gate: NoSuch", "unrecognized feature gate: NeverWas"]
    locked = "cannot set feature gate DRAExtendedResource to false, feature is locked to true"
    assert verdict.explains({unknown[0]})
    assert verdict.explains({unknown[1], locked})
    assert not verdict.explains(set(unknown))
    assert not verdict.explains({locked})
    assert {problem.kind for problem in verdict.problems} == {"unknown", "locked"}


def test_several_locked_gates_are_told_together() -> None:
    verdict = start("kube-apiserver", NEWEST, flags("DRAExtendedResource=false,DRAPrioritizedList=false"))
    assert verdict.explains(verdict.messages)
    assert not verdict.explains(verdict.messages[:1])


def test_all_beta_off_touches_beta_gates_only() -> None:
    verdict = start("kube-apiserver", NEWEST, flags("AllBeta=false"))
    assert verdict.starts
    for name, gate in DATA.gates(NEWEST).items():
        spec = spec_at(gate, minor_key("1.37"))
        assert spec is not None
        if name not in {ALL_ALPHA, ALL_BETA}:
            assert verdict.effective[name] is (False if spec.stage == "Beta" else spec.default), name


def test_a_named_gate_is_out_of_reach_of_all_alpha_wherever_it_stands() -> None:
    for order in ("AllAlpha=true,DRADerivedAttributes=false", "DRADerivedAttributes=false,AllAlpha=true"):
        values = effective("kube-scheduler", NEWEST, flags(order))
        assert values["DRADerivedAttributes"] is False
        assert values["DRAOptionalNodeOperations"] is True


@pytest.mark.parametrize("component", [*REGISTRY_COMPONENTS])
def test_an_emulated_version_reads_the_table_as_of_then(component: str) -> None:
    sources = flags("DRADerivedAttributes=true", emulated=("1.36",))
    verdict = start(component, NEWEST, sources)
    assert verdict.messages == (
        (
            "cannot set feature gate DRADerivedAttributes to true, feature is PreAlpha at emulated version 1.36, "
            "min compatibility version 1.35"
        ),
    )
    assert (verdict.emulated, verdict.min_compat) == ("1.36", "1.35")
    quiet = start(component, NEWEST, GateSources(emulated=("kube=1.36",)))
    assert quiet.starts
    assert quiet.effective["DRADeviceTaintRules"] is False
    assert "DRADerivedAttributes" not in quiet.effective
    # What the binary no longer has is not brought back.
    assert start(component, NEWEST, flags("SidecarContainers=true", emulated=("1.36",))).starts is False
    # Locks are those of the emulated version.
    assert start(component, NEWEST, flags("DRAPrioritizedList=false", emulated=("1.36",))).starts


def test_a_gate_that_waits_for_the_minimum_compatibility_version() -> None:
    assert effective("kube-apiserver", NEWEST, GateSources())["DRAFractionalCapacityRange"] is False
    raised = GateSources(min_compat=("1.37",))
    assert effective("kube-apiserver", NEWEST, raised)["DRAFractionalCapacityRange"] is True


@pytest.mark.parametrize(
    ("emulated", "minimum", "messages"),
    [
        (
            "1.33",
            "",
            {
                "emulation version 1.33 is not between [1.34, 1.37.0]",
                "minCompatibilityVersion version 1.34 is not between [1.34, 1.33]",
            },
        ),
        ("1.38", "", {"emulation version 1.38 is not between [1.34, 1.37.0]"}),
        ("10.36", "", {"emulation version 10.36 is not between [1.34, 1.37.0]"}),
        ("1.36", "1.37", {"minCompatibilityVersion version 1.37 is not between [1.34, 1.36]"}),
        ("1.36.1", "", {"patch version not allowed, got: kube=1.36.1"}),
        ("1.36,1.36", "", {"duplicate version flag, kube=1.36 and kube=1.36"}),
        ("foo=1.36", "", {"component not registered: foo"}),
        ("1", "", {'illegal version string "1"'}),
        ("new", "", {'could not parse "new" as version'}),
        ("01.36", "", {'illegal zero-prefixed version component "01" in "01.36"'}),
    ],
)
def test_versions_that_are_refused(emulated: str, minimum: str, messages: set[str]) -> None:
    sources = GateSources(emulated=(emulated,), min_compat=(minimum,) if minimum else ())
    verdict = start("kube-apiserver", NEWEST, sources)
    assert verdict.starts is False
    assert verdict.explains(messages)


def test_a_vendor_s_binary_names_itself_in_the_range() -> None:
    verdict = start("kube-apiserver", "v1.37.2-eks-1234567", GateSources(emulated=("1.38",)))
    assert verdict.messages == ("emulation version 1.38 is not between [1.34, 1.37.0-eks-1234567]",)


def test_forward_compatibility_needs_an_emulated_version() -> None:
    sources = GateSources(emulation_forward_compatible=True)
    assert start("kube-apiserver", NEWEST, sources).stage == "validation"
    lowered = GateSources(emulation_forward_compatible=True, emulated=("1.36",))
    assert start("kube-apiserver", NEWEST, lowered).starts


def test_flags_that_a_minor_does_not_have() -> None:
    verdict = start("kube-scheduler", "1.34.4", GateSources(min_compat=("1.33",)))
    assert verdict.messages == ("unknown flag: --min-compatibility-version",)
    assert verdict.stage == "command line"
    assert start("kubelet", NEWEST, GateSources(emulated=("1.36",))).messages == (
        "unknown flag: --emulated-version",
    )


def test_a_kubelet_that_is_stopped_by_its_flags_says_so() -> None:
    verdict = start("kubelet", NEWEST, flags("NoSuchGate=true"))
    assert (verdict.prefix, verdict.exit_code) == (FAILS, 1)
    assert start("kube-proxy", NEWEST, flags("NoSuchGate=true")).prefix == "failed complete: "


def test_a_kubelet_panics_on_the_gates_of_its_file() -> None:
    verdict = start("kubelet", NEWEST, GateSources(file={"SidecarContainers": True}))
    assert verdict.exit_code == 2
    assert verdict.prefix.startswith("panic: ")
    assert verdict.messages == ("unrecognized feature gate: SidecarContainers",)


def test_a_kubelet_reads_its_flags_alone_first() -> None:
    # The file would turn the dependent gate off, but the flags are looked at before it.
    sources = GateSources(flags=("DRADeviceTaints=false",), file={"DRADeviceTaintRules": False})
    verdict = start("kubelet", NEWEST, sources)
    assert verdict.starts is False
    assert verdict.prefix == FAILS
    assert start(
        "kubelet", NEWEST, GateSources(file={"DRADeviceTaints": False, "DRADeviceTaintRules": False})
    ).starts


def test_fields_that_a_kubelet_defaults_with_their_gate() -> None:
    name = "KubeletCrashLoopBackOffMax"
    without_file = start("kubelet", NEWEST, flags(f"{name}=false"))
    assert without_file.stage == "validation"
    assert "MaxContainerRestartPeriod must not be set" in without_file.messages[0]
    # With a file its fields are defaulted after the flags were read.
    assert start("kubelet", NEWEST, GateSources(flags=(f"{name}=false",), file={})).starts
    assert start("kubelet", NEWEST, GateSources(file={name: False})).starts
    contrary = start("kubelet", NEWEST, GateSources(flags=(f"{name}=false",), file={name: True}))
    assert contrary.stage == "validation"
    off_then_on = start("kubelet", NEWEST, GateSources(flags=(f"{name}=true",), file={name: False}))
    assert "MaxContainerRestartPeriod must be set" in off_then_on.messages[0]


@pytest.mark.parametrize(
    ("component", "version", "said"),
    [
        ("kube-apiserver", "v1.38.0", "newer than the data"),
        ("kube-apiserver", "v1.33.9", "older than the data"),
        ("kube-apiserver", "latest", "no Kubernetes version"),
        ("etcd", "3.6.8-0", "gates of its own"),
        ("kubeadm", "v1.37.2", "gates of its own"),
        ("csi-provisioner", "v5.0.0", "gates of its own"),
    ],
)
def test_what_the_data_cannot_tell(component: str, version: str, said: str) -> None:
    verdict = start(component, version, flags("Foo=true"))
    assert verdict.starts is None
    assert said in verdict.reason
    forecasted = forecast(component, "v1.36.3", version, flags("Foo=true"))
    assert forecasted.starts is None
    assert said in forecasted.verdict.reason
    assert forecasted.gates == ()


def test_a_distribution_with_gates_of_its_own_makes_unknown_names_undecided() -> None:
    sources = flags("ExternalOIDC=true")
    assert start("kube-apiserver", NEWEST, sources).starts is False
    undecided = start("kube-apiserver", NEWEST, sources, foreign_gates=True)
    assert undecided.starts is None
    assert "of its own" in undecided.reason
    assert (
        start("kube-apiserver", NEWEST, flags("DRAExtendedResource=false"), foreign_gates=True).starts
        is False
    )


def test_alternatives() -> None:
    alternative = Alternative(every=frozenset({"a"}), one_of=frozenset({"b", "c"}), some=frozenset({"d"}))
    assert alternative.explains(["a", "b"])
    assert alternative.explains(["a", "c", "d"])
    assert not alternative.explains(["a"])
    assert not alternative.explains(["a", "b", "c"])
    assert not alternative.explains(["b"])
    assert not alternative.explains(["a", "b", "e"])


# -------------------------------------------------------------------------------------------------------- effective


@pytest.mark.parametrize(
    ("folder", "version", "gates"),
    [
        ("before", "1.36.3", "DRADeviceTaintRules=true,SidecarContainers=true"),
        ("after", "1.37.2", "DRADeviceTaintRules=true"),
    ],
)
def test_computed_gates_are_those_that_a_real_apiserver_reported(
    folder: str, version: str, gates: str
) -> None:
    text = (RECORDED / folder / "kube-apiserver-metrics.txt").read_text(encoding="utf-8")
    found = re.findall(r'kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)', text)
    assert len(found) > 200
    reported = {name: value == "1" for name, _, value in found}
    assert effective("kube-apiserver", version, flags(gates)) == reported
    stages = {"ALPHA": "Alpha", "BETA": "Beta", "": "GA", "DEPRECATED": "Deprecated"}
    for name, stage, _ in found:
        spec = spec_at(DATA.gates(version)[name], minor_key(version[:4]))
        assert spec is not None
        assert spec.stage == stages[stage], name


def test_one_component_may_have_a_default_of_its_own() -> None:
    values = {name: effective(name, "1.34.4", GateSources())["WatchListClient"] for name in COMPONENTS}
    assert values == {name: name == "kube-controller-manager" for name in COMPONENTS}


def test_effective_describes_an_instance_that_should_not_run() -> None:
    values = effective(
        "kubelet", NEWEST, flags("NoSuchGate=true,DRAExtendedResource=false,SELinuxMount=false")
    )
    assert "NoSuchGate" not in values
    assert values["DRAExtendedResource"] is True
    assert values["SELinuxMount"] is False


settings = st.dictionaries(st.sampled_from(sorted(DATA.gates("1.37"))), st.booleans(), max_size=5)


@given(settings, st.sampled_from(COMPONENTS))
def test_setting_what_is_so_anyway_changes_nothing(chosen: dict[str, bool], component: str) -> None:
    sources = flags(",".join(f"{name}={value}" for name, value in chosen.items()))
    verdict = start(component, NEWEST, sources)
    if not verdict.starts:
        return
    assert effective(component, NEWEST, sources) == verdict.effective
    for name, value in chosen.items():
        assert verdict.effective[name] is value
    unnamed = [name for name in verdict.effective if name not in {ALL_ALPHA, ALL_BETA}]
    everything = flags(",".join(f"{name}={verdict.effective[name]}" for name in unnamed))
    again = start(component, NEWEST, everything)
    assert {name: again.effective[name] for name in unnamed} == {
        name: verdict.effective[name] for name in unnamed
    }


# --------------------------------------------------------------------------------------------------------- forecast


def test_kinds_of_a_single_hop() -> None:
    sources = flags(
        "SidecarContainers=true,DRAPrioritizedList=false,DRAAdminAccess=true,SELinuxMount=true,NoSuchGate=true,"
        "KubeletInUserNamespace=false,DRAConsumableCapacity=true"
    )
    found = forecast("kube-apiserver", "v1.36.3", "v1.37.2", sources)
    kinds = {
        gate: named(found.gates, gate).kind
        for gate in ("SidecarContainers", "DRAPrioritizedList", "NoSuchGate")
    }
    assert kinds == {
        "SidecarContainers": "removed",
        "DRAPrioritizedList": "locked-other",
        "NoSuchGate": "unknown",
    }
    assert named(found.gates, "DRAAdminAccess").kind == "locked-same"
    assert named(found.gates, "SELinuxMount").kind == "set-to-default"
    assert named(found.gates, "KubeletInUserNamespace").kind in {"unchanged", "stage-change"}
    assert named(found.gates, "KubeletInUserNamespace").target is False
    rules = named(found.gates, "DRADeviceTaintRules")
    assert (rules.kind, rules.today, rules.target, rules.set_value) == ("flip-on", False, True, None)
    assert (rules.stage_today, rules.stage_target) == ("Beta", "GA")
    assert named(found.gates, "EtcdRangeStream").kind == "new-on"
    assert named(found.gates, "DRADerivedAttributes").kind == "new-off"
    assert named(found.gates, "RetryGenerateName").kind == "gone"
    extended = named(found.gates, "DRAExtendedResource")
    assert (extended.kind, extended.locked_target) == ("stage-change", True)
    assert found.starts is False
    assert found.verdict.starts is False
    removed = named(found.gates, "SidecarContainers")
    assert removed.message == "unrecognized feature gate: SidecarContainers"
    assert removed.target is None
    assert removed.blocking
    assert removed.set_by == "flag"


@pytest.mark.parametrize(("setting", "kind"), [(True, "new-on"), (False, "new-off")])
def test_a_gate_that_is_set_before_its_time_is_new_with_its_value(setting: bool, kind: str) -> None:
    default = {"EtcdRangeStream": True, "DRADerivedAttributes": False}
    gate = next(name for name, value in default.items() if value is not setting)
    found = forecast("kube-apiserver", "v1.36.3", "v1.37.2", flags(f"{gate}={str(setting).lower()}"))
    assert named(found.gates, gate).kind == kind


@pytest.mark.parametrize(
    ("today", "target", "on", "new"),
    [("1.34.4", "1.35.4", 14, 5), ("1.35.4", "1.36.3", 22, 17), ("1.36.3", "1.37.2", 18, 13)],
)
def test_defaults_that_change_with_nobody_touching_them(today: str, target: str, on: int, new: int) -> None:
    found = forecast("kube-apiserver", today, target, GateSources())
    kinds = [gate.kind for gate in found.gates]
    assert kinds.count("flip-on") == on
    assert kinds.count("new-on") == new
    assert "flip-off" not in kinds
    assert not any(gate.blocking for gate in found.gates)
    assert found.starts is True


def test_several_minors_have_a_hop_each() -> None:
    sources = flags("SidecarContainers=true,UserNamespacesPodSecurityStandards=false")
    found = forecast("kube-apiserver", "v1.34.4", "v1.37.2", sources)
    assert [(hop.today, hop.target) for hop in found.hops] == [
        ("1.34", "1.35"),
        ("1.35", "1.36"),
        ("1.36", "1.37"),
    ]
    assert [hop.verdict.starts for hop in found.hops] == [False, False, False]
    assert found.hop_of["UserNamespacesPodSecurityStandards"] == "1.35"
    assert found.hop_of["SidecarContainers"] == "1.37"
    assert found.hop_of["DRADeviceTaintRules"] == "1.35"
    assert found.hop_of["DRADeviceTaints"] == "1.36"
    mended = forecast("kube-apiserver", "v1.34.4", "v1.37.2", flags("SidecarContainers=true"))
    assert [hop.verdict.starts for hop in mended.hops] == [True, True, False]
    assert mended.starts is False


def test_a_dependency_that_breaks_at_the_target() -> None:
    # In 1.36 the rules are off by default, in 1.37 they are on and need the taints.
    sources = flags("DRADeviceTaints=false")
    assert start("kube-scheduler", "1.36.3", sources).starts
    found = forecast("kube-scheduler", "1.36.3", "1.37.2", sources)
    broken = named(found.gates, "DRADeviceTaintRules")
    assert (broken.kind, broken.missing, broken.set_value) == ("dependency", ("DRADeviceTaints",), None)


def test_all_beta_decides_what_nobody_named() -> None:
    found = forecast("kubelet", "1.36.3", "1.37.2", GateSources(file={"AllBeta": False}))
    memory = named(found.gates, "NodeControllerLeaseCircuitBreaker")
    assert (memory.kind, memory.set_by) == ("new-off", "AllBeta")


def test_settings_may_differ_at_the_target() -> None:
    found = forecast(
        "kube-apiserver", "1.36.3", "1.37.2", flags("SidecarContainers=true"), target_sources=GateSources()
    )
    assert found.starts is True
    assert named(found.gates, "SidecarContainers").kind == "gone"


def test_emulation_keeps_the_gates_of_the_older_minor() -> None:
    kept = forecast(
        "kube-apiserver", "1.36.3", "1.37.2", GateSources(), target_sources=GateSources(emulated=("1.36",))
    )
    # A gate that was made for what had none before has an entry for the versions before it.
    assert [(gate.gate, gate.kind) for gate in kept.gates if gate.changes_value] == [
        ("KubeProxyIPVS", "new-on")
    ]
    assert "DRADeviceTaintRules" not in {gate.gate for gate in kept.gates}


def test_the_same_version_forecasts_nothing() -> None:
    for component in COMPONENTS:
        found = forecast(component, NEWEST, NEWEST, GateSources())
        assert found.gates == ()
        assert found.hops == ()
        assert found.starts is True


@given(
    settings,
    st.sampled_from(COMPONENTS),
    st.sampled_from([("1.34", "1.35"), ("1.35", "1.37"), ("1.36", "1.37")]),
)
def test_a_forecast_blocks_just_where_the_component_would_stop_on_gates(
    chosen: dict[str, bool], component: str, step: tuple[str, str]
) -> None:
    sources = flags(",".join(f"{name}={value}" for name, value in chosen.items()))
    found = forecast(component, *step, sources)
    kinds = {problem.kind for problem in found.verdict.problems} - {"config"}
    assert any(gate.blocking for gate in found.gates) is bool(kinds)
    for name, value in chosen.items():
        if name not in {ALL_ALPHA, ALL_BETA}:
            assert named(found.gates, name).set_value is value
    for gate in found.gates:
        assert not gate.blocking or gate.message
