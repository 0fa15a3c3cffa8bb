"""GPUs of a job, of whose nodes each is read in its own second."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.kit.columns import Columns
from detectors.kit.peers import MIN_IN_JOB, MIN_PEERS, Peers, grouped
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation, Value
from pipeline.roster import Roster

NODES, EVERY_S = 8, 15
BEGIN_NS = 1_800_000_000 * SECOND_NS


def test_gpus_of_a_job_are_peers_although_no_two_are_read_at_once() -> None:
    """Each is compared with what the others showed last, once a reading; with one that is silent
    for longer than a minute no more.
    """
    columns = Columns(**Peers.fills())
    peers, roster = Peers(columns), Roster()
    gpus = [Device(f"n{n}", "gpu", f"n{n}/0") for n in range(NODES)]
    facts: dict[str, Value] = {"job": "j", "gpus": " ".join(gpu.id for gpu in gpus), "hosts": NODES}
    peers.jobs.take(
        Event(BEGIN_NS, 0, Device(gpu.host, "node", gpu.host), "job_started", facts) for gpu in gpus
    )
    compared: list[list[float]] = []
    for second in range(EVERY_S * 10):
        gpu = gpus[second % EVERY_S % NODES]
        if second % EVERY_S >= NODES or (gpu is gpus[0] and second > EVERY_S * 3):
            continue
        at_ns = BEGIN_NS + second * SECOND_NS
        values = {"sm_clock_megahertz": 1000.0 + 10 * int(gpu.host[1:])}
        frame = frame_of("gpu", [(gpu, values)], at_ns, at_ns)
        one = Observation("nvml", gpu.host, "b", 0, at_ns, at_ns, 0, (frame,))
        (frame,) = roster.join([one]).frames
        columns.show(frame)
        peers.look(frame)
        x = columns.wide(frame.gauge("sm_clock_megahertz"))
        compared.append(peers.now(x, np.where(np.isfinite(x), 99.0, np.nan)).d.tolist())
    second_round = compared[NODES : 2 * NODES]
    assert [row[n] for n, row in enumerate(second_round)] == [-35, -25, -15, -5, 5, 15, 25, 35]
    assert all(np.isfinite(row).sum() == 1 for row in second_round)
    assert not np.isfinite(compared[-1]).any()  # seven are too few


def test_what_was_learnt_of_a_job_is_valid_for_its_next_step() -> None:
    """As for a training whose process starts again in its pod; another job begins anew."""
    columns, node = Columns(**Peers.fills()), Device("n1", "node", "n1")
    peers = Peers(columns)
    gpus = [Device("n1", "gpu", f"GPU-{n}") for n in range(4)]
    frame = frame_of("gpu", [(gpu, {"sm_clock_megahertz": 1500.0}) for gpu in gpus], BEGIN_NS, 0)

    def changes(job: str, **facts: Value) -> bool:
        """Whether GPUs that a job takes are those of another job than before."""
        facts |= {"job": job, "gpus": " ".join(gpu.id for gpu in gpus)}
        peers.jobs.take([Event(BEGIN_NS, 0, node, "job_started", facts)])
        columns.show(frame)
        peers.look(frame)
        return bool(peers.changed.any())

    changes("71", scheduler="slurm")
    assert not changes("71.0")
    assert not changes("71.1")
    assert changes("72.0")


def test_jobs_that_are_over_are_not_kept() -> None:
    """A gateway sees thousands of jobs a day; the GPUs that each takes start from nothing."""
    columns, node = Columns(**Peers.fills()), Device("n1", "node", "n1")
    peers, gpus = Peers(columns), [Device("n1", "gpu", f"GPU-{n}") for n in range(8)]
    frame = frame_of("gpu", [(gpu, {"sm_clock_megahertz": 1500.0}) for gpu in gpus], BEGIN_NS, 0)
    for number in range(200):
        own = gpus[number % 2 * 4 :][:4]  # one half of the node after the other
        facts: dict[str, Value] = {"job": f"j{number}", "gpus": " ".join(gpu.id for gpu in own)}
        peers.jobs.take([Event(BEGIN_NS, 0, node, "job_started", facts)])
        columns.show(frame)
        peers.look(frame)
        assert peers.size(0) == 4
        assert peers.changed.tolist() == [number > 0 and gpu in own for gpu in gpus]
    assert len(peers._number_of) <= 2 * len(gpus) + 1


def in_plain_words(
    job: list[int], alike: list[int], host: list[int]
) -> tuple[list[frozenset[int]], list[int]]:
    """The rows of each group and how many must work, by loops."""
    members: dict[tuple[int, int], dict[int, list[int]]] = {}
    for row, (j, a, h) in enumerate(zip(job, alike, host, strict=True)):
        if j >= 0:
            members.setdefault((j, a), {}).setdefault(h, []).append(row)
    parts = []
    for hosts in members.values():
        parts += [(rows, MIN_PEERS) for rows in hosts.values() if len(rows) >= MIN_PEERS]
        few = [row for rows in hosts.values() if len(rows) < MIN_PEERS for row in rows]
        parts += [(sorted(few), MIN_IN_JOB)] if len(few) >= MIN_IN_JOB else []
    parts.sort(key=lambda part: part[0][0])
    return [frozenset(rows) for rows, _ in parts], [least for _, least in parts]


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_those_that_the_rule_says(seed: int) -> None:
    """GPUs of any hosts, jobs and settings, in any order."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 200))
    job, alike, host = (rng.integers(low, rng.integers(1, 12), rows) for low in (-1, 0, 0))
    group, least = grouped(job, alike, host)
    wanted, needed = in_plain_words(job.tolist(), alike.tolist(), host.tolist())
    found = [frozenset(np.flatnonzero(group == number).tolist()) for number in range(len(least))]
    assert (found, least.tolist()) == (wanted, needed)
    assert set(group[group >= 0].tolist()) == set(range(len(wanted)))


def test_jobs_of_other_hosts_are_looked_up_only_when_they_change() -> None:
    """What is remembered between frames gives the same groups as looking at everything again."""
    rng = np.random.default_rng(1)
    gpus = [Device(f"n{n}", "gpu", f"n{n}/{g}") for n in range(5) for g in range(8)]
    kept = Peers(Columns(**Peers.fills()))
    every: list[Event] = []
    for second in range(60):
        host = f"n{rng.integers(5)}"
        own = rng.permutation([gpu.id for gpu in gpus if gpu.host == host])[: rng.integers(9)]
        facts: dict[str, Value] = {"job": f"j{rng.integers(3)}", "gpus": " ".join(own.tolist())}
        at_ns = BEGIN_NS + second * SECOND_NS
        every.append(Event(at_ns, 0, Device(host, "node", host), "job_started", facts))
        values = {"power_limit_enforced_milliwatts": float(rng.choice([5e5, 7e5]))}
        frame = frame_of("gpu", [(gpu, values) for gpu in gpus], at_ns, at_ns)
        fresh = Peers(Columns(**Peers.fills()))
        kept.jobs.take(every[-1:])
        fresh.jobs.take(every)
        for peers in (kept, fresh):
            peers._columns.show(frame)
            peers.look(frame)
        assert kept.group.tolist() == fresh.group.tolist()
