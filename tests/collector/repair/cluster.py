"""An API server with what a repair needs: nodes with managedFields, pods, Leases, and NVSentinel's
requests; merge patches with resourceVersions as RFC 7386 and the API conventions have them.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.collector.integrations.kubernetes.server import ApiServer

ERRS = "/apis/nvsentinel.nvidia.com/v1alpha1/externalremediationrequests"


class Cluster(ApiServer):
    """Objects by path."""

    def __init__(self, folder: Path, *names: str) -> None:
        super().__init__(folder)
        self.objects: dict[str, dict[str, Any]] = {}
        self.clock = 0
        self.expired = 0  # answers 410 to that many requests for the rest of a list
        for name in names:
            self.put(
                f"/api/v1/nodes/{name}",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}},
            )

    def put(self, path: str, made: dict[str, Any]) -> dict[str, Any]:
        """An object as it is from now on, with another version."""
        self.clock += 1
        made["metadata"]["resourceVersion"] = str(self.clock)
        made["metadata"].setdefault("uid", f"uid-{self.clock}")
        self.objects[path] = made
        return made

    def change(self, path: str, patch: dict[str, Any], manager: str) -> dict[str, Any]:
        """Merge, and note who owns `unschedulable` now."""
        made = _merged(copy.deepcopy(self.objects[path]), patch)
        if "unschedulable" in patch.get("spec", {}):
            fields: dict[str, Any] = {"f:spec": {"f:unschedulable": {}}}
            entry = {"manager": manager, "time": f"T{self.clock:04}", "fieldsV1": fields}
            made["metadata"]["managedFields"] = [entry]
        return self.put(path, made)

    def answer(
        self, method: str, path: str, token: str | None, form: str, body: Any
    ) -> tuple[int, dict[str, Any]]:
        """As the API server does."""
        self.requests.append(f"{method} {path}")
        if self.refuse:
            return self.refuse, {"kind": "Status", "message": "no"}
        url = urlsplit(path)
        query, path = parse_qs(url.query), url.path
        whole = path.removesuffix("/status")
        if method == "GET":
            return self._read(path, query)
        if method == "POST":
            key = f"{path}/{body['metadata']['name']}"
            return (409, {}) if key in self.objects else (201, self.put(key, body))
        if whole not in self.objects:
            return 404, {"kind": "Status", "message": "not found"}
        if method == "DELETE":
            return 200, self.objects.pop(whole)
        assert form == "application/merge-patch+json"
        version = body["metadata"].get("resourceVersion")
        if version and version != self.objects[whole]["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "reason": "Conflict"}
        return 200, self.change(whole, body, query["fieldManager"][0])

    def _read(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if path in self.objects:
            return 200, self.objects[path]
        items = [one for key, one in self.objects.items() if key.rpartition("/")[0] == path]
        for term in query.get("fieldSelector", [""])[0].split(","):
            field, _, value = term.partition("=")
            items = [one for one in items if not field or _matches(one, field, value)]
        first, limit = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["0"])[0])
        if first and self.expired:
            self.expired -= 1
            return 410, {"kind": "Status", "reason": "Expired"}
        page = items[first : first + limit] if limit else items
        more = first + len(page)
        token = {"continue": str(more)} if more < len(items) else {}
        return 200, {"kind": "List", "metadata": token, "items": page}


def _matches(one: Any, field: str, value: str) -> bool:
    """One term of a field selector: ``spec.nodeName=gpu01``, ``status.phase!=Failed``."""
    section, name = field.removesuffix("!").split(".")
    return bool((one.get(section, {}).get(name) == value) != field.endswith("!"))


def _merged(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for name, value in patch.items():
        if value is None:
            old.pop(name, None)
        elif isinstance(value, dict):
            old[name] = _merged(dict(old.get(name) or {}), value)
        else:
            old[name] = value
    return old
