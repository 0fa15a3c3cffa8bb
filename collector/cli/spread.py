"""``--ray`` and ``--workers``: who does the pieces of a command's work."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager

from collector.config.error import ConfigError
from pipeline.pieces.interface import Executor, PiecesError
from pipeline.pieces.on_ray import RayCluster
from pipeline.pieces.processes import Processes

RAY_HELP = "Ray cluster to spread over: HOST:PORT of its head, or ray://HOST:PORT"


def spread_options(parser: argparse.ArgumentParser, workers: str = "1") -> None:
    """Processes of this machine, or a Ray cluster."""
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--workers", type=int, metavar="N", help=f"processes (default: {workers})")
    some.add_argument("--ray", metavar="ADDRESS", help=RAY_HELP)


@contextmanager
def spread(args: argparse.Namespace) -> Iterator[Executor | None]:
    """Who does the pieces; None where all is to be done in this process.

    ConfigError where the number of workers is none, or the cluster cannot be used.
    """
    if args.workers is not None and args.workers < 1:
        raise ConfigError(f"--workers: {args.workers} is not a number of processes")
    if not args.ray:
        yield Processes(args.workers) if (args.workers or 1) > 1 else None
        return
    try:
        cluster = RayCluster(args.ray)
    except PiecesError as error:
        raise ConfigError(str(error)) from None
    with closing(cluster):
        yield cluster
