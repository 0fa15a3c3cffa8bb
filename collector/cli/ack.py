"""``tocsin ack``: acknowledge an incident of a running agent."""

from __future__ import annotations

import argparse

from collector.cli.agent_request import tell
from collector.cli.options import add_settings
from collector.cli.parser import Parser
from collector.cli.terminal import plain
from pipeline.short_ids import short

NAME = "ack"
USAGE = "ack INCIDENT --note TEXT [options]"
HELP = "Acknowledge an open incident, with a note on what is being done."
EXAMPLE = """\
Example:
  tocsin ack 8f14e45f --note "node drained, RMA 4711"

INCIDENT is an id, its first characters, or latest; the status page, the log and
/api/v1/incidents show ids. The agent stores who acknowledged what and when, and shows it on its
page. `tocsin_incident_acknowledged` is exported next to `tocsin_incident_active` until the
incident ends, or until a page for another device joins it: that one has to be acknowledged too.
The command uses a socket in the agent's storage path, open to root and the agent's user only."""


def options(parser: Parser) -> None:
    """Which incident and what is being done."""
    parser.add_argument(
        "incident",
        metavar="INCIDENT",
        help="id of an open incident, its first characters (at least 4), or latest",
    )
    parser.add_argument("--note", required=True, metavar="TEXT", help="what is being done about it")
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Tell the agent."""
    done = tell(args, {"command": "ack", "incident": args.incident, "note": args.note})
    if done is None:
        return 1
    print(f"incident {short(done['incident'])} is acknowledged: {plain(done['summary'])}")
    return 0
