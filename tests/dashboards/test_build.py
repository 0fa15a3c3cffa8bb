"""The committed files are what the rows say, and keep the house's rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dashboards import places
from dashboards.build import files
from dashboards.meaning import FAILED, LOOK, MEANT, SOON, UNKNOWN, WELL
from tests.dashboards.panels import DASHBOARDS, panels, targets

COLOURS = {WELL, LOOK, SOON, FAILED, MEANT, UNKNOWN, "text"}
PLACES = {name: value for name, value in vars(places).items() if isinstance(value, places.Place)}


each_dashboard = pytest.mark.parametrize("name", DASHBOARDS)


@pytest.mark.slow
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_committed_is_what_the_rows_say(path: Path) -> None:
    """JSON is made from the rows; `make dashboards` renews it."""
    assert path.read_text(encoding="utf-8") == files()[path]


def test_nothing_else_is_committed() -> None:
    """A dashboard that is not built any more is gone."""
    assert {path.name for path in files()} == {f"{name}.json" for name in DASHBOARDS}


@each_dashboard
def test_a_dashboard_says_which_question_it_answers(name: str) -> None:
    """One screen, one question, one address; not to be edited in Grafana, where the
    next start would undo it.
    """
    board = DASHBOARDS[name]
    assert board["description"].endswith("?")
    assert board["uid"] == f"tocsin-{name}"
    assert board["editable"] is False
    assert board["schemaVersion"] == 42


@each_dashboard
def test_panels_have_numbers_and_titles_of_their_own_and_do_not_overlap(name: str) -> None:
    """No two panels of one number, of one title or on one spot."""
    board = DASHBOARDS[name]
    assert max(Counter(panel["title"] for panel in panels(board)).values()) == 1
    assert max(Counter(panel["id"] for panel in board["panels"]).values()) == 1
    cells = [
        {(x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])}
        for p in _spots(board)
    ]
    assert not any(one & other for one, other in combinations(cells, 2))
    assert all(x < 24 for cell in cells for x, _ in cell)


def _spots(board: dict[str, Any]) -> list[dict[str, int]]:
    """Grafana leaves out what is 0."""
    return [{"x": 0, "y": 0, **panel["gridPos"]} for panel in board["panels"]]


@each_dashboard
def test_a_panel_explains_itself(name: str) -> None:
    """Title, a sentence, a unit, and words for the case that nothing is known."""
    for panel in panels(DASHBOARDS[name]):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["title"]
        assert panel["description"].rstrip().endswith(".")
        assert defaults["unit"]
        assert defaults["noValue"]


@each_dashboard
def test_colours_have_one_meaning(name: str) -> None:
    """Thresholds and states use the colours of the legend of meanings and no other."""
    for panel in panels(DASHBOARDS[name]):
        defaults = panel["fieldConfig"]["defaults"]
        used = {step["color"] for step in defaults["thresholds"]["steps"]}
        used |= {
            result["color"]
            for mapping in defaults.get("mappings", [])
            for result in mapping["options"].values()
        }
        assert used <= COLOURS


@each_dashboard
def test_severity_record_is_called_info(name: str) -> None:
    """In the columns of tables and in legends; queries have the label's value."""
    for panel in panels(DASHBOARDS[name]):
        for override in panel["fieldConfig"].get("overrides", ()):
            given = {one["id"]: one["value"] for one in override["properties"]}
            for mapping in given.get("mappings", ()):
                states = mapping["options"].values()
                assert "record" not in {state["text"] for state in states}
            if override["matcher"]["options"] == "record":
                assert given["displayName"] == "info"


@each_dashboard
def test_missing_data_is_not_made_up(name: str) -> None:
    """No constant stands in for an answer: a zero comes from a series that
    says that somebody looked.
    """
    for panel in panels(DASHBOARDS[name]):
        for target in panel["targets"]:
            assert not re.search(r"\b(vector|absent|scalar)\s*\(", target["expr"])


@each_dashboard
def test_links_lead_to_dashboards_and_variables_that_exist(name: str) -> None:
    """A click never ends at nothing."""
    by_uid = {board["uid"]: board for board in DASHBOARDS.values()}
    for url in (url for panel in panels(DASHBOARDS[name]) for url in _urls(panel)):
        found = re.fullmatch(r"/d/([\w-]+)\?(.*)", url)
        assert found, url
        variables = {variable["name"] for variable in by_uid[found[1]]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", found[2])) <= variables


def _urls(part: object) -> Iterator[str]:
    """Every link below a part of a dashboard."""
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "url")
        yield from (url for value in part.values() for url in _urls(value))
    elif isinstance(part, list):
        yield from (url for value in part for url in _urls(value))


def test_fleet_leads_to_nodes_and_gpus() -> None:
    """From the whole to the one that is to blame, in one click."""
    assert {url.split("?")[0] for url in _urls(DASHBOARDS["fleet"]["panels"])} == {
        "/d/tocsin-node",
        "/d/tocsin-gpu",
    }


def test_rates_look_back_as_far_as_the_picture_is_coarse() -> None:
    """Per second over the step of the picture: a fixed look-back would skip what falls between
    two points, or be empty.
    """
    for target in targets():
        for lookback in re.findall(r"(?<!_)rate\([^\[]*\[([^\]]*)\]", target.expr):
            assert lookback == "$__rate_interval" or lookback in {"5m", "1h"}, target


def test_what_happened_between_two_points_of_a_coarse_picture_is_shown() -> None:
    """A picture of a week has a point every quarter of an hour: what is counted in it is counted
    since the point before, or for longer than two points are apart.
    """
    pictures = [
        (board["title"], panel["title"], each["expr"])
        for board in DASHBOARDS.values()
        for panel in panels(board)
        if panel["type"] == "timeseries"
        for each in panel["targets"]
    ]
    for title, panel, expr in pictures:
        for span in re.findall(r"increase\([^\[]*\[([^\]]*)\]|offset ([$\w]+)", expr):
            assert "".join(span) in {"$__rate_interval", "1h", "1d"}, (title, panel)


def test_every_exporter_of_the_dashboard_without_agents_can_be_chosen() -> None:
    """Ports have another instance than GPUs, and alerts about them link to it."""
    variables = {each["name"]: each for each in DASHBOARDS["dcgm"]["templating"]["list"]}
    asked = variables["instance"]["query"]["query"]
    for series in ("DCGM_FI_DEV_GPU_TEMP", "node_infiniband_state_id"):
        assert re.search(rf"[|\"]{series}[|\"]", asked), series


@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_one_panel(name: str) -> None:
    """What alerts point at is there, once, under the number that never changes."""
    place = PLACES[name]
    (board,) = (board for board in DASHBOARDS.values() if board["uid"] == place.uid)
    assert [panel["id"] for panel in panels(board)].count(place.id) == 1
