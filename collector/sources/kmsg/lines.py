"""The lines of a file that holds a kernel log, to records: one record may be spread over several
lines, and the time of a line may be known only from the lines before.
"""

from __future__ import annotations

import re

from collector.sources.kmsg.blocks import Blocks
from collector.sources.kmsg.records import MAX_TEXT, Record, clean, parse_record
from collector.sources.kmsg.spellings import Kind, Line, parse_head

MAX_REPEATS = 1000  # records that one line "message repeated" of a syslog daemon stands for
SAMPLE = 80  # characters shown of a line that is not understood

_CONTINUATION = re.compile(rb" [A-Z_]{1,32}=")  # the device dictionary of /dev/kmsg
_COLOURS = re.compile(rb"\x1b\[[0-9;]{0,16}m")  # dmesg --color, -H
_ESCAPED = re.compile(r"#0(?:11|12|15)")  # control characters as rsyslog writes them
_REPEATED = re.compile(r"message repeated (\d{1,9}) times: \[ ?(.{1,8000}?)\]?$", re.DOTALL)
_BLANK, _DIGITS = ord(" "), b"0123456789"
_BLOCKS = b"{_\x1edMTWFS"  # how JSON, export and verbose entries (a weekday) begin
_LIKE_KERNEL = re.compile(r"[\w.,/#@+ ()\[\]:-]{1,80}?[:\]] ")


class Lines:
    """Takes the lines of one file in order; gives the records that each completes.

    ``unread`` counts lines in a format that is not understood; ``example`` is the first.
    """

    def __init__(self) -> None:
        self.unread = 0
        self.example = ""
        self._held: list[Record] = []  # the record to which a continuation would belong
        self.begin()

    def begin(self) -> None:
        """Another file begins, such as after a rotation; what is held or counted stays."""
        self._number = 0  # of lines taken
        self._blocks = Blocks()
        self._base_ns = 0  # wall time of the line before, where lines are stamped relative to it
        self._headed = False  # some line had a head: one without is no line of this file
        self._like_kernel = False  # some line without a head was like one of the kernel
        self._bare: tuple[int, str] = (0, "")  # bare lines while there was none, and the first

    def feed(self, raw: bytes, now_ns: int, seq: int = -1) -> list[Record]:
        """The records that are complete with this line.

        ``seq`` numbers those that have no number of their own.
        """
        self._number += 1
        if self._blocks.open:
            return self._block(raw, self._blocks.take(raw), seq)
        if not raw or (raw[0] == _BLANK and _CONTINUATION.match(raw)):
            return []
        if raw[0] in _DIGITS and (record := parse_record(raw)):
            self._headed = True
            return [*self.flush(), record]
        if raw[0] in _BLOCKS and (records := self._blocks.start(raw)) is not None:
            return [*self.flush(), *self._block(raw, records, seq)]
        text = clean(_COLOURS.sub(b"", raw) if b"\x1b[" in raw else raw).rstrip()
        if self._number == 1:
            text = text.removeprefix("\ufeff")
        return self._line(text, now_ns, seq) if text else []

    @property
    def held(self) -> int:
        """How many records ``flush`` would give."""
        return len(self._held)

    def continues(self, raw: bytes) -> bool:
        """Whether a line belongs to the record that is held."""
        return bool(self._held) and raw[:1] in (b" ", b"\t")

    def flush(self) -> list[Record]:
        """The last record, to which no further line belongs."""
        held, self._held = self._held, []
        return held

    def finish(self) -> list[Record]:
        """What the end of the file completes. Bare lines of which none is like the kernel's are
        not understood.
        """
        records = [*self.flush(), *self._block(b"", self._blocks.finish(), -1)]
        (count, example), self._bare = self._bare, (0, "")
        if not self._headed and count:
            self._not_understood(example, count)
        return records

    def _block(self, raw: bytes, records: list[Record], seq: int) -> list[Record]:
        if self._blocks.unread:
            self._not_understood(clean(raw), self._blocks.unread)
            self._blocks.unread = 0
        self._headed |= bool(records)
        return [record._replace(seq=seq) for record in records]

    def _line(self, text: str, now_ns: int, seq: int) -> list[Record]:
        line = parse_head(text, now_ns, seq)
        if line.kind is Kind.HEADED:
            self._headed = True
        elif self._held and text[0] in " \t":
            self._extend(text.strip())
            return []
        elif line.kind is Kind.NOTE or text in ("[", "]"):  # remarks; the ends of a JSON array
            return []
        elif line.kind is Kind.FOREIGN or self._headed:
            self._not_understood(text)
            return []
        else:
            self._note_bare(text)
        complete, self._held = self._held, self._repeated(self._timed(line))
        return complete

    def _timed(self, line: Line) -> Record:
        record = line.record
        if record.time_ns:
            self._base_ns = record.time_ns
        elif line.since_last_usec >= 0 and self._base_ns:
            self._base_ns += line.since_last_usec * 1000
            return record._replace(time_ns=self._base_ns)
        return record

    def _repeated(self, record: Record) -> list[Record]:
        """As many records as a syslog daemon says there were, with newlines as they were."""
        if "#0" in record.text and record.time_ns:
            record = record._replace(text=_ESCAPED.sub(_control, record.text))
        if not record.text.startswith("message repeated "):
            return [record]
        match = _REPEATED.match(record.text)
        return (
            [record._replace(text=match[2])] * min(int(match[1]), MAX_REPEATS)
            if match
            else [record]
        )

    def _extend(self, text: str) -> None:
        last = self._held[-1]
        if len(last.text) < MAX_TEXT:
            self._held[-1] = last._replace(text=f"{last.text}\n{text}"[:MAX_TEXT])

    def _note_bare(self, text: str) -> None:
        if _LIKE_KERNEL.match(text):
            self._bare, self._like_kernel = (0, ""), True
        elif not self._like_kernel:
            self._bare = self._bare[0] + 1, self._bare[1] or text

    def _not_understood(self, text: str, lines: int = 1) -> None:
        self.unread += lines
        self.example = self.example or f"line {self._number}: {text[:SAMPLE]!r}"


def _control(match: re.Match[str]) -> str:
    return "\n" if match[0] == "#012" else " "
