"""Rules over the agents: no response, unreadable sources, rejected configuration, lost data."""

from __future__ import annotations

from dashboards import places
from rules.model import Alert, Group, Recording, any_pod, gone_target
from rules.templates import INSTANCE, NODE

UP = 'up{job=~".*tocsin.*", job!~".*gateway.*"}'

AVAILABILITY = (
    Alert(
        name="TocsinWatchdog",
        expr="vector(1)",
        severity="info",
        component="pipeline",
        scope="node",
        action="observe",
        family="watchdog",
        page_of="none",
        summary="Always firing: shows that rules, routing and receivers work.",
        description=(
            "Dead man's switch. The receiver must raise an alarm when this alert stops arriving."
        ),
        means="Everything between Prometheus and the receiver works.",
        confirm="The alert is listed in Alertmanager.",
        do="Connect it to a service that notifies you when it stops arriving.",
        clears="Never. If it does, something between the rules and the receiver is broken.",
        panel=places.BLIND,
    ),
    Alert(
        name="TocsinAgentDown",
        expr=f"{UP} == 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="10m",
        summary="Agent not responding.",
        description=(
            f"{INSTANCE}: the agent has not responded for 10 minutes, so its node is not "
            f"monitored. Restart the agent."
        ),
        means="The node, the agent or the network between is down.",
        confirm=(
            "`curl http://INSTANCE/-/healthy`; `systemctl status tocsin` or the log of the pod."
        ),
        do="Restart the agent. If the node is down, repair that first.",
        clears="At the first successful scrape.",
        panel=places.BLIND,
    ),
    Alert(
        name="TocsinAgentGone",
        expr=gone_target(UP),
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="15m",
        summary="Node missing from the scrape targets.",
        description=(
            f"{INSTANCE} was scraped within the last day and is no longer a scrape target. Check "
            f"service discovery."
        ),
        means=(
            "Service discovery no longer lists the node. `up == 0` cannot fire for a target that "
            "does not exist."
        ),
        confirm="The page Status, Targets in Prometheus.",
        do=(
            "If the node was removed on purpose, silence the alert for a day. Otherwise restore "
            "the target."
        ),
        clears="When the target is back, or a day after it disappeared.",
        panel=places.BLIND,
    ),
    Alert(
        name="TocsinGpuMissing",
        # Where an incident names the GPU, the alert of the incident pages.
        expr=(
            f"({any_pod('tocsin_gpu_expected - tocsin_gpu_visible')} > 0)\n"
            "unless on (cluster, node, instance) "
            'tocsin_incident_active{class=~"'
            '(gpu_lost|gpu_absent|gpu_hung|gpu_driver|driver_hung|xid)(/.*)?"}\n'
            "unless on (cluster, node, instance) tocsin_maintenance{kind='node'}"
        ),
        severity="critical",
        component="gpu",
        scope="node",
        action="page",
        family="gpu_lost",
        hold="2m",
        keep="15m",
        summary="Node with fewer GPUs than expected.",
        description=(
            f"{NODE}: GPUs not responding: {{{{ $value }}}} (tocsin_gpu_state shows which). "
            f"Drain the node and power-cycle it."
        ),
        means=(
            "The expected number comes from the inventory that the agent keeps, so a GPU that "
            "disappears cannot take its alert with it."
        ),
        confirm="`tocsin_gpu_state == 1` of the instance; `nvidia-smi -L`.",
        do=(
            "Drain the node and power-cycle it. If a GPU was removed for good: "
            "`sudo tocsin maintenance on --device gpu7 --reason removed`; docs/troubleshooting.md."
        ),
        clears="15 minutes after all GPUs respond, so that a reboot does not hide the fault.",
        panel=places.NODE_GPUS,
    ),
    Alert(
        name="TocsinGpuUnlisted",
        expr=(
            f"({any_pod('tocsin_gpu_unlisted')} == 1)\n"
            "unless on (cluster, node, instance) tocsin_maintenance{kind='node'}"
        ),
        severity="warning",
        component="gpu",
        scope="node",
        action="remediate",
        family="gpu_lost",
        hold="15m",
        summary="GPU that the driver does not list.",
        description=(
            f"{NODE}: the GPU at PCI address {{{{ $labels.pci_bus_id }}}} has NVIDIA's driver, "
            "which has not listed it since the agent was installed. Inspect it, and replace it if "
            "it stays so."
        ),
        means=(
            "The GPU was dead before the agent first read it, or this agent may not open it. The "
            "kernel log has the reason, such as `RmInitAdapter failed`."
        ),
        confirm=(
            "`nvidia-smi -L` lists fewer GPUs than `lspci -d 10de:` shows; "
            "`sudo dmesg | grep NVRM`."
        ),
        do=(
            "Drain the node and power-cycle it; replace the GPU if it stays so. If it is left out "
            "on purpose, as a display GPU is, declare how many there are: `sources.nvml.expected`."
        ),
        clears=(
            "When the driver lists the GPU or no longer has it, or `sources.nvml.expected` is set."
        ),
        panel=places.NODE_GPUS,
    ),
    Alert(
        name="TocsinSourceBlind",
        # A source that fails from the start on has no last success.
        expr=(
            "(time() - tocsin_source_last_success_timestamp_seconds > 600)\n"
            "or ((tocsin_source_success == 0) unless tocsin_source_last_success_timestamp_seconds)"
        ),
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="5m",
        summary="Source of an agent unreadable.",
        description=(
            f"{INSTANCE}: source {{{{ $labels.source }}}} has delivered no data "
            "{{ if $value }}for {{ $value | humanizeDuration }}{{ else }}since the agent started"
            "{{ end }}. Check permissions and the driver."
        ),
        means=(
            "The driver, the kernel log or the counters cannot be read. Faults that only this "
            "source shows are not detected."
        ),
        confirm=(
            "`tocsin_source_unread`, `tocsin_source_backoff_seconds`; the agent logs the cause "
            "once."
        ),
        do="Check permissions, the driver and hung devices: docs/troubleshooting.md.",
        clears="At the first read that returns data.",
        panel=places.SOURCES,
    ),
)

IN_MAINTENANCE = "instance:tocsin_maintenance:last"

MAINTENANCE = (
    # A node is switched off for its maintenance, and its agent gets another pod, which takes some
    # minutes: neither ends it.
    Recording(
        IN_MAINTENANCE,
        any_pod("tocsin_maintenance{kind='node'}") + "\n"
        f"or ({IN_MAINTENANCE} unless on (cluster, node, instance) ({UP} == 1)\n"
        f"and on (cluster, node, instance) last_over_time({UP}[10m]))",
    ),
    Alert(
        name="TocsinNodeMaintenance",
        expr=f"{IN_MAINTENANCE} > 0",
        severity="info",
        component="node",
        scope="node",
        action="observe",
        family="maintenance",
        summary="Node in maintenance.",
        description=(
            f"{NODE} is in maintenance, and its other alerts are muted. Run sudo tocsin "
            f"maintenance off when the work is done."
        ),
        means=(
            "Maintenance was started by `tocsin maintenance on` or by the scheduler. Alertmanager "
            "mutes the other alerts of the node."
        ),
        confirm="`tocsin_maintenance`; the status page of the node.",
        do="`sudo tocsin maintenance off` when the work is done.",
        clears=(
            "At `tocsin maintenance off`, or at the end that was set; of a node that is switched "
            "off, when its agent responds again."
        ),
        panel=places.MAINTENANCE,
    ),
)

SATURATION = (
    Alert(
        name="TocsinDataDropped",
        # What a gateway loses is an alert of its own.
        expr=(
            "(increase(tocsin_queue_dropped_total[15m]) > 0)\n"
            "unless on (cluster, node, instance) tocsin_fleet_info"
        ),
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        keep="15m",
        summary="Agent drops readings.",
        description=(
            f'{INSTANCE}: {{{{ $value | printf "%.0f" }}}} observations for {{{{ $labels.sink }}}} '
            f"were dropped in 15 minutes. Free disk space or lower storage.most_bytes."
        ),
        means=(
            "The disk or the sink is slower than the readings, so the history has a gap. Detectors "
            "and metrics are not affected."
        ),
        confirm="`tocsin_queue_length`; `iostat`; free space at the storage path.",
        do="Free disk space, or lower `storage.most_bytes`.",
        clears="15 minutes after the last drop.",
        panel=places.LOST_DATA,
    ),
    Alert(
        name="TocsinFindingsOverflow",
        expr="tocsin_findings_overflow > 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="10m",
        summary="Agent with more active findings than it exports.",
        description=(
            f"{INSTANCE}: {{{{ $value }}}} findings beyond the limit of 500 are not exported. Look "
            f"for a common cause."
        ),
        means="Many devices share a fault, or a detector is wrong.",
        confirm=(
            '`tocsin_finding_active` by detector; `sudo tocsin query "SELECT detector, count(*) '
            'FROM findings GROUP BY 1"`.'
        ),
        do="Find the common cause. Report the detector if it is wrong.",
        clears="When the number of findings is below the limit.",
        panel=places.FINDINGS_HIDDEN,
    ),
    Alert(
        name="TocsinUploadBehind",
        expr="time() - tocsin_upload_oldest_pending_timestamp_seconds > 3600",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="10m",
        summary="Upload to the object store delayed.",
        description=(
            f"{INSTANCE}: the oldest file for the object store has waited {{{{ $value | "
            f"humanizeDuration }}}}. Check credentials, network and bucket policy."
        ),
        means=(
            "The object store refuses uploads or is unreachable. This history is lost if the node "
            "is reinstalled now."
        ),
        confirm="`tocsin_upload_failures_total` by cause; the log of the agent.",
        do="Check credentials, network and bucket policy.",
        clears="When no file has waited for more than an hour.",
        panel=places.UPLOADS,
    ),
    Alert(
        name="TocsinTenantCut",
        expr="sum without(exported_job, exported_pod) (tocsin_tenant_cut) > 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="30m",
        summary="Data of a job not read.",
        description=(
            f"{INSTANCE}: {{{{ .Labels.tenant }}}} exceeds the limit {{{{ .Labels.limit }}}} by "
            f'{{{{ $value | printf "%.0f" }}}}, so a stall of its jobs may be missed. Check what '
            f"its jobs write."
        ),
        means=(
            "A user or pod has more jobs, processes, log bytes, dumps or ranks than its share, "
            "uses up its CPU time, or writes what ends the child process that reads it. Others "
            "are not affected. Limits: docs/security.md."
        ),
        confirm=(
            "`tocsin_tenant_cut` has the job; `tocsin_tenant_looks_lost_total` and the agent's log "
            "have the reason."
        ),
        do=(
            "`bytes`: less verbose Inspector or job logs. `dumps`: a dump is larger than 64 MiB or "
            "damaged. `time`, `child`: damaged or hostile files; ask the owner of the job."
        ),
        clears="When the tenant is within its limits, and 15 minutes after the last lost look.",
        panel=places.TENANTS,
    ),
)

ERRORS = (
    Alert(
        name="TocsinConfigRefused",
        expr="tocsin_config_last_reload_successful == 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="5m",
        summary="Agent configuration rejected at reload.",
        description=(
            f"{INSTANCE} rejected its configuration at the last reload and runs with the previous "
            f"one. Correct the file and reload."
        ),
        means="The file is checked as a unit; one error rejects all of it.",
        confirm="`sudo tocsin check-config --config.file FILE` names file, key and line.",
        do="Correct the file and reload.",
        clears="At the next successful reload.",
        panel=places.CONFIGURATIONS,
    ),
    Alert(
        name="TocsinWebConfigRefused",
        expr="tocsin_web_config_last_reload_successful == 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="5m",
        summary="Agent web configuration rejected; previous certificates and passwords in use.",
        description=(
            f"{INSTANCE} rejected its web configuration, or a file that it names, and serves with "
            f"the previous one. Correct the file."
        ),
        means=(
            "The last valid configuration stays in use until its certificate expires. After that "
            "this node cannot be scraped."
        ),
        confirm=(
            "The agent logs file and key; `openssl x509 -enddate -noout -in CERT` prints the "
            "expiry."
        ),
        do=(
            "Correct the file or the certificate; the agent reads it again by itself. A "
            "configuration with less protection than before needs a restart."
        ),
        clears="When the file is valid again.",
        panel=places.CONFIGURATIONS,
    ),
    Alert(
        name="TocsinStageFailing",
        expr="increase(tocsin_stage_failures_total[15m]) > 3",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        keep="15m",
        summary="Part of an agent fails repeatedly.",
        description=(
            f"{INSTANCE}: {{{{ $labels.stage }}}} {{{{ $labels.name }}}} failed {{{{ $value | "
            f'printf "%.0f" }}}} times in 15 minutes. Report it with the line of the log.'
        ),
        means="The other parts continue. The results of this part are missing.",
        confirm="The agent logs the traceback once.",
        do="Report it, with the line of the log.",
        clears="15 minutes after failures become rare.",
        panel=places.FAILURES,
    ),
    Alert(
        name="TocsinStoreDamaged",
        expr="time() - tocsin_store_last_damage_timestamp_seconds < 86400",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        summary="Damaged files in the store of an agent.",
        description=(
            f"{INSTANCE}: a file of the store was found damaged {{{{ $value | "
            f"humanizeDuration }}}} ago. Check the disk."
        ),
        means=(
            "Bytes changed on the disk or in memory. What could be read of a log segment is in the "
            "store; the damaged file is in `quarantine/` below the storage path."
        ),
        confirm=(
            "`tocsin_store_damaged_records_total` and `tocsin_store_damaged_bytes_total`: what is "
            "missing; the agent logs each file with the reason; `sudo smartctl -a`, `sudo dmesg`."
        ),
        do=(
            "Replace a disk or memory that damages data. Keep the quarantined file for a report, "
            "or delete it."
        ),
        clears="A day after the last damaged file.",
        panel=places.QUARANTINED,
    ),
    Alert(
        name="TocsinRetentionHeld",
        expr="sum without(table) (tocsin_store_held_back_bytes) > 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="agent",
        hold="3d",
        summary="Data past its retention held back.",
        description=(
            f"{INSTANCE}: {{{{ $value | humanize1024 }}}}B are past their retention and are "
            f"deleted one day at a time. Check the clock, then run sudo -u tocsin tocsin compact "
            f"--once --confirm-removal."
        ),
        means=(
            "More than a day of data passed its retention at once: the clock is ahead, the node "
            "was off for long, or the retention was shortened."
        ),
        confirm="`date` on the node; `tocsin_store_held_back_bytes`; `storage.retention`.",
        do=(
            "Correct the clock. If it is right, `sudo -u tocsin tocsin compact --once "
            "--confirm-removal` deletes the data now (as the agent's user: the agent could not "
            "write to folders that root makes). Otherwise one day of them is deleted for every six "
            "hours of new data."
        ),
        clears="When no more than a day of data is past its retention.",
        panel=places.RETENTION,
    ),
    Alert(
        name="TocsinClockWrong",
        expr="abs(tocsin_node_clock_offset_seconds) > 0.5 or tocsin_node_clock_synchronised == 0",
        severity="warning",
        component="node",
        scope="node",
        action="remediate",
        family="clock",
        hold="15m",
        summary="Node clock wrong or not synchronised.",
        description=(
            f"{NODE}: the clock is {{{{ if eq $value 0.0 }}}}not synchronised{{{{ else }}}}off by "
            f"{{{{ $value | humanizeDuration }}}}{{{{ end }}}}. Repair the time service."
        ),
        means=(
            "Events of several nodes cannot be ordered by this clock. Detectors on the node use "
            "the monotonic clock."
        ),
        confirm="`chronyc tracking` or `timedatectl`.",
        do="Repair the time service.",
        clears="When the kernel reports the clock as synchronised and within 0.5 s.",
        panel=places.NODE_CLOCK,
    ),
)

GROUPS = (
    Group("tocsin.agents.availability", AVAILABILITY),
    Group("tocsin.agents.maintenance", MAINTENANCE),
    Group("tocsin.agents.saturation", SATURATION),
    Group("tocsin.agents.errors", ERRORS),
)
