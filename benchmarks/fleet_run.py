"""A whole gateway against a real NATS server: replayed messages of many nodes at the pace at which
they were sent, and what the gateway costs: cores, memory, and how far its verdict is behind.

Messages are those of one real agent (benchmarks/_replayed.py), made before the run. The last line
is a row of the table of sizes in docs/fleet.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nats

from benchmarks._replayed import Message, read, recorded, write
from pipeline.bus import subjects
from pipeline.bus.batch import Batch
from pipeline.clock import SECOND_NS
from tests.agents import AgentProcess
from tests.nats import Nats

CLUSTER = "c1"
CORES_GOAL, MEMORY_GOAL_GIB, LAG_GOAL_S = 1.0, 3.0, 15.0
WARM_S = 15.0  # hosts come, rows are laid out
IN_FLIGHT = 256
HOUR_S = 3600


def _cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_gib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return float(status.partition("VmHWM:")[2].split()[0]) / 2**20


def _of_now(batches: list[Batch], begin_ns: int) -> list[Batch]:
    """The same, as if the first one had been sent then."""
    by_ns = begin_ns - batches[0].sent_ns
    return [
        replace(
            batch,
            sent_ns=batch.sent_ns + by_ns,
            judged=tuple(
                each._replace(observation=each.observation.corrected(by_ns))
                for each in batch.judged
            ),
        )
        for batch in batches
    ]


async def _publish(url: str, messages: Iterator[Message], begun: asyncio.Event) -> int:
    """Each at its time; the number of bytes."""
    client = await nats.connect(url)
    stream = client.jetstream(publish_async_max_pending=IN_FLIGHT)
    total = first_ns = 0
    begin_s = time.monotonic()
    for at_ns, host, payload in messages:
        first_ns = first_ns or at_ns
        begun.set()
        wait_s = begin_s + (at_ns - first_ns) / SECOND_NS - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        await stream.publish_async(subjects.frames(CLUSTER, host), payload)
        total += len(payload)
    await stream.publish_async_completed()
    await client.close()
    return total


async def _measured(url: str, path: Path, gateway: AgentProcess, server: int) -> dict[str, float]:
    """Cores and lag after the warm-up, until the last message."""
    begun = asyncio.Event()
    task = asyncio.create_task(_publish(url, read(path), begun))
    await begun.wait()
    begin_s = time.monotonic()
    await asyncio.sleep(WARM_S)
    pids = (gateway.process.pid, server)
    before, at_s = [_cpu_s(pid) for pid in pids], time.monotonic()
    lags = []
    while not task.done():
        await asyncio.sleep(1)
        values = await asyncio.to_thread(gateway.values, "tocsin_fleet_tick_timestamp_seconds")
        lags.append(time.time() - values.get("", 0.0))
    spent_s = time.monotonic() - at_s
    cores = [(_cpu_s(pid) - had) / spent_s for pid, had in zip(pids, before, strict=True)]
    return {
        "gateway": cores[0],
        "server": cores[1],
        "gib": _peak_gib(pids[0]),
        "lag_s": max(lags, default=0.0),
        "bytes": await task,
        "seconds": time.monotonic() - begin_s,
    }


def main() -> int:
    """0 where the goals of 2,000 nodes are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of messages")
    parser.add_argument("--ahead", type=float, default=0.0, help="seconds that making them takes")
    args = parser.parse_args()
    batches = recorded(args.seconds)
    with tempfile.TemporaryDirectory() as folder, Nats(Path(folder) / "nats") as server:
        server.stream()
        path = Path(folder) / "messages"
        begun_s = time.monotonic()
        write(_of_now(batches[:1], time.time_ns()), args.nodes, path)
        one_s = (time.monotonic() - begun_s) * 1.5  # of a round; the machine may be busier then
        begin_s = time.time() + (args.ahead or one_s * len(batches))
        write(_of_now(batches, round(begin_s * SECOND_NS)), args.nodes, path)
        time.sleep(max(0.0, begin_s - time.time()))
        bus = ("--bus.servers", server.url, "--bus.cluster", CLUSTER)
        with AgentProcess(Path(folder) / "g", *bus, command="gateway") as gateway:
            found = asyncio.run(_measured(server.url, path, gateway, server.pid))
            refused = gateway.values("tocsin_fleet_batches_refused_total")[""]
    per_node = found["bytes"] / args.nodes / found["seconds"]
    print(
        f"  {args.nodes} nodes in real time: gateway {found['gateway']:.2f} cores, "
        f"{found['gib']:.2f} GiB; nats-server "
        f"{found['server']:.2f} cores; the verdict at most {found['lag_s']:.1f} s behind; "
        f"{per_node / 1e3:.1f} kB/s of each node; refused {refused:.0f}; load "
        f"{os.getloadavg()[1]:.0f} on {os.cpu_count()} cores"
    )
    disk_gb = per_node * args.nodes * HOUR_S / 1e9
    print(
        f"| {args.nodes:,} | {disk_gb:.1f} GB | {found['gateway']:.2f}, "
        f"{found['gib']:.1f} GiB | [measured](cluster-page.md) |"
    )
    return int(
        found["gateway"] > CORES_GOAL
        or found["gib"] > MEMORY_GOAL_GIB
        or found["lag_s"] > LAG_GOAL_S
    )


if __name__ == "__main__":
    sys.exit(main())
