"""Runs as the job's own user: writes the file in the job's own view of its folders, by rename, and
sends the signal. ``main(user, group, pid, signal, file, text)``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from collector.hint.subscription import handles
from collector.sources.nccl.discovery import procfs
from collector.sources.untrusted import folder_descriptor


def main(argv: Sequence[str]) -> None:
    """Exit code 1 with the reason on standard error."""
    user, group, pid, number = map(int, argv[:4])
    file, text = argv[4:6]
    try:
        become(user, group)
        process = os.pidfd_open(pid)  # from here on it is this process, or none
        if file:
            write(Path(f"/proc/{pid}/root"), file, text)
        if number and handles(procfs.read(Path(f"/proc/{pid}/status")), number):
            signal.pidfd_send_signal(process, number)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def become(user: int, group: int) -> None:
    """Give up every right but the job's, for good: before anything of the job is touched."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if os.geteuid() != user or 0 in os.getresuid():
        raise PermissionError(f"cannot become user {user}")


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
