"""When the agent is told of Slurm's maintenance, and when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from collector.integrations.agent_client import Answer
from collector.integrations.maintenance import REASON, follow
from collector.integrations.scheduler import NodeState

MAINTAINED, IDLE = NodeState(frozenset({"IDLE", "MAINT"})), NodeState(frozenset({"IDLE"}))
BEGAN = {
    "command": "maintenance",
    "on": True,
    "device": "",
    "user": "slurm",
    "reason": REASON,
    "seconds": 86400.0,
}
ENDED = {"command": "maintenance", "on": False, "device": "", "user": "slurm"}


@pytest.mark.parametrize(
    ("state", "out", "reported", "said"),
    [
        (MAINTAINED, "", [BEGAN], f"out of service: {REASON}"),
        (MAINTAINED, REASON, [BEGAN], ""),
        (MAINTAINED, "new firmware", [], ""),
        (IDLE, REASON, [ENDED], "back in service: its maintenance reservation is over"),
        (IDLE, "new firmware", [], ""),
        (IDLE, "", [], ""),
    ],
    ids=[
        "it begins",
        "it goes on",
        "people began before",
        "it is over",
        "people are at work",
        "nothing",
    ],
)
def test_maintenance_of_slurm_is_the_agents_own(
    state: NodeState, out: str, reported: list[Any], said: str
) -> None:
    """It is renewed while it lasts, so that one of a week pages nobody on its second day; what
    people declared is theirs to end.
    """
    requests: list[dict[str, Any]] = []
    assert (
        follow(state, Answer("gpu01", "unknown", "", out_of_service=out), requests.append) == said
    )
    assert requests == reported
