"""A file system that never answers: mounted over /dev/fuse, whose requests nobody reads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


class DeadFileSystem:
    """Mounted on a folder until closed; who looks for anything on it waits until then."""

    def __init__(self, folder: Path, user: int) -> None:
        self._folder = folder
        self._fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._fd},rootmode=40000,user_id={user},group_id={user},allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.mount(b"dead", bytes(folder), b"fuse", 0, options.encode())
        if done != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        """End the connection: all who wait get an error."""
        ctypes.CDLL(None).umount2(bytes(self._folder), 2)  # MNT_DETACH of umount(2)
        os.close(self._fd)
