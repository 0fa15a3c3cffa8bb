"""Files of a simulated tree: written in place, so that readers may keep them open, and only
when their content changes.
"""

from __future__ import annotations

import os
from pathlib import Path


class LiveFile:
    """One small file whose content changes.

    Readers see old or new text, never a mixture: values are far below a page.
    """

    def __init__(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._text = ""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self.write(text)

    def write(self, text: str) -> None:
        """Replace the content by ``text`` and a newline, if it is another."""
        if text == self._text:
            return
        shorter = len(self._text) - len(text)
        # Newlines cover what is left of a longer text until the file is cut: a reader in between
        # sees the new value and blank lines.
        os.pwrite(self._fd, (text + "\n" * (1 + max(shorter, 0))).encode(), 0)
        if shorter > 0:
            os.ftruncate(self._fd, len(text.encode()) + 1)
        self._text = text

    def close(self) -> None:
        """Let go of the file; its content stays."""
        os.close(self._fd)


def put(root: Path, files: dict[str, str | int]) -> None:
    """Write files that never change, by path below ``root``; each ends in a newline."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def link(path: Path, target: Path) -> None:
    """A relative symbolic link, as sysfs has them; an old one is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
