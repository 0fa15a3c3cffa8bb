"""Several exporters of one name: of one machine with other columns, or of several machines; and
the jobs that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from history.command import report
from history.gather import Account, Hour
from history.importing import Found, Progress
from history.meaning.labels import LabelMap
from history.remembered import MISSED_MS, Host
from history.site.series import Series
from pipeline.gpu_state import GpuState
from pipeline.store.files.scraped import Scrapes
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, scrapes

HEAT, TENSOR = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
POWER = "DCGM_FI_DEV_POWER_USAGE"
TIMES = scrapes(BEGIN_MS, BEGIN_MS + 600_000)


def series(name: str, labels: Mapping[str, str], times: Iterable[int] = TIMES) -> Series:
    """No two samples alike."""
    at = np.array(list(times), np.int64)
    values = np.array([50.0 + i % 7 for i in range(len(at))])
    return Series({"__name__": name, **labels}, at, values)


def hour(
    taken: Iterable[Series], hosts: dict[str, Host] | None = None, begin_ms: int = BEGIN_MS
) -> dict[str, Scrapes]:
    """Scrapes of the one exporter of each host."""
    made = Hour(LabelMap(), {} if hosts is None else hosts, Account(), begin_ms)
    for one in taken:
        made.take(one)
    return {host: found for host, (found,) in made.hosts()}


def column(found: Scrapes, name: str) -> dict[str, list[float]]:
    """Values of each GPU that are known."""
    (sheet,) = found.sheets
    values = sheet.columns[name]
    return {
        device.id: values[~np.isnan(values[:, i]), i].tolist()
        for i, device in enumerate(sheet.devices)
    }


def machine(letter: str, times: Iterable[int] = TIMES, **more: str) -> list[Series]:
    """A machine with two GPUs that is called localhost."""
    where = {"instance": f"{letter}:9400", "Hostname": "localhost", **more}
    return [
        series(name, gpu_labels(letter, gpu, **where), times)
        for name in (HEAT, POWER)
        for gpu in range(2)
    ]


@pytest.mark.parametrize("offset_ms", [0, 7_000], ids=["same times", "own times"])
def test_gpus_of_two_machines_with_one_name_are_all_there_and_never_absent(offset_ms: int) -> None:
    """In an hour with both, and in hours in which one of them is away, of which the import says
    so.
    """
    hosts: dict[str, Host] = {}
    later = [ms + offset_ms for ms in TIMES]
    found = hour([*machine("a"), *machine("b", later)], hosts)["localhost"]
    heats = column(found, "temperature_celsius")
    assert {gpu: len(own) for gpu, own in heats.items()} == {
        f"GPU-{letter}-{gpu}": len(TIMES) for letter in "ab" for gpu in range(2)
    }
    assert {state for own in column(found, "state").values() for state in own} == {GpuState.OK}
    hosts = {name: Host.of(one.plain()) for name, one in hosts.items()}  # of another run
    for passed_ms in (HOUR_MS, MISSED_MS):
        times = [ms + passed_ms for ms in TIMES]
        states = column(
            hour(machine("a", times), hosts, BEGIN_MS + passed_ms)["localhost"], "state"
        )
        assert {state for own in states.values() for state in own} == {GpuState.OK}
    (said,) = [
        line
        for line in report(Found((), (), LabelMap()), Progress(0, 0, hosts))
        if "several machines" in line
    ]
    assert "localhost" in said
    assert "--only" in said


def test_a_machine_that_follows_another_of_its_name_shares_nothing() -> None:
    """A rebuilt node: its GPUs of before are missed."""
    middle = len(TIMES) // 2
    other = machine("b", TIMES[middle:], pci_bus_id="00000000:AA:00.0")
    found = hour([*machine("a", TIMES[:middle]), *other])["localhost"]
    assert GpuState.ABSENT in column(found, "state")["GPU-a-0"]


def test_a_gpu_that_was_replaced_is_not_absent_and_its_job_has_ended() -> None:
    """Another one is in its slot that was not there before; one that moved there replaces none."""
    middle, hosts = len(TIMES) // 2, dict[str, Host]()
    job = {"hpc_job": "7"}
    before = [series(HEAT, gpu_labels("n1", gpu, **job), TIMES[:middle]) for gpu in range(3)]
    stays = series(HEAT, gpu_labels("n1", 0), TIMES[middle:])
    new = series(HEAT, gpu_labels("n1", 1, UUID="GPU-new"), TIMES[middle:])
    moved = gpu_labels("n1", 3, UUID="GPU-n1-0", pci_bus_id="00000000:12:00.0")
    found = hour([*before, stays, new, series(HEAT, moved, TIMES[-1:])], hosts)["n1"]
    states = column(found, "state")
    assert set(states["GPU-n1-1"]) == {GpuState.OK}
    assert GpuState.ABSENT in states["GPU-n1-2"]
    last = [one for one in found.events if one.attributes["job"] == "7"][-1]
    assert (last.kind, last.time_ns) == ("job_ended", TIMES[middle] * 1_000_000)
    assert sorted(hosts["n1"].gpus) == ["GPU-n1-0", "GPU-n1-2", "GPU-new"]


def test_what_a_second_exporter_alone_shows_of_a_gpu_is_kept() -> None:
    """Profiling metrics on a port of their own, scraped at other times."""
    first = [series(HEAT, gpu_labels("n1", gpu)) for gpu in range(2)]
    where = {"instance": "n1:9401", "job": "profiling"}
    times = [ms + 7_000 for ms in TIMES[:-1]]
    second = [series(TENSOR, gpu_labels("n1", gpu, **where), times) for gpu in range(2)]
    found = hour([*first, *second])["n1"]
    for name, count in (("temperature_celsius", len(TIMES)), ("tensor_activity_percent", 39)):
        assert {len(own) for own in column(found, name).values()} == {count}
    assert {state for own in column(found, "state").values() for state in own} == {GpuState.OK}
    assert len(found.times_ms) == len(TIMES) + len(times)


def test_a_gpu_that_both_exporters_of_a_node_lost_is_absent() -> None:
    """In the scrapes of each; one that an exporter never showed is not absent in that one's."""
    lost = TIMES[20]
    taken = []
    for offset_ms, where in ((0, {}), (7_000, {"instance": "n1:9401", "job": "profiling"})):
        for gpu in range(3 - len(where) // 2):
            name = TENSOR if where else HEAT
            times = [ms + offset_ms for ms in TIMES if gpu or ms < lost]
            taken.append(series(name, gpu_labels("n1", gpu, **where), times))
    states = column(hour(taken)["n1"], "state")
    assert states["GPU-n1-0"] == [GpuState.OK] * 40 + [GpuState.ABSENT] * 40
    assert states["GPU-n1-1"] == [GpuState.OK] * 80
    assert states["GPU-n1-2"] == [GpuState.OK] * 40


@pytest.mark.parametrize("again", [False, True], ids=["same hour", "next hour"])
def test_a_gpu_in_mig_mode_is_absent_only_where_its_instances_are_not_listed_either(
    *, again: bool
) -> None:
    """Series of an instance name the GPU that it is a part of; of the GPU itself nothing is known
    then.
    """
    middle, gone = TIMES[10], TIMES[30]
    hosts: dict[str, Host] = {}
    before = [series(HEAT, gpu_labels("n1", gpu), TIMES[:10]) for gpu in range(3)]
    after = [series(HEAT, gpu_labels("n1", 0), TIMES[10:])]
    for gpu in (1, 2):
        for instance in range(2):
            labels = gpu_labels("n1", gpu, GPU_I_ID=str(instance), GPU_I_PROFILE="1g.10gb")
            times = [ms for ms in TIMES if middle <= ms and (gpu == 1 or ms < gone)]
            after.append(series(HEAT, labels, times))
    if again:
        hour(before, hosts)
    states = column(hour(after if again else [*before, *after], hosts)["n1"], "state")
    own = [] if again else [GpuState.OK] * 10
    assert states["GPU-n1-0"] == [*own, *[GpuState.OK] * 30]
    assert states["GPU-n1-1"] == own
    absent = states["GPU-n1-2"][len(own) :]
    assert set(absent) == {GpuState.ABSENT}
    assert 7 <= len(absent) <= 10  # it is looked for two scrapes around


def test_a_job_whose_gpu_was_lost_ends_with_its_other_gpus() -> None:
    """The lost one has no series that says so; a job that had it alone ends when it is given up."""
    middle, hosts = len(TIMES) // 2, dict[str, Host]()
    jobs = ((0, "7"), (1, "7"), (2, "8"))
    first = [series(HEAT, gpu_labels("n1", g, hpc_job=j), TIMES[:middle]) for g, j in jobs]
    next_one = series(HEAT, gpu_labels("n1", 0, hpc_job="9"), TIMES[middle:])
    events = hour([*first, next_one], hosts)["n1"].events
    later = [ms + MISSED_MS for ms in TIMES]
    again = hour([series(HEAT, gpu_labels("n1", 0, hpc_job="9"), later)], hosts, later[0])["n1"]
    ended = [one for one in [*events, *again.events] if one.kind == "job_ended"]
    assert [str(one.attributes["job"]) for one in ended] == ["7", "8"]
    assert ended[0].time_ns == TIMES[middle] * 1_000_000
    assert 0 <= ended[1].time_ns // 1_000_000 - TIMES[middle - 1] - MISSED_MS < 15_000


def started(found: Scrapes) -> list[tuple[str, str, int]]:
    """Kind, job and milliseconds since the begin of its events."""
    return [
        (event.kind, str(event.attributes["job"]), event.time_ns // 1_000_000 - BEGIN_MS)
        for event in found.events
    ]


def test_each_node_has_its_jobs_whatever_metrics_it_shows() -> None:
    """The first metric by name is of the new node alone."""
    first = "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION"
    new, old = gpu_labels("new", 0, hpc_job="77"), gpu_labels("old", 0, hpc_job="88")
    found = hour([series(first, new), series(HEAT, new), series(HEAT, old)])
    assert started(found["new"]) == [("job_started", "77", 0)]
    assert started(found["old"]) == [("job_started", "88", 0)]


def test_an_exporter_that_names_no_job_ends_none_that_another_of_the_node_names() -> None:
    """Of two on a node one alone asks the kubelet for pods, and the other has metrics beside; the
    job ends with the labels of the first.
    """
    hosts: dict[str, Host] = {}
    ends = TIMES[20]
    pod = {"exported_pod": "train-0", "exported_namespace": "ml"}
    mute = gpu_labels("n1", 0, instance="n1:9401", pod="")
    taken = [
        series(HEAT, gpu_labels("n1", 0, **pod), [ms for ms in TIMES if ms < ends]),
        series(HEAT, gpu_labels("n1", 0, pod=""), [ms for ms in TIMES if ms >= ends]),
        series("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", mute, [ms + 7_000 for ms in TIMES]),
        series(HEAT, mute, [ms + 7_000 for ms in TIMES]),
    ]
    assert started(hour(taken, hosts)["n1"]) == [
        ("job_started", "ml/train-0", 0),
        ("job_ended", "ml/train-0", ends - BEGIN_MS),
    ]


def test_pods_that_share_a_gpu_each_start_and_end_once() -> None:
    """Whichever comes first; the record of an import remembers both."""
    hosts: dict[str, Host] = {}
    space = {"exported_namespace": "ml"}
    ends = TIMES[20]
    pods = {"p2": TIMES, "p1": [ms for ms in TIMES if ms < ends]}
    taken = [
        series(HEAT, gpu_labels("n1", 0, exported_pod=pod, **space), times)
        for pod, times in pods.items()
    ]
    assert started(hour(taken, hosts)["n1"]) == [
        ("job_started", "ml/p1", 0),
        ("job_started", "ml/p2", 0),
        ("job_ended", "ml/p1", ends - BEGIN_MS),
    ]
    hosts = {name: Host.of(one.plain()) for name, one in hosts.items()}
    again = [series(one.labels["__name__"], one.labels, one.times_ms + HOUR_MS) for one in taken]
    assert started(hour(again[:1], hosts, BEGIN_MS + HOUR_MS)["n1"]) == []


def test_the_one_job_that_earlier_versions_remembered_goes_on() -> None:
    """A record of theirs is read."""
    hosts: dict[str, Host] = {}
    taken = [series(HEAT, gpu_labels("n1", 0, hpc_job="7"))]
    hour(taken, hosts)
    document = hosts["n1"].plain()
    del document["shared_ms"]
    for gpu in document["gpus"].values():
        gpu["job"] = gpu.pop("jobs")[0]
    assert started(hour(taken, {"n1": Host.of(document)})["n1"]) == []
