"""Versions of Kubernetes components, container images and drivers.

A version here is what a program or an image tag says about itself. Kubernetes versions carry vendor suffixes that
semantic versioning would read as pre-releases (`v1.33.4-eks-99d6cc0` would sort below `v1.33.4`); only `alpha`, `beta`
and `rc` are pre-releases, everything else behind the numbers is a build of the same release.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

__all__ = [
    "ImageRef",
    "Incomparable",
    "InvalidVersion",
    "Version",
    "compare",
    "in_order",
    "kubernetes_release",
    "minor_key",
    "minor_of",
    "next_minors",
    "parse_image",
    "same_release",
    "server_version",
    "try_version",
]

Scheme = Literal["release", "calendar"]

_VERSION = re.compile(
    r"""^\s*[vV]?
    (?P<major>\d{1,10})\.(?P<minor>\d{1,10})\+?(?:\.(?P<patch>\d{1,10}))?(?P<extra>(?:\.\d{1,10})*)
    (?:[-.](?P<pre>(?:alpha|beta|rc)(?:[.-]?\d+)*)(?![A-Za-z]))?
    (?P<build>[-+_~].*)?\s*$""",
    re.VERBOSE,
)
_HEX_TAG = re.compile(r"^[0-9a-f]{32,64}$")
_DIGEST = re.compile(r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}$")
_ARCH = re.compile(r"-(?:amd64|arm64|arm|ppc64le|s390x|riscv64)$")
_MINOR = re.compile(r"^\s*[vV]?(\d+)\.(\d+)")


class InvalidVersion(ValueError):  # noqa: N818 - a value that is not one, as the standard library says it
    """The text holds no version (`latest`, a digest, an empty tag)."""


class Incomparable(ValueError):  # noqa: N818
    """The two versions follow different schemes, so neither is older (25.12.0 by calendar, 0.4.0 by release)."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed version; `raw` is the text it was read from and what people are shown.

    `<`, `<=`, `>`, `>=` compare releases (numbers, then pre-release) and take two builds of one release for neither
    older nor newer; `==` is of all parsed fields but `raw`. Ordering versions of different schemes raises
    `Incomparable`; `compare` returns None instead.
    """

    major: int
    minor: int
    patch: int | None = None
    extra: tuple[int, ...] = ()
    """Numbers behind the patch: image builds of AKS (`v1.24.9.2`)."""
    pre: str = ""
    """`rc.1`, `alpha.1.123`; nothing else is a pre-release."""
    build: str = ""
    """The rest as written, with its separator: `+k3s1`, `-eks-99d6cc0`, `-0`."""
    raw: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """The version in `text`; raises `InvalidVersion` where there is none."""
        return _parse(text)

    @property
    def scheme(self) -> Scheme:
        """`calendar` for a year and a month (25.12.0, 2026.1.1), else `release`."""
        year = 2000 <= self.major <= 2199 or 20 <= self.major <= 99
        return "calendar" if year and 1 <= self.minor <= 12 else "release"

    @property
    def minor_version(self) -> str:
        """`1.37`."""
        return f"{self.major}.{self.minor}"

    @property
    def is_prerelease(self) -> bool:
        """Whether it is an alpha, beta or release candidate."""
        return bool(self.pre)

    @property
    def release(self) -> str:
        """Numbers and pre-release without `v`, build and image count: `1.34.0-rc.1`."""
        numbers = (self.major, self.minor) if self.patch is None else (self.major, self.minor, self.patch)
        text = ".".join(map(str, numbers))
        return f"{text}-{self.pre}" if self.pre else text

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A total order over all versions, schemes and builds included: for stable output, not for judging age."""
        return (self.scheme, self.precedence, _natural(self.build), self.raw)

    @property
    def precedence(self) -> tuple[object, ...]:
        """What two versions of one scheme are ordered by: numbers, then a release above its pre-releases."""
        major = self.major + 2000 if self.scheme == "calendar" and self.major < 100 else self.major
        return (major, self.minor, self.patch or 0, not self.pre, _natural(self.pre))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return (self.major, self.minor, self.patch, self.extra, self.pre, self.build)

    def __lt__(self, other: Version) -> bool:
        return _ordered(self, other) < 0

    def __le__(self, other: Version) -> bool:
        return _ordered(self, other) <= 0

    def __gt__(self, other: Version) -> bool:
        return _ordered(self, other) > 0

    def __ge__(self, other: Version) -> bool:
        return _ordered(self, other) >= 0

    def __str__(self) -> str:
        return self.raw


@lru_cache(maxsize=4096)
def _parse(text: str) -> Version:
    match = _VERSION.match(text)
    if match is None:
        raise InvalidVersion(f"no version in {text!r}")
    extra = tuple(int(part) for part in match["extra"].split(".") if part)
    return Version(
        major=int(match["major"]),
        minor=int(match["minor"]),
        patch=None if match["patch"] is None else int(match["patch"]),
        extra=extra,
        pre=match["pre"] or "",
        build=match["build"] or "",
        raw=text.strip(),
    )


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Identifiers of a suffix for comparing: numbers by value and below words, as semantic versioning does."""
    parts = re.findall(r"\d+|[A-Za-z]+", text)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def compare(left: Version, right: Version) -> int | None:
    """-1, 0 or 1 by release; None where the schemes differ and no order exists."""
    if left.scheme != right.scheme:
        return None
    a, b = left.precedence, right.precedence
    return (a > b) - (a < b)


def _ordered(left: Version, right: Version) -> int:
    result = compare(left, right)
    if result is None:
        raise Incomparable(f"{left} and {right} follow different version schemes")
    return result


def same_release(left: Version, right: Version) -> bool:
    """Whether both are builds of one release: `v1.33.4-eks-99d6cc0` and `1.33.4`."""
    return compare(left, right) == 0


def is_release(actual: Version, wanted: Version) -> bool:
    """Whether a version is a build of the wanted release; a release without a patch is any of its minor."""
    if wanted.patch is None:
        return actual.scheme == wanted.scheme and actual.minor_version == wanted.minor_version
    return compare(actual, wanted) == 0


def try_version(text: str | None) -> Version | None:
    """The version in `text`, or None where there is none."""
    if not text:
        return None
    try:
        return _parse(text)
    except InvalidVersion:
        return None


def minor_of(value: str | Version | None) -> str | None:
    """`1.37` of a version or of text that begins with one (`v1.33.4-eks-…`, `1.33+`); None where there is none."""
    if value is None:
        return None
    if isinstance(value, Version):
        return value.minor_version
    match = _MINOR.match(value)
    return f"{int(match[1])}.{int(match[2])}" if match else None


def minor_key(minor: str) -> tuple[int, int]:
    """`1.37` as numbers, for ordering minors; raises `InvalidVersion`."""
    match = _MINOR.match(minor)
    if match is None:
        raise InvalidVersion(f"no minor version in {minor!r}")
    return int(match[1]), int(match[2])


def next_minors(today: str, target: str) -> tuple[str, ...]:
    """The hops from one minor to another, without the first: 1.34 to 1.37 gives 1.35, 1.36, 1.37.

    Empty where the target is the same or older, or of another major.
    """
    major, low = minor_key(today)
    target_major, high = minor_key(target)
    if major != target_major:
        return ()
    return tuple(f"{major}.{minor}" for minor in range(low + 1, high + 1))


def in_order(versions: list[Version]) -> list[Version]:
    """All versions in one stable order, schemes and builds included: for output, not for judging age; see `sort_key`."""
    return sorted(versions, key=lambda version: version.sort_key)


def server_version(info: dict[str, object]) -> Version | None:
    """The version in an answer of /version, or in `serverVersion` of `kubectl version`.

    gitVersion is taken, since major and minor are vendor-made (`33+`) and lack the patch; they stand in only where
    gitVersion is absent. `clientVersion` is never looked at.
    """
    server = info.get("serverVersion")
    if isinstance(server, dict):
        info = server
    elif "clientVersion" in info:
        return None
    git = info.get("gitVersion")
    if isinstance(git, str) and (version := try_version(git)) is not None:
        return version
    major, minor = str(info.get("major") or ""), str(info.get("minor") or "")
    return try_version(f"{major.rstrip('+')}.{minor.rstrip('+')}") if major and minor else None


class ImageRef(msgspec.Struct, frozen=True, kw_only=True):
    """A container image reference, taken apart; `registry` is empty where the reference names none."""

    raw: str
    registry: str = ""
    repository: str = ""
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Last part of the repository without an architecture: `kube-proxy` of `…/kube-proxy-amd64`."""
        return _ARCH.sub("", self.repository.rsplit("/", 1)[-1])

    @property
    def version(self) -> Version | None:
        """Version in the tag; None for none, `latest`, a hash or any tag without one."""
        if self.tag is None or _HEX_TAG.match(self.tag):
            return None
        return try_version(self.tag)


def parse_image(reference: str) -> ImageRef:
    """Takes an image reference apart: registry with port, tag with digest, digest alone, `docker-pullable://`.

    Never fails; what cannot be told is left empty.
    """
    raw = reference.strip()
    rest = raw.split("://", 1)[1] if "://" in raw else raw
    if _DIGEST.match(rest):
        return ImageRef(raw=raw, digest=rest)
    digest: str | None = None
    if "@" in rest:
        rest, digest = rest.split("@", 1)
    tag: str | None = None
    head, slash, last = rest.rpartition("/")
    if ":" in last:
        last, tag = last.split(":", 1)
    path = f"{head}{slash}{last}"
    first, sep, remainder = path.partition("/")
    if sep and ("." in first or ":" in first or first == "localhost"):
        return ImageRef(raw=raw, registry=first, repository=remainder, tag=tag or None, digest=digest or None)
    return ImageRef(raw=raw, repository=path, tag=tag or None, digest=digest or None)


# What vendors add to the version that the program itself reports. Everything else behind the numbers counts image
# builds (`-minimal-eksbuild.4`, `-1`, `-full`, `-hotfix.20210526`) and is no part of it.
_VENDOR = re.compile(
    r"""^(?:
      (?P<dash>-eks-[0-9A-Za-z-]+|-gke\.\d+|-akslts|-aliyun\.\d+|-tke\.\d+|-0\.\d{14}-[0-9a-f]{12})
    | -(?P<plus>rke2r\d+|k3s\d+|k0s|vmware\.\d+(?:-fips\.\d+)?)
    )(?![0-9A-Za-z])""",
    re.VERBOSE,
)
_IMAGE_BUILD = re.compile(r"-build\.?\d{8}$")


def kubernetes_release(tag: str | None, component: str = "kube-apiserver") -> str | None:
    """The version as the program in an image of this tag would report it; None where the tag tells none.

    An image tag cannot hold `+`: RKE2 writes `-rke2r1-build20250910`, VMware `_vmware.1`; both get their `+` back.
    etcd's tags count image builds only (`3.6.8-0`, `v3.5.21-k3s1-build20250612`).
    """
    if not tag or _HEX_TAG.match(tag):
        return None
    version = try_version(_IMAGE_BUILD.sub("", _ARCH.sub("", tag.strip())))
    if version is None or version.patch is None:
        return None
    base = f"v{version.release}"
    if component == "etcd":
        return base
    build = version.build
    if build.startswith(("+", "_")):
        return f"{base}+{build[1:].replace('_', '+')}"
    match = _VENDOR.match(build)
    if match is None:
        return base
    return f"{base}{match['dash']}" if match["dash"] else f"{base}+{match['plus']}"
