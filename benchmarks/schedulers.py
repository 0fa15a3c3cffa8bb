"""The same simulated hours as jobs of Slurm and as trainings of Kubernetes: what differs.

    python -m benchmarks.schedulers --seed 1

Findings, incidents and pages of jobs of each scenario must be equal but for names; the exit code is
1 where any differs. Six more causes of death are in the scenario ``deaths``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from evaluation.schedulers.equal import differences, verdicts
from evaluation.schedulers.short_jobs import DEATHS, short_jobs
from simulator.fleet import load_scenario, render

# Memory, GPUs, heat, clocks, links, ranks, hosts, files, switches, waits.
SCENARIOS = (
    DEATHS,
    *("F03", "F06", "F08", "F10", "F16", "F20", "F23", "F25", "F27", "F34", "F36", "F42", "F50"),
    *("F70", "F80", "F83"),
)
NODES, DAYS, STEP_S = 4, 0.2, 30.0


def main(argv: list[str] | None = None) -> int:
    """A line for each scenario, and its differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", nargs="+", default=SCENARIOS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--nodes", type=int, default=NODES)
    args = parser.parse_args(argv)
    differ = 0
    for name in args.scenario:
        run = (
            short_jobs(args.seed, args.nodes, args.days)
            if name == DEATHS
            else render(
                load_scenario(name), args.seed, magnitude="range", step_s=STEP_S,
                days=args.days, nodes=args.nodes,
            )
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            slurm, kubernetes = (
                verdicts(run, scheduler, Path(folder)) for scheduler in ("slurm", "kubernetes")
            )
        lines = differences(slurm, kubernetes)
        causes = sorted(page["cause"] for page in slurm.pages.values())
        print(
            f"{name} seed {args.seed}: {len(run.truth)} faults, {len(slurm.findings)} findings, "
            f"{len(slurm.incidents)} incidents, {len(slurm.pages)} pages ({' '.join(causes)}), "
            f"{len(lines)} differ",
            flush=True,
        )
        for line in lines[:20]:
            print(f"  {line[:600]}")
        differ += bool(lines)
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
