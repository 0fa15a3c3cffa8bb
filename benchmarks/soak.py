"""Whether an agent stays as small as it was: minutes at 20 reads a second under scrapes and kills,
and hours with faults in a few minutes.

``make soak`` runs both; ``python -m benchmarks.soak --seconds 60`` a shorter first one. Main
process and driver child are watched from outside. The clients are this process: keep its share of
the machine in mind.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from benchmarks._processes import command_line, cpu_s, driver_of, pss_mib, state
from tests.agents import AgentProcess

# between the halves of what comes after an agent has settled: what malloc and
# caches move by themselves
MAX_GROWTH_MIB = 1.0
# Windows of detectors: those of five minutes have been judged once; the longest that
# take room are two hours.
SETTLED_S, SETTLED_H = 330.0, 2
ZOMBIE_S = 10.0
SCRAPERS = 5
# Minute of the hour, fault, and what it is like. The node lives through these, and they come in the
# first hour and the third.
FAULTS = (
    (2, "ecc_storm@gpu1", "rate=5,lasts=5m"),
    (6, "link_flap@mlx5_3", "down=30s,times=3,every=110s"),
    (12, "thermal@gpu6", "resistance=6,lasts=5m"),
    (18, "nccl_stall@gpu4", "lasts=3m,how=late"),
    (24, "xid@gpu2", "code=31,count=200,every=1"),
    (28, "symbol_errors@mlx5_5", "ber=1e-11,ramp=60s"),
    (34, "power_brake@gpu3", "lasts=60s"),
    (38, "slow_clock@gpu5", "percent=15,lasts=5m"),
)
LAST_FAULTS = ("ecc_dbe@gpu1+165m", "gpu_lost@gpu7+172m")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the agent holds at one moment, seconds since the run began."""

    at_s: float
    main_mib: float
    driver_mib: float
    descriptors: int
    threads: int
    zombies: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: how long, when nothing should grow any more, how often the clients ask and the
    driver child is killed, the agent's flags.
    """

    seconds: float
    flags: Sequence[str]
    settled_s: float = 0.0
    scrapes_per_s: float = 50.0
    kill_every_s: float = 20.0
    sample_every_s: float = 5.0


@dataclass(slots=True)
class Outcome:
    """What a run saw.

    ``answers`` counts scrapes by what came of them, ``cpu_s`` is the agent's own, ``waits_s``
    are of answered scrapes.
    """

    samples: list[Sample] = field(default_factory=list)
    settled_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    kills: int = 0
    cpu_s: float = 0.0
    reads: float = 0.0
    skipped: float = 0.0
    lived: bool = False
    left: list[str] = field(default_factory=list)

    def growth(
        self,
        of: Callable[[Sample], float],
        typical: Callable[[Sequence[float]], float] = statistics.median,
    ) -> float:
        """What is typical of the second half of what came after the agent had settled, less
        the same of the first half.

        For what comes and goes with scrapes and children the most usual number (``mode``) is
        typical: a leak moves it.
        """
        settled = [of(sample) for sample in self.samples if sample.at_s >= self.settled_s] or [0.0]
        half = len(settled) // 2
        return typical(settled[half:]) - typical(settled[:half] or settled)

    def complaints(self) -> list[str]:
        """What was not flat, or not answered."""
        found = [f"{n} scrapes: {what}" for what, n in self.answers.items() if what != "200"]
        if not self.lived:
            found.append("the agent did not live to its end, or did not end with 0")
        if self.skipped > self.reads:
            found.append("more reads were skipped than made: a machine this busy proves nothing")
        found += [f"left behind: {words}" for words in self.left]
        if (grown := self.growth(lambda s: s.main_mib)) > MAX_GROWTH_MIB:
            found.append(f"the main process grew by {grown:.2f} MiB")
        if (grown := self.growth(lambda s: s.descriptors, statistics.mode)) > 0:
            found.append(f"{grown:.0f} descriptors more than before")
        if (grown := self.growth(lambda s: s.threads, statistics.mode)) > 0:
            found.append(f"{grown:.0f} threads more than before")
        if any(
            b.at_s - a.at_s >= ZOMBIE_S and a.zombies & b.zombies
            for a, b in combinations(self.samples, 2)
        ):
            found.append(f"a child that ended {ZOMBIE_S:.0f} s ago was not taken leave of")
        return found


def soak(plan: Plan, folder: Path) -> Outcome:
    """Run an agent of a simulated node under a plan; what was seen."""
    outcome = Outcome(settled_s=plan.settled_s)
    with AgentProcess(folder / "state", "--simulate", "hgx-h100", *plan.flags) as agent:
        agent.ready()
        stop = threading.Event()
        scrapers = [
            threading.Thread(target=_scrape, args=(agent.address, plan, outcome, stop))
            for _ in range(SCRAPERS)
        ]
        for scraper in scrapers:
            scraper.start()
        try:
            _watch(agent, plan, outcome)
        finally:
            stop.set()
            for scraper in scrapers:
                scraper.join(30)
        outcome.reads = agent.values("tocsin_source_reads_total").get(
            'source="nvml",outcome="ok"', 0.0
        )
        outcome.skipped = agent.values("tocsin_source_skipped_ticks_total").get(
            'source="nvml"', 0.0
        )
        family = agent.children()
        outcome.lived = agent.stop() == 0
        outcome.left = [command_line(child) for child in family if command_line(child)]
    return outcome


def _watch(agent: AgentProcess, plan: Plan, outcome: Outcome) -> None:
    """Take samples and kill the driver child until the time is over."""
    began = time.monotonic()
    next_sample, next_kill, cpu = 0.0, plan.kill_every_s, cpu_s(agent.process.pid)
    while (now := time.monotonic() - began) < plan.seconds and agent.process.poll() is None:
        if now >= next_sample:
            outcome.samples.append(_sample(agent, now))
            next_sample += plan.sample_every_s
        if now >= next_kill and (driver := driver_of(agent)):
            with suppress(ProcessLookupError):  # it has just been replaced
                os.kill(driver, signal.SIGKILL)
                outcome.kills += 1
            next_kill += plan.kill_every_s
        time.sleep(0.05)
    if agent.process.poll() is None:
        outcome.cpu_s = cpu_s(agent.process.pid) - cpu


def _scrape(address: str, plan: Plan, outcome: Outcome, stop: threading.Event) -> None:
    """One of several clients that together ask as often as planned, each on a kept connection that
    it opens again every 100 scrapes.
    """
    pause, host, connection = (
        SCRAPERS / plan.scrapes_per_s,
        address,
        http.client.HTTPConnection(address, timeout=10),
    )
    due, asked = time.monotonic(), 0
    while not stop.wait(max(due - time.monotonic(), 0)):
        due = max(due + pause, time.monotonic() - pause)
        began, asked = time.perf_counter(), asked + 1
        try:
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            outcome.answers[str(answer.status)] += 1
            outcome.waits_s.append(time.perf_counter() - began)
        except (OSError, http.client.HTTPException) as error:
            outcome.answers[type(error).__name__] += 1
            connection.close()
        if asked % 100 == 0:
            connection.close()
            connection = http.client.HTTPConnection(host, timeout=10)
    connection.close()


def _sample(agent: AgentProcess, at_s: float) -> Sample:
    driver, main = driver_of(agent), agent.process.pid
    status = Path(f"/proc/{main}/status").read_text()
    threads = next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads:")
    )
    zombies = frozenset(child for child in agent.children() if state(child) == "Z")
    return Sample(
        at_s,
        pss_mib(main),
        pss_mib(driver) if driver else 0.0,
        sum(1 for _ in Path(f"/proc/{main}/fd").iterdir()),
        threads,
        zombies,
    )


def fast(seconds: float, hz: float = 20.0) -> Plan:
    """GPUs and ports at so many reads a second, the rest as shipped."""
    period = f"{1000 / hz:.0f}ms"
    return Plan(
        seconds,
        ("--source.nvml.period", period, "--source.infiniband.period", period),
        min(SETTLED_S, seconds / 2),
    )


def hours(speed: int) -> Plan:
    """Three hours of the simulated node's and the agent's time: one with faults, one in which what
    is remembered fills, one with faults again.
    """
    hour_s = 3600 / speed
    faults = [
        f"{fault}+{minute + 60 * hour}m:{like}"
        for hour in (0, SETTLED_H)
        for minute, fault, like in FAULTS
    ]
    injected = tuple(
        word for fault in (*faults, *LAST_FAULTS) for word in ("--simulate.inject", fault)
    )
    return Plan(
        3 * hour_s,
        ("--simulate.speed", str(speed), "--detectors.off-trial", "all", *injected),
        SETTLED_H * hour_s,
        scrapes_per_s=5,
        kill_every_s=hour_s / 12,
        sample_every_s=hour_s / 60,
    )


def report(name: str, plan: Plan, outcome: Outcome) -> list[str]:
    """Print a table of moments and what came of the scrapes; the complaints."""
    print(
        f"{name}: {plan.seconds:.0f} s, {outcome.kills} kills of the driver child, load "
        f"{os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
    )
    print("      at  main MiB  driver MiB  descriptors  threads")
    for sample in outcome.samples[:: max(len(outcome.samples) // 10, 1)]:
        numbers = (
            sample.at_s,
            sample.main_mib,
            sample.driver_mib,
            sample.descriptors,
            sample.threads,
        )
        print("{:6.0f} s  {:8.1f}  {:10.1f}  {:11d}  {:7d}".format(*numbers))
    scrapes = sum(outcome.answers.values())
    waits = sorted(outcome.waits_s) or [0.0]
    print(
        f"  {scrapes} scrapes ({scrapes / plan.seconds:.1f}/s): {dict(outcome.answers)}, median "
        f"{statistics.median(waits) * 1000:.1f} ms, 99 % below "
        f"{waits[int(len(waits) * 0.99) - 1] * 1000:.0f} ms"
    )
    print(
        f"  {outcome.reads:.0f} reads of the GPUs, {outcome.skipped:.0f} ticks skipped; CPU of the "
        f"main process {outcome.cpu_s / plan.seconds:.0%} of a core"
    )
    print(
        f"  halves after {plan.settled_s:.0f} s: main {outcome.growth(lambda s: s.main_mib):+.2f} "
        f"MiB, descriptors {outcome.growth(lambda s: s.descriptors, statistics.mode):+.0f}"
    )
    return [f"{name}: {complaint}" for complaint in outcome.complaints()]


def _plans(arguments: argparse.Namespace) -> Iterator[tuple[str, Plan]]:
    if arguments.seconds:
        yield (
            f"{arguments.hz:g} reads a second, 50 scrapes a second",
            fast(arguments.seconds, arguments.hz),
        )
    if arguments.speed:
        yield f"three hours with faults, {arguments.speed} times as fast", hours(arguments.speed)


def main() -> int:
    """Print both runs; 1 where something was not flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=600.0,
        help="of the run at many reads a second; 0 leaves it out",
    )
    parser.add_argument("--hz", type=float, default=20.0, help="reads a second")
    parser.add_argument(
        "--speed",
        type=int,
        default=20,
        help="how many times as fast the hours go by; 0 leaves them out",
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the agent ends with us
    complaints: list[str] = []
    for name, plan in _plans(parser.parse_args()):
        with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
            complaints += report(name, plan, soak(plan, Path(folder)))
    for complaint in complaints:
        print(f"NOT FLAT: {complaint}")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
