"""Owners of jobs, as ``web.tenants`` writes them: ``user:ada namespace:ml``, or ``*`` for all jobs.

An owner is what the scheduler says of a job: its user in Slurm, its namespace in Kubernetes. A
Slurm account is known from the job's environment alone, which the job writes: it is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

ALL = "*"
# A user as useradd(8) and directory services have them, or the number of one without a name; a
# namespace is a label of RFC 1123.
_NAMES = {
    "user": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,252}\$?"),
    "namespace": re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"),
}


def owner(kind: str, name: str) -> str:
    """The owner of a job, compared whole and with its case; "" where the name is none.

    >>> owner("user", "ada"), owner("namespace", "ml"), owner("user", "")
    ('user:ada', 'namespace:ml', '')
    """
    return f"{kind}:{name}" if _NAMES[kind].fullmatch(name) else ""


def of_allocation(facts: Mapping[str, str]) -> Iterator[str]:
    """Owners that an allocation (a device of the kind ``device_job``) names, "" for one that names
    nobody: the user for whom Slurm started the job, as the kernel has it, or the namespace that the
    kubelet names. A prolog's file names no user, and says nothing against one.
    """
    scheduler = facts.get("scheduler", "")
    if scheduler == "kubernetes":
        yield owner("namespace", facts.get("namespace", ""))
    elif scheduler != "slurm":
        yield ""
    elif user := facts.get("user", ""):
        yield owner("user", user)


def agreed(owners: Iterable[str]) -> str:
    """The one that all name; "" where they differ: a job id that two users claim is nobody's."""
    named = set(owners)
    return named.pop() if len(named) == 1 else ""


def parse(text: str) -> frozenset[str] | None:
    """The owners of a text, None for all jobs. ValueError says what is wrong.

    >>> sorted(parse("user:ada namespace:ml")), parse("*")
    (['namespace:ml', 'user:ada'], None)
    """
    words = text.split()
    if words == [ALL]:
        return None
    if not words:
        raise ValueError(f"names no owner: user:NAME, namespace:NAME, or {ALL} for all jobs")
    for word in words:
        kind, _, name = word.partition(":")
        if kind == "account":
            raise ValueError(
                f"{word!r}: an account is only known from the job's own environment: name its users"
            )
        if kind not in _NAMES or not owner(kind, name):
            raise ValueError(
                f"{word!r}: expected user:NAME, namespace:NAME (exact names), or {ALL} alone"
            )
    return frozenset(words)
