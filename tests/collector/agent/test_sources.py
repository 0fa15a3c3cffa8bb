"""From configuration to sources: what is switched on is read, as it was set,
from where the world says.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from collector.agent import sources
from collector.agent.environment import HostEnvironment
from collector.agent.sources import SOURCES, Parts, schedules, topology_of
from collector.config.load import Inputs, load
from collector.config.raw_setting import ConfigError, RawSetting
from collector.config.settings import Config, Sources
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from pipeline.engine import Schedule
from pipeline.interfaces import Closable
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock
from tests.sources import ROOT


def config(**settings: str) -> Config:
    """A configuration from dotted names with ``__``."""
    given = tuple(
        RawSetting(tuple(name.split("__")), value, name) for name, value in settings.items()
    )
    return load(Inputs(flags=given, default_file=Path("/nonexistent"))).config


def parts(root: Path, settings: Config) -> Parts:
    """What sources share, in a world below a folder."""
    world = HostEnvironment(
        "n1",
        "boot",
        FakeClock(),
        root / "proc",
        root / "sys",
        root / "dev" / "kmsg",
        f"simulator.nvml_client:open_client:{root}",
    )
    memory = State(None)
    return Parts(
        settings,
        world,
        Inventory("n1", memory),
        memory,
        SelfMetrics(),
        topology_of(settings.topology, "n1"),
    )


def made(shared: Parts, *names: str) -> dict[str, Schedule]:
    """The schedules by source; what they hold open is let go."""
    found = {schedule.source.name: schedule for schedule in schedules(shared, names or None)}
    for schedule in found.values():
        if isinstance(schedule.source, Closable):
            schedule.source.close()
    return found


def test_every_source_of_the_settings_can_be_made(tmp_path: Path) -> None:
    """Settings and sources are the same set, and each source bears the name of its section."""
    assert set(SOURCES) == set(Sources.__struct_fields__)
    assert list(made(parts(tmp_path, Config()), *SOURCES)) == list(SOURCES)


def test_what_tenants_write_is_read_in_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source that reads it gets a child of its own, which is not started before it is needed;
    together their limits are stated in docs/security.md.
    """
    made: dict[str, ReaderOf] = {}

    def desk(source: str, reader: ReaderOf, metrics: SelfMetrics, cuts: Cuts) -> ChildDesk:
        made[source] = reader
        return ChildDesk(source, reader, metrics, cuts)

    monkeypatch.setattr(sources, "ChildDesk", desk)
    for schedule in schedules(parts(tmp_path, config(sources__joblog__paths="/x/*.log"))):
        if isinstance(schedule.source, Closable):
            schedule.source.close()
    assert {name: reader.module for name, reader in made.items()} == {
        "nccl": "collector.sources.nccl.reader",
        "nccl_settings": "collector.nccl_settings.look",
        "joblog": "collector.sources.joblog.reader",
        "jobs": "collector.sources.jobs.slurm.tasks",
    }
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    for reader in made.values():
        assert callable(importlib.import_module(reader.module).reader)
        assert f"{reader.memory_bytes >> 20} MiB" in page


def test_what_is_switched_off_is_not_made(tmp_path: Path) -> None:
    """A source that is off costs nothing."""
    off = config(sources__nvml__enabled="false", sources__kmsg__enabled="false")
    assert set(made(parts(tmp_path, off))) == set(SOURCES) - {"nvml", "kmsg", "trainings"}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_a_test(name: str) -> None:
    """In a file or a folder of its name."""
    folder = ROOT / "tests" / "collector" / "sources"
    assert (folder / f"test_{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def test_named_sources_are_made_whatever_is_switched_on(tmp_path: Path) -> None:
    """`tocsin read --source` asks for one source."""
    assert set(made(parts(tmp_path, config(sources__host__enabled="false")), "host")) == {"host"}


def test_periods_and_deadlines_are_the_settings(tmp_path: Path) -> None:
    """In seconds, per source."""
    shared = parts(tmp_path, config(sources__host__period="2m", sources__host__deadline="1500ms"))
    host = made(shared, "host")["host"]
    assert (host.period_s, host.deadline_s) == (120.0, 1.5)


def test_topology_is_read_before_the_sources_that_it_describes(tmp_path: Path) -> None:
    """Rack and rail are attributes of devices from the first reading on."""
    (tmp_path / "racks.json").write_text(json.dumps({"n1": {"rack": "r7"}}))
    shared = parts(tmp_path, config(topology__file=str(tmp_path / "racks.json")))
    first, *others = schedules(shared, ["host"])
    assert first.source.name == "topology"
    (frame,) = others[0].source.read().frames
    assert frame.devices[0].attributes["rack"] == "r7"


def test_a_topology_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(ConfigError, match=r"topology: .*racks\.yaml"):
        topology_of(config(topology__file=str(tmp_path / "racks.yaml")).topology, "n1")


def test_perfquery_is_for_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fabric is not asked about the ports of a simulated or saved tree; it
    is for those below /sys.
    """
    asked: list[str] = []
    monkeypatch.setattr(
        "collector.agent.sources.InfinibandSource",
        lambda *_, perfquery, **__: asked.append(perfquery),
    )
    elsewhere = parts(tmp_path, Config())
    here = replace(elsewhere, world=replace(elsewhere.world, sysfs=Path("/sys")))
    for shared in (elsewhere, here):
        SOURCES["infiniband"](shared)
    assert asked == ["", "perfquery"]
