"""Counting XIDs once each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Event, Observation, Value
from pipeline.xid.counts import HISTORY_NS, MAX_CODES, OTHER, XidCounts
from pipeline.xid.table import critical_codes

BOOT = "0123456789abcdef0123456789abcdef"
GPU = Device("n1", "gpu", "GPU-a", {"pci_bus_id": "0000:1b:00.0"})
NODE = Device("n1", "node", "n1")
NOW = 1_790_000_000 * SECOND_NS


def xid(
    code: int, at_s: float = 0, origin: str = "kmsg", device: Device = GPU, **more: Value
) -> Event:
    """An XID event at NOW + ``at_s`` seconds."""
    return Event(
        NOW + int(at_s * SECOND_NS), 0, device, "xid", {"code": code, "origin": origin, **more}
    )


def observe(*events: Event, boot_id: str = BOOT, at_s: float = 0) -> Observation:
    """An observation with these events."""
    return Observation("kmsg", "n1", boot_id, 1, NOW + int(at_s * SECOND_NS), 0, 0, events=events)


class Kept:
    """Keeps documents as a disk would: as JSON text."""

    def __init__(self) -> None:
        self.text = "{}"

    def __call__(self, document: dict[str, Any]) -> bool:
        """Keep."""
        self.text = json.dumps(document)
        return True

    def counts(self, boot_id: str = BOOT) -> XidCounts:
        """The counts as after a restart of the agent."""
        counts = XidCounts(self, json.loads(self.text), boot_id)
        counts.register([GPU])
        return counts


def total(counts: XidCounts, code: int, device: Device = GPU) -> int | None:
    """Count of a code, None where it is not shown."""
    return {(d, c): n for d, c, n, _ in counts.series()}.get((device, code))


def test_critical_codes_are_born_at_zero() -> None:
    """A registered GPU shows every code that pages at 0, so that the first one is an increase."""
    counts = Kept().counts()
    assert [(c, n, seen) for d, c, n, seen in counts.series() if d == GPU] == [
        (code, 0, 0) for code in critical_codes()
    ]


def test_dcgm_exporter_gauge_hides_repeats_we_count_them() -> None:
    """31 and 31 again count 2, and a later 94 then 13 is no reset of anything."""
    counts = Kept().counts()
    counts.write(observe(xid(31), xid(31, 0.5), xid(94, 1), xid(13, 2)))
    assert (total(counts, 31), total(counts, 94), total(counts, 13)) == (2, 1, 1)
    assert counts.last(GPU.id) == 13


@pytest.mark.parametrize("order", [("kmsg", "nvml"), ("nvml", "kmsg"), ("journal", "nvml")])
def test_one_xid_from_two_reporters_counts_once(order: tuple[str, str]) -> None:
    """The same XID from the kernel log and from NVML within 2 s is one, whichever comes first."""
    counts = Kept().counts()
    counts.write(observe(xid(79, 0, order[0])))
    counts.write(observe(xid(79, 1.9, order[1])))
    assert total(counts, 79) == 1


def test_two_reporters_far_apart_are_two_xids() -> None:
    """Beyond 2 s another reporter speaks of another occurrence."""
    counts = Kept().counts()
    counts.write(observe(xid(79, 0, "kmsg"), xid(79, 2.1, "nvml")))
    assert total(counts, 79) == 2


def test_third_reporter_and_line_without_code_add_nothing() -> None:
    """79 by NVML, by its line and by the words fallen off the bus is one XID 79."""
    counts = Kept().counts()
    counts.write(
        observe(xid(79, 0, "nvml"), xid(79, 0.1, "kmsg"), xid(79, 0.2, "kmsg", inferred=True))
    )
    assert total(counts, 79) == 1


def test_collapsed_lines_match_single_reports() -> None:
    """Five lines in one event against three NVML events make five, not eight."""
    counts = Kept().counts()
    counts.write(
        observe(*(xid(31, 0.1 * i, "nvml") for i in range(3)), xid(31, 0, "kmsg", count=5))
    )
    assert total(counts, 31) == 5


def test_sub_codes_stay_apart_and_unknown_sub_code_fits_any() -> None:
    """149.4 and 149.37 are two faults; NVML knows no sub-code and repeats one of them."""
    counts = Kept().counts()
    counts.write(
        observe(
            xid(149, 0, sub_code=4), xid(149, 0.5, "journal", sub_code=37), xid(149, 0.6, "nvml")
        )
    )
    assert total(counts, 149) == 2


def test_counts_survive_restart_and_reboot() -> None:
    """The counter goes on after a restart and after a reboot; the last XID is
    forgotten by the reboot alone.
    """
    kept = Kept()
    kept.counts().write(observe(xid(79)))
    again = kept.counts()
    assert (total(again, 79), again.last(GPU.id)) == (1, 79)
    rebooted = kept.counts("f" * 32)
    assert (total(rebooted, 79), rebooted.last(GPU.id)) == (1, 0)
    rebooted.write(observe(xid(79, 900), boot_id="f" * 32))
    assert (total(rebooted, 79), rebooted.last(GPU.id)) == (2, 79)


def test_dcgm_xid_sticks_until_restart_ours_leaves_with_the_boot() -> None:
    """DCGM keeps a serious XID forever: recent counts only what lies in the window."""
    counts = Kept().counts()
    counts.write(observe(xid(79, 0), xid(31, 100), xid(31, 250)))
    assert counts.recent(GPU.id, 300 * SECOND_NS, NOW + 260 * SECOND_NS) == {79: 1, 31: 2}
    assert counts.recent(GPU.id, 300 * SECOND_NS, NOW + 401 * SECOND_NS) == {31: 1}
    assert counts.recent(GPU.id, 300 * SECOND_NS, NOW + 900 * SECOND_NS) == {}


def test_swapped_gpu_starts_cold() -> None:
    """A new GPU in the same slot has a new UUID: it starts at 0, and the
    old one's series are gone.
    """
    kept = Kept()
    kept.counts().write(observe(xid(79)))
    swapped = Device("n1", "gpu", "GPU-b", {"pci_bus_id": "0000:1b:00.0"})
    counts = XidCounts(kept, json.loads(kept.text), "f" * 32)
    counts.register([swapped])
    assert {d.id for d, *_ in counts.series()} == {"GPU-b"}
    assert total(counts, 79, swapped) == 0


def test_gpu_known_again_keeps_its_counts() -> None:
    """A GPU that was taken out and comes back is the same GPU."""
    kept = Kept()
    counts = kept.counts()
    counts.write(observe(xid(79)))
    counts.register([])
    counts.register([GPU])
    assert total(counts, 79) == 1


def test_gcm_scans_the_whole_ring_old_xids_are_history() -> None:
    """Last month's XID in the ring at first start does not count; one of a minute ago does."""
    counts = Kept().counts()
    month = -30 * 86400
    counts.write(observe(xid(79, month, before_start=True), xid(48, -60, before_start=True)))
    assert (total(counts, 79), total(counts, 48), counts.last(GPU.id)) == (0, 1, 48)


def test_previous_boot_counts_when_fresh_and_is_never_the_last() -> None:
    """XID 79 before a cold reboot that the agent did not live to see is counted once, but is
    not this boot's last XID.
    """
    kept = Kept()
    counts = kept.counts()
    old = xid(79, -900, "journal", previous_boot=True, stream="e" * 32)
    counts.write(
        observe(
            old,
            xid(79, -HISTORY_NS / SECOND_NS - 1, "journal", previous_boot=True, stream="e" * 32),
        )
    )
    assert (total(counts, 79), counts.last(GPU.id)) == (1, 0)


def test_previous_boot_repeats_what_was_seen_live() -> None:
    """The journal of the boot before tells again what the agent had counted before the crash."""
    kept = Kept()
    kept.counts().write(observe(xid(79, 0, "kmsg", stream=BOOT, seq=7)))
    counts = kept.counts("f" * 32)
    counts.write(
        observe(
            xid(79, 0.3, "journal", previous_boot=True, stream=BOOT), boot_id="f" * 32, at_s=600
        )
    )
    assert total(counts, 79) == 1


def test_moneo_two_digit_pattern_codes_from_100_up_are_their_own() -> None:
    """119 counts as 119, not as 11 or 19."""
    counts = Kept().counts()
    counts.write(observe(xid(119)))
    assert (total(counts, 119), total(counts, 11), total(counts, 19)) == (1, None, None)


def test_unknown_codes_are_counted_and_capped() -> None:
    """Unknown codes count; beyond the cap they count together, and
    critical codes always have room.
    """
    counts = Kept().counts()
    counts.write(observe(*(xid(1000 + i, i) for i in range(MAX_CODES + 5)), xid(79, 500)))
    codes = {c: n for d, c, n, _ in counts.series() if d == GPU}
    assert codes[1000] == 1
    assert codes[OTHER] == 5
    assert codes[79] == 1
    assert len(codes) <= len(critical_codes()) + MAX_CODES + 1


def test_xid_of_unknown_gpu_counts_on_the_node() -> None:
    """An XID of a GPU that nobody knows is not dropped: it counts under the
    node it was reported on.
    """
    kept = Kept()
    kept.counts().write(observe(xid(79, device=NODE, pci="0000:5d:00")))
    assert total(kept.counts(), 79, NODE) == 1


def test_mig_xid_counts_on_the_whole_gpu() -> None:
    """dcgm-exporter with MIG loses whole-GPU XIDs: the GPU always has the row, the
    instance is an attribute.
    """
    counts = Kept().counts()
    counts.write(observe(xid(79), xid(31, 1, gpu_instance=2, compute_instance=0)))
    assert (total(counts, 79), total(counts, 31)) == (1, 1)


@pytest.mark.parametrize(
    "document",
    [
        {"counts": 7},
        {"counts": [[1, 2]]},
        {"last": []},
        {"last": {"x": 1}},
        {"once": {"reports": [1]}},
        {"once": {"tallies": [[1]]}},
    ],
)
def test_damaged_document_costs_the_counts_not_the_agent(
    document: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A state file that somebody has edited is left aside with one line in the log."""
    counts = XidCounts(lambda _: None, document, BOOT)
    counts.write(observe(xid(79)))
    assert total(counts, 79) == 1
    assert len(caplog.records) == 1


def test_nothing_is_saved_when_nothing_happened() -> None:
    """An observation without an XID costs no disk write."""
    saved: list[dict[str, Any]] = []
    counts = XidCounts(saved.append, {}, BOOT)
    counts.write(observe())
    assert saved == []


@pytest.mark.slow
@given(
    lines=st.lists(st.sampled_from([31, 48, 94]), min_size=1, max_size=60),
    ends=st.lists(st.integers(1, 60), max_size=12),
    crashes=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 5)), max_size=4),
)
def test_lines_read_again_after_a_crash_count_once(
    lines: list[int], ends: list[int], crashes: list[tuple[int, int]]
) -> None:
    """However reads were cut, and wherever the agent died and read an end of the log
    again, each line counts once.
    """
    kept = Kept()
    counts = kept.counts()
    cuts = sorted({min(end, len(lines)) for end in ends} | {len(lines)})
    died = dict(crashes)
    boundaries, at, step = [0], 0, 0
    while at < len(lines):
        end = (
            next(cut for cut in cuts if cut > at)
            if step % 3
            else min(at + 1 + step % 5, len(lines))
        )
        counts.write(observe(*_runs(lines, at, end), at_s=100))
        at = end
        boundaries.append(at)
        if step in died:
            counts = kept.counts()
            at = boundaries[max(0, len(boundaries) - 1 - died[step])]
        step += 1
    for code in (31, 48, 94):
        assert (total(counts, code) or 0) == lines.count(code)


def _runs(lines: list[int], start: int, end: int) -> list[Event]:
    """One event per code for the lines of one read, as the source collapses them."""
    events = []
    for code in sorted(set(lines[start:end])):
        seqs = [seq for seq in range(start, end) if lines[seq] == code]
        events.append(
            xid(code, seqs[0], stream=BOOT, seq=seqs[0], last_seq=seqs[-1], count=len(seqs))
        )
    return events
