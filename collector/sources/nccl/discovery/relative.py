"""Paths that a job names relative to where it runs."""

from __future__ import annotations

import os
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind


def absolute(path: str, process: Path) -> str:
    """A path as a process sees it, whose folder in /proc is ``process``.

    PermissionError where it is relative and where the process runs may not be known,
    FileNotFoundError where it is gone.
    """
    if path.startswith("/"):
        return path
    return f"{os.readlink(process / 'cwd')}/{path}"  # noqa: PTH115 - as the process sees it, not resolved


def absolute_by_helper(path: str, process: Path) -> str:
    """Likewise; where this process may not know, the helper is asked. OSError where it refuses."""
    try:
        return absolute(path, process)
    except PermissionError:
        folder = client.ask(Kind.FOLDER, int(process.name)).data
        return f"{folder.decode(errors='surrogateescape')}/{path}"
