"""Which distribution a cluster is, by the marks that a capture shows, and what that means for what can be seen.

Every mark is an observation with a place; none looks at a Pod's or host's name. What leaves no mark (Kubespray, whose clusters
look like kubeadm's) is not guessed. The most specific mark wins; what ties with it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from changegen.collect.inventory import Inventory
from changegen.collect.wire import ConfigMap, Custom, Node, Pod
from changegen.i18n import tr
from changegen.model.snapshot import DistributionEvidence

__all__ = ["KNOWLEDGE", "METRICS", "Detected", "Knowledge", "detect", "hosted_by"]


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a distribution: where its facts are, and what no source in the API says."""

    title: str
    control_plane: str
    """Where versions of apiserver, scheduler and controller-manager come from."""
    gates: str
    """Where their gates come from."""
    kubelet_gates: str
    unseen: str
    """What cannot be seen from the API."""
    remedy: str
    """What the owner could do to make it seen, beside kube-apiserver's metrics and configz; empty for nothing."""
    managed: bool = False
    hides_control_plane: bool = False
    """True: no control-plane Pods in the API of the cluster itself."""
    built_in_gates: bool = False
    """True: the distribution sets gates of its own that no source in the API names."""


METRICS: Final = "kubectl get --raw /metrics"
"""Shows kubernetes_feature_enabled and kubernetes_build_info of the kube-apiserver that answers."""
_CONFIGZ: Final = "kubelet-config, or configz with the right nodes/proxy"

KNOWLEDGE: Final[dict[str, Knowledge]] = {
    "kubeadm": Knowledge(
        title="kubeadm",
        control_plane="image tags of the mirror Pods in kube-system",
        gates="command of the mirror Pods; kubeadm-config is what the next kubeadm run writes",
        kubelet_gates="ConfigMap kubelet-config (what nodes got when they joined), configz",
        unseen="flags in kubeadm-flags.env and drop-in files of a node",
        remedy="read configz (--configz), or /var/lib/kubelet on the node",
    ),
    "kind": Knowledge(
        title="kind",
        control_plane="as kubeadm",
        gates="as kubeadm",
        kubelet_gates="ConfigMap kubelet-config, configz",
        unseen="imageID is of a side-loaded image and names no version",
        remedy="read configz (--configz)",
    ),
    "minikube": Knowledge(
        title="minikube",
        control_plane="as kubeadm",
        gates="as kubeadm",
        kubelet_gates="ConfigMap kubelet-config, configz",
        unseen="label minikube.k8s.io/version is minikube's own version",
        remedy="read configz (--configz)",
    ),
    "cluster-api": Knowledge(
        title="Cluster API",
        control_plane="as its bootstrap provider, mostly kubeadm",
        gates="as its bootstrap provider; KubeadmControlPlane on the management cluster is what is desired",
        kubelet_gates=_CONFIGZ,
        unseen="the objects of the management cluster, unless they are in the capture",
        remedy="kubectl get kubeadmcontrolplanes,machines -A -o yaml on the management cluster",
    ),
    "kubespray": Knowledge(
        title="Kubespray",
        control_plane="as kubeadm, and reported as kubeadm: it leaves no mark of its own",
        gates="as kubeadm",
        kubelet_gates="ConfigMap kubelet-config, configz",
        unseen="its inventory, which writes the same settings again",
        remedy="look into kube_feature_gates and the lists by component in the inventory",
    ),
    "k3s": Knowledge(
        title="k3s",
        control_plane="/version and kubeletVersion of server nodes: one program holds all components",
        gates="annotation k3s.io/node-args of server nodes: only what the user gave",
        kubelet_gates="annotation k3s.io/node-args, configz",
        unseen="gates that k3s adds itself; there are no control-plane Pods",
        remedy="on a server: k3s logs the arguments of all components when it starts",
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "rke2": Knowledge(
        title="RKE2",
        control_plane="image tags of the static Pods in kube-system",
        gates="args of the static Pods",
        kubelet_gates="annotation rke2.io/node-args, configz",
        unseen="etcd's settings: they are in a file of the host",
        remedy="read configz (--configz); on the host: /etc/rancher/rke2/config.yaml",
        built_in_gates=True,
    ),
    "rke1": Knowledge(
        title="RKE1",
        control_plane="/version for kube-apiserver; all components are plain Docker containers",
        gates="nowhere in the API",
        kubelet_gates="configz",
        unseen="scheduler, controller-manager, etcd, kube-proxy: no Pods show them",
        remedy="docker inspect on the nodes, or cluster.yml; full-cluster-state holds private keys and is never read",
        hides_control_plane=True,
    ),
    "k0s": Knowledge(
        title="k0s",
        control_plane="/version for kube-apiserver; all components are processes of hosts that are no Nodes",
        gates="ClusterConfig spec.featureGates, with dynamic configuration only",
        kubelet_gates="ConfigMap worker-config-PROFILE-MINOR, configz",
        unseen="scheduler, controller-manager, etcd",
        remedy="on a controller: k0s config create and the arguments of k0s",
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "microk8s": Knowledge(
        title="MicroK8s",
        control_plane="/version for kube-apiserver; one process kubelite of a snap holds all components",
        gates="nowhere in the API: files of the host",
        kubelet_gates="configz",
        unseen="scheduler, controller-manager; gates that the snap sets itself",
        remedy="microk8s inspect collects the args files",
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "openshift": Knowledge(
        title="OpenShift",
        control_plane="/version for kube-apiserver where its images are one digest; others by release only",
        gates="apiserver: ConfigMap config-REVISION; scheduler: args; controller-manager: shell string",
        kubelet_gates="configz; the MachineConfig that the node is on, in a capture",
        unseen="Kubernetes version of scheduler and controller-manager: images are digests",
        remedy="oc adm release info names the Kubernetes version of a release; kubectl get machineconfigs -o yaml shows the kubelets' gates, and holds a pull secret",
    ),
    "hypershift": Knowledge(
        title="HyperShift (hosted OpenShift)",
        control_plane="on the management cluster: Deployments by namespace; from the guest: /version only",
        gates="ConfigMap kas-config; scheduler and controller-manager by args",
        kubelet_gates="configz",
        unseen="from the guest there are no control-plane Pods",
        remedy="read the management cluster",
        managed=True,
        hides_control_plane=True,
    ),
    "talos": Knowledge(
        title="Talos",
        control_plane="image tags of the mirror Pods in kube-system",
        gates="command of the mirror Pods",
        kubelet_gates="configz; the machine configuration is not in the API",
        unseen="machine.kubelet settings",
        remedy="read configz (--configz), or the machine configuration with talosctl",
    ),
    "kops": Knowledge(
        title="kOps",
        control_plane="image tags of the mirror Pods in kube-system",
        gates="args behind go-runner",
        kubelet_gates="configz; a file of the node",
        unseen="etcd-manager chooses etcd's version at run time",
        remedy="read configz (--configz); kops get cluster -o yaml",
    ),
    "eks": Knowledge(
        title="Amazon EKS",
        control_plane="/version for kube-apiserver only",
        gates="nowhere but in the metrics of kube-apiserver",
        kubelet_gates="configz",
        unseen="scheduler, controller-manager, etcd: they are the provider's",
        remedy="",
        managed=True,
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "gke": Knowledge(
        title="Google GKE",
        control_plane="/version for kube-apiserver only",
        gates="nowhere but in the metrics of kube-apiserver, where permitted",
        kubelet_gates="configz",
        unseen="scheduler, controller-manager, etcd: they are the provider's",
        remedy="",
        managed=True,
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "aks": Knowledge(
        title="Azure AKS",
        control_plane="/version for kube-apiserver only",
        gates="nowhere but in the metrics of kube-apiserver, where permitted",
        kubelet_gates="configz",
        unseen="scheduler, controller-manager, etcd: they are the provider's",
        remedy="",
        managed=True,
        hides_control_plane=True,
        built_in_gates=True,
    ),
    "kamaji": Knowledge(
        title="Kamaji",
        control_plane="on the management cluster: one Pod for each tenant's three components; from the tenant: /version only",
        gates="args of that Pod",
        kubelet_gates="as kubeadm",
        unseen="from the tenant there are no control-plane Pods",
        remedy="read the management cluster",
        hides_control_plane=True,
    ),
    "vcluster": Knowledge(
        title="vcluster",
        control_plane="on the host cluster: tag of the image with the Kubernetes binaries; inside: /version only",
        gates="nowhere: they are in a Secret, which is never read; on the command line of releases that run k3s in a container of its own",
        kubelet_gates="its nodes are the host's",
        unseen="all flags; inside it, nodes and kubelets are the host cluster's",
        remedy="",
        hides_control_plane=True,
    ),
    "k0smotron": Knowledge(
        title="k0smotron (hosted k0s)",
        control_plane="on the management cluster: tag of the k0s image; from the hosted cluster: /version only",
        gates="nowhere: they are in the k0s configuration of a ConfigMap, which is not read",
        kubelet_gates="configz",
        unseen="all flags; from the hosted cluster there are no control-plane Pods",
        remedy="kubectl get clusters.k0smotron.io -A -o yaml on the management cluster shows spec.k0sConfig",
        hides_control_plane=True,
    ),
    "gardener": Knowledge(
        title="Gardener",
        control_plane="on the seed: Deployments in the namespace of the shoot; from the shoot: /version only",
        gates="args and command of those Pods; Shoot.spec.kubernetes is what is intended",
        kubelet_gates="configz; Shoot.spec.kubernetes.kubelet",
        unseen="from the shoot there are no control-plane Pods",
        remedy="read the Shoot in the garden cluster",
        managed=True,
        hides_control_plane=True,
    ),
    "kubermatic": Knowledge(
        title="Kubermatic",
        control_plane="on the seed: Deployments in namespace cluster-ID; from the user cluster: /version only",
        gates="the command is JSON in an argument of http-prober",
        kubelet_gates="configz",
        unseen="from the user cluster there are no control-plane Pods",
        remedy="read the seed",
        managed=True,
        hides_control_plane=True,
    ),
    "unknown": Knowledge(
        title="unknown",
        control_plane="Pods that run the components, else /version for kube-apiserver",
        gates="command lines of those Pods",
        kubelet_gates=_CONFIGZ,
        unseen="what no Pod shows",
        remedy="kubectl get pods,daemonsets -n kube-system -o json",
    ),
}
"""What is seen of each distribution, from where, and what is not. docs/distributions.md is made of it."""


class Detected(msgspec.Struct, frozen=True, kw_only=True):
    """The answer with its evidence."""

    distribution: str
    version: str = ""
    evidence: tuple[DistributionEvidence, ...] = ()
    ties: tuple[str, ...] = ()
    managed: bool = False
    cluster_name: str = ""
    """Where a mark holds the cluster's name (Cluster API)."""

    @property
    def knowledge(self) -> Knowledge:
        """What is known of it."""
        return KNOWLEDGE[self.distribution]


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A mark on Nodes: a label, an annotation, or a pattern of a field. Exactly one of the first five is set."""

    distribution: str
    strength: int
    label: str = ""
    """Exact, or a prefix where it ends in ``/``."""
    annotation: str = ""
    kubelet: str = ""
    os_image: str = ""
    provider: str = ""
    value: str = ""
    """Regular expression of the label's value."""


_NODE_MARKS: Final = (
    _Mark(distribution="kubeadm", strength=20, annotation="kubeadm.alpha.kubernetes.io/cri-socket"),
    _Mark(distribution="kind", strength=30, provider=r"kind://.*"),
    _Mark(distribution="minikube", strength=30, label="minikube.k8s.io/"),
    _Mark(distribution="k3s", strength=30, kubelet=r".*\+k3s\d+"),
    _Mark(distribution="k3s", strength=30, annotation="k3s.io/node-args"),
    _Mark(distribution="k3s", strength=30, label="node.kubernetes.io/instance-type", value="k3s"),
    _Mark(distribution="rke2", strength=31, kubelet=r".*\+rke2r\d+"),
    _Mark(distribution="rke2", strength=31, annotation="rke2.io/node-args"),
    _Mark(distribution="rke2", strength=31, label="node.kubernetes.io/instance-type", value="rke2"),
    _Mark(distribution="rke1", strength=30, annotation="rke.cattle.io/internal-ip"),
    _Mark(distribution="rke1", strength=10, label="node-role.kubernetes.io/controlplane"),
    _Mark(distribution="k0s", strength=30, kubelet=r".*\+k0s.*"),
    _Mark(distribution="k0s", strength=30, label="node.k0sproject.io/role"),
    _Mark(distribution="microk8s", strength=30, label="microk8s.io/cluster"),
    _Mark(distribution="openshift", strength=30, label="node.openshift.io/os_id"),
    _Mark(distribution="openshift", strength=30, os_image=r"Red Hat Enterprise Linux CoreOS .*"),
    _Mark(distribution="hypershift", strength=31, label="hypershift.openshift.io/nodePool"),
    _Mark(distribution="talos", strength=30, os_image=r"Talos \(.*\)"),
    _Mark(distribution="kops", strength=30, label="kops.k8s.io/"),
    _Mark(distribution="eks", strength=30, label="eks.amazonaws.com/"),
    _Mark(distribution="eks", strength=25, kubelet=r".*-eks-.*"),
    _Mark(distribution="gke", strength=30, label="cloud.google.com/gke-nodepool"),
    _Mark(distribution="gke", strength=25, kubelet=r".*-gke\.\d+"),
    _Mark(distribution="aks", strength=30, label="kubernetes.azure.com/cluster"),
    _Mark(distribution="cluster-api", strength=25, annotation="cluster.x-k8s.io/cluster-name"),
    _Mark(distribution="cluster-api", strength=25, annotation="cluster.x-k8s.io/machine"),
    _Mark(distribution="gardener", strength=30, label="worker.gardener.cloud/pool"),
    _Mark(distribution="vcluster", strength=30, label="vcluster.loft.sh/fake-node"),
    _Mark(distribution="kubermatic", strength=30, label="machine.kubermatic.io/"),
)
_SERVER_MARKS: Final = (
    ("k3s", 30, re.compile(r".*\+k3s\d+")),
    ("rke2", 31, re.compile(r".*\+rke2r\d+")),
    ("k0s", 30, re.compile(r".*\+k0s.*")),
    ("eks", 25, re.compile(r".*-eks-.*")),
    ("gke", 25, re.compile(r".*-gke\.\d+")),
)
_PROVIDERS_OWN: Final = frozenset({"eks", "gke", "aks"})
_BESIDE_OWN_PODS: Final = 12
"""Strength of a provider's mark where the control plane runs as Pods: a build of its release, not its service."""
_CLUSTER_API_NAME: Final = "cluster.x-k8s.io/cluster-name"
_TALOS: Final = re.compile(r"Talos \((v[^)]+)\)")


def hosted_by(pod: Pod, namespace: str) -> str:
    """``SYSTEM:OWNER`` of a Pod that is part of another cluster's control plane; empty for all other Pods."""
    labels = pod.metadata.labels or {}
    if labels.get("kamaji.clastix.io/name"):
        return f"kamaji:{namespace}/{labels['kamaji.clastix.io/name']}"
    if labels.get("hypershift.openshift.io/hosted-control-plane"):
        return f"hypershift:{namespace}"
    if labels.get("app") == "vcluster" and labels.get("release"):
        return f"vcluster:{namespace}/{labels['release']}"
    if labels.get("app") == "k0smotron" and labels.get("cluster"):
        return f"k0smotron:{namespace}/{labels['cluster']}"
    if labels.get("gardener.cloud/role") == "controlplane" or (
        namespace.startswith("shoot--") and labels.get("app") == "kubernetes" and labels.get("role")
    ):
        return f"gardener:{namespace}"
    cluster = labels.get("cluster", "")
    if cluster and namespace == f"cluster-{cluster}":
        return f"kubermatic:{namespace}"
    return ""


def detect(
    inventory: Inventory,
    *,
    server_version: str | None,
    own_pods: Sequence[Pod],
    hosted: Iterable[str],
) -> Detected:
    """The distribution of the cluster that is read.

    Args:
        inventory: Nodes, ConfigMaps and custom resources of the input.
        server_version: gitVersion of /version.
        own_pods: Pods of this cluster's own control plane.
        hosted: owners of other control planes that run here, as :func:`hosted_by` names them.
    """
    found: dict[tuple[str, str], DistributionEvidence] = {}
    nodes = [located.obj for located in inventory.all("nodes", Node)]

    def add(distribution: str, evidence: str, place: str, strength: int) -> None:
        if distribution in _PROVIDERS_OWN and own_pods:
            strength = min(strength, _BESIDE_OWN_PODS)
        found.setdefault(
            (distribution, evidence),
            DistributionEvidence(
                distribution=distribution, evidence=evidence, place=place, strength=strength
            ),
        )

    for mark in _NODE_MARKS:
        what, count = _marked(mark, nodes)
        if count:
            add(
                mark.distribution,
                tr("{what}: Nodes {n} of {all}", what=what, n=count, all=len(nodes)),
                "nodes",
                mark.strength,
            )
    for distribution, strength, pattern in _SERVER_MARKS:
        if server_version and pattern.fullmatch(server_version):
            add(distribution, f"/version {server_version}", "/version", strength)
    _pod_marks(own_pods, add)
    _object_marks(inventory, add)
    has_own = bool(server_version or nodes or own_pods)
    for owner in sorted(set(hosted)):
        system = owner.partition(":")[0]
        if system in KNOWLEDGE:
            add(
                system,
                tr("hosts the control plane {owner}", owner=owner),
                "pods",
                0 if has_own else 5,
            )
    return _decide(
        sorted(found.values(), key=lambda item: (-item.strength, item.distribution, item.evidence)),
        inventory,
        nodes,
        own_pods=bool(own_pods),
    )


def _decide(
    evidence: list[DistributionEvidence], inventory: Inventory, nodes: list[Node], *, own_pods: bool
) -> Detected:
    telling = [item for item in evidence if item.strength > 0]
    if not telling:
        return Detected(distribution="unknown", evidence=tuple(evidence))
    top = telling[0].strength
    tied = sorted({item.distribution for item in telling if item.strength == top})
    distribution = min(tied, key=lambda name: (-sum(item.distribution == name for item in telling), name))
    knowledge = KNOWLEDGE[distribution]
    return Detected(
        distribution=distribution,
        version=_version(distribution, inventory, nodes),
        evidence=tuple(evidence),
        ties=tuple(tied) if len(tied) > 1 else (),
        managed=knowledge.managed and not own_pods,
        cluster_name=_shared((node.metadata.annotations or {}).get(_CLUSTER_API_NAME, "") for node in nodes),
    )


def _shared(values: Iterable[str]) -> str:
    """The one value that all have that have any."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else ""


def _marked(mark: _Mark, nodes: Iterable[Node]) -> tuple[str, int]:
    """What the mark is in words, and how many Nodes bear it."""
    count = 0
    if mark.label:
        for node in nodes:
            labels = node.metadata.labels or {}
            keys = (
                [key for key in labels if key.startswith(mark.label)]
                if mark.label.endswith("/")
                else [mark.label]
            )
            count += any(
                key in labels and (not mark.value or re.fullmatch(mark.value, labels[key])) for key in keys
            )
        shown = f"label {mark.label}" + ("*" if mark.label.endswith("/") else "")
        return (f"{shown}={mark.value}" if mark.value else shown), count
    if mark.annotation:
        return f"annotation {mark.annotation}", sum(
            mark.annotation in (node.metadata.annotations or {}) for node in nodes
        )
    texts: list[str] = []
    name, pattern = "", ""
    for node in nodes:
        info = node.status.node_info if node.status else None
        if mark.kubelet:
            name, pattern, text = "kubeletVersion", mark.kubelet, info.kubelet_version if info else ""
        elif mark.os_image:
            name, pattern, text = "osImage", mark.os_image, info.os_image if info else ""
        else:
            name, pattern, text = (
                "providerID",
                mark.provider,
                (node.spec.provider_id if node.spec else "") or "",
            )
        if re.fullmatch(pattern, text):
            texts.append(text)
    if not texts:
        return "", 0
    shown = texts[0].partition("://")[0] + "://" if name == "providerID" else texts[0]
    return f"{name} {shown}", len(texts)


def _pod_marks(pods: Sequence[Pod], add: Any) -> None:
    kubeadm = sum(
        any(key.startswith("kubeadm.kubernetes.io/") for key in pod.metadata.annotations or ())
        for pod in pods
    )
    if kubeadm:
        add(
            "kubeadm",
            tr("annotation {name}: Pods {n}", name="kubeadm.kubernetes.io/*", n=kubeadm),
            "pods",
            20,
        )
    talos = sum((pod.metadata.labels or {}).get("app.kubernetes.io/managed-by") == "Talos" for pod in pods)
    if talos:
        add(
            "talos",
            tr("label {name}: Pods {n}", name="app.kubernetes.io/managed-by=Talos", n=talos),
            "pods",
            30,
        )
    openshift = sum(pod.metadata.namespace.startswith("openshift-kube-") for pod in pods)
    if openshift:
        add("openshift", tr("namespaces {name}: Pods {n}", name="openshift-kube-*", n=openshift), "pods", 30)
    images = [container.image for pod in pods for container in pod.spec.containers or ()]
    rke2 = sum("-rke2r" in image for image in images)
    if rke2:
        add("rke2", tr("image tags with {text}: containers {n}", text="-rke2r", n=rke2), "pods", 31)


def _object_marks(inventory: Inventory, add: Any) -> None:
    for located in inventory.all("configmaps", ConfigMap):
        name = located.obj.metadata.name
        if located.namespace != "kube-system":
            continue
        if name == "kubeadm-config":
            add("kubeadm", "ConfigMap kube-system/kubeadm-config", located.place, 20)
        elif name.startswith("worker-config-") and "kubeletConfiguration" in (located.obj.data or {}):
            add("k0s", "ConfigMap kube-system/worker-config-*", located.place, 30)
    if inventory.has("clusterversions.config.openshift.io"):
        add("openshift", "ClusterVersion config.openshift.io", "clusterversions.config.openshift.io", 30)
    if inventory.has("clusterconfigs.k0s.k0sproject.io"):
        add("k0s", "ClusterConfig k0s.k0sproject.io", "clusterconfigs.k0s.k0sproject.io", 30)


def _version(distribution: str, inventory: Inventory, nodes: Iterable[Node]) -> str:
    """The distribution's own version, where it has one and all agree."""
    if distribution == "talos":
        images = (node.status.node_info.os_image for node in nodes if node.status and node.status.node_info)
        return _shared(match[1] for image in images if (match := _TALOS.fullmatch(image)))
    if distribution == "minikube":
        return _shared((node.metadata.labels or {}).get("minikube.k8s.io/version", "") for node in nodes)
    if distribution in {"openshift", "hypershift"}:
        for located in inventory.all("clusterversions.config.openshift.io", Custom):
            desired = (located.obj.status or {}).get("desired")
            if isinstance(desired, dict) and isinstance(desired.get("version"), str):
                return str(desired["version"])
    return ""
