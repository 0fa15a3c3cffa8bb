"""GPU: is this one healthy, and does it do its work."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import FAILED, GPU_STATE, HEALTH, LOOK, SEVERITY, SOON, WELL, State
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Table, Timeline
from dashboards.queries import facts, family, measured, own
from dashboards.shared import (
    BY_GPU,
    CLUSTERS,
    INCIDENTS,
    ONE_GPU,
    ONE_NODE,
    UUID,
    coded,
    rate,
    xids,
)
from pipeline.catalog import agent
from pipeline.catalog.gpu_memory_errors import RECOVERY_ACTIONS

_RECOVERY = tuple(
    State(name, name.replace("_", " "), SOON if code else WELL) for code, name in RECOVERY_ACTIONS
)


def _of(name: str, **matchers: str) -> str:
    return measured("gpu", name, gpu="=~$gpu", **matchers)


def _all_of(name: str, **matchers: str) -> str:
    return family("gpu", name, gpu="=~$gpu", **matchers)


STANDING = (
    Table(
        title="Open findings",
        about=(
            "Findings of the detectors, including info: these notify nobody and "
            "are the first signs."
        ),
        queries=(Query(own(agent.FINDING_ACTIVE, kind="gpu", device="=~$uuid")),),
        columns=(
            Column("severity", "Severity", states=SEVERITY, width=90),
            Column("detector", "Detector"),
            Column("action", "Proposed"),
        ),
        empty="no finding is open, or the agent does not answer",
        width=9,
        height=6,
    ),
    Table(
        title="Inventory",
        about="Identity and versions of the GPU, for the vendor.",
        queries=(Query(facts("gpu", gpu="=~$gpu")),),
        columns=(
            Column("name", "Model", width=190),
            Column("serial", "Serial", width=130),
            Column("uuid", "UUID"),
            Column("pci_bus_id", "PCI"),
            Column("vbios", "VBIOS", width=130),
        ),
        width=15,
        height=6,
    ),
    Timeline(
        title="State",
        about=(
            "From the inventory that the agent keeps. Lost: fell off the bus. Hung: driver "
            "calls do not return."
        ),
        queries=(
            Query(coded(BY_GPU, GPU_STATE, lambda state: _of("state", state=state)), "answers"),
        ),
        states=GPU_STATE,
        width=8,
        height=5,
    ),
    Timeline(
        title="Health",
        about="By the worst open finding.",
        queries=(
            Query(
                coded(
                    "cluster, instance, device",
                    HEALTH,
                    lambda state: own(
                        agent.DEVICE_HEALTH, kind="gpu", device="=~$uuid", health=state
                    ),
                ),
                "health",
            ),
        ),
        states=HEALTH,
        width=8,
        height=5,
    ),
    Timeline(
        title="Recovery action",
        about="What the driver recommends to recover the GPU; green is none.",
        queries=(
            Query(
                coded(BY_GPU, _RECOVERY, lambda state: _of("recovery_action", action=state)),
                "action",
            ),
        ),
        states=_RECOVERY,
        width=8,
        height=5,
    ),
)

WORK = (
    Lines(
        title="Activity",
        about=(
            "In use: a kernel ran. SM: of all SMs. Tensor: their matrix units; this is what "
            "training pays for. In use at 100 % with no tensor work is a rank that waits."
        ),
        queries=(
            Query(_of("gpu_utilization_percent"), "in use"),
            Query(_of("sm_activity_percent"), "SM"),
            Query(_of("tensor_activity_percent"), "tensor"),
            Query(_of("dram_activity_percent"), "memory"),
        ),
        unit="percentunit",
        minimum=0,
        maximum=1,
    ),
    Lines(
        title="Power",
        about="Of the board, with its enforced and its default limit.",
        queries=(
            Query(_of("power_milliwatts"), "power"),
            Query(_of("power_limit_enforced_milliwatts"), "enforced limit"),
            Query(_of("power_limit_default_milliwatts"), "default limit"),
        ),
        unit="watt",
        minimum=0,
    ),
    Lines(
        title="Temperature",
        about="At core and memory, and where it lowers its clocks and where it shuts down.",
        queries=(
            Query(_of("temperature_celsius"), "core"),
            Query(_of("memory_temperature_celsius"), "memory"),
            Query(_of("temperature_slowdown_celsius"), "slowdown limit"),
            Query(_of("temperature_shutdown_celsius"), "shutdown limit"),
        ),
        unit="celsius",
    ),
    Lines(
        title="Clocks",
        about="Current clocks, and the highest SM clock that the GPU allows.",
        queries=(
            Query(_of("sm_clock_megahertz"), "SM"),
            Query(_of("memory_clock_megahertz"), "memory"),
            Query(_of("sm_maximum_clock_megahertz"), "SM limit"),
        ),
        unit="hertz",
        minimum=0,
    ),
    Lines(
        title="Throttled",
        about=(
            "Share of time in which clocks were throttled, by reason. The power cap is normal "
            "under load; heat and the power brake are not."
        ),
        queries=(Query(rate(_all_of("throttled_power_cap_nanoseconds")), "{{reason}}"),),
        unit="percentunit",
        minimum=0,
    ),
    Lines(
        title="Memory",
        about="Device memory in use and reserved by the driver, of the total.",
        queries=(
            Query(_of("memory_used_bytes"), "used"),
            Query(_of("memory_reserved_bytes"), "reserved"),
            Query(_of("memory_total_bytes"), "total limit"),
        ),
        unit="bytes",
        minimum=0,
    ),
)

ERRORS = (
    Lines(
        title="XIDs",
        about="Errors that the driver reported within the time of a bar, by code.",
        queries=(Query(xids(gpu="=~$gpu"), "XID {{xid}}"),),
        empty="no XID in this time, or the agent does not answer",
        bars=True,
        minimum=0,
        width=8,
    ),
    Lines(
        title="Memory errors",
        about=(
            "Corrected and uncorrectable errors since they were first counted, kept by the "
            "GPU itself. Corrected ones are normal in small numbers; a step of "
            "uncorrectable ones ends a job."
        ),
        queries=(
            Query(f"{_all_of('ecc_corrected_aggregate', counter='aggregate')} > 0", "{{type}}"),
        ),
        named=(State("", "uncorrected", FAILED), State("", "corrected", LOOK)),
        empty="no memory error was ever counted, or the agent does not answer",
        minimum=0,
        width=8,
    ),
    Lines(
        title="Spare rows",
        about=(
            "Banks by how many spare rows they have left, and rows replaced after uncorrectable "
            "errors. A bank without spares: its next error cannot be repaired."
        ),
        queries=(
            Query(f"{_of('row_remap_banks_none')} > 0", "banks without spares"),
            Query(f"{_of('row_remap_banks_low')} > 0", "banks with few"),
            Query(f"{_of('remapped_rows_uncorrectable')} > 0", "rows replaced"),
            Query(f"{_of('row_remap_pending')} > 0", "a row waits for a reset"),
        ),
        named=(State("", "banks without spares", FAILED), State("", "banks with few", LOOK)),
        empty="no spare row was ever used, or the agent does not answer",
        minimum=0,
        width=8,
    ),
    Lines(
        title="PCIe",
        about="Data received and sent over the host link.",
        queries=(
            Query(rate(_of("pcie_receive_bytes")), "in"),
            Query(f"-{rate(_of('pcie_transmit_bytes'))}", "out"),
        ),
        unit="Bps",
        width=6,
    ),
    Lines(
        title="PCIe errors",
        about="Packets retransmitted, and other reports of the link, per second.",
        queries=(
            Query(rate(_of("pcie_replays")), "replays"),
            Query(rate(_of("pcie_correctable_errors")), "correctable"),
            Query(rate(_of("pcie_fatal_errors")), "fatal"),
        ),
        unit="cps",
        minimum=0,
        width=6,
    ),
    Lines(
        title="NVLink",
        about="Data received and sent over all its links together.",
        queries=(
            Query(rate(_of("nvlink_receive_kibibytes")), "in"),
            Query(f"-{rate(_of('nvlink_transmit_kibibytes'))}", "out"),
        ),
        unit="Bps",
        width=6,
    ),
    Lines(
        title="NVLink errors",
        about="By kind, per second, all links together; and how many links are down.",
        queries=(
            Query(rate(_all_of("nvlink_replay_errors")), "{{kind}}"),
            Query(_of("nvlinks_down"), "links down"),
        ),
        unit="cps",
        minimum=0,
        width=6,
    ),
)

GPU = Dashboard(
    places.GPU,
    "Tocsin / GPU",
    "Is this GPU healthy, and does it work?",
    (*STANDING, Row("Work"), *WORK, Row("Errors and links"), *ERRORS),
    (CLUSTERS, ONE_NODE, ONE_GPU, UUID),
    incidents=INCIDENTS.replace("}", ', root_device=~"$uuid"}'),
)
