"""Histories with holes: what is there is judged, and the report says what is not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from collector.cli.main import main
from detectors import PAGES
from history.importing import bring, find
from history.site.series import STALE_BITS
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes

pytestmark = pytest.mark.slow

SPAN = (BEGIN_MS, BEGIN_MS + HOUR_MS)
STALE = struct.unpack(">d", STALE_BITS.to_bytes(8))[0]


MONTH = (BEGIN_MS, BEGIN_MS + 30 * 24 * HOUR_MS)


def report(
    site: Recorded,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    span: tuple[int, int] = SPAN,
) -> tuple[int, str]:
    """Exit code of a backtest of an import, and what it printed."""
    bring(site, find(site, *span, None), root / "store", span)
    code = main(["backtest", "--from", str(root / "store")])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_node_without_half_of_the_series_is_judged_where_it_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report says on how many nodes, and what the others lack."""
    site, times = Recorded(), scrapes(*SPAN, 30_000)
    node(site, "n1", times)
    for gpu in range(2):
        site.add("DCGM_FI_DEV_POWER_USAGE", gpu_labels("n2", gpu), [(ms, 300.0) for ms in times])
    code, text = report(site, tmp_path, capsys)
    assert code == 0
    (line,) = (line for line in text.splitlines() if line.startswith("| thermal_rack | judg"))
    assert "judged on 1 of 2 nodes; elsewhere needs gpu.temperature_celsius" in line
    (line,) = (line for line in text.splitlines() if line.startswith("| frozen | judged on"))
    assert "gpu.energy_millijoules" in line


@pytest.mark.parametrize("value", [float("nan"), STALE], ids=["NaN", "stale"])
def test_a_month_without_a_value_gives_a_report_of_what_could_not_be_judged(
    value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no figure, the number of samples, and every detector with what it needs."""
    site, times = Recorded(), scrapes(*MONTH, 60_000)
    site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", 0), [(ms, value) for ms in times])
    (tmp_path / "store").mkdir()
    code, text = report(site, tmp_path, capsys, MONTH)
    assert code == 1
    assert "nothing in this time" in text
    assert "Nothing could be judged." in text
    assert f"{len(times):,} samples had no value" in text
    for name in PAGES:
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert "| not judged: needs " in line
    assert "GPU-month" not in text


def test_an_hour_of_readings_in_a_month_of_nan_is_not_a_month_that_was_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report says what was asked for, and how little of it has readings."""
    site, times = Recorded(), scrapes(*MONTH, 60_000)
    node(site, "n1", times[:60])
    nan = [(ms, float("nan")) for ms in times[60:]]
    site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", 0), nan)
    code, text = report(site, tmp_path, capsys, MONTH)
    assert code == 0
    assert "1 node with 2 GPUs, 2026-11-21 13:00 to 2026-11-21 13:59 UTC" in text
    assert "The import covers 2026-11-21 13:00 to 2026-12-21 13:00 UTC" in text
    assert "have readings for 0 % of that" in text
    assert f"{len(nan):,} samples had no value" in text


def test_readings_of_all_the_time_that_was_asked_for_are_said_to_cover_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the last interval; no sample is said to be missing."""
    site = Recorded()
    node(site, "n1", scrapes(*SPAN, 30_000))
    _, text = report(site, tmp_path, capsys)
    assert "have readings for 99 % of that" in text
    assert "had no value" not in text


def test_labels_that_change_in_the_middle_and_two_exporters_are_one_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new driver label, another job label, a second exporter beside the first: two GPUs, and no
    alert.
    """
    site, times = Recorded(), scrapes(*SPAN, 30_000)
    middle = len(times) // 2
    node(site, "n1", times[:middle], DCGM_FI_DRIVER_VERSION="570")
    node(site, "n1", times[middle:], DCGM_FI_DRIVER_VERSION="580", hpc_job="7")
    node(site, "n1", [ms + 1_000 for ms in times], instance="n1:9401", job="second")
    code, text = report(site, tmp_path, capsys)
    assert code == 0
    assert "1 node with 2 GPUs" in text
    assert "would have sent 0 pages and 0 tickets" in text
