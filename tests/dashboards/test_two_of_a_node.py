"""Nodes that Prometheus has twice: while a pod replaces another, or where two jobs scrape them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.child import run
from tests.dashboards.panels import ANYTHING, filled, targets
from tests.dashboards.test_names import KNOWN
from tests.dashboards.test_rare import VARIABLES
from tests.parts import need
from tests.wait import PATIENCE_S

TARGET = {"cluster": "c1", "node": "n1", "instance": "n1", "job": "tocsin"}
GPU, GUID = "GPU-0", "0xa1"
LABELS = {"gpu": "0", "uuid": GPU, "UUID": GPU, "port": "1", "port_guid": GUID, "device": "mlx5_0"}
IDS = {"gpu": GPU, "ib_port": GUID}  # by the kind of a device
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
EQUAL = re.compile(r'(\w+)=(~?)"([^"]*)"')


def _series(expr: str) -> Iterator[str]:
    """One series of each selector, of the same GPU and port, in each of two pods."""
    for name, matchers in set(SELECTOR.findall(expr)):
        labels = dict.fromkeys(KNOWN[name], "x") | {
            key: value for key, value in LABELS.items() if key in KNOWN[name]
        }
        for label, pattern, value in EQUAL.findall(matchers):
            if value not in ANYTHING.values():
                labels[label] = value.split("|")[0] if pattern else value
        if "kind" in labels and "device" in labels:
            labels["device"] = IDS.get(labels["kind"], "n1")
        labels = {**labels, **TARGET}
        for pod in "ab":
            text = ",".join(f'{key}="{value}"' for key, value in {**labels, "pod": pod}.items())
            yield f"{name}{{{text}}}"


def _case(expr: str) -> dict[str, Any]:
    series = [{"series": each, "values": "1+1x60"} for each in dict.fromkeys(_series(expr))]
    question = {"expr": expr, "eval_time": "60m", "exp_samples": []}
    return {"interval": "1m", "input_series": series, "promql_expr_test": [question]}


@pytest.mark.integration
def test_no_query_is_refused_while_a_pod_replaces_another(tmp_path: Path) -> None:
    """Prometheus refuses all of a picture for one instant in which a join finds two series."""
    cases = [_case(filled(target.expr, VARIABLES)) for target in targets()]
    file = tmp_path / "pods.yaml"
    file.write_text(json.dumps({"rule_files": [], "tests": cases}))  # JSON is YAML
    done = run([need("promtool", "prometheus"), "test", "rules", str(file)], timeout_s=PATIENCE_S)
    said = (done.stdout + done.stderr).decode()
    assert "got:" in said  # promtool answered: nothing was expected of the values
    assert re.findall(r"err: (.*)", said) == []
