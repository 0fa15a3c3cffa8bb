"""The control socket: how much a question and an answer may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.control import MAX_ANSWER, MAX_LINE, request
from collector.integrations.agent_client import asked
from tests.collector.integrations.answers import LOST, Agent, document


def test_a_node_with_all_ports_that_linux_can_have_is_answered_for(tmp_path: Path) -> None:
    """`tocsin check` gets the fault and every part of a node with 8192 ports, most of them virtual
    functions.
    """
    ports = [
        {"kind": "ib_port", "id": f"0x{0xEC0D9A0300000000 + n:016x}/1", "epoch": str(10**9 + n)}
        for n in range(8192)
    ]
    with Agent(tmp_path, document(LOST, parts=ports)):
        answer = asked(str(tmp_path))
    assert (answer.state, answer.reason) == ("problem", LOST["summary"])
    assert len(answer.parts) == 8192


def test_a_question_is_limited_as_before(tmp_path: Path) -> None:
    """Answers may be large, questions may not."""
    with (
        Agent(tmp_path, document()) as agent,
        pytest.raises((ValueError, ConnectionError)),  # the end of it may not even be taken
    ):
        request(tmp_path, {"say": "x" * MAX_LINE})
    assert agent.asked == []


def test_an_answer_without_an_end_is_given_up(tmp_path: Path) -> None:
    """What claims to be an agent cannot fill the memory of a health check."""
    with Agent(tmp_path, {"reason": "x" * MAX_ANSWER}):
        answer = asked(str(tmp_path))
    assert answer.state == "unknown"
    assert "line of more than" in answer.reason
