"""Which NCCL version a process uses: in its library's name, else in the library itself.

The library is as large as half a gigabyte and may lie on a network file system that hangs, so the
search runs in a child (collector/sources/nccl/reader.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from io import FileIO
from pathlib import Path

from collector.sources.nccl.discovery.procfs import Library
from collector.sources.untrusted import open_regular

CHUNK = 4 << 20
MAX_BYTES = 4 << 30  # libtorch_cuda with every architecture takes 2

_IN_NAME = re.compile(r"libnccl\.so\.(\d{1,3}\.\d{1,3}\.\d{1,3})$")
_INSIDE = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})")
_MAX_MARK = 32  # bytes of what is searched for

Version = tuple[int, ...]


def version_of(text: str) -> Version:
    """Numbers of a version; empty where it is none.

    >>> version_of("2.30.7"), version_of("unknown"), version_of("2.29.2+cuda13.0")
    ((2, 30, 7), (), (2, 29, 2))
    """
    match = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", text)
    return tuple(int(n) for n in match.groups()) if match else ()


def search(path: str, root: Path) -> str:
    """The version that a library holds, empty where it holds none.

    ``path`` is the process's own, ``root`` its /proc/PID/root. OSError.
    """
    kept = b""
    with FileIO(open_regular(path, root=root)) as file:
        for _ in range(MAX_BYTES // CHUNK):
            piece = file.read(CHUNK)
            if match := _INSIDE.search(kept + piece):
                return match[1].decode()
            if not piece:
                break
            kept = piece[-_MAX_MARK:]
    return ""


class Versions:
    """Remembers the version of each library, so that it is looked for once per file and tenant: the
    path leads where the tenant's own mounts let it, perhaps not to the file that several use.

    ``find`` is given a process and the path of its library; it may say "".
    """

    def __init__(
        self,
        find: Callable[[int, str], str] = lambda pid, path: "",  # noqa: ARG005
    ) -> None:
        self._find = find
        self._known: dict[tuple[str, str, int], str] = {}

    def known(self, library: Library, tenant: str) -> str | None:
        """The version, "" where the library holds none, None where nobody has looked yet."""
        if match := _IN_NAME.search(library.path):
            return match[1]
        return self._known.get(_key(library, tenant))

    def keep(self, libraries: Iterable[tuple[Library, str]]) -> None:
        """Forget all that no process of that tenant uses: a user with many takes no place of
        another's.
        """
        used = {_key(library, tenant) for library, tenant in libraries}
        self._known = {key: version for key, version in self._known.items() if key in used}

    def look(self, library: Library, tenant: str, pid: int) -> str:
        """Look for it, through a process of the tenant that has it mapped."""
        return self.note(library, tenant, self._find(pid, library.path))

    def note(self, library: Library, tenant: str, found: str) -> str:
        """Its version is known, or "" that it holds none."""
        return self._known.setdefault(_key(library, tenant), found)


def _key(library: Library, tenant: str) -> tuple[str, str, int]:
    return tenant, library.device, library.inode
