"""Blocks of a Prometheus are read by promtool's dump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from history.site.dump import Blocks, parsed
from history.site.series import SiteError
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, node, scrapes
from tests.parts import need
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow

HOSTILE = 'a "quoted" \\ back} 1 2\nslash'


@pytest.mark.integration
def test_the_same_samples_as_were_put_into_blocks(tmp_path: Path) -> None:
    """With real promtool, whatever a label holds; a span cuts."""
    site, times = Recorded(), scrapes(BEGIN_MS, BEGIN_MS + HOUR_MS, 60_000)
    node(site, "n1", times, note=HOSTILE)
    text = tmp_path / "in.om"
    text.write_text(site.text(1000) + "# EOF\n")
    argv = ["tsdb", "create-blocks-from", "openmetrics", str(text), str(tmp_path / "data")]
    subprocess.run(
        [need("promtool", "prometheus"), *argv], check=True, capture_output=True, timeout=PATIENCE_S
    )
    blocks = Blocks(tmp_path / "data")
    assert (blocks.begin_ms, blocks.end_ms) == (times[0], times[-1] + 1)
    span = (BEGIN_MS + 60_000, BEGIN_MS + HOUR_MS // 2)
    assert "DCGM_FI_DEV_GPU_TEMP" in blocks.names(*span)
    wanted = {str(sorted(s.labels.items())): s for s in site.read("DCGM_FI_DEV_GPU_TEMP", *span)}
    got = list(blocks.read("DCGM_FI_DEV_GPU_TEMP", *span))
    assert {str(sorted(one.labels.items())) for one in got} == set(wanted)
    for one in got:
        same = wanted[str(sorted(one.labels.items()))]
        assert one.times_ms.tolist() == same.times_ms.tolist()
        assert one.values.tolist() == same.values.tolist()


@pytest.mark.parametrize("line", ["garbage", '{__name__="m"} x 5', '{__name__="m"} 5', "{} 1 2"])
def test_a_line_that_is_no_sample_is_an_error(line: str) -> None:
    """It is shown."""
    with pytest.raises(SiteError, match=re.escape(repr(line))):
        list(parsed([line]))


def test_a_folder_without_blocks_is_refused(tmp_path: Path) -> None:
    """And a damaged block is named."""
    with pytest.raises(SiteError, match="no blocks"):
        Blocks(tmp_path)
    (tmp_path / "01X").mkdir()
    (tmp_path / "01X" / "meta.json").write_text("{")
    with pytest.raises(SiteError, match=re.escape("meta.json")):
        Blocks(tmp_path)
