"""The lease against a real NATS server: one holder, and another soon after it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import pytest

from gateway.lease import BUCKET, TTL_S, Lease, now_s
from tests.gateway.faults.brokers import three
from tests.nats import Nats
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Nats]:
    """A server with the stream of the bus."""
    with Nats(tmp_path / "nats") as running:
        running.stream()
        yield running


class Contender:
    """A gateway that wants to speak, with a connection of its own."""

    def __init__(self, server: Nats, name: str) -> None:
        self.lease = Lease(name)
        self.fit = True
        self._server = server

    async def __aenter__(self) -> Contender:
        self.client = await nats.connect(self._server.url, max_reconnect_attempts=-1)
        self.task = asyncio.create_task(self.lease.keep(self.client.jetstream(), lambda: self.fit))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await self.client.close()


async def until(condition: Callable[[], bool]) -> float:
    """Seconds until it is so."""
    began_s = now_s()
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nothing tells when a lease begins or ends
            await asyncio.sleep(0.01)
    return now_s() - began_s


def two(server: Nats, story: Callable[[Contender, Contender], Awaitable[None]]) -> None:
    """Run a story of two contenders, of which the first holds the lease."""

    async def steps() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(Contender(server, "a"))
            await until(lambda: first.lease.held)
            second = await stack.enter_async_context(Contender(server, "b"))
            await story(first, second)

    asyncio.run(steps())


def test_one_holds_it_for_longer_than_an_entry_lives(server: Nats) -> None:
    """The other never does while the first renews."""

    async def story(first: Contender, second: Contender) -> None:
        end_s = now_s() + 2 * TTL_S
        while now_s() < end_s:
            assert not second.lease.held
            await asyncio.sleep(0.05)
        assert first.lease.held

    two(server, story)


def test_a_holder_that_dies_is_followed_and_never_overlaps(server: Nats) -> None:
    """Its lease ends before the other's begins, though it gets no notice."""

    async def story(first: Contender, second: Contender) -> None:
        first.task.cancel()
        await until(lambda: not first.lease.held)
        assert not second.lease.held
        await until(lambda: second.lease.held)
        assert second.lease.revision > first.lease.revision

    two(server, story)


def test_a_holder_that_ends_frees_it_at_once(server: Nats) -> None:
    """Before its entry would vanish."""

    async def story(first: Contender, second: Contender) -> None:
        first.task.cancel()
        last = first.lease.revision
        await first.lease.give_up(first.client.jetstream())
        assert not first.lease.held
        await until(lambda: second.lease.held)
        assert second.lease.revision == last + 2  # deleted, and made again

    two(server, story)


def test_a_holder_that_falls_behind_leaves_it_to_the_other(server: Nats) -> None:
    """And takes it no more while it is behind, also where nobody has it."""

    async def story(first: Contender, second: Contender) -> None:
        first.fit = False
        await until(lambda: second.lease.held)
        assert not first.lease.held
        second.fit = False
        await until(lambda: not second.lease.held)
        first.fit = True
        await until(lambda: first.lease.held)

    two(server, story)


def test_a_process_that_was_stopped_knows_at_once(server: Nats) -> None:
    """Also before its next renewal."""
    clock = [100.0]
    lease = Lease("a", lambda: clock[0])

    async def story() -> None:
        client = await nats.connect(server.url)
        task = asyncio.create_task(lease.keep(client.jetstream()))
        await until(lambda: lease.held)
        clock[0] += TTL_S
        assert not lease.held
        task.cancel()
        await client.close()

    asyncio.run(story())


def test_no_host_takes_it_away(server: Nats) -> None:
    """By the reply subject of its messages, to which the server sends the acknowledgement, whatever
    the host itself may publish: the bucket's key was one that everybody knows.
    """

    async def story(first: Contender, second: Contender) -> None:
        host = await nats.connect(server.url)
        end_s = now_s() + TTL_S
        while now_s() < end_s:
            for key in ("gateway", "gateway-0"):
                reply = f"$KV.{BUCKET}.{key}"
                await host.publish("tocsin.v1.c1.frames.n1", b"x", reply=reply)
            await asyncio.sleep(0.05)
            assert first.lease.held
        assert not second.lease.held
        await host.close()

    two(server, story)


def test_a_bucket_that_is_made_again_has_one_holder(server: Nats) -> None:
    """Its key is another one, which all look up."""

    async def story(first: Contender, second: Contender) -> None:
        stream = second.client.jetstream()
        await stream.delete_key_value(BUCKET)
        await stream.create_key_value(bucket=BUCKET, ttl=TTL_S)
        await asyncio.sleep(2 * TTL_S)
        assert [first.lease.held, second.lease.held].count(True) == 1

    two(server, story)


def test_it_is_kept_on_as_many_servers_as_the_stream(tmp_path: Path) -> None:
    """Also where a version before had made it on one."""

    async def story(server: Nats) -> list[int | None]:
        client = await nats.connect(server.url, max_reconnect_attempts=-1)
        stream = client.jetstream()
        found = []
        for old in (True, False):
            if old:
                await stream.create_key_value(bucket=BUCKET, ttl=TTL_S)
            else:
                await stream.delete_key_value(BUCKET)
            lease = Lease("a")
            task = asyncio.create_task(lease.keep(stream))
            await until(lambda it=lease: it.held)  # type: ignore[misc]
            found.append((await stream.stream_info(f"KV_{BUCKET}")).config.num_replicas)
            task.cancel()
        await client.close()
        return found

    with three(tmp_path) as servers:
        assert asyncio.run(story(servers[0])) == [3, 3]


@pytest.mark.parametrize("empty", [False, True])
def test_a_broker_that_is_gone_silences_all(server: Nats, *, empty: bool) -> None:
    """Nobody can renew; when it is back, also with nothing in it, one leads again."""

    async def story(first: Contender, second: Contender) -> None:
        server.stop()
        await until(lambda: not first.lease.held)
        assert not second.lease.held
        if empty:
            server.forget()
        await asyncio.to_thread(server.start)
        if empty:
            await asyncio.to_thread(server.stream)
        await until(lambda: first.lease.held or second.lease.held)
        assert not (first.lease.held and second.lease.held)

    two(server, story)
