"""Queries whose fault no simulated node has: series as an agent would export them for an hour, and
what the panel then shows.
"""

from __future__ import annotations

from typing import NamedTuple

N1 = 'cluster="c1",instance="n1:9400"'
GPU = f'{N1},gpu="0",uuid="GPU-0"'
PORT = f'{N1},device="mlx5_0",port="1"'
NAMED = 'cluster="c1",host="n1",instance="n1:9400"'
ONE_A_SECOND, ONE_A_MINUTE, ZERO = "0+60x60", "0+1x60", "0x60"


class Rare(NamedTuple):
    """Series in promtool's notation, one sample a minute; the labels of the one series of the
    answer after an hour, and its value.
    """

    series: dict[str, str]
    labels: str
    value: float


def _lost(family: str, matchers: str, by: str) -> Rare:
    """One a minute of a counter that is summed by a label, over five minutes."""
    return Rare({f"{family}{{{N1},{matchers}}}": ONE_A_MINUTE}, f"{{{by}}}", 5)


def _port(family: str) -> Rare:
    return Rare({f"{family}{{{PORT}}}": ONE_A_SECOND}, f'{{{NAMED},device="mlx5_0",port="1"}}', 1)


def _failed(family: str) -> Rare:
    return Rare(
        {f'{family}{{{N1},outcome="failed"}}': ONE_A_MINUTE}, f'{{{NAMED},outcome="failed"}}', 60
    )


def _banks(spare: str) -> str:
    return f'tocsin_gpu_row_remap_banks{{{GPU},spare="{spare}"}}'


_INFO = f'tocsin_fleet_info{{{N1},bus_cluster="c1"}}'
_LEADS = f"tocsin_fleet_leader{{{N1}}}"
_WAITS = 'tocsin_fleet_leader{cluster="c1",instance="n2:9400"}'
_OPEN = (
    f'tocsin_fleet_incident_active{{{N1},root_kind="switch",root_device="leaf1",severity="page"}}'
)
_LINK = f'{N1},host="n7",root_kind="ib_port",root_device="0xa8",severity="page"'
_EXPLAINS = f'tocsin_fleet_explains{{{N1},bus_host="n1",class="ib/link_down",severity="page"}}'


def _hosts(state: str) -> str:
    return f'tocsin_fleet_hosts{{{N1},state="{state}"}}'


def _a_second(family: str) -> Rare:
    return Rare({f"{family}{{{N1}}}": ONE_A_SECOND}, f"{{{NAMED}}}", 1)


def _risen(family: str, more: dict[str, str] | None = None) -> Rare:
    return Rare({f"{family}{{{N1}}}": ONE_A_MINUTE, **(more or {})}, f"{{{NAMED}}}", 5)


_SAME_NODE = {  # node_exporter under the same instance, as where that is the name of the node
    f'tocsin_build_info{{{N1},job="tocsin"}}': "1x60",
    f'process_start_time_seconds{{{N1},job="tocsin"}}': ZERO,
    f'process_start_time_seconds{{{N1},job="node"}}': ZERO,
    f'process_resident_memory_bytes{{{N1},job="tocsin"}}': "5x60",
    f'process_resident_memory_bytes{{{N1},job="node"}}': "9x60",
}


_GPU_LOST = 'class="gpu_lost",root_device="GPU-0"'
_UP = {f'up{{{N1},job="tocsin"}}': "1x60", 'up{instance="g1:9401",job="tocsin-gateway"}': ZERO}


RARE: dict[str, Rare] = {
    "fleet: Nodes B": Rare(_UP, "{}", 1),
    # Open for half an hour in each of two pods.
    "fleet: Open incidents B": Rare(
        {
            f'tocsin_incident_active{{{N1},pod="a",{_GPU_LOST}}}': "1x29 stale",
            f'tocsin_incident_active{{{N1},pod="b",{_GPU_LOST}}}': "_x30 1x30",
        },
        f'{{cluster="c1",instance="n1:9400",named="GPU-0",pod="b",{_GPU_LOST}}}',
        3615,
    ),
    "agents: Agents B": Rare(_UP, "{}", 1),
    "fleet: GPU-months watched A": Rare(
        {**_SAME_NODE, f'tocsin_gpu_expected{{{N1},job="tocsin"}}': "2629800x60"}, "{}", 3600
    ),
    "agents: Memory of the agents A": Rare(
        _SAME_NODE, f'process_resident_memory_bytes{{{NAMED},job="tocsin"}}', 5
    ),
    "agents: Silent agents A": Rare(
        {f'up{{{N1},job="tocsin"}}': ZERO}, f'up{{{NAMED},job="tocsin"}}', 0
    ),
    "agents: Driver not readable A": Rare(
        {f"tocsin_nvml_blind{{{N1}}}": "1x60"}, f"tocsin_nvml_blind{{{NAMED}}}", 1
    ),
    "agents: Age of readings A": Rare(
        {f'tocsin_source_last_success_timestamp_seconds{{{N1},source="nvml"}}': ZERO},
        f'{{{NAMED},source="nvml"}}',
        3600,
    ),
    "agents: Fields that could not be read A": Rare(
        {f'tocsin_source_unread{{{N1},source="nvml",reason="timeout"}}': "1x60"},
        '{source="nvml",reason="timeout"}',
        1,
    ),
    "agents: Failed or skipped reads A": _lost(
        "tocsin_source_reads_total",
        'source="nvml",outcome="failed"',
        'source="nvml",outcome="failed"',
    ),
    "agents: Failing stages A": _lost(
        "tocsin_stage_failures_total",
        'stage="detector",name="ecc",cause="ValueError"',
        'stage="detector",name="ecc"',
    ),
    "agents: Versions and configurations E": Rare(
        {f"tocsin_web_config_last_reload_successful{{{N1}}}": ZERO}, f"{{{N1}}}", 0
    ),
    "agents: Data lost A": _lost("tocsin_queue_dropped_total", 'sink="store"', 'sink="store"'),
    "agents: Data lost B": _lost(
        "tocsin_kernel_log_lost_records_total", 'reason="overrun"', 'reason="overrun"'
    ),
    "agents: Data lost C": _lost(
        "tocsin_exposition_dropped_samples_total", 'reason="duplicate"', 'reason="duplicate"'
    ),
    "agents: Jobs cut at a limit A": Rare(
        {f'tocsin_tenant_cut{{{N1},job="71",tenant="user 1001",limit="dumps"}}': "3x60"},
        f'{{{NAMED},tenant="user 1001",limit="dumps"}}',
        1,
    ),
    "agents: Lost looks at jobs A": _lost(
        "tocsin_tenant_looks_lost_total",
        'source="nccl",reason="time"',
        'source="nccl",reason="time"',
    ),
    # Eight GPUs in service for ten minutes, in which two incidents page.
    "gpu-time: GPU-hours per failure A": Rare(
        {
            'cluster:tocsin_gpus:by_cause{cluster="c1",cause="used"}': "8x60",
            'cluster:tocsin_gpus:count{cluster="c1"}': "8x60",
            'cluster:tocsin_failures:increase1h{cluster="c1"}': "12x60",
        },
        "{}",
        8 / 12,
    ),
    "fabric: Packets lost or repeated A": _port("tocsin_ib_port_out_of_sequence_total"),
    "fabric: Packets lost or repeated B": _port("tocsin_ib_port_packet_seq_err_total"),
    "fabric: Received with errors A": _port("tocsin_ib_port_receive_errors_total"),
    "fabric: Received with errors B": _port("tocsin_ib_port_receive_remote_physical_errors_total"),
    "dcgm: Ports A": Rare(
        {f"node_infiniband_state_id{{{PORT}}}": "1x60"},
        f'node_infiniband_state_id{{{NAMED},device="mlx5_0",port="1"}}',
        1,
    ),
    # 60 errors a minute, on a link of a gigabyte a second.
    "dcgm: Bit error ratio A": Rare(
        {
            f"node_infiniband_symbol_error_total{{{PORT}}}": ONE_A_SECOND,
            f"node_infiniband_rate_bytes_per_second{{{PORT}}}": "1e9x60",
        },
        f'{{{NAMED},device="mlx5_0",port="1"}}',
        1.25e-10,
    ),
    "dcgm: Flaps A": Rare(
        {f"node_infiniband_link_downed_total{{{PORT}}}": ONE_A_MINUTE},
        f'{{{NAMED},device="mlx5_0",port="1"}}',
        5,
    ),
    # 73,050 GPUs for an hour are 100 GPU-months.
    "fleet: Pages a GPU-month A": Rare(
        {
            f'tocsin_incidents_total{{{N1},class="ecc",severity="page"}}': "5x60",
            f"tocsin_incidents_overflow{{{N1}}}": ZERO,
            f"process_start_time_seconds{{{N1}}}": ZERO,
            f"tocsin_build_info{{{N1}}}": "1x60",
            f"tocsin_gpu_expected{{{N1}}}": "73050x60",
        },
        "{}",
        0.05,
    ),
    "gateway: Open pages A": Rare({_OPEN: "1x60", _LEADS: "1x60"}, "{}", 1),
    # Nothing is open, and a gateway that leads says so.
    "gateway: Open tickets A": Rare({_OPEN: "1x60", _LEADS: "1x60"}, "{}", 0),
    "gateway: Explained A": Rare({_EXPLAINS: "1x60", _LEADS: "1x60"}, "{}", 1),
    "gateway: Gateways A": Rare({_LEADS: "1x60", _WAITS: ZERO}, "{}", 1),
    "gateway: Gateways B": Rare({_LEADS: "1x60", _WAITS: ZERO}, "{}", 2),
    "gateway: Hosts A": Rare({_hosts("known"): "16x60"}, "{}", 16),
    "gateway: Hosts silent A": Rare({_hosts("silent"): "2x60"}, "{}", 2),
    # By the name of a port that an agent reads, on a node that has no part in the selection.
    "gateway: Open incidents of the cluster A": Rare(
        {
            f"tocsin_fleet_incident_active{{{_LINK}}}": "1x60",
            'tocsin_ib_port_info{cluster="c1",instance="n7:9400",device="mlx5_3",port="1",'
            'port_guid="0xa8"}': "1x60",
        },
        f'{{{_LINK},named="port mlx5_3/1"}}',
        1,
    ),
    "gateway: Open incidents of the cluster over time A": Rare(
        {_OPEN: "1x60"}, '{severity="page"}', 1
    ),
    "gateway: Explained incidents of agents A": Rare(
        {_EXPLAINS: "1x60"}, '{class="ib/link_down"}', 1
    ),
    "gateway: Which gateway leads A": Rare({_LEADS: "1x60"}, f"tocsin_fleet_leader{{{NAMED}}}", 1),
    "gateway: Behind A": Rare(
        {f"tocsin_fleet_tick_timestamp_seconds{{{N1}}}": ZERO}, f"{{{NAMED}}}", 3600
    ),
    "gateway: Processor time by step A": Rare(
        {f'tocsin_fleet_cpu_seconds_total{{{N1},step="judge"}}': ONE_A_SECOND},
        f'{{{NAMED},step="judge"}}',
        1,
    ),
    "gateway: Ingest workers started again A": Rare(
        {f'tocsin_fleet_ingest_restarts_total{{{N1},reason="ended"}}': ONE_A_MINUTE},
        f'{{{NAMED},reason="ended"}}',
        5,
    ),
    "gateway: Batches read A": _a_second("tocsin_fleet_batches_total"),
    "gateway: Bytes read A": _a_second("tocsin_fleet_batch_bytes_total"),
    "gateway: Batches refused or lost A": _risen("tocsin_fleet_batches_refused_total"),
    "gateway: Batches refused or lost B": _risen("tocsin_fleet_batches_missed_total"),
    "gateway: Batches refused or lost C": _risen("tocsin_fleet_observations_late_total"),
    "gateway: Hosts by state A": Rare({_hosts("known"): "16x60"}, '{state="known"}', 16),
    "gateway: Hosts by state B": Rare({_hosts("late"): "3x60"}, '{state="late"}', 3),
    "gateway: Agents that could not send A": Rare(
        {f"tocsin_bus_connected{{{N1}}}": ZERO}, f"tocsin_bus_connected{{{NAMED}}}", 0
    ),
    "gateway: Seconds with findings not stored A": _risen(
        "tocsin_store_lost_observations_total", {_INFO: "1x60"}
    ),
    "gateway: Seconds with findings not stored B": Rare(
        {f'tocsin_queue_dropped_total{{{N1},sink="store"}}': ONE_A_MINUTE, _INFO: "1x60"},
        f'{{{NAMED},sink="store"}}',
        5,
    ),
    "gpu: Spare rows B": Rare({_banks("low"): "2x60"}, _banks("low"), 2),
    "memory: Banks by spare rows left A": Rare({_banks("partial"): "2x60"}, "{}", 2),
    "memory: Banks by spare rows left B": Rare({_banks("low"): "2x60"}, "{}", 2),
    "memory: Corrected errors per hour A": Rare(
        {
            (
                f'tocsin_gpu_ecc_errors_total{{{GPU},type="corrected",counter="aggregate"}}'
            ): ONE_A_MINUTE
        },
        f'{{{NAMED},gpu="0",uuid="GPU-0",type="corrected",counter="aggregate"}}',
        60,
    ),
    "store: Failed maintenance A": _failed("tocsin_store_seals_total"),
    "store: Failed maintenance B": _failed("tocsin_store_upkeeps_total"),
    "store: Given up A": Rare(
        {f'tocsin_store_removed_bytes_total{{{N1},table="gpu",reason="age"}}': ONE_A_SECOND},
        '{reason="age"}',
        3600,
    ),
    "store: Oldest waiting file A": Rare(
        {f"tocsin_upload_oldest_pending_timestamp_seconds{{{N1}}}": ZERO}, f"{{{NAMED}}}", 3600
    ),
    "waste: Memory without a process A": Rare(
        {
            f'tocsin_gpu_memory_bytes{{{GPU},use="used"}}': "2147483648x60",
            f'tocsin_gpu_processes{{{GPU},type="compute"}}': ZERO,
        },
        f'tocsin_gpu_memory_bytes{{{GPU},use="used"}}',
        2147483648,
    ),
}
