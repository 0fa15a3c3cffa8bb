"""A cluster with faults of every scenario: what two live gateways say of it, one of them killed in
the middle, equals what `tocsin replay --horizon fleet` finds in the stores afterwards.

Agents of several models and cadences (simulator/fleet/every.py) publish over a real NATS server,
faster than their own time. Compared is every update of every incident: id, class, device, severity,
action, times of open and close, findings and the reason why it ended, those included that a
calibration lowered. No detector is in shadow mode: there its findings open no incident. Each
gateway's store is compared by itself: the one that was killed goes on from its snapshot, and must
have lost nothing.

The parts are a day of 64 nodes, and worlds of fewer or more nodes for what does not fit into it.
``--results FILE`` keeps what each part found; parts that are in it are not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.live_replay import PATIENCE_S, PROGRAM, TICK, Fleet, us
from collector.cli.main import main as tocsin
from detectors import DETECTORS
from detectors.faults import FAULTS as CLASSES
from detectors.trust.calibration import Calibration
from pipeline.arrival_cut import GATEWAY
from pipeline.bus import subjects
from pipeline.clock import SECOND_NS
from pipeline.store.files.wal import segments
from pipeline.store.keep.seal import seal
from pipeline.store.query.store import Store
from simulator.fleet.every import WORLD, Pace, every_fault
from simulator.fleet.faults import FAULTS as SCENARIOS
from simulator.fleet.run import Run
from simulator.fleet.settings import Settings
from tests.agents import AgentProcess
from tests.nats import Nats
from tests.wait import Mortal, until

BATCH_S = SLOWEST_S = 60  # between two batches of a host, and between two readings at most
AHEAD_S = 3600  # the broker holds an hour: so far the agents may be ahead of the gateways
ASKED_S = 5.0
TAKE_OVER_S = 5.0
LEADER, LOWERED = "tocsin_fleet_leader", "tocsin_fleet_tickets_lowered_total"
RESTORED = "restored: snapshot of"
# It lowers every ticket of a class that it knows and that no device reported of itself.
LOWERS_ALL = Calibration(-9.0, {}, 0.5, dict.fromkeys(CLASSES, (0, 20)))


class Update(NamedTuple):
    """What was said of an incident at one time; times in us since 1970, 0 while it is open."""

    id: str
    fault: str
    host: str
    kind: str
    device: str
    severity: str
    action: str
    opened_us: int
    cleared_us: int
    findings: tuple[str, ...]
    summary: str
    ended: str
    jobs: tuple[str, ...]
    times: int


@dataclass(slots=True)
class Outcome:
    """Updates by who said them; ``take_over_s`` from the kill until the other gateway reports;
    ``lowered``: tickets that the calibration made records, at the gateway that was not killed.
    """

    said: dict[str, set[Update]] = field(default_factory=dict)
    replayed: set[Update] = field(default_factory=set)
    take_over_s: float = 0.0
    lowered: int = 0
    detectors: dict[str, str] = field(default_factory=dict)  # by the id of a finding
    cpu_s: dict[str, float] = field(default_factory=dict)

    def differences(self) -> Iterator[tuple[str, Update]]:
        """Who alone said what."""
        for name, said in self.said.items():
            yield from ((f"only {name}", update) for update in sorted(said - self.replayed))
            yield from ((f"not {name}", update) for update in sorted(self.replayed - said))


class Day:
    """One run through two gateways and its replay."""

    def __init__(self, run: Run, folder: Path, *, lost: float, batch_s: int = BATCH_S) -> None:
        self._run, self._folder, self._batch_s = run, folder, batch_s
        self._fleet = Fleet(run, folder / "agents", lost, batch_s)
        self._model = folder / "calibration.json"
        self._model.write_text(LOWERS_ALL.text(), encoding="utf-8")
        self._periods = [
            part
            for source in ("nvml", "infiniband")
            for part in (f"--source.{source}.period", f"{run.step_s:g}s")
        ]
        self._gateways: dict[str, AgentProcess] = {}
        self._ticks, self._hours = _Ticks(), 0
        self._middle_s = run.topology.begin_ns // SECOND_NS + run.seconds / 2
        self._kill_is_over = False
        self._witness = folder  # where the gateway stores that is not killed

    def outcome(self) -> Outcome:
        """All of it."""
        outcome = Outcome()
        with ExitStack() as stack:
            server = stack.enter_context(Nats(self._folder / "nats"))
            server.stream()
            start = self._starter(server, stack)
            first, second = start("g1"), start("g2")
            with ThreadPoolExecutor(1) as threads:
                publishing = threads.submit(server.ask, self._publish)
                outcome.take_over_s = self._killed(server, first, second, start, publishing)
                publishing.result()
            last_s = self._fleet.last_ns // SECOND_NS
            for name, gateway in self._gateways.items():
                self._reach(server, gateway, last_s)
                refused = gateway.values("tocsin_fleet_batches_refused_total")
                assert refused == {"": 0.0}, refused
                if gateway.storage == self._witness:
                    outcome.lowered = round(gateway.values(LOWERED)[""])
                outcome.cpu_s[name] = cpu_s(gateway.process.pid)
                assert gateway.stop() == 0, gateway.log
        for name in self._gateways:
            root = self._folder / name
            for segment in segments(root / "wal"):
                seal(segment, root, "c1")
            outcome.said[name] = set(_stored(root))
        begun_s = time.process_time()
        outcome.replayed = self._replayed(last_s + 1, outcome.detectors)
        outcome.cpu_s["replay"] = time.process_time() - begun_s
        return outcome

    def _starter(self, server: Nats, stack: ExitStack) -> Any:
        # By their clock all that is sent is of the last hours: nothing is past its retention.
        end_ns = self._run.topology.begin_ns + round(self._run.seconds) * SECOND_NS
        ago_s = (time.time_ns() - end_ns) / SECOND_NS
        clock = ["--speed", "1", "--since", str(time.monotonic_ns()), "--ago", f"{ago_s:.0f}"]
        where = ["--server", server.url, "--cluster", "c1", "--bus.period", f"{self._batch_s}s"]
        learnt = ["--detectors.calibration", str(self._model), "--detectors.off-trial", "all"]

        def start(name: str) -> AgentProcess:
            made = AgentProcess(
                self._folder / name,
                *clock,
                *where,
                *learnt,
                *self._periods,
                command="gateway",
                program=PROGRAM,
            )
            self._gateways[name] = stack.enter_context(made)
            return made

        return start

    def _killed(
        self, server: Nats, first: AgentProcess, second: AgentProcess, start: Any, publishing: Any
    ) -> float:
        """Kill the gateway that reports when half of the day is judged, and start it again; how
        long the cluster had none.
        """
        servers: list[Mortal] = [server, first, second]
        until(
            lambda: (
                self._until(min(self._ticks.of(first), self._ticks.of(second)), publishing)
                >= self._middle_s
            ),
            "mid-day",
            PATIENCE_S,
            servers=servers,
        )
        leads, other = (first, second) if first.values(LEADER).get("") else (second, first)
        until((leads.storage / "state/gateway.npz").exists, "a snapshot", servers=servers)
        self._witness = other.storage
        leads.process.kill()
        begun_s = time.monotonic()
        leads.process.wait()
        until(lambda: other.values(LEADER).get("") == 1.0, "the other gateway", servers=[other])
        took_s = time.monotonic() - begun_s
        again = start(leads.storage.name)
        until(lambda: RESTORED in again.log, "its snapshot", servers=[server, again])
        self._kill_is_over = True
        return took_s

    def _until(self, judged_s: float, publishing: Any) -> float:
        """Progress; an agent that failed ends the run."""
        if publishing.done():
            publishing.result()
        self._progress(judged_s)
        return judged_s

    def _progress(self, judged_s: float) -> None:
        hour = int(judged_s - self._run.topology.begin_ns // SECOND_NS) // 3600
        if hour > self._hours:
            self._hours = hour
            print(f"    {hour} h judged, {time.process_time():.0f} s of CPU here", flush=True)

    def _reach(self, server: Nats, gateway: AgentProcess, second: int) -> None:
        # Seconds are closed by messages alone: the last batches wait for more.
        until(
            lambda: self._until(self._ticks.of(gateway), _Done()) >= second,
            "the last second",
            PATIENCE_S,
            servers=[server, gateway],
        )

    async def _publish(self, client: Any) -> None:
        stream, sent_s = client.jetstream(), 0
        # Who was killed has to be sent some of the day when it is back, however short the day is.
        held_s = self._middle_s + min(AHEAD_S, self._run.seconds / 4)
        for number, (host, payload, message) in enumerate(self._fleet.batches()):
            headers = {"Nats-Msg-Id": message}
            while self._early(held_s):  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(ASKED_S)
            await stream.publish(subjects.frames("c1", host), payload, headers=headers, timeout=60)
            if number % 1000 == 0 and self._fleet.last_ns // SECOND_NS > sent_s + AHEAD_S // 2:
                sent_s = self._fleet.last_ns // SECOND_NS
                while self._slowest() < sent_s - AHEAD_S:  # noqa: ASYNC110 - of other processes
                    await asyncio.sleep(ASKED_S)

    def _early(self, held_s: float) -> bool:
        return not self._kill_is_over and self._fleet.last_ns // SECOND_NS > held_s

    def _slowest(self) -> float:
        """The second that all gateways which run have judged."""
        alive = [one for one in self._gateways.values() if one.process.poll() is None]
        return min(map(self._ticks.of, alive), default=0.0)

    def _replayed(self, until_s: int, detectors: dict[str, str]) -> set[Update]:
        """What `tocsin replay` prints of the seconds that were judged, from the agents' stores and
        that of the gateway which ran all the time. ``detectors`` gets who found what.
        """
        root = self._folder / "store"
        self._fleet.seal(root)
        for file in self._witness.rglob("*.parquet"):
            target = root / file.relative_to(self._witness)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(file)
        end, out, err = datetime.fromtimestamp(until_s, UTC).isoformat(), StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            asked = ["replay", "--from", str(root), "--horizon", "fleet", "--until", end]
            code = tocsin([*asked, "--off-trial", *self._periods])
        assert code == 0, err.getvalue()
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        found = (one for one in lines if one["type"] == "finding")
        detectors |= {one["id"]: one["detector"] for one in found}
        return {_printed(one) for one in lines if one["type"] == "incident"}


class _Done:
    """Nothing is published any more."""

    def done(self) -> bool:
        return False


class _Ticks:
    """The second that a gateway has judged. It is asked once in ASKED_S: its page is not free."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[float, float]] = {}

    def of(self, gateway: AgentProcess) -> float:
        asked_s, known = self._asked.get(gateway.process.pid, (-ASKED_S, 0.0))
        if time.monotonic() - asked_s >= ASKED_S:
            known = gateway.values(TICK).get("", 0.0)
            self._asked[gateway.process.pid] = time.monotonic(), known
        return known


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _stored(root: Path) -> Iterator[Update]:
    asked = (
        "SELECT id, fault, host, device_kind, device, severity, action, opened, cleared, findings, "
        "summary, ended, jobs, times FROM incidents"
    )
    for row in Store(str(root)).sql(asked).rows():
        *what, opened, cleared, findings, summary, ended, jobs, times = row
        if what[2] == GATEWAY:  # a job or a rail is on no host: the store has who wrote it
            what[2] = ""
        rest = us(opened), us(cleared), tuple(findings), summary, ended, tuple(jobs), times
        yield Update._make((*what, *rest))


def _printed(one: dict[str, Any]) -> Update:
    opened, cleared = (round((one[key] or 0) * 1e6) for key in ("opened", "cleared"))
    what = (one[key] for key in ("id", "fault", "host", "kind", "device", "severity", "action"))
    rest = tuple(one["findings"]), one["summary"], one["ended"], tuple(one["jobs"]), one["times"]
    return Update._make((*what, opened, cleared, *rest))


def paces(nodes: int, hours: float, base_s: float, step_s: float) -> Sequence[Pace]:
    """Each fourth node is read half as often as the others and each eighth a quarter, once a minute
    at least; some more often for an hour of the morning and for a while at mid-day, where somebody
    looks closer.
    """
    few = max(1, nodes // 4)
    return (
        Pace(range(nodes), base_s),
        Pace(range(1, nodes, 4), min(2 * base_s, SLOWEST_S)),
        Pace(range(2, nodes, 8), min(4 * base_s, SLOWEST_S)),
        Pace(range(0, nodes, few), min(15.0, base_s), (hours / 4, hours / 4 + hours / 24)),
        Pace(range(3, nodes, few), step_s, (hours / 2 - hours / 200, hours / 2 + hours / 200)),
    )


ALIKE = replace(WORLD, models=1.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A world for scenarios that a day of some nodes has no room for, read once a minute."""

    name: str
    scenarios: tuple[str, ...]
    nodes: int
    days: float
    settings: Settings = ALIKE
    ranges: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    def run(self, seed: int) -> tuple[Run, dict[str, str]]:
        """Its run, and why a scenario is not in it."""
        return every_fault(
            seed,
            nodes=self.nodes,
            days=self.days,
            step_s=SLOWEST_S,
            names=self.scenarios,
            settings=self.settings,
            ranges=self.ranges,
        )


DAY = "day"
# Of a lemon the six faults come within days in place of weeks: how often each counts is the same.
SOON: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "F31": {"days": (1.5, 2.5)},
    "F10": {"hours": (4.0, 6.0)},
}
THOUSAND = replace(ALIKE, pod_nodes=1000, job_gpus=64.0)
PARTS = (
    Part("leaf", ("F74",), 1000, 0.08, THOUSAND),
    Part("roll-out", ("F86",), 16, 2.2),
    Part("racks", ("F87",), 16, 2.2),
    Part("reports", ("F56",), 16, 0.25),
    Part("week", ("F10", "F11", "F88", "F31", "F48"), 8, 8.5, replace(ALIKE, fec=True), SOON),
)


class Found(NamedTuple):
    """What is kept of a part. ``incidents``: faults of incidents by the detectors of their findings
    (an incident that no single finding opened has none), ``lowered``: faults of those that a
    calibration lowered.
    """

    scenarios: list[str]
    missing: dict[str, str]
    incidents: list[tuple[str, list[str]]]
    lowered: list[str]
    differences: int
    take_over_s: float


def main() -> int:
    """0 where live and replay say the same, and no scenario is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--base", type=float, default=15.0, help="seconds between two readings")
    parser.add_argument("--step", type=float, default=1.0, help="seconds, of the fastest nodes")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--lost", type=float, default=0.002, help="share of batches")
    parser.add_argument("--scenario", nargs="+", default=[], help="of the day; default: all")
    names = [DAY, *(part.name for part in PARTS)]
    parser.add_argument("--part", nargs="+", choices=names, default=names)
    parser.add_argument("--results", type=Path, help="file; default: nothing is kept")
    parser.add_argument("--keep", type=Path, help="folder for stores and logs; default: removed")
    args = parser.parse_args()
    kept: dict[str, Found] = {}
    if args.results and args.results.exists():
        before = json.loads(args.results.read_text(encoding="utf-8"))
        kept = {name: Found(*found) for name, found in before.items()}
    for name in args.part:
        if name in kept:
            print(f"{name}: as of the run before", flush=True)
            continue
        kept[name] = _part(name, args)
        if args.results:
            args.results.write_text(json.dumps(kept), encoding="utf-8")
    return _reported([kept[name] for name in args.part])


def _part(name: str, args: argparse.Namespace) -> Found:
    """Run one, and say what came of it."""
    if name == DAY:
        run, left_out = every_fault(
            args.seed,
            nodes=args.nodes,
            days=args.hours / 24,
            step_s=args.step,
            names=args.scenario,
            paces=paces(args.nodes, args.hours, args.base, args.step),
        )
    else:
        run, left_out = next(part for part in PARTS if part.name == name).run(args.seed)
    scenarios = sorted({truth.scenario for truth in run.truth})
    print(f"{name}: {len(run.truth)} faults of {len(scenarios)} scenarios: {' '.join(scenarios)}")
    for missing, why in left_out.items():
        print(f"  without {missing}: {why}", flush=True)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.keep or Path(scratch)) / name
        folder.mkdir(parents=True, exist_ok=True)
        outcome = Day(run, folder, lost=args.lost).outcome()
    last = {one.id: one for one in sorted(outcome.replayed, key=lambda one: one.cleared_us)}
    differences = list(outcome.differences())
    for who, update in differences[:40]:
        print(f"  {who}: {update}")
    spent = ", ".join(f"{who} {spent:.0f} s" for who, spent in outcome.cpu_s.items())
    print(
        f"  {len(outcome.replayed)} updates of {len(last)} incidents by severity "
        f"{dict(Counter(one.severity for one in last.values()))}, tickets lowered "
        f"{outcome.lowered}; {len(differences)} differences; take-over "
        f"{outcome.take_over_s:.1f} s; CPU: {spent}; {time.monotonic() - begun_s:.0f} s in all",
        flush=True,
    )
    by = outcome.detectors
    return Found(
        scenarios,
        left_out,
        [(one.fault, sorted({by[f] for f in one.findings if f in by})) for one in last.values()],
        [one.fault for one in last.values() if one.severity == "record"],
        len(differences),
        outcome.take_over_s,
    )


def _reported(parts: Sequence[Found]) -> int:
    faults = Counter(fault for part in parts for fault, _ in part.incidents)
    detectors = Counter(name for part in parts for _, names in part.incidents for name in names)
    lowered = Counter(fault for part in parts for fault in part.lowered)
    print("incidents that were compared, by detector: " + _listed(detectors))
    print("  by fault: " + _listed(faults))
    print("  lowered by the calibration: " + _listed(lowered))
    print("  detectors without one: " + " ".join(sorted({*DETECTORS} - {*detectors})))
    print("  faults without one: " + " ".join(sorted({*CLASSES} - {*faults})))
    struck = {name for part in parts for name in part.scenarios}
    for name in sorted({*SCENARIOS} - struck):
        why = next((part.missing[name] for part in parts if name in part.missing), "not asked for")
        print(f"  without scenario {name}: {why}")
    differences = sum(part.differences for part in parts)
    worst_s = max(part.take_over_s for part in parts)
    print(
        f"{sum(faults.values())} incidents, {len(struck)} of {len(SCENARIOS)} scenarios: "
        f"{differences} differences; take-over at most {worst_s:.1f} s"
    )
    return int(bool(differences) or worst_s > TAKE_OVER_S or {*SCENARIOS} > struck)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
