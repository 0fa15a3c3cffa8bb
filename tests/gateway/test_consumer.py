"""The consumer against a real NATS server: every message in order, whatever the broker does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from gateway import consumer
from gateway.consumer import Consumer, Message
from tests.nats import Nats
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Nats]:
    """A server with the stream of docs/bus.md."""
    with Nats(tmp_path / "nats") as running:
        running.stream()
        yield running


def send(server: Nats, *payloads: bytes, host: str = "n1") -> None:
    """Store messages of a host."""

    async def sent(client: Client) -> None:
        for payload in payloads:
            await client.jetstream().publish(f"tocsin.v1.c1.frames.{host}", payload)

    server.ask(sent)


class Reader:
    """Reads in a task, while the test does things to the broker."""

    def __init__(self, server: Nats, since_ns: int = 0, rest_s: float = 0.0) -> None:
        self._server, self._since_ns, self._rest_s = server, since_ns, rest_s
        self.read: list[Message] = []

    async def __aenter__(self) -> Reader:
        self.client = await nats.connect(
            self._server.url, max_reconnect_attempts=-1, reconnect_time_wait=1
        )
        self.consumer = Consumer(self.client, "c1", self._since_ns)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await self.client.close()

    async def _run(self) -> None:
        async for message in self.consumer.messages():
            self.read.append(message)
            if self._rest_s and len(self.read) % 100 == 1:
                await asyncio.sleep(self._rest_s)

    async def until(self, *payloads: bytes) -> None:
        """Wait until these were read, and nothing else."""
        async with asyncio.timeout(PATIENCE_S):
            while [m.payload for m in self.read] != [*payloads]:  # noqa: ASYNC110 - a real broker
                await asyncio.sleep(0.01)


def test_what_is_stored_before_and_after_is_read_in_order(server: Nats) -> None:
    """With the host, the broker's time and number; of this cluster only."""
    send(server, b"1", b"2")

    async def story() -> None:
        async with Reader(server) as reader:
            await reader.until(b"1", b"2")
            await asyncio.to_thread(send, server, b"3", host="n2")
            await reader.until(b"1", b"2", b"3")
            assert [(m.host, m.sequence, m.missed) for m in reader.read] == [
                ("n1", 1, 0),
                ("n1", 2, 0),
                ("n2", 3, 0),
            ]
            times = [m.stored_ns for m in reader.read]
            assert times == sorted(times)
        async with Reader(server, since_ns=times[1] + 1000) as late:
            await late.until(b"3")

    asyncio.run(story())


def test_a_broker_that_was_killed_is_read_on(server: Nats) -> None:
    """From the next message, none twice."""
    send(server, b"1")

    async def story() -> None:
        async with Reader(server) as reader:
            await reader.until(b"1")
            server.stop()
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(send, server, b"2")
            await reader.until(b"1", b"2")

    asyncio.run(story())


def test_a_stream_that_was_made_again_is_read_from_its_beginning(server: Nats) -> None:
    """Its numbers begin at 1, and nothing of it is taken for old."""
    send(server, b"1", b"2")

    async def again(client: Client) -> None:
        await client.jetstream().delete_stream("tocsin")

    async def story() -> None:
        async with Reader(server) as reader:
            await reader.until(b"1", b"2")
            await asyncio.to_thread(server.ask, again)
            await asyncio.to_thread(server.stream)
            await asyncio.to_thread(send, server, b"3")
            await reader.until(b"1", b"2", b"3")

    asyncio.run(story())


def test_what_was_thrown_away_unseen_is_counted(server: Nats) -> None:
    """A gateway that was away for longer than the stream keeps messages."""
    send(server, b"1")

    async def small(client: Client) -> None:
        """A message of it is kept, the last one."""
        stream = client.jetstream()
        await stream.update_stream((await stream.stream_info("tocsin")).config, max_msgs=1)

    async def story() -> None:
        async with Reader(server) as reader:
            await reader.until(b"1")
            reader._task.cancel()
            await asyncio.to_thread(send, server, b"2", b"3")
            await asyncio.to_thread(server.ask, small)
            await asyncio.to_thread(send, server, b"4")
            reader._task = asyncio.create_task(reader._run())
            await reader.until(b"1", b"4")
            assert reader.read[-1].missed == 2

    asyncio.run(story())


def store(server: Nats, messages: int, size: int) -> None:
    """Store many messages of a host without waiting for each."""

    async def sent(client: Client) -> None:
        for _ in range(messages):
            await client.publish("tocsin.v1.c1.frames.n1", bytes(size))
        await client.flush()

    server.ask(sent)


def test_what_the_client_drops_is_read_again(server: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is slower than the broker loses no message, also not the last ones."""
    monkeypatch.setattr(consumer, "PENDING_MESSAGES", 300)
    store(server, 1500, 2000)

    async def story() -> None:
        async with Reader(server, rest_s=0.01) as reader, asyncio.timeout(PATIENCE_S):
            while len(reader.read) < 1500:  # noqa: ASYNC110 - a real broker
                await asyncio.sleep(0.01)
            assert [m.sequence for m in reader.read] == [*range(1, 1501)]

    asyncio.run(story())


def test_the_broker_sends_no_more_than_is_taken(server: Nats) -> None:
    """While an hour is read, what waits in the client stays at a few MiB, whatever is stored."""
    store(server, 600, 40_000)

    async def story() -> None:
        async with Reader(server, rest_s=60) as reader:
            async with asyncio.timeout(PATIENCE_S):
                while not reader.read:  # noqa: ASYNC110 - a real broker
                    await asyncio.sleep(0.01)
            for _ in range(300):
                await reader.client.flush()
            waiting = [each.pending_bytes for each in reader.client._subs.values()]
            assert max(waiting) < 8 << 20

    asyncio.run(story())


def test_it_knows_until_when_all_was_read_as_long_as_the_broker_says_so(server: Nats) -> None:
    """Also of a cluster beside another one; a broker that does not answer says nothing."""
    send(server, b"1")

    async def story() -> None:
        async with Reader(server) as reader:
            await reader.until(b"1")
            begun_ns = time.time_ns()
            async with asyncio.timeout(PATIENCE_S):
                while reader.consumer.read_ns < begun_ns:  # noqa: ASYNC110 - a real broker
                    await asyncio.sleep(0.01)
            server.stop()
            async with asyncio.timeout(PATIENCE_S):
                while not reader.consumer.trouble:  # noqa: ASYNC110 - a real broker
                    await asyncio.sleep(0.01)
            stopped_ns = time.time_ns()
            await asyncio.sleep(1)
            assert begun_ns <= reader.consumer.read_ns < stopped_ns
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(send, server, b"2")
            await reader.until(b"1", b"2")

    asyncio.run(story())


def test_a_clock_that_is_ahead_of_the_brokers_closes_nothing_early(
    server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until when all was read is a time of the broker, whatever this machine's clock shows."""
    send(server, b"1")
    monkeypatch.setattr(time, "time_ns", lambda: round((time.time() + 3600) * 1e9))

    async def story() -> None:
        async with Reader(server) as reader, asyncio.timeout(PATIENCE_S):
            while not reader.consumer.read_ns:  # noqa: ASYNC110 - a real broker
                await asyncio.sleep(0.01)
            assert reader.consumer.read_ns < (time.time() + 60) * 1e9

    asyncio.run(story())
