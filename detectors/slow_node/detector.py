"""Nodes all of whose GPUs silently became slower together: no GPU differs from its neighbours, and
the whole job waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.baseline import Limit
from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.literature import GREYHOUND, SILICON
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.peers import Peers
from detectors.slow_node.lane import CAPPED, HALF_LIFE, Lane
from detectors.slow_node.nodes import MEANS, Minute, Nodes
from detectors.slow_node.others import above_others
from detectors.slow_node.past import Past
from pipeline.finding import Finding, Severity
from pipeline.frame import Device, Frame
from pipeline.observation import Event
from pipeline.small_arrays import any_true, or_else

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BLOCK_S = 60.0
# Floors, spreads and minutes. The floors are above what a room, a day or the wear of a month does
# to the clocks of a node (1 to 2 %, "Not all GPUs are created equal", SC'22).
CRITICAL, WARNING, ALONE = "critical", "warning", "alone"
AMONG = {CRITICAL: Limit(0.07, 5.0, 3), WARNING: Limit(0.035, 4.5, 6)}
OWN = Limit(0.045, 5.0, 10)  # against its own past only: a ticket
# Against the last half hour: where clocks wander by percents in hours, a fall within a minute
# stands out from that alone.
SUDDEN, RECENT_HALF_LIFE = Limit(0.07, 5.0, 3), 12.0
MIN_OTHERS = 1  # nodes of its job to compare with
# What befalls more nodes of a job at once is their common cause: a stage, a rack, a policy.
MAX_SHARE = 8  # one node in so many, and one at least
CONFIRMS = 0.5  # of the distance to the others must be a loss of its own: else they became faster
EXPLAINS, MIN_DUTY = 0.5, 0.005  # a reason active for half of what was lost explains it
EQUAL_WORK = (
    0.10  # ln units of load: more apart is another phase, which the past says nothing about
)
SETTLED = 20  # minutes in a row at another load, or another clock that is asked for
ASKED_MOVED = 0.5  # of the time at a clock that is asked for
# ln units. Clocks that are locked are equal, free ones differ by percents: so a lock shows even
# where the driver does not report it.
LOCKED, FREE = 0.002, 0.01
# Where blocks are means of fewer readings, counted over so many of them, twice as many are asked
# for: one reading is of one phase of a step, and three of them may be by chance.
READINGS, READ_BLOCKS = 1.5, 3
CLEAR_BLOCKS, CLEAR_SHARE = 5, 0.5
ACCEPT_BLOCKS = 1440  # a day of work at the new level is the new normal
LEVEL = "level"  # of its own clock, whatever its load
FAULT = "straggler/node"

PAGE = Page(
    needs=Needs(30.0, (("gpu.sm_clock_megahertz",), ("gpu.gpu_utilization_percent",))),
    formula=(
        "y = median of the node's ln f less the median of the job's other nodes; r = y - its own "
        "exponentially weighted past, of hours and of the last half hour; page: r < -max(7 %, 5 s) "
        "for 3 minutes, 6 where a minute is one reading; alone: ln f against "
        "its own past at equal load, a ticket"
    ),
    sources=(GREYHOUND, SILICON),
    shows=gpu_columns(
        "sm_clock_megahertz", "power_milliwatts", "tensor_activity_percent", "temperature_celsius"
    ),
    next_step=(
        "Take the node out of the job at its next checkpoint; compare its clocks under a benchmark "
        "with a healthy node, then its power supplies, BMC settings and cooling."
    ),
    clears=(
        "After five minutes in a row within half of the limit; after a day of work at the new "
        "level, which is normal then."
    ),
    scored_as=("straggler",),
)


class Others(NamedTuple):
    """A minute beside the other nodes of its job, (node,): its group (-1 where there is none) and
    ``size`` others that work; clock, load and heat above theirs, NaN where too few do.
    """

    group: NDArray[np.int64]
    size: NDArray[np.int64]
    clock: Floats
    work: Floats
    heat: Floats


class Judged(NamedTuple):
    """What each node is above its usual place among the others of its job (``r``), above its place
    of the last half hour (``recent``), and above its own past at equal work where no others are
    seen (``alone``), (node,); NaN where nothing can be said. ``others`` it was compared with.
    """

    r: Floats
    recent: Floats
    alone: Floats
    others: NDArray[np.int64]


class SlowNode(Blockwise):
    """Compares the clock of each node, the median of its GPUs, with the other nodes of its job and
    with its own past in this job, in minutes in which the job works on all of its GPUs.

    Among other nodes a page after three minutes 7 % below its usual place, or its place of the
    last half hour, a ticket after six 3.5 % below; where its own clock fell too, and no more than
    one node in eight of the job is slow. What more load or heat explains at the power limit is
    taken away first: stages and experts with more to do are no fault. Where no other node is seen,
    as by an agent alone, a ticket after ten minutes 4.5 % below its own past at equal load.

    What is accepted: another job, another setting (clock lock, power limit, MIG), another clock
    that is asked for, and twenty minutes at another load, begin a new past; a node that is slow,
    after a day of work. Slowness that a throttle reason explains is left to its detector. Jobs
    that are slow on all of their nodes accuse none.

    >>> SlowNode().name
    'slow_node'
    """

    name = "slow_node"
    version = 3

    def __init__(self) -> None:
        columns = Columns(**Nodes.fills())
        self._places = Columns(
            **Lane.fills("among", *AMONG),
            **Lane.fills("recent", CRITICAL),
            **Lane.fills("own", ALONE),
            **Past.fills(LEVEL),
            asked=np.nan,
            width=np.nan,
            elsewhere=0,
            together=0,
            good=0,
            lasted=0,
            reported=False,
            readings=Ring(READ_BLOCKS, 0.0),  # of the last blocks, the newest first
        )
        self._peers, self._means = Peers(columns), BlockMeans(columns, MEANS)
        self._nodes = Nodes(columns, self._peers, self._means)
        self._among = Lane(self._places, "among", *AMONG)
        self._recent = Lane(self._places, "recent", CRITICAL, half_life=RECENT_HALF_LIFE)
        self._own = Lane(self._places, "own", ALONE)
        self._level = Past(self._places, LEVEL, HALF_LIFE)
        self._named: tuple[tuple[str, ...], tuple[Device, ...]] = ((), ())
        super().__init__(BLOCK_S, columns)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._peers.jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        self._nodes.sample(frame)

    def _block(self, at: Times) -> Iterator[Finding]:
        """Judge, then learn: nodes under suspicion teach nothing."""
        minute, changed = self._nodes.minute()
        places = self._places
        if minute.names is not self._named[0]:
            rows = tuple(Device(name, "node", name) for name in minute.names)
            self._named = minute.names, rows
        places.place(self._named[1])
        minute = Minute(minute.names, minute.keys, *map(places.wide, minute[2:]))
        readings = np.where(np.isfinite(minute.readings), minute.readings, 0.0)
        places["readings"] = np.vstack((readings, places["readings"][:-1]))
        another = places.wide(changed.astype(np.float64)) > 0
        self._begin(another & ~places["reported"])  # another job is no repair
        self._settle(minute)
        others = self._others(minute)
        judged = self._judge(minute, others)
        yield from self._report(judged, at)
        yield from self._end(judged, at)
        self._learn(minute, others, judged)

    def _begin(self, rows: Flags) -> None:
        """Another past for these rows."""
        if any_true(rows):
            for past in (self._among, self._recent, self._own, self._level):
                past.forget(rows)
            self._places.reset(rows, "elsewhere", "together", "asked")

    def _settle(self, minute: Minute) -> None:
        """Another clock that is asked for is another regime at once, another load after a while."""
        places, asked = self._places, self._places["asked"]
        moved = np.abs(minute.asked - asked) > ASKED_MOVED
        self._begin(moved)
        places["asked"] = np.where(np.isfinite(minute.asked), np.rint(minute.asked), asked)
        locked = (minute.width < LOCKED) & (places["width"] > FREE)
        self._own.forget(locked & ~places["reported"])
        places["width"] = np.where(np.isfinite(minute.width), minute.width, places["width"])
        away = np.abs(minute.work - self._own.usual("load"))
        run = np.where(away > EQUAL_WORK, places["elsewhere"] + 1, places["elsewhere"])
        run = np.where(away <= EQUAL_WORK, 0, run)
        self._own.forget((run >= SETTLED) & ~places["reported"])
        places["elsewhere"] = np.where(run >= SETTLED, 0, run)

    def _others(self, minute: Minute) -> Others:
        known: dict[object, int] = {}
        numbers = [-1 if key is None else known.setdefault(key, len(known)) for key in minute.keys]
        group = or_else(self._places.wide(np.array(numbers, np.float64)), -1.0)
        group = group.astype(np.int64)
        works = np.isfinite(minute.clock)
        members, working = (
            np.bincount(group[rows], minlength=len(known) + 1)
            for rows in (group >= 0, (group >= 0) & works)
        )
        place = np.where(2 * working >= members, np.arange(len(members)), -1)[group]
        place = np.where(group >= 0, place, -1)  # a job of which few nodes work starts, ends, saves
        above = [
            above_others(x, place, len(known), MIN_OTHERS, ~self._places["reported"])
            for x in (minute.clock, minute.work, minute.heat)
        ]
        return Others(place, above[0][1], *(x for x, _ in above))

    def _judge(self, minute: Minute, others: Others) -> Judged:
        above = others.clock, others.work, others.heat, minute.capped
        r, recent = (
            self._lost(lane.residual(*above), minute) for lane in (self._among, self._recent)
        )
        alone = self._own.residual(minute.clock, minute.work, minute.heat, minute.capped)
        equal = np.abs(minute.work - self._own.usual("load")) <= EQUAL_WORK
        equal = np.where(np.isfinite(minute.work), equal, minute.capped <= CAPPED)
        alone = np.where(equal & (others.size < MIN_OTHERS), alone, np.nan)
        several = self._several(r, recent, others.group)
        r, recent = (np.where(several, np.nan, x) for x in (r, recent))
        return Judged(r, recent, _unexplained(alone, minute.held), others.size)

    def _lost(self, r: Floats, minute: Minute) -> Floats:
        """What a node lost itself, and no reason explains."""
        fell = minute.clock - self._level.mean(1)
        r = np.where(fell <= CONFIRMS * np.minimum(r, 0.0), r, np.maximum(r, 0.0) + 0.0 * fell)
        return _unexplained(r, minute.held)

    def _several(self, r: Floats, recent: Floats, group: NDArray[np.int64]) -> Flags:
        """Where more than few of the job's nodes are slow at once, beside those that are reported:
        none of them is judged, and where they stay so, that is how they are after a while.
        """
        places, limit = self._places, AMONG[WARNING]
        slow = (r < -limit.at(self._among.spread)) | (recent < -limit.at(self._recent.spread))
        slow &= (group >= 0) & ~places["reported"]
        groups = int(group.max(initial=-1)) + 1
        found = np.bincount(group[slow], minlength=groups + 1)
        size = np.bincount(group[group >= 0], minlength=groups + 1)
        several = slow & (found > np.maximum(1, size // MAX_SHARE))[group]
        places["together"] = np.where(
            several, places["together"] + 1, np.where(np.isfinite(r), 0, places["together"])
        )
        usual = places["together"] >= SETTLED
        self._begin(usual & ~places["reported"])
        places.reset(usual, "together")
        return np.asarray(several)

    def _report(self, judged: Judged, at: Times) -> Iterator[Finding]:
        places = self._places
        sparse = places["readings"].sum(axis=0) < READINGS * READ_BLOCKS
        reached = {name: self._among.reached(name, judged.r, AMONG[name], sparse) for name in AMONG}
        sudden = self._recent.reached(CRITICAL, judged.recent, SUDDEN, sparse)
        alone = self._own.reached(ALONE, judged.alone, OWN)  # ten readings at least
        for row in rows_where(reached[CRITICAL] | reached[WARNING] | sudden | alone):
            node = places.devices[row]
            if alone[row]:
                verdict, blocks = self._by_itself(row, judged)
            elif reached[CRITICAL][row] or not sudden[row]:
                severity: Severity = "page" if reached[CRITICAL][row] else "ticket"
                blocks = int(max(self._among.running(name)[row] for name in AMONG))
                verdict = self._among_others(row, judged, (judged.r, self._among), blocks, severity)
            else:
                blocks = int(self._recent.running(CRITICAL)[row])
                past = judged.recent, self._recent
                verdict = self._among_others(row, judged, past, blocks, "page")
            for finding in self._standing.holds(node, verdict, at, ago(at, node, blocks * BLOCK_S)):
                places["reported"][row] = True
                places["good"][row] = places["lasted"][row] = 0
                yield finding
        yield from self._standing.due(at)

    def _end(self, judged: Judged, at: Times) -> Iterator[Finding]:
        places, reported = self._places, self._places["reported"]
        if not self._standing.all():
            return
        share = np.fmax(
            -judged.r / AMONG[WARNING].at(self._among.spread),
            -judged.alone / OWN.at(self._own.spread),
        )
        seen = np.isfinite(share)
        good = np.where(share < CLEAR_SHARE, places["good"] + 1, 0)
        places["good"] = np.where(seen, good, places["good"])
        places["lasted"] = places["lasted"] + (reported & seen)
        normal = reported & (places["lasted"] >= ACCEPT_BLOCKS)
        for finding in self._standing.all():
            row = places.row(finding.device)
            if row is None:
                continue
            if share[row] >= CLEAR_SHARE:
                self._standing.still(finding.device, finding.fault, at)
            if places["good"][row] >= CLEAR_BLOCKS or normal[row]:
                why = ("accepted as its new normal after a day of work",) if normal[row] else ()
                yield from self._standing.ends(finding.device, FAULT, at, *why)
                reported[row] = False
        self._begin(normal)

    def _learn(self, minute: Minute, others: Others, judged: Judged) -> None:
        """What is under suspicion counts later, what is reported never. Where others are seen again
        nothing more is said of a node alone: a suspicion of that would last for ever.
        """
        places, reported = self._places, self._places["reported"]
        alone = (self._own.running(ALONE) > 0) & np.isfinite(judged.alone)
        running = [self._among.running(name) for name in AMONG]
        running += [self._recent.running(CRITICAL), places["together"]]
        suspected = alone | np.any([run > 0 for run in running], axis=0)
        for lane in (self._among, self._recent):
            lane.learn(others.clock, others.work, others.heat, suspected, reported)
        away = places["elsewhere"] > 0
        self._own.learn(minute.clock, minute.work, minute.heat, suspected, reported | away)
        self._level.learn(minute.clock, suspected, reported)

    def _among_others(
        self, row: int, judged: Judged, past: tuple[Floats, Lane], blocks: int, severity: Severity
    ) -> Verdict:
        """What is said of a node that lost among others, from a ``past`` and its residuals."""
        r, lane = past
        lost = -float(np.expm1(r[row]))
        usual, spread = float(lane.usual("clock")[row]), float(lane.spread[row])
        summary = (
            f"All GPUs of node {self._places.devices[row].id} run {lost:.1%} slower than is usual "
            "for them among the nodes of their job, which waits for them; no throttle reason "
            "explains it."
        )
        evidence = (
            (
                f"in this job its SM clock was {np.expm1(usual):+.1%} from the median of "
                f"{judged.others[row]} other nodes"
            ),
            (
                f"{lost:.1%} below that for {blocks} minutes, at no more load; it wanders by "
                f"{spread:.1%} by itself"
            ),
        )
        return _verdict(severity, summary, evidence, lost)

    def _by_itself(self, row: int, judged: Judged) -> tuple[Verdict, int]:
        """The verdict where no other nodes are seen, and the minutes in a row that it rests on."""
        lost = -float(np.expm1(judged.alone[row]))
        usual, spread = float(self._own.usual("clock")[row]), float(self._own.spread[row])
        blocks = int(self._own.running(ALONE)[row])
        summary = (
            f"All GPUs of node {self._places.devices[row].id} run {lost:.1%} slower than before in "
            "this job, at equal load; no throttle reason and no setting explains it."
        )
        evidence = (
            f"its SM clock was {np.exp(usual):.0f} MHz at this load",
            f"{lost:.1%} below that for {blocks} minutes; it wanders by {spread:.1%} by itself",
            "no other node of its job is seen here",
        )
        return _verdict("ticket", summary, evidence, lost), blocks


def _verdict(severity: Severity, summary: str, evidence: tuple[str, ...], lost: float) -> Verdict:
    return Verdict(FAULT, severity, "RUN_DCGMEUD", summary, evidence, -100 * lost, 0.0, "percent")


def _unexplained(r: Floats, held: Floats) -> Floats:
    """NaN where a reason that holds the clocks back explains half of what is lost."""
    lost = -np.expm1(np.minimum(or_else(r), 0.0))
    return np.where(or_else(held) > np.fmax(MIN_DUTY, EXPLAINS * lost), np.nan, r)
