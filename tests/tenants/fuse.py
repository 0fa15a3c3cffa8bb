"""File systems that never answer, over /dev/fuse, as any user may have one: of the one nobody reads
the requests, so that who waits can be killed; of the other a program takes them and is silent, so
that who waits cannot (fs/fuse/dev.c, request_wait_answer).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("fuse_server.py")


class DeadFileSystem:
    """Mounted on a folder until closed; who looks for anything on it waits until then."""

    def __init__(self, folder: Path, user: int) -> None:
        self._folder = folder
        self._fd = mounted(folder, user)

    def close(self) -> None:
        """End the connection: all who wait get an error."""
        unmount(self._folder)
        os.close(self._fd)


class SilentFileSystem:
    """Mounted on a folder until closed: files of any name are there and can be opened, and reads
    are taken and never answered. With ``silent_from`` "lookup" not even names are, with "close" all
    but that is.
    """

    def __init__(self, folder: Path, user: int, silent_from: str = "read") -> None:
        self._folder = folder
        fd = mounted(folder, user)
        command = [sys.executable, "-I", "-S", str(SCRIPT), str(fd), str(user), silent_from]
        self._server = subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE)
        os.close(fd)
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End the connection: all who wait get an error."""
        unmount(self._folder)
        self._server.kill()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()


def mounted(folder: Path, user: int) -> int:
    """The descriptor by which the file system on a folder is served."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id={user},group_id={user},allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.mount(b"dead", bytes(folder), b"fuse", 0, options.encode())
    if done != 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, os.strerror(number))
    return fd


def unmount(folder: Path) -> None:
    """Take it away from the folder, even while it is used."""
    ctypes.CDLL(None).umount2(bytes(folder), 2)  # MNT_DETACH of umount(2)
