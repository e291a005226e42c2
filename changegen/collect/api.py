"""The live cluster: the same records as from files, read with the official client in raw mode.

Only ``get`` and ``list`` are sent; Secrets are never asked for, ConfigMaps by name only. What is read stands in
:mod:`changegen.rbac`. Lists come in pages of 500; a list whose continue token expired starts again; 429 and 503 are
waited for as the server says. What cannot be read is a :class:`~changegen.collect.documents.Problem` with the
server's own words, never an empty list. Only a cluster that cannot be reached, or refuses everything, is an error.

The client is imported when a cluster is opened: it takes as long to import as the rest of a small run.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
from yaml import YAMLError

from changegen import __version__, rbac
from changegen.collect.documents import (
    KUBELET_CONFIGZ,
    VERSION_INFO,
    Document,
    InputSeen,
    ListSeen,
    Problem,
    RawText,
    Reason,
    Record,
)
from changegen.collect.layouts import Hints
from changegen.collect.records import Origin, read_json
from changegen.errors import ConnectError
from changegen.i18n import tr

__all__ = ["Cluster", "LiveOptions", "open_cluster", "read_live"]

PAGE: Final = 500
THREADS: Final = 4
MAX_RESTARTS: Final = 2
"""How often a list starts again after 410 Gone; then it is read in one piece."""
MAX_WAITS: Final = 4
MAX_WAIT_SECONDS: Final = 30.0
_DISCOVERY: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
SYSTEM: Final = "kube-system"
_OF_THE_CONTROL_PLANE: Final = frozenset(
    {"pods", "daemonsets.apps", "deployments.apps", "leases.coordination.k8s.io"}
)
"""What is worth reading in kube-system alone."""
_TOKEN_LIKE: Final = re.compile(r"[A-Za-z0-9+/_=.-]{32,}")


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster is reached, in kubectl's words."""

    context: str | None = None
    kubeconfig: str | None = None
    request_timeout: float = 30.0
    """Seconds for one request; 0 is no limit."""
    impersonate: str | None = None
    impersonate_group: str | None = None
    configz: bool = False
    """Ask every kubelet for its effective configuration; needs get nodes/proxy."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one request."""

    status: int
    """HTTP status; 0 when no answer came."""
    data: bytes = b""
    detail: str = ""
    """Why no answer came, or the server's message."""
    date: str = ""
    retry_after: float | None = None


class _Meta(msgspec.Struct, frozen=True, rename={"continue_": "continue"}):
    continue_: str = ""


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int = 0


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _NodeItem(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _FoundResource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    name: str = ""
    response_kind: _Kind | None = None


class _FoundVersion(msgspec.Struct, frozen=True, rename="camel"):
    version: str = ""
    group_version: str = ""
    resources: tuple[_FoundResource, ...] | None = None


class _FoundGroup(msgspec.Struct, frozen=True):
    metadata: _Named | None = None
    name: str = ""
    versions: tuple[_FoundVersion, ...] | None = None


class _Discovery(msgspec.Struct, frozen=True):
    """APIGroupDiscoveryList (items) or APIGroupList (groups) or APIVersions (versions)."""

    kind: str = ""
    items: tuple[_FoundGroup, ...] | None = None
    groups: tuple[_FoundGroup, ...] | None = None
    resources: tuple[_FoundResource, ...] | None = None


Served = dict[str, dict[str, frozenset[str] | None]]
"""group -> version -> resources; None where only the group list was read."""


def read_live(options: LiveOptions, *, progress: Callable[[str], None] | None = None) -> Iterator[Record]:
    """Yield the records of the live cluster; see :class:`Cluster` for what else a reading knows.

    Raises:
        ConnectError: The kubeconfig cannot be used, the cluster cannot be reached, or it refuses everything.
    """
    yield from open_cluster(options, progress=progress).records()


def open_cluster(options: LiveOptions, *, progress: Callable[[str], None] | None = None) -> Cluster:
    """Return the cluster of a kubeconfig context, or of the Pod that changegen runs in; nothing is sent yet.

    Raises:
        ConnectError: The kubeconfig, its context or its credential plugin cannot be used.
    """
    client, context, host = _client(options)
    return Cluster(client, options, context=context, host=host, progress=progress)


class Cluster:
    """A live cluster and the account of what was asked of it."""

    def __init__(
        self,
        client: Any,
        options: LiveOptions,
        *,
        context: str,
        host: str,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.context = context
        self.host = host
        self.captured_at = ""
        """The server's own time at the first answer, RFC 3339 UTC."""
        self._client = client
        self._options = options
        self._progress = progress or (lambda _: None)
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def requests(self) -> tuple[str, ...]:
        """Verb, path and count of every request so far, sorted."""
        with self._lock:
            return tuple(f"{what} {count}" for what, count in sorted(self._asked.items()))

    @property
    def description(self) -> str:
        """Where the cluster was read, without a credential."""
        if self.context:
            return tr("live cluster of the context {context}", context=self.context)
        return tr("live cluster, from inside")

    # ------------------------------------------------------------------------------------------------------- requests

    def get(
        self, path: str, *, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
    ) -> Answer:
        """Send one GET, waiting when the server says so; never raises for what the cluster answers."""
        waits = 0
        while True:
            answer = self._send("GET", path, query=query, accept=accept)
            busy = answer.status == 429 or (answer.status == 503 and answer.retry_after is not None)
            if not busy or waits >= MAX_WAITS:
                return answer
            waits += 1
            time.sleep(min(answer.retry_after if answer.retry_after is not None else 1.0, MAX_WAIT_SECONDS))

    def review(self, right: rbac.Right) -> bool | None:
        """Ask the cluster whether the reader has a right (SelfSubjectAccessReview); None: it does not say.

        This is the one request that is no GET; it stores nothing.
        """
        spec: dict[str, Any]
        if right.path:
            spec = {"nonResourceAttributes": {"verb": right.verb, "path": right.path}}
        else:
            attributes = {
                "verb": right.verb,
                "group": right.group,
                "resource": right.resource,
                "subresource": right.subresource,
                "name": right.name,
                "namespace": right.namespace,
            }
            spec = {"resourceAttributes": {k: v for k, v in attributes.items() if v or k == "group"}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self._send("POST", path, body=body)
        if answer.status == 0:
            raise ConnectError(answer.detail, where=self.host)
        try:
            told = msgspec.json.decode(answer.data)
            allowed = told["status"]["allowed"]
        except (msgspec.DecodeError, KeyError, TypeError):
            return None
        return bool(allowed)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        accept: str = "application/json",
        body: Any = None,
    ) -> Answer:
        from urllib3.exceptions import HTTPError

        with self._lock:
            self._asked[f"{method} {path}"] += 1
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._options.impersonate:
            headers["Impersonate-User"] = self._options.impersonate
        if self._options.impersonate_group:
            headers["Impersonate-Group"] = self._options.impersonate_group
        limit = self._options.request_timeout or None
        try:
            parameters = self._client.param_serialize(
                method,
                path,
                query_params=list(query),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response = self._client.call_api(*parameters, _request_timeout=(limit, limit) if limit else None)
            data: bytes = response.read()
        except (HTTPError, OSError, ValueError) as error:
            return Answer(status=0, detail=_transport(error, limit))
        told = response.headers
        retry = told.get("Retry-After", "")
        status: int = response.status
        message, after = ("", 0) if status < 400 else _message(data)
        wait: float | None = (
            float(retry) if re.fullmatch(r"\d{1,6}", retry) else float(after) if after else None
        )
        return Answer(
            status=status,
            data=data,
            detail=message or (f"HTTP {status}" if status >= 300 else ""),
            date=told.get("Date", ""),
            retry_after=wait,
        )

    # -------------------------------------------------------------------------------------------------------- reading

    def records(self) -> Iterator[Record]:
        """Yield everything that there is to read, in an order that does not depend on who answers first.

        Raises:
            ConnectError: No answer comes, or everything is refused.
        """
        version = self._first()
        yield from self._text_records(rbac.TEXTS[0], version)
        served, discovery, groups_read = self._discover()
        yield from discovery
        useful, refused = False, ""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="changegen") as pool:
            jobs = self._jobs(served, groups_read, pool)
            try:
                while jobs:
                    label, job = jobs.popleft()  # what was handed over is not held here
                    self._progress(label)
                    for record in job.result():
                        # /version and /readyz are for everybody
                        private = isinstance(record, RawText) and record.role != "readyz"
                        useful = useful or private or isinstance(record, ListSeen)
                        if isinstance(record, Problem) and record.code in {401, 403}:
                            refused = refused or record.detail
                        yield record
                if self._options.configz:
                    yield from self._configz(pool)
            finally:
                for _, job in jobs:
                    job.cancel()
        if refused and not useful:
            raise ConnectError(
                tr("the cluster refuses everything: {detail}", detail=refused),
                where=self.host,
                hint=tr("'changegen rbac' prints the rights that are needed"),
            )
        yield InputSeen(name=self.description, layout="live", files=())

    def _first(self) -> Answer:
        """Ask for /version: it tells whether the cluster can be reached at all."""
        answer = self.get("/version")
        if answer.status == 0:
            raise ConnectError(
                answer.detail,
                where=self.host,
                hint=tr("see whether 'kubectl version' reaches it with the same context"),
            )
        if answer.status == 401:
            raise ConnectError(
                tr("the cluster does not accept the credentials (401 Unauthorized)"),
                where=self.host,
                hint=tr("log in again: the client certificate or token may have expired"),
            )
        if 300 <= answer.status < 400:
            raise ConnectError(
                tr("it answers with a redirect ({status}), which is not followed", status=answer.status),
                where=self.host,
                hint=tr("see whether the kubeconfig's server is an API server"),
            )
        self.captured_at = _instant(answer.date)
        return answer

    def _discover(self) -> tuple[Served, list[Record], bool]:
        """Read what is served: two requests where the server aggregates, else one a group that is needed."""
        served: Served = {}
        records: list[Record] = []
        whole = True
        for path in ("/api", "/apis"):
            answer = self.get(path, accept=_DISCOVERY)
            if answer.status != 200:
                whole = False
                records.append(self._problem(path, answer))
                continue
            records += read_json(answer.data, Origin(place=path))
            found = _decoded(answer.data, _Discovery)
            if found is None:
                whole = False
            elif found.items is not None:
                for group in found.items:
                    name = group.metadata.name if group.metadata else ""
                    served[name] = {
                        v.version: frozenset(r.resource for r in v.resources or ())
                        for v in group.versions or ()
                    }
            elif path == "/api":
                served[""] = {"v1": None}
            else:
                for group in found.groups or ():
                    served[group.name] = {v.version: None for v in group.versions or ()}
        wanted = {resource.group for resource in rbac.RESOURCES}
        for group_name, versions in served.items():
            if group_name not in wanted:
                continue
            for version, resources in versions.items():
                if resources is None:
                    path = f"/apis/{group_name}/{version}" if group_name else f"/api/{version}"
                    answer = self.get(path)
                    if answer.status == 200:
                        records += read_json(answer.data, Origin(place=path))
                        listed = _decoded(answer.data, _Discovery)
                        if listed is not None:
                            versions[version] = frozenset(r.name for r in listed.resources or ())
                    else:
                        records.append(self._problem(path, answer))
        return served, records, whole

    def _jobs(
        self, served: Served, groups_read: bool, pool: ThreadPoolExecutor
    ) -> deque[tuple[str, Future[list[Record]]]]:
        jobs: deque[tuple[str, Future[list[Record]]]] = deque()
        openshift = "config.openshift.io" in served
        for resource in rbac.RESOURCES:
            version = _version_to_read(resource, served, groups_read=groups_read)
            if version is not None:
                jobs.append((resource.full_name, pool.submit(self._list, resource, version)))
            elif resource.where == "any":
                jobs.append((resource.full_name, pool.submit(lambda r: [_not_served(r)], resource)))
        maps = {**rbac.CONFIG_MAPS, **(rbac.OPENSHIFT_CONFIG_MAPS if openshift else {})}
        jobs.extend(
            (f"configmaps of {namespace}", pool.submit(self._config_maps, namespace, names))
            for namespace, names in maps.items()
        )
        jobs.extend((text.path, pool.submit(self._text, text)) for text in rbac.TEXTS[1:])
        return jobs

    def _list(self, resource: rbac.Resource, version: str) -> list[Record]:
        """Read one resource over all namespaces, or of kube-system where only that is allowed."""
        prefix = f"/apis/{resource.group}/{version}" if resource.group else f"/api/{version}"
        path = f"{prefix}/{resource.name}"
        pages, failure = self._pages(path, resource.full_name)
        records = self._listed(path, version, resource, pages, whole=failure is None)
        if failure is None:
            return records
        records.append(self._problem(path, failure, resource))
        if failure.status == 403 and not pages and resource.full_name in _OF_THE_CONTROL_PLANE:
            path = f"{prefix}/namespaces/{SYSTEM}/{resource.name}"
            pages, failure = self._pages(path, resource.full_name)
            records += self._listed(path, version, resource, pages, whole=failure is None, namespace=SYSTEM)
        return records

    def _pages(self, path: str, name: str) -> tuple[list[bytes], Answer | None]:
        """Return the pages of a list, and the answer that ended it early."""
        pages: list[bytes] = []
        restarts = 0
        token = ""
        while True:
            query: list[tuple[str, str]] = [] if restarts > MAX_RESTARTS else [("limit", str(PAGE))]
            if token:
                query.append(("continue", token))
            answer = self.get(path, query=tuple(query))
            if answer.status == 410 and token and restarts <= MAX_RESTARTS:
                restarts += 1
                pages, token = [], ""
                continue
            if answer.status != 200:
                return pages, answer
            page = _decoded(answer.data, _Page)
            pages.append(answer.data)
            if page is None or not page.metadata.continue_:
                return pages, None
            token = page.metadata.continue_
            self._progress(f"{name}: {len(pages) * PAGE}")

    @staticmethod
    def _listed(
        path: str,
        version: str,
        resource: rbac.Resource,
        pages: list[bytes],
        *,
        whole: bool,
        namespace: str | None = None,
    ) -> list[Record]:
        """Return the objects of a list's pages, and the list itself."""
        if not pages:
            return []
        hints = Hints(kind=resource.kind, group=resource.group, namespaced=resource.namespaced)
        records: list[Record] = []
        count = 0
        for number, data in enumerate(pages):
            place = path if len(pages) == 1 else f"{path} page {number + 1}"
            for record in read_json(data, Origin(place=place, hints=hints)):
                if isinstance(record, ListSeen):
                    count += record.count
                    whole = whole and record.complete
                else:
                    records.append(record)
        seen = ListSeen(
            group=resource.group,
            kind=resource.kind,
            api_version=f"{resource.group}/{version}" if resource.group else version,
            place=path,
            count=count,
            namespace=namespace,
            complete=whole,
        )
        return [*records, seen]

    def _config_maps(self, namespace: str, names: tuple[str, ...]) -> list[Record]:
        records: list[Record] = []
        answered = found = 0
        for name in names:
            path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
            answer = self.get(path)
            if answer.status == 200:
                records += read_json(answer.data, Origin(place=path, hints=Hints(namespace=namespace)))
                found += 1
            if answer.status in {200, 404}:
                answered += 1
            else:
                resource = rbac.Resource(name="configmaps", kind="ConfigMap", namespaced=True, why="")
                problem = self._problem(path, answer, resource)
                records.append(msgspec.structs.replace(problem, namespace=namespace, name=name))
        if answered == len(names):
            # Every name that changegen understands was asked for: that one is not there is an answer.
            records.append(
                ListSeen(
                    group="",
                    kind="ConfigMap",
                    api_version="v1",
                    place=f"/api/v1/namespaces/{namespace}/configmaps",
                    count=found,
                    namespace=namespace,
                )
            )
        return records

    def _text(self, text: rbac.Text) -> list[Record]:
        query = tuple((part, "") for part in text.query.split("&") if part)
        answer = self.get(text.path, query=query, accept="text/plain, application/json;q=0.5, */*;q=0.1")
        return list(self._text_records(text, answer))

    def _text_records(self, text: rbac.Text, answer: Answer) -> Iterator[Record]:
        # An unhealthy apiserver answers /readyz with 500 and the same list.
        unhealthy = text.role == "readyz" and answer.status == 500 and answer.data.startswith(b"[")
        if answer.status != 200 and not unhealthy:
            yield self._problem(text.path, answer)
        elif text.role == "version":
            try:
                raw = msgspec.json.decode(answer.data, type=msgspec.Raw)
            except msgspec.DecodeError:
                raise ConnectError(
                    tr("what answers at /version is no Kubernetes API server"),
                    where=self.host,
                    hint=tr("see whether the kubeconfig's server and proxy are right"),
                ) from None
            yield Document(api_version="", kind=VERSION_INFO, place=text.path, data=raw)
        else:
            told = answer.data.decode("utf-8", errors="replace")
            yield RawText(place=text.path, role=text.role, text=told, component="kube-apiserver")

    def _configz(self, pool: ThreadPoolExecutor) -> Iterator[Record]:
        answer = self.get("/api/v1/nodes", query=(("limit", str(PAGE)),))
        names: list[str] = []
        while answer.status == 200:
            page = _decoded(answer.data, _NodePage)
            if page is None:
                break
            names += [item.metadata.name for item in page.items or ()]
            if not page.metadata.continue_:
                break
            token = page.metadata.continue_
            answer = self.get("/api/v1/nodes", query=(("limit", str(PAGE)), ("continue", token)))
        if answer.status != 200:
            yield msgspec.structs.replace(self._problem("/api/v1/nodes", answer), kind="Node")
        for name, job in [(name, pool.submit(self.get, _configz_path(name))) for name in names]:
            told = job.result()
            path = _configz_path(name)
            if told.status != 200:
                yield msgspec.structs.replace(self._problem(path, told), name=name)
                continue
            try:
                raw = msgspec.json.decode(told.data, type=msgspec.Raw)
            except msgspec.DecodeError:
                yield Problem(
                    place=path, reason=Reason.SYNTAX, detail=tr("it is not valid JSON"), failed=True
                )
                continue
            yield Document(api_version="", kind=KUBELET_CONFIGZ, place=path, data=raw, subject=name)

    def _problem(self, path: str, answer: Answer, resource: rbac.Resource | None = None) -> Problem:
        """Return an answer that is none as a problem with the server's own words."""
        reason = Reason.STATUS_ERROR if answer.status else Reason.UNREADABLE
        kind, group = (resource.kind, resource.group) if resource else ("", "")
        hint = tr("'changegen rbac' prints the rights that are needed") if answer.status in {401, 403} else ""
        return Problem(
            place=path,
            reason=reason,
            detail=answer.detail,
            failed=answer.status != 404,
            kind=kind,
            group=group,
            code=answer.status or None,
            hint=hint,
        )


class _NodePage(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: tuple[_NodeItem, ...] | None = None


def _configz_path(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


def _decoded(data: bytes, typ: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=typ)
    except msgspec.MsgspecError:
        return None


def _version_to_read(resource: rbac.Resource, served: Served, *, groups_read: bool) -> str | None:
    """Return the best version that is served; None when the resource is not.

    Where discovery could not be read the best version is tried, and the answer tells.
    """
    versions = served.get(resource.group)
    if versions is None:
        return None if groups_read or resource.where != "any" else resource.versions[0]
    for version in resource.versions:
        if version in versions:
            names = versions[version]
            if names is None or resource.name in names:
                return version
    for version, names in versions.items():
        if version not in resource.versions and names is not None and resource.name in names:
            return version
    return None


def _not_served(resource: rbac.Resource) -> Problem:
    return Problem(
        place=f"/apis/{resource.group}",
        reason=Reason.STATUS_ERROR,
        detail=tr("the API server does not serve it"),
        failed=False,
        kind=resource.kind,
        group=resource.group,
        code=404,
    )


def _message(data: bytes) -> tuple[str, int]:
    """Return message and retryAfterSeconds of a Status body."""
    status = _decoded(data, _Status)
    if status is not None and status.message:
        return status.message, status.details.retry_after_seconds if status.details else 0
    text = data[:200].decode("utf-8", errors="replace").strip().splitlines()
    return (text[0] if text else ""), 0


def _instant(date: str) -> str:
    """Return the Date header, or the clock where the server sends none, as RFC 3339 in UTC."""
    try:
        moment = parsedate_to_datetime(date).astimezone(UTC)
    except (TypeError, ValueError):
        moment = datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _transport(error: Exception, limit: float | None) -> str:
    """Return in one sentence why no answer came."""
    from urllib3 import exceptions as u

    cause: BaseException = error
    while isinstance(cause, u.MaxRetryError) and cause.reason is not None:
        cause = cause.reason
    text = str(cause)
    if isinstance(cause, u.NewConnectionError | u.NameResolutionError):
        if isinstance(cause, u.NameResolutionError):
            return tr("the server's name cannot be resolved")
        if "refused" in text:
            return tr("the server refuses the connection: nothing listens there")
        return tr("no connection to the server: {why}", why=text.rpartition(": ")[2])
    if isinstance(cause, u.ConnectTimeoutError | u.ReadTimeoutError | u.TimeoutError):
        seconds = f"{limit:g}" if limit else "?"
        return tr("no answer within {seconds} s (--request-timeout)", seconds=seconds)
    if isinstance(cause, u.ProxyError):
        return tr("the proxy cannot be used: {why}", why=_first_line(text))
    if isinstance(cause, u.SSLError) or "certificate" in text.lower():
        return _tls(text)
    return tr("the connection broke: {why}", why=_first_line(text) or type(cause).__name__)


def _tls(text: str) -> str:
    low = text.lower()
    if "alert" in low and "expired" in low:
        return tr("the server says that the client certificate has expired")
    if "alert" in low and ("certificate" in low or "unknown ca" in low):
        return tr("the server does not accept the client certificate")
    if "has expired" in low:
        return tr("the server's certificate has expired")
    if "hostname mismatch" in low or "doesn't match" in low or "not valid for" in low:
        return tr("the server's certificate is for another name")
    if "self-signed" in low or "unable to get local issuer" in low:
        return tr("the server's certificate is not signed by the kubeconfig's certificate authority")
    return tr("TLS failed: {why}", why=_first_line(text))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return _TOKEN_LIKE.sub("…", lines[0])[:200] if lines else ""


# ----------------------------------------------------------------------------------------------------------- kubeconfig


def _client(options: LiveOptions) -> tuple[Any, str, str]:
    """Return an ApiClient, the context's name (empty inside a cluster) and the server's address."""
    import urllib3

    k8s: Any = import_module("kubernetes.client")
    config: Any = import_module("kubernetes.config")
    configuration = k8s.Configuration()
    context = ""
    inside = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not (options.kubeconfig or options.context)
    where = options.kubeconfig
    # What the library reports by logging becomes the error's text; the root logger stays as it is.
    with _CapturedLogs() as said:
        try:
            if inside and not _any_exists(_kubeconfig_location(options)):
                config.load_incluster_config(client_configuration=configuration)
            else:
                context = _load_kubeconfig(options, configuration)
        except config.ConfigException as error:
            raise ConnectError(_config_problem(str(error), options), where=where) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, YAMLError) as error:
            why = _first_line(str(error)) or type(error).__name__
            raise ConnectError(tr("the kubeconfig cannot be used: {why}", why=why), where=where) from error
    if said and not configuration.api_key and not configuration.cert_file:
        raise ConnectError(tr("no credentials: {why}", why=_first_line(said[0])), where=where)
    configuration.retries = urllib3.Retry(
        total=None, connect=1, read=0, redirect=0, status=0, other=0, raise_on_redirect=False
    )
    configuration.connection_pool_maxsize = THREADS
    if not configuration.verify_ssl:
        # the kubeconfig says so; kubectl does not warn either
        warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
    api = k8s.ApiClient(configuration)
    api.user_agent = f"changegen/{__version__}"
    api.set_default_header("Accept-Encoding", "gzip")
    return api, context, str(configuration.host)


def _load_kubeconfig(options: LiveOptions, configuration: Any) -> str:
    """Fill the client's configuration from a kubeconfig; returns the context's name."""
    kube_config: Any = import_module("kubernetes.config.kube_config")
    location = _kubeconfig_location(options)
    if not _any_exists(location):
        raise ConnectError(
            tr("there is no kubeconfig"),
            where=location,
            hint=tr("give --kubeconfig FILE, or a capture as INPUT"),
        )
    _hold_to_text(location)
    config = kube_config.KubeConfigMerger(location).config
    if config is None:
        raise ConnectError(tr("the kubeconfig is empty"), where=location)
    name = options.context or str(config["current-context"] or "")
    context = config["contexts"].get_with_name(name)["context"]
    user_name = context.safe_get("user")
    entry = (
        config["users"].get_with_name(user_name, safe=True)
        if user_name and config.safe_get("users")
        else None
    )
    if entry is not None and entry.safe_get("user"):
        cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
        _run_plugin(entry["user"], cluster)
    loader = kube_config.KubeConfigLoader(config_dict=config, active_context=name, config_base_path=None)
    loader.load_and_set(configuration)
    return name


def _kubeconfig_location(options: LiveOptions) -> str:
    default = str(Path("~/.kube/config").expanduser())
    return options.kubeconfig or os.environ.get("KUBECONFIG") or default


def _any_exists(location: str) -> bool:
    return any(Path(part).expanduser().exists() for part in location.split(os.pathsep) if part)


def _hold_to_text(location: str) -> None:
    """Refuse what is no text before the client's loader meets it, which tells an error's number or a codec.

    Raises:
        ConnectError: a part of the location is a folder, packed, or otherwise no text.
    """
    for part in location.split(os.pathsep):
        path = Path(part).expanduser()
        if path.is_dir():
            raise ConnectError(tr("it is a folder, a kubeconfig file is wanted"), where=part)
        if not path.is_file():
            continue
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConnectError(
                tr("it is no text, and a kubeconfig is YAML"),
                where=part,
                hint=tr("unpack it if it is packed"),
            ) from None
        except OSError as error:
            raise ConnectError(
                tr("it cannot be read: {problem}", problem=error.strerror), where=part
            ) from None


def _run_plugin(user: Any, cluster: Any) -> None:
    """Run the credential plugin of a kubeconfig user and put what it gives in its place.

    The client would run it too, but logs what goes wrong and goes on without credentials.
    """
    values: dict[str, Any] = user.value
    if "exec" not in values or "token" in values or "tokenFile" in values or "auth-provider" in values:
        return
    provider: Any = import_module("kubernetes.config.exec_provider").ExecProvider
    failures: Any = import_module("kubernetes.config").ConfigException
    plugin = user["exec"]
    name, version = str(plugin.safe_get("command") or ""), str(plugin.safe_get("apiVersion") or "")
    folder = str(Path(user.path).absolute().parent) if user.path else ""
    try:
        status = provider(plugin, folder, cluster).run()
    except (FileNotFoundError, PermissionError) as error:
        raise ConnectError(
            tr("the credential plugin {name} ({version}) is not installed", name=name, version=version),
            hint=_plugin_hint(version),
        ) from error
    except (failures, OSError, ValueError) as error:
        why = _first_line(str(error).removeprefix("exec: "))
        raise ConnectError(
            tr("the credential plugin {name} ({version}) failed: {why}", name=name, version=version, why=why),
            hint=_plugin_hint(version),
        ) from None
    del values["exec"]
    if status.get("token"):
        values["token"] = status["token"]
    elif status.get("clientCertificateData") and status.get("clientKeyData"):
        for given, wanted in (
            ("clientCertificateData", "client-certificate-data"),
            ("clientKeyData", "client-key-data"),
        ):
            values[wanted] = base64.b64encode(str(status[given]).encode()).decode()
    else:
        raise ConnectError(
            tr("the credential plugin {name} ({version}) gave no credentials", name=name, version=version),
            hint=_plugin_hint(version),
        )


def _plugin_hint(version: str) -> str:
    if version not in _EXEC_VERSIONS:
        return tr(
            "its API version is no longer supported: renew the kubeconfig, which now must say {versions}",
            versions=tr(" or ").join(_EXEC_VERSIONS),
        )
    return tr("install it, or log in with it again")


def _config_problem(text: str, options: LiveOptions) -> str:
    missing = re.search(r"Expected object with name (\S+) in \S*/contexts", text)
    if missing:
        return tr("the kubeconfig has no context {name}", name=missing[1])
    if "current-context" in text and not options.context:
        return tr("the kubeconfig has no current context; give --context NAME")
    return tr("the kubeconfig cannot be used: {why}", why=_first_line(text))


class _CapturedLogs:
    """Collects what the client logs while a kubeconfig is loaded."""

    def __enter__(self) -> list[str]:
        self.said: list[str] = []
        said = self.said

        class Collect(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage())

        self.handler = Collect(logging.ERROR)
        self.handlers = logging.root.handlers[:]
        logging.root.handlers[:] = [self.handler]
        return said

    def __exit__(self, *_: object) -> None:
        logging.root.handlers[:] = self.handlers
