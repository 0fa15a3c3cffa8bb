"""What the tests of pipeline/child.py run: a process that does what its first argument says."""

from __future__ import annotations

import os
import signal
import sys

from pipeline.child import Child, end_with_parent, python
from tests.wait import PATIENCE_S


def main(arguments: list[str]) -> None:
    """Echo standard input, stay deaf, start another that ends with it, or tell where
    ``pipeline`` was imported from.
    """
    match arguments:
        case ["echo"]:
            while data := os.read(0, 4096):
                os.write(1, data.upper())
        case ["silent"]:
            while True:
                signal.pause()
        case ["where"]:
            import pipeline  # noqa: PLC0415 - which one is found is the question

            os.write(1, f"{pipeline.__file__}\n{sys.flags.isolated}".encode())
        case ["bound"]:
            end_with_parent()
            os.write(1, f"{os.getpid()}".encode())
            signal.pause()
        case ["parent"]:
            one = Child(python("tests.pipeline.child_body", "bound"))
            os.write(1, one.receive(PATIENCE_S) or b"")
            signal.pause()
        case _:
            sys.exit(3)
