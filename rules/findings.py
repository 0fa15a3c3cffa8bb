"""Rules over the agents' findings: per class of fault one alert that pages and one ticket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashboards import places
from dashboards.places import Place
from detectors import faults
from rules import fleet, owners, templates, words
from rules.model import Action, Alert, Component, Group, Severity, any_pod

INCIDENT = "cluster, node, instance, root_kind, root_device, class"

# An acknowledged incident is being handled, and a node in maintenance is expected to misbehave:
# neither pages. What the gateway explains it alerts itself.
HANDLED = (
    f"{fleet.LEFT}\n"
    f"unless on ({INCIDENT}) tocsin_incident_acknowledged\n"
    "unless on (cluster, node, instance) tocsin_maintenance{kind='node'}"
)


@dataclass(frozen=True, slots=True)
class FaultClass:
    """One class of fault: its page of the runbook. Its classes are in detectors/faults.

    ``what`` is the summary. The words of the fault (rules/words.py) follow the device in the
    description, or ``fact`` where the fault has none. ``inspect`` is the instruction where the
    proposed action is CONTACT_SUPPORT.
    """

    stem: str
    component: Component
    page: Action
    what: str
    fact: str
    numbers: str
    inspect: str
    means: str
    confirm: str
    do: str
    panel: Place

    @property
    def classes(self) -> str:
        """Regular expression over the label ``class`` up to its first slash."""
        return "|".join(name for name, row in faults.CLASSES.items() if row.alert == self.stem)

    @property
    def is_of_jobs(self) -> bool:
        """Whether faults of applications are among its classes."""
        classes = self.classes.split("|")
        return any(name.split("/")[0] in classes for name in owners.APPLICATION.split("|"))

    @property
    def words(self) -> str:
        """The fault in plain words, as a template."""
        return words.of_class(self.classes.split("|"), self.fact)

    @property
    def selector(self) -> str:
        """Matcher of the label ``class``."""
        return f'class=~"({self.classes})(/.*)?"'


def _xids(equal: str, meanings: Mapping[int, str]) -> str:
    """Counts of the codes that page on their own (``=~``), or of the others (``!~``)."""
    codes = "|".join(map(str, words.paging_xids()))
    return (
        '{{ range printf "last_over_time(tocsin_gpu_xid_errors_total{instance=%q,uuid=%q,'
        f'xid{equal}\\"{codes}\\"}}[5m]) > 0" '
        '$labels.instance $labels.root_device | query | sortByLabel "xid" }} XID {{ .Labels.xid }}'
        f"{words.of_xid(meanings)} count: {{{{ .Value }}}}.{{{{ end }}}}"
    )


# What pages on its own comes first: it is to blame for the others.
XIDS = _xids("=~", words.paging_xids()) + _xids("!~", words.other_xids())
# Lanes of what is linked at less than it could be.
LANES = "".join(
    of(metric, text, f',link="{end}"')
    for of, metric in (
        (templates.of_gpu, "tocsin_gpu_pcie_link_width"),
        (templates.of_port, "tocsin_ib_port_pcie_link_width"),
    )
    for end, text in (("current", "PCIe lanes: # now,"), ("maximum", "# at most."))
)
# The label `job` of the series is `exported_job` where Prometheus sets its own `job`.
STALLS = (
    f'{{{{ range printf "last_over_time(tocsin_nccl_stall_seconds{{{templates.OF_NODE}}}[5m]) > 0" '
    f'{templates.ITS_NODE} | query | sortByLabel "job" }}}}'
    " Job {{ or .Labels.exported_job .Labels.job }} has made no progress for "
    "{{ .Value | humanizeDuration }}.{{ end }}"
)

CLASSES = (
    FaultClass(
        stem="GpuLost",
        component="gpu",
        page="page",
        what="GPU not responding",
        fact="not responding",
        numbers=templates.of_node("tocsin_gpu_visible", "# GPUs of the node respond,")
        + templates.of_node("tocsin_gpu_expected", "# are expected."),
        inspect="Inspect the GPU",
        means=(
            "The GPU fell off the bus, its driver calls hang, or it is missing since the last "
            "boot. `tocsin_gpu_state` says which."
        ),
        confirm=(
            "`tocsin_gpu_state{uuid=...}`; `nvidia-smi -L` on the node; `sudo dmesg | grep -i xid`."
        ),
        do="Drain the node and power-cycle it. If the GPU is lost again, reseat or replace it.",
        panel=places.NODE_GPUS,
    ),
    FaultClass(
        stem="Host",
        component="node",
        page="page",
        what="Host kernel or hardware fault",
        fact="host fault",
        numbers="",
        inspect="Inspect the host: memory, processors, kernel log",
        means=(
            "The kernel reported a crash, a lock-up, an uncorrected memory or processor error, or "
            "a process that it killed."
        ),
        confirm="`sudo tocsin explain INCIDENT`; `sudo dmesg -T`; `sudo ras-mc-ctl --summary`.",
        do="Drain the node, and power-cycle it or replace the part.",
        panel=places.INCIDENTS,
    ),
    FaultClass(
        stem="Storage",
        component="node",
        page="page",
        what="Storage fault",
        fact="storage fault",
        numbers="",
        inspect="Check the storage and the network path to it",
        means=("A file server does not respond, a file system became read-only, or a disk failed."),
        confirm=(
            "`sudo tocsin explain INCIDENT`; `sudo dmesg -T`; `df`, `mount`, `sudo nvme list` on "
            "the node."
        ),
        do="Restore the storage; restart jobs that stand still.",
        panel=places.INCIDENTS,
    ),
    FaultClass(
        stem="GpuXid",
        component="gpu",
        page="page",
        what="XID or SXID error of a GPU or NVSwitch",
        fact="XID or SXID error",
        numbers=XIDS,
        inspect=templates.by_class(
            "Inspect the device and contact support",
            {"xid/nvlink": "Check its NVLinks, and contact support where it repeats"},
        ),
        means=(
            "The driver reported an XID or SXID, or a burst of them. The incident names the first "
            "cause and contains the errors that follow from it."
        ),
        confirm=(
            "`sudo tocsin explain INCIDENT`; `sudo tocsin query xids --since 1d`; "
            "`sudo dmesg -T | grep -i xid`."
        ),
        do="Follow the proposed action: reset, power cycle or support.",
        panel=places.NODE_XIDS,
    ),
    FaultClass(
        stem="GpuMemory",
        component="gpu",
        page="rma",
        what="GPU memory errors",
        fact="memory errors",
        numbers=templates.of_gpu(
            "tocsin_gpu_remapped_rows_total",
            "Rows remapped after uncorrectable errors: #.",
            ',cause="uncorrectable"',
        ),
        inspect="Inspect the GPU and contact support",
        means=(
            "Uncorrectable errors, spare rows used up, or a trend of corrected errors that leads "
            "there."
        ),
        confirm="`sudo tocsin query ecc --since 30d`; `nvidia-smi -q -d ECC,ROW_REMAPPER`.",
        do=(
            "Reset the GPU after its job where a row remap is pending. Run the field diagnostic "
            "and open an RMA where a remap failed."
        ),
        panel=places.MEMORY_ERRORS,
    ),
    FaultClass(
        stem="GpuHeat",
        component="gpu",
        page="page",
        what="GPU throttled by heat or power supply, or cooling degraded",
        fact="throttled or overheating",
        numbers=templates.of_gpu(
            "tocsin_gpu_temperature_celsius", "Core temperature: # °C.", ',sensor="core"'
        ),
        inspect=templates.by_class(
            "Check the cooling",
            {"throttle/hw_power_brake": "Check the power supplies of the chassis"},
        ),
        means=(
            "The hardware lowers the clocks, or heat is carried away less well than before. The "
            "root cause can be one GPU, its node or the rack."
        ),
        confirm=(
            "`sudo tocsin query throttle --since 1d`; temperatures of neighbours; fans, coolant, "
            "power supplies."
        ),
        do=(
            "One GPU: cold plate, thermal paste, fan. A node: power supply, fans. A rack: call the "
            "facility."
        ),
        panel=places.BRAKES,
    ),
    FaultClass(
        stem="GpuPower",
        component="gpu",
        page="page",
        what="GPU power limit lowered, or power draw too low for the load",
        fact="low power",
        numbers=templates.of_gpu(
            "tocsin_gpu_power_limit_watts", "Enforced power limit: # W.", ',limit="enforced"'
        )
        + templates.of_gpu("tocsin_gpu_power_limit_watts", "Default: # W.", ',limit="default"'),
        inspect="Check the power limit and the power supply",
        means=(
            "The power limit was lowered, or the GPU draws less than it did at the same load "
            "(voltage regulator)."
        ),
        confirm="`nvidia-smi -q -d POWER`; find what set the limit (BMC, `nvidia-smi -pl`).",
        do="Restore the limit. Diagnose a GPU that draws less at the same load once it is free.",
        panel=places.LIMITS,
    ),
    FaultClass(
        stem="GpuLink",
        component="gpu",
        page="page",
        what="PCIe or NVLink fault",
        fact="PCIe or NVLink fault",
        numbers=templates.by_class("", {"pcie/(width|generation)": LANES}),
        inspect=templates.by_class(
            "Check the NVLink at both of its ends",
            {"pcie(/.*)?": "Drain the node, and reseat the device or its riser"},
        ),
        means=(
            "Lanes or links are missing, or the link retransmits more than its specification "
            "allows."
        ),
        confirm="`nvidia-smi -q | grep -A3 'Link Width'`; `nvidia-smi nvlink -s`; `lspci -vv`.",
        do=(
            "Drain the node and reset the GPU. If the fault remains, reseat the GPU, riser or "
            "NVLink bridge."
        ),
        panel=places.LINKS,
    ),
    FaultClass(
        stem="NvlinkFabric",
        component="gpu",
        page="page",
        what="NVLink fabric fault",
        fact="NVLink fabric fault",
        numbers=templates.of_gpu(
            "tocsin_gpu_fabric_error_code", "NVML status of its registration: #."
        ),
        inspect="Restart Fabric Manager, and check its log and the NVSwitches",
        means=(
            "A GPU is not registered with the NVLink fabric, or its place in it is unhealthy; of "
            "half of the GPUs of a node at once the cause is Fabric Manager or an NVSwitch. New "
            "CUDA jobs fail with cudaErrorSystemNotReady (802), or run over PCIe."
        ),
        confirm=(
            "`nvidia-smi -q | grep -A8 Fabric`; `systemctl status nvidia-fabricmanager`; "
            "`sudo dmesg -T | grep -i sxid`."
        ),
        do=(
            "A node: restart Fabric Manager with no job on the node; its version must be that of "
            "the driver. One GPU: drain the node and reset the GPU."
        ),
        panel=places.LINKS,
    ),
    FaultClass(
        stem="Fabric",
        component="fabric",
        page="page",
        what="InfiniBand link or adapter fault",
        fact="link or adapter fault",
        numbers=templates.of_port("tocsin_ib_port_symbol_errors_total", "Symbol errors: #.")
        + templates.of_port("tocsin_ib_port_link_downed_total", "Link losses: #."),
        inspect="Check the cable and both of its connectors",
        means=(
            "The port is down, flapping or slow, or has more bit errors than its rate allows. Both "
            "ends were compared where both are known."
        ),
        confirm=(
            "`sudo tocsin query links --since 1d`; `ibstat`, `sudo iblinkinfo`, `sudo perfquery "
            "-x` at both ends."
        ),
        do="Clean or swap the cable, then the transceiver, then the port.",
        panel=places.PORTS,
    ),
    FaultClass(
        stem="JobStalled",
        component="node",
        page="page",
        what="Training job stalled",
        fact="stalled job",
        numbers=STALLS,
        inspect="Inspect the device, the storage and the network",
        means=(
            "The ranks of the job wait for each other. The root cause is the rank, GPU or port "
            "that the others wait for. The label `class` says more. `hang/rank_busy`: one rank "
            "computes while all others wait, in a loop, a deadlock of its program or a long "
            "evaluation. `hang/crawl` (a ticket): all ranks go on, at less than 15 % of the job's "
            "usual speed. `hang/host_stall`: all of its GPUs idle, as it waits for its data loader "
            "or storage. `hang/hardware` and `hang/link`: the GPU or port is broken."
        ),
        confirm=(
            "`sudo tocsin nccl status`; `sudo tocsin explain INCIDENT`. `hang/rank_busy`: the "
            "stack of the named rank (`sudo py-spy dump --pid PID`). `hang/crawl`: clocks, power "
            "and network of the job against the hour before. `hang/host_stall`: the loader's "
            "processes and their storage (`sudo cat /proc/PID/stack`, mounts, their latency)."
        ),
        do=(
            "Restart the job without the node of the root cause. `hang/rank_busy`: keep the stack "
            "for the job's owner, then restart; the node is healthy. `hang/crawl`: find what all "
            "ranks share (network, storage, a power or clock limit) before a restart. "
            "`hang/host_stall`: repair the storage or the loader; the job then continues."
        ),
        panel=places.JOBS,
    ),
    FaultClass(
        stem="Straggler",
        component="gpu",
        page="page",
        what="A GPU or node slows down its job",
        fact="slower than its peers",
        numbers=templates.of_gpu("tocsin_gpu_clock_hertz", "SM clock: ~Hz.", ',clock="sm"'),
        inspect="Diagnose it when it is free",
        means=(
            "The GPU, or all GPUs of the node, are slower than their peers in the job and than "
            "before, and no throttle reason explains it."
        ),
        confirm=(
            "`sudo tocsin query device UUID --since 6h`; compare clocks and power with its peers."
        ),
        do="Move the job off the GPU or node and diagnose it when it is free.",
        panel=places.STRAGGLERS,
    ),
)
KNOWN = "|".join(each.classes for each in CLASSES)
OTHER = FaultClass(
    stem="Other",
    component="node",
    page="page",
    what="Fault of a class without an alert of its own",
    fact="fault",
    numbers="",
    inspect="Inspect the device",
    means="The class is newer than these rules, or the fault is in the agent itself.",
    confirm="`sudo tocsin explain INCIDENT` on the node.",
    do="Follow the proposed action, and update the rules.",
    panel=places.INCIDENTS,
)


def _named(selector: str, level: str, metric: str = "tocsin_incident_active") -> str:
    """The incidents, with the labels of their alerts."""
    series = f'{metric}{{{selector}{", " if selector else ""}severity="{level}"}}'
    return templates.labelled(any_pod(series))


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
        summary=f"{fault.what}." if page else f"{fault.what} (not urgent).",
        description=(
            f"{templates.DEVICE}: {fault.words} ({{{{ $labels.class }}}})."
            f"{templates.FAILED_GPUS}{fault.numbers} "
            f"{templates.action(fault.inspect, urgent=page)}"
        ),
        means=fault.means,
        confirm=fault.confirm,
        do=fault.do,
        panel=fault.panel,
        clears=(
            "15 minutes after the last finding of the incident clears; 5 minutes after `tocsin "
            "ack` or the start of maintenance."
        ),
        like="" if page else f"Tocsin{fault.stem}",
        labels=owners.LABELS if fault.is_of_jobs else {},
    )


AGAIN_MIN = 15  # an alert fires for so long, and again with the next time
SEEN_MIN = 10  # before that: a scrape that failed then is no news


def _again(severity: Severity) -> Alert:
    """What happens again while its incident is open: the alert of its class fires already."""
    page = severity == "critical"
    level = "page" if page else "ticket"
    series = f'tocsin_incident_occurrences{{severity="{level}"}}'
    then = f"[{SEEN_MIN}m] offset {AGAIN_MIN}m"
    # What was known, and of an agent that did not answer then what it said last.
    known = (
        f"max_over_time({series}{then})\nor (last_over_time({series}[1d] offset {AGAIN_MIN}m)\n"
        f"unless on (cluster, node, instance) last_over_time(tocsin_build_info{then}))"
    )
    # Of the incident, whichever pod its agent runs in and whatever is proposed by now.
    now, before = (f"max by ({INCIDENT}) ({each})" for each in (series, known))
    expr = (
        f"({_named('', level, 'tocsin_incident_occurrences')}\n"
        f"unless on ({INCIDENT}) ({before} >= {now}))\n{HANDLED}"
    )
    return Alert(
        name="TocsinFaultAgain" if page else "TocsinFaultAgainTicket",
        expr=expr,
        severity=severity,
        component="node",
        scope="",
        action="page" if page else "remediate",
        family="again",
        summary="Fault happened again." if page else "Fault happened again (not urgent).",
        description=(
            f"{templates.DEVICE}: {{{{ $labels.class }}}} has happened {{{{ $value }}}} times "
            "while its incident was open. "
            f"{templates.action('Inspect the device', urgent=page)}"
        ),
        means=(
            "The fault of an incident that is still open has happened again: a second crash of a "
            "node, another XID after the first, a GPU that came back and was lost again. The alert "
            "of the incident fires already and does not change, so this one reports it. What was "
            "done after the first time did not help."
        ),
        confirm="`sudo tocsin explain INCIDENT`: how often, and when last.",
        do=(
            "Do not return the device to service after another reset or reboot: run the field "
            "diagnostic, or contact vendor support."
        ),
        panel=places.INCIDENTS,
        clears=f"{AGAIN_MIN} minutes after it happened; it fires again with the next time.",
        like="" if page else "TocsinFaultAgain",
    )


GROUPS = (
    Group(
        "tocsin.findings",
        (
            *fleet.RECORDINGS,
            *(
                _alert(fault, level)
                for fault in (*CLASSES, OTHER)
                for level in ("critical", "warning")
            ),
            _again("critical"),
            _again("warning"),
            *fleet.ALERTS,
        ),
    ),
)
