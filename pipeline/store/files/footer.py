"""A checksum of a Parquet file's footer, within the footer.

Pages have checksums of their own; the footer, with its numbers of rows, offsets, least and greatest
values and what a compacted file replaces, has none in the format: a flipped bit there may hide rows
without an error. So the last entry of its metadata, ``tocsin.footer``, is the CRC-32 of the footer
with that entry's digits zero. Other readers see one more text; files without it are not checked.
"""

from __future__ import annotations

import os
import zlib
from functools import lru_cache
from pathlib import Path

KEY = "tocsin.footer"
BLANK = "00000000"
_TAIL = 8  # length of the footer (u32) and the magic, at the end of every Parquet file
_MAGIC = b"PAR1"


def stamp(path: Path) -> None:
    """Put the checksum where ``KEY`` was written with ``BLANK``."""
    with path.open("r+b") as file:
        begin, footer = _footer(file.fileno())
        place = _digits(footer)
        if place is None:
            raise ValueError(f"{path}: no place for the footer's checksum")
        file.seek(begin + place)
        file.write(f"{zlib.crc32(footer):08x}".encode())


def is_whole(path: Path) -> bool:
    """Whether the footer is as it was written; true where it has no checksum.

    OSError where the file cannot be read.
    """
    stat = path.stat()
    return _is_whole(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _is_whole(path: Path, _mtime_ns: int, _size: int) -> bool:
    with path.open("rb") as file:
        _, footer = _footer(file.fileno())
    place = _digits(footer)
    if (
        place is None
    ):  # of an earlier version, of another program, or no Parquet file: others see it
        return True
    given = footer[place : place + len(BLANK)]
    blank = footer[:place] + BLANK.encode() + footer[place + len(BLANK) :]
    return f"{zlib.crc32(blank):08x}".encode() == given


def _footer(fd: int) -> tuple[int, bytes]:
    """Where the footer begins, and its bytes; empty where the file's end is not Parquet's."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, _TAIL, max(size - _TAIL, 0))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL:
        return 0, b""
    begin = size - _TAIL - length
    return begin, os.pread(fd, length, begin)


def _digits(footer: bytes) -> int | None:
    """Where the digits are: the entry is the last of the metadata, which comes after all that
    stored values appear in. Thrift: field 1, length, key, field 1 more, length, value.
    """
    entry = bytes([0x18, len(KEY)]) + KEY.encode() + bytes([0x18, len(BLANK)])
    place = footer.rfind(entry)
    return None if place < 0 else place + len(entry)
