"""``tocsin maintenance``: take a device, or the whole node, out of service and back, in a running agent."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from collector.cli.options import add_settings
from collector.cli.telling import tell
from collector.config.given import ConfigError
from collector.config.units import Seconds

NAME = "maintenance"
USAGE = "maintenance [on --reason TEXT [--for DURATION] | off] [--device DEVICE] [options]"
HELP = "Take a device or the whole node out of service, so that nobody is paged for it, and back; or show what is out."
EXAMPLE = """\
Examples:
  tocsin maintenance on --reason "new firmware" --for 2h
  tocsin maintenance on --device gpu3 --reason "swapped, burning in"
  tocsin maintenance off --device gpu3
  tocsin maintenance                                       (what is out of service)

DEVICE is gpu3, mlx5_5 or mlx5_5/1, a PCI address, a UUID or GUID; without one it is the whole node. What happens meanwhile is
read, judged and kept as always; incidents are told when the device is back and the fault is still there. The agent is asked through
a socket in its storage path, which only root and the agent's own user may use."""


def options(parser: argparse.ArgumentParser) -> None:
    """On or off, what, why and for how long."""
    parser.add_argument("switch", nargs="?", choices=("on", "off"), help="out of service, or back")
    parser.add_argument("--device", default="", metavar="DEVICE", help="which (default: the whole node)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why it is taken out")
    parser.add_argument("--for", dest="duration", default="0", metavar="DURATION", help="bring it back after so long, such as 2h")
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Tell the agent, or ask it."""
    if args.switch is None:
        return _show(args)
    if args.switch == "on" and not args.reason.strip():
        raise ConfigError("maintenance on: say why: --reason TEXT")
    try:
        seconds = float(Seconds.parse(args.duration))
    except ValueError as error:
        raise ConfigError(f"--for: {error}") from error
    about = {"on": args.switch == "on", "device": args.device, "reason": args.reason, "seconds": seconds}
    done = tell(args, {"command": "maintenance", **about})
    if done is None:
        return 1
    print(f"{done['kind']} {done['device']} is {'out of' if done['out_of_service'] else 'back in'} service")
    return 0


def _show(args: argparse.Namespace) -> int:
    done = tell(args, {"command": "status"})
    if done is None:
        return 1
    for row in done["out_of_service"]:
        print(_line(row))
    if not done["out_of_service"]:
        print("everything is in service")
    return 0


def _line(row: dict[str, Any]) -> str:
    until = f"until {_time(row['until'])}" if row["until"] else "until somebody brings it back"
    return f"{row['kind']} {row['device']}: {row['reason']} (by {row['user']}, since {_time(row['since'])}, {until})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
