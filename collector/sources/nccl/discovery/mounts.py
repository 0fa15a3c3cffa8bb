"""On which type of file system a path of a process lies, without touching the file system: one that
is dead, or that a job serves itself, never answers.
"""

from __future__ import annotations

import re
from pathlib import Path

from collector.sources.nccl.discovery import procfs

# Of disks and memory of this node; of any other the server may be dead.
LOCAL = frozenset(
    [
        "bcachefs",
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "overlay",
        "ramfs",
        "squashfs",
        "tmpfs",
        "xfs",
        "zfs",
    ]
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def is_local(process: Path, path: str) -> bool:
    """Whether a path, as a process sees it, is on a local file system; ``process`` is its
    /proc/PID. A saved tree has no mounts, and is local.
    """
    try:
        text = procfs.read(process / "mountinfo").decode(errors="surrogateescape")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return type_of(text, path) in LOCAL


def is_served_by_a_process(process: Path, path: str) -> bool:
    """Whether a path is on a file system that any user may serve (FUSE), and never answer."""
    try:
        text = procfs.read(process / "mountinfo").decode(errors="surrogateescape")
    except OSError:
        return False
    return type_of(text, path).startswith("fuse")


def type_of(mountinfo: str, path: str) -> str:
    r"""The type of the mount that a path is on: of equal mount points the last; "" for none.

    >>> type_of("1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / /home\\040a rw - nfs4 b rw", "/home a/x")
    'nfs4'
    """
    best, found = -1, ""
    for line in mountinfo.splitlines():
        place, dash, kind = line.partition(" - ")
        fields = place.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]).rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= best:
            best, found = len(point), kind.split(" ")[0]
    return found
