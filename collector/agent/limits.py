"""Limits of the process: as many open files as it may have."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("tocsin.agent")

# 55 kept open per InfiniBand port, 256 connections, pipes and logs: a node with 16 ports needs more
# than the usual soft limit of 1,024.
WANTED, SCARCE = 65_536, 1_024


def raise_open_files() -> int:
    """Raise the soft limit as far as the hard one allows, 65,536 at most; what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft != resource.RLIM_INFINITY and soft < SCARCE:
        log.warning(
            (
                "only %d files may be open at a time (RLIMIT_NOFILE): not every port's "
                "counters may be read"
            ),
            soft,
        )
    return soft
