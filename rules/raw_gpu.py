"""Rules over the series of dcgm-exporter alone, either generation of names: for nodes that run nothing of ours, and beside it."""

from __future__ import annotations

from dashboards import places
from rules.model import Alert, Group, Recording

# What makes a GPU unique. Job and pod labels are summed away: a job that changes would else end one series and begin another.
GPU = "cluster, node, instance, gpu, gpu_uuid"
WHO = "GPU {{ $labels.gpu }} ({{ $labels.gpu_uuid }}) of {{ $labels.instance }}"

# XIDs whose immediate resolution in NVIDIA's catalogue (XID Errors, "Resolution Buckets") is a reset, a reboot or the cables.
XID_REBOOT = "79"
XID_RESET = "46|54|62|64|95|109|110|119|120|136|140|143|155|156|158"
XIDS = f'DCGM_EXP_XID_ERRORS_COUNT{{xid=~"{XID_REBOOT}|{XID_RESET}"}}'

# How long a GPU that is gone is remembered: longer than any outage of the exporter that somebody sleeps through.
REMEMBERED = "1d"


def _either(record: str, old: str, new: str, scale_old: str = "") -> Recording:
    """One series per GPU, whichever generation of names the exporter speaks."""
    first = f"{old}{scale_old}"
    return Recording(record, _of_gpu(first if old == new else f"{first} or {new}"))


def _of_gpu(expression: str, *more: str) -> str:
    """One series per GPU, its UUID under the name that findings use as well, so that Alertmanager can join them."""
    return f'max by ({", ".join((GPU, *more))}) (label_replace({expression}, "gpu_uuid", "$1", "UUID", "(.+)"))'


def _rose(series: str) -> str:
    """A counter that is exported from zero on rose in the last ten minutes, or while nobody scraped; a reset is no rise.

    The first sight of an old counter is no rise either: a GPU that was repaired brings its past with it.
    """
    return f"increase({series}[10m]) > 0\nor\n({series} - last_over_time({series}[1d] offset 10m)) > 0"


RECORDINGS = (
    _either("gpu:dcgm_temperature_celsius:max", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    _either("gpu:dcgm_temperature_slowdown_celsius:max", "DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"),
    _either("gpu:dcgm_row_remap_failed:max", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    _either("gpu:dcgm_row_remap_pending:max", "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_ROW_REMAP_PENDING"),
    _either(
        "gpu:dcgm_remapped_rows_uncorrectable_total:max",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
    ),
    _either("gpu:dcgm_row_remap_banks_none:max", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE"),
    _either("gpu:dcgm_ecc_uncorrected_volatile_total:max", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
    _either("gpu:dcgm_pcie_replays_total:max", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"),
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
        expr='up{job=~".*(dcgm|tocsin).*"} == 0',
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="10m",
        summary="Nobody sees the GPUs of a node.",
        description="The exporter at {{ $labels.instance }} has not answered for 10 minutes: its GPUs are not watched.",
        means="Prometheus cannot scrape the exporter. The GPUs may be well; nobody can tell.",
        confirm="`curl http://INSTANCE/metrics`; on the node `systemctl status` of the exporter, `nvidia-smi` (does it hang?), `dmesg | tail`.",
        do="Start the exporter again. Where `nvidia-smi` hangs as well, treat the node as sick: drain it.",
        clears="At the first scrape that succeeds.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuExporterGone",
        expr=f'last_over_time(up{{job=~".*(dcgm|tocsin).*"}}[{REMEMBERED}]) unless up{{job=~".*(dcgm|tocsin).*"}}',
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="15m",
        summary="A node is no longer among the targets.",
        description="{{ $labels.instance }} was scraped within the last day and is not a target any more.",
        means="Service discovery no longer names the node: `up == 0` cannot fire for a target that does not exist.",
        confirm="Prometheus, Status, Targets; the source of the targets (Kubernetes node, file, http_sd).",
        do="If the node was taken out on purpose, silence it for a day. Otherwise bring the target back.",
        clears="When the target is back, or a day after it went.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuExporterEmpty",
        expr='(up{job=~".*dcgm.*"} == 1) unless on (cluster, node, instance) gpu:dcgm_temperature_celsius:max',
        severity="warning",
        component="pipeline",
        scope="node",
        action="observe",
        family="blind",
        hold="15m",
        summary="The exporter answers, and shows no GPU.",
        description="{{ $labels.instance }} answers scrapes and exports not one GPU: it was started before the driver, or lost it.",
        means="An exporter that came up before the driver serves an empty page for ever, and its health check is content.",
        confirm="`curl http://INSTANCE/metrics | grep -c GPU_TEMP`; `nvidia-smi -L` on the node.",
        do="Restart the exporter; where the driver is missing, see why (`dmesg`, package versions).",
        clears="At the first scrape with a GPU in it.",
        panel=places.RAW_GPUS,
    ),
    Alert(
        name="RawGpuLost",
        expr=(
            f"(last_over_time(gpu:dcgm_temperature_celsius:max[{REMEMBERED}]) unless gpu:dcgm_temperature_celsius:max)\n"
            "and on (cluster, node, instance) group by (cluster, node, instance) (gpu:dcgm_temperature_celsius:max)"
        ),
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="gpu_lost",
        hold="2m",
        keep="15m",
        summary="A GPU of a node has vanished while its mates are there.",
        description=f"{WHO} was there within the last day; its mates still answer. A GPU that fell off the bus takes its series away.",
        means="The GPU no longer answers (often XID 79, fallen off the bus), or it was taken out.",
        confirm="`nvidia-smi -L` against the expected number; `dmesg | grep -i xid`; `lspci | grep -i nvidia`.",
        do="Drain the node, cold-reboot it. If the GPU is lost again, reseat or replace it.",
        clears="When the GPU is back, or a day after it was last seen. A GPU that was swapped or given to a virtual machine on purpose: silence its UUID.",
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
        summary="An XID that only a reset, a reboot or a hand at the cables ends.",
        description=f"{WHO}: XID {{{{ $labels.xid }}}}, {{{{ $value }}}} times in the exporter's window.",
        means="The driver reported an error after which this GPU does no work until it is reset (79: the node rebooted).",
        confirm="`dmesg -T | grep -i xid` for the whole burst: the first code is the cause, those after it are its echo.",
        do="Drain the node. 79: cold reboot. 54: power cables. Others: reset the GPU; twice within 7 days: support.",
        clears="15 minutes after the exporter's window has passed. Never from the last-XID gauge, which does not clear.",
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
        summary="A GPU has met a memory error that it could not correct.",
        description=f'{WHO}: {{{{ $value | printf "%.0f" }}}} new uncorrectable memory errors.',
        means="Data in the memory of the GPU were lost; what worked on them was killed (contained, XID 94) or not (95).",
        confirm="`nvidia-smi -q -d ECC,ROW_REMAPPER`; `dmesg | grep -i xid` for 48, 63, 64, 94, 95.",
        do="94 alone: the job died, reset at its end. 95 or 64: drain now and reset. One such error makes no bad GPU; a second one, ask support.",
        clears="When no new error came for 10 minutes, and 15 more. A driver reload that sets the counter to 0 is no event.",
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
        summary="A GPU can no longer replace bad memory rows.",
        description=f"{WHO}: a row could not be remapped. It qualifies for the field diagnostic and replacement.",
        means="The spare rows of a bank are used up, or a remapped row failed again.",
        confirm="`nvidia-smi -q -d ROW_REMAPPER`: Remapping Failure Occurred: Yes.",
        do="Drain the node, run the field diagnostic, open an RMA.",
        clears="When the flag is gone: after the GPU was replaced.",
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
        summary="A GPU wants to be reset to put a spare row in place.",
        description=f"{WHO}: a bad row is noted and replaced only at the next reset.",
        means="The remap takes effect at a reset. Until then the bad row is in use.",
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
        summary="A GPU has replaced a memory row after an uncorrectable error.",
        description=f'{WHO}: {{{{ $value | printf "%.0f" }}}} more rows replaced after uncorrectable errors.',
        means="The repair worked as designed. Two within 30 days, or eight within a day, are a trend.",
        confirm="`nvidia-smi -q -d ROW_REMAPPER`.",
        do="Reset at the end of the job (see pending). Note the GPU; look again if it happens a second time.",
        clears="25 minutes after the last one.",
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
        summary="A memory bank of a GPU has no spare row left.",
        description=f"{WHO}: {{{{ $value }}}} banks without a spare row. The next error there is final.",
        means="The next uncorrectable error in that bank sets the failure flag: the best forecast of an RMA there is.",
        confirm="`nvidia-smi -q -d ROW_REMAPPER`, bank remap availability: None.",
        do="Plan the replacement; drain at the next maintenance, before the job dies of it.",
        clears="After the GPU was replaced.",
        panel=places.RAW_MEMORY,
    ),
    Alert(
        name="RawGpuPcieReplays",
        # NVIDIA's allowance for 16 lanes of generation 5; what one burst brings is not sustained for ten minutes.
        expr="rate(gpu:dcgm_pcie_replays_total:max[10m]) * 60 > 31",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="pcie",
        hold="10m",
        summary="The PCIe link of a GPU repeats packets all the time.",
        description=f'{WHO}: {{{{ $value | printf "%.0f" }}}} replays a minute (16 lanes of generation 5 may have 31).',
        means="The link to the host has bad signal: riser, slot, retimer or connector.",
        confirm="`nvidia-smi -q | grep -i replay` twice; `lspci -vv` for the width; AER lines in `dmesg`.",
        do="Reseat GPU and riser at the next maintenance.",
        clears="When the rate is below the allowance.",
        panel=places.RAW_REPLAYS,
    ),
)

SATURATION = (
    Alert(
        name="RawGpuHwThermalSlowdown",
        # Seconds of slowdown per second, from the counter in nanoseconds; a large total alone says nothing.
        expr="rate(gpu:dcgm_throttled_hw_thermal_seconds_total:max[5m]) > 0.1",
        severity="critical",
        component="gpu",
        scope="gpu",
        action="page",
        family="thermal",
        hold="2m",
        keep="5m",
        needs="`DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS` in the counters file",
        summary="A GPU brakes hard because it is too hot.",
        description=f"{WHO} ran with its clocks halved for {{{{ $value | humanizePercentage }}}} of the last 5 minutes.",
        means="The hardware itself halves the clocks: cooling has failed for this GPU or its neighbourhood.",
        confirm="`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`; fans and coolant; are neighbours or the rack hot as well?",
        do="Drain the node; check fan, cold plate, coolant flow; a whole rack: call the facility.",
        clears="When less than a tenth of the time is lost.",
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
        summary="The chassis makes a GPU brake: its power supply is short.",
        description=f"{WHO} was braked by the chassis for {{{{ $value | humanizePercentage }}}} of the last 5 minutes.",
        means="An external signal lowers the clocks: a power supply has failed or the rack is over its limit.",
        confirm="Do all GPUs of the node brake? `ipmitool sdr type 'Power Supply'`; the rack's power distribution.",
        do="Replace the power supply; a whole rack: call the facility.",
        clears="When less than a tenth of the time is lost.",
        panel=places.RAW_CLOCK,
    ),
    Alert(
        name="RawGpuNearSlowdown",
        expr="gpu:dcgm_temperature_slowdown_celsius:max - gpu:dcgm_temperature_celsius:max < 3 and gpu:dcgm_temperature_slowdown_celsius:max > 0",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="thermal",
        hold="10m",
        needs="`DCGM_FI_DEV_SLOWDOWN_TEMP` in the counters file",
        summary="A GPU is about to slow down from heat.",
        description=f'{WHO} is {{{{ $value | printf "%.0f" }}}} degrees below the temperature at which its hardware slows down.',
        means="Measured against this GPU's own limit, not against a number that fits all models.",
        confirm="`nvidia-smi -q -d TEMPERATURE`; compare with its neighbours under the same job.",
        do="Check fan, filter, cold plate; move the job where it is urgent.",
        clears="With three degrees of margin.",
        panel=places.RAW_TEMPERATURE,
    ),
    Alert(
        name="RawGpuPowerLimitLow",
        expr="gpu:dcgm_power_limit_enforced_watts:max < gpu:dcgm_power_limit_default_watts:max * 0.99",
        severity="warning",
        component="gpu",
        scope="gpu",
        action="remediate",
        family="power_limit",
        hold="15m",
        needs="`DCGM_FI_DEV_ENFORCED_POWER_LIMIT`, `DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF` in the counters file",
        summary="A GPU may draw less power than it is made for.",
        description=f'{WHO} is limited to {{{{ $value | printf "%.0f" }}}} W, below its default.',
        means="Somebody or something (`nvidia-smi -pl`, the BMC) lowered the limit. The job's slowest GPU sets its pace.",
        confirm="`nvidia-smi -q -d POWER`: Current against Default limit.",
        do="Set it back, or silence the alert where a site policy wants it.",
        clears="When the enforced limit is the default again.",
        panel=places.RAW_POWER,
    ),
)

GROUPS = (
    Group("tocsin.raw.gpu.records", RECORDINGS),
    Group("tocsin.raw.gpu.availability", AVAILABILITY),
    Group("tocsin.raw.gpu.saturation", SATURATION),
    Group("tocsin.raw.gpu.errors", ERRORS),
)
