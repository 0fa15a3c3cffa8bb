"""dcgm-exporter and node_exporter alone: nodes that run no agent of ours, by the counters that both
show as they are shipped.
"""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import NONE_IS_BEST, NONE_IS_WELL, RAW_PORT_STATE, Step
from dashboards.panels import (
    Column,
    Dashboard,
    Heatmap,
    Lines,
    Query,
    Row,
    Stat,
    Table,
    Timeline,
    Variable,
)
from dashboards.queries import dialect, foreign
from dashboards.shared import BY_PORT, increase, one, rate, zero_where

_GPU = "{{instance}} GPU {{gpu}}"
_ANY = '{__name__=~"DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_GPU_TEMP_CELSIUS"}'
_CLUSTERS = Variable("cluster", "Cluster", _ANY, "cluster", every=".*")
_JOBS = Variable("job", "Scrape job", _ANY, "job")
# Those of GPUs and of ports: the two exporters of a node listen on ports of their own.
_EITHER = _ANY.replace('"}', '|node_infiniband_state_id"}')
_NODES = Variable("instance", "Exporter", _EITHER, "instance")


def _of(name: str) -> str:
    return dialect("gpu", name)


_TEMPERATURE, _POWER, _USE = (
    _of("temperature_celsius"),
    _of("power_milliwatts"),
    _of("gpu_utilization_percent"),
)
_USED, _FREE = _of("memory_used_bytes"), _of("memory_free_bytes")
_REPLACED, _FAILED = _of("remapped_rows_uncorrectable"), _of("row_remap_failed")

NUMBERS = (
    Stat(
        title="GPUs",
        about=(
            "GPUs that the exporters show. One that fell off the bus is missing: detecting "
            "that needs an inventory."
        ),
        queries=(Query(f"count({_TEMPERATURE})"),),
        width=6,
        place=places.RAW_GPUS,
    ),
    Stat(
        title="To be replaced",
        about="GPUs whose row remapping failed.",
        queries=(Query(zero_where(f"count({_FAILED} > 0)", _FAILED)),),
        steps=NONE_IS_WELL,
        width=6,
    ),
    Stat(
        title="Rows replaced",
        about="GPUs with memory rows replaced after uncorrectable errors.",
        queries=(Query(zero_where(f"count({_REPLACED} > 0)", _REPLACED)),),
        steps=NONE_IS_BEST,
        width=6,
    ),
    Stat(
        title="Power now",
        about="Of all boards.",
        queries=(Query(f"sum({_POWER})"),),
        unit="watt",
        width=6,
    ),
)

WORK = (
    Lines(
        title="Utilisation",
        about="Share of time in which a kernel ran.",
        queries=(Query(_USE, _GPU),),
        legend=False,
        unit="percentunit",
        minimum=0,
        maximum=1,
    ),
    Heatmap(
        title="Tensor activity",
        about="GPUs by tensor activity.",
        queries=(Query(_of("tensor_activity_percent")),),
        unit="percentunit",
        bucket=0.05,
        minimum=0,
        maximum=1,
        empty="no exporter shows profiling metrics",
    ),
    Lines(
        title="Power",
        about="Of each board.",
        queries=(Query(_POWER, _GPU),),
        place=places.RAW_POWER,
        legend=False,
        unit="watt",
        minimum=0,
    ),
    Lines(
        title="SM clock",
        about="A GPU below its peers at equal work is slow or throttled.",
        queries=(Query(_of("sm_clock_megahertz"), _GPU),),
        place=places.RAW_CLOCK,
        legend=False,
        unit="hertz",
        minimum=0,
    ),
    Lines(
        title="Temperature",
        about="At the core.",
        queries=(Query(_TEMPERATURE, _GPU),),
        place=places.RAW_TEMPERATURE,
        legend=False,
        unit="celsius",
    ),
    Lines(
        title="Memory temperature",
        about="Of the device memory.",
        queries=(Query(_of("memory_temperature_celsius"), _GPU),),
        legend=False,
        unit="celsius",
    ),
    Lines(
        title="Memory in use",
        about="Share of the device memory; memory reserved by the driver is in neither number.",
        queries=(Query(f"{_USED} / ({_USED} + {_FREE})", _GPU),),
        legend=False,
        unit="percentunit",
        minimum=0,
        maximum=1,
    ),
    Lines(
        title="PCIe replays",
        about="Packets retransmitted per second.",
        queries=(Query(dialect("gpu", "pcie_replays", rate), _GPU),),
        place=places.RAW_REPLAYS,
        legend=False,
        unit="cps",
        steps=(Step(0, "green"), Step(1, "red")),
        minimum=0,
    ),
)

ERRORS = (
    Table(
        title="Memory",
        about="Rows replaced after errors, and whether a replacement failed.",
        queries=tuple(
            Query(f"max by (cluster, instance, gpu, UUID) ({each})")
            for each in (_FAILED, _REPLACED, _of("remapped_rows_correctable"))
        ),
        columns=(
            Column("instance", "Exporter"),
            Column("gpu", "GPU", width=60),
            Column("A", "Remap failed", steps=NONE_IS_WELL),
            Column("B", "Rows replaced", steps=NONE_IS_BEST),
            Column("C", "Rows, corrected"),
        ),
        by="Rows replaced",
        place=places.RAW_MEMORY,
    ),
    Lines(
        title="PCIe",
        about="Mean traffic of a GPU over the host link; sent is below zero.",
        queries=(
            Query(f"avg({_of('pcie_receive_mebibytes_per_second')})", "in"),
            Query(f"-avg({_of('pcie_transmit_mebibytes_per_second')})", "out"),
        ),
        unit="Bps",
        empty="no exporter shows profiling metrics",
    ),
)

_PORT = "{{instance}} {{device}}"
_RATE = foreign("node_infiniband_rate_bytes_per_second")
_NO_PORTS = "no node_exporter shows InfiniBand ports"

PORTS = (
    Timeline(
        title="Ports",
        about=(
            "Logical state of each InfiniBand port, from node_exporter; red is down. The row of "
            "a missing port ends."
        ),
        queries=(Query(foreign("node_infiniband_state_id"), _PORT),),
        states=RAW_PORT_STATE,
        empty=_NO_PORTS,
        width=24,
        place=places.RAW_PORTS,
    ),
    Lines(
        title="Bit error ratio",
        about=(
            "Symbol errors against the bits that the link carries in the time, of "
            "ports that have any."
        ),
        queries=(
            Query(
                (
                    f"{one(BY_PORT, rate(foreign('node_infiniband_symbol_error_total')))} / on "
                    f"({BY_PORT}) (8 * {one(BY_PORT, _RATE)}) > 0"
                ),
                _PORT,
            ),
        ),
        unit="sci",
        logarithmic=True,
        empty="no port has symbol errors, or no exporter shows it",
        place=places.RAW_BIT_ERRORS,
    ),
    Lines(
        title="Flaps",
        about="Times that a link went down within the time of a bar.",
        queries=(Query(f"{increase(foreign('node_infiniband_link_downed_total'))} > 0", _PORT),),
        bars=True,
        minimum=0,
        empty="no link went down, or no exporter shows it",
        place=places.RAW_FLAPS,
    ),
)

DCGM = Dashboard(
    places.DCGM,
    "Tocsin / dcgm-exporter alone",
    "What is the state of nodes that run dcgm-exporter and node_exporter, without an agent?",
    (*NUMBERS, *WORK, Row("Errors and links"), *ERRORS, Row("InfiniBand"), *PORTS),
    (_CLUSTERS, _JOBS, _NODES),
)
