"""A tree like /proc, written for a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LIBRARY = "/venv/nvidia/nccl/lib/libnccl.so.2"
UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in range(8))


def add_gpus(proc: Path, count: int = 8) -> None:
    """The driver's list of GPUs."""
    for minor in range(count):
        folder = proc / "driver/nvidia/gpus" / f"0000:{minor:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H100\nGPU UUID: \t {UUIDS[minor]}\nDevice Minor: \t {minor}\n"
        )


def add_process(
    proc: Path,
    pid: int,
    *,
    gpus: Sequence[int] = (),
    library: str = "",
    environ: str = "",
    cgroup: str = "0::/",
    inner: int | None = None,
    started: int = 100,
    comm: str = "python3",
    user: int = 1000,
    parent: int = 1,
) -> Path:
    """A process; with GPUs and a library it uses NCCL. ``environ`` is text."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(
        f"{pid} ({comm}) S {parent} {' '.join(['0'] * 17)} {started} 0 0\n"
    )
    inner = pid if inner is None else inner
    (folder / "status").write_text(
        f"Name:\t{comm}\nUid:\t{user}\t{user}\t{user}\t{user}\nNSpid:\t{pid}\t{inner}\n"
    )
    rows = ["55d0-55d1 r-xp 00000000 08:01 11 /usr/bin/python3"]
    rows += [f"7f00-7f01 rw-s 00000000 00:05 9{n} /dev/nvidia{n}" for n in gpus]
    rows += ["7f02-7f03 rw-s 00000000 00:05 77 /dev/nvidiactl"] if gpus else []
    rows += [f"7f04-7f05 r-xp 00000000 08:01 4711 {library}"] if library else []
    (folder / "maps").write_text("\n".join(rows) + "\n")
    (folder / "environ").write_bytes(b"\0".join(word.encode() for word in environ.split()))
    (folder / "cgroup").write_text(cgroup + "\n")
    return folder
