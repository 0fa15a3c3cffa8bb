"""The page about asking is right: its DuckDB texts run and agree with ours, its commands parse,
its tables are complete.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from collector.cli.main import parser
from pipeline.frame import Frame
from pipeline.store.keep.compact import compact
from pipeline.store.query.increase import increases
from pipeline.store.query.questions import QUESTIONS
from pipeline.store.query.store import Store, Window
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.pipeline.store.days import at, later
from tests.pipeline.store.keep.test_seal import Seen, store
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "query.md").read_text()
TEXTS = [
    block for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if "read_parquet" in block
]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of two GPUs with errors, a driver reload, and a later boot that sorts first."""
    root, clock = tmp_path_factory.mktemp("store"), at(3)
    counts = [0, 0, 2, 5, 0, 1, 1, 4, 6, 7]
    whole: list[Seen] = [
        (observed(clock, _frame(clock, second, count), seq=second), ())
        for second, count in enumerate(counts)
    ]
    later_boot = [(replace(one, boot_id="another"), found) for one, found in whole[8:]]
    store(root, whole[:8], clock)
    store(root, later_boot, clock)
    compact(later(root))
    return root


def _frame(clock: FakeClock, second: int, count: int) -> Frame:
    clock.advance(1.0)
    return gpu_frame(
        clock,
        *(
            {"temperature_celsius": 60 + second + i, "ecc_corrected_volatile": count + i}
            for i in range(2)
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=["roll-ups", "raw rows"])
def test_duckdb_answers_as_we_do(day: Path, text: str) -> None:
    """The text as it stands on the page, with the folder of the test."""
    rows = duckdb.connect().execute(text.replace("/var/lib/tocsin", str(day))).fetchall()
    corrected = {
        r["device"]: r["ecc_corrected_volatile"]
        for r in increases(Store(day), "gpu", ["ecc_corrected_volatile"], Window()).to_dicts()
    }
    hottest = {
        r["device"]: r["t"]
        for r in Store(day)
        .sql("SELECT device, max(temperature_celsius) AS t FROM gpu GROUP BY device")
        .to_dicts()
    }
    assert {device: (t, int(n)) for device, t, n in rows} == {
        d: (hottest[d], corrected[d]) for d in hottest
    }
    assert corrected[gpu(0).id] == 5 + 1 + 3 + 2 + 1


@pytest.mark.slow
def test_every_command_of_the_page_parses() -> None:
    """Options that do not exist would end this."""
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) >= 7
    for line in lines:
        program, *argv = shlex.split(line, comments=True)
        assert program == "tocsin"
        parser().parse_args(argv)


def test_every_question_stands_on_the_page() -> None:
    """Each by name."""
    for name in QUESTIONS:
        assert f"| `{name}" in PAGE
