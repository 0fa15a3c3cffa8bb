"""deploy/compose/fleet.yml: valid for Compose beside docker-compose.yml; its gateways and nodes use
one bus, whose stream is that of docs/bus.md.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.cli.main import parser
from collector.config.load import Inputs, load
from pipeline.child import run
from tests.nats import PAGE, Nats
from tests.parts import newer
from tests.sources import ROOT
from tests.wait import PATIENCE_S

FILES = (ROOT / "docker-compose.yml", ROOT / "deploy" / "compose" / "fleet.yml")
BASE, FLEET = (yaml.safe_load(file.read_text(encoding="utf-8"))["services"] for file in FILES)
GATEWAYS = ["gateway1", "gateway2"]


@pytest.mark.integration
def test_compose_accepts_both_files() -> None:
    """Docker Compose validates the result and resolves every reference."""
    files = [word for file in FILES for word in ("-f", str(file))]
    program = newer("docker-compose", "docker-compose")
    done = run([program, *files, "config", "--format", "json"], timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr.decode()
    services: dict[str, Any] = json.loads(done.stdout)["services"]
    assert services.keys() == BASE.keys() | FLEET.keys()
    buses = {
        services[name]["environment"]["TOCSIN_BUS__SERVERS"]
        for name in ("node1", "node2", "node3", *GATEWAYS)
    }
    assert buses == {"nats://nats:4222"}
    assert services["node1"]["environment"]["TOCSIN_SIMULATE__DAY"] == "bad"
    taken = [port["published"] for one in services.values() for port in one.get("ports", ())]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("name", GATEWAYS)
def test_every_setting_of_a_gateway_exists(name: str) -> None:
    """It listens where the port is published, and has what it needs."""
    service = FLEET[name]
    parser().parse_args(service["command"])
    config = load(Inputs("", service["environment"], (), ())).config
    (published,) = service["ports"]
    assert config.web.listen_address == (f":{published.rpartition(':')[2]}",)
    assert published.startswith("127.0.0.1:")
    assert config.bus.servers == ("nats://nats:4222",)
    assert config.storage.path in [mount.partition(":")[0] for mount in service["tmpfs"]]


def test_what_is_mounted_is_there_and_images_have_a_version() -> None:
    """Docker makes a folder of a missing path; an image without a version changes by itself."""
    for service in FLEET.values():
        for volume in service.get("volumes", ()):
            assert (ROOT / volume.split(":")[0]).is_file()
        image = service.get("image", "tocsin:local")
        assert image == BASE["node1"]["image"] or re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+", image)


@pytest.mark.integration
def test_the_stream_is_that_of_the_documentation(tmp_path: Path) -> None:
    """Made on a real server, and left as it is by a second run."""
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    wanted: dict[str, Any] = json.loads(text) | {"num_replicas": 1, "max_bytes": 1_000_000_000}
    with Nats(tmp_path / "nats") as server:
        tocsin = str(Path(sys.executable).with_name("tocsin"))
        bus = ["--bus.servers", server.url, "--bus.cluster", "c1"]
        for _ in range(2):
            done = run([tocsin, *FLEET["stream"]["command"], *bus], timeout_s=PATIENCE_S)
            assert done.returncode == 0, done.stderr.decode()

        async def sent(client: Any) -> dict[str, Any]:
            answer = await client.request("$JS.API.STREAM.INFO.tocsin", b"")
            config: dict[str, Any] = json.loads(answer.data)["config"]
            return config

        made = server.ask(sent)
    assert {key: made.get(key) for key in wanted} == wanted
