"""The agent's environment: which host, which boot, which files and library.

The one place that knows of simulation at start.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.config.settings import Config
from pipeline.clock import Clock, FastClock, SystemClock

# The driver library of a simulated node, by name: the simulator is imported in
# the driver's process alone.
NVML_CLIENT = "simulator.nvml_client:open_client"


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """Everything outside the process that sources read.

    ``library`` is "" for the real NVML, or what ``open_library`` takes.

    ``wait`` is how to wait by ``clock`` (seconds) where that is not the machine's.
    """

    host: str
    boot_id: str
    clock: Clock
    procfs: Path
    sysfs: Path
    kernel_log: Path
    library: str
    simulated: str = ""
    wait: Callable[[float], None] | None = None


def real(
    config: Config, environ: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> HostEnvironment:
    """This machine, by the paths of the configuration."""
    procfs = config.path.below("procfs")
    return HostEnvironment(
        host=host_name(environ),
        boot_id=boot_id(procfs),
        clock=clock or SystemClock(),
        procfs=procfs,
        sysfs=config.path.below("sysfs"),
        kernel_log=config.path.kernel_log,
        library="",
    )


def simulated(
    directory: Path,
    profile: str,
    environ: Mapping[str, str] = os.environ,
    clock: FastClock | SystemClock | None = None,
) -> HostEnvironment:
    """The simulated node in a directory."""
    return HostEnvironment(
        host=host_name(environ),
        boot_id=boot_id(directory / "proc"),
        clock=clock or SystemClock(),
        procfs=directory / "proc",
        sysfs=directory / "sys",
        kernel_log=directory / "dev" / "kmsg",
        library=f"{NVML_CLIENT}:{directory}",
        simulated=profile,
        wait=clock.wait if isinstance(clock, FastClock) else None,
    )


def host_name(environ: Mapping[str, str]) -> str:
    """NODE_NAME as Kubernetes gives it, else the machine's name: never ``localhost`` of an
    address (dcgm-exporter#572).
    """
    return environ.get("NODE_NAME") or socket.gethostname()


def boot_id(procfs: Path) -> str:
    """Identity of this boot; empty where the kernel does not tell."""
    try:
        return (
            (procfs / "sys/kernel/random/boot_id")
            .read_text(encoding="ascii", errors="replace")
            .strip()
        )
    except OSError:
        return ""
