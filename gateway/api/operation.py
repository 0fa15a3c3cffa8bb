"""An operation of the API: its path, what it takes, what it answers, and what makes the answer.

The registry of operations is the only list of them: the server's routes, the OpenAPI document and
the page in docs/ are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collector.config.links import Links
from gateway.api.parameters import Parameter, Values
from gateway.api.schema import Schema
from gateway.job_history.ask import Form
from gateway.job_history.runs import Runs
from gateway.model import Cluster


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What answers are made from: the cluster of one instant, and the name it is known by.
    ``runs`` are of jobs in the store.
    ``present``: whether it is of now; not while a gateway that started reads the last hour.
    """

    name: str
    cluster: Cluster
    links: Links = field(default_factory=Links)
    present: bool = True
    runs: Runs = field(default_factory=Runs)


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body: JSON of at most ``max_bytes``."""

    schema: Schema
    max_bytes: int
    example: Mapping[str, Any]


# Makes the answer, which orjson takes, from a view, the parameters and the body (None without one).
Handler = Callable[[View, Values, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One of them.

    ``handler`` runs in the API's own thread; None: the server itself answers (the event stream).
    ``version``: a text that differs where the answer does, for ETag. ``refusals``: statuses of
    this operation's own, with the reason. ``tenants``: whether it answers a user who sees a part of
    the cluster, from that part (gateway/api/part.py); else such are refused. ``form``: the handler
    finds a run, and its page is made so by a process of its own.
    """

    id: str
    path: str
    summary: str
    text: str
    answer: Schema
    handler: Handler | None
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    version: Callable[[View, Values], str] | None = None
    refusals: Mapping[int, str] = field(default_factory=dict)
    media: str = "application/json"
    tenants: bool = False
    form: Form | None = None
