"""How an answer of NVML becomes a value of the catalogue, where it is not the
value itself (``as CODEC``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_COMPUTE_SLICES = re.compile(r"^\d+c\.")
# nvmlBrandType_t, in DCGM's words (dcgm_fields.h, DCGM_FI_DEV_BRAND).
_BRANDS = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NVIDIA vApps",
    8: "NVIDIA VPC",
    9: "NVIDIA vCS",
    10: "NVIDIA vWS",
    11: "NVIDIA Cloud Gaming",
    12: "Quadro RTX",
    13: "NVIDIA RTX",
    14: "NVIDIA",
    15: "GeForce RTX",
    16: "Titan RTX",
}
# nvmlDeviceArchitecture_t.
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}


def bit_error_ratio(word: int) -> float:
    """Ratio from NVLink 5's word: exponent in bits 0 to 7, mantissa in bits 8 to 11 (nvml.h,
    NVML_NVLINK_ERROR_COUNT_BER).

    A link without errors reports 15e-255, the smallest the word can hold.

    >>> bit_error_ratio(0x50C), bit_error_ratio(0xFFF)
    (5e-12, 1.5e-254)
    """
    return float(f"{word >> 8 & 0xF}e-{word & 0xFF}")


def uuid(value: Any) -> str:
    """Sixteen bytes as a UUID; text as it is, nothing where all bytes are zero.

    >>> uuid(bytes(range(16))), uuid(bytes(16))
    ('00010203-0405-0607-0809-0a0b0c0d0e0f', '')
    """
    if isinstance(value, str):
        return value
    text = bytes(value).hex()
    return (
        ""
        if not text.strip("0")
        else "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    )


def profile(name: str) -> str:
    """Profile of the GPU instance that a MIG device is of, from its name: MIG geometry without the
    product, and without the share that a smaller compute instance has of it (``1c.``).

    >>> profile("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), profile("1g.10gb"), profile("MIG 1c.3g.40gb")
    ('1g.10gb', '1g.10gb', '3g.40gb')
    """
    return _COMPUTE_SLICES.sub("", name.rpartition("MIG ")[2])


def version(value: Any) -> str:
    """Major and minor number as text; text as it is."""
    return value if isinstance(value, str) else ".".join(str(part) for part in value)


def plain_hex(value: Any) -> str:
    """Bytes as hexadecimal digits without zeros at their end (an InfiniBand GUID has 8 of the
    16 bytes); text as it is.
    """
    return value if isinstance(value, str) else bytes(value).rstrip(b"\0").hex()


def text(value: Any) -> str:
    """Text of a fixed-size field; only what is printable."""
    plain = (
        bytes(value).partition(b"\0")[0].decode("ascii", "replace")
        if not isinstance(value, str)
        else value
    )
    return "".join(c for c in plain if c.isprintable()).strip()


def byte(value: Any) -> int:
    """Number of a ``char``, which ctypes gives as one byte of text."""
    return value[0] if isinstance(value, bytes) else int(value)


CODECS: dict[str, Callable[[Any], Any]] = {
    "architecture": lambda value: _ARCHITECTURES.get(value, str(value)),
    "bit_error_ratio": bit_error_ratio,
    "brand": lambda value: _BRANDS.get(value, str(value)),
    "byte": byte,
    "hex": plain_hex,
    "profile": profile,
    "text": text,
    "uuid": uuid,
    "valid": lambda _: 1,  # a check that returns is a check that passed; one that fails raises
    "version": version,
}
