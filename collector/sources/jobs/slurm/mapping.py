"""The folder in which prologs and epilogs write which job has which GPU, in either of two forms.

dcgm-exporter's (its README, "HPC job mapping"): a file per GPU (``3``) or MIG instance (``3.1``),
by index, with one job a line; a blank line is no job here. That of deploy/slurm/tocsin-prolog: a
file per job (``job-71``) with one GPU a line, as Slurm names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.gpus import GpuKey, Gpus
from collector.sources.untrusted import read_regular
from pipeline.observation import Unread

MAX_ENTRIES = 10_000  # looked at in a folder, whatever their names
MAX_FILES, MAX_BYTES, MAX_LINES = 256, 1 << 16, 64
_GPU_FILE = re.compile(r"(?P<gpu>\d{1,4})(?:\.(?P<instance>\d{1,4}))?")
_JOB_FILE = re.compile(r"job-(?P<job>\d{1,12})")


class JobMapping:
    """The folder. What could not be read in the last look is in ``unread``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.unread: list[Unread] = []

    def holdings(self, gpus: Gpus) -> Iterator[Allocation]:
        """Jobs by GPU.

        OSError where the folder cannot be listed, FileNotFoundError where there is none.
        """
        self.unread = []
        for name in self._names(gpus):
            if match := _GPU_FILE.fullmatch(name):
                if uuid := gpus.numbered(match["gpu"]):
                    for job in self._lines(name):
                        yield _holding(GpuKey(uuid, match["instance"] or ""), job)
            elif match := _JOB_FILE.fullmatch(name):
                for gpu in self._lines(name):
                    if place := _place(gpu, gpus):
                        yield _holding(place, match["job"])
                    else:
                        self.unread.append(Unread("unknown GPU", name, "mapping"))

    def _names(self, gpus: Gpus) -> list[str]:
        """Files of jobs and of GPUs that are here, in order; others take no place of theirs."""
        names: list[str] = []
        with os.scandir(self._folder) as entries:
            for looked_at, entry in enumerate(entries):
                if looked_at == MAX_ENTRIES:
                    self.unread.append(Unread("too many entries", field="mapping"))
                    break
                if _counts(entry.name, gpus):
                    names.append(entry.name)
        if len(names) > MAX_FILES:
            self.unread.append(Unread("too many files", field="mapping"))
        return sorted(names)[:MAX_FILES]

    def _lines(self, name: str) -> list[str]:
        try:
            text = read_regular(name, root=self._folder, max_bytes=MAX_BYTES).decode(
                errors="replace"
            )
        except FileNotFoundError:  # an epilog was faster
            return []
        except OSError as error:
            self.unread.append(Unread(type(error).__name__, name, "mapping"))
            return []
        lines = (line.strip() for line in text.splitlines())
        found = list(dict.fromkeys(line for line in lines if line))
        if len(found) > MAX_LINES:
            self.unread.append(Unread("too many lines", name, "mapping"))
        return found[:MAX_LINES]


def _counts(name: str, gpus: Gpus) -> bool:
    """Whether a file is one of a job, or of a GPU that is here."""
    match = _GPU_FILE.fullmatch(name)
    return bool(gpus.numbered(match["gpu"]) if match else _JOB_FILE.fullmatch(name))


def _place(gpu: str, gpus: Gpus) -> GpuKey | None:
    """The device of a line: a UUID of a GPU or MIG instance, or a number in Slurm's list."""
    if not gpu.isdecimal():
        return gpus.named(gpu)
    uuid = gpus.listed(gpu)
    return GpuKey(uuid) if uuid else None


def _holding(place: GpuKey, job: str) -> Allocation:
    return Allocation(place.uuid, place.instance, "slurm", "mapping", {"job": job, "mapped": job})
