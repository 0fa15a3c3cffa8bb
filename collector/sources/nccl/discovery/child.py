"""The child that looks for NCCL's version in a library: ``main([root, path])`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from collector.sources.nccl.children import confine
from collector.sources.nccl.discovery.library import search


def main(arguments: Sequence[str]) -> None:
    """Print the version, or nothing."""
    confine()
    root, path = arguments
    try:
        found = search(path, Path(root))
    except OSError:
        found = ""
    if found:
        sys.stdout.write(f"{found}\n")
