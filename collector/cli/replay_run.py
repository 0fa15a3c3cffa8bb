"""What ``tocsin replay`` does: brings the store near, judges again, prints."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from collector.agent.judge import judge_of
from collector.cli.local_copy import near
from collector.cli.options import inputs
from collector.cli.progress import Progress
from collector.cli.time_args import moment
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.config.units import Seconds
from collector.replaying.fleet import rejudge_fleet
from collector.replaying.lines import differences, lines
from collector.replaying.rejudge import Rejudged, rejudge
from collector.replaying.stored import Span, extent, stored
from detectors import DETECTORS
from detectors.paging import JOINING
from pipeline.clock import SystemClock
from pipeline.judge import Judge
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.schema import TABLES
from pipeline.store.files.slice import Window
from pipeline.store.remote.objects import RefusedError

DONE, FAILED = 0, 1


def replay(args: argparse.Namespace) -> int:
    """Judge again and print; 1 where nothing is there, or where a comparison differs."""
    config = load(inputs(args)).config
    shown, read = _spans(args)
    names = _fleet(args) if args.scope == "fleet" else _names(args.detectors)
    judge = _judge(config, names, shadow=not args.off_trial)
    url, setting = (args.root, "--from") if args.root else (config.storage.path, "storage.path")
    try:
        with tempfile.TemporaryDirectory(prefix="tocsin-fetched-") as scratch:
            root, fetch = near(url, config.storage.upload.target, Path(scratch), setting)
            fetch(TABLES, _window(read), tuple(args.host))
            observations = stored(root, read, frozenset(args.host))
            if args.scope == "fleet":
                every = rejudge_fleet(observations, _judge(config, (), shadow=True), judge())
            else:
                every = rejudge(observations, judge)
            with contextlib.closing(Progress(sys.stderr, streaming=True)) as bar:
                followed = _followed(every, extent(root, read), bar)
                return _print(followed, shown, bar, compare=args.compare)
    except (RefusedError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return FAILED


def _print(every: Iterable[Rejudged], shown: Span, bar: Progress, *, compare: bool) -> int:
    count: Counter[str] = Counter()
    hosts = set()
    for again in every:
        observation = again.now.observation
        if not shown.holds(observation.time_ns // 1000):
            continue
        hosts.add(observation.host)
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
        f"tocsin: {count['observation']} observations of {len(hosts)} nodes: {result}",
        file=sys.stderr,
    )
    return FAILED if not count["observation"] or count["difference"] else DONE


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


def _judge(config: Config, names: tuple[str, ...] | None, *, shadow: bool) -> Callable[[], Judge]:
    """How the judge of a node is made."""
    metrics, clock = SelfMetrics(), SystemClock()
    return lambda: judge_of(config, metrics, clock, names, shadow=shadow)


def _names(text: str) -> tuple[str, ...] | None:
    """Detectors that were asked for; None is all. ConfigError names one that there is none of."""
    names = tuple(text.split(",")) if text else None
    for name in names or ():
        if name not in DETECTORS:
            raise ConfigError(f"--detectors: {name!r} is none of {', '.join(DETECTORS)}")
    return names


def _fleet(args: argparse.Namespace) -> tuple[str, ...]:
    """Detectors that can judge many nodes as one.

    ConfigError where others are asked for, or a comparison: agents judge alone.
    """
    names = _names(args.detectors) or tuple(sorted(JOINING))
    if strange := sorted(set(names) - JOINING):
        raise ConfigError(
            f"--scope fleet: {', '.join(strange)} judges each node by itself; "
            f"{', '.join(sorted(JOINING))} can"
        )
    if args.compare:
        raise ConfigError(
            "--scope fleet: there is nothing to --compare with, agents judge their own node only"
        )
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
