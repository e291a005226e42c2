"""Profiles by name: loaded, listed, and held against what Kubernetes knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from changegen.errors import ProfileError
from changegen.i18n import tr
from changegen.model.profile import Profile
from changegen.profiles.check import file_issues
from changegen.profiles.files import File, Issue, Path_, chain, did_you_mean, folders, lay, profile_files
from changegen.versions import minor_key, minor_of

if TYPE_CHECKING:
    from changegen.kubedata import KubernetesData


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that can be named."""

    name: str
    title: str
    place: str
    shipped: bool
    problem: str = ""
    """Why it cannot be used; empty when it can."""


def load(name: str) -> Profile:
    """Return a profile by name or file, with everything it extends laid under it.

    Raises:
        ProfileError: It is not there, is no YAML, or holds what a profile cannot hold; says file, line and what was
            expected, and how many more problems there are.
    """
    files = chain(name)
    issues = [issue for file in files for issue in file_issues(file) if issue.severity == "error"]
    if issues:
        raise _as_error(issues, name)
    return _merged(files)


def _as_error(issues: Sequence[Issue], name: str) -> ProfileError:
    first = issues[0]
    message = f"{first.path}: {first.message}" if first.path else first.message
    more = len(issues) - 1
    hint = tr("{n} more: 'changegen profile lint {name}' lists them all", n=more, name=name) if more else None
    return ProfileError(message, where=first.place, hint=hint)


def _merged(files: Sequence[File]) -> Profile:
    value: dict[str, Any] = {}
    for file in reversed(files):
        value = lay(value, file.value)
    value["name"] = files[0].value["name"]
    try:
        return msgspec.convert(value, Profile)
    except msgspec.ValidationError as error:  # each file was checked, so only what merging made can be wrong
        raise ProfileError(str(error), where=files[0].place) from error


def list_profiles() -> tuple[Listed, ...]:
    """Return every profile of the search path by name; the first of a name wins, as in ``find``."""
    rows: dict[str, Listed] = {}
    for folder, shipped in folders():
        for path in profile_files(folder):
            if path.stem in rows:
                continue
            try:
                profile = load(str(path))
            except ProfileError as error:
                rows[path.stem] = Listed(
                    name=path.stem, title="", place=str(path), shipped=shipped, problem=str(error)
                )
            else:
                rows[path.stem] = Listed(
                    name=path.stem, title=profile.title, place=str(path), shipped=shipped
                )
    return tuple(rows[name] for name in sorted(rows))


def lint(name: str, data: KubernetesData | None = None, *, today: str = "") -> tuple[Issue, ...]:
    """Return every problem of a profile and of what it extends, by file and line.

    With ``data``, gates, DRA features, API group versions and kinds that nobody knows are told with close names. With
    ``today`` (``2026-12-01``), acceptances that are over are told.

    Raises:
        ProfileError: A file is not there or is no YAML at all.
    """
    files = chain(name)
    issues: list[Issue] = []
    for file in files:
        issues.extend(file_issues(file))
    if any(issue.severity == "error" for issue in issues):
        return _ordered(issues)
    profile = _merged(files)
    if not profile.target.kubernetes and not profile.target.components:
        message = tr("no version: say target.kubernetes, here or with --to")
        issues.append(Issue(place=files[0].at(()), path="target", message=message, severity="warning"))
    for file in files:
        if data is not None:
            issues.extend(_against_data(file, profile, data))
        if today:
            issues.extend(_expired(file, today))
    return _ordered(issues)


def _ordered(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    def key(issue: Issue) -> tuple[str, int, str, str]:
        place, _, line = issue.place.rpartition(":")
        return (place, int(line) if line.isdigit() else 0, issue.path, issue.message)

    return tuple(sorted(issues, key=key))


def _against_data(file: File, profile: Profile, data: KubernetesData) -> Iterator[Issue]:
    """Yield names of a file that nobody knows, in the release that the whole profile is for."""
    yield from _unknown_features(file)
    minor = minor_of(profile.target.kubernetes) if profile.target.kubernetes else None
    known = minor if minor is not None and data.knows(minor) else None
    if minor is not None and known is None and (file.value.get("target") or {}).get("kubernetes"):
        message = tr(
            "the Kubernetes data knows {oldest} to {newest}: gates and APIs of {minor} cannot be judged",
            oldest=data.oldest,
            newest=data.newest,
            minor=minor,
        )
        yield file.issue(("target", "kubernetes"), message, "warning")
    yield from _unknown_gates(file, known, data)
    if known is not None:
        yield from _unknown_apis(file, known, data)


def _unknown_features(file: File) -> Iterator[Issue]:
    from changegen.assess.capability import FEATURES

    features = {feature.name for feature in FEATURES}
    for index, name in enumerate(file.value.get("features", ())):
        if name not in features:
            known = did_you_mean(name, features) or ", ".join(sorted(features))
            yield file.issue(
                ("features", index), tr("there is no DRA feature {name}; {known}", name=name, known=known)
            )


def _unknown_gates(file: File, minor: str | None, data: KubernetesData) -> Iterator[Issue]:
    """Yield gates that no release knows, and with a ``minor`` those that it does not know."""
    gates = (file.value.get("feature_gates") or {}).get("gates", ())
    for index, entry in enumerate(gates):
        path: Path_ = ("feature_gates", "gates", index, "name")
        history = data.gate(entry["name"])
        if history is None:
            message = tr(
                "no Kubernetes from {oldest} to {newest} knows the gate {name}",
                oldest=data.oldest,
                newest=data.newest,
                name=entry["name"],
            )
            yield file.issue(path, _joined(message, did_you_mean(entry["name"], data.gate_names)))
        elif minor is not None and minor not in history.by_minor:
            when = (
                tr("it is gone since {minor}", minor=history.removed_in)
                if history.removed_in and _not_after(history.removed_in, minor)
                else tr("it comes with {minor}", minor=history.first)
            )
            message = tr(
                "{minor} does not know the gate {name}: {when}", minor=minor, name=entry["name"], when=when
            )
            yield file.issue(path, message, "error" if entry.get("value") is not None else "warning")


def _unknown_apis(file: File, minor: str, data: KubernetesData) -> Iterator[Issue]:
    """Yield group versions and kinds that a minor does not have; an aggregated API or a CRD only the cluster knows."""
    kinds: dict[str, set[str]] = {}
    for api in data.apis(minor):
        kinds.setdefault(api.group_version, set()).add(api.kind)
    groups = {group_version.rpartition("/")[0] for group_version in kinds}
    for index, entry in enumerate(file.value.get("apis", ())):
        group_version = entry["group_version"]
        if group_version.rpartition("/")[0] not in groups:
            continue
        if group_version not in kinds:
            message = tr("{minor} has no {group_version}", minor=minor, group_version=group_version)
            yield file.issue(
                ("apis", index, "group_version"),
                _joined(message, did_you_mean(group_version, kinds)),
                "error" if entry.get("expect", "served") == "served" else "warning",
            )
            continue
        for position, kind in enumerate(entry.get("kinds", ())):
            if kind not in kinds[group_version]:
                message = tr(
                    "{group_version} of {minor} has no kind {kind}",
                    group_version=group_version,
                    minor=minor,
                    kind=kind,
                )
                yield file.issue(
                    ("apis", index, "kinds", position),
                    _joined(message, did_you_mean(kind, sorted(kinds[group_version]))),
                )


def _joined(message: str, question: str) -> str:
    return f"{message}; {question}" if question else message


def _not_after(minor: str, other: str) -> bool:
    return minor_key(minor) <= minor_key(other)


def _expired(file: File, today: str) -> Iterator[Issue]:
    for index, entry in enumerate(file.value.get("accept", ())):
        if entry["until"] < today[:10]:
            message = tr(
                "{code} was accepted until {day} and counts again", code=entry["code"], day=entry["until"]
            )
            yield file.issue(("accept", index, "until"), message, "warning")
