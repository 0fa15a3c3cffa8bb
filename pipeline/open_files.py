"""Limits of the process: as many open files as it may have."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("tocsin.files")

# 55 kept open per InfiniBand port, 256 connections, pipes and logs: a node with 16 ports needs more
# than the usual soft limit of 1,024.
WANTED, SCARCE = 65_536, 1_024


def raise_open_files(at_risk: str = "") -> int:
    """Raise the soft limit as far as the hard one allows, 65,536 at most; what it is then.

    Where that is little, the log says what is ``at_risk``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if at_risk and soft != resource.RLIM_INFINITY and soft < SCARCE:
        log.warning("only %d files may be open at a time (RLIMIT_NOFILE): %s", soft, at_risk)
    return WANTED if soft == resource.RLIM_INFINITY else soft
