"""Files that cannot be read are moved out of the way, by name, so that the rest answers and the
evidence is kept.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pipeline.store.files.layout import make_folder, sync_folder

log = logging.getLogger("tocsin.store")

FOLDER = "quarantine"


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
    return place
