"""Messages of all hosts of a cluster, in the order in which the broker stored them.

Each gateway reads everything, so no position is kept at the broker: an ordered consumer, which the
client makes again where a message is missing. A stream that was emptied or made again begins at 1:
what was not seen is said in numbers, never passed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nats import errors
from nats.js import errors as js_errors
from nats.js.api import ConsumerConfig, DeliverPolicy

from pipeline.bus import subjects
from pipeline.clock import SECOND_NS

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

STREAM = "tocsin"
# Without a message for so long the stream is looked at: whether there is none, or it is another
# one, or gone.
QUIET_S = 0.5
RETRY_S = 1.0
INFO, ANSWER_S = f"$JS.API.STREAM.INFO.{STREAM}", 5.0  # nats-py leaves out the time of the answer
PENDING_MESSAGES, PENDING_BYTES = 100_000, 512 << 20  # waiting in this process
AT_ONCE = 256  # taken from the client and not yet read
CALLS = (errors.Error, js_errors.Error, OSError, asyncio.TimeoutError)


@dataclass(frozen=True, slots=True)
class Message:
    """``host`` is the subject's token; ``stored_ns`` the broker's unix time, ``sequence`` its
    number in the stream, and ``stream`` says which one that is: a stream that is made again has
    another. ``missed`` messages before it were thrown away unseen.
    """

    host: str
    payload: bytes
    stored_ns: int
    sequence: int
    missed: int = 0
    stream: str = ""


async def nowhere(_: str) -> int:
    """A reader that remembers nothing."""
    return 0


class Consumer:
    """Reads from ``since_ns`` (unix), then on; ``trouble`` says in one line why it does not.

    ``read_ns``: all that was stored by then, by the broker's clock, has been read, as it says where
    no message comes. This machine's clock does not tell: it may be another, and while servers elect
    a leader, messages that are stored are delivered seconds later.

    ``resume`` is asked once which message of the stream comes next, 0 for those since then.
    ``client`` may be replaced by another once it is closed; what was read stays so.
    """

    def __init__(
        self,
        client: Client,
        cluster: str,
        since_ns: int,
        resume: Callable[[str], Awaitable[int]] = nowhere,
    ) -> None:
        self.client, self._subject = client, subjects.frames(cluster, "*").replace("_2a", "*")
        self._since_ns = since_ns
        self._resume = resume
        self._next = 0  # sequence that comes next; 0 where nothing came yet
        self._created: datetime | None = None
        self.trouble = ""
        self.read_ns = 0

    async def messages(self) -> AsyncIterator[Message]:
        """Until the client is closed: the broker may go and come back."""
        while not self.client.is_closed:
            try:
                async for message in self._reading():
                    self.trouble = ""
                    yield message
            except CALLS as error:
                self.trouble = " ".join(str(error).split()) or type(error).__name__
            await asyncio.sleep(RETRY_S)

    async def _reading(self) -> AsyncIterator[Message]:
        """Until the stream is another one; raises where the broker does not answer."""
        stream = self.client.jetstream()
        info = await stream.stream_info(STREAM)
        if self._created is None:
            self._next = await self._resume(_name(info.created))
        elif self._created != info.created:
            self._next = 0  # made again: its numbers begin at 1
        self._created = info.created
        # A server that lost power may have lost what it acknowledged last.
        self._next = min(self._next, info.state.last_seq + 1)
        missed = max(0, info.state.first_seq - self._next) if self._next else 0
        inbox, name = _Inbox(), _name(info.created)
        # By a callback: to await each message would take a task, and five rounds of the loop.
        subscription = await stream.subscribe(
            self._subject,
            cb=inbox.put,
            stream=STREAM,
            ordered_consumer=True,
            config=self._from(),
            pending_msgs_limit=PENDING_MESSAGES,
            pending_bytes_limit=PENDING_BYTES,
        )
        _count_what_waits(subscription)
        last, ahead = 0, False  # the consumer's number of the last message; see below
        try:
            while True:
                raws = await inbox.taken(QUIET_S)
                if not raws:
                    asked_ns = await self._broker_ns()
                    if (await stream.stream_info(STREAM)).created != self._created:
                        return
                    about = await subscription.consumer_info()  # raises where the broker lost it
                    sent = about.delivered.stream_seq if about.delivered else 0
                    if sent >= max(1, self._next):
                        if ahead:
                            return  # sent half a second ago and not come: the client dropped it
                        ahead = True
                    elif not about.num_pending:
                        self.read_ns = asked_ns
                for raw in raws:
                    message, number = _read(raw, missed, name), raw.metadata.sequence.consumer
                    if number != last + 1 and message.sequence != self._next:
                        return  # the client dropped some: read again from there
                    missed, last, ahead = 0, number, False
                    self._next = message.sequence + 1
                    yield message
        finally:
            with contextlib.suppress(*CALLS):  # a closed client has none
                await subscription.unsubscribe()

    async def _broker_ns(self) -> int:
        """The time of the server that leads the stream; raises where none answers."""
        answer = json.loads((await self.client.request(INFO, timeout=ANSWER_S)).data)
        if "error" in answer:
            js_errors.APIError.from_error(answer["error"])  # raises
        return _unix_ns(datetime.fromisoformat(answer["ts"]))

    def _from(self) -> ConsumerConfig:
        if self._next:
            return ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=self._next
            )
        since = datetime.fromtimestamp(self._since_ns / SECOND_NS, UTC)
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=since,
        )


class _Inbox:
    """Messages of a subscription, taken by many at a time; others wait in the client, which bounds
    them.
    """

    def __init__(self) -> None:
        self.waiting: list[Msg] = []
        self._some, self._room = asyncio.Event(), asyncio.Event()

    async def put(self, message: Msg) -> None:
        """The next one, once there is room."""
        while len(self.waiting) >= AT_ONCE:
            self._room.clear()
            await self._room.wait()
        self.waiting.append(message)
        self._some.set()

    async def taken(self, timeout_s: float) -> list[Msg]:
        """All that wait; none where none comes in that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._some.wait()
        taken, self.waiting = self.waiting, []
        self._some.clear()
        self._room.set()
        return taken


def _count_what_waits(subscription: JetStreamContext.PushSubscription) -> None:
    """Answer the broker's flow control when messages are taken. With a callback nats-py answers as
    soon as they come: then the broker sends all it has, and what is too much is dropped in silence.
    """
    about = subscription._sub._jsi  # noqa: SLF001 - no setting of the client does it
    if about is None:
        return

    def taken() -> int:
        return about._fciseq - subscription.pending_msgs  # noqa: SLF001

    about.get_js_delivered = taken  # type: ignore[method-assign]


def _name(created: datetime | None) -> str:
    return created.isoformat() if created else ""


def _unix_ns(at: datetime) -> int:
    return round(at.timestamp() * 1e6) * 1000


def _read(message: Msg, missed: int, stream: str) -> Message:
    about = message.metadata
    stored_ns = _unix_ns(about.timestamp)
    host = message.subject.rpartition(".")[2]
    return Message(host, message.data, stored_ns, about.sequence.stream, missed, stream)
