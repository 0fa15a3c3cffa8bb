"""Tells NVSentinel's platform connector on this node which incidents opened and
ended, over its Unix socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from collector.integrations.changes import Changes
from collector.integrations.nvsentinel.event import METHOD, health_events
from collector.integrations.policy import off
from collector.sources.jobs.kubelet.grpc import call
from pipeline.clock import Clock

DEADLINE_S = 5.0
MAX_EVENTS = 10  # of one look


class Bridge:
    """``look`` gives the verdict of collector/integrations/verdict.py.

    ``tick`` is one look; GrpcError where nobody listens, or refuses.
    """

    def __init__(
        self,
        socket: Path,
        off_file: str,
        node: str,
        look: Callable[[], Mapping[str, Any]],
        clock: Clock,
    ) -> None:
        self._socket, self._off_file, self._node = socket, off_file, node
        self._look, self._clock = look, clock
        self._changes = Changes()

    def tick(self) -> None:
        """Send what changed, in one message; nothing while nothing did."""
        if off(self._off_file):
            return
        changed = list(islice(self._changes.of(self._look()), MAX_EVENTS))
        if not changed:
            return
        call(
            self._socket,
            METHOD,
            health_events(changed, self._node, self._clock.time_ns()),
            timeout_s=DEADLINE_S,
        )
        for incident, over in changed:
            self._changes.reported(incident, over=over)
