"""Kubernetes manifests: valid by Kubernetes' own schemas, as restricted as they say, and in step
with what the agent takes.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from collector.cli.main import parser
from collector.config import tree
from collector.config.dcgm_flags import FLAGS
from collector.config.load import Inputs, load
from collector.sources.trainings.kinds import KINDS
from tests.deploy.manifests import (
    GOLDEN,
    KUBERNETES,
    RENDERED,
    exporter,
    golden,
    manifests,
    one,
    pod,
    render,
)
from tests.sources import ROOT, files, imports

pytestmark = pytest.mark.slow  # the validator takes two seconds to import

# The oldest release that has every field we use (appArmorProfile, ValidatingAdmissionPolicy v1),
# and the newest whose schemas we have.
VERSIONS = ("1.30", "1.37")
FILES = sorted(
    [
        *GOLDEN.glob("*.yaml"),
        *(path for path in KUBERNETES.rglob("*.yaml") if path.name.endswith("monitor.yaml")),
    ]
)
# TotalAnnotationSizeLimitB of apimachinery's api/validation.
MAX_ANNOTATIONS = 256 << 10
# Kinds of the Prometheus operator, of which Kubernetes has no schema.
FOREIGN = {"ServiceMonitor", "PodMonitor"}


@pytest.mark.integration
@pytest.mark.parametrize("folder", RENDERED)
def test_golden_manifests_are_what_kustomize_renders(folder: str) -> None:
    """The golden files, which the other tests read, are what a cluster would get now."""
    path = GOLDEN / f"{folder}.yaml"
    text = render(folder)
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.integration
def test_rules_and_dashboards_come_with_monitoring() -> None:
    """One command brings the scrape, the rules and every dashboard but the one
    for dcgm-exporter alone.
    """
    found = list(yaml.safe_load_all(render("monitoring")))
    assert {m["kind"] for m in found} == {"ServiceMonitor", "PrometheusRule", "ConfigMap"}
    boards = {name for m in found if m["kind"] == "ConfigMap" for name in m["data"]}
    assert boards == {path.name for path in (ROOT / "dashboards").glob("*.json")} - {"dcgm.json"}
    assert {m["metadata"]["namespace"] for m in found} == {"tocsin"}


@pytest.mark.integration
def test_kubectl_apply_can_note_what_it_applied() -> None:
    """It keeps each object as JSON in an annotation, of which Kubernetes takes 256 KiB."""
    sizes = {
        m["metadata"]["name"]: len(json.dumps(m)) for m in yaml.safe_load_all(render("monitoring"))
    }
    assert {name: size for name, size in sizes.items() if size > MAX_ANNOTATIONS} == {}


@pytest.mark.integration
def test_trainings_are_a_component_of_any_overlay(tmp_path: Path) -> None:
    """It gives the agent a token, the setting and the way to the API server."""
    up = os.path.relpath(KUBERNETES, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{up}/base]\ncomponents: [{up}/trainings]\n"
    )
    found = list(yaml.safe_load_all(render(str(tmp_path))))
    (agent,) = (m["spec"]["template"]["spec"] for m in found if m["kind"] == "DaemonSet")
    assert agent["automountServiceAccountToken"] is True
    variables = [v for c in agent["containers"] for v in c.get("env", ())]
    assert {"name": "TOCSIN_SOURCES__TRAININGS__ENABLED", "value": "true"} in variables


def test_the_role_of_trainings_is_what_its_source_asks_for() -> None:
    """Every kind that is asked for, and no other; nothing is written."""
    role = manifests(KUBERNETES / "trainings" / "rbac.yaml")[0]
    asked = {(group, kind.plural) for (group, _), kind in KINDS.items() if kind.owned}
    allowed = {
        (group, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert allowed == asked
    verbs = {(*rule["verbs"],) for rule in role["rules"] if rule["resources"] != ["pods"]}
    assert verbs == {("get",)}
    assert role["rules"][0] == {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_manifests_keep_to_the_schemas(path: Path, version: str) -> None:
    """No unknown key and no wrong type, in the oldest and the newest release."""
    for manifest in manifests(path):
        if manifest["kind"] not in FOREIGN:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_default_profile_has_no_privilege() -> None:
    """Nobody's user, no capability, a read-only root, no process or
    network of the host, no token.
    """
    spec, container = pod("base"), exporter("base")
    assert {"hostPID", "hostNetwork", "hostIPC"} & spec.keys() == set()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


@pytest.mark.parametrize("folder", RENDERED)
def test_what_is_mounted_from_the_host_is_read_only_but_for_its_own_state(folder: str) -> None:
    """The agent can change nothing of the node's."""
    host = {volume["name"] for volume in pod(folder)["volumes"] if "hostPath" in volume}
    writable = {
        m["name"]
        for m in exporter(folder)["volumeMounts"]
        if m["name"] in host and not m.get("readOnly")
    }
    assert writable <= {"state"}


def test_no_gpu_is_taken_from_jobs() -> None:
    """No profile requests a device: the scheduler counts them all as free."""
    for folder in RENDERED:
        resources = exporter(folder)["resources"]
        assert {name for part in resources.values() for name in part} == {"cpu", "memory"}


@pytest.mark.parametrize("folder", RENDERED)
def test_the_agent_has_no_privilege_in_any_profile(folder: str) -> None:
    """The full profile gives it the host's process numbers, and a helper to ask."""
    assert exporter(folder)["securityContext"] == exporter("base")["securityContext"]
    assert pod(folder)["securityContext"] == pod("base")["securityContext"]
    assert "privileged" not in str(pod(folder))
    assert not {"hostNetwork", "hostIPC"} & pod(folder).keys()


def test_roles_allow_what_the_agent_asks_for_and_no_more() -> None:
    """Nodes are read, their status is patched, Events are created: each verb and path stands in
    the client, each request in a role. The requests of any path are those of `tocsin repair`.
    """
    client = (ROOT / "collector" / "integrations" / "kubernetes" / "api.py").read_text(
        encoding="utf-8"
    )
    asked = {
        (
            verb.lower().replace("post", "create"),
            "events" if "events" in path else "nodes/status" if "/status" in path else "nodes",
        )
        for verb, path in re.findall(r'_ask\("([A-Z]+)", f?"(/\S+?)"', client)
    }
    roles = [m for m in golden("full-with-conditions") if m["kind"] in ("Role", "ClusterRole")]
    allowed = {
        (verb, res)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for res in rule["resources"]
    }
    assert allowed == asked


def test_only_repair_asks_for_what_no_role_allows() -> None:
    """Whoever asks for any path is loaded by that command, and by nothing of the agent."""
    asks = re.compile(r"\bapi\.(?:get|items|merge|create|delete)\(")
    askers = {path for path in files("collector") if asks.search((ROOT / path).read_text())}
    assert askers == {
        Path("collector/integrations/kubernetes/nodes.py"),
        Path("collector/integrations/nvsentinel/remediation.py"),
    }
    modules = {".".join(path.with_suffix("").parts) for path in askers}
    users = {
        path
        for path in files("collector")
        for _, name in imports(path)
        if name.rpartition(".")[0] in modules or name in modules
    }
    assert users - askers == {Path("collector/cli/repair.py")}


@pytest.mark.parametrize("folder", RENDERED)
def test_the_agent_takes_its_arguments_variables_and_configuration(
    folder: str, tmp_path: Path
) -> None:
    """What the manifest hands over is what the agent reads: flags, variables, and
    the file in the ConfigMap.
    """
    container = exporter(folder)
    parser().parse_args(container["args"])
    variables = {setting.variable for setting in tree.settings().values()} | {
        flag.variable for flag in FLAGS
    }
    own = {
        entry["name"]: entry.get("value", "")
        for entry in container["env"]
        if not entry["name"].startswith(("NODE_", "NVIDIA_"))
    }
    assert own.keys() <= variables
    (tmp_path / "config.yaml").write_text(
        one(golden(folder), "ConfigMap")["data"]["config.yaml"], encoding="utf-8"
    )
    assert not load(Inputs(str(tmp_path / "config.yaml"), own)).notices


def test_probes_go_to_the_plain_listener() -> None:
    """The kubelet has neither certificates nor passwords: it asks the port of the
    health listener, by name.
    """
    container = exporter("base")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes: list[dict[str, Any]] = [
        container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    ]
    assert {probe["port"] for probe in probes} == {"health"}
    assert f"--web.health-listen-address=:{ports['health']}" in container["args"]
    assert f"--web.listen-address=:{ports['metrics']}" in container["args"]


def test_monitors_name_a_port_and_labels_that_exist() -> None:
    """A selector with a typing mistake selects nothing, silently."""
    labels = one(golden("base"), "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    for name in ("servicemonitor", "podmonitor"):
        (monitor,) = manifests(KUBERNETES / "monitoring" / f"{name}.yaml")
        spec = monitor["spec"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in exporter("base")["ports"]}


def test_the_policy_is_of_the_agent_alone() -> None:
    """Other pods in its namespace, as a site's compactor, keep their network."""
    policy = one(golden("base"), "NetworkPolicy")["spec"]
    labels = one(golden("base"), "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["podSelector"]["matchLabels"]


def test_the_network_lets_scrapes_and_probes_in_and_nothing_out() -> None:
    """In the default profile the agent has no reason to speak first."""
    policy = one(golden("base"), "NetworkPolicy")["spec"]
    assert [rule["ports"] for rule in policy["ingress"]] == [
        [{"port": "metrics"}],
        [{"port": "health"}],
    ]
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])
