"""Numbers as text: what prometheus_client writes, at the speed of orjson."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson

from pipeline.exposition.client import floatToGoString

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Between these magnitudes orjson and Go write the same digits; outside Go uses exponents, and
# orjson has no NaN or Inf.
_LOW, _HIGH = 1e-4, 1e6


def float_texts(values: NDArray[np.float64]) -> list[bytes]:
    """Texts of a one-dimensional float64 array, byte for byte those of prometheus_client.

    >>> float_texts(np.array([0.0, 41.0, 0.125, 1.98e9, float("inf")]))
    [b'0.0', b'41.0', b'0.125', b'1.98e+09', b'+Inf']
    """
    if not len(values):
        return []
    texts = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)[
        1:-1
    ].split(b",")
    size = np.abs(values)
    # NaN and Inf are here too
    odd = np.flatnonzero(~(((size >= _LOW) & (size < _HIGH)) | (values == 0)))
    for i in odd.tolist():
        texts[i] = float_text(float(values[i]))
    return texts


def whole_texts(values: NDArray[np.float64]) -> list[bytes]:
    """Texts of whole numbers held as float64, all digits and no point.

    >>> whole_texts(np.array([0.0, -3.0, 2.0**53]))
    [b'0', b'-3', b'9007199254740992']
    """
    return [b"%d" % int(value) for value in values.tolist()]


def float_text(value: float) -> bytes:
    """Text of one float, as prometheus_client writes it."""
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]  # the client has no annotation here
    return text.encode()


def integer_text(value: int, times: int, per: int, *, whole: bool) -> bytes:
    """Text of ``value * times / per`` for an integer of any size: exact, or correctly rounded
    where it does not divide.

    >>> integer_text(2**64 - 1, 1, 1, whole=False), integer_text(1999, 1, 1000, whole=False)
    (b'18446744073709551615', b'1.999')
    >>> integer_text(1999, 1, 1000, whole=True)
    b'1'
    """
    scaled = value * times
    if per == 1:
        return b"%d" % scaled
    return b"%d" % (scaled // per) if whole else float_text(scaled / per)
