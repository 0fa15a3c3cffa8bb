"""The dials of the fleet's world: marginals of the healthy hardware, the jobs and the collectors.

Defaults are the published marginals the suite is built on: job phases as in the Llama 3 herd of
models (section 3.3), spread of silicon as in "Not all GPUs are created equal" (SC'22), powers of
H100 nodes under load. Stress worlds change them in their scenario files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Ratios are plain (0.01 is 1 %), times in seconds or hours as named."""

    # Silicon and sensors.
    silicon: float = 0.025  # standard deviation of ln clock between GPUs
    job_offset: float = 0.008  # the same GPU in another job
    wander: float = 0.01  # AR(0.95) at 10 s of ln clock
    spikes: float = 0.0005  # share of samples whose clock is 30 % low
    sensor_noise_c: float = 0.4
    power_noise: float = 0.004
    # Instead of wander, noise with long memory (simulator/fleet/noise.py), where clock_noise > 0.
    clock_noise: float = 0.0  # standard deviation of minutes of ln clock
    clock_slow: float = 0.25
    clock_shared: float = 0.0
    idle_factor: float = 1.0  # of the idle power of the profile
    # Heat.
    inlet_c: float = 27.0
    inlet_daily_c: float = 2.0
    inlet_walk_c: float = 0.5
    preheat_c: float = 6.0
    r_th_spread: float = 0.06
    sink_tau_s: float = 0.0  # time constant of all heat sinks, 0: the profile's
    front_k: float = 0.0  # what GPUs at full power make of the air of those behind them
    # Jobs.
    jobs: Literal["fleet", "none", "one", "short"] = "fleet"
    job_gpus: float = 48.0  # median of the log-normal size
    job_gpus_sigma: float = 1.0
    job_hours_low: float = 6.0
    job_hours_high: float = 72.0
    gap_low_s: float = 60.0
    gap_high_s: float = 900.0
    init_low_s: float = 60.0
    init_high_s: float = 600.0
    checkpoint_low_s: float = 60.0
    checkpoint_high_s: float = 180.0
    first_checkpoint_s: float = 0.0  # of its own length, 0: as the others
    eval_s: float = 420.0
    load_low: float = 0.49  # 380 W of 700 W at the typical clock
    load_high: float = 0.93  # 660 W, the fastest silicon 690 W
    step_s: float = 0.0  # of a usual job, 0: as drawn
    stage_spread: float = 0.0  # difference of load between pipeline stages (nodes of a job)
    imbalance: float = 0.0  # slow variation of a node's share of work (sequence lengths, experts)
    # Collectors.
    missed_share: float = 0.0  # half of it in single readings, half in runs
    missed_run: float = 1.0  # readings in a row, of an agent that reads each second
    loss: float = 0.005  # share of a node's readings that never arrive
    jitter_s: float = 0.4  # a reading is this late at most
    kmsg: bool = True
    twins: Literal["yes", "no", "any"] = (
        "yes"  # ports have the 64-bit twins of their narrow counters; any: some fleets do
    )
    links: Literal["NDR", "any"] = "NDR"  # speed of the fabric; any: HDR, NDR or XDR
    pod_nodes: int = 64  # that share their leaf switches
    known: Literal["leaf", "rail", "none"] = "leaf"  # what the topology says of ports
    wide: bool = False  # drawn per run from simulator/fleet/ranges.toml
    every_read: float = 1.0  # of so many readings each second node gives one
    models: float = 1.0  # of GPUs, side by side
    cap_w: float = 0.0  # power limit of all GPUs, 0 is the default one
    mixed_models: bool = False  # every other node is an A100
    skew_s: float = 0.0  # clocks of nodes are off by up to this
    restarts: int = 0  # of all agents
    fec: bool = False  # GPUs show the FEC history of NVLink 5
    weekend: float = 1.0  # share of jobs that start on Saturdays and Sundays
    # single ECC errors, symbol errors and application XIDs at the rate of healthy fleets
    background: bool = True
    app_xids_per_gpu_month: float = 0.5
