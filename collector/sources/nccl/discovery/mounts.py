"""On which type of file system a path of a process lies, without touching the file system: one that
is dead, or that a job serves itself, never answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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


class Mount(NamedTuple):
    """``device`` is major:minor, ``options`` those of the file system itself; ``id`` and
    ``parent`` say on which other mount it is.
    """

    id: str
    parent: str
    point: str
    device: str
    type: str
    options: str


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
    return _mount(process, path).type.startswith("fuse")


def is_served_by_a_user(process: Path, path: str) -> bool:
    """Whether a path is on FUSE that root has not mounted on this node: who waits for it cannot
    even be killed once the server has taken the request (fs/fuse/dev.c, request_wait_answer).

    In a user namespace everybody is root: a mount counts that the first process has, too. Of a
    process whose root is no mount (chroot) the file system is not known.
    """
    text = _text(process)
    mount = _of(text, path)
    if not mount.type:
        return bool(text)
    return mount.type.startswith("fuse") and not any(
        other.device == mount.device and ",user_id=0," in f",{other.options},"
        for other in mounts_in(_text(process.parent / "1"))
    )


def served_by_users(process: Path) -> frozenset[str]:
    """Where a process sees file systems that users serve (FUSE): the owners of files there are the
    server's word, too.
    """
    return frozenset(
        mount.point
        for mount in mounts_in(_text(process))
        if mount.type.startswith("fuse") and ",user_id=0," not in f",{mount.options},"
    )


def type_of(mountinfo: str, path: str) -> str:
    r"""The type of the mount that a path is on; "" for none.

    >>> type_of("1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / /home\\040a rw - nfs4 b rw", "/home a/x")
    'nfs4'
    """
    return _of(mountinfo, path).type


def mounts_in(mountinfo: str) -> Iterator[Mount]:
    """The mounts of a /proc/PID/mountinfo (proc(5)). The kernel escapes a newline in a name, and no
    other character at which Python ends a line.
    """
    for line in mountinfo.split("\n"):
        place, dash, rest = line.partition(" - ")
        fields, about = place.split(" "), rest.split(" ")
        if dash and len(fields) >= 5:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]).rstrip("/")
            options = about[2] if len(about) > 2 else ""
            yield Mount(fields[0], fields[1], point, fields[2], about[0], options)


def _mount(process: Path, path: str) -> Mount:
    return _of(_text(process), path)


def _text(process: Path) -> str:
    try:
        return procfs.read(process / "mountinfo").decode(errors="surrogateescape")
    except OSError:
        return ""


def _of(mountinfo: str, path: str) -> Mount:
    """The mount that a path is on, as the kernel walks it: from the root's to the next mount on the
    way, each on the one before. So one that another hides is not taken for it.
    """
    path = "".join(f"/{part}" for part in path.split("/") if part not in {"", "."})
    mounts = [m for m in mounts_in(mountinfo) if f"{path}/".startswith(f"{m.point}/")]
    ids = {mount.id for mount in mounts}
    at = next((m for m in mounts if not m.point and m.parent not in ids), None)
    if at is None:
        return Mount("", "", "", "", "", "")
    for _ in mounts:
        on_it = [m for m in mounts if m.parent == at.id and len(m.point) >= len(at.point)]
        if not on_it:
            break
        shortest = min(len(m.point) for m in on_it)
        at = [m for m in on_it if len(m.point) == shortest][-1]
    return at
