"""A whole gateway against a real NATS server: replayed messages of many nodes at the pace at which
they were sent, and what the gateway costs: cores, memory, and how far its verdict is behind.

Messages are those of one real agent (benchmarks/_replayed.py), made before the run. ``--pace 0.1``
sends them at a tenth of their time and lets the gateway's clock run as slowly: cores and seconds
are then those of the messages' time, so that a cluster that needs several cores runs on one.
``--join 60`` lets the nodes come one after the other; ``--workers 3`` gives the gateway ingest
workers, whose cores are beside its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nats

from benchmarks._replayed import Message, read, recorded, write
from pipeline.bus import subjects
from pipeline.bus.batch import Batch
from pipeline.clock import SECOND_NS, FastClock
from tests.agents import AgentProcess
from tests.nats import Nats

CLUSTER = "c1"
# Of 2,000 nodes; and of 12,500: one core for the judge, four for the rest.
GOALS = {2_000: (1.0, 3.0), 12_500: (5.0, 12.0)}
LAG_GOAL_S = 15.0
WARM_S = 30.0  # hosts come, rows are laid out
START_S = 15.0  # real time until the gateway has started
IN_FLIGHT = 256
WINDOW_S = 10.0  # of the lag's table
PAGE = ("topology", "incidents?state=open", "incidents?state=closed", "jobs")  # modules/main.js
PAGES, PAGE_S = 5, 5.0
STEPS = ("read", "join", "judge", "workers")
TICK, SPENT = "tocsin_fleet_tick_timestamp_seconds", "tocsin_fleet_cpu_seconds_total"
PROGRAM = (
    "import runpy, sys; "
    f"runpy.run_path({str(Path(__file__).with_name('_paced_gateway.py'))!r}, run_name='__main__')"
)


@dataclass
class Found:
    """Cores are CPU seconds per second of the messages after the warm-up: of the gateway's process,
    of its steps, and of the server. ``lags_s``: the farthest behind in each window of ten seconds.
    """

    nodes: int
    pace: float
    cores: dict[str, float] = field(default_factory=dict)
    gib: float = 0.0
    lags_s: list[float] = field(default_factory=list)
    bytes_per_node_s: float = 0.0
    page_ms: float = 0.0  # CPU of the gateway for what a page asks as it opens
    store_kb: float = 0.0  # that the gateway's own store has after the run
    refused: float = 0.0
    late: float = 0.0
    load: float = 0.0


def _cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_gib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return float(status.partition("VmHWM:")[2].split()[0]) / 2**20


async def _publish(url: str, messages: Iterator[Message], clock: FastClock) -> int:
    """Each at its time; the number of bytes."""
    client = await nats.connect(url)
    stream = client.jetstream(publish_async_max_pending=IN_FLIGHT)
    total = 0
    for at_ns, host, payload in messages:
        wait_s = (at_ns - clock.time_ns()) / SECOND_NS / clock.speed
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        await stream.publish_async(subjects.frames(CLUSTER, host), payload)
        total += len(payload)
    await stream.publish_async_completed()
    await client.close()
    return total


class _Run:
    """A gateway and a server that are looked at while messages are sent."""

    def __init__(self, gateway: AgentProcess, server: Nats, clock: FastClock) -> None:
        self._gateway, self._server, self._clock = gateway, server, clock

    async def measured(self, path: Path, found: Found, begin_ns: int) -> None:
        """From the first message, which is of then, to the last."""
        task = asyncio.create_task(_publish(self._server.url, read(path), self._clock))
        before: dict[str, float] = {}
        began_s = 0.0
        while not task.done():
            await asyncio.sleep(1)
            now_s = self._clock.time_ns() / SECOND_NS
            lag_s = now_s - await asyncio.to_thread(self._judged_s)
            window = int((now_s - begin_ns / SECOND_NS) / WINDOW_S)
            if window >= 0:
                found.lags_s += [0.0] * (window + 1 - len(found.lags_s))
                found.lags_s[window] = max(found.lags_s[window], lag_s)
            if not before and now_s - begin_ns / SECOND_NS >= WARM_S:
                before, began_s = await asyncio.to_thread(self._spent), now_s
        total, now_s = await task, self._clock.time_ns() / SECOND_NS
        spent = await asyncio.to_thread(self._spent)
        found.cores = {
            name: (value - before[name]) / (now_s - began_s) for name, value in spent.items()
        }
        found.bytes_per_node_s = total / found.nodes / (now_s - begin_ns / SECOND_NS)
        found.gib, found.load = _peak_gib(self._gateway.process.pid), os.getloadavg()[1]
        found.page_ms = 1e3 * await asyncio.to_thread(self._page_s)
        files = (path for path in self._gateway.storage.rglob("*") if path.is_file())
        found.store_kb = (
            sum(path.stat().st_size for path in files if path.parent.name != "state") / 1e3
        )
        refused = self._gateway.values("tocsin_fleet_batches_refused_total")
        late = self._gateway.values("tocsin_fleet_observations_late_total")
        found.refused, found.late = refused[""], late[""]

    def _judged_s(self) -> float:
        """The last second; before there is one, nothing is behind."""
        return self._gateway.values(TICK).get("", self._clock.time_ns() / SECOND_NS)

    def _page_s(self) -> float:
        """CPU of one opening of the page, without what the gateway uses anyhow."""
        begun_s, before_s = time.monotonic(), _cpu_s(self._gateway.process.pid)
        time.sleep(PAGE_S)
        idle = (_cpu_s(self._gateway.process.pid) - before_s) / (time.monotonic() - begun_s)
        begun_s, before_s = time.monotonic(), _cpu_s(self._gateway.process.pid)
        for _ in range(PAGES):
            for path in PAGE:
                status, _ = self._gateway.get(f"/api/v1/{path}")
                assert status == 200, path
        spent_s = _cpu_s(self._gateway.process.pid) - before_s
        return max(0.0, spent_s - idle * (time.monotonic() - begun_s)) / PAGES

    def _spent(self) -> dict[str, float]:
        steps = self._gateway.values(SPENT)
        return {
            "gateway": _cpu_s(self._gateway.process.pid),
            "server": _cpu_s(self._server.pid),
            **{step: steps[f'step="{step}"'] for step in STEPS},
        }


def run(
    batches: list[Batch], nodes: int, pace: float, join_s: float = 0.0, workers: int = 0
) -> Found:
    """One run, with what one node sent."""
    found = Found(nodes, pace)
    with tempfile.TemporaryDirectory() as folder, Nats(Path(folder) / "nats") as server:
        server.stream()
        path = Path(folder) / "messages"
        begin_ns = write(batches, nodes, path, join_s=join_s)
        since_ns = time.monotonic_ns() + round(START_S * SECOND_NS)
        unix_ns = time.time_ns() - time.monotonic_ns() + since_ns
        ago_s = (unix_ns - begin_ns) / SECOND_NS
        clock = FastClock(pace, since_ns, ago_s)
        arguments = (
            *("--bus.servers", server.url, "--bus.cluster", CLUSTER),
            *("--gateway.ingest-workers", f"{workers}"),
            *("--pace", f"{pace}", "--since", f"{since_ns}", "--ago", f"{ago_s:.6f}"),
        )
        with AgentProcess(
            Path(folder) / "g", *arguments, command="gateway", program=PROGRAM
        ) as gateway:
            gateway.until(lambda: gateway.values("tocsin_fleet_bus_connected").get(""), "the bus")
            asyncio.run(_Run(gateway, server, clock).measured(path, found, begin_ns))
    return found


def main() -> int:
    """0 where the goals of so many nodes are met, if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of messages")
    parser.add_argument("--pace", type=float, default=1.0, help="of the messages' time")
    parser.add_argument("--join", type=float, default=0.0, help="seconds in which nodes come")
    parser.add_argument("--workers", type=int, default=0, help="that decode (gateway/ingest)")
    parser.add_argument("--json", type=Path, help="where the figures are written to")
    args = parser.parse_args()
    found = run(recorded(args.seconds), args.nodes, args.pace, args.join, args.workers)
    if args.json:
        args.json.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    steps = ", ".join(f"{step} {found.cores[step]:.3f}" for step in STEPS)
    print(
        f"  {found.nodes} nodes at {found.pace:g} of real time: gateway "
        f"{found.cores['gateway']:.2f} cores ({steps}), {found.gib:.2f} GiB; nats-server "
        f"{found.cores['server']:.2f} cores; {found.bytes_per_node_s / 1e3:.1f} kB/s of each node; "
        f"refused {found.refused:.0f}, late {found.late:.0f}; a page {found.page_ms:.0f} ms; "
        f"load {found.load:.0f} on {os.cpu_count()} cores"
    )
    lags = " ".join(f"{lag_s:.0f}" for lag_s in found.lags_s)
    print(f"  the verdict is behind, at most in each ten seconds: {lags} s")
    cores, gib = GOALS.get(args.nodes, (float("inf"), float("inf")))
    used = found.cores["gateway"] + found.cores["workers"]
    return int(used > cores or found.gib > gib or max(found.lags_s) > LAG_GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
