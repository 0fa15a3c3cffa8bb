"""The sink that sends: a thread with an event loop of its own, so that no broker delays a reading.

One batch is on its way at a time, and sent again with the same id until it is acknowledged or too
old; so a gateway gets batches in order, and each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nats import errors

from collector.bus.connection import BusError, TooLargeError, connect, ended, publish, words
from collector.bus.credentials import CredentialsError
from collector.bus.outbox import KEPT_NS, Outbox
from collector.config.settings import Bus
from pipeline.bus import subjects
from pipeline.bus.batch import Batch, encode
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard, Health
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

if TYPE_CHECKING:
    from nats.aio.client import Client

log = logging.getLogger("tocsin.bus")

URGENT_S = 1.0  # least time between two batches that something hurries
MAX_OBSERVATIONS = 64  # of one batch; 10 s of a node, 100 kB after an outage
# Until a server that was too old or ended the connection, or a file that was missing, is tried
# again.
AGAIN_S = (5.0, 15.0)


class Publisher:
    """Sends what the agent observed to ``tocsin.v1.<cluster>.frames.<host>``."""

    name = "bus"

    def __init__(self, settings: Bus, host: str, metrics: SelfMetrics, clock: Clock) -> None:
        self._settings, self._host = settings, host
        self._metrics, self._clock = metrics, clock
        self._outbox = Outbox(host, secrets.token_hex(16), metrics, clock)
        self._health = Health("bus")
        self._subject = subjects.frames(settings.cluster, host)
        self._most = MAX_OBSERVATIONS
        self._client: Client | None = None
        self._sending: Batch | None = None
        self._guard = Guard(metrics, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = asyncio.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        metrics.set(agent.BUS_CONNECTED, 0)
        metrics.set(agent.BUS_INFO, 1, settings.cluster, host)
        for metric in (agent.BUS_BATCHES, agent.BUS_BYTES):
            metrics.add(metric, amount=0)

    def resume(self, incidents: Sequence[Incident]) -> None:
        """What was open in the agent's last life."""
        self._outbox.resume(incidents)

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, name="sink-bus", daemon=True)
        self._thread.start()

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Queue it; what happened is sent at once, the rest once in a period."""
        judged = JudgedObservation(observation, tuple(findings), tuple(incidents))
        if self._outbox.put(judged) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry.set)

    def close(self, deadline_s: float = 2.0) -> None:
        """Send what waits within the deadline, then let go."""
        self._closing.set()
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry.set)
            self._thread.join(deadline_s)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            try:
                runner.run(self._keep_on())
            finally:
                self._loop = None

    async def _keep_on(self) -> None:
        """Until the agent ends, whatever fails that nobody thought of: it costs a batch."""
        while not self._closing.is_set():
            main = asyncio.ensure_future(self._main())
            await asyncio.wait({main})
            if (error := main.exception()) is None:
                return
            self._guard.failed("sink", self.name, error)
            if self._sending is not None:
                self._outbox.lost(self._sending)
            self._client = self._sending = None
            await self._fail_for_a_while(repr(error))

    async def _main(self) -> None:
        """Until the agent ends: connected, or waiting to be."""
        try:
            while await self._live() and not self._closing.is_set():
                await self._pause()
                await self._send_all()
        finally:
            if self._client is not None:
                with contextlib.suppress(OSError, errors.Error):  # it may be cut off just now
                    await self._client.close()

    async def _live(self) -> Client | None:
        """The connection, another one where the server has ended it; None where the agent ends
        before there is one.
        """
        if self._client is not None and not self._client.is_closed:
            return self._client
        connecting = asyncio.ensure_future(self._connected(self._client))
        self._client = None
        while not connecting.done() and not self._closing.is_set():
            await asyncio.wait({connecting}, timeout=1.0)
        if not connecting.done():
            connecting.cancel()
            return None
        self._client = connecting.result()
        self._metrics.set(agent.BUS_CONNECTED, 1)
        return self._client

    async def _connected(self, before: Client | None) -> Client:
        """A new connection; in place of one ``before`` that the server has ended not at once."""
        if before is not None:
            await self._fail_for_a_while(ended(before))
        while True:
            try:
                return await connect(self._settings, self._host, self._notice)
            except (BusError, CredentialsError, OSError, errors.Error) as error:
                await self._fail_for_a_while(words(error))

    async def _fail_for_a_while(self, why: str) -> None:
        self._failed(why)
        await asyncio.sleep(secrets.SystemRandom().uniform(*AGAIN_S))

    async def _pause(self) -> None:
        """A period, or less where something happened."""
        if self._closing.is_set():
            return
        await asyncio.sleep(URGENT_S)
        rest_s = max(0.0, float(self._settings.period) - URGENT_S)
        try:
            async with asyncio.timeout(rest_s):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    async def _send_all(self) -> None:
        while (batch := self._outbox.take(self._most)) is not None:
            self._sending = batch
            try:
                payload = encode(batch)
            except (TypeError, ValueError, OverflowError) as error:  # too large, or not writable
                self._divide(batch, str(error))
                continue
            try:
                await self._send(batch, payload)
            except TooLargeError as error:
                self._divide(batch, str(error))
            self._sending = None

    def _divide(self, batch: Batch, why: str) -> None:
        """Send it in halves; a single observation that cannot be sent is lost, and counted."""
        if len(batch.judged) == 1:
            self._outbox.lost(batch)
            self._failed(why)
            return
        self._outbox.give_back(batch)
        self._most = len(batch.judged) // 2

    async def _send(self, batch: Batch, payload: bytes) -> None:
        """Until it is acknowledged, or too old to be of use."""
        message_id = f"{batch.start}-{batch.number}"
        until_ns = self._clock.monotonic_ns() + KEPT_NS
        while (client := await self._live()) and self._clock.monotonic_ns() < until_ns:
            try:
                await publish(client, self._subject, payload, message_id)
            except TooLargeError:
                raise
            except BusError as error:
                self._failed(str(error))
                if self._closing.is_set():
                    break
                await asyncio.sleep(URGENT_S)
                continue
            self._metrics.add(agent.BUS_BATCHES)
            self._metrics.add(agent.BUS_BYTES, amount=len(payload))
            self._metrics.set(agent.BUS_LAST_SENT, self._clock.time_ns() / SECOND_NS)
            self._metrics.set(agent.BUS_CONNECTED, 1)
            self._health.succeeded()
            self._most = min(MAX_OBSERVATIONS, 2 * self._most)
            return
        self._outbox.lost(batch)

    async def _notice(self, error: BaseException) -> None:
        self._failed(words(error))

    def _failed(self, why: str) -> None:
        """One metric, and one line when it begins or changes."""
        self._metrics.set(agent.BUS_CONNECTED, 0)
        self._health.failed(why, self._clock.monotonic_ns())
