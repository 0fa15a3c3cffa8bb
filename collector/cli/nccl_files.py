"""Saved files about a job, of whatever kind: what each is, what was understood of it,
and what was not and why.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

from collector.nccl_settings.logs import LoggedSettings
from collector.sources.joblog.lines import Joiner
from collector.sources.joblog.match import hits
from collector.sources.nccl.ras.parse import looks_like_ras
from collector.sources.nccl.sanitize import FormatError
from collector.sources.nccl.saved import parse_saved
from pipeline.nccl.hit import Hit
from pipeline.nccl.report import Discard, Report, Teller

Kind = Teller | Literal[""]

HEAD = 4096
MAX_BYTES = 1 << 30  # of what is read whole; logs are read line by line and may be longer
MAX_LINE = 1 << 16  # bytes; what follows in the line is passed over
# lines of one log that say something; a stall of 1,024 ranks makes some ten thousand
MAX_HITS = 100_000
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Saved:
    """One file.

    ``report`` is None where it is a log, or was not understood: then ``discarded`` says why.
    """

    name: str
    kind: Kind = ""
    report: Report | None = None
    hits: tuple[Hit, ...] = ()
    parsed: dict[str, int] = field(default_factory=dict)
    discarded: tuple[Discard, ...] = ()

    @property
    def understood(self) -> bool:
        """Whether anything in it was of a known form."""
        return bool(self.kind)


def files_in(paths: Sequence[str]) -> list[str]:
    """The files that were meant: a folder stands for the files in it, by name; each once, by
    whatever path it is reached.
    """
    found: dict[Path | None, str] = {}
    for path in paths:
        if path == STANDARD_INPUT:
            found.setdefault(None, path)
        elif (inside := _inside(path)) is not None:
            for file in inside:
                found.setdefault(file.resolve(), str(file))
        else:
            found.setdefault(Path(path).resolve(), path)
    return list(found.values())


def is_missing(path: str) -> bool:
    """Whether there is no such file; one that may not be looked at is there, as reading it says."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _inside(path: str) -> list[Path] | None:
    """The files in a folder; None where it is none, or may not be listed."""
    try:
        return [file for file in sorted(Path(path).iterdir()) if file.is_file()]
    except (OSError, ValueError):
        return None


def read_saved(name: str, settings: LoggedSettings | None = None) -> Saved:
    """What a file holds; what a log says of NCCL's settings goes to ``settings``. What is wrong
    with it is said in ``discarded``; nothing raises.
    """
    try:
        with _opened(name) as file:
            head = file.read(HEAD)
            first = _document(name, head, file) if _is_document(head) else None
            if first is not None and first.understood:
                return first
            said = first.discarded if first else ()
            file.seek(0)
            log = _log(name, file, settings or LoggedSettings())
            return log if log.understood or first is None else Saved(name, discarded=said)
    except OSError as error:
        return Saved(name, discarded=(Discard("the whole file", error.strerror or str(error)),))


def _opened(name: str) -> BinaryIO:
    """A regular file, however it is reached; standard input is kept, so
    that it can be read twice.
    """
    if name == STANDARD_INPUT:
        import io  # noqa: PLC0415 - only for what is pasted

        return io.BytesIO(sys.stdin.buffer.read(MAX_BYTES))
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "not a regular file")
    return os.fdopen(fd, "rb")


def _is_document(head: bytes) -> bool:
    return head[:1] in (b"\x80", b"{", b"[") or looks_like_ras(head)


def _document(name: str, head: bytes, file: BinaryIO) -> Saved:
    data = head + file.read(MAX_BYTES + 1 - len(head))
    if len(data) > MAX_BYTES:
        return Saved(
            name, discarded=(Discard("the whole file", f"longer than {MAX_BYTES >> 20} MiB"),)
        )
    try:
        report = parse_saved(data, name)
    except FormatError as error:
        return Saved(name, discarded=(Discard("the whole file", str(error)),))
    if report.teller == "flight_recorder" and name != STANDARD_INPUT:
        # a dump bears no time of its own
        report = replace(report, time_ns=Path(name).stat().st_mtime_ns)
    why = (Discard("the whole report", report.distrust),) if report.distrust else ()
    return Saved(name, report.teller, report, (), dict(report.parsed), (*why, *report.discarded))


def _log(name: str, file: BinaryIO, settings: LoggedSettings) -> Saved:
    joiner, found, lines, long, more, of_settings = Joiner(), list[Hit](), 0, 0, 0, 0
    for raw in _lines(file):
        lines += 1
        long += len(raw) > MAX_LINE
        line = joiner.add(raw[:MAX_LINE].decode(errors="replace"))
        of_settings += line is not None and settings.add(line)
        for hit in hits(line, name) if line else ():
            if len(found) < MAX_HITS:
                found.append(hit)
            else:
                more += 1
    discards = (
        [Discard("lines", f"only their first {MAX_LINE} bytes were read", long)] if long else []
    )
    discards += [Discard("matching lines", f"after the first {MAX_HITS}", more)] if more else []
    if not found and not of_settings:
        discards.append(Discard("the whole file", "no line of it says anything about a stall"))
    return Saved(
        name,
        "log" if found or of_settings else "",
        None,
        tuple(found),
        {"line": lines, "match": len(found)} | ({"setting": of_settings} if of_settings else {}),
        tuple(discards),
    )


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines, of which one without end costs no more memory than any other; one that was cut is
    longer than ``MAX_LINE``.
    """
    while raw := file.readline(MAX_LINE + 1):
        rest = raw
        while (
            not rest.endswith(b"\n")
            and len(rest) > MAX_LINE
            and (rest := file.readline(MAX_LINE + 1))
        ):
            pass
        yield raw
