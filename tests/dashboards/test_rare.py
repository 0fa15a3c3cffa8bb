"""What no simulated node suffers is asked of promtool: the panel shows the fault, and
nothing while there is none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.child import run
from tests.dashboards.panels import ANYTHING, filled, targets
from tests.dashboards.rare import RARE, Rare
from tests.parts import need
from tests.wait import PATIENCE_S

VARIABLES = {
    **ANYTHING,
    "__rate_interval": "5m",
    "__interval": "1m",
    "__interval_ms": "60000",
    "__range": "10m",
    "__range_s": "600",
}
EXPRESSIONS = {str(target): filled(target.expr, VARIABLES) for target in targets()}


def _case(name: str, rare: Rare) -> dict[str, Any]:
    question = {
        "expr": EXPRESSIONS[name],
        "eval_time": "60m",
        "exp_samples": [{"labels": rare.labels, "value": rare.value}],
    }
    series = [{"series": each, "values": values} for each, values in rare.series.items()]
    return {"name": name, "interval": "1m", "input_series": series, "promql_expr_test": [question]}


@pytest.mark.integration
def test_rare_faults_are_shown(tmp_path: Path) -> None:
    """For each, promtool's answer is the one series that the fault gives."""
    file = tmp_path / "rare.yaml"
    file.write_text(
        json.dumps({"rule_files": [], "tests": [_case(*each) for each in RARE.items()]})
    )  # JSON is YAML
    done = run([need("promtool", "prometheus"), "test", "rules", str(file)], timeout_s=PATIENCE_S)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
