"""Rules over what Tocsin's agents found: an alert per class of fault, one that wakes people and one for the work queue."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards import places
from dashboards.places import Place
from rules.model import Action, Alert, Component, Group, Severity

# Who acknowledged an incident has it in hand, and a device in maintenance is expected to misbehave: neither wakes anybody.
HANDLED = (
    "unless on (cluster, node, instance, root_kind, root_device, class) tocsin_incident_acknowledged\n"
    "unless on (cluster, node, instance) tocsin_maintenance{kind='node'}"
)


@dataclass(frozen=True, slots=True)
class FaultClass:
    """One class of fault: which ``class`` labels belong to it, and its page of the runbook."""

    stem: str
    classes: str  # regular expression over the label `class` up to its first slash
    component: Component
    page: Action
    what: str
    numbers: str
    means: str
    confirm: str
    do: str
    panel: Place

    @property
    def selector(self) -> str:
        """Matcher of the label ``class``."""
        return f'class=~"({self.classes})(/.*)?"'


def _number(metric: str, words: str, matchers: str = "") -> str:
    """A template that asks for one number of the GPU to blame, and says nothing where there is none."""
    selector = f"{_last(f'{metric}{{instance=%q,uuid=%q{matchers}}}')}".replace('"', '\\"')
    return f'{{{{ with printf "{selector}" $labels.instance $labels.root_device | query }}}} {_first(words)}{{{{ end }}}}'


def _of_node(metric: str, words: str) -> str:
    """The same for one number of the node."""
    return f'{{{{ with printf "{_last(f"{metric}{{instance=%q}}")}" $labels.instance | query }}}} {_first(words)}{{{{ end }}}}'


def _of_port(metric: str, words: str) -> str:
    """The same for one number of the InfiniBand port to blame, whose series are named by adapter and port."""
    port = _last("tocsin_ib_port_info{instance=%q,port_guid=%q}")
    query = f"{_last(f'{metric}{{instance=%q}}')} and on (instance, device, port) {port}"
    return f'{{{{ with printf "{query}" $labels.instance $labels.instance $labels.root_device | query }}}} {_first(words)}{{{{ end }}}}'


def _last(selector: str) -> str:
    """What was seen last, for a while: a GPU that is lost or hangs shows nothing any more when its alert is written."""
    return f"last_over_time({selector}[5m])"


def _first(words: str) -> str:
    return words.replace("#", "{{ . | first | value | humanize }}")


# Which port a GUID is: the name that people know it by.
PORT = (
    '{{ with printf "last_over_time(tocsin_ib_port_info{instance=%q,port_guid=%q}[5m])" $labels.instance $labels.root_device | query }}'
    ' It is {{ . | first | label "device" }}/{{ . | first | label "port" }}.{{ end }}'
)
XIDS = (
    '{{ range printf "last_over_time(tocsin_gpu_xid_errors_total{instance=%q,uuid=%q}[5m]) > 0" $labels.instance $labels.root_device'
    ' | query | sortByLabel "xid" }} XID {{ .Labels.xid }} came {{ .Value }} times.{{ end }}'
)

CLASSES = (
    FaultClass(
        stem="GpuLost",
        classes="gpu_lost|gpu_absent|gpu_hung|gpu_unreadable",
        component="gpu",
        page="page",
        what="A GPU does not answer any more.",
        numbers=_of_node("tocsin_gpu_visible", "# GPUs of the node answer,") + _of_node("tocsin_gpu_expected", "# are expected."),
        means="The GPU fell off the bus, its driver calls hang, or it is gone since the last boot. Its series stay, with `tocsin_gpu_state`.",
        confirm="`tocsin_gpu_state{uuid=...}`; `nvidia-smi -L` on the node; `dmesg | grep -i xid`.",
        do="Drain the node and cold-reboot it. Lost again: reseat or replace.",
        panel=places.NODE_GPUS,
    ),
    FaultClass(
        stem="GpuXid",
        classes="xid|sxid",
        component="gpu",
        page="page",
        what="The driver reported an error that this GPU does not survive.",
        numbers=XIDS,
        means="An XID, or a burst of them, was decoded by NVIDIA's catalogue; the first cause is named, its echoes are part of the incident.",
        confirm="`tocsin explain INCIDENT`; `tocsin query xids --since 1d`; `dmesg -T | grep -i xid`.",
        do="What the label `action` says: reset, reboot, or support.",
        panel=places.NODE_XIDS,
    ),
    FaultClass(
        stem="GpuMemory",
        classes="ecc|remap|sram",
        component="gpu",
        page="rma",
        what="The memory of a GPU fails.",
        numbers=_number(
            "tocsin_gpu_remapped_rows_total", "# rows were replaced after uncorrectable errors.", ',cause="uncorrectable"'
        ),
        means="Uncorrectable errors, spare rows used up, or a trend of corrected errors that ends there.",
        confirm="`tocsin query ecc --since 30d`; `nvidia-smi -q -d ECC,ROW_REMAPPER`.",
        do="Reset at the end of the job where a row waits; field diagnostic and RMA where the failure flag is set.",
        panel=places.MEMORY_ERRORS,
    ),
    FaultClass(
        stem="GpuHeat",
        classes="thermal|throttle",
        component="gpu",
        page="page",
        what="Heat or the power supply brakes GPUs.",
        numbers=_number("tocsin_gpu_temperature_celsius", "# degrees at its core.", ',sensor="core"'),
        means="The hardware lowers the clocks, or the path of the heat gets worse. The root may be one GPU, its node or the whole rack.",
        confirm="`tocsin query throttle --since 1d`; temperatures of neighbours; fans, coolant, power supplies.",
        do="One GPU: cold plate, paste, fan. A node: power supply, fans. A rack: call the facility.",
        panel=places.BRAKES,
    ),
    FaultClass(
        stem="GpuPower",
        classes="power|power_limit",
        component="gpu",
        page="page",
        what="A GPU draws less than its work needs, or may not draw what it is made for.",
        numbers=_number("tocsin_gpu_power_limit_watts", "# W enforced.", ',limit="enforced"'),
        means="A lowered limit, or a regulator that gives less at equal work.",
        confirm="`nvidia-smi -q -d POWER`; who set the limit (BMC, `nvidia-smi -pl`)?",
        do="Restore the limit; a GPU that draws less at equal work: diagnose it when it is free.",
        panel=places.LIMITS,
    ),
    FaultClass(
        stem="GpuLink",
        classes="pcie|nvlink",
        component="gpu",
        page="page",
        what="The PCIe link or the NVLinks of a GPU are hurt.",
        numbers="",
        means="Lanes or links are missing, or packets are repeated beyond what is allowed.",
        confirm="`nvidia-smi -q | grep -A3 'Link Width'`; `nvidia-smi nvlink -s`; `lspci -vv`.",
        do="Drain, reset; then reseat GPU, riser or NVLink bridge.",
        panel=places.LINKS,
    ),
    FaultClass(
        stem="Fabric",
        classes="ib|ib_ber|ib_flap|fec_tail|congestion|counter_saturated",
        component="fabric",
        page="page",
        what="An InfiniBand link or adapter is hurt.",
        numbers=PORT
        + _of_port("tocsin_ib_port_symbol_errors_total", "# symbol errors.")
        + _of_port("tocsin_ib_port_link_downed_total", "The link was lost # times since the counters were reset."),
        means="Down, flapping, slow, or with more bit errors than its rate allows. Both ends were looked at where both are known.",
        confirm="`tocsin query links --since 1d`; `ibstat`, `iblinkinfo`, `perfquery -x` at both ends.",
        do="Clean or swap the cable; then the transceiver; then the port.",
        panel=places.PORTS,
    ),
    FaultClass(
        stem="JobStalled",
        classes="hang|nccl|stall|stall_verdict",
        component="node",
        page="page",
        what="A training job stands still.",
        # The series' own label `job` is `exported_job` wherever Prometheus puts its own `job` on what it scrapes.
        numbers='{{ range printf "last_over_time(tocsin_nccl_stall_seconds{instance=%q}[5m]) > 0" $labels.instance | query | sortByLabel "job" }}'
        " Job {{ or .Labels.exported_job .Labels.job }} has stood for {{ .Value | humanizeDuration }}.{{ end }}",
        means="Its ranks wait for each other; the root is the rank, GPU or port that nobody else waits behind.",
        confirm="`tocsin nccl status`; `tocsin explain INCIDENT`.",
        do="Restart the job without the blamed node.",
        panel=places.JOBS,
    ),
    FaultClass(
        stem="Straggler",
        classes="straggler",
        component="gpu",
        page="page",
        what="One GPU slows a whole job down.",
        numbers=_number("tocsin_gpu_clock_hertz", "#Hz now.", ',clock="sm"'),
        means="It runs slower than its peers in the same job and than its own past, and no reason bit says why.",
        confirm="`tocsin query device UUID --since 6h`; compare clocks and power with its peers.",
        do="Move the job off the GPU; diagnose it when it is free.",
        panel=places.STRAGGLERS,
    ),
)
KNOWN = "|".join(each.classes for each in CLASSES)
OTHER = FaultClass(
    stem="Other",
    classes=KNOWN,
    component="node",
    page="page",
    what="A fault of a class that has no alert of its own.",
    numbers="",
    means="A detector newer than these rules found something, or the agent itself is in trouble.",
    confirm="`tocsin explain INCIDENT` on the node.",
    do="What the label `action` says; update the rules.",
    panel=places.INCIDENTS,
)


def _named(selector: str, level: str) -> str:
    """The incidents, with their own action beside the route's (``proposed``), and the GPU to blame under the raw rules' name for it."""
    series = f'tocsin_incident_active{{{selector}, severity="{level}"}}'
    proposed = f'label_replace({series}, "proposed", "$1", "action", "(.*)")'
    return f'label_replace({proposed}, "gpu_uuid", "$1", "root_device", "(GPU-.+)")'


def _alert(fault: FaultClass, severity: Severity) -> Alert:
    page = severity == "critical"
    level = "page" if page else "ticket"
    selector = f'class!~"({KNOWN})(/.*)?"' if fault is OTHER else fault.selector
    return Alert(
        name=f"Tocsin{fault.stem}" if page else f"Tocsin{fault.stem}Ticket",
        expr=f"({_named(selector, level)} > 0)\n{HANDLED}",
        severity=severity,
        component=fault.component,
        scope="",
        action=fault.page if page else "remediate",
        family=fault.stem.lower(),
        keep="5m",
        summary=fault.what if page else f"{fault.what[:-1]}: not urgent.",
        description=(
            "{{ $labels.root_kind }} {{ $labels.root_device }} of {{ $labels.instance }}: {{ $labels.class }}. "
            f"Proposed: {{{{ $labels.proposed }}}}.{fault.numbers}"
        ),
        means=fault.means,
        confirm=fault.confirm,
        do=fault.do,
        panel=fault.panel,
        clears="Ten minutes after the last finding of the incident has cleared, at `tocsin ack`, or in maintenance; and 5 minutes more.",
    )


GROUPS = (
    Group("tocsin.findings", tuple(_alert(fault, level) for fault in (*CLASSES, OTHER) for level in ("critical", "warning"))),
)
