"""Ways to a cluster's servers: by the addresses of its manifests, and by whichever apiserver is ready."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import socketserver
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.controlplane.serving import Serving


class _Leading(Serving):
    """Leads each connection to the loopback port that ``lead`` gives for it; None: nowhere."""

    def __init__(self, lead: Callable[[Any], int | None], port: int = 0) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    chosen = lead(self)
                    if chosen is not None:
                        with socket.create_connection(("127.0.0.1", chosen), 10) as upstream:
                            upstream.settimeout(None)
                            _join(self.connection, upstream)

        class Threads(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        super().__init__(Threads(("127.0.0.1", port), Handler))


class Tunnel(_Leading):
    """A CONNECT proxy that leads ``host:port`` of ``places`` to a loopback port, and refuses everything else."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = dict(places)
        super().__init__(self._lead)

    def env(self) -> dict[str, str]:
        """The environment in which the programs of ``go/`` use the tunnel; loopback addresses are reached without it."""
        return {"CONTROLPLANE_TUNNEL": f"http://127.0.0.1:{self.port}"}

    def _lead(self, handler: Any) -> int | None:
        words = handler.rfile.readline().decode("latin-1").split()
        while handler.rfile.readline().strip():
            pass
        port = self.places.get(words[1]) if len(words) > 1 and words[0] == "CONNECT" else None
        if port is None or not listens(port):
            handler.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return None
        handler.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return port


class Balancer(_Leading):
    """The controlPlaneEndpoint of several apiservers: the first that says it is ready; none is asked twice a second."""

    def __init__(self, ports: Sequence[int], port: int) -> None:
        self._ports = list(ports)
        self._seen: dict[int, tuple[float, bool]] = {}
        super().__init__(lambda _: next(filter(self._ready, self._ports), None), port)

    def _ready(self, port: int) -> bool:
        asked, ready = self._seen.get(port, (0.0, False))
        if time.monotonic() - asked < 0.5:
            return ready
        # Whoever it is, only its word counts here.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
        try:
            connection.request("GET", "/readyz")
            ready = connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            ready = False
        finally:
            connection.close()
        self._seen[port] = (time.monotonic(), ready)
        return ready


def listens(port: int) -> bool:
    """Whether something listens on a loopback port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _join(one: socket.socket, other: socket.socket) -> None:
    ends = {one: other, other: one}
    while True:
        for end in select.select(list(ends), [], [])[0]:
            data = end.recv(65536)
            if not data:
                return
            ends[end].sendall(data)
