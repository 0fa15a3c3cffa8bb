"""The words of a drain."""

from __future__ import annotations

from collector.integrations.agent_client import Problem
from collector.integrations.drain import MAX_REASON, reason_of

LONG = Problem(
    "1",
    "page",
    "RESTART_BM",
    "gpu_lost",
    "gpu",
    "GPU-8a",
    "GPU 3",
    "It explains many findings. " * 20,
    acknowledged=False,
)


def test_a_rehearsal_is_called_one_however_much_there_is_to_say() -> None:
    """Words are cut, and never the last ones."""
    reason = reason_of(LONG, simulated=True)
    assert reason.startswith("tocsin:gpu_lost GPU 3 (GPU-8a, incident 1): It explains")
    assert reason.endswith(" [simulated]")
    assert len(reason) <= MAX_REASON
