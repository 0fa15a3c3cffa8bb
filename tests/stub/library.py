"""The compiled stub: a folder for LD_LIBRARY_PATH, and the environment that makes
the driver child find it.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.child import run
from tests.parts import need
from tests.wait import PATIENCE_S

SOURCE = Path(__file__).with_name("nvml_stub.c")
FLAGS = (
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-format-truncation",
    "-Werror",
    "-shared",
    "-fPIC",
    "-Wl,-soname,libnvidia-ml.so.1",
)


def compile_stub(folder: Path, *flags: str) -> Path:
    """Compile the stub into a folder, with more flags of gcc; the folder.

    The test fails, or is skipped, where there is no gcc.
    """
    target = folder / "libnvidia-ml.so.1"
    finished = run(
        [need("gcc", "gcc"), *FLAGS, *flags, "-o", str(target), str(SOURCE)], timeout_s=PATIENCE_S
    )
    assert finished.returncode == 0, finished.stderr.decode()
    return folder


def environment(folder: Path, table: Path) -> dict[str, str]:
    """What the driver child needs to load the stub instead of a driver's library."""
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "NVML_STUB": str(table)}
