"""Whether `tocsin replay --horizon fleet` finds what a live gateway found: agents of a simulated
fleet publish over a real NATS server to a real gateway, and both stores are replayed.

Each scenario is a stretch of its own; incidents are compared update by update: id, class, severity,
findings and times. ``--nodes 64 --hours 24`` is a day of a cluster, ``--lost 0.02`` loses batches
on their way. Time is that of the simulated fleet, which runs as fast as the machine can judge.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from collector.cli.main import main as tocsin
from evaluation.metrics.scope import ByHost
from evaluation.runs.cadence import STEP_S
from evaluation.runs.run import Job, rendered
from evaluation.runs.scenarios import every_scenario
from pipeline.bus import subjects
from pipeline.bus.batch import Batch, encode
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from pipeline.store.query.store import Store
from simulator.fleet import Run
from tests.agents import AgentProcess
from tests.nats import Nats
from tests.wait import until

PATIENCE_S = 86400.0  # a busy machine judges slowly; the gateway's death ends it at once
BATCH_S = 30  # between two batches of a host: three of its readings
TICK = "tocsin_fleet_tick_timestamp_seconds"
# The clock of tools/fast_gateway.py: a message's time is the one at which its host sent it.
PROGRAM = (
    "import runpy, sys; del sys.argv[1]; "
    f"runpy.run_path({str(Path(__file__).parents[1] / 'tools/fast_gateway.py')!r}, "
    "run_name='__main__')"
)
PERIODS = [
    *("--source.nvml.period", f"{STEP_S:g}s", "--source.infiniband.period", f"{STEP_S:g}s"),
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Of an update: id, class, severity, when it opened and cleared in us, and its findings.
Update = tuple[str, str, str, int, int, tuple[str, ...]]


@dataclass(slots=True)
class Agent:
    """What one agent keeps, and sends."""

    host: str
    log: Wal
    start: str = field(default_factory=lambda: secrets.token_hex(16))
    seq: int = 0
    number: int = 0
    previous: int = 0
    waiting: list[JudgedObservation] = field(default_factory=list)

    def read(self, part: Observation) -> None:
        """One observation."""
        self.seq += 1
        own = replace(part, boot_id=f"boot of {self.host}", seq=self.seq)
        self.log.write(own, ())
        self.waiting.append(JudgedObservation(own))

    def batch(self, sent_ns: int) -> bytes:
        """All that waits."""
        taken, self.waiting = tuple(self.waiting), []
        batch = Batch(self.host, self.start, self.number, self.previous, sent_ns, taken)
        self.number, self.previous = self.number + 1, taken[-1].observation.seq
        return encode(batch)


class Fleet:
    """All agents of a run, their stores below one folder."""

    def __init__(self, run: Run, folder: Path, lost: float, batch_s: int = BATCH_S) -> None:
        self.run = run
        self._folder, self._lost, self._batch_ns = folder, lost, batch_s * SECOND_NS
        self._rng = np.random.default_rng(run.seed)
        self._agents: dict[str, Agent] = {}
        self.last_ns = self._newest_ns = 0  # of the batches before the last ones, and of those

    def batches(self) -> Iterator[tuple[str, bytes, str]]:
        """Host, payload and message id of each batch that is not lost, by the time it is sent."""
        cut, due_ns = ByHost(read_only=True), self.run.topology.begin_ns + self._batch_ns
        for whole in self.run.observations():
            while whole.time_ns >= due_ns:
                yield from self._sent(due_ns)
                due_ns += self._batch_ns
            for host, part in cut.split(whole):
                self._agent(host).read(part)
        yield from self._sent(due_ns)

    def _sent(self, due_ns: int) -> Iterator[tuple[str, bytes, str]]:
        self.last_ns = self._newest_ns
        for host, agent in self._agents.items():
            if not agent.waiting:
                continue
            last_ns = agent.waiting[-1].observation.time_ns
            payload = agent.batch(due_ns)
            if self._rng.random() >= self._lost:
                self._newest_ns = max(self._newest_ns, last_ns)
                yield host, payload, f"{agent.start}:{agent.number}"

    def _agent(self, host: str) -> Agent:
        if host not in self._agents:
            log = Wal(
                self._folder / host, SystemClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40
            )
            self._agents[host] = Agent(host, log)
        return self._agents[host]

    def seal(self, root: Path) -> None:
        """All that they kept into one store."""
        for agent in self._agents.values():
            agent.log.close()
            for segment in segments(self._folder / agent.host):
                seal(segment, root, "c1")


@dataclass(frozen=True, slots=True)
class Compared:
    """Updates of incidents that only one side has, and how many both have."""

    both: int
    live: list[Update]
    replayed: list[Update]
    severities: Counter[str]


def compared(job: Job, folder: Path, lost: float = 0.0) -> Compared:
    """One stretch, live and replayed."""
    fleet, root = Fleet(rendered(job), folder / "agents", lost), folder / "gateway"
    with Nats(folder / "nats") as server:
        server.stream()
        # By its clock all that is sent is of the last hours: nothing is past its retention.
        end_ns = fleet.run.topology.begin_ns + round(fleet.run.seconds + BATCH_S) * SECOND_NS
        ago_s = (time.time_ns() - end_ns) / SECOND_NS
        clock = ["--speed", "1", "--since", str(time.monotonic_ns()), "--ago", f"{ago_s:.0f}"]
        where = ["--server", server.url, "--cluster", "c1", "--bus.period", f"{BATCH_S}s"]
        with AgentProcess(
            root, *clock, *where, *PERIODS, command="gateway", program=PROGRAM
        ) as gateway:
            server.ask(lambda client: _publish(client, fleet))
            # Seconds are closed by messages alone: the last batches wait for more.
            last_s = fleet.last_ns // SECOND_NS
            until(
                lambda: gateway.values(TICK).get("", 0.0) >= last_s,
                "the last second",
                seconds=PATIENCE_S,
                servers=[server, gateway],
            )
            assert gateway.values("tocsin_fleet_batches_refused_total") == {"": 0.0}
            assert gateway.stop() == 0, gateway.log
    for segment in segments(root / "wal"):
        seal(segment, root, "c1")
    live = Counter(_live(root))
    fleet.seal(root)
    again = Counter(_replayed(root, last_s + 1))
    both = live & again
    return Compared(
        both.total(),
        sorted((live - again).elements()),
        sorted((again - live).elements()),
        Counter({update[0]: update[2] for update in both}.values()),
    )


async def _publish(client: Any, fleet: Fleet) -> None:
    stream = client.jetstream()
    for host, payload, message in fleet.batches():
        await stream.publish(
            subjects.frames("c1", host), payload, headers={"Nats-Msg-Id": message}, timeout=60
        )


def _live(root: Path) -> Iterator[Update]:
    """What the gateway stored."""
    asked = "SELECT id, fault, severity, opened, cleared, findings FROM incidents"
    for name, fault, severity, opened, cleared, findings in Store(str(root)).sql(asked).rows():
        yield name, fault, severity, us(opened), us(cleared), tuple(findings)


def us(time: datetime | None) -> int:
    """Microseconds since 1970; 0 for what has not happened."""
    return round((time - EPOCH).total_seconds() * 1e6) if time else 0


def _replayed(root: Path, until_s: int) -> Iterator[Update]:
    """What `tocsin replay` prints of the seconds that were judged."""
    end, out, err = datetime.fromtimestamp(until_s, UTC).isoformat(), StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        asked = ["replay", "--from", str(root), "--horizon", "fleet", "--until", end]
        code = tocsin([*asked, *PERIODS])
    assert code == 0, err.getvalue()
    for line in out.getvalue().splitlines():
        one = json.loads(line)
        if one["type"] == "incident":
            opened, cleared = (round((one[key] or 0) * 1e6) for key in ("opened", "cleared"))
            yield (
                *(one["id"], one["fault"], one["severity"]),
                *(opened, cleared, tuple(one["findings"])),
            )


def main() -> int:
    """0 where replay finds what was found live, everywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lost", type=float, default=0.0, help="share of batches")
    parser.add_argument("--scenario", nargs="+", help="default: all with a fault")
    args = parser.parse_args()
    every = every_scenario()
    names = args.scenario or [name for name, one in every.items() if one.kind == "fault"]
    differ = 0
    for name in names:
        days = args.hours / 24
        job = Job(name, "nominal", args.seed, "dev", (), days=days, nodes=args.nodes)
        begun_s = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = compared(job, Path(folder), args.lost)
        except ValueError as error:
            print(f"  {name}: left out: {error}", flush=True)
            continue
        severities = ", ".join(f"{n} {what}" for what, n in sorted(found.severities.items()))
        print(
            f"  {name}: {found.both} updates of incidents on both sides ({severities or 'none'}), "
            f"{len(found.live)} only live, {len(found.replayed)} only replayed; "
            f"{time.monotonic() - begun_s:.0f} s",
            flush=True,
        )
        for side, updates in (("live", found.live), ("replayed", found.replayed)):
            for update in updates[:5]:
                print(f"    only {side}: {update}", flush=True)
        differ += bool(found.live or found.replayed)
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
