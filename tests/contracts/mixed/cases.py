"""A fault for each detector that judges readings: what a healthy node shows, and what another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from detectors.drift import Drift
from detectors.outlier import Outlier
from pipeline.interfaces import Detector

SPREAD = (0.06, 0.03, 0.01, 0.005, -0.005, -0.01, -0.03, -0.06)  # of silicon, by device
BAD = 4  # the device at fault
NDR = 400e9

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """``healthy``: gauges, and counters by what they grow per second, of each device; ``bad``: what
    the struck node's device shows instead after ``warm_s``, for ``bad_s`` (all of its devices where
    the node is at fault). ``wander``: gauges that differ by SPREAD from device to device.
    """

    detector: str
    fault: str
    healthy: Values
    bad: Values
    bad_s: float
    warm_s: float = 600.0
    kind: str = "gpu"
    of_node: bool = False
    wander: tuple[str, ...] = ()
    jobs: bool = False  # a scheduler tells of a job on each node
    ramps: Values = field(default_factory=dict)  # gauges of the bad device that grow per second
    one_each_s: Values = field(default_factory=dict)  # its counters that grow by one so often
    most: Values = field(default_factory=dict)  # counters that stick at this value
    orders_a_day: Values = field(default_factory=dict)  # its counters that grow faster and faster
    make: Callable[[], Detector] | None = None  # as no node has it by default
    block_s: float = 60.0  # after which its detector judges
    of_fleet: bool = True  # whether nodes beside it change nothing of it
    sooner: Mapping[str, int] = field(default_factory=dict)  # constants: days of learning


_WORKS = {
    "state": 0,
    "gpu_utilization_percent": 99,
    "sm_clock_megahertz": 1800,
    "power_milliwatts": 600e3,
    "energy_millijoules": 600e3,
    "tensor_activity_percent": 50,
    "dram_activity_percent": 40,
    "temperature_celsius": 60,
    "power_limit_enforced_milliwatts": 700e3,
    "power_limit_default_milliwatts": 700e3,
    "power_limit_requested_milliwatts": 700e3,
    "compute_processes": 1,
    "memory_used_bytes": 60e9,
    "mig_mode_current": 0,
    "persistence_mode": 1,
    "throttled_power_cap_nanoseconds": 0,
    "throttled_hw_thermal_nanoseconds": 0,
    "throttled_sw_thermal_nanoseconds": 0,
    "throttled_hw_power_brake_nanoseconds": 0,
    "temperature_slowdown_celsius": 87,
    "ecc_corrected_volatile_dram": 0,
    "pcie_width_current": 16,
    "pcie_width_maximum": 16,
    "pcie_generation_current": 5,
    "pcie_generation_maximum": 5,
    "pcie_replays": 0,
    "pcie_transmit_bytes": 1e9,
    "pcie_receive_bytes": 1e9,
    "nvlinks_up": 18,
    "nvlinks_down": 0,
    "nvlink_transmit_mebibytes_per_second": 80_000,
    "nvlink_receive_mebibytes_per_second": 80_000,
    "row_remap_pending": 0,
    "fabric_state": 3,
    "fabric_error_code": 0,
    "fabric_health": 1,
    "fabric_health_mask": 0xAA | 1 << 8,
}
_WAITS = {
    "tensor_activity_percent": 0,
    "dram_activity_percent": 0,
    "power_milliwatts": 120e3,
    "energy_millijoules": 120e3,
    "nvlink_transmit_mebibytes_per_second": 0,
    "nvlink_receive_mebibytes_per_second": 0,
    "pcie_transmit_bytes": 1e5,
    "pcie_receive_bytes": 1e5,
}
_PORT = {
    "state": 4,
    "expected": 1,
    "rate_bits_per_second": NDR,
    "width_lanes": 4,
    "symbol_errors": 0,
    "link_downed": 0,
    "receive_packets": 1e6,
    "receive_errors": 0,
    "transmit_words": 1.5e9,
    "receive_words": 1.5e9,
    "transmit_wait_ticks": 100,
    "fec_corrected_blocks": 1,
}


def _gpu(detector: str, fault: str, bad: Values, bad_s: float, **more: object) -> Case:
    return Case(detector, fault, _WORKS, bad, bad_s, **more)  # type: ignore[arg-type]


def _port(detector: str, fault: str, bad: Values, bad_s: float, **more: object) -> Case:
    return Case(detector, fault, _PORT, bad, bad_s, kind="ib_port", **more)  # type: ignore[arg-type]


_CLOCKS = ("sm_clock_megahertz",)
CASES = (
    _gpu("availability", "gpu_lost", {"state": 1}, 300),
    _gpu(
        "drift",
        "drift/gpu_persistence_mode",
        {"persistence_mode": 0},
        5400,
        make=lambda: Drift({"gpu.persistence_mode": "1"}),
        block_s=600.0,
    ),
    _gpu("ecc", "ecc/remap_pending", {"row_remap_pending": 1}, 600),
    _gpu("frozen", "observability/frozen", {"energy_millijoules": 0}, 900),
    _gpu("hang", "hang/in_flight", _WAITS, 700, warm_s=2000, of_node=True, jobs=True),
    _gpu("nvlink", "nvlink/link_down", {"nvlinks_up": 17, "nvlinks_down": 1}, 600),
    _gpu("nvlink_fabric", "nvlink_fabric/registration", {"fabric_state": 2}, 900),
    _gpu("pcie", "pcie/width", {"pcie_width_current": 8}, 600),
    _gpu("pcie", "pcie/replays", {"pcie_replays": 200}, 2400),
    _gpu(
        "power",
        "power",
        {"energy_millijoules": 480e3, "power_milliwatts": 480e3},
        1200,
        warm_s=1800,
        wander=_CLOCKS,
    ),
    _gpu(
        "power_cap",
        "throttle/power_cap",
        {"throttled_power_cap_nanoseconds": 8e8, "sm_clock_megahertz": 1700},
        1200,
    ),
    _gpu(
        "outlier",
        "outlier",
        {"power_milliwatts": 480e3, "temperature_celsius": 75},
        1800,
        warm_s=13 * 3600,
        # Few enough healthy blocks know a limit that one in a hundred of them lies beyond.
        make=lambda: Outlier(warm_ns=0, tail=1e-2),
    ),
    _gpu("power_limit", "power_limit/low", {"power_limit_enforced_milliwatts": 500e3}, 1200),
    _gpu(
        "slow_node",
        "straggler/node",
        {"sm_clock_megahertz": 1500},
        1200,
        warm_s=2400,
        of_node=True,
        wander=_CLOCKS,
        jobs=True,
    ),
    _gpu(
        "starvation",
        "starvation/nothing",
        {"gpu_utilization_percent": 0, **_WAITS},
        2400,
        warm_s=2400,
        of_node=True,
        jobs=True,
    ),
    _gpu("straggler", "straggler", {"sm_clock_megahertz": 1600}, 600, warm_s=1800, wander=_CLOCKS),
    _gpu("throttle", "thermal/hw_slowdown", {"throttled_hw_thermal_nanoseconds": 5e8}, 600),
    _gpu("thermal_imminent", "thermal/imminent", {}, 130, ramps={"temperature_celsius": 0.2}),
    _gpu(
        "thermal_rack",
        "thermal/cooling",
        {"temperature_celsius": 75},
        3600,
        warm_s=2 * 3600,
        of_node=True,
        of_fleet=False,  # half of four nodes that become warm are a room
    ),
    _gpu(
        "thermal_resistance",
        "thermal/resistance",
        {"temperature_celsius": 66},
        2 * 3600,
        warm_s=6 * 3600,
        block_s=900.0,
        sooner={
            "detectors.thermal.resistance.SILENT_MINUTES": 300,  # of five days
            "detectors.thermal.resistance.MIN_LEARNT": 240,  # of one
        },
    ),
    _gpu(
        "waste",
        "waste/memory",
        {"gpu_utilization_percent": 0, "compute_processes": 0},
        1200,
    ),
    _port(
        "fec_tail",
        "ib/fec_tail",
        {},
        26 * 3600,
        orders_a_day={"fec_corrected_blocks": 3.0},
        block_s=3600.0,
    ),
    _port("ib_ber", "ib_ber", {"symbol_errors": 0.5}, 2400, warm_s=1200),
    _port(
        "ib_congestion",
        "congestion",
        {"transmit_wait_ticks": 1e6},
        900,
        warm_s=2400,
        of_node=True,
    ),
    _port("ib_errors", "ib/errors", {"receive_errors": 100}, 1200),
    _port("ib_flap", "ib_flap", {}, 1500, one_each_s={"link_downed": 400}),
    _port(
        "ib_saturation",
        "counter_saturated",
        {"symbol_errors": 1000},
        300,
        most={"symbol_errors": 0xFFFF},  # 16 bits: IBTA volume 1, 16.1.3.5
    ),
    _port("ib_link", "ib/link_down", {"state": 1}, 900),
    _port("ib_rail", "straggler", {"transmit_words": 7e8, "receive_words": 7e8}, 900, warm_s=1500),
)
