"""``tocsin simulate``: a simulated node on disk, and faults for one that runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from threading import Thread
from typing import TextIO

from collector.cli import logs
from collector.cli.stop import SignalStop
from collector.config.raw_setting import ConfigError

NAME = "simulate"
USAGE = (
    "simulate DIR [--profile NAME] [--day NAME] [--inject FAULT]... | simulate DIR "
    "--status | simulate --list"
)
HELP = "Run a simulated GPU node in a directory, or inject faults into a running one."
EXAMPLE = """\
Examples:
  tocsin simulate --list
  tocsin simulate /tmp/node --profile hgx-h100 --inject ecc_storm@gpu3+60s
  tocsin simulate /tmp/node --day bad --speed 10
  tocsin simulate /tmp/node --inject xid@gpu2:code=79          (into the node that runs there)

`tocsin agent --simulate hgx-h100` runs one itself, in `simulated` below its storage path."""

DEFAULT_PROFILE = "hgx-h100"


def options(parser: argparse.ArgumentParser) -> None:
    """The node's folder and what happens in it."""
    parser.add_argument(
        "directory", nargs="?", default="", metavar="DIR", help="directory of the node's files"
    )
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME",
        help=f"hardware of the node (default: {DEFAULT_PROFILE}; see --list)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="equal seeds make equal nodes (default: 0)"
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="60: an hour takes a minute (default: 1)",
    )
    parser.add_argument(
        "--day",
        default="",
        metavar="NAME",
        help="a scripted day of faults (see --list), or a TOML file",
    )
    parser.add_argument(
        "--inject",
        action="append",
        default=[],
        metavar="FAULT",
        help="inject a fault; repeatable",
    )
    parser.add_argument(
        "--list", action="store_true", help="print profiles, and faults with their parameters"
    )
    parser.add_argument(
        "--status",
        action="store_true",
        help="print the state of the node that runs there, as JSON",
    )
    # For `tocsin agent --simulate`: end with the process that started this one, and say
    # errors where it listens.
    parser.add_argument("--owned", action="store_true", help=argparse.SUPPRESS)
    # And to share its clock: it runs at --speed since this instant of CLOCK_MONOTONIC.
    # Otherwise the node alone hurries.
    parser.add_argument("--since", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--ago", type=float, default=0.0, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Run until stopped, or ask and return."""
    try:
        return _run(args)
    except ValueError as error:  # an unknown profile or fault: the message says what there is
        if args.owned:
            print(error, flush=True)
        raise ConfigError(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"tocsin: {error}", file=sys.stdout if args.owned else sys.stderr, flush=True)
        return 1


def _run(args: argparse.Namespace) -> int:
    from simulator.day import day_names  # noqa: PLC0415 - other commands need no simulator
    from simulator.injection import faults_help  # noqa: PLC0415 - other commands need no simulator
    from simulator.profile import profile_names  # noqa: PLC0415
    from simulator.simulate import inject, status  # noqa: PLC0415

    if args.list:
        print(
            f"Profiles: {', '.join(profile_names())}\n\n"
            f"Days: {', '.join(day_names())}\n\n"
            "Faults:\n"
            f"{faults_help()}"
        )
        return 0
    if not args.directory:
        raise ValueError("simulate: in which folder? Give DIR, or --list")
    directory = Path(args.directory)
    if args.status:
        print(json.dumps(status(directory)))
        return 0
    if args.inject and not args.profile and not args.day:
        for spec in args.inject:
            print(json.dumps(inject(directory, spec)))
        return 0
    return _live(args, directory)


def _live(args: argparse.Namespace, directory: Path) -> int:
    from pipeline.clock import FastClock  # noqa: PLC0415
    from simulator.simulate import simulate  # noqa: PLC0415

    logs.set_up("info", "logfmt")
    stop = SignalStop().on_signals()
    if args.owned:
        Thread(target=_until_end, args=(sys.stdin, stop), daemon=True).start()
    given = {"seed": args.seed, "inject": args.inject, "day": args.day, "stop": stop}
    if args.since:
        simulate(
            directory,
            args.profile or DEFAULT_PROFILE,
            clock=FastClock(args.speed, args.since, args.ago),
            **given,
        )
    else:
        simulate(directory, args.profile or DEFAULT_PROFILE, speed=args.speed, **given)
    return 0


def _until_end(stream: TextIO, stop: SignalStop) -> None:
    """Its owner holds the other end: that closes when the owner ends, however it ends."""
    while stream.read(4096):
        pass
    stop.set()
