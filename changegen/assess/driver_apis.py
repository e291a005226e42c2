"""Which API versions known DRA drivers speak, release by release: changegen/data/driver-apis.json.

A driver publishes its slices and reads its claims with a version of resource.k8s.io, and registers with the kubelet by a
plugin API. Neither is seen in the cluster; both are in the sources of its release, by the Kubernetes helper that it is
built with. The table is made from the tags of the drivers' repositories by tools/make_driver_apis.py; what is not in it
is not known. Source of the rule that one common version is enough: client/client.go of k8s.io/dynamic-resource-allocation
(from 0.34 on it falls back), validateSupportedServices in pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from changegen.versions import parse_image, same_release, try_version

__all__ = [
    "DirectCall",
    "DriverRelease",
    "Project",
    "kubelet_speaks",
    "public_drivers",
    "release_of",
    "same_tag",
]


class DirectCall(msgspec.Struct, frozen=True, kw_only=True):
    """A version of resource.k8s.io that a driver's own code asks for, whatever its helper can do."""

    version: str
    """`v1alpha3`"""
    kind: str
    file: str
    """Where in its repository."""


class DriverRelease(msgspec.Struct, frozen=True, kw_only=True):
    """What one release of a driver speaks."""

    tag: str
    """In its repository."""
    version: str
    """As its image is tagged."""
    helper: str
    """Version of k8s.io/dynamic-resource-allocation in its go.mod."""
    resource: tuple[str, ...]
    """Versions of resource.k8s.io for slices and claims, any one of which is enough; the newest first."""
    plugin: tuple[str, ...]
    """Kubelet plugin APIs that it registers, any one of which is enough."""
    calls: tuple[DirectCall, ...] = ()
    metadata: bool = False
    """Its code can turn device metadata for containers on (KEP-5304); whether it is on no API shows."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's project with its releases."""

    repository: str
    """`owner/name` on GitHub."""
    drivers: tuple[str, ...]
    """Driver names that it serves; `*` stands for anything. For readers: a release is known by its image."""
    images: tuple[str, ...]
    """Last part of its images' names."""
    releases: tuple[DriverRelease, ...] = ()


class _Spoken(msgspec.Struct, frozen=True, kw_only=True):
    minor: str
    plugin: tuple[str, ...]
    source: str
    resource: tuple[str, ...] = ()


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    about: str
    helpers: tuple[_Spoken, ...]
    kubelets: tuple[_Spoken, ...]
    projects: tuple[Project, ...]


@cache
def _table() -> _Table:
    text = (files("changegen") / "data" / "driver-apis.json").read_bytes()
    return msgspec.json.decode(text, type=_Table)


def same_tag(one: str, other: str) -> bool:
    """Whether two texts name one release; a leading `v` makes no difference."""
    left, right = try_version(one), try_version(other)
    if left is None or right is None:
        return one.removeprefix("v") == other.removeprefix("v")
    return left.scheme == right.scheme and same_release(left, right) and left.pre == right.pre


def release_of(image: str, version: str) -> tuple[Project, DriverRelease] | None:
    """The release that a driver's image is, by its name and tag; None where the table does not have it.

    Args:
        image: The plugin's image as written; a mirror of it under another registry counts as the same.
        version: Its tag.
    """
    name = parse_image(image).repository.rpartition("/")[2]
    for project in _table().projects:
        if name not in project.images:
            continue
        for release in project.releases:
            if same_tag(release.version, version):
                return project, release
    return None


def public_drivers() -> tuple[str, ...]:
    """Names of the drivers of the table, as their projects publish them; those that anybody may choose (`*`) left out."""
    return tuple(sorted({name for p in _table().projects for name in p.drivers if "*" not in name}))


def kubelet_speaks(minor: str | None) -> tuple[str, ...] | None:
    """Plugin APIs that the kubelet of a minor speaks (`v1`, `v1beta1`); None for a minor that was not read."""
    return next((row.plugin for row in _table().kubelets if row.minor == minor), None)
