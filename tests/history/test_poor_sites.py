"""Histories with holes: what is there is judged, and the report says what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.main import main
from history.importing import bring, find
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes

pytestmark = pytest.mark.slow

SPAN = (BEGIN_MS, BEGIN_MS + HOUR_MS)


def report(site: Recorded, root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code of a backtest of an import, and what it printed."""
    bring(site, find(site, *SPAN, None), root / "store", SPAN)
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


def test_a_history_of_nothing_but_nan_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No figure is made of it."""
    site = Recorded()
    nan = [(ms, float("nan")) for ms in scrapes(*SPAN, 60_000)]
    site.add("DCGM_FI_DEV_GPU_TEMP", gpu_labels("n1", 0), nan)
    (tmp_path / "store").mkdir()
    code, text = report(site, tmp_path, capsys)
    assert code == 1
    assert "nothing in this time" in text


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
