"""``tocsin jobs``: the jobs that hold GPUs, of this node or, from a gateway, of the cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from collector import client
from collector.cli import terminal
from collector.config.raw_setting import ConfigError

NAME = "jobs"
USAGE = (
    "jobs [--agent URL | --gateway URL [--ended]] [--all] [--format text|json] [--ca FILE] "
    "[--cert FILE --key FILE] [--password-file FILE]"
)
HELP = "List jobs with their GPUs and incidents: your own on this node, or what a gateway shows."
EXAMPLE = """\
Examples:
  tocsin jobs                      (your jobs on this node)
  tocsin jobs --all                (every job and pod on this node)
  tocsin jobs --gateway https://tocsin.example.com:9401 --password-file ~/.tocsin
  tocsin jobs --gateway http://127.0.0.1:9401 --format json | jq .[].id
  tocsin jobs --gateway http://127.0.0.1:9401 --ended   (of the last 30 days)

The agent's page names the user that Slurm started a job for; pods have none, and are listed with
--all. The gateway shows what the user of --password-file may see: `web.tenants`, docs/security.md."""  # noqa: E501 - as it is printed

AGENT = "http://127.0.0.1:9400"
DEADLINE_S = 10.0
MAX_BYTES = 16 << 20  # of one answer
PAGE, MAX_PAGES = 1000, 100
MAX_CELL = 512  # of a cell: a name of Kubernetes is 253 at most, 20 ids of incidents 340
HEAD = ("job", "owner", "name", "state", "gpus", "nodes", "incidents")
KEYS = ("id", *HEAD[1:])
STATES = ("running", "slow", "crawl", "suspect", "stalled")  # the worst last
RIGHT = (False, False, False, False, True, True, False)
ENDED_HEAD = ("job", "run", "owner", "name", "begin", "end", "gpus", "nodes")
ENDED_RIGHT = (False, True, False, False, False, False, True, True)

Row = Mapping[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, for whose jobs, and how to print them."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--agent", default=AGENT, metavar="URL", help=f"the agent's page (default: {AGENT})"
    )
    where.add_argument(
        "--gateway", default="", metavar="URL", help="ask a gateway, for the whole cluster"
    )
    parser.add_argument("--all", action="store_true", help="other users' jobs on this node too")
    parser.add_argument(
        "--ended", action="store_true", help="jobs that are over, as the gateway's store has them"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="text (default) or json"
    )
    client.options(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and print; 1 where there is no answer."""
    if args.gateway and args.all:
        raise ConfigError("--all: is for a node; a gateway shows all that you may see")
    if args.ended and not args.gateway:
        raise ConfigError("--ended: needs --gateway; tocsin explain job reads the store of a node")
    who = client.access(args)
    if args.gateway.startswith("http://") and who.login_file:
        raise ConfigError("--password-file: is sent to https:// alone")

    def ask(path: str) -> Any:
        url = (args.gateway or args.agent).rstrip("/") + path
        return json.loads(client.get(url, who, timeout_s=DEADLINE_S, max_bytes=MAX_BYTES))

    try:
        if args.ended:
            rows = list(_pages(ask, "/api/v1/jobs/ended", ("id", *ENDED_HEAD[1:], "seconds")))
        else:
            rows = list(_of_cluster(ask) if args.gateway else _of_node(ask, every=args.all))
    except (OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    except (KeyError, TypeError, AttributeError) as error:
        print(f"tocsin: not an answer of Tocsin: {error!r}", file=sys.stderr)
        return 1
    if args.format == "json":
        print(json.dumps(rows, indent=2))
    elif rows and args.ended:
        cells = [_texts(row["id"], *(row[name] for name in ENDED_HEAD[1:])) for row in rows]
        sys.stdout.writelines(terminal.table(ENDED_HEAD, cells, ENDED_RIGHT))
    elif rows:
        sys.stdout.writelines(terminal.table(HEAD, [_cells(row) for row in rows], RIGHT))
    else:
        print("no jobs" if args.all or args.gateway else "no jobs of yours; --all lists all")
    return 0


def _of_cluster(ask: Callable[[str], Any]) -> Iterator[Row]:
    return _pages(ask, "/api/v1/jobs", KEYS)


def _pages(ask: Callable[[str], Any], path: str, keys: Sequence[str]) -> Iterator[Row]:
    """Every page."""
    cursor: str | None = ""
    for _ in range(MAX_PAGES):
        query = {"limit": PAGE} | ({"cursor": cursor} if cursor else {})
        answer = ask(f"{path}?{urlencode(query)}")
        for row in answer["jobs"]:
            yield {name: row[name] for name in keys}
        cursor = answer["next"]
        if not cursor:
            return


def _of_node(ask: Callable[[str], Any], *, every: bool) -> Iterator[Row]:
    """From the page of an agent: whose a job is says the agent, not the job."""
    status = ask("/api/v1/status")
    states = _states(status["jobs"])
    mine = {f"user:{name}" for name in _me()}
    parts: dict[str, list[tuple[str, Row]]] = {}
    for gpu in status["gpus"]:
        for by in gpu["held_by"]:
            parts.setdefault(_name(by), []).append((gpu["id"], by))
    for job, its in parts.items():
        gpus = {gpu for gpu, _ in its}
        owners = {owner for _, by in its if (owner := _owner(by))}
        owner = owners.pop() if len(owners) == 1 else ""
        if every or owner in mine:
            yield {
                "id": job,
                "owner": owner,
                "name": next((by["job_name"] for _, by in its if "job_name" in by), ""),
                "state": states.get(job, "running"),
                "gpus": len(gpus),
                "nodes": [status["host"]],
                "incidents": [
                    one["id"]
                    for one in status["incidents"]
                    if gpus.intersection(one["gpus_affected"])
                ],
            }


def _states(jobs: Sequence[Row]) -> dict[str, str]:
    """By job without Slurm's step, as who holds a GPU is called: the worst of its steps."""
    from pipeline.job_names import base  # noqa: PLC0415 - as the others here

    rank = {state: number for number, state in enumerate(STATES)}
    worst_last = sorted(jobs, key=lambda job: rank.get(job["state"], 0))
    return {base(str(job["job"])): str(job["state"]) for job in worst_last}


def _name(by: Row) -> str:
    return str(by["job"] if "job" in by else f"{by.get('namespace', '')}/{by.get('pod', '')}")


def _owner(by: Row) -> str:
    """As the gateway has it. The prolog's file names no user."""
    kind = "namespace" if by.get("scheduler") == "kubernetes" else "user"
    return f"{kind}:{by[kind]}" if by.get(kind) else ""


def _me() -> tuple[str, ...]:
    """Name and number of the user who asks: the agent has the number where it knows no name."""
    from collector.sources.jobs.slurm.allocations import local_user  # noqa: PLC0415

    user = os.getuid()
    return tuple(filter(None, (local_user(user), str(user))))


def _cells(row: Row) -> tuple[str, ...]:
    facts = (row["id"], row["owner"], row["name"], row["state"], row["gpus"], len(row["nodes"]))
    return _texts(*facts, " ".join(row["incidents"]))


def _texts(*cells: object) -> tuple[str, ...]:
    """Texts of others, without characters that a terminal would obey."""
    from collector.foreign_text import printable  # noqa: PLC0415

    return tuple(printable(str(cell), MAX_CELL) for cell in cells)
