"""Settings of a job that do not fit its node, looked at in a child: what tenants wrote is read on
the way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from collector.facts.model import NodeFacts
from collector.facts.node import node_facts
from collector.nccl_settings.ranks import ranks_of
from collector.nccl_settings.table import problems
from collector.nccl_settings.words import document
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.settings_watch import MAX_DOCUMENT, JobSettings, KnownJob
from collector.sources.tenants.desk import Desk, LookLostError, Mark

LOOK_S = 10.0  # for one job, with the start of the child


class SettingsReader:
    """Holds what processes set against what the node has, by files below ``proc`` and ``sysfs``."""

    def __init__(self, proc: Path, sysfs: Path, host: str) -> None:
        self._proc, self._sysfs, self._host = proc, sysfs, host

    @cached_property
    def _node(self) -> NodeFacts:
        return node_facts(self._host, self._proc, self._sysfs)

    def settings(self, processes: tuple[Found, ...], versions: tuple[str, ...]) -> JobSettings:
        """Of the processes of one job, with the version of NCCL of each, "" where not known."""
        ranks = ranks_of(self._proc, self._node, [*zip(processes, versions, strict=True)])
        return JobSettings(len(ranks), json.dumps(fitting([*map(document, problems(ranks))])))


class Looks:
    """How an agent looks: each job by itself, so that it costs no other job its look. The child
    ends after each round: a node's facts are read again for the next.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def of(self, job: KnownJob) -> JobSettings:
        """See settings_watch.Looks."""
        found = self._desk.ask(
            SettingsReader.settings, job.who, LOOK_S, job.processes, job.versions
        )
        if len(found.document) > MAX_DOCUMENT:
            raise LookLostError("garbage", f"{len(found.document)} characters about {job.name}")
        return found

    def rest(self) -> None:
        """See settings_watch.Looks."""
        self._desk.tend()
        self._desk.close()


def fitting(problems: Sequence[Any]) -> list[Any]:
    """Those that there is room for: the text of one may quote what a job wrote."""
    kept: list[Any] = []
    size = 2
    for one in problems:
        size_of_it = len(json.dumps(one)) + 2
        if size + size_of_it <= MAX_DOCUMENT:
            kept.append(one)
            size += size_of_it
    return kept


def reader(mark: Mark, proc: str, sysfs: str, host: str) -> SettingsReader:  # noqa: ARG001 - each look is at one job, which is blamed
    """The reader of a child."""
    return SettingsReader(Path(proc), Path(sysfs), host)
