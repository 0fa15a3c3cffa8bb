"""The chart in real Helm, the oldest major version that is in use and the newest: both accept it
and render the same.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.dcgm_flags import CONFIG_FILE
from pipeline import child
from tests.deploy.manifests import Manifest, one
from tests.deploy.test_chart import CASES, CHART, NAMES, RENDERED
from tests.parts import fetched
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MAJORS = ("3", "4")
RULES = """\
spec:
  groups:
  - name: one
    rules: [{alert: One, expr: vector(1), annotations: {summary: "{{ $value }}"}}]
"""
# A release is stored in a Secret, as gzipped JSON in base64; etcd takes no larger one
# (kubernetes.io, "Secrets").
MAX_SECRET_BYTES = 1 << 20


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with one rule and one dashboard: the real ones have tests of their own."""
    folder = tmp_path_factory.mktemp("chart") / "tocsin"
    shutil.copytree(CHART, folder)
    (folder / "files" / "dashboards").mkdir(parents=True)
    (folder / "files" / "dashboards" / "fleet.json").write_text('{"title": "Fleet"}\n')
    (folder / "files" / "rules.yaml").write_text(RULES)
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make chart` packs."""
    folder = tmp_path_factory.mktemp("dist")
    done = child.run(
        [str(ROOT / "deploy/helm/chart.sh")],
        timeout_s=PATIENCE_S,
        env=os.environ | {"DIST": str(folder)},
    )
    assert done.returncode == 0, done.stderr.decode()
    (made,) = folder.glob("*.tgz")
    return made


def helm(major: str, *arguments: str) -> child.Finished:
    """A command that reads and writes nothing of this machine's own Helm."""
    return child.run(
        [fetched("helm", f"helm-{major}"), *arguments],
        timeout_s=PATIENCE_S,
        max_bytes=16 << 20,
        env={f"HELM_{kind}_HOME": "/nonexistent" for kind in ("CACHE", "CONFIG", "DATA")},
    )


def template(major: str, chart: Path, *arguments: str) -> str:
    """What a Helm renders."""
    done = helm(major, "template", "tocsin", str(chart), "--namespace", "tocsin", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def unsalted(text: str) -> str:
    """Without the hashes of passwords, which have another salt each time."""
    return re.sub(r"\$2[aby]\$10\$[./A-Za-z0-9]{53}", "HASH", text)


def documents(text: str) -> list[Any]:
    """The manifests in the order in which Helm applies them."""
    return list(yaml.safe_load_all(text))


def fresh() -> str:
    """The first line of a golden file that belongs to chart and cases as they are."""
    files = sorted(
        [*CHART.rglob("*"), *CASES.rglob("*")],
        key=lambda path: str(path.relative_to(ROOT)).encode(),
    )
    read = b"".join(path.read_bytes() for path in files if path.is_file())
    return f"# Rendered by Helm from {hashlib.sha256(read).hexdigest()}\n"


@pytest.mark.parametrize("major", MAJORS)
def test_helm_is_the_version_that_it_should_be(major: str) -> None:
    """The wheel on PyPI is named after a version of kubectl."""
    assert helm(major, "version", "--short").stdout.decode().startswith(f"v{major}.")


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_nothing(major: str, name: str, chart: Path) -> None:
    """Not even a warning, with any set of values."""
    values = CASES / f"{name}.yaml"
    done = helm(major, "lint", "--strict", "--values", str(values), str(chart))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert b"[WARNING]" not in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_golden_files_are_what_helm_renders(name: str, chart: Path) -> None:
    """Helm 4 as it is, Helm 3 but for blank lines."""
    values = ("--values", str(CASES / f"{name}.yaml"))
    path = RENDERED / f"{name}.yaml"
    text = fresh() + template("4", chart, *values)
    stale = unsalted(path.read_text(encoding="utf-8")) != unsalted(text)
    if stale and os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert unsalted(path.read_text(encoding="utf-8")) == unsalted(text)
    assert documents(unsalted(template("3", chart, *values))) == documents(unsalted(text))


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("wrong", "key"),
    [("serviceMonitr.enabled=true", "serviceMonitr"), ("profile=root", "profile")],
)
def test_helm_refuses_a_typing_mistake(major: str, wrong: str, key: str, chart: Path) -> None:
    """By the schema of the values, with the name of the key."""
    done = helm(major, "template", "tocsin", str(chart), "--set", wrong)
    assert done.returncode != 0
    assert key in done.stderr.decode()


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("keeps", ["profile=full", "state.hostPath=/srv/tocsin"])
def test_two_agents_never_wait_for_each_other(major: str, keeps: str, chart: Path) -> None:
    """A surge with a folder of the node is refused: the rollout would stop at its first node."""
    surge = ("--set", "rollingUpdate.maxSurge=1,rollingUpdate.maxUnavailable=0")
    done = helm(major, "template", "tocsin", str(chart), *surge, "--set", keeps)
    assert done.returncode != 0
    assert "rollingUpdate.maxSurge" in done.stderr.decode()
    template(major, chart, *surge)


# deployment/values.yaml of dcgm-exporter 4.8.3: these keys, with its own defaults.
THEIRS = """\
config:
  enabled: false
  create: true
  name: ""
  key: config.yaml
  mountPath: /etc/dcgm-exporter/config.yaml
  data: "version: 1"
service: {webReadTimeout: 10s, webWriteTimeout: 30s}
debugDump: {enabled: true, directory: /tmp/dcgm-exporter-debug, retention: 24, compression: true}
"""


@pytest.mark.parametrize("major", MAJORS)
def test_values_of_dcgm_exporter_without_a_meaning_change_nothing(
    major: str, chart: Path, tmp_path: Path
) -> None:
    """Its own YAML that is off, its timeouts and its dumps: the same is rendered without them."""
    (tmp_path / "values.yaml").write_text(THEIRS)
    found = template(major, chart, "--values", str(tmp_path / "values.yaml"))
    assert documents(found) == documents(template(major, chart))


@pytest.mark.parametrize("major", MAJORS)
def test_its_own_yaml_is_refused_in_the_words_of_its_flag(
    major: str, chart: Path, tmp_path: Path
) -> None:
    """It may choose the counters: other series than asked for would be shown, silently."""
    (tmp_path / "values.yaml").write_text(THEIRS.replace("enabled: false", "enabled: true"))
    values = str(tmp_path / "values.yaml")
    done = helm(major, "template", "tocsin", str(chart), "--values", values)
    assert done.returncode != 0
    assert f"config.enabled: {CONFIG_FILE}" in done.stderr.decode()


def test_the_notes_name_values_without_effect(chart: Path, tmp_path: Path) -> None:
    """After an installation, and only where they are set; Helm 3 needs a cluster for that."""
    install = ("install", "tocsin", str(chart), "--dry-run=client")
    (tmp_path / "values.yaml").write_text(THEIRS)
    done = helm("4", *install, "--values", str(tmp_path / "values.yaml"))
    assert done.returncode == 0, done.stderr.decode()
    notes = done.stdout.decode().partition("NOTES:")[2]
    assert "debugDump has no effect" in notes
    assert "service.webReadTimeout and service.webWriteTimeout have no effect" in notes
    assert "no effect" not in helm("4", *install).stdout.decode().partition("NOTES:")[2]


@pytest.mark.parametrize("major", MAJORS)
def test_a_chart_that_was_not_packed_says_so(major: str) -> None:
    """Rules and dashboards come with `make chart`; without it their switch is refused."""
    for switch in ("prometheusRule", "dashboards"):
        done = helm(major, "template", "tocsin", str(CHART), "--set", f"{switch}.enabled=true")
        assert done.returncode != 0
        assert "take the chart that `make chart` packs" in done.stderr.decode()


@pytest.mark.parametrize("major", MAJORS)
def test_the_packed_chart_has_every_rule_and_dashboard(major: str, packed: Path) -> None:
    """And a release of it is small enough for the Secret that Helm stores it in."""
    text = template(
        major, packed, "--set", "prometheusRule.enabled=true", "--set", "dashboards.enabled=true"
    )
    found: list[Manifest] = documents(text)
    rules = yaml.safe_load((ROOT / "rules" / "kubernetes" / "tocsin.yaml").read_text())
    assert one(found, "PrometheusRule")["spec"] == rules["spec"]
    boards = {
        name: json.loads(board)
        for manifest in found
        if manifest["kind"] == "ConfigMap"
        for name, board in manifest["data"].items()
        if name.endswith(".json")
    }
    assert boards == {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in (ROOT / "dashboards").glob("*.json")
        if path.name != "dcgm.json"
    }
    chart = base64.b64encode(gzip.decompress(packed.read_bytes())).decode()
    release = gzip.compress(json.dumps({"manifest": text, "chart": chart}).encode())
    assert len(base64.b64encode(release)) < MAX_SECRET_BYTES
