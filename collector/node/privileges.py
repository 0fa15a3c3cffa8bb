"""What this process may do beyond any other user of the node, and what it cannot read without."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from collector.config.settings import Config
from collector.node.helper import client
from collector.node.helper.protocol import Kind

# Bits of linux/capability.h, of those that Tocsin has a use for.
BITS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYSLOG": 34,
}
INSPECT = frozenset({"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"})
UMAD = "umad[0-9]*"


class Missing(NamedTuple):
    """A privilege that this process lacks, and what it does without."""

    privilege: str
    without: str


def capabilities(status: Path = Path("/proc/self/status")) -> frozenset[str]:
    """The effective capabilities of this process, of those in ``BITS``; none where that cannot be
    known.
    """
    try:
        text = status.read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    held = int(text.partition("CapEff:")[2].split()[0], 16) if "CapEff:" in text else 0
    return frozenset(name for name, bit in BITS.items() if held >> bit & 1)


def of_helper() -> frozenset[str]:
    """The capabilities of the helper; none where there is no helper."""
    try:
        return frozenset(client.ask(Kind.HELLO).data.decode("ascii", "replace").split())
    except OSError:
        return frozenset()


def report(config: Config) -> list[str]:
    """One line for each privilege that is missing, or one that none is."""
    found = missing(config.path.kernel_log, Path(config.sources.jobs.kubelet_socket))
    lines = [f"without {privilege}: not read: {without}" for privilege, without in found]
    return lines or ["no privilege is missing"]


def missing(kernel_log: Path, kubelet: Path, dev: Path = Path("/dev")) -> Iterator[Missing]:
    """What is not read, by the privilege that would allow it. Asks the kernel and the helper."""
    inspect = capabilities() | of_helper()
    if not _opens(kernel_log, os.O_RDONLY):
        yield Missing("CAP_SYSLOG", f"{kernel_log} (the journal or a syslog file instead)")
    if not inspect >= INSPECT:
        yield Missing(
            " and ".join(sorted(INSPECT)),
            "other users' jobs: environments, NCCL ranks, RAS, Flight Recorder, Inspector",
        )
    elif "CAP_SYS_ADMIN" not in inspect:
        yield Missing("CAP_SYS_ADMIN", "NCCL RAS of jobs in network namespaces of their own")
    if _exists(kubelet) and not _connects(kubelet) and not inspect:
        yield Missing("user root", f"which pod has which GPU ({kubelet})")
    if any(not _opens(node, os.O_RDWR) for node in sorted((dev / "infiniband").glob(UMAD))):
        yield Missing("write access to /dev/infiniband/umad*", "InfiniBand counters beyond sysfs")


def _opens(path: Path, flags: int) -> bool:
    """Whether a device may be opened; one that is not there needs no privilege."""
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True
