r"""NFS as its client counts it: /proc/self/mountstats (net/sunrpc/stats.c and fs/nfs/super.c).

No mount is touched, so one that does not answer holds nobody. Blanks and newlines in names are
octal there (\\040), so a name cannot end its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.foreign_text import printable
from collector.sources.waits.bounded import MAX_COUNT, MAX_NAME, count

_OCTAL = re.compile(rb"\\([0-7]{3})")
NFS = (b"nfs", b"nfs4")
# Columns of an operation: ops, trans, timeouts, sent, received, queue, rtt, execute (ms), and in
# newer kernels errors.
_OPS, _TRANS, _TIMEOUTS, _QUEUE, _RTT, _EXECUTE = 0, 1, 2, 5, 6, 7
COLUMNS = 8
# NFS 4.2 reads with either (nfs4_xdr_read_plus in fs/nfs/nfs42xdr.c, CONFIG_NFS_V4_2_READ_PLUS).
KINDS = {b"READ:": "read", b"READ_PLUS:": "read", b"WRITE:": "write"}
_READ, _WRITTEN = 4, 5  # of ``bytes``: from and to the server


@dataclass(slots=True)
class Mount:
    """One mount; ``values`` are fields of the catalogue's kind ``mount``."""

    device: str
    mountpoint: str
    fstype: str
    values: Counter[str] = field(default_factory=Counter)
    options: bytes = b""

    @property
    def system(self) -> tuple[str, ...]:
        """What mounts of one file system have in common (fs/nfs/super.c, nfs_compare_super)."""
        own = (self.mountpoint,) if b"nosharecache" in self.options else ()
        return (self.device, self.fstype, self.options.decode(errors="replace"), *own)


def mounts(lines: Iterable[bytes]) -> list[Mount]:
    r"""Mounts of NFS with their counts, and those of Lustre without any, in the kernel's order.

    One file system that is mounted at several places counts once, at the first; of several that are
    mounted at one place the last is seen there.

    >>> (one,) = mounts(
    ...     [
    ...         b"device filer:/a mounted on /data\\040x with fstype nfs4 statvers=1.1",
    ...         b"\t        READ: 10 11 0 2000 9000 1 40 50 0",
    ...     ]
    ... )
    >>> one.mountpoint, one.values["read_operations"], one.values["read_microseconds"]
    ('/data x', 10, 50000)
    """
    found: list[Mount] = []
    now: Mount | None = None
    for line in lines:
        if line.startswith(b"device "):
            now = _mount(line.split(b" "))
            found += [now] if now is not None else []
        elif now is not None and now.fstype != "lustre":
            words = line.split()
            if words[:1] == [b"opts:"]:
                now.options = b" ".join(words[1:])
            else:
                _take(now.values, words)
    first = {one.system: one for one in reversed(found)}
    return list({one.mountpoint: one for one in reversed(first.values())}.values())


def _mount(words: list[bytes]) -> Mount | None:
    if len(words) < 8 or words[2:4] != [b"mounted", b"on"] or words[5:7] != [b"with", b"fstype"]:
        return None
    if words[7] not in (*NFS, b"lustre"):
        return None
    return Mount(_name(words[1]), _name(words[4]), words[7].decode())


def _name(word: bytes) -> str:
    plain = _OCTAL.sub(lambda m: bytes((int(m[1], 8) & 255,)), word)
    return printable(plain.decode(errors="replace"), MAX_NAME)


def _take(values: Counter[str], words: list[bytes]) -> None:
    if len(words) > COLUMNS and words[0].endswith(b":") and words[0][:-1].isupper():
        numbers = [count(word) for word in words[1:]]
        ops, execute = numbers[_OPS], numbers[_EXECUTE]
        if ops is None or execute is None:
            return
        kind = KINDS.get(words[0], "other")
        _add(values, f"{kind}_operations", ops)
        _add(values, f"{kind}_microseconds", execute * 1000)
        for name, column, times in (
            ("transmissions", _TRANS, 1),
            ("major_timeouts", _TIMEOUTS, 1),
            ("queue_microseconds", _QUEUE, 1000),
            ("response_microseconds", _RTT, 1000),
        ):
            if (number := numbers[column]) is not None:
                _add(values, name, number * times)
    elif words[:1] == [b"bytes:"] and len(words) > _WRITTEN + 1:
        for name, column in (("read_bytes", _READ), ("written_bytes", _WRITTEN)):
            if (number := count(words[1 + column])) is not None:
                _add(values, name, number)


def _add(values: Counter[str], name: str, more: int) -> None:
    values[name] = min(values[name] + more, MAX_COUNT)
