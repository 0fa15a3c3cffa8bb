"""The table of the lines that matter, one row per class, and how a line finds its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.sources.kmsg.classes import (
    filesystems,
    kernel,
    memory,
    network,
    nvidia,
    pci,
    storage,
)
from collector.sources.kmsg.classes.model import COMM, NAME, PCI, LineClass

CLASSES: tuple[LineClass, ...] = (
    *nvidia.CLASSES,
    *network.CLASSES,
    *pci.CLASSES,
    *memory.CLASSES,
    *kernel.CLASSES,
    *storage.CLASSES,
    *filesystems.CLASSES,
)
# Attributes that are numbers.
NUMBERS = frozenset(
    [
        "bank",
        "code",
        "cpu",
        "errors",
        "limit",
        "link",
        "pid",
        "port",
        "queue",
        "records",
        "seconds",
        "switch",
    ]
)

WORDS: dict[str, str] = {  # the kernel's spellings of one thing, in ours
    "CE": "corrected",
    "Corrected": "corrected",
    "Correctable": "corrected",
    "Deferred": "uncorrected",
    "UE": "uncorrected",
    "Uncorrected": "uncorrected",
    "System Fatal": "fatal",
    "Fatal": "fatal",
    "Non-fatal": "nonfatal",
    "Nonfatal": "nonfatal",
    "Uncorrected (Fatal)": "fatal",
    "Uncorrectable (Fatal)": "fatal",
    "Uncorrected (Non-Fatal)": "nonfatal",
    "Uncorrectable (Non-Fatal)": "nonfatal",
    "Physical Layer": "physical",
    "Data Link Layer": "data link",
    "Transaction Layer": "transaction",
    "Inaccessible": "inaccessible",
    "Receiver ID": "receiver",
    "Transmitter ID": "transmitter",
    "Requester ID": "requester",
    "Completer ID": "completer",
    "Unregistered Agent ID": "unregistered",
    "Recovered": "recovered",
    "Failed": "failed",
    "Ignored": "ignored",
    "Delayed": "delayed",
    "Killing": "killed",
    "Sending SIGBUS to": "signalled",
    "Package": "package",
    "Core": "core",
    "DOWN": "down",
    "INIT": "init",
    "ARMED": "armed",
    "ACTIVE": "active",
    "medium": "medium error",
    "Medium Error": "medium error",
    "target": "target error",
    "EXT4": "ext4",
    "EXT3": "ext3",
    "EXT2": "ext2",
    "FAT": "fat",
    "F2FS": "f2fs",
}


class Index:
    """Rows by the first word of their lines, and those whose lines may begin with anything."""

    def __init__(self, classes: Sequence[LineClass]) -> None:
        words = {word for row in classes for word in row.first}
        self.by_word: Mapping[str, tuple[LineClass, ...]] = {
            word: tuple(row for row in classes if word in row.first) for word in words
        }
        needles = dict.fromkeys(row.needle for row in classes if not row.first)
        self.anywhere: tuple[tuple[str, tuple[LineClass, ...]], ...] = tuple(
            (needle, tuple(row for row in classes if not row.first and row.needle == needle))
            for needle in needles
        )


INDEX = Index(CLASSES)

__all__ = ["CLASSES", "COMM", "INDEX", "NAME", "NUMBERS", "PCI", "WORDS", "LineClass"]
