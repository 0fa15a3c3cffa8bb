"""Memory of detectors on its way through bytes: whole, or not at all."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.kit.snapshot import (
    FORMAT,
    Listed,
    Memory,
    SnapshotError,
    device_state,
    devices_from,
    dump,
    facts_in,
    load,
    read,
)
from pipeline.frame import Device
from tests.detectors.hot import Hot
from tests.fakes import FakeClock, gpu_frame, observed


def after(*temperatures: float) -> Hot:
    """The detector after one GPU showed these temperatures."""
    detector, clock = Hot(), FakeClock()
    for value in temperatures:
        list(detector.update(observed(clock, gpu_frame(clock, {"temperature_celsius": value}))))
    return detector


def says(detector: Hot, *temperatures: float) -> list[str]:
    """What it says to further ones."""
    clock = FakeClock()
    return [
        f.phase
        for v in temperatures
        for f in detector.update(observed(clock, gpu_frame(clock, {"temperature_celsius": v})))
    ]


def test_a_restored_detector_goes_on_where_the_old_one_stopped() -> None:
    """Two hot readings before, the third after: the page comes, and a cold
    detector would not have sent it.
    """
    fresh = Hot()
    assert load(dump([after(90, 90)]), [fresh]) == ()
    assert says(fresh, 90) == ["onset"]
    assert says(Hot(), 90) == []


@pytest.mark.slow
@given(st.lists(st.sampled_from([70.0, 90.0, float("nan")]), max_size=12), st.integers(0, 12))
def test_a_restart_anywhere_changes_nothing(temperatures: list[float], cut: int) -> None:
    """Whatever came before, what is reported after is the same."""
    before, later = temperatures[:cut], temperatures[cut:]
    restarted = Hot()
    load(dump([after(*before)]), [restarted])
    assert says(restarted, *later) == says(after(*before), *later)


def test_another_version_of_a_memory_is_not_taken() -> None:
    """The detector is named as cold and judges from the beginning."""
    data = dump([after(90, 90)])
    newer = Hot()
    newer.version = 2
    assert load(data, [newer]) == ("hot",)
    assert says(newer, 90) == []


class Silent:
    """A detector without memory."""

    name = "silent"

    def update(self, _observation: object) -> tuple[()]:
        return ()


def test_a_detector_without_memory_is_named_and_the_others_are_restored() -> None:
    """One that keeps nothing does not cost the others theirs."""
    fresh = Hot()
    assert load(dump([after(90, 90), Silent()]), [Silent(), fresh]) == ("silent",)
    assert says(fresh, 90) == ["onset"]


def test_facts_travel_with_the_memory() -> None:
    """Boot id and time are there to be compared before anything is restored."""
    assert facts_in(dump([], boot_id="b1", time="7")) == {"boot_id": "b1", "time": "7"}


@pytest.mark.slow
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever bytes are cut off, flipped or made up: an error that says so, or the detector is
    restored or cold, never half.
    """
    whole = dump([after(90, 90)])
    cut = data.draw(st.integers(0, len(whole)))
    flips = data.draw(
        st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 255)), max_size=4)
    )
    bad = bytearray(whole)
    for place, mask in flips:
        bad[place] ^= mask
    detector = Hot()
    try:
        load(bytes(bad[:cut]), [detector])
    except SnapshotError:
        assert says(detector, 90) == []
    else:
        assert len(detector._run) == len(detector._rows)


@pytest.mark.slow
def test_one_bit_that_flipped_anywhere_is_refused_or_harmless() -> None:
    """A worn disk: in the packed data, in lengths and names, or in the flag that
    says a part is encrypted.
    """
    whole = dump([after(90, 90)])
    refused = 0
    for place in range(len(whole)):
        bad = bytearray(whole)
        bad[place] ^= 1
        try:
            load(bytes(bad), [Hot()])
        except SnapshotError:
            refused += 1
    assert 0 < refused < len(whole)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x93NUMPY", b"{}"])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    """The message says that it cannot be read."""
    with pytest.raises(SnapshotError, match="cannot be read"):
        load(data, [])


def test_a_newer_format_is_refused_by_its_number() -> None:
    """A snapshot of a later program is not guessed at."""
    buffer = io.BytesIO()
    header = b'{"format": 99, "versions": {}, "facts": {}}'
    np.savez(buffer, header=np.frombuffer(header, np.uint8))
    with pytest.raises(SnapshotError, match=f"format 99, this program keeps format {FORMAT}"):
        load(buffer.getvalue(), [])


def test_a_snapshot_never_unpickles() -> None:
    """Objects in it are refused: a snapshot is data, not code."""
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([{"format": FORMAT}], object))
    with pytest.raises(SnapshotError, match="cannot be read"):
        load(buffer.getvalue(), [])


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.sampled_from(["gpu", "ib_port"]), st.text(max_size=5)),
        max_size=4,
    )
)
def test_devices_keep_their_identity(rows: list[tuple[str, str, str]]) -> None:
    """Any names come back as they went, except for NUL at their ends, which numpy's text
    cannot hold and no name has.
    """
    devices = tuple(Device(host.strip("\0"), kind, name.strip("\0")) for host, kind, name in rows)
    assert devices_from(device_state(devices)) == devices


def test_detectors_with_the_very_same_devices_share_one_list_of_them() -> None:
    """Also after a restart; written once, it comes back for each."""
    gpus = tuple(Device("n1", "gpu", f"GPU-{i}", {"rack": "r1"}) for i in range(300))
    one, other = Listed.of(gpus), Listed.of((*gpus,))
    assert one is other
    assert Listed.of(tuple(Device(d.host, d.kind, d.id, d.attributes) for d in gpus)) is not one
    assert Listed.of((*gpus[:150], gpus[0], *gpus[151:])) is not one

    texts = {f"{name}/{key}": array for name in "ab" for key, array in one.state.items()}
    data = Memory({}, texts).to_bytes()
    alone = Memory({}, {"a/devices": one.state["devices"]}).to_bytes()
    assert len(data) < len(alone) + 100
    arrays = read(data).memory.arrays
    a, b = (Listed.read({"devices": arrays[f"{name}/devices"]}) for name in "ab")
    assert a is b
    assert a.devices == gpus


def test_a_snapshot_that_refers_to_what_it_does_not_have_is_refused() -> None:
    """A list that stands for another must be of this snapshot."""
    buffer = io.BytesIO()
    header = b'{"format": 1, "versions": {}, "facts": {}, "same": {"a/devices": "b/devices"}}'
    np.savez(buffer, header=np.frombuffer(header, np.uint8))
    with pytest.raises(SnapshotError, match="cannot be read"):
        load(buffer.getvalue(), [])
