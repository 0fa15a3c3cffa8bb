"""A site whose metrics go by other names than their exporters gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from history.meaning.labels import LabelMap
from history.site.series import Series, Site


def renamed(site: Site, labels: LabelMap | None) -> Site:
    """The site by the names that a mapping gives, itself where there are none."""
    return Renamed(site, labels.metrics) if labels and labels.metrics else site


@dataclass(frozen=True, slots=True)
class Renamed:
    """A ``Site``: ``metrics`` are its own names with those of the exporters; several may be one."""

    site: Site
    metrics: Mapping[str, str]

    @property
    def about(self) -> str:
        """See ``Site``."""
        return self.site.about

    @property
    def how(self) -> str:
        """See ``Site``."""
        return self.site.how

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """See ``Site``."""
        return sorted({self.metrics.get(n, n) for n in self.site.names(begin_ms, end_ms)})

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        for own in (name, *(mine for mine, theirs in self.metrics.items() if theirs == name)):
            for one in self.site.read(own, begin_ms, end_ms):
                yield replace(one, labels={**one.labels, "__name__": name})
