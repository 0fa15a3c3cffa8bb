"""A history judged in pieces: some nodes in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from collector.agent.judge import judge_of, node_horizon_of, periods_of
from collector.config.settings import Config
from collector.replaying.cadences import Cadences
from collector.replaying.nodes import NODES_AT_ONCE, JudgedRound, rejudge_hours
from collector.replaying.rejudge import Rejudged, rejudge
from collector.replaying.stored import Hours, Span, stored_hours
from history.backtest.judged import History, judged
from history.importing import site_log
from pipeline.clock import SystemClock
from pipeline.judged import JudgedObservation
from pipeline.selfmetrics import SelfMetrics

IMPORTED_AT_ONCE = 256  # nodes judged together: an hour of one is 250 scrapes, not 3,600 reads


@dataclass(frozen=True, slots=True)
class Asked:
    """The folder of a store, what of it is judged by which detectors, and the hosts of a piece
    (none means all).
    """

    config: Config
    root: Path
    span: Span
    detectors: tuple[str, ...]
    nodes: tuple[str, ...] = ()


def history_of(asked: Asked, step: Callable[[int], object] = lambda _: None) -> History:
    """What its nodes say; ``step`` gets the time of each observation, unix ns."""

    def followed() -> Iterator[JudgedObservation | JudgedRound]:
        for one in _again(asked):
            if isinstance(one, JudgedRound):
                step(int(one.round.time_ns.max()))
                yield one
            else:
                step(one.now.observation.time_ns)
                yield one.now

    return judged(followed())


def _again(asked: Asked) -> Iterator[Rejudged | JudgedRound]:
    """A node by itself is judged as its agent does, without what it takes to join several: the
    same is found in 0.6 of the time. As many as can be are joined otherwise.
    """
    config, metrics, clock, names = asked.config, SelfMetrics(), SystemClock(), asked.detectors
    stored = stored_hours(asked.root, asked.span, nodes=asked.nodes)
    cadences = Cadences(periods_of(config))
    if len(asked.nodes) == 1:
        (host,) = asked.nodes
        return rejudge(
            _followed(stored, cadences),
            # made when its first hour is known: a later change of its pace is not followed
            lambda: judge_of(
                config, metrics, clock, names, shadow=False, periods_s=cadences.of_node(host)
            ),
        )
    hours = rejudge_hours(
        stored,
        lambda: node_horizon_of(config, metrics, clock, names, shadow=False, period_of=cadences.of),
        NODES_AT_ONCE if site_log(asked.root) is None else IMPORTED_AT_ONCE,
        cadences,
    )
    return chain.from_iterable(every for _, every in hours)


def _followed(stored: Iterable[Hours], cadences: Cadences) -> Iterator[JudgedObservation]:
    for hours in stored:
        cadences.follow(hours)
        for _, node in hours.nodes:
            yield from node
