"""A cell for every GPU and port: its state in a word, its numbers with their last minutes, and what identifies the part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from collector.web import levels
from collector.web.levels import Level
from collector.web.page.icons import icon
from collector.web.page.markup import Html, el, join
from collector.web.page.spark import spark
from collector.web.page.words import FIGURES, Figure, bits, upper
from collector.web.verdict import names

Past = Mapping[str, Sequence[float | None]]  # the last minutes of a device by column
Recently = Callable[[str, str], Past]  # by kind and id of the device


def gpus(document: Mapping[str, Any], recently: Recently) -> Html:
    """The section of GPUs."""
    rows = document["gpus"]
    models = list(dict.fromkeys(row["name"] for row in rows))
    called = names(document)
    cells = (
        _cell(
            row,
            "gpu",
            recently("gpu", row["id"]),
            levels.gpu(row, document),
            title=called[row["id"]],
            aside=row["name"] if len(models) > 1 else None,
        )
        for row in rows
    )
    alike = f"{len(rows)} \N{MULTIPLICATION SIGN} {models[0]}" if len(models) == 1 else None
    return _section("gpus", "GPUs", alike, cells, "No GPU was seen.")


def ports(document: Mapping[str, Any], recently: Recently) -> Html:
    """The section of ports."""
    rows, called = document["ports"], names(document)
    cells = (
        _cell(
            row,
            "ib_port",
            recently("ib_port", row["id"]),
            levels.port(row, document),
            title=upper(called[row["id"]]),
            aside=_rate(row),
        )
        for row in rows
    )
    return _section("ports", "InfiniBand and RoCE ports", None, cells, "No port was seen.")


def _section(key: str, title: str, aside: str | None, cells: Iterable[Html], empty: str) -> Html:
    """A titled list of cells, or the words for none."""
    listed = join(*cells)
    head = el("h2", title, el("small", aside) if aside else None, id=f"{key}-title")
    body = el("ul", listed, class_="cells", role="list") if listed else el("p", empty, class_="empty")
    return el("section", head, body, id=key, aria_labelledby=f"{key}-title")


def _rate(row: Mapping[str, Any]) -> str | None:
    rate = row["rate_bytes_per_second"]
    return None if rate is None else bits(rate)


def _cell(row: Mapping[str, Any], kind: str, past: Past, said: tuple[Level, str], *, title: str, aside: str | None) -> Html:
    level, word = said
    head = el("h3", title, el("span", icon(level), word, class_="state"))
    figures = el("dl", *(_figure(figure, row, past.get(figure.column, ())) for figure in FIGURES[kind]), class_="figures")
    return el(
        "li",
        head,
        el("p", aside) if aside else None,
        figures,
        _identity(row, title),
        class_="cell",
        data_level=level,
        id=f"cell-{row['id']}",
    )


def _figure(figure: Figure, row: Mapping[str, Any], past: Sequence[float | None]) -> Html:
    value = row[figure.column]
    now = el("dd", "not read", class_="value missing") if value is None else el("dd", figure.write(value), class_="value")
    top = row[figure.top] if isinstance(figure.top, str) else figure.top
    return el("div", el("dt", figure.title), el("dd", spark(past, top, _range(figure, past)), class_="past"), now)


def _range(figure: Figure, past: Sequence[float | None]) -> str:
    seen = [value for value in past if value is not None]
    if not seen:
        return "nothing was read in the last ten minutes"
    return f"in the last ten minutes {figure.write(min(seen))} to {figure.write(max(seen))}"


def _identity(row: Mapping[str, Any], title: str) -> Html:
    facts = {"id": row["id"], "model": row["name"], **row["facts"]}
    pairs = (el("div", el("dt", key.replace("_", " ")), el("dd", value)) for key, value in facts.items())
    return el("details", el("summary", "Identity", el("span", f" of {title}", class_="unseen")), el("dl", *pairs))
