"""The machine's own kernel log in tests: one test at a time, lines with a token, and
reading until there is no more.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.sources.kmsg import KernelLogSource
from collector.sources.kmsg.device_reader import open_device
from collector.sources.kmsg.reader import UnavailableError
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import events
from tests.wait import until

KMSG = Path("/dev/kmsg")


@contextmanager
def kernel_log() -> Iterator[str]:
    """A token for this test's lines, 15 characters as a process name may have, while no other
    test writes into the log.

    Some machines and containers have no kernel log to read or write, and no package brings one:
    there the test is skipped.
    """
    try:
        fd = open_device(KMSG)
        os.close(os.open(KMSG, os.O_WRONLY))
    except (UnavailableError, OSError) as error:
        pytest.skip(f"the kernel log cannot be read and written here: {error}")
    try:
        until(lambda: _locked(fd), "another test run to be done with the kernel log")
        yield "t" + uuid.uuid4().hex[:14]
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    """The device's own inode is the lock: every test run on this machine sees it,
    whatever its root directory.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(*texts: str, together: bool = False) -> None:
    """Write records; each through a file of its own, because the kernel limits the rate per open
    file, unless ``together``.
    """
    fd = os.open(KMSG, os.O_WRONLY)
    for text in texts:
        os.write(fd, f"<3>{text}\n".encode())
        if not together:
            os.close(fd)
            fd = os.open(KMSG, os.O_WRONLY)
    os.close(fd)


def xid(code: int, token: str, words: str = "words", pid: int = 1, name: str = "") -> str:
    """An XID line of a GPU that no other test has: the log's past holds many, and those of one GPU
    and code are told as one group.
    """
    return (
        f"NVRM: Xid (PCI:{token[1:5]}:{token[5:7]}:00): {code}, pid={pid}, "
        f"name={name or token}, {words}"
    )


def ours(found: list[Event], token: str) -> list[Event]:
    """Events whose line carries the token."""
    return [event for event in found if token in str(event.attributes.get("text", ""))]


def follow(source: KernelLogSource, token: str, most: int) -> list[Event]:
    """Events of the token, read until there are so many: a log with a long
    past takes several reads.
    """
    found: list[Event] = []

    def all_there() -> bool:
        found.extend(ours(events(source), token))
        return len(found) >= most

    until(all_there, f"{most} events of {token}")
    return found
