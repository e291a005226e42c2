"""A whole change, from the ticket to the closing report, on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.controlplane import scene
from tests.controlplane.cluster import Cluster, ComponentError, Plan
from tests.controlplane.conftest import need
from tests.controlplane.user import changegen

OLD, NEW = "1.36.3", "1.37.2"


@dataclass
class Change:
    """The ticket, what each stage of the change was verified to be, and what happened on the way."""

    ticket: dict[str, Any]
    forgotten: str
    remedied: dict[str, str]
    reports: dict[str, dict[str, Any]]
    codes: dict[str, int]

    def failed(self, stage: str) -> set[str]:
        """The titles of the checks that fail in a stage."""
        report = self.reports[stage]
        titles = {check["id"]: check["title"] for check in report["checks"]}
        return {titles[result["id"]] for result in report["results"] if result["result"] == "fail"}


@pytest.fixture(scope="module")
def change(start_cluster: Callable[[Plan], Cluster], tmp_path_factory: pytest.TempPathFactory) -> Change:
    need(OLD, NEW)
    folder = tmp_path_factory.mktemp("change")
    cluster = start_cluster(scene.plan(OLD))
    scene.populate(cluster)
    ticket = folder / "ticket.json"
    changegen("ticket", "--to", NEW, "-o", ticket, kubeconfig=cluster.admin_kubeconfig)
    result = Change(json.loads(ticket.read_text(encoding="utf-8")), "", {}, {}, {})

    def verify(stage: str) -> None:
        output = folder / f"{stage}.json"
        done = changegen("verify", ticket, "-o", output, kubeconfig=cluster.admin_kubeconfig, expect=None)
        result.codes[stage] = done.returncode
        result.reports[stage] = json.loads(output.read_text(encoding="utf-8"))

    verify("before")

    first, *others = [node.name for node in cluster.plan.control_planes]
    with pytest.raises(ComponentError) as stopped:
        cluster.upgrade_node(first, NEW)
    result.forgotten = stopped.value.log
    cluster.stop_instance("kube-apiserver", first)
    cluster.write_manifests(first, OLD)
    cluster.start_instance("kube-apiserver", first)

    # The remedy as the ticket prints it, and then kubeadm's way with what it left in kubeadm-config.
    blocker = next(finding for finding in result.ticket["findings"] if finding["severity"] == "blocking")
    for step in result.ticket["steps"]:
        if step["id"] in blocker["remedy"]:
            for command in step["commands"]:
                done = cluster.shell(command["text"])
                # kubectl diff says 1 when it shows a difference.
                assert done.returncode == 0 or (command["runs"] == "read" and done.returncode == 1), done
    stored = cluster.api.get("/api/v1/namespaces/kube-system/configmaps/kubeadm-config")
    configuration = yaml.safe_load(stored["data"]["ClusterConfiguration"])
    result.remedied = {
        argument["name"]: argument["value"] for argument in configuration["apiServer"]["extraArgs"]
    }
    cluster.upgrade_node(
        first, NEW, {key: configuration[key] for key in scene.configuration(removed_gate=True)}
    )
    verify("half way")

    for node in others:
        cluster.upgrade_node(node, NEW)
    cluster.finish_upgrade(NEW)
    cluster.upgrade_kubelets(NEW)
    scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
    scene.wait_settled(cluster)
    verify("after")

    cluster.kubectl("taint", "node", "cpu-1", "example.com/surprise=true:NoSchedule")
    verify("tampered")
    return result


def test_the_ticket_forecasts_the_very_words_of_the_component(change: Change) -> None:
    blocking = [finding for finding in change.ticket["findings"] if finding["severity"] == "blocking"]
    assert len(blocking) == 1
    words = "unrecognized feature gate: SidecarContainers"
    assert words in blocking[0]["message"]
    assert words in change.forgotten


def test_the_printed_remedy_takes_out_the_gate_and_nothing_else(change: Change) -> None:
    assert change.remedied == {
        "feature-gates": "DRADeviceTaintRules=true",
        "runtime-config": "resource.k8s.io/v1beta2=true",
    }


def test_nothing_is_green_before_the_change_is_done(change: Change) -> None:
    for stage in ("before", "half way"):
        assert change.codes[stage] == 3
        assert "The API server's version" in change.failed(stage) or stage == "half way"
        assert change.reports[stage]["counts"]["not_done"] > 0


def test_all_is_green_when_it_is_done(change: Change) -> None:
    report = change.reports["after"]
    assert change.failed("after") == set()
    assert change.codes["after"] == 0
    assert report["not_done"] == []
    unknown = {result["id"] for result in report["results"] if result["result"] == "unknown"}
    # Only what somebody must look at inside a container.
    assert {check["compare"] for check in report["checks"] if check["id"] in unknown} == {"manual"}


def test_an_unplanned_change_is_named(change: Change) -> None:
    assert change.codes["tampered"] == 3
    assert change.failed("tampered") - change.failed("after")
    fresh = [
        entry
        for entry in change.reports["tampered"]["unplanned"]
        if entry not in change.reports["after"]["unplanned"]
    ]
    assert len(fresh) == 1
    assert "cpu-1" in json.dumps(fresh)
    assert "example.com/surprise" in json.dumps(fresh)
