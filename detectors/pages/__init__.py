"""One page per detector, for `docs/detectors.md` and `tocsin explain`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from types import ModuleType

from detectors import DETECTORS
from detectors.pages import fabric, gpus, jobs
from detectors.pages.page import Page, Shown

PAGES: Mapping[str, Page] = {**gpus.PAGES, **jobs.PAGES, **fabric.PAGES}

__all__ = ["PAGES", "Page", "Shown", "module_of", "prose_of"]


def module_of(name: str) -> ModuleType:
    """The module that a detector stands in. KeyError where there is none of that name."""
    return sys.modules[DETECTORS[name].__module__]


def prose_of(name: str) -> list[str]:
    """What a detector says of itself, by paragraph: its module's docstring, then its own without the example. KeyError as above."""
    own = (inspect.getdoc(DETECTORS[name]) or "").partition(">>>")[0]
    paragraphs = [*(module_of(name).__doc__ or "").split("\n\n"), *own.split("\n\n")]
    return [paragraph.strip() for paragraph in paragraphs if paragraph.strip()]
