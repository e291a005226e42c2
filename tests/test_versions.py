"""Versions of components, images and drivers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changegen.versions import (
    Incomparable,
    InvalidVersion,
    Version,
    compare,
    in_order,
    is_release,
    kubernetes_release,
    minor_key,
    minor_of,
    next_minors,
    parse_image,
    same_release,
    server_version,
    try_version,
)

VENDOR_SUFFIXES = [
    "-eks-99d6cc0",
    "-gke.1134000",
    "+k3s1",
    "+rke2r1",
    "-rke2r1",
    "+k0s",
    "+vmware.1",
    "+vmware.1-fips.1",
    "+0f1d2c3",
    "-rke2r1-build20250910",
    "_vmware.1",
    "-hotfix.20210526",
    "-minimal-eksbuild.4",
    "-1",
    "-full",
    ".2",
    "",
]

numbers = st.integers(0, 400)
pre_releases = st.sampled_from(["", "-alpha.1", "-alpha.2", "-beta.0", "-rc.1", "-rc.10", "-rc.2"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Version texts of one scheme, so that all can be ordered."""
    prefix = draw(st.sampled_from(["v", ""]))
    build = draw(st.sampled_from(["", "+k3s1", "-eks-1234567", "-gke.100", "+rke2r1"]))
    return f"{prefix}{draw(st.integers(0, 3))}.{draw(numbers)}.{draw(numbers)}{draw(pre_releases)}{build}"


@pytest.mark.parametrize("suffix", VENDOR_SUFFIXES)
def test_a_vendor_suffix_is_a_build_of_the_same_release(suffix: str) -> None:
    version = Version.parse(f"v1.33.4{suffix}")
    target = Version.parse("v1.33.4")
    assert (version.major, version.minor, version.patch) == (1, 33, 4)
    assert not version.is_prerelease
    assert same_release(version, target)
    assert not version < target
    assert version >= target
    assert Version.parse("v1.33.3") < version < Version.parse("v1.33.5-rc.1")


@pytest.mark.parametrize(
    ("text", "pre"),
    [
        ("v1.34.0-rc.1", "rc.1"),
        ("v1.34.0-alpha.1.123+0123456789abcd-dirty", "alpha.1.123"),
        ("v1.34.0-beta.0", "beta.0"),
        ("v0.1.0-rc1", "rc1"),
    ],
)
def test_alpha_beta_and_rc_are_pre_releases(text: str, pre: str) -> None:
    version = Version.parse(text)
    assert version.pre == pre
    assert version < Version.parse(text.split("-", 1)[0])


def test_a_word_that_only_begins_like_a_pre_release_is_a_build() -> None:
    assert Version.parse("v1.2.3-alphabet").pre == ""
    assert Version.parse("v1.2.3-rcfoo.1").build == "-rcfoo.1"


def test_pre_releases_are_ordered_by_number_and_by_word() -> None:
    texts = ["1.34.0-alpha.1", "1.34.0-alpha.2", "1.34.0-beta.0", "1.34.0-rc.2", "1.34.0-rc.10", "1.34.0"]
    versions = [Version.parse(text) for text in texts]
    assert all(a < b for a, b in itertools.pairwise(versions))


@given(texts(), texts(), texts())
def test_order_is_transitive_and_total(a: str, b: str, c: str) -> None:
    x, y, z = Version.parse(a), Version.parse(b), Version.parse(c)
    assert compare(x, y) in {-1, 0, 1}
    assert compare(x, y) == -(compare(y, x) or 0)
    if x <= y <= z:
        assert x <= z
    if same_release(x, y) and same_release(y, z):
        assert same_release(x, z)
    assert (x < y) + (x > y) + same_release(x, y) == 1


@given(st.lists(texts(), max_size=8))
def test_sorting_does_not_depend_on_the_order_given(items: list[str]) -> None:
    versions = [Version.parse(text) for text in items]
    assert [v.raw for v in in_order(versions)] == [v.raw for v in in_order(versions[::-1])]
    ordered = in_order(versions)
    assert all(not later < earlier for earlier, later in itertools.pairwise(ordered))


@given(texts())
def test_raw_is_kept_and_parsing_it_again_gives_the_same(text: str) -> None:
    version = Version.parse(text)
    assert str(version) == version.raw == text
    assert Version.parse(str(version)) == version
    assert hash(Version.parse(text)) == hash(version)
    release = Version.parse(version.release)
    assert same_release(release, version)
    assert release.build == ""


@given(st.text(max_size=30) | st.from_regex(r"v?1\.3[4-7](\.[0-9]{1,2})?[-+_.a-z0-9]{0,9}", fullmatch=True))
def test_parsing_any_text_gives_a_version_or_says_that_there_is_none(text: str) -> None:
    try:
        version = Version.parse(text)
    except InvalidVersion:
        assert try_version(text) is None
    else:
        assert try_version(text) == version
        assert version.sort_key == Version.parse(text).sort_key


def test_calendar_and_release_versions_have_no_order() -> None:
    calendar, release = Version.parse("v25.12.0"), Version.parse("v0.4.0")
    assert compare(calendar, release) is None
    assert not same_release(calendar, release)
    with pytest.raises(Incomparable):
        _ = calendar < release
    assert Version.parse("2026.1.1").scheme == "calendar"
    assert Version.parse("25.3.1") < Version.parse("2026.1.1")
    assert Version.parse("2025.1.1") < Version.parse("26.3.1")
    assert Version.parse("25.13.0").scheme == "release"  # a year has twelve months
    assert Version.parse("580.95.05").scheme == "release"
    assert len(in_order([calendar, release])) == 2


@pytest.mark.parametrize(
    ("actual", "wanted", "same"),
    [
        ("v1.37.2-eks-1234567", "1.37.2", True),
        ("v1.37.2", "1.37.1", False),
        ("v1.37.0-rc.1", "1.37.0", False),
        ("v1.37.2", "1.37", True),
        ("v1.37.0-rc.1", "1.37", True),
        ("v1.36.9", "1.37", False),
        ("v25.12.0", "0.4.0", False),
    ],
)
def test_a_release_without_a_patch_is_any_of_its_minor(actual: str, wanted: str, same: bool) -> None:
    assert is_release(Version.parse(actual), Version.parse(wanted)) is same


@pytest.mark.parametrize(
    "text", ["latest", "stable", "", "d41d8cd98f00b204e9800998ecf8427e", "v1", "one.two", "sha256:ab"]
)
def test_what_is_no_version(text: str) -> None:
    assert try_version(text) is None
    with pytest.raises(InvalidVersion):
        Version.parse(text)


def test_minor_of_versions_and_of_minors_with_plus() -> None:
    assert minor_of("v1.33.4-eks-e386d34") == "1.33"
    assert minor_of("1.33+") == "1.33"
    assert minor_of(Version.parse("v1.37.2")) == "1.37"
    assert minor_of("latest") is None
    assert minor_of(None) is None
    assert Version.parse("1.37").minor_version == "1.37"
    assert minor_key("1.9") < minor_key("1.10")


def test_the_server_version_is_the_server_s_and_comes_from_git_version() -> None:
    kubectl = {
        "clientVersion": {"gitVersion": "v1.37.2", "major": "1", "minor": "37"},
        "serverVersion": {"gitVersion": "v1.33.4-eks-e386d34", "major": "1", "minor": "33+"},
    }
    version = server_version(kubectl)
    assert version is not None
    assert version.raw == "v1.33.4-eks-e386d34"
    assert (version.patch, version.build) == (4, "-eks-e386d34")
    assert server_version({"clientVersion": {"gitVersion": "v1.37.2"}}) is None
    fallback = server_version({"major": "1", "minor": "33+"})
    assert fallback is not None
    assert fallback.minor_version == "1.33"
    assert server_version({}) is None


def test_hops_between_minors() -> None:
    assert next_minors("1.34", "1.37") == ("1.35", "1.36", "1.37")
    assert next_minors("v1.36.3", "v1.37.2") == ("1.37",)
    assert next_minors("1.37", "1.37") == ()
    assert next_minors("1.37", "1.36") == ()
    assert next_minors("1.9", "1.11") == ("1.10", "1.11")


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "tag", "digest", "name"),
    [
        (
            "registry.k8s.io/kube-apiserver:v1.37.2",
            "registry.k8s.io",
            "kube-apiserver",
            "v1.37.2",
            None,
            "kube-apiserver",
        ),
        (
            "localhost:5000/kube-proxy-amd64:v1.35.5-gke.1057002",
            "localhost:5000",
            "kube-proxy-amd64",
            "v1.35.5-gke.1057002",
            None,
            "kube-proxy",
        ),
        ("host.example:5000/a/b", "host.example:5000", "a/b", None, None, "b"),
        ("kube-proxy:v1.2.3", "", "kube-proxy", "v1.2.3", None, "kube-proxy"),
        (f"r.example/x:v1.2.3@sha256:{'a' * 64}", "r.example", "x", "v1.2.3", f"sha256:{'a' * 64}", "x"),
        (
            f"docker-pullable://r.example/x@sha256:{'a' * 64}",
            "r.example",
            "x",
            None,
            f"sha256:{'a' * 64}",
            "x",
        ),
        (f"sha256:{'b' * 64}", "", "", None, f"sha256:{'b' * 64}", ""),
        ("library/x", "", "library/x", None, None, "x"),
        ("library/x:@", "", "library/x", None, None, "x"),
    ],
)
def test_image_references(
    reference: str, registry: str, repository: str, tag: str | None, digest: str | None, name: str
) -> None:
    image = parse_image(reference)
    assert (image.registry, image.repository, image.tag, image.digest, image.name) == (
        registry,
        repository,
        tag,
        digest,
        name,
    )
    assert image.raw == reference


@given(st.text(max_size=60))
def test_any_text_can_be_taken_apart_as_an_image(text: str) -> None:
    image = parse_image(text)
    assert image.raw == text.strip()
    assert image.version is None or image.tag is not None


def test_images_without_a_version() -> None:
    for tag in ("latest", "stable", "d41d8cd98f00b204e9800998ecf8427e"):
        assert parse_image(f"r.example/x:{tag}").version is None
    assert parse_image(f"r.example/x@sha256:{'a' * 64}").version is None


@pytest.mark.parametrize(
    ("tag", "release"),
    [
        ("v1.37.2", "v1.37.2"),
        ("1.33.4", "v1.33.4"),
        ("v1.33.5-rke2r1-build20250910", "v1.33.5+rke2r1"),
        ("v1.33.5-k3s1", "v1.33.5+k3s1"),
        ("v1.34.1-k0s.0", "v1.34.1+k0s"),
        ("v1.33.5_vmware.1", "v1.33.5+vmware.1"),
        ("v1.33.4_vmware.1-fips.1", "v1.33.4+vmware.1-fips.1"),
        ("v1.33.4-eks-99d6cc0", "v1.33.4-eks-99d6cc0"),
        ("v1.35.5-gke.1057002", "v1.35.5-gke.1057002"),
        ("v1.33.3-minimal-eksbuild.4", "v1.33.3"),
        ("v1.34.1-eksbuild.2", "v1.34.1"),
        ("v1.33.3-1", "v1.33.3"),
        ("v1.24.9.2", "v1.24.9"),
        ("v1.19.11-hotfix.20210526", "v1.19.11"),
        ("v1.35.2-full", "v1.35.2"),
        ("v1.37.2-amd64", "v1.37.2"),
        ("v1.38.0-rc.1", "v1.38.0-rc.1"),
        ("v1.33.4-0.20250815003200-f2ac40a2a3b5-build20250815", "v1.33.4-0.20250815003200-f2ac40a2a3b5"),
        ("v1.33", None),
        ("latest", None),
        ("d41d8cd98f00b204e9800998ecf8427e", None),
        ("", None),
        (None, None),
    ],
)
def test_the_release_that_a_tag_stands_for(tag: str | None, release: str | None) -> None:
    assert kubernetes_release(tag) == release


@pytest.mark.parametrize(
    ("tag", "release"),
    [
        ("3.7.0-0", "v3.7.0"),
        ("3.6.8-0", "v3.6.8"),
        ("v3.5.21-k3s1-build20250612", "v3.5.21"),
        ("3.8.0-alpha.0", "v3.8.0-alpha.0"),
    ],
)
def test_tags_of_etcd_count_image_builds_only(tag: str, release: str) -> None:
    assert kubernetes_release(tag, "etcd") == release
