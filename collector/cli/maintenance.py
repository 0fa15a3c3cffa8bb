"""``tocsin maintenance``: maintenance of a device or the node, in a running agent."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from collector.cli.agent_request import tell
from collector.cli.options import add_settings
from collector.cli.parser import Parser
from collector.config.raw_setting import ConfigError
from collector.config.units import Seconds

NAME = "maintenance"
USAGE = "maintenance [on --reason TEXT [--for DURATION] | off] [--device DEVICE] [options]"
HELP = (
    "Put a device or the node in maintenance, so that it does not page; or end or list maintenance."
)
EXAMPLE = """\
Examples:
  tocsin maintenance on --reason "new firmware" --for 2h
  tocsin maintenance on --device gpu3 --reason "swapped, burning in"
  tocsin maintenance off --device gpu3
  tocsin maintenance                                       (lists what is in maintenance)

DEVICE is gpu3, mlx5_5 or mlx5_5/1, a PCI address, a UUID or GUID; without one it is the node.
During maintenance the device is read, judged and stored as usual; its incidents alert after the
end of maintenance if the fault is still present. The command uses a socket in the agent's
storage path, open to root and the agent's user only."""


def options(parser: Parser) -> None:
    """On or off, what, why and for how long."""
    parser.add_argument("switch", nargs="?", choices=("on", "off"), help="begin or end")
    parser.add_argument("--device", default="", metavar="DEVICE", help="default: the node")
    parser.add_argument("--reason", default="", metavar="TEXT", help="required with on")
    parser.add_argument(
        "--for",
        dest="duration",
        default="0",
        metavar="DURATION",
        help="end by itself after this time, such as 2h",
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Tell the agent, or ask it."""
    if args.switch is None:
        return _show(args)
    if args.switch == "on" and not args.reason.strip():
        raise ConfigError("maintenance on: --reason TEXT is required")
    try:
        seconds = float(Seconds.parse(args.duration))
    except ValueError as error:
        raise ConfigError(f"--for: {error}") from error
    about = {
        "on": args.switch == "on",
        "device": args.device,
        "reason": args.reason,
        "seconds": seconds,
    }
    done = tell(args, {"command": "maintenance", **about})
    if done is None:
        return 1
    print(
        f"{done['kind']} {done['device']} is "
        f"{'out of' if done['out_of_service'] else 'back in'} service"
    )
    return 0


def _show(args: argparse.Namespace) -> int:
    done = tell(args, {"command": "status"})
    if done is None:
        return 1
    for row in done["out_of_service"]:
        print(_line(row))
    if not done["out_of_service"]:
        print("nothing is in maintenance")
    return 0


def _line(row: dict[str, Any]) -> str:
    until = f"until {_time(row['until'])}" if row["until"] else "until ended by hand"
    return (
        f"{row['kind']} {row['device']}: {row['reason']} (by {row['user']}, since "
        f"{_time(row['since'])}, {until})"
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
