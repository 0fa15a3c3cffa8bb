"""A result is of the code that renders, judges and scores it, and of nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evaluation.runs.code import PARTS, ROOT, WITHOUT_EFFECT, code_hash, files
from pipeline import child
from tests.wait import PATIENCE_S

A_RUN = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from evaluation.runs.run import Job, run_job
contestants = (("ours", "node"), ("ours", "fleet"), ("gpud", "fleet"))
run_job(Job("F06", "nominal", 1, "dev", contestants, days=0.1, nodes=2))
print(*(getattr(module, "__file__", "") for module in list(sys.modules.values())))
"""


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("detectors/a.py", "x = 2", True),
        ("detectors/table.csv", "1", True),
        ("simulator/unused/table.csv", "1", False),
        ("evaluation/runs/suite.py", "x = 2", False),
        ("detectors/unused.py", "x = 2", False),
        ("pipeline/catalog/agent.py", "x = 2", False),
        ("docs/a.py", "x = 2", False),
    ],
)
def test_only_what_a_run_imports_counts_and_the_tables_beside_it(
    tmp_path: Path, file: str, text: str, counts: bool
) -> None:
    """A changed detector makes other results, a changed plan or report does not."""
    for path, content in {
        "evaluation/runs/run.py": "from detectors import a; from pipeline.catalog import agent",
        "pipeline/catalog/agent.py": "x = 1",
        "evaluation/runs/suite.py": "x = 1",
        "detectors/__init__.py": "",
        "detectors/a.py": "x = 1",
        "detectors/unused.py": "x = 1",
        "detectors/table.csv": "0",
        "simulator/unused/__init__.py": "",
        "simulator/unused/table.csv": "0",
        "docs/a.py": "x = 1",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    before = code_hash(tmp_path)
    (tmp_path / file).write_text(text)
    assert (code_hash(tmp_path) != before) == counts


@pytest.mark.slow
def test_what_a_run_has_loaded_is_all_counted() -> None:
    """Also what is imported by name while it runs."""
    made = child.run([sys.executable, "-I", "-c", A_RUN], timeout_s=PATIENCE_S, max_bytes=8 << 20)
    assert made.returncode == 0, made.stderr.decode()
    loaded = {Path(name) for name in made.stdout.decode().split() if name.endswith(".py")}
    ours = {path for path in loaded if any(path.is_relative_to(ROOT / part) for part in PARTS)}
    assert ours
    assert ours <= files() | {ROOT / path for path in WITHOUT_EFFECT}
