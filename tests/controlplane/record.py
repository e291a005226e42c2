"""Makes the captures of an upgrade anew: before, with one control-plane node done, and after; and a cluster-info dump."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from pathlib import Path

from tests.controlplane import dra, scene
from tests.controlplane.client import Api
from tests.controlplane.cluster import Cluster, CommandError
from tests.controlplane.kubeadm import CONTROL_PLANE
from tests.controlplane.process import wait_for

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

# Seconds after a restart within which a check may still wait, and some more.
GIVEN = 75

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
                _save(folder / f"{resource}.json", cluster.kubectl(*arguments))
            except CommandError as error:
                if "doesn't have a resource type" not in str(error.stderr):
                    raise
        maps = cluster.kubectl("get", "configmaps", "-n", "kube-system", "-o", "json", f"--cache-dir={cache}")
        _save(folder / "configmaps-kube-system.json", maps)
    (folder / "version.json").write_text(cluster.kubectl("version", "-o", "json"), encoding="utf-8")
    for name, path in PATHS.items():
        (folder / name).write_text(cluster.api.text(path), encoding="utf-8")
    lines = cluster.api.text("/metrics").splitlines(keepends=True)
    (folder / "kube-apiserver-metrics.txt").write_text(
        "".join(line for line in lines if METRICS.search(line)), encoding="utf-8"
    )


def _save(path: Path, listing: str) -> None:
    """A listing without kubectl's indentation, which is half of it."""
    path.write_text(json.dumps(json.loads(listing), separators=(",", ":")) + "\n", encoding="utf-8")


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

    The folders are ``before``, ``mid`` and ``after``, and ``cluster-info-dump``. The change itself is part of what is
    recorded, with what was forgotten: kube-proxy, CoreDNS and kubeadm-config are left behind, the GPU driver is upgraded
    after the control plane, its label is not, and the network driver has not filled the new Pod's device status.
    """
    output.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="record-") as root,
        Cluster(scene.recorded(before), Path(root)) as cluster,
    ):
        scene.populate(cluster)
        words = _words_of_this_machine(cluster)
        counted = 'apiserver_storage_objects{resource="resourceslices.resource.k8s.io"} 6'
        # The apiserver counts its objects once a minute.
        wait_for("the count of objects", lambda: counted in cluster.api.text("/metrics"), 120)
        capture(cluster, output / "before")
        dump = output / "cluster-info-dump"
        cluster.kubectl("cluster-info", "dump", "--all-namespaces", f"--output-directory={dump}")

        remedied = scene.without_runtime_config(scene.configuration(removed_gate=False))
        first, *others = [node.name for node in cluster.plan.control_planes]
        cluster.stop_kubelet(first)
        cluster.upgrade_node(first, after, remedied, wait=False)
        cluster.version = after
        ask_only(cluster, first)
        capture(cluster, output / "mid")

        cluster.start_kubelet(first, version=before)
        for node in others:
            cluster.upgrade_node(node, after)
        cluster.upgrade_kubelets(after)
        restarted = time.monotonic()
        cluster.wait_mirror_pods(first)
        cluster.apply(*scene.gpu_plugin("v0.3.0"))
        scene.publish_gpus(cluster, dict.fromkeys(("gpu-1", "gpu-2", "gpu-3"), "1.3.0"))
        # The owners' Pods are made again, as after a drain; too-big is not.
        with scene.closed(cluster, "gpu-1"):
            cluster.kubectl("delete", "pods", "--all", "-n", "ml", "--grace-period=1")
            scene.wait_running(cluster, "ml", {"train": 2, "legacy-infer": 2})
        scene.wait_running(cluster, "ml", {"train": 3, "legacy-infer": 2})
        # What a check gives time for has had it, except the claim of the Pod that is made last.
        time.sleep(max(0, restarted + GIVEN - time.monotonic()))
        with scene.closed(cluster, "gpu-2"):
            cluster.apply(scene.net_app())
            dra.running(cluster.api, "ml", "net-app")
        scene.wait_settled(cluster)
        capture(cluster, output / "after")
        anonymise(output, words)


def ask_only(cluster: Cluster, node: str) -> None:
    """Have a node's mirror Pods ask for its new manifests with nothing reported of them: its kubelet has just created them."""
    own = Api(cluster.node_dir(node) / "etc" / "kubernetes" / "kubelet.conf")
    pods = "/api/v1/namespaces/kube-system/pods"
    for component in CONTROL_PLANE:
        path = f"{pods}/{component}-{node}"
        kept = cluster.api.get(path)["metadata"]
        cluster.kubectl(
            "delete", "pod", "-n", "kube-system", f"{component}-{node}", "--force", "--grace-period=0"
        )
        manifest = cluster.manifest(node, component)
        digest = hashlib.md5(json.dumps(manifest).encode(), usedforsecurity=False).hexdigest()
        marks = {
            "kubernetes.io/config.hash": digest,
            "kubernetes.io/config.mirror": digest,
            "kubernetes.io/config.seen": kept["annotations"]["kubernetes.io/config.seen"],
            "kubernetes.io/config.source": "file",
        }
        manifest["metadata"] = {
            **manifest["metadata"],
            "name": f"{component}-{node}",
            "annotations": {**manifest["metadata"].get("annotations", {}), **marks},
            "ownerReferences": kept["ownerReferences"],
        }
        manifest["spec"]["nodeName"] = node
        own.post(pods, manifest)


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
        f"secure-port {port}": "secure-port 6443",
        f"secure-port:{port}": "secure-port:6443",
        address: "192.0.2.2",
    }
