"""The dcgm-exporter dialect: its counters files, names of both generations, labels and values."""

from __future__ import annotations

from pipeline.dcgm.counters import (
    DEFAULT_FILE,
    EXTENDED_FILE,
    LOWER_CASE_FILE,
    Compat,
    Counter,
    Counters,
    CountersError,
    load,
    parse,
)
from pipeline.dcgm.dialect import DcgmDialect
from pipeline.dcgm.entities import LabelStyle
from pipeline.dcgm.jobs import JobLabels
from pipeline.dcgm.options import Options
from pipeline.dcgm.select import FLEX, Selection, SelectionError
from pipeline.dcgm.select import parse as parse_selection

__all__ = [
    "DEFAULT_FILE",
    "EXTENDED_FILE",
    "FLEX",
    "LOWER_CASE_FILE",
    "Compat",
    "Counter",
    "Counters",
    "CountersError",
    "DcgmDialect",
    "JobLabels",
    "LabelStyle",
    "Options",
    "Selection",
    "SelectionError",
    "load",
    "parse",
    "parse_selection",
]
