"""Values that stand in no cell: derived fields, the last XID, the exporter's own counts,
and fields of single links.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipeline.catalog import facts_of
from pipeline.clock import Clock
from pipeline.dcgm import derived
from pipeline.dcgm.clock_events import ClockEvents
from pipeline.dcgm.entities import Entity
from pipeline.dcgm.names import EXPORTER, XID
from pipeline.dcgm.options import Options, Xids
from pipeline.exposition.loose import Labels
from pipeline.exposition.numbers import float_text
from pipeline.frame import Frame
from pipeline.xid.table import xid_entry

EXPORTER_IDS = frozenset(EXPORTER.values())
# derived fields that DCGM reads from the instance, not from its GPU
PER_INSTANCE = frozenset((254,))
FACT_OF = {dcgm.id: fact.name for fact in facts_of("gpu") for dcgm in fact.dcgm}
_XIDS_COUNT, _XIDS_TOTAL = (
    EXPORTER["DCGM_EXP_XID_ERRORS_COUNT"],
    EXPORTER["DCGM_EXP_XID_ERRORS_TOTAL"],
)
_CLOCKS_COUNT, _CLOCKS_TOTAL = (
    EXPORTER["DCGM_EXP_CLOCK_EVENTS_COUNT"],
    EXPORTER["DCGM_EXP_CLOCK_EVENTS_TOTAL"],
)
CLOCK_FAMILIES = frozenset((_CLOCKS_COUNT, _CLOCKS_TOTAL))


class Value(NamedTuple):
    """One value with the labels it adds."""

    labels: Labels
    text: bytes


class LooseValues:
    """Looks values up for one entity and one DCGM id."""

    def __init__(self, options: Options, xids: Xids, clock: Clock, events: ClockEvents) -> None:
        self._options = options
        self._xids = xids
        self._clock = clock
        self._events = events

    def of(
        self,
        number: int,
        entity: Entity,
        node: derived.Node,
        instances: Frame | None,
        *,
        answers: bool,
    ) -> Iterator[Value]:
        """The values of an id for an entity.

        What comes from events is there for a GPU that does not answer, too.
        """
        if number == XID:
            yield self._last_xid(entity)
        elif number in EXPORTER_IDS:
            yield from self._counts(number, entity)
        elif not answers:
            return
        elif number in FACT_OF:
            text = entity.facts.get(FACT_OF[number], "")
            if text.isascii() and text.isdigit():
                yield Value((), text.encode())
        elif number in PER_INSTANCE and entity.instance_row >= 0 and instances is not None:
            inside = derived.Node(instances, node.count)
            yield from _value(
                derived.value(number, inside, entity.instance_row, entity.gpu, entity.facts)
            )
        else:
            yield from _value(derived.value(number, node, entity.gpu_row, entity.gpu, entity.facts))

    def _last_xid(self, entity: Entity) -> Value:
        code = self._xids.last(entity.device.id)
        said = xid_entry(code).description if code else "No Error"
        return Value((("err_code", str(code)), ("err_msg", said)), b"%d" % code)

    def _counts(self, number: int, entity: Entity) -> Iterator[Value]:
        if number == _XIDS_COUNT:
            window_ms = self._options.xid_window_ms
            recent = self._xids.recent(
                entity.device.id, window_ms * 1_000_000, self._clock.time_ns()
            )
            yield from _windowed(
                window_ms,
                "xid",
                {str(code): count for code, count in sorted(recent.items()) if code},
            )
        elif number == _CLOCKS_COUNT:
            counts = self._events.counts(entity.gpu.id, self._clock.monotonic_ns())
            yield from _windowed(self._options.clock_window_ms, "clock_event", dict(counts))
        elif number == _XIDS_TOTAL:
            for device, code, count, _ in self._xids.series():
                if device.id == entity.device.id and code and count:
                    yield Value((("xid", str(code)),), b"%d" % count)
        else:
            for name, count in self._events.totals(entity.gpu.id).items():
                yield Value((("clock_event", name),), b"%d" % count)


def _windowed(window_ms: int, label: str, counts: dict[str, int]) -> Iterator[Value]:
    """One value per cause; a single 0 without that label where there was none."""
    window = ("window_size_in_ms", str(window_ms))
    for cause, count in counts.items():
        yield Value((window, (label, cause)), b"%d" % count)
    if not counts:
        yield Value((window,), b"0")


def _value(number: derived.Number) -> Iterator[Value]:
    if number is not None:
        yield Value((), b"%d" % number if isinstance(number, int) else float_text(number))
