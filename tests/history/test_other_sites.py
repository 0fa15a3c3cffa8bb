"""Sites that are not one Prometheus at the root of a host: behind a proxy, of several clusters, of
tenants, with names of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from history.importing import bring, find
from history.meaning.labels import LabelMap, read
from history.renamed import renamed
from history.site import export, queries, remote_read, streamed
from history.site.http import Http
from history.site.open import site_of
from history.site.series import Series, SiteError
from tests.history.recorded import Recorded, prometheus, victoria
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes
from tests.history.test_sites import JSON, answering, plain
from tests.parts import VERSIONS

pytestmark = pytest.mark.slow

HOUR = (BEGIN_MS, BEGIN_MS + HOUR_MS)
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture(scope="module")
def clusters() -> Recorded:
    """Two clusters in one store, whose nodes have the same names."""
    site = Recorded()
    for cluster in ("east", "west"):
        node(site, "n1", scrapes(*HOUR), gpus=1 + (cluster == "west"), cluster=cluster)
    return site


def of_east(found: list[Series]) -> bool:
    """Whether all series are of one cluster, and there are some."""
    return {one.labels.get("cluster") for one in found} == {"east"}


@pytest.mark.integration
def test_a_prometheus_behind_a_path_with_external_labels_is_read_as_any(
    clusters: Recorded, tmp_path: Path
) -> None:
    """A proxy's path, and labels that it adds to all it answers; of one of its clusters alone."""
    config = "{external_labels: {region: eu, prometheus_replica: p-0}}"
    options = ["--web.route-prefix=/prometheus"]
    with prometheus(clusters, tmp_path, VERSIONS["oldest"], options, config) as url:
        assert url.endswith("/prometheus")
        http = Http(f"{url}/", headers={"X-Scope-OrgID": "team"}, only={"cluster": "east"})
        site = site_of(http, HOUR[1])
        assert "streamed" in site.how
        for way in (streamed, remote_read, queries):
            assert of_east(list(way.read(http, TEMPERATURE, *HOUR)))
        done = bring(site, find(site, *HOUR, None), tmp_path / "store", HOUR)
        assert done.account.conflicts == 0
        assert {host: len(one.gpus) for host, one in done.hosts.items()} == {"n1": 1}


@pytest.mark.integration
def test_an_export_below_a_tenants_path_is_read_as_any(clusters: Recorded, tmp_path: Path) -> None:
    """As VictoriaMetrics' cluster has it: /select/TENANT/prometheus."""
    with victoria(clusters, tmp_path, "/select/7/prometheus") as url:
        http = Http(url, only={"cluster": "east"})
        site = site_of(http, HOUR[1])
        assert "by export" in site.how
        assert of_east(list(export.read(http, TEMPERATURE, *HOUR)))
        every = plain(export.read(Http(url), TEMPERATURE, *HOUR))
        assert every == plain(clusters.read(TEMPERATURE, *HOUR))


def test_a_tenants_header_and_thanos_own_parameters_are_in_every_question() -> None:
    """Of replicas one, all stores or an error, raw samples."""
    empty = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
    with answering((200, JSON, empty)) as (url, asked):
        http = Http(f"{url}/thanos", headers={"X-Scope-OrgID": "team"}, only={"cluster": "a"})
        list(queries.read(http, TEMPERATURE, *HOUR))
    path, headers = asked[0]
    assert path.startswith("/thanos/api/v1/query?")
    assert headers["X-Scope-OrgID"] == "team"
    for words in ("dedup=true", "partial_response=false", "max_source_resolution=0s", "cluster"):
        assert words in path


@pytest.mark.parametrize(
    "more", [{"isPartial": True}, {"warnings": ["store 10.0.0.7: connection refused"]}]
)
def test_a_partial_answer_is_an_error_never_a_history(more: dict[str, Any]) -> None:
    """A storage node or a store that is away."""
    body = {"status": "success", "data": {"resultType": "matrix", "result": []}} | more
    with (
        answering((200, JSON, json.dumps(body).encode())) as (url, _),
        pytest.raises(SiteError, match="partial"),
    ):
        list(queries.read(Http(url), TEMPERATURE, *HOUR))


def test_a_time_before_all_stores_of_a_thanos_is_empty_and_no_partial_answer() -> None:
    """90 days are asked for where stores keep 30: the first hours have nothing."""
    warned = {"warnings": ["No StoreAPIs matched for this query"] * 2}
    body = {"status": "success", "data": {"resultType": "matrix", "result": []}, **warned}
    with answering((200, JSON, json.dumps(body).encode())) as (url, _):
        assert list(queries.read(Http(url), TEMPERATURE, *HOUR)) == []


def test_metrics_under_other_names_are_taken_as_a_mapping_says(tmp_path: Path) -> None:
    """The file may say no more than that: what names nodes is proposed as ever."""
    site = Recorded()
    pairs = [(ms, 40.0 + i % 3) for i, ms in enumerate(scrapes(*HOUR))]
    own = gpu_labels("n1", 0)
    site.add("prod_DCGM_FI_DEV_GPU_TEMP", own, pairs)
    site.add("gpu:power:raw", own, [(ms, 300.0) for ms, _ in pairs])
    with pytest.raises(SiteError, match="is prod_DCGM_FI_DEV_GPU_TEMP what"):
        find(site, *HOUR, None)
    file = tmp_path / "mapping.yaml"
    file.write_text(
        "metrics:\n"
        "  prod_DCGM_FI_DEV_GPU_TEMP: DCGM_FI_DEV_GPU_TEMP\n"
        "  'gpu:power:raw': DCGM_FI_DEV_POWER_USAGE\n"
    )
    found = find(site, *HOUR, read(file))
    assert found.labels != LabelMap()
    account = bring(site, found, tmp_path / "store", HOUR).account
    assert account.columns == {
        ("gpu", "temperature_celsius"): len(pairs),
        ("gpu", "power_milliwatts"): len(pairs),
    }


def test_samples_without_a_value_are_counted_under_another_name_too() -> None:
    """As many as the site gave."""
    site = Recorded()
    site.add("gpu:temp", gpu_labels("n1", 0), [(BEGIN_MS, float("nan")), (BEGIN_MS + 1, 50.0)])
    named = renamed(site, LabelMap(metrics={"gpu:temp": TEMPERATURE}))
    (one,) = named.read(TEMPERATURE, *HOUR)
    assert (one.name, one.blanks, one.values.tolist()) == (TEMPERATURE, 1, [50.0])
