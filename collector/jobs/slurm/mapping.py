"""dcgm-exporter's job mapping: a folder with a file per GPU (``3``) or MIG instance (``3.1``), one job a line, written by prolog and epilog.

Format: README of dcgm-exporter, "HPC job mapping". A blank line is no job here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from collector.jobs.gpus import Gpus
from collector.jobs.holding import Holding
from collector.sources.untrusted import read_regular
from pipeline.observation import Unread

MOST_FILES, MOST_BYTES, MOST_JOBS = 256, 1 << 16, 64
_FILE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")


class JobMapping:
    """The folder. What could not be read in the last look is in ``unread``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.unread: list[Unread] = []

    def holdings(self, gpus: Gpus) -> Iterator[Holding]:
        """Jobs by GPU. OSError where the folder cannot be listed, FileNotFoundError where there is none."""
        self.unread = []
        for name in self._names():
            match = _FILE.fullmatch(name)
            uuid = gpus.numbered(match[1]) if match else ""
            if match and uuid:
                for job in self._jobs(name):
                    yield Holding(uuid, match[2] or "", "slurm", "mapping", {"job": job, "mapped": job})

    def _names(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return sorted(entry.name for _, entry in zip(range(MOST_FILES), entries, strict=False))

    def _jobs(self, name: str) -> list[str]:
        try:
            text = read_regular(name, root=self._folder, most_bytes=MOST_BYTES).decode(errors="replace")
        except FileNotFoundError:  # an epilog was faster
            return []
        except OSError as error:
            self.unread.append(Unread(type(error).__name__, name, "mapping"))
            return []
        jobs = (line.strip() for line in text.splitlines())
        return list(dict.fromkeys(job for job in jobs if job))[:MOST_JOBS]
