"""How soon, and how rightly, a rank is named by what NCCL reports of jobs over many nodes.

    nice -n 10 python -m benchmarks.nccl_reports --seed 42001 --cases 100

Scenario F56 with its wide ranges (split test): only the events of agents, second by second as a
gateway joins them, judged by the detector ``nccl`` alone. Readings of GPUs are left out: they add
nothing to this verdict and are nearly all of the cost. A finding counts where its device is the GPU
at fault; any other ticket or page is false, except one about its node, rank or job without a GPU.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np

from detectors.nccl.detector import Nccl
from evaluation.metrics.intervals import share_interval
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import frame_of
from pipeline.observation import Observation
from simulator.fleet import Run, load_scenario, render
from simulator.fleet.events import JOBS
from simulator.fleet.truth import Truth
from simulator.fleet.world import UP_FOR_NS
from simulator.nccl.stalled import How

SCENARIO, NODES, CASES, STEP_S = "F56", 128, 24, 1.0


def main() -> None:
    """Print a row per kind of stall, and one of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the first of the seeds")
    parser.add_argument("--cases", type=int, default=100)
    args = parser.parse_args()
    rows: dict[str, list[tuple[float, str]]] = defaultdict(list)
    seed, false = args.seed, Counter[str]()
    while sum(map(len, rows.values())) < args.cases:
        for kind, after_s, what in judged(seed, false):
            rows[kind].append((after_s, what))
        seed += 1
    print("stall|GPU named in 60 s|bounds|within 2 min|p50, p90, s|named without its GPU")
    for kind, found in {**rows, "all": [one for each in rows.values() for one in each]}.items():
        print(line(kind, found), flush=True)
    print(f"seeds {args.seed} to {seed - 1}; false: {dict(false) or 'none'}")


def line(kind: str, found: list[tuple[float, str]]) -> str:
    """A row of the table."""
    times = sorted(after_s for after_s, what in found if what == "gpu")
    hits, of = sum(after_s <= 60 for after_s in times), len(found)
    low, high = share_interval(hits, of)
    late = sum(after_s <= 120 for after_s in times)
    less = Counter(what for _, what in found if what != "gpu")
    spread = f"{np.percentile(times, 50):.0f}, {np.percentile(times, 90):.0f}" if times else ""
    words = ", ".join(f"{n} {what}" for what, n in less.items())
    return f"| {kind} | {hits}/{of} | {low:.3f}-{high:.3f} | {late}/{of} | {spread} | {words} |"


def judged(seed: int, false: Counter[str]) -> Iterator[tuple[str, float, str]]:
    """Of each case of a run its kind, seconds until the best answer, and what that names."""
    scenario = replace(load_scenario(SCENARIO), cases=CASES)
    run = render(scenario, seed, split="test", step_s=STEP_S, nodes=NODES)
    findings = [f for f in findings_of(run) if f.active and f.severity != "record"]
    for truth in run.truth:
        kind = get_args(How)[int(truth.id.partition("/")[2]) % 4]
        about = [f for f in findings if truth.onset_ns <= f.time_ns <= truth.end_ns + SECOND_NS]
        mine = [f for f in about if f.device.attributes["job"] == job_of(run, truth)]
        false.update(f"{f.severity} {f.fault}" for f in mine if names(f, truth) == "wrong")
        best = min(
            (
                (
                    names(f, truth) != "gpu",
                    (f.time_ns - truth.onset_ns) / SECOND_NS,
                    names(f, truth),
                )
                for f in mine
                if names(f, truth) != "wrong"
            ),
            default=(True, float("inf"), "nothing"),
        )
        yield kind, best[1], best[2]


def names(finding: Finding, truth: Truth) -> str:
    """What a finding names: the GPU at fault, its rank or node without the GPU, or another."""
    device, wanted = finding.device, truth.entity
    assert not isinstance(wanted, str)
    if device.kind == "gpu":
        return "gpu" if device.id == wanted.id else "wrong"
    if device.kind in ("rank", "job"):
        return device.kind
    return "node" if device.host == wanted.host else "wrong"


def job_of(run: Run, truth: Truth) -> str:
    """The job that was struck."""
    assert not isinstance(truth.entity, str)
    job = run.topology.job_at(truth.entity.host, truth.onset_ns - SECOND_NS)
    return job.id if job else ""


def findings_of(run: Run) -> Iterator[Finding]:
    """What ``nccl`` finds in the events of all agents."""
    world = run.world()
    detector, begin_ns = Nccl(), run.topology.begin_ns
    frame = frame_of("gpu", [(gpu, {}) for gpu in run.topology.gpus], begin_ns, UP_FOR_NS)
    due = 1
    for tick in range(1, run.ticks + 1):
        if tick >= due:
            due = world.act(tick)
        now_ns = round(tick * run.step_s * SECOND_NS)
        mono_ns = UP_FOR_NS + now_ns
        events = world.happenings.take(JOBS, mono_ns)
        if events or detector.rests_ns() == 0:
            seen = (frame,) if tick == 1 or events else ()
            yield from detector.update(
                Observation(
                    JOBS, "fleet", "fleet", tick, begin_ns + now_ns, mono_ns, 0, seen, events
                )
            )


if __name__ == "__main__":
    main()
