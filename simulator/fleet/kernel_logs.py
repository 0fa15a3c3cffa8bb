"""Kernel logs of the fleet's nodes: texts of any class, read by the agent's own joiner, collapsed
and attributed as the agent does it.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.kmsg.attribution import Attribution
from collector.sources.kmsg.collapse import Collapse
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.records import Record
from collector.sources.kmsg.to_events import Log, tell
from pipeline.clock import Instant
from simulator.fleet.events import KMSG
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState

GAP_S = 0.001  # between two lines of one moment
FIRST = 1_000_000  # sequence numbers beyond those of Happenings


def write(
    world: FleetState,
    node: int,
    texts: Iterable[str],
    *,
    after_s: float = 0.0,
    crashed_s: float | None = None,
) -> None:
    """Lines in the kernel log of a node, a millisecond apart from ``after_s`` on, which are read at
    once. ``crashed_s``: they are found after a boot, as the last lines of the one before, which
    ended so many seconds before.

    Lines that say nothing to the parser are dropped, as in the agent.
    """
    if not world.kmsg[node]:
        return
    stream = world.node_columns["host"].devices[node].attributes["boot_id"]
    log = Log(KMSG if crashed_s is None else "pstore", stream)
    joiner, collapse, attribution = Joiner(), Collapse(), _attribution(world, node)
    read = world.when(node, after_s)
    moments: dict[int, Instant] = {}
    for number, text in enumerate(texts):
        moments[FIRST + number] = world.when(node, after_s + number * GAP_S - (crashed_s or 0.0))
        record = Record(text, FIRST + number, moments[FIRST + number].mono_ns // 1000)
        if parsed := joiner.feed(record):
            collapse.add(record, parsed)
    marks = {} if crashed_s is None else {"previous_boot": True}
    for run in collapse.runs():
        parsed, (first, last) = run.parsed, (moments[run.first.seq], moments[run.last.seq])
        device = attribution.device(parsed.kind, parsed.pci, str(parsed.facts.get("interface", "")))
        due = last if crashed_s is None else read
        world.happenings.add(KMSG, due, tell(run, device, log, first, last, **marks))


def _attribution(world: FleetState, node: int) -> Attribution:
    """By the parts that the node has now."""
    host = world.topology.hosts[node]
    inventory = Inventory(host, State(None))
    inventory.learn("gpu", world.gpus_of(node))
    inventory.learn("ib_port", world.port_columns.devices[node * GPUS : (node + 1) * GPUS])
    return Attribution(host, inventory)
