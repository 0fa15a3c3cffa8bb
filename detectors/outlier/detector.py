"""GPUs unlike all others of their model: no single reading deviates much, but power, clock,
heat and load together do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, Ring
from detectors.kit.findings import Verdict
from detectors.kit.groups import Groups
from detectors.kit.instants import Times, ago, instant_of
from detectors.kit.page import Default, Needs, Page, gpu_columns
from detectors.kit.peers import ACTIVE_PERCENT, Peers
from detectors.kit.readings import reading
from detectors.kit.stats import GroupSums
from detectors.outlier.classes import Models
from detectors.outlier.shrinkage import distances
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event
from pipeline.small_arrays import any_true

BLOCK_S = 60.0
FAULT = "outlier"
TAIL = 1e-5  # of the blocks of healthy GPUs lie beyond the limit, by their own distances
# no verdict before a week of the class: its jobs differ from day to day
WARM_NS = 7 * 86400 * SECOND_NS
# RUN of the last OF_LAST blocks beyond the limit begin it, CLEAR_BLOCKS within the limit end it
RUN, OF_LAST, CLEAR_BLOCKS = 5, 6, 5
# a GPU's own place among its peers: an hour to learn, a day to forget
OWN_BLOCKS, OWN_WEIGHT = 60, 1 / 1440


class Quantity(NamedTuple):
    """A gauge, whether its logarithm is taken, the smallest difference that matters (ln units,
    kelvin, percent), and its word.
    """

    field: str
    log: bool
    unit: float
    words: str


QUANTITIES = (
    Quantity("sm_clock_megahertz", True, 0.02, "SM clock"),
    Quantity("power_milliwatts", True, 0.03, "power"),
    Quantity("temperature_celsius", False, 1.5, "temperature"),
    Quantity("memory_temperature_celsius", False, 1.5, "memory temperature"),
    Quantity("tensor_activity_percent", False, 2.0, "tensor activity"),
    Quantity("dram_activity_percent", False, 2.0, "memory activity"),
    Quantity("sm_activity_percent", False, 2.0, "SM activity"),
    Quantity("gpu_utilization_percent", False, 2.0, "utilisation"),
)
UTILISATION = len(QUANTITIES) - 1


def _quantity(quantity: Quantity) -> Default:
    value = f"{100 * quantity.unit:g} %" if quantity.log else f"{quantity.unit:g}"
    return Default(
        quantity.words,
        value,
        f"a difference that matters{'' if quantity.log else ', in its own unit'}",
    )


PAGE = Page(
    formula=(
        "d2 = (x - m)' S^-1 (x - m), S = (1 - g) C + g mu I; 5 of 6 minutes beyond the empirical "
        "1e-5 tail"
    ),
    sources=(
        (
            "O. Ledoit, M. Wolf, A well-conditioned estimator for large-dimensional covariance "
            "matrices, JMVA 88 (2004)"
        ),
    ),
    shows=gpu_columns("power_milliwatts", "temperature_celsius", "sm_clock_megahertz"),
    needs=Needs(
        30.0,
        (("gpu.power_milliwatts",), ("gpu.temperature_celsius",), ("gpu.gpu_utilization_percent",)),
    ),
    next_step="Read which quantities deviate; a hint for other investigations of this GPU.",
    clears="After five judged minutes in a row within the limit.",
    unscored=(
        "it names no class of fault and is info only; a GPU that loses a tenth of its clock (F16) "
        "is found by the straggler detector."
    ),
    limits=tuple(_quantity(quantity) for quantity in QUANTITIES),
)


class Outlier(Blockwise):
    """Mahalanobis distance of each working GPU from its peers and its own place among
    them, in blocks of a minute.

    The covariance is pooled over all GPUs of a model and shrunk (Ledoit and Wolf); differences too
    small to matter count as none; the limit is the distance that one of 100,000 healthy blocks lies
    beyond. Five of the last six blocks beyond it are an info finding that names the quantities. It
    stays at info, as it has shown no benefit of its own: on the development seeds GPUs that lose a
    tenth of their clock, which the straggler detector finds, lie at squared distances of 25 to 60
    where the limit is 38. ``warm_ns`` and ``tail`` are for fleets that are smaller, or known for
    longer, than most.

    >>> Outlier().name
    'outlier'
    """

    name = "outlier"
    version = 3

    def __init__(self, *, warm_ns: int = WARM_NS, tail: float = TAIL) -> None:
        self._warm_ns, self._tail = warm_ns, tail
        d = len(QUANTITIES)
        names = [f"q{j}" for j in range(d)]
        columns = Columns(
            **BlockMeans.fills(*names),
            **Peers.fills(),
            own=Ring(d, 0.0),
            learnt=0,
            history=0,
            good=0,
            least=np.inf,
        )
        self._means = BlockMeans(columns, names)
        self._peers, self._models, self._classes = Peers(columns), Models(d), Groups(_class)
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        self._peers.look(frame)
        if any_true(self._peers.changed):
            self._means.drop(self._peers.changed)
            columns.reset(self._peers.changed, "history")
        columns["least"] = np.fmin(
            columns["least"], columns.wide(reading(frame, QUANTITIES[UTILISATION].field))
        )
        self._means.add(
            **{f"q{j}": columns.wide(reading(frame, q.field)) for j, q in enumerate(QUANTITIES)}
        )

    def _block(self, at: Times) -> Iterator[Finding]:
        """Judge, then learn: of a GPU beyond the limit nothing is learnt."""
        columns, means = self._columns, self._means.close()
        y, works = self._centred([means[f"q{j}"] for j in range(len(QUANTITIES))])
        ready = works & (columns["learnt"] >= OWN_BLOCKS)
        rows = np.flatnonzero(ready)
        beyond, known = (np.zeros(len(columns), np.bool_) for _ in range(2))
        if len(rows):
            away = (y - columns["own"])[:, rows]
            classes = self._classes.of(columns.devices)[rows]
            known[rows], beyond[rows], findings = self._judge(rows, classes, away, at)
            yield from findings
        columns["history"] = np.where(
            known, (columns["history"] << 1 | beyond) & ((1 << OF_LAST) - 1), columns["history"]
        )
        columns["good"] = np.where(known, np.where(beyond, 0, columns["good"] + 1), columns["good"])
        learns = works & ~beyond
        columns["learnt"] = columns["learnt"] + learns
        weight = np.maximum(OWN_WEIGHT, 1 / np.maximum(columns["learnt"], 1))
        columns["own"] = np.where(
            learns, columns["own"] + weight * (y - columns["own"]), columns["own"]
        )
        for finding in self._standing.all():
            row = columns.row(finding.device)
            if row is not None and columns["good"][row] >= CLEAR_BLOCKS:
                yield from self._standing.ends(finding.device, FAULT, at)
        yield from self._standing.due(at)

    def _centred(
        self, means: list[NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Each quantity above the median of its peers, (quantity, row) in units that matter, 0
        where it is not observed; and which rows work beside peers.
        """
        utilisation = means[UTILISATION]
        y = np.zeros((len(QUANTITIES), len(utilisation)))
        # A block in which it paused mixes two phases of its job, and those of its peers
        # may end in another second.
        works = np.isfinite(self._peers.centred(utilisation, utilisation).d) & (
            self._columns["least"] >= ACTIVE_PERCENT
        )
        self._columns.reset(np.ones(len(works), np.bool_), "least")
        for j, (quantity, x) in enumerate(zip(QUANTITIES, means, strict=True)):
            scaled = np.log(np.where(x > 0, x, np.nan)) if quantity.log else x
            d = self._peers.centred(scaled, utilisation).d
            y[j] = np.where(np.isfinite(d), d / quantity.unit, 0.0)
        return y, works

    def _judge(
        self,
        rows: NDArray[np.intp],
        classes: NDArray[np.int64],
        vectors: NDArray[np.float64],
        at: Times,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], list[Finding]]:
        """Which rows can be judged and which of them are beyond the limit of their class, and what
        is to be said of those that often were; learn the others.
        """
        groups = GroupSums(classes)
        models, now_ns = self._models_of(groups, rows, at)
        place = np.searchsorted(groups.groups, classes)
        known = self._models.known(models)
        d2, parts = distances(vectors, self._models.precision(models), place)
        warm = now_ns - self._models.first_ns[models] >= self._warm_ns
        limits = np.full(len(models), np.inf)
        limits[warm] = self._models.limits(models[warm], self._tail)
        far = known[place] & (d2 > limits[place])
        often = (
            np.bitwise_count((self._columns["history"][rows] << 1 | far) & ((1 << OF_LAST) - 1))
            >= RUN
        )
        findings: list[Finding] = []
        for n in groups.order[(far & often)[groups.order]].tolist():
            limit = float(limits[place[n]])
            verdict = _verdict(float(d2[n]), limit, parts[:, n], vectors[:, n])
            device = self._columns.devices[rows[n]]
            since_ns = ago(at, device, RUN * BLOCK_S)
            findings += self._standing.holds(device, verdict, at, since_ns)
        model, counted = models[place], known[place] & ~far
        self._models.learn(vectors[:, ~far], model[~far])
        self._models.count(d2[counted], model[counted])
        return known[place], far, findings

    def _models_of(
        self, groups: GroupSums, rows: NDArray[np.intp], at: Times
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The model of each class, and its time in elapsed ns, both (class,). Where nodes are
        joined each has models of its own.
        """
        devices = [self._columns.devices[row] for row in rows[groups.first].tolist()]
        now_ns = np.array([instant_of(at, device).mono_ns for device in devices], np.int64)
        names = [self._classes.names[number] for number in groups.groups.tolist()]
        if self._columns.joined:
            names = [f"{one.host}/{name}" for one, name in zip(devices, names, strict=True)]
        return self._models.numbers(names, now_ns), now_ns


def _class(gpu: Device) -> str:
    """Its model; GPUs whose name is not known are of one class."""
    return gpu.attributes.get("name", "") or "unknown"


def _verdict(
    d2: float, limit: float, parts: NDArray[np.float64], vector: NDArray[np.float64]
) -> Verdict:
    first = np.argsort(parts)[::-1][:3].tolist()
    words = tuple(
        f"{QUANTITIES[j].words}: {_above(j, float(vector[j]))}, {parts[j] / d2:.0%} of the distance"
        for j in first
    )
    return Verdict(
        FAULT,
        "record",
        "RUN_DCGMEUD",
        (
            "The GPU behaves unlike the others of its model, above all in "
            f"{QUANTITIES[first[0]].words}."
        ),
        (f"squared distance {d2:.0f}; those of healthy GPUs stay below {limit:.0f}", *words),
        d2,
        limit,
        "",
    )


def _above(j: int, y: float) -> str:
    by = y * QUANTITIES[j].unit
    return (
        f"{np.expm1(by):+.1%} from what is usual for it"
        if QUANTITIES[j].log
        else f"{by:+.1f} from what is usual for it"
    )
