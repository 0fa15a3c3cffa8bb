"""The agent: one process per node. Starts the parts, watches over them, reloads and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.agent.dialect import dialect_of
from collector.agent.environment import HostEnvironment, real, simulated
from collector.agent.judge import judge_of, periods_of
from collector.agent.missing_privileges import log_soon
from collector.agent.notify import Notifier
from collector.agent.operator_commands import OperatorCommands
from collector.agent.runtime import Runtime
from collector.agent.simulated_node import SimulatedNode
from collector.agent.slow_readings import slow_readings
from collector.agent.sources import Parts, schedules, topology_of
from collector.agent.unfed import unfed
from collector.config.links import Links
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config, Log
from collector.config.web.security import WebFile
from collector.control import Control
from collector.integrations.reporters import Reporters
from collector.web import ListenError, Web
from detectors.kit.snapshot import dump, load
from pipeline.allocator import give_back, keep_little
from pipeline.catalog import agent
from pipeline.clock import FastClock
from pipeline.engine import Engine
from pipeline.exposition.sink import Dialect
from pipeline.guard import Guard
from pipeline.observation import Event
from pipeline.open_files import raise_open_files
from pipeline.store.files.lock import DirectoryTakenError, lock
from pipeline.xid import table as xid

log = logging.getLogger("tocsin.agent")

WATCH_S = 1.0
GIVE_BACK_S = 15.0  # freed memory to the kernel, so often: 2 ms for a heap of 20 MiB
# together well within Kubernetes' 30 s between SIGTERM and SIGKILL
STOP_READS_S, STOP_STORE_S = 5.0, 15.0
FIXED = ("storage", "bus", "simulate", "path")  # sections that a running agent cannot change
NOBODY_ELSE = 0o027  # what the agent writes shows whose jobs ran: its own user and group read it
CANNOT_START = (ConfigError, ListenError, DirectoryTakenError)


def main(
    config: Config,
    reload: Callable[[], Config] | None = None,
    set_up_log: Callable[[Log], object] = lambda _: None,
) -> int:
    """Run until a signal ends it; the exit code: 0 stopped by a signal with everything kept, 1
    could not start, or stopped while the disk refused to keep something. ``set_up_log`` is called
    when a reload changes the section ``log``.
    """
    try:
        return asyncio.run(
            _run(config, reload or (lambda: config), Notifier(os.environ), set_up_log)
        )
    except CANNOT_START as error:
        log.error("cannot start: %s", error)
        return 1


async def _run(
    config: Config,
    reload: Callable[[], Config],
    notifier: Notifier,
    set_up_log: Callable[[Log], object],
) -> int:
    raise_open_files("not every port's counters may be read")
    keep_little()
    os.umask(os.umask(NOBODY_ELSE) | NOBODY_ELSE)
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock(Path(config.storage.path)))
        environment, node = _environment(config, stack)
        made = Agent(config, reload, notifier, environment, node, set_up_log=set_up_log)
        return await made.run()


def _environment(
    config: Config, stack: contextlib.ExitStack
) -> tuple[HostEnvironment, SimulatedNode | None]:
    """This host, or a simulated node that ends with ``stack``."""
    settings = config.simulate
    if not settings.profile:
        stack.callback(log_soon(config))
        return real(config), None
    directory = Path(settings.directory or Path(config.storage.path) / "simulated")
    since_ns = time.monotonic_ns()
    node = SimulatedNode(directory, settings, since_ns)
    stack.callback(node.close)
    log.warning(
        "this node is simulated (%s, seed %d): no real hardware is read",
        settings.profile,
        settings.seed,
    )
    if settings.speed == 1:
        return simulated(directory, settings.profile), node
    log.warning("its clock runs %d times as fast as the machine's", settings.speed)
    clock = FastClock(settings.speed, since_ns, float(settings.ago))
    return simulated(directory, settings.profile, clock=clock), node


class Agent:
    """The process: what outlives a reload (``Runtime``), the engine of the present configuration,
    the server, the signals.
    """

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config],
        notifier: Notifier,
        environment: HostEnvironment,
        node: SimulatedNode | None,
        *,
        set_up_log: Callable[[Log], object] = lambda _: None,
    ) -> None:
        self._config, self._load, self._notifier = config, reload, notifier
        self._set_up_log = set_up_log
        self._environment, self._node = environment, node
        self._stop = asyncio.Event()
        self._asked = False  # for a reload, by signal
        self._reloading = False
        self._runtime = Runtime(
            config,
            environment,
            unhealthy=self._unhealthy,
            unready=self._unready,
            reloading=lambda: self._reloading,
        )
        self._engine, dialect = self._build(config)
        self._runtime.exposition.configure(config.exposition.profile, periods_of(config), dialect)
        guard = Guard(self._runtime.metrics, environment.clock)
        self._operators = OperatorCommands(
            environment.host,
            environment.clock,
            self._runtime.exposition,
            self._runtime.out,
            self._publish,
            guard=guard,
            check=self._check,
            past=self._runtime.past,
            labels=self._runtime.labels,
        )
        self._reporters = Reporters(
            environment.host,
            environment.clock,
            guard,
            self._runtime.pages.check,
            tell=self._operators.answer,
            out=self._runtime.out.all,
        )
        self._web = self._server(config)
        self._serving: tuple[str, ...] = ()

    async def run(self) -> int:
        """Start everything, serve until a signal, stop everything; the exit code."""
        problems: list[str] = []
        self._follow_signals()
        await self._serve(self._web)
        with contextlib.ExitStack() as stack:
            try:
                self._taken()
                remembered = self._runtime.remember(self._engine.judge, self._config.sources)
                self._runtime.start()
                # Milliseconds since boot: unique and rising over all lives of the agent within a
                # boot, whatever the wall clock does.
                self._engine.start(self._environment.clock.monotonic_ns() // 1_000_000)
                if not remembered or self._runtime.out.renamed:
                    self._operators.remind(gateway=bool(self._config.bus.servers))
                self._operators.remind_of_labels()
                stack.callback(self._listen())
                self._reporters.configure(self._config.gates)
                await self._watch()
            finally:
                problems += await self._end()
        for problem in problems:
            log.error("stopped, and not everything was kept: %s", problem)
        return int(bool(problems))

    def _publish(self, events: Sequence[Event]) -> bool:
        """What people say goes the way of what sources read."""
        return self._engine.publish("operator", events)

    def _check(self) -> dict[str, Any]:
        """The verdict, and what the present configuration lets `tocsin check` do."""
        environment, gates = self._environment, self._config.gates
        allowed = {"off_file": gates.off_file, "slurm": gates.slurm.document}
        return self._runtime.pages.check() | {
            "boot_id": environment.boot_id,
            "simulated": environment.simulated,
            "gates": allowed,
        }

    def _listen(self) -> Callable[[], None]:
        """Open the socket for people; how to close it.

        An agent that cannot is no worse a watchman: it says so and goes on.
        """
        root = Path(self._config.storage.path)
        try:
            return Control(root, self._operators.answer).close
        except OSError as error:
            log.warning(
                "no socket for `tocsin ack` and `tocsin maintenance` in %s: %s", root, error
            )
            return lambda: None

    def _build(self, config: Config) -> tuple[Engine, Dialect | None]:
        """An engine for a configuration, not yet started.

        Raises one of CANNOT_START, with the present one untouched.
        """
        runtime = self._runtime
        for warning in slow_readings(config):
            log.warning("%s", warning)
        topology = topology_of(config.topology, self._environment.host)
        parts = Parts(
            config,
            self._environment,
            runtime.inventory,
            runtime.state,
            runtime.metrics,
            topology,
            suspicions=runtime.suspicions,
            kept_jobs=runtime.kept_jobs,
        )
        dialect = dialect_of(
            config.exposition, self._environment.host, self._environment.clock, runtime.xids
        )
        engine = Engine(
            host=self._environment.host,
            boot_id=self._environment.boot_id,
            clock=self._environment.clock,
            schedules=tuple(schedules(parts)),
            judge=judge_of(
                config,
                runtime.metrics,
                self._environment.clock,
                allowed=runtime.labels.allowed(config.detectors),
            ),
            sinks=runtime.sinks,
            metrics=runtime.metrics,
            wait=self._environment.wait,
        )
        return engine, dialect

    def _server(self, config: Config, follows: Web | None = None) -> Web:
        metrics = self._runtime.metrics
        return Web(
            self._runtime.pages,
            Guard(metrics, self._environment.clock),
            config.web.listen_address,
            metrics_path=config.web.telemetry_path,
            max_scrapes=config.web.max_concurrent_scrapes,
            health_listen=config.web.health_listen_address,
            health_require_gpus=config.web.health_require_gpus,
            file=WebFile(Path(config.web.config_file)) if config.web.config_file else None,
            metrics=metrics,
            follows=follows,
        )

    async def _serve(self, web: Web) -> None:
        self._serving = tuple(await web.start())
        for address in self._serving:
            log.info("listening on %s://%s%s", web.security.scheme, address, web.metrics_path)
        for address in web.health_bound:
            log.info("health on http://%s/-/healthy", address)

    def _follow_signals(self) -> None:
        """Before anything is started: until then a SIGHUP ends the process, and a SIGTERM to the
        first process of a container does nothing.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._ask)

    async def _watch(self) -> None:
        """Once a second: GPUs that are new, a simulated node that died,
        reloads that were asked for.
        """
        loop = asyncio.get_running_loop()
        files = self._stamps()
        gc.collect()
        gc.freeze()  # what is here now stays: full collections need not look at it again
        give_back()
        given_back_s = loop.time()
        self._notifier.ready(f"Serving {', '.join(self._serving)}")
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), WATCH_S)
            if loop.time() - given_back_s >= GIVE_BACK_S:
                given_back_s = loop.time()
                give_back()
            self._runtime.watch()
            self._operators.watch()
            self._notifier.beat(self._environment.clock.monotonic_ns(), alive=self._engine.alive())
            if self._node:
                self._node.watch()
            before, files = files, self._stamps()
            if self._asked or changed(before, files):
                self._asked = False
                self._notifier.reloading(self._environment.clock.monotonic_ns())
                taken = await self._reload()
                self._notifier.ready(
                    f"Serving {', '.join(self._serving)}"
                    f"{'' if taken else '; new configuration rejected'}"
                )

    async def _reload(self) -> bool:
        """Put the new configuration in place whole, or keep the old one; a
        metric and one line say which.

        Whether it was taken.
        """
        self._reloading = True
        try:
            config = self._load()
            changed = [
                section
                for section in FIXED
                if getattr(config, section) != getattr(self._config, section)
            ]
            if changed:
                raise ConfigError(
                    *(
                        f"{section}: cannot change while the agent runs; restart it"
                        for section in changed
                    )
                )
            engine, dialect = self._build(config)
            web = self._web
            if config.web != self._config.web:
                web = self._server(config, follows=self._web)
                await self._serve(web)
        except CANNOT_START as error:
            self._runtime.metrics.set(agent.CONFIG_RELOAD_SUCCESS, 0)
            log.error("new configuration rejected, keeping the previous one: %s", error)
            return False
        finally:
            self._reloading = False
        await self._swap(config, engine, dialect, web)
        return True

    async def _swap(
        self, config: Config, engine: Engine, dialect: Dialect | None, web: Web
    ) -> None:
        old_engine, old_web, old_log = self._engine, self._web, self._config.log
        await asyncio.to_thread(old_engine.close, STOP_READS_S)
        self._runtime.exposition.configure(config.exposition.profile, periods_of(config), dialect)
        self._runtime.forget(old_engine.sources - engine.sources)
        # Another configuration is no reason to forget, but what nobody could end.
        ends = unfed(config.sources, old_engine.judge.standing())
        memories = [memory for memory in engine.judge.memories if memory.name not in ends]
        load(dump(old_engine.judge.memories), memories)
        engine.judge.begins_anew(ends, engine.judge.standing(), engine.judge.open())
        self._runtime.follow(engine.judge)
        engine.start(old_engine.seq)
        # Only now: what operators said before would be numbered and judged without that memory. The
        # old engine, which is closed, has them try again.
        self._config, self._engine, self._web = config, engine, web
        self._runtime.labels.configure(config.detectors)
        self._operators.remind_of_labels()
        self._reporters.configure(config.gates)
        if web is not old_web:
            await old_web.stop()
        self._taken()
        if config.log != old_log:
            self._set_up_log(config.log)
        log.info("configuration reloaded")

    async def _end(self) -> list[str]:
        """Stop reading, then serving, then drain and seal; what was not kept."""
        log.info("stopping")
        self._notifier.stopping()
        await asyncio.to_thread(self._reporters.close)  # first: an agent that stops is not blind
        await asyncio.to_thread(self._engine.close, STOP_READS_S)
        await self._web.stop()
        return await asyncio.to_thread(self._runtime.close, STOP_STORE_S)

    def _taken(self) -> None:
        table = self._config.detectors.xid_table
        try:
            xid.use(Path(table) if table else None)
        except xid.XidTableError as error:  # it was good when the configuration was read
            log.error("XID table rejected, keeping the previous one: %s", error)
        web = self._config.web
        self._runtime.pages.links = Links(web.runbook_url, web.dashboard_url)
        metrics, clock = self._runtime.metrics, self._environment.clock
        metrics.set(agent.CONFIG_RELOAD_SUCCESS, 1)
        metrics.set(agent.CONFIG_RELOAD_TIME, clock.time_ns() / 1e9)

    def _ask(self) -> None:
        self._asked = True

    def _stamps(self) -> dict[str, float]:
        """When the watched files changed; 0 for one that cannot be seen
        (a ConfigMap in mid-swap).
        """
        names = (self._config.exposition.counters_file, self._config.detectors.xid_table)
        return {name: _changed_at(Path(name)) for name in names if name}

    def _unhealthy(self) -> str:
        return "" if self._engine.alive() else "the engine has not completed a cycle for 30 s"

    def _unready(self) -> str:
        sources = self._config.sources
        missing = [
            name
            for name in type(sources).__struct_fields__
            if getattr(sources, name).enabled
            and not self._runtime.metrics.value(agent.SOURCE_LAST_SUCCESS, name)
        ]
        return f"no reading yet from {', '.join(missing)}" if missing else ""


def changed(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Whether a watched file changed. One that a reload has just named was read by that reload:
    another one would leave the GPUs unread once more.

    >>> changed({"a": 1.0}, {"a": 2.0}), changed({"a": 1.0}, {"b": 2.0}), changed({"a": 1.0}, {})
    (True, False, False)
    """
    return any(before.get(name, at) != at for name, at in now.items())


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
