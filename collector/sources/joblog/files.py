"""Which files are followed: those that the configured patterns name, the ones written last first,
and no more than some hundred.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.sources.joblog.walk import walk
from collector.sources.nccl.discovery.mounts import served_by_users
from collector.sources.tenants.desk import Mark
from collector.sources.tenants.shares import fair
from collector.sources.untrusted import folder_and_name

MAX_FILES = 256  # followed at once: a descriptor and a line of at most 64 kB each
MAX_NAMES = 20_000  # that a pattern may give in one look; the next one goes on with the others
MAX_KNOWN = 2048  # files that are remembered between looks
MAX_LEFT = 4096  # files that are not followed and may be later
STALE_S = 86_400.0  # a log that nobody wrote to for a day has nothing to say

_MAGIC = re.compile(r"[*?\[]")
_POD = re.compile(r"_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/")
_NAMESPACE = re.compile(rf"/([a-z0-9-]{{1,63}})_[^/_]{{1,253}}{_POD.pattern}")
_SLURM = re.compile(r"(?:^|/)slurm-(\d{1,12}(?:_\d{1,9})?)[.\-][^/]*$")


class LiveFile(NamedTuple):
    """A file, and the user whose it is."""

    path: str
    user: int


class Left(NamedTuple):
    """A file that is not followed: what is before ``offset`` is of before. ``inode`` is -1 where it
    is not known.
    """

    inode: int
    offset: int


class LiveFiles:
    """The files that match ``patterns``, in equal shares of their tenants: one who has a million
    hides no other's. ``proc`` is this process's /proc. ``left`` are files that are not followed now
    and were there before.
    """

    def __init__(self, patterns: Sequence[str], mark: Mark, proc: Path = Path("/proc")) -> None:
        self._patterns, self._mark, self._self = tuple(patterns), mark, proc / "self"
        self._walks: dict[str, Iterator[str]] = {}
        self._closed: set[str] = set()  # what walks do not touch, also those that began before
        self._known: dict[str, tuple[float, int]] = {}  # with time and user
        self.cut: Counter[int] = Counter()  # files that match and have no place, by user
        self.left: dict[str, Left] = {}
        self.gone: set[str] = set()  # names that the last look no longer found

    def look(
        self, now_s: float, skip: Collection[str] = (), *, at_start: bool = False
    ) -> list[LiveFile]:
        """Regular files that were written within a day of ``now_s`` (unix), the newest first, at
        most ``MAX_FILES``. Patterns, folders and files in ``skip`` are left alone. The others are
        ``left``: those that are silent, and ``at_start`` all that are there.
        """
        self._closed.clear()
        self._closed.update(skip, served_by_users(self._self))
        found: dict[str, tuple[float, int]] = {}
        self.cut, self.gone = Counter(), set()
        with _Statuses(self._patterns) as statuses:
            for path in self._names(skip):
                status = statuses.of(path)
                if status is None:
                    self.gone.add(path)
                    self.left.pop(path, None)
                    continue
                live = now_s - status.st_mtime < STALE_S
                self._note(path, status, left=at_start or not live)
                if live:
                    found[path] = status.st_mtime, status.st_uid
                    if len(found) >= 2 * MAX_KNOWN:
                        found = self._shared(found, MAX_KNOWN)
        self._known = self._shared(found, MAX_KNOWN)
        return [
            LiveFile(path, user) for path, (_, user) in self._shared(self._known, MAX_FILES).items()
        ]

    def leave(self, path: str, left: Left) -> None:
        """A file is not followed any more, or not yet."""
        self.left.pop(path, None)  # the last is the newest
        self.left[path] = left
        while len(self.left) > MAX_LEFT:
            del self.left[next(iter(self.left))]

    def _note(self, path: str, status: os.stat_result, *, left: bool) -> None:
        if left and stat.S_ISREG(status.st_mode):
            self.leave(path, Left(status.st_ino, status.st_size))
        elif (before := self.left.get(path)) and before.inode not in (-1, status.st_ino):
            del self.left[path]  # another file by now

    def _shared(
        self, found: dict[str, tuple[float, int]], places: int
    ) -> dict[str, tuple[float, int]]:
        """The newest files of each tenant, with time and user, in equal shares; the newest
        first.
        """
        newest = sorted(found.items(), key=lambda item: -item[1][0])
        kept, cut = fair(newest, lambda item: tenant_of(item[0], item[1][1]), places)
        self.cut.update(user for _, (_, user) in cut)
        return dict(kept)

    def _names(self, skip: Collection[str]) -> Iterator[str]:
        """The files that are known, then others, some of each pattern."""
        yield from (path for path in sorted(self._known) if path not in self._closed)
        for pattern in self._patterns:
            if pattern not in skip:
                yield from self._some(pattern)

    def _some(self, pattern: str) -> Iterator[str]:
        """The next names of a pattern, at most ``MAX_NAMES``; at its end it begins again."""
        names = self._walks.pop(pattern, None)
        if names is None:
            names = walk(pattern, self._closed, lambda folder: self._mark(folder, ""))
        for _ in range(MAX_NAMES):
            name = next(names, None)
            if name is None:
                return
            if name:
                yield name
        self._walks[pattern] = names


class _Statuses:
    """Looks at files through their folder, which is held from one to the next: a folder that became
    a link to another user's has no files. Use as a context.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._folder, self._fd = "", -1

    def __enter__(self) -> _Statuses:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def of(self, path: str) -> os.stat_result | None:
        """Of the file itself, where it is a link of the link; None where there is none."""
        folder, _, name = path.rpartition("/")
        try:
            if folder != self._folder or self._fd < 0:
                self._enter(folder, path)
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return None

    def _enter(self, folder: str, path: str) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._fd, _ = folder_and_name(*below_root(path, self._patterns))
        self._folder = folder


def below_root(path: str, patterns: Sequence[str]) -> tuple[str, Path]:
    """The rest of a path, and the folder of the configuration that it is below."""
    root = root_of(path, patterns)
    return path[len(str(root).rstrip("/")) + 1 :], root


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
    where the path does not say. A task of an array is called by both of its numbers, as sbatch does
    by default: each has an id of its own, and one of them that of the array.

    >>> job_of("/var/log/pods/ml_trainer-0_0a1b2c3d-0000-1111-2222-333344445555/main/0.log")
    'pod0a1b2c3d-0000-1111-2222-333344445555'
    >>> job_of("/home/x/slurm-4711.out"), job_of("slurm-4711_3.out"), job_of("/nccl/n1.77.log")
    ('4711', '4711_3', '')
    """
    if match := _POD.search(path):
        return f"pod{match[1]}"
    match = _SLURM.search(path)
    return match[1] if match else ""


def tenant_of(path: str, user: int) -> str:
    """Whose share a log uses: its user's. Logs of pods are all root's, in folders that the kubelet
    names: of those it is the namespace.

    >>> pod = "/var/log/pods/ml_trainer-0_0a1b2c3d-0000-1111-2222-333344445555/main/0.log"
    >>> tenant_of(pod, 0), tenant_of(pod, 7), tenant_of("/home/x/slurm-4711.out", 7)
    ('namespace:ml', 'user7', 'user7')
    """
    match = _NAMESPACE.search(path) if user == 0 else None
    return f"namespace:{match[1]}" if match else f"user{user}"
