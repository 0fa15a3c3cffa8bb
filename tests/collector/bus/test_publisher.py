"""The publisher against a real NATS server: what was observed arrives, in order, and once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.bus import publisher
from collector.bus.publisher import Publisher
from collector.config.settings import Bus
from collector.config.units import Seconds
from pipeline.bus import subjects
from pipeline.bus.batch import Batch, decode
from pipeline.catalog import agent
from pipeline.clock import SystemClock
from pipeline.finding import Incident
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.gateway.faults.measured import Measured
from tests.nats import Nats
from tests.wait import until

pytestmark = pytest.mark.integration
CLOCK = FakeClock()


class Sender:
    """A publisher of node n1 with numbers of its own."""

    def __init__(self, server: Nats, **settings: object) -> None:
        bus = Bus(servers=(server.url,), period=Seconds(1), **settings)  # type: ignore[arg-type]
        self.metrics = SelfMetrics()
        self.publisher = Publisher(bus, "n1", self.metrics, SystemClock())
        self._seq = 0

    def __enter__(self) -> Sender:
        self.publisher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.publisher.close()

    def observe(self, *incidents: Incident, rows: int = 1) -> None:
        """One more observation."""
        frame = gpu_frame(CLOCK, *[{"power_milliwatts": 300_000.0}] * rows)
        self.publisher.write(observed(CLOCK, frame, seq=self._seq), (), incidents)
        self._seq += 1

    def value(self, metric: object) -> float:
        """One of its numbers."""
        return self.metrics.value(metric) or 0.0  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Nats]:
    """A server with the stream of docs/bus.md."""
    with Nats(tmp_path / "nats") as running:
        running.stream()
        yield running


def batches(server: Nats) -> list[Batch]:
    """What the stream holds."""
    return [decode(raw) for _, raw in server.stored()]


def observations(server: Nats) -> list[int]:
    """Numbers of the observations that arrived."""
    return [j.observation.seq for batch in batches(server) for j in batch.judged]


def test_what_was_observed_arrives_in_order_and_once(server: Nats) -> None:
    """In batches that name the observation before them."""
    with Sender(server) as sender:
        for _ in range(200):
            sender.observe()
        until(lambda: sender.value(agent.BUS_BATCHES) >= 4, "four batches")
    found = batches(server)
    assert observations(server) == [*range(200)]
    assert [b.previous for b in found] == [-1, *(b.judged[-1].observation.seq for b in found[:-1])]
    assert [b.number for b in found] == [*range(len(found))]
    assert sender.value(agent.BUS_BYTES) == sum(len(raw) for _, raw in server.stored())
    assert {subject for subject, _ in server.stored()} == {subjects.frames("default", "n1")}


def test_every_batch_repeats_what_is_open(server: Nats) -> None:
    """Also what the agent knew from its last life; what is over is in no later batch."""
    old, new = (Incident(name, gpu(), "ecc", "page", "NONE", 5, (), "") for name in ("old", "new"))
    with Sender(server) as sender:
        sender.publisher.resume([old])
        sender.observe(new)
        until(lambda: sender.value(agent.BUS_BATCHES) >= 1, "a batch")
        sender.observe(Incident("old", gpu(), "ecc", "page", "NONE", 5, (), "", cleared_ns=9000))
        until(lambda: sender.value(agent.BUS_BATCHES) >= 2, "another")
    assert [[i.id for i in batch.open] for batch in batches(server)] == [["old", "new"], ["new"]]


def test_a_broker_that_comes_back_gets_what_waited(
    server: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, nothing comes twice; one line says what is wrong, one that it is over."""
    caplog.set_level(logging.INFO, "tocsin")
    with Sender(server) as sender:
        sender.observe()
        until(lambda: sender.value(agent.BUS_BATCHES) == 1, "a batch")
        server.stop()
        sender.observe()
        until(lambda: not sender.value(agent.BUS_CONNECTED), "the loss")
        sender.observe()
        server.start()
        until(lambda: sender.value(agent.BUS_BATCHES) >= 2, "the rest")
        until(lambda: observations(server) == [0, 1, 2], "all three, once")
        assert sender.value(agent.BUS_CONNECTED) == 1
    assert sender.value(agent.BUS_DROPPED) == 0
    assert "bus recovered" in caplog.text


def test_no_broker_costs_the_agent_nothing(tmp_path: Path) -> None:
    """It ends at once, and says what is wrong."""
    server = Nats(tmp_path / "nats", port=9)
    with Sender(server) as sender:
        sender.observe()
        until(lambda: sender.publisher._health.reason, "a reason")
    assert sender.value(agent.BUS_CONNECTED) == 0
    assert sender.publisher._health.reason == "connection refused"


def test_no_stream_is_said(tmp_path: Path) -> None:
    """The broker is there and takes nothing."""
    with Nats(tmp_path / "nats") as server, Sender(server) as sender:
        sender.observe()
        wanted = "no stream takes the subject"
        until(lambda: sender.publisher._health.reason.startswith(wanted), "the reason")
        server.stream()
        until(lambda: sender.value(agent.BUS_BATCHES) == 1, "a batch")


def test_what_is_too_large_for_the_stream_goes_in_parts(tmp_path: Path) -> None:
    """And an observation that is too large alone is counted as dropped."""
    with Nats(tmp_path / "nats") as server:
        server.stream(max_msg_size=2000)
        with Sender(server) as sender:
            for _ in range(60):
                sender.observe()
            sender.observe(rows=600)
            sender.observe()
            until(lambda: sender.value(agent.BUS_DROPPED) == 1, "the large one")
            until(lambda: observations(server)[-1:] == [61], "the last")
        assert observations(server) == [*range(60), 61]


def test_messages_are_as_long_again_after_one_that_was_too_large(tmp_path: Path) -> None:
    """They shrink for those that wait, and not for the rest of the agent's life."""
    with Nats(tmp_path / "nats") as server:
        server.stream(max_msg_size=2000)
        with Sender(server) as sender:
            sender.observe()
            sender.observe(rows=600)
            until(lambda: sender.value(agent.BUS_DROPPED) == 1, "the large one")
            for _ in range(6):
                sent = sender.value(agent.BUS_BATCHES)
                for _ in range(8):
                    sender.observe()
                until(lambda: sender.value(agent.BUS_BATCHES) > sent, "more")  # noqa: B023
        assert max(len(each.judged) for each in batches(server)) >= 8


def test_a_host_publishes_for_itself_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, measured: Measured
) -> None:
    """With the credentials of another host nothing arrives, so that no gateway sees anything of it,
    and the refusal is logged.
    """
    with Nats(tmp_path / "nats", secured=True) as server:
        server.stream()
        files = {
            host: server.credentials(
                [subjects.frames("default", host)], [f"{subjects.inbox(host)}.>"]
            )
            for host in ("n1", "n2")
        }
        with Sender(server, credentials_file=str(files["n2"])) as thief:
            thief.observe()
            until(lambda: "permissions violation" in caplog.text.lower(), "the refusal")
        assert server.stored() == []
        measured.lost(thief.value(agent.BUS_DROPPED))
        measured.silent_for(0)
        with Sender(server, credentials_file=str(files["n1"])) as sender:
            sender.observe()
            until(lambda: sender.value(agent.BUS_BATCHES) == 1, "a batch")
        assert observations(server) == [0]


def test_a_connection_that_the_server_ended_for_good_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the credentials that the file holds by then; what waited is sent, and the log says why
    it waited.
    """
    monkeypatch.setattr(publisher, "AGAIN_S", (0.1, 0.1))
    caplog.set_level(logging.INFO, "tocsin")
    file = tmp_path / "bus.creds"
    with Nats(tmp_path / "nats", secured=True) as server:
        server.stream()
        server.credentials().rename(file)
        with Sender(server, credentials_file=str(file)) as sender:
            sender.observe()
            until(lambda: sender.value(agent.BUS_BATCHES) == 1, "a batch")
            server.revoke()
            sender.observe()
            until(lambda: not sender.value(agent.BUS_CONNECTED), "the loss")
            sender.observe()
            until(lambda: "authentication revoked" in caplog.text.lower(), "the reason")
            server.credentials().rename(file)
            until(lambda: observations(server) == [0, 1, 2], "all three, once")
            until(lambda: sender.value(agent.BUS_CONNECTED) == 1, "the connection")
        assert sender.value(agent.BUS_DROPPED) == 0


@pytest.mark.parametrize("broken", ["encode", "publish"])
def test_an_error_that_nobody_thought_of_does_not_end_the_sending(
    server: Nats, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """It costs what was being sent, and the metric says so meanwhile."""
    monkeypatch.setattr(publisher, "AGAIN_S", (0.1, 0.1))
    with Sender(server) as sender, monkeypatch.context() as patched:
        until(lambda: sender.value(agent.BUS_CONNECTED) == 1, "the connection")

        def fail(*_: object) -> bytes:
            raise RuntimeError("a bug")

        patched.setattr(publisher, broken, fail)
        sender.observe()
        until(lambda: not sender.value(agent.BUS_CONNECTED), "the failure")
        patched.undo()
        sender.observe()
        until(lambda: observations(server) == [1], "what came after it")
        assert sender.value(agent.BUS_DROPPED) == 1
