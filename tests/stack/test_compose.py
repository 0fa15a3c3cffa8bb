"""docker-compose.yml: valid for Compose; the files, images and settings that it names exist."""

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
from tests.wait import PATIENCE_S

FILE = ROOT / "docker-compose.yml"
STACK: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
NODES = [name for name in SERVICES if name.startswith("node")]


@pytest.mark.integration
def test_compose_accepts_the_file() -> None:
    """Docker Compose validates it against its own schema and resolves every reference."""
    checked = run(
        [newer("docker-compose", "docker-compose"), "-f", str(FILE), "config", "--quiet"],
        timeout_s=PATIENCE_S,
    )
    assert checked.returncode == 0, checked.stderr.decode()


def test_no_file_is_an_inline_config() -> None:
    """Podman's API refuses one in a read-only container: "'file' is the sole supported option"."""
    assert not {"configs", "secrets"} & STACK.keys()
    assert [name for name, service in SERVICES.items() if "configs" in service] == []


def test_everything_that_is_mounted_is_there() -> None:
    """Every mounted path is in the repository: Docker makes a folder of a missing one."""
    sources = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    ]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert (ROOT / SERVICES["node1"]["build"]["dockerfile"]).is_file()


def test_images_have_a_version_and_no_host() -> None:
    """Images are pinned to a version, and pulled from the configured registry."""
    for name, service in SERVICES.items():
        if service["image"] != SERVICES["node1"]["image"]:  # built here
            assert re.fullmatch(r"([a-z0-9-]+/)?[a-z0-9-]+:v?\d+\.\d[\w.-]*", service["image"]), (
                name
            )


@pytest.mark.parametrize("name", NODES)
def test_no_tmpfs_covers_a_folder_of_the_image(name: str) -> None:
    """Runc before 1.1.8 gives such a tmpfs the folder's mode and root as owner: unwritable."""
    recipe = (ROOT / SERVICES["node1"]["build"]["dockerfile"]).read_text(encoding="utf-8")
    folders = [mount.partition(":")[0] for mount in SERVICES[name]["tmpfs"]]
    assert SERVICES[name]["environment"]["TOCSIN_STORAGE__PATH"] in folders
    assert [folder for folder in folders if folder != "/tmp" and folder in recipe] == []


@pytest.mark.parametrize("name", NODES)
def test_every_setting_of_a_node_exists(name: str) -> None:
    """The agent accepts the variables, is simulated, and listens where Prometheus scrapes it."""
    config = load_config(Inputs("", SERVICES[name]["environment"], (), ())).config
    assert config.simulate.profile
    assert config.web.listen_address == (":9400",)
    assert config.simulate.speed == 1  # Prometheus' own time cannot be hurried


def test_one_node_has_the_bad_day_and_the_others_a_quiet_one() -> None:
    """One degraded node beside two healthy ones."""
    assert sorted(SERVICES[name]["environment"]["TOCSIN_SIMULATE__DAY"] for name in NODES) == [
        "bad",
        "quiet",
        "quiet",
    ]


def test_prometheus_scrapes_the_nodes_and_notifies_alertmanager() -> None:
    """The addresses in rules/prometheus.yml are services of the stack."""
    config = yaml.safe_load((ROOT / "rules" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert [target for group in job["static_configs"] for target in group["targets"]] == [
        f"{node}:9400" for node in NODES
    ]
    ((notified,),) = (
        group["static_configs"][0]["targets"] for group in config["alerting"]["alertmanagers"]
    )
    assert notified.split(":")[0] in SERVICES


@pytest.mark.integration
def test_promtool_accepts_the_configuration_with_its_rules() -> None:
    """Every rule file that it names exists."""
    checked = run(
        [need("promtool", "prometheus"), "check", "config", str(ROOT / "rules" / "prometheus.yml")],
        timeout_s=PATIENCE_S,
    )
    assert checked.returncode == 0, (checked.stdout + checked.stderr).decode()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("service", "program"),
    [("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")],
)
def test_every_flag_of_a_server_exists(service: str, program: str) -> None:
    """Its help lists each flag that it is started with."""
    helped = run([need(program, program), "--help"], timeout_s=PATIENCE_S)
    text = (helped.stdout + helped.stderr).decode()
    flags = [flag.partition("=")[0] for flag in SERVICES[service]["command"]]
    assert [flag for flag in flags if f"{flag}=" not in text and f"{flag} " not in text] == []


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """The data source is the stack's Prometheus; the provider reads the mounted dashboards."""
    provisioned = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in _provisioning()]
    urls = [source["url"] for document in provisioned for source in document.get("datasources", [])]
    folders = [
        provider["options"]["path"]
        for document in provisioned
        for provider in document.get("providers", [])
    ]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert "http://prometheus:9090" in urls
    assert folders
    assert all(any(folder.startswith(mount) for mount in mounted) for folder in folders)


def _provisioning() -> list[Path]:
    return sorted((ROOT / "dashboards" / "provisioning").rglob("*.y*ml"))


def test_the_receivers_listen_where_alertmanager_calls() -> None:
    """They share its loopback address and have its port."""
    address = re.search(
        r'ADDRESS = \("([\d.]+)", (\d+)\)',
        (ROOT / "tools" / "receivers.py").read_text(encoding="utf-8"),
    )
    assert address
    called = re.findall(
        r"http://([^/]+)/", (ROOT / "rules" / "alertmanager.yml").read_text(encoding="utf-8")
    )
    assert set(called) == {f"{address[1]}:{address[2]}"}
    assert SERVICES["receivers"]["network_mode"] == "service:alertmanager"
