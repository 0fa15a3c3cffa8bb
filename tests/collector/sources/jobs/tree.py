"""A tree below /proc with processes of Slurm's jobs, as the kernel shows them."""

from __future__ import annotations

import shutil
from pathlib import Path

GROUP = "/system.slice/slurmstepd.scope/job_{job}/step_{step}/user/task_0"


class Proc:
    """Processes that come and go.

    A test that wants a file unreadable removes it: /proc answers a stranger with an error too.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(
        self,
        pid: int,
        cgroup: str = "/system.slice/cron.service",
        *,
        parent: int = 1,
        comm: str = "python3",
        title: str = "",
        uids: str = "1000\t1000",
        environ: bytes = b"",
        started: int | None = None,
    ) -> int:
        """One process; ``started`` in clock ticks tells a pid that was used
        again from the one before.
        """
        folder = self.root / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = " ".join(
            ["S", str(parent), *("0" for _ in range(17)), str(pid if started is None else started)]
        )
        for name, text in {
            "stat": f"{pid} ({comm}) {fields}\n".encode(),
            "cgroup": f"0::{cgroup}\n".encode(),
            "status": f"Name:\t{comm}\nUid:\t{uids}\t0\t0\n".encode(),
            "cmdline": title.encode() + b"\0",
            "environ": environ,
        }.items():
            # a file that is cut and written again would be flushed to disk (ext4's auto_da_alloc)
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_bytes(text)
        return pid

    def daemon(
        self, pid: int, title: str, cgroup: str = "/system.slice/slurmd.service", uids: str = "0\t0"
    ) -> int:
        """A slurmstepd."""
        return self.put(pid, cgroup, comm="slurmstepd", title=f"slurmstepd: [{title}]", uids=uids)

    def task(
        self,
        pid: int,
        job: str,
        step: str = "0",
        *,
        parent: int = 1,
        uids: str = "1000\t1000",
        started: int | None = None,
        **environ: str,
    ) -> int:
        """A process in a job's control group, with variables."""
        variables = b"\0".join(f"{name}={value}".encode() for name, value in environ.items())
        return self.put(
            pid,
            GROUP.format(job=job, step=step),
            parent=parent,
            uids=uids,
            environ=variables,
            started=started,
        )

    def end(self, pid: int) -> None:
        """It is gone."""
        shutil.rmtree(self.root / str(pid))
