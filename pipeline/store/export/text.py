"""The texts of an export: its README, the timeline, and the kernel's own lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pipeline.catalog import KINDS, fields_of
from pipeline.severities import shown_severity
from pipeline.store.files.schema import FORMAT, schema


def plain(text: str) -> str:
    r"""A text in one line: whatever a terminal would obey is spelt out.

    >>> plain("a\x1b[31m\nb é")
    'a\\x1b[31m\\nb é'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(time: datetime) -> str:
    """UTC to the microsecond."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%fZ")


def from_us(time_us: int) -> datetime:
    """Unix time in microseconds as a datetime."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(
        microsecond=time_us % 1_000_000
    )


def timeline(tables: Mapping[str, pa.Table]) -> str:
    """Events, findings and changes in what could be read, oldest first, one line each."""
    lines = [
        *_events(tables.get("events")),
        *_findings(tables.get("findings")),
        *_reads(tables.get("reads")),
    ]
    return "".join(
        f"{moment(time)}  {plain(host)}  {plain(device)}  {plain(text)}\n"
        for time, host, device, text in sorted(lines)
    )


def kernel_lines(events: pa.Table | None) -> str:
    """What the kernel printed, as far as it concerned the hardware, oldest first."""
    lines = []
    for row in _rows(events):
        attributes = orjson.loads(row["attributes"])
        if "text" in attributes:
            times = f" (x{attributes['count']})" if "count" in attributes else ""
            lines.append(
                (
                    row["time"],
                    row["host"],
                    attributes.get("origin", "?"),
                    f"{attributes['text']}{times}",
                )
            )
    return "".join(
        f"{moment(t)}  {plain(h)}  {plain(str(o))}  {plain(text)}\n"
        for t, h, o, text in sorted(lines)
    )


def readme(
    facts: Sequence[tuple[str, str]],
    devices: Iterable[Mapping[str, Any]],
    files: Mapping[str, int],
    *,
    redacted: bool,
) -> str:
    """What the archive holds, in plain words.

    ``facts`` come first; ``files`` are tables with their rows.
    """
    parts = [
        "Readings of GPU and network hardware, kept by Tocsin and cut out to be handed on.",
        _pairs(facts),
        (
            "Devices (slow facts as last read; those of their parts are in "
            "tables/devices.parquet)\n\n"
        )
        + "\n\n".join(_device(d) for d in devices),
        _contents(files, redacted=redacted),
        UNITS,
        *(_schema(name) for name in files),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


UNITS = f"""\
How to read the tables

They are Apache Parquet files (any version of pandas, polars, DuckDB or Spark reads them). Times are UTC with microseconds. Values are
as the hardware gave them; the unit is the last word of a column's name (power_milliwatts, energy_millijoules). An empty value was
not observed; a zero is a zero. Counters never fall unless the hardware, its driver or firmware reset them. Every table begins with:
time, host, device (UUID of a GPU, GUID of a port), boot_id (boot of the host), mono_ns (the host's monotonic clock) and seq (number
of the reading). The layout's version is {FORMAT}."""  # noqa: E501 - text as it is used


def _events(rows: pa.Table | None) -> Iterable[tuple[datetime, str, str, str]]:
    for row in _rows(rows):
        attributes = " ".join(
            f"{k}={v}"
            for k, v in orjson.loads(row["attributes"]).items()
            if k not in ("stream", "last_time_ns")
        )
        yield row["time"], row["host"], row["device"], f"event {row['kind']} {attributes}".rstrip()


def _findings(rows: pa.Table | None) -> Iterable[tuple[datetime, str, str, str]]:
    for row in _rows(rows):
        text = (
            f"finding {row['id']} {row['phase']} [{shown_severity(row['severity'])}] "
            f"{row['detector']}: {row['summary']}"
        )
        text += f" Since {moment(row['onset'])}. Proposed: {row['action']}."
        text += "".join(f" Evidence: {e}." for e in row["evidence"] or ())
        yield row["time"], row["host"], row["device"], text


def _reads(rows: pa.Table | None) -> Iterable[tuple[datetime, str, str, str]]:
    """Reads whose outcome differs from that of the read before them; a
    source is taken to begin well.
    """
    if rows is None:
        return
    host, source, outcome = (_codes(rows[name]) for name in ("host", "source", "outcome"))
    order = np.lexsort((rows["seq"].to_numpy(), rows["time"].to_numpy(), source, host))
    well = rows["outcome"].to_numpy(zero_copy_only=False)[order] == "ok"
    first = np.r_[
        True, (host[order][1:] != host[order][:-1]) | (source[order][1:] != source[order][:-1])
    ]
    changed = np.where(first, ~well, np.r_[False, outcome[order][1:] != outcome[order][:-1]])
    for row in rows.take(pa.array(order[changed])).to_pylist():
        yield (
            row["time"],
            row["host"],
            row["device"],
            f"read {row['source']} {row['outcome']} {row['error']}".rstrip(),
        )


def _codes(column: pa.ChunkedArray) -> Any:
    """A number per distinct value."""
    return column.cast(pa.string()).combine_chunks().dictionary_encode().indices.to_numpy()


def _rows(rows: pa.Table | None) -> list[dict[str, Any]]:
    return [] if rows is None else rows.to_pylist()


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{name + ':':<22}{plain(value)}" for name, value in pairs)


def _device(row: Mapping[str, Any]) -> str:
    attributes = orjson.loads(row["attributes"]).items()
    return _pairs(
        [
            (row["kind"], row["device"]),
            ("  host", row["host"]),
            *((f"  {k}", str(v)) for k, v in sorted(attributes)),
        ]
    )


def _contents(files: Mapping[str, int], *, redacted: bool) -> str:
    lines = [
        "What is in here",
        "",
        (
            "timeline.txt      events, findings and failed readings, oldest first; also those of "
            "the rest of the node"
        ),
        "kernel.log        lines of the kernel log that concern the hardware",
        "manifest.json     every file with its size, number of rows and SHA-256",
        "SHA256SUMS        the same sums for: sha256sum --check SHA256SUMS",
        *(
            f"{f'tables/{name}.parquet':<38}{rows} rows: {_meaning(name)}"
            for name, rows in files.items()
        ),
        "",
        (
            "Names and ids of processes, command lines and control groups were left "
            "out or masked (***)."
        )
        if redacted
        else "Kernel lines and events may name processes of the node's users.",
    ]
    return "\n".join(lines)


def _meaning(name: str) -> str:
    return KINDS[name].help if name in KINDS else _MEANING[name]


_MEANING = {
    "events": "what happened, on the whole node",
    "findings": "findings of the detectors, on the complete node",
    "incidents": "findings that share a cause",
    "devices": "slow facts: model, serial number, firmware, driver",
    "reads": "every reading of every source: how long it took, what could not be read and why",
}


def _schema(name: str) -> str:
    lines = [f"Columns of {name}", ""]
    fields = fields_of(name) if name in KINDS else ()
    codes = {
        f.name: " Codes: " + ", ".join(f"{code} {word}" for code, word in f.states)
        for f in fields
        if f.states
    }
    for column in schema(name):
        meaning = (column.metadata or {}).get(b"tocsin.help", b"").decode() + codes.get(
            column.name, ""
        )
        lines.append(
            f"{column.name:<43} {str(column.type).replace('dictionary<values=string, indices=int32, ordered=0>', 'string'):<24}{meaning}"  # noqa: E501 - no place to break
        )
    return "\n".join(line.rstrip() for line in lines)
