"""Small files that are written completely or not at all, before anything depends on them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(file: Path, document: Mapping[str, Any]) -> None:
    """Replace a file; it is on disk when this returns. OSError where it cannot be."""
    scratch = file.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    with os.fdopen(open_to_write(scratch), "w", encoding="utf-8") as out:
        json.dump(document, out)
        out.flush()
        os.fsync(out.fileno())
    scratch.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # the new name too
    finally:
        os.close(folder)


def open_to_write(file: Path) -> int:
    """A descriptor.

    A link is refused: root writes here, in a folder that may belong to the agent's user.
    """
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
