"""A proxy in front of the apiserver that misbehaves on request: 410, 429, 5xx, slow and cut off answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.controlplane.cluster import Cluster
from tests.controlplane.serving import Serving

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "te", "trailer"}


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    query: dict[str, str]

    @classmethod
    def of(cls, method: str, target: str) -> Request:
        """Take a request target apart."""
        parts = urlsplit(target)
        return cls(method, parts.path, {key: values[-1] for key, values in parse_qs(parts.query).items()})


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One misbehaviour.

    ``status`` answers in the apiserver's place, with a Status object of ``reason``; ``delay`` waits so many seconds
    first; ``cut`` breaks the connection after so many bytes of the real body; ``before`` is called first, for example
    to restart the apiserver.
    """

    status: int | None = None
    reason: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    cut: int | None = None
    before: Callable[[], None] | None = None


@dataclass
class _Rule:
    match: Callable[[Request], bool]
    fault: Fault
    left: int


class FaultProxy(Serving):
    """Speaks TLS with the apiserver's own certificate, so that a kubeconfig only needs another port.

    Client certificates end at the proxy: its upstream requests carry the client's token, or else the administrator's
    certificate.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.requests: list[Request] = []
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._upstream = ("127.0.0.1", cluster.port("kube-apiserver", cluster.running["kube-apiserver"][0]))
        self._authority = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
        self._administrator = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
        certificates = cluster.root / "fault-proxy"
        certificates.mkdir(exist_ok=True)
        self._administrator.load_cert_chain(*cluster.client_certificate(cluster.kubeconfig, certificates))
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cluster.pki / "apiserver.crt", cluster.pki / "apiserver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        super().__init__(server)

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, of: Path | None = None) -> Path:
        """A kubeconfig that goes through the proxy, otherwise as ``of`` (the administrator's when absent)."""
        source = of or self.cluster.kubeconfig
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
        document["clusters"][0]["cluster"]["server"] = self.url
        path = self.cluster.root / f"{source.stem}-through-proxy.kubeconfig"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        path.chmod(0o600)
        return path

    def on(self, match: str | Callable[[Request], bool], fault: Fault, *, times: int = 1) -> None:
        """Misbehave on the next ``times`` requests whose path is ``match``, or for which it is true."""
        chosen = match if callable(match) else lambda request: bool(request.path == match)
        with self._lock:
            self._rules.append(_Rule(chosen, fault, times))

    def _fault(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            for rule in self._rules:
                if rule.left > 0 and rule.match(request):
                    rule.left -= 1
                    return rule.fault
        return None

    def _ask(self, method: str, target: str, headers: dict[str, str], body: bytes | None) -> Any:
        context = self._authority if "authorization" in headers else self._administrator
        connection = http.client.HTTPSConnection(*self._upstream, timeout=60, context=context)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base's name
                """Say nothing."""

            def handle(self) -> None:
                # Clients that give up, or refuse the certificate, are the scenario, no trouble.
                with contextlib.suppress(OSError):
                    super().handle()

            def serve(self) -> None:
                fault = proxy._fault(Request.of(self.command, self.path)) or Fault()
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                if fault.before is not None:
                    fault.before()
                if fault.delay:
                    time.sleep(fault.delay)
                if fault.status is not None:
                    self.send(fault.status, _status_object(fault), fault.headers, None)
                    return
                headers = {
                    key.lower(): value
                    for key, value in self.headers.items()
                    if key.lower() not in {"host", *_HOP_BY_HOP}
                }
                try:
                    status, received, content = proxy._ask(self.command, self.path, headers, body)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                kept = {key: value for key, value in received if key.lower() not in _HOP_BY_HOP}
                self.send(status, content, {**kept, **fault.headers}, fault.cut)

            def send(self, status: int, content: bytes, headers: dict[str, str], cut: int | None) -> None:
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if cut is None:
                    self.wfile.write(content)
                    return
                self.wfile.write(content[:cut])
                self.wfile.flush()
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815 - the base's names

        return Handler


def _status_object(fault: Fault) -> bytes:
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fault.message or fault.reason,
        "reason": fault.reason,
        "code": fault.status,
    }
    return json.dumps(status).encode()


def continued(resource: str) -> Callable[[Request], bool]:
    """Matches the second and later pages of a listing of ``resource`` (its plural)."""
    return lambda request: request.path.rpartition("/")[2] == resource and "continue" in request.query


EXPIRED = Fault(
    status=410,
    reason="Expired",
    message="The provided continue parameter is too old to display a consistent list result.",
)
TOO_MANY = Fault(
    status=429, reason="TooManyRequests", message="too many requests", headers={"Retry-After": "1"}
)
