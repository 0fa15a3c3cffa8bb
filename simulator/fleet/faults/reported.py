"""F56: a rank keeps its job waiting, and NCCL's own reports say which: one node asks RAS, which
calls the others by address and pid, or each rank's Flight Recorder is read.

When a node asks follows the rules of the agent (collector/sources/nccl/ras/policy.py), and what it
reads goes through the agent's parsers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.jobs import ORDERLY_S
from collector.sources.nccl.ras.parse import parse_ras
from collector.sources.nccl.ras.policy import (
    CLOSE_LOOKS,
    OTHERS_FIRST_S,
    ROUTINE_S,
    SPACING_S,
    slot_of,
)
from collector.sources.nccl.source import SCAN_S
from collector.sources.nccl.stillness import STILL_S
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity
from pipeline.nccl.report import Report
from pipeline.nccl.wire import events_of
from pipeline.observation import Value
from simulator.fleet.demand import RUNS, SPINS
from simulator.fleet.events import JOBS
from simulator.fleet.jobs import FleetJob
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process
from simulator.nccl.job import Life, Peer
from simulator.nccl.json_reply import render_json
from simulator.nccl.stalled import STEP, How, StalledJob

MINUTE = 60.0
YOUNG_S = 5 * MINUTE  # RAS is asked of jobs that are older than two minutes
HOWS: tuple[How, ...] = ("late", "gone", "stopped", "mismatch")
WORLD_CALL = len(STEP) - 1
READ_EVERY_S = 5.0  # sources.nccl.period
NCCL = ("2.29.2", "2.29.7", "2.30.7")
OLD_NCCL = ("2.21.5", "2.26.2", "2.27.5")  # RAS of these is never asked
UNANSWERED_S = 5.0  # how long RAS waits for a peer that does not answer
DEAD_S = 60.0
DUMPED_S = 2.0  # PyTorch looks once a second whether a dump is wanted
TOLD_BEFORE_S = 60.0
STAMP = "2026-03-02 12:00:00"  # of a reply; the agent's own clock counts


@dataclass(frozen=True, slots=True)
class Reports:
    """What can be read of a job. ``first`` asks RAS (its place among the job's nodes); ``blind``
    nodes know none of their processes; ``late_s`` is how long each node's reports take.
    """

    job: StalledJob
    ras: bool
    dumps: bool
    first: int
    blind: frozenset[int]
    late_s: tuple[float, ...]


def reported(plan: Plan) -> None:
    """Each case another way to keep others waiting, and other sources."""
    for case in plan.cases():
        lasts = plan.draw("watchdog_minutes") * MINUTE
        how = HOWS[case.number % len(HOWS)]
        place = plan.place(
            lasts, needs_s=lasts, nodes=2, lead_s=YOUNG_S, stays_s=lasts, kills_s=lasts
        )  # fmt: skip
        if place is None:
            continue
        job = place.job
        assert job is not None  # noqa: S101 - busy places have one
        gpu, reports = (
            plan.topology.gpus[place.gpu],
            _drawn(plan, job, place.gpu, how, place.onset_s),
        )
        severity: Severity = "ticket" if how == "late" else "page"
        plan.truth(case, gpu, place.onset_s, place.onset_s + lasts, severity=severity)
        plan.inject(place.onset_s - TOLD_BEFORE_S, partial(_known, job=job, reports=reports))
        plan.inject(
            place.onset_s, partial(_stuck, job=job, gpu=place.gpu, reports=reports, lasts=lasts)
        )
        plan.kill(job, place.onset_s + lasts)


def _drawn(plan: Plan, job: FleetJob, gpu: int, how: How, onset_s: float) -> Reports:
    rng, ranks = plan.rng, len(job.nodes) * GPUS
    # RAS, both, the Flight Recorder; of a rank that was stopped dumps alone tell nothing
    source = int(rng.integers(2 if how == "stopped" else 3))
    contained = rng.random() < 0.3  # the same pids on each node
    pids = rng.choice(np.arange(2000, 400_000), ranks, replace=False).tolist()
    peers = tuple(
        Peer(
            f"10.{node >> 8 & 255}.{node & 255}.17",
            100 + slot if contained else int(pids[place * GPUS + slot]),
            (slot,),
        )
        for place, node in enumerate(job.nodes)
        for slot in range(GPUS)
    )
    culprit = job.nodes.index(gpu // GPUS) * GPUS + gpu % GPUS
    # half against half has no minority
    at = WORLD_CALL if how == "mismatch" else int(rng.integers(len(STEP)))
    stalled = StalledJob(
        peers,
        int(rng.choice([2, 4, 8])),
        culprit,
        at,
        how,
        int(rng.integers(20, 20_000)),
        plan.ns(onset_s),
        int(rng.integers(1, 1 << 60)),
        str(rng.choice(OLD_NCCL if source == 2 else NCCL)),
    )
    share = plan.draw("unknown_share")
    blind = frozenset(np.flatnonzero(rng.random(len(job.nodes)) < share).tolist())
    late_s = tuple(rng.uniform(0, plan.draw("late_s"), len(job.nodes)).tolist())
    # the node that asks answers itself, and its agent knows its processes
    able = [n for n in range(len(job.nodes)) if n not in blind] or [0]
    first = int(rng.choice(able))
    return Reports(stalled, source < 2, source > 0, first, blind - {first}, late_s)


def _known(world: FleetState, *, job: FleetJob, reports: Reports) -> Process:
    """Agents tell which processes they found: in time, for they look each 15 s."""
    for place, node in enumerate(job.nodes):
        if place not in reports.blind:
            for slot in range(GPUS):
                world.tell_node(
                    JOBS, node, "nccl_process_found", _process(world, job, reports, place, slot)
                )
    yield TOLD_BEFORE_S


def _process(
    world: FleetState, job: FleetJob, reports: Reports, place: int, slot: int
) -> dict[str, Value]:
    rank = place * GPUS + slot
    pid = reports.job.peers[rank].pid
    uuid = world.gpus_of(job.nodes[place])[slot].id
    return {"job": job.id, "pid": 500_000 + pid, "own_pid": pid, "rank": rank, "gpus": uuid}


def _stuck(
    world: FleetState, *, job: FleetJob, gpu: int, reports: Reports, lasts: float
) -> Process:
    nodes, how = list(job.nodes), reports.job.how
    world.work.mode[nodes] = SPINS
    world.gpus.dead[gpu] = how != "mismatch"
    world.gpus.processless[gpu] = how == "gone"
    passed = 0.0
    for after_s, act in sorted(_acts(job, reports), key=lambda one: one[0]):
        if after_s >= lasts:
            break
        yield after_s - passed
        passed = after_s
        act(world)
    yield lasts - passed
    world.gpus.dead[gpu] = world.gpus.processless[gpu] = False
    for node in nodes:
        if world.work.jobs[node] is job:
            world.work.mode[node] = RUNS


def _acts(job: FleetJob, reports: Reports) -> Iterator[tuple[float, partial[None]]]:
    """What agents see, and when after the onset."""
    place = reports.job.culprit // GPUS
    rng = np.random.default_rng(reports.job.hashes)
    suspected_s = STILL_S + float(rng.uniform(0, READ_EVERY_S))
    if reports.job.how == "gone" and place not in reports.blind:
        seen_s = float(rng.uniform(0, SCAN_S))
        yield seen_s, partial(_lost, job=job, reports=reports)
        if place == reports.first:
            suspected_s = seen_s + ORDERLY_S
    if reports.ras:
        yield from _asked(job, reports, suspected_s)
    if reports.dumps:
        for place in range(len(job.nodes)):
            at_s = STILL_S + float(rng.uniform(0, READ_EVERY_S)) + DUMPED_S
            yield (
                at_s + reports.late_s[place],
                partial(_dumped, job=job, reports=reports, place=place),
            )


def _asked(
    job: FleetJob, reports: Reports, suspected_s: float
) -> Iterator[tuple[float, partial[None]]]:
    """One node asks three times in close order, then each minute; each other one once."""
    close = [suspected_s + SPACING_S * n for n in range(CLOSE_LOOKS)]
    times = [(reports.first, at_s) for at_s in (*close, close[-1] + ROUTINE_S)]
    for place, node in enumerate(job.nodes):
        if place != reports.first:
            slot = slot_of(f"node-{node:04d}", job.id)
            times.append((place, suspected_s + OTHERS_FIRST_S * (1 + slot)))
    for place, at_s in times:
        if place in reports.blind:
            continue
        takes_s = UNANSWERED_S if reports.job.how in ("gone", "stopped") else 0.0
        act = partial(_answered, job=job, reports=reports, place=place, at_s=at_s)
        yield at_s + takes_s + reports.late_s[place], act


def _answered(
    world: FleetState, *, job: FleetJob, reports: Reports, place: int, at_s: float
) -> None:
    life: Life = "dead" if at_s >= DEAD_S else "unresponsive"
    lives = {reports.job.culprit: life} if reports.job.how in ("gone", "stopped") else {}
    text = render_json(reports.job.ras(lives), STAMP).encode()
    report = parse_ras(text, "127.0.0.1:28028")
    _tell(world, job, reports, place, replace(report, time_ns=reports.job.stuck_ns + _ns(at_s)))


def _dumped(world: FleetState, *, job: FleetJob, reports: Reports, place: int) -> None:
    """Each rank of a node that lives writes what it holds."""
    for rank in range(place * GPUS, (place + 1) * GPUS):
        if rank == reports.job.culprit and reports.job.how in ("gone", "stopped"):
            continue
        name = f"/tmp/comm_lib_trace_rank_{rank}"  # noqa: S108 - PyTorch's, nothing is written
        report = parse_dump(
            reports.job.dump(rank), name, time_ns=world.when(job.nodes[place]).time_ns
        )
        _tell(world, job, reports, place, report)


def _tell(world: FleetState, job: FleetJob, reports: Reports, place: int, report: Report) -> None:
    """A report as its agent sends it: it knows the ranks and GPUs of its own node alone."""
    node = job.nodes[place]
    address, gpus = reports.job.peers[place * GPUS].host, world.gpus_of(node)
    own = {p.pid: (rank, gpus[rank % GPUS].id) for rank, p in _of_node(reports, place)}
    communicators = tuple(
        replace(
            c,
            members=tuple(
                replace(m, world_rank=own[m.pid][0], uuid=own[m.pid][1])
                if m.host == address and m.pid in own and place not in reports.blind
                else m
                for m in c.members
            ),
        )
        for c in report.communicators
    )
    when, device = world.when(node), world.topology.node_devices[node]
    events = events_of(replace(report, job=job.id, communicators=communicators), device, *when)
    for event in events:
        world.happenings.add(JOBS, when, event)


def _of_node(reports: Reports, place: int) -> list[tuple[int, Peer]]:
    ranks = range(place * GPUS, (place + 1) * GPUS)
    return [(rank, reports.job.peers[rank]) for rank in ranks]


def _lost(world: FleetState, *, job: FleetJob, reports: Reports) -> None:
    place, slot = divmod(reports.job.culprit, GPUS)
    facts = _process(world, job, reports, place, slot)
    world.tell_node(JOBS, job.nodes[place], "nccl_process_lost", facts)


def _ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)
