"""Which users have processes in which job, as the kernel has it: shared between the sources that
find processes and the one that reads logs, where a name of a job is anybody's claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from collector.sources.tenants.shares import fair

KEPT_S = 900.0  # a log is still written after the processes of its job have ended
MAX_KEPT = 2048  # jobs, in equal shares of the users


class JobUsers:
    """The users by job. A claim to a job that a control group has for another user counts for
    nothing.

    >>> users = JobUsers()
    >>> users.learn([("71", 7)], 0.0, sure=True)
    >>> users.learn([("71", 8), ("72", 9)], 0.0, sure=False)
    >>> [users.job_of("71", user, 0.0) for user in (7, 8)], users.job_of("", 9, 0.0)
    (['71', 'user8'], '72')
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # When a user last had a process in a job, monotonic s; by whether the job's control group
        # says so, or the process claims it.
        self._sure: dict[tuple[int, str], float] = {}
        self._claimed: dict[tuple[int, str], float] = {}
        # Of Slurm's array tasks by user and name (70_3): the job, and when it was last seen.
        self._arrays: dict[tuple[int, str], tuple[str, float]] = {}

    def learn(self, rows: Iterable[tuple[str, int]], now_s: float, *, sure: bool) -> None:
        """Jobs that run now, with their users; ``now_s`` is monotonic."""
        with self._lock:
            seen = self._sure if sure else self._claimed
            for job, user in rows:
                seen.pop((user, job), None)  # the last is the newest
                seen[user, job] = now_s
            if len(seen) > MAX_KEPT:
                live = [key for key, at_s in seen.items() if now_s - at_s < KEPT_S]
                kept, _ = fair(live[::-1], lambda key: key[0], MAX_KEPT // 2)
                for key in seen.keys() - set(kept):
                    del seen[key]

    def learn_arrays(self, rows: Iterable[tuple[str, str, int]], now_s: float) -> None:
        """Jobs that are tasks of an array, each with the name that it has as one, and its user."""
        with self._lock:
            for job, name, user in rows:
                self._arrays.pop((user, name), None)  # the last is the newest
                self._arrays[user, name] = job, now_s
            while len(self._arrays) > MAX_KEPT:
                del self._arrays[next(iter(self._arrays))]

    def job_of(self, name: str, user: int, now_s: float) -> str:
        """The job whose log it is that bears the name of a job, or none, and belongs to a user.

        Without a name it is the user's only job. A name that none of the user's jobs here has gives
        "user7", which no job has: it is another's, or of a job on other nodes, whose log is on a
        file system that all of them see. Logs of a pod are written by the kubelet, as root.
        """
        if name.startswith("pod") and user == 0:
            return name
        with self._lock:
            job, at_s = self._arrays.get((user, name), (name, now_s))
            name = job if now_s - at_s < KEPT_S else name
            theirs = {job for (_, job), at_s in self._sure.items() if now_s - at_s < KEPT_S}
            mine = {
                job
                for seen in (self._sure, self._claimed)
                for (whose, job), at_s in seen.items()
                if whose == user
                and now_s - at_s < KEPT_S
                and (seen is self._sure or job not in theirs)
            }
        if name in mine:
            return name
        return mine.pop() if len(mine) == 1 and not name else f"user{user}"
