"""A server of a socket in a thread of its own, for as long as a ``with`` block lasts."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Self


class Serving:
    """Serves from the block's beginning to its end."""

    def __init__(self, server: socketserver.TCPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
