"""What a SIGKILL costs: how old the newest reading in the store is when the agent is killed, on an
idle core and on one that others want, on a disk that others sync.

Real agents of a simulated HGX H100 on one core, killed at random instants after a scrape. ``age``
is from the begin of the newest stored reading of the GPUs to the kill: up to a second of it is the
pause between two reads. ``served`` is how much newer the reading was that the last scrape had
shown: what was acknowledged and is lost. The page cache survives a SIGKILL, so both are about the
way to ``write()``; a power cut costs up to the fsync interval more.

Agent and load are in a control group each, as where systemd runs the one and Slurm or the kubelet
the others: the load at a weight of 100, the agent at the CPUWeight= of its unit or at ``--weight``
(25 is the pod, which requests 250m, beside one that requests every core). With ``--together`` in
none, so that the agent is one process of many. It needs root.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks._control_group import CpuGroup
from pipeline.store.files.wal import read_segment, segments
from tests.agents import AgentProcess

UNIT = Path(__file__).parents[1] / "deploy" / "systemd" / "tocsin.service"
GOAL_S = 2.0  # the fsync interval and one tick of a second
SPIN = "while True: pass"
SYNC = (
    "import os\nfd = os.open('load', os.O_WRONLY | os.O_CREAT)\n"
    "while True:\n    os.pwrite(fd, bytes(4 << 20), 0)\n    os.fdatasync(fd)"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one kill, seconds: age of the newest stored reading, and how much newer the newest one
    was that had been served.
    """

    age: float
    served: float


@dataclass(frozen=True, slots=True)
class Load:
    """Processes that never wait, on the cores of this one, and others that sync the disk."""

    busy: int
    syncing: int
    weight: int
    together: bool

    @contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        """While it lasts."""
        with self._group(100) as group, ExitStack() as stack:
            for code in [SPIN] * self.busy + [SYNC] * self.syncing:
                process = stack.enter_context(
                    subprocess.Popen([sys.executable, "-I", "-c", code], cwd=folder)
                )
                stack.callback(process.kill)
                if group is not None:
                    group.add(process.pid)
            yield

    def agents(self) -> AbstractContextManager[CpuGroup | None]:
        """The group of the agent that is beside it."""
        return self._group(self.weight)

    def _group(self, weight: int) -> AbstractContextManager[CpuGroup | None]:
        return nullcontext() if self.together else CpuGroup(weight)


def weight_of_unit() -> int:
    """CPUWeight= as installed."""
    found = re.search(r"^CPUWeight=(\d+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise KeyError(f"{UNIT}: no CPUWeight=")
    return int(found[1])


def newest_s(storage: Path) -> float:
    """Unix time at which the newest stored reading of GPUs began."""
    newest = 0
    for segment in segments(storage / "wal"):
        for judged in read_segment(segment):
            if judged.observation.source == "nvml" and judged.observation.outcome == "ok":
                newest = max(newest, judged.observation.time_ns)
    return newest / 1e9


def kill(folder: Path, load: Load, rng: random.Random) -> Loss:
    """One life."""
    storage = folder / "store"
    with load.agents() as group, AgentProcess(storage, "--simulate", "hgx-h100") as agent:
        if group is not None:
            group.add(agent.process.pid)
        agent.ready()
        with load.running(folder):
            time.sleep(rng.uniform(5.0, 8.0))
            shown = agent.values("tocsin_source_last_success_timestamp_seconds")['source="nvml"']
            time.sleep(rng.uniform(0.0, 0.05))
            at = time.time()
            agent.process.kill()
        stored = newest_s(storage)
    return Loss(at - stored, max(shown - stored, 0.0))


def row(name: str, values: Sequence[float]) -> str:
    """Median, 95th percentile and worst."""
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return f"{name:<8} {statistics.median(ordered):8.2f} {high:8.2f} {ordered[-1]:8.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Kill and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--busy", type=int, default=15, help="processes on the agent's core")
    parser.add_argument("--syncing", type=int, default=4, help="processes that sync its disk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weight", type=int, help="of the agent's group, in place of the unit's")
    parser.add_argument("--together", action="store_true", help="without control groups")
    options = parser.parse_args(arguments)
    weight = options.weight or weight_of_unit()
    load = Load(options.busy, options.syncing, weight, options.together)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rng = random.Random(options.seed)  # noqa: S311 - instants
    losses = []
    for _ in range(options.kills):
        with tempfile.TemporaryDirectory() as folder:
            losses.append(kill(Path(folder), load, rng))
    groups = "together" if options.together else f"in control groups, the agent's weight {weight}"
    print(
        f"{options.kills} kills, {options.busy} busy processes on the same core, {options.syncing} "
        f"that sync its disk, {groups}; seconds"
    )
    print(f"{'':8} {'median':>8} {'95 %':>8} {'worst':>8}   goal {GOAL_S:.0f}")
    print(row("age", [loss.age for loss in losses]))
    print(row("served", [loss.served for loss in losses]))


if __name__ == "__main__":
    main()
