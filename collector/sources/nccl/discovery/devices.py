"""Which device files a process has open, by their numbers: a path is only text.

A stat(2) of a descriptor may wait for a file system that hangs: the kernel asks a file server
whether a file is still the same, even where only cached attributes are wanted. So only files whose
name is a device's are asked about, and only what the kernel has cached. A name alone counts for
nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind

NVIDIA_MAJOR = 195  # nv-chardev-numbers.h of NVIDIA's kernel modules; the minor is the GPU's
MAX_DESCRIPTORS = 65_536
NAME = "/dev/nvidia"
_AT_FDCWD, _DONT_SYNC, _TYPE = -100, 0x4800, 1  # fcntl.h: AT_STATX_DONT_SYNC, AT_NO_AUTOMOUNT
_CHARACTER, _FORMAT = 0o020000, 0o170000
# struct statx of linux/stat.h: 256 bytes, stx_mode at 28, stx_rdev_major and _minor at 128.
_SIZE, _MODE, _RDEV = 256, 28, 128


def opened_minors(process: Path, major: int = NVIDIA_MAJOR) -> frozenset[int]:
    """Minor numbers of the device files of a major that a process has open; ``process`` is its
    /proc/PID. OSError where it may not be inspected.
    """
    found = set()
    try:
        listing = os.scandir(process / "fd")
    except PermissionError:
        return client.numbers(Kind.DEVICES, process, str(major))
    with listing as descriptors:
        for _, entry in zip(range(MAX_DESCRIPTORS), descriptors, strict=False):
            if not _is_named(entry):
                continue
            number = _device_of(entry.path)
            if number is not None and number[0] == major and _is_open(entry):
                found.add(number[1])
    return frozenset(found)


def every_minor(_: Path) -> Collection[int]:
    """For saved and simulated trees, which have no device files: what their maps name counts."""
    return range(256)


def is_saved(proc: Path) -> bool:
    """Whether a tree was saved or made: the kernel's own has ``self``."""
    return not os.path.lexists(proc / "self")


def _is_named(descriptor: os.DirEntry[str]) -> bool:
    """Whether the name of what is open is a device's; reading it asks no file system."""
    try:
        return NAME in os.readlink(descriptor.path)  # noqa: PTH115 - of many
    except OSError:
        return False  # closed meanwhile


def _is_open(descriptor: os.DirEntry[str]) -> bool:
    """Whether it may read or write. One of O_PATH only names the file: everybody has it who sees
    the file, whatever its mode and the control group's list of devices say.
    """
    try:
        return bool(descriptor.stat(follow_symlinks=False).st_mode & 0o600)
    except OSError:
        return False  # closed meanwhile


def _device_of(path: str) -> tuple[int, int] | None:
    """Major and minor number of a character device; None of anything else, or what was closed."""
    buffer = ctypes.create_string_buffer(_SIZE)
    if _statx()(_AT_FDCWD, path.encode(), _DONT_SYNC, _TYPE, buffer) != 0:
        return None
    (mode,) = struct.unpack_from("=H", buffer, _MODE)
    if mode & _FORMAT != _CHARACTER:
        return None
    major, minor = struct.unpack_from("=II", buffer, _RDEV)
    return int(major), int(minor)


def _statx() -> ctypes._NamedFuncPointer:
    return ctypes.CDLL(None).statx
