"""The index of known cases names tests that exist, and every test of this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.detectors.regressions.cases import ALL

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
NAMED = sorted({test for known in ALL for test in known.tests})


@pytest.mark.slow
@pytest.mark.parametrize("test", NAMED)
def test_a_case_is_held_by_a_test_that_exists(test: str) -> None:
    """The file is one that is collected, and the function a test in it: a case whose test was
    renamed or deleted is found out here.
    """
    file, _, name = test.partition("::")
    assert (TESTS / file).name.startswith("test_")
    module = import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")
    assert callable(getattr(module, name))
    assert name.startswith("test_")


def test_every_regression_of_this_folder_is_in_the_index() -> None:
    """What is here was written for a known case: the index says for which."""
    folder = HERE.relative_to(TESTS).as_posix()
    modules = {
        file.stem: import_module(f"{__package__}.{file.stem}")
        for file in HERE.glob("test_*.py")
        if file.name != Path(__file__).name
    }
    found = {
        f"{folder}/{stem}.py::{name}"
        for stem, module in modules.items()
        for name in vars(module)
        if name.startswith("test_")
    }
    assert found - set(NAMED) == set()
    assert found


def test_every_case_has_a_test_and_is_told_once() -> None:
    """No row is empty, and no mistake is listed twice."""
    assert all(known.tests for known in ALL)
    assert len({known.mistake for known in ALL}) == len(ALL)
