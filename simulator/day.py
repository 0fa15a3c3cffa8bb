"""A scripted day of a simulated node: which fault comes when, what it is, and where it is seen.

Files are in days/.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from simulator.injection import parse
from simulator.profile import Profile

FOLDER = Path(__file__).parent / "days"
MAX_BYTES = 100_000
MAX_S = 1e6


@dataclass(frozen=True, slots=True)
class Step:
    """One fault.

    ``at_s``: seconds after the day's begin; ``fault`` in the words of
    injection.py, without a delay.

    ``says`` is what happens, ``look`` where it is seen first. ``incident`` is the class of the
    incident it becomes when the detectors may all page, ``alerts`` the alerts that tell people of
    it (rules/), ``device`` the GPU or port to blame, as in ``fault``.
    """

    at_s: float
    fault: str
    says: str
    look: str = ""
    incident: str = ""
    alerts: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """The fault with its delay, for injection."""
        name, colon, params = self.fault.partition(":")
        return f"{name}+{self.at_s:g}s{colon}{params}"

    @property
    def target(self) -> str:
        """Which GPU or port: ``gpu3``, ``mlx5_4``; empty for the node."""
        return self.fault.partition(":")[0].partition("@")[2]


@dataclass(frozen=True, slots=True)
class Day:
    """The faults of a day in order, and how long it takes, seconds."""

    name: str
    title: str
    lasts_s: float
    steps: tuple[Step, ...]


def day_names() -> list[str]:
    """Days that come with the simulator."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_day(name: str, profile: Profile) -> Day:
    """A day by name, or from a TOML file (a path with a slash).

    ValueError names the file and what is wrong in it.
    """
    file = Path(name) if "/" in name else FOLDER / f"{name}.toml"
    try:
        with file.open("rb") as opened:
            table = tomllib.loads(opened.read(MAX_BYTES).decode())
    except FileNotFoundError:
        raise ValueError(
            f"no day {name!r}; there are {', '.join(day_names())}, or give the path of a TOML file"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error
    if extra := set(table) - {"title", "lasts_s", "step"}:
        raise ValueError(
            f"{file}: unknown key {min(extra)!r}; there are title, lasts_s and [[step]]"
        )
    rows = table.get("step", [])
    if not isinstance(rows, list):
        raise ValueError(f"{file}: steps are written as [[step]]")  # noqa: TRY004 - the file is wrong, not the caller
    steps = tuple(
        _step(row, f"{file}: step {number}", profile) for number, row in enumerate(rows, 1)
    )
    if list(steps) != sorted(steps, key=lambda step: step.at_s):
        raise ValueError(f"{file}: steps do not stand in the order of their at_s")
    lasts_s = _seconds(table.get("lasts_s", steps[-1].at_s if steps else 0), f"{file}: lasts_s")
    return Day(name, _text(table.get("title", name), f"{file}: title"), lasts_s, steps)


def _step(row: object, where: str, profile: Profile) -> Step:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: steps are written as [[step]]")  # noqa: TRY004 - the file is wrong, not the caller
    known = {field.name for field in fields(Step)}
    for key in [*(sorted({"at_s", "fault", "says"} - set(row))), *sorted(set(row) - known)]:
        raise ValueError(f"{where}: {'unknown key' if key in row else 'missing key'} {key!r}")
    alerts = row.get("alerts", [])
    if not isinstance(alerts, list):
        raise ValueError(f"{where}: alerts must be a list of names")  # noqa: TRY004 - the file is wrong, not the caller
    texts = {
        key: _text(row.get(key, ""), f"{where}: {key}")
        for key in ("fault", "says", "look", "incident")
    }
    step = Step(
        at_s=_seconds(row["at_s"], f"{where}: at_s"),
        **texts,
        alerts=tuple(_text(alert, f"{where}: alerts") for alert in alerts),
    )
    if "+" in step.fault.partition(":")[0]:
        raise ValueError(f"{where}: the delay of {step.fault!r} belongs into at_s")
    try:
        parse(step.spec, profile)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return step


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} must be text, not {value!r}")  # noqa: TRY004 - the file is wrong, not the caller
    return value


def _seconds(value: object, where: str) -> float:
    """Whole numbers are numbers too."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_S:
        raise ValueError(f"{where} must be seconds from 0 to {MAX_S:g}, not {value!r}")
    return float(value)
