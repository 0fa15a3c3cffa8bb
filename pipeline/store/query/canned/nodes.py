"""Questions about nodes and their agents: what there is, what was read, where nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from pipeline.clock import SECOND_NS
from pipeline.store.files.units import divided
from pipeline.store.query.canned.question import Names, names
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

MAX_PERIODS = 3  # without a good read for longer than this is a gap
OUTCOMES = ("ok", "failed", "overdue")


def reads(store: Store, window: Window) -> pl.DataFrame:
    """Per source: reads by outcome, how long they took, reads in which something could not be
    read, and the last error.
    """
    took = divided(pl.col("duration_ns"), SECOND_NS)
    return store.collect(
        _reads(store, window)
        .group_by("host", "source")
        .agg(
            pl.len().cast(pl.Int64).alias("reads"),
            *(
                (pl.col("outcome") == outcome).sum().cast(pl.Int64).alias(outcome)
                for outcome in OUTCOMES
            ),
            (pl.col("unread") != "[]").sum().cast(pl.Int64).alias("with_unread"),
            took.mean().alias("mean_seconds"),
            took.quantile(0.99, "nearest").alias("p99_seconds"),
            took.max().alias("maximum_seconds"),
            pl.col("error")
            .filter(pl.col("error") != "")
            .sort_by(pl.col("time").filter(pl.col("error") != ""))
            .last()
            .alias("last_error"),
        )
        .sort("host", "source")
    )


def draw_reads(store: Store, window: Window) -> Sequence[Panel]:
    """How long reads of each source took."""
    rows = _reads(store, window).group_by(
        pl.col("time").dt.truncate("1m"), pl.col("source").alias("name")
    )
    return [
        Panel(
            "Duration of reads, mean of a minute",
            "seconds",
            store.collect(rows.agg((pl.col("duration_ns") / 1e9).mean().alias("value"))),
        )
    ]


def gaps(store: Store, window: Window) -> pl.DataFrame:
    """Spans in which a source gave nothing for more than three of its periods: from the last good
    read to the next, and why. One that lasts has no end, and counts to the last read that failed;
    one that began before the window counts from the first of them in it.
    """
    asked = _reads(store, window).select("time", "host", "boot_id", "source", "outcome", "error")
    rows = store.collect(asked).sort("host", "source", "time")
    found = [
        gap
        for (host, source), part in rows.group_by("host", "source", maintain_order=True)
        for gap in _gaps(str(host), str(source), part)
    ]
    moment = pl.Datetime("us", "UTC")
    columns: dict[str, Any] = {
        "host": pl.String,
        "source": pl.String,
        "from": moment,
        "until": moment,
        "seconds": pl.Float64,
        "why": pl.String,
    }
    return pl.DataFrame(found, schema=columns, orient="row").sort("from", "host", "source")


def draw_gaps(store: Store, window: Window) -> Sequence[Panel]:
    """Length of each gap where it begins."""
    rows = gaps(store, window).select(
        pl.col("from").alias("time"),
        pl.col("source").alias("name"),
        pl.col("seconds").alias("value"),
    )
    return [Panel("Gaps", "seconds", rows, dots=True)]


def nodes(store: Store, window: Window) -> pl.DataFrame:
    """Per node: since when and until when it was read, boots, and what is in it."""
    seen = store.collect(
        _reads(store, window)
        .group_by("host")
        .agg(
            pl.col("time").min().alias("first"),
            pl.col("time").max().alias("last"),
            pl.col("boot_id").n_unique().cast(pl.Int64).alias("boots"),
        )
        .sort("host")
    )
    known = names(store, window)
    parts = [_parts(known, host) for host in seen["host"]]
    columns = ("gpus", "gpu_model", "driver", "ib_ports", "ib_firmware", "kernel", "product")
    return seen.with_columns(
        pl.Series(name, [part[name] for part in parts], pl.Int64 if name in COUNTS else pl.String)
        for name in columns
    )


COUNTS = ("gpus", "ib_ports")


def draw_nodes(store: Store, window: Window) -> Sequence[Panel]:
    """Reads per minute of each node: whether it was there."""
    rows = _reads(store, window).group_by(
        pl.col("time").dt.truncate("1m"), pl.col("host").alias("name")
    )
    return [
        Panel(
            "Reads of a minute",
            "",
            store.collect(rows.agg(pl.len().cast(pl.Float64).alias("value"))),
        )
    ]


def _reads(store: Store, window: Window) -> pl.LazyFrame:
    return store.table("reads", Window(window.since, window.until))


def _gaps(
    host: str, source: str, rows: pl.DataFrame
) -> Iterator[tuple[str, str, datetime, datetime | None, float, str]]:
    good = rows.filter(pl.col("outcome") == "ok")
    steps = (good if len(good) > 1 else rows)["time"].diff().drop_nulls()
    if steps.is_empty():
        return
    usual = steps.median()
    assert isinstance(usual, timedelta)  # noqa: S101 - of durations
    ends = pl.int_range(pl.len()).is_in([0, len(rows) - 1])  # of the window, where reads failed
    before = pl.col("time").shift(1).alias("from")
    wide = (
        rows.filter((pl.col("outcome") == "ok") | ends)
        .with_columns(before, pl.col("boot_id").shift(1).alias("boot"))
        .filter(pl.col("time") - pl.col("from") > MAX_PERIODS * usual)
    )
    for row in wide.iter_rows(named=True):
        within = pl.col("time").is_between(row["from"], row["time"])
        bad = rows.filter(within & (pl.col("outcome") != "ok"))
        ended = row["outcome"] == "ok"
        why = "boot" if ended and row["boot"] != row["boot_id"] else _why(bad)
        yield (
            host,
            source,
            row["from"],
            row["time"] if ended else None,
            (row["time"] - row["from"]).total_seconds(),
            why,
        )


def _why(bad: pl.DataFrame) -> str:
    """What was tried in a gap."""
    if bad.is_empty():
        return "not read"
    error = str(bad["error"][-1])
    return f"{bad['outcome'][-1]}: {error}" if error else str(bad["outcome"][-1])


def _parts(known: Names, host: str) -> dict[str, str | int]:
    """What is in a node, by the slow facts of its devices; several values of a fact with commas."""

    def of(kind: str, fact: str) -> str:
        values = {
            facts.get(fact, "")
            for who, facts in known.facts.items()
            if who[0] == host and known.kinds[who] == kind
        }
        return ", ".join(sorted(values - {""}))

    def count(kind: str) -> int:
        return sum(who[0] == host and known.kinds[who] == kind for who in known.facts)

    return {
        "gpus": count("gpu"),
        "gpu_model": of("gpu", "name"),
        "driver": of("gpu", "driver_version"),
        "ib_ports": count("ib_port"),
        "ib_firmware": of("ib_port", "firmware"),
        "kernel": of("node", "kernel"),
        "product": of("node", "product"),
    }
