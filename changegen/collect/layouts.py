"""What a file's path tells in the capture layouts of the field, and which files are no source at all.

Content decides first; these hints fill what content leaves open: the kind of an empty untyped list, the namespace of a
list, the node of a configz, the component behind a /metrics text. Layouts, as their writers make them:

* ``kubectl cluster-info dump``: ``nodes.json``, ``NAMESPACE/{pods,daemonsets,replication-controllers,…}.json``, ``NAMESPACE/POD/logs.txt``
* ``oc adm inspect`` and must-gather: ``cluster-scoped-resources/GROUP/RESOURCE[/NAME].yaml``,
  ``namespaces/NS/GROUP/RESOURCE.yaml``, ``namespaces/NS/pods/POD/POD.yaml``
* troubleshoot.sh: ``cluster-resources/RESOURCE/NS.json``, ``cluster-resources/RESOURCE-errors.json``
* sonobuoy: ``resources/cluster/GROUP_VERSION_RESOURCE.json``, ``resources/ns/NS/GROUP_VERSION_RESOURCE.json``,
  ``hosts/NODE/configz.json``
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from changegen.collect.documents import RESOURCES

COMPONENTS = (
    "kube-apiserver",
    "kube-scheduler",
    "kube-controller-manager",
    "cloud-controller-manager",
    "kube-proxy",
    "kubelet",
    "etcd",
)
_SHORT_COMPONENTS = {
    "apiserver": "kube-apiserver",
    "scheduler": "kube-scheduler",
    "controller-manager": "kube-controller-manager",
}

_NO_SOURCE = re.compile(
    r"""(?:^|/)(?:
        \.[^/]+(?:/.*)?                                      # hidden
      | (?:audit_logs|host_service_logs|pod_network_connectivity_check|__MACOSX)/.*
      | plugins/[^/]+/(?:results|sonobuoy_results|definition|errors).*
      | [^/]*\blogs?(?:\.txt|\.json)?
      | (?:timestamp|event-filter\.html)
      | [^/]+\.(?:log|pprof|html?|png|svg|gif|jpe?g|pdf|css|js|md|rst|sh|py|go|tmpl|xml|sqlite|db|core|so|exe|whl)
        (?:\.\d+|\.old|\.bak)?
    )$""",
    re.VERBOSE | re.IGNORECASE,
)
_CREDENTIALS = re.compile(
    r"""(?:^|/)(?:
        [^/]+\.(?:key|pem|crt|cer|p12|pfx|kubeconfig)
      | kubeconfig(?:\.ya?ml)?
      | secrets?\.(?:json|ya?ml)
      | [^/]*_secrets\.json
      | image-pull-secrets(?:/.*|-errors\.json)
      | (?:full-cluster-state|[^/]+\.rkestate)(?:\.json|\.ya?ml)?
    )$""",
    re.VERBOSE | re.IGNORECASE,
)
# A namespace may be called logs or secrets too: then its lists are read all the same.
_LOG_FOLDER = re.compile(r"(?:^|/)(?:pod)?logs?/", re.IGNORECASE)
_SECRET_FOLDER = re.compile(r"(?:^|/)secrets/", re.IGNORECASE)
_SUFFIX = re.compile(r"\.(?:json|ya?ml|txt|prom|metrics|out|raw)$", re.IGNORECASE)
_SONOBUOY = re.compile(r"^(?P<group>[a-z0-9.-]+)_(?P<version>v\d\w*)_(?P<resource>[a-z0-9]+)$")
_BY_SINGULAR = {kind.lower(): resource for resource, (_, kind, _) in RESOURCES.items()}


# must-gather's script asks for all of these, and for all Pods of a namespace that it inspects. Of other kinds (webhook
# configurations, CRDs) inspect writes what the objects it follows refer to: single objects, and no listing.
_WHOLE_FOLDERS = frozenset(
    {
        "pods",
        "nodes",
        "machineconfigs",
        "machineconfigpools",
        "featuregates",
        "kubeletconfigs",
        "clusterversions",
        "clusteroperators",
        "apiservices",
        "certificatesigningrequests",
    }
)


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What a path tells; empty where it tells nothing."""

    kind: str = ""
    group: str = ""
    api_version: str = ""
    """Only where the path holds it (sonobuoy)."""
    namespaced: bool = False
    namespace: str = ""
    """Said by the layout."""
    maybe_namespace: str = ""
    """The rest of a name such as ``configmaps-kube-system``; the items must agree."""
    node: str = ""
    component: str = ""
    errors: bool = False
    """A troubleshoot.sh file of read errors."""
    folder: str = ""
    """inspect: the folder whose files together are one listing; empty for kinds that it does not list."""

    @property
    def assumed_version(self) -> str:
        """Return the apiVersion for objects of ``kind`` that carry none, as older collectors wrote bare arrays.

        All groups that such captures hold have been v1 for years; resource.k8s.io has not, so its version stays open.
        """
        if self.api_version or not self.kind:
            return self.api_version
        if self.group == "resource.k8s.io":
            return f"{self.group}/"
        return f"{self.group}/v1" if self.group else "v1"


_PACKED = re.compile(r"\.(?:gz|gzip|xz|bz2|zst)$", re.IGNORECASE)
_PACKED_TAR = re.compile(r"\.(?:tgz|txz|tbz2?|tzst)$", re.IGNORECASE)


def unpacked_name(path: str) -> str:
    """Return the name of a packed file without its packing: ``pods.json`` of ``pods.json.gz``, ``a.tar`` of ``a.tgz``."""
    return _PACKED.sub("", _PACKED_TAR.sub(".tar", path))


def is_source(path: str) -> bool:
    """Return False for logs, pictures, hidden files and the like, which are not opened."""
    path = unpacked_name(path)
    if _NO_SOURCE.search(path) is not None:
        return False
    return _LOG_FOLDER.search(path) is None or _is_list_name(path)


def holds_credentials(path: str) -> bool:
    """Return True for Secrets, keys and kubeconfigs by name; they are not opened."""
    path = unpacked_name(path)
    if _CREDENTIALS.search(path) is not None:
        return True
    return _SECRET_FOLDER.search(path) is not None and not _is_list_name(path)


def _is_list_name(path: str) -> bool:
    stem = path.rpartition("/")[2].partition(".")[0].lower().replace("-", "")
    return stem in RESOURCES and stem != "secrets"


def layout_of(paths: Iterable[str]) -> str:
    """Return the word for a capture's layout by the paths in it."""
    paths = list(paths)
    marks = (
        ("support bundle", re.compile(r"(?:^|/)cluster-resources/")),
        ("sonobuoy", re.compile(r"(?:^|/)resources/(?:cluster|ns)/")),
        ("must-gather", re.compile(r"(?:^|/)(?:cluster-scoped-resources|namespaces/[^/]+/[^/]+)/")),
        ("cluster-info dump", re.compile(r"(?:^|/)[^/]+/replication-controllers\.(?:json|yaml)$")),
        ("cluster-info dump", re.compile(r"(?:^|/)kube-system/[^/]+/logs\.txt$")),
    )
    for word, mark in marks:
        if any(mark.search(path) for path in paths):
            return word
    return "kubectl"


_OWN_FOLDERS = frozenset(
    {
        "namespaces",
        "cluster-scoped-resources",
        "cluster-resources",
        "cluster-info",
        "resources",
        "hosts",
        "nodes",
        "configz",
        "kube-system",
    }
)


def wrapper_of(paths: Iterable[str]) -> str:
    """Return the folders around a capture (``bundle-2026/``), which its archive has and its folder has not.

    A folder that is the only one on its level wraps, unless it belongs to a layout.
    """
    common: list[str] | None = None
    for path in paths:
        if not is_source(path):
            continue
        folders = path.split("/")[:-1]
        if common is None:
            common = folders
        while common and folders[: len(common)] != common:
            common = common[:-1]
        if not common:
            return ""
    top: list[str] = []
    for folder in common or ():
        if folder in _OWN_FOLDERS:
            break
        top.append(folder)
    return "".join(f"{folder}/" for folder in top)


def dump_folders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that are a namespace of a ``kubectl cluster-info dump``.

    Such a folder holds lists, among them replicationcontrollers, or a folder of logs for each Pod.
    """
    lists: set[str] = set()
    marked: set[str] = set()
    for path in paths:
        folder, _, name = path.rpartition("/")
        if re.fullmatch(r"(?:pods|daemonsets)\.(?:json|yaml)", name):
            lists.add(folder)
        if re.fullmatch(r"replication-controllers\.(?:json|yaml)", name):
            marked.add(folder)
        elif name == "logs.txt":
            marked.add(folder.rpartition("/")[0])
    return frozenset((lists & marked) - {""})


def hints_of(path: str, dump: frozenset[str] = frozenset()) -> Hints:
    """Return what ``path`` (relative to the input, with ``/``) tells; ``dump`` as :func:`dump_folders` gives it."""
    parts = path.split("/")
    stem = unpacked_name(parts[-1])
    while _SUFFIX.search(stem):
        stem = _SUFFIX.sub("", stem)
    folder = "/".join(parts[:-1])
    node, component = _node_of(parts, stem), component_in(stem)
    errors = "cluster-resources" in parts and stem.endswith("-errors")
    name = stem.removesuffix("-errors") if errors else stem
    namespace = ""
    inspected = ""
    api_version = ""

    if "cluster-resources" in parts:
        at = parts.index("cluster-resources")
        if len(parts) == at + 3:  # cluster-resources/RESOURCE/NS.json
            name, namespace = parts[at + 1], name
    elif len(parts) >= 4 and parts[-3] == "ns" and parts[-4] == "resources":
        namespace = parts[-2]
    elif "cluster-scoped-resources" in parts:
        at = parts.index("cluster-scoped-resources")
        if len(parts) == at + 4:  # GROUP/RESOURCE/NAME.yaml
            name, inspected = parts[at + 2], folder
    elif "namespaces" in parts[:-2]:
        at = len(parts) - 1 - parts[::-1].index("namespaces")
        if len(parts) > at + 3:
            namespace = parts[at + 1]
            if len(parts) == at + 5 and parts[at + 2] == "pods":
                name, inspected = "pods", "/".join(parts[: at + 3])
            elif len(parts) == at + 5:
                name, inspected = parts[at + 3], folder
    elif folder in dump:
        namespace = parts[-2]

    sonobuoy = _SONOBUOY.match(name)
    if sonobuoy is not None:
        name = sonobuoy["resource"]
        group = "" if sonobuoy["group"] == "core" else sonobuoy["group"]
        api_version = f"{group}/{sonobuoy['version']}" if group else sonobuoy["version"]
    resource, rest = _resource_in(name)
    group, kind, namespaced = RESOURCES.get(resource, ("", "", False))
    return Hints(
        kind=kind,
        group=group,
        api_version=api_version,
        namespaced=namespaced,
        namespace=namespace,
        maybe_namespace="" if namespace else rest,
        node=node,
        component=component,
        errors=errors,
        folder=inspected if resource in _WHOLE_FOLDERS else "",
    )


def component_in(name: str) -> str:
    """Return the component that a file's name or an endpoint's header names, or nothing."""
    low = name.lower()
    for component in COMPONENTS:
        if component in low:
            return component
    for short, component in _SHORT_COMPONENTS.items():
        if re.search(rf"(?:^|[^a-z]){short}(?:$|[^a-z])", low):
            return component
    return ""


def _resource_in(name: str) -> tuple[str, str]:
    """Return (resource, rest): ``configmaps-kube-system`` is ``configmaps`` and ``kube-system``."""
    low = name.lower()
    for candidate in (low, low.replace("-", ""), low.replace("_", ""), low.split(".", 1)[0]):
        if candidate in RESOURCES:
            return candidate, ""
        if candidate in _BY_SINGULAR:
            return _BY_SINGULAR[candidate], ""
    for separator in ("-", "_", "."):
        head, _, rest = low.partition(separator)
        if head in RESOURCES:
            return head, rest
    return "", ""


def _node_of(parts: list[str], stem: str) -> str:
    """Return the node that a configz's path names: hosts/NODE/configz, configz/NODE, configz-NODE, NODE-configz."""
    if "configz" not in stem.lower():
        return stem if len(parts) > 1 and parts[-2].lower() == "configz" else ""
    rest = re.sub(r"(?:^|[-_.])(?:kubelet|configz|proxy|nodes?)(?=$|[-_.])", "", stem, flags=re.IGNORECASE)
    rest = rest.strip("-_.")
    if not rest:
        for above, name in pairwise(parts[:-1]):
            if above in {"hosts", "nodes"}:
                rest = name
    return rest
