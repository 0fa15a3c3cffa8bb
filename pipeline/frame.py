"""Device and Frame: all devices of one kind at one instant, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.catalog import Field, fields_of
from pipeline.node_times import NodeTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

Attributes = Mapping[str, str]
NO_ATTRIBUTES: Attributes = MappingProxyType({})


def whole_microseconds(time_ns: int) -> int:
    """Unix time floored to microseconds: what Parquet's timestamps keep, so that what is
    replayed is what was seen.

    >>> whole_microseconds(1_234_567)
    1234000
    """
    return time_ns - time_ns % 1000


@dataclass(frozen=True, slots=True)
class Device:
    """What a reading is about. ``id`` is hardware identity (GPU UUID, port GUID), never an index.

    Two devices are equal when host, kind and id are: attributes (model, serial, driver, rack) may
    change, the device stays.

    >>> Device("n1", "gpu", "GPU-1", {"index": "0"}) == Device("n1", "gpu", "GPU-1", {"index": "3"})
    True
    """

    host: str
    kind: str
    id: str
    attributes: Attributes = field(default_factory=lambda: NO_ATTRIBUTES, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, MappingProxyType):
            object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Device, (self.host, self.kind, self.id, dict(self.attributes)))


def same_devices(before: tuple[Device, ...], now: tuple[Device, ...]) -> bool:
    """Whether these are the same devices with the same attributes, in the same order."""
    return before is now or (
        before == now
        and all(
            old is new or old.attributes == new.attributes
            for old, new in zip(before, now, strict=True)
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The columns of one kind of device, in the order of a frame's rows of values."""

    kind: str
    gauges: tuple[Field, ...]
    counters: tuple[Field, ...]
    gauge_row: Mapping[str, int]
    counter_row: Mapping[str, int]

    def __reduce__(self) -> tuple[Any, ...]:
        return (schema_of, (self.kind,))


@cache
def schema_of(kind: str) -> Schema:
    """The schema of a kind, made from the catalogue once; always the same object."""
    gauges = tuple(f for f in fields_of(kind) if f.type == "gauge")
    counters = tuple(f for f in fields_of(kind) if f.type == "counter")
    return Schema(
        kind,
        gauges,
        counters,
        {f.name: i for i, f in enumerate(gauges)},
        {f.name: i for i, f in enumerate(counters)},
    )


@dataclass(frozen=True, slots=True, eq=False)
class Increments:
    """Increments of one frame's counters since each counter's own sample before.

    Most counters of the catalogue belong to other hardware and are never observed: only rows of the
    others are kept. ``row`` (counter,) says which row a counter of the schema has in ``deltas``
    float64, NaN = none; ``spans`` float64, seconds between the two samples by the source's own
    clock, NaN where no rate may be made (first sample, gap); ``qualities`` uint8, of
    pipeline/rates.py (OK ... IMPLAUSIBLE); all (row, device). The last row is that of all counters
    never observed. A SATURATED delta is a lower bound. A GAP delta is a true count over a longer
    time.
    """

    row: NDArray[np.intp]
    deltas: NDArray[np.float64]
    spans: NDArray[np.float64]
    qualities: NDArray[np.uint8]

    @property
    def delta(self) -> NDArray[np.float64]:
        """Increments of all counters of the schema, (counter, device): a copy, for
        tests and single values.
        """
        return self.deltas[self.row]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """As ``delta``, of the seconds."""
        return self.spans[self.row]

    @property
    def quality(self) -> NDArray[np.uint8]:
        """As ``delta``, of the qualities."""
        return self.qualities[self.row]

    def increase(self, counter: int) -> NDArray[np.float64]:
        """Increase of one counter, (device,), NaN = none."""
        increase: NDArray[np.float64] = self.deltas[self.row[counter]]
        return increase

    def rate(self, counter: int) -> NDArray[np.float64]:
        """Increase per second of one counter, (device,), NaN = none."""
        rate: NDArray[np.float64] = self.increase(counter) / self.spans[self.row[counter]]
        return rate

    def quality_of(self, counter: int) -> NDArray[np.uint8]:
        """Quality of one counter's increase, (device,)."""
        quality: NDArray[np.uint8] = self.qualities[self.row[counter]]
        return quality

    def of(self, devices: slice | NDArray[np.intp]) -> Increments:
        """Those of some devices."""
        return Increments(
            self.row, self.deltas[:, devices], self.spans[:, devices], self.qualities[:, devices]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """All devices of one kind at one instant.

    Shapes: ``gauges`` float64 (gauge, device), NaN = not observed; ``counters`` uint64 and
    ``observed`` bool (counter, device); ``sampled_ns`` int64 (device,), the source's own unix time
    per device in ns, 0 where it gives none. ``time_ns`` is unix time, floored to whole
    microseconds, ``mono_ns`` the monotonic clock, both of the reading host. Arrays are made
    read-only. ``increments`` is added by the engine (pipeline/rates.py) and never stored.
    ``nodes``: the times of each node in a frame that several are joined in (pipeline/joined.py);
    ``time_ns`` and ``mono_ns`` are then those of one of them. ``passed_s``, of a frame that keeps
    rows of nodes which are not read each time (pipeline/roster.py), float64 (device,): seconds
    since the device's node was read before, 0 at the first reading of a boot, NaN where it is not
    read now; None: all are read. ``made``: what was made of its values, for those who need the
    same; replacing a value gives a frame of which nothing is made.
    """

    schema: Schema
    time_ns: int
    mono_ns: int
    devices: tuple[Device, ...]
    gauges: NDArray[np.float64]
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_]
    sampled_ns: NDArray[np.int64]
    increments: Increments | None = None
    nodes: NodeTimes | None = None
    passed_s: NDArray[np.float64] | None = None
    made: dict[str, NDArray[np.float64]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.devices)
        gauges, counters = (len(self.schema.gauges), n), (len(self.schema.counters), n)
        for name, array, shape in (
            ("gauges", self.gauges, gauges),
            ("counters", self.counters, counters),
            ("observed", self.observed, counters),
            ("sampled_ns", self.sampled_ns, (n,)),
        ):
            if array.shape != shape:
                raise ValueError(
                    f"frame of {self.schema.kind}: {name} has shape {array.shape}, wanted {shape}"
                )
            array.setflags(write=False)
        if self.time_ns % 1000:
            object.__setattr__(self, "time_ns", whole_microseconds(self.time_ns))

    @property
    def kind(self) -> str:
        """Kind of device."""
        return self.schema.kind

    def gauge(self, name: str) -> NDArray[np.float64]:
        """Column of a gauge, (device,), NaN = not observed.

        KeyError where the catalogue has no such gauge.
        """
        column: NDArray[np.float64] = self.gauges[self.schema.gauge_row[name]]
        return column

    def counter(self, name: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Column of a counter and its mask of what was observed, both (device,)."""
        row = self.schema.counter_row[name]
        return self.counters[row], self.observed[row]

    def increase(self, name: str) -> NDArray[np.float64]:
        """Increment of a counter since the sample before, (device,), NaN = none.

        ValueError before the engine has made it.
        """
        if self.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        return self.increments.increase(self.schema.counter_row[name])

    def value(self, name: str, row: int) -> float | int | None:
        """One native value, None = not observed: for tests, tables and single
        findings, not for hot paths.
        """
        if name in self.schema.gauge_row:
            number = float(self.gauges[self.schema.gauge_row[name], row])
            return None if np.isnan(number) else number
        index = self.schema.counter_row[name]
        return int(self.counters[index, row]) if self.observed[index, row] else None

    def records(self) -> Iterator[tuple[Device, dict[str, float | int]]]:
        """Each device with its observed native values: for people and tests."""
        names = [*self.schema.gauge_row, *self.schema.counter_row]
        for row, device in enumerate(self.devices):
            values = ((name, self.value(name, row)) for name in names)
            yield device, {name: value for name, value in values if value is not None}

    def __eq__(self, other: object) -> bool:
        """Bit for bit, missing values and attributes included; increments are not
        compared, they are derived.
        """
        if not isinstance(other, Frame):
            return NotImplemented
        return (
            self.schema is other.schema
            and (self.time_ns, self.mono_ns, self.devices)
            == (other.time_ns, other.mono_ns, other.devices)
            and all(
                a.attributes == b.attributes
                for a, b in zip(self.devices, other.devices, strict=True)
            )
            and np.array_equal(self.gauges, other.gauges, equal_nan=True)
            and np.array_equal(self.observed, other.observed)
            and np.array_equal(self.counters[self.observed], other.counters[other.observed])
            and np.array_equal(self.sampled_ns, other.sampled_ns)
        )

    __hash__ = None  # type: ignore[assignment]


def blank(
    kind: str, devices: Sequence[object]
) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.bool_]]:
    """Blocks for a frame in which nothing was observed yet: gauges, counters, observed. Of the
    devices only the number matters.
    """
    schema, n = schema_of(kind), len(devices)
    return (
        np.full((len(schema.gauges), n), np.nan),
        np.zeros((len(schema.counters), n), np.uint64),
        np.zeros((len(schema.counters), n), np.bool_),
    )


def frame_of(
    kind: str,
    readings: Sequence[tuple[Device, Mapping[str, float | int | None]]],
    time_ns: int,
    mono_ns: int,
    sampled_ns: Sequence[int] = (),
) -> Frame:
    """A frame from one mapping of native values per device: the readable way,
    for slow sources and tests.

    >>> d = Device("n1", "gpu", "GPU-1", {"index": "0"})
    >>> f = frame_of("gpu", [(d, {"temperature_celsius": 41, "energy_millijoules": 2**63})], 0, 0)
    >>> (
    ...     f.value("temperature_celsius", 0),
    ...     f.value("energy_millijoules", 0),
    ...     f.value("power_milliwatts", 0),
    ... )
    (41.0, 9223372036854775808, None)
    """
    schema = schema_of(kind)
    devices = tuple(device for device, _ in readings)
    gauges, counters, observed = blank(kind, devices)
    for row, (_, values) in enumerate(readings):
        for name, value in values.items():
            if name in schema.gauge_row:
                gauges[schema.gauge_row[name], row] = np.nan if value is None else value
            elif value is not None:
                counters[schema.counter_row[name], row] = value
                observed[schema.counter_row[name], row] = True
    stamps = np.array(sampled_ns, np.int64) if len(sampled_ns) else np.zeros(len(devices), np.int64)
    return Frame(schema, time_ns, mono_ns, devices, gauges, counters, observed, stamps)
