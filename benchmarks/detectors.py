"""What judging costs: all detectors per tick for 8 to 100,000 GPUs, memory per GPU, and the
numerics beside their limits and peers.

Everything in one run. The limit is a compiled loop over the same streams of memory; peers are river
and scikit-learn, per sample.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._fleet import observations
from detectors import DETECTORS
from detectors.kit.snapshot import Snapshotable
from detectors.kit.stats import Moments, cusum, ew_update, median_mad
from detectors.kit.stats.peers import SIGMA
from pipeline.child import run
from pipeline.extras import how_to_add
from pipeline.interfaces import Detector
from pipeline.observation import Observation
from pipeline.rates import Rates

SIZES = (8, 1_000, 10_000, 100_000)
TICKS = 18  # of 10 s: three blocks of a minute; the first is left out
WARM = 6
PERIOD_S = 10.0
GOALS_MS = {10_000: 20.0, 100_000: 1000.0}
FIELDS, ROUNDS = 30, 7
BOUND_GOAL, MEDIAN_GOAL = 0.15, 6.0
LOOP = """
void moments(const double *x, double *m, double *v, long n, double a) {
  for (long i = 0; i < n; i++) { double e = x[i] - m[i]; m[i] += a * e; v[i] = (1 - a) * (v[i] + a * e * e); }
}
void cusum(const double *z, double *s, long n, double k) {
  for (long i = 0; i < n; i++) { double t = s[i] + z[i] - k; s[i] = t > 0 ? t : 0; }
}
"""  # noqa: E501 - text as it is used


class Judged:
    """All detectors over one fleet, each timed."""

    def __init__(self) -> None:
        self.detectors: list[Detector] = [make() for make in DETECTORS.values()]
        self.spent_s = dict.fromkeys((*DETECTORS, "rates"), 0.0)
        self._rates: dict[tuple[str, str], Rates] = {}

    def take(self, observation: Observation) -> None:
        """One observation, as the engine gives it."""
        begun = time.process_time()
        whole = replace(observation, frames=tuple(self._increments(observation)))
        self.spent_s["rates"] += time.process_time() - begun
        for detector in self.detectors:
            begun = time.process_time()
            list(detector.update(whole))
            self.spent_s[detector.name] += time.process_time() - begun

    def _increments(self, observation: Observation) -> Iterator[Any]:
        for frame in observation.frames:
            rates = self._rates.setdefault(
                (observation.source, frame.kind), Rates(frame.schema, PERIOD_S)
            )
            yield rates.add(frame, observation.boot_id)

    def memory(self) -> tuple[int, int]:
        """Bytes that detectors keep: of numbers, and of texts (identities, findings),
        as a snapshot writes them.
        """
        kept = [
            detector.state() for detector in self.detectors if isinstance(detector, Snapshotable)
        ]
        arrays = [array for state in kept for array in state.values()]
        texts = sum(array.nbytes for array in arrays if array.dtype == np.uint8)
        return sum(array.nbytes for array in arrays) - texts, texts


def judging(gpus: int) -> bool:
    """CPU per tick with all detectors on; True where the goal is met, or there is none."""
    judged, ticks, worst, begun = Judged(), 0, 0.0, 0.0
    for observation in observations(gpus, TICKS):
        if observation.source == "nvml":
            ticks += 1
            if ticks == WARM + 1:
                judged.spent_s = dict.fromkeys(judged.spent_s, 0.0)
            begun = sum(judged.spent_s.values())
        judged.take(observation)
        if ticks > WARM:
            worst = max(worst, sum(judged.spent_s.values()) - begun)
    counted = ticks - WARM
    total_ms = sum(judged.spent_s.values()) / counted * 1e3
    goal = GOALS_MS.get(gpus)
    verdict = (
        "" if goal is None else f", goal <= {goal:g}: {'met' if total_ms <= goal else 'MISSED'}"
    )
    print(
        f"{gpus:>7} GPUs: {total_ms:9.2f} ms a tick ({total_ms / gpus * 1e6:9.0f} ns per GPU), "
        f"worst {worst * 1e3:.1f}{verdict}"
    )
    dear = sorted(judged.spent_s.items(), key=lambda item: -item[1])[:6]
    print("         " + ", ".join(f"{name} {spent / counted * 1e3:.2f}" for name, spent in dear))
    numbers, texts = judged.memory()
    print(
        f"         memory per GPU with its port: {numbers / gpus:.0f} bytes of numbers, "
        f"{texts / gpus:.0f} of texts in a snapshot"
    )
    return goal is None or total_ms <= goal


def least(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Microseconds of CPU, the least over several rounds: others may share the core."""
    costs = []
    for _ in range(rounds):
        begun = time.process_time_ns()
        work()
        costs.append((time.process_time_ns() - begun) / 1000)
    return min(costs)


def numerics(devices: int, loops: ctypes.CDLL) -> bool:
    """Means and CUSUM of 30 fields against a compiled loop over the same memory; the
    cross-device median against numpy's.
    """
    rng = np.random.default_rng(1)
    n = devices * FIELDS
    samples = [rng.standard_normal(n) for _ in range(4)]
    moments, s = Moments.zeros(n), np.zeros(n)
    moments.n[:] = 1000
    m, v = np.zeros(n), np.ones(n)
    repeat = max(1, 300_000 // n)

    def each(work: Callable[[NDArray[np.float64]], object]) -> float:
        return least(lambda: [work(samples[i % 4]) for i in range(repeat)]) / repeat

    ours = each(lambda x: ew_update(moments, x, 0.01, 0.1))
    bound = each(lambda x: loops.moments(_at(x), _at(m), _at(v), n, ctypes.c_double(0.01)))
    ours_cusum = each(lambda x: s.__setitem__(slice(None), cusum(s, x, 0.5, 8.0)))
    bound_cusum = each(lambda x: loops.cusum(_at(x), _at(v), n, ctypes.c_double(0.5)))
    shares = bound / ours, bound_cusum / ours_cusum
    print(
        f"{devices:>7} x {FIELDS}: means {ours:9.0f} us, loop {bound:8.0f} us, {shares[0]:.2f} of "
        f"the bound; CUSUM {ours_cusum:8.0f} us, loop {bound_cusum:7.0f} us, {shares[1]:.2f}"
    )
    return min(shares) >= BOUND_GOAL


def medians(devices: int) -> bool:
    """Cross-device median and MAD, (field, device), against numpy's median twice, without
    and with missing values.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((FIELDS, devices))
    holes = np.where(rng.random(x.shape) < 0.01, np.nan, x)
    work = np.empty_like(x)
    ratios = []
    medians: tuple[tuple[str, NDArray[np.float64], Any], ...] = (
        ("median", x, np.median),
        ("nanmedian", holes, np.nanmedian),
    )
    for name, values, median in medians:
        theirs = partial(_mad, median, values)
        same = np.allclose(median_mad(values)[1], SIGMA * theirs())
        ours_us, theirs_us = least(partial(median_mad, values, work)), least(theirs)
        ratios.append(theirs_us / ours_us)
        print(
            f"{devices:>7} x {FIELDS}: MAD {ours_us:8.0f} us, np.{name} twice {theirs_us:8.0f} us, "
            f"{ratios[-1]:.1f}x{'' if same else ', AND ANOTHER ANSWER'}"
        )
    return min(ratios) >= MEDIAN_GOAL


def _mad(median: Any, values: NDArray[np.float64]) -> Any:
    """Median absolute deviation of each row, as one writes it."""
    return median(np.abs(values - median(values, axis=1)[:, None]), axis=1)


def peers() -> None:
    """Per-sample rates of river and scikit-learn, one feature vector or value at a time."""
    try:
        anomaly, drift, stats, ensemble = map(
            _extra, ("river.anomaly", "river.drift", "river.stats", "sklearn.ensemble")
        )
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed: {how_to_add('baselines')}")
        return
    rng = np.random.default_rng(3)
    values = rng.standard_normal(2000).tolist()
    mean, adwin, forest = (
        stats.EWMean(),
        drift.ADWIN(),
        anomaly.HalfSpaceTrees(n_trees=10, height=8, window_size=250),
    )
    rows = [{f"f{i}": x for i, x in enumerate(row)} for row in rng.random((500, 10)).tolist()]
    print(
        f"river, per sample: EWMean {least(lambda: [mean.update(x) for x in values]) / 2000:.2f} "
        f"us, ADWIN {least(lambda: [adwin.update(x) for x in values]) / 2000:.2f} us,"
        " HalfSpaceTrees (10 trees, 10 features) "
        f"{least(lambda: [forest.learn_one(r) for r in rows], 3) / 500:.1f} us"
    )
    x = rng.standard_normal((10_000, FIELDS))
    trees = ensemble.IsolationForest(n_estimators=100, n_jobs=1, random_state=1)
    fit, score, one = (
        least(lambda: trees.fit(x), 3),
        least(lambda: trees.score_samples(x), 3),
        least(lambda: trees.score_samples(x[:1]), 3),
    )
    print(
        f"scikit-learn IsolationForest, 100 trees, 10,000 x {FIELDS}: fit {fit / 1e3:.0f} ms, "
        f"score {score / 1e3:.0f} ms, one row {one / 1e3:.1f} ms"
    )


def compiled(folder: Path) -> ctypes.CDLL:
    """The loops, compiled for this processor's generation."""
    source, target = folder / "loops.c", folder / "loops.so"
    source.write_text(LOOP)
    done = run(
        [
            "gcc",
            "-O3",
            "-march=x86-64-v3",
            "-ffast-math",
            "-shared",
            "-fPIC",
            "-o",
            str(target),
            str(source),
        ],
        timeout_s=60,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr.decode())
    return ctypes.CDLL(str(target))


def _extra(name: str) -> Any:
    return importlib.import_module(name)


def _at(array: NDArray[np.float64]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main() -> int:
    """Print everything; 1 where a goal is missed."""
    print(
        f"python {sys.version.split()[0]}, numpy {np.__version__}; {len(DETECTORS)} detectors, a "
        "tick is one reading of all sources"
    )
    met = []
    for gpus in SIZES:
        met.append(judging(gpus))
        gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        loops = compiled(Path(folder))
        met += [numerics(devices, loops) for devices in SIZES[1:]]
    met += [medians(devices) for devices in SIZES[1:]]
    peers()
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
