"""Whole outputs kept as files.

``TOCSIN_UPDATE_GOLDEN=1`` writes them again: the diff is the review.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Compare an output with its file, or write the file when asked to."""
    file = FOLDER / name
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file} is missing: write it with TOCSIN_UPDATE_GOLDEN=1"
    assert text == file.read_text(encoding="utf-8"), (
        f"differs from {file}; if that is wanted, TOCSIN_UPDATE_GOLDEN=1 writes it again"
    )
