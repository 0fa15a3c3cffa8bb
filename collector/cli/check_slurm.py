"""``tocsin check --format slurm`` and ``--return``: what is done to this node on its Slurm
controller, in one line.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cli.terminal import plain
from collector.control import SOCKET, request
from collector.integrations.agent_client import Answer, asked

if TYPE_CHECKING:
    from collector.integrations.controller import Controller
    from collector.integrations.record import Record

RECORD = "gate.json"  # in the agent's storage path


def run(args: argparse.Namespace, answer: Answer) -> int:
    """0 whatever was done: HealthCheckProgram's exit code means nothing to Slurm.

    ``--return`` gives 1 where the node was not resumed.
    """
    folder = _folder(args.agent)
    # an agent that does not answer cannot be notified either
    follows = args.maintenance and not args.dry_run and bool(answer.document)
    acts = args.back or (folder is not None and (folder / RECORD).exists()) or answer.state != "ok"
    if folder is None or not (follows or (acts and answer.state != "unknown")):
        _say(_report(answer))  # a node that is well costs the controller nothing
        return int(args.back)
    return _on_controller(args, folder, answer, follows=follows)


def _on_controller(args: argparse.Namespace, folder: Path, answer: Answer, *, follows: bool) -> int:
    from collector.integrations.controller import Controller  # noqa: PLC0415 - a node that is well needs none of these
    from collector.integrations.drain import Gate  # noqa: PLC0415
    from collector.integrations.maintenance import follow  # noqa: PLC0415
    from collector.integrations.record import BusyError, Record  # noqa: PLC0415
    from collector.integrations.scheduler import CannotAskError  # noqa: PLC0415 - a node that is well needs none of these

    record, controller, policy = Record(folder / RECORD), Controller(), answer.policy
    node = _name(args, record)
    try:
        if (
            follows
        ):  # also of a node whose agent is blind: it often is while operators work on the node
            followed = follow(
                controller.node(node),
                answer,
                lambda message: request(folder, message, what="agent"),
            )
            if followed or answer.state == "unknown":
                _say(followed or _report(answer))
                return int(args.back)
        with record.held():
            if args.back:
                return _return(args, node, controller, record, answer)
            _say(
                Gate(node, controller, record, policy, now=time.time, dry_run=args.dry_run).check(
                    answer
                )
            )
            return 0
    except (CannotAskError, BusyError, OSError, ValueError) as error:
        _say(f"nothing done ({error}): {_report(answer)}")
        return int(args.back)


def _return(
    args: argparse.Namespace, node: str, controller: Controller, record: Record, answer: Answer
) -> int:
    from collector.config.load import Inputs, load  # noqa: PLC0415 - who returns a node has time to read settings
    from collector.integrations.resume import BurnInCheck, Return  # noqa: PLC0415

    slurm = load(Inputs(environ=os.environ)).config.gates.slurm
    proof = BurnInCheck(slurm.proof, float(slurm.proof_deadline))
    done = Return(
        node,
        controller,
        record,
        answer.policy,
        lambda: asked(args.agent),
        proof=proof,
        dry_run=args.dry_run,
    ).attempt()
    _say(done.text)
    return int(not done.resumed)


def _name(args: argparse.Namespace, record: Record) -> str:
    """This node's name in Slurm.

    A timer knows it from the record, which was written under slurmd.
    """
    drained = record.read()
    known = (
        args.node
        or os.environ.get("SLURMD_NODENAME")
        or (drained.node if drained is not None else "")
    )
    return known or os.uname().nodename.partition(".")[0]


def _folder(agent: str) -> Path | None:
    """Where the socket is.

    An answer over HTTP could be anybody's: it is shown, and nothing is done because of it.
    """
    if agent.startswith(("http://", "https://")):
        return None
    return Path(agent).parent if agent.endswith(f"/{SOCKET}") else Path(agent)


def _report(answer: Answer) -> str:
    return f"{answer.state}: {answer.reason}"


def _say(text: str) -> None:
    sys.stdout.write(f"tocsin: {plain(text)}\n")
