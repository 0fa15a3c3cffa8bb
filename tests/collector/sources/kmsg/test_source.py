"""The kernel log as a source of events of devices."""

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path

import pytest

from collector.node.trainings import Training, Trainings
from collector.sources.kmsg import source as source_module
from collector.sources.kmsg.reader import UnavailableError
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.interfaces import Closable, Source
from tests.collector.sources.kmsg.logs import (
    BOOT,
    GPUS,
    XID_31,
    XID_79,
    Node,
    attributes_of,
    events,
    port,
    read_all,
)
from tests.wait import until

POD = "1b9f7c1e-0000-4000-8000-00000000000a"
UUID = "GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b"


def test_it_is_a_source(node: Node) -> None:
    """The engine can read and close it."""
    source = node.source()
    assert isinstance(source, Source)
    assert isinstance(source, Closable)
    source.close()
    source.close()


def test_xid_belongs_to_the_gpu_at_the_address(node: Node) -> None:
    """The inventory knows the GPU at an address, also when it no longer answers."""
    node.ring.print(XID_79)
    (event,) = events(node.source())
    assert event.device == GPUS["0000:1b:00"]
    assert (event.attributes["code"], event.attributes["pci"], event.attributes["text"]) == (
        79,
        "0000:1b:00",
        XID_79,
    )
    assert (event.attributes["origin"], event.attributes["stream"], event.attributes["seq"]) == (
        "kmsg",
        BOOT,
        0,
    )


def test_xid_of_an_unknown_gpu_is_the_nodes(node: Node) -> None:
    """No device is invented for an address: the event stays with the node and keeps the address."""
    node.ring.print("NVRM: Xid (PCI:0000:5d:00): 119, pid=1, name=a, Timeout")
    (event,) = events(node.source())
    assert (event.device.kind, event.device.id, event.attributes["pci"]) == (
        "node",
        "n1",
        "0000:5d:00",
    )


def test_driver_names_the_gpu_before_its_first_xid(node: Node) -> None:
    """The UUID line is identity enough for a GPU that NVML never showed."""
    node.ring.print(f"NVRM: GPU at PCI:0000:5d:00: {UUID}")
    node.ring.print("NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus.")
    (event,) = events(node.source())
    assert (event.device.kind, event.device.id) == ("gpu", UUID)


def test_a_driver_that_takes_on_a_virtual_function_says_nothing_of_its_adapter(node: Node) -> None:
    """A pod with a virtual function starts: that is no repair of the port beside it."""
    node.inventory.learn("ib_port", [port("mlx5_0", "0000:5e:00.0")])
    node.ring.print("mlx5_core 0000:5e:00.2: firmware version: 28.39.1002")
    node.ring.print("mlx5_core 0000:5e:00.0: firmware version: 28.39.1002")
    assert [e.device.kind for e in events(node.source())] == ["node", "ib_port"]


def test_link_event_belongs_to_the_port_of_the_function(node: Node) -> None:
    """A card with two ports has two functions: the event is of the right one, by
    net device or by function.
    """
    node.inventory.learn(
        "ib_port",
        [port("mlx5_0", "0000:5e:00.0", "ibp94s0f0"), port("mlx5_1", "0000:5e:00.1", "ibp94s0f1")],
    )
    node.ring.print("mlx5_core 0000:5e:00.1 ibp94s0f1: Link down")
    node.ring.print(
        "mlx5_core 0000:5e:00.1: poll_health:825:(pid 0): device's health compromised "
        "- reached miss count"
    )
    node.ring.print("mlx5_core 0000:5e:00.0: Link up")
    assert [e.device.id for e in events(node.source())] == [
        "guid-mlx5_1",
        "guid-mlx5_1",
        "guid-mlx5_0",
    ]


@pytest.mark.parametrize("name", ["", " ibp94s0", " eth0"])
def test_the_link_of_a_virtual_function_is_not_that_of_the_port(node: Node, name: str) -> None:
    """A function in a pod, whose net device may have any name, also the host's."""
    node.inventory.learn("ib_port", [port("mlx5_0", "0000:5e:00.0", "ibp94s0")])
    node.ring.print(f"mlx5_core 0000:5e:00.2{name}: Link down")
    node.ring.print("mlx5_core 0000:5e:00.0 renamed0: Link down")
    assert [e.device.kind for e in events(node.source())] == ["node", "ib_port"]


def test_pcie_error_belongs_to_gpu_or_port(node: Node) -> None:
    """AER names an address: it may be a GPU, a port, or a bridge of the node."""
    node.inventory.learn("ib_port", [port("mlx5_0", "0000:5e:00.0")])
    for pci in ("0000:1b:00.0", "0000:5e:00.0", "0000:b7:01.0"):
        node.ring.print(
            f"x {pci}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
        )
    assert [e.device.kind for e in events(node.source())] == ["gpu", "ib_port", "node"]


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x62:0xffff:2477)", "gpu"),
        ("nvidia 0000:1b:00.0: Unable to change power state from D3cold to D0, x", "gpu"),
        ("mlx5_core 0000:5e:00.0: Unable to change power state from D3cold to D0, x", "ib_port"),
        (
            "mlx5_core 0000:5e:00.0: wait_func:1:(pid 1): A(0x1) timeout. Will cause a leak",
            "ib_port",
        ),
        ("mlx5_0: Port: 1 Link DOWN", "ib_port"),
        ("NETDEV WATCHDOG: ibp94s0 (mlx5_core): transmit queue 3 timed out", "ib_port"),
        ("bond0: (slave ibp94s0): link status definitely down, disabling slave", "ib_port"),
        ("bnxt_en 0000:77:00.0 eth9: NIC Link is Down", "node"),
        ("pcieport 0000:1a:01.0: DPC: containment event, status:0x1f01 source:0x1b00", "gpu"),
        ("pcieport 0000:1a:01.0: DPC: containment event, status:0x1f01 source:0x0000", "node"),
        ("nfs: server 10.0.0.9 not responding, still trying", "node"),
    ],
)
def test_an_event_belongs_to_the_part_that_its_line_names(
    node: Node, line: str, device: str
) -> None:
    """A GPU or an adapter by its address, an adapter by its RDMA or net device, else the node."""
    node.inventory.learn("ib_port", [port("mlx5_0", "0000:5e:00.0", "ibp94s0")])
    node.ring.print(line)
    (event,) = events(node.source())
    assert event.device.kind == device


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_bonded_interface_is_a_claim(node: Node, way: str) -> None:
    """A job may have a bond of its own, with a device that is called like the host's."""
    node.inventory.learn("ib_port", [port("mlx5_0", "0000:5e:00.0", "ibp94s0")])
    node.ring.print(f"bond0: (slave ibp94s0): link status definitely {way}")
    (event,) = events(node.source())
    assert (event.kind, event.attributes["claims"]) == ("kernel_log_untrusted", f"link_{way}")


def test_storage_servers_do_not_hide_each_other(node: Node) -> None:
    """Each server and disk has events of its own, however many there are in one read."""
    for number in range(40):
        node.ring.print(f"nfs: server storage-{number} not responding, still trying")
    found = attributes_of(events(node.source()), "network_filesystem_error", "server", "count")
    assert found == [(f"storage-{number}", None) for number in range(40)]


def test_event_has_the_kernels_time(node: Node) -> None:
    """An event happened when the kernel printed it, not when it was read."""
    source = node.source()
    events(source)
    node.clock.advance(0.2)
    node.ring.print(XID_79)
    printed = (node.clock.time_ns(), node.clock.monotonic_ns())
    node.clock.advance(0.8)
    (event,) = events(source)
    assert (event.time_ns, event.mono_ns) == printed


def test_drift_of_the_kernels_clock_is_bounded_by_the_reads(node: Node) -> None:
    """A kernel clock that is 60 s late after months cannot date a line before the
    read that did not see it.
    """
    source = node.source()
    events(source)
    seen_ns = node.clock.monotonic_ns()
    node.clock.advance(1)
    node.ring.add(
        b"3,0,%d,-;%s\n" % ((node.clock.monotonic_ns() - 60 * SECOND_NS) // 1000, XID_79.encode())
    )
    (event,) = events(source)
    assert seen_ns <= event.mono_ns <= node.clock.monotonic_ns()


def test_wall_clock_step_moves_no_event(node: Node) -> None:
    """Wall time is boot time plus kernel time by the clock of now: after a step, new events
    carry the new wall time.
    """
    source = node.source()
    events(source)
    node.clock.step(-3600)
    node.clock.advance(1)
    node.ring.print(XID_79)
    (event,) = events(source)
    assert event.time_ns == node.clock.time_ns()


def test_gcm_old_xids_are_not_news(node: Node) -> None:
    """At the very first start, what happened before it carries its own time
    and the mark before_start.
    """
    node.ring.print(XID_79)
    node.clock.advance(86_400)
    source = node.source()
    node.ring.print(XID_31)
    old, new = events(source)
    assert node.clock.time_ns() - old.time_ns == 86_400 * SECOND_NS
    assert old.attributes["before_start"] is True
    assert "before_start" not in new.attributes


def test_xid_while_the_agent_was_down_is_news(node: Node) -> None:
    """Who has watched this boot before missed it only: it is told with its own
    time and without the mark.
    """
    source = node.source()
    events(source)
    node.clock.advance(1)
    node.ring.print(XID_31)
    events(source)
    source.close()
    node.clock.advance(30)
    node.ring.print(XID_79)
    node.clock.advance(30)
    (event,) = events(node.source())
    assert event.attributes["code"] == 79
    assert "before_start" not in event.attributes
    assert node.clock.time_ns() - event.time_ns == 30 * SECOND_NS


def test_new_boot_starts_anew(node: Node) -> None:
    """Numbers of another boot mean nothing: the log of a new boot is read from its beginning."""
    node.ring.print(XID_79)
    source = node.source()
    events(source)
    source.close()
    node.ring.records.clear()
    node.ring.next = 0
    node.ring.print(XID_31)
    found = events(node.source(boot_id="f" * 32))
    assert attributes_of(found, "xid", "code") == [(31,)]


def test_boot_id_in_both_spellings_is_one_boot(node: Node) -> None:
    """The kernel writes the boot id with dashes, the journal without."""
    dashed = f"{BOOT[:8]}-{BOOT[8:12]}-{BOOT[12:16]}-{BOOT[16:20]}-{BOOT[20:]}"
    node.ring.print(XID_79)
    source = node.source(boot_id=dashed)
    assert events(source)[0].attributes["stream"] == BOOT
    source.close()
    assert events(node.source()) == []


def flood(node: Node, lines: int) -> tuple[int, int, int]:
    """Feed equal lines as fast as they are read: lines counted in events, events, reads."""
    line = (
        b"NVRM: Xid (PCI:0000:1b:00): 95, pid=1234, name=python3, Uncontained: LTC TAG (0x2,0x0). "
        b"RST: Yes, D-RST: No"
    )
    source = node.source()
    events(source)
    (end,) = node.ring.ends
    end.setblocking(False)
    sent = counted = found = reads = 0
    while sent < lines:
        with contextlib.suppress(BlockingIOError):
            while sent < lines:
                end.send(b"3,%d,%d,-;%s\n" % (sent, sent, line))
                sent += 1
        reads += 1
        for event in events(source):
            counted += int(event.attributes.get("count", 1))
            found += 1
    return counted, found, reads


@pytest.mark.slow
def test_flood_of_800000_lines_is_counted_to_the_last(node: Node) -> None:
    """NVSentinel#1120: 800,000 lines of one XID 95 give one event per read, and
    each line is in a count.
    """
    counted, found, reads = flood(node, 800_000)
    assert counted == 800_000
    assert found == reads
    assert node.metrics.value(agent.KERNEL_LOG_RECORDS) == 800_000


@pytest.mark.slow
def test_flood_costs_bounded_memory(node: Node) -> None:
    """Memory does not grow with the number of equal lines."""
    tracemalloc.start()
    counted, *_ = flood(node, 40_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counted == 40_000
    assert peak < 1 << 20


def test_one_read_has_a_budget(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is longer than one read may take is told in several reads, whole and in order."""
    log = tmp_path / "kmsg"
    log.write_text(
        "".join(f"3,{n},{n},-;NVRM: Xid (PCI:0000:1b:00): {n}\n" for n in range(1, 1500))
    )
    monkeypatch.setattr(source_module, "MAX_RECORDS", 512)
    source = node.source(path=log)
    reads = [events(source) for _ in range(4)]
    source.close()
    assert [event.attributes["code"] for found in reads for event in found] == list(range(1, 1500))
    assert all(len(found) <= 512 for found in reads)


def test_clock_ends_a_read(node: Node, tmp_path: Path) -> None:
    """A slow machine ends a read after its share of the period, not after its share of the log."""
    log = tmp_path / "kmsg"
    log.write_text(
        "".join(f"3,{n},{n},-;NVRM: Xid (PCI:0000:1b:00): {n}\n" for n in range(1, 2000))
    )
    source = node.source(path=log)
    mono_ns = node.clock.monotonic_ns
    ticks = iter(range(10_000))
    node.clock.monotonic_ns = lambda: mono_ns() + next(ticks) * 100_000_000  # type: ignore[method-assign] # every look costs 0.1 s
    assert 0 < len(events(source)) < 1999
    source.close()


def test_too_many_different_things_are_dropped_and_counted(node: Node, tmp_path: Path) -> None:
    """More different codes than any fault gives are noise: bounded, and the
    number that says so is there.
    """
    log = tmp_path / "kmsg"
    log.write_text(
        "".join(f"3,{n},{n},-;NVRM: Xid (PCI:0000:1b:00): {n}\n" for n in range(1, 1001))
    )
    source = node.source(path=log)
    assert len(events(source)) == 512
    assert node.metrics.value(agent.KERNEL_LOG_DROPPED, "xid") == 488
    source.close()


def test_lines_of_a_growing_log_that_are_not_understood(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Counted, logged once with the first of them, and unread under one reason: the words of the
    log are in no label.
    """
    log = tmp_path / "messages"
    log.write_text("2025/01/21 04:41:44 a\n")
    source = node.source(path=log)
    reasons = {unread.reason for unread in source.read().unread}
    with log.open("a") as file:
        file.write("2025/01/21 04:41:45 b\n" * 3)
    reasons |= {unread.reason for unread in source.read().unread}
    assert reasons == {"lines are in a format that is not understood"}
    assert source.read().unread == ()
    assert node.metrics.value(agent.KERNEL_LOG_LOST, "format") == 4
    (logged,) = (record.getMessage() for record in caplog.records)
    assert logged == (
        "1 line is in a format that is not understood (0 records were read); line 1: "
        "'2025/01/21 04:41:44 a'; further ones are only counted"
    )


def test_order_of_a_flapping_link(node: Node) -> None:
    """Down, up and down again are told in their order: the last state is the last event."""
    for words in ("down", "up", "down"):
        node.ring.print(f"mlx5_core 0000:5e:00.0 ibp94s0: Link {words}")
    found = events(node.source())
    assert [(e.kind, e.attributes.get("count", 1)) for e in found] == [
        ("link_down", 2),
        ("link_up", 1),
    ]
    assert (
        max(found, key=lambda e: e.attributes.get("last_seq", e.attributes["seq"])).kind
        == "link_down"
    )


def test_lost_records_are_an_event_and_a_number(node: Node) -> None:
    """What the ring lost while no agent ran is said: evidence may be missing."""
    node.ring.print(XID_31)
    source = node.source()
    events(source)
    source.close()
    node.ring.records.clear()
    node.ring.next = 100
    node.ring.print(XID_79)
    found = events(node.source())
    assert attributes_of(found, "kernel_log_lost", "reason", "records") == [("down", 99)]
    assert node.metrics.value(agent.KERNEL_LOG_LOST, "down") == 99


def test_forged_lines_are_no_xid(node: Node) -> None:
    """User space may write what it likes: another facility, another beginning, a process name."""
    node.ring.print(XID_79, priority=11)
    node.ring.print(f"python3: {XID_79}")
    node.ring.print(f"{XID_79[:30]}[123]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[7f+1]")
    assert events(node.source()) == []


def test_no_log_is_an_error_until_there_is_one(node: Node, tmp_path: Path) -> None:
    """A log that is missing fails the read with its path, never falls back to this machine's, and
    is picked up when it is there.
    """
    log = tmp_path / "dev" / "kmsg"
    source = node.source(path=log)
    with pytest.raises(UnavailableError, match=str(log)):
        source.read()
    assert node.metrics.value(agent.KERNEL_LOG_MODE, "none") == 1
    log.parent.mkdir()
    log.write_text(f"3,0,99000000,-;{XID_79}\n")
    assert attributes_of(events(source), "xid", "code") == [(79,)]
    assert node.metrics.value(agent.KERNEL_LOG_MODE, "file") == 1
    assert node.metrics.value(agent.KERNEL_LOG_MODE, "none") is None
    source.close()


@pytest.mark.slow
def test_syslog_file_stands_in_when_there_is_no_journal(node: Node, tmp_path: Path) -> None:
    """Without device and journal, the file of a syslog daemon is read."""
    log = tmp_path / "kern.log"
    log.write_text(f"2027-01-15T07:59:00+00:00 n1 kernel: {XID_79}\n")
    source = node.source(
        path=Path("/nonexistent/kmsg"),
        real=True,
        journalctl="/nonexistent/journalctl",
        files=(log,),
        pstore=(),
    )
    found = [event for _ in range(3) for event in events(source)]
    assert attributes_of(found, "kernel_log_untrusted", "claims", "code", "origin") == [
        ("xid", 79, "syslog")
    ]
    source.close()


@pytest.mark.slow
def test_journal_that_gives_nothing_makes_way(node: Node, tmp_path: Path) -> None:
    """A journalctl that ends at once (no permission) is tried, and then the syslog file is."""
    script = tmp_path / "journalctl"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    log = tmp_path / "kern.log"
    log.write_text(f"2027-01-15T07:59:00+00:00 n1 kernel: {XID_79}\n")
    source = node.source(
        path=Path("/nonexistent/kmsg"), real=True, journalctl=str(script), files=(log,), pstore=()
    )

    def told_by_now() -> list[tuple[object, ...]]:
        try:
            return attributes_of(events(source), "kernel_log_untrusted", "code")
        except UnavailableError:
            return []

    assert until(told_by_now, "the syslog file") == [(79,)]
    source.close()


def test_broken_reader_is_replaced_and_goes_on(node: Node, tmp_path: Path) -> None:
    """A log that vanishes and comes back is read on, not again."""
    log = tmp_path / "kmsg"
    log.write_text(f"3,0,1,-;{XID_79}\n")
    source = node.source(path=log)
    assert len(events(source)) == 1
    source._give_up_reader()
    with log.open("a") as file:
        file.write(f"3,1,2,-;{XID_31}\n")
    assert attributes_of(events(source), "xid", "code") == [(31,)]
    source.close()


@pytest.mark.parametrize(
    "document",
    [
        {"places": 7},
        {"places": {"kmsg": []}},
        {"held": {"aer": [1]}},
        {"uuids": [1]},
        {"previous": "x", "time_ns": "y"},
    ],
)
def test_damaged_place_is_no_place(node: Node, document: dict[str, object]) -> None:
    """A state file that somebody has edited costs the place, not the agent."""
    node.state.save("kernel_log", document)
    node.ring.print(XID_79)
    assert attributes_of(read_all(node.source(), reads=2), "xid", "code") == [(79,)]


@pytest.mark.parametrize(
    ("group", "job"),
    [
        (f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-x.scope", "ml/llm.1a2b"),
        (f"/kubepods/burstable/pod{POD}/c/slurm/job_7/step_0", "ml/llm.1a2b"),
        ("/kubepods/pod1b9f7c1e-0000-4000-8000-00000000000b/c", None),
        (f"/user.slice/kubepods/pod{POD}/c", None),
        ("/system.slice/slurmstepd.scope/job_71/step_0/user/task_0", "71"),
    ],
)
def test_a_kill_for_memory_names_the_job_of_its_control_group(
    node: Node, group: str, job: str | None
) -> None:
    """Slurm's job or the training of the pod, where the kernel's path has it at its root: groups
    further down are the tenant's.
    """
    trainings = Trainings()
    trainings.learn({}, {POD: Training("ml/llm.1a2b", "ml", "llm", "PyTorchJob", "1a2b", 2)})
    node.ring.print(
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
        f"oom_memcg={group},task_memcg={group},task=python3,pid=4242,uid=1000"
    )
    node.ring.print("Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB")
    assert attributes_of(events(node.source(trainings=trainings)), "oom_kill", "job") == [(job,)]
