"""The question about links: InfiniBand ports, and the NVLinks that had errors."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.store.query.canned.question import base_of, last_of, named, names, risen
from pipeline.store.query.increase import WHO, increases
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

# Column of the answer to counters of a port and of an NVLink; where there are two, the 64-bit one
# counts on when the other sticks.
PORT = {
    "downed": ("link_downed",),
    "recoveries": ("link_error_recoveries",),
    "symbol_errors": ("symbol_errors",),
    "receive_errors": ("receive_errors",),
    "discards": ("transmit_discards",),
    "replays": (),
    "crc_errors": (),
}
NVLINK = {
    "downed": (),
    "recoveries": ("data_link_recovery_errors", "any_recoveries"),
    "symbol_errors": ("symbol_errors",),
    "receive_errors": ("receive_errors",),
    "discards": ("transmit_discard_errors",),
    "replays": ("data_link_replay_errors",),
    "crc_errors": ("data_link_crc_errors",),
}
TRAFFIC = (("receive_words", "received_bytes"), ("transmit_words", "sent_bytes"))


def links(store: Store, window: Window) -> pl.DataFrame:
    """Per port: state at the end, errors and traffic in the window; then each NVLink that
    had an error or is not up.
    """
    ports = _errors(store, window, "ib_port", PORT)
    counted = increases(store, "ib_port", [native for native, _ in TRAFFIC], window)
    ports = ports.join(base_of("ib_port", counted, TRAFFIC), on=WHO, how="left")
    nvlinks = _errors(store, window, "nvlink", NVLINK)
    wrong = pl.any_horizontal(pl.col(name).fill_null(0) > 0 for name in NVLINK) | (
        pl.col("state") != "up"
    )
    rows = pl.concat([ports, nvlinks.filter(wrong)], how="diagonal")
    return named(rows, names(store, window))


def draw_links(store: Store, window: Window) -> Sequence[Panel]:
    """Symbol errors, losses of the link and traffic of each port."""
    return [
        Panel("Symbol errors of ports", "", risen(store, "ib_port", ["symbol_errors"], window)),
        Panel(
            "Times a port's link went down", "", risen(store, "ib_port", ["link_downed"], window)
        ),
        Panel(
            "Data sent and received",
            "bytes",
            risen(store, "ib_port", [native for native, _ in TRAFFIC], window),
        ),
    ]


def _errors(
    store: Store, window: Window, kind: str, columns: dict[str, tuple[str, ...]]
) -> pl.DataFrame:
    rose = increases(
        store, kind, [name for natives in columns.values() for name in natives], window
    )
    missing = pl.lit(None, pl.UInt64)
    counts = [
        (pl.coalesce(natives) if natives else missing).alias(name)
        for name, natives in columns.items()
    ]
    state = store.collect(
        store.base(kind, window).group_by(WHO).agg(last_of("state").cast(pl.String))
    )
    if kind == "nvlink":  # 1 or 0, not a code
        state = state.with_columns(pl.col("state").replace({"1": "up", "0": "down"}))
    return (
        rose.select(*WHO, *counts)
        .join(state, on=WHO, how="left")
        .select(*WHO, pl.lit(kind).alias("kind"), "state", *columns)
    )
