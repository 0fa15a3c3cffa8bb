"""Levels standard and deep: what is measured, compared and diagnosed, and what is unknown."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.agent.preflight_results import preflight_events
from collector.config.settings import Config, Storage
from collector.preflight import deep, history, standard
from collector.preflight.compare import low
from collector.preflight.deep import diagnose, outcomes
from collector.preflight.history import MEASURED
from collector.preflight.model import Machine, Row
from collector.preflight.report import Report, request
from collector.preflight.standard import Measured, measure, nccl_test, parsed
from pipeline import child
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.store.query.events_of import events_of
from pipeline.store.query.store import Store, Window
from tests.pipeline.store.stored import store_events
from tests.wait import PATIENCE_S

H100 = "NVIDIA H100"
GPUS = tuple(
    Row(Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "name": H100}), {"state": 0.0})
    for n in range(4)
)
NODE = Machine("n1", GPUS)


def done(
    out: str = "", code: int = 0, err: str = "", *, late: bool = False
) -> Callable[..., child.Finished]:
    """A child that ends like this."""
    return lambda *_, **__: child.Finished(code, out.encode(), err.encode(), timed_out=late)


def result(gpu: int, value: float, measure: str = "memory_bandwidth") -> Measured:
    """One result of a GPU of this node."""
    return Measured(f"GPU-{gpu}", H100, measure, value)


def test_results_are_those_of_the_gpus_that_this_node_has() -> None:
    """By UUID, else by number; lines of libraries, foreign GPUs, MIG instances and nonsense are
    passed over.
    """
    lines = [
        {"gpu": 7, "uuid": "GPU-1", "measure": "memory_bandwidth", "value": 2.9e12},
        {"gpu": 2, "uuid": "", "measure": "matrix_multiply", "value": 7e14},
        {"gpu": -1, "uuid": "", "measure": "all_reduce", "value": 3.6e11},
        {"gpu": 9, "uuid": "GPU-9", "measure": "memory_bandwidth", "value": 1},
        {"gpu": 0, "uuid": "GPU-mig", "measure": "memory_bandwidth", "value": 4e11},
        {"gpu": 1, "uuid": "GPU-1", "measure": "secret", "value": 1},
        {"gpu": 1, "uuid": "GPU-1", "measure": "memory_bandwidth", "value": math.nan},
        {"measure": []},
        "text",
    ]
    output = "warning: x\n" + "\n".join(map(json.dumps, lines)) + "\n{"
    assert list(parsed(output.encode(), NODE)) == [
        Measured("GPU-1", H100, "memory_bandwidth", 2.9e12),
        Measured("GPU-2", H100, "matrix_multiply", 7e14),
        Measured("n1", f"4 x {H100}", "all_reduce", 3.6e11),
    ]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (done(code=1, err="Traceback\nno PyTorch: No module named 'torch'\n"), "no PyTorch"),
        (done(late=True), "not finished within 45 s"),
        (done(code=-11), "exited with -11"),
    ],
    ids=["no torch", "late", "crash"],
)
def test_what_cannot_be_measured_is_unknown(run: standard.Run, words: str) -> None:
    """No PyTorch, no GPU in it, a crash, a hang: never a failure."""
    found, lacking = measure(NODE, sys.executable, run)
    assert found == []
    assert [one.severity for one in lacking] == ["unknown"]
    assert words in lacking[0].why
    assert measure(NODE, "no-such-python", run)[1][0].severity == "unknown"


@pytest.mark.slow
def test_the_bench_says_what_it_lacks() -> None:
    """The stand-alone program, in a Python without PyTorch or without a GPU."""
    ended = child.run([sys.executable, "-I", "-S", str(standard.BENCH)], timeout_s=PATIENCE_S)
    assert ended.returncode == 1
    assert b"no PyTorch" in ended.stderr


def test_nccl_tests_are_read_where_they_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus bandwidth in GB/s of the last row (nccl-tests, out-of-place columns)."""
    program = tmp_path / "all_reduce_perf"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert nccl_test(NODE, done("")) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    row = " 268435456 67108864 float sum -1 1253.0 214.23 374.91 0 1250.1 214.7 375.8 0\n"
    assert [one.value for one in nccl_test(NODE, done(f"# size\n{row}"))] == [374.91e9]


def test_a_gpu_that_fell_below_its_own_history_is_named() -> None:
    """By more than 3 %, or five robust sigmas where its history is noisy."""
    history = [result(1, value) for value in (100e9, 101e9, 99.5e9, 100.5e9)]
    assert [one.severity for one in low(NODE, [result(1, 93e9)], history)] == ["ticket"]
    (found,) = low(NODE, [result(1, 70e9)], history)
    assert (found.severity, found.part) == ("page", "GPU 1")
    assert "30% below its own history (100 G, 4 results)" in found.why
    assert list(low(NODE, [result(1, 98e9)], history)) == []
    noisy = [result(1, value) for value in (80e9, 100e9, 120e9, 95e9, 110e9)]
    assert list(low(NODE, [result(1, 70e9)], noisy)) == []


def test_a_gpu_without_history_is_compared_with_its_peers() -> None:
    """Those of the same model beside it now; of another model nothing follows."""
    now = [result(n, 100e9) for n in range(3)]
    (found,) = low(NODE, [*now, result(3, 90e9)], [])
    assert (found.part, "below its peers" in found.why) == ("GPU 3", True)
    other = Measured("GPU-3", "NVIDIA L4", "memory_bandwidth", 10e9)
    assert list(low(NODE, [*now, other], [])) == []
    assert list(low(NODE, [result(0, 1.0)], [])) == []


DCGM_4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "memory",
                        "results": [
                            {"entity_group": "GPU", "entity_id": 0, "status": "Pass"},
                            {
                                "entity_group": "GPU",
                                "entity_id": 1,
                                "status": "Fail",
                                "warnings": [{"error_id": 39, "warning": "A row remap failed"}],
                            },
                        ],
                    },
                    {"name": "pcie", "results": [{"entity_id": 2, "status": "Skip"}]},
                ],
            }
        ]
    }
}
DCGM_3 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Stress",
                "tests": [
                    {
                        "name": "Targeted Power",
                        "results": [{"gpu_id": "1", "status": "Warn", "warnings": "low power"}],
                    }
                ],
            }
        ]
    }
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (DCGM_4, [("page", "GPU 1", "DCGM's test memory: A row remap failed")]),
        (DCGM_3, [("ticket", "GPU 1", "DCGM's test Targeted Power: low power")]),
        ({"a": [1, None, {"name": "x", "results": ["y"]}]}, []),
    ],
)
def test_what_dcgm_found_is_an_outcome(document: Any, expected: list[tuple[str, str, str]]) -> None:
    """In the forms of DCGM 3 and 4; skipped tests say nothing."""
    assert [(one.severity, one.part, one.why) for one in outcomes(document, NODE)] == expected


@pytest.mark.parametrize(
    "run", [done("no json", 1), done(late=True), done("{" * 10_000)], ids=["text", "late", "deep"]
)
def test_a_diagnostic_that_cannot_run_is_unknown(
    run: standard.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not installed, no result, no end: never a failure."""
    assert [one.severity for one in diagnose(NODE, run)] == ["unknown"]
    monkeypatch.setattr(deep, "PROGRAM", sys.executable)
    assert [one.severity for one in diagnose(NODE, run)] == ["unknown"]


def test_a_diagnostic_that_ran_no_test_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON with dcgmi's error alone is no pass; the error is the reason."""
    monkeypatch.setattr(deep, "PROGRAM", sys.executable)
    answer = {"DCGM Diagnostic": {"runtime_error": "Host engine\n is away", "version": "4.2.3"}}
    (found,) = diagnose(NODE, done(json.dumps(answer), 226))
    assert (found.severity, found.why.rpartition(": ")[2]) == ("unknown", "Host engine is away")


def test_a_stored_result_is_found_by_the_next_preflight(tmp_path: Path) -> None:
    """What the command asks the agent to store, stored, and read again."""
    report = Report("standard", NODE, 12.5, [], [result(1, 2.9e12)])
    node = Device("n1", "node", "n1")
    events = preflight_events(request(report), node, Instant(10**18, 5))
    store_events(tmp_path, events)
    (stored, measured) = events_of(Store(tmp_path), Window(), ("preflight", MEASURED))
    assert (stored.attributes["outcome"], stored.attributes["level"]) == ("ok", "standard")
    assert (measured.device.id, measured.attributes["value"]) == ("GPU-1", 2.9e12)


def test_of_too_many_earlier_results_the_newest_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that a fleet shares has millions in 90 days; the oldest are of another driver."""
    monkeypatch.setattr(history, "MAX_RESULTS", 2)
    node = Device("n1", "node", "n1")
    reports = [Report("standard", NODE, 1.0, [], [result(1, float(n))]) for n in (1, 2, 3)]
    at = [Instant((10**9 + n) * 10**9, n) for n in range(3)]
    store_events(
        tmp_path,
        [
            e
            for r, t in zip(reports, at, strict=True)
            for e in preflight_events(request(r), node, t)
        ],
    )
    config = Config(storage=Storage(path=str(tmp_path)))
    found = history.earlier(config, datetime.fromtimestamp(10**9 + 60, UTC))
    assert [one.value for one in found] == [2.0, 3.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "fine"},
        {"seconds": "1"},
        {"seconds": math.inf},
        {"reason": "x" * 2000},
        {"measured": [7]},
        {"measured": [{"device": "GPU-1", "measure": "m", "value": True}]},
        {"measured": [{}] * 1000},
    ],
)
def test_a_result_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    """The key is named, and nothing is stored."""
    given = request(Report("quick", NODE, 1.0, [])) | wrong
    with pytest.raises(ValueError, match=f"^({'|'.join((*wrong, 'value', 'device'))}):"):
        preflight_events(given, Device("n1", "node", "n1"), Instant(10**18, 5))
