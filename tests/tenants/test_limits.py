"""The ten attacks at once beside a stall of another job, with the memory limit that is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources import ROOT
from tests.tenants.attacked import DEADLINE_S, Attacked
from tests.tenants.attacks import TEN

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.integration]


def shipped_mib() -> int:
    """The smallest limit of the unit and the pod."""
    unit = (ROOT / "deploy/systemd/tocsin.service").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(
        (ROOT / "deploy/helm/tocsin/values.yaml").read_text(encoding="utf-8")
    )
    rows = dict(row.split("=", 1) for row in unit.splitlines() if row.startswith("Memory"))
    pod = str(values["resources"]["limits"]["memory"])
    assert pod.endswith("Mi")
    assert {value[-1] for value in rows.values()} == {"M"}
    return min(int(pod.removesuffix("Mi")), *(int(value[:-1]) for value in rows.values()))


def test_ten_attacks_within_the_memory_limit_hide_no_stall_and_name_no_other_gpu(
    tmp_path: Path,
) -> None:
    """The rank that the job waits for is named within the usual time; nothing is killed; who was
    cut is shown.
    """
    with Attacked(tmp_path, shipped_mib() << 20) as attacked:
        outcome = attacked.run(0, [attack(attacked.field) for attack in TEN.values()])
        assert attacked.agent.process.poll() is None
    assert max(outcome.named_s) <= DEADLINE_S
    assert outcome.accused == set()
    assert outcome.kills == 0
    assert outcome.unit_mib <= shipped_mib()
    assert any('tenant="user65534"' in label for label in outcome.cut)
