"""The API server, reached with the pod's own identity over HTTPS: three requests of the agent, and
those of `tocsin repair`.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
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
Keep = Callable[[dict[str, Any]], Any]  # takes the place of an object as soon as it is decoded
OK, CREATED, CONFLICT, MISSING, GONE = 200, 201, 409, 404, 410
PAGE, MAX_RESTARTS = 100, 3  # objects of a list in one answer; a Node may have 80 kB


class ApiError(OSError):
    """The API server refused, or its answer was no answer; EFBIG: it was too large."""


class ExpiredError(ApiError):
    """The rest of a list is not to be had any more (410): it must be read from its begin."""


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
        also = (CONFLICT,)
        return (
            self._ask("POST", "/api/v1/namespaces/default/events", event, also=also)[0] not in also
        )

    def get(self, path: str, keep: Keep | None = None) -> dict[str, Any]:
        """An object or a list, with what is kept of each object in it."""
        return self._ask("GET", path, keep=keep)[1]

    def items(self, path: str, keep: Keep | None = None) -> list[dict[str, Any]]:
        """All objects of a list, page by page, or where a page is too large object by object: the
        size of a pod is its creator's choice. ``keep`` leaves ``items``, ``metadata``,
        ``continue`` and ``message`` where they are.
        """
        try:
            return self._listed(path, keep, PAGE)
        except ApiError as error:
            if error.errno != errno.EFBIG:
                raise
        return self._listed(path, keep, 1)

    def _listed(self, path: str, keep: Keep | None, limit: int) -> list[dict[str, Any]]:
        for _ in range(MAX_RESTARTS):
            with suppress(ExpiredError):
                return self._pages(path, keep, limit)
        return self._pages(path, keep, limit)

    def _pages(self, path: str, keep: Keep | None, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        more, joint = "", "&" if "?" in path else "?"
        while True:
            page = self._ask("GET", f"{path}{joint}limit={limit}{more}", keep=keep)[1]
            found += page.get("items") or ()
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            more = f"&continue={quote(str(token), safe='')}"

    def merge(self, path: str, body: Mapping[str, Any]) -> bool:
        """Change an object in our name; False where it has changed since it was read (a
        resourceVersion in the body that is older).
        """
        path = f"{path}?fieldManager={MANAGER}"
        return self._ask("PATCH", path, body, MERGE, also=(CONFLICT,))[0] != CONFLICT

    def create(self, path: str, body: Mapping[str, Any]) -> bool:
        """False where there is one of that name."""
        return self._ask("POST", path, body, also=(CONFLICT,))[0] != CONFLICT

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
        *,
        keep: Keep | None = None,
    ) -> tuple[int, dict[str, Any]]:
        where = urlsplit(self._address)
        connection = http.client.HTTPSConnection(
            where.hostname or "", where.port or 443, timeout=DEADLINE_S, context=self._context()
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
                method,
                where.path.rstrip("/") + path,  # a proxy has a path of its own for each cluster
                json.dumps(body) if body is not None else None,
                headers,
            )
            answer = connection.getresponse()
            content = answer.read(MAX_BYTES + 1)
        except http.client.HTTPException as error:
            raise ApiError(f"{method} {path}: {error!r}") from error
        except OSError as error:  # which does not name whom it could not reach
            raise ApiError(f"{method} {self._address}{path}: {error}") from error
        finally:
            connection.close()
        if len(content) > MAX_BYTES:
            raise ApiError(errno.EFBIG, f"{method} {path}: more than {MAX_BYTES >> 20} MiB")
        return answer.status, _document(content, answer.status, f"{method} {path}", also, keep)

    def _context(self) -> ssl.SSLContext:
        file = self._settings.ca_file
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:  # which does not name the file
            what = f"gates.kubernetes.ca_file {file}"
            raise ApiError(f"{what}: {error.strerror or error}") from error


def _document(
    content: bytes, status: int, what: str, also: tuple[int, ...] = (), keep: Keep | None = None
) -> dict[str, Any]:
    try:
        document = json.loads(content, object_hook=keep)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ApiError(f"{what}: HTTP {status} with no JSON object")
    if status not in (OK, CREATED, *also):
        kind = ExpiredError if status == GONE else ApiError
        raise kind(f"{what}: HTTP {status} {str(document.get('message', ''))[:300]}")
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
