"""What the kernel prints about a port, as values. Pure functions; ValueError on anything else."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# drivers/infiniband/core/sysfs.c, rate_show: "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X)".
_RATE = re.compile(rb"(\d{1,6}(?:\.\d)?) Gb/sec \((\d{1,2})X[ \w]*\)\s*")
_CODE = re.compile(rb"(\d{1,2}): [ -~]*\s*")
_COUNT = re.compile(rb"\d{1,20}\s*")
_GUID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

# Widths and speeds in GT/s of the PCI Express Base Specification; the kernel prints "Unknown" and 0
# or 63 for what it cannot tell (drivers/pci).
_LANES = frozenset({"1", "2", "4", "8", "12", "16", "32"})
_GENERATIONS = {"2.5": 1.0, "5": 2.0, "8": 3.0, "16": 4.0, "32": 5.0, "64": 6.0}

MAX_TEXT = 128  # characters of a slow fact; the kernel's own are shorter


class Rate(NamedTuple):
    """Data rate of a link in bits per second, and its width in lanes."""

    bits_per_second: float
    lanes: float


@lru_cache(maxsize=64)
def code(raw: bytes) -> float:
    r"""Code of a state.

    >>> code(b"4: ACTIVE\n")
    4.0
    """
    found = _CODE.fullmatch(raw)
    if not found:
        raise ValueError(f"not a state: {raw[:40]!r}")
    return float(found[1])


@lru_cache(maxsize=64)
def rate(raw: bytes) -> Rate:
    r"""Rate and width.

    >>> rate(b"400 Gb/sec (4X NDR)\n")
    Rate(bits_per_second=400000000000.0, lanes=4.0)
    """
    found = _RATE.fullmatch(raw)
    if not found:
        raise ValueError(f"not a rate: {raw[:40]!r}")
    return Rate(round(float(found[1]) * 10) * 1e8, float(found[2]))


def count(raw: bytes) -> int:
    """A counter, 0 to 2**64 - 1, and nothing but digits: stricter than int(), which
    takes signs and underscores.
    """
    if not _COUNT.fullmatch(raw) or (value := int(raw)) >= 2**64:
        raise ValueError(f"not a counter: {raw[:40]!r}")
    return value


def lanes(text: str) -> float:
    """Lanes of a PCIe link; 0 where none is stated, as of a virtual function.

    >>> lanes("16"), lanes("0"), lanes("63"), lanes("Unknown")
    (16.0, 0.0, 0.0, 0.0)
    """
    return float(text) if text in _LANES else 0.0


def generation(text: str) -> float:
    """Generation of a PCIe link by its speed, which Linux before 5.7 prints without a decimal; 0
    for one that is not known.

    >>> generation("32.0 GT/s PCIe"), generation("8 GT/s"), generation("Unknown")
    (5.0, 3.0, 0.0)
    """
    return _GENERATIONS.get(text.partition(" GT/s")[0].removesuffix(".0"), 0.0)


def guid(text: str) -> str:
    """GUID as 0x and 16 hex digits; empty for one that is zero or no GUID at all.

    >>> guid("ec0d:9a03:00bf:c1e2"), guid("0000:0000:0000:0000")
    ('0xec0d9a0300bfc1e2', '')
    """
    digits = text.strip().lower().removeprefix("0x").replace(":", "")
    whole = re.fullmatch(r"[0-9a-f]{16}", digits) is not None
    return f"0x{digits}" if whole and int(digits, 16) else ""


def port_guid(gid: str) -> str:
    """The port GUID in a GID: its lower 64 bits. Empty where there is none.

    >>> port_guid("fe80:0000:0000:0000:ec0d:9a03:00bf:c1e2")
    '0xec0d9a0300bfc1e2'
    """
    lower = ":".join(gid.strip().lower().split(":")[-4:])
    return guid(lower) if _GUID.fullmatch(lower) else ""


def pci_address(text: str) -> str:
    """A PCI address, empty for anything else."""
    address = text.strip().lower()
    return address if _PCI.fullmatch(address) else ""


def fact(raw: bytes) -> str:
    """The first line of a slow fact, printable and bounded."""
    line = raw.partition(b"\n")[0].decode(errors="replace").strip()
    return "".join(c for c in line if c.isprintable())[:MAX_TEXT]
