"""What NVSentinel's platform connector receives, over real gRPC: events that it
stores and never acts on.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector.integrations.nvsentinel.bridge import Bridge
from collector.integrations.nvsentinel.event import ACTIONS, METHOD
from collector.sources.jobs.kubelet.grpc import UNAVAILABLE, UNIMPLEMENTED, GrpcError
from collector.sources.jobs.kubelet.wire import fields
from pipeline.finding import Action
from tests.collector.integrations.answers import LOST, document
from tests.fakes import START_NS, FakeClock

STORE_ONLY = bytes.fromhex("800102")  # field 16, value 2


class Connector:
    """A gRPC server on a Unix socket that keeps what it is sent. Use as a context."""

    def __init__(self, folder: Path, method: str = METHOD) -> None:
        self.socket = folder / "nvsentinel.sock"
        self.received: list[bytes] = []
        service, _, name = method.strip("/").partition("/")
        self._pool = ThreadPoolExecutor(1)
        self._server = grpc.server(self._pool)
        handler = grpc.unary_unary_rpc_method_handler(self._receive)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {name: handler}),)
        )
        self._server.add_insecure_port(f"unix:{self.socket}")

    def __enter__(self) -> Connector:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown()

    def _receive(self, request: bytes, _: object) -> bytes:
        self.received.append(request)
        return b""

    @property
    def events(self) -> list[dict[int, Any]]:
        """Every HealthEvent: field number to value."""
        return [
            dict(fields(value))
            for message in self.received
            for number, value in fields(message)
            if number == 2 and isinstance(value, bytes)
        ]


class Agent:
    """A bridge, and the verdict that it looks at."""

    def __init__(self, socket: Path) -> None:
        self.verdict = document(LOST)
        self.bridge = Bridge(
            socket, "/nowhere/gates.off", "gpu07", lambda: self.verdict, FakeClock()
        )

    def look(self, *problems: dict[str, Any], **changed: Any) -> None:
        """Once, at this verdict."""
        self.verdict = document(*problems, **changed)
        self.bridge.tick()


@pytest.fixture
def connector(tmp_path: Path) -> Iterator[Connector]:
    """A listening one."""
    with Connector(tmp_path) as one:
        yield one


def test_an_incident_is_a_health_event(connector: Connector) -> None:
    """Every field as health_event.proto numbers it."""
    Agent(connector.socket).look(LOST)
    assert connector.events == [
        {
            1: 1,
            2: b"tocsin",
            3: b"GPU",
            4: b"tocsin/gpu_lost",
            5: 1,
            7: f"GPU 3: {LOST['summary']}".encode(),
            8: 24,
            9: b"gpu_lost",
            10: b"\x0a\x08GPU_UUID\x12\x06GPU-03",
            11: b"\x0a\x08incident\x12\x10" + str(LOST["id"]).encode(),
            12: b"\x08" + _varint(START_NS // 1_000_000_000),
            13: b"gpu07",
            16: 2,
        }
    ]


def test_every_event_says_store_only(connector: Connector) -> None:
    """Left out, NVSentinel would take it for an order to remediate: begin and
    end alike, ticket and page.
    """
    agent = Agent(connector.socket)
    agent.look(LOST, LOST | {"id": "2", "severity": "ticket", "kind": "ib_port"})
    agent.look()
    events = [
        value for message in connector.received for number, value in fields(message) if number == 2
    ]
    assert len(events) == 4
    assert [isinstance(event, bytes) and event.endswith(STORE_ONLY) for event in events] == [
        True
    ] * 4


def test_the_end_has_the_same_check_and_entity_and_is_healthy(connector: Connector) -> None:
    """By these NVSentinel finds what it ends."""
    agent = Agent(connector.socket)
    agent.look(LOST)
    agent.look()
    begin, end = connector.events
    assert [end.get(number) for number in (4, 10)] == [begin[4], begin[10]]
    assert (end.get(5, 0), end[6], end.get(8, 0)) == (0, 1, 0)


def test_a_ticket_is_not_fatal(connector: Connector) -> None:
    """Fatal ones become conditions there."""
    Agent(connector.socket).look(LOST | {"severity": "ticket"})
    assert connector.events[0].get(5, 0) == 0


def test_a_ticket_that_becomes_a_page_is_sent_as_fatal(connector: Connector) -> None:
    """And as not fatal when it is none any more; neither is an end."""
    agent = Agent(connector.socket)
    for severity in ("ticket", "page", "page", "ticket"):
        agent.look(LOST | {"severity": severity})
    assert [(event.get(5, 0), event.get(6, 0)) for event in connector.events] == [
        (0, 0),
        (1, 0),
        (0, 0),
    ]


@pytest.mark.parametrize(
    "moved",
    [{"device": "GPU-05"}, {"severity": "ticket", "class": "gpu_hung"}],
    ids=["another part", "milder"],
)
def test_what_is_told_anew_ends_as_it_was_told_before(
    connector: Connector, moved: dict[str, str]
) -> None:
    """NVSentinel finds what is over by its check and entity, and both may be new."""
    agent = Agent(connector.socket)
    agent.look(LOST)
    agent.look(LOST | moved)
    first, end, second = connector.events
    assert [end[number] for number in (4, 10)] == [first[number] for number in (4, 10)]
    assert [second[number] for number in (4, 10)] != [first[number] for number in (4, 10)]
    assert [event.get(6, 0) for event in connector.events] == [0, 1, 0]


def test_another_class_alone_is_not_sent(connector: Connector) -> None:
    """Evidence comes in by and by; the end then has the class that was told."""
    agent = Agent(connector.socket)
    agent.look(LOST)
    agent.look(LOST | {"class": "xid/gpu"})
    agent.look()
    assert [event[4] for event in connector.events] == [b"tocsin/gpu_lost"] * 2


def test_nothing_is_sent_while_nothing_changes(connector: Connector) -> None:
    """Nor while the agent is blind."""
    agent = Agent(connector.socket)
    agent.look(LOST)
    agent.look(LOST)
    agent.look(verdict="unknown")
    assert len(connector.received) == 1


def test_an_incident_that_cannot_be_seen_now_is_not_over(connector: Connector) -> None:
    """Its device is not read, or out of service, while another incident stands."""
    agent = Agent(connector.socket)
    agent.look(LOST)
    agent.look(LOST | {"id": "another"}, open=[LOST["id"], "another"])
    assert [event.get(6, 0) for event in connector.events] == [0, 0]


def test_what_could_not_be_sent_is_sent_later(tmp_path: Path) -> None:
    """The connector is restarted, or comes up after the agent."""
    agent = Agent(tmp_path / "nvsentinel.sock")
    with pytest.raises(GrpcError) as error:
        agent.look(LOST)
    assert error.value.code == UNAVAILABLE
    with Connector(tmp_path) as connector:
        agent.look(LOST)
        assert len(connector.events) == 1


def test_another_version_of_the_call_is_an_error_that_names_itself(tmp_path: Path) -> None:
    """Older releases spelt it differently."""
    with Connector(tmp_path, "/datamodels.PlatformConnector/HealthEventOccuredV1") as connector:
        with pytest.raises(GrpcError) as error:
            Agent(connector.socket).look(LOST)
        assert error.value.code == UNIMPLEMENTED


def test_every_action_of_ours_has_its_number() -> None:
    """Findings bear NVSentinel's own names."""
    assert set(ACTIONS) == set(Action.__args__)  # type: ignore[attr-defined]


def _varint(value: int) -> bytes:
    """By hand: seven bits at a time, the least first."""
    groups = [value >> shift & 0x7F for shift in range(0, 35, 7)]
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
