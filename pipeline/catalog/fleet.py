"""The gateway's own series: hosts, ticks, and what it found about the whole cluster."""

from __future__ import annotations

from pipeline.catalog.fields import Metric

HOSTS = Metric(
    "tocsin_fleet_hosts",
    "gauge",
    "Hosts by state: known, late (in the last second judged), silent (for a minute) or doubled "
    "(two agents, one name).",
    ("state",),
)
TICK = Metric(
    "tocsin_fleet_tick_timestamp_seconds",
    "gauge",
    "Unix time of the last second that was judged.",
)
LEADER = Metric(
    "tocsin_fleet_leader", "gauge", "1 while this gateway holds the lease; the other judges, too."
)
INFO = Metric(
    "tocsin_fleet_info",
    "gauge",
    "1: the cluster (`bus.cluster`) that this gateway judges, and its version.",
    ("bus_cluster", "version"),
)
CALIBRATION = Metric(
    "tocsin_fleet_calibration_info",
    "gauge",
    "1: the learnt calibration by which tickets are lowered, its hash; no series without one.",
    ("hash",),
)
LOWERED = Metric(
    "tocsin_fleet_tickets_lowered_total",
    "counter",
    "Tickets that were lowered to info by the learnt calibration.",
)
CONNECTED = Metric(
    "tocsin_fleet_bus_connected", "gauge", "1 while batches are read; else the log has the reason."
)
BATCHES = Metric("tocsin_fleet_batches_total", "counter", "Batches read from the bus.")
BATCH_BYTES = Metric("tocsin_fleet_batch_bytes_total", "counter", "Bytes of these batches.")
REFUSED = Metric(
    "tocsin_fleet_batches_refused_total", "counter", "Batches that are damaged or of another host."
)
MISSED = Metric(
    "tocsin_fleet_batches_missed_total",
    "counter",
    "Batches that never came: dropped by an agent, or by the bus before they were read.",
)
TOO_LATE = Metric(
    "tocsin_fleet_observations_late_total",
    "counter",
    "Observations that came after their second was judged.",
)
OTHER_SOURCES = Metric(
    "tocsin_fleet_observations_refused_total",
    "counter",
    "Observations of sources that this gateway does not judge: a host gives them names of its own.",
)
SPENT = Metric(
    "tocsin_fleet_cpu_seconds_total",
    "counter",
    "CPU time by step: read (decoding), join, judge; a gateway keeps up while these three grow by "
    "less than 1 a second together; workers: of its ingest workers.",
    ("step",),
)
INGEST_RESTARTS = Metric(
    "tocsin_fleet_ingest_restarts_total",
    "counter",
    "Ingest workers that were started again, by reason: ended, hung, start (it did not start).",
    ("reason",),
)
INCIDENT = Metric(
    "tocsin_fleet_incident_active",
    "gauge",
    "1 for each open incident of the cluster, of the gateway that holds the lease.",
    ("bus_cluster", "host", "root_kind", "root_device", "class", "severity", "action"),
)
INCIDENTS_OVERFLOW = Metric(
    "tocsin_fleet_incidents_overflow",
    "gauge",
    "Open incidents of the cluster beyond the 500 shown, which are the most severe ones.",
)
EXPLAINS = Metric(
    "tocsin_fleet_explains",
    "gauge",
    "1 for each open incident of an agent that an incident of the cluster explains, of the gateway "
    "that holds the lease: that agent does not alert.",
    ("bus_cluster", "bus_host", "root_kind", "root_device", "class", "severity", "incident"),
)
EXPLAINS_OVERFLOW = Metric(
    "tocsin_fleet_explains_overflow",
    "gauge",
    "Explained incidents beyond the 20,000 shown: their agents alert.",
)
METRICS = (
    HOSTS, TICK, LEADER, INFO, CONNECTED, BATCHES, BATCH_BYTES, REFUSED, MISSED, TOO_LATE,
    OTHER_SOURCES, SPENT, INGEST_RESTARTS, INCIDENT, INCIDENTS_OVERFLOW, EXPLAINS,
    EXPLAINS_OVERFLOW, CALIBRATION, LOWERED,
)  # fmt: skip
