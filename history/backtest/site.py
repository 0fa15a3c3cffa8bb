"""Everything that a site knew of its nodes: files, and what an import found in its series."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from pathlib import Path

from history.backtest import known, sacctmgr
from history.backtest.known import Known
from history.importing import site_log

MS_NS = 1_000_000
# A span ends with its last sample; one that lasted to the end of the history is still open.
STILL_MS = 600_000


def entries(root: Path, files: Iterable[Path], zone: tzinfo, end_ns: int) -> list[Known]:
    """Of files (CSV, or sacctmgr's list of events) and of an import's own record. ConfigError,
    SiteError.
    """
    found: list[Known] = []
    for path in files:
        found += sacctmgr.read(path, zone) if sacctmgr.looks_like(path) else known.read(path)
    log = site_log(root)
    for node, source, cause, begin_ms, last_ms in log.spans if log else ():
        is_open = last_ms + STILL_MS >= end_ns // MS_NS
        closed_ns = 0 if is_open else last_ms * MS_NS
        found.append(Known(node, begin_ms * MS_NS, closed_ns, cause, source))
    return found
