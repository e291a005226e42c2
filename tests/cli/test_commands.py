"""Each command on the recorded upgrade."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from changegen.cli.diff import as_markdown, as_text
from changegen.model.ticket import Change, Comparison

from .conftest import RECORDED
from .test_root import kubeconfig, written

# -------------------------------------------------------------------------------------------------------------- diff


@pytest.fixture(scope="module")
def changes(snapshots) -> list[dict]:
    from click.testing import CliRunner

    from changegen.cli import cli

    shown = CliRunner().invoke(cli, ["diff", str(snapshots[0]), str(snapshots[1]), "-f", "json"])
    return json.loads(shown.stdout)["changes"]


def find(changes: list[dict], area: str, *path: str) -> list[dict]:
    return [c for c in changes if c["area"] == area and tuple(c["path"][: len(path)]) == path]


def test_diff_finds_what_the_recorded_upgrade_changed(changes):
    versions = {c["after"]: c["subjects"] for c in find(changes, "components", "version")}
    assert {s.split()[0] for s in versions["v1.37.2"]} == {
        "kube-apiserver",
        "kube-scheduler",
        "kube-controller-manager",
        "kubelet",
    }
    assert versions["v3.7.0"] == ["etcd cp-1", "etcd cp-2", "etcd cp-3"]
    assert not [s for c in find(changes, "components", "version") for s in c["subjects"] if "kube-proxy" in s]
    (gate,) = find(changes, "components", "feature_gates", "DRADeviceTaintRules")
    assert (gate["kind"], gate["subjects"], gate["after"]) == ("added", ["kube-scheduler cp-3"], True)
    (driver,) = find(changes, "drivers", "version")
    assert (driver["subjects"], driver["before"], driver["after"]) == (
        ["gpu.example.com"],
        "v0.2.0",
        "v0.3.0",
    )
    attribute = "gpu.example.com/driverVersion"
    assert {
        (c["before"], c["after"], c["count"]) for c in find(changes, "devices", "attributes", attribute)
    } == {
        ("1.2.0", "1.3.0", 4),
        ("1.1.0", "1.3.0", 2),
    }
    assert [c["count"] for c in find(changes, "pools", "generation")] == [3]
    gone = [c for c in changes if c["kind"] == "removed" and c["area"] == "pods"]
    assert [c["subjects"] for c in gone] == [["ml/too-big"]]
    (new,) = find(changes, "pods", "uid")
    assert new["subjects"] == ["ml/net-app"]
    (status,) = find(changes, "claims", "device_status")
    assert (status["kind"], status["subjects"]) == ("removed", ["ml/nic-claim"])
    assert find(changes, "claims", "allocated_at")[0]["subjects"] == ["ml/nic-claim"]
    (restarts,) = find(changes, "components", "state", "restarts")
    assert (restarts["count"], restarts["before"], restarts["after"]) == (8, 0, 1)
    replaced = {tuple(c["subjects"]): c["count"] for c in find(changes, "pods", "replaced")}
    assert replaced[("Deployment ml/train",)] == 3
    assert replaced[("DaemonSet dra-example-driver/dra-example-driver-kubeletplugin",)] == 4
    assert not find(changes, "config_maps")


def test_diff_for_people(run, snapshots):
    shown = run("diff", *snapshots).stdout
    assert re.search(r"^  gpu\.example\.com\n    ~ version +v0\.2\.0 -> v0\.3\.0$", shown, re.MULTILINE)
    assert "    - feature_gates SidecarContainers  gone, was: true" in shown
    assert "read on neither side" in shown
    assert "\x1b" not in shown


def test_diff_for_a_ticket(run, snapshots):
    shown = run("diff", *snapshots, "-f", "markdown").stdout
    assert "| gpu.example.com | `version` | `v0.2.0` | `v0.3.0` |" in shown
    tables = [line for line in shown.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} == {6}


def test_diff_exit_codes(run, snapshots):
    run("diff", snapshots[0], snapshots[0], "--exit-code", code=0)
    run("diff", *snapshots, code=0)
    run("diff", *snapshots, "--exit-code", code=3)


def test_diff_of_two_clusters_is_refused(run, snapshots, tmp_path):
    other = json.loads(snapshots[1].read_bytes())
    other["cluster"]["uid"] = "another"
    path = written(tmp_path, "other.json", json.dumps(other))
    assert "these are two clusters" in run("diff", snapshots[0], path, code=2).stderr
    run("diff", snapshots[0], path, "--other-cluster")


def test_diff_with_a_target_compares_gates_and_what_the_profile_wants_of_them(run, snapshots, tmp_path):
    profile = written(
        tmp_path,
        "p.yaml",
        """schema: changegen.profile/v1
name: p
target: {kubernetes: 1.37.2}
feature_gates:
  stages: {alpha: forbidden, beta: named}
  gates:
  - {name: DRADeviceTaintRules, value: false}
  - {name: DRAResourceClaimDeviceStatus, value: null}
""",
    )
    shown = json.loads(run("diff", snapshots[0], "--profile", profile, "-f", "json").stdout)
    gates = {
        (c["path"][0], c["before"], c["after"]): c["subjects"]
        for c in shown["changes"]
        if c["area"] == "gates"
    }
    servers = [f"kube-apiserver cp-{n}" for n in (1, 2, 3)]
    assert gates["SidecarContainers", "true (set)", "does not start"] == servers
    assert gates["HPAScaleToZero", "false (default)", "true (default)"]
    assert gates["DRADeviceTaintRules", "false (default)", "true (default)"] == ["kube-scheduler cp-3"]
    wanted = gates["DRADeviceTaintRules", "true at the target", "false (wanted)"]
    assert {"kube-scheduler cp-3", *servers} < set(wanted)
    assert "kubelet gpu-1" in gates["DRAResourceClaimDeviceStatus", "set", "not set (wanted)"]
    assert "kube-proxy gpu-1" in gates["NFTablesNetlink", "no such gate", "true (default)"]
    text = run("diff", snapshots[0], "--profile", profile).stdout
    assert "\nFeature gates\n  kube-apiserver cp-1, cp-2, cp-3\n" in text


def test_gates_that_cannot_be_seen_are_not_comparable_with_a_target(run):
    capture = RECORDED.parent / "fixtures" / "eks"
    shown = json.loads(run("diff", capture, "--to", "1.37.2", "-f", "json").stdout)
    assert "kube-apiserver" in {row["what"] for row in shown["not_comparable"] if row["area"] == "gates"}
    assert not [c for c in shown["changes"] if c["area"] == "gates"]


def test_every_area_has_a_title():
    from changegen.cli.diff import _TITLES
    from changegen.compare import AREAS
    from changegen.compare.target import GATES

    assert {*AREAS, GATES} <= set(_TITLES)


def test_long_lists_that_differ_are_told_by_what_differs():
    many = tuple(f"verb-{n}" for n in range(20))
    change = Change(
        kind="changed", area="apis", path=("verbs",), subjects=("v1",), before=many, after=(*many[:-1], "new")
    )
    found = Comparison(before="x", after="y", before_digest="", after_digest="", changes=(change,))
    assert "verb-19 beside 19 in both -> new" in as_text(found)
    assert "| `verb-19 beside 19 in both` | `new` |" in as_markdown(found)
    flag = Change(
        kind="added", area="components", path=("flags", "x"), subjects=("kubelet n1",), before=None, after={}
    )
    for change, said in (
        (flag, "flags x  new"),
        (msgspec.structs.replace(flag, kind="removed", before={}), "gone"),
    ):
        told = msgspec.structs.replace(found, changes=(change,))
        assert f"{said}\n" in as_text(told)
        assert f"| {said.split()[-1]} |" in as_markdown(told)
    assert as_text(found).startswith("from  x\nto    y\n")
    assert as_text(found).endswith("1 change of 1 field\n")


def test_diff_with_a_target(run, snapshots):
    shown = json.loads(run("diff", snapshots[0], "--to", "1.37.2", "-f", "json").stdout)
    assert shown["after"].startswith("target ")
    assert [c for c in shown["changes"] if c["after"] in {"1.37.2", "v1.37.2"}]
    assert "not with both" in run("diff", *snapshots, "--to", "1.37.2", code=2).stderr


# ------------------------------------------------------------------------------------------------------------- ticket


def test_ticket_formats_by_extension(run, snapshots, tmp_path):
    arguments = ("ticket", snapshots[0], "--profile", "kubernetes-1.37-dra", "-o")
    run(*arguments, tmp_path / "t.md")
    run(*arguments, tmp_path / "t.html")
    assert (tmp_path / "t.md").read_text(encoding="utf-8").startswith("#")
    assert (tmp_path / "t.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_ticket_fields(run, snapshots, tmp_path):
    arguments = [
        "ticket",
        snapshots[0],
        "--profile",
        "kubernetes-1.37-dra",
        "--complete",
        "-o",
        tmp_path / "t.json",
    ]
    refused = run(*arguments, code=3)
    assert "owner" in refused.stderr
    assert not (tmp_path / "t.json").exists()
    names = re.search(r"fields are open: (.*?);", refused.stderr)
    assert names is not None
    values = {"window.start": "2027-01-31 22:00", "window.end": "2027-02-01 02:00"}
    sets = [
        part for name in names[1].split(", ") for part in ("--set", f"{name}={values.get(name, 'someone')}")
    ]
    assert set(values) < set(names[1].split(", "))
    run(*arguments, *sets)
    fields = {f["name"]: f for f in json.loads((tmp_path / "t.json").read_bytes())["fields"]}
    assert (fields["owner"]["value"], fields["owner"]["source"]) == ("someone", "set")


def test_flag_beats_environment_beats_profile(run, snapshots, tmp_path):
    profile = written(
        tmp_path,
        "p.yaml",
        "schema: changegen.profile/v1\nname: p\ntarget: {kubernetes: 1.36.4}\nchange: {owner: from-profile}\n",
    )
    other = written(
        tmp_path, "q.yaml", "schema: changegen.profile/v1\nname: q\ntarget: {kubernetes: 1.37.1}\n"
    )

    def made(*arguments: object, **options: object) -> dict:
        shown = run("ticket", snapshots[0], "-f", "json", *arguments, **options)
        found: dict = json.loads(shown.stdout)
        return found

    env = {"CHANGEGEN_PROFILE": str(profile)}
    from_profile = made(env=env)
    assert from_profile["profile"]["name"] == "p"
    assert [f["value"] for f in from_profile["fields"] if f["name"] == "owner"] == ["from-profile"]
    assert made("--profile", other, env=env)["profile"]["name"] == "q"
    overridden = made("--set", "owner=from-flag", "--to", "1.37.2", env=env)
    assert [f["value"] for f in overridden["fields"] if f["name"] == "owner"] == ["from-flag"]
    assert overridden["profile"]["target"]["kubernetes"] == "1.37.2"


def test_now_from_flag_and_environment(run, snapshots):
    arguments = ("ticket", snapshots[0], "--to", "1.37.2", "-f", "json")
    flag = json.loads(run(*arguments, "--now", "2026-12-24T12:00:00+01:00").stdout)
    assert flag["generated_at"] == "2026-12-24T11:00:00Z"
    epoch = json.loads(run(*arguments, env={"SOURCE_DATE_EPOCH": "1800000000"}).stdout)
    assert epoch["generated_at"] == "2027-01-15T08:00:00Z"


def test_a_file_of_a_template_folder_that_replaces_nothing_is_told(run, snapshots, tmp_path):
    folder = tmp_path / "mine"
    (folder / "partials").mkdir(parents=True)
    (folder / "partials" / "haed.md.j2").write_text("x", encoding="utf-8")
    (folder / "ticket.md.j2").write_text("{% include 'own.j2' %}\n", encoding="utf-8")
    (folder / "own.j2").write_text("own text\n", encoding="utf-8")
    (folder / "README.txt").write_text("notes", encoding="utf-8")
    shown = run("ticket", snapshots[0], "--to", "1.37.2", "--template", folder)
    assert "own text" in shown.stdout
    assert [line for line in shown.stderr.splitlines() if "replaces no template" in line] == [
        f"Warning: {folder}/partials/haed.md.j2 replaces no template: did you mean partials/head.md.j2?"
    ]
    missing = ("--template", tmp_path / "none")
    assert "there is no such folder" in run("verify", "t.json", snapshots[0], *missing, code=2).stderr


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ("one\n{{ t.nothing }}\n", "ticket.md.j2:2: template uses a value that does not exist"),
        ("one\n\n{{ 1 // 0 }}\n", "ticket.md.j2:3: template failed"),
        ("{% include 'own.j2' %}\n", "own.j2:2: template uses a value that does not exist"),
        ("{{ t.title.join(5) }}\n", "ticket.md.j2:1: template failed"),
        ("\n{{ t.__class__.__mro__ }}\n", "ticket.md.j2:2: template does what is not allowed"),
    ],
)
def test_a_template_that_fails_names_its_line(run, snapshots, tmp_path, template, where):
    (tmp_path / "ticket.md.j2").write_text(template, encoding="utf-8")
    (tmp_path / "own.j2").write_text("a\n{{ t.nothing }}\n", encoding="utf-8")
    assert where in run("ticket", snapshots[0], "--to", "1.36.4", "--template", tmp_path, code=2).stderr


def test_a_form_that_fails_names_field_and_line(run, snapshots, tmp_path):
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms" / "jira.yaml").write_text(
        'schema: changegen.form/v1\nname: jira\nfields:\n- {name: x, template: "a\\n{{ t.nothing }}"}\n'
    )
    arguments = ("ticket", snapshots[0], "--to", "1.36.4", "-f", "jira", "--template", tmp_path)
    told = run(*arguments, code=2).stderr
    assert "forms/jira.yaml: field x: " in told
    assert "(template:2)" in told


def test_a_control_plane_that_was_not_seen_is_not_counted(run, tmp_path):
    version = json.loads((RECORDED / "before" / "version.json").read_bytes())
    (tmp_path / "version.json").write_text(json.dumps(version), encoding="utf-8")
    (tmp_path / "namespaces.json").write_bytes((RECORDED / "before" / "namespaces.json").read_bytes())
    made = json.loads(run("ticket", tmp_path, "--to", "1.37.2", "-f", "json").stdout)
    assert made["facts"]["what"].startswith("control plane, whose nodes were not seen, 1.36.3 → 1.37.2")
    (tmp_path / "version.json").unlink()
    made = json.loads(run("ticket", tmp_path, "--to", "1.37.2", "-f", "json").stdout)
    assert "0 nodes" not in made["facts"]["what"]
    assert "?" not in made["facts"]["what"]


def test_quiet_says_only_what_must_not_be_overlooked(run, snapshots, ticket, tmp_path):
    """Not what is still to fill, not the counts, not the next command."""
    for arguments in (
        ("ticket", snapshots[0], "--to", "1.36.4", "-o", tmp_path / "t.md"),
        ("audit", snapshots[0], "--to", "1.36.4"),
        ("redact", snapshots[0], "-o", tmp_path / "r.json"),
        ("probe", snapshots[0]),
        ("verify", ticket, snapshots[1]),
    ):
        assert run(*arguments, code=None).stderr
        assert not run("-q", *arguments, code=None).stderr


@pytest.mark.parametrize("lang", ["en", "zh-CN"])
def test_what_is_said_beside_the_output_is_in_its_language(run, snapshots, ticket, tmp_path, lang):
    english = re.compile(r"to fill|Next:|blocking|warning|after the change|and \d+ more")
    for arguments in (
        ("ticket", snapshots[0], "--to", "1.36.4", "-o", tmp_path / "t.md"),
        ("ticket", snapshots[0], "--to", "1.36.4", "-o", tmp_path / "t.json"),
        ("audit", snapshots[0], "--to", "1.36.4"),
        ("probe", snapshots[0]),
        ("verify", ticket, snapshots[1]),
    ):
        told = run(*arguments, "--lang", lang, code=None).stderr
        assert bool(english.search(told)) == (lang == "en"), told


def test_template_init_gives_the_shipped_templates_to_edit(run, snapshots, tmp_path):
    folder = tmp_path / "mine"
    run("ticket", "--template-init", folder)
    assert (folder / "ticket.md.j2").is_file()
    assert "not an empty folder" in run("ticket", "--template-init", folder, code=2).stderr
    (folder / "ticket.md.j2").write_text("# Mine: {{ t.title }}\n", encoding="utf-8")
    shown = run("ticket", snapshots[0], "--to", "1.37.2", "--template", folder)
    assert shown.stdout.startswith("# Mine: Upgrade Kubernetes ")


# ------------------------------------------------------------------------------------------------------ verify, audit


def test_verify_against_the_state_after(run, ticket, snapshots):
    result = run("verify", ticket, snapshots[1], "-f", "json", code=None)
    results = json.loads(result.stdout)
    assert results["schema"] == "changegen.results/v1"
    assert result.exit_code == (3 if results["outcome"] == "failed" else 0)
    told = json.dumps(results["not_done"])
    assert "kube-proxy" in told
    run("verify", ticket, snapshots[1], "--fail-on", "never", code=0)


def test_verify_refuses_another_cluster(run, ticket, snapshots, tmp_path):
    other = json.loads(snapshots[1].read_bytes())
    other["cluster"]["uid"] = "another"
    path = written(tmp_path, "other.json", json.dumps(other))
    run("verify", ticket, path, code=2)
    run("verify", ticket, path, "--other-cluster", "--fail-on", "never")


def test_verify_takes_evidence_of_people_as_attested(run, ticket, snapshots, tmp_path):
    checks = json.loads(ticket.read_bytes())["checks"]
    manual = next(c["id"] for c in checks if c["compare"] == "manual")
    evidence = written(
        tmp_path,
        "e.yaml",
        f"schema: changegen.evidence/v1\nby: A. Operator\nchecks:\n- {{check: {manual}, value: 2, note: seen}}\n",
    )
    shown = json.loads(
        run(
            "verify", ticket, snapshots[1], "--runtime-evidence", evidence, "--fail-on", "never", "-f", "json"
        ).stdout
    )
    (result,) = [r for r in shown["results"] if r["id"] == manual]
    assert (result["result"], result["attested_by"]) == ("attested", "A. Operator")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "starts with 'schema"),
        ("schema: changegen.evidence/v1\nby: x\nchecks: {}\n", "is a list"),
        (
            "schema: changegen.evidence/v1\nby: x\nchecks:\n- {check: V-9999}\n",
            "e.yaml:4: the ticket has no check",
        ),
        ("schema: changegen.evidence/v1\nchecks:\n- {check: FIRST}\n", "say who saw it"),
        ("schema: changegen.evidence/v1\nby: x\nchek: []\n", "unknown field chek"),
    ],
)
def test_evidence_that_is_none(run, ticket, snapshots, tmp_path, text, said):
    first = json.loads(ticket.read_bytes())["checks"][0]["id"]
    path = written(tmp_path, "e.yaml", text.replace("FIRST", first))
    result = run("verify", ticket, snapshots[1], "--runtime-evidence", path, code=2)
    assert said in result.stderr


@pytest.mark.parametrize("form", ["text", "json", "markdown", "sarif", "junit"])
def test_audit_formats(run, snapshots, form):
    result = run("audit", snapshots[0], "--profile", "kubernetes-1.37-dra", "-f", form, code=3)
    assert "CG-GATE-001" in result.stdout
    if form in {"json", "sarif"}:
        json.loads(result.stdout)
    if form == "junit":
        from xml.etree import ElementTree as ET

        assert ET.fromstring(result.stdout).tag == "testsuites"


def test_audit_fail_on(run, snapshots):
    run("audit", snapshots[0], "--profile", "kubernetes-1.37-dra", "--fail-on", "never", code=0)
    run("audit", snapshots[0], "--to", "1.36.4", "--fail-on", "warning", code=3)


# -------------------------------------------------------------------------------------------------- profile, gate, rbac


def test_profile_commands(run, tmp_path):
    listed = run("profile", "list").stdout
    assert "kubernetes-1.37-dra" in listed
    shown = yaml.safe_load(run("profile", "show", "kubernetes-1.37-dra").stdout)
    assert shown["target"]["kubernetes"] == "1.37"
    path = tmp_path / "mine.yaml"
    run("profile", "init", "gpu-prod", "--to", "1.37.2", "-o", path)
    assert "is there already" in run("profile", "init", "gpu-prod", "-o", path, code=2).stderr
    run("profile", "lint", path, "kubernetes-1.37")
    assert json.loads(run("profile", "show", path, "-f", "json").stdout)["name"] == "gpu-prod"
    broken = written(
        tmp_path,
        "broken.yaml",
        "schema: changegen.profile/v1\nname: b\nextends: kubernetes-1.37\nfeature_gates:\n"
        "  gates:\n  - {name: DRADeviceTaintRule, value: true}\n",
    )
    result = run("profile", "lint", broken, code=2)
    assert f"error: {broken}:6: feature_gates.gates[0].name: " in result.stdout
    assert "did you mean DRADeviceTaintRules" in result.stdout
    assert "changegen.profile/v1" in run("profile", "schema").stdout


@pytest.mark.parametrize(
    ("version", "warned"), [("1.99", True), ("1.20.3", True), ("1.37", False), ("", False)]
)
def test_a_new_profile_of_a_target_that_nothing_is_known_of_warns(run, version, warned):
    told = run("profile", "init", *(["--to", version] if version else []))
    assert ("cannot be judged" in told.stderr) is warned
    assert yaml.safe_load(told.stdout)["schema"] == "changegen.profile/v1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it is a folder, a kubeconfig file is wanted"),
        (b"\x1f\x8b\x08\x00rest", "it is no text, and a kubeconfig is YAML; unpack it if it is packed"),
        (b"\xff\xfea\x00", "it is no text, and a kubeconfig is YAML; unpack it if it is packed"),
    ],
)
def test_a_kubeconfig_that_is_none_is_told_in_words(run, tmp_path, content, said):
    path = tmp_path / "config"
    if content is not None:
        path.write_bytes(content)
    else:
        path.mkdir()
    told = run("snapshot", "--kubeconfig", path, code=1).stderr
    assert told == f"Error: {path}: {said}\n"


def test_gate(run):
    shown = run("gate", "SidecarContainers").stdout
    assert re.search(r"1\.36 +GA +on +locked", shown)
    assert re.search(r"1\.37 .*removed: naming it stops the component", shown)
    assert "did you mean DRADeviceTaintRules" in run("gate", "dradevicetaintrule", code=2).stderr
    history = json.loads(run("gate", "DRADeviceTaintRules", "-f", "json").stdout)
    assert set(history["by_minor"]) >= {"1.35", "1.36", "1.37"}


def test_gate_tells_where_a_cluster_sets_it(run, before):
    places = json.loads(run("gate", "DRADeviceTaintRules", before, "-f", "json").stdout)["places"]
    by_where = {(p["component"], tuple(p["where"])): (p["state"], p["value"]) for p in places}
    assert by_where["kube-scheduler", ("cp-1", "cp-2")] == ("set", True)
    assert by_where["kube-scheduler", ("cp-3",)] == ("default", False)
    assert by_where["kube-scheduler", ("ConfigMap kube-system/kubeadm-config",)] == ("set", True)
    text = run("gate", "SidecarContainers", before).stdout
    assert "kube-apiserver           cp-1, cp-2, cp-3" in text
    # A gate that nobody sets and that one component reads: its instances alone, by default.
    only = json.loads(run("gate", "MemoryQoS", before, "-f", "json").stdout)["places"]
    assert {(p["component"], p["state"]) for p in only} == {("kubelet", "default")}
    assert "places" not in json.loads(run("gate", "MemoryQoS", "-f", "json").stdout)


def test_gate_of_a_cluster_that_hides_its_control_plane(run, before):
    places = json.loads(
        run(
            "gate", "DRADeviceTaintRules", before.parents[1] / "fixtures" / "eks", "-f", "json", code=None
        ).stdout
    )["places"]
    assert {p["state"] for p in places} <= {"unobservable", "absent", "locked"}


@pytest.mark.parametrize("configz", [False, True])
def test_rbac_is_valid_and_only_reads(run, configz):
    arguments = ["rbac", "--service-account", "ops/changegen", *(["--configz"] if configz else [])]
    documents = list(yaml.safe_load_all(run(*arguments).stdout))
    assert [d["kind"] for d in documents] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    rules = [rule for d in documents for rule in d.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    resources = {r for rule in rules for r in rule.get("resources", ())}
    assert "secrets" not in resources
    assert "*" not in resources
    assert ("nodes/proxy" in resources) == configz
    assert documents[1]["subjects"] == [{"kind": "ServiceAccount", "name": "changegen", "namespace": "ops"}]
    maps = [rule for d in documents if d["kind"] == "Role" for rule in d["rules"]]
    assert all(rule["resourceNames"] for rule in maps)


@pytest.mark.parametrize("name", ["reader", "no", "123", "null", "1e3", "a.b", "y"])
def test_rbac_keeps_names_as_text(run, name):
    documents = list(yaml.safe_load_all(run("rbac", "--service-account", f"{name}/{name}").stdout))
    bindings = [d["metadata"].get("namespace") for d in documents if d["kind"].endswith("Binding")]
    assert bindings == [None, *(d["metadata"]["namespace"] for d in documents if d["kind"] == "Role")]
    subjects = [subject for d in documents for subject in d.get("subjects", ())]
    assert {(s["name"], s["namespace"]) for s in subjects} == {(name, name)}


def test_rbac_of_distributions(run):
    plain = run("rbac").stdout
    for name, group in (("openshift", "config.openshift.io"), ("k0s", "k0s.k0sproject.io")):
        assert group not in plain
        assert group in run("rbac", "--distribution", name).stdout


def test_rbac_check_asks_the_cluster(run, httpserver, tmp_path):
    from werkzeug import Request, Response

    def review(request: Request) -> Response:
        spec = json.loads(request.data)["spec"]
        allowed = spec.get("resourceAttributes", {}).get("resource") != "nodes"
        return Response(json.dumps({"status": {"allowed": allowed}}), content_type="application/json")

    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    httpserver.expect_request(path, method="POST").respond_with_handler(review)
    config = kubeconfig(tmp_path, httpserver.url_for("").rstrip("/"))
    result = run("rbac", "--check", "--kubeconfig", config, code=4)
    assert re.search(r"^NO +list nodes$", result.stdout, re.MULTILINE)
    assert re.search(r"^yes +list pods$", result.stdout, re.MULTILINE)
    assert "1 of " in result.stderr


# -------------------------------------------------------------------------------------------------------- taint, redact


def test_taint(run, snapshots):
    arguments = (
        "taint",
        snapshots[0],
        "--driver",
        "gpu.example.com",
        "--pool",
        "gpu-1",
        "--key",
        "example.com/repair",
    )
    shown = run(*arguments).stdout
    assert "2 published devices selected, 2 allocated" in shown
    rule = yaml.safe_load(run(*arguments, "--effect", "NoExecute", "-f", "yaml").stdout)
    assert rule["kind"] == "DeviceTaintRule"
    assert rule["spec"]["taint"] == {"key": "example.com/repair", "effect": "NoExecute"}
    assert "maint-gpu-3" in run("taint", snapshots[0]).stdout
    assert "there are: maint-gpu-3" in run("taint", snapshots[0], "--rule", "other", code=2).stderr
    assert "say which devices" in run("taint", snapshots[0], "--key", "a/b", code=2).stderr


def test_redact_leaves_no_name_and_keeps_what_is_compared(run, snapshots, tmp_path):
    pseudonyms = tmp_path / "map.json"
    shared = [tmp_path / "before.json", tmp_path / "after.json"]
    for source, target in zip(snapshots, shared, strict=True):
        run("redact", source, "--map", pseudonyms, "-o", target)
    text = shared[0].read_text(encoding="utf-8")
    stored = json.loads(snapshots[0].read_bytes())
    owned = {n["name"] for n in stored["nodes"]} | {
        "prod-a",
        "10.0.0.11",
        "02:42:ac:11:00:02",
        "train",
        "net-app",
    }
    owned |= {stored["cluster"]["uid"], "gpu.example.com", "registry.example"}
    assert not [
        name for name in owned if re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text)
    ]
    original = json.loads(run("diff", *snapshots, "-f", "json").stdout)["changes"]
    redacted = json.loads(run("diff", *shared, "-f", "json").stdout)["changes"]

    def shape(changes: list[dict]) -> list[tuple]:
        return sorted((c["kind"], c["area"], c["path"][:1], c["count"]) for c in changes)

    assert shape(original) == shape(redacted)
    codes = [
        [
            f["code"]
            for f in json.loads(run("audit", s, "--to", "1.37.2", "-f", "json", code=None).stdout)["findings"]
        ]
        for s in (snapshots[0], shared[0])
    ]
    assert sorted(codes[0]) == sorted(codes[1])


def test_redact_gives_the_same_bytes_again(run, snapshots, tmp_path):
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    run("redact", snapshots[0], "-o", first)
    run("redact", snapshots[0], "-o", second)
    assert first.read_bytes() == second.read_bytes()


def test_a_map_that_is_none(run, snapshots, tmp_path):
    path = written(tmp_path, "map.json", "{}")
    assert "no changegen map of pseudonyms" in run("redact", snapshots[0], "--map", path, code=2).stderr


# ----------------------------------------------------------------------------------------------------------------- live


def test_the_live_cluster_is_the_input_when_there_is_none(run, httpserver, tmp_path):
    node = {"metadata": {"name": "n1", "uid": "u"}, "status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}}
    httpserver.expect_request("/version").respond_with_json({"gitVersion": "v1.37.2"})
    httpserver.expect_request("/api/v1/nodes").respond_with_json(
        {"kind": "NodeList", "apiVersion": "v1", "items": [node]}
    )
    httpserver.expect_request(re.compile("/(api|apis)")).respond_with_json(
        {"kind": "Status", "code": 404, "message": "none"}, status=404
    )
    config = kubeconfig(tmp_path, httpserver.url_for("").rstrip("/"))
    result = run("snapshot", "--kubeconfig", config, "--context", "main", code=None)
    stored = json.loads(result.stdout)
    assert stored["source"]["kind"] == "live"
    assert stored["cluster"]["server_version"] == "v1.37.2"
    assert [n["name"] for n in stored["nodes"]] == ["n1"]
    assert any(u["what"] == "kubelet configz" and u["reason"] == "not-asked" for u in stored["unobserved"])
    assert "Bearer" not in result.stdout


def test_live_options_with_files_are_pointed_out(run, before: Path):
    assert "files are read" in run("snapshot", before, "--context", "x").stderr
