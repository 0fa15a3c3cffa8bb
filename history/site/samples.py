"""Samples of a remote-read answer as arrays, without an object for each of them.

On the wire a sample of this century has 16 bytes: tag 0x09 and the value's eight, tag 0x10 and a
time of six 7-bit groups; a value of zero is left out (prompb/types.proto; Protocol Buffers,
Encoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from history.site.messages import message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = tuple[NDArray[np.int64], NDArray[np.float64]]

_VALUE, _TIME = 0x09, 0x10
_FULL = np.dtype([("value_tag", "u1"), ("value", "<f8"), ("time_tag", "u1"), ("time", "u1", 6)])
_ZERO = np.dtype([("time_tag", "u1"), ("time", "u1", 6)])
_SHIFTS = np.arange(0, 42, 7, dtype=np.int64)


def arrays(samples: Sequence[bytes]) -> Arrays:
    """Times in ms and values of encoded samples, in their order. DecodeError of protobuf where they
    are none.
    """
    n = len(samples)
    sizes = np.fromiter(map(len, samples), np.int64, n)
    zero, full = sizes == _ZERO.itemsize, sizes == _FULL.itemsize
    if not (zero | full).all():
        return _slowly(samples)
    times, values = np.zeros(n, np.int64), np.zeros(n)
    for at, kind in ((full, _FULL), (zero, _ZERO)):
        if at.any():
            own = samples if at.all() else [samples[i] for i in np.flatnonzero(at).tolist()]
            rows = np.frombuffer(b"".join(own), kind)
            if not _as_expected(rows, kind):
                return _slowly(samples)
            times[at] = ((rows["time"] & 0x7F).astype(np.int64) << _SHIFTS).sum(axis=1)
            if kind is _FULL:
                values[at] = rows["value"]
    return times, values


def _as_expected(rows: NDArray[np.void], kind: np.dtype[np.void]) -> bool:
    groups = rows["time"]
    is_time = (rows["time_tag"] == _TIME) & (groups[:, :5] >= 0x80).all(axis=1)
    is_time &= groups[:, 5] < 0x80
    return bool(is_time.all() and (kind is not _FULL or (rows["value_tag"] == _VALUE).all()))


def _slowly(samples: Sequence[bytes]) -> Arrays:
    parsed = [message("Sample").FromString(one) for one in samples]
    times = np.fromiter((one.timestamp for one in parsed), np.int64, len(parsed))
    return times, np.fromiter((one.value for one in parsed), np.float64, len(parsed))
