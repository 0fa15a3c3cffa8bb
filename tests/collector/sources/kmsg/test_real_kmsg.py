"""The kernel's own /dev/kmsg.

The log is the whole machine's: lines carry a token, and others are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.kmsg import KernelLogSource, device_reader
from collector.sources.kmsg.device_reader import DeviceReader, open_device
from collector.sources.kmsg.reader import Loss
from pipeline.catalog import agent
from pipeline.clock import SystemClock
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import BOOT, Node, attributes_of, events
from tests.collector.sources.kmsg.real import KMSG, follow, kernel_log, ours, write, xid
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]


@pytest.fixture
def token() -> Iterator[str]:
    """A process name that no other test uses."""
    with kernel_log() as name:
        yield name


def source_of(node: Node, *, user_lines: bool = True) -> KernelLogSource:
    """A source of the real device; ``user_lines`` makes it believe what tests write into it."""
    made = KernelLogSource(
        "n1",
        SystemClock(),
        BOOT,
        node.inventory,
        node.state,
        node.metrics,
        path=KMSG,
        real=False,
        user_lines=user_lines,
    )
    return node.track(made)


def to_the_end(source: KernelLogSource, node: Node) -> list[Event]:
    """Events of several reads, until one finds nothing new."""
    found: list[Event] = []

    def at_the_end() -> bool:
        before = node.metrics.value(agent.KERNEL_LOG_RECORDS)
        found.extend(events(source))
        return node.metrics.value(agent.KERNEL_LOG_RECORDS) == before

    until(at_the_end, "the end of the kernel log")
    return found


def test_lines_of_the_real_device(node: Node, token: str) -> None:
    """What is written is read in order, once, with escapes undone, and
    dated between the two reads.
    """
    source, began = source_of(node), SystemClock().monotonic_ns()
    to_the_end(source, node)
    write(
        xid(79, token),
        xid(31, token, f"Ch 00000010 {token}", name=f"café {token[:9]}"),
        f"systemd[1]: {xid(48, token)}",
    )
    found = ours(to_the_end(source, node), token)
    assert attributes_of(found, "xid", "code", "process") == [
        (79, token),
        (31, f"café {token[:9]}"),
    ]
    assert all(began <= event.mono_ns <= SystemClock().monotonic_ns() for event in found)
    assert ours(to_the_end(source, node), token) == []


def test_real_lines_of_user_space_are_not_believed(node: Node, token: str) -> None:
    """Without the switch, what root writes into the device is no XID: the kernel
    marks it as user space's.
    """
    write(xid(79, token))
    assert ours(to_the_end(source_of(node, user_lines=False), node), token) == []


def test_restart_on_the_real_device(node: Node, token: str) -> None:
    """A new reader goes on after the old one, and tells what was written in between."""
    source = source_of(node)
    write(xid(48, token))
    assert attributes_of(follow(source, token, 1), "xid", "code") == [(48,)]
    source.close()
    write(xid(63, token))
    again = ours(to_the_end(source_of(node), node), token)
    assert attributes_of(again, "xid", "code", "before_start") == [(63, None)]


def test_real_rate_limit(node: Node, token: str) -> None:
    """The kernel lets ten lines of one writer through and says how many it held back."""
    if Path("/proc/sys/kernel/printk_devkmsg").read_text().strip() != "ratelimit":
        pytest.skip("printk_devkmsg is not ratelimit on this machine")
    source = source_of(node)
    to_the_end(source, node)
    write(*(xid(31, token, pid=pid) for pid in range(25)), together=True)
    found = to_the_end(source, node)
    assert sum(int(event.attributes.get("count", 1)) for event in ours(found, token)) == 10
    assert (15,) in attributes_of(found, "kernel_log_suppressed", "records")


def test_real_record_longer_than_the_buffer(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers EINVAL and passes over the record: it is counted, and the next
    one fits the grown buffer.
    """
    monkeypatch.setattr(device_reader, "BUFFER", 128)
    fd = open_device(KMSG)
    os.lseek(fd, 0, os.SEEK_END)
    reader = DeviceReader(fd, BOOT)
    write(f"{token} before", f"{token} {'x' * 200}", f"{token} {'y' * 200}")
    texts = [record.text for record in reader.read(10_000) if token in record.text]
    reader.close()
    assert texts == [f"{token} before", f"{token} {'y' * 200}"]
    assert reader.losses() == [Loss("oversize", 1)]
