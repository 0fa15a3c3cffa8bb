"""A few processes of each job that hold its GPUs: learned by the source of jobs, used by those that
know a job by its control group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

MAX_PROCESSES = 4  # of a job: one is enough, and it may just have ended


class JobProcesses:
    """By job. Any thread may ask.

    >>> running = JobProcesses()
    >>> running.learn([("71", 12), ("71", 13)])
    >>> running.look()
    mappingproxy({'71': (12, 13)})
    """

    def __init__(self) -> None:
        self._latest: Mapping[str, tuple[int, ...]] = MappingProxyType({})
        self._tenants: Mapping[str, str] = MappingProxyType({})

    def learn(
        self, pids: Iterable[tuple[str, int]], tenants: Mapping[str, str] | None = None
    ) -> None:
        """All that run now, in place of those before; ``tenants`` has whose share each job uses."""
        found: dict[str, tuple[int, ...]] = {}
        for job, pid in pids:
            known = found.get(job, ())
            if len(known) < MAX_PROCESSES and pid not in known:
                found[job] = (*known, pid)
        self._latest, self._tenants = MappingProxyType(found), dict(tenants or {})

    def look(self) -> Mapping[str, tuple[int, ...]]:
        """What runs now."""
        return self._latest

    def tenant(self, job: str) -> str:
        """Whose share a job uses, "" where that is not known."""
        return self._tenants.get(job, "")
