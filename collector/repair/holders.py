"""Who holds a GPU: every process with its device file, or one of its MIG instances, open.

NVML's list has compute and graphics processes only; persistence daemons, exporters and a driver
child of ours hold a GPU too (`In use by another client` is what a reset then says).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from collector.sources.nccl.discovery.devices import NVIDIA_MAJOR, opened_minors
from collector.sources.nccl.discovery.procfs import minors, read, stat

# /proc/driver/nvidia-caps/mig-minors: `gpu0/gi1/access 30` (MIG User Guide, "Device nodes").
_CAP = re.compile(rb"^gpu(\d{1,3})/gi\S* (\d{1,6})$", re.MULTILINE)
_MAJOR = re.compile(rb"^ *(\d{1,4}) nvidia-caps$", re.MULTILINE)
_UNIT = re.compile(rb"/([^/\n]+\.service)")


class UnknownGpuError(Exception):
    """The driver lists no such GPU here."""


class OpenFiles(NamedTuple):
    """Device numbers that mean one GPU."""

    minor: int
    caps_major: int
    caps: frozenset[int]


def device_files(proc: Path, uuid: str) -> OpenFiles:
    """The files of a GPU. UnknownGpuError; OSError where the driver's folder cannot be read."""
    for file in sorted((proc / "driver" / "nvidia" / "gpus").glob("*/information")):
        found = minors(read(file))
        if found is not None and found[1] == uuid:
            return OpenFiles(found[0], *_caps(proc, found[0]))
    raise UnknownGpuError(f"no GPU {uuid} in {proc}/driver/nvidia/gpus")


def holders(proc: Path, uuid: str, services: frozenset[str] = frozenset()) -> Iterator[str]:
    """Processes that hold a GPU, in words, but for those of these units of systemd.

    A process that cannot be inspected may hold it, and is listed. UnknownGpuError, OSError.
    """
    files = device_files(proc, uuid)
    for folder in sorted(proc.glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            held = files.minor in opened_minors(folder, NVIDIA_MAJOR) or bool(
                files.caps and files.caps & opened_minors(folder, files.caps_major)
            )
            if held and _unit(folder) not in services:
                yield _words(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError as error:
            yield f"perhaps pid {folder.name} ({error.strerror})"


def _caps(proc: Path, minor: int) -> tuple[int, frozenset[int]]:
    try:
        major = _MAJOR.search(read(proc / "devices"))
        rows = _CAP.findall(read(proc / "driver" / "nvidia-caps" / "mig-minors"))
    except FileNotFoundError:
        return 0, frozenset()
    wanted = frozenset(int(cap) for gpu, cap in rows if int(gpu) == minor)
    return (int(major[1]), wanted) if major else (0, frozenset())


def _unit(folder: Path) -> str:
    """Its unit of systemd, without the end; empty where it has none."""
    found = _UNIT.findall(read(folder / "cgroup"))
    return found[-1].decode(errors="replace").removesuffix(".service") if found else ""


def _words(folder: Path) -> str:
    known = stat(read(folder / "stat"))
    return f"{known.comm if known else 'a process'} (pid {folder.name})"
