"""An agent says which detectors are read less often than they ask for."""

from __future__ import annotations

from collector.agent.slow_readings import slow_readings
from detectors import PAGES
from detectors.paging import PROVED
from tests.collector.agent.test_sources import config


def test_nothing_is_slow_as_installed() -> None:
    """Every detector gets what it needs, and each kind of device that one needs is known."""
    assert not list(slow_readings(config()))


def test_a_detector_that_is_read_too_slowly_is_named() -> None:
    """With what it needs and what it gets; others go on."""
    warnings = list(slow_readings(config(sources__nvml__period="20s")))
    (hang,) = [one for one in warnings if "detector hang " in one]
    assert hang.endswith("it needs a reading every 10 s (here 20 s)")
    slowest = max(PAGES[name].needs.every_s for name in PROVED)
    assert not any(
        f"detector {name} " in one
        for one in warnings
        for name in PROVED
        if PAGES[name].needs.every_s == slowest
    )
