"""How commands speak to a running agent: one request to the socket in its storage path, in the name
of the user who typed them.
"""

from __future__ import annotations

import argparse
import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collector.cli.options import inputs
from collector.cli.terminal import plain
from collector.config.load import load
from collector.control import request


def tell(
    args: argparse.Namespace, message: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> dict[str, Any] | None:
    """The agent's answer; None where it refuses or cannot be reached, with its
    words on standard error.
    """
    root = Path(load(inputs(args)).config.storage.path)
    try:
        return answered(root, message, environ)
    except (ValueError, OSError) as error:
        print(f"tocsin: {plain(str(error))}", file=sys.stderr)
        return None


def answered(
    root: Path, message: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """The answer of the agent with this storage path. ValueError where it refuses, OSError where it
    cannot be reached.
    """
    return request(root, {**message, "user": user_name(environ)}, what="agent")


def user_name(environ: Mapping[str, str]) -> str:
    """Who types: behind sudo the one who called it."""
    if os.geteuid() == 0 and environ.get("SUDO_USER"):
        return environ["SUDO_USER"]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user needs no name
        return str(os.getuid())
