"""Rules over the series of dcgm-exporter alone, in both generations of names."""

from __future__ import annotations

from dashboards import places
from rules.model import Alert, Group, Recording, gone_target
from rules.templates import INSTANCE, NODE

# What makes a GPU unique. Job and pod labels are aggregated away: otherwise a new job would end one
# series and start another.
GPU = "cluster, node, instance, gpu, gpu_uuid"
GPU_NAME = f"GPU {{{{ $labels.gpu }}}} on {NODE} ({{{{ $labels.gpu_uuid }}}})"

# XIDs whose immediate resolution in NVIDIA's catalogue (XID Errors, "Resolution Buckets") is a
# reset, a reboot or a check of the cables.
XID_REBOOT = "79"
XID_RESET = "46|54|62|64|95|109|110|119|120|136|140|143|155|156|158"
XIDS = f'DCGM_EXP_XID_ERRORS_COUNT{{xid=~"{XID_REBOOT}|{XID_RESET}"}}'

UP = 'up{job=~".*(dcgm|tocsin).*", job!~".*gateway.*"}'  # a gateway reads no GPU
# How long a missing GPU is remembered: longer than an outage of the exporter overnight.
REMEMBERED = "1d"


def _either(record: str, old: str, new: str, scale_old: str = "") -> Recording:
    """One series per GPU, for both generations of names."""
    first = f"{old}{scale_old}"
    return Recording(record, _of_gpu(first if old == new else f"{first} or {new}"))


def _of_gpu(expression: str, *more: str) -> str:
    """One series per GPU, its UUID under the label of the findings, for Alertmanager to join."""
    return (
        f'max by ({", ".join((GPU, *more))}) (label_replace({expression}, "gpu_uuid", '
        '"$1", "UUID", "(.+)"))'
    )


def _rose(series: str) -> str:
    """A counter that starts at zero increased in the last ten minutes or during a scrape gap.

    A reset is no increase. Nor is the first sample of an old counter: a repaired GPU returns with
    its totals.
    """
    return (
        f"increase({series}[10m]) > 0\nor\n({series} - last_over_time({series}[1d] offset 10m)) > 0"
    )


RECORDINGS = (
    _either(
        "gpu:dcgm_temperature_celsius:max", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"
    ),
    _either(
        "gpu:dcgm_temperature_slowdown_celsius:max",
        "DCGM_FI_DEV_SLOWDOWN_TEMP",
        "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS",
    ),
    _either(
        "gpu:dcgm_row_remap_failed:max",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_DEV_ROW_REMAP_FAILED",
    ),
    _either(
        "gpu:dcgm_row_remap_pending:max",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
    ),
    _either(
        "gpu:dcgm_remapped_rows_uncorrectable_total:max",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
    ),
    _either(
        "gpu:dcgm_row_remap_banks_none:max",
        "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE",
        "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE",
    ),
    _either(
        "gpu:dcgm_ecc_uncorrected_volatile_total:max",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    ),
    _either(
        "gpu:dcgm_pcie_replays_total:max",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
    ),
    _either(
        "gpu:dcgm_throttled_hw_thermal_seconds_total:max",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
        " / 1e9",
    ),
    _either(
        "gpu:dcgm_throttled_hw_power_brake_seconds_total:max",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
        " / 1e9",
    ),
    _either(
        "gpu:dcgm_power_limit_enforced_watts:max",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
    ),
    _either(
        "gpu:dcgm_power_limit_default_watts:max",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS",
    ),
)

AVAILABILITY = (
    Alert(
        name="RawGpuExporterDown",
        expr=f"{UP} == 0",
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="10m",
        summary="GPU exporter not responding.",
        description=(
            f"{INSTANCE}: the GPU exporter has not responded for 10 minutes, so its GPUs are not "
            f"monitored. Restart the exporter."
        ),
        means="Prometheus cannot scrape the exporter. The state of the GPUs is unknown.",
        confirm=(
            "`curl http://INSTANCE/metrics`; on the node `systemctl status` of the exporter, "
            "`nvidia-smi` (does it hang?), `sudo dmesg | tail`."
        ),
        do="Restart the exporter. If `nvidia-smi` hangs too, drain the node.",
        clears="At the first successful scrape.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuExporterGone",
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
        confirm=(
            "The page Status, Targets in Prometheus; the source of the targets (Kubernetes, file, "
            "http_sd)."
        ),
        do=(
            "If the node was removed on purpose, silence the alert for a day. Otherwise restore "
            "the target. Exporters that are scraped by the address of their pod need the name of "
            "the node as label `node`: otherwise each new pod is a new node."
        ),
        clears="When the target is back, or a day after it disappeared.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuExporterEmpty",
        expr=(
            '(up{job=~".*dcgm.*"} == 1) unless on (cluster, node, instance) '
            "gpu:dcgm_temperature_celsius:max"
        ),
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="15m",
        summary="GPU exporter without GPUs.",
        description=(
            f"{INSTANCE}: the GPU exporter responds but exports no GPU, because it started before "
            f"the driver or lost it. Restart the exporter."
        ),
        means=(
            "An exporter that starts before the driver exports no GPU until it is restarted, and "
            "its health check still passes."
        ),
        confirm="`curl http://INSTANCE/metrics | grep -c GPU_TEMP`; `nvidia-smi -L` on the node.",
        do=(
            "Restart the exporter. If the driver is missing, find out why (`sudo dmesg`, package "
            "versions)."
        ),
        clears="At the first scrape that contains a GPU.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuLost",
        expr=(
            f"(last_over_time(gpu:dcgm_temperature_celsius:max[{REMEMBERED}]) unless "
            "gpu:dcgm_temperature_celsius:max)\n"
            # Under another number: indices shift at a boot without one of the GPUs.
            "unless on (cluster, node, instance, gpu_uuid) "
            'gpu:dcgm_temperature_celsius:max{gpu_uuid!=""}\n'
            "and on (cluster, node, instance) group by (cluster, node, instance) "
            "(gpu:dcgm_temperature_celsius:max)"
        ),
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="gpu_lost",
        hold="2m",
        keep="15m",
        summary="GPU missing while other GPUs of the node respond.",
        description=(
            f"{GPU_NAME} has disappeared; it was exported within the last day, and other GPUs of "
            f"the node still respond. Drain the node and power-cycle it."
        ),
        means=(
            "The GPU no longer responds (often XID 79, fallen off the bus) or was removed. Its "
            "series end when it is lost."
        ),
        confirm=(
            "`nvidia-smi -L` and the expected number of GPUs; `sudo dmesg | grep -i xid`; "
            "`lspci | grep -i nvidia`."
        ),
        do="Drain the node and power-cycle it. If the GPU is lost again, reseat or replace it.",
        clears=(
            "When the GPU is back, or a day after it was last seen. If it was replaced or passed "
            "to a virtual machine on purpose, silence its UUID."
        ),
        panel=places.RAW_GPUS,
    ),
)

ERRORS = (
    Alert(
        name="RawGpuXidReset",
        expr=f"{_of_gpu(XIDS, 'xid')} > 0",
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="xid",
        keep="15m",
        needs="`DCGM_EXP_XID_ERRORS_COUNT` in the counters file",
        summary="XID that requires a reset, a reboot or work on the cables.",
        description=(
            f"{GPU_NAME} reported XID {{{{ $labels.xid }}}} (count in the exporter's time window: "
            f"{{{{ $value }}}}). Drain the node, then reset the GPU (XID 79: power-cycle the node)."
        ),
        means=(
            "The driver reported an error after which the GPU does no work until it is reset (XID "
            "79: until the node is power-cycled)."
        ),
        confirm=(
            "`sudo dmesg -T | grep -i xid` for the complete burst: the first code is the cause, "
            "later ones follow from it."
        ),
        do=(
            "Drain the node. XID 79: power cycle. XID 54: check the power cables. Others: reset "
            "the GPU; on a repeat within 7 days contact support."
        ),
        clears=(
            "15 minutes after the exporter's time window has passed. The gauge of the last XID is "
            "not used, because it never clears."
        ),
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuUncorrectableEcc",
        expr=_rose("gpu:dcgm_ecc_uncorrected_volatile_total:max"),
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="ecc",
        keep="15m",
        needs="`DCGM_FI_DEV_ECC_DBE_VOL_TOTAL` in the counters file",
        summary="Uncorrectable GPU memory error.",
        description=(
            f"{GPU_NAME} reported uncorrectable memory errors (new: "
            '{{ $value | printf "%.0f" }}). '
            "XID 95 or 64: drain the node now and reset the GPU. XID 94: reset it after the job."
        ),
        means=(
            "Data in GPU memory was lost. XID 94: the error was contained to one application, "
            "which was killed. XID 95: it was not contained."
        ),
        confirm=(
            "`nvidia-smi -q -d ECC,ROW_REMAPPER`; `sudo dmesg | grep -i xid` for 48, 63, 64, 94, "
            "95."
        ),
        do=(
            "XID 94 alone: the job died; reset the GPU when it has ended. XID 95 or 64: drain the "
            "node now and reset the GPU. A single error is no reason to replace the GPU; after a "
            "second one contact support."
        ),
        clears=(
            "25 minutes after the last new error. A driver reload that resets the counter is not "
            "an error."
        ),
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuRowRemapFailed",
        expr="gpu:dcgm_row_remap_failed:max > 0",
        severity="critical",
        component="gpu",
        scope="gpu",
        action="rma",
        family="ecc",
        keep="15m",
        summary="GPU memory row remapping failed.",
        description=(
            f"{GPU_NAME}: a memory row could not be remapped. Drain the node, run the field "
            f"diagnostic and open an RMA."
        ),
        means=(
            "The spare rows of a memory bank are used up, or a remapped row failed again. The GPU "
            "qualifies for replacement."
        ),
        confirm="`nvidia-smi -q -d ROW_REMAPPER`: Remapping Failure Occurred: Yes.",
        do="Drain the node, run the field diagnostic, open an RMA.",
        clears="When the GPU was replaced.",
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuRowRemapPending",
        expr="gpu:dcgm_row_remap_pending:max > 0",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="ecc",
        hold="10m",
        needs="`DCGM_FI_DEV_ROW_REMAP_PENDING` in the counters file",
        summary="GPU reset required to remap a memory row.",
        description=(
            f"{GPU_NAME}: a row remap is pending and takes effect at the next reset. Reset the GPU "
            f"when its job ends."
        ),
        means="The bad row stays in use until the GPU is reset.",
        confirm="`nvidia-smi -q -d ROW_REMAPPER`: Pending: Yes.",
        do="Reset the GPU when its job ends.",
        clears="After the reset.",
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuRowRemapped",
        expr=_rose("gpu:dcgm_remapped_rows_uncorrectable_total:max"),
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="ecc",
        keep="15m",
        summary="GPU memory row remapped after an uncorrectable error.",
        description=(
            f"{GPU_NAME} remapped memory rows after uncorrectable errors (new: "
            f'{{{{ $value | printf "%.0f" }}}}). Reset the GPU when its job ends.'
        ),
        means=(
            "The repair worked as designed. Two remaps within 30 days, or eight within a day, are "
            "a trend."
        ),
        confirm="`nvidia-smi -q -d ROW_REMAPPER`.",
        do=(
            "Reset the GPU when its job ends (see RawGpuRowRemapPending). Check the GPU again if "
            "the alert recurs."
        ),
        clears="25 minutes after the last remap.",
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuNoSpareRows",
        expr="gpu:dcgm_row_remap_banks_none:max > 0",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="ecc",
        hold="5m",
        needs="`DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE` in the counters file",
        summary="GPU memory bank without spare rows.",
        description=(
            f"{GPU_NAME} has memory banks without spare rows ({{{{ $value }}}}); the next error "
            "there cannot be repaired. Plan the replacement of the GPU."
        ),
        means=(
            "The next uncorrectable error in that bank sets the remap failure flag, which leads to "
            "an RMA."
        ),
        confirm="`nvidia-smi -q -d ROW_REMAPPER`, bank remap availability: None.",
        do=(
            "Plan the replacement. Drain the node at the next maintenance, before a job dies of "
            "the next error."
        ),
        clears="After the GPU was replaced.",
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuPcieReplays",
        # NVIDIA's limit for 16 lanes of generation 5; one burst does not last for ten minutes.
        expr="rate(gpu:dcgm_pcie_replays_total:max[10m]) * 60 > 31",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="pcie",
        hold="10m",
        summary="Sustained PCIe replays.",
        description=(
            f'{GPU_NAME}: {{{{ $value | printf "%.0f" }}}} PCIe replays a minute (allowed for 16 '
            f"lanes of generation 5: 31). Reseat the GPU and its riser at the next maintenance."
        ),
        means=(
            "The PCIe link to the host has poor signal quality: riser, slot, retimer or connector."
        ),
        confirm=(
            "`nvidia-smi -q | grep -i replay` twice; `lspci -vv` for the link width; AER lines in "
            "`sudo dmesg`."
        ),
        do="Reseat the GPU and its riser at the next maintenance.",
        clears="When the rate is below the limit.",
        panel=places.RAW_REPLAYS,
    ),
)

SATURATION = (
    Alert(
        name="RawGpuHwThermalSlowdown",
        # Seconds of slowdown per second, from the counter in nanoseconds.
        expr="rate(gpu:dcgm_throttled_hw_thermal_seconds_total:max[5m]) > 0.1",
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="thermal",
        hold="2m",
        keep="5m",
        needs="`DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS` in the counters file",
        summary="GPU in hardware thermal slowdown.",
        description=(
            f"{GPU_NAME} was in hardware thermal slowdown for {{{{ $value | humanizePercentage "
            f"}}}} of the last 5 minutes. Drain the node and check its cooling."
        ),
        means=(
            "The hardware halves the clocks because the GPU is too hot: the cooling of the GPU or "
            "of its surroundings has failed."
        ),
        confirm=(
            "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`; fans and coolant; temperatures of "
            "neighbours and of the rack."
        ),
        do=(
            "Drain the node. Check fan, cold plate and coolant flow. If the entire rack is hot, "
            "call the facility."
        ),
        clears="When less than 10 % of the time is spent in slowdown.",
        panel=places.RAW_TEMPERATURE,
    ),
    Alert(
        name="RawGpuHwPowerBrake",
        expr="rate(gpu:dcgm_throttled_hw_power_brake_seconds_total:max[5m]) > 0.1",
        severity="critical",
        component="node",
        scope="gpu",
        action="page",
        family="power",
        hold="2m",
        keep="5m",
        needs="`DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS` in the counters file",
        summary="GPU slowed down by the chassis power brake.",
        description=(
            f"{GPU_NAME} was slowed down by the power brake of the chassis for {{{{ $value | "
            f"humanizePercentage }}}} of the last 5 minutes. Check the power supplies."
        ),
        means=(
            "An external signal lowers the clocks: a power supply has failed, or the rack is over "
            "its power limit."
        ),
        confirm=(
            "Whether all GPUs of the node are slowed down; `sudo ipmitool sdr type 'Power "
            "Supply'`; the power distribution of the rack."
        ),
        do="Replace the power supply. If the entire rack is affected, call the facility.",
        clears="When less than 10 % of the time is spent in slowdown.",
        panel=places.RAW_CLOCK,
    ),
    Alert(
        name="RawGpuNearSlowdown",
        expr=(
            "gpu:dcgm_temperature_slowdown_celsius:max - gpu:dcgm_temperature_celsius:max < 3 and "
            "gpu:dcgm_temperature_slowdown_celsius:max > 0"
        ),
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="thermal",
        hold="10m",
        needs="`DCGM_FI_DEV_SLOWDOWN_TEMP` in the counters file",
        summary="GPU close to its slowdown temperature.",
        description=(
            f'{GPU_NAME} is {{{{ $value | printf "%.0f" }}}} °C below its hardware slowdown '
            f"temperature. Check its cooling."
        ),
        means=(
            "The temperature is compared with the limit of this GPU, not with a number for all "
            "models."
        ),
        confirm="`nvidia-smi -q -d TEMPERATURE`; compare with neighbours that run the same job.",
        do="Check fan, filter and cold plate. Move the job if it is urgent.",
        clears="At a margin of 3 °C or more.",
        panel=places.RAW_TEMPERATURE,
    ),
    Alert(
        name="RawGpuPowerLimitLow",
        expr=(
            "gpu:dcgm_power_limit_enforced_watts:max < gpu:dcgm_power_limit_default_watts:max * "
            "0.99"
        ),
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="power_limit",
        hold="15m",
        needs=(
            "`DCGM_FI_DEV_ENFORCED_POWER_LIMIT`, `DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF` in the "
            "counters file"
        ),
        summary="GPU power limit below its default.",
        description=(
            f'{GPU_NAME} has an enforced power limit of {{{{ $value | printf "%.0f" }}}} W, below '
            f"its default. Restore the limit."
        ),
        means=(
            "The limit was lowered (`nvidia-smi -pl`, the BMC). The slowest GPU sets the pace of "
            "the job."
        ),
        confirm="`nvidia-smi -q -d POWER`: current and default limit.",
        do="Restore the limit, or silence the alert where site policy requires the lower one.",
        clears="When the enforced limit is back at the default.",
        panel=places.RAW_POWER,
    ),
)

GROUPS = (
    Group("tocsin.raw.gpu.records", RECORDINGS),
    Group("tocsin.raw.gpu.availability", AVAILABILITY),
    Group("tocsin.raw.gpu.saturation", SATURATION),
    Group("tocsin.raw.gpu.errors", ERRORS),
)
