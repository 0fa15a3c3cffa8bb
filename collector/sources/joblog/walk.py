"""The names that a pattern gives, one at a time, whatever users have put into its folders: a folder
of a million names takes no memory, and no link is followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import translate

MAX_OF_A_USER = 10_000  # names of a folder in which only a user may make any
_OTHERS = 0o022  # stat.S_IWGRP | S_IWOTH: others may, too
_MAGIC = re.compile(r"[*?\[]")


def walk(
    pattern: str,
    closed: Collection[str] = (),
    enter: Callable[[str], None] = lambda folder: None,  # noqa: ARG005 - nobody is blamed
) -> Iterator[str]:
    """Paths that match, and "" for each name that does not: the caller can stop anywhere and go
    on later. ``closed`` are folders and files that are not touched; ``enter`` is called before each
    folder is opened.
    """
    parts = pattern.split("/")
    fixed = next((n for n, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    folder = "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ".")
    if not any(folder == place or folder.startswith(f"{place}/") for place in closed):
        yield from _below(folder, parts[fixed:], closed, enter)


def _below(
    folder: str, parts: Sequence[str], closed: Collection[str], enter: Callable[[str], None]
) -> Iterator[str]:
    """What a folder holds; those below it when all of it was seen."""
    wanted = re.compile(translate(parts[0]))
    hidden = parts[0].startswith(".")
    inner: list[str] = []
    enter(folder)
    try:
        entries = os.scandir(folder)
        status = os.stat(folder)  # noqa: PTH116 - as text: thousands of names
    except OSError:
        return
    own = status.st_uid != 0 and not status.st_mode & _OTHERS
    with entries:
        for number, entry in enumerate(entries):
            if own and number >= MAX_OF_A_USER:
                break
            path = f"{folder.rstrip('/')}/{entry.name}"
            fits = (hidden or not entry.name.startswith(".")) and wanted.match(entry.name)
            last = len(parts) == 1
            yield path if fits and last and path not in closed else ""
            if fits and not last and path not in closed and _is_folder(entry):
                inner.append(path)
    for path in inner:
        yield from _below(path, parts[1:], closed, enter)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
