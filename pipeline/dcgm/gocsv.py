"""CSV as Go's encoding/csv reads it: counters files that dcgm-exporter takes are taken, the
others fail with its words.

Rules: package documentation of encoding/csv; comment character ``#``, no lazy quotes, no trimming.
"""

from __future__ import annotations

from typing import NamedTuple


class CsvError(ValueError):
    """A file that encoding/csv refuses; the text is Go's, line and column count from 1."""


class Record(NamedTuple):
    """One record and the line it begins on, counted from 1."""

    fields: list[str]
    line: int


def read(text: str) -> list[Record]:
    r"""All records. The first fixes how many fields the others must have.

    >>> read('# no record\nA,b\n\n"x,y",z\n')
    [Record(fields=['A', 'b'], line=2), Record(fields=['x,y', 'z'], line=4)]
    """
    reader = _Reader(text)
    records: list[Record] = []
    while (record := reader.record()) is not None:
        if records and len(record.fields) != len(records[0].fields):
            raise CsvError(f"record on line {record.line}: wrong number of fields")
        records.append(record)
    return records


class _Reader:
    def __init__(self, text: str) -> None:
        lines = text.replace("\r\n", "\n").split("\n")
        self._lines = [
            *(line + "\n" for line in lines[:-1]),
            *(line for line in lines[-1:] if line),
        ]
        self._next = 0

    def record(self) -> Record | None:
        while (line := self._line()) is not None:
            if line.startswith("#") or not line.rstrip("\n"):
                continue
            start = self._next
            return Record(self._fields(line, start), start)
        return None

    def _line(self) -> str | None:
        if self._next == len(self._lines):
            return None
        self._next += 1
        return self._lines[self._next - 1]

    def _fields(self, line: str, start: int) -> list[str]:
        fields: list[str] = []
        at = 0
        while True:
            if not line.startswith('"', at):
                end = line.find(",", at)
                field = (line[at:] if end < 0 else line[at:end]).removesuffix("\n")
                if '"' in field:
                    raise CsvError(
                        self._said(
                            start,
                            _column(line, at + field.index('"')),
                            'bare " in non-quoted field',
                        )
                    )
                fields.append(field)
            else:
                field, line, end = self._quoted(line, at + 1, start)
                fields.append(field)
            if end < 0:
                return fields
            at = end + 1

    def _quoted(self, line: str, at: int, start: int) -> tuple[str, str, int]:
        """The field, the line it ended on, and where the comma after it is (-1
        at the end of the record).
        """
        field = ""
        while True:
            quote = line.find('"', at)
            if quote < 0:
                field += line[at:]
                more = self._line()
                if more is None:
                    raise CsvError(
                        self._said(
                            start,
                            _column(line, len(line)),
                            'extraneous or missing " in quoted-field',
                        )
                    )
                line, at = more, 0
                continue
            field += line[at:quote]
            after = line[quote + 1 : quote + 2]
            if after == '"':
                field += '"'
                at = quote + 2
            elif after == ",":
                return field, line, quote + 1
            elif after in ("", "\n"):
                return field, line, -1
            else:
                raise CsvError(
                    self._said(
                        start, _column(line, quote), 'extraneous or missing " in quoted-field'
                    )
                )

    def _said(self, start: int, column: int, what: str) -> str:
        at = f"parse error on line {self._next}, column {column}: {what}"
        return at if start == self._next else f"record on line {start}; {at}"


def _column(line: str, index: int) -> int:
    """Go counts columns in bytes, from 1."""
    return len(line[:index].encode()) + 1
