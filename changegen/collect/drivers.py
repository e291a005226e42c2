"""Which workload serves which DRA driver, and the version of its plugin: an inference, and called so.

Nothing in the API ties a driver's name to a workload. What is weighed, in this order: the name itself on a command
line or in a mounted folder (`/var/lib/kubelet/plugins/<driver>`), a project known to serve it, the kubelet's plugin
folders among the mounts, names, labels, images and containers, and whether the workload's Pods run on the nodes that
publish the driver's slices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from changegen.model.base import UNOBSERVABLE
from changegen.model.snapshot import ConfigFact, Driver, Pool, WorkloadRef
from changegen.versions import parse_image

__all__ = [
    "KNOWN",
    "Candidate",
    "Container",
    "KnownProject",
    "PodSeen",
    "link",
    "looks_like_driver",
    "plugin_version",
]


class KnownProject(msgspec.Struct, frozen=True, kw_only=True):
    """A public project that serves a driver: its image names over the years, and the container that is the plugin."""

    driver: str
    """Regular expression of the whole driver name."""
    image: str
    """Regular expression of the last part of the image's repository."""
    container: str = ""
    """Regular expression of the plugin's container where one Pod has several."""


KNOWN: Final = (
    KnownProject(
        driver=r"gpu\.nvidia\.com",
        image=r"dra-driver-nvidia-gpu|k8s-dra-driver(-gpu)?",
        container=r"gpus|plugin",
    ),
    KnownProject(
        driver=r"compute-domain\.nvidia\.com",
        image=r"dra-driver-nvidia-gpu|k8s-dra-driver(-gpu)?",
        container=r"compute-domains",
    ),
    KnownProject(driver=r"gpu\.intel\.com", image=r"intel-gpu-resource-driver"),
    KnownProject(driver=r"gaudi\.intel\.com", image=r"intel-gaudi-resource-driver"),
    KnownProject(driver=r"qat\.intel\.com", image=r"intel-qat-resource-driver"),
    KnownProject(driver=r"gpu\.amd\.com", image=r"k8s-gpu-dra-driver"),
    KnownProject(driver=r"dra\.net", image=r"dranet"),
    KnownProject(driver=r"dra\.cpu", image=r"dra-?driver-?cpu|dracpu"),
    KnownProject(driver=r"dra\.memory", image=r"dramem(ory)?|dra-driver-memory"),
    KnownProject(driver=r"sriovnetwork\.k8snetworkplumbingwg\.io", image=r"dra-driver-sriov"),
    KnownProject(driver=r"tpu\.google\.com", image=r"dra-driver-google-tpu"),
    KnownProject(driver=r"npu\.furiosa\.ai", image=r"furiosa-dra-driver"),
    KnownProject(driver=r"[a-z0-9-]+\.example\.com", image=r"dra-example-driver"),
)
"""Read in the projects' charts and manifests."""

_GENERIC: Final = frozenset(
    [
        "com",
        "io",
        "org",
        "net",
        "dev",
        "ai",
        "cn",
        "example-com",
        "dra",
        "driver",
        "drivers",
        "resource",
        "resources",
        "plugin",
        "kubelet",
        "kubeletplugin",
        "k8s",
        "x",
        "kubernetes",
        "sigs",
        "node",
        "daemonset",
        "system",
        "kube",
        "the",
        "of",
        "app",
        "registry",
        "public",
        "stable",
        "www",
    ]
)
_DRA_WORDS: Final = re.compile(
    r"(^|[^a-z])dra([^a-z]|$)|dra-?driver|kubelet-?plugin|resource-driver", re.IGNORECASE
)
_DRIVER_WORD: Final = re.compile(r"(^|[^a-z])drivers?([^a-z]|$)", re.IGNORECASE)
_NOT_DRA: Final = re.compile(
    r"device-?plugin|feature-discovery|exporter|(^|[^a-z])csi([^a-z]|$)|(^|[^a-z])cni([^a-z]|$)|container-toolkit|mig-manager|driver-daemonset"
    r"|validator|node-problem|(^|[^a-z])dcgm|monitor|fluent|kube-proxy|cloud-controller|autoscaler|webhook|scheduler",
    re.IGNORECASE,
)
_SIDECAR: Final = re.compile(
    r"registrar|liveness|rbac-proxy|log-?(collector|tail|forward)|healthz?$|metrics-?proxy|agent$|exporter|sidecar|init|cleanup",
    re.IGNORECASE,
)
_PLUGIN_FOLDER: Final = re.compile(r"kubelet.*/plugins(_registry)?(?:/([^/]+))?/?$")
_NO_VERSION: Final = re.compile(
    r"^(latest|stable|main|master|edge|canary|nightly|devel?|snapshot|head|tip|current|production|prod|testing|test|release)([-_.].*)?$",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[a-z0-9]+")


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a template or Pod, without its environment's values."""

    name: str
    image: str
    argv: tuple[str, ...] = ()


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Pod of a candidate."""

    name: str
    node: str
    ready: bool
    images: dict[str, str]
    """container -> image of the Pod's spec."""
    running: dict[str, str]
    """container -> image that status reports for a running container."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that could serve a driver."""

    kind: str
    namespace: str
    name: str
    labels: dict[str, str] = {}
    template_labels: dict[str, str] = {}
    containers: tuple[Container, ...] = ()
    host_paths: tuple[str, ...] = ()
    service_account: str = ""
    desired: int | None = None
    ready: int | None = None
    pods: tuple[PodSeen, ...] | None = None
    """None: Pods were not read."""

    @property
    def ref(self) -> WorkloadRef:
        """The workload's identity."""
        return WorkloadRef(kind=self.kind, namespace=self.namespace, name=self.name)


class _Match(msgspec.Struct, frozen=True, kw_only=True):
    score: int
    certain: bool
    """The driver's own name was seen, or the project is known."""
    evidence: tuple[str, ...]


def plugin_folders(host_paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that are the kubelet's plugin folders, wherever its root folder is."""
    return tuple(path for path in host_paths if _PLUGIN_FOLDER.search(path))


def _text(candidate: Candidate) -> str:
    return " ".join((candidate.name, *(c.name for c in candidate.containers), *_repositories(candidate)))


def _repositories(candidate: Candidate) -> tuple[str, ...]:
    return tuple(parse_image(c.image).repository for c in candidate.containers if c.image)


def _last_part(repository: str) -> str:
    return repository.rsplit("/", 1)[-1]


def looks_like_driver(candidate: Candidate) -> bool:
    """Whether a workload is a DRA driver by its mounts or its name, whichever driver it serves."""
    if any(
        re.fullmatch(known.image, _last_part(repository))
        for known in KNOWN
        for repository in _repositories(candidate)
    ):
        return True
    if _NOT_DRA.search(_text(candidate)):
        return False
    if plugin_folders(candidate.host_paths):
        return True
    return candidate.kind == "DaemonSet" and bool(_DRA_WORDS.search(_text(candidate)))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _shared(driver: str, words: frozenset[str]) -> tuple[str, ...]:
    found = []
    for token in dict.fromkeys(re.split(r"[^a-z0-9]+", driver.lower())):
        if len(token) < 2 or token in _GENERIC:
            continue
        for word in words:
            near = min(len(token), len(word)) >= 4 and (
                word.startswith(token) or token.startswith(word) or word.endswith(token)
            )
            if word not in _GENERIC and (word == token or near):
                found.append(token)
                break
    return tuple(found)


def _match(driver: str, nodes: frozenset[str], candidate: Candidate) -> _Match | None:
    score = 0
    certain = False
    evidence: list[str] = []
    folders = plugin_folders(candidate.host_paths)
    known = [
        row
        for row in KNOWN
        if re.fullmatch(row.driver, driver)
        and any(re.fullmatch(row.image, _last_part(repository)) for repository in _repositories(candidate))
    ]
    other_known = not known and any(
        re.fullmatch(row.image, _last_part(repository))
        for row in KNOWN
        if not re.fullmatch(row.driver, driver)
        for repository in _repositories(candidate)
    )
    if known:
        score += 6
        certain = True
        evidence.append("image of a project known to serve it")
    if any(path.rstrip("/").endswith("/" + driver) for path in folders):
        score += 8
        certain = True
        evidence.append("mounts the plugin folder of this name")
    argv = [word for container in candidate.containers for word in container.argv]
    if any(re.search(rf"(^|[=\s\"'/]){re.escape(driver)}($|[\s\"',/])", word) for word in argv):
        score += 8
        certain = True
        evidence.append("its command line names the driver")
    not_dra = bool(_NOT_DRA.search(_text(candidate)))
    if not_dra and not certain:
        return None
    haystack = " ".join(
        (
            candidate.name,
            candidate.namespace,
            *(c.name for c in candidate.containers),
            *_repositories(candidate),
            *candidate.labels.values(),
            *candidate.template_labels.values(),
        )
    )
    words = _words(haystack)
    compact = re.sub(r"[^a-z0-9]", "", driver.lower())
    names = (
        candidate.name,
        *(c.name for c in candidate.containers),
        *map(_last_part, _repositories(candidate)),
    )
    whole = any(compact in re.sub(r"[^a-z0-9]", "", name.lower()) for name in names)
    if whole:
        score += 5
        evidence.append("its name is the driver's")
    shared = _shared(driver, words)
    if shared:
        score += 2 * min(len(shared), 3)
        evidence.append(f"names share {', '.join(shared)}")
    dra_like = bool(folders) or bool(_DRA_WORDS.search(_text(candidate)))
    if folders:
        score += 3
        evidence.append("mounts the kubelet's plugin folders")
    elif dra_like:
        score += 1
        evidence.append("named as a DRA driver")
    if candidate.kind != "DaemonSet":
        score -= 2
    if candidate.pods is not None and candidate.pods and nodes:
        on = {pod.node for pod in candidate.pods}
        if nodes <= on:
            score += 3
            evidence.append("its Pods run on every node that publishes slices")
        elif nodes & on:
            score += 1
            evidence.append("its Pods run on some of the nodes that publish slices")
        else:
            score -= 3
    if other_known and not (whole or certain):
        score -= 6
    weak = bool(_DRIVER_WORD.search(candidate.name)) and len(shared) >= 2
    if not (certain or (dra_like and (whole or shared)) or weak):
        return None
    return _Match(score=score, certain=certain, evidence=tuple(evidence)) if score > 0 else None


def _plugin_container(driver: str, candidate: Candidate) -> Container | None:
    if not candidate.containers:
        return None
    known = [row for row in KNOWN if row.container and re.fullmatch(row.driver, driver)]

    def weight(container: Container) -> tuple[int, int]:
        points = 0
        last = _last_part(parse_image(container.image).repository) if container.image else ""
        if any(re.fullmatch(row.container, container.name) for row in known):
            points += 8
        if any(driver in word for word in container.argv):
            points += 8
        if any(re.fullmatch(row.driver, driver) and re.fullmatch(row.image, last) for row in KNOWN):
            points += 6
        for label in ("app.kubernetes.io/name", "app", "k8s-app"):
            app = candidate.labels.get(label) or candidate.template_labels.get(label)
            if app and last == app:
                points += 4
        if last and (last in candidate.name or candidate.name in last):
            points += 3
        if _DRA_WORDS.search(" ".join((container.name, last, *container.argv[:1]))):
            points += 2
        points += len(_shared(driver, _words(f"{container.name} {last}")))
        if _SIDECAR.search(container.name):
            points -= 6
        return points, -candidate.containers.index(container)

    return max(candidate.containers, key=weight)


def plugin_version(image: str) -> str:
    """The tag as written, or `unobservable`: for a digest, no tag, and names that move (`latest`, `stable`)."""
    if not image:
        return UNOBSERVABLE
    tag = parse_image(image).tag
    if not tag or _NO_VERSION.match(tag) or not any(ch.isdigit() for ch in tag):
        return UNOBSERVABLE
    return tag


def _why_unobservable(image: str) -> str:
    if not image:
        return "no container is known"
    ref = parse_image(image)
    if not ref.tag:
        return "image by digest" if ref.digest else "image without a tag"
    return f"image tag {ref.tag} is no version"


def _config_facts(container: Container | None) -> tuple[ConfigFact, ...]:
    if container is None:
        return ()
    names = []
    for word in container.argv:
        match = re.match(r"^--?([A-Za-z][A-Za-z0-9_.-]*)(?:=.*)?$", word, re.DOTALL)
        if match:
            names.append(match[1].replace("_", "-"))
    return tuple(ConfigFact(name=name) for name in dict.fromkeys(names))


def link(names: Sequence[str], pools: Sequence[Pool], candidates: Sequence[Candidate]) -> tuple[Driver, ...]:
    """Make the driver table: every name with the workload that is thought to serve it.

    Args:
        names: Names of drivers from slices, device classes, claims.
        pools: Pools of all drivers.
        candidates: Workloads that may serve one.
    """
    nodes_of: dict[str, frozenset[str]] = {}
    for name in names:
        nodes_of[name] = frozenset(
            node
            for pool in pools
            if pool.driver == name
            for node in (*(s.node for s in pool.slices if s.counted), *(d.node for d in pool.devices))
            if node
        )
    matches: dict[str, list[tuple[_Match, Candidate]]] = {}
    for name in names:
        found = [(m, c) for c in candidates if (m := _match(name, nodes_of[name], c)) is not None]
        found.sort(
            key=lambda pair: (-pair[0].score, pair[1].kind != "DaemonSet", pair[1].namespace, pair[1].name)
        )
        matches[name] = found
    _eliminate(names, nodes_of, candidates, matches)
    return tuple(_driver(name, pools, nodes_of[name], matches[name]) for name in sorted(names))


def _eliminate(
    names: Sequence[str],
    nodes_of: dict[str, frozenset[str]],
    candidates: Sequence[Candidate],
    matches: dict[str, list[tuple[_Match, Candidate]]],
) -> None:
    """Give one driver without a workload the one driver-like DaemonSet that is left and runs where its slices are."""
    taken = {(c.namespace, c.name) for found in matches.values() for _, c in found[:1]}
    left = [c for c in candidates if looks_like_driver(c) and (c.namespace, c.name) not in taken]
    homeless = [name for name in names if not matches[name] and nodes_of[name]]
    for name in homeless:
        fit = [c for c in left if c.pods and nodes_of[name] <= {pod.node for pod in c.pods}]
        rivals = [
            other
            for other in homeless
            if other != name and len(fit) == 1 and nodes_of[other] <= {pod.node for pod in fit[0].pods or ()}
        ]
        if len(fit) == 1 and not rivals:
            evidence = (
                "the only driver-like workload left whose Pods run on every node that publishes slices",
            )
            matches[name] = [(_Match(score=1, certain=False, evidence=evidence), fit[0])]


def _driver(
    name: str, pools: Sequence[Pool], nodes: frozenset[str], found: list[tuple[_Match, Candidate]]
) -> Driver:
    devices = [device for pool in pools if pool.driver == name for device in pool.devices]
    versions: Counter[str] = Counter()
    for device in devices:
        attribute = device.attributes.get(f"{name}/driverVersion")
        if attribute is None:
            attribute = next(
                (
                    a
                    for key, a in sorted(device.attributes.items())
                    if key.rpartition("/")[2] == "driverVersion"
                ),
                None,
            )
        if attribute is not None and attribute.value is not None:
            versions[str(attribute.value)] += 1
    facts: dict[str, int] = dict(sorted(versions.items()))
    if not found:
        return Driver(
            driver=name,
            version=UNOBSERVABLE,
            version_source="no workload was found that serves it",
            nodes=tuple(sorted(nodes)),
            devices=len(devices),
            device_driver_versions=facts,
        )
    match, candidate = found[0]
    container = _plugin_container(name, candidate)
    image = container.image if container is not None else ""
    version = plugin_version(image)
    label = "app.kubernetes.io/version"
    labels_version = candidate.labels.get(label) or candidate.template_labels.get(label) or ""
    chart = candidate.labels.get("helm.sh/chart") or candidate.template_labels.get("helm.sh/chart") or ""
    where = f"{candidate.kind} {candidate.namespace}/{candidate.name}"
    container_name = container.name if container is not None else ""
    source = (
        f"image tag of {where}, container {container_name}"
        if version != UNOBSERVABLE
        else f"{_why_unobservable(image)} ({where})"
    )
    running: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for pod in candidate.pods or ():
        if container_name in pod.running:
            told = plugin_version(pod.running[container_name])
            if told != UNOBSERVABLE:
                running[told] += 1
            elif "@" in pod.running[container_name] or pod.running[container_name].startswith("sha256:"):
                asked = plugin_version(pod.images.get(container_name, ""))
                if asked != UNOBSERVABLE and parse_image(pod.images[container_name]).digest:
                    running[asked] += 1
        tag = plugin_version(pod.images.get(container_name, image))
        if tag != version:
            others[tag] += 1
    for second_match, second in found[1:]:
        if not (second_match.certain or second_match.score >= match.score - 1):
            continue
        if second.kind != "DaemonSet" and candidate.kind == "DaemonSet":
            continue
        other = _plugin_container(name, second)
        tag = plugin_version(other.image if other is not None else "")
        others[tag] += len(second.pods or ()) or (second.desired or 0)
    on = None if candidate.pods is None else tuple(sorted({pod.node for pod in candidate.pods if pod.node}))
    ready = (
        None
        if candidate.pods is None
        else tuple(sorted({p.node for p in candidate.pods if p.node and p.ready}))
    )
    return Driver(
        driver=name,
        version=version,
        version_source=source,
        workload=candidate.ref,
        container=container_name,
        image=image,
        workload_evidence=match.evidence,
        labels_version=labels_version,
        chart=chart,
        running_versions=dict(sorted(running.items())),
        nodes=tuple(sorted(nodes)),
        pod_nodes=on,
        ready_nodes=ready,
        desired=candidate.desired,
        ready=candidate.ready,
        devices=len(devices),
        device_driver_versions=facts,
        other_versions=dict(sorted(others.items())),
        args=_config_facts(container),
        service_account=candidate.service_account,
    )
