"""Node: what is wrong with this node, and since when."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import GPU_STATE, HEALTH, PORT_STATE, SEVERITY, Step
from dashboards.naming import NAMED, named
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table, Timeline
from dashboards.queries import facts, family, measured, own
from dashboards.shared import (
    BY_GPU,
    BY_NODE,
    BY_PORT,
    CLUSTERS,
    INCIDENTS,
    ONE_NODE,
    TO_GPU,
    coded,
    gpu_health,
    port_health,
    rate,
    xids,
)
from pipeline.catalog import agent

_GPU = "GPU {{gpu}}"

WHAT_STANDS = (
    Table(
        title="Open findings",
        about=(
            "All findings of the detectors, including info: these notify nobody and "
            "are the first signs."
        ),
        queries=(Query(named(own(agent.FINDING_ACTIVE), agent.FINDING_ACTIVE.labels, "device")),),
        columns=(
            Column("severity", "Severity", states=SEVERITY, width=90),
            Column("detector", "Detector", width=130),
            Column(NAMED, "Device", width=200),
            Column("action", "Proposed", width=150),
            Column("device", "Id"),
        ),
        empty="no finding is open, or the agent does not answer",
        width=15,
        height=7,
    ),
    Table(
        title="Inventory",
        about="Facts reported by the kernel.",
        queries=(Query(facts("node")),),
        columns=(
            Column("product", "Machine"),
            Column("kernel", "Kernel"),
            Column("nvidia_driver", "NVIDIA driver", width=120),
            Column("mlx5_driver", "mlx5", width=110),
        ),
        width=9,
        height=7,
    ),
)

DEVICES = (
    Timeline(
        title="GPU state",
        about=(
            "From the inventory that the agent keeps, so that a lost GPU stays in its row. "
            "Lost: fell off the bus. Hung: driver calls do not return. Absent: not there "
            "since the last boot."
        ),
        queries=(
            Query(
                coded(BY_GPU, GPU_STATE, lambda state: measured("gpu", "state", state=state)), _GPU
            ),
        ),
        states=GPU_STATE,
        links=(TO_GPU,),
        place=places.NODE_GPUS,
    ),
    Timeline(
        title="GPUs: health",
        about="By the worst open finding of each.",
        queries=(Query(gpu_health(), _GPU),),
        states=HEALTH,
        links=(TO_GPU,),
    ),
    Timeline(
        title="Ports: state",
        about="Logical state of each InfiniBand and RoCE port; red is down or gone.",
        queries=(
            Query(
                coded(BY_PORT, PORT_STATE, lambda state: measured("ib_port", "state", state=state)),
                "{{device}}/{{port}}",
            ),
        ),
        states=PORT_STATE,
    ),
    Timeline(
        title="Ports: health",
        about=(
            "By the worst open finding of each; one that should be active and is not has failed."
        ),
        queries=(Query(port_health(), "{{device}}/{{port}}"),),
        states=HEALTH,
    ),
    Lines(
        title="XIDs",
        about=(
            "Errors that the driver reported within the time of a bar, by GPU and code, from "
            "counters that survive restarts. 13, 31, 43 and 45 are usually the application's."
        ),
        queries=(Query(xids(), "GPU {{gpu}} XID {{xid}}"),),
        empty="no XID in this time, or the agent does not answer",
        bars=True,
        minimum=0,
        width=24,
        height=6,
        place=places.NODE_XIDS,
    ),
)

WORK = (
    Lines(
        title="Utilisation",
        about=(
            "Share of time in which a kernel ran. A job that hangs in a collective shows 100 % as "
            "well: compare with power."
        ),
        queries=(Query(measured("gpu", "gpu_utilization_percent"), _GPU),),
        unit="percentunit",
        minimum=0,
        maximum=1,
        links=(TO_GPU,),
    ),
    Lines(
        title="Power",
        about=(
            "Of each board, and the lowest limit that is enforced. One GPU below its peers at "
            "equal work is the one that slows them."
        ),
        queries=(
            Query(measured("gpu", "power_milliwatts"), _GPU),
            Query(
                f"min by ({BY_NODE}) ({measured('gpu', 'power_limit_enforced_milliwatts')})",
                "lowest limit",
            ),
        ),
        unit="watt",
        minimum=0,
        links=(TO_GPU,),
    ),
    Lines(
        title="Temperature",
        about="At the core, and where the first GPU lowers its clocks.",
        queries=(
            Query(measured("gpu", "temperature_celsius"), _GPU),
            Query(
                f"min by ({BY_NODE}) ({measured('gpu', 'temperature_slowdown_celsius')})",
                "slowdown limit",
            ),
        ),
        unit="celsius",
        links=(TO_GPU,),
    ),
    Lines(
        title="SM clock",
        about="A GPU below its peers without a throttle reason is a silent straggler.",
        queries=(Query(measured("gpu", "sm_clock_megahertz"), _GPU),),
        unit="hertz",
        minimum=0,
        links=(TO_GPU,),
    ),
    Lines(
        title="Throttled",
        about=(
            "Share of time in which clocks were throttled, by reason, of the GPU with most. The "
            "power cap is normal under load; heat and the power brake are not."
        ),
        queries=(
            Query(
                (
                    f"max by ({BY_NODE}, reason) "
                    f"({rate(family('gpu', 'throttled_power_cap_nanoseconds'))})"
                ),
                "{{reason}}",
            ),
        ),
        unit="percentunit",
        minimum=0,
    ),
    Lines(
        title="Memory in use",
        about="Device memory of each GPU.",
        queries=(Query(measured("gpu", "memory_used_bytes"), _GPU),),
        unit="bytes",
        minimum=0,
        links=(TO_GPU,),
    ),
)

LINKS = (
    Lines(
        title="PCIe replays",
        about="Packets retransmitted per second. A healthy link has a few an hour.",
        queries=(Query(rate(measured("gpu", "pcie_replays")), _GPU),),
        unit="cps",
        minimum=0,
        links=(TO_GPU,),
        place=places.LINKS,
    ),
    Lines(
        title="PCIe lanes",
        about=(
            "As they are now, and as many as GPU and slot can. Fewer lanes than that after a boot: "
            "the GPU is not seated correctly."
        ),
        queries=(
            Query(measured("gpu", "pcie_width_current"), _GPU),
            Query(f"max by ({BY_NODE}) ({measured('gpu', 'pcie_width_maximum')})", "lanes limit"),
        ),
        minimum=0,
        decimals=0,
        links=(TO_GPU,),
    ),
    Lines(
        title="NVLink errors",
        about="Replays, recoveries and CRC errors per second, all links of a GPU together.",
        queries=(
            Query(f"sum by ({BY_GPU}) ({rate(family('gpu', 'nvlink_replay_errors'))})", _GPU),
        ),
        unit="cps",
        minimum=0,
        links=(TO_GPU,),
    ),
    Lines(
        title="InfiniBand",
        about=(
            "Received (and sent, below zero) by each port. In training the rails of a "
            "node carry the same."
        ),
        queries=(
            Query(rate(measured("ib_port", "receive_words")), "{{device}} in"),
            Query(f"-{rate(measured('ib_port', 'transmit_words'))}", "{{device}} out"),
        ),
        unit="Bps",
    ),
)

HOST = (
    Lines(
        title="Clock offset",
        about=(
            "Offset that the kernel's clock discipline is still correcting. Beyond half a second "
            "events of several nodes cannot be put in order."
        ),
        queries=(Query(measured("node", "clock_offset_nanoseconds"), "offset"),),
        unit="s",
        steps=(Step(0, "green"), Step(0.5, "red")),
        width=8,
        place=places.NODE_CLOCK,
    ),
    Lines(
        title="Host memory available",
        about="Memory available without swapping; near zero the kernel ends processes.",
        queries=(
            Query(measured("node", "memory_available_kibibytes"), "available"),
            Query(measured("node", "memory_total_kibibytes"), "total limit"),
        ),
        unit="bytes",
        minimum=0,
        width=8,
    ),
    Stat(
        title="Up since",
        about="The node's last boot.",
        queries=(Query(f"{measured('node', 'boot_time_seconds')} * 1000"),),
        unit="dateTimeFromNow",
        width=8,
        height=8,
    ),
)

NODE = Dashboard(
    places.NODE,
    "Tocsin / Node",
    "What is wrong with this node, and since when?",
    (*WHAT_STANDS, *DEVICES, Row("Work"), *WORK, Row("Links"), *LINKS, Row("Host"), *HOST),
    (CLUSTERS, ONE_NODE),
    incidents=INCIDENTS,
)
