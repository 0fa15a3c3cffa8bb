"""Grafana's own types judge the dashboards: what they do not know, Grafana would not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.child import run
from tests.pictures.page import MODULES, SOURCE
from tests.pictures.typed import module
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.grafana

DASHBOARDS = sorted((ROOT / "dashboards").glob("*.json"))
STRICT = (
    "--ignoreConfig",
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
)


def judged(dashboards: list[Path], name: str) -> str:
    """What the compiler says of them. Where it compiles must lie beside node_modules."""
    file = SOURCE / "built" / f"{name}.ts"
    file.parent.mkdir(exist_ok=True)
    file.write_text(module(dashboards), encoding="utf-8")
    said = run(
        [str(MODULES / ".bin" / "tsc"), *STRICT, "--target", "es2022", str(file)],
        timeout_s=PATIENCE_S,
    )
    return (said.stdout + said.stderr).decode()


def test_every_dashboard_is_what_grafanas_schema_says() -> None:
    """Every key is known, and every value of the right type, down to each
    kind of panel's own options.
    """
    assert judged(DASHBOARDS, "typed") == ""


def _version_in_words(dashboard: dict[str, Any]) -> None:
    dashboard["schemaVersion"] = "forty-two"


def _unit_as_number(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][0]["fieldConfig"]["defaults"]["unit"] = 5


def _option_misspelt(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][0]["options"]["colourMode"] = "value"


def _value_unknown(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][0]["options"]["colorMode"] = "rainbow"


@pytest.mark.parametrize(
    "spoil", [_version_in_words, _unit_as_number, _option_misspelt, _value_unknown]
)
def test_what_is_wrong_is_noticed(tmp_path: Path, spoil: Callable[[dict[str, Any]], None]) -> None:
    """A wrong type, a misspelt option and an unknown value each stop the compiler."""
    dashboard = json.loads((ROOT / "dashboards" / "fleet.json").read_text(encoding="utf-8"))
    spoil(dashboard)
    spoilt = tmp_path / "fleet.json"
    spoilt.write_text(json.dumps(dashboard), encoding="utf-8")
    assert "error TS" in judged([spoilt], spoil.__name__)
