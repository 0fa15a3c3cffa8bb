"""The pods of a node as the API server lists them, and how little of each is kept: what a pod's
creator wrote is bounded by the size of an answer only.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from collector.sources.tenants.shares import fair
from collector.sources.trainings.ends import MAX_CONTAINERS
from collector.sources.trainings.kinds import Object
from collector.sources.trainings.owners import LABELS

MAX_PODS = 2048  # a kubelet runs 110 by default
MAX_NAMESPACES = 64  # that are asked for one by one
OVER = ("Succeeded", "Failed")
LIVE = ("Pending", "Running", "Unknown")


class ListError(OSError):
    """The API server's answer is no complete list: what was known goes on."""


def reduced(node: dict[str, Any]) -> dict[str, Any]:
    """Of an object that is decoded, where it is a pod, only what is looked at: so no more than one
    complete pod is in memory, with its environment and all else that its creator gave it.

    >>> reduced({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [1]}})
    {'metadata': {'name': 'a', 'labels': {}, 'ownerReferences': []}, 'spec': {}, 'status': {}}
    """
    if "metadata" not in node or "spec" not in node:
        return node
    metadata, status = _only(node["metadata"], *_METADATA), _only(node.get("status"), *_STATUS)
    for where in ("labels", "annotations"):
        if where in metadata:
            metadata[where] = _only(metadata[where], *LABELS)
    owners = _rows(metadata, "ownerReferences")
    metadata["ownerReferences"] = [one for one in owners if one.get("controller") is True][:1]
    if "containerStatuses" in status:
        status["containerStatuses"] = _rows(status, "containerStatuses")[:MAX_CONTAINERS]
    return {"metadata": metadata, "spec": _only(node["spec"], "subdomain"), "status": status}


_METADATA = (
    "namespace",
    "name",
    "uid",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
_STATUS = ("phase", "reason", "conditions", "containerStatuses")


class NodePods:
    """Lists pods of one node, by namespace where all together are more than an answer may be.

    ``ask`` raises OSError with EFBIG for an answer that is too large; ``cut`` is how many pods or,
    where these were not even counted, answers are left out of the last list, by namespace.
    """

    def __init__(self, ask: Callable[[str], Object], node: str) -> None:
        self._ask, self._node = ask, node
        self.cut: Counter[str] = Counter()

    def live(self, namespaces: Iterable[str]) -> list[Object]:
        """Those that run, or will. OSError where there is no complete list."""
        return self._list(OVER, namespaces)

    def over(self, namespaces: Iterable[str]) -> list[Object]:
        """Those that have ended and were not removed yet: they use no quota, so that a tenant may
        have any number.
        """
        return self._list(LIVE, namespaces)

    def _list(self, without: Iterable[str], namespaces: Iterable[str]) -> list[Object]:
        self.cut = Counter()
        try:
            found = self._asked("/api/v1/pods", without)
        except OSError as error:
            names = list(dict.fromkeys(namespaces))[:MAX_NAMESPACES]
            if error.errno != errno.EFBIG or not names:
                raise
            found = [pod for name in names for pod in self._of_namespace(name, without)]
        kept, cut = fair(found, namespace_of, MAX_PODS)
        self.cut.update(map(namespace_of, cut))
        return kept

    def _of_namespace(self, name: str, without: Iterable[str]) -> list[Object]:
        """None of a namespace whose pods alone are too much."""
        try:
            return self._asked(f"/api/v1/namespaces/{quote(name, safe='')}/pods", without)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            self.cut[name] += 1
            return []

    def _asked(self, path: str, without: Iterable[str]) -> list[Object]:
        """From the API server's memory (resourceVersion=0), as pages would not be."""
        terms = [f"spec.nodeName={self._node}", *(f"status.phase!={phase}" for phase in without)]
        selector = quote(",".join(terms), safe="")
        answer = self._ask(f"{path}?fieldSelector={selector}&resourceVersion=0")
        items, metadata = answer.get("items"), answer.get("metadata")
        cut = isinstance(metadata, Mapping) and bool(metadata.get("continue"))
        if not isinstance(items, list) or cut:
            raise ListError("the API server gave no complete list of this node's pods")
        return [one for one in items if isinstance(one, Mapping)]


def namespace_of(pod: Object) -> str:
    """Whose share of the list a pod uses."""
    metadata = pod.get("metadata")
    return str(metadata.get("namespace", "")) if isinstance(metadata, Mapping) else ""


def _only(node: object, *names: str) -> dict[str, Any]:
    return {k: node[k] for k in names if k in node} if isinstance(node, Mapping) else {}


def _rows(node: Object, name: str) -> list[Object]:
    rows = node.get(name)
    return [one for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []
