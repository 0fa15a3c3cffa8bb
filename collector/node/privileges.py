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
from collector.node.hidepid import MOUNTS, ROOT, hiding

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


def report(config: Config, mounts: Path = MOUNTS) -> list[str]:
    """One line for each privilege that is missing, or one that none is."""
    kubelet = Path(config.sources.jobs.kubelet_socket)
    found = [
        *hidden_processes(config.path.below("procfs"), mounts),
        *missing(config.path.kernel_log, kubelet),
    ]
    lines = [f"without {privilege}: not read: {without}" for privilege, without in found]
    return lines or ["no privilege is missing"]


def hidden_processes(
    proc: Path, mounts: Path = MOUNTS, groups: frozenset[int] | None = None
) -> Iterator[Missing]:
    """What it takes to see the processes of other users at all, where /proc hides them. The helper
    does not help: it is asked about processes that the agent has seen.
    """
    found = hiding(proc, mounts)
    if found is None or "CAP_SYS_PTRACE" in capabilities():
        return
    groups = frozenset({os.getegid(), *os.getgroups()}) if groups is None else groups
    if found.group in groups:
        return
    if found.group is None:
        privilege = "CAP_SYS_PTRACE in the agent itself"
        way_out = "mount it with hidepid=invisible and gid= of a group of this user"
    elif found.group == ROOT:
        privilege, way_out = "the group root", "mount it with gid= of a group of this user"
    else:
        privilege = f"the group {found.group}"
        way_out = f"add this user to the group (systemd: SupplementaryGroups={found.group})"
    yield Missing(
        privilege,
        f"processes of other users, their jobs and NCCL ranks, with or without the helper: {proc} "
        f"is mounted with hidepid={found.mode}; {way_out}",
    )


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
    if _exists(kubelet) and not _connects(kubelet) and not _helper_connects():
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


def _helper_connects() -> bool:
    """Whether the helper reaches the kubelet: its socket is root's, whatever capabilities there
    are to read with.
    """
    try:
        os.close(client.ask(Kind.KUBELET).fd)
    except OSError:
        return False
    return True
