"""Counters files: which fields of DCGM are shown, under which name, type and help.

Errors are those of dcgm-exporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.dcgm import gocsv, names

Compat = Literal["dcgm-4.8", "dcgm-4.9", "both"]
DEFAULT_FILE = Path(__file__).with_name("default-counters.csv")
EXTENDED_FILE = Path(__file__).with_name("extended-counters.csv")
LOWER_CASE_FILE = Path(__file__).with_name("lower-case-counters.csv")

# Both generations' types. A Prometheus histogram or summary cannot be made of one value:
# they are shown as untyped.
_TYPES = {
    "gauge": "gauge",
    "counter": "counter",
    "untyped": "untyped",
    "histogram": "untyped",
    "summary": "untyped",
    "label": "label",
}
# DCGM's profiling fields; whether a GPU has them is known only once it was read.
PROFILING = range(1000, 1100)
# Ids that DCGM 4.7 added with other units, which dcgm-exporter 4.9 shows; those of its own
# DCGM_EXP_* rows lie above.
NEW_ALONE = range(1600, min(names.EXPORTER.values()))
OLD_UTIL, NEW_UTIL = 203, 1613  # the two meanings of names.AMBIGUOUS: percent and ratio


class CountersError(ValueError):
    """A counters file that cannot be used: file, line where there is one, and the reason
    in dcgm-exporter's words.
    """


@dataclass(frozen=True, slots=True)
class Counter:
    """One row of a counters file.

    ``type`` is gauge, counter, untyped or label; ``number`` counts records from 0.

    ``one_generation`` keeps a 4.9 field that the other generation's default set does not have from
    bringing its legacy name along.
    """

    name: str
    type: str
    help: str
    id: int
    number: int
    one_generation: bool = False


@dataclass(frozen=True, slots=True)
class Counters:
    """The rows of a file that can be shown, and what the user should know about the others."""

    rows: tuple[Counter, ...]
    warnings: tuple[str, ...] = ()

    def without_profiling(self) -> Counters:
        """The same for a node whose first GPU has no profiling fields; says so for
        each as dcgm-exporter does.
        """
        gone = [row for row in self.rows if row.id in PROFILING]
        said = tuple(
            f"Skipping line {row.number} ('{row.name}'): metric not enabled" for row in gone
        )
        return Counters(
            tuple(row for row in self.rows if row.id not in PROFILING), self.warnings + said
        )


def load(path: Path = DEFAULT_FILE, compat: Compat = "dcgm-4.8") -> Counters:
    """A counters file. CountersError names file, line and reason."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise CountersError(
            f"Could not read metrics file '{path}'; err: {error.strerror}"
        ) from error
    counters = parse(text, str(path), compat)
    if path == DEFAULT_FILE and compat != "dcgm-4.8":
        added = Counter(
            "DCGM_FI_DEV_FB_CAPACITY_BYTES",  # the one field that 4.9 added to the default set
            "gauge",
            "Framebuffer memory in all (in bytes).",
            1625,
            len(counters.rows),
            one_generation=True,
        )
        return Counters((*counters.rows, added), counters.warnings)
    return counters


def parse(text: str, file: str, compat: Compat = "dcgm-4.8") -> Counters:
    """The text of a counters file; ``file`` names it in errors."""
    try:
        records = gocsv.read(text)
    except gocsv.CsvError as error:
        raise CountersError(f"{file}: {error}") from error
    rows: dict[int, Counter] = {}
    warnings: list[str] = []
    witness = next((record for record in records if _is_new_alone(record)), None)
    ambiguous = OLD_UTIL if witness is None and compat == "dcgm-4.8" else NEW_UTIL
    for number, record in enumerate(records):
        try:
            row = _row(number, [field.strip(" ") for field in record.fields], ambiguous)
        except CountersError as error:
            raise CountersError(f"{file}, line {record.line}: {error}") from error
        where = f"{file}, line {record.line}: '{row.name}'"
        warnings += [f"{where} {text}" for text in _doubts(row, witness)]
        if names.can_show(row.id) and not _is_lost_label(row):
            rows.setdefault(row.id, row)
    return Counters(tuple(rows.values()), tuple(warnings))


def _is_new_alone(record: gocsv.Record) -> bool:
    """Whether a row names a field that came with the 4.9 generation, so that its file is of it."""
    name = record.fields[0].strip(" ")
    return name != names.AMBIGUOUS and names.ids().get(name, -1) in NEW_ALONE


def _row(number: int, fields: list[str], ambiguous: int) -> Counter:
    """One row; ``ambiguous`` is the id that AMBIGUOUS means in its file. CountersError."""
    if len(fields) != 3:
        shown = " ".join(fields)
        raise CountersError(
            f"malformed CSV record; err: failed to parse line {number} "
            f"(`[{shown}]`), expected 3 fields"
        )
    name, kind, help_ = fields
    if name == names.AMBIGUOUS:
        found = ambiguous
    else:
        found = names.ids().get(name, -1)
        if found < 0 and not names.known_elsewhere(name):
            raise CountersError(
                f"could not find DCGM field; err: unknown ExporterCounter field '{name}'"
            )
    if kind not in _TYPES:
        raise CountersError(
            f"could not find Prometheus metric type '{kind}'; supported types are counter, gauge, "
            "untyped, histogram, summary and label"
        )
    return Counter(name, _TYPES[kind], help_, found, number)


def _is_lost_label(row: Counter) -> bool:
    """Whether a row asks for a label that cannot be given."""
    return row.type == "label" and row.id in names.NO_LABEL


def _doubts(row: Counter, witness: gocsv.Record | None) -> Iterator[str]:
    """What the user should know about a row; ``witness`` made its file one of the
    4.9 generation.
    """
    if row.id in names.UNAVAILABLE_EXPORTER:
        yield "comes from DCGM's own watches and is left out"
    elif row.name in names.BINARY:
        yield "is a structure without a value and is left out"
    elif not names.can_show(row.id):
        yield "cannot be had from NVML and is left out"
    elif _is_lost_label(row):
        yield "cannot be a label and is left out"
    elif row.name == names.AMBIGUOUS:
        unit = (
            "0 to 100, as in DCGM 4.6" if row.id == OLD_UTIL else "a ratio, as in dcgm-exporter 4.9"
        )
        why = (
            f"like '{witness.fields[0].strip(' ')}' in line {witness.line}"
            if witness
            else "see --compat"
        )
        yield f"means two things; it is shown as {unit} ({why})"
