"""Jobs that use NCCL, as far as this node can tell: processes, communicators, progress.

One device per job and node.

``read``: ``/proc`` for discovery, ``ras`` for the last trusted RAS report, ``inspector`` for the
Inspector's files. What has not been asked or is not switched on in the job is not observed. Counts
are gauges: they are known at the moment of a report only, and begin again with a job.
"""

from __future__ import annotations

from pipeline.catalog.fields import EventKind, Fact, Field, Kind, Metric

KINDS = (
    Kind("job", (("job", "@id"),), "A job whose processes hold GPUs of this node and use NCCL."),
)

_USABLE = Metric(
    "tocsin_nccl_teller_usable",
    "gauge",
    (
        "1 where a job's RAS may be asked, its Flight Recorder or Inspector is "
        "switched on; 0 where not."
    ),
)

FIELDS = (
    Field(
        8001,
        "processes",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_processes",
            "gauge",
            "Processes of the job on this node that hold GPUs and have NCCL loaded.",
        ),
        "/proc",
    ),
    Field(8002, "ras_usable", "job", "gauge", _USABLE, "/proc", (("teller", "ras"),)),
    Field(
        8003,
        "flight_recorder_usable",
        "job",
        "gauge",
        _USABLE,
        "/proc",
        (("teller", "flight_recorder"),),
    ),
    Field(8004, "inspector_usable", "job", "gauge", _USABLE, "/proc", (("teller", "inspector"),)),
    Field(
        8010,
        "communicators",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_communicators",
            "gauge",
            "Communicators of the complete job in its last trusted RAS report.",
        ),
        "ras",
    ),
    Field(
        8011,
        "ranks_gone",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_ranks_gone",
            "gauge",
            "Processes of the complete job that do not answer RAS.",
        ),
        "ras",
    ),
    Field(
        8012,
        "operations_launched",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_operations_launched",
            "gauge",
            (
                "Collectives launched, summed over communicators, each by its foremost rank; in "
                "the last trusted RAS report."
            ),
        ),
        "ras",
    ),
    Field(
        8013,
        "operations_behind",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_operations_behind",
            "gauge",
            "How many collectives the last rank of any communicator is behind its first.",
        ),
        "ras",
    ),
    Field(
        8020,
        "operations_completed",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_operations_completed",
            "gauge",
            (
                "Collectives that the Inspector saw complete on this node, summed over "
                "communicators, each by its foremost rank."
            ),
        ),
        "inspector",
    ),
    Field(
        8021,
        "bus_bandwidth_megabytes_per_second",
        "job",
        "gauge",
        Metric(
            "tocsin_nccl_bus_bandwidth_bytes_per_second",
            "gauge",
            "Median bus bandwidth of the latest collectives on this node.",
        ),
        "inspector",
        times=1_000_000,
    ),
)

FACTS = (Fact("nccl", "job", "NCCL's version.", "/proc"),)

EVENTS = (
    EventKind(
        "nccl_process_found",
        "A process that holds GPUs has NCCL loaded.",
        (
            ("job", "the scheduler's id of the job"),
            ("pid", "process id in the host's namespace"),
            ("own_pid", "process id as the process itself, and RAS, have it"),
            ("process", "name of the process (comm), as the kernel knows it"),
            ("rank", "the reporter's rank in the job"),
            ("gpus", "UUIDs of the GPUs it holds on this host, separated by blanks"),
            ("nccl", "NCCL's version"),
        ),
    ),
    EventKind(
        "nccl_process_lost",
        "A process that had NCCL loaded is gone.",
        (
            ("job", "the scheduler's id of the job"),
            ("pid", "process id in the host's namespace"),
            ("own_pid", "process id as the process itself, and RAS, have it"),
            ("rank", "the reporter's rank in the job"),
            ("gpus", "UUIDs of the GPUs it holds on this host, separated by blanks"),
        ),
    ),
    EventKind(
        "nccl_settings",
        "Settings of a job were compared with what its node has, and the result is another one.",
        (
            ("job", "the scheduler's id of the job"),
            ("ranks", "processes of the job on this node"),
            ("document", "problems with the line to change each, as JSON"),
        ),
    ),
)
