"""A node whose kernel log a test writes, before the detector of XIDs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.sources.kmsg.parse import parse_text
from detectors.xid import Xid
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import Feed

GPU, MEMORY, LINK, PROGRAM = "xid/gpu", "xid/memory", "xid/nvlink", "xid/application"
HOUR, DAY = 3600.0, 86400.0
NODE = Device("n1", "node", "n1")


class Log(Feed):
    """A node whose kernel log a test writes."""

    def __init__(self, **settings: float | Sequence[Device]) -> None:
        super().__init__(Xid(), **settings)  # type: ignore[arg-type] # as Feed takes them
        self._line = 0

    def xid(
        self, code: int, gpu: int = 0, *, ago_s: float = 0.0, count: int = 1, **facts: Any
    ) -> list[Finding]:
        """A line of the kernel log, now or earlier."""
        self._line += count
        numbers: dict[str, Any] = {
            "origin": "kmsg",
            "stream": self.boot,
            "seq": self._line - count + 1,
        }
        if count > 1:
            numbers |= {"count": count, "last_seq": self._line}
        return self.event(self.gpus[gpu], "xid", ago_s=ago_s, **({"code": code} | numbers | facts))

    def line(self, text: str) -> list[Finding]:
        """A line as the driver prints it, through the real parser."""
        happening = parse_text(text)
        assert happening is not None
        facts: dict[str, Any] = dict(happening.facts)
        return self.xid(int(facts.pop("code")), **facts)

    def quiet(self, seconds: float, **values: float) -> list[Finding]:
        """Time passes, GPUs answer and ask for nothing."""
        return self.run(seconds, **({"state": 0.0, "recovery_action": 0.0} | values))

    def job(self, job: str, *gpus: int, **facts: Any) -> None:
        """A job takes these GPUs of the node."""
        self.event(
            NODE,
            "job_started",
            source="jobs",
            job=job,
            gpus=" ".join(self.gpus[i].id for i in gpus),
            **facts,
        )

    def reboot(self) -> None:
        """The node boots again."""
        self.boot = f"boot-{int(self.boot.partition('-')[2]) + 1}"
        self.clock._mono = 30 * 10**9


def id_(gpu: int = 0) -> str:
    """UUID of a GPU of the node."""
    return f"GPU-n1-{gpu}"
