"""Baselines that learn: EWMA, half-space trees, isolation forest; what they find, and what they find that is not there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from detectors.baselines.ewma import EwmaZ
from detectors.baselines.features import SPAN, NotInstalledError, features
from detectors.baselines.half_space_trees import HalfSpaceTrees
from detectors.baselines.isolation_forest import IsolationForest
from pipeline.frame import frame_of
from tests.detectors.baselines.world import Node
from tests.fakes import gpu


def busy(mhz: float = 1900, watts: float = 600, celsius: float = 60, util: float = 100) -> dict[str, float]:
    """A GPU at work."""
    return {
        "gpu_utilization_percent": util,
        "sm_clock_megahertz": mhz,
        "power_milliwatts": watts * 1000,
        "temperature_celsius": celsius,
        "memory_temperature_celsius": celsius + 9,
        "tensor_activity_percent": 40,
        "dram_activity_percent": 40,
    }


def test_ewma_tells_a_drop_of_the_clock_at_once() -> None:
    """After an hour at 1900 MHz within 10, 1700 MHz are twenty sigma: a page in the first reading, cleared when it ends."""
    node, rng = Node(EwmaZ()), np.random.default_rng(1)
    for _ in range(360):
        assert node.gpus(busy(1900 + float(rng.normal(0, 10)))) == []
    (onset,) = node.gpus(busy(1700))
    assert (onset.fault, onset.severity, onset.value > 6) == ("straggler", "page", True)
    assert [f.phase for f in node.gpus(busy(1900))] == ["cleared"]


def test_ewma_pages_for_a_new_job_and_never_learns_it() -> None:
    """A job that draws 200 W less is flagged, flagged samples are not learnt, so it stays flagged: why nobody ships this."""
    node = Node(EwmaZ())
    node.gpus(busy(watts=600), steps=360)
    assert [f.fault for f in node.gpus(busy(watts=400))] == ["power"]
    assert node.gpus(busy(watts=400), steps=1000) == []


def test_ewma_leaves_idle_gpus_alone() -> None:
    """A pause of the job is no drop of the clock."""
    node = Node(EwmaZ())
    node.gpus(busy(), steps=360)
    assert node.gpus(busy(mhz=300, watts=75, util=0), steps=10) == []


def test_ewma_keeps_what_it_learnt_when_a_gpu_joins() -> None:
    """A second GPU starts cold, the first still knows its past."""
    node = Node(EwmaZ())
    node.gpus(busy(), steps=360)
    assert [f.device for f in node.gpus(busy(1000), busy(1000))] == [gpu(0)]


def test_features_are_distances_from_the_peers() -> None:
    """Seven GPUs at 60 degrees and one at 75, half of the span above: 0.5 for all but that one, 0.75 for it; idle GPUs have none."""
    rows = [(gpu(i), busy(celsius=75 if i == 7 else 60)) for i in range(8)] + [(gpu(8), busy(util=0))]
    made = features(frame_of("gpu", rows, 0, 0))[:, [*SPAN].index("temperature_celsius")]
    assert made[:8].tolist() == [0.5] * 7 + [0.75]
    assert np.isnan(made[8])


def test_too_few_peers_are_no_peers() -> None:
    """Three busy GPUs have no common median."""
    assert np.isnan(features(frame_of("gpu", [(gpu(i), busy()) for i in range(3)], 0, 0))).all()


@pytest.mark.parametrize(
    ("make", "module", "package"), [(HalfSpaceTrees, "river", "river"), (IsolationForest, "sklearn.ensemble", "scikit-learn")]
)
def test_what_is_not_installed_is_named(make: type, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package a baseline says which one and how to get it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NotInstalledError, match=rf"needs {package}, which is not installed: pip install 'tocsin\[baselines\]'"):
        make()


def test_half_space_trees_find_one_gpu_that_is_far_out() -> None:
    """After hours of eight equal GPUs, one that is 200 MHz, 25 K and 200 W off is a ticket within 6 blocks, and no other is."""
    pytest.importorskip("river", reason="the extra `baselines` is not installed: river")
    node, rng = Node(HalfSpaceTrees()), np.random.default_rng(1)
    for _ in range(6 * 250):
        node.gpus(*(busy(float(rng.normal(1900, 10)), float(rng.normal(600, 5)), float(rng.normal(60, 1))) for _ in range(8)))
    node.said.clear()
    for _ in range(36):
        node.gpus(*(busy(1700, 400, 85) if i == 3 else busy(float(rng.normal(1900, 10))) for i in range(8)))
    assert {f.device for f in node.said if f.phase == "onset"} == {gpu(3)}


def test_isolation_forest_lists_the_odd_gpu_hour() -> None:
    """After 40 hours of eight equal GPUs (it wants 256 GPU-hours), one that is far off for an hour is on the list of the next; nobody before."""
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed: scikit-learn")
    node, rng = Node(IsolationForest()), np.random.default_rng(1)
    for hour in range(42):
        for _ in range(12):  # twelve readings stand for an hour
            node.clock.advance(290)
            sick = 3 if hour == 40 else -1
            node.gpus(
                *(
                    busy(1600, 300, 88) if i == sick else busy(float(rng.normal(1900, 20)), float(rng.normal(600, 9)))
                    for i in range(8)
                )
            )
    onsets = [f for f in node.said if f.phase == "onset"]
    assert [f.device for f in onsets] == [gpu(3)]
