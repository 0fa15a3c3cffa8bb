"""What a job asked for, in the environment of its own processes, and what they can take."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from collector.sources.nccl.discovery import procfs

FILE, SIGNAL = "TOCSIN_CHECKPOINT_FILE", "TOCSIN_CHECKPOINT_SIGNAL"
PORT, TOKEN = "TOCSIN_CHECKPOINT_PORT", "TOCSIN_CHECKPOINT_TOKEN"
SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}  # others have a meaning of their own
_CAUGHT = re.compile(rb"^SigCgt:\s*([0-9a-fA-F]{1,16})$", re.MULTILINE)
_PORT = re.compile(r"[1-9][0-9]{3,4}")
_TOKEN = re.compile(r"[\x21-\x7e]{16,256}")
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


def subscription(proc: Path, pid: int) -> Subscription | None:
    """None for a process that asked for nothing, or for what it may not have. OSError where it
    cannot be inspected. Root is given nothing: a file of root's is no job's.
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
    if not (file or number or port) or not ids.get(b"Uid") or b"Gid" not in ids:
        return None
    return Subscription(pid, ids[b"Uid"], ids[b"Gid"], file, number, port)


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
