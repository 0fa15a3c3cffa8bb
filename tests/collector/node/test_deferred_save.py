"""A document saved behind a queue: the newest one, once, and again where the disk refused."""

from __future__ import annotations

from typing import Any

from collector.node.deferred_save import DeferredSave


class Disk:
    """Keeps what it saved; refuses while ``full``."""

    def __init__(self) -> None:
        self.saved: list[dict[str, Any]] = []
        self.full = False

    def save(self, document: dict[str, Any]) -> bool:
        """Whether it was kept."""
        if not self.full:
            self.saved.append(document)
        return not self.full


def test_the_newest_document_is_saved_once() -> None:
    """One that was replaced before the write is not."""
    disk = Disk()
    file = DeferredSave("counts", disk.save)
    file.put({"n": 1})
    file.put({"n": 2})
    file.write()
    file.write()
    assert disk.saved == [{"n": 2}]


def test_what_the_disk_refused_is_saved_later() -> None:
    """Without another put."""
    disk = Disk()
    file = DeferredSave("counts", disk.save)
    disk.full = True
    file.put({"n": 1})
    file.write()
    disk.full = False
    file.write()
    assert disk.saved == [{"n": 1}]


def test_a_newer_document_wins_over_one_that_was_refused() -> None:
    """The old one does not come back."""
    disk = Disk()
    file: DeferredSave

    def refuse(_: dict[str, Any]) -> bool:
        file.put({"n": 2})
        return False

    file = DeferredSave("counts", refuse)
    file.put({"n": 1})
    file.write()
    file._save = disk.save
    file.write()
    assert disk.saved == [{"n": 2}]
