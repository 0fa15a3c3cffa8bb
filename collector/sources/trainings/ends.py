"""How containers of a pod ended, as the API server has it: gone with the pod, so it is stored when
it is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from collector.foreign_text import printable
from collector.sources.trainings.kinds import Object, number
from pipeline.observation import Value

MAX_CONTAINERS = 64
MAX_WORD = 64
DISRUPTED = "DisruptionTarget"  # condition of a pod that was ended for a reason outside it


class End(NamedTuple):
    """``key`` is that of one end of one container; ``time_ns`` unix, 0 where it is not said."""

    key: tuple[str, str, int]
    time_ns: int
    facts: Mapping[str, Value]


def ends_of(pod: Object) -> Iterator[End]:
    """Ends of a pod's containers: the present one, and the last before a restart."""
    metadata, status = _mapping(pod.get("metadata")), _mapping(pod.get("status"))
    about: dict[str, Value] = {
        "reason": _word(status.get("reason")),
        "disruption": next(
            (
                _word(one.get("reason"))
                for one in _rows(status, "conditions")
                if one.get("type") == DISRUPTED and one.get("status") == "True"
            ),
            "",
        ),
        "deleted": "deletionTimestamp" in metadata,
    }
    for container in _rows(status, "containerStatuses")[:MAX_CONTAINERS]:
        restarts = number(container.get("restartCount"))
        states = (("lastState", restarts - 1), ("state", restarts))
        for state, count in states:
            ended = _mapping(_mapping(container.get(state)).get("terminated"))
            if ended:
                key = (_word(metadata.get("uid")), _word(container.get("name")), count)
                yield End(key, _time_ns(ended.get("finishedAt")), _facts(about, container, ended))


def _facts(about: Mapping[str, Value], container: Object, ended: Object) -> dict[str, Value]:
    """The container's own reason goes first: OOMKilled says more than Failed."""
    facts: dict[str, Value] = {
        **about,
        "container": _word(container.get("name")),
        "reason": _word(ended.get("reason")) or about["reason"],
        "pod_reason": about["reason"],
        "exit_code": number(ended.get("exitCode"), -1),
        "signal": number(ended.get("signal"), 0),
    }
    return {k: v for k, v in facts.items() if k == "exit_code" or v not in ("", False, 0)}


def _time_ns(value: object) -> int:
    try:
        return int(datetime.fromisoformat(str(value)).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


def _rows(node: Object, name: str) -> list[Object]:
    rows = node.get(name)
    return [one for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []


def _word(value: object) -> str:
    return printable(value, MAX_WORD).strip() if isinstance(value, str) else ""


def _mapping(node: Any) -> Object:
    return node if isinstance(node, Mapping) else {}
