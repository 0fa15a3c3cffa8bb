"""The same simulated hours as jobs of Slurm and as trainings of Kubernetes: what differs.

    python -m benchmarks.schedulers --seed 1

Twenty scenarios (evaluation/schedulers/twenty.py), each whole. Findings, incidents with their
owners, and pages of jobs must be equal but for names; the exit code is 1 where any differs. Where
a scenario differs in more than ``--lines``, all differences are counted by what they are about.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from evaluation.schedulers.equal import differences, summary, verdicts
from evaluation.schedulers.twenty import TWENTY


def main(argv: list[str] | None = None) -> int:
    """A line for each scenario, and its differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", nargs="+", choices=TWENTY, default=list(TWENTY))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, help="in place of each scenario's own")
    parser.add_argument("--lines", type=int, default=20, help="differences printed of a scenario")
    args = parser.parse_args(argv)
    differ = 0
    for name in args.scenario:
        began = time.process_time()
        hours = TWENTY[name]
        run = hours.render(args.seed, days=args.days)
        with tempfile.TemporaryDirectory() as folder:
            slurm, kubernetes = (
                verdicts(run, hours, scheduler, Path(folder))
                for scheduler in ("slurm", "kubernetes")
            )
        lines = differences(slurm, kubernetes)
        causes = Counter(page["cause"] for page in slurm.pages.values())
        waits = sum(" starvation/" in text for text in slurm.findings)
        owners = sum(" to owner " in text for text in slurm.incidents)
        print(
            f"{name:13} {run.scenario.id} seed {args.seed}, {run.seconds / 3600:.1f} h, "
            f"{len(run.truth)} faults ({slurm.found} and {kubernetes.found} found), "
            f"{len(slurm.findings)} findings ({waits} of waits), {len(slurm.incidents)} statements "
            f"of incidents ({owners} to owners), {len(slurm.pages)} pages "
            f"({', '.join(f'{n} {cause}' for cause, n in sorted(causes.items()))}), "
            f"{len(lines)} differ, {time.process_time() - began:.0f} CPU s",
            flush=True,
        )
        for line, n in Counter(map(summary, lines)).items() if len(lines) > args.lines else ():
            print(f"  {n} x {line}")
        for line in lines[: args.lines]:
            print(f"  {line[:600]}")
        differ += bool(lines)
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
