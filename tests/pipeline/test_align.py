"""Rows of devices: where most stay, a quick way gives what the plain one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.kit.groups import Groups, rack_of
from detectors.kit.resets import ResetTracker
from pipeline.align import Rows
from pipeline.frame import Device, frame_of

# Few devices with few racks, each an object of its own: some are drawn again, some are new objects
# about the same device, with the same attributes or others.
POOL = [
    Device("n1", "gpu", name, {"rack": rack, "epoch": f"580#{rack}"})
    for name in "abcd"
    for rack in ("1", "1", "2")
]
FRAMES = st.lists(
    st.lists(st.sampled_from(POOL), max_size=5, unique_by=lambda device: device.id).map(tuple),
    max_size=6,
)


@pytest.mark.slow
@given(FRAMES)
def test_rows_are_those_of_the_plain_way(frames: list[tuple[Device, ...]]) -> None:
    """Whatever comes, leaves, changes its place or its attributes."""
    quick, plain = Rows(), Rows()
    for devices in frames:
        assert quick.at(devices).tolist() == plain.place(devices)
        assert [*map(id, quick.devices)] == [*map(id, plain.devices)]


@given(FRAMES)
def test_groups_are_those_of_a_first_look(frames: list[tuple[Device, ...]]) -> None:
    """Numbers and names."""
    goes_on = Groups(rack_of)
    for devices in frames:
        anew = Groups(rack_of)
        assert goes_on.of(devices).tolist() == anew.of(devices).tolist()
        assert goes_on.names == anew.names


@given(FRAMES)
def test_a_new_epoch_is_seen_once_of_each_device(frames: list[tuple[Device, ...]]) -> None:
    """Whatever other devices are in the frame."""
    resets, known = ResetTracker(), dict[str, str]()
    for devices in frames:
        new = resets.new(frame_of("gpu", [(device, {}) for device in devices], 0, 0), "b")
        for device, is_new in zip(devices, new.tolist(), strict=True):
            epoch = device.attributes["epoch"]
            assert is_new == (known.get(device.id, epoch) < epoch)
            known[device.id] = epoch
