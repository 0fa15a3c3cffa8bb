"""The agent's own series: sources, detectors, sinks, queues, configuration."""

from __future__ import annotations

from pipeline.catalog.fields import Metric

SOURCE_SUCCESS = Metric(
    "tocsin_source_success", "gauge", "1 if the last read of the source gave anything.", ("source",), "minimal"
)
SOURCE_LAST_SUCCESS = Metric(
    "tocsin_source_last_success_timestamp_seconds",
    "gauge",
    "Unix time of the last read that gave anything.",
    ("source",),
    "minimal",
)
SOURCE_DURATION = Metric("tocsin_source_duration_seconds", "gauge", "How long the last read took.", ("source",))
SOURCE_READS = Metric("tocsin_source_reads_total", "counter", "Reads by outcome: ok, failed or overdue.", ("source", "outcome"))
SOURCE_SKIPPED = Metric(
    "tocsin_source_skipped_ticks_total",
    "counter",
    "Ticks that were skipped because a read was still running or late.",
    ("source",),
)
SOURCE_UNREAD = Metric(
    "tocsin_source_unread", "gauge", "Fields and devices that the last read could not read, by reason.", ("source", "reason")
)
SOURCE_BACKOFF = Metric(
    "tocsin_source_backoff_seconds",
    "gauge",
    "Pause before the next try of a failing source, 0 when healthy.",
    ("source",),
)
STAGE_FAILURES = Metric(
    "tocsin_stage_failures_total",
    "counter",
    "Exceptions by stage (source, detector, sink), name and cause.",
    ("stage", "name", "cause"),
)
STAGE_SECONDS = Metric("tocsin_stage_seconds_total", "counter", "Time spent per stage and name.", ("stage", "name"), "full")
QUEUE_LENGTH = Metric("tocsin_queue_length", "gauge", "Observations waiting in a sink's queue.", ("sink",))
QUEUE_DROPPED = Metric(
    "tocsin_queue_dropped_total", "counter", "Observations dropped because a sink's queue was full.", ("sink",)
)
CLOCK_STEPS = Metric("tocsin_clock_steps_total", "counter", "Steps of the wall clock that re-aligned the timetable.")
CONFIG_RELOAD_SUCCESS = Metric(
    "tocsin_config_last_reload_successful",
    "gauge",
    "1 if the last configuration load was taken, 0 if the old one was kept.",
    (),
    "minimal",
)
CONFIG_RELOAD_TIME = Metric(
    "tocsin_config_last_reload_success_timestamp_seconds", "gauge", "Unix time of the last configuration that was taken."
)
BUILD_INFO = Metric("tocsin_build_info", "gauge", "Version of this agent; always 1.", ("version", "python"), "minimal")
SIMULATED = Metric("tocsin_simulated", "gauge", "1 if the agent reads a simulated node, 0 on real hardware.", (), "minimal")
FINDING_ACTIVE = Metric(
    "tocsin_finding_active",
    "gauge",
    "1 for each fault that stands; absent otherwise.",
    ("detector", "kind", "device", "severity", "action"),
    "minimal",
)
FINDINGS_OVERFLOW = Metric("tocsin_findings_overflow", "gauge", "Active findings beyond the 500 that are shown.")
FINDINGS = Metric(
    "tocsin_findings_total", "counter", "Findings that began, by detector and severity.", ("detector", "severity"), "minimal"
)
INCIDENT_ACTIVE = Metric(
    "tocsin_incident_active",
    "gauge",
    "1 for each open incident: the device to blame, the class of fault and the action that is proposed; absent otherwise.",
    ("root_kind", "root_device", "class", "severity", "scope", "action"),
    "minimal",
)
INCIDENT_ACKNOWLEDGED = Metric(
    "tocsin_incident_acknowledged",
    "gauge",
    "1 for each open incident that somebody has taken on; absent otherwise.",
    ("root_kind", "root_device", "class"),
    "minimal",
)
INCIDENTS_OVERFLOW = Metric("tocsin_incidents_overflow", "gauge", "Open incidents beyond the 500 that are shown.")
INCIDENTS = Metric(
    "tocsin_incidents_total", "counter", "Incidents that opened, by class and severity then.", ("class", "severity"), "minimal"
)
DEVICE_HEALTH = Metric(
    "tocsin_device_health",
    "gauge",
    "1 for the health of each device that was seen, by what stands about it: ok, degraded, predicted_failure or failed.",
    ("kind", "device", "health"),
    "minimal",
)
MAINTENANCE = Metric(
    "tocsin_maintenance", "gauge", "1 for each device that is out of service; absent otherwise.", ("kind", "device"), "minimal"
)
SNAPSHOTS = Metric(
    "tocsin_snapshots_total", "counter", "Times the memory of the detectors was kept, by outcome: ok or failed.", ("outcome",)
)
SNAPSHOT_BYTES = Metric("tocsin_snapshot_bytes", "gauge", "Size of the last snapshot of the detectors' memory.")
SNAPSHOT_TIME = Metric("tocsin_snapshot_timestamp_seconds", "gauge", "Unix time of the last snapshot of the detectors' memory.")
RESTORES = Metric(
    "tocsin_restores_total",
    "counter",
    "How detectors began: restored (rebooted: from before the last boot), or cold as the snapshot was none, stale, corrupt, or of another version.",
    ("detector", "outcome"),
    "full",
)

WAL_SYNCS = Metric("tocsin_wal_syncs_total", "counter", "Times the write-ahead log was made durable.", (), "full")
WAL_DROPPED_SEGMENTS = Metric(
    "tocsin_wal_dropped_segments_total", "counter", "Segments of the write-ahead log that were given up to stay within its size."
)

EXPOSITION_SERIES = Metric("tocsin_exposition_series", "gauge", "Series on the page before this one.")
EXPOSITION_DROPPED = Metric(
    "tocsin_exposition_dropped_samples_total",
    "counter",
    "Samples left out of a page because a scraper would have refused it whole: duplicate, not_finite, negative_counter.",
    ("reason",),
)
XID_ERRORS = Metric(
    "tocsin_gpu_xid_errors_total",
    "counter",
    "XID errors by GPU and code since they were first counted; survives restarts. Critical codes are born at 0.",
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
    "Questions to perfquery by outcome: ok, unsupported, no_answer, garbage, timeout, missing, or over_budget (not started).",
    ("outcome",),
)
STORE_SEALS = Metric(
    "tocsin_store_seals_total", "counter", "Times closed segments were sealed into Parquet, by outcome.", ("outcome",)
)
STORE_LAST_SEAL = Metric("tocsin_store_last_seal_timestamp_seconds", "gauge", "Unix time of the last sealing that worked.")

KERNEL_LOG_MODE = Metric(
    "tocsin_kernel_log_mode", "gauge", "1 for the way in which the kernel log is read: kmsg, journal, file, or none.", ("mode",)
)
KERNEL_LOG_RECORDS = Metric("tocsin_kernel_log_records_total", "counter", "Records of the kernel log that were read.")
KERNEL_LOG_LOST = Metric(
    "tocsin_kernel_log_lost_records_total",
    "counter",
    "Records lost before they were read: overrun, oversize, malformed, down (while no agent ran), suppressed (by the kernel).",
    ("reason",),
)
KERNEL_LOG_DROPPED = Metric(
    "tocsin_kernel_log_dropped_events_total",
    "counter",
    "Happenings left out because one read found too many different ones, by kind of event.",
    ("kind",),
)

NVML_HUNG_CALLS = Metric(
    "tocsin_nvml_hung_calls_total", "counter", "Driver calls that did not return in time, by name of the call.", ("call",)
)
NVML_CHILD_ENDS = Metric(
    "tocsin_nvml_child_ends_total",
    "counter",
    "Driver children that were ended or ended by themselves: hung, died, garbage, silent, failed (no driver) or replaced.",
    ("cause",),
)
NVML_ABANDONED = Metric("tocsin_nvml_abandoned_children", "gauge", "Driver children that survived SIGKILL: stuck in the kernel.")
NVML_BLIND = Metric(
    "tocsin_nvml_blind",
    "gauge",
    "1 while no driver child may be started because too many are stuck in the kernel.",
    (),
    "minimal",
)
NVML_SWEEP_SECONDS = Metric(
    "tocsin_nvml_sweep_seconds", "gauge", "How long the driver child took for its last sweep of all GPUs."
)

UPLOAD_FILES = Metric("tocsin_upload_files_total", "counter", "Sealed files that the object store has taken.")
UPLOAD_BYTES = Metric("tocsin_upload_bytes_total", "counter", "Their bytes.")
UPLOAD_FAILURES = Metric(
    "tocsin_upload_failures_total",
    "counter",
    "Files that the object store did not take, by cause; they are tried again.",
    ("cause",),
)
UPLOAD_GIVEN_UP_FILES = Metric(
    "tocsin_upload_given_up_files_total",
    "counter",
    "Sealed files that will not be uploaded because too much was waiting; the least valuable and oldest go first.",
)
UPLOAD_GIVEN_UP_BYTES = Metric("tocsin_upload_given_up_bytes_total", "counter", "Their bytes.")
UPLOAD_PENDING_FILES = Metric("tocsin_upload_pending_files", "gauge", "Sealed files that wait to be uploaded.")
UPLOAD_PENDING_BYTES = Metric("tocsin_upload_pending_bytes", "gauge", "Their bytes.")
UPLOAD_OLDEST = Metric(
    "tocsin_upload_oldest_pending_timestamp_seconds",
    "gauge",
    "Unix time at which the oldest file that waits was sealed; absent while nothing waits.",
)
UPLOAD_LAST_SUCCESS = Metric(
    "tocsin_upload_last_success_timestamp_seconds", "gauge", "Unix time of the last upload without a failure."
)

STORE_UPKEEPS = Metric(
    "tocsin_store_upkeeps_total",
    "counter",
    "Times the store was compacted and what it keeps too long given up, by outcome.",
    ("outcome",),
)
STORE_BYTES = Metric(
    "tocsin_store_bytes", "gauge", "Bytes on disk by table, and of wal, outbox and quarantine; of the last upkeep.", ("table",)
)
STORE_BUDGET = Metric("tocsin_store_budget_bytes", "gauge", "Bytes that the store may take.")
STORE_OLDEST = Metric(
    "tocsin_store_oldest_timestamp_seconds", "gauge", "Unix time at which the oldest day of a table begins.", ("table",), "full"
)
STORE_REMOVED_BYTES = Metric(
    "tocsin_store_removed_bytes_total",
    "counter",
    "Bytes given up by table and reason: age, budget, or budget_not_uploaded (the object store did not have them yet).",
    ("table", "reason"),
)
STORE_LAST_REMOVAL = Metric(
    "tocsin_store_last_removal_timestamp_seconds", "gauge", "Unix time at which anything was last given up."
)
STORE_QUARANTINED = Metric(
    "tocsin_store_quarantined_files_total", "counter", "Files of the store that could not be read and were moved to quarantine."
)

JOB_LOG_FILES = Metric("tocsin_job_log_files", "gauge", "Job logs that are followed.")
JOB_LOG_LINES = Metric(
    "tocsin_job_log_lines_total",
    "counter",
    "Lines of job logs: matched (a sign of a stall), other, too_long, or dropped (more signs in one read than are kept).",
    ("outcome",),
)

NCCL_HIDDEN = Metric(
    "tocsin_nccl_hidden_processes",
    "gauge",
    "Processes that the agent may not inspect; some of them may hold GPUs and speak NCCL.",
)
NCCL_POLLS = Metric(
    "tocsin_nccl_ras_polls_total",
    "counter",
    "RAS reports asked for, by outcome: trusted, untrusted, refused, silent, cut, flood, no_json, garbage.",
    ("outcome",),
)
NCCL_NOT_POLLED = Metric(
    "tocsin_nccl_ras_not_asked",
    "gauge",
    "Jobs that are not asked for a RAS report now, by reason (docs/nccl.md).",
    ("reason",),
)
NCCL_DUMPS = Metric(
    "tocsin_nccl_flight_recorder_dumps_total", "counter", "Flight Recorder dumps by outcome: read or refused.", ("outcome",)
)
NCCL_STATE = Metric(
    "tocsin_nccl_job_state",
    "gauge",
    "1 for the state of each job of this node: running (nothing speaks against it), slow, suspect (it may stand still) or stalled.",
    ("job", "state"),
)
NCCL_STALL = Metric(
    "tocsin_nccl_stall_seconds",
    "gauge",
    "Time since the job stands still, by the oldest finding that says so; 0 where none does.",
    ("job",),
)
NCCL_VERDICT = Metric(
    "tocsin_nccl_verdict",
    "gauge",
    "1 for each class of verdict that stands about a job (docs/nccl.md, and the detector of hangs); absent otherwise.",
    ("job", "class"),
)
WEB_CONFIG_SUCCESS = Metric(
    "tocsin_web_config_last_reload_successful",
    "gauge",
    "1 if the web configuration in force is what its file says, 0 if the file is wrong and the last good one stays; absent without one.",
)
WEB_REFUSED = Metric(
    "tocsin_web_refused_total",
    "counter",
    "Clients turned away, by reason: handshake, certificate, password, guesses, rate, body or full.",
    ("reason",),
)

JOBS_TELLER_UP = Metric(
    "tocsin_jobs_teller_up",
    "gauge",
    "1 while kubelet, mapping or processes can be asked who holds which GPU; 0 while its jobs are not attributed.",
    ("teller",),
    "minimal",
)
JOBS_UNATTRIBUTED = Metric(
    "tocsin_jobs_unattributed_processes",
    "gauge",
    "Processes that hold a GPU outside Slurm's jobs: no_job, or not_visible (in another pid namespace, or ended).",
    ("reason",),
    "full",
)
KUBERNETES_ALLOCATABLE = Metric(
    "tocsin_kubernetes_allocatable_devices",
    "gauge",
    "GPUs and MIG instances that the kubelet could give to pods, by resource.",
    ("resource",),
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
