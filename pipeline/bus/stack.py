"""A stack: frames of one kind about the same devices, one after the other, as one block.

What all its samples have in common (kind, devices, names of columns) is its description, apart from
the values: it stays the same from batch to batch, so that a gateway reads it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import orjson

from pipeline.bus.arrays import as_words, differences, from_words, sums
from pipeline.bus.observations import device_from, text
from pipeline.bus.taker import Taker
from pipeline.catalog import KINDS
from pipeline.frame import Device, Frame, Schema, schema_of
from pipeline.observation import Observation
from pipeline.plain import plain_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T", np.bool_, np.uint64)
Identity = tuple[tuple[Device, ...], tuple[tuple[tuple[str, str], ...], ...]]
MAX_COLUMNS = 1024  # of one kind: several times what any catalogue of ours has


@dataclass(frozen=True, slots=True)
class Stack:
    """``places`` are (index of the observation in the batch, index of the frame in it)."""

    places: tuple[tuple[int, int], ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stack as bytes: its description; bits and words of its values, one array after another."""

    about: bytes
    bits: tuple[NDArray[np.bool_], ...]
    words: tuple[NDArray[np.uint64], ...]


@dataclass(frozen=True, slots=True)
class About:
    """A description that was read. ``gauges`` and ``counters`` (column,) are rows of the schema,
    and ``of_gauges`` and ``of_counters`` the columns that they stand in: those that this version's
    catalogue lacks are left out. ``split`` of the ``columns`` are gauges.
    """

    schema: Schema
    devices: tuple[Device, ...]
    columns: int
    split: int
    gauges: NDArray[np.intp]
    of_gauges: NDArray[np.intp]
    counters: NDArray[np.intp]
    of_counters: NDArray[np.intp]


def stacks_of(observations: Sequence[Observation]) -> list[Stack]:
    """Every frame of the observations in one stack, by kind and devices."""
    found: dict[tuple[str, Identity], list[tuple[tuple[int, int], Frame]]] = {}
    known: dict[int, Identity] = {}
    for n, observation in enumerate(observations):
        for place, frame in enumerate(observation.frames):
            identity = known.get(id(frame.devices))
            if identity is None:
                identity = known[id(frame.devices)] = _identity(frame.devices)
            found.setdefault((frame.kind, identity), []).append(((n, place), frame))
    return [
        Stack(tuple(place for place, _ in each), tuple(frame for _, frame in each))
        for each in found.values()
    ]


def _identity(devices: tuple[Device, ...]) -> Identity:
    return devices, tuple(tuple(sorted(d.attributes.items())) for d in devices)


def encode_stack(stack: Stack) -> Encoded:
    """Columns that nobody observed are left out; of those that do not change within the batch there
    is the first sample only.
    """
    first = stack.frames[0]
    gauges = np.stack([frame.gauges for frame in stack.frames])
    observed = np.stack([frame.observed for frame in stack.frames])
    rows = np.flatnonzero((~np.isnan(gauges)).any(axis=(0, 2)))
    counted = np.flatnonzero(observed.any(axis=(0, 2)))
    gauges, observed = gauges[:, rows], observed[:, counted]
    counters = np.stack([frame.counters[counted] for frame in stack.frames])
    numbers, whole = as_words(gauges)
    times = np.array([[f.time_ns, f.mono_ns] for f in stack.frames], np.int64).view(np.uint64)
    sampled = np.stack([f.sampled_ns[None] for f in stack.frames]).view(np.uint64)
    words = np.concatenate([sampled, numbers, np.where(observed, counters, np.uint64(0))], axis=1)
    seen = np.concatenate([np.ones_like(sampled, np.bool_), ~np.isnan(gauges), observed], 1)
    moves = ((words[1:] != words[:-1]) | (seen[1:] != seen[:-1])).any(axis=(0, 2))
    full = bool(seen.all())
    about = {
        "kind": first.kind,
        "devices": [plain_device(device) for device in first.devices],
        "gauges": [first.schema.gauges[row].name for row in rows.tolist()],
        "counters": [first.schema.counters[row].name for row in counted.tolist()],
    }
    return Encoded(
        orjson.dumps(about),
        (whole, moves, np.array([full]), *([] if full else _parts(seen, moves))),
        (differences(times), *map(differences, _parts(words, moves))),
    )


def _parts(values: NDArray[T], moves: NDArray[np.bool_]) -> list[NDArray[T]]:
    """All samples of what moves, the first one of the rest."""
    return [values[:, moves], values[:1, ~moves]]


def read_about(raw: bytes, host: str) -> About:
    """The description of a stack of this host.

    ValueError, LookupError, TypeError or AttributeError where it is none.
    """
    given = orjson.loads(raw)
    if given["kind"] not in KINDS:
        raise ValueError(f"no kind of device: {given['kind']!r:.40}")
    schema = schema_of(given["kind"])
    gauges, counters = given["gauges"], given["counters"]
    rows, of_gauges = _known(gauges, schema.gauge_row)
    counted, of_counters = _known(counters, schema.counter_row)
    if (columns := len(gauges) + len(counters)) > MAX_COLUMNS:
        raise ValueError(f"{columns} columns; {MAX_COLUMNS} at most")
    return About(
        schema,
        tuple(device_from(device, host) for device in given["devices"]),
        columns,
        len(gauges),
        rows,
        of_gauges,
        counted,
        of_counters,
    )


def _known(
    names: Sequence[str], rows: Mapping[str, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    known = [(rows[text(name)], n) for n, name in enumerate(names) if name in rows]
    return (
        np.array([row for row, _ in known], np.intp),
        np.array([n for _, n in known], np.intp),
    )


def decode_stack(about: About, samples: int, take: Taker) -> list[Frame]:
    """Its frames, in their order. ValueError where the block ends before."""
    devices, columns = len(about.devices), about.columns
    whole, moves = take.bits(about.split), take.bits(columns + 1)
    full = bool(take.bits(1)[0])
    moving = int(moves.sum())
    times = sums(take.words(2 * samples).reshape(samples, 2)).view(np.int64)
    words = np.empty((samples, columns + 1, devices), np.uint64)
    shape, first = (samples, moving, devices), (1, columns + 1 - moving, devices)
    words[:, moves] = sums(take.words(samples * moving * devices).reshape(shape))
    words[:, ~moves] = take.words((columns + 1 - moving) * devices).reshape(first)
    values = from_words(words[:, 1 : 1 + about.split], whole)
    seen = np.ones(words.shape, np.bool_)
    if not full:
        seen[:, moves] = take.bits(samples * moving * devices).reshape(shape)
        seen[:, ~moves] = take.bits((columns + 1 - moving) * devices).reshape(first)
        values[~seen[:, 1 : 1 + about.split]] = np.nan
    schema = about.schema
    gauges = np.full((samples, len(schema.gauges), devices), np.nan)
    gauges[:, about.gauges] = values[:, about.of_gauges]
    counters = np.zeros((samples, len(schema.counters), devices), np.uint64)
    observed = np.zeros(counters.shape, np.bool_)
    at = 1 + about.split + about.of_counters
    counters[:, about.counters], observed[:, about.counters] = words[:, at], seen[:, at]
    sampled = words[:, 0].view(np.int64)
    return [
        Frame(schema, at, mono, about.devices, gauges[i], counters[i], observed[i], sampled[i])
        for i, (at, mono) in enumerate(times.tolist())
    ]
