"""The shrunk covariance against scikit-learn's, the limit against the data it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.outlier.shrinkage import BINS, Scatter, bin_of, distances, tail_limit

pytestmark = pytest.mark.slow  # scikit-learn takes a second to import


@pytest.mark.parametrize("samples", [10, 40, 1000])
def test_learnt_block_by_block_it_is_what_scikit_learn_fits_to_all_of_it(samples: int) -> None:
    """The same shrinkage from running moments as from stored samples."""
    # Importing it takes a second, which every worker would pay.
    from sklearn.covariance import (  # type: ignore[import-untyped, import-not-found, unused-ignore] # of the development group  # noqa: PLC0415
        LedoitWolf,
    )

    rng = np.random.default_rng(samples)
    x = rng.standard_normal((samples, 8)) @ rng.standard_normal((8, 8))
    scatter = Scatter(np.zeros((8, 8)))
    for block in np.array_split(x, 7):
        scatter.add(block)
    assert np.allclose(scatter.covariance(), LedoitWolf(assume_centered=True).fit(x).covariance_)


def test_quantities_that_never_move_are_shrunk_too() -> None:
    """A sensor that a board does not have shows no deviation: the
    covariance can still be inverted.
    """
    x = np.random.default_rng(1).standard_normal((50, 4))
    x[:, 2] = 0.0
    scatter = Scatter(np.zeros((4, 4)))
    scatter.add(x)
    assert np.isfinite(np.linalg.inv(scatter.covariance())).all()


def test_what_each_quantity_adds_sums_to_the_distance() -> None:
    """The explanation is exact."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((5, 5))
    d2, parts = distances(rng.standard_normal((20, 5)), root @ root.T)
    assert np.allclose(parts.sum(axis=1), d2)


def test_the_limit_leaves_the_share_that_was_asked_for_beyond_it() -> None:
    """Of healthy distances, whatever their law, to the width of a bin."""
    d2 = np.random.default_rng(3).standard_t(3, 400_000) ** 2 * 10
    limit = tail_limit(np.bincount(bin_of(d2), minlength=BINS).astype(float), 1e-3)
    assert 0.8e-3 < float((d2 > limit).mean()) <= 1e-3
