"""Jobs that come and go: each has a row of memory, which the next one takes."""

from __future__ import annotations

from detectors.hang.members import JobKey, Members
from detectors.hang.progress import Progress
from detectors.kit.columns import Columns
from pipeline.frame import Device
from pipeline.observation import Event, Observation

NODE, GPUS = Device("n1", "node", "n1"), tuple(Device("n1", "gpu", f"GPU-{n}") for n in range(2))


def job(kind: str, name: str) -> Event:
    """Begins or ends on both GPUs."""
    gpus = {"gpus": "GPU-0 GPU-1"} if kind == "job_started" else {}
    return Event(0, 0, NODE, kind, {"job": name, "hosts": 1, **gpus})


def test_a_job_that_is_over_leaves_its_row_to_the_next_one() -> None:
    """However many there were, there are as many rows as jobs at once; nothing is remembered of the
    one before.
    """
    columns = Columns(**Members.fills(), **Progress.fills(), worked_ns=0)
    members = Members(columns)
    columns.place(GPUS)
    for n in range(50):
        ended = (job("job_ended", str(n - 1)),) if n else ()
        events = (*ended, job("job_started", str(n)))
        members.take(Observation("jobs", "n1", "b", n, 0, 0, 0, events=events))
        gone = members.look()
        assert gone == ([JobKey("", str(n - 1))] if n else [])
        assert members.key(0) == JobKey("", str(n))
        assert members.of["worked_s"].tolist() == [0.0]
        assert members.group.tolist() == [0, 0]
        members.of["worked_s"][0] = 7.0
    assert len(members.of) == 1


def test_a_job_that_is_queued_again_under_its_name_has_a_row_of_its_own() -> None:
    """After other jobs, as Slurm does; and again after a restart of the agent."""
    columns = Columns(**Members.fills(), **Progress.fills(), worked_ns=0)
    members = Members(columns)
    columns.place(GPUS)

    def look(seq: int, gpus: dict[str, str]) -> list[int]:
        """Only these jobs are here: their GPUs, by name. The group of both GPUs."""
        over = [job("job_ended", name) for name in "abcd" if name not in gpus]
        begun = [
            Event(0, 0, NODE, "job_started", {"job": name, "hosts": 1, "gpus": held})
            for name, held in gpus.items()
        ]
        members.take(Observation("jobs", "n1", "b", seq, 0, 0, 0, events=(*over, *begun)))
        members.look()
        for row in set(members.group.tolist()) - {-1}:
            assert members.key(row).name in gpus
        return [int(row) for row in members.group]

    look(0, {"a": "GPU-0", "b": "GPU-1"})
    look(1, {})
    for seq, gpus in enumerate(
        ({"a": "GPU-0"}, {"a": "GPU-0", "c": "GPU-1"}, {}, {"d": "GPU-1", "b": "GPU-0"}), 2
    ):
        rows = look(seq, gpus)
        assert len({row for row in rows if row >= 0}) == len(gpus)
    members.prepare(members.state())()
    assert len({*look(7, {"c": "GPU-1", "b": "GPU-0"})}) == 2
    assert len(members.of) == 2
