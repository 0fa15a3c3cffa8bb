"""Events of the kernel log become findings about their node, and end as the table says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from detectors.host import Host
from detectors.host.rules import CRASHES, RULES, Rule
from pipeline.catalog.events import EVENTS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, blank, frame_of, schema_of
from pipeline.observation import Event, Observation
from tests.fakes import START_NS

NODE = Device("n1", "node", "n1")
SECOND, DAY_S = 10**9, 86_400.0


class Kernel:
    """What the kernel of a node reports, and what is found."""

    def __init__(self) -> None:
        self.detector, self.seconds, self.boot = Host(), 0.0, "boot-1"
        self.open: dict[str, Finding] = {}
        self._seq = 0

    def reports(
        self, kind: str, device: Device = NODE, *, happened_s: float | None = None, **facts: Any
    ) -> None:
        """An event, of now or of earlier."""
        at_ns = self._now if happened_s is None else START_NS + round(happened_s * SECOND)
        self._see(Event(at_ns, 0, device, kind, facts))

    def wait(self, seconds: float) -> None:
        """Nothing is reported for so long; looked at every minute."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds = min(end, self.seconds + 60)
            self._see()

    def gpu(self, epoch: str) -> None:
        """The GPU of the node answers, in this epoch."""
        device = Device("n1", "gpu", "GPU-0", {"epoch": epoch})
        self._see(frames=(frame_of("gpu", [(device, {})], self._now, 0),))

    def job(self) -> None:
        """A job on one GPU of the node."""
        self.reports("job_started", job="42", gpus="GPU-0")

    @property
    def faults(self) -> dict[str, str]:
        """Fault and severity of what is open, records left out."""
        return {f.fault: f.severity for f in self.open.values() if f.severity != "record"}

    @property
    def every(self) -> dict[str, str]:
        """Fault and severity of all that is open."""
        return {f.fault: f.severity for f in self.open.values()}

    @property
    def _now(self) -> int:
        return START_NS + round(self.seconds * SECOND)

    def _see(self, *events: Event, frames: tuple[Frame, ...] = ()) -> None:
        self._seq += 1
        mono = round(self.seconds * SECOND)
        seen = Observation("kmsg", "n1", self.boot, self._seq, self._now, mono, 0, frames, events)
        for finding in self.detector.update(seen):
            if finding.active:
                self.open[finding.id] = finding
            else:
                del self.open[finding.id]


def named(rule: Rule) -> dict[str, Any]:
    """The attribute that names what is broken, where the rule reads one."""
    return {rule.thing: "it"} if rule.thing else {}


def matching(rule: Rule, **more: Any) -> dict[str, Any]:
    """Attributes of an event that the rule is about, which names what is broken."""
    return {**named(rule), **{name: words[0] for name, words in rule.where.items()}, **more}


rules = pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.fault}-{r.kind}-{r.least}")


@rules
def test_each_rule_reports_its_fault_after_enough_events(rule: Rule) -> None:
    """With a job on the node; not one event earlier, and not for an event with other words."""
    kernel = Kernel()
    kernel.job()
    for _ in range(rule.least - 1):
        kernel.reports(rule.kind, **matching(rule))
    before = kernel.every.get(rule.fault)
    kernel.reports(rule.kind, **matching(rule))
    kernel.wait(rule.confirm_s)
    assert kernel.every[rule.fault] == (rule.with_job or rule.on_node or rule.severity)
    assert before != kernel.every[rule.fault]


def test_two_switches_of_a_node_are_both_named() -> None:
    """The second is another event of the finding, and hides nothing of the first."""
    kernel = Kernel()
    kernel.reports("sxid", code=24007, severity="fatal", switch=1)
    kernel.wait(3600)
    kernel.reports("sxid", code=20009, severity="fatal", switch=3)
    (finding,) = kernel.open.values()
    assert "NVSwitch 1 reports a fatal error, SXID 24007" in finding.summary
    assert "NVSwitch 3 reports a fatal error, SXID 20009" in finding.summary
    assert finding.again_ns


def test_links_of_a_switch_that_come_up_are_no_errors() -> None:
    """Each reports SXID 22013 as it does; where the driver calls that fatal, it is."""
    kernel = Kernel()
    for link in range(64):
        kernel.reports("sxid", code=22013, severity="nonfatal", switch=3, link=link)
    assert kernel.every == {}
    kernel.reports("sxid", code=22013, severity="fatal", switch=3, link=1)
    assert kernel.faults == {"nvswitch/fatal": "page"}


@rules
def test_each_rule_ends_as_it_says(rule: Rule) -> None:
    """With its recovery, or after its quiet time; with the next boot in any case."""
    for end in (*rule.clears, "quiet" if rule.quiet_s else "boot", "boot"):
        kernel = Kernel()
        kernel.job()
        for _ in range(rule.least):
            kernel.reports(rule.kind, **matching(rule))
        kernel.wait(rule.confirm_s)
        assert rule.fault in kernel.every
        if end == "quiet":
            kernel.wait(rule.quiet_s + 120)
        elif end == "boot":
            kernel.boot = "boot-2"
            kernel.wait(60)
        else:
            kernel.reports(end, **named(rule))
        assert rule.fault not in kernel.every, end


def test_a_reset_of_the_gpu_ends_what_its_driver_reported_before() -> None:
    """The node needs no reboot for it; an earlier reset, or one that changed nothing, ends none."""
    kernel = Kernel()
    for epoch in ("580#0", "580#1"):
        kernel.gpu(epoch)
    kernel.reports("gpu_driver_error", severity="fatal", reason="reset required")
    kernel.gpu("580#1")
    kernel.wait(600)
    assert kernel.faults == {"gpu_driver/fatal": "page"}
    kernel.gpu("580#2")
    assert kernel.faults == {}
    kernel.gpu("580#3")
    kernel.reports("gpu_driver_error", severity="fatal", reason="reset required")
    kernel.gpu("580#3")
    assert kernel.faults == {"gpu_driver/fatal": "page"}


@rules
def test_every_kind_of_the_table_is_in_the_catalogue(rule: Rule) -> None:
    """With the attributes that the rule reads."""
    kinds = {kind.name: kind for kind in EVENTS}
    names = {name for name, _ in kinds[rule.kind].attributes}
    assert {*rule.where, *filter(None, (rule.thing, rule.counted))} <= names
    assert {*rule.clears} <= kinds.keys()


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("edac", {"severity": "corrected", "dimm": "A1", "errors": 1}),
        ("machine_check", {"severity": "corrected"}),
        ("machine_check", {}),
        ("soft_lockup", {"cpu": 3, "seconds": 23}),
        ("hung_task", {"process": "python3"}),
        ("storage_error", {"block_device": "nvme0", "reason": "timeout", "severity": "nonfatal"}),
        ("sxid", {"code": 20034, "severity": "nonfatal"}),
        ("segfault", {"process": "python3"}),
        ("oom_kill", {"process": "bash"}),
        ("link_down", {"interface": "eth0"}),
    ],
)
def test_a_single_harmless_event_is_silent(kind: str, attributes: dict[str, Any]) -> None:
    """No job runs there; one of these is daily life."""
    kernel = Kernel()
    kernel.reports(kind, **attributes)
    kernel.wait(3600)
    assert kernel.faults == {}


def test_a_file_server_that_is_back_after_ten_seconds_is_silent() -> None:
    """One minute of patience, also under a job."""
    kernel = Kernel()
    kernel.job()
    kernel.reports("network_filesystem_error", filesystem="nfs", server="filer1")
    kernel.seconds += 10
    kernel.reports("network_filesystem_recovered", filesystem="nfs", server="filer1")
    kernel.wait(3600)
    assert kernel.open == {}


def test_another_server_that_is_back_ends_nothing() -> None:
    """Both are gone; one comes back."""
    kernel = Kernel()
    for server in ("filer1", "filer2"):
        kernel.reports("network_filesystem_error", filesystem="nfs", server=server)
    kernel.wait(120)
    kernel.reports("network_filesystem_recovered", filesystem="nfs", server="filer1")
    assert kernel.faults == {"storage/server": "ticket"}
    kernel.reports("network_filesystem_recovered", filesystem="nfs", server="filer2")
    assert kernel.faults == {}


LUSTRE: dict[str, Any] = {"filesystem": "lustre", "server": "work-OST0001"}


@pytest.mark.parametrize(
    ("gone", "back"),
    [
        ({"filesystem": "nfs", "server": "filer1"}, {"filesystem": "weka"}),
        ({"filesystem": "weka"}, {"filesystem": "weka"}),
        ({"filesystem": "weka", "server": "/mnt/a"}, {"filesystem": "weka", "server": "/mnt/b"}),
        ({"filesystem": "weka"}, LUSTRE),
        (LUSTRE, {"filesystem": "nfs", "server": "lustre"}),
    ],
)
@pytest.mark.parametrize("waited_s", [10, 120])
def test_a_recovery_that_does_not_name_the_server_ends_nothing(
    gone: dict[str, Any], back: dict[str, Any], waited_s: float
) -> None:
    """Neither an open page nor one that is about to open; it ends when it was quiet for long."""
    kernel = Kernel()
    kernel.job()
    kernel.reports("network_filesystem_error", **gone)
    kernel.wait(waited_s)
    kernel.reports("network_filesystem_recovered", **back)
    kernel.wait(120)
    assert kernel.faults == {"storage/server": "page"}
    kernel.wait(7 * 3600)
    assert kernel.faults == {}


def test_an_error_without_a_name_ends_with_a_server_of_its_file_system() -> None:
    """LNet names no target; that the client has its target back is what it waited for."""
    kernel = Kernel()
    kernel.reports("network_filesystem_error", filesystem="lustre", reason="network error")
    kernel.wait(120)
    assert kernel.faults == {"storage/server": "ticket"}
    kernel.reports("network_filesystem_recovered", **LUSTRE)
    assert kernel.faults == {}


def test_an_array_that_is_complete_again_ends_no_failure_of_another_disk() -> None:
    """The recovery of an array names the array alone: what ends is what was reported of it."""
    kernel = Kernel()
    kernel.reports("storage_error", severity="fatal", block_device="nvme0", reason="disabled")
    kernel.reports("storage_recovered", component="md", array="md0")
    assert kernel.faults == {"storage/disk": "ticket"}
    kernel.reports("storage_recovered", component="nvme", block_device="nvme0")
    assert kernel.faults == {}
    kernel.reports("storage_error", severity="fatal", array="md0", reason="array failed")
    kernel.reports("storage_recovered", component="md", array="md0")
    assert kernel.faults == {}


def test_the_limit_of_a_job_of_its_own_is_a_record_about_that_job() -> None:
    """Also while another job runs on the node, which it does not touch."""
    kernel = Kernel()
    kernel.job()
    kernel.reports("resource_exhausted", resource="processes of a job", job="7")
    (finding,) = kernel.open.values()
    assert (finding.fault, finding.severity) == ("host/own_limit", "record")
    assert "7" in finding.summary
    assert "42" not in finding.summary
    kernel.reports("resource_exhausted", resource="processes", cgroup="/system.slice/sshd.service")
    assert kernel.faults == {"host/exhausted": "ticket"}


def test_a_second_server_that_is_gone_is_named_beside_the_first() -> None:
    """One finding about the node, which names both."""
    kernel = Kernel()
    for server in ("filer1", "filer2"):
        kernel.reports("network_filesystem_error", filesystem="nfs", server=server)
        kernel.wait(120)
    (finding,) = kernel.open.values()
    assert "filer1" in finding.summary
    assert "filer2" in finding.summary


def test_a_server_that_is_gone_again_within_the_hour_is_reported_again() -> None:
    """It was back for ten minutes: no flicker of what was reported before."""
    kernel = Kernel()
    kernel.job()
    for _ in range(2):
        kernel.reports("network_filesystem_error", filesystem="nfs", server="filer1")
        kernel.wait(120)
        assert kernel.faults == {"storage/server": "page"}
        kernel.reports("network_filesystem_recovered", filesystem="nfs", server="filer1")
        kernel.wait(600)
        assert kernel.faults == {}


def test_storage_that_is_gone_under_a_job_is_a_page_with_the_job() -> None:
    """And a ticket on an idle node."""
    for job, severity in ((True, "page"), (False, "ticket")):
        kernel = Kernel()
        if job:
            kernel.job()
        kernel.reports("filesystem_read_only", filesystem="ext4", block_device="nvme0n1p1")
        assert kernel.faults == {"storage/read_only": severity}
        (finding,) = kernel.open.values()
        assert ("Job 42" in finding.summary) == job


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.on_node], ids=lambda r: r.kind)
def test_a_device_that_is_read_is_graver_than_any_other(rule: Rule) -> None:
    """A disk that was pulled out is no GPU."""
    kernel = Kernel()
    kernel.reports(rule.kind, Device("n1", "gpu", "GPU-0"), **matching(rule, pci="0000:4e:00.0"))
    assert kernel.faults == {rule.fault: rule.severity}


def test_a_hundred_corrected_errors_in_a_day_are_a_ticket_however_they_are_reported() -> None:
    """Ninety in one line, ten in others."""
    kernel = Kernel()
    kernel.reports("edac", severity="corrected", dimm="A1", errors=90)
    for _ in range(9):
        kernel.reports("edac", severity="corrected", dimm="A1", errors=1)
    assert kernel.faults == {}
    kernel.reports("edac", severity="corrected", dimm="A1", errors=1)
    assert kernel.faults == {"host_hardware/corrected": "ticket"}


@pytest.mark.parametrize("kind", CRASHES)
def test_a_boot_that_ended_in_a_crash_is_reported_after_the_next(kind: str) -> None:
    """As a ticket about the node, with the line."""
    kernel = Kernel()
    kernel.reports(kind, previous_boot=True, text="the last line", severity="fatal")
    assert kernel.faults == {"host/crashed": "ticket"}
    (finding,) = kernel.open.values()
    assert finding.evidence == ("the last line",)


@pytest.mark.parametrize(("apart_s", "severity"), [(600.0, "page"), (2 * DAY_S, "ticket")])
def test_a_second_crash_within_a_day_is_a_page(apart_s: float, severity: str) -> None:
    """The boot after it ended the ticket of the first; the node is not to be used as it is."""
    kernel = Kernel()
    kernel.boot = "boot-2"
    kernel.wait(60)
    kernel.reports("kernel_panic", previous_boot=True, reason="x")
    assert kernel.faults == {"host/crashed": "ticket"}
    kernel.wait(apart_s)
    kernel.boot = "boot-3"
    kernel.wait(60)
    assert kernel.faults == {}
    kernel.reports("kernel_panic", previous_boot=True, reason="x")
    assert kernel.faults == {"host/crashed": severity}


def test_a_second_crash_whose_boot_nobody_saw_is_counted_in_the_open_finding() -> None:
    """A node whose agent was not the one that read the log."""
    kernel = Kernel()
    kernel.reports("kernel_panic", previous_boot=True, reason="x")
    kernel.wait(7200)
    kernel.reports("kernel_panic", previous_boot=True, reason="x")
    (finding,) = kernel.open.values()
    assert (finding.severity, finding.times) == ("page", 2)
    assert finding.summary.startswith("Node n1 was restarted after a crash again, 2 within a day")


def test_the_lines_of_one_crash_are_one_crash() -> None:
    """A lock-up, then the panic for it; also where the panic was read before the node was off."""
    kernel = Kernel()
    kernel.reports("kernel_panic", reason="x")
    kernel.boot = "boot-2"
    kernel.wait(300)
    for kind in ("hard_lockup", "kernel_panic"):
        kernel.reports(kind, previous_boot=True, reason="x", happened_s=0.0)
    (finding,) = kernel.open.values()
    assert (finding.fault, finding.severity, finding.times) == ("host/crashed", "ticket", 1)


def test_another_file_system_hours_later_is_the_second_time() -> None:
    """The first is still read-only, and the finding open."""
    kernel = Kernel()
    kernel.reports("filesystem_read_only", filesystem="xfs", block_device="sda")
    kernel.wait(30)
    kernel.reports("filesystem_read_only", filesystem="xfs", block_device="sdb")
    (finding,) = kernel.open.values()
    assert finding.times == 1
    kernel.wait(7200)
    kernel.reports("filesystem_read_only", filesystem="xfs", block_device="sdc")
    (finding,) = kernel.open.values()
    assert (finding.times, finding.again_ns) == (2, finding.time_ns)
    assert finding.summary.endswith("file system on sdc became read-only.")


def test_an_error_of_the_kernel_is_counted_again_after_ten_quiet_minutes() -> None:
    """The lines of one error follow each other within seconds."""
    kernel = Kernel()
    for quiet_s in (1.0, 1.0, 1200.0, 1.0):
        kernel.reports("kernel_oops", reason="x")
        kernel.wait(quiet_s)
    (finding,) = kernel.open.values()
    assert finding.times == 2


def test_a_crash_is_reported_however_long_the_node_was_off() -> None:
    """Somebody came after two days; a week after the boot its ticket ends."""
    kernel = Kernel()
    kernel.wait(2 * DAY_S)
    kernel.reports("kernel_panic", previous_boot=True, reason="x", happened_s=0)
    assert kernel.faults == {"host/crashed": "ticket"}
    kernel.wait(6.9 * DAY_S)
    assert kernel.faults == {"host/crashed": "ticket"}
    kernel.wait(0.2 * DAY_S)
    assert kernel.faults == {}


def joined(seconds: float, boot: str, *events: Event, booted_s: float = 0.0) -> Observation:
    """An observation of many nodes, in which the node's device gives its boot."""
    time_ns = START_NS + round(seconds * SECOND)
    devices = (Device("n1", "node", "n1", {"boot_id": boot}),)
    schema, (gauges, counters, observed) = schema_of("node"), blank("node", devices)
    gauges[schema.gauge_row["boot_time_seconds"]] = START_NS / SECOND + booted_s
    frame = Frame(
        schema, time_ns, time_ns, devices, gauges, counters, observed, np.zeros(1, np.int64)
    )
    return Observation("host", "fleet", "fleet", 1, time_ns, time_ns, 0, (frame,), events)


def test_a_boot_ends_what_was_reported_also_where_frames_of_nodes_are_joined() -> None:
    """What is reported after the boot, and is read before the node's new boot is, stays open."""
    host = Host()
    panic = Event(START_NS, 0, NODE, "kernel_panic", {"reason": "x"})
    lockup = Event(START_NS + 605 * SECOND, 0, NODE, "hard_lockup", {"cpu": 1})
    opened = list(host.update(joined(0, "boot-1", panic)))
    assert [(f.fault, f.phase) for f in opened] == [("host/panic", "onset")]
    assert [f.fault for f in host.update(joined(605, "boot-1", lockup))] == ["host/lockup"]
    ended = host.update(joined(660, "boot-2", booted_s=600))
    assert [(f.fault, f.phase) for f in ended] == [("host/panic", "cleared")]


def test_a_device_that_its_port_cut_off_is_back_when_the_port_says_so() -> None:
    """The recovery names the port alone; that of another port ends nothing."""
    kernel, gpu = Kernel(), Device("n1", "gpu", "GPU-0")
    kernel.reports("pcie_containment", gpu, pci="0000:1b:00.0", reporter="0000:1a:01.0")
    kernel.reports("pcie_recovered", pci="0000:b7:01.0")
    assert kernel.faults == {"pcie/contained": "page"}
    kernel.reports("pcie_recovered", pci="0000:1a:01.0")
    assert kernel.faults == {}


def test_a_process_that_the_limit_of_its_own_group_killed_is_a_fault_of_a_job_with_gpus() -> None:
    """Of a group without a GPU of the node it is its own affair, whatever else runs there."""
    for group, job in (("/system.slice/cron.service", ""), ("/slurm/job_7", "7")):
        kernel = Kernel()
        kernel.job()
        kernel.reports("oom_kill", process="python3", cgroup=group, job=job)
        assert kernel.open == {}
    kernel.reports("oom_kill", process="python3", cgroup="/slurm/job_42", job="42")
    assert kernel.faults == {"host/oom": "ticket"}


def test_a_restart_of_the_agent_forgets_nothing() -> None:
    """A server that does not respond for thirty seconds before it and after it."""
    kernel = Kernel()
    kernel.reports("network_filesystem_error", filesystem="nfs", server="filer1")
    kernel.seconds += 30
    again = Host()
    again.restore(kernel.detector.state())
    kernel.detector = again
    kernel.wait(60)
    assert kernel.faults == {"storage/server": "ticket"}


def test_what_a_line_names_is_cut_and_what_it_does_not_name_is_unknown() -> None:
    """A server of a thousand characters; a process without a name."""
    kernel = Kernel()
    kernel.reports("network_filesystem_error", filesystem="nfs", server="x" * 1000)
    kernel.wait(60)
    (finding,) = kernel.open.values()
    assert len(finding.summary) < 200
    for _ in range(3):
        kernel.reports("hung_task")
    assert any("process unknown" in f.summary for f in kernel.open.values())


# Kinds of event that say of no fault by themselves, or that another detector judges.
JUDGED_ELSEWHERE = {
    "xid": "xid",
    "hca_health": "ib_adapter",
    "pcie_error": "pcie",
    "link_down": "ib_link",
    "ecc_storm": "ecc",
    "memory_poison": "ecc",
}
NO_FAULT = {
    *("module_loaded", "module_unloaded", "segfault", "clock_step", "injected"),
    *("kernel_log_lost", "kernel_log_suppressed", "kernel_log_untrusted", "driver_hang"),
    *("gpu_process_started", "gpu_process_ended", "job_started", "job_ended"),
    *("maintenance_started", "maintenance_ended", "incident_acknowledged", "config_reloaded"),
    *("incident_labelled", "shadow_mode_left", "shadow_mode_entered", "repair_step"),
    # what a job asked of NCCL is for its owner; a model of calibration is the gateway's own
    *("nccl_settings", "calibration_changed"),
    # a training's container: its exit code is the job's; the kernel reports what killed it
    "pod_ended",
    # a check before a job: its outcome is the admission's, and its measures are compared there
    *("preflight", "preflight_measured"),
    *("device_appeared", "device_gone", "arrivals_begin", "arrivals_end"),
    # what they announce is in registers that are read each second and judged by ecc and xid
    *("memory_retired", "recovery_action_changed"),
    *("nccl_report", "nccl_communicator", "nccl_line", "nccl_process_found", "nccl_process_lost"),
    *(kind for rule in RULES for kind in rule.clears),
    "link_up",
}


def test_every_kind_of_event_is_judged_or_is_no_fault() -> None:
    """A kind that is added to the catalogue needs a rule, or a place in these lists."""
    judged = {rule.kind for rule in RULES} | JUDGED_ELSEWHERE.keys()
    assert {kind.name for kind in EVENTS} == judged | NO_FAULT


def test_an_event_of_a_kind_that_nobody_knows_is_a_ticket_about_its_node() -> None:
    """A newer agent reported it, about whatever device; it is named, and over after a day."""
    kernel = Kernel()
    kernel.reports("quantum_flux", Device("n1", "gpu", "GPU-0"), text="a line")
    assert kernel.faults == {"host/unknown_event": "ticket"}
    (found,) = kernel.open.values()
    assert found.device == NODE
    assert "quantum_flux" in found.summary
    kernel.wait(25 * 3600)
    assert kernel.faults == {}
