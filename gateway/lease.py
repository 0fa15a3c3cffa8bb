"""The lease: of several gateways that judge, one leads.

A key in JetStream's key-value bucket, whose entries vanish unless they are renewed. A lease is no
exclusion: for the margin two may hold it, so what the holder says must be harmless twice (ids are
made of what was found). ``held`` is asked before each thing said, not only where it is renewed: a
process that was stopped and goes on has lost it without a notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nats import errors
from nats.js import errors as js_errors

from gateway.consumer import STREAM

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

BUCKET, KEY = "tocsin-lease", "gateway"
TTL_S = 3.0  # of an entry that nobody renews: a take-over within 5 s (docs/bus.md)
RENEW_S, TIMEOUT_S = 1.0, 0.8
MARGIN_S = 0.5  # the server's clock and ours run at different speeds, and its timer is late
RETRY_S = (0.15, 0.25)  # of those that wait; drawn, so that they do not ask together
CALLS = (errors.Error, js_errors.Error, OSError, asyncio.TimeoutError)
# The bucket is not there (any more): a broker that begins empty.
GONE = (js_errors.NoStreamResponseError, js_errors.NotFoundError)


def now_s() -> float:
    """Seconds of a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Takes the lease where it is free, and keeps it. ``name`` is whom the bucket shows."""

    def __init__(self, name: str, clock: Callable[[], float] = now_s) -> None:
        # Random: an answer that never came is looked up later, and must not be another's.
        self._value = f"{name} {secrets.token_hex(8)}".encode()
        self._clock = clock
        self._revision = 0
        self._until_s = 0.0

    @property
    def held(self) -> bool:
        """Whether this gateway may speak now."""
        return self._clock() < self._until_s

    @property
    def revision(self) -> int:
        """Of the last renewal: grows with each holder, a fence for what acts on the world."""
        return self._revision

    async def keep(
        self, stream: JetStreamContext, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Until it is cancelled. The bucket is made where there is none. While the lease is not
        ``wanted``, as by a gateway that falls behind, it is left to others.
        """
        bucket: KeyValue | None = None
        while True:
            if not wanted():
                await self.give_up(stream)
                await asyncio.sleep(_retry_s())
                continue
            began_s = self._clock()
            try:
                bucket = bucket or await _bucket(stream)
                async with asyncio.timeout(TIMEOUT_S):
                    await self._try(bucket)
            except GONE:
                bucket, self._revision = None, 0  # made again by the next try
            except (*CALLS, js_errors.KeyWrongLastSequenceError):
                self._revision = 0  # taken, or unknown: looked up by the next try
            else:
                self._until_s = began_s + TTL_S - MARGIN_S
            await asyncio.sleep(RENEW_S if self._revision else _retry_s())

    async def give_up(self, stream: JetStreamContext) -> None:
        """Free it at once, where it is held."""
        revision, self._until_s, self._revision = self._revision, 0.0, 0
        if revision:
            with contextlib.suppress(*CALLS):
                async with asyncio.timeout(TIMEOUT_S):
                    await (await stream.key_value(BUCKET)).delete(KEY, last=revision)

    async def _try(self, bucket: KeyValue) -> None:
        """Take or renew it; raises where another has it."""
        if self._revision:
            self._revision = await bucket.update(KEY, self._value, last=self._revision)
            return
        try:
            self._revision = await bucket.create(KEY, self._value)
        except js_errors.KeyWrongLastSequenceError:
            entry = await bucket.get(KEY)
            if entry.value != self._value:
                raise
            # Ours: the answer to the last renewal was lost.
            self._revision = await bucket.update(KEY, self._value, last=entry.revision)


def _retry_s() -> float:
    return secrets.SystemRandom().uniform(*RETRY_S)


async def _bucket(stream: JetStreamContext) -> KeyValue:
    """The bucket, on as many servers as the stream of the bus: else the lease would end with one
    server, and nobody could take it before that one is back. NotFoundError where there is no such
    stream, as nobody has anything to say then.
    """
    replicas = (await stream.stream_info(STREAM)).config.num_replicas or 1
    try:
        bucket = await stream.key_value(BUCKET)
    except js_errors.BucketNotFoundError:
        return await stream.create_key_value(bucket=BUCKET, history=1, ttl=TTL_S, replicas=replicas)
    config = (await stream.stream_info(f"KV_{BUCKET}")).config
    if (config.num_replicas or 1) < replicas:  # versions before made it on one server
        await stream.update_stream(config, num_replicas=replicas)
    return bucket
