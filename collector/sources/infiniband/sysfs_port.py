"""Where each field of a port is read, from the catalogue's own words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from pipeline.catalog import fields_of


@dataclass(frozen=True, slots=True)
class Places:
    """Counter files below the port's folder and below its net device's, and
    what perfquery is asked for.

    ``port`` and ``net``: field to file. ``perfquery``: option (empty for the classic set)
    to counter name to field.
    """

    port: dict[str, str] = field(default_factory=dict)
    net: dict[str, str] = field(default_factory=dict)
    perfquery: dict[str, dict[str, str]] = field(default_factory=dict)


@cache
def counter_places() -> Places:
    """Places of all counters.

    ValueError where the catalogue says something that nobody here can read.
    """
    places = Places()
    for row in fields_of("ib_port"):
        if row.type != "counter":
            continue
        for way in row.read.split(" | "):
            source, *rest = way.split(" ")
            match source, rest:
                case "sysfs", [file]:
                    places.port[row.name] = file
                case "net", [file]:
                    places.net[row.name] = file
                case "perfquery", [*option, name]:
                    places.perfquery.setdefault(" ".join(option), {})[name] = row.name
                case _:
                    raise ValueError(f"field {row.name} of ib_port: cannot read {way!r}")
    return places
