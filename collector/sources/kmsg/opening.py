"""Which way of reading the kernel log is to be had on this machine."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.sources.kmsg.device_reader import KMSG_DEVICE, DeviceReader, open_device
from collector.sources.kmsg.file_reader import FileReader
from collector.sources.kmsg.journal_reader import JournalReader, follow_arguments
from collector.sources.kmsg.reader import Reader, UnavailableError
from collector.sources.kmsg.untrusted_lines import SYSLOG
from pipeline.clock import Clock

KMSG = Path("/dev/kmsg")
# Debian's and Red Hat's syslog daemons
SYSLOG_FILES = (Path("/var/log/kern.log"), Path("/var/log/messages"))


def is_own_log(path: Path) -> bool:
    """Whether a path is this machine's own log: /dev/kmsg, or its device by another
    name, as in a container.
    """
    try:
        return path == KMSG or path.stat().st_rdev == KMSG_DEVICE
    except OSError:
        return False


Way = Callable[[Mapping[str, Any]], Reader]


class Opening:
    """Opens the log: ``path`` as a regular file or as the kernel's device, else the
    journal, else a syslog file.

    The journal and the syslog files of this machine stand in only for the machine's own
    ``/dev/kmsg`` (``stand_in``): who names another log gets that one or an error.
    """

    def __init__(
        self,
        boot_id: str,
        clock: Clock,
        path: Path = KMSG,
        *,
        saved: bool = False,
        stand_in: bool = True,
        journalctl: str = "journalctl",
        files: Sequence[Path] = SYSLOG_FILES,
        device: Callable[[Path], int] = open_device,
    ) -> None:
        self._boot_id = boot_id
        self._clock = clock
        self._path = path
        self._saved = saved
        self._stand_in = stand_in
        self._journalctl = journalctl
        self._files = files
        self._device = device
        self._skip_journal = False

    def open(self, places: Mapping[str, Any]) -> Reader:
        """A reader that goes on from the place of its mode, if there is one.

        UnavailableError names each way that was tried.
        """
        problems = []
        ways: tuple[Way, ...] = (
            (self._named, self._journal, *map(self._syslog, self._files))
            if self._stand_in
            else (self._named,)
        )
        for way in ways:
            try:
                return way(places)
            except UnavailableError as error:
                problems.append(str(error))
        raise UnavailableError("; ".join(problems))

    def failed(self, mode: str, places: dict[str, Any]) -> None:
        """A reader broke.

        A journal may have lost the cursor: next time without it, its kernel time keeps repeats out.

        The time after this one tries what comes after the journal.
        """
        if mode == "journal":
            place = places.get("journal", {})
            self._skip_journal = not place.get("cursor")
            places["journal"] = {name: value for name, value in place.items() if name != "cursor"}

    def _named(self, places: Mapping[str, Any]) -> Reader:
        try:
            regular = stat.S_ISREG(self._path.stat().st_mode)
        except OSError as error:
            raise UnavailableError(f"{self._path}: {error.strerror}") from error
        if regular:
            return FileReader(
                self._path, self._clock.time_ns, places.get("file"), saved=self._saved
            )
        return DeviceReader(self._device(self._path), self._boot_id, places.get("kmsg"))

    def _journal(self, places: Mapping[str, Any]) -> Reader:
        if self._skip_journal:
            self._skip_journal = False
            raise UnavailableError("the journal gave nothing")
        place = places.get("journal")
        return JournalReader(follow_arguments(self._journalctl, place), self._boot_id, place)

    def _syslog(self, file: Path) -> Way:
        return lambda places: FileReader(
            file, self._clock.time_ns, places.get(SYSLOG, places.get("file")), mode=SYSLOG
        )
