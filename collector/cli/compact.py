"""``tocsin compact``: bring a store into shape: a node's own folder, or what all nodes sent to an
object store or shared directory.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.spread import spread, spread_options
from collector.cli.stop import SignalStop
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from pipeline.pieces.interface import Executor, PiecesError
from pipeline.store.files.layout import is_ours, owner_of
from pipeline.store.files.lock import DirectoryTakenError
from pipeline.store.keep.policy import REASONS
from pipeline.store.remote.upload_plan import scheme

NAME = "compact"
USAGE = "compact [--once] [--shared] [--confirm-removal] [--storage.path DIR|URL] [options]"
HELP = "Compact a store: merge files, build roll-ups, apply retention."
EXAMPLE = """\
Examples:
  tocsin compact --once                               (this node's store, as the agent does)
  tocsin compact --storage.path s3://bucket/fleet     (one per cluster, runs until it is stopped)
  tocsin compact --shared --storage.path /mnt/fleet --once
  tocsin compact --once --storage.path s3://bucket/fleet --ray ray://head:10001

On a node the files of a past day are merged into one per table, roll-ups of 1 and 15 minutes are
built, and storage.retention and storage.most_bytes are applied; the agent may be running. In an
object store, or with --shared, the hours of all nodes are merged into files of about 256 MB
below compacted/, and the nodes' own files are removed two days later: this needs permission to
list, read and delete."""

EVERY_S = 900.0
IMPORTED = "imported"  # in place of a boot in names of files (pipeline/store/files/scraped.py)


def options(parser: Parser) -> None:
    """Once or for ever, of a node or of a cluster."""
    parser.add_argument(
        "--once",
        action="store_true",
        help="run once (default: every 15 minutes)",
    )
    parser.add_argument(
        "--confirm-removal",
        action="store_true",
        help="delete all that is past its retention at once, not one day at a time",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="the directory is shared by many nodes, not a node's own",
    )
    spread_options(parser)
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Compact until stopped; with --once 1 where that one run failed."""
    config = load(inputs(args)).config
    with spread(args) as executor:
        work = _work(config, executor, shared=args.shared, confirmed=args.confirm_removal)
        if args.once:
            return int(_attempt(work))
        ending = SignalStop().on_signals()
        while not ending.is_set():
            _attempt(work)
            ending.wait(EVERY_S)
    return 0


def _work(
    config: Config, executor: Executor | None, *, shared: bool, confirmed: bool
) -> Callable[[], str]:
    """One run over the store that is meant, with what to say of it;
    ConfigError where it is none.
    """
    url = config.storage.path
    local = scheme(url) == "directory"
    if local and not Path(url).is_dir():
        raise ConfigError(f"storage.path: {url} does not exist")
    if shared or not local:
        return lambda: _cluster(config, executor)
    manifest: Any = importlib.import_module("pipeline.store.remote.manifest")
    if (Path(url) / manifest.ROOT).is_dir() or _of_many(Path(url)):
        # a node's compaction would count rows twice, and hold all nodes to the budget of one
        raise ConfigError(f"storage.path: {url} is shared by a cluster's nodes: add --shared")
    if executor:
        raise ConfigError("--workers, --ray: a node's own store is compacted by one process")
    return lambda: _node(config, confirmed=confirmed)


def _of_many(root: Path) -> bool:
    """Whether several nodes send their files here, of which none is merged yet: a node's own folder
    has its log, and what was imported is one writer's.
    """
    if (root / "wal").is_dir():
        return False
    names = (path.name for path in root.glob("reads/date=*/hour=*/*.parquet") if is_ours(path))
    owners = (owner_of(name) for name in names if name.split("-")[2] != IMPORTED)
    first = next(owners, "")
    return any(owner != first for owner in owners)


def _attempt(work: Callable[[], str]) -> bool:
    """Run once; whether it failed. The reason is on standard error."""
    # here: pyarrow is for the commands that need it
    objects: Any = importlib.import_module("pipeline.store.remote.objects")
    try:
        print(work(), flush=True)
    except (OSError, DirectoryTakenError, PiecesError, objects.RefusedError) as error:
        print(f"tocsin: {error}", file=sys.stderr, flush=True)
        return True
    return False


def _node(config: Config, *, confirmed: bool) -> str:
    upkeep: Any = importlib.import_module("pipeline.store.keep.upkeep")
    generations: Any = importlib.import_module("pipeline.store.keep.generations")
    done = upkeep.upkeep(
        generations.Pass(Path(config.storage.path), _now_us()),
        config.storage.policy,
        confirmed=confirmed,
    )
    lines = [
        (
            f"{done.written} files replace {done.replaced}; "
            f"{_size(sum(done.sizes.values()))} of {_size(done.budget)} used"
        )
    ]
    lines += [f"in quarantine: {words}" for words in done.quarantined]
    lines += [f"damaged, left in place: {words}" for words in done.fresh]
    lines += [f"left alone: {words}" for words in done.skipped_names]
    lines += [
        f"held back {_size(size)} of {table}: more than a day's worth is past its retention; "
        "--confirm-removal deletes it now"
        for table, size in done.held_back.items()
    ]
    lines += [
        f"removed {_size(size)} of {table}: {REASONS[why]}"
        for table, given in done.removed.items()
        for why, size in given.items()
    ]
    return "\n".join(lines)


def _cluster(config: Config, executor: Executor | None) -> str:
    pieces: Any = importlib.import_module("pipeline.store.keep.cluster_pieces")
    target = replace(config.storage.upload.target, url=config.storage.path)
    done = pieces.compact(target, _now_us(), executor)
    return "\n".join(
        [
            (
                f"{done.hours} hours of tables: {done.sources} files into {done.files} of "
                f"{_size(done.size)}; {done.expired} expired"
            ),
            *_named(done.damaged),
        ]
    )


def _named(damaged: Mapping[str, str]) -> list[str]:
    return [f"left in place: {name}: {why}" for name, why in damaged.items()]


def _now_us() -> int:
    return time.time_ns() // 1000


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(0), _size(2048), _size(5 * 2**30)
    ('0 B', '2.0 KiB', '5.0 GiB')
    """
    size, units = float(count), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
