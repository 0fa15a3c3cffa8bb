"""The ValidatingAdmissionPolicy of the agent's token: each legitimate write passes, each other one
is refused, as Google's CEL and Kubernetes' own admission plugin evaluate it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.deploy.admission.judges import by_cel, by_kubernetes
from tests.deploy.admission.writes import ATTACKS, LEGITIMATE, NODE, OTHERS, Write, changed
from tests.deploy.manifests import KUBERNETES, Manifest, golden, manifests, one
from tests.sources import ROOT

FILE = KUBERNETES / "node-conditions" / "own-node-only.yaml"
POLICY, BINDING = manifests(FILE)
WRITES = (*LEGITIMATE, *OTHERS, *ATTACKS)


def chart() -> list[Manifest]:
    """What the chart renders of the same."""
    return manifests(ROOT / "tests" / "golden" / "chart" / "full.yaml")


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.tries)
def test_a_write_passes_or_is_refused(write: Write) -> None:
    """By the expression that is about it, whose message says what an agent may change."""
    verdict = by_cel(POLICY, write)
    assert write.refused in verdict
    assert bool(verdict) == bool(write.refused)


def test_every_field_of_a_node_is_tried() -> None:
    """What Kubernetes' API knows of a Node's status is changed by an attack or by the agent."""
    tried = {path.split(".")[1] for write in WRITES for path in write.change}
    assert tried >= NODE["status"].keys()


def test_a_field_of_a_later_release_is_protected_too() -> None:
    """Nobody has to list it first."""
    write = Write("later", {"status.somethingNew": 1})
    assert "status but a condition" in by_cel(POLICY, write)
    assert "status but a condition" in by_cel(
        POLICY, write._replace(change={"status.somethingNew": 2}, before=write.change)
    )


def test_a_token_that_the_policy_cannot_judge_is_refused() -> None:
    """An expression that fails refuses the write: failurePolicy is Fail."""
    assert by_cel(POLICY, Write("no name", {"metadata": {}})).startswith("failed")


def test_the_policy_is_about_both_ways_to_write_a_node() -> None:
    """Nodes and their status, when they are updated or patched, and nobody else's token."""
    (rule,) = POLICY["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["UPDATE"], ["nodes", "nodes/status"])
    assert (rule["apiGroups"], rule["apiVersions"]) == ([""], ["v1"])
    assert POLICY["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"]["validationActions"] == ["Deny"]
    assert BINDING["spec"]["policyName"] == POLICY["metadata"]["name"]


def test_the_chart_has_the_same_policy() -> None:
    """Expression by expression."""
    assert one(chart(), "ValidatingAdmissionPolicy")["spec"] == POLICY["spec"]
    rendered = one(golden("full-with-conditions"), "ValidatingAdmissionPolicy")
    assert rendered["spec"] == POLICY["spec"]


@pytest.mark.integration
def test_kubernetes_own_plugin_judges_likewise(tmp_path: Path) -> None:
    """The code of kube-apiserver: no warning about types, and every verdict as expected."""
    found = by_kubernetes(tmp_path, POLICY, BINDING, WRITES)
    assert found.warnings == []
    assert found.wrong(WRITES) == []


@pytest.mark.integration
def test_the_plugin_sees_what_the_old_policy_let_pass(tmp_path: Path) -> None:
    """Without the rules about status and metadata it passes what they refuse."""
    weaker = yaml.safe_load(yaml.safe_dump(POLICY))
    weaker["spec"]["validations"] = weaker["spec"]["validations"][:2]
    verdicts = by_kubernetes(tmp_path, weaker, BINDING, ATTACKS).verdicts
    passed = {write.tries for write, verdict in zip(ATTACKS, verdicts, strict=True) if not verdict}
    assert {"labels", "capacity", "addresses", "the kubelet's port"} <= passed
    assert changed(NODE, {}) == NODE
