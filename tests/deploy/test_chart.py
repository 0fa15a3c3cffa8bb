"""What Helm renders of the chart (tests/golden/chart; test_helm.py renders it again)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from collector.cli.main import parser
from collector.config.web import settings as web_config
from tests.deploy.manifests import golden, manifests, one
from tests.deploy.test_kubernetes import FOREIGN, VERSIONS
from tests.sources import ROOT

pytestmark = pytest.mark.slow  # the validator takes two seconds to import

CHART = ROOT / "deploy" / "helm" / "tocsin"
CASES = ROOT / "tests" / "deploy" / "chart"
RENDERED = ROOT / "tests" / "golden" / "chart"
NAMES = sorted(path.stem for path in CASES.glob("*.yaml"))


def values() -> dict[str, Any]:
    """The chart's defaults."""
    read: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return read


def rendered(name: str) -> list[dict[str, Any]]:
    """What the chart renders for a case."""
    return manifests(RENDERED / f"{name}.yaml")


def template(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod of the DaemonSet, without what a chart names after its release."""
    spec = one(found, "DaemonSet")["spec"]["template"]["spec"]
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        container.pop("imagePullPolicy", None)
        assert container.pop("image") == "tocsin:0.1.0"
        container.get("env", []).sort(key=lambda entry: str(entry["name"]))
        container["volumeMounts"].sort(key=lambda mount: str(mount["name"]))
    for volume in spec["volumes"]:
        if volume["name"] == "config":
            volume["configMap"] = {}
    spec["volumes"].sort(key=lambda volume: str(volume["name"]))
    return dict(spec)


def plain(folder: str) -> dict[str, Any]:
    """The same of the plain manifests."""
    return template(golden(folder))


def test_the_rendered_chart_is_fresh() -> None:
    """Chart and cases are those that were rendered last, also where there is no Helm to tell."""
    files = sorted(
        [*CHART.rglob("*"), *CASES.rglob("*")],
        key=lambda path: str(path.relative_to(ROOT)).encode(),
    )
    digest = hashlib.sha256(
        b"".join(path.read_bytes() for path in files if path.is_file())
    ).hexdigest()
    firsts = {
        (RENDERED / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0] for name in NAMES
    }
    assert firsts == {f"# Rendered by Helm from {digest}"}, (
        "stale: TOCSIN_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/deploy/test_helm.py"
    )


@pytest.mark.parametrize(
    ("name", "folder"), [("default", "base"), ("full", "full-with-conditions")]
)
def test_the_chart_says_what_the_plain_manifests_say(name: str, folder: str) -> None:
    """One source of truth: whichever way it is installed, the same pod runs."""
    assert template(rendered(name)) == plain(folder)


@pytest.mark.parametrize("kind", ["Role", "ClusterRole", "ValidatingAdmissionPolicy"])
def test_the_chart_allows_what_the_plain_manifests_allow(kind: str) -> None:
    """Rights on the API server are the same by both ways."""
    ours, theirs = (
        one(found, kind) for found in (rendered("full"), golden("full-with-conditions"))
    )
    assert (ours.get("rules"), ours.get("spec")) == (theirs.get("rules"), theirs.get("spec"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_rendered_keeps_to_the_schemas(name: str, version: str) -> None:
    """No unknown key and no wrong type, whatever is switched on."""
    for manifest in rendered(name):
        if manifest["kind"] not in FOREIGN | {"PrometheusRule"}:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_takes_the_arguments(name: str) -> None:
    """Its own and dcgm-exporter's."""
    parser().parse_args(
        one(rendered(name), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]["args"]
    )


def test_the_web_configuration_is_one_that_the_agent_reads() -> None:
    """TLS, client certificates and passwords of the values become the file
    of Prometheus' exporters.
    """
    (secret,) = [
        m for m in rendered("everything") if m["kind"] == "Secret" and "web.yml" in m["stringData"]
    ]
    found = web_config.parse(secret["stringData"]["web.yml"].encode(), "web.yml")
    assert found.tls_server_config is not None
    assert found.tls_server_config.client_auth_type == "RequireAndVerifyClientCert"
    assert found.tls_server_config.client_allowed_sans == ("prometheus",)
    assert list(found.basic_auth_users or {}) == ["prometheus"]


def test_rules_and_dashboards_are_put_in_unchanged() -> None:
    """Prometheus' and Grafana's own braces are none of Helm's."""
    found = rendered("everything")
    rule = one(found, "PrometheusRule")["spec"]["groups"][0]["rules"][0]
    assert rule["annotations"]["summary"] == "{{ $value }}"
    boards = [
        m
        for m in found
        if m["kind"] == "ConfigMap" and m["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    assert [json.loads(text) for board in boards for text in board["data"].values()] == [
        {"title": "Fleet"}
    ]


def test_defaults_and_cases_keep_to_the_schema_of_the_values() -> None:
    """Helm checks values against it before it renders anything."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    for read in (
        values(),
        *(yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in CASES.glob("*.yaml")),
    ):
        jsonschema.validate(read, schema)


@pytest.mark.parametrize(
    "wrong", [{"serviceMonitr": {}}, {"serviceMonitor": {"enable": True}}, {"profile": "root"}]
)
def test_a_typing_mistake_in_the_values_is_refused(wrong: dict[str, Any]) -> None:
    """A key that nobody reads would switch something off, silently."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_keys_of_dcgm_exporters_chart_are_keys_here() -> None:
    """A values file for dcgm-exporter keeps its meaning."""
    keys = (
        (ROOT / "tests" / "deploy" / "dcgm_exporter_values.txt")
        .read_text(encoding="utf-8")
        .splitlines()[1:]
    )
    ours = set(paths(values()))
    assert [key for key in keys if key not in ours] == []


def paths(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    """Every key of a tree with its path."""
    for key, below in tree.items():
        yield above + key
        if isinstance(below, dict):
            yield from paths(below, f"{above}{key}.")


def test_templates_and_values_know_the_same_keys() -> None:
    """No template reads a key that has no default, and no key is there for nothing."""
    text = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())
    read = {name.split(".")[0] for name in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    assert read == values().keys()
