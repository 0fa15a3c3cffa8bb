"""``tocsin hint``: tells jobs that asked for it that one of their GPUs will probably fail."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load
from collector.hint.hints import due, give, hint, predicted, processes_of
from collector.hint.subscription import Subscription, subscription
from collector.integrations.agent_client import asked
from collector.integrations.durable import write_json
from collector.integrations.policy import off
from collector.repair.holders import UnknownGpuError

NAME = "hint"
USAGE = "hint [--dry-run] [options]"
HELP = "Tell jobs that asked for it to save a checkpoint, as one of their GPUs will probably fail."
EXAMPLE = """\
Examples:
  tocsin hint --dry-run      (which processes would get which hint)
  tocsin hint                (from a timer, every minute; needs root and gates.hint.enabled)

A job asks by a variable of its environment: TOCSIN_CHECKPOINT_FILE names a file in a folder of its
own, which is replaced as the job's user, in its own view of its folders; TOCSIN_CHECKPOINT_SIGNAL
(USR1 or USR2) is sent only to a process that handles it; TOCSIN_CHECKPOINT_PORT is a port on
127.0.0.1 that gets POST /checkpoint with TOCSIN_CHECKPOINT_TOKEN as its bearer token."""
GIVEN = "hints.json"  # in the agent's storage path
PROC = Path("/proc")


def options(parser: Parser) -> None:
    """What to do."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    add_settings(parser, only=("storage", "gates"))


def run(args: argparse.Namespace) -> int:
    """0 where all hints were given, or none was due."""
    config = load(inputs(args)).config
    switch = off(config.gates.off_file)
    if switch or not (config.gates.hint.enabled or args.dry_run):
        print(f"tocsin: no hints ({switch or 'gates.hint.enabled is off'})")
        return 0
    file = Path(config.storage.path) / GIVEN
    given, now = _given(file), time.time()
    horizon_s, failed = float(config.gates.hint.horizon), 0
    hints = [hint(p, now, horizon_s) for p in predicted(asked(config.storage.path))]
    for one in hints:
        for who in _subscriptions(one["gpu_uuid"]):
            for new in due([one], who, given, now):
                trouble = "dry run" if args.dry_run else give(who, new)
                failed += bool(trouble) and not args.dry_run
                print(f"tocsin: pid {who.pid}, {new['reason']}: {trouble or 'given'}")
                given[f"{who.pid} {new['gpu_uuid']} {new['reason']}"] = now + horizon_s
    if not args.dry_run:
        write_json(file, {key: until for key, until in given.items() if until > now})
    return int(failed > 0)


def _subscriptions(uuid: str) -> Iterator[Subscription]:
    try:
        for pid in processes_of(PROC, uuid):
            try:
                found = subscription(PROC, pid)
            except OSError:
                continue
            if found is not None:
                yield found
    except (OSError, UnknownGpuError) as error:
        print(f"tocsin: {error}", file=sys.stderr)


def _given(file: Path) -> dict[str, float]:
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        return {str(key): float(until) for key, until in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
