"""Paths that a job names relative to where it runs."""

from __future__ import annotations

import os
from pathlib import Path


def absolute(path: str, process: Path) -> str:
    """A path as a process sees it, whose folder in /proc is ``process``.

    PermissionError where it is relative and where the process runs may not be known,
    FileNotFoundError where it is gone.
    """
    if path.startswith("/"):
        return path
    return f"{os.readlink(process / 'cwd')}/{path}"  # noqa: PTH115 - as the process sees it, not resolved
