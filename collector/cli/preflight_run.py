"""What ``tocsin preflight`` does: look, measure, compare, store, print."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from collector.cli import logs
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.control import request
from collector.preflight.compare import low
from collector.preflight.deep import diagnose
from collector.preflight.gather import gather
from collector.preflight.model import Outcome
from collector.preflight.quick import quick
from collector.preflight.report import FORMS, Report
from collector.preflight.report import request as stored
from collector.preflight.standard import Measured, measure
from collector.sources.jobs.slurm.allocations import indices


def preflight(args: argparse.Namespace, config: Config) -> int:
    """The format's exit code."""
    logs.set_up("error", config.log.format)
    began_s = time.monotonic()
    machine = gather(config, node=args.simulated, chosen=chosen(args.gpus, os.environ))
    outcomes = quick(machine)
    measured: list[Measured] = []
    if args.level != "quick":
        measured, lacking = measure(machine, args.python)
        earlier, why = _earlier(config) if measured else ([], "")
        outcomes += [*lacking, *low(machine, measured, earlier), *_lacking(why)]
    if args.level == "deep":
        outcomes += diagnose(machine)
    report = Report(args.level, machine, time.monotonic() - began_s, outcomes, measured)
    reply = FORMS[args.form](report)
    sys.stdout.write(f"{reply.text}\n")
    if not args.no_store:
        _store(config, report)
    return reply.code


def chosen(given: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Indices of the GPUs of the job. ConfigError where the option is no list of numbers."""
    text = environ.get("SLURM_JOB_GPUS", "") if given is None else given
    found = indices(text)
    if given and not found:
        raise ConfigError(f"--gpus: expected indices such as 0,2-3, got {given!r}")
    return tuple(map(str, found))


def _store(config: Config, report: Report) -> None:
    """Through the running agent, which writes its store alone."""
    try:
        request(Path(config.storage.path), stored(report), what="agent")
    except (OSError, ValueError) as error:
        print(f"tocsin: result not stored: {error}", file=sys.stderr)


def _earlier(config: Config) -> tuple[list[Measured], str]:
    """Earlier results in the store; none, and why, where it cannot be read."""
    from collector.preflight.history import earlier  # noqa: PLC0415 - the level quick needs no polars

    try:
        return earlier(config), ""
    except (OSError, ValueError, RuntimeError) as error:
        return [], str(error)


def _lacking(why: str) -> list[Outcome]:
    return [Outcome("history", "unknown", "node", f"no earlier results: {why}")] if why else []
