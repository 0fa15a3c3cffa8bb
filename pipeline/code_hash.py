"""A hash of code and tables: whether results are of the same state of the program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

KINDS = (".py", ".toml", ".csv")


def code_hash(root: Path, parts: Iterable[str]) -> str:
    """Of all files of these folders below ``root``."""
    return files_hash(
        root, {path for part in parts for path in (root / part).rglob("*") if path.suffix in KINDS}
    )


def files_hash(root: Path, files: Iterable[Path]) -> str:
    """Of these files below ``root``, by their names."""
    made = hashlib.blake2b(digest_size=8)
    for path in sorted(files):
        made.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return made.hexdigest()
