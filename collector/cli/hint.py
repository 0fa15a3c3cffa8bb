"""``tocsin hint``: informs jobs that asked for it that one of their GPUs will probably fail."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.terminal import plain
from collector.config.load import load
from collector.hint.given import SPEND_S, Given
from collector.hint.hints import give, hint, predicted, processes_of
from collector.hint.subscription import Subscription, subscription
from collector.integrations.agent_client import asked
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
(USR1 or USR2) is sent only to a process that handles it; TOCSIN_CHECKPOINT_PORT is a port on the
loopback of the job's own network, the pod's in a pod, that gets POST /checkpoint with
TOCSIN_CHECKPOINT_TOKEN as its bearer token. What failed is tried three times, what worked once."""
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
    given, failed = Given(Path(config.storage.path) / GIVEN), 0
    horizon_s, now = float(config.gates.hint.horizon), time.time()
    hints = [hint(p, now, horizon_s) for p in predicted(asked(config.storage.path))]
    spent: dict[int, float] = {}  # by user: one that is slow keeps no other waiting
    for one in hints:
        for who in _subscriptions(one["gpu_uuid"]):
            due = given.due(who, one, now)
            if due is None or spent.get(who.user, 0.0) > SPEND_S:
                continue
            began = time.monotonic()
            outcomes = dict.fromkeys(due.channels, "dry run") if args.dry_run else give(due, one)
            spent[who.user] = spent.get(who.user, 0.0) + time.monotonic() - began
            for channel, trouble in outcomes.items():
                done = plain(trouble) or "given"
                print(f"tocsin: pid {who.pid}, {one['reason']}, {channel}: {done}")
            if not args.dry_run:
                failed += any(outcomes.values())
                given.note(due, one, outcomes, now)
                given.write(now)  # now: who is killed before the next one repeats none
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
