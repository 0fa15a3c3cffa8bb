"""Reading record by record, as the kernel's device gives them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from collector.sources.kmsg.device_reader import MAX_BUFFER, DeviceReader, open_device
from collector.sources.kmsg.reader import Loss, UnavailableError
from tests.collector.sources.kmsg.logs import BOOT, Node


class Script:
    """Answers read(2) from a list: bytes or an errno; then EAGAIN."""

    def __init__(self, answers: Iterable[bytes | int]) -> None:
        self.answers = list(answers)
        self.sizes: list[int] = []

    def __call__(self, fd: int, size: int) -> bytes:
        """One read."""
        self.sizes.append(size)
        answer = self.answers.pop(0) if self.answers else errno.EAGAIN
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


def scripted(*answers: bytes | int, after: dict[str, object] | None = None) -> DeviceReader:
    """A reader of these answers."""
    return DeviceReader(-1, BOOT, after, read=Script(answers))


def record(seq: int, text: str = "x") -> bytes:
    """A record of the kernel."""
    return f"3,{seq},{seq * 1000},-;{text}\n".encode()


def test_one_read_is_one_record() -> None:
    """Over a sequenced-packet socket each record comes whole, in order, and
    reading ends without waiting.
    """
    node = Node()
    for number in range(5):
        node.ring.print(f"line {number}")
    reader = DeviceReader(node.ring.connect(), BOOT)
    assert [r.text for r in reader.read(3)] == ["line 0", "line 1", "line 2"]
    assert [r.text for r in reader.read(3)] == ["line 3", "line 4"]
    assert reader.read(3) == []
    node.ring.print("line 5")
    assert [r.seq for r in reader.read(3)] == [5]
    reader.close()
    node.ring.close()


def test_overrun_is_counted_and_survived() -> None:
    """EPIPE says that the ring went round: the numbers say how many records are
    lost, and reading goes on.
    """
    reader = scripted(record(1), errno.EPIPE, record(40), record(41))
    assert [r.seq for r in reader.read(9)] == [1, 40, 41]
    assert reader.losses() == [Loss("overrun", 38)]
    assert reader.losses() == []


def test_gap_without_overrun_is_no_loss() -> None:
    """Numbers may jump when nothing was lost, as where a saved log was cut together."""
    reader = scripted(record(204), record(595))
    assert len(reader.read(9)) == 2
    assert reader.losses() == []


def test_record_longer_than_the_buffer() -> None:
    """EINVAL says that the record did not fit: the kernel has passed over it; the buffer grows
    and the loss is counted.
    """
    script = Script([record(1), errno.EINVAL, record(3)])
    reader = DeviceReader(-1, BOOT, read=script)
    assert [r.seq for r in reader.read(9)] == [1, 3]
    assert reader.losses() == [Loss("oversize", 1)]
    assert script.sizes[0] < script.sizes[2] <= MAX_BUFFER


def test_endless_einval_is_an_error_not_a_loop() -> None:
    """A device that always answers EINVAL is no kernel log."""
    with pytest.raises(UnavailableError, match="Invalid argument"):
        scripted(*[errno.EINVAL] * 20).read(9)


def test_interrupted_read_goes_on() -> None:
    """A signal is no end of the log."""
    assert [r.seq for r in scripted(errno.EINTR, record(1)).read(9)] == [1]


def test_broken_device_is_unavailable() -> None:
    """Another error ends the reader with the kernel's word for it."""
    with pytest.raises(UnavailableError, match="Input/output error"):
        scripted(errno.EIO).read(9)


def test_malformed_record_is_counted() -> None:
    """What is no record is passed over and counted."""
    reader = scripted(b"garbage\xff", record(1))
    assert [r.seq for r in reader.read(9)] == [1]
    assert reader.losses() == [Loss("malformed", 1)]


def test_resume_passes_over_what_is_known() -> None:
    """A reader that gets a place goes on after it; the place of another boot is void."""
    place = {"stream": BOOT, "seq": 7}
    assert [r.seq for r in scripted(*map(record, range(5, 10)), after=dict(place)).read(9)] == [
        8,
        9,
    ]
    other = scripted(*map(record, range(5, 10)), after={**place, "stream": "f" * 32})
    assert [r.seq for r in other.read(9)] == [5, 6, 7, 8, 9]


def test_what_the_ring_lost_while_no_agent_ran() -> None:
    """The first number after the place says how many records nobody has read."""
    reader = scripted(record(100), record(101), after={"stream": BOOT, "seq": 7})
    assert [r.seq for r in reader.read(9)] == [100, 101]
    assert reader.losses() == [Loss("down", 92)]


@pytest.mark.parametrize("path", [os.devnull, "/nonexistent/kmsg", "/tmp"])
def test_only_the_kernels_device_is_opened(path: str) -> None:
    """Containers often put /dev/null in the device's place: that is said,
    not read as an empty log.
    """
    with pytest.raises(UnavailableError, match=path):
        open_device(Path(path))


def test_descriptor_is_closed_once() -> None:
    """Closing twice does not close somebody else's descriptor."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader = DeviceReader(theirs.detach(), BOOT)
    reader.close()
    reader.close()
    ours.close()
