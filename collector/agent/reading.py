"""One observation of each source, outside the engine: for ``tocsin read`` and preflight."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from collector.agent.environment import HostEnvironment, real, simulated
from collector.agent.sources import Parts, schedules, topology_of
from collector.config.settings import Config
from collector.node.inventory import Inventory
from collector.node.state import State
from pipeline.guard import Guard
from pipeline.interfaces import Closable, Source
from pipeline.observation import Observation, Reading
from pipeline.selfmetrics import SelfMetrics


def environment_of(config: Config, node: str = "") -> HostEnvironment:
    """This machine, or the simulated node in a folder."""
    return simulated(Path(node), "simulated") if node else real(config)


def readings(
    config: Config,
    names: Collection[str],
    *,
    saved: bool,
    node: str = "",
    remembered: State | None = None,
) -> Iterator[Observation]:
    """Each named source read once, failed ones too.

    Nothing is remembered: the agent's own state on disk is not touched.

    ``node`` is the folder of a simulated node to read in place of this machine; ``remembered`` is
    what an agent knows of the node, such as its devices.
    """
    world = environment_of(config, node)
    metrics, memory = SelfMetrics(), remembered or State(None)
    topology = topology_of(config.topology, world.host)
    parts = Parts(config, world, Inventory(world.host, memory), memory, metrics, topology, saved)
    guard = Guard(metrics, world.clock)
    for seq, schedule in enumerate(schedules(parts, names)):
        source: Source = schedule.source
        time_ns, mono_ns = world.clock.time_ns(), world.clock.monotonic_ns()
        reading, error = guard.call("source", source.name, source.read)
        duration_ns = world.clock.monotonic_ns() - mono_ns
        if isinstance(source, Closable):
            guard.call("source", source.name, source.close)
        given = reading or Reading()
        yield Observation(
            source.name,
            world.host,
            world.boot_id,
            seq,
            time_ns,
            mono_ns,
            duration_ns,
            given.frames,
            given.events,
            given.unread,
            "ok" if error is None else "failed",
            "" if error is None else f"{type(error).__name__}: {error}",
        )
