"""Blocks of a Prometheus are read by promtool's dump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from history.importing import understood
from history.site import dump
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


@pytest.mark.integration
def test_a_metric_that_is_known_is_not_missed_however_rare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sample in two days, between the minutes that are looked at; asked in halves where an
    answer is too long. What is known and not there is not named.
    """
    site, span = Recorded(), (BEGIN_MS, BEGIN_MS + 48 * HOUR_MS)
    node(site, "n1", scrapes(*span, 300_000, offset_ms=150_000), gpus=1)
    site.add("ALERTS", {"alertname": "a.b"}, [(BEGIN_MS + 5 * HOUR_MS + 90_000, 1.0)])
    site.add("other", {}, [(BEGIN_MS, 1.0)])
    text = tmp_path / "in.om"
    text.write_text(site.text(1000) + "# EOF\n")
    argv = ["tsdb", "create-blocks-from", "openmetrics", str(text), str(tmp_path / "data")]
    promtool = need("promtool", "prometheus")
    subprocess.run([promtool, *argv], check=True, capture_output=True, timeout=PATIENCE_S)
    monkeypatch.setattr(dump, "MAX_BYTES", 60_000)
    for known in (frozenset[str](), understood()):
        names = Blocks(tmp_path / "data", known=known).names(*span)
        assert set(names) == {"other", *(known & set(site.names(*span)))}


@pytest.mark.parametrize("line", ["garbage", '{__name__="m"} x 5', '{__name__="m"} 5', "{} 1 2"])
def test_a_line_that_is_no_sample_is_an_error(line: str) -> None:
    """It is shown."""
    with pytest.raises(SiteError, match=re.escape(repr(line))):
        list(parsed([line]))


def test_native_histograms_of_a_site_are_passed_over() -> None:
    """As promtool prints them (model/histogram, String): no metric that is read is one."""
    lines = [
        '{__name__="h", a="x"} {count:12, sum:18.4, [-4,-2):2, (1,2]:3} 1795266000000',
        '{__name__="h", a="x"} {count:0, sum:0} 1795266015000',
        '{__name__="m", a="x} {count:1} 5"} 59 1795266000000',
    ]
    ((labels, value, ms),) = parsed(lines)
    assert (labels["__name__"], value, ms) == ("m", 59.0, 1795266000000)


def test_a_folder_without_blocks_is_refused(tmp_path: Path) -> None:
    """And a damaged block is named."""
    with pytest.raises(SiteError, match="no blocks"):
        Blocks(tmp_path)
    (tmp_path / "01X").mkdir()
    (tmp_path / "01X" / "meta.json").write_text("{")
    with pytest.raises(SiteError, match=re.escape("meta.json")):
        Blocks(tmp_path)
