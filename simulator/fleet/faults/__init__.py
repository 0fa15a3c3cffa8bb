"""The faults of the fleet, by scenario: each plans its cases.

One line here makes a scenario file come alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from simulator.fleet.faults import (
    ecc,
    fabric,
    job,
    lemon,
    link,
    observability,
    pcie,
    stalls,
    straggler,
    thermal,
    throttle,
    together,
    upstream,
    xid,
)
from simulator.fleet.faults.host import crash, planning
from simulator.fleet.plan import Plan
from simulator.fleet.troubles import devices, hardware, kernel, storage

FAULTS: Mapping[str, Callable[[Plan], None]] = {
    "F01": ecc.chronic_cell,
    "F02": ecc.storm,
    "F03": ecc.uncontained,
    "F04": ecc.exhaustion,
    "F05": ecc.sram,
    "F06": xid.lost,
    "F07": xid.gsp,
    "F08": xid.programs,
    "F09": xid.masked,
    "F10": thermal.cold_plate,
    "F11": thermal.paste,
    "F12": thermal.cooling_of_a_rack,
    "F13": thermal.hot_memory,
    "F14": throttle.brake,
    "F15": throttle.low_limit,
    "F16": straggler.silent_clock_loss,
    "F17": straggler.now_and_then,
    "F18": pcie.links,
    "F19": link.rising_errors,
    "F20": link.flapping,
    "F21": link.dirty_fibre,
    "F22": link.full_counter,
    "F23": link.lost_lanes,
    "F24": link.congestion,
    "F25": job.spin,
    "F26": job.starve,
    "F27": straggler.slow_rail,
    "F28": link.adapter_lost,
    "F29": observability.blind,
    "F30": throttle.weak_regulator,
    "F31": lemon.lemon,
    "F32": job.together,
    "F33": partial(planning.troubles, of=kernel.KERNEL),
    "F34": crash.crashes,
    "F35": partial(planning.troubles, of=hardware.HARDWARE),
    "F36": partial(planning.troubles, of=storage.SERVERS),
    "F37": partial(planning.troubles, of=storage.DISKS),
    "F38": partial(planning.troubles, of=devices.SWITCHES),
    "F39": partial(planning.troubles, of=devices.DRIVERS),
    "F40": partial(planning.troubles, of=devices.PCIE),
    "F41": partial(planning.troubles, of=devices.ADAPTERS),
    "F42": partial(planning.troubles, of=kernel.RESOURCES),
    "F43": crash.driver_hung,
    "F44": fabric.fabric,
    "F45": partial(together.several, faults=2),
    "F46": partial(together.several, faults=3),
    "F50": stalls.stuck,
    "F51": stalls.loops,
    "F52": stalls.crawls,
    "F53": stalls.loader,
    "F54": thermal.cooling_in_a_cycling_room,
    "F55": straggler.whole_node,
    "F70": upstream.dead_leaf,
    "F71": upstream.dead_leaf,
    "F72": upstream.slow_leaf,
    "F74": upstream.dead_leaf,
}
