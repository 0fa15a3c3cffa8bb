"""A real agent with a memory limit, on a simulated node whose job stalls now and then, while real
hostile processes of other users attack it.

The GPUs of processes are minor numbers of /dev/mem's major, as in tests/tenants/node.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.simulate import inject
from tests.agents import PROGRAM, AgentProcess
from tests.tenants.attacks import Field, Step
from tests.tenants.limit import MemoryLimit
from tests.tenants.node import MEMORY_MAJOR, Node
from tests.wait import until

# GPUs whose ranks the job waits for, one stall after another, without the tenants' (node.py): a
# fault of one device that comes back within the hour is not reported again.
STALLED = (2, 3, 4, 6, 7, 0, 1)
DEADLINE_S = 90.0  # the usual one, without attacks: tests/collector/sources/nccl/test_stall.py
WORK_S = 40.0  # between two stalls: a stall is over after 30 s of work
ROUND_S = WORK_S + DEADLINE_S + 35.0  # a stall, named and over
AGENT_MIB = 64.0  # without children
LABEL = re.compile(r'(\w+)="([^"]*)"')
OF_TESTS = f"""
import sys
from collector.sources.nccl.discovery import devices, scan
devices.opened_minors.__defaults__ = ({MEMORY_MAJOR},)
scan.is_saved = lambda proc: False
"""


@dataclass
class Outcome:
    """What came of a run. Times are seconds from the fault to the finding."""

    named_s: list[float] = field(default_factory=list)
    accused: set[str] = field(default_factory=set)  # GPUs of findings, but the stalled ones
    others: set[str] = field(default_factory=set)  # detector, device and severity of all others
    agent_mib: float = 0.0
    unit_mib: float = 0.0
    kills: int = 0
    cut: dict[str, float] = field(default_factory=dict)  # tocsin_tenant_cut
    overdue: float = 0.0

    @property
    def good(self) -> bool:
        """Whether tenants changed nothing for their neighbour."""
        return (
            bool(self.named_s)
            and max(self.named_s) <= DEADLINE_S
            and not self.accused
            and self.agent_mib <= AGENT_MIB
        )


class Attacked:
    """The node and its agent; use as a context."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.node = Node()
        self.limit = MemoryLimit(limit_bytes)
        simulated = folder / "s" / "simulated"
        self.node.proc = simulated / "proc"
        self.agent = AgentProcess(
            folder / "s",
            "--simulate",
            "hgx-h100",
            program=OF_TESTS + PROGRAM,
        )
        self.simulated = simulated
        self.outcome = Outcome()
        self._field: Field | None = None
        self._stalled: list[str] = []  # the last is that of now

    def __enter__(self) -> Attacked:
        try:
            return self._begun()
        except BaseException:
            self.__exit__()
            raise

    def _begun(self) -> Attacked:
        self.agent.until(self._ranks, "the job")
        self.equip()
        self.limit.add(self.agent.process.pid)
        for child in self.agent.children():
            if b"simulate" not in Path(f"/proc/{child}/cmdline").read_bytes():
                self.limit.add(child)
        self.agent.ready()
        pids = [pid for pid, _ in sorted(self._ranks().items())]
        self._field = Field(
            self.node, self._ranks()[pids[0]], pids, self.simulated / "dev" / "kmsg"
        )
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.agent.process.terminate()
            self.agent.process.wait(60)
        self.agent.__exit__()
        if self._field is not None:
            self._field.close()  # first: what is on a dead file system cannot be removed
        self.node.close()
        with contextlib.suppress(OSError):
            self.limit.close()

    @property
    def field(self) -> Field:
        """Where attacks take place."""
        assert self._field is not None
        return self._field

    def run(self, seconds: float, steps: list[Step]) -> Outcome:
        """Stalls one after another for so long, at least one; each second every attack goes on.

        None is begun that would last beyond the end.
        """
        end = time.monotonic() + seconds
        while True:
            self._wait(steps, WORK_S, lambda: False)
            began = time.monotonic()
            gpu = STALLED[len(self.outcome.named_s) % len(STALLED)]
            self._stalled.append(self.uuid(gpu))
            inject(self.simulated, f"nccl_stall@gpu{gpu}:how=stopped,lasts={DEADLINE_S:g}")
            named = self._wait(steps, 3 * DEADLINE_S, self._named)
            self.outcome.named_s.append(round(named - began, 1) if named else float("inf"))
            if began + 2 * ROUND_S - WORK_S > end:
                break
            left = began + DEADLINE_S + 5 - time.monotonic()
            self._wait(steps, left, lambda: False)
            self._wait(steps, DEADLINE_S, lambda: not self._named())
        self._wait(steps, end - time.monotonic(), lambda: False)
        self.outcome.kills = self.limit.kills()
        self.outcome.unit_mib = self.limit.peak_bytes() / 2**20
        self.outcome.cut = self.agent.values("tocsin_tenant_cut")
        return self.outcome

    def _wait(self, steps: list[Step], seconds: float, done: Callable[[], bool]) -> float:
        """The time when it was done, 0 for never."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            tick = time.monotonic()
            for step in steps:
                step()
            self._look()
            if done():
                return tick
            with contextlib.suppress(AssertionError):
                until(lambda: False, "the next second", max(tick + 1 - time.monotonic(), 0.02))
        return 0.0

    def _look(self) -> None:
        self.equip()
        status = Path(f"/proc/{self.agent.process.pid}/smaps_rollup").read_text(encoding="ascii")
        pss = int(re.findall(r"^Pss:\s+(\d+)", status, re.MULTILINE)[0]) / 1024
        self.outcome.agent_mib = max(self.outcome.agent_mib, round(pss, 1))
        self.outcome.accused |= set(self._gpus()).difference(self._stalled)
        rows = map(dict, map(LABEL.findall, self.agent.values("tocsin_finding_active")))
        self.outcome.others |= {
            f"{row['detector']} {row['kind']} {row['device']} {row['severity']}"
            for row in rows
            if row["device"] not in self._stalled
        }

    def _named(self) -> bool:
        return self._stalled[-1] in self._gpus()

    def _gpus(self) -> list[str]:
        """GPUs of open findings of tickets and pages."""
        labels = list(self.agent.values("tocsin_finding_active"))
        return [
            re.findall(r'device="([^"]+)"', label)[0]
            for label in labels
            if 'kind="gpu"' in label and 'severity="record"' not in label
        ]

    def uuid(self, gpu: int) -> str:
        """Of a GPU, by its minor number."""
        for information in self.node.proc.glob("driver/nvidia/gpus/*/information"):
            text = information.read_text(encoding="ascii")
            if re.search(rf"Device Minor:\s+{gpu}\b", text):
                return str(re.findall(r"GPU UUID:\s+(\S+)", text)[0])
        raise LookupError(gpu)

    def equip(self) -> None:
        """Give the job's processes the device file of their GPU, open, as the kernel shows it."""
        for pid in self._ranks():
            place = self.node.proc / str(pid) / "fd" / "900"
            maps = (self.node.proc / str(pid) / "maps").read_text(encoding="ascii")
            minor = int(re.findall(r"/dev/nvidia(\d+)", maps)[0])
            device = self.node.folder / "of the ranks /dev" / f"nvidia{minor}"
            device.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mknod(device, 0o020666, os.makedev(MEMORY_MAJOR, minor))
            with contextlib.suppress(FileExistsError, FileNotFoundError):  # it is being made
                place.symlink_to(device)

    def _ranks(self) -> dict[int, Mapping[str, str]]:
        """Environment of the simulated job's processes, by pid."""
        found: dict[int, Mapping[str, str]] = {}
        for path in self.node.proc.glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink():
                    raw = (path / "environ").read_bytes().decode()
                    if raw:  # else it is being written
                        found[int(path.name)] = dict(x.split("=", 1) for x in raw.split("\0"))
        return found
