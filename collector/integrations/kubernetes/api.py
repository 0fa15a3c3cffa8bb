"""The API server, reached with the pod's own identity over HTTPS: three requests of the agent, and
those of `tocsin repair`.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from collector.config.gates import Kubernetes

MANAGER = "tocsin"  # in whose name fields are written (managedFields)
DEADLINE_S = 10.0
MAX_BYTES = 8 << 20  # a Node with many images is some hundred kB
# conditions are merged by their type: nobody else's is touched
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"  # RFC 7386: a list replaces a list
OK, CREATED, CONFLICT, MISSING = 200, 201, 409, 404


class ApiError(OSError):
    """The API server refused, or its answer was no answer."""


class Api:
    """One request per connection: they are minutes apart, and the token and certificates may
    have been rotated since.
    """

    def __init__(self, settings: Kubernetes, environ: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._address = settings.api or _in_cluster(environ)

    def node(self, name: str) -> dict[str, Any]:
        """The Node object."""
        return self._ask("GET", f"/api/v1/nodes/{quote(name)}")[1]

    def patch_status(self, name: str, condition: Mapping[str, Any]) -> dict[str, Any]:
        """The Node object with this condition in its status."""
        body = {"status": {"conditions": [condition]}}
        return self._ask("PATCH", f"/api/v1/nodes/{quote(name)}/status", body, STRATEGIC)[1]

    def create_event(self, event: Mapping[str, Any]) -> bool:
        """False where it was written before, by an earlier life of this agent."""
        return self._ask("POST", "/api/v1/namespaces/default/events", event)[0] != CONFLICT

    def get(self, path: str) -> dict[str, Any]:
        """An object or a list."""
        return self._ask("GET", path)[1]

    def merge(self, path: str, body: Mapping[str, Any]) -> bool:
        """Change an object in our name; False where it has changed since it was read (a
        resourceVersion in the body that is older).
        """
        return self._ask("PATCH", f"{path}?fieldManager={MANAGER}", body, MERGE)[0] != CONFLICT

    def create(self, path: str, body: Mapping[str, Any]) -> bool:
        """False where there is one of that name."""
        return self._ask("POST", path, body)[0] != CONFLICT

    def delete(self, path: str) -> None:
        """One that is gone already is fine."""
        self._ask("DELETE", path, also=(MISSING,))

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        form: str = "application/json",
        also: tuple[int, ...] = (),
    ) -> tuple[int, dict[str, Any]]:
        where = urlsplit(self._address)
        context = ssl.create_default_context(cafile=self._settings.ca_file)
        connection = http.client.HTTPSConnection(
            where.hostname or "", where.port or 443, timeout=DEADLINE_S, context=context
        )
        token = Path(self._settings.token_file).read_text(encoding="ascii").strip()
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": form,
            "User-Agent": "tocsin",
        }
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, headers
            )
            answer = connection.getresponse()
            content = answer.read(MAX_BYTES)
        except http.client.HTTPException as error:
            raise ApiError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        return answer.status, _document(content, answer.status, f"{method} {path}", also)


def _document(content: bytes, status: int, what: str, also: tuple[int, ...] = ()) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ApiError(f"{what}: HTTP {status} with no JSON object")
    if status not in (OK, CREATED, CONFLICT, *also):
        raise ApiError(f"{what}: HTTP {status} {str(document.get('message', ''))[:300]}")
    return document


def _in_cluster(environ: Mapping[str, str]) -> str:
    """What every container knows of the API server (kubernetes.io, "Accessing the
    Kubernetes API from a Pod").
    """
    host, port = (
        environ.get("KUBERNETES_SERVICE_HOST", ""),
        environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    if not host:
        raise ApiError("no API server: not in a pod, and gates.kubernetes.api is not set")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
