"""What to watch while the change goes on: metrics of Kubernetes' own components, with what means stop."""

from __future__ import annotations

from changegen.i18n import tr
from changegen.model.ticket import MonitorRow
from changegen.plan.scene import Scene

__all__ = ["make_monitoring"]


def make_monitoring(scene: Scene) -> tuple[MonitorRow, ...]:
    """Rows with a baseline where the reading has one.

    The metrics are those that the components register: apiserver endpoints/metrics, scheduler and
    devicetainteviction metrics of Kubernetes 1.37, etcd's etcdserver and mvcc metrics. When to stop is a suggestion.
    """
    rows = [
        MonitorRow(
            signal=tr("Errors of the API servers"),
            query='sum(rate(apiserver_request_total{code=~"5.."}[5m])) / sum(rate(apiserver_request_total[5m]))',
            stop_when=tr("above 1 % for ten minutes with no API server restarting"),
        ),
        MonitorRow(
            signal=tr("Pods that wait for a node"),
            query='scheduler_pending_pods{queue=~"active|backoff|unschedulable"}',
            baseline=_pending(scene),
            stop_when=tr("still above the baseline ten minutes after a node is back"),
        ),
        MonitorRow(
            signal=tr("Nodes not Ready"),
            query="kubectl get nodes --no-headers | grep -vcw Ready",
            baseline=str(sum(1 for node in scene.snapshot.nodes if node.ready is not True))
            if scene.snapshot.nodes
            else "",
            stop_when=tr("more than the node in work"),
        ),
    ]
    if scene.members or scene.distribution.etcd in ("kubeadm", "os"):
        sizes = [
            value
            for process in scene.snapshot.processes
            for key, value in sorted(process.etcd.items())
            if "size" in key
        ]
        rows += [
            MonitorRow(
                signal=tr("etcd has a leader"),
                query="min(etcd_server_has_leader)",
                baseline="",
                stop_when=tr("0 for more than a minute"),
            ),
            MonitorRow(
                signal=tr("Size of etcd's database"),
                query="max(etcd_mvcc_db_total_size_in_bytes)",
                baseline=sizes[0] if sizes else "",
                stop_when=tr("above 80 % of the quota"),
            ),
        ]
    if scene.snapshot.pools or scene.snapshot.claims:
        total = sum(len(pool.devices) for pool in scene.snapshot.pools)
        rows += [
            MonitorRow(
                signal=tr("Devices published"),
                query="kubectl get resourceslices.resource.k8s.io -o jsonpath='{.items[*].spec.devices[*].name}' | wc -w",
                baseline=str(total),
                stop_when=tr("below the baseline two minutes after a kubelet's start"),
            ),
            MonitorRow(
                signal=tr("Devices that cannot be prepared"),
                query="kubectl get events -A --field-selector=reason=FailedPrepareDynamicResources",
                baseline=str(
                    sum(e.count for e in scene.snapshot.events if e.reason == "FailedPrepareDynamicResources")
                ),
                stop_when=tr("any that is new"),
            ),
        ]
    if scene.snapshot.taint_rules or any(d.taints for p in scene.snapshot.pools for d in p.devices):
        rows.append(
            MonitorRow(
                signal=tr("Pods deleted for device taints"),
                query="sum(increase(device_taint_eviction_controller_pod_deletions_total[5m]))",
                stop_when=tr("above 0: PodDisruptionBudgets are not asked"),
            )
        )
    return tuple(rows)


def _pending(scene: Scene) -> str:
    if "pods" not in scene.snapshot.kinds_read:
        return ""
    waiting = sum(1 for pod in scene.snapshot.pods if pod.phase == "Pending" and not pod.node)
    return tr("{n}, of the Pods with devices, without a controller or under a budget", n=waiting)
