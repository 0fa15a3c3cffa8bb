"""What still has to leave this node: a folder of hard links, so that it is known without
asking the object store.

``outbox/<page|routine>/<table>/date=.../hour=.../<file>`` is a link to a sealed file. Sealing makes
the link before it removes the segment, uploading removes it after the store has the object: a crash
between two steps repeats a step, and repeating is harmless, as a put of an existing name changes
nothing. A link keeps the bytes, so compaction and retention may remove the file itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.catalog import KINDS
from pipeline.store.files.layout import files_below, make_folder, sync_folder

FOLDER = "outbox"
Class = Literal["page", "routine"]


@dataclass(frozen=True, slots=True)
class Pending:
    """One file that waits: ``key`` is its name below the root and in the object
    store, ``path`` the link.
    """

    key: str
    path: Path
    urgency: Class
    size: int
    sealed_s: float  # unix time of the file's last change

    @property
    def table(self) -> str:
        """Name of its table."""
        return self.key.partition("/")[0]


def post(root: Path, files: Iterable[Path], *, page: bool) -> None:
    """Let sealed files below ``root`` wait, durably.

    Files of a segment that holds a page go before all others.
    """
    folders = set()
    for file in files:
        link = root / FOLDER / ("page" if page else "routine") / file.relative_to(root)
        make_folder(link.parent)
        link.unlink(missing_ok=True)
        try:
            os.link(file, link)
        except OSError:  # a file system without hard links, or too many of them
            shutil.copy2(file, link)
        folders.add(link.parent)
    for folder in folders:
        sync_folder(folder)


def waiting(root: Path) -> list[Pending]:
    """All that waits, in the order of sending: segments of pages newest first, then
    the others oldest first.

    Of one segment, what happened and what was found (small) goes before the
    measurements (the bulk).
    """
    found = sorted(_files(root / FOLDER), key=lambda p: p.table in KINDS)
    pages = sorted((p for p in found if p.urgency == "page"), key=_age, reverse=True)
    return pages + sorted((p for p in found if p.urgency == "routine"), key=_age)


def least_valuable(found: Iterable[Pending]) -> list[Pending]:
    """The order in which files are given up when too much waits, oldest first in each class.

    First routine measurements (they are the bulk), then routine events, findings and reads, last
    whatever belongs to a page.
    """
    return sorted(found, key=lambda p: (p.urgency == "page", p.table not in KINDS, *_age(p)))


def done(pending: Pending) -> None:
    """It need not wait any longer: the store has it, or it was given up."""
    pending.path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty, or another link was just put there
        pending.path.parent.rmdir()


def still_pending(root: Path) -> Callable[[Path], bool]:
    """Whether a sealed file still waits for its upload: for the decision what to delete."""
    keys = {p.key for p in _files(root / FOLDER)}
    return lambda file: file.is_relative_to(root) and file.relative_to(root).as_posix() in keys


def _files(outbox: Path) -> Iterator[Pending]:
    urgencies: tuple[Class, ...] = ("page", "routine")
    for urgency in urgencies:
        for path in files_below(outbox / urgency):
            key = path.relative_to(outbox / urgency)
            if not key.match("*/date=*/hour=*/*.parquet"):
                continue
            with contextlib.suppress(FileNotFoundError):  # sent meanwhile
                stat = path.stat()
                yield Pending(key.as_posix(), path, urgency, stat.st_size, stat.st_mtime)


def _age(pending: Pending) -> tuple[str, str]:
    """Oldest first: the hour its rows lie in, then the file's name, which ends in the number
    of its first observation.
    """
    hour, name = pending.key.split("/", 1)[1].rsplit("/", 1)
    return hour, name
