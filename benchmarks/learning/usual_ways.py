"""Ways to go on after another driver, for detectors/thermal/rack.py: what is usual of the GPUs of a
node changes, and is learnt again, or not.

Two of them are river's; both learn from minutes in the order in which they are judged, so a replay
learns the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.instants import Times
from detectors.thermal.rack import LEARNT, ThermalRack

WATCHED_MINUTES = 24 * 60
QUIET_MINUTES = 60  # without drift: the level is settled
EXAMPLES = 32  # GPUs of a model that have learnt the new level before it is taken for others


class Ignored(ThermalRack):
    """Nothing is learnt again, as before the rule: a new level is accepted after two days."""

    def _new_software(self, rows: NDArray[np.bool_]) -> None:
        """It is not noticed."""


class Again(ThermalRack):
    """Each GPU learns again, whatever others have learnt."""

    def _new_software(self, rows: NDArray[np.bool_]) -> None:
        self._columns.reset(rows, "u", "watts", "m", "n")


class Drifting(Again):
    """river's ADWIN: for a day after another version what is usual of a node is learnt from the
    newest drift on, and it is judged when an hour went by without one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._watch: dict[str, tuple[Any, int, int]] = {}  # host: ADWIN, minutes, quiet minutes

    def _new_software(self, rows: NDArray[np.bool_]) -> None:
        super()._new_software(rows)
        for row in np.flatnonzero(rows).tolist():
            self._watch[self._columns.devices[row].host] = (_adwin(), 0, 0)

    def _learn(
        self, u: NDArray[np.float64], racks: NDArray[np.int64], hosts: NDArray[np.int64]
    ) -> None:
        for host, (adwin, minutes, before) in list(self._watch.items()):
            quiet = before
            rows = hosts == self._hosts.names.index(host)
            known = u[rows][np.isfinite(u[rows])]
            if len(known):
                adwin.update(float(np.median(known)))
                quiet = 0 if adwin.drift_detected else before + 1
            if adwin.drift_detected or quiet < QUIET_MINUTES:
                keep = np.minimum(self._columns["n"], LEARNT - 2)
                self._columns["n"] = np.where(rows, keep, self._columns["n"])
            self._watch[host] = (adwin, minutes + 1, quiet)
            if minutes >= WATCHED_MINUTES:
                del self._watch[host]
        super()._learn(u, racks, hosts)


class Regressed(ThermalRack):
    """river's online regression, one for each model and versions: what another version adds, of the
    power, is learnt from the nodes that had it first, and taken for those that follow at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._models: dict[str, Any] = {}
        self._examples: dict[str, int] = {}
        # row: what was usual at which kilowatts, model and version
        self._before: dict[int, tuple[float, float, str]] = {}

    def _new_software(self, rows: NDArray[np.bool_]) -> None:
        columns = self._columns
        for row in np.flatnonzero(rows).tolist():
            device = columns.devices[row]
            key = f"{device.attributes.get('name')} {device.attributes.get('driver_version')}"
            usual = float(columns["m"][row])
            learnt, last = bool(columns["n"][row] >= LEARNT), columns["watts"][:, row]
            kilowatts = float(np.nanmean(last)) / 1000 if np.isfinite(last).any() else 0.5
            one = np.array([row])
            columns.reset(one, "u", "watts")
            if learnt and self._examples.get(key, 0) >= EXAMPLES:
                columns["m"][row] += self._models[key].predict_one({"kW": kilowatts})
                continue
            if learnt:
                self._before[row] = usual, kilowatts, key
            columns.reset(one, "m", "n")

    def _block(self, at: Times) -> Any:
        yield from super()._block(at)
        for row, (usual, kilowatts, key) in list(self._before.items()):
            if self._columns["n"][row] >= LEARNT:
                model = self._models.setdefault(key, _regression())
                model.learn_one({"kW": kilowatts}, float(self._columns["m"][row]) - usual)
                self._examples[key] = self._examples.get(key, 0) + 1
                del self._before[row]


def _adwin() -> Any:
    from river import drift as found  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    drift: Any = found
    return drift.ADWIN()


def _regression() -> Any:
    from river import linear_model, optim  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415 - an extra

    return linear_model.LinearRegression(optimizer=optim.SGD(0.1))


WAYS: Mapping[str, Callable[[], ThermalRack]] = {
    "nothing": Ignored,
    "learnt again": Again,
    "shift of those before": ThermalRack,
    "river: ADWIN": Drifting,
    "river: regression": Regressed,
}
