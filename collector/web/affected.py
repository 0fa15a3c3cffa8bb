"""Which GPUs and jobs of this node an incident affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.documents import printable
from pipeline.exposition.stalls import JOB
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.gpu_parts import gpu_of
from pipeline.job_names import base

Row = Mapping[str, Any]  # of a GPU, with the jobs and pods that hold it
OF_NODE = frozenset({"node", "ib_port", "nvswitch", "switch", "rack"})  # all jobs here need them


class Affected(NamedTuple):
    """Ids of GPUs in the order of their index, and names of jobs."""

    gpus: tuple[str, ...]
    jobs: tuple[str, ...]


def affected(
    incident: Incident, members: Iterable[Finding], gpus: Sequence[Row], jobs: Sequence[str]
) -> Affected:
    """Of the root and of the devices of findings that are more than info: the GPUs themselves, all
    GPUs of a node or of a job, and the jobs that hold them; every job here where a node, a
    port or a switch is concerned. ``jobs`` are the ids of the NCCL jobs of the node.
    """
    devices = [incident.root, *(one.device for one in members if one.severity != "record")]
    own = {gpu for one in devices if (gpu := gpu_of(one))}
    names = (*map(_job, devices), *incident.jobs)
    own_jobs = dict.fromkeys(printable(name) for name in map(_job, devices) if name)
    named = dict.fromkeys(printable(name) for name in names if name)
    whole = any(one.kind == "node" and one.id == one.host == incident.root.host for one in devices)
    broken = [row for row in gpus if whole or row["id"] in own or _held_by(row, own_jobs)]
    holders = gpus if any(one.kind in OF_NODE for one in devices) else broken
    held = dict.fromkeys(holder(by) for row in holders for by in row["held_by"])
    more = (_described(name, gpus) for name in (*named, *(jobs if holders is gpus else ())))
    return Affected(tuple(row["id"] for row in broken), tuple(dict.fromkeys((*held, *more))))


def holder(held: Mapping[str, str]) -> str:
    """The job or pod that holds a GPU, in its scheduler's terms.

    >>> holder({"scheduler": "slurm", "job": "71", "user": "ada", "job_name": "train"})
    'job 71 (ada, train)'
    >>> holder({"scheduler": "kubernetes", "namespace": "ml", "pod": "train-0", "container": "m"})
    'pod ml/train-0'
    """
    what = (
        f"job {held['job']}"
        if "job" in held
        else f"pod {held.get('namespace', '')}/{held.get('pod', '')}"
    )
    more = ", ".join(held[name] for name in ("user", "job_name") if name in held)
    return f"{what} ({more})" if more else what


def _job(device: Device) -> str:
    return device.id if device.kind == "job" else device.attributes.get(JOB, "")


def _held_by(row: Row, jobs: Iterable[str]) -> bool:
    return any(_same(str(by.get("job", "")), name) for by in row["held_by"] for name in jobs)


def _described(job: str, gpus: Iterable[Row]) -> str:
    """A job by its scheduler's word, where it still holds GPUs here, or by its id."""
    held = (by for row in gpus for by in row["held_by"] if _same(str(by.get("job", "")), job))
    return next(map(holder, held), f"job {job}")


def _same(one: str, other: str) -> bool:
    """One job by either name: detectors leave out Slurm's step."""
    return bool(one) and base(one) == base(other)
