"""The chart of the gateway and its NATS servers, rendered by real Helm: valid for Kubernetes, as
restricted as it says, and in step with what gateway and server take.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from collector.cli.main import parser
from collector.config.load import Inputs, load
from collector.config.settings import Config
from pipeline import child
from tests.certificates import Authority
from tests.deploy.manifests import Manifest, render
from tests.deploy.test_helm import MAJORS, helm
from tests.deploy.test_kubernetes import FOREIGN, VERSIONS
from tests.nats import PROGRAM
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow]

USERS = ROOT / "deploy" / "nats" / "bus_users.py"
PLAIN = ROOT / "deploy" / "kubernetes" / "fleet"
CHART = ROOT / "deploy" / "helm" / "tocsin-fleet"
OWN = (
    "nats.enabled=true,nats.accountsSecret=accounts,nats.tlsSecret=certificates,"
    "bus.credentialsSecret=users,serviceMonitor.enabled=true,cluster=c1,gateway.webSecret=web"
)
ELSEWHERE = "bus.servers={tls://nats1:4222,tls://nats2:4222},bus.credentialsSecret=users"
CASES = {"own": OWN, "elsewhere": ELSEWHERE}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@cache
def rendered(case: str, major: str = "4") -> tuple[Manifest, ...]:
    """What a Helm renders."""
    place = ("fleet", str(CHART), "--namespace", "tocsin", "--set", CASES[case])
    done = helm(major, "template", *place)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return tuple(filter(None, yaml.safe_load_all(done.stdout)))


def test_the_plain_manifests_are_what_the_chart_renders() -> None:
    """One source of truth; kubectl's kustomize takes them."""
    values = ("--values", str(PLAIN / "values.yaml"))
    done = helm("4", "template", "tocsin-fleet", str(CHART), "--namespace", "tocsin", *values)
    of_helm = r"(?m)^(# Source: .*|.*(managed-by: Helm|helm.sh/.*))\n"
    text = re.sub(of_helm, "", done.stdout.decode())
    text = re.sub(r"(?m)^  annotations:\n(?=spec:)", "", text)
    file = PLAIN / "fleet.yaml"
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
    found = list(yaml.safe_load_all(render("fleet")))
    assert {m["metadata"]["namespace"] for m in found} == {"tocsin"}
    assert len(found) == len(list(filter(None, yaml.safe_load_all(text))))


def named(case: str, kind: str, name: str) -> Manifest:
    """The manifest of a kind and name."""
    (found,) = [m for m in rendered(case) if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found


def pods(case: str) -> list[Manifest]:
    """Specifications of all pods."""
    return [
        m["spec"]["template"]["spec"] for m in rendered(case) if "template" in m.get("spec", {})
    ]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("case", CASES)
def test_helm_accepts_the_chart(major: str, case: str) -> None:
    """Lint has no warning, and both versions render the same."""
    done = helm(major, "lint", "--strict", "--set", CASES[case], str(CHART))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert b"[WARNING]" not in done.stdout
    assert rendered(case, major) == rendered(case)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_keeps_to_the_schemas(case: str, version: str) -> None:
    """No unknown key and no wrong type."""
    for manifest in rendered(case):
        if manifest["kind"] not in FOREIGN:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_no_pod_has_a_privilege(case: str) -> None:
    """Nobody's user, no capability, a read-only root, no token, nothing of the host."""
    for pod in pods(case):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert [one["securityContext"] for one in pod["containers"]] == [RESTRICTED]
        assert not {"hostPID", "hostNetwork", "hostIPC", "initContainers"} & pod.keys()
        assert not any("hostPath" in volume for volume in pod["volumes"])


@pytest.mark.parametrize(("name", "replicas"), [("gateway", 2), ("nats", 3)])
def test_one_node_or_one_drain_takes_no_more_than_one_of_them(name: str, replicas: int) -> None:
    """Each on a node and a volume of its own; the budget lets one go."""
    full = f"fleet-tocsin-fleet-{name}"
    found = named("own", "StatefulSet", full)["spec"]
    assert found["replicas"] == replicas
    assert [claim["spec"]["accessModes"] for claim in found["volumeClaimTemplates"]] == [
        ["ReadWriteOnce"]
    ]
    labels = found["selector"]["matchLabels"]
    (apart,) = found["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert (apart["topologyKey"], apart["labelSelector"]["matchLabels"]) == (
        "kubernetes.io/hostname",
        labels,
    )
    budget = named("own", "PodDisruptionBudget", full)["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels)


@pytest.mark.parametrize("case", CASES)
def test_the_gateway_takes_its_arguments_and_its_file(case: str, tmp_path: Path) -> None:
    """Flags, and a file that names the bus as the values do."""
    config = gateway_config(case, tmp_path)
    assert config.bus.cluster == {"own": "c1", "elsewhere": "default"}[case]
    assert Path(config.bus.credentials_file).name == "bus.creds"
    assert config.bus.servers[0].startswith("tls://")
    assert len(config.bus.servers) == {"own": 3, "elsewhere": 2}[case]
    for pod in pods(case):
        if pod["containers"][0]["name"] != "nats":
            parser().parse_args(pod["containers"][0]["args"])


def gateway_config(case: str, folder: Path) -> Config:
    """The configuration of a gateway; whatever it does not know is refused, or cannot read."""
    file = folder / "gateway.yaml"
    text = named(case, "ConfigMap", "fleet-tocsin-fleet-gateway")["data"]["gateway.yaml"]
    for mounted in ("/etc/tocsin-bus/bus.creds", "/etc/tocsin-ca/ca.crt"):
        real = folder / Path(mounted).name
        real.touch()
        text = text.replace(mounted, str(real))
    file.write_text(text, encoding="utf-8")
    loaded = load(Inputs(str(file), {}))
    assert not loaded.notices
    return loaded.config


@pytest.mark.parametrize(("case", "nats"), [("own", 1), ("elsewhere", 0)])
def test_gateways_reach_what_the_values_say(case: str, nats: int) -> None:
    """An object store too, beside names and the chart's own servers."""
    egress = "networkPolicy.egress[0].ports[0].port=443"
    place = ("--set", f"{CASES[case]},{egress}", "--show-only", "templates/networkpolicy.yaml")
    done = helm("4", "template", "fleet", str(CHART), *place)
    assert done.returncode == 0, done.stderr.decode()
    gateways = next(filter(None, yaml.safe_load_all(done.stdout)))
    ports = [port["port"] for rule in gateways["spec"]["egress"] for port in rule["ports"]]
    assert ports == [53, 53, *[4222] * nats, 443]


def test_each_gateway_has_credentials_of_its_own() -> None:
    """By the name of its pod; no two share a user."""
    spec = named("own", "StatefulSet", "fleet-tocsin-fleet-gateway")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["/etc/tocsin-bus/bus.creds"]["subPathExpr"] == "$(POD_NAME).creds"


def test_the_stream_is_made_while_helm_waits_for_the_gateways() -> None:
    """They are ready with it, so it is made by no hook, which comes after them; and another
    specification, which no Job takes, is another Job.
    """
    jobs = []
    for tag in ("a", "b"):
        place = ("--set", f"{OWN},image.tag={tag}", "--show-only", "templates/stream.yaml")
        done = helm("4", "template", "fleet", str(CHART), *place)
        jobs.append(yaml.safe_load(done.stdout))
    assert [job["metadata"].get("annotations") for job in jobs] == [None, None]
    names = {job["metadata"]["name"] for job in jobs}
    assert len(names) == 2
    assert all(name.startswith("fleet-tocsin-fleet-stream-") for name in names)


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("memory", "limit"),
    [
        ("2Gi", ["1843MiB"]),
        ("1.5Gi", ["1382MiB"]),
        ("4G", ["3433MiB"]),
        ("800Mi", ["720MiB"]),
        ("2147483648", []),
        ("null", []),
    ],
)
def test_the_server_collects_garbage_below_its_limit(
    major: str, memory: str, limit: list[str]
) -> None:
    """However the quantity is written, and never at 0, with which it would do nothing else."""
    values = f"{OWN},nats.resources.limits.memory={memory}"
    place = ("--set", values, "--show-only", "templates/nats.yaml")
    done = helm(major, "template", "fleet", str(CHART), *place)
    assert done.returncode == 0, done.stderr.decode()
    (server,) = [m for m in yaml.safe_load_all(done.stdout) if m and m["kind"] == "StatefulSet"]
    environment = server["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [each["value"] for each in environment if each["name"] == "GOMEMLIMIT"] == limit


def test_the_real_server_takes_its_configuration(tmp_path: Path) -> None:
    """With accounts and certificates in the places of the pod's."""
    init = [sys.executable, str(USERS), str(tmp_path / "users"), "init"]
    assert child.run(init, timeout_s=PATIENCE_S).returncode == 0
    authority = Authority()
    certificate, key = authority.server().write(tmp_path, "tls")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    text = named("own", "ConfigMap", "fleet-tocsin-fleet-nats")["data"]["nats.conf"]
    places = {
        "/etc/nats-tls/tls.crt": certificate,
        "/etc/nats-tls/tls.key": key,
        "/etc/nats-tls/ca.crt": tmp_path / "ca.crt",
        "../nats-accounts/accounts.conf": Path("users/accounts.conf"),
        '"/data"': json.dumps(str(tmp_path / "data")),
    }
    for place, real in places.items():
        assert place in text
        text = text.replace(place, str(real))
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    environment = os.environ | {"POD_NAME": "fleet-nats-0"}
    check = [str(PROGRAM), "-t", "-c", str(tmp_path / "nats.conf")]
    done = child.run(check, timeout_s=PATIENCE_S, env=environment)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("nats.enabled=true", "nats.accountsSecret"),
        ("cluster=c1", "bus.servers: the addresses of NATS"),
        ("gatway.replicas=1", "gatway"),
    ],
)
def test_values_that_cannot_work_are_refused(wrong: str, words: str) -> None:
    """With the key that is missing or unknown."""
    done = helm("4", "template", "fleet", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert words in done.stderr.decode()


def test_the_values_keep_to_their_schema() -> None:
    """And every key of theirs is in it."""
    schema: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert schema["properties"].keys() - {"global"} == values.keys()
