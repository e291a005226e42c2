"""A small ticket and report made by hand: every section filled, hostile text in names."""

from __future__ import annotations

from changegen.model.ticket import (
    BlastRow,
    CapacityRow,
    Check,
    CheckResult,
    Command,
    Deviation,
    DriverRow,
    Evidence,
    FeatureRow,
    Field,
    Finding,
    ForecastRow,
    InputDigest,
    InstanceRow,
    MonitorRow,
    PoolRow,
    ResourceRow,
    Results,
    RollbackStep,
    Step,
    Subject,
    TaintRow,
    Ticket,
)

HOSTILE = "x|y`z`\n# h1 <script>alert(1)</script> [a](javascript:b) \x1b[31mred \u202etxt ![i](http://e.example/x.png)"


def ticket(**changes: object) -> Ticket:
    """Return the ticket; keyword arguments replace fields."""
    cps = ("cp-1", "cp-2", "cp-3")
    values: dict[str, object] = {
        "tool_version": "0.1.0",
        "title": "Upgrade Kubernetes 1.36.3 → 1.37.2 on prod-a",
        "generated_at": "2026-12-01T02:55:00Z",
        "captured_at": "2026-12-01T02:55:00Z",
        "cluster_name": "prod-a",
        "cluster_uid": "c3cb290c-0000-4000-8000-000000000000",
        "distribution": "kubeadm",
        "from_version": "v1.36.3",
        "to_version": "v1.37.2",
        "decision": "do-not-start",
        "headline": "`SidecarContainers` is set on 3 of 3 kube-apiservers and 1.37 no longer knows it.",
        "facts": {
            "What": "control plane and 8 kubelets v1.36.3 → v1.37.2",
            "Risk": "high until P-2 is done",
            "Way back": "until I-3",
        },
        "data_age": "Kubernetes data of v1.37.2.",
        "findings": (
            Finding(
                id="F-01",
                code="CG-GATE-001",
                severity="blocking",
                subject=Subject(component="kube-apiserver", instances=cps, name="SidecarContainers"),
                title="gate removed",
                message="`SidecarContainers=true` is removed in 1.37: `unrecognized feature gate: SidecarContainers`",
                evidence=(
                    Evidence(
                        source="pods.json",
                        path="spec.containers[0].command",
                        value="--feature-gates=SidecarContainers=true",
                        provenance="pod spec",
                    ),
                ),
                remedy=("P-2",),
            ),
            Finding(
                id="F-02",
                code="CG-TAINT-009",
                severity="warning",
                subject=Subject(component="Node", instances=(HOSTILE,)),
                title="hostile",
                message=f"taint value {HOSTILE}",
                advice="ask its owner",
            ),
        ),
        "instances": tuple(
            InstanceRow(
                component=c,
                instance=f"kube-system/{c}-{n}",
                node=n,
                current="v1.36.3",
                proven=True,
                target="v1.37.2",
                action="upgrade",
            )
            for c in ("kube-apiserver", "kube-scheduler")
            for n in cps
        ),
        "forecast": (
            ForecastRow(
                kind="gate",
                name="SidecarContainers",
                component="kube-apiserver",
                instances=cps,
                today="true (set)",
                at_target="removed",
                effect="will-not-start",
                message="unrecognized feature gate: SidecarContainers",
                provenance="pod spec",
            ),
            ForecastRow(
                kind="gate",
                name="SELinuxMount",
                component="kubelet",
                instances=cps,
                today="false (default)",
                at_target="true (default)",
                effect="flips-on",
                touches="no SELinux labels seen",
            ),
            ForecastRow(
                kind="gate",
                name="HPAScaleToZero",
                component="kube-apiserver",
                instances=cps,
                today="false (default)",
                at_target="true (default)",
                effect="flips-on",
            ),
        ),
        "drivers": (
            DriverRow(
                driver="gpu.example.com",
                workload="DaemonSet dra/plugin",
                version="v0.2.0",
                version_source="image tag",
                target="v0.3.0",
                labels="v0.2.0",
                device_versions="1.2.0: 4, 1.1.0: 2",
                nodes=3,
                devices=6,
            ),
        ),
        "resources": (
            ResourceRow(
                resource="example.com/gpu",
                source="DRA",
                device_class="gpu.example.com",
                pods=4,
                pending=1,
                verdict="go",
            ),
        ),
        "features": (FeatureRow(feature="device taints", stage="GA", verdict="ready", wanted=True),),
        "pools": (
            PoolRow(driver="gpu.example.com", pool="gpu-1", node="gpu-1", devices=2, allocated=2, tainted=0),
            PoolRow(
                driver="gpu.example.com",
                pool="gpu-3",
                node="gpu-3",
                devices=2,
                allocated=0,
                tainted=1,
                behind_node_taint="example.com/gpu-only:NoSchedule",
            ),
        ),
        "taints": (
            TaintRow(kind="node", subject="gpu-3", key="example.com/gpu-only", value="", effect="NoSchedule"),
        ),
        "blast": (
            BlastRow(
                owner="Deployment ml/train",
                namespace="ml",
                pods=("train-a", "train-b"),
                nodes=("gpu-1",),
                devices=2,
                resources=("example.com/gpu",),
                comes_back=True,
                disruption="0 disruptions allowed",
            ),
        ),
        "capacity": (
            CapacityRow(
                node="gpu-1",
                resource="example.com/gpu",
                displaced=2,
                free_elsewhere=1,
                pending=1,
                why="gpu-3 is behind a taint",
            ),
        ),
        "steps": (
            Step(
                id="P-1",
                phase="before",
                title="Keep the snapshot",
                commands=(Command(text="changegen snapshot -o before.json.gz"),),
                minutes=2,
                checks=("V-1",),
            ),
            Step(
                id="P-2",
                phase="before",
                title="Remove `SidecarContainers=true` from kubeadm-config",
                why="kubeadm renders the manifests from it.",
                commands=(
                    Command(
                        text="kubectl -n kube-system edit configmap kubeadm-config",
                        where="any control-plane node",
                        runs="write",
                    ),
                ),
                minutes=10,
                rollback=("B-9",),
            ),
            Step(
                id="I-1",
                phase="control-plane",
                title="Upgrade the first control-plane node",
                nodes=("cp-1",),
                commands=(Command(text="kubeadm upgrade apply v1.37.2", where="cp-1", runs="write"),),
                minutes=15,
                go_on="/readyz of cp-1 is ok",
                stop="it does not become ready in 5 minutes",
                checks=("V-1",),
                rollback=("B-1",),
            ),
            Step(
                id="I-2",
                phase="control-plane",
                title="Upgrade the others",
                nodes=("cp-2", "cp-3"),
                commands=(Command(text="kubeadm upgrade node", where="cp-2", runs="write"),),
                minutes=30,
                no_return=True,
                checks=("V-1",),
                rollback=("B-1",),
            ),
            Step(
                id="I-3",
                phase="nodes",
                title="Upgrade kubelets",
                nodes=("gpu-1",),
                minutes=40,
                checks=("V-2",),
                rollback=("B-1",),
            ),
        ),
        "checks": (
            Check(
                id="V-1",
                layer="api",
                title="API server version",
                command="kubectl get --raw /version",
                before="v1.36.3",
                expected="v1.37.2",
            ),
            Check(
                id="V-2",
                layer="device",
                title="devices by node",
                command="kubectl get resourceslices -o json | jq '.items'",
                before={"gpu-1": 2, "gpu-3": 2},
                expected={"gpu-1": 2, "gpu-3": 2},
                wait_seconds=120,
            ),
            Check(
                id="V-3",
                layer="runtime",
                title="ml/train sees 1 GPU",
                command="kubectl exec -n ml deploy/train -- nvidia-smi -L",
                before_known=False,
                expected=1,
            ),
        ),
        "rollback": (
            RollbackStep(
                id="B-1",
                order=1,
                what="kube-apiserver, kube-scheduler",
                to="v1.36.3",
                commands=(
                    Command(
                        text="cp /root/backup/*.yaml /etc/kubernetes/manifests/", where="cp-1", runs="write"
                    ),
                ),
                verdict="reversible",
                minutes=10,
                needed_once=("I-1",),
            ),
            RollbackStep(
                id="B-2",
                order=2,
                what="etcd",
                to="3.6.8",
                verdict="reversible-until",
                until="the last member runs 3.7",
                why="then `etcdctl downgrade enable 3.6` comes first",
                minutes=30,
                needed_once=("I-2",),
            ),
            RollbackStep(
                id="B-9",
                order=3,
                what="kubeadm-config",
                to="SidecarContainers=true",
                verdict="one-way",
                lost="nothing",
            ),
        ),
        "rollback_decide_by": "end of I-1",
        "monitoring": (
            MonitorRow(signal="apiserver errors", query="apiserver_request_total", stop_when="5xx rise"),
        ),
        "fields": (
            Field(name="owner", label="Owner", who="requester"),
            Field(name="risk", label="Risk", value="medium", who="approver"),
        ),
        "unobserved": ("kube-scheduler metrics were not in the capture",),
        "inputs": (InputDigest(what="snapshot", name="before", sha256="0" * 64),),
        "snapshot_digest": "0" * 64,
    }
    values.update(changes)
    return Ticket(**values)  # type: ignore[arg-type]


def results(**changes: object) -> Results:
    """Return a closing report of that ticket."""
    made = ticket()
    values: dict[str, object] = {
        "tool_version": "0.1.0",
        "ticket_digest": "1" * 64,
        "before_digest": "0" * 64,
        "after_digest": "2" * 64,
        "outcome": "failed",
        "headline": "kube-proxy is still v1.36.3 on 8 nodes.",
        "checks": made.checks,
        "results": (
            CheckResult(id="V-1", result="pass", actual="v1.37.2"),
            CheckResult(
                id="V-2", result="fail", actual={"gpu-1": 1, "gpu-3": 2}, reason="1 device less on gpu-1"
            ),
            CheckResult(id="V-3", result="unknown", reason="nobody proved it"),
        ),
        "not_done": (
            Deviation(
                what="kube-proxy",
                before="v1.36.3",
                planned="v1.37.2",
                actual="v1.36.3",
                count=8,
                subjects=("cp-1", "cp-2"),
            ),
        ),
        "unplanned": (Deviation(what=f"Pod {HOSTILE}", actual="gone"),),
    }
    values.update(changes)
    return Results(**values)  # type: ignore[arg-type]
