"""What points at the dashboards finds them: alerts, and Grafana's own provisioning."""

from __future__ import annotations

import re

import pytest
import yaml

from rules.build import alerts
from rules.model import Alert
from tests.dashboards.panels import DASHBOARDS, FOLDER, panels
from tests.sources import ROOT


@pytest.mark.parametrize("alert", list(alerts()), ids=lambda alert: alert.name)
def test_an_alert_leads_to_a_panel_with_the_choices_that_it_makes(alert: Alert) -> None:
    """The dashboard exists, has the panel, and has the variables that the link sets."""
    found = re.match(
        r"https?://[^/]+/d/([\w-]+)\?viewPanel=(\d+)(.*)",
        alert.rule()["annotations"]["dashboard_url"],
    )
    assert found
    (board,) = (board for board in DASHBOARDS.values() if board["uid"] == found[1])
    assert int(found[2]) in [panel["id"] for panel in panels(board)]
    assert set(re.findall(r"&var-(\w+)=", found[3])) <= {
        variable["name"] for variable in board["templating"]["list"]
    }


def test_grafana_is_told_where_the_dashboards_and_prometheus_are() -> None:
    """The provisioning files name what docker-compose.yml mounts and starts."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    mounts = dict(mount.split(":")[:2] for mount in compose["services"]["grafana"]["volumes"])
    (provider,) = yaml.safe_load(
        (FOLDER / "provisioning" / "dashboards" / "tocsin.yaml").read_text()
    )["providers"]
    assert provider["options"]["path"] == mounts["./dashboards"]
    assert mounts["./dashboards/provisioning"] == "/etc/grafana/provisioning"
    (source,) = yaml.safe_load(
        (FOLDER / "provisioning" / "datasources" / "prometheus.yaml").read_text()
    )["datasources"]
    assert re.fullmatch(r"http://(\w+):\d+", source["url"])[1] in compose["services"]  # type: ignore[index] # a link of this form
