"""Which sources of a host are judged: each name costs the judge memory of its own, and a pass over
the fleet each second, whatever comes under it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

log = logging.getLogger("tocsin.gateway")

OWN = frozenset({"topology", "operator", "engine"})  # of agents, beside those with settings
# Sources of agents of other versions. With those that are known, the model of the cluster has room
# for all (gateway/model/cluster.py).
MAX_OTHERS = 8
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")  # it becomes a part of names in a snapshot


class SourceNames:
    """The ``known`` ones, and the first few others until their hosts are gone.

    >>> names = SourceNames({"nvml"})
    >>> names.admit("n1", "nvml"), names.admit("n1", "later"), names.admit("n1", "no/name")
    (True, True, False)
    >>> names.forget(["n1"])
    ['later']
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = OWN.union(known)
        self._hosts: dict[str, set[str]] = {}  # which send it, by other name
        self._warned: set[str] = set()  # hosts
        self.refused = 0  # observations

    def admit(self, host: str, source: str) -> bool:
        """Whether an observation of this source of a host is judged; counted where it is not, and
        the first one of a host is logged.
        """
        if source in self._known:
            return True
        if source in self._hosts or (len(self._hosts) < MAX_OTHERS and _NAME.fullmatch(source)):
            self._hosts.setdefault(source, set()).add(host)
            return True
        self.refused += 1
        if host not in self._warned:
            self._warned.add(host)
            log.warning("%.80r sends a source %.80r, which is not judged", host, source)
        return False

    def forget(self, hosts: Sequence[str]) -> list[str]:
        """Hosts that are gone; the names that nobody sends any more."""
        self._warned.difference_update(hosts)
        for its in self._hosts.values():
            its.difference_update(hosts)
        gone = [name for name, its in self._hosts.items() if not its]
        for name in gone:
            del self._hosts[name]
        return gone

    def plain(self) -> dict[str, list[str]]:
        """Other names, with the hosts that send them."""
        return {name: sorted(its) for name, its in self._hosts.items()}

    def resume(self, values: Mapping[str, Any]) -> None:
        """Go on with what ``plain`` gave."""
        self._hosts = {name: set(its) for name, its in values.items()}
