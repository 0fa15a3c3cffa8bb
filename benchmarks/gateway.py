"""What the gateway costs and how fast it is: ingest per core, a whole cluster against real time, a
fault until its incident. Each figure with its goal. The take-over is in benchmarks/take_over.py, a
run with a real NATS server in benchmarks/fleet_run.py.

The load are messages of one real agent under many names. ``--nodes 12500 --seconds 10`` judges a
large cluster; ``--workers 0 1 2`` compares ingest workers in one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks._replayed import PERIOD_NS, Message, read, recorded, write
from collector.agent.judge import judge_of
from collector.config.settings import Config
from detectors.kit.snapshot import Memory
from gateway.fleet import Fleet
from gateway.ingest.pool import Pool
from gateway.ingest.reading import InProcess
from pipeline.bus.batch import Batch, Decoder, encode
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics
from tests.gateway.faults.cluster import Cluster
from tests.gateway.faults.hosts import Host, Reading

INGEST_GOAL, EVENTS_GOAL = 5_000, 20_000  # per second of one core
CORES_GOAL, MEMORY_GOAL_GIB = 1.0, 3.0  # of 2,000 nodes
ALERT_GOAL_S = 7.0
EVENTS = 100  # of a batch that is full of them
MEASURED_S = 2.0
WARM_S = 15.0  # hosts come, rows are laid out
DELIVERY_NS = SECOND_NS // 2
AHEAD = 250  # messages that wait


def whole_periods(batches: Sequence[Batch]) -> list[Batch]:
    """Those of about five seconds; the others were sent early, with an event."""
    most = max(len(batch.judged) for batch in batches)
    return [batch for batch in batches if len(batch.judged) > most / 2]


def batch_s(batches: Sequence[Batch]) -> float:
    """CPU seconds that a batch of a whole period takes to decode."""
    return _decoding_s([encode(batch) for batch in whole_periods(batches)])


def ingest(batches: Sequence[Batch]) -> bool:
    """Decoding alone: a host's batches, and batches of events."""
    batches = whole_periods(batches)
    spent_s = batch_s(batches)
    device = next(f.devices[0] for b in batches for j in b.judged for f in j.observation.frames)
    full = [_with_events(batch, device) for batch in batches]
    more_s = _decoding_s([encode(batch) for batch in full]) - spent_s
    print(f"  a batch: {1e6 * spent_s:.0f} us of CPU, {1 / spent_s:.0f} a second and core")
    print(f"  an event: {1e6 * more_s / EVENTS:.1f} us, {EVENTS / more_s:.0f} a second and core")
    return 1 / spent_s >= INGEST_GOAL and EVENTS / more_s >= EVENTS_GOAL


def _with_events(batch: Batch, device: Device) -> Batch:
    last = batch.judged[-1]
    event = Event(1, 1, device, "xid", {"code": 31, "origin": "kmsg"})
    observation = replace(last.observation, events=(event,) * EVENTS)
    return replace(batch, judged=(*batch.judged[:-1], last._replace(observation=observation)))


def _decoding_s(payloads: Sequence[bytes]) -> float:
    decoder, number, begun = Decoder(), 0, time.process_time()
    while (spent_s := time.process_time() - begun) < MEASURED_S:
        for payload in payloads:
            decoder.decode(payload)
        number += len(payloads)
    return spent_s / number


def judge(path: Path, workers: int) -> dict[str, float]:
    """In a process of its own: all messages through the gateway's core, and one snapshot."""
    metrics = SelfMetrics()
    made = judge_of(Config(), metrics, SystemClock())
    reading: Pool | InProcess = Pool(workers, metrics) if workers else InProcess()
    fleet = Fleet(made, metrics, PERIOD_NS, reading=reading)
    first_ns = began_ns = at_ns = batches = 0
    before: dict[str, float] = {}
    for at_ns, host, payload in _offered(fleet, read(path)):
        first_ns = first_ns or at_ns
        if not began_ns and at_ns - first_ns > WARM_S * SECOND_NS:
            began_ns, before = at_ns, _spent(metrics)
        batches += bool(began_ns)
        for _ in fleet.judged(at_ns - DELIVERY_NS):
            pass
        if refused := fleet.take(host, payload, at_ns):
            raise ValueError(refused)
    seconds = (at_ns - began_ns) / SECOND_NS
    spent = {name: (value - before[name]) / seconds for name, value in _spent(metrics).items()}
    own_us = 1e6 * (spent["cores"] - spent["judge"]) * seconds / batches
    held_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    begun_s = time.process_time()
    memory = Memory.of((*made.memories, fleet))
    copied_s = time.process_time() - begun_s
    size = len(memory.to_bytes())
    worker_us = 1e6 * spent["workers"] * seconds / batches
    reading.close()
    return {
        **spent,
        "own_us": own_us,
        "worker_us": worker_us,
        "gib": held_gib,
        "copied_s": copied_s,
        "snapshot_mb": size / 1e6,
    }


def _offered(fleet: Fleet, messages: Iterator[Message]) -> Iterator[Message]:
    """Some ahead, as they wait in the gateway."""
    waiting: deque[Message] = deque()
    for message in messages:
        fleet.offer(message[1], message[2])
        waiting.append(message)
        if len(waiting) > AHEAD:
            yield waiting.popleft()
    yield from waiting


def _spent(metrics: SelfMetrics) -> dict[str, float]:
    """CPU seconds of this process, and by step."""
    steps = ("read", "join", "judge", "workers")
    return {"cores": time.process_time()} | {
        step: metrics.value(series.SPENT, step) or 0.0 for step in steps
    }


def whole(batches: list[Batch], nodes: int, numbers: Sequence[int]) -> bool:
    """All of the gateway but the network and the pages, with each number of workers."""
    met = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages"
        write(batches, nodes, path)
        for workers in numbers:
            argv = [sys.executable, "-m", "benchmarks.gateway", "--judge", str(path)]
            argv += ["--workers", f"{workers}"]
            done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"  {nodes} nodes, {workers} workers: {found['cores']:.2f} cores to keep up (read "
                f"{found['read']:.2f}, join {found['join']:.2f}, judge {found['judge']:.2f}), "
                f"{found['gib']:.2f} GiB, workers {found['workers']:.2f} cores; of a batch "
                f"{found['own_us']:.0f} us here without the judge, {found['worker_us']:.0f} us "
                f"there; a snapshot of {found['snapshot_mb']:.1f} MB holds up the judge for "
                f"{found['copied_s']:.2f} s of CPU"
            )
            met &= found["cores"] <= CORES_GOAL and found["gib"] <= MEMORY_GOAL_GIB
    return met


def alert(cluster: Cluster, faults: int) -> bool:
    """From a certain fault at an agent until its incident is in the gateway's metrics."""
    took_s = []
    for number in range(faults):
        host = Host(cluster.server.url, f"lost{number}")
        known = cluster.hosts("known")
        with Reading([host]):
            cluster.until(lambda n=known: cluster.hosts("known") > n, "the host")
            begun = time.monotonic()
            host.lose_gpu()
            cluster.until(lambda h=host: h.name in cluster.open(), "the incident")
            took_s.append(time.monotonic() - begun)
    p50 = statistics.median(took_s)
    print(f"  fault to incident: p50 {p50:.1f} s, worst {max(took_s):.1f} s of {faults}")
    return p50 <= ALERT_GOAL_S


def main() -> int:
    """0 where every goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=45.0, help="of messages")
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.judge:
        print(json.dumps(judge(args.judge, args.workers[0])))
        return 0
    batches = recorded(args.seconds)
    met = [ingest(batches), whole(batches, args.nodes, args.workers)]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Cluster(Path(folder), stack)
        cluster.until(lambda: cluster.leader() and cluster.hosts("known") >= 2, "both hosts")
        met += [alert(cluster, args.faults)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
