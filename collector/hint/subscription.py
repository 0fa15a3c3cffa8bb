"""What a job asked for, in the environment of its own processes, and what they can take."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from collector.sources.nccl.discovery import procfs

FILE, SIGNAL = "TOCSIN_CHECKPOINT_FILE", "TOCSIN_CHECKPOINT_SIGNAL"
PORT, TOKEN = "TOCSIN_CHECKPOINT_PORT", "TOCSIN_CHECKPOINT_TOKEN"
SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}  # others have a meaning of their own
_CAUGHT = re.compile(rb"^SigCgt:\s*([0-9a-fA-F]{1,16})$", re.MULTILINE)
_PORT = re.compile(r"[1-9][0-9]{3,4}")
_TOKEN = re.compile(r"[\x21-\x7e]{16,256}")
NOBODY = 65534  # the overflow id: it owns nothing (kernel.overflowuid)
_ID = re.compile(rb"^(Uid|Gid):\s+\d+\s+(\d{1,10})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Of one process: the file it wants, the signal that it handles, and the port on loopback where
    it listens (0: none). Its token is read where it is used.
    """

    pid: int
    user: int
    group: int
    file: str
    signal: int
    port: int = 0
    started: int = 0

    @property
    def channels(self) -> tuple[str, ...]:
        """Ways in which it wants its hints."""
        wanted = {"file": self.file, "signal": self.signal, "port": self.port}
        return tuple(name for name, how in wanted.items() if how)

    def only(self, channels: Collection[str]) -> Subscription:
        """The same by some of these ways."""
        return replace(
            self,
            file=self.file if "file" in channels else "",
            signal=self.signal if "signal" in channels else 0,
            port=self.port if "port" in channels else 0,
        )


def subscription(proc: Path, pid: int) -> Subscription | None:
    """None for a process that asked for nothing, or for what it may not have. OSError where it
    cannot be inspected.

    Root is given neither file nor signal: what is root's is no job's. A process of root in a
    network of its own, as in most containers, is posted to there, by nobody.
    """
    folder = proc / str(pid)
    status = procfs.read(folder / "status")
    ids = {name: int(value) for name, value in _ID.findall(status)}
    environment = environment_of(folder)
    file = environment.get(FILE, "")
    wanted = SIGNALS.get(environment.get(SIGNAL, "").removeprefix("SIG"), 0)
    if not is_plain(file):
        file = ""
    number = int(wanted) if handles(status, int(wanted)) else 0
    port = int(environment[PORT]) if token_of(environment) else 0
    if b"Uid" not in ids or b"Gid" not in ids:
        return None
    if not ids[b"Uid"]:
        ids, file, number = {b"Uid": NOBODY, b"Gid": NOBODY}, "", 0
        port = port if has_own_network(proc, pid) else 0
    if not (file or number or port):
        return None
    return Subscription(pid, ids[b"Uid"], ids[b"Gid"], file, number, port, started(folder))


def has_own_network(proc: Path, pid: int) -> bool:
    """Whether a process is in another network namespace than this one, the node's."""
    try:
        its, ours = ((proc / who / "ns" / "net").stat().st_ino for who in (str(pid), "self"))
    except OSError:
        return False
    return its != ours


def is_of(status: bytes, user: int) -> bool:
    """Whether a process is still of a user; of root's, whom nobody stands for here."""
    ids = {name: int(value) for name, value in _ID.findall(status)}
    return ids.get(b"Uid") in ((user, 0) if user == NOBODY else (user,))


def started(folder: Path) -> int:
    """When a process began, in ticks since the boot; with its number it is one process of a boot.
    0 where it cannot be read.
    """
    try:
        return int(procfs.read(folder / "stat").rpartition(b")")[2].split()[19])
    except (IndexError, OSError, ValueError):
        return 0


def handles(status: bytes, number: int) -> bool:
    r"""Whether a process has a handler: a signal without one ends it.

    >>> handles(b"SigCgt:\t0000000000000200\n", 10), handles(b"SigCgt:\t0000000000000200\n", 12)
    (True, False)
    """
    found = _CAUGHT.search(status)
    return bool(number and found and int(found[1], 16) >> (number - 1) & 1)


def token_of(environment: Mapping[str, str]) -> str:
    """What a job wants to be shown on its port above 1023; "" where it has not both.

    >>> token_of({PORT: "8123", TOKEN: "0123456789abcdef"}), token_of({PORT: "80", TOKEN: "0" * 16})
    ('0123456789abcdef', '')
    """
    port, token = environment.get(PORT, ""), environment.get(TOKEN, "")
    good = _PORT.fullmatch(port) and 1023 < int(port) < 65536 and _TOKEN.fullmatch(token)
    return token if good else ""


def is_plain(path: str) -> bool:
    """An absolute path without a step upwards."""
    parts = PurePosixPath(path).parts
    return path.startswith("/") and len(parts) > 2 and ".." not in parts and "\0" not in path


def environment_of(folder: Path) -> Mapping[str, str]:
    """The variables of a /proc/PID that ask for a hint. OSError where they cannot be read."""
    return _environment(procfs.environ(folder))


def _environment(text: bytes) -> Mapping[str, str]:
    pairs = (row.partition(b"=") for row in text.split(b"\0"))
    names = {name.encode() for name in (FILE, SIGNAL, PORT, TOKEN)}
    return {
        name.decode(): value.decode(errors="surrogateescape")
        for name, _, value in pairs
        if name in names
    }
