"""Settings as NCCL itself logs them: with NCCL_DEBUG=INFO each that it read, its version, and the
ports that it uses. Stronger than an environment, which shows the start only.

Lines: src/misc/param.cc, src/init.cc and src/transport/net_ib of NVIDIA/nccl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collector.facts.model import NodeFacts
from collector.foreign_text import printable
from collector.nccl_settings.model import Rank
from collector.nccl_settings.ranks import MAX_VALUE
from collector.sources.joblog.lines import Line
from collector.sources.joblog.match import shell_of
from collector.sources.nccl.discovery.library import version_of
from collector.sources.nccl.discovery.setting_names import KEPT

MAX_WRITERS = 16_384  # processes of one job whose logs are read
_SET = re.compile(r"(NCCL_\w{1,64}) set(?: by environment)? to (\S.{0,511}?)\.?$")
_VERSION = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})")
_USING = re.compile(r"NET/IB ?: Using((?: \[\d{1,3}\][^\s:]{1,64}:\d{1,3}/(?:IB|RoCE))+)")
_RANK = re.compile(r"comm 0x[0-9a-f]{1,16} rank (\d{1,7}) n[rR]anks (\d{1,7})")


@dataclass
class _Writer:
    """One process that logs. ``rank`` is that in the largest communicator it took part in."""

    settings: dict[str, str] = field(default_factory=dict)
    version: str = ""
    roce: bool | None = None
    rank: int = -1
    size: int = 0

    @property
    def tells(self) -> bool:
        return bool(self.settings or self.version or self.roce is not None)


class LoggedSettings:
    """Gathers lines of the logs of one job."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, int], _Writer] = {}

    def add(self, line: Line) -> bool:
        """Take what a line says; whether it says anything about settings."""
        if "NCCL" not in line.text:
            return False
        shell = shell_of(line)
        if shell.pid < 0:
            return False
        key = (shell.host, shell.pid)
        if key not in self._writers and len(self._writers) >= MAX_WRITERS:
            return False
        return self._take(self._writers.setdefault(key, _Writer()), shell.message)

    def _take(self, writer: _Writer, message: str) -> bool:
        if match := _SET.search(message):
            if match[1] in KEPT:
                writer.settings[match[1]] = printable(match[2], MAX_VALUE)
            return match[1] in KEPT
        if match := _VERSION.search(message):
            writer.version = match[1]
            return True
        if match := _USING.search(message):
            writer.roce = "/RoCE" in match[1]
            return True
        if (match := _RANK.search(message)) and int(match[2]) >= writer.size:
            writer.rank, writer.size = int(match[1]), int(match[2])
        return False

    def ranks(self, node_of: Callable[[str], NodeFacts | None] = lambda _: None) -> list[Rank]:
        """Each process that said something; ``node_of`` gives what is known of a host now.

        NCCL's version is logged by one rank for all of a communicator.
        """
        heard = {key: writer for key, writer in self._writers.items() if writer.tells}
        hosts = len({host for host, _ in self._writers})
        versions = {writer.version for writer in heard.values() if writer.version}
        only = next(iter(versions)) if len(versions) == 1 else ""
        nodes: Mapping[str, NodeFacts | None] = {host: node_of(host) for host, _ in heard}
        return [
            Rank(
                pid,
                writer.rank,
                host,
                writer.settings,
                version_of(writer.version or only),
                node=nodes[host],
                roce=writer.roce,
                hosts=hosts if hosts > 1 else 0,
                complete=False,
            )
            for (host, pid), writer in sorted(heard.items(), key=lambda one: (one[1].rank, one[0]))
        ]
