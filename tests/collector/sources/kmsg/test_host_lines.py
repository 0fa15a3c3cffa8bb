"""Lines of the host: network, PCIe, memory, tasks, file systems."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.kmsg.classes import CLASSES
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.parse import parse_text
from collector.sources.kmsg.records import Record
from pipeline.catalog.events import strange_attributes
from pipeline.observation import Value
from tests.collector.sources.kmsg.corpus import CORPUS

LINES: list[tuple[str, str, str, dict[str, Value]]] = [
    (
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
        "sxid",
        "0000:06:00.0",
        {"code": 20034, "severity": "fatal", "switch": 1, "link": 48},
    ),
    (
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress "
            "non-posted PRIV error (First)"
        ),
        "sxid",
        "0000:05:00.0",
        {"code": 12028, "severity": "nonfatal", "switch": 3, "link": 32},
    ),
    (
        "mlx5_core 0000:5E:00.1 ibp94s0f1: Link down",
        "link_down",
        "0000:5e:00.1",
        {"driver": "mlx5_core", "interface": "ibp94s0f1"},
    ),
    (
        "mlx5_core 0000:5e:00.0 eth2: Link up",
        "link_up",
        "0000:5e:00.0",
        {"driver": "mlx5_core", "interface": "eth2"},
    ),
    (
        "pcieport 0000:16:01.0: pciehp: Slot(3): Link Down",
        "link_down",
        "0000:16:01.0",
        {"driver": "pciehp", "interface": "3"},
    ),
    (
        "pcieport 0000:16:01.0: pciehp: Slot(3): Card not present",
        "link_down",
        "0000:16:01.0",
        {"driver": "pciehp", "interface": "3"},
    ),
    (
        (
            "mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised "
            "- reached miss count"
        ),
        "hca_health",
        "0000:5e:00.0",
        {"reason": "health"},
    ),
    (
        (
            "mlx5_core 0000:5e:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on "
            "the PCIe slot (27W)."
        ),
        "hca_health",
        "0000:5e:00.0",
        {"reason": "power"},
    ),
    (
        (
            "mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Bus "
            "stuck(I2C or data shorted)"
        ),
        "hca_health",
        "0000:5e:00.0",
        {"reason": "cable"},
    ),
    (
        (
            "nvidia 0000:b8:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction "
            "Layer, (Completer ID)"
        ),
        "pcie_error",
        "0000:b8:00.0",
        {"severity": "fatal", "layer": "transaction", "role": "completer"},
    ),
    (
        (
            "nvidia 0000:b8:00.0: AER: PCIe Bus Error: severity=Correctable, type=Data Link "
            "Layer, (Transmitter ID)"
        ),
        "pcie_error",
        "0000:b8:00.0",
        {"severity": "corrected", "layer": "data link", "role": "transmitter"},
    ),
    (
        (
            "Out of memory: Killed process 4242 (python3) total-vm:123kB, anon-rss:1kB, "
            "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0"
        ),
        "oom_kill",
        "",
        {"pid": 4242, "process": "python3"},
    ),
    (
        "Memory cgroup out of memory: Killed process 77 (a (b) c), UID 0, total-vm:123kB",
        "oom_kill",
        "",
        {"pid": 77, "process": "a (b) c"},
    ),
    (
        "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 8: 8c00004000010091",
        "machine_check",
        "",
        {"cpu": 12, "bank": 8, "status": "8c00004000010091", "severity": "corrected"},
    ),
    (
        "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
        "machine_check",
        "",
        {"cpu": 3, "bank": 7, "status": "be00000000800400", "severity": "fatal"},
    ),
    ("mce: [Hardware Error]: Machine check events logged", "machine_check", "", {}),
    (
        (
            "EDAC MC0: 3 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 "
            "page:0x1 offset:0x0)"
        ),
        "edac",
        "",
        {"severity": "corrected", "errors": 3, "dimm": "CPU_SrcID#0_MC#0_Chan#1_DIMM#0"},
    ),
    (
        "EDAC skx MC1: 1 UE memory scrubbing error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0)",
        "edac",
        "",
        {"severity": "uncorrected", "errors": 1, "dimm": "CPU_SrcID#1_MC#0_Chan#0_DIMM#0"},
    ),
    (
        "INFO: task kworker/u8:3:1234 blocked for more than 120 seconds.",
        "hung_task",
        "",
        {"pid": 1234, "process": "kworker/u8:3", "seconds": 120},
    ),
    (
        "watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [python3:99]",
        "soft_lockup",
        "",
        {"cpu": 3, "seconds": 23, "process": "python3", "pid": 99},
    ),
    (
        (
            "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2: comm ls: "
            "reading directory lblock 0"
        ),
        "filesystem_error",
        "",
        {"filesystem": "ext4", "block_device": "nvme0n1p2"},
    ),
    (
        "EXT4-fs (sda1): Remounting filesystem read-only",
        "filesystem_read_only",
        "",
        {"filesystem": "ext4", "block_device": "sda1"},
    ),
    (
        "XFS (dm-0): Corruption detected. Unmount and run xfs_repair",
        "filesystem_error",
        "",
        {"filesystem": "xfs", "block_device": "dm-0"},
    ),
    (
        "BTRFS error (device sda1): bad tree block start",
        "filesystem_error",
        "",
        {"filesystem": "btrfs", "block_device": "sda1"},
    ),
    (
        "I/O error, dev nvme1n1, sector 123 op 0x0:(READ) flags 0x0",
        "storage_error",
        "",
        {"component": "block", "reason": "I/O error", "block_device": "nvme1n1"},
    ),
    (
        "nfs: server 10.0.0.9 not responding, still trying",
        "network_filesystem_error",
        "",
        {"filesystem": "nfs", "server": "10.0.0.9", "reason": "not responding"},
    ),
    (
        (
            "LustreError: 167-0: work-MDT0000-mdc-ffff8881: This client was evicted by "
            "work-MDT0000; in progress operations using this service will fail."
        ),
        "network_filesystem_error",
        "",
        {"filesystem": "lustre", "server": "work-MDT0000", "reason": "error"},
    ),
    (
        (
            "Lustre: work-OST0001-osc-ffff8881: Connection to work-OST0001 (at 10.0.0.1@o2ib) was "
            "lost; in progress operations will wait"
        ),
        "network_filesystem_error",
        "",
        {"filesystem": "lustre", "server": "work-OST0001", "reason": "connection lost"},
    ),
    (
        (
            "python[21644]: segfault at 0 ip 00007f8cde62b2e0 sp 00007ffec74e0a30 error 6 in "
            "libnvidia-ml.so.1[12e0,7f8cde62b000+1000] likely on CPU 0"
        ),
        "segfault",
        "",
        {"process": "python", "pid": 21644, "library": "libnvidia-ml.so.1"},
    ),
    (
        (
            "traps: pt main thread[7] general protection fault ip:7f sp:7f error:0 in "
            "libcuda.so.580.95.05[7f8c+1000]"
        ),
        "segfault",
        "",
        {"process": "pt main thread", "pid": 7, "library": "libcuda.so.580.95.05"},
    ),
    (
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  "
            "(dvs-builder@x)  Tue"
        ),
        "module_loaded",
        "",
        {"module": "nvidia", "version": "580.95.05"},
    ),
    (
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 22:00:00 UTC 2024",
        "module_loaded",
        "",
        {"module": "nvidia", "version": "535.161.08"},
    ),
    (
        "pcieport 0000:16:01.0: pciehp: Slot(3-1): Link Up",
        "link_up",
        "0000:16:01.0",
        {"driver": "pciehp", "interface": "3-1"},
    ),
    (
        "mlx5_core 0000:5e:00.0: mlx5_health_check_fatal_sensors:120: Fatal error 1 detected",
        "hca_health",
        "0000:5e:00.0",
        {"reason": "fatal"},
    ),
    (
        (
            "mlx5_core 0000:5e:00.0 ibp94s0: temp_warn:236: High temperature on "
            "sensors with bit set 0 1"
        ),
        "hca_health",
        "0000:5e:00.0",
        {"reason": "temperature", "interface": "ibp94s0"},
    ),
    (
        "mlx5_core 0000:9c:00.0: firmware version: 28.39.1002",
        "module_loaded",
        "0000:9c:00.0",
        {"module": "mlx5_core", "version": "28.39.1002"},
    ),
    (
        "nvidia-uvm: Loaded the UVM driver, major device number 511.",
        "module_loaded",
        "",
        {"module": "nvidia_uvm"},
    ),
    (
        "nvidia-nvlink: Unregistered Nvlink Core, major device number 236",
        "module_unloaded",
        "",
        {"module": "nvidia"},
    ),
    ("nvidia-uvm: Unloaded the UVM driver.", "module_unloaded", "", {"module": "nvidia_uvm"}),
    (
        "printk: python3: 15 output lines suppressed due to ratelimiting",
        "kernel_log_suppressed",
        "",
        {"by": "python3", "records": 15},
    ),
    (
        "nvidia_read: 812 callbacks suppressed",
        "kernel_log_suppressed",
        "",
        {"by": "nvidia_read", "records": 812},
    ),
]


@pytest.mark.parametrize(("text", "kind", "pci", "facts"), LINES)
def test_line(text: str, kind: str, pci: str, facts: dict[str, Value]) -> None:
    """Each line that matters becomes the event it means, with the numbers it holds."""
    happening = parse_text(text)
    assert happening is not None
    assert (happening.kind, happening.pci, dict(happening.facts)) == (kind, pci, facts)


def test_every_row_of_the_table_has_an_example() -> None:
    """No class of lines is without a line here or in the corpus, and each attribute is one of the
    catalogue.
    """
    texts = [text for text, *_ in LINES] + [text for one in CORPUS for text in one.texts]
    matched = {id(row) for row in CLASSES for text in texts if row.expression.match(text)}
    assert [row.expression.pattern for row in CLASSES if id(row) not in matched] == []
    for row in CLASSES:
        names = {*row.expression.groupindex, *dict(row.constants)}
        assert strange_attributes(row.kind, names) == []
        assert bool(row.first) != bool(row.needle), row.expression.pattern
        assert row.source


@pytest.mark.parametrize(
    "text",
    [
        (
            "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Severity 1 Engine instance 60 "
            "Sub-engine instance 00"
        ),
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {0x10000000, 0x10000000}",
        "python[1]: segfault at 0 ip 0 sp 0 error 6 in libpython3.11.so[1+2]",
        "audit: type=1400 EXT4-fs error (device x)",
        "Code: ff ff 41 83 fe fd",
        "",
    ],
)
def test_what_says_nothing_of_interest(text: str) -> None:
    """Details that follow an error, other libraries and quotations are no events."""
    assert parse_text(text) is None


def feed(joiner: Joiner, *texts: str) -> list[tuple[str, dict[str, Value]]]:
    """Kinds and facts of what comes out for these lines."""
    found = (joiner.feed(Record(text, seq, seq * 10)) for seq, text in enumerate(texts))
    return [(happening.kind, dict(happening.facts)) for happening in found if happening]


POD = "/kubepods.slice/kubepods-pod1b9f7c1e_0000_4000_8000_00000000000a.slice/cri-x.scope"


@pytest.mark.parametrize(
    ("group", "resource", "job"),
    [
        (POD, "processes of a job", None),
        ("/system.slice/slurmstepd.scope/job_71/step_0/user", "processes of a job", "71"),
        ("/slurm/uid_1000/job_77", "processes of a job", "77"),
        ("/user.slice/user-1000.slice/session-3.scope", "processes of a job", None),
        ("/system.slice/sshd.service", "processes", None),
        (f"/system.slice/sshd.service{POD}", "processes", None),
        ("/", "processes", None),
    ],
)
def test_the_limit_of_a_job_or_a_pod_is_no_want_of_the_kernel(
    group: str, resource: str, job: str | None
) -> None:
    """What the node's own services have no room for is; a path counts at its root alone."""
    parsed = parse_text(f"cgroup: fork rejected by pids controller in {group}")
    assert parsed is not None
    assert (parsed.facts["resource"], parsed.facts.get("job")) == (resource, job)
    assert parsed.facts["cgroup"] == group


AER = "pcieport 0000:b7:01.0: AER: Corrected error message received from 0000:b8:00.0"
BUS = "nvidia 0000:b8:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"


def test_aer_two_lines_are_one_event() -> None:
    """The port's line and the device's line speak of one error, other lines between them or not."""
    joiner = Joiner()
    assert [kind for kind, _ in feed(joiner, AER, "usb 1-1: something", BUS)] == ["pcie_error"]
    assert joiner.overdue() == joiner.overdue() == []


def test_aer_port_line_alone_is_told_late() -> None:
    """A device that is gone cannot be asked: the port's line alone is an
    event after a second read.
    """
    joiner = Joiner()
    assert (
        feed(
            joiner,
            (
                "pcieport 0000:b7:01.0: AER: Multiple Uncorrectable (Fatal) error "
                "received from 0000:b8:00.0"
            ),
        )
        == []
    )
    assert joiner.overdue() == []
    ((record, happening),) = joiner.overdue()
    assert (happening.kind, happening.pci, happening.facts, record.seq) == (
        "pcie_error",
        "0000:b8:00.0",
        {"severity": "fatal", "reporter": "0000:b7:01.0"},
        0,
    )
    assert joiner.overdue() == []


def test_held_lines_survive_as_plain_data() -> None:
    """What is held between lines goes over a restart; what is damaged there is left out."""
    joiner = Joiner()
    feed(joiner, AER)
    again = Joiner({**joiner.held, "aer broken": [1], "colour": ["red"]})
    assert feed(again, BUS)[0][0] == "pcie_error"
    assert again.held == {}


def test_oom_kill_names_the_cgroup() -> None:
    """The line before the kill says whose memory ran out."""
    line = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,oom_memcg=/"
        "slurm/uid_9/job_7,task_memcg=/slurm/uid_9/job_7/step_0,task=python3,pid=4242,uid=1000"
    )
    kill = "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB"
    assert feed(Joiner(), line, kill) == [
        (
            "oom_kill",
            {
                "pid": 4242,
                "process": "python3",
                "cgroup": "/slurm/uid_9/job_7",
                "task_cgroup": "/slurm/uid_9/job_7/step_0",
                "job": "7",
            },
        )
    ]


def test_fallen_off_the_bus_in_several_lines() -> None:
    """At probe time the driver prints address, PCI id and words in three lines."""
    lines = (
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert feed(Joiner(), *lines) == [("xid", {"code": 79, "inferred": True})]
    assert feed(Joiner(), lines[2]) == []


def test_held_lines_are_bounded() -> None:
    """First lines without second ones cost bounded memory."""
    joiner = Joiner()
    feed(
        joiner,
        *(
            f"pcieport 0000:b7:01.0: AER: Corrected error message received from 0000:{n:02x}:00.0"
            for n in range(200)
        ),
    )
    assert len(joiner.held) == Joiner.MAX_LINES


@pytest.mark.slow
@given(
    st.one_of(
        st.text(max_size=400),
        st.builds(
            "{}{}".format, st.sampled_from([text for text, *_ in LINES]), st.text(max_size=99)
        ),
    )
)
def test_no_line_breaks_the_parser(text: str) -> None:
    """Whatever stands in the log, a line is understood or left."""
    happening = Joiner().feed(Record(text))
    assert happening is None or not strange_attributes(happening.kind, happening.facts)


HOSTILE = [
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name=" + "a, " * 9000,
    "NVRM: Xid (PCI:0000:1b:00): 149, " + "A_" * 9000 + " Fatal XC0 i0 Link 1 (" + "0x1 " * 9000,
    "NVRM: Xid (PCI:0000:1b:00): 74, " + "link 1(0x0, " * 6000,
    "NVRM: Xid (PCI:0000:1b:00): 154, " + "changed from 0x0 (" * 5000,
    "NVRM: Xid (PCI:0000:1b:00): 13, " + "(GPC 1, TPC 1, " * 6000,
    "NVRM: The NVIDIA GPU 0000:91:00.0 " + "NVRM: has " * 9000,
    "mlx5_core 0000:5e:00.0: " + "Fatal error " * 8000,
    "Out of memory: Killed process 1 (" + ") total" * 12000,
    "INFO: task " + "a:1 blocked " * 8000,
    "EDAC MC0: 1 CE " + " on" * 30000,
    "x[1]: segfault at " + " in libcu" * 9000,
    "oom-kill:constraint=A," + "oom_memcg=,pid=1" * 6000,
    "XFS (a): " + "I/O " * 20000,
    "x 0000:b8:00.0: PCIe Bus Error: severity=" + "a" * 90000,
    "LustreError: " + "1-0: " * 20000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_time_is_linear_in_the_line(text: str) -> None:
    """A line of 90 kB made to mislead costs milliseconds; one that backtracks
    quadratically costs seconds.
    """
    began = time.process_time()
    for _ in range(3):
        Joiner().feed(Record(text))
    assert time.process_time() - began < 0.5


@pytest.mark.slow
def test_time_is_linear_for_every_class() -> None:
    """The line of each class, its second half repeated up to 90 kB."""
    for case in CORPUS:
        for text in case.texts:
            half = len(text) // 2
            drawn_out = text[:half] + text[half:] * (90_000 // (len(text) - half))
            began = time.process_time()
            Joiner().feed(Record(drawn_out))
            assert time.process_time() - began < 0.25, text
