"""Makes the captures of an upgrade anew: before, with one control-plane node done, and after; and a cluster-info dump."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from tests.controlplane import scene
from tests.controlplane.cluster import Cluster, CommandError

# Resource → the file's name; all namespaces unless the name ends in a namespace.
RESOURCES = (
    "apiservices",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "deviceclasses",
    "devicetaintrules",
    "events",
    "horizontalpodautoscalers",
    "leases",
    "mutatingwebhookconfigurations",
    "namespaces",
    "nodes",
    "poddisruptionbudgets",
    "pods",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourceslices",
    "validatingwebhookconfigurations",
)

PATHS = {
    "apis.json": "/apis",
    "apis-resource.k8s.io.json": "/apis/resource.k8s.io",
    "apis-resource.k8s.io-v1.json": "/apis/resource.k8s.io/v1",
    "kube-apiserver-flagz.txt": "/flagz",
    "kube-apiserver-statusz.txt": "/statusz",
    "kube-apiserver-readyz.txt": "/readyz?verbose",
}

# Of /metrics only what says versions, gates and stored objects: the rest is noise of thousands of lines.
METRICS = re.compile(
    r"(kubernetes_feature_enabled|kubernetes_build_info|version_info|apiserver_storage_objects"
    r"|apiserver_requested_deprecated_apis)\b"
)


def capture(cluster: Cluster, folder: Path) -> None:
    """Write what an administrator would save of ``cluster``; files of kubectl's own output, one a resource."""
    folder.mkdir(parents=True, exist_ok=True)
    # A cache that has seen another version of this address would ask for versions that are not served.
    with tempfile.TemporaryDirectory() as cache:
        for resource in RESOURCES:
            arguments = ["get", resource, "--all-namespaces", "-o", "json", f"--cache-dir={cache}"]
            try:
                (folder / f"{resource}.json").write_text(cluster.kubectl(*arguments), encoding="utf-8")
            except CommandError as error:
                if "doesn't have a resource type" not in str(error.stderr):
                    raise
        maps = cluster.kubectl("get", "configmaps", "-n", "kube-system", "-o", "json", f"--cache-dir={cache}")
        (folder / "configmaps-kube-system.json").write_text(maps, encoding="utf-8")
    (folder / "version.json").write_text(cluster.kubectl("version", "-o", "json"), encoding="utf-8")
    for name, path in PATHS.items():
        (folder / name).write_text(cluster.api.text(path), encoding="utf-8")
    lines = cluster.api.text("/metrics").splitlines(keepends=True)
    (folder / "kube-apiserver-metrics.txt").write_text(
        "".join(line for line in lines if METRICS.search(line)), encoding="utf-8"
    )


def anonymise(folder: Path, replaced: dict[str, str]) -> None:
    """Replace words of this machine (folders, its address) in every file below ``folder``."""
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for word, other in replaced.items():
                text = text.replace(word, other)
            path.write_text(text, encoding="utf-8")


def record(before: str, after: str, output: Path) -> None:
    """Start the scene on ``before``, upgrade it in place to ``after``, and write the captures below ``output``.

    The change itself is part of what is recorded: kube-proxy, CoreDNS and kubeadm-config are left behind, and the
    GPU driver is upgraded after the control plane.
    """
    output.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="record-") as root,
        Cluster(scene.plan(before), Path(root)) as cluster,
    ):
        scene.populate(cluster)
        words = _words_of_this_machine(cluster)
        capture(cluster, output / f"before-{before}")
        dump = output / f"cluster-info-dump-{before}"
        cluster.kubectl("cluster-info", "dump", "--all-namespaces", f"--output-directory={dump}")

        remedied = scene.configuration(removed_gate=False)
        first, *others = [node.name for node in cluster.plan.control_planes]
        cluster.upgrade_node(first, after, remedied)
        cluster.version = after
        cluster.wait_nodes_ready()
        scene.wait_settled(cluster)
        capture(cluster, output / f"mid-{first}-on-{after}")

        for node in others:
            cluster.upgrade_node(node, after)
        cluster.upgrade_kubelets(after)
        cluster.apply(*scene.gpu_plugin("v0.3.0"))
        scene.publish_gpus(cluster, dict.fromkeys(("gpu-1", "gpu-2", "gpu-3"), "1.3.0"))
        cluster.kubectl("delete", "pod", "too-big", "-n", "ml", "--wait=false")
        scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
        scene.wait_settled(cluster)
        capture(cluster, output / f"after-{after}")
        anonymise(output, words)


def _words_of_this_machine(cluster: Cluster) -> dict[str, str]:
    node = cluster.api.items("/api/v1/nodes")[0]
    address = next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
    homes = {f"{cluster.node_dir(name)}/": "/" for name in cluster.nodes}
    # JSON escapes nothing of a path, so that plain replacement is enough; the longest words go first.
    assert json.dumps(str(cluster.root)) == f'"{cluster.root}"'
    port = str(cluster.port("kube-apiserver", cluster.running["kube-apiserver"][0]))
    return {
        **homes,
        str(cluster.pki): "/etc/kubernetes/pki",
        str(cluster.root): "/etc/kubernetes",
        f"127.0.0.1:{port}": "127.0.0.1:6443",
        address: "192.0.2.2",
    }
