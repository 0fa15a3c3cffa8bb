"""Whether hostile tenants change anything for their neighbours: a real agent with a memory limit, a
simulated job that stalls again and again, and real processes that attack it.

``python -m benchmarks.tenants --minutes 10`` runs all attacks at once; ``--each`` one after
another, ``--only NAME`` some, ``--none`` the node alone. It needs root: each tenant has a user id
of its own. Each run has a loopback interface of its own, so that several may run at a time. It
prints one line for each run; the exit code is 1 where a stall was named late, another GPU was
named, or the agent grew.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.tenants.attacked import Attacked, Outcome
from tests.tenants.attacks import MORE, TEN

CLONE_NEWNET = 0x40000000  # sched.h
ALL = {**TEN, **MORE}
LIMIT_MIB = 512  # the pod has 640, the unit MemoryHigh=640M and MemoryMax=768M


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked; 1 where tenants changed something."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0, help="of each run")
    parser.add_argument("--each", action="store_true", help="one attack after another")
    parser.add_argument("--only", action="append", choices=sorted(ALL), help="this attack")
    parser.add_argument("--none", action="store_true", help="no attack, to compare with")
    parser.add_argument("--logs", type=Path, help="keep the agents' logs in this folder")
    parser.add_argument("--limit", type=int, default=LIMIT_MIB, help="MiB of agent and children")
    given = parser.parse_args(arguments)
    names = [] if given.none else given.only or list(ALL)
    own_loopback()
    good = True
    for run in [[name] for name in names] if given.each else [names]:
        outcome = attack(run, given.minutes * 60, given.limit << 20, given.logs)
        good &= outcome.good
        sys.stdout.write(f"{described(run, outcome)}\n")
        sys.stdout.flush()
    return 0 if good else 1


def own_loopback() -> None:
    """A network namespace for this process and all that it starts, with nothing but a loopback."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket() as any_socket:  # SIOCSIFFLAGS, IFF_UP: netdevice(7)
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))


def attack(
    names: Sequence[str], seconds: float, limit_bytes: int, logs: Path | None = None
) -> Outcome:
    """One run with some attacks at once."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            with Attacked(Path(folder), limit_bytes) as attacked:
                return attacked.run(seconds, [ALL[name](attacked.field) for name in names])
        finally:
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for path in Path(folder).glob("*.log"):
                    shutil.copy(path, logs / f"{'+'.join(names)[:80] or 'none'}-{path.name}")


def described(names: Sequence[str], outcome: Outcome) -> str:
    """One line."""
    cut = sum(outcome.cut.values())
    by = sorted({label.split('limit="')[1].rstrip('"') for label in outcome.cut})
    return (
        f"{'good' if outcome.good else 'BAD '} {', '.join(names) or 'no attack'}: named after "
        f"{', '.join(f'{s:g}' for s in outcome.named_s)} s; other GPUs named: "
        f"{', '.join(sorted(outcome.accused)) or 'none'}; other findings: "
        f"{', '.join(sorted(outcome.others)) or 'none'}; agent {outcome.agent_mib:.0f} MiB, with "
        f"children at most {outcome.unit_mib:.0f} MiB, {outcome.kills} killed; cut: {cut:g} "
        f"({', '.join(by) or 'nobody'})"
    )


if __name__ == "__main__":
    sys.exit(main())
