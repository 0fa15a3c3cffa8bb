"""One page per detector, for `docs/detectors.md` and `tocsin explain`."""

from __future__ import annotations

from collections.abc import Mapping

from detectors.pages import fabric, gpus, jobs
from detectors.pages.page import Page, Shown

PAGES: Mapping[str, Page] = {**gpus.PAGES, **jobs.PAGES, **fabric.PAGES}

__all__ = ["PAGES", "Page", "Shown"]
