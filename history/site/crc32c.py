"""CRC-32 of Castagnoli's polynomial, as streamed remote read carries it (zlib's is another).

Many lanes at once in numpy: the bytes are cut into lanes of one length, each lane's register is
driven on its own, and registers are put together by what so many zero bytes do to them (RFC 3720,
12.1; zlib's crc32_combine).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # of Castagnoli, bits reversed (RFC 3720)
_ONES = np.uint32(0xFFFFFFFF)
_MAX_LANE = 4096  # bytes: a lane's steps; a frame of 1 MiB has 256 lanes


@cache
def _table() -> NDArray[np.uint32]:
    """What each byte does to a register."""
    registers = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = np.where(registers & 1, np.uint32(POLYNOMIAL), np.uint32(0))
        registers = ((registers >> 1) ^ odd).astype(np.uint32)
    return registers


def crc32c(data: bytes) -> int:
    """The checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    lane = min(_MAX_LANE, max(1, int(len(data) ** 0.5)))
    lanes = len(data) // lane
    table, raw = _table(), np.frombuffer(data, np.uint8)
    registers = np.zeros(lanes, np.uint32)
    for step in np.ascontiguousarray(raw[: lanes * lane].reshape(lanes, lane).T):
        registers = table[(registers ^ step) & 0xFF] ^ (registers >> 8)
    register = int(_ONES)
    over = _after_zeros(lane)
    for of_lane in registers.tolist():
        register = _times(over, register) ^ of_lane
    words = table.tolist()
    for byte in data[lanes * lane :]:
        register = words[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ int(_ONES)


@cache
def _after_zeros(count: int) -> tuple[int, ...]:
    """What ``count`` zero bytes make of each bit of a register: a matrix over GF(2) by columns."""
    one = tuple(int(_table()[1 << i]) if i < 8 else 1 << (i - 8) for i in range(32))
    made, power = tuple(1 << i for i in range(32)), one
    while count:
        if count & 1:
            made = tuple(_times(power, column) for column in made)
        power = tuple(_times(power, column) for column in power)
        count >>= 1
    return made


def _times(matrix: tuple[int, ...], register: int) -> int:
    made = 0
    while register:
        low = register & -register
        made ^= matrix[low.bit_length() - 1]
        register ^= low
    return made
