"""The order of ranks by what they have launched: who is ahead of whom, and who is
neither ahead nor behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.nccl.member import Counts

MAX_COUNT = 2**62  # a count beyond is no count

Relation = NDArray[np.bool_]


def compared(places: Sequence[Counts]) -> tuple[Relation, Relation]:
    """(ahead, crossed), each (place, place).

    ``ahead[i, j]``: i has launched all that j has, and more. ``crossed[i, j]``: each has launched
    something that the other has not. An operation that one of them does not have counts as
    equal.

    >>> ahead, crossed = compared([(("AllReduce", 5),), (("AllReduce", 4),)])
    >>> ahead.tolist(), crossed.any()
    ([[False, True], [False, False]], np.False_)
    """
    more = np.zeros((len(places), len(places)), np.bool_)
    known = [dict(place) for place in places]
    for name in {name for place in known for name in place}:
        listed = np.array([name in place for place in known])
        counts = np.array([min(place.get(name, 0), MAX_COUNT) for place in known], np.int64)
        more |= (counts[:, None] > counts[None, :]) & listed[:, None] & listed[None, :]
    return more & ~more.T, more & more.T


def nearest(ahead: Relation) -> Relation:
    """Of all that a place is ahead of, those that nothing lies between: with them alone
    the same ends are reached.
    """
    steps = ahead.astype(np.float32)
    return ahead & ~((steps @ steps) > 0)
