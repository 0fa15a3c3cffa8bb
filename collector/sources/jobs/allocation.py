"""Allocation: a job or pod has a GPU; several allocations of the same job and GPU become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal

from collector.foreign_text import printable
from pipeline.catalog.device_job import IDENTITY, MERGED

MAX_NAME = 253  # of a name: what Kubernetes allows one (RFC 1123 subdomain)

Scheduler = Literal["kubernetes", "slurm"]
# From weakest to strongest: the environment of the job, the GPUs of its processes, what the prolog
# wrote as root, the answer of the kubelet.
EVIDENCE = ("environment", "process", "mapping", "kubelet")


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job or pod that has a device.

    ``facts`` are names of the catalogue's facts of ``device_job``; ``pids`` hold the device.

    ``hosts`` is how many nodes the job has, 0 where that is not known; ``owner`` the id of the user
    that it runs as, as the kernel has it, -1 where that is not known.
    """

    uuid: str
    instance: str
    scheduler: Scheduler
    evidence: str
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pids: frozenset[int] = frozenset()
    hosts: int = 0
    owner: int = -1

    @property
    def tenant(self) -> str:
        """Whose share of a limit it uses: a user's, or a namespace's."""
        if self.scheduler == "kubernetes":
            return self.facts.get("namespace", "")
        # what the prolog wrote of a job without processes has no user
        return f"user{self.owner}" if self.owner >= 0 else f"job {self.facts.get('job', '')}"

    @property
    def identity(self) -> tuple[str, ...]:
        """Key that is unique on a page."""
        return (
            self.uuid,
            self.instance,
            self.scheduler,
            *(self.facts.get(name, "") for name in IDENTITY),
        )


def clean(facts: Mapping[str, str], hidden: Iterable[str]) -> dict[str, str]:
    """Facts as they may be shown: bounded, printable, without what is hidden; absent, not
    empty, where nothing is known.
    """
    left_out = frozenset(hidden)
    shown = (
        (name, printable(value, MAX_NAME).strip())
        for name, value in facts.items()
        if name not in left_out
    )
    return {name: value for name, value in shown if value}


def merged(holdings: Iterable[Allocation]) -> list[Allocation]:
    """One per device and job: its facts together, the strongest evidence, all pids.

    In a stable order.
    """
    found: dict[tuple[str, ...], Allocation] = {}
    for one in holdings:
        before = found.get(one.identity)
        found[one.identity] = one if before is None else _joined(before, one)
    return [found[key] for key in sorted(found)]


def _joined(a: Allocation, b: Allocation) -> Allocation:
    weak, strong = sorted((a, b), key=lambda h: EVIDENCE.index(h.evidence))
    facts = dict(weak.facts) | dict(strong.facts)
    for name in MERGED:
        values = {v for h in (a, b) for v in h.facts.get(name, "").split(",") if v}
        if values:
            facts[name] = ",".join(sorted(values, key=lambda v: (len(v), v)))
    return Allocation(
        a.uuid,
        a.instance,
        a.scheduler,
        strong.evidence,
        facts,
        a.pids | b.pids,
        a.hosts or b.hosts,
        strong.owner if strong.owner >= 0 else weak.owner,
    )


def identity_of(holding: Allocation) -> str:
    """Id of its device: the GPU, the instance, the scheduler, and its job or a digest of its names.

    >>> identity_of(Allocation("GPU-a", "", "slurm", "process", {"job": "71"}))
    'GPU-a/slurm/71'
    """
    job = holding.facts.get("job", "")
    if holding.scheduler != "slurm" or not job.isascii() or not job.replace("_", "").isalnum():
        job = blake2b(
            "\0".join(holding.identity[3:]).encode("utf-8", "replace"), digest_size=6
        ).hexdigest()
    return "/".join(
        part for part in (holding.uuid, holding.instance, holding.scheduler, job) if part
    )
