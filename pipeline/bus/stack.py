"""A stack: frames of one kind about the same devices, one after the other, as one block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.bus.arrays import WORD, as_words, from_words, pack_words, unpack_words
from pipeline.catalog import KINDS
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Observation
from pipeline.plain import plain_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

Identity = tuple[tuple[Device, ...], tuple[tuple[tuple[str, str], ...], ...]]


@dataclass(frozen=True, slots=True)
class Stack:
    """``places`` are (index of the observation in the batch, index of the frame in it)."""

    places: tuple[tuple[int, int], ...]
    frames: tuple[Frame, ...]


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


def encode_stack(stack: Stack) -> tuple[dict[str, Any], bytes]:
    """What the batch's head says of it, and its block."""
    first = stack.frames[0]
    gauges = np.stack([frame.gauges for frame in stack.frames])
    seen = ~np.isnan(gauges)
    rows = np.flatnonzero(seen.any(axis=(0, 2)))
    words, whole = as_words(gauges[:, rows])
    observed = np.stack([frame.observed for frame in stack.frames])
    counted = np.flatnonzero(observed.any(axis=(0, 2)))
    counters = np.stack([frame.counters[counted] for frame in stack.frames])
    masked = observed[:, counted]
    times = np.array([[f.time_ns, f.mono_ns] for f in stack.frames], np.int64).view(np.uint64)
    sampled = np.stack([f.sampled_ns for f in stack.frames]).view(np.uint64)
    gauge_moves, gauge_parts = _columns(words, seen[:, rows])
    counter_moves, counter_parts = _columns(np.where(masked, counters, np.uint64(0)), masked)
    head = {
        "kind": first.kind,
        "devices": [plain_device(device) for device in first.devices],
        "places": stack.places,
        "gauges": [first.schema.gauges[row].name for row in rows.tolist()],
        "whole": whole.tolist(),
        "gauges_move": gauge_moves.tolist(),
        "counters": [first.schema.counters[row].name for row in counted.tolist()],
        "counters_move": counter_moves.tolist(),
    }
    return head, b"".join([pack_words(times), pack_words(sampled), *gauge_parts, *counter_parts])


def _columns(
    words: NDArray[np.uint64], seen: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], list[bytes]]:
    """Which columns (column,) change within the batch, and their blocks: all samples of these, the
    first sample of the others.
    """
    changes = (words[1:] != words[:-1]) | (seen[1:] != seen[:-1])
    moves: NDArray[np.bool_] = changes.any(axis=(0, 2))
    parts = []
    for which, samples in ((moves, slice(None)), (~moves, slice(1))):
        parts += [
            np.packbits(seen[samples][:, which]).tobytes(),
            pack_words(words[samples][:, which]),
        ]
    return moves, parts


def decode_stack(head: Any, devices: tuple[Device, ...], block: memoryview) -> tuple[Stack, int]:
    """The stack, and how many bytes of the block it took.

    ValueError, LookupError or TypeError where head and block do not agree.
    """
    if head["kind"] not in KINDS:
        raise ValueError(f"no kind of device: {head['kind']!r:.40}")
    schema = schema_of(head["kind"])
    places = tuple((int(n), int(place)) for n, place in head["places"])
    shape = (len(places), len(devices))
    take = _Taker(block)
    times = take.words((len(places), 2)).view(np.int64)
    sampled = take.words(shape).view(np.int64)
    gauges = np.full((len(places), len(schema.gauges), len(devices)), np.nan)
    whole = np.array(head["whole"], np.bool_).reshape(len(head["gauges"]))
    for names, words, seen in take.columns(head["gauges"], head["gauges_move"], shape):
        rows, known = _rows(head["gauges"], names, schema.gauge_row)
        gauges[:, rows] = from_words(words, whole[names], ~seen)[:, known]
    counters = np.zeros((len(places), len(schema.counters), len(devices)), np.uint64)
    observed = np.zeros(counters.shape, np.bool_)
    for names, words, seen in take.columns(head["counters"], head["counters_move"], shape):
        rows, known = _rows(head["counters"], names, schema.counter_row)
        counters[:, rows], observed[:, rows] = words[:, known], seen[:, known]
    frames = tuple(
        Frame(schema, time_ns, mono_ns, devices, gauges[i], counters[i], observed[i], sampled[i])
        for i, (time_ns, mono_ns) in enumerate(times.tolist())
    )
    return Stack(places, frames), take.at


def _rows(
    names: Sequence[str], which: NDArray[np.intp], rows: Mapping[str, int]
) -> tuple[list[int], list[int]]:
    """Rows of this version's schema, and which of the columns they are for: those that it lacks
    are left out.
    """
    known = [(rows[names[at]], n) for n, at in enumerate(which.tolist()) if names[at] in rows]
    return [row for row, _ in known], [n for _, n in known]


class _Taker:
    """Takes arrays from a block one after the other."""

    def __init__(self, block: memoryview) -> None:
        self._block, self.at = block, 0

    def words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Packed words; ValueError where the block ends before."""
        return unpack_words(self._take(WORD * math.prod(shape)), shape)

    def columns(
        self, names: Sequence[str], move: Sequence[bool], shape: tuple[int, int]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint64], NDArray[np.bool_]]]:
        """What ``_columns`` wrote: columns, words and masks of those that change, then those of the
        others, of one sample.
        """
        moves = np.array(move, np.bool_).reshape(len(names))
        for which, size in ((moves, shape[0]), (~moves, min(shape[0], 1))):
            wide = (size, int(which.sum()), shape[1])
            seen = self._bits(wide)
            yield np.flatnonzero(which), self.words(wide), seen

    def _bits(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        count = math.prod(shape)
        packed = np.frombuffer(self._take((count + 7) // 8), np.uint8)
        return np.unpackbits(packed, count=count).view(np.bool_).reshape(shape)

    def _take(self, size: int) -> memoryview:
        part = self._block[self.at : self.at + size]
        if len(part) != size:
            raise ValueError(f"ends {size - len(part)} bytes early")
        self.at += size
        return part
