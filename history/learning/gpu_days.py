"""What a day of each GPU was like beside the others of its node, and beside its own days before.

From quarters of an hour, as stores keep them for years: means of gauges, increases of counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BUCKET_S = 900
PER_DAY = 86_400 // BUCKET_S
GAUGES = (
    "sm_clock_megahertz", "power_milliwatts", "temperature_celsius", "memory_temperature_celsius",
    "gpu_utilization_percent", "power_limit_enforced_milliwatts",
)  # fmt: skip
COUNTERS = (
    "ecc_corrected_volatile", "ecc_uncorrected_volatile", "pcie_replays",
    "throttled_hw_thermal_nanoseconds", "throttled_hw_power_brake_nanoseconds",
)  # fmt: skip
# Bounds of a slope: chance in few GPUs must not explain a fault away. Dynamic power is f V^2,
# about the cube of the clock: twice that exponent. K per W: a GPU of 500 W would be 100 K above its
# air, which none survives.
MAX_POWER_BY_CLOCK, MAX_KELVIN_PER_WATT = 6.0, 0.2
BUSY_PERCENT = 50.0  # a clock and a power say something of a GPU that works
MIN_PEERS = 4  # in a node, itself included: of fewer no median is anybody's
MIN_BUCKETS = 4  # of a day: an hour of work
SPELL = 4  # buckets of the worst hour
# Days before, of which the median is what is usual of a GPU; a ramp of ten days must not become it.
USUAL_DAYS = 14

# Name of a number to words and unit: why a GPU is in the list.
NUMBERS: Mapping[str, str] = {
    "clock": "clock below its node's, ln",
    "clock_change": "clock below its own days before, ln",
    "power": "power off its node's at its clock, ln",
    "power_change": "power off its own days before at its clock, ln",
    "heat": "K above its node's at its power",
    "heat_change": "K above its own days before at its power",
    "memory_heat": "K of the memory above its node's",
    "memory_heat_change": "K of the memory above its own days before",
    "clock_hour": "worst hour's clock below the rest of its day, ln",
    "power_hour": "worst hour's power off the rest of its day at its clock, ln",
    "memory_heat_hour": "K of the memory in its worst hour above the rest of its day",
    "limit": "power limit below its node's, at worst, ln",
    "corrected": "corrected memory errors, ln(1+n)",
    "uncorrected": "uncorrected memory errors, ln(1+n)",
    "replays": "PCIe replays, ln(1+n)",
    "hot_slowed": "share of time slowed by heat",
    "braked": "share of time under the power brake",
    "unread": "share of the day in which it was not read and its node was",
}


@dataclass(frozen=True, slots=True)
class Quarters:
    """Readings (bucket, GPU) by name, NaN where there are none; first bucket at ``begin_ns``, a
    midnight. ``hosts``, ``models``, ``gpus``: of each GPU.
    """

    values: Mapping[str, Floats]
    gpus: tuple[str, ...]
    hosts: tuple[str, ...]
    models: tuple[str, ...]
    begin_ns: int

    @property
    def days(self) -> int:
        """Whole days."""
        return len(next(iter(self.values.values()))) // PER_DAY


def gpu_days(found: Quarters) -> Floats:
    """Numbers (day, GPU, NUMBERS); NaN where a GPU did not work long enough with peers."""
    node = codes(found.hosts)
    of = {name: found.values.get(name) for name in (*GAUGES, *COUNTERS)}
    shape = (found.days * PER_DAY, len(found.gpus))
    at = {
        name: np.full(shape, np.nan) if one is None else one[: shape[0]] for name, one in of.items()
    }
    busy = at["gpu_utilization_percent"] >= BUSY_PERCENT
    with np.errstate(divide="ignore", invalid="ignore"):
        clock = _beside(np.log(np.where(busy, at["sm_clock_megahertz"], np.nan)), node)
        power = _beside(np.log(np.where(busy, at["power_milliwatts"], np.nan)), node)
        power = power - _slope(power, clock, MAX_POWER_BY_CLOCK) * clock
        limit = _beside(np.log(at["power_limit_enforced_milliwatts"]), node)
    temperature = _beside(np.where(busy, at["temperature_celsius"], np.nan), node)
    memory = _beside(np.where(busy, at["memory_temperature_celsius"], np.nan), node)
    watts = _beside(np.where(busy, at["power_milliwatts"], np.nan), node) / 1000
    daily = {
        "clock": -_median(clock),
        "power": _median(power),
        "heat": _median(temperature - _slope(temperature, watts, MAX_KELVIN_PER_WATT) * watts),
        "memory_heat": _median(memory),
    }
    changes = {f"{name}_change": _change(daily[name]) for name in daily}
    daily |= {
        name: value if name != "power_change" else np.abs(value) for name, value in changes.items()
    }
    daily["power"] = np.abs(daily["power"])
    daily["clock_hour"] = _worst_hour(-clock)
    daily["power_hour"] = np.fmax(_worst_hour(power), _worst_hour(-power))
    daily["memory_heat_hour"] = _worst_hour(memory)
    daily["limit"] = -_least(limit)
    for name, counter in (
        ("corrected", "ecc_corrected_volatile"),
        ("uncorrected", "ecc_uncorrected_volatile"),
        ("replays", "pcie_replays"),
    ):
        daily[name] = np.log1p(_total(at[counter]))
    for name, counter in (
        ("hot_slowed", "throttled_hw_thermal_nanoseconds"),
        ("braked", "throttled_hw_power_brake_nanoseconds"),
    ):
        daily[name] = _total(at[counter]) / 86_400e9
    read = np.isfinite(at["gpu_utilization_percent"])
    missed = _any_of(read, node) & ~read & _installed(read, node)
    daily["unread"] = _mean(missed.astype(float))
    return np.stack([daily[name] for name in NUMBERS], axis=2)


def codes(names: Sequence[str]) -> NDArray[np.intp]:
    """A number for each name, the same for the same one, (name,)."""
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], np.intp)


def _beside(values: Floats, node: NDArray[np.intp]) -> Floats:
    """Each minus the median of its node's, where enough of it work."""
    made = np.full(values.shape, np.nan)
    for code in range(int(node.max(initial=-1)) + 1):
        own = values[:, node == code]
        enough = np.isfinite(own).sum(axis=1) >= MIN_PEERS
        middle = np.full(len(own), np.nan)
        middle[enough] = np.nanmedian(own[enough], axis=1)
        made[:, node == code] = own - middle[:, None]
    return made


def _any_of(read: NDArray[np.bool_], node: NDArray[np.intp]) -> NDArray[np.bool_]:
    made = np.zeros_like(read)
    for code in range(int(node.max(initial=-1)) + 1):
        made[:, node == code] = read[:, node == code].any(axis=1, keepdims=True)
    return made


def _installed(read: NDArray[np.bool_], node: NDArray[np.intp]) -> NDArray[np.bool_]:
    """When a GPU was in its node: from its first reading on, and to its last where another one of
    the node was first read later, which replaced it. One that is dead is still there.
    """
    buckets = np.arange(len(read))[:, None]
    first = np.where(read.any(axis=0), read.argmax(axis=0), len(read))
    last = len(read) - 1 - read[::-1].argmax(axis=0)
    made: NDArray[np.bool_] = buckets >= first
    for code in range(int(node.max(initial=-1)) + 1):
        own = node == code
        newest = max((at for at in first[own].tolist() if at < len(read)), default=0)
        replaced = own & (last < newest)
        made[:, replaced] &= buckets <= last[replaced]
    return made


def _slope(of: Floats, by: Floats, most: float) -> float:
    """By how much one grows with the other over the fleet, beside their nodes' medians: least
    squares, 0 to ``most``.
    """
    known = np.isfinite(of) & np.isfinite(by)
    x, y = by[known], of[known]
    return float(np.clip((x * y).sum() / max((x * x).sum(), 1e-9), 0.0, most))


def _by_day(values: Floats) -> Floats:
    return values.reshape(-1, PER_DAY, values.shape[1])


def _median(values: Floats) -> Floats:
    days = _by_day(values)
    enough = np.isfinite(days).sum(axis=1) >= MIN_BUCKETS
    filled = np.where(enough[:, None, :], days, 0.0)
    return np.where(enough, np.nanmedian(filled, axis=1), np.nan)


def _least(values: Floats) -> Floats:
    days = _by_day(values)
    made: Floats = np.where(np.isfinite(days), days, np.inf).min(axis=1)
    return np.where(np.isfinite(made), made, np.nan)


def _worst_hour(values: Floats) -> Floats:
    """The highest mean of an hour within a day above the day's median."""
    days = _by_day(values) - _median(values)[:, None, :]
    hours = np.stack([days[:, i : PER_DAY - SPELL + 1 + i] for i in range(SPELL)]).mean(axis=0)
    made: Floats = np.where(np.isfinite(hours), hours, -np.inf).max(axis=1)
    return np.where(np.isfinite(made), made, np.nan)


def _mean(values: Floats) -> Floats:
    made: Floats = _by_day(values).mean(axis=1)
    return made


def _total(values: Floats) -> Floats:
    made: Floats = np.nansum(_by_day(values), axis=1)
    return made


def _change(daily: Floats) -> Floats:
    """Each day minus the median of the days before, NaN without two of them."""
    made = np.full(daily.shape, np.nan)
    for day in range(2, len(daily)):
        before = daily[max(0, day - USUAL_DAYS) : day]
        enough = np.isfinite(before).sum(axis=0) >= 2
        usual = np.nanmedian(np.where(enough, before, 0.0), axis=0)
        made[day] = np.where(enough, daily[day] - usual, np.nan)
    return made
