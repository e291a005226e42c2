from __future__ import annotations

import json

import yaml


def test_probes_of_the_recorded_cluster(run, snapshots):
    found = json.loads(run("probe", snapshots[0], "-f", "json").stdout)["probes"]
    by_pod: dict[str, list[dict]] = {}
    for probe in found:
        by_pod.setdefault(probe["pod"], []).append(probe)
    net = {p["command"]: p["expect"] for p in by_pod["net-app"]}
    assert net == {
        "kubectl -n ml exec net-app -c app -- cat /sys/class/net/eth1/address": "02:42:ac:11:00:02",
        "kubectl -n ml exec net-app -c app -- ip -o addr show dev eth1": "10.9.8.7/24",
    }
    (pending,) = by_pod["too-big"]
    assert (pending["command"], pending["why"]) == ("", "the Pod is Pending: nothing runs in it")
    train = [probes for name, probes in by_pod.items() if name.startswith("train-")]
    assert len(train) == 3
    for (probe,) in train:
        assert probe["subject"] == "gpu.example.com"
        assert probe["workload"] == "Deployment/train"
        assert probe["devices"][0] in probe["expect"]
    legacy = [p for name, probes in by_pod.items() if name.startswith("legacy-") for p in probes]
    assert {p["subject"] for p in legacy} == {"example.com/legacy-gpu"}
    assert all("env | cut -d= -f1" in p["command"] for p in legacy)


def test_after_the_upgrade_the_interface_is_no_longer_known(run, snapshots):
    found = json.loads(run("probe", snapshots[1], "--pod", "ml/net-app", "-f", "json").stdout)["probes"]
    assert [p["command"] for p in found] == ["kubectl -n ml exec net-app -c app -- ls /sys/class/net"]


def test_the_evidence_file_is_one_that_verify_takes(run, snapshots, ticket, tmp_path):
    evidence = tmp_path / "evidence.yaml"
    run("probe", snapshots[1], "--ticket", ticket, "-f", "evidence", "-o", evidence)
    shown = yaml.safe_load(evidence.read_text(encoding="utf-8"))
    ids = [row["check"] for row in shown["checks"]]
    assert ids
    refused = run("verify", ticket, snapshots[1], "--runtime-evidence", evidence, code=2)
    assert "say who saw it" in refused.stderr
    named = evidence.read_text(encoding="utf-8").replace("by: ''", "by: A. Operator")
    evidence.write_text(named, encoding="utf-8")
    arguments = ("verify", ticket, snapshots[1], "--fail-on", "never", "-f", "json")
    blank = run(*arguments, "--runtime-evidence", evidence)
    assert f"attests nothing of {', '.join(ids)}: no value and no note" in blank.stderr
    assert json.loads(blank.stdout) == json.loads(run(*arguments).stdout)
    evidence.write_text(named.replace("value: ''", "value: '1'", 1), encoding="utf-8")
    one = json.loads(run(*arguments, "--runtime-evidence", evidence).stdout)
    assert [r["id"] for r in one["results"] if r["result"] == "attested"] == ids[:1]
    evidence.write_text(named.replace("by: A. Operator", "by: ' '"), encoding="utf-8")
    assert "say who saw it" in run(*arguments, "--runtime-evidence", evidence, code=2).stderr
    evidence.write_text(named, encoding="utf-8")
    filled = (
        evidence.read_text(encoding="utf-8")
        .replace("by: ''", "by: A. Operator")
        .replace("value: ''", "value: '1'")
    )
    evidence.write_text(filled, encoding="utf-8")
    results = json.loads(
        run(
            "verify", ticket, snapshots[1], "--runtime-evidence", evidence, "--fail-on", "never", "-f", "json"
        ).stdout
    )
    assert {r["id"]: r["result"] for r in results["results"] if r["id"] in ids} == dict.fromkeys(
        ids, "attested"
    )


def test_a_pod_that_uses_none(run, snapshots):
    assert "no Pod that uses devices" in run("probe", snapshots[0], "--pod", "ml/none", code=2).stderr


def test_text_for_people(run, snapshots):
    shown = run("probe", snapshots[0])
    assert "ml/net-app  gpu-1\n  kubectl -n ml exec net-app" in shown.stdout
    assert "Next: changegen probe" in shown.stderr
