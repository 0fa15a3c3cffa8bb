"""A slice of the store as one file to hand on: the history of a device or an incident, readable
without Tocsin.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.catalog import KINDS
from pipeline.store.export.redact import Redaction, job_names, process_names
from pipeline.store.export.subject import NothingToExportError, Subject
from pipeline.store.export.text import from_us, kernel_lines, moment, readme, timeline
from pipeline.store.files.layout import write_whole
from pipeline.store.files.live import TRIES
from pipeline.store.files.parquet import Writer
from pipeline.store.files.schema import TABLES
from pipeline.store.files.slice import Slice, one_of

log = logging.getLogger("tocsin.export")

# rows of the whole node go along
NODE_TABLES = ("node", "events", "findings", "incidents", "devices", "reads")
# of no use in the timeline, and most of the bytes
_LEFT_OUT = {"reads": ["frames", "unread"]}
OLD = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: equal contents give equal files


@dataclass(slots=True)
class Exported:
    """What was written, for the caller's report: rows by table, hosts, and files of the store that
    could not be read.
    """

    subject: Subject
    rows: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def export(
    root: Path, subject: Subject, target: Path, *, version: str, now_us: int, redact: bool = False
) -> Exported:
    """Write ``target`` (a zip) from the store below ``root``.

    NothingToExportError where no row belongs to the subject.
    """
    rows = Slice(root, subject.window)
    redaction = None
    if redact:
        events, incidents = (rows.table(n, _where(subject, n)) for n in ("events", "incidents"))
        redaction = Redaction(process_names(events), job_names(events, incidents))
    done = Exported(subject, left_out=rows.left_out)
    with tempfile.TemporaryDirectory(prefix="tocsin-export-") as scratch:
        folder = Path(scratch)
        small = _tables(rows, subject, folder / "tables", redaction, done)
        if not done.rows:
            raise NothingToExportError(f"the store holds nothing of {subject.title} in that time")
        made = _made(version, now_us, subject, redact=redact)
        (folder / "timeline.txt").write_text(timeline(small), encoding="utf-8")
        (folder / "kernel.log").write_text(kernel_lines(small.get("events")), encoding="utf-8")
        about = readme(
            [(k, v) for k, v in made.items() if v],
            _newest(small.get("devices"), subject),
            done.rows,
            redacted=redact,
        )
        (folder / "README.txt").write_text(about, encoding="utf-8")
        _manifest(folder, made, done.rows)
        write_whole(target, lambda path: _zip(folder, path, target.stem))
    return done


def tables_of(subject: Subject) -> list[str]:
    """Tables that may hold rows of a subject: its own kinds of device, and what
    concerns the whole node.
    """
    return [table for table in TABLES if table in (*subject.kinds, *NODE_TABLES)]


def _where(subject: Subject, table: str) -> pc.Expression | None:
    """Which rows of a table belong to the subject."""
    if subject.devices and table not in NODE_TABLES:
        return one_of("device", subject.devices)
    return one_of("host", subject.hosts) if subject.hosts else None


def _tables(
    rows: Slice, subject: Subject, folder: Path, redaction: Redaction | None, done: Exported
) -> dict[str, pa.Table]:
    """Write every table that has rows; the small ones are given back."""
    folder.mkdir()
    small = {}
    for table in tables_of(subject):
        written = _table(rows, subject, table, folder / f"{table}.parquet", redaction)
        if written is not None:
            done.rows[table], kept = written
            if table not in KINDS:
                small[table] = pa.concat_tables(kept).unify_dictionaries()
    return small


def _table(
    rows: Slice, subject: Subject, table: str, path: Path, redaction: Redaction | None
) -> tuple[int, list[pa.Table]] | None:
    """Write one table piece by piece; number of rows, and the pieces where
    they are not measurements.

    None where there is no row.
    """
    for _ in range(TRIES):
        count, kept = 0, []
        try:
            with Writer(table, path) as file:
                for part in rows.parts(table, _where(subject, table)):
                    if len(part):
                        piece = redaction.table(table, part) if redaction else part
                        file.write(piece)
                        count += len(piece)
                        kept += (
                            [piece.drop_columns(_LEFT_OUT.get(table, []))]
                            if table not in KINDS
                            else []
                        )
        except FileNotFoundError:  # replaced by a compacted one while it was read
            continue
        if not count:
            path.unlink()
            return None
        return count, kept
    raise FileNotFoundError(f"table {table}: its files keep changing")


def _made(version: str, now_us: int, subject: Subject, *, redact: bool) -> dict[str, str]:
    """What the export is and where it comes from."""
    return {
        "subject": subject.title,
        "from": moment(from_us(subject.window.since_us)),
        "until": moment(from_us(subject.window.until_us)),
        "hosts": ", ".join(subject.hosts),
        "made": moment(from_us(now_us)),
        "made_by": f"tocsin {version} (pyarrow {pa.__version__})",
        "redacted": "yes" if redact else "no",
    }


def _newest(devices: pa.Table | None, subject: Subject) -> list[dict[str, Any]]:
    """The last row of slow facts of each device of the subject, and of its hosts themselves.

    Parts (``<device>/<part>``) are in the table only.
    """
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted([] if devices is None else devices.to_pylist(), key=lambda r: r["time"]):
        concerned = not subject.devices or row["device"] in subject.devices or row["kind"] == "node"
        if concerned and "/" not in row["device"]:
            newest[row["kind"], row["device"]] = row
    return [newest[key] for key in sorted(newest)]


def _manifest(folder: Path, made: Mapping[str, str], rows: Mapping[str, int]) -> None:
    """Names, sizes, rows and sums of all files; the sums once more, with that of the manifest,
    as sha256sum takes them.
    """
    sums = _sums(folder)
    files: list[dict[str, Any]] = []
    for name, digest in sums.items():
        entry: dict[str, Any] = {
            "name": name,
            "bytes": (folder / name).stat().st_size,
            "sha256": digest,
        }
        files.append(entry | ({"rows": rows[Path(name).stem]} if name.endswith(".parquet") else {}))
    text = json.dumps({**made, "files": files}, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    lines = [f"{digest}  {name}\n" for name, digest in _sums(folder).items()]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file by name."""
    sums = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(
                file, "sha256"
            ).hexdigest()
    return sums


def _zip(folder: Path, target: Path, stem: str) -> None:
    """All files below one folder named after the archive; tables are compressed already."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(f"{stem}/{path.relative_to(folder).as_posix()}", OLD)
            entry.compress_type = (
                zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
            )
            entry.external_attr = 0o644 << 16
            # one may be larger than the old form of a zip has room for
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as out:
                while chunk := file.read(1 << 20):
                    out.write(chunk)
