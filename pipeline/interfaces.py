"""The seams: one or two methods each. A fake, a list or a plain function satisfies them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from pipeline.finding import Finding, Incident
from pipeline.observation import Observation, Reading


@runtime_checkable
class Source(Protocol):
    """Reads one backend. ``name`` is its label in metrics, configuration and stored reads.

    ``read`` returns what it could read, and says in ``Reading.unread`` what it could not. It raises
    when the backend as a whole gave nothing: the engine times, counts, logs and backs off. It never
    sleeps to wait for a period.
    """

    @property
    def name(self) -> str:
        """Label of the source."""
        ...

    def read(self) -> Reading:
        """One reading, now."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A source or sink that holds something open.

    ``close`` is safe to call twice and returns within its own deadline.
    """

    def close(self) -> None:
        """Let go of everything."""
        ...


class Detector(Protocol):
    """Judges, then learns.

    No clock, no file, no network, no hardware: what it may know is in the observation.
    """

    @property
    def name(self) -> str:
        """Label of the detector."""
        ...

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Findings whose phase changed, or whose numbers should be said again."""
        ...


@runtime_checkable
class Current(Protocol):
    """A detector whose open findings can be looked at between two reports."""

    def current(self) -> Sequence[Finding]:
        """Open findings with the evidence that was last true, at their ``time_ns``.

        Another thread may ask.
        """
        ...


class Fusion(Protocol):
    """Makes incidents of what the detectors found. It knows no more than they do."""

    @property
    def name(self) -> str:
        """Its label."""
        ...

    def update(self, observation: Observation, findings: Sequence[Finding]) -> Iterable[Incident]:
        """Incidents that opened, changed or ended with these findings of an observation."""
        ...


class Sink(Protocol):
    """Takes every observation with the findings and incidents it gave rise to."""

    @property
    def name(self) -> str:
        """Label of the sink."""
        ...

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Keep or show it.

        Called in order of ``seq``; may raise: it is counted, and the others go on.
        """
        ...
