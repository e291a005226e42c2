"""The profile: what the cluster shall be after the change, and the change's own fields. A YAML file.

In files that people write, named things are lists of ``{name: …}`` so that an error can name a line.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from changegen.model.base import Model, Scalar
from changegen.times import read_time

SCHEMA: Literal["changegen.profile/v1"] = "changegen.profile/v1"

ComponentName = Literal[
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "kubelet",
    "kube-proxy",
    "etcd",
    "coredns",
]


class ComponentTarget(Model, frozen=True, kw_only=True):
    """A version wish for one component: ``1.37.2``, ``1.37`` (any patch) or ``>=1.36.3``."""

    name: ComponentName
    version: str


class Target(Model, frozen=True, kw_only=True):
    """Where the change goes."""

    kubernetes: str = ""
    """``1.37.2``, or ``1.37`` for any patch."""
    components: tuple[ComponentTarget, ...] = ()
    distribution_version: str = ""
    """OpenShift, Talos, k0s release… when the plan's commands need it."""


class StagePolicy(Model, frozen=True, kw_only=True):
    """Which stages may be set to on: ``allowed``, ``named`` (only gates named here) or ``forbidden``."""

    alpha: Literal["allowed", "named", "forbidden"] = "named"
    beta: Literal["allowed", "named", "forbidden"] = "allowed"


class GateWish(Model, frozen=True, kw_only=True):
    """A wanted gate. ``value`` None: it must not be set at all."""

    name: str
    value: bool | None = None
    components: tuple[ComponentName, ...] = ()
    """Empty: every component that reads it."""
    why: str = ""


class FeatureGates(Model, frozen=True, kw_only=True):
    """Gates and the policy for stages."""

    stages: StagePolicy = StagePolicy()
    gates: tuple[GateWish, ...] = ()


class ApiWish(Model, frozen=True, kw_only=True):
    """A group version that must be served, with kinds."""

    group_version: str
    kinds: tuple[str, ...] = ()
    expect: Literal["served", "absent"] = "served"


class DriverWish(Model, frozen=True, kw_only=True):
    """A DRA driver that must be there."""

    name: str
    version: str = ""
    """``>=0.3.0``, ``0.3.0`` or a tag as written; empty: any."""
    workload: str = ""
    """namespace/name of the DaemonSet; empty: inferred."""
    nodes: str = ""
    """Label selector of nodes that must publish slices; empty: not judged."""
    image: str = ""
    """The image of the target version when the plan shall print the command."""
    container: str = ""


class ExtendedResourceWish(Model, frozen=True, kw_only=True):
    """An extended resource and who shall serve it."""

    name: str
    device_class: str = ""
    source: Literal["dra", "device-plugin", "any"] = "dra"
    nodes: str = ""
    """Label selector of the nodes that are moved; empty: all that have it."""


class NodeTaintWish(Model, frozen=True, kw_only=True):
    """A node taint that is expected or forbidden."""

    key: str
    value: str | None = None
    effect: str = ""
    expect: Literal["present", "absent"] = "present"
    nodes: str = ""
    """Label selector, empty: any node (present: at least one; absent: none)."""


class DeviceTaintWish(Model, frozen=True, kw_only=True):
    """A device taint that is expected, forbidden, or planned."""

    key: str
    value: str | None = None
    effect: Literal["", "None", "NoSchedule", "NoExecute"] = ""
    expect: Literal["present", "absent", "rollout"] = "absent"
    driver: str = ""
    pool: str = ""
    device: str = ""


class Taints(Model, frozen=True, kw_only=True):
    """Taints of nodes and of devices."""

    nodes: tuple[NodeTaintWish, ...] = ()
    devices: tuple[DeviceTaintWish, ...] = ()


class Accept(Model, frozen=True, kw_only=True):
    """An accepted finding: it stays visible, with reason, owner and last day."""

    code: Annotated[str, Meta(pattern="^CG-[A-Z]+-[0-9]{3}$")]
    subject: str = ""
    """Component/instance or name, ``*`` at the end matches a prefix; empty: every subject of that code."""
    reason: Annotated[str, Meta(min_length=1)]
    owner: Annotated[str, Meta(min_length=1)]
    until: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class OwnCheck(Model, frozen=True, kw_only=True):
    """A check of the user's own: printed as it stands, filled by people."""

    layer: Literal["api", "scheduling", "device", "runtime"]
    title: str
    command: str = ""
    expected: Scalar = None


class Window(Model, frozen=True, kw_only=True):
    """When: RFC 3339, or ``2027-01-31 22:00``, which is UTC."""

    start: str | None = None
    end: str | None = None

    @property
    def ends_first(self) -> bool:
        """Whether both ends are times and the end is not after the start."""
        start, end = read_time(self.start or ""), read_time(self.end or "")
        return start is not None and end is not None and end <= start


class Link(Model, frozen=True, kw_only=True):
    """A link to print."""

    title: str
    url: str


class ChangeFields(Model, frozen=True, kw_only=True):
    """The change's own fields; what is None stays open for people."""

    type: Literal["standard", "normal", "emergency"] | None = None
    service: str | None = None
    window: Window = Window()
    owner: str | None = None
    approvers: tuple[str, ...] = ()
    risk: str | None = None
    reason: str | None = None
    links: tuple[Link, ...] = ()
    fields: dict[str, str] = {}
    """Further fields by name, for the owner's templates."""


class Minutes(Model, frozen=True, kw_only=True):
    """Estimates in minutes that the plan uses; measured ones are better."""

    control_plane_node: int = 15
    etcd_snapshot: int = 5
    node: int = 10
    node_parallel: int = 1
    driver: int = 10
    check: int = 1


class Layout(Model, frozen=True, kw_only=True):
    """Facts of the nodes' file system that no API shows; defaults are the distribution's."""

    manifests: str = ""
    pki: str = ""
    backup: str = ""
    etcd_endpoints: str = ""


class Profile(Model, frozen=True, kw_only=True):
    """The profile file."""

    schema: Literal["changegen.profile/v1"] = SCHEMA
    name: Annotated[str, Meta(min_length=1)]
    title: str = ""
    extends: str = ""
    target: Target = Target()
    feature_gates: FeatureGates = FeatureGates()
    features: tuple[str, ...] = ()
    """DRA features wanted, by the names of `changegen profile show --features`."""
    apis: tuple[ApiWish, ...] = ()
    drivers: tuple[DriverWish, ...] = ()
    extended_resources: tuple[ExtendedResourceWish, ...] = ()
    taints: Taints = Taints()
    accept: tuple[Accept, ...] = ()
    checks: tuple[OwnCheck, ...] = ()
    change: ChangeFields = ChangeFields()
    minutes: Minutes = Minutes()
    layout: Layout = Layout()
