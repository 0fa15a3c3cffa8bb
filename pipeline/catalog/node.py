"""The node itself: host facts that judging needs, and how many devices are there
of those that should be.

``read``: a file below /proc or /sys and what is taken from it, ``adjtimex`` for the kernel's clock
discipline, ``cgroup`` and a service of systemd for its control group, or ``source`` for what the
source of those devices works out.
"""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KINDS = (Kind("node", (), "The host the agent runs on, identified by its host name."),)

FIELDS = (
    Field(
        7001,
        "gpus_expected",
        "node",
        "gauge",
        Metric(
            "tocsin_gpu_expected",
            "gauge",
            "GPUs this node should have: declared, or learned and persisted.",
        ),
        "source",
        profile="minimal",
    ),
    Field(
        7002,
        "gpus_visible",
        "node",
        "gauge",
        Metric("tocsin_gpu_visible", "gauge", "GPUs that answer now."),
        "source",
        profile="minimal",
    ),
    Field(
        7003,
        "ib_ports_expected",
        "node",
        "gauge",
        Metric(
            "tocsin_ib_ports_expected",
            "gauge",
            "RDMA ports that should be active: declared, or active once before.",
        ),
        "source",
        profile="minimal",
    ),
    Field(
        7004,
        "ib_ports_visible",
        "node",
        "gauge",
        Metric(
            "tocsin_ib_ports_visible",
            "gauge",
            "Expected RDMA ports that are there now, in whatever state.",
        ),
        "source",
        profile="minimal",
    ),
    Field(
        7010,
        "boot_time_seconds",
        "node",
        "gauge",
        Metric("tocsin_node_boot_time_seconds", "gauge", "Unix time of the last boot."),
        "/proc/stat btime",
    ),
    Field(
        7011,
        "clock_offset_nanoseconds",
        "node",
        "gauge",
        Metric(
            "tocsin_node_clock_offset_seconds",
            "gauge",
            "Offset the kernel's clock discipline is still correcting.",
        ),
        "adjtimex offset",
        per=10**9,
    ),
    Field(
        7012,
        "clock_maximum_error_microseconds",
        "node",
        "gauge",
        Metric(
            "tocsin_node_clock_maximum_error_seconds",
            "gauge",
            "Bound on the error of the wall clock.",
        ),
        "adjtimex maxerror",
        per=10**6,
    ),
    Field(
        7013,
        "clock_synchronised",
        "node",
        "gauge",
        Metric(
            "tocsin_node_clock_synchronised",
            "gauge",
            "1 while the kernel takes the wall clock for synchronised.",
        ),
        "adjtimex status",
    ),
    Field(
        7020,
        "memory_total_kibibytes",
        "node",
        "gauge",
        Metric("tocsin_node_memory_total_bytes", "gauge", "Memory of the host."),
        "/proc/meminfo MemTotal",
        times=1024,
    ),
    Field(
        7021,
        "memory_available_kibibytes",
        "node",
        "gauge",
        Metric(
            "tocsin_node_memory_available_bytes",
            "gauge",
            "Memory that new work could take without swapping.",
        ),
        "/proc/meminfo MemAvailable",
        times=1024,
    ),
    Field(
        7040,
        "pressure_cpu_some_microseconds",
        "node",
        "counter",
        Metric(
            "tocsin_node_pressure_cpu_waiting_seconds_total",
            "counter",
            "Time in which some task waited for a processor.",
        ),
        "/proc/pressure/cpu some total",
        per=10**6,
        profile="full",
    ),
    Field(
        7041,
        "pressure_io_some_microseconds",
        "node",
        "counter",
        Metric(
            "tocsin_node_pressure_io_waiting_seconds_total",
            "counter",
            "Time in which some task waited for input or output.",
        ),
        "/proc/pressure/io some total",
        per=10**6,
        profile="full",
    ),
    Field(
        7042,
        "pressure_memory_full_microseconds",
        "node",
        "counter",
        Metric(
            "tocsin_node_pressure_memory_stalled_seconds_total",
            "counter",
            "Time in which all tasks waited for memory.",
        ),
        "/proc/pressure/memory full total",
        per=10**6,
        profile="full",
    ),
    Field(
        7043,
        "major_page_faults",
        "node",
        "counter",
        Metric(
            "tocsin_node_major_page_faults_total",
            "counter",
            "Page faults for which a page had to be read.",
        ),
        "/proc/vmstat pgmajfault",
        profile="full",
    ),
    Field(
        7030,
        "fabric_manager_running",
        "node",
        "gauge",
        Metric(
            "tocsin_node_fabric_manager_running",
            "gauge",
            "1 while the service nvidia-fabricmanager has a process, 0 while it has none, as on "
            "nodes that need none.",
        ),
        "cgroup nvidia-fabricmanager.service",
        profile="full",
    ),
)

FACTS: tuple[Fact, ...] = (
    Fact("kernel", "node", "Kernel release.", "/proc/sys/kernel/osrelease"),
    Fact("boot_id", "node", "Identity of this boot.", "/proc/sys/kernel/random/boot_id"),
    Fact("product", "node", "Product name of the machine.", "/sys/class/dmi/id/product_name"),
    Fact("bios_version", "node", "Version of the BIOS.", "/sys/class/dmi/id/bios_version"),
    Fact("vendor", "node", "Maker of the machine.", "/sys/class/dmi/id/sys_vendor"),
    Fact(
        "nvidia_driver",
        "node",
        "Version of the loaded NVIDIA kernel driver.",
        "/sys/module/nvidia/version",
    ),
    Fact(
        "mlx5_driver",
        "node",
        "Version of the loaded mlx5 driver; empty for the one of the kernel.",
        "/sys/module/mlx5_core/version",
    ),
    Fact(
        "clock_source",
        "node",
        "Clock source of the kernel.",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    Fact(
        "numa_nodes",
        "node",
        "NUMA nodes that are online, as the kernel lists them.",
        "/sys/devices/system/node/online",
    ),
)
