"""Slurm's maintenance reservations as the agent's own maintenance: operators
are not paged for work that they planned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collector.integrations.agent_client import Answer
from collector.integrations.scheduler import MAINTAINED, NodeState

REASON, USER = "in a maintenance reservation of Slurm", "slurm"
# Renewed at each check. Health checks may stop while a node is worked on; nothing stays silent
# forever because of that.
MAX_S = 86400.0

Tell = Callable[[dict[str, Any]], object]


def follow(state: NodeState, answer: Answer, tell: Tell) -> str:
    """Take the node out of service or bring it back, as the controller has it; what changed,
    empty where nothing did.

    What people took out themselves is theirs to bring back.
    """
    maintained = bool(state.words & MAINTAINED)
    request = {"command": "maintenance", "on": maintained, "device": "", "user": USER}
    if maintained and answer.out_of_service in ("", REASON):
        tell(request | {"reason": REASON, "seconds": MAX_S})
        return "" if answer.out_of_service else f"out of service: {REASON}"
    if not maintained and answer.out_of_service == REASON:
        tell(request)
        return "back in service: its maintenance reservation is over"
    return ""
