"""A stack: frames of one kind about the same devices, one after the other, as one block.

What all its samples have in common (kind, devices, names of columns) is its description, apart from
the values: it stays the same from batch to batch, so that a gateway reads it once.

Stacks of as many samples are a group: each sample is a row of words, of every stack the times of
its frame (2), of its devices' samples (device), and its columns (column, device). The first row is
there as it is, of the others the words of what moves, as differences along time. So a gateway that
reads thousands of batches a second takes a few steps for each group, and not for each frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from pipeline.block import Block, Layout, layout_of
from pipeline.bus.arrays import as_words, differences, from_words, sums
from pipeline.bus.observations import device_from, text
from pipeline.bus.taker import Taker
from pipeline.catalog import KINDS
from pipeline.frame import Device, Frame, schema_of, whole_microseconds
from pipeline.observation import Observation
from pipeline.plain import plain_device
from pipeline.small_arrays import all_true
from pipeline.sound_json import sound_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.bool_]
    Words = NDArray[np.uint64]

Identity = tuple[tuple[Device, ...], tuple[tuple[tuple[str, str], ...], ...]]
MAX_COLUMNS = 1024  # of one kind: several times what any catalogue of ours has
MAX_DEVICES = 4096  # likewise: 16 GPUs have 1,152 NVLinks at most
TIMES = 2  # unix and monotonic


@dataclass(frozen=True, slots=True)
class Stack:
    """``places`` are (index of the observation in the batch, index of the frame in it)."""

    places: tuple[tuple[int, int], ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stack as bytes and rows: its description; ``words`` (sample, word) and which of them were
    ``seen``; ``whole`` (gauge,) are columns of whole numbers.
    """

    about: bytes
    words: NDArray[np.uint64]
    seen: NDArray[np.bool_]
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class About:
    """A description that was read. ``columns``, of which ``split`` are gauges, were sent; of these
    ``gauges`` and ``counters`` are in the layout: those that this version's catalogue lacks are
    left out. None: all are. ``words`` of one sample.
    """

    layout: Layout
    devices: tuple[Device, ...]
    columns: int
    split: int
    gauges: list[int] | None
    counters: list[int] | None
    words: int


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
    """Columns that nobody observed are left out."""
    first, samples = stack.frames[0], len(stack.frames)
    gauges = np.stack([frame.gauges for frame in stack.frames])
    observed = np.stack([frame.observed for frame in stack.frames])
    rows = np.flatnonzero((~np.isnan(gauges)).any(axis=(0, 2)))
    counted = np.flatnonzero(observed.any(axis=(0, 2)))
    gauges, observed = gauges[:, rows], observed[:, counted]
    counters = np.stack([frame.counters[counted] for frame in stack.frames])
    numbers, whole = as_words(gauges)
    times = np.array([[f.time_ns, f.mono_ns] for f in stack.frames], np.int64).view(np.uint64)
    sampled = np.stack([f.sampled_ns for f in stack.frames]).view(np.uint64)
    values = np.concatenate([numbers, np.where(observed, counters, np.uint64(0))], axis=1)
    about = {
        "kind": first.kind,
        "devices": [plain_device(device) for device in first.devices],
        "gauges": [first.schema.gauges[row].name for row in rows.tolist()],
        "counters": [first.schema.counters[row].name for row in counted.tolist()],
    }
    return Encoded(
        sound_json(about),
        np.concatenate([times, sampled, values.reshape(samples, -1)], axis=1),
        np.concatenate([~np.isnan(gauges), observed], axis=1).reshape(samples, -1),
        whole,
    )


def encode_groups(stacks: Sequence[Encoded]) -> tuple[list[Bits], list[Words]]:
    """Bits and words of all stacks, in the order in which ``decode_groups`` takes them."""
    bits: list[Bits] = []
    words: list[Words] = []
    for _, numbers in groups([len(stack.words) for stack in stacks]):
        group = [stacks[number] for number in numbers]
        rows = np.concatenate([stack.words for stack in group], axis=1)
        moves = (rows[1:] != rows[:-1]).any(axis=0)
        full = [all_true(stack.seen) for stack in group]
        bits += [*(stack.whole for stack in group), moves, np.array(full)]
        bits += [stack.seen for stack, all_seen in zip(group, full, strict=True) if not all_seen]
        words += [rows[:1], differences(rows)[1:, moves]]
    return bits, words


def groups(samples: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Stacks of as many samples, by their number."""
    found: dict[int, list[int]] = {}
    for number, count in enumerate(samples):
        found.setdefault(count, []).append(number)
    return sorted(found.items())


def read_about(raw: bytes, host: str) -> About:
    """The description of a stack of this host.

    ValueError, LookupError, TypeError or AttributeError where it is none.
    """
    given = orjson.loads(raw)
    if given["kind"] not in KINDS:
        raise ValueError(f"no kind of device: {given['kind']!r:.40}")
    if (count := len(given["devices"])) > MAX_DEVICES:
        raise ValueError(f"{count} devices of a kind; {MAX_DEVICES} at most")
    schema = schema_of(given["kind"])
    gauges, counters = given["gauges"], given["counters"]
    if (columns := len(gauges) + len(counters)) > MAX_COLUMNS:
        raise ValueError(f"{columns} columns; {MAX_COLUMNS} at most")
    known = [n for n, name in enumerate(gauges) if text(name) in schema.gauge_row]
    counted = [n for n, name in enumerate(counters) if text(name) in schema.counter_row]
    texts: dict[str, str] = {}
    devices = tuple(device_from(_shared(each, texts), host) for each in given["devices"])
    return About(
        layout_of(
            schema.kind, tuple(gauges[n] for n in known), tuple(counters[n] for n in counted)
        ),
        devices,
        columns,
        len(gauges),
        known if len(known) < len(gauges) else None,
        counted if len(counted) < len(counters) else None,
        TIMES + len(devices) * (1 + columns),
    )


def _shared(device: Any, texts: dict[str, str]) -> Any:
    """A device whose equal texts are one object: 144 NVLinks name their 8 GPUs, model and driver
    each. Values of another type stay, for ``device_from`` to refuse.
    """
    *names, attributes = device
    for key, value in attributes.items():
        if type(value) is str:
            attributes[key] = texts.setdefault(value, value)
    return (*(texts.setdefault(n, n) if type(n) is str else n for n in names), attributes)


def decode_groups(
    abouts: Sequence[About], samples: Sequence[int], take: Taker
) -> list[Iterable[Block]]:
    """The blocks of each stack. ValueError where bits or words end before."""
    found: list[Iterable[Block]] = [()] * len(abouts)
    for count, numbers in groups(samples):
        group = [abouts[number] for number in numbers]
        size = sum(about.words for about in group)
        whole = [take.bits(about.split) for about in group]
        moves = np.flatnonzero(take.bits(size))
        full = take.bits(len(group)).tolist()
        first = take.words(size)
        steps = take.words((count - 1) * len(moves)).reshape(count - 1, len(moves))
        words = np.empty((count, size), np.uint64)
        words[:] = first
        if len(moves) and count > 1:
            words[1:, moves] = first[moves] + sums(steps)
        begin = 0
        for number, about, its, all_seen in zip(numbers, group, whole, full, strict=True):
            end = begin + about.words
            seen = None if all_seen else take.bits(count * about.columns * len(about.devices))
            found[number] = blocks_of(about, *parts_of(about, words[:, begin:end], its), seen)
            begin = end
    return found


class Parts(NamedTuple):
    """Of the words of a stack, (sample, word) each: ``times``, the readings of gauges and the
    counters. Arrays of their own: what is kept of a batch holds nothing else.
    """

    times: NDArray[np.int64]
    gauges: NDArray[np.float64]
    counters: Words


def parts_of(about: About, words: Words, whole: Bits) -> Parts:
    """The parts of words (sample, word), of which the gauges ``whole`` (gauge,) are whole numbers,
    the others bits of a float64.
    """
    devices = len(about.devices)
    begin, middle = TIMES + devices, TIMES + devices * (1 + about.split)
    return Parts(
        words[:, :begin].view(np.int64).copy(),
        from_words(words[:, begin:middle], np.repeat(whole, devices)),
        words[:, middle:].copy(),
    )


def blocks_of(
    about: About,
    times: NDArray[np.int64],
    gauges: NDArray[np.float64],
    counters: Words,
    seen: Bits | None,
) -> Iterable[Block]:
    """A stack's blocks from its parts, (sample, word) each."""
    samples, devices = len(times), len(about.devices)
    gauges = gauges.reshape(samples, about.split, devices)
    counters = counters.reshape(samples, about.columns - about.split, devices)
    observed: Iterable[Bits | None] = repeat(None)
    if seen is not None:
        mask = seen.reshape(samples, about.columns, devices)
        gauges = np.where(mask[:, : about.split], gauges, np.nan)
        counted = mask[:, about.split :]
        observed = counted if about.counters is None else counted[:, about.counters]
    if about.gauges is not None:
        gauges = gauges[:, about.gauges]
    if about.counters is not None:
        counters = counters[:, about.counters]
    return map(
        Block._make,
        zip(
            repeat(about.layout),
            map(whole_microseconds, times[:, 0].tolist()),
            times[:, 1].tolist(),
            repeat(about.devices),
            gauges,
            counters,
            observed,
            times[:, TIMES:],
            strict=False,  # what is the same for all has no end
        ),
    )
