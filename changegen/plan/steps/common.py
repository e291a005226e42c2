"""What several groups of steps need: commands, lists of names, packages, driver targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from changegen.assess.context import VersionWish
from changegen.i18n import tr, trn
from changegen.model.snapshot import Component, Driver
from changegen.model.ticket import Command
from changegen.plan.draft import StepDraft
from changegen.plan.scene import Drain, HopPlan, Scene
from changegen.shell import quoted, until
from changegen.versions import minor_of, parse_image

KUBECTL = "any machine with kubectl"
SSH = "the machine that keeps the backups"
MOST_SINGLE = 12
"""Up to so many nodes, a step says of each what its drain meets; above it, only nodes that meet the same share a step."""

MOST_NAMED = 6
"""Up to so many nodes are named where a command runs; more stand in the step's notes."""

KUBELET_SLICES_WAIT = 120
"""Seconds that a driver gets to publish again after its node's kubelet started: one time for steps and checks."""


def command(text: str, *, where: str = KUBECTL, write: bool = False) -> Command:
    """A command of a step; ``write`` where it changes the cluster or one of its nodes."""
    return Command(text=text, where=where, runs="write" if write else "read")


def names(items: Iterable[str], most: int = 6) -> str:
    """Names for a text, the first few and how many more."""
    listed = list(items)
    shown = ", ".join(listed[:most])
    return shown if len(listed) <= most else tr("{shown} and {n} more", shown=shown, n=len(listed) - most)


def in_turn(nodes: Sequence[str]) -> str:
    """Where a command runs that is the same for several nodes, one after the other."""
    if len(nodes) == 1:
        return nodes[0]
    if len(nodes) > MOST_NAMED:
        return tr("the node")
    return tr("{nodes}, one after another", nodes=", ".join(nodes))


def placed(commands: Iterable[Command], where: str) -> list[Command]:
    """Commands with a place for those that name none."""
    return [item if item.where else msgspec.structs.replace(item, where=where) for item in commands]


def met(drains: Iterable[Drain], what: Callable[[Drain], Iterable[str]]) -> list[str]:
    """What several drains meet of one kind, each once and sorted: ``met(drains, lambda drain: drain.budgets)``."""
    return sorted({name for drain in drains for name in what(drain)})


def gathered(parts: Sequence[tuple[str, Sequence[Command]]]) -> list[Command]:
    """Commands of several nodes: once, where each node has the same ones, else node by node.

    Args:
        parts: (node, its commands); a command of another place than the node stays where it is.
    """
    if len(parts) < 2:
        return [item for _, commands in parts for item in commands]
    forms = {
        tuple((item.text, item.where == node or item.where, item.runs) for item in commands)
        for node, commands in parts
    }
    if len(forms) > 1:
        return [item for _, commands in parts for item in commands]
    where = in_turn([node for node, _ in parts])
    node, commands = parts[0]
    return [msgspec.structs.replace(item, where=where) if item.where == node else item for item in commands]


READY_WAIT = 300
"""Seconds that an instance gets to come up from an edited manifest, before anybody looks why it does not."""


def started_anew(scene: Scene, item: Component, text: str, *, there: bool) -> list[Command]:
    """Wait until the instance runs with a changed command line, and says itself that it is ready.

    The mirror Pod tells the new instance from the old one, which answers until the kubelet has ended it; its readiness
    is asked at its own address, or where only the Pod is known, of the Pod.
    """
    namespace, _, pod = (item.instance or "").rpartition("/")
    if not pod:
        return []
    where = f"kubectl --request-timeout=5s -n {quoted(namespace)}"
    shown = f"{where} get pod {quoted(pod)} -o 'jsonpath={{.spec.containers[*].command}}'"
    seen = (
        f"{shown} | grep -qF {quoted(text)}"
        if there
        else f"{shown} | grep -F {quoted(item.component)} | grep -qvF {quoted(text)}"
    )
    url = scene.apiserver_urls.get(item.node or "") if item.component == "kube-apiserver" else None
    ready = (
        f"kubectl --request-timeout=5s --server={quoted(url)} get --raw /readyz"
        if url
        else f"{where} wait --for=condition=Ready {quoted(f'pod/{pod}')} --timeout=5s"
    )
    return [command(until(f"{seen} && {ready}", READY_WAIT))]


def unedited(scene: Scene, file: str) -> str:
    """Where a manifest is kept as it was before `edited`."""
    return f"{scene.backup}/{file.rpartition('/')[2].removesuffix('.yaml')}-before-edit.yaml"


def edited(scene: Scene, node: str, file: str, script: str, kept: str = "") -> list[Command]:
    """A static Pod's manifest edited: kept as it was, written beside, compared, put in place.

    Never in its folder: the kubelet reads whatever file lies there, also the one that ``sed -i`` makes for a moment.

    Args:
        scene: Names the folder of the backups.
        node: Where the file is.
        file: The manifest.
        script: Options for sed.
        kept: Where it is kept as it was; by default in `unedited`.
    """
    name = file.rpartition("/")[2].removesuffix(".yaml")
    kept, beside = kept or unedited(scene, file), f"{scene.backup}/{name}-edited.yaml"
    once = """sudo sh -c 'test -e "$2" || cp -a "$1" "$2"' -"""
    return [
        command(
            f"sudo install -d -m 0700 {quoted(scene.backup)} && {once} {quoted(file)} {quoted(kept)}",
            where=node,
            write=True,
        ),
        command(
            f"sudo sed {script} {quoted(file)} | sudo tee {quoted(beside)} > /dev/null",
            where=node,
            write=True,
        ),
        command(f"sudo diff {quoted(file)} {quoted(beside)} || true", where=node),
        command(f"sudo cp {quoted(beside)} {quoted(file)}", where=node, write=True),
    ]


def installer_note(scene: Scene) -> list[str]:
    """What the installer of K3s forgets."""
    if scene.distribution.name != "k3s":
        return []
    return [
        tr(
            "The installer writes the service anew: give it the arguments of the first installation too (INSTALL_K3S_EXEC), unless they all stand in /etc/rancher/k3s/config.yaml."
        )
    ]


def dedupe(commands: Iterable[Command]) -> list[Command]:
    """Commands without repetitions, in order."""
    return list(dict.fromkeys(commands))


def explain_variables(scene: Scene, steps: Sequence[StepDraft]) -> None:
    """Note each shell variable that people must set on the first step that uses it."""
    words: dict[str, Callable[[], str]] = {
        "cluster": lambda: tr("the cluster's name as the provider knows it"),
        "location": lambda: tr("its region or zone"),
        "resource group": lambda: tr("its resource group"),
        "add-on version": lambda: tr("the add-on's version for this minor, as the command before lists them"),
        "inventory": lambda: tr("the inventory file of the playbooks"),
        "release": lambda: tr(
            "the release of the distribution, which is not the Kubernetes version (target.distribution_version in the profile)"
        ),
        "file": lambda: tr("the binary's file"),
    }
    for name, what in scene.distribution.variables.items():
        step = next((step for step in steps if any(f"${name}" in item.text for item in step.commands)), None)
        if step is not None:
            meaning = words[what]() if what in words else what
            step.notes.append(tr("Set {name} first: {what}.", name=f"${name}", what=meaning))


def packages(scene: Scene, tool: str, hop: HopPlan, node: str) -> list[Command]:
    """Commands that bring a tool (``kubeadm``, ``kubelet``) to a node in the version of the hop, by its operating system's family."""
    families = scene.distribution.packages.get(tool, {})
    return list(scene.commands(families.get(scene.family(node), families.get("other", ())), hop, node))


def package_notes(scene: Scene, nodes: Sequence[str]) -> list[str]:
    """How packages come to these nodes, where the commands take something for granted."""
    if not scene.distribution.packages:
        return []
    families = {scene.family(node) for node in nodes}
    notes = []
    if "debian" in families:
        notes.append(
            tr(
                "apt: the file of the repository is found by its address (…/core:/stable:/v1.N/, that of Kubernetes and no other), and with another address it is edited by hand; apt-cache must print a line, else the mirror lacks the version. apt-mark holds the packages again, so that no routine update moves them."
            )
        )
    if "redhat" in families:
        notes.append(
            tr(
                "dnf: the file of the repository is found by its address (…/core:/stable:/v1.N/), and with another address it is edited by hand; dnf list must print a line. The file excludes these packages from routine updates; disable_excludes lifts that for one command, by the name of the repository, kubernetes."
            )
        )
    if "other" in families:
        notes.append(
            tr("How kubeadm is installed on this operating system was not seen: as it is done there.")
        )
    return notes


def other_parts(scene: Scene) -> dict[str, str]:
    """CNI, CSI, cloud controller, autoscaler, device plugins and runtimes with their versions as read."""
    found: dict[str, str] = {}
    for item in scene.snapshot.workloads:
        if not item.addon or item.addon in ("coredns", "kube-proxy") or item.addon.startswith("dra-driver"):
            continue
        tags = sorted(
            {parse_image(image).tag or parse_image(image).digest or "?" for image in item.images.values()}
        )
        found[f"{item.addon} ({item.namespace}/{item.name})"] = ", ".join(tags)
    real = [node for node in scene.snapshot.nodes if node.name not in scene.simulated]
    runtimes = sorted({node.container_runtime for node in real if node.container_runtime})
    for runtime in runtimes:
        name, _, version = runtime.partition("://")
        count = sum(1 for node in scene.snapshot.nodes if node.container_runtime == runtime)
        found[f"{name} " + trn("on {n} node", "on {n} nodes", n=count)] = version or "?"
    return found


def last_member_step(scene: Scene, hop: HopPlan) -> str:
    """Node whose step takes etcd past the point of no simple return in this hop; empty where no step does."""
    if not hop.etcd or not scene.members:
        return ""
    wanted = minor_of(hop.etcd)
    behind = [member for member in scene.members if minor_of(member.version) != wanted]
    if not behind:
        return ""
    order = [node for node in scene.control_nodes if node in {member.node for member in behind}]
    return order[-1] if order else ""


def out_minutes(scene: Scene, drain: Drain) -> int:
    """Minutes that one node is out: the profile's number, and the grace period of its slowest Pod beyond a minute."""
    return scene.profile.minutes.node + max(0, drain.grace - 60 + 59) // 60


def node_minutes(scene: Scene, drains: Sequence[Drain]) -> int:
    """Minutes for some nodes, as many at a time as the profile says."""
    parallel = max(1, scene.profile.minutes.node_parallel)
    return -(-sum(out_minutes(scene, drain) for drain in drains) // parallel)


def configz_flag(scene: Scene) -> str:
    """The option with which a later reading sees of kubelets what this one saw; empty where configz was not read."""
    read = any(
        source.provenance == "configz" for item in scene.instances("kubelet") for source in item.gate_sources
    )
    return " --configz" if read else ""


def kubelet_gates(scene: Scene) -> dict[str, bool] | None:
    """Gates that ConfigMap kubelet-config gives to the kubelets that kubeadm moves; None: kubeadm does not, or it was not read."""
    if scene.distribution.name != "kubeadm":
        return None
    for config in scene.snapshot.config_maps:
        if config.kind == "kubelet":
            source = config.component_gates.get("kubelet")
            return dict(source.gates) if source is not None else {}
    return None


def driver_target(scene: Scene, driver: Driver) -> tuple[str, str, str]:
    """(version wished, image to set, container) for a driver; empty texts where the profile does not move it."""
    for wish in scene.profile.drivers:
        if wish.name != driver.driver or not (wish.version or wish.image):
            continue
        asked = VersionWish.parse(wish.version) if wish.version else None
        if asked is not None and asked.satisfied(driver.version) and not wish.image:
            return "", "", ""
        image = wish.image
        if image and image == driver.image:
            return "", "", ""
        if (
            not image
            and asked is not None
            and asked.operator == "="
            and asked.version is not None
            and driver.image
        ):
            reference = parse_image(driver.image)
            if reference.tag and not reference.digest:
                prefix = "v" if reference.tag.startswith("v") else ""
                image = driver.image[: -len(reference.tag)] + prefix + asked.version.release
        return wish.version or (parse_image(image).tag or image), image, wish.container or driver.container
    return "", "", ""
