"""``tocsin backtest``: what Tocsin would have alerted on in a history, in one report."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.spread import spread_options
from collector.cli.time_args import interval
from collector.config.error import ConfigError
from history.command import bring, find, log_options, shared_names, site_options, some_of
from pipeline.extras import how_to_add

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collector.cli.progress import Progress
    from collector.replaying.stored import Span
    from history.backtest.judgeable import Judgeable
    from history.backtest.judged import History
    from history.backtest.known import Known
    from history.backtest.pieces import Asked
    from history.backtest.report import Backtest
    from pipeline.pieces.interface import Executor

NAME = "backtest"
USAGE = (
    "backtest (--from DIR | --prometheus URL [--keep DIR]) [--known FILE] [-o FILE] "
    "[--write FILE] [options]"
)
HELP = "Report what would have alerted on a site's history, beside what the site knew."
EXAMPLE = """\
Examples:
  tocsin backtest --prometheus http://prometheus:9090 --since 90d -o report.html
  tocsin backtest --from history --known drains.csv --known events.txt -o report.html
  tocsin backtest --from /mnt/history --ray ray://head:10001 -o report.html   (a shared folder)

--known is a CSV file with the columns node, opened, closed, cause (tickets, repairs), or the output
of: sacctmgr -nP show event Event=Node Start=2026-08-01 Format=NodeName,Start,End,State,Reason,User
CSV times are ISO 8601 (UTC without a zone) or unix seconds. The site's own alerts, drains and node
states are in its series. What alerts as installed is counted apart."""
EXIT_CODES = (
    "Exit codes: 0 success; 1 nothing to judge, or the site or the disk failed; 2 invalid command "
    "line or file; 130 interrupted by Ctrl-C."
)
FORMS = (".html", ".md", ".json")


def options(parser: Parser) -> None:
    """Of which history, beside what, into which file."""
    parser.add_argument("--from", dest="root", default="", metavar="DIR", help="folder of a store")
    parser.add_argument(
        "--prometheus", default="", metavar="URL", help="base URL of Prometheus, VictoriaMetrics"
    )
    parser.add_argument(
        "--keep", default="", metavar="DIR", help="keep what is imported from --prometheus there"
    )
    parser.add_argument(
        "--known",
        action="append",
        default=[],
        metavar="FILE",
        help="what the site knew: CSV, or sacctmgr's list of events; repeatable",
    )
    parser.add_argument(
        "--time-zone", default="UTC", metavar="NAME", help="of sacctmgr's times (default: UTC)"
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="begin: a time, or a time ago (default: all; --prometheus: 90d)",
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: all)")
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="file ending in .html, .md or .json (default: Markdown to standard output)",
    )
    parser.add_argument(
        "--write", default="", metavar="FILE", help="write the configuration that follows"
    )
    site_options(parser)
    log_options(parser)
    spread_options(parser)
    add_settings(parser, only=("detectors",))


def run(args: argparse.Namespace) -> int:
    """Import where that is asked for, judge, count, write; 0, or 1 where nothing can be judged."""
    try:
        from history.site.series import SiteError  # noqa: PLC0415 - heavy imports: not for --help
        from pipeline.pieces.interface import PiecesError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"backtest needs {error.name}: {how_to_add('history')}") from None
    output = Path(args.output) if args.output else None
    if output and output.suffix not in FORMS:
        raise ConfigError(f"--output {output}: expected a name that ends in {', '.join(FORMS)}")
    for name, file in (("--output", args.output), ("--write", args.write)):
        if file and not Path(file).absolute().parent.is_dir():  # before an hour's work, not after
            raise ConfigError(f"{name}: folder {Path(file).parent} does not exist")
    if bool(args.root) == bool(args.prometheus):
        raise ConfigError("expected --from DIR or --prometheus URL")
    zone = _zone(args.time_zone)
    with ExitStack() as stack:
        try:
            return _backtest(args, *_root(args, stack), output, zone)
        except (SiteError, PiecesError, OSError) as error:
            print(f"tocsin: {error}", file=sys.stderr)
            return 1


def _root(args: argparse.Namespace, stack: ExitStack) -> tuple[Path, Mapping[str, str]]:
    """The store, imported first where it comes from a site, and names of nodes with those that it
    has.
    """
    if args.root:
        root = Path(args.root)
        if not root.is_dir():
            raise ConfigError(f"--from {root}: no such folder")
        return root, _renamed(args)
    from history.importing import is_empty_or_ours  # noqa: PLC0415

    kept = args.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-backtest-"))
    root = Path(kept)
    if not is_empty_or_ours(root):
        raise ConfigError(f"--keep {root}: not empty, and no import of before")
    site, found, span = find(args, (args.prometheus,))
    done = bring(args, site, found, root, span)
    for line in shared_names(done):
        print(line, file=sys.stderr)
    return root, found.labels.nodes


def _renamed(args: argparse.Namespace) -> Mapping[str, str]:
    from history.meaning import labels  # noqa: PLC0415

    return labels.read(Path(args.mapping)).nodes if args.mapping else {}


def _backtest(
    args: argparse.Namespace,
    root: Path,
    renamed: Mapping[str, str],
    output: Path | None,
    zone: tzinfo,
) -> int:
    made = _made(args, root, renamed, zone)
    empty = not made.history.nodes
    if empty:
        print(f"tocsin: {root}: nothing in this time", file=sys.stderr)
        if made.imported is None:
            return 1
    text = _text(made, root, output.suffix if output else ".md")
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    if args.write and made.proposal:
        about = "Written by tocsin backtest; its report has the reasons."
        Path(args.write).write_text(made.proposal.text(about), encoding="utf-8")
    return int(empty)


def _made(
    args: argparse.Namespace, root: Path, renamed: Mapping[str, str], zone: tzinfo
) -> Backtest:
    from collector.replaying.stored import Span  # noqa: PLC0415
    from history.backtest import site, truths  # noqa: PLC0415
    from history.backtest.configuration import proposal  # noqa: PLC0415
    from history.backtest.report import Backtest  # noqa: PLC0415
    from history.importing import imported  # noqa: PLC0415
    from history.meaning.node_names import NodeNames  # noqa: PLC0415

    files = [Path(name) for name in args.known]
    site.entries(root, files, zone, 0)  # wrong files are refused before an hour's work
    span = Span(*interval(args, time.time_ns() // 1000))
    history, asked = _history(args, root, span), imported(root)
    if asked is not None:
        begin_ns, end_ns = (us and us * 1000 for us in (span.since_us, span.until_us))
        begin_ns = max(asked.begin_ns, begin_ns or asked.begin_ns)
        asked = replace(asked, begin_ns=begin_ns, end_ns=min(asked.end_ns, end_ns or asked.end_ns))
    if not history.nodes:
        return Backtest(history, None, imported=asked)
    known_here = site.entries(root, files, zone, history.end_ns)
    entries, lost = truths.placed(known_here, NodeNames(history.nodes, renamed))
    _say_lost([one for one in lost if one.source != truths.RULES])
    known = [*entries, *truths.reboots(history), *truths.labels(history)]
    faults = truths.faults(known, history) if known else None
    rules = [one for one in entries if one.source == truths.RULES]
    return Backtest(history, faults, rules, proposal(history, faults), asked)


def _say_lost(lost: list[Known]) -> None:
    """How many entries are of no node of the history, with some of their names."""
    if not lost:
        return
    print(
        f"left out: {len(lost):,} entries of what the site knew, which name no node of the history "
        f"({some_of({one.node for one in lost})}); the nodes of a mapping rename them",
        file=sys.stderr,
    )


def _history(args: argparse.Namespace, root: Path, span: Span) -> History:
    from collector.cli.progress import Progress  # noqa: PLC0415
    from collector.cli.spread import spread  # noqa: PLC0415
    from collector.config.load import load  # noqa: PLC0415
    from collector.replaying.stored import extent  # noqa: PLC0415
    from history.backtest.judged import together  # noqa: PLC0415
    from history.backtest.pieces import Asked, history_of  # noqa: PLC0415

    where = begin_us, end_us = extent(root, span)
    able = _judgeable(root, where)
    names = tuple(one.name for one in able if one.is_judged)
    asked = Asked(load(inputs(args)).config, root.absolute(), span, names)
    with spread(args) as executor, closing(Progress(sys.stderr)) as bar:
        if executor is None:
            step = lambda ns: bar((ns // 1000 - begin_us) / max(end_us - begin_us, 1))  # noqa: E731
            histories = [history_of(asked, step)]
        else:
            histories = _spread(asked, executor, bar)
    history = together(histories)
    history.judgeable = able
    return history


def _spread(asked: Asked, executor: Executor, bar: Progress) -> list[History]:
    """Some nodes in each piece."""
    from collector.replaying.nodes import NODES_AT_ONCE  # noqa: PLC0415
    from collector.replaying.stored import hosts_of  # noqa: PLC0415
    from history.backtest.pieces import history_of  # noqa: PLC0415
    from pipeline.pieces.interface import of_hosts, results  # noqa: PLC0415

    hosts = hosts_of(asked.root, asked.span)
    pieces = of_hosts(hosts, executor.slots, NODES_AT_ONCE, lambda part: replace(asked, nodes=part))
    return results(executor, history_of, pieces, bar)


def _judgeable(root: Path, extent_us: tuple[int, int]) -> list[Judgeable]:
    from history.backtest.judgeable import judgeable  # noqa: PLC0415
    from pipeline.store.query.coverage import coverage  # noqa: PLC0415
    from pipeline.store.query.store import Store  # noqa: PLC0415

    begin, end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent_us)
    return judgeable(coverage(Store(root), begin, end))


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(f"--time-zone {name}: no such time zone") from None


def _text(made: Backtest, root: Path, form: str) -> str:
    from history.backtest import forms  # noqa: PLC0415
    from history.backtest.pictures import pictures  # noqa: PLC0415
    from history.backtest.report import sections  # noqa: PLC0415

    parts = sections(made)
    if form == ".json":
        return json.dumps(forms.document(made, parts), indent=1) + "\n"
    if form == ".md":
        return forms.markdown(parts)
    return forms.html(parts, pictures(root, made.history.alerts))
