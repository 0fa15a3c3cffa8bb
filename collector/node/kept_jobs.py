"""The jobs that had GPUs at the last read, kept over restarts: one may end while the agent is off,
or with the boot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

log = logging.getLogger("tocsin.jobs")


class KeptJob(NamedTuple):
    """A job: its scheduler, and the UUIDs of the GPUs that were reported as its own."""

    scheduler: str
    gpus: tuple[str, ...]


class KeptJobs:
    """By name. ``save`` is called with the document after each change; give that document back
    after a restart.

    >>> documents = []
    >>> KeptJobs(documents.append, {}, "boot-1").keep({"71": KeptJob("slurm", ("GPU-0",))})
    >>> again = KeptJobs(documents.append, documents[-1], "boot-2")
    >>> again.jobs, again.rebooted
    ({'71': KeptJob(scheduler='slurm', gpus=('GPU-0',))}, True)
    """

    def __init__(
        self,
        save: Callable[[dict[str, Any]], object] = lambda _document: None,
        document: Mapping[str, Any] | None = None,
        boot_id: str = "",
    ) -> None:
        self._save, self._boot_id = save, boot_id
        self.jobs: Mapping[str, KeptJob] = {}
        self.rebooted = False  # since the jobs were kept: none of them runs any more
        try:
            self._restore(document or {})
        except (AttributeError, TypeError, ValueError) as error:
            log.warning("file of jobs is invalid, starting without it: %s", error)

    def keep(self, jobs: Mapping[str, KeptJob]) -> None:
        """All that have GPUs now, in place of those before."""
        if jobs == self.jobs and not self.rebooted:
            return
        self.jobs, self.rebooted = dict(jobs), False
        rows = [[name, one.scheduler, list(one.gpus)] for name, one in jobs.items()]
        self._save({"boot_id": self._boot_id, "jobs": rows})

    def _restore(self, document: Mapping[str, Any]) -> None:
        self.jobs = {
            str(name): KeptJob(str(scheduler), tuple(map(str, gpus)))
            for name, scheduler, gpus in document.get("jobs", ())
        }
        self.rebooted = bool(self.jobs) and document.get("boot_id") != self._boot_id
