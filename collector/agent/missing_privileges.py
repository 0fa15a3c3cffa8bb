"""Logs once, soon after the start, what the agent does not read for lack of a privilege."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from collector.config.settings import Config
from collector.node.privileges import report

log = logging.getLogger("tocsin.agent")

AFTER_S = 10.0  # the helper of a pod starts beside the agent


def log_soon(config: Config, after_s: float = AFTER_S) -> Callable[[], None]:
    """Look in a thread, once the helper has had time to start; how to cancel it."""
    timer = threading.Timer(after_s, _log, (config,))
    timer.daemon = True
    timer.start()
    return timer.cancel


def _log(config: Config) -> None:
    for line in report(config):
        log.info("privileges: %s", line)
