"""The gateway's process: reads the bus, judges, serves; leads while it holds the lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Lock

from nats import errors
from nats.aio.client import Client

from collector.agent.environment import host_name
from collector.agent.findings_log import FindingsLog
from collector.agent.judge import judge_of, periods_of
from collector.agent.local_store import local_store
from collector.agent.notify import Notifier
from collector.bus.connection import RECONNECT_S, BusError, connect, ended, words
from collector.bus.credentials import CredentialsError
from collector.config.links import Links
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.config.web.security import WebFile
from collector.version import VERSION
from collector.web import AgentPages, ListenError, Web
from collector.web.status import Node
from gateway import page
from gateway.api import Api, Pulse
from gateway.consumer import Consumer
from gateway.explains import Explanations
from gateway.fleet import Fleet
from gateway.incident_series import incident_series
from gateway.ingest.pool import Pool
from gateway.ingest.reading import InProcess, Reading
from gateway.job_history.history import history_of
from gateway.learnt import LearntModel
from gateway.lease import Lease
from gateway.model import ClusterModel
from gateway.refusals import Refusals
from gateway.site import site
from gateway.snapshots import Snapshots
from gateway.timing import Timing
from gateway.verdicts import Verdicts
from gateway.waiting import Waiting
from pipeline.arrival_cut import GATEWAY
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS, instant
from pipeline.exposition import Exposition
from pipeline.guard import Guard, Health
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.outlet import Outlet
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.lock import DirectoryTakenError, lock

log = logging.getLogger("tocsin.gateway")

DELIVERY_NS = SECOND_NS // 2  # what is stored by then has arrived, or is late
# Messages between two reports, and between two looks whether it is to stop: while an hour is caught
# up with, what was judged is not collected for long.
MAX_AT_ONCE = 250
STEP_S = 0.2  # between two looks whether a second has closed
CATCH_UP_NS = 3600 * SECOND_NS  # what the stream of docs/bus.md keeps
# An hour of 2,000 hosts is judged in less; a gateway that takes longer hangs.
STUCK_NS = 1800 * SECOND_NS
# After a batch's period a second closes within this: LATENESS_NS of gateway/ticks.py, DELIVERY_NS
# and a message's way.
CLOSES_NS = 5 * SECOND_NS
CANNOT_START = (ConfigError, DirectoryTakenError, ListenError)
STOP_STORE_S = 15.0


def main(config: Config, timing: Timing | None = None) -> int:
    """Run until a signal ends it; the exit code: 0 stopped by a signal, 1 could not start."""
    try:
        return asyncio.run(_run(config, timing))
    except CANNOT_START as error:
        log.error("cannot start: %s", error)
        return 1


async def _run(config: Config, timing: Timing | None) -> int:
    with lock(Path(config.storage.path)):
        return await Gateway(config, f"{host_name(os.environ)}-{os.getpid()}", timing).run()


class Gateway:
    """One of the gateways of a cluster."""

    def __init__(self, config: Config, name: str, timing: Timing | None = None) -> None:
        if not config.bus.servers:
            raise ConfigError("bus.servers: the gateway reads the bus, and none is set")
        self._config, self._name = config, name
        self._timing = timing or Timing()
        self._clock = self._timing.clock
        self._metrics = SelfMetrics()
        self._judge = judge_of(config, self._metrics, self._clock, calibrated=True)
        self._learnt = LearntModel(config.detectors.calibration, self._judge, self._metrics)
        period_ns = round(float(config.bus.period) * SECOND_NS)
        most_ns = self._timing.present_ns - CLOSES_NS
        if period_ns > most_ns:
            raise ConfigError(
                f"bus.period: {config.bus.period} is longer than {most_ns // SECOND_NS}s: "
                "what the gateway judges would be too old to be reported"
            )
        workers = config.gateway.ingest_workers
        self._reading: Reading = Pool(workers, self._metrics) if workers else InProcess()
        self._fleet = Fleet(
            self._judge,
            self._metrics,
            period_ns,
            self._learnt.events,
            self._reading,
            known=periods_of(config),
        )
        store = local_store(
            config, GATEWAY, self._clock, self._metrics, writer=host_name(os.environ)
        )
        self._store = Outlet(store, self._metrics, self._clock)
        self._verdicts = Verdicts(self._store, self._clock)
        self._lease = Lease(name)
        self._log = FindingsLog()
        self._explanations = Explanations()
        self._metrics.set(series.INFO, 1, config.bus.cluster, VERSION)
        self._metrics.set(series.LEADER, 0)
        self._health, self._refusals = Health("bus"), Refusals()
        self._stop = asyncio.Event()
        self._messages = Waiting()
        self._stored_ns = 0  # the bus's time of the last message
        self._position = "", 0  # its stream and sequence
        self._read_ns = 0  # through which all was read, by the bus's clock
        self._idle_ns: int | None = None  # when nothing was left to judge
        self._resumed = False
        self._judging = Lock()  # held while what is remembered changes or is copied
        self._led = False
        self._looked_ns = self._clock.monotonic_ns()
        self._exposition = Exposition(self._metrics, clock=self._clock, verdicts=False)
        pages = AgentPages(
            self._exposition,
            self._metrics,
            self._clock,
            Node(name, VERSION),
            unready=lambda: "" if self._present or self._idle else "the last hour is being read",
            current=self._judge.current,
            past=lambda: self._judge.past,
        )
        web = config.web
        self._model = ClusterModel(
            self._timing.shown or self._clock,
            sent=self._sent,
            findings=self._judge.standing,
            incidents=self._judge.open,
            past=lambda: self._judge.past,
            current=self._judge.current,
        )
        self._snapshots = Snapshots(
            Path(config.storage.path),
            config.bus.cluster,
            self._clock,
            self._metrics,
            judge=self._judge,
            fleet=self._fleet,
            others=(self._model, self._explanations),
        )
        self._history = history_of(config, self._clock)
        self._api = Api(
            self._model,
            Guard(self._metrics, self._clock),
            name=config.bus.cluster,
            links=Links(web.runbook_url, web.dashboard_url),
            pulse=self._pulse,
            tenants=web.tenants,
            shown=page.paths(web.telemetry_path),
            history=self._history,
        )
        self._web = Web(
            pages,
            Guard(self._metrics, self._clock),
            web.listen_address,
            metrics_path=web.telemetry_path,
            max_scrapes=web.max_concurrent_scrapes,
            health_listen=web.health_listen_address,
            file=WebFile(Path(web.config_file)) if web.config_file else None,
            metrics=self._metrics,
            site=site(self._api, web),
            bodies=self._api.bodies,
        )

    def _sent(self) -> dict[str, int]:
        """When each host sent last. The judge's thread may add hosts meanwhile."""
        return {host.name: host.arrived_ns for host in list(self._fleet.arrivals.hosts.values())}

    def _pulse(self) -> Pulse:
        late = self._metrics.value(series.HOSTS, "late") or 0
        return Pulse(
            self._metrics.value(series.TICK) or 0.0,
            len(self._sent()),
            int(late),
            leads=self._led,
            present=self._present,
        )

    @property
    def _present(self) -> bool:
        """Whether what is judged is of now."""
        judged_s = self._metrics.value(series.TICK) or 0.0
        return judged_s * SECOND_NS > self._clock.time_ns() - self._timing.present_ns

    @property
    def _idle(self) -> bool:
        """Whether all that the bus has is judged: agents that are not there yet, or no more, keep
        nobody from its page.
        """
        if self._idle_ns is None:
            return False
        return self._clock.monotonic_ns() - self._idle_ns < self._timing.present_ns

    def _up_to_date(self, read_ns: int) -> bool:
        """Whether what the bus has was read: it says so again, or the last message is of now."""
        moved, self._read_ns = read_ns != self._read_ns, read_ns
        return moved or self._stored_ns > self._clock.time_ns() - self._timing.present_ns

    async def run(self) -> int:
        """Serve and judge until a signal."""
        notifier = Notifier(os.environ)
        addresses = await self._web.start()
        for address in addresses:
            log.info("listening on %s://%s", self._web.security.scheme, address)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stop.set)
        self._store.start()
        notifier.ready(f"Serving {', '.join(addresses)}")
        working = asyncio.create_task(self._work())
        reading = asyncio.create_task(self._history.keep()) if self._history else None
        stopping = asyncio.create_task(self._stop.wait())
        while not stopping.done() and not working.done():
            await asyncio.wait({working, stopping}, timeout=1, return_when="FIRST_COMPLETED")
            now_ns = self._clock.monotonic_ns()
            notifier.beat(now_ns, alive=now_ns - self._looked_ns < STUCK_NS)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        notifier.stopping()
        if self._history is not None and reading is not None:
            reading.cancel()
            await self._history.close()
        await self._web.stop()
        await self._api.close()
        await asyncio.to_thread(self._keep)
        self._reading.close()
        left = await asyncio.to_thread(self._store.close, STOP_STORE_S)
        if left:
            log.error("%d seconds with findings were still queued for the disk", left)
        return int(bool(left))

    async def _work(self) -> None:
        connecting = asyncio.create_task(self._connected())
        try:
            while not connecting.done():  # it waits, however long, and does not hang
                self._looked_ns = self._clock.monotonic_ns()
                await asyncio.wait({connecting}, timeout=STEP_S)
        finally:
            connecting.cancel()
        client = await connecting
        since_ns = self._clock.time_ns() - CATCH_UP_NS
        consumer = Consumer(client, self._config.bus.cluster, since_ns, self._resume)
        following = asyncio.create_task(self._follow(consumer))
        try:
            while not following.done():
                await asyncio.sleep(0 if self._messages else STEP_S)
                await self._look(consumer)
            following.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self, consumer: Consumer) -> None:
        """Read and lead, through another connection where the server has ended one."""
        while True:
            await self._use(consumer)
            self._away(ended(consumer.client))
            await asyncio.sleep(secrets.SystemRandom().uniform(*RECONNECT_S))
            consumer.client, consumer.trouble = await self._connected(), ""

    async def _use(self, consumer: Consumer) -> None:
        """Read, and lead where nobody else does, until the client is closed."""
        client = consumer.client
        stream = client.jetstream()
        tasks = [
            asyncio.create_task(self._lease.keep(stream, lambda: self._present)),
            asyncio.create_task(self._read(consumer)),
        ]
        try:
            while not client.is_closed:
                done, _ = await asyncio.wait(tasks, timeout=STEP_S, return_when="FIRST_COMPLETED")
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._lease.give_up(stream)
            with contextlib.suppress(OSError, errors.Error):  # it may be cut off just now
                await client.close()

    async def _connected(self) -> Client:
        while True:
            try:
                # Its own subjects of replies, whatever machine it runs on: docs/bus.md, "Server".
                return await connect(self._config.bus, GATEWAY, self._notice)
            except (BusError, CredentialsError, OSError, errors.Error) as error:
                await self._notice(error)
                await asyncio.sleep(5)

    async def _notice(self, error: BaseException) -> None:
        self._away(words(error))

    def _away(self, why: str) -> None:
        self._metrics.set(series.CONNECTED, 0)
        self._health.failed(why, self._clock.monotonic_ns())

    async def _resume(self, stream: str) -> int:
        """Go on from the snapshot; which message comes next."""
        sequence = await asyncio.to_thread(self._snapshots.resume, stream)
        self._exposition.resume(self._judge.standing(), self._judge.open())
        self._resumed = True
        return sequence

    async def _read(self, consumer: Consumer) -> None:
        async for message in consumer.messages():
            while self._messages.full:  # noqa: ASYNC110 - a thread takes them
                await asyncio.sleep(STEP_S)
            self._fleet.offer(message.host, message.payload)
            self._messages.put(message)

    async def _look(self, consumer: Consumer) -> None:
        """Judge what has closed, and report what is open."""
        if consumer.client.is_closed:
            pass  # who makes another connection says what keeps it from that
        elif consumer.trouble:
            self._away(consumer.trouble)
        else:
            self._metrics.set(series.CONNECTED, 1)
            self._health.succeeded()
        judged = await asyncio.to_thread(self._judged, consumer.read_ns) if self._resumed else []
        self._looked_ns = self._clock.monotonic_ns()
        if self._resumed and not self._messages and self._up_to_date(consumer.read_ns):
            self._idle_ns = self._looked_ns
        leads = self._lease.held and self._present
        if leads and not self._led:  # what the one before it may have logged last
            self._log.write(self._taken_over(), (), self._judge.open())
        for observation, findings, incidents in judged:
            self._exposition.write(replace(observation, frames=()), findings, incidents)
            self._explanations.note(findings)
            if leads and self._lease.held:  # now, and not only when this began
                self._log.write(observation, findings, incidents)
        leads = leads and self._lease.held
        if judged or leads != self._led:
            self._report(leads=leads)
        self._led = leads

    def _report(self, *, leads: bool) -> None:
        """As series: whether this gateway leads, what is open, and which agents' incidents it
        explains.
        """
        self._metrics.set(series.LEADER, float(leads))
        cluster, shown = self._config.bus.cluster, incident_series(self._judge.open())
        rows = dict.fromkeys(((cluster, *labels) for labels in shown.rows), 1.0)
        self._metrics.replace(series.INCIDENT, rows if leads else {})
        self._metrics.set(series.INCIDENTS_OVERFLOW, shown.overflow if leads else 0)
        self._learnt.show()
        explained = self._explanations.of(
            cluster,
            self._judge.open(),
            self._fleet.arrivals.hosts.values(),
            self._judge.standing(),
            alerting=shown.incidents,
        )
        self._metrics.replace(series.EXPLAINS, explained if leads else {})
        self._metrics.set(series.EXPLAINS_OVERFLOW, self._explanations.overflow)

    def _taken_over(self) -> Observation:
        return Observation("gateway", self._name, "", 0, *instant(self._clock), 0)

    def _judged(self, read_ns: int) -> list[JudgedObservation]:
        """In a thread: what came since the last look, and what it closes. All that the bus stored
        until ``read_ns``, by its clock, has come.
        """
        with self._judging:
            judged = self._taken(read_ns)
            self._snapshots.take(*self._position)
            return judged

    def _keep(self) -> None:
        with self._judging:
            self._snapshots.close(*self._position)

    def _taken(self, read_ns: int) -> list[JudgedObservation]:
        judged: list[JudgedObservation] = []
        self._reading.tend()
        for _ in range(MAX_AT_ONCE):
            if not self._messages or self._stop.is_set():
                break
            message = self._messages.take()
            stored_ns = self._timing.stored_ns(message)
            judged += self._closed(stored_ns)
            if message.missed:
                self._metrics.add(series.MISSED, amount=message.missed)
                log.warning("%d messages were dropped before they were read", message.missed)
            refused = self._fleet.take(message.host, message.payload, stored_ns)
            if refused:
                self._refusals.log(message.host, refused, self._clock.monotonic_ns())
            self._stored_ns, self._position = stored_ns, (message.stream, message.sequence)
        if self._messages:
            return judged
        # The messages' own times close the seconds, and the broker's where none comes: gateways to
        # which they are delivered at other times judge alike.
        now_ns = self._stored_ns
        if read_ns and not self._timing.by_messages:
            now_ns = max(now_ns, self._timing.broker_ns(read_ns))
        return [*judged, *self._closed(now_ns - DELIVERY_NS)]

    def _closed(self, now_ns: int) -> Iterator[JudgedObservation]:
        """What is found in the seconds that close by then; stored before it is shown."""
        for second in self._fleet.judged(now_ns):
            self._verdicts.write(second)
            for each in second.judged:
                self._model.take(each.observation)
            yield from second.judged
