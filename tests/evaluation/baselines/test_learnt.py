"""Baselines that learn: EWMA, half-space trees, isolation forest; what they find, and what
they find that is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

import numpy as np
import pytest

from evaluation.baselines import BASELINES, LIBRARIES, require
from evaluation.baselines.ewma import EwmaZ
from evaluation.baselines.features import SPAN, NotInstalledError, features
from evaluation.baselines.half_space_trees import HalfSpaceTrees
from evaluation.baselines.isolation_forest import IsolationForest
from pipeline.frame import frame_of
from tests.evaluation.baselines.world import Node
from tests.fakes import gpu


def busy(
    mhz: float = 1900, watts: float = 600, celsius: float = 60, util: float = 100
) -> dict[str, float]:
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
    """After an hour at 1900 MHz within 10, 1700 MHz are twenty sigma: a page in the first
    reading, cleared when it ends.
    """
    node, rng = Node(EwmaZ()), np.random.default_rng(1)
    for _ in range(360):
        assert node.gpus(busy(1900 + float(rng.normal(0, 10)))) == []
    (onset,) = node.gpus(busy(1700))
    assert (onset.fault, onset.severity, onset.value > 6) == ("straggler", "page", True)
    assert [f.phase for f in node.gpus(busy(1900))] == ["cleared"]


@pytest.mark.slow
def test_ewma_pages_for_a_new_job_and_never_learns_it() -> None:
    """A job that draws 200 W less is flagged, flagged samples are not learnt, so it stays
    flagged: why this is not shipped.
    """
    node = Node(EwmaZ())
    node.gpus(busy(watts=600), steps=360)
    assert [f.fault for f in node.gpus(busy(watts=400))] == ["power"]
    assert node.gpus(busy(watts=400), steps=1000) == []


def test_ewma_leaves_idle_gpus_alone() -> None:
    """A pause of the job is no drop of the clock."""
    node = Node(EwmaZ())
    node.gpus(busy(), steps=360)
    assert node.gpus(busy(mhz=300, watts=75, util=0), steps=10) == []


@pytest.mark.slow
def test_ewma_keeps_what_it_learnt_when_a_gpu_joins() -> None:
    """A second GPU starts cold, the first still knows its past."""
    node = Node(EwmaZ())
    node.gpus(busy(), steps=360)
    assert [f.device for f in node.gpus(busy(1000), busy(1000))] == [gpu(0)]


def test_features_are_distances_from_the_peers() -> None:
    """Seven GPUs at 60 degrees and one at 75, half of the span above: 0.5 for all but that one,
    0.75 for it; idle GPUs have none.
    """
    rows = [(gpu(i), busy(celsius=75 if i == 7 else 60)) for i in range(8)] + [
        (gpu(8), busy(util=0))
    ]
    made = features(frame_of("gpu", rows, 0, 0))[:, [*SPAN].index("temperature_celsius")]
    assert made[:8].tolist() == [0.5] * 7 + [0.75]
    assert np.isnan(made[8])


def test_too_few_peers_are_no_peers() -> None:
    """Three busy GPUs have no common median."""
    assert np.isnan(features(frame_of("gpu", [(gpu(i), busy()) for i in range(3)], 0, 0))).all()


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [(HalfSpaceTrees, "river", "river"), (IsolationForest, "sklearn.ensemble", "scikit-learn")],
)
def test_what_is_not_installed_is_named(
    make: type, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package a baseline says which one and how to get it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        NotInstalledError,
        match=rf"needs {package}, which is not installed: pip install 'tocsin\[baselines\]'",
    ):
        make()


@pytest.mark.parametrize("name", BASELINES)
def test_a_library_is_looked_for_without_importing_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A score asks at its start whether a baseline can take part, and says of which it cannot."""
    before = set(sys.modules)
    require(name)
    assert not {module.partition(".")[0] for module in set(sys.modules) - before}
    module, package = LIBRARIES.get(name, ("", ""))
    monkeypatch.setitem(sys.modules, module, None)
    if package:
        with pytest.raises(NotInstalledError, match=f"needs {package}, which is not installed"):
            require(name)


@pytest.mark.slow
def test_half_space_trees_find_one_gpu_that_is_far_out() -> None:
    """After hours of eight equal GPUs, one that is 200 MHz, 25 K and 200 W off is a ticket within 6
    blocks, and no other is.
    """
    pytest.importorskip("river", reason="the extra `baselines` is not installed: river")
    node, rng = Node(HalfSpaceTrees()), np.random.default_rng(1)
    for _ in range(6 * 250):
        node.gpus(
            *(
                busy(
                    float(rng.normal(1900, 10)), float(rng.normal(600, 5)), float(rng.normal(60, 1))
                )
                for _ in range(8)
            )
        )
    node.findings.clear()
    for _ in range(36):
        node.gpus(
            *(
                busy(1700, 400, 85) if i == 3 else busy(float(rng.normal(1900, 10)))
                for i in range(8)
            )
        )
    assert {f.device for f in node.findings if f.phase == "onset"} == {gpu(3)}


def eight(rng: np.random.Generator, odd: Collection[int] = ()) -> list[dict[str, float]]:
    """Eight GPUs at the same work, of which some are far off."""
    usual = [
        busy(float(rng.normal(1900, 10)), float(rng.normal(600, 5)), float(rng.normal(60, 1)))
        for _ in range(8)
    ]
    return [busy(1700, 400, 85) if i in odd else values for i, values in enumerate(usual)]


@pytest.mark.slow
def test_half_space_trees_say_nothing_in_their_first_window() -> None:
    """River scores 0 until the window of 250 samples (Tan, Ting and Liu 2011: the reference mass)
    is full: 31 blocks of eight GPUs.
    """
    pytest.importorskip("river", reason="the extra `baselines` is not installed: river")
    node, rng = Node(HalfSpaceTrees()), np.random.default_rng(1)
    for _ in range(31 * 6):
        assert node.gpus(*eight(rng, odd={3})) == []


@pytest.mark.slow
def test_half_space_trees_get_used_to_anomalies_that_are_packed_into_a_window() -> None:
    """River's page says that they do not work well then: two GPUs that stay as degraded as they
    were are reported, and cleared within a window.
    """
    pytest.importorskip("river", reason="the extra `baselines` is not installed: river")
    node, rng = Node(HalfSpaceTrees()), np.random.default_rng(1)
    for _ in range(70 * 6):
        assert node.gpus(*eight(rng)) == []
    for _ in range(2 * 32 * 6):
        node.gpus(*eight(rng, odd={1, 3}))
    assert [(f.device, f.phase) for f in node.findings] == [
        (gpu(i), phase) for phase in ("onset", "cleared") for i in (1, 3)
    ]


@pytest.mark.slow
def test_isolation_forest_lists_the_odd_gpu_hour() -> None:
    """After 40 hours of eight equal GPUs (it wants 256 GPU-hours), one that is far off for an hour
    is on the list of the next; not before.
    """
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed: scikit-learn")
    node, rng = Node(IsolationForest()), np.random.default_rng(1)
    for hour in range(42):
        for _ in range(12):  # twelve readings represent an hour
            node.clock.advance(290)
            degraded = 3 if hour == 40 else -1
            node.gpus(
                *(
                    busy(1600, 300, 88)
                    if i == degraded
                    else busy(float(rng.normal(1900, 20)), float(rng.normal(600, 9)))
                    for i in range(8)
                )
            )
    onsets = [f for f in node.findings if f.phase == "onset"]
    assert [f.device for f in onsets] == [gpu(3)]


def sixteen(
    judge: IsolationForest, hours: int, degraded: Collection[int], since_hour: int = 0
) -> Node:
    """Sixteen GPUs, their first 256 hours in 16; some are off from an hour on, with as
    much noise as the others.
    """
    node, rng = Node(judge), np.random.default_rng(1)
    for hour in range(hours):
        for _ in range(6):  # six readings represent an hour
            node.clock.advance(590)
            off = degraded if hour >= since_hour else ()
            noise = rng.normal(0, (20, 9), (16, 2)).tolist()
            node.gpus(
                *(
                    busy(1750 + mhz, 450 + w, 78) if i in off else busy(1900 + mhz, 600 + w)
                    for i, (mhz, w) in enumerate(noise)
                )
            )
    return node


@pytest.mark.slow
def test_isolation_forest_scores_gpus_that_are_all_alike_at_about_one_half() -> None:
    """No distinct anomaly in the sample, says Liu et al.

    (2008, section 2), when all scores are near 0.5: at the limit of 0.65 none is listed.
    """
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed: scikit-learn")
    scores = [
        f.value for f in sixteen(IsolationForest(limit=0.4), 18, ()).findings if f.phase == "onset"
    ]
    assert len(scores) >= 8
    assert max(scores) < IsolationForest().limit


@pytest.mark.slow
def test_isolation_forest_is_masked_by_many_alike() -> None:
    """Too many anomalies hide each other (masking, Liu et al. 2008, section 3): one GPU is listed;
    four that were so from the start are not.
    """
    pytest.importorskip("sklearn", reason="the extra `baselines` is not installed: scikit-learn")
    assert {f.device for f in sixteen(IsolationForest(), 19, {3}, since_hour=17).findings} == {
        gpu(3)
    }
    assert sixteen(IsolationForest(), 19, {3, 4, 5, 6}).findings == []
