"""A part left where it is read no more and another one is read in its slot."""

from __future__ import annotations

from detectors.kit.slots import Slots
from pipeline.frame import Device, Frame, frame_of
from tests.fakes import START_NS

OK, ABSENT, PASSTHROUGH = 0, 3, 5


def board(name: str, slot: int) -> Device:
    """A GPU in a slot."""
    return Device("n1", "gpu", name, {"pci_bus_id": f"0000:{slot:02x}:00.0"})


def seen(*boards: tuple[Device, int | None]) -> Frame:
    """These GPUs in these states; None is a reading that is missing."""
    return frame_of("gpu", [(device, {"state": state}) for device, state in boards], START_NS, 0)


def test_a_part_that_keeps_its_row_unread_left_when_another_is_read_in_its_slot() -> None:
    """An agent keeps the rows of all GPUs that it ever saw."""
    old, new = board("old", 1), board("new", 1)
    assert Slots().instead(old, seen((old, None), (new, OK))) == new
    assert Slots().instead(old, seen((new, OK))) == new


def test_the_new_part_did_not_leave_because_the_old_one_has_a_row() -> None:
    """Only one of them is read."""
    old, new = board("old", 1), board("new", 1)
    assert Slots().instead(new, seen((old, None), (new, OK))) is None


def test_a_board_that_only_moved_did_not_leave() -> None:
    """Two boards trade slots: what was reported of each stays with it."""
    a, b = board("a", 1), board("b", 2)
    assert Slots().instead(a, seen((board("a", 2), OK), (board("b", 1), OK))) is None
    assert Slots().instead(b, seen((board("a", 2), OK), (board("b", 1), OK))) is None


def test_a_gpu_that_is_absent_from_its_slot_did_not_leave() -> None:
    """Nothing sits there instead."""
    gone, other = board("gone", 1), board("other", 2)
    assert Slots().instead(gone, seen((gone, ABSENT), (other, OK))) is None
    assert Slots().instead(gone, seen((gone, None), (other, OK))) is None


def test_a_gpu_that_a_virtual_machine_has_was_given_away() -> None:
    """One that is gone was not, nor one of which nothing is read."""
    away, gone, silent = board("away", 1), board("gone", 2), board("silent", 3)
    frame, slots = seen((away, PASSTHROUGH), (gone, ABSENT), (silent, None)), Slots()
    assert [slots.given_away(one, frame) for one in (away, gone, silent, board("new", 4))] == [
        True,
        False,
        False,
        False,
    ]


def test_an_adapter_has_several_ports() -> None:
    """One address, two ports: the second is not in the place of the first."""
    ports = [
        Device("n1", "ib_port", f"0x{n}", {"pci_bus_id": "0000:9c:00.0", "port": str(n)})
        for n in (1, 2)
    ]
    frame = frame_of(
        "ib_port", [(ports[0], {"state": None}), (ports[1], {"state": 4})], START_NS, 0
    )
    assert Slots().instead(ports[0], frame) is None
