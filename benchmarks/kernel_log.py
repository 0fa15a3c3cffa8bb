"""Records per second from the kernel log, one record a read, beside a reader that searches
every line for every pattern.

Two logs: an ordinary one, where one line in ten matters, and a flood of one XID. CPU time
of the reading side alone.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.kmsg import KernelLogSource
from collector.sources.kmsg.classes import CLASSES
from collector.sources.kmsg.joiner import AFTER_AN_ERROR
from pipeline.clock import SystemClock
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics

BOOT = "0123456789abcdef0123456789abcdef"
RECORDS, ROUNDS = 20_000, 7
NOISE = (
    "usb 1-1: new high-speed USB device number 4 using xhci_hcd",
    (
        "audit: type=1400 audit(1700000000.123:45): apparmor=DENIED operation=open "
        "profile=snap.x pid=4242 comm=cat"
    ),
    "IPv6: ADDRCONF(NETDEV_CHANGE): cali12345: link becomes ready",
    "docker0: port 1(veth1a2b3c) entered blocking state",
    "nvme nvme0: 32/0/0 default/read/poll queues",
    (
        "perf: interrupt took too long (2501 > 2500), lowering "
        "kernel.perf_event_max_sample_rate to 79750"
    ),
    "pci 0000:00:00.0: [8086:0d57] type 00 class 0x060000 conventional PCI endpoint",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "systemd[1]: Started Session 4242 of user root.",
)
XID = (
    "NVRM: Xid (PCI:0000:43:00): {code}, pid={pid}, name=python3, Ch 00000010, intr 00000000. MMU "
    "Fault: ENGINE GRAPHICS"
)
FLOOD = (
    "NVRM: Xid (PCI:0000:1b:00): 95, pid=1234, name=python3, Uncontained: LTC TAG "
    "(0x2,0x0). RST: Yes, D-RST: No"
)
NAIVE = [
    re.compile(
        r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:(\d+))?(?: "
        r"GPU-CI:(\d+))?\): (\d+)(?:,\s*(.*))?"
    ),
    *(
        re.compile(row.expression.pattern, re.DOTALL)
        for row in CLASSES
        if row.kind not in AFTER_AN_ERROR
    ),
]


class Feed:
    """A sequenced-packet socket that is refilled outside the measured time."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.writer, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.writer.setblocking(False)
        reader.setblocking(False)
        self.fd = reader.detach()
        self._texts = [text.encode() for text in texts]
        self._seq = 0

    def fill(self, most: int) -> int:
        """Send records until the socket is full; how many."""
        sent = 0
        try:
            while sent < most:
                text = self._texts[self._seq % len(self._texts)]
                self.writer.send(b"3,%d,%d,-;%s\n" % (self._seq, self._seq, text))
                self._seq += 1
                sent += 1
        except BlockingIOError:
            pass
        return sent


class Naive:
    """Searches every line for every pattern and makes an event of every hit: no anchor,
    no prefilter, no collapse.
    """

    def __init__(self, feed: Feed) -> None:
        self._fd = feed.fd
        self.events: list[dict[str, object]] = []

    def read(self) -> int:
        """Lines that mattered in what is there now."""
        found = 0
        while True:
            try:
                raw = os.read(self._fd, 8192)
            except BlockingIOError:
                return found
            head, _, text = raw.decode("utf-8", "replace").partition(";")
            for pattern in NAIVE:
                if match := pattern.search(text):
                    self.events.append({"head": head, "text": text, "facts": match.groups()})
                    found += 1
                    break

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


class Ours:
    """The source as the agent runs it."""

    def __init__(self, feed: Feed) -> None:
        state = State(None)
        self._source = KernelLogSource(
            "n1",
            SystemClock(),
            BOOT,
            Inventory("n1", state),
            state,
            SelfMetrics(),
            path=Path(os.devnull),
            device=lambda _: feed.fd,
        )
        self.events: list[Event] = []

    def read(self) -> int:
        """Lines that mattered in what is there now."""
        found = self._source.read().events
        self.events += found
        return sum(int(event.attributes.get("count", 1)) for event in found)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def measure(feed: Feed, read: Callable[[], int]) -> tuple[float, int]:
    """Records per second of CPU, and the lines that mattered, of one round."""
    left, spent, found = RECORDS, 0, 0
    while left:
        left -= feed.fill(left)
        began = time.process_time_ns()
        found += read()
        spent += time.process_time_ns() - began
    return RECORDS / (spent / 1e9), found


def compare(name: str, texts: Sequence[str]) -> None:
    """Both readers on the same lines, round by round; equal answers first."""
    feeds = Feed(texts), Feed(texts)
    ours, naive = Ours(feeds[0]), Naive(feeds[1])
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        (our_rate, our_lines), (naive_rate, naive_lines) = (
            measure(feeds[0], ours.read),
            measure(feeds[1], naive.read),
        )
        assert our_lines == naive_lines, f"{name}: {our_lines} lines against {naive_lines}"
        rates[0].append(our_rate)
        rates[1].append(naive_rate)
    best, peer = max(rates[0]), max(rates[1])
    print(f"{name}: {our_lines} of {RECORDS} lines matter")
    print(
        f"  ours   {best:10,.0f} records/s (median {statistics.median(rates[0]):,.0f}), "
        f"{len(ours.events):7,} events kept"
    )
    print(
        f"  naive  {peer:10,.0f} records/s (median {statistics.median(rates[1]):,.0f}), "
        f"{len(naive.events):7,} events kept"
    )
    print(
        f"  ratio  {best / peer:.1f} in speed, {len(naive.events) / len(ours.events):.1f} in events"
    )
    for reader, feed in ((ours, feeds[0]), (naive, feeds[1])):
        reader.close()
        feed.writer.close()


def main() -> None:
    """Print both comparisons."""
    print(
        f"Python {platform.python_version()}, {RECORDS} records a round, best of {ROUNDS} rounds, "
        "CPU time of the reader"
    )
    ordinary = [
        f"{NOISE[n % 9]} {n}" if n % 10 else XID.format(code=13 + n % 80, pid=1000 + n)
        for n in range(RECORDS)
    ]
    compare("ordinary log", ordinary)
    compare("flood of one XID", [FLOOD])


if __name__ == "__main__":
    main()
