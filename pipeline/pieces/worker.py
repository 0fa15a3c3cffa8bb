"""The child that does pieces: the number of one on each line of its standard input; arguments and
results are files in a folder of its parent.

An error ends it; its standard error is then in a file of that folder.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.child import end_with_parent
from pipeline.pieces.interface import called
from pipeline.plugin import load


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input ends. ``arguments``: the work as MODULE:NAME, and the folder."""
    end_with_parent()  # a piece may take hours, and is of no use once its parent has ended
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the work prints is no answer
    folder = Path(arguments[1])
    for line in sys.stdin:
        number = int(line)
        errors, given = folder / f"{number}.err", folder / f"{number}.piece"
        with errors.open("wb") as file:
            os.dup2(file.fileno(), 2)
        argument = pickle.loads(given.read_bytes())  # noqa: S301 - our own parent's, in a folder of its
        result = called(load(arguments[0]), argument)
        part = folder / f"{number}.part"
        part.write_bytes(pickle.dumps(result))
        part.replace(folder / f"{number}.result")
        given.unlink()
        errors.unlink()
        answers.write(f"{number}\n")
        answers.flush()
