"""The lease: of several gateways that judge, one leads.

A key in JetStream's key-value bucket, whose entries vanish unless they are renewed. Its name is one
that no host can know: the server sends the acknowledgement of a message to whichever subject its
sender names, the key's too, whatever the sender itself may publish. A lease is no
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
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from nats import errors
from nats.js import errors as js_errors

from gateway.consumer import STREAM

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

BUCKET, KEY = "tocsin-lease", "gateway"
TTL_S = 3.0  # of an entry that nobody renews: a take-over within 5 s (docs/fleet.md)
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
        self._place: _Place | None = None

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
        self._place = None  # of another connection
        while True:
            if not wanted():
                await self.give_up(stream)
                await asyncio.sleep(_retry_s())
                continue
            began_s = self._clock()
            try:
                place = self._place = self._place or await _place(stream)
                was_held = bool(self._revision)
                async with asyncio.timeout(TIMEOUT_S):
                    await self._try(place)
                if not was_held:
                    await self._confirm(stream, place)
            except GONE:
                self._place, self._revision = None, 0  # made again by the next try
            except js_errors.KeyWrongLastSequenceError:
                if self._revision:
                    self._place = None  # another bucket, perhaps
                self._revision = 0  # taken: looked up by the next try
            except CALLS:
                self._revision = 0  # unknown: likewise
            else:
                self._until_s = began_s + TTL_S - MARGIN_S
            await asyncio.sleep(RENEW_S if self._revision else _retry_s())

    async def give_up(self, stream: JetStreamContext) -> None:
        """Free it at once, where it is held."""
        revision, self._until_s, self._revision = self._revision, 0.0, 0
        if revision and self._place is not None:
            with contextlib.suppress(*CALLS):
                async with asyncio.timeout(TIMEOUT_S):
                    bucket = await stream.key_value(BUCKET)
                    await bucket.delete(self._place.key, last=revision)

    async def _try(self, place: _Place) -> None:
        """Take or renew it; raises where another has it."""
        bucket, key = place
        if self._revision:
            self._revision = await bucket.update(key, self._value, last=self._revision)
            return
        try:
            self._revision = await bucket.create(key, self._value)
        except js_errors.KeyWrongLastSequenceError:
            entry = await bucket.get(key)
            if entry.value != self._value:
                raise
            # Ours: the answer to the last renewal was lost.
            self._revision = await bucket.update(key, self._value, last=entry.revision)

    async def _confirm(self, stream: JetStreamContext, place: _Place) -> None:
        """NotFoundError where it was taken in a bucket that is another one by now: others look for
        its key there.
        """
        if _key((await stream.stream_info(f"KV_{BUCKET}")).created) != place.key:
            raise js_errors.NotFoundError


def _retry_s() -> float:
    return secrets.SystemRandom().uniform(*RETRY_S)


class _Place(NamedTuple):
    """Where the lease is: the same for all gateways as long as the bucket is the same one."""

    bucket: KeyValue
    key: str


async def _place(stream: JetStreamContext) -> _Place:
    """The bucket, on as many servers as the stream of the bus: else the lease would end with one
    server, and nobody could take it before that one is back. NotFoundError where there is no such
    stream, as nobody has anything to say then.
    """
    replicas = (await stream.stream_info(STREAM)).config.num_replicas or 1
    try:
        bucket = await stream.key_value(BUCKET)
    except js_errors.BucketNotFoundError:
        bucket = await stream.create_key_value(
            bucket=BUCKET, history=1, ttl=TTL_S, replicas=replicas
        )
    about = await stream.stream_info(f"KV_{BUCKET}")
    if (about.config.num_replicas or 1) < replicas:  # versions before made it on one server
        await stream.update_stream(about.config, num_replicas=replicas)
    return _Place(bucket, _key(about.created))


def _key(made: datetime | None) -> str:
    """By when the bucket was made, to the microsecond: only who may ask JetStream knows."""
    text = made.isoformat() if made else ""
    return f"{KEY}-{blake2b(text.encode(), digest_size=12).hexdigest()}"
