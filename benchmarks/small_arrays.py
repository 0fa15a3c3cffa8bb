"""What numpy's own functions cost on arrays of a node's size, beside pipeline/small_arrays.py, in
one run: ratios for 8, 128 and 4,096 numbers.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipeline.small_arrays import all_true, any_true, or_else

SIZES = (8, 128, 4096)
CALLS, REPEATS = 5_000, 7


def microseconds(call: Callable[[], Any]) -> float:
    """Of one call, at best."""
    return min(timeit.repeat(call, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def main() -> int:
    """Print each pair; 1 where numpy is the faster one on the smallest array."""
    slower = 0
    for size in SIZES:
        mask = np.zeros(size, np.bool_)
        x = np.where(np.arange(size) % 7 == 0, np.nan, 1.0)
        pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "any": (mask.any, partial(any_true, mask)),
            "all": (mask.all, partial(all_true, mask)),
            "nan_to_num": (partial(np.nan_to_num, x), partial(or_else, x)),
        }
        for name, (theirs, ours) in pairs.items():
            numpy_us, ours_us = microseconds(theirs), microseconds(ours)
            print(
                f"{size:5} numbers: {name:10} {numpy_us:6.2f} us, ours {ours_us:5.2f} us: "
                f"{numpy_us / ours_us:.1f} times"
            )
            slower += size == SIZES[0] and ours_us > numpy_us
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
