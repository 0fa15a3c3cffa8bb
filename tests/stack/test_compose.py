"""The stack as containers: taken by Compose itself; what it mounts, names and switches is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.load import Inputs
from collector.config.load import load as load_config
from pipeline.child import run
from tests.parts import need, newer
from tests.sources import ROOT

FILE = ROOT / "docker-compose.yml"
STACK: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
NODES = [name for name in SERVICES if name.startswith("node")]


@pytest.mark.integration
def test_compose_takes_the_file() -> None:
    """Docker Compose validates it against its own schema and resolves every reference."""
    checked = run([newer("docker-compose", "docker-compose"), "-f", str(FILE), "config", "--quiet"], timeout_s=30)
    assert checked.returncode == 0, checked.stderr.decode()


def test_everything_that_is_mounted_is_there() -> None:
    """No path of the repository that does not exist: Docker would make an empty folder of it."""
    sources = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert (ROOT / SERVICES["node1"]["build"]["dockerfile"]).is_file()


def test_images_have_a_version_and_no_host() -> None:
    """What is pulled today is what is pulled tomorrow, from where the reader's own Docker looks."""
    for name, service in SERVICES.items():
        if "build" not in service:
            assert re.fullmatch(r"([a-z0-9-]+/)?[a-z0-9-]+:v?\d+\.\d[\w.-]*", service["image"]), name


@pytest.mark.parametrize("name", NODES)
def test_every_setting_of_a_node_exists(name: str) -> None:
    """The agent takes the variables, simulates, and listens where Prometheus and the browser look for it."""
    config = load_config(Inputs("", SERVICES[name]["environment"], (), ())).config
    assert config.simulate.profile
    assert config.web.listen_address == (":9400",)
    assert config.simulate.speed == 1  # Prometheus' own time cannot be hurried


def test_one_node_has_the_bad_day_and_the_others_a_quiet_one() -> None:
    """Who looks at the stack sees what is wrong beside what is well."""
    assert sorted(SERVICES[name]["environment"]["TOCSIN_SIMULATE__DAY"] for name in NODES) == ["bad", "quiet", "quiet"]


def test_prometheus_scrapes_the_nodes_and_tells_alertmanager() -> None:
    """The addresses in rules/prometheus.yml are services of the stack."""
    config = yaml.safe_load((ROOT / "rules" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert [target for group in job["static_configs"] for target in group["targets"]] == [f"{node}:9400" for node in NODES]
    ((told,),) = (group["static_configs"][0]["targets"] for group in config["alerting"]["alertmanagers"])
    assert told.split(":")[0] in SERVICES


@pytest.mark.integration
def test_promtool_takes_the_configuration_with_its_rules() -> None:
    """Every rule file that it names is beside it."""
    checked = run([need("promtool", "prometheus"), "check", "config", str(ROOT / "rules" / "prometheus.yml")], timeout_s=30)
    assert checked.returncode == 0, (checked.stdout + checked.stderr).decode()


@pytest.mark.integration
@pytest.mark.parametrize(("service", "program"), [("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")])
def test_every_flag_of_a_server_exists(service: str, program: str) -> None:
    """Its own help names each flag that it is started with."""
    helped = run([need(program, program), "--help"], timeout_s=30)
    text = (helped.stdout + helped.stderr).decode()
    flags = [flag.partition("=")[0] for flag in SERVICES[service]["command"]]
    assert [flag for flag in flags if f"{flag}=" not in text and f"{flag} " not in text] == []


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """Its data source is the stack's Prometheus, and its provider looks where the dashboards are mounted."""
    provisioned = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in _provisioning()]
    urls = [source["url"] for document in provisioned for source in document.get("datasources", [])]
    folders = [provider["options"]["path"] for document in provisioned for provider in document.get("providers", [])]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert "http://prometheus:9090" in urls
    assert folders
    assert all(any(folder.startswith(mount) for mount in mounted) for folder in folders)


def _provisioning() -> list[Path]:
    return sorted((ROOT / "dashboards" / "provisioning").rglob("*.y*ml"))


def test_the_receivers_listen_where_alertmanager_calls() -> None:
    """They share its loopback, and print what comes."""
    address = re.search(r'ADDRESS = \("([\d.]+)", (\d+)\)', (ROOT / "tools" / "receivers.py").read_text(encoding="utf-8"))
    assert address
    called = re.findall(r"http://([^/]+)/", (ROOT / "rules" / "alertmanager.yml").read_text(encoding="utf-8"))
    assert set(called) == {f"{address[1]}:{address[2]}"}
    assert SERVICES["receivers"]["network_mode"] == "service:alertmanager"
