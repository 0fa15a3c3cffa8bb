"""Just enough of PromQL to say which series and which labels an expression names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_WORDS = {
    "and",
    "or",
    "unless",
    "by",
    "on",
    "without",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "bool",
    "inf",
    "nan",
}
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


class Selector(NamedTuple):
    """A series, and the labels that it is chosen by."""

    series: str
    labels: frozenset[str]


def selectors(expr: str) -> Iterator[Selector]:
    """Every selector.

    >>> list(selectors('rate(a_total{x="1"}[5m])'))
    [Selector(series='a_total', labels=frozenset({'x'}))]
    """
    for series, matchers in _SELECTOR.findall(expr):
        yield Selector(series, frozenset(_MATCHER.findall(matchers)))


def bare(expr: str) -> set[str]:
    """Words that are no selector, function, label, text or number: series that nobody
    chose by cluster and node.

    >>> bare('sum by (x) (a_total{x="1"} / up)')
    {'up'}
    """
    text = re.sub(r'"[^"]*"', "", _GROUPING.sub(" ", _SELECTOR.sub(" ", expr)))
    text = re.sub(r"\[[^\]]*\]|\$\w+|\b\d[\w.]*", " ", text)
    return set(re.findall(r"\b[a-zA-Z_][\w:]*\b(?!\s*\()", text)) - _WORDS


def grouped(expr: str) -> set[str]:
    """Labels that an expression groups or matches by."""
    return {
        label.strip()
        for found in _GROUPING.findall(expr)
        for label in found.split(",")
        if label.strip()
    }


def written(expr: str) -> set[str]:
    """Labels that an expression makes.

    >>> sorted(
    ...     written(
    ...         'label_join(label_replace(a{b="1"}, "host", "$1", "instance", "(.+)"), "cell", " ", "host")'
    ...     )
    ... )
    ['cell', 'host']
    """  # noqa: E501 - an example or a table
    return set(re.findall(r'"(\w+)",\s*"(?:\$\d| ?")', expr))
