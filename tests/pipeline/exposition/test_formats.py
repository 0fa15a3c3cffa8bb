"""Content negotiation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.exposition import OPENMETRICS, TEXT, TEXT_1, Format, accepts_gzip, negotiate

# What the servers send: scrape/scrape.go of Prometheus 2.42 and 3.5, client_golang,
# VictoriaMetrics' lib/promscrape.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/"
    "openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/"
    "plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
TEXT_ONLY = (
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
)
VICTORIA = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        (TEXT_ONLY, TEXT_1),
        (VICTORIA, TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=2.0.0, text/plain", TEXT),
        ("application/openmetrics-text; version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", TEXT),
        ("application/openmetrics-text;q=0, */*", TEXT),
        ("text/*;q=0.5, application/openmetrics-text;version=1.0.0;q=0.4", TEXT),
        ("APPLICATION/OpenMetrics-Text;Version=1.0.0", OPENMETRICS),
        ('application/openmetrics-text;version="1.0.0"', OPENMETRICS),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily", TEXT),
        ("text/plain;q=nan", TEXT),
        ("text/plain;version=1.0.0;q=2, text/plain;version=0.0.4", TEXT),
        (";;;,,,", TEXT),
    ],
)
def test_the_weights_decide(accept: str, form: Format) -> None:
    """The offer with the highest q-value wins, the more exact range decides its q; what nobody
    offers becomes text 0.0.4.
    """
    assert negotiate(accept) is form


@pytest.mark.slow
@given(st.text())
def test_any_header_is_answered(header: str) -> None:
    """Junk gets a format, never an error."""
    assert negotiate(header) in (TEXT, TEXT_1, OPENMETRICS)
    assert accepts_gzip(header) in (True, False)
