"""Canned queries on a small history in which everything happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation, Outcome
from pipeline.store.query.canned import QUESTIONS, UnknownDeviceError, resolve
from pipeline.store.query.canned.question import step_for
from pipeline.store.query.plot import svg
from pipeline.store.query.questions import QUESTIONS as NAMES
from pipeline.store.query.store import Store, Window
from tests.fakes import FakeClock, gpu
from tests.pipeline.store.keep.test_seal import Seen, store
from tests.pipeline.store.stored import StoreMaker

ALL = Window()
PORT = Device("n1", "ib_port", "0xa0", {"device": "mlx5_0", "port": "1", "firmware": "28.4"})
LINK = Device(
    "n1", "nvlink", "GPU-00000000/3", {"index": "0", "link": "3", "gpu_uuid": "GPU-00000000"}
)
HOLDER = Device("n1", "device_job", f"{gpu(0).id}/slurm/71", {"uuid": gpu(0).id, "job": "71"})
NODE = Device("n1", "node", "n1", {"kernel": "6.1"})
TEXT = {"origin": "kmsg", "stream": "boot-1", "text": "NVRM: Xid"}


# a kind of device and its readings
Rows = tuple[str, Sequence[tuple[Device, Mapping[str, float | int | None]]]]


class History:
    """A node's minutes, one read of each source a second."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.whole: list[Seen] = []

    def read(
        self,
        source: str,
        *frames: Rows,
        events: tuple[Event, ...] = (),
        outcome: Outcome = "ok",
        error: str = "",
    ) -> None:
        """One read, now."""
        made = tuple(frame_of(kind, rows, *self._now()) for kind, rows in frames)
        o = Observation(
            source,
            "n1",
            "boot-1",
            len(self.whole),
            *self._now(),
            2_000_000,
            made,
            events,
            (),
            outcome,
            error,
        )
        self.whole.append((o, ()))

    def _now(self) -> tuple[int, int]:
        return self.clock.time_ns(), self.clock.monotonic_ns()

    def xid(self, code: int, seq: int, **more: object) -> Event:
        """One line of the kernel log, now."""
        facts = {"code": code, "seq": seq, **TEXT, **more}
        return Event(self.clock.time_ns(), 0, gpu(0), "xid", facts)  # type: ignore[arg-type] # values of all kinds


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    """Two minutes: a driver reload, a GPU that is not there for a while, errors, a gap,
    XIDs that are reported twice.
    """
    h = History()
    for second in range(120):
        h.clock.advance(1.0)
        reloaded = second >= 60
        facts = {"driver_version": "580", "epoch": "1" if reloaded else "0"}
        # 5 until the reload, then 5 more
        volatile = second // 10 if not reloaded else (second - 60) // 10
        gpus: list[tuple[Device, dict[str, float | None]]] = [
            (
                gpu(i, **facts),
                {
                    "state": 0,
                    "power_milliwatts": None
                    if i == 1 and 30 <= second < 90
                    else 1000 * (100 + second),
                    "power_limit_enforced_milliwatts": 700_000,
                    "temperature_celsius": 40 + second // 60,
                    "memory_temperature_celsius": 50,
                    "temperature_margin_celsius": 47,
                    "energy_millijoules": 1_000_000 + second * 360_000
                    if not reloaded
                    else (second - 59) * 360_000,
                    "throttled_power_cap_nanoseconds": min(second, 60) * 500_000_000,
                    "throttled_sw_thermal_nanoseconds": 0,
                    "ecc_corrected_volatile": volatile,
                    "ecc_uncorrected_volatile": 0,
                    "ecc_corrected_aggregate": None if i == 1 else 1000 + second // 10,
                    "row_remap_pending": int(second > 100),
                },
            )
            for i in range(2)
        ]
        ports = {
            "state": 4 if second != 119 else 1,
            "receive_words": 4 * second,
            "transmit_words": second,
            "symbol_errors": min(65535, 65500 + second),
        }
        links = {"state": 1, "data_link_replay_errors": int(second > 50), "data_link_crc_errors": 0}
        if not 40 <= second < 55:
            h.read("nvml", ("gpu", gpus), ("nvlink", [(LINK, links)]))
        elif second == 41:
            h.read("nvml", outcome="failed", error="driver gone")
        h.read(
            "infiniband", ("ib_port", [(PORT, ports)]), ("node", [(NODE, {"ib_ports_expected": 1})])
        )
        if second == 20:
            h.read("jobs", ("device_job", [(HOLDER, {"processes": 1})]))
            h.read("kmsg", events=(h.xid(79, 7), h.xid(79, 8, count=3, last_seq=10), h.xid(31, 11)))
        if second == 21:  # reported again by NVML, and read again after a crash of the agent
            again = Event(
                h.clock.time_ns() - SECOND_NS, 0, gpu(0), "xid", {"code": 79, "origin": "nvml"}
            )
            h.read("kmsg", events=(again, h.xid(79, 8, count=3, last_seq=10), h.xid(63, 12)))
    root = tmp_path_factory.mktemp("history")
    store(root, h.whole, h.clock, segment_bytes=60_000)
    return root, h


def ask(root: Path, name: str, window: Window = ALL) -> list[dict[str, object]]:
    """Rows of an answer."""
    return QUESTIONS[name].ask(Store(root), window).to_dicts()


@pytest.mark.slow
def test_ecc_counts_through_a_driver_reload(history: tuple[Path, History]) -> None:
    """Lifetime counts where the GPU keeps them; else those since driver load, whose fall to 0
    is a new epoch and no loss.
    """
    first, second = ask(history[0], "ecc")
    assert (first["name"], first["corrected"], first["uncorrected"]) == ("0", 11, 0)
    assert (second["corrected"], second["uncorrected"]) == (10, 0)
    assert (first["row_remap_pending"], first["row_remap_failed"]) == (1, None)
    assert first["rows_remapped_correctable"] is None  # never observed: not 0


@pytest.mark.slow
def test_throttle_is_seconds_by_reason(history: tuple[Path, History]) -> None:
    """Nanoseconds become seconds; a reason that the GPU does not count has no column,
    one that never acted is 0.
    """
    row = ask(history[0], "throttle")[0]
    assert row["power_cap_seconds"] == 30.0
    assert row["sw_thermal_seconds"] == 0.0
    assert "hw_thermal_seconds" not in row


@pytest.mark.slow
def test_power_and_energy(history: tuple[Path, History]) -> None:
    """Means over what was observed only; energy through the reload; watts,
    kilowatt-hours, seconds.
    """
    full, partly = ask(history[0], "power")
    seconds = [s for s in range(120) if not 40 <= s < 55]
    assert full["mean_watts"] == pytest.approx(100 + sum(seconds) / len(seconds))
    seen = [s for s in seconds if not 30 <= s < 90]
    assert partly["mean_watts"] == pytest.approx(100 + sum(seen) / len(seen))
    assert (full["maximum_watts"], full["limit_watts"]) == (219.0, 700.0)
    # 59 s before the reload and 60 s after it, at 360 J each; what was between the last reading and
    # the reload is not known.
    assert full["energy_kilowatt_hours"] == pytest.approx((59 * 360 + 60 * 360) / 3.6e6)


@pytest.mark.slow
def test_temperature_knows_core_memory_and_margin(history: tuple[Path, History]) -> None:
    """Highest of each, least margin."""
    row = ask(history[0], "temperature")[0]
    assert (row["maximum_celsius"], row["memory_maximum_celsius"], row["least_margin_celsius"]) == (
        41,
        50,
        47,
    )


@pytest.mark.slow
def test_links_tell_traffic_errors_and_state(history: tuple[Path, History]) -> None:
    """Words of four bytes become bytes; a counter that sticks at its end counts up to it; NVLinks
    only where something was wrong.
    """
    port, link = sorted(ask(history[0], "links"), key=lambda row: str(row["kind"]))
    assert (port["name"], port["state"], port["received_bytes"], port["sent_bytes"]) == (
        "mlx5_0/1",
        "down",
        119 * 16.0,
        119 * 4.0,
    )
    assert port["symbol_errors"] == 35
    assert port["replays"] is None
    assert (link["name"], link["replays"], link["state"], link["crc_errors"]) == ("0/3", 1, "up", 0)


def test_xids_count_once_each(history: tuple[Path, History]) -> None:
    """Four of 79, one of 31, one of 63, though some are reported by NVML too
    and some are read again.
    """
    rows = {row["code"]: row for row in ask(history[0], "xids")}
    assert {code: row["count"] for code, row in rows.items()} == {79: 4, 31: 1, 63: 1}
    assert rows[79]["severity"] == "page"
    assert "bus" in str(rows[79]["meaning"])
    assert rows[79]["name"] == "0"


def test_gaps_say_when_and_why(history: tuple[Path, History]) -> None:
    """From the last good read to the next one, with what was tried meanwhile; sources
    without a gap are silent.
    """
    (gap,) = ask(history[0], "gaps")
    whole = [o for o, _ in history[1].whole if o.source == "nvml" and o.outcome == "ok"]
    edge = next(i for i, o in enumerate(whole) if o.time_ns - whole[i - 1].time_ns > 2 * SECOND_NS)
    assert gap["source"] == "nvml"
    assert [gap["from"], gap["until"]] == [
        _time(whole[edge - 1].time_ns),
        _time(whole[edge].time_ns),
    ]
    assert (gap["seconds"], gap["why"]) == (16.0, "failed: driver gone")


def test_a_gap_that_lasts_is_in_the_answer(tmp_path: Path) -> None:
    """Reads that fail to the end are a gap without an end, and so are those of a window in which
    none succeeds; a single failure is none.
    """
    h = History()
    for second in range(60):
        h.clock.advance(1.0)
        hangs = second >= 20
        h.read("nvml", outcome="overdue" if hangs else "ok", error="no answer" if hangs else "")
        h.read("host", outcome="failed" if second == 59 else "ok")
    store(tmp_path, h.whole, h.clock, segment_bytes=60_000)
    times = [_time(o.time_ns) for o, _ in h.whole if o.source == "nvml"]
    for window, first in ((ALL, 19), (Window(since=times[30]), 30)):
        assert ask(tmp_path, "gaps", window) == [
            {
                "host": "n1",
                "source": "nvml",
                "from": times[first],
                "until": None,
                "seconds": float(59 - first),
                "why": "overdue: no answer",
            }
        ]


def test_reads_count_outcomes_and_time(history: tuple[Path, History]) -> None:
    """Per source, with the last error."""
    rows = {row["source"]: row for row in ask(history[0], "reads")}
    assert {name: (row["reads"], row["ok"], row["failed"]) for name, row in rows.items()} == {
        "nvml": (106, 105, 1),
        "infiniband": (120, 120, 0),
        "kmsg": (2, 2, 0),
        "jobs": (1, 1, 0),
    }
    assert rows["nvml"]["last_error"] == "driver gone"
    assert rows["nvml"]["p99_seconds"] == pytest.approx(0.002)


def test_health_lists_what_happened_to_whom(history: tuple[Path, History]) -> None:
    """Events by device and kind; an event that represents several lines counts as many."""
    (row,) = ask(history[0], "health")
    assert (row["name"], row["what"], row["count"]) == ("0", "xid", 1 + 3 + 1 + 1 + 3 + 1)


def test_jobs_are_spans_with_who_they_were(tmp_path: Path) -> None:
    """First and last read of each holder of each GPU, with its facts; --device narrows to a GPU."""
    h = History()
    for second in range(60):
        h.clock.advance(1.0)
        job = "71" if second < 20 else "72"
        facts = {"uuid": gpu(0).id, "index": "0", "scheduler": "slurm", "job": job, "user": "ada"}
        h.read(
            "jobs",
            (
                "device_job",
                [
                    (
                        Device("n1", "device_job", f"{gpu(0).id}/slurm/{job}", facts),
                        {"processes": second % 3},
                    )
                ],
            ),
        )
    store(tmp_path, h.whole, h.clock, segment_bytes=60_000)
    first, second_job = ask(tmp_path, "jobs")
    assert (first["job"], first["user"], first["processes"], "pod" in first) == (
        "71",
        "ada",
        2,
        False,
    )
    assert (first["from"], first["until"]) == (
        _time(h.whole[0][0].time_ns),
        _time(h.whole[19][0].time_ns),
    )
    assert (second_job["job"], second_job["from"]) == ("72", _time(h.whole[20][0].time_ns))
    assert ask(tmp_path, "jobs", Window(devices=("GPU-another",))) == []


def test_nodes_are_the_inventory(history: tuple[Path, History]) -> None:
    """What is in the node, and since when it was read."""
    (row,) = ask(history[0], "nodes")
    assert (
        row["host"],
        row["boots"],
        row["gpus"],
        row["ib_ports"],
        row["driver"],
        row["kernel"],
    ) == (
        "n1",
        1,
        2,
        1,
        "580",
        "6.1",
    )
    assert row["first"] == _time(history[1].whole[0][0].time_ns)


@pytest.mark.slow
def test_one_device_with_every_field(history: tuple[Path, History]) -> None:
    """Only what was observed, in base units, with the number of samples."""
    fields = {
        row["field"]: row for row in ask(history[0], "device", Window(devices=("GPU-00000001",)))
    }
    assert (fields["power_watts"]["minimum"], fields["power_watts"]["samples"]) == (100.0, 60)
    assert fields["state"]["last"] == "ok"
    assert fields["ecc_corrected_volatile"]["increase"] == 10.0
    assert fields["throttled_power_cap_seconds"]["last"] == "30"
    assert "ecc_corrected_aggregate" not in fields


@pytest.mark.slow
def test_a_window_holds_for_every_question(history: tuple[Path, History]) -> None:
    """Nothing of another time is in any answer."""
    after = _time(history[1].whole[-1][0].time_ns) + timedelta(hours=5)
    for name, question in QUESTIONS.items():
        window = Window(
            after, after + timedelta(hours=1), ("GPU-00000000",) if question.about_devices else ()
        )
        assert ask(history[0], name, window) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_question_has_a_plot(history: tuple[Path, History], name: str) -> None:
    """An SVG with a panel, whatever the store holds."""
    window = Window(devices=("GPU-00000000",)) if name == "device" else ALL
    drawn = svg(QUESTIONS[name].draw(Store(history[0]), window))
    assert drawn.startswith("<svg ")
    assert drawn.count("<path") + drawn.count("<circle") > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_an_empty_store_answers_every_question(tmp_path: Path, name: str) -> None:
    """No rows, the same columns, a plot that says so."""
    window = Window(devices=("GPU-00000000",)) if name == "device" else ALL
    answer = QUESTIONS[name].ask(Store(tmp_path), window)
    assert answer.is_empty()
    assert "nothing in this time" in svg(QUESTIONS[name].draw(Store(tmp_path), window)) or name in (
        "device",
        "throttle",
    )


@pytest.mark.slow
def test_devices_are_found_by_what_people_call_them(history: tuple[Path, History]) -> None:
    """Whole id, unique beginning, index or port; a message that lists what there is otherwise."""
    asked = Store(history[0])
    for text, device in (
        ("GPU-00000001", "GPU-00000001"),
        ("0xa", "0xa0"),
        ("mlx5_0/1", "0xa0"),
        ("1", "GPU-00000001"),
    ):
        assert resolve(asked, ALL, [text]).devices == (device,)
    with pytest.raises(UnknownDeviceError, match=r"no device 'GPU-9'.*GPU-00000000"):
        resolve(asked, ALL, ["GPU-9"])
    with pytest.raises(UnknownDeviceError, match="which of"):
        resolve(asked, ALL, ["GPU-"])


def test_a_name_that_several_nodes_have_is_no_one_device(tmp_path: Path) -> None:
    """Of GPU 0 of two nodes other questions have a row each; that about one device asks which."""
    maker = StoreMaker(tmp_path)
    for host, watts in (("n1", 100), ("n2", 700)):
        one = Device(host, "gpu", f"GPU-{host}", {"index": "0"})
        frame = frame_of("gpu", [(one, {"power_milliwatts": 1000 * watts})], SECOND_NS, 0)
        maker.add(host, SECOND_NS, frames=(frame,))
    maker.close()
    window = resolve(Store(tmp_path), ALL, ["0"])
    assert [row["maximum_watts"] for row in ask(tmp_path, "power", window)] == [100.0, 700.0]
    with pytest.raises(UnknownDeviceError, match="GPU-n1, GPU-n2"):
        ask(tmp_path, "device", window)


def test_the_list_of_names_is_that_of_the_questions() -> None:
    """The command line lists them without loading them."""
    assert list(NAMES) == list(QUESTIONS)


def test_buckets_of_a_plot_are_bounded() -> None:
    """Whatever the span, a line has a bounded number of points."""
    assert all(
        seconds / step_for(seconds) <= 400
        for seconds in (1, 60, 3600, 86_400, 30 * 86_400, 365 * 86_400)
    )


def _time(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns // SECOND_NS, UTC) + timedelta(
        microseconds=time_ns % SECOND_NS // 1000
    )
