"""A cell for every GPU and port: its state in a word, its numbers with their last minutes, and
what identifies the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.web import levels
from collector.web.affected import holder
from collector.web.levels import Level
from collector.web.page.icons import icon
from collector.web.page.markup import Html, el, join
from collector.web.page.spark import packed, spark
from collector.web.page.words import FIGURES, Figure, bits, upper
from collector.web.recent import BLOCKS, Past
from collector.web.verdict import names

NOTHING = np.zeros(0, np.float32)
Row = Mapping[str, Any]  # of the status document
Recently = Callable[[str, str], Past]  # kind and id of a device to its last minutes by column


def gpus(document: Mapping[str, Any], recently: Recently) -> Html:
    """The section of GPUs. The model is shown once where all are alike."""
    rows, called = document["gpus"], names(document)
    models = list(dict.fromkeys(row["name"] for row in rows))
    held = any(row["held_by"] for row in rows)
    cells = (
        _cell(
            called[row["id"]],
            " · ".join(
                [*([row["name"]] if len(models) > 1 else []), *([_holders(row)] if held else [])]
            ),
            row,
            levels.gpu(row, document),
            _figures("gpu", row, rows, recently),
        )
        for row in rows
    )
    alike = (
        f"{len(rows)} \N{MULTIPLICATION SIGN} {models[0]}" if len(models) == 1 else f"{len(rows)}"
    )
    return _section(
        "gpus",
        "GPUs",
        f"{alike} · lines: ten minutes, from zero to the limit",
        cells,
        "No GPU found.",
    )


def ports(document: Mapping[str, Any], recently: Recently) -> Html:
    """The section of ports."""
    rows, called = document["ports"], names(document)
    cells = (
        _cell(
            upper(called[row["id"]]),
            "no rate"
            if row["rate_bytes_per_second"] is None
            else bits(row["rate_bytes_per_second"]),
            row,
            levels.port(row, document),
            _figures("ib_port", row, rows, recently),
        )
        for row in rows
    )
    aside = f"{len(rows)} · lines: ten minutes, from zero to the rate of the link"
    return _section("ports", "InfiniBand and RoCE ports", aside, cells, "No port found.")


def _section(key: str, title: str, aside: str, cells: Iterable[Html], empty: str) -> Html:
    """A titled list of cells, or the words for none."""
    listed = join(*cells)
    head = el("h2", el("span", title, id=f"{key}-title"), el("small", aside) if listed else None)
    body = (
        el("ul", listed, class_="cells", role="list") if listed else el("p", empty, class_="empty")
    )
    return el("section", head, body, id=key, aria_labelledby=f"{key}-title")


def _cell(title: str, aside: str, row: Row, state: tuple[Level, str], figures: Html) -> Html:
    level, word = state
    return el(
        "li",
        el("h3", title, el("span", icon(level), word, class_="state")),
        el("p", aside, class_="aside", title=aside) if aside else None,
        figures,
        _scrub(title),
        _identity(row, title),
        class_="cell",
        data_level=level,
        id=f"cell-{row['id']}",
    )


def _holders(row: Row) -> str:
    return " · ".join(holder(held) for held in row["held_by"]) or "no job"


def _figures(kind: str, row: Row, alike: Sequence[Row], recently: Recently) -> Html:
    past = recently(kind, row["id"])
    drawn = (
        _figure(
            figure, row[figure.column], past.get(figure.column, NOTHING), _top(figure, row, alike)
        )
        for figure in FIGURES[kind]
    )
    return el("dl", *drawn, class_="figures")


def _scrub(title: str) -> Html:
    """What moves all charts of the page to another moment, for those who have no pointer."""
    return el(
        "input",
        type="range",
        class_="scrub",
        min="0",
        max=str(BLOCKS - 1),
        value=str(BLOCKS - 1),
        aria_label=f"Time in the charts of {title}",
        aria_valuetext="now",
    )


def _top(figure: Figure, row: Row, alike: Sequence[Row]) -> float | None:
    """The value of full height; for a device that reports none, such as a port without a link, the
    highest of its kind.
    """
    if isinstance(figure.top, float):
        return figure.top
    return (
        row[figure.top] or max((other[figure.top] or 0.0 for other in alike), default=0.0) or None
    )


def _figure(
    figure: Figure, value: float | None, past: NDArray[np.float32], top: float | None
) -> Html:
    now = "not read" if value is None else figure.write(value)
    return el(
        "div",
        el("dt", figure.title),
        el(
            "dd",
            spark(past, top, _range(figure, past)),
            class_="past",
            data_past=packed(past, figure.write),
            data_unit=figure.write(0.0).rpartition(" ")[2],
        ),
        el(
            "dd",
            el("span", now, class_="now"),
            el("span", class_="then"),
            class_="value missing" if value is None else "value",
        ),
    )


def _range(figure: Figure, past: NDArray[np.float32]) -> str:
    seen = past[np.isfinite(past)]
    if not seen.size:
        return "no data in the last ten minutes"
    return f"in the last ten minutes {figure.write(seen.min())} to {figure.write(seen.max())}"


def _identity(row: Row, title: str) -> Html:
    facts = {"id": row["id"], "model": row["name"], **row["facts"]}
    pairs = (
        el("div", el("dt", key.replace("_", " ")), el("dd", value)) for key, value in facts.items()
    )
    return el(
        "details",
        el("summary", "Identity", el("span", f" of {title}", class_="unseen")),
        el("dl", *pairs),
    )
