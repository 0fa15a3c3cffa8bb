"""What a replay is asked and the lines that answer it, of all nodes or, in a piece, of some: the
same lines in the same order either way.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from collector.agent.judge import judge_of, node_horizon_of, periods_of
from collector.cli.local_copy import near
from collector.config.settings import Config
from collector.replaying.arrivals import cut_of
from collector.replaying.cadences import Cadences
from collector.replaying.fleet import rejudge_fleet
from collector.replaying.lines import differences, lines
from collector.replaying.nodes import JudgedRound, rejudge_hours
from collector.replaying.passes import hours_in, in_passes
from collector.replaying.rejudge import Rejudged
from collector.replaying.stored import Span, stored_hours
from collector.replaying.width import nodes_at_once
from detectors.node_horizon import NodeHorizon
from pipeline.arrival_cut import GATEWAY
from pipeline.clock import SystemClock
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.roster import FLEET
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.schema import TABLES
from pipeline.store.files.slice import Window

Step = Callable[[int], object]  # gets the time of what was judged, unix ns


@dataclass(frozen=True, slots=True)
class Question:
    """Of a store at ``url``: what is ``shown`` of what is ``read``, by which detectors (None: all).

    ``hosts`` are those that were asked for, ``nodes`` the hosts of a piece; of both none are all.
    At the horizon of the fleet there is one piece: its findings are about all nodes together.
    """

    config: Config
    url: str
    setting: str
    shown: Span
    read: Span
    window: Window | None
    detectors: tuple[str, ...] | None
    fleet: bool
    shadow: bool
    compare: bool
    hosts: tuple[str, ...]
    nodes: tuple[str, ...] = ()


class Line(NamedTuple):
    """A line of output, and its place among others: lines of files before those of a log, by time
    and host.
    """

    is_logged: bool
    time_ns: int
    host: str
    text: str

    @property
    def place(self) -> tuple[bool, int, str]:
        """By this they are in order."""
        return self[:3]


@dataclass(slots=True)
class Counted:
    """What was judged: observations, and lines by their type; the nodes that they were of."""

    count: Counter[str] = field(default_factory=Counter)
    nodes: set[str] = field(default_factory=set)
    _devices: dict[tuple[str, str], tuple[Device, ...]] = field(default_factory=dict)

    def take(self, observation: Observation, types: Iterable[str]) -> None:
        """One more."""
        self.count["observation"] += 1
        self.count.update(types)
        if observation.host != FLEET:
            self.nodes.add(observation.host)
            return
        for frame in observation.frames:
            key = observation.source, frame.kind
            if self._devices.get(key) is not frame.devices:
                self._devices[key] = frame.devices
                self.nodes |= {device.host for device in frame.devices}

    def add_silent(self, host: str) -> None:
        """One more, of a node, without a line."""
        self.count["observation"] += 1
        self.nodes.add(host)

    def add(self, other: Counted) -> None:
        """Those of a piece."""
        self.count += other.count
        self.nodes |= other.nodes


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a piece."""

    lines: list[Line]
    counted: Counted


def answer(question: Question) -> Answer:
    """In a worker: all lines of a piece."""
    counted = Counted()
    return Answer(list(output_lines(question, counted)), counted)


def merged(answers: Iterable[Answer]) -> Iterator[Line]:
    """The lines of all pieces, as one process prints them."""
    return merge(*(one.lines for one in answers), key=lambda line: line.place)


def output_lines(
    question: Question, counted: Counted, step: Step = lambda _: None
) -> Iterator[Line]:
    """The lines of an answer, in their order; ``counted`` grows meanwhile.

    ConfigError where there is no such store; RefusedError, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="tocsin-fetched-") as scratch:
        target = question.config.storage.upload.target
        root, fetch = near(question.url, target, Path(scratch), question.setting)
        hosts = question.nodes or question.hosts
        fetch(TABLES, question.window, (*hosts, GATEWAY) if question.fleet and hosts else hosts)
        yield from (
            _of_fleet(question, root, counted, step)
            if question.fleet
            else _of_nodes(question, root, counted, step)
        )


def _of_nodes(question: Question, root: Path, counted: Counted, step: Step) -> Iterator[Line]:
    """Hour by hour; in an hour by time, whatever nodes are judged together."""
    config, metrics, clock = question.config, SelfMetrics(), SystemClock()
    at_once = nodes_at_once(root, hours_in(root, question.read))
    stored = in_passes(root, question.read, at_once, question.hosts, question.nodes)
    cadences = Cadences(periods_of(config))

    def made() -> NodeHorizon:
        return node_horizon_of(
            config,
            metrics,
            clock,
            question.detectors,
            shadow=question.shadow,
            period_of=cadences.of,
        )

    passes = rejudge_hours(stored, made, at_once, cadences)
    for (is_logged, _), some in groupby(passes, lambda one: (one[0].is_logged, one[0].end_us)):
        found: list[Line] = []
        last_ns: dict[str, int] = {}
        for again in _reported(
            question, chain.from_iterable(every for _, every in some), counted, step, last_ns
        ):
            host = again.now.observation.host
            texts = _texts(question, again, counted)
            found += (Line(is_logged, last_ns[host], host, text) for text in texts)
        yield from sorted(found, key=lambda line: line.place)


def _reported(
    question: Question,
    every: Iterable[JudgedRound | Rejudged],
    counted: Counted,
    step: Step,
    last_ns: dict[str, int],
) -> Iterator[Rejudged]:
    """What may have a line; the others are counted. ``last_ns`` has the latest time of each node
    so far: its own order is kept where its clock was set back.
    """
    for one in every:
        if not isinstance(one, JudgedRound):
            seen = one.now.observation
            step(seen.time_ns)
            last_ns[seen.host] = max(last_ns.get(seen.host, 0), seen.time_ns)
            yield one
            continue
        names, times_ns = one.round.names, one.round.time_ns.tolist()
        step(max(times_ns))
        reported = one.reported(compared=question.compare)
        for place, (name, time_ns) in enumerate(zip(names, times_ns, strict=True)):
            last_ns[name] = max(last_ns.get(name, 0), time_ns)
            if place in reported:
                yield one.at(place)
            elif question.shown.holds(time_ns // 1000):
                counted.add_silent(name)


def _of_fleet(question: Question, root: Path, counted: Counted, step: Step) -> Iterator[Line]:
    judge = judge_of(
        question.config,
        SelfMetrics(),
        SystemClock(),
        question.detectors,
        shadow=question.shadow,
        calibrated=True,
    )
    hours = stored_hours(root, question.read, frozenset(question.hosts))
    for again in rejudge_fleet(hours, judge, cut_of(root, question.read)):
        step(again.now.observation.time_ns)
        for text in _texts(question, again, counted):
            yield Line(False, again.now.observation.time_ns, FLEET, text)


def _texts(question: Question, again: Rejudged, counted: Counted) -> list[str]:
    observation = again.now.observation
    if not question.shown.holds(observation.time_ns // 1000):
        return []
    documents = list(differences(again) if question.compare else lines(again.now))
    counted.take(observation, (document["type"] for document in documents))
    return [json.dumps(document) for document in documents]
