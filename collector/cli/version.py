"""``tocsin version``."""

from __future__ import annotations

import argparse
import platform

from collector.version import VERSION

NAME = "version"
USAGE = "version"
HELP = "Print the version."
EXAMPLE = "Example: tocsin version"


def options(_parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(_args: argparse.Namespace) -> int:
    """Print it."""
    print(text())
    return 0


def text() -> str:
    """Version of Tocsin and of what it runs on."""
    return f"tocsin {VERSION} (Python {platform.python_version()}, {platform.machine()})"
