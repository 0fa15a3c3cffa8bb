"""What ``tocsin replay`` does: brings the store near, judges again, prints."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from collector.agent.judge import judge_of, node_horizon_of
from collector.cli.local_copy import near
from collector.cli.options import inputs
from collector.cli.progress import Progress
from collector.cli.time_args import moment
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.config.units import Seconds
from collector.replaying.arrivals import cut_of
from collector.replaying.fleet import rejudge_fleet
from collector.replaying.lines import differences, lines
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.rejudge import Rejudged
from collector.replaying.stored import Span, extent, stored_hours
from detectors import DETECTORS
from pipeline.arrival_cut import GATEWAY
from pipeline.clock import SystemClock
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.roster import FLEET
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.schema import TABLES
from pipeline.store.files.slice import Window
from pipeline.store.remote.objects import RefusedError

DONE, FAILED = 0, 1


def replay(args: argparse.Namespace) -> int:
    """Judge again and print; 1 where nothing is there, or where a comparison differs."""
    config = load(inputs(args)).config
    shown, read = _spans(args)
    names = _names(args.detectors)
    if args.horizon == "fleet" and args.compare:
        raise ConfigError("--horizon fleet: --compare is for agents, which judge their own node")
    url, setting = (args.root, "--from") if args.root else (config.storage.path, "storage.path")
    try:
        with tempfile.TemporaryDirectory(prefix="tocsin-fetched-") as scratch:
            root, fetch = near(url, config.storage.upload.target, Path(scratch), setting)
            fleet = args.horizon == "fleet"
            hosts = (*args.host, GATEWAY) if fleet and args.host else tuple(args.host)
            fetch(TABLES, _window(read), hosts)
            every = _rejudged(args, config, root, read, names)
            with contextlib.closing(Progress(sys.stderr, streaming=True)) as bar:
                followed = _followed(every, extent(root, read), bar)
                return _print(followed, shown, bar, compare=args.compare)
    except (RefusedError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return FAILED


def _print(every: Iterable[Rejudged], shown: Span, bar: Progress, *, compare: bool) -> int:
    count: Counter[str] = Counter()
    nodes = _Nodes()
    for again in every:
        observation = again.now.observation
        if not shown.holds(observation.time_ns // 1000):
            continue
        nodes.count(observation)
        documents = list(differences(again) if compare else lines(again.now))
        count.update(document["type"] for document in documents)
        count["observation"] += 1
        for document in documents:
            bar.print(json.dumps(document))
    result = (
        f"{count['difference']} differences from the stored findings"
        if compare
        else _counted(count)
    )
    print(
        f"tocsin: {count['observation']} observations of {len(nodes.names)} nodes: {result}",
        file=sys.stderr,
    )
    return FAILED if not count["observation"] or count["difference"] else DONE


class _Nodes:
    """The nodes that observations are of, joined or not."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._devices: dict[tuple[str, str], tuple[Device, ...]] = {}

    def count(self, observation: Observation) -> None:
        """Those of one more."""
        if observation.host != FLEET:
            self.names.add(observation.host)
            return
        for frame in observation.frames:
            key = observation.source, frame.kind
            if self._devices.get(key) is not frame.devices:
                self._devices[key] = frame.devices
                self.names |= {device.host for device in frame.devices}


def _counted(count: Counter[str]) -> str:
    return f"{count['finding']} findings, {count['incident']} incidents"


def _followed(
    every: Iterable[Rejudged], extent_us: tuple[int, int], bar: Progress
) -> Iterator[Rejudged]:
    """The same, with a bar that shows how much is done."""
    begin_us, end_us = extent_us
    for again in every:
        bar((again.now.observation.time_ns // 1000 - begin_us) / max(end_us - begin_us, 1))
        yield again
    bar.close()


def _rejudged(
    args: argparse.Namespace, config: Config, root: Path, read: Span, names: tuple[str, ...] | None
) -> Iterator[Rejudged]:
    """All of a span, judged at the horizon that was asked for."""
    hours, shadow = stored_hours(root, read, frozenset(args.host)), not args.off_trial
    metrics, clock = SelfMetrics(), SystemClock()
    if args.horizon == "fleet":
        judge = judge_of(config, metrics, clock, names, shadow=shadow, calibrated=True)
        return rejudge_fleet(hours, judge, cut_of(root, read))
    return rejudge_nodes(
        hours, lambda: node_horizon_of(config, metrics, clock, names, shadow=shadow)
    )


def _names(text: str) -> tuple[str, ...] | None:
    """Detectors that were asked for; None is all. ConfigError names one that there is none of."""
    names = tuple(text.split(",")) if text else None
    for name in names or ():
        if name not in DETECTORS:
            raise ConfigError(f"--detectors: {name!r} is none of {', '.join(DETECTORS)}")
    return names


def _spans(args: argparse.Namespace) -> tuple[Span, Span]:
    """What is printed, and what is read for it. ConfigError where the times make no sense."""
    now_us = time.time_ns() // 1000
    try:
        until_us = moment(args.until, now_us) if args.until else None
        since_us = moment(args.since, until_us or now_us) if args.since else None
        warm_us = round(Seconds.parse(args.warm_up) * 1e6)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--since, --until, --warm-up: {error}") from error
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise ConfigError(f"--since ({args.since}) does not lie before --until ({args.until})")
    return Span(since_us, until_us), Span(
        None if since_us is None else since_us - warm_us, until_us
    )


def _window(span: Span) -> Window | None:
    if span.since_us is None:
        return None
    return Window(span.since_us, time.time_ns() // 1000 if span.until_us is None else span.until_us)
