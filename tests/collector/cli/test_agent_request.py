"""``tocsin ack`` and ``tocsin maintenance`` before a socket: what is asked, what is
printed, and the exit codes.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.cli import main
from collector.cli.agent_request import user_name
from collector.control import Control


class Agent:
    """Answers on the socket of a storage path, and remembers what it was asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] | ValueError = {}
        self._control = Control(root, self._answer)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        if isinstance(self.answer, ValueError):
            raise self.answer
        return self.answer

    def run(self, *arguments: str) -> int:
        """Exit code of a command about this agent."""
        return main([*arguments, "--storage.path", str(self.root)])

    def close(self) -> None:
        """No longer listen."""
        self._control.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """A listening one."""
    one = Agent(tmp_path)
    yield one
    one.close()


ME = user_name({})


def test_ack_asks_in_the_name_of_the_user(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """And prints what the incident is."""
    agent.answer = {"incident": "5a2e173dd20e2d3d", "summary": "Calls do not return."}
    assert agent.run("ack", "5a2e", "--note", "RMA 4711") == 0
    assert agent.asked == [{"command": "ack", "incident": "5a2e", "note": "RMA 4711", "user": ME}]
    assert capsys.readouterr().out == "incident 5a2e173d is acknowledged: Calls do not return.\n"


def test_a_refusal_is_exit_code_1_with_the_agents_words(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error."""
    agent.answer = ValueError("no open incident 'ffff'")
    assert agent.run("ack", "ffff", "--note", "x") == 1
    assert capsys.readouterr().err == "tocsin: no open incident 'ffff'\n"


def test_without_an_agent_the_path_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usual mistake is another storage path."""
    assert main(["maintenance", "--storage.path", str(tmp_path)]) == 1
    assert f"no agent is running in {tmp_path}" in capsys.readouterr().err


def test_maintenance_on_asks_with_reason_and_time(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """A duration as people write it becomes seconds."""
    agent.answer = {"kind": "gpu", "device": "GPU-5", "out_of_service": True}
    assert (
        agent.run("maintenance", "on", "--device", "gpu5", "--for", "1h30m", "--reason", "swapped")
        == 0
    )
    about = {"on": True, "device": "gpu5", "reason": "swapped", "seconds": 5400.0}
    assert agent.asked == [{"command": "maintenance", "user": ME, **about}]
    assert capsys.readouterr().out == "gpu GPU-5 is out of service\n"


def test_an_acknowledged_summary_writes_nothing_on_the_terminal(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may quote what a job wrote."""
    agent.answer = {"incident": "8f14e45fceea167a", "summary": "job 7\x1b]52;c;cm0\x07\x9b"}
    assert agent.run("ack", "latest", "--note", "seen") == 0
    assert capsys.readouterr().out.rstrip("\n").isprintable()


def test_maintenance_off_brings_back(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a device it is the node."""
    agent.answer = {"kind": "node", "device": "n1", "out_of_service": False}
    assert agent.run("maintenance", "off") == 0
    assert (agent.asked[0]["on"], agent.asked[0]["device"]) == (False, "")
    assert capsys.readouterr().out == "node n1 is back in service\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("maintenance", "on"), "--reason TEXT is required"),
        (("maintenance", "on", "--reason", " "), "--reason TEXT is required"),
        (
            ("maintenance", "on", "--reason", "x", "--for", "soon"),
            "--for: expected a duration such as 15s, 500ms or 1m30s, got 'soon'",
        ),
    ],
)
def test_what_is_missing_is_said_before_anybody_is_asked(
    agent: Agent, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    assert agent.run(*arguments) == 2
    assert words in capsys.readouterr().err
    assert agent.asked == []


def test_what_is_out_of_service_is_listed(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each, with until when where that is known."""
    row = {
        "kind": "gpu",
        "device": "GPU-5",
        "since": 1_800_000_000,
        "until": None,
        "reason": "swapped",
        "user": "ada",
    }
    agent.answer = {"out_of_service": [row, row | {"device": "GPU-6", "until": 1_800_003_600}]}
    assert agent.run("maintenance") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "gpu GPU-5: swapped (by ada, since 2027-01-15T08:00:00Z, until ended by hand)"
    assert second.endswith("until 2027-01-15T09:00:00Z)")


def test_a_node_in_service_says_so(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty answer would look like a failure."""
    agent.answer = {"out_of_service": []}
    assert agent.run("maintenance") == 0
    assert capsys.readouterr().out == "nothing is in maintenance\n"


def test_the_socket_is_for_its_owner_alone(agent: Agent) -> None:
    """Mode 0600, whatever the umask."""
    assert (agent.root / "control.sock").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has somebody behind it")
def test_behind_sudo_is_who_called_it() -> None:
    """The note should not say root for everybody."""
    assert user_name({"SUDO_USER": "ada"}) == "ada"
    assert user_name({}) == pwd.getpwuid(0).pw_name
