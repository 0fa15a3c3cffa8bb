"""Slow facts of the host that judging needs: boot, kernel, drivers, memory, and how far
the wall clock may be off.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from collector.sources.adjtimex import Discipline
from collector.sources.adjtimex import read as read_discipline
from collector.sources.services import running
from pipeline.catalog import facts_of, fields_of
from pipeline.clock import Clock, instant
from pipeline.frame import Device, frame_of
from pipeline.observation import Reading, Unread

log = logging.getLogger("tocsin.host")

MAX_BYTES = 1 << 20  # /proc/stat of a machine with thousands of interrupts is a few hundred kB
MAX_FACT = 128


class HostSource:
    """Reads below ``proc`` and ``sysfs``.

    A file that is not there is a fact this machine does not have; others are reasons.
    """

    name = "host"

    def __init__(
        self,
        proc: Path,
        sysfs: Path,
        host: str,
        clock: Clock,
        *,
        discipline: Callable[[], Discipline] = read_discipline,
    ) -> None:
        self._roots = {"proc": proc, "sys": sysfs}
        self._host = host
        self._clock = clock
        self._discipline = discipline
        self._synchronised: bool | None = None

    def read(self) -> Reading:
        """One node, its gauges and its facts."""
        time_ns, mono_ns = instant(self._clock)
        unread: list[Unread] = []
        facts = {
            row.name: self._fact(row.name, row.read, unread) for row in facts_of("node") if row.read
        }
        values: dict[str, float | int | None] = {}
        for row in fields_of("node"):
            if row.read.startswith("/"):
                values[row.name] = self._number(row.name, row.read, unread)
            elif row.read.startswith("cgroup "):
                values[row.name] = self._running(row.name, row.read, unread)
        try:
            values.update(self._clock_values())
        except OSError as error:
            unread.append(Unread(_reason(error), self._host, "clock_synchronised"))
        node = Device(self._host, "node", self._host, {k: v for k, v in facts.items() if v})
        return Reading((frame_of("node", [(node, values)], time_ns, mono_ns),), (), tuple(unread))

    def _clock_values(self) -> dict[str, float | int | None]:
        found = self._discipline()
        if found.synchronised is not self._synchronised:
            if not found.synchronised:
                log.warning(
                    "the wall clock is not synchronised: times of this node cannot be "
                    "compared with others'"
                )
            elif self._synchronised is not None:
                log.info("the wall clock is synchronised again")
            self._synchronised = found.synchronised
        return {
            "clock_offset_nanoseconds": found.offset_ns,
            "clock_maximum_error_microseconds": found.maximum_error_us,
            "clock_synchronised": float(found.synchronised),
        }

    def _fact(self, name: str, path: str, unread: list[Unread]) -> str:
        line = self._text(name, path, unread).partition("\n")[0].strip()
        return "".join(c for c in line if c.isprintable())[:MAX_FACT]

    def _number(self, name: str, read: str, unread: list[Unread]) -> int | None:
        """The number after a word at the beginning of a line: ``/proc/stat btime``; of two words
        the second names it: ``/proc/pressure/io some total``.
        """
        path, word, *which = read.split(" ")
        text = self._text(name, path, unread)
        if not text:
            return None
        for line in text.splitlines():
            key, *rest = line.replace(":", " ").split() or [""]
            if which:
                rest = [one.partition("=")[2] for one in rest if one.startswith(f"{which[0]}=")]
            if key == word and rest and rest[0].isdecimal() and len(rest[0]) < 20:
                return int(rest[0])
        unread.append(Unread("garbage", self._host, name))
        return None

    def _running(self, name: str, read: str, unread: list[Unread]) -> float | None:
        """Whether a service has a process: ``cgroup nvidia-fabricmanager.service``."""
        try:
            return running(self._roots["sys"], read.partition(" ")[2])
        except OSError as error:
            unread.append(Unread(_reason(error), self._host, name))
            return None

    def _text(self, name: str, path: str, unread: list[Unread]) -> str:
        """A file's text, empty where there is none; a reason where it cannot be read."""
        _, root, *parts = path.split("/")
        try:
            with open(self._roots[root].joinpath(*parts), "rb", opener=_open) as file:
                return file.read(MAX_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            unread.append(Unread(_reason(error), self._host, name))
            return ""


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO in a saved tree must not hold the reader


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "EIO")
