"""The simulated node's own process, as ``tocsin agent --simulate`` runs it: started, waited for,
restarted when it dies, stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from collector.config.raw_setting import ConfigError
from collector.config.settings import Simulate
from pipeline.child import Child, python

log = logging.getLogger("tocsin.agent")

READY_S = 180.0  # to write a node's first state, on a machine that has much other work


class SimulatedNode:
    """Owns the process that plays the hardware below ``directory``.

    ConfigError where it does not come up.

    ``since_ns``: instant of CLOCK_MONOTONIC from which on the node's clocks run at its
    speed, where that is not 1.
    """

    def __init__(
        self,
        directory: Path,
        settings: Simulate,
        since_ns: int = 0,
        *,
        start: Callable[[Sequence[str]], Child] = Child,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.directory = directory
        given = {"--profile": settings.profile, "--seed": str(settings.seed), "--day": settings.day}
        if settings.speed != 1:
            given |= {
                "--speed": str(settings.speed),
                "--since": str(since_ns),
                "--ago": str(float(settings.ago)),
            }
        self._argv = python("collector.cli", "simulate", str(directory), "--owned")
        for flag, value in (*given.items(), *(("--inject", spec) for spec in settings.inject)):
            self._argv += [flag, value] if value else []
        self._start, self._pause = start, pause
        self._ready = directory / "ready"
        self._ready.unlink(missing_ok=True)
        self._child = start(self._argv)
        self._wait()

    def watch(self) -> None:
        """Start it again if it died: a rehearsal should outlive its own faults."""
        if self._child.poll() is not None:
            log.warning(
                "the simulated node's process exited (%s); restarting it", self._child.poll()
            )
            self._child.kill()
            self._child = self._start(self._argv)

    def close(self) -> None:
        """End it."""
        self._child.kill()

    def _wait(self) -> None:
        for _ in range(round(READY_S / 0.05)):
            if self._ready.exists():
                return
            if self._child.poll() is not None:
                break
            self._pause(0.05)
        words = (self._child.receive(0.0) or b"").decode(errors="replace").strip()
        self._child.kill()
        raise ConfigError(
            "simulate: the simulated node did not come up in "
            f"{self.directory}{': ' if words else ''}{words}"
        )
