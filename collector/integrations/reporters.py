"""Where a running agent reports its incidents by itself: Kubernetes and NVSentinel, as the
configuration says; and a cordon as maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.config.gates import Gates
from collector.integrations.periodic_task import PeriodicTask
from collector.node.out_of_service import Out
from pipeline.clock import Clock
from pipeline.guard import Guard

USER = "kubernetes"  # in whose name a cordoned node is out of service
# Renewed at each heartbeat of five minutes. Whatever keeps the end of a cordon from being noticed
# (an API server that is away, the off file, an agent that was stopped) keeps a node silent for no
# longer than this.
CORDONED_S = 900.0


class Reporters:
    """``tell`` is what people use to take the node out of service
    (collector/agent/operator_commands.py), ``out`` what is out now.
    """

    def __init__(
        self,
        host: str,
        clock: Clock,
        guard: Guard,
        look: Callable[[], Mapping[str, Any]],
        *,
        tell: Callable[[dict[str, Any]], dict[str, Any]],
        out: Callable[[], Sequence[Out]],
    ) -> None:
        self._host, self._clock, self._guard, self._look = host, clock, guard, look
        self._tell, self._out = tell, out
        self._gates: Gates | None = None
        self._tasks: tuple[PeriodicTask, ...] = ()

    def configure(self, gates: Gates) -> None:
        """Tell whom these settings name from now on."""
        if gates == self._gates:
            return
        self.close()
        follows = gates.kubernetes.cordon and gates.kubernetes.report != "off"
        # nobody would notice the end of a cordon, nor of one that a former life of the agent saw
        if not follows:
            self._guard.call("gate", "kubernetes", lambda: self.cordoned(False))
        self._gates, self._tasks = gates, tuple(self._made(gates))

    def close(self) -> None:
        """Tell nobody any more.

        A cordon is not ended by that: an agent that comes back need not page for a node
        that is being worked on.
        """
        for task in self._tasks:
            task.close()
        self._tasks = ()

    def _made(self, gates: Gates) -> Iterator[PeriodicTask]:
        node = gates.kubernetes.node or self._host
        if gates.kubernetes.report != "off":
            from collector.integrations.kubernetes.reporter import Reporter  # noqa: PLC0415 - who reports nothing pays for no TLS

            reporter = Reporter(
                gates.kubernetes,
                gates.off_file,
                node,
                self._look,
                self._clock,
                cordoned=self.cordoned,
            )
            yield PeriodicTask(
                "kubernetes",
                reporter.tick,
                float(gates.kubernetes.period),
                self._guard,
                self._clock,
            )
        if gates.nvsentinel.socket:
            from collector.integrations.nvsentinel.bridge import Bridge  # noqa: PLC0415 - nor for HTTP/2

            bridge = Bridge(
                Path(gates.nvsentinel.socket), gates.off_file, node, self._look, self._clock
            )
            yield PeriodicTask(
                "nvsentinel", bridge.tick, float(gates.nvsentinel.period), self._guard, self._clock
            )

    def cordoned(self, now: bool) -> None:
        """Take the node out of service while it is cordoned, for a while at a time.

        What people took out is theirs to bring back.
        """
        there = next((out for out in self._out() if out.kind == "node"), None)
        ours = there is not None and there.user == USER
        request = {"command": "maintenance", "on": now, "device": "", "user": USER}
        if now and (ours or there is None):
            self._tell(request | {"reason": "cordoned in Kubernetes", "seconds": CORDONED_S})
        if not now and ours:
            self._tell(request)
