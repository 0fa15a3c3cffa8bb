"""``tocsin ack``: take an incident on, in a running agent."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings
from collector.cli.telling import tell

NAME = "ack"
USAGE = "ack INCIDENT --note TEXT [options]"
HELP = "Take an open incident on: say who looks after it and what is being done."
EXAMPLE = """\
Example:
  tocsin ack 8f14e45f --note "node drained, RMA 4711"

INCIDENT is its id, or the beginning of it, as the status page, the log and /api/v1/incidents show it. The agent keeps who, when and
what in its store and shows it on its page; `tocsin_incident_acknowledged` stands beside `tocsin_incident_active` until the incident ends,
or until it has a page about a device that nobody was paged for: that one has to be taken on too.
It is asked through a socket in its storage path, which only root and the agent's own user may use."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which incident and what is being done."""
    parser.add_argument("incident", metavar="INCIDENT", help="id of an open incident, or its first four characters or more")
    parser.add_argument("--note", required=True, metavar="TEXT", help="what is being done about it")
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Tell the agent."""
    done = tell(args, {"command": "ack", "incident": args.incident, "note": args.note})
    if done is None:
        return 1
    print(f"incident {done['incident']} is taken on: {done['summary']}")
    return 0
