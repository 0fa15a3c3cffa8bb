"""Joins what a source says of ranks with what the node knows of its own processes: rank in the
job, GPU, name of the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from collector.sources.nccl.discovery.found import Found
from pipeline.nccl.member import Member
from pipeline.nccl.report import Report


def joined(report: Report, job: str, host: str, processes: Iterable[Found]) -> Report:
    """The report with ``job``, and its members on this node with their rank in the
    job and their GPU's UUID.

    ``host`` is what the report calls this node; of others nothing is known here. A process of
    several GPUs has one rank in the job and several members: then only its rank is set.
    """
    here = {found.inner_pid: found for found in processes}

    def known(member: Member) -> Member:
        found = here.get(member.pid) if member.host == host else None
        if found is None:
            return member
        uuid = found.uuids[0] if len(found.uuids) == 1 else member.uuid
        rank = found.rank if found.rank >= 0 and member.world_rank < 0 else member.world_rank
        return replace(member, world_rank=rank, uuid=uuid)

    communicators = (replace(c, members=tuple(map(known, c.members))) for c in report.communicators)
    return replace(report, job=job, communicators=tuple(communicators))
