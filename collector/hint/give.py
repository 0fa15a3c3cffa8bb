"""Runs as the job's own user: writes the file in the job's own view of its folders, by rename,
sends the signal, and posts to its port on the loopback of its own network; one of them that fails
costs no other. ``main(user, group, pid, signal, port, file, text)``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from collector.hint.post import post
from collector.hint.subscription import NOBODY, environment_of, handles, is_of, token_of
from collector.sources.nccl.discovery import procfs
from collector.sources.untrusted import folder_descriptor

CLONE_NEWNET = 0x40000000  # sched.h


def main(argv: Sequence[str]) -> None:
    """A line on standard output for each channel once it is over: its name, and why it failed or
    "". Exit code 1 with the reason where nothing was tried.
    """
    user, group, pid, number, port = map(int, argv[:5])
    file, text = argv[5:7]
    proc = Path(f"/proc/{pid}")
    try:
        process = os.pidfd_open(pid)  # from here on it is this process, or none
        if not is_of(procfs.read(proc / "status"), user):
            raise ProcessLookupError(f"process {pid} is another one by now")
        # What only a privileged reader may see, where the job has a user namespace of its own.
        token = token_of(environment_of(proc)) if port else ""
        root = os.open(proc / "root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if file else -1
        signal.pidfd_send_signal(process, 0)  # it lived until all of that was read
        network = _entered(process, pid, user) if port else ""
        become(user, group)
    except OSError as error:
        sys.exit(str(error))

    def notify() -> None:
        if handles(procfs.read(proc / "status"), number):
            signal.pidfd_send_signal(process, number)

    def tell() -> None:
        if network:
            raise PermissionError(network)
        post(port, token, text)

    acts: Mapping[str, Callable[[], object]] = {
        **({"file": lambda: write(Path(f"/proc/self/fd/{root}"), file, text)} if file else {}),
        **({"signal": notify} if number else {}),
        **({"port": tell} if port else {}),
    }
    for channel, act in acts.items():
        sys.stdout.write(json.dumps([channel, _failure(act)]) + "\n")
        sys.stdout.flush()


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


def _entered(process: int, pid: int, user: int) -> str:
    """Go into the network of a process, for good: this one does nothing else. Why not, "" where it
    is there.

    By the descriptor of the process, which no other one can take over (setns(2), Linux 5.8). There
    loopback is the job's own, and what answers on it is what the job itself could ask.
    """
    ours, its = (Path(f"/proc/{who}/ns/net").stat().st_ino for who in ("self", pid))
    if ours == its:
        return "" if user != NOBODY else "root's process has no network of its own"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(process, CLONE_NEWNET) == 0:
        return ""
    return f"its network cannot be entered: {os.strerror(ctypes.get_errno())}"


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
