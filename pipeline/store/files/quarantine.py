"""Files that cannot be read are moved out of the way, by name, so that the rest answers and the
evidence is kept.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from pipeline.store.files.layout import make_folder, sync_folder

log = logging.getLogger("tocsin.store")

FOLDER = "quarantine"
# Evidence for a look within days: segments have up to 32 MiB, sealed files a few. The budget of the
# disk takes them first of all.
MAX_FILES, MAX_BYTES = 100, 256 << 20


def quarantine(root: Path, path: Path, reason: str) -> Path:
    """Move a file of the layout to the same place below ``<root>/quarantine`` and say why in
    the log; where it is now.

    One that is there already keeps its name; the newcomer gets a number behind it.
    OSError where the disk refuses.
    """
    wanted = root / FOLDER / path.relative_to(root)
    place, number = wanted, 1
    while place.exists():
        number += 1
        place = wanted.with_name(f"{wanted.name}.{number}")
    make_folder(place.parent)
    path.rename(place)
    sync_folder(place.parent)
    log.warning("moved to %s: %s", place, reason)
    _bound(root / FOLDER)
    return place


def last_s(root: Path) -> float:
    """Unix time at which the newest file came into quarantine, 0 where there is none."""
    return max((changed for changed, _, _ in _files(root / FOLDER)), default=0.0)


def _bound(folder: Path) -> None:
    """Remove the oldest beyond MAX_FILES and MAX_BYTES; the newest stays."""
    size = 0
    for number, (_, path, one) in enumerate(sorted(_files(folder), reverse=True)):
        size += one
        if number and (number >= MAX_FILES or size > MAX_BYTES):
            log.warning("removed from quarantine, as newer files need the room: %s", path)
            path.unlink(missing_ok=True)


def _files(folder: Path) -> list[tuple[float, Path, int]]:
    """When each file came, the file, its size."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            stat = path.lstat()
            if not path.is_dir():
                found.append((stat.st_ctime, path, stat.st_size))
    return found
