"""All scenarios, planned but not rendered: files, truths and ranges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.frame import Device
from simulator.fleet import Truth, load_scenario, render, scenario_ids
from simulator.fleet.faults import FAULTS
from simulator.fleet.healthy import HEALTHY
from simulator.fleet.plan import TRIES
from simulator.fleet.topology import GPUS
from simulator.workload import EVAL_S

pytestmark = pytest.mark.slow

FAULTY = [name for name in scenario_ids() if name.startswith("F")]


def test_every_scenario_has_its_file() -> None:
    """F01 to F32 and H01 to H27 of the benchmark, the healthy corpus H00, faults that one detector
    alone is there for (F47 to F49, H51), stalls, storage and rooms of other worlds, stalls of which
    NCCL reports (F56), jobs that wait (F80 to F85), what goes wrong after a roll-out (F86, F87),
    settings (F88): each has a file and a function, and there are no others.
    """
    wanted = {f"F{n:02d}" for n in range(1, 33)} | {f"H{n:02d}" for n in range(28)}
    wanted |= {f"F{n}" for n in (*range(33, 57), 70, 71, 72, 74, *range(80, 89))}
    wanted |= {f"H{n}" for n in range(40, 52)}
    assert set(scenario_ids()) == wanted == {*FAULTS, *HEALTHY}


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_truth_is_consistent(name: str, split: str) -> None:
    """Each truth lies within its run, names a device of the fleet, and is due
    after the evidence is there.
    """
    run = render(load_scenario(name), 5, split=split)  # type: ignore[arg-type] # parametrized
    known = {
        *run.topology.gpus,
        *run.topology.ports,
        *run.topology.switch_ports,
        *run.topology.node_devices,
    }
    names = {run.topology.rack(node) for node in range(run.topology.nodes)} | set(
        run.topology.switches
    )
    names |= {job.id for job in run.topology.jobs} | {str(rail) for rail in range(GPUS)}
    begin, end = run.topology.begin_ns, run.topology.begin_ns + int(run.seconds * 1e9)
    assert run.truth
    for truth in run.truth:
        assert (
            begin < truth.onset_ns <= truth.evident_ns < truth.deadline_ns
            if truth.severity != "record"
            else True
        )
        assert truth.onset_ns < truth.end_ns <= end
        assert truth.entity in (known if isinstance(truth.entity, Device) else names)
        assert (truth.onset_ns - begin) % int(run.step_s * 1e9) == 0
    assert len({truth.id for truth in run.truth}) == len(run.truth)


@pytest.mark.parametrize("name", FAULTY)
def test_most_cases_find_room(name: str) -> None:
    """Over a few seeds at least two thirds of the cases of a scenario find
    a place that suits them.
    """
    runs = [render(load_scenario(name), seed) for seed in range(10)]
    skipped = sum(run.skipped for run in runs)
    assert skipped <= load_scenario(name).cases * len(runs) / 3, (
        f"{skipped} of {load_scenario(name).cases * len(runs)} after {TRIES} tries"
    )


@pytest.mark.parametrize("name", FAULTY)
def test_deadline_lies_in_the_run(name: str) -> None:
    """Whoever says it in time says it before the run is over: no fault is put
    where it cannot be told.
    """
    for seed in range(5):
        run = render(load_scenario(name), seed)
        end = run.topology.begin_ns + int(run.seconds * 1e9)
        late = [
            truth.id
            for truth in run.truth
            if truth.severity != "record" and truth.deadline_ns > end
        ]
        assert not late


@pytest.mark.parametrize("name", FAULTY)
def test_test_ranges_reach_beyond_those_of_dev(name: str) -> None:
    """Every range of the test split contains the one of dev and is wider: at its
    edges nothing was tuned.

    The nominal value lies within, and in the sweep.
    """
    for key, parameter in load_scenario(name).parameters.items():
        (low, high), (lowest, highest) = parameter.dev, parameter.test
        assert lowest <= low <= high <= highest, key
        assert highest - lowest > high - low, key
        assert lowest <= parameter.nominal <= highest
        assert not parameter.sweep or parameter.nominal in parameter.sweep


@pytest.mark.parametrize("name", ["F05", "F08", "F22"])
def test_nobody_is_struck_again_with_what_nobody_repaired(name: str) -> None:
    """A GPU over its threshold, a job whose program fails, a full counter: one case each, as a
    second time there is nothing to tell.
    """
    scenario = load_scenario(name)
    entities = [truth.entity for truth in render(replace(scenario, cases=100), 5, nodes=64).truth]
    assert len(set(entities)) == len(entities)


def test_what_only_load_shows_is_due_after_so_much_load() -> None:
    """F13: ten minutes of training, which are more of the clock where a checkpoint or an
    evaluation lies among them.
    """
    due = [
        truth.detect_by_s
        for seed in range(10)
        for truth in render(load_scenario("F13"), seed).truth
    ]
    assert min(due) == 600
    assert (
        600 < max(due) <= 600 + EVAL_S + 180 + 60
    )  # an evaluation, the longest checkpoint, and the ticks at their ends
    assert all(by_s % 10 == 0 for by_s in due)


@pytest.mark.parametrize("name", ["F25", "F26"])
def test_stalls_strike_jobs_that_have_shown_how_they_save(name: str) -> None:
    """Until then no reading tells a rank that stands still from one that writes; a process that is
    gone saves nothing.
    """
    young = 0
    for seed in range(6):
        run = render(load_scenario(name), seed, split="test")
        for truth in run.truth:
            host = truth.entity.host if isinstance(truth.entity, Device) else None
            at_s = (truth.onset_ns - run.topology.begin_ns) / 1e9
            (job,) = (
                job
                for job in run.topology.jobs
                if job.start_s <= at_s < job.end_s
                and (job.id == truth.entity or host in {run.topology.hosts[n] for n in job.nodes})
            )
            young += at_s < job.train_s + job.work.checkpoint_every_s
    assert young <= (6 if name == "F25" else 0)


def test_a_rank_that_is_killed_belongs_to_a_job() -> None:
    """The repair of another fault keeps jobs off its node, but none that a fault strikes later."""
    scenario = replace(load_scenario("F42"), cases=240)
    run = render(scenario, 35001, split="test", nodes=80, days=0.75)
    acts = [(at_s, getattr(act, "keywords", {})) for at_s, act in run._courses]
    kills = [
        (at_s, what["at"].node)
        for at_s, what in acts
        if "course" in what and "trouble" in what and what["trouble"].needs_job
    ]
    assert len(kills) >= 10
    for at_s, node in kills:
        assert any(
            node in job.nodes and job.start_s <= at_s < job.end_s for job in run.topology.jobs
        )


def test_every_gpu_of_a_fabric_reports_its_registration() -> None:
    """Two GPUs of eight that lost it are two GPUs, not all that are read."""
    run = render(load_scenario("F45"), 5)
    frame = next(one.frames[0] for one in run.observations() if one.source == "nvml")
    read = np.isfinite(frame.gauge("state"))
    assert read.sum() > 200
    assert np.isfinite(frame.gauge("fabric_state"))[read].all()


def test_a_seed_is_another_world_in_each_split() -> None:
    """The same number strikes other devices at other times: no test seed was ever a seed of dev."""
    dev, test = (render(load_scenario("F16"), 1, split=split).truth for split in ("dev", "test"))
    assert not {(t.entity, t.onset_ns) for t in dev} & {(t.entity, t.onset_ns) for t in test}


def magnitudes(name: str, magnitude: str | float | None, split: str = "dev") -> set[float]:
    """Magnitudes of all cases of a run."""
    return {
        t.magnitude
        for t in render(load_scenario(name), 3, magnitude=magnitude, split=split).truth  # type: ignore[arg-type]
    }


def test_magnitude() -> None:
    """Nominal is the default, half is half of it, a number is itself, and range draws each case
    from the range of the split.
    """
    assert magnitudes("F16", None) == magnitudes("F16", "nominal") == {0.10}
    assert magnitudes("F16", "half") == {0.05}
    assert magnitudes("F16", 0.3) == {0.3}
    drawn = magnitudes("F16", "range")
    assert len(drawn) > 3
    assert all(0.04 <= loss <= 0.25 for loss in drawn)


def test_magnitude_leaves_places_alone() -> None:
    """The same seed strikes the same GPUs at the same times, however hard: curves over
    magnitudes compare like with like.
    """
    weak, strong = (render(load_scenario("F16"), 3, magnitude=loss).truth for loss in (0.03, 0.3))
    assert [(t.entity, t.onset_ns) for t in weak] == [(t.entity, t.onset_ns) for t in strong]


def test_unknown_magnitude() -> None:
    """A word that is no magnitude is refused, with those there are."""
    with pytest.raises(ValueError, match="must be nominal, half, range or a number"):
        render(load_scenario("F16"), 1, magnitude="huge")


def test_truth_as_json() -> None:
    """A truth is one line of JSON, a missing magnitude null."""
    truth: Truth = render(load_scenario("F03"), 1).truth[0]
    document = json.loads(truth.line())
    assert document["magnitude"] is None
    assert document["entity"]["kind"] == "gpu"
    assert document["class"] == "ecc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "fault"\n', "missing key 'family'"),
        ("nonsense = 1\n", "unknown key 'nonsense'"),
        ('kind = "strange"\n', "must be one of fault, healthy"),
        ("[world]\nloss = 'much'\n", "must be float"),
        ("[parameters.x]\nnominal = 1\ndev = [2, 1]\ntest = [1, 2]\n", "dev must be"),
        ("kind = ", "bad.toml"),
        ("[alone]\nseverity = 'ticket'\n", r"\[alone\]: missing key 'detect_by_s'"),
        (
            (
                "kind = 'healthy'\nfamily = 'x'\ntext = 'x'\nnodes = 1\ndays = 1\n"
                "scope = 'node'\n[alone]\nseverity = 'ticket'\ndetect_by_s = 60\n"
            ),
            "whose verdict needs the fleet",
        ),
    ],
)
def test_bad_file(tmp_path: Path, text: str, said: str) -> None:
    """A scenario file with a mistake is refused, with the file, the key and what is wrong."""
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        load_scenario("bad", tmp_path)


def test_unknown_scenario() -> None:
    """A scenario that does not exist is refused with those there are."""
    with pytest.raises(ValueError, match="no scenario 'F99'; there are F01"):
        load_scenario("F99")
