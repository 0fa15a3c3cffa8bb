"""What is wrong with the settings of a simulated node: found before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.day import load_day
from simulator.injection import parse
from simulator.profile import load_profile


def problems(profile: str, inject: Sequence[str], day: str) -> Iterator[tuple[str, str]]:
    """The setting (``profile``, ``inject`` or ``day``) and what is wrong with it; at most one."""
    where = "profile"
    try:
        loaded = load_profile(profile)
        where = "inject"
        for fault in inject:
            parse(fault, loaded)
        where = "day"
        if day:
            load_day(day, loaded)
    except ValueError as error:
        yield where, str(error)
