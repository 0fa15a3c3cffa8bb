"""The simulated cluster behind a server that answers over TLS with the permissions of the agent's
role.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from simulator.kubernetes import NODE, Cluster, Json, status, uid_of
from tests.collector.integrations.kubernetes.server import ApiServer

__all__ = ["NODE", "Cluster", "ClusterServer", "Json", "status", "uid_of"]


class ClusterServer(ApiServer):
    """The cluster over HTTPS; ``forbidden`` are plurals that the role may not get."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster, self.forbidden = cluster, frozenset[str]()

    def answer(
        self, method: str, path: str, token: str | None, form: str, body: Any
    ) -> tuple[int, dict[str, Any]]:
        """Lists and objects; nothing may be written."""
        status, document = super().answer(method, path, token, form, body)
        if status in (401, self.refuse) or method != "GET":
            return status, document
        plural = urlsplit(path).path.split("/")[-2]
        if plural in self.forbidden:
            return 403, {"kind": "Status", "message": f"{plural} is forbidden"}
        try:
            return 200, self.cluster.get(path)
        except OSError:
            return 404, {"kind": "Status", "message": "not found"}
