"""Looks at the verdict every few seconds and writes what changed to the Node; follows
whether people cordoned it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from collector.config.gates import Kubernetes
from collector.integrations.changes import Changes
from collector.integrations.kubernetes.api import Api
from collector.integrations.kubernetes.objects import TAINT, TYPE, condition, event
from collector.integrations.policy import off
from pipeline.clock import SECOND_NS, Clock

log = logging.getLogger("tocsin.gates")

HEARTBEAT_S = 300.0  # as node-problem-detector's, for a condition that does not change
# of one look: a storm becomes incidents, and incidents beyond these wait for the next look
MAX_EVENTS = 10

Look = Callable[[], Mapping[str, Any]]


class Reporter:
    """``look`` gives the verdict of collector/integrations/verdict.py, ``cordoned`` gets
    whether the Node takes pods.

    ``tick`` is one look. What the Node says when the agent stops stays: the heartbeat
    shows that nobody renews it.
    """

    def __init__(
        self,
        settings: Kubernetes,
        off_file: str,
        host: str,
        look: Look,
        clock: Clock,
        *,
        cordoned: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._settings, self._off_file, self._look, self._clock = settings, off_file, look, clock
        self._node = settings.node or host
        self._cordoned = cordoned
        self._said: dict[str, Any] | None = None  # the condition as the Node has it
        self._written_ns = 0
        self._changes = Changes()

    def tick(self) -> None:
        """One look.

        OSError where the API server cannot be reached or refuses: the next look tries again.
        """
        if off(self._off_file):
            return
        verdict, now = self._look(), self._now()
        api = Api(self._settings) if self._settings.report == "on" else None
        if self._said is None and api is not None:
            self._learn(api.node(self._node))
        made = condition(verdict, now, self._said)
        if self._differs(made):
            if api is None:
                self._rehearse(made)
            else:
                self._learn(api.patch_status(self._node, made))
            self._said, self._written_ns = made, self._clock.monotonic_ns()
        self._events(api, verdict, now)

    def _differs(self, made: Mapping[str, Any]) -> bool:
        if (
            self._said is None
            or self._clock.monotonic_ns() - self._written_ns >= HEARTBEAT_S * SECOND_NS
        ):
            return True
        return any(made[name] != self._said.get(name) for name in ("status", "reason", "message"))

    def _learn(self, node: Mapping[str, Any]) -> None:
        conditions = node.get("status", {}).get("conditions", ())
        self._said = next((dict(known) for known in conditions if known.get("type") == TYPE), None)
        self._follow(node)

    def _rehearse(self, made: Mapping[str, Any]) -> None:
        """A dry run writes nothing to the API server, and asks it for nothing but
        whether the node is cordoned.
        """
        if self._settings.cordon:
            self._follow(Api(self._settings).node(self._node))
        log.info("dry run: would set condition %s of node %s: %s", TYPE, self._node, made)

    def _follow(self, node: Mapping[str, Any]) -> None:
        if self._settings.cordon:
            spec = node.get("spec", {})
            ours = any(taint.get("key") == TAINT for taint in spec.get("taints") or ())
            self._cordoned(spec.get("unschedulable") is True and not ours)

    def _events(self, api: Api | None, verdict: Mapping[str, Any], now: str) -> None:
        for incident, over in islice(self._changes.of(verdict), MAX_EVENTS):
            made = event(incident, self._node, now, over=over)
            if api is None:
                log.info(
                    "dry run: would write Event %s: %s", made["metadata"]["name"], made["message"]
                )
            else:
                api.create_event(made)
            self._changes.reported(incident, over=over)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
