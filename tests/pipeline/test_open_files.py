"""Open files: raised to what is allowed, said where that is little."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sources import ROOT

PROGRAM = """
import logging, resource, sys
logging.basicConfig(format="%(message)s")
from pipeline.open_files import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
soft = raise_open_files("not every port's counters may be read")
print(soft, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("soft", "hard", "after", "said"),
    [
        (100, 2000, "2000 2000 2000", ""),
        (
            100,
            300,
            "300 300 300",
            (
                "only 300 files may be open at a time (RLIMIT_NOFILE): not every port's "
                "counters may be read"
            ),
        ),
        (3000, 3000, "3000 3000 3000", ""),
    ],
    ids=["raised", "scarce", "as it is"],
)
def test_the_soft_limit_is_raised_as_far_as_allowed(
    soft: int, hard: int, after: str, said: str
) -> None:
    """A service manager's default of 1,024 does not cost a node with many ports its counters."""
    argv = [sys.executable, "-c", PROGRAM, str(soft), str(hard)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == after
    assert done.stderr.strip() == said
