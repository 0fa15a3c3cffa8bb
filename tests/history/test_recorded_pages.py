"""The mapping that is proposed fits pages of exporters as they are in the field; of dcgm-exporter
4.9 none was recorded: its page was written from the release notes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from history.importing import bring, find
from pipeline.frame import Frame
from pipeline.replay import replay
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS
from tests.sources import ROOT

pytestmark = pytest.mark.slow

PAGES = ROOT / "tests" / "data" / "exporters"
SPAN = (BEGIN_MS, BEGIN_MS + HOUR_MS)


def site_of(*pages: str, **target: str) -> Recorded:
    """A site that scraped these pages of a target twice."""
    made = Recorded()
    for page in pages:
        text = (PAGES / f"{page}.txt").read_text(encoding="utf-8")
        untyped = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
        for family in text_string_to_metric_families(untyped):
            for one in family.samples:
                samples = [(BEGIN_MS + ms, one.value) for ms in (0, 30_000)]
                made.add(one.name, {**target, **_renamed(one.labels, target)}, samples)
    return made


def _renamed(labels: dict[str, str], target: dict[str, str]) -> dict[str, str]:
    """As Prometheus does with labels that the target has (honor_labels: false)."""
    return {f"exported_{k}" if k in target else k: v for k, v in labels.items()}


def frames(site: Recorded, root: Path, kind: str) -> dict[str, Frame]:
    """The first frames of an import, by host."""
    bring(site, find(site, *SPAN, None), root, SPAN)
    found: dict[str, Frame] = {}
    for observation, *_ in replay(root):
        for frame in observation.frames:
            if frame.kind == kind:
                found.setdefault(observation.host, frame)
    return found


@pytest.mark.parametrize(
    ("page", "host", "values"),
    [
        ("dcgm-1", "gpu-9", {"temperature_celsius": 34, "power_milliwatts": 31_737}),
        ("dcgm-2", "gpu-9", {"temperature_celsius": 54, "sm_clock_megahertz": 585}),
        ("dcgm-4.8", "i-030791dc5a37cd257", {"temperature_celsius": 31}),
    ],
)
def test_recorded_pages_of_dcgm_exporter_before_4_9_are_mapped(
    page: str, host: str, values: dict[str, float], tmp_path: Path
) -> None:
    """A Hostname that is the exporter's own pod is not believed; the target's address is."""
    target = {"instance": "gpu-9:9400", "job": "dcgm"}
    if page == "dcgm-2":
        target |= {"pod": "nvidia-dcgm-exporter-xpn6b", "namespace": "gpu-operator"}
    found = frames(site_of(page, **target), tmp_path, "gpu")
    assert list(found) == [host]
    for name, value in values.items():
        assert found[host].value(name, 0) == pytest.approx(value)


def test_a_page_written_from_the_release_notes_of_dcgm_exporter_4_9_is_mapped(
    tmp_path: Path,
) -> None:
    """New names and base units give native values. A page of a running 4.9 may differ."""
    site = site_of("dcgm-4.9-written", instance="gpu-9:9400", job="dcgm")
    (frame,) = frames(site, tmp_path, "gpu").values()
    assert frame.devices[0].host == "i-030791dc5a37cd257"
    assert frame.value("sm_clock_megahertz", 0) == pytest.approx(585)
    assert frame.value("power_milliwatts", 0) == pytest.approx(16_365)


def test_recorded_4_8_and_written_4_9_in_one_month_are_one_gpu(tmp_path: Path) -> None:
    """An upgrade of the exporter changes names and units, not the GPU."""
    site = site_of("dcgm-4.8", "dcgm-4.9-written", instance="x:9400", job="dcgm")
    found = frames(site, tmp_path, "gpu")["i-030791dc5a37cd257"]
    assert len(found.devices) == 1
    assert found.devices[0].attributes["driver_version"] in ("580.105.08", "595.10")


def test_treydocks_exporter_gives_ports_of_nodes(tmp_path: Path) -> None:
    """By the adapters' descriptions; bytes become words; ports of switches are counted."""
    site = site_of("treydock", instance="opensm:9315", job="ib")
    found = frames(site, tmp_path, "ib_port")
    assert set(found) == {"o0001", "o0002"}
    assert found["o0001"].value("transmit_words", 0) == 9_049_592_493_976 // 4
    assert found["o0001"].value("rate_bits_per_second", 0) == 100e9
    assert found["o0002"].value("receive_packets", 0) == 100_583_719_365


def test_guilbaults_exporter_gives_ports_of_nodes(tmp_path: Path) -> None:
    """Words stay words."""
    site = site_of("guilbaults", instance="opensm:9683", job="ib")
    root = tmp_path / "s"
    done = bring(site, find(site, *SPAN, None), root, SPAN)
    found = frames(site, tmp_path / "again", "ib_port")
    assert set(found) == {"node1", "node2"}
    assert found["node2"].value("transmit_words", 0) == 2500
    assert found["node1"].value("link_downed", 0) == 1
    skipped = {why: count for (why, _), count in done.account.skipped.items()}
    assert skipped == {"switch, or adapter of no known node": 2}


def test_a_nodes_own_exporter_is_taken_before_that_of_the_fabric(tmp_path: Path) -> None:
    """The same port is one device, and what is left out is counted."""
    site = site_of("treydock", instance="opensm:9315", job="ib")
    own = {"instance": "o0001:9100", "device": "mlx5_0", "port": "1"}
    samples = [(BEGIN_MS + ms, 7.0) for ms in (0, 30_000)]
    site.add("node_infiniband_link_downed_total", own, samples)
    done = bring(site, find(site, *SPAN, None), tmp_path / "s", SPAN)
    found = frames(site, tmp_path / "again", "ib_port")
    assert [one.id for one in found["o0001"].devices] == ["o0001/mlx5_0/1"]
    assert found["o0001"].value("link_downed", 0) == 7
    assert any(why == "node_exporter has these ports" for why, _ in done.account.skipped)


def test_nvidia_gpu_exporter_is_mapped(tmp_path: Path) -> None:
    """Base units become ours; its uuid lacks GPU-, its host is the target's."""
    site = Recorded()
    labels = {"uuid": "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa", "instance": "gpu-9:9835"}
    for name, value in (
        ("temperature_gpu", 44),
        ("power_draw_watts", 20.29),
        ("utilization_gpu_ratio", 0.97),
        ("clocks_current_sm_clock_hz", 1.98e9),
    ):
        site.add(f"nvidia_smi_{name}", labels, [(BEGIN_MS, value), (BEGIN_MS + 30_000, value + 1)])
    (frame,) = frames(site, tmp_path, "gpu").values()
    assert frame.devices[0].id == "GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
    assert frame.value("power_milliwatts", 0) == pytest.approx(20_290)
    assert frame.value("gpu_utilization_percent", 0) == 97
    assert frame.value("sm_clock_megahertz", 0) == 1980
