"""What the running agent of a node says when it is asked: over its socket, or over
HTTP, within a deadline.

Named tuples, not dataclasses: those alone would take a tenth of a health check's time to import.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from collector.client import NOBODY, Access, get
from collector.control import SOCKET, request
from collector.integrations.policy import Policy

# an agent that is well answers within milliseconds; HealthCheckProgram is killed after 60 s
DEADLINE_S = 5.0
MAX_BYTES = 4 << 20
PATH = "/api/v1/health"


class SilentError(Exception):
    """The agent gave no answer that can be read: what there is to know of the node is unknown."""


class Problem(NamedTuple):
    """An open incident, as far as an integration needs it."""

    id: str
    severity: str
    action: str
    fault: str
    kind: str
    device: str
    name: str
    summary: str
    acknowledged: bool
    serial: str = ""


class Answer(NamedTuple):
    """``state`` is ok, problem or unknown; ``open`` has the ids of all open incidents, shown or
    not; ``parts`` maps (kind, id) of the devices that answer to their epoch, ``silent``
    has the others that are known.

    ``policy`` allows nothing where the answer came over HTTP, which anybody on
    the node could have given.
    """

    host: str
    state: str
    reason: str
    out_of_service: str = ""
    problems: tuple[Problem, ...] = ()
    open: frozenset[str] = frozenset()
    boot_id: str = ""
    simulated: str = ""
    parts: Mapping[tuple[str, str], str] = MappingProxyType({})
    silent: frozenset[tuple[str, str]] = frozenset()
    policy: Policy = Policy()
    document: Mapping[str, Any] = MappingProxyType({})

    @property
    def worst(self) -> str:
        """page, ticket, or empty where the node is out of service or has no open incident."""
        found = {one.severity for one in self.problems} if not self.out_of_service else set()
        return next((severity for severity in ("page", "ticket") if severity in found), "")


def ask(agent: str, deadline_s: float = DEADLINE_S, *, who: Access = NOBODY) -> Answer:
    """Ask at a URL (as ``who``), a socket, or the folder that a socket is in.

    SilentError says why there is no answer.
    """
    try:
        if agent.startswith(("http://", "https://")):
            return read(_get(agent, deadline_s, who))
        folder = Path(agent).parent if agent.endswith(f"/{SOCKET}") else Path(agent)
        return read(request(folder, {"command": "check"}, what="agent", timeout_s=deadline_s))
    except (OSError, ValueError) as error:
        raise SilentError(f"the agent does not answer: {error}") from error


def asked(agent: str, who: Access = NOBODY) -> Answer:
    """The agent's answer; unknown, with the reason, where there is none."""
    try:
        return ask(agent, who=who)
    except SilentError as error:
        return Answer(host=os.uname().nodename, state="unknown", reason=str(error))


def read(document: Mapping[str, Any]) -> Answer:
    """ValueError where it is no answer of an agent."""
    try:
        gates = document.get("gates")
        return Answer(
            host=str(document["host"]),
            state=_one_of(document["verdict"], ("ok", "problem", "unknown")),
            reason=str(document["reason"]),
            out_of_service=str(document["out_of_service"] or ""),
            problems=tuple(map(_problem, document["incidents"])),
            open=frozenset(map(str, document["open"])),
            boot_id=str(document.get("boot_id", "")),
            simulated=str(document.get("simulated") or ""),
            parts={
                (str(p["kind"]), str(p["id"])): str(p["epoch"]) for p in document.get("parts", ())
            },
            silent=frozenset((str(p["kind"]), str(p["id"])) for p in document.get("silent", ())),
            policy=Policy.of(gates) if isinstance(gates, Mapping) else Policy(),
            document=document,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an answer of a Tocsin agent: {error!r}") from error


def _problem(row: Mapping[str, Any]) -> Problem:
    return Problem(
        id=str(row["id"]),
        severity=str(row["severity"]),
        action=str(row["action"]),
        fault=str(row["class"]),
        kind=str(row["kind"]),
        device=str(row["device"]),
        name=str(row["name"]),
        summary=str(row["summary"]),
        acknowledged=row["acknowledged"] is True,
        serial=str(row.get("serial") or ""),
    )


def _one_of(value: object, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"expected {' or '.join(words)}, got {value!r}")
    return str(value)


def _get(url: str, deadline_s: float, who: Access) -> dict[str, Any]:
    document = json.loads(
        get(url.rstrip("/") + PATH, who, timeout_s=deadline_s, max_bytes=MAX_BYTES)
    )
    if not isinstance(document, dict):
        raise ValueError("expected one JSON object")  # noqa: TRY004 - the server is wrong, not a caller
    return document
