"""The real hands: nvidia-smi, systemctl, and what the site configured. Each call has a deadline."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.repair.bundle import Bundles
from collector.repair.case import Case
from collector.repair.holders import UnknownGpuError, holders
from collector.repair.programs import PATHS, FailedError, failure, output

log = logging.getLogger("tocsin.repair")

QUERY_S, RESET_S, SERVICE_S, REBOOT_S = 30.0, 120.0, 90.0, 30.0
MIG = "mig.mode.current"


@dataclass(frozen=True, slots=True)
class MachineHands:
    """``proc`` is where processes are, ``path`` where programs are."""

    bundles: Bundles
    check_argv: tuple[str, ...] = ()
    check_s: float = 300.0
    proc: Path = Path("/proc")
    path: str = PATHS

    def blockers(self, uuid: str, services: Sequence[str]) -> list[str]:
        """Processes and MIG; what cannot be known holds it too."""
        names = frozenset(one.removesuffix(".service") for one in services)
        try:
            found = list(holders(self.proc, uuid, names))
        except (OSError, UnknownGpuError) as error:
            return [f"unknown processes ({error})"]
        mode = self._query(uuid, MIG)
        if mode == "Enabled":
            found.append("MIG mode, whose instances belong to several users")
        elif mode not in ("Disabled", "[N/A]", "N/A", "[Not Supported]"):
            found.append(f"an unknown MIG mode ({mode or 'nvidia-smi does not answer'})")
        return found

    def stop(self, services: Sequence[str]) -> str:
        """All of them, or none that were running stay stopped (the caller starts them again)."""
        return self._run(SERVICE_S, "systemctl", "stop", *services) if services else ""

    def start(self, services: Sequence[str]) -> str:
        """A service that does not start again is logged: the repair goes on."""
        failed = self._run(SERVICE_S, "systemctl", "start", *services) if services else ""
        if failed:
            log.error("services not started after a repair: %s", failed)
        return failed

    def persistence(self, uuid: str) -> bool:
        """As nvidia-smi has it."""
        return self._query(uuid, "persistence_mode") == "Enabled"

    def set_persistence(self, uuid: str, *, on: bool) -> str:
        """nvidia-smi -pm."""
        return self._run(QUERY_S, "nvidia-smi", "-i", uuid, "-pm", str(int(on)))

    def reset(self, uuid: str) -> str:
        """nvidia-smi --gpu-reset; its exit code 255 is `In use by another client`."""
        return self._run(RESET_S, "nvidia-smi", "--gpu-reset", "-i", uuid)

    def reboot(self) -> str:
        """Returns before the node goes down."""
        return self._run(REBOOT_S, "systemctl", "reboot")

    def check(self) -> str:
        """Empty without one."""
        return self._run(self.check_s, *self.check_argv) if self.check_argv else ""

    def bundle(self, case: Case) -> str:
        """A folder per case."""
        return self.bundles.make(case)

    def _query(self, uuid: str, name: str) -> str:
        argv = ("nvidia-smi", f"--query-gpu={name}", "--format=csv,noheader", "-i", uuid)
        try:
            found = output(*argv, deadline_s=QUERY_S, path=self.path)
        except FailedError:
            return ""
        return found.decode(errors="replace").strip()

    def _run(self, deadline_s: float, *argv: str) -> str:
        return failure(*argv, deadline_s=deadline_s, path=self.path)
