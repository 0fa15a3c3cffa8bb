"""The agent: one process per node. Starts the parts, watches over them, reloads and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collector.assembly import Parts, schedules, topology_of
from collector.config import Config
from collector.config.given import ConfigError
from collector.control import Control
from collector.dialect import dialect_of
from collector.gates.outside import Outside
from collector.judging import judge_of, periods_of
from collector.limits import raise_open_files
from collector.notify import Notifier
from collector.people import People
from collector.simulated_node import SimulatedNode
from collector.standing import Standing
from collector.web import ListenError, Web
from collector.web.security import WebFile
from collector.world import World, real, simulated
from detectors.snapshot import dump, load
from pipeline import xid
from pipeline.catalog import agent
from pipeline.clock import FastClock
from pipeline.engine import Engine
from pipeline.exposition.sink import Dialect
from pipeline.guard import Guard
from pipeline.observation import Event
from pipeline.store.lock import DirectoryTakenError, lock

log = logging.getLogger("tocsin.agent")

WATCH_S = 1.0
STOP_READS_S, STOP_STORE_S = 5.0, 15.0  # together well within Kubernetes' 30 s between SIGTERM and SIGKILL
FIXED = ("storage", "simulate", "path")  # sections that a running agent cannot change
NOBODY_ELSE = 0o027  # what the agent writes tells whose jobs ran: its own user and group read it
CANNOT_START = (ConfigError, ListenError, DirectoryTakenError)


def main(config: Config, reload: Callable[[], Config] | None = None) -> int:
    """Run until told to stop; the exit code: 0 stopped as told, 1 could not start."""
    try:
        return asyncio.run(Agent(config, reload or (lambda: config), Notifier(os.environ)).run())
    except CANNOT_START as error:
        log.error("cannot start: %s", error)
        return 1


class Agent:
    """The process: what stands, the engine of the present configuration, the server, the signals."""

    def __init__(self, config: Config, reload: Callable[[], Config], notifier: Notifier) -> None:
        self._config, self._load, self._notifier = config, reload, notifier
        self._stop = asyncio.Event()
        self._asked = False  # for a reload, by signal
        self._reloading = False

    async def run(self) -> int:
        """Start everything, serve until a signal, stop everything."""
        raise_open_files()
        os.umask(os.umask(NOBODY_ELSE) | NOBODY_ELSE)
        with contextlib.ExitStack() as stack:
            stack.enter_context(lock(Path(self._config.storage.path)))
            world = self._enter_world(stack)
            self._standing = Standing(
                self._config, world, unhealthy=self._unhealthy, unready=self._unready, reloading=lambda: self._reloading
            )
            self._engine, dialect = self._build(self._config)
            self._standing.exposition.configure(self._config.exposition.profile, periods_of(self._config), dialect)
            self._people = People(
                world.host,
                world.clock,
                self._standing.exposition,
                self._standing.out,
                self._publish,
                guard=Guard(self._standing.own, world.clock),
                check=self._check,
            )
            self._outside = self._tellers()
            self._web = await self._serve(self._config)
            try:
                self._taken()
                remembered = self._standing.remember(self._engine.judge)
                self._standing.start()
                # Milliseconds since boot: unique and rising over all lives of the agent within a boot, whatever the wall clock does.
                self._engine.start(world.clock.monotonic_ns() // 1_000_000)
                if not remembered:
                    self._people.remind()
                stack.callback(self._listen())
                self._outside.configure(self._config.gates)
                await self._watch()
            finally:
                await self._end()
        return 0

    def _publish(self, events: Sequence[Event]) -> bool:
        """What people say goes the way of what sources read."""
        return self._engine.publish("operator", events)

    def _check(self) -> dict[str, Any]:
        """The verdict, and what the present configuration lets `tocsin check` do."""
        world, gates = self._standing.world, self._config.gates
        allowed = {"off_file": gates.off_file, "slurm": gates.slurm.document}
        return self._standing.pages.check() | {"boot_id": world.boot_id, "simulated": world.simulated, "gates": allowed}

    def _tellers(self) -> Outside:
        standing, world = self._standing, self._standing.world
        guard = Guard(standing.own, world.clock)
        return Outside(world.host, world.clock, guard, standing.pages.check, tell=self._people.answer, out=standing.out.all)

    def _listen(self) -> Callable[[], None]:
        """Open the socket for people; how to close it. An agent that cannot is no worse a watchman: it says so and goes on."""
        root = Path(self._config.storage.path)
        try:
            return Control(root, self._people.answer).close
        except OSError as error:
            log.warning("no socket for `tocsin ack` and `tocsin maintenance` in %s: %s", root, error)
            return lambda: None

    def _enter_world(self, stack: contextlib.ExitStack) -> World:
        settings = self._config.simulate
        if not settings.profile:
            return real(self._config)
        directory = Path(settings.directory or Path(self._config.storage.path) / "simulated")
        since_ns = time.monotonic_ns()
        self._node = SimulatedNode(directory, settings, since_ns)
        stack.callback(self._node.close)
        log.warning("this node is simulated (%s, seed %d): nothing here is real hardware", settings.profile, settings.seed)
        if settings.speed == 1:
            return simulated(directory, settings.profile)
        log.warning("its time runs %d times as fast as that of the machine", settings.speed)
        return simulated(directory, settings.profile, clock=FastClock(settings.speed, since_ns, float(settings.ago)))

    def _build(self, config: Config) -> tuple[Engine, Dialect | None]:
        """An engine for a configuration, not yet started. Raises one of CANNOT_START, with the present one untouched."""
        standing = self._standing
        topology = topology_of(config.topology, standing.world.host)
        parts = Parts(
            config, standing.world, standing.inventory, standing.state, standing.own, topology, suspicions=standing.suspicions
        )
        dialect = dialect_of(config.exposition, standing.world.host, standing.world.clock, standing.xids)
        engine = Engine(
            host=standing.world.host,
            boot_id=standing.world.boot_id,
            clock=standing.world.clock,
            schedules=tuple(schedules(parts)),
            judge=judge_of(config, standing.own, standing.world.clock),
            sinks=standing.sinks,
            own=standing.own,
            wait=standing.world.wait,
        )
        return engine, dialect

    async def _serve(self, config: Config, follows: Web | None = None) -> Web:
        web = Web(
            self._standing.pages,
            Guard(self._standing.own, self._standing.world.clock),
            config.web.listen_address,
            metrics_path=config.web.telemetry_path,
            most_scrapes=config.web.max_concurrent_scrapes,
            health_listen=config.web.health_listen_address,
            file=WebFile(Path(config.web.config_file)) if config.web.config_file else None,
            own=self._standing.own,
            follows=follows,
        )
        self._serving = await web.start()
        for address in self._serving:
            log.info("listening on %s://%s%s", web.security.scheme, address, config.web.telemetry_path)
        for address in web.health_bound:
            log.info("health on http://%s/-/healthy", address)
        return web

    async def _watch(self) -> None:
        """Once a second: GPUs that are new, a simulated node that died, reloads that were asked for."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._ask)
        files = self._stamps()
        gc.collect()
        gc.freeze()  # what is here now stays: full collections need not look at it again
        self._notifier.ready(f"Serving {', '.join(self._serving)}")
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), WATCH_S)
            self._standing.watch()
            self._people.watch()
            self._notifier.beat(self._standing.world.clock.monotonic_ns(), alive=self._engine.alive())
            if self._config.simulate.profile:
                self._node.watch()
            now = self._stamps()
            if self._asked or now != files:
                self._asked, files = False, now
                self._notifier.reloading(self._standing.world.clock.monotonic_ns())
                taken = await self._reload()
                self._notifier.ready(
                    f"Serving {', '.join(self._serving)}{'' if taken else '; the new configuration is not taken'}"
                )

    async def _reload(self) -> bool:
        """Put the new configuration in place whole, or keep the old one; a metric and one line say which. Whether it was taken."""
        self._reloading = True
        try:
            config = self._load()
            changed = [section for section in FIXED if getattr(config, section) != getattr(self._config, section)]
            if changed:
                raise ConfigError(*(f"{section}: cannot change while the agent runs; restart it" for section in changed))
            engine, dialect = self._build(config)
            web = self._web if config.web == self._config.web else await self._serve(config, self._web)
        except CANNOT_START as error:
            self._standing.own.set(agent.CONFIG_RELOAD_SUCCESS, 0)
            log.error("the new configuration is not taken, the old one stays: %s", error)
            return False
        finally:
            self._reloading = False
        await self._swap(config, engine, dialect, web)
        return True

    async def _swap(self, config: Config, engine: Engine, dialect: Dialect | None, web: Web) -> None:
        old_engine, old_web = self._engine, self._web
        await asyncio.to_thread(old_engine.close, STOP_READS_S)
        self._config, self._engine, self._web = config, engine, web
        self._standing.exposition.configure(config.exposition.profile, periods_of(config), dialect)
        load(dump(old_engine.judge.memories), engine.judge.memories)  # another configuration is no reason to forget
        self._standing.snapshots.follow(engine.judge)
        engine.start(old_engine.seq)
        self._outside.configure(config.gates)
        if web is not old_web:
            await old_web.stop()
        self._taken()
        log.info("configuration reloaded")

    async def _end(self) -> None:
        """Stop reading, then serving, then drain and seal."""
        log.info("stopping")
        self._notifier.stopping()
        await asyncio.to_thread(self._outside.close)  # first: an agent that stops is not blind
        await asyncio.to_thread(self._engine.close, STOP_READS_S)
        await self._web.stop()
        await asyncio.to_thread(self._standing.close, STOP_STORE_S)

    def _taken(self) -> None:
        table = self._config.detectors.xid_table
        try:
            xid.use(Path(table) if table else None)
        except xid.XidTableError as error:  # it was good when the configuration was read
            log.error("the XID table is not taken, the one before stays: %s", error)
        own, clock = self._standing.own, self._standing.world.clock
        own.set(agent.CONFIG_RELOAD_SUCCESS, 1)
        own.set(agent.CONFIG_RELOAD_TIME, clock.time_ns() / 1e9)

    def _ask(self) -> None:
        self._asked = True

    def _stamps(self) -> tuple[float, ...]:
        """When the watched files changed; 0 for one that cannot be seen (a ConfigMap in mid-swap)."""
        return tuple(
            _changed_at(Path(name)) for name in (self._config.exposition.counters_file, self._config.detectors.xid_table) if name
        )

    def _unhealthy(self) -> str:
        return "" if self._engine.alive() else "the engine has not come round for 30 s"

    def _unready(self) -> str:
        periods = periods_of(self._config)
        sources = self._config.sources
        missing = [
            name
            for name in periods
            if getattr(sources, name).enabled and not self._standing.own.value(agent.SOURCE_LAST_SUCCESS, name)
        ]
        return f"no reading yet from {', '.join(missing)}" if missing else ""


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
