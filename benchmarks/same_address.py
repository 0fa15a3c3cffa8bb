"""Whether an agent distinguishes jobs of one user that answer RAS on one address: so many jobs,
each with a rank of its own that is late, beside the simulated job of the node, which stalls.

``python -m benchmarks.same_address 2 8 64`` prints one line for each number. It needs root. Each
run takes about four minutes: RAS of a job younger than two minutes is not asked.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tenants import LIMIT_MIB, own_loopback
from collector.sources.nccl.ras.policy import YOUNG_JOB_S
from simulator.nccl.job import Comm, Job, Peer, Seat
from simulator.simulate import inject
from tests.tenants.attacked import Attacked
from tests.tenants.node import ALICE, reply
from tests.wait import until

PORT = 28_028  # NCCL's default
STALL_S = 600.0
PATIENCE_S = 300.0
FIRST = 5000  # number of the first job
ELSEWHERE = 5_000_000  # pids beyond those of any kernel: late ranks are not on this node
# of the log line of a finding: its job, and the process that the others wait for
NAMED = re.compile(r"Job (\d+): [^;]*\bprocess (\d+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run each; 1 where a stall was not found, or a report was another job's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("jobs", nargs="*", type=int, default=[2, 8, 64])
    given = parser.parse_args(arguments)
    own_loopback()
    good = True
    for jobs in given.jobs:
        found, wrong, seconds = run(jobs)
        good &= len(found) == jobs and not wrong
        after = f"the last after {max(seconds, default=0):.0f} s"
        sys.stdout.write(
            f"{jobs} jobs on one address: {len(found)} stalls found, {after} of suspicion; "
            f"wrong: {', '.join(sorted(wrong)) or 'none'}\n"
        )
        sys.stdout.flush()
    return 0 if good else 1


def run(jobs: int) -> tuple[set[int], set[str], list[float]]:
    """The jobs whose late rank was named, what was named wrongly, and when each was first seen, in
    seconds after the first suspicion.
    """
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Attacked(Path(folder), LIMIT_MIB << 20) as attacked,
    ):
        for number in range(FIRST, FIRST + jobs):
            tenant = attacked.node.start_ras(ALICE, str(number), PORT)
            peers = [Peer("10.0.0.1", pid, (0,)) for pid in (tenant.pid, ELSEWHERE + number)]
            seats = [Seat(peer, 0, counts=[1, 0, 0, 0, 100]) for peer in peers]
            seats[1].counts[4] = 99
            job = Job(peers, [Comm(0xC0DE_0000 + number, (1, 1 + number), seats)])
            attacked.node.answer(str(number), reply(job))
        old = time.monotonic() + YOUNG_JOB_S + 5
        until(lambda: time.monotonic() > old, "jobs that may be asked")
        attacked.equip()
        inject(attacked.simulated, f"nccl_stall@gpu2:how=stopped,lasts={STALL_S:g}")
        began = time.monotonic()
        found: dict[int, float] = {}
        wrong: set[str] = set()
        while time.monotonic() < began + PATIENCE_S and len(found) < jobs:
            for named, pid in map(_numbers, NAMED.findall(attacked.agent.log)):
                if pid == ELSEWHERE + named:
                    found.setdefault(named, time.monotonic() - began)
                elif named >= FIRST:
                    wrong.add(f"job {named}: process {pid}")
            tick = time.monotonic() + 1
            until(lambda at=tick: time.monotonic() > at, "the next second")  # type: ignore[misc]
        return set(found), wrong, list(found.values())


def _numbers(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(map(int, texts))


if __name__ == "__main__":
    sys.exit(main())
