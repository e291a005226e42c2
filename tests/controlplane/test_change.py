"""A whole change and its way back on a real cluster, done as the ticket's own steps say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from changegen.facts import FACTS
from changegen.model.snapshot import Snapshot
from changegen.model.ticket import Check, Ticket
from changegen.verify import judge
from tests.controlplane import dra, machine, scene
from tests.controlplane.client import Api
from tests.controlplane.cluster import Cluster, ComponentError, Plan
from tests.controlplane.conftest import need
from tests.controlplane.operator import Operator, in_turn, table
from tests.controlplane.process import wait_for
from tests.controlplane.user import changegen

OLD, NEW = "1.36.3", "1.37.2"
PAGE = Path(__file__).parents[2] / "docs" / "commands-run.md"
GPU_NODES = ("gpu-1", "gpu-2", "gpu-3")


@dataclass
class Change:
    """The ticket, what each stage of the change was verified to be, and what happened on the way."""

    cluster: Cluster
    folder: Path
    hands: Operator
    ticket: dict[str, Any]
    forgotten: str = ""
    crashed: dict[str, Any] = field(default_factory=dict)
    """The status of the apiserver's Pod while it does not start."""
    remedied: dict[str, str] = field(default_factory=dict)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    unequal: dict[str, list[str]] = field(default_factory=dict)
    """Stage → checks whose printed command says something else than the snapshot."""
    unexpected: list[str] = field(default_factory=list)
    """Checks whose printed command does not give the expected value after the change."""
    new_etcd: dict[str, str] = field(default_factory=dict)
    """Node → the manifest of etcd that the upgrade wrote."""
    etcd: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Moment → what the ticket of that moment says of etcd's way back."""
    went_back: dict[str, bool] = field(default_factory=dict)
    """Moment → whether a member really came up in the older etcd."""
    rules_after: dict[str, Any] = field(default_factory=dict)
    mapped_after: bool = False
    back: str = ""
    etcd_first: dict[str, Any] = field(default_factory=dict)
    """What the newer cluster is with its etcd taken back alone."""
    again: dict[str, Any] = field(default_factory=dict)
    """What etcd is after one member was made again with no data."""
    looks: dict[str, str] = field(default_factory=dict)
    """Moment → what the look at etcd printed."""
    restored: dict[str, Any] = field(default_factory=dict)
    """What the cluster is after the restore of the snapshot."""

    def failed(self, stage: str) -> set[str]:
        """The titles of the checks that fail in a stage."""
        report = self.reports[stage]
        titles = {check["id"]: check["title"] for check in report["checks"]}
        return {titles[result["id"]] for result in report["results"] if result["result"] == "fail"}

    def steps(self, *phases: str) -> list[dict[str, Any]]:
        return [step for step in self.ticket["steps"] if step["phase"] in phases]

    def way_back(self, word: str, ticket: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The step back whose commands or subject name ``word``."""
        found = [
            step
            for step in (ticket or self.ticket)["rollback"]
            if word in step["what"] or any(word in command["text"] for command in step["commands"])
        ]
        assert found, word
        return dict(found[0])

    def etcd_verdict(self, moment: str) -> None:
        output = self.folder / f"{moment}.ticket.json"
        self.new_ticket(output)
        self.etcd[moment] = self.way_back("etcd, member", json.loads(output.read_text(encoding="utf-8")))

    def upgrade(self, step: Mapping[str, Any]) -> None:
        """The step that upgrades the control plane of one node."""
        self.hands.step(step)
        node = step["nodes"][0]
        place = self.cluster.node_dir(node) / "etc" / "kubernetes" / "manifests" / "etcd.yaml"
        self.new_etcd[node] = place.read_text(encoding="utf-8")
        self.cluster.wait_mirror_pods(node)

    def new_ticket(self, output: Path) -> None:
        changegen("ticket", "--to", NEW, "-o", output, kubeconfig=self.cluster.admin_kubeconfig)

    def verify(self, stage: str) -> None:
        output = self.folder / f"{stage}.json"
        done = changegen(
            *("verify", self.folder / "ticket.json", "-o", output),
            kubeconfig=self.cluster.admin_kubeconfig,
            expect=None,
        )
        assert output.exists(), done.stderr
        self.codes[stage] = done.returncode
        self.reports[stage] = json.loads(output.read_text(encoding="utf-8"))

    def let_crash(self, node: str) -> None:
        """Have the kubelet start the apiserver of ``node`` again and again, and verify meanwhile."""
        pod = f"/api/v1/namespaces/kube-system/pods/kube-apiserver-{node}"

        def restarted() -> bool:
            self.cluster.tend()
            found = self.cluster.api.find(pod)
            self.crashed = found["status"] if found else {}
            return any(c["restartCount"] > 0 for c in self.crashed.get("containerStatuses", ()))

        wait_for(f"restarts of the apiserver of {node}", restarted, 120)
        self.verify("crashing")

    def paste(self, stage: str) -> None:
        """Run the command of every check as printed, and hold what it says against the snapshot's value."""
        output = self.folder / f"{stage}.snapshot.json"
        changegen("snapshot", "-o", output, kubeconfig=self.cluster.admin_kubeconfig)
        snapshot = msgspec.json.decode(output.read_bytes(), type=Snapshot)
        checks = msgspec.convert(self.ticket["checks"], tuple[Check, ...])
        self.unequal[stage] = []
        for check in checks:
            said = self.hands.run(
                "checklist", {"text": check.command, "where": "any machine with kubectl", "runs": "read"}
            )
            if check.query is None or self.hands.lines[-1].how != "run":
                continue
            fact = FACTS[check.query.fact]
            printed = fact.parse(said, check.query.args)
            seen = fact.evaluate(snapshot, check.query.args)
            if (printed.known, printed.value) != (seen.known, seen.value):
                self.unequal[stage].append(f"{check.title}: {printed} and {seen}")
            if stage == "after" and judge(check, printed)[0] != "pass":
                self.unexpected.append(f"{check.title}: {judge(check, printed)}")

    def member_back(self, node: str, moment: str, step: Mapping[str, Any]) -> None:
        """Take one etcd member back as a step back says, and then forward again."""
        try:
            for command in step["commands"]:
                if node in (command["where"], *in_turn(command["where"])):
                    self.hands.run("way back", {**command, "where": node})
            self.went_back[moment] = True
        except ComponentError:
            self.went_back[moment] = False
        self.member_forward(node)

    def member_forward(self, node: str) -> None:
        """Put the manifest of the newer etcd in place again."""
        place = self.cluster.node_dir(node) / "etc" / "kubernetes" / "manifests" / "etcd.yaml"
        place.write_text(self.new_etcd[node], encoding="utf-8")
        self.cluster.obey_manifests(node)


@pytest.fixture(scope="module")
def change(start_cluster: Callable[[Plan], Cluster], tmp_path_factory: pytest.TempPathFactory) -> Change:
    need(OLD, NEW)
    folder = tmp_path_factory.mktemp("change")
    plan = scene.plan(OLD)
    masters = [node.name for node in plan.control_planes]
    cluster = start_cluster(replace(plan, running={"etcd": masters, "kube-apiserver": masters}))
    cluster.formed = True
    scene.populate(cluster)
    cluster.kubectl("create", "configmap", "made-before", "--from-literal=snapshot=before")
    hands = Operator(cluster, folder, OLD, NEW)
    ticket = folder / "ticket.json"
    result = Change(cluster, folder, hands, {})
    result.new_ticket(ticket)
    result.ticket = json.loads(ticket.read_text(encoding="utf-8"))
    result.etcd["before"] = result.way_back("etcd, member")

    result.verify("before")
    result.paste("before")

    # Without the remedy: the gate stops the new apiserver.
    first, second, third = (node.name for node in cluster.plan.control_planes)
    with pytest.raises(ComponentError) as stopped:
        cluster.upgrade_node(first, NEW)
    result.forgotten = stopped.value.log
    result.let_crash(first)
    cluster.stop_instance("kube-apiserver", first)
    for component in ("etcd", "kube-apiserver"):
        cluster.stop_instance(component, first)
    cluster.write_manifests(first, OLD)
    for component in ("etcd", "kube-apiserver"):
        cluster.place_manifests(first, [component])
        cluster.start_instance(component, first)
    cluster.wait_mirror_pods(first)

    # The attempt restarted etcd and the apiserver: the first step would name that against an older reading.
    changegen("snapshot", "-o", folder / "input.json", kubeconfig=cluster.admin_kubeconfig)
    env = {"TICKET_INPUT": str(folder / "input.json")}
    for step in result.steps("before"):
        hands.step(step, env=env)
    stored = cluster.api.get("/api/v1/namespaces/kube-system/configmaps/kubeadm-config")
    configuration = yaml.safe_load(stored["data"]["ClusterConfiguration"])
    result.remedied = {
        argument["name"]: argument["value"] for argument in configuration["apiServer"]["extraArgs"]
    }
    cluster.kubectl("delete", "configmap", "made-before")

    on_masters = {step["nodes"][0]: step for step in result.steps("control-plane") if step["nodes"]}
    result.upgrade(on_masters[first])
    result.verify("half way")
    result.upgrade(on_masters[second])
    result.etcd_verdict("one member left")
    result.member_back(second, "one member left", result.etcd["before"])
    cluster.wait_mirror_pods(second)
    result.upgrade(on_masters[third])
    cluster.version = NEW
    for step in result.steps("nodes", "drivers", "after"):
        hands.step({**step, "commands": [c for c in step["commands"] if "changegen verify" not in c["text"]]})
    cluster.wait_nodes_ready()
    settle(cluster)
    result.verify("after")
    result.paste("after")
    # Somebody's part: a name in the file that a step made. What was looked at stays open.
    seen = folder / "evidence.yaml"
    seen.write_text(seen.read_text(encoding="utf-8").replace("by: ''", "by: somebody"), encoding="utf-8")
    for command in (entry for step in result.steps("after") for entry in step["commands"]):
        if "changegen verify" in command["text"]:
            hands.run("after", command)

    cluster.kubectl("taint", "node", "cpu-1", "example.com/surprise=true:NoSchedule")
    result.verify("tampered")
    cluster.kubectl("taint", "node", "cpu-1", "example.com/surprise-")
    go_back(result)
    return result


def settle(cluster: Cluster) -> None:
    """Wait for the workloads, and report as the network driver does for a Pod that was made again."""
    scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
    dra.allocated(cluster.api, "ml", "nic-claim")
    dra.running(cluster.api, "ml", "net-app")
    dra.Driver(cluster.api, "dra.net").report_status(
        "ml",
        "nic-claim",
        network={"interfaceName": "eth1", "ips": ["10.9.8.7/24"], "hardwareAddress": "02:42:ac:11:00:02"},
    )
    scene.wait_settled(cluster)


def go_back(change: Change) -> None:
    """The steps back of the ticket, in its order: nodes, add-ons, control plane, configuration, etcd."""
    cluster, hands = change.cluster, change.hands
    alone(change)
    kubelets = change.way_back("kubelets of")
    # Their owner again: net-app has no controller, and the budget allows nothing.
    cluster.kubectl(
        *("-n", "ml", "patch", "poddisruptionbudget", "train", "--type=merge", "-p"),
        '{"spec":{"minAvailable":0}}',
    )
    cluster.kubectl("-n", "ml", "delete", "pod", "net-app", "--wait=true", "--grace-period=1")
    hands.step(kubelets)
    cluster.wait_nodes_ready()
    hands.step(change.way_back("set image"))
    hands.step(change.way_back("kube-scheduler.yaml"))
    for master in cluster.plan.control_planes:
        cluster.wait_mirror_pods(master.name)
    cluster.version = OLD
    hands.step(change.way_back("ConfigMap kubeadm-config"))
    change.back = cluster.api.get("/version")["gitVersion"]

    change.etcd_verdict("all members are new")
    step = change.etcd["before"]
    change.member_back("cp-3", "all members are new", step)
    downgrade = change.way_back("downgrade enable")
    hands.step(downgrade)
    change.went_back["after the downgrade"] = all(
        cluster.component_version("etcd", node) == OLD for node in cluster.running["etcd"]
    )
    change.rules_after = json.loads(hands.step(change.way_back("/devicetaintrules")))
    hands.step(change.way_back("poddisruptionbudget"))
    hands.step(change.way_back("Pods that get devices"))
    hands.step(change.way_back("kubeadm on the nodes"))
    hands.step(change.way_back("Pods without a controller"))
    scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
    pods = cluster.api.items("/api/v1/namespaces/ml/pods?labelSelector=app%3Dtrain")
    change.mapped_after = all(pod["status"].get("extendedResourceClaimStatus") for pod in pods)
    restore(change)


def alone(change: Change) -> None:
    """etcd first, where it is the fault: its downgrade below the newer API servers, and forward again."""
    cluster, hands = change.cluster, change.hands
    look(change, "all members are new")
    hands.step(change.way_back("downgrade enable"))
    cluster.kubectl("create", "configmap", "made-between", "--from-literal=etcd=older")
    change.etcd_first = {
        "apiservers": {
            node: cluster.component_version("kube-apiserver", node) for node in cluster.running["etcd"]
        },
        "storage": storage_versions(cluster),
    }
    cluster.kubectl("delete", "configmap", "made-between")
    forward(change)


def look(change: Change, moment: str) -> None:
    """What the ticket has people look at before they choose a way."""
    (command,) = change.ticket["rollback_looks"]
    change.looks[moment] = change.hands.run("way back", command)


def forward(change: Change) -> None:
    """etcd to the newer minor again, once its downgrade has ended: a member that moves before keeps it from going up."""
    wait_for("the end of the downgrade", lambda: not downgrading(change.cluster))
    for node in change.cluster.running["etcd"]:
        change.member_forward(node)
    wait_for("storage version 3.7", lambda: storage_versions(change.cluster) == {"3.7.0"})


def make_again(change: Change, ill: str) -> None:
    """One member whose data are spoiled is made again, as the ticket says."""
    cluster, hands = change.cluster, change.hands
    cluster.stop_instance("etcd", ill)
    place = cluster.node_dir(ill) / "var" / "lib" / "etcd" / "member"
    (place / "snap" / "db").write_bytes(b"spoiled")
    look(change, "one member is ill")
    healthy = next(node for node in cluster.running["etcd"] if node != ill)
    places = {"a node whose member is healthy": healthy, "the node of the ill member": ill}
    failed = len(hands.failed)
    for command in change.way_back("member add")["commands"]:
        hands.run("way back", {**command, "where": places[command["where"]]}, env={"ILL": ill})
    # The first command says that one member is ill, and fails with that.
    hands.failed[failed:] = [
        text for text in hands.failed[failed:] if "for AT in" not in text.split(": exit")[0]
    ]
    members = cluster.etcdctl("member", "list", member=healthy).splitlines()
    change.again = {
        "started": sorted(line.split(", ")[2] for line in members if line.split(", ")[1] == "started"),
        "kept": [path.name for path in place.parent.iterdir() if path.name.startswith("member-")] != [],
        "healthy": all(
            entry["health"] for entry in json.loads(cluster.etcdctl("endpoint", "health", "-w", "json"))
        ),
        "keys": {
            len(cluster.etcdctl("get", "/registry/", "--prefix", "--keys-only", member=node).split()) > 50
            for node in cluster.running["etcd"]
        },
    }


def restore(change: Change) -> None:
    """The last resort of the ticket: the snapshot of before, with the data of the newer etcd on all members."""
    cluster, hands = change.cluster, change.hands
    forward(change)
    make_again(change, "cp-2")
    cluster.kubectl("create", "configmap", "made-after", "--from-literal=snapshot=after")
    revision = int(cluster.api.get("/api/v1/namespaces")["metadata"]["resourceVersion"])
    hands.step(change.way_back("snapshot restore"))
    for master in cluster.plan.control_planes:
        cluster.wait_mirror_pods(master.name)
    cluster.wait_nodes_ready()
    scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
    members = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
    names = [item["metadata"]["name"] for item in cluster.api.items("/api/v1/namespaces/default/configmaps")]
    change.restored = {
        "apiservers": {
            Api(cluster.node_dir(node.name) / "etc" / "kubernetes" / "admin.conf").get("/version")[
                "gitVersion"
            ]
            for node in cluster.plan.control_planes
        },
        "etcd": [member["Status"]["version"] for member in members],
        "revisions raised": min(member["Status"]["header"]["revision"] for member in members) - revision,
        "maps": {name for name in names if name.startswith("made-")},
    }
    # It is obeyed: what is asked for now is scheduled and runs.
    cluster.apply(
        dra.pod("default", "after-the-restore", limits={"example.com/gpu": "1"}, tolerations=[EVERYWHERE])
    )
    change.restored["device"] = dra.running(cluster.api, "default", "after-the-restore")["spec"]["nodeName"]


EVERYWHERE = {"key": "example.com/gpu-only", "operator": "Exists"}


def downgrading(cluster: Cluster) -> bool:
    answer = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
    return any(member["Status"].get("downgradeInfo", {}).get("enabled") for member in answer)


def storage_versions(cluster: Cluster) -> set[str]:
    answer = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
    return {str(member["Status"].get("storageVersion")) for member in answer}


def test_the_ticket_forecasts_the_very_words_of_the_component(change: Change) -> None:
    blocking = [finding for finding in change.ticket["findings"] if finding["severity"] == "blocking"]
    assert len(blocking) == 1
    words = "unrecognized feature gate: SidecarContainers"
    assert words in blocking[0]["message"]
    assert words in change.forgotten


def test_an_apiserver_that_only_restarts_is_not_taken_for_one_that_runs(change: Change) -> None:
    # The words of the API are no help: the Pod is in phase Running, and asks for the new version.
    assert change.crashed["phase"] == "Running"
    report = change.reports["crashing"]
    checks = {check["title"]: check["id"] for check in report["checks"]}
    result = next(r for r in report["results"] if r["id"] == checks["kube-apiserver that runs, by node"])
    assert result["result"] == "fail"
    assert f"cp-1: v{NEW}" not in json.dumps(result)


def test_the_printed_remedy_takes_out_the_gate_and_nothing_else(change: Change) -> None:
    assert change.remedied == {
        "feature-gates": "DRADeviceTaintRules=true",
        "runtime-config": "resource.k8s.io/v1beta2=true",
    }


def test_printed_commands_do_what_they_say(change: Change) -> None:
    assert change.hands.failed == []


def test_printed_commands_give_the_values_of_the_checks(change: Change) -> None:
    assert change.unequal == {"before": [], "after": []}
    assert change.unexpected == []
    ran = [line for line in change.hands.lines if line.part == "checklist" and line.how == "run"]
    assert len(ran) > 60


def test_the_page_of_commands_is_true(change: Change) -> None:
    if reason := machine.impossible():
        pytest.skip(reason)
    text = table(change.hands.lines)
    if os.environ.get("CHANGEGEN_UPDATE_DOCS"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "CHANGEGEN_UPDATE_DOCS=1 makes the page anew"


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


def test_the_verdicts_on_etcd_are_what_happens(change: Change) -> None:
    verdicts = {moment: (step["verdict"], step["until"]) for moment, step in change.etcd.items()}
    until = "the last member, on cp-3, runs 3.7"
    assert verdicts == {
        "before": ("reversible-until", until),
        "one member left": ("reversible-until", until),
        "all members are new": ("one-way", ""),
    }
    assert change.went_back["one member left"]
    assert not change.went_back["all members are new"]
    assert change.way_back("downgrade enable")["verdict"] == "reversible"
    assert change.went_back["after the downgrade"]


def test_etcd_alone_goes_back_below_the_newer_api_servers(change: Change) -> None:
    assert change.etcd_first == {
        "apiservers": dict.fromkeys(("cp-1", "cp-2", "cp-3"), NEW),
        "storage": {"3.6.0"},
    }


def test_a_member_that_is_ill_is_made_again_with_no_data(change: Change) -> None:
    assert change.again == {
        "started": ["cp-1", "cp-2", "cp-3"],
        "kept": True,
        "healthy": True,
        "keys": {True},
    }


def test_the_look_at_etcd_tells_the_dead_member_from_the_others(change: Change) -> None:
    new = '"version":"3.7.0" "storageVersion":"3.7.0"'
    said = {
        moment: [line.split(" ", 1)[1].strip() for line in words.splitlines()]
        for moment, words in change.looks.items()
    }
    assert said == {"all members are new": [new] * 3, "one member is ill": [new, "unknown", new]}


def test_the_control_plane_goes_back_as_the_ticket_says(change: Change) -> None:
    assert change.way_back("kube-scheduler.yaml")["verdict"] == "reversible"
    assert change.back == f"v{OLD}"


def test_taint_rules_are_served_again_where_the_manifests_say_so(change: Change) -> None:
    assert change.way_back("/devicetaintrules")["verdict"] == "reversible"
    assert [rule["metadata"]["name"] for rule in change.rules_after["items"]] == ["maint-gpu-3"]


def test_pods_of_extended_resources_are_placed_in_the_older_minor(change: Change) -> None:
    assert change.mapped_after


def test_the_snapshot_restores_the_cluster_of_before(change: Change) -> None:
    step = change.way_back("snapshot restore")
    assert step["verdict"] == "reversible"
    assert "Everything written after the snapshot" in step["lost"]
    raised = change.restored.pop("revisions raised")
    device = change.restored.pop("device")
    assert change.restored == {
        "apiservers": {f"v{OLD}"},
        "etcd": ["3.6.8"] * 3,
        # The one was deleted after the snapshot, the other made after it.
        "maps": {"made-before"},
    }
    # Every watcher sees that its version is too old.
    assert raised > 900_000_000
    assert device in GPU_NODES


def test_the_ticket_that_is_read_again_is_the_one_that_was_made(change: Change) -> None:
    msgspec.convert(change.ticket, Ticket)
