"""A small HTTPS client of an apiserver, with the credentials of a kubeconfig that kubeadm wrote."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


class ApiError(RuntimeError):
    """The apiserver answered with a failure; ``code`` is the HTTP status."""

    def __init__(self, method: str, path: str, code: int, message: str) -> None:
        super().__init__(f"{method} {path}: {code} {message}")
        self.code = code
        self.message = message


class Api:
    """Requests with one identity. Each request has its own connection, so that a restarted apiserver is no surprise."""

    def __init__(self, kubeconfig: Path, timeout: float = 30) -> None:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self._host, self._port = str(address.hostname), int(address.port or 443)
        self._timeout = timeout
        self._headers: dict[str, str] = {}
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pem:
                pem.write(base64.b64decode(user["client-certificate-data"]))
                pem.write(base64.b64decode(user["client-key-data"]))
                pem.flush()
                self._context.load_cert_chain(pem.name)
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, bytes]:
        """Send one request and return status and body; raises OSError when there is no answer."""
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._context
        )
        try:
            payload = None if body is None else json.dumps(body)
            headers = {
                "Accept": accept,
                **self._headers,
                **({} if body is None else {"Content-Type": content_type}),
            }
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """Send one request and return the decoded JSON; raises ApiError for a status of 400 or more."""
        status, answer = self.raw(method, path, body, content_type)
        if status >= 400:
            try:
                message = str(json.loads(answer).get("message"))
            except (ValueError, AttributeError):
                message = answer.decode(errors="replace")
            raise ApiError(method, path, status, message)
        return json.loads(answer) if answer.strip() else None

    def get(self, path: str) -> Any:
        """GET as JSON."""
        return self.request("GET", path)

    def items(self, path: str) -> list[Any]:
        """GET a list, and return its items."""
        return list(self.get(path)["items"])

    def find(self, path: str) -> Any:
        """GET, or None for 404."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def text(self, path: str) -> str:
        """GET as text; raises ApiError."""
        status, answer = self.raw("GET", path, accept="*/*")
        if status >= 400:
            raise ApiError("GET", path, status, answer.decode(errors="replace"))
        return answer.decode()

    def post(self, path: str, body: Any) -> Any:
        """POST."""
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> Any:
        """PUT."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any) -> Any:
        """PATCH with a JSON merge patch."""
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> Any:
        """DELETE; a missing object is no error."""
        try:
            return self.request("DELETE", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def answers(self, path: str = "/readyz") -> bool:
        """Whether ``path`` answers 200 now."""
        try:
            return self.raw("GET", path, accept="*/*")[0] == 200
        except (OSError, http.client.HTTPException):
            return False
