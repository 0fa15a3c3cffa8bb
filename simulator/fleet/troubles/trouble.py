"""One trouble that the kernel reports: its lines in every spelling, what it does to the job, when
it is due, and how it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.finding import Severity
from simulator.profile import Profile

Of = Literal["node", "gpu", "port"]
# What the job does: it dies, it stands still until the trouble is over, or it goes on.
Halts = Literal["dies", "waits", ""]
LINE_S = 0.5  # from the beginning of a tick to a line
Spelling = tuple[str, ...]  # records that are printed at once

COMMS = ("python3", "pt_data_worker", "ray::IDLE", "kworker/u8:3", "nccl-watchdog", "ptxas (a:b)")
SERVERS = ("10.0.0.9", "storage-1", "nas-a.example", "2001:db8::17", "filer7:/vol/home")
DISKS = ("nvme0n1", "nvme3n1", "sda", "dm-0", "nvme1c1n1", "md127")
DIMMS = (
    "CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "mc#1csrow#0channel#3",
    "P2-DIMMF1",
    "unknown",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """``spellings``: one is drawn for each report. ``of`` is what is broken.

    ``severity`` where a job runs on the node, ``idle`` where none does (None: the same). It is due
    with the report number ``least``, all of them within ``within_s``, and ``wait_s`` after it.
    ``fatal``: the spelling of the last report, where it differs from those before. ``ends`` are the
    lines of its recovery; without any it ends with a boot of the node, or ``quiet``: by itself.
    ``chain``: what may follow within seconds, each line with its chance. ``gone``: the GPU no
    longer answers, in some cases. ``repeats``: more reports of it are no other trouble.
    """

    spellings: tuple[Spelling, ...]
    severity: Severity
    idle: Severity | None = None
    of: Of = "node"
    least: int = 1
    within_s: float = 600.0
    wait_s: float = 0.0
    ends: tuple[str, ...] = ()
    quiet: bool = False
    halts: Halts = ""
    chain: tuple[str, ...] = ()
    gone: bool = False
    needs_job: bool = False
    repeats: bool = True


def lines(*spellings: str | Spelling) -> tuple[Spelling, ...]:
    """Spellings, most of which are one record."""
    return tuple((one,) if isinstance(one, str) else one for one in spellings)


class Words:
    """What the lines of one case name: the same server, disk or address each time, other numbers.

    ``slot`` is that of the GPU or port.
    """

    def __init__(self, rng: np.random.Generator, profile: Profile, slot: int) -> None:
        gpu, port = f"{profile.gpu.pci[slot]}.0", profile.ports.pci[slot]
        self._facts: Mapping[str, Any] = {
            "gpu": gpu,
            "gpu_bridge": _bridge(gpu),
            "gpu_id": _requester(gpu),
            "port": port,
            "port_bridge": _bridge(port),
            "port_id": _requester(port),
            "net": profile.ports.net[slot],
            "mlx": profile.ports.devices[slot],
            "index": slot,
            "server": str(rng.choice(SERVERS)),
            "target": f"{rng.choice(('work', 'scratch'))}-OST{int(rng.integers(64)):04x}",
            "mds": int(rng.integers(8)),
            "disk": str(rng.choice(DISKS)),
            "nvme": f"nvme{int(rng.integers(1, 9))}",
            "array": f"md{int(rng.integers(4))}",
            "dimm": str(rng.choice(DIMMS)),
            "cpu": int(rng.integers(224)),
            "bank": int(rng.integers(32)),
            "switch": int(rng.integers(4)),
        }

    @classmethod
    def seeded(cls, seed: int, profile: Profile) -> Words:
        """The same for every node: what they share has one name."""
        return cls(np.random.default_rng(seed), profile, 0)

    def of(self, spelling: Spelling, rng: np.random.Generator) -> Iterator[str]:
        """The records of one report, with fresh numbers."""
        fresh = {
            "comm": str(rng.choice(COMMS)),
            "pid": int(rng.integers(300, 4_000_000)),
            "seconds": int(rng.integers(21, 900)),
            "n": int(rng.integers(1, 99_999)),
            "hex": f"{int(rng.integers(1 << 32)):08x}",
            "link": int(rng.integers(64)),
        }
        for text in spelling:
            yield text.format_map({**self._facts, **fresh})


def _bridge(pci: str) -> str:
    """The port that a device hangs on."""
    return f"{pci[:5]}{int(pci[5:7], 16) - 1:02x}:01.0"


def _requester(pci: str) -> str:
    """The requester id of a device as DPC prints it.

    >>> _requester("0000:b8:00.0")
    'b800'
    """
    bus, device = int(pci[5:7], 16), int(pci[8:10], 16)
    return f"{bus << 8 | device << 3:04x}"
