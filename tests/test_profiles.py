from __future__ import annotations

from pathlib import Path

import pytest

from changegen import kubedata, profiles
from changegen.errors import ProfileError, UsageError

HEAD = "schema: changegen.profile/v1\nname: mine\n"


def write(folder: Path, text: str, name: str = "mine.yaml") -> str:
    path = folder / name
    path.write_text(HEAD + text, encoding="utf-8")
    return str(path)


def test_shipped_profiles_load_and_are_named_by_their_file():
    rows = [row for row in profiles.list_profiles() if row.shipped]
    assert {"kubernetes-1.35", "kubernetes-1.36", "kubernetes-1.37", "kubernetes-1.37-dra"} <= {
        r.name for r in rows
    }
    for row in rows:
        assert not row.problem
        assert row.title
        assert profiles.load(row.name).name == row.name


def test_extends_lays_the_child_over_its_parent():
    dra = profiles.load("kubernetes-1.37-dra")
    assert dra.target.kubernetes == "1.37"
    assert dra.feature_gates.stages.beta == "named"
    assert {g.name for g in dra.feature_gates.gates} >= {"DRADeviceTaintRules"}


def test_lists_merge_by_name_and_scalars_override(tmp_path):
    write(
        tmp_path,
        """
title: base
feature_gates:
  gates:
  - {name: A, components: [kubelet], value: true, why: base}
  - {name: B, value: true}
change: {owner: base, service: base, approvers: [one]}
features: [device-taints]
""",
        "base.yaml",
    )
    child = write(
        tmp_path,
        """
extends: base.yaml
feature_gates:
  gates:
  - {name: C, value: false}
  - {name: A, value: null}
change: {owner: null, approvers: [two]}
features: [device-status]
""",
    )
    profile = profiles.load(child)
    assert [(g.name, g.value, g.components, g.why) for g in profile.feature_gates.gates] == [
        ("A", None, ("kubelet",), "base"),
        ("B", True, (), ""),
        ("C", False, (), ""),
    ]
    assert profile.title == "base"
    assert (profile.change.owner, profile.change.service, profile.change.approvers) == (
        None,
        "base",
        ("two",),
    )
    assert profile.features == ("device-taints", "device-status")


def test_an_identity_that_stands_twice_is_replaced_as_a_whole(tmp_path):
    write(
        tmp_path,
        "feature_gates:\n  gates:\n"
        "  - {name: A, components: [kubelet], value: true}\n"
        "  - {name: A, components: [kube-proxy], value: true}\n",
        "base.yaml",
    )
    child = write(tmp_path, "extends: ./base.yaml\nfeature_gates:\n  gates:\n  - {name: A, value: false}\n")
    gates = profiles.load(child).feature_gates.gates
    assert [(g.value, g.components) for g in gates] == [(False, ())]


def test_a_circle_of_extends_is_an_error_that_names_it(tmp_path):
    write(tmp_path, "extends: b.yaml\n", "a.yaml")
    write(tmp_path, "extends: a.yaml\n", "b.yaml")
    with pytest.raises(ProfileError, match=r"circle: a\.yaml -> b\.yaml -> a\.yaml") as caught:
        profiles.load(str(tmp_path / "a.yaml"))
    assert caught.value.where == f"{tmp_path / 'b.yaml'}:3"


def test_a_parent_that_is_missing_names_the_line_and_close_names(tmp_path):
    with pytest.raises(
        ProfileError, match=r"mine\.yaml:3: extends kubernetes-1\.73: .*did you mean kubernetes-1\.37"
    ):
        profiles.load(write(tmp_path, "extends: kubernetes-1.73\n"))


def test_own_folder_comes_before_the_shipped_one(tmp_path, monkeypatch):
    (tmp_path / "kubernetes-1.37.yaml").write_text(
        "schema: changegen.profile/v1\nname: kubernetes-1.37\ntitle: ours\n", encoding="utf-8"
    )
    monkeypatch.setenv("CHANGEGEN_PROFILES", str(tmp_path))
    assert profiles.load("kubernetes-1.37").title == "ours"
    row = next(r for r in profiles.list_profiles() if r.name == "kubernetes-1.37")
    assert (row.title, row.shipped) == ("ours", False)


@pytest.mark.parametrize(
    ("text", "line", "path", "said"),
    [
        ("feature_gate: {}\n", 3, "feature_gate", "did you mean feature_gates"),
        (
            "feature_gates:\n  gates:\n  - {name: A, value: 'true'}\n",
            5,
            "feature_gates.gates[0].value",
            "true or false",
        ),
        ("feature_gates:\n  gates:\n  - {value: true}\n", 5, "feature_gates.gates[0]", "name is missing"),
        ("feature_gates:\n  stages:\n    beta: name\n", 5, "feature_gates.stages.beta", "did you mean named"),
        ("target: 1.37\n", 3, "target", "expected a mapping"),
        ("drivers: {name: x}\n", 3, "drivers", "expected a list"),
        ("target:\n  kubernetes: latest\n", 4, "target.kubernetes", "no version"),
        (
            "target:\n  components:\n  - {name: kubelet, version: '>= new'}\n",
            5,
            "target.components[0].version",
            "1.36.3",
        ),
        ("apis:\n- group_version: resource.k8s.io\n", 4, "apis[0].group_version", "no group version"),
        (
            "accept:\n- {code: GATE-1, reason: r, owner: o, until: 2027-01-31}\n",
            4,
            "accept[0].code",
            "CG-GATE-001",
        ),
        (
            "accept:\n- {code: CG-GATE-001, reason: r, owner: o, until: 2027-02-31}\n",
            4,
            "accept[0].until",
            "no such day",
        ),
        ("taints:\n  nodes:\n  - {key: a, nodes: 'a b'}\n", 5, "taints.nodes[0].nodes", "no label selector"),
        ("drivers:\n- {name: x}\n- {name: x}\n", 5, "drivers[1]", "entry 1 already"),
        ("taints:\n  nodes:\n  - {key: a, value: true}\n", 5, "taints.nodes[0].value", "expected text"),
    ],
)
def test_errors_name_file_line_field_and_what_was_expected(tmp_path, text, line, path, said):
    name = write(tmp_path, text)
    (issue,) = [i for i in profiles.lint(name) if i.severity == "error"]
    assert (issue.place, issue.path) == (f"{name}:{line}", path)
    assert said in issue.message
    with pytest.raises(ProfileError, match=said) as caught:
        profiles.load(name)
    assert caught.value.where == f"{name}:{line}"
    assert caught.value.exit_code == 2


def test_lint_tells_all_problems_and_load_the_first(tmp_path):
    name = write(
        tmp_path,
        "titel: x\ndrivers:\n- {nme: a}\nchange: {type: urgent, owner: [a]}\nchecks:\n- {layer: disk, title: t}\n",
    )
    issues = profiles.lint(name)
    assert [(i.place.rpartition(":")[2], i.path) for i in issues] == [
        ("3", "titel"),
        ("5", "drivers[0]"),
        ("5", "drivers[0].nme"),
        ("6", "change.owner"),
        ("6", "change.type"),
        ("8", "checks[0].layer"),
    ]
    with pytest.raises(ProfileError, match="5 more"):
        profiles.load(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", "stands twice"),
        ("title: &t x\nname2: *t\n", "aliases"),
        ("\ttitle: x\n", "tab"),
    ],
)
def test_yaml_that_is_refused(tmp_path, text, said):
    with pytest.raises(ProfileError, match=said) as caught:
        profiles.load(write(tmp_path, text))
    assert caught.value.where is not None
    assert str(tmp_path) in caught.value.where


def test_a_file_without_schema_or_of_another_one(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("name: x\n", encoding="utf-8")
    with pytest.raises(ProfileError, match=r"schema: changegen\.profile/v1"):
        profiles.load(str(path))
    path.write_text("name: x\nschema: changegen.profile/v9\n", encoding="utf-8")
    with pytest.raises(ProfileError, match=r"changegen\.profile/v1"):
        profiles.load(str(path))


def test_a_version_without_quotes_is_text(tmp_path):
    for text in ("1.37", "1.30", '"1.37"', "1.37.2"):
        profile = profiles.load(write(tmp_path, f"target: {{kubernetes: {text}}}\n"))
        assert profile.target.kubernetes == text.strip('"')


def test_missing_profiles():
    with pytest.raises(ProfileError, match=r"no profile named kubernetes-1\.99.*did you mean"):
        profiles.load("kubernetes-1.99")
    with pytest.raises(ProfileError, match="no such profile file"):
        profiles.load("nowhere/p.yaml")


def test_to_makes_a_profile_or_overrides_the_target():
    assert profiles.profile_for_target("v1.37.2").target.kubernetes == "1.37.2"
    dra = profiles.with_target(profiles.load("kubernetes-1.37-dra"), "1.37.2")
    assert (dra.target.kubernetes, dra.name) == ("1.37.2", "kubernetes-1.37-dra")
    with pytest.raises(UsageError, match="no version"):
        profiles.profile_for_target("newest")


def test_set_fills_fields_of_the_change():
    profile = profiles.profile_for_target("1.37")
    fields = profiles.parse_fields(
        [
            "owner=platform",
            "approvers=ann,bob",
            "approvers=cab",
            "window.start=2026-12-05T22:00Z",
            "type=standard",
            "links=runbook=https://example.com/r",
            "cmdb_ci=gpu-a=1",
        ]
    )
    change = profiles.with_fields(profile, fields).change
    assert (change.owner, change.approvers, change.type) == ("platform", ("ann", "bob", "cab"), "standard")
    assert (change.window.start, change.window.end) == ("2026-12-05T22:00:00Z", None)
    assert change.links[0].url == "https://example.com/r"
    assert change.fields == {"cmdb_ci": "gpu-a=1"}


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("owner", "field=value"),
        ("onwer=x", "did you mean owner"),
        ("revewer=x", "did you mean reviewer"),
        ("=x", "field=value"),
        ("window=x", "did you mean window.start or window.end"),
        ("window.begin=2027-01-31 22:00", "did you mean window"),
        ("window.from=x", "did you mean window.start or window.end"),
        ("start=x", "did you mean window.start or window.end"),
        ("window.start=yesterday", "window.start=yesterday is no time; write 2027-01-31T22:00:00"),
        ("window_end=2027-02-30 22:00", "window.end=2027-02-30 22:00 is no time"),
        ("window.end=2027-02-20", "is no time"),
    ],
)
def test_set_refuses_typos(pair, said):
    with pytest.raises(UsageError, match=said):
        profiles.parse_fields([pair])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2027-01-31T22:00:00+01:00", "2027-01-31T22:00:00+01:00"),
        ("2027-01-31T22:00Z", "2027-01-31T22:00:00Z"),
        ("2027-01-31 22:00", "2027-01-31T22:00:00Z"),
        ("2027-01-31 22:00 UTC", "2027-01-31T22:00:00Z"),
        ("", ""),
    ],
)
def test_a_time_of_the_window_is_kept_as_rfc_3339(given, kept):
    assert profiles.parse_fields([f"window.start={given}"]) == {"window.start": kept}


def test_a_window_ends_after_it_starts(tmp_path):
    given = profiles.parse_fields(["window.start=2027-01-31 22:00", "window.end=2027-01-31T22:30:00+01:00"])
    with pytest.raises(UsageError, match=r"ends at 2027-01-31T22:30:00\+01:00, which is not after its start"):
        profiles.with_fields(profiles.profile_for_target("1.37"), given)
    path = tmp_path / "p.yaml"
    text = "schema: changegen.profile/v1\nname: p\nchange:\n  window:\n    start: {}\n    end: {}\n"
    path.write_text(text.format("2027-01-31 22:00", "2027-01-31 21:00"), encoding="utf-8")
    (issue,) = profiles.lint(str(path))
    assert (issue.severity, issue.path, "not after" in issue.message) == ("error", "change.window.end", True)
    path.write_text(text.format("Sunday", "null"), encoding="utf-8")
    (issue,) = profiles.lint(str(path))
    assert (issue.severity, issue.path) == ("error", "change.window.start")
    path.write_text(text.format("2027-01-31 22:00", "null"), encoding="utf-8")
    start = profiles.load(str(path))
    with pytest.raises(UsageError, match="not after its start"):
        profiles.with_fields(start, profiles.parse_fields(["window.end=2027-01-31T20:00Z"]))


def test_set_of_a_wrong_type():
    with pytest.raises(UsageError, match="standard, normal, emergency"):
        profiles.with_fields(profiles.profile_for_target("1.37"), {"type": "urgent"})


def test_the_starting_file_is_valid_as_it_stands(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(profiles.starting_file("gpu-prod", "1.37.2"), encoding="utf-8")
    profile = profiles.load(str(path))
    assert (profile.name, profile.extends, profile.target.kubernetes) == (
        "gpu-prod",
        "kubernetes-1.37",
        "1.37.2",
    )


def test_examples_in_the_starting_file_are_valid_too(tmp_path):
    text = profiles.starting_file("gpu-prod", "1.37.2")
    lines = []
    for line in text.splitlines():
        bare = line.lstrip()
        if bare.startswith("# ") and (
            bare[2:].lstrip().startswith(("-", "{")) or ":" in bare.split("#")[1].split()[0]
        ):
            indent = line[: len(line) - len(bare)]
            lines.append(indent + bare[2:])
        else:
            lines.append(line)
    path = tmp_path / "p.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    profile = profiles.load(str(path))
    assert profile.drivers
    assert profile.accept
    assert profile.checks
    assert profile.taints.devices


def test_lint_against_the_kubernetes_data(tmp_path):
    data = kubedata.load()
    name = write(
        tmp_path,
        """
target: {kubernetes: "1.37"}
feature_gates:
  gates:
  - {name: DRADeviceTaintRule, value: true}
  - {name: SidecarContainers, value: true}
  - {name: DRADeviceTaints, value: true}
apis:
- {group_version: resource.k8s.io/v2}
- {group_version: resource.k8s.io/v1, kinds: [DeviceTaint, ResourceClaim]}
- {group_version: example.com/v1, kinds: [Thing]}
features: [device-taint-rule]
accept:
- {code: CG-GATE-001, reason: r, owner: o, until: 2026-11-30}
""",
    )
    issues = {i.path: i for i in profiles.lint(name, data, today="2026-12-01")}
    assert "DRADeviceTaintRules" in issues["feature_gates.gates[0].name"].message
    assert "gone since 1.37" in issues["feature_gates.gates[1].name"].message
    assert "resource.k8s.io/v1" in issues["apis[0].group_version"].message
    assert "DeviceTaintRule" in issues["apis[1].kinds[0]"].message
    assert issues["accept[0].until"].severity == "warning"
    assert "device-taint-rules" in issues["features[0]"].message
    assert len(issues) == 6
    assert not [i for row in profiles.list_profiles() if row.shipped for i in profiles.lint(row.name, data)]


@pytest.mark.parametrize(
    ("text", "path", "severity"),
    [
        ("feature_gates: {gates: [{name: SidecarContainers, value: true}]}", "gates[0].name", "error"),
        ("feature_gates: {gates: [{name: SidecarContainers, value: null}]}", "gates[0].name", "warning"),
        ("apis: [{group_version: resource.k8s.io/v9}]", "apis[0].group_version", "error"),
        ("apis: [{group_version: resource.k8s.io/v9, expect: absent}]", "apis[0].group_version", "warning"),
        ("apis: [{group_version: example.com/v1}]", "", ""),
    ],
)
def test_what_the_target_does_not_know_is_an_error_where_it_is_wanted(tmp_path, text, path, severity):
    name = write(tmp_path, f"target: {{kubernetes: '1.37'}}\n{text}\n")
    found = profiles.lint(name, kubedata.load())
    assert [(i.path.removeprefix("feature_gates."), i.severity) for i in found] == (
        [(path, severity)] if path else []
    )


def test_a_target_that_the_data_do_not_know_is_said_once_and_nothing_is_judged_by_it(tmp_path):
    name = write(
        tmp_path, "target: {kubernetes: '1.99'}\nfeature_gates: {gates: [{name: SidecarContainers}]}\n"
    )
    (issue,) = profiles.lint(name, kubedata.load())
    assert (issue.path, issue.severity) == ("target.kubernetes", "warning")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title: x", True),
        ("target: {kubernetes: '1.37'}", False),
        ("target: {components: [{name: kubelet, version: '1.37'}]}", False),
    ],
)
def test_a_profile_without_any_version_is_told_so(tmp_path, text, told):
    assert bool(profiles.lint(write(tmp_path, f"{text}\n"))) is told


@pytest.mark.parametrize(
    ("text", "told"),
    [("change: {owner: 5.5}", False), ("change: {owner: [a]}", False), ("change: {owner: true}", True)],
)
def test_quotes_are_proposed_where_they_help(tmp_path, text, told):
    issues = profiles.lint(write(tmp_path, f"{text}\ntarget: {{kubernetes: '1.37'}}\n"))
    assert any("write it in quotes" in i.message for i in issues) is told


def test_json_schema_takes_the_shipped_profiles():
    import jsonschema_rs
    import yaml

    from changegen import resources

    validator = jsonschema_rs.validator_for(profiles.json_schema())
    for path in resources.folder("profiles").glob("*.yaml"):
        assert validator.is_valid(yaml.safe_load(path.read_text(encoding="utf-8")))
