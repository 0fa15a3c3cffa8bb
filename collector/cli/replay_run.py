"""What ``tocsin replay`` does: brings the store near, judges again, prints."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from collector.cli.local_copy import near
from collector.cli.options import inputs
from collector.cli.progress import Progress
from collector.cli.replay_pieces import Counted, Line, Question, answer, merged, output_lines
from collector.cli.spread import spread
from collector.cli.time_args import interval
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.units import Seconds
from collector.replaying.nodes import NODES_AT_ONCE
from collector.replaying.stored import Span, extent, hosts_of
from detectors import DETECTORS
from pipeline.arrival_cut import GATEWAY
from pipeline.pieces.interface import Executor, Piece, PiecesError, of_hosts, results
from pipeline.store.files.schema import TABLES
from pipeline.store.files.slice import Window
from pipeline.store.remote.objects import RefusedError

DONE, FAILED = 0, 1


def replay(args: argparse.Namespace) -> int:
    """Judge again and print; 1 where nothing is there, or where a comparison differs."""
    config = load(inputs(args)).config
    shown, read = _spans(args)
    fleet = args.horizon == "fleet"
    if fleet and args.compare:
        raise ConfigError("--horizon fleet: --compare is for agents, which judge their own node")
    url, setting = (args.root, "--from") if args.root else (config.storage.path, "storage.path")
    question = Question(
        config,
        url if "://" in url else str(Path(url).absolute()),
        setting,
        shown,
        read,
        _window(read),
        _names(args.detectors),
        fleet=fleet,
        shadow=not args.off_trial,
        compare=args.compare,
        hosts=tuple(args.host),
    )
    try:
        with (
            spread(args) as executor,
            contextlib.closing(Progress(sys.stderr, streaming=True)) as bar,
        ):
            if executor is None:
                return _here(question, bar)
            return _spread(question, executor, bar, is_far=bool(args.ray))
    except BrokenPipeError:  # `| head` has seen enough: no failure to name
        raise
    except (RefusedError, OSError, PiecesError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return FAILED


def _here(question: Question, bar: Progress) -> int:
    """Hour by hour in this process."""
    with _local(question, TABLES) as (asked, root):
        begin_us, end_us = extent(root, question.read)

        def step(time_ns: int) -> None:
            bar((time_ns // 1000 - begin_us) / max(end_us - begin_us, 1))

        counted = Counted()
        return _print(asked, output_lines(asked, counted, step), counted, bar)


def _spread(question: Question, executor: Executor, bar: Progress, *, is_far: bool) -> int:
    """Some nodes in each piece, by many processes; all in one at the horizon of the fleet.

    Where they are ``is_far`` each gets its files from the store itself.
    """
    if question.fleet:
        print(
            "tocsin: --horizon fleet: all nodes are judged together, as one piece", file=sys.stderr
        )
    with _local(question, ("reads",) if is_far else TABLES) as (near_by, root):
        asked = question if is_far else near_by
        pieces = [Piece("all nodes", asked)]
        if not question.fleet:
            hosts = hosts_of(root, question.read, question.hosts)
            pieces = of_hosts(
                hosts, executor.slots, NODES_AT_ONCE, lambda part: replace(asked, nodes=part)
            )
        answers = results(executor, answer, pieces, bar)
    counted = Counted()
    for one in answers:
        counted.add(one.counted)
    return _print(question, merged(answers), counted, bar)


@contextlib.contextmanager
def _local(question: Question, tables: tuple[str, ...]) -> Iterator[tuple[Question, Path]]:
    """The question of a folder that has these tables, copied where the store is far away."""
    with tempfile.TemporaryDirectory(prefix="tocsin-fetched-") as scratch:
        target = question.config.storage.upload.target
        root, fetch = near(question.url, target, Path(scratch), question.setting)
        hosts = (*question.hosts, GATEWAY) if question.fleet and question.hosts else question.hosts
        fetch(tables, question.window, hosts)
        yield replace(question, url=str(root)), root


def _print(asked: Question, found: Iterable[Line], counted: Counted, bar: Progress) -> int:
    for line in found:
        bar.print(line.text)
    bar.close()
    count = counted.count
    result = (
        f"{count['difference']} differences from the stored findings"
        if asked.compare
        else f"{count['finding']} findings, {count['incident']} incidents"
    )
    print(
        f"tocsin: {count['observation']} observations of {len(counted.nodes)} nodes: {result}",
        file=sys.stderr,
    )
    return FAILED if not count["observation"] or count["difference"] else DONE


def _names(text: str) -> tuple[str, ...] | None:
    """Detectors that were asked for; None is all. ConfigError names one that there is none of."""
    names = tuple(text.split(",")) if text else None
    for name in names or ():
        if name not in DETECTORS:
            raise ConfigError(f"--detectors: {name!r} is none of {', '.join(DETECTORS)}")
    return names


def _spans(args: argparse.Namespace) -> tuple[Span, Span]:
    """What is printed, and what is read for it. ConfigError where the times make no sense."""
    since_us, until_us = interval(args, time.time_ns() // 1000, ago_of_until=True)
    try:
        warm_us = round(Seconds.parse(args.warm_up) * 1e6)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--warm-up: {error}") from error
    return Span(since_us, until_us), Span(
        None if since_us is None else since_us - warm_us, until_us
    )


def _window(span: Span) -> Window | None:
    if span.since_us is None:
        return None
    return Window(span.since_us, time.time_ns() // 1000 if span.until_us is None else span.until_us)
