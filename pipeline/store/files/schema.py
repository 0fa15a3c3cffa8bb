"""The tables: names, columns, types and encodings of every Parquet file,
made from the catalogue.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from pipeline.catalog import KINDS, Field, fields_of

FORMAT = 1  # of the layout as a whole; a reader refuses a higher one by name

TIME = pa.timestamp("us", tz="UTC")
NAME = pa.dictionary(pa.int32(), pa.string())

# Keys of a column's metadata: its stable id, and to how many places its fractions are
# rounded, where they are.
FIELD_ID, DECIMALS = b"PARQUET:field_id", b"tocsin.decimals"
FIRST_FIELD = 1000  # least id of a column of the catalogue

# Every table begins with these; ids below FIRST_FIELD are theirs.
BEGIN = (
    ("time", TIME, "when it was read or happened"),
    ("host", NAME, "node the row is about"),
    ("device", NAME, "hardware identity: GPU UUID, port GUID, host name"),
    ("boot_id", NAME, "boot of the host that read it"),
    ("mono_ns", pa.int64(), "monotonic clock of that host, ns"),
    ("seq", pa.int64(), "number of the observation since the agent started"),
)

# Columns of a table of devices that are not fields.
OF_FRAMES = (
    ("row", pa.int32(), "index of the device within its frame"),
    (
        "sampled_ns",
        pa.int64(),
        "the source's own unix time of the sample, ns; 0 where it gives none",
    ),
)

OTHERS: dict[str, tuple[tuple[str, pa.DataType, str], ...]] = {
    "events": (
        ("n", pa.int32(), "position in the observation"),
        ("device_kind", NAME, "kind of the device"),
        ("kind", NAME, "kind of the event"),
        ("attributes", pa.string(), "JSON object, names in the catalogue"),
        (
            "device_attributes",
            pa.string(),
            "JSON array: host of the device, object of its slow facts at that time",
        ),
    ),
    "findings": (
        ("n", pa.int32(), "position in the observation"),
        ("id", pa.string(), "stable id: detector, device, onset"),
        ("detector", NAME, ""),
        ("device_kind", NAME, "kind of the device"),
        ("fault", NAME, "class of the fault"),
        ("phase", NAME, "onset, ongoing or cleared"),
        ("severity", NAME, "page, ticket or record"),
        ("onset", TIME, "when the evidence began"),
        ("said", TIME, "when it was reported"),
        ("summary", pa.string(), "one line"),
        ("action", NAME, "proposed action"),
        ("value", pa.float64(), "in unit"),
        ("expected", pa.float64(), "in unit"),
        ("unit", NAME, ""),
        ("evidence", pa.list_(pa.string()), "oldest first"),
        (
            "device_attributes",
            pa.string(),
            "JSON array: host of the device, object of its slow facts at that time",
        ),
        ("times", pa.int64(), "how often it has happened while it was open"),
        ("again", TIME, "when it happened last, null for once"),
    ),
    "incidents": (
        ("id", pa.string(), "stable id"),
        ("device_kind", NAME, "kind of the root device"),
        ("fault", NAME, "class of the fault"),
        ("severity", NAME, "page, ticket or record"),
        ("action", NAME, "proposed action"),
        ("opened", TIME, ""),
        ("cleared", TIME, "null while open"),
        ("findings", pa.list_(pa.string()), "ids in the order of first evidence"),
        ("summary", pa.string(), "one line"),
        ("reason", pa.string(), "why this action, in words"),
        ("acknowledged", TIME, "when it was acknowledged, null until then"),
        ("note", pa.string(), "note of the acknowledgement"),
        ("acknowledged_by", NAME, "user who acknowledged it"),
        ("ended", pa.string(), "why it is over, empty while open"),
        ("jobs", pa.list_(pa.string()), "jobs that held its devices when the evidence began"),
        ("times", pa.int64(), "how often a fault of the root cause has happened while it was open"),
        ("again", TIME, "when it happened last, null for once"),
    ),
    "devices": (
        ("kind", NAME, "kind of the device"),
        ("source", NAME, "source whose frames contain it"),
        ("attributes", pa.string(), "JSON object: slow facts from this row on"),
    ),
    "reads": (
        ("source", NAME, ""),
        ("duration_ns", pa.int64(), "how long the read took"),
        ("outcome", NAME, "ok, failed or overdue"),
        ("error", pa.string(), "why it failed"),
        ("unread", pa.string(), "JSON array of [reason, device, field]"),
        ("frames", pa.string(), "JSON array of [kind, devices, time in us, mono_ns]"),
    ),
}

TABLES = (*KINDS, *OTHERS)

# Roll-ups: one table per kind and bucket, `gpu_1m`, with one row per device and bucket in which it
# was read. Every field becomes these columns, `power_milliwatts_max`; their ids are the field's own
# plus the number here. Nulls are left out of all of them.
BUCKETS_S = {"1m": 60, "15m": 900}
ROLLED = 100_000
OF_GAUGES = ((100_000, "min"), (200_000, "max"), (300_000, "mean"), (400_000, "last"))
OF_COUNTERS = ((400_000, "last"), (500_000, "increase"))
OF_BUCKETS = (("n", pa.int64(), "samples of the device in the bucket"),)
ROLLUPS = {
    f"{kind}_{bucket}": (kind, seconds) for kind in KINDS for bucket, seconds in BUCKETS_S.items()
}


def arrow_type(field: Field) -> pa.DataType:
    """Native type of a field: uint64 for counters, int64 for whole gauges, float64
    where there are fractions.
    """
    if field.type == "counter":
        return pa.uint64()
    return pa.float64() if field.fraction else pa.int64()


@cache
def schema(table: str) -> pa.Schema:
    """Schema of a table with field ids and meaning in the metadata.

    KeyError for a table that does not exist.
    """
    if table in ROLLUPS:
        return _rollup(table, *ROLLUPS[table])
    columns = [_column(i + 1, *c) for i, c in enumerate(BEGIN)]
    if table in KINDS:
        columns += [_column(i + 11, *c) for i, c in enumerate(OF_FRAMES)]
        columns += [
            _column(f.id, f.name, arrow_type(f), _meaning(f), f.decimals) for f in fields_of(table)
        ]
    else:
        columns += [_column(i + 21, *c) for i, c in enumerate(OTHERS[table])]
    return pa.schema(columns, metadata={"tocsin.table": table, "tocsin.format": str(FORMAT)})


def _rollup(table: str, kind: str, seconds: int) -> pa.Schema:
    """Columns of a roll-up: time is the bucket's begin; boot_id, mono_ns and seq are
    those of its last sample.
    """
    columns = [_column(i + 1, *c) for i, c in enumerate(BEGIN)]
    columns += [_column(i + 11, *c) for i, c in enumerate(OF_BUCKETS)]
    for field in fields_of(kind):
        for number, what in OF_COUNTERS if field.type == "counter" else OF_GAUGES:
            native = pa.float64() if what == "mean" else arrow_type(field)
            decimals = 0 if what == "mean" else field.decimals
            columns.append(
                _column(
                    number + field.id,
                    f"{field.name}_{what}",
                    native,
                    f"{what}: {_meaning(field)}",
                    decimals,
                )
            )
    about = {"tocsin.table": table, "tocsin.format": str(FORMAT), "tocsin.bucket_s": str(seconds)}
    return pa.schema(columns, metadata=about)


def encodings(columns: pa.Schema) -> tuple[list[str], dict[str, str]]:
    """(columns with a dictionary, encoding of the others): integers, times, decimals
    DELTA_BINARY_PACKED, floats BYTE_STREAM_SPLIT.
    """
    dictionary, encoding = [], {}
    for column in columns:
        if any(
            is_one(column.type)
            for is_one in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_decimal)
        ):
            encoding[column.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(column.type):
            encoding[column.name] = "BYTE_STREAM_SPLIT"
        elif not pa.types.is_list(column.type):
            dictionary.append(column.name)
    return dictionary, encoding


def _column(
    field_id: int, name: str, kind: pa.DataType, meaning: str, decimals: int = 0
) -> pa.Field:
    about = {FIELD_ID: str(field_id).encode(), b"tocsin.help": meaning.encode()}
    return pa.field(
        name, kind, metadata=about | ({DECIMALS: str(decimals).encode()} if decimals else {})
    )


def _meaning(field: Field) -> str:
    """What a stored value means: the family's help and the way to its unit; of a state the codes,
    for the family has a series each.
    """
    if field.states:
        subject = field.metric.name.removeprefix("tocsin_").replace("_", " ")
        return f"Code of {subject}: {', '.join(f'{code} {word}' for code, word in field.states)}."
    return f"{field.metric.help} {_scale(field)}"


def _scale(field: Field) -> str:
    unit = field.metric.name.removesuffix("_total").rpartition("_")[2]
    factor = f"* {field.times}" if field.times != 1 else f"/ {field.per}" if field.per != 1 else ""
    return f"({field.name} {factor} = {unit})" if factor else ""
