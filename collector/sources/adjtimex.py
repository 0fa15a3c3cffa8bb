"""The kernel's clock discipline: whether the wall clock is synchronised, and how far off it may be.

adjtimex(2), struct timex of linux/timex.h.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

STA_UNSYNC, STA_NANO = 0x0040, 0x2000
TIME_ERROR = 5


@dataclass(frozen=True, slots=True)
class Discipline:
    """``offset_ns`` is what is still being corrected; ``maximum_error_us`` bounds the error, as
    the time daemon reckons it.
    """

    offset_ns: int
    maximum_error_us: int
    synchronised: bool


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("pps", ctypes.c_long * 9),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


def read() -> Discipline:
    """Ask the kernel; changes nothing and needs no privilege.

    OSError where the kernel has none (some sandboxes).
    """
    answer = _Timex()
    library = ctypes.CDLL(None, use_errno=True)
    state = library.adjtimex(ctypes.byref(answer))
    if state < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    unit_ns = 1 if answer.status & STA_NANO else 1000
    synchronised = state != TIME_ERROR and not answer.status & STA_UNSYNC
    return Discipline(answer.offset * unit_ns, answer.maxerror, synchronised)
