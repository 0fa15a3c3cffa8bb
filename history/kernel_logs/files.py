"""Kernel logs in files: dmesg -T, journalctl -o short-iso or json, syslog, logcli -o jsonl, the
answer of Loki's query_range; rotated, and compressed by gzip, xz or bzip2.

A node is named by the lines, by what the user says (``NODE=FILE``), or by the names of the file and
its folder.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import orjson

from history.kernel_logs.lines import LogLine, of_journal, of_text
from history.kernel_logs.loki import in_answer, of_export
from history.site.series import SiteError

MAX_LINE_BYTES = 64 << 10  # longer ones are read in parts, which are no lines of the kernel
MAX_ANSWER_BYTES = 256 << 20  # of a saved answer, which is one document
PACKED: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
ZSTD, ANSWER = b"\x28\xb5\x2f\xfd", b'{"status"'
DAY_S = 86_400
_DATE = re.compile(r"[-.](20\d\d)-?(\d\d)-?(\d\d)(?=\D|$)")  # logrotate's dateext


def files_in(path: Path) -> list[Path]:
    """A file, or all below a folder. SiteError where there is none."""
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.is_file())
    else:
        found = [path] if path.is_file() else []
    if not found:
        raise SiteError(f"--kernel-log {path}: no such file, or an empty folder")
    return found


def read(path: Path, node: str = "") -> Iterator[LogLine]:
    """Lines of a file, ``node`` as the user named it. SiteError where it cannot be read."""
    named = (node,) if node else _names(path)
    try:
        with _opened(path) as file:
            yield from _lines(file, named, _until_ns(path))
    except (OSError, EOFError, zlib.error, lzma.LZMAError, SiteError) as error:
        raise SiteError(f"--kernel-log {path}: {error}") from None


def _opened(path: Path) -> IO[bytes]:
    """The text of a file, whatever logrotate packed it with."""
    with path.open("rb") as raw:
        head = raw.read(max(map(len, PACKED)))
    if head.startswith(ZSTD):
        raise SiteError("packed by zstd, which is not read: unpack it (zstd -d)")
    how = next((how for magic, how in PACKED.items() if head.startswith(magic)), open)
    return cast("IO[bytes]", how(path, "rb"))


def _lines(file: IO[bytes], named: tuple[str, ...], now_ns: int) -> Iterator[LogLine]:
    if document := _answer(file):
        yield from in_answer(document)
        return
    while raw := file.readline(MAX_LINE_BYTES):
        if raw.startswith(b"{"):
            entry = _json(raw)
            if entry is None:
                continue
            line = of_journal(entry, named) if "MESSAGE" in entry else of_export(entry)
        else:
            line = of_text(raw.decode("utf-8", "replace").rstrip("\r\n"), named, now_ns)
        if line is not None:
            yield line


def _answer(file: IO[bytes]) -> dict[str, Any] | None:
    """The document, where the file is an answer of Loki; None, at its begin, where it is lines, of
    which a program may have written one that looks so.
    """
    head = file.read(len(ANSWER))
    whole = head + file.read(MAX_ANSWER_BYTES) if head == ANSWER else b""
    if len(whole) > MAX_ANSWER_BYTES:
        raise SiteError(f"more than {MAX_ANSWER_BYTES >> 20} MiB in one answer: save shorter times")
    document = _json(whole)
    if document is None:
        file.seek(0)
    return document


def _json(raw: bytes) -> dict[str, Any] | None:
    try:
        made = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return made if isinstance(made, dict) else None


def _names(path: Path) -> tuple[str, ...]:
    """What may be the node's name: the file's, without its endings, and those of its folders."""
    stem = path.name.partition(".")[0]
    return (stem, path.stem, *(part for part in reversed(path.parts[:-1]) if part != "/"))


def _until_ns(path: Path) -> int:
    """No line of a file is newer: a rotated one has its date in its name, else its time."""
    if found := _DATE.search(path.name):
        try:
            day = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
            return round(day.timestamp() + DAY_S) * 10**9
        except ValueError:
            pass
    return path.stat().st_mtime_ns
