"""Which files are followed: those that the configured patterns name, the ones written last first,
and no more than some hundred.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.sources.tenants.shares import fair

MAX_FILES = 256  # followed at once: a descriptor and a line of at most 64 kB each
MAX_SEEN = 20_000  # names that a pattern may give
STALE_S = 86_400.0  # a log that nobody wrote to for a day has nothing to say

_MAGIC = re.compile(r"[*?\[]")
_POD = re.compile(r"_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/")
_SLURM = re.compile(r"(?:^|/)slurm-(\d{1,12})(?:_\d{1,9})?[.\-][^/]*$")


class LiveFile(NamedTuple):
    """A file, and the user whose it is."""

    path: str
    user: int


def live_files(
    patterns: Sequence[str],
    now_s: float,
    mark: Callable[[str, str], None] = lambda subject, tenant: None,  # noqa: ARG005
) -> list[LiveFile]:
    """Regular files that match and were written within a day of ``now_s`` (unix), the newest first,
    at most ``MAX_FILES``, in fair shares of their users. ``mark`` is called before each pattern.
    """
    found: dict[str, tuple[float, int]] = {}
    for pattern in patterns:
        mark(pattern, "")
        for path in _limited(glob.iglob(pattern)):  # noqa: PTH207 - as text: thousands of names
            try:
                status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - likewise
            except OSError:
                continue
            if now_s - status.st_mtime < STALE_S:
                found[path] = status.st_mtime, status.st_uid
    newest = sorted(found, key=lambda path: -found[path][0])
    files = [LiveFile(path, found[path][1]) for path in newest]
    return fair(files, lambda file: file.user, MAX_FILES)[0]


def _limited(names: Iterator[str]) -> Iterator[str]:
    for _, name in zip(range(MAX_SEEN), names, strict=False):
        yield name


def root_of(path: str, patterns: Sequence[str]) -> Path:
    """The folder that the configuration named for a path, links resolved:
    below it no link is followed.

    >>> root_of("/var/log/pods/x/y/0.log", ["/var/log/pods/*/*/*.log"]).name
    'pods'
    """
    for pattern in patterns:
        before = _MAGIC.split(pattern)[0]
        folder = before.rpartition("/")[0] or "/"
        if path.startswith(folder.rstrip("/") + "/"):
            return Path(folder)
    return Path(path).parent


def job_of(path: str) -> str:
    """The job whose log it is, as discovery names it: Kubernetes' pod, Slurm's job; empty
    where the path does not say.

    >>> job_of("/var/log/pods/ml_trainer-0_0a1b2c3d-0000-1111-2222-333344445555/main/0.log")
    'pod0a1b2c3d-0000-1111-2222-333344445555'
    >>> job_of("/home/x/slurm-4711.out"), job_of("/scratch/nccl/n1.77.log")
    ('4711', '')
    """
    if match := _POD.search(path):
        return f"pod{match[1]}"
    match = _SLURM.search(path)
    return match[1] if match else ""
