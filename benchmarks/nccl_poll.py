"""What one look at a job's RAS costs the agent, 8 to 1,024 ranks: reply, CPU and memory, until its
events are ready; and an idle look at the node.

The server is the fake one, in a process of its own. The time inside a real job is not in it: NCCL's
own collection is bounded by 10 s, and was 0 to 1 ms in the recordings of 8 and 16 ranks.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.ras.address import Address
from collector.sources.nccl.ras.client import ask
from collector.sources.nccl.ras.continuity import Continuity
from collector.sources.nccl.ras.json_report import parse_json
from pipeline.child import Child, python
from pipeline.clock import SystemClock
from pipeline.frame import Device
from pipeline.nccl.wire import events_of
from simulator.nccl.job import build
from simulator.nccl.server import RasServer

RANKS = (8, 64, 256, 1024)
ROUNDS = 7
# of CPU for the largest job, which is asked at most every 15 s, and only while it is suspected
GOAL_S = 1.0
GOAL_SCAN_S = 0.15  # of CPU for a look over /proc, every 15 s: 1 % of a core
NODE = Device("n1", "node", "n1")


def cpu_s(work: Callable[[], object]) -> float:
    """CPU time of one call, the least over several rounds: others may share the core."""
    costs = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        costs.append(time.process_time() - start)
    return min(costs)


def poll(address: Address, checks: Continuity) -> tuple[int, int]:
    """Ask, read and make events: bytes of the reply, and of the events."""
    reply = ask(address)
    report = checks.check(parse_json(reply, "bench"))
    assert report.trusted, report.distrust
    events = events_of(replace(report, job="bench"), NODE, 10**18)
    return len(reply), sum(len(str(e.attributes["document"])) for e in events)


def serve(arguments: list[str]) -> None:
    """The server's process: prints its port, then serves until it is killed."""
    job = build(int(arguments[0]), per_node=8)
    job.launch("AllReduce")
    with RasServer(lambda: job, SystemClock()) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


def main(arguments: list[str] | None = None) -> int:
    """Print the costs; 1 where a goal is missed."""
    if arguments:
        serve(arguments)
        return 0
    worst = 0.0
    print(
        f"Python {sys.version.split()[0]}, best of {ROUNDS}; world and one communicator per node, "
        "JSON over TCP on 127.0.0.1"
    )
    for ranks in RANKS:
        child = Child(python("benchmarks.nccl_poll", str(ranks)))
        address = Address("127.0.0.1", int(child.receive(60.0) or b"0"))
        checks = Continuity()
        size, events = poll(address, checks)
        worst = cpu_s(partial(poll, address, checks))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        child.kill()
        print(
            f"  {ranks:5d} ranks: reply {size / 1e3:8.1f} kB, events {events / 1e3:8.1f} kB, CPU "
            f"{1e3 * worst:7.2f} ms, peak {peak:.0f} MiB"
        )
    scanner, now = Scanner(Path("/proc")), time.monotonic()
    scanner.scan(now)
    count = len(scanner._known)  # noqa: SLF001 - what was looked at
    idle = cpu_s(lambda: scanner.scan(now))
    print(f"  a look over {count} processes, none new: CPU {1e3 * idle:.2f} ms, every 15 s")
    return int(worst > GOAL_S or idle > GOAL_SCAN_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
