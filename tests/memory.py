"""A folder in memory, for tests that sync a lot: what they look at is the same anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

SHARED = Path("/dev/shm")
FREE_BYTES = 512 << 20  # a container has 64 MiB of it by default, which a store may fill


@contextmanager
def folder(otherwise: Path) -> Iterator[Path]:
    """A new folder in memory where there is enough of it, and ``otherwise`` elsewhere."""
    if not os.access(SHARED, os.W_OK) or shutil.disk_usage(SHARED).free < FREE_BYTES:
        yield otherwise
        return
    with TemporaryDirectory(dir=SHARED) as place:
        yield Path(place)
