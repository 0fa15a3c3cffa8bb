"""What reaches the API server: one condition of our own, Events once each,
and nothing in a dry run.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.config.gates import Kubernetes
from collector.integrations.kubernetes.api import Api, ApiError
from collector.integrations.kubernetes.reporter import Reporter
from tests.certificates import Authority
from tests.collector.integrations.answers import LOST, document
from tests.collector.integrations.kubernetes.server import READY, ApiServer
from tests.fakes import FakeClock


class Agent:
    """A verdict that tests change, and a reporter that looks at it."""

    def __init__(self, server: ApiServer, folder: Path, **settings: Any) -> None:
        self.server, self.clock, self.verdict = server, FakeClock(), document()
        self.cordons: list[bool] = []
        self.off_file = folder / "gates.off"
        files = {"token_file": str(server.token_file), "ca_file": str(server.ca_file)}
        self.settings = Kubernetes(
            **({"report": "on", "node": "gpu07", "api": server.url} | files | settings)
        )
        self.restart()

    def restart(self) -> None:
        """A new life, which remembers nothing."""
        self.reporter = Reporter(
            self.settings,
            str(self.off_file),
            "gpu07.example.com",
            lambda: self.verdict,
            self.clock,
            cordoned=self.cordons.append,
        )

    def look(self, after_s: float = 10.0) -> dict[str, Any]:
        """The condition after one more look."""
        self.clock.advance(after_s)
        self.reporter.tick()
        return self.server.condition


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """One for each test."""
    with ApiServer(tmp_path) as one:
        yield one


@pytest.fixture
def agent(server: ApiServer, tmp_path: Path) -> Agent:
    """One that reports."""
    return Agent(server, tmp_path)


@pytest.mark.slow
def test_a_well_node_says_so(agent: Agent) -> None:
    """In node-problem-detector's polarity: False is no problem."""
    said = agent.look()
    assert (said["status"], said["reason"], said["message"]) == (
        "False",
        "NoGpuProblem",
        "no problems found on this node",
    )


@pytest.mark.slow
def test_a_page_is_a_problem_that_names_the_class(agent: Agent) -> None:
    """And the condition's transition is when it became one."""
    agent.look()
    agent.verdict = document(LOST)
    said = agent.look(60)
    assert (said["status"], said["reason"], said["message"]) == ("True", "GpuLost", LOST["summary"])
    assert said["lastTransitionTime"] == said["lastHeartbeatTime"] == "2027-01-15T08:01:10Z"


def test_a_ticket_is_no_problem_of_the_node(agent: Agent) -> None:
    """It may go on until somebody has time; the message tells it all the same."""
    agent.verdict = document(LOST | {"severity": "ticket"})
    said = agent.look()
    assert (said["status"], said["message"]) == ("False", LOST["summary"])


def test_a_blind_agent_is_unknown(agent: Agent) -> None:
    """No data is neither health nor a fault."""
    agent.verdict = document(verdict="unknown", reason="no fresh readings of gpu")
    said = agent.look()
    assert (said["status"], said["reason"]) == ("Unknown", "TocsinBlind")


def test_the_conditions_of_others_are_not_touched(agent: Agent) -> None:
    """The kubelet's stands as it was."""
    agent.look()
    assert READY in agent.server.node["status"]["conditions"]


def test_nothing_is_written_while_nothing_changes(agent: Agent) -> None:
    """But a heartbeat every five minutes, without a transition."""
    first = agent.look()
    for _ in range(29):
        agent.look()
    assert agent.server.requests == ["GET /api/v1/nodes/gpu07", "PATCH /api/v1/nodes/gpu07/status"]
    beat = agent.look()
    assert beat["lastHeartbeatTime"] > first["lastHeartbeatTime"]
    assert beat["lastTransitionTime"] == first["lastTransitionTime"]


@pytest.mark.slow
def test_a_restart_keeps_the_time_of_the_transition(agent: Agent) -> None:
    """The Node remembers what the agent does not."""
    agent.verdict = document(LOST)
    before = agent.look()
    agent.restart()
    assert agent.look(3600)["lastTransitionTime"] == before["lastTransitionTime"]


def test_an_incident_is_an_event_once(agent: Agent) -> None:
    """Over any number of looks, and over restarts: its name is the incident's."""
    agent.verdict = document(LOST)
    agent.look()
    agent.look()
    agent.restart()
    agent.look()
    ((name, reported),) = agent.server.events.items()
    assert name.startswith(f"gpu07.tocsin-{LOST['id']}-page-")
    assert (reported["type"], reported["reason"]) == ("Warning", "GpuLost")
    assert reported["message"] == (
        f"GPU 3 (serial {LOST['serial']}): {LOST['summary']} Proposed: RESTART_BM."
    )


@pytest.mark.slow
def test_the_end_of_an_incident_is_an_event(agent: Agent) -> None:
    """A normal one."""
    agent.verdict = document(LOST)
    agent.look()
    agent.verdict = document()
    agent.look()
    _, reported = agent.server.events.values()
    assert (reported["type"], reported["reason"]) == ("Normal", "GpuLostCleared")


@pytest.mark.slow
def test_a_ticket_that_becomes_a_page_is_another_event(agent: Agent) -> None:
    """Whoever waits for pages hears of it; going back and forth adds none."""
    for severity in ("ticket", "page", "ticket", "page"):
        agent.verdict = document(LOST | {"severity": severity})
        agent.look()
    assert [event["type"] for event in agent.server.events.values()] == ["Warning", "Warning"]


@pytest.mark.slow
def test_blame_that_moves_is_told(agent: Agent) -> None:
    """The GPU that was blamed first is cleared."""
    agent.verdict = document(LOST)
    agent.look()
    agent.verdict = document(LOST | {"device": "GPU-05", "name": "GPU 5"})
    agent.look()
    assert [(event["reason"], event["message"][:5]) for event in agent.server.events.values()] == [
        ("GpuLost", "GPU 3"),
        ("GpuLostCleared", "GPU 3"),
        ("GpuLost", "GPU 5"),
    ]


@pytest.mark.slow
def test_a_storm_is_told_in_portions(agent: Agent) -> None:
    """The API server belongs to everybody: ten Events a look."""
    agent.verdict = document(*(LOST | {"id": f"incident-{number}"} for number in range(15)))
    agent.look()
    assert len(agent.server.events) == 10
    agent.look()
    assert len(agent.server.events) == 15


def test_a_blind_moment_ends_no_incident(agent: Agent) -> None:
    """It is not known to be over."""
    agent.verdict = document(LOST)
    agent.look()
    agent.verdict = document(verdict="unknown", reason="restarting")
    agent.look()
    assert [event["reason"] for event in agent.server.events.values()] == ["GpuLost"]


def test_what_is_out_of_service_is_told_to_nobody(agent: Agent) -> None:
    """Maintenance is silent."""
    agent.verdict = document(LOST, out_of_service="new firmware")
    agent.look()
    assert agent.server.events == {}


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, not at every look; the API server hears nothing at all."""
    agent = Agent(server, tmp_path, report="dry-run")
    agent.verdict = document(LOST)
    with caplog.at_level(logging.INFO, logger="tocsin.gates"):
        agent.look()
        agent.look()
    assert [line.split(":")[1].split()[:2] for line in caplog.messages] == [
        ["would", "set"],
        ["would", "write"],
    ]
    assert server.requests == []


def test_the_off_switch_holds_here_too(agent: Agent) -> None:
    """The same file as for Slurm."""
    agent.off_file.touch()
    agent.look()
    assert agent.server.requests == []


def test_a_refusal_is_tried_again(agent: Agent) -> None:
    """What was not written counts as not written."""
    agent.server.refuse = 403
    agent.verdict = document(LOST)
    with pytest.raises(ApiError, match=r"GET /api/v1/nodes/gpu07: HTTP 403 no"):
        agent.look()
    agent.server.refuse = 0
    assert agent.look()["status"] == "True"
    assert len(agent.server.events) == 1


def test_a_rotated_token_is_read_again(agent: Agent) -> None:
    """Tokens of service accounts live an hour."""
    agent.look()
    agent.server.rotate("second")
    agent.verdict = document(LOST)
    assert agent.look()["status"] == "True"


def test_a_server_that_our_authority_does_not_know_gets_no_token(agent: Agent) -> None:
    """Whoever stands between must not learn it."""
    agent.server.ca_file.write_bytes(Authority("another").certificate)
    with pytest.raises(ApiError, match=agent.server.url) as raised:
        agent.look()
    assert isinstance(raised.value.__cause__, ssl.SSLCertVerificationError)
    assert agent.server.requests == []


@pytest.mark.slow
def test_a_cordon_is_noticed_with_the_next_write(server: ApiServer, tmp_path: Path) -> None:
    """The answer to a heartbeat is the whole Node: no request of its own."""
    agent = Agent(server, tmp_path, cordon=True)
    agent.look()
    server.node["spec"]["unschedulable"] = True
    agent.look(300)
    assert agent.cordons == [False, False, True]


def test_a_dry_run_follows_a_cordon(server: ApiServer, tmp_path: Path) -> None:
    """It asks for the Node at each heartbeat, and writes nothing."""
    agent = Agent(server, tmp_path, report="dry-run", cordon=True)
    server.node["spec"]["unschedulable"] = True
    agent.look()
    agent.look()
    server.node["spec"]["unschedulable"] = False
    agent.look(300)
    assert agent.cordons == [True, False]
    assert server.requests == ["GET /api/v1/nodes/gpu07"] * 2


def test_outside_a_pod_the_address_must_be_given(agent: Agent) -> None:
    """It says which setting."""
    with pytest.raises(ApiError, match=r"gates\.kubernetes\.api is not set"):
        Api(Kubernetes(), {})
