"""Runs as the job's own user: writes the file in the job's own view of its folders, by rename,
sends the signal, and posts to its port; one of them that fails costs no other.
``main(user, group, pid, signal, port, file, text)``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from collector.hint.post import post
from collector.hint.subscription import environment_of, handles, token_of
from collector.sources.nccl.discovery import procfs
from collector.sources.untrusted import folder_descriptor


def main(argv: Sequence[str]) -> None:
    """Exit code 1 with the reasons on standard error."""
    user, group, pid, number, port = map(int, argv[:5])
    file, text = argv[5:7]
    proc = Path(f"/proc/{pid}")

    def notify(process: int) -> None:
        if number and handles(procfs.read(proc / "status"), number):
            signal.pidfd_send_signal(process, number)

    def tell() -> None:
        if port and is_here(pid):
            post(port, token_of(environment_of(proc)), text)

    try:
        become(user, group)
        process = os.pidfd_open(pid)  # from here on it is this process, or none
    except OSError as error:
        sys.exit(str(error))
    acts = (
        lambda: write(proc / "root", file, text) if file else None,
        lambda: notify(process),
        tell,
    )
    if failed := [why for act in acts if (why := _failure(act))]:
        sys.exit("; ".join(failed))


def _failure(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return str(error) or type(error).__name__
    return ""


def become(user: int, group: int) -> None:
    """Give up every right but the job's, for good: before anything of the job is touched."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if os.geteuid() != user or 0 in os.getresuid():
        raise PermissionError(f"cannot become user {user}")


def is_here(pid: int) -> bool:
    """Whether a process shares this network: the port of another one is not on our loopback."""
    ours, its = (Path(f"/proc/{who}/ns/net").stat().st_ino for who in ("self", pid))
    return ours == its


def write(root: Path, file: str, text: str) -> None:
    """Replace a file below ``root`` by one of this user. OSError where a part of the path is a
    link, or the folder is another user's.
    """
    path = PurePosixPath(file)
    folder = folder_descriptor(str(path.parent), root=root)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError(f"{path.parent}: another user's folder")
        scratch = f".{path.name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(scratch, flags, 0o600, dir_fd=folder), "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.rename(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
