"""The gate to Kubernetes in a running agent: a reporter per configuration, and a cordon as maintenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collector.config.gates import Gates
from collector.out_of_service import Out
from pipeline.guard import Guard
from pipeline.interfaces import Clock

if TYPE_CHECKING:
    from collector.gates.kubernetes.reporter import Reporter

USER = "kubernetes"  # in whose name a cordoned node is out of service


class KubernetesGate:
    """``tell`` is what people use to take the node out of service (collector/people.py), ``out`` what is out now."""

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
        self._reporter: Reporter | None = None

    def configure(self, gates: Gates) -> None:
        """Report as these settings say from now on."""
        if gates == self._gates:
            return
        self.close()
        self._gates = gates
        if gates.kubernetes.report == "off":
            return
        from collector.gates.kubernetes.reporter import Reporter  # noqa: PLC0415 - who reports nothing pays for no TLS

        self._reporter = Reporter(gates.kubernetes, gates.off_file, self._host, self._look, self._clock, cordoned=self.cordoned)
        self._reporter.start(self._guard)

    def close(self) -> None:
        """Stop reporting."""
        if self._reporter is not None:
            self._reporter.close()
            self._reporter = None

    def cordoned(self, now: bool) -> None:
        """Take the node out of service while it is cordoned. What people took out is theirs to bring back."""
        there = next((out for out in self._out() if out.kind == "node"), None)
        if now and there is None:
            self._tell({"command": "maintenance", "on": True, "device": "", "reason": "cordoned in Kubernetes", "user": USER})
        if not now and there is not None and there.user == USER:
            self._tell({"command": "maintenance", "on": False, "device": "", "user": USER})
