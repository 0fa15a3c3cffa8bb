"""The kernel's own /dev/kmsg. The log is the whole machine's: lines carry a token, and others are ignored."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.kmsg import KernelLogSource, device_reader
from collector.sources.kmsg.device_reader import DeviceReader, open_device
from collector.sources.kmsg.reader import Loss
from pipeline.clock import SystemClock
from pipeline.observation import Event
from tests.collector.sources.kmsg.logs import BOOT, Node, events, told

KMSG = Path("/dev/kmsg")
pytestmark = [pytest.mark.integration, pytest.mark.root]


@pytest.fixture
def token() -> str:
    """A process name that no other test uses; 15 characters, as the kernel allows."""
    try:
        os.close(open_device(KMSG))
    except RuntimeError as error:
        message = f"the kernel log is not readable here: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return "t" + uuid.uuid4().hex[:14]


@pytest.fixture
def source(node: Node) -> Iterator[KernelLogSource]:
    """A source of the real device that believes what tests write into it."""
    made = KernelLogSource(
        "n1", SystemClock(), BOOT, node.inventory, node.state, node.own, path=KMSG, real=False, user_lines=True
    )
    yield made
    made.close()


def write(*texts: str, together: bool = False) -> None:
    """Write records; each through a file of its own, because the kernel limits the rate per open file, unless ``together``."""
    fd = os.open(KMSG, os.O_WRONLY)
    for text in texts:
        os.write(fd, f"<3>{text}\n".encode())
        if not together:
            os.close(fd)
            fd = os.open(KMSG, os.O_WRONLY)
    os.close(fd)


def ours(found: list[Event], token: str) -> list[Event]:
    """Events whose line carries the token."""
    return [event for event in found if token in str(event.attributes.get("text", ""))]


def test_lines_of_the_real_device(source: KernelLogSource, token: str) -> None:
    """What is written is read in order, once, with escapes undone, and dated between the two reads."""
    began = SystemClock().monotonic_ns()
    events(source)
    write(f"NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name={token}, GPU has fallen off the bus.")
    write(f"NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name=café {token[:9]}, Ch 00000010 {token}")
    write(f"systemd[1]: NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name={token}, x")
    found = ours(events(source), token)
    assert told(found, "xid", "code", "process") == [(79, token), (31, f"café {token[:9]}")]
    assert all(began <= event.mono_ns <= SystemClock().monotonic_ns() for event in found)
    assert ours(events(source), token) == []


def test_real_lines_of_user_space_are_not_believed(node: Node, token: str) -> None:
    """Without the switch, what root writes into the device is no XID: the kernel marks it as user space's."""
    made = KernelLogSource("n1", SystemClock(), BOOT, node.inventory, node.state, node.own, path=KMSG, real=False)
    write(f"NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name={token}, GPU has fallen off the bus.")
    assert ours(events(made), token) == []
    made.close()


def test_restart_on_the_real_device(source: KernelLogSource, node: Node, token: str) -> None:
    """A new reader goes on after the old one, and tells what was written in between."""
    write(f"NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name={token}, x")
    assert len(ours(events(source), token)) == 1
    source.close()
    write(f"NVRM: Xid (PCI:0000:1b:00): 63, pid=1, name={token}, x")
    again = KernelLogSource(
        "n1", SystemClock(), BOOT, node.inventory, node.state, node.own, path=KMSG, real=False, user_lines=True
    )
    assert told(ours(events(again), token), "xid", "code", "before_start") == [(63, None)]
    again.close()


def test_real_rate_limit(source: KernelLogSource, token: str) -> None:
    """The kernel lets ten lines of one writer through and says how many it held back."""
    if Path("/proc/sys/kernel/printk_devkmsg").read_text().strip() != "ratelimit":
        pytest.skip("printk_devkmsg is not ratelimit on this machine")
    events(source)
    write(*(f"NVRM: Xid (PCI:0000:1b:00): 31, pid={pid}, name={token}, Ch 00000010" for pid in range(25)), together=True)
    found = events(source)
    assert sum(int(event.attributes.get("count", 1)) for event in ours(found, token)) == 10
    assert (15,) in told(found, "kernel_log_suppressed", "records")


def test_real_record_longer_than_the_buffer(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers EINVAL and passes over the record: it is counted, and the next one fits the grown buffer."""
    monkeypatch.setattr(device_reader, "BUFFER", 128)
    fd = open_device(KMSG)
    os.lseek(fd, 0, os.SEEK_END)
    reader = DeviceReader(fd, BOOT)
    write(f"{token} before", f"{token} {'x' * 200}", f"{token} {'y' * 200}")
    texts = [record.text for record in reader.read(100) if token in record.text]
    reader.close()
    assert texts == [f"{token} before", f"{token} {'y' * 200}"]
    assert reader.losses() == [Loss("oversize", 1)]
