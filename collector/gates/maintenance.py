"""Slurm's maintenance reservations as the agent's own maintenance: whoever planned them is not paged by what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collector.gates.asking import Answer
from collector.gates.controller import MAINTAINED, NodeState

REASON, USER = "in a maintenance reservation of Slurm", "slurm"
LONGEST_S = 86400.0  # health checks may stop while a node is worked on; nothing stays silent for ever because of that

Tell = Callable[[dict[str, Any]], object]


def follow(state: NodeState, answer: Answer, tell: Tell) -> str:
    """Take the node out of service or bring it back, as the controller has it; what was done, empty where nothing was.

    What people took out themselves is theirs to bring back.
    """
    maintained = bool(state.words & MAINTAINED)
    if maintained and not answer.out_of_service:
        tell({"command": "maintenance", "on": True, "device": "", "reason": REASON, "user": USER, "seconds": LONGEST_S})
        return f"out of service: {REASON}"
    if not maintained and answer.out_of_service == REASON:
        tell({"command": "maintenance", "on": False, "device": "", "user": USER})
        return "back in service: its maintenance reservation is over"
    return ""
