"""The registry has every detector, with its page and its test."""

from __future__ import annotations

import ast

import pytest

from detectors import DETECTORS, PAGES
from detectors.kit.page import Page
from tests.sources import ROOT, files, tree


@pytest.mark.slow
def test_every_detector_of_the_folder_is_registered() -> None:
    """A detector is a module with a page."""
    modules = {
        ".".join(path.with_suffix("").parts)
        for path in files("detectors")
        for node in tree(ROOT / path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGE"
    }
    assert modules == {make.__module__ for make in DETECTORS.values()}


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_has_a_complete_page(name: str) -> None:
    """With classes of the scenario suite or the reason why there are none, but not both."""
    page = PAGES[name]
    assert isinstance(page, Page)
    assert all((page.formula, page.sources, page.shows, page.next_step, page.clears))
    assert bool(page.scored_as) != bool(page.unscored)


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_has_a_test(name: str) -> None:
    """In a file of the name of its module, or of its folder."""
    parts = DETECTORS[name].__module__.split(".")
    folder = ROOT.joinpath("tests", *parts[:-1])
    names = {parts[-1], parts[-2]} if len(parts) > 2 and parts[-1] == "detector" else {parts[-1]}
    assert any((folder / f"test_{each}.py").is_file() for each in names)
