"""The inventory: what an input held, by resource, whatever its layout.

It takes the records of :mod:`changegen.collect.documents`, decodes objects on demand into the type that is asked for, counts an
object once however often the capture holds it, and keeps account of what was listed, what could not be read, and why.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from changegen.collect.documents import (
    KUBELET_CONFIGZ,
    RESOURCES,
    VERSION_INFO,
    DecodeProblem,
    Document,
    InputSeen,
    ListSeen,
    Problem,
    RawText,
    Reason,
    SnapshotFile,
    group_of,
    resource_name,
)
from changegen.i18n import tr
from changegen.model.snapshot import Notice, ServedApi, ServedResource, Unobserved

__all__ = ["DISCOVERY_KINDS", "WANTED", "WANTED_OPENSHIFT", "Inventory", "Located", "VersionInfo", "by_name"]

T = TypeVar("T")

WANTED: Final = (
    "pods",
    "nodes",
    "namespaces",
    "configmaps",
    "services",
    "events",
    "resourcequotas",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "jobs.batch",
    "poddisruptionbudgets.policy",
    "horizontalpodautoscalers.autoscaling",
    "leases.coordination.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "devicetaintrules.resource.k8s.io",
)
"""Resources that a whole snapshot is made of; what of them was not listed is unobserved."""

WANTED_OPENSHIFT: Final = ("clusterversions.config.openshift.io", "featuregates.config.openshift.io")

DISCOVERY_KINDS: Final = frozenset(
    {"APIGroupList", "APIGroup", "APIResourceList", "APIVersions", "APIGroupDiscoveryList"}
)


class Located(msgspec.Struct, Generic[T], frozen=True):
    """An object with the place where it was read; ``namespace`` is the object's own, else what the layout says."""

    obj: T
    api_version: str
    kind: str
    place: str
    namespace: str = ""


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of /version."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    emulation_major: str = ""
    emulation_minor: str = ""
    min_compatibility_major: str = ""
    min_compatibility_minor: str = ""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identity(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta | None = None


class _ApiVersionEntry(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _ApiGroup(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    versions: tuple[_ApiVersionEntry, ...] | None = None
    preferred_version: _ApiVersionEntry | None = None


class _ApiGroupList(msgspec.Struct, frozen=True):
    groups: tuple[_ApiGroup, ...] | None = None


class _ApiResource(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool | None = None


class _ApiResourceList(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""
    resources: tuple[_ApiResource, ...] | None = None


class _CoreVersions(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] | None = None


class _DiscoveredKind(msgspec.Struct, frozen=True):
    kind: str = ""


class _DiscoveredResource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    response_kind: _DiscoveredKind | None = None
    scope: str = ""


class _DiscoveredVersion(msgspec.Struct, frozen=True):
    version: str = ""
    resources: tuple[_DiscoveredResource, ...] | None = None


class _DiscoveredGroup(msgspec.Struct, frozen=True):
    metadata: _Meta | None = None
    versions: tuple[_DiscoveredVersion, ...] | None = None


class _Discovery(msgspec.Struct, frozen=True):
    items: tuple[_DiscoveredGroup, ...] | None = None


class _Kept:
    """Decoded objects of one resource, each name once, as an API server holds them."""

    __slots__ = ("found", "mixed", "newest")

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], tuple[int, str, Located[Any]]] = {}
        self.mixed: dict[tuple[str, str, str], str] = {}
        self.newest = ""

    def add(self, document: Document, obj: Any) -> None:
        meta: Any = getattr(obj, "metadata", None)
        namespace = getattr(meta, "namespace", "") or document.namespace
        name = getattr(meta, "name", "")
        uid = getattr(meta, "uid", "")
        version = getattr(meta, "resource_version", "")
        key = (namespace, name, "" if name else uid or document.place)
        order = int(version) if version.isdecimal() and len(version) < 20 else -1
        previous = self.found.get(key)
        if previous is not None and uid and previous[1] and uid != previous[1]:
            self.mixed.setdefault(key, document.place)
        if previous is None or order > previous[0]:
            located = Located(obj, document.api_version, document.kind, document.place, namespace)
            self.found[key] = (order, uid, located)

    def newest_of_all(self) -> str:
        return max(
            (_newest_in(msgspec.to_builtins(found[2].obj)) for found in self.found.values()), default=""
        )

    def sorted(self) -> tuple[Located[Any], ...]:
        return tuple(self.found[key][2] for key in sorted(self.found))


_LONG: Final = 1024
_DEVICE_GROUP: Final = ".resource.k8s.io"


def _slim(obj: T, kind: str) -> T:
    """Leave out long annotations of a Pod: nothing reads them, and ``kubectl apply`` alone keeps the whole object in one."""
    meta: Any = getattr(obj, "metadata", None)
    annotations = getattr(meta, "annotations", None)
    if kind != "Pod" or not annotations or all(len(text) <= _LONG for text in annotations.values()):
        return obj
    kept = {key: text if len(text) <= _LONG else "" for key, text in annotations.items()}
    slim: Any = msgspec.structs.replace(
        cast("Any", obj), metadata=msgspec.structs.replace(meta, annotations=kept)
    )
    return cast("T", slim)


class Inventory:
    """Everything an input held. Build it with :meth:`from_records`; it is not changed afterwards but for its memory.

    Attributes:
        texts: text of debugging endpoints, in the order read.
        zpages: /flagz and /statusz in their structured form.
        inputs: layout and files of every input.
        snapshots: changegen snapshots that were handed over instead of a capture.
        problems: everything that the sources complained of.
    """

    def __init__(self) -> None:
        self.texts: list[RawText] = []
        self.zpages: list[Document] = []
        self.inputs: list[InputSeen] = []
        self.snapshots: list[SnapshotFile] = []
        self.problems: list[Problem] = []
        self._documents: dict[str, list[Document]] = defaultdict(list)
        self._lists: dict[str, list[ListSeen]] = defaultdict(list)
        self._discovery: list[Document] = []
        self._versions: list[Document] = []
        self._configz: list[Document] = []
        self._decoded: dict[tuple[str, Any], tuple[Located[Any], ...]] = {}
        self._eager: dict[str, type[Any]] = {}
        self._kept: dict[str, _Kept] = {}
        self._mixed: dict[str, tuple[str, ...]] = {}
        self._apis: tuple[ServedApi, ...] | None = None

    @classmethod
    def from_records(
        cls, records: Iterable[object], eager: Mapping[str, type[Any]] | None = None
    ) -> Inventory:
        """Sort the records of one or more inputs; a record of an unknown type is an error of the caller.

        Args:
            records: what a source yields.
            eager: resource -> type, for resources to decode as they come: then the bytes of a large file need not be
                kept. :meth:`all` gives them in that type only.
        """
        inventory = cls()
        inventory._eager = dict(eager or {})
        for record in records:
            inventory._add(record)
        return inventory

    def _add(self, record: object) -> None:
        match record:
            case Document(kind=kind) if kind in DISCOVERY_KINDS:
                self._discovery.append(record)
            case Document(kind=kind) if kind == VERSION_INFO:
                self._versions.append(record)
            case Document(kind=kind) if kind == KUBELET_CONFIGZ:
                self._configz.append(record)
            case Document(kind="Flagz" | "Statusz"):
                self.zpages.append(record)
            case Document():
                resource = resource_name(record.group, record.kind)
                typ = self._eager.get(resource)
                if typ is None:
                    self._documents[resource].append(record)
                else:
                    self._keep(resource, record, typ)
            case ListSeen():
                self._lists[record.resource].append(record)
            case RawText():
                self.texts.append(record)
            case Problem():
                self.problems.append(record)
            case InputSeen():
                self.inputs.append(record)
            case SnapshotFile():
                self.snapshots.append(record)
            case _:
                raise TypeError(f"no record: {type(record).__name__}")

    # ------------------------------------------------------------------------------------------------------- objects

    def all(self, resource: str, typ: type[T]) -> tuple[Located[T], ...]:
        """Every object of a resource, decoded, each once, sorted by namespace and name.

        Args:
            resource: kubectl's spelling with the group (``pods``, ``resourceslices.resource.k8s.io``); objects of all
                API versions come, see ``Located.api_version``.
            typ: a struct with a ``metadata`` that has name, namespace and uid; unknown fields are passed over.

        An object is known by its namespace and name; of two readings the one with the higher resourceVersion stays, else
        the first, and two uids for one name are noticed: the input mixes readings of two times or clusters. One that
        cannot be decoded becomes a problem and hides no other.
        """
        wanted = self._eager.get(resource)
        if wanted is not None and wanted is not typ:
            raise TypeError(f"{resource} was decoded as {wanted.__name__}, not {typ.__name__}")
        key = (resource, typ)
        found = self._decoded.get(key)
        if found is None:
            if wanted is None:
                kept = _Kept()
                for document in self._documents.get(resource, ()):
                    self._decode(document, typ, kept)
            else:
                kept = self._kept.get(resource, _Kept())
            found = self._decoded[key] = kept.sorted()
            if kept.mixed:
                self._mixed[resource] = tuple(sorted(kept.mixed.values()))
        return cast("tuple[Located[T], ...]", found)

    def _keep(self, resource: str, document: Document, typ: type[Any]) -> None:
        kept = self._kept.setdefault(resource, _Kept())
        if resource in _LIVELY:
            kept.newest = max(kept.newest, _newest_in(document.data))
        self._decode(document, typ, kept)

    def _decode(self, document: Document, typ: type[Any], kept: _Kept) -> None:
        try:
            kept.add(document, _slim(document.decode(typ), document.kind))
        except DecodeProblem as error:
            self._complain(document.problem(error))

    def uids(self, resource: str, name: str) -> tuple[str, ...]:
        """UIDs under which a cluster-wide object of this name was seen, in the order read; one in a sound input."""
        found: dict[str, None] = {}
        for document in self._documents.get(resource, ()):
            try:
                meta = document.decode(_Identity).metadata
            except DecodeProblem:
                continue
            if meta is not None and meta.name == name and meta.uid:
                found[meta.uid] = None
        return tuple(found)

    def has(self, resource: str) -> bool:
        """Whether at least one object of the resource is in the input."""
        return bool(self._documents.get(resource)) or resource in self._kept

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources of which objects or lists were seen, sorted."""
        return tuple(sorted({*self._documents, *self._kept, *self._lists}))

    # --------------------------------------------------------------------------------------------------- what was read

    def listed(self, resource: str) -> bool:
        """Whether the resource was listed, be it empty or in some namespaces only: then absence means something.

        A single object in a file of its own is no list; layouts that write one file an object are known as lists to
        the reader of files.
        """
        return bool(self._lists.get(resource))

    def complete(self, resource: str) -> bool:
        """Whether the resource was listed in all namespaces, and no reading of it failed or was cut."""
        return self.listed(resource) and resource not in self.namespaces_read and self._whole(resource)

    def _whole(self, resource: str) -> bool:
        """Whether no reading of the resource failed or was cut."""
        return all(seen.complete for seen in self._lists.get(resource, ())) and not any(
            problem.failed and self._subject(problem) == resource for problem in self.problems
        )

    @property
    def kinds_read(self) -> tuple[str, ...]:
        """Every resource that was listed, sorted.

        Of resource.k8s.io only what was read whole: the scheduler weighs all slices, claims and classes against each
        other, so that one which could not be read makes every count of devices, and every absence, unknown.
        """
        return tuple(
            resource
            for resource in self.resources
            if self.listed(resource) and (not resource.endswith(_DEVICE_GROUP) or self._whole(resource))
        )

    @property
    def namespaces_read(self) -> dict[str, tuple[str, ...]]:
        """Resource -> namespaces, for resources that were listed in some namespaces only."""
        out: dict[str, tuple[str, ...]] = {}
        for resource, lists in sorted(self._lists.items()):
            spaces = {seen.namespace for seen in lists}
            if None not in spaces:
                out[resource] = tuple(sorted(space for space in spaces if space is not None))
        return out

    @property
    def unobserved(self) -> tuple[Unobserved, ...]:
        """What was tried and not read, or is not there; ``WANTED`` resources that no list shows included."""
        return self.unobserved_of(WANTED)

    def unobserved_of(self, wanted: Iterable[str]) -> tuple[Unobserved, ...]:
        """As :attr:`unobserved`, for a given choice of resources."""
        out: list[Unobserved] = []
        failed: set[str] = set()
        for problem in self.problems:
            reason = problem.unobserved_reason
            if not problem.failed and not (problem.reason is Reason.STATUS_ERROR and reason == "not-served"):
                continue
            what = self._subject(problem) or problem.place
            failed.add(what)
            out.append(
                Unobserved(
                    what=what,
                    reason=reason,
                    detail=_detail(problem),
                    place=problem.place,
                    failed=problem.failed,
                    remedy=problem.hint or _remedy(what, reason) or _mend(problem),
                )
            )
        for resource in wanted:
            if self.listed(resource) or resource in failed:
                continue
            served = self.served(resource)
            if served is False:
                out.append(
                    Unobserved(
                        what=resource,
                        reason="not-served",
                        detail=tr("The API server does not serve it, says its discovery"),
                    )
                )
            elif self.has(resource):
                out.append(
                    Unobserved(
                        what=resource,
                        reason="not-in-capture",
                        detail=tr("Single objects only; whether there are more is not known"),
                        remedy=_remedy(resource, "not-in-capture"),
                    )
                )
            else:
                out.append(
                    Unobserved(
                        what=resource, reason="not-in-capture", remedy=_remedy(resource, "not-in-capture")
                    )
                )
        unique = {(item.what, item.reason, item.place, item.detail): item for item in out}
        return tuple(unique[key] for key in sorted(unique))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Remarks on the input that lose nothing, sorted."""
        found = {
            Notice(place=problem.place, reason=str(problem.reason), detail=problem.detail)
            for problem in self.problems
            if not problem.failed and problem.reason is not Reason.STATUS_ERROR
        }
        found.update(
            Notice(
                place=places[0],
                reason="mixed-readings",
                detail=tr(
                    "{resource}: names with two uids: {n}; the input mixes readings of two times or two clusters, and the newer counts",
                    resource=resource,
                    n=len(places),
                ),
            )
            for resource, places in self._mixed.items()
        )
        return tuple(sorted(found, key=lambda notice: (notice.place, notice.reason, notice.detail)))

    @staticmethod
    def _subject(problem: Problem) -> str:
        return resource_name(problem.group, problem.kind) if problem.kind else ""

    # -------------------------------------------------------------------------------------- version, discovery, configz

    @property
    def versions(self) -> tuple[Located[VersionInfo], ...]:
        """Every answer of /version, in the order read."""
        return self._raw_documents(self._versions, VersionInfo)

    @property
    def configz(self) -> tuple[tuple[str, dict[str, Any], str], ...]:
        """(node, kubelet configuration, place) of every configz; the node is empty where nothing says."""
        out = []
        for document in self._configz:
            try:
                plain = document.plain()
            except DecodeProblem as error:
                self._complain(document.problem(error))
                continue
            inner = plain.get("kubeletconfig", plain)
            out.append((document.subject, inner if isinstance(inner, dict) else {}, document.place))
        return tuple(out)

    def _complain(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _raw_documents(self, documents: list[Document], typ: type[T]) -> tuple[Located[T], ...]:
        out = []
        for document in documents:
            try:
                out.append(
                    Located(
                        document.decode(typ),
                        document.api_version,
                        document.kind,
                        document.place,
                        document.namespace,
                    )
                )
            except DecodeProblem as error:
                self._complain(document.problem(error))
        return tuple(out)

    @property
    def apis(self) -> tuple[ServedApi, ...]:
        """Served group versions, sorted; resources without subresources where they were read."""
        if self._apis is None:
            self._apis = self._served()
        return self._apis

    @property
    def groups_complete(self) -> bool:
        """Whether the whole list of groups was read, so that the absence of one means something."""
        return any(document.kind in {"APIGroupList", "APIGroupDiscoveryList"} for document in self._discovery)

    def served(self, resource: str) -> bool | None:
        """Whether discovery shows the resource (kubectl's spelling); None: discovery does not tell."""
        name, _, group = resource.partition(".")
        versions = [api for api in self.apis if group_of(api.group_version) == group]
        if any(api.resources and any(found.name == name for found in api.resources) for api in versions):
            return True
        if not group:
            return None
        if not versions:
            return False if self.groups_complete else None
        return False if all(api.resources is not None for api in versions) else None

    def _served(self) -> tuple[ServedApi, ...]:
        preferred: dict[str, bool] = {}
        resources: dict[str, dict[str, ServedResource]] = {}

        def group(found: _ApiGroup) -> None:
            best = found.preferred_version.group_version if found.preferred_version else ""
            for version in found.versions or ():
                if version.group_version:
                    preferred[version.group_version] = preferred.get(version.group_version, False) or (
                        version.group_version == best
                    )

        for located in self._raw_documents(self._of_kind("APIGroupList"), _ApiGroupList):
            for found in located.obj.groups or ():
                group(found)
        for located_group in self._raw_documents(self._of_kind("APIGroup"), _ApiGroup):
            group(located_group.obj)
        for located_core in self._raw_documents(self._of_kind("APIVersions"), _CoreVersions):
            for version in located_core.obj.versions or ():
                preferred.setdefault(version, True)
        for located_list in self._raw_documents(self._of_kind("APIResourceList"), _ApiResourceList):
            listed = located_list.obj
            preferred.setdefault(listed.group_version, listed.group_version == "v1")
            table = resources.setdefault(listed.group_version, {})
            for resource in listed.resources or ():
                if "/" not in resource.name:
                    table[resource.name] = ServedResource(
                        name=resource.name, kind=resource.kind, namespaced=bool(resource.namespaced)
                    )
        for located_all in self._raw_documents(self._of_kind("APIGroupDiscoveryList"), _Discovery):
            for item in located_all.obj.items or ():
                name = item.metadata.name if item.metadata else ""
                for index, known in enumerate(item.versions or ()):
                    group_version = f"{name}/{known.version}" if name else known.version
                    preferred[group_version] = preferred.get(group_version, False) or index == 0
                    table = resources.setdefault(group_version, {})
                    for entry in known.resources or ():
                        table[entry.resource] = ServedResource(
                            name=entry.resource,
                            kind=entry.response_kind.kind if entry.response_kind else "",
                            namespaced=entry.scope == "Namespaced",
                        )
        return tuple(
            ServedApi(
                group_version=group_version,
                preferred=preferred[group_version],
                resources=tuple(found for _, found in sorted(resources[group_version].items()))
                if group_version in resources
                else None,
            )
            for group_version in sorted(preferred)
        )

    def _of_kind(self, kind: str) -> list[Document]:
        return [document for document in self._discovery if document.kind == kind]

    # ------------------------------------------------------------------------------------------------------------ times

    def newest_timestamp(self) -> str:
        """The newest time that an object carries, RFC 3339 UTC as written; empty if there is none.

        Leases, events and node conditions are renewed every few seconds, so they are looked at first; other objects
        only where none of these is there.
        """
        for resources in (_LIVELY, self.resources):
            newest = ""
            for resource in resources:
                if resource in self._kept:
                    newest = max(newest, self._kept[resource].newest)
                    if resource not in _LIVELY:
                        newest = max(newest, self._kept[resource].newest_of_all())
                for document in self._documents.get(resource, ()):
                    newest = max(newest, _newest_in(document.data))
            if newest:
                return newest
        return ""


_LIVELY: Final = (
    "leases.coordination.k8s.io",
    "events",
    "events.events.k8s.io",
    "nodes",
)
_TIME_FIELDS: Final = frozenset(
    {
        "creationTimestamp",
        "eventTime",
        "lastHeartbeatTime",
        "lastTimestamp",
        "lastTransitionTime",
        "renewTime",
        "startTime",
        "startedAt",
    }
)
_TIMES: Final = re.compile(
    rb'"(?:%b)"\s*:\s*"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"' % "|".join(sorted(_TIME_FIELDS)).encode()
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def _newest_in(data: Any) -> str:
    if isinstance(data, msgspec.Raw):
        return max(_TIMES.findall(bytes(data)), default=b"").decode()
    newest, stack = "", [data]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, str):
                    if key in _TIME_FIELDS and item > newest and _TIME.fullmatch(item):
                        newest = item
                elif item is not None:
                    stack.append(item)
        elif isinstance(value, list):
            stack.extend(value)
    return newest


def _detail(problem: Problem) -> str:
    if problem.namespace and problem.namespace not in problem.detail:
        return tr("namespace {namespace}: {detail}", namespace=problem.namespace, detail=problem.detail)
    return problem.detail


def _remedy(what: str, reason: str) -> str:
    if " " in what or "/" in what:
        return ""
    if reason == "forbidden":
        return tr("Grant the right to list {what}, then read again", what=what)
    if reason == "not-in-capture":
        plural = what.partition(".")[0]
        everywhere = " -A" if RESOURCES.get(plural, ("", "", True))[2] else ""
        return f"kubectl get {what}{everywhere} -o json"
    return ""


def _mend(problem: Problem) -> str:
    """What to do about a reading that failed, where neither the source nor the resource says it."""
    match problem.reason:
        case Reason.STATUS_ERROR if problem.unobserved_reason == "forbidden":
            return tr("Grant the right, then read again: changegen rbac prints what is needed")
        case Reason.STATUS_ERROR if problem.unobserved_reason == "error":
            return tr("Mend what answers with the error, then read again")
        case Reason.TOO_LARGE:
            return tr("Capture less at a time, each kind in a file of its own")
        case Reason.UNREADABLE:
            return tr("Make it readable, then read again")
        case Reason.UNSAFE_TAG | Reason.ALIAS_BOMB | Reason.ARCHIVE_UNSAFE:
            return tr("Capture it again, and find out who wrote this file")
        case Reason.SYNTAX | Reason.WRONG_TYPE | Reason.ENCODING:
            return tr("Mend the file at that place, or capture it again")
        case _:
            return ""


def by_name(found: Iterable[Located[T]]) -> Mapping[tuple[str, str], Located[T]]:
    """Index objects by namespace and name."""
    out: dict[tuple[str, str], Located[T]] = {}
    for located in found:
        meta: Any = getattr(located.obj, "metadata", None)
        out[located.namespace, getattr(meta, "name", "")] = located
    return out
