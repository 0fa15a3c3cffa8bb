"""The bus side of agents: real publishers, with clocks that a test moves and readings it makes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from collector.bus.publisher import Publisher
from collector.config.settings import Bus
from collector.config.units import Seconds
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics

CLUSTER = "c1"
STEP_S = 0.5


class MovedClock(SystemClock):
    """The machine's clocks, which ``wrong_s`` sets apart and ``passed_s`` lets jump."""

    wrong_s = passed_s = 0.0

    def time_ns(self) -> int:
        """Unix time, as wrong as it is."""
        return super().time_ns() + round((self.wrong_s + self.passed_s) * SECOND_NS)

    def monotonic_ns(self) -> int:
        """Never wrong."""
        return super().monotonic_ns() + round(self.passed_s * SECOND_NS)


class Host:
    """One agent with a GPU."""

    def __init__(
        self, url: str | Sequence[str], name: str, *, wrong_s: float = 0.0, credentials: str = ""
    ) -> None:
        self.name, self.metrics, self.clock = name, SelfMetrics(), MovedClock()
        self.clock.wrong_s = wrong_s
        self.gpu = Device(name, "gpu", f"GPU-{name}", {"index": "0"})
        self.observed = 0
        settings = Bus(
            servers=(url,) if isinstance(url, str) else tuple(url),
            cluster=CLUSTER,
            period=Seconds(1),
            credentials_file=credentials,
        )
        self.publisher = Publisher(settings, name, self.metrics, self.clock)
        self._lock = threading.Lock()

    def __enter__(self) -> Host:
        self.publisher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.publisher.close()

    def observe(self, *events: Event) -> None:
        """One reading of its GPU."""
        with self._lock:
            now_ns, mono_ns = self.clock.time_ns(), self.clock.monotonic_ns()
            frame = frame_of("gpu", [(self.gpu, {"power_milliwatts": 3e5})], now_ns, mono_ns)
            self.publisher.write(
                Observation(
                    "nvml", self.name, "b", self.observed, now_ns, mono_ns, 0, (frame,), events
                ),
                (),
            )
            self.observed += 1

    def lose_gpu(self) -> None:
        """It falls off the bus: a certain fault."""
        at = self.clock.time_ns(), self.clock.monotonic_ns()
        self.observe(Event(*at, self.gpu, "xid", {"code": 79, "origin": "nvml"}))

    @property
    def dropped(self) -> int:
        """Observations that nobody will send any more."""
        return int(self.metrics.value(agent.BUS_DROPPED) or 0)

    @property
    def acknowledged(self) -> int:
        """Batches of which it knows that they are stored."""
        return int(self.metrics.value(agent.BUS_BATCHES) or 0)

    @property
    def connected(self) -> bool:
        """Whether the bus takes what it sends."""
        return bool(self.metrics.value(agent.BUS_CONNECTED))

    @property
    def trouble(self) -> str:
        """Why it does not."""
        return self.publisher._health.reason


class Reading:
    """Hosts that read all the time, until the end of ``with``."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts, self._stack, self._end = hosts, ExitStack(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Reading:
        for host in self._hosts:
            self._stack.enter_context(host)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._stack.close()

    def _run(self) -> None:
        while not self._end.wait(STEP_S):
            for host in self._hosts:
                host.observe()
