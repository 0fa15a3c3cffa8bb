"""Models of GPUs with the figures that a node of them shows."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Model:
    """Watts, megahertz and degrees Celsius. ``idle_w`` and ``context_w`` are ranges over parts: a
    GPU whose memory a process holds draws more than one without. Limits and clocks are those of
    the vendor's data sheets; idle power as nvidia-smi tables and AcmeTrace show it.
    """

    name: str
    limit_w: float
    idle_w: tuple[float, float]
    context_w: tuple[float, float]
    top_mhz: float
    low_mhz: float
    memory_mhz: float
    memory_bytes: int
    slowdown_c: float
    pcie_generation: int
    port_bits: float
    links: int


MODELS = (
    Model(
        "NVIDIA A100-SXM4-80GB", 400, (52, 66), (70, 95), 1410, 210, 1593, 80 * GIB, 92, 4, 2e11, 12
    ),
    Model(
        "NVIDIA H100 80GB HBM3",
        700,
        (65, 80),
        (110, 145),
        1980,
        345,
        2619,
        80 * GIB,
        87,
        5,
        4e11,
        18,
    ),
    Model("NVIDIA H200", 700, (75, 85), (110, 150), 1980, 345, 3201, 141 * GIB, 87, 5, 4e11, 18),
    Model("NVIDIA B200", 1000, (136, 144), (180, 260), 1965, 120, 3996, 180 * GIB, 90, 5, 4e11, 18),
)
