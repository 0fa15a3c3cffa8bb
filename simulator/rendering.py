"""A simulated node written into a directory: NVML table, trees below proc and sys, kernel log.

The raw rendering.

DIR/nvml.state   DIR/proc/...   DIR/sys/...   DIR/dev/kmsg   DIR/simulated.json (what it is)   DIR/ready (it can be read)
"""  # noqa: E501 - an example or a table

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from pipeline.clock import Clock, SystemClock
from simulator.injection import inject
from simulator.kmsg import KernelLog, boot_lines
from simulator.nccl.node_job import NodeJob
from simulator.node import Node
from simulator.nvml_render import NvmlRenderer
from simulator.nvml_state import NvmlState
from simulator.procfs import ProcRenderer
from simulator.profile import load_profile
from simulator.sysfs import SysfsRenderer

MARKER, READY, TABLE = "simulated.json", "ready", "nvml.state"
_PARTS = ("proc", "sys", "dev")
DRIVER_NOT_LOADED = 9  # nvml.h


class Rendering:
    """Owns a directory for as long as it lives; ``step`` goes on by some seconds
    and writes what changed.

    ``serve``: its job takes RAS clients.

    FileExistsError where the directory belongs to something else, or to a
    simulation that is running.
    """

    def __init__(
        self,
        directory: Path,
        profile: str,
        *,
        seed: int,
        clock: Clock | None = None,
        serve: bool = False,
    ) -> None:
        model = load_profile(profile)
        self.directory = directory
        self._clock = clock or SystemClock()
        self._lock = _claim(directory)
        try:
            self.node = Node(model, seed)
            self._nvml = NvmlRenderer(directory / TABLE, self.node)
            self._sys = SysfsRenderer(directory / "sys", self.node)
            boot_ns = self._clock.time_ns() - self._clock.monotonic_ns()
            self._proc = ProcRenderer(directory / "proc", self.node, boot_ns)
            self._job = NodeJob(directory / "proc", self.node, self._clock) if serve else None
            self._log = KernelLog(directory / "dev" / "kmsg")
            self.node.kernel.extend(boot_lines(self.node))
            (directory / MARKER).write_text(
                json.dumps({"profile": profile, "seed": seed, "pid": os.getpid()}) + "\n"
            )
            self.render()
        except BaseException:
            os.close(self._lock)
            raise

    def step(self, seconds: float) -> None:
        """Let the node go on, then write it."""
        self.node.advance(seconds)
        self.render()

    def render(self) -> None:
        """Write the node as it is now."""
        self._log.append(self.node.kernel, self._clock.monotonic_ns())
        self.node.kernel.clear()
        self._nvml.render(self._clock.time_ns())
        self._sys.render()
        self._proc.render()
        if self._job is not None:
            self._job.render()

    def ready(self) -> None:
        """Say that the directory can be read: those who start at the same
        time wait for this file.
        """
        (self.directory / READY).write_text(f"{os.getpid()}\n")

    def close(self) -> None:
        """Let go of the directory; what it shows stays, without ``ready``."""
        (self.directory / READY).unlink(missing_ok=True)
        for part in (self._nvml, self._sys, self._proc, self._log, self._job):
            if part is not None:
                part.close()
        os.close(self._lock)


def render_once(
    directory: Path,
    profile: str,
    *,
    seed: int = 0,
    seconds: float = 60.0,
    faults: tuple[str, ...] = (),
    clock: Clock | None = None,
) -> Node:
    """Write a node into a directory as it is after some seconds, and return it: for
    tests and saved examples.
    """
    rendering = Rendering(directory, profile, seed=seed, clock=clock)
    try:
        for spec in faults:
            inject(rendering.node, spec)
        rendering.step(seconds)
        rendering.ready()
        return rendering.node
    finally:
        ready = (directory / READY).is_file()
        rendering.close()
        if ready:
            (directory / READY).write_text("0\n")


def _claim(directory: Path) -> int:
    """Take a directory: a new or empty one, or one of an earlier simulation,
    whose parts are removed.

    Its lock, held until closed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()) and not (directory / MARKER).is_file():
        raise FileExistsError(
            f"{directory} is not empty and no simulated node: give an empty or new directory"
        )
    (directory / MARKER).touch()
    lock = os.open(directory / MARKER, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FileExistsError(
            f"{directory} is being simulated by another process; inject into that one, or "
            "give another directory"
        ) from None
    (directory / READY).unlink(missing_ok=True)
    _retire(directory / TABLE)
    for part in _PARTS:
        shutil.rmtree(directory / part, ignore_errors=True)
    return lock


def _retire(table: Path) -> None:
    """Those who still have the table of an earlier simulation open see its driver
    go, and open the new one.
    """
    with contextlib.suppress(FileNotFoundError, ValueError):
        old = NvmlState(table)
        old.set("-/*", 0, result=DRIVER_NOT_LOADED)
        old.close()
