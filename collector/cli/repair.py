"""``tocsin repair``: one step of the repair of this node, as far as the configuration allows."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from collector.cli.agent_request import user_name
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load
from collector.config.settings import Config
from collector.control import request
from collector.integrations.agent_client import asked
from collector.integrations.record import BusyError, Record
from collector.integrations.resume import BurnInCheck
from collector.integrations.scheduler import CannotAskError, Scheduler
from collector.integrations.tokens import Tokens
from collector.repair.acting import undo
from collector.repair.bundle import Bundles
from collector.repair.case import CaseFile, DamagedError
from collector.repair.delivery import NotDeliveredError, Tickets, deliver
from collector.repair.hands import Hands
from collector.repair.ladder import proposal
from collector.repair.machine import Machine
from collector.repair.machine_hands import MachineHands
from collector.repair.notes import Notes
from collector.repair.policies import policy_of, switches_of
from collector.repair.site import Site

NAME = "repair"
USAGE = "repair [--dry-run | --status | --forget DEVICE] [options]"
HELP = "Take the repair of this node one step further: drain, reset or reboot, check, return."
EXAMPLE = """\
Examples:
  tocsin repair --dry-run           (what it would do)
  tocsin repair                     (one step; from a timer, every few minutes)
  tocsin repair --status            (open repairs, and what helped before)
  tocsin repair --forget GPU-8a2f   (an operator has finished the repair of this device)

Each step has a switch in gates.repair, and all are off. Limits, canaries, the burn-in check and the
off switches are those of draining: docs/integrations.md. Needs root. An act whose outcome is
unknown is never repeated: the repair stops, and an operator decides."""
RECORD, CASES = "gate.json", "repair.json"  # in the agent's storage path


def options(parser: Parser) -> None:
    """What to do."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="only print what would be done")
    what.add_argument("--status", action="store_true", help="show open repairs and what helped")
    what.add_argument(
        "--forget",
        default="",
        metavar="DEVICE",
        help="end a stopped repair of this device (its id or the first characters)",
    )
    parser.add_argument(
        "--node", default="", metavar="NAME", help="this node's name in the scheduler"
    )
    add_settings(parser, only=("storage", "gates"))


def run(args: argparse.Namespace) -> int:
    """0 where the step was done or nothing is to be done; 1 where it could not be."""
    config = load(inputs(args)).config
    cases = CaseFile(Path(config.storage.path) / CASES)
    try:
        if args.status:
            return _status(cases)
        with Record(Path(config.storage.path) / RECORD).held():
            if args.forget:
                return _forget(
                    cases, args.forget, _hands(config, ""), lambda: _release(args, config)
                )
            return _advance(args, config, cases)
    except (CannotAskError, DamagedError, BusyError, OSError, ValueError) as error:
        print(f"tocsin: nothing done: {error}", file=sys.stderr)
        return 1


def _advance(args: argparse.Namespace, config: Config, cases: CaseFile) -> int:
    repair, root = config.gates.repair, Path(config.storage.path)
    record = Record(root / RECORD)
    node = _name(args, config, record)
    policy, proof = policy_of(config.gates)
    site = Site(
        node,
        _scheduler(config),
        record,
        policy,
        lambda: asked(str(root)),
        time.time,
        _uptime,
        switches_of(repair),
        BurnInCheck(*proof),
        args.dry_run,
    )
    notes = Notes(node, cases, time.time, silent=args.dry_run)
    machine = Machine(site, notes, _hands(config, node))
    for line in machine.advance() or ["nothing to repair"]:
        print(f"tocsin: {line}")
    if not args.dry_run:
        _deliver(cases, root, config)
    return 0


def _hands(config: Config, node: str) -> MachineHands:
    repair, root = config.gates.repair, Path(config.storage.path)
    bundles = Bundles(repair.bundles, root, node, float(repair.bug_report_deadline))
    return MachineHands(bundles, repair.check, float(repair.check_deadline))


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _deliver(cases: CaseFile, root: Path, config: Config) -> None:
    repair = config.gates.repair
    tickets = Tickets(
        repair.ticket_url,
        repair.ticket_token_file,
        repair.ticket_file,
        repair.ticket_mail,
        repair.mail_server,
    )

    def report(event: Mapping[str, Any]) -> None:
        try:
            request(root, {**event, "user": user_name(os.environ)}, what="agent")
        except (OSError, ValueError) as error:
            raise NotDeliveredError(f"steps are not stored yet: {error}") from error

    for trouble in deliver(cases, report, tickets.send):
        print(f"tocsin: {trouble}", file=sys.stderr)


def _scheduler(config: Config) -> Scheduler:
    name = config.gates.repair.scheduler
    if name == "slurm":
        from collector.integrations.controller import Controller  # noqa: PLC0415 - one of three

        return Controller()
    if name == "nvsentinel":
        from collector.integrations.nvsentinel.remediation import Remediation  # noqa: PLC0415

        return Remediation(config.gates.kubernetes)
    from collector.integrations.kubernetes.nodes import Nodes  # noqa: PLC0415

    return Nodes(config.gates.kubernetes)


def _name(args: argparse.Namespace, config: Config, record: Record) -> str:
    drained = record.read()
    known = args.node or (drained.node if drained is not None else "")
    if config.gates.repair.scheduler == "slurm":
        known = known or os.environ.get("SLURMD_NODENAME", "")
    else:
        known = known or config.gates.kubernetes.node or os.environ.get("NODE_NAME", "")
    return known or os.uname().nodename.partition(".")[0]


def _status(cases: CaseFile) -> int:
    book = cases.read()
    for case in book.cases.values():
        note = f": {case.note}" if case.note else ""
        words = proposal(case.fault, book.past)
        known = f"; {words}" if words else ""
        what = f"{case.name} ({case.device}), {case.fault}"
        print(f"{what}: {case.step}, {case.attempts} attempts{note}{known}")
    if not book.cases:
        print("no repair is open")
    return 0


def _release(args: argparse.Namespace, config: Config) -> None:
    """Nothing of this node's drain is ours any more; CannotAskError where its slot stays."""
    record = Record(Path(config.storage.path) / RECORD)
    Tokens(_scheduler(config), _name(args, config, record)).drop_slots()
    record.forget()


def _forget(cases: CaseFile, device: str, hands: Hands, release: Callable[[], None]) -> int:
    """A run that died may have left services stopped: nobody else would start them again. The drain
    is given up with the last repair of the node.
    """
    book = cases.read()
    found = [c for c in book.cases.values() if c.device.startswith(device) or c.name == device]
    if len(found) != 1:
        print(f"tocsin: {len(found)} open repairs match {device!r}", file=sys.stderr)
        return 1
    undo(found[0], hands)
    if len(book.cases) == 1:
        release()
    cases.write(book.without(found[0]))
    print(f"the repair of {found[0].name} is over")
    return 0
