"""An HGX H100 whose every value moves: what the exposition's benchmark renders, and a server of it
as a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys

from collector.web import AgentPages, Web
from collector.web.status import Node
from pipeline.catalog import facts_of, fields_of
from pipeline.clock import SystemClock
from pipeline.dcgm import DcgmDialect, LabelStyle, Options, load
from pipeline.exposition import Exposition
from pipeline.exposition.process import ProcessSamples
from pipeline.frame import Device, Frame, frame_of
from pipeline.guard import Guard
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

KINDS = {"gpu": 8, "ib_port": 8, "node": 1}


def devices(kind: str, count: int) -> list[Device]:
    """Devices with facts of plausible length."""
    facts = {fact.name: f"{fact.name}-00000000" for fact in facts_of(kind)}
    return [
        Device(
            "n1",
            kind,
            f"GPU-5fd4f087-86f3-7a43-b711-4771313afc{i:02d}",
            {**facts, "index": str(i), "port": "1", "device": f"mlx5_{i}"},
        )
        for i in range(count)
    ]


class Rotation:
    """Eight sets of values in turn; of one set to the next all of them change, or the share
    of a busy node's second.
    """

    def __init__(self, *, changing: float, seed: int = 7) -> None:
        rng = random.Random(seed)  # noqa: S311 - values to look at, no secret
        self._clock = SystemClock()
        self._devices = {kind: devices(kind, count) for kind, count in KINDS.items()}
        values = {
            kind: [self._values(rng, kind) for _ in them] for kind, them in self._devices.items()
        }
        self._frames: list[list[Frame]] = []
        for _ in range(8):
            for kind, rows in values.items():
                values[kind] = [self._next(rng, kind, row, changing) for row in rows]
            self._frames.append(self._frames_of(values))
        self._turn = 0

    def observation(self) -> Observation:
        """The next set, as read now."""
        self._turn = (self._turn + 1) % len(self._frames)
        frames = tuple(
            Frame(
                f.schema,
                self._clock.time_ns(),
                self._clock.monotonic_ns(),
                f.devices,
                f.gauges,
                f.counters,
                f.observed,
                f.sampled_ns,
            )
            for f in self._frames[self._turn]
        )
        return Observation(
            "nvml", "n1", "b", self._turn, frames[0].time_ns, frames[0].mono_ns, 0, frames
        )

    def _frames_of(self, one: dict[str, list[dict[str, float]]]) -> list[Frame]:
        return [
            frame_of(kind, list(zip(self._devices[kind], rows, strict=True)), 0, 0)
            for kind, rows in one.items()
        ]

    @staticmethod
    def _values(rng: random.Random, kind: str) -> dict[str, float]:
        return {
            f.name: f.states[0][0]
            if f.states
            else rng.randrange(2**50 if f.type == "counter" else 2**20)
            for f in fields_of(kind)
        }

    def _next(
        self, rng: random.Random, kind: str, row: dict[str, float], changing: float
    ) -> dict[str, float]:
        fresh = self._values(rng, kind)
        return {
            name: fresh[name] if rng.random() < changing else value for name, value in row.items()
        }


def exposition(*, dialect: bool = True) -> Exposition:
    """The page of an agent with default settings."""
    clock = SystemClock()
    shown = DcgmDialect(Options(load(), style=LabelStyle("n1")), clock) if dialect else None
    return Exposition(
        SelfMetrics(),
        clock=clock,
        periods={"nvml": 3600.0},
        dialect=shown,
        process=ProcessSamples() if dialect else None,
    )


async def serve() -> None:
    """Serve the page on a free port, which is printed; the values change once a second."""
    clock, metrics = SystemClock(), SelfMetrics()
    page, values = exposition(), Rotation(changing=0.144)
    page.write(values.observation(), ())
    web = Web(
        AgentPages(page, metrics, clock, Node("n1", "0.1.0")),
        Guard(metrics, clock),
        ["127.0.0.1:0"],
    )
    (address,) = await web.start()
    print(address, flush=True)
    gc.collect()
    gc.freeze()
    while True:
        await asyncio.sleep(1)
        page.write(values.observation(), ())


if __name__ == "__main__":
    sys.exit(asyncio.run(serve()))
