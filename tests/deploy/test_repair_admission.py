"""The ValidatingAdmissionPolicy of the repair's token: drain and return pass, each other write to a
Node is refused, as Google's CEL and Kubernetes' own admission plugin evaluate it.
"""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from tests.deploy.admission.judges import by_cel, by_kubernetes
from tests.deploy.admission.repairs import ATTACKS, LEGITIMATE, OTHERS, REPAIR
from tests.deploy.admission.writes import Write
from tests.deploy.manifests import KUBERNETES, Manifest, manifests
from tests.deploy.test_kubernetes import VERSIONS
from tests.sources import ROOT

FILE = KUBERNETES / "repair" / "cordon-only.yaml"
POLICY, BINDING = manifests(FILE)
WRITES = (*LEGITIMATE, *OTHERS, *ATTACKS)


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.tries)
def test_a_write_passes_or_is_refused(write: Write) -> None:
    """By the expression that is about it, whose message says what a repair may change."""
    verdict = by_cel(POLICY, write)
    assert write.refused in verdict
    assert bool(verdict) == bool(write.refused)


def test_the_policy_is_about_the_account_of_the_component() -> None:
    """And bound so that it refuses, also what it cannot judge."""
    account = manifests(KUBERNETES / "repair" / "rbac.yaml")[0]["metadata"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" == REPAIR
    (condition,) = POLICY["spec"]["matchConditions"]
    assert REPAIR in condition["expression"]
    assert POLICY["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"]["validationActions"] == ["Deny"]
    assert BINDING["spec"]["policyName"] == POLICY["metadata"]["name"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_it_keeps_to_the_schemas(version: str) -> None:
    """Strictly, in the oldest and the newest release."""
    for manifest in (POLICY, BINDING):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_chart_has_the_same_policy() -> None:
    """But for the account, which has its release's name there."""
    found = manifests(ROOT / "tests" / "golden" / "chart" / "everything.yaml")
    accounts = {m["metadata"]["name"] for m in found if m["kind"] == "ServiceAccount"}
    (chart,) = [
        m
        for m in found
        if m["kind"] == "ValidatingAdmissionPolicy" and "cordon-only" in m["metadata"]["name"]
    ]
    assert _rest(chart) == _rest(POLICY)
    (condition,) = chart["spec"]["matchConditions"]
    assert condition["expression"].rpartition(":")[2].strip("'") in accounts


def _rest(policy: Manifest) -> Manifest:
    return {name: one for name, one in policy["spec"].items() if name != "matchConditions"}


@pytest.mark.integration
def test_kubernetes_own_plugin_judges_likewise(tmp_path: Path) -> None:
    """The code of kube-apiserver: no warning about types, and every verdict as expected."""
    found = by_kubernetes(tmp_path, POLICY, BINDING, WRITES)
    assert found.warnings == []
    assert found.wrong(WRITES) == []
