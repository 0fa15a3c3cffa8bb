"""The agent's own series: sources, detectors, sinks, queues, configuration."""

from __future__ import annotations

from pipeline.catalog.fields import Metric

SOURCE_SUCCESS = Metric(
    "tocsin_source_success",
    "gauge",
    "1 if the last read of the source succeeded.",
    ("source",),
    "minimal",
)
SOURCE_LAST_SUCCESS = Metric(
    "tocsin_source_last_success_timestamp_seconds",
    "gauge",
    "Unix time of the last successful read.",
    ("source",),
    "minimal",
)
SOURCE_LATE = Metric(
    "tocsin_source_late",
    "gauge",
    "1 while the last successful read of the source is more than three periods old.",
    ("source",),
)
SOURCE_DURATION = Metric(
    "tocsin_source_duration_seconds", "gauge", "Duration of the last read.", ("source",)
)
SOURCE_READS = Metric(
    "tocsin_source_reads_total",
    "counter",
    "Reads by outcome: ok, failed or overdue.",
    ("source", "outcome"),
)
SOURCE_SKIPPED = Metric(
    "tocsin_source_skipped_ticks_total",
    "counter",
    "Ticks that were skipped because a read was still running or late.",
    ("source",),
)
SOURCE_UNREAD = Metric(
    "tocsin_source_unread",
    "gauge",
    "Fields and devices that the last read could not read, by reason.",
    ("source", "reason"),
)
SOURCE_BACKOFF = Metric(
    "tocsin_source_backoff_seconds",
    "gauge",
    "Delay before the next retry of a failing source, 0 when healthy.",
    ("source",),
)
STAGE_FAILURES = Metric(
    "tocsin_stage_failures_total",
    "counter",
    "Exceptions by stage (source, detector, sink), name and cause.",
    ("stage", "name", "cause"),
)
STAGE_SECONDS = Metric(
    "tocsin_stage_seconds_total",
    "counter",
    "Time spent per stage and name.",
    ("stage", "name"),
    "full",
)
QUEUE_LENGTH = Metric(
    "tocsin_queue_length", "gauge", "Observations waiting in a sink's queue.", ("sink",)
)
QUEUE_DROPPED = Metric(
    "tocsin_queue_dropped_total",
    "counter",
    "Observations dropped because a sink's queue was full.",
    ("sink",),
)
BUS_CONNECTED = Metric(
    "tocsin_bus_connected",
    "gauge",
    "1 while the bus takes what this agent sends; the log says why not.",
)
BUS_INFO = Metric(
    "tocsin_bus_info",
    "gauge",
    "1: the cluster and host as which this agent sends. By them rules find the agent that the "
    "gateway means.",
    ("bus_cluster", "bus_host"),
)
BUS_BATCHES = Metric(
    "tocsin_bus_batches_total", "counter", "Batches that the bus has acknowledged."
)
BUS_BYTES = Metric("tocsin_bus_bytes_total", "counter", "Bytes of these batches.")
BUS_DROPPED = Metric(
    "tocsin_bus_dropped_total",
    "counter",
    "Observations that were not sent: a minute old, or too large for the bus.",
)
BUS_LAST_SENT = Metric(
    "tocsin_bus_last_sent_timestamp_seconds",
    "gauge",
    "Unix time of the last batch that the bus acknowledged.",
)
CLOCK_STEPS = Metric(
    "tocsin_clock_steps_total", "counter", "Steps of the wall clock that re-aligned the schedule."
)
CONFIG_RELOAD_SUCCESS = Metric(
    "tocsin_config_last_reload_successful",
    "gauge",
    "1 if the last configuration reload succeeded, 0 if the previous one was kept.",
    (),
    "minimal",
)
CONFIG_RELOAD_TIME = Metric(
    "tocsin_config_last_reload_success_timestamp_seconds",
    "gauge",
    "Unix time of the last successful configuration reload.",
)
BUILD_INFO = Metric(
    "tocsin_build_info",
    "gauge",
    "Version of this agent; always 1.",
    ("version", "python"),
    "minimal",
)
SIMULATED = Metric(
    "tocsin_simulated",
    "gauge",
    "1 if the agent reads a simulated node, 0 on real hardware.",
    (),
    "minimal",
)
FINDING_ACTIVE = Metric(
    "tocsin_finding_active",
    "gauge",
    "1 for each active finding; absent otherwise.",
    ("detector", "kind", "device", "severity", "action"),
    "minimal",
)
FINDINGS_OVERFLOW = Metric(
    "tocsin_findings_overflow", "gauge", "Active findings beyond the 500 shown."
)
FINDINGS = Metric(
    "tocsin_findings_total",
    "counter",
    "Findings opened, by detector and severity.",
    ("detector", "severity"),
    "minimal",
)
INCIDENT_ACTIVE = Metric(
    "tocsin_incident_active",
    "gauge",
    (
        "1 for each open incident: root device, class of fault and proposed action; absent "
        "otherwise."
    ),
    ("root_kind", "root_device", "class", "severity", "scope", "action"),
    "minimal",
)
INCIDENT_OCCURRENCES = Metric(
    "tocsin_incident_occurrences",
    "gauge",
    (
        "How often the fault of the root device has happened while its incident was open; absent "
        "where it happened once."
    ),
    INCIDENT_ACTIVE.labels,
    "minimal",
)
INCIDENT_ACKNOWLEDGED = Metric(
    "tocsin_incident_acknowledged",
    "gauge",
    "1 for each open incident that is acknowledged; absent otherwise.",
    ("root_kind", "root_device", "class"),
    "minimal",
)
INCIDENTS_OVERFLOW = Metric(
    "tocsin_incidents_overflow", "gauge", "Open incidents beyond the 500 shown."
)
INCIDENTS = Metric(
    "tocsin_incidents_total",
    "counter",
    "Incidents opened, by class and severity at the time.",
    ("class", "severity"),
    "minimal",
)
SHADOW_MODE = Metric(
    "tocsin_detector_shadow_mode",
    "gauge",
    "1 while the findings of a detector are recorded and do not alert; no series while they may.",
    ("detector",),
)
LABELLED = Metric(
    "tocsin_detector_labelled_incidents",
    "gauge",
    "Incidents of a detector that operators labelled, by verdict: real, false or unclear.",
    ("detector", "verdict"),
)
DEVICE_HEALTH = Metric(
    "tocsin_device_health",
    "gauge",
    (
        "1 for the health of each device, from its active findings: ok, degraded, "
        "predicted_failure or failed."
    ),
    ("kind", "device", "health"),
    "minimal",
)
MAINTENANCE = Metric(
    "tocsin_maintenance",
    "gauge",
    "1 for each device that is out of service; absent otherwise.",
    ("kind", "device"),
    "minimal",
)
SNAPSHOTS = Metric(
    "tocsin_snapshots_total",
    "counter",
    "Snapshots of the detectors' state, by outcome: ok or failed.",
    ("outcome",),
)
SNAPSHOT_BYTES = Metric(
    "tocsin_snapshot_bytes", "gauge", "Size of the last snapshot of the detectors' state."
)
SNAPSHOT_TIME = Metric(
    "tocsin_snapshot_timestamp_seconds",
    "gauge",
    "Unix time of the last snapshot of the detectors' state.",
)
RESTORES = Metric(
    "tocsin_restores_total",
    "counter",
    (
        "Starts of detectors: restored (rebooted: from before the last boot), or cold because the "
        "snapshot was none, stale, corrupt, or of another version."
    ),
    ("detector", "outcome"),
    "full",
)

WAL_SYNCS = Metric(
    "tocsin_wal_syncs_total", "counter", "Times the write-ahead log was synced to disk.", (), "full"
)
WAL_DROPPED_SEGMENTS = Metric(
    "tocsin_wal_dropped_segments_total",
    "counter",
    "Segments of the write-ahead log dropped to stay within its size limit.",
)

EXPOSITION_SERIES = Metric("tocsin_exposition_series", "gauge", "Series in the previous scrape.")
EXPOSITION_DROPPED = Metric(
    "tocsin_exposition_dropped_samples_total",
    "counter",
    (
        "Samples dropped from a scrape because Prometheus would have rejected it: duplicate, "
        "not_finite, negative_counter."
    ),
    ("reason",),
)
XID_ERRORS = Metric(
    "tocsin_gpu_xid_errors_total",
    "counter",
    (
        "XID errors by GPU and code since counting began; survives restarts. Critical "
        "codes start at 0."
    ),
    ("xid",),
    "minimal",
)
XID_LAST_SEEN = Metric(
    "tocsin_gpu_xid_last_seen_timestamp_seconds",
    "gauge",
    "Unix time of the last XID of this code on this GPU.",
    ("xid",),
    "minimal",
)
PERFQUERY_RUNS = Metric(
    "tocsin_perfquery_runs_total",
    "counter",
    (
        "Calls of perfquery by outcome: ok, unsupported, no_answer, garbage, timeout, missing, "
        "or over_budget (not started)."
    ),
    ("outcome",),
)
STORE_SEALS = Metric(
    "tocsin_store_seals_total",
    "counter",
    "Runs that sealed closed segments into Parquet, by outcome.",
    ("outcome",),
)
STORE_LAST_SEAL = Metric(
    "tocsin_store_last_seal_timestamp_seconds",
    "gauge",
    "Unix time of the last successful seal.",
)

KERNEL_LOG_MODE = Metric(
    "tocsin_kernel_log_mode",
    "gauge",
    "1 for the way in which the kernel log is read: kmsg, journal, file, syslog or none.",
    ("mode",),
)
KERNEL_LOG_RECORDS = Metric(
    "tocsin_kernel_log_records_total", "counter", "Records read from the kernel log."
)
KERNEL_LOG_LOST = Metric(
    "tocsin_kernel_log_lost_records_total",
    "counter",
    (
        "Records lost before they were read: overrun, oversize, malformed, format (not "
        "understood), down (while no agent ran), suppressed (by the kernel)."
    ),
    ("reason",),
)
KERNEL_LOG_PROGRAM_RECORDS = Metric(
    "tocsin_kernel_log_program_records_total",
    "counter",
    (
        "Records of the kernel log that programs wrote (facility other than kernel): they give "
        "no event."
    ),
)
KERNEL_LOG_DROPPED = Metric(
    "tocsin_kernel_log_dropped_events_total",
    "counter",
    "Events dropped because one read found too many different ones, by kind of event.",
    ("kind",),
)

NVML_HUNG_CALLS = Metric(
    "tocsin_nvml_hung_calls_total",
    "counter",
    "Driver calls that exceeded their deadline, by name of the call.",
    ("call",),
)
NVML_CHILD_ENDS = Metric(
    "tocsin_nvml_child_ends_total",
    "counter",
    (
        "Driver children that were killed or exited: hung, died, garbage, silent, "
        "failed (no driver) or replaced."
    ),
    ("cause",),
)
NVML_ABANDONED = Metric(
    "tocsin_nvml_abandoned_children",
    "gauge",
    "Driver children that survived SIGKILL: stuck in the kernel.",
)
NVML_BLIND = Metric(
    "tocsin_nvml_blind",
    "gauge",
    (
        "1 while no GPU is read: every call into the driver hangs, or no driver child is started "
        "because too many are stuck in the kernel."
    ),
    (),
    "minimal",
)
GPU_UNLISTED = Metric(
    "tocsin_gpu_unlisted",
    "gauge",
    (
        "1 for each GPU, by PCI address, that has had NVIDIA's driver for five minutes, is not "
        "listed by it, and never was since the agent was installed."
    ),
    ("pci_bus_id",),
)
GPU_PROCESS_MEMORY = Metric(
    "tocsin_gpu_process_memory_bytes",
    "gauge",
    (
        "Memory of the processes that use most of a GPU, by pid on the host, name, job of Slurm or "
        "UID of the pod; off by default (sources.nvml.processes)."
    ),
    ("uuid", "gpu_instance", "pid", "process", "job", "pod_uid"),
)
NVML_SWEEP_SECONDS = Metric(
    "tocsin_nvml_sweep_seconds",
    "gauge",
    "Duration of the driver child's last sweep of all GPUs.",
)

UPLOAD_FILES = Metric(
    "tocsin_upload_files_total", "counter", "Sealed files uploaded to the object store."
)
UPLOAD_BYTES = Metric(
    "tocsin_upload_bytes_total", "counter", "Bytes of sealed files uploaded to the object store."
)
UPLOAD_FAILURES = Metric(
    "tocsin_upload_failures_total",
    "counter",
    "Failed uploads of files, by cause; they are retried.",
    ("cause",),
)
UPLOAD_GIVEN_UP_FILES = Metric(
    "tocsin_upload_given_up_files_total",
    "counter",
    (
        "Sealed files dropped from the upload queue because it was full; the least valuable and "
        "oldest first."
    ),
)
UPLOAD_GIVEN_UP_BYTES = Metric(
    "tocsin_upload_given_up_bytes_total",
    "counter",
    "Bytes of sealed files dropped from the upload queue.",
)
UPLOAD_PENDING_FILES = Metric(
    "tocsin_upload_pending_files", "gauge", "Sealed files waiting to be uploaded."
)
UPLOAD_PENDING_BYTES = Metric(
    "tocsin_upload_pending_bytes", "gauge", "Bytes of sealed files waiting to be uploaded."
)
UPLOAD_OLDEST = Metric(
    "tocsin_upload_oldest_pending_timestamp_seconds",
    "gauge",
    "Unix time at which the oldest waiting file was sealed; absent while none waits.",
)
UPLOAD_LAST_SUCCESS = Metric(
    "tocsin_upload_last_success_timestamp_seconds",
    "gauge",
    "Unix time of the last successful upload.",
)

STORE_UPKEEPS = Metric(
    "tocsin_store_upkeeps_total",
    "counter",
    "Runs that compacted the store and applied retention, by outcome.",
    ("outcome",),
)
STORE_BYTES = Metric(
    "tocsin_store_bytes",
    "gauge",
    "Bytes on disk by table, and of wal, outbox and quarantine, as of the last maintenance run.",
    ("table",),
)
STORE_BUDGET = Metric("tocsin_store_budget_bytes", "gauge", "Disk budget of the store.")
STORE_OLDEST = Metric(
    "tocsin_store_oldest_timestamp_seconds",
    "gauge",
    "Unix time at which the oldest day of a table starts.",
    ("table",),
    "full",
)
STORE_REMOVED_BYTES = Metric(
    "tocsin_store_removed_bytes_total",
    "counter",
    (
        "Bytes deleted by table and reason: age, budget, or budget_not_uploaded (not in the object "
        "store yet)."
    ),
    ("table", "reason"),
)
STORE_LAST_REMOVAL = Metric(
    "tocsin_store_last_removal_timestamp_seconds",
    "gauge",
    "Unix time of the last deletion by retention or budget.",
)
STORE_QUARANTINED = Metric(
    "tocsin_store_quarantined_files_total",
    "counter",
    "Files of the store that could not be read and were moved to quarantine.",
)
STORE_DAMAGED_RECORDS = Metric(
    "tocsin_store_damaged_records_total",
    "counter",
    "Records of the write-ahead log that could not be read when it was sealed.",
)
STORE_DAMAGED_BYTES = Metric(
    "tocsin_store_damaged_bytes_total",
    "counter",
    "Bytes of the write-ahead log that were skipped because they could not be read.",
)
STORE_UNENDED = Metric(
    "tocsin_store_unended_segments_total",
    "counter",
    "Segments of the write-ahead log without an end, as a kill or a power cut leaves them.",
    (),
    "full",
)
STORE_LAST_DAMAGE = Metric(
    "tocsin_store_last_damage_timestamp_seconds",
    "gauge",
    "Unix time at which a damaged file of the store was last moved to quarantine; absent if none.",
)
STORE_DAMAGED_FILES = Metric(
    "tocsin_store_damaged_files",
    "gauge",
    "Sealed files of the store that are known to be damaged; each is read again about once a week.",
)
STORE_LOST = Metric(
    "tocsin_store_lost_observations_total",
    "counter",
    "Observations that were not stored because the disk refused them.",
)
STORE_SKIPPED = Metric(
    "tocsin_store_skipped_files",
    "gauge",
    (
        "Entries of the store that are left alone, by reason: no_file (not a regular file), name "
        "(not ours), newer (a newer version's), disk (it cannot be read)."
    ),
    ("reason",),
)
STORE_HELD_BACK = Metric(
    "tocsin_store_held_back_bytes",
    "gauge",
    (
        "Bytes by table that are past their retention and are kept because more than a day's worth "
        "would be deleted at once."
    ),
    ("table",),
)

JOB_LOG_FILES = Metric("tocsin_job_log_files", "gauge", "Job logs being followed.")
JOB_LOG_LINES = Metric(
    "tocsin_job_log_lines_total",
    "counter",
    (
        "Lines of job logs: matched (a sign of a stall), other, too_long, or dropped (more signs "
        "in one read than are kept)."
    ),
    ("outcome",),
)

NCCL_HIDDEN = Metric(
    "tocsin_nccl_hidden_processes",
    "gauge",
    "Processes that the agent may not inspect; some of them may hold GPUs and use NCCL.",
)
NCCL_POLLS = Metric(
    "tocsin_nccl_ras_polls_total",
    "counter",
    ("RAS queries, by outcome: trusted, untrusted, refused, silent, cut, flood, no_json, garbage."),
    ("outcome",),
)
NCCL_NOT_POLLED = Metric(
    "tocsin_nccl_ras_not_asked",
    "gauge",
    "Jobs whose RAS is not queried now, by reason (docs/nccl.md).",
    ("reason",),
)
NCCL_DUMPS = Metric(
    "tocsin_nccl_flight_recorder_dumps_total",
    "counter",
    "Flight Recorder dumps by outcome: read or refused.",
    ("outcome",),
)
TENANT_CUT = Metric(
    "tocsin_tenant_cut",
    "gauge",
    (
        "What a tenant (user, pod, namespace) has beyond a limit, unread: jobs, processes, bytes, "
        "dumps, logs, ranks, time (CPU s), child (its deaths), pods, ended pods."
    ),
    ("job", "tenant", "limit"),
)
TENANT_LOOKS_LOST = Metric(
    "tocsin_tenant_looks_lost_total",
    "counter",
    (
        "Lost looks at what jobs wrote: memory, cpu, time (limits of the reader), died, garbage "
        "(its answer), failed, start (no reader began), stuck (in the kernel)."
    ),
    ("source", "reason"),
)
NCCL_STATE = Metric(
    "tocsin_nccl_job_state",
    "gauge",
    (
        "1 for the state of each job of this node: running (no findings), slow, crawl (less than "
        "15 % of its usual speed), suspect (may be stalled) or stalled."
    ),
    ("job", "state"),
)
NCCL_STALL = Metric(
    "tocsin_nccl_stall_seconds",
    "gauge",
    "Time since the job stalled, by its oldest finding; 0 while it is not stalled.",
    ("job",),
)
NCCL_VERDICT = Metric(
    "tocsin_nccl_verdict",
    "gauge",
    ("1 for each verdict about a job (docs/nccl.md, and the hang detector); absent otherwise."),
    ("job", "class"),
)
WEB_CONFIG_SUCCESS = Metric(
    "tocsin_web_config_last_reload_successful",
    "gauge",
    (
        "1 if the last load of the web configuration succeeded, 0 if its file is invalid and the "
        "previous one was kept; absent without one."
    ),
)
WEB_REFUSED = Metric(
    "tocsin_web_refused_total",
    "counter",
    ("Clients rejected, by reason: handshake, certificate, password, guesses, rate, body or full."),
    ("reason",),
)

JOBS_TELLER_UP = Metric(
    "tocsin_jobs_teller_up",
    "gauge",
    (
        "1 while kubelet, mapping or processes answer queries for GPU allocations; 0 while jobs "
        "are not attributed."
    ),
    ("teller",),
    "minimal",
)
JOBS_UNATTRIBUTED = Metric(
    "tocsin_jobs_unattributed_processes",
    "gauge",
    (
        "Processes that hold a GPU outside Slurm's jobs: no_job, or not_visible (in another pid "
        "namespace, or ended)."
    ),
    ("reason",),
    "full",
)
KUBERNETES_ALLOCATABLE = Metric(
    "tocsin_kubernetes_allocatable_devices",
    "gauge",
    "GPUs and MIG instances allocatable to pods by the kubelet, by resource.",
    ("resource",),
)

METRICS: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
