"""Healthy life that looks like trouble, by scenario: nothing here is a fault, and
nobody may be woken by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simulator.fleet.healthy import (
    cold_starts,
    collectors,
    correction,
    jobs,
    kernel,
    operations,
    phases,
    rollout,
    rooms,
    storage,
    wide,
)
from simulator.fleet.plan import Plan

HEALTHY: Mapping[str, Callable[[Plan], None]] = {
    "H00": jobs.as_described,
    "H01": jobs.as_described,
    "H02": jobs.as_described,
    "H03": jobs.as_described,
    "H04": jobs.as_described,
    "H05": jobs.as_described,
    "H06": jobs.as_described,
    "H07": jobs.mixed_limits,
    "H08": jobs.capped,
    "H09": operations.reconfigured,
    "H10": operations.reloaded,
    "H11": operations.swapped,
    "H12": operations.counters_reset,
    "H13": operations.switch_reboot,
    "H14": operations.peer_reboot,
    "H15": operations.rolling,
    "H16": collectors.clocks,
    "H17": collectors.losses,
    "H18": collectors.sentinels,
    "H19": jobs.as_described,
    "H20": jobs.as_described,
    "H21": jobs.as_described,
    "H22": jobs.state_changes,
    "H23": jobs.as_described,
    "H24": jobs.as_described,
    "H25": operations.benign_remap,
    "H26": jobs.burn_in,
    "H27": jobs.clock_sweep,
    "H40": storage.storage,
    "H41": rooms.cycling,
    "H42": phases.phases,
    "H43": kernel.lines_of_every_day,
    "H44": kernel.servers_back,
    "H45": kernel.planned_boots,
    "H46": kernel.over_at_once,
    "H47": wide.life,
    "H48": rollout.rolled_out,
    "H49": rollout.changes_more,
    "H50": cold_starts.cold_starts,
    "H51": correction.harder_at_times,
}
