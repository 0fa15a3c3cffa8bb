"""GPUs of a job, of whose nodes each is read in its own second."""

from __future__ import annotations

import numpy as np

from detectors.kit.columns import Columns
from detectors.kit.peers import Peers
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
