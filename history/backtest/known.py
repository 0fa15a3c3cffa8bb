"""What a site knew of its faults: drains, tickets, repairs, as a CSV file of the site's making."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from collector.config.error import ConfigError
from pipeline.clock import SECOND_NS

COLUMNS = ("node", "opened", "closed", "cause")
# An alert before the site's own entry still belongs to it: tickets are opened hours late.
EARLY_NS = 24 * 3600 * SECOND_NS
MAX_BYTES = 64 << 20
MILLISECONDS = 1e11  # the year 5138 in seconds, 1973 in milliseconds


@dataclass(frozen=True, slots=True)
class Known:
    """A fault that the site knew: times are unix ns, ``closed_ns`` 0 while it is open; ``source``
    is who said so: ticket, slurm, kubernetes, reboot, label, or alert (a rule of the site's own).
    """

    node: str
    opened_ns: int
    closed_ns: int
    cause: str
    source: str = "ticket"


def read(path: Path) -> list[Known]:
    """The entries of a file, by time. ConfigError with file, line and column of what is wrong."""
    found = [row_of(row, where) for where, row in read_rows(path)]
    return sorted(found, key=lambda one: (one.opened_ns, one.node))


def read_rows(
    path: Path, needed: Sequence[str] = COLUMNS[:2]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a CSV file with the columns that are ``needed``, none of them cut short, and where
    each is; without blanks around cells, and without a spreadsheet's empty rows. ConfigError.
    """
    # no other ends of lines than csv's own: free text may hold what str.splitlines takes for one
    rows = csv.DictReader(io.StringIO(text_of(path), newline=""))
    missing = [name for name in needed if name not in (rows.fieldnames or ())]
    if missing:
        wanted = ", ".join(COLUMNS if set(needed) <= set(COLUMNS) else needed)
        raise ConfigError(f"{path}: no column {missing[0]!r}; expected {wanted}")
    try:
        for row in rows:
            cells = {k: (v or "").strip() for k, v in row.items() if k}
            if any(cells.values()):
                yield f"{path}, line {rows.line_num}", cells
    except csv.Error as error:
        raise ConfigError(f"{path}, line {rows.line_num}: {error}") from None


def text_of(path: Path) -> str:
    """The text of a file that is not too large. ConfigError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def row_of(row: Mapping[str, str], where: str) -> Known:
    """An entry of a row. ConfigError."""
    if not row["node"]:
        raise ConfigError(f"{where}: node: empty")
    opened = _time(row["opened"], f"{where}: opened")
    closed = _time(row["closed"], f"{where}: closed") if row.get("closed") else 0
    if closed and closed < opened:
        raise ConfigError(f"{where}: closed: before opened")
    return Known(row["node"], opened, closed, row.get("cause", ""))


def _time(text: str, where: str) -> int:
    """Unix seconds, or a time; without a zone UTC is meant."""
    try:
        if text.replace(".", "", 1).isdigit():
            seconds = float(text)
            if seconds >= MILLISECONDS:
                raise ValueError(text)
            return round(seconds * SECOND_NS)
        time = datetime.fromisoformat(text)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * SECOND_NS)
    except (ValueError, OverflowError):
        raise ConfigError(f"{where}: {text!r} is neither a time nor unix seconds") from None
