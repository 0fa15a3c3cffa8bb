"""XID 74: the seven registers of NVLink 4 and older.

Register bits: NVIDIA's XID 74 workflow ("Working with XID errors", NVLink errors). Registers 3 and
4 hold more than is published; what is not known stays a ticket with the raw registers in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

REGISTERS = 7


class Cause(NamedTuple):
    """What a set of bits means.

    ``alone``: only where no other code came with it. ``again``: only from the
    second time within a day.
    """

    words: str
    hardware: bool
    bits: tuple[tuple[int, int], ...]  # (register, bit), any of them
    alone: bool = False
    again: bool = False


CAUSES = (
    Cause("the NVLink reports a hardware error", True, ((0, 1), (0, 20)), alone=True),
    Cause(
        "signal integrity of the NVLink: connector, cable or board",
        False,
        ((0, 21), (0, 22)),
        alone=True,
    ),
    Cause("the NVLink reports a hardware error", True, ((2, 13), (3, 18))),
    Cause(
        "ECC or parity errors of the NVLink, again",
        True,
        ((0, 4), (0, 5), (2, 0), (2, 1), (2, 2), (2, 6)),
        again=True,
    ),
    Cause(
        "hardware errors of the NVLink, again",
        True,
        tuple((0, bit) for bit in (8, 9, 12, 16, 17, 24, 28)),
        again=True,
    ),
    Cause(
        "errors of the NVLink, again",
        False,
        ((0, 27), (0, 29), (2, 16), (2, 17), (2, 18), (2, 19)),
        again=True,
    ),
)


def cause_of(registers: str, *, alone: bool, times: int) -> Cause | None:
    """The first cause that the registers show, None where they say nothing that counts now.

    ``registers`` as in the event: hexadecimal, separated by blanks. ``times`` is how often this
    link reported within a day.

    >>> cause_of("0x100000 0x0 0x0 0x0 0x0 0x0 0x0", alone=True, times=1).hardware
    True
    >>> cause_of("0x10000 0x0 0x0 0x0 0x0 0x0 0x0", alone=True, times=1) is None
    True
    >>> cause_of("0x10000 0x0 0x0 0x0 0x0 0x0 0x0", alone=True, times=2).words
    'hardware errors of the NVLink, again'
    """
    values = _values(registers)
    for cause in CAUSES:
        shown = any(values[register] >> bit & 1 for register, bit in cause.bits)
        if shown and (alone or not cause.alone) and (times > 1 or not cause.again):
            return cause
    return None


def _values(registers: str) -> Sequence[int]:
    """Seven registers; those that are missing or unreadable are 0."""
    try:
        values = [int(word, 16) for word in registers.split()[:REGISTERS]]
    except ValueError:
        values = []
    return values + [0] * (REGISTERS - len(values))
