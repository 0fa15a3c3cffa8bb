"""Files of the kernel, read within bounds: a tree may be a saved one, and lines hold names that
jobs chose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_FILE, MAX_LINE = 8 << 20, 1 << 14
MAX_NAME = 200
MAX_COUNT = (1 << 63) - 1


def lines(path: Path, most: int = MAX_FILE) -> Iterator[bytes]:
    """Lines without their end, of the first ``most`` bytes; of a line longer than MAX_LINE its
    beginning. OSError where the file cannot be read.
    """
    with open(path, "rb", opener=_open) as file:
        left, whole = most, True
        while left > 0 and (piece := file.readline(min(MAX_LINE, left))):
            left -= len(piece)
            if whole:
                yield piece.rstrip(b"\n")
            whole = piece.endswith(b"\n")


def text(path: Path, most: int = 1 << 14) -> str:
    """The beginning of a small file. OSError."""
    with open(path, "rb", opener=_open) as file:
        return file.read(most).decode(errors="replace")


def names(path: Path, most: int) -> list[str]:
    """Names in a folder, at most so many; none where there is no such folder. OSError."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in islice(entries, most))
    except (FileNotFoundError, NotADirectoryError):
        return []


def count(word: bytes | str) -> int | None:
    """A count as the kernel prints it; None for anything else, and for a difference that fell below
    zero (NFS prints such times as numbers near 2^64).

    >>> count(b"12"), count(b"18446743919241604546"), count("x")
    (12, None, None)
    """
    number = int(word) if len(word) <= 20 and word.isdigit() and word.isascii() else -1
    return number if 0 <= number <= MAX_COUNT else None


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO in a saved tree must not hold the reader
