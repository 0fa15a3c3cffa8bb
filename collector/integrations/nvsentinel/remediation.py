"""NVSentinel's hand-over of a node: an ExternalRemediationRequest releases it, and what becomes of
it is written into the request (NVIDIA/NVSentinel, ADR-040).

NVSentinel drains; we act only while its taint and its label both hold, and remove neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from collector.integrations.kubernetes.nodes import Nodes
from collector.integrations.scheduler import OURS, CannotAskError, NodeState

REQUESTS = "/apis/nvsentinel.nvidia.com/v1alpha1/externalremediationrequests"
CLAIM = "tocsin/claim"
TAINT = "nvsentinel.nvidia.com/external-remediation"
LABEL, RELEASED = "nvsentinel.dgxc.nvidia.com/managed", "false"
OWNERSHIP, COMPLETE = "NVSentinelOwnershipReleased", "ExternalRemediationComplete"


class Remediation(Nodes):
    """Implements Scheduler. To drain is to claim a request by an annotation, once NVSentinel has
    released its node.
    """

    def node(self, name: str) -> NodeState:
        """Drained while our claim, the taint and the label all hold."""
        known, request = super().node(name), self._request(name)
        words = known.words - {"DRAIN"}
        claim = _claim(request) if request is not None else ""
        if request is None:
            return NodeState(words, refused=f"NVSentinel has not released {name}")
        if not claim:
            return NodeState(words)
        return NodeState(words | {"DRAIN"}, claim, str(request["metadata"].get("uid", "")))

    def drained(self) -> dict[str, str]:
        """Nodes whose requests we have claimed."""
        claims = ((_node_of(one), _claim(one)) for one in self._open())
        return {node: claim for node, claim in claims if claim}

    def drain(self, node: str, reason: str) -> None:
        """Claim the request. CannotAskError where NVSentinel has not released the node."""
        request = self._request(node)
        if request is None:
            raise CannotAskError(f"NVSentinel has not released {node}")
        self._write(request, {"annotations": {CLAIM: reason}}, "", {})

    def resume(self, node: str) -> None:
        """Report success; NVSentinel takes the node back and removes taint and label."""
        request = self._request(node)
        if request is None:
            raise CannotAskError(f"no ExternalRemediationRequest for {node} any more")
        known = [
            c for c in request.get("status", {}).get("conditions", ()) if c["type"] != COMPLETE
        ]
        done = {
            "type": COMPLETE,
            "status": "True",
            "reason": "RemediationSucceeded",
            "message": "repaired and checked by tocsin",
            "lastTransitionTime": _now(),
        }
        self._write(request, {}, "/status", {"status": {"conditions": [*known, done]}})

    def _write(
        self, request: Mapping[str, Any], metadata: dict[str, Any], part: str, body: dict[str, Any]
    ) -> None:
        version = {"resourceVersion": request["metadata"]["resourceVersion"]}
        path = f"{REQUESTS}/{quote(request['metadata']['name'])}{part}"
        if not self._done(lambda api: api.merge(path, body | {"metadata": version | metadata})):
            raise CannotAskError("the request was changed by someone else meanwhile")

    def _open(self) -> Iterator[dict[str, Any]]:
        """Requests that are released and not reported as done."""
        for one in self._items(REQUESTS, _kept):
            if _condition(one, OWNERSHIP) == "True" and _condition(one, COMPLETE) != "True":
                yield one

    def _request(self, node: str) -> dict[str, Any] | None:
        """The open one of a node whose taint and label agree."""
        found = self._get(f"/api/v1/nodes/{quote(node)}")
        if found["metadata"].get("labels", {}).get(LABEL) != RELEASED:
            return None
        taints = found.get("spec", {}).get("taints") or ()
        names = {taint.get("value") for taint in taints if taint.get("key") == TAINT}
        mine = (one for one in self._open() if _node_of(one) == node)
        return next((one for one in mine if one["metadata"]["name"] in names), None)


def _kept(one: dict[str, Any]) -> dict[str, Any]:
    """Who owns its fields is half of a request."""
    return {name: value for name, value in one.items() if name != "managedFields"}


def _node_of(request: Mapping[str, Any]) -> str:
    return str(request.get("spec", {}).get("healthEvent", {}).get("nodeName", ""))


def _condition(request: Mapping[str, Any], kind: str) -> str:
    conditions = request.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "Unknown")


def _claim(request: Mapping[str, Any]) -> str:
    claim = str(request["metadata"].get("annotations", {}).get(CLAIM, ""))
    return claim if claim.startswith(OURS) else ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
