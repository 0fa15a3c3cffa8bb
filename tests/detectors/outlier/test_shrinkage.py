"""The shrunk covariance against scikit-learn's, the limit against the data it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.outlier.shrinkage import BINS, Scatters, bin_of, distances, tail_limit

pytestmark = pytest.mark.slow  # scikit-learn takes a second to import


@pytest.mark.parametrize("samples", [10, 40, 1000])
def test_learnt_block_by_block_it_is_what_scikit_learn_fits_to_all_of_it(samples: int) -> None:
    """The same shrinkage from running moments as from stored samples, of each of two models."""
    # Importing it takes a second, which every worker would pay.
    from sklearn.covariance import (  # type: ignore[import-untyped, import-not-found, unused-ignore] # of the development group  # noqa: PLC0415
        LedoitWolf,
    )

    rng = np.random.default_rng(samples)
    x = rng.standard_normal((samples, 8)) @ rng.standard_normal((8, 8))
    other = rng.standard_normal((3 * samples, 8)) + 1.0
    scatters = Scatters(8, models=2)
    for blocks in zip(np.array_split(x, 7), np.array_split(other, 7), strict=True):
        model = np.repeat([1, 0], [len(block) for block in blocks])
        mixed = rng.permutation(len(model))
        scatters.add(np.concatenate(blocks)[mixed].T, model[mixed])
    for learnt, data in zip(scatters.covariance(np.array([1, 0])), (x, other), strict=True):
        assert np.allclose(learnt, LedoitWolf(assume_centered=True).fit(data).covariance_)


def test_quantities_that_never_move_are_shrunk_too() -> None:
    """A sensor that a board does not have shows no deviation: the
    covariance can still be inverted.
    """
    x = np.random.default_rng(1).standard_normal((50, 4))
    x[:, 2] = 0.0
    scatters = Scatters(4, models=1)
    scatters.add(x.T, np.zeros(50, np.intp))
    assert np.isfinite(np.linalg.inv(scatters.covariance(np.array([0])))).all()


def test_what_each_quantity_adds_sums_to_the_distance() -> None:
    """The explanation is exact."""
    rng = np.random.default_rng(2)
    roots = rng.standard_normal((3, 5, 5))
    precision, y, model = (
        roots @ roots.transpose(0, 2, 1),
        rng.standard_normal((5, 20)),
        rng.integers(0, 3, 20),
    )
    d2, parts = distances(y, precision, model)
    assert np.allclose(parts.sum(axis=0), d2)
    assert np.allclose(d2, [one @ precision[of] @ one for one, of in zip(y.T, model, strict=True)])


def test_the_limit_leaves_the_share_that_was_asked_for_beyond_it() -> None:
    """Of healthy distances, whatever their law, to the width of a bin."""
    d2 = np.random.default_rng(3).standard_t(3, 400_000) ** 2 * 10
    limit = tail_limit(np.bincount(bin_of(d2), minlength=BINS).astype(float), 1e-3)
    assert 0.8e-3 < float((d2 > limit).mean()) <= 1e-3
